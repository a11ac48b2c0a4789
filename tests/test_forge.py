"""Events of the forges, each with what it asks to be judged."""

from __future__ import annotations

import json

import pytest

from touchgate.gate import forge
from touchgate.gate.forge import EVENTS, Event, Rule

ONE, TWO = "1" * 40, "2" * 40
REPOSITORY = {"repository": {"default_branch": "trunk"}}
PULL = {"pull_request": {"base": {"ref": "main", "sha": TWO}, "head": {"ref": "work", "sha": TWO}}}


@pytest.fixture
def github(tmp_path):
    """Makes the environment of a GitHub job from an event's name, payload and further variables."""

    def make(name, payload, **variables):
        path = tmp_path / "event.json"
        path.write_text(payload if isinstance(payload, str) else json.dumps(payload))
        base = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path), "GITHUB_SHA": ONE}
        return {name: value for name, value in {**base, **variables}.items() if value is not None}

    return make


def gitlab(source, **variables):
    return {
        "GITLAB_CI": "true",
        "CI": "true",
        "CI_PIPELINE_SOURCE": source,
        "CI_COMMIT_SHA": ONE,
        "CI_DEFAULT_BRANCH": "trunk",
        "CI_PROJECT_PATH": "a/b",
        **variables,
    }


def test_outside_of_a_forge_there_is_no_event():
    assert forge.read({}) is None
    assert forge.read({"CI": "true", "GITHUB_TOKEN": "x", "GITHUB_EVENT_NAME": ""}) is None


def test_the_table_has_one_row_for_each_event_and_words_for_all():
    assert len({(row.forge, row.event) for row in EVENTS}) == len(EVENTS)
    assert all(row.why and row.rule in Rule for row in EVENTS)


class TestPullRequests:
    def test_a_merge_ref(self, github):
        environ = github("pull_request", {**REPOSITORY, **PULL}, GITHUB_REF="refs/pull/7/merge")
        assert forge.read(environ) == Event(
            "GitHub",
            "pull_request",
            Rule.PULL_REQUEST,
            target="main",
            default_branch="trunk",
            checkout=ONE,
            head=TWO,
            merge_ref=True,
            target_shas=(TWO,),
        )

    @pytest.mark.parametrize(("variable", "name"), [("FORGEJO_ACTIONS", "Forgejo"), ("GITEA_ACTIONS", "Gitea")])
    def test_a_head_ref(self, github, variable, name):
        event = forge.read(github("pull_request", PULL, GITHUB_REF="refs/pull/7/head", **{variable: "true"}))
        assert (event.forge, event.merge_ref, event.target, event.default_branch) == (name, False, "main", None)
        assert event.label == f"{name}'s pull_request event"

    @pytest.mark.parametrize("name", ["pull_request_sync", "pull_request_review", "pull_request_review_comment"])
    def test_relatives(self, github, name):
        assert forge.read(github(name, PULL)).rule is Rule.PULL_REQUEST

    def test_the_target_comes_from_the_variable_where_the_payload_has_none(self, github):
        payload = {"pull_request": {"base": {}, "head": {"sha": TWO}}}
        assert forge.read(github("pull_request", payload, GITHUB_BASE_REF="next")).target == "next"

    def test_pull_request_target_is_judged_by_its_head_though_the_base_is_checked_out(self, github):
        event = forge.read(github("pull_request_target", PULL, GITHUB_REF="refs/pull/7/merge"))
        assert (event.rule, event.head, event.judge_head, event.merge_ref) == (Rule.PULL_REQUEST, TWO, True, False)

    def test_a_closed_one_is_open(self, github):
        event = forge.read(github("pull_request", {**PULL, "action": "closed"}))
        assert (event.rule, event.reason) == (Rule.OPEN, "the pull request is closed")

    def test_gitlab(self):
        environ = gitlab(
            "merge_request_event", CI_MERGE_REQUEST_TARGET_BRANCH_NAME="main", CI_MERGE_REQUEST_PROJECT_PATH="a/b"
        )
        expected = Event(
            "GitLab", "merge_request_event", Rule.PULL_REQUEST, target="main", default_branch="trunk", checkout=ONE
        )
        assert forge.read(environ) == expected

    @pytest.mark.parametrize(("kind", "merge_ref"), [("detached", False), ("merged_result", True), ("merge_train", False)])
    def test_gitlab_s_merged_results_are_merges_and_trains_are_not_trusted(self, kind, merge_ref):
        environ = gitlab(
            "merge_request_event",
            CI_MERGE_REQUEST_TARGET_BRANCH_NAME="main",
            CI_MERGE_REQUEST_EVENT_TYPE=kind,
            CI_MERGE_REQUEST_SOURCE_BRANCH_SHA=TWO,
        )
        event = forge.read(environ)
        assert (event.merge_ref, event.head) == (merge_ref, TWO)

    def test_gitlab_s_target_in_another_project_is_open(self):
        environ = gitlab(
            "merge_request_event", CI_MERGE_REQUEST_TARGET_BRANCH_NAME="main", CI_MERGE_REQUEST_PROJECT_PATH="up/stream"
        )
        event = forge.read(environ)
        assert (event.rule, event.reason) == (Rule.OPEN, "the target branch lies in another project, up/stream")


class TestPushes:
    def test_a_branch_is_judged_and_before_is_not_looked_at(self, github):
        payload = {**REPOSITORY, "ref": "refs/heads/work", "before": TWO, "after": ONE}
        expected = Event("GitHub", "push", Rule.BRANCH, default_branch="trunk", checkout=ONE, pushed="work")
        assert forge.read(github("push", payload, GITHUB_REF="refs/heads/work")) == expected
        assert forge.read(github("push", payload)) == expected

    def test_the_default_branch_is_due(self, github):
        event = forge.read(github("push", REPOSITORY, GITHUB_REF="refs/heads/trunk"))
        assert (event.rule, event.reason) == (Rule.DUE, "trunk is the default branch itself")

    def test_a_tag_is_due(self, github):
        event = forge.read(github("push", REPOSITORY, GITHUB_REF="refs/tags/v1"))
        assert (event.rule, event.reason) == (Rule.DUE, "v1 is a tag: a whole, not a change")

    def test_a_deletion_is_open(self, github):
        event = forge.read(github("push", {**REPOSITORY, "deleted": True}, GITHUB_REF="refs/heads/work"))
        assert (event.rule, event.reason) == (Rule.OPEN, "the push deletes its branch")

    @pytest.mark.parametrize(
        "ref", [None, "refs/pull/1/head", "refs/heads/", "refs/heads/a..b", "refs/heads/a^{/x}", "refs/heads/-x"]
    )
    def test_no_branch_is_open(self, github, ref):
        assert forge.read(github("push", REPOSITORY, GITHUB_REF=ref)).rule is Rule.OPEN

    def test_gitlab(self):
        assert forge.read(gitlab("push", CI_COMMIT_BRANCH="work")) == Event(
            "GitLab", "push", Rule.BRANCH, default_branch="trunk", checkout=ONE, pushed="work"
        )
        assert forge.read(gitlab("push", CI_COMMIT_BRANCH="trunk")).rule is Rule.DUE
        assert forge.read(gitlab("push", CI_COMMIT_TAG="v1")).rule is Rule.DUE
        assert forge.read(gitlab("push")).rule is Rule.OPEN


class TestOthers:
    def test_a_merge_queue(self, github):
        payload = {**REPOSITORY, "merge_group": {"base_ref": "refs/heads/main", "base_sha": TWO, "head_sha": ONE}}
        expected = Event("GitHub", "merge_group", Rule.MERGE_QUEUE, target="main", default_branch="trunk", checkout=ONE)
        assert forge.read(github("merge_group", payload)) == expected
        assert forge.read(github("merge_group", REPOSITORY)).rule is Rule.OPEN

    @pytest.mark.parametrize(("name", "key"), [("workflow_dispatch", "inputs"), ("repository_dispatch", "client_payload")])
    def test_a_dispatch_with_a_sha_and_without(self, github, name, key):
        event = forge.read(github(name, {key: {"head_sha": f" {TWO.upper()} "}}))
        assert (event.rule, event.head, event.judge_head, event.reason) == (Rule.DISPATCH, TWO, True, "")
        for inputs in (None, {}, {"head_sha": ""}, {"head_sha": None}, {"suite": "full"}):
            event = forge.read(github(name, {key: inputs}))
            assert (event.rule, event.reason) == (Rule.DUE, "started by hand")
        for wrong in ("main", "1234567", "0" * 40, "--x", 7, ["x"]):
            assert forge.read(github(name, {key: {"head_sha": wrong}})).rule is Rule.OPEN

    @pytest.mark.parametrize("name", ["schedule", "release"])
    def test_due_without_a_look_at_the_payload(self, github, name):
        event = forge.read(github(name, "not JSON"))
        assert (event.rule, event.checkout) == (Rule.DUE, ONE)
        assert event.reason

    @pytest.mark.parametrize("name", ["schedule", "web", "chat"])
    def test_due_at_gitlab(self, name):
        assert forge.read(gitlab(name)).rule is Rule.DUE

    @pytest.mark.parametrize("name", ["issue_comment", "workflow_run", "merge_groups", "deployment", "constructor", "Push"])
    def test_unknown_events_are_open(self, github, name):
        event = forge.read(github(name, {}))
        assert event.rule is Rule.OPEN
        assert event.reason

    def test_no_name_at_all_is_open(self):
        assert forge.read({"GITHUB_ACTIONS": "true"}) == Event(
            "GitHub", "unnamed", Rule.OPEN, "there is no rule for this event"
        )
        assert forge.read(gitlab("parent_pipeline")).rule is Rule.OPEN


class TestPayloads:
    @pytest.mark.parametrize(
        ("payload", "reason"),
        [
            ("", "is not JSON"),
            ("{", "is not JSON"),
            ("\udcff".encode("utf-8", "surrogateescape").decode("latin-1"), "is not JSON"),
            ("[" * 200_000, "is not JSON"),
            ("[]", "is not a JSON object"),
            ("null", "is not a JSON object"),
            ('{"repository": 3}', "repository.default_branch is not what it should be"),
            ('{"repository": {"default_branch": 3}}', "repository.default_branch is not a text"),
            ('{"pull_request": []}', "pull_request.base.ref is not what it should be"),
            ('{"pull_request": {"base": "main"}}', "pull_request.base.ref is not what it should be"),
            ('{"pull_request": {"base": {"ref": "a b"}}}', "names the target branch"),
            ("{}", "names the target branch"),
            ('{"pull_request": {"base": {"ref": "main"}, "head": {"sha": "abc"}}}', "is not a full commit id: 'abc'"),
        ],
    )
    def test_what_is_wrong_is_open_with_the_reason(self, github, payload, reason):
        event = forge.read(github("pull_request", payload))
        assert event.rule is Rule.OPEN
        assert reason in event.reason
        assert len(event.reason.splitlines()) == 1

    @pytest.mark.parametrize("path", [None, "/nowhere/event.json", "/"])
    def test_a_payload_that_is_not_there(self, github, path):
        event = forge.read(github("pull_request", PULL, GITHUB_EVENT_PATH=path))
        assert event.rule is Rule.OPEN
        assert "payload" in event.reason

    def test_a_huge_payload(self, github, monkeypatch):
        monkeypatch.setattr(forge, "PAYLOAD_LIMIT", 10)
        assert forge.read(github("pull_request", PULL)).rule is Rule.OPEN

    def test_a_wrong_id_of_the_checkout(self, github):
        event = forge.read(github("push", REPOSITORY, GITHUB_SHA="HEAD", GITHUB_REF="refs/heads/x"))
        assert (event.rule, event.reason) == (Rule.OPEN, "GITHUB_SHA is not a full commit id: 'HEAD'")

"""What went wrong for other people at the gate and in caches: each report, and the test that holds it here.

A test is named as file::test or file::Class::test; `here` marks those below, which build the situation with real git. The
same goes for every row of the table of situations.
"""

from __future__ import annotations

import ast
import json
import os
import random
import tempfile
from pathlib import Path

import pytest

from tests import random_histories
from touchgate.gate import answers, change, cli
from touchgate.gate.asked import Asked
from touchgate.gate.git import Repository
from touchgate.gate.history import depth_of
from touchgate.gate.situations import SITUATIONS

TESTS = Path(__file__).parent

CASES = {
    # the report: (the right answer, the tests)
    "tj-actions/changed-files#668": (
        "RUN, or exact",
        (
            "test_change::TestEvents::test_a_merge_ref_at_depth_one_is_open_with_the_cure",
            "test_remote::TestInACheckout::test_a_merge_ref_at_depth_one_costs_its_first_parent_alone",
        ),
    ),
    "tj-actions/changed-files#737, adafruit/circuitpython#7328": (
        "RUN, or deepen",
        ("test_remote::TestInACheckout::test_steps_end", "test_remote::TestInACheckout::test_not_the_whole_history_comes"),
    ),
    "ocaml/ocaml#12862": (
        "exact, or RUN",
        ("test_change::TestShallow::test_a_merge_base_that_is_too_old_is_not_believed", "here::test_no_proven_base_is_wrong"),
    ),
    "shakacode/react_on_rails#4819, objectstack#6195, geolens#1095": (
        "the pull request's files only",
        ("test_change::TestEvents::test_a_merge_ref_at_depth_two_is_exact",),
    ),
    "jitterbit/get-changed-files#4": (
        "from main",
        ("test_change::TestHistories::test_a_force_push_counts_from_main_and_not_from_the_old_tip",),
    ),
    "nrwl/nx#3274": ("RUN", ("test_change::TestHistories::test_a_branch_cut_from_a_branch_that_was_squashed",)),
    "nrwl/nx-set-shas#135, biosimulations#3384": (
        "the merge base",
        ("test_change::TestAsked::test_a_base_newer_than_the_fork_point_is_judged_from_the_merge_base",),
    ),
    "geolens#1051": (
        "RUN",
        ("test_change::TestEvents::test_unknown_events_are_open", "test_gate_cli::TestOpen::test_an_unknown_event"),
    ),
    "moon#1724, moon#2374": ("exact", ("here::test_the_commit_before_in_a_clone_of_depth_two",)),
    "moon#1796": ("the command line wins", ("test_change::TestAsked::test_the_command_line_wins_over_everything",)),
    "turborepo#9320, turborepo#12650, turborepo#9208": (
        "origin's branch",
        ("test_change::TestAsked::test_a_branch_of_origin_in_a_detached_checkout",),
    ),
    "go-gitea/gitea#33941, #34120, #23919, #23969": (
        "the merge base",
        ("test_change::TestLocal::test_a_branch_is_judged_from_where_it_left_main",),
    ),
    "Forgejo, the first push of a branch": (
        "RUN",
        ("test_change::TestEvents::test_a_push_of_several_commits_and_a_merge_at_the_tip",),
    ),
    "dorny/paths-filter#227, turbo-ea#1030": (
        "RUN",
        ("test_change::TestMoreThanAnApiLists::test_thousands_of_files_before_the_one_that_matters",),
    ),
    "cfa-stf-routine-forecasting#610, AgentDeck#248, Bailo#3840, github/docs#16173": (
        "exit 0, reported",
        ("test_edge_run::test_nothing_touched_ends_with_exit_0_and_says_so", "test_gate_cli::test_nothing_touched"),
    ),
    "tj-actions/changed-files#1567": ("all of them", ("here::test_a_push_of_three_commits",)),
    "nrwl/nx#13677": ("both lanes", ("here::test_a_file_moved_from_one_lane_to_another",)),
    "pants#382, #4529, #14975, #17512, #23240": ("RUN", ("here::test_a_deleted_file",)),
    "tj-actions/changed-files#349, #1302, #2140, #978, target-determinator#11": (
        "RUN",
        ("test_change::TestNested::test_a_bump_two_levels_deep",),
    ),
    "tj-actions/changed-files#216, #217, dorny#162": ("RUN", ("here::test_names_are_bytes",)),
    "dorny#97, #135, #200, #228, deepagents#1730, APIS#603": ("SKIP", ("here::test_a_negative_takes_back_and_adds_nothing",)),
    "slackhq/vscode-hack#229": ("ERR", ("here::test_an_unknown_key",)),
    "nx#23036, nx#26274, turborepo#12338": ("that lane, not the others", ("here::test_a_lane_file_touches_its_own_lanes",)),
    "turborepo#14059, #401, #548": (
        "a miss",
        (
            "test_results_keys::test_the_key_holds_what_changes_results_and_what_is_declared",
            "test_results_keys::test_nothing_undeclared_outside_the_list_is_seen_and_the_key_holds_only_what_is_seen",
        ),
    ),
    "nx#27965, #21144, #28057, #30772": (
        "a miss",
        (
            "test_edge_run::test_an_input_that_changed_while_a_run_waited_is_measured_anew",
            "test_results_contents::test_an_edit_of_the_same_size_in_the_same_instant_is_seen",
        ),
    ),
    "bazel-diff#335": ("the version is in the key", ("test_results_keys::test_whatever_can_change_a_result_changes_the_key",)),
    "snakemake#1694, #3474, #3707, lightcone-cli#213": (
        "no rerun",
        (
            "test_results_contents::test_another_clone_and_another_commit_have_the_same_ids",
            "test_results_keys::test_what_can_not_change_a_result_is_not_in_the_key",
        ),
    ),
    "pydoit/doit#463": (
        "what was finished is kept",
        ("test_edge_run::test_kill_9_in_the_middle_keeps_every_finished_result",),
    ),
    "pydoit/doit#191": ("rebuilt", ("test_edge_run::test_an_interrupt_ends_children_keeps_results_and_exits_130",)),
    "pydoit/doit#445, #278": ("the parent runs", ("here::test_a_lane_runs_with_the_one_that_it_needs",)),
    "vgvassilev/clad#1994": ("unmeasured", ("test_edge_run::test_a_lane_whose_checks_are_all_unmeasured_is_no_pass",)),
    "ai-dynamo/nixl#2194": ("no pass", ("test_checks_pytest::test_all_skipped_is_unmeasured",)),
    "anthony-chaudhary/fak#12679": ("RUN", ("test_included::test_an_included_file_touches",)),
    "CVE-2025-36852 (CREEP)": ("main measures for itself", ("here::test_what_a_branch_patched_answers_nothing_on_main",)),
    "CVE-2025-30066": ("no third-party action", ("here::test_no_third_party_action_is_needed",)),
}

HELD = {
    "a branch behind its target": "test_change::TestLocal::test_a_branch_is_judged_from_where_it_left_main",
    "criss-cross merges": "test_change::TestHistories::test_criss_cross_is_the_union_over_both_merge_bases",
    "unrelated histories": "test_change::TestHistories::test_unrelated",
    "grafts and replace refs": "test_change::TestHistories::test_replaced_and_grafted_commits_are_seen_through",
    "a shallow clone": "here::test_no_proven_base_is_wrong",
    "a merge ref at depth 1": "test_remote::TestInACheckout::test_a_merge_ref_at_depth_one_costs_its_first_parent_alone",
    "a merge ref at depth 2": "test_change::TestEvents::test_a_merge_ref_at_depth_two_is_exact",
    "the author's own merge commit": (
        "test_change::TestEvents::test_the_author_s_own_merge_commit_is_not_taken_for_the_forge_s"
    ),
    "a detached head": "test_change::TestAsked::test_a_branch_of_origin_in_a_detached_checkout",
    "a frozen base sha that main has left behind": "test_change::TestEvents::test_the_frozen_base_sha_alone_is_not_enough",
    "a base branch whose commit is missing": (
        "test_remote::TestInACheckout::test_an_origin_branch_whose_commit_is_missing_is_fetched_and_no_local_one_stands_in"
    ),
    "a force push": "test_change::TestHistories::test_a_force_push_counts_from_main_and_not_from_the_old_tip",
    "a merge queue": "test_change::TestEvents::test_a_merge_queue_counts_from_the_target",
    "a merge train": "here::test_a_merge_train",
    "the first push of a branch": "test_change::TestEvents::test_a_push_of_several_commits_and_a_merge_at_the_tip",
    "a push of several commits": "here::test_a_push_of_three_commits",
    "a push to the default branch": "test_change::TestEvents::test_due",
    "a tag": "test_change::TestEvents::test_due",
    "a schedule": "test_change::TestEvents::test_due",
    "a dispatch with a SHA": "test_remote::TestInACheckout::test_a_dispatched_sha_that_is_not_here_is_fetched",
    "a dispatch without a SHA": "test_change::TestEvents::test_due",
    "an unknown event": "test_change::TestEvents::test_unknown_events_are_open",
    "a remote that fails, hangs or refuses": "test_remote::TestServers::test_one_that_says_nothing",
}


def names_in(file: Path) -> set[str]:
    """The tests of a file, as test or Class::test."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return found


@pytest.mark.parametrize("case", [*CASES, *HELD])
def test_each_has_its_test(case):
    names = CASES[case][1] if case in CASES else (HELD[case],)
    for name in names:
        file, _, test = name.partition("::")
        assert test in names_in(TESTS / ("test_cases.py" if file == "here" else f"{file}.py")), name


def test_each_situation_of_the_table_is_held():
    assert [situation.name for situation in SITUATIONS] == list(HELD)


# ---- the cases that have no test elsewhere


@pytest.fixture
def lanes(project):
    """The decisions of the gate about the branch that is checked out, by lane: "run" or "skip"."""

    def decide(environ=None):
        with Repository(project.root, project.environ) as repo:
            judged = change.resolve(repo, environ=environ or {})
            asked = Asked(None, None, None, (), "smoke", as_json=False)
            answer = answers.decide(repo, judged, asked, project.root, environ or {})
        assert judged.change.open_reason is None
        return {lane.lane: lane.decision.value for lane in answer.decisions}

    return decide


def declare(project, text):
    """Lanes that main has already."""
    project.git("checkout", "-q", "main")
    project.write("tasks/lanes.yml", text)
    project.commit("lanes")
    project.git("checkout", "-q", "-B", "work")


def lane(name, paths, more=""):
    return f"  {name}: {{paths: [{paths}], checks: [command: x]{more}}}\n"


def test_the_commit_before_in_a_clone_of_depth_two(project, tmp_path):
    for name in ("a", "b", "c"):
        project.write(f"src/{name}.txt", "x")
        project.commit(name)
    project.git("clone", "-q", "--depth=2", "--branch=work", f"file://{project.root}", str(tmp_path / "clone"))
    with Repository(tmp_path / "clone", project.environ) as repo:
        judged = change.resolve(repo, base="HEAD~1", head="HEAD", environ={})
    assert judged.change.open_reason is None
    assert [path.path for path in judged.change.paths] == ["src/c.txt"]


def test_a_push_of_three_commits(project, lanes, tmp_path):
    before = project.git("rev-parse", "HEAD")
    for name in ("src/a.txt", "docs/b.md", "docs/c.md"):
        project.write(name, "changed")
        project.commit(name)
    path = tmp_path / "event.json"
    path.write_text(json.dumps({"repository": {"default_branch": "main"}, "before": before}))
    environ = {
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_SHA": project.git("rev-parse", "HEAD"),
        "GITHUB_REF": "refs/heads/work",
    }
    assert lanes(environ) == {"one": "run", "two": "skip"}


def test_a_merge_train(project):
    """A train's commit merges the entry ahead and this one: the target counts, and the entry ahead with it."""
    project.git("checkout", "-q", "-b", "ahead", "main")
    project.write("lib/ahead.txt", "x")
    project.commit("the entry ahead")
    project.git("checkout", "-q", "work")
    project.write("src/mine.txt", "x")
    head = project.commit("mine")
    project.git("checkout", "-q", "--detach", "ahead")
    project.git("merge", "-q", "--no-edit", "work")
    environ = {
        "GITLAB_CI": "true",
        "CI_PIPELINE_SOURCE": "merge_request_event",
        "CI_MERGE_REQUEST_EVENT_TYPE": "merge_train",
        "CI_COMMIT_SHA": project.git("rev-parse", "HEAD"),
        "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": head,
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
    }
    with Repository(project.root, project.environ) as repo:
        judged = change.resolve(repo, environ=environ)
    assert [path.path for path in judged.change.paths] == ["lib/ahead.txt", "src/mine.txt"]


def test_a_file_moved_from_one_lane_to_another(project, lanes):
    project.git("mv", "src/a.txt", "lib/a.txt")
    project.commit("moved")
    assert lanes() == {"one": "run", "two": "run"}


def test_a_deleted_file(project, lanes):
    project.git("rm", "-q", "src/a.txt")
    project.commit("gone")
    assert lanes() == {"one": "run", "two": "skip"}


def test_names_are_bytes(project, lanes):
    declare(
        project, "lanes:\n" + "".join(lane(f"l{n}", f"'kern/{name}'") for n, name in enumerate(("a b.cu", "é.cu", "caf*.cu")))
    )
    assert set(lanes().values()) == {"run"}, "the same commit as main: all is due"
    for number, name in enumerate((b"a b.cu", "é.cu".encode(), b"caf\xe9.cu")):
        file = os.fsencode(project.root) + b"/kern/" + name
        Path(os.fsdecode(file)).parent.mkdir(exist_ok=True)
        try:
            Path(os.fsdecode(file)).write_bytes(b"x")
        except OSError:
            pytest.skip("this file system takes no such name")
        project.commit("one more")
        assert list(lanes().values()).count("run") == number + 1


def test_a_negative_takes_back_and_adds_nothing(project, lanes):
    declare(project, "lanes:\n" + lane("one", "src/**, '!src/**/*.md'"))
    project.write(".github/x.yml", "on: push\n")
    project.write("src/a.md", "x")
    project.commit("neither")
    assert lanes() == {"one": "skip"}


def test_an_unknown_key(project, monkeypatch, capsys):
    project.write("tasks/lanes.yml", "lanes:\n  one:\n    pull_request: {paths: [src/**]}\n    checks: [command: x]\n")
    monkeypatch.chdir(project.root)
    assert cli.main([], project.environ) == 3
    assert "tasks/lanes.yml:3:5" in capsys.readouterr().err


def test_a_lane_file_touches_its_own_lanes(project, lanes):
    declare(project, "lanes:\n" + lane("one", "src/**"))
    project.git("checkout", "-q", "main")
    project.write("tasks/other.yml", "lanes:\n" + lane("other", "lib/**"))
    project.commit("another file")
    project.git("checkout", "-q", "-B", "work")
    project.write("tasks/other.yml", "lanes:\n" + lane("other", "lib/**, docs/**"))
    project.commit("its edit")
    assert lanes() == {"one": "skip", "other": "run"}


def test_a_lane_runs_with_the_one_that_it_needs(project, lanes):
    declare(project, "lanes:\n" + lane("one", "src/**") + lane("two", "lib/**", ", needs: [one]"))
    project.write("src/a.txt", "changed")
    project.commit("src alone")
    assert lanes() == {"one": "run", "two": "run"}


def test_what_a_branch_patched_answers_nothing_on_main(project):
    """A branch patches the tool of a check so that a broken product passes; main, with the product and its own tool, asks.

    The tool is an input by its content, so the branch's pass lies under another key than the one that main looks up. A
    tool outside of the repository is what docs/results.md says that no key knows.
    """
    lane = "lanes:\n  a:\n    paths: [a/**]\n    checks:\n      - {command: sh tools/check.sh, inputs: [tools/check.sh]}\n"
    project.git("checkout", "-q", "main")
    project.write("tasks/lanes.yml", lane)
    project.write("tools/check.sh", "! grep -q broken a/product\n")
    project.write("a/product", "whole\n")
    project.commit("whole")
    project.git("checkout", "-q", "-B", "pull-request")
    project.write("a/product", "broken\n")
    project.write("tools/check.sh", "true\n")
    project.commit("broken, with a tool that does not mind")
    assert project.doit("--all").returncode == 0
    assert "1 cached" in project.doit("--all").stdout
    project.git("checkout", "-q", "main")
    project.git("checkout", "-q", "pull-request", "--", "a/product")
    project.commit("the product alone is merged")
    done = project.doit("--all")
    assert (done.returncode, "cached" in done.stdout) == (1, False)


def test_no_third_party_action_is_needed():
    """Our own workflows and our own action use what the forge itself publishes, or nothing."""
    root = TESTS.parent
    files = [*root.glob(".github/workflows/*.yml"), *root.glob("action.y*ml")]
    used = {
        line.partition("uses:")[2].split("#")[0].strip().strip("'\"")
        for file in files
        for line in file.read_text().splitlines()
        if "uses:" in line and not line.lstrip().startswith("#")
    }
    assert files
    assert {name for name in used if not name.startswith(("actions/", "./"))} == set()


# ---- random histories

MANY = int(os.environ.get("TOUCHGATE_HISTORIES", "0"))
"""Set it to 10000 for the run that docs/gate.md tells of."""


@pytest.mark.parametrize("seed", range(2))
def test_no_proven_base_is_wrong(tmp_path, seed):
    before, after = random_histories.run(12, seed, tmp_path)
    assert before["WRONG"] == after["WRONG"] == 0
    assert sum(before.values()) == 12
    assert after["open"] == 0, "what has a merge base is proven in the end"


@pytest.mark.slow
def test_no_proven_base_is_wrong_in_many_histories():
    with tempfile.TemporaryDirectory() as folder:
        before, after = random_histories.run(MANY or 100, 1_000, Path(folder))
    assert before["WRONG"] == after["WRONG"] == 0
    assert before["proven"] > sum(before.values()) / 4
    assert after["open"] == 0


def test_the_true_merge_bases_are_those_of_git(tmp_path):
    rng = random.Random(7)
    histories = [random_histories.make(rng) for _ in range(20)]
    ids = random_histories.write(tmp_path / "server.git", histories)
    for history, names in zip(histories, ids, strict=True):
        tips = names[history.base], names[history.head]
        found = random_histories.git(tmp_path / "server.git", "merge-base", "--all", *tips)
        assert set(found.split()) == {names[number] for number in history.merge_bases()}


@pytest.mark.parametrize(
    ("border", "depth"), [((), 0), (("a",), 1), (("b",), 2), (("a", "d"), 3), (("elsewhere",), 0)], ids=str
)
def test_how_deep_a_border_lies(border, depth):
    graph = {"a": ("b", "c"), "b": ("d",), "c": ("d",), "d": ()}
    assert depth_of(border, ("a",), graph) == depth

"""Events of GitHub, Forgejo, Gitea and GitLab: what each one asks to be judged.

`EVENTS` is the whole table. `read` finds the row for an environment and fills in what the forge says; it is pure but
for reading the payload file. What can't be told is `Rule.OPEN` with a reason; it is never guessed.
"""

from __future__ import annotations

import os
import re
import stat
from enum import Enum

from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PAYLOAD_LIMIT = 64 << 20
"""Bytes. Forges cap their payloads at 25 MB; a larger file is something else."""


class Rule(str, Enum):
    """What an event means for the change."""

    PULL_REQUEST = "pull request"
    """Judged from the merge base of head with the target branch."""
    MERGE_QUEUE = "merge queue"
    """Judged from the merge base of the queue's commit with the target branch."""
    BRANCH = "branch"
    """Judged from the merge base with the default branch; on the default branch itself, and for a tag, all is due."""
    DISPATCH = "dispatch"
    """Judged like a pull request when it names a SHA; else it was started by hand and everything is due."""
    DUE = "due"
    """Everything is due; what is known already is reused."""
    OPEN = "open"
    """It can't be told what is judged: everything runs."""


class EventRule(NamedTuple):
    """One row: the forge, the event as the forge names it, the rule, and why in words."""

    forge: str
    event: str
    rule: Rule
    why: str


_ACTIONS = "GitHub, Forgejo, Gitea"
_GITLAB = "GitLab"
_TARGET = "from the merge base with the target branch; the merge commit's own first parent where the merge ref is checked out"
_BY_HAND = "a person asked for it, not a change"

EVENTS = (
    EventRule(_ACTIONS, "pull_request", Rule.PULL_REQUEST, _TARGET),
    EventRule(_ACTIONS, "pull_request_sync", Rule.PULL_REQUEST, _TARGET),
    EventRule(_ACTIONS, "pull_request_review", Rule.PULL_REQUEST, _TARGET),
    EventRule(_ACTIONS, "pull_request_review_comment", Rule.PULL_REQUEST, _TARGET),
    EventRule(
        _ACTIONS,
        "pull_request_target",
        Rule.PULL_REQUEST,
        "from the merge base with the target branch; the pull request's head is judged, though the base is checked out",
    ),
    EventRule(
        _ACTIONS,
        "merge_group",
        Rule.MERGE_QUEUE,
        "from the merge base with the target branch: the entries ahead in the queue may still fail",
    ),
    EventRule(
        _ACTIONS,
        "push",
        Rule.BRANCH,
        "from the merge base with the default branch, never from `before`: a superseded run may not have tested that",
    ),
    EventRule(_ACTIONS, "schedule", Rule.DUE, "a schedule follows no change"),
    EventRule(_ACTIONS, "workflow_dispatch", Rule.DISPATCH, _BY_HAND),
    EventRule(_ACTIONS, "repository_dispatch", Rule.DISPATCH, _BY_HAND),
    EventRule(_ACTIONS, "release", Rule.DUE, "a release is a whole, not a change"),
    EventRule(_ACTIONS, "issue_comment", Rule.OPEN, "a comment names no commit"),
    EventRule(_ACTIONS, "workflow_run", Rule.OPEN, "the default branch is checked out, whatever the first workflow tested"),
    EventRule(_GITLAB, "merge_request_event", Rule.PULL_REQUEST, _TARGET),
    EventRule(
        _GITLAB,
        "push",
        Rule.BRANCH,
        "from the merge base with the default branch, never from CI_COMMIT_BEFORE_SHA",
    ),
    EventRule(_GITLAB, "schedule", Rule.DUE, "a schedule follows no change"),
    EventRule(_GITLAB, "web", Rule.DUE, _BY_HAND),
    EventRule(_GITLAB, "chat", Rule.DUE, _BY_HAND),
)
"""Every event that has a rule. One that is not here is open."""

_FULL_ID = "[0-9a-f]{40}|[0-9a-f]{64}"
# What no branch's name holds: in a revision these would mean something else.
_NOT_IN_A_NAME = r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|^-"


class Event(NamedTuple):
    """What a forge says about this run.

    reason: why, where rule is DUE or OPEN. target: the branch to take the merge base with by name, None: the default
    branch. default_branch: the forge's word, or None. checkout: the commit the forge started the run for. head: the tip
    of what is proposed, where it differs from that. merge_ref: `checkout` is a merge of target and head, made by the
    forge. judge_head: `head` itself is judged, whatever is checked out. pushed: the branch that was pushed.
    target_shas: commits that the target branch held when the event was made; it may have moved on since.
    """

    forge: str
    name: str
    rule: Rule
    reason: str = ""
    target: str | None = None
    default_branch: str | None = None
    checkout: str | None = None
    head: str | None = None
    merge_ref: bool = False
    judge_head: bool = False
    pushed: str | None = None
    target_shas: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Such as "GitHub's push event"."""
        return f"{self.forge}'s {self.name} event"


class _Untold(Exception):
    """Something that the rule needs is missing or not what it should be."""


def read(environ: Mapping[str, str]) -> Event | None:
    """The event that this environment describes, or None outside of the forges' jobs."""
    if environ.get("GITHUB_EVENT_NAME") or environ.get("GITHUB_ACTIONS"):
        event = _start(_actions_forge(environ), _ACTIONS, environ.get("GITHUB_EVENT_NAME", ""))
        fill = _fill_actions
    elif environ.get("GITLAB_CI"):
        event = _start("GitLab", _GITLAB, environ.get("CI_PIPELINE_SOURCE", ""))
        fill = _fill_gitlab
    else:
        return None
    if event.rule is Rule.OPEN:
        return event
    try:
        return fill(event, environ)
    except _Untold as untold:
        return event._replace(rule=Rule.OPEN, reason=str(untold))


def is_job(environ: Mapping[str, str]) -> bool:
    """Whether this is a job of a forge's."""
    return any(environ.get(name) for name in ("GITHUB_EVENT_NAME", "GITHUB_ACTIONS", "GITLAB_CI"))


def head_ref(environ: Mapping[str, str]) -> str | None:
    """The full name of the ref that the forge started this job for, or None."""
    ref = environ.get("GITHUB_REF") or environ.get("CI_MERGE_REQUEST_REF_PATH") or ""
    if not ref and environ.get("CI_COMMIT_BRANCH"):
        ref = f"refs/heads/{environ['CI_COMMIT_BRANCH']}"
    return ref if ref.startswith("refs/") and not re.search(_NOT_IN_A_NAME, ref) else None


def workspace(environ: Mapping[str, str]) -> str | None:
    """The folder that a job has for its checkout, or None."""
    return environ.get("GITHUB_WORKSPACE") or environ.get("CI_PROJECT_DIR") or None


def clone_url(environ: Mapping[str, str]) -> str | None:
    """Where the repository that a job is for can be cloned from, or None. May hold a password."""
    server, name = environ.get("GITHUB_SERVER_URL"), environ.get("GITHUB_REPOSITORY")
    if server and name:
        return f"{server.rstrip('/')}/{name}"
    return environ.get("CI_REPOSITORY_URL") or None


class Token:
    """A job's own token, and the only server that it is for. It is never shown."""

    def __init__(self, server: str, user: str, secret: str) -> None:
        self.server = server
        self.user = user
        self.secret = secret


def token(environ: Mapping[str, str]) -> Token | None:
    """The token that a forge gave to this job, or None."""
    server = environ.get("GITHUB_SERVER_URL")
    secret = environ.get("GITEA_TOKEN") or environ.get("GITHUB_TOKEN")
    if server and secret:
        return Token(server, "x-access-token", secret)
    server, secret = environ.get("CI_SERVER_URL"), environ.get("CI_JOB_TOKEN")
    return Token(server, "gitlab-ci-token", secret) if server and secret else None


def _start(forge: str, family: str, name: str) -> Event:
    for row in EVENTS:
        if row.forge == family and row.event == name:
            return Event(forge, name, row.rule, row.why)
    return Event(forge, name or "unnamed", Rule.OPEN, "there is no rule for this event")


def _actions_forge(environ: Mapping[str, str]) -> str:
    if environ.get("FORGEJO_ACTIONS"):
        return "Forgejo"
    return "Gitea" if environ.get("GITEA_ACTIONS") else "GitHub"


# ---- GitHub, Forgejo, Gitea


def _fill_actions(event: Event, environ: Mapping[str, str]) -> Event:
    event = event._replace(checkout=_id(environ.get("GITHUB_SHA"), "GITHUB_SHA"))
    if event.rule is Rule.DUE:
        return event
    payload = _payload(environ)
    default = _text(payload, "repository", "default_branch")
    event = event._replace(default_branch=default, reason="")
    if event.rule is Rule.PULL_REQUEST:
        return _fill_pull_request(event, environ, payload)
    if event.rule is Rule.MERGE_QUEUE:
        target = _branch(_text(payload, "merge_group", "base_ref"))
        if target is None:
            raise _Untold("the payload's merge_group.base_ref names no branch")
        return event._replace(target=target)
    if event.rule is Rule.DISPATCH:
        return _fill_dispatch(event, payload)
    return _fill_push(event, environ.get("GITHUB_REF") or _text(payload, "ref"), deleted=payload.get("deleted") is True)


def _fill_pull_request(event: Event, environ: Mapping[str, str], payload: dict[str, Any]) -> Event:
    target = _branch(_text(payload, "pull_request", "base", "ref") or environ.get("GITHUB_BASE_REF"))
    if target is None:
        raise _Untold("neither the payload's pull_request.base.ref nor GITHUB_BASE_REF names the target branch")
    if payload.get("action") == "closed":
        raise _Untold("the pull request is closed")
    head = _id(_text(payload, "pull_request", "head", "sha"), "the payload's pull_request.head.sha")
    on_target = event.name == "pull_request_target"
    if on_target and head is None:
        raise _Untold("the payload has no pull_request.head.sha, and the commit checked out is the target's")
    merge_ref = re.fullmatch(r"refs/pull/\d+/merge", environ.get("GITHUB_REF", "")) is not None
    held = _id(_text(payload, "pull_request", "base", "sha"), "the payload's pull_request.base.sha")
    return event._replace(
        target=target,
        head=head,
        merge_ref=merge_ref and not on_target,
        judge_head=on_target,
        target_shas=(held,) if held else (),
    )


def _fill_dispatch(event: Event, payload: dict[str, Any]) -> Event:
    inputs = "client_payload" if event.name == "repository_dispatch" else "inputs"
    # Forgejo and Gitea write a null where nothing was asked for.
    head = _text(payload, inputs, "head_sha") if payload.get(inputs) is not None else None
    if not head:
        return event._replace(rule=Rule.DUE, reason="started by hand")
    return event._replace(head=_id(head, f"{inputs}.head_sha"), judge_head=True)


def _fill_push(event: Event, ref: str | None, *, deleted: bool) -> Event:
    if deleted:
        raise _Untold("the push deletes its branch")
    if ref and ref.startswith("refs/tags/"):
        return event._replace(rule=Rule.DUE, reason=f"{ref.removeprefix('refs/tags/')} is a tag: a whole, not a change")
    branch = _branch(ref)
    if branch is None:
        raise _Untold("neither GITHUB_REF nor the payload's ref names the branch that was pushed")
    if branch == event.default_branch:
        return event._replace(rule=Rule.DUE, reason=f"{branch} is the default branch itself")
    return event._replace(pushed=branch)


def _payload(environ: Mapping[str, str]) -> dict[str, Any]:
    import json  # noqa: PLC0415 (only an event with a payload needs it)

    name = environ.get("GITHUB_EVENT_PATH")
    if not name:
        raise _Untold("GITHUB_EVENT_PATH is not set, so the event's payload can't be read")
    try:
        # Not to wait for a writer, should it be a pipe.
        with open(os.open(name, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 (a descriptor)
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _Untold(f"the event's payload {name} is not a file")
            data = file.read(PAYLOAD_LIMIT + 1)
        if len(data) > PAYLOAD_LIMIT:
            raise _Untold(f"the event's payload {name} is larger than {PAYLOAD_LIMIT >> 20} MiB")
        payload = json.loads(data)
    except OSError as error:
        raise _Untold(f"the event's payload can't be read: {name}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _Untold(f"the event's payload {name} is not JSON: {error}") from error
    if not isinstance(payload, dict):
        raise _Untold(f"the event's payload {name} is not a JSON object")
    return payload


def _text(payload: dict[str, Any], *keys: str) -> str | None:
    """The text at a path of keys, None where any of them is missing or null. A wrong type raises."""
    value: Any = payload
    for key in keys:
        if not isinstance(value, dict):
            raise _Untold(f"the payload's {'.'.join(keys)} is not what it should be")
        value = value.get(key)
        if value is None:
            return None
    if not isinstance(value, str):
        raise _Untold(f"the payload's {'.'.join(keys)} is not a text")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _Untold(f"the payload's {'.'.join(keys)} holds half a character: {value[:80]!a}")
    return value.strip()


def _id(text: str | None, source: str) -> str | None:
    """A full commit id, None where there is none. An abbreviation, or the zeros that stand for no commit, raise."""
    text = (text or "").strip()
    if not text:
        return None
    if not re.fullmatch(_FULL_ID, text.lower()) or not text.strip("0"):
        raise _Untold(f"{source} is not a full commit id: {text[:80]!r}")
    return text.lower()


def _branch(ref: str | None) -> str | None:
    """The name of a branch, with or without refs/heads/ in front; None where it is none."""
    name = (ref or "").removeprefix("refs/heads/")
    return None if not name or name.startswith("refs/") or re.search(_NOT_IN_A_NAME, name) else name


def is_branch(name: str) -> bool:
    """Whether this can be the name of a branch."""
    return _branch(name) == name


# ---- GitLab


def _fill_gitlab(event: Event, environ: Mapping[str, str]) -> Event:
    default = _branch(environ.get("CI_DEFAULT_BRANCH"))
    event = event._replace(checkout=_id(environ.get("CI_COMMIT_SHA"), "CI_COMMIT_SHA"), default_branch=default)
    if event.rule is Rule.DUE:
        return event
    event = event._replace(reason="")
    if event.rule is Rule.PULL_REQUEST:
        target = _branch(environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME"))
        if target is None:
            raise _Untold("CI_MERGE_REQUEST_TARGET_BRANCH_NAME names no branch")
        project = environ.get("CI_MERGE_REQUEST_PROJECT_PATH")
        if project and project != environ.get("CI_PROJECT_PATH", project):
            raise _Untold(f"the target branch lies in another project, {project}")
        head = _id(environ.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA"), "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA")
        # In a merge train the first parent is the train's previous entry, which may still fail.
        merged = environ.get("CI_MERGE_REQUEST_EVENT_TYPE") == "merged_result"
        names = ("CI_MERGE_REQUEST_DIFF_BASE_SHA", "CI_MERGE_REQUEST_TARGET_BRANCH_SHA")
        held = tuple(filter(None, (_id(environ.get(name), name) for name in names)))
        return event._replace(target=target, head=head, merge_ref=merged, target_shas=held)
    if environ.get("CI_COMMIT_TAG"):
        return event._replace(rule=Rule.DUE, reason=f"{environ['CI_COMMIT_TAG']} is a tag: a whole, not a change")
    pushed = _branch(environ.get("CI_COMMIT_BRANCH"))
    if pushed is None:
        raise _Untold("CI_COMMIT_BRANCH names no branch")
    if pushed == default:
        return event._replace(rule=Rule.DUE, reason=f"{pushed} is the default branch itself")
    return event._replace(pushed=pushed)

"""What is judged: base, head, their merge base with its proof, and the paths that differ.

Base and head are the options, else TOUCHGATE_BASE and TOUCHGATE_HEAD, else what the forge's event asks for, else the
local rule: the working tree against the default branch. What can't be told makes the change open, with the reason; so
does a merge base that is not proven. A head that was asked for changes what is judged and not what the event means: only
a base that was asked for takes the event's place. The proof is as of what was fetched: of a target branch that has moved
on since, only a forge's payload can tell.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from touchgate.gate import forge, nested
from touchgate.gate.forge import Event, Rule
from touchgate.gate.git import Commit, GitFault, Repository
from touchgate.gate.model import Change, TouchedPath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

FETCH_CURE = "fetch the whole history (`fetch-depth: 0` in CI, or `git fetch --unshallow`)"


@dataclass(frozen=True)
class Judged:
    """A change, and what follows from where it came from.

    due: why everything is due, or None. base_tip: the base branch's tip, whose patterns count beside head's, or None.
    default_branch: its name, with default_branch_from in words; None and "" where unknown.
    """

    change: Change
    due: str | None = None
    base_tip: str | None = None
    default_branch: str | None = None
    default_branch_from: str = ""


class _Untold(Exception):
    """Why it can't be told what is touched."""


@dataclass(frozen=True)
class _Side:
    """Base or head: the commit, and where it came from in words."""

    commit: Commit | None
    source: str
    fault: str = ""
    worktree: bool = False


@dataclass(frozen=True)
class _Default:
    name: str
    source: str
    ref: str = ""
    tip: Commit | None = None


def resolve(
    repo: Repository, *, base: str | None = None, head: str | None = None, environ: Mapping[str, str] = os.environ
) -> Judged:
    """What is judged, by the options, the environment and the repository.

    Raises GitFault only where git can't be used at all.
    """
    asked_base = _asked(base, "TOUCHGATE_BASE", environ)
    asked_head = _asked(head, "TOUCHGATE_HEAD", environ)
    at = repo.commit("HEAD")
    event = None if asked_base else forge.read(environ)
    default = _default_branch(repo, event)
    known = {"default_branch": default.name, "default_branch_from": default.source} if default else {}
    if event:
        event = _pushed_to_default(event, default)
        checked_out = _Side(at, f"the commit checked out, for {event.label}", "" if at else NO_COMMIT)
        side = _find(repo, *asked_head) if asked_head else checked_out
        if event.rule is Rule.OPEN:
            return Judged(_open(_Side(None, event.label), side, f"{event.label}: {event.reason}"), **known)
        if event.rule is Rule.DUE:
            nothing = _Side(None, "nothing: everything is due")
            tip = default.tip.id if default and default.tip else None
            if side.commit is None:
                return Judged(_open(nothing, side, side.fault), **known)
            return Judged(_change(nothing, side, merge_base=None, proof="not needed"), event.reason, tip, **known)
    head_side = _head(repo, at, asked_head, event, worktree=bool(asked_base) or event is None)
    base_side = _base(repo, head_side, asked_base, event, default)
    try:
        merge_bases, proof = _merge_bases(repo, base_side, head_side)
        paths = _touched(repo, merge_bases, head_side)
    except (_Untold, GitFault) as untold:
        return Judged(_open(base_side, head_side, str(untold)), **known)
    change = _change(base_side, head_side, merge_base=merge_bases[0], proof=proof, paths=paths)
    due = None
    if not asked_base and not paths and merge_bases[0] == change.head:
        due = f"{change.head[:12]} is already part of {_branch_name(event, default)}, and nothing else is changed"
    return Judged(change, due, change.base, **known)


NO_COMMIT = "there is no commit yet"


def _asked(option: str | None, variable: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """What was asked for, and by which means."""
    if option:
        return option, f"{option}, from the command line"
    return (environ[variable], f"{environ[variable]}, from {variable}") if environ.get(variable) else None


def _find(repo: Repository, name: str, source: str) -> _Side:
    """The commit that a person's name stands for: a branch, here or at origin, else whatever git takes it for.

    Where it stands for several commits (a tag has the branch's name) it can't be told which is meant.
    """
    missing = f"{name!r} is no commit of this clone; fetch it first"
    stem, suffix = _split(name)
    # Git's own order puts tags before branches, without a word.
    shapes = ("refs/heads/{}", "refs/remotes/origin/{}", "refs/remotes/{}", "refs/{}", "refs/tags/{}")
    refs = [] if not stem or stem in ("HEAD", "@") or _FULL_ID.fullmatch(stem) else [shape.format(stem) for shape in shapes]
    found = repo.commits([*(f"{ref}{suffix}" for ref in refs), name])
    meant = {ref: commit for ref in refs if (commit := found[f"{ref}{suffix}"])}
    if f"refs/heads/{stem}" in meant:
        meant.pop(f"refs/remotes/origin/{stem}", None)
    by_git = found[name]
    if by_git:
        meant.setdefault(name, by_git)
    several = {commit.id: ref for ref, commit in reversed(meant.items())}
    if len(several) > 1:
        each = " and ".join(f"{ref}{suffix if ref != name else ''} ({commit[:12]})" for commit, ref in several.items())
        return _Side(None, source, f"{name!r} is ambiguous: it stands for {each}; write the one that is meant in full")
    ref, commit = next(iter(meant.items()), ("", None))
    if ref.startswith("refs/remotes/origin/") and not by_git:
        source = f"{source}: {ref.removeprefix('refs/remotes/')}"
    return _Side(commit, source, "" if commit else missing)


_FULL_ID = re.compile(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}")
_SUFFIX = re.compile(r"[~^]|@\{")


def _split(name: str) -> tuple[str, str]:
    """A revision as its ref and what follows it, such as ("main", "~1")."""
    at = _SUFFIX.search(name)
    return (name[: at.start()], name[at.start() :]) if at else (name, "")


def _branch(repo: Repository, name: str) -> tuple[str, Commit | None]:
    """The ref of a branch and its tip: origin's, else the local one."""
    for ref in (f"refs/remotes/origin/{name}", f"refs/heads/{name}"):
        tip = repo.commit(ref)
        if tip:
            return ref, tip
    return "", None


def _default_branch(repo: Repository, event: Event | None) -> _Default | None:
    """The forge's word, else origin/HEAD, else origin/main or master, else the local main or master."""
    if event and event.default_branch:
        return _Default(event.default_branch, f"{event.forge}'s word", *_branch(repo, event.default_branch))
    prefix = "refs/remotes/origin/"
    symbolic = repo.symbolic_ref(f"{prefix}HEAD")
    if symbolic and symbolic.startswith(prefix):
        tip = repo.commit(symbolic)
        if tip:
            return _Default(symbolic.removeprefix(prefix), "origin/HEAD", symbolic, tip)
    for ref in (f"{prefix}main", f"{prefix}master", "refs/heads/main", "refs/heads/master"):
        tip = repo.commit(ref)
        if tip:
            name = ref.removeprefix(prefix).removeprefix("refs/heads/")
            source = f"origin/{name}" if ref.startswith(prefix) else f"the local branch {name}"
            return _Default(name, f"{source}, as nothing else names it", ref, tip)
    return None


def _pushed_to_default(event: Event, default: _Default | None) -> Event:
    """The same event, due where the branch that was pushed turns out to be the default one."""
    if event.rule is Rule.BRANCH and default and event.pushed == default.name:
        reason = f"{default.name} is the default branch itself ({default.source})"
        return Event(event.forge, event.name, Rule.DUE, reason, checkout=event.checkout)
    return event


def _branch_name(event: Event | None, default: _Default | None) -> str:
    if event and event.target:
        return event.target
    return default.name if default else "the default branch"


def _head(repo: Repository, at: Commit | None, asked: tuple[str, str] | None, event: Event | None, *, worktree: bool) -> _Side:
    if asked:
        return _find(repo, *asked)
    if at is None:
        return _Side(None, "HEAD", NO_COMMIT, worktree)
    if worktree or event is None:
        return _Side(at, "HEAD with what is uncommitted", worktree=True)
    proposed = {event.checkout, event.head} - {None}
    if event.judge_head and event.head:
        # A pull request's head counts as checked out in a merge of it, too; a dispatched one only as itself.
        if event.head != at.id and not (event.rule is Rule.PULL_REQUEST and event.head in at.parents):
            commit = repo.commit(event.head)
            fault = "" if commit else f"{event.head}, the head of {event.label}, is not in this clone; fetch it first"
            return _Side(commit, f"the head that {event.label} names", fault)
        proposed = set()
    astray = proposed and at.id not in proposed and event.head not in at.parents
    fault = f"the commit checked out, {at.id}, is not the one that {event.label} started this run for" if astray else ""
    return _Side(at, f"the commit checked out, for {event.label}", fault)


def _base(
    repo: Repository, head: _Side, asked: tuple[str, str] | None, event: Event | None, default: _Default | None
) -> _Side:
    if asked:
        return _find(repo, *asked)
    lost = ""
    if event and event.merge_ref and head.commit and _is_merge_of(head.commit, event):
        parent = repo.commit(head.commit.parents[0])
        if parent:
            return _Side(parent, f"{event.target} as {event.forge} merged it: the merge commit's first parent")
        lost = "; with `fetch-depth: 2` the merge commit's first parent would do"
    if event and event.target:
        ref, tip = _branch(repo, event.target)
        name, source = event.target, f"the target branch, for {event.label}"
    elif default:
        ref, tip, name = default.ref, default.tip, default.name
        source = f"the default branch, by {default.source}"
    else:
        return _Side(None, "the default branch", "no default branch is known: neither origin/HEAD nor a main or master")
    short = ref.removeprefix("refs/remotes/").removeprefix("refs/heads/")
    if tip is None:
        fault = f"the branch {name} is not in this clone; {FETCH_CURE}, or `git fetch origin {name}`{lost}"
    else:
        fault = _stale(repo, name, tip, event)
    return _Side(tip, f"{short or name}, {source}", fault)


def _stale(repo: Repository, name: str, tip: Commit, event: Event | None) -> str:
    """What is wrong where the forge names a commit of the target branch that the ref in this clone does not hold."""
    if event is None:
        return ""
    for sha in event.target_shas:
        if sha != tip.id and (repo.commit(sha) is None or not repo.is_ancestor(sha, tip.id)):
            return (
                f"{event.label} names {sha[:12]} as a commit of {name}, and the {name} of this clone, {tip.id[:12]}, "
                f"is not known to hold it: it is older, or rewritten; run `git fetch origin {name}`, without a depth"
            )
    return ""


def _is_merge_of(commit: Commit, event: Event) -> bool:
    """Whether a commit is the merge of target and head that the forge made for this event.

    The head as second parent shows it: without that, it may be a merge that the author made, whose first parent is the
    author's own last commit.
    """
    two = len(commit.parents) == 2  # noqa: PLR2004 (target and head)
    return two and event.head == commit.parents[1] and event.checkout in (None, commit.id)


def _merge_bases(repo: Repository, base: _Side, head: _Side) -> tuple[tuple[str, ...], str]:
    """The merge bases, one or more, and how they are known. Raises _Untold for what is not proven."""
    fault = base.fault or head.fault
    if head.commit is None or base.commit is None or fault:
        raise _Untold(head.fault or base.fault)
    if sys.getfilesystemencoding().lower() not in ("utf-8", "utf8"):
        raise _Untold("names of files are not read as UTF-8 here, so patterns can't be matched; set PYTHONUTF8=1")
    one, other = base.commit, head.commit
    if one.id == other.id:
        return (one.id,), "base and head are one commit"
    if one.id in other.parents:
        return (one.id,), "base is a parent of head"
    found = repo.merge_bases(one.id, other.id)
    shallow = repo.shallow_commits()
    if shallow:
        return found, _shallow_proof(found, shallow, lambda: repo.reachable([one.id, other.id], without=found))
    if not found:
        raise _Untold("base and head have no history in common")
    if len(found) > 1:
        return found, f"the whole history is here; {len(found)} merge bases, so what differs from any of them counts"
    return found, "the whole history is here"


def _shallow_proof(found: Sequence[str], shallow: frozenset[str], above: Callable[[], Sequence[str]]) -> str:
    """Why what a shallow clone shows as the merge base is the true one. Raises _Untold where that can't be known.

    found: what git shows. shallow: the commits whose parents were cut off. above: the commits reachable from base or
    head and not from the merge base: a common ancestor that is not an ancestor of the one found could only hide behind
    a border among those.
    """
    if not found:
        raise _Untold(f"base and head have no commit in common in this shallow clone; {FETCH_CURE}")
    if len(found) > 1:
        raise _Untold(f"this shallow clone shows {len(found)} merge bases, and can't tell which are real; {FETCH_CURE}")
    looked_at = above()
    cut = shallow.intersection(looked_at)
    if cut:
        raise _Untold(
            f"this shallow clone shows {found[0][:12]} as the merge base, but a nearer one may lie behind "
            f"{len(cut)} of the {len(looked_at)} commits above it, whose parents were cut off; {FETCH_CURE}"
        )
    return f"a shallow clone, but none of the {len(looked_at)} commits above the merge base is cut off from its parents"


def _touched(repo: Repository, merge_bases: Iterable[str], head: _Side) -> tuple[TouchedPath, ...]:
    """What differs between head and any of the merge bases, sorted by path."""
    if head.commit is None:
        raise _Untold(head.fault)
    lists = [nested.between(repo, merge_base, head.commit.id) for merge_base in merge_bases if merge_base != head.commit.id]
    if head.worktree:
        lists.append(nested.uncommitted(repo))
    if len(lists) == 1 and not head.worktree:
        return tuple(lists[0])  # as git sorted them
    by_path = {touched.path: touched for one in lists for touched in one}
    return tuple(by_path[path] for path in sorted(by_path))


def _change(
    base: _Side,
    head: _Side,
    *,
    merge_base: str | None,
    proof: str,
    paths: tuple[TouchedPath, ...] = (),
    reason: str | None = None,
) -> Change:
    return Change(
        base=base.commit.id if base.commit else None,
        head=head.commit.id if head.commit else None,
        merge_base=merge_base,
        proof=proof,
        base_from=base.source,
        head_from=head.source,
        head_is_worktree=head.worktree,
        paths=paths,
        open_reason=reason,
    )


def _open(base: _Side, head: _Side, reason: str) -> Change:
    return _change(base, head, merge_base=None, proof="none", reason=reason)

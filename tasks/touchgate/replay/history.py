"""Which changes are played: the last merges of a branch along its first parents, or its commits where it has no merge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from touchgate.gate import change as change_of
from touchgate.gate import sides

if TYPE_CHECKING:
    from touchgate.gate.git import Commit, Repository

RECENT = 50
"""A branch without a merge among so many commits is one that gets its changes squashed or rebased."""
MANY = 1 << 20
"""So many plain commits are counted and no more."""


class NoHistory(Exception):
    """There is nothing to play: why, one line."""


@dataclass(frozen=True)
class Merge:
    """One change as it came into the branch. base, head: commit ids, as a gate of that time would have been called."""

    commit: str
    subject: str
    base: str
    head: str


@dataclass(frozen=True)
class History:
    """The changes, the newest first. branch: in words. kind: "merges" or "commits". notes: sentences."""

    branch: str
    tip: str
    kind: str
    merges: tuple[Merge, ...]
    notes: tuple[str, ...] = ()


def read(repo: Repository, last: int, *, branch: str | None = None, commits: bool = False) -> History:
    """The last changes of a branch; the default branch where none is given. Raises NoHistory and GitFault.

    Merges are the commits with several parents among those that first parents lead to: base is the first parent, head
    the second. With more than two parents head is the merge itself, since no single parent holds all of the change.
    `commits`, or no merge among the last commits (they are squashed or rebased): every commit on that line, against its
    first parent.
    """
    words, tip = _tip(repo, branch)
    notes: list[str] = []
    recent = repo.first_parents(tip.id, max(last, RECENT))
    if commits or all(len(commit.parents) < 2 for commit, _ in recent):  # noqa: PLR2004
        kind, found = "commits", recent[:last]
        if not commits:
            line = "so each commit on that line is played against its parent"
            notes.append(f"there is no merge among the last {len(recent)} along first parents, {line}")
    else:
        kind, found = "merges", repo.first_parents(tip.id, last, merges=True)
    played = tuple(_merge(commit, subject, whole=commits) for commit, subject in found if commit.parents)
    if kind == "merges" and played:
        notes += _left_out(repo, tip, found)
    notes += _octopus(found) if kind == "merges" else []
    if len(played) < last and (cut := repo.shallow_commits()):
        notes.append(
            f"this clone is shallow: history is cut off at {len(cut)} commit{'' if len(cut) == 1 else 's'}, and what lies "
            "behind was not played; `git fetch --unshallow` brings it"
        )
    if not played:
        raise NoHistory(" ".join([f"{words} has no change to play: no commit of it has a parent here", *notes[1:]]))
    return History(words, tip.id, kind, played, tuple(notes))


def _tip(repo: Repository, branch: str | None) -> tuple[str, Commit]:
    if branch:
        tip = repo.commit(branch)
        if tip is None:
            raise NoHistory(sides.names_nothing(repo, branch, "`git fetch`"))
        return branch, tip
    # Asked about two commits, so that the working tree is not looked at.
    judged = change_of.resolve(repo, base="HEAD", head="HEAD", environ={})
    name = judged.default_branch
    for ref in (f"refs/remotes/origin/{name}", f"refs/heads/{name}") if name else ():
        tip = repo.commit(ref)
        if tip:
            short = ref.removeprefix("refs/remotes/").removeprefix("refs/heads/")
            return f"{short} (the default branch, by {judged.default_branch_from})", tip
    tip = repo.commit("HEAD")
    if tip is None:
        raise NoHistory("there is no commit yet")
    return "HEAD (no default branch is known)", tip


def _merge(commit: Commit, subject: str, *, whole: bool) -> Merge:
    several = len(commit.parents) == 2 and not whole  # noqa: PLR2004 (target and head)
    return Merge(commit.id, subject, commit.parents[0], commit.parents[1] if several else commit.id)


def _octopus(found: list[tuple[Commit, str]]) -> list[str]:
    many = [commit for commit, _ in found if len(commit.parents) > 2]  # noqa: PLR2004
    if not many:
        return []
    first = many[0].id[:12]
    return [f"merges of more than two parents are judged whole, against their first parent: {len(many)}, such as {first}"]


def _left_out(repo: Repository, tip: Commit, found: list[tuple[Commit, str]]) -> list[str]:
    between = repo.first_parents(f"{found[-1][0].id}..{tip.id}", MANY)
    plain = len(between) - (len(found) - 1)
    if not plain:
        return []
    verb = "commit on that line is no merge and was" if plain == 1 else "commits on that line are no merges and were"
    return [f"{plain} {verb} not played; --commits plays every one"]

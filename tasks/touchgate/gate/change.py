"""What is judged: base, head, their merge base with its proof, and the paths that differ.

Base and head are the options, else TOUCHGATE_BASE and TOUCHGATE_HEAD, else what the forge's event asks for, else the
local rule: the working tree against the default branch. What can't be told makes the change open, with the reason; so
does a merge base that is not proven. What is missing for that is fetched, where it may be, step by step.
"""

from __future__ import annotations

import os
import sys

from touchgate.gate import forge, nested, sides
from touchgate.gate.forge import Event, Rule
from touchgate.gate.git import GitFault, Repository
from touchgate.gate.history import Fetch, Lack, Untold, prove
from touchgate.gate.model import Change, TouchedPath
from touchgate.gate.sides import Default, Side
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from touchgate.gate.remote import Remote


class Judged(NamedTuple):
    """A change, and what follows from where it came from.

    due: why everything is due, or None. base_tip: the base branch's tip, whose patterns count beside head's, or None.
    default_branch: its name, with default_branch_from in words; None and "" where unknown. merge_bases: all of them,
    the first one is the change's. notes: what was fetched, in words.
    """

    change: Change
    due: str | None = None
    base_tip: str | None = None
    default_branch: str | None = None
    default_branch_from: str = ""
    merge_bases: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def resolve(
    repo: Repository,
    *,
    base: str | None = None,
    head: str | None = None,
    environ: Mapping[str, str] = os.environ,
    fetch: Fetch = Fetch.NEVER,
) -> Judged:
    """What is judged, by the options, the environment and the repository. fetch: whether a remote may be asked.

    Raises GitFault only where git can't be used at all.
    """
    judgement = _Judgement(repo, base, head, environ, present=fetch is not Fetch.NEVER and forge.is_job(environ))
    judged, lack = judgement.judged()
    if fetch is Fetch.FRESH:
        lack = judgement.freshen() or lack
    if lack is None or fetch is Fetch.NEVER:
        return judged
    try:
        remote = repo.remote or _attach(repo, environ)
        while lack and remote.bring(lack):
            judged, lack = judgement.judged()
        fault, notes = remote.fault, remote.told()
    except GitFault as cannot:
        fault, notes = str(cannot), ()
    if fault and judged.change.open_reason:
        reason = judged.change.open_reason
        reason = f"{reason}{'' if reason.endswith('?') else ';'} fetching it failed: {fault}"
        judged = judged._replace(change=judged.change._replace(open_reason=reason))
    elif fault:
        notes = (*notes, f"fetching failed: {fault}; judged by what is here")
    return judged._replace(notes=notes)


def _attach(repo: Repository, environ: Mapping[str, str]) -> Remote:
    from touchgate.gate import remote  # noqa: PLC0415 (most runs fetch nothing)

    return remote.attach(repo, environ)


class _Judgement:
    """The same question, asked again each time that more is here."""

    def __init__(
        self, repo: Repository, base: str | None, head: str | None, environ: Mapping[str, str], *, present: bool
    ) -> None:
        self._repo = repo
        self._asked_base = sides.asked(base, "TOUCHGATE_BASE", environ)
        self._asked_head = sides.asked(head, "TOUCHGATE_HEAD", environ)
        self._event = None if self._asked_base else forge.read(environ)
        # Without a checkout a base alone is measured against what the event is for.
        self._for = forge.read(environ) if self._asked_base and (repo.is_bare or present) else self._event
        self._present = present

    def freshen(self) -> Lack | None:
        """The base branch, to be fetched whether or not it is here."""
        if self._asked_base:
            return sides.lack_of(self._repo, self._asked_base[0])
        default = sides.default_branch(self._repo, self._event)
        name = (self._event and self._event.target) or (default and default.name)
        return Lack(branches=(name,)) if name else Lack(default_branch=True)

    def judged(self) -> tuple[Judged, Lack | None]:
        """What is judged by what is here, and what would have to be fetched where that is open."""
        event = self._event
        default = sides.default_branch(self._repo, event)
        judged, lack = self._judged(event, default)
        if default:
            judged = judged._replace(default_branch=default.name, default_branch_from=default.source)
        return judged, lack

    def _judged(self, event: Event | None, default: Default | None) -> tuple[Judged, Lack | None]:
        repo, asked_base, asked_head = self._repo, self._asked_base, self._asked_head
        at = sides.checked_out(repo, self._for if repo.is_bare else event)
        if event:
            event = sides.pushed_to_default(event, default)
            side = sides.find(repo, *asked_head) if asked_head else at
            if event.rule is Rule.OPEN:
                reason = f"{event.label}: {event.reason}"
                return Judged(_open(Side(None, event.label), side, reason)), None
            if event.rule is Rule.DUE:
                nothing = Side(None, "nothing: everything is due")
                tip = default.tip.id if default and default.tip else None
                if side.commit is None:
                    return Judged(_open(nothing, side, side.fault)), side.lack
                change = _change(nothing, side, merge_base=None, proof="not needed")
                return Judged(change, event.reason, tip), None
        head = sides.head(repo, at, asked_head, event, worktree=bool(asked_base) or event is None)
        if asked_base:
            base = sides.asked_base(repo, asked_base, self._for if self._present else None)
        else:
            base = sides.base(repo, head, event, default, present=self._present)
        try:
            merge_bases, proof = _merge_bases(repo, base, head)
            paths, is_clean = _touched(repo, merge_bases, head)
        except Untold as untold:
            return Judged(_open(base, head, str(untold))), untold.lack
        except GitFault as fault:
            return Judged(_open(base, head, str(fault))), None
        if is_clean:
            head = head._replace(source=sides.CLEAN)
        change = _change(base, head, merge_base=merge_bases[0], proof=proof, paths=paths)
        due = None
        if not asked_base and not paths and merge_bases[0] == change.head:
            name = sides.branch_name(event, default)
            due = f"{change.head[:12]} is already part of {name}, and nothing else is changed"
        return Judged(change, due, change.base, merge_bases=merge_bases), None


def _merge_bases(repo: Repository, base: Side, head: Side) -> tuple[tuple[str, ...], str]:
    """The merge bases, one or more, and how they are known. Raises Untold for what is not proven."""
    if head.commit is None or base.commit is None or base.fault or head.fault:
        raise Untold(head.fault or base.fault, _both(base, head))
    if sys.getfilesystemencoding().lower() not in ("utf-8", "utf8"):
        raise Untold("names of files are not read as UTF-8 here, so patterns can't be matched; set PYTHONUTF8=1")
    one, other = base.commit, head.commit
    if one.id == other.id:
        return (one.id,), "base and head are one commit"
    if one.id in other.parents:
        return (one.id,), "base is a parent of head"
    found = repo.merge_bases(one.id, other.id)
    tips = (one.id, other.id)
    return found, prove(found, tips, repo.shallow_commits(), lambda without: repo.reachable(tips, without))


def _both(base: Side, head: Side) -> Lack | None:
    """What both sides lack; None where one of them has a fault that no fetch cures."""
    if (head.fault and not head.lack) or (base.fault and not base.lack):
        # Without a head nothing is known of its merge: its base is asked for afterwards.
        return head.lack if head.lack and head.commit is None else None
    lacks = [side.lack for side in (head, base) if side.lack]
    if len(lacks) < 2 or any(lack.otherwise or lack.deepen for lack in lacks):  # noqa: PLR2004 (both)
        return lacks[0] if lacks else None
    return Lack(lacks[0].branches + lacks[1].branches, lacks[0].commits + lacks[1].commits)


def _touched(repo: Repository, merge_bases: Iterable[str], head: Side) -> tuple[tuple[TouchedPath, ...], bool]:
    """What differs between head and any of the merge bases, sorted by path; and whether a working tree has nothing more."""
    if head.commit is None:
        raise Untold(head.fault)
    lists = [nested.between(repo, merge_base, head.commit.id) for merge_base in merge_bases if merge_base != head.commit.id]
    uncommitted = nested.uncommitted(repo) if head.worktree else []
    if len(lists) == 1 and not head.worktree:
        return tuple(lists[0]), False  # as git sorted them
    by_path = {touched.path: touched for one in (*lists, uncommitted) for touched in one}
    return tuple(by_path[path] for path in sorted(by_path)), head.worktree and not uncommitted


def _change(
    base: Side,
    head: Side,
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


def _open(base: Side, head: Side, reason: str) -> Change:
    return _change(base, head, merge_base=None, proof="none", reason=reason)

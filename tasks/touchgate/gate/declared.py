"""The lanes of both sides of a change: as head declares them, and as the base branch's tip does (rule 3)."""

from __future__ import annotations

from types import MappingProxyType

from touchgate.gate import sources
from touchgate.gate.declarations import read_lanes
from touchgate.gate.git import GitFault
from touchgate.gate.included import Inclusion, included
from touchgate.gate.located import DeclarationError
from touchgate.gate.plan import touched_but_gone
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from touchgate.gate.change import Judged
    from touchgate.gate.git import Repository
    from touchgate.gate.model import Included, Lane
    from touchgate.gate.sources import Sources


class Declared(NamedTuple):
    """judged: the change, open where the base's lanes can't be read. base: None where the base's tip is not known.

    gained: lanes that only the base declares, that the change touches, and that head can't have removed, since the merge
    base did not declare them.
    """

    judged: Judged
    head: Mapping[str, Lane]
    base: Mapping[str, Lane] | None
    gained: frozenset[str] = frozenset()
    included: Mapping[str, Included] = MappingProxyType({})
    """What touches lanes through what their sources include."""
    vacant: tuple[str, ...] = ()
    """Each `each` of head that stands for no folder any more, in words."""
    untold: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Of lanes that are touched by nothing, the places in what their sources include that only a run can tell."""


def read_both(
    repo: Repository,
    judged: Judged,
    kinds: Mapping[str, Collection[str]] | None = None,
    *,
    reserved: Collection[str] = (),
    found: Sources | None = None,
) -> Declared:
    """Read the lanes of both sides. Raises DeclarationError for head's; a fault in the base's makes the answer open.

    kinds, reserved: as in `declarations.read_lanes`, and for head only: the base's lanes are read for their paths.
    found: the lane files, where they were read already.
    """
    try:
        found = found or sources.read(repo, judged)
    except GitFault as fault:
        if judged.base_tip is None:
            raise
        # It may be the base's alone that are missing.
        found = sources.read(repo, judged._replace(base_tip=None))
        judged = opened(judged, str(fault))
    folders = _Remembered(sources.head_folders(repo, judged))
    read_file = sources.head_reader(repo, judged)
    base_folders = _Remembered(sources.base_folders(repo, judged))
    vacant = _Vacant(judged, found, base_folders)
    head = read_lanes(found.head, kinds, read_file=read_file, folders=folders, reserved=reserved, may_be_empty=vacant)
    declared = _compare(repo, judged, found, head, folders, base_folders)
    return declared._replace(vacant=tuple(vacant.notes))


def _compare(
    repo: Repository,
    judged: Judged,
    found: Sources,
    head: Mapping[str, Lane],
    folders: _Remembered,
    base_folders: _Remembered,
) -> Declared:
    """Head's lanes beside the base's."""
    if found.base is None:
        return _with(Declared(judged, head, None), included(repo, judged, head, None))
    try:
        if found.base == found.head and _declared_within(head, found.head) and folders.agree_with(base_folders):
            return _with(Declared(judged, head, head), included(repo, judged, head, head))
        read_file = sources.base_reader(repo, judged)
        base = read_lanes(found.base, read_file=read_file, folders=base_folders, may_be_empty=_always)
    except (DeclarationError, GitFault) as error:
        first = str(error).partition("\n")[0]
        return Declared(opened(judged, f"the lane files of the base branch's tip can't be read: {first}"), head, None)
    if base and not found.head:
        # Removed on purpose, or left out of the checkout, or not there yet: a look at the reason is cheap.
        reason = "head declares no lane, though the base branch's tip does: merge it, or bring the lane files back"
        return Declared(opened(judged, reason), head, base, frozenset(base))
    reached = included(repo, judged, head, base)
    return _with(Declared(judged, head, base, _gained(repo, judged, head, base, reached.touched)), reached)


def _with(declared: Declared, reached: Inclusion) -> Declared:
    return declared._replace(included=reached.touched, untold=reached.untold)


def _gained(
    repo: Repository,
    judged: Judged,
    head: Mapping[str, Lane],
    base: Mapping[str, Lane],
    reached: Mapping[str, Included],
) -> frozenset[str]:
    touched = touched_but_gone(head, base, judged.change, reached)
    if not touched or judged.change.merge_base is None:
        return frozenset()
    removed = touched
    for merge_base in judged.merge_bases or (judged.change.merge_base,):
        if merge_base == judged.base_tip:
            continue
        try:
            before = read_lanes(
                sources.at_commit(repo, merge_base),
                read_file=sources.commit_reader(repo, merge_base),
                folders=sources.commit_folders(repo, merge_base),
                may_be_empty=_always,
            )
        except (DeclarationError, GitFault):
            # What it declared can't be told, so nothing shows that head removed a lane.
            return touched
        # Of several merge bases one without the lane is enough: head may have come from that one.
        removed = removed.intersection(before)
    return touched - removed


def _always(file: str, patterns: Sequence[str]) -> bool:  # noqa: ARG001  as `_Vacant` is called
    return True


class _Vacant:
    """Whether an `each` of head may stand for no folder: where that may be no mistake in it.

    Its folders went with this change; or its file is as it is at the base branch's tip, so they went before; or it can't be
    told, and everything runs anyway.
    """

    def __init__(self, judged: Judged, found: Sources, base_folders: _Remembered) -> None:
        self.notes: list[str] = []
        self._judged = judged
        self._found = found
        self._base_folders = base_folders

    def __call__(self, file: str, patterns: Sequence[str]) -> bool:
        what = f"'each' of {' '.join(patterns)} in {file}"
        if self._found.base is None:
            is_known = self._judged.change.open_reason is None and self._judged.due is None
        else:
            is_known = self._found.base.get(file) != self._found.head[file] and not self._were_there(patterns)
        if not is_known:
            self.notes.append(f"note: {what} matches no folder, so its lanes are gone: take it out")
        return not is_known

    def _were_there(self, patterns: Sequence[str]) -> bool:
        from touchgate.gate.each import matches_any  # noqa: PLC0415  only lanes with `each` ask

        try:
            return matches_any(patterns, self._base_folders)
        except GitFault:
            return True


class _Remembered:
    """Lists folders, each once, and knows which were asked for."""

    def __init__(self, folders: Callable[[str], tuple[str, ...]]) -> None:
        self._folders = folders
        self._seen: dict[str, tuple[str, ...]] = {}

    def __call__(self, path: str) -> tuple[str, ...]:
        if path not in self._seen:
            self._seen[path] = self._folders(path)
        return self._seen[path]

    def agree_with(self, other: _Remembered) -> bool:
        """Whether every folder that was asked for here holds the same folders there."""
        return all(other(path) == names for path, names in self._seen.items())


def _declared_within(lanes: Mapping[str, Lane], files: Mapping[str, bytes]) -> bool:
    """Whether the lane files say it all: a pattern may come from a workflow, which can differ where these are equal."""
    return all(pattern.at.file in files for lane in lanes.values() for pattern in lane.paths)


def opened(judged: Judged, reason: str) -> Judged:
    """The same judgement, with everything to run for a reason found later; an earlier reason stands."""
    change = judged.change
    return judged._replace(change=change._replace(open_reason=change.open_reason or reason, paths=()))

"""The lanes of both sides of a change: as head declares them, and as the base branch's tip does (rule 3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from touchgate.gate import sources
from touchgate.gate.declarations import read_lanes
from touchgate.gate.located import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from touchgate.gate.change import Judged
    from touchgate.gate.git import Repository
    from touchgate.gate.model import Lane


@dataclass(frozen=True)
class Declared:
    """judged: the change, open where the base's lanes can't be read. base: None where the base's tip is not known."""

    judged: Judged
    head: Mapping[str, Lane]
    base: Mapping[str, Lane] | None


def read_both(
    repo: Repository,
    judged: Judged,
    kinds: Mapping[str, Collection[str]] | None = None,
    *,
    reserved: Collection[str] = (),
) -> Declared:
    """Read the lanes of both sides. Raises DeclarationError for head's; a fault in the base's makes the answer open.

    kinds, reserved: as in `declarations.read_lanes`, and for head only: the base's lanes are read for their paths.
    """
    found = sources.read(repo, judged)
    head = read_lanes(found.head, kinds, read_file=sources.head_reader(repo, judged), reserved=reserved)
    if found.base is None:
        return Declared(judged, head, None)
    if found.base == found.head and _declared_within(head, found.head):
        return Declared(judged, head, head)
    try:
        base = read_lanes(found.base, read_file=sources.base_reader(repo, judged))
    except DeclarationError as error:
        first = str(error).partition("\n")[0]
        return Declared(opened(judged, f"the lane files of the base branch's tip can't be read: {first}"), head, None)
    return Declared(judged, head, base)


def _declared_within(lanes: Mapping[str, Lane], files: Mapping[str, bytes]) -> bool:
    """Whether the lane files say it all: a pattern may come from a workflow, which can differ where these are equal."""
    return all(pattern.at.file in files for lane in lanes.values() for pattern in lane.paths)


def opened(judged: Judged, reason: str) -> Judged:
    """The same judgement, with everything to run for a reason found later; an earlier reason stands."""
    change = judged.change
    return replace(judged, change=replace(change, open_reason=change.open_reason or reason, paths=()))

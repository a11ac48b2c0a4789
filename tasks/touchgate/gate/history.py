"""When a merge base may be believed, and what has to be fetched where it may not. Pure.

In a shallow clone git can answer with an older, wrong merge base and succeed, and that can hide a touched file. The rule: X,
one commit, is the true merge base of two tips where none of the commits that are reachable from the tips and not from X
is cut off from its parents. A common ancestor that is not an ancestor of X could hide only behind such a cut.
"""

from __future__ import annotations

from enum import Enum

from touchgate.gate.forge import is_job
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

FETCH_CURE = "fetch the whole history (`fetch-depth: 0` in CI, or `git fetch --unshallow`), or give --fetch"

STEPS = tuple(16 * 4**step for step in range(8))
"""By how many commits both tips are deepened, one step after the other. The sum bounds what is ever fetched."""


class Fetch(Enum):
    """Whether a remote is asked."""

    NEVER = "never"
    NEEDED = "needed"
    """For what is missing here, and as much of it as the proof needs."""
    FRESH = "fresh"
    """The same, and the base branch's tip as it is now, also where one is here."""


def wish(option: bool | None, environ: Mapping[str, str]) -> Fetch:
    """What --fetch (True), --no-fetch (False) or neither (None) mean: a forge's job fetches by itself."""
    if option is None:
        return Fetch.NEEDED if is_job(environ) else Fetch.NEVER
    return Fetch.FRESH if option else Fetch.NEVER


class Lack(NamedTuple):
    """What would have to be fetched so that more can be told.

    branches: names of branches (or tags). commits: full ids. deepen: ids of commits whose history has to reach further
    back. default_branch: the branch that the remote's HEAD names. otherwise: what would do as well, where this can't be had.
    """

    branches: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    deepen: tuple[str, ...] = ()
    default_branch: bool = False
    otherwise: Lack | None = None


class Untold(Exception):
    """Why it can't be told what is touched, and what would have to be fetched, if that is all."""

    def __init__(self, reason: str, lack: Lack | None = None) -> None:
        super().__init__(reason)
        self.lack = lack


def depth_of(border: Collection[str], tips: Sequence[str], graph: Mapping[str, Sequence[str]]) -> int:
    """How many commits lie between the tips and the farthest commit of the border, both ends counted."""
    depth = deepest = 0
    level, seen = set(tips), set(tips)
    while level:
        depth += 1
        if not level.isdisjoint(border):
            deepest = depth
        level = {parent for commit in level for parent in graph.get(commit, ())} - seen
        seen |= level
    return deepest


def prove(
    found: Sequence[str], tips: tuple[str, str], shallow: frozenset[str], above: Callable[[Sequence[str]], Sequence[str]]
) -> str:
    """How it is known that `found` are the merge bases of the two tips. Raises Untold where that can't be known.

    found: what git shows. shallow: the commits whose parents were cut off. above: the commits reachable from the tips and
    not from those it is given.
    """
    if not shallow:
        return _whole(found, "the whole history is here")
    deepen = Lack(deepen=tips)
    if len(found) != 1:
        # Of several one may be a hidden ancestor of another: only without any cut are they what they seem.
        if not shallow.intersection(above(())):
            return _whole(found, "a shallow clone, but base and head are here with their whole history")
        if not found:
            raise Untold(f"base and head have no commit in common in this shallow clone; {FETCH_CURE}", deepen)
        raise Untold(f"this shallow clone shows {len(found)} merge bases, and can't tell which are real; {FETCH_CURE}", deepen)
    looked_at = above(found)
    cut = shallow.intersection(looked_at)
    if cut:
        raise Untold(
            f"this shallow clone shows {found[0][:12]} as the merge base, but a nearer one may lie behind "
            f"{len(cut)} of the {len(looked_at)} commits above it, whose parents were cut off; {FETCH_CURE}",
            deepen,
        )
    return f"a shallow clone, but none of the {len(looked_at)} commits above the merge base is cut off from its parents"


def _whole(found: Sequence[str], how: str) -> str:
    if not found:
        raise Untold("base and head have no history in common")
    if len(found) > 1:
        return f"{how}; {len(found)} merge bases, so what differs from any of them counts"
    return how

"""The nouns of the gate as frozen values: lanes, changes, plans.

Paths are `str` decoded with `surrogateescape` (as `os.fsdecode` does), so any name that git can hold survives the round
trip; `os.fsencode` gives the bytes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from touchgate.gate.values import NamedTuple

SUITES = ("smoke", "performance", "full")
"""In growing order: performance runs smoke first, full runs everything."""


class Refusal(Exception):
    """What was asked for, or what is declared, can't be used. Its text is for a person, one line or more."""


class At(NamedTuple):
    """A place in a declaration. Line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class PathPattern(NamedTuple):
    """One entry of a `paths` list, in GitHub's dialect, with the place that declares it."""

    text: str
    at: At


class Need(NamedTuple):
    """A lane whose touch touches this one. `suite` None: with the suite asked for; else that suite ("smoke" for lite)."""

    lane: str
    suite: str | None
    at: At


class DeviceWish(NamedTuple):
    """What a lane's device checks need.

    kind: "any" | "gpu" | "host" | "hosts"; count: GPUs of one host, or hosts, at once.
    """

    kind: str = "any"
    count: int = 1  # type: ignore[assignment]


class CheckDeclaration(NamedTuple):
    """One entry of a lane's `checks`: a kind with its target, and further keys as plain data (str, int, list, dict).

    The kinds themselves live outside the gate (`touchgate.checks`); the gate only keeps what was written.
    """

    kind: str
    target: str
    options: Mapping[str, object]
    at: At


class Each(NamedTuple):
    """The folder that a lane was made for: its own name and its path. group: the lane's name as it was declared."""

    group: str
    name: str
    path: str
    at: At


class ClosureDeclaration(NamedTuple):
    """Which sources of a lane count with all that they include, and the folders where names are looked up.

    sources: patterns; None: the files that the lane's checks name; (): none. include, python: folders relative to the
    root, "" for the root itself.
    """

    sources: tuple[PathPattern, ...] | None
    include: tuple[str, ...]
    python: tuple[str, ...]
    at: At


class Lane(NamedTuple):
    """A named group of checks and the paths that gate it. `timeout` and `minutes` are minutes.

    each: the folder it was made for, where it is one of many that were declared at once. names_minutes: whether `minutes`
    was declared, and is not just the default.
    """

    name: str
    about: str
    paths: tuple[PathPattern, ...]
    needs: tuple[Need, ...]
    suites: tuple[str, ...]
    device: DeviceWish
    minutes: float
    timeout: float
    env: tuple[str, ...]
    checks: tuple[CheckDeclaration, ...]
    at: At
    each: Each | None = None
    closure: ClosureDeclaration | None = None
    names_minutes: bool = False


class TouchedPath(NamedTuple):
    """A path that differs between merge base and head; status is git's letter (A M D T U), or ? for untracked."""

    path: str
    status: str


class Change(NamedTuple):
    """What is judged.

    base, head: commit ids (None where unknown); `head_is_worktree`: staged, unstaged and untracked files count too.
    merge_base: commit id, or None. proof: in words, how the merge base is known. base_from, head_from: in words, where
    each came from (an option, a variable, an event, the local rule).
    open_reason: why everything must run (fail open), or None. Then `paths` is empty and means nothing.
    """

    base: str | None
    head: str | None
    merge_base: str | None
    proof: str
    base_from: str
    head_from: str
    head_is_worktree: bool
    paths: tuple[TouchedPath, ...]
    open_reason: str | None = None


class Included(NamedTuple):
    """Why a lane that no path touches directly is touched through its closure. path: None where that can't be told."""

    path: str | None
    reason: str


class Decision(str, Enum):
    """What becomes of a lane."""

    RUN = "run"
    SKIP = "skip"


class Nearest(NamedTuple):
    """Where nothing fires: the path that came nearest, and the pattern that does not match it, takes it back or ignores it."""

    path: str
    pattern: PathPattern


class LaneDecision(NamedTuple):
    """RUN or SKIP with its reason.

    path, pattern: what fired (either may be None); a SKIP has them where something else than the paths makes it one.
    nearest: of a SKIP that nothing fires. suite: what to run of it ("smoke" under a lite need). reason: a whole sentence
    for a person.
    """

    lane: str
    decision: Decision
    reason: str
    suite: str
    path: str | None = None
    pattern: PathPattern | None = None
    nearest: Nearest | None = None


class Plan(NamedTuple):
    """For every lane of head and of the base branch's tip, in declaration order, what becomes of it."""

    change: Change
    suite: str
    lanes: tuple[LaneDecision, ...]

    @property
    def by_name(self) -> dict[str, LaneDecision]:
        """The decisions by their lanes' names."""
        return {lane.lane: lane for lane in self.lanes}

    @property
    def running(self) -> tuple[LaneDecision, ...]:
        """The lanes that run."""
        return tuple(lane for lane in self.lanes if lane.decision is Decision.RUN)

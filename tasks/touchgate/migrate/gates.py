"""What a gate job decides, as values: for each of its outputs the question that a touchgate step is to ask instead."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from touchgate.gate.check_declarations import COMMANDS, NAME
from touchgate.migrate import filters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from touchgate.gate.located import Problem
    from touchgate.migrate.jobs import Job


@dataclass(frozen=True)
class Question:
    """What a step asks: whether the workflow's own list (`workflow`) or any of the lanes is touched; none: any at all."""

    workflow: str = ""
    lanes: tuple[str, ...] = ()
    suite: str = ""

    def or_(self, other: Question) -> Question | None:
        """Both as one question; None where no single one says it."""
        if self == other:
            return self
        if not self.lanes or not other.lanes or replace(self, lanes=()) != replace(other, lanes=()):
            return None
        return replace(self, lanes=tuple(dict.fromkeys([*self.lanes, *other.lanes])))


@dataclass(frozen=True)
class Decision:
    """What an output means. inverted: "true" says untouched.

    words: what it is written as: "both" ("true" or "false"), "one" ("true" or nothing) or "unknown".
    """

    question: Question
    inverted: bool = False
    words: str = "both"


@dataclass(frozen=True)
class Undecided:
    """Why an output can't be mapped, and where it is written."""

    problem: Problem


@dataclass
class Gate:
    """A job that decides. blocks: why it can't go, nor anything that asks it. notes: what will differ."""

    job: Job
    outputs: dict[str, Decision | Undecided] = field(default_factory=dict)
    blocks: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)

    def output(self, name: str) -> Decision | Undecided | None:
        """The output of this name, in whatever case it is written."""
        return next((found for key, found in self.outputs.items() if key.lower() == name.lower()), None)


@dataclass(frozen=True)
class Asked:
    """What the person said about one workflow. lanes: output -> lane, `!` before it where the output is inverted.

    own_paths: outputs that the workflow's own list answers. gates: jobs that only decide, whatever their steps are.
    An output is "job.output", or "output" of any of its gate jobs.
    """

    lanes: Mapping[str, str] = field(default_factory=dict)
    own_paths: frozenset[str] = frozenset()
    gates: frozenset[str] = frozenset()
    windows: bool = False


@dataclass(frozen=True)
class Surroundings:
    """What lies around the workflow. lanes: name -> patterns of every declared lane; None: they can't be read.

    read: the text of another file of the repository. submodules: their paths. same_name: whether another workflow of the
    run has this one's name, in another folder.
    """

    lanes: Mapping[str, tuple[str, ...]] | None = field(default_factory=dict)
    read: Callable[[str], str | None] = lambda _: None
    submodules: frozenset[str] = frozenset()
    same_name: bool = False


@dataclass
class NewLanes:
    """The lanes that a workflow's filters become. added: name -> (patterns, where the filter stands)."""

    stem: str
    known: Mapping[str, tuple[str, ...]] | None
    added: dict[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)

    def name_for(self, wish: str, patterns: tuple[str, ...], where: str) -> str:
        """The lane with these patterns: one that is there under this name or one that ends in it, else a new one."""
        if self.known is None:
            raise filters.Untranslatable("the lanes of tasks/*.yml can't be read: see `doit lanes check`")
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", wish)
        there_are = {**self.known, **{name: lane[0] for name, lane in self.added.items()}}
        equal = [name for name, lane in there_are.items() if lane == patterns and name.endswith(f"-{plain}")]
        for name in (plain, *equal, f"{self.stem}-{plain}"):
            there = there_are.get(name)
            if not re.fullmatch(NAME, name) or name in COMMANDS or (there is not None and there != patterns):
                continue
            if there is None:
                self.added[name] = (patterns, where)
            return name
        raise filters.Untranslatable(f"lanes named '{plain}' and '{self.stem}-{plain}' exist with other paths")

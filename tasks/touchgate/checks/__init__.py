"""Kinds of checks: each is one module that maps a declaration to (inputs, run).

A kind is an object with the attributes of `Kind`, found by the entry point group `touchgate.checks`; other packages add
their own the same way. `expand` and `inputs` run in the parent, in every run, also when everything is cached: they import
nothing heavy and read as little as they can. `run` runs in a process of its own (`touchgate.checks.worker`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from touchgate.devices import Device
    from touchgate.gate.model import CheckDeclaration, Lane
    from touchgate.outcome import Outcome


@dataclass(frozen=True)
class CheckSpec:
    """One check, ready to be placed and run.

    name: "<lane>:<check>", unique. target: path relative to the repository's root, or a command. options: plain data from
    the declaration. places: where it can be measured, best first, out of "gpu", "emulated", "host" ("host": no device takes
    part). suites: in which suites it runs. timeout: seconds. env: names of further variables it may see.
    """

    name: str
    lane: str
    kind: str
    about: str
    target: str
    options: Mapping[str, object]
    places: tuple[str, ...]
    suites: tuple[str, ...]
    timeout: float
    env: tuple[str, ...] = ()
    where: str = ""
    """file:line:column of the declaration."""


class Stopped(Exception):
    """The run is being stopped: the check did not come to an end."""


@dataclass(frozen=True)
class Inputs:
    """What, beside the files that gate the lane, can change a check's result.

    files: paths relative to the root (missing ones count as absent, which is a state of its own).
    tools: names out of `touchgate.results.tools.KNOWN` ("python", "numpy", "g++", "nvcc", "pycuda", "pytest", "sh") whose
    versions belong to the key. extra: anything else, plain strings.
    """

    files: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)


class Context(Protocol):
    """What a running check gets from the worker."""

    root: Path
    """The repository's root; also the working directory."""
    place: str
    """"gpu", "emulated" or "host"."""
    gpu: str | None
    """The UUID of the GPU to use, or the beginning of one; None: the first that is visible."""
    build_dir: Path
    """Where compiled code is cached, shared between runs."""
    temporary: Path
    """An empty folder that is gone afterwards."""
    inherited_fds: tuple[int, ...]
    """Descriptors (the lease's) to hand on to child processes: `subprocess.Popen(..., pass_fds=context.inherited_fds)`."""

    def device(self) -> Device:
        """The device of `place`, opened on first use. Raises `touchgate.devices.Unavailable`."""


class Kind(Protocol):
    """One kind of check."""

    name: str
    options: Mapping[str, str]
    """Keys a declaration of this kind may have beside the kind itself, `name` and `timeout`, with one line about each."""

    def expand(self, lane: Lane, declaration: CheckDeclaration, root: Path) -> Iterable[CheckSpec]:
        """The checks that one declaration stands for. Raises `DeclarationFault` for a bad target or option."""

    def inputs(self, spec: CheckSpec, root: Path, place: str) -> Inputs:
        """What its result at `place` depends on beside the lane's own files."""

    def run(self, spec: CheckSpec, context: Context) -> Outcome:
        """Do it, in the worker. What it prints is the check's log."""


class DeclarationFault(Exception):
    """A declaration of a kind is wrong: what and what to do, one line. The place is added by whoever reads it."""


def check_name(lane: Lane, declaration: CheckDeclaration, suffix: str = "") -> str:
    """The check's full name: "<lane>:<kind>", with the target's stem where the lane has several of the kind.

    An explicit `name:` replaces the kind. `suffix` names a derived check ("compile", "sanitize") in the kind's stead.
    """
    named = declaration.options.get("name")
    base = suffix or str(named or declaration.kind)
    if suffix and named:
        return f"{lane.name}:{named}:{suffix}"
    twins = [other for other in lane.checks if other.kind == declaration.kind and not other.options.get("name")]
    if not named and len(twins) > 1:
        if declaration.kind == "command":
            return f"{lane.name}:{base}:{twins.index(declaration) + 1}"
        return f"{lane.name}:{base}:{Path(declaration.target).stem}"
    return f"{lane.name}:{base}"

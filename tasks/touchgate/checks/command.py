"""The kind `command`: a line for /bin/sh, run in the repository's root; its exit status is the verdict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from touchgate.checks import CheckSpec, Context, DeclarationFault, Inputs
from touchgate.checks.child import FROM_OUTSIDE, Ended, files_listed, listed_paths, program_check, run_logged
from touchgate.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.gate.model import CheckDeclaration, Lane

SKIPPED = 77
"""The status by which Automake's tests, and many since, say: nothing was tested here."""
NOT_STARTED = {126: "can't be executed", 127: "was not found"}
"""What the shell answers where a program could not be started."""


class CommandKind:
    """`command: make -C src check`."""

    name = "command"
    options: Mapping[str, str] = MappingProxyType(
        {
            "inputs": "further files, folders or patterns, from the root: a change touches the lane and decides about reuse",
            "tools": "names of tools whose versions decide about reuse, such as python, pytest, nvcc; sh always does",
            "expect": "a regular expression that a line of the output must match, else the check failed",
        }
    )

    def expand(self, lane: Lane, declaration: CheckDeclaration, root: Path) -> Iterable[CheckSpec]:  # noqa: ARG002
        """One check. Raises `DeclarationFault`."""
        if not declaration.target.strip():
            raise DeclarationFault("`command` is empty; write the line that /bin/sh is to run")
        if "\0" in declaration.target:
            raise DeclarationFault("`command` holds a NUL character, which no program can be given")
        listed_paths(declaration.options.get("inputs", []), "inputs")
        tools_named(declaration.options.get("tools", []))
        _check_expect(declaration.options.get("expect"))
        first, _, more = declaration.target.strip().partition("\n")
        yield program_check(lane, declaration, f"{first} ..." if more else first)

    def inputs(self, spec: CheckSpec, root: Path, place: str) -> Inputs:  # noqa: ARG002
        """The files of `inputs`; the command's own text is in the declaration."""
        tools = tools_named(spec.options.get("tools", []))
        files = tuple(dict.fromkeys(files_listed(root, spec.options.get("inputs", []))))
        return Inputs(files=files, tools=tuple(dict.fromkeys(("sh", *tools))))

    def run(self, spec: CheckSpec, context: Context) -> Outcome:
        """Run it; the output is the log."""
        expect = spec.options.get("expect")
        ended = run_logged(
            ["/bin/sh", "-c", spec.target],
            cwd=context.root,
            pass_fds=context.inherited_fds,
            expect=str(expect) if expect is not None else None,
        )
        verdict, reason = judge(ended, None if expect is None else str(expect))
        shown = verdict not in (Verdict.PASSED, Verdict.UNMEASURED)
        return Outcome(verdict, reason=reason, detail=ended.tail if shown else (), facts={"status": ended.status})


def tools_named(value: object) -> tuple[str, ...]:
    """The names of an option `tools`. Raises `DeclarationFault`."""
    from touchgate.results.tools import KNOWN  # noqa: PLC0415  not needed where no lane has a command

    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)):
        raise DeclarationFault(f"`tools` is a list of names, not {value!r}")
    for name in names:
        if name not in KNOWN:
            raise DeclarationFault(f"`tools`: {name!r} is not known; there are {', '.join(sorted(KNOWN))}")
    return tuple(names)


def _check_expect(value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str) or not value:
        raise DeclarationFault(f"`expect` is a regular expression, not {value!r}")
    try:
        re.compile(value)
    except re.error as error:
        raise DeclarationFault(f"`expect` is no regular expression: {error}") from None


def judge(ended: Ended, expect: str | None) -> tuple[Verdict, str]:
    """The verdict on a command's end, and the reason."""
    if ended.status == 0:
        if ended.matched:
            return Verdict.PASSED, ""
        return Verdict.FAILED, f"exit status 0, but no line of its output matches `expect: {expect}`"
    if ended.status == SKIPPED:
        said = f": {ended.tail[-1]}" if ended.tail else ""
        return Verdict.UNMEASURED, f"the command says that it tested nothing (exit status {SKIPPED}){said}"
    if ended.status in NOT_STARTED:
        return Verdict.ERROR, f"exit status {ended.status}: a program of the command {NOT_STARTED[ended.status]}"
    if ended.signal in FROM_OUTSIDE:
        return Verdict.ERROR, f"{ended.words()}: stopped from outside"
    return Verdict.FAILED, ended.words()


KIND = CommandKind()

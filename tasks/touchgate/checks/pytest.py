"""The kind `pytest`: tests of this repository, run by this interpreter's pytest; what it counted is the verdict.

A run that tested nothing is no pass: no test collected is an error, and all skipped is unmeasured.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from touchgate.checks import CheckSpec, Context, DeclarationFault, Inputs
from touchgate.checks.child import FROM_OUTSIDE, Ended, files_below, listed_paths, program_check, run_logged
from touchgate.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.gate.model import CheckDeclaration, Lane

CONFIGURATION = ("conftest.py", "pyproject.toml", "pytest.ini", "pytest.toml", ".pytest.ini", "setup.cfg", "tox.ini")
"""Files of the root that change what pytest does."""
TAKEN = ("--junitxml", "--junit-xml")
SHOWN = 5
"""Failing tests, or reasons of skips, that a report shows."""
MESSAGE_LINES = 8

TESTS_FAILED = 1
FAULTS = {
    2: "the tests could not be collected, or were interrupted",
    3: "an internal error of pytest or a plugin",
    4: "pytest does not accept its arguments",
    5: "no test was collected: a check that tests nothing is no pass",
}
"""pytest's exit statuses: https://docs.pytest.org/en/stable/reference/exit-codes.html."""


class PytestKind:
    """`pytest: tests/test_x.py -k foo`."""

    name = "pytest"
    options: Mapping[str, str] = MappingProxyType(
        {"inputs": "further files or folders whose content decides about reuse, from the repository's root"}
    )

    def expand(self, lane: Lane, declaration: CheckDeclaration, root: Path) -> Iterable[CheckSpec]:  # noqa: ARG002
        """One check. Raises `DeclarationFault`."""
        for argument in arguments(declaration.target):
            if argument.partition("=")[0] in TAKEN:
                raise DeclarationFault(f"`pytest`: leave {argument.partition('=')[0]} out; the check reads that file")
        listed_paths(declaration.options.get("inputs", []), "inputs")
        yield program_check(lane, declaration, f"pytest {declaration.target}".strip())

    def inputs(self, spec: CheckSpec, root: Path, place: str) -> Inputs:  # noqa: ARG002
        """The tests that are named, what configures them, and the files of `inputs`.

        What the tests import is known only to them: the lane's paths or `inputs` name it.
        """
        tests = [path for argument in arguments(spec.target) if (path := _test_path(argument, root))]
        files = files_below(root, tests, ".py")
        files += files_below(root, listed_paths(spec.options.get("inputs", []), "inputs"))
        above = [str(parent / "conftest.py") for test in tests for parent in PurePosixPath(test).parents]
        return Inputs(files=tuple(dict.fromkeys([*files, *above, *CONFIGURATION])), tools=("python", "pytest"))

    def run(self, spec: CheckSpec, context: Context) -> Outcome:
        """Run the tests in a child; its output is the log."""
        from importlib.util import find_spec  # noqa: PLC0415

        if find_spec("pytest") is None:
            return Outcome(Verdict.UNMEASURED, reason=f"the package pytest is not installed for {sys.executable}")
        results = context.temporary / "results.xml"
        # xunit1 names the file of each test; the cache must not be written into the checkout.
        own = [f"--junitxml={results}", "-o", "junit_family=xunit1", "-o", f"cache_dir={context.temporary / 'cache'}"]
        ended = run_logged(
            [sys.executable, "-m", "pytest", *own, *arguments(spec.target)],
            cwd=context.root,
            pass_fds=context.inherited_fds,
        )
        return judge(ended, read_results(results))


def arguments(target: str) -> list[str]:
    """The words of a target, as a shell would split them. Raises `DeclarationFault`."""
    try:
        words = shlex.split(target)
    except ValueError as error:
        raise DeclarationFault(f"`pytest` holds words that can't be told apart: {error}") from None
    if not words:
        raise DeclarationFault("`pytest` is empty; write the tests to run, such as tests/test_x.py")
    return words


def _test_path(argument: str, root: Path) -> str | None:
    """The path of a test argument (`tests/test_x.py::test_y`), None for an option, a value or what lies outside."""
    path = argument.partition("::")[0]
    pure = PurePosixPath(path)
    if not path or path.startswith("-") or pure.is_absolute() or ".." in pure.parts:
        return None
    return str(pure) if path.endswith(".py") or (root / path).exists() else None


@dataclass(frozen=True)
class Results:
    """What pytest counted. ran: tests that came to an end; broken: (test, message's lines); skipped: reasons."""

    ran: int
    broken: tuple[tuple[str, tuple[str, ...]], ...]
    skipped: tuple[str, ...]


def read_results(path: Path) -> Results | None:
    """The counts out of pytest's XML, or None where there is none that can be read."""
    try:
        root = ET.parse(path).getroot()  # noqa: S314  our own child wrote it
    except (OSError, ET.ParseError):
        return None
    ran, broken, skipped = 0, [], []
    for case in root.iter("testcase"):
        fault = case.find("failure")
        fault = case.find("error") if fault is None else fault
        skip = case.find("skipped")
        if fault is not None:
            ran += 1
            broken.append((_test_id(case), tuple(_message(fault))))
        elif skip is not None and skip.get("type") != "pytest.xfail":
            skipped.append(skip.get("message", ""))
        else:
            ran += 1
    return Results(ran, tuple(broken), tuple(skipped))


def _test_id(case: ET.Element) -> str:
    """The name by which pytest runs this test alone."""
    file, owner, name = case.get("file"), case.get("classname", ""), case.get("name", "")
    if file is None:
        return "::".join(part for part in (owner, name) if part)
    module = file.removesuffix(".py").replace("/", ".")
    return "::".join([file, *owner.removeprefix(module).strip(".").split("."), name]).replace("::::", "::")


def _message(fault: ET.Element) -> Iterator[str]:
    """The lines that say what was wrong: those that pytest marks with E, else the message."""
    lines = (fault.text or "").splitlines()
    marked = [line[1:].strip() for line in lines if line.startswith("E ")]
    yield from (marked or (fault.get("message") or "").splitlines() or lines)[:MESSAGE_LINES]


def judge(ended: Ended, results: Results | None) -> Outcome:
    """The outcome of a run of pytest, from its end and its counts."""
    facts = {"status": ended.status}
    if results is not None:
        facts |= {"ran": results.ran, "failed": len(results.broken), "skipped": len(results.skipped)}
    cases = results.ran if results is not None else None

    def outcome(verdict: Verdict, reason: str = "", detail: Sequence[str] = ()) -> Outcome:
        return Outcome(verdict, reason=reason, detail=tuple(detail), cases=cases, facts=facts)

    if ended.status in FAULTS:
        return outcome(Verdict.ERROR, FAULTS[ended.status], _shown(results, ended))
    if ended.status not in (0, TESTS_FAILED):
        crashed = ended.signal is not None and ended.signal not in FROM_OUTSIDE
        return outcome(Verdict.FAILED if crashed else Verdict.ERROR, f"pytest: {ended.words()}", ended.tail)
    if results is None:
        return outcome(Verdict.ERROR, "pytest wrote no results", ended.tail)
    if ended.status == TESTS_FAILED:
        total = results.ran + len(results.skipped)
        return outcome(Verdict.FAILED, f"{len(results.broken)} of {total} tests failed", _shown(results, ended))
    if results.ran == 0:
        reasons = "; ".join(list(dict.fromkeys(results.skipped))[:SHOWN])
        return outcome(Verdict.UNMEASURED, f"no test ran, {len(results.skipped)} skipped: {reasons}")
    return outcome(Verdict.PASSED, f"{len(results.skipped)} skipped" if results.skipped else "")


def _shown(results: Results | None, ended: Ended) -> list[str]:
    if results is None or not results.broken:
        return list(ended.tail)
    lines = []
    for test, message in results.broken[:SHOWN]:
        lines += [test, *(f"  {line}" for line in message)]
    more = len(results.broken) - SHOWN
    return [*lines, f"and {more} more"] if more > 0 else lines


KIND = PytestKind()

"""The kind `pytest`: tests of this repository, run by this interpreter's pytest; what it counted is the verdict.

A run that tested nothing is no pass: no test collected is an error, and all skipped is unmeasured.
"""

from __future__ import annotations

import ast
import json
import posixpath
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from touchgate.checks import CheckSpec, Context, DeclarationFault, Inputs, counted
from touchgate.checks.child import FROM_OUTSIDE, Ended, files_below, files_listed, listed_paths, program_check, run_logged
from touchgate.gate.listed import PYTEST_FILES, pytest_values
from touchgate.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from touchgate.gate.model import CheckDeclaration, Lane

REFUSED = {
    **dict.fromkeys(("--junitxml", "--junit-xml"), "the check reads that file"),
    **dict.fromkeys(
        (
            *("--setup-only", "--setup-plan", "--collect-only", "--collectonly", "--co", "--fixtures", "--funcargs"),
            *("--fixtures-per-test", "--markers", "--cache-show", "--version", "-V", "--help", "-h"),
        ),
        "it runs no test",
    ),
}
"""Options that a declaration must not have, with the reason."""
NOT_RUN = "[NOTRUN]"
"""How pytest begins the reason of `xfail(run=False)`."""
SHOWN = 5
"""Failing tests, or reasons of skips, that a report shows."""
MESSAGE_LINES = 8

TESTS_FAILED = 1
NOTHING_COLLECTED = 5
FAULTS = {
    2: "the tests could not be collected, or were interrupted",
    3: "an internal error of pytest or a plugin",
    4: "pytest does not accept its arguments",
    NOTHING_COLLECTED: "no test was collected: a check that tests nothing is no pass",
}
"""pytest's exit statuses: https://docs.pytest.org/en/stable/reference/exit-codes.html."""


class PytestKind:
    """`pytest: tests/test_x.py -k foo`."""

    name = "pytest"
    options: Mapping[str, str] = MappingProxyType(
        {"inputs": "further files, folders or patterns, from the root: a change touches the lane and decides about reuse"}
    )

    def expand(self, lane: Lane, declaration: CheckDeclaration, root: Path) -> Iterable[CheckSpec]:  # noqa: ARG002
        """One check. Raises `DeclarationFault`."""
        for argument in arguments(declaration.target):
            option = argument.partition("=")[0]
            if option in REFUSED:
                raise DeclarationFault(f"`pytest`: leave {option} out; {REFUSED[option]}")
        listed_paths(declaration.options.get("inputs", []), "inputs")
        yield program_check(lane, declaration, f"pytest {declaration.target}".strip())

    def inputs(self, spec: CheckSpec, root: Path, place: str) -> Inputs:  # noqa: ARG002
        """The tests that are named, what configures them, and the files of `inputs`.

        What the tests import is known only to them: the lane's paths or `inputs` name it.
        """
        words = arguments(spec.target)
        tests = [path for word in words if (path := _test_path(word, root))]
        files = files_below(root, tests, ".py")
        files += files_listed(root, spec.options.get("inputs", []))
        # pytest looks for its configuration beside the tests and above them.
        folders = {PurePosixPath(test): None for test in tests if (root / test).is_dir()}
        folders |= dict.fromkeys([parent for test in tests for parent in PurePosixPath(test).parents])
        folders |= dict.fromkeys([PurePosixPath(), *(PurePosixPath(path) for path in _option_folders(words, root))])
        files += [str(folder / name) for folder in folders for name in PYTEST_FILES]
        return Inputs(files=tuple(dict.fromkeys([*files, *_option_files(words, root)])), tools=("python", "pytest"))

    def run(self, spec: CheckSpec, context: Context) -> Outcome:
        """Run the tests in a child; its output is the log."""
        from importlib.util import find_spec  # noqa: PLC0415

        if find_spec("pytest") is None:
            return Outcome(Verdict.UNMEASURED, reason=f"the package pytest is not installed for {sys.executable}")
        results, counts = context.temporary / "results.xml", context.temporary / "counts.json"
        # xunit1 names the file of each test; the cache must not be written into the checkout.
        own = [f"--junitxml={results}", "-o", "junit_family=xunit1", "-o", f"cache_dir={context.temporary / 'cache'}"]
        ended = run_logged(
            [sys.executable, counted.__file__, str(counts), *own, *arguments(spec.target)],
            cwd=context.root,
            pass_fds=context.inherited_fds,
        )
        return judge(ended, read_results(results), read_counts(counts))


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


def _below(root: Path, value: str) -> str:
    """A path as one below the root, where it can be written so."""
    return posixpath.relpath(value, root) if posixpath.isabs(value) else posixpath.normpath(value)


def _option_folders(words: Sequence[str], root: Path) -> list[str]:
    return [_below(root, value) for option, value in pytest_values(words) if option in ("--rootdir", "--confcutdir") and value]


def _option_files(words: Sequence[str], root: Path) -> Iterator[str]:
    """The configuration, the plugins and the lists of arguments (`@file`) that options name."""
    for option, value in pytest_values(words):
        if option in ("-c", "--config-file") and value:
            yield _below(root, value)
        elif option == "-p" and value and not value.startswith("no:"):
            module = value.replace(".", "/")
            yield from (f"{module}.py", f"{module}/__init__.py")
    yield from (_below(root, word[1:]) for word in words if word.startswith("@") and word[1:])


@dataclass(frozen=True)
class Counts:
    """What was done, see `touchgate.checks.counted`."""

    collected: int
    ended: int
    executed: int
    failed: int = 0


def read_counts(path: Path) -> Counts | None:
    """The counts, or None where pytest never came to an end."""
    try:
        return Counts(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


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
        if case.get("name") is None:  # it never came to an end
            continue
        fault = case.find("failure")
        fault = case.find("error") if fault is None else fault
        skip = case.find("skipped")
        if fault is not None:
            ran += 1
            broken.append((_test_id(case), tuple(_message(fault))))
        elif skip is not None and (skip.get("type") != "pytest.xfail" or skip.get("message", "").startswith(NOT_RUN)):
            skipped.append(_skip_reason(skip))
        else:
            ran += 1
    return Results(ran, tuple(broken), tuple(skipped))


def _skip_reason(skip: ET.Element) -> str:
    """Why; for a whole module it stands in the text, as (file, line, reason)."""
    message, text = skip.get("message", ""), skip.text or ""
    if message != "collection skipped":
        return message
    try:
        return str(ast.literal_eval(text.strip())[2]).removeprefix("Skipped: ")
    except (ValueError, SyntaxError, TypeError, LookupError):
        return text.strip() or message


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


def judge(ended: Ended, results: Results | None, counts: Counts | None) -> Outcome:
    """The outcome of a run of pytest, from its end, its results and what it counted."""
    facts = {"status": ended.status}
    if results is not None:
        facts |= {"ran": results.ran, "failed": len(results.broken), "skipped": len(results.skipped)}
    cases = results.ran if results is not None else None

    def outcome(verdict: Verdict, reason: str = "", detail: Sequence[str] = ()) -> Outcome:
        return Outcome(verdict, reason=reason, detail=tuple(detail), cases=cases, facts=facts)

    if ended.status == NOTHING_COLLECTED and results is not None and results.skipped:
        return outcome(Verdict.UNMEASURED, _nothing_ran(results))
    if ended.status in FAULTS:
        return outcome(Verdict.ERROR, FAULTS[ended.status], _shown(results, ended))
    if ended.status not in (0, TESTS_FAILED):
        crashed = ended.signal is not None and ended.signal not in FROM_OUTSIDE
        return outcome(Verdict.FAILED if crashed else Verdict.ERROR, f"pytest: {ended.words()}", ended.tail)
    if results is None or counts is None:
        return outcome(Verdict.ERROR, "pytest wrote no results", ended.tail)
    broken = max(len(results.broken), counts.failed)
    if ended.status == TESTS_FAILED or broken:
        # A hook of the tests can set the exit status; what each test came to, it can't.
        though = "" if ended.status else ", though pytest ended with status 0"
        return outcome(
            Verdict.FAILED, f"{broken} of {results.ran + len(results.skipped)} tests failed{though}", _shown(results, ended)
        )
    incomplete = _incomplete(results, counts)
    if incomplete:
        return outcome(Verdict.ERROR, incomplete, ended.tail)
    if results.ran == 0:
        return outcome(Verdict.UNMEASURED, _nothing_ran(results))
    return outcome(Verdict.PASSED, f"{len(results.skipped)} skipped" if results.skipped else "")


def _nothing_ran(results: Results) -> str:
    reasons = "; ".join(list(dict.fromkeys(results.skipped))[:SHOWN])
    return f"no test ran, {len(results.skipped)} skipped: {reasons}"


def _incomplete(results: Results, counts: Counts) -> str:
    """Why exit status 0 is no pass, if it is none."""
    if counts.ended == 0:
        return "pytest ran no test: it stopped early, or has an option such as --collect-only in its configuration"
    if counts.ended < counts.collected:
        return f"stopped early: {counts.ended} of {counts.collected} tests came to an end"
    if counts.executed == 0 and results.ran:
        return "no test was executed: an option such as --setup-only, perhaps in pytest's configuration"
    return ""


def _shown(results: Results | None, ended: Ended) -> list[str]:
    if results is None or not results.broken:
        return list(ended.tail)
    lines = []
    for test, message in results.broken[:SHOWN]:
        lines += [test, *(f"  {line}" for line in message)]
    more = len(results.broken) - SHOWN
    return [*lines, f"and {more} more"] if more > 0 else lines


KIND = PytestKind()

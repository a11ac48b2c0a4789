"""`touchgate migrate`: shows, or with --write makes, the changes that take gate jobs out of workflows.

The diff goes to standard output; what was left alone, and notes, to standard error. Exit code 0: done, or nothing to do;
1: something was left alone; 3: usage, or a file that can't be read or written.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from touchgate.gate.answers import WORKFLOW_FOLDERS
from touchgate.gate.asked import UsageFault
from touchgate.gate.declarations import read_lanes
from touchgate.gate.located import DeclarationError
from touchgate.gate.sources import ENDINGS, FOLDER
from touchgate.migrate import asked, files
from touchgate.migrate import uses as uses_of
from touchgate.migrate.asked import Words
from touchgate.migrate.files import Change
from touchgate.migrate.gates import Asked, Surroundings
from touchgate.migrate.uses import PLACEHOLDER
from touchgate.migrate.whole import Migrated, migrate, read

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from touchgate.gate.located import Problem
    from touchgate.gate.model import Lane

DONE = 0
LEFT = 1
USAGE = 3


@dataclass(frozen=True)
class Order:
    """The command line."""

    target: Path
    write: bool
    uses: str | None
    said: Words


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """Run the command; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        order = _order(words)
        root, paths = _found(order.target)
        uses_of.refuse_missing(order.uses, root, environ)
        results, changes = _migrated(order, root, paths)
        if order.write:
            files.write(changes)
    except (UsageFault, DeclarationError) as fault:
        print(fault, file=sys.stderr)
        return USAGE
    except OSError as error:
        print(f"{error.filename or order.target}: {error.strerror}", file=sys.stderr)
        return USAGE
    for change in changes:
        if order.write:
            print(f"{'written' if change.before is not None else 'new'}  {change.name}")
        else:
            sys.stdout.write(files.diff(change))
    sys.stdout.flush()
    return _tell(results, changes, order)


def _tell(results: list[Migrated], changes: list[Change], order: Order) -> int:
    for result in results:
        alone = "left alone" if result.text is None else "not converted"
        for problem in result.left:
            print(_line(problem, alone), file=sys.stderr)
    for result in results:
        for problem in result.notes:
            print(_line(problem, "note"), file=sys.stderr)
    guarded = sum(result.guarded for result in results)
    left = any(result.left for result in results)
    if guarded:
        jobs = "1 job, on its" if guarded == 1 else f"each of {guarded} jobs, on their"
        where = "a gate in front spares scarce runners that: see 'What it costs' in docs/migrate.md"
        print(f"note: the decision now runs in {jobs} own runner and behind its queue; {where}", file=sys.stderr)
    if not changes and not left:
        print("no gate job to take out", file=sys.stderr)
    elif changes and not order.write:
        print(f"{len(changes)} file{'' if len(changes) == 1 else 's'} would change; --write changes them", file=sys.stderr)
    return LEFT if left else DONE


def _line(problem: Problem, what: str) -> str:
    return f"{problem.at}: {what}: {problem.message}" + (f"; {problem.hint}" if problem.hint else "")


def _found(target: Path) -> tuple[Path, list[Path]]:
    """The repository's root, and the workflows: of a root, of a folder of workflows, or one file."""
    target = Path(os.path.normpath(Path.cwd() / target))
    if target.is_file():
        return _root_of(target.parent), [target]
    if not target.is_dir():
        raise UsageFault(f"{target}: there is no such file or folder")
    folders = [target / name for name in WORKFLOW_FOLDERS if (target / name).is_dir()]
    root = target if folders else _root_of(target)
    listed = [path for folder in folders or [target] for path in sorted(folder.iterdir())]
    files = [path for path in listed if path.suffix in ENDINGS and path.is_file()]
    if not files:
        raise UsageFault(f"{target}: there are no workflows here, nor in {', '.join(WORKFLOW_FOLDERS)}")
    return root, files


def _root_of(folder: Path) -> Path:
    for name in WORKFLOW_FOLDERS:
        if folder.as_posix().endswith(f"/{name}"):
            return Path(folder.as_posix().removesuffix(f"/{name}"))
    return next((above for above in (folder, *folder.parents) if (above / ".git").exists()), folder)


def _migrated(order: Order, root: Path, paths: list[Path]) -> tuple[list[Migrated], list[Change]]:
    try:
        declared = _lanes(root)
        lanes = {one.name: tuple(pattern.text for pattern in one.paths) for one in declared}
    except DeclarationError:
        # Without a word of theirs the mistake of another file is not in the way.
        if order.said.lanes:
            raise
        declared, lanes = (), None
    submodules = _submodules(root)

    def text_of(name: str) -> str | None:
        path = root / name
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return path.read_text(encoding="utf-8") if path.is_file() and not Path(name).is_absolute() else None
        return None

    contents = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    workflows = {name: found for name, content in contents.items() if (found := read(name, content)) is not None}
    uses_of.refuse_in_use(order.uses, workflows)
    said = asked.resolved(order.said, workflows)
    results: list[Migrated] = []
    changes: list[Change] = []
    short = Counter(Path(name).name for name in contents)
    for name, content in contents.items():
        around = Surroundings(lanes, text_of, submodules, same_name=short[Path(name).name] > 1)
        result = migrate(name, content, order.uses or PLACEHOLDER, said.get(name, Asked()), around)
        results.append(result)
        if result.text is None:
            continue
        changes.append(Change(root / name, name, content, result.text.encode("utf-8")))
        if result.lanes:
            changes.append(files.new_lane_file(root, name, result.lanes, {change.path for change in changes}))
            lanes = None if lanes is None else {**lanes, **{lane: found[0] for lane, found in result.lanes.items()}}
    asked.refuse_unknown(order.said, declared, {lane for result in results for lane in result.lanes})
    return results, changes


def _lanes(root: Path) -> tuple[Lane, ...]:
    """The lanes that are declared. Raises DeclarationError."""
    folder = root / FOLDER
    found = sorted(path for path in folder.iterdir() if path.suffix in ENDINGS) if folder.is_dir() else []

    def read(name: str) -> bytes | None:
        path = root / name
        return path.read_bytes() if path.is_file() else None

    def folders(name: str) -> list[str]:
        path = root / name
        return sorted(inner.name for inner in path.iterdir() if inner.is_dir()) if path.is_dir() else []

    files_of_lanes = {f"{FOLDER}/{path.name}": path.read_bytes() for path in found}
    return tuple(read_lanes(files_of_lanes, read_file=read, folders=folders).values())


def _submodules(root: Path) -> frozenset[str]:
    file = root / ".gitmodules"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    return frozenset(found[1].strip() for found in re.finditer(r"^\s*path\s*=\s*(.+)$", text, re.MULTILINE))


# ---- the command line


_ABOUT = """\
Turn gate jobs, and the jobs that test their outputs, into jobs that gate themselves in a first step. The change is shown as a
diff on standard output; what is left alone, with the option that would help, and what will differ on standard error."""
_MORE = """\
Exit codes:
  0  done, or nothing to do
  1  something was left alone, and is listed
  3  usage, or a file that can't be read or written; nothing is changed

Examples:
  touchgate migrate .                                      the diff
  touchgate migrate --lane ci.yml:changed=kernels .        ci.yml's output `changed` asks for the lane `kernels`
  touchgate bundle --action touchgate                      an action of your own for the new steps: commit it, then
  touchgate migrate --write --uses YOU/REPOSITORY/touchgate@SHA .

More: docs/migrate.md."""


def _parser() -> argparse.ArgumentParser:
    import argparse  # noqa: PLC0415 (named here so that the class below can fail our way)

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise UsageFault(f"{message}\n{self.format_usage().rstrip()}")

    parser = Parser(
        prog="touchgate migrate",
        usage="touchgate migrate [--write --uses REF] [--lane FILE:OUTPUT=LANE]... [--paths FILE:OUTPUT]... "
        "[--gate FILE:JOB]... [--windows] [DIR]",
        description=_ABOUT,
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "target",
        nargs="?",
        metavar="DIR",
        help="a repository's root, a folder of workflows, or one workflow [default: the repository around the current folder]",
    )
    add("--write", action="store_true", help="change the files, all or none; without it the diff is shown")
    add(
        "--uses",
        metavar="REF",
        help=f"the action of the new steps (with --write required; the diff shows {PLACEHOLDER} without)",
    )
    help_ = (
        "this output of a gate job asks for this lane, this group of lanes, or a pattern such as 'crate-*' (repeatable; FILE: "
        "may be left out where one workflow has the output; "
        "JOB.OUTPUT where two jobs have it); FILE:OUTPUT=!LANE where 'true' means untouched"
    )
    add("--lane", action="append", default=[], metavar="FILE:OUTPUT=LANE", help=help_)
    add("--paths", action="append", default=[], metavar="FILE:OUTPUT", help="it asks for the workflow's own path lists")
    add("--gate", action="append", default=[], metavar="FILE:JOB", help="this job only decides, whatever its steps seem to do")
    add("--windows", action="store_true", help="guard jobs on Windows too, where the gate lets everything run")
    return parser


def _order(argv: Sequence[str]) -> Order:
    options = _parser().parse_args(list(argv))
    said = asked.parsed(options.lane, options.paths, options.gate, windows=options.windows)
    if options.write and not options.uses:
        raise UsageFault(f"--write needs --uses REF, the action of the new steps, such as --uses {PLACEHOLDER}")
    if options.uses is not None:
        uses_of.refuse_unfit(options.uses)
    target = _root_of(Path.cwd()) if options.target is None else Path(options.target)
    return Order(target, options.write, options.uses, said)

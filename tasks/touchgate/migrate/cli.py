"""`touchgate migrate`: shows, or with --write makes, the changes that take gate jobs out of workflows.

The diff goes to standard output; what was left alone, and notes, to standard error. Exit code 0: done, or nothing to do;
1: something was left alone; 3: usage, or a file that can't be read or written.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from touchgate.gate.answers import WORKFLOW_FOLDERS
from touchgate.gate.asked import UsageFault
from touchgate.gate.check_declarations import NAME
from touchgate.gate.declarations import read_lanes
from touchgate.gate.located import DeclarationError, did_you_mean
from touchgate.gate.sources import ENDINGS, FOLDER
from touchgate.migrate.gates import Asked, Surroundings
from touchgate.migrate.whole import Migrated, migrate

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

DONE = 0
LEFT = 1
USAGE = 3
PLACEHOLDER = "OWNER/touchgate@SHA"
"""What the diff shows for the action where the person has not said which it is."""


@dataclass(frozen=True)
class Order:
    """The command line."""

    target: Path
    write: bool
    uses: str | None
    asked: Asked


@dataclass(frozen=True)
class Change:
    """A file that becomes another one. before: None where it is new."""

    path: Path
    name: str
    before: bytes | None
    after: bytes


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """Run the command; returns the exit code."""
    del environ
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        order = _order(words)
        root, files = _found(order.target)
        results, changes = _migrated(order, root, files)
        if order.write:
            _write(changes)
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
            sys.stdout.write(diff(change))
    sys.stdout.flush()
    return _tell(results, changes, order)


def _tell(results: list[Migrated], changes: list[Change], order: Order) -> int:
    left = [problem for result in results for problem in result.left]
    for problem in left:
        print(f"{problem.at}: left alone: {problem.message}" + (f"; {problem.hint}" if problem.hint else ""), file=sys.stderr)
    for result in results:
        for problem in result.notes:
            print(f"{problem.at}: note: {problem.message}" + (f"; {problem.hint}" if problem.hint else ""), file=sys.stderr)
    if not changes and not left:
        print("no gate job to take out", file=sys.stderr)
    elif changes and not order.write:
        print(f"{len(changes)} file{'' if len(changes) == 1 else 's'} would change; --write changes them", file=sys.stderr)
    return LEFT if left else DONE


def diff(change: Change) -> str:
    """The change as a unified diff that git and patch take."""
    before = (change.before or b"").decode("utf-8").splitlines(keepends=True)
    after = change.after.decode("utf-8").splitlines(keepends=True)
    old = "/dev/null" if change.before is None else f"a/{change.name}"
    lines = difflib.unified_diff(before, after, old, f"b/{change.name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


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


def _migrated(order: Order, root: Path, files: list[Path]) -> tuple[list[Migrated], list[Change]]:
    lanes = _lanes(root)
    submodules = _submodules(root)

    def read(name: str) -> str | None:
        path = root / name
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return path.read_text(encoding="utf-8") if path.is_file() and not Path(name).is_absolute() else None
        return None

    results, changes = [], []
    for path in files:
        name = path.relative_to(root).as_posix()
        content = path.read_bytes()
        result = migrate(name, content, order.uses or PLACEHOLDER, order.asked, Surroundings(lanes, read, submodules))
        results.append(result)
        if result.text is None:
            continue
        changes.append(Change(path, name, content, result.text.encode("utf-8")))
        if result.lanes:
            changes.append(_lane_file(root, name, result, {change.path for change in changes}))
            lanes = None if lanes is None else {**lanes, **{lane: found[0] for lane, found in result.lanes.items()}}
    _refuse_unknown(order.asked, lanes or {})
    return results, changes


def _refuse_unknown(asked: Asked, lanes: Mapping[str, object]) -> None:
    """A lane that is not there would make every job fail that asks for it."""
    for output, lane in asked.lanes.items():
        name = lane.removeprefix("!")
        if name not in lanes:
            hint = did_you_mean(name, lanes)
            raise UsageFault(f"--lane {output}={lane}: no lane '{name}' is declared" + (f"; {hint}" if hint else ""))


def _lanes(root: Path) -> dict[str, tuple[str, ...]] | None:
    """Name -> patterns of the lanes that are declared; None where they can't be read."""
    folder = root / FOLDER
    found = sorted(path for path in folder.iterdir() if path.suffix in ENDINGS) if folder.is_dir() else []

    def read(name: str) -> bytes | None:
        path = root / name
        return path.read_bytes() if path.is_file() else None

    def folders(name: str) -> list[str]:
        path = root / name
        return sorted(inner.name for inner in path.iterdir() if inner.is_dir()) if path.is_dir() else []

    try:
        lanes = read_lanes({f"{FOLDER}/{path.name}": path.read_bytes() for path in found}, read_file=read, folders=folders)
    except DeclarationError:
        return None
    return {name: tuple(pattern.text for pattern in lane.paths) for name, lane in lanes.items()}


def _submodules(root: Path) -> frozenset[str]:
    file = root / ".gitmodules"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    return frozenset(found[1].strip() for found in re.finditer(r"^\s*path\s*=\s*(.+)$", text, re.MULTILINE))


def _lane_file(root: Path, workflow: str, result: Migrated, taken: set[Path]) -> Change:
    """The file that declares the lanes which a workflow's filters become."""
    stem = Path(workflow).stem
    endings = ["", "-workflow", *(f"-workflow-{count}" for count in range(2, 1000))]
    names = [f"{FOLDER}/{stem}{more}.yml" for more in endings]
    name = next(name for name in names if not (root / name).exists() and root / name not in taken)
    return Change(root / name, name, None, lane_file(workflow, result.lanes).encode("utf-8"))


def lane_file(workflow: str, lanes: Mapping[str, tuple[tuple[str, ...], str]]) -> str:
    """The text of a lane file. A check of each says that it measured nothing: the workflow's jobs are what measures."""
    base = workflow.rpartition("/")[2]
    lines = [
        f"# The path filters of {workflow}, as lanes.",
        "# Put what the jobs run in the place of each command, and `doit` runs the same; 77 says that nothing was measured.",
        "lanes:",
    ]
    for name, (patterns, _) in lanes.items():
        lines += [f"  {_quoted(name)}:", "    paths:"]
        lines += [f"      - {_quoted(pattern)}" for pattern in patterns]
        command = f'echo "the jobs of {base} check this"; exit 77'
        lines += ["    checks:", f"      - command: {_quoted(command)}", "        name: workflow"]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9._/-]*[A-Za-z0-9_/-]|[A-Za-z]", text) and _is_text(text)
    return text if plain else "'" + text.replace("'", "''") + "'"


def _is_text(text: str) -> bool:
    return text.lower() not in ("yes", "no", "on", "off", "true", "false", "null", "y", "n")


# ---- writing


def _write(changes: list[Change]) -> None:
    """Change all files, or none: each is prepared beside its place, and what was replaced is put back on a fault."""
    prepared: list[tuple[Change, str]] = []
    done: list[Change] = []
    try:
        for change in changes:
            _refuse(change.path.is_symlink(), f"{change.name} is a symbolic link; nothing was written")
            change.path.parent.mkdir(parents=True, exist_ok=True)
            prepared.append((change, _beside(change.path, change.after, change.before is not None)))
        for change, temporary in prepared:
            now = change.path.read_bytes() if change.path.exists() else None
            _refuse(now != change.before, f"{change.name} has changed meanwhile; nothing was written")
            done.append(change)
            os.replace(temporary, change.path)  # noqa: PTH105 - from a name to a path
    except BaseException:
        for change in done:
            if change.before is None:
                change.path.unlink(missing_ok=True)
            else:
                os.replace(_beside(change.path, change.before, keep_mode=True), change.path)  # noqa: PTH105
        raise
    finally:
        for _, temporary in prepared:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)  # noqa: PTH108


def _refuse(wrong: bool, why: str) -> None:
    if wrong:
        raise UsageFault(why)


def _beside(path: Path, content: bytes, keep_mode: bool) -> str:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(name, path.stat().st_mode & 0o7777 if keep_mode else 0o666 & ~mask)  # noqa: PTH101
    return name


# ---- the command line


def _parser() -> argparse.ArgumentParser:
    import argparse  # noqa: PLC0415 (named here so that the class below can fail our way)

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise UsageFault(f"{message}\n{self.format_usage().rstrip()}")

    parser = Parser(
        prog="touchgate migrate",
        usage="touchgate migrate [--write --uses REF] [--lane OUTPUT=LANE]... [--paths OUTPUT]... [--gate JOB]... [--windows] "
        "DIR",
        description="Turn gate jobs, and the jobs that test their outputs, into jobs that gate themselves in a first step.",
        epilog="Exit code 0: done, or nothing to do; 1: something was left alone, and is listed; 3: usage.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("target", metavar="DIR", help="a repository's root, a folder of workflows, or one workflow")
    add("--write", action="store_true", help="change the files, all or none; without it the diff is shown")
    add(
        "--uses",
        metavar="REF",
        help=f"the action of the new steps (with --write required; the diff shows {PLACEHOLDER} without)",
    )
    help_ = "the output asks for this lane (repeatable); OUTPUT may be JOB.OUTPUT; OUTPUT=!LANE where 'true' means untouched"
    add("--lane", action="append", default=[], metavar="OUTPUT=LANE", help=help_)
    add("--paths", action="append", default=[], metavar="OUTPUT", help="the output asks for the workflow's own path lists")
    add("--gate", action="append", default=[], metavar="JOB", help="this job only decides, whatever else its steps seem to do")
    add("--windows", action="store_true", help="guard jobs on Windows too, where the gate lets everything run")
    return parser


def _order(argv: Sequence[str]) -> Order:
    options = _parser().parse_args(list(argv))
    lanes = {}
    for word in options.lane:
        output, sign, lane = word.partition("=")
        if not sign or not output or not re.fullmatch(f"!?{NAME}", lane):
            raise UsageFault(f"--lane {word!r} is not OUTPUT=LANE")
        lanes[output] = lane
    if options.write and not options.uses:
        raise UsageFault(f"--write needs --uses REF, the action of the new steps, such as --uses {PLACEHOLDER}")
    if options.uses and not re.fullmatch(r"[\w.-]+(/[\w.-]+)+@[\w./-]+|https?://\S+@\S+|\./\S+", options.uses):
        raise UsageFault(f"--uses {options.uses!r} names no action: it looks like {PLACEHOLDER}")
    asked = Asked(lanes, frozenset(options.paths), frozenset(options.gate), options.windows)
    return Order(Path(options.target), options.write, options.uses, asked)

"""Files that become others: shown as a diff, or written, all or none; and the text of new lane files."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.gate.asked import UsageFault
from touchgate.gate.sources import FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREPARED = ".touchgate-migrate"
"""How the names of files end that wait to be put in place."""


@dataclass(frozen=True)
class Change:
    """A file that becomes another one. before: None where it is new."""

    path: Path
    name: str
    before: bytes | None
    after: bytes


def diff(change: Change) -> str:
    """The change as a unified diff that git and patch take."""
    before = (change.before or b"").decode("utf-8").splitlines(keepends=True)
    after = change.after.decode("utf-8").splitlines(keepends=True)
    old = "/dev/null" if change.before is None else f"a/{change.name}"
    lines = difflib.unified_diff(before, after, old, f"b/{change.name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def write(changes: list[Change]) -> None:
    """Change all files, or none: each is prepared beside its place, and what was replaced is put back on a fault.

    What is new comes first, so that whoever is killed in between leaves no workflow that asks for a lane which is not
    there: a second run does the rest. Raises UsageFault, OSError.
    """
    changes = sorted(changes, key=lambda change: change.before is not None)
    _tidy(changes)
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


def _tidy(changes: list[Change]) -> None:
    """Take away what a run that was killed had prepared."""
    for folder in {change.path.parent for change in changes}:
        for left in folder.glob(f".*.*{_PREPARED}") if folder.is_dir() else ():
            left.unlink(missing_ok=True)


def _refuse(wrong: bool, why: str) -> None:
    if wrong:
        raise UsageFault(why)


def _beside(path: Path, content: bytes, keep_mode: bool) -> str:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_PREPARED, dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(name, path.stat().st_mode & 0o7777 if keep_mode else 0o666 & ~mask)  # noqa: PTH101
    return name


def new_lane_file(root: Path, workflow: str, lanes: Mapping[str, tuple[tuple[str, ...], str]], taken: set[Path]) -> Change:
    """The file that declares the lanes which a workflow's filters become."""
    stem = Path(workflow).stem
    endings = ["", "-workflow", *(f"-workflow-{count}" for count in range(2, 1000))]
    names = [f"{FOLDER}/{stem}{more}.yml" for more in endings]
    name = next(name for name in names if not (root / name).exists() and root / name not in taken)
    return Change(root / name, name, None, lane_file(workflow, lanes).encode("utf-8"))


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

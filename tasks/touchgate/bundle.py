"""`touchgate bundle`: the gate as one file, touchgate.pyz, that any Python from 3.10 up runs with nothing installed.

It holds the gate's own modules and PyYAML's Python ones, as source: no compiled file, so that one file serves every
version. The bytes follow from the sources alone: files sorted and stored without compression, one fixed time, PyYAML in
the one version that is named here. So a digest can be pinned, as action.yml does, and anyone can check it by building.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import sys
import tempfile
import zipfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import touchgate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAME = "touchgate.pyz"
ACTION = "action.yml"
PYYAML = "6.0.4"
PYYAML_DIGEST = "d7920e947b8c2ca31e7ae267204a08a69fc878930f3673d68792139672bed425"
"""SHA-256 over PyYAML's Python files, as `_digest` computes it: the version's number alone could be anyone's."""

USAGE = 3
_SHEBANG = b"#!/usr/bin/env python3\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip file can tell."""
_REGULAR = 0o100644 << 16
_UNIX = 3
# Parsed by whatever `python3` is: nothing newer than the line that refuses it.
_MAIN = b"""\
import sys

if sys.version_info < (3, 10):
    sys.exit("touchgate.pyz needs Python 3.10 or newer; this is Python " + sys.version.split()[0])
from touchgate.console import main

sys.exit(main())
"""


_ABOUT = f"""\
Write the gate as one file, {NAME}, that needs git and Python 3.10 or later, and nothing installed:
`python3 {NAME} gate` takes the words of `touchgate gate`. Prints its SHA-256 and where it is. The bytes follow from
the sources, whoever makes it."""
_MORE = f"""\
Exit codes:
  0  written
  3  usage, a file that can't be written, or another PyYAML than {PYYAML} is installed

Examples:
  touchgate bundle                      {NAME}, here
  touchgate bundle --action touchgate   the file and an action for workflows: commit both, then
                                        `uses: YOU/REPOSITORY/touchgate@SHA`

More: docs/action.md."""


class BundleFault(Exception):
    """The file can't be made: why and the cure, one line."""


def contents() -> dict[str, bytes]:
    """What the file holds, by name. Raises BundleFault where PyYAML is not the version whose digest is known."""
    package = Path(touchgate.__file__).parent
    own = [package / "__init__.py", package / "console.py", *package.glob("gate/**/*.py"), *package.glob("gate/*.json")]
    found = {f"touchgate/{file.relative_to(package).as_posix()}": file.read_bytes() for file in own}
    return {"__main__.py": _MAIN, **found, **_pyyaml()}


def archive(files: Mapping[str, bytes]) -> bytes:
    """The bytes of a runnable zip file with these files: the same for the same files, wherever it is made."""
    buffer = io.BytesIO()
    buffer.write(_SHEBANG)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_STORED) as made:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = _UNIX
            entry.external_attr = _REGULAR
            made.writestr(entry, files[name])
    return buffer.getvalue()


def action(digest: str) -> bytes:
    """The composite action (GitHub, Forgejo, Gitea) that runs the file with this SHA-256 and no other."""
    text = (Path(touchgate.__file__).parent / ACTION).read_text(encoding="utf-8")
    return text.replace("@SHA256@", digest).replace("@VERSION@", touchgate.__version__).encode()


def _pyyaml() -> dict[str, bytes]:
    cure = f"pip install pyyaml=={PYYAML}"
    try:
        installed = metadata.distribution("PyYAML")
    except metadata.PackageNotFoundError as error:
        raise BundleFault(f"PyYAML is not installed; {cure}") from error
    if installed.version != PYYAML:
        raise BundleFault(f"the bundle's bytes are those with PyYAML {PYYAML}, and {installed.version} is installed; {cure}")
    folder = Path(str(installed.locate_file("yaml")))
    files = {f"yaml/{file.name}": file.read_bytes() for file in folder.glob("*.py")}
    if _digest(files) != PYYAML_DIGEST:
        raise BundleFault(
            f"the files of PyYAML {PYYAML} in {folder} are not those that were released; {cure} --force-reinstall"
        )
    return files


def _digest(files: Mapping[str, bytes]) -> str:
    lines = [f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Write the file and print its SHA-256 beside its name; returns the exit code."""
    del environ
    parser = argparse.ArgumentParser(
        prog="touchgate bundle",
        usage="touchgate bundle [FILE | --action DIR]",
        description=_ABOUT,
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("file", nargs="?", default="", metavar="FILE", help=f"where to write it [default: {NAME}]")
    parser.add_argument(
        "--action",
        metavar="DIR",
        help=f"write it into the folder DIR (made if need be), beside an {ACTION} that pins its digest and runs no other",
    )
    try:
        asked = parser.parse_args(argv)
    except SystemExit as end:
        return USAGE if end.code else 0
    if asked.action and asked.file:
        print(f"touchgate bundle: with --action the file is DIR/{NAME}; leave {asked.file!r} out", file=sys.stderr)
        return USAGE
    target = Path(asked.action, NAME) if asked.action else Path(asked.file or NAME)
    try:
        made = archive(contents())
        if asked.action:
            target.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(made).hexdigest()
        _write(target, made, mode=0o755)
        if asked.action:
            _write(target.with_name(ACTION), action(digest), mode=0o644)
    except BundleFault as fault:
        print(f"touchgate bundle: {fault}", file=sys.stderr)
        return USAGE
    except OSError as error:
        print(f"touchgate bundle: {target} can't be written: {error.strerror}", file=sys.stderr)
        return USAGE
    print(f"{digest}  {target}")
    return 0


def _write(target: Path, made: bytes, *, mode: int) -> None:
    """All or nothing."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(made)
            os.fchmod(file.fileno(), mode)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

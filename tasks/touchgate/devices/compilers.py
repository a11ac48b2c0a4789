"""The C++ compiler of this machine: which one, its version, its family."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.devices import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

MISSING = "no C++ compiler: install g++ (Debian: apt-get install g++; macOS: xcode-select --install)"


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler.

    command: the program as an absolute path, and its fixed arguments. version: the first line of `--version`. family:
    "gcc" or "clang".
    """

    command: tuple[str, ...]
    version: str
    family: str


def find(environ: Mapping[str, str] = os.environ) -> Compiler:
    """CXX where it is set, else g++, clang++ or c++ of PATH. Raises `Unavailable` with what to install."""
    path = environ.get("PATH", os.defpath)
    wish = environ.get("CXX", "").strip()
    if wish:
        try:
            words = shlex.split(wish)
        except ValueError as error:
            raise Unavailable(f"CXX is no command line ({str(error).lower()}): {wish}") from error
        program = shutil.which(words[0], path=path)
        if program is None:
            raise Unavailable(f"CXX names {words[0] or 'nothing'}, which is not in PATH: unset it or install that compiler")
        return _described((program, *words[1:]), environ)
    for name in ("g++", "clang++", "c++"):
        program = shutil.which(name, path=path)
        if program is not None:
            return _described((program,), environ)
    raise Unavailable(MISSING)


def named(program: str, environ: Mapping[str, str] = os.environ) -> Compiler:
    """A compiler by its absolute path. Raises `Unavailable` where it does not answer."""
    return _described((program,), environ)


def _described(command: tuple[str, ...], environ: Mapping[str, str]) -> Compiler:
    return _asked(command, Path(command[0]).stat().st_mtime_ns, environ.get("PATH", os.defpath))


@lru_cache(maxsize=8)
def _asked(command: tuple[str, ...], _stamp: int, path: str) -> Compiler:
    """Ask once a process; a compiler that was replaced has another time stamp."""
    try:
        answer = subprocess.run(
            [*command, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
            env={**os.environ, "PATH": path, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]} does not start: {error}") from error
    if answer.returncode != 0 or not answer.stdout.strip():
        # macOS has stubs of this kind until its command line tools are installed.
        told = (answer.stderr.strip() or answer.stdout.strip() or f"exit {answer.returncode}").splitlines()[0]
        raise Unavailable(f"{command[0]} does not work ({told}); {MISSING}")
    version = answer.stdout.strip().splitlines()[0].strip()
    return Compiler(command, version, "clang" if "clang" in answer.stdout.lower() else "gcc")

"""NVIDIA's compute-sanitizer: where it is, its version, and whether it is the one of the toolkit that compiles."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from touchgate.devices import Unavailable, nvcc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PROGRAM = "compute-sanitizer"
TIME_LIMIT = 60
"""Seconds for a program to tell of itself."""

RELEASES = {
    "2023.1": "12.1",
    "2024.1": "12.4",
    "2025.2": "12.9",
    "2025.3": "13.0",
    "2025.4": "13.1",
    "2026.3": "13.4",
}
"""First two numbers of its version -> the CUDA release that it belongs to, as far as was seen. Others go by their folder."""

_VERSION = re.compile(r"\bVersion (\d{4}\.\d+(?:\.\d+)*)")
_TOP = re.compile(r"^#\$ TOP=(.+)$", re.MULTILINE)


class Tool(NamedTuple):
    """A compute-sanitizer that fits. version: its own, such as "2025.3.1.0". cuda: the release of nvcc, such as "13.0"."""

    path: Path
    version: str
    cuda: str


def missing(cuda: str = "") -> str:
    """What brings the tool, of a CUDA release ("13.0"; "": whichever is installed)."""
    # Not pip's nvidia-cuda-sanitizer-api: those of 12.9 and 13.0 lack libraries or programs that it starts.
    package = f"cuda-sanitizer-{cuda.replace('.', '-') if cuda else '<release of nvcc>'}"
    return f"no {PROGRAM}: install {package} or the whole CUDA toolkit, and put it on PATH or its folder into CUDA_HOME"


def find(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The one of nvcc's own toolkit, else of CUDA_HOME, CUDA_PATH or /usr/local/cuda, else of PATH."""
    for home in _homes(environ):
        for folder in ("bin", PROGRAM):
            candidate = home / folder / PROGRAM
            if candidate.is_file() and os.access(candidate, os.X_OK):
                return candidate
    found = shutil.which(PROGRAM, path=environ.get("PATH", os.defpath))
    return Path(found) if found else None


def _homes(environ: Mapping[str, str]) -> Iterator[Path]:
    compiler = nvcc.find(environ)
    if compiler is not None:
        yield compiler.resolve().parent.parent
    for home in (environ.get("CUDA_HOME"), environ.get("CUDA_PATH"), nvcc.STANDARD_HOME):
        if home:
            yield Path(home)


def fitting(environ: Mapping[str, str] = os.environ) -> Tool:
    """The tool, if it is of the toolkit that compiles. Raises `Unavailable`: it is missing, broken, or of another one.

    A tool of another release may load, see nothing and end well: what it says counts for nothing.
    """
    compiler = nvcc.find(environ)
    if compiler is None:
        raise Unavailable(nvcc.MISSING)
    cuda = ".".join(nvcc.version(compiler).split(".")[:2])
    path = find(environ)
    if path is None:
        raise Unavailable(missing(cuda))
    version = _version(path)
    own = RELEASES.get(".".join(version.split(".")[:2]))
    cure = f"install cuda-sanitizer-{cuda.replace('.', '-')}"
    if own is not None and own != cuda:
        raise Unavailable(f"{path} {version} is of CUDA {own}, nvcc is of {cuda}: {cure}")
    if own is None and not _beside(path, compiler, environ):
        raise Unavailable(
            f"{path} {version} lies in no folder of nvcc's toolkit, and which CUDA it is of is not known: {cure}"
        )
    return Tool(path, version, cuda)


def _version(path: Path) -> str:
    answer = _asked([str(path), "--version"], os.environ)
    match = _VERSION.search(answer.stdout)
    if answer.returncode != 0 or match is None:
        told = (answer.stderr.strip() or answer.stdout.strip() or f"exit {answer.returncode}").splitlines()[0]
        raise Unavailable(f"{path} does not work: {told}")
    return match[1]


def _beside(path: Path, compiler: Path, environ: Mapping[str, str]) -> bool:
    """Whether a tool lies in the toolkit of a compiler, which may be a script that calls another one: it is asked."""
    told = _asked([str(compiler), "--dryrun", "-x", "cu", "-E", os.devnull], environ)
    top = _TOP.search(told.stderr + told.stdout)
    return top is not None and path.resolve().is_relative_to(Path(top[1]).resolve())


def _asked(command: list[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=TIME_LIMIT,
            check=False,
            env=dict(environ),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]} does not start: {error}") from error

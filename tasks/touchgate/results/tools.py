"""Versions of the tools that a result depends on, asked without importing what is heavy."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.devices.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

ABSENT = "absent"
TIME_LIMIT = 20.0
"""Seconds for a tool to tell its version."""

LARGEST_PROGRAM = 16 << 20
"""Bytes of a program that are read to tell it from another one."""
DIGITS = 16

_RUST = ("HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN")

RESULT_CODE = (
    *("checks", "devices", "benchmarks", "outcome.py", "golden.py", "ladder.py", "pinned.py"),
    *("gate/closure/cxx.py", "gate/closure/cxx_text.py", "gate/closure/references.py"),
)
"""The parts of the package that can change a check's result, beside its inputs: what `package_digest` is asked for."""

_PACKAGE = Path(__file__).resolve().parent.parent
_SOURCES = (".py", ".h", ".hpp", ".cuh", ".cu", ".cpp", ".json")


def versions(names: Iterable[str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Name (out of `KNOWN`) -> version, "absent" where the tool is missing. Raises KeyError for an unknown name.

    Programs are asked at the same time, each at most once a process.
    """
    from touchgate.devices import nvcc, sanitizer  # noqa: PLC0415  the very programs that run, wherever they were found

    wanted = sorted(set(names))
    search = environ.get("PATH", os.defpath)
    found = nvcc.find(environ) if "nvcc" in wanted else None
    which = {"g++": environ.get("CXX", "").strip(), "nvcc": str(found or "nvcc")}
    if sanitizer.PROGRAM in wanted:
        which[sanitizer.PROGRAM] = str(sanitizer.find(environ) or sanitizer.PROGRAM)
    # Where rustup's programs look for the toolchain that they stand for.
    places = "\n".join(f"{name}={environ[name]}" for name in _RUST if environ.get(name) and "\n" not in environ[name])
    which |= dict.fromkeys(("cargo", "rustc"), places)
    asking = {name: _ASK[name] for name in wanted}
    programs = [name for name in wanted if name in _PROGRAMS]
    if len(programs) > 1:
        with ThreadPoolExecutor(len(programs)) as pool:
            list(pool.map(lambda name: asking[name](search, which.get(name, "")), programs))
    return {name: ask(search, which.get(name, "")) for name, ask in asking.items()}


def _python(_search: str, _compiler: str) -> str:
    abi = sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag
    return f"{platform.python_implementation()} {platform.python_version()} {abi} {platform.machine()}"


def _package(name: str) -> Callable[[str, str], str]:
    @cache
    def ask() -> str:
        try:
            if util.find_spec(name) is None:
                return ABSENT
        except (ImportError, ValueError):
            return ABSENT
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return "of unknown version"

    return lambda _search, _compiler: ask()


@cache
def _gxx(search: str, compiler: str) -> str:
    """The C++ compiler that touchgate.devices.compilers takes: CXX, else the first of these that is there."""
    try:
        # CXX may hold a launcher or flags ("ccache g++ -m64"), which belong to the answer.
        named = shlex.split(compiler)
    except ValueError:
        return f"CXX can't be read: {compiler}"
    for words in [named] if named else [["g++"], ["clang++"], ["c++"]]:
        told = _first_line([*words, "--version"], search)
        if told != ABSENT:
            programs = [words[0], *(word for word in words[1:] if not word.startswith("-"))]
            bytes_of = [found for word in programs if (found := _program_digest(word, search))]
            return " ".join([told, platform.machine(), *bytes_of, *words[1:]])
    return ABSENT


@cache
def _nvcc(search: str, program: str) -> str:
    # The first line names the program; the release and the build stand in the last ones.
    told = _output([program, "--version"], search)
    if told == ABSENT:
        return ABSENT
    return " ".join([*told.split("\n")[-2:], _program_digest(program, search)]).strip()


@cache
def _compute_sanitizer(search: str, program: str) -> str:
    # The version stands in the last line; the program may be a script that starts the one of its toolkit.
    told = _output([program, "--version"], search)
    if told == ABSENT:
        return ABSENT
    return f"{told.rpartition(chr(10))[2]} {_program_digest(program, search)}".strip()


@cache
def _git(search: str, _compiler: str = "") -> str:
    return _first_line(["git", "--version"], search)


@cache
def _sh(_search: str, _compiler: str = "") -> str:
    """/bin/sh: many tell no version, so the program's own bytes are it."""
    try:
        program = Path("/bin/sh").resolve(strict=True)
        return f"{program.name} {hashlib.sha256(program.read_bytes()).hexdigest()[:DIGITS]}"
    except OSError:
        return ABSENT


def _program(*names: str) -> Callable[[str, str], str]:
    """Of the first of these programs that is there: the first line of what it says, and its bytes."""

    @cache
    def ask(search: str, places: str) -> str:
        for name in names:
            told = _output([name, "--version"], search, places).partition("\n")[0].strip()
            if told != ABSENT:
                return f"{told} {_program_digest(name, search)}".strip()
        return ABSENT

    return ask


_OTHERS: dict[str, Callable[[str, str], str]] = {
    **{name: _program(name) for name in ("clang++", "cargo", "rustc")},
    **{target.compiler: _program(target.compiler) for target in TARGETS.values()},
    **{target.emulators[-1]: _program(*target.emulators) for target in TARGETS.values()},
}
_ASK: dict[str, Callable[[str, str], str]] = {
    "python": _python,
    "numpy": _package("numpy"),
    "pycuda": _package("pycuda"),
    "pytest": _package("pytest"),
    "g++": _gxx,
    "nvcc": _nvcc,
    "compute-sanitizer": _compute_sanitizer,
    "git": lambda search, _compiler: _git(search),
    "sh": lambda search, _compiler: _sh(search),
    **_OTHERS,
}
_PROGRAMS = {"g++", "nvcc", "compute-sanitizer", "git", *_OTHERS}
KNOWN = frozenset(_ASK)
"""The names that `versions` answers."""


def _program_digest(name: str, search: str) -> str:
    """Digits of the SHA-256 of a program's file: a wrapper may change and tell the same version. Empty where too large."""
    program = shutil.which(name, path=search)
    try:
        if program is None or Path(program).stat().st_size > LARGEST_PROGRAM:
            return ""
        return hashlib.sha256(Path(program).read_bytes()).hexdigest()[:DIGITS]
    except OSError:
        return ""


def _first_line(command: list[str], search: str) -> str:
    return _output(command, search).partition("\n")[0].strip()


def _output(command: list[str], search: str, places: str = "") -> str:
    program = shutil.which(command[0], path=search)
    if program is None:
        return ABSENT
    try:
        told = subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=TIME_LIMIT,
            check=False,
            env={**dict(line.split("=", 1) for line in places.splitlines()), "PATH": search, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        return f"of unknown version ({fault})"
    if told.returncode != 0:
        return f"of unknown version (exit {told.returncode})"
    return told.stdout.strip()


@cache
def _digest(parts: tuple[str, ...], package: Path) -> str:
    total = hashlib.sha256()
    for path in sorted({file for part in parts for file in _sources(package / part)}):
        content = path.read_bytes()
        total.update(f"{path.relative_to(package).as_posix()}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def _sources(part: Path) -> Iterable[Path]:
    if part.is_file():
        return [part]
    return [file for file in part.rglob("*") if file.suffix in _SOURCES and file.is_file()]


def package_digest(parts: Sequence[str], package: Path = _PACKAGE) -> str:
    """SHA-256 over the sources (never .pyc) of the named files and folders of the package. A missing one adds none."""
    return _digest(tuple(sorted(parts)), package)

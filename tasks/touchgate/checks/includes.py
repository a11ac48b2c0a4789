"""Which files a .cu file includes, directly or not, read without a compiler; and what can't be told so.

Every branch counts, also those that the preprocessor would leave out: one file too many in a key costs a repeated check,
one too few a stale result. What can't be told without a compiler (`#include MACRO`, an include folder that a variable
names) makes the result one that is never reused.
"""

from __future__ import annotations

import os
import posixpath
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from touchgate.checks import Inputs
from touchgate.gate.closure import cxx

FOLDER_VARIABLES = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH"),
    *("CCC_OVERRIDE_OPTIONS", "CCC_ADD_ARGS"),
)
"""Variables by which compilers find headers, or arguments, beside their command line."""
ARGUMENT_VARIABLES = {"emulated": ("CXX",), "other": ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")}
"""By place: the variables that hold arguments of the compiler."""
_NAMES_FILES = re.compile(
    r"""(?:^|[\s,='"])(?:
      -[IB] | @ | -i(?:nclude|macros|system|quote|dirafter|prefix|withprefix|sysroot|dp) | -optf | -Xclang
      | --?(?:include|imacros|system-include|pre-include|options-file|sysroot|specs|fplugin|fmodule|embed-dir|config)
      | -f[\w-]+=[^\s]*/
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Scan:
    """What one text names. names: within quotes, in order, each once. unresolved: line (from 1) -> what stands there."""

    names: tuple[str, ...]
    unresolved: Mapping[int, str]


@dataclass(frozen=True)
class Reach:
    """All that a file reaches. files: paths below the root. unresolved: "file:line" -> what can't be told."""

    files: tuple[str, ...]
    unresolved: Mapping[str, str]


def scan(text: str) -> Scan:
    """Return the names in `#include "..."`, `#import`, `#embed`, `__has_include("...")`, and what is computed.

    Names in <...> are the compiler's own headers, or of folders that the command line names (see `unresolved_arguments`).
    """
    found = cxx.scan(text)
    names = {reference.text: None for reference in found.references if reference.how == "quotes"}
    names |= {reference.text: None for reference in found.references if reference.how == "bytes" and reference.text[0] != "<"}
    return Scan(tuple(names), {one.line: one.text for one in found.unresolved})


def reach(source: str, root: Path) -> Reach:
    """Return `source` and all that it includes: paths below `root` with "/", in the order found.

    A name is looked up beside the file that includes it, as compilers do first. A missing file is listed too: it may
    appear later. `root` is the repository's root; names that lead out of it keep their "..".
    """
    waiting = [posixpath.normpath(source)]
    found: dict[str, None] = {}
    unresolved: dict[str, str] = {}
    while waiting:
        path = waiting.pop(0)
        if path in found:
            continue
        found[path] = None
        file = root / path
        if not file.is_file():
            if file.is_dir():  # no compiler reads it
                del found[path]
            continue
        try:
            text = file.read_bytes().decode("utf-8", "surrogateescape")
        except OSError:
            continue
        scanned = scan(text)
        unresolved |= {f"{path}:{line}": what for line, what in scanned.unresolved.items()}
        for name in scanned.names:
            waiting += _beside(path, name, root)
    return Reach(tuple(found), unresolved)


def _beside(path: str, name: str, root: Path) -> list[str]:
    """The path of `name` beside `path`, and where "..", after a link to a folder, leads elsewhere, that one too."""
    spelled = posixpath.join(posixpath.dirname(path), name)
    plain = posixpath.normpath(spelled)
    if ".." not in name.split("/"):
        return [plain]
    try:
        real = os.path.realpath(root / spelled)
        if real == os.path.realpath(root / plain):
            return [plain]
        return [plain, posixpath.relpath(real, os.path.realpath(root))]
    except (OSError, ValueError):
        return [plain]


def unresolved_arguments(place: str, environ: Mapping[str, str], declared: Collection[str]) -> dict[str, str]:
    """Return the variables by which the compiler of `place` reads files that no source names, with what they hold.

    declared: the further variables that the check sees.
    """
    found = {}
    for name in ARGUMENT_VARIABLES["emulated" if place == "emulated" else "other"]:
        if _NAMES_FILES.search(environ.get(name, "")):
            found[name] = environ[name]
    for name in FOLDER_VARIABLES:
        if name in declared and name in environ:
            found[name] = environ[name]
    return found


def with_includes(
    inputs: Inputs, source: str | None, root: Path, place: str, environ: Mapping[str, str], declared: Collection[str]
) -> Inputs:
    """Return `inputs` with all that the .cu file `source` reaches; never the same again where that can't be told."""
    found = reach(source, root) if source is not None else Reach((), {})
    extra = {f"unresolved include {where}": f"{what} {_never()}" for where, what in found.unresolved.items()}
    for name, value in unresolved_arguments(place, environ, declared).items():
        extra[f"unresolved includes of {name}"] = f"{value} {_never()}"
    return Inputs(tuple(sorted({*inputs.files, *found.files})), inputs.tools, {**inputs.extra, **extra})


def with_reached(inputs: Inputs, files: Collection[str], fault: str) -> Inputs:
    """Return `inputs` with the files that the lane's sources reach; never the same again where that can't be told."""
    extra = {"what the sources include": f"{fault} {_never()}"} if fault else {}
    return Inputs(tuple(sorted({*inputs.files, *files})), inputs.tools, {**inputs.extra, **extra})


@cache
def _never() -> str:
    """A value that no other process has. One a process: a key must be the same before and after its check."""
    return secrets.token_hex(16)

"""Which files belong to an oracle file: the .cu of its name, and what it imports. Nothing is executed."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_RELATIVE = re.compile(rb"\bfrom[ \t\f\r\n\\]*\.")
"""Without these bytes a source in UTF-8 holds no relative import, and need not be parsed."""
_ENCODING = re.compile(rb"\A(?:[^\n]*\n)?[^\n]*coding[:=]", re.IGNORECASE)


def source_of(target: str) -> str:
    """The .cu file of an oracle file, by name."""
    return str(PurePosixPath(target).with_suffix(".cu"))


def oracle_files(target: str, root: Path) -> list[str]:
    """An oracle file and all files that its relative imports may execute, directly or not: paths below the root.

    Missing ones are named too: a package that appears takes the place of a module. Names that lead out of the root keep
    their "..". Read with `ast`, nothing is executed. A file that does not parse is its own last word: running it will
    say so. What an import that is no statement would load is refused when it runs (`touchgate.checks.cases.load_file`).
    """
    found: dict[str, None] = {}
    waiting = [posixpath.normpath(target)]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = None
        for node in _relative_imports(root / path):
            waiting.extend(_candidates(node, path, root))
    return list(found)


def _relative_imports(file: Path) -> Iterator[ast.ImportFrom]:
    """The relative imports of a file, wherever in it: imports are statements, so no expression is looked into."""
    try:
        text = file.read_bytes()
        if not _RELATIVE.search(text) and not _ENCODING.match(text):
            return
        waiting: list[ast.AST] = [ast.parse(text)]
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, name, None)
            if isinstance(inner, list):  # of a lambda and `a if b else c` they are expressions
                waiting.extend(inner)


def _candidates(node: ast.ImportFrom, importer: str, root: Path) -> Iterator[str]:
    """What `from .a.b import c` may execute: each of a, a.b and a.b.c, as a package and as a module."""
    folder = posixpath.normpath(posixpath.join(posixpath.dirname(importer), *[".."] * (node.level - 1)))
    for part in (node.module or "").split(".") if node.module else ():
        folder = posixpath.normpath(posixpath.join(folder, part))
        yield from _forms(folder)
    if node.module and not (root / folder / "__init__.py").is_file() and (root / f"{folder}.py").is_file():
        return  # a module has no modules below it
    for alias in node.names:
        names = [alias.name] if alias.name != "*" else _modules(root / folder)
        for name in names:
            yield from _forms(posixpath.normpath(posixpath.join(folder, name)))


def _forms(module: str) -> tuple[str, str]:
    return posixpath.join(module, "__init__.py"), f"{module}.py"


def _modules(folder: Path) -> list[str]:
    """The modules of a package: `import *` executes those that its `__all__` names."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return []
    return [entry.stem for entry in entries if entry.suffix == ".py" or (entry / "__init__.py").is_file()]

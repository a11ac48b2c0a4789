"""Which files belong to an oracle file: the .cu of its name, and what it imports. Nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path, PurePosixPath


def source_of(target: str) -> str:
    """The .cu file of an oracle file, by name."""
    return str(PurePosixPath(target).with_suffix(".cu"))


def oracle_files(target: str, root: Path) -> list[str]:
    """An oracle file and the repository's files that it imports relatively, directly or not: paths below the root.

    Read with `ast`, nothing is executed. A file that does not parse is its own last word: running it will say so.
    """
    found: dict[str, None] = {}
    waiting = [PurePosixPath(target)]
    while waiting:
        path = waiting.pop()
        if str(path) in found:
            continue
        found[str(path)] = None
        try:
            tree = ast.parse((root / path).read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                waiting.extend(_imported(node, path, root))
    return list(found)


def _imported(node: ast.ImportFrom, importer: PurePosixPath, root: Path) -> Iterable[PurePosixPath]:
    """The files that `from .a.b import c` may mean: a/b.py, a/b/__init__.py and a/b/c.py, those that exist."""
    if node.level > len(importer.parents):
        return
    base = importer.parents[node.level - 1].joinpath(*(node.module or "").split("."))
    modules = [base, *(base / alias.name for alias in node.names)]
    for module in modules:
        for path in (module.with_name(f"{module.name}.py") if module.name else None, module / "__init__.py"):
            if path is not None and (root / path).is_file():
                yield path

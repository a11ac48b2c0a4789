"""What the names in a Python file mean in a tree: the files that are loaded for them."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left
from typing import TYPE_CHECKING

from touchgate.gate.closure.python_expressions import CWD, HERE
from touchgate.gate.closure.python_paths import BELOW, COMMAND, DATA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from touchgate.gate.closure.references import Reference, Settings
    from touchgate.gate.closure.tree import Tree

FOLDERS = ("", "src")
"""Folders that imports start from, beside the declared ones and those that follow from the importing file's place."""
TEST_FILE = re.compile(r"(?:test_.*|.*_test|conftest)\.py")
"""Files that pytest loads, by its own default."""
PACKAGE = "package:"
"""Before the package that a data file lies in."""

_MODULE_ENDINGS = (".py", ".pyi", ".pyw", ".pyx", ".pxd", ".so", ".pyd", ".pyc")


def resolve(reference: Reference, path: str, tree: Tree, settings: Settings) -> tuple[str, ...]:
    """The files that are loaded for a reference, each package's __init__.py on the way among them."""
    name = reference.text
    if reference.how == "all":
        folder, own = posixpath.split(path)
        if not own.startswith("__init__."):
            return ()
        return tuple(dict.fromkeys(_all_modules(folder, tree) if name == "*" else _module(folder, name, tree)))
    if reference.how == "conftest":
        return tuple(_conftests(path, tree))
    first = reference.candidates[0] if reference.candidates else ""
    if first == COMMAND:
        from touchgate.gate.closure import shell  # noqa: PLC0415  it imports the reader of Python

        return shell.resolve(reference._replace(candidates=reference.candidates[1:]), path, tree, settings)
    if first in (DATA, BELOW):
        return _told(reference, path, tree, settings)
    if reference.how in ("file", "bytes"):
        files = (file for place in reference.candidates for file in _files(place, name, path, tree, settings))
        return tuple(dict.fromkeys(one for file in files for one in tree.at(file)))
    return _imported(reference, path, tree, settings)


def _told(reference: Reference, path: str, tree: Tree, settings: Settings) -> tuple[str, ...]:
    """A file that is opened or run, or all that is below a folder, but for the root."""
    kind, *places = reference.candidates
    found: dict[str, None] = {}
    for file in (one for place in places for one in _folders(place, path, settings) if one):
        if kind == DATA:
            found.update(dict.fromkeys(tree.at(file)))
        elif tree.folder(file) is not None:
            found.update(dict.fromkeys(tree.below(file)))
    found.pop(path, None)
    return tuple(found)


def _imported(reference: Reference, path: str, tree: Tree, settings: Settings) -> tuple[str, ...]:
    found: dict[str, None] = {}
    name = reference.text
    wanted = [one for one in reference.candidates if ":" not in one]
    roots = [one for one in reference.candidates if ":" in one]
    dots = len(name) - len(name.lstrip("."))
    parts = [part for part in name[dots:].split(".") if part]
    if not all(map(_is_name, parts)):
        return ()
    more = (folder for root in roots for folder in _folders(root, path, settings)) if not dots else ()
    for start in dict.fromkeys((*_starts(path, dots, tree, settings), *more)):
        for folder in _walk(start, parts, tree, found):
            for one in wanted:
                found.update(dict.fromkeys(_module(folder, one, tree)))
    return tuple(found)


def _folders(place: str, path: str, settings: Settings) -> Iterable[str]:
    """Where a path may lead that a file says: from its own folder, or from wherever the program is started."""
    anchor, rest = place[: len(HERE)], place[len(HERE) :]
    if place.startswith(CWD):
        anchor, rest = CWD, place[len(CWD) :]
    starts = (posixpath.dirname(path),) if anchor == HERE else (*_above(path), *settings.python)
    for start in starts:
        folder = posixpath.normpath(posixpath.join(start, rest))
        if not folder.startswith(("../", "/")) and folder != "..":
            yield "" if folder == "." else folder


def _files(place: str, name: str, path: str, tree: Tree, settings: Settings) -> Iterator[str]:
    """A file that is named by its path, what is run of a folder, or the data of a package."""
    if place.startswith(PACKAGE):
        parts = place[len(PACKAGE) :].split(".")
        for start in _starts(path, 0, tree, settings) if all(map(_is_name, parts)) else ():
            yield posixpath.join(start, *parts, name)
        return
    for file in _folders(place, path, settings):
        yield file
        yield posixpath.join(file, "__main__.py")


def _conftests(path: str, tree: Tree) -> Iterator[str]:
    """The conftest.py of each folder above, which pytest loads."""
    files = (posixpath.join(folder, "conftest.py") for folder in _above(path))
    return (file for file in files if file != path and tree.is_file(file))


def implied(path: str, tree: Tree, settings: Settings) -> tuple[str, ...]:  # noqa: ARG001 (of the contract)
    """The packages that a file lies in, and for a test the conftest.py of each folder above, which pytest loads."""
    names = ("__init__.py", "__init__.pyi")
    files = (posixpath.join(folder, name) for folder in _above(path) for name in names)
    tests = _conftests(path, tree) if TEST_FILE.fullmatch(posixpath.basename(path)) else ()
    return (*(file for file in files if file != path and tree.is_file(file)), *tests)


def _is_name(text: str) -> bool:
    return "/" not in text and text not in ("", ".", "..")


def _above(path: str) -> Iterator[str]:
    """The folders above a path, the nearest first, "" last."""
    while path:
        path = posixpath.dirname(path)
        yield path


def _starts(path: str, dots: int, tree: Tree, settings: Settings) -> Iterator[str]:
    """The folders that a module's name starts from."""
    if dots:
        above = list(_above(path))
        if dots <= len(above):
            yield above[dots - 1]
        return
    seen = set()
    for folder in (*settings.python, *FOLDERS, *_own_starts(path, tree)):
        if folder not in seen:
            seen.add(folder)
            yield folder


def _own_starts(path: str, tree: Tree) -> Iterator[str]:
    """A script's own folder, each `src/` above, the nearest folder that is no package, and those of a conftest.py."""
    above = list(_above(path))
    yield above[0]
    yield from (posixpath.join(folder, "src") for folder in above if "src/" in (tree.folder(folder) or ()))
    yield next((folder for folder in above if not tree.is_file(posixpath.join(folder, "__init__.py"))), "")
    for folder in above:
        if tree.is_file(posixpath.join(folder, "conftest.py")):
            yield next((up for up in _above(f"{folder}/x") if not tree.is_file(posixpath.join(up, "__init__.py"))), "")


def _walk(start: str, parts: list[str], tree: Tree, found: dict[str, None]) -> Iterator[str]:
    """Add the files of each package on the way down; yield the folder at its end, where there is one."""
    folder = start
    if not parts:
        for name in ("__init__.py", "__init__.pyi"):
            found.update(dict.fromkeys(tree.at(posixpath.join(folder, name))))
    for part in parts:
        found.update(dict.fromkeys(_module(folder, part, tree)))
        folder = posixpath.join(folder, part)
        if tree.folder(folder) is None:
            return
        if tree.gitlink(folder):
            return
    yield folder


def _module(folder: str, name: str, tree: Tree) -> Iterator[str]:
    """The files that the module `name` in a folder may be; a submodule of git's as a whole."""
    if not _is_name(name) or name == "*":
        return
    names = tree.folder(folder) or ()
    for place in range(bisect_left(names, f"{name}."), len(names)):
        one = names[place]
        if one == f"{name}/":
            link = tree.gitlink(posixpath.join(folder, name))
            if link:
                yield link
            for inner in ("__init__.py", "__init__.pyi", "__init__.pyx"):
                yield from tree.at(posixpath.join(folder, name, inner))
        elif not one.startswith(f"{name}."):
            return
        elif one.endswith(_MODULE_ENDINGS):
            middle = one[len(name) : one.rfind(".")]
            if not middle or one.endswith((".so", ".pyd", ".pyc")):
                yield posixpath.join(folder, one)


def _all_modules(folder: str, tree: Tree) -> Iterator[str]:
    for one in tree.folder(folder) or ():
        yield from _module(folder, one.rstrip("/").partition(".")[0], tree)

"""What the names of commands mean in a tree: the files, and the folders whose every file counts."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from touchgate.gate.closure.paths import upwards

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from touchgate.gate.closure.references import Settings
    from touchgate.gate.closure.tree import Tree
    from touchgate.gate.names import Name

READ_AS = {"script": "shell", "python": "python", "makefile": "makefile"}
"""What a file is read as whose name tells nothing, by what names it."""
STARTS = ("", "src")
"""Folders that modules start from, beside the declared ones and those that a command stands in."""
_MOST_ALTERNATIVES = 256


class Meant(NamedTuple):
    """One file. read_as: a language, where its name does not tell it. is_below: it counts for a folder that is named."""

    path: str
    read_as: str = ""
    is_below: bool = False


def files(name: Name, tree: Tree, settings: Settings) -> Iterator[Meant]:
    """The files of the tree that a name means, to be read; of folders only those of pytest. May raise as Tree does."""
    if name.kind in ("tests", "testpaths"):
        yield from _tests(name, tree)
    elif name.kind == "pytest":
        yield from _of_call(name, tree, settings)
    elif name.kind == "module":
        for folder in dict.fromkeys((*name.folders, *settings.python, *STARTS)):
            yield from _module(posixpath.join(folder, name.text.replace(".", "/")), tree)
    elif name.kind == "code":
        yield from _code(name, tree, settings)
    elif name.kind == "cargo":
        from touchgate.gate.closure.packages import sources  # noqa: PLC0415  only where Cargo is run

        yield from (Meant(path) for folder in name.folders for path in sources(folder, name.text, name.more, tree))
    elif name.kind not in ("include", "pythonpath", "vectors"):
        for path in paths(name, tree):
            yield from (Meant(file, READ_AS.get(name.kind, "")) for file in tree.at(path))


def folders(name: Name, tree: Tree) -> Iterator[str]:
    """The folders that a name means with all that is in them; never the root."""
    if name.kind == "word":
        yield from (path for path in paths(name, tree) if path and not tree.at(path) and tree.folder(path) is not None)


def paths(name: Name, tree: Tree) -> Iterator[str]:
    """The paths that a name may mean: of a pattern those that are there."""
    for path in name.paths():
        yield path
        if name.is_pattern:
            yield from matching(path, tree)


def matching(pattern: str, tree: Tree) -> list[str]:
    """The paths that a shell would put in the place of a pattern, and others that are not there."""
    return [path for one in _alternatives(pattern) for path in _matching([""], one.split("/"), tree)]


def _alternatives(text: str) -> list[str]:
    """a{b,c}d: abd, acd."""
    waiting: list[str] = [re.sub(r"\{[^{},/]*\.\.[^{},/]*\}", "*", text)]
    found: list[str] = []
    while waiting and len(found) + len(waiting) < _MOST_ALTERNATIVES:
        one = waiting.pop()
        inner = re.search(r"\{([^{}]*,[^{}]*)\}", one)
        if inner is None:
            found.append(one)
        else:
            waiting += [one[: inner.start()] + part + one[inner.end() :] for part in inner.group(1).split(",")]
    return found + waiting


def _matching(starts: Iterable[str], parts: list[str], tree: Tree) -> list[str]:
    found = list(starts)
    for place, part in enumerate(parts):
        whole = [link for start in found if start and (link := tree.gitlink(start))]
        if whole:
            # What a submodule holds is not known.
            inner = [start for start in found if not start or not tree.gitlink(start)]
            return [*dict.fromkeys(whole), *(_matching(inner, parts[place:], tree) if inner else ())]
        if part == "**":
            inner = [one for start in found for one in _all_folders(start, tree)]
            return _matching(inner, parts[place + 1 :] or ["*"], tree)
        if re.search(r"[*?\[]", part):
            found = [posixpath.join(start, one) for start in found for one in _in_folder(start, part, tree)]
        else:
            found = [posixpath.join(start, part) for start in found]
    return found


def _in_folder(folder: str, pattern: str, tree: Tree) -> list[str]:
    names = (name.rstrip("/") for name in tree.folder(folder) or ())
    pattern = re.sub(r"\[[!^]?(?:\[:\w+:\]|[^\[\]])*\[:\w+:\](?:\[:\w+:\]|[^\[\]])*\]", "?", pattern).replace("[^", "[!")
    matches = re.compile(fnmatch.translate(pattern)).match
    return [name for name in names if matches(name) and name.startswith(".") <= pattern.startswith(".")]


def _all_folders(start: str, tree: Tree) -> list[str]:
    found = {start: None}
    for file in tree.below(start):
        for folder in upwards(posixpath.dirname(file)):
            if folder in found:
                break
            found[folder] = None
    return list(found)


# pytest


def _tests(name: Name, tree: Tree) -> Iterator[Meant]:
    if name.kind == "testpaths":
        folder = next(name.paths(), "")
        targets = [path for text in _testpaths(folder, tree) for path in _matching([folder], text.split("/"), tree)] or [
            folder
        ]
    else:
        targets = list(paths(name, tree))
    yield from _of_targets(targets, tree)


def _of_targets(targets: Iterable[str], tree: Tree) -> Iterator[Meant]:
    """The tests of files and folders, with every conftest.py above."""
    for target in targets:
        found = tree.at(target) if target else ()
        yield from map(Meant, found)
        is_folder = not found and tree.folder(target) is not None
        if is_folder:
            yield from (Meant(path, "", True) for path in tree.below(target) if path.endswith(".py"))
        if found or is_folder:
            for folder in upwards(target if is_folder else posixpath.dirname(target)):
                yield from map(Meant, tree.at(posixpath.join(folder, "conftest.py")))


def _testpaths(folder: str, tree: Tree) -> list[str]:
    """Which tests are run where none is named: every configuration that may apply."""
    from touchgate.gate.closure.pytest_calls import CONFIGURATION, values  # noqa: PLC0415  only where pytest is run

    for file in (posixpath.join(folder, one) for one in CONFIGURATION):
        found = values(file, "testpaths", tree)
        if found:
            return [posixpath.normpath(one) for one in found if not one.startswith("/")]
    return []


def set_folders(name: Name, tree: Tree) -> list[str]:
    """The folders that a call of pytest adds to those that imports start from."""
    from touchgate.gate.closure.pytest_calls import calls  # noqa: PLC0415  as above

    return [folder for call in calls(name, tree) for folder in call.python_path]


def _of_call(name: Name, tree: Tree, settings: Settings) -> Iterator[Meant]:
    """Configuration, plugins, and tests of other endings."""
    from touchgate.gate.closure.pytest_calls import calls, tests_of  # noqa: PLC0415  as above

    for call in calls(name, tree):
        yield from (Meant(file) for path in call.files for file in tree.at(path))
        starts = dict.fromkeys((*name.paths(), *call.roots, *call.python_path, *settings.python, *STARTS))
        for plugin in call.plugins:
            for start in starts:
                yield from _module(posixpath.join(start, plugin.replace(".", "/")), tree)
        for root in call.roots:
            for folder in upwards(root):
                yield from map(Meant, tree.at(posixpath.join(folder, "conftest.py")))
        yield from _of_targets(call.targets if call.is_named else (), tree)
        yield from (Meant(path, "", True) for path in tests_of(call, tree))


# Python


def _module(path: str, tree: Tree) -> Iterator[Meant]:
    """What `python -m` runs, and what it imports on the way: those of the packages come with each file."""
    for ending in (".py", "/__main__.py", "/__init__.py"):
        yield from map(Meant, tree.at(f"{path}{ending}"))
    link = tree.gitlink(path)
    if link:
        yield Meant(link)


def _code(name: Name, tree: Tree, settings: Settings) -> Iterator[Meant]:
    from touchgate.gate.closure import python  # noqa: PLC0415  only where a command holds some

    for reference in python.read(name.text.encode("utf-8", "surrogateescape")).references:
        for folder in name.folders:
            yield from map(Meant, python.resolve(reference, posixpath.join(folder, "-c"), tree, settings))

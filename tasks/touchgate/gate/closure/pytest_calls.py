"""What a call of pytest reads beside its tests: configuration, plugins, files of arguments, tests of other endings.

The rules are those of https://docs.pytest.org/en/stable/reference/customize.html. Which configuration applies depends on
more than the tree, so every one counts that may: those of the folder that pytest runs in, of the tests, and of all above.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from touchgate.gate.closure import toml
from touchgate.gate.closure.paths import joined, parent, upwards
from touchgate.gate.programs import PYTEST_VALUED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from touchgate.gate.closure.tree import Tree
    from touchgate.gate.names import Name

CONFIGURATION = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
_ALWAYS = ("test*.txt",)
"""Files that are doctests where no option says otherwise."""
_MOST_DEEP = 8
"""Files of arguments that name others."""
_LONG = {"-c": "--config-file", "-o": "--override-ini", "-p": "-p"}


class Call(NamedTuple):
    """What arguments say, paths from the root.

    is_named: targets are named, else they are where pytest runs. files: of arguments and of configuration. roots: as
    --rootdir gives them.
    """

    targets: tuple[str, ...]
    is_named: bool
    files: tuple[str, ...]
    configuration: tuple[str, ...]
    roots: tuple[str, ...]
    plugins: tuple[str, ...]
    globs: tuple[str, ...]
    python_path: tuple[str, ...]


def calls(name: Name, tree: Tree) -> Iterator[Call]:
    """The call, for each folder that it may be made in."""
    for folder in name.paths():
        yield _call(folder, name.more, tree)


def _call(folder: str, words: Sequence[str], tree: Tree) -> Call:
    found: dict[str, list[str]] = {key: [] for key in ("", "@", "--config-file", "--rootdir", "-p", "--doctest-glob")}
    set_: list[tuple[str, str]] = []
    _sort(folder, words, tree, found, set_)
    targets = _there(folder, found[""], tree)
    roots = [path for one in found["--rootdir"] if (path := _within(folder, one)) is not None]
    given = [path for one in found["--config-file"] if (path := _within(folder, one)) is not None and tree.is_file(path)]
    starts = {target if tree.folder(target) is not None else parent(target): None for target in targets or [folder]}
    above = {up: None for start in (folder, *starts, *roots, *map(parent, given)) for up in upwards(start)}
    configuration = [*given, *(path for up in above for one in CONFIGURATION if tree.is_file(path := joined(up, one)))]
    python_path = []
    for file in configuration:
        for option in values(file, "addopts", tree, is_line=True):
            _sort(folder, _split(option), tree, found, set_)
        found["--doctest-glob"] += values(file, "python_files", tree)
        python_path += [_within(parent(file), one) for one in values(file, "pythonpath", tree)]
    for key, value in set_:
        if key == "python_files":
            found["--doctest-glob"] += value.split()
        elif key == "pythonpath":
            python_path += [_within(up, one) for one in value.split() for up in above]
        elif key == "addopts":
            _sort(folder, _split(value), tree, found, [])
    return Call(
        tuple(_there(folder, found[""], tree)) or (folder,),
        bool(found[""]),
        tuple(dict.fromkeys((*found["@"], *configuration))),
        tuple(dict.fromkeys(configuration)),
        tuple(dict.fromkeys((*roots, *map(parent, given)))),
        tuple(dict.fromkeys(found["-p"])),
        tuple(dict.fromkeys((*_ALWAYS, *found["--doctest-glob"]))),
        tuple(path for path in dict.fromkeys(python_path) if path is not None and tree.folder(path) is not None)
        + tuple(path for path in dict.fromkeys(python_path) if path and tree.gitlink(path)),
    )


def _there(folder: str, texts: Iterable[str], tree: Tree) -> list[str]:
    """The files and folders that tests are named by."""
    paths = [path for one in texts if (path := _within(folder, one.partition("::")[0])) is not None]
    return [path for path in dict.fromkeys(paths) if tree.at(path) or tree.folder(path) is not None]


def _sort(
    folder: str,
    words: Iterable[str],
    tree: Tree,
    found: dict[str, list[str]],
    set_: list[tuple[str, str]],
    depth: int = 0,
) -> None:
    """Words by what they are: targets (""), files of arguments ("@"), the values of options."""
    waiting = ""
    for word in words:
        option, value = waiting, word
        waiting = ""
        if not option:
            if word.startswith("@"):
                path = _within(folder, word[1:])
                if path is not None and tree.is_file(path) and path not in found["@"] and depth < _MOST_DEEP:
                    found["@"].append(path)
                    lines = (tree.read([path])[path] or b"").decode("utf-8", "replace").splitlines()
                    _sort(folder, lines, tree, found, set_, depth + 1)
                continue
            if not word.startswith("-"):
                found[""].append(word)
                continue
            option, equals, value = word.partition("=")
            if not word.startswith("--") and len(word) > 2:  # noqa: PLR2004 (a dash and a letter)
                option, equals, value = word[:2], "=", word[2:].lstrip("=")
            if not equals:
                waiting = option if option in PYTEST_VALUED or option in found else ""
                continue
        option = _LONG.get(option, option)
        if option == "--override-ini":
            key, _, value = value.partition("=")
            set_.append((key.strip(), value))
        elif option in found and value:
            found[option].append(value)


def _within(folder: str, text: str) -> str | None:
    path = posixpath.normpath(posixpath.join(folder, text))
    if path.startswith(("/", "../")) or path == "..":
        return None
    return "" if path == "." else path


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def tests_of(call: Call, tree: Tree) -> Iterator[str]:
    """The files that are tests by a pattern, beside those of Python."""
    for target in call.targets:
        for path in tree.below(target) if tree.folder(target) is not None else ():
            if any(_matches(path, glob) for glob in call.globs):
                yield path


def _matches(path: str, glob: str) -> bool:
    return fnmatch.fnmatch(path, f"*{glob}") if "/" in glob else fnmatch.fnmatch(posixpath.basename(path), glob)


def values(file: str, key: str, tree: Tree, *, is_line: bool = False) -> list[str]:
    """What a file of configuration sets a key to. is_line: text to be split as a shell does, else words."""
    content = tree.read([file])[file] if tree.is_file(file) else None
    if content is None or key.encode() not in content:
        return []
    if not file.endswith(".toml"):
        text = content.decode("utf-8", "replace")
        found = re.findall(rf"^{key}[ \t]*[=:](.*(?:\n[ \t]+\S.*)*)", text, re.MULTILINE)
        return found if is_line else [word for value in found for word in value.split()]
    try:
        top = toml.read(content)
    except toml.TomlFault:
        return []
    tool = top.get("tool")
    pytest = tool.get("pytest") if isinstance(tool, dict) else top.get("pytest")
    tables = [pytest, pytest.get("ini_options")] if isinstance(pytest, dict) else []
    for table in tables:
        one = table.get(key) if isinstance(table, dict) else None
        if isinstance(one, str):
            return [one] if is_line else one.split()
        if isinstance(one, list):
            texts = [text for text in one if isinstance(text, str)]
            return [shlex.quote(text) for text in texts] if is_line else texts
    return []

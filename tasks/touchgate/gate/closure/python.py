"""What a Python file imports, read without running it, whatever Python it is written for; and what can't be told so.

`import` and `from` are keywords of every Python: outside strings and comments they are imports, wherever they stand. A
module is looked up in every folder that may be on the path, and everything found counts: a package's __init__.py, what it
may be as a file or as a folder, a name that may be a module of its own.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from bisect import bisect_left
from typing import TYPE_CHECKING

from touchgate.gate.closure.python_text import Token, tokens
from touchgate.gate.closure.references import Found, Reference, Unresolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from touchgate.gate.closure.references import Settings
    from touchgate.gate.closure.tree import Tree

VERSION = 1
FOLDERS = ("", "src")
"""Folders that imports start from, beside the declared ones and those that follow from the importing file's place."""
TEST_FILE = re.compile(r"(?:test_.*|.*_test|conftest)\.py")
"""Files that pytest loads, by its own default."""

_MODULE_ENDINGS = (".py", ".pyi", ".pyw", ".pyx", ".pxd", ".so", ".pyd", ".pyc")
_CALLS = {"import_module", "__import__", "importorskip", "run_module", "find_spec", "resolve_name"}
_IMPORTING = {"import_module", "__import__", "importorskip", "run_module"}
"""Of these, those that import: what they are given must be told."""


def read(text: bytes) -> Found:
    """All that the content imports."""
    reader = _Reader(text)
    reader.run()
    return Found(tuple(dict.fromkeys(reader.references)), tuple(dict.fromkeys(reader.unresolved)))


class _Reader:
    def __init__(self, text: bytes) -> None:
        self.tokens, trouble = tokens(text)
        self.references: list[Reference] = []
        self.unresolved = [Unresolved(1, trouble, "so it is read as latin-1")] if trouble else []
        self.place = 0
        self.assigned = 0
        """Where the last assignment of modules' names ends: what lies in it is read once."""

    def run(self) -> None:
        while self.place < len(self.tokens):
            token = self.tokens[self.place]
            self.place += 1
            if token.kind != "name":
                continue
            if token.text == "import":
                self.plain_import(token.line)
            elif token.text == "from":
                self.from_import(token.line)
            elif token.text in _CALLS:
                self.call(token)
            elif token.text in ("__all__", "pytest_plugins") and self.previous(2).text != "." and self.peek().text in "=:+.":
                self.assignment(token)

    # the stream

    def peek(self, ahead: int = 0) -> Token:
        at = self.place + ahead
        return self.tokens[at] if at < len(self.tokens) else _END

    def previous(self, back: int) -> Token:
        """The token before the one just taken is 2 back."""
        at = self.place - back
        return self.tokens[at] if at >= 0 else _END

    def dotted(self) -> str:
        """Dots and names, as far as they go; () and line ends are none."""
        parts: list[str] = []
        while True:
            token = self.peek()
            if token.text == "." or (token.kind == "name" and (not parts or parts[-1].endswith(".")) and not _ends(token)):
                parts.append("." if token.text == "." else unicodedata.normalize("NFKC", token.text))
                self.place += 1
            else:
                return "".join(parts)

    # statements

    def plain_import(self, line: int) -> None:
        while True:
            name = self.dotted()
            if name:
                self.references.append(Reference("import", name, line))
            if self.peek().text == "as":
                self.place += 2
            if self.peek().text != ",":
                return
            self.place += 1

    def from_import(self, line: int) -> None:
        start = self.place
        module = self.dotted()
        if not module or self.peek().text not in ("import", "cimport"):
            self.place = start  # `yield from x`, `raise X from y`
            return
        self.place += 1
        inside = self.peek().text == "("
        if inside:
            self.place += 1
        self.references.append(Reference("from", module, line, tuple(self.names(inside=inside))))

    def names(self, *, inside: bool) -> Iterator[str]:
        """`a as b, c`; inside parentheses over several lines."""
        while True:
            if self.peek_over(inside).kind == "name" or self.peek().text == "*":
                yield unicodedata.normalize("NFKC", self.peek().text)
                self.place += 1
            if self.peek_over(inside).text == "as":
                self.place += 1
                self.peek_over(inside)
                self.place += 1
            if self.peek_over(inside).text != ",":
                return
            self.place += 1

    def peek_over(self, lines: bool) -> Token:
        """The token ahead, past line ends where they mean nothing."""
        while lines and self.peek().kind == "newline":
            self.place += 1
        return self.peek()

    def call(self, token: Token) -> None:
        """`import_module("a.b")` and the like: literal ones are imports."""
        before = self.previous(2).text
        if before == "def":
            return
        while self.peek().kind == "newline":
            self.place += 1
        if self.peek().text != "(":
            if token.text in _IMPORTING and before != "import":
                why = "it is handed on, and may import anything"
                self.unresolved.append(Unresolved(token.line, token.text, why))
            return
        at = self.place
        self.place += 1
        name = self.literal(",)", "=")
        if name is not None:
            self.references.append(Reference("import", name, token.line))
        elif token.text in _IMPORTING:
            self.unresolved.append(Unresolved(token.line, self.written(at - 1), "the name is computed"))
        self.place = at + 1  # what stands between the parentheses may import too

    def literal(self, ends: str, *skipped: str) -> str | None:
        """The value of a string that stands alone before one of `ends`; `name=` before it is passed over."""
        parts = []
        at = 0
        if self.peek().kind == "name" and self.peek(1).text in skipped:
            at = 2
        while True:
            token = self.peek(at)
            at += 1
            if token.kind == "newline":
                continue
            if token.kind == "string" and token.value is not None:
                parts.append(token.value)
            elif token.text and token.text in ends and parts:
                return "".join(parts)
            else:
                return None

    def written(self, at: int) -> str:
        """What stands from a token on to the end of the line, shortened."""
        words: list[str] = []
        for token in self.tokens[at : at + 12]:
            if token.kind == "newline":
                break
            words.append(token.text)
        return "".join(words)[:60]

    def assignment(self, token: Token) -> None:
        """`__all__ = ["a"]`: in a package, modules that `from package import *` imports. `pytest_plugins`: modules."""
        if self.place < self.assigned:
            return
        how = "all" if token.text == "__all__" else "import"
        computed = False
        depth = 0
        at = self.place + (self.peek().text == "+")
        while True:
            part = self.peek(at - self.place)
            at += 1
            if part is _END or (not depth and part.kind == "newline") or (not depth and part.text == ";"):
                break
            if part.kind == "string":
                if part.value is None:
                    computed = True
                else:
                    self.references.append(Reference(how, part.value, part.line))
            elif part.kind == "name" or part.text in ("+", "*", "%"):
                computed = computed or part.text not in (
                    "list",
                    "str",
                    "tuple",
                    "extend",
                    "append",
                    "List",
                    "Sequence",
                    "final",
                )
            depth += (part.text in ("(", "[", "{")) - (part.text in (")", "]", "}"))
        self.assigned = at
        if computed and how == "all":
            self.references.append(Reference("all", "*", token.line))


_END = Token("end", "", 0)


def _ends(token: Token) -> bool:
    return token.text in ("import", "cimport", "as")


# ---- what a name means in the tree


def resolve(reference: Reference, path: str, tree: Tree, settings: Settings) -> tuple[str, ...]:
    """The files that are loaded for a reference, each package's __init__.py on the way among them."""
    found: dict[str, None] = {}
    name = reference.text
    if reference.how == "all":
        folder, own = posixpath.split(path)
        if not own.startswith("__init__."):
            return ()
        return tuple(dict.fromkeys(_all_modules(folder, tree) if name == "*" else _module(folder, name, tree)))
    dots = len(name) - len(name.lstrip("."))
    parts = [part for part in name[dots:].split(".") if part]
    if not all(map(_is_name, parts)):
        return ()
    for start in _starts(path, dots, tree, settings):
        for folder in _walk(start, parts, tree, found):
            for wanted in reference.candidates:
                found.update(dict.fromkeys(_module(folder, wanted, tree)))
    return tuple(found)


def implied(path: str, tree: Tree, settings: Settings) -> tuple[str, ...]:  # noqa: ARG001 (of the contract)
    """The packages that a file lies in, and for a test the conftest.py of each folder above, which pytest loads."""
    names = ["__init__.py", "__init__.pyi"]
    if TEST_FILE.fullmatch(posixpath.basename(path)):
        names.append("conftest.py")
    files = (posixpath.join(folder, name) for folder in _above(path) for name in names)
    return tuple(file for file in files if file != path and tree.is_file(file))


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
    """A script's own folder, the nearest above that is no package, and each above whose conftest.py pytest loads."""
    above = list(_above(path))
    yield above[0]
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

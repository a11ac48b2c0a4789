"""What a Python file imports, read without running it, whatever Python it is written for; and what can't be told so.

`import` and `from` are keywords of every Python: outside strings and comments they are imports, wherever they stand. A
module is looked up in every folder that may be on the path, and everything found counts: a package's __init__.py, what it
may be as a file or as a folder, a name that may be a module of its own.
"""

from __future__ import annotations

import codecs
import unicodedata
from typing import TYPE_CHECKING

from touchgate.gate.closure.python_calls import FUNCTIONS, NAMES, Calls
from touchgate.gate.closure.python_expressions import END, Expressions
from touchgate.gate.closure.python_names import FOLDERS, TEST_FILE, implied, resolve
from touchgate.gate.closure.python_paths import Paths
from touchgate.gate.closure.python_text import Token, tokens
from touchgate.gate.closure.references import Found, Reference, Unresolved

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["FOLDERS", "TEST_FILE", "VERSION", "implied", "read", "resolve"]

VERSION = 3

_MODULES = {
    "importlib",
    "importlib.util",
    "importlib.machinery",
    "importlib.resources",
    "runpy",
    "builtins",
    "pkgutil",
    "imp",
    "sys",
    "os",
    "subprocess",
}
"""Whose functions import or read by a name: what a file calls them by is followed."""
_MOST_ROUNDS = 5
"""Readings of one file: each may find that a name stands for another."""
_MOST_ROOTS = 16
"""Folders that one file adds to sys.path."""
_DEEPEST = 4
"""Texts that are run, within each other."""
_CHANGES = ("insert", "append", "extend")
_TYPES = {"list", "str", "tuple", "extend", "append", "List", "Sequence", "final"}


def read(text: bytes) -> Found:
    """All that the content imports."""
    found, trouble = tokens(text)
    reader = _read(found, {}, {}, 0)
    unresolved = [Unresolved(1, trouble, "so it is read as latin-1")] if trouble else []
    references = list(dict.fromkeys(reader.references))
    if len(reader.calls.roots) > _MOST_ROOTS:
        unresolved.append(Unresolved(1, "sys.path", f"more than {_MOST_ROOTS} folders are added"))
    paths = Paths(reader.calls.at, reader.renamed, reader.from_modules)
    paths.run()
    # What a call is known to read by another rule is not read by this one.
    known = {(one.text, one.line) for one in references} | {(name, one.line) for one in references for name in one.candidates}
    references += [
        one for one in paths.references if not known & {(one.text, one.line), *((name, one.line) for name in one.candidates)}
    ]
    unresolved += paths.unresolved
    roots = tuple(reader.calls.roots)[:_MOST_ROOTS]
    if roots:
        references = [_rooted(one, roots) for one in references]
    return Found(tuple(references), tuple(dict.fromkeys([*unresolved, *reader.unresolved])))


def _rooted(reference: Reference, roots: tuple[str, ...]) -> Reference:
    """An import that may start from the folders that the file itself adds, too."""
    if reference.how not in ("import", "from") or reference.text.startswith("."):
        return reference
    return reference._replace(candidates=(*reference.candidates, *roots))


def _read(found: Sequence[Token], renamed: dict[str, str], from_modules: dict[str, str], depth: int) -> _Reader:
    """Read again while it is found that names stand for functions that import: they may be used above."""
    for round_ in range(1, _MOST_ROUNDS + 1):
        reader = _Reader(found, renamed, from_modules)
        reader.run()
        if (reader.renamed, reader.from_modules) == (renamed, from_modules):
            break
        renamed, from_modules = reader.renamed, reader.from_modules
        if round_ == _MOST_ROUNDS:
            reader.unresolved.append(Unresolved(1, "import_module", "it goes by too many names"))
    for text, line in reader.calls.texts:
        if depth == _DEEPEST:
            reader.unresolved.append(Unresolved(line, "exec", "it runs text that runs text, and so on"))
            break
        inner, _ = tokens(codecs.BOM_UTF8 + text.encode("utf-8", "surrogatepass"))
        within = _read(inner, reader.renamed, reader.from_modules, depth + 1)
        reader.references += [one._replace(line=line) for one in within.references]
        reader.unresolved += [one._replace(line=line) for one in within.unresolved]
        reader.calls.roots.update(within.calls.roots)
    return reader


class _Reader:
    """One pass over the tokens. renamed: names that stand for functions; from_modules: what is imported from where."""

    def __init__(self, found: Sequence[Token], renamed: dict[str, str], from_modules: dict[str, str]) -> None:
        self.tokens = found
        self.renamed = dict(renamed)
        self.from_modules = dict(from_modules)
        self.calls = Calls(Expressions(found), self.renamed, self.from_modules)
        self.references = self.calls.references
        self.unresolved = self.calls.unresolved
        self.place = 0
        self.assigned = 0
        """Where the last assignment of modules' names ends: what lies in it is read once."""

    def run(self) -> None:
        while self.place < len(self.tokens):
            token = self.tokens[self.place]
            self.place += 1
            if token.kind != "name":
                continue
            text = token.text
            if text == "import":
                self.plain_import(token.line)
            elif text == "from":
                self.from_import(token.line)
            elif text in NAMES or text in self.renamed:
                self.bound(text)
                self.calls.name(self.place - 1)
            elif text in ("__all__", "pytest_plugins") and self.previous(2).text != "." and self.peek().text in "=:+.":
                self.assignment(token)
            elif text[:4] in ("test", "Test") and self.previous(2).text in ("def", "class"):
                self.references.append(Reference("conftest", "conftest.py", token.line))
            self.search_path(text, token.line)

    def bound(self, text: str) -> None:
        """`load = importlib.import_module`: from here on, `load` is such a function."""
        name = self.renamed.get(text, text)
        after = self.peek()
        if name not in FUNCTIONS or not (after.kind in ("newline", "end") or after.text in (";", ")", ",", "#")):
            return
        back = 2
        while self.previous(back).text == "." and self.previous(back + 1).kind == "name":
            back += 2
        if self.previous(back).text != "=":
            return
        back += 1 + (self.previous(back + 1).text == ":")  # `:=`
        target = self.previous(back)
        if target.kind == "name" and target.text not in (text, name):
            self.renamed[target.text] = name

    def search_path(self, text: str, line: int) -> None:
        """What adds to sys.path, or finds modules elsewhere."""
        if text in ("path", "meta_path", "path_hooks"):
            owner = self.previous(3).text if self.previous(2).text == "." else self.from_modules.get(text, "")
            if self.renamed.get(owner, owner) == "sys":
                self.changed_path(text, line)
        elif self.from_modules.get(text) == "sys" and self.renamed.get(text) == "path":
            self.changed_path("path", line)
        elif text == "__path__" and self.previous(2).text != ".":
            after = self.peek()
            if (after.text == "=" and self.peek(1).text != "=") or after.text == "+" or self.peek(1).text in _CHANGES:
                self.unresolved.append(Unresolved(line, text, "the package's modules lie in other folders, too"))

    def changed_path(self, text: str, line: int) -> None:
        if text == "path":
            self.calls.search_path(self.place - 1)
        elif self.peek(1).text in _CHANGES or self.peek().text in ("=", "["):
            self.unresolved.append(Unresolved(line, f"sys.{text}", "modules are found by what is put there"))

    def imported(self, module: str, name: str, alias: str) -> None:
        """`from importlib import import_module as load`."""
        if module in _MODULES or (
            name in FUNCTIONS and not FUNCTIONS[name].common and name not in ("patch", "setattr", "delattr")
        ):
            self.from_modules[alias or name] = module
            if alias and alias != name:
                self.renamed[alias] = name

    # the stream

    def peek(self, ahead: int = 0) -> Token:
        at = self.place + ahead
        return self.tokens[at] if at < len(self.tokens) else END

    def previous(self, back: int) -> Token:
        """The token before the one just taken is 2 back."""
        at = self.place - back
        return self.tokens[at] if at >= 0 else END

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
                if name in _MODULES and self.peek(1).text != name:
                    self.renamed[self.peek(1).text] = name
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
        self.references.append(Reference("from", module, line, tuple(self.names(module, inside=inside))))

    def names(self, module: str, *, inside: bool) -> Iterator[str]:
        """`a as b, c`; inside parentheses over several lines."""
        while True:
            if self.peek_over(inside).kind == "name" or self.peek().text == "*":
                name = unicodedata.normalize("NFKC", self.peek().text)
                yield name
                self.place += 1
                alias = ""
                if self.peek_over(inside).text == "as":
                    self.place += 1
                    alias = self.peek_over(inside).text
                    self.place += 1
                self.imported(module, name, alias)
            if self.peek_over(inside).text != ",":
                return
            self.place += 1

    def peek_over(self, lines: bool) -> Token:
        """The token ahead, past line ends where they mean nothing."""
        while lines and self.peek().kind == "newline":
            self.place += 1
        return self.peek()

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
            if part is END or (not depth and part.kind == "newline") or (not depth and part.text == ";"):
                break
            if part.kind == "string":
                if part.value is None:
                    computed = True
                else:
                    self.references.append(Reference(how, part.value, part.line))
            elif part.kind == "name" or part.text in ("+", "*", "%"):
                computed = computed or part.text not in _TYPES
            depth += (part.text in ("(", "[", "{")) - (part.text in (")", "]", "}"))
        self.assigned = at
        if computed and how == "all":
            self.references.append(Reference("all", "*", token.line))
        elif computed:
            self.unresolved.append(Unresolved(token.line, token.text, "the names are computed"))


def _ends(token: Token) -> bool:
    return token.text in ("import", "cimport", "as")

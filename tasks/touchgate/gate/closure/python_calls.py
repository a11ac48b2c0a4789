"""What the calls of a Python file import or read: `import_module("a.b")`, `run_path("x.py")`, `exec(...)`, `sys.path...`.

A function is known by its name, whatever it is an attribute of, and by the names that the file gives it; of common words
(`load`, `run_path`) only what is imported or an attribute counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from touchgate.gate.closure.python_names import PACKAGE
from touchgate.gate.closure.references import Reference, Unresolved

if TYPE_CHECKING:
    from collections.abc import Iterable

    from touchgate.gate.closure.python_expressions import Argument, Expressions
    from touchgate.gate.closure.python_text import Token


class _Function(NamedTuple):
    """kind: what it does with what it is given. position, keyword: where that stands.

    sure: it imports, so what it is given must be told. common: its name is a common word.
    """

    kind: str
    position: int = 0
    keyword: str = "name"
    sure: bool = True
    common: bool = False


FUNCTIONS = {
    "import_module": _Function("relative"),
    "__import__": _Function("dunder"),
    "importorskip": _Function("module", keyword="modname"),
    "import_plugin": _Function("module", keyword="modname"),
    "run_module": _Function("main", keyword="mod_name"),
    "find_spec": _Function("module", sure=False),
    **dict.fromkeys(("resolve_name", "import_string", "locate"), _Function("object", sure=False)),
    **dict.fromkeys(("patch", "setattr", "delattr"), _Function("object", keyword="target", sure=False)),
    "spec_from_file_location": _Function("file", 1, "location"),
    **dict.fromkeys(("SourceFileLoader", "SourcelessFileLoader"), _Function("file", 1, "path")),
    "ExtensionFileLoader": _Function("bytes", 1, "path"),
    "load_source": _Function("file", 1, "pathname", common=True),
    **dict.fromkeys(("load_compiled", "load_dynamic"), _Function("bytes", 1, "pathname", common=True)),
    "run_path": _Function("file", 0, "path_name", common=True),
    "execfile": _Function("file", 0, "filename", common=True),
    **dict.fromkeys(("addsitedir", "syspath_prepend"), _Function("root", keyword="path")),
}
_BUILTINS = ("exec", "eval", "compile")
_HOLDERS = {"builtins", "__builtins__", "__builtin__"}
_DATA = {"get_data": "pkgutil", **dict.fromkeys(("read_text", "read_binary", "open_text", "open_binary", "path"), "resources")}
_BY_TEXT = {"getattr", "attrgetter", "methodcaller", "__dict__", "vars", "__builtins__"}
_LOADERS = {"importlib", "runpy", "builtins", "imp"}
NAMES = {*FUNCTIONS, *_BUILTINS, *_DATA, *_BY_TEXT, "files"}
_OWN_PACKAGE = {"__package__", "__name__", "__spec__.parent"}
_FAR = 40
"""Tokens of an argument that are looked at for the file that it reads."""
_COMPUTED = "the name is computed"
_HANDED_ON = "it is handed on, and may import anything"


class Calls:
    """What is found, call by call. renamed: the file's names for functions; from_modules: what it imports from where."""

    def __init__(self, expressions: Expressions, renamed: dict[str, str], from_modules: dict[str, str]) -> None:
        self.at = expressions
        self.renamed = renamed
        self.from_modules = from_modules
        self.references: list[Reference] = []
        self.unresolved: list[Unresolved] = []
        self.roots: dict[str, None] = {}
        """Folders that the file adds to sys.path."""
        self.texts: list[tuple[str, int]] = []
        """Python text that is run, with its line."""

    # what stands at a name

    def name(self, place: int) -> None:
        """A name of NAMES, or one that stands for one of them."""
        token = self.at.token(place)
        before = self.at.token(place - 1).text
        name = self.renamed.get(token.text, token.text)
        owner = self.at.token(place - 2).text
        if before in ("def", "class") or (
            before == "." and name in _BUILTINS and self.renamed.get(owner, owner) not in _HOLDERS
        ):
            return
        after = self.at.skip(place + 1)
        is_called = self.at.token(after).text == "("
        if name in _BUILTINS:
            self.runs_text(token, name, place, called_at=after if is_called else -1)
        elif name in _BY_TEXT:
            self.by_text(token, place)
        elif name in FUNCTIONS:
            function = FUNCTIONS[name]
            if function.common and before != "." and token.text not in self.from_modules and name != "execfile":
                return
            if is_called:
                self.call(token, function, after)
            elif function.sure and before != "import" and self.at.token(after).text != "=":
                self.unresolved.append(Unresolved(token.line, token.text, _HANDED_ON))
        elif is_called and (name in _DATA or name == "files"):
            self.data(token, name, after)

    def computed(self, token: Token, at: int, why: str = _COMPUTED) -> None:
        """Note that it can't be told what a call is given."""
        self.unresolved.append(Unresolved(token.line, token.text + self.written(at), why))

    def written(self, at: int) -> str:
        """What stands from a token on to the end of the line, shortened."""
        words: list[str] = []
        for place in range(at, at + 12):
            token = self.at.token(place)
            if token.kind in ("newline", "end") or token.text == ";":
                break
            words.append(token.text)
        return "".join(words)[:60]

    def call(self, token: Token, function: _Function, at: int) -> None:
        """A call of a function of FUNCTIONS; its bracket is at a place."""
        arguments = self.at.arguments(at)
        wanted = _argument(arguments, function.position, function.keyword)
        if function.kind in ("file", "bytes", "root"):
            path = wanted and self.at.place(wanted.start, wanted.end)
            if function.kind == "root":
                self.root(token, at, path)
            elif path:
                self.file(function.kind, path, token.line)
            else:
                self.computed(token, at, "the file is computed")
            return
        name = wanted and self.at.text(wanted.start, wanted.end)
        if name:
            self.module(token, function, name, at)
        elif function.sure:
            self.computed(token, at)

    def module(self, token: Token, function: _Function, name: str, at: int) -> None:
        """A call that is given the name of a module, or of something in one."""
        if function.kind == "dunder":
            self.dunder(token, name, self.at.arguments(at), at)
            return
        if function.kind == "object":
            name = name.replace(":", ".")
            if "." not in name:
                return
        elif function.kind == "relative" and name.startswith("."):
            name = self.absolute(token, name, self.at.arguments(at), at)
        self.references.append(Reference("import", name, token.line))
        if function.kind == "main":
            self.references.append(Reference("from", name, token.line, ("__main__",)))

    def absolute(self, token: Token, name: str, arguments: list[Argument], at: int) -> str:
        """`.b` in the package that `import_module` is given, else from the file's own."""
        package = _argument(arguments, 1, "package")
        if package is None:
            return name
        told = self.at.text(package.start, package.end)
        if told:
            dots = len(name) - len(name.lstrip("."))
            parts = told.split(".")
            return ".".join((*parts[: max(0, len(parts) - dots + 1)], name[dots:]))
        words = "".join(self.at.token(place).text for place in range(package.start, min(package.end, package.start + 9)))
        if words not in _OWN_PACKAGE:
            self.computed(token, at, "the package is computed")
        return name

    def dunder(self, token: Token, name: str, arguments: list[Argument], at: int) -> None:
        """`__import__("a", fromlist=["b"], level=1)`."""
        level = _argument(arguments, 4, "level")
        dots = 0
        if level is not None:
            number = self.at.token(level.start).text
            if level.end == level.start + 1 and number.isdecimal():
                dots = min(int(number[:3]), 99)
            elif number != "-":  # Python 2: relative or not
                self.computed(token, at, "the level is computed")
        names: list[str] = []
        wanted = _argument(arguments, 3, "fromlist")
        if wanted is not None and self.at.token(wanted.start).text != "None":
            names, more = self.at.texts(wanted.start, wanted.end)
            if more:
                self.computed(token, at, "the names to import from it are computed")
        candidates = tuple(one for one in names if ":" not in one)
        self.references.append(Reference("from" if candidates else "import", "." * dots + name, token.line, candidates))

    def file(self, how: str, path: str, line: int) -> None:
        """A file that is imported or run, of any name; of "bytes", one that is no text."""
        self.references.append(Reference(how, path.partition(":")[2], line, (path,)))

    # sys.path

    def root(self, token: Token, at: int, path: str | None) -> None:
        """A folder that the file adds to where imports start."""
        if path is None:
            self.computed(token, at, "the folder that imports start from is computed")
            return
        self.roots[path] = None
        self.computed(token, at, "other files may import from there, too")

    def search_path(self, place: int) -> None:
        """`sys.path.insert(0, X)`, `sys.path += [X]` and the like; place: of the name after which that stands."""
        token, after = self.at.token(place), self.at.token(place + 1).text
        if after == "." and self.at.token(place + 3).text == "(":
            method = self.at.token(place + 2).text
            arguments = self.at.arguments(place + 3)
            if method in ("insert", "append") and arguments:
                self.root(token, place + 1, self.at.place(arguments[-1].start, arguments[-1].end))
            elif method == "extend" and arguments:
                self.added(token, place, arguments[0].start)
        elif (after == "=" and self.at.token(place + 2).text != "=") or (
            after == "+" and self.at.token(place + 2).text == "="
        ):
            self.added(token, place, self.at.skip(place + (2 if after == "=" else 3)))
        elif after == "[":
            close = self.at.closing(place + 1)
            if close > 0 and self.at.token(close + 1).text == "=" and self.at.token(close + 2).text != "=":
                self.added(token, place, self.at.skip(close + 2))

    def added(self, token: Token, place: int, start: int) -> None:
        """Folders in a list that is added to sys.path, or one that takes the place of an entry."""
        if self.at.token(start).text in ("[", "("):
            for one in self.at.arguments(start):
                path = self.at.place(one.start, one.end)
                if path is not None:
                    self.roots[path] = None
        self.computed(token, place + 1, "other files may import from there, too")

    # text that is run

    def runs_text(self, token: Token, name: str, place: int, *, called_at: int) -> None:
        """`exec`, `eval` and `compile`: what they are given is read as Python where it is told."""
        if called_at < 0:
            after = self.at.token(place + 1)
            if name == "exec" and after.kind == "string" and after.value is not None:  # Python 2
                self.texts.append((after.value, token.line))
            elif name != "compile" and _is_value(self.at.token(place - 1).text, after):
                self.unresolved.append(Unresolved(token.line, name, "it is handed on, and may run anything"))
            return
        arguments = self.at.arguments(called_at)
        if not arguments:
            return
        first = arguments[0]
        text = self.at.text(first.start, first.end)
        if text is not None:
            self.texts.append((text, token.line))
            return
        files = list(self.files_read(first))
        for path in files:
            self.file("file", path, token.line)
        if not files and name != "compile" and self.at.token(first.start).text != "compile":
            self.computed(token, called_at, "it runs text that is computed")

    def files_read(self, argument: Argument) -> Iterable[str]:
        """The files in `open(X).read()` and `X.read_text()`."""
        start = argument.start
        for place in range(argument.start, min(argument.end, argument.start + _FAR)):
            token = self.at.token(place)
            path = None
            if token.text == "open" and self.at.token(place + 1).text == "(":
                given = self.at.arguments(place + 1)
                if given:
                    path = self.at.place(given[0].start, given[0].end)
                elif self.at.token(place - 1).text == ".":
                    path = self.at.place(start, place - 1)
            elif token.text in ("read_text", "read_bytes") and self.at.token(place - 1).text == ".":
                path = self.at.place(start, place - 1)
            elif token.text in ("(", ",") and self.at.token(place - 1).text in ("compile", ","):
                start = place + 1
            if path is not None:
                yield path

    # functions that are named in a string

    def by_text(self, token: Token, place: int) -> None:
        """`getattr(importlib, "import_module")`: the name of such a function, or a computed one of a module that has them."""
        opening = next((at for at in range(place + 1, place + 5) if self.at.token(at).text in ("(", "[")), -1)
        if token.text == "vars":
            opening = self.at.closing(opening) + 1 if opening > 0 and self.at.closing(opening) > 0 else -1
        if opening < 0 or self.at.token(opening).text not in ("(", "["):
            return
        arguments = self.at.arguments(opening)
        names = [self.at.text(one.start, one.end) for one in arguments[:3]]
        known = [FUNCTIONS[name] for name in names if name in FUNCTIONS and FUNCTIONS[name].sure]
        first = self.at.token(arguments[0].start).text if arguments else ""
        is_loader = token.text == "getattr" and self.renamed.get(first, first) in _LOADERS
        close = self.at.closing(opening)
        if known and close > 0 and self.at.token(close + 1).text == "(":
            self.call(token, known[0], close + 1)
        elif known or "exec" in names or (is_loader and names[1:2] == [None]):
            self.computed(token, place + 1, _HANDED_ON)

    # data of packages

    def data(self, token: Token, name: str, at: int) -> None:
        """`pkgutil.get_data("p", "f")`, `resources.read_text("p", "f")`, `resources.files("p") / "f"`."""
        owner = self.at.token(at - 3).text if self.at.token(at - 2).text == "." else self.from_modules.get(token.text, "")
        wanted = "resources" if name == "files" else _DATA.get(name, "")
        is_sure = owner.rpartition(".")[2] in (wanted, "importlib_resources")
        if not is_sure and name not in ("get_data", "files"):
            return
        arguments = self.at.arguments(at)
        package = self.at.text(arguments[0].start, arguments[0].end) if arguments else None
        if package is None:
            if is_sure:
                self.computed(token, at, "the package whose data is read is computed")
            return
        self.references.append(Reference("import", package, token.line))
        path: str | None
        if name == "files":
            path = self.chain(self.at.closing(at) + 1)
        else:
            path = self.at.text(arguments[1].start, arguments[1].end) if len(arguments) > 1 else None
        if path:
            self.references.append(Reference("bytes", path, token.line, (PACKAGE + package,)))
        elif is_sure:
            self.computed(token, at, "the data file is computed")

    def chain(self, at: int) -> str:
        """The path in `/ "a" / "b"` or `.joinpath("a", "b")`."""
        parts: list[str] = []
        while at > 0:
            at = self.at.skip(at)
            if self.at.token(at).text == "/" and self.at.token(at + 1).kind == "string":
                parts.append(self.at.token(at + 1).value or "")
                at += 2
            elif self.at.token(at).text == "." and self.at.token(at + 1).text in ("joinpath", "__truediv__"):
                told = [self.at.text(one.start, one.end) for one in self.at.arguments(at + 2)]
                parts += [one or "" for one in told]
                at = self.at.closing(at + 2) + 1
            else:
                break
        return "/".join(parts) if all(parts) else ""


def _argument(arguments: list[Argument], index: int, keyword: str) -> Argument | None:
    named = next((one for one in arguments if one.keyword == keyword), None)
    if named is not None:
        return named
    return arguments[index] if index < len(arguments) and not arguments[index].keyword else None


def _is_value(before: str, after: Token) -> bool:
    """Whether a name between these is handed on: it is given to a call, or put somewhere."""
    return before in ("(", ",", "=", "[", ":", "return") and (
        after.kind in ("newline", "end") or after.text in (")", ",", "]", "}")
    )

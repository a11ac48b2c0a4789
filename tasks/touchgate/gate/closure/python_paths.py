"""The files of the tree that a Python file opens or runs: paths in its strings, put together from `__file__`, in its commands.

A string that holds a "/" may be a path wherever it stands, but for a docstring; one without only where a call takes a path.
Nothing of it is looked up here, and what is no file of the tree means nothing later.
"""

from __future__ import annotations

import re
import shlex
from keyword import iskeyword
from typing import TYPE_CHECKING

from touchgate.gate.closure.python_expressions import CWD, HERE
from touchgate.gate.closure.references import Reference, Unresolved

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from touchgate.gate.closure.python_expressions import Argument, Expressions

DATA, BELOW, COMMAND = "data:", "below:", "command:"
"""The first of a reference's candidates: a file, all that is below a folder, what a command names."""

_OPENS = frozenset(
    (
        *("open", "Path", "PurePath", "PosixPath", "PurePosixPath", "load", "loadtxt", "genfromtxt", "memmap", "fromfile"),
        *("read_csv", "read_table", "read_json", "read_excel", "read_parquet", "read_pickle", "read_feather", "read_hdf"),
        *("imread", "parse", "ZipFile", "File", "open_code", "exists", "isfile", "stat", "copy", "copy2", "copyfile"),
        *("CDLL", "LoadLibrary", "module_from_file", "load_file", "safe_open", "join"),
    )
)
"""Calls whose first argument is a path."""
_LISTS = frozenset(("listdir", "walk", "scandir", "glob", "iglob", "copytree", "fwalk"))
"""Calls that are given a folder, or a pattern in one, and read what is in it."""
_LIST_METHODS = frozenset(("glob", "rglob", "iterdir", "walk"))
_ALWAYS_RUN = re.compile(r"check_call|check_output|Popen|getoutput|getstatusoutput|create_subprocess_(?:exec|shell)")
_RUN_OF = {
    "subprocess": re.compile(r"run|call"),
    "os": re.compile(r"system|popen|startfile|(?:exec|spawn)[lv]p?e?|posix_spawnp?"),
}
_FLAT = re.compile(r"(?:exec|spawn)lp?e?|create_subprocess_exec")
"""Whose arguments are the words of the command."""
_PATH = re.compile(r"[^\0-\x1f<>|\"]{1,300}")
_MOST_VALUES = 4
"""Values of one variable that are followed."""
_ROUNDS = 3
"""Variables that stand for each other."""


class Paths:
    """What one file says. renamed, from_modules: as `Calls` has them."""

    def __init__(self, expressions: Expressions, renamed: Mapping[str, str], from_modules: Mapping[str, str]) -> None:
        self.at = expressions
        self.renamed = renamed
        self.from_modules = from_modules
        self.references: dict[Reference, None] = {}
        self.unresolved: dict[Unresolved, None] = {}
        self.values: dict[str, list[str]] = {}
        """Variable -> the paths that it is bound to."""

    def run(self) -> None:
        """Read all of it; once more where a variable has another value."""
        for _ in range(_ROUNDS):
            before = sum(map(len, self.values.values()))
            for choice in range(self.most_values()):
                self.choose(choice)
                self.bind()
            if sum(map(len, self.values.values())) == before:
                break
        for choice in range(self.most_values()):
            self.choose(choice)
            self.scan()

    def most_values(self) -> int:
        """How often to read: as often as a variable has values."""
        return max((len(values) for values in self.values.values()), default=1)

    def choose(self, choice: int) -> None:
        """Which value each variable has in this reading."""
        self.at.known = {name: values[min(choice, len(values) - 1)] for name, values in self.values.items()}

    # variables

    def bind(self) -> None:
        """`D = Path(__file__).parent / "data"`, in a module, class or function."""
        tokens = self.at.tokens
        for place, token in enumerate(tokens):
            if token.text != "=" or token.kind != "other" or self.at.token(place + 1).text == "=":
                continue
            name = self.bound_at(place)
            if not name:
                continue
            path, end = self.at.prefix(self.at.skip(place + 1))
            ends = self.at.token(end)
            if path is None or not (ends.kind in ("newline", "end") or ends.text == ";"):
                continue
            known = self.values.setdefault(name, [])
            if path not in known and len(known) < _MOST_VALUES:
                known.append(path)

    def bound_at(self, place: int) -> str:
        """The name before an "=" that a statement begins with, with or without its type."""
        back = place - 1
        while (
            back > place - 12 and self.at.token(back).kind in ("name", "other") and self.at.token(back).text not in (";", "=")
        ):
            back -= 1
        first = self.at.token(back + 1)
        if back == place - 2 or (back < place - 2 and self.at.token(back + 2).text in (":", ".")):
            if self.at.token(back + 2).text == "." and back == place - 4:  # self.D = ...
                return self.at.token(back + 3).text
            return first.text if first.kind == "name" and first.text not in ("if", "else", "lambda") else ""
        last = self.at.token(place - 1)  # def f(): D = ...
        return last.text if self.at.token(place - 2).text == ":" and last.kind == "name" else ""

    # what is said

    def scan(self) -> None:
        """All paths and commands, in the order of the text."""
        place = 0
        runs_until = 0
        count = len(self.at.tokens)
        while place < count:
            token = self.at.token(place)
            if token.kind == "name" and self.at.token(place + 1).text == "(" and self.is_run(place):
                self.command(token.text, place + 1)
                runs_until = max(runs_until, self.at.closing(place + 1))
            end = place
            if token.kind in ("name", "string") or token.text == "(":
                end = self.path(place, is_run=place < runs_until)
            place = max(place + 1, end)

    def path(self, place: int, *, is_run: bool) -> int:
        """The path that begins at a place, and where it ends; the same place for none."""
        token = self.at.token(place)
        before = self.at.token(place - 1)
        if before.text == "." and before.kind == "other":
            return place
        if token.kind == "string" and self.is_docstring(place):
            return place
        if token.text == "(" and ((before.kind == "name" and not iskeyword(before.text)) or before.text in (")", "]")):
            return place  # a call's
        own = token.text == "__file__" or token.text in self.at.known
        if token.kind == "name" and not own and self.at.token(place + 1).text not in (".", "("):
            return place
        path, end = self.at.prefix(place)
        if path is None or end <= place:
            return place
        anchor, _, text = path.partition(":")
        # What a variable holds is no path for its own sake.
        is_plain = token.kind == "string" or self.at.known.get(token.text) == path
        caller = self.at.token(place - 2).text if before.text == "(" else ""
        method = self.at.token(end + 1).text if self.at.token(end).text == "." else ""
        is_told = anchor == "here" or "/" in text or not is_plain or caller in _OPENS or caller in _LISTS
        has_blank = is_plain and caller not in _OPENS and caller not in _LISTS and re.search(r"\s", text)
        if not is_told or has_blank or text.startswith("/") or "://" in text or not _PATH.fullmatch(text):
            return end
        if method in _LIST_METHODS or caller in _LISTS:
            self.below(path, text, token.line)
        elif text != ".":
            self.add("source" if is_run else "bytes", text, token.line, (DATA, path))
        if self.at.token(end).text == "/" or (caller == "join" and self.at.token(end).text == ","):
            self.is_computed(anchor, text, token.line, place)
        return end

    def is_computed(self, anchor: str, text: str, line: int, place: int) -> None:
        """A file in a folder that is told, by a name that is not."""
        if anchor == "here" or "/" in text:
            words = "".join(self.at.token(at).text for at in range(place, place + 14) if self.at.token(at).kind != "newline")
            self.unresolved[Unresolved(line, words[:60], "the file's name is computed")] = None

    def below(self, path: str, text: str, line: int) -> None:
        """All below a folder, or below that which a pattern begins with."""
        wild = re.search(r"[*?\[]", path)
        if wild:
            path = path[: path.rfind("/", 0, wild.start())] if "/" in path[: wild.start()] else path.partition(":")[0] + ":."
        if path == CWD + ".":
            self.unresolved[Unresolved(line, text, "the folder where it runs is read")] = None
        else:
            self.add("bytes", path.partition(":")[2], line, (BELOW, path))

    def add(self, how: str, text: str, line: int, candidates: tuple[str, ...]) -> None:
        """Note a reference."""
        self.references[Reference(how, text, line, candidates)] = None

    def is_docstring(self, place: int) -> bool:
        """Whether a string is a statement of its own."""
        before, end = self.at.token(place - 1), place
        if not (before.kind in ("newline", "end") or before.text in (";", ":")):
            return False
        while self.at.token(end).kind == "string":
            end += 1
        after = self.at.token(end)
        ends = after.kind in ("newline", "end") or after.text == ";"
        return ends and not self.at.is_inside(place)

    # commands

    def is_run(self, place: int) -> bool:
        """Whether the name at a place, before a bracket, runs a command."""
        text = self.at.token(place).text
        before = self.at.token(place - 1).text
        if before in ("def", "class"):
            return False
        owner = self.at.token(place - 2).text if before == "." else self.from_modules.get(text, "")
        name = self.renamed.get(text, text)
        wanted = _RUN_OF.get(self.renamed.get(owner, owner))
        if _ALWAYS_RUN.fullmatch(name) or (wanted is not None and wanted.fullmatch(name)):
            return True
        return name in ("run", "call") and self.at.token(self.at.skip(place + 2)).text in ("[", "(")

    def command(self, name: str, at: int) -> None:
        """What the words of a command name, by the rules for those of checks."""
        from touchgate.gate.closure.shell import of_names  # noqa: PLC0415  it imports the reader of Python
        from touchgate.gate.named import of_script  # noqa: PLC0415

        line = self.at.token(at).line
        text = " ".join(self.words(self.renamed.get(name, name), at))
        names, untold = of_script(text)
        for one in of_names(names).references:
            self.references[one._replace(line=line, candidates=(COMMAND, *one.candidates))] = None
        for word in untold:
            self.unresolved[Unresolved(line, word.text.replace("$_", "..."), "it is computed")] = None

    def words(self, name: str, at: int) -> Iterator[str]:
        """The words of a command as a shell would read them, those that are computed as `$_`."""
        arguments = [one for one in self.at.arguments(at) if one.keyword in ("", "*", "args")]
        if _FLAT.fullmatch(name) or name.startswith(("exec", "spawn", "posix_spawn")):
            for one in arguments:
                yield from self.listed(one)
            return
        for one in arguments[:1]:
            text = self.at.text(one.start, one.end)
            yield from [text] if text is not None else self.listed(one)

    def listed(self, argument: Argument) -> Iterator[str]:
        """The words of a list, or the one word."""
        start = self.at.skip(argument.start)
        if self.at.token(start).text in ("[", "("):
            for one in self.at.arguments(start):
                yield self.word(one)
        else:
            yield self.word(argument)

    def word(self, argument: Argument) -> str:
        """One word, quoted."""
        text = self.at.text(argument.start, argument.end)
        if text is None and self.at.token(argument.end - 1).text == "executable":
            return "python"
        if text is None:
            path = self.at.place(argument.start, argument.end)
            if path is not None and path.startswith(HERE):
                return ":"  # it is found as a path
            text = path[len(CWD) :] if path is not None else None
        return "$_" if text is None else shlex.quote(text)

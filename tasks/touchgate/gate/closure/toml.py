r"""TOML, as far as Cargo's files need it: tables, arrays, strings, numbers and truth values, each key with its line.

The grammar of TOML 1.0, and of 1.1 where that allows more (line ends and a last comma in inline tables, `\e`, `\xHH`), as
Cargo reads it. Dates and times are given as they are written. The standard library's reader comes with Python 3.11 only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

from touchgate.gate.closure.rust_text import is_character

if TYPE_CHECKING:
    from typing import TypeAlias

Value: TypeAlias = Any
"""A str, int, float, bool, list of values or `Table`."""

_DEEPEST = 80
"""Arrays, inline tables and parts of a key within each other."""
_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\n]+|\#[^\n]*)*")
_END_OF_LINE = re.compile(r"[ \t]*(?:\#[^\n]*)?(?:\n|\Z)")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LITERAL = re.compile(r"'([^'\n]*)'")
_LONG_BASIC_END = re.compile(r'\\.|"{3,5}', re.DOTALL)
_LONG_LITERAL_END = re.compile(r"'{3,5}")
_ESCAPE = re.compile(
    r"\\(?:([btnfre\"\\])|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(?:[ \t]*\n[ \t\n]*)|(.?))", re.DOTALL
)
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b", '"': '"', "\\": "\\"}
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_INTEGER = re.compile(r"[+-]?(?:0|[1-9](?:_?[0-9])*)|0x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*|0o[0-7](?:_?[0-7])*|0b[01](?:_?[01])*")
_FLOAT = re.compile(
    r"[+-]?(?:inf|nan|(?:0|[1-9](?:_?[0-9])*)(?:\.[0-9](?:_?[0-9])*(?:[eE][+-]?[0-9](?:_?[0-9])*)?|[eE][+-]?[0-9](?:_?[0-9])*))"
)
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})?)?"
    r"|[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?"
)
_PLAIN = re.compile(r"[^\s,\]}#]+(?: [0-9]{2}:[^\s,\]}#]+)?")


class TomlFault(Exception):
    """The text is no TOML: line (from 1), and why."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(line, why)
        self.line, self.why = line, why

    def __str__(self) -> str:
        return f"line {self.line}: {self.why}"


class Table(dict[str, Value]):
    """A table. lines: key -> the line that it is first written in. made: how it came to be, which says what may be added."""

    def __init__(self, made: str) -> None:
        super().__init__()
        self.made = made
        self.lines: dict[str, int] = {}


class _Tables(list[Table]):
    """An array of tables, written as `[[name]]`."""


def read(content: bytes) -> Table:
    """The table that a file holds. Raises `TomlFault`."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TomlFault(content.count(b"\n", 0, error.start) + 1, "this is not UTF-8") from None
    return _Reader(text.removeprefix("\ufeff").replace("\r\n", "\n")).document()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.counted, self.lines = 0, 1

    def fault(self, why: str) -> NoReturn:
        raise TomlFault(self.text.count("\n", 0, self.position) + 1, why)

    def line(self) -> int:
        self.lines += self.text.count("\n", self.counted, self.position)
        self.counted = self.position
        return self.lines

    def skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.position)
        if match:
            self.position = match.end()

    def at(self, text: str) -> bool:
        return self.text.startswith(text, self.position)

    def document(self) -> Table:
        forbidden = _FORBIDDEN.search(self.text)
        if forbidden:
            self.position = forbidden.start()
            self.fault("a control character")
        root = table = Table("header")
        while True:
            self.skip(_BLANK)
            if self.position == len(self.text):
                return root
            if self.at("["):
                table = self.header(root)
            else:
                self.assignment(table)
            end = _END_OF_LINE.match(self.text, self.position)
            if not end:
                self.fault("the line does not end here")
            self.position = end.end()

    def header(self, root: Table) -> Table:
        """`[name]` or `[[name]]`: the table that follows."""
        is_array = self.at("[[")
        self.position += 1 + is_array
        names = self.key()
        line = self.line()
        if not self.at("]]" if is_array else "]"):
            self.fault("the name of a table does not end here")
        self.position += 1 + is_array
        table = root
        for name in names[:-1]:
            inner = table.get(name)
            if inner is None:
                inner = table[name] = Table("implied")
                table.lines[name] = line
            if isinstance(inner, _Tables):
                inner = inner[-1]
            if not isinstance(inner, Table) or inner.made == "inline":
                self.fault(f'"{name}" is no table that can be added to')
            table = inner
        return self.opened(table, names[-1], line, is_array=is_array)

    def opened(self, table: Table, name: str, line: int, *, is_array: bool) -> Table:
        there = table.get(name)
        if is_array and (there is None or isinstance(there, _Tables)):
            tables = there if isinstance(there, _Tables) else _Tables()
            tables.append(Table("header"))
            table[name] = tables
            table.lines.setdefault(name, line)
            return tables[-1]
        if there is None:
            there = table[name] = Table("header")
            table.lines[name] = line
        elif is_array or not isinstance(there, Table) or there.made != "implied":
            self.fault(f'"{name}" is there already')
        there.made = "header"
        return there

    def key(self) -> list[str]:
        """The parts of a dotted key."""
        parts: list[str] = []
        while True:
            self.skip(_SPACE)
            bare = _BARE_KEY.match(self.text, self.position)
            if bare:
                self.position = bare.end()
                parts.append(bare[0])
            elif self.at('"') and not self.at('"""'):
                parts.append(self.basic())
            elif self.at("'") and not self.at("'''"):
                parts.append(self.literal())
            else:
                self.fault("a key is expected here")
            self.skip(_SPACE)
            if not self.at("."):
                return parts
            if len(parts) > _DEEPEST:
                self.fault(f"a key of more than {_DEEPEST} parts")
            self.position += 1

    def assignment(self, table: Table, depth: int = 0) -> None:
        """`key = value`."""
        names = self.key()
        line = self.line()
        for name in names[:-1]:
            inner = table.get(name)
            if inner is None:
                inner = table[name] = Table("dotted")
                table.lines[name] = line
            if not isinstance(inner, Table) or inner.made != "dotted":
                self.fault(f'"{name}" is there already')
            table = inner
        if names[-1] in table:
            self.fault(f'"{names[-1]}" is there already')
        if not self.at("="):
            self.fault('"=" is expected here')
        self.position += 1
        self.skip(_SPACE)
        table.lines[names[-1]] = line
        table[names[-1]] = self.value(depth)

    def value(self, depth: int) -> Value:
        if depth > _DEEPEST:
            self.fault(f"nested more than {_DEEPEST} times")
        if self.at("["):
            return self.array(depth)
        if self.at("{"):
            return self.inline(depth)
        if self.at('"""'):
            return self.long_basic()
        if self.at("'''"):
            return self.long_literal()
        if self.at('"'):
            return self.basic()
        if self.at("'"):
            return self.literal()
        return self.plain()

    def plain(self) -> Value:
        match = _PLAIN.match(self.text, self.position)
        word = match[0] if match else ""
        if match and " " in word and not _DATE.fullmatch(word):
            word = word.partition(" ")[0]
        result: Value
        if word in ("true", "false"):
            result = word == "true"
        elif _INTEGER.fullmatch(word):
            result = self.integer(word)
        elif _FLOAT.fullmatch(word):
            result = float(word.replace("_", ""))
        elif _DATE.fullmatch(word):
            result = word
        else:
            self.fault("a value is expected here")
        self.position += len(word)
        return result

    def integer(self, word: str) -> int:
        try:
            return int(word.replace("_", ""), 0)
        except ValueError:  # Python refuses thousands of digits
            self.fault("a number that is too long")

    def array(self, depth: int) -> list[Value]:
        self.position += 1
        values: list[Value] = []
        while True:
            self.skip(_BLANK)
            if self.at("]"):
                break
            values.append(self.value(depth + 1))
            self.skip(_BLANK)
            if self.at(","):
                self.position += 1
            elif not self.at("]"):
                self.fault('"," or "]" is expected here')
        self.position += 1
        return values

    def inline(self, depth: int) -> Table:
        self.position += 1
        table = Table("dotted")
        while True:
            self.skip(_BLANK)
            if self.at("}"):
                break
            self.assignment(table, depth + 1)
            self.skip(_BLANK)
            if self.at(","):
                self.position += 1
            elif not self.at("}"):
                self.fault('"," or "}" is expected here')
        self.position += 1
        _seal(table)
        return table

    def basic(self) -> str:
        end = self.position + 1
        while True:
            match = re.compile(r'["\\\n]').search(self.text, end)
            if not match or match[0] == "\n":
                self.fault("a string that does not end in its line")
            if match[0] == '"':
                break
            end = match.end() + 1
        text = self.text[self.position + 1 : match.start()]
        if "\\\n" in text:
            self.fault("a string that does not end in its line")
        self.position = match.end()
        return self.unescaped(text)

    def literal(self) -> str:
        match = _LITERAL.match(self.text, self.position)
        if not match:
            self.fault("a string that does not end in its line")
        self.position = match.end()
        return match[1]

    def long_basic(self) -> str:
        start = end = self.position + 3
        while True:
            match = _LONG_BASIC_END.search(self.text, end)
            if not match:
                self.fault("a string that never ends")
            end = match.end()
            if match[0][0] == '"':
                break
        self.position = end
        return self.unescaped(self.text[start : end - 3].removeprefix("\n"))

    def long_literal(self) -> str:
        start = self.position + 3
        match = _LONG_LITERAL_END.search(self.text, start)
        if not match:
            self.fault("a string that never ends")
        self.position = match.end()
        return self.text[start : match.end() - 3].removeprefix("\n")

    def unescaped(self, text: str) -> str:
        return _ESCAPE.sub(self.one_escape, text) if "\\" in text else text

    def one_escape(self, escape: re.Match[str]) -> str:
        simple, *codes, wrong = escape.groups()
        if wrong is not None:
            self.fault(f'"\\{wrong}" is no escape')
        if simple:
            return _ESCAPES[simple]
        code = next((code for code in codes if code), None)
        if code is None:
            return ""  # the end of a line, and the space that follows
        number = int(code, 16)
        if not is_character(number):
            self.fault(f'"{escape[0]}" is no character')
        return chr(number)


def _seal(table: Table) -> None:
    """Nothing can be added to an inline table, nor to those inside."""
    table.made = "inline"
    for value in table.values():
        if isinstance(value, Table) and value.made == "dotted":
            _seal(value)

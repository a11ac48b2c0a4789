"""YAML with the place of every node, and problems that name theirs.

The text is read by PyYAML's parser (libyaml where PyYAML has it) into three kinds of nodes. What a declaration must not
hold is refused here: two equal keys in a mapping, text that is not UTF-8, tags, a node inside itself, and texts that
nest or expand without measure. Merge keys (`<<`) are carried out.
"""

from __future__ import annotations

import re

import yaml

from touchgate.gate.model import At, Refusal
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Sequence as ListOf
    from typing import Any, NoReturn

_LOADER = getattr(yaml, "CLoader", yaml.SafeLoader)
_LINE_BREAK = "\r\n|[\r\n\x85\u2028\u2029]"
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENDS = (yaml.MappingEndEvent, yaml.SequenceEndEvent)
_DEEPEST = 50
_MOST_NODES = 200_000
"""Nodes of one file, each alias counted with all that it stands for."""
_WIDEST = 160
"""Characters of a source line that an excerpt shows."""
_LONG_QUOTE = rf"'([^']{{{_WIDEST}}})[^']{{8,}}'"


class Problem(NamedTuple):
    """One mistake: where, what, and (a clause) what to do."""

    at: At
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        # Names and patterns are quoted as they stand, however long they are.
        message = re.sub(_LONG_QUOTE, r"'\1...'", self.message)
        return f"{self.at}: {message}" + (f"; {self.hint}" if self.hint else "")


class DeclarationError(Refusal):
    """Mistakes in declarations, all of them, sorted by place. Its text is what a person should read.

    sources: file -> content, for the line under each problem; a file that is not there is shown without.
    """

    def __init__(self, problems: Iterable[Problem], sources: Mapping[str, bytes] | None = None) -> None:
        self.problems = tuple(sorted(set(problems), key=lambda problem: (problem.at, problem.message)))
        self.sources = dict(sources or {})
        super().__init__(self.problems)

    def __str__(self) -> str:
        lines = {file: split_lines(text_of(content)) for file, content in self.sources.items()}
        return "\n".join(
            text for problem in self.problems for text in (str(problem), *excerpt(lines.get(problem.at.file, []), problem.at))
        )


def text_of(content: bytes) -> str:
    """The content for showing; bytes that are not UTF-8 become escapes."""
    return content.decode("utf-8", "backslashreplace").removeprefix("\ufeff")


def split_lines(text: str) -> list[str]:
    """The lines as YAML counts them."""
    return re.split(_LINE_BREAK, text)


def excerpt(lines: ListOf[str], at: At) -> list[str]:
    """The source line of a place, indented by four, and a caret below its column. Empty where there is no such line."""
    if not 1 <= at.line <= len(lines) or not lines[at.line - 1].strip():
        return []
    column = at.column - 1
    # A long line is shown around the column.
    start = max(0, min(column - _WIDEST // 2, len(lines[at.line - 1]) - _WIDEST))
    shown = "".join(char if char.isprintable() else " " for char in lines[at.line - 1][start : start + _WIDEST])
    return [f"    {shown}".rstrip(), " " * (4 + column - start) + "^"]


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint that names the known word closest to a mistaken one; None where none is close."""
    from difflib import get_close_matches  # noqa: PLC0415 (few declarations hold a mistake)

    close = get_close_matches(word, list(known), n=1)
    return f"did you mean '{close[0]}'?" if close else None


class Scalar:
    """A piece of text. plain: written without quotes, so that YAML may take it for a number, a boolean or nothing."""

    __slots__ = ("at", "plain", "text")
    size = 1
    depth = 0

    def __init__(self, at: At, text: str, plain: bool) -> None:
        self.at = at
        self.text = text
        self.plain = plain


class Sequence:
    """A list. size: its nodes, depth: the levels of it, aliases counted with all that they stand for."""

    __slots__ = ("at", "depth", "items", "size")

    def __init__(self, at: At, items: list[Node], size: int = 1, depth: int = 1) -> None:
        self.at = at
        self.items = items
        self.size = size
        self.depth = depth


class Mapping_:  # noqa: N801 - a plain `Mapping` would hide the one that everybody knows
    """A mapping; keys are text. keys: the place of each key. entries: key -> value, in the order of the file."""

    __slots__ = ("at", "depth", "entries", "keys", "size")

    def __init__(self, at: At, keys: dict[str, Scalar], entries: dict[str, Node], size: int = 1, depth: int = 1) -> None:
        self.at = at
        self.keys = keys
        self.entries = entries
        self.size = size
        self.depth = depth


Node = Scalar | Sequence | Mapping_


class _Refused(Exception):
    """The file can't be read further."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


class _Open:
    """A list or mapping whose end has not come yet."""

    __slots__ = ("anchor", "key", "merged", "node")

    def __init__(self, node: Sequence | Mapping_, anchor: str | None) -> None:
        self.node = node
        self.anchor = anchor
        self.key: Scalar | None = None
        self.merged: list[tuple[Scalar, Node]] | None = None


class _Composer:
    """Builds nodes from the parser's events, with a stack of its own: no text can exhaust Python's."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.anchors: dict[str, Node | None] = {}
        """None: begun and not ended yet."""
        self.stack: list[_Open] = []
        self.root: Node | None = None

    def at(self, event: yaml.Event) -> At:
        mark = event.start_mark
        return At(self.file, mark.line + 1, mark.column + 1) if mark else At(self.file, 1, 1)

    def refuse(self, at: At, message: str, hint: str | None = None) -> NoReturn:
        raise _Refused(Problem(at, message, hint))

    def build(self, events: Iterator[Any]) -> None:
        """Read all events. Raises `_Refused` and PyYAML's own errors."""
        documents = 0
        file, stack = self.file, self.stack
        scalar, mapping, sequence = yaml.ScalarEvent, yaml.MappingStartEvent, yaml.SequenceStartEvent
        for event in events:
            # By type and not by isinstance: this loop is most of what reading lanes takes.
            kind = type(event)
            if kind is scalar:
                implicit = event.implicit
                if event.tag is not None:
                    self._tag(event, implicit[0] or implicit[1])
                mark = event.start_mark
                plain = event.style in (None, "") and event.tag is None
                node = Scalar(At(file, mark.line + 1, mark.column + 1), event.value, plain)
                if event.anchor is None and stack and type(parent := stack[-1].node) is Sequence and parent.size < _MOST_NODES:
                    # What `_finish` does, for what most nodes are: an entry of a list.
                    parent.items.append(node)
                    parent.size += 1
                else:
                    self._finish(node, event.anchor)
            elif kind is mapping or kind is sequence:
                self._tag(event, event.implicit)
                self._begin(event)
            elif kind in _ENDS:
                self._end()
            elif kind is yaml.AliasEvent:
                self._alias(event)
            elif kind is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    self.refuse(self.at(event), "a second document", "keep one document in a file")

    def _tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, implicit: bool) -> None:
        if event.tag is not None and not (implicit and event.tag == "!") and event.tag != "tag:yaml.org,2002:str":
            self.refuse(self.at(event), f"the tag {event.tag!r} has no meaning here", "leave it out")

    def _begin(self, event: yaml.CollectionStartEvent) -> None:
        at = self.at(event)
        if len(self.stack) >= _DEEPEST:
            self.refuse(at, f"lists and mappings are nested more than {_DEEPEST} deep")
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        node = Sequence(at, []) if isinstance(event, yaml.SequenceStartEvent) else Mapping_(at, {}, {})
        self.stack.append(_Open(node, event.anchor))

    def _end(self) -> None:
        opened = self.stack.pop()
        if opened.merged and isinstance(opened.node, Mapping_):
            self._merge(opened.node, opened.merged)
        self._finish(opened.node, opened.anchor)

    def _alias(self, event: yaml.AliasEvent) -> None:
        at = self.at(event)
        if event.anchor not in self.anchors:
            self.refuse(at, f"no anchor '&{event.anchor}' stands before this alias")
        node = self.anchors[event.anchor]
        if node is None:
            self.refuse(at, f"'*{event.anchor}' stands inside itself")
        self._finish(node, None, alias_at=at)

    def _finish(self, node: Node, anchor: str | None, alias_at: At | None = None) -> None:
        """A node is complete: put it where it belongs."""
        if anchor is not None:
            self.anchors[anchor] = node
        if not self.stack:
            self.root = node
            return
        opened = self.stack[-1]
        parent = opened.node
        parent.size += node.size
        parent.depth = max(parent.depth, 1 + node.depth)
        if len(self.stack) + node.depth > _DEEPEST:
            self.refuse(alias_at or node.at, f"lists and mappings are nested more than {_DEEPEST} deep")
        if parent.size > _MOST_NODES:
            self.refuse(alias_at or node.at, f"the file expands to more than {_MOST_NODES} nodes")
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif opened.key is None:
            if not isinstance(node, Scalar):
                self.refuse(alias_at or node.at, "a key must be text, not a list or mapping", "quote it if text is meant")
            opened.key = Scalar(alias_at, node.text, node.plain) if alias_at else node
        else:
            key, opened.key = opened.key, None
            if key.plain and key.text == "<<":
                opened.merged = [*(opened.merged or []), (key, node)]
            elif key.text in parent.keys:
                first = parent.keys[key.text].at
                where = f"line {first.line}" if first.line != key.at.line else f"column {first.column}"
                self.problems.append(Problem(key.at, f"duplicate key '{key.text}'", f"the first is at {where}"))
            else:
                parent.keys[key.text] = key
                parent.entries[key.text] = node

    def _merge(self, into: Mapping_, merged: list[tuple[Scalar, Node]]) -> None:
        """Carry out `<<`: keys of the mapping itself win, then those of the first merged mapping."""
        for key, value in merged:
            for source in value.items if isinstance(value, Sequence) else [value]:
                if not isinstance(source, Mapping_):
                    self.problems.append(Problem(key.at, "'<<' takes a mapping or a list of mappings"))
                    continue
                for name, node in source.entries.items():
                    into.keys.setdefault(name, source.keys[name])
                    into.entries.setdefault(name, node)


class Document(NamedTuple):
    """One file. root is None where it is empty or can't be read; problems: what is wrong with its YAML."""

    file: str
    root: Node | None
    problems: tuple[Problem, ...]


def read(content: bytes, file: str) -> Document:
    """The nodes of a file, or the problems that stand against it (or both: equal keys do not stop the reading)."""
    try:
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as fault:
        before = split_lines(content[: fault.start].decode("utf-8"))
        at = At(file, len(before), len(before[-1].removeprefix("\ufeff")) + 1)
        byte = content[fault.start]
        return Document(file, None, (Problem(at, f"not UTF-8 text (byte 0x{byte:02x})", "save the file as UTF-8"),))
    unprintable = _UNPRINTABLE.search(text)
    if unprintable:
        before = split_lines(text[: unprintable.start()])
        at = At(file, len(before), len(before[-1]) + 1)
        message = f"the character U+{ord(unprintable.group()):04X} must not stand in YAML"
        return Document(file, None, (Problem(at, message, "remove it"),))
    composer = _Composer(file)
    try:
        # What yaml.parse gives, without a generator between.
        composer.build(iter(_LOADER(text).get_event, None))
    except _Refused as refused:
        return Document(file, None, (*composer.problems, refused.problem))
    except yaml.MarkedYAMLError as fault:
        return Document(file, None, (*composer.problems, _syntax(fault, file, text)))
    return Document(file, composer.root, tuple(composer.problems))


def _syntax(fault: yaml.MarkedYAMLError, file: str, text: str) -> Problem:
    mark = fault.problem_mark or fault.context_mark
    at = At(file, mark.line + 1, mark.column + 1) if mark else At(file, 1, 1)
    lines = split_lines(text)
    line = lines[at.line - 1] if at.line <= len(lines) else ""
    if "\t" in line[: at.column] and not line[: at.column].strip():
        return Problem(At(file, at.line, line.index("\t") + 1), "a tab can't indent YAML", "use spaces")
    return Problem(at, "not valid YAML: " + ", ".join(part for part in (fault.context, fault.problem) if part))


_EMPTY = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = frozenset({"yes", "no", "on", "off", "true", "false"})
# As texts: most declarations hold nothing that begins like a number, and these take long to compile.
_INTEGER = r"[-+]?(0|[1-9][0-9]*)"
_DECIMAL = r"[-+]?(0|[1-9][0-9]*)\.[0-9]+"
_DOUBTFUL_NUMBER = (
    r"[-+]?([0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|0[xob]?[0-9a-fA-F_]+|[0-9][0-9_]*|[0-9][0-9_]*\.[0-9_]*|"
    r"\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+|\.(inf|Inf|INF|nan|NaN|NAN))"
)
_NUMBERS = (_INTEGER, _DECIMAL, _DOUBTFUL_NUMBER)


def is_empty(node: Node) -> bool:
    """Whether a key was written with nothing behind it."""
    return isinstance(node, Scalar) and node.plain and node.text in _EMPTY


def looks_like(node: Scalar) -> str | None:
    """What YAML 1.1 or 1.2 takes an unquoted text for, where that is not text: "a number", "a boolean" or "nothing"."""
    if not node.plain:
        return None
    if node.text in _EMPTY:
        return "nothing"
    if node.text.lower() in _BOOLEANS:
        return "a boolean"
    if node.text[0] in "+-.0123456789" and any(re.fullmatch(shape, node.text) for shape in _NUMBERS):
        return "a number"
    return None


def text(node: Node, what: str, problems: list[Problem]) -> str | None:
    """The node as text; None, and a problem, where it is something else. `what`: such as "a lane's name"."""
    if not isinstance(node, Scalar):
        problems.append(Problem(node.at, f"{what} must be text, not {kind_of(node)}"))
        return None
    taken_for = looks_like(node)
    if taken_for == "nothing":
        problems.append(Problem(node.at, f"{what} is empty", "write text, or leave the key out"))
        return None
    if taken_for:
        problems.append(
            Problem(node.at, f"{what} must be text; YAML takes {node.text} for {taken_for}", f'write "{node.text}"')
        )
        return None
    return node.text


def number(node: Node, what: str, problems: list[Problem], *, largest: float, whole: bool = False) -> float | None:
    """The node as a number above 0 and up to `largest`; None, and a problem, where it is something else."""
    kind = "a whole number" if whole else "a number"
    if not isinstance(node, Scalar) or not node.plain:
        problems.append(Problem(node.at, f"{what} must be {kind}, not {kind_of(node)}"))
        return None
    plain = re.fullmatch(_INTEGER, node.text) or (not whole and re.fullmatch(_DECIMAL, node.text))
    if not plain:
        written = "nothing" if is_empty(node) else node.text
        problems.append(Problem(node.at, f"{what} must be {kind} in plain digits, not {written}"))
        return None
    # A float of any number of digits is fine; an int of very many is refused by Python itself.
    value = float(node.text)
    if not 0 < value <= largest:
        problems.append(Problem(node.at, f"{what} must be above 0 and at most {largest:g}, not {node.text}"))
        return None
    return value


def plain_data(node: Node, what: str, problems: list[Problem]) -> object:
    """The node as str, int, float, bool, list or dict. What YAML 1.1 and 1.2 read differently is a problem."""
    if isinstance(node, Sequence):
        return [plain_data(item, what, problems) for item in node.items]
    if isinstance(node, Mapping_):
        return {key: plain_data(value, f"'{key}'", problems) for key, value in node.entries.items()}
    if not node.plain:
        return node.text
    if node.text in ("true", "false"):
        return node.text == "true"
    if re.fullmatch(_INTEGER, node.text) and len(node.text) <= 19:  # noqa: PLR2004 - 64 bits
        return int(node.text)
    if re.fullmatch(_DECIMAL, node.text):
        return float(node.text)
    taken_for = looks_like(node)
    if taken_for == "nothing":
        problems.append(Problem(node.at, f"{what} is empty", "write a value, or leave the key out"))
    elif taken_for:
        message = f"{what}: readers of YAML differ on {node.text} ({taken_for} or text)"
        problems.append(Problem(node.at, message, f'write "{node.text}" for text, else plain digits, true or false'))
    return node.text


def kind_of(node: Node) -> str:
    """What a node is, in words."""
    if isinstance(node, Sequence):
        return "a list"
    if isinstance(node, Mapping_):
        return "a mapping"
    taken_for = looks_like(node)
    return taken_for or "text"


def words(several: Iterable[str]) -> str:
    """`a, b and c`."""
    *most, last = several
    return f"{', '.join(most)} and {last}" if most else last

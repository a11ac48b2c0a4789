"""YAML as it stands in a text: nodes with the span of each, aliases left as aliases.

The text has been accepted by `touchgate.gate.located` before. Spans are indexes into the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import yaml

from touchgate.gate.model import At

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(eq=False)
class Node:
    """start, end: the span, an anchor included, blank lines and comments behind it not."""

    start: int
    end: int
    anchor: str | None


@dataclass(eq=False)
class Scalar(Node):
    """A text. style: "" where it is plain, else its first sign, one of ' " | > as YAML has them."""

    value: str
    style: str


@dataclass(eq=False)
class Items(Node):
    """A list. flow: written with brackets."""

    flow: bool
    items: list[Node] = field(default_factory=list)


@dataclass(eq=False)
class Pairs(Node):
    """A mapping. flow: written with braces."""

    flow: bool
    pairs: list[tuple[Scalar, Node]] = field(default_factory=list)

    def own(self, name: str) -> tuple[Scalar, Node] | None:
        """The key and value of an entry that stands in the mapping itself."""
        for key, value in self.pairs:
            if key.value == name and name != "<<":
                return key, value
        return None

    def get(self, name: str) -> Node | None:
        """The value of an entry, aliases followed, merge keys carried out."""
        found = self.own(name)
        return resolved(found[1]) if found else self.merged().get(name)

    def merged(self) -> dict[str, Node]:
        """The entries that come through `<<`."""
        found: dict[str, Node] = {}
        for key, value in self.pairs:
            if key.value != "<<" or key.style:
                continue
            source = resolved(value)
            for part in source.items if isinstance(source, Items) else [source]:
                mapping = resolved(part)
                if isinstance(mapping, Pairs):
                    for name in mapping.names():
                        entry = mapping.get(name)
                        if entry is not None:
                            found.setdefault(name, entry)
        return found

    def names(self) -> list[str]:
        """Every key, those that come through `<<` last."""
        own = [key.value for key, _ in self.pairs if key.value != "<<" or key.style]
        return list(dict.fromkeys([*own, *self.merged()]))


@dataclass(eq=False)
class Alias(Node):
    """`*name`, and what it stands for."""

    target: Node


def resolved(node: Node) -> Node:
    """What an alias stands for, else the node."""
    while isinstance(node, Alias):
        node = node.target
    return node


class Text:
    """A file's text with its tree. root is None where it is empty."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self.root = _compose(text)

    def at(self, place: int) -> At:
        """The line and column of an index."""
        before = self.text[:place]
        line = before.count("\n") + 1
        return At(self.file, line, place - (before.rfind("\n") + 1) + 1)

    def line_start(self, place: int) -> int:
        """Where the line of an index begins."""
        return self.text.rfind("\n", 0, place) + 1

    def line_end(self, place: int) -> int:
        """Where the line after that of an index begins."""
        found = self.text.find("\n", place)
        return len(self.text) if found < 0 else found + 1

    def last_of_line(self, place: int) -> int:
        """Where the line of an index ends, its line break left out."""
        found = self.text.find("\n", place)
        end = len(self.text) if found < 0 else found
        return end - 1 if end > place and self.text[end - 1] == "\r" else end

    def column(self, place: int) -> int:
        """How far an index is from the beginning of its line."""
        return place - self.line_start(place)


class _Composer:
    """Builds the tree from the parser's events."""

    def __init__(self) -> None:
        self.anchors: dict[str, Node] = {}
        self.stack: list[Items | Pairs] = []
        self.keys: list[Scalar | None] = []
        """The key that waits for its value, for each open list or mapping."""
        self.root: Node | None = None

    def take(self, event: yaml.Event, start: int, end: int, text: str) -> None:
        if isinstance(event, yaml.ScalarEvent):
            written = text[start:end].rstrip()
            self.finish(Scalar(start, start + len(written), event.anchor, event.value, event.style or ""))
        elif isinstance(event, yaml.AliasEvent):
            self.finish(Alias(start, end, None, self.anchors[str(event.anchor)]))
        elif isinstance(event, yaml.CollectionStartEvent):
            kind = Items if isinstance(event, yaml.SequenceStartEvent) else Pairs
            self.stack.append(kind(start, end, event.anchor, bool(event.flow_style)))
            self.keys.append(None)
        elif isinstance(event, yaml.CollectionEndEvent):
            node = self.stack.pop()
            self.keys.pop()
            inner = node.items if isinstance(node, Items) else [part for pair in node.pairs for part in pair]
            # The end of one without brackets is where the next token begins: too far.
            node.end = end if node.flow else max([node.end, *(part.end for part in inner)])
            self.finish(node)

    def finish(self, node: Node) -> None:
        """A node is complete: put it where it belongs."""
        if node.anchor is not None:
            self.anchors[node.anchor] = node
        if not self.stack:
            self.root = node
            return
        parent = self.stack[-1]
        if isinstance(parent, Items):
            parent.items.append(node)
            return
        key = self.keys[-1]
        if key is None:
            target = resolved(node)
            self.keys[-1] = target if isinstance(target, Scalar) else Scalar(node.start, node.end, None, "", "")
        else:
            parent.pairs.append((key, node))
            self.keys[-1] = None


def _compose(text: str) -> Node | None:
    composer = _Composer()
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if event.start_mark is not None and event.end_mark is not None:
            composer.take(event, event.start_mark.index, event.end_mark.index, text)
    return composer.root


def inside(node: Node) -> Iterator[Node]:
    """The node and all that it holds or stands for, each once."""
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        if isinstance(found, Alias):
            waiting.append(found.target)
        elif isinstance(found, Items):
            waiting += found.items
        elif isinstance(found, Pairs):
            waiting += [part for pair in found.pairs for part in pair]


def data(node: Node | None) -> object:
    """Plain data: every scalar its text, aliases and merge keys carried out."""
    if node is None:
        return None
    node = resolved(node)
    if isinstance(node, Items):
        return [data(item) for item in node.items]
    if isinstance(node, Pairs):
        return {name: data(node.get(name)) for name in node.names()}
    return (node.value, bool(node.style)) if isinstance(node, Scalar) else None

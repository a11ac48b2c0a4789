"""How the name and path of a folder stand in the fields of a lane that `each` makes for it.

A folder may be called c++, or `my crate`. In a pattern its signs mean themselves; in a command it is one word, within the
quotes that stand around it; in the name of a lane or check, what such a name can't hold is replaced, and a few digits of a
hash keep it apart from others. Elsewhere it stands as it is. Of letters, digits and ._@-/ nothing changes anywhere, but that
a name holds no `@`.
"""

from __future__ import annotations

import os
import re

from touchgate.gate.listed import is_pattern
from touchgate.gate.located import Mapping_, Node, Scalar, Sequence
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Write = Callable[[str, Mapping[str, str]], str]

# `${x}` is the shell's.
FIELD = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAMED = re.compile(r"[A-Za-z0-9._-]+")
_PLAIN = re.compile(r"[A-Za-z0-9._@/-]*")
_DIGITS = 8


def as_it_is(text: str, values: Mapping[str, str]) -> str:
    """The text with its fields filled in; every other brace stays."""
    return FIELD.sub(lambda found: values.get(found.group(1), found.group()), text)


def as_name(text: str, values: Mapping[str, str]) -> str:
    """The name of a lane or check. One that begins with the folder's own sign begins with its letters instead."""
    filled = as_it_is(text, {field: "/".join(map(named, value.split("/"))) for field, value in values.items()})
    if filled[:1] in (".", "_", "-") and text.startswith("{"):
        return as_it_is(text, {field: named(value, force=True) for field, value in values.items()})
    return filled


def named(part: str, *, force: bool = False) -> str:
    """A folder's own name as it can stand in a lane's."""
    if _NAMED.fullmatch(part) and not force:
        return part
    import hashlib  # noqa: PLC0415  most folders do without

    digest = hashlib.sha256(os.fsencode(part)).hexdigest()[:_DIGITS]
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", part).strip("._-")
    return f"{readable}-{digest}" if readable else digest


def as_pattern(text: str, values: Mapping[str, str]) -> str:
    """A pattern: what is filled in means itself."""
    return as_it_is(text, {field: re.sub(r"([^\w./@-])", r"\\\1", value) for field, value in values.items()})


def as_input(text: str, values: Mapping[str, str]) -> str:
    """An entry of `inputs`: a pattern only where the folder's name would make it one, or is in one."""
    return as_pattern(text, values) if is_pattern(as_it_is(text, values)) else as_it_is(text, values)


def as_shown(text: str, values: Mapping[str, str]) -> str:
    """A text for people, on one line."""
    shown = {field: value if value.isprintable() else ascii(value)[1:-1] for field, value in values.items()}
    return as_it_is(text, shown)


def as_command(text: str, values: Mapping[str, str]) -> str:
    """A command, or words that are split like one: what is filled in is part of one word, whatever quotes stand around it."""
    if all(map(_PLAIN.fullmatch, values.values())):
        return as_it_is(text, values)
    made = []
    within = [""]
    at = 0
    while at < len(text):
        field = FIELD.match(text, at)
        if field and field.group(1) in values:
            made.append(_quoted(values[field.group(1)], within[-1]))
            at = field.end()
            continue
        step = _step(text, at, within)
        made.append(text[at : at + step])
        at += step
    return "".join(made)


def _step(text: str, at: int, within: list[str]) -> int:
    """How many letters belong together here; `within` is kept: the quotes that are open, "" for none."""
    letter, quote = text[at], within[-1]
    if letter == "\\" and quote != "'":
        return 2
    if quote and letter == quote:
        within.pop()
    elif letter in ("'", '"') and not quote:
        within.append(letter)
    elif text.startswith("$(", at) and quote != "'":
        within.append("")
        return 2
    elif letter == ")" and not quote and len(within) > 1:
        within.pop()
    elif letter == "#" and not quote and (at == 0 or text[at - 1].isspace() or text[at - 1] in ";&|("):
        return len(text[at:].partition("\n")[0])
    return 1


def _quoted(value: str, quote: str) -> str:
    if quote == "'":
        return value.replace("'", "'\\''")
    if quote == '"':
        return re.sub(r'([$`"\\])', r"\\\1", value)
    return value if _PLAIN.fullmatch(value) else "'" + value.replace("'", "'\"'\"'") + "'"


def fill(node: Node, values: Mapping[str, str], write: Write = as_it_is) -> Node:
    """The node with the fields of all texts in it filled in, keys left as they are. Places stay."""
    if isinstance(node, Scalar):
        filled = write(node.text, values)
        # What was filled in is text, whatever YAML would take it for.
        return node if filled == node.text else Scalar(node.at, filled, plain=False)
    if isinstance(node, Sequence):
        return Sequence(node.at, [fill(item, values, write) for item in node.items], node.size, node.depth)
    return _mapping(node, lambda _, value: fill(value, values, write))


def fill_lane(key: str, node: Node, values: Mapping[str, str]) -> Node:
    """One field of a lane, filled in by what it is."""
    if key == "checks" and isinstance(node, Sequence):
        checks = [
            _mapping(item, lambda key, value: fill(value, values, _IN_CHECK.get(key, as_it_is)))
            if isinstance(item, Mapping_)
            else fill(item, values)
            for item in node.items
        ]
        return Sequence(node.at, checks, node.size, node.depth)
    if key == "closure" and isinstance(node, Mapping_):
        return _mapping(node, lambda key, value: fill(value, values, as_pattern if key == "from" else as_it_is))
    if key == "paths" and isinstance(node, Mapping_):  # a workflow's
        return fill(node, values)
    return fill(node, values, _IN_LANE.get(key, as_it_is))


_IN_LANE: dict[str, Write] = {"paths": as_pattern, "needs": as_name, "about": as_shown}
_IN_CHECK: dict[str, Write] = {
    "command": as_command,
    "pytest": as_command,
    "decoder": as_command,
    "inputs": as_input,
    "name": as_name,
}


def _mapping(node: Mapping_, filled: Callable[[str, Node], Node]) -> Mapping_:
    entries = {key: filled(key, value) for key, value in node.entries.items()}
    return Mapping_(node.at, node.keys, entries, node.size, node.depth)

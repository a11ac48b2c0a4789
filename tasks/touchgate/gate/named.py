"""What a lane's checks name: files, folders, modules, crates and folders to look names up in, told from their words alone.

Nothing is looked up here: what is no file of the tree means nothing later. One name too many costs a check, one too few
merges a break.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache

from touchgate.gate import programs
from touchgate.gate.commands import GIVEN, Commands
from touchgate.gate.names import Name
from touchgate.gate.shell_words import UNKNOWN, Word, tokens
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from touchgate.gate.model import CheckDeclaration, Lane
    from touchgate.gate.names import Untold

SOURCE = (".py", ".pyi", ".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".rs")
"""Endings of targets that are sources."""
_BESIDE = ("kernel", "sanitizers", "benchmark")
"""Kinds whose target is an oracle with its kernel beside it."""
_OF_MAKE = re.compile(r"\s*(?:export\s+|override\s+)?(\w+)\s*[:?+!]*=\s*([^#]*?)\s*(?:#.*)?", re.DOTALL)
_IMPLICIT = "{c,cc,cpp,cxx,C,cu,m,s,S,f,f90}"
"""Endings that make knows how to make an object from."""


def of_lane(lane: Lane) -> tuple[Name, ...]:
    """What a lane's checks name."""
    return tuple(dict.fromkeys(name for check in lane.checks for name in of_check(*read_as(check))))


def read_as(check: CheckDeclaration) -> tuple[str, str]:
    """The kind and target that tell what a check names: of vectors with a `decoder`, that command's."""
    decoder = check.options.get("decoder") if check.kind == "vectors" else None
    return ("command", decoder) if isinstance(decoder, str) else (check.kind, check.target)


def of_check(kind: str, target: str) -> tuple[Name, ...]:
    """What one check names, by its kind."""
    return _read_check(kind, target)[0]


def untold_of_check(kind: str, target: str) -> tuple[Untold, ...]:
    """The words of one check that can't be told."""
    return _read_check(kind, target)[1]


@lru_cache(maxsize=4096)
def _read_check(kind: str, target: str) -> tuple[tuple[Name, ...], tuple[Untold, ...]]:
    if kind == "vectors":
        return (Name("vectors", target),), ()
    if kind in ("pytest", "command"):
        reader = Commands((), is_check=True)
        if kind == "command":
            reader.read(target)
        else:
            programs.pytest(reader, [word for word in tokens(target) if isinstance(word, Word)])
        return tuple(reader.names), tuple(reader.untold)
    if not target.endswith(SOURCE):
        return (), ()
    source = Name("source", target)
    return ((source, Name("source", f"{posixpath.splitext(target)[0]}.cu")) if kind in _BESIDE else (source,)), ()


def of_commands(text: str) -> list[Name]:
    """What the commands of a shell name."""
    return of_script(text)[0]


def of_script(text: str) -> tuple[list[Name], list[Untold]]:
    """What the commands of a script name; and what they run that can't be told."""
    reader = Commands(())
    reader.read(text)
    return reader.names, list(reader.untold)


def of_makefile(text: str) -> list[Name]:
    """What a Makefile names: its recipes are commands; of all else the words that are files count."""
    names: list[Name] = []
    searched: list[str] = []
    number = 0
    variables: dict[str, list[str]] = {name: list(values) for name, values in GIVEN.items()}
    for line in re.split(r"(?<!\\)\n", text):
        plain = re.sub(r"\$\((\w+)\)", r"${\1}", line.replace("$$", "$").replace("%", "*"))
        reader = Commands((), variables)
        if line.startswith("\t"):
            reader.read(plain.lstrip("\t @-+"))
        else:
            words = [word for word in tokens(re.sub(r"[:?+!]*=|:+", " ", plain), variables) if isinstance(word, Word)]
            reader.words(
                [Word("", 1), *(word._replace(is_pattern="*" in word.text or word.is_pattern) for word in words)], "file"
            )
            for word in words:
                stem, dot, ending = word.text.rpartition(".")
                if stem and ending == "o" and "*" not in stem:
                    reader.paths(Word(f"{stem}{dot}{_IMPLICIT}", word.line, is_pattern=True), "file")
            if words and words[0].text in ("VPATH", "vpath"):
                searched += [part for word in words[1:] for part in word.text.split(":")]
            assigned = _OF_MAKE.fullmatch(plain)
            if assigned:
                value = " ".join(word.text for word in tokens(assigned[2], variables) if isinstance(word, Word))
                reader.remember(assigned[1], value)
                reader.searched(assigned[1], value)
        names += [name._replace(line=name.line + number) for name in reader.names]
        number += line.count("\n") + 1
    more = tuple(posixpath.normpath(one) for one in searched if UNKNOWN not in one and "*" not in one)
    return (
        [name._replace(folders=(*name.folders, *more)) if name.kind == "file" else name for name in names] if more else names
    )

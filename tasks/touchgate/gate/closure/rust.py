"""What a Rust file names: the files of its modules, and what it includes.

    mod x;                                   x.rs or x/mod.rs, beside the file or in the folder named like it
    #[path = "p"] mod x;                     p; on `mod x { }` p is the folder of the modules inside
    #[cfg_attr(c, path = "p")] mod x;        p, and what it is without
    include!("p"), include_str!, include_bytes!
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/p"))   p in the crate's folder

The rules are those of the Rust Reference, "Modules", and of rustc for what it leaves open. Whether a file is a crate's
root is Cargo's to know, and any file may be reached by `#[path]`, so each is read both ways. What stands in the body of
a macro is looked up from where the macro is used, so it is looked for in every folder around. Arguments that only the
compiler knows (a macro's variables, `env!("OUT_DIR")`) are given as unresolved.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from touchgate.gate.closure import cargo
from touchgate.gate.closure.paths import joined, parent
from touchgate.gate.closure.references import Found, Reference, Unresolved
from touchgate.gate.closure.rust_arguments import Unknown, argument
from touchgate.gate.closure.rust_text import IDENTIFIER, Code, blank, decoded, literal_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from touchgate.gate.closure.references import Settings
    from touchgate.gate.closure.tree import Tree

VERSION = 1

_WORTH_A_LOOK = re.compile(r"(?<!\w)(?:mod|include\w*)(?!\w)")
_RENAMED = re.compile(rf"(?<!\w)(include(?:_str|_bytes)?)\s+as\s+(?:r\#)?({IDENTIFIER})")
_VISIBILITY = re.compile(r"\s*(?:pub\s*(?:\([^()]*\)\s*)?|crate\s+|\$\s*\w+\s*)?(?:unsafe\s+)?")
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_DEEPEST = 10_000
"""Open brackets: rustc itself gives up earlier."""
_MOST_WAYS = 64
"""Paths that one module may have, and folders that the modules inside it may lie in."""
_MOST_UNRESOLVED = 1000
"""Of one file: more would say no more."""

# Where a candidate is looked for: its first word.
HERE = "here:"
"""From the file's folder."""
BELOW = "below:"
"""From the file's folder, and from the folder there named like the file."""
CRATE = "crate:"
"""From the crate's folder."""
AROUND = "around:"
"""From every folder of the crate and of those around it."""


def _tokens(more: tuple[str, ...] = ()) -> re.Pattern[str]:
    """What matters of blanked code. more: names that stand for include macros."""
    names = "|".join(["include(?:_str|_bytes)?", *map(re.escape, more)])
    return re.compile(
        rf"""(?P<open>[(\[{{]) | (?P<close>[)\]}}]) | (?P<semicolon>;)
        | (?P<attribute>\#\s*(?P<inner>!?)\s*\[)
        | (?<!\w)(?<!r\#)(?:
            mod\s+(?:r\#)?(?P<name>{IDENTIFIER})\s*(?P<after>[;{{])
          | mod\s*(?P<odd>[$\#]\s*\w+ | \[\s*<[^;{{}}\[]*?>\s*\])\s*(?P<odd_after>[;{{])
          | (?P<path>path)\s*=(?!=)\s*
          | (?P<include>{names})\s*!\s*[(\[{{]
          | (?P<unused>include_(?:str|bytes))(?!\w)
          | (?P<macro>macro_rules\s*!\s*(?:{IDENTIFIER})?\s*[(\[{{])
          | (?P<macro2>macro)\s+{IDENTIFIER}\s*[({{]
        )""",
        re.VERBOSE,
    )


_TOKENS = _tokens()


class _Place(NamedTuple):
    """A folder that modules may lie in, from the file's own. below: or from the one beside it that is named like it."""

    folder: str
    below: bool


class _Way(NamedTuple):
    """A `path = ...`: what it says (None: only the compiler knows), and whether it surely counts."""

    path: str | None
    certain: bool


class _Frame:
    """An open bracket that means something."""

    def __init__(self, start: int, kind: str, bracket: str, inside: int) -> None:
        self.start, self.kind, self.closes, self.inside = start, kind, _CLOSES[bracket], inside
        self.inner = False
        self.ways: list[_Way] = []
        self.name = ""
        self.places: tuple[_Place, ...] = ()
        """Where the modules inside a module or a macro lie."""


class _Reader:
    """One pass over the code."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.references: list[tuple[int, Reference]] = []
        self.unresolved: list[tuple[int, Unresolved]] = []
        self.stack: list[_Frame | int] = []
        self.attributes: list[_Frame] = []
        self.homes: list[_Frame] = []
        """The modules and macros that are open, innermost last."""
        self.macros = 0
        self.ways: list[_Way] = []
        """What the attributes say that stand before the next item."""
        self.attributed = 0
        self.renamed: dict[str, str] = {}
        """Names that include macros are used by here -> their own."""

    def fault(self, start: int, end: int, why: str) -> None:
        if len(self.unresolved) < _MOST_UNRESOLVED:
            self.unresolved.append((start, Unresolved(0, self.written(start, end), why)))

    def written(self, start: int, end: int) -> str:
        return " ".join(self.code.text[start : min(end, start + 200)].split())

    def refer(self, start: int, how: str, text: str, candidates: list[str]) -> None:
        self.references.append((start, Reference(how, text, 0, tuple(dict.fromkeys(candidates)))))

    def read(self) -> None:
        blanked = self.code.blanked
        if self.code.unclosed is not None:
            self.fault(self.code.unclosed, self.code.unclosed + 20, "a comment or string begins here that never ends")
        self.renamed = {match[2]: match[1] for match in _RENAMED.finditer(blanked)}
        tokens = _tokens(tuple(self.renamed)[:_MOST_WAYS]) if self.renamed else _TOKENS
        position = 0
        while token := tokens.search(blanked, position):
            position = token.end()
            kind = token.lastgroup
            if kind == "open":
                self.push(token.start())
            elif kind == "close":
                self.close(token)
            elif kind == "semicolon":
                self.forget_attributes()
            else:
                position = self.word(token)
            if len(self.stack) > _DEEPEST:
                self.fault(token.start(), token.end(), f"more than {_DEEPEST} brackets are open")
                return
        if self.stack:
            first = self.stack[0]
            start = first if isinstance(first, int) else first.start
            self.fault(start, start + 20, "a bracket is opened here that is never closed")

    def word(self, token: re.Match[str]) -> int:
        """What is neither a bracket nor a semicolon; where to go on."""
        if token["attribute"]:
            frame = self.push(token.end() - 1, "attribute", token.start())
            frame.inner = bool(token["inner"])
            self.attributes.append(frame)
        elif token["name"] or token["odd"]:
            self.module(token)
        elif token["path"]:
            return self.path(token)
        elif token["include"]:
            self.push(token.end() - 1, "include", token.start()).name = token["include"]
        elif token["macro"]:
            frame = self.push(token.end() - 1, "macro", token.start())
            frame.places = (_Place("", below=False),)
            self.homes.append(frame)
            self.macros += 1
        elif token["macro2"]:
            self.macros += 1  # for the rest of the file: its bodies are not told apart
            return token.end() - 1
        elif token["unused"] and not re.compile(r"\s*(?:[,;}]|as\b)").match(self.code.blanked, token.end()):
            self.fault(token.start(), token.end(), "named, but not called here")
        return token.end()

    # Brackets

    def push(self, bracket: int, kind: str = "", start: int | None = None) -> _Frame:
        frame = _Frame(bracket if start is None else start, kind, self.code.blanked[bracket], bracket + 1)
        if not kind:
            if self.code.blanked[bracket] == "{":
                self.forget_attributes()
            self.stack.append(bracket)
        else:
            self.stack.append(frame)
        return frame

    def close(self, token: re.Match[str]) -> None:
        bracket = token["close"]
        top = self.stack[-1] if self.stack else None
        expected = None if top is None else _CLOSES[self.code.blanked[top]] if isinstance(top, int) else top.closes
        if bracket != expected:
            self.fault(token.start(), token.end(), "a bracket is closed here that is not open")
            return
        self.stack.pop()
        if isinstance(top, _Frame):
            if top.kind == "attribute":
                self.attributes.pop()
                self.attribute(top, token.end())
                return
            if top.kind == "include":
                self.include(top, token.start())
            else:
                self.homes.pop()
                self.macros -= top.kind == "macro"
        if bracket == "}":
            self.forget_attributes()

    # Attributes

    def forget_attributes(self) -> None:
        if not self.attributes:
            self.ways = []

    def path(self, token: re.Match[str]) -> int:
        """`path = ...` inside an attribute."""
        if not self.attributes:
            return token.end()
        attribute = self.attributes[-1]
        literal = literal_at(self.code.text, token.end())
        certain = self.stack[-1] is attribute and not self.code.blanked[attribute.inside : token.start()].strip()
        if len(attribute.ways) < _MOST_WAYS:
            attribute.ways.append(_Way(literal[0] if literal else None, certain))
        else:
            self.fault(token.start(), token.end(), f"more than {_MOST_WAYS} paths in one attribute")
        return literal[1] if literal else token.end()

    def attribute(self, frame: _Frame, end: int) -> None:
        """An attribute ends."""
        if frame.inner:
            home = self.homes[-1] if self.homes else None
            if frame.ways and home and home.kind == "module":
                # An inner attribute counts as one before the module does, after those.
                self.homes.pop()
                home.places = self.merged(home.places, self.inside(home.name, frame.ways), frame.start)
                self.homes.append(home)
            return
        if self.attributes:
            self.attributes[-1].ways += [way._replace(certain=False) for way in frame.ways]
            return
        if self.ways and self.code.blanked[self.attributed : frame.start].strip():
            self.ways = [way._replace(certain=False) for way in self.ways]
        self.ways += frame.ways
        if len(self.ways) > _MOST_WAYS:
            self.fault(frame.start, end, f"more than {_MOST_WAYS} paths of one item")
            self.ways = self.ways[:_MOST_WAYS]
        self.attributed = end

    # Modules

    def module(self, token: re.Match[str]) -> None:
        blanked, start = self.code.blanked, token.start()
        ways, self.ways = self.ways, []
        if ways and not _VISIBILITY.fullmatch(blanked, self.attributed, start):
            ways = [way._replace(certain=False) for way in ways]
        name = unicodedata.normalize("NFC", token["name"] or "")
        if (token["after"] or token["odd_after"]) == "{":
            frame = self.push(token.end() - 1, "module", start)
            frame.name = name
            frame.places = self.inside(name, ways)
            self.homes.append(frame)
            if name:
                self.told(ways, token)
            return
        self.told(ways, token)
        if not name and not any(way.certain for way in ways):
            self.fault(start, token.end(), "the module's name is a macro's to know")
        if not self.places():
            self.fault(start, token.end(), "a module around it has a name that is a macro's to know")
        candidates = self.files(name, ways)
        if candidates:
            how = "path" if any(way.path is not None for way in ways) else "mod"
            self.refer(start, how, self.written(start, token.end() - 1), candidates)

    def files(self, name: str, ways: list[_Way]) -> list[str]:
        """Candidates for the file of a module. name: "" where only a macro knows it."""
        candidates: list[str] = []
        for way in ways:
            if way.path is not None:
                candidates += self.candidates(way.path, named=False)
            if way.certain:
                return candidates
        for file in (f"{name}.rs", f"{name}/mod.rs") if name else ():
            candidates += self.candidates(file, named=True)
        return candidates

    def told(self, ways: list[_Way], token: re.Match[str]) -> None:
        for way in ways:
            if way.path is None:
                self.fault(token.start(), token.end() - 1, "its path is no string literal")
            if way.certain:
                break

    def places(self) -> tuple[_Place, ...]:
        return self.homes[-1].places if self.homes else (_Place("", below=True),)

    def at_top(self) -> bool:
        return not any(frame.kind == "module" for frame in self.homes[-1:])

    def candidates(self, path: str, *, named: bool) -> list[str]:
        """Candidates for a path from where modules lie here. named: after the module, not by an attribute."""
        places = self.places()
        if self.macros:
            return [AROUND + joined(place.folder, path) for place in places]
        below = named or not self.at_top()
        return [(BELOW if place.below and below else HERE) + joined(place.folder, path) for place in places]

    def inside(self, name: str, ways: list[_Way]) -> tuple[_Place, ...]:
        """The folders of the modules inside a module that is written out here."""
        result: list[_Place] = []
        around, at_top = self.places(), self.at_top()
        for way in ways:
            if way.path is not None:
                result += [_Place(joined(place.folder, way.path), place.below and not at_top) for place in around]
            if way.certain:
                break
        else:
            result += [_Place(joined(place.folder, name), place.below) for place in around if name]
        return self.merged((), tuple(result), 0)

    def merged(self, one: tuple[_Place, ...], other: tuple[_Place, ...], start: int) -> tuple[_Place, ...]:
        places = tuple(dict.fromkeys([*one, *other]))
        if len(places) > _MOST_WAYS:
            self.fault(start, start + 20, f"more than {_MOST_WAYS} folders for the modules of one module")
        return places[:_MOST_WAYS]

    # Includes

    def include(self, frame: _Frame, end: int) -> None:
        try:
            where, path = argument(self.code, frame.inside, end)
        except Unknown as unknown:
            self.fault(frame.start, end + 1, str(unknown))
            return
        places = [AROUND] if self.macros else [CRATE if where == "crate" else HERE]
        how = "include" if self.renamed.get(frame.name, frame.name) == "include" else "bytes"
        self.refer(frame.start, how, self.written(frame.inside, end), [place + path for place in places])


def read(text: bytes) -> Found:
    """The files that a Rust file names.

    how: "mod", "path", "include", "bytes" (of `include_str!` and `include_bytes!`). A candidate's first word says from where
    it is looked up.
    """
    source = decoded(text)
    if not _WORTH_A_LOOK.search(source):
        return Found()
    reader = _Reader(blank(source))
    reader.read()
    lines = _lines(source, sorted({start for start, _ in [*reader.references, *reader.unresolved]}))
    return Found(
        tuple(found._replace(line=lines[start]) for start, found in sorted(reader.references, key=lambda item: item[0])),
        tuple(fault._replace(line=lines[start]) for start, fault in sorted(reader.unresolved, key=lambda item: item[0])),
    )


def _lines(text: str, offsets: list[int]) -> dict[int, int]:
    """offsets: ascending."""
    result, line, done = {}, 1, 0
    for offset in offsets:
        line += text.count("\n", done, offset)
        result[offset] = line
        done = offset
    return result


def resolve(reference: Reference, path: str, tree: Tree, settings: Settings) -> tuple[str, ...]:  # noqa: ARG001 - the contract
    """The files that a reference of the file `path` may mean; see `Language`."""
    named = dict.fromkeys(candidate for text in reference.candidates for candidate in _named(text, path, tree))
    return tuple(dict.fromkeys(file for candidate in named for file in tree.at(candidate)))


def _named(candidate: str, path: str, tree: Tree) -> Iterator[str]:
    where, _, name = candidate.partition(":")
    where += ":"
    folder = parent(path)
    if where == CRATE:
        yield from (joined(crate, name) for crate in cargo.crates_above(path, tree))
        return
    yield joined(folder, name)
    if where == BELOW:
        yield joined(path.removesuffix(".rs"), name)
    elif where == AROUND:
        yield from (joined(around, name) for around in cargo.folders_around(path, tree))


def implied(path: str, tree: Tree, settings: Settings) -> tuple[str, ...]:  # noqa: ARG001 - the contract
    """The manifest of the crate that a source belongs to."""
    return cargo.manifest_of(path, tree)

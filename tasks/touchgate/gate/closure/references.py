"""What one file names, and the contract of the modules that read a language.

Each language module has

    VERSION: int
        part of the key of every kept reading: one more whenever `read` may answer differently
    read(text: bytes) -> Found
        of the content alone, so that it can be kept by blob id; any bytes are read to their end, none raise
    resolve(reference: Reference, path: str, tree: Tree, settings: Settings) -> tuple[str, ...]
        the files of the tree that a reference of the file `path` may mean, every one; () where it names nothing of the tree
    implied(path: str, tree: Tree, settings: Settings) -> tuple[str, ...]
        the files that come with `path` whatever it says (a package's __init__.py, a crate's Cargo.toml)

Paths are relative to the repository's root, with "/", normalized, decoded with `surrogateescape`; a name that leads out of
the root means nothing of the tree. A file is read as the language that its name tells, and as that of the file that names
it (an included `.inc`), unless the reference is of the kind "bytes": then it counts and is not read, or "source": then its
name alone tells. One edge too many costs a check, one too few merges a break: every branch of the preprocessor and every
`cfg` counts, and what a reader is not sure about is a reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from touchgate.gate.closure.tree import Tree


class Reference(NamedTuple):
    """One file or module that is named.

    how: a word of the language module's own ("quotes", "angles", "import", "path"...), printable, or "bytes" or "source".
    text: what is named, as written. line: from 1. candidates: plain data that `read` hands to `resolve`.
    """

    how: str
    text: str
    line: int
    candidates: tuple[str, ...] = ()


class Unresolved(NamedTuple):
    """What names a file that can't be told without running something. line: from 1; text: as written; why: a clause."""

    line: int
    text: str
    why: str


class Found(NamedTuple):
    """All that one text names."""

    references: tuple[Reference, ...] = ()
    unresolved: tuple[Unresolved, ...] = ()


class Settings(NamedTuple):
    """What a lane declares beside its sources. include, python: folders relative to the root, "" for the root itself.

    here: folders that its commands run scripts and Makefiles in.
    """

    include: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    here: tuple[str, ...] = ()


class Language(Protocol):
    """A module that reads a language; see above."""

    VERSION: int

    def read(self, text: bytes) -> Found:
        """All that the content names."""
        ...

    def resolve(self, reference: Reference, path: str, tree: Tree, settings: Settings) -> tuple[str, ...]:
        """The files that a reference may mean."""
        ...

    def implied(self, path: str, tree: Tree, settings: Settings) -> tuple[str, ...]:
        """The files that come with a file."""
        ...

"""The things that a lane's checks name, as values."""

from __future__ import annotations

import posixpath

from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Untold(NamedTuple):
    """A word that can't be told without running it. line: from 1; text: what is shown; why: a clause.

    behind: the paths that it may mean all the same; where one of them is there, all is told.
    """

    line: int
    text: str
    why: str
    behind: tuple[str, ...] = ()


class Name(NamedTuple):
    """One thing that is named.

    kind: "word" (a file, or a folder with all that is in it), "file", "source" (a file of a check), "vectors" (a folder
    of them), "tests" (a file or folder of pytest's), "testpaths" (what pytest takes when none is named), "pytest" (a call,
    its arguments under `more`), "module" (of
    Python), "code" (Python itself), "python" (a file that Python runs), "script" (one that a shell runs), "makefile",
    "cargo" (a manifest, or ""), "include" and "pythonpath" (folders to look names up in).
    text: a path as written, or the name; of a pattern the files that match are meant. folders: from which it may be
    meant, the innermost first. more: the packages that Cargo is asked for; arguments.
    """

    kind: str
    text: str
    folders: tuple[str, ...] = ("",)
    line: int = 1
    is_pattern: bool = False
    more: tuple[str, ...] = ()

    def paths(self) -> Iterator[str]:
        """The paths that may be meant, from the root; none that leads out of it."""
        for folder in self.folders:
            path = posixpath.normpath(posixpath.join(folder, self.text))
            if not path.startswith(("/", "../")) and path != "..":
                yield "" if path == "." else path

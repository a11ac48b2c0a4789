"""What a shell's script names, by the rules for the words of a check's command.

A script in Python whose name does not tell it is read as Python.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from touchgate.gate.closure import naming, python
from touchgate.gate.closure.references import Found, Reference, Unresolved
from touchgate.gate.named import of_script
from touchgate.gate.names import Name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from touchgate.gate.closure.references import Settings
    from touchgate.gate.closure.tree import Tree

VERSION = 4000 + python.VERSION

FOLDERS = ("include", "pythonpath")
"""References that name folders to look other names up in; see `folders_of`."""
_HOWS = {"script": "runs", "python": "runs as Python", "makefile": "runs as make"}
_OF_PYTHON = ("import", "from", "all", "conftest", "file")


def read(text: bytes) -> Found:
    """All that the script names. What is no text names nothing."""
    if b"\0" in text[:8192]:
        return Found()
    if re.match(rb"#![^\n]*\b(?:python|pypy)", text):
        return python.read(text)
    names, untold = of_script(text.decode("utf-8", "surrogateescape"))
    # Whether what stands behind a variable is there, no content tells.
    unresolved = tuple(dict.fromkeys(Unresolved(one.line, one.text, one.why) for one in untold if not one.behind))
    return of_names(names)._replace(unresolved=unresolved)


def of_names(names: Iterable[Name]) -> Found:
    """Names as references. A folder that is named counts with all that is in it, and none of that is read."""
    found: dict[Reference, None] = {}
    for name in names:
        how = name.kind if name.kind in FOLDERS else _HOWS.get(name.kind, "source")
        kept = (name.kind, "pattern" if name.is_pattern else "", str(len(name.folders)), *name.folders, *name.more)
        found[Reference(how, name.text, name.line, kept)] = None
        if name.kind == "word":
            found[Reference("bytes", name.text, name.line, kept)] = None
    return Found(tuple(found))


def _name(reference: Reference, path: str, settings: Settings) -> Name:
    """The name that a reference keeps, looked up from the script's own folder too: many a script goes there first.

    And from the folders that the lane's commands run scripts in.
    """
    kind, pattern, count, *rest = reference.candidates
    own = posixpath.dirname(path)
    inner = tuple(rest[: int(count)])
    folders = tuple(
        dict.fromkeys(posixpath.normpath(posixpath.join(start, one)) for start in (own, "", *settings.here) for one in inner)
    )
    plain = tuple("" if folder == "." else folder for folder in folders)
    return Name(kind, reference.text, plain, reference.line, bool(pattern), tuple(rest[int(count) :]))


def resolve(reference: Reference, path: str, tree: Tree, settings: Settings) -> tuple[str, ...]:
    """The files that a name of the script `path` may mean."""
    if reference.how in _OF_PYTHON or ":" in (reference.candidates or ("",))[0]:
        return python.resolve(reference, path, tree, settings)
    name = _name(reference, path, settings)
    if reference.how in FOLDERS:
        return ()
    if reference.how == "bytes":
        return tuple(file for folder in naming.folders(name, tree) for file in tree.below(folder))
    return tuple(meant.path for meant in naming.files(name, tree, settings))


def folders_of(path: str, text: str) -> tuple[str, ...]:
    """The folders that a script's "include" or "pythonpath" may mean, from the root."""
    found = (posixpath.normpath(posixpath.join(start, text)) for start in (posixpath.dirname(path), ""))
    return tuple("" if one == "." else one for one in found if not one.startswith(("/", "..")))


def implied(path: str, tree: Tree, settings: Settings) -> tuple[str, ...]:  # noqa: ARG001 (of the contract)
    """No other file comes with one."""
    return ()

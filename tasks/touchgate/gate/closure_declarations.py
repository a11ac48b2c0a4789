"""The `closure` of a lane: which sources count with all that they include, and where names are looked up.

    closure:
      from: [src/lib.rs, "src/**/*.cu"]   # GitHub's dialect; default: the files that the checks name
      include: [include, third_party/cub] # folders for #include, as -I
      python: [src]                       # folders that imports start from

`closure: paths` takes the lane's own patterns as sources, `closure: none` switches it off.
"""

from __future__ import annotations

import posixpath

from touchgate.gate import located
from touchgate.gate.located import Mapping_, Node, Problem, Scalar, Sequence, did_you_mean, words
from touchgate.gate.model import ClosureDeclaration, PathPattern
from touchgate.gate.patterns import list_faults

KEYS = ("from", "include", "python")
WORDS = ("paths", "none")


def read_closure(node: Node, lane: str, paths: tuple[PathPattern, ...], problems: list[Problem]) -> ClosureDeclaration | None:
    """A lane's closure; None, and a problem, where it is mistaken. paths: the lane's own patterns."""
    if isinstance(node, Scalar) and node.text in WORDS:
        return ClosureDeclaration(paths if node.text == "paths" else (), (), (), node.at)
    if not isinstance(node, Mapping_) or not node.entries:
        hint = did_you_mean(node.text, WORDS) if isinstance(node, Scalar) else None
        message = f"'closure' of lane '{lane}' takes {words(KEYS)}, or is 'paths' or 'none'"
        problems.append(Problem(node.at, message, hint))
        return None
    for entry, place in node.keys.items():
        if entry not in KEYS:
            hint = did_you_mean(entry, KEYS) or f"it takes {words(KEYS)}"
            problems.append(Problem(place.at, f"unknown key '{entry}' in 'closure' of lane '{lane}'", hint))
    start = node.entries.get("from")
    sources = None if start is None else _sources(start, problems)
    include = _folders(node.entries.get("include"), "'include'", problems)
    python = _folders(node.entries.get("python"), "'python'", problems)
    return ClosureDeclaration(sources, include, python, node.at)


def _texts(node: Node, what: str, problems: list[Problem]) -> list[Scalar]:
    if not isinstance(node, Sequence) or not node.items:
        found = "empty" if isinstance(node, Sequence) else located.kind_of(node)
        problems.append(Problem(node.at, f"{what} must be a list, not {found}", "write it in [ ]"))
        return []
    read = [(item, located.text(item, f"an entry of {what}", problems)) for item in node.items]
    return [item for item, text in read if text is not None and isinstance(item, Scalar)]


def _sources(node: Node, problems: list[Problem]) -> tuple[PathPattern, ...]:
    if isinstance(node, Scalar) and node.text == "paths":
        problems.append(Problem(node.at, "'from' must be a list", "write `closure: paths` for the lane's own patterns"))
        return ()
    found = [PathPattern(item.text, item.at) for item in _texts(node, "'from'", problems)]
    for index, fault in list_faults([pattern.text for pattern in found]) if found else ():
        if index is None:
            problems.append(Problem(node.at, f"'from': {fault}"))
        else:
            problems.append(Problem(found[index].at, f"pattern '{found[index].text}': {fault}"))
    return tuple(found)


def _folders(node: Node | None, what: str, problems: list[Problem]) -> tuple[str, ...]:
    """Folders relative to the root, "" for the root itself, as git writes them."""
    found: dict[str, None] = {}
    for item in _texts(node, what, problems) if node is not None else ():
        folder = _folder(item.text)
        if folder is None:
            problems.append(Problem(item.at, f"'{item.text}' in {what} is not a folder from the repository's root"))
        else:
            found[folder] = None
    return tuple(found)


def _folder(text: str) -> str | None:
    plain = posixpath.normpath(text or "/")
    if plain == ".." or plain.startswith(("/", "../")):
        return None
    return "" if plain == "." else plain

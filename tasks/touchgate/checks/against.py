"""The base's version of a kernel: which files it is made of in a commit, and those files in a folder.

The parent finds them, since they belong to the result's key: by their ids, so that a base that moved without them changes
nothing. The worker writes them out and loads them as it does head's.
"""

from __future__ import annotations

import ast
import posixpath
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from touchgate.checks import CheckSpec
from touchgate.checks.includes import scan
from touchgate.checks.oracles import source_of
from touchgate.gate.git import GITLINK, GitFault, Repository

BASE = "base"
"""The option that holds what is known of the base's version."""
MOST_FILES = 1000


class NoBase(Exception):
    """There is no version of the base's to compare with: why, in words."""


def with_base(spec: CheckSpec, repo: Repository, commit: str | None, why_not: str = "") -> CheckSpec:
    """The check with the base's files by their ids; or with the reason why there are none."""
    known: dict[str, object]
    if commit is None:
        known = {"fault": why_not}
    else:
        try:
            known = {"files": files_of(repo, commit, spec.target)}
        except (NoBase, GitFault) as fault:
            known = {"fault": str(fault)}
    return replace(spec, options={**spec.options, BASE: known})


def files_of(repo: Repository, commit: str, target: str) -> dict[str, str]:
    """Path -> blob id of the oracle file's whole folder and all that its sources include, in a commit.

    Raises `NoBase`, `GitFault`.
    """
    for path in (target, source_of(target)):
        if _blob(repo, commit, path) is None:
            raise NoBase(f"the base has no {path}")
    found: dict[str, str] = {}
    waiting = [*_below(repo, commit, posixpath.dirname(target)), target, source_of(target)]
    while waiting:
        path = waiting.pop()
        blob = None if path in found else _blob(repo, commit, path)
        if blob is None:
            continue
        found[path] = blob
        if len(found) > MOST_FILES:
            raise NoBase(f"the base's version of {target} reaches more than {MOST_FILES} files")
        waiting += _named(path, _content(repo, blob, path))
    return dict(sorted(found.items()))


def _blob(repo: Repository, commit: str, path: str) -> str | None:
    if path.startswith("../"):
        return None
    entry = repo.entry(commit, path)
    if entry is None or stat.S_ISDIR(entry.mode) or entry.mode == GITLINK:
        return None
    if stat.S_ISLNK(entry.mode):
        raise NoBase(f"{path} is a symbolic link in the base")
    return entry.id


def _below(repo: Repository, commit: str, folder: str) -> Iterator[str]:
    for name, entry in (repo.folder(commit, folder) or {}).items():
        path = posixpath.join(folder, name)
        if stat.S_ISDIR(entry.mode):
            yield from _below(repo, commit, path)
        elif stat.S_ISREG(entry.mode):
            yield path


def _content(repo: Repository, blob: str, path: str) -> bytes:
    (content,) = repo.blobs([blob])
    if content is None:
        raise NoBase(f"this clone lacks the base's {path}")
    return content


def _named(path: str, content: bytes) -> list[str]:
    """What a file includes or imports relatively, as far as it is spelled out."""
    folder = posixpath.dirname(path)
    if path.endswith(".py"):
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError, RecursionError):
            return []  # loading it will say so
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
        return [name for node in nodes for name in _modules(node, folder)]
    names = scan(content.decode("utf-8", "surrogateescape")).names if path.endswith(_SOURCES) else ()
    return [posixpath.normpath(posixpath.join(folder, name)) for name in names]


_SOURCES = (".cu", ".cuh", ".h", ".hpp", ".hh", ".inc", ".inl", ".c", ".cc", ".cpp")


def _modules(node: ast.ImportFrom, folder: str) -> Iterator[str]:
    at = posixpath.normpath(posixpath.join(folder, *[".."] * (node.level - 1)))
    parts = (node.module or "").split(".") if node.module else []
    for depth in range(len(parts) + 1):
        inner = posixpath.join(at, *parts[:depth])
        yield posixpath.join(inner, "__init__.py")
        if depth:
            yield f"{inner}.py"
    for alias in node.names:
        inner = posixpath.join(at, *parts, alias.name)
        yield f"{inner}.py"
        yield posixpath.join(inner, "__init__.py")


def write_out(options: Mapping[str, Any], root: Path, target: str, folder: Path) -> None:
    """Write the base's files below `folder`, as they lay in the base.

    Raises `NoBase` with the reason why there is nothing to compare with.
    """
    known = options.get(BASE) or {}
    files = known.get("files")
    if not files:
        raise NoBase(known.get("fault") or "no base is known")
    try:
        with Repository(root) as repo:
            contents = repo.blobs(list(files.values()))
    except GitFault as fault:
        raise NoBase(str(fault)) from fault
    pairs = list(zip(files, contents, strict=True))
    for path, content in pairs:
        if content is None:
            raise NoBase(f"this clone lacks the base's {path}")
    if all(_same(root / path, content) for path, content in pairs):
        raise NoBase(f"{target}, its kernel and all that they include are as in the base")
    for path, content in pairs:
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content or b"")


def _same(file: Path, content: bytes | None) -> bool:
    try:
        return file.read_bytes() == content
    except OSError:
        return False

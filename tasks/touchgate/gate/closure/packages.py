"""Which packages a call of Cargo works on, and the sources of theirs that it finds by itself.

The rules are those of the Cargo Book ("Workspaces", "Package selection", "Cargo Targets").
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from touchgate.gate.closure import naming, toml
from touchgate.gate.closure.cargo import MANIFEST
from touchgate.gate.closure.paths import joined, parent, upwards

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from touchgate.gate.closure.tree import Tree

_FOLDERS = ("tests", "examples", "benches")
_TARGETS = ("test", "example", "bench")


def sources(folder: str, manifest: str, packages: Sequence[str], tree: Tree) -> Iterator[str]:
    """The manifests, tests, examples and benchmarks of the packages that are meant.

    folder: where Cargo is called; manifest: --manifest-path from there, or "". packages: what -p names; "*" for all.
    """
    start = _start(folder, manifest, tree)
    for file in dict.fromkeys(_chosen(start, packages, tree)) if start is not None else ():
        yield file
        here, table = parent(file), _table(file, tree)
        for inner in _FOLDERS:
            for name in tree.folder(joined(here, inner)) or ():
                yield joined(here, inner, f"{name}main.rs" if name.endswith("/") else name)
        for kind in _TARGETS:
            targets = table.get(kind)
            for target in targets if isinstance(targets, list) else ():
                path = target.get("path") if isinstance(target, dict) else None
                if isinstance(path, str):
                    yield joined(here, path)


def _start(folder: str, manifest: str, tree: Tree) -> str | None:
    if manifest:
        path = posixpath.normpath(joined(folder, manifest))
        return path if tree.is_file(path) else None
    return next((joined(above, MANIFEST) for above in upwards(folder) if tree.is_file(joined(above, MANIFEST))), None)


def _chosen(start: str, packages: Sequence[str], tree: Tree) -> Iterator[str]:
    own = _table(start, tree)
    if not packages:
        workspace = _dict(own, "workspace")
        chosen = _members(start, workspace, "default-members", tree)
        is_package = bool(_dict(own, "package"))
        if is_package or chosen:
            yield start
            yield from chosen
        else:
            yield from (start, *_members(start, workspace, "members", tree))
        return
    root = next(
        (path for above in upwards(parent(start)) if "workspace" in _table(path := joined(above, MANIFEST), tree)), start
    )
    every = list(dict.fromkeys((root, start, *_members(root, _dict(_table(root, tree), "workspace"), "members", tree))))
    named = {file: str(_dict(_table(file, tree), "package").get("name")) for file in every}
    wanted = [re.split(r"[@#]", one)[0] for one in packages]
    found = [file for file, name in named.items() if name in wanted]
    # A pattern, a URL, or a dependency: it can't be one of fewer than all.
    yield from found if found and set(wanted) <= set(named.values()) else every


def _members(root: str, workspace: dict[str, object], key: str, tree: Tree) -> list[str]:
    listed = workspace.get(key)
    found: list[str] = []
    for text in listed if isinstance(listed, list) else ():
        if isinstance(text, str):
            path = posixpath.normpath(joined(parent(root), text))
            found += [joined(one, MANIFEST) for one in naming.matching(path, tree)]
    return [file for file in found if tree.is_file(file) or tree.gitlink(parent(file))]


def _table(file: str, tree: Tree) -> dict[str, object]:
    content = tree.read([file])[file] if tree.is_file(file) else None
    try:
        return toml.read(content) if content is not None else {}
    except toml.TomlFault:
        return {}


def _dict(table: dict[str, object], key: str) -> dict[str, object]:
    value = table.get(key)
    return value if isinstance(value, dict) else {}

"""What a Cargo manifest names, and what comes with a crate.

    path = "p" of a dependency     p/Cargo.toml; in [dependencies], [dev-dependencies], [build-dependencies], those of
                                   [target.*], [patch.*], [replace], and `x.workspace = true` by the workspace's own table
    [lib] path, [[bin]] path, build    these sources; those that Cargo finds by itself come with the manifest
    the folders above              Cargo.toml, Cargo.lock, the toolchain file and .cargo/config.toml count, and are not read:
                                   of a workspace's root only what concerns this crate is followed

The rules are those of the Cargo Book ("Specifying Dependencies", "Workspaces", "Cargo Targets", "Configuration").
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from touchgate.gate.closure import toml
from touchgate.gate.closure.paths import joined, parent, upwards
from touchgate.gate.closure.references import Found, Reference, Unresolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from touchgate.gate.closure.references import Settings
    from touchgate.gate.closure.tree import Tree

VERSION = 1
MANIFEST = "Cargo.toml"

_DEPENDENCIES = ("dependencies", "dev-dependencies", "dev_dependencies", "build-dependencies", "build_dependencies")
_TARGETS = ("bin", "example", "test", "bench")
_ABOVE = (MANIFEST, "Cargo.lock", "rust-toolchain", "rust-toolchain.toml", ".cargo/config", ".cargo/config.toml")
_CONFIGURATION = (".cargo/config", ".cargo/config.toml")


class _Path(NamedTuple):
    """A dependency by path."""

    name: str
    path: str
    line: int


def read(text: bytes) -> Found:
    """The manifests and sources that a manifest names.

    how: "dependency", "workspace" (inherited from the workspace's root), "source" (read as what its name says), "bytes".
    """
    try:
        table = toml.read(text)
    except toml.TomlFault as fault:
        return Found((), (Unresolved(fault.line, MANIFEST, f"it can't be read as TOML ({fault.why})"),))
    root = _text(_table(table, "package"), "workspace") or ""
    references = [Reference("bytes", "the folders above", 1, (root,)), Reference("workspace", "the workspace", 1, ("", root))]
    for dependencies in _dependency_tables(table):
        for name, value in dependencies.items():
            if isinstance(value, toml.Table) and value.get("workspace") is True:
                references.append(Reference("workspace", name, dependencies.lines[name], (name, root)))
    paths = [*(path for one in _dependency_tables(table) for path in _paths(one)), *_replaced(table)]
    references += [Reference("dependency", one.path, one.line, (joined(one.path, MANIFEST),)) for one in paths]
    unresolved = []
    for path, line in _sources(table):
        references.append(Reference("source", path, line, (path,)))
        if not path.endswith(".rs"):
            unresolved.append(Unresolved(line, path, "a Rust source whose name does not end in .rs"))
    return Found(tuple(dict.fromkeys(references)), tuple(unresolved))


def resolve(reference: Reference, path: str, tree: Tree, settings: Settings) -> tuple[str, ...]:  # noqa: ARG001 - the contract
    """The files that a reference of the manifest `path` may mean; see `Language`."""
    folder = parent(path)
    if reference.how == "bytes":
        found = [path, *_above(folder, reference.candidates[0], tree)]
    elif reference.how == "workspace":
        name, root = reference.candidates
        found = [file for one in _inherited(name, path, root, tree) for file in tree.at(one)]
        found = [path, *found] if not name else found
    else:
        found = [file for one in reference.candidates for file in tree.at(joined(folder, one))]
    return tuple(dict.fromkeys(found))


def implied(path: str, tree: Tree, settings: Settings) -> tuple[str, ...]:  # noqa: ARG001 - the contract
    """The sources that Cargo finds beside a manifest: the library, the programs, the build script."""
    folder = parent(path)
    names = tree.folder(joined(folder, "src/bin")) or ()
    programs = [f"src/bin/{name}main.rs" if name.endswith("/") else f"src/bin/{name}" for name in names]
    found = ["src/lib.rs", "src/main.rs", "build.rs", *(one for one in programs if one.endswith(".rs"))]
    return tuple(file for one in found for file in tree.at(joined(folder, one)))


def crates_above(path: str, tree: Tree) -> tuple[str, ...]:
    """The folders above a file that have a manifest, nearest first."""
    return tuple(folder for folder in upwards(parent(path)) if tree.at(joined(folder, MANIFEST)))


def manifest_of(path: str, tree: Tree) -> tuple[str, ...]:
    """The nearest manifest above a file, where there is one."""
    return tuple(file for folder in crates_above(path, tree)[:1] for file in tree.at(joined(folder, MANIFEST)))


def folders_around(path: str, tree: Tree) -> tuple[str, ...]:
    """All folders of the outermost crate that a file lies in; of its own folder, where it lies in none."""
    top = (crates_above(path, tree) or (parent(path),))[-1]
    found: dict[str, None] = {top: None}
    for file in tree.below(top):
        for folder in upwards(parent(file)):
            if folder in found:
                break
            found[folder] = None
    return tuple(found)


# What a manifest says


def _table(table: toml.Table, *names: str) -> toml.Table:
    for name in names:
        inner = table.get(name)
        table = inner if isinstance(inner, toml.Table) else toml.Table("implied")
    return table


def _text(table: toml.Table, name: str) -> str | None:
    value = table.get(name)
    return value if isinstance(value, str) else None


def _tables(table: toml.Table) -> Iterator[toml.Table]:
    return (value for value in table.values() if isinstance(value, toml.Table))


def _dependency_tables(table: toml.Table) -> Iterator[toml.Table]:
    for around in (table, *_tables(_table(table, "target"))):
        for name in _DEPENDENCIES:
            yield _table(around, name)


def _paths(dependencies: toml.Table) -> Iterator[_Path]:
    for name, value in dependencies.items():
        path = _text(value, "path") if isinstance(value, toml.Table) else None
        if path is not None:
            yield _Path(name, path, value.lines["path"])


def _replaced(table: toml.Table) -> Iterator[_Path]:
    """What takes the place of dependencies of every crate of a workspace."""
    for patches in _tables(_table(table, "patch")):
        yield from _paths(patches)
    yield from _paths(_table(table, "replace"))


def _sources(table: toml.Table) -> Iterator[tuple[str, int]]:
    """The sources that are named: (path, line)."""
    package = _table(table, "package") or _table(table, "project")
    build = package.get("build")
    for path in build if isinstance(build, list) else [build]:
        if isinstance(path, str):
            yield path, package.lines["build"]
    programs = [one for name in _TARGETS[:1] for one in _array(table, name)]
    for target in (_table(table, "lib"), *programs):
        path = _text(target, "path")
        if path is not None:
            yield path, target.lines["path"]


def _array(table: toml.Table, name: str) -> list[toml.Table]:
    value = table.get(name)
    return [one for one in value if isinstance(one, toml.Table)] if isinstance(value, list) else []


# What lies above


def _above(folder: str, root: str, tree: Tree) -> Iterator[str]:
    for above in (*upwards(folder), *([joined(folder, root)] if root else ())):
        for name in _ABOVE:
            yield from tree.at(joined(above, name))


def _inherited(name: str, path: str, root: str, tree: Tree) -> Iterator[str]:
    """The manifests that a dependency means which the workspace's root tells; without a name, what that replaces."""
    folder = parent(path)
    for above in (*upwards(folder), *([joined(folder, root)] if root else ())):
        table = _parsed(joined(above, MANIFEST), tree)
        if name:
            found = [one for one in _paths(_table(table, "workspace", "dependencies")) if one.name == name]
        else:
            found = list(_replaced(table)) if above != folder else []
            for file in _CONFIGURATION:
                table = _parsed(joined(above, file), tree)
                overrides = table.get("paths")
                found += (
                    [_Path("", one, 0) for one in overrides if isinstance(one, str)] if isinstance(overrides, list) else []
                )
                found += _replaced(table)
        for one in found:
            yield joined(above, one.path, MANIFEST)


def _parsed(path: str, tree: Tree) -> toml.Table:
    """A file above, empty where it is none or no TOML: with a file that Cargo can't read nothing is built."""
    for file in tree.at(path):
        content = tree.read([file])[file] if tree.is_file(file) else None
        if content is not None:
            return _table_of(content)
    return toml.Table("implied")


@lru_cache(maxsize=64)
def _table_of(content: bytes) -> toml.Table:
    try:
        return toml.read(content)
    except toml.TomlFault:
        return toml.Table("implied")

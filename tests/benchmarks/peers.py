"""Other tools that decide which packages a branch touches, for the benchmarks: what they need, and how they are asked.

They are looked for in a folder that is made by

    npm install --prefix DIR nx turbo @moonrepo/cli lage
    python -m venv DIR/venv && DIR/venv/bin/pip install pre-commit doit

(doit there is doit without touchgate: its own start.) turbo and moon are called as the native programs that their npm
packages bring, without the node script in front of them, which would cost them some 40 ms more.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

from timing import Contender

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ENVIRON = {"DO_NOT_TRACK": "1", "TURBO_TELEMETRY_DISABLED": "1", "NX_TUI": "false", "MOON_TELEMETRY": "false"}
"""No tool calls home while it is timed."""

_WANTED = (
    ("nx", "npm package nx", ".bin/nx"),
    ("turbo", "npm package turbo", "@turbo/*/bin/turbo"),
    ("moon", "npm package @moonrepo/cli", "@moonrepo/core-*/moon"),
    ("lage", "npm package lage", ".bin/lage"),
)


def workspace(packages: Mapping[str, str], filters: Mapping[str, list[str]]) -> dict[str, str]:
    """The files that make a repository a workspace of all of them.

    packages: name -> folder. filters: the name of a package -> its patterns, for pre-commit's hooks.
    """
    root = {"name": "root", "version": "1.0.0", "private": True, "packageManager": "npm@10.8.0", "workspaces": ["packages/*"]}
    locked: dict[str, object] = {"": {"name": "root", "version": "1.0.0", "workspaces": ["packages/*"]}}
    files = {
        ".gitignore": "/node_modules\n/.nx/\n/.turbo/\n/.moon/cache/\n",
        ".moon/workspace.yml": "projects:\n  - 'packages/*'\nvcs:\n  defaultBranch: main\n",
        "lage.config.js": "module.exports = { pipeline: { test: [] } };\n",
        "nx.json": json.dumps({"defaultBase": "main", "analytics": False}) + "\n",
        "turbo.json": json.dumps({"tasks": {"test": {}}}) + "\n",
        "package.json": json.dumps(root, indent=2) + "\n",
    }
    for name, folder in packages.items():
        files[f"{folder}/package.json"] = json.dumps({"name": name, "version": "1.0.0", "scripts": {"test": "true"}}) + "\n"
        files[f"{folder}/moon.yml"] = "tasks:\n  test:\n    command: 'true'\n"
        locked[f"node_modules/{name}"] = {"resolved": folder, "link": True}
        locked[folder] = {"version": "1.0.0"}
    lock = {"name": "root", "version": "1.0.0", "lockfileVersion": 3, "requires": True, "packages": locked}
    files["package-lock.json"] = json.dumps(lock, indent=2) + "\n"
    files[".pre-commit-config.yaml"] = _hooks(filters)
    return files


def _hooks(filters: Mapping[str, list[str]]) -> str:
    """A hook for every list of patterns, each with the equivalent regular expressions."""
    hooks = []
    for name, patterns in filters.items():
        taken = [_regex(pattern) for pattern in patterns if not pattern.startswith("!")]
        left = [_regex(pattern[1:]) for pattern in patterns if pattern.startswith("!")]
        hook = {"id": name, "name": name, "entry": "true", "language": "system", "files": f"^({'|'.join(taken)})$"}
        hooks.append({**hook, "exclude": f"^({'|'.join(left)})$"})
    return json.dumps({"repos": [{"repo": "local", "hooks": hooks}]}, indent=1) + "\n"


def _regex(pattern: str) -> str:
    """A pattern of the lanes (`**`, `*` and classes only, negatives last) as a regular expression."""
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", ".": r"\."}
    return re.sub(r"\*\*/|\*\*|\*|\.", lambda found: words[found[0]], pattern)


def contenders(folder: Path, place: Path | None, base: str, head: str) -> tuple[list[Contender], list[str]]:
    """How each is asked in the checkout `folder`, with `head` checked out; and the lines of those that `place` lacks."""
    found: dict[str, str] = {}
    lacking = []
    for name, package, pattern in _WANTED:
        there = sorted((place / "node_modules").glob(pattern)) if place else []
        found |= {name: str(there[0])} if there else {}
        lacking += [] if there else [f"unmeasured: {name} ({package})"]
    hooks = place / "venv/bin/pre-commit" if place else None
    if hooks is None or not hooks.exists():
        lacking.append("unmeasured: pre-commit (Python package pre-commit)")
    else:
        found["pre-commit"] = str(hooks)
    shas = {"TURBO_SCM_BASE": base, "TURBO_SCM_HEAD": head, "MOON_BASE": base, "MOON_HEAD": head}
    nx = ("show", "projects", "--affected", f"--base={base}", f"--head={head}")
    asked: list[tuple[str, str, tuple[str, ...], dict[str, str], str]] = [
        ("moon query projects --affected", "moon", ("query", "projects", "--affected"), shas, r'"id": "(p\d\d)"'),
        ("moon ci", "moon", ("ci", "--base", base, "--head", head), {}, r"(?s)Resolved targets:.*?(p\d\d):test"),
        ("turbo ls --affected", "turbo", ("ls", "--affected"), shas, r"(?m)^ +(p\d\d) "),
        ("nx show projects --affected, warm daemon", "nx", nx, {"NX_DAEMON": "true"}, r"(?m)^(p\d\d)$"),
        ("nx show projects --affected, no daemon", "nx", nx, {"NX_DAEMON": "false"}, r"(?m)^(p\d\d)$"),
        ("lage affected", "lage", ("affected", "--since", base), {}, r"(?m)^(p\d\d)$"),
        (
            "pre-commit run, 55 hooks",
            "pre-commit",
            ("run", "--color=never", "--from-ref", base, "--to-ref", head),
            {},
            r"(?m)^(p\d\d)\.+(?!.*Skipped)",
        ),
    ]
    made = [
        Contender(name, (found[tool], *arguments), folder, environ, selects)
        for name, tool, arguments, environ, selects in asked
        if tool in found
    ]
    return made, lacking


def installed(folder: Path, place: Path | None) -> None:
    """Make the node packages of `place` those of the checkout `folder`: nx asks for its own there."""
    if place is not None and (place / "node_modules").exists() and not (folder / "node_modules").is_symlink():
        (folder / "node_modules").symlink_to((place / "node_modules").resolve())


def stopped(folder: Path, place: Path | None, environ: Mapping[str, str]) -> None:
    """End the daemon that nx left behind."""
    nx = place / "node_modules/.bin/nx" if place else None
    if nx is not None and nx.exists():
        subprocess.run(
            [str(nx), "daemon", "--stop"],
            cwd=folder,
            env={**environ, "NX_DAEMON": "true"},
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

"""Where the repository is that a folder lies in."""

from __future__ import annotations

import os
import re

from touchgate.gate import process
from touchgate.gate.process import GitFault, environment
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = re.compile(rb"ref: *refs/\S+\s*|(?:[0-9a-f]{40}|[0-9a-f]{64})\s*")


def find_root(start: Path) -> Path | None:
    """The top folder of the checkout that `start` lies in, or None. Asks git only where no `.git` is found."""
    top = find_top(start)
    return None if top is None else path_of(top)


def find_top(start: str | Path) -> str | None:
    """`find_root`, as text."""
    folder = start = os.path.realpath(start)
    while True:
        if _is_git(os.path.join(folder, ".git")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    try:
        answer = process.run(start, environment(os.environ), "rev-parse", "--show-toplevel")
    except GitFault:
        return None
    return os.fsdecode(answer[:-1]) if len(answer) > 1 else None


def find_bare(start: str | Path) -> str | None:
    """The bare repository that `start` lies in, or None."""
    folder = os.path.realpath(start)
    while not _is_bare(folder):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return folder


def _is_bare(folder: str) -> bool:
    try:
        return _is_git_dir(folder)
    except (OSError, ValueError):
        return False


def path_of(text: str) -> Path:
    """The path, where one is needed."""
    from pathlib import Path  # noqa: PLC0415 (slow to import)

    return Path(text)


def _is_git(dot_git: str) -> bool:
    """Whether git would take this for a repository, or for a file that names one: a HEAD, objects and refs."""
    try:
        if os.path.isfile(dot_git):
            text = content_of(dot_git)
            folder = os.path.join(os.path.dirname(dot_git), os.fsdecode(text[8:].rstrip(b"\r\n")))
            return text.startswith(b"gitdir: ") and _is_git_dir(folder)
        return _is_git_dir(dot_git)
    except (OSError, ValueError):
        return False


def _is_git_dir(folder: str) -> bool:
    head = os.path.join(folder, "HEAD")
    if os.path.islink(head):
        if not os.readlink(head).startswith("refs/"):
            return False
    elif not os.path.isfile(head) or not _HEAD.fullmatch(content_of(head)):
        return False
    common = folder
    if os.path.isfile(os.path.join(folder, "commondir")):
        common = os.path.join(folder, os.fsdecode(content_of(os.path.join(folder, "commondir"))).rstrip("\r\n"))
    return os.path.isdir(os.path.join(common, "objects")) and os.path.isdir(os.path.join(common, "refs"))


def content_of(file: str) -> bytes:
    """All that a small file holds."""
    with open(file, "rb") as opened:
        return opened.read()

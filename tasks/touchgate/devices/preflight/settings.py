"""The host's own settings: a small YAML file that whoever runs the host writes."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.gate import located
from touchgate.gate.located import DeclarationError, Mapping_, Problem, Scalar
from touchgate.gate.model import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from touchgate.gate.located import Node

FILE = Path("/etc/touchgate/host.yml")
VARIABLE = "TOUCHGATE_HOST_SETTINGS"
LARGEST = 64 * 1024
LONGEST = 600.0
"""Seconds that a limit may be."""
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_KEYS = ("unknown", "command", "command_timeout", "free_memory", "ignore", "timeout")


@dataclass(frozen=True)
class Settings:
    """What a host wants of a preflight. free_memory: bytes on each GPU. ignore: names of programs that don't count.

    timeout: seconds that the driver may take to answer. command: the host's own, with command_timeout seconds to end.
    """

    unknown_is_fit: bool = False
    command: tuple[str, ...] = ()
    command_timeout: float = 60.0
    free_memory: int | None = None
    ignore: frozenset[str] = frozenset()
    timeout: float = 30.0
    file: str = ""


def host_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """The file that TOUCHGATE_HOST_SETTINGS names, else /etc/touchgate/host.yml, else nothing set.

    Raises `Refusal` (exit 3): it can't be read, holds a mistake, or names a command though others could write to it.
    """
    chosen = environ.get(VARIABLE)
    path = Path(chosen).absolute() if chosen else FILE
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        if chosen:
            raise Refusal(f"{VARIABLE} names {path}, which is not there") from None
        return Settings()
    except OSError as fault:
        raise Refusal(f"the host's settings {path} can't be read: {fault.strerror}") from fault
    if len(content) > LARGEST:
        raise Refusal(f"the host's settings {path} are longer than {LARGEST} bytes")
    settings = parse(content, str(path))
    if settings.command:
        for trusted in (path, Path(settings.command[0])):
            fault_text = writable_by_others(trusted)
            if fault_text:
                raise Refusal(f"{path} names a preflight command, but {fault_text}; take that right away")
    return settings


def parse(content: bytes, file: str) -> Settings:
    """The settings in a file's content. Raises `DeclarationError` with every mistake and its place."""
    document = located.read(content, file)
    problems = list(document.problems)
    found: dict[str, object] = {}
    root = document.root
    if root is not None and not located.is_empty(root):
        section = _section(root, "the file", ("preflight",), problems).get("preflight")
        if section is not None:
            entries = _section(section, "'preflight'", _KEYS, problems)
            found = {key: _READERS[key](node, key, problems) for key, node in entries.items()}
    if problems:
        raise DeclarationError(problems, {file: content})
    values = {key: value for key, value in found.items() if key != "unknown"}
    return Settings(unknown_is_fit=found.get("unknown") == "fit", file=file, **values)  # type: ignore[arg-type]


def _section(node: Node, what: str, known: tuple[str, ...], problems: list[Problem]) -> Mapping[str, Node]:
    if not isinstance(node, Mapping_):
        problems.append(Problem(node.at, f"{what} must be a mapping, not {located.kind_of(node)}"))
        return {}
    for name, key in node.keys.items():
        if name not in known:
            hint = located.did_you_mean(name, known) or f"known: {', '.join(known)}"
            problems.append(Problem(key.at, f"unknown key '{name}' in {what}", hint))
    return {name: entry for name, entry in node.entries.items() if name in known}


def _unknown(node: Node, key: str, problems: list[Problem]) -> str | None:
    text = located.text(node, f"'{key}'", problems)
    if text is not None and text not in ("fit", "unfit"):
        problems.append(Problem(node.at, f"'{key}' is fit or unfit, not {text}"))
    return text


def _words(node: Node, key: str, problems: list[Problem]) -> tuple[str, ...]:
    if not isinstance(node, located.Sequence):
        problems.append(Problem(node.at, f"'{key}' is a list, not {located.kind_of(node)}"))
        return ()
    return tuple(text for item in node.items if (text := located.text(item, f"an entry of '{key}'", problems)) is not None)


def _command(node: Node, key: str, problems: list[Problem]) -> tuple[str, ...]:
    before = len(problems)
    words = _words(node, key, problems)
    if len(problems) == before and not (words and words[0].startswith("/")):
        problems.append(Problem(node.at, f"'{key}' begins with the program's whole path", "command: [/usr/local/bin/fit]"))
    return words


def _ignore(node: Node, key: str, problems: list[Problem]) -> frozenset[str]:
    return frozenset(_words(node, key, problems))


def _seconds(node: Node, key: str, problems: list[Problem]) -> float | None:
    return located.number(node, f"'{key}' (seconds)", problems, largest=LONGEST)


def _size(node: Node, key: str, problems: list[Problem]) -> int | None:
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?) ?([KMGT]iB)", node.text) if isinstance(node, Scalar) else None
    if found is None or float(found[1]) == 0:
        problems.append(Problem(node.at, f"'{key}' is a size with its unit, above 0", "such as 2 GiB or 512 MiB"))
        return None
    return int(float(found[1]) * _UNITS[found[2]])


_READERS = {
    "unknown": _unknown,
    "command": _command,
    "command_timeout": _seconds,
    "free_memory": _size,
    "ignore": _ignore,
    "timeout": _seconds,
}
assert tuple(_READERS) == _KEYS  # noqa: S101 - each key has its reader


def writable_by_others(path: Path) -> str | None:
    """Who else than root and this user could write to `path` or turn it elsewhere, in words; None: nobody."""
    for place in dict.fromkeys((path, *path.parents, *(real := path.resolve()).parents, real)):
        try:
            seen = place.lstat()
        except OSError as fault:
            return f"{place} can't be looked at ({fault.strerror})"
        if seen.st_uid not in (0, os.geteuid()):
            return f"{place} belongs to another user (uid {seen.st_uid})"
        # A sticky folder's entries are their owners' alone; a link's mode means nothing.
        guarded = stat.S_ISLNK(seen.st_mode) or (stat.S_ISDIR(seen.st_mode) and seen.st_mode & stat.S_ISVTX)
        if seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not guarded:
            return f"{place} can be written by others (mode {stat.S_IMODE(seen.st_mode):04o})"
    return None

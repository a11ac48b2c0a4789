"""Which hosts there are and how each is reached: a small YAML file of whoever runs them. See docs/pair.md."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.gate import located
from touchgate.gate.located import DeclarationError, Mapping_, Problem
from touchgate.gate.model import Refusal
from touchgate.leases.ssh import VARIABLE, hosts_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from touchgate.gate.located import Node

LARGEST = 256 * 1024
MOST = 99
"""Hosts, so that a request's number can name its host by two digits."""
_TOP, _HOST = ("hosts", "local", "ssh_config"), ("ssh", "touchgate", "lease_dir")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True)
class FarHost:
    """A host. ssh: the destination as ssh takes it. touchgate: the program there. lease_dir: its lease folder, "" its own."""

    name: str
    ssh: str
    touchgate: str = "touchgate"
    lease_dir: str = ""


@dataclass(frozen=True)
class Hosts:
    """The file. hosts: by name, in the order of names, whatever their order in the file. local: this host, "" none of them."""

    file: str
    hosts: tuple[FarHost, ...]
    local: str = ""
    ssh_config: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """In the order in which they are taken."""
        return tuple(host.name for host in self.hosts)

    def named(self, name: str) -> FarHost:
        """One of them."""
        return next(host for host in self.hosts if host.name == name)

    def folder_of(self, name: str) -> str:
        """The lease folder that the file names for a host, "" where it names none, or not that host."""
        return next((host.lease_dir for host in self.hosts if host.name == name), "")


def hosts_settings(environ: Mapping[str, str] = os.environ) -> Hosts | None:
    """The settings, None where there is no file or it names no host.

    Raises `Refusal` (exit 3): it can't be read, or holds a mistake.
    """
    path = hosts_file(environ)
    if path is None:
        return None
    named = environ.get(VARIABLE)
    if named and not Path(named).is_absolute():
        raise Refusal(
            f"{VARIABLE} is '{named}', which is another file wherever a run is started; name the whole path, such as {path}"
        )
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise Refusal(
            f"{VARIABLE} names {path}, which is not there; name the file of hosts, or unset it: then leases are of this host"
        ) from None
    except OSError as fault:
        raise Refusal(
            f"the hosts' settings {path} can't be read: {fault.strerror}; let this user read them, or name another file "
            f"by {VARIABLE}"
        ) from fault
    if len(content) > LARGEST:
        raise Refusal(f"the hosts' settings {path} are longer than {LARGEST} bytes, and at most {MOST} hosts stand in them")
    found = parse(content, str(path), environ.get("TOUCHGATE_HOST") or "", socket.gethostname())
    return found if found.hosts else None


def parse(content: bytes, file: str, said: str = "", hostname: str = "") -> Hosts:
    """The settings in a file's content. Raises `DeclarationError` with every mistake and its place.

    Which host is this one: the one that `said` (TOUCHGATE_HOST) names, else `local:` of the file, else the one that is
    called as the system is, with or without its domain.
    """
    document = located.read(content, file)
    problems = list(document.problems)
    top: Mapping[str, Node] = {}
    if document.root is not None and not located.is_empty(document.root):
        top = _section(document.root, "the file", _TOP, problems)
    hosts = _hosts(top["hosts"], problems) if "hosts" in top else []
    local = _text(top, "local", problems)
    names = {host.name for host in hosts}
    if local and local not in names:
        hint = located.did_you_mean(local, names) or f"'hosts' has {', '.join(sorted(names)) or 'none'}"
        problems.append(Problem(top["local"].at, f"'local' names no host of this file: {local}", hint))
    config = _text(top, "ssh_config", problems)
    if config and not config.startswith("/"):
        problems.append(Problem(top["ssh_config"].at, "'ssh_config' is a whole path", "such as /etc/touchgate/ssh_config"))
    if problems:
        raise DeclarationError(problems, {file: content})
    own = local or next((name for name in (hostname, hostname.partition(".")[0]) if name in names), "")
    if said:
        own = said if said in names else ""
    return Hosts(file, tuple(sorted(hosts, key=lambda host: host.name)), own, config)


def _hosts(node: Node, problems: list[Problem]) -> list[FarHost]:
    if not isinstance(node, Mapping_):
        problems.append(
            Problem(node.at, f"'hosts' is a mapping of names, not {located.kind_of(node)}", "hosts: {spark-1: {}}")
        )
        return []
    if len(node.entries) > MOST:
        problems.append(
            Problem(node.at, f"{len(node.entries)} hosts; at most {MOST}", "a fleet's leases are for more: docs/fleet.md")
        )
    found = []
    for name, entry in node.entries.items():
        key = node.keys[name]
        if located.text(key, "a host's name", problems) is not None and not _NAME.fullmatch(name):
            problems.append(Problem(key.at, f"'{name}' is no name of a host", "letters, digits, '.', '_' and '-'"))
        values: Mapping[str, Node] = {} if located.is_empty(entry) else _section(entry, f"host '{name}'", _HOST, problems)
        ssh = _text(values, "ssh", problems) or name
        if ssh.startswith("-") or any(char.isspace() for char in ssh):
            problems.append(
                Problem(values["ssh"].at, "'ssh' is a destination as ssh takes it", "user@host, or ssh://user@host:22")
            )
        folder = _text(values, "lease_dir", problems)
        if folder and not folder.startswith("/"):
            problems.append(
                Problem(values["lease_dir"].at, "'lease_dir' is a whole path", "such as /var/lib/touchgate/leases")
            )
        found.append(FarHost(name, ssh, _text(values, "touchgate", problems) or "touchgate", folder))
    return found


def _text(entries: Mapping[str, Node], key: str, problems: list[Problem]) -> str:
    node = entries.get(key)
    return "" if node is None else (located.text(node, f"'{key}'", problems) or "")


def _section(node: Node, what: str, known: tuple[str, ...], problems: list[Problem]) -> Mapping[str, Node]:
    if not isinstance(node, Mapping_):
        problems.append(Problem(node.at, f"{what} must be a mapping, not {located.kind_of(node)}"))
        return {}
    for name, key in node.keys.items():
        if name not in known:
            hint = located.did_you_mean(name, known) or f"known: {', '.join(known)}"
            problems.append(Problem(key.at, f"unknown key '{name}' in {what}", hint))
    return {name: entry for name, entry in node.entries.items() if name in known}

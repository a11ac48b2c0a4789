"""Which engine keeps the leases, by the settings. A choice of values; what it chooses is imported when it is made."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from touchgate.leases.engine import LeaseMistake

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from touchgate.leases.directory import LeaseDirectory
    from touchgate.leases.engine import Engine
    from touchgate.leases.ssh.settings import Hosts

POSTGRES = "TOUCHGATE_POSTGRES"
HOST = "TOUCHGATE_HOST"


@dataclass(frozen=True)
class Chosen:
    """kind: "files", "ssh" or "postgres". target: the connection string of a database. host: this host's name.

    hosts: of kind "ssh", the settings.
    """

    kind: str
    target: str
    host: str
    hosts: Hosts | None = field(default=None, repr=False)


def chosen(environ: Mapping[str, str]) -> Chosen:
    """The engine that the settings name: TOUCHGATE_POSTGRES, else a file of hosts, else files on this host.

    Raises `LeaseMistake` where the file of hosts holds one.

    >>> chosen({"TOUCHGATE_POSTGRES": "service=leases", "TOUCHGATE_HOST": "spark-1"})
    Chosen(kind='postgres', target='service=leases', host='spark-1')
    """
    host = environ.get(HOST) or socket.gethostname()
    if environ.get(POSTGRES):
        return Chosen("postgres", environ[POSTGRES], host)
    hosts = _hosts(environ)
    if hosts is not None:
        return Chosen("ssh", hosts.file, hosts.local or host, hosts)
    return Chosen("files", "", host)


def _hosts(environ: Mapping[str, str]) -> Hosts | None:
    from touchgate.leases.ssh import hosts_file  # noqa: PLC0415

    if hosts_file(environ) is None:
        return None
    from touchgate.gate.model import Refusal  # noqa: PLC0415
    from touchgate.leases.ssh.settings import hosts_settings  # noqa: PLC0415

    try:
        return hosts_settings(environ)
    except Refusal as fault:
        raise LeaseMistake(str(fault)) from None


def directory(environ: Mapping[str, str], choice: Chosen) -> LeaseDirectory:
    """The folder of this host's leases: as ever, but that a file of hosts may name it where TOUCHGATE_LEASE_DIR does not."""
    from touchgate.leases.directory import lease_directory  # noqa: PLC0415

    own = "" if choice.hosts is None else choice.hosts.folder_of(choice.host)
    if not own or environ.get("TOUCHGATE_LEASE_DIR"):
        return lease_directory(environ)
    return replace(lease_directory({**environ, "TOUCHGATE_LEASE_DIR": own}), why=f"'lease_dir' in {choice.target}")


def engine(environ: Mapping[str, str] = os.environ, gpus: Sequence[str] = ()) -> Engine:
    """The engine. gpus: UUIDs of all GPUs of this host, as far as known. Raises `LeaseRefused` where it can't be used."""
    choice = chosen(environ)
    from touchgate.leases.files import FilesEngine  # noqa: PLC0415

    files = FilesEngine(directory(environ, choice), host=choice.host, gpus=tuple(gpus))
    if choice.kind == "postgres":
        from touchgate.leases.postgres import PostgresEngine  # noqa: PLC0415  needs psycopg

        # The host's own lease lies beneath: it keeps apart who lost the database, and who never asked it.
        return PostgresEngine(choice.target, host=choice.host, gpus=tuple(gpus), below=files.below)
    if choice.hosts is not None:
        from touchgate.leases.ssh.engine import SshEngine  # noqa: PLC0415

        return SshEngine(choice.hosts, files, choice.host)
    return files

"""Which engine keeps the leases, by the settings. A choice of values; what it chooses is imported when it is made."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from touchgate.leases.engine import Engine

POSTGRES = "TOUCHGATE_POSTGRES"
HOST = "TOUCHGATE_HOST"


@dataclass(frozen=True)
class Chosen:
    """kind: "files" or "postgres". target: the connection string of a database. host: this host's name."""

    kind: str
    target: str
    host: str


def chosen(environ: Mapping[str, str]) -> Chosen:
    """The engine that the settings name: TOUCHGATE_POSTGRES, else files on this host.

    >>> chosen({"TOUCHGATE_POSTGRES": "service=leases", "TOUCHGATE_HOST": "spark-1"})
    Chosen(kind='postgres', target='service=leases', host='spark-1')
    """
    host = environ.get(HOST) or socket.gethostname()
    if environ.get(POSTGRES):
        return Chosen("postgres", environ[POSTGRES], host)
    return Chosen("files", "", host)


def engine(environ: Mapping[str, str] = os.environ, gpus: Sequence[str] = ()) -> Engine:
    """The engine. gpus: UUIDs of all GPUs of this host, as far as known. Raises `LeaseRefused` where it can't be used."""
    choice = chosen(environ)
    from touchgate.leases.directory import lease_directory  # noqa: PLC0415
    from touchgate.leases.files import FilesEngine  # noqa: PLC0415

    files = FilesEngine(lease_directory(environ), host=choice.host, gpus=tuple(gpus))
    if choice.kind == "postgres":
        from touchgate.leases.postgres import PostgresEngine  # noqa: PLC0415  needs psycopg

        # The host's own lease lies beneath: it keeps apart who lost the database, and who never asked it.
        return PostgresEngine(choice.target, host=choice.host, gpus=tuple(gpus), below=files.below)
    return files

"""A real PostgreSQL of the machine's own binaries, in a temporary folder: unix socket and loopback, fsync on."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


def binaries() -> Path | None:
    """The folder of initdb and pg_ctl."""
    said = shutil.which("pg_config")
    found = []
    if said:
        done = subprocess.run([said, "--bindir"], capture_output=True, text=True, check=False)
        found.append(Path(done.stdout.strip() or "/nowhere"))
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found += [Path("/opt/homebrew/bin"), Path("/usr/local/bin"), Path("/usr/bin")]
    return next((one for one in found if (one / "initdb").exists() and (one / "pg_ctl").exists()), None)


def required() -> None:
    """Skip, by name, what this machine lacks."""
    pytest.importorskip("psycopg", reason="the package psycopg is not installed", exc_type=ImportError)
    if binaries() is None:
        pytest.skip("the package postgresql is not installed")
    if os.geteuid() == 0 and not unprivileged():
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")


def unprivileged() -> str | None:
    """Whom the server runs as when we are root."""
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    return None


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


@dataclass
class Server:
    """One cluster. Its superuser is `lease`, by trust."""

    folder: Path
    port: int = 0
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=lease dbname=postgres sslmode=disable gssencmode=disable"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def _run(self, program: str, *arguments: str) -> None:
        there = binaries()
        assert there is not None
        command = [str(there / program), *arguments]
        if os.geteuid() == 0:
            user = unprivileged()
            assert user is not None
            command = ["setpriv", f"--reuid={user}", "--clear-groups", *command]
        # The server keeps its descriptors: a pipe of ours would never end.
        with (self.folder / f"{program}.out").open("ab") as out:
            done = subprocess.run(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd="/", check=False)
        if done.returncode:
            logs = [path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.out")]
            raise RuntimeError(f"{command} ended with {done.returncode}\n" + "\n".join(logs))

    def make(self) -> None:
        self.folder.chmod(0o755)
        self.data.mkdir()
        if os.geteuid() == 0:
            shutil.chown(self.data, unprivileged())
            shutil.chown(self.folder, unprivileged())
        self._run("initdb", "-D", str(self.data), "-U", "lease", "-A", "trust", "--no-sync", "-E", "UTF8", "--no-locale")
        self.port = free_port()
        with (self.data / "postgresql.conf").open("a") as out:
            out.write(f"\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{self.folder}'\nport = {self.port}\n")
            out.write("max_connections = 300\nshared_buffers = 16MB\nfsync = on\nautovacuum = on\n")
            # After a crash every file is synced, one by one, unless the kernel may do it at once.
            if os.uname().sysname == "Linux" and int((self.data / "PG_VERSION").read_text()) >= 14:
                out.write("recovery_init_sync_method = syncfs\n")
            out.writelines(f"{name} = {value}\n" for name, value in self.settings.items())

    def start(self) -> None:
        self._run("pg_ctl", "-D", str(self.data), "-w", "-t", "60", "-l", str(self.folder / "server.out"), "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", str(self.data), "-w", "-t", "60", "-m", mode, "stop")

    def restart(self, mode: str = "fast", away: float = 0) -> None:
        self.stop(mode)
        time.sleep(away)
        self.start()

    def database(self, name: str) -> str:
        """A fresh database; its connection string."""
        import psycopg

        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.dsn.replace("dbname=postgres", f"dbname={name}")


def served() -> Iterator[Server]:
    """A server that runs while a fixture needs it. Not in pytest's folder, which only its owner may enter."""
    required()
    with tempfile.TemporaryDirectory(prefix="touchgate-postgres-") as folder:
        made = Server(Path(folder))
        made.make()
        made.start()
        try:
            yield made
        finally:
            if (made.data / "postmaster.pid").exists():
                made.stop("immediate")

"""A real sshd on loopback, with keys and settings of its own, as the current user: several "hosts", one machine."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from touchgate.leases import process
from touchgate.leases.files import FilesEngine, LeaseDirectory
from touchgate.leases.ssh.engine import SshEngine
from touchgate.leases.ssh.settings import Hosts, parse

SOURCES = str(Path(process.__file__).resolve().parents[2])
PATIENCE = 60.0


def sshd() -> str | None:
    """The program: it must be called by its whole path."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin:/sbin")
    return str(Path(found).resolve()) if found else None


def required() -> None:
    """Skip, by name, what this machine lacks."""
    for program, package in (("ssh", "openssh-client"), ("ssh-keygen", "openssh-client")):
        if shutil.which(program) is None:
            pytest.skip(f"the package {package} is not installed")
    if sshd() is None:
        pytest.skip("the package openssh-server is not installed")


@dataclass
class Server:
    """One sshd. Everybody who has its key is let in; `command` is what each connection runs in place of what it asks for."""

    folder: Path
    port: int = 0
    started: list[subprocess.Popen] = field(default_factory=list)

    def start(self) -> None:
        self.folder.mkdir(parents=True)
        for name in ("host_key", "key", "other_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)], check=True)
        (self.folder / "authorized_keys").write_text((self.folder / "key.pub").read_text())
        self.serve()
        self.know()
        fault = logged_in(self)
        if fault:
            self.stop()
            pytest.skip(f"nobody can log in to the sshd of the package openssh-server here: {fault}")

    def serve(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        for _ in range(20):
            with socket.socket() as made:
                made.bind(("127.0.0.1", 0))
                self.port = self.port or made.getsockname()[1]
            (self.folder / "sshd_config").write_text(
                f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host_key\nPidFile none\nUsePAM no\n"
                f"AuthorizedKeysFile {self.folder}/authorized_keys\nStrictModes no\nPasswordAuthentication no\n"
                "KbdInteractiveAuthentication no\nPermitRootLogin yes\nMaxStartups 200\nMaxSessions 200\n"
                f"SetEnv PYTHONPATH={SOURCES} PYTHONDONTWRITEBYTECODE=1\nPrintMotd no\nLogLevel ERROR\n"
            )
            with (self.folder / "log").open("ab") as log:
                run = subprocess.Popen(
                    [sshd(), "-D", "-e", "-f", str(self.folder / "sshd_config")],
                    stdin=subprocess.DEVNULL,
                    stderr=log,
                    start_new_session=True,
                )
            end = time.monotonic() + PATIENCE
            while run.poll() is None and time.monotonic() < end:
                with socket.socket() as tried:
                    if tried.connect_ex(("127.0.0.1", self.port)) == 0:
                        self.started.append(run)
                        return
                time.sleep(0.02)
            run.kill()
            run.wait()
            self.port = 0
        pytest.skip(f"sshd does not start here: {(self.folder / 'log').read_text()[-300:]}")

    def know(self) -> None:
        """Let the clients know the host key, as a person does who compared it."""
        key = (self.folder / "host_key.pub").read_text()
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {key}")

    def config(self, name: str = "ssh_config", **changed: str) -> Path:
        """Settings for ssh, which reaches every name here."""
        options = {
            "HostName": "127.0.0.1",
            "Port": str(self.port),
            "User": getpass.getuser(),
            "IdentityFile": f"{self.folder}/key",
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": f"{self.folder}/known_hosts",
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
        } | changed
        path = self.folder / name
        path.write_text("Host *\n" + "".join(f"  {key} {value}\n" for key, value in options.items()))
        return path

    def program(self, name: str = "touchgate", before: str = "", code: str = "") -> Path:
        """A `touchgate` there. before: lines of shell. code: of python, before its main."""
        path = self.folder / name
        run = f"{code}\nimport sys\nfrom touchgate.console import main\nsys.exit(main())"
        path.write_text(f'#!/bin/sh\n{before}\nexec {sys.executable} -c {shlex.quote(run)} "$@"\n')
        path.chmod(0o755)
        return path

    def settings(self, names: str = "ab", local: str = "", config: Path | None = None, **programs: Path | str) -> Hosts:
        """Hosts of these names, each with a lease folder of its own here."""
        path = self.folder / f"hosts-{len(list(self.folder.glob('hosts-*')))}.yml"
        lines = [f"ssh_config: {config or self.config()}", "hosts:"]
        program = self.folder / "touchgate"
        for name in names:
            there = programs.get(name, program if program.exists() else self.program())
            lines.append(f"  {name}: {{touchgate: '{there}', lease_dir: {self.leases(name)}}}")
        path.write_text("\n".join(lines) + (f"\nlocal: {local}" if local else "") + "\n")
        return parse(path.read_bytes(), str(path))

    def leases(self, name: str) -> Path:
        return self.folder / "leases" / name

    def files(self, name: str) -> FilesEngine:
        """The engine of one of the hosts, as a run there has it."""
        return FilesEngine(LeaseDirectory(self.leases(name), shared=False, why="a test"), host=name)

    def engine(self, names: str = "ab", local: str = "", **more) -> SshEngine:
        settings = self.settings(names, local, **more)
        return SshEngine(settings, self.files(local) if local else None)

    def stop(self) -> None:
        for one in self.started:
            one.send_signal(signal.SIGTERM)
            one.wait()


_tried: list[str] = []


def logged_in(server: Server) -> str:
    """Why this user can't log in (a locked account, no shell), "" where that works; tried once."""
    if not _tried:
        done = subprocess.run(
            ["ssh", "-F", str(server.config()), "-o", "BatchMode=yes", "here", "exit 0"],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        _tried.append("" if done.returncode == 0 else done.stderr.strip() or f"it ended with {done.returncode}")
    return _tried[0]


def below(pid: int) -> list[int]:
    """A process's descendants, the nearest first."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    children: dict[int, list[int]] = {}
    for line in listed.splitlines():
        own, parent = map(int, line.split())
        children.setdefault(parent, []).append(own)
    found, new = [], [pid]
    while new:
        new = [child for one in new for child in children.get(one, [])]
        found += new
    return found

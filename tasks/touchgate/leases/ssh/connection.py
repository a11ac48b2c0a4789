"""One connection to `touchgate lease-hold` on another host, by the system's ssh. Its standard input is the life line."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from touchgate import __version__
from touchgate.leases.engine import LeaseCancelled, LeaseRefused
from touchgate.leases.record import printable
from touchgate.leases.ssh import protocol
from touchgate.leases.ssh.protocol import MARK, PROTOCOL, Garbled

if TYPE_CHECKING:
    from collections.abc import Callable

    from touchgate.leases.ssh.settings import FarHost, Hosts

GREETING = 30.0
"""Seconds from the start of ssh to the far side's first line."""
CONNECT = 10
"""Of these for the address to answer (ConnectTimeout)."""
ASK_CANCELLED = 0.25
GIVING_BACK = 2.0
"""Seconds that a close waits for the far side to have given the lease back; a child may keep it for much longer."""
ANSWER_OF_SSH = 5.0
"""Seconds from the end of ssh's output to its own."""
SSH_FAILED, NO_PROGRAM, NOT_EXECUTABLE, OLDER = 255, 127, 126, 3
"""How ssh, the far shell and a touchgate without `lease-hold` end."""

_ended: list[subprocess.Popen[bytes]] = []
"""Those that a child keeps, so that they are waited for by nobody: they are no fault of whoever forgets the connection."""


class Broken(Exception):
    """The connection has ended, or the far side does not answer; in words, which name the host."""


def command(hosts: Hosts, host: FarHost) -> list[str]:
    """The ssh that holds a lease there. What could ask a person, share a connection or forward something is off."""
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": str(CONNECT),
        "ServerAliveInterval": f"{protocol.PULSE:.0f}",
        "ServerAliveCountMax": str(protocol.MISSED),
        "LogLevel": "INFO",
        "ControlMaster": "no",
        "ControlPath": "none",
        "ClearAllForwardings": "yes",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "PermitLocalCommand": "no",
        "RemoteCommand": "none",
    }
    listed = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    config = ["-F", hosts.ssh_config] if hosts.ssh_config else []
    return ["ssh", "-T", *config, *listed, "--", host.ssh, f"{shlex.quote(host.touchgate)} lease-hold"]


class Connection:
    """Started at once; `hello` waits for the far side. Every wait raises `Broken` when the connection ends."""

    def __init__(self, hosts: Hosts, host: FarHost) -> None:
        """Raises `LeaseRefused` where there is no ssh."""
        self.host = host
        self._file = hosts.file
        self._lines = protocol.Lines()
        self._waiting: list[dict[str, Any]] = []
        self._heard = time.monotonic()
        self._seen = 0
        self._over = ""
        self._answered = False
        self.keeps = False
        """Whether it keeps a lease, which children may rely on."""
        self._process = os.getpid()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        source, self.lifeline = os.pipe()
        # Sessions of their own: what a terminal sends to the run does not reach them.
        own: dict[str, Any] = {"start_new_session": True, "close_fds": True}
        self._keeper: subprocess.Popen[bytes] | None = None
        try:
            keeper = str(Path(__file__).with_name("keeper.py"))
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", keeper, str(protocol.PULSE)],
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                **own,
            )
            assert self._keeper.stdout is not None  # noqa: S101 - asked for
            self._ssh = subprocess.Popen(
                command(hosts, host), stdin=self._keeper.stdout, stdout=subprocess.PIPE, stderr=self._errors, **own
            )
        except OSError as fault:
            os.close(self.lifeline)
            self._errors.close()
            raise LeaseRefused(f"{host.name}: ssh can't be started ({fault.strerror}); install openssh-client") from fault
        finally:
            os.close(source)
            if self._keeper is not None and self._keeper.stdout is not None:
                self._keeper.stdout.close()
            if self._keeper is not None and not hasattr(self, "_ssh"):
                self._keeper.wait()
        assert self._ssh.stdout is not None  # noqa: S101 - asked for
        self._out = self._ssh.stdout
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)

    def hello(self, cancelled: Callable[[], bool] | None = None) -> dict[str, Any]:
        """The far side's first line. Raises `LeaseRefused` where there is none, or one of another protocol."""
        name = self.host.name
        try:
            first = self.event(self._heard + GREETING, cancelled)
        except Broken as fault:
            raise LeaseRefused(str(fault)) from None
        if first is None:
            raise LeaseRefused(
                f"{name}: `{self.host.touchgate} lease-hold` by `ssh {self.host.ssh}` said nothing in {GREETING:.0f} s"
            )
        theirs = first[MARK]
        if theirs != PROTOCOL:
            version = printable(protocol.text(first, "version"), 40) or "of an unknown version"
            newer, older = ("there", "here") if theirs > PROTOCOL else ("here", "there")
            raise LeaseRefused(
                f"{name}: touchgate {version} there speaks protocol {theirs} and touchgate {__version__} here {PROTOCOL}; "
                f"the newer one is {newer}, bring the one {older} up to date"
            )
        self._answered = True
        return first

    def send(self, **content: Any) -> None:
        """Say something. That nobody hears it is found by the next `event`."""
        with suppress(BrokenPipeError):
            os.write(self.lifeline, protocol.line(**content))

    def silent(self) -> float:
        """Seconds since the far side was heard of."""
        return time.monotonic() - self._heard

    def event(self, until: float, cancelled: Callable[[], bool] | None = None) -> dict[str, Any] | None:
        """The next line of theirs; None when there was none by `until` (of `time.monotonic`), which may be past.

        Raises `Broken`, and `LeaseCancelled` where the caller says so.
        """
        while not self._waiting:
            if self._over:
                raise Broken(self._over)
            left = until - time.monotonic()
            nap = max(0.0, left if cancelled is None else min(left, ASK_CANCELLED))
            if self._ready(nap):
                self._read()
                continue
            if cancelled is not None and cancelled():
                raise LeaseCancelled("the wait for the lease was cancelled by this run")
            if left <= 0:
                return None
        return self._waiting.pop(0)

    def _ready(self, seconds: float) -> bool:
        return bool(self._poll.poll(seconds * 1000))

    def _read(self) -> None:
        data = os.read(self._out.fileno(), 65536)
        if not data:
            self._over = self._why()
            return
        try:
            for one in self._lines.add(data):
                content = protocol.read(one)
                if content is not None:
                    self._waiting.append(content)
                    self._seen, self._heard = -len(data), time.monotonic()
        except Garbled as fault:
            self._over = f"{self.host.name}: {fault}"
        self._seen += len(data)
        if self._seen > protocol.LONGEST:
            self._over = f"{self.host.name}: more than {protocol.LONGEST} bytes of something else were said"

    def _why(self) -> str:
        """How ssh ended."""
        try:
            code = self._ssh.wait(ANSWER_OF_SSH)
        except subprocess.TimeoutExpired:
            return f"{self.host.name}: ssh closed its output and goes on"
        said = self._last_words()
        host, quoted = self.host, f": {said}" if said else ""
        if code == SSH_FAILED:
            return f"{host.name}: `ssh {host.ssh}` failed{quoted}{_cure(said, host, self._file)}"
        asked = f"`{host.touchgate} lease-hold` by `ssh {host.ssh}`"
        if code in (NO_PROGRAM, NOT_EXECUTABLE):
            cure = f"pip install touchgate there, or name the program with 'touchgate:' in {self._file}"
            return f"{host.name}: {asked} can't be run{quoted}; {cure}"
        if code == OLDER:
            return f"{host.name}: {asked} ended with {code}{quoted}; bring touchgate up to date there"
        how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
        whose = "ssh" if code < 0 else asked
        return f"{host.name}: {whose} {how}{quoted}"

    def _last_words(self) -> str:
        with suppress(OSError, ValueError):
            size = self._errors.seek(0, os.SEEK_END)
            self._errors.seek(max(0, size - 4096))
            lines = self._errors.read().decode("utf-8", "replace").splitlines()
            return next((printable(one.strip(), 300) for one in reversed(lines) if one.strip()), "")
        return ""

    def close(self) -> None:
        """Let go of the life line, which children may keep; wait a moment for the lease to be given back. Again is nothing."""
        lifeline, self.lifeline = self.lifeline, -1
        if lifeline < 0:
            return
        os.close(lifeline)
        ours = os.getpid() == self._process
        if ours:
            end = time.monotonic() + (GIVING_BACK if self._answered else 0)
            # Its output is read to the end: who writes may not be kept from ending.
            while not self._over and (left := end - time.monotonic()) > 0 and self._ready(left):
                self._read()
                self._waiting.clear()
        self._out.close()
        self._errors.close()
        if ours:
            if not self.keeps:
                self._ssh.kill()  # it may never end by itself, and nobody needs it
            started = [one for one in (self._ssh, self._keeper) if one is not None]
            _ended[:] = [one for one in _ended if one.poll() is None]
            _ended.extend([one for one in started if not _reaped(one)])


def _reaped(process: subprocess.Popen[bytes]) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(ASK_CANCELLED)
        return True
    return False


def _cure(said: str, host: FarHost, file: str) -> str:
    """What to do about ssh's last words."""
    cures = {
        "Host key verification failed": f"run `ssh {host.ssh}` once by hand and compare the key",
        "Permission denied": f"a key of this user must be accepted there without a passphrase asked: ssh-copy-id {host.ssh}",
        "Could not resolve hostname": f"name its address with 'ssh:' in {file}",
        "Connection refused": "is sshd running there?",
        "timed out": "is the host up, and the network between?",
    }
    return next((f"; {cure}" for words, cure in cures.items() if words in said), "")

"""`doit lease run -- CMD`: a command of the person's under a lease, as if it had been started without us."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from touchgate.devices import probe
from touchgate.edge import leasing
from touchgate.edge.commands.base import refuse
from touchgate.edge.devices import DeviceChoice
from touchgate.edge.usage import UsageFault
from touchgate.gate.model import DeviceWish
from touchgate.leases.engine import LeaseFault, LeaseUntold
from touchgate.leases.model import Want
from touchgate.reports.model import UNFIT
from touchgate.reports.style import printable
from touchgate.reports.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from touchgate.leases.engine import Grant

NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""As a shell answers."""
FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
PASSED_ON = (*FROM_TERMINAL, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
LONGEST = 120
"""Letters of a command that others see."""
DAY = 1440.0


class Ended(Exception):
    """A signal came before the command was started."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name} before the command was started")
        self.number = number


def number_of(given: Mapping[str, Any], name: str) -> int:
    """A count from the command line, 0 where it was not given. Raises UsageFault."""
    text = str(given.get(name, "0"))
    if name in given and (not text.isdecimal() or int(text) < 1):
        raise UsageFault(f"--{name} {text}: a number above 0")
    return int(text)


def want_of(given: Mapping[str, Any], choice: DeviceChoice, host: str) -> Want:
    """What --gpus and --hosts ask for; neither: this whole host. Raises UsageFault."""
    gpus, hosts = number_of(given, "gpus"), number_of(given, "hosts")
    if gpus and hosts:
        raise UsageFault("--gpus and --hosts: one of the two")
    if gpus:
        if not choice.shown:
            raise UsageFault(f"--gpus {gpus}: {choice.reason}")
        return leasing.want_of([DeviceWish("gpu", gpus)], choice, host)
    return Want(hosts=hosts) if hosts > 1 else Want(hosts=1, names=(host,))


def seen_gpus(environ: Mapping[str, str]) -> DeviceChoice:
    """The host's GPUs, whether or not touchgate could measure on them."""
    seen = probe.look(environ)
    first = seen.shown[0] if seen.shown else None
    return DeviceChoice(first, seen.reason, gpu_only=False, shown=seen.shown, present=seen.present)


def run(command: Sequence[str], given: Mapping[str, Any]) -> int:
    """Take the lease, run the command, give its exit code."""
    environ = os.environ
    host = leasing.this_host(environ)
    choice = seen_gpus(environ)
    wanted = leasing.Wanted(
        want=want_of(given, choice, host),
        what=str(given.get("what") or _shortened(shlex.join(command))),
        seconds=None,
        timeout=_minutes(given) * 60,
        url=leasing.job_url(environ),
    )
    relay = _Relay()
    with relay.installed():
        try:
            return _under_lease(command, wanted, choice, environ, relay)
        except Ended as ended:
            sys.stderr.write(f"{ended}\n")
            return 128 + ended.number


def _under_lease(
    command: Sequence[str], wanted: leasing.Wanted, choice: DeviceChoice, environ: Mapping[str, str], relay: _Relay
) -> int:
    terminal = Terminal(sys.stderr, environ)
    try:
        lease = leasing.take(wanted, choice, environ, terminal, None)
    except leasing.NotFit as finding:
        return refuse(str(finding), code=UNFIT)
    finally:
        terminal.close()
    with lease.grant:
        _note(lease.notes)
        wish = DeviceWish("gpu", wanted.want.gpus) if wanted.want.gpus else DeviceWish("host")
        code = _run(command, {**environ, **lease.environment(wish)}, lease.grant.descriptors, relay)
        _tell_lost(lease.grant)
    _note(leasing.left_behind(lease))
    return code


def _tell_lost(grant: Grant) -> None:
    """A command is not looked at while it runs; whoever reads its numbers must know that it may not have been alone."""
    try:
        grant.check()
    except LeaseUntold:
        return
    except LeaseFault as fault:
        _note([f"{fault}; the command may not have been alone on the host"])


def _note(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stderr.write(f"note: {printable(line)}\n")


def _run(command: Sequence[str], environ: Mapping[str, str], descriptors: Sequence[int], relay: _Relay) -> int:
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    try:
        with relay.starting():
            # In our own process group and session, with every descriptor that the caller handed down: a terminal's Ctrl-C
            # and Ctrl-Z reach it as if it had been started directly.
            process = _start(command, environ)
            relay.child = process.pid
    except OSError as error:
        sys.stderr.write(f"ERROR: {command[0]}: {error.strerror}\n")
        return NOT_FOUND if error.errno == errno.ENOENT else NOT_EXECUTABLE
    status = process.wait()
    relay.over()
    return status if status >= 0 else 128 - status


def _start(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, env=environ, close_fds=False)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        # A script without a first line that names its shell: a shell starts those, too.
        return subprocess.Popen(["/bin/sh", *command], env=environ, close_fds=False)


class _Relay:
    """Hands signals on to the command. Before it is started they end the wait for the lease (`Ended`)."""

    def __init__(self) -> None:
        self.child: int | None = None
        self._kept: list[int] | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Ours in the place of the handlers; a signal that is ignored (nohup) stays so."""
        before = {
            number: signal.signal(number, self._came) for number in PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def starting(self) -> Iterator[None]:
        """What comes while the command is being started reaches it once it is there."""
        self._kept = []
        try:
            yield
        finally:
            kept, self._kept = self._kept, None
            for number in kept:
                self._send(number)

    def over(self) -> None:
        """The command has ended: what comes now changes nothing any more."""
        self._kept = []

    def _came(self, number: int, frame: object) -> None:  # noqa: ARG002  the handler's signature
        if self._kept is not None:
            self._kept.append(number)
        elif self.child is None:
            raise Ended(number)
        elif number not in FROM_TERMINAL or not _in_foreground():
            self._send(number)

    def _send(self, number: int) -> None:
        if self.child is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.child, number)


def _in_foreground() -> bool:
    """Whether a terminal's own keys reach our process group, the command included."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _minutes(given: Mapping[str, Any]) -> float:
    text = str(given.get("timeout", DAY))
    try:
        minutes = float(text)
    except ValueError:
        minutes = -1.0
    if not 0 <= minutes < float("inf"):
        raise UsageFault(f"--timeout {text}: a number of minutes")
    return minutes

"""Starts a program with its three standard streams as pipes, and talks to it until a deadline.

What the gate needs of `subprocess`, by `os.posix_spawn`: importing that module takes longer than the whole of git's
answer. Nothing that this process opened is open in the child; what it was handed for its children is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import time

from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_STANDARD = 3
_CHUNK = 1 << 16
# Python ignores these, and what it ignores a child would ignore too.
_DEFAULT = [getattr(signal, name) for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ") if hasattr(signal, name)]
_programs: dict[tuple[str, str], str] = {}


class TimeUp(Exception):
    """The deadline came before the answer."""


class HeldSignals:
    """Interrupts of this thread, held back while a program is started that has a session of its own and would miss them.

    Else one that comes between its start and whoever ends it leaves it alone in the world. `let_go` is called where it
    would be ended; `in_child`, in the child before it becomes the program, gives back what it would inherit.
    """

    def __enter__(self) -> HeldSignals:  # noqa: PYI034 (typing.Self is not in Python 3.10)
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Let them come; one that is waiting comes here."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    in_child = let_go


class Child:
    """A running program. `stdin`, `stdout`, `stderr` are descriptors of our ends, -1 once closed."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start it. Raises FileNotFoundError where there is no such program, OSError where it can't be started."""
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
            # Whoever started us did not want to wait for us; then nobody could tell how a child of ours ended.
            with contextlib.suppress(ValueError):
                # Only the main thread may; in another, how it ended is trouble like any other.
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        program = _program(command[0], environ.get("PATH", os.defpath))
        ours: list[int] = []
        theirs: list[int] = []
        try:
            for end in range(_STANDARD):
                read, write = map(_above_standard, os.pipe())
                ours.append(read if end else write)
                theirs.append(write if end else read)
            actions = [(os.POSIX_SPAWN_DUP2, descriptor, end) for end, descriptor in enumerate(theirs)]
            self.pid = os.posix_spawn(program, list(command), environ, file_actions=actions, setsigdef=_DEFAULT)
        except BaseException:
            for descriptor in ours:
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        self.stdin, self.stdout, self.stderr = ours
        self._code: int | None = None

    def close(self) -> None:
        """Close our ends of its streams."""
        self.close_stdin()
        for name in ("stdout", "stderr"):
            descriptor = getattr(self, name)
            if descriptor >= 0:
                setattr(self, name, -1)
                os.close(descriptor)

    def close_stdin(self) -> None:
        """Tell it that nothing more comes."""
        descriptor, self.stdin = self.stdin, -1
        if descriptor >= 0:
            os.close(descriptor)

    def kill(self) -> None:
        """End it now."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self, seconds: float | None = None) -> int:
        """Its exit code, or the negative number of the signal that ended it. Raises TimeUp after so many seconds."""
        if self._code is not None:
            return self._code
        deadline = None if seconds is None else time.monotonic() + seconds
        pause = 0.0005
        while True:
            pid, status = os.waitpid(self.pid, 0 if deadline is None else os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
                return self._code
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeUp
            time.sleep(pause)
            pause = min(2 * pause, 0.05)

    def communicate(self, data: bytes, seconds: float) -> tuple[int, bytes, bytes]:
        """Hand it `data`, read all that it says and wait for its end: (exit code, standard output, standard error).

        Raises TimeUp, after ending it, where that takes longer than so many seconds.
        """
        deadline = time.monotonic() + seconds
        said: dict[int, list[bytes]] = {self.stdout: [], self.stderr: []}
        out, err = self.stdout, self.stderr
        poll = select.poll()
        for descriptor in said:
            poll.register(descriptor, select.POLLIN)
        left = memoryview(data)
        if left:
            os.set_blocking(self.stdin, False)
            poll.register(self.stdin, select.POLLOUT)
        else:
            self.close_stdin()
        open_ends = len(said)
        try:
            while open_ends:
                ready = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
                if not ready:
                    raise TimeUp  # noqa: TRY301 (to be ended below, as for any other trouble)
                for descriptor, _ in ready:
                    if descriptor in said:
                        heard = os.read(descriptor, _CHUNK)
                        said[descriptor].append(heard)
                        if not heard:
                            poll.unregister(descriptor)
                            open_ends -= 1
                        continue
                    left = left[self._write(left) :]
                    if not left:
                        poll.unregister(descriptor)
                        self.close_stdin()
            code = self.wait(max(0.0, deadline - time.monotonic()))
        except BaseException:
            self.kill()
            self.wait()
            raise
        finally:
            self.close()
        return code, b"".join(said[out]), b"".join(said[err])

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self.stdin, data[:_CHUNK])
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            # It ended early, and says why itself.
            return len(data)


def _program(name: str, path: str) -> str:
    """Where a program lies on a search path. Raises FileNotFoundError."""
    if "/" in name:
        return name
    found = _programs.get((name, path))
    if found is None:
        for folder in path.split(os.pathsep):
            found = os.path.join(folder or ".", name)
            if os.access(found, os.X_OK) and not os.path.isdir(found):
                break
        else:
            raise FileNotFoundError(2, "No such program", name)
        _programs[name, path] = found
    return found


def _above_standard(descriptor: int) -> int:
    """The descriptor, moved where it is one of the standard three, which were closed: the child gets others there."""
    if descriptor >= _STANDARD:
        return descriptor
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STANDARD)
    os.close(descriptor)
    return moved

"""The only module that runs git: how it is started, what it may see, and how its trouble is told.

Every git gets the same scrubbed environment and the same overrides of the user's configuration. Trouble is a `GitFault`.
"""

from __future__ import annotations

import os
import re
import select
import time

from touchgate.gate.child import Child, HeldSignals, TimeUp
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import NoReturn

TIME_LIMIT = 300.0
"""Seconds after which a silent git process is given up: a lazy fetch from a hung remote must not hang the gate."""

# Of the GIT_* variables only these are handed on: how to reach a remote, and where a person keeps the configuration.
# Everything that a hook or an alias sets (GIT_DIR, GIT_INDEX_FILE, GIT_PREFIX, GIT_CONFIG_PARAMETERS...) is not.
_KEPT = (
    r"GIT_(SSH|SSH_COMMAND|SSH_VARIANT|ASKPASS|PROXY_COMMAND|SSL_\w+|HTTP_\w+"
    r"|CONFIG_(GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+))"
)
_SET = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # History as it was written: replacements and grafts change what a merge base is.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_LITERAL_PATHSPECS": "1",
}
_OVERRIDES = (
    "advice.graftFileDeprecated=false",
    "color.ui=false",
    "core.checkStat=default",
    "core.fsmonitor=false",
    # A person's own ignored files would be ignored here only; the repository's own lists stay.
    f"core.excludesFile={os.devnull}",
    f"core.hooksPath={os.devnull}",
    # Where git believes that names fold, an untracked A beside a tracked a is not seen.
    "core.ignoreCase=false",
    "core.ignoreStat=false",
    "core.quotePath=false",
    "core.trustctime=true",
    "core.untrackedCache=false",
    "diff.ignoreSubmodules=none",
    f"diff.orderFile={os.devnull}",
    "diff.relative=false",
    "diff.renames=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "status.relativePaths=false",
    "status.renames=false",
    "status.showUntrackedFiles=all",
    "submodule.recurse=false",
)
_INTERRUPT = 2
"""SIGINT, by its number everywhere."""
_PREFIX = tuple(word for setting in _OVERRIDES for word in ("-c", setting))


class GitFault(Exception):
    """Git can't answer: what is wrong and the cure, one line."""


class Stopped(GitFault):
    """A git that was ended before its own end. over: its whole time was up; else it was silent. said: what it had told."""

    def __init__(self, text: str, said: str, *, over: bool) -> None:
        super().__init__(text)
        self.said = said
        self.over = over


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for git: without the GIT_* variables that would point it elsewhere, with fixed answers."""
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_") or re.fullmatch(_KEPT, name)}
    return {**kept, **_SET}


def command(root: str | Path, *arguments: str) -> list[str]:
    """The command line of a git that works in the folder `root`."""
    return ["git", *_PREFIX, "-C", str(root), *arguments]


def run(
    root: str | Path, environ: Mapping[str, str], *arguments: str, stdin: bytes = b"", allowed: tuple[int, ...] = (0,)
) -> bytes:
    """Run git in a folder to its end; its standard output. Raises GitFault, also for an exit code that is not allowed."""
    try:
        code, answer, said = Child(command(root, *arguments), environ).communicate(stdin, TIME_LIMIT)
    except TimeUp as error:
        raise GitFault(f"git {arguments[0]} did not end within {TIME_LIMIT:.0f} s") from error
    except OSError as error:
        _raise_missing(error)
    if code not in allowed:
        raise fault(arguments[0], code, said, root)
    return answer


_ending: list[Child] = []
"""Those that were told to end, and not waited for yet: most often this process ends too, and need not wait."""


def _wait_for_ending() -> None:
    while _ending:
        ended = _ending.pop()
        try:
            ended.wait(1.0)
        except TimeUp:
            ended.kill()
            ended.wait()


class Kept:
    """A git that is kept and asked again and again over its standard input."""

    def __init__(self, root: str | Path, environ: Mapping[str, str], *arguments: str) -> None:
        self._root = root
        self._name = arguments[0]
        self._said = b""
        _wait_for_ending()
        try:
            self.process = Child(command(root, *arguments), environ)
        except OSError as error:
            _raise_missing(error)

    def write(self, data: bytes) -> None:
        """Hand it a request. Raises GitFault where it has ended."""
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self.process.stdin, left) :]
        except BrokenPipeError:
            self._raise_ended()

    def more(self) -> bytes:
        """Wait for output. Standard error is drained too, so that a chatty git can't fill its pipe and stall."""
        out, err = self.process.stdout, self.process.stderr
        poll = select.poll()
        poll.register(out, select.POLLIN)
        poll.register(err, select.POLLIN)
        end = time.monotonic() + TIME_LIMIT
        while True:
            ready = dict(poll.poll(max(0.0, end - time.monotonic()) * 1000))
            if out in ready:
                data = os.read(out, 1 << 20)
                if not data:
                    self._raise_ended()
                return data
            if err not in ready:
                raise GitFault(f"git {self._name} did not answer within {TIME_LIMIT:.0f} s")
            said = os.read(err, 1 << 16)
            self._said = (self._said + said)[: 1 << 16]
            if not said:
                poll.unregister(err)

    def close(self) -> None:
        """Tell the process that nothing more comes, which ends it. It is waited for before the next one starts."""
        self.process.close()
        _ending.append(self.process)

    def _raise_ended(self) -> NoReturn:
        said = self._said
        while heard := os.read(self.process.stderr, 1 << 16):
            said = (said + heard)[: 1 << 16]
        raise fault(self._name, self.process.wait(), said, self._root)


def watch(
    root: str | Path, environ: Mapping[str, str], *arguments: str, deadline: float, stall: float, stdin: bytes = b""
) -> tuple[int, bytes, str]:
    """Run a git that talks to a remote: (exit code, standard output, the end of standard error).

    deadline: on time.monotonic()'s clock, when it is stopped with all that it started; stall: seconds of silence after
    which it is, too. Raises Stopped for both. It has no terminal: nothing is asked. stdin: short.
    """
    import subprocess  # noqa: PLC0415 (only what fetches needs a session of its own)

    # It starts with interrupts held back, too: in a session of its own it gets none, and we end it by SIGKILL.
    with HeldSignals() as held:
        try:
            process = subprocess.Popen(
                command(root, *arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environ,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            _raise_missing(error)
        try:
            held.let_go()
            return _converse(process, arguments[0], deadline=deadline, stall=stall, stdin=stdin)
        finally:
            if process.poll() is None:
                _kill_group(process)


def _converse(
    process: subprocess.Popen[bytes], name: str, *, deadline: float, stall: float, stdin: bytes
) -> tuple[int, bytes, str]:
    """Hand it what it is to read, and hear it to its end. Raises Stopped where that takes too long."""
    assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018 (opened as pipes)
    out, err = process.stdout.fileno(), process.stderr.fileno()
    heard = {out: b"", err: b""}
    poll = select.poll()
    for descriptor in heard:
        poll.register(descriptor, select.POLLIN)
    open_ends = len(heard)
    with process.stdin, process.stdout, process.stderr:
        _write_all(process.stdin.write, stdin)
        process.stdin.close()
        while open_ends:
            left = deadline - time.monotonic()
            ready = poll.poll(max(0.0, min(left, stall)) * 1000)
            if not ready:
                over = deadline - time.monotonic() <= 0
                why = "it did not end in time" if over else f"the remote said nothing for {stall:g} s"
                raise Stopped(f"git {name} was stopped: {why}", heard[err].decode("utf-8", "replace"), over=over)
            for descriptor, _ in ready:
                data = os.read(descriptor, 1 << 16)
                if not data:
                    poll.unregister(descriptor)
                    open_ends -= 1
                # Progress is rewritten with carriage returns; what is told at the end is what counts.
                heard[descriptor] = (heard[descriptor] + data)[-(1 << 16) :]
    return process.wait(), heard[out], heard[err].decode("utf-8", "replace")


def _write_all(write: Callable[[bytes], int | None], data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[write(bytes(view[:65536])) or 0 :]
    except BrokenPipeError:
        # It ended early, and says why itself.
        return


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    import signal  # noqa: PLC0415 (beside subprocess)

    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        process.kill()
    process.wait()


def _raise_missing(error: OSError) -> NoReturn:
    if isinstance(error, FileNotFoundError):
        raise GitFault("git is not on PATH; install it (the package is named git)") from error
    raise GitFault(f"git can't be started: {error}") from error


def fault(name: str, code: int, stderr: bytes, root: str | Path) -> GitFault:
    """The fault of a git command that ended with an exit code it may not end with.

    Raises KeyboardInterrupt where an interrupt ended it: that was meant for all of us, and git got it first.
    """
    if code == -_INTERRUPT:
        raise KeyboardInterrupt
    text = stderr.decode("utf-8", "replace").strip()
    if "dubious ownership" in text:
        return GitFault(
            f"git refuses {root}, which belongs to another user; if you trust it: "
            f"git config --global --add safe.directory {root}"
        )
    if "not a git repository" in text:
        return GitFault(f"{root} is not a git repository; run touchgate inside a clone")
    if "must be run in a work tree" in text:
        return GitFault(f"{root} is a bare repository, it has no files; run touchgate inside a checkout")
    lines = [line for line in text.splitlines() if not line.startswith(("hint:", "warning:"))]
    return GitFault(f"git {name} failed ({code}): {lines[0] if lines else 'it said nothing'}")

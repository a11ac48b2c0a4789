"""The gate that is in use: a command, called with BASE and HEAD, and how its answer is read."""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

LARGEST = 1 << 20
"""Bytes of an answer; whoever prints more is stopped."""
LOOK = 0.1
"""Seconds between two looks whether a command that keeps its output open has ended."""

_BEYOND_PLAIN = re.compile(r"[$`;&|<>()\n#]")
"""What makes a line more than one plain command: then it says itself where the two belong."""
_STDOUT, _EXIT, _OUTPUT = "stdout", "exit", "output:"


@dataclass(frozen=True)
class Theirs:
    """What the other gate says. run: None where `trouble` says why there is no answer.

    lanes: the lanes that it would run, None where it answers for all at once. unknown: names that are no lanes of ours.
    """

    run: bool | None = None
    lanes: frozenset[str] | None = None
    trouble: str = ""
    unknown: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Gate:
    """The command and how it answers.

    answer: "stdout"; "exit", where 0 is run and 1 is skip; or "output:NAME", the value of NAME in $GITHUB_OUTPUT.
    timeout: seconds.
    """

    command: str
    answer: str = _STDOUT
    timeout: float = 60.0

    def ask(self, root: Path, base: str, head: str, known: Collection[str], environ: Mapping[str, str]) -> Theirs:
        """Run it in the repository's root. BASE and HEAD are $1 and $2 and variables of these names.

        A plain command (a program and its arguments) gets both as its last arguments. It runs in a process group of its
        own, which is ended with it; $GITHUB_OUTPUT is an empty file, so that the outputs of a job we run in stay as they
        are.
        """
        began = time.monotonic()
        line = self.command if _BEYOND_PLAIN.search(self.command) else f'{self.command} "$@"'
        with tempfile.TemporaryDirectory(prefix="touchgate-replay-") as folder:
            output = Path(folder, "output")
            output.touch()
            seen = {**environ, "BASE": base, "HEAD": head, "GITHUB_OUTPUT": str(output)}
            try:
                ended = _run(["/bin/sh", "-c", line, "sh", base, head], root, seen, self.timeout)
            except OSError as error:
                return Theirs(trouble=f"it could not be started: {error.strerror}")
            said = self._read(ended, output, known)
        return replace(said, seconds=time.monotonic() - began)

    def _read(self, ended: _Ended, output: Path, known: Collection[str]) -> Theirs:
        if ended.stopped:
            return Theirs(trouble=ended.stopped)
        code = ended.code
        if self.answer == _EXIT and code in (0, 1):
            return Theirs(run=code == 0)
        if code != 0:
            return Theirs(trouble=f"{_end(code)}{ended.last_words}")
        if self.answer == _STDOUT:
            return read(ended.stdout, known)
        name = self.answer.removeprefix(_OUTPUT)
        value = output_of(_limited(output), name)
        if value is None:
            return Theirs(trouble=f"it wrote no {name}= to $GITHUB_OUTPUT")
        return read(value, known)


def way_to_answer(text: str) -> str:
    """The text if it is a way to answer. Raises ValueError."""
    if text in (_STDOUT, _EXIT) or re.fullmatch(r"output:[A-Za-z_][\w-]*", text):
        return text
    raise ValueError(f"--answer {text}: it is stdout, exit, or output:NAME")


def read(text: str, known: Collection[str]) -> Theirs:
    """An answer out of text: its last line true or false, JSON, or one lane's name a line.

    JSON: a list of names; or a mapping with `lanes` (names, or objects with name and decision) or with `run`.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return Theirs(trouble="it printed nothing; where no lane runs it prints [] or false")
    if lines[-1].lower() in ("true", "false"):
        return Theirs(run=lines[-1].lower() == "true")
    for candidate in (text, lines[-1]):
        with suppress(ValueError, RecursionError):
            names = _of_json(json.loads(candidate))
            if names is not None:
                return names if isinstance(names, Theirs) else _of_names(names, known, may_be_foreign=True)
    if all(re.fullmatch(r"[\w./@+-]+", line) for line in lines):
        return _of_names(lines, known, may_be_foreign=False)
    return Theirs(trouble=f"{_quoted(lines[-1])} is neither true, false, JSON, nor a lane")


def _of_json(data: object) -> Theirs | list[str] | None:
    """The names, or the whole answer; None for what is none."""
    if isinstance(data, bool):
        return Theirs(run=data)
    if isinstance(data, dict):
        if isinstance(data.get("lanes"), list):
            data = data["lanes"]
        elif isinstance(data.get("run"), bool):
            return Theirs(run=data["run"])
    if not isinstance(data, list):
        return None
    if all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in data):
        return [item["name"] for item in data if item.get("decision", "run") == "run"]
    return data if all(isinstance(item, str) for item in data) else None


def _of_names(names: list[str], known: Collection[str], *, may_be_foreign: bool) -> Theirs:
    ours = frozenset(name for name in names if name in known)
    foreign = tuple(dict.fromkeys(name for name in names if name not in known))
    if names and not ours and not may_be_foreign:
        return Theirs(trouble=f"{_quoted(names[-1])} is neither true, false, JSON, nor a lane")
    return Theirs(run=bool(names), lanes=ours, unknown=foreign)


def output_of(text: str, name: str) -> str | None:
    """The last value of a name in a file of NAME=VALUE lines, or of NAME<<END blocks; None where it has none."""
    value = None
    lines = iter(text.splitlines())
    for line in lines:
        key, equals, rest = line.partition("=")
        block, several, end = line.partition("<<")
        if several and "=" not in block:
            held = []
            for inner in lines:
                if inner == end:
                    break
                held.append(inner)
            if block == name:
                value = "\n".join(held)
        elif equals and key == name:
            value = rest
    return value


def _limited(path: Path) -> str:
    if path.is_symlink() or not path.is_file():  # a pipe or a device in its place has no end
        return ""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "...")  # noqa: PLR2004 (columns)


def _end(code: int) -> str:
    if code < 0:
        with suppress(ValueError):
            return f"it was ended by {signal.Signals(-code).name}"
    return f"it ended with exit code {code}"


# ---- the process


@dataclass(frozen=True)
class _Ended:
    code: int
    stdout: str
    stderr: str
    stopped: str = ""

    @property
    def last_words(self) -> str:
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        return f": {lines[-1][:200]}" if lines else ""


def _run(command: list[str], root: Path, environ: Mapping[str, str], timeout: float) -> _Ended:
    """Run to the end, the time limit, or too much output; whatever is left of its group is ended. Raises OSError."""
    process = subprocess.Popen(
        command,
        cwd=root,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018 (opened as pipes)
    held: dict[int, list[bytes]] = {process.stdout.fileno(): [], process.stderr.fileno(): []}
    out = process.stdout.fileno()
    try:
        stopped = _drain(process, held, time.monotonic() + timeout, timeout)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        process.stdout.close()
        process.stderr.close()
    texts = {file: b"".join(pieces).decode("utf-8", "replace") for file, pieces in held.items()}
    said = texts.pop(out)
    return _Ended(code, said, next(iter(texts.values())), stopped)


def _drain(process: subprocess.Popen[bytes], held: dict[int, list[bytes]], end: float, timeout: float) -> str:
    """Read both streams until the command ends; why it has to be stopped, or ""."""
    sizes = dict.fromkeys(held, 0)
    with selectors.DefaultSelector() as ready:
        for file in held:
            ready.register(file, selectors.EVENT_READ)
        while ready.get_map():
            left = end - time.monotonic()
            if left <= 0:
                return f"it did not end within {timeout:g} s"
            events = ready.select(min(left, LOOK))
            if not events and process.poll() is not None:
                # A child of it that goes on has the streams, but not the answer.
                return ""
            for key, _ in events:
                data = os.read(key.fd, 1 << 16)
                if not data:
                    ready.unregister(key.fd)
                    continue
                sizes[key.fd] += len(data)
                if sizes[key.fd] > LARGEST:
                    return f"it printed more than {LARGEST >> 20} MiB"
                held[key.fd].append(data)
    try:
        process.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        return f"it did not end within {timeout:g} s"
    return ""

"""Results on disk: one readable JSON file each, written whole or not at all, its log beside it.

records/<2 digits>/<digest>.json           one result
records/<2 digits>/<digest>.<random>.log   what the check printed
locks/<digest>.lock                        while a run is busy with that check
repositories/<digest>/                     per repository: the last run, how long each check took, the history of runs
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from touchgate.gate.values import NamedTuple
from touchgate.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from touchgate.checks import CheckSpec
    from touchgate.results.keys import Key

SCHEMA = 1
REMEMBERED = 5
"""Durations kept for an estimate."""
POLL = 0.1
"""Seconds between two looks at a key that another run is busy with."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


class StoreFault(Exception):
    """A result can't be kept: what and where, one line. The check's outcome is not touched by it."""


class Stored(NamedTuple):
    """A result as it is kept. when: ISO 8601, UTC. log: None where there was none, or it is gone. parts: the key's."""

    digest: str
    outcome: Outcome
    parts: Mapping[str, Any]
    check: str
    lane: str
    kind: str
    when: str
    host: str
    log: Path | None


class ResultStore:
    """The results below `directory`, made on the first write. `repository` tells repositories' last runs apart."""

    def __init__(self, directory: Path, repository: str = "") -> None:
        self.directory = directory
        self.own = directory / "repositories" / _short(repository)
        """Where this repository's own files lie."""

    # ---- results

    def lookup(self, digest: str) -> Stored | None:
        """What is kept under `digest`, whatever its verdict. None for nothing, or anything torn, foreign or newer."""
        path = self._record(digest)
        try:
            data = json.loads(path.read_bytes())
            return _stored(data, digest, path.parent)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def reusable(self, digest: str) -> Stored | None:
        """The same, but only a result that stands for a run: one that passed."""
        stored = self.lookup(digest)
        return stored if stored is not None and stored.outcome.verdict is Verdict.PASSED else None

    def record(self, key: Key, spec: CheckSpec, outcome: Outcome, log: Path | None) -> Stored:
        """Keep a result, at once and whole, in place of an earlier one of the same key. Raises `StoreFault`."""
        path = self._record(key.digest)
        before = self.lookup(key.digest)
        import socket  # noqa: PLC0415  a run that measures nothing does without, as without the other late ones here

        when, host = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), socket.gethostname()
        kept = path.with_name(f"{key.digest}.{secrets.token_hex(4)}.log") if log is not None else None
        data = {
            "schema": SCHEMA,
            "key": key.digest,
            "parts": key.parts,
            "check": spec.name,
            "lane": spec.lane,
            "kind": spec.kind,
            "when": when,
            "host": host,
            "log": kept.name if kept else None,
            "outcome": outcome.to_json(),
        }
        try:
            text = json.dumps(data, sort_keys=True, indent=1) + "\n"
            self._make(path.parent)
            if kept is not None and log is not None:
                _copy(log, kept)
            _write(path, text)
        except (OSError, TypeError, ValueError) as fault:
            if kept is not None:
                with suppress(OSError):
                    kept.unlink()
            # Not of the system's: a kind put something into the outcome that is not plain JSON.
            why = fault.strerror if isinstance(fault, OSError) else str(fault)
            raise StoreFault(f"the result of {spec.name} can't be kept in {self.directory}: {why}") from fault
        if before is not None and before.log is not None:
            with suppress(OSError):  # another run may have done so already
                before.log.unlink()
        with suppress(StoreFault):  # an estimate is not worth a word
            self._remember(spec.name, outcome)
        return Stored(key.digest, outcome, key.parts, spec.name, spec.lane, spec.kind, when, host, kept)

    def _record(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"not a key: {digest!r}")
        return self.directory / "records" / digest[:2] / f"{digest}.json"

    def _make(self, folder: Path) -> None:
        """Make `folder`, which lies in ours, level by level: each for this user alone, which `parents` would not do."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in reversed([folder, *folder.parents]):
            if part.is_relative_to(self.directory):
                part.mkdir(mode=0o700, exist_ok=True)

    def make_own(self) -> Path:
        """Make this repository's own folder; returns it. Raises `StoreFault`."""
        try:
            if not self.own.is_dir():
                self._make(self.own)
        except OSError as fault:
            raise StoreFault(f"{self.own} can't be made: {fault.strerror}") from fault
        return self.own

    # ---- two runs that want the same result

    @contextmanager
    def key_lock(
        self,
        digest: str,
        on_wait: Callable[[], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Iterator[bool]:
        """Hold a key while its check runs. `on_wait` is called once where another run holds it; look up again inside.

        Yields True when held. False: nothing can be written here, so nobody could reuse anything, or `cancelled` said
        so. The lock file is deleted before it is let go, which filelock (3.29.5 and later) allows for: whoever then
        gets the deleted file notices that it has no name any more, and tries the new one.
        """
        path = self._record(digest).parent.parent.parent / "locks" / f"{digest}.lock"
        try:
            self._make(path.parent)
        except OSError:
            yield False
            return
        # Late: a run that finds everything in the store needs no lock.
        from filelock import FileLock, Timeout  # noqa: PLC0415

        lock = FileLock(path, thread_local=False)
        held = False
        try:
            try:
                lock.acquire(timeout=0)
                held = True
            except Timeout:
                if on_wait is not None:
                    on_wait()
                with suppress(Timeout):
                    lock.acquire(poll_interval=POLL, cancel_check=cancelled)
                    held = True
            except OSError:
                held = False
            yield held
        finally:
            if held:
                with suppress(OSError):
                    path.unlink()
                lock.release()

    # ---- durations

    def durations(self) -> dict[str, float]:
        """Seconds that each check of this repository is likely to take, by its name."""
        found = {}
        with suppress(OSError):
            for path in (self.own / "durations").iterdir():
                name, seconds = _durations(path)
                if seconds:
                    found[name] = _median(seconds)
        return found

    def estimate(self, check_name: str) -> float | None:
        """Seconds that the check is likely to take: the median of its last runs here. None where it never ran."""
        name, seconds = _durations(self._duration(check_name))
        return _median(seconds) if seconds and name == check_name else None

    def _duration(self, check_name: str) -> Path:
        return self.own / "durations" / f"{_short(check_name)}.json"

    def _remember(self, check_name: str, outcome: Outcome) -> None:
        if outcome.verdict not in (Verdict.PASSED, Verdict.FAILED):
            return
        path = self._duration(check_name)
        seconds = [*_durations(path)[1], outcome.seconds][-REMEMBERED:]
        self._write_own(path, {"schema": SCHEMA, "check": check_name, "seconds": seconds})

    # ---- the last run

    def last_run(self) -> dict[str, Any] | None:
        """What `write_last_run` was given last for this repository, or None."""
        try:
            data = json.loads((self.own / "last-run.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        run = data.get("run") if isinstance(data, dict) and data.get("schema") == SCHEMA else None
        return run if isinstance(run, dict) else None

    def write_last_run(self, data: Mapping[str, Any]) -> None:
        """Keep the summary of a run, plain JSON. Raises `StoreFault`."""
        self._write_own(self.own / "last-run.json", {"schema": SCHEMA, "run": dict(data)})

    def _write_own(self, path: Path, data: Mapping[str, Any]) -> None:
        try:
            self._make(path.parent)
            _write(path, json.dumps(data, sort_keys=True, indent=1) + "\n", durable=False)
        except OSError as fault:
            raise StoreFault(f"{path} can't be written: {fault.strerror}") from fault


def _stored(data: Any, digest: str, folder: Path) -> Stored:
    """The record, checked. Raises ValueError, KeyError or TypeError for one that is not to be believed."""
    if not isinstance(data, dict) or data["schema"] != SCHEMA or data["key"] != digest:
        raise ValueError("not a record of this key")
    from touchgate.results.keys import digest_of  # noqa: PLC0415

    if digest_of(data["parts"]) != digest:
        raise ValueError("the parts do not make this key")
    texts = {name: data[name] for name in ("check", "lane", "kind", "when", "host")}
    outcome = Outcome.from_json(data["outcome"])
    if not all(isinstance(text, str) for text in texts.values()):
        raise TypeError("a value of another type")
    if data["parts"].get("declaration", {}).get("name", texts["check"]) != texts["check"]:
        raise ValueError("the record of another check")
    name = data["log"]
    # Only a plain name: a record does not point elsewhere.
    log = folder / name if isinstance(name, str) and name.startswith(digest) and "/" not in name else None
    if log is not None and not log.is_file():
        log = None
    return Stored(digest=digest, outcome=outcome, parts=data["parts"], log=log, **texts)


def _durations(path: Path) -> tuple[str, list[float]]:
    try:
        data = json.loads(path.read_bytes())
        seconds = [float(second) for second in data["seconds"]]
        return str(data["check"]), [second for second in seconds if 0 <= second < float("inf")]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "", []


def _write(path: Path, text: str, *, durable: bool = True) -> None:
    """Put `text` at `path` whole: a file beside it, on the disk, then renamed over it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _copy(source: Path, target: Path) -> None:
    """Copy a log, whole: the record that names it is written only afterwards."""
    with source.open("rb") as readable, target.open("xb") as writable:
        import shutil  # noqa: PLC0415

        shutil.copyfileobj(readable, writable)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _median(seconds: list[float]) -> float:
    import statistics  # noqa: PLC0415

    return statistics.median(seconds)

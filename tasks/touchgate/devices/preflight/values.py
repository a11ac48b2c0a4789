"""What a preflight reads and what it answers, as values. Unknown is None, never 0 and never an empty list."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from touchgate.processes import Process, utc

if TYPE_CHECKING:
    from collections.abc import Mapping

NOT_FIT_EXIT = 69
"""sysexits' EX_UNAVAILABLE: the host is not fit, or not known to be."""


class Answer(str, Enum):
    """The three answers."""

    FIT = "fit"
    NOT_FIT = "not fit"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Listed:
    """One process on a GPU. gpu: the UUID of the GPU or MIG device. kind: compute, graphics, mps, or open (has its file open).

    pid: as the driver says. process: who that is here, None where nobody can be seen. uses: whether that process is seen
    to have a GPU's file open, None where that can't be seen. memory: bytes on the GPU.
    """

    gpu: str
    pid: int
    kind: str
    memory: int | None = None
    process: Process | None = None
    uses: bool | None = None


@dataclass(frozen=True)
class GpuReading:
    """One GPU, or one MIG device. Sizes in bytes.

    listed: None where there is no list. garbage: records of the list that make no sense. uncorrected: ECC errors since the
    driver was loaded, None where it has no ECC. throttled: reasons that slow the clocks down. free, used: None where it
    does not say. unusable: why it is of no use at all. unasked: what it would not say though it should; unclear: the same
    of what concerns measurements only.
    """

    uuid: str
    name: str
    listed: tuple[Listed, ...] | None = ()
    garbage: int = 0
    uncorrected: int | None = None
    throttled: tuple[str, ...] = ()
    free: int | None = None
    used: int | None = None
    unusable: str = ""
    unasked: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """A host, read once.

    unified: GPU and CPU share one memory. first_namespace: process ids mean here what they mean to the driver.
    available: bytes that MemAvailable gives. load: of the last minute, for each processor. pressure: percent of the
    last ten seconds in which something waited for memory. unseen: what can't be known of it all, in words.
    """

    gpus: tuple[GpuReading, ...] = ()
    driver: str | None = None
    unified: bool = False
    first_namespace: bool = True
    available: int | None = None
    load: float | None = None
    pressure: float | None = None
    unseen: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` gives it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Reading:
        """Back from `to_json`. Raises KeyError, TypeError on anything else."""
        return cls(**{**data, "gpus": tuple(_gpu(gpu) for gpu in data["gpus"]), "unseen": tuple(data["unseen"])})


def _gpu(data: Mapping[str, Any]) -> GpuReading:
    listed = None if data["listed"] is None else tuple(_listed(entry) for entry in data["listed"])
    tuples = {name: tuple(data[name]) for name in ("throttled", "unasked", "unclear")}
    return GpuReading(**{**data, **tuples, "listed": listed})


def _listed(data: Mapping[str, Any]) -> Listed:
    process = None if data["process"] is None else Process(**data["process"])
    return Listed(**{**data, "process": process})


@dataclass(frozen=True)
class Owner:
    """Somebody else on a granted GPU. process None: not visible from here."""

    gpu: str
    pid: int
    kinds: tuple[str, ...]
    memory: int | None
    process: Process | None

    def __str__(self) -> str:
        """For example `pid 4121 (ada) python train.py, since 2026-11-30T14:02:11Z, 3.2 GiB on GPU-5f3c (compute)`."""
        memory = f"{size(self.memory)} on " if self.memory is not None else "on "
        where = f"{memory}{self.gpu} ({', '.join(self.kinds)})"
        if self.process is None:
            return f"a process whose owner is not visible from here (the driver says pid {self.pid}), {where}"
        left = f", left by an earlier run (lease token {self.process.token})" if self.process.token is not None else ""
        shares = ", which shares the GPU among its clients" if self.process.name == MPS_SERVER else ""
        return f"{self.process}, {where}{shares}{left}"

    def to_json(self) -> dict[str, object]:
        """For machine output."""
        seen = self.process
        return {
            "gpu": self.gpu,
            "pid": self.pid,
            "kinds": list(self.kinds),
            "memory": self.memory,
            "user": seen.user if seen else None,
            "command": seen.command if seen else None,
            "since": utc(seen.started) if seen and seen.started is not None else None,
        }


MPS_SERVER = "nvidia-cuda-mps-server"


@dataclass(frozen=True)
class Finding:
    """What a preflight came to.

    owners, reasons: why not fit. unknown: what can't be known. noise: what spoils measurements only. notes: what else a
    person should know; `taken` is set where the host's settings take unknown for fit.
    """

    answer: Answer
    owners: tuple[Owner, ...] = ()
    reasons: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    taken: bool = False

    @property
    def fit(self) -> bool:
        """Whether checks may run."""
        return self.answer is Answer.FIT

    @property
    def exit_code(self) -> int:
        """0, or 69 for both others."""
        return 0 if self.fit else NOT_FIT_EXIT

    def line(self) -> str:
        """One line."""
        if self.answer is Answer.NOT_FIT:
            said = [*self.reasons]
            if self.owners:
                several = "process is" if len(self.owners) == 1 else "processes are"
                said.insert(0, f"{len(self.owners)} {several} on the GPU that this run did not start")
            return f"the host is not fit: {'; '.join(said)}"
        if self.answer is Answer.UNKNOWN:
            return f"whether the host is fit can't be known: {'; '.join(self.unknown)}"
        text = "the host is fit"
        if self.taken:
            text += f", by its settings, though it can't be known: {'; '.join(self.unknown)}"
        return text + (f", but noisy: {'; '.join(self.noise)}" if self.noise else "")

    def lines(self) -> tuple[str, ...]:
        """The same with everybody's name, and what to do."""
        text = [self.line(), *(f"   {owner}" for owner in self.owners)]
        if self.owners:
            text.append("   none of them was touched; the run can be repeated when they have ended")
        if self.answer is Answer.NOT_FIT and self.unknown:
            text += [f"   not known: {what}" for what in self.unknown]
        if self.answer is Answer.UNKNOWN:
            text.append("   an administrator may settle that for this host: `preflight:` in its settings (docs/preflight.md)")
        return (*text, *(f"   {note}" for note in self.notes))

    def to_json(self) -> dict[str, object]:
        """For machine output."""
        return {
            "answer": self.answer.value,
            "owners": [owner.to_json() for owner in self.owners],
            "reasons": list(self.reasons),
            "unknown": list(self.unknown),
            "noise": list(self.noise),
            "notes": list(self.notes),
        }


def size(count: int) -> str:
    """Bytes for people: 512 MiB, 3.2 GiB."""
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":  # noqa: PLR2004
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"  # noqa: PLR2004

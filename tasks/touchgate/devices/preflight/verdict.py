"""Whether a host is fit, as a function of what was read of it. Nothing here looks at anything."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from touchgate.devices.preflight.values import Answer, Finding, GpuReading, Listed, Owner, Reading, size

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from touchgate.devices.preflight.settings import Settings

UNACCOUNTED = 128 << 20
"""Bytes in use on a GPU, beyond what its listed processes have, that betray a process which a container does not see.

A CUDA context takes more; an idle GPU, what the driver reserves not counted, a few MiB.
"""
BUSY = 0.5
"""Load of the last minute for each processor from which a unified-memory host is noisy."""
STALLED = 1.0
"""Percent of the last ten seconds in which something waited for memory, from which it is noisy too."""


def judge(reading: Reading, ours: AbstractSet[int], settings: Settings) -> Finding:
    """The answer. ours: the ids of this run's own processes, as they are here."""
    owners: list[Listed] = []
    reasons: list[str] = []
    unknown = list(reading.unseen)
    noise: list[str] = []
    if not reading.gpus and not reading.unseen:
        unknown.append("no GPU was shown")
    for gpu in reading.gpus:
        if gpu.unusable:
            reasons.append(f"{gpu.uuid}: {gpu.unusable}")
            continue
        seen = [_as_seen(entry, reading) for entry in gpu.listed or ()]
        owners += [entry for entry in seen if _counts(entry, ours, settings)]
        unknown += _hidden(gpu, reading)
        if not reading.first_namespace:
            own = [entry for entry in seen if entry.process is not None and entry.pid in ours and entry.uses is None]
            unknown += [f"{gpu.uuid}: whether pid {entry.pid} of the driver's list is this run's own" for entry in own]
        unknown += [f"{gpu.uuid}: {what}" for what in gpu.unasked]
        if gpu.uncorrected:
            errors = "1 uncorrected ECC error" if gpu.uncorrected == 1 else f"{gpu.uncorrected} uncorrected ECC errors"
            reasons.append(f"{errors} on {gpu.uuid} since the driver was loaded; it must be reset or the host restarted")
        if gpu.throttled:
            noise.append(f"{gpu.uuid} is slowed down ({', '.join(gpu.throttled)})")
        noise += [f"{gpu.uuid}: {what}" for what in gpu.unclear]
        _weigh_memory(gpu, reading, settings, reasons, unknown)
    if reading.unified:
        noise += _host_noise(reading)
    answer = Answer.NOT_FIT if owners or reasons else Answer.UNKNOWN if unknown else Answer.FIT
    return Finding(answer, _together(owners), tuple(reasons), tuple(unknown), tuple(noise))


def by_settings(found: Finding, settings: Settings) -> Finding:
    """The same where the host takes unknown for fit."""
    if found.answer is Answer.UNKNOWN and settings.unknown_is_fit:
        return replace(found, answer=Answer.FIT, taken=True)
    return found


def with_command(found: Finding, said: Finding) -> Finding:
    """`found` and what the host's own command said.

    Either's "not fit" stands. The command's "fit" settles what could not be known; its "unknown" is one more unknown.
    """
    reasons, notes = found.reasons + said.reasons, found.notes + said.notes
    if Answer.NOT_FIT in (found.answer, said.answer):
        unknown = found.unknown + said.unknown
        return replace(found, answer=Answer.NOT_FIT, reasons=reasons, unknown=unknown, notes=notes, taken=False)
    if said.answer is Answer.FIT:
        if found.unknown:
            notes += (f"the host's own command settles what could not be known: {'; '.join(found.unknown)}",)
        return replace(found, answer=Answer.FIT, unknown=(), notes=notes, taken=False)
    return replace(found, answer=Answer.UNKNOWN, unknown=found.unknown + said.unknown, notes=notes, taken=False)


def _as_seen(entry: Listed, reading: Reading) -> Listed:
    """Without its process where the driver's id is another namespace's: whoever has that id here is somebody else."""
    foreign = entry.uses is False and not reading.first_namespace
    return replace(entry, process=None) if foreign else entry


def _counts(entry: Listed, ours: AbstractSet[int], settings: Settings) -> bool:
    """Whether a listed process is neither this run's own nor one that the host does not count."""
    return entry.process is None or (entry.pid not in ours and entry.process.name not in settings.ignore)


def _hidden(gpu: GpuReading, reading: Reading) -> list[str]:
    """What of a GPU's users can't be known."""
    if gpu.listed is None:
        return [f"{gpu.uuid}: its driver lists no processes"]
    if gpu.garbage:
        pair = f"driver {reading.driver or 'unknown'} and nvidia-ml-py"
        records = "1 record makes" if gpu.garbage == 1 else f"{gpu.garbage} records make"
        return [f"{gpu.uuid}: {records} no sense in its list of processes; {pair} may not fit together"]
    if reading.first_namespace:
        return []
    memories = [entry.memory for entry in gpu.listed]
    known = [memory for memory in memories if memory is not None]
    if gpu.used is None or len(known) < len(memories):
        return [f"{gpu.uuid}: processes outside of this container are not shown, and its memory in use does not tell of them"]
    if gpu.used - sum(known) > UNACCOUNTED:
        more = size(gpu.used - sum(known))
        return [f"{gpu.uuid}: {more} of it is in use by nobody who is visible from this container"]
    return []


def _weigh_memory(gpu: GpuReading, reading: Reading, settings: Settings, reasons: list[str], unknown: list[str]) -> None:
    wanted = settings.free_memory
    if wanted is None:
        return
    free = gpu.free if gpu.free is not None else reading.available if reading.unified else None
    if free is None:
        unknown.append(f"{gpu.uuid}: how much of its memory is free (this host wants {size(wanted)})")
    elif free < wanted:
        reasons.append(f"{size(free)} of memory free on {gpu.uuid}, and this host wants {size(wanted)}")


def _host_noise(reading: Reading) -> list[str]:
    """GPU and CPU share memory and its bandwidth: what runs on the CPU is measured too."""
    noise = []
    if reading.load is not None and reading.load > BUSY:
        noise.append(f"load {reading.load:.1f} for each processor")
    if reading.pressure is not None and reading.pressure > STALLED:
        noise.append(f"memory pressure {reading.pressure:.1f} %")
    return noise


def _together(entries: Iterable[Listed]) -> tuple[Owner, ...]:
    """One owner for each process and GPU: a process may be listed as compute and graphics both."""
    found: dict[tuple[str, int], Owner] = {}
    for entry in entries:
        key = (entry.gpu, entry.pid)
        seen = found.get(key)
        if seen is None:
            found[key] = Owner(entry.gpu, entry.pid, (entry.kind,), entry.memory, entry.process)
            continue
        known = [memory for memory in (seen.memory, entry.memory) if memory is not None]
        kinds = seen.kinds if entry.kind in seen.kinds else (*seen.kinds, entry.kind)
        found[key] = replace(seen, kinds=kinds, memory=max(known) if known else None)
    return tuple(found.values())

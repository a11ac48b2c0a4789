"""The host's own preflight command: exit 0 fit, 69 not fit with its output as the reason, anything else unknown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from touchgate.devices.preflight import apart
from touchgate.devices.preflight.values import NOT_FIT_EXIT, Answer, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LINES = 5
"""Of its output, that are told."""
_LONGEST = 300


def run(
    command: Sequence[str],
    seconds: float,
    uuids: Sequence[str],
    environ: Mapping[str, str] = os.environ,
    cancelled: Callable[[], bool] | None = None,
) -> Finding:
    """What the command answers within so many seconds; then its whole group is ended.

    It sees TOUCHGATE_GPUS, the UUIDs apart by commas (empty: all), and else the run's environment.
    """
    name = command[0]
    seen = {**environ, "TOUCHGATE_GPUS": ",".join(uuids)}
    try:
        ended = apart.run(command, seconds, seen, cancelled=cancelled, together=True)
    except OSError as fault:
        return _unknown(f"the host's preflight command {name} can't be started: {fault.strerror}")
    status, said = ended.status, _said(ended.out)
    if status is None:
        return _unknown(f"the host's preflight command {name} did not end within {seconds:g} s")
    if status == 0:
        return Finding(Answer.FIT)
    if status == NOT_FIT_EXIT:
        return Finding(Answer.NOT_FIT, reasons=(f"{name}: {said or 'it gives no reason'}",))
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    return _unknown(f"the host's preflight command {name} {how}{f': {said}' if said else ''}")


def _unknown(what: str) -> Finding:
    return Finding(Answer.UNKNOWN, unknown=(what,))


def _said(output: bytes) -> str:
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    text = "; ".join(lines[:LINES])
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_LONGEST])

"""`doit lease reserve`, `cancel`, `drain`, `undrain`: what people change in the queue. A run that holds is never touched."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from touchgate.edge import leasing
from touchgate.edge.commands.base import print_json
from touchgate.edge.commands.lease_run import seen_gpus, want_of
from touchgate.edge.durations import seconds_of
from touchgate.edge.usage import UsageFault
from touchgate.leases import choose
from touchgate.reports.style import printable
from touchgate.reports.words import duration, moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from touchgate.leases.engine import Engine, Status


def act(action: str, arguments: Sequence[str], given: Mapping[str, Any]) -> int:
    """Do it and say what was done."""
    if action == "reserve":
        return _reserve(given)
    engine = choose.engine(os.environ)
    if action == "cancel":
        return _cancel(engine, arguments[0], as_json="json" in given)
    host = arguments[0] if arguments else leasing.this_host(os.environ)
    status = engine.status()
    _known(status, host)
    if action == "drain":
        if not given.get("why"):
            raise UsageFault("`doit lease drain [HOST] --why TEXT`: people who wait are told why")
        engine.drain(host, str(given["why"]))
        print(f"{host} is drained: who holds it goes on, nobody else gets it. `doit lease undrain {host}` takes that back")
        for line in drained_reservations(status, host):
            print(f"note: {printable(line)}")
        return 0
    engine.undrain(host)
    was = any(one.drained for one in status.hosts if one.name == host)
    print(f"{host} is granted again" if was or not status.hosts else f"{host} was not drained; nothing is changed")
    return 0


def drained_reservations(status: Status, host: str) -> list[str]:
    """What a drain of `host` costs those who reserved it: time goes on, and what has not begun is refused."""
    begun = {one.id: one for one in status.holders if one.until and one.pid is None and _of(one.resource) == host}
    lines = [
        f"reservation {one.id} of {one.user} ({one.what}) ends at {moment(str(one.until))} all the same: the queue lets "
        "no run in meanwhile, and the time is not given back"
        for one in begun.values()
    ]
    if len(status.hosts) > 1:  # whether those that wait could have another one is not told
        return lines
    ahead = [one for one in status.queue if one.reserves]
    return lines + [
        f"reservation {one.id} of {one.user} ({one.what}) had not begun and is refused; it has to be asked for again"
        for one in ahead
    ]


def _of(resource: str) -> str:
    return resource.partition("/")[0]


def _known(status: Status, host: str) -> None:
    names = [one.name for one in status.hosts]
    if names and host not in names:
        raise UsageFault(f"there is no host {host}; there is {', '.join(names)}")


def _reserve(given: Mapping[str, Any]) -> int:
    if not given.get("for") or not given.get("why"):
        raise UsageFault("`doit lease reserve --for 2h --why TEXT`: both are needed, so that people who wait know")
    try:
        seconds = seconds_of(str(given["for"]))
    except ValueError as fault:
        raise UsageFault(f"--for {fault}") from None
    sha = str(given["sha"]).lower() if given.get("sha") else None
    if sha is not None and not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", sha):
        raise UsageFault(f"--sha {sha}: a whole commit id, since a run's own is compared with it")
    choice = seen_gpus(os.environ)
    want = want_of(given, choice, leasing.this_host(os.environ))
    engine = choose.engine(os.environ, [gpu.uuid for gpu in choice.present if gpu.uuid])
    number = engine.reserve(want, float(seconds), str(given["why"]), sha)
    status = engine.status()
    waiting = next((one for one in status.queue if one.id == number), None)
    if given.get("json"):
        print_json({"schema": 1, "id": number, "position": waiting.position if waiting else 0})
        return 0
    when = f"from when it is free (position {waiting.position} in the queue)" if waiting else "from now on"
    print(f"reservation {number}: {want} for {duration(seconds)}, {when}. `doit lease cancel {number}` takes it back")
    return 0


def _cancel(engine: Engine, text: str, *, as_json: bool) -> int:
    if not text.isascii() or not text.isdecimal():
        raise UsageFault(f"`doit lease cancel {text}`: a request is named by its number, which `doit lease status` shows")
    said = engine.cancel(int(text))
    if as_json:
        print_json({"schema": 1, "id": int(text), "was": said})
    else:
        print(said)
    return 0

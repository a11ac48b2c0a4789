"""What two touchgates say to each other over ssh: a JSON object a line, each marked, in ASCII.

The far side speaks first ("hello"), so that its version is known before anything is asked of it. What is not marked is
somebody else's (a shell's greeting) and is passed over. Requests have "do", answers have "event".
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar

from touchgate.leases.engine import Ask, Holder, HostState, Place, Queued, Status
from touchgate.leases.model import Priority, Want
from touchgate.leases.record import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

PROTOCOL = 1
MARK = "touchgate-lease"
LONGEST = 4 << 20
"""Bytes of a line, and of all that comes before the first one of ours."""

PULSE = 5.0
"""Seconds between two signs of life of a run, and of ssh's own of the connection (ServerAliveInterval)."""
MISSED = 3
"""Of ssh's own, after which it ends (ServerAliveCountMax)."""
SILENCE = 60.0
"""Seconds without a sign of life after which a far host gives the lease back: later than the run's end of the connection."""
ANSWER = 20.0
"""Seconds that the far side has to answer."""

Known = TypeVar("Known", Holder, Queued, HostState)


class Garbled(Exception):
    """A marked line that means nothing, and why."""


def line(**content: Any) -> bytes:
    """A line of ours."""
    return json.dumps({MARK: PROTOCOL, **content}).encode("ascii") + b"\n"


def read(text: bytes) -> dict[str, Any] | None:
    """A line's object, None where it is not one of ours. Its protocol stands under `MARK`, and may be another."""
    if MARK.encode() not in text:
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and isinstance(content.get(MARK), int) else None


class Lines:
    """Whole lines out of pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, data: bytes) -> list[bytes]:
        """The lines that are complete now. Raises `Garbled` where one is longer than `LONGEST`."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST:
            raise Garbled(f"a line is longer than {LONGEST} bytes")
        return whole


def text(content: Mapping[str, Any], key: str) -> str:
    """A text of an object, "" where there is none."""
    value = content.get(key)
    return value if isinstance(value, str) else ""


def whole(content: Mapping[str, Any], key: str, otherwise: int | None = None) -> int:
    """A number of an object. Raises `Garbled`."""
    value = content.get(key, otherwise)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Garbled(f"'{key}' is no number")
    return value


def _seconds(content: Mapping[str, Any], key: str) -> float | None:
    value = content.get(key)
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < float("inf"):
        raise Garbled(f"'{key}' is no number of seconds")
    return float(value)


def texts(content: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list of texts of an object. Raises `Garbled`."""
    value = content.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise Garbled(f"'{key}' is no list of texts")
    return tuple(value)


def of_ask(ask: Ask) -> dict[str, Any]:
    """A request for one host; its name is told beside it."""
    return {
        "hosts": ask.want.hosts,
        "gpus": ask.want.gpus,
        "among": list(ask.want.among),
        "what": ask.what,
        "timeout": ask.timeout,
        "seconds": ask.seconds,
        "priority": int(ask.priority),
        "url": ask.url,
    }


def ask_of(content: Mapping[str, Any]) -> Ask:
    """The same, read. Raises `Garbled`."""
    try:
        want = Want(hosts=whole(content, "hosts", 0), gpus=whole(content, "gpus", 0), among=texts(content, "among"))
        priority = Priority(whole(content, "priority", int(Priority.CI)))
    except ValueError as fault:
        raise Garbled(str(fault)) from fault
    url = text(content, "url") or None
    return Ask(want, text(content, "what"), _seconds(content, "timeout"), _seconds(content, "seconds"), priority, url)


def of_place(place: Place) -> dict[str, Any]:
    """Where a waiter stands."""
    return {"position": place.position, "holders": [asdict(one) for one in place.holders], "estimate": place.estimate}


def place_of(content: Mapping[str, Any]) -> Place:
    """The same, read. Raises `Garbled`."""
    return Place(whole(content, "position"), _many(Holder, content, "holders"), _seconds(content, "estimate"))


def of_status(status: Status) -> dict[str, Any]:
    """All that is to be seen on a host."""
    return asdict(status)


def status_of(content: Mapping[str, Any]) -> Status:
    """The same, read. Raises `Garbled`."""
    return Status(
        printable(text(content, "where")),
        _many(HostState, content, "hosts"),
        _many(Holder, content, "holders"),
        _many(Queued, content, "queue"),
        tuple(map(printable, texts(content, "notes"))),
    )


def _clean(value: object) -> object:
    """Texts of another host end up on a terminal."""
    if isinstance(value, list):
        return tuple(printable(str(one)) for one in value)
    return printable(value) if isinstance(value, str) else value


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str, type(None)),
    "int": (int,),
    "int | None": (int, type(None)),
    "float | None": (float, int, type(None)),
    "bool": (bool,),
    "tuple[str, ...]": (list,),
}


def _many(kind: type[Known], content: Mapping[str, Any], key: str) -> tuple[Known, ...]:
    listed = content.get(key, [])
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise Garbled(f"'{key}' is no list of objects")
    return tuple(_one(kind, one, key) for one in listed)


def _one(kind: type[Known], content: Mapping[str, Any], key: str) -> Known:
    """What a later version says beside what is known here is left out."""
    values: dict[str, Any] = {}
    for known in fields(kind):
        if known.name in content:
            value = content[known.name]
            if not isinstance(value, _KINDS[str(known.type)]):
                raise Garbled(f"'{known.name}' in '{key}' is {type(value).__name__}")
            values[known.name] = _clean(value)
    try:
        return kind(**values)
    except TypeError as fault:
        raise Garbled(f"'{key}' lacks something") from fault

"""`doit lease log`: the last events of the leases' own log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from touchgate.edge.commands.base import print_json
from touchgate.edge.usage import UsageFault
from touchgate.leases import audit, choose
from touchgate.leases.engine import LeaseRefused
from touchgate.reports.style import printable
from touchgate.reports.words import moment

if TYPE_CHECKING:
    from collections.abc import Mapping

FEW = 20


def show(count: str, *, as_json: bool) -> int:
    """Print so many events, the latest last."""
    if count and not (count.isascii() and count.isdecimal() and int(count)):
        raise UsageFault(f"`doit lease log {count}`: a number of lines")
    choice = choose.chosen(os.environ)
    if choice.kind == "postgres":
        raise LeaseRefused("the log of leases in a database is its table touchgate.event")
    events = audit.last(choose.directory(os.environ, choice).path, int(count or FEW))
    if as_json:
        print_json({"schema": 1, "events": events})
    else:
        print("".join(f"{line(one)}\n" for one in events), end="")
    return 0


def line(event: Mapping[str, Any]) -> str:
    """One event for a person. What the log holds was written by all who share it."""
    of = " ".join(str(event[name]) for name in ("user", "pid") if event.get(name) is not None)
    what = f" ({event['what']})" if event.get("what") else ""
    shares = event.get("shares")
    parts = [
        moment(str(event.get("at", ""))),
        str(event.get("event", "")),
        f"{event['id']}" if event.get("id") is not None else "",
        of + what,
        ", ".join(map(str, shares)) if isinstance(shares, list) else str(event.get("wants") or ""),
        f"token {event['token']}" if event.get("token") else "",
        str(event.get("why") or ""),
    ]
    return printable("  ".join(part for part in parts if part))

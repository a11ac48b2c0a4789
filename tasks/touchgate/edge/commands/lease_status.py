"""`doit lease status`: in words, as JSON, as Prometheus' text format. Pure functions of an engine's `Status`."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from touchgate.edge.commands.base import print_json
from touchgate.edge.waiting import held_by, rough
from touchgate.leases import choose
from touchgate.reports.style import printable
from touchgate.reports.words import moment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from touchgate.leases.engine import Holder, Queued, Status

HOLDER = ("resource", "user", "pid", "since", "what", "url", "token", "until", "note", "id")
QUEUED = ("position", "user", "pid", "wants", "since", "priority", "estimate", "id", "what", "url", "reserves")


def show(*, as_json: bool, metrics: bool) -> int:
    """Print it. Nobody is disturbed by it."""
    status = choose.engine(os.environ).status()
    if as_json:
        print_json(to_json(status))
    elif metrics:
        sys.stdout.write(to_metrics(status, datetime.now(timezone.utc)))
    else:
        sys.stdout.write("".join(f"{printable(line)}\n" for line in in_words(status)))
    return 0


def to_json(status: Status) -> dict[str, Any]:
    """Holders are those that really hold; what is left of a run that is gone stands under "gone"."""
    return {
        "schema": 1,
        "where": status.where,
        "hosts": [{"name": host.name, "gpus": list(host.gpus), "drained": host.drained or None} for host in status.hosts],
        "holders": [{name: getattr(one, name) for name in HOLDER} for one in status.holders if one.alive],
        "gone": [{name: getattr(one, name) for name in HOLDER} for one in status.holders if not one.alive],
        "queue": [{name: getattr(one, name) for name in QUEUED} for one in status.queue],
        "notes": list(status.notes),
    }


def in_words(status: Status) -> list[str]:
    """For a person."""
    lines = [f"leases: {status.where}"]
    lines += [f"{host.name} is drained: {host.drained}; nothing new is granted there" for host in status.hosts if host.drained]
    living = [one for one in status.holders if one.alive]
    lines += [_holder(one) for one in living]
    if not living:
        lines.append("nobody holds anything")
    lines += [f"{one.resource}: ended without saying so: {held_by(one)}" for one in status.holders if not one.alive]
    if status.queue:
        lines.append("queue:")
        lines += [f"  {_queued(one)}" for one in status.queue]
    return [*lines, *(f"note: {note}" for note in status.notes)]


def _holder(one: Holder) -> str:
    kind = f"reserved, {one.id}, " if one.until and one.pid is None else ""
    token = f"; token {one.token}" if one.token is not None else ""
    return f"{one.resource}: {kind}{held_by(one)}{token}"


def _queued(one: Queued) -> str:
    parts = [one.user]
    if one.pid is not None:
        parts.append(f"pid {one.pid}")
    parts += [f"wants {one.wants}" + (" (a reservation)" if one.reserves else ""), f"since {moment(one.since)}"]
    if one.estimate is not None:
        parts.append(f"about {rough(one.estimate)} to go")
    what = f" ({one.what})" if one.what else ""
    return f"{one.position}. {', '.join(parts)}{what}; {one.id} to cancel" + (f"; {one.url}" if one.url else "")


def to_metrics(status: Status, now: datetime) -> str:
    """Prometheus' text format (version 0.0.4): gauges of what is held, who waits and what is drained."""
    living = [one for one in status.holders if one.alive]
    held = [({"resource": one.resource, "user": one.user}, 1.0) for one in living]
    ages = [({"resource": one.resource}, age) for one in living if (age := _age(one.since, now)) is not None]
    hosts = [({"host": host.name}, float(bool(host.drained))) for host in status.hosts]
    classes = sorted({one.priority for one in status.queue} | {"ci", "development"})
    queue = [({"priority": name}, float(sum(one.priority == name for one in status.queue))) for name in classes]
    oldest = max((_age(one.since, now) or 0.0 for one in status.queue), default=0.0)
    tokens = [one.token for one in living if one.token is not None]
    return "".join(
        (
            _gauge("touchgate_lease_held", "1 for everything that is held", held),
            _gauge("touchgate_lease_held_seconds", "how long it has been held", ages),
            _gauge("touchgate_lease_drained", "1 where nothing new is granted", hosts),
            _gauge("touchgate_lease_queue", "requests that wait", queue),
            _gauge("touchgate_lease_oldest_wait_seconds", "how long the oldest request waits", [({}, oldest)]),
            _gauge("touchgate_lease_token", "the newest token that is held", [({}, float(max(tokens)))] if tokens else []),
        )
    )


def _gauge(name: str, about: str, values: Iterable[tuple[dict[str, str], float]]) -> str:
    lines = [f"# HELP {name} {about}", f"# TYPE {name} gauge"]
    for labels, value in values:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{name}{{{inside}}} {value:.17g}" if inside else f"{name} {value:.17g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _age(since: str | None, now: datetime) -> float | None:
    try:
        return max(0.0, round((now - datetime.fromisoformat((since or "").replace("Z", "+00:00"))).total_seconds()))
    except (ValueError, TypeError):
        return None

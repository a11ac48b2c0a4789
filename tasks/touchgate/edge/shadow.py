"""Shadow mode: some of the lanes that the gate skips are run all the same, to find out whether it is right.

Which ones follows from the head commit and the lane's name alone, so a rerun chooses the same. What fails there is a
false skip, unless it fails without the change too; what is likely to be missing from the lane's paths is guessed from
what the check reads and what it said.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from touchgate.gate.model import Decision
from touchgate.gate.plan import in_suites_of_both, runs_in
from touchgate.reports.model import FalseSkip, Suspect

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from touchgate.edge.session import Finished, Session
    from touchgate.gate.declared import Declared
    from touchgate.gate.model import LaneDecision, Plan, TouchedPath

LOG = 1 << 18
"""Bytes of the end of a log that are searched for names."""
MOST = 20
"""Suspects that are reported."""
SHORTEST = 4
"""Characters of a file's bare name that may stand for its path in a log."""


def choose(declared: Declared, plan: Plan, rate: float) -> frozenset[str]:
    """The untouched lanes to run all the same: each with the probability `rate`, the same ones for the same head."""
    if not rate:
        return frozenset()
    lanes = in_suites_of_both(declared.head, declared.base)
    head = plan.change.head or ""
    return frozenset(
        one.lane
        for one in plan.lanes
        if one.lane in lanes
        and is_untouched(one)
        and runs_in(plan.suite, lanes[one.lane].suites)
        and draw(head, one.lane) < rate
    )


def is_untouched(one: LaneDecision) -> bool:
    """Whether a lane is skipped for what is touched, not for what was asked for (a name, a suite)."""
    return one.decision is Decision.SKIP and not one.reason.startswith("not ")


def draw(head: str, lane: str) -> float:
    """A number from 0 up to 1, evenly spread over commits and lanes, and always the same for the same two."""
    digest = hashlib.sha256(f"{head}\0{lane}".encode("utf-8", "surrogateescape")).digest()
    # As many bits as a float holds: rounding must not make it 1.
    return (int.from_bytes(digest[:8], "big") >> 11) / (1 << 53)


def false_skips(session: Session) -> tuple[FalseSkip, ...]:
    """The checks that failed in lanes that were to be skipped."""
    found = []
    for name in sorted(session.finished):
        done = session.finished[name]
        if done.check.shadow and done.outcome is not None and done.outcome.verdict.is_failure:
            found.append(_false_skip(session, done))
    return tuple(found)


def _false_skip(session: Session, done: Finished) -> FalseSkip:
    spec, outcome = done.check.spec, done.outcome
    paths = session.declared.judged.change.paths
    parts = done.check.key.parts if done.check.key else {}
    said = "\n".join([outcome.reason, *outcome.detail] if outcome else []) + _end_of(done.log)
    decision = session.plan.by_name[spec.lane]
    taken_back = decision.nearest.path if decision.nearest and decision.reason.endswith("takes it back") else None
    earlier = done.check.known
    return FalseSkip(
        lane=spec.lane,
        check=spec.name,
        where=str(session.declared.head[spec.lane].at),
        suspects=suspects(paths, tuple(parts.get("input_files", ())), said, taken_back),
        touched=len(paths),
        earlier=earlier.when if earlier else None,
    )


def _end_of(log: Path | None) -> str:
    if log is None:
        return ""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LOG))
        return file.read(LOG).decode("utf-8", "surrogateescape")
    return ""


def suspects(
    touched: Sequence[TouchedPath], inputs: Collection[str], said: str, taken_back: str | None = None
) -> tuple[Suspect, ...]:
    """The touched paths that a failing check most likely depends on, at most `MOST`.

    Those among its inputs (files, or folders that hold them); else those that its words name, whole or by their bare
    name; else one that a pattern of the lane took back; else every one, since nothing tells them apart.
    """
    names = [one.path.rstrip("/") for one in touched]
    read = set(inputs)
    ranks = (
        ("an input of the check", [name for name in names if _is_input(name, read)]),
        ("named in what it printed", [name for name in names if _is_named(name, said)]),
        ("a pattern of the lane takes it back", [name for name in names if name == taken_back]),
        ("", names),
    )
    why, likely = next(((why, found) for why, found in ranks if found), ("", []))
    return tuple(Suspect(name, why, None if name == taken_back else as_pattern(name)) for name in likely[:MOST])


def _is_input(name: str, inputs: set[str]) -> bool:
    parts = name.split("/")
    return any("/".join(parts[:end]) in inputs for end in range(1, len(parts) + 1))


def _is_named(name: str, said: str) -> bool:
    bare = name.rpartition("/")[2]
    # Most names are not there at all, which is told without a search by expression.
    for text in (name, bare) if len(bare) >= SHORTEST else (name,):
        if text in said and re.search(rf"(?<![\w.-]){re.escape(text)}(?![\w-]|\.\w)", said):
            return True
    return False


def as_pattern(path: str) -> str | None:
    r"""The entry of a `paths` list that matches this path alone, quoted where YAML needs it; None for no UTF-8.

    >>> as_pattern("src/a.txt"), as_pattern("a[1].txt"), as_pattern("!x")
    ('src/a.txt', '"a\\\\[1\\\\].txt"', '"\\\\!x"')
    """
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return None
    escaped = re.sub(r"[*?+\[\]\\]", r"\\\g<0>", path)
    if escaped.startswith("!"):
        escaped = "\\" + escaped
    return escaped if re.fullmatch(r"[A-Za-z_./][\w./-]*", escaped) else json.dumps(escaped)

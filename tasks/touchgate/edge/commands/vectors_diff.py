"""`doit vectors diff A B`: where two machines' ladders part."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from touchgate import ladder
from touchgate.edge.commands.base import print_json
from touchgate.edge.usage import UsageFault
from touchgate.ladder import LadderFault, Parting, Place, Told

APART = 1
NOTHING = 2
SHOWN = 20
"""Vectors that are shown; `--json` has all."""
DIGITS = 16


def show(one: str, other: str, *, as_json: bool) -> int:
    """Compare two files, and say it. Raises `UsageFault` for a file that is no report."""
    a, b = report(Path(one)), report(Path(other))
    common = [place for place in a if place in b]
    partings = ladder.compare(a, b)
    if as_json:
        families = sorted({place.family for place in (*a, *b)})
        print_json({"schema": 1, "families": families, "common": len(common), "apart": [p.to_json() for p in partings]})
    else:
        for line in lines(partings, len(common), (one, other)):
            print(line)
    if not common:
        return NOTHING
    return APART if partings else 0


def report(path: Path) -> Told:
    """The rungs of a file: a run's result.json, or a text with ladder lines in it. Raises `UsageFault`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageFault(f"{path} can't be read: {error}") from None
    try:
        if text.lstrip().startswith("{"):
            parts = list(_of_run(json.loads(text)))
        else:
            parts = [(path.name, dict(rung for line in text.splitlines() if (rung := ladder.heard(line))))]
    except (LadderFault, ValueError, LookupError, TypeError, AttributeError) as fault:
        raise UsageFault(f"{path} is no report of a run and no ladder: {fault}") from None
    found = ladder.told(parts)
    if not found:
        raise UsageFault(
            f"{path} holds no ladder: a `vectors` check that ran puts one into result.json (`doit --report-dir DIR`)"
        )
    return found


def _of_run(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[Place, str]]]:
    for check in data["checks"]:
        for one in check["facts"].get("ladders", ()):
            where = f" on {check['device']}" if check["device"] else ""
            yield f"{check['name']}{where}: {', '.join(one['legs'])}", ladder.read("\n".join(one["rungs"]))


def lines(partings: Sequence[Parting], common: int, names: tuple[str, str]) -> Iterator[str]:
    """What a person reads: for each vector the first place where they part; then the count."""
    by_vector: dict[tuple[str, str], list[Parting]] = {}
    for parting in partings:
        by_vector.setdefault((parting.place.family, parting.place.vector), []).append(parting)
    for (family, vector), found in list(by_vector.items())[:SHOWN]:
        first = found[0]
        more = f" (and {len(found) - 1} more rungs of it)" if len(found) > 1 else ""
        yield f"{family} {vector}: {first.place.words()}{more}"
        for name, side in zip(names, (first.one, first.other), strict=True):
            if not side:
                yield f"    {name}: nothing"
            for sha256, legs in side.items():
                yield f"    {name}: {sha256[:DIGITS]}  {'; '.join(legs)}"
    if len(by_vector) > SHOWN:
        yield f"... and {len(by_vector) - SHOWN} more vectors; --json has all"
    apart = f"{len(partings)} of them apart or told by one alone, in {len(by_vector)} vectors" if partings else "all equal"
    yield f"{common} rungs in both, {apart}"

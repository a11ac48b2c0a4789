"""A replay for a person and for a program."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from touchgate.gate.model import Decision, LaneDecision
from touchgate.replay.comparing import Disagreement, Kind, Pair, Totals, runs, totals
from touchgate.reports.files import path_json
from touchgate.reports.style import cells, clip, pad, printable
from touchgate.reports.words import FEW, plural, short, some

if TYPE_CHECKING:
    from collections.abc import Sequence

    from touchgate.replay.history import History

SCHEMA = 1
SUBJECT = 50
NARROW = 40
"""Columns that a row keeps for its subject and its lanes, whatever the terminal's width."""

WORDS = {Kind.FALSE_SKIP: "FALSE SKIP", Kind.UNTOLD: "skip of what can't be told", Kind.THEY_RUN: "they run, we skip"}
HEADS = {
    Kind.FALSE_SKIP: "false skips, {} of {}: {} skips what the change touches",
    Kind.UNTOLD: "skips of what can't be told, {} of {}: {} skips, and we run everything since we can't tell",
    Kind.THEY_RUN: "they run, we skip, {} of {}: {} runs what the change does not touch",
}


@dataclass(frozen=True)
class Replay:
    """Everything there is to tell. workflow: the one asked about. command: the other gate. today: see `judging.play`."""

    history: History
    pairs: tuple[Pair, ...]
    suite: str
    workflow: str | None = None
    command: str | None = None
    today: bool = False
    notes: tuple[str, ...] = ()


def in_words(replay: Replay, width: int | None = None) -> list[str]:
    """What was played, a row for each change, the disagreements (what costs most first), and what it comes to."""
    columns = width or shutil.get_terminal_size().columns
    added = totals(replay.pairs)
    lines = _head(replay)
    lines += ["", *_table(replay, columns)]
    for kind in Kind:
        lines += _disagreeing(replay, kind)
    lines += _troubles(replay)
    lines += ["", *_summary(replay, added)]
    return lines


def _head(replay: Replay) -> list[str]:
    history = replay.history
    what = (replay.workflow and f"the paths of {replay.workflow}") or f"lanes, suite {replay.suite}"
    when = "as the checkout declares them now" if replay.today else "as each change declared them"
    noun = history.kind.removesuffix("s")
    lines = [f"{plural(len(replay.pairs), noun)} of {history.branch}, the newest first; {what}, {when}"]
    if replay.command:
        lines.append(f"against {replay.command}")
    return [printable(line) for line in (*lines, *(f"note: {note}" for note in (*history.notes, *replay.notes)))]


def _table(replay: Replay, columns: int) -> list[str]:
    rows = [["", "paths", "ms", "ours", *(["theirs", ""] if replay.command else []), "subject"]]
    rows[0][0] = replay.history.kind.removesuffix("s")
    for pair in replay.pairs:
        ours = pair.ours
        row = [short(ours.merge.commit), str(ours.paths), f"{ours.seconds * 1000:.1f}", _ours(pair)]
        if replay.command:
            row += [_theirs(pair), WORDS[pair.worst] if pair.worst else ""]
        rows.append([printable(text) for text in (*row, ours.merge.subject)])
    widths = [max(cells(row[at]) for row in rows) for at in range(len(rows[0]) - 1)]
    right = (1, 2)
    lines = []
    for row in rows:
        fixed = [text.rjust(widths[at]) if at in right else pad(text, widths[at]) for at, text in enumerate(row[:-1])]
        start = "  ".join(fixed)
        lines.append(f"{start}  {clip(row[-1], max(NARROW, columns - cells(start) - 2))}".rstrip())
    return lines


def _ours(pair: Pair) -> str:
    ours = pair.ours
    if ours.nothing:
        return "nothing declared"
    if not ours.decisions:
        return "all (open)"
    names = [one.lane for one in ours.decisions if one.decision is Decision.RUN]
    if len(ours.decisions) == 1:
        word = "run" if names else "skip"
    elif not names:
        word = "none"
    elif len(names) == len(ours.decisions):
        word = f"all {len(names)}"
    else:
        word = f"{len(names)} of {len(ours.decisions)}: {clip(', '.join(names), NARROW)}"
    return f"{word} (open)" if ours.open_reason else word


def _theirs(pair: Pair) -> str:
    theirs = pair.theirs
    if theirs is None or theirs.run is None:
        return "no answer"
    if theirs.lanes is None:
        return "run" if theirs.run else "skip"
    return clip(", ".join(sorted(theirs.lanes)), NARROW) or "none"


def _disagreeing(replay: Replay, kind: Kind) -> list[str]:
    found = [(pair, [one for one in pair.disagreements if one.kind is kind]) for pair in replay.pairs]
    found = [(pair, several) for pair, several in found if several]
    if not found:
        return []
    head = HEADS[kind].format(len(found), plural(len(replay.pairs), replay.history.kind.removesuffix("s")), "their gate")
    lines = ["", head]
    for pair, several in found:
        lines.append(f"{short(pair.ours.merge.commit)}  {clip(printable(pair.ours.merge.subject), SUBJECT)}")
        lines += [f"   {printable(_proof(pair, one))}" for one in several[:FEW]]
        if len(several) > FEW:
            rest = [one.decision.lane for one in several[FEW:] if one.decision]
            lines.append(f"   and {plural(len(rest), 'lane')} more: {printable(some(rest))}")
    return lines


def _proof(pair: Pair, one: Disagreement) -> str:
    if one.decision is None:
        return pair.ours.open_reason or "everything runs"
    return f"{one.decision.lane}: {one.decision.reason}"


def _troubles(replay: Replay) -> list[str]:
    troubled = [(pair, pair.theirs.trouble) for pair in replay.pairs if pair.theirs and pair.theirs.trouble]
    lines = ["", f"no answer of their gate, {len(troubled)} of {len(replay.pairs)}"] if troubled else []
    by_reason: dict[str, list[str]] = {}
    for pair, trouble in troubled:
        by_reason.setdefault(trouble, []).append(short(pair.ours.merge.commit))
    lines += [f"   {printable(reason)}: {some(names)}" for reason, names in by_reason.items()]
    untold: dict[str, list[str]] = {}
    nothing: dict[str, list[str]] = {}
    for pair in replay.pairs:
        if pair.ours.open_reason:
            untold.setdefault(pair.ours.open_reason, []).append(short(pair.ours.merge.commit))
        if pair.ours.nothing:
            nothing.setdefault(pair.ours.nothing, []).append(short(pair.ours.merge.commit))
    for head, groups in (("everything runs, since it can't be told", untold), ("nothing to decide", nothing)):
        lines += ["", head] if groups else []
        lines += [f"   {printable(reason)}: {some(names)}" for reason, names in groups.items()]
    unknown = sorted({name for pair in replay.pairs if pair.theirs for name in pair.theirs.unknown})
    if unknown:
        lines += ["", f"their gate names what is no lane here: {printable(some(unknown))}"]
    return lines


def _summary(replay: Replay, added: Totals) -> list[str]:
    lines = []
    if added.lanes:
        width = max(cells(printable(lane.name)) for lane in added.lanes)
        saves = not replay.workflow
        width = max(width, len("lane"))
        lines.append(f"{'lane' if saves else 'file':{width}}  ran  untouched{'  saved' if saves else ''}".rstrip())
        for lane in added.lanes:
            row = f"{pad(printable(lane.name), width)}  {lane.ran:3}  {lane.skipped:9}"
            lines.append(f"{row}  {'-' if lane.minutes is None else _time(lane.minutes)}" if saves else row)
        lines.append("")
    noun = replay.history.kind.removesuffix("s")
    lines.append(f"{plural(added.judged, noun)} judged, {added.untouched} of them touch nothing, {added.open} open")
    without = "" if replay.workflow or not added.without_minutes else plural(added.without_minutes, "lane")
    if added.minutes_saved:
        more = f"; {without} more, without any" if without else ""
        lines.append(f"saved: {_time(added.minutes_saved)}, by the minutes that the lanes name as their targets{more}")
    elif without:
        lines.append(f"saved: {without}, whose `minutes` are not declared, so no time is added up")
    if added.judged:
        lines.append(f"a decision took {added.median * 1000:.1f} ms (median), {added.p95 * 1000:.1f} ms (95th percentile)")
    if replay.command:
        counts = ", ".join(f"{WORDS[kind]}: {count}" for kind, count in added.disagreeing)
        lines.append(f"{counts}, no answer: {added.troubles}")
    return lines


def _time(minutes: float) -> str:
    if minutes < 60:  # noqa: PLR2004
        return f"{minutes:g} min"
    return f"{minutes / 60:.1f} h"


def as_data(replay: Replay) -> dict[str, Any]:
    """The stable machine form: more keys may be added."""
    added = totals(replay.pairs)
    history = replay.history
    return {
        "schema": SCHEMA,
        "branch": _plain(history.branch),
        "tip": history.tip,
        "kind": history.kind,
        "lanes_from": "checkout" if replay.today else "history",
        "suite": replay.suite,
        "workflow": replay.workflow,
        "against": replay.command and _plain(replay.command),
        "notes": [_plain(note) for note in (*history.notes, *replay.notes)],
        "changes": [_change(pair) for pair in replay.pairs],
        "summary": {
            "judged": added.judged,
            "untouched": added.untouched,
            "open": added.open,
            "lanes": [
                {"name": lane.name, "ran": lane.ran, "untouched": lane.skipped, "minutes_saved": lane.minutes}
                for lane in added.lanes
            ],
            "minutes_saved": added.minutes_saved,
            "median_ms": _ms(added.median),
            "p95_ms": _ms(added.p95),
            "disagreements": {kind.value: count for kind, count in added.disagreeing},
            "no_answer": added.troubles,
        },
    }


def _change(pair: Pair) -> dict[str, Any]:
    ours, theirs = pair.ours, pair.theirs
    return {
        "commit": ours.merge.commit,
        "subject": _plain(ours.merge.subject),
        "base": ours.merge.base,
        "head": ours.merge.head,
        "merge_base": ours.merge_base,
        "touched": ours.paths,
        "run": runs(ours) if not ours.nothing else None,
        "open_reason": _plain(ours.open_reason) if ours.open_reason else None,
        "nothing": _plain(ours.nothing) or None,
        "ms": _ms(ours.seconds),
        "lanes": [_decision(one) for one in ours.decisions],
        "theirs": theirs
        and {
            "run": theirs.run,
            "lanes": None if theirs.lanes is None else sorted(theirs.lanes),
            "trouble": _plain(theirs.trouble) or None,
            "ms": _ms(theirs.seconds),
        },
        "disagreements": [
            {"kind": one.kind.value, **(_decision(one.decision) if one.decision else {"name": None})}
            for one in pair.disagreements
        ],
    }


def _decision(one: LaneDecision) -> dict[str, Any]:
    near = one.nearest
    return {
        "name": _plain(one.lane),
        "decision": one.decision.value,
        "reason": _plain(one.reason),
        **path_json(one.path),
        "pattern": one.pattern.text if one.pattern else None,
        "where": str(one.pattern.at) if one.pattern else None,
        "nearest": near and {**path_json(near.path), "pattern": near.pattern.text, "where": str(near.pattern.at)},
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _plain(text: str) -> str:
    """Without the halves of characters that stand for bytes which are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def is_lost(pairs: Sequence[Pair]) -> bool:
    """Whether the other gate was asked and never answered."""
    return bool(pairs) and all(pair.theirs is not None and bool(pair.theirs.trouble) for pair in pairs)

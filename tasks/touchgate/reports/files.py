"""The files of a run: result.json, junit.xml, summary.md. Sorted, stable, each replaced as a whole."""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from touchgate.reports.model import CheckReport, FalseSkip, LaneReport, RunReport
from touchgate.reports.style import printable

SCHEMA = 1


def write(report: RunReport, directory: Path) -> list[Path]:
    """Write the three files into `directory`, which is made where it is missing. Raises OSError.

    A reader sees the old file or the new one, never a part.
    """
    # Late: the run's own summary is kept as JSON by every run, and html and xml take long to import.
    from touchgate.reports.junit import junit_xml  # noqa: PLC0415
    from touchgate.reports.markdown import summary  # noqa: PLC0415

    directory.mkdir(parents=True, exist_ok=True)
    texts = {
        "result.json": json.dumps(result_json(report), ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False) + "\n",
        "summary.md": summary(report),
    }
    contents = {name: text.encode("utf-8") for name, text in texts.items()}
    contents["junit.xml"] = junit_xml(report)
    return [_replace(directory / name, contents[name]) for name in sorted(contents)]


def _replace(path: Path, content: bytes) -> Path:
    half = path.with_name(f".{path.name}.{os.getpid()}.half")
    try:
        # Not tempfile: its files are private, and a report is there to be read by others.
        half.write_bytes(content)
        half.replace(path)
    except OSError:
        with suppress(OSError):
            half.unlink(missing_ok=True)
        raise
    return path


def result_json(report: RunReport) -> dict[str, Any]:
    """The run as plain data, ready for `json.dumps`: strings hold no lone surrogates, numbers are finite.

    A path that is not UTF-8 is under `path_b64` (its bytes in base64) in place of `path`. An infinite or undefined
    number is one of the strings "inf", "-inf" and "nan": JSON has none of them.
    """
    data = {
        "schema": SCHEMA,
        "base": report.base,
        "head": report.head,
        "merge_base": report.merge_base,
        "proof": report.proof,
        "base_from": report.base_from,
        "head_from": report.head_from,
        "open_reason": report.open_reason,
        "due": report.due,
        "touched": report.touched,
        "suite": report.suite,
        "exit": report.exit,
        "interrupted": report.interrupted,
        "seconds": report.seconds,
        "device": report.device or None,
        "lease": report.lease,
        "reservation": report.reservation,
        "notes": report.notes,
        "shadow_rate": report.shadow_rate,
        "false_skips": [_false_skip(one) for one in report.false_skips],
        "counts": report.counts,
        "lanes": [lane_json(lane) for lane in sorted(report.lanes, key=lambda lane: lane.name)],
        "checks": [_check(check) for check in sorted(report.checks, key=lambda check: check.name)],
    }
    plain: dict[str, Any] = _plain(data)
    return plain


def lane_json(lane: LaneReport) -> dict[str, Any]:
    """One lane as plain data, as `doit lanes --json` shows it as well, and its minutes and seconds."""
    near = lane.nearest
    data: dict[str, Any] = {
        "name": lane.name,
        "decision": lane.decision,
        "reason": lane.reason,
        **path_json(lane.path),
        "pattern": lane.pattern,
        "where": lane.where,
        "nearest": near and {**path_json(near.path), "pattern": near.pattern, "where": near.where},
        "minutes": lane.minutes,
        "seconds": lane.seconds,
        "shadow": lane.shadow,
    }
    plain: dict[str, Any] = _plain(data)
    return plain


def path_json(path: str | None) -> dict[str, str | None]:
    """A path under `path`, or under `path_b64` where its bytes are not UTF-8."""
    if path is not None:
        try:
            path.encode("utf-8")
        except UnicodeEncodeError:
            return {"path_b64": base64.b64encode(os.fsencode(path)).decode("ascii")}
    return {"path": path}


def _check(check: CheckReport) -> dict[str, Any]:
    return {
        "name": check.name,
        "lane": check.lane,
        "kind": check.kind,
        "about": check.about,
        "verdict": check.verdict.value if check.verdict else None,
        "cached": check.cached,
        "device": check.device,
        "seconds": check.seconds,
        "reason": check.reason,
        "detail": check.detail,
        "worst": check.worst,
        "cases": check.cases,
        "facts": check.facts,
        "log": check.log,
        "where": check.where,
        "measured": check.measured,
        "withheld": check.withheld,
        "wants_gpu": check.wants_gpu,
        "shadow": check.shadow,
    }


def _false_skip(one: FalseSkip) -> dict[str, Any]:
    return {
        "lane": one.lane,
        "check": one.check,
        "where": one.where,
        "suspects": [{**path_json(each.path), "why": each.why, "pattern": each.pattern} for each in one.suspects],
        "touched": one.touched,
        "earlier": one.earlier,
    }


def _plain(value: object) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        # Only what no UTF-8 file can hold is escaped; a newline or an escape character is JSON's own business.
        return value if value.isprintable() else "".join(_char(char) for char in value)
    if isinstance(value, Mapping):
        return {str(_plain(str(key))): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return _plain(str(value))


def _char(char: str) -> str:
    return printable(char) if "\ud800" <= char <= "\udfff" else char

"""A run as Markdown, for a forge's summary page. Names and messages are data: none of them can become markup."""

from __future__ import annotations

import html
import re

from touchgate.reports import words
from touchgate.reports.model import CheckReport, RunReport, repeat
from touchgate.reports.resources import usages
from touchgate.reports.style import clip, printable

DETAIL_LINES = 60
LINE = 400
"""Columns of a message or a line of detail."""
MANY = 50
"""Lanes and notes that are listed."""

ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "`": "&#96;", "@": "&#64;"}
SPECIAL = re.compile(r"[\\*_\[\]~$]|[&<>|`@]|(?<=:)(?=//)|(?<=www)(?=\.)")


def text(value: str) -> str:
    r"""`value` as plain text, at most `LINE` columns: no emphasis, link, mention, HTML, or end of a table's cell.

    >>> print(text("a|b <b>*x*</b> @all https://x"))
    a&#124;b &lt;b&gt;\*x\*&lt;/b&gt; &#64;all https:<!-- -->//x
    """

    def escaped(match: re.Match[str]) -> str:
        found = match[0]
        if not found:
            # Between the two halves of what would become a link by itself.
            return "<!-- -->"
        return ENTITIES.get(found, "\\" + found)

    return SPECIAL.sub(escaped, clip(printable(value), LINE))


def code(value: str) -> str:
    """`value` in code type; as plain text where a code span could not hold it inside a table."""
    shown = printable(value)
    if not shown.strip() or "`" in shown or "|" in shown:
        return text(value)
    return f"`{shown}`"


def block(lines: list[str]) -> str:
    """Lines in a fenced block that none of them can end."""
    shown = [clip(printable(line), LINE) for line in lines]
    longest = max((len(run) for line in shown for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}text", *shown, fence])


def summary(report: RunReport, limit: int | None = None) -> str:
    """The page; in at most `limit` bytes of UTF-8, a last sentence saying what was left out.

    Whole parts are left out, so that what is there is always valid: failures from the last one on, then rows.
    """
    return _fitted(_head(report), _rows(report), [*_failures(report), *_resources(report)], limit)


def _fitted(head: str, rows: list[str], failures: list[str], limit: int | None) -> str:
    cut = "\nThe page would be too large: {} left out (rows of the table, failures). result.json has everything.\n"
    room = None if limit is None else limit - len(cut) - len("1000000 parts")
    page, left_out = head, 0
    size = len(head.encode())
    for part in rows + failures:
        more = len(part.encode())
        if left_out or (room is not None and size + more > room):
            left_out += 1
            continue
        page, size = page + part, size + more
    if not left_out:
        return page
    return page + cut.format(words.plural(left_out, "part"))


def _failures(report: RunReport) -> list[str]:
    broken = sorted((check for check in report.checks if check.broken), key=lambda check: check.name)
    return [*_false_skips(report), *(_failure(check, report) for check in broken)]


def _false_skips(report: RunReport) -> list[str]:
    found = []
    for one in report.false_skips:
        title, *lines = words.false_skip(one, report)
        found.append(f"\n#### {text(title)}\n\n" + "".join(f"- {text(line)}\n" for line in lines))
    return found


def _resources(report: RunReport) -> list[str]:
    """A table of registers and spills for each check that has them: a row for each kernel."""
    tables = []
    for check in sorted(report.checks, key=lambda check: check.name):
        found = usages(check.facts)
        if not found:
            continue
        columns = sorted({usage.architecture for usage in found}, key=lambda name: (len(name), name))
        cells = {(usage.kernel, usage.architecture): str(usage) for usage in found}
        lines = [
            f"\n<details><summary>Registers: {html.escape(printable(check.name))}</summary>\n",
            f"| kernel | {' | '.join(text(name) for name in columns)} |",
            f"| --- |{' ---: |' * len(columns)}",
        ]
        for kernel in sorted({usage.kernel for usage in found}):
            row = " | ".join(cells.get((kernel, name), "") for name in columns)
            lines.append(f"| {code(kernel)} | {row} |")
        tables.append("\n".join([*lines, "\n</details>\n"]))
    return tables


def _head(report: RunReport) -> str:
    mark = "passed" if report.exit == 0 else f"exit {report.exit}"
    commits = (("base", report.base), ("head", report.head), ("merge base", report.merge_base))
    lines = [
        f"### touchgate: {mark}",
        "",
        f"**{text(words.last_line(report))}**",
        "",
        ", ".join(f"{name} {code(words.short(commit))}" for name, commit in commits)
        + (f"; {words.plural(report.touched, 'path')} touched" if report.open_reason is None else ""),
        "",
    ]
    known = words.known_from(report)
    lines += [f"- {text(known)}"] if known else []
    lines += [f"- **everything runs:** {text(report.open_reason)}"] if report.open_reason is not None else []
    lines += [f"- everything is due: {text(report.due)}"] if report.due else []
    for name, value in (("device", report.device), ("lease", report.lease), ("reservation", report.reservation)):
        lines += [f"- {name}: {text(value)}"] if value else []
    for lane in report.running[:MANY]:
        where = "" if lane.where in lane.reason else f" {text(lane.where)}"
        lines.append(f"- {text(lane.name)} runs: {text(lane.reason)}{where}")
    for lane in report.shadowed[:MANY]:
        lines.append(f"- {text(lane.name)} is skipped, and run all the same to test that (shadow): {text(lane.reason)}")
    if report.untouched:
        names = ", ".join(code(lane.name) for lane in report.untouched[:MANY])
        names += ", ..." if len(report.untouched) > MANY else ""
        lines.append(f"- {words.plural(len(report.untouched), 'lane')} untouched: {names}")
    lines += [f"- {text(words.over_target(lane))}" for lane in report.lanes if lane.over_target][:MANY]
    lines += [f"- note: {text(note)}" for note in report.notes[:MANY]]
    if report.checks:
        lines += ["", "| check | result | seconds | |", "| --- | --- | ---: | --- |"]
    return "\n".join(lines) + "\n"


def _rows(report: RunReport) -> list[str]:
    rows = []
    for check in sorted(report.checks, key=lambda check: check.name):
        took = "" if check.seconds is None or check.reused else f"{check.seconds:.2f}"
        word = f"**{check.word}**" if check.broken or check.verdict is None else check.word
        rows.append(f"| {code(check.name)} | {word} | {took} | {text(words.remark(check))} |\n")
    return rows


def _failure(check: CheckReport, report: RunReport) -> str:
    title = f"\n#### {check.word}: {code(check.name)}\n\n{text(words.remark(check))}\n\n"
    lines = list(check.detail[:DETAIL_LINES])
    if len(check.detail) > DETAIL_LINES:
        lines.append(f"and {words.plural(len(check.detail) - DETAIL_LINES, 'line')} more")
    lines += ["", f"declared: {check.where}"] if check.where else []
    lines += [f"log: {check.log}"] if check.log else []
    lines += [f"variables it was not given: {', '.join(check.withheld)}"] if check.withheld else []
    lines.append(f"repeat: {repeat(check.name, report.suite)}")
    return title + block(lines) + "\n"

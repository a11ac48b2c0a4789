"""What a run tells the forge that runs it: annotations on the lines that declare what failed, and the summary page.

GitHub, Forgejo and Gitea read the same commands and the same file; other forges read junit.xml.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from touchgate.reports.model import CheckReport, RunReport, repeat
from touchgate.reports.style import encodable, printable
from touchgate.reports.words import false_skip, plural, remark

MOST = 10
"""Annotations of one type that a forge shows for one step."""
DETAIL_LINES = 12
PAGE = 1024 * 1024
"""Bytes of a step's summary; over it the whole page is dropped."""
SPARE = 4096
"""Left free for what comes after us in the same step."""

ACTIONS = ("GITHUB_ACTIONS", "FORGEJO_ACTIONS", "GITEA_ACTIONS")


def annotate(report: RunReport, stream: TextIO, environ: Mapping[str, str]) -> None:
    """Write an `::error` command for each of the first ten failures, when a forge that reads them runs this.

    How many more there are is a `::notice`: an eleventh error would not be shown. A closed stream is no error.
    """
    if not any(environ.get(name) for name in ACTIONS):
        return
    # What the gate got wrong first: it concerns more than this change.
    broken = sorted((check for check in report.checks if check.broken), key=lambda check: not check.shadow)
    lines = [_error(check, report) for check in broken[:MOST]]
    if len(broken) > MOST:
        more = f"{plural(len(broken) - MOST, 'check')} more did not pass; the summary lists all {len(broken)}"
        lines.append(f"::notice title=touchgate::{data(more)}")
    if not lines:
        return
    with suppress(OSError, ValueError):  # the reader is gone: there is nobody left to tell
        stream.write(encodable("".join(f"{line}\n" for line in lines), getattr(stream, "encoding", None)))
        stream.flush()


def _error(check: CheckReport, report: RunReport) -> str:
    properties = {}
    file, line, column = _place(check.where)
    if file:
        properties["file"] = file
    if line:
        properties["line"] = line
    if column:
        properties["col"] = column
    skips = [one for one in report.false_skips if one.check == check.name]
    properties["title"] = f"{'FALSE SKIP: ' if skips else ''}{check.name}: {check.word}"
    message = [line for one in skips for line in false_skip(one, report)]
    message += [remark(check) or check.word, *check.detail[:DETAIL_LINES], repeat(check.name, report.suite)]
    text = "\n".join(printable(part) for part in message)
    listed = ",".join(f"{key}={value_of(printable(value))}" for key, value in properties.items())
    return f"::error {listed}::{data(text)}"


def _place(where: str) -> tuple[str, str, str]:
    """File, line and column of "file:line:column"; empty where one is missing."""
    parts = where.rsplit(":", 2)
    if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():  # noqa: PLR2004
        return parts[0], parts[1], parts[2]
    file, _, line = where.rpartition(":")
    return (file, line, "") if file and line.isdecimal() else (where, "", "")


def data(text: str) -> str:
    """A command's message, escaped."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def value_of(text: str) -> str:
    """A command's property, escaped."""
    return data(text).replace(":", "%3A").replace(",", "%2C")


def append_summary(report: RunReport, environ: Mapping[str, str]) -> str | None:
    """Append the summary to the step's page where there is one; None, or a note that says why it is not there."""
    path = environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return None
    from touchgate.reports.markdown import summary  # noqa: PLC0415  html is slow to import

    try:
        with Path(path).open("ab") as page:
            room = PAGE - SPARE - os.fstat(page.fileno()).st_size
            content = summary(report, limit=room).encode("utf-8") if room > 0 else b""
            if not content or len(content) > room:
                return "the summary page of this step is full: nothing was added to it"
            page.write(content)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        return f"the summary could not be added to {path} ($GITHUB_STEP_SUMMARY): {why}"
    return None

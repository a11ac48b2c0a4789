"""A run as JUnit XML: the part of it that pytest's xunit2 family writes and CI servers read.

A suite for each lane, a case for each check. A reused pass is a passed case that says so in its output. An untouched
lane is one skipped case with the reason; a lane that runs without a check, and a check that was never reached, are
errors, because a server that counted them as skipped would show green for what nobody measured. The checks of a lane
that is skipped, and run all the same to test the gate, are cases like any other. What XML 1.0 cannot hold, even escaped,
is unprintable, so `printable` has made it a backslash escape.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from touchgate.outcome import Verdict
from touchgate.reports.model import CheckReport, LaneReport, RunReport
from touchgate.reports.style import printable
from touchgate.reports.words import remark, worst_error


def junit_xml(report: RunReport) -> bytes:
    """The document, UTF-8, suites and cases sorted by name."""
    root = ET.Element("testsuites", name="touchgate")
    for lane in sorted(report.lanes, key=lambda lane: lane.name):
        checks = sorted((check for check in report.checks if check.lane == lane.name), key=lambda check: check.name)
        root.append(_suite(lane, checks))
    ET.indent(root)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode").encode("utf-8") + b"\n"


def _suite(lane: LaneReport, checks: list[CheckReport]) -> ET.Element:
    if not lane.runs and not checks:
        cases = [_lane_case(lane, "skipped", lane.reason or "untouched")]
    elif not checks:
        cases = [_lane_case(lane, "error", "the lane runs, but no check of it was run")]
    else:
        cases = [_case(check) for check in checks]
    took = sum(float(case.get("time", "0")) for case in cases)
    suite = ET.Element("testsuite", name=printable(lane.name), tests=str(len(cases)), time=f"{took:.3f}")
    for attribute, tag in (("errors", "error"), ("failures", "failure"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    suite.extend(cases)
    return suite


def _lane_case(lane: LaneReport, tag: str, message: str) -> ET.Element:
    case = ET.Element("testcase", classname=printable(lane.name), name=printable(lane.name), time="0.000")
    ET.SubElement(case, tag, message=printable(message))
    return case


def _case(check: CheckReport) -> ET.Element:
    # A reused result took no time in this run; what it once took is in the output.
    seconds = 0.0 if check.cached else check.seconds or 0.0
    case = ET.Element("testcase", classname=printable(check.lane), name=printable(check.name), time=f"{seconds:.3f}")
    message, body = printable(check.reason or worst_error(check.worst, failed=True) or check.word), _body(check)
    if check.shadow and check.broken:
        message = f"its lane was to be skipped: {message}"
    if check.verdict in (Verdict.FAILED, Verdict.TIMED_OUT):
        ET.SubElement(case, "failure", message=message, type=check.verdict.value).text = body
    elif check.verdict is Verdict.ERROR:
        ET.SubElement(case, "error", message=message, type=check.verdict.value).text = body
    elif check.verdict is Verdict.UNMEASURED:
        ET.SubElement(case, "skipped", message=message, type=check.verdict.value)
    elif check.verdict is None:
        ET.SubElement(case, "error", message=message, type="never_reached")
    else:
        said = ": ".join(part for part in (check.word, remark(check)) if part)
        ET.SubElement(case, "system-out").text = printable(said)
    return case


def _body(check: CheckReport) -> str:
    lines = list(check.detail)
    lines += [f"log: {check.log}"] if check.log else []
    lines += [f"variables it was not given: {', '.join(check.withheld)}"] if check.withheld else []
    return "\n".join(printable(line) for line in lines)

"""Annotations and the step's summary page."""

from __future__ import annotations

import errno
import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.outcome import Verdict
from touchgate.reports import forge, markdown
from touchgate.reports.model import CheckReport, LaneReport, RunReport

LANE = LaneReport("gemm", "run", "gemm.cu (M) matches gemm*.cu", "gemm.cu", "gemm*.cu", "tasks/lanes.yml:3")
FAILED = CheckReport(
    "gemm:vectors", "gemm", "vectors", verdict=Verdict.FAILED, reason="100 % off: a, b", detail=("got 1", "expected 2"),
    where="tasks/a,b:c.yml:7:9",
)  # fmt: skip
PASSED = CheckReport("gemm:kernel", "gemm", "kernel", verdict=Verdict.PASSED)
ACTIONS = {"GITHUB_ACTIONS": "true"}


def report(*checks: CheckReport) -> RunReport:
    return RunReport("b", "h", "m", "", "", "", None, None, 1, "smoke", (LANE,), checks, 1, 1.0)


def annotations(*checks: CheckReport, environ=ACTIONS) -> str:
    stream = io.StringIO()
    forge.annotate(report(*checks), stream, environ)
    return stream.getvalue()


def test_an_annotation_is_escaped():
    assert annotations(FAILED, PASSED) == (
        "::error file=tasks/a%2Cb%3Ac.yml,line=7,col=9,title=gemm%3Avectors%3A FAILED::"
        "100 %25 off: a, b%0Agot 1%0Aexpected 2%0Adoit --fresh gemm:vectors\n"
    )


@pytest.mark.parametrize("name", ["GITHUB_ACTIONS", "FORGEJO_ACTIONS", "GITEA_ACTIONS"])
def test_each_forge_of_the_kind_is_told(name):
    assert annotations(FAILED, environ={name: "true"}).startswith("::error ")


@pytest.mark.parametrize("environ", [{}, {"CI": "true"}, {"GITLAB_CI": "true"}, {"GITHUB_ACTIONS": ""}])
def test_elsewhere_nothing_is_written(environ):
    assert annotations(FAILED, environ=environ) == ""


def test_nothing_failed_nothing_written():
    assert annotations(PASSED, PASSED._replace(verdict=Verdict.UNMEASURED), PASSED._replace(verdict=None)) == ""


@pytest.mark.parametrize("number", [9, 10, 11, 25])
def test_at_most_ten_and_a_count(number):
    lines = annotations(*(FAILED._replace(name=f"gemm:v{i}") for i in range(number))).splitlines()
    assert [line.split(" ")[0] for line in lines[:10]] == ["::error"] * min(number, 10)
    more = number - 10
    noun = "check" if more == 1 else "checks"
    expected = [f"::notice title=touchgate::{more} {noun} more did not pass; the summary lists all {number}"]
    assert lines[10:] == (expected if more > 0 else [])


@pytest.mark.parametrize(
    ("where", "properties"),
    [
        ("tasks/a.yml:7:9", "file=tasks/a.yml,line=7,col=9,"),
        ("tasks/a.yml:7", "file=tasks/a.yml,line=7,"),
        ("tasks/a.yml", "file=tasks/a.yml,"),
        ("", ""),
    ],
)
def test_the_place(where, properties):
    made = annotations(FAILED._replace(where=where))
    assert made.startswith(f"::error {properties}title=gemm%3Avectors%3A FAILED::")


@given(st.text())
def test_nothing_breaks_out_of_an_annotation(text):
    check = FAILED._replace(name=text, reason=text, detail=(text, text), where=text)
    made = annotations(check)
    assert made.endswith("\n")
    (line,) = made[:-1].split("\n")
    assert line.isprintable()
    properties, _, _ = line.removeprefix("::error ").partition("::")
    keys = [part.partition("=")[0] for part in properties.split(",")]
    assert set(keys) <= {"file", "line", "col", "title"}
    assert len(keys) == len(set(keys))


def test_an_ascii_stream_and_a_closed_one():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    forge.annotate(report(FAILED._replace(reason="größe")), stream, ACTIONS)
    assert b"gr\\xf6\\xdfe" in raw.getvalue()

    class Gone(io.StringIO):
        def write(self, _text):
            raise BrokenPipeError(errno.EPIPE, "gone")

    forge.annotate(report(FAILED), Gone(), ACTIONS)


def test_the_summary_is_appended(tmp_path):
    page = tmp_path / "summary"
    page.write_text("what another tool wrote\n")
    environ = {"GITHUB_STEP_SUMMARY": str(page)}
    assert forge.append_summary(report(FAILED), environ) is None
    assert page.read_text() == "what another tool wrote\n" + markdown.summary(report(FAILED))


def test_without_a_page_nothing_happens():
    assert forge.append_summary(report(FAILED), {}) is None
    assert forge.append_summary(report(FAILED), {"GITHUB_STEP_SUMMARY": ""}) is None


def test_the_page_stays_below_its_limit(tmp_path):
    page = tmp_path / "summary"
    page.write_bytes(b"x" * 600_000)
    many = (FAILED._replace(name=f"gemm:v{i:04}", detail=("ü" * 300,) * 50) for i in range(300))
    assert forge.append_summary(report(*many), {"GITHUB_STEP_SUMMARY": str(page)}) is None
    content = page.read_bytes()
    assert len(content) <= 1024 * 1024 - forge.SPARE
    assert content.endswith(b"result.json has everything.\n")


def test_a_full_page_is_a_note(tmp_path):
    page = tmp_path / "summary"
    page.write_bytes(b"x" * 1024 * 1024)
    note = forge.append_summary(report(FAILED), {"GITHUB_STEP_SUMMARY": str(page)})
    assert note == "the summary page of this step is full: nothing was added to it"
    assert page.stat().st_size == 1024 * 1024


def test_a_page_that_cannot_be_written_is_a_note(tmp_path):
    environ = {"GITHUB_STEP_SUMMARY": str(tmp_path / "no" / "folder")}
    assert forge.append_summary(report(FAILED), environ) == (
        f"the summary could not be added to {tmp_path}/no/folder ($GITHUB_STEP_SUMMARY): {os.strerror(errno.ENOENT)}"
    )
    assert forge.append_summary(report(FAILED), {"GITHUB_STEP_SUMMARY": "a\0b"}) == (
        "the summary could not be added to a\0b ($GITHUB_STEP_SUMMARY): embedded null byte"
    )

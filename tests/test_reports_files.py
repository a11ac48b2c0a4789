"""result.json, junit.xml and summary.md: whole contents, and names that try to break out of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.outcome import Verdict
from touchgate.reports import files, markdown
from touchgate.reports.files import path_json, result_json, write
from touchgate.reports.junit import junit_xml
from touchgate.reports.model import CheckReport, LaneReport, RunReport

BASE = "3f2c1aa" + "0" * 33

GEMM = LaneReport(
    "gemm", "run", "gemm.cu (M) matches gemm*.cu", "gemm.cu", "gemm*.cu", "tasks/lanes.yml:3", 30.0, 14.5
)  # fmt: skip
ADD = LaneReport("add", "skip", "no path matches; nearest: kernels/add/**", where="tasks/lanes.yml:9")
EMPTY = LaneReport("empty", "run", "x (M) matches x", "x", "x", "tasks/lanes.yml:12", 30.0)

CHECKS = (
    CheckReport("gemm:kernel", "gemm", "kernel", "products", Verdict.PASSED, device="emulated", seconds=12.3, cases=21,
                worst={"error": 1e-6, "bound": 1e-5, "case": "f32", "index": [3]}, wants_gpu=True),
    CheckReport("gemm:vectors", "gemm", "vectors", verdict=Verdict.FAILED, device="emulated", seconds=0.31,
                reason="2 of 9 digests differ", detail=("got 0x3c00", "expected 0x3c01"), log="/logs/v.log",
                where="tasks/lanes.yml:7:9", withheld=("TOKEN",)),
    CheckReport("gemm:compile", "gemm", "compile", verdict=Verdict.PASSED, cached=True, seconds=0.28,
                measured="2026-11-30T18:02:11"),
    CheckReport("gemm:slow", "gemm", "command", verdict=Verdict.TIMED_OUT, seconds=60.0,
                reason="stopped after 1 minutes"),
    CheckReport("gemm:broken", "gemm", "command", verdict=Verdict.ERROR, seconds=0.1, reason="exit status 127"),
    CheckReport("gemm:benchmark", "gemm", "benchmark", verdict=Verdict.UNMEASURED, reason="there is no GPU"),
    CheckReport("gemm:late", "gemm", "command"),
)  # fmt: skip

REPORT = RunReport(
    BASE, "9b1d004" + "0" * 33, BASE, "full history", "origin/HEAD", "the working tree", None, None, 4, "smoke",
    (GEMM, ADD, EMPTY), CHECKS, 1, 9.0, "emulated: no NVIDIA driver", None, "r-17", ("a note",),
)  # fmt: skip


def blank_check(name: str) -> CheckReport:
    return CheckReport(
        name, name, name, name, Verdict.FAILED, reason=name, detail=(name, name), worst={"error": name, "case": name},
        facts={name: name}, log=name, where=name, measured=name, withheld=(name,), device=name,
    )  # fmt: skip


def all_named(name: str) -> RunReport:
    lanes = (
        LaneReport(name, "run", name, name, name, name, 1.0, 100.0),
        LaneReport("other", "skip", name, name, name, name),
    )
    return RunReport(
        name, name, name, name, name, name, name, name, 1, "smoke", lanes, (blank_check(name),), 1, 1.0, name, name,
        name, (name,),
    )  # fmt: skip


HOSTILE = st.lists(
    st.one_of(
        st.characters(),
        st.sampled_from(
            ["\x1b[2J", "\n", "\r", "\u2028", "\udcff", "\ud800", "]]>", "&", "<", "|", "`", "```", "\n```\n", "@all",
             "<script>", "![x](http://e)", "[x](javascript:1)", "\\", "\n# ", "\n| a |", "-->", "$x$",
             "https://e.org", "~~"]
        ),
    ),
    max_size=12,
).map("".join)  # fmt: skip


# result.json


def test_the_three_files(tmp_path):
    folder = tmp_path / "new" / "reports"
    written = write(REPORT, folder)
    assert written == [folder / "junit.xml", folder / "result.json", folder / "summary.md"]
    assert sorted(path.name for path in folder.iterdir()) == ["junit.xml", "result.json", "summary.md"]
    assert json.loads((folder / "result.json").read_text(encoding="utf-8")) == result_json(REPORT)
    assert (folder / "junit.xml").read_bytes() == junit_xml(REPORT)
    assert (folder / "summary.md").read_text(encoding="utf-8") == markdown.summary(REPORT)


def test_result_json_is_the_documented_one():
    data = result_json(REPORT)
    assert {key: data[key] for key in ("schema", "base", "head", "exit", "counts")} == {
        "schema": 1,
        "base": REPORT.base,
        "head": REPORT.head,
        "exit": 1,
        "counts": {
            "passed": 1, "failed": 1, "error": 1, "timed_out": 1, "unmeasured": 1, "cached": 1, "never_reached": 1,
        },
    }  # fmt: skip
    assert [lane["name"] for lane in data["lanes"]] == ["add", "empty", "gemm"]
    assert data["lanes"][2] == {
        "name": "gemm",
        "decision": "run",
        "reason": "gemm.cu (M) matches gemm*.cu",
        "path": "gemm.cu",
        "pattern": "gemm*.cu",
        "where": "tasks/lanes.yml:3",
        "nearest": None,
        "minutes": 30.0,
        "seconds": 14.5,
        "shadow": False,
    }
    by_name = {check["name"]: check for check in data["checks"]}
    assert list(by_name) == sorted(by_name)
    assert by_name["gemm:late"]["verdict"] is None
    assert by_name["gemm:vectors"] == {
        "name": "gemm:vectors",
        "lane": "gemm",
        "kind": "vectors",
        "about": "",
        "verdict": "failed",
        "cached": False,
        "device": "emulated",
        "seconds": 0.31,
        "reason": "2 of 9 digests differ",
        "detail": ["got 0x3c00", "expected 0x3c01"],
        "worst": None,
        "cases": None,
        "facts": {},
        "log": "/logs/v.log",
        "where": "tasks/lanes.yml:7:9",
        "measured": None,
        "withheld": ["TOKEN"],
        "wants_gpu": False,
        "shadow": False,
    }
    further = ("merge_base", "proof", "open_reason", "due", "suite", "device", "lease", "notes")
    assert {key: data[key] for key in further} == {
        "merge_base": REPORT.merge_base,
        "proof": "full history",
        "open_reason": None,
        "due": None,
        "suite": "smoke",
        "device": "emulated: no NVIDIA driver",
        "lease": None,
        "notes": ["a note"],
    }  # fmt: skip


def test_the_same_run_gives_the_same_bytes(tmp_path):
    shuffled = REPORT._replace(lanes=REPORT.lanes[::-1], checks=REPORT.checks[::-1])
    write(REPORT, tmp_path / "a")
    write(shuffled, tmp_path / "b")
    for name in ("result.json", "junit.xml"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_numbers_that_json_lacks_are_strings():
    worst = {"error": float("inf"), "bound": float("nan"), "index": (1, 2), "low": float("-inf")}
    (check,) = result_json(REPORT._replace(checks=(CHECKS[0]._replace(worst=worst, facts={"x": object}),)))["checks"]
    assert check["worst"] == {"error": "inf", "bound": "nan", "index": [1, 2], "low": "-inf"}
    assert check["facts"] == {"x": "<class 'object'>"}


def test_a_path_that_is_not_utf8():
    assert path_json("a/ü.cu") == {"path": "a/ü.cu"}
    assert path_json(None) == {"path": None}
    assert path_json(os.fsdecode(b"a/\xff.cu")) == {"path_b64": "YS//LmN1"}
    (lane,) = result_json(REPORT._replace(lanes=(GEMM._replace(path=os.fsdecode(b"\xff"), reason="\udcff"),)))["lanes"]
    assert "path" not in lane
    assert (lane["path_b64"], lane["reason"]) == ("/w==", "\\xff")


@given(HOSTILE)
def test_result_json_is_strict_json(name):
    name = os.fsdecode(name.encode("utf-8", "surrogatepass"))
    text = json.dumps(result_json(all_named(name)), ensure_ascii=False, allow_nan=False, sort_keys=True)
    assert json.loads(text.encode("utf-8"))["checks"][0]["cached"] is False


def test_an_old_report_stays_when_writing_fails(tmp_path, monkeypatch):
    write(REPORT, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def broken(_self, _content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.Path, "write_bytes", broken)
    with pytest.raises(OSError, match="No space left"):
        write(REPORT._replace(exit=0), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_report_is_there_for_others_to_read(tmp_path):
    mask = os.umask(0o022)
    try:
        for path in write(REPORT, tmp_path):
            assert path.stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(mask)


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "x").touch()
    with pytest.raises(OSError, match="File exists"):
        write(REPORT, tmp_path / "x")


# junit.xml


def test_junit_as_a_whole():
    assert (
        junit_xml(REPORT).decode()
        == """\
<?xml version="1.0" encoding="utf-8"?>
<testsuites name="touchgate">
  <testsuite name="add" tests="1" time="0.000" errors="0" failures="0" skipped="1">
    <testcase classname="add" name="add" time="0.000">
      <skipped message="no path matches; nearest: kernels/add/**" />
    </testcase>
  </testsuite>
  <testsuite name="empty" tests="1" time="0.000" errors="1" failures="0" skipped="0">
    <testcase classname="empty" name="empty" time="0.000">
      <error message="the lane runs, but no check of it was run" />
    </testcase>
  </testsuite>
  <testsuite name="gemm" tests="7" time="72.710" errors="2" failures="2" skipped="1">
    <testcase classname="gemm" name="gemm:benchmark" time="0.000">
      <skipped message="there is no GPU" type="unmeasured" />
    </testcase>
    <testcase classname="gemm" name="gemm:broken" time="0.100">
      <error message="exit status 127" type="error" />
    </testcase>
    <testcase classname="gemm" name="gemm:compile" time="0.000">
      <system-out>cached: last run 2026-11-30 18:02, 0.28 s</system-out>
    </testcase>
    <testcase classname="gemm" name="gemm:kernel" time="12.300">
      <system-out>passed (emulated): 21 cases, max err 1.0e-06 (bound 1.0e-05)</system-out>
    </testcase>
    <testcase classname="gemm" name="gemm:late" time="0.000">
      <error message="never reached" type="never_reached" />
    </testcase>
    <testcase classname="gemm" name="gemm:slow" time="60.000">
      <failure message="stopped after 1 minutes" type="timed_out" />
    </testcase>
    <testcase classname="gemm" name="gemm:vectors" time="0.310">
      <failure message="2 of 9 digests differ" type="failed">got 0x3c00
expected 0x3c01
log: /logs/v.log
variables it was not given: TOKEN</failure>
    </testcase>
  </testsuite>
</testsuites>
"""
    )


REFERENCE = """
import pytest
def test_pass(): print("out")
def test_fail(): assert 0
def test_skip(): pytest.skip("no")
@pytest.fixture
def broken(): raise KeyError
def test_error(broken): pass
"""


def test_junit_holds_nothing_that_pytests_xunit2_does_not(tmp_path):
    (tmp_path / "test_it.py").write_text(REFERENCE)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=r.xml", "-c", os.devnull,
         "-o", "junit_family=xunit2", "-o", "junit_logging=all", "--rootdir=."],
        cwd=tmp_path, capture_output=True, check=False,
    )  # fmt: skip
    allowed: dict[str, set[str]] = {}
    inside: dict[str, set[str]] = {}
    for element in ET.parse(tmp_path / "r.xml").getroot().iter():
        allowed.setdefault(element.tag, set()).update(element.keys())
        inside.setdefault(element.tag, set()).update(child.tag for child in element)
    # pytest gives failures no type; the scheme that it follows has one on each of the three.
    for tag in ("failure", "error", "skipped"):
        allowed[tag].add("type")
    for element in ET.fromstring(junit_xml(REPORT)).iter():
        assert set(element.keys()) <= allowed[element.tag], element.tag
        assert {child.tag for child in element} <= inside[element.tag], element.tag


@given(HOSTILE)
def test_junit_always_parses(name):
    root = ET.fromstring(junit_xml(all_named(name)))
    assert [suite.tag for suite in root] == ["testsuite", "testsuite"]
    for suite in root:
        assert len(suite) == int(suite.get("tests"))
        for case in suite:
            assert case.tag == "testcase"
            assert len(case) == 1
            assert case.get("name").isprintable()


# summary.md


def test_summary_as_a_whole():
    assert (
        markdown.summary(REPORT)
        == """\
### touchgate: exit 1

**7 checks: 1 passed (emulated), 1 failed (emulated), 1 error, 1 timed out, 1 unmeasured, 1 cached, 1 never reached \
in 9.00 s, exit 1**

base `3f2c1aa`, head `9b1d004`, merge base `3f2c1aa`; 4 paths touched

- base from origin/HEAD; head from the working tree; merge base: full history
- device: emulated: no NVIDIA driver
- reservation: r-17
- gemm runs: gemm.cu (M) matches gemm\\*.cu tasks/lanes.yml:3
- empty runs: x (M) matches x tasks/lanes.yml:12
- 1 lane untouched: `add`
- note: a note

| check | result | seconds | |
| --- | --- | ---: | --- |
| `gemm:benchmark` | unmeasured |  | there is no GPU |
| `gemm:broken` | **ERROR** | 0.10 | exit status 127 |
| `gemm:compile` | cached |  | last run 2026-11-30 18:02, 0.28 s |
| `gemm:kernel` | passed (emulated) | 12.30 | 21 cases, max err 1.0e-06 (bound 1.0e-05) |
| `gemm:late` | **never reached** |  |  |
| `gemm:slow` | **TIMED OUT** | 60.00 | stopped after 1 minutes |
| `gemm:vectors` | **FAILED (emulated)** | 0.31 | 2 of 9 digests differ |

#### ERROR: `gemm:broken`

exit status 127

```text
repeat: doit --fresh gemm:broken
```

#### TIMED OUT: `gemm:slow`

stopped after 1 minutes

```text
repeat: doit --fresh gemm:slow
```

#### FAILED (emulated): `gemm:vectors`

2 of 9 digests differ

```text
got 0x3c00
expected 0x3c01

declared: tasks/lanes.yml:7:9
log: /logs/v.log
variables it was not given: TOKEN
repeat: doit --fresh gemm:vectors
```
"""
    )


def test_registers_are_a_table():
    kernels = {"add_float32": {"registers": 34, "spill_loads": 0, "spill_stores": 0}}
    spilling = {**kernels, "add|<b>": {"registers": 255, "spill_loads": 8, "spill_stores": 4}}
    check = CHECKS[2]._replace(facts={"architectures": {"121": spilling, "87": kernels}})
    page = markdown.summary(REPORT._replace(checks=(check,)))
    assert (
        page.partition("\n<details>")[2]
        == """\
<summary>Registers: gemm:compile</summary>

| kernel | 87 | 121 |
| --- | ---: | ---: |
| `add_float32` | 34 | 34 |
| add&#124;&lt;b&gt; |  | 255, 12 B spilled |

</details>
"""
    )


def test_summary_when_nothing_is_touched():
    report = REPORT._replace(lanes=(ADD,), checks=(), exit=0, device="", reservation=None, notes=())
    assert (
        markdown.summary(report)
        == """\
### touchgate: passed

**nothing touched: 1 lane looked at, 4 paths, exit 0**

base `3f2c1aa`, head `9b1d004`, merge base `3f2c1aa`; 4 paths touched

- base from origin/HEAD; head from the working tree; merge base: full history
- 1 lane untouched: `add`
"""
    )


@given(HOSTILE)
def test_no_name_becomes_markdown(name):
    """Outside code every character that could start markup is escaped, and the page keeps its shape."""
    page = markdown.summary(all_named(name))
    assert page.replace("\n", "").isprintable()
    fence = re.search(r"^(`{3,})text$", page, re.MULTILINE)
    before, _, rest = page.partition(fence[0] + "\n")
    inside, _, after = rest.partition(f"\n{fence[1]}\n")
    assert after == ""
    assert not re.search(rf"^ {{0,3}}`{{{len(fence[1])},}}\s*$", inside, re.MULTILINE)
    without_code = re.sub(r"`[^`|\n]+`", "", before)
    without_escapes = re.sub(r"\\[\\*_\[\]~$]|&(amp|lt|gt|#\d+);|:<!-- -->//|www<!-- -->\.", "", without_code)
    for line in without_escapes.splitlines():
        own = line.replace("**", "") if line.startswith(("- ", "**", "| ")) else line
        assert not re.search(r"[`<\[\]~$]|https?://|\\", own), line
        assert not re.search(r"[*_]", own), line
        assert own.count("|") in (0, 5), line
    heads = [line for line in before.splitlines() if re.match(r"#+ ", line)]
    assert len(heads) == 2


def test_a_page_that_is_too_large_is_cut_at_a_failure():
    many = tuple(CHECKS[1]._replace(name=f"gemm:v{number:04}", detail=("x" * 300,) * 50) for number in range(300))
    report = REPORT._replace(checks=many)
    assert len(markdown.summary(report)) > 4_000_000
    page = markdown.summary(report, limit=1_000_000)
    assert 900_000 < len(page.encode()) <= 1_000_000
    shown = page.count("#### FAILED")
    assert page.endswith(
        f"```\n\nThe page would be too large: {300 - shown} parts left out (rows of the table, failures)."
        " result.json has everything.\n"
    )
    assert page.count("```") == 2 * shown


@given(st.integers(2000, 20000))
def test_a_limit_is_kept(limit):
    many = tuple(CHECKS[1]._replace(name=f"gemm:ü{number:03}") for number in range(60))
    assert len(markdown.summary(REPORT._replace(checks=many), limit=limit).encode()) <= limit

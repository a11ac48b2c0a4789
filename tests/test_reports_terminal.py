"""What a person reads: whole outputs, on a pipe, on a terminal, in narrow ones, with hostile names."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.outcome import Verdict
from touchgate.reports import progress, style
from touchgate.reports.model import CheckReport, LaneReport, RunReport
from touchgate.reports.terminal import Terminal

BASE, HEAD = "3f2c1aa" + "0" * 33, "9b1d004" + "0" * 33

GEMM = LaneReport(
    "gemm", "run", "kernels/gemm.cu (M) matches kernels/gemm*.cu", "kernels/gemm.cu", "kernels/gemm*.cu",
    "tasks/lanes.yml:3", 30.0,
)  # fmt: skip
ADD = LaneReport("add", "skip", "no path matches; nearest: kernels/add/**", where="tasks/lanes.yml:9")
SCAN = LaneReport("scan", "skip", "no path matches", where="tasks/lanes.yml:15")

INFO = RunReport(
    BASE, HEAD, BASE, "git merge-base over the full history", "origin/HEAD", "the working tree", None, None, 4, "smoke",
    (GEMM, ADD, SCAN), device="emulated: no NVIDIA driver",
)  # fmt: skip

COMPILE = CheckReport("gemm:compile", "gemm", "compile", verdict=Verdict.PASSED, seconds=1.42, cases=3)
FLOAT16 = CheckReport(
    "gemm:vectors:float16", "gemm", "vectors", verdict=Verdict.FAILED, device="emulated", seconds=0.31,
    worst={"error": 0.031, "bound": 0.01, "index": [17, 4]}, detail=("got 0x3c00", "expected 0x3c01"),
    log="/logs/float16.log", where="tasks/lanes.yml:7:9", withheld=("HF_HOME", "TOKEN"),
)  # fmt: skip
FLOAT32 = CheckReport(
    "gemm:vectors:float32", "gemm", "vectors", verdict=Verdict.PASSED, cached=True, device="emulated", seconds=0.28,
    measured="2026-11-30T18:02:11",
)  # fmt: skip
KERNEL = CheckReport(
    "gemm:kernel", "gemm", "kernel", verdict=Verdict.PASSED, device="emulated", seconds=12.3, cases=21,
    worst={"error": 1e-6, "bound": 1e-5}, facts={"registers": 40},
)  # fmt: skip
BENCH = CheckReport("gemm:benchmark", "gemm", "benchmark", verdict=Verdict.UNMEASURED, reason="there is no GPU")
CHECKS = (COMPILE, FLOAT16, FLOAT32, KERNEL, BENCH)
ESTIMATES = {check.name: check.seconds for check in CHECKS}


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True


class Pipe(io.StringIO):
    encoding = "utf-8"


def tell(stream, *, environ=None, info=INFO, checks=CHECKS, **settings) -> str:
    terminal = Terminal(stream, environ or {}, **settings)
    terminal.header(info, {check.name: check.seconds for check in checks})
    for check in checks:
        if not check.cached:
            terminal.start(check.name)
        terminal.finish(check)
    terminal.summary(info._replace(checks=checks, seconds=12.9, exit=1))
    return stream.getvalue()


HEADER = """\
base 3f2c1aa  head 9b1d004  merge base 3f2c1aa  4 paths touched
   base from origin/HEAD; head from the working tree; merge base: git merge-base over the full history
gemm   affected    kernels/gemm.cu (M) matches kernels/gemm*.cu   tasks/lanes.yml:3
2 lanes untouched: add, scan
device   emulated: no NVIDIA driver
"""

WHOLE = (
    HEADER
    + """\
.  gemm:compile           passed              1.42 s   3 cases
.  gemm:vectors:float16   FAILED (emulated)   0.31 s   max err 3.1e-02 > 1.0e-02 at [17, 4]
-- gemm:vectors:float32   cached (emulated)            last run 2026-11-30 18:02, 0.28 s
.  gemm:kernel            passed (emulated)   12.3 s   21 cases, max err 1.0e-06 (bound 1.0e-05)
.  gemm:benchmark         unmeasured                   there is no GPU

FAILED (emulated)  gemm:vectors:float16   max err 3.1e-02 > 1.0e-02 at [17, 4]
   | got 0x3c00
   | expected 0x3c01
   declared: tasks/lanes.yml:7:9
   log: /logs/float16.log
   variables it was not given (`env:` of its lane gives them): HF_HOME, TOKEN
   repeat: doit --fresh gemm:vectors:float16

unmeasured: gemm:benchmark: there is no GPU
5 checks: 1 passed, 1 passed (emulated), 1 failed (emulated), 1 unmeasured, 1 cached (emulated) in 12.9 s, exit 1
"""
)


@pytest.mark.parametrize("workers", [1, 4])
def test_the_whole_output_on_a_pipe(workers):
    assert tell(Pipe(), workers=workers) == WHOLE


def test_a_gpu_needs_no_wide_column():
    gpu = KERNEL._replace(device="NVIDIA H200")
    text = tell(Pipe(), info=INFO._replace(device="NVIDIA H200, driver 580.1, nvcc 13.0"), checks=(gpu,))
    assert ".  gemm:kernel   passed       12.3 s   21 cases, max err 1.0e-06 (bound 1.0e-05)\n" in text


def test_one_worker_says_the_name_first():
    stream = Pipe()
    terminal = Terminal(stream, {}, workers=1)
    terminal.header(INFO, ESTIMATES)
    terminal.start("gemm:compile")
    assert stream.getvalue() == HEADER + ".  gemm:compile           "
    terminal.note("something came up")
    terminal.finish(COMPILE)
    assert stream.getvalue().removeprefix(HEADER) == (
        ".  gemm:compile           \nnote: something came up\n.  gemm:compile           passed              1.42 s   3 cases\n"
    )


def test_an_unfinished_line_is_ended_by_the_summary():
    stream = Pipe()
    terminal = Terminal(stream, {}, workers=1)
    terminal.start("gemm:compile")
    terminal.summary(INFO._replace(checks=(COMPILE._replace(verdict=None),), interrupted=True, exit=130, seconds=2))
    assert stream.getvalue() == (
        ".  gemm:compile   \n\nnever reached: gemm:compile\ninterrupted: 1 check: 1 never reached in 2.00 s, exit 130\n"
    )


def test_verbose_lists_lanes_starts_and_facts():
    text = tell(Pipe(), verbose=1, checks=(KERNEL,))
    assert text.startswith("""\
base 3f2c1aa  head 9b1d004  merge base 3f2c1aa  4 paths touched
   base from origin/HEAD; head from the working tree; merge base: git merge-base over the full history
gemm   affected    kernels/gemm.cu (M) matches kernels/gemm*.cu   tasks/lanes.yml:3
add    untouched   no path matches; nearest: kernels/add/**   tasks/lanes.yml:9
scan   untouched   no path matches   tasks/lanes.yml:15
device   emulated: no NVIDIA driver
   gemm:kernel   started
.  gemm:kernel   passed (emulated)   12.3 s   21 cases, max err 1.0e-06 (bound 1.0e-05)
     registers: 40
""")


def test_many_untouched_lanes_are_a_count():
    lanes = (GEMM, *(ADD._replace(name=f"lane{number}") for number in range(30)))
    assert "30 lanes untouched (-v 2 lists them)\n" in tell(Pipe(), info=INFO._replace(lanes=lanes), checks=())


def test_nothing_touched():
    info = INFO._replace(lanes=(ADD, SCAN), touched=3, device="")
    stream = Pipe()
    terminal = Terminal(stream, {})
    terminal.header(info)
    terminal.summary(info)
    assert (
        stream.getvalue()
        == """\
base 3f2c1aa  head 9b1d004  merge base 3f2c1aa  3 paths touched
   base from origin/HEAD; head from the working tree; merge base: git merge-base over the full history
2 lanes untouched: add, scan
nothing touched: 2 lanes looked at, 3 paths, exit 0
"""
    )


def test_no_lane_at_all():
    stream = Pipe()
    Terminal(stream, {}).summary(INFO._replace(lanes=()))
    assert stream.getvalue() == "no lane is declared: nothing to check, exit 0\n"


def test_open_and_due_are_loud():
    stream = Pipe()
    unknown = INFO._replace(base=None, merge_base=None, open_reason="no merge base: the clone is shallow; fetch-depth: 0")
    Terminal(stream, {}).header(unknown._replace(lanes=(GEMM._replace(path=None, reason="everything runs"),)))
    Terminal(stream, {}).header(INFO._replace(due="on the default branch", lanes=(), base_from="", head_from="", proof=""))
    assert (
        stream.getvalue()
        == """\
base unknown  head 9b1d004  merge base unknown
   base from origin/HEAD; head from the working tree; merge base: git merge-base over the full history
EVERYTHING RUNS: no merge base: the clone is shallow; fetch-depth: 0
1 lane runs: everything runs (gemm)
device   emulated: no NVIDIA driver
base 3f2c1aa  head 9b1d004  merge base 3f2c1aa  4 paths touched
everything is due: on the default branch
"""
    )


def test_a_wait_and_a_note_are_said_once():
    stream = Pipe()
    terminal = Terminal(stream, {})
    for _ in range(2):
        terminal.waiting("host lease h200-0: alice, pid 4121, since 14:02 (gemm:vectors)")
        terminal.note("the cache is full")
    terminal.summary(INFO._replace(lanes=(), notes=("the cache is full", "another")))
    assert (
        stream.getvalue()
        == """\
waiting for host lease h200-0: alice, pid 4121, since 14:02 (gemm:vectors)
note: the cache is full
note: another
no lane is declared: nothing to check, exit 0
"""
    )


def test_a_missed_target_is_said():
    stream = Pipe()
    slow = GEMM._replace(seconds=1900.0)
    Terminal(stream, {}).summary(INFO._replace(lanes=(slow,), checks=(COMPILE,), seconds=1900))
    assert (
        stream.getvalue()
        == """\

lane gemm took 31 min 40 s, its target is 30 min (tasks/lanes.yml:3)
1 check: 1 passed in 31 min 40 s
"""
    )


def test_reasons_are_grouped():
    stream = Pipe()
    others = tuple(BENCH._replace(name=f"gemm:b{number}") for number in range(2))
    missing = BENCH._replace(name="gemm:c", reason="g++ is missing: apt install g++")
    Terminal(stream, {}).summary(INFO._replace(checks=(COMPILE, *others, missing), seconds=1))
    assert (
        stream.getvalue()
        == """\

unmeasured: gemm:b0, gemm:b1: there is no GPU
unmeasured: gemm:c: g++ is missing: apt install g++
4 checks: 1 passed, 3 unmeasured in 1.00 s
"""
    )


def test_long_detail_and_many_variables_are_cut():
    stream = Pipe()
    long = FLOAT16._replace(detail=("x",) * 100, withheld=tuple(f"V{number}" for number in range(40)), where="", log=None)
    Terminal(stream, {}).summary(INFO._replace(checks=(long,), exit=1))
    text = stream.getvalue()
    assert text.count("   | x\n") == 40
    assert "   | and 60 lines more\n" in text
    assert "V29 and 10 more\n" in text


# Colour, encodings, hostile text.


@pytest.mark.parametrize(
    ("environ", "screen", "coloured", "live"),
    [
        ({}, True, True, True),
        ({}, False, False, False),
        ({"NO_COLOR": "1"}, True, False, True),
        ({"NO_COLOR": ""}, True, True, True),
        ({"FORCE_COLOR": "1"}, False, True, False),
        ({"FORCE_COLOR": ""}, False, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False, True),
        ({"TERM": "dumb"}, True, False, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, True, False),
        ({"CI": "true"}, True, True, False),
        ({"CI": "1", "FORCE_COLOR": "1"}, False, True, False),
        ({"TERM": "xterm-256color"}, True, True, True),
    ],
)
def test_colour_and_redrawing(environ, screen, coloured, live):
    text = tell(Screen() if screen else Pipe(), environ=environ, width=100)
    assert ("\x1b[1;31mFAILED (emulated)\x1b[0m" in text) == coloured
    assert ("\r\x1b[K" in text) == live


def test_without_colour_and_redraws_a_terminal_shows_the_same():
    text = tell(Screen(), environ={"NO_COLOR": "1"}, width=100)
    assert shown(text) == WHOLE


def shown(text: str) -> str:
    """What is left on a terminal's screen after every wipe."""
    return "\n".join(line.split("\r\x1b[K")[-1] for line in text.split("\n"))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "cp1252"])
def test_any_encoding_takes_everything(encoding):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="strict", write_through=True)
    odd = COMPILE._replace(name="gemm:größe:行列", reason="\udcff\ud800 \u2028 ✓")
    terminal = Terminal(stream, {"FORCE_COLOR": "1"})
    terminal.header(INFO._replace(open_reason="\udcfe naïve"), {odd.name: None})
    terminal.finish(odd)
    terminal.summary(INFO._replace(checks=(odd,)))
    text = raw.getvalue().decode(encoding)
    assert "\\xff\\ud800 \\u2028" in text
    assert ("größe" in text) == (encoding != "ascii")
    assert ("行列" in text) == (encoding == "utf-8")
    assert ("\\u884c" in text) == (encoding != "utf-8")


def test_ascii_streams_get_an_ascii_bar():
    screen = Screen()
    screen.encoding = "ascii"
    text = tell(screen, width=100)
    assert text.isascii()
    assert "#" in text


HOSTILE = st.lists(
    st.one_of(
        st.characters(),
        st.sampled_from(["\x1b[2J", "\x9b", "\n", "\r", "\x07", "\u202e", "\u2028", "\udcff", "::", "##["]),
    ),
    max_size=20,
).map("".join)


@given(HOSTILE, st.booleans())
def test_no_name_writes_a_control_character(name, live):
    stream = Screen() if live else Pipe()
    lane = GEMM._replace(name=name, reason=name, path=name, where=name)
    check = FLOAT16._replace(name=name, lane=name, reason=name, detail=(name,), log=name, withheld=(name,), where=name)
    info = INFO._replace(
        lanes=(lane, lane._replace(decision="skip")), base=name, base_from=name, open_reason=name, device=name,
        lease=name, reservation=name,
    )  # fmt: skip
    terminal = Terminal(stream, {"NO_COLOR": "1"}, width=80, verbose=1)
    terminal.header(info, {name: 1.0})
    terminal.waiting(name)
    terminal.note(name)
    terminal.start(name)
    terminal.finish(check)
    terminal.summary(info._replace(checks=(check,), notes=(name + "2",)))
    left = stream.getvalue().replace("\r\x1b[K", "").replace("\n", "")
    assert left.isprintable()


@given(HOSTILE)
def test_in_an_actions_job_no_line_is_a_command(name):
    stream = Pipe()
    text = f"::add-mask::{name}"
    check = FLOAT16._replace(detail=(text, f"  {text}", f"x##[add-path]{name}"), reason=text)
    terminal = Terminal(stream, {"GITHUB_ACTIONS": "true"})
    terminal.header(INFO._replace(lanes=(GEMM._replace(name="::warning::"),), open_reason=text))
    terminal.note(text)
    terminal.waiting(text)
    terminal.finish(check)
    terminal.summary(INFO._replace(checks=(check,)))
    for line in stream.getvalue().splitlines():
        assert not line.lstrip().startswith("::")
        assert "##[" not in line


# The live line.


@given(
    st.dictionaries(st.text(max_size=40), st.one_of(st.none(), st.floats(0, 1e5)), max_size=8),
    st.integers(1, 120),
    st.booleans(),
    st.integers(0, 9),
)
def test_the_live_line_fits(estimates, width, wide, done):
    running = dict.fromkeys(list(estimates)[:3], 1.5)
    left = progress.time_left(estimates, set(list(estimates)[3:5]), running, 2)
    symbols = progress.BLOCKS if wide else progress.ASCII
    line = progress.live_line(
        done=done, total=len(estimates), running=running, left=left, width=width, symbols=symbols
    )  # fmt: skip
    assert style.cells(line) <= width
    assert line.isprintable()


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (100, "##########.......... 2/4  gemv:kernel, rans:vectors  about 12 s left"),
        (60, "##########.......... 2/4  gemv:kernel, r...  about 12 s left"),
        (59, "2/4  gemv:kernel, rans:vectors  about 12 s left"),
        (30, "2/4  gemv:...  about 12 s left"),
        (23, "2/4  about 12 s left"),
        (16, "2/4  gemv:ker..."),
        (3, "2/4"),
        (2, ".."),
    ],
)
def test_a_narrow_terminal_cuts_names_first(width, line):
    running = {"rans:vectors": 1.0, "gemv:kernel": 3.0}
    made = progress.live_line(
        done=2, total=4, running=running, left=(12.3, True), width=width, symbols=progress.ASCII
    )  # fmt: skip
    assert made == line


@pytest.mark.parametrize(
    ("estimates", "finished", "running", "workers", "expected"),
    [
        ({}, set(), {}, 1, None),
        ({"a": None}, set(), {}, 1, None),
        ({"a": 4.0, "b": 6.0}, set(), {}, 1, (10.0, True)),
        ({"a": 4.0, "b": 6.0}, set(), {}, 2, (6.0, True)),
        ({"a": 4.0, "b": 6.0}, {"b"}, {"a": 1.0}, 2, (3.0, True)),
        ({"a": 4.0, "b": None}, set(), {"a": 9.0}, 1, (0.0, False)),
        ({"a": 4.0}, {"a"}, {}, 1, None),
    ],
)
def test_time_left(estimates, finished, running, workers, expected):
    assert progress.time_left(estimates, finished, running, workers) == expected


def test_the_live_line_comes_and_goes():
    screen, now = Screen(), [0.0]
    terminal = Terminal(screen, {"NO_COLOR": "1"}, width=80, workers=2, clock=lambda: now[0])
    terminal.header(INFO._replace(lanes=()), {"a:x": 10.0, "a:y": 20.0})
    begin = len(screen.getvalue())
    terminal.start("a:x")
    now[0] = 5.0
    terminal.start("a:y")
    terminal.finish(COMPILE._replace(name="a:x", seconds=5.0))
    terminal.close()
    wipe = "\r\x1b[K"
    blank, half = "░" * 20, "█" * 10 + "░" * 10
    assert screen.getvalue()[begin:] == (
        f"{wipe}{blank} 0/2  a:x  about 20 s left"
        f"{wipe}{blank} 0/2  a:x, a:y  about 20 s left"
        f"{wipe}.  a:x   passed              5.00 s   3 cases\n"
        f"{half} 1/2  a:y  about 20 s left"
        f"{wipe}"
    )


def test_a_resize_is_followed(monkeypatch):
    screen, sizes = Screen(), [100, 30]
    monkeypatch.setattr(screen, "fileno", lambda: 1, raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((sizes.pop(0) if len(sizes) > 1 else 30, 24)))
    terminal = Terminal(screen, {"NO_COLOR": "1"}, clock=lambda: 0.0)
    terminal.start("a" * 60)
    terminal.start("b" * 60)
    terminal.close()
    first, second, _ = screen.getvalue().split("\r\x1b[K")[1:]
    assert 60 < len(first) <= 99
    assert len(second) <= 29


def test_many_threads_never_tear_a_line():
    screen = Screen()
    terminal = Terminal(screen, {"NO_COLOR": "1"}, width=60, workers=8)
    names = [f"lane:check{number}" for number in range(80)]
    terminal.header(INFO._replace(lanes=()), dict.fromkeys(names, 0.1))

    def work(part: int) -> None:
        for name in names[part::8]:
            terminal.start(name)
            terminal.finish(COMPILE._replace(name=name))

    threads = [threading.Thread(target=work, args=(part,)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    terminal.close()
    lines = [line for line in shown(screen.getvalue()).splitlines() if line.startswith(".")]
    assert sorted(lines) == sorted(f".  {name:<12}   passed              1.42 s   3 cases" for name in names)


def test_the_ticker_redraws_and_ends():
    screen = Screen()
    terminal = Terminal(screen, {"NO_COLOR": "1"}, width=60)
    moved = iter(range(10**6))
    terminal._clock = lambda: float(next(moved))
    terminal.start("a:x")
    deadline = time.monotonic() + 30
    while screen.getvalue().count("\r\x1b[K") < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    terminal.close()
    assert screen.getvalue().count("\r\x1b[K") >= 3
    assert screen.getvalue().endswith("\r\x1b[K")
    after = screen.getvalue()
    assert terminal._ended.is_set()
    terminal.finish(COMPILE._replace(name="a:x"))
    assert screen.getvalue() == after + ".  a:x   passed       1.42 s   3 cases\n"


# Streams that end.


class Broken(Pipe):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.tries = 0

    def write(self, _text):
        self.tries += 1
        raise OSError(self.number, os.strerror(self.number))


def test_a_closed_pipe_ends_the_output_only(capsys):
    stream = Broken(errno.EPIPE)
    assert tell(stream) == ""
    assert stream.tries == 1
    assert capsys.readouterr().err == ""


def test_a_full_disk_is_said_once(capsys):
    tell(Broken(errno.ENOSPC))
    assert capsys.readouterr().err == f"touchgate: the output ends here: {os.strerror(errno.ENOSPC)}\n"


def test_a_closed_stream_is_no_traceback():
    stream = Pipe()
    stream.close()
    terminal = Terminal(stream, {})
    terminal.header(INFO)
    terminal.summary(INFO)


PROGRAM = """
import os, sys, time
from touchgate.reports.model import LaneReport, RunReport
from touchgate.reports.terminal import Terminal
info = RunReport(None, None, None, "", "", "", None, None, 0, "smoke", (LaneReport("a", "skip", "r"),))
terminal = Terminal(sys.stdout, os.environ)
sys.stdin.readline()
for number in range(2000):
    terminal.note(f"line {number} " + "x" * 100)
terminal.summary(info)
sys.exit(3)
"""


def test_head_as_the_reader_leaves_the_exit_code():
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    process.stdin.write(b"go\n")
    process.stdin.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), said) == (3, b"")


# Text.


@given(st.text(), st.integers(0, 40))
def test_clip_never_exceeds(text, width):
    made = style.clip(style.printable(text), width)
    assert style.cells(made) <= width


@given(st.binary(max_size=20))
def test_any_file_name_is_printable_on_one_line(name):
    assert style.printable(os.fsdecode(name)).isprintable()


def test_wide_characters_count_twice():
    assert style.cells("行列a") == 5
    assert style.cells("e\u0301") == 1
    assert style.pad("行", 4) == "行  "
    assert style.clip("行列行列", 7) == "行列..."


def test_an_unknown_encoding_is_ascii():
    assert style.encodable("ä", "no-such-code") == "\\xe4"
    assert style.encodable("ä", None) == "\\xe4"

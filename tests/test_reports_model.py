"""The exit code over every combination, the counts, the words."""

from __future__ import annotations

import doctest
import importlib
import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.outcome import Verdict
from touchgate.reports import resources, words
from touchgate.reports.model import WORDS, CheckReport, LaneReport, RunReport, exit_code, repeat, unproven

RUN = LaneReport("gemv", "run", "kernels/gemv/gemv.cu (M) matches kernels/gemv/**")
SKIP = LaneReport("scan", "skip", "no path matches")


def check(verdict: Verdict | None, name: str = "gemv:kernel", **more: object) -> CheckReport:
    return CheckReport(name, name.partition(":")[0], "kernel", verdict=verdict, **more)


def report(*checks: CheckReport, lanes: tuple[LaneReport, ...] = (RUN, SKIP), **more: object) -> RunReport:
    blank = RunReport("a" * 40, "b" * 40, "c" * 40, "", "", "", None, None, 1, "smoke", lanes)
    return blank._replace(checks=checks, **more)


PASS = check(Verdict.PASSED)
EMULATED = check(Verdict.PASSED, "gemv:emulated", device="emulated", wants_gpu=True)
ON_GPU = check(Verdict.PASSED, "gemv:gpu", device="NVIDIA H200", wants_gpu=True)
HOST = check(Verdict.PASSED, "gemv:compile")


@pytest.mark.parametrize(
    ("checks", "plain", "required"),
    [
        ((PASS,), 0, 0),
        ((HOST,), 0, 0),
        ((PASS._replace(cached=True),), 0, 0),
        ((EMULATED,), 0, 2),
        ((EMULATED._replace(cached=True),), 0, 2),
        ((ON_GPU,), 0, 0),
        ((check(Verdict.FAILED),), 1, 1),
        ((check(Verdict.TIMED_OUT),), 1, 1),
        ((check(Verdict.ERROR),), 2, 2),
        ((check(Verdict.UNMEASURED),), 2, 2),
        ((check(None),), 2, 2),
        ((), 2, 2),
        ((PASS, check(Verdict.UNMEASURED, "gemv:benchmark")), 0, 2),
        ((PASS, check(Verdict.ERROR, "gemv:other")), 2, 2),
        ((PASS, check(None, "gemv:other")), 2, 2),
        ((check(Verdict.ERROR), check(Verdict.FAILED, "gemv:other")), 1, 1),
        ((PASS, check(Verdict.TIMED_OUT, "gemv:other"), check(None, "gemv:last")), 1, 1),
        ((PASS._replace(lane="another"),), 2, 2),
    ],
)
def test_exit_code_of_checks(checks, plain, required):
    assert exit_code(report(*checks)) == plain
    assert exit_code(report(*checks), require_device=True) == required


def test_nothing_touched_is_zero():
    assert exit_code(report(lanes=(SKIP,)), require_device=True) == 0
    assert exit_code(report(lanes=()), require_device=True) == 0


def test_each_running_lane_needs_a_pass_of_its_own():
    other = RUN._replace(name="rmsnorm")
    assert exit_code(report(PASS, lanes=(RUN, other))) == 2
    assert exit_code(report(PASS, check(Verdict.PASSED, "rmsnorm:kernel"), lanes=(RUN, other))) == 0


@pytest.mark.parametrize("flags", list(itertools.product([False, True], repeat=4)))
@pytest.mark.parametrize("verdict", [None, *Verdict])
def test_the_first_that_applies(flags, verdict):
    interrupted, unfit, refused, required = flags
    code = exit_code(
        report(check(verdict)),
        interrupted=interrupted,
        unfit=unfit,
        lease_refused=refused,
        require_device=required,
    )
    by_verdict = {Verdict.PASSED: 0, Verdict.FAILED: 1, Verdict.TIMED_OUT: 1}.get(verdict, 2)
    expected = 130 if interrupted else 69 if unfit else 75 if refused else by_verdict
    assert code == expected


checks_of_any_kind = st.lists(
    st.builds(
        check,
        st.sampled_from([None, *Verdict]),
        st.sampled_from(["gemv:a", "gemv:b", "gemv:c"]),
        cached=st.booleans(),
        device=st.sampled_from([None, "emulated", "NVIDIA H200"]),
        wants_gpu=st.booleans(),
    ),
    max_size=6,
)


@given(checks_of_any_kind, st.booleans())
def test_zero_needs_a_pass_and_nothing_broken(checks, required):
    made = report(*checks)
    code = exit_code(made, require_device=required)
    verdicts = {one.verdict for one in checks}
    assert (code == 1) == bool(verdicts & {Verdict.FAILED, Verdict.TIMED_OUT})
    if code == 0:
        assert Verdict.PASSED in verdicts
        assert verdicts <= {Verdict.PASSED, Verdict.UNMEASURED}
        assert unproven(made, require_device=required) == ()
        if required:
            assert verdicts == {Verdict.PASSED}
            assert not any(one.wants_gpu and one.device == "emulated" for one in checks)
    if code == 2:
        assert unproven(made, require_device=required)
    # Asking for more never makes a run better.
    assert code <= exit_code(made, require_device=True) or code == 1


@given(checks_of_any_kind)
def test_counts_sum_up(checks):
    counts = report(*checks).counts
    assert sum(counts.values()) == len(checks)
    assert list(counts) == ["passed", "failed", "error", "timed_out", "unmeasured", "cached", "never_reached"]


def test_only_a_pass_counts_as_cached():
    made = report(check(Verdict.PASSED, cached=True), check(Verdict.FAILED, "gemv:b", cached=True))
    assert made.counts["cached"] == 1
    assert made.counts["failed"] == 1


def test_unproven_names_each_cause():
    other = RUN._replace(name="rmsnorm")
    made = report(
        check(Verdict.ERROR), check(None, "gemv:late"), check(Verdict.UNMEASURED, "gemv:bench"), EMULATED,
        lanes=(RUN, other, SKIP),
    )  # fmt: skip
    assert unproven(made, require_device=True) == (
        "gemv:kernel: could not be run",
        "gemv:late: never reached",
        "lane rmsnorm: it runs, but no check of it was run",
        "gemv:bench: unmeasured, and --require-device asks for a measurement",
        "gemv:emulated: passed emulated only, and --require-device asks for the GPU",
    )


def test_every_verdict_has_a_word():
    assert set(WORDS) == set(Verdict)


@pytest.mark.parametrize(
    ("made", "word"),
    [
        (PASS, "passed"),
        (EMULATED, "passed (emulated)"),
        (PASS._replace(cached=True), "cached"),
        (EMULATED._replace(cached=True), "cached (emulated)"),
        (check(Verdict.FAILED, device="emulated"), "FAILED (emulated)"),
        (check(Verdict.TIMED_OUT), "TIMED OUT"),
        (check(Verdict.ERROR), "ERROR"),
        (check(Verdict.UNMEASURED), "unmeasured"),
        (check(None), "never reached"),
    ],
)
def test_word(made, word):
    assert made.word == word


def test_repeat_is_fit_for_a_shell():
    assert repeat("gemv:kernel", "smoke") == "doit --fresh gemv:kernel"
    assert repeat("gemv:benchmark", "full") == "doit --fresh --suite full gemv:benchmark"
    assert repeat("odd:a b;c", "smoke") == "doit --fresh 'odd:a b;c'"


def test_over_target():
    assert RUN._replace(minutes=1, seconds=61).over_target
    assert not RUN._replace(minutes=1, seconds=60).over_target
    assert not SKIP._replace(minutes=1, seconds=61).over_target


@pytest.mark.parametrize("name", ["style", "words", "progress", "markdown"])
def test_the_examples_in_docstrings(name):
    failed, tried = doctest.testmod(importlib.import_module(f"touchgate.reports.{name}"))
    assert tried > 0
    assert failed == 0


@given(st.floats(0, 1e6))
def test_durations_never_show_a_rounded_up_unit(seconds):
    text = words.duration(seconds)
    assert not re.search(r"\b60 (s|min)", text)
    assert "100.0" not in text
    assert "10.00" not in text


@pytest.mark.parametrize(
    ("worst", "failed", "text"),
    [
        (None, True, ""),
        ({}, True, ""),
        ({"error": 0.031, "bound": 0.01, "index": [17, 4], "case": "f16"}, True,
         "max err 3.1e-02 > 1.0e-02 at [17, 4] in f16"),
        ({"error": 1e-6, "bound": 1e-5, "index": [3], "case": "f32"}, False, "max err 1.0e-06 (bound 1.0e-05)"),
        ({"error": 0.0, "bound": 0}, False, "exact"),
        ({"error": 0.0, "bound": 0.5}, False, "max err 0 (bound 5.0e-01)"),
        ({"error": float("nan"), "bound": None, "index": []}, True, "max err nan"),
        ({"error": "NaN against 1", "index": 3}, True, "max err NaN against 1 at 3"),
    ],
)  # fmt: skip
def test_worst_error(worst, failed, text):
    assert words.worst_error(worst, failed=failed) == text


def compiled(*numbers: tuple[str, str, int, int]) -> dict[str, object]:
    architectures: dict[str, dict[str, object]] = {}
    for architecture, kernel, registers, spilled in numbers:
        architectures.setdefault(architecture, {})[kernel] = {
            "registers": registers, "spill_loads": spilled, "spill_stores": 0,
        }  # fmt: skip
    return {"architectures": architectures}


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({}, ""),
        ({"architectures": None}, ""),
        ({"architectures": {"87": {"k": {"registers": None}}}}, ""),
        (compiled(("87", "k", 30, 0), ("121", "k", 70, 0)), "at most 70 registers, no spills"),
        (compiled(("87", "k", 30, 8)), "at most 30 registers, 8 B spilled by k on 87"),
        (compiled(("87", "k", 30, 8), ("87", "l", 9, 16)), "at most 30 registers, 16 B spilled by l on 87 and 1 more"),
    ],
)
def test_registers_in_words(facts, text):
    assert resources.in_words(facts) == text


def test_short_commit():
    assert words.short("3f2c1aa" + "0" * 33) == "3f2c1aa"
    assert words.short("refs/heads/main") == "refs/heads/main"
    assert words.short(None) == "unknown"


def test_a_time_that_is_none_stays():
    assert words.moment("yesterday") == "yesterday"

"""What a run under compute-sanitizer came to, from its report, its exit status, and what the program under it left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.test_sanitizer_text import CLEAN, CLEAN_RACES, CRASHED, MEMORY, NO_PROGRAM, NO_SUCH, NOT_WHOLE, hazard
from touchgate.checks.sanitizers import FOUND
from touchgate.checks.sanitizing import Ended, judged, shown
from touchgate.outcome import Outcome, Verdict

PY, CU = "kernels/scale/scale.py", "kernels/scale/scale.cu"
PASS = Outcome(Verdict.PASSED, device="NVIDIA H200", cases=6, facts={"launches": 12, "watched": True})
RACES = "========= COMPUTE-SANITIZER\n" + hazard(33, 0)
OTHER_FORM = "========= COMPUTE-SANITIZER\n========= A fault in words of tomorrow\n========= ERROR SUMMARY: 2 errors\n"
UNFIT = "Error: Detected an unsupported driver version. Please update your CUDA installation to 13.0 or newer"
LOST = "Internal Sanitizer Error: The Sanitizer encountered an error while launching sum and didn't track the launch."
DISAGREE = "they must agree"


def said(line: str) -> str:
    return CLEAN.replace("========= ERROR", f"========= {line}\n========= ERROR")


@pytest.mark.parametrize(
    ("text", "status", "reply", "verdict", "words"),
    [
        (CLEAN, 0, PASS, "passed", ""),
        # The exit status and the text must agree.
        (CLEAN, FOUND, PASS, "failed", DISAGREE),
        (MEMORY, 0, PASS, "failed", DISAGREE),
        (MEMORY, 1, PASS, "failed", DISAGREE),
        (MEMORY, FOUND, PASS, "failed", "Invalid __global__ write"),
        (MEMORY.replace("3 errors", "0 errors"), FOUND, PASS, "failed", DISAGREE),
        (MEMORY.replace("3 errors", "0 errors"), 0, PASS, "failed", DISAGREE),
        ("", FOUND, PASS, "failed", DISAGREE),
        # A program that fails of the fault itself has the tool end with another status, and say so.
        (
            f"{MEMORY}========= Error: process didn't terminate successfully\n",
            134,
            None,
            "failed",
            "memcheck: Invalid __global__",
        ),
        (f"{MEMORY}========= Target application returned an error\n", 1, PASS, "failed", "memcheck: Invalid __global__"),
        (f"{MEMORY}========= Target application returned an error\n", 0, PASS, "failed", DISAGREE),
        (OTHER_FORM, FOUND, PASS, "failed", "counts 2 faults, in words that are not understood"),
        (OTHER_FORM, 0, PASS, "failed", DISAGREE),
        # Cut off, crashed, or never begun.
        (MEMORY[:400], FOUND, None, "failed", "Invalid __global__ write"),
        (RACES, FOUND, PASS, "failed", "Potential RAW hazard"),
        (CLEAN[:-8], 0, PASS, "error", "memcheck says more than a clean report does (status 0): ERROR SUMMARY: 0"),
        ("========= COMPUTE-SANITIZER\n", 0, PASS, "error", "cut off: it has no last line"),
        ("========= COMPUTE-SANITIZER\n", -11, None, "error", "cut off: it has no last line (status -11)"),
        ("", 0, PASS, "error", "memcheck wrote no report and ended with status 0: last words"),
        ("", -11, None, "error", "memcheck wrote no report and ended with status -11: last words"),
        ("", 255, None, "error", "memcheck wrote no report and ended with status 255: last words"),
        (CLEAN, 255, PASS, "error", "counts no faults, but ended with status 255"),
        (CLEAN, 1, None, "error", "counts no faults, but ended with status 1"),
        # It watched nothing.
        (NO_PROGRAM, 255, None, "error", "found no CUDA program to watch (status 255): Error: Target application terminated"),
        (NO_PROGRAM, 0, PASS, "error", "found no CUDA program to watch (status 0)"),
        (CRASHED, 255, None, "error", "found no CUDA program to watch (status 255): Error: Target application terminated"),
        (NOT_WHOLE, 13, None, "error", "Unable to find injection library"),
        (NO_SUCH, 1, None, "error", "doesn't exist or is not a valid executable"),
        (
            said("Error: No attachable process found. compute-sanitizer timed-out."),
            0,
            PASS,
            "error",
            "no CUDA program to watch",
        ),
        (CLEAN, 0, None, "error", "the program under it left no result"),
        (CLEAN, 0, replace(PASS, facts={"launches": 12}), "error", "was not loaded into the program"),
        (CLEAN, 0, replace(PASS, facts={"watched": False, "launches": 12}), "error", "was not loaded into the program"),
        (CLEAN, 0, replace(PASS, facts={"watched": True}), "error", "no kernel was launched"),
        (CLEAN, 0, replace(PASS, facts={"watched": True, "launches": 0}), "error", "no kernel was launched"),
        (said(LOST), 0, PASS, "error", "says more than a clean report does (status 0): Internal Sanitizer Error"),
        (said("Target application returned an error"), 0, PASS, "error", "says more than a clean report does"),
        # Driver and GPU that it can't watch.
        (said(UNFIT), 0, PASS, "unmeasured", "can't watch this GPU with this driver: Error: Detected an unsupported driver"),
        (f"========= COMPUTE-SANITIZER\n========= {UNFIT}\n", 1, None, "unmeasured", "unsupported driver version"),
        (
            said("Error: Device not supported. Please refer to the documentation"),
            0,
            None,
            "unmeasured",
            "Device not supported",
        ),
        (said(UNFIT).replace("0 errors", "1 error"), FOUND, None, "unmeasured", "unsupported driver version"),
        (MEMORY + f"========= {UNFIT}\n", FOUND, PASS, "failed", "Invalid __global__ write"),
        # There the program meets errors that are none of its own.
        (
            said("Error: Device not supported."),
            0,
            Outcome(Verdict.ERROR, reason="error 999"),
            "unmeasured",
            "Device not supported",
        ),
        # What the child says itself.
        (NO_PROGRAM, 255, Outcome(Verdict.UNMEASURED, reason="no PyCUDA"), "unmeasured", "no PyCUDA"),
        (CLEAN, 0, Outcome(Verdict.ERROR, reason=f"{PY}:3: case 'x'"), "error", f"{PY}:3: case 'x'"),
        (CLEAN, 0, replace(PASS, verdict=Verdict.FAILED, reason="y[3]: got 1"), "failed", "under memcheck: y[3]: got 1"),
        (MEMORY, FOUND, Outcome(Verdict.ERROR, reason="x"), "failed", "Invalid __global__ write"),
    ],
)
def test_only_a_whole_clean_report_of_a_watched_program_passes(text, status, reply, verdict, words):
    outcome = judged("memcheck", Ended(status, text, ("n=1", "last words", ""), reply))
    assert outcome.verdict.value == verdict
    assert words in outcome.reason
    assert words == DISAGREE or DISAGREE not in outcome.reason
    assert ("cut off" in "".join((*outcome.detail, outcome.reason))) == (text in (MEMORY[:400], RACES) or "cut off" in words)


@pytest.mark.parametrize(("text", "verdict"), [(CLEAN, "passed"), ("", "unmeasured")])
def test_the_program_s_own_words_say_nothing_of_the_gpu_beside_a_report(text, verdict):
    assert judged("memcheck", Ended(0, text, ("Error: Device not supported",), PASS)).verdict.value == verdict


def test_every_cut_of_a_clean_report_and_every_status_is_no_pass():
    for text in (CLEAN, CLEAN_RACES):
        for length in range(len(text) - 1):
            assert judged("memcheck", Ended(0, text[:length], (), PASS)).verdict is not Verdict.PASSED
        for status in (*range(1, 256), -6, -9, -11, -15):
            assert judged("memcheck", Ended(status, text, (), PASS)).verdict is not Verdict.PASSED


def test_many_faults_are_counted_and_some_are_shown():
    records = "".join(
        f"========= Invalid __global__ read of size 4 bytes\n=========     at k()+0x1 in a.cu:{line}\n=========\n"
        for line in range(1, 31)
    )
    text = f"========= COMPUTE-SANITIZER\n{records}========= ERROR SUMMARY: 30 errors\n"
    outcome = judged("memcheck", Ended(FOUND, text, (), PASS))
    assert len(outcome.detail) == 21
    assert outcome.detail[-1] == "and 10 more"
    assert len(outcome.facts["findings"]) == 20


def test_a_file_is_named_from_the_root(tmp_path):
    for name in (CU, "kernels/common/sum.cuh"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    for file, name in (
        (f"{tmp_path}/{CU}", CU),
        (f"{tmp_path}/kernels/scale/../common/sum.cuh", "kernels/common/sum.cuh"),
        ("/another/clone/kernels/common/sum.cuh", "kernels/common/sum.cuh"),
        ("scale.cu", CU),
        ("/usr/include/else.h", "/usr/include/else.h"),
        ("", ""),
    ):
        assert shown(file, CU, tmp_path) == name

"""What compute-sanitizer writes, read. The texts are in its manual's form, with kernels of our own, unless marked as seen."""

from __future__ import annotations

import pytest

from touchgate.checks.sanitizer_text import Finding, Place, Report, read

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
CLEAN_RACES = "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"

# Seen: 13.0 (2025.3.1) and 13.4 (2026.3.0, a line shortened), over programs that never came to call CUDA; 12.9 without one
# of its libraries; a program that is not there.
NO_PROGRAM = """\
========= COMPUTE-SANITIZER
========= Error: Target application terminated before first instrumented API call
========= Tracking kernels launched by child processes requires the --target-processes all option.
========= Error: couldn't find exit code.
"""
CRASHED = """\
========= COMPUTE-SANITIZER
========= Error: process didn't terminate successfully
=========     The application may have hit an error when dereferencing Unified Memory from the host. Please rerun it.
========= Error: Target application terminated before first instrumented API call
========= Tracking kernels launched by child processes requires the --target-processes all option.
"""
NOT_WHOLE = "========= COMPUTE-SANITIZER\n========= Unable to find injection library libsanitizer-collection.so\n"
NO_SUCH = "========= COMPUTE-SANITIZER\n========= Target application doesn't exist or is not a valid executable\n"

MEMORY = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at store(float *, int, float)+0x70 in /home/ada/k/tail.cuh:12
=========     by thread (40,0,0) in block (3,0,0)
=========     Access to 0x7f1e2fa00fa0 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f1e2fa00000 of size 4,000 bytes
=========         Device Frame: scale(const float *, float *, int)+0x30 in /home/ada/k/scale.cu:31
=========
========= Invalid __global__ write of size 4 bytes
=========     at store(float *, int, float)+0x70 in /home/ada/k/tail.cuh:12
=========     by thread (41,0,0) in block (3,0,0)
=========     Access to 0x7f1e2fa00fa4 is out of bounds
=========     and is 5 bytes after the nearest allocation at 0x7f1e2fa00000 of size 4,000 bytes
=========         Device Frame: scale(const float *, float *, int)+0x30 in /home/ada/k/scale.cu:31
=========
========= Invalid __shared__ read of size 16 bytes
=========     at void team<float, (int)4>(float *)+0x1a0 in /home/ada/k/team.cu:7
=========     by thread (0,0,0) in block (0,2,1)
=========     Address 0x404 is misaligned
=========
========= ERROR SUMMARY: 3 errors
"""

SCALE = Finding(
    "memory",
    "Invalid __global__ write of size 4 bytes, out of bounds",
    "scale",
    Place("store(float *, int, float)", "/home/ada/k/tail.cuh", 12),
    None,
    "(40,0,0)",
    "(3,0,0)",
    2,
    (
        "Access to 0x7f1e2fa00fa0 is out of bounds",
        "and is 1 bytes after the nearest allocation at 0x7f1e2fa00000 of size 4,000 bytes",
    ),
)
TEAM = Finding(
    "memory",
    "Invalid __shared__ read of size 16 bytes, misaligned",
    "team",
    Place("void team<float, (int)4>(float *)", "/home/ada/k/team.cu", 7),
    None,
    "(0,0,0)",
    "(0,2,1)",
    1,
    ("Address 0x404 is misaligned",),
)


@pytest.mark.parametrize("text", [CLEAN, CLEAN_RACES, CLEAN.replace("=========", " ========="), CLEAN + "=========\n\n"])
def test_a_clean_report_says_nothing_else(text):
    assert read(text) == Report(headed=True, findings=(), total=0, notices=())


def test_memory_faults_have_kernel_line_and_thread_and_are_folded():
    assert read(MEMORY) == Report(headed=True, findings=(SCALE, TEAM), total=3, notices=())
    assert [one.line() for one in read(MEMORY).findings] == [
        (
            "Invalid __global__ write of size 4 bytes, out of bounds: scale, /home/ada/k/tail.cuh:12, "
            "thread (40,0,0), block (3,0,0) (2 times)"
        ),
        "Invalid __shared__ read of size 16 bytes, misaligned: team, /home/ada/k/team.cu:7, thread (0,0,0), block (0,2,1)",
    ]


def test_what_else_shared_memory_can_do_wrong_is_a_fault_too():
    text = """\
========= COMPUTE-SANITIZER
========= Potential invalid __shared__ read of size 4 bytes
=========     at far(int *, int)+0x170 in pair.cu:10
=========     by thread (0,0,0) in block (1,0,0)
=========     Address 0x1000400 is located in a block that might have already exited
=========
========= Stack overflow
=========     at deep(int *)+0x10 in pair.cu:20
=========     by thread (2,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 2 errors
"""
    found = read(text).findings
    assert [(one.kind, one.what, one.kernel, str(one.place)) for one in found] == [
        ("memory", "Potential invalid __shared__ read of size 4 bytes", "far", "pair.cu:10"),
        ("memory", "Stack overflow", "deep", "pair.cu:20"),
    ]


def test_a_fault_without_line_numbers_and_one_without_a_place():
    text = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 8 bytes
=========     at unaligned()+0x50
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x710fdca00001 is misaligned
=========
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) due to "launch failure" on CUDA API call to cuCtxSynchronize.
=========
========= ERROR SUMMARY: 2 errors
"""
    first, second = read(text).findings
    assert first.place == Place("unaligned()", "", 0)
    assert first.line() == (
        "Invalid __global__ read of size 8 bytes, misaligned: unaligned, no line known, thread (0,0,0), block (0,0,0)"
    )
    assert (second.kind, second.kernel, second.thread) == ("api", "", "")
    assert second.line().endswith("cuCtxSynchronize: no kernel named, no line known")


def hazard(write: int, read_by: int, byte: int = 0, severity: str = "Error") -> str:
    return f"""\
========= {severity}: Potential RAW hazard detected at __shared__ 0x{byte:x} in block (2,0,0) :
=========     Write Thread ({write},0,0) at sum(float *)+0x120 in /k/sum.cu:16
=========     Read Thread ({read_by},0,0) at sum(float *)+0x150 in /k/sum.cu:20
=========     Current Value : 0
=========
"""


ANALYSIS = """\
========= Error: Race reported between Write access at sum(float *)+0x120 in /k/sum.cu:16
=========     and Read access at sum(float *)+0x150 in /k/sum.cu:20 [1,508 hazards]
=========     and Write access at sum(float *)+0x180 in /k/sum.cu:22 [4 hazards]
=========
"""
SUM = "sum(float *)"
BOTH = [
    Finding(
        "race",
        "Potential RAW hazard detected",
        "sum",
        Place(SUM, "/k/sum.cu", 16),
        Place(SUM, "/k/sum.cu", 20),
        "(33,0,0)",
        "(2,0,0)",
        1508,
    ),
    Finding("race", "race between write and read", "sum", Place(SUM, "/k/sum.cu", 16), Place(SUM, "/k/sum.cu", 22), count=4),
]


def test_single_hazards_and_the_analysis_of_them_are_one_fault():
    one, other = hazard(33, 0), hazard(34, 1, 4)
    for records in ((one, other, ANALYSIS), (ANALYSIS, one, other), (one, ANALYSIS, other)):
        summary = "========= RACECHECK SUMMARY: 3 hazards displayed (3 errors, 0 warnings)\n"
        report = read("========= COMPUTE-SANITIZER\n" + "".join(records) + summary)
        assert (report.total, report.notices) == (3, ())
        assert list(report.findings) == BOTH
    assert BOTH[0].line() == (
        "Potential RAW hazard detected: sum, /k/sum.cu:16 and /k/sum.cu:20, thread (33,0,0), block (2,0,0) (1,508 times)"
    )


@pytest.mark.parametrize("severity", ["Error", "ERROR", "Warning", "WARN", "Info"])
def test_a_hazard_of_any_severity_is_seen(severity):
    (found,) = read(hazard(33, 0, severity=severity)).findings
    assert (found.what, found.count) == ("Potential RAW hazard detected", 1)
    (found,) = read(hazard(33, 0, severity=f"{severity}: (Warp Level Programming)").replace("): P", ") P")).findings
    assert found.other == Place(SUM, "/k/sum.cu", 20)


def test_uninitialised_reads():
    text = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at add(const int *, int *)+0x70 in /k/add.cu:41
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= Host API memory access error at host access to 0x7f14c9e00200 of size 16 bytes
=========     Uninitialized access to 0x7f14c9e00208 on access by cudaMemcpy source
=========
========= ERROR SUMMARY: 2 errors
"""
    first, second = read(text).findings
    assert first.line() == (
        "Uninitialized __global__ memory read of size 4 bytes: add, /k/add.cu:41, thread (31,0,0), block (1,0,0)"
    )
    assert (second.kind, second.what) == ("init", "Host API memory access error")
    assert second.more == ("Uninitialized access to 0x7f14c9e00208 on access by cudaMemcpy source",)


def test_barriers():
    text = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in warp
=========     at half(float *)+0xf0 in /k/half.cu:9
=========     by thread (37,0,0) in block (0,0,0)
=========
 ========= Barrier error detected. Divergent thread(s) in block.
 =========     at [clone half(float *)] outlined()+0x11f0 in /k/half.cu:42
 =========     by thread (32,0,0) in block (0,0,0)
 =========         Device Frame: half(float *)+0xe40 in /k/half.cu:60
 =========
========= Barrier error detected. Invalid arguments
=========     at __cuda_sm70_warpsync+0x30
=========     by thread (0,0,0) in block (0,0,0)
=========     Device Frame:__syncwarp(unsigned int)+0xf0 in /cuda/include/sm_30_intrinsics.hpp:110
=========     Device Frame:half(float *)+0x3c0 in /k/half.cu:48
=========
========= ERROR SUMMARY: 3 errors
"""
    assert [one.line() for one in read(text).findings] == [
        "Barrier error detected. Divergent thread(s) in warp: half, /k/half.cu:9, thread (37,0,0), block (0,0,0)",
        "Barrier error detected. Divergent thread(s) in block: half, /k/half.cu:42, thread (32,0,0), block (0,0,0)",
        "Barrier error detected. Invalid arguments: half, no line known, thread (0,0,0), block (0,0,0)",
    ]


def test_the_form_of_releases_before_2023():
    text = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at 0xa0a50 in /cuda/include/load.cuh:272:load<float>
=========     by thread (30,0,0) in block (1,0,0)
=========     Address 0x7f65e5204710
=========     Device Frame:/k/add.cu:119:add [0x10]
=========
========= Invalid __global__ read of size 4 bytes
=========     at 0x150 in void add(float *)
=========     by thread (1,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
"""
    first, second = read(text).findings
    assert (first.kernel, first.place) == ("add", Place("load<float>", "/cuda/include/load.cuh", 272))
    assert (second.kernel, second.place.file) == ("add", "")


@pytest.mark.parametrize(
    ("text", "notices"),
    [
        (
            NO_PROGRAM,
            (
                "Error: Target application terminated before first instrumented API call",
                "Tracking kernels launched by child processes requires the --target-processes all option.",
                "Error: couldn't find exit code.",
            ),
        ),
        (NOT_WHOLE, ("Unable to find injection library libsanitizer-collection.so",)),
        (NO_SUCH, ("Target application doesn't exist or is not a valid executable",)),
    ],
)
def test_what_the_tool_says_of_itself_is_no_fault_and_no_clean_report(text, notices):
    assert read(text) == Report(headed=True, findings=(), total=None, notices=notices)


@pytest.mark.parametrize(
    "line",
    [
        "Internal Sanitizer Error: The Sanitizer encountered an error while launching sum and didn't track the launch.",
        "Warning: Detected overflow of tracked cuda::barrier structures. Results might be incorrect.",
        "Error in printing record",
        "Target application returned an error",
        "Something that no release says yet",
    ],
)
def test_any_other_line_in_a_clean_report_is_kept(line):
    assert read(CLEAN.replace("========= ERROR", f"========= {line}\n========= ERROR")).notices == (line,)


def test_a_line_without_the_prefix_is_kept():
    assert read(CLEAN + "segmentation fault\n").notices == ("segmentation fault",)


def test_a_report_that_is_cut_off_has_no_total():
    for text in (MEMORY, CLEAN, CLEAN_RACES):
        for length in range(len(text) - 1):
            assert read(text[:length]).total is None


def test_what_was_not_printed_is_no_notice():
    more = "========= ERROR SUMMARY: 3900 errors were not printed. Use --print-limit option to adjust the number\n"
    report = read(MEMORY.replace("3 errors", "3,903 errors") + more)
    assert (report.total, report.notices) == (3903, ())


def test_nothing_at_all():
    assert read("") == Report(headed=False, findings=(), total=None, notices=())

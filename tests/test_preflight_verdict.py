"""Fit, not fit, or unknown: the verdict as a table of what was read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.devices.preflight.settings import Settings
from touchgate.devices.preflight.values import Answer, Finding, GpuReading, Listed, Reading, size
from touchgate.devices.preflight.verdict import by_settings, judge, with_command
from touchgate.processes import Process

GIB = 1 << 30
ADA = Process(4121, "ada", "python", "python train.py", 1_796_100_000.0)
XORG = Process(900, "root", "Xorg", "Xorg :0", None)
MPS = Process(77, "root", "nvidia-cuda-mps-server", "nvidia-cuda-mps-server", None)


def entry(process=ADA, kind="compute", memory=3 * GIB, uses=True, pid=None, gpu="GPU-a"):
    return Listed(gpu, pid or process.pid, kind, memory, process, uses)


def reading(*listed, gpu=None, **host):
    return Reading(
        gpus=(replace(GpuReading("GPU-a", "NVIDIA H200", tuple(listed), free=100 * GIB, used=0), **(gpu or {})),), **host
    )


WANTS = Settings(free_memory=2 * GIB)
IN_CONTAINER = {"first_namespace": False}
ROWS = {
    # what is read: (reading, settings, answer, words of the line)
    "nobody": (reading(), Settings(), "fit", "the host is fit"),
    "a foreign process": (
        reading(entry()),
        Settings(),
        "not fit",
        "the host is not fit: 1 process is on the GPU that this run did not start",
    ),
    "two": (
        reading(entry(), entry(XORG, "graphics")),
        Settings(),
        "not fit",
        "the host is not fit: 2 processes are on the GPU that this run did not start",
    ),
    "our own": (reading(entry(replace(ADA, pid=5))), Settings(), "fit", "the host is fit"),
    "a desktop that the host does not count": (
        reading(entry(XORG, "graphics")),
        Settings(ignore=frozenset({"Xorg"})),
        "fit",
        "the host is fit",
    ),
    "a desktop that nobody spoke of": (
        reading(entry(XORG, "graphics")),
        Settings(),
        "not fit",
        "the host is not fit: 1 process is on the GPU that this run did not start",
    ),
    "nobody visible has that id": (
        reading(replace(entry(), process=None)),
        Settings(unknown_is_fit=True),
        "not fit",
        "the host is not fit: 1 process is on the GPU that this run did not start",
    ),
    "our own id, which is another's on the host": (
        reading(entry(replace(ADA, pid=5), uses=False), **IN_CONTAINER),
        Settings(),
        "not fit",
        "the host is not fit: 1 process is on the GPU that this run did not start",
    ),
    "our own in a container that translates ids": (
        reading(entry(replace(ADA, pid=5)), gpu={"used": 3 * GIB + 5}, **IN_CONTAINER),
        Settings(),
        "fit",
        "the host is fit",
    ),
    "no list": (
        reading(gpu={"listed": None}),
        Settings(),
        "unknown",
        "whether the host is fit can't be known: GPU-a: its driver lists no processes",
    ),
    "no list, and the host says fit": (
        reading(gpu={"listed": None}),
        Settings(unknown_is_fit=True),
        "fit",
        "the host is fit, by its settings, though it can't be known: GPU-a: its driver lists no processes",
    ),
    "nothing was shown": (Reading(), Settings(), "unknown", "whether the host is fit can't be known: no GPU was shown"),
    "a list of garbage": (
        reading(gpu={"garbage": 1}),
        Settings(),
        "unknown",
        (
            "whether the host is fit can't be known: GPU-a: 1 record makes no sense in its list of processes; "
            "driver unknown and nvidia-ml-py may not fit together"
        ),
    ),
    "garbage behind somebody": (
        reading(entry(), gpu={"garbage": 2}),
        Settings(unknown_is_fit=True),
        "not fit",
        "the host is not fit: 1 process is on the GPU that this run did not start",
    ),
    "a container that sees nobody, memory in use": (
        reading(gpu={"used": 3 * GIB}, **IN_CONTAINER),
        Settings(),
        "unknown",
        "whether the host is fit can't be known: GPU-a: 3.0 GiB of it is in use by nobody who is visible from this container",
    ),
    "a container that sees nobody, no memory to tell": (
        reading(gpu={"used": None}, **IN_CONTAINER),
        Settings(),
        "unknown",
        (
            "whether the host is fit can't be known: GPU-a: processes outside of this container are not shown, and its memory "
            "in use does not tell of them"
        ),
    ),
    "a container on a GPU without use": (reading(gpu={"used": 3 << 20}, **IN_CONTAINER), Settings(), "fit", "the host is fit"),
    "a host that sees nobody, memory in use": (reading(gpu={"used": 3 * GIB}), Settings(), "fit", "the host is fit"),
    "ECC errors": (
        reading(gpu={"uncorrected": 2}),
        Settings(unknown_is_fit=True),
        "not fit",
        (
            "the host is not fit: 2 uncorrected ECC errors on GPU-a since the driver was loaded; "
            "it must be reset or the host restarted"
        ),
    ),
    "no ECC errors": (reading(gpu={"uncorrected": 0}), Settings(), "fit", "the host is fit"),
    "lost": (
        reading(gpu={"unusable": "GPU is lost; the host has to be restarted"}),
        Settings(),
        "not fit",
        "the host is not fit: GPU-a: GPU is lost; the host has to be restarted",
    ),
    "throttled": (
        reading(gpu={"throttled": ("power cap", "power brake")}),
        Settings(),
        "fit",
        "the host is fit, but noisy: GPU-a is slowed down (power cap, power brake)",
    ),
    "clocks that do not answer": (
        reading(gpu={"unclear": ("clocks: Unknown Error",)}),
        Settings(),
        "fit",
        "the host is fit, but noisy: GPU-a: clocks: Unknown Error",
    ),
    "a question refused": (
        reading(gpu={"unasked": ("ECC errors: Unknown Error",)}),
        Settings(),
        "unknown",
        "whether the host is fit can't be known: GPU-a: ECC errors: Unknown Error",
    ),
    "too little memory": (
        reading(gpu={"free": GIB}),
        WANTS,
        "not fit",
        "the host is not fit: 1.0 GiB of memory free on GPU-a, and this host wants 2.0 GiB",
    ),
    "memory enough": (reading(gpu={"free": 2 * GIB}), WANTS, "fit", "the host is fit"),
    "memory that nobody asks for": (reading(gpu={"free": 0}), Settings(), "fit", "the host is fit"),
    "memory unknown": (
        reading(gpu={"free": None}, available=100 * GIB),
        WANTS,
        "unknown",
        "whether the host is fit can't be known: GPU-a: how much of its memory is free (this host wants 2.0 GiB)",
    ),
    "unified memory enough": (reading(gpu={"free": None}, available=2 * GIB, unified=True), WANTS, "fit", "the host is fit"),
    "unified memory short": (
        reading(gpu={"free": None}, available=GIB, unified=True),
        WANTS,
        "not fit",
        "the host is not fit: 1.0 GiB of memory free on GPU-a, and this host wants 2.0 GiB",
    ),
    "unified memory unknown": (
        reading(gpu={"free": None}, unified=True),
        WANTS,
        "unknown",
        "whether the host is fit can't be known: GPU-a: how much of its memory is free (this host wants 2.0 GiB)",
    ),
    "a busy unified host": (
        reading(unified=True, load=0.75, pressure=12.5),
        Settings(),
        "fit",
        "the host is fit, but noisy: load 0.8 for each processor; memory pressure 12.5 %",
    ),
    "a quiet unified host": (reading(unified=True, load=0.5, pressure=1.0), Settings(), "fit", "the host is fit"),
    "a unified host that does not count": (reading(unified=True), Settings(), "fit", "the host is fit"),
    "a busy host with a GPU apart": (reading(load=9.0, pressure=50.0), Settings(), "fit", "the host is fit"),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_answer(row):
    seen, settings, answer, line = ROWS[row]
    found = by_settings(judge(seen, frozenset({5}), settings), settings)
    assert (found.answer.value, found.line()) == (answer, line)
    assert found.exit_code == (0 if answer == "fit" else 69)
    assert found.fit is (answer == "fit")


def test_who_is_named():
    seen = reading(
        entry(),
        entry(kind="graphics", memory=5 * GIB),
        entry(MPS, memory=None),
        replace(entry(), pid=70_000, process=None, memory=GIB),
        entry(Process(9, "bob", "serve", "serve", None, token=17), gpu="MIG-b", memory=20 << 20),
        gpu={"garbage": 1},
    )
    assert judge(seen, frozenset({5}), Settings()).lines() == (
        "the host is not fit: 4 processes are on the GPU that this run did not start",
        "   pid 4121 (ada) python train.py, since 2026-12-01T04:40:00Z, 5.0 GiB on GPU-a (compute, graphics)",
        "   pid 77 (root) nvidia-cuda-mps-server, on GPU-a (compute), which shares the GPU among its clients",
        "   a process whose owner is not visible from here (the driver says pid 70000), 1.0 GiB on GPU-a (compute)",
        "   pid 9 (bob) serve, 20 MiB on MIG-b (compute), left by an earlier run (lease token 17)",
        "   none of them was touched; the run can be repeated when they have ended",
        (
            "   not known: GPU-a: 1 record makes no sense in its list of processes; "
            "driver unknown and nvidia-ml-py may not fit together"
        ),
    )


def test_machine_output():
    found = judge(reading(entry(), gpu={"throttled": ("power cap",)}), frozenset(), Settings())
    assert found.to_json() == {
        "answer": "not fit",
        "owners": [
            {
                "gpu": "GPU-a",
                "pid": 4121,
                "kinds": ["compute"],
                "memory": 3 * GIB,
                "user": "ada",
                "command": "python train.py",
                "since": "2026-12-01T04:40:00Z",
            }
        ],
        "reasons": [],
        "unknown": [],
        "noise": ["GPU-a is slowed down (power cap)"],
        "notes": [],
    }


FIT, UNKNOWN, NOT_FIT = (
    Finding(Answer.FIT),
    Finding(Answer.UNKNOWN, unknown=("x",)),
    Finding(Answer.NOT_FIT, reasons=("y",)),
)
SETTLED = "the host's own command settles what could not be known: x"


@pytest.mark.parametrize(
    ("own", "said", "answer", "reasons", "unknown", "notes"),
    [
        (FIT, FIT, "fit", (), (), ()),
        (FIT, Finding(Answer.UNKNOWN, unknown=("c",)), "unknown", (), ("c",), ()),
        (FIT, Finding(Answer.NOT_FIT, reasons=("c",)), "not fit", ("c",), (), ()),
        (UNKNOWN, FIT, "fit", (), (), (SETTLED,)),
        (UNKNOWN, Finding(Answer.UNKNOWN, unknown=("c",)), "unknown", (), ("x", "c"), ()),
        (UNKNOWN, Finding(Answer.NOT_FIT, reasons=("c",)), "not fit", ("c",), ("x",), ()),
        (NOT_FIT, FIT, "not fit", ("y",), (), ()),
        (NOT_FIT, Finding(Answer.UNKNOWN, unknown=("c",)), "not fit", ("y",), ("c",), ()),
    ],
)
def test_with_the_hosts_own_command(own, said, answer, reasons, unknown, notes):
    both = with_command(own, said)
    assert (both.answer.value, both.reasons, both.unknown, both.notes) == (answer, reasons, unknown, notes)


def test_sizes():
    assert [size(count) for count in (0, 512, 2048, 3 << 20, 15 << 30, 3 << 40, 5000 << 40)] == [
        "0 B",
        "512 B",
        "2.0 KiB",
        "3.0 MiB",
        "15 GiB",
        "3.0 TiB",
        "5000 TiB",
    ]


processes_strategy = st.none() | st.builds(
    Process, pid=st.integers(1, 9), user=st.just("u"), name=st.sampled_from(["Xorg", "python"]), command=st.just("c")
)
listed_strategy = st.builds(
    Listed,
    gpu=st.just("GPU-a"),
    pid=st.integers(1, 9),
    kind=st.sampled_from(["compute", "graphics", "mps"]),
    memory=st.none() | st.integers(0, GIB),
    process=processes_strategy,
    uses=st.sampled_from([True, False, None]),
)
gpu_strategy = st.builds(
    GpuReading,
    uuid=st.just("GPU-a"),
    name=st.just("x"),
    listed=st.none() | st.lists(listed_strategy, max_size=3).map(tuple),
    garbage=st.integers(0, 2),
    uncorrected=st.none() | st.integers(0, 2),
    throttled=st.sampled_from([(), ("power cap",)]),
    free=st.none() | st.integers(0, GIB),
    used=st.none() | st.integers(0, GIB),
    unusable=st.sampled_from(["", "lost"]),
    unasked=st.sampled_from([(), ("x",)]),
    unclear=st.sampled_from([(), ("x",)]),
)
reading_strategy = st.builds(
    Reading,
    gpus=st.lists(gpu_strategy, max_size=2).map(tuple),
    unified=st.booleans(),
    first_namespace=st.booleans(),
    available=st.none() | st.integers(0, GIB),
    load=st.none() | st.floats(0, 9),
    pressure=st.none() | st.floats(0, 99),
    unseen=st.sampled_from([(), ("x",)]),
)
settings_strategy = st.builds(
    Settings,
    unknown_is_fit=st.booleans(),
    free_memory=st.none() | st.integers(1, GIB),
    ignore=st.sampled_from([frozenset(), frozenset({"Xorg"})]),
)


@given(reading_strategy, st.frozensets(st.integers(1, 9), max_size=3), settings_strategy)
def test_fit_only_where_it_is_known(seen, ours, settings):
    found = judge(seen, ours, settings)
    assert Reading.from_json(seen.to_json()) == seen
    assert (found.answer is Answer.NOT_FIT) == bool(found.owners or found.reasons)
    assert (found.answer is Answer.UNKNOWN) == (bool(found.unknown) and found.answer is not Answer.NOT_FIT)
    if found.answer is Answer.FIT:
        for gpu in seen.gpus:
            assert gpu.listed is not None
            assert not gpu.garbage
            assert not gpu.unusable
            for one in gpu.listed:
                assert one.process is not None
                assert one.uses or seen.first_namespace or one.uses is None
                assert one.uses or seen.first_namespace or one.pid not in ours
                assert one.pid in ours or one.process.name in settings.ignore
    taken = by_settings(found, settings)
    assert taken.answer is found.answer or (found.answer is Answer.UNKNOWN and settings.unknown_is_fit and taken.fit)
    # Whom nobody can see is never free, whatever the settings say.
    usable = [gpu for gpu in seen.gpus if not gpu.unusable]
    if any(one.process is None for gpu in usable for one in gpu.listed or ()):
        assert not taken.fit


@given(reading_strategy, settings_strategy)
def test_noise_never_decides(seen, settings):
    quiet = replace(seen, load=None, pressure=None, gpus=tuple(replace(gpu, throttled=(), unclear=()) for gpu in seen.gpus))
    assert judge(seen, frozenset(), settings).answer is judge(quiet, frozenset(), settings).answer

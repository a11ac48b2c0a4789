"""What a run asks a lease for, what its checks see of it, and what is said while it waits."""

import io
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.devices.probe import Gpu
from touchgate.edge import waiting
from touchgate.edge.devices import DeviceChoice
from touchgate.edge.durations import seconds_of
from touchgate.edge.leasing import Lease, granted_gpus, job_url, pinned, want_of
from touchgate.gate.model import DeviceWish
from touchgate.leases.choose import Chosen, chosen
from touchgate.leases.engine import Holder, LeaseLost, LeaseRefused, Place, Status
from touchgate.leases.inside import covers, inherited, inside, share_of
from touchgate.leases.model import Share, Want
from touchgate.reports.terminal import Terminal


def gpu(name: str, model: str = "NVIDIA H200", **facts: object) -> Gpu:
    return Gpu(model, name, capability="9.0", **facts)  # type: ignore[arg-type]


A, B, C = gpu("GPU-a"), gpu("GPU-b"), gpu("GPU-c", "NVIDIA L4")
ANY, ONE, TWO, HOST, PAIR = (
    DeviceWish(),
    DeviceWish("gpu", 1),
    DeviceWish("gpu", 2),
    DeviceWish("host"),
    DeviceWish("hosts", 2),
)


def showing(*gpus: Gpu, present: tuple[Gpu, ...] | None = None) -> DeviceChoice:
    return DeviceChoice(gpus[0], "", gpu_only=False, shown=gpus, present=gpus if present is None else present)


def of(gpus: int, *among: str) -> Want:
    return Want(gpus=gpus, names=("here",), among=among)


WHOLE = Want(hosts=1, names=("here",))


@pytest.mark.parametrize(
    ("wishes", "choice", "want"),
    [
        ([ANY], showing(A), of(1, "GPU-a")),
        ([ONE], showing(A, B), of(1, "GPU-a", "GPU-b")),
        ([ONE, TWO, ANY], showing(A, B), of(2, "GPU-a", "GPU-b")),
        ([ONE, HOST], showing(A, B), WHOLE),
        ([TWO, HOST, PAIR], showing(A, B), Want(hosts=2)),
        # What the key of a result names is the kind of GPU: a run stays with one kind while that is possible.
        ([ONE], showing(A, C), of(1, "GPU-a")),
        ([TWO], showing(A, C), of(2, "GPU-a", "GPU-c")),
        # More than there are: the engine refuses that in words.
        ([TWO], showing(A), of(2, "GPU-a")),
        # Only what CUDA_VISIBLE_DEVICES shows, whatever else is there.
        ([ONE], showing(B, present=(A, B)), of(1, "GPU-b")),
        ([ONE], showing(gpu("")), WHOLE),
        ([ONE], showing(Gpu("Orin")), WHOLE),
        ([ONE], showing(gpu("GPU-m", mig=True)), WHOLE),
        ([ONE], showing(A, present=(A, gpu("GPU-m", mig=True))), WHOLE),
        ([ONE], DeviceChoice(A, "", gpu_only=False), WHOLE),
    ],
)
def test_the_want_follows_from_the_lanes(wishes, choice, want):
    assert want_of(wishes, choice, "here") == want
    assert want_of(wishes[::-1], choice, "here") == want


GPUS = st.lists(st.sampled_from([A, B, C, gpu(""), gpu("GPU-m", mig=True)]), min_size=1, max_size=5, unique=True)


@given(st.lists(st.sampled_from([ANY, ONE, TWO, HOST, PAIR]), min_size=1, max_size=4), GPUS)
def test_what_is_asked_for_is_enough_for_each_lane(wishes, gpus):
    """Whatever serves the want serves what each lane alone would want, as far as its lease can be had at all."""
    choice = showing(*gpus)
    want = want_of(wishes, choice, "here")
    if want.hosts:
        got = [Share(name) for name in ("here", "there")[: want.hosts]]
    else:
        got = [Share("here", uuid) for uuid in want.among[: want.gpus]]
    possible = want.hosts or len(want.among) >= want.gpus
    for wish in wishes:
        alone = want_of([wish], choice, "here")
        assert not possible or covers(got, replace(alone, among=()))


@pytest.mark.parametrize(
    ("shares", "choice", "granted"),
    [
        ((Share("here", "GPU-b"),), showing(A, B), (B,)),
        ((Share("here", "GPU-b"), Share("here", "GPU-a")), showing(A, B), (A, B)),
        ((Share("here"),), showing(A, B), (A, B)),
        ((Share("here"), Share("there")), showing(A), (A,)),
        ((Share("there", "GPU-a"),), showing(A), ()),
        ((Share("here"),), showing(gpu("GPU-m", mig=True)), ()),
    ],
)
def test_what_was_granted_here(shares, choice, granted):
    assert granted_gpus(shares, choice, "here") == granted


@pytest.mark.parametrize(
    ("wish", "gpus", "seen"),
    [
        (ANY, (A, B), ("GPU-a",)),
        (ONE, (B,), ("GPU-b",)),
        (TWO, (A, B), ("GPU-a", "GPU-b")),
        (HOST, (A, B), ()),
        (PAIR, (A, B), ()),
        (ONE, (), ()),
    ],
)
def test_checks_are_pinned_to_what_their_lane_wants(wish, gpus, seen):
    assert pinned(wish, gpus) == seen


class FakeGrant:
    """A grant that keeps one open file."""

    token, since, where, notes = 7, "2026-12-01T05:00:00Z", "a test", ()
    shares = (Share("here", "GPU-b"),)

    def __init__(self, descriptors=()):
        self.descriptors = descriptors


def test_a_checks_environment(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        seen = Lease(FakeGrant((descriptor,)), (B,), "").environment(ONE)
        kept = seen.pop("TOUCHGATE_LEASE_FDS")
        assert seen == {"TOUCHGATE_LEASE_TOKEN": "7", "CUDA_VISIBLE_DEVICES": "GPU-b"}
        assert inherited({"TOUCHGATE_LEASE_FDS": kept}) == (descriptor,)
    finally:
        os.close(descriptor)
    assert inherited({"TOUCHGATE_LEASE_FDS": kept}) == ()
    assert Lease(FakeGrant(), (A, B), "").environment(HOST) == {"TOUCHGATE_LEASE_TOKEN": "7"}


@pytest.mark.parametrize("text", ["", "x", ",", "3", "-1:2:3", "99999999999999999999:1:2", "0:0:0", "१:1:1"])
def test_descriptors_that_mean_nothing(text):
    assert inherited({"TOUCHGATE_LEASE_FDS": text}) == ()


def holder(resource="here", *, token=7, user="me", alive=True, pid=None, **more):
    """A lease held, unless said otherwise, by the process that started this one, or where that has ended by this one."""
    above = os.getppid() if os.getppid() > 1 else os.getpid()
    return Holder(resource, user, pid or above, "2026-12-01T05:00:00Z", "gemm", token=token, alive=alive, **more)


class FakeEngine:
    def __init__(self, *holders):
        self.holders = holders

    def status(self):
        return Status("a test", holders=self.holders)


@pytest.mark.parametrize(
    ("environ", "held"),
    [
        ({}, None),
        ({"TOUCHGATE_LEASE_TOKEN": ""}, None),
        ({"TOUCHGATE_LEASE_TOKEN": "seven"}, None),
        ({"TOUCHGATE_LEASE_TOKEN": "8"}, None),
        ({"TOUCHGATE_LEASE_TOKEN": "7"}, (Share("here"),)),
    ],
)
def test_a_run_finds_the_lease_that_it_works_under(environ, held):
    found = inside(FakeEngine(holder(), holder("there", token=9)), environ, "me", Want(gpus=1))
    assert (found and found.shares) == held


def test_a_token_alone_lets_nobody_in():
    """Neither above this one nor known by descriptors: the token may be anybody's copy."""
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True, text=True)
    environ = {"TOUCHGATE_LEASE_TOKEN": "7"}
    assert inside(FakeEngine(holder(pid=int(gone.stdout))), environ, "me", Want(gpus=1)) is None


@pytest.mark.parametrize("other", [holder(user="you"), holder(alive=False)])
def test_a_lease_of_others_or_of_the_dead_is_not_ones_own(other):
    assert inside(FakeEngine(other), {"TOUCHGATE_LEASE_TOKEN": "7"}, "me", Want(gpus=1)) is None


def test_the_outer_lease_must_hold_enough_and_go_on():
    environ = {"TOUCHGATE_LEASE_TOKEN": "7"}
    engine = FakeEngine(holder("here/GPU-a"))
    with pytest.raises(LeaseRefused, match=r"under a lease of here/GPU-a \(token 7\), which does not cover 1 host of here"):
        inside(engine, environ, "me", WHOLE)
    found = inside(engine, environ, "me", of(1, "GPU-a"))
    found.check()
    engine.holders = ()
    with pytest.raises(LeaseLost, match="token 7"):
        found.check()


@pytest.mark.parametrize(
    ("held", "want", "enough"),
    [
        ((Share("here"),), of(2, "GPU-a", "GPU-b"), True),
        ((Share("here"),), WHOLE, True),
        ((Share("there"),), WHOLE, False),
        ((Share("there"),), of(1, "GPU-a"), False),
        ((Share("here"),), Want(hosts=2), False),
        ((Share("here"), Share("there")), Want(hosts=2), True),
        ((Share("here", "GPU-a"),), of(1, "GPU-a"), True),
        ((Share("here", "GPU-a"),), of(1, "GPU-b"), False),
        ((Share("here", "GPU-a"),), of(2, "GPU-a", "GPU-b"), False),
        ((Share("there", "GPU-a"),), of(1), False),
    ],
)
def test_what_covers_what(held, want, enough):
    assert covers(held, want) == enough


@pytest.mark.parametrize("share", [Share("here"), Share("here", "GPU-a")])
def test_a_share_in_words_and_back(share):
    assert share_of(str(share)) == share


@pytest.mark.parametrize(
    ("environ", "choice"),
    [
        ({"TOUCHGATE_HOST": "spark-1"}, Chosen("files", "", "spark-1")),
        ({"TOUCHGATE_HOST": "a", "TOUCHGATE_POSTGRES": "service=x"}, Chosen("postgres", "service=x", "a")),
        ({"TOUCHGATE_HOST": "a", "TOUCHGATE_POSTGRES": ""}, Chosen("files", "", "a")),
    ],
)
def test_the_engine_follows_from_the_settings(environ, choice):
    assert chosen(environ) == choice


@pytest.mark.parametrize("text", ["", "0", "2", "h", "1m2h", "2 h", "-1h", "1.5h", "0h", "0h0m", "2H", "1h1h", "٢h", "2h\n"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="is no duration; one is written as 2h, 90m or 1h30m"):
        seconds_of(text)


def test_the_jobs_address():
    github = {"GITHUB_SERVER_URL": "https://f", "GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "5"}
    assert job_url(github) == "https://f/o/r/actions/runs/5"
    assert job_url({**github, "CI_JOB_URL": "https://g/7"}) == "https://g/7"
    assert job_url({"GITHUB_RUN_ID": "5"}) is None


# -- waiting -------------------------------------------------------------------------------------------------------------

ALICE = Holder("here", "alice", 4121, None, "gemm", url="https://forge/7")


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (
            Place(2, (ALICE,), 754.0),
            "x, position 2; here is held by alice, pid 4121 (gemm); https://forge/7; about 13 min to go; H",
        ),
        (Place(0, (), None), "x; H"),
        (
            Place(1, (Holder("h", "somebody", None, None, ""),), 0.2),
            "x, position 1; h is held by somebody; about a moment to go; H",
        ),
        (
            Place(1, tuple(Holder(f"h/{n}", "u", n, None, "") for n in range(5)), None),
            "x, position 1; h/0 is held by u, pid 0; h/1 is held by u, pid 1; h/2 is held by u, pid 2; and 2 more; H",
        ),
    ],
)
def test_the_line_of_a_wait(place, line):
    assert waiting.line("x", place, "H") == f"waiting for {line}"


def test_a_holders_times_are_those_of_the_reader(monkeypatch):
    monkeypatch.setenv("TZ", "UTC-1")
    time.tzset()
    try:
        reserved = Holder("h", "u", None, "2026-12-01T05:00:00Z", "", until="2026-12-01T07:00:00Z", note="mine")
        assert waiting.held_by(reserved) == "u, since 2026-12-01 06:00, until 2026-12-01 08:00; mine"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_line_is_said_again_only_when_the_position_changes():
    said, shown = [], []
    waiter = waiting.Waiter("1 GPU", said.append, lambda words, left: shown.append((words, left)))
    assert not waiter.waited
    bob = Holder("here", "bob", 5, None, "")
    for place in (Place(2, (ALICE, bob), 60.0), Place(2, (ALICE,), 50.0), Place(1, (bob,), None), Place(1, (), None)):
        waiter(place)
    assert [line.partition(";")[0] for line in said] == ["waiting for 1 GPU, position 2", "waiting for 1 GPU, position 1"]
    assert shown == [
        ("position 2, behind alice (gemm) and 1 other", 60.0),
        ("position 2, behind alice (gemm)", 50.0),
        ("position 1, behind bob", None),
        ("position 1", None),
    ]
    assert waiter.behind == (bob,)
    assert waiter.waited


class Screen(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_the_live_line_of_a_wait():
    screen, now = Screen(), [0.0]
    terminal = Terminal(screen, {"TERM": "xterm"}, width=70, clock=lambda: now[0])
    terminal.place("position 2", 130.0)
    now[0] = 65.0
    terminal.start("scan:command")
    terminal.place("position 1", 0.0)
    terminal.place("", None)
    terminal.close()
    drawn = [text for text in screen.getvalue().split("\r\x1b[K") if text]
    assert drawn[:3] == [
        "waiting for 0 s: position 2, about 2 min 10 s to go",
        "waiting for 65 s: position 2, about 65 s to go  scan:command",
        "waiting for 65 s: position 1, any moment now  scan:command",
    ]
    assert "waiting" not in drawn[-1]


def test_a_pipe_has_no_live_line():
    pipe = io.StringIO()
    terminal = Terminal(pipe, {})
    terminal.place("position 2", 130.0)
    terminal.place("", None)
    terminal.close()
    assert pipe.getvalue() == ""

"""The history of runs: appended whole, bounded, read whatever lies there; and what it adds up to."""

from __future__ import annotations

import doctest
import json
import math
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.reports import rates
from touchgate.results import history
from touchgate.results.history import AGREED, FALSE_SKIP, UNMEASURED, Run, Shadowed

MONDAY = 1_790_553_600  # 2026-09-28, a Monday
WEEK = 7 * 24 * 3600
RUN = Run(
    when=MONDAY,
    head="ab" * 20,
    suite="smoke",
    exit=0,
    seconds=1.5,
    why="touched",
    ran={"gemv": 60.0},
    reused=("rans",),
    skipped=("add", "scan"),
    shadow={"norm": Shadowed(30.0, AGREED)},
)
LINE = (
    '{"schema":1,"when":1790553600,"head":"abababababababababababababababababababab","suite":"smoke","exit":0,"seconds":1.5,'
    '"why":"touched","ran":{"gemv":60.0},"reused":["rans"],"skipped":["add","scan"],'
    '"shadow":{"norm":{"seconds":30.0,"verdict":"agreed"}}}\n'
)


def test_a_run_comes_back_and_its_line_is_the_documented_one(tmp_path):
    history.append(tmp_path, RUN)
    assert (tmp_path / "history.jsonl").read_text() == LINE
    assert (tmp_path / "history.jsonl").stat().st_mode & 0o777 == 0o600
    assert history.read(tmp_path) == ([RUN], 0)


def test_no_history_is_no_run(tmp_path):
    assert history.read(tmp_path) == ([], 0)
    assert history.read(tmp_path / "nowhere") == ([], 0)


names = st.text(max_size=5)
numbers = st.floats(0, 1e6).map(lambda number: round(number, 3))


@given(
    st.builds(
        Run,
        when=st.integers(0, 2**33),
        head=st.none() | names,
        suite=names,
        exit=st.integers(0, 130),
        seconds=numbers,
        why=st.sampled_from(history.REASONS),
        ran=st.dictionaries(names, numbers),
        reused=st.lists(names).map(tuple),
        skipped=st.lists(names).map(tuple),
        shadow=st.dictionaries(names, st.builds(Shadowed, numbers, st.sampled_from([AGREED, FALSE_SKIP, UNMEASURED]))),
    )
)
def test_any_run_comes_back(tmp_path_factory, run):
    folder = tmp_path_factory.mktemp("history")
    history.append(folder, run)
    history.append(folder, run)
    assert history.read(folder) == ([run, run], 0)


def altered(**values: object) -> str:
    return json.dumps({**json.loads(LINE), **values})


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "[]",
        "null",
        "1" * 5000,
        "[" * 100_000,
        "\udcff",
        LINE[:-20],
        altered(schema=2),
        altered(when=-1),
        altered(when=True),
        altered(when=1e300),
        altered(when=float("nan")),
        altered(ran=["gemv"]),
        altered(ran={"gemv": "1"}),
        altered(skipped=[1]),
        altered(shadow={"norm": 1}),
        altered(shadow={"norm": {"seconds": 1}}),
        altered(head=1),
        altered(exit=None),
    ],
)
def test_a_line_that_cannot_be_read_is_counted_and_the_rest_stands(tmp_path, line):
    path = tmp_path / "history.jsonl"
    path.write_bytes(LINE.encode() + os.fsencode(line) + b"\n" + LINE.encode())
    assert history.read(tmp_path) == ([RUN, RUN], 1)


def test_what_was_cut_off_does_not_swallow_the_next_run(tmp_path):
    (tmp_path / "history.jsonl").write_text(LINE + LINE[:40])
    history.append(tmp_path, RUN)
    assert history.read(tmp_path) == ([RUN, RUN], 1)


def test_a_full_file_becomes_the_older_one_and_there_are_never_more_than_two(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "LARGEST", 3 * len(LINE) - 1)
    for number in range(8):
        history.append(tmp_path, RUN._replace(when=MONDAY + number))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history.1.jsonl", "history.jsonl"]
    runs, lost = history.read(tmp_path)
    assert ([run.when - MONDAY for run in runs], lost) == ([3, 4, 5, 6, 7], 0)


def test_runs_at_the_same_time_do_not_mix_their_lines(tmp_path):
    run = RUN._replace(skipped=tuple(f"lane{number}" for number in range(2000)))
    threads = [threading.Thread(target=lambda: [history.append(tmp_path, run) for _ in range(20)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert history.read(tmp_path) == ([run] * 160, 0)


def a_folder(path):
    path.mkdir()


def a_link(path):
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("make", [a_folder, a_link, os.mkfifo])
def test_anything_else_in_its_place_is_a_fault_in_words(tmp_path, make):
    path = tmp_path / "history.jsonl"
    make(path)
    with pytest.raises(history.HistoryFault, match=r"history\.jsonl can't be written: ."):
        history.append(tmp_path, RUN)
    with pytest.raises(history.HistoryFault, match=r"history\.jsonl is not a file"):
        history.read(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_no_folder_is_a_fault_in_words(tmp_path):
    with pytest.raises(history.HistoryFault, match="No such file"):
        history.append(tmp_path / "nowhere", RUN)


# ---- adding up


RUNS = [
    RUN,
    RUN._replace(when=MONDAY + 1, ran={"gemv": 120.0}, reused=(), skipped=("add", "scan", "norm", "rans"), shadow={}),
    RUN._replace(
        when=MONDAY + WEEK,
        head="cd" * 20,
        ran={},
        reused=(),
        skipped=("gemv", "never"),
        shadow={"norm": Shadowed(10, FALSE_SKIP)},
    ),
    RUN._replace(when=MONDAY + WEEK + 1, ran={}, reused=(), skipped=(), shadow={"norm": Shadowed(5, UNMEASURED)}),
]


def test_the_table():
    found = rates.add_up(RUNS, {"add": 10.0, "scan": 0.5, "gemv": 30.0}, lost=2)
    assert rates.in_words(found) == [
        "note: left out, since it can't be read: 2 lines of the history",
        "4 runs from 2026-09-28 to 2026-10-05",
        "",
        "lane   ran  reused        skipped  shadowed  false skips   spent   saved",
        "add      0       0  100% (2 of 2)    0 of 2            0  0.00 s  20 min",
        "gemv     2       0   33% (1 of 3)    0 of 1            0   3 min  90.0 s",
        "never    0       0  100% (1 of 1)    0 of 1            0  0.00 s  0.00 s",
        "norm     0       0  100% (4 of 4)    2 of 4       1 of 2  45.0 s  20.0 s",
        "rans     0       1   50% (1 of 2)    0 of 1            0  0.00 s  0.00 s",
        "scan     0       0  100% (2 of 2)    0 of 2            0  0.00 s  60.0 s",
        "",
        "week      ran  reused        skipped  shadowed  false skips       spent        saved",
        "2026-W40    2       1  70% (7 of 10)    1 of 7       0 of 1  3 min 30 s  21 min 20 s",
        "2026-W41    0       0  100% (4 of 4)    1 of 4       1 of 1      15.0 s       90.0 s",
        "",
        "false skips: 1 of 2 tested, a commit and a lane counted once; the rate is at most 97.47% with 95% confidence",
    ]  # fmt: skip


def test_the_examples_are_true():
    failed, tried = doctest.testmod(rates)
    assert (failed, tried > 1) == (0, True)


def test_nothing_to_add_up():
    assert rates.in_words(rates.add_up([], {})) == ["no run is on record yet; each `doit` adds one"]
    plain = rates.in_words(rates.add_up([RUN._replace(shadow={})], {}))
    assert plain[-1] == "no skip was tested yet: `doit --shadow 10%` runs one in ten of them all the same"


def test_runs_of_one_commit_are_one_test_of_its_skips():
    """They choose the same lanes: a rerun shows nothing new, unless it contradicts."""
    agreed, false = (RUN._replace(shadow={"norm": Shadowed(1, verdict)}) for verdict in (AGREED, FALSE_SKIP))
    another = agreed._replace(head="ef" * 20)
    for runs, expected in (
        ([agreed] * 5, (1, 0)),
        ([agreed, false, agreed], (1, 1)),
        ([agreed, another], (2, 0)),
        ([agreed, another._replace(shadow={"norm": Shadowed(1, UNMEASURED)})], (1, 0)),
    ):
        found = rates.add_up(runs, {})
        assert (found.tested, found.wrong) == expected


def test_the_same_for_a_program():
    data = rates.as_data(rates.add_up(RUNS, {}))
    assert json.loads(json.dumps(data)) == data
    assert (data["schema"], data["since"], data["until"], data["lost_lines"]) == (1, MONDAY, MONDAY + WEEK + 1, 0)
    assert data["lanes"][1] == {
        "name": "gemv", "runs": 3, "ran": 2, "reused": 0, "skipped": 1, "shadowed": 0, "false_skips": 0,
        "seconds_spent": 180.0, "seconds_saved": 90.0,
    }  # fmt: skip
    assert [week["week"] for week in data["weeks"]] == ["2026-W40", "2026-W41"]
    assert data["total"]["runs"] == 4
    assert data["false_skip_rate_bound"] == pytest.approx(0.9747, abs=1e-4)


@given(st.integers(1, 3000).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))))
def test_the_bound_lies_above_the_rate_and_falls_with_more_trials(seen):
    failures, trials = seen
    bound = rates.upper_bound(failures, trials)
    assert failures / trials <= bound <= 1
    assert rates.upper_bound(failures, trials + 1) <= bound + 1e-12
    assert failures == trials or rates.upper_bound(failures + 1, trials) > bound


@pytest.mark.parametrize(("trials", "expected"), [(1, 0.95), (3, 0.6316), (30, 0.0950), (59, 0.0495), (299, 0.00997)])
def test_without_a_failure_the_bound_is_the_closed_form(trials, expected):
    bound = rates.upper_bound(0, trials)
    assert bound == pytest.approx(1 - 0.05 ** (1 / trials), abs=1e-12)
    assert bound == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("failures", "trials"), [(1, 10), (2, 20), (5, 50), (10, 100), (99, 100), (40, 1000)])
def test_at_the_bound_so_few_failures_have_the_probability_that_is_left(failures, trials):
    """By whole numbers: the sum of the binomial distribution, written down as it is defined."""
    bound = rates.upper_bound(failures, trials)
    sums = [math.comb(trials, count) * bound**count * (1 - bound) ** (trials - count) for count in range(failures + 1)]
    assert sum(sums) == pytest.approx(0.05, rel=1e-6)

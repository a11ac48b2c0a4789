"""Results on disk: whole or not at all, and never one that is not to be believed."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import touchgate
from touchgate.checks import CheckSpec
from touchgate.outcome import Outcome, Verdict
from touchgate.results import store as stores
from touchgate.results.keys import Key, digest_of
from touchgate.results.store import ResultStore, StoreFault

SOURCES = str(Path(touchgate.__file__).resolve().parents[1])
PARTS = {"schema": 1, "tools": {"numpy": "2.4.6"}}
KEY = Key(digest_of(PARTS), PARTS)
OTHER = Key(digest_of({"schema": 2}), {"schema": 2})
PASSED = Outcome(
    Verdict.PASSED,
    seconds=1.5,
    device="emulated",
    worst={"error": 0.5, "bound": 1.0, "case": "f32", "index": [1, 2]},
    cases=3,
    samples=(0.1, 0.2),
    facts={"gcc": "12"},
)


def spec(name: str = "gemv:kernel") -> CheckSpec:
    return CheckSpec(name, "gemv", "kernel", "", "kernels/gemv/gemv.py", {}, ("gpu",), ("smoke",), 60.0)


@pytest.fixture
def store(tmp_path) -> ResultStore:
    return ResultStore(tmp_path / "results", "/a/repository")


@pytest.fixture
def log(tmp_path) -> Path:
    path = tmp_path / "check.log"
    path.write_bytes(b"what it printed \xff\n")
    return path


def record_file(store: ResultStore, key: Key = KEY) -> Path:
    return store.directory / "records" / key.digest[:2] / f"{key.digest}.json"


def test_nothing_is_written_by_asking(store):
    assert store.lookup(KEY.digest) is None
    assert store.reusable(KEY.digest) is None
    assert store.last_run() is None
    assert store.durations() == {}
    assert store.estimate("gemv:kernel") is None
    assert not store.directory.exists()


def test_a_result_comes_back_as_it_was_kept(store, log):
    stored = store.record(KEY, spec(), PASSED, log)
    assert store.lookup(KEY.digest) == stored == store.reusable(KEY.digest)
    assert stored.outcome == PASSED
    assert (stored.check, stored.lane, stored.kind, stored.parts) == ("gemv:kernel", "gemv", "kernel", PARTS)
    assert stored.log.read_bytes() == log.read_bytes()
    assert stored.log.parent == record_file(store).parent


def test_the_file_is_readable_json_for_its_owner_alone(store):
    stored = store.record(KEY, spec(), PASSED, None)
    path = record_file(store)
    data = json.loads(path.read_text("ascii"))
    assert path.read_text("ascii") == json.dumps(data, sort_keys=True, indent=1) + "\n"
    assert data == {
        "schema": 1,
        "key": KEY.digest,
        "parts": PARTS,
        "check": "gemv:kernel",
        "lane": "gemv",
        "kind": "kernel",
        "when": stored.when,
        "host": stored.host,
        "log": None,
        "outcome": PASSED.to_json(),
    }
    assert [oct(p.stat().st_mode & 0o777) for p in (store.directory, path.parent, path)] == ["0o700", "0o700", "0o600"]


@pytest.mark.parametrize("verdict", list(Verdict))
def test_only_passed_is_reused(store, verdict):
    store.record(KEY, spec(), Outcome(verdict), None)
    assert store.lookup(KEY.digest).outcome.verdict is verdict
    assert (store.reusable(KEY.digest) is not None) == (verdict is Verdict.PASSED)


def test_the_last_result_of_a_key_counts_and_old_logs_go(store, log):
    first = store.record(KEY, spec(), Outcome(Verdict.FAILED, reason="no"), log)
    second = store.record(KEY, spec(), PASSED, log)
    assert store.lookup(KEY.digest) == second
    assert not first.log.exists()
    assert sorted(path.suffix for path in record_file(store).parent.iterdir()) == [".json", ".log"]


def test_a_log_that_was_deleted_is_none(store, log):
    store.record(KEY, spec(), PASSED, log).log.unlink()
    assert store.lookup(KEY.digest).log is None


def edit(**changes):
    return lambda data: json.dumps({**data, **changes})


@pytest.mark.parametrize(
    "forge",
    [
        lambda _data: "",
        lambda data: json.dumps(data)[:-20],
        lambda _data: "[]",
        lambda _data: "null",
        lambda _data: "\x00",
        lambda _data: "[" * 100_000,
        edit(schema=2),
        edit(schema=None),
        edit(key=OTHER.digest),
        edit(parts={}),
        edit(parts={"schema": 1, "tools": {"numpy": "2.4.7"}}),
        edit(parts=None),
        edit(outcome={}),
        edit(outcome={"verdict": "splendid"}),
        edit(outcome={"verdict": "passed", "seconds": "1"}),
        edit(outcome=None),
        edit(check=None),
        edit(when=7),
        lambda data: json.dumps({name: data[name] for name in data if name != "log"}),
    ],
)
def test_a_record_that_is_not_to_be_believed_is_a_miss(store, forge):
    store.record(KEY, spec(), PASSED, None)
    path = record_file(store)
    path.write_text(forge(json.loads(path.read_text())))
    assert store.lookup(KEY.digest) is None
    store.record(KEY, spec(), PASSED, None)
    assert store.reusable(KEY.digest) is not None


def test_a_record_of_another_key_put_here_is_a_miss(store):
    store.record(OTHER, spec(), PASSED, None)
    path = record_file(store)
    path.parent.mkdir()
    path.write_bytes(record_file(store, OTHER).read_bytes())
    assert store.lookup(KEY.digest) is None


@pytest.mark.parametrize("name", ["../../../secret", "/etc/passwd", "other.log", 7])
def test_a_record_can_not_point_to_other_files(store, name):
    store.record(KEY, spec(), PASSED, None)
    path = record_file(store)
    path.with_name("other.log").touch()
    path.write_text(edit(log=name)(json.loads(path.read_text())))
    assert store.lookup(KEY.digest).log is None


@pytest.mark.parametrize("digest", ["", "../x", "A" * 64, "a" * 63, "a" * 64 + "\n"])
def test_what_is_no_key_is_refused(store, digest):
    with pytest.raises(ValueError, match="not a key"):
        store.lookup(digest)


# ---- when writing fails


def test_a_full_disk_is_one_line_and_leaves_nothing_torn(store, log, monkeypatch):
    before = store.record(KEY, spec(), PASSED, log)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(stores.os, "fsync", full)
    with pytest.raises(StoreFault) as caught:
        store.record(KEY, spec(), Outcome(Verdict.FAILED), log)
    assert str(caught.value) == (f"the result of gemv:kernel can't be kept in {store.directory}: No space left on device")
    assert store.lookup(KEY.digest) == before
    assert sorted(path.name for path in record_file(store).parent.iterdir()) == sorted(
        [record_file(store).name, before.log.name]
    )


def test_a_folder_that_can_not_be_made_is_one_line(tmp_path, log):
    (tmp_path / "file").touch()
    store = ResultStore(tmp_path / "file" / "results")
    with pytest.raises(StoreFault, match="Not a directory"):
        store.record(KEY, spec(), PASSED, log)
    with pytest.raises(StoreFault, match="Not a directory"):
        store.write_last_run({})
    assert store.lookup(KEY.digest) is None
    with store.key_lock(KEY.digest) as locked:
        assert not locked


def test_an_outcome_that_is_not_json_is_one_line(store):
    with pytest.raises(StoreFault, match="object is not JSON serializable"):
        store.record(KEY, spec(), Outcome(Verdict.PASSED, facts={"array": object()}), None)
    assert store.lookup(KEY.digest) is None


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="needs a read-only mount")
def test_a_read_only_store_still_answers(store, log):
    stored = store.record(KEY, spec(), PASSED, log)
    subprocess.run(["mount", "--bind", store.directory, store.directory], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", store.directory], check=True)
        assert store.reusable(KEY.digest) == stored
        with pytest.raises(StoreFault, match="Read-only file system"):
            store.record(OTHER, spec(), PASSED, log)
        with store.key_lock(KEY.digest) as locked:
            assert not locked
    finally:
        subprocess.run(["umount", "-l", store.directory], check=True)


# ---- processes


HEAD = """
    import os, signal, sys, time
    from pathlib import Path
    from touchgate.checks import CheckSpec
    from touchgate.outcome import Outcome, Verdict
    from touchgate.results.keys import Key
    from touchgate.results import store as stores
    store = stores.ResultStore(Path({directory!r}), "r")
    key = Key({digest!r}, {parts!r})
    spec = CheckSpec("a:b", "a", "k", "", "t", {{}}, ("host",), ("smoke",), 60.0)
"""


def start(store: ResultStore, text: str, **options) -> subprocess.Popen[str]:
    head = HEAD.format(directory=str(store.directory), digest=KEY.digest, parts=PARTS)
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(text)],
        env={**os.environ, "PYTHONPATH": SOURCES},
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_writer_killed_in_the_middle_leaves_no_torn_record(store, moment):
    dying = """
        def die(*_): os.kill(os.getpid(), signal.SIGKILL)
        if sys.argv[1:] == ["fsync"]: stores.os.fsync = die
        else: Path.replace = die
        store.record(key, spec, Outcome(Verdict.PASSED), None)
    """
    dying = dying.replace("sys.argv[1:]", repr([moment]))
    with start(store, dying) as other:
        other.communicate(timeout=60)
    assert other.returncode == -signal.SIGKILL
    assert store.lookup(KEY.digest) is None
    store.record(KEY, spec(), PASSED, None)
    assert store.reusable(KEY.digest) is not None


def test_readers_never_see_half_a_record(store):
    writing = """
        for number in range(60):
            store.record(key, spec, Outcome(Verdict.PASSED, seconds=float(number), detail=("x" * number,)), None)
    """
    store.record(KEY, spec(), PASSED, None)
    with start(store, writing) as one, start(store, writing) as two:
        seen = 0
        while one.poll() is None or two.poll() is None:
            assert store.reusable(KEY.digest) is not None
            seen += 1
        assert seen > 3
    assert one.returncode == two.returncode == 0
    assert len(list(record_file(store).parent.iterdir())) == 1


def test_twenty_processes_on_one_key_do_the_work_once(store, tmp_path):
    working = f"""
        canary = Path({str(tmp_path / "canary")!r})
        with store.key_lock(key.digest) as locked:
            assert locked
            if store.reusable(key.digest) is None:
                os.close(os.open(canary, os.O_CREAT | os.O_EXCL))
                time.sleep(0.3)
                store.record(key, spec, Outcome(Verdict.PASSED), None)
                print("worked")
    """
    processes = [start(store, working) for _ in range(20)]
    said = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 20
    assert sorted(said) == [""] * 19 + ["worked\n"]
    assert list((store.directory / "locks").iterdir()) == []


def test_key_locks_never_overlap_although_their_files_come_and_go(store, tmp_path):
    working = f"""
        canary = Path({str(tmp_path / "canary")!r})
        stores.POLL = 0.001
        for _ in range(100):
            with store.key_lock(key.digest) as locked:
                assert locked
                os.close(os.open(canary, os.O_CREAT | os.O_EXCL))
                canary.unlink()
    """
    processes = [start(store, working) for _ in range(4)]
    for process in processes:
        process.communicate(timeout=120)
    assert [process.returncode for process in processes] == [0] * 4


HOLDING = """
    with store.key_lock(key.digest) as locked:
        print("locked", flush=True)
        time.sleep(600)
"""


def test_a_waiter_is_told_once_and_goes_on_when_the_other_is_killed(store):
    with start(store, HOLDING) as other:
        assert other.stdout.readline() == "locked\n"
        told = []

        def wait() -> None:
            told.append(True)
            other.kill()

        with store.key_lock(KEY.digest, on_wait=wait) as locked:
            assert locked
        assert told == [True]


def test_a_free_key_waits_for_nobody(store):
    def never() -> None:
        raise AssertionError

    with store.key_lock(KEY.digest, on_wait=never), store.key_lock(OTHER.digest, on_wait=never):
        pass


def test_waiting_for_a_key_can_be_cancelled(store):
    with start(store, HOLDING) as other:
        other.stdout.readline()
        asked = iter([False, True, True, True])
        with store.key_lock(KEY.digest, cancelled=lambda: next(asked)) as locked:
            assert not locked
        other.kill()


def test_waiting_for_a_key_is_interrupted_by_a_signal(store):
    waiting = """
        def told(): print("waits", flush=True)
        try:
            with store.key_lock(key.digest, on_wait=told): pass
        except KeyboardInterrupt:
            sys.exit(40)
    """
    with start(store, HOLDING) as other, start(store, waiting) as second:
        assert other.stdout.readline() == "locked\n"
        line = second.stdout.readline()
        if line:  # else it came first, and is done
            time.sleep(0)
            second.send_signal(signal.SIGINT)
            assert second.wait(60) == 40
        other.kill()


def test_threads_of_one_process_wait_for_each_other_too(store):
    order: list[str] = []
    inside = threading.Event()

    def second() -> None:
        inside.wait(60)
        with store.key_lock(KEY.digest):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with store.key_lock(KEY.digest):
        inside.set()
        time.sleep(0.2)
        order.append("first")
    thread.join(60)
    assert order == ["first", "second"]


def test_an_exception_lets_the_key_go(store):
    with pytest.raises(KeyError), store.key_lock(KEY.digest):
        raise KeyError
    with store.key_lock(KEY.digest) as locked:
        assert locked


# ---- durations, the last run


def test_the_estimate_is_the_median_of_the_last_runs(store):
    for seconds in (100.0, 1.0, 2.0, 3.0, 4.0, 50.0):
        store.record(KEY, spec(), Outcome(Verdict.PASSED, seconds=seconds), None)
    store.record(OTHER, spec("gemv:vectors"), Outcome(Verdict.FAILED, seconds=7.0), None)
    store.record(OTHER, spec("gemv:none"), Outcome(Verdict.UNMEASURED), None)
    assert store.estimate("gemv:kernel") == 3.0
    assert store.estimate("gemv:none") is None
    assert store.durations() == {"gemv:kernel": 3.0, "gemv:vectors": 7.0}
    # Another repository's check of the same name is another check.
    assert ResultStore(store.directory, "/another").estimate("gemv:kernel") is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"check": "gemv:kernel", "seconds": ["x"]}', b'{"seconds": 1}'])
def test_a_broken_estimate_is_none(store, content):
    store.record(KEY, spec(), PASSED, None)
    (path,) = (store.own / "durations").iterdir()
    path.write_bytes(content)
    assert store.estimate("gemv:kernel") is None
    assert store.durations() == {}


def test_the_last_run_of_each_repository_is_kept(store):
    other = ResultStore(store.directory, "/another")
    store.write_last_run({"exit": 1, "checks": ["a"]})
    other.write_last_run({"exit": 0})
    assert store.last_run() == {"exit": 1, "checks": ["a"]}
    assert other.last_run() == {"exit": 0}
    (store.own / "last-run.json").write_text('{"schema": 2, "run": {}}')
    assert store.last_run() is None
    (store.own / "last-run.json").write_text("{")
    assert store.last_run() is None

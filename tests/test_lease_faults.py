"""What goes wrong with lock files, records, folders, disks, clocks and users, on real files, processes and accounts."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lease_runs import HOLD, HOST, PATIENCE, engine, gone, silent, started, take, until
from touchgate.leases import audit, clock, process, record
from touchgate.leases import directory as directories
from touchgate.leases.engine import Ask, LeaseLost, LeaseRefused, LeaseTimeout
from touchgate.leases.files import FilesEngine
from touchgate.leases.model import Want

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
forks = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be two users, or to mount")

WAIT = "held = take(); say('got', held.token); heard()"
GPU = Want(gpus=1)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "leases"


def anything(_place: object) -> None:
    """For `on_wait`."""


# ---- other programs on host.lock


def test_filelock_is_kept_out_and_keeps_us_out(folder):
    from filelock import FileLock, Timeout

    for want in (Want(hosts=1), GPU):
        with take(folder, want=want), pytest.raises(Timeout):
            FileLock(folder / "host.lock").acquire(timeout=0)
        told = []
        with FileLock(folder / "host.lock"), pytest.raises(LeaseTimeout):
            take(folder, want=want, timeout=0.1, on_wait=told.append)
        assert [place.position for place in told] == [0]
        take(folder, want=want).close()


def test_flock_1_is_waited_for_without_looking_again_and_again(folder):
    take(folder).close()
    other = subprocess.Popen(["flock", str(folder / "host.lock"), "sleep", "600"])
    try:
        until(lambda: [one for one in engine(folder).status().holders if one.alive])
        with started(folder, WAIT) as waiting:
            assert waiting.first.startswith("waits at 0 behind")
            os.kill(next(iter(children(other.pid))), signal.SIGKILL)
            assert waiting.granted().startswith("got")
    finally:
        other.kill()
        other.wait()


@linux
@pytest.mark.parametrize("kind", ["-x", "-s"])
def test_another_program_on_the_lock_is_named(folder, kind):
    take(folder).close()
    before = json.loads((folder / "host.json").read_text())
    assert before["ended"]
    other = subprocess.Popen(["flock", kind, str(folder / "host.lock"), "sleep", "600"])
    try:
        until(lambda: children(other.pid) and engine(folder).status().holders)
        (child,) = children(other.pid)
        until(lambda: process.command(child) == "sleep")
        (seen,) = engine(folder).status().holders
        assert (seen.resource, seen.pid, seen.what, seen.token) == (HOST, other.pid, "", None)
        note = "locked past the queue, without a record; the lock is kept by "
        assert seen.note == f"{note}pid {other.pid} flock, pid {child} sleep"
        with pytest.raises(LeaseTimeout, match=note):
            take(folder, timeout=0)
    finally:
        for pid in (*children(other.pid), other.pid):
            os.kill(pid, signal.SIGKILL)
        other.wait()


def children(pid: int) -> list[int]:
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(one) for one in done.stdout.split()]


# ---- files that go away or are something else


@pytest.mark.parametrize("how", ["deleted", "replaced", "a folder", "newer token"])
@pytest.mark.parametrize("want", [Want(hosts=1), GPU])
def test_a_holder_looks_at_its_lock_file(folder, how, want):
    with take(folder, want=want) as grant:
        grant.check()
        path = folder / ("host.lock" if want.hosts else "gpu-GPU-a.lock")
        if how == "newer token":
            path.write_text(f"{grant.token + 1:019d}\n")
        else:
            path.unlink()
        if how == "replaced":
            path.touch()
        if how == "a folder":
            path.mkdir()
        with pytest.raises(LeaseLost, match=f"token {grant.token}"):
            grant.check()


def test_who_comes_after_a_deleted_lock_file_waits_all_the_same(folder):
    with started(folder, HOLD) as other:
        (folder / "host.lock").unlink()
        with pytest.raises(LeaseTimeout):
            take(folder)
        # And without the queue, by the record.
        (folder / "queue.json").unlink()
        for ticket in (folder / "tickets").iterdir():
            ticket.unlink()
        with pytest.raises(LeaseTimeout, match="deleted while it held it"):
            take(folder, timeout=0.1, on_wait=anything)
        other.kill()
        take(folder, timeout=PATIENCE, on_wait=anything).close()


def test_a_deleted_ticket_of_a_holder_grants_nothing_twice(folder):
    with take(folder) as grant:
        for ticket in (folder / "tickets").iterdir():
            ticket.unlink()
        with pytest.raises(LeaseTimeout):
            take(folder, timeout=0.1, on_wait=anything)
        with started(folder, WAIT) as other:
            assert other.first == f"waits at 0 behind {os.getpid()}"
            with pytest.raises(LeaseLost, match=f"the queue gave it to .*pid {other.pid}"):
                grant.check()
            grant.close()
            assert other.granted().startswith("got")


@pytest.mark.parametrize("want", [Want(hosts=1), GPU])
def test_a_holder_whose_ticket_was_deleted_is_still_told_of(folder, want):
    text = HOLD.replace('"holding", 0', f'"holding", 0, Want(gpus={want.gpus}, hosts={want.hosts})')
    with started(folder, text) as run:
        for ticket in (folder / "tickets").iterdir():
            ticket.unlink()
        (seen,) = engine(folder).status().holders
        assert (seen.pid, seen.alive, seen.note) == (run.pid, True, "its ticket was deleted while it held it")
        run.kill()
        (seen,) = engine(folder).status().holders
        assert (seen.pid, seen.alive) == (run.pid, False)


@pytest.mark.parametrize("how", ["wiped", "remade", "renamed", "another's by now"])
def test_a_holder_whose_folder_is_gone_notices(folder, tmp_path, how):
    with take(folder) as grant:
        if how == "renamed":
            folder.rename(tmp_path / "elsewhere")
        else:
            shutil.rmtree(folder)
        if how == "remade":
            folder.mkdir(mode=0o700)
        if how == "another's by now":
            take(folder).close()
        with pytest.raises(LeaseLost, match=r"its lock file .*/host\.lock was deleted or replaced, so others can get in"):
            grant.check()


def test_a_deleted_ticket_of_a_waiter_costs_it_nothing_for_long(folder):
    quick = "from touchgate.leases import waiter; waiter.LOOK = 0.2\n"
    with started(folder, HOLD) as first, started(folder, quick + WAIT) as second:
        (one,) = engine(folder).status().queue
        for name in ("lock", "wake"):
            (folder / "tickets" / f"{one.id}.{name}").unlink()
        until(lambda: [seen.pid for seen in engine(folder).status().queue] == [second.pid])
        first.tell()
        assert second.granted().startswith("got")


@pytest.mark.parametrize("name", ["host.lock", "host.json", "queue.json", "queue.lock", "audit.jsonl", "tickets"])
@pytest.mark.parametrize("how", ["gone", "a folder", "a link", "a pipe", "noise"])
def test_whatever_lies_in_the_folder_nobody_hangs_and_nobody_overlaps(folder, name, how):
    take(folder).close()
    path = folder / name
    subprocess.run(["rm", "-r", path], check=True)
    if how == "a folder":
        path.mkdir()
        (path / "more").touch()
    elif how == "a link":
        path.symlink_to(folder / "nowhere")
    elif how == "a pipe":
        os.mkfifo(path)
    elif how == "noise":
        path.write_bytes(os.urandom(300))
    try:
        with take(folder) as grant:
            grant.check()
            with pytest.raises((LeaseTimeout, LeaseRefused)):
                take(folder)
            assert [one.pid for one in engine(folder).status().holders] == [os.getpid()]
    except LeaseRefused as refused:
        assert str(path) in str(refused)  # noqa: PT017


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"schema": 1}', b'{"schema": true}', b"\xff\xfe\x00", b"[" * 100_000, b"9" * 5000]
    + [
        json.dumps(
            {"schema": 1, "boot": "", "seq": 1, "next": 1, "token": 0, "wakes": [], "gpus": [], "drained": "", "entries": one}
        ).encode()
        for one in (
            3,
            [3],
            [{}],
            [{"id": True}],
            [{"id": 1, "user": "u", "uid": 0, "at": 0.0, "asked": "", "hosts": 1, "state": "held"}],
            [{"id": 1, "user": "u", "uid": 0, "at": 0.0, "asked": "", "hosts": 1, "wants": 1}],
            [{"id": 1, "user": "u", "uid": 0, "at": 0.0, "asked": "", "hosts": 1, "priority": 9}],
            [{"id": 1, "user": "u", "uid": 0, "at": 0.0, "asked": "", "hosts": 1, "strange": 9}],
        )
    ],
)
def test_a_queue_that_is_none_is_made_anew(folder, content):
    with take(folder, what="before") as before:
        (folder / "queue.json").write_bytes(content)
        with pytest.raises(LeaseTimeout, match="before"):
            take(folder)
        before.check()
        assert [one.token for one in engine(folder).status().holders] == [before.token]


# ---- records and tokens


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"schema": 99}', b"\xff\xfe\x00", b"[" * 100_000, b"x" * (record.LARGEST + 1)]
)
def test_a_record_that_is_none_neither_crashes_nor_holds(folder, content):
    with take(folder):
        (folder / "host.json").write_bytes(content)
        assert [one.pid for one in engine(folder).status().holders] == [os.getpid()]
    (folder / "host.json").write_bytes(content)
    take(folder, on_wait=silent).close()


def test_records_come_back_as_they_were_written(tmp_path):
    entry = record.Record("host", "a", 1, "b:1", "ns", "h", "w", "2026-11-30T14:02:11Z", 5, 6, None, None)
    record.write(tmp_path / "r.json", entry, 0o644)
    assert record.read(tmp_path / "r.json") == entry
    assert stat.S_IMODE((tmp_path / "r.json").stat().st_mode) == 0o644


def test_what_others_wrote_can_not_play_with_the_terminal(folder):
    with take(folder, "w\x1b[2J\n" * 300):
        (seen,) = engine(folder).status().holders
        assert seen.what.startswith("w?[2J")
        assert len(seen.what) == 500


def test_a_recycled_process_id_is_not_the_holder(folder):
    with started(folder, HOLD) as other:
        other.kill()
    for path in (folder / "host.json", folder / "queue.json"):
        # This very process id lives, but it started at another time: it never held anything.
        path.write_text(path.read_text().replace(str(other.pid), str(os.getpid())))
    assert [one.alive for one in engine(folder).status().holders] == [False]
    take(folder, on_wait=silent).close()


def test_tokens_only_grow_whatever_is_lost_and_whatever_the_clock_says(folder, monkeypatch):
    tokens = []

    def once() -> None:
        with take(folder, on_wait=silent) as grant:
            tokens.append(grant.token)

    once()
    for name in ("host.json", "queue.json"):
        (folder / name).unlink()
        once()
    (folder / "host.lock").write_bytes(b"")  # filelock truncates it: the record and the queue remember
    once()
    for step in (-3600, 3600, -(10**9)):
        monkeypatch.setattr(clock, "wall", lambda step=step: time.time() + step)
        once()
        (folder / "queue.json").unlink()
        once()
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_a_stepped_wall_clock_moves_no_deadline_and_no_reservation(folder, monkeypatch, step):
    monkeypatch.setattr("touchgate.leases.files.user_name", lambda _uid: "dev")
    number = engine(folder).reserve(Want(hosts=1), 600, "debugging")
    monkeypatch.setattr("touchgate.leases.files.user_name", lambda _uid: "ci")
    monkeypatch.setattr(clock, "wall", lambda: time.time() + step)
    with pytest.raises(LeaseTimeout):
        take(folder, timeout=0.1, on_wait=anything)
    assert [one.id for one in engine(folder).status().holders] == [number]


def test_after_a_power_loss_the_next_is_granted_at_once(folder, monkeypatch):
    monkeypatch.setattr("touchgate.leases.files.user_name", lambda _uid: "dev")
    with started(folder, HOLD) as one, started(folder, WAIT) as two:
        number = engine(folder).reserve(Want(gpus=1), 600, "debugging")
        token = int(one.first.split()[1])
        one.kill()
        two.kill()
    monkeypatch.setattr(clock, "boot", lambda: "another boot")
    monkeypatch.setattr(clock, "now", lambda: time.monotonic() % 5 + 1)
    with take(folder, want=GPU, on_wait=silent) as grant:
        assert grant.token > token
        # A person's reservation holds for what is left of it.
        assert {one.id for one in engine(folder).status().holders} > {number}


# ---- disks


@contextmanager
def small(tmp_path: Path, limit: str) -> Iterator[Path]:
    """A file system of its own."""
    point = tmp_path / "small"
    point.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"{limit},mode=0700", "none", point], check=False, capture_output=True
    )
    if done.returncode:
        pytest.skip("may not mount")
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", point], check=True)


def fill(folder: Path) -> None:
    with (folder / "fill").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


@root_only
@linux
def test_a_full_disk_costs_the_order_and_not_the_lease(tmp_path):
    with small(tmp_path, "size=64k") as folder:
        fill(folder)
        with take(folder) as grant:
            assert "without order among those who wait" in grant.notes[0]
            assert "No space left on device" in grant.notes[0]
            grant.check()
            with pytest.raises(LeaseTimeout):
                take(folder)
        (folder / "fill").unlink()
        with take(folder) as again:
            assert again.token > grant.token
            assert again.notes == ()


@root_only
@linux
def test_a_disk_that_fills_up_while_some_hold_and_wait(tmp_path):
    with small(tmp_path, "size=96k") as folder, started(folder, HOLD) as first, started(folder, WAIT) as second:
        fill(folder)
        first.tell()
        assert second.granted().startswith("got")
        second.kill()
        (folder / "fill").unlink()
        take(folder, timeout=PATIENCE, on_wait=anything).close()


@root_only
@linux
def test_no_inodes(tmp_path):
    with small(tmp_path, "nr_inodes=4") as folder:
        with take(folder) as grant:
            assert "No space left on device" in grant.notes[0]
            with pytest.raises(LeaseTimeout):
                take(folder)
        (folder / "host.lock").unlink()
        (folder / "other").touch()
        with pytest.raises(LeaseRefused, match="the disk is full"):
            take(folder)


def test_a_limit_on_file_sizes(folder):
    take(folder).close()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        with take(folder) as grant:
            assert "can't be" in grant.notes[0]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_queue_that_somebody_is_stopped_in_costs_the_order_and_not_the_lease(folder, monkeypatch):
    take(folder).close()
    monkeypatch.setattr("touchgate.leases.queue.PATIENCE", 0.1)
    stopped = subprocess.Popen(["flock", str(folder / "queue.lock"), "sleep", "600"])
    try:
        time.sleep(0.2)
        until(lambda: children(stopped.pid))
        with take(folder) as grant:
            assert f"as by a process that was stopped in it; the lock is kept by pid {stopped.pid} flock" in grant.notes[0]
            with pytest.raises(LeaseTimeout):
                take(folder)
        with pytest.raises(LeaseRefused, match="nothing was changed"):
            engine(folder).drain(HOST, "fans")
    finally:
        for pid in children(stopped.pid):
            os.kill(pid, signal.SIGKILL)
        stopped.wait()


def test_a_queue_that_one_after_the_other_gets_is_waited_for(folder, monkeypatch):
    """However long a crowd takes in all: nobody was stopped in there."""
    take(folder).close()
    monkeypatch.setattr("touchgate.leases.queue.PATIENCE", 0.3)
    lock = os.open(folder / "queue.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)

    def others():
        for _ in range(30):
            time.sleep(0.03)
            os.utime(lock)
        os.close(lock)

    crowd = threading.Thread(target=others)
    crowd.start()
    with take(folder) as grant:
        assert grant.notes == ()
    crowd.join()


# ---- processes


@linux
def test_fifty_children_that_keep_the_lease(folder):
    bomb = """
        held = take("bomb", 0)
        pids = []
        for _ in range(50):
            pid = os.fork()
            if pid == 0:
                signal.pause()
            pids.append(pid)
        say(*pids)
        held.close()
        say("closed")
        heard()
    """
    with started(folder, bomb) as first:
        pids = [int(pid) for pid in first.first.split()]
        assert first.heard() == "closed"
        first.kill()
        with started(folder, WAIT) as second:
            for pid in pids[:-1]:
                os.kill(pid, signal.SIGKILL)
                gone(pid)
            assert [one.what for one in engine(folder).status().holders] == ["bomb"]
            os.kill(pids[-1], signal.SIGKILL)
            assert second.granted().startswith("got")


@forks
def test_a_forked_child_that_leaves_does_not_end_the_lease(folder):
    with take(folder) as grant:
        child = os.fork()
        if child == 0:
            grant.close()
            os._exit(0)
        os.waitpid(child, 0)
        grant.check()
        with pytest.raises(LeaseTimeout):
            take(folder)


def test_a_stopped_holder_keeps_what_it_has(folder):
    with started(folder, HOLD) as first:
        first.signal(signal.SIGSTOP)
        with pytest.raises(LeaseTimeout):
            take(folder, timeout=0.2, on_wait=anything)
        first.signal(signal.SIGCONT)
        first.tell()
        take(folder, timeout=PATIENCE, on_wait=anything).close()


def test_many_who_look_disturb_nobody(folder):
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            engine(folder).status()

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for _ in range(50):
            take(folder, on_wait=silent).close()
    finally:
        over.set()
        watcher.join()


def test_without_proc(folder, monkeypatch):
    monkeypatch.setattr(process, "PROC", Path("/nothing here"))
    with take(folder) as grant:
        assert [(one.pid, one.token) for one in engine(folder).status().holders] == [(os.getpid(), grant.token)]
    assert engine(folder).status().holders == ()


# ---- the log


def test_the_log_tells_what_happened_and_is_rotated(folder, monkeypatch):
    with take(folder, "gemv"), pytest.raises(LeaseTimeout):
        take(folder, "other")
    engine(folder).drain(HOST, "fans")
    with pytest.raises(LeaseRefused):
        take(folder, "third", timeout=None)
    told = [(one["event"], one.get("what")) for one in audit.last(folder, 100)]
    assert told == [
        ("asked", "gemv"),
        ("granted", "gemv"),
        ("asked", "other"),
        ("withdrawn", "other"),
        ("released", "gemv"),
        ("drained", None),
        ("asked", "third"),
        ("refused", "third"),
    ]
    engine(folder).undrain(HOST)
    monkeypatch.setattr(audit, "LARGEST", 1000)
    for _ in range(20):
        take(folder).close()
    names = sorted(path.name for path in folder.glob("audit*"))
    assert names[-audit.KEPT :] == [f"audit.jsonl.{number}" for number in range(1, audit.KEPT + 1)]
    ids = [one["id"] for one in audit.last(folder, 12) if one["event"] == "released"]
    assert ids == sorted(ids)
    assert len(ids) == 4


# ---- users


def as_user(uid: int, groups: list[int], work: Callable[[], None], umask: int = 0o022) -> int:
    """The exit code of `work`, done by an account that need not exist; forked, so that it reads no file of ours."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.umask(umask)
            os.setgroups(groups)
            os.setgid(uid)
            os.setuid(uid)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def shared() -> Iterator[Path]:
    """A lease folder of group 54321 that every account can reach, which pytest's own folders are not."""
    with tempfile.TemporaryDirectory() as above:
        Path(above).chmod(0o711)
        path = Path(above, "leases")
        path.mkdir()
        os.chown(path, 0, 54321)
        path.chmod(0o2770)
        yield path


@forks
@root_only
@linux
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_two_users_and_root_share_the_host(shared, umask):
    def hold() -> None:
        with take(shared) as grant:
            assert grant.notes == ()
            grant.check()

    def see_root() -> None:
        (seen,) = engine(shared).status().holders
        assert (seen.user, seen.alive) == ("root", True)
        with pytest.raises(LeaseTimeout):
            take(shared)
        with pytest.raises(LeaseTimeout):
            take(shared, timeout=0.1, on_wait=anything)
        assert engine(shared).status().queue == ()

    assert as_user(50001, [54321], hold, umask) == 0
    assert as_user(50002, [54321], hold, umask) == 0
    hold()
    assert as_user(50001, [54321], hold, umask) == 0
    with take(shared):
        assert as_user(50002, [54321], see_root, umask) == 0
    for path in (*shared.iterdir(), *(shared / "tickets").iterdir()):
        assert path.stat().st_gid == 54321, path


@forks
@root_only
@linux
def test_a_folder_of_one_that_is_opened_to_a_group(shared):
    shared.chmod(0o700)
    take(shared).close()
    shared.chmod(0o2770)
    take(shared).close()  # its owner opens what is inside

    def hold() -> None:
        with take(shared) as grant:
            assert grant.notes == ()

    assert as_user(50001, [54321], hold) == 0


@forks
@root_only
@linux
def test_a_user_is_woken_by_another_and_takes_back_only_what_is_theirs(shared):
    def wait() -> None:
        with take(shared, timeout=PATIENCE, on_wait=anything) as grant:
            grant.check()

    def refused() -> None:
        (one,) = engine(shared).status().queue
        with pytest.raises(LeaseRefused, match="only they and root can take it back"):
            engine(shared).cancel(one.id)

    grant = take(shared)
    child = os.fork()
    if child == 0:
        # The child has no copy of what this process holds, or its life would be the lease's.
        for descriptor in grant.descriptors:
            os.close(descriptor)
        os._exit(as_user(50001, [54321], wait, 0o077))
    until(lambda: engine(shared).status().queue)
    assert as_user(50002, [54321], refused) == 0
    grant.close()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@forks
@root_only
def test_who_is_not_in_the_group_is_told_so(shared):
    def refused() -> None:
        with pytest.raises(LeaseRefused, match="can't be written by this user; join its group"):
            take(shared)

    assert as_user(50003, [], refused) == 0


@forks
@root_only
@linux
def test_who_is_not_in_the_group_has_no_lease_beside_the_others(shared, monkeypatch):
    monkeypatch.setattr(directories, "SHARED", (shared.parent / "not there", shared))

    def refused() -> None:
        chosen = directories.lease_directory({"HOME": "/nonexistent"})
        assert (chosen.path, chosen.shared, chosen.alone) == (shared, True, "")
        asking = FilesEngine(chosen, host=HOST)
        cure = r"join its group \(gid 54321\), or set TOUCHGATE_LEASE_DIR to another folder, where nobody who has the host by"
        with pytest.raises(LeaseRefused, match=rf"can't be written by this user; {cure}"):
            asking.acquire(Ask(Want(hosts=1), "x", timeout=0), on_wait=silent)
        with pytest.raises(LeaseRefused, match=rf"can't be read by this user; {cure}"):
            asking.status()

    with take(shared):
        assert as_user(50003, [], refused) == 0


@root_only
@linux
def test_a_file_system_that_can_only_be_read(tmp_path):
    with small(tmp_path, "size=64k") as point:
        take(point).close()
        subprocess.run(["mount", "-o", "remount,ro", point], check=True)
        said = rf"the lease folder {point} lies on a file system that can only be read; mount it for writing"
        with pytest.raises(LeaseRefused, match=said):
            take(point)
        assert [note.partition(";")[0] for note in engine(point).status().notes] == [said.partition(";")[0]]


@forks
@root_only
def test_a_lock_file_that_another_user_kept_to_himself_is_named(shared):
    lock = shared / "host.lock"
    lock.touch(mode=0o600)
    lock.chmod(0o600)

    def refused() -> None:
        with pytest.raises(LeaseRefused, match="belongs to root, mode 0600, and can't be opened by uid 50001; chmod 0660"):
            take(shared)

    assert as_user(50001, [54321], refused) == 0

"""The host's lease, on real processes and real signals."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from touchgate.leases import files, holder, process, record
from touchgate.leases.files import Holder, LeaseCancelled, LeaseDirectory, LeaseRefused, LeaseTimeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

SOURCES = str(Path(files.__file__).resolve().parents[2])
PATIENCE = 60.0
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
forks = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be two users")


def lease_in(folder: Path) -> LeaseDirectory:
    return LeaseDirectory(folder, shared=False, why="a test")


@pytest.fixture
def lease(tmp_path) -> LeaseDirectory:
    return lease_in(tmp_path / "leases")


def take(lease: LeaseDirectory, **options) -> files.Held:
    return files.acquire(lease, **{"what": "gemv:kernel", "timeout": 0, "on_wait": lambda _holder: None, **options})


def silent(_holder: Holder) -> None:
    raise AssertionError("nothing to wait for")


class Script:
    """A process of its own that works with the lease; it talks in lines on standard output and is told by a line."""

    def __init__(self, lease: LeaseDirectory, text: str, **options) -> None:
        head = f"""
            import os, signal, subprocess, sys, time
            from pathlib import Path
            from touchgate.leases import files
            lease = files.LeaseDirectory(Path({str(lease.path)!r}), False, "a test")
            def say(*words): print(*words, flush=True)
            def take(what="other", timeout=None):
                waits = lambda holder: say("waits for", holder.pid)
                return files.acquire(lease, what=what, timeout=timeout, on_wait=waits)
        """
        environ = {**os.environ, "PYTHONPATH": SOURCES}
        code = textwrap.dedent(head) + textwrap.dedent(text)
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
            bufsize=1,
            **options,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def heard(self) -> str:
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        assert ready, "the process said nothing"
        return self.process.stdout.readline().strip()

    def tell(self) -> None:
        self.process.stdin.write("go\n")

    def end(self) -> int:
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


HOLD = """
    held = take("holding", 0)
    say("held", held.token)
    sys.stdin.readline()
    held.close()
    say("closed")
    sys.stdin.readline()
"""


def gone(pid: int) -> bool:
    end = time.monotonic() + PATIENCE
    while process.start_mark(pid) is not None:
        assert time.monotonic() < end
        time.sleep(0.005)
    return True


# ---- one holder


def test_a_free_lease_is_had_at_once_with_a_record_for_people(lease):
    with take(lease, what="gemv:kernel", job_url="https://forge/job/7", on_wait=silent) as held:
        (seen,) = files.status(lease)
        assert seen == Holder(
            resource="host",
            user=holder.user_name(os.geteuid()),
            pid=os.getpid(),
            since=held.since,
            what="gemv:kernel",
            url="https://forge/job/7",
            token=held.token,
            alive=True,
        )
        entry = json.loads((lease.path / "host.json").read_text())
        assert entry["schema"] == 1
        assert entry["started"] == process.start_mark(os.getpid())
        assert entry["ended"] is None
        assert held.still_ours()
        assert held.record_fault == ""
    assert files.status(lease) == []
    assert json.loads((lease.path / "host.json").read_text())["ended"] is not None


def test_a_closed_lease_has_no_descriptor(lease):
    held = take(lease)
    held.close()
    held.close()
    assert not held.still_ours()
    with pytest.raises(ValueError, match="closed"):
        held.fileno()


def test_the_descriptor_is_not_inherited_by_accident(lease):
    with take(lease) as held:
        assert not os.get_inheritable(held.fileno())


def test_an_exception_gives_the_lease_back(lease):
    with pytest.raises(KeyError), take(lease):
        raise KeyError
    take(lease, on_wait=silent).close()


def test_timeout_zero_names_the_holder(lease):
    with Script(lease, HOLD) as other:
        token = int(other.heard().split()[1])
        with pytest.raises(LeaseTimeout) as caught:
            take(lease, on_wait=silent)
        assert (caught.value.holder.pid, caught.value.holder.token) == (other.pid, token)
        assert str(caught.value) == (
            f"the host's lease was not granted in 0 s: held by {holder.user_name(os.geteuid())}, pid {other.pid}, "
            f"since {caught.value.holder.since} (holding)"
        )


def test_filelock_itself_is_kept_out_and_keeps_us_out(lease):
    from filelock import FileLock, Timeout

    with take(lease), pytest.raises(Timeout):
        FileLock(lease.path / "host.lock").acquire(timeout=0)
    with FileLock(lease.path / "host.lock"), pytest.raises(LeaseTimeout):
        take(lease)
    take(lease).close()


# ---- waiting


def test_a_waiter_says_once_whom_it_waits_for_and_then_has_it(lease):
    with Script(lease, HOLD) as first:
        token = int(first.heard().split()[1])
        with Script(lease, "held = take(); say('got', held.token)") as second:
            assert second.heard() == f"waits for {first.pid}"
            first.tell()
            assert first.heard() == "closed"
            assert int(second.heard().split()[1]) > token
            assert second.end() == 0


def test_a_waiter_hears_of_a_new_holder(lease):
    heard: list[int | None] = []
    pass_on = """
        held = take("first", 0)
        say("held")
        sys.stdin.readline()
        held.close()
        held = take("second", None)
        say("again", held.token)
        sys.stdin.readline()
    """
    with Script(lease, pass_on) as other:
        other.heard()

        def note(seen: Holder) -> None:
            heard.append(seen.token)
            if len(heard) == 1:
                # Change hands while we wait: the same process closes and takes it anew.
                other.tell()
                assert other.heard().startswith("again")
            else:
                other.process.kill()

        with take(lease, timeout=PATIENCE, on_wait=note) as held:
            assert heard == sorted(set(heard))
            assert len(heard) == 2
            assert held.token > heard[-1]


def test_a_wait_ends_in_time(lease):
    told = []
    with Script(lease, HOLD) as other:
        other.heard()
        with pytest.raises(LeaseTimeout):
            take(lease, timeout=0.2, on_wait=told.append)
        assert [seen.pid for seen in told] == [other.pid]


def test_a_wait_can_be_cancelled(lease):
    with Script(lease, HOLD) as other:
        other.heard()
        asked = iter([False, True])
        with pytest.raises(LeaseCancelled):
            take(lease, timeout=None, cancelled=lambda: next(asked))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_waiting_run_is_interrupted_at_once_and_leaves_no_lock(lease, number):
    waiting = """
        def stop(number, frame): raise SystemExit(40)
        signal.signal(signal.SIGTERM, stop)
        try:
            take()
        except KeyboardInterrupt:
            sys.exit(40)
    """
    with Script(lease, HOLD) as first:
        first.heard()
        with Script(lease, waiting) as second:
            second.heard()
            second.process.send_signal(number)
            assert second.end() == 40
        first.tell()
        assert first.heard() == "closed"
        take(lease, on_wait=silent).close()


def test_without_inotify_it_still_waits(lease, monkeypatch):
    monkeypatch.setattr("touchgate.leases.wake._inotify", lambda _path: None)
    with Script(lease, HOLD) as first:
        first.heard()
        take(lease, timeout=PATIENCE, on_wait=lambda _holder: first.tell()).close()


def test_a_stopped_waiter_holds_nobody_up(lease):
    with Script(lease, HOLD) as first:
        first.heard()
        with Script(lease, "held = take(); say('got')") as stopped:
            stopped.heard()
            stopped.process.send_signal(signal.SIGSTOP)
            first.tell()
            assert first.heard() == "closed"
            take(lease, timeout=PATIENCE).close()
            stopped.process.send_signal(signal.SIGCONT)
            assert stopped.heard() == "got"


# ---- killed


def test_kill_9_frees_the_lease_and_the_status_tells_who_it_was(lease):
    with Script(lease, HOLD) as other:
        token = int(other.heard().split()[1])
        other.process.kill()
        other.end()
        (seen,) = files.status(lease)
        assert (seen.pid, seen.token, seen.alive) == (other.pid, token, False)
        assert seen.note == "killed, or its record could not be closed; the host is free"
        with take(lease, on_wait=silent) as held:
            assert held.token > token
            assert [one.pid for one in files.status(lease)] == [os.getpid()]


def test_kill_9_of_the_holder_wakes_a_waiter(lease):
    with Script(lease, HOLD) as other:
        other.heard()
        told = []

        def kill(seen: Holder) -> None:
            told.append(seen.pid)
            other.process.kill()

        take(lease, timeout=PATIENCE, on_wait=kill).close()
        assert told == [other.pid]


KEEP = """
    held = take("parent", 0)
    child = subprocess.Popen(["sleep", "600"], pass_fds=[held.fileno()])
    say(child.pid)
    sys.stdin.readline()
    held.close()
    say("closed")
    sys.stdin.readline()
"""


@linux
@pytest.mark.parametrize("killed", [True, False])
def test_a_child_that_has_the_descriptor_keeps_the_lease(lease, killed):
    with Script(lease, KEEP) as other:
        child = int(other.heard())
        try:
            if killed:
                other.process.kill()
                other.end()
                how = "was killed"
            else:
                other.tell()
                assert other.heard() == "closed"
                how = "has ended"
            with pytest.raises(LeaseTimeout):
                take(lease)
            (seen,) = files.status(lease)
            assert seen.alive
            assert seen.what == "parent"
            assert seen.keepers == (child,)
            assert seen.note == f"the run {how}; the lock is kept by pid {child} sleep"
        finally:
            os.kill(child, signal.SIGKILL)
        gone(child)
        take(lease, timeout=PATIENCE).close()


@forks
def test_a_forked_child_that_leaves_does_not_end_the_lease(lease):
    with take(lease) as held:
        child = os.fork()
        if child == 0:
            held.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert [seen.alive for seen in files.status(lease)] == [True]
        with Script(lease, "take(timeout=0)", stderr=subprocess.DEVNULL) as other:
            assert other.end() == 1


# ---- the lock file goes away


def test_a_deleted_lock_file_is_noticed_by_its_holder_and_by_the_next(lease):
    with Script(lease, HOLD) as other:
        token = int(other.heard().split()[1])
        (lease.path / "host.lock").unlink()
        (seen,) = files.status(lease)
        assert (seen.token, seen.alive, seen.note) == (token, True, "its lock file was deleted while it held it")
        with pytest.raises(LeaseTimeout) as caught:
            take(lease)
        assert caught.value.holder.token == token
        assert "deleted while it held it" in caught.value.holder.note
        # Now there is a new lock file, which nobody has; the host is still not free.
        assert [seen.token for seen in files.status(lease)] == [token]
        other.process.kill()
        other.end()
        with take(lease) as held:
            assert held.token > token


@pytest.mark.parametrize("how", ["deleted", "replaced", "a folder"])
def test_still_ours_looks_at_the_file(lease, how):
    with take(lease) as held:
        path = lease.path / "host.lock"
        path.unlink()
        if how == "replaced":
            path.touch()
        if how == "a folder":
            path.mkdir()
        assert not held.still_ours()


def test_a_waiter_goes_over_to_the_new_file(lease):
    with Script(lease, HOLD) as first:
        first.heard()

        def replace(_seen: Holder) -> None:
            (lease.path / "host.lock").unlink()
            first.process.kill()

        with take(lease, timeout=PATIENCE, on_wait=replace) as held:
            assert held.still_ours()


# ---- records


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"schema": 1}',
        b'{"schema": 99}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"schema": 1, "pid": true}',
        b"x" * (record.LARGEST + 1),
    ],
)
def test_a_record_that_is_none_neither_crashes_nor_holds(lease, content):
    with take(lease):
        (lease.path / "host.json").write_bytes(content)
        (seen,) = files.status(lease)
        assert seen.alive
        if sys.platform == "linux":
            assert (seen.pid, seen.keepers) == (os.getpid(), (os.getpid(),))
    (lease.path / "host.json").write_bytes(content)
    assert files.status(lease) == []
    take(lease, on_wait=silent).close()


def test_records_come_back_as_they_were_written(tmp_path):
    entry = record.Record("host", "a", 1, "b:1", "ns", "h", "w", "2026-11-30T14:02:11Z", 5, 6, None, None)
    record.write(tmp_path / "r.json", entry, 0o644)
    assert record.read(tmp_path / "r.json") == entry
    assert stat.S_IMODE((tmp_path / "r.json").stat().st_mode) == 0o644


def test_what_others_wrote_can_not_play_with_the_terminal(tmp_path):
    entry = record.Record("host", "a\x1b[2J", 1, "", "", "", "w\n" * 1000, "s", 5, 6)
    record.write(tmp_path / "r.json", entry, 0o600)
    back = record.read(tmp_path / "r.json")
    assert back.user == "a?[2J"
    assert len(back.what) == 500


def test_a_record_that_is_a_link_or_a_pipe_is_not_read(tmp_path):
    (tmp_path / "real").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "pipe")
    assert record.read(tmp_path / "link") is None
    assert record.read(tmp_path / "pipe") is None


def test_a_recycled_process_id_is_not_the_holder(lease):
    take(lease).close()
    path = lease.path / "host.json"
    entry = json.loads(path.read_text())
    # This very process id lives, but it started at another time: it never held anything.
    path.write_text(json.dumps({**entry, "ended": None, "started": "another boot:1"}))
    (seen,) = files.status(lease)
    assert not seen.alive
    # And not with another lock file's number either: the old run is gone, so nobody is waited for.
    path.write_text(json.dumps({**entry, "ended": None, "started": "another boot:1", "inode": 1}))
    take(lease, on_wait=silent).close()


def test_a_process_of_another_namespace_is_not_judged_by_its_number(lease):
    take(lease).close()
    path = lease.path / "host.json"
    entry = json.loads(path.read_text())
    path.write_text(json.dumps({**entry, "ended": None, "namespace": "pid:[1]", "inode": 1}))
    take(lease, on_wait=silent).close()


def test_a_writer_killed_in_the_middle_leaves_nothing_that_matters(lease):
    dying = """
        import touchgate.leases.record as record
        def torn(path, entry, mode):
            path.with_name(path.name + ".new").write_text('{"schema": 1, "us')
            os.kill(os.getpid(), signal.SIGKILL)
        record.write = torn
        take(timeout=0)
    """
    with Script(lease, dying) as other:
        assert other.end() == -signal.SIGKILL
    assert files.status(lease) == []
    with take(lease, on_wait=silent):
        assert [seen.pid for seen in files.status(lease)] == [os.getpid()]
    assert sorted(path.name for path in lease.path.iterdir()) == ["host.json", "host.lock"]


def test_a_full_disk_neither_loses_nor_wedges_the_lease(lease, monkeypatch):
    take(lease, what="before").close()

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(record, "write", full)
        with take(lease, what="now") as held:
            assert held.record_fault == (
                f"who holds the lease can't be written to {lease.path / 'host.json'}: No space left on device"
            )
            (seen,) = files.status(lease)
            assert seen.alive
            assert seen.what == ""  # not the name of whoever had it before
            with pytest.raises(LeaseTimeout):
                take(lease)
            token = held.token
    assert files.status(lease) == []
    with take(lease, on_wait=silent) as held:
        assert held.token > token


@root_only
@linux
@pytest.mark.parametrize("limit", ["size=16k", "nr_inodes=2"])
def test_a_really_full_file_system(tmp_path, limit):
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"{limit},mode=0700", "none", folder], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("may not mount")
    try:
        lease = lease_in(folder)
        if limit.startswith("size"):
            with pytest.raises(OSError, match="No space"):
                (folder / "fill").write_bytes(bytes(1 << 20))
        with take(lease) as held:
            assert "No space left" in held.record_fault
            with pytest.raises(LeaseTimeout):
                take(lease)
        if limit.startswith("size"):
            (folder / "fill").unlink()
            with take(lease) as again:
                assert again.token > held.token
                assert again.record_fault == ""
        else:
            (folder / "host.lock").unlink()
            (folder / "other").touch()
            with pytest.raises(LeaseRefused, match="the disk is full"):
                take(lease)
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


# ---- tokens


def test_tokens_only_grow(lease, monkeypatch):
    tokens = []
    for _ in range(5):
        with take(lease) as held:
            tokens.append(held.token)
    (lease.path / "host.json").unlink()  # the record is lost: the lock file remembers
    with take(lease) as held:
        tokens.append(held.token)
    (lease.path / "host.lock").write_bytes(b"")  # an old filelock truncates: the record remembers
    with take(lease) as held:
        tokens.append(held.token)
    monkeypatch.setattr(files.time, "time_ns", lambda: 0)  # the clock was set back
    with take(lease) as held:
        tokens.append(held.token)
    assert tokens == sorted(set(tokens))


def test_a_wiped_folder_does_not_start_the_tokens_over(lease):
    with take(lease) as held:
        before = held.token
    for path in lease.path.iterdir():
        path.unlink()
    with take(lease) as held:
        assert held.token >= before


# ---- many at once


def test_holders_never_overlap(lease, tmp_path):
    canary = tmp_path / "canary"
    working = f"""
        canary = Path({str(canary)!r})
        for _ in range(10):
            with take() as held:
                descriptor = os.open(canary, os.O_CREAT | os.O_EXCL | os.O_WRONLY)  # fails where somebody else is in
                os.close(descriptor)
                time.sleep(0.002)
                assert held.still_ours()
                canary.unlink()
                print("token", held.token, flush=True)
    """
    scripts = [Script(lease, working) for _ in range(3)]
    looked = threading.Event()

    def look() -> None:
        # Somebody asking all the time must not disturb anybody.
        while not looked.is_set():
            files.status(lease)
            time.sleep(0.001)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        tokens = []
        for script in scripts:
            out, _ = script.process.communicate(timeout=PATIENCE)
            assert script.process.returncode == 0
            tokens += [int(line.split()[1]) for line in out.splitlines() if line.startswith("token")]
    finally:
        looked.set()
        watcher.join()
        for script in scripts:
            script.process.kill()
    assert len(set(tokens)) == 30
    assert files.status(lease) == []


def test_a_holder_killed_again_and_again_lets_the_others_on(lease):
    for _ in range(5):
        with Script(lease, HOLD) as other:
            assert other.heard().startswith("held")
            other.process.kill()
            other.end()
    take(lease, on_wait=silent).close()


# ---- two users


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
def shared() -> Iterator[LeaseDirectory]:
    """A lease folder of group 54321 that every account can reach, which pytest's own folders are not."""
    with tempfile.TemporaryDirectory() as above:
        Path(above).chmod(0o711)
        folder = Path(above, "leases")
        folder.mkdir()
        os.chown(folder, 0, 54321)
        folder.chmod(0o2770)
        yield lease_in(folder)


@forks
@root_only
@linux
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_two_users_of_one_group_share_the_host(shared, umask):
    def hold() -> None:
        with take(shared) as held:
            assert held.record_fault == ""

    def see_root() -> None:
        (seen,) = files.status(shared)
        assert (seen.user, seen.alive) == ("root", True)
        with pytest.raises(LeaseTimeout):
            take(shared)

    assert as_user(50001, [54321], hold, umask) == 0
    assert as_user(50002, [54321], hold, umask) == 0
    hold()
    assert as_user(50001, [54321], hold, umask) == 0
    with take(shared):
        assert as_user(50002, [54321], see_root, umask) == 0


@forks
@root_only
def test_who_is_not_in_the_group_is_told_so(shared):
    def refused() -> None:
        with pytest.raises(LeaseRefused, match="can't be written by this user; join its group"):
            take(shared)

    assert as_user(50003, [], refused) == 0


@forks
@root_only
def test_a_lock_file_that_another_user_kept_to_himself_is_named(shared):
    lock = shared.path / "host.lock"
    lock.touch(mode=0o600)
    lock.chmod(0o600)

    def refused() -> None:
        with pytest.raises(LeaseRefused, match="belongs to root, mode 0600, and can't be opened by uid 50001; chmod 0660"):
            take(shared)

    assert as_user(50001, [54321], refused) == 0


def test_without_proc_the_holder_is_known_by_its_record(lease, monkeypatch):
    monkeypatch.setattr(process, "PROC", Path("/nothing here"))
    with take(lease) as held:
        (seen,) = files.status(lease)
        assert (seen.pid, seen.token, seen.alive) == (os.getpid(), held.token, True)
    assert files.status(lease) == []

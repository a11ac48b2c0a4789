"""Which folder leases lie in, and which are refused."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from touchgate.leases import directory as directories
from touchgate.leases import files
from touchgate.leases.engine import Ask, Grant, LeaseMistake
from touchgate.leases.files import FilesEngine, LeaseDirectory, LeaseRefused
from touchgate.leases.model import Want

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be two users")


def lease_in(folder: Path) -> LeaseDirectory:
    return LeaseDirectory(folder, shared=False, why="a test")


@pytest.fixture
def lease(tmp_path) -> LeaseDirectory:
    return lease_in(tmp_path / "leases")


def take(lease: LeaseDirectory) -> Grant:
    ask = Ask(Want(hosts=1), "gemv:kernel", timeout=0)
    return FilesEngine(lease, host="here").acquire(ask, on_wait=lambda _place: None)


def test_the_named_folder_is_taken_and_made(tmp_path):
    chosen = files.lease_directory({"TOUCHGATE_LEASE_DIR": str(tmp_path / "a" / "b")})
    assert chosen == LeaseDirectory(tmp_path / "a" / "b", shared=False, why="TOUCHGATE_LEASE_DIR")
    assert not chosen.path.exists()
    take(chosen).close()
    assert stat.S_IMODE(chosen.path.stat().st_mode) == 0o700


@pytest.mark.parametrize("named", ["leases", "./leases", "~/leases"])
def test_a_relative_folder_is_refused(named):
    with pytest.raises(LeaseMistake, match="no two runs would be kept apart; name the whole path, such as /"):
        files.lease_directory({"TOUCHGATE_LEASE_DIR": named})


def test_without_a_shared_folder_it_is_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setattr(directories, "SHARED", (tmp_path / "not there",))
    monkeypatch.setattr(directories, "file_system", lambda _path: "ext4")
    chosen = files.lease_directory({"HOME": str(tmp_path)})
    assert chosen == LeaseDirectory(
        tmp_path / ".cache" / "touchgate" / "leases",
        shared=False,
        why="for this user alone: no shared folder is set up",
        unasked=True,
    )
    assert chosen.alone == (
        f"leases in {chosen.path} keep this user's own runs apart, nobody else's "
        "(for this user alone: no shared folder is set up)"
    )


@root_only
def test_a_shared_folder_that_is_set_up_is_taken(tmp_path, monkeypatch):
    shared, second = tmp_path / "shared", tmp_path / "second"
    monkeypatch.setattr(directories, "SHARED", (shared, second))
    second.mkdir()
    second.chmod(0o2770)
    assert files.lease_directory({"HOME": str(tmp_path)}).path == second
    shared.mkdir()
    shared.chmod(0o2770)
    assert files.lease_directory({"HOME": str(tmp_path)}) == LeaseDirectory(
        shared, shared=True, why="the host's shared folder"
    )


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        (0o755, "{path} is not group-writable"),
        (0o1777, "the lease folder {path} is sticky: "),
        (0o2777, "the lease folder {path} can be written by everybody"),
    ],
)
def test_a_shared_folder_that_is_not_fit_is_passed_over_and_named(tmp_path, monkeypatch, mode, why):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    monkeypatch.setattr(directories, "SHARED", (shared,))
    chosen = files.lease_directory({"HOME": str(tmp_path)})
    assert not chosen.shared
    assert chosen.why.startswith(
        "for this user alone: no shared folder is set up; " + why.format(path=shared),
    )


@root_only
def test_a_folder_that_just_anybody_made_is_not_trusted_unasked(tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    os.chown(shared, 12345, -1)
    monkeypatch.setattr(directories, "SHARED", (shared,))
    assert files.lease_directory({"HOME": str(tmp_path)}).why.endswith(f"{shared} does not belong to root")


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (0o1777, "is sticky: a second user can't take a lock file that the first one made"),
        (0o1770, "is sticky"),
        (0o777, "can be written by everybody, who could delete a lock that is held"),
    ],
)
def test_an_unsafe_folder_is_refused_with_a_cure(tmp_path, mode, words):
    folder = tmp_path / "leases"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(LeaseRefused, match=words) as caught:
        take(lease_in(folder))
    assert f"chgrp GROUP {folder} && chmod 2770 {folder}" in str(caught.value)
    assert list(folder.iterdir()) == []


def test_links_and_files_are_no_lease_folders(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").touch()
    with pytest.raises(LeaseRefused, match="symbolic link"):
        take(lease_in(tmp_path / "link"))
    with pytest.raises(LeaseRefused, match="is not a folder"):
        take(lease_in(tmp_path / "file"))
    with pytest.raises(LeaseRefused, match="can't be made"):
        take(lease_in(tmp_path / "file" / "below"))


@pytest.mark.parametrize("kind", ["nfs4", "nfs", "fuse.sshfs", "fuse", "overlay", "lustre", "cifs", "9p", "ceph"])
def test_file_systems_that_can_not_exclude_are_refused(lease, monkeypatch, kind):
    monkeypatch.setattr(directories, "file_system", lambda _path: kind)
    with pytest.raises(LeaseRefused, match=rf"lies on {kind}, where a lock may not be seen"):
        take(lease)


def test_a_home_on_the_network_is_passed_over(tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(directories, "SHARED", ())
    monkeypatch.setattr(directories, "file_system", lambda path: "nfs4" if path.is_relative_to(tmp_path / "home") else "ext4")
    chosen = files.lease_directory({"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")})
    assert chosen.path == tmp_path / "tmp" / f"touchgate-{os.getuid()}" / "leases"
    take(chosen).close()


MOUNTS = """\
21 1 0:20 / / rw - overlay overlay rw
22 21 0:21 / /proc rw - proc proc rw
23 21 8:1 / /data\\040disk rw shared:1 - ext4 /dev/sda1 rw
24 23 0:30 / /data\\040disk/home rw - nfs4 server:/home rw
25 23 0:31 / /data\\040disk/home rw - tmpfs none rw
broken
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/tmp", "overlay"),
        ("/data disk", "ext4"),
        ("/data disk/homes", "ext4"),
        ("/data disk/home/a", "tmpfs"),
        ("/proc/1", "proc"),
    ],
)
def test_the_file_system_is_the_nearest_mount(monkeypatch, path, kind):
    monkeypatch.setattr(Path, "read_text", lambda *_arguments, **_options: MOUNTS)
    assert directories.file_system(Path(path)) == kind


def test_lock_files_that_are_something_else_are_refused(lease, tmp_path):
    lease.path.mkdir(mode=0o700)
    lock = lease.path / "host.lock"
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LeaseRefused, match="is a symbolic link; delete it"):
        take(lease)
    assert not (tmp_path / "elsewhere").exists()
    lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(LeaseRefused, match="is not a regular file"):
        take(lease)
    lock.unlink()
    lock.mkdir()
    with pytest.raises(LeaseRefused, match="can't be opened"):
        take(lease)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_refused(lease, monkeypatch, number):
    def refuse(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(LeaseRefused, match="keeps no locks"):
        take(lease)


def test_status_of_a_folder_that_holds_no_leases_says_why(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    for name, why in (
        ("file", "is not a folder; move it away, or set TOUCHGATE_LEASE_DIR to a folder"),
        ("link", "is a symbolic link"),
        ("file/below", "can't be looked at: Not a directory"),
    ):
        with pytest.raises(LeaseRefused, match=why):
            FilesEngine(lease_in(tmp_path / name)).status()
    (tmp_path / "folder").chmod(0o777)
    seen = FilesEngine(lease_in(tmp_path / "folder")).status()
    (note,) = seen.notes
    assert note == (
        f"the lease folder {tmp_path}/folder can be written by everybody, who could delete a lock that is held; "
        f"chgrp GROUP {tmp_path}/folder && chmod 2770 {tmp_path}/folder, as the folder's owner"
    )
    monkeypatch.setattr(directories, "file_system", lambda _path: "nfs4")
    (tmp_path / "far").mkdir(mode=0o700)
    with pytest.raises(LeaseRefused, match="lies on nfs4, where a lock may not be seen by the host's other runs"):
        FilesEngine(lease_in(tmp_path / "far")).status()


def test_status_of_a_folder_that_is_not_there(tmp_path):
    assert FilesEngine(lease_in(tmp_path / "nothing"), host="here").status().holders == ()
    assert not (tmp_path / "nothing").exists()


@root_only
def test_another_users_private_folder_is_refused_even_to_root(tmp_path):
    folder = tmp_path / "leases"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, -1)
    with pytest.raises(LeaseRefused, match=r"belongs to another user \(uid 12345\) alone"):
        take(lease_in(folder))

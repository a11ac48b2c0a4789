"""`doit lease doctor`: what it finds in a lease folder, and what --fix makes of one."""

import grp
import json
import os
import stat

import pytest

from touchgate.edge.commands import lease_doctor
from touchgate.edge.commands.lease_doctor import Finding, excludes, fix
from touchgate.edge.usage import UsageFault
from touchgate.leases.directory import LeaseDirectory, unfit
from touchgate.leases.engine import Ask, LeaseMistake, LeaseRefused
from touchgate.leases.files import FilesEngine
from touchgate.leases.holder import user_name
from touchgate.leases.model import Want

GROUP = grp.getgrgid(os.getgid()).gr_name
USER = user_name(os.geteuid())
WHOLE = Want(hosts=1)


@pytest.fixture(autouse=True)
def _no_container(monkeypatch):
    """The machine that runs the tests may be a container itself."""
    monkeypatch.setattr(lease_doctor, "IN_CONTAINER", ())


def looked_at(path, *, shared=False):
    return lease_doctor._folder(LeaseDirectory(path, shared, "a test"))


def take(directory, want=WHOLE):
    """A lease, had and given back."""
    FilesEngine(directory, host="here", gpus=("GPU-a",)).acquire(Ask(want, "x", timeout=0), on_wait=print).close()


def environ_of(path):
    return {"TOUCHGATE_LEASE_DIR": str(path)}


def test_a_folder_of_ones_own_works_and_a_person_should_know(tmp_path):
    folder = tmp_path / "leases"
    folder.mkdir(mode=0o700)
    alone, works = looked_at(folder)
    assert (alone.good, works) == (None, Finding(True, f"a lock in {folder} keeps a second one out"))
    assert alone.text == f"leases in {folder} keep this user's own runs apart, nobody else's (a test)"
    assert alone.cure.startswith("as root: doit lease doctor --fix --group GROUP")
    assert list(folder.iterdir()) == []


def test_a_folder_that_is_not_there_yet(tmp_path):
    assert looked_at(tmp_path / "x")[1:] == [Finding(None, f"{tmp_path / 'x'} is not there yet; the first lease makes it")]
    assert not (tmp_path / "x").exists()


def test_a_shared_folder(tmp_path):
    folder = tmp_path / "leases"
    folder.mkdir()
    folder.chmod(0o2770)
    assert looked_at(folder, shared=True) == [
        Finding(True, f"{folder} is shared by the group {GROUP} (a test)"),
        Finding(True, f"a lock in {folder} keeps a second one out"),
    ]


@pytest.mark.parametrize(("mode", "why"), [(0o1777, "is sticky"), (0o777, "can be written by everybody")])
def test_a_folder_that_keeps_nobody_apart(tmp_path, mode, why):
    folder = tmp_path / "leases"
    folder.mkdir()
    folder.chmod(mode)
    found = looked_at(folder, shared=True)
    assert [one.good for one in found] == [False]
    assert why in found[0].text


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(lease_doctor.fcntl, "flock", lambda *_: None)
    assert excludes(tmp_path) == f"two locks on one file in {tmp_path} were had at once: its file system keeps nobody out"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_room(tmp_path, monkeypatch):
    class Full:
        f_bavail, f_frsize, f_files, f_favail = 1, 4096, 1000, 900

    monkeypatch.setattr(lease_doctor.os, "statvfs", lambda _: Full)
    assert lease_doctor._room(tmp_path)[0].text.startswith(f"the disk of {tmp_path} is full")
    Full.f_bavail, Full.f_favail = 10_000, 3
    assert "inodes" in lease_doctor._room(tmp_path)[0].text
    Full.f_files, Full.f_favail = 0, 0  # btrfs counts none
    assert lease_doctor._room(tmp_path) == []


def test_a_containers_own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(lease_doctor, "IN_CONTAINER", (tmp_path,))
    monkeypatch.setattr(lease_doctor.os.path, "ismount", lambda path: path == tmp_path)
    assert lease_doctor._container(tmp_path / "leases") == []
    monkeypatch.setattr(lease_doctor.os.path, "ismount", lambda path: str(path) == "/")
    (found,) = lease_doctor._container(tmp_path / "leases")
    assert (found.good, "--volume /var/lib/touchgate/leases" in found.cure) == (False, True)


def test_fix_makes_a_groups_folder_and_leaves_a_good_one_alone(tmp_path):
    folder = tmp_path / "deep" / "leases"
    directory = LeaseDirectory(folder, False, "TOUCHGATE_LEASE_DIR")
    assert fix(directory, GROUP, environ_of(folder)) == [Finding(None, f"{folder} is set up now, mode 2770, group {GROUP}")]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o2770
    assert unfit(folder) is None
    assert fix(directory, GROUP, environ_of(folder)) == []


@pytest.mark.parametrize("mode", [0o777, 0o755])
def test_fix_mends_a_folder(tmp_path, mode):
    folder = tmp_path / "leases"
    folder.mkdir()
    take(LeaseDirectory(folder, False, "a test"))
    folder.chmod(mode)
    directory = LeaseDirectory(folder, False, "TOUCHGATE_LEASE_DIR")
    assert fix(directory, None, environ_of(folder)) == [Finding(None, f"{folder} is set up now, mode 0700")]
    assert unfit(folder) is None
    folder.chmod(mode)
    fix(directory, GROUP, environ_of(folder))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o2770


@pytest.mark.parametrize(
    ("mode", "names", "why"),
    [
        (0o1777, [], "is sticky, as folders that all users write into are (/tmp): it is left as it is; name a folder"),
        (0o1777, ["host.lock"], "or, if it is one, `chmod -t {folder}` first"),
        (0o755, ["bin"], "holds what is not of leases (bin): it is left as it is; name a folder for leases alone"),
        (0o755, ["host.lock", "a", "b", "c", "d"], "holds what is not of leases (a, b, c and 1 more): it is left as it is"),
        (0o770, ["host.json", "host\x1b[2J.json"], "holds what is not of leases (host\\x1b[2J.json)"),
    ],
)
@pytest.mark.parametrize("group", [None, GROUP])
def test_fix_leaves_a_folder_that_is_not_of_leases_alone(tmp_path, mode, names, why, group):
    folder = tmp_path / "leases"
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    folder.chmod(mode)
    with pytest.raises(LeaseRefused) as caught:
        fix(LeaseDirectory(folder, False, "TOUCHGATE_LEASE_DIR"), group, environ_of(folder))
    assert why.format(folder=folder) in str(caught.value)
    assert stat.S_IMODE(folder.stat().st_mode) == mode


def test_every_file_of_leases_is_known_as_one(tmp_path):
    folder = tmp_path / "leases"
    directory = LeaseDirectory(folder, False, "a test")
    take(directory, Want(gpus=1))
    take(directory)
    assert {one.name for one in folder.iterdir()} == {
        *("audit.jsonl", "gpu-GPU-a.json", "gpu-GPU-a.lock", "host.json", "host.lock", "queue.json", "queue.lock", "tickets")
    }
    folder.chmod(0o755)
    assert fix(directory, None, environ_of(folder)) == [Finding(None, f"{folder} is set up now, mode 0700")]


def test_files_that_some_who_share_the_folder_can_not_open(tmp_path):
    folder = tmp_path / "leases"
    folder.mkdir()
    folder.chmod(0o2770)
    take(LeaseDirectory(folder, True, "a test"))
    assert [one.good for one in looked_at(folder, shared=True)] == [True, True]
    (folder / "host.lock").chmod(0o600)
    (folder / "tickets").chmod(0o700)
    (folder / "queue.lock").unlink()
    (folder / "queue.lock").mkdir()
    found = looked_at(folder, shared=True)
    assert found[2:] == [
        Finding(
            False,
            f"{folder}/host.lock belongs to {USER}, mode 0600: others of the group {GROUP} can't use it",
            f"chgrp {GROUP} {folder}/host.lock && chmod 0660 {folder}/host.lock, as its owner or root",
        ),
        Finding(False, f"{folder}/queue.lock is no regular file", "move it away"),
        Finding(
            False,
            f"{folder}/tickets belongs to {USER}, mode 0700: others of the group {GROUP} can't use it",
            f"chgrp {GROUP} {folder}/tickets && chmod 2770 {folder}/tickets, as its owner or root",
        ),
    ]


def test_fix_touches_nothing_that_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path)
    before = tmp_path.stat().st_mode
    for name in ("file", "link"):
        directory = LeaseDirectory(tmp_path / name, False, "TOUCHGATE_LEASE_DIR")
        with pytest.raises(LeaseRefused, match="is there and is no folder; it is left as it is"):
            fix(directory, GROUP, environ_of(tmp_path / name))
    assert tmp_path.stat().st_mode == before


def test_fix_refuses_a_group_that_is_not_there(tmp_path):
    directory = LeaseDirectory(tmp_path, False, "TOUCHGATE_LEASE_DIR")
    with pytest.raises(UsageFault, match="--group no-such-group: there is no such group on this host"):
        fix(directory, "no-such-group", environ_of(tmp_path))


def test_who_may_not_is_told_what_to_do(tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(lease_doctor.os, "chown", refused)
    directory = LeaseDirectory(tmp_path / "x", False, "TOUCHGATE_LEASE_DIR")
    with pytest.raises(LeaseRefused, match=rf"Operation not permitted; as root: doit lease doctor --fix --group {GROUP}$"):
        fix(directory, GROUP, environ_of(tmp_path / "x"))


def test_the_whole_answer(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "leases"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("TOUCHGATE_LEASE_DIR", str(folder))
    monkeypatch.delenv("TOUCHGATE_POSTGRES", raising=False)
    assert lease_doctor.doctor({}) == 1
    assert capsys.readouterr().out.startswith("WRONG: the lease folder ")
    assert lease_doctor.doctor({"fix": True, "json": True}) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["good"] for one in told["findings"]] == [None, None, True, True]
    assert told["findings"][-1]["text"].startswith("leases: ")
    with pytest.raises(UsageFault, match="--group is for"):
        lease_doctor.doctor({"group": GROUP})


def test_a_relative_folder_is_no_folder_to_look_at(monkeypatch):
    monkeypatch.setenv("TOUCHGATE_LEASE_DIR", "leases")
    for given in ({}, {"fix": True}):
        with pytest.raises(LeaseMistake, match="TOUCHGATE_LEASE_DIR is 'leases', which is another folder wherever a run is"):
            lease_doctor.doctor(given)

"""Which folder the host's leases lie in, and whether it can keep two runs apart."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate import places
from touchgate.leases.engine import LeaseMistake, LeaseRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "TOUCHGATE_LEASE_DIR"
SHARED = (Path("/var/lib/touchgate/leases"), Path("/run/lock/touchgate"))
"""Where an administrator sets up leases for all users of a host, in the order in which they are looked for."""

CANNOT_EXCLUDE = re.compile(
    r"nfs\d*|cifs|smb\d*|smbfs|9p|virtiofs|afs|ceph|lustre|gpfs|beegfs|glusterfs|vboxsf|prl_fs|fuse(\..*)?|fuseblk"
    r"|overlay(fs)?|aufs|unionfs"
)
"""File systems where an flock may hang, fail, reach one machine or one container only, or silently exclude nobody."""


@dataclass(frozen=True)
class LeaseDirectory:
    """The folder, whether runs of other users share it, and in words why this one was taken.

    unasked: it is the user's own, and nobody said that it should be.
    """

    path: Path
    shared: bool
    why: str
    unasked: bool = False

    @property
    def alone(self) -> str:
        """What a run in it should know, "" where nothing."""
        return f"leases in {self.path} keep this user's own runs apart, nobody else's ({self.why})" if self.unasked else ""


def lease_directory(environ: Mapping[str, str] = os.environ) -> LeaseDirectory:
    """TOUCHGATE_LEASE_DIR, else a folder of `SHARED` that is set up, else one for this user alone. Makes no folder.

    One that is set up is taken by users that can't use it, too: `prepare` refuses it to them. A folder of their own would
    keep them apart from nobody who has the host by that one. Raises `LeaseMistake` for a path that starts nowhere.
    """
    named = environ.get(VARIABLE)
    if named:
        path = Path(named)
        if not path.is_absolute():
            raise LeaseMistake(
                f"{VARIABLE} is '{named}', which is another folder wherever a run is started, so that no two runs would be "
                f"kept apart; name the whole path, such as {path.absolute()}"
            )
        shared = False
        with suppress(OSError):  # `prepare` says what is wrong with it
            shared = path.is_dir() and bool(path.stat().st_mode & stat.S_IWGRP)
        return LeaseDirectory(path, shared, VARIABLE)
    passed = ""
    for path in SHARED:
        fault = _not_set_up(path)
        if fault is None:
            return LeaseDirectory(path, shared=True, why="the host's shared folder")
        passed += f"; {fault}" if fault else ""
    alone = _private(environ)
    return LeaseDirectory(alone, shared=False, why=f"for this user alone: no shared folder is set up{passed}", unasked=True)


def _not_set_up(path: Path) -> str | None:
    """Why a folder is not one that an administrator set up, "" where there is none; None: it is one."""
    try:
        seen = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as fault:
        return f"{path} can't be looked at: {fault.strerror}"
    fault_text = _unfit_kind(path, seen) or _unfit_mode(path, seen) or _unfit_place(path, seen.st_dev, seen.st_ino)
    if fault_text is None and not seen.st_mode & stat.S_IWGRP:
        fault_text = f"{path} is not group-writable"
    if fault_text is None and seen.st_uid != 0:
        # Anybody can make a folder in /run/lock; only an administrator's is trusted unasked.
        fault_text = f"{path} does not belong to root"
    return fault_text


def _private(environ: Mapping[str, str]) -> Path:
    """Below the cache; where that lies on a file system that can't exclude (a home on NFS), somewhere local."""
    first = places.cache_dir(environ) / "leases"
    name = f"touchgate-{os.getuid()}"
    temporary = Path(environ.get("TMPDIR") or tempfile.gettempdir())
    for path in (first, temporary / name / "leases", Path("/dev/shm") / name / "leases"):  # noqa: S108 - checked by `unfit`
        if os.path.isdir(path.parent) or os.path.isdir(path.parent.parent):  # noqa: PTH112 - one that is hidden is none
            kind = file_system(path)
            if kind is None or not CANNOT_EXCLUDE.fullmatch(kind):
                return path
    return first


def file_system(path: Path) -> str | None:
    """The type of the file system that `path` (or its nearest existing parent) lies on; None where it can't be told."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    real = os.path.realpath(path)
    longest, found = -1, None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:  # noqa: PLR2004 - proc(5): the mount point is the fifth
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        # Of mounts on the same point the last one is what is seen.
        if inside and len(point) >= longest:
            longest, found = len(point), after.split(" ")[0]
    return found


def prepare(directory: LeaseDirectory) -> None:
    """Make a private folder that is not there yet, and refuse one that can't keep runs apart. Raises `LeaseRefused`."""
    path = directory.path
    if not os.path.lexists(path):
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as fault:
            raise LeaseRefused(
                f"the lease folder {path} ({directory.why}) can't be made: {fault.strerror}; "
                f"set {VARIABLE} to a folder on a local disk that you can write to"
            ) from fault
    fault_text = unfit(path)
    if fault_text:
        raise LeaseRefused(fault_text)


def unfit(path: Path) -> str | None:
    """Why leases at `path` would not keep runs apart, with the cure, or None."""
    try:
        seen = path.lstat()
    except OSError as fault:
        return f"the lease folder {path} can't be looked at: {fault.strerror}"
    return _unfit_kind(path, seen) or _unfit_owner(path, seen) or _unfit_place(path, seen.st_dev, seen.st_ino)


def absent(path: Path) -> bool:
    """Whether nothing is there, told from what may not be looked at."""
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def unseen(path: Path) -> str | None:
    """Why who has leases at `path` can't be told, with the cure, or None: it is readable, whatever else is wrong with it."""
    try:
        seen = path.lstat()
    except OSError as fault:
        return f"the lease folder {path} can't be looked at: {fault.strerror}"
    fault_text = _unfit_kind(path, seen) or _unfit_place(path, seen.st_dev, seen.st_ino)
    if fault_text is None and not os.access(path, os.R_OK | os.X_OK):
        return f"the lease folder {path} can't be read by this user; {_joining(seen)}"
    return fault_text


def _unfit_kind(path: Path, seen: os.stat_result) -> str | None:
    if stat.S_ISLNK(seen.st_mode):
        return f"the lease folder {path} is a symbolic link, which can be turned elsewhere; name the folder itself"
    if not stat.S_ISDIR(seen.st_mode):
        return f"the lease folder {path} is not a folder; move it away, or set {VARIABLE} to a folder"
    return None


def _unfit_mode(path: Path, seen: os.stat_result) -> str | None:
    by_others = seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if by_others and seen.st_mode & stat.S_ISVTX:
        return (
            f"the lease folder {path} is sticky: a second user can't take a lock file that the first one made; "
            f"make it a folder of one group without the sticky bit: {_opening(path)}"
        )
    if seen.st_mode & stat.S_IWOTH:
        return f"the lease folder {path} can be written by everybody, who could delete a lock that is held; {_opening(path)}"
    return None


def _unfit_owner(path: Path, seen: os.stat_result) -> str | None:
    fault = _unfit_mode(path, seen)
    if fault is not None:
        return fault
    if not seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and seen.st_uid != os.geteuid():
        return f"the lease folder {path} belongs to another user (uid {seen.st_uid}) alone; {_opening(path)}"
    if os.access(path, os.W_OK | os.X_OK):
        return None
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return (
            f"the lease folder {path} lies on a file system that can only be read; mount it for writing, "
            f"or set {VARIABLE} to a folder on another local disk"
        )
    return f"the lease folder {path} can't be written by this user; {_joining(seen)}"


def _opening(path: Path) -> str:
    return f"chgrp GROUP {path} && chmod 2770 {path}, as the folder's owner"


def _joining(seen: os.stat_result) -> str:
    return (
        f"join its group ({_group_name(seen.st_gid)}), or set {VARIABLE} to another folder, where nobody who has the host "
        "by this one is kept out"
    )


def _group_name(number: int) -> str:
    import grp  # noqa: PLC0415  for a fault only

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return f"gid {number}"


@lru_cache(maxsize=8)
def _unfit_place(path: Path, _device: int, _inode: int) -> str | None:
    """The same folder of the same device stays where it is mounted."""
    kind = file_system(path)
    if kind is None or not CANNOT_EXCLUDE.fullmatch(kind):
        return None
    return (
        f"the lease folder {path} lies on {kind}, where a lock may not be seen by the host's other runs; "
        f"set {VARIABLE} to a folder on a local disk (in a container: a folder of the host, bind-mounted)"
    )

"""`doit lease doctor`: whether leases on this host keep runs apart, what is wrong, and with --fix the folder set up."""

from __future__ import annotations

import fcntl
import grp
import os
import re
import shlex
import stat
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchgate.edge.commands.base import print_json
from touchgate.edge.usage import UsageFault
from touchgate.leases import choose
from touchgate.leases.directory import SHARED, LeaseDirectory, lease_directory, unfit
from touchgate.leases.engine import LeaseFault, LeaseRefused
from touchgate.leases.holder import user_name
from touchgate.leases.shared import modes
from touchgate.reports.style import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

IN_CONTAINER = (Path("/.dockerenv"), Path("/run/.containerenv"))
LITTLE_SPACE = 1 << 20
"""Bytes. Leases need some kilobytes."""
FEW_FILES = 100
OF_LEASES = re.compile(
    r"(queue\.json|(host|gpu-.*)\.json)(\.new)?|(queue|host|gpu-.*)\.lock|tickets|audit\.jsonl(\.\d)?|\.doctor-.*"
)
"""Names in a lease folder."""


@dataclass(frozen=True)
class Finding:
    """good: nothing to do; False: leases do not work, or keep nobody apart; None: it works, and a person should know."""

    good: bool | None
    text: str
    cure: str = ""

    def line(self) -> str:
        """For a person."""
        word = {True: "well", False: "WRONG", None: "note"}[self.good]
        return f"{word}: {self.text}" + (f"\n      {self.cure}" if self.cure else "")


def doctor(given: Mapping[str, Any]) -> int:
    """Look, with --fix set up first, and tell; 1 when something is wrong."""
    if "group" in given and "fix" not in given:
        raise UsageFault("--group is for `doit lease doctor --fix`")
    done = fix(_directory(os.environ), given.get("group"), os.environ) if "fix" in given else []
    found = [*done, *examine(os.environ)]
    if given.get("json"):
        print_json({"schema": 1, "findings": [asdict(one) for one in found]})
    else:
        print("\n".join(printable_lines(found)))
    return 1 if any(one.good is False for one in found) else 0


def _directory(environ: Mapping[str, str]) -> LeaseDirectory:
    """The folder of this host's leases, whatever is wrong with other settings. Raises `LeaseMistake`: it is named wrongly."""
    try:
        return choose.directory(environ, choose.chosen(environ))
    except LeaseFault:
        return lease_directory(environ)


def printable_lines(found: Iterable[Finding]) -> list[str]:
    """Every line, without what others could have put into it."""
    return [printable(line) for one in found for line in one.line().split("\n")]


def examine(environ: Mapping[str, str]) -> list[Finding]:
    """All that can be told without taking a lease."""
    found = _folder(_directory(environ))  # beneath a database, too
    if any(one.good is False for one in found):
        return found
    try:
        status = choose.engine(environ).status()
    except LeaseFault as fault:
        return [*found, Finding(False, str(fault))]
    found.append(Finding(True, f"leases: {status.where}"))
    return found + [Finding(None, note) for note in status.notes]


def _folder(directory: LeaseDirectory) -> list[Finding]:
    path = directory.path
    found = [] if directory.shared else [_alone(directory)]
    if not path.exists():
        return [*found, Finding(None, f"{path} is not there yet; the first lease makes it")]
    fault = unfit(path)
    if fault:
        return [*found, Finding(False, fault)]
    seen = path.stat()
    if directory.shared:
        found.append(Finding(True, f"{path} is shared by the group {_group(seen.st_gid)} ({directory.why})"))
    fault = excludes(path)
    found.append(Finding(False, fault) if fault else Finding(True, f"a lock in {path} keeps a second one out"))
    found += [Finding(False, text, cure) for text, cure in kept_to_one(path)]
    return found + _room(path) + _container(path)


def _alone(directory: LeaseDirectory) -> Finding:
    return Finding(
        None,
        f"leases in {directory.path} keep this user's own runs apart, nobody else's ({directory.why})",
        f"as root: doit lease doctor --fix --group GROUP, which makes {SHARED[0]} for all who are in that group",
    )


def excludes(path: Path) -> str:
    """Why a lock on a file in `path` keeps nobody out, "" where it does. Leaves nothing behind."""
    try:
        with tempfile.NamedTemporaryFile(dir=path, prefix=".doctor-") as first, Path(first.name).open("rb") as second:
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return ""
            return f"two locks on one file in {path} were had at once: its file system keeps nobody out"
    except OSError as fault:
        return f"no file in {path} can be made and locked: {fault.strerror}"


def kept_to_one(path: Path) -> list[tuple[str, str]]:
    """The files in a lease folder that some who share it can't open, or that are no files, each with its cure."""
    shared, found = modes(path), []
    for one in sorted((*path.glob("*.lock"), *path.glob("queue.json"), *path.glob("tickets"))):
        try:
            seen = one.lstat()
        except OSError:  # it has gone meanwhile
            continue
        mode, folder = stat.S_IMODE(seen.st_mode), one.name == "tickets"
        if not (stat.S_ISDIR if folder else stat.S_ISREG)(seen.st_mode):
            found.append((f"{one} is no {'folder' if folder else 'regular file'}", "move it away"))
            continue
        owner = f"{one} belongs to {user_name(seen.st_uid)}, mode {mode:04o}"
        if shared.group is None:
            if os.geteuid() not in (0, seen.st_uid):
                found.append(
                    (f"{owner}, in a folder that is another's", "move it away, when `doit lease status` names no holder")
                )
            continue
        wanted = shared.folder & 0o777 if folder else shared.file
        if seen.st_gid != shared.group or mode & wanted != wanted:
            cure = f"chgrp {_group(shared.group)} {one} && chmod {shared.folder if folder else shared.file:04o} {one}"
            found.append(
                (f"{owner}: others of the group {_group(shared.group)} can't use it", f"{cure}, as its owner or root")
            )
    return found


def _room(path: Path) -> list[Finding]:
    with suppress(OSError):
        seen = os.statvfs(path)
        if seen.f_bavail * seen.f_frsize < LITTLE_SPACE:
            return [Finding(False, f"the disk of {path} is full: who holds a lease can't be written down", "make room")]
        if seen.f_files > 0 and seen.f_favail < FEW_FILES:
            return [Finding(False, f"the disk of {path} has no room for more files (inodes)", "delete some")]
    return []


def _container(path: Path) -> list[Finding]:
    if not any(mark.exists() for mark in IN_CONTAINER) or any(os.path.ismount(one) for one in (path, *path.parents[:-1])):
        return []
    cure = f"start it with --volume {SHARED[0]}:{SHARED[0]}"
    return [Finding(False, f"{path} lies in this container alone: the host's other runs are not kept apart", cure)]


def fix(directory: LeaseDirectory, group: str | None, environ: Mapping[str, str]) -> list[Finding]:
    """Set the folder up: for a group where one is named, else for this user. Raises UsageFault, `LeaseRefused`."""
    path = Path(environ["TOUCHGATE_LEASE_DIR"]).absolute() if environ.get("TOUCHGATE_LEASE_DIR") else None
    if group is None:
        path = path or directory.path
        if os.geteuid() == 0 and path in SHARED:
            raise UsageFault(f"{path} is for a group: doit lease doctor --fix --group GROUP")
        return _set_up(path, -1, 0o700)
    try:
        number = grp.getgrnam(group).gr_gid
    except KeyError:
        raise UsageFault(f"--group {group}: there is no such group on this host") from None
    return _set_up(path or SHARED[0], number, 0o2770)


def _set_up(path: Path, group: int, mode: int) -> list[Finding]:
    before = path.lstat() if os.path.lexists(path) else None
    if before is not None and not stat.S_ISDIR(before.st_mode):
        raise LeaseRefused(f"{path} is there and is no folder; it is left as it is")
    wanted = (stat.S_IMODE(before.st_mode) if before else None, before.st_gid if before else None)
    if before is not None and wanted == (mode, group if group >= 0 else before.st_gid):
        return []
    if before is not None:
        _refuse_others(path, before)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chown(path, -1, group)
        path.chmod(mode)
    except OSError as fault:
        name = f" --group {shlex.quote(_group(group))}" if group >= 0 else ""
        raise LeaseRefused(
            f"{path} can't be set up by this user: {fault.strerror}; as root: doit lease doctor --fix{name}"
        ) from None
    return [Finding(None, f"{path} is set up now, mode {mode:04o}" + (f", group {_group(group)}" if group >= 0 else ""))]


def _refuse_others(path: Path, seen: os.stat_result) -> None:
    """Raises `LeaseRefused` for a folder that may be for more than leases: its mode is not this command's to change."""
    left = "it is left as it is"
    if seen.st_mode & stat.S_ISVTX:
        raise LeaseRefused(
            f"{path} is sticky, as folders that all users write into are (/tmp): {left}; name a folder for leases alone, "
            f"or, if it is one, `chmod -t {path}` first"
        )
    try:
        names = sorted(one.name for one in path.iterdir() if not OF_LEASES.fullmatch(one.name))
    except OSError as fault:
        raise LeaseRefused(f"{path} can't be looked into: {fault.strerror}; {left}") from None
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""  # noqa: PLR2004
        raise LeaseRefused(
            f"{path} holds what is not of leases ({printable(', '.join(names[:3]))}{more}): {left}; "
            "name a folder for leases alone"
        )


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return f"gid {number}"

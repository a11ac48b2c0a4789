"""Who a process is, told so that a recycled process id is not taken for the old process."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


def pid_namespace() -> str:
    """The namespace in which this process's ids mean something, or "" where there are none."""
    with suppress(OSError):
        return str((PROC / "self" / "ns" / "pid").readlink())
    return ""


def start_mark(pid: int) -> str | None:
    """When process `pid` started, as a mark to compare: equal marks, same process. None: no such process, or a zombie.

    Linux: the boot's id and clock ticks since boot. Elsewhere: `ps -o lstart=`, exact to a second.
    """
    if pid <= 0:
        return None
    if not (PROC / "self" / "stat").exists():
        return _start_by_ps(pid)
    try:
        # The name in parentheses may hold anything, parentheses too: count from the last one.
        fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):  # noqa: PLR2004 - proc(5): starttime is field 22, state field 3
        return None
    return f"{_boot_id()}:{fields[19].decode('ascii', 'replace')}"


def parent(pid: int) -> int:
    """The parent of process `pid`; 0 where there is none, or it can't be told."""
    if not (PROC / "self" / "stat").exists():
        return _parent_by_ps(pid)
    try:
        return int((PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _parent_by_ps(pid: int) -> int:
    with suppress(OSError, ValueError):
        asked = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return int(asked.stdout)
    return 0


def _boot_id() -> str:
    with suppress(OSError):
        return (PROC / "sys" / "kernel" / "random" / "boot_id").read_text(encoding="ascii").strip()
    return ""


def _start_by_ps(pid: int) -> str | None:
    try:
        asked = subprocess.run(
            ["ps", "-o", "state=,lstart=", "-p", str(pid)],
            capture_output=True,
            text=True,
            check=False,
            env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
        )
    except OSError:
        return None
    state, _, started = asked.stdout.strip().partition(" ")
    return started.strip() or None if not state.startswith("Z") else None


def keepers(lock: os.stat_result) -> tuple[int, ...]:
    """The processes that have the lock of the file `lock` (device and inode), as far as /proc shows them.

    An flock belongs to an open file description, and every process that inherited it keeps it alive. Others' processes
    are visible to root only; without /proc nothing is.
    """
    found: list[int] = []
    with suppress(OSError):
        found += [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit() and _keeps(entry, lock)]
    return tuple(sorted(found))


def _keeps(process: Path, lock: os.stat_result) -> bool:
    with suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError):
                # fdinfo lists a lock only under descriptors of the very description that holds it.
                if os.path.samestat(descriptor.stat(), lock) and "FLOCK" in _fdinfo(process, descriptor.name):
                    return True
    return False


def _fdinfo(process: Path, descriptor: str) -> str:
    return (process / "fdinfo" / descriptor).read_text(encoding="ascii", errors="replace")


def taker(lock: os.stat_result, kind: str = "WRITE") -> int | None:
    """The process that took the flock on the file `lock`, by /proc/locks; 0 where it is hidden; None: no lock listed.

    kind: WRITE, which keeps everybody out, or READ, which several share.

    It tells of a lock without touching it. None is no proof that there is none: what another namespace's process
    took is not listed.
    """
    wanted = f"{os.major(lock.st_dev):02x}:{os.minor(lock.st_dev):02x}:{lock.st_ino}"
    with suppress(OSError):
        for line in (PROC / "locks").read_text(encoding="ascii").splitlines():
            fields = line.split()
            # "1: FLOCK  ADVISORY  WRITE 4121 fe:00:1234 0 EOF"; those that wait have "->" in the second place.
            if len(fields) >= 6 and fields[1] == "FLOCK" and fields[3] == kind and fields[5] == wanted:  # noqa: PLR2004
                return max(int(fields[4]), 0)
    return None


def command(pid: int) -> str:
    """The name of process `pid`'s program, or ""."""
    with suppress(OSError):
        return (PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    return ""

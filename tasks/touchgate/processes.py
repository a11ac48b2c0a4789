"""Who a process is, for people: user, program, since when. Read from /proc; elsewhere nobody is visible."""

from __future__ import annotations

import os
import pwd
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

PROC = Path("/proc")
TOKEN = "TOUCHGATE_LEASE_TOKEN"  # noqa: S105 - a number that counts grants
"""The variable that marks what a run with a lease started."""
GPU_FILE = re.compile(r"/dev/(nvidia\d+|nvidia-uvm|nvidia-caps/.*|nvhost-.+|nvmap|nvgpu(/.+)?|dxg)")
"""What a process has open that can use a GPU. /dev/nvidiactl is not among them: who only asks the driver opens it too."""
_LONGEST = 160
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD, in the ninth field of proc(5)'s stat."""


@dataclass(frozen=True)
class Process:
    """A process as it is seen from here.

    name: its program's. command: the program with its script or module, no further arguments: they may hold secrets.
    started: seconds since the epoch. token: of the run's lease that started it, where it shows that. Unknown is None.
    ending: it has given up its memory already, and its files are being closed, which takes a GPU's driver some time.
    """

    pid: int
    user: str
    name: str
    command: str
    started: float | None = None
    token: int | None = None
    ending: bool = False

    def __str__(self) -> str:
        """For example `pid 4121 (ada) python train.py, since 2026-11-30T14:02:11Z`."""
        since = f", since {utc(self.started)}" if self.started is not None else ""
        return f"pid {self.pid} ({self.user}) {self.command}{since}{', which is ending' if self.ending else ''}"


def look(pid: int, proc: Path = PROC) -> Process | None:
    """Process `pid` of this namespace, or None where it is not there, has ended, or is hidden altogether."""
    folder = proc / str(pid)
    fields = _stat(folder)
    if pid <= 0 or fields is None or fields[0] in (b"Z", b"X"):
        return None
    # Not the folder's owner: that is root's of whoever may not be looked into.
    uid = re.search(rb"^Uid:\t(\d+)", _bytes(folder / "status"), re.MULTILINE)
    user = user_name(int(uid[1])) if uid else "somebody"
    words = [os.fsdecode(word) for word in _bytes(folder / "cmdline").split(b"\0") if word]
    short = os.fsdecode(_bytes(folder / "comm").strip())
    name = os.path.basename(words[0]) if words else short  # noqa: PTH119 - also of what is no path
    ending = not words and not is_kernel_thread(pid, proc)
    # A daemon may write a title over its arguments ("sshd: ada [priv]"): then the kernel's name for it is the better one.
    if words and (" " in words[0] or not name):
        name, words = short, []
    started = None
    with suppress(OSError, ValueError, IndexError):
        started = _boot_time(proc) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    name = name or "?"
    return Process(pid, user, _printable(name), _printable(_brief(name, words)), started, _token(folder), ending)


def _brief(name: str, words: list[str]) -> str:
    """`python train.py` or `python -m train` of a whole command line."""
    rest = words[1:]
    if len(rest) > 1 and rest[0] == "-m":
        return f"{name} -m {rest[1]}"
    if rest and not rest[0].startswith("-") and "=" not in rest[0]:
        return f"{name} {rest[0]}"
    return name


def family(root: int, proc: Path = PROC) -> frozenset[int]:
    """Process `root` and all that descend from it. Who was orphaned meanwhile is no longer seen to."""
    children: dict[int, list[int]] = {}
    for pid in every(proc):
        fields = _stat(proc / str(pid))
        if fields is not None and len(fields) > 1:
            children.setdefault(int(fields[1]), []).append(pid)
    found, left = set(), [root]
    while left:
        pid = left.pop()
        if pid not in found:
            found.add(pid)
            left += children.get(pid, ())
    return frozenset(found)


def every(proc: Path = PROC) -> tuple[int, ...]:
    """The ids of all processes that can be seen."""
    with suppress(OSError):
        return tuple(sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal()))
    return ()


def is_kernel_thread(pid: int, proc: Path = PROC) -> bool:
    """Whether `pid` is a thread of the kernel's own, which has no files."""
    fields = _stat(proc / str(pid))
    return fields is not None and len(fields) > 6 and bool(int(fields[6]) & _KERNEL_THREAD)  # noqa: PLR2004 - see there


def uses_gpu(pid: int | str, proc: Path = PROC, wanted: re.Pattern[str] = GPU_FILE) -> bool | None:
    """Whether process `pid` (or "self") has a GPU's device file open; None: it can't be seen (another user's, or gone)."""
    try:
        descriptors = list((proc / str(pid) / "fd").iterdir())
    except OSError:
        return None
    for descriptor in descriptors:
        with suppress(OSError):  # closed meanwhile
            if wanted.fullmatch(str(descriptor.readlink())):
                return True
    return False


def user_name(uid: int) -> str:
    """The account's name, or "uid 1234" where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def utc(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601, UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _stat(folder: Path) -> list[bytes] | None:
    """The fields of proc(5)'s stat from the third on; the name before them may hold anything, parentheses too."""
    fields = _bytes(folder / "stat").rpartition(b")")[2].split()
    return fields or None


def _token(folder: Path) -> int | None:
    """Of its own users only: others' environments can't be read."""
    for entry in _bytes(folder / "environ").split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == TOKEN.encode() and value.isdigit():
            return int(value)
    return None


def _boot_time(proc: Path) -> int:
    found = re.search(rb"^btime (\d+)$", _bytes(proc / "stat"), re.MULTILINE)
    if found is None:
        raise ValueError("no boot time")
    return int(found[1])


def _bytes(path: Path) -> bytes:
    """What can't be read is empty: a process may end, or be another user's, at any moment."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _printable(text: str) -> str:
    """For a terminal: it was written by others."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_LONGEST])

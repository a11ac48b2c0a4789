"""A host's /proc and /dev as files in a folder: processes, the loaded driver, memory, load."""

from __future__ import annotations

import os
from pathlib import Path

FIRST = "pid:[4026531836]"
BOOT = 1_796_000_000


class FakeHost:
    """`root` stands for /."""

    def __init__(self, root: Path, *, namespace: str = FIRST, driver: str = "dev/nvidiactl") -> None:
        self.root = root
        self.proc = root / "proc"
        (self.proc / "self" / "ns").mkdir(parents=True)
        (self.proc / "self" / "ns" / "pid").symlink_to(namespace)
        self.file("proc/stat", f"cpu 1 2 3\nbtime {BOOT}\n")
        self.file("proc/sys/kernel/pid_max", "4194304\n")
        if driver:
            self.file(driver)
            # Who asks NVML has the driver's files open.
            (self.proc / "self" / "fd").mkdir()
            (self.proc / "self" / "fd" / "3").symlink_to("/dev/nvidiactl")

    def file(self, name: str, text: str = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def process(
        self,
        pid: int,
        *words: str,
        opened: tuple[str, ...] = (),
        parent: int = 1,
        uid: int = 0,
        state: str = "S",
        seconds: int = 0,
        environ: str = "",
        flags: int = 0,
        readable: bool = True,
        comm: str | None = None,
    ) -> Path:
        """One process. opened: what its descriptors lead to. seconds: of its start, after the boot."""
        folder = self.proc / str(pid)
        (folder / "fd").mkdir(parents=True)
        comm = comm if comm is not None else (words[0].rpartition("/")[2][:15] if words else "kthread")
        ticks = seconds * os.sysconf("SC_CLK_TCK")
        (folder / "stat").write_text(f"{pid} ({comm}) x) {state} {parent} 1 1 0 -1 {flags} {'0 ' * 12}{ticks} 0 0\n")
        (folder / "comm").write_text(comm + "\n")
        (folder / "status").write_text(f"Name:\t{comm}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (folder / "cmdline").write_bytes("".join(word + "\0" for word in words).encode())
        (folder / "environ").write_bytes(environ.encode())
        for number, target in enumerate(opened):
            (folder / "fd" / str(number)).symlink_to(target)
        if not readable:
            # As another user's: root may read any mode, so there is nothing to read.
            for entry in (folder / "fd").iterdir():
                entry.unlink()
            (folder / "fd").rmdir()
            (folder / "environ").unlink()
        return folder

"""Modes of what the users of one group share: the folder's group and its bits, whatever the umask is."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Modes:
    """file, folder: mode bits. read: of what only its writer changes. group: who shares them, None where nobody does."""

    file: int
    folder: int
    read: int
    group: int | None

    def share(self, descriptor: int) -> None:
        """Give a file of ours the folder's group and mode."""
        seen = os.fstat(descriptor)
        if self.group is None or seen.st_uid != os.geteuid():
            return
        if seen.st_gid != self.group:
            with suppress(PermissionError):
                os.fchown(descriptor, -1, self.group)
        if stat.S_IMODE(seen.st_mode) != self.file:
            os.fchmod(descriptor, self.file)

    def make_folder(self, path: Path) -> None:
        """Make a folder inside; one that is there already, and ours, is opened to the group. Raises OSError."""
        try:
            os.mkdir(path, 0o700)  # noqa: PTH102 - asked for at every request, and mostly there
        except FileExistsError:
            if self.group is None:
                return
            seen = os.lstat(path)
            if seen.st_uid != os.geteuid() or not stat.S_ISDIR(seen.st_mode) or seen.st_mode & stat.S_IWGRP:
                return
        if self.group is not None:
            with suppress(PermissionError):
                os.chown(path, -1, self.group)
        path.chmod(self.folder)


def modes(folder: Path) -> Modes:
    """Of a lease folder: shared where its group may write."""
    seen = folder.stat()
    if seen.st_mode & stat.S_IWGRP:
        return Modes(0o660, 0o2770, 0o644, seen.st_gid)
    return Modes(0o600, 0o700, 0o600, None)

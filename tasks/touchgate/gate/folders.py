"""The folders of the working tree as git sees them, found without listing the tree.

Head's commit says which folders there were; what differs from it, which came and which went.
"""

from __future__ import annotations

import os
import stat

from touchgate.gate.git import GitFault
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from touchgate.gate.git import Repository
    from touchgate.gate.model import Change


class WorktreeFolders:
    """Called with a folder ("" is the root): the names of the folders directly in it, sorted.

    A folder counts while a file in it is tracked, or untracked and not ignored. Where git can't be asked, everything runs
    anyway, and the folders are those on the disk.
    """

    def __init__(self, repo: Repository, change: Change) -> None:
        self._repo = repo
        self._change = change
        self._head = change.head
        self._differing: list[str] | None = None
        self._children: dict[str, set[str]] = {}
        self._is_read = False

    def __call__(self, path: str) -> tuple[str, ...]:
        """The names of the folders directly in `path`, sorted."""
        try:
            if not self._is_read:
                self._is_read = True
                self._read()
            return self._on_disk(path) if self._differing is None else self._as_git_sees(path)
        except GitFault:
            if self._change.open_reason is None:
                raise
            return self._on_disk(path)

    def _as_git_sees(self, path: str) -> tuple[str, ...]:
        entries = (self._repo.folder(self._head, path) if self._head else None) or {}
        known = {name for name, entry in entries.items() if stat.S_ISDIR(entry.mode)}
        doubtful = self._children.get(path, set())
        kept = {name for name in doubtful if self._is_there(f"{path}/{name}" if path else name, tracked=name in known)}
        return tuple(sorted(known - doubtful | kept))

    def _read(self) -> None:
        """Which folders hold something that differs from head, or from the merge base: only these can come and go."""
        if self._change.open_reason is None:
            self._differing = [touched.path for touched in self._change.paths]
        else:
            # An open change has no paths, and may not know its head.
            self._head = self._repo.head()
            self._differing = [difference.path for difference in self._repo.uncommitted()]
        for path in self._differing:
            # A path that ends in `/` is a repository of its own: no folder of this one.
            child = path.rstrip("/")
            while child:
                folder = child.rpartition("/")[0]
                known = self._children.setdefault(folder, set())
                name = child[len(folder) + 1 if folder else 0 :]
                if child != path.rstrip("/"):
                    if name in known:
                        break
                    known.add(name)
                child = folder

    def _is_there(self, folder: str, *, tracked: bool) -> bool:
        """Whether a folder in which something differs still holds a file."""
        if self._is_folder(folder) and any(
            os.path.lexists(self._repo.root / path) for path in self._differing or () if path.startswith(f"{folder}/")
        ):
            return True
        return tracked and any(
            "skip-worktree" in entry.flags or (self._is_folder(folder) and os.path.lexists(self._repo.root / entry.path))
            for entry in self._repo.tracked([folder])
        )

    def _is_folder(self, folder: str) -> bool:
        parts = folder.split("/")
        try:
            return all(
                stat.S_ISDIR((self._repo.root / "/".join(parts[:end])).lstat().st_mode) for end in range(1, len(parts) + 1)
            )
        except OSError:
            return False

    def _on_disk(self, path: str) -> tuple[str, ...]:
        if path and not self._is_folder(path):
            return ()
        try:
            with os.scandir(self._repo.root / path) as entries:
                return tuple(sorted(e.name for e in entries if e.is_dir(follow_symlinks=False) and e.name != ".git"))
        except OSError:
            return ()

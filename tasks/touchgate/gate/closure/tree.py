"""A tree of files that a closure is read from: a commit's, or the working tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Tree(Protocol):
    """Paths are relative to the repository's root, with "/"; "" is the root. All but `read` cost no blob."""

    def is_file(self, path: str) -> bool:
        """Whether the path is a file or a link to one."""
        ...

    def folder(self, path: str) -> Sequence[str] | None:
        """The names in a folder, folders with a "/" at their end, sorted; None where there is no such folder."""
        ...

    def read(self, paths: Sequence[str]) -> dict[str, bytes | None]:
        """The contents, fetched together; None for what is no file. Of a link, the file that it leads to."""
        ...

    def blob_id(self, path: str) -> str | None:
        """What stands for the file's content, the same only where the content is; None: unknown."""
        ...

    def gitlink(self, path: str) -> str | None:
        """The submodule that the path is or lies in, or None."""
        ...

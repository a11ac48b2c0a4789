"""The only module that imports GitPython: what talks to a remote or rearranges a repository, off the hot path."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from git import Repo

FULL_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class FetchFault(Exception):
    """A remote, submodule or worktree can't be had: what is wrong and the cure, one line."""


@dataclass(frozen=True)
class Submodule:
    """A submodule of the commit checked out. path: from the root; commit: the one recorded; is_here: checked out."""

    path: str
    url: str
    commit: str
    is_here: bool


def fetch_base(root: Path, base: str | None, tell: Callable[[str], None], remote: str = "origin") -> None:
    """Bring a branch, or a commit by its full id, and the whole history from a remote; None: the remote's own HEAD.

    A branch arrives as <remote>/<branch>. tell: gets a line at the start and at each further tenth. Raises FetchFault.
    """
    with _opened(root) as repo:
        if remote not in [known.name for known in repo.remotes]:
            raise FetchFault(f"there is no remote named {remote} to fetch from; add it: git remote add {remote} URL")
        name = (base or "").removeprefix("refs/heads/").removeprefix(f"refs/remotes/{remote}/").removeprefix(f"{remote}/")
        try:
            branch = name or _default_branch(repo, remote)
            wanted = branch if FULL_ID.fullmatch(branch) else f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}"
            tell(f"fetching {branch} from {remote}")
            options: dict[str, Any] = {"unshallow": True} if _is_shallow(repo) else {}
            repo.remote(remote).fetch(_checked(wanted), progress=_Tenths(tell).reporter(), no_tags=True, **options)
        except _git_error() as error:
            raise FetchFault(f"fetching {name or 'the default branch'} from {remote} failed: {_last_line(error)}") from error


def submodules(root: Path) -> list[Submodule]:
    """The submodules of the commit checked out, by path. Raises FetchFault."""
    with _opened(root) as repo:
        try:
            found = [
                Submodule(str(one.path), one.url, one.hexsha, one.module_exists())
                for one in (repo.submodules if _has_commit(repo) else [])
            ]
        except _list_errors() as error:
            raise FetchFault(f"the submodules of {root} can't be listed: {_last_line(error)}") from error
    return sorted(found, key=lambda one: one.path)


def add_worktree(root: Path, commit: str, folder: Path) -> None:
    """Check a commit out in a folder of its own, without a branch. Raises FetchFault."""
    with _opened(root) as repo:
        try:
            repo.git.worktree("add", "--detach", str(folder), _checked(commit))
        except _git_error() as error:
            raise FetchFault(f"no worktree of {commit} can be made in {folder}: {_last_line(error)}") from error


def remove_worktree(root: Path, folder: Path) -> None:
    """Remove a worktree and what is in it. Raises FetchFault."""
    with _opened(root) as repo:
        try:
            repo.git.worktree("remove", "--force", str(folder))
        except _git_error() as error:
            raise FetchFault(f"the worktree {folder} can't be removed: {_last_line(error)}") from error


@contextmanager
def _opened(root: Path) -> Iterator[Repo]:
    """The repository, for GitPython, with git's environment as the gate has it."""
    from touchgate.gate.git import environment  # noqa: PLC0415 (beside GitPython, which is late)

    # GitPython hands on os.environ and can only add to it, but a hook's GIT_DIR must go. Its import runs git, and
    # raises ImportError where there is none.
    before = dict(os.environ)
    clean = environment(before)
    for name in before.keys() - clean.keys():
        del os.environ[name]
    os.environ.update(clean)
    try:
        try:
            import git  # noqa: PLC0415 (slow to import)
        except ImportError as error:
            raise FetchFault("fetching needs git on PATH; install it (the package is named git)") from error
        try:
            repo = git.Repo(root)
        except (git.exc.InvalidGitRepositoryError, git.exc.NoSuchPathError) as error:
            raise FetchFault(f"{root} is not a git repository") from error
        with repo:
            yield repo
    finally:
        os.environ.clear()
        os.environ.update(before)


def _git_error() -> type[Exception]:
    import git  # noqa: PLC0415 (slow to import, and imported already by whoever is here)

    return git.exc.GitError


def _list_errors() -> tuple[type[Exception], ...]:
    # A malformed .gitmodules comes as any of these.
    return _git_error(), ValueError, OSError


def _has_commit(repo: Repo) -> bool:
    return repo.head.is_valid()


def _is_shallow(repo: Repo) -> bool:
    return Path(repo.common_dir, "shallow").exists()


def _checked(word: str) -> str:
    """The word, if git can't take it for an option."""
    if word.startswith("-"):
        raise FetchFault(f"{word!r} is no branch and no commit")
    return word


def _default_branch(repo: Repo, remote: str) -> str:
    """The branch that the remote's HEAD points to."""
    answer = str(repo.git.ls_remote("--symref", "--", remote, "HEAD"))
    match = re.search(r"^ref: refs/heads/(\S+)\tHEAD$", answer, re.MULTILINE)
    if not match:
        raise FetchFault(f"{remote} does not say which branch is its default one; name it with --base")
    return match[1]


def _last_line(error: BaseException) -> str:
    """The line of git's that says what went wrong."""
    text = str(getattr(error, "stderr", "") or error)
    lines = [line.strip(" '\t") for line in text.splitlines()]
    told = [line for line in lines if line.startswith(("fatal:", "error:"))] or [line for line in lines if line]
    return told[-1] if told else type(error).__name__


class _Tenths:
    """Passes the progress of a fetch on, once for each tenth of each stage."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._last: tuple[str, int] | None = None

    def update(self, stage: str, done: float, total: float) -> None:
        """Tell, if it is news."""
        tenth = int(10 * done / total) if total else 0
        if (stage, tenth) != self._last:
            self._last = (stage, tenth)
            self._tell(f"{stage} {done:.0f} of {total:.0f}")

    def reporter(self) -> Any:
        """The object that GitPython calls."""
        from git import RemoteProgress  # noqa: PLC0415 (slow to import)

        stages = {RemoteProgress.RECEIVING: "received objects", RemoteProgress.RESOLVING: "resolved deltas"}
        update = self.update

        class Reporter(RemoteProgress):
            def update(
                self, op_code: int, cur_count: str | float, max_count: str | float | None = None, message: str = ""
            ) -> None:
                del message
                stage = stages.get(op_code & self.OP_MASK)
                if stage and max_count:
                    update(stage, float(cur_count), float(max_count))

        return Reporter()

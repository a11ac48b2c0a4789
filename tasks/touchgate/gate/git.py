"""What is asked of a repository, through git's plumbing and with `-z`. Trouble is a `GitFault`.

Paths are texts where two commits are compared: pathlib takes longer to import than git to compare them.
"""

from __future__ import annotations

import os
import re
import stat

from touchgate.gate import process
from touchgate.gate.checkout import Checkout
from touchgate.gate.find import content_of, find_bare, find_root, find_top, path_of
from touchgate.gate.objects import Commit, ObjectReader, TreeEntry, is_name, parse_commit, parse_tree
from touchgate.gate.process import GitFault, environment
from touchgate.gate.records import GITLINK, SYMLINK, Difference, IndexEntry, parse_raw
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from touchgate.gate.remote import Remote

__all__ = [
    "GITLINK",
    "SYMLINK",
    "Commit",
    "Difference",
    "GitFault",
    "IndexEntry",
    "Repository",
    "TreeEntry",
    "environment",
    "find_bare",
    "find_root",
    "find_top",
    "missing",
]

_DIFF = ("--no-renames", "--ignore-submodules=none", "--no-ext-diff", "--no-textconv", "--no-relative")
_MOST_TREES = 256
"""Folders that are remembered by their ids: the same ones are asked for again and again."""
_FULL_ID = "[0-9a-f]{40}|[0-9a-f]{64}"


class Repository(Checkout):
    """A checkout with its history. Not for several threads at once; `close` (or `with`) ends the process that it keeps."""

    def __init__(self, root: str | Path, environ: Mapping[str, str] = os.environ, *, bare: bool = False) -> None:
        super().__init__(root, environ)
        self.is_bare = bare
        """A temporary repository without a checkout: nothing of a working tree can be asked."""
        self.remote: Remote | None = None
        self.history_environ = {**self.environ, "GIT_DIR": self.top} if bare else self.environ
        self._common: str | None = self.top if bare else None
        self._objects: ObjectReader | None = None
        self._trees: dict[str, dict[str, TreeEntry]] = {}

    def __enter__(self) -> Repository:  # noqa: PYI034 (typing.Self is not in Python 3.10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """End the process that reads objects, and remove what was fetched. The next question starts another process."""
        self.renew()
        if self.remote is not None:
            self.remote.close()
            self.remote = None
            self._common, self.history_environ = None, self.environ

    def renew(self) -> None:
        """Read objects and refs anew from the next question on."""
        if self._objects is not None:
            self._objects.close()
            self._objects = None

    def borrow(self, folder: Path) -> None:
        """Ask for commits, their history and contents in a temporary repository in place of the clone itself."""
        self.renew()
        # Its settings hold all that git reads for the clone: no other file is to be read beside it.
        alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        self.history_environ = {**self.environ, **alone, "GIT_DIR": str(folder)}
        self._common = str(folder)

    # ---- objects

    def commit(self, name: str) -> Commit | None:
        """The commit that `name` (an id, a ref, any revision of git's) stands for, or None."""
        return self.commits([name])[name]

    def commits(self, names: Iterable[str]) -> dict[str, Commit | None]:
        """`commit` for several names."""
        wanted = list(dict.fromkeys(names))
        fit = [name for name in wanted if is_name(name)]
        if self.remote is not None and not self.is_bare:
            # What a reflog or an upstream's setting says is only in the clone.
            fit = [self._by_clone(name) if "@{" in name else name for name in fit]
        found: dict[str, Commit | None] = dict.fromkeys(wanted)
        for name, answer in zip(fit, self._read([f"{name}^{{commit}}" for name in fit]), strict=True):
            found[name] = parse_commit(answer[0], answer[2]) if answer else None
        return found

    def _by_clone(self, name: str) -> str:
        answer = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", allowed=(0, 1))
        return answer.decode("ascii").strip() or name

    def head(self) -> str | None:
        """The commit checked out, None before the first."""
        commit = self.commit("HEAD")
        return commit.id if commit else None

    def parents(self, name: str) -> tuple[str, ...]:
        """The ids of a commit's parents; none for a commit that is not here."""
        commit = self.commit(name)
        return commit.parents if commit else ()

    def folder(self, commit: str, path: str) -> dict[str, TreeEntry] | None:
        """The entries of the folder `path` ("" is the top) in a commit by their names, or None where there is none.

        Raises GitFault where the commit says that there is one, and this clone lacks the object.
        """
        if not path:
            return self._top(commit)
        entry = self.entry(commit, path)
        return self._tree(entry.id, path, commit) if entry and stat.S_ISDIR(entry.mode) else None

    def entry(self, commit: str, path: str) -> TreeEntry | None:
        """What lies at `path` in a commit: a file, folder, symbolic link or submodule; links are not followed.

        None where there is nothing, or where a part of the path is no folder. Raises GitFault like `folder`.
        """
        entries: dict[str, TreeEntry] | None = self._top(commit)
        found = None
        parts = path.split("/")
        for depth, part in enumerate(parts):
            found = entries.get(part) if entries else None
            if found is None or depth == len(parts) - 1:
                return found
            entries = self._tree(found.id, "/".join(parts[: depth + 1]), commit) if stat.S_ISDIR(found.mode) else None
        return found

    def _top(self, commit: str) -> dict[str, TreeEntry] | None:
        found = self.commit(commit)
        return self._tree(found.tree, "", commit) if found else None

    def _tree(self, oid: str, path: str, commit: str) -> dict[str, TreeEntry]:
        found = self._trees.get(oid)
        if found is None:
            (answer,) = self._read([oid])
            if answer is None or answer[1] != b"tree":
                raise missing(path or "the top folder", commit)
            if len(self._trees) >= _MOST_TREES:
                self._trees.clear()
            found = self._trees[oid] = parse_tree(answer[2], len(answer[0]) // 2)
        return found

    def blobs(self, ids: Sequence[str], limit: int | None = None) -> list[bytes | None]:
        """The contents of blobs by id, None for one that is not here. Of a larger one, limit + 1 bytes."""
        return [answer[2] if answer and answer[1] == b"blob" else None for answer in self._read(ids, limit)]

    def gather(self, ids: Sequence[str]) -> None:
        """Fetch what a partial clone lacks of these objects in one request; asked for one by one, each would be one."""
        if self.remote is None and len(ids) > 1 and self._is_partial():
            # Before it packs, git fetches all that is promised and not here. The pack itself is of no use.
            data = "".join(f"{one}\n" for one in dict.fromkeys(ids)).encode("ascii")
            self._run("pack-objects", "--stdout", "--quiet", "--window=0", stdin=data)

    def _is_partial(self) -> bool:
        try:
            return b"promisor" in (self.common_dir / "config").read_bytes().lower()
        except OSError:
            return False

    def file(self, commit: str, path: str) -> bytes | None:
        """The content of the file (or the target of the symbolic link) `path` in a commit, or None.

        Raises GitFault where the commit has it, and this clone lacks the object.
        """
        entry = self.entry(commit, path)
        if entry is None or stat.S_ISDIR(entry.mode) or entry.mode == GITLINK:
            return None
        (content,) = self.blobs([entry.id])
        if content is None:
            raise missing(path, commit)
        return content

    def _read(self, requests: Sequence[str], limit: int | None = None) -> list[tuple[str, bytes, bytes] | None]:
        if not requests:
            return []
        found = self._found(requests, limit)
        if self.remote is not None and None in found:
            lost = [request for request, answer in zip(requests, found, strict=True) if answer is None]
            lost = [request for request in lost if re.fullmatch(_FULL_ID, request)]
            if lost:
                self.remote.supply(lost)
                found = self._found(requests, limit)
        return found

    def _found(self, requests: Sequence[str], limit: int | None) -> list[tuple[str, bytes, bytes] | None]:
        if self._objects is None:
            self._objects = ObjectReader(self.top, self.history_environ)
        try:
            return self._objects.read([os.fsencode(request) for request in requests], limit)
        except GitFault:
            self.renew()
            raise

    # ---- history

    def merge_bases(self, one: str, other: str) -> tuple[str, ...]:
        """The best common ancestors that this clone knows of, none or more. In a shallow clone they may be wrong."""
        answer = self._ask("merge-base", "--all", one, other, allowed=(0, 1))
        return tuple(answer.decode("ascii").split())

    def is_ancestor(self, one: str, other: str) -> bool:
        """Whether a commit is an ancestor of another, or the same, as far as this clone shows."""
        return one == other or self.merge_bases(one, other) == (one,)

    def reachable(self, tips: Sequence[str], without: Sequence[str]) -> list[str]:
        """The commits reachable from the tips and not from `without`."""
        answer = self._ask("rev-list", *tips, *(f"^{commit}" for commit in without), "--")
        return answer.decode("ascii").split()

    def first_parents(self, tip: str, most: int, *, merges: bool = False) -> list[tuple[Commit, str]]:
        """The last `most` commits from `tip` along first parents, or the merges among them, with their subjects.

        The newest first. Where a shallow clone was cut off, a commit has no parents.
        """
        only = ("--min-parents=2",) if merges else ()
        form = "--format=%H %T %P%n%s"
        answer = self._ask("rev-list", "--first-parent", f"--max-count={most}", *only, form, "--encoding=UTF-8", tip, "--")
        lines = answer.decode("utf-8", "surrogateescape").split("\n")
        found = []
        # Three lines for each: the second and third are the format's.
        for ids, subject in zip(lines[1::3], lines[2::3], strict=False):
            commit, tree, *parents = ids.split()
            found.append((Commit(commit, tuple(parents), tree), subject))
        return found

    def graph(self, tips: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The commits reachable from the tips, each with its parents as far as they are here, the newest first."""
        lines = self._ask("rev-list", "--parents", *tips, "--").decode("ascii").splitlines()
        return {one: tuple(parents) for one, *parents in map(str.split, lines)}

    def shallow_commits(self) -> frozenset[str]:
        """The commits whose parents were cut off when this clone was made; empty in a whole one."""
        file = self._in_common("shallow")
        try:
            return frozenset(content_of(file).decode("ascii").split())
        except FileNotFoundError:
            return frozenset()
        except (OSError, ValueError) as error:
            raise GitFault(f"{file} can't be read: {error}") from error

    def symbolic_ref(self, name: str) -> str | None:
        """The ref that a symbolic ref such as refs/remotes/origin/HEAD points to, or None."""
        try:
            text = content_of(self._in_common(name))
        except OSError:
            # Not a loose file: only another ref storage could still know it.
            if not os.path.exists(self._in_common("reftable")):
                return None
            text = b"ref: " + self._run("symbolic-ref", "--quiet", name, allowed=(0, 1))
        target = os.fsdecode(text[5:].strip())
        return target if text.startswith(b"ref: ") and target else None

    def refs(self, below: str) -> dict[str, str]:
        """The ids that refs hold, by the refs' names: those below a prefix such as refs/heads/, or all for ""."""
        answer = self._ask("for-each-ref", "--format=%(objectname) %(refname)", *([below] if below else []))
        lines = [os.fsdecode(line).partition(" ") for line in answer.splitlines()]
        return {name: oid for oid, _, name in lines}

    def has_ref(self, name: str) -> bool:
        """Whether there is a ref of this name, whatever became of the commit that it names."""
        if os.path.isfile(self._in_common(name)):
            return True
        try:
            packed = content_of(self._in_common("packed-refs"))
        except OSError:
            packed = b""
        if re.search(rb"(?m)^[0-9a-f]+ " + re.escape(os.fsencode(name)) + rb"$", packed):
            return True
        return os.path.exists(self._in_common("reftable")) and name in self.refs(name)

    @property
    def git_dir(self) -> Path:
        """The folder of this checkout's own HEAD and index: .git, or where a file .git (worktree, submodule) points."""
        return path_of(self._git_dir())

    @property
    def common_dir(self) -> Path:
        """The folder that all worktrees of the repository share, or the temporary one that stands in for it."""
        return path_of(self._in_common(""))

    def _git_dir(self) -> str:
        dot_git = os.path.join(self.top, ".git")
        try:
            if os.path.isfile(dot_git):
                text = os.fsdecode(content_of(dot_git)).rstrip("\n")
                return os.path.join(self.top, text.removeprefix("gitdir: "))
        except OSError as error:
            raise GitFault(f"{dot_git} can't be read: {error}") from error
        return dot_git

    def _in_common(self, name: str) -> str:
        if self._common is not None:
            return os.path.join(self._common, name)
        git_dir = self._git_dir()
        try:
            shared = os.fsdecode(content_of(os.path.join(git_dir, "commondir"))).rstrip("\n")
        except OSError:
            return os.path.join(git_dir, name)
        return os.path.join(git_dir, shared, name)

    # ---- differences

    def diff(self, old: str, new: str) -> list[Difference]:
        """What differs between two commits. A rename is a deletion and an addition; submodules count."""
        answer = self._ask("diff-tree", "-r", "-z", "--raw", "--no-abbrev", *_DIFF, old, new, "--")
        fields = answer.split(b"\0")
        return [parse_raw(meta, path) for meta, path in zip(fields[0::2], fields[1::2], strict=False)]

    def set_symbolic_ref(self, name: str, target: str) -> None:
        """Let a ref of what was fetched point to another."""
        self._ask("symbolic-ref", name, target)

    # ---- settings

    def setting(self, name: str) -> str | None:
        """The value of one of git's settings here, or None."""
        answer = self._ask("config", "--get", name, allowed=(0, 1))
        return os.fsdecode(answer).rstrip("\n") or None

    def settings(self) -> list[tuple[str, str | None]]:
        """All that git reads from files here, in order, with what is included; None: a name without a value."""
        fields = os.fsdecode(self._ask("config", "--list", "-z", "--show-scope", "--includes")).split("\0")
        found = []
        for scope, line in zip(fields[0::2], fields[1::2], strict=False):
            name, equals, value = line.partition("\n")
            if scope != "command":
                found.append((name, value if equals else None))
        return found

    def header_for(self, url: str) -> bool:
        """Whether git sends a header of its own to a URL."""
        return bool(self._ask("config", "--get-urlmatch", "http.extraHeader", url, allowed=(0, 1)).strip())

    # ---- running git

    def _ask(self, *arguments: str, allowed: tuple[int, ...] = (0,)) -> bytes:
        """Run a git that is asked about commits, wherever they are."""
        # Comparing two commits, git would read the whole index first: in a large checkout most of the time that it takes.
        environ = {**self.history_environ, "GIT_INDEX_FILE": os.path.join(self._git_dir(), "no-index-of-touchgate")}
        return process.run(self.top, environ, *arguments, allowed=allowed)


def missing(what: str, commit: str) -> GitFault:
    """The fault of an object that a commit refers to and that this clone does not have."""
    return GitFault(f"{what} of {commit[:40]} is missing from this clone: fetch it, or clone again; `git fsck` tells more")

"""Fetches what a proof needs from a remote, and nothing of the clone is changed by it.

What comes goes to a temporary repository that borrows the clone's objects and reads its settings: the clone's refs, its
objects, its `shallow` file and its configuration stay as they are, and may be read-only. In an empty folder the temporary
repository stands alone. Commits and folders come, files' contents (`blob:none`) only when asked for; history comes in
growing steps, never as a whole.
"""

from __future__ import annotations

import base64
import os
import re
import time
from urllib.parse import unquote, urlsplit

from touchgate.gate import forge, process
from touchgate.gate.git import Repository
from touchgate.gate.history import STEPS, Lack, depth_of
from touchgate.gate.process import GitFault
from touchgate.gate.scratch import Scratch
from touchgate.gate.unreached import NoSuchRef, Refused, fault_of, given_up
from touchgate.gate.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SECONDS = 300.0
"""After which all fetching of one call is given up, unless TOUCHGATE_FETCH_SECONDS says otherwise."""
STALL = 60.0
"""Seconds of silence after which a remote is given up."""
FILTER = "blob:none"

_OPTIONS = (
    "fetch",
    "--progress",
    "--no-write-fetch-head",
    "--no-tags",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
    "--refmap=",
    "--update-shallow",
    "--stdin",
)
_KEEP = "refs/touchgate/"
_BRANCH = "+refs/heads/{0}:refs/remotes/origin/{0}"
_TAG = "+refs/tags/{0}:refs/tags/{0}"


class Remote:
    """What is fetched for one repository, and what there is to say about it.

    notes: sentences for a person. fresh: the branches whose tip was fetched.
    """

    def __init__(self, repo: Repository, environ: Mapping[str, str], scratch: Scratch, name: str, auth: Auth) -> None:
        self.name = name
        self.fresh: set[str] = set()
        self.notes: list[str] = []
        self.fault = ""
        self._repo = repo
        self._scratch = scratch
        self._head_ref = forge.head_ref(environ)
        self._served: set[Lack] = set()
        self._steps = list(STEPS)
        self._depth = 0
        self._fetched: list[str] = []
        self._limit = _seconds(environ)
        self._deadline = time.monotonic() + self._limit
        settings = [("remote.origin.promisor", "true"), ("remote.origin.partialclonefilter", FILTER), *auth.settings]
        self._environ = with_settings(repo.history_environ, settings)

    def close(self) -> None:
        """Remove the temporary repository."""
        self._scratch.close()

    # ---- what a proof lacks

    def bring(self, lack: Lack) -> bool:
        """Fetch what is lacking, or what would do as well. False, with `fault` saying why, where it can't be had."""
        try:
            if lack.deepen:
                return self._deepen(lack.deepen)
            if lack in self._served:
                return self._instead(lack)
            self._served.add(lack)
            self._bring_tips(lack)
        except GitFault as fault:
            self.fault = str(fault)
            return self._instead(lack)
        self.fault = ""
        return True

    def _instead(self, lack: Lack) -> bool:
        return self.bring(lack.otherwise) if lack.otherwise else False

    def _bring_tips(self, lack: Lack) -> None:
        if lack.default_branch:
            name = self._default_branch()
            lack = lack._replace(branches=(name,), default_branch=False)
            self._repo.set_symbolic_ref("refs/remotes/origin/HEAD", f"refs/remotes/origin/{name}")
        # A tip alone; the history of both tips follows as far as the proof needs it.
        depth = ["--depth=1"] if self._repo.shallow_commits() or self._repo.is_bare else []
        self._fetch_named(list(lack.branches), [_keeping(commit) for commit in lack.commits], depth)
        self.fresh.update(lack.branches)
        self._fetched += [*lack.branches, *(commit[:12] for commit in lack.commits if self._repo.commit(commit))]

    def _fetch_named(self, branches: Sequence[str], commits: Sequence[str], depth: Sequence[str]) -> None:
        """Fetch branches by their names (what is none may be a tag), and commits by their ids."""
        tags: list[str] = []
        while True:
            words = [_TAG.format(name) if name in tags else _BRANCH.format(name) for name in branches]
            try:
                self._fetch([*words, *commits], depth)
            except NoSuchRef as fault:
                name = fault.ref.removeprefix("refs/heads/")
                if name not in branches:
                    tag = fault.ref.removeprefix("refs/tags/")
                    raise NoSuchRef(f"{self.name} has no branch or tag {tag}", fault.ref) if tag in tags else fault from None
                tags.append(name)
            except Refused:
                if not self._head_ref:
                    raise
                self._fetch([*words, f"+{self._head_ref}:{_KEEP}head"], depth)
                return
            else:
                return

    def _deepen(self, tips: Sequence[str]) -> bool:
        before = self._repo.shallow_commits()
        if not before:
            self.fault = self.fault or "there is no more history to fetch"
            return False
        if not self._steps:
            raise GitFault(f"the last {self._depth} commits did not prove a merge base, and no more are fetched")
        step = self._steps.pop(0)
        # Not --deepen: asked for a depth from where history ends here, git's server forgets some of the ends.
        depth = f"--depth={depth_of(before, tips, self._repo.graph(tips)) + step}"
        try:
            self._fetch([_keeping(tip) for tip in dict.fromkeys(tips)], [depth])
        except Refused:
            self._fetch(self._tips_by_ref(tips), [depth])
        self._depth += step
        if self._repo.shallow_commits() == before:
            raise GitFault(f"{self.name} has no more history to give")
        return True

    def _tips_by_ref(self, tips: Sequence[str]) -> list[str]:
        """The same tips by the refs that hold them, for a server that takes no ids."""
        words = []
        for name, commit in self._repo.refs("refs/remotes/origin/").items():
            branch = name.removeprefix("refs/remotes/origin/")
            if commit in tips and branch != "HEAD":
                words.append(f"+refs/heads/{branch}:refs/remotes/origin/{branch}")
        if self._head_ref:
            words.append(f"+{self._head_ref}:{_KEEP}head")
        if not words:
            raise GitFault(f"{self.name} takes no commit ids, and no branch of it holds {tips[-1][:12]}")
        return words

    def _default_branch(self) -> str:
        """The branch that the remote's HEAD points to."""
        answer, _ = self._git("ls-remote", "--symref", "origin", "HEAD")
        match = re.search(rb"^ref: refs/heads/(\S+)\tHEAD$", answer, re.MULTILINE)
        if not match:
            raise GitFault(f"{self.name} does not say which branch is its default one; name it with --base")
        return os.fsdecode(match[1])

    # ---- contents

    def supply(self, ids: Sequence[str]) -> None:
        """Fetch objects by their ids, all at once. Raises GitFault."""
        # A server that hears of the commits here takes it that their files are here, too, and sends none.
        self._fetch(list(ids), [], [("fetch.negotiationAlgorithm", "noop")])

    # ---- the fetch itself

    def _fetch(self, words: Sequence[str], depth: Sequence[str], settings: Sequence[tuple[str, str]] = ()) -> None:
        data = "".join(f"{word}\n" for word in words).encode("utf-8", "surrogateescape")
        _, said = self._git(*_OPTIONS, *depth, f"--filter={FILTER}", "origin", stdin=data, settings=settings)
        if "filtering not recognized" in said:
            self._note(f"{self.name} does not filter, so the contents of files came along")
        self._repo.renew()

    def _git(self, *arguments: str, stdin: bytes = b"", settings: Sequence[tuple[str, str]] = ()) -> tuple[bytes, str]:
        # Who allows more in all allows longer silence, too.
        stall = min(self._limit, max(STALL, self._limit * STALL / SECONDS))
        try:
            code, answer, said = process.watch(
                self._repo.root,
                with_settings(self._environ, settings),
                *arguments,
                stdin=stdin,
                deadline=self._deadline,
                stall=stall,
            )
        except process.Stopped as stopped:
            raise given_up(self.name, without_userinfo(stopped.said), self._limit if stopped.over else None, stall) from None
        if code:
            raise fault_of(self.name, without_userinfo(said))
        return answer, said

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def told(self) -> tuple[str, ...]:
        """What was fetched, in words."""
        what = [*dict.fromkeys(self._fetched)]
        if self._depth:
            what.append(f"{self._depth} more commits of history at most")
        fetched = [f"fetched from {self.name}: {', '.join(what)}"] if what else []
        return (*fetched, *self.notes)


def attach(repo: Repository, environ: Mapping[str, str]) -> Remote:
    """The remote `origin` of a checkout. From here on its history is asked of the temporary repository."""
    url = repo.setting("remote.origin.url")
    if not url:
        raise GitFault("there is no remote named origin to fetch from; add it: git remote add origin URL")
    scratch = Scratch()
    _lay_out(scratch.folder, repo)
    repo.borrow(scratch.folder)
    shown = without_userinfo(url)
    repo.remote = Remote(repo, environ, scratch, f"origin ({shown})", _auth(repo, url, environ))
    return repo.remote


def alone(url: str, environ: Mapping[str, str]) -> Repository:
    """A temporary repository of a remote's, empty at first; there is no checkout."""
    scratch = Scratch()
    plain, auth = _split_userinfo(url)
    shown = without_userinfo(url)
    _write_config(scratch.folder, [("remote.origin.url", plain)], digits=40)
    repo = Repository(scratch.folder, environ, bare=True)
    if not auth.settings:
        auth = _auth(repo, plain, environ)
    repo.remote = Remote(repo, environ, scratch, shown, auth)
    return repo


def _lay_out(folder: Path, repo: Repository) -> None:
    """A temporary repository for a checkout: its head and refs as they are, its objects borrowed, its settings copied."""
    common = repo.common_dir.resolve()
    refs = repo.refs("")
    at = repo.head()
    config = [(name, value) for name, value in repo.settings() if _FOR_REMOTES.match(name)]
    _write_config(folder, config, digits=len(at or next(iter(refs.values()), "")))
    if at:
        _write(folder / "HEAD", f"{at}\n")
    head = "refs/remotes/origin/HEAD"
    default = repo.symbolic_ref(head)
    lines = [f"{commit} {name}\n" for name, commit in sorted(refs.items()) if name != head]
    _write(folder / "packed-refs", "".join(lines))
    if default:
        (folder / head).parent.mkdir(parents=True)
        _write(folder / head, f"ref: {default}\n")
    _write(folder / "objects/info/alternates", f"{common / 'objects'}\n")
    shallow = repo.shallow_commits()
    if shallow:
        _write(folder / "shallow", "".join(f"{commit}\n" for commit in sorted(shallow)))


# What says how to reach a remote, and nothing about the clone itself.
_FOR_REMOTES = re.compile(
    r"(http|credential|url|remote|ssh|protocol|transfer|fetch|promisor|pack|index|gitproxy)\."
    r"|core\.(sshcommand|gitproxy|askpass|compression|bigfilethreshold)$"
)


def _write_config(folder: Path, settings: Sequence[tuple[str, str | None]], digits: int) -> None:
    for part in ("objects/info", "refs", "info"):
        (folder / part).mkdir(parents=True)
    _write(folder / "HEAD", "ref: refs/heads/nothing\n")
    sha256 = digits == 64  # noqa: PLR2004 (hexadecimal digits of SHA-256)
    lines = ["[core]", f"\trepositoryformatversion = {int(sha256)}", "\tbare = true"]
    lines += ["[extensions]", "\tobjectFormat = sha256"] if sha256 else []
    for name, value in settings:
        section, _, key = name.rpartition(".")
        head, _, rest = section.partition(".")
        title = f'[{head} "{_quoted(rest)}"]' if rest else f"[{head}]"
        lines += [title, f"\t{key}" if value is None else f'\t{key} = "{_quoted(value)}"']
    _write(folder / "config", "\n".join([*lines, ""]))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise GitFault(f"{file} can't be written: {error.strerror}") from error


def _keeping(commit: str) -> str:
    return f"+{commit}:{_KEEP}{commit}"


def _seconds(environ: Mapping[str, str]) -> float:
    text = environ.get("TOUCHGATE_FETCH_SECONDS", "")
    try:
        seconds = float(text) if text else SECONDS
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e6:  # noqa: PLR2004 (a fortnight)
        raise GitFault(f"TOUCHGATE_FETCH_SECONDS={text}: it takes a number of seconds above 0")
    return seconds


# ---- who may be told what


class Auth:
    """Settings that let git in, handed over in its environment."""

    def __init__(self, settings: Sequence[tuple[str, str]] = ()) -> None:
        self.settings = tuple(settings)


def with_settings(environ: Mapping[str, str], settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The environment with more of git's settings: no command line and no file shows them."""
    count = environ.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isdecimal() else 0
    more = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (name, value) in enumerate(settings, first):
        more[f"GIT_CONFIG_KEY_{number}"] = name
        more[f"GIT_CONFIG_VALUE_{number}"] = value
    return {**environ, **more}


def without_userinfo(text: str) -> str:
    """The text with the user and password of every URL in it left out."""
    return re.sub(r"(?<=://)[^/\s'\"]*@", "", text)


def _split_userinfo(url: str) -> tuple[str, Auth]:
    """A URL without its password, and the header that says the same."""
    parts = urlsplit(url) if re.match(r"https?://", url) else None
    if not parts or "@" not in parts.netloc:
        return url, Auth()
    userinfo, _, host = parts.netloc.rpartition("@")
    plain = parts._replace(netloc=host).geturl()
    user, _, password = userinfo.partition(":")
    return plain, _basic(f"{parts.scheme}://{host}/", unquote(user), unquote(password))


def _basic(server: str, user: str, password: str) -> Auth:
    word = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
    return Auth(
        [
            (f"http.{server}.extraHeader", f"Authorization: Basic {word}"),
            # The header would follow to another server.
            (f"http.{server}.followRedirects", "false"),
        ]
    )


def _auth(repo: Repository, url: str, environ: Mapping[str, str]) -> Auth:
    """The forge's token, for the forge's own server, where git has no header for it already."""
    token = forge.token(environ)
    if token is None or not _is_below(url, token.server):
        return Auth()
    if repo.header_for(url):
        return Auth()
    return _basic(token.server.rstrip("/") + "/", token.user, token.secret)


def _is_below(url: str, server: str) -> bool:
    one, other = urlsplit(url), urlsplit(server)
    if one.scheme not in ("http", "https") or (one.scheme, one.netloc.rpartition("@")[2]) != (other.scheme, other.netloc):
        return False
    return f"{one.path}/".startswith(f"{other.path.rstrip('/')}/")

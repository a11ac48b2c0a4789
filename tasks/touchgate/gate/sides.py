"""Base and head of a change: which commits, where each came from, and what would have to be fetched to know them.

A head that was asked for changes what is judged and not what the event means: only a base that was asked for takes the
event's place. Of a target branch that has moved on since it was fetched, only a forge's payload can tell.
"""

from __future__ import annotations

import re

from touchgate.gate import forge
from touchgate.gate.forge import Event, Rule
from touchgate.gate.git import Commit, Repository
from touchgate.gate.history import FETCH_CURE, Lack
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Side(NamedTuple):
    """Base or head: the commit, and where it came from in words.

    fault: why it can't be used, or "". lack: what would have to be fetched to cure that. worktree: what is uncommitted
    counts too.
    """

    commit: Commit | None
    source: str
    fault: str = ""
    worktree: bool = False
    lack: Lack | None = None


class Default(NamedTuple):
    """The default branch: its name, in words where that came from, its ref and tip where they are here."""

    name: str
    source: str
    ref: str = ""
    tip: Commit | None = None


NO_COMMIT = "there is no commit yet"
WORKTREE = "HEAD with what is uncommitted"
CLEAN = "HEAD, with nothing uncommitted"
"""Where a head comes from that is judged as it lies in the working tree: before that was looked at, and after."""


def asked(option: str | None, variable: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """What was asked for, and by which means."""
    if option:
        return option, f"{option}, from the command line"
    return (environ[variable], f"{environ[variable]}, from {variable}") if environ.get(variable) else None


def find(repo: Repository, name: str, source: str) -> Side:
    """The commit that a person's name stands for: a branch, here or at origin, else whatever git takes it for.

    Where it stands for several commits (a tag has the branch's name) it can't be told which is meant.
    """
    stem, suffix = _split(name)
    if repo.is_bare and stem in ("HEAD", "@"):
        return Side(None, source, f"there is no checkout, so {name!r} names nothing; name a branch or a commit's full id")
    # Git's own order puts tags before branches, without a word.
    shapes = ("refs/heads/{}", "refs/remotes/origin/{}", "refs/remotes/{}", "refs/{}", "refs/tags/{}")
    is_id = not stem or stem in ("HEAD", "@") or re.fullmatch(_FULL_ID, stem)
    refs = [] if is_id else [shape.format(stem) for shape in shapes]
    if refs and re.fullmatch("[0-9a-fA-F]{4,}", stem):
        # Git takes a ref before an id that is cut short; in this shape, as of `git describe`, it is the id.
        refs.append(f"{_SHORTENED}{stem}")
    found = repo.commits([*(f"{ref}{suffix}" for ref in refs), name])
    meant = {ref: commit for ref in refs if (commit := found[f"{ref}{suffix}"])}
    if f"refs/heads/{stem}" in meant:
        meant.pop(f"refs/remotes/origin/{stem}", None)
    by_git = found[name]
    if by_git:
        meant.setdefault(name, by_git)
    several = {commit.id: ref for ref, commit in reversed(meant.items())}
    if len(several) > 1:
        shown = {
            commit: f"an id that is cut short{suffix}"
            if ref.startswith(_SHORTENED)
            else f"{ref}{suffix if ref != name else ''}"
            for commit, ref in several.items()
        }
        each = " and ".join(f"{ref} ({commit[:12]})" for commit, ref in shown.items())
        return Side(None, source, f"{name!r} is ambiguous: it stands for {each}; write the one that is meant in full")
    ref, commit = next(iter(meant.items()), ("", None))
    if commit is None:
        at = repo.remote.name if repo.is_bare and repo.remote else ""
        # What the remote has of it is known only where fetching it did not fail for another name.
        fault = f"{name!r} was not had from {at}" if at else names_nothing(repo, name)
        return Side(None, source, fault, lack=_lack(stem, suffix, repo))
    if ref.startswith("refs/remotes/origin/") and not by_git:
        source = f"{source}: {ref.removeprefix('refs/remotes/')}"
    return Side(commit, source)


def names_nothing(repo: Repository, name: str, cure: str = "--fetch") -> str:
    """Why a person's name stands for no commit of a clone, with what may have been meant, or the cure."""
    stem, suffix = _split(name)
    if re.fullmatch(_FULL_ID, stem):
        return f"{name!r} is no commit of this clone; fetch it first"
    if suffix and (repo.commit(stem) or repo.commit(f"refs/remotes/origin/{stem}")):
        where = "this shallow clone" if repo.shallow_commits() else "its history"
        return f"{name!r} names nothing here: {stem} does, but {where} has no such commit"
    from touchgate.gate.located import did_you_mean  # noqa: PLC0415 (it reads YAML; most names stand for something)

    close = [known for known in _names(repo) if abs(len(known) - len(stem)) <= _MOST_TYPED]
    hint = did_you_mean(stem, close[:_MOST_NAMES])
    return f"{name!r} names nothing here" + (
        f"; {hint}" if hint else f": no branch, tag or commit; what only the remote has comes with {cure}"
    )


_MOST_TYPED = 3
"""Characters that a slip of the hand adds or leaves out."""
_MOST_NAMES = 2000


def _names(repo: Repository) -> list[str]:
    """What branches and tags are called here, those of origin with and without that."""
    found: dict[str, None] = {}
    for ref in repo.refs(""):
        short = re.sub("^refs/(heads|tags|remotes)/", "", ref)
        found.setdefault(short)
        if ref.startswith("refs/remotes/origin/"):
            found.setdefault(short.removeprefix("origin/"))
    return list(found)


def lack_of(repo: Repository, name: str) -> Lack | None:
    """What to fetch for a person's name of a branch or commit, to have it as it is now; None for what is only here."""
    stem, suffix = _split(name)
    return None if suffix else _lack(stem, "", repo)


def _lack(stem: str, suffix: str, repo: Repository) -> Lack | None:
    """What to fetch for a name that stands for no commit here."""
    if suffix:
        # Such as main~1: the tip may be here, and what lies behind it cut off.
        tip = repo.commit(stem) or repo.commit(f"refs/remotes/origin/{stem}")
        if tip:
            return Lack(deepen=(tip.id,)) if repo.shallow_commits() else None
    if re.fullmatch(_FULL_ID, stem):
        return Lack(commits=(stem.lower(),))
    name = stem.removeprefix("refs/heads/").removeprefix("refs/remotes/").removeprefix("origin/")
    return Lack(branches=(name,)) if forge.is_branch(name) and name not in ("HEAD", "@") else None


_FULL_ID = "[0-9a-fA-F]{40}|[0-9a-fA-F]{64}"
_SHORTENED = "touchgate-g"
_SUFFIX = re.compile(r"[~^]|@\{")


def _split(name: str) -> tuple[str, str]:
    """A revision as its ref and what follows it, such as ("main", "~1")."""
    at = _SUFFIX.search(name)
    return (name[: at.start()], name[at.start() :]) if at else (name, "")


def branch(repo: Repository, name: str) -> tuple[str, Commit | None]:
    """The ref of a branch and its tip: origin's, else the local one where origin's is not known at all."""
    theirs, ours = f"refs/remotes/origin/{name}", f"refs/heads/{name}"
    tip = repo.commit(theirs)
    if tip or repo.has_ref(theirs):
        return theirs, tip
    tip = repo.commit(ours)
    return (ours, tip) if tip else ("", None)


def default_branch(repo: Repository, event: Event | None) -> Default | None:
    """The forge's word, else origin/HEAD, else origin/main or master, else the local main or master."""
    if event and event.default_branch:
        return Default(event.default_branch, f"{event.forge}'s word", *branch(repo, event.default_branch))
    prefix = "refs/remotes/origin/"
    symbolic = repo.symbolic_ref(f"{prefix}HEAD")
    if symbolic and symbolic.startswith(prefix):
        tip = repo.commit(symbolic)
        if tip or repo.has_ref(symbolic):
            return Default(symbolic.removeprefix(prefix), "origin/HEAD", symbolic, tip)
    for ref in (f"{prefix}main", f"{prefix}master", "refs/heads/main", "refs/heads/master"):
        tip = repo.commit(ref)
        if tip or (ref.startswith(prefix) and repo.has_ref(ref)):
            name = ref.removeprefix(prefix).removeprefix("refs/heads/")
            source = f"origin/{name}" if ref.startswith(prefix) else f"the local branch {name}"
            return Default(name, f"{source}, as nothing else names it", ref, tip)
    return None


def pushed_to_default(event: Event, default: Default | None) -> Event:
    """The same event, due where the branch that was pushed turns out to be the default one."""
    if event.rule is Rule.BRANCH and default and event.pushed == default.name:
        reason = f"{default.name} is the default branch itself ({default.source})"
        return Event(event.forge, event.name, Rule.DUE, reason, checkout=event.checkout)
    return event


def branch_name(event: Event | None, default: Default | None) -> str:
    """The branch that base is the tip of, for a person."""
    if event and event.target:
        return event.target
    return default.name if default else "the default branch"


def checked_out(repo: Repository, event: Event | None) -> Side:
    """The commit checked out; without a checkout, the one that the event names."""
    if not repo.is_bare:
        at = repo.commit("HEAD")
        source = f"the commit checked out, for {event.label}" if event else WORKTREE
        return Side(at, source, "" if at else NO_COMMIT)
    if event is None or event.checkout is None:
        return Side(None, "nothing", "there is no checkout and no event that names a commit; give BASE and HEAD")
    at = repo.commit(event.checkout)
    fault = "" if at else f"{event.checkout}, the commit that {event.label} is for, is not at the remote"
    return Side(at, f"the commit that {event.label} is for", fault, lack=None if at else Lack(commits=(event.checkout,)))


def _is_of(event: Event, commit: Commit) -> bool:
    """Whether this is the commit that the event started its run for, or its head; a merge of that where none is named.

    Any other merge of the head may have dropped what it proposes (`git merge -s ours`).
    """
    proposed = {event.checkout, event.head} - {None}
    return not proposed or commit.id in proposed or (event.checkout is None and event.head in commit.parents)


def are_ids(repo: Repository, names: Iterable[str]) -> bool:
    """Whether these are full ids of commits that are here."""
    return all(re.fullmatch(_FULL_ID, name) and repo.commit(name) for name in names)


def is_of_event(repo: Repository, event: Event) -> bool:
    """Whether the commit checked out is the event's own."""
    at = repo.commit("HEAD")
    return at is not None and _is_of(event, at)


def is_left_over(repo: Repository, event: Event) -> bool:
    """Whether what is checked out has nothing to do with the event: an earlier job on the same machine left it there.

    A commit that the job itself made on top of the event's own is none: no branch of a remote holds that.
    """
    at = repo.commit("HEAD")
    if at is None:
        return True
    if _is_of(event, at):
        return False
    started = [commit.id for name in (event.checkout, event.head) if name and (commit := repo.commit(name))]
    came = at.id in repo.refs("refs/remotes/").values()
    return came or not any(repo.is_ancestor(one, at.id) for one in started)


def head(repo: Repository, at: Side, asked: tuple[str, str] | None, event: Event | None, *, worktree: bool) -> Side:
    """The side that is judged. at: the commit checked out. worktree: it is judged with what is uncommitted."""
    if asked:
        return find(repo, *asked)
    if at.commit is None:
        return at._replace(source="HEAD", worktree=True) if worktree and not repo.is_bare else at
    if event is None and repo.is_bare:
        return at
    if worktree or event is None:
        return Side(at.commit, WORKTREE, worktree=True)
    if event.judge_head and event.head:
        # A pull request's head counts as checked out in a merge of it, too; a dispatched one only as itself.
        # Another merge of it, left here by an earlier job or made by this one, may have dropped what it proposes.
        own = event.checkout in (None, event.head, at.commit.id)
        merged = event.rule is Rule.PULL_REQUEST and event.head in at.commit.parents and own
        if event.head != at.commit.id and not merged:
            commit = repo.commit(event.head)
            fault = "" if commit else f"{event.head}, the head of {event.label}, is not in this clone; fetch it first"
            lack = None if commit else Lack(commits=(event.head,))
            return Side(commit, f"the head that {event.label} names", fault, lack=lack)
    elif not _is_of(event, at.commit):
        fault = f"the commit checked out, {at.commit.id}, is not the one that {event.label} started this run for"
        return at._replace(fault=fault)
    return at


def asked_base(repo: Repository, asked: tuple[str, str], event: Event | None) -> Side:
    """The base that a person names. event: that of a job that may fetch: then a target branch is the remote's present one."""
    side = find(repo, *asked)
    if event is None or repo.is_bare or side.commit is None or not repo.setting("remote.origin.url"):
        return side
    stem, suffix = _split(asked[0])
    name = stem.removeprefix("refs/heads/").removeprefix("refs/remotes/").removeprefix("origin/")
    theirs = stem != name and "origin/" in stem
    if suffix or not forge.is_branch(name) or not (theirs or name in (event.target, event.default_branch)):
        return side
    if repo.remote and name in repo.remote.fresh:
        tip = repo.commit(f"refs/remotes/origin/{name}")
        return Side(tip, f"{side.source}: origin/{name}") if tip else side
    return side._replace(fault=_may_be_old(name), lack=Lack(branches=(name,)))


def base(repo: Repository, head: Side, event: Event | None, default: Default | None, *, present: bool = False) -> Side:
    """The side that the change is measured from. present: a branch of the remote counts only as it is there now."""
    lost, parent_id = "", None
    if event and event.merge_ref and head.commit and _is_merge_of(head.commit, event):
        parent_id = head.commit.parents[0]
        parent = repo.commit(parent_id)
        if parent:
            return Side(parent, f"{event.target} as {event.forge} merged it: the merge commit's first parent")
        lost = "; with `fetch-depth: 2` the merge commit's first parent would do"
    if event and event.target:
        ref, tip = branch(repo, event.target)
        name, source = event.target, f"the target branch, for {event.label}"
    elif default:
        ref, tip, name = default.ref, default.tip, default.name
        source = f"the default branch, by {default.source}"
    else:
        return Side(None, "the default branch", "no default branch is known: neither origin/HEAD nor a main or master")
    short = ref.removeprefix("refs/remotes/").removeprefix("refs/heads/")
    if tip is None:
        fault = f"the branch {name} is not in this clone; {FETCH_CURE}, or `git fetch origin {name}`{lost}"
    else:
        # Where there is no remote, the branch here is all there is.
        fault = _stale(repo, name, tip, event, present=present and bool(repo.setting("remote.origin.url")))
    lack = Lack(branches=(name,)) if fault else None
    if lack and parent_id:
        # The parent alone says it all, and costs the least.
        lack = Lack(commits=(parent_id,), otherwise=lack)
    return Side(tip, f"{short or name}, {source}", fault, lack=lack)


def _may_be_old(name: str) -> str:
    return f"the {name} of this clone may be older than the remote's, with lanes that came to it since"


def _stale(repo: Repository, name: str, tip: Commit, event: Event | None, *, present: bool) -> str:
    """What is wrong where the ref in this clone may not be, or is not, the target branch that the forge measures from."""
    if event is None or (repo.remote and name in repo.remote.fresh):
        return ""
    if present:
        return _may_be_old(name)
    at = repo.commit("HEAD") if event.merge_ref and event.checkout and not repo.is_bare else None
    if at and at.id != event.checkout:
        # A pull request's payload names the target as it was when it was opened: it can't tell an old branch from a new one.
        return (
            f"the checkout is at {at.id[:12]}, not at {event.checkout[:12] if event.checkout else ''} for which {event.label} "
            f"started this run, so its {name} may be of an earlier one; run `git fetch origin {name}`"
        )
    for sha in event.target_shas:
        if sha != tip.id and (repo.commit(sha) is None or not repo.is_ancestor(sha, tip.id)):
            return (
                f"{event.label} names {sha[:12]} as a commit of {name}, and the {name} of this clone, {tip.id[:12]}, "
                f"is not known to hold it: it is older, or rewritten; run `git fetch origin {name}`, without a depth"
            )
    return ""


def _is_merge_of(commit: Commit, event: Event) -> bool:
    """Whether a commit is the merge of target and head that the forge made for this event.

    The head as second parent shows it: without that, it may be a merge that the author made, whose first parent is the
    author's own last commit.
    """
    two = len(commit.parents) == 2  # noqa: PLR2004 (target and head)
    return two and event.head == commit.parents[1] and event.checkout in (None, commit.id)

"""The path lists of a workflow file: what `on:` says about `paths` and `paths-ignore`.

Without a list, every path touches. A pattern list is read as GitHub reads it. An event that the workflow does not name
is not judged by another event's list but touches: an unknown event must not skip.
"""

from __future__ import annotations

from touchgate.gate import located
from touchgate.gate.located import DeclarationError, Mapping_, Node, Problem, Scalar, Sequence
from touchgate.gate.model import At, PathPattern
from touchgate.gate.patterns import PatternList, list_faults, nearest_of, unreadable_because
from touchgate.gate.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Sequence as ListOf

FILTERED_EVENTS = ("pull_request", "pull_request_target", "push", "merge_group")
"""The events that can have path lists, in the order in which a local call picks one."""

_LISTS = ("paths", "paths-ignore")
_MISSPELT = ("path", "path-ignore", "ignore-paths", "pathsignore", "paths-ignored")
"""What people write for these keys; a forge would pass over it in silence and run always."""


class EventPaths(NamedTuple):
    """One event's lists. None where the event has no such list; an empty list filters nothing."""

    event: str
    at: At
    paths: tuple[PathPattern, ...] | None = None
    ignore: tuple[PathPattern, ...] | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether there is a path that does not touch."""
        return bool(self.paths or self.ignore)

    def same_lists(self, other: EventPaths) -> bool:
        """Whether both say the same, wherever it is written."""
        return all(
            _texts(ours or ()) == _texts(theirs or ())
            for ours, theirs in ((self.paths, other.paths), (self.ignore, other.ignore))
        )


class WorkflowPaths(NamedTuple):
    """What a workflow says about paths.

    events: those of `FILTERED_EVENTS` that it names. others: the further ones. faults: patterns that can be read but
    never match, or can't be meant.
    """

    file: str
    events: Mapping[str, EventPaths]
    others: tuple[str, ...]
    faults: tuple[Problem, ...]


class Answer(NamedTuple):
    """Whether the workflow runs. path, pattern: what decided, or for a no what came nearest; None where nothing did."""

    run: bool
    path: str | None
    pattern: PathPattern | None


class Choice(NamedTuple):
    """The lists that an event is judged by, and in words which they are. lists None: none, everything touches.

    further: those of other events, which differ and count as well where no event is known: one that touches is enough.
    """

    lists: EventPaths | None
    words: str
    further: tuple[EventPaths, ...] = ()


def read_paths(text: bytes, file: str) -> WorkflowPaths:
    """The path lists of a workflow. Raises DeclarationError where it can't be read as one."""
    document = located.read(text, file)
    reader = _Reader(list(document.problems))
    events: dict[str, EventPaths] = {}
    others: list[str] = []
    root = document.root
    if not document.problems:
        if isinstance(root, Mapping_):
            for event, lists in reader.events(root).items():
                if event in FILTERED_EVENTS:
                    events[event] = lists
                else:
                    others.append(event)
        else:
            reader.problems.append(Problem(root.at if root else At(file, 1, 1), "a workflow is a mapping with the key 'on'"))
    if reader.problems:
        raise DeclarationError(reader.problems, {file: text})
    return WorkflowPaths(file, events, tuple(others), tuple(reader.faults))


class _Reader:
    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        self.faults: list[Problem] = []

    def events(self, root: Mapping_) -> dict[str, EventPaths]:
        """Every event under `on`, which readers of YAML 1.1 take for the boolean true; here keys stay as written."""
        on = root.entries.get("on")
        if on is None or located.is_empty(on):
            at = root.keys["on"].at if on else root.at
            self.problems.append(Problem(at, "the workflow names no event", "it needs `on:`"))
            return {}
        for mapping in (root, on):
            if isinstance(mapping, Mapping_):
                self.misplaced(mapping)
        if isinstance(on, Mapping_):
            return {
                event: self.lists(key, on.entries[event]) if event in FILTERED_EVENTS else EventPaths(event, key.at)
                for event, key in on.keys.items()
            }
        found = {}
        for item in on.items if isinstance(on, Sequence) else [on]:
            if isinstance(item, Scalar):
                found[item.text] = EventPaths(item.text, item.at)
            else:
                self.problems.append(Problem(item.at, f"an event must be text, not {located.kind_of(item)}"))
        return found

    def misplaced(self, mapping: Mapping_) -> None:
        """Report lists that stand where they filter nothing."""
        for name in ("paths", "paths-ignore"):
            if name in mapping.keys:
                message = f"'{name}' belongs to an event and filters nothing here"
                self.problems.append(Problem(mapping.keys[name].at, message, "put it below pull_request or push"))

    def lists(self, key: Scalar, node: Node) -> EventPaths:
        if located.is_empty(node):
            return EventPaths(key.text, key.at)
        if not isinstance(node, Mapping_):
            self.problems.append(Problem(node.at, f"'{key.text}' must be a mapping, not {located.kind_of(node)}"))
            return EventPaths(key.text, key.at)
        for name, place in node.keys.items():
            spelt = name.lower().replace("_", "-")
            if name not in _LISTS and spelt in (*_LISTS, *_MISSPELT):
                hint = located.did_you_mean(spelt, _LISTS)
                self.problems.append(Problem(place.at, f"unknown key '{name}' in '{key.text}'", hint))
        paths = self.patterns(node, "paths")
        ignore = self.patterns(node, "paths-ignore")
        if paths is not None and ignore is not None:
            message = f"'{key.text}' has both 'paths' and 'paths-ignore', which forges refuse"
            self.problems.append(Problem(node.keys["paths-ignore"].at, message, "use `!` in 'paths'"))
        return EventPaths(key.text, key.at, paths, ignore)

    def patterns(self, event: Mapping_, key: str) -> tuple[PathPattern, ...] | None:
        node = event.entries.get(key)
        if node is None:
            return None
        if located.is_empty(node):
            return ()
        found = []
        for item in node.items if isinstance(node, Sequence) else [node]:
            if isinstance(item, Scalar):
                found.append(PathPattern(item.text, item.at))
            else:
                self.problems.append(Problem(item.at, f"a pattern must be text, not {located.kind_of(item)}"))
        for index, fault in list_faults([pattern.text for pattern in found]):
            if index is None:
                if key == "paths":
                    self.faults.append(Problem(node.at, f"'paths': {fault}"))
                continue
            pattern = found[index]
            kind = self.problems if unreadable_because(pattern.text) else self.faults
            kind.append(Problem(pattern.at, f"pattern '{pattern.text}': {fault}"))
        if key == "paths-ignore":
            self.faults += [
                Problem(pattern.at, f"pattern '{pattern.text}': `!` has no settled meaning in 'paths-ignore'", "use 'paths'")
                for pattern in found
                if pattern.text.startswith("!")
            ]
        return tuple(found)


def choose(workflow_paths: WorkflowPaths, event: str | None) -> Choice:
    """Which event's lists count: the event's own; asked locally (None or ""), those of all events that have any.

    There the event that comes first, pull requests before pushes, has to have one.
    """
    events = workflow_paths.events
    file = workflow_paths.file
    if event:
        if event not in events:
            return Choice(None, f"{file}: it has no `paths:` list for {event}, so it always runs")
        return Choice(events[event], f"{file}{_which(events, event)}")
    named = [events[name] for name in FILTERED_EVENTS if name in events]
    if named:
        first, *others = named
        further: list[EventPaths] = []
        for lists in others if first.is_filtered else ():
            if lists.is_filtered and not any(lists.same_lists(known) for known in (first, *further)):
                further.append(lists)
        if further:
            several = " and of ".join(lists.event for lists in (first, *further))
            return Choice(first, f"{file}, the lists of {several}", tuple(further))
        return Choice(first, f"{file}{_which(events, first.event)}")
    return Choice(None, f"{file}: it has no `paths:` list, so it always runs")


def _which(events: Mapping[str, EventPaths], used: str) -> str:
    """Which list counts, in words that follow the file's name."""
    if events[used].is_filtered:
        return f", the list of {used}{_difference(events, used)}"
    if any(lists.is_filtered for lists in events.values()):
        return f": it has no `paths:` list for {used}, so it always runs"
    return ": it has no `paths:` list, so it always runs"


def _difference(events: Mapping[str, EventPaths], used: str) -> str:
    others = [name for name, lists in events.items() if not lists.same_lists(events[used])]
    return f" (that of {' and of '.join(others)} differs)" if others else ""


def decide(workflow_paths: WorkflowPaths, event: str | None, touched: ListOf[str]) -> Answer:
    """Whether a change of the touched paths runs the workflow, and why.

    `paths-ignore` with `!` means different things to different engines: there a path counts as ignored only where the
    two readings (any entry holds; the last match decides) agree. A path that ends in `/` stands for whatever may lie
    below: it is never ignored.
    """
    chosen = choose(workflow_paths, event)
    if chosen.lists is None or not chosen.lists.is_filtered:
        return Answer(run=True, path=None, pattern=None)
    answers = [_by(lists, touched) for lists in (chosen.lists, *chosen.further)]
    return next((answer for answer in answers if answer.run), answers[0])


def _by(lists: EventPaths, touched: ListOf[str]) -> Answer:
    if lists.ignore:
        ignore = PatternList(_texts(lists.ignore))
        for path in touched:
            if path.endswith("/") or not ignore.ignores(path) or ignore.decides(path) is None:
                return Answer(run=True, path=path, pattern=None)
        last = touched[0] if touched else None
        index = None if last is None else ignore.decides(last)
        return Answer(run=False, path=last, pattern=None if index is None else lists.ignore[index])
    patterns = PatternList(_texts(lists.paths or ()))
    fired = patterns.touches(touched) or _below(patterns, touched)
    near = fired or _taken_back(patterns, touched) or nearest_of(patterns, sorted(touched))
    if near is None:
        return Answer(run=False, path=None, pattern=None)
    return Answer(run=fired is not None, path=near[0], pattern=(lists.paths or ())[near[1]])


def skipped_because(answer: Answer, choice: Choice, looked_at: int) -> str:
    """The proof of a no in one sentence: the list that decided, how many paths were looked at, and what came nearest."""
    several = looked_at != 1
    if choice.lists is not None and choice.lists.ignore:
        paths = f"all {looked_at} touched paths are" if several else "the one touched path is"
        by = f", {answer.path} by {answer.pattern.text} ({answer.pattern.at})" if answer.pattern else ""
        return f"{paths} ignored by {choice.words}{by}"
    none = f"none of {looked_at} touched paths matches" if several else "the one touched path does not match"
    if answer.pattern is None or answer.path is None:
        return f"{none} {choice.words}"
    shown = f"{answer.pattern.text} ({answer.pattern.at})"
    listed = (choice.lists.paths if choice.lists else None) or ()
    if not answer.pattern.text.startswith("!"):
        return f"{none} {choice.words}; nearest: {shown}"
    matching = PatternList(_texts(listed)).matching(answer.path)
    against = next(listed[index] for index in reversed(matching) if not listed[index].text.startswith("!"))
    return f"{none} {choice.words}; {answer.path} matches {against.text} ({against.at}) but {shown} takes it back"


def _taken_back(patterns: PatternList, touched: ListOf[str]) -> tuple[str, int] | None:
    """Of a list that lets nothing through: the first path that a pattern matches, and the later one that takes it back."""
    for path in touched:
        matching = patterns.matching(path)
        if not all(map(patterns.is_negative, matching)):
            return path, matching[-1]
    return None


def _below(patterns: PatternList, touched: ListOf[str]) -> tuple[str, int] | None:
    """The first folder whose content can't be told, and a pattern that may match something in it."""
    for folder in touched:
        index = patterns.may_touch_below(folder) if folder.endswith("/") else None
        if index is not None:
            return folder, index
    return None


def as_patterns(workflow_paths: WorkflowPaths) -> tuple[PathPattern, ...]:
    """The lists that count locally, as one `paths` list; those of `paths-ignore` become `**` and negatives.

    Of several that differ, what any of them matches is matched; where two of them hold a `!`, maybe more than that. Raises
    DeclarationError where `paths-ignore` holds a `!`.
    """
    chosen = choose(workflow_paths, None)
    if chosen.lists is None:
        return (PathPattern("**", At(workflow_paths.file, 1, 1)),)
    lists = [_as_paths(one) for one in (chosen.lists, *chosen.further)]
    # The last match decides: what stands behind must take nothing back.
    lists.sort(key=lambda patterns: not _takes_back(patterns))
    first, *others = lists
    behind = [pattern for patterns in others for pattern in patterns if not pattern.text.startswith("!")]
    known = set() if _takes_back(first) else {pattern.text for pattern in first}
    for pattern in behind:
        if pattern.text not in known:
            known.add(pattern.text)
            first = (*first, pattern)
    return first


def _takes_back(patterns: ListOf[PathPattern]) -> bool:
    return any(pattern.text.startswith("!") for pattern in patterns)


def _as_paths(lists: EventPaths) -> tuple[PathPattern, ...]:
    if not lists.is_filtered:
        return (PathPattern("**", lists.at),)
    if lists.paths:
        return lists.paths
    ignore = lists.ignore or ()
    negative = [pattern for pattern in ignore if pattern.text.startswith("!")]
    if negative:
        message = "a lane can't be gated by a 'paths-ignore' that holds `!`"
        raise DeclarationError([Problem(pattern.at, message, "write 'paths' there") for pattern in negative])
    return (PathPattern("**", lists.at), *(PathPattern(f"!{pattern.text}", pattern.at) for pattern in ignore))


def _texts(patterns: ListOf[PathPattern]) -> tuple[str, ...]:
    return tuple(pattern.text for pattern in patterns)

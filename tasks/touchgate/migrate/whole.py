"""One workflow's text migrated: read, planned, edited, and the result read again."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

from touchgate.gate import located
from touchgate.gate.located import DeclarationError, Problem
from touchgate.gate.model import At
from touchgate.gate.workflow import EventPaths, read_paths
from touchgate.migrate import deciders, edits, guard, jobs, verify
from touchgate.migrate.gates import Asked, NewLanes, Surroundings
from touchgate.migrate.tree import Items, Pairs, Scalar, Text

_MOST_ATTEMPTS = 100


@dataclass(frozen=True)
class Migrated:
    """What became of a file. text: the new one, None where it stays; lanes: name -> (patterns, where they came from).

    left: what was left alone, and why. notes: what will differ, and drift. guarded: how many jobs gate themselves now.
    """

    file: str
    text: str | None
    lanes: dict[str, tuple[tuple[str, ...], str]]
    left: tuple[Problem, ...]
    notes: tuple[Problem, ...]
    guarded: int = 0


def read(file: str, content: bytes) -> jobs.Workflow | None:
    """The workflow; None where the file holds no jobs. Raises DeclarationError where it is no YAML that can be read."""
    document = located.read(content, file)
    if document.problems:
        raise DeclarationError(document.problems, {file: content})
    return jobs.read(Text(file, content.decode("utf-8").removeprefix("\ufeff")))


def migrate(file: str, content: bytes, uses: str, asked: Asked, around: Surroundings) -> Migrated:
    """Migrate one workflow. Raises DeclarationError where it is no YAML that can be read."""
    workflow = read(file, content)
    mark = "\ufeff" if content.startswith("\ufeff".encode()) else ""
    drift = tuple(drift_of(file, content))
    if workflow is None:
        return Migrated(file, None, {}, (), drift)
    lanes = NewLanes(PurePosixPath(file).stem, around.lanes)
    found = deciders.find(workflow, asked, around, lanes)
    if not found:
        return Migrated(file, None, {}, (), drift)
    refused: dict[str, Problem] = {}
    for _ in range(_MOST_ATTEMPTS):
        plan = guard.plan(workflow, found, asked, refused)
        changes, conflicts = edits.of_plan(workflow, plan, uses)
        if not conflicts:
            break
        refused.update(conflicts)
    notes = (*drift, *plan.notes, *_pushes(workflow))
    if not changes or conflicts:
        return Migrated(file, None, {}, plan.left, drift)
    result = edits.apply(workflow.text.text, changes)
    different = verify.difference(workflow, plan, uses, result)
    if different is not None:
        problem = Problem(At(file, 1, 1), f"the changed text would not say what was meant ({different})")
        return Migrated(file, None, {}, (problem,), drift)
    asked_for = {lane for one in plan.guards.values() for question in one.questions.values() for lane in question.lanes}
    used = {name: lane for name, lane in lanes.added.items() if name in asked_for}
    guarded = sum(bool(guard.questions) for guard in plan.guards.values())
    return Migrated(file, mark + result, used, plan.left, notes, guarded)


def _pushes(workflow: jobs.Workflow) -> list[Problem]:
    """What is different about pushes, where the workflow runs on them."""
    on = workflow.root.get("on")
    events = [item for item in on.items if isinstance(item, Scalar)] if isinstance(on, Items) else []
    events += [key for key, _ in on.pairs] if isinstance(on, Pairs) else [on] if isinstance(on, Scalar) else []
    message = "a push is judged from the merge base with the default branch, and on that branch everything runs"
    return [Problem(workflow.text.at(event.start), message) for event in events if event.value == "push"]


def drift_of(file: str, content: bytes) -> list[Problem]:
    """Where the path lists of two events differ, each with both places. Nothing where they can't be read."""
    try:
        events = list(read_paths(content, file).events.values())
    except DeclarationError:
        return []
    filtered = [event for event in events if event.is_filtered]
    found: list[Problem] = []
    for one, other in pairwise(filtered):
        if not one.same_lists(other):
            found += _drift(one, other)
    return found


def _drift(one: EventPaths, other: EventPaths) -> list[Problem]:
    found = []
    for here, there in ((one, other), (other, one)):
        for kind, ours, theirs in (("paths", here.paths, there.paths), ("paths-ignore", here.ignore, there.ignore)):
            others = {pattern.text for pattern in theirs or ()}
            found += [
                Problem(pattern.at, f"'{pattern.text}' is in '{kind}' of {here.event}, and not of {there.event} ({there.at})")
                for pattern in ours or ()
                if pattern.text not in others
            ]
    order = f"the paths of {other.event} stand in another order than those of {one.event} ({one.at})"
    return found or [Problem(other.at, order)]

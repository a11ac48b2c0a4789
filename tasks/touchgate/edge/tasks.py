"""Maps a planned run to doit tasks: a lane is a group task, a check a subtask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doit.exceptions import TaskError, TaskFailed
from doit.task import Task

from touchgate.edge.planning import checks_meant, expand_all
from touchgate.edge.reporter import META
from touchgate.outcome import Verdict

if TYPE_CHECKING:
    from touchgate.checks import CheckSpec
    from touchgate.edge.planning import PlannedCheck
    from touchgate.edge.session import Session
    from touchgate.gate.model import Lane


def _group(lane: Lane, names: Iterable[str]) -> Task:
    return Task(lane.name, None, task_dep=list(names), has_subtask=True, doc=lane.about, meta={META: None})


def _subtask(spec: CheckSpec, actions: list[Any] | None, uptodate: list[Any], meta: object) -> Task:
    return Task(
        spec.name,
        actions,
        uptodate=uptodate,
        subtask_of=spec.lane,
        doc=spec.about,
        meta={META: meta},
        verbosity=2,
    )


def listed(lanes: Mapping[str, Lane], root: Path) -> list[Task]:
    """Every lane and every check of every suite, to be looked at, not run: for `doit list`, `info` and `help`."""
    tasks = []
    expanded = expand_all(lanes, root)
    for lane in lanes.values():
        specs = expanded[lane.name]
        tasks.append(_group(lane, [spec.name for spec in specs]))
        tasks += [_subtask(spec, [_not_planned], [], None) for spec in specs]
    return tasks + _groups(lanes.values())


def _not_planned() -> TaskError:
    return TaskError("this check was listed, not planned; run it with `doit run`")


def planned(session: Session) -> list[Task]:
    """The lanes whose checks run, with these. What has a stored result is up to date."""
    tasks: list[Task] = []
    lanes: list[Lane] = []
    for name in session.lanes:
        lane = session.declared.head[name]
        lanes.append(lane)
        checks = [check for check in session.checks if check.spec.lane == lane.name]
        tasks.append(_group(lane, [check.spec.name for check in checks]))
        tasks += [_subtask(check.spec, [(_run, [session, check])], [_known(session, check)], check) for check in checks]
    return tasks + _groups(lanes) + _named_in_groups(session, lanes)


def _groups(lanes: Iterable[Lane]) -> list[Task]:
    """A task for the name of every declaration that made a lane for each of several folders: all of these lanes."""
    members: dict[str, list[str]] = {}
    for lane in lanes:
        if lane.each:
            members.setdefault(lane.each.group, []).append(lane.name)
    return [
        Task(group, None, task_dep=names, doc="one lane for every folder", meta={META: None})
        for group, names in members.items()
    ]


def _named_in_groups(session: Session, lanes: Iterable[Lane]) -> list[Task]:
    """A task for every name on the command line that spells a check of a group: that check in each of its lanes."""
    names = [name for name in session.options.names if ":" in name and "*" not in name]
    tasks = []
    for name in dict.fromkeys(names):
        of_group = [lane for lane in lanes if lane.each and lane.each.group == name.partition(":")[0]]
        specs = [check.spec for check in session.checks]
        meant = [
            spec.name
            for lane in of_group
            for spec in checks_meant(lane, [spec for spec in specs if spec.lane == lane.name], name)
        ]
        if meant:
            tasks.append(Task(name, None, task_dep=meant, meta={META: None}))
    return tasks


def stand_ins(own: Iterable[Task], planned: Iterable[Task], lanes: Callable[[], set[str]]) -> list[Task]:
    """Empty tasks for lanes and checks that a repository's own tasks name and that this run does not plan.

    Without them doit would refuse tasks that are not even selected. A task that is selected has its lanes planned.
    """
    tasks = [*own, *planned]
    known = {task.name for task in tasks}
    missing = {name for task in tasks for name in (*task.task_dep, *task.setup_tasks) if name not in known}
    if not missing:
        return []
    declared = lanes()
    return [Task(name, None, meta={META: None}) for name in sorted(missing) if name.partition(":")[0] in declared]


def _known(session: Session, check: PlannedCheck) -> Any:
    def known(task: Task, values: object) -> bool:  # noqa: ARG001  doit's signature
        return session.reuse(check)

    return known


def _run(session: Session, check: PlannedCheck) -> bool | TaskFailed | TaskError:
    done = session.run(check)
    if done.outcome is None:
        return TaskError(done.reason)
    if done.outcome.verdict is Verdict.ERROR:
        return TaskError(done.outcome.reason)
    if done.outcome.verdict.is_failure:
        return TaskFailed(done.outcome.reason)
    # Unmeasured is no failure for doit; the exit code knows better.
    return True

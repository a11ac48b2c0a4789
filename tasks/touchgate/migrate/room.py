"""Whether a job has room for a first step that guards the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from touchgate.gate.located import Problem
from touchgate.migrate import expressions
from touchgate.migrate.expressions import Unreadable
from touchgate.migrate.jobs import Job, Workflow, runner_system, uses
from touchgate.migrate.readings import unbroken
from touchgate.migrate.tree import Node, Scalar, resolved

if TYPE_CHECKING:
    from touchgate.migrate.formulas import Formula


def unguardable(workflow: Workflow, job: Job, asks: tuple[Formula, ...], *, windows: bool) -> Problem | None:
    """Why a job can't gate itself."""
    message = _misshapen(job)
    if message is not None:
        return _problem(workflow, job.key, f"'{job.id}': {message}")
    if runner_system(job) == "windows" and not windows:
        message = f"'{job.id}' runs on Windows, where the gate lets everything run"
        return _problem(workflow, job.node.get("runs-on") or job.key, message, "--windows guards it")
    return _unreadable_step(workflow, job) or _out_of_reach(workflow, job, asks)


def _misshapen(job: Job) -> str | None:
    """What about the way a job is written leaves no room for a first step."""
    steps = job.node.own("steps")
    if job.node.get("uses") is not None:
        return "it calls a workflow and has no steps of its own"
    if not job.steps or len(job.steps) != len(getattr(job.node.get("steps"), "items", ())):
        return "it has no steps, or one that is no mapping"
    if steps is None:
        return "its steps come through a merge key; write `steps:` in the job itself"
    if job.node.flow or getattr(resolved(steps[1]), "flow", False):
        return "it is written in braces or brackets; write the job and its steps a line each, steps behind '- '"
    return None


def _unreadable_step(workflow: Workflow, job: Job) -> Problem | None:
    for step in job.steps:
        name = step.get("id")
        if isinstance(name, Scalar) and name.value.lower().startswith("touchgate"):
            return _problem(
                workflow,
                name,
                f"'{job.id}' has a step '{name.value}' already, and the gate job's answer beside",
                "take one of the two out",
            )
        written = step.get("if")
        if written is None:
            continue
        try:
            taken = expressions.condition(unbroken(written))
            if taken.expression:
                expressions.parse(taken.expression)
        except Unreadable as fault:
            return _problem(workflow, written, f"'{job.id}': the condition of a step can't be read: {fault}")
    return None


def _out_of_reach(workflow: Workflow, job: Job, asks: tuple[Formula, ...]) -> Problem | None:
    """What an inherited condition speaks of, and the job doesn't need."""
    needs = {name.lower() for name in job.needs}
    for text in (text for formula in asks for text in _others(formula)):
        for node, (used, _, _) in uses(expressions.parse(text)):
            if used.lower() not in needs:
                message = f"'{job.id}' would have to test {expressions.show(node)}, which it doesn't need"
                return _problem(workflow, job.key, message)
    return None


def _others(formula: Formula) -> list[str]:
    return ([formula.text] if formula.kind == "other" else []) + [text for part in formula.parts for text in _others(part)]


def _problem(workflow: Workflow, node: Node, message: str, hint: str | None = None) -> Problem:
    return Problem(workflow.text.at(node.start), message, hint)

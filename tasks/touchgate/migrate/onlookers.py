"""Who would notice that a job succeeds in place of being skipped."""

from __future__ import annotations

import re

from touchgate.gate.located import Problem
from touchgate.migrate import expressions, formulas
from touchgate.migrate.expressions import Unreadable
from touchgate.migrate.jobs import Job, Reference, Workflow
from touchgate.migrate.tree import Pairs, Scalar, resolved

_KNOWS_SKIPPED = re.compile(r"re-actors/alls-green(@.*)?")
"""Actions that take all of `needs`, and hold a job that succeeded for no worse than one that was skipped."""


def minding(workflow: Workflow, job: Job, other: Job) -> Problem | None:
    """Where a job would notice that another one succeeds in place of being skipped."""
    if job.condition is not None:
        try:
            root = expressions.parse(expressions.condition(job.condition.value.strip()).expression)
        except Unreadable as fault:
            return _problem(workflow, job.condition, f"'{job.id}': this condition can't be read: {fault}")
        success = [node for node in expressions.walk(root) if node.kind == "call" and node.value == "success"]
        if success:
            return _problem(workflow, job.condition, f"'{job.id}' tests success(), which a skipped '{other.id}' makes false")
    for use in job.references:
        if use.job.lower() not in (other.id.lower(), "*") or use.part == "outputs" or knows_skipped(workflow, use):
            continue
        if use.job == "*" and other.id not in job.needs:
            continue
        minds = formulas.minds_success(use.root, other.id) if use.is_condition else not _neutral(use, other.id)
        if minds:
            what = expressions.show(use.node)
            return _problem(workflow, use.scalar, f"'{job.id}' looks at {what}: a skipped '{other.id}' would be success")
    return None


def knows_skipped(workflow: Workflow, use: Reference) -> bool:
    """Whether what takes all of `needs` is an action that does not mind."""
    if use.where[:1] != ("steps",) or not use.where[1].isdigit():
        return False
    steps = use_steps(workflow, use)
    return bool(steps and _KNOWS_SKIPPED.fullmatch(steps))


def use_steps(workflow: Workflow, use: Reference) -> str:
    """The `uses:` of the step that a reference stands in."""
    for job in workflow.jobs.values():
        if any(found is use for found in job.references):
            node = job.node.get("steps")
            items = getattr(node, "items", [])
            step = resolved(items[int(use.where[1])])
            found = step.get("uses") if isinstance(step, Pairs) else None
            return found.value if isinstance(found, Scalar) else ""
    return ""


def _neutral(use: Reference, job: str) -> bool:
    """Whether a text shows the same for a job that succeeded as for one that was skipped."""
    return not formulas.minds_success(use.root, job) and use.root.kind in ("==", "!=", "&&", "||", "not", "call", "group")


def _problem(workflow: Workflow, node: Scalar, message: str) -> Problem:
    return Problem(workflow.text.at(node.start), message)

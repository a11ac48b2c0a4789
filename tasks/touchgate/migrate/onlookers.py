"""Who would notice that a job succeeds in place of being skipped."""

from __future__ import annotations

import re

from touchgate.gate.located import Problem
from touchgate.migrate import expressions, formulas, shells
from touchgate.migrate.expressions import Unreadable, bare
from touchgate.migrate.jobs import Job, Reference, Workflow, runner_system, scalars
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
        minds = formulas.minds_success(use.root, other.id) if use.is_condition else not _neutral(workflow, job, use, other.id)
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


def _neutral(workflow: Workflow, job: Job, use: Reference, other: str) -> bool:
    """Whether a text says the same for a job that succeeded as for one that was skipped."""
    root = bare(use.root)
    if not formulas.minds_success(root, other) and root.kind in ("==", "!=", "&&", "||", "not", "call"):
        return True
    if use.root.text != use.node.text or not use.in_steps or not use.where[1].isdigit() or not _is_shell(workflow, job, use):
        return False
    step = resolved(getattr(job.node.get("steps"), "items", [])[int(use.where[1])])
    script = step.get("run") if isinstance(step, Pairs) else None
    if not isinstance(script, Scalar):
        return False
    written = re.compile(r"\$\{\{\s*" + re.escape(use.root.text) + r"\s*\}\}")
    if use.where[2:] == ("run",):
        return shells.same_for_skipped(written.sub(shells.RESULT, script.value))
    if use.where[2] == "env" and len(use.where) == 4 and written.fullmatch(use.scalar.value.strip()):  # noqa: PLR2004 - its name
        return shells.same_for_skipped(script.value, use.where[3])
    return False


def _is_shell(workflow: Workflow, job: Job, use: Reference) -> bool:
    """Whether a step's script is one of a shell that is known here."""
    if runner_system(job) == "windows":
        return False
    holders = [*job.steps[int(use.where[1]) :][:1], job.node.get("defaults"), workflow.root.get("defaults")]
    found = [scalar.value for holder in holders if holder for where, scalar in scalars(holder) if where[-1:] == ("shell",)]
    return all(re.match(r"(ba)?sh\b", name) for name in found)


def _problem(workflow: Workflow, node: Scalar, message: str) -> Problem:
    return Problem(workflow.text.at(node.start), message)

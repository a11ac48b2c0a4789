"""Reads a migrated workflow again, and holds it against what the plan meant: nothing else may have changed."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from touchgate.gate import located
from touchgate.migrate import expressions
from touchgate.migrate.edits import inputs_of, tested
from touchgate.migrate.tree import Text, data

if TYPE_CHECKING:
    from touchgate.migrate.gates import Question
    from touchgate.migrate.guard import Guard, Plan
    from touchgate.migrate.jobs import Workflow


def difference(workflow: Workflow, plan: Plan, uses: str, result: str) -> str | None:
    """What the result says that the plan did not mean, in words; None where it is what was meant."""
    document = located.read(result.encode(), workflow.file)
    if document.problems:
        return str(document.problems[0])
    expected = _told(data(workflow.root))
    jobs = expected["jobs"]
    for name in plan.gone:
        del jobs[name]
    for name, guard in plan.guards.items():
        _guard(jobs[name], guard, uses)
    return _first_difference(expected, _told(data(Text(workflow.file, result).root)), "")


def _told(value: object, key: str = "") -> Any:
    """Plain data; of conditions the blanks don't count, and the way in which they are quoted."""
    if isinstance(value, dict):
        return {name: _told(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_told(inner) for inner in value]
    if isinstance(value, tuple):
        return " ".join(value[0].split()) if key == "if" else value
    return value


def _guard(job: dict[str, Any], guard: Guard, uses: str) -> None:
    """Change a job's data as the plan says."""
    gone = {name.lower() for name in guard.dropped}
    needs = job.get("needs")
    if isinstance(needs, list):
        job["needs"] = [item for item in needs if not (isinstance(item, tuple) and item[0].lower() in gone)]
    if needs and (not job["needs"] or (isinstance(needs, tuple) and needs[0].lower() in gone)):
        del job["needs"]
    if guard.own_changed:
        if guard.own is None:
            job.pop("if", None)
        else:
            around = expressions.condition(job["if"]) if job.get("if") else expressions.Condition("", "", "")
            job["if"] = " ".join(f"{around.before}{guard.own}{around.after}".split())
    steps = [copy.deepcopy(step) for step in job.get("steps", [])]
    for swap in guard.texts:
        old = " ".join(swap.old.split()) if swap.use.is_condition else swap.old
        _replace(steps, swap.use.where[1:], old, swap.output(guard.ids))
    for step in steps if guard.tests is not None else []:
        around = expressions.condition(step["if"]) if step.get("if") else expressions.Condition("", "", "")
        whole = around.before + tested(around.expression, str(guard.tests)) + around.after
        step["if"] = " ".join(whole.split())
    if steps:
        job["steps"] = [_first_step(name, question, uses) for name, question in guard.questions.items()] + steps


def _first_step(name: str, question: Question, uses: str) -> dict[str, Any]:
    made: dict[str, Any] = {"id": (name, False), "uses": (uses, False)}
    given = inputs_of(question)
    if given:
        made["with"] = {key: (value, False) for key, value in given.items()}
    return made


def _replace(steps: Any, where: tuple[str, ...], use: str, output: str) -> None:
    """Replace a use of a gate's output in the text that these keys lead to."""
    holder = steps
    for part in where[:-1]:
        holder = holder[int(part)] if isinstance(holder, list) else holder[part]
    place: Any = int(where[-1]) if isinstance(holder, list) else where[-1]
    found = holder[place]
    holder[place] = (found[0].replace(use, output), found[1]) if isinstance(found, tuple) else found.replace(use, output)


def _first_difference(expected: Any, found: Any, where: str) -> str | None:
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in dict.fromkeys([*expected, *found]):
            if key not in expected or key not in found:
                return f"{where}.{key} is {'there' if key in found else 'not there'}"
            different = _first_difference(expected[key], found[key], f"{where}.{key}")
            if different:
                return different
        return None
    if isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            return f"{where} has {len(found)} entries in place of {len(expected)}"
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            different = _first_difference(one, other, f"{where}.{index}")
            if different:
                return different
        return None
    one = expected[0] if isinstance(expected, tuple) else expected
    other = found[0] if isinstance(found, tuple) else found
    return None if one == other else f"{where} is {other!r} in place of {one!r}"

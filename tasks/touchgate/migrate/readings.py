"""One job by itself: its condition split, the uses of gates in its steps, and what stands against a change."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from touchgate.gate.located import Problem
from touchgate.migrate import expressions, formulas, onlookers
from touchgate.migrate.expressions import Unreadable
from touchgate.migrate.formulas import Unsafe
from touchgate.migrate.jobs import Job, Reference, Workflow, uses
from touchgate.migrate.tree import Node, Scalar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from touchgate.migrate.gates import Gate, Question


@dataclass(frozen=True)
class Swap:
    """A piece of a step's text that becomes another one.

    use: whose scalar it is; old: the piece; question: the step that asks it gives the new one; new: else it is this.
    """

    use: Reference
    old: str
    question: Question | None
    new: str = ""

    def output(self, ids: Mapping[Question, str]) -> str:
        """The new piece. ids: the ids of the steps that ask."""
        return self.new if self.question is None else f"steps.{ids[self.question]}.outputs.run"


@dataclass
class Reading:
    """One job by itself: its condition split, the uses of outputs in its steps, and what stands against a change."""

    job: Job
    split: formulas.Split = field(default_factory=lambda: formulas.Split(None, (), changed=False, implied=True))
    texts: list[Swap] = field(default_factory=list)
    faults: list[Problem] = field(default_factory=list)
    meets: frozenset[str] = frozenset()
    """The gates that it needs or refers to."""


class Reader:
    """Reads the jobs of a workflow. gates: those that may go."""

    def __init__(self, workflow: Workflow, gates: Mapping[str, Gate]) -> None:
        self.workflow = workflow
        self.text = workflow.text
        self.gates = gates

    def problem(self, node: Node, message: str, hint: str | None = None) -> Problem:
        """A problem at a node."""
        return Problem(self.text.at(node.start), message, hint)

    def read(self, job: Job) -> Reading:
        """Read one job."""
        reading = Reading(job)
        names = {name.lower(): name for name in self.gates}
        met = {use.job.lower() for use in job.references} | {need.lower() for need in job.needs}
        reading.meets = frozenset(names[name] for name in met if name in names)
        try:
            reading.split = self.split(job, reading.meets)
        except (Unsafe, Unreadable) as fault:
            if reading.meets:
                reading.faults.append(self.fault(job, job.condition or job.key, fault))
            reading.split = formulas.Split(None, (), changed=False, implied=implied(job))
        if not reading.meets:
            return reading
        for scalar, why in (found for found in job.unreadable if found[0] is not job.condition):
            reading.faults.append(self.problem(scalar, f"'{job.id}': an expression with `needs` can't be read: {why}"))
        for use in job.references:
            if use.where != ("if",) or use.job == "*":
                self.use(reading, use)
        return reading

    def fault(self, job: Job, node: Node, fault: Exception) -> Problem:
        """What is wrong with a condition, as a problem with a place."""
        if isinstance(fault, Unsafe):
            if fault.problem is not None:
                return fault.problem
            return self.problem(node, f"'{job.id}': {fault.message}", fault.hint)
        return self.problem(node, f"'{job.id}': this condition can't be read: {fault}")

    def split(self, job: Job, meets: frozenset[str]) -> formulas.Split:
        """The job's condition taken apart, for the gates that it meets. Raises Unsafe, Unreadable."""
        text = expressions.condition(unbroken(job.condition)).expression if job.condition else None
        further = []
        for name in job.needs:
            gate = self.workflow.job(name)
            if gate is not None and gate.id in meets and gate.condition is not None:
                own = expressions.condition(unbroken(gate.condition)).expression
                if expressions.has_status(expressions.parse(own)):
                    raise Unsafe(f"the gate job '{gate.id}' has a status function in its `if:`")
                further.append(own)
        gates = {name: gate for name, gate in self.gates.items() if name in meets}
        return formulas.split(text, gates, expressions.joined(further) if further else None)

    def settled(self, use: Reference, gates: Mapping[str, Gate]) -> Swap | None:
        """A use of a gate's result in a step without it: a gate that is gone counts as one that succeeded. None: can't be."""
        if not use.in_steps:
            return None
        if not use.is_condition:
            found = re.search(r"\$\{\{\s*" + re.escape(use.root.text) + r"\s*\}\}", use.scalar.value)
            return Swap(use, found[0], None, "success") if found and use.root.text == use.node.text else None
        folded = formulas.fold(use.root, gates)
        if isinstance(folded, bool):
            lost = folded and expressions.has_status(use.root)
            return None if lost else Swap(use, use.root.text, None, str(folded).lower())
        if expressions.has_status(use.root) != expressions.has_status(folded):
            return None
        rest = any(part != "outputs" and self.is_one(job, gates) for _, (job, part, _) in uses(folded))
        return None if rest else Swap(use, use.root.text, None, expressions.show(folded))

    @staticmethod
    def is_one(job: str, gates: Mapping[str, Gate]) -> bool:
        """Whether a job is one of the gates."""
        return any(name.lower() == job.lower() for name in gates)

    def results(self, job: Job, dropped: frozenset[str]) -> tuple[Swap, ...]:
        """What becomes of the uses of the results of gates that are gone."""
        gates = {name: gate for name, gate in self.gates.items() if name in dropped}
        found = [use for use in job.references if use.part == "result" and self.is_one(use.job, gates)]
        swaps = [self.settled(use, gates) for use in found if use.in_steps]
        return tuple({(id(swap.use.scalar), swap.old): swap for swap in swaps if swap is not None}.values())

    def use(self, reading: Reading, use: Reference) -> None:
        """A use of `needs` elsewhere than in the job's condition."""
        job = reading.job
        place = ".".join(part for part in use.where if not part.isdigit()) or use.where[0]
        gate = self.gates.get(next((name for name in self.gates if name.lower() == use.job.lower()), ""))
        if use.job == "*":
            if not onlookers.knows_skipped(self.workflow, use) and (use.part != "result" or formulas.minds_removal(use.root)):
                fault = f"'{job.id}' takes all of `needs` in '{place}', where the gate's result would be missing"
                reading.faults.append(self.problem(use.scalar, fault))
        elif gate is None or (use.part == "result" and self.settled(use, self.gates) is not None):
            return
        elif use.part != "outputs":
            reading.faults.append(
                self.problem(use.scalar, f"'{job.id}' uses the gate job's {use.part or 'data'} in '{place}'")
            )
        elif use.in_steps and not use.output:
            fault = f"'{job.id}' takes all outputs of '{gate.job.id}' in '{place}', which no step has"
            reading.faults.append(self.problem(use.scalar, fault))
        elif not use.in_steps:
            fault = f"'{job.id}' uses {expressions.show(use.node)} in '{place}', which is settled before any step runs"
            hint = (
                "a gate in front stays; the action's output `lanes` is made for a matrix"
                if place.startswith("strategy")
                else None
            )
            reading.faults.append(self.problem(use.scalar, fault, hint))
        else:
            try:
                decision = formulas.decision_of(gate, use.output)
                if use.is_condition:
                    _only_positive(use, self.gates)
                else:
                    _only_words(use, others=decision.inverted or decision.words != "both")
                reading.texts.append(Swap(use, use.node.text, decision.question))
            except Unsafe as fault:
                reading.faults.append(self.fault(job, use.scalar, fault))


def implied(job: Job) -> bool:
    """Whether a job runs only where all jobs before it succeeded; no, where its condition can't be read."""
    if job.condition is None:
        return True
    try:
        root = expressions.parse(expressions.condition(job.condition.value.strip()).expression)
    except Unreadable:
        return False
    statuses = [part for part in expressions.conjuncts(root) if expressions.has_status(part)]
    return all(expressions.bare(part).kind == "call" and expressions.bare(part).value == "success" for part in statuses)


def _only_positive(use: Reference, gates: Mapping[str, Gate]) -> None:
    """Refuse a step's condition that runs the step where nothing is touched."""
    folded = formulas.fold(use.root, gates)
    for part in [] if isinstance(folded, bool) else expressions.conjuncts(folded):
        if formulas.mentions(part, gates):
            formulas.formula(part, gates, positive=True)


def _only_words(use: Reference, *, others: bool) -> None:
    """Refuse a text that says something else than touchgate's "true" or "false"."""
    if others:
        raise Unsafe(f"the text of {expressions.show(use.node)} is used, and touchgate's may differ")


def unbroken(written: Node) -> str:
    """The text of a condition. Raises Unreadable where it is none, or the line break at its end makes it always true."""
    if not isinstance(written, Scalar):
        raise Unreadable("it is no text")
    if "${{" in written.value and written.value.endswith("\n"):
        raise Unreadable("a line break behind `${{ }}` makes it always true")
    if "${{" in written.value and written.value != written.value.strip():
        raise Unreadable("a blank around `${{ }}` makes it always true")
    return written.value.strip()

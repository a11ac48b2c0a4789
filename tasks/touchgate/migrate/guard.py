"""Decides which jobs of a workflow can be guarded, with what, and which gate jobs can go.

A guarded job succeeds where it was skipped before. So what waited for it, and was skipped with it, is guarded as well;
and what looks at its result must not mind. Where that does not hold the job keeps its gate, and is listed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from touchgate.gate.located import Problem, words
from touchgate.migrate import expressions, onlookers, room
from touchgate.migrate.formulas import Formula
from touchgate.migrate.jobs import Job, Workflow, runner_system, scalars
from touchgate.migrate.readings import Reader, Reading, Swap
from touchgate.migrate.tree import Node, Pairs, Scalar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from touchgate.migrate.gates import Asked, Gate, Question

_FIXED_EARLY = ("strategy", "runs-on", "container", "services", "concurrency", "environment", "name", "timeout-minutes")
"""Keys of a job that are evaluated before its first step runs."""
_BEFORE_THE_GATE = {
    "environment": "asks for its environment, and its approval, before the gate answers",
    "container": "starts its container before the gate answers, and the gate needs git and python3 in it",
    "services": "starts its services before the gate answers",
    "concurrency": "enters its concurrency group although nothing may be touched",
}


_PLENTY = re.compile(r"(ubuntu|windows|macos)-[\w.-]+|\$\{\{\s*matrix\..*")
"""Runners that the forge has enough of, or that are told elsewhere."""


@dataclass(frozen=True)
class Guard:
    """What a job becomes.

    questions: the id of each new first step -> what it asks. tests: what every later step must test. own: the job's
    condition, None for none; own_changed: whether that differs from what is written. dropped: the gates that it no
    longer needs. texts: uses of a gate's outputs and result in steps, and what comes in their stead.
    """

    job: Job
    questions: Mapping[str, Question]
    tests: str | None
    own: str | None
    own_changed: bool
    dropped: frozenset[str]
    texts: tuple[Swap, ...]

    @property
    def ids(self) -> dict[Question, str]:
        """The id of the step that asks a question."""
        return {question: name for name, question in self.questions.items()}


@dataclass(frozen=True)
class Plan:
    """guards: what changes, by job. gone: gate jobs without use. left: what was left alone; notes: what is worth knowing."""

    guards: Mapping[str, Guard]
    gone: tuple[str, ...]
    left: tuple[Problem, ...]
    notes: tuple[Problem, ...]


def plan(workflow: Workflow, gates: Mapping[str, Gate], asked: Asked, refused: Mapping[str, Problem]) -> Plan:
    """The plan for a workflow. refused: jobs that must not change, and why."""
    return _Planner(workflow, gates, asked, refused).plan()


class _Planner:
    def __init__(self, workflow: Workflow, gates: Mapping[str, Gate], asked: Asked, refused: Mapping[str, Problem]) -> None:
        self.workflow = workflow
        self.text = workflow.text
        self.asked = asked
        self.left: list[Problem] = []
        self.notes: list[Problem] = []
        self.gates = {}
        for name, gate in gates.items():
            blocks = [*gate.blocks, *self.outside(gate)]
            self.left += blocks
            if not blocks:
                self.gates[name] = gate
        self.reader = Reader(workflow, self.gates)
        self.readings = {name: self.reader.read(job) for name, job in workflow.jobs.items() if name not in self.gates}
        for name, problem in refused.items():
            if name in self.readings:
                self.readings[name].faults.append(problem)

    def problem(self, node: Node, message: str, hint: str | None = None) -> Problem:
        return Problem(self.text.at(node.start), message, hint)

    def outside(self, gate: Gate) -> list[Problem]:
        """Uses of a gate's outputs outside the jobs: what the workflow hands to its caller."""
        found = []
        for key, value in self.workflow.root.pairs:
            if key.value != "jobs":
                wanted = re.compile(rf"\bjobs\.{re.escape(gate.job.id)}\b", re.IGNORECASE)
                found += [
                    self.problem(scalar, f"the workflow hands an output of the gate job '{gate.job.id}' to its caller")
                    for _, scalar in scalars(value)
                    if wanted.search(scalar.value)
                ]
        return found

    def plan(self) -> Plan:
        while self.demote():
            pass
        kept = {name for reading in self.readings.values() if reading.faults for name in reading.meets}
        guards = {}
        for name, reading in self.readings.items():
            guard = self.guard(reading, kept)
            if guard is not None:
                guards[name] = guard
                self.notes += self.warnings(guard)
        for reading in self.readings.values():
            self.left += reading.faults
        gone = tuple(name for name in self.gates if name not in kept)
        for name in sorted(kept):
            by = [reading.job.id for reading in self.readings.values() if reading.faults and name in reading.meets]
            why = f"the gate job '{name}' stays: {words(map(repr, by))} still {'needs' if len(by) == 1 else 'need'} it"
            self.left.append(self.problem(self.gates[name].job.key, why))
        for name in gone:
            self.notes += self.gates[name].notes
            message = (
                f"'{name}' goes: where it is a required check itself, take it off that list, or every change waits for it"
            )
            self.notes.append(self.problem(self.gates[name].job.key, message))
        return Plan(guards, gone, _sorted(self.left), _sorted(self.notes))

    def asks(self, reading: Reading) -> tuple[Formula, ...]:
        """What all steps of a job must test: its own questions, and those of the jobs that it would be skipped with."""
        found: dict[Formula, None] = dict.fromkeys(() if reading.faults else reading.split.asks)
        if reading.split.implied:
            for formula, _ in self.inherited(reading):
                found.setdefault(formula)
        return tuple(found)

    def inherited(self, reading: Reading) -> list[tuple[Formula, Reading]]:
        before = self.workflow.ancestors(reading.job)
        ordered = [other for name, other in self.readings.items() if name in before and not other.faults]
        return [(formula, other) for other in ordered for formula in other.split.asks]

    def demote(self) -> bool:
        """Find jobs that can't change after all; whether there were any."""
        found = False
        for reading in self.readings.values():
            asks = self.asks(reading)
            if asks or (reading.texts and not reading.faults):
                why = room.unguardable(self.workflow, reading.job, asks, windows=self.asked.windows)
                if why is not None:
                    found |= self.blame(reading, why)
            if not reading.split.implied:
                found |= self.onlookers(reading)
            found |= self.consumers(reading)
        return found

    def blame(self, reading: Reading, why: Problem) -> bool:
        """A job can't be guarded: so it keeps its gate, and so do the jobs that it would be skipped with."""
        changed = False
        if not reading.faults and (reading.split.asks or reading.texts):
            reading.faults.append(why)
            changed = True
        if reading.split.implied:
            for _, other in self.inherited(reading):
                if not other.faults:
                    waits = f"'{reading.job.id}' waits for it and can't be guarded ({why.message})"
                    other.faults.append(Problem(why.at, f"'{other.job.id}' stays as it is: {waits}"))
                    changed = True
        return changed

    def onlookers(self, reading: Reading) -> bool:
        """Demote the jobs whose being skipped a job that runs anyhow looks at."""
        found = False
        before = self.workflow.ancestors(reading.job)
        for name, other in self.readings.items():
            if name not in before or not self.asks(other):
                continue
            seen = onlookers.minding(self.workflow, reading.job, other.job)
            if seen is not None:
                found |= self.keep(other, seen)
        return found

    def consumers(self, reading: Reading) -> bool:
        """Demote the jobs whose outputs a job needs before its first step, or that are set although no step ran."""
        found = False
        job = reading.job
        for use in job.references:
            other = self.readings.get(getattr(self.workflow.job(use.job), "id", ""))
            if other is None or use.part != "outputs" or not self.asks(other):
                continue
            if use.where[0] in _FIXED_EARLY:
                message = f"'{job.id}' takes {expressions.show(use.node)} for '{use.where[0]}', which would be empty"
                found |= self.keep(other, self.problem(use.scalar, message))
            elif not reading.split.implied:
                outputs = other.job.node.get("outputs")
                value = outputs.get(use.output) if isinstance(outputs, Pairs) else None
                plain = r"\s*\$\{\{\s*steps\.[\w-]+\.outputs\.[\w-]+\s*\}\}\s*"
                if value is not None and not (isinstance(value, Scalar) and re.fullmatch(plain, value.value)):
                    message = f"'{job.id}' reads {expressions.show(use.node)}, which would be set where it was empty"
                    found |= self.keep(other, self.problem(use.scalar, message))
        return found

    def keep(self, reading: Reading, seen: Problem) -> bool:
        """A job must go on being skipped: so do those through which it would be guarded."""
        message = f"'{reading.job.id}' stays as it is: {seen.message}"
        changed = False
        sources = [reading] if reading.split.asks or reading.texts else []
        if reading.split.implied:
            sources += [other for _, other in self.inherited(reading)]
        for source in sources:
            if not source.faults:
                named = message if source is reading else f"'{source.job.id}' stays as it is: {seen.message}"
                source.faults.append(Problem(seen.at, named))
                changed = True
        return changed

    # ---- the outcome

    def guard(self, reading: Reading, kept: set[str]) -> Guard | None:
        """What a job becomes. kept: the gates that stay."""
        asks = self.asks(reading)
        if reading.faults and not asks:
            return None
        if not asks and not reading.meets:
            return None
        texts = () if reading.faults else tuple(reading.texts)
        questions = dict.fromkeys(question for formula in asks for question in formula.questions())
        questions.update(dict.fromkeys(swap.question for swap in texts if swap.question is not None))
        named = _named(list(questions))
        ids = {question: name for name, question in named.items()}
        tests = expressions.joined([formula.shown(ids) for formula in asks]) if asks else None
        if reading.faults:
            own = self.written(reading.job)
            return Guard(reading.job, named, tests, own, own_changed=False, dropped=frozenset(), texts=())
        dropped, split = reading.meets, reading.split
        if not split.asks and not texts and kept & dropped:
            # What only waits for a gate, and looks at how it ended, goes on looking while the gate stays.
            dropped -= kept
            split = self.reader.split(reading.job, dropped)
            if not dropped and not asks:
                return None
        texts = (*self.reader.results(reading.job, dropped), *texts)
        return Guard(reading.job, named, tests, split.own, split.changed, dropped, texts)

    def written(self, job: Job) -> str | None:
        return expressions.condition(job.condition.value.strip()).expression if job.condition else None

    def warnings(self, guard: Guard) -> list[Problem]:
        """What a guarded job does although nothing is touched."""
        if not guard.questions:
            return []
        job = guard.job
        found = []
        for key, what in _BEFORE_THE_GATE.items():
            node = job.node.get(key)
            if node is not None:
                found.append(self.problem(node, f"'{job.id}' {what}"))
        runner = job.node.get("runs-on")
        labels = [scalar.value for _, scalar in scalars(runner)] if runner is not None else []
        if runner is not None and not all(map(_PLENTY.fullmatch, labels)):
            waits = f"'{job.id}' waits in the queue of {words(f'`{label}`' for label in labels)} before the gate answers"
            found.append(self.problem(runner, waits, "a gate in front would spare it that"))
        permissions = job.node.get("permissions") or self.workflow.root.get("permissions")
        allowed = permissions.get("contents") if isinstance(permissions, Pairs) else None
        if isinstance(permissions, Pairs) and getattr(allowed, "value", "none") == "none":
            found.append(self.problem(permissions, f"'{job.id}' may not read the repository: the gate needs `contents: read`"))
        if runner_system(job) == "unknown":
            node = job.node.get("runs-on") or job.key
            found.append(
                self.problem(node, f"'{job.id}': where it runs is known only to the run; on Windows all of it would run")
            )
        return found


def _named(questions: list[Question]) -> dict[str, Question]:
    if len(questions) == 1:
        return {"touchgate": questions[0]}
    named: dict[str, Question] = {}
    for question in questions:
        wish = "touchgate-" + re.sub(
            r"[^A-Za-z0-9_-]+", "-", "-".join(question.lanes) or ("paths" if question.workflow else "any")
        )
        name, count = wish, 2
        while name in named:
            name, count = f"{wish}-{count}", count + 1
        named[name] = question
    return named


def _sorted(problems: list[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(set(problems), key=lambda problem: (problem.at, problem.message)))

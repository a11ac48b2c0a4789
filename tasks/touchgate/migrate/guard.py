"""Decides which jobs of a workflow can be guarded, with what, and which gate jobs can go.

A guarded job succeeds where it was skipped before. So what waited for it, and was skipped with it, is guarded as well;
and what looks at its result must not mind. Where that does not hold the job keeps its gate, and is listed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from touchgate.gate.located import Problem, words
from touchgate.migrate import expressions, formulas
from touchgate.migrate.expressions import Unreadable
from touchgate.migrate.formulas import Formula, Unsafe
from touchgate.migrate.jobs import Job, Reference, Workflow, runner_system, uses
from touchgate.migrate.tree import Node, Pairs, Scalar, resolved

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
_KNOWS_SKIPPED = re.compile(r"re-actors/alls-green(@.*)?")
"""Actions that take all of `needs`, and hold a job that succeeded for no worse than one that was skipped."""


@dataclass(frozen=True)
class Guard:
    """What a job becomes.

    questions: the id of each new first step -> what it asks. tests: what every later step must test. own: the job's
    condition, None for none; own_changed: whether that differs from what is written. dropped: the gates that it no
    longer needs. texts: uses of a gate's output in a step, and the question in their stead.
    """

    job: Job
    questions: Mapping[str, Question]
    tests: str | None
    own: str | None
    own_changed: bool
    dropped: frozenset[str]
    texts: tuple[tuple[Reference, Question], ...]

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


@dataclass
class _Reading:
    """One job by itself: its condition split, the uses of outputs in its steps, and what stands against a change."""

    job: Job
    split: formulas.Split = field(default_factory=lambda: formulas.Split(None, (), changed=False, implied=True))
    texts: list[tuple[Reference, Question]] = field(default_factory=list)
    faults: list[Problem] = field(default_factory=list)
    meets: frozenset[str] = frozenset()
    """The gates that it needs or refers to."""


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
        self.readings = {name: self.read(job) for name, job in workflow.jobs.items() if name not in self.gates}
        for name, problem in refused.items():
            if name in self.readings:
                self.readings[name].faults.append(problem)

    def problem(self, node: Node, message: str, hint: str | None = None) -> Problem:
        return Problem(self.text.at(node.start), message, hint)

    def outside(self, gate: Gate) -> list[Problem]:
        """Uses of a gate's outputs outside the jobs: what the workflow hands to its caller."""
        from touchgate.migrate.jobs import scalars  # noqa: PLC0415

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

    # ---- one job by itself

    def read(self, job: Job) -> _Reading:
        reading = _Reading(job)
        names = {name.lower(): name for name in self.gates}
        met = {use.job.lower() for use in job.references} | {need.lower() for need in job.needs}
        reading.meets = frozenset(names[name] for name in met if name in names)
        try:
            reading.split = self.split(job, reading.meets)
        except (Unsafe, Unreadable) as fault:
            if reading.meets:
                reading.faults.append(self.fault(job, job.condition or job.key, fault))
            reading.split = formulas.Split(None, (), changed=False, implied=_implied(job))
        if not reading.meets:
            return reading
        for scalar, why in (found for found in job.unreadable if found[0] is not job.condition):
            reading.faults.append(self.problem(scalar, f"'{job.id}': an expression with `needs` can't be read: {why}"))
        for use in job.references:
            if use.where != ("if",) or use.job == "*":
                self.use(reading, use)
        return reading

    def fault(self, job: Job, node: Node, fault: Exception) -> Problem:
        if isinstance(fault, Unsafe):
            if fault.problem is not None:
                return fault.problem
            return self.problem(node, f"'{job.id}': {fault.message}", fault.hint)
        return self.problem(node, f"'{job.id}': this condition can't be read: {fault}")

    def split(self, job: Job, meets: frozenset[str]) -> formulas.Split:
        text = expressions.condition(_unbroken(job.condition)).expression if job.condition else None
        further = []
        for name in job.needs:
            gate = self.workflow.job(name)
            if gate is not None and gate.id in meets and gate.condition is not None:
                own = expressions.condition(_unbroken(gate.condition)).expression
                if expressions.has_status(expressions.parse(own)):
                    raise Unsafe(f"the gate job '{gate.id}' has a status function in its `if:`")
                further.append(own)
        gates = {name: gate for name, gate in self.gates.items() if name in meets}
        return formulas.split(text, gates, expressions.joined(further) if further else None)

    def use(self, reading: _Reading, use: Reference) -> None:
        """A use of `needs` elsewhere than in the job's condition."""
        job = reading.job
        place = ".".join(part for part in use.where if not part.isdigit()) or use.where[0]
        gate = self.gates.get(next((name for name in self.gates if name.lower() == use.job.lower()), ""))
        if use.job == "*":
            if not self.knows_skipped(use) and (use.part != "result" or formulas.minds_removal(use.root)):
                fault = f"'{job.id}' takes all of `needs` in '{place}', where the gate's result would be missing"
                reading.faults.append(self.problem(use.scalar, fault))
        elif gate is None:
            return
        elif use.part != "outputs":
            reading.faults.append(
                self.problem(use.scalar, f"'{job.id}' uses the gate job's {use.part or 'data'} in '{place}'")
            )
        elif not use.in_steps or not use.output:
            fault = f"'{job.id}' uses {expressions.show(use.node)} in '{place}', which is settled before any step runs"
            reading.faults.append(self.problem(use.scalar, fault))
        else:
            try:
                decision = formulas.decision_of(gate, use.output)
                if use.is_condition:
                    _only_positive(use, self.gates)
                else:
                    _only_words(use, others=decision.inverted or decision.words != "both")
                reading.texts.append((use, decision.question))
            except Unsafe as fault:
                reading.faults.append(self.fault(job, use.scalar, fault))

    def knows_skipped(self, use: Reference) -> bool:
        """Whether what takes all of `needs` is an action that does not mind."""
        if use.where[:1] != ("steps",) or not use.where[1].isdigit():
            return False
        steps = use_steps(self.workflow, use)
        return bool(steps and _KNOWS_SKIPPED.fullmatch(steps))

    # ---- all jobs together

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

    def asks(self, reading: _Reading) -> tuple[Formula, ...]:
        """What all steps of a job must test: its own questions, and those of the jobs that it would be skipped with."""
        found: dict[Formula, None] = dict.fromkeys(() if reading.faults else reading.split.asks)
        if reading.split.implied:
            for formula, _ in self.inherited(reading):
                found.setdefault(formula)
        return tuple(found)

    def inherited(self, reading: _Reading) -> list[tuple[Formula, _Reading]]:
        before = self.workflow.ancestors(reading.job)
        ordered = [other for name, other in self.readings.items() if name in before and not other.faults]
        return [(formula, other) for other in ordered for formula in other.split.asks]

    def demote(self) -> bool:
        """Find jobs that can't change after all; whether there were any."""
        found = False
        for reading in self.readings.values():
            asks = self.asks(reading)
            if asks or (reading.texts and not reading.faults):
                why = self.unguardable(reading, asks)
                if why is not None:
                    found |= self.blame(reading, why)
            if not reading.split.implied:
                found |= self.onlookers(reading)
            found |= self.consumers(reading)
        return found

    def blame(self, reading: _Reading, why: Problem) -> bool:
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

    def unguardable(self, reading: _Reading, asks: tuple[Formula, ...]) -> Problem | None:
        """Why a job can't gate itself."""
        job = reading.job
        message = self.misshapen(job)
        if message is not None:
            return self.problem(job.key, f"'{job.id}': {message}")
        if runner_system(job) == "windows" and not self.asked.windows:
            message = f"'{job.id}' runs on Windows, where the gate lets everything run"
            return self.problem(job.node.get("runs-on") or job.key, message, "--windows guards it")
        return self.unreadable_step(job) or self.out_of_reach(job, asks)

    def misshapen(self, job: Job) -> str | None:
        """What about the way a job is written leaves no room for a first step."""
        steps = job.node.own("steps")
        if job.node.get("uses") is not None:
            return "it calls a workflow and has no steps of its own"
        if not job.steps or len(job.steps) != len(getattr(job.node.get("steps"), "items", ())):
            return "it has no steps, or one that is no mapping"
        if steps is None:
            return "its steps come through a merge key"
        if job.node.flow or getattr(resolved(steps[1]), "flow", False):
            return "it is written in braces or brackets"
        return None

    def unreadable_step(self, job: Job) -> Problem | None:
        for step in job.steps:
            name = step.get("id")
            if isinstance(name, Scalar) and name.value.lower().startswith("touchgate"):
                return self.problem(name, f"'{job.id}' has a step '{name.value}' already")
            written = step.get("if")
            if written is None:
                continue
            try:
                taken = expressions.condition(_unbroken(written))
                if taken.expression:
                    expressions.parse(taken.expression)
            except Unreadable as fault:
                return self.problem(written, f"'{job.id}': the condition of a step can't be read: {fault}")
        return None

    def out_of_reach(self, job: Job, asks: tuple[Formula, ...]) -> Problem | None:
        """What an inherited condition speaks of, and the job doesn't need."""
        needs = {name.lower() for name in job.needs}
        for text in (text for formula in asks for text in _others(formula)):
            for node, (used, _, _) in uses(expressions.parse(text)):
                if used.lower() not in needs:
                    message = f"'{job.id}' would have to test {expressions.show(node)}, which it doesn't need"
                    return self.problem(job.key, message)
        return None

    def onlookers(self, reading: _Reading) -> bool:
        """Demote the jobs whose being skipped a job that runs anyhow looks at."""
        found = False
        before = self.workflow.ancestors(reading.job)
        for name, other in self.readings.items():
            if name not in before or not self.asks(other):
                continue
            seen = self.minding(reading.job, other.job)
            if seen is not None:
                found |= self.keep(other, seen)
        return found

    def minding(self, job: Job, other: Job) -> Problem | None:
        """Where a job would notice that another one succeeds in place of being skipped."""
        if job.condition is not None:
            try:
                root = expressions.parse(expressions.condition(job.condition.value.strip()).expression)
            except Unreadable as fault:
                return self.problem(job.condition, f"'{job.id}': this condition can't be read: {fault}")
            success = [node for node in expressions.walk(root) if node.kind == "call" and node.value == "success"]
            if success:
                return self.problem(job.condition, f"'{job.id}' tests success(), which a skipped '{other.id}' makes false")
        for use in job.references:
            if use.job.lower() not in (other.id.lower(), "*") or use.part == "outputs" or self.knows_skipped(use):
                continue
            if use.job == "*" and other.id not in job.needs:
                continue
            minds = formulas.minds_success(use.root, other.id) if use.is_condition else not _neutral(use, other.id)
            if minds:
                what = expressions.show(use.node)
                return self.problem(use.scalar, f"'{job.id}' looks at {what}: a skipped '{other.id}' would be success")
        return None

    def consumers(self, reading: _Reading) -> bool:
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

    def keep(self, reading: _Reading, seen: Problem) -> bool:
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

    def guard(self, reading: _Reading, kept: set[str]) -> Guard | None:
        """What a job becomes. kept: the gates that stay."""
        asks = self.asks(reading)
        if reading.faults and not asks:
            return None
        if not asks and not reading.meets:
            return None
        texts = () if reading.faults else tuple(reading.texts)
        questions = dict.fromkeys(question for formula in asks for question in formula.questions())
        questions.update(dict.fromkeys(question for _, question in texts))
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
            split = self.split(reading.job, dropped)
            if not dropped and not asks:
                return None
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


def _implied(job: Job) -> bool:
    """Whether a job runs only where all jobs before it succeeded; no, where its condition can't be read."""
    if job.condition is None:
        return True
    try:
        root = expressions.parse(expressions.condition(job.condition.value.strip()).expression)
    except Unreadable:
        return False
    statuses = [part for part in expressions.conjuncts(root) if expressions.has_status(part)]
    return all(expressions.bare(part).kind == "call" and expressions.bare(part).value == "success" for part in statuses)


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


def _only_positive(use: Reference, gates: Mapping[str, Gate]) -> None:
    """Refuse a step's condition that runs the step where nothing is touched."""
    for part in expressions.conjuncts(use.root):
        if formulas.mentions(part, gates):
            formulas.formula(part, gates, positive=True)


def _only_words(use: Reference, *, others: bool) -> None:
    """Refuse a text that says something else than touchgate's "true" or "false"."""
    if others:
        raise Unsafe(f"the text of {expressions.show(use.node)} is used, and touchgate's may differ")


def _others(formula: Formula) -> list[str]:
    return ([formula.text] if formula.kind == "other" else []) + [text for part in formula.parts for text in _others(part)]


def _unbroken(written: Node) -> str:
    """The text of a condition. Raises Unreadable where it is none, or the line break at its end makes it always true."""
    if not isinstance(written, Scalar):
        raise Unreadable("it is no text")
    if "${{" in written.value and written.value.endswith("\n"):
        raise Unreadable("a line break behind `${{ }}` makes it always true")
    if "${{" in written.value and written.value != written.value.strip():
        raise Unreadable("a blank around `${{ }}` makes it always true")
    return written.value.strip()


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

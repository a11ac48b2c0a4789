"""Finds the gate jobs of a workflow, and reads what each of them decides."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from touchgate.gate import located
from touchgate.gate.located import Problem
from touchgate.migrate import expressions, filters
from touchgate.migrate.gates import Decision, Gate, Question, Undecided
from touchgate.migrate.jobs import scalars
from touchgate.migrate.tools import CALL, Tools
from touchgate.migrate.tree import Node, Pairs, Scalar, resolved

if TYPE_CHECKING:
    from touchgate.migrate.gates import Asked, NewLanes, Surroundings
    from touchgate.migrate.jobs import Job, Workflow

_ACTION = re.compile(r"(?P<name>[^@]+?)/?(@.*)?")
_HELPERS = re.compile(r"actions/(checkout|setup-[a-z]+|cache)|[\w.-]+/setup-[\w-]+|actions/create-github-app-token")
_ALONE = r"(?:\$\(git |\$(?!\()|>&|[^;&|`$])*"
"""The rest of a line that holds no second command, but for what git prints."""
_HARMLESS = re.compile(
    rf"\s*(#.*|set [-+][\w ]+|echo {_ALONE}|git (fetch|config|log|status|rev-parse|diff|merge-base)\b{_ALONE}|"
    rf"(python3? -m )?(pip|pipx|uv) {_ALONE}|)\s*"
)
_APPROVED = {"environment": "asks for an environment, and its approval", "concurrency": "takes part in a concurrency group"}
"""Keys of a gate job that decide about more than its own steps."""
_OUTPUT_OF = re.compile(
    r"steps\.(?P<step>[A-Za-z_][\w-]*)\.outputs(?:\.(?P<name>[A-Za-z_][\w-]*)|\['(?P<quoted>[^']+)'\])", re.IGNORECASE
)


def find(workflow: Workflow, asked: Asked, around: Surroundings, lanes: NewLanes) -> dict[str, Gate]:
    """The gate jobs of a workflow by their ids: jobs with a step that decides, whose outputs other jobs test."""
    tested = {
        found.id
        for job in workflow.jobs.values()
        for use in job.references
        if use.part == "outputs" and use.is_condition and (found := workflow.job(use.job)) is not None
    }
    # A condition that can't be read tests the jobs that it names.
    for job in workflow.jobs.values():
        for scalar, _ in job.unreadable:
            named = (workflow.job(name) for name in re.findall(r"needs\.([A-Za-z_][\w-]*)", scalar.value))
            tested |= {found.id for found in named if found is not None}
    gates = {}
    for name in workflow.jobs:
        if name in tested or name in asked.gates:
            gate = _Reader(workflow, workflow.jobs[name], asked, around, lanes).gate()
            if gate is not None:
                gates[name] = gate
    return gates


class _Reader:
    def __init__(self, workflow: Workflow, job: Job, asked: Asked, around: Surroundings, lanes: NewLanes) -> None:
        self.workflow = workflow
        self.text = workflow.text
        self.job = job
        self.asked = asked
        self.around = around
        self.result = Gate(job)
        self.tools = Tools(self.text, around, lanes, self.result.notes)

    def problem(self, node: Node, message: str, hint: str | None = None) -> Problem:
        return Problem(self.text.at(node.start), message, hint)

    def gate(self) -> Gate | None:
        kinds = [self.kind_of(step) for step in self.job.steps]
        if not any(kind in ("dorny", "tj", "touchgate", "script") for kind in kinds) and self.job.id not in self.asked.gates:
            return None
        block = self.result.blocks.append
        name = self.job.id
        if self.job.needs:
            block(self.problem(self.job.key, f"the gate job '{name}' itself needs {located.words(self.job.needs)}"))
        if self.job.node.get("strategy"):
            block(self.problem(self.job.key, f"the gate job '{name}' has a matrix: its outputs are those of one leg"))
        outputs = self.job.node.get("outputs")
        if isinstance(outputs, Pairs):
            for output in outputs.names():
                value = outputs.get(output)
                if isinstance(value, Scalar):
                    self.result.outputs[output] = self.output(output, value)
        if name not in self.asked.gates:
            self.result.blocks += self.more(kinds)
        return self.result

    def more(self, kinds: list[str]) -> list[Problem]:
        """What the gate job may do beside deciding. kinds: those of its steps."""
        name = self.job.id
        hint = f"--gate {name} says that it only decides"
        found = []
        for key, what in _APPROVED.items():
            node = self.job.node.get(key)
            if node is not None:
                found.append(self.problem(node, f"the gate job '{name}' {what}", hint))
        deciding = self.deciding()
        for step, kind in zip(self.job.steps, kinds, strict=True):
            script = _text(step, "run")
            if kind == "more":
                what = _text(step, "uses") or "a script that writes no output"
            elif kind == "script" and _text(step, "id").lower() not in deciding and not _is_harmless(script):
                what = "a script whose output decides nothing"
            else:
                continue
            found.append(self.problem(step, f"'{name}' may do more than decide: {what}", hint))
        return found

    def deciding(self) -> set[str]:
        """The ids of the steps behind the outputs that are understood or used, and of those that these look at."""
        uses = [use for job in self.workflow.jobs.values() for use in job.references if use.part == "outputs"]
        used = {use.output.lower() for use in uses if use.job.lower() == self.job.id.lower()}
        outputs = self.job.node.get("outputs")
        values = [] if not isinstance(outputs, Pairs) else [(name, outputs.get(name)) for name in outputs.names()]
        texts = [
            value.value
            for name, value in values
            if isinstance(value, Scalar) and (name.lower() in used or isinstance(self.result.outputs.get(name), Decision))
        ]
        found: set[str] = set()
        while texts:
            new = {use["step"].lower() for use in _OUTPUT_OF.finditer(texts.pop())} - found
            found |= new
            texts += [
                scalar.value for step in self.job.steps if _text(step, "id").lower() in new for _, scalar in scalars(step)
            ]
        return found

    def kind_of(self, step: Pairs) -> str:
        """What kind of step it is: one of those that decide, "helper" or "more"."""
        uses = _text(step, "uses")
        if uses:
            found = _ACTION.fullmatch(uses)
            name = (found["name"] if found else uses).lower()
            if name == "dorny/paths-filter":
                return "dorny"
            if name == "tj-actions/changed-files":
                return "tj"
            if name.rpartition("/")[2] == "touchgate":
                return "touchgate"
            return "helper" if _HELPERS.fullmatch(name) else "more"
        script = _text(step, "run")
        if "GITHUB_OUTPUT" in script or "set-output" in script or CALL.search(script):
            return "script"
        return "helper" if _is_harmless(script) else "more"

    def output(self, name: str, value: Scalar) -> Decision | Undecided:
        """The question behind one output: the person's word, else what its step asks."""
        said = self.said(name)
        source, output = self.source(value)
        step = source if isinstance(source, Pairs) else None
        kind = self.kind_of(step) if step is not None else ""
        if said is not None:
            question, inverted = said
            words = _words_of(_text(step, "run")) if kind in ("script", "") else "both"
            return Decision(question, inverted=inverted, words=words)
        if isinstance(source, Problem):
            return Undecided(source)
        script = _text(source, "run")
        if (written := source.get("if")) is not None and _text(source, "if").strip() not in ("always()", "${{ always() }}"):
            message = f"output '{name}' is empty where the `if:` of its step does not hold"
            return Undecided(self.problem(written, message, f"say what it asks: --lane {name}=LANE, or --paths {name}"))
        try:
            if kind == "dorny":
                return Decision(self.tools.dorny(source, output))
            if kind == "tj":
                return Decision(self.tools.tj(name, source, output))
            if kind == "touchgate":
                return Decision(self.tools.action(source, output))
            if CALL.search(script):
                return Decision(self.tools.call(script, output, _settings(source)))
        except filters.Untranslatable as fault:
            return Undecided(self.problem(source, f"output '{name}': {fault}"))
        if name in (self.around.lanes or {}):
            return Decision(Question(lanes=(name,)), words=_words_of(script))
        message = f"output '{name}' is decided by a script, which can't be read"
        return Undecided(self.problem(source, message, f"say what it asks: --lane {name}=LANE, or --paths {name}"))

    def said(self, name: str) -> tuple[Question, bool] | None:
        for full in (f"{self.job.id}.{name}", name):
            if full in self.asked.own_paths:
                return Question(workflow=self.workflow.file), False
            if full in self.asked.lanes:
                lane = self.asked.lanes[full]
                return Question(lanes=(lane.removeprefix("!"),)), lane.startswith("!")
        return None

    def source(self, value: Scalar) -> tuple[Pairs | Problem, str]:
        """The step that sets an output, and the name that the output has there."""
        texts = expressions.embedded(value.value)
        found = _OUTPUT_OF.fullmatch(texts[0].strip()) if len(texts) == 1 and value.value.strip().startswith("${{") else None
        if found is None or not value.value.strip().endswith("}}"):
            return self.problem(value, "this output is more than one step's output"), ""
        for step in self.job.steps:
            if _text(step, "id").lower() == found["step"].lower():
                return step, found["name"] or found["quoted"]
        return self.problem(value, f"no step of '{self.job.id}' has the id '{found['step']}'"), ""


def _is_harmless(script: str) -> bool:
    """Whether nothing is lost with a script."""
    return all(_HARMLESS.fullmatch(line) for line in script.splitlines())


def _settings(step: Pairs) -> dict[str, str]:
    """The variables that a step sets."""
    found = step.get("env")
    values = {name: found.get(name) for name in found.names()} if isinstance(found, Pairs) else {}
    return {name: value.value for name, value in values.items() if isinstance(value, Scalar)}


def _words_of(script: str) -> str:
    """What a script seems to write for its answer, as in `Decision.words`."""
    if "true" not in script:
        return "unknown"
    return "both" if "false" in script else "one"


def _text(step: Pairs | None, key: str) -> str:
    found = step.get(key) if step is not None else None
    found = resolved(found) if found is not None else None
    return found.value if isinstance(found, Scalar) else ""

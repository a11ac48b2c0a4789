"""Finds the gate jobs of a workflow, and reads what each of them decides."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePosixPath
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


_LONGEST = 60
_KNOWN = ("dorny", "tj", "touchgate")
"""Kinds of steps that decide and do nothing else."""


def shaped(workflow: Workflow, asked: frozenset[str] = frozenset()) -> dict[str, list[str]]:
    """The jobs with the shape of a gate job -> who tests their outputs in an `if:`. asked: ids that count in any case.

    Tools that only decide make a gate job of any job whose outputs are used at all.
    """
    found: dict[str, list[str]] = {name: [] for name in workflow.jobs if name in asked}
    for job in workflow.jobs.values():
        # A condition that can't be read tests the jobs that it names.
        texts = [scalar.value for scalar, _ in job.unreadable]
        names = [name for text in texts for name in re.findall(r"needs\.([A-Za-z_][\w-]*)", text)]
        names += [
            use.job for use in job.references if use.part == "outputs" and (use.is_condition or _knows(workflow, use.job))
        ]
        for name in names:
            other = workflow.job(name)
            if other is not None and job.id not in found.setdefault(other.id, []):
                found[other.id].append(job.id)
    return found


def _knows(workflow: Workflow, name: str) -> bool:
    job = workflow.job(name)
    return job is not None and any(_kind_of(step) in _KNOWN for step in job.steps)


def outputs_of(workflow: Workflow, job: Job) -> list[str]:
    """The names of a job's outputs: those that it declares; of a job that calls a workflow, those that are used."""
    declared = job.node.get("outputs")
    if isinstance(declared, Pairs):
        return declared.names()
    if job.node.get("uses") is None:
        return []
    uses = [use for other in workflow.jobs.values() for use in other.references if use.part == "outputs" and use.output]
    names = [use.output for use in uses if use.job.lower() == job.id.lower()]
    return list({name.lower(): name for name in reversed(names)}.values())[::-1]


def has_paths(workflow: Workflow) -> bool:
    """Whether the workflow has path lists of its own."""
    on = workflow.root.get("on")
    events = [on.get(name) for name in on.names()] if isinstance(on, Pairs) else []
    return any(isinstance(event, Pairs) and {"paths", "paths-ignore"} & set(event.names()) for event in events)


def find(workflow: Workflow, asked: Asked, around: Surroundings, lanes: NewLanes) -> dict[str, Gate]:
    """The gate jobs of a workflow by their ids, those included that can't be read."""
    testers = shaped(workflow, asked.gates)
    outputs = Counter(output.lower() for name in testers for output in outputs_of(workflow, workflow.jobs[name]))
    several = frozenset(output for output, count in outputs.items() if count > 1)
    return {
        name: _Reader(workflow, job, asked, around, lanes, several).gate(testers[name])
        for name, job in workflow.jobs.items()
        if name in testers
    }


class _Reader:
    """several: outputs, in small letters, that more than one gate job has."""

    def __init__(
        self, workflow: Workflow, job: Job, asked: Asked, around: Surroundings, lanes: NewLanes, several: frozenset[str]
    ) -> None:
        self.workflow = workflow
        self.text = workflow.text
        self.job = job
        self.asked = asked
        self.around = around
        self.several = several
        self.result = Gate(job)
        self.tools = Tools(self.text, around, lanes, self.result.notes)

    def problem(self, node: Node, message: str, hint: str | None = None) -> Problem:
        return Problem(self.text.at(node.start), message, hint)

    def gate(self, testers: list[str]) -> Gate:
        """The gate job. testers: the jobs that test its outputs."""
        name = self.job.id
        declared = self.job.node.get("outputs")
        for output in outputs_of(self.workflow, self.job):
            value = declared.get(output) if isinstance(declared, Pairs) else self.job.node.get("uses")
            if isinstance(value, Scalar):
                self.result.outputs[output] = self.output(output, value)
        blocks = self.result.blocks
        if name not in self.asked.gates and not self.is_known() and not any(map(self.said, self.result.outputs)):
            blocks.append(self.unread(testers))
            return self.result
        if self.job.needs:
            blocks.append(self.problem(self.job.key, f"the gate job '{name}' itself needs {located.words(self.job.needs)}"))
        if self.job.node.get("strategy"):
            blocks.append(self.problem(self.job.key, f"the gate job '{name}' has a matrix: its outputs are those of one leg"))
        if name not in self.asked.gates:
            blocks += self.more()
        return self.result

    def is_known(self) -> bool:
        """Whether a step of a kind that is understood, or a script in the workflow, is behind its outputs."""
        deciding = self.deciding()
        kinds = {_kind_of(step) for step in self.job.steps if _text(step, "id").lower() in deciding}
        return bool(kinds & {*_KNOWN, "script"})

    @property
    def file(self) -> str:
        """The workflow's name, as an option has it; its path where another one has the name."""
        return self.workflow.file if self.around.same_name else PurePosixPath(self.workflow.file).name

    def spelt(self, output: str) -> str:
        """An output, as an option has it."""
        return f"{self.file}:{f'{self.job.id}.' if output.lower() in self.several else ''}{output}"

    def unread(self, testers: list[str]) -> Problem:
        """Why a job with the shape of a gate job is left alone where nothing is known of how it decides."""
        name = self.job.id
        uses = [use for job in self.workflow.jobs.values() for use in job.references if use.part == "outputs"]
        used = list(dict.fromkeys(use.output for use in uses if use.job.lower() == name.lower() and use.output))
        tests = (
            f"{located.words(map(repr, testers))} {'tests' if len(testers) == 1 else 'test'}" if testers else "nobody tests"
        )
        outputs = located.words(f"'{output}'" for output in used) if used else "none"
        shape = f"'{name}' has the shape of a gate job ({tests} its output{'s' * (len(used) > 1)} {outputs})"
        declared = outputs_of(self.workflow, self.job)
        missing = [output for output in used if output.lower() not in map(str.lower, declared)]
        if missing:
            message = f"{shape}, and has no output {located.words(map(repr, missing))}, so that it is always empty"
            hint = located.did_you_mean(missing[0], declared) or f"add it to the `outputs` of '{name}', or mend the condition"
            return self.problem(self.job.key, message, hint)
        lanes = " ".join(f"--lane {self.spelt(output)}=LANE" for output in used)
        if (called := self.job.node.get("uses")) is not None:
            hint = f"{lanes} says what it asks, with --gate {self.file}:{name} where the workflow does nothing else"
            return self.problem(called, f"{shape}, and calls a workflow that may do more than decide", hint)
        stays = "it has a matrix itself, so it stays" if self.job.node.get("strategy") else None
        stays = f"it needs {located.words(self.job.needs)} itself, so it stays" if self.job.needs else stays
        deciding = self.deciding()
        if work := self.work(deciding, deciding):
            step, what = work[0]
            hint = "what works stays, and can have a gate of its own"
            if not stays:
                hint += f"; where all of it only serves the decision: --gate {self.file}:{name} {lanes}"
            return self.problem(step, f"{shape}, and works beside: {what}", hint)
        behind = next((step for step in self.job.steps if _text(step, "id").lower() in deciding), None)
        if behind is None:
            return self.problem(self.job.key, f"{shape}, and none of its steps is behind them")
        hint = stays or f"{lanes} says what it asks"
        return self.problem(behind, f"{shape}, and what {_called(behind)} decides can't be read", hint)

    def more(self) -> list[Problem]:
        """What the gate job may do beside deciding."""
        name = self.job.id
        hint = f"where that only serves the decision, --gate {self.file}:{name} says so; work needs a job of its own"
        found = []
        for key, what in _APPROVED.items():
            node = self.job.node.get(key)
            if node is not None:
                found.append(self.problem(node, f"the gate job '{name}' {what}", hint))
        if (called := self.job.node.get("uses")) is not None:
            found.append(self.problem(called, f"'{name}' may do more than decide: it calls a workflow", hint))
        vouched = self.vouched()
        for step in self.job.steps:
            if _kind_of(step) == "more" and _text(step, "id").lower() in vouched:
                self.tools.note(self.problem(step, f"{_called(step)} goes with the gate job '{name}'; nothing of it was read"))
        work = self.work(self.deciding(), vouched)
        return found + [self.problem(step, f"'{name}' may do more than decide: {what}", hint) for step, what in work]

    def work(self, deciding: set[str], vouched: set[str]) -> list[tuple[Pairs, str]]:
        """The steps that may do more than decide, and what they are. deciding: ids of scripts that don't; vouched: of any."""
        found = []
        for step in self.job.steps:
            kind, name = _kind_of(step), _text(step, "id").lower()
            if kind == "more" and name not in vouched:
                found.append((step, _text(step, "uses") or "a script that writes no output"))
            elif kind == "script" and name not in deciding and not _is_harmless(_text(step, "run")):
                found.append((step, "a script whose output decides nothing"))
        return found

    def vouched(self) -> set[str]:
        """The ids of the steps behind the outputs whose meaning the person says."""
        declared = self.job.node.get("outputs")
        if not isinstance(declared, Pairs):
            return set()
        values = [declared.get(name) for name in declared.names() if self.said(name)]
        texts = [value.value for value in values if isinstance(value, Scalar)]
        return {use["step"].lower() for text in texts for use in _OUTPUT_OF.finditer(text)}

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

    def output(self, name: str, value: Scalar) -> Decision | Undecided:
        """The question behind one output: the person's word, else what its step asks."""
        said = self.said(name)
        source, output = self.source(name, value)
        step = source if isinstance(source, Pairs) else None
        kind = _kind_of(step) if step is not None else ""
        if said is not None and (also := _also(value.value)):
            message = f"output '{name}' asks for `{also}` as well, which no lane says"
            return Undecided(self.problem(value, message, "that belongs into the `if:` of the jobs"))
        if said is not None:
            question, inverted = said
            words = "both" if kind in _KNOWN else _words_of(_text(step, "run"))
            means = f"the lane '{question.lanes[0]}'" if question.lanes else "the workflow's own paths"
            message = f"output '{name}' asks for {means} now, as was said, in place of what its steps decide"
            self.tools.note(self.problem(value, message))
            return Decision(question, inverted=inverted, words=words)
        if isinstance(source, Problem):
            return Undecided(source)
        script = _text(source, "run")
        if (written := source.get("if")) is not None and _text(source, "if").strip() not in ("always()", "${{ always() }}"):
            message = f"output '{name}' is empty where the `if:` of its step does not hold"
            return Undecided(self.problem(written, message, f"say what it asks: {self.option(name)}"))
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
            instead = "or say" if ";" in str(fault) else "say"
            message = f"output '{name}': {fault}"
            return Undecided(self.problem(source, message, f"{instead} what it asks: {self.option(name)}"))
        what = "a script" if script else _called(source)
        message = f"output '{name}' is decided by {what}, which can't be read"
        return Undecided(self.problem(source, message, f"say what it asks: {self.option(name)}"))

    def option(self, name: str) -> str:
        """What says the meaning of an output, on the command line. A lane of that name is only a guess, so it is shown."""
        lane = name if name in (self.around.lanes or {}) else "LANE"
        own = f", or --paths {self.spelt(name)}" if has_paths(self.workflow) else ""
        return f"--lane {self.spelt(name)}={lane}{own}"

    def said(self, name: str) -> tuple[Question, bool] | None:
        for full in (f"{self.job.id}.{name}", name):
            if full in self.asked.own_paths:
                return Question(workflow=self.workflow.file), False
            if full in self.asked.lanes:
                lane = self.asked.lanes[full]
                return Question(lanes=(lane.removeprefix("!"),)), lane.startswith("!")
        return None

    def source(self, name: str, value: Scalar) -> tuple[Pairs | Problem, str]:
        """The step that sets an output, and the name that the output has there."""
        texts = expressions.embedded(value.value)
        found = _OUTPUT_OF.fullmatch(texts[0].strip()) if len(texts) == 1 and value.value.strip().startswith("${{") else None
        if found is None or not value.value.strip().endswith("}}"):
            hint = None if _also(value.value) else f"say what it asks: {self.option(name)}"
            return self.problem(value, "this output is more than one step's output", hint), ""
        for step in self.job.steps:
            if _text(step, "id").lower() == found["step"].lower():
                return step, found["name"] or found["quoted"]
        return self.problem(value, f"no step of '{self.job.id}' has the id '{found['step']}'"), ""


def _kind_of(step: Pairs) -> str:
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


def asks_touchgate(step: Pairs) -> bool:
    """Whether a step is one that asks touchgate, of this command or of a person."""
    return _kind_of(step) == "touchgate" or _text(step, "id").lower().startswith("touchgate")


def _called(step: Pairs) -> str:
    """What a step runs, in a few words."""
    lines = [line.strip() for line in _text(step, "run").splitlines() if line.strip() and not line.lstrip().startswith("#")]
    text = _text(step, "uses") or (lines[0] if lines else "")
    return f"`{text if len(text) <= _LONGEST else text[:_LONGEST].rstrip() + ' ...'}`"


def _is_harmless(script: str) -> bool:
    """Whether nothing is lost with a script."""
    return all(_HARMLESS.fullmatch(line) for line in script.splitlines())


def _also(value: str) -> str:
    """What an output takes from elsewhere than the outputs of steps; "" for nothing."""
    for text in expressions.embedded(value):
        try:
            root = expressions.parse(text)
        except expressions.Unreadable:
            return text.strip()
        for node in expressions.walk(root):
            if node.kind == "name" and str(node.value).lower() != "steps":
                return expressions.show(root)
    return ""


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

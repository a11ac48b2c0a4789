"""What a gate job decides: for each of its outputs the question that a touchgate step is to ask instead."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from touchgate.gate import located
from touchgate.gate.check_declarations import NAME
from touchgate.gate.located import Problem
from touchgate.migrate import expressions, filters
from touchgate.migrate.expressions import Unreadable
from touchgate.migrate.jobs import scalars
from touchgate.migrate.tree import Node, Pairs, Scalar, Text, data, resolved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from touchgate.migrate.jobs import Job, Workflow


@dataclass(frozen=True)
class Question:
    """What a step asks: whether the workflow's own list (`workflow`) or any of the lanes is touched; none: any at all."""

    workflow: str = ""
    lanes: tuple[str, ...] = ()
    suite: str = ""
    base: str = ""
    head: str = ""

    def or_(self, other: Question) -> Question | None:
        """Both as one question; None where no single one says it."""
        if self == other:
            return self
        if not self.lanes or not other.lanes or replace(self, lanes=()) != replace(other, lanes=()):
            return None
        return replace(self, lanes=tuple(dict.fromkeys([*self.lanes, *other.lanes])))


@dataclass(frozen=True)
class Decision:
    """What an output means. inverted: "true" says untouched.

    words: what it is written as: "both" ("true" or "false"), "one" ("true" or nothing) or "unknown".
    """

    question: Question
    inverted: bool = False
    words: str = "both"


@dataclass(frozen=True)
class Undecided:
    """Why an output can't be mapped, and where it is written."""

    problem: Problem


@dataclass
class Gate:
    """A job that decides. blocks: why it can't go, nor anything that asks it. notes: what will differ."""

    job: Job
    outputs: dict[str, Decision | Undecided] = field(default_factory=dict)
    blocks: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)

    def output(self, name: str) -> Decision | Undecided | None:
        """The output of this name, in whatever case it is written."""
        return next((found for key, found in self.outputs.items() if key.lower() == name.lower()), None)


@dataclass(frozen=True)
class Asked:
    """What the person said. lanes: output ("job.output" or "output") -> lane, `!` before it where the output is inverted.

    own_paths: outputs that the workflow's own list answers. gates: jobs that only decide, whatever their steps are.
    """

    lanes: Mapping[str, str] = field(default_factory=dict)
    own_paths: frozenset[str] = frozenset()
    gates: frozenset[str] = frozenset()
    windows: bool = False


@dataclass(frozen=True)
class Surroundings:
    """What lies around the workflow. lanes: name -> patterns of every declared lane; None: they can't be read.

    read: the text of another file of the repository. submodules: their paths.
    """

    lanes: Mapping[str, tuple[str, ...]] | None = field(default_factory=dict)
    read: Callable[[str], str | None] = lambda _: None
    submodules: frozenset[str] = frozenset()


@dataclass
class NewLanes:
    """The lanes that a workflow's filters become. added: name -> (patterns, where the filter stands)."""

    stem: str
    known: Mapping[str, tuple[str, ...]] | None
    added: dict[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)

    def name_for(self, wish: str, patterns: tuple[str, ...], where: str) -> str:
        """The lane with these patterns: one that is there under this name or one that ends in it, else a new one."""
        if self.known is None:
            raise filters.Untranslatable("the lanes of tasks/*.yml can't be read: see `doit lanes check`")
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", wish)
        there_are = {**self.known, **{name: lane[0] for name, lane in self.added.items()}}
        equal = [name for name, lane in there_are.items() if lane == patterns and name.endswith(f"-{plain}")]
        for name in (plain, *equal, f"{self.stem}-{plain}"):
            there = there_are.get(name)
            if not re.fullmatch(NAME, name) or (there is not None and there != patterns):
                continue
            if there is None:
                self.added[name] = (patterns, where)
            return name
        raise filters.Untranslatable(f"lanes named '{plain}' and '{self.stem}-{plain}' exist with other paths")


_ACTION = re.compile(r"(?P<name>[^@]+?)/?(@.*)?")
_HELPERS = re.compile(r"actions/(checkout|setup-[a-z]+|cache)|[\w.-]+/setup-[\w-]+|actions/create-github-app-token")
_CALL = re.compile(r"(?<![\w./-])(?:[\w./-]*/)?touchgate(?:\.pyz)?\s+gate(?P<rest>[^\n;&|]*)")
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
        self.lanes = lanes
        self.result = Gate(job)

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
        if "GITHUB_OUTPUT" in script or "set-output" in script or _CALL.search(script):
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
                return Decision(self.dorny(source, output))
            if kind == "tj":
                return Decision(self.tj(name, source, output))
            if kind == "touchgate":
                return Decision(self.action(source, output))
            if _CALL.search(script):
                return Decision(self.call(script, output, _settings(source)))
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

    # ---- the tools

    def lane(self, wish: str, patterns: list[str], node: Node, *, every: bool = False) -> Question:
        if not patterns:
            raise filters.Untranslatable(f"'{wish}' has no patterns")
        said = filters.translated(patterns, every=every)
        heads = [text.removesuffix("/**") for text in said if text.endswith("/**")]
        said += [head for head in heads if head in self.around.submodules and not head.startswith("!")]
        name = self.lanes.name_for(wish, tuple(dict.fromkeys(said)), str(self.text.at(node.start)))
        return Question(lanes=(name,))

    def dorny(self, step: Pairs, output: str) -> Question:
        given = step.get("with")
        given = given if isinstance(given, Pairs) else Pairs(0, 0, None, flow=False)
        if given.get("working-directory"):
            raise filters.Untranslatable("`working-directory` is set")
        for key in ("base", "ref"):
            if found := given.own(key):
                message = f"'{key}' is left out: touchgate takes base and head from the event"
                self.note(self.problem(found[0], message))
        written = given.get("filters")
        if not isinstance(written, Scalar):
            raise filters.Untranslatable("the step has no filters")
        rules, where = self.rules(written.value)
        if output not in rules:
            raise filters.Untranslatable(f"'{output}' is no filter of {where} but a list or a count")
        quantifier = given.get("predicate-quantifier")
        every = isinstance(quantifier, Scalar) and quantifier.value == "every"
        patterns = _patterns(rules[output])
        # Negatives take back only under `every`.
        return self.lane(output, patterns, written, every=every)

    def rules(self, written: str) -> tuple[dict[str, object], str]:
        """The filters by their names, inline or from a file, and where they are."""
        where = "the step"
        if "\n" not in written and ":" not in written:
            where = written.strip()
            found = self.around.read(where)
            if found is None:
                raise filters.Untranslatable(f"the filters' file {where} is not there")
            written = found
        document = located.read(written.encode(), where)
        if document.problems:
            raise filters.Untranslatable(f"the filters can't be read: {document.problems[0].message}")
        rules = data(Text(where, written).root)
        if not isinstance(rules, dict):
            raise filters.Untranslatable("the filters are no mapping")
        return rules, where

    def tj(self, wish: str, step: Pairs, output: str) -> Question:
        given = step.get("with")
        given = given if isinstance(given, Pairs) else Pairs(0, 0, None, flow=False)
        known = {"files", "files_ignore", "files_yaml", "fetch_depth", "token", "skip_initial_fetch", "separator", "json"}
        for key, _ in given.pairs:
            if key.value in ("base_sha", "sha"):
                self.note(self.problem(key, f"'{key.value}' is left out: touchgate takes base and head from the event"))
            elif key.value not in known:
                raise filters.Untranslatable(f"`{key.value}` is set")
        ending = next((end for end in ("any_changed", "any_modified") if output == end or output.endswith(f"_{end}")), None)
        if ending is None:
            raise filters.Untranslatable(f"'{output}' says something else than whether anything changed")
        if ending == "any_changed":
            self.note(self.problem(step, "deleted files count too, which 'any_changed' passes over"))
        if output != ending:
            written = given.get("files_yaml")
            rules = self.rules(written.value)[0] if isinstance(written, Scalar) else {}
            group = output.removesuffix(f"_{ending}")
            if group not in rules:
                raise filters.Untranslatable(f"'{group}' is no group of `files_yaml`")
            patterns, ignored = _patterns(rules[group]), []
        else:
            patterns, ignored = (
                [line.strip() for line in found.value.splitlines() if line.strip()] if isinstance(found, Scalar) else []
                for found in (given.get("files"), given.get("files_ignore"))
            )
        _refuse_unclear(patterns, ignored)
        said = filters.translated(patterns) if patterns else ["**"]
        said += [f"!{text}" for pattern in ignored for text in filters.one(pattern)]
        name = self.lanes.name_for(wish, tuple(said), str(self.text.at(step.start)))
        return Question(lanes=(name,))

    def action(self, step: Pairs, output: str) -> Question:
        if output != "run":
            raise filters.Untranslatable(f"'{output}' is no yes or no")
        given = data(step.get("with")) if step.get("with") else {}
        texts = {key: value[0] for key, value in given.items()} if isinstance(given, dict) else {}
        return Question(
            workflow=texts.get("workflow", ""),
            lanes=tuple(texts.get("lane", "").split()),
            suite=texts.get("suite", ""),
            base=texts.get("base", ""),
            head=texts.get("head", ""),
        )

    def call(self, script: str, output: str, settings: Mapping[str, str]) -> Question:
        """`touchgate gate ...` as a question. settings: the step's `env`, whose variables may stand in the call."""
        if output != "run":
            raise filters.Untranslatable(f"'{output}' is no yes or no")
        held: list[str] = []

        def hold(found: re.Match[str]) -> str:
            held.append(found[0])
            return f"\x01{len(held) - 1}\x02"

        calls = _CALL.findall(re.sub(r"\$\{\{.*?\}\}", hold, script.replace("\\\n", " ")))
        if len(calls) != 1:
            raise filters.Untranslatable("touchgate is called more than once")
        try:
            words = shlex.split(calls[0])
        except ValueError as fault:
            raise filters.Untranslatable("the call of touchgate can't be read") from fault
        words = [re.sub("\x01([0-9]+)\x02", lambda found: held[int(found[1])], word) for word in words]
        words = [re.sub(r"\$\{?([A-Za-z_]\w*)\}?", lambda found: settings.get(found[1], found[0]), word) for word in words]
        options: dict[str, list[str]] = {"--lane": [], "--suite": []}
        plain: list[str] = []
        while words:
            word = words.pop(0)
            name, _, value = word.partition("=")
            if name in options and (value or words):
                options[name].append(value or words.pop(0))
            elif word != "--json" and not word.startswith(("-", ">", "<")):
                plain.append(word)
            elif word != "--json":
                raise filters.Untranslatable(f"the call of touchgate has {word!r}")
        if any("$" in word.replace("${{", "") for word in (*plain, *options["--lane"], *options["--suite"])):
            raise filters.Untranslatable("the call of touchgate takes words from the shell")
        workflow = plain.pop(0) if len(plain) in (1, 3) else ""
        said = {name: settings.get(f"TOUCHGATE_{name.upper()}", "") for name in ("suite", "base", "head")}
        base, head = plain if len(plain) == 2 else (said["base"], said["head"])  # noqa: PLR2004 - BASE and HEAD
        return Question(workflow, tuple(options["--lane"]), (options["--suite"] or [said["suite"]])[-1], base, head)

    def note(self, problem: Problem) -> None:
        if problem not in self.result.notes:
            self.result.notes.append(problem)


def _refuse_unclear(patterns: list[str], ignored: list[str]) -> None:
    """Refuse patterns of changed-files that it takes for something else than what they look like."""
    if any(pattern.startswith("!") for pattern in (*patterns, *ignored)):
        raise filters.Untranslatable("a pattern with `!`; write it in `files_ignore`")
    if any(" " in pattern for pattern in patterns):
        raise filters.Untranslatable("a blank in a pattern, which older versions take for two; write one pattern a line")
    # As the action looks at it: by the last part alone.
    if any(not {"*", "."} & set(pattern.rpartition("/")[2]) for pattern in patterns):
        raise filters.Untranslatable("a pattern that may name a folder; write 'folder/**'")


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


def _patterns(rule: object) -> list[str]:
    """The patterns of one filter: a text, or lists of lists of them (anchors nest them)."""
    if isinstance(rule, tuple):
        return [str(rule[0])]
    if isinstance(rule, list):
        return [pattern for item in rule for pattern in _patterns(item)]
    raise filters.Untranslatable("it asks how a file changed (`added`, `modified`), not only which")


def _text(step: Pairs | None, key: str) -> str:
    found = step.get(key) if step is not None else None
    found = resolved(found) if found is not None else None
    return found.value if isinstance(found, Scalar) else ""


__all__ = ["Asked", "Decision", "Gate", "NewLanes", "Question", "Surroundings", "Undecided", "Unreadable", "find"]

"""The smallest changes of a workflow's text that carry out a plan. Lines that need not change stay as they are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from touchgate.gate.located import Problem
from touchgate.migrate import expressions
from touchgate.migrate.expressions import Condition, conjuncts, has_status, parse, show
from touchgate.migrate.jobs import Job, Workflow, seen_spans
from touchgate.migrate.tree import Alias, Items, Node, Pairs, Scalar, Text, resolved

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from touchgate.migrate.gates import Question
    from touchgate.migrate.guard import Guard, Plan


@dataclass(frozen=True, order=True)
class Edit:
    """The text from start to end becomes another one."""

    start: int
    end: int
    text: str


class Uneditable(Exception):
    """The way it is written can't be changed by pieces: why, and where."""

    def __init__(self, node: Node, message: str) -> None:
        super().__init__(message)
        self.node = node
        self.message = message


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits made. Equal edits count once; others must not overlap."""
    parts: list[str] = []
    position = 0
    for edit in sorted(set(edits)):
        if edit.start < position:
            raise ValueError(f"edits overlap at {edit.start}")
        parts += [text[position : edit.start], edit.text]
        position = edit.end
    return "".join([*parts, text[position:]])


def of_plan(workflow: Workflow, plan: Plan, uses: str) -> tuple[list[Edit], dict[str, Problem]]:
    """All edits, and the jobs that can't be changed, with the reasons: then there must be another plan."""
    writer = _Writer(workflow, uses)
    refused: dict[str, Problem] = {}
    by_job: dict[str, list[Edit]] = {}
    for name, guard in plan.guards.items():
        try:
            by_job[name] = writer.guarded(guard)
        except Uneditable as fault:
            refused[name] = Problem(workflow.text.at(fault.node.start), f"'{name}': {fault.message}")
    for name in plan.gone:
        gone = workflow.jobs[name]
        by_job[name] = [writer.without(gone)]
    refused.update(_conflicts(workflow, by_job))
    return [edit for edits in by_job.values() for edit in edits], refused


def _conflicts(workflow: Workflow, by_job: Mapping[str, list[Edit]]) -> dict[str, Problem]:
    """Jobs whose change would also change another one, through an anchor, in a way that this one must not."""
    found: dict[str, Problem] = {}
    spans = {name: seen_spans(job) for name, job in workflow.jobs.items()}
    for name, edits in by_job.items():
        for edit in edits:
            for other, parts in spans.items():
                if other == name or edit in by_job.get(other, ()):
                    continue
                if any(start <= edit.start and edit.end <= workflow.text.last_of_line(end) for start, end in parts):
                    at = workflow.text.at(edit.start)
                    message = "shares this text, by an anchor, with"
                    found[name] = Problem(at, f"'{name}' {message} '{other}', which would change as well")
                    if other in by_job:
                        found[other] = Problem(at, f"'{other}' {message} '{name}'")
    return found


class _Writer:
    def __init__(self, workflow: Workflow, uses: str) -> None:
        self.workflow = workflow
        self.text: Text = workflow.text
        self.source = workflow.text.text
        self.uses = uses
        first = self.source.find("\n")
        self.newline = "\r\n" if first > 0 and self.source[first - 1] == "\r" else "\n"

    # ---- jobs

    def guarded(self, guard: Guard) -> list[Edit]:
        job = guard.job
        edits = [*self.needs(job, guard.dropped), *self.condition(guard)]
        if guard.questions:
            edits.append(self.first_steps(guard))
        replaced: dict[int, str] = {}
        sources: dict[int, str] = {}
        for swap in guard.texts:
            scalar = swap.use.scalar
            output = swap.output(guard.ids)
            replaced[id(scalar)] = _with(replaced.get(id(scalar), scalar.value), swap.old, output)
            source = sources.get(id(scalar), self.source[scalar.start : scalar.end])
            sources[id(scalar)] = _with(source, swap.old, output)
        done: set[int] = set()
        if guard.tests is not None:
            for step in job.steps:
                found = step.get("if")
                written = found if isinstance(found, Scalar) else None
                done.add(id(written))
                edits += self.step(step, written, replaced.get(id(written)), guard.tests)
        for use in (swap.use for swap in guard.texts):
            if id(use.scalar) in done:
                continue
            done.add(id(use.scalar))
            if use.is_condition:
                value = replaced[id(use.scalar)].strip()
                edits.append(self.rewritten(use.scalar, use.scalar, expressions.condition(value)))
            else:
                edits.append(Edit(use.scalar.start, use.scalar.end, sources[id(use.scalar)]))
        return edits

    def without(self, job: Job) -> Edit:
        """The edit that takes a job away, with the comment directly above it and what belongs to it below."""
        column = self.text.column(job.key.start)
        start = self.text.line_start(job.key.start)
        if self.source[start : job.key.start].strip():
            raise Uneditable(job.key, "the gate job does not begin a line")
        while start > 0:
            above = self.text.line_start(start - 1)
            line = self.source[above:start]
            if not line.lstrip().startswith("#") or len(line) - len(line.lstrip()) != column:
                break
            start = above
        end = self.text.line_end(max(job.key.end, job.entry.end) - 1)
        blank = end
        while end < len(self.source):
            following = self.text.line_end(end)
            line = self.source[end:following]
            if line.strip() and not (line.lstrip().startswith("#") and len(line) - len(line.lstrip()) > column):
                break
            end = following
            if line.strip():
                blank = end
        if end >= len(self.source):
            # Nothing follows: the blank lines before go instead.
            while start > 0 and not self.source[self.text.line_start(start - 1) : start].strip():
                start = self.text.line_start(start - 1)
            return Edit(start, max(blank, min(end, len(self.source))), "")
        return Edit(start, end, "")

    def needs(self, job: Job, dropped: frozenset[str]) -> list[Edit]:
        """The edits that take gates out of `needs`."""
        gone = {name.lower() for name in dropped}
        if not any(name.lower() in gone for name in job.needs):
            return []
        own = job.node.own("needs")
        if own is None:
            raise Uneditable(job.key, "its `needs` comes through a merge key")
        key, value = own
        if isinstance(resolved(value), Items) and len(getattr(resolved(value), "items", ())) != len(job.needs):
            raise Uneditable(value, "an entry of its `needs` is no text")
        rest = [name for name in job.needs if name.lower() not in gone]
        if not rest:
            return [self.without_entry(job.node, key, value)]
        if isinstance(value, Alias):
            return [Edit(value.start, value.end, f"[{', '.join(rest)}]")]
        if not isinstance(value, Items):
            raise Uneditable(value, "its `needs` is no list")
        items = [(item, resolved(item)) for item in value.items]
        out = [index for index, (_, name) in enumerate(items) if isinstance(name, Scalar) and name.value.lower() in gone]
        if value.flow:
            return [self.out_of_brackets(value, index, out) for index in out]
        edits = []
        for index in out:
            item = items[index][0]
            start, end = self.text.line_start(item.start), self.text.line_end(item.end)
            if not re.fullmatch(r"\s*-\s+", self.source[start : item.start]):
                raise Uneditable(item, "an entry of its `needs` does not stand on a line of its own")
            edits.append(Edit(start, end, ""))
        return edits

    def out_of_brackets(self, value: Items, index: int, out: list[int]) -> Edit:
        """The edit that takes one item out of a list in brackets, with one comma."""
        item = value.items[index]
        kept_before = [other for other in range(index) if other not in out]
        if kept_before:
            return Edit(value.items[index - 1].end, item.end, "")
        return Edit(item.start, value.items[index + 1].start, "")

    def without_entry(self, mapping: Pairs, key: Scalar, value: Node) -> Edit:
        """The edit that takes the lines of an entry away."""
        start = self.text.line_start(key.start)
        if self.source[start : key.start].strip() or mapping.flow:
            raise Uneditable(key, f"`{key.value}` does not begin a line")
        return Edit(start, self.text.line_end(max(key.end, value.end) - 1), "")

    def condition(self, guard: Guard) -> list[Edit]:
        """The edits that leave a job its own condition only."""
        job = guard.job
        if not guard.own_changed:
            return []
        own = job.node.own("if")
        if own is None:
            if job.condition is not None:
                raise Uneditable(job.key, "its `if` comes through a merge key")
            first = job.node.pairs[0][0]
            if job.node.flow or self.source[self.text.line_start(first.start) : first.start].strip():
                raise Uneditable(first, "there is no line for an `if`")
            indent = " " * self.text.column(first.start)
            place = self.text.line_start(first.start)
            return [Edit(place, place, f"{indent}if: {_plain(guard.own or '')}{self.newline}")]
        key, value = own
        if guard.own is None:
            return [self.without_entry(job.node, key, value)]
        scalar = resolved(value)
        if not isinstance(scalar, Scalar):
            raise Uneditable(value, "its `if` is no text")
        around = expressions.condition(scalar.value.strip())
        return [self.rewritten(value, scalar, around._replace(expression=guard.own))]

    # ---- steps

    def first_steps(self, guard: Guard) -> Edit:
        """The edit that puts the new steps before the others."""
        steps = guard.job.node.get("steps")
        if not isinstance(steps, Items) or steps.flow or not steps.items:
            raise Uneditable(guard.job.key, "its steps are no list of lines")
        first = self.source.rfind("-", 0, steps.items[0].start + 1)
        place = self.text.line_start(steps.items[0].start)
        dash = self.source.find("-", place)
        if self.source[place:dash].strip() or first < place:
            raise Uneditable(steps.items[0], "its first step does not begin a line")
        indent = " " * (dash - place)
        # Comments above the first step stay above it.
        while place > 0:
            above = self.text.line_start(place - 1)
            line = self.source[above:place].strip()
            if line and not line.startswith("#"):
                break
            place = above
        lines = []
        for name, question in guard.questions.items():
            lines += [f"{indent}- id: {name}", f"{indent}  uses: {self.uses}"]
            given = inputs_of(question)
            lines += [f"{indent}  with:"] * bool(given)
            lines += [f"{indent}    {key}: {_plain(value)}" for key, value in given.items()]
        return Edit(place, place, "".join(line + self.newline for line in lines))

    def step(self, step: Pairs, scalar: Scalar | None, replaced: str | None, tests: str) -> list[Edit]:
        """The edits that make a step test the gate's answer."""
        own = step.own("if")
        value = "" if scalar is None else (scalar.value if replaced is None else replaced).strip()
        around = expressions.condition(value) if value else Condition("", "", "")
        around = around._replace(expression=tested(around.expression, tests))
        if own is not None and scalar is not None and scalar.value.strip():
            return [self.rewritten(own[1], scalar, around)]
        text = around.before + around.expression + around.after
        if own is not None:
            return [Edit(own[0].end, own[1].end, f": {_plain(text)}")] if not step.flow else self.refuse(own[0])
        if step.flow:
            brace = self.source.index("{", step.start)
            return [Edit(brace + 1, brace + 1, f"if: {_plain(text, flow=True)}, ")]
        return [self.added(step, f"if: {_plain(text)}")]

    def refuse(self, node: Node) -> list[Edit]:
        raise Uneditable(node, "an empty `if` in braces")

    def added(self, step: Pairs, entry: str) -> Edit:
        """The edit that adds an entry to a step: below its first line, or above where that is longer."""
        key, value = step.pairs[0]
        indent = " " * self.text.column(key.start)
        end = max(key.end, value.end)
        if "\n" not in self.source[key.start : end]:
            place = self.text.last_of_line(end)
            return Edit(place, place, f"{self.newline}{indent}{entry}")
        return Edit(key.start, key.start, f"{entry}{self.newline}{indent}")

    # ---- scalars

    def rewritten(self, node: Node, scalar: Scalar, around: Condition) -> Edit:
        """A condition with another expression, in the style in which it was written."""
        value = around.before + around.expression + around.after
        if isinstance(node, Alias):
            return Edit(node.start, node.end, _plain(value))
        written = self.source[scalar.start : scalar.end]
        found = re.match(r"(?:[&!]\S*\s+)*", written)
        prefix = found[0] if found else ""
        flat = re.sub(r"\s*\n\s*", " ", value)
        if scalar.style in ("|", ">"):
            head, _, body = written.partition("\n")
            indent = " " * (len(body) - len(body.lstrip()))
            lines = value.split("\n") if scalar.style == "|" else [flat]
            end = self.newline if head.endswith("\r") else "\n"
            body = "".join(f"{end}{indent}{line.strip()}" for line in lines)
            return Edit(scalar.start, scalar.end, head.rstrip("\r") + body)
        if scalar.style == '"':
            escaped = flat.replace("\\", "\\\\").replace('"', '\\"')
            return Edit(scalar.start, scalar.end, f'{prefix}"{escaped}"')
        if scalar.style == "'":
            return Edit(scalar.start, scalar.end, prefix + _quoted(flat))
        return Edit(scalar.start, scalar.end, prefix + _plain(flat, flow=self.in_braces(scalar)))

    def in_braces(self, scalar: Scalar) -> bool:
        line = self.source[self.text.line_start(scalar.start) : scalar.start]
        return line.count("{") > line.replace("${{", "").count("}") + 2 * line.count("${{")


def tested(expression: str, tests: str) -> str:
    """A step's condition and the gate's answer, both; what always runs goes first, as people write it."""
    if not expression:
        return tests
    known = {show(part) for part in conjuncts(parse(tests))}
    parts = [show(part) for part in conjuncts(parse(expression))]
    more = [part for part in parts if part not in known]
    if not more:
        return tests
    own = expression if len(more) == len(parts) else expressions.joined(more)
    return expressions.joined([own, tests] if has_status(parse(own)) else [tests, own])


def inputs_of(question: Question) -> dict[str, str]:
    """What the action is given to ask a question."""
    given = {
        "workflow": question.workflow,
        "lane": " ".join(question.lanes),
        "suite": question.suite,
    }
    return {key: value for key, value in given.items() if value}


def _with(text: str, use: str, output: str) -> str:
    """The text with every such use of a gate's output replaced."""
    return re.sub(rf"(?<![\w.-]){re.escape(use)}(?![\w-])", output, text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _plain(text: str, *, flow: bool = False) -> str:
    """The text as YAML, without quotes where it may stand so."""
    try:
        found = yaml.safe_load(f"{{if: {text}, x: y}}" if flow else f"if: {text}\nx: y\n")
    except yaml.YAMLError:
        return _quoted(text)
    return text if found == {"if": text, "x": "y"} and "\n" not in text else _quoted(text)

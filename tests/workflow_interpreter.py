"""A small interpreter of workflows: which steps really run, for given answers of the gates.

It knows what `needs`, `if`, outputs, results and matrices mean on GitHub; scripts and actions do nothing, unless `act`
says what a step's outputs are or that it fails. It shares no code with `touchgate.migrate`.

A job without a status function in its `if` runs only where all jobs before it, however far, succeeded.
"""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN = re.compile(r"\s*('(?:[^']|'')*'|[0-9]+(?:\.[0-9]+)?|[A-Za-z_][\w-]*|&&|\|\||[=!<>]=|[<>!()\[\].,*])")


class Wrong(Exception):
    """The workflow asks for what GitHub would refuse."""


class Expression:
    """Evaluates one expression by recursive descent, while reading it."""

    def __init__(self, text: str, contexts: Mapping[str, Any], status: Mapping[str, bool]) -> None:
        self.tokens: list[str] = []
        rest = text.strip()
        while rest:
            found = TOKEN.match(rest)
            if not found:
                raise Wrong(f"can't read {rest!r}")
            self.tokens.append(found[1])
            rest = rest[found.end() :].strip()
        self.place = 0
        self.contexts = contexts
        self.status = status
        self.asked_status = False

    def value(self) -> Any:
        found = self.disjunction()
        if self.place != len(self.tokens):
            raise Wrong(f"unexpected {self.tokens[self.place]!r}")
        return found

    def peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        token = self.peek()
        if not token or (wanted and token not in wanted):
            raise Wrong(f"{token!r} where {wanted} is wanted")
        self.place += 1
        return token

    def disjunction(self) -> Any:
        left = self.conjunction()
        while self.peek() == "||":
            self.take()
            right = self.conjunction()
            left = left if truthy(left) else right
        return left

    def conjunction(self) -> Any:
        left = self.equality()
        while self.peek() == "&&":
            self.take()
            right = self.equality()
            left = right if truthy(left) else left
        return left

    def equality(self) -> Any:
        left = self.order()
        while self.peek() in ("==", "!="):
            sign = self.take()
            left = equal(left, self.order()) == (sign == "==")
        return left

    def order(self) -> Any:
        left = self.negation()
        while self.peek() in ("<", ">", "<=", ">="):
            sign, right = self.take(), self.negation()
            one, other = number(left), number(right)
            left = {"<": one < other, ">": one > other, "<=": one <= other, ">=": one >= other}[sign]
        return left

    def negation(self) -> Any:
        if self.peek() == "!":
            self.take()
            return not truthy(self.negation())
        return self.access()

    def access(self) -> Any:
        found = self.atom()
        while self.peek() in (".", "["):
            if self.take() == ".":
                name = self.take()
                found = spread(found) if name == "*" else member(found, name)
            elif self.peek() == "*":
                self.take()
                self.take("]")
                found = spread(found)
            else:
                key = self.disjunction()
                self.take("]")
                found = member(found, key)
        return found

    def atom(self) -> Any:
        token = self.take()
        if token == "(":
            found = self.disjunction()
            self.take(")")
            return found
        if token[0] == "'":
            return token[1:-1].replace("''", "'")
        if token[0].isdigit():
            return float(token)
        if token in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[token]
        if self.peek() != "(":
            return member(self.contexts, token)
        self.take("(")
        arguments = []
        while self.peek() != ")":
            arguments.append(self.disjunction())
            if self.peek() == ",":
                self.take()
        self.take(")")
        return self.call(token.lower(), arguments)

    def call(self, name: str, given: list[Any]) -> Any:
        if name in ("always", "success", "failure", "cancelled"):
            self.asked_status = True
            return {"always": True, "cancelled": False, **self.status}[name]
        if name not in FUNCTIONS:
            raise Wrong(f"no function {name}")
        return FUNCTIONS[name](*given)


class Spread(list):
    """The items of `x.*`: a member of it is the list of theirs."""


def spread(found: Any) -> Spread:
    return Spread(found.values() if isinstance(found, dict) else found if isinstance(found, list) else [])


def member(found: Any, key: Any) -> Any:
    if isinstance(found, Spread):
        return Spread(inner for item in found if (inner := member(item, key)) is not None)
    if isinstance(found, list):
        return found[int(key)] if int(key) < len(found) else None
    if isinstance(found, dict):
        return next((value for name, value in found.items() if name.lower() == text(key).lower()), None)
    return None


def truthy(value: Any) -> bool:
    return value not in (None, False, "", 0)


def text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def number(value: Any) -> float:
    if isinstance(value, str):
        try:
            return float(value or 0)
        except ValueError:
            return float("nan")
    return float(value or 0) if not isinstance(value, (list, dict)) else float("nan")


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one.lower() == other.lower()
    if type(one) is type(other) or isinstance(one, (list, dict)):
        return bool(one == other)
    return number(one) == number(other)


def contains(found: Any, wanted: Any) -> bool:
    if isinstance(found, list):
        return any(equal(item, wanted) for item in found)
    return text(wanted).lower() in text(found).lower()


def from_json(found: Any) -> Any:
    try:
        return json.loads(text(found))
    except ValueError as fault:
        raise Wrong(f"fromJSON({found!r})") from fault


FUNCTIONS = {
    "contains": contains,
    "startswith": lambda found, start: text(found).lower().startswith(text(start).lower()),
    "endswith": lambda found, end: text(found).lower().endswith(text(end).lower()),
    "format": lambda shape, *given: re.sub(r"\{(\d+)\}", lambda found: text(given[int(found[1])]), shape),
    "join": lambda items, sign=",": text(sign).join(map(text, items)),
    "tojson": lambda found: json.dumps(found, default=list),
    "fromjson": from_json,
}


# ---- jobs


@dataclass(frozen=True)
class Step:
    """A step that is about to run: what `act` is told."""

    job: str
    leg: str
    index: int
    declared: Mapping[str, Any]
    given: Mapping[str, str]
    """Its `with`, evaluated."""


@dataclass
class Run:
    """What a run did. steps: (job, leg, name, text of env, with and run) of each step; results: job -> its result."""

    steps: list[tuple[str, str, str, str]] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


Act = "Callable[[Step], Mapping[str, str] | None]"


def condition(written: Any, contexts: Mapping[str, Any], status: Mapping[str, bool]) -> bool:
    """The truth of an `if:`, with the success() that it implies."""
    if written is None or (isinstance(written, str) and not written.strip()):
        return status["success"]
    if isinstance(written, bool):
        return written and status["success"]
    whole = re.fullmatch(r"\$\{\{((?:'(?:[^']|'')*'|(?!\}\}).)*)\}\}", written.strip(), re.DOTALL)
    if whole is None and "${{" in written:
        return status["success"]  # a text that is not empty
    evaluation = Expression(whole[1] if whole else written, contexts, status)
    found = truthy(evaluation.value())
    return found if evaluation.asked_status else found and status["success"]


def filled(written: Any, contexts: Mapping[str, Any]) -> Any:
    """A text with its expressions evaluated; a single expression keeps its type."""
    if not isinstance(written, str):
        return written
    pattern = r"\$\{\{((?:'(?:[^']|'')*'|(?!\}\}).)*)\}\}"
    status = {"success": True, "failure": False}
    whole = re.fullmatch(pattern, written.strip(), re.DOTALL)
    if whole:
        return Expression(whole[1], contexts, status).value()
    return re.sub(pattern, lambda found: text(Expression(found[1], contexts, status).value()), written, flags=re.DOTALL)


def everywhere(value: Any, contexts: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: everywhere(inner, contexts) for key, inner in value.items()}
    if isinstance(value, list):
        return [everywhere(inner, contexts) for inner in value]
    return filled(value, contexts)


def needed(job: Mapping[str, Any]) -> list[str]:
    needs = job.get("needs") or []
    return [needs] if isinstance(needs, str) else list(needs)


def interpret(source: str, github: Mapping[str, Any], act: Any, *, transitive: bool = True) -> Run:
    """Run a workflow. act: the outputs that a step writes, None where it fails."""
    workflow = yaml.safe_load(source)
    jobs = workflow["jobs"]
    for name, job in jobs.items():
        for other in needed(job):
            if other not in jobs:
                raise Wrong(f"{name} needs {other}, which is not there")
    run = Run()
    outputs: dict[str, dict[str, Any]] = {}
    waiting = list(jobs)
    while waiting:
        ready = next((name for name in waiting if all(other in run.results for other in needed(jobs[name]))), None)
        if ready is None:
            raise Wrong("the jobs wait for each other")
        waiting.remove(ready)
        _job(ready, jobs, run, outputs, github, act, transitive)
    return run


def _before(name: str, jobs: Mapping[str, Any], transitive: bool) -> set[str]:
    found: set[str] = set()
    new = needed(jobs[name])
    while new:
        other = new.pop()
        if other not in found:
            found.add(other)
            new += needed(jobs[other]) if transitive else []
    return found


def _job(name: str, jobs: Any, run: Run, outputs: Any, github: Any, act: Any, transitive: bool) -> None:
    job = jobs[name]
    outputs[name] = {}
    needs = {other: {"result": run.results[other], "outputs": outputs[other]} for other in needed(job)}
    before = [run.results[other] for other in _before(name, jobs, transitive)]
    status = {"success": all(result == "success" for result in before), "failure": "failure" in before}
    contexts = {"github": github, "needs": needs, "inputs": {}, "vars": {}}
    if not condition(job.get("if"), contexts, status):
        run.results[name] = "skipped"
        return
    try:
        legs = _legs(everywhere(job.get("strategy") or {}, contexts))
        _settle(name, job, contexts)
        results = [_leg(name, job, leg, contexts, run, outputs, act) for leg in legs]
        run.results[name] = "failure" if "failure" in results else "success"
    except Wrong as fault:
        run.faults.append(f"{name}: {fault}")
        run.results[name] = "failure"


def _settle(name: str, job: Any, contexts: Any) -> None:
    """Evaluate what a job needs before its first step."""
    for key in ("runs-on", "container", "environment", "concurrency", "name"):
        if key in job and "matrix." not in str(job[key]) and everywhere(job[key], contexts) in (None, ""):
            raise Wrong(f"{name} has no {key}")


def _legs(strategy: Any) -> list[dict[str, Any]]:
    matrix = dict(strategy.get("matrix") or {})
    if not isinstance(strategy.get("matrix") or {}, dict):
        raise Wrong("the matrix is no mapping")
    include, exclude = matrix.pop("include", []), matrix.pop("exclude", [])
    for key, values in matrix.items():
        if not isinstance(values, list) or not values:
            raise Wrong(f"matrix.{key} is {values!r}")
    legs = [dict(zip(matrix, choice, strict=True)) for choice in itertools.product(*matrix.values())] if matrix else []
    legs = [leg for leg in legs if not any(all(leg.get(key) == value for key, value in out.items()) for out in exclude)]
    return legs + [dict(leg) for leg in include] or [{}]


def _leg(name: str, job: Any, leg: Any, contexts: Any, run: Run, outputs: Any, act: Any) -> str:
    if "uses" in job:
        given = everywhere(job.get("with") or {}, contexts)
        run.steps.append((name, "", job["uses"], json.dumps(given, sort_keys=True)))
        return "success"
    steps: dict[str, Any] = {}
    inner = {**contexts, "matrix": leg, "steps": steps, "env": {}, "runner": {"os": "Linux"}, "job": {}}
    result = "success"
    shown = json.dumps(leg, sort_keys=True)
    for index, step in enumerate(job["steps"]):
        status = {"success": result == "success", "failure": result == "failure"}
        key = step.get("id", f"__{index}")
        inner["job"] = {"status": result}
        if not condition(step.get("if"), inner, status):
            steps[key] = {"outputs": {}, "outcome": "skipped", "conclusion": "skipped"}
            continue
        made = {part: everywhere(step.get(part), inner) for part in ("env", "with", "run")}
        written = act(Step(name, shown, index, step, made["with"] or {}))
        called = step.get("name") or step.get("uses") or step.get("run")
        run.steps.append((name, shown, str(called), json.dumps(made, sort_keys=True)))
        outcome = "failure" if written is None else "success"
        allowed = bool(step.get("continue-on-error"))
        steps[key] = {"outputs": dict(written or {}), "outcome": outcome, "conclusion": "success" if allowed else outcome}
        if written is None and not allowed:
            result = "failure"
    outputs[name].update({key: text(filled(value, inner)) for key, value in (job.get("outputs") or {}).items()})
    return "success" if job.get("continue-on-error") is True else result

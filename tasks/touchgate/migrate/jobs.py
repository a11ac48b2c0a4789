"""A workflow as `migrate` needs it: its jobs, what each needs, and every place that refers to another job."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from touchgate.migrate import expressions
from touchgate.migrate.expressions import Expr, Unreadable
from touchgate.migrate.tree import Items, Node, Pairs, Scalar, Text, inside, resolved

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[str, ...]


@dataclass(frozen=True)
class Reference:
    """A use of another job in an expression.

    job: its id, or "*" for all. part: "outputs", "result", or "" for the whole. output: the output's name, "" for all.
    where: the keys that lead to the scalar, from the job; node: the use; root: the expression that it stands in.
    """

    job: str
    part: str
    output: str
    where: Path
    scalar: Scalar
    node: Expr
    root: Expr

    @property
    def in_steps(self) -> bool:
        """Whether it stands in a step."""
        return self.where[:1] == ("steps",)

    @property
    def is_condition(self) -> bool:
        """Whether it stands in the `if:` of the job or of a step."""
        return self.where[-1] == "if" and (len(self.where) == 1 or (len(self.where) == 3 and self.in_steps))  # noqa: PLR2004


@dataclass(eq=False)
class Job:
    """One job. key: where its id stands; entry: what stands behind it, perhaps an alias; node: the mapping."""

    id: str
    key: Scalar
    entry: Node
    node: Pairs
    needs: tuple[str, ...]
    references: tuple[Reference, ...]
    unreadable: tuple[tuple[Scalar, str], ...]
    """Expressions that speak of `needs` and can't be read: where, why."""

    @property
    def condition(self) -> Scalar | None:
        """The text of its `if:`."""
        found = self.node.get("if")
        return found if isinstance(found, Scalar) and found.value.strip() else None

    @property
    def steps(self) -> list[Pairs]:
        """Its steps; none where another workflow is called."""
        found = self.node.get("steps")
        items = [resolved(item) for item in found.items] if isinstance(found, Items) else []
        return [item for item in items if isinstance(item, Pairs)]

    def text(self, key: str) -> str:
        """The text behind a key, or ""."""
        found = self.node.get(key)
        return found.value if isinstance(found, Scalar) else ""


@dataclass(frozen=True, eq=False)
class Workflow:
    """A file with its jobs, in their order."""

    text: Text
    root: Pairs
    jobs: dict[str, Job]

    @property
    def file(self) -> str:
        """The path from the root of the repository."""
        return self.text.file

    def job(self, name: str) -> Job | None:
        """The job of this id, in whatever case it is written."""
        if name in self.jobs:
            return self.jobs[name]
        return next((job for key, job in self.jobs.items() if key.lower() == name.lower()), None)

    def ancestors(self, job: Job) -> set[str]:
        """All jobs that must have ended before."""
        found: set[str] = set()
        waiting = list(job.needs)
        while waiting:
            name = waiting.pop()
            if name in self.jobs and name not in found:
                found.add(name)
                waiting += self.jobs[name].needs
        return found


def read(text: Text) -> Workflow | None:
    """The workflow; None where the file holds no jobs."""
    if not isinstance(text.root, Pairs):
        return None
    jobs = text.root.get("jobs")
    if not isinstance(jobs, Pairs):
        return None
    found = {}
    for key, entry in jobs.pairs:
        node = resolved(entry)
        if isinstance(node, Pairs):
            references, unreadable = _references(node)
            found[key.value] = Job(key.value, key, entry, node, _needs(node), references, unreadable)
    return Workflow(text, text.root, found)


def _needs(job: Pairs) -> tuple[str, ...]:
    node = job.get("needs")
    if isinstance(node, Scalar):
        return (node.value,) if node.value else ()
    if isinstance(node, Items):
        return tuple(item.value for item in map(resolved, node.items) if isinstance(item, Scalar))
    return ()


def scalars(node: Node, where: Path = ()) -> Iterator[tuple[Path, Scalar]]:
    """Every value below a node with the keys that lead to it; list items are counted from 0."""
    node = resolved(node)
    if isinstance(node, Scalar):
        yield where, node
    elif isinstance(node, Items):
        for index, item in enumerate(node.items):
            yield from scalars(item, (*where, str(index)))
    elif isinstance(node, Pairs):
        for name in node.names():
            value = node.get(name)
            if value is not None:
                yield from scalars(value, (*where, name))


def _references(job: Pairs) -> tuple[tuple[Reference, ...], tuple[tuple[Scalar, str], ...]]:
    found: list[Reference] = []
    unreadable: list[tuple[Scalar, str]] = []
    for where, scalar in scalars(job):
        if "needs" not in scalar.value.lower():
            continue
        texts = expressions.embedded(scalar.value)
        is_condition = where == ("if",) or (where[:1] == ("steps",) and where[2:] == ("if",))
        if is_condition and not texts:
            texts = [scalar.value]
        for text in texts:
            if "needs" not in text.lower():
                continue
            try:
                root = expressions.parse(text)
            except Unreadable as fault:
                unreadable.append((scalar, str(fault)))
                continue
            found += [Reference(*use, where, scalar, node, root) for node, use in uses(root)]
    return tuple(found), tuple(unreadable)


def uses(node: Expr) -> Iterator[tuple[Expr, tuple[str, str, str]]]:
    """Every outermost use of `needs` in an expression: the node, and its job, part and output as in `Reference`."""
    path = expressions.path_of(node) if node.kind != "group" else None
    if path is not None:
        if path[0] == "needs":
            job, part, output = (*path[1:], "", "", "")[:3]
            part = part.lower()
            yield node, (job or "*", part if part in ("outputs", "result") else "", "" if output == "*" else output)
        return
    for child in node.children:
        yield from uses(child)


def seen_spans(job: Job) -> list[tuple[int, int]]:
    """The parts of the text that the job is made of: its own, and those that it takes through aliases."""
    spans = [(job.key.start, max(job.key.end, job.entry.end))]
    spans += [(node.start, node.end) for node in inside(job.entry) if node.anchor is not None]
    return spans


def runner_system(job: Job) -> str:
    """Say "windows" where a leg of the job runs on Windows, "unknown" where only the run can tell, else ""."""
    node = job.node.get("runs-on")
    texts = [scalar.value for _, scalar in scalars(node)] if node else []
    if any(re.search(r"\bmatrix\b", text.lower()) for text in texts):
        strategy = job.node.get("strategy")
        texts += [scalar.value for _, scalar in scalars(strategy)] if strategy else []
    if any("windows" in text.lower() or re.search(r"\bwin(32|64|10|11)?\b", text.lower()) for text in texts):
        return "windows"
    return "unknown" if any(re.search(r"\$\{\{(?!\s*matrix\.)", text) for text in texts) else ""

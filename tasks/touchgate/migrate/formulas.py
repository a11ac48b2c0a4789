"""What a condition asks of gate jobs, taken apart: what stays the job's own, and what each of its steps must test."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from touchgate.migrate import expressions
from touchgate.migrate.expressions import Expr, bare, path_of, show, walk
from touchgate.migrate.gates import Decision, Gate, Question, Undecided
from touchgate.migrate.jobs import uses

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from touchgate.gate.located import Problem


@dataclass(frozen=True)
class Formula:
    """kind: "asks" (a question answered yes), "other" (a text of the forge's language), "and", "or"."""

    kind: str
    question: Question | None = None
    text: str = ""
    parts: tuple[Formula, ...] = ()

    def questions(self) -> list[Question]:
        """Every question in it, in order."""
        own = [self.question] if self.question else []
        return own + [question for part in self.parts for question in part.questions()]

    def shown(self, ids: Mapping[Question, str]) -> str:
        """The text, with the output of the step that asks each question."""
        if self.question is not None:
            return f"steps.{ids[self.question]}.outputs.run == 'true'"
        if self.kind == "other":
            return self.text
        operator = "&&" if self.kind == "and" else "||"
        parts = [part.shown(ids) for part in self.parts]
        if operator == "&&":
            parts = [f"({part})" if expressions.bare_or(part) else part for part in parts]
        return f" {operator} ".join(parts)


class Unsafe(Exception):
    """The condition can't be split: why. problem: where that lies elsewhere."""

    def __init__(self, message: str, hint: str | None = None, problem: Problem | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.problem = problem


@dataclass(frozen=True)
class Split:
    """A job's condition. own: what stays, None where nothing does; asks: what the steps must test; changed: whether."""

    own: str | None
    asks: tuple[Formula, ...]
    changed: bool
    implied: bool
    """Whether it runs only where all jobs before it succeeded."""


def split(text: str | None, gates: Mapping[str, Gate], further: str | None = None) -> Split:
    """Split the expression of a job's `if:`. further: what else must hold for the job. Raises Unsafe, Unreadable."""
    root = expressions.parse(text) if text else None
    folded = None if root is None else fold(root, gates)
    if folded is False:
        raise Unsafe("it never holds when the gate job succeeds")
    own: list[Expr] = []
    asks: list[Formula] = []
    statuses: list[Expr] = []
    for part in expressions.conjuncts(folded) if isinstance(folded, Expr) else []:
        if expressions.has_status(part):
            statuses.append(part)
        if not mentions(part, gates):
            own.append(part)
            continue
        if expressions.has_status(part):
            raise Unsafe("a status function beside the gate's output, and not by `&&`, means something else in a step")
        asks += _flat(formula(part, gates, positive=True))
    if root is not None and expressions.has_status(root) and not statuses:
        raise Unsafe("without its test of the gate's result it would imply success()")
    implied = all(bare(part).kind == "call" and bare(part).value == "success" for part in statuses)
    if further is not None and not implied:
        raise Unsafe("the gate job has an `if:` of its own, and this job runs where the gate was skipped as well")
    texts = [show(part) for part in own] + ([further] if further else [])
    changed = bool(asks) or folded is not root or further is not None
    return Split(expressions.joined(texts) if texts else None, tuple(dict.fromkeys(asks)), changed, implied)


def mentions(node: Expr, gates: Mapping[str, Gate]) -> bool:
    """Whether it refers to one of the gate jobs."""
    return any(_gate_of(inner, gates) is not None for inner in walk(node))


def _gate_of(node: Expr, gates: Mapping[str, Gate]) -> Gate | None:
    path = path_of(node) if node.kind != "group" else None
    if path is None or len(path) < 2 or path[0] != "needs":  # noqa: PLR2004 - needs.JOB
        return None
    return next((gate for name, gate in gates.items() if name.lower() == path[1].lower()), None)


def result_compared(node: Expr) -> tuple[str, str, bool] | None:
    """`needs.JOB.result == 'x'` as (JOB, x, True), with != as False; None for anything else."""
    if node.kind not in ("==", "!="):
        return None
    for one, other in (node.children, node.children[::-1]):
        path, literal = path_of(one), bare(other)
        if path and len(path) == 3 and path[0] == "needs" and path[2].lower() == "result" and isinstance(literal.value, str):  # noqa: PLR2004
            return path[1], literal.value.lower(), node.kind == "=="
    return None


def fold(node: Expr, gates: Mapping[str, Gate]) -> Expr | bool:
    """The expression without its tests of a gate's result, which counts as "success"; the node itself where it has none."""
    if node.kind == "group":
        inner = fold(node.children[0], gates)
        return node if inner is node.children[0] else inner
    compared = result_compared(node)
    if compared and any(compared[0].lower() == name.lower() for name in gates):
        return (compared[1] == "success") == compared[2]
    if node.kind == "not":
        inner = fold(node.children[0], gates)
        if isinstance(inner, bool):
            return not inner
        return node if inner is node.children[0] else Expr("not", children=(inner,))
    if node.kind not in ("&&", "||"):
        return node
    left, right = (fold(child, gates) for child in node.children)
    if left is node.children[0] and right is node.children[1]:
        return node
    decides = node.kind == "||"
    if left is decides or right is decides:
        return decides
    if isinstance(left, bool):
        return right
    return left if isinstance(right, bool) else Expr(node.kind, children=(left, right))


def formula(node: Expr, gates: Mapping[str, Gate], *, positive: bool) -> Formula:
    """A condition that mentions gates. Raises Unsafe where it can't be put into questions that are answered yes."""
    node = bare(node)
    if not mentions(node, gates):
        return Formula("other", text=show(node) if positive else show(Expr("not", children=(node,))))
    if node.kind == "not":
        return formula(node.children[0], gates, positive=not positive)
    if node.kind in ("&&", "||"):
        kind = "and" if (node.kind == "&&") == positive else "or"
        return _joined(kind, [formula(child, gates, positive=positive) for child in node.children])
    use, says = _tested(node)
    gate = _gate_of(use, gates)
    path = path_of(use) or ()
    if gate is None or len(path) != 4 or path[2].lower() != "outputs":  # noqa: PLR2004 - needs.JOB.outputs.NAME
        raise Unsafe(f"`{show(node)}` is no plain test of an output")
    decision = decision_of(gate, path[3])
    if says is None and decision.words != "one":
        raise Unsafe(f"`{show(node)}` holds for the text 'false' as well", "write == 'true'")
    if decision.words == "one" and any(_word(bare(child)) is False for child in node.children):
        raise Unsafe(f"`{show(node)}` never meets the text 'false', which is not written there", "compare with 'true'")
    if ((says is not False) == positive) == decision.inverted:
        message = f"`{show(node)}` asks for what is untouched here"
        raise Unsafe(message, "touchgate answers true where it can't tell, and that would skip the work")
    return Formula("asks", decision.question)


def decision_of(gate: Gate, output: str) -> Decision:
    """What an output asks. Raises Unsafe where that is not known."""
    found = gate.output(output)
    if found is None:
        raise Unsafe(f"'{gate.job.id}' has no output '{output}'")
    if isinstance(found, Undecided):
        raise Unsafe(found.problem.message, problem=found.problem)
    return found


def _tested(node: Expr) -> tuple[Expr, bool | None]:
    """The output that is tested, and for which answer; None: for being any text."""
    if node.kind in ("==", "!="):
        for one, other in (node.children, node.children[::-1]):
            one, other = bare(one), bare(other)  # noqa: PLW2901 - without their parentheses
            if other.kind != "literal":
                continue
            parsed = one.kind == "call" and one.value == "fromjson" and len(one.children) == 1
            wanted = other.value if parsed else _word(other)
            if isinstance(wanted, bool):
                return (one.children[0] if parsed else one), wanted == (node.kind == "==")
            if not parsed and isinstance(other.value, bool):
                raise Unsafe(f"`{show(node)}` compares text with {other.text}, which never is equal", "write 'true'")
        raise Unsafe(f"`{show(node)}` is no test for 'true' or 'false'")
    if node.kind == "call" and node.value == "fromjson" and len(node.children) == 1:
        return node.children[0], True
    return node, None


def _word(node: Expr) -> bool | None:
    text = node.value.lower() if isinstance(node.value, str) else ""
    return {"true": True, "false": False}.get(text)


def _joined(kind: str, parts: list[Formula]) -> Formula:
    flat = [inner for part in parts for inner in (part.parts if part.kind == kind else (part,))]
    if kind == "or":
        merged: list[Formula] = []
        for part in flat:
            for place, before in enumerate(merged):
                both = before.question.or_(part.question) if before.question and part.question else None
                if both is not None:
                    merged[place] = Formula("asks", both)
                    break
            else:
                merged.append(part)
        flat = merged
    unique = tuple(dict.fromkeys(flat))
    return unique[0] if len(unique) == 1 else Formula(kind, parts=unique)


def _flat(found: Formula) -> list[Formula]:
    return [inner for part in found.parts for inner in _flat(part)] if found.kind == "and" else [found]


# ---- what changes when a skipped job becomes one that succeeds


def minds_success(node: Expr, job: str) -> bool:
    """Whether the truth of a condition can change when the result of a job is "success" in place of "skipped"."""
    return _differs(node, lambda atom, skipped: _by_result(atom, job, skipped))


def minds_removal(node: Expr) -> bool:
    """Whether the truth of a condition can change when a job that succeeded is no longer needed."""
    joined = [inner.children[0] for inner in walk(node) if _star_sought(inner) not in ("", "success")]
    fine = {id(part) for whole in joined for part in walk(whole)}
    return any(path_of(inner) == ("needs", "*", "result") and id(inner) not in fine for inner in walk(node))


def _unjoined(node: Expr) -> Expr:
    """`join(needs.*.result, ',')` as its list, where no letters between the results can make a new word; else the node."""
    node = bare(node)
    if node.kind != "call" or node.value != "join" or not node.children:
        return node
    between = [bare(child).value for child in node.children[1:]]
    plain = all(isinstance(sign, str) and not re.search(r"[A-Za-z]", sign) for sign in between)
    return node.children[0] if plain else node


def _star_sought(node: Expr) -> str:
    """The x of `contains(needs.*.result, 'x')`; "" for anything else."""
    if node.kind != "call" or node.value != "contains" or len(node.children) != 2:  # noqa: PLR2004 - where, what
        return ""
    if path_of(_unjoined(node.children[0])) != ("needs", "*", "result"):
        return ""
    literal = bare(node.children[1]).value
    return literal.lower() if isinstance(literal, str) else ""


def _by_result(atom: Expr, job: str, skipped: bool) -> bool | None:
    """An atom's truth by the job's result; None where it does not depend on it. Raises Unsafe where that is not known."""
    compared = result_compared(atom)
    if compared and compared[0].lower() == job.lower():
        if compared[1] in ("success", "skipped"):
            return (compared[1] == ("skipped" if skipped else "success")) == compared[2]
        return None
    if _star_sought(atom) in ("failure", "cancelled"):
        return None
    for _, (used, part, _) in uses(atom):
        if part != "outputs" and used.lower() in (job.lower(), "*"):
            raise Unsafe(f"`{show(atom)}`")
    return None


_MOST_ATOMS = 12


def _differs(node: Expr, known: Callable[[Expr, bool], bool | None]) -> bool:
    """Whether any values of the other atoms make the known ones matter. known: an atom's truth, the job skipped or not."""
    atoms = {show(atom): atom for atom in _atoms(node)}
    try:
        fixed = {text: (known(atom, True), known(atom, False)) for text, atom in atoms.items()}
    except Unsafe:
        return True
    if all(skipped == succeeded for skipped, succeeded in fixed.values()):
        return False
    free = [text for text, (skipped, _) in fixed.items() if skipped is None]
    if len(free) > _MOST_ATOMS:
        return True
    for choice in product((False, True), repeat=len(free)):
        values = dict(zip(free, choice, strict=True))
        skipped = {text: bool(pair[0]) for text, pair in fixed.items() if pair[0] is not None}
        succeeded = {text: bool(pair[1]) for text, pair in fixed.items() if pair[0] is not None}
        if _holds(node, {**values, **skipped}) != _holds(node, {**values, **succeeded}):
            return True
    return False


def _atoms(node: Expr) -> list[Expr]:
    node = bare(node)
    if node.kind in ("&&", "||", "not"):
        return [atom for child in node.children for atom in _atoms(child)]
    return [node]


def _holds(node: Expr, values: Mapping[str, bool]) -> bool:
    node = bare(node)
    if node.kind == "not":
        return not _holds(node.children[0], values)
    if node.kind in ("&&", "||"):
        return (all if node.kind == "&&" else any)(_holds(child, values) for child in node.children)
    return values[show(node)]

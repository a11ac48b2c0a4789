"""What the tests of `touchgate migrate` share: gates that answer as the real tools do, and runs held side by side."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import TYPE_CHECKING, Any

import yaml

from tests.workflow_interpreter import Run, Step, interpret
from touchgate.gate.patterns import PatternList
from touchgate.gate.workflow import decide, read_paths
from touchgate.migrate.gates import Asked, Surroundings
from touchgate.migrate.whole import Migrated, migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

USES = "example/touchgate@0123456789012345678901234567890123456789"
FOLDER = ".github/workflows"
ALL_GREEN = "re-actors/alls-green"


def run_of(source: str, asked: Asked | None = None, lanes: Mapping[str, tuple[str, ...]] | None = None, name: str = "x.yml"):
    """Migrate a text; the lanes are those that are declared already."""
    around = Surroundings(lanes or {}, lambda _: None)
    return migrate(f"{FOLDER}/{name}", source.encode(), USES, asked or Asked(), around)


def alternatives(pattern: str) -> list[str]:
    """A pattern's braces, spelt out."""
    parts = re.split(r"\{([^{}]*)\}", pattern)
    choices = [part.split(",") if index % 2 else [part] for index, part in enumerate(parts)]
    return ["".join(choice) for choice in product(*choices)]


def picomatch(pattern: str, path: str) -> bool:
    """Whether picomatch (with `dot`) matches, for stars and braces."""
    signs = {"**/": "(?:[^/]+/)*", "/**": "(?:/.*)?", "**": ".*", "*": "[^/]*"}

    def expression(text: str) -> str:
        return "".join(signs.get(piece, re.escape(piece)) for piece in re.split(r"(\*\*/|/\*\*$|\*\*|\*)", text))

    return any(re.fullmatch(expression(text), path) for text in alternatives(pattern))


def dorny(step: Step, paths: Sequence[str]) -> dict[str, str]:
    """The outputs of dorny/paths-filter."""
    combine = all if step.given.get("predicate-quantifier") == "every" else any

    def flat(rule: Any) -> list[str]:
        return [rule] if isinstance(rule, str) else [text for item in rule for text in flat(item)]

    def one(pattern: str, path: str) -> bool:
        return not picomatch(pattern[1:], path) if pattern.startswith("!") else picomatch(pattern, path)

    rules = yaml.safe_load(step.given["filters"])
    hits = {name: any(combine(one(text, path) for text in flat(rule)) for path in paths) for name, rule in rules.items()}
    changes = "[" + ",".join(f'"{name}"' for name, hit in hits.items() if hit) + "]"
    return {**{name: str(hit).lower() for name, hit in hits.items()}, "changes": changes}


def changed_files(step: Step, paths: Sequence[str]) -> dict[str, str]:
    """The outputs of tj-actions/changed-files."""
    if "files_yaml" in step.given:
        rules = yaml.safe_load(step.given["files_yaml"])
        return {
            f"{name}_any_modified": str(any(picomatch(text, path) for text in rule for path in paths)).lower()
            for name, rule in rules.items()
        }
    ignored = step.given.get("files_ignore", "").split()
    wanted = step.given.get("files", "**").split()
    hits = [path for path in paths if any(picomatch(text, path) for text in wanted)]
    return {"any_modified": str(any(not any(picomatch(text, path) for text in ignored) for path in hits)).lower()}


def all_green(step: Step) -> dict[str, str] | None:
    """What re-actors/alls-green says: none failed, and only allowed ones were skipped."""
    allowed = [name.strip() for name in step.given.get("allowed-skips", "").split(",")]
    results = {name: job["result"] for name, job in json.loads(step.given["jobs"]).items()}
    fine = all(result == "success" or (result == "skipped" and name in allowed) for name, result in results.items())
    return {} if fine else None


def acting(
    source: str,
    event: str,
    paths: Sequence[str],
    lanes: Mapping[str, tuple[str, ...]],
    scripts: Mapping[str, Callable[[Sequence[str]], dict[str, str]]],
    fails: str | None,
    gates: Sequence[str],
) -> Callable[[Step], Mapping[str, str] | None]:
    """What the steps do for a change.

    scripts: a piece of a script -> what it writes; fails: the text of steps that fail, but for those of gates.
    """

    def own_list() -> dict[str, str]:
        return {"run": str(decide(read_paths(source.encode(), "x.yml"), event, paths).run).lower()}

    def touchgate(step: Step) -> dict[str, str]:
        if step.given.get("workflow"):
            return own_list()
        asked = step.given["lane"].split()
        return {"run": str(any(PatternList(lanes[lane]).touches(paths) for lane in asked)).lower()}

    actions: dict[str, Callable[[Step], dict[str, str] | None]] = {
        USES: touchgate,
        "dorny/": lambda step: dorny(step, paths),
        "tj-actions/": lambda step: changed_files(step, paths),
        ALL_GREEN: all_green,
    }
    known = {"touchgate gate": lambda _: own_list(), **scripts}

    def act(step: Step) -> Mapping[str, str] | None:
        uses, run = step.declared.get("uses", ""), step.declared.get("run", "")
        for name, action in actions.items():
            if uses.startswith(name):
                return action(step)
        for piece, outputs in known.items():
            if piece in run:
                return outputs(paths)
        broken = fails and step.job not in gates and fails in (run, uses, step.declared.get("name"))
        return None if broken else {}

    return act


def work(run: Run, gates: Sequence[str]) -> set[tuple[str, str, str, str]]:
    """The steps that do the work: none of a gate job, and not those that ask touchgate."""
    steps = [step for step in run.steps if step[0] not in gates and step[2] != USES]
    # What alls-green is told may differ; what it says of that must not.
    return {(*step[:3], "") if step[2].startswith(ALL_GREEN) else step for step in steps}


def differences(before: Run, after: Run, gates: Sequence[str]) -> list[str]:
    """What the two runs do not share: steps, results (success may stand for skipped where nothing ran), faults."""
    old, new = work(before, gates), work(after, gates)
    found = [f"only before: {step}" for step in sorted(old - new)] + [f"only after: {step}" for step in sorted(new - old)]
    busy = {step[0] for step in new}
    for job, result in after.results.items():
        was = before.results[job]
        if job not in gates and result != was and not (was == "skipped" and result == "success" and job not in busy):
            found.append(f"{job}: {result} in place of {was}")
    found += [f"missing: {job}" for job in before.results if job not in after.results and job not in gates]
    return found + [f"fault: {fault}" for fault in after.faults if fault not in before.faults]


def both(
    source: str,
    result: Migrated,
    github: Mapping[str, Any],
    paths: Sequence[str],
    lanes: Mapping[str, tuple[str, ...]],
    scripts: Mapping[str, Callable[[Sequence[str]], dict[str, str]]],
    fails: str | None,
    gates: Sequence[str],
    *,
    transitive: bool = True,
) -> tuple[Run, Run]:
    """The runs of the old and the new form for one change."""
    known = {**lanes, **{name: lane[0] for name, lane in result.lanes.items()}}
    act = acting(source, github["event_name"], paths, known, scripts, fails, gates)
    assert result.text is not None
    return interpret(source, github, act, transitive=transitive), interpret(result.text, github, act, transitive=transitive)

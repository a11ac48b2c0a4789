"""Workflows of many shapes: what `touchgate migrate` makes of them is valid, and runs what they ran."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests import migrating
from touchgate.gate import located
from touchgate.gate.located import DeclarationError
from touchgate.migrate.gates import Asked

FOLDER = Path(__file__).parent / "workflows"


def below(*folders: str) -> Callable[[Sequence[str]], bool]:
    return lambda paths: any(path.startswith(folders) for path in paths)


def said(**outputs: Callable[[Sequence[str]], bool]) -> Callable[[Sequence[str]], dict[str, str]]:
    return lambda paths: {name: str(holds(paths)).lower() for name, holds in outputs.items()}


@dataclass(frozen=True)
class Shape:
    """A workflow, the paths that its changes are made of, and what must come out.

    guarded: jobs with a first step that asks; left: line -> how the reason begins; stays: gate jobs that are still there.
    """

    gates: tuple[str, ...]
    paths: tuple[str, ...]
    guarded: tuple[str, ...]
    left: Mapping[int, str] = field(default_factory=dict)
    stays: tuple[str, ...] = ()
    asked: Asked = field(default_factory=Asked)
    lanes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scripts: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[str, ...] = ("pull_request",)


SHAPES = {
    "matrix": Shape(
        ("changes",),
        ("common/a/b.py", "setup.toml", "service/x", "docs/a/b.md", "docs/c.rst", "docs/d.txt", "a/setup.toml", "README"),
        ("test", "docs"),
        events=("pull_request", "push"),
    ),
    "reusable": Shape(
        ("gate",),
        ("api/x", "web/y", ".github/z"),
        ("api",),
        {
            6: "the gate job 'gate' stays: 'web' and 'web-size' still need it",
            36: "'web': it calls a workflow",
            50: "'web-size' stays as it is: 'web-publish' waits for it and can't be guarded",
        },
        ("gate",),
    ),
    "several": Shape(
        ("changes", "gpu-gate"),
        ("src/a.c", "src/a/README.md", "python/x.py", "python/x.txt", "kernels/k.cu", "other"),
        ("build", "gpu", "python", "both"),
        {5: "the gate job 'changes' stays: 'neither'", 77: "'neither': `needs.changes.outputs.cpp != 'true'` asks for"},
        ("changes",),
        Asked({"kernels": "cuda"}),
        {"cuda": ("kernels/**",)},
        {"git diff": said(kernels=below("kernels/"))},
        ("pull_request", "push"),
    ),
    "outputs": Shape(
        ("changes",),
        ("app/x", "e2e/y", "z"),
        ("test", "report"),
        {5: "the gate job 'changes' stays: 'outside'", 50: "'outside' uses needs.changes.outputs.app in 'env.APP'"},
        ("changes",),
    ),
    "anchors": Shape(
        ("changes",),
        ("one/x", "two/y", "three"),
        ("debug", "release"),
        {4: "the gate job 'changes' stays: 'two'", 41: "'two' shares this text, by an anchor, with 'lint'"},
        ("changes",),
    ),
    "windows": Shape(
        ("paths",),
        ("src/x", "CMakeLists.txt", "y", "docs/CMakeLists.txt"),
        ("linux",),
        {5: "the gate job 'paths' stays: 'all'", 24: "'all' runs on Windows"},
        ("paths",),
    ),
    "aggregate": Shape(
        ("changes",),
        ("backend/a", "frontend/b", "proto/c", "docs/d"),
        ("backend", "frontend", "integration", "smoke"),
    ),
    "script": Shape(
        ("decide",),
        ("src/x", "docs/y.md", "z.md"),
        ("unit", "slow"),
        asked=Asked({"code": "code", "decide.skip": "!code"}),
        lanes={"code": ("src/**",)},
        scripts={"ci/changed.sh": said(code=below("src/"), skip=lambda paths: not below("src/")(paths))},
        events=("pull_request", "merge_group"),
    ),
    "own_paths": Shape(
        ("gate",),
        ("src/a.py", "src/a.md", "tests/t", "x"),
        ("kernels", "release"),
        events=("pull_request", "push"),
    ),
    "dynamic": Shape(
        ("plan",),
        ("crates/a", "tools/b", "c"),
        ("audit",),
        {
            4: "the gate job 'plan' stays: 'crates' and 'check'",
            18: "'crates': `needs.plan.outputs.matrix != '[]'` is no test",
            21: "'crates' uses needs.plan.outputs.matrix in 'strategy.matrix.part'",
            39: "'check' stays as it is: 'shards' takes needs.check.outputs.shards for 'strategy'",
        },
        ("plan",),
        scripts={"make split": lambda _: {"shards": '["1", "2"]'}},
    ),
    "changed_files": Shape(
        ("changed",),
        ("a/b.go", "go.mod", "charts/x/y", "scripts/a.sh", "scripts/old/b.sh", "Makefile.am", "z"),
        ("go", "helm", "scripts"),
        {4: "the gate job 'changed' stays: 'release'", 49: "'release': the gate job has an `if:` of its own"},
        ("changed",),
    ),
}


def source_of(name: str) -> str:
    return (FOLDER / f"{name}.yml").read_text(encoding="utf-8")


def migrated(name: str, source: str | None = None):
    shape = SHAPES[name]
    return migrating.run_of(source or source_of(name), shape.asked, shape.lanes, f"{name}.yml")


@dataclass(frozen=True)
class Change:
    paths: tuple[str, ...]
    event: str
    ref: str
    fails: str | None


def changes(name: str) -> list[Change]:
    """Twenty changes: every path alone first, then several at once, in some of which a step fails."""
    chance = random.Random(name)
    shape = SHAPES[name]
    jobs = yaml.safe_load(source_of(name))["jobs"]
    steps = [step for job, declared in jobs.items() if job not in shape.gates for step in declared.get("steps", [])]
    texts = sorted({str(step.get("name") or step.get("run") or step.get("uses")) for step in steps})
    made = [Change((), shape.events[0], "refs/heads/main", None)]
    made += [Change((path,), shape.events[-1], "refs/heads/main", None) for path in shape.paths]
    while len(made) < 20:
        some = tuple(chance.sample(shape.paths, chance.randint(1, min(3, len(shape.paths)))))
        event = chance.choice(shape.events)
        made.append(
            Change(some, event, chance.choice(("refs/heads/main", "refs/pull/1/merge")), chance.choice([*texts, None]))
        )
    return made


def schemas() -> dict[str, dict[str, Any]]:
    """Our own, and the public one where a package that brings it is installed."""
    found = {"own": json.loads((FOLDER / "schema.json").read_text())}
    package = importlib.util.find_spec("check_jsonschema")
    for folder in (package.submodule_search_locations or []) if package else []:
        found["public"] = json.loads(Path(folder, "builtin_schemas/vendor/github-workflows.json").read_text())
    return found


def as_json(text: str) -> Any:
    """A workflow as data, with `on` as the text that it is."""
    found = yaml.safe_load(text)
    return {("on" if key is True else key): value for key, value in found.items()}


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_guarded_and_what_is_left(name):
    shape = SHAPES[name]
    result = migrated(name)
    jobs = yaml.safe_load(result.text)["jobs"]
    guarded = {job for job, declared in jobs.items() if declared.get("steps", [{}])[0].get("uses") == migrating.USES}
    assert guarded == set(shape.guarded)
    assert {gate for gate in shape.gates if gate in jobs} == set(shape.stays)
    assert list(jobs) == [
        job for job in yaml.safe_load(source_of(name))["jobs"] if job not in shape.gates or job in shape.stays
    ]
    assert [problem.at.line for problem in result.left] == sorted(shape.left)
    assert [
        (problem.at.line, problem.message)
        for problem in result.left
        if not problem.message.startswith(shape.left[problem.at.line])
    ] == []


@pytest.mark.parametrize("transitive", [True, False], ids=["as GitHub", "direct needs only"])
@pytest.mark.parametrize("name", SHAPES)
def test_twenty_changes_run_the_same(name, transitive):
    shape = SHAPES[name]
    source, result = source_of(name), migrated(name)
    sizes = set()
    for change in changes(name):
        github = {
            "event_name": change.event,
            "ref": change.ref,
            "repository": "o/r",
            "actor": "a",
            "sha": "1" * 40,
            "event": {},
        }
        before, after = migrating.both(
            source, result, github, change.paths, shape.lanes, shape.scripts, change.fails, shape.gates, transitive=transitive
        )
        assert (change, migrating.differences(before, after, shape.gates)) == (change, [])
        sizes.add(len(migrating.work(after, shape.gates)))
    assert len(sizes) > 1, "all changes run the same: they tell nothing"


@pytest.mark.parametrize("schema", schemas().values(), ids=schemas())
@pytest.mark.parametrize("name", SHAPES)
def test_the_result_is_valid(name, schema):
    validator = jsonschema.Draft7Validator(schema)
    assert [error.message for error in validator.iter_errors(as_json(source_of(name)))] == []
    assert [error.message for error in validator.iter_errors(as_json(migrated(name).text))] == []


@pytest.mark.parametrize("name", SHAPES)
def test_lines_that_stay_are_the_same_bytes(name):
    """Every line of the result that is not new stood in the file, in the same order; comments only go with a gate job."""
    import difflib

    before, after = source_of(name).splitlines(), migrated(name).text.splitlines()
    codes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    new = [line.strip() for kind, _, _, low, high in codes if kind != "equal" for line in after[low:high]]
    known = ("if:", "- id: touchgate", "uses: " + migrating.USES, "with:", "lane:", "workflow:", "base:", "head:", "needs:")
    rest = ("!cancelled()", "(success() ||")  # lines of conditions that had to change
    other = [line for line in new if not line.startswith(known) and "steps.touchgate" not in line and line not in rest]
    assert other == []


@pytest.mark.parametrize("name", SHAPES)
def test_line_ends_and_marks_are_kept(name):
    plain = migrated(name)
    windows = migrated(name, "\ufeff" + source_of(name).replace("\n", "\r\n"))
    assert windows.text == "\ufeff" + plain.text.replace("\n", "\r\n")
    assert migrated(name, source_of(name).rstrip("\n")).text.rstrip("\n") == plain.text.rstrip("\n")


@pytest.mark.parametrize("name", SHAPES)
def test_a_second_time_changes_nothing(name):
    shape = SHAPES[name]
    first = migrated(name)
    lanes = {**shape.lanes, **{lane: found[0] for lane, found in first.lanes.items()}}
    again = migrating.run_of(first.text, shape.asked, lanes, f"{name}.yml")
    assert again.text is None


def broken(text: str, chance: random.Random) -> str:
    """The text with a few lines lost, doubled, swapped, cut, indented or spoilt."""
    lines = text.splitlines(keepends=True)
    for _ in range(chance.randint(1, 4)):
        place, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        line = lines[place]
        spoilt, by = chance.choice(["'", ":", "- ", "&", "*", "true", "needs"]), chance.choice(["", "'", "x", "[", "!"])
        lines[place] = chance.choice(
            [
                "",
                line + lines[other],
                lines[other],
                line[: chance.randint(0, 60)].rstrip("\n") + "\n",
                " " * chance.randint(1, 3) + line,
                line[chance.randint(0, 4) :],
                line.replace(spoilt, by, 1),
            ]
        )
    return "".join(lines)


@pytest.mark.parametrize("name", SHAPES)
def test_a_broken_workflow_is_migrated_or_refused_with_a_place(name):
    chance = random.Random(name)
    texts = [broken(source_of(name), chance) for _ in range(20)]
    readable = [text for text in texts if not located.read(text.encode(), "x.yml").problems]
    for text in readable:
        result = migrated(name, text)
        assert result.text is None or yaml.safe_load(result.text)
    for text in texts:
        if text not in readable:
            with pytest.raises(DeclarationError):
                migrated(name, text)
    assert readable

"""Random small workflows with gate jobs: whatever is migrated runs what it ran, and what is left alone is as it was."""

from __future__ import annotations

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import migrating
from tests.test_migrate_shapes import as_json, schemas
from touchgate.migrate.gates import Asked

FILTERS = ("a", "b", "c")
GATE = """\
  changes:
    runs-on: ubuntu-latest
    outputs:
      a: ${{ steps.filter.outputs.a }}
      b: ${{ steps.filter.outputs.b }}
    steps:
      - uses: dorny/paths-filter@v3
        id: filter
        with:
          filters: |
            a: a/**
            b: [b/**, ab/**]
"""
SECOND = """\
  other:
    runs-on: ubuntu-latest
    outputs:
      c: ${{ steps.diff.outputs.c }}
    steps:
      - id: diff
        run: git diff --name-only | tee -a "$GITHUB_OUTPUT"
"""
RESULTS = ("success", "failure", "skipped", "cancelled")


def choice(*texts: str) -> st.SearchStrategy[str]:
    return st.sampled_from(texts)


@st.composite
def ordinary(draw, needs: list[str]) -> str:
    """A condition as people write them: yes from a gate, perhaps after a status function or beside something else."""
    outputs = [f"needs.changes.outputs.{name} == 'true'" for name in "ab"] * ("changes" in needs)
    outputs += ["needs.other.outputs.c != 'false'", "'true' == needs.other.outputs.c"] * ("other" in needs)
    work = [name for name in needs if name.startswith("job")]
    rest = ["always()", "!cancelled()", "!failure()", "success()", "failure()", "github.event_name == 'push'"]
    rest += [f"needs.{name}.result != 'failure'" for name in work]
    rest += [f"(needs.{name}.result == 'success' || needs.{name}.result == 'skipped')" for name in work]
    rest += [f"needs.{name}.outputs.v == 'v'" for name in work]
    if not outputs:
        return draw(choice(*rest))
    one, other, more = draw(choice(*outputs)), draw(choice(*outputs)), draw(choice(*rest))
    return draw(choice(one, one, f"{more} && {one}", f"{more} && ({one} || {other})", f"{one} && {other}", f"{one} || {more}"))


@st.composite
def conditions(draw, needs: list[str]) -> str:
    """An expression over the outputs of the gates, the results and outputs of jobs, statuses and the event.

    Most are of the kind that people write; the others are anything.
    """
    if draw(st.integers(0, 4)):
        return draw(ordinary(needs))
    outputs = [f"needs.changes.outputs.{name}" for name in "ab"] * ("changes" in needs)
    outputs += ["needs.other.outputs.c"] * ("other" in needs)
    atoms = [choice("github.event_name == 'push'", "true", "startsWith(github.ref, 'refs/heads/')")]
    atoms += [choice("always()", "success()", "failure()", "!failure()", "!cancelled()")]
    for _ in range(3):
        atoms += [st.builds("{} {}".format, choice(*outputs), choice("== 'true'", "!= 'false'"))] if outputs else []
    if outputs:
        rare = st.builds("{} {}".format, choice(*outputs), choice("== 'false'", "!= 'true'", "== true", "", "!= ''"))
        atoms += [st.one_of(rare, st.builds("fromJSON({})".format, choice(*outputs)))]
    if needs:
        atoms.append(st.builds("needs.{}.result {} '{}'".format, choice(*needs), choice("==", "!="), choice(*RESULTS)))
        atoms.append(st.builds("contains(needs.*.result, '{}')".format, choice(*RESULTS)))
    work = [name for name in needs if name.startswith("job")]
    if work:
        atoms.append(st.builds("needs.{}.outputs.v == 'v'".format, choice(*work)))
    atom = st.one_of(*atoms)
    shape = draw(
        choice("{}", "{}", "{} && {}", "{} && {}", "{} || {}", "!({} || {})", "{} && ({} || {})", "({} && {}) || {}", "!{}")
    )
    text = shape.replace("!{}", "!({})")
    while "{}" in text:
        text = text.replace("{}", draw(atom), 1)
    return text


def written(draw, key: str, expression: str, indent: str) -> str:
    """An entry with an expression, in one of the ways in which people write it."""
    style = draw(choice("plain", "wrapped", "single", "double", "literal", "folded"))
    if style == "wrapped":
        return f"{indent}{key}: ${{{{ {expression} }}}}\n"
    if style == "single" or (style == "plain" and expression.startswith(("!", "'"))):
        quoted = expression.replace("'", "''")
        return f"{indent}{key}: '{quoted}'\n"
    if style == "double":
        return f'{indent}{key}: "{expression}"  # why\n'
    if style in ("literal", "folded"):
        sign = "|" if style == "literal" else ">-"
        return f"{indent}{key}: {sign}\n{indent}  " + expression.replace(" && ", f" &&\n{indent}  ") + "\n"
    return f"{indent}{key}: {expression} # why\n"


@st.composite
def workflows(draw) -> str:
    text = "name: random\non: [pull_request, push]\n\njobs:\n" + GATE
    gates = ["changes"]
    if draw(st.booleans()):
        text += "\n" + SECOND
        gates.append("other")
    jobs: list[str] = []
    for number in range(draw(st.integers(1, 5))):
        name = f"job{number}"
        needs = draw(st.lists(choice(*gates, *gates, *jobs), unique=True, max_size=3))
        text += draw(choice("\n", "\n  # about it\n", "")) + f"  {name}:\n" + needs_of(draw, needs)
        if draw(st.integers(0, 3)):
            text += written(draw, "if", draw(conditions(needs)), "    ")
        text += body_of(draw, name, needs)
        jobs.append(name)
    return text


def needs_of(draw, needs: list[str]) -> str:
    style = draw(choice("flow", "block", "text"))
    if not needs:
        return ""
    if style == "text" and len(needs) == 1:
        return f"    needs: {needs[0]}\n"
    if style == "block":
        return "    needs:\n" + "".join(f"      - {need}\n" for need in needs)
    return f"    needs: [{', '.join(needs)}] # first\n"


def body_of(draw, name: str, needs: list[str]) -> str:
    """What stands behind a job's condition: a call, or steps."""
    if not draw(st.integers(0, 19)):
        return "    uses: ./.github/workflows/other.yml\n"
    text = "    runs-on: ubuntu-latest\n"
    if draw(st.booleans()):
        text += "    outputs:\n      v: " + draw(choice("${{ steps.out.outputs.v }}", "v")) + "\n"
    text += "    steps:\n"
    for place in range(draw(st.integers(1, 3))):
        run = f"run: make {name} {place}\n"
        named = draw(st.booleans())
        text += draw(choice("      # a step\n", ""))
        text += f"      - name: {name} step {place}\n" if named else f"      - {run}"
        if draw(st.integers(0, 3)) == 0:
            text += written(draw, "if", draw(conditions(needs)), "        ")
        if draw(st.integers(0, 7)) == 0 and needs:
            parts = choice("outputs.v", "outputs.a", "outputs.b", "outputs.c", "result")
            use = f"needs.{draw(choice(*needs))}.{draw(parts)}"
            text += f"        env:\n          V: x ${{{{ {use} }}}} y\n"
        text += f"        {run}" if named else ""
    return text + ("      - id: out\n        run: make out\n" if draw(st.booleans()) else "")


CHANGES = [(), ("a/x",), ("b/x",), ("c/x",), ("a/x", "b/x"), ("ab/x", "c/x"), ("a/x", "b/x", "c/x"), ("d/x",)]


@pytest.mark.slow
def test_random_workflows_run_the_same():
    migrated: list[bool] = []

    @settings(max_examples=300, suppress_health_check=list(HealthCheck))
    @given(workflows(), st.integers(0, 4), st.booleans())
    def holds(source: str, failing: int, fails: bool):
        migrated.append(runs_the_same(source, f"make job{failing} 0" if fails else None))

    holds()
    assert sum(migrated) > len(migrated) / 4, "too few were migrated for this to say anything"


def runs_the_same(source: str, broken: str | None) -> bool:
    """Assert that a workflow, if it can be migrated, runs the same for every change; whether it could be."""
    result = migrating.run_of(source, Asked({"c": "c"}), {"c": ("c/**",)})
    if result.text is None:
        return False
    validator = jsonschema.Draft7Validator(schemas()["own"])
    assert [error.message for error in validator.iter_errors(as_json(result.text))] == []
    scripts = {"git diff": lambda paths: {"c": str(any(path.startswith("c/") for path in paths)).lower()}}
    scripts["make out"] = lambda _: {"v": "v"}
    gates = [name for name in ("changes", "other") if name in yaml.safe_load(source)["jobs"]]
    for paths in CHANGES:
        for event in ("pull_request", "push"):
            github = {"event_name": event, "ref": "refs/heads/x"}
            before, after = migrating.both(source, result, github, paths, {"c": ("c/**",)}, scripts, broken, gates)
            assert migrating.differences(before, after, gates) == [], (paths, event, result.text)
    return True

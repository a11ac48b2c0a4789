"""Gate jobs by their shape: what decides in a way that can't be read is listed with the option that helps, then converted."""

from __future__ import annotations

# ruff: noqa: E501 - a table reads better with a row a line
import pytest
import yaml

from tests import migrating
from touchgate.migrate.gates import Asked

AT = f"{migrating.FOLDER}/x.yml"
LANES = {"code": ("src/**",)}
SHAPE = "'gate' has the shape of a gate job ('work' tests its output 'a')"
WORK = "  work:\n    needs: gate\n    if: needs.gate.outputs.a == 'true'\n    runs-on: ubuntu-latest\n    steps:\n      - run: make\n"


def gated(steps: str, value: str = "${{ steps.g.outputs.a }}", more: str = "", work: str = WORK) -> str:
    head = f"on: pull_request\njobs:\n  gate:\n    runs-on: ubuntu-latest\n{more}    outputs:\n      a: {value}\n    steps:\n"
    return f"{head}      - uses: actions/checkout@v4\n{steps}{work}"


def left(source: str, asked: Asked | None = None) -> list[str]:
    return [str(problem) for problem in migrating.run_of(source, asked, LANES).left]


def runs_alike(source: str, result, piece: str, **outputs: str) -> None:
    """The old and the new form, where whatever decides says "true" for src/ and "false" or nothing else."""
    for paths in ((), ("src/x",), ("y",)):
        hit = any(path.startswith("src/") for path in paths)
        scripts = {piece: lambda _, hit=hit: {name: "true" if hit else no for name, no in (outputs or {"a": "false"}).items()}}
        github = {"event_name": "pull_request", "ref": "refs/heads/x"}
        act_as = source.replace("uses: ./.github/actions/gate", f"run: {piece}")
        before, after = migrating.both(act_as, result, github, paths, LANES, scripts, None, ["gate"])
        assert migrating.differences(before, after, ["gate"]) == [], paths


@pytest.mark.parametrize(
    "decides",
    ["run: ci/gate.sh", "run: python ci/gate.py", "run: ./gate", "uses: ./.github/actions/gate", "uses: someone/changed@v1"],
)
def test_what_decides_unseen_is_listed_and_then_converted(decides):
    source = gated(f"      - id: g\n        {decides}\n")
    called = decides.partition(" ")[2]
    assert left(source) == [
        f"{AT}:9:9: {SHAPE}, and what `{called}` decides can't be read; --lane x.yml:a=LANE says what it asks"
    ]
    result = migrating.run_of(source, Asked({"gate.a": "code"}), LANES)
    assert result.left == ()
    assert list(yaml.safe_load(result.text)["jobs"]) == ["work"]
    assert f"{AT}:9:9: `{called}` goes with the gate job 'gate'; nothing of it was read" in map(str, result.notes)
    if decides.startswith("run:"):
        runs_alike(source, result, called)


def test_a_called_workflow_is_listed_and_converted_where_it_only_decides():
    source = f"on: pull_request\njobs:\n  gate:\n    uses: ./.github/workflows/gate.yml\n{WORK}"
    hint = "--lane x.yml:a=LANE says what it asks, with --gate x.yml:gate where the workflow does nothing else"
    assert left(source) == [f"{AT}:4:11: {SHAPE}, and calls a workflow that may do more than decide; {hint}"]
    asked = Asked({"gate.a": "code"})
    assert left(source, asked)[0].startswith(f"{AT}:4:11: 'gate' may do more than decide: it calls a workflow; ")
    result = migrating.run_of(source, Asked({"gate.a": "code"}, gates=frozenset({"gate"})), LANES)
    assert result.left == ()
    assert list(yaml.safe_load(result.text)["jobs"]) == ["work"]


@pytest.mark.parametrize(
    ("steps", "at", "what"),
    [
        ("      - run: make all\n      - id: g\n        run: make image\n", 9, "a script that writes no output"),
        ("      - uses: docker/login-action@v3\n      - id: g\n        uses: docker/build-push-action@v6\n", 9, "docker/login-action@v3"),
        ("      - id: g\n        run: make image\n      - uses: actions/upload-artifact@v4\n", 11, "actions/upload-artifact@v4"),
    ],
)  # fmt: skip
def test_a_job_that_works_is_not_told_to_be_a_gate(steps, at, what):
    work = WORK.replace("== 'true'", "!= ''")
    hint = "what works stays, and can have a gate of its own; where all of it only serves the decision: --gate x.yml:gate --lane x.yml:a=LANE"
    assert left(gated(steps, work=work)) == [f"{AT}:{at}:9: {SHAPE}, and works beside: {what}; {hint}"]
    # The meaning of its output does not make its other steps go.
    assert migrating.run_of(gated(steps), Asked({"gate.a": "code"}), LANES).text is None


def test_work_that_a_decision_looks_at_is_work():
    steps = "      - id: b\n        run: make\n      - id: g\n        run: ci/gate.sh ${{ steps.b.outputs.x }}\n"
    assert any("may do more than decide" in line for line in left(gated(steps), Asked({"gate.a": "code"})))


def test_an_output_that_asks_for_an_event_as_well_is_no_lane():
    source = gated("      - id: g\n        run: ci/gate.sh\n", "${{ github.event_name == 'push' || steps.g.outputs.a }}")
    message = "output 'a' asks for `github.event_name == 'push' || steps.g.outputs.a` as well, which no lane says"
    assert f"{AT}:6:10: {message}; that belongs into the `if:` of the jobs" in left(source, Asked({"gate.a": "code"}))


def test_either_of_two_steps_may_decide():
    steps = "      - id: g\n        run: ci/gate.sh\n      - id: h\n        run: ci/more.sh\n"
    source = gated(steps, "${{ steps.g.outputs.a || steps.h.outputs.a }}")
    assert left(source, Asked({"gate.a": "code"})) == []


def test_a_comparison_with_a_word_that_is_never_written_is_left_alone():
    """The job ran always, and would run where it is touched only."""
    script = "      - id: g\n        run: git diff --quiet || echo a=true >> $GITHUB_OUTPUT\n"
    source = gated(script, work=WORK.replace("== 'true'", "!= 'false'"))
    found = left(source, Asked({"gate.a": "code"}))
    assert any("never meets the text 'false', which is not written there" in line for line in found)
    runs_alike(gated(script), migrating.run_of(gated(script), Asked({"gate.a": "code"}), LANES), "git diff", a="")


def test_what_is_converted_in_part_is_not_called_left_alone(tmp_path, monkeypatch, capsys):
    from touchgate import console

    monkeypatch.chdir(tmp_path)
    folder = tmp_path / migrating.FOLDER
    folder.mkdir(parents=True)
    steps = "      - id: f\n        uses: dorny/paths-filter@v3\n        with: {filters: 'a: src/**'}\n"
    called = "  more:\n    needs: gate\n    if: needs.gate.outputs.a == 'true'\n    uses: ./.github/workflows/y.yml\n"
    (folder / "x.yml").write_text(gated(steps, "${{ steps.f.outputs.a }}") + called)
    assert console.main(["migrate", "."], {}) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"{AT}:3:3: not converted: the gate job 'gate' stays: 'more' still needs it"
    assert not any("left alone" in line for line in lines)
    assert any(
        line.startswith("note: the decision now runs in 1 job, on its own runner and behind its queue; ") for line in lines
    )


def test_a_scarce_runner_is_named():
    steps = "      - id: f\n        uses: dorny/paths-filter@v3\n        with: {filters: 'a: src/**'}\n"
    source = gated(steps, "${{ steps.f.outputs.a }}", work=WORK.replace("ubuntu-latest", "[self-hosted, gpu]"))
    waits = "'work' waits in the queue of `self-hosted` and `gpu` before the gate answers; a gate in front would spare it that"
    assert f"{AT}:15:14: {waits}" in map(str, migrating.run_of(source).notes)


def test_a_job_that_needs_others_is_not_promised_to_go():
    source = gated("      - id: g\n        run: ci/gate.sh\n", more="    needs: first\n").replace(
        "jobs:\n", "jobs:\n  first:\n    runs-on: u\n    steps: [{run: make}]\n"
    )
    assert left(source) == [
        f"{AT}:13:9: {SHAPE}, and what `ci/gate.sh` decides can't be read; it needs first itself, so it stays"
    ]


def test_what_was_said_of_an_output_is_told():
    result = migrating.run_of(gated("      - id: g\n        run: ci/gate.sh\n"), Asked({"gate.a": "code"}), LANES)
    said = "output 'a' asks for the lane 'code' now, as was said, in place of what its steps decide"
    assert f"{AT}:6:10: {said}" in map(str, result.notes)


DORNY = """\
      - id: f
        uses: dorny/paths-filter@v3
        with:
          filters: |
            a: src/**
            m: m/**
"""
USES = {
    "a matrix": ("    strategy: {matrix: {p: '${{ fromJSON(needs.gate.outputs.changes) }}'}}\n", "settled before any step runs; a gate in front stays; the action's output `lanes` is made for a matrix"),
    "an entry of a list": ("    if: contains(fromJSON(needs.gate.outputs.changes), 'a')\n", "is no plain test of an output"),
    "the job's env": ("    env: {RUN: '${{ needs.gate.outputs.a }}'}\n", "in 'env.RUN', which is settled before any step runs"),
    "an output by a matrix": ("    strategy: {matrix: {p: [a, m]}}\n    env: {}\n", "takes all outputs of 'gate' in 'steps.if', which no step has"),
    "a step's env": ("", ""),
    "a label beside": ("    if: needs.gate.outputs.a == 'true' || contains(github.event.labels.*.name, 'full')\n", ""),
    "a push beside": ("    if: github.event_name == 'push' || needs.gate.outputs.a == 'true'\n", ""),
    "a gate that may be skipped": ("    if: always() && needs.gate.outputs.a == 'true' && (needs.gate.result == 'success' || needs.gate.result == 'skipped')\n", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_ways_to_use_a_gate_run_alike_or_are_listed(name):
    head, reason = USES[name]
    env = "        env: {RUN: '${{ needs.gate.outputs.m }}'}\n" if name == "a step's env" else ""
    condition = "        if: needs.gate.outputs[matrix.p] == 'true'\n" if name == "an output by a matrix" else ""
    work = f"  work:\n    needs: gate\n{head}    runs-on: ubuntu-latest\n    steps:\n      - run: make\n{env}{condition}"
    more = "      m: ${{ steps.f.outputs.m }}\n      changes: ${{ steps.f.outputs.changes }}\n    steps:\n"
    source = gated(DORNY, "${{ steps.f.outputs.a }}", work=work).replace("    steps:\n", more, 1)
    result = migrating.run_of(source)
    assert [problem for problem in map(str, result.left) if problem.endswith(reason)] if reason else result.left == ()
    for event in ("pull_request", "push"):
        for paths in ((), ("src/x",), ("m/y",), ("src/x", "m/y"), ("z",)) if result.text else ():
            github = {"event_name": event, "ref": "r", "event": {"labels": []}}
            before, after = migrating.both(source, result, github, paths, {}, {}, None, ["gate"])
            assert migrating.differences(before, after, ["gate"]) == []

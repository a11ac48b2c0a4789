"""`touchgate migrate`: the command, what it writes, and the single rules."""

from __future__ import annotations

# ruff: noqa: E501 - a table reads better with a row a line
import os
import re
from pathlib import Path

import pytest

from tests import migrating
from touchgate import console
from touchgate.gate.declarations import read_lanes
from touchgate.migrate import cli, filters
from touchgate.migrate.expressions import Unreadable, parse, show
from touchgate.migrate.gates import Asked

DOCS = Path(__file__).resolve().parent.parent / "docs/migrate.md"
GATE = """\
  gate:
    runs-on: ubuntu-latest
    outputs:
      a: ${{ steps.f.outputs.a }}
      b: ${{ steps.f.outputs.b }}
    steps:
      - uses: dorny/paths-filter@v3
        id: f
        with:
          filters: |
            a: a/**
            b: b/**
"""


def workflow(jobs: str, gate: str = GATE, on: str = "pull_request") -> str:
    return f"on: {on}\njobs:\n{gate}{jobs}"


def job(more: str, name: str = "x", steps: str = "    steps:\n      - run: make\n") -> str:
    return f"  {name}:\n    runs-on: ubuntu-latest\n{more}{steps}"


NEEDS = "    needs: gate\n    if: needs.gate.outputs.a == 'true'\n"


def left(source: str, asked: Asked | None = None, lanes=None) -> list[str]:
    """What is left alone, without the line on the gate that stays."""
    result = migrating.run_of(source, asked, lanes)
    return [str(problem) for problem in result.left if "the gate job" not in problem.message or "stays" not in problem.message]


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run the command in a folder that holds the given files."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, **files: str):
        for name, text in files.items():
            put(tmp_path, name.replace("__", "/") + ".yml", text)
        code = console.main(["migrate", *arguments], {})
        return (code, *capsys.readouterr())

    return call


def put(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


CI = ".github/workflows/ci.yml"


# ---- the page


def test_the_page_shows_what_happens(command, tmp_path):
    blocks = re.findall(r"```(yaml|diff)\n(.*?)```", DOCS.read_text(), re.DOTALL)
    (_, before), (_, change), (_, lanes) = blocks[:3]
    put(tmp_path, CI, before)
    uses = "example/touchgate@0123456789012345678901234567890123456789"
    code, out, err = command("--uses", uses, ".")
    goes = "'changes' goes: where it is a required check itself, take it off that list, or every change waits for it"
    costs = "the decision now runs in each of 2 jobs, on their own runner and behind its queue"
    front = "a gate in front spares scarce runners that: see 'What it costs' in docs/migrate.md"
    note = f"{CI}:6:3: note: {goes}\nnote: {costs}; {front}\n"
    assert (code, err) == (0, f"{note}2 files would change; --write changes them\n")
    assert out.startswith(change)
    code, out, err = command("--write", "--uses", uses, ".")
    assert (code, out, err) == (0, f"written  {CI}\nnew  tasks/ci.yml\n", note)
    assert (tmp_path / "tasks/ci.yml").read_text() == lanes
    declared = read_lanes({"tasks/ci.yml": lanes.encode()})
    assert {name: [pattern.text for pattern in lane.paths] for name, lane in declared.items()} == {
        "backend": ["backend/**", "proto/**"],
        "web": ["web/**/*.js", "web/**/*.ts"],
    }


def test_every_option_is_on_the_page():
    text = DOCS.read_text()
    options = [option for action in cli._parser()._actions for option in action.option_strings if option.startswith("--")]
    assert [option for option in options if option != "--help" and f"`{option}" not in text] == []


# ---- the command


def test_help(command):
    with pytest.raises(SystemExit) as ended:
        command("--help")
    assert ended.value.code == 0


def test_without_a_folder_the_repository_around_is_meant(command, tmp_path, monkeypatch):
    put(tmp_path, CI, workflow(job(NEEDS)))
    (tmp_path / ".git").mkdir()
    (tmp_path / "src/deep").mkdir(parents=True)
    whole = command(".")
    assert whole[0] == 0
    assert whole[1].startswith(f"--- a/{CI}\n")
    for folder in (".", "src/deep"):
        monkeypatch.chdir(tmp_path / folder)
        assert command() == whole


def test_nothing_to_do(command, tmp_path):
    put(tmp_path, CI, "on: push\njobs:\n" + job(""))
    assert command(".") == (0, "", "no gate job to take out\n")


def test_what_is_left_alone_is_listed_and_the_code_is_1(command, tmp_path):
    put(
        tmp_path,
        CI,
        workflow("  x:\n    needs: gate\n    if: needs.gate.outputs.a == 'true'\n    uses: ./.github/workflows/y.yml\n"),
    )
    assert command(".github/workflows") == (
        1,
        "",
        (
            f"{CI}:3:3: left alone: the gate job 'gate' stays: 'x' still needs it\n"
            f"{CI}:15:3: left alone: 'x': it calls a workflow and has no steps of its own\n"
        ),
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nowhere",), "nowhere: there is no such file or folder"),
        ((".",), "there are no workflows here, nor in .github/workflows, .forgejo/workflows, .gitea/workflows"),
        (("--write", "."), "--write needs --uses REF, the action of the new steps, such as --uses OWNER/touchgate@SHA"),
        (("--uses", "x", "."), "--uses 'x' names no action: it looks like OWNER/touchgate@SHA"),
        (("--lane", "x", "."), "--lane 'x' is not FILE:OUTPUT=LANE"),
        (("--bogus", "."), "unrecognized arguments: --bogus"),
        ((".", "."), "unrecognized arguments: ."),
    ],
)
def test_usage(command, arguments, problem):
    code, out, err = command(*arguments)
    assert (code, out) == (3, "")
    assert problem in err


def test_an_unknown_lane(command, tmp_path):
    put(tmp_path, "tasks/x.yml", "lanes:\n  kernels:\n    paths: [k/**]\n    checks: [{command: make}]\n")
    put(tmp_path, CI, workflow(job(NEEDS)))
    assert command("--lane", "a=kernel", ".") == (
        3,
        "",
        "--lane a=kernel: no lane 'kernel' is declared; did you mean 'kernels'?\n",
    )


def test_a_file_that_is_no_yaml(command, tmp_path):
    put(tmp_path, CI, "on: push\njobs: {\n")
    code, out, err = command(".")
    assert (code, out) == (3, "")
    assert err.startswith(f"{CI}:3:1: not valid YAML")


def test_files_are_written_all_or_none(command, tmp_path, monkeypatch):
    first = put(tmp_path, ".github/workflows/a.yml", workflow(job(NEEDS)))
    second = put(tmp_path, ".github/workflows/b.yml", workflow(job(NEEDS)))
    first.chmod(0o640)
    replace, calls = os.replace, []

    def failing(source, target):
        calls.append(target)
        if len(calls) == 3:
            raise OSError(28, "No space left on device", str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    code, out, err = command("--write", "--uses", migrating.USES, ".")
    assert (code, out) == (3, "")
    assert err.endswith("No space left on device\n")
    assert first.read_text() == second.read_text() == workflow(job(NEEDS))
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["a.yml", "b.yml"]
    assert first.stat().st_mode & 0o777 == 0o640


def test_a_link_is_not_written_through(command, tmp_path):
    put(tmp_path, "elsewhere.yml", workflow(job(NEEDS)))
    link = tmp_path / CI
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere.yml")
    code, out, err = command("--write", "--uses", migrating.USES, ".")
    assert (code, out, err) == (3, "", f"{CI} is a symbolic link; nothing was written\n")
    assert (tmp_path / "elsewhere.yml").read_text() == workflow(job(NEEDS))


def test_two_workflows_share_a_lane_or_each_has_its_own(command, tmp_path):
    put(tmp_path, ".github/workflows/ci.yml", workflow(job(NEEDS)))
    put(tmp_path, ".github/workflows/same.yml", workflow(job(NEEDS)))
    put(tmp_path, ".github/workflows/other.yml", workflow(job(NEEDS), GATE.replace("a/**", "z/**")))
    put(tmp_path, ".forgejo/workflows/ci.yml", workflow(job(NEEDS), GATE.replace("a/**", "y/**")))
    code, out, _ = command("--write", "--uses", migrating.USES, ".")
    assert code == 0
    assert out.splitlines() == [
        "written  .github/workflows/ci.yml",
        "new  tasks/ci.yml",
        "written  .github/workflows/other.yml",
        "new  tasks/other.yml",
        "written  .github/workflows/same.yml",
        "written  .forgejo/workflows/ci.yml",
        "new  tasks/ci-workflow.yml",
    ]
    files = {f"tasks/{path.name}": path.read_bytes() for path in (tmp_path / "tasks").iterdir()}
    lanes = {name: [pattern.text for pattern in lane.paths] for name, lane in read_lanes(files).items()}
    assert lanes == {"a": ["a/**"], "other-a": ["z/**"], "ci-a": ["y/**"]}
    assert "lane: a\n" in (tmp_path / ".github/workflows/same.yml").read_text()
    assert "lane: ci-a\n" in (tmp_path / ".forgejo/workflows/ci.yml").read_text()


def test_a_filters_file_is_read(command, tmp_path):
    put(tmp_path, ".github/filters.yml", "a: a/**\n")
    gate = GATE[: GATE.index("          filters")] + "          filters: .github/filters.yml\n"
    put(tmp_path, CI, workflow(job(NEEDS), gate))
    code, out, _ = command(CI)
    assert code == 0
    assert "+      - 'a/**'\n" in out


def test_drift_is_told_with_both_places(command, tmp_path):
    put(
        tmp_path,
        CI,
        "on:\n  pull_request:\n    paths: [a, b]\n  push:\n    paths:\n      - b\n      - c\njobs:\n" + job(""),
    )
    assert command(".") == (
        0,
        "",
        (
            f"{CI}:3:13: note: 'a' is in 'paths' of pull_request, and not of push ({CI}:4:3)\n"
            f"{CI}:7:9: note: 'c' is in 'paths' of push, and not of pull_request ({CI}:2:3)\n"
            "no gate job to take out\n"
        ),
    )


# ---- single rules


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("needs.gate.outputs.a", "'x': `needs.gate.outputs.a` holds for the text 'false' as well; write == 'true'"),
        ("needs.gate.outputs.a == true", "'x': `needs.gate.outputs.a == true` compares text with true, which never is equal; write 'true'"),
        ("needs.gate.outputs.a == 'yes'", "'x': `needs.gate.outputs.a == 'yes'` is no test for 'true' or 'false'"),
        ("needs.gate.outputs.z == 'true'", "'x': 'gate' has no output 'z'"),
        ("needs.gate.outputs.a == 'true' || always()", "'x': a status function beside the gate's output, and not by `&&`, means something else in a step"),
        ("${{ needs.gate.outputs.a }} == 'true'", "'x': this condition can't be read: text around `${{ }}` makes it always true"),
        ("needs.gate.outputs.a == 'true' && (needs.gate.result != 'failure' || failure())", "'x': without its test of the gate's result it would imply success()"),
        ("needs.gate.outputs.a ==", "'x': this condition can't be read: it ends too early"),
        ("needs.gate.outputs.a == 'true' && needs.gate.result == 'failure'", "'x': it never holds when the gate job succeeds"),
    ],
)  # fmt: skip
def test_conditions_that_are_left_alone(condition, reason):
    source = workflow(job(f"    needs: gate\n    if: {condition}\n"))
    assert left(source) == [f"{migrating.FOLDER}/x.yml:18:9: {reason}"]


@pytest.mark.parametrize(
    ("condition", "own", "tests"),
    [
        ("needs.gate.outputs.a == 'true'", None, "R"),
        ("needs.gate.outputs['a'] == 'TRUE'", None, "R"),
        ("'false' != needs.gate.outputs.a", None, "R"),
        ("!(needs.gate.outputs.a == 'false')", None, "R"),
        ("fromJSON(needs.gate.outputs.a)", None, "R"),
        ("fromJSON(needs.gate.outputs.a) == true", None, "R"),
        ("!(needs.gate.outputs.a != 'true' || github.actor == 'b')", None, "R && !(github.actor == 'b')"),
        ("needs.gate.result == 'success' && needs.gate.outputs.a == 'true'", None, "R"),
        ("needs.gate.result != 'success' || needs.gate.outputs.a == 'true'", None, "R"),
        ("github.ref == 'r' && (always() && needs.gate.outputs.a == 'true')", "github.ref == 'r' && always()", "R"),
        ("(github.ref == 'r' || vars.X) && needs.gate.outputs.a == 'true'", "(github.ref == 'r' || vars.X)", "R"),
        ("contains(github.event.x.*.name, 'all') || needs.gate.outputs.a == 'true'", None, "contains(github.event.x.*.name, 'all') || R"),
    ],
)  # fmt: skip
def test_conditions_are_taken_apart(condition, own, tests):
    quoted = condition.replace("'", "''")
    result = migrating.run_of(workflow(job(f"    needs: gate\n    if: '{quoted}'\n")))
    assert result.left == ()
    import yaml

    made = yaml.safe_load(result.text)["jobs"]["x"]
    assert made.get("if") == own
    assert made["steps"][1]["if"] == tests.replace("R", "steps.touchgate.outputs.run == 'true'")


@pytest.mark.parametrize(
    ("gate", "reason"),
    [
        (GATE.replace("    steps:", "    needs: [y]\n    steps:") + job("", "y"), ":3:3: the gate job 'gate' itself needs y"),
        (GATE.replace("    steps:", "    strategy: {matrix: {n: [1]}}\n    steps:"), ":3:3: the gate job 'gate' has a matrix: its outputs are those of one leg"),
        (GATE + "      - run: make\n", ":15:9: 'gate' may do more than decide: a script that writes no output; where that only serves the decision, --gate x.yml:gate says so; work needs a job of its own"),
        (GATE + "      - uses: x/comment@v1\n", ":15:9: 'gate' may do more than decide: x/comment@v1; where that only serves the decision, --gate x.yml:gate says so; work needs a job of its own"),
        (GATE.replace("a: a/**", "a: [{added: a/**}]"), ":9:9: output 'a': it asks how a file changed (`added`, `modified`), not only which; say what it asks: --lane x.yml:a=LANE"),
        (GATE.replace("a: a/**", "a: ['a/**', '!a/x']"), ":9:9: output 'a': '!a/x' beside other patterns touches every path that it does not name there, and takes back in GitHub's dialect; say what it asks: --lane x.yml:a=LANE"),
        (GATE.replace("a: a/**", "a: a/?"), ":9:9: output 'a': 'a/?': `?` is one character there, and makes the one before optional in GitHub's dialect; say what it asks: --lane x.yml:a=LANE"),
        (GATE.replace("steps.f.outputs.a", "steps.f.outputs.a || 'true'"), ":6:10: this output is more than one step's output; say what it asks: --lane x.yml:a=LANE"),
        (GATE.replace("steps.f.outputs.a", "steps.g.outputs.a"), ":6:10: no step of 'gate' has the id 'g'"),
        (GATE.replace("a: a/**", "a: []"), ":9:9: output 'a': 'a' has no patterns; say what it asks: --lane x.yml:a=LANE"),
        (GATE.replace("        id: f\n", "        id: f\n        if: github.ref == 'refs/heads/main'\n"), ":11:13: output 'a' is empty where the `if:` of its step does not hold; say what it asks: --lane x.yml:a=LANE"),
        (GATE.replace("    steps:", "    environment: live\n    steps:"), ":8:18: the gate job 'gate' asks for an environment, and its approval; where that only serves the decision, --gate x.yml:gate says so; work needs a job of its own"),
        (GATE.replace("    steps:", "    concurrency: one\n    steps:"), ":8:18: the gate job 'gate' takes part in a concurrency group; where that only serves the decision, --gate x.yml:gate says so; work needs a job of its own"),
        (GATE + "      - run: echo on && make\n", ":15:9: 'gate' may do more than decide: a script that writes no output; where that only serves the decision, --gate x.yml:gate says so; work needs a job of its own"),
        (GATE + "      - run: git diff --quiet || make\n", ":15:9: 'gate' may do more than decide: a script that writes no output; where that only serves the decision, --gate x.yml:gate says so; work needs a job of its own"),
        (GATE + "      - run: echo $(make)\n", ":15:9: 'gate' may do more than decide: a script that writes no output; where that only serves the decision, --gate x.yml:gate says so; work needs a job of its own"),
        (GATE + "      - run: ./deploy; echo v=1 >> $GITHUB_OUTPUT\n", ":15:9: 'gate' may do more than decide: a script whose output decides nothing; where that only serves the decision, --gate x.yml:gate says so; work needs a job of its own"),
    ],
)  # fmt: skip
def test_gates_that_are_left_alone(gate, reason):
    assert left(workflow(job(NEEDS), gate)) == [f"{migrating.FOLDER}/x.yml{reason}"]


@pytest.mark.parametrize(
    "step",
    [
        "      - run: echo v=$(git rev-parse HEAD) >> $GITHUB_OUTPUT\n",
        "      - run: |\n          # what is it?\n          echo hello >&2\n          git fetch origin main\n",
        "      - id: base\n        run: ./base.sh >> $GITHUB_OUTPUT\n",
    ],
)
def test_a_gate_may_prepare_and_tell(step):
    gate = GATE.replace("          filters:", "          base: ${{ steps.base.outputs.v }}\n          filters:")
    assert left(workflow(job(NEEDS), gate + step)) == []


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        # The action takes a last part without a star or a dot for a folder.
        ("src", "a pattern that may name a folder; write 'folder/**'"),
        ("packages/*/src", "a pattern that may name a folder; write 'folder/**'"),
        ("'*.js *.ts'", "a blank in a pattern, which older versions take for two; write one pattern a line"),
    ],
)
def test_patterns_of_changed_files_that_are_left_alone(pattern, reason):
    gate = f"""\
  gate:
    runs-on: ubuntu-latest
    outputs:
      a: ${{{{ steps.f.outputs.any_modified }}}}
    steps:
      - uses: tj-actions/changed-files@v45
        id: f
        with:
          files: {pattern}
"""
    assert left(workflow(job(NEEDS), gate)) == [
        f"{migrating.FOLDER}/x.yml:8:9: output 'a': {reason}; or say what it asks: --lane x.yml:a=LANE"
    ]


def test_a_line_break_behind_a_condition_makes_it_true_and_is_left_alone():
    needs = "    needs: gate\n    if: |\n      ${{ needs.gate.outputs.a == 'true' }}\n"
    message = "'x': this condition can't be read: a line break behind `${{ }}` makes it always true"
    assert left(workflow(job(needs))) == [f"{migrating.FOLDER}/x.yml:18:9: {message}"]


def test_who_looks_how_the_gate_ended_goes_on_looking_while_it_stays():
    called = f"  called:\n{NEEDS}    uses: ./.github/workflows/called.yml\n"
    failed = "    steps:\n      - run: exit 1\n        if: contains(needs.*.result, 'failure')\n"
    watching = job("    needs: [gate, x, called]\n    if: always()\n", "all", failed)
    result = migrating.run_of(workflow(job(NEEDS) + called + watching))
    assert result.text is not None
    assert watching in result.text
    assert GATE in result.text
    gone = migrating.run_of(workflow(job(NEEDS) + watching.replace(", called", "")))
    assert gone.text is not None
    assert "    needs: [x]\n" in gone.text


def test_the_person_may_say_that_a_job_only_decides():
    source = workflow(job(NEEDS), GATE + "      - run: make\n")
    assert left(source, Asked(gates=frozenset({"gate"}))) == []


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (
            "    steps: [{run: make}]\n",
            "it is written in braces or brackets; write the job and its steps a line each, steps behind '- '",
        ),
        ("    <<: {steps: [{run: make}]}\n", "its steps come through a merge key; write `steps:` in the job itself"),
    ],
)
def test_a_job_without_room_for_a_step_says_how_to_make_some(steps, reason):
    assert f"{migrating.FOLDER}/x.yml:15:3: 'x': {reason}" in left(workflow(job(NEEDS, steps=steps)))


def test_a_script_is_left_alone_until_its_lane_is_said():
    gate = GATE[: GATE.index("      - uses")] + "      - id: f\n        run: ./changed.sh >> $GITHUB_OUTPUT\n"
    message = "output 'a' is decided by a script, which can't be read; say what it asks: --lane x.yml:a=LANE"
    assert left(workflow(job(NEEDS), gate)) == [f"{migrating.FOLDER}/x.yml:9:9: {message}"]
    # A lane of the same name may mean something else.
    assert left(workflow(job(NEEDS), gate), lanes={"a": ("a/**",)}) == [
        f"{migrating.FOLDER}/x.yml:9:9: {message.replace('LANE', 'a')}"
    ]
    assert left(workflow(job(NEEDS), gate), Asked({"gate.a": "q"}), {"q": ("a/**",)}) == []
    result = migrating.run_of(workflow(job(NEEDS), gate), Asked(own_paths=frozenset({"a"})))
    assert "          workflow: .github/workflows/x.yml\n" in result.text


@pytest.mark.parametrize(
    ("line", "inputs"),
    [
        ("touchgate gate x.yml", {"workflow": "x.yml"}),
        ("python -m x; touchgate gate --lane one --lane=two --json > log", None),
        ("touchgate gate --lane one --lane=two --suite full", {"lane": "one two", "suite": "full"}),
        ('./touchgate.pyz gate main "${{ github.sha }}"', {}),
        ('./touchgate.pyz gate main "${{ github.sha || 1 }}"', None),
        ("touchgate gate --lane one origin/main HEAD", {"lane": "one"}),
        ('touchgate gate --lane one "origin/${{ github.base_ref }}" HEAD', {"lane": "one"}),
        ("touchgate gate --lane one HEAD~1 HEAD", None),
        ("touchgate gate --lane one origin/main v1", None),
        ('touchgate gate --lane one "${{ github.event.before }}" HEAD', None),
        ('touchgate gate "$FILE"', None),
        ('touchgate gate "$BASE" HEAD', {"suite": "smoke"}),
        ("touchgate gate 'x", None),
    ],
)
def test_calls_of_touchgate_are_read(line, inputs):
    import yaml

    env = "        env:\n          BASE: ${{ github.base_ref }}\n          TOUCHGATE_SUITE: smoke\n" if "$BASE" in line else ""
    gate = GATE[: GATE.index("      - uses")] + f"      - id: f\n{env}        run: |\n          {line}\n"
    gate = gate.replace("outputs.a }}", "outputs.run }}")
    result = migrating.run_of(workflow(job(NEEDS), gate))
    assert (result.text is None) == (inputs is None)
    if result.text:
        assert yaml.safe_load(result.text)["jobs"]["x"]["steps"][0].get("with", {}) == inputs


@pytest.mark.parametrize(
    ("patterns", "every", "said"),
    [
        (["src/**", "*.toml", "**/*.py"], False, ["src/**", "*.toml", "**/*.py"]),
        (["{a,b}/*.{c,d}"], False, ["a/*.c", "a/*.d", "b/*.c", "b/*.d"]),
        (["c++/**"], False, ["c\\+\\+/**"]),
        (["!docs/**"], False, ["**", "!docs/**"]),
        (["a/**", "!a/b", "!**/*.md"], True, ["a/**", "!a/b", "!**/*.md"]),
    ],
)
def test_filters_are_said_in_the_dialect(patterns, every, said):
    assert filters.translated(patterns, every=every) == said


@pytest.mark.parametrize(
    "pattern",
    ["a?", "src/**.js", "@(a|b)", "!(a)", "[!a]b", "/a", "./a", "a/", "", " a", "{a,{b,c}}", "{1..3}", "[[:alpha:]]", "a{b}"],
)
def test_filters_that_mean_something_else(pattern):
    with pytest.raises(filters.Untranslatable):
        filters.translated([pattern])


def test_a_submodule_is_what_its_folder_matches():
    from touchgate.migrate.gates import Surroundings
    from touchgate.migrate.whole import migrate

    around = Surroundings({}, lambda _: None, frozenset({"a"}))
    result = migrate("x.yml", workflow(job(NEEDS)).encode(), migrating.USES, Asked(), around)
    assert result.lanes["a"][0] == ("a/**", "a")


def test_what_a_workflow_hands_to_its_caller_stays():
    on = "\n  workflow_call:\n    outputs:\n      a:\n        value: ${{ jobs.gate.outputs.a }}"
    message = "the workflow hands an output of the gate job 'gate' to its caller"
    assert [str(problem) for problem in migrating.run_of(workflow(job(NEEDS), on=on)).left] == [
        f"{migrating.FOLDER}/x.yml:5:16: {message}"
    ]


@pytest.mark.parametrize(
    "steps",
    [
        "    steps: [{run: make}]\n",
        "    steps:\n      - id: touchgate\n        run: make\n",
        "    steps:\n      - if: ${{ a }} b\n        run: make\n",
        "    steps:\n      - if: |\n          ${{ a }}\n        run: make\n",
        "    steps:\n      - if: a b\n        run: make\n",
    ],
)
def test_steps_that_leave_no_room(steps):
    assert len(left(workflow(job(NEEDS, steps=steps)))) == 1
    assert migrating.run_of(workflow(job(NEEDS, steps=steps))).text is None


@pytest.mark.parametrize(
    "aggregate",
    [
        "    if: always() && needs.x.result == 'success'\n",
        "    if: ${{ !(needs.x.result == 'skipped') }}\n".replace("!(", "always() && !("),
        "    if: always()\n    env:\n      R: ${{ needs.x.result }}\n",
        "    if: always()\n    env:\n      R: ${{ toJSON(needs) }}\n",
        "    if: always() && contains(needs.*.result, 'success')\n",
        "    if: success() || failure()\n",
        "    if: always() && fromJSON('{}')[needs.x.result]\n",
    ],
)
def test_a_job_whose_being_skipped_is_looked_at_stays(aggregate):
    source = workflow(job(NEEDS) + job(f"    needs: [x]\n{aggregate}", "y"))
    assert migrating.run_of(source).text is None
    assert [line for line in left(source) if "'x' stays as it is: 'y' " in line]


@pytest.mark.parametrize(
    "jobs",
    [
        "  x: {runs-on: u, needs: gate, if: \"needs.gate.outputs.a == 'true'\", steps: [{run: make}]}\n",
        "  x:\n",
        "  x: []\n",
        "",
    ],
)
def test_odd_jobs_are_left_alone(jobs):
    assert migrating.run_of(workflow(jobs)).text is None


@pytest.mark.parametrize(
    "text", ["", "a: b\n", "[]\n", "jobs:\n", "jobs: 3\n", "on: push\njobs: {}\n", "runs:\n  steps: []\n"]
)
def test_files_that_are_no_workflows(text):
    assert migrating.run_of(text).text is None


def test_merge_keys_are_not_edited_through():
    source = workflow(
        f"  base: &base\n    runs-on: u\n{NEEDS}    steps:\n      - run: make\n  y:\n    <<: *base\n    runs-on: v\n"
    )
    result = migrating.run_of(source)
    assert result.text is None
    assert [problem.at.line for problem in result.left] == [3, 20, 21]


@pytest.mark.parametrize(
    ("text", "why"),
    [("a &&", "ends too early"), ("", "empty"), ("a b", "unexpected 'b'"), ("a.(b)", "name is missing"), ("#", "unexpected"), ("(" * 300, "nested")],
)  # fmt: skip
def test_expressions_that_are_none(text, why):
    with pytest.raises(Unreadable, match=re.escape(why)):
        parse(text)


def test_expressions_are_shown_as_they_were_written():
    text = "a.b['c d'].*.e[0] == 0x1F  || !f( 'it''s', -1.5e3 )&&(true)"
    assert show(parse(text)) == text

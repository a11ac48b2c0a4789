"""Jobs that collect the results of others: left as they are where "success" says to them what "skipped" said, else listed."""

from __future__ import annotations

# ruff: noqa: E501 - a table reads better with a row a line
import subprocess

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import migrating
from tests.test_migrate import NEEDS, job, workflow
from touchgate.migrate import shells

X = "${{ needs.x.result }}"


def required(step: str, condition: str = "always()", needs: str = "[gate, x]") -> str:
    return job(f"    needs: {needs}\n    if: {condition}\n", "required", f"    steps:\n{step}")


def when(condition: str) -> str:
    return f"      - run: exit 1\n        if: ${{{{ {condition} }}}}\n"


def script(text: str, more: str = "") -> str:
    return f"      - run: |\n          {text}\n{more}"


def runs_alike(source: str, result) -> None:
    """The old and the new form, for every change, with and without a step that fails."""
    for paths in ((), ("a/x",), ("b/x",), ("a/x", "b/x")):
        for fails in (None, "make"):
            github = {"event_name": "pull_request", "ref": "refs/heads/x"}
            before, after = migrating.both(source, result, github, paths, {}, {}, fails, ["gate"])
            assert migrating.differences(before, after, ["gate"]) == [], (paths, fails)


@pytest.mark.parametrize(
    "condition",
    [
        "contains(needs.*.result, 'failure')",
        "contains(needs.*.result, 'failure') || contains(needs.*.result, 'cancelled')",
        "!contains(needs.*.result, 'failure') && true",
        "contains(join(needs.*.result, ','), 'failure')",
        "contains(join(needs.*.result), 'cancelled')",
        "needs.x.result != 'failure'",
        "needs.x.result == 'failure'",
        "needs.x.result == 'success' || needs.x.result == 'skipped'",
        "needs.x.result != 'success' && needs.x.result != 'skipped'",
        "!(needs.x.result == 'success' || needs.x.result == 'skipped')",
    ],
)
def test_conditions_that_stay_as_they_are(condition):
    step = when(condition)
    source = workflow(job(NEEDS) + required(step))
    result = migrating.run_of(source)
    assert result.left == ()
    assert required(step, needs="[x]") in result.text
    runs_alike(source, result)


@pytest.mark.parametrize(
    ("condition", "becomes"),
    [
        ("needs.gate.result != 'success'", "false"),
        ("needs.gate.result == 'failure' || needs.x.result == 'failure'", "needs.x.result == 'failure'"),
        ("needs.gate.result != 'success' || (needs.x.result != 'success' && needs.x.result != 'skipped')", "(needs.x.result != 'success' && needs.x.result != 'skipped')"),
        ("always() && needs.gate.result == 'success'", "always()"),
        ("!(needs.gate.result == 'success' && needs.x.result != 'failure')", "!(needs.x.result != 'failure')"),
    ],
)  # fmt: skip
def test_the_result_of_a_gate_that_is_gone_is_success(condition, becomes):
    source = workflow(job(NEEDS) + required(when(condition)))
    result = migrating.run_of(source)
    assert result.left == ()
    assert yaml.safe_load(result.text)["jobs"]["required"]["steps"][0]["if"] == f"${{{{ {becomes} }}}}"
    runs_alike(source, result)


@pytest.mark.parametrize(
    "condition",
    [
        "needs.gate.result == 'success' || failure()",
        "contains(fromJSON('[1]'), needs.gate.result)",
        "needs.gate.result",
    ],
)
def test_results_of_a_gate_that_keep_it(condition):
    result = migrating.run_of(workflow(job(NEEDS) + required(when(condition))))
    assert any("'required' uses the gate job's result in 'steps.if'" in problem.message for problem in result.left)
    assert "gate" in yaml.safe_load(result.text)["jobs"]


def test_who_tests_a_gate_that_stays_is_as_it_was():
    called = f"  called:\n{NEEDS}    uses: ./.github/workflows/called.yml\n"
    watching = required(when("needs.gate.result != 'success'"))
    result = migrating.run_of(workflow(job(NEEDS) + called + watching))
    assert watching in result.text


@pytest.mark.parametrize(
    "condition",
    [
        "always() && needs.gate.result == 'success' && needs.gate.outputs.a == 'true'",
        "needs.gate.outputs.b == 'true' && needs.gate.result != 'failure'",
        "needs.gate.result == 'failure' || needs.gate.outputs.a == 'true' && github.ref == 'refs/heads/x'",
    ],
)
def test_the_result_and_an_output_in_one_condition(condition):
    steps = f"    steps:\n      - run: make\n      - run: make more\n        if: {condition}\n"
    source = workflow(job("    needs: gate\n", steps=steps) + job(NEEDS, "y", steps))
    result = migrating.run_of(source)
    assert result.left == ()
    assert "needs.gate" not in result.text
    runs_alike(source, result)


@pytest.mark.parametrize("style", [">-\n          ", "|\n          ", "'", '"'])
def test_a_condition_is_rewritten_in_its_own_style(style):
    condition = "needs.gate.result != 'success' ||\n          needs.x.result == 'failure'"
    if style in ("'", '"'):
        condition = condition.replace("\n         ", "").replace("'", "''" if style == "'" else "'") + style
    source = workflow(job(NEEDS) + required(f"      - run: exit 1\n        if: {style}{condition}\n"))
    result = migrating.run_of(source)
    assert result.left == ()
    assert yaml.safe_load(result.text)["jobs"]["required"]["steps"][0]["if"].strip() == "needs.x.result == 'failure'"
    runs_alike(source, result)


def test_a_script_that_shows_how_the_gate_ended():
    step = script('[ "${{ needs.gate.result }}" = success ] || exit 1')
    result = migrating.run_of(workflow(job(NEEDS) + required(step)))
    assert result.left == ()
    assert yaml.safe_load(result.text)["jobs"]["required"]["steps"][0]["run"] == '[ "success" = success ] || exit 1\n'


@pytest.mark.parametrize(
    "step",
    [
        when("needs.x.result == 'skipped'"),
        when("needs.x.result != 'success'"),
        when("contains(needs.*.result, 'skipped')"),
        when("contains(join(needs.*.result, 'ski'), 'failure')"),
        when("contains(toJSON(needs), 'failure')"),
        script(f'[ "{X}" = success ]'),
        script(f'[ "{X}" != failure ]', "        shell: python\n"),
        script(f"./check {X}"),
        script('./check "$R"', f"        env:\n          R: {X}\n"),
        script('[ "$R" != failure ] && ./check', f"        env:\n          R: {X}\n"),
        script("jq -e 'all(.result == \"success\" or .result == \"skipped\")' <<< '${{ toJSON(needs) }}'"),
    ],
)
def test_what_tells_skipped_from_success_is_listed(step):
    source = workflow(job(NEEDS) + required(step))
    result = migrating.run_of(source)
    assert result.text is None
    assert [problem.message for problem in result.left if "'x' stays as it is: 'required' looks at" in problem.message]


@pytest.mark.parametrize(
    ("step", "more"),
    [
        (f'[ "{X}" != failure ]', ""),
        (f'if [[ "{X}" == "success" || "{X}" == "skipped" ]]; then exit 0; fi; exit 1', ""),
        ('[ "$R" = success ] || [ "$R" = skipped ]', f"        env:\n          R: {X}\n"),
        (f'echo "x: {X}"', ""),
        ("exit ${{ contains(needs.*.result, 'failure') && 1 || 0 }}", ""),
    ],
)
def test_scripts_that_stay_as_they_are(step, more):
    result = migrating.run_of(workflow(job(NEEDS) + required(script(step, more))))
    assert result.left == ()
    assert required(script(step, more), needs="[x]") in result.text


# ---- scripts, held against a shell

SAME = [
    'if [ "R" = failure ]; then exit 1; fi',
    'if [[ "R" == "failure" || R == cancelled ]]; then exit 1; fi',
    'test "R" != "failure"',
    'set -e\nif [ "R" != "success" ] && [ "R" != "skipped" ]; then\n  echo "failed: R" >&2\n  exit 1\nfi',
    '[[ "R" == success ]] || [[ "R" == skipped ]]',
    "[ R != success ] && [ R != skipped ] && exit 1\nexit 0",
    "true && [[ R != skipped && R != success ]]",
    '! [[ "R" =  success || "R" = skipped ]]',
    "true &&\n[ R != success ] && [ R != skipped ] || exit 3",
    "false || [ R = success ] || [ R = skipped ] && exit 4",
    "echo R",
]  # fmt: skip
DIFFERENT = [
    "[ R = success ]",
    "[ R != skipped ]",
    "[ R != success ] && [ R != skipped ]\nexit 3",
    '! [ "R" = success ] || [ "R" = skipped ]',
    "true && [ R = success ] || [ R = skipped ]",
    "true &&\n  [ R = success ] || [ R = skipped ]",
    "false && [ R = success ] \\\n || [ R = skipped ]",
    "true || [ R != success ] && [ R != skipped ]",
    "[[ -n '' && R == success || R == skipped ]]",
    "exit $([ R = success ] && echo 1)",
    "case R in success) exit 1;; esac",
    "echo R > log; grep -q success log",
    "echo R | grep -q success",
    "{ echo R\n} | grep -q success",
    "X=R; [ $X = success ]",
    "bash -c '[ R = success ] || [ R = skipped ]'",
    "[[ R =~ ^success ]]",
    "[ R = failures ] || [ R = success ]",
    "x() {\n[ R = success ]\n}\nx",
    "cat <<E\nR\nE",
    '[ "R R" = "success success" ]',
]


def ended(text: str, result: str) -> list[int]:
    """How a shell ends, as the forge calls it and with what stands in a script's first line."""
    words = (["bash", "-e", "-o", "pipefail", "-c"], ["bash", "-c"])
    return [subprocess.run([*one, text.replace("R", result)], capture_output=True, check=False).returncode for one in words]


@pytest.mark.parametrize("text", SAME)
def test_scripts_that_do_the_same_for_both(text):
    assert shells.same_for_skipped(text.replace("R", shells.RESULT))
    assert ended(text, "success") == ended(text, "skipped")


@pytest.mark.parametrize("text", DIFFERENT)
def test_scripts_that_may_do_something_else(text):
    assert not shells.same_for_skipped(text.replace("R", shells.RESULT))


def test_a_variable_is_for_tests_only():
    assert shells.same_for_skipped(
        '# all\nset -eu\nif [ "$V" != "success" ] && [ "${V}" != "skipped" ]; then\n  exit 1\nfi', "V"
    )
    assert not shells.same_for_skipped('if [ "$V" != failure ]; then make; fi', "V")
    assert not shells.same_for_skipped('[ "${V:-x}" != failure ]', "V")
    assert not shells.same_for_skipped('[ "$V" = success ]', "V")


TESTS = [
    f"{bracket} {quote}R{quote} {sign} {word} {end}"
    for bracket, end in (("[", "]"), ("[[", "]]"))
    for quote in ('"', "")
    for sign in ("=", "==", "!=")
    for word in ("success", "skipped", "failure", '"failure"')
]
INSIDE = [f'[[ "R" {a} success {op} "R" {b} skipped ]]' for a in ("==", "!=") for b in ("==", "!=") for op in ("&&", "||")]


@st.composite
def scripts(draw) -> str:
    piece = st.sampled_from([*TESTS, *INSIDE, "true", "false", "exit 7"])
    text = draw(st.sampled_from(["", "! ", "set -e\n"])) + draw(piece)
    for _ in range(draw(st.integers(0, 3))):
        text += draw(st.sampled_from([" && ", " || ", "\n", " &&\n", " || \\\n", "; ", " && ! "])) + draw(piece)
    return draw(st.sampled_from(["{}", "if {}; then exit 5; fi", "while {}; do exit 6; done", "( {} )"])).format(text)


@pytest.mark.slow
def test_what_is_held_for_the_same_is_the_same_in_a_shell():
    same: list[bool] = []

    @settings(max_examples=1500, suppress_health_check=list(HealthCheck), deadline=None)
    @given(scripts())
    def holds(text: str):
        found = shells.same_for_skipped(text.replace("R", shells.RESULT))
        same.append(found and "R" in text)
        if found:
            assert ended(text, "success") == ended(text, "skipped")

    holds()
    assert sum(same) > 50, "too few are held for the same for this to say anything"

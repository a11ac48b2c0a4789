"""What `touchgate migrate` is told about outputs: of which workflow, of which job; what is wrong; a run that is killed."""

from __future__ import annotations

# ruff: noqa: E501 - a table reads better with a row a line
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import migrating
from touchgate import console

LANES = "lanes:\n  code:\n    paths: [src/**]\n    checks: [{command: make}]\n  docs:\n    paths: [docs/**]\n    checks: [{command: make}]\n"


def gated(output: str = "changed", script: str = "ci/gate.sh", gate: str = "gate", on: str = "pull_request") -> str:
    return f"""\
on: {on}
jobs:
  {gate}:
    runs-on: ubuntu-latest
    outputs:
      {output}: ${{{{ steps.look.outputs.{output} }}}}
    steps:
      - uses: actions/checkout@v4
      - id: look
        run: {script}
  work:
    needs: {gate}
    if: needs.{gate}.outputs.{output} == 'true'
    runs-on: ubuntu-latest
    steps:
      - run: make
"""


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run the command in a folder with lanes and the given workflows."""
    monkeypatch.chdir(tmp_path)
    put(tmp_path, "tasks/x.yml", LANES)

    def call(*arguments: str, **files: str):
        for name, text in files.items():
            put(tmp_path, f".github/workflows/{name}.yml", text)
        code = console.main(["migrate", *arguments, "."], {})
        return (code, *capsys.readouterr())

    return call


def put(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def lanes_asked(out: str) -> dict[str, list[str]]:
    """The lanes that the new steps of each file ask for, read from a diff."""
    found: dict[str, list[str]] = {}
    for line in out.splitlines():
        if line.startswith("+++ "):
            found[line.rpartition("/")[2]] = []
        elif line.startswith("+          lane: "):
            found[list(found)[-1]].append(line.removeprefix("+          lane: "))
    return found


def test_an_output_of_one_workflow_needs_no_file(command):
    code, out, _ = command("--lane", "changed=code", ci=gated(), other=gated("elsewhere", "ci/x.sh"))
    assert (code, lanes_asked(out)) == (1, {"ci.yml": ["code"]})


def test_an_output_that_two_workflows_have_is_refused_without_a_file(command):
    code, out, err = command("--lane", "changed=code", ci=gated(), site=gated(gate="filter"))
    assert (code, out) == (3, "")
    assert err == (
        "--lane changed=code: a gate output 'changed' is there more than once, in .github/workflows/ci.yml and "
        ".github/workflows/site.yml, and need not mean the same; "
        "write those that are meant: --lane ci.yml:changed=code --lane site.yml:changed=code\n"
    )


@pytest.mark.parametrize(
    "file", ["site.yml", ".github/workflows/site.yml", "./.github/workflows/site.yml", "workflows/site.yml"]
)
def test_each_workflow_has_its_own_word(command, file):
    words = ("--lane", "ci.yml:changed=code", "--lane", f"{file}:changed=docs")
    code, out, _ = command(*words, ci=gated(), site=gated())
    assert (code, lanes_asked(out)) == (0, {"ci.yml": ["code"], "site.yml": ["docs"]})


def test_a_word_for_one_workflow_leaves_the_other_alone(command):
    code, out, err = command("--lane", "site.yml:changed=docs", ci=gated(), site=gated())
    assert (code, lanes_asked(out)) == (1, {"site.yml": ["docs"]})
    assert err.splitlines()[0] == (
        ".github/workflows/ci.yml:9:9: left alone: 'gate' has the shape of a gate job ('work' tests its output 'changed'), "
        "and what `ci/gate.sh` decides can't be read; --lane ci.yml:changed=LANE says what it asks"
    )


TWO_GATES = gated() + gated(gate="second").replace("work:", "more:").partition("jobs:\n")[2]


def test_an_output_that_two_jobs_of_a_workflow_have_needs_the_job(command):
    code, _, err = command("--lane", "ci.yml:changed=code", ci=TWO_GATES)
    assert code == 3
    assert err.endswith(
        "'gate' of .github/workflows/ci.yml and 'second' of .github/workflows/ci.yml, and need not mean the same; "
        "write those that are meant: --lane ci.yml:gate.changed=code --lane ci.yml:second.changed=code\n"
    )
    words = ("--lane", "ci.yml:gate.changed=code", "--lane", "second.changed=docs")
    code, out, _ = command(*words)
    assert (code, lanes_asked(out)) == (0, {"ci.yml": ["code", "docs"]})


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--lane", "chnged=code"), "--lane chnged=code: the workflows here have not a gate output 'chnged'; did you mean 'changed'?"),
        (("--lane", "ci.yml:zzz=code"), "--lane ci.yml:zzz=code: ci.yml has not a gate output 'zzz'; there is changed"),
        (("--lane", "cj.yml:changed=code"), "--lane cj.yml:changed=code: no workflow here is called 'cj.yml'; did you mean 'ci.yml'?"),
        (("--lane", "ci.yml:changed=cod"), "--lane ci.yml:changed=cod: no lane 'cod' is declared; did you mean 'code'?"),
        (("--lane", "ci.yml:changed=zzz"), "--lane ci.yml:changed=zzz: no lane 'zzz' is declared; there is code and docs"),
        (("--lane", "ci.yml:gat.changed=code"), "--lane ci.yml:gat.changed=code: ci.yml has not a gate output 'gat.changed'; did you mean 'gate.changed'?"),
        (("--paths", "ci.yml:chnged"), "--paths ci.yml:chnged: ci.yml has not a gate output 'chnged'; did you mean 'changed'?"),
        (("--paths", "ci.yml:changed"), "--paths ci.yml:changed: .github/workflows/ci.yml has no `paths:` or `paths-ignore:`, so every change would run everything"),
        (("--gate", "ci.yml:gat"), "--gate ci.yml:gat: ci.yml has not a job 'gat'; did you mean 'gate'?"),
        (("--gate", "gate"), "--gate gate: a job 'gate' is there more than once, in .github/workflows/ci.yml and .github/workflows/site.yml, and need not mean the same; write those that are meant: --gate ci.yml:gate --gate site.yml:gate"),
        (("--lane", "ci.yml:changed=code", "--lane", "ci.yml:gate.changed=docs"), "--lane ci.yml:gate.changed=docs: 'gate.changed' of .github/workflows/ci.yml is said to mean something else as well"),
    ],
)  # fmt: skip
def test_a_word_that_is_wrong_is_an_error_before_anything_is_changed(command, tmp_path, words, problem):
    code, out, err = command("--write", "--uses", migrating.USES, *words, ci=gated(), site=gated())
    assert (code, out, err) == (3, "", problem + "\n")
    assert (tmp_path / ".github/workflows/ci.yml").read_text() == gated()


def test_two_files_of_one_name_need_the_path(command, tmp_path):
    put(tmp_path, ".forgejo/workflows/ci.yml", gated())
    code, _, err = command("--lane", "ci.yml:changed=code", ci=gated())
    both = ".github/workflows/ci.yml and .forgejo/workflows/ci.yml"
    assert (code, err) == (3, f"--lane ci.yml:changed=code: 'ci.yml' may be {both}; write the whole path\n")
    code, _, err = command("--lane", "changed=code")
    assert (code, err.partition("write")[2]) == (
        3,
        " those that are meant: --lane .github/workflows/ci.yml:changed=code --lane .forgejo/workflows/ci.yml:changed=code\n",
    )
    code, out, _ = command("--lane", ".forgejo/workflows/ci.yml:changed=code")
    assert (code, lanes_asked(out)) == (1, {"ci.yml": ["code"]})


def test_own_paths_are_asked_where_there_are_some(command):
    on = "{pull_request: {paths: [src/**]}}"
    code, out, _ = command("--paths", "ci.yml:changed", ci=gated(on=on))
    assert code == 0
    assert "+          workflow: .github/workflows/ci.yml\n" in out


@pytest.mark.parametrize(
    ("uses", "shown"), [("./touchgate", "OWNER/REPOSITORY/touchgate@SHA"), ("./.github/actions/gate", "OWNER/REPOSITORY/.github/actions/gate@SHA"), (".", "OWNER/REPOSITORY/DIR@SHA")]
)  # fmt: skip
def test_an_action_in_the_checkout_is_refused(command, uses, shown):
    code, out, err = command("--uses", uses, ci=gated())
    assert (code, out) == (3, "")
    assert f"--uses '{uses}' lies in the checkout, and the decision comes before it" in err
    assert shown in err


@pytest.mark.parametrize(
    ("uses", "said"),
    [
        (
            "OWNER/touchgate@SHA",
            "OWNER stands for whoever publishes the action on your forge; see 'The action' in docs/migrate.md",
        ),
        (
            "me/touchgate@SHA",
            "SHA stands for the commit of the action that you looked at; see 'The action' in docs/migrate.md",
        ),
        ("YOU/REPOSITORY/touchgate@1f2e", "YOU stands for your own name on your forge; see 'The action' in docs/migrate.md"),
        ("REF", "REF stands for the action, such as OWNER/touchgate@SHA; see 'The action' in docs/migrate.md"),
        ("actions/checkout@v4", "is another action, and answers no such question: touchgate's looks like OWNER/touchgate@SHA"),
        (
            "dorny/paths-filter@v3",
            "is another action, and answers no such question: touchgate's looks like OWNER/touchgate@SHA",
        ),
        ("me/rust-cache@v3", "is what .github/workflows/ci.yml:17:15 uses for something else: it is not touchgate's action"),
        ("touchgate", "names no action: it looks like OWNER/touchgate@SHA"),
    ],
)
def test_what_can_not_be_the_action_is_refused(command, tmp_path, uses, said):
    text = f"{gated()}      - uses: me/rust-cache@v2\n"
    for words in ((), ("--write",)):
        code, out, err = command("--uses", uses, "--lane", "changed=code", *words, ci=text)
        assert (code, out) == (3, "")
        assert err.startswith(f"--uses '{uses}'")
        assert err.endswith(f"{said}\n")
    assert (tmp_path / ".github/workflows/ci.yml").read_text() == text


def test_a_commit_of_this_repository_holds_the_action(project, monkeypatch, capsys):
    """Else every job of the next pull request fails."""
    monkeypatch.chdir(project.root)
    project.write(".github/workflows/ci.yml", gated())
    before = project.commit()
    project.write("touchgate/action.yml", "name: x\n")
    for commit, code in ((before, 3), (project.commit(), 0), ("1" * 40, 0)):
        words = ["migrate", "--uses", f"me/robots/touchgate@{commit}", "--lane", "changed=one", "."]
        assert console.main(words, project.environ) == code
        err = capsys.readouterr().err
        assert ("holds no touchgate/action.yml; commit what `touchgate bundle --action touchgate` wrote" in err) == (code == 3)


def test_the_action_that_a_former_run_put_there_may_be_named_again(command):
    words = ("--write", "--uses", migrating.USES.replace("touchgate", "gate"), "--lane")
    assert command(*words, "ci.yml:changed=code", ci=gated())[0] == 0
    assert command(*words, "site.yml:changed=docs", site=gated())[0] == 0
    by_hand = "      - id: mine\n        uses: example/gate@main\n        with: {lane: code, suite: full}\n"
    assert command(*words, "more.yml:changed=docs", more=gated() + by_hand)[0] == 0


GROUP = "lanes:\n  crate:\n    each: crates/*\n    paths: ['{path}/**']\n    checks: [{command: make}]\n"


@pytest.mark.parametrize("word", ["crate", "crate-*", "crate-a", "*-b"])
def test_a_group_of_lanes_and_a_pattern_are_asked_as_they_are(command, tmp_path, word):
    put(tmp_path, "tasks/crates.yml", GROUP)
    put(tmp_path, "crates/a/x", "")
    put(tmp_path, "crates/b/x", "")
    code, out, _ = command("--lane", f"changed={word}", ci=gated())
    assert (code, lanes_asked(out)) == (0, {"ci.yml": [word if word[0] != "*" else f"'{word}'"]})
    code, _, err = command("--lane", "changed=crat", ci=gated())
    assert (code, err) == (3, "--lane changed=crat: no lane 'crat' is declared; did you mean 'crate'?\n")
    code, _, err = command("--lane", "changed=zz-*", ci=gated())
    there = "there is code, crate, crate-a, crate-b and docs"
    assert (code, err) == (3, f"--lane changed=zz-*: no lane matches 'zz-*'; {there}\n")


def test_lanes_that_can_not_be_read_are_said_where_one_is_asked_for(command, tmp_path):
    put(tmp_path, "tasks/y.yml", "lanes:\n  more: {pats: [a], checks: [{command: make}]}\n")
    code, out, err = command("--lane", "changed=code", ci=gated())
    said = "tasks/y.yml:2:10: unknown key 'pats' in lane 'more'; did you mean 'paths'?\n"
    assert (code, out, err.splitlines(keepends=True)[0]) == (3, "", said)
    assert command(ci=gated())[0] == 1


def test_a_placeholder_is_no_lane(command):
    code, _, err = command("--lane", "changed=LANE", ci=gated())
    there = "LANE stands for the name of a lane of yours; there is code and docs"
    assert (code, err) == (3, f"--lane changed=LANE: {there}\n")


DORNY = """\
      - uses: dorny/paths-filter@v3
        id: look
        with:
          filters: |
            changed: PATH/**
"""


def filtered(path: str) -> str:
    text = gated()
    begin, end = text.index("      - id: look"), text.index("  work:")
    return text[:begin] + DORNY.replace("PATH", path) + text[end:]


SHAPES = {
    "script": gated(),
    "two gates": TWO_GATES,
    "two outputs": gated()
    .replace("    steps:\n      - uses", "      more: ${{ steps.look.outputs.more }}\n    steps:\n      - uses")
    .replace("outputs.changed == 'true'", "outputs.changed == 'true' || needs.gate.outputs.more == 'true'"),
    "a workflow": "on: push\njobs:\n  gate:\n    uses: ./.github/workflows/called.yml\n"
    + gated().partition("ci/gate.sh\n")[2],
    "works beside": gated().replace("run: ci/gate.sh\n", "run: ci/gate.sh\n      - run: make\n"),
    "writes its output": gated(script='ci/gate.sh >> "$GITHUB_OUTPUT"'),
    "with paths": gated(script='ci/gate.sh >> "$GITHUB_OUTPUT"', on="{push: {paths: [src/**]}}"),
    "two steps'": gated().replace("${{ steps.look.outputs.changed }}", "${{ steps.look.outputs.a || steps.look.outputs.b }}"),
    "behind an if": gated(script='ci/gate.sh >> "$GITHUB_OUTPUT"').replace(
        "- id: look", "- id: look\n        if: github.actor"
    ),
    "an environment": filtered("src").replace("    outputs:", "    environment: x\n    outputs:"),
    "no such output": gated().replace("outputs.changed ==", "outputs.need =="),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("folder", ["", ".forgejo/workflows"])
def test_what_is_proposed_is_taken(command, tmp_path, shape, folder):
    """Every option that a message names, with one of the lanes in the place of LANE."""
    if folder:
        put(tmp_path, f"{folder}/ci.yml", "on: push\njobs: {x: {runs-on: x, steps: [{run: make}]}}\n")
    code, _, err = command(ci=SHAPES[shape])
    proposed = [
        (option, text.replace("=LANE", "=code")) for option, text in re.findall(r"(--(?:lane|paths|gate)) ([^\s;,)]+)", err)
    ]
    assert code == 1
    assert bool(proposed) == (shape != "no such output")
    for option, text in proposed:
        code, _, err = command(option, text)
        assert code in (0, 1), err


def test_a_filter_called_like_a_command_becomes_a_lane_of_another_name(command):
    """No lane can be called like a command of doit."""
    code, out, _ = command(ci=filtered("src").replace("changed", "vectors"))
    assert code == 0
    assert "+          lane: ci-vectors\n" in out
    assert "+  ci-vectors:\n" in out


# ---- killed in between

KILLED = """
import os, signal, sys
from touchgate import console

replace, left = os.replace, int(sys.argv[1])

def counted(source, target):
    global left
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    replace(source, target)

os.replace = counted
sys.exit(console.main(["migrate", *sys.argv[2:]], {}))
"""


def tree(root: Path) -> dict[str, str]:
    return {path.relative_to(root).as_posix(): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def test_a_run_that_is_killed_between_two_files_is_continued_by_the_next(tmp_path):
    files = {
        "tasks/x.yml": LANES,
        ".github/workflows/a.yml": filtered("a"),
        ".github/workflows/b.yml": filtered("b"),
        ".github/workflows/c.yml": gated(),
    }
    arguments = ["--write", "--uses", migrating.USES, "--lane", "c.yml:changed=code", "--gate", "c.yml:gate", "."]

    def run(root: Path, renames: int) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c", KILLED, str(renames), *arguments]
        return subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)

    def fresh(name: str) -> Path:
        root = tmp_path / name
        for file, text in files.items():
            put(root, file, text)
        return root

    whole = fresh("whole")
    assert run(whole, -1).returncode == 0
    wanted = tree(whole)
    assert set(wanted) == {*files, "tasks/a.yml", "tasks/b.yml"}
    for renames in range(5):
        root = fresh(f"killed after {renames}")
        assert run(root, renames).returncode == -signal.SIGKILL
        between = tree(root)
        new = {name for name, text in between.items() if text == wanted.get(name) and text != files.get(name)}
        assert len(new) == renames
        # No workflow asks for a lane that is not declared yet.
        assert all("tasks/a.yml" in new and "tasks/b.yml" in new for name in new if name.startswith(".github"))
        again = run(root, -1)
        assert (again.returncode, tree(root)) == (0, wanted), again.stderr
        third = run(root, -1)
        assert (third.returncode, third.stdout, tree(root)) == (0, "", wanted), third.stderr

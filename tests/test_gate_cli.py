"""`touchgate gate`: the answer, its reasons, and what a workflow reads of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from touchgate.gate import cli

WORKFLOW = """\
on:
  pull_request:
    paths: [src/**, "!src/**/*.md"]
  push:
    paths: [lib/**]
  workflow_dispatch:
jobs: {}
"""


@pytest.fixture
def gate(project, monkeypatch, capsys):
    """Runs the command in the project: (exit code, stdout, stderr). `environ` is all it sees beside the project's."""

    def run(*arguments, environ=None, cwd="."):
        monkeypatch.chdir(project.root / cwd)
        code = cli.main(arguments, {**project.environ, **(environ or {})})
        return (code, *capsys.readouterr())

    return run


def add(project, name, text="x"):
    project.write(name, text)
    return project.commit(name)


def event(project, tmp_path, name, **variables):
    path = tmp_path / "event.json"
    head = {"sha": project.git("rev-parse", "HEAD")}
    payload = {"repository": {"default_branch": "main"}, "pull_request": {"base": {"ref": "main"}, "head": head}}
    path.write_text(json.dumps(payload))
    return {"GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path), "GITHUB_SHA": head["sha"], **variables}


def test_the_answer_and_every_reason(project, gate):
    base = project.git("rev-parse", "main")
    head = add(project, "src/new.txt")
    code, out, err = gate()
    assert (code, out) == (0, "true\n")
    assert err == (
        f"base        {base}  (main, the default branch, by the local branch main, as nothing else names it)\n"
        f"head        {head}  (HEAD, with nothing uncommitted)\n"
        f"merge base  {base}  (base is a parent of head)\n"
        "1 path touched\n"
        "run   one  src/new.txt (A) matches src/** at tasks/lanes.yml:4:13\n"
        "skip  two  the one touched path does not match\n"
    )


def test_nothing_touched(project, gate, tmp_path):
    add(project, "docs/new.md")
    output = tmp_path / "output"
    output.write_text("earlier=1\n")
    code, out, err = gate(environ={"GITHUB_OUTPUT": str(output)})
    assert (code, out) == (0, "false\n")
    assert err.splitlines()[3:] == [
        "1 path touched",
        "skip  one  the one touched path does not match",
        "skip  two  the one touched path does not match",
    ]
    assert output.read_text() == "earlier=1\nrun=false\nlanes=[]\n"


def test_from_a_subfolder_and_with_revisions(project, gate, tmp_path):
    add(project, "src/one.txt")
    add(project, "lib/two.txt")
    output = tmp_path / "output"
    assert gate("HEAD~1", "HEAD", cwd="docs", environ={"GITHUB_OUTPUT": str(output)})[:2] == (0, "true\n")
    assert output.read_text() == 'run=true\nlanes=["two"]\n'


def test_json(project, gate):
    project.write("lib/deep/b.txt", "x")
    lanes = (project.root / "tasks/lanes.yml").read_text().replace("[lib/**]", "[lib/*.txt, lib/a/**]")
    project.write("tasks/lanes.yml", lanes)
    project.git("checkout", "-q", "-B", "main")
    base = project.commit()
    project.git("checkout", "-q", "-B", "work")
    add(project, "lib/deep/c.txt")
    head = add(project, "src/caf\udce9.txt")
    code, out, _ = gate("main", "HEAD", "--json")
    assert code == 0
    assert json.loads(out) == {
        "schema": 1,
        "run": True,
        "base": base,
        "head": head,
        "merge_base": base,
        "merge_bases": [base],
        "base_from": "main, from the command line",
        "head_from": "HEAD, from the command line",
        "head_is_worktree": False,
        "proof": "the whole history is here",
        "looked_at": 2,
        "open_reason": None,
        "due": None,
        "notes": [],
        "suite": "smoke",
        "lanes": [
            {
                "name": "one",
                "decision": "run",
                "reason": "src/caf\udce9.txt (A) matches src/** at tasks/lanes.yml:4:13",
                "suite": "smoke",
                "path": "src/caf\udce9.txt",
                "pattern": "src/**",
                "where": "tasks/lanes.yml:4:13",
                "nearest": None,
                "each": None,
            },
            {
                "name": "two",
                "decision": "skip",
                "reason": "none of 2 touched paths matches; nearest: lib/*.txt (tasks/lanes.yml:10:13)",
                "suite": "smoke",
                "path": None,
                "pattern": None,
                "where": None,
                "nearest": {"path": "lib/deep/c.txt", "pattern": "lib/*.txt", "where": "tasks/lanes.yml:10:13"},
                "each": None,
            },
        ],
    }


def test_json_says_what_the_text_says(project, gate):
    """Where base and head came from, how many paths were looked at, and every note, of a workflow's answer too."""
    project.write("x.yml", WORKFLOW.replace("src/**,", "src/**, ./docs/**,"))
    add(project, "docs/new.md")
    for words in ((), ("x.yml",), ("nope", "HEAD")):
        _, _, err = gate(*words)
        data = json.loads(gate(*words, "--json")[1])
        lines = err.splitlines()
        assert lines[0] == f"base        {data['base'] or 'unknown'}  ({data['base_from']})"
        assert lines[1] == f"head        {data['head'] or 'unknown'}  ({data['head_from']})"
        assert (f"{data['looked_at']} paths touched" in lines) == (data["looked_at"] is not None)
        assert [line.removeprefix("note: ") for line in lines if line.startswith("note: ")] == data["notes"]
        assert bool(data["notes"]) == ("x.yml" in words)
        assert (data["looked_at"] is None) == ("nope" in words)


@pytest.mark.parametrize(
    ("on", "nearest"),
    [
        ("paths: [docs/x/**]", {"path": "docs/new.md", "pattern": "docs/x/**", "where": "x.yml:1:29"}),
        ("paths: [docs/**, '!**/*.md']", {"path": "docs/new.md", "pattern": "!**/*.md", "where": "x.yml:1:38"}),
        ("paths-ignore: [docs/**, x.yml]", {"path": "docs/new.md", "pattern": "docs/**", "where": "x.yml:1:36"}),
        ("paths: [src/**]", None),
    ],
)
def test_json_never_shows_what_did_not_fire_as_what_did(project, gate, on, nearest):
    project.write("x.yml", f"on: {{pull_request: {{{on}}}}}\njobs: {{}}\n")
    project.git("checkout", "-q", "-B", "main")
    project.commit()
    project.git("checkout", "-q", "-B", "work")
    add(project, "docs/new.md")
    (decision,) = json.loads(gate("x.yml", "--json")[1])["lanes"]
    assert [decision[key] for key in ("decision", "path", "pattern", "where")] == ["skip", None, None, None]
    assert decision["nearest"] == nearest


class TestLanes:
    def test_one_lane_s_answer(self, project, gate, tmp_path):
        add(project, "src/one.txt")
        output = tmp_path / "output"
        assert gate("--lane", "two", environ={"GITHUB_OUTPUT": str(output)})[:2] == (0, "false\n")
        assert gate("--lane", "two", "--lane=one", environ={"GITHUB_OUTPUT": str(output)})[:2] == (0, "true\n")
        assert output.read_text() == 'run=false\nlanes=[]\nrun=true\nlanes=["one"]\n'

    def test_an_unknown_lane(self, gate):
        assert gate("--lane", "tow", "--lane", "zzz") == (3, "", "no lane 'tow'; did you mean 'two'?\nno lane 'zzz'\n")
        assert gate("--lane", "z*") == (3, "", "no lane matches 'z*'\n")

    @pytest.mark.parametrize(("words", "known"), [(("one", "two"), ("one", "two")), (("one", "t*"), None), ((), None)])
    def test_lanes_that_a_pattern_means_are_none_for_a_matrix_where_no_lane_can_be_read(self, words, known):
        from touchgate.gate import answers
        from touchgate.gate.asked import Asked

        answer = answers.unread(Asked(None, None, None, words, "smoke", as_json=False), answers.nothing_known("x"))
        assert (answer.run, answer.lanes, tuple(one.lane for one in answer.decisions)) == (True, known, words)

    def test_a_suite_that_a_lane_is_not_in(self, project, gate):
        lanes = (project.root / "tasks/lanes.yml").read_text()
        project.write("tasks/lanes.yml", lanes.replace("    about: what src holds\n", "    suites: [full]\n"))
        project.commit()
        add(project, "src/one.txt")
        assert gate("HEAD~1", "HEAD")[1] == "false\n"
        assert gate("HEAD~1", "HEAD", "--suite", "full")[1] == "true\n"
        assert gate("HEAD~1", "HEAD", environ={"TOUCHGATE_SUITE": "full"})[1] == "true\n"

    def test_a_pattern_that_only_the_base_branch_s_tip_has_fires(self, project, gate):
        add(project, "docs/new.md")
        project.git("checkout", "-q", "main")
        lanes = (project.root / "tasks/lanes.yml").read_text()
        project.write("tasks/lanes.yml", lanes.replace("[lib/**]", "[lib/**, docs/**]"))
        project.commit()
        project.git("checkout", "-q", "work")
        code, out, err = gate()
        assert (code, out) == (0, "true\n")
        assert "docs/new.md (A) matches docs/** at tasks/lanes.yml:10:21 of the base branch's tip" in err

    def test_so_does_one_of_a_workflow_that_a_lane_file_names_though_the_file_is_the_same(self, project, gate):
        project.git("checkout", "-q", "main")
        project.write("tasks/lanes.yml", "lanes:\n  w:\n    paths: {workflow: w.yml}\n    checks: [command: x]\n")
        project.write("w.yml", "on: {pull_request: {paths: [src/**]}}\n")
        project.commit()
        project.git("checkout", "-q", "-B", "work")
        add(project, "docs/new.md")
        assert gate()[1] == "false\n"
        project.git("checkout", "-q", "main")
        add(project, "w.yml", "on: {pull_request: {paths: [src/**, docs/**]}}\n")
        project.git("checkout", "-q", "work")
        code, out, err = gate()
        assert (code, out) == (0, "true\n")
        assert "docs/new.md (A) matches docs/** at w.yml:1:37 of the base branch's tip" in err

    def test_a_lane_that_main_gained_and_the_change_touches_runs(self, project, gate, tmp_path):
        new = "lanes:\n  new: {paths: [docs/**], checks: [command: x]}\n"
        project.git("checkout", "-q", "main")
        add(project, "tasks/new.yml", new)
        project.git("checkout", "-q", "work")
        add(project, "lib/new.md")
        assert gate("main", "HEAD", "--lane", "new")[1] == "false\n"
        add(project, "docs/new.md")
        output = tmp_path / "output"
        for revisions in ((), ("main", "HEAD")):
            code, out, err = gate(*revisions, "--lane", "new", environ={"GITHUB_OUTPUT": str(output)})
            assert (code, out) == (0, "true\n")
            assert err.splitlines()[-1] == (
                "run   new  docs/new.md (A) matches docs/** at tasks/new.yml:2:17 of the base branch's tip, "
                "but head does not declare the lane yet: merge the base branch to run it"
            )
        assert output.read_text() == 'run=true\nlanes=["new"]\n' * 2

    def test_a_lane_that_head_removed_is_skipped(self, project, gate):
        lanes = (project.root / "tasks/lanes.yml").read_text()
        add(project, "tasks/lanes.yml", lanes.partition("  two:")[0])
        add(project, "lib/new.txt")
        code, out, err = gate("--lane", "two")
        assert (code, out) == (0, "false\n")
        assert err.splitlines()[-1].endswith("of the base branch's tip, but head removed the lane")

    def test_lane_files_that_a_sparse_checkout_leaves_out_count(self, project, gate):
        add(project, "src/one.txt")
        add(project, "docs/one.md")
        project.git("sparse-checkout", "set", "docs")
        assert not (project.root / "tasks").exists()
        assert gate("--lane", "one", cwd="docs")[:2] == (0, "true\n")
        assert gate("--lane", "two")[:2] == (0, "false\n")

    def test_head_without_any_lane_and_base_with_some(self, project, gate):
        project.git("rm", "-q", "-r", "tasks")
        project.commit()
        code, out, err = gate()
        assert (code, out) == (0, "true\n")
        assert "everything runs: head declares no lane, though the base branch's tip does" in err

    def test_a_folder_that_only_looks_like_a_repository(self, project, gate):
        add(project, "src/one.txt")
        project.write("docs/.git/HEAD", "")
        assert gate(cwd="docs")[:2] == (0, "true\n")

    def test_an_edit_of_the_workflow_that_gates_a_lane_touches_it_however_it_is_written(self, project, gate):
        project.git("checkout", "-q", "main")
        project.write("tasks/lanes.yml", "lanes:\n  w:\n    paths: {workflow: ./ci/w.yml}\n    checks: [command: x]\n")
        add(project, "ci/w.yml", "on: {pull_request: {paths: [src/**]}}\n")
        project.git("checkout", "-q", "-B", "work")
        add(project, "ci/w.yml", "on: {pull_request: {paths: [src/**]}} # more\n")
        assert gate()[1] == "true\n"
        assert gate("main", "HEAD")[1] == "true\n"

    def test_no_lane_at_all(self, project, gate):
        project.git("checkout", "-q", "main")
        project.git("rm", "-q", "-r", "tasks")
        project.commit()
        cure = "`doit lanes init` writes a first one"
        assert gate() == (3, "", f"no lane is declared: there is no tasks/*.yml\n{cure}\n")

    def test_mistakes_in_head_s_lanes(self, project, gate):
        project.write("tasks/lanes.yml", "lanes:\n  one:\n    pats: [src/**]\n    checks: [command: x]\n")
        line = "tasks/lanes.yml:3:5: unknown key 'pats' in lane 'one'; did you mean 'paths'?\n"
        assert gate() == (3, "", f"{line}        pats: [src/**]\n        ^\n")

    @pytest.mark.parametrize("spoil", ["link", "text"])
    def test_mistakes_in_the_base_branch_s_lanes_open_the_answer(self, project, gate, spoil):
        add(project, "docs/new.md")
        project.git("checkout", "-q", "main")
        if spoil == "link":
            (project.root / "tasks/more.yml").symlink_to("lanes.yml")
        else:
            project.write("tasks/more.yml", "lanes: [\n")
        project.commit()
        project.git("checkout", "-q", "work")
        code, out, err = gate()
        assert (code, out) == (0, "true\n")
        assert "everything runs: the lane files of the base branch's tip can't be read: tasks/more.yml:" in err


class TestOpen:
    @pytest.mark.parametrize("revisions", [("nope", "HEAD"), ("HEAD", "nope"), ("0" * 40, "HEAD")])
    def test_revisions_that_are_not_here(self, gate, revisions):
        code, out, err = gate(*revisions)
        assert (code, out) == (0, "true\n")
        assert "everything runs: '" in err

    def test_an_unknown_event(self, project, gate, tmp_path):
        code, out, err = gate(environ=event(project, tmp_path, "merge_groups"))
        assert (code, out) == (0, "true\n")
        assert "everything runs: GitHub's merge_groups event: there is no rule for this event" in err

    def test_git_is_missing(self, gate, tmp_path):
        output = tmp_path / "output"
        code, out, err = gate(environ={"PATH": str(tmp_path), "GITHUB_OUTPUT": str(output)})
        assert (code, out) == (0, "true\n")
        assert err.splitlines()[3] == "everything runs: git is not on PATH; install it (the package is named git)"
        assert output.read_text() == 'run=true\nlanes=["one","two"]\n'

    def test_git_fails_in_the_middle(self, project, gate, tmp_path):
        add(project, "docs/new.md")
        add(project, "docs/other.md")
        program = tmp_path / "bin" / "git"
        program.parent.mkdir()
        program.write_text(
            "#!/bin/sh\n"
            'case "$*" in *merge-base*) printf 1234; echo "fatal: broken" >&2; exit 128;; esac\n'
            f'PATH="{os.environ["PATH"]}"; exec git "$@"\n'
        )
        program.chmod(0o755)
        code, out, err = gate(environ={"PATH": str(program.parent)})
        assert (code, out) == (0, "true\n")
        assert "everything runs: git merge-base failed (128): fatal: broken" in err

    @pytest.mark.parametrize("asked", [(), ("main", "HEAD"), ("x.yml",)])
    def test_missing_objects_of_the_base_branch_s_tip(self, project, gate, asked):
        project.write("x.yml", WORKFLOW)
        add(project, "docs/new.md")
        project.git("checkout", "-q", "main")
        add(project, "x.yml", WORKFLOW + "# more\n")
        lost = ("main:x.yml",) if "x.yml" in asked else ("main:tasks", "main^{tree}")
        project.write("tasks/more.yml", "lanes: {more: {paths: [docs/**], checks: [command: x]}}\n")
        project.commit()
        ids = [project.git("rev-parse", name) for name in lost]
        project.git("checkout", "-q", "work")
        for oid in ids:
            (project.root / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
            code, out, err = gate(*asked)
            assert (code, out) == (0, "true\n")
            assert "everything runs: " in err
            assert "is missing from this clone" in err

    def test_a_fault_of_its_own_is_told_as_the_documented_object(self, gate, monkeypatch, tmp_path):
        def fail(*_):
            raise RuntimeError("first\nsecond")

        monkeypatch.setattr(cli, "answer_to", fail)
        output = tmp_path / "output"
        code, out, err = gate("--json", environ={"GITHUB_OUTPUT": str(output)})
        reason = "touchgate itself failed: RuntimeError: first; please report it"
        assert (code, json.loads(out)) == (
            0,
            {
                "schema": 1,
                "run": True,
                "base": None,
                "head": None,
                "merge_base": None,
                "merge_bases": [],
                "base_from": "unknown",
                "head_from": "unknown",
                "head_is_worktree": False,
                "proof": "none",
                "looked_at": None,
                "open_reason": reason,
                "due": None,
                "notes": [],
                "suite": "smoke",
                "lanes": [],
            },
        )
        monkeypatch.undo()
        assert json.loads(gate("--json")[1]).keys() == json.loads(out).keys()
        assert f"everything runs: {reason}\n" in err
        assert output.read_text() == "run=true\n"
        assert gate()[:2] == (0, "true\n")

    def test_a_name_can_t_speak_to_the_log(self, project, gate):
        add(project, "src/a\n::error::\x1b[31mhello")
        _, out, err = gate()
        assert out == "true\n"
        assert "src/a\\n::error::\\x1b[31mhello (A) matches" in err
        assert "\x1b" not in err


class TestWorkflow:
    @pytest.fixture(autouse=True)
    def workflow(self, project):
        project.git("checkout", "-q", "main")
        project.write(".github/workflows/x.yml", WORKFLOW)
        project.commit()
        project.git("checkout", "-q", "-B", "work")

    @pytest.mark.parametrize(
        ("name", "cwd"),
        [
            (".github/workflows/x.yml", "."),
            ("./.github/workflows/x.yml", "."),
            (".github/workflows/x.yml", "docs"),
            ("../.github/workflows/x.yml", "docs"),
            ("x.yml", "docs"),
        ],
    )
    def test_its_own_list(self, project, gate, tmp_path, name, cwd):
        add(project, "src/one.txt")
        output = tmp_path / "output"
        code, out, err = gate(name, "main", "HEAD", cwd=cwd, environ={"GITHUB_OUTPUT": str(output)})
        assert (code, out) == (0, "true\n")
        assert err.splitlines()[-1] == (
            "run   .github/workflows/x.yml  src/one.txt matches src/** at .github/workflows/x.yml:3:13"
        )
        assert output.read_text() == "run=true\n"

    @pytest.mark.parametrize("path", ["src/one.md", ".github/x.yml", ".github/workflows/x.yml", "docs/src/a"])
    def test_what_its_list_does_not_name(self, project, gate, path):
        add(project, path, WORKFLOW + "# more\n")
        assert gate("x.yml", "main", "HEAD")[:2] == (0, "false\n")

    def test_the_list_is_that_of_the_event(self, project, gate, tmp_path):
        add(project, "lib/one.txt")
        for name, expected in (("push", "true\n"), ("pull_request", "false\n"), ("workflow_dispatch", "true\n")):
            assert gate("x.yml", "main", "HEAD", environ=event(project, tmp_path, name))[:2] == (0, expected)
        pull = event(project, tmp_path, "pull_request")
        assert gate("x.yml", environ=pull)[:2] == (0, "false\n")
        assert gate("x.yml", environ=event(project, tmp_path, "schedule"))[:2] == (0, "true\n")

    @pytest.mark.parametrize(
        ("path", "answer", "reason"),
        [
            ("src/a", "true\n", "src/a matches src/** at .github/workflows/x.yml:3:13"),
            ("lib/a", "true\n", "lib/a matches lib/** at .github/workflows/x.yml:5:13"),
            (
                "a",
                "false\n",
                "the one touched path does not match .github/workflows/x.yml, the lists of pull_request and of push",
            ),
        ],
    )
    def test_without_an_event_any_of_its_lists_will_do(self, project, gate, path, answer, reason):
        add(project, path)
        code, out, err = gate("x.yml")
        assert (code, out) == (0, answer)
        assert reason in err.splitlines()[-1]

    @pytest.mark.parametrize("words", [("main", "HEAD"), ()])
    @pytest.mark.parametrize("name", ["x.yml", ".github/workflows/x.yml", "workflows/x.yml"])
    def test_a_workflow_that_the_change_deletes_runs(self, project, gate, words, name):
        project.git("rm", "-q", ".github/workflows/x.yml")
        project.commit()
        (project.root / ".github").mkdir(exist_ok=True)
        code, out, err = gate(name, *words, cwd=".github" if name.startswith("work") else ".")
        assert (code, out) == (0, "true\n")
        reason = "head has no .github/workflows/x.yml any more, only the base branch's tip does"
        assert err.splitlines()[-2:] == [f"everything runs: {reason}", f"run   {name}  {reason}"]

    def test_a_list_that_the_base_branch_s_tip_has_counts_too(self, project, gate):
        add(project, "docs/new.md")
        project.git("checkout", "-q", "main")
        project.write(".github/workflows/x.yml", WORKFLOW.replace("[src/**,", "[src/**, docs/**,"))
        project.commit()
        project.git("checkout", "-q", "work")
        code, out, err = gate("x.yml")
        assert (code, out) == (0, "true\n")
        assert err.splitlines()[-1].endswith(
            "docs/new.md matches docs/** at .github/workflows/x.yml:3:21 of the base branch's tip"
        )

    def test_a_submodule_that_is_not_checked_out_may_hold_what_it_names(self, project, gate):
        project.git("checkout", "-q", "main")
        ids = [project.git("rev-parse", name) for name in ("HEAD", "HEAD~1")]
        project.git("update-index", "--add", "--cacheinfo", f"160000,{ids[0]},vendor")
        project.git("commit", "-q", "-m", "submodule")
        project.git("checkout", "-q", "-B", "work")
        project.git("update-index", "--cacheinfo", f"160000,{ids[1]},vendor")
        project.git("commit", "-q", "-m", "bump")
        for paths, answer in (("vendor/cutlass/**", "true\n"), ("'**/*.h'", "true\n"), ("vendors/**", "false\n")):
            name = ".github/workflows/x.yml"
            project.git("checkout", "-q", "main")
            project.write(name, f"on: {{pull_request: {{paths: [{paths}]}}}}\n")
            project.git("add", name)
            project.git("commit", "-q", "-m", "list")
            project.git("checkout", "-q", "work")
            project.git("merge", "-q", "--no-edit", "main")
            assert gate("x.yml", "main", "HEAD")[:2] == (0, answer)
        ignore = WORKFLOW.replace('paths: [src/**, "!src/**/*.md"]', "paths-ignore: ['**']")
        project.write(".github/workflows/x.yml", ignore)
        project.git("commit", "-q", "-a", "-m", "ignore")
        assert gate("x.yml", "main", "HEAD")[1] == "true\n"

    @pytest.mark.parametrize("committed", [True, False])
    def test_a_link_is_refused_in_the_words_of_lane_files(self, project, gate, committed):
        (project.root / ".github/workflows/y.yml").symlink_to("x.yml")
        project.commit() if committed else None
        for cwd in (".", ".github/workflows"):
            code, out, err = gate("y.yml", *(("main", "HEAD") if committed else ()), cwd=cwd)
            assert (code, out) == (3, "")
            assert err == (
                ".github/workflows/y.yml:1:1: .github/workflows/y.yml is a symbolic link, which is not followed: "
                "what it points to could change unseen\n"
            )

    def test_a_link_at_the_base_branch_s_tip_opens_the_answer(self, project, gate):
        add(project, "docs/new.md")
        project.git("checkout", "-q", "main")
        file = project.root / ".github/workflows/x.yml"
        file.rename(file.with_name("real.yml"))
        file.symlink_to("real.yml")
        project.commit()
        project.git("checkout", "-q", "work")
        code, out, err = gate("x.yml")
        assert (code, out) == (0, "true\n")
        assert "the workflow at the base branch's tip can't be read: .github/workflows/x.yml:1:1: " in err

    def test_no_lane_file_is_needed(self, project, gate):
        project.git("rm", "-q", "-r", "tasks")
        project.commit()
        assert gate("x.yml", "main", "HEAD")[:2] == (0, "false\n")

    def test_json(self, project, gate):
        add(project, "src/one.txt")
        data = json.loads(gate("x.yml", "main", "HEAD", "--json")[1])
        assert [(lane["name"], lane["decision"], lane["pattern"]) for lane in data["lanes"]] == [
            (".github/workflows/x.yml", "run", "src/**")
        ]

    def test_a_workflow_that_is_not_there(self, project, gate):
        code, out, err = gate("y.yml", "main", "HEAD")
        assert (code, out) == (3, "")
        assert err.startswith("there is no workflow y.yml at head (looked for y.yml, .github/workflows/y.yml,")
        project.write(".github/workflows/release.yml", WORKFLOW)
        for name in ("relase.yml", ".github/workflows/relaese.yml"):
            assert gate(name)[2].endswith("); did you mean 'release.yml'?\n")
        assert gate("../../y.yml", "main", "HEAD")[0] == 3

    def test_a_workflow_that_can_t_be_read(self, project, gate):
        project.write(".github/workflows/x.yml", "on:\n  push:\n    path: [a]\n")
        code, out, err = gate("x.yml")
        assert (code, out) == (3, "")
        assert err.startswith(".github/workflows/x.yml:3:5: unknown key 'path' in 'push'; did you mean 'paths'?")

    def test_lanes_do_not_go_with_a_workflow(self, gate):
        assert gate("x.yml", "--lane", "one")[0] == 3


class TestUsage:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("main",),
            ("a", "b", "c"),
            ("x.yml", "main"),
            ("a", "b", "c", "d"),
            ("--upload-pack=x", "HEAD"),
            ("--suite", "huge"),
            ("--lane",),
            ("", "HEAD"),
            ("--js",),
        ],
    )
    def test_wrong_lines_are_3_and_say_why(self, gate, arguments):
        code, out, err = gate(*arguments)
        assert (code, out) == (3, "")
        assert err

    def test_files_named_like_revisions_are_no_workflows(self, project, gate):
        project.write("main", "x")
        project.write("HEAD", "x")
        add(project, "src/one.txt")
        code, out, err = gate("main", "HEAD")
        assert (code, out) == (0, "true\n")
        assert "src/one.txt (A) matches src/**" in err
        assert gate("main")[2].startswith("'main' is no workflow: its name ends in neither .yml nor .yaml; revisions come as")

    def test_an_output_that_nobody_reads_does_not_hang(self, gate, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        code, _, err = gate(environ={"GITHUB_OUTPUT": str(tmp_path / "pipe")})
        assert code == 3
        assert "can't be written: No such device or address" in err

    def test_a_dash_in_a_revision_is_no_option_of_git_s(self, project, gate):
        code, out, err = gate("--", "--upload-pack=touch ran", "HEAD")
        assert (code, out) == (0, "true\n")
        assert "everything runs: '--upload-pack=touch ran' names nothing here: no branch, tag or commit" in err
        assert not (project.root / "ran").exists()

    def test_outside_of_a_repository(self, gate, tmp_path):
        code, out, err = gate(cwd=str(tmp_path))
        assert (code, out) == (3, "")
        assert "is not inside a git repository" in err

    def test_a_wrong_suite_in_the_environment(self, gate):
        assert gate(environ={"TOUCHGATE_SUITE": "huge"})[0] == 3

    def test_an_output_that_can_t_be_written_is_not_passed_over(self, gate, tmp_path):
        code, _, err = gate(environ={"GITHUB_OUTPUT": str(tmp_path)})
        assert code == 3
        assert "can't be written: Is a directory" in err


class TestCost:
    @pytest.fixture
    def count(self, tmp_path):
        """A PATH whose git keeps a log, and what was asked since the last look."""
        program = tmp_path / "bin" / "git"
        program.parent.mkdir()
        log = tmp_path / "log"
        log.touch()
        program.write_text(f'#!/bin/sh\necho "$*" >> {log}\nPATH="{os.environ["PATH"]}"; exec git "$@"\n')
        program.chmod(0o755)
        commands = ("cat-file", "merge-base", "diff-tree", "status", "ls-files", "rev-list")

        def asked() -> list[str]:
            lines = log.read_text().splitlines()
            log.write_text("")
            return [next(word for word in line.split() if word in commands) for line in lines]

        return str(program.parent), asked

    def test_an_untouched_decision_takes_few_processes(self, project, gate, count):
        add(project, "docs/one.md")
        add(project, "docs/two.md")
        path, asked = count
        assert gate("main", "HEAD", environ={"PATH": path})[1] == "false\n"
        assert asked() == ["cat-file", "merge-base", "diff-tree"]
        assert gate(environ={"PATH": path})[1] == "false\n"
        assert asked() == ["cat-file", "merge-base", "diff-tree", "status", "ls-files"]

    def test_only_what_is_needed_is_imported(self):
        program = (
            "import sys, touchgate.gate.cli\n"
            "print(sorted({name.partition('.')[0] for name in sys.modules} & "
            "{'doit', 'git', 'numpy', 'filelock', 'argparse', 'asyncio', 'hashlib', 'json', 'logging'}))\n"
            "print(sorted(name for name in sys.modules if name.startswith('touchgate.') and not "
            "name.startswith('touchgate.gate')))\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n[]\n"

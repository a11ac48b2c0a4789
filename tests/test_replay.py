"""`touchgate replay` over real histories: which changes, what is said of each, and what goes wrong."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import Project, clean_environment, ended
from touchgate.gate.git import Repository
from touchgate.replay.history import read

CODE = "import sys; from touchgate.console import main; sys.exit(main())"


def replay(project: Project, *words: str, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", CODE, "replay", *words],
        cwd=cwd or project.root,
        env={**project.environ, "COLUMNS": "150", **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done


def played(project: Project, *words: str, **options: object) -> dict:
    done = replay(project, "--json", *words, **options)
    assert (done.returncode, done.stderr) == (0, ""), done
    return json.loads(done.stdout)


def merge(project: Project, branch: str, writes: dict[str, str], subject: str) -> tuple[str, str]:
    """A branch off main with one commit, merged; the ids of that commit and of the merge."""
    project.git("checkout", "-q", "-b", branch, "main")
    for name, text in writes.items():
        project.write(name, text)
    head = project.commit(f"work on {branch}")
    project.git("checkout", "-q", "main")
    project.git("merge", "-q", "--no-ff", "-m", subject, branch)
    return head, project.git("rev-parse", "HEAD")


@pytest.fixture
def history(project: Project) -> Project:
    """Three merges: one touches lane one, one both, one neither. On main between them a plain commit."""
    project.git("checkout", "-q", "main")
    lanes = (project.root / "tasks/lanes.yml").read_text()
    project.write("tasks/lanes.yml", lanes.replace("    paths: [lib/**]\n", "    paths: [lib/**]\n    minutes: 40\n"))
    project.git("commit", "-q", "-a", "--amend", "--no-edit")
    merge(project, "a", {"src/x.txt": "x\n"}, "Merge a")
    project.write("docs/plain.md", "plain\n")
    project.commit("plain")
    merge(project, "b", {"src/y.txt": "y\n", "lib/y.txt": "y\n"}, "Merge b")
    merge(project, "c", {"docs/c.md": "c\n"}, "Merge c: \x1b[2J \u202e::error::x")
    project.git("checkout", "-q", "work")
    return project


def running(change: dict) -> list[str]:
    return [lane["name"] for lane in change["lanes"] if lane["decision"] == "run"]


def test_the_last_merges_with_their_plans(history: Project) -> None:
    data = played(history)
    main = history.git("rev-parse", "main")
    assert (data["schema"], data["kind"], data["tip"], data["lanes_from"]) == (1, "merges", main, "history")
    assert data["branch"] == "main (the default branch, by the local branch main, as nothing else names it)"
    assert [(change["subject"], running(change), change["touched"]) for change in data["changes"]] == [
        ("Merge c: \x1b[2J \u202e::error::x", [], 1),
        ("Merge b", ["one", "two"], 2),
        ("Merge a", ["one"], 1),
    ]
    first = data["changes"][0]
    assert (first["commit"], first["base"], first["head"]) == (main, *history.git("rev-parse", "main^1", "main^2").split())
    assert first["merge_base"] == history.git("merge-base", "main^1", "main^2")
    assert data["notes"] == ["1 commit on that line is no merge and was not played; --commits plays every one"]
    summary = data["summary"]
    assert (summary["judged"], summary["untouched"], summary["open"]) == (3, 1, 0)
    assert summary["lanes"] == [
        {"name": "one", "ran": 2, "untouched": 1, "minutes_saved": None},
        {"name": "two", "ran": 1, "untouched": 2, "minutes_saved": 80.0},
    ]
    assert summary["median_ms"] <= summary["p95_ms"]
    assert [change["subject"] for change in played(history, "--last", "1")["changes"]] == [first["subject"]]


def test_what_a_person_reads(history: Project) -> None:
    done = replay(history, "--against", "git diff --name-only $1...$2 | grep -q lib/", "--answer", "exit")
    ids = [line[:7] for line in history.git("log", "--format=%H", "--merges", "--first-parent", "main").splitlines()]
    # The milliseconds are whatever they are.
    shown = re.sub(r" +\d+\.\d(?= |$)", " N", re.sub(r"\d+\.\d ms", "N ms", done.stdout), flags=re.MULTILINE)
    assert re.sub(r"paths +ms", "paths ms", shown) == (
        "3 merges of main (the default branch, by the local branch main, as nothing else names it), the newest first; "
        "lanes, suite smoke, as each change declared them\n"
        "against git diff --name-only $1...$2 | grep -q lib/\n"
        "note: 1 commit on that line is no merge and was not played; --commits plays every one\n"
        "\n"
        "merge    paths ms  ours         theirs              subject\n"
        f"{ids[0]}      1 N  none         skip                Merge c: \\x1b[2J \\u202e::error::x\n"
        f"{ids[1]}      2 N  all 2        run                 Merge b\n"
        f"{ids[2]}      1 N  1 of 2: one  skip    FALSE SKIP  Merge a\n"
        "\n"
        "false skips, 1 of 3 merges: their gate skips what the change touches\n"
        f"{ids[2]}  Merge a\n"
        "   one: src/x.txt (A) matches src/** at tasks/lanes.yml:4:13\n"
        "\n"
        "lane  ran  untouched  saved\n"
        "one     2          1  -\n"
        "two     1          2 N h\n"
        "\n"
        "3 merges judged, 1 of them touch nothing, 0 open\n"
        "saved: N h, by the minutes that the lanes name as their targets; 1 lane more, without any\n"
        "a decision took N ms (median), N ms (95th percentile)\n"
        "FALSE SKIP: 1, skip of what can't be told: 0, they run, we skip: 0, no answer: 0\n"
    )


def test_the_disagreements_come_with_their_proof(history: Project) -> None:
    done = replay(history, "--against", 'git diff --name-only "$1...$2" | grep -q docs/', "--answer", "exit")
    ids = history.git("log", "--format=%H", "--merges", "--first-parent", "main").split()
    shown = done.stdout[done.stdout.index("\nfalse skips") :]
    assert shown[: shown.index("\nlane")] == (
        "\n"
        "false skips, 2 of 3 merges: their gate skips what the change touches\n"
        f"{ids[1][:7]}  Merge b\n"
        "   one: src/y.txt (A) matches src/** at tasks/lanes.yml:4:13\n"
        "   two: lib/y.txt (A) matches lib/** at tasks/lanes.yml:10:13\n"
        f"{ids[2][:7]}  Merge a\n"
        "   one: src/x.txt (A) matches src/** at tasks/lanes.yml:4:13\n"
        "\n"
        "they run, we skip, 1 of 3 merges: their gate runs what the change does not touch\n"
        f"{ids[0][:7]}  Merge c: \\x1b[2J \\u202e::error::x\n"
        "   one: the one touched path does not match\n"
        "   two: the one touched path does not match\n"
    )
    assert done.stdout.endswith("\nFALSE SKIP: 2, skip of what can't be told: 0, they run, we skip: 1, no answer: 0\n")


def test_a_gate_that_names_lanes_is_compared_lane_by_lane(history: Project) -> None:
    data = played(history, "--against", 'echo \'["two", "gone"]\'; : ')
    found = [[(one["kind"], one["name"]) for one in change["disagreements"]] for change in data["changes"]]
    assert found == [[("they_run", "two")], [("false_skip", "one")], [("false_skip", "one"), ("they_run", "two")]]
    assert data["changes"][2]["disagreements"][0]["where"] == "tasks/lanes.yml:4:13"
    assert data["changes"][0]["theirs"]["lanes"] == ["two"]
    assert data["summary"]["disagreements"] == {"false_skip": 2, "untold": 0, "they_run": 2}
    shown = replay(history, "--against", 'echo \'["two", "gone"]\'; : ').stdout
    assert "their gate names what is no lane here: gone\n" in shown


def test_our_own_gate_as_the_other_agrees(history: Project) -> None:
    command = f"'{sys.executable}' -c '{CODE}' gate --json $1 $2 2>/dev/null"
    data = played(history, "--against", command)
    assert [change["disagreements"] for change in data["changes"]] == [[], [], []]
    assert [change["theirs"]["run"] for change in data["changes"]] == [False, True, True]


def test_a_gate_that_never_answers_is_exit_2(history: Project) -> None:
    done = replay(history, "--against", "touchgate-no-such-program")
    assert done.returncode == 2
    assert "no answer of their gate, 3 of 3\n   it ended with exit code 127: " in done.stdout
    assert replay(history, "--against", '[ "$2" = "$(git rev-parse main^2)" ] && echo false || exit 9').returncode == 0


def test_nothing_is_written_and_the_working_tree_does_not_count(history: Project) -> None:
    before = played(history)
    history.write("src/uncommitted.txt", "x\n")
    history.write("tasks/lanes.yml", "lanes: [broken")

    def state() -> dict[str, str]:
        files = [path for path in history.root.rglob("*") if path.is_file()]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    was = state()
    after = played(history, "--against", "echo true; :")
    assert state() == was
    assert [change["lanes"] for change in after["changes"]] == [change["lanes"] for change in before["changes"]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_other_gate_does_not_outlive_the_replay(history: Project, tmp_path: Path, number: int) -> None:
    started = tmp_path / "started"
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, "replay", "--against", f"echo $$ > {started}; exec sleep 600"],
        cwd=history.root,
        env=history.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (started.exists() and started.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")
    assert ended(int(started.read_text()))


# ---- which changes


def test_a_squashed_history_is_played_commit_by_commit(project: Project) -> None:
    project.git("checkout", "-q", "main")
    project.write("src/x.txt", "x\n")
    second = project.commit("one (#1)")
    project.write("docs/x.md", "x\n")
    third = project.commit("none (#2)")
    data = played(project)
    assert data["kind"] == "commits"
    assert data["notes"] == [
        "there is no merge among the last 3 along first parents, so each commit on that line is played against its parent"
    ]
    first = project.git("rev-parse", "main~2")
    assert [(one["commit"], one["base"], one["head"], running(one)) for one in data["changes"]] == [
        (third, second, third, []),
        (second, first, second, ["one"]),
    ]
    assert replay(project).stdout.startswith("2 commits of main (the default branch, ")


def test_a_team_that_went_over_to_squashing_is_not_judged_by_its_old_merges(history: Project, monkeypatch) -> None:
    history.git("checkout", "-q", "main")
    for number in range(3):
        history.write("docs/x.md", f"{number}\n")
        history.commit(f"squashed {number}")
    with Repository(history.root, history.environ) as repo:
        assert read(repo, 2).kind == "merges"
        monkeypatch.setattr("touchgate.replay.history.RECENT", 3)
        found = read(repo, 2)
        assert (found.kind, [one.subject for one in found.merges]) == ("commits", ["squashed 2", "squashed 1"])
        assert read(repo, 4).kind == "merges"


def test_every_commit_can_be_asked_for(history: Project) -> None:
    data = played(history, "--commits")
    assert [change["subject"][:7] for change in data["changes"]] == ["Merge c", "Merge b", "plain", "Merge a"]
    assert [running(change) for change in data["changes"]] == [[], ["one", "two"], [], ["one"]]
    assert (data["kind"], data["notes"]) == ("commits", [])


def test_a_merge_of_three_is_judged_whole(project: Project) -> None:
    for name, path in (("x", "src/x"), ("y", "lib/y")):
        project.git("checkout", "-q", "-b", name, "main")
        project.write(path, "x\n")
        project.commit(name)
    project.git("checkout", "-q", "main")
    project.write("docs/moved.md", "x\n")
    project.commit("main moves on")
    project.git("merge", "-q", "--no-ff", "-m", "octopus", "x", "y")
    (change,) = (data := played(project))["changes"]
    assert running(change) == ["one", "two"]
    assert (change["head"], change["base"]) == (change["commit"], project.git("rev-parse", "main^1"))
    assert (
        f"merges of more than two parents are judged whole, against their first parent: 1, such as {change['commit'][:12]}"
        in (data["notes"])
    )


def test_main_merged_back_into_itself_touches_nothing(project: Project) -> None:
    """A merge whose second parent is an ancestor of the first."""
    project.git("checkout", "-q", "main")
    project.write("src/x.txt", "x\n")
    tip = project.commit()
    tree = project.git("rev-parse", "main^{tree}")
    project.git("update-ref", "refs/heads/main", project.git("commit-tree", tree, "-p", tip, "-p", "main~1", "-m", "back"))
    (change,) = played(project)["changes"]
    assert (change["run"], change["touched"], change["open_reason"]) == (False, 0, None)


def test_another_branch(history: Project) -> None:
    assert [change["subject"] for change in played(history, "--branch", "main~1")["changes"]] == ["Merge b", "Merge a"]
    done = replay(history, "--branch", "nowhere")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "touchgate replay: 'nowhere' names nothing here: no branch, tag or commit; what only the remote has comes with "
        "`git fetch`\n"
    )


def test_from_any_folder(history: Project) -> None:
    assert len(played(history, cwd=history.root / "docs")["changes"]) == 3


def test_origin_s_default_branch_comes_first(history: Project, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    history.git("checkout", "-q", "main")
    subprocess.run(["git", "clone", "-q", str(history.root), str(clone)], check=True, env=history.environ)
    data = played(history, cwd=clone)
    assert data["branch"] == "origin/main (the default branch, by origin/HEAD)"
    assert len(data["changes"]) == 3


def test_a_shallow_clone_says_where_it_ends_and_never_skips_on_a_guess(history: Project, tmp_path: Path) -> None:
    whole = {change["commit"]: change for change in played(history)["changes"]}
    for depth in range(1, 6):
        clone = tmp_path / f"clone{depth}"
        url = f"file://{history.root}"
        subprocess.run(
            ["git", "clone", "-q", "--branch", "main", "--depth", str(depth), url, str(clone)], check=True, env=history.environ
        )
        done = replay(history, "--json", cwd=clone)
        if depth == 1:
            assert done.returncode == 3
            assert "has no change to play: no commit of it has a parent here this clone is shallow" in done.stderr
            continue
        data = json.loads(done.stdout)
        assert len(data["changes"]) < 3 or depth == 5
        for change in data["changes"]:
            truth = whole.get(change["commit"])
            assert change["open_reason"] or not truth or running(change) == running(truth)
        if len(data["changes"]) < 3:
            assert any(note.startswith("this clone is shallow: history is cut off at ") for note in data["notes"])


# ---- which lanes


def test_lanes_count_as_they_were_then(history: Project) -> None:
    """A lane that is declared now says nothing about a change of then, unless that is asked for."""
    history.git("checkout", "-q", "main")
    history.write("tasks/late.yml", "lanes:\n  late:\n    paths: [docs/**]\n    checks: [{command: 'true'}]\n")
    merge(history, "d", {"docs/d.md": "d\n"}, "Merge d")
    assert [running(change) for change in played(history)["changes"]] == [["late"], [], ["one", "two"], ["one"]]
    now = played(history, "--lanes-now")
    assert now["lanes_from"] == "checkout"
    assert [running(change) for change in now["changes"]] == [["late"], ["late"], ["one", "two"], ["one"]]


def test_lanes_without_minutes_save_no_time_that_is_known(project: Project) -> None:
    project.git("checkout", "-q", "main")
    merge(project, "a", {"docs/a.md": "x\n"}, "Merge a")
    assert "saved: 2 lanes, whose `minutes` are not declared, so no time is added up\n" in replay(project).stdout
    assert played(project)["summary"]["minutes_saved"] == 0


def test_a_bare_repository_is_refused_in_words(history: Project, tmp_path: Path) -> None:
    history.git("clone", "-q", "--bare", str(history.root), str(tmp_path / "bare.git"))
    for folder in ("bare.git", "bare.git/objects"):
        done = replay(Project(tmp_path / folder, history.environ))
        bare = tmp_path / "bare.git"
        said = f"{bare} is a bare repository; a replay needs a checkout, such as `git clone {bare}` makes"
        assert (done.returncode, done.stdout, done.stderr) == (3, "", f"touchgate replay: {said}\n")


def bare_history(project: Project) -> Project:
    """Merges from before there were lanes."""
    project.git("checkout", "-q", "main")
    project.git("rm", "-q", "-r", "tasks")
    project.git("commit", "-q", "--amend", "-m", "no lanes")
    merge(project, "a", {"src/x.txt": "x\n"}, "Merge a")
    merge(project, "b", {"docs/x.md": "x\n"}, "Merge b")
    return project


def test_a_team_without_lanes_in_its_history_tries_those_that_it_just_wrote(project: Project) -> None:
    bare_history(project)
    done = replay(project)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "touchgate replay: neither the checkout nor these changes declare anything to decide: "
        "no lane is declared: there is no tasks/*.yml\n"
    )
    project.write("tasks/new.yml", "lanes:\n  new:\n    paths: [src/**]\n    checks: [{command: 'true'}]\n")
    data = played(project)
    assert data["lanes_from"] == "checkout"
    assert [running(change) for change in data["changes"]] == [[], ["new"]]
    assert data["notes"] == [
        "none of them could be decided by what it declared itself (no lane is declared: there is no tasks/*.yml)"
    ]


def test_a_change_of_before_the_lanes_is_said_and_not_counted(project: Project) -> None:
    bare_history(project)
    project.write("tasks/new.yml", "lanes:\n  new:\n    paths: [src/**]\n    checks: [{command: 'true'}]\n")
    project.commit("lanes")
    merge(project, "c", {"src/c.txt": "x\n"}, "Merge c")
    data = played(project)
    assert [(change["run"], change["nothing"]) for change in data["changes"]] == [
        (True, None),
        (None, "no lane is declared: there is no tasks/*.yml"),
        (None, "no lane is declared: there is no tasks/*.yml"),
    ]
    assert (data["summary"]["judged"], data["summary"]["lanes"][0]["ran"]) == (1, 1)
    assert "2 of 3 declared nothing to decide; --lanes-now judges all by today's lanes" in data["notes"]


def test_lanes_that_could_not_be_read_then_are_open(history: Project) -> None:
    history.git("checkout", "-q", "main")
    merge(history, "d", {"tasks/lanes.yml": "lanes:\n  one: [\n"}, "Merge d")
    merge(history, "e", {"tasks/lanes.yml": "lanes:\n  one:\n    paths: [src/**]\n    checks: [{command: x}]\n"}, "Merge e")
    data = played(history, "--against", "echo false; :")
    assert [(change["run"], bool(change["open_reason"])) for change in data["changes"]] == [
        (True, True),  # the base's lanes can't be read
        (True, True),  # head's can't be
        (False, False),
        (True, False),
        (True, False),
    ]
    assert data["changes"][1]["open_reason"].startswith("tasks/lanes.yml:3:1: ")
    assert [[one["kind"] for one in change["disagreements"]] for change in data["changes"][:2]] == [["untold"], ["untold"]]
    shown = replay(history, "--against", "echo false; :").stdout
    assert "everything runs, since it can't be told\n" in shown
    assert shown.index("false skips, 2 of 5") < shown.index("skips of what can't be told, 2 of 5")


WORKFLOW = "on:\n  pull_request:\n    paths:\n      - {}\njobs: {{}}\n"


def test_a_workflow_s_own_list(history: Project) -> None:
    history.git("checkout", "-q", "main")
    history.write(".github/workflows/w.yml", WORKFLOW.format("lib/**"))
    history.commit("a workflow")
    merge(history, "d", {"lib/d.txt": "d\n"}, "Merge d")
    merge(history, "e", {"src/e.txt": "e\n"}, "Merge e")
    data = played(history, "w.yml", "--against", "echo true; :")
    assert [(change["run"], bool(change["nothing"])) for change in data["changes"]] == [
        (False, False),
        (True, False),
        (None, True),
        (None, True),
        (None, True),
    ]
    assert [[one["kind"] for one in change["disagreements"]] for change in data["changes"][:2]] == [["they_run"], []]
    history.write(".github/workflows/w.yml", WORKFLOW.format("docs/**"))
    now = played(history, "w.yml", "--lanes-now")
    assert [change["run"] for change in now["changes"]] == [False, False, True, False, False]
    done = replay(history, "gone.yml")
    assert (done.returncode, done.stdout) == (3, "")
    assert "there is no workflow gone.yml" in done.stderr


def test_one_lane(history: Project) -> None:
    data = played(history, "--lane", "two")
    assert [[lane["name"] for lane in change["lanes"]] for change in data["changes"]] == [["two"]] * 3
    assert replay(history, "--lane", "tow").returncode == 3


def test_names_that_are_no_text(history: Project) -> None:
    """A path and a subject that are not UTF-8."""
    history.git("checkout", "-q", "-b", "bytes", "main")
    (history.root / "src" / "\udcff.txt").write_text("x")
    history.git("add", "-A")
    history.git("-c", "i18n.commitEncoding=latin1", "commit", "-q", "-m", "caf\udce9")
    history.git("checkout", "-q", "main")
    history.git("-c", "i18n.commitEncoding=latin1", "merge", "-q", "--no-ff", "-m", "Merge caf\udce9", "bytes")
    (change, *_) = played(history)["changes"]
    assert change["subject"] == "Merge caf\xe9"
    (one, _) = change["lanes"]
    assert one["path_b64"] == "c3JjL/8udHh0"
    assert replay(history, PYTHONIOENCODING="ascii").returncode == 0


# ---- the command line


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--last", "0"], "--last 0: it is a number from 1 to 100000"),
        (["--last", "x"], "argument --last: invalid int value: 'x'"),
        (["--timeout", "9"], "--timeout is about the gate that --against asks: give --against, too"),
        (["--answer", "exit"], "--answer is about the gate that --against asks: give --against, too"),
        (["--against", "x", "--timeout", "0"], "--timeout 0: it is a number of seconds above 0"),
        (["--against", "x", "--timeout", "inf"], "--timeout inf: it is a number of seconds above 0"),
        (["--against", " "], "--against '': there is no command in it"),
        (["--against", "x", "--answer", "perhaps"], "--answer perhaps: it is stdout, exit, or output:NAME"),
        (["3"], "'3' is no workflow: its name ends in neither .yml nor .yaml; --last gives a number"),
        (["w.yml", "--lane", "one"], "a workflow's own path list names no lanes: give either WORKFLOW or --lane"),
    ],
)
def test_usage(history: Project, words: list[str], problem: str) -> None:
    done = replay(history, *words)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines()[0] == f"touchgate replay: {problem}"


def test_outside_of_a_repository_and_without_a_commit(tmp_path: Path) -> None:
    project = Project(tmp_path, clean_environment(tmp_path))
    done = replay(project)
    assert done.returncode == 3
    assert "is not inside a git repository" in done.stderr
    project.git("init", "-q", "-b", "main")
    done = replay(project)
    assert (done.returncode, done.stderr) == (3, "touchgate replay: there is no commit yet\n")


def test_a_forge_s_variables_say_nothing_about_then(history: Project, tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text("{}")
    plain = played(history)
    forge = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "schedule", "GITHUB_EVENT_PATH": str(event), "TOUCHGATE_BASE": "x"}
    inside = played(history, **forge)
    assert [change["lanes"] for change in inside["changes"]] == [change["lanes"] for change in plain["changes"]]

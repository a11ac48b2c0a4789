"""`doit` as its users run it: real processes in real repositories."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import Project, ended


def marks(project: Project) -> int:
    """How often the check of lane `one` really ran."""
    path = Path(project.environ["MARKS"])
    return len(path.read_text().splitlines()) if path.exists() else 0


def report(project: Project, *arguments: str, **options: object) -> dict[str, object]:
    """Run doit with a report; its result.json."""
    folder = project.root.parent / "report"
    done = project.doit("--report-dir", str(folder), *arguments, **options)
    data = json.loads((folder / "result.json").read_text())
    assert data["exit"] == done.returncode, done.stdout + done.stderr
    return data


def ends(data: dict[str, object]) -> list[tuple[str, str | None, bool]]:
    return [(check["name"], check["verdict"], check["cached"]) for check in data["checks"]]


def test_nothing_touched_ends_with_exit_0_and_says_so(project: Project) -> None:
    project.write("docs/a.md", "b\n")
    done = project.doit()
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing touched" in done.stdout
    assert ends(report(project)) == []


def test_a_touched_lane_runs_the_second_time_from_its_result(project: Project) -> None:
    project.write("src/a.txt", "changed\n")
    assert ends(report(project)) == [("one:command", "passed", False)]
    assert ends(report(project)) == [("one:command", "passed", True)]
    assert marks(project) == 1


@pytest.mark.parametrize("needs", ["[one]", "[between]", "{lite: [one]}"])
def test_what_a_needed_lane_touches_is_no_old_result(project: Project, needs: str) -> None:
    """What runs a lane is in its keys: else it would be run, and answered by a result from before the change."""
    lanes = project.root / "tasks" / "lanes.yml"
    three = f"""
  between: {{paths: [no/**], needs: [one], checks: [{{command: "true"}}]}}
  three: {{paths: [no/**], needs: {needs}, checks: [{{command: "X=src; ! grep -q bad $X/a.txt"}}]}}
"""
    lanes.write_text(lanes.read_text() + three)
    project.commit()
    project.git("branch", "-f", "main")
    project.write("src/a.txt", "good\n")
    ran = [end for end in ends(report(project)) if end[0] == "three:command"]
    assert ran == [("three:command", "passed", False)]
    project.write("src/a.txt", "bad\n")
    ran = [end for end in ends(report(project)) if end[0] == "three:command"]
    assert ran == [("three:command", "failed", False)]


@pytest.mark.parametrize("inputs", ["lib", "[lib/b.txt]", "['lib/*']"])
def test_what_a_needed_lane_names_as_inputs_is_no_old_result(project: Project, inputs: str) -> None:
    lanes = project.root / "tasks" / "lanes.yml"
    more = f"""
  y: {{paths: [no/**], checks: [{{command: "true", inputs: {inputs}}}]}}
  z: {{paths: [no/**], needs: [y], checks: [{{command: "X=lib; ! grep -q bad $X/b.txt"}}]}}
"""
    lanes.write_text(lanes.read_text() + more)
    project.commit()
    project.git("branch", "-f", "main")
    for text, verdict in (("good\n", "passed"), ("bad\n", "failed")):
        project.write("lib/b.txt", text)
        assert [end for end in ends(report(project)) if end[0] == "z:command"] == [("z:command", verdict, False)]
    project.write("lib/b.txt", "good\n")
    assert [end for end in ends(report(project)) if end[0] == "z:command"] == [("z:command", "passed", True)]


@pytest.mark.parametrize("taken", ["paths", "needs", "inputs"])
def test_what_only_the_base_s_declaration_is_touched_by_is_no_old_result(project: Project, taken: str) -> None:
    """A pattern that the change takes away still fires, so what it matches is still in the key."""
    file = project.root / "tasks" / "more.yml"
    before = {"paths": "[no/**, lib/**]", "needs": "[two]", "inputs": "[lib]"}
    after = {"paths": "[no/**]", "needs": "[]", "inputs": "[]"}

    def declare(of: dict[str, str]) -> None:
        now = {**after, taken: of[taken]}
        check = f'{{command: "X=lib; ! grep -q bad $X/b.txt", inputs: {now["inputs"]}}}'
        file.write_text(f"lanes:\n  z: {{paths: {now['paths']}, needs: {now['needs']}, checks: [{check}]}}\n")

    declare(before)
    project.commit()
    project.git("branch", "-f", "main")
    declare(after)
    for text, verdict in (("good\n", "passed"), ("bad\n", "failed")):
        project.write("lib/b.txt", text)
        assert [end for end in ends(report(project)) if end[0] == "z:command"] == [("z:command", verdict, False)]


def test_a_failure_shows_its_output_log_and_repeat_and_only_it_runs_again(project: Project) -> None:
    project.write("src/a.txt", "changed\n")
    project.write("lib/b.txt", "")
    first = project.doit()
    assert first.returncode == 1
    assert "repeat: doit --fresh two:command" in first.stdout
    assert "FAILED" in first.stdout
    project.write("lib/b.txt", "mended\n")
    data = report(project)
    assert ends(data) == [("one:command", "passed", True), ("two:command", "passed", False)]
    assert data["exit"] == 0


def test_fresh_runs_what_is_known(project: Project) -> None:
    project.write("src/a.txt", "changed\n")
    project.doit()
    assert ends(report(project, "--fresh")) == [("one:command", "passed", False)]
    assert marks(project) == 2


def test_a_name_runs_whatever_is_touched(project: Project) -> None:
    assert ends(report(project, "two")) == [("two:command", "passed", False)]
    assert ends(report(project, "two:command")) == [("two:command", "passed", True)]


def test_an_unknown_name_is_refused_with_a_guess(project: Project) -> None:
    done = project.doit("twoo")
    assert (done.returncode, done.stdout) == (3, "")
    assert "'twoo' is no lane, check or task of this repository; did you mean 'two'?" in done.stderr


def test_all_runs_every_lane(project: Project) -> None:
    assert [name for name, _, _ in ends(report(project, "--all"))] == ["one:command", "two:command"]


def test_from_a_subfolder(project: Project) -> None:
    project.write("src/a.txt", "changed\n")
    done = project.doit(cwd="docs")
    assert (done.returncode, done.stderr) == (0, "")
    assert "one:command" in done.stdout


def test_bad_declarations_are_refused_before_anything_runs(project: Project) -> None:
    project.write("tasks/lanes.yml", "lanes:\n  one:\n    path: [src/**]\n    checks: [{command: 'true'}]\n")
    done = project.doit()
    assert (done.returncode, done.stdout) == (3, "")
    assert "tasks/lanes.yml:3:5: unknown key 'path' in lane 'one'; did you mean 'paths'?" in done.stderr
    assert "Traceback" not in done.stderr


def test_outside_a_repository(tmp_path: Path, project: Project) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.doit]\nloader = "touchgate"\nreporter = "touchgate"\n')
    elsewhere = Project(tmp_path, {**project.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)})
    done = elsewhere.doit()
    assert (done.returncode, done.stdout) == (3, "")
    assert "is not inside a git repository" in done.stderr


def test_expect_head(project: Project) -> None:
    head = project.git("rev-parse", "HEAD")
    assert project.doit("--expect-head", head).returncode == 0
    refused = project.doit("--expect-head", "0" * 40)
    assert refused.returncode == 3
    assert f"the checkout is at {head}; nothing was run" in refused.stderr


def test_a_pair_is_refused_while_no_lane_declares_two_hosts(project: Project) -> None:
    done = project.doit("--topology", "pair")
    assert done.returncode == 3
    assert done.stderr == (
        "ERROR: --topology pair: no lane declares `device: {hosts: 2}`, so a second host would stand idle\n"
    )


def test_a_lane_whose_checks_are_all_unmeasured_is_no_pass(project: Project) -> None:
    project.write("tasks/gpu.yml", "lanes:\n  g:\n    paths: [gpu/**]\n    device: gpu\n    checks: [{command: 'true'}]\n")
    project.write("gpu/a", "")
    data = report(project, "--device", "emulated", "g")
    assert (ends(data), data["exit"]) == ([("g:command", "unmeasured", False)], 2)


def test_kill_9_in_the_middle_keeps_every_finished_result(project: Project) -> None:
    checks = "".join(f"      - {{command: 'echo {n} >> \"$MARKS\"; sleep 0.2', name: c{n}}}\n" for n in range(8))
    project.write("tasks/many.yml", f"lanes:\n  many:\n    paths: [many/**]\n    env: [MARKS]\n    checks:\n{checks}")
    process = subprocess.Popen(
        [sys.executable, "-m", "doit", "-n", "1", "many"],
        cwd=project.root, env=project.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while marks(project) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    process.stdout.close()
    before = marks(project)
    data = report(project, "-n", "1", "many")
    assert [verdict for _, verdict, _ in ends(data)] == ["passed"] * 8
    assert marks(project) <= 9, "more than the check in flight was repeated"
    assert sum(cached for _, _, cached in ends(data)) >= before - 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_children_keeps_results_and_exits_130(project: Project, number: signal.Signals) -> None:
    project.write(
        "tasks/slow.yml",
        "lanes:\n  slow:\n    paths: [slow/**]\n    env: [MARKS]\n    checks:\n"
        "      - {command: 'true', name: quick}\n"
        "      - {command: 'echo $$ > \"$MARKS\"; sleep 300', name: long}\n",
    )
    folder = project.root.parent / "report"
    process = subprocess.Popen(
        [sys.executable, "-m", "doit", "-n", "2", "--report-dir", str(folder), "slow"],
        cwd=project.root, env=project.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    path = Path(project.environ["MARKS"])
    deadline = time.monotonic() + 60
    records = Path(project.environ["XDG_CACHE_HOME"], "touchgate", "results", "records")
    while not (path.exists() and path.read_text().strip() and list(records.glob("*/*.json"))) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    data = json.loads((folder / "result.json").read_text())
    assert (data["exit"], ends(data)) == (130, [("slow:long", None, False), ("slow:quick", "passed", False)])
    assert ended(int(path.read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_a_killed_run_takes_its_checks_along(project: Project) -> None:
    project.write(
        "tasks/slow.yml",
        "lanes:\n  slow:\n    paths: [slow/**]\n    env: [MARKS]\n    checks:\n"
        '      - {command: \'trap "" TERM; echo $$ > "$MARKS"; sleep 300; sleep 300\', name: long}\n',
    )
    process = subprocess.Popen([sys.executable, "-m", "doit", "slow"], cwd=project.root, env=project.environ)
    path = Path(project.environ["MARKS"])
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert ended(int(path.read_text()))


def test_an_input_that_changed_while_a_run_waited_is_measured_anew(project: Project, tmp_path: Path) -> None:
    """Two checkouts share results; the second waits for the first, and is edited meanwhile."""
    text = (project.root / "tasks/lanes.yml").read_text()
    project.write("tasks/lanes.yml", text.replace("cat src/a.txt", "v=$(cat src/a.txt); sleep 3; test $v = a"))
    project.commit()
    other = Project(tmp_path / "other", project.environ)
    subprocess.run(["git", "clone", "-q", str(project.root), str(other.root)], check=True, env=project.environ)
    command = [sys.executable, "-m", "doit", "one"]
    first = subprocess.Popen(command, cwd=project.root, env=project.environ, stdout=subprocess.PIPE, text=True)
    locks = Path(project.environ["XDG_CACHE_HOME"], "touchgate", "results", "locks")
    deadline = time.monotonic() + 60
    while not list(locks.glob("*.lock")) and time.monotonic() < deadline:
        time.sleep(0.02)
    waiting = subprocess.Popen(command, cwd=other.root, env=project.environ, stdout=subprocess.PIPE, text=True)
    assert waiting.stdout is not None
    for line in waiting.stdout:
        if "another run is measuring the same" in line:
            break
    other.write("src/a.txt", "bad\n")
    told = waiting.communicate(timeout=60)[0]
    first.communicate(timeout=60)
    assert (first.returncode, waiting.returncode) == (0, 1), told


def test_what_was_changed_and_changed_back_while_a_check_ran_is_not_kept(project: Project) -> None:
    text = (project.root / "tasks/lanes.yml").read_text()
    project.write("tasks/lanes.yml", text.replace("cat src/a.txt", "echo b > src/a.txt; echo a > src/a.txt"))
    project.doit("one")
    assert ends(report(project, "one")) == [("one:command", "passed", False)]
    assert marks(project) == 2


def test_a_results_folder_that_everybody_can_write_is_refused(project: Project) -> None:
    folder = project.root.parent / "open"
    folder.mkdir()
    folder.chmod(0o777)
    done = project.doit("one", environ={"TOUCHGATE_RESULTS_DIR": str(folder)})
    assert done.returncode == 3
    assert "can be written by everybody" in done.stderr


def test_the_report_goes_to_the_output_file(project: Project) -> None:
    path = project.root.parent / "told"
    done = project.doit("-o", str(path), "two")
    assert (done.returncode, done.stdout) == (0, "")
    assert "two:command" in path.read_text()


def test_two_runs_at_once_do_nothing_twice(project: Project) -> None:
    project.write("src/a.txt", "changed\n")
    text = (project.root / "tasks/lanes.yml").read_text().replace("cat src/a.txt", "sleep 1")
    project.write("tasks/lanes.yml", text)
    command = [sys.executable, "-m", "doit", "one"]
    both = [
        subprocess.Popen(
            command, cwd=project.root, env=project.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert marks(project) == 1, outputs


def test_an_input_edited_while_the_check_ran_makes_its_result_unusable(project: Project) -> None:
    project.write("src/a.txt", "changed\n")
    text = (project.root / "tasks/lanes.yml").read_text().replace("cat src/a.txt", "echo more >> src/a.txt")
    project.write("tasks/lanes.yml", text)
    first = project.doit("one")
    assert "an input changed while it ran: the result is not kept" in first.stdout
    assert ends(report(project, "one")) == [("one:command", "passed", False)]


def test_a_read_only_checkout_and_an_empty_home(project: Project) -> None:
    project.write("src/a.txt", "changed\n")
    project.commit()
    home = project.root.parent / "nothing"
    home.mkdir(mode=0o500)
    environ = {name: value for name, value in project.environ.items() if name not in ("XDG_CACHE_HOME", "HOME")}
    bare = Project(project.root, {**environ, "HOME": str(home), "TMPDIR": str(project.root.parent)})
    for folder, _, _ in os.walk(project.root):
        Path(folder).chmod(0o555)
    try:
        done = bare.doit()
    finally:
        for folder, _, _ in os.walk(project.root):
            Path(folder).chmod(0o755)
    assert (done.returncode, done.stderr) == (0, "")
    assert "one:command" in done.stdout


def test_own_tasks_of_a_dodo_file_live_beside_lanes(project: Project) -> None:
    project.write("dodo.py", "def task_hello():\n    return {'actions': ['echo hello'], 'verbosity': 2}\n")
    done = project.doit("hello")
    assert (done.returncode, done.stderr) == (0, "")
    assert "hello" in done.stdout
    listed = project.doit("list")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["hello", "one", "one:command", "two", "two:command"]


def test_own_tasks_may_depend_on_lanes_and_checks(project: Project) -> None:
    project.write(
        "dodo.py",
        "def task_after():\n    return {'actions': ['echo after'], 'verbosity': 2, 'task_dep': ['one']}\n"
        "def task_last():\n    return {'actions': ['echo last'], 'verbosity': 2, 'setup': ['two:command']}\n"
        "def task_alone():\n    return {'actions': ['echo alone'], 'verbosity': 2}\n",
    )
    assert project.doit("alone").stdout.splitlines()[-1] == "alone"
    assert (project.doit().returncode, marks(project)) == (0, 0)
    done = project.doit("after")
    assert (done.returncode, marks(project)) == (0, 1), done.stdout + done.stderr
    assert "after" in done.stdout
    assert "two:command" in project.doit("last").stdout


def test_a_lane_named_like_a_task_is_refused(project: Project) -> None:
    project.write("dodo.py", "def task_one():\n    return {'actions': ['true']}\n")
    done = project.doit()
    assert done.returncode == 3
    assert "the lane 'one' has the name of a task in dodo.py; rename one" in done.stderr


def test_a_project_that_does_not_choose_touchgate_is_left_alone(project: Project) -> None:
    project.write("pyproject.toml", "")
    project.write("dodo.py", "def task_hello():\n    return {'actions': ['echo hello'], 'verbosity': 2}\n")
    done = project.doit()
    assert (done.returncode, done.stdout, done.stderr) == (0, ".  hello\nhello\n", "")
    assert project.doit("--suite", "full").returncode == 3


def test_names_of_our_commands_are_free_for_tasks_of_other_projects(project: Project) -> None:
    project.write("pyproject.toml", "")
    project.write("dodo.py", "def task_results():\n    return {'actions': ['echo mine'], 'verbosity': 2}\n")
    for arguments in ((), ("results",), ("run", "results")):
        done = project.doit(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, ".  results\nmine\n", "")
    for command in ("list", "info", "clean", "forget", "ignore"):
        # doit's own exit code of `info` says whether the task is up to date.
        assert project.doit(command, "results").returncode == (1 if command == "info" else 0)


def test_an_untouched_run_imports_nothing_heavy(project: Project) -> None:
    project.write("docs/a.md", "b\n")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "doit"],
        cwd=project.root, env=project.environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported = {line.rsplit("|", 1)[-1].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert imported & {"numpy", "git", "filelock", "rich", "pycuda", "pynvml"} == set()
    assert "nothing touched" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--architectures", "foo"), "ERROR: 'foo' is no architecture; one is written as 87, 90 or sm_121\n"),
        (("two", "--fresh"), "ERROR: '--fresh' stands behind a name: options come before names\n"),
        (("forget",), "ERROR: `doit forget` is for tasks of dodo.py, and without names it would mean every lane; "),
        (("ignore", "two:command"), "ERROR: `doit ignore` is for tasks of dodo.py, and 'two:command' is a lane's; "),
        (("reset-dep", "two"), "ERROR: `doit reset-dep` is for tasks of dodo.py, and 'two' is a lane's; "),
        (("touched", "x"), "ERROR: `doit touched` takes no names, and got 'x'\n"),
        (("lanes", "why"), "ERROR: `doit lanes why` takes one lane, group or pattern\n"),
        (("lanes", "why", "tow"), "ERROR: no lane 'tow'; did you mean 'two'?\n"),
    ],
)
def test_bad_usage_is_one_line_and_exit_3(project: Project, arguments: tuple[str, ...], said: str) -> None:
    done = project.doit(*arguments)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(said)


def test_a_named_lane_does_not_hide_the_faults_of_another(project: Project) -> None:
    project.write("tasks/bad.yml", "lanes:\n  bad:\n    paths: [x/**]\n    checks: [{kernel: kernels/none.py}]\n")
    done = project.doit("two")
    assert (done.returncode, done.stdout) == (3, "")
    assert "tasks/bad.yml:4:15: kernel: there is no oracle file 'kernels/none.py'" in done.stderr
    assert project.doit("lanes", "check").returncode == 3


def test_help_of_our_commands(project: Project) -> None:
    shown = project.doit("help").stdout
    assert all(f"{name}  " in shown for name in ("lanes", "lease", "results", "touched", "vectors"))
    assert "--report-dir" in project.doit("help", "run").stdout
    assert project.doit("lanes", "--help").stdout == project.doit("help", "lanes").stdout


def test_a_lane_that_main_gained_and_the_change_touches_is_no_pass(project: Project) -> None:
    project.git("checkout", "-q", "main")
    project.write("tasks/new.yml", "lanes:\n  gen:\n    paths: [gen/**]\n    checks: [{command: 'true'}]\n")
    project.commit()
    project.git("checkout", "-q", "work")
    project.write("gen/a", "a\n")
    data = report(project)
    assert (data["exit"], ends(data)) == (2, [])
    gen = next(lane for lane in data["lanes"] if lane["name"] == "gen")
    assert gen["decision"] == "run"
    assert "merge the base branch" in gen["reason"]


def test_a_lane_that_the_change_removed_is_said_and_green(project: Project) -> None:
    project.write("src/a.txt", "changed\n")
    text = (project.root / "tasks/lanes.yml").read_text()
    project.write("tasks/lanes.yml", "lanes:\n" + text[text.index("  two:") :])
    done = project.doit()
    assert done.returncode == 0
    assert "head removed the lane" in project.doit("lanes").stdout


@pytest.mark.parametrize(
    ("given", "read"),
    [("", ()), ("87, sm_90", ("87", "90")), ([90, "121"], ("90", "121")), (("87",), ("87",))],
)
def test_architectures_from_the_command_line_and_from_settings(given: object, read: tuple[str, ...]) -> None:
    from touchgate.edge.options import from_params

    assert from_params({"architectures": given}, [], Path("/"), jobs=1).architectures == read

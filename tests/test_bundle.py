"""The gate as one file: its bytes, what it answers where nothing is installed, and the action that pins it."""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import os
import subprocess
import sys
import threading
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from tests.conftest import Project
from touchgate import bundle

ROOT = Path(__file__).resolve().parent.parent
LANES = (
    "lanes:\n  a:\n    paths: [a/**]\n    checks: [command: 'true']\n  b:\n    paths: [b/**]\n    checks: [command: 'true']\n"
)

pytestmark = pytest.mark.skipif(
    metadata.version("PyYAML") != bundle.PYYAML,
    reason=f"unmeasured: PyYAML {bundle.PYYAML} (pip install pyyaml=={bundle.PYYAML})",
)


@pytest.fixture(scope="module")
def pyz(tmp_path_factory):
    """The file, made by the command."""
    file = tmp_path_factory.mktemp("bundle") / "touchgate.pyz"
    assert bundle.main([str(file)]) == 0
    return file


@pytest.fixture
def changed(project: Project) -> Project:
    """A repository whose branch touches a/ and not b/."""
    project.git("checkout", "-q", "main")
    project.write("tasks/lanes.yml", LANES)
    project.commit("lanes")
    project.git("checkout", "-q", "-b", "topic")
    project.write("a/k.cu", "x\n")
    project.commit("a")
    return project


def run(pyz, project, *words, cwd=None, **environ):
    """The file under a Python that sees nothing installed, not even PyYAML."""
    command = [sys.executable, "-I", "-S", str(pyz), *words]
    return subprocess.run(
        command, cwd=cwd or project.root, env={**project.environ, **environ}, capture_output=True, text=True, check=False
    )


def test_the_bytes_follow_from_the_sources(pyz, tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    before = os.umask(0o077)
    try:
        assert bundle.main([str(tmp_path / "again.pyz")]) == 0
    finally:
        os.umask(before)
    assert (tmp_path / "again.pyz").read_bytes() == pyz.read_bytes()
    files = bundle.contents()
    assert bundle.archive(dict(reversed(files.items()))) == pyz.read_bytes()
    assert (tmp_path / "again.pyz").stat().st_mode & 0o777 == 0o755


def test_what_it_holds(pyz):
    with zipfile.ZipFile(pyz) as opened:
        entries = opened.infolist()
    assert {(entry.date_time, entry.compress_type, entry.external_attr) for entry in entries} == {
        ((1980, 1, 1, 0, 0, 0), zipfile.ZIP_STORED, 0o100644 << 16)
    }
    package = ROOT / "tasks" / "touchgate"
    gate = {f"touchgate/{file.relative_to(package)}" for file in package.glob("gate/**/*") if file.suffix in (".py", ".json")}
    own = {entry.filename for entry in entries if not entry.filename.startswith("yaml/")}
    assert own == {*gate, "__main__.py", "touchgate/__init__.py", "touchgate/console.py"}
    assert pyz.read_bytes().startswith(b"#!/usr/bin/env python3\n")


def test_decides_where_nothing_is_installed(pyz, changed):
    done = run(pyz, changed, "gate", "main", "topic")
    base, head = changed.git("rev-parse", "main"), changed.git("rev-parse", "topic")
    assert (done.returncode, done.stdout) == (0, "true\n")
    assert done.stderr.splitlines() == [
        f"base        {base}  (main, from the command line)",
        f"head        {head}  (topic, from the command line)",
        f"merge base  {base}  (base is a parent of head)",
        "1 path touched",
        "run   a  a/k.cu (A) matches a/** at tasks/lanes.yml:3:13",
        "skip  b  the one touched path does not match",
    ]
    assert run(pyz, changed, "gate", "main", "topic", "--lane", "b").stdout == "false\n"


def test_its_help_tells_what_it_is_and_names_no_command_that_it_lacks(pyz, changed):
    done = run(pyz, changed, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: python3 touchgate.pyz gate ")
    for word in ("Exit codes: 0 ", "Example: python3 touchgate.pyz gate ", "Options: ", "pip install touchgate"):
        assert word in done.stdout
    assert not any(f"{name} " in done.stdout for name in ("migrate", "replay", "bundle", "lease-hold"))
    done = run(pyz, changed, "gaet")
    assert (done.returncode, done.stdout) == (3, "")
    said = "touchgate: there is no command 'gaet'; did you mean 'gate'?\n\nusage: python3 touchgate.pyz gate "
    assert done.stderr.startswith(said)
    assert run(pyz, changed, "replya").stderr.startswith("touchgate: there is no command 'replya'\n")
    assert "Exit codes:" in run(pyz, changed, "gate", "--help").stdout


def test_kinds_of_other_packages_pass_where_nothing_is_installed(pyz, changed):
    """Which there are can't be told here; what looks like one of ours is a mistake all the same."""
    changed.write("tasks/lanes.yml", LANES.replace("[command: 'true']", "[{fuzz: x, runs: 3}]", 1))
    done = run(pyz, changed, "gate")
    assert (done.returncode, done.stdout) == (0, "true\n")
    changed.write("tasks/lanes.yml", LANES.replace("command: 'true'", "comand: 'true'", 1))
    done = run(pyz, changed, "gate")
    assert (done.returncode, done.stdout) == (3, "")
    said = "tasks/lanes.yml:4:14: unknown kind of check 'comand' in lane 'a'; did you mean 'command'?"
    assert done.stderr.startswith(said)


def test_other_commands_are_not_in_it(pyz, changed):
    done = run(pyz, changed, "bundle")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "touchgate: this file holds the gate alone; for `touchgate bundle`: pip install touchgate\n"


def test_an_old_python_is_refused_in_words(pyz, tmp_path):
    main = zipfile.ZipFile(io.BytesIO(pyz.read_bytes())).read("__main__.py").decode()
    # As Python 3.6 would: the refusal comes before anything newer is read.
    first = main.replace("sys.version_info", "(3, 6)").split("from touchgate")[0]
    (tmp_path / "old.py").write_text(first)
    done = subprocess.run([sys.executable, str(tmp_path / "old.py")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.partition("; this is")[0]) == (1, "touchgate.pyz needs Python 3.10 or newer")


def test_another_pyyaml_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bundle, "PYYAML", "1.0")
    assert bundle.main([str(tmp_path / "x.pyz")]) == 3
    assert "; pip install pyyaml==1.0\n" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(bundle, "PYYAML_DIGEST", "0" * 64)
    assert bundle.main([str(tmp_path / "x.pyz")]) == 3
    assert "are not those that were released; pip install pyyaml==" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(tmp_path, capsys):
    assert bundle.main([str(tmp_path / "none" / "x.pyz")]) == 3
    assert (
        capsys.readouterr().err
        == f"touchgate bundle: {tmp_path / 'none' / 'x.pyz'} can't be written: No such file or directory\n"
    )
    assert bundle.main(["--action", str(tmp_path), "x.pyz"]) == 3


def test_the_action_pins_this_gate():
    """After a change of the gate: `touchgate bundle --action .`, or `doit action`."""
    digest = hashlib.sha256(bundle.archive(bundle.contents())).hexdigest()
    assert (ROOT / "action.yml").read_bytes() == bundle.action(digest)


# ---- the action's script, as a runner would start it


class Step:
    """The action's one step."""

    def __init__(self, folder: Path, project: Project, home: Path) -> None:
        self.action = yaml.safe_load((folder / "action.yml").read_text())
        (self.step,) = self.action["runs"]["steps"]
        self.project = project
        self.output = home / "output"
        self.environ = {
            **project.environ,
            **dict.fromkeys(self.step["env"], ""),
            "TOUCHGATE_PYZ_SHA256": self.step["env"]["TOUCHGATE_PYZ_SHA256"],
            "TOUCHGATE_PYZ_URL": "http://127.0.0.1:9/touchgate.pyz",
            "TOUCHGATE_ACTION": str(folder),
            "TOUCHGATE_ASKED_BASE": "main",
            "TOUCHGATE_ASKED_HEAD": "topic",
            "RUNNER_OS": "Linux",
            "RUNNER_TOOL_CACHE": str(home / "tools"),
            "GITHUB_OUTPUT": str(self.output),
        }

    def run(self, **environ: str) -> tuple[int, str, str]:
        self.output.write_text("")
        # As a runner calls `shell: bash`.
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", self.step["run"]]
        done = subprocess.run(
            command, cwd=self.project.root, env={**self.environ, **environ}, capture_output=True, text=True, check=False
        )
        return done.returncode, self.output.read_text(), done.stdout


@pytest.fixture
def vendored(tmp_path):
    """A folder with the file and the action that pins it."""
    folder = tmp_path / "vendored"
    folder.mkdir()
    assert bundle.main(["--action", str(folder)]) == 0
    return folder


@pytest.fixture
def alone(vendored, tmp_path):
    """A folder with the action alone."""
    folder = tmp_path / "alone"
    folder.mkdir()
    (folder / "action.yml").write_bytes((vendored / "action.yml").read_bytes())
    return folder


@pytest.fixture
def served(vendored):
    """The address under which a server hands out the file."""
    handler = functools.partial(Quiet, directory=str(vendored))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/touchgate.pyz"
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_every_variable_of_the_script_is_given(vendored):
    action = yaml.safe_load((vendored / "action.yml").read_text())
    (step,) = action["runs"]["steps"]
    # Nothing that a person writes is spelt into the script: it comes by the environment.
    assert "${{" not in step["run"]
    inputs = {value.strip("${} ").removeprefix("inputs.") for value in step["env"].values() if "inputs." in value}
    assert inputs == action["inputs"].keys()
    assert {output["value"] for output in action["outputs"].values()} == {
        "${{ steps.gate.outputs.run }}",
        "${{ steps.gate.outputs.lanes }}",
    }


def test_the_file_beside_the_action(vendored, changed, tmp_path):
    step = Step(vendored, changed, tmp_path)
    assert step.run() == (0, 'run=true\nlanes=["a"]\n', "true\n")
    assert step.run(TOUCHGATE_LANES="b") == (0, "run=false\nlanes=[]\n", "false\n")
    assert step.run(TOUCHGATE_LANES="b $(touch owned)")[0] == 3
    assert not (changed.root / "owned").exists()


def test_a_workflow_of_its_own(vendored, changed, tmp_path):
    changed.write(".github/workflows/b.yml", "on:\n  push:\n    paths: [b/**]\n")
    changed.commit("workflow")
    step = Step(vendored, changed, tmp_path)
    assert step.run(TOUCHGATE_WORKFLOW="b.yml", TOUCHGATE_ASKED_BASE="topic")[1] == "run=false\n"


def test_another_file_beside_the_action_is_never_run(vendored, changed, tmp_path):
    (vendored / "touchgate.pyz").write_bytes(b"print('run me')")
    code, output, said = Step(vendored, changed, tmp_path).run()
    assert (code, output) == (3, "")
    assert said == f"::error title=touchgate::{vendored}/touchgate.pyz is not the file that this action pins\n"


def test_fetched_once_and_kept(alone, served, changed, tmp_path):
    step = Step(alone, changed, tmp_path)
    assert step.run(TOUCHGATE_PYZ_URL=served)[:2] == (0, 'run=true\nlanes=["a"]\n')
    kept = list((tmp_path / "tools").rglob("*.pyz"))
    assert [file.parent.name for file in kept] == [step.environ["TOUCHGATE_PYZ_SHA256"]]
    # The second time nothing is asked of any server.
    assert step.run()[:2] == (0, 'run=true\nlanes=["a"]\n')
    # A kept file that was changed is fetched again.
    kept[0].write_bytes(b"print('run me')")
    assert step.run(TOUCHGATE_PYZ_URL=served)[:2] == (0, 'run=true\nlanes=["a"]\n')


def test_without_a_place_of_its_own_nothing_is_kept(alone, served, changed, tmp_path):
    """No fixed name in a folder that others can write to, where a file could wait for the next job."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    step = Step(alone, changed, tmp_path)
    missing = dict.fromkeys(("RUNNER_TOOL_CACHE", "XDG_CACHE_HOME", "HOME"), "")
    for _ in range(2):
        assert step.run(TOUCHGATE_PYZ_URL=served, TMPDIR=str(temporary), **missing)[:2] == (0, 'run=true\nlanes=["a"]\n')
        assert list(temporary.iterdir()) == []
    assert step.run(TMPDIR=str(temporary), **missing)[1] == "run=true\n"
    assert step.run(TMPDIR=str(tmp_path / "none"), **missing)[1] == "run=true\n"


def test_a_checkout_that_an_earlier_job_left(vendored, changed, tmp_path):
    """The event alone decides, by what its own repository has."""
    changed.git("clone", "-q", "--bare", str(changed.root), str(tmp_path / "served/up.git"))
    left = Project(tmp_path / "left", changed.environ)
    left.root.mkdir()
    left.git("init", "-q", "-b", "main")
    left.write("b/x", "x")
    left.commit()
    payload = tmp_path / "event.json"
    payload.write_text('{"repository": {"default_branch": "main"}}')
    job = {
        "TOUCHGATE_ASKED_BASE": "",
        "TOUCHGATE_ASKED_HEAD": "",
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_EVENT_PATH": str(payload),
        "GITHUB_SHA": changed.git("rev-parse", "topic"),
        "GITHUB_REF": "refs/heads/topic",
        "GITHUB_WORKSPACE": str(left.root),
        "GITHUB_SERVER_URL": str(tmp_path / "served"),
        "GITHUB_REPOSITORY": "up.git",
    }
    step = Step(vendored, left, tmp_path)
    assert step.run(**job) == (0, 'run=true\nlanes=["a"]\n', "true\n")
    assert step.run(**job, TOUCHGATE_LANES="b") == (0, "run=false\nlanes=[]\n", "false\n")


def test_the_folder_of_the_action_is_made(tmp_path):
    folder = tmp_path / "ci/touchgate"
    assert bundle.main(["--action", str(folder)]) == 0
    assert sorted(file.name for file in folder.iterdir()) == ["action.yml", "touchgate.pyz"]


def test_a_file_that_is_not_the_pinned_one(alone, served, vendored, changed, tmp_path):
    (vendored / "touchgate.pyz").write_bytes(b"print('run me')")
    code, output, said = Step(alone, changed, tmp_path).run(TOUCHGATE_PYZ_URL=served)
    assert (code, output) == (3, "")
    assert said == f"::error title=touchgate::{served} is not the file that this action pins: use a released version of it\n"
    assert not [file for file in (tmp_path / "tools").rglob("*") if file.is_file()]


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({}, "touchgate.pyz could not be had from http://127.0.0.1:9/touchgate.pyz"),
        ({"RUNNER_OS": "Windows"}, "the gate does not run on Windows"),
    ],
)
def test_what_can_not_be_asked_is_open(alone, changed, tmp_path, environ, reason):
    code, output, said = Step(alone, changed, tmp_path).run(**environ)
    assert (code, output, said) == (0, "run=true\n", f"::warning title=touchgate::{reason}: everything runs\n")


@pytest.mark.parametrize("text", ["exit 1", "echo 'Unknown option: -I' >&2; exit 2"])
def test_a_python_that_does_not_run_is_open(vendored, changed, tmp_path, text):
    """A stand-in of macOS, and Python 2."""
    tools = tmp_path / "bin"
    tools.mkdir()
    python = tools / "python3"
    python.write_text(f"#!/bin/sh\n{text}\n")
    python.chmod(0o755)
    step = Step(vendored, changed, tmp_path)
    code, output, said = step.run(PATH=f"{tools}:{step.environ['PATH']}")
    assert (code, output) == (0, "run=true\n")
    assert said == f"::warning title=touchgate::{python} is no Python 3 that runs: everything runs\n"


def test_inputs_are_names_only(vendored, changed, tmp_path):
    """No option, which could end the step without an answer, and no pattern for files."""
    step = Step(vendored, changed, tmp_path)
    assert step.run(TOUCHGATE_WORKFLOW="--help")[0] == 3
    (changed.root / "b").mkdir(exist_ok=True)
    assert step.run(TOUCHGATE_LANES="?")[0] == 3


def test_no_python(alone, changed, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "git"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    code, output, said = Step(alone, changed, tmp_path).run(PATH=str(tools))
    assert (code, output, said) == (
        0,
        "run=true\n",
        "::warning title=touchgate::there is no python3 on this runner: everything runs\n",
    )

"""What the lines of checks name touches their lane, and so does what that includes: real commits, both sides."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from touchgate.gate.cli import main


def lane(check: str, more: str = "") -> str:
    return f"lanes:\n  x:\n    paths: [nothing]\n{more}    checks:\n      - {check}\n"


def start(project, files, lanes):
    """The files on main, and a branch `work` at the same commit."""
    project.git("checkout", "-q", "main")
    for name, text in {"tasks/lanes.yml": lanes, **files}.items():
        if isinstance(text, tuple):
            (project.root / name).parent.mkdir(parents=True, exist_ok=True)
            (project.root / name).symlink_to(text[0])
        else:
            project.write(name, text)
    project.commit("first")
    project.git("checkout", "-q", "-B", "work")


@pytest.fixture
def decides(project, monkeypatch, capsys):
    """Whether a change of one file runs the lane, as a commit and as it lies in the working tree: the same answer."""

    def decide(*arguments):
        monkeypatch.chdir(project.root)
        assert main(arguments, project.environ) == 0
        return capsys.readouterr().out.strip() == "true"

    def of(path):
        file = project.root / path
        file.write_bytes(file.read_bytes() + b"\n")
        lying = decide()
        project.commit()
        committed = decide("main", "work")
        project.git("reset", "-q", "--hard", "main")
        assert lying == committed
        return lying

    return of


TESTS = {
    "t/test_a.py": "import helper\n",
    "t/data.json": "",
    "t/conftest.py": "",
    "t/deep/b_test.py": "from lib import part\n",
    "conftest.py": "",
    "helper.py": "",
    "lib/part.py": "",
    "lib/unused.py": "",
    "other/test_o.py": "",
}
OF_FOLDER = {"t/test_a.py", "t/conftest.py", "t/deep/b_test.py", "conftest.py", "helper.py", "lib/part.py"}


@pytest.mark.parametrize(
    "check",
    [
        "pytest: t",
        "pytest: t/",
        "pytest: -q -k 'not slow' t",
        "command: pytest t",
        "command: python -m pytest -q t",
        "command: cd t && python3 -m pytest .",
        "command: (cd lib && ls) && timeout 60 pytest -x t --maxfail 3",
        "command: 'PYTEST_ADDOPTS=-q coverage run -m pytest t'",
        "command: python -m unittest discover -s t",
        'command: sh -c "pytest t"',
    ],
)
def test_a_folder_of_tests(project, decides, check):
    start(project, TESTS, lane(check))
    assert {path for path in TESTS if decides(path)} == OF_FOLDER


EVERYTHING = {path for path in TESTS if path.endswith(".py")}


@pytest.mark.parametrize("check", ["pytest: .", "pytest: -q -n 2", "command: pytest", "command: python -m pytest -q"])
def test_all_tests(project, decides, check):
    start(project, TESTS, lane(check))
    assert {path for path in TESTS if decides(path)} == EVERYTHING


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\naddopts = -q\ntestpaths =\n    t\n    gone\n"),
        ("setup.cfg", "[tool:pytest]\ntestpaths = t\n"),
        ("pytest.toml", "[pytest]\ntestpaths = ['t']\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\ntestpaths = 't'\n"),
    ],
)
def test_the_paths_that_pytest_is_set_to(project, decides, name, text):
    start(project, {**TESTS, name: text}, lane("command: pytest"))
    assert {path for path in (*TESTS, name) if decides(path)} == {*OF_FOLDER, name}


@pytest.mark.parametrize("text", ["[pytest]\npythonpath = lib\n", "[tool.x]\n"])
def test_the_folders_that_pytest_adds_for_imports(project, decides, text):
    files = {"pytest.ini": text, "t/test_a.py": "import part\n", "lib/part.py": "", "other/part.py": ""}
    start(project, files, lane("pytest: t"))
    assert [decides(path) for path in ("lib/part.py", "other/part.py")] == ["pythonpath" in text, False]


def test_what_the_lane_takes_back_does_not_come_with_a_folder(project, decides):
    lanes = lane("pytest: t").replace("[nothing]", "[t/**, '!t/deep/**']")
    start(project, TESTS, lanes)
    assert not decides("t/deep/b_test.py")
    assert decides("helper.py")


@pytest.mark.parametrize(
    ("check", "files", "touching"),
    [
        (
            "python -m p.m",
            {"p/m.py": "import p.in_m\n", "p/in_m.py": "", "p/__init__.py": "", "p/o.py": ""},
            "p/m.py p/in_m.py p/__init__.py",
        ),
        ("python -m p.m", {"p/m/__main__.py": "from . import y\n", "p/m/y.py": "", "p/o.py": ""}, "p/m/__main__.py p/m/y.py"),
        ("python -m p", {"p/__main__.py": "import q\n", "q.py": "", "p/o.py": ""}, "p/__main__.py q.py"),
        ("PYTHONPATH=a:b python -m m", {"a/m.py": "import n\n", "b/n.py": "", "c/n.py": ""}, "a/m.py b/n.py"),
        (
            'export PYTHONPATH="$PWD/b:$PYTHONPATH"; python a/m.py',
            {"a/m.py": "import n\n", "b/n.py": "", "c/n.py": ""},
            "a/m.py b/n.py",
        ),
        ("cd d && python m.py", {"d/m.py": "import n\n", "d/n.py": "", "n2.py": ""}, "d/m.py d/n.py"),
        ("(cd d && ls) && cd e/f; python ../m.py", {"e/m.py": "import n\n", "e/n.py": "", "d/n.py": ""}, "e/m.py e/n.py"),
        ('python "a b/m.py"', {"a b/m.py": "import n\n", "a b/n.py": "", "n2.py": ""}, "a b/m.py|a b/n.py"),
        ("python a\\ b/m.py", {"a b/m.py": "import n\n", "a b/n.py": "", "n2.py": ""}, "a b/m.py|a b/n.py"),
        (
            "for f in d/*.py; do python $f; done",
            {"d/m.py": "import n\n", "d/n.py": "", "d/n.txt": "", "n.py": ""},
            "d/m.py d/n.py n.py",
        ),
        ("cat d/{a,b}.txt", {"d/a.txt": "", "d/b.txt": "", "d/c.txt": ""}, "d/a.txt d/b.txt"),
        ("sh d/m.sh", {"d/m.sh": "#!/bin/sh\n# no.py\npython n.py $1\n", "d/n.py": "", "no.py": ""}, "d/m.sh d/n.py"),
        (
            "bash x.sh",
            {"x.sh": ". lib/y\n", "lib/y": "exec ./z\n", "z": "#!/usr/bin/env python3\nimport n\n", "n.py": "", "o.py": ""},
            "x.sh lib/y z n.py",
        ),
        (
            "./x.sh -v",
            {"x.sh": "nvcc -Iinc k/a.cu\n", "k/a.cu": '#include "i.h"\n', "inc/i.h": "", "out/i.h": ""},
            "x.sh k/a.cu inc/i.h",
        ),
        (
            "make -C d check",
            {
                "d/Makefile": "check: a.o\n\tpython t.py\na.o: a.cu\n",
                "d/t.py": "",
                "d/a.cu": '#include "b.h"\n',
                "d/b.h": "",
                "t.py2": "",
            },
            "d/Makefile d/t.py d/a.cu d/b.h",
        ),
        (
            "make",
            {"Makefile": "include x.mk\n", "x.mk": "%.o: src/%.cu\n\t$(CC) $<\n", "src/a.cu": "", "d/Makefile": ""},
            "Makefile x.mk src/a.cu",
        ),
        ("make -f m/all", {"m/all": "all:\n\tcat data.txt\n", "data.txt": "", "Makefile": ""}, "m/all data.txt"),
        ("nvcc -I libs/inc k/a.cu", {"k/a.cu": "#include <i.h>\n", "libs/inc/i.h": "", "libs/i.h": ""}, "k/a.cu libs/inc/i.h"),
        ("nvcc -Ilibs/inc k/a.cu", {"k/a.cu": "#include <i.h>\n", "libs/inc/i.h": "", "libs/i.h": ""}, "k/a.cu libs/inc/i.h"),
        (
            "g++ -isystem libs/inc -fsyntax-only k/a.cpp",
            {"k/a.cpp": "#include <i.h>\n", "libs/inc/i.h": "", "libs/i.h": ""},
            "k/a.cpp libs/inc/i.h",
        ),
        (
            "./tool --table=data/a.bin < in.txt",
            {"tool": "#!/bin/sh\n", "data/a.bin": "", "in.txt": "", "data/b.bin": ""},
            "tool data/a.bin in.txt",
        ),
        ("./tool vectors", {"tool": "#!/bin/sh\n", "vectors/deep/a.bin": "", "vector": ""}, "tool vectors/deep/a.bin"),
        ("ruff check src && echo docs", {"src/a.md": "", "docs/b.md": ""}, "src/a.md"),
        ("make docs", {"Makefile": "", "docs/b.md": ""}, "Makefile"),
        ("cd d && ls .", {"d/a.txt": "", "e/a.txt": ""}, "d/a.txt"),
        ("ls .", {"d/a.txt": ""}, ""),
        ("true; : d/a.txt # e/a.txt", {"d/a.txt": "", "e/a.txt": ""}, "d/a.txt"),
        ("F=a/m.py; python $F", {"a/m.py": "import n\n", "a/n.py": "", "b/n.py": ""}, "a/m.py a/n.py"),
        ("C=a/m.py ./tool", {"a/m.py": "import n\n", "a/n.py": "", "b/n.py": ""}, "a/m.py a/n.py"),
        ("C=a/c.txt D=d make x", {"a/c.txt": "", "Makefile": "", "d/x": ""}, "a/c.txt Makefile"),
        ('python "$ROOT/a/m.py"', {"a/m.py": "import n\n", "a/n.py": "", "b/n.py": ""}, "a/m.py a/n.py"),
        ('python -c "import n"', {"n.py": "import o\n", "o.py": "", "u.py": ""}, "n.py o.py"),
        ('diff "$(cat a.txt)" `cat b.txt`', {"a.txt": "", "b.txt": "", "c.txt": ""}, "a.txt b.txt"),
    ],
)
def test_what_commands_name(project, decides, check, files, touching):
    start(project, files, lane(f"command: {json.dumps(check)}"))
    expected = set(touching.split("|") if "|" in touching else touching.split())
    assert {path for path in files if decides(path)} == expected


CRATES = {
    "Cargo.toml": "[workspace]\nmembers = ['c/*']\n",
    "c/x/Cargo.toml": "[package]\nname = 'x'\n[dependencies]\nz = {path = '../z'}\n",
    "c/x/src/lib.rs": "mod inner;\n",
    "c/x/src/inner.rs": "",
    "c/x/tests/it.rs": "",
    "c/y-dir/Cargo.toml": "[package]\nname = 'y'\n",
    "c/y-dir/src/main.rs": "",
    "c/z/Cargo.toml": "[package]\nname = 'z'\n",
    "c/z/src/lib.rs": "",
}
X = {path for path in CRATES if path.startswith(("c/x", "c/z"))} | {"Cargo.toml"}


@pytest.mark.parametrize(
    ("check", "touching"),
    [
        ("cargo test --manifest-path c/x/Cargo.toml", X),
        ("cargo test --manifest-path=c/x/Cargo.toml -- --nocapture", X),
        ("cargo test -p x", X),
        ("cd c/x && cargo build --release", X),
        ("cargo +nightly clippy --package=y", {"Cargo.toml", "c/y-dir/Cargo.toml", "c/y-dir/src/main.rs"}),
        ("cargo test", set(CRATES)),
        ("cd c/z && cargo test --workspace", set(CRATES)),
    ],
)
def test_what_cargo_is_called_for(project, decides, check, touching):
    start(project, {**CRATES, "c/o/notes.rs": ""}, lane(f"command: {json.dumps(check)}"))
    assert {path for path in (*CRATES, "c/o/notes.rs") if decides(path)} == touching


def test_a_script_that_is_a_link(project, decides):
    """Python looks beside the file that the link leads to."""
    start(project, {"m.py": ("r/m.py",), "r/m.py": "import n\n", "r/n.py": "", "q/n.py": ""}, lane("command: python m.py"))
    assert [decides(path) for path in ("r/m.py", "r/n.py", "q/n.py")] == [True, True, False]


def test_a_word_that_leads_over_a_link(project, decides):
    start(project, {"l": ("r",), "r/data": "", "r/t/test_a.py": "", "q": ""}, lane("command: cat l/data && pytest l/t"))
    assert [decides(path) for path in ("r/data", "r/t/test_a.py", "q")] == [True, True, False]


def test_sources_in_a_linked_folder(project, decides):
    files = {"s": ("real",), "real/a.cpp": '#include "a.h"\n', "real/a.h": "", "real/b.h": "", "u/l": ("../real",)}
    start(project, files, lane("command: ninja", "    closure: {from: [s/*.cpp]}\n"))
    assert [decides(path) for path in ("real/a.cpp", "real/a.h", "real/b.h")] == [True, True, False]
    project.write("tasks/lanes.yml", lane("command: ninja", "    closure: {from: ['u/**/*.cpp']}\n"))
    project.commit()
    project.git("branch", "-qf", "main")
    assert [decides(path) for path in ("real/a.cpp", "real/a.h", "real/b.h")] == [True, True, False]


@pytest.mark.parametrize("check", ["pytest: t", "command: python -m pytest -q t", "command: ./run t", "command: cat t/*.py"])
def test_a_result_is_not_reused_where_what_is_named_differs(project, check):
    files = {"t/test_a.py": "def test_a(): pass\n", "run": '#!/bin/sh\nexec ls "$@"\n'}
    start(project, files, lane(check).replace("nothing", "trigger"))
    (project.root / "run").chmod(0o755)
    project.write("trigger", "")
    project.commit()

    def run():
        return project.doit("--report-dir", "report").stdout

    first = run()
    assert "1 passed" in first, first
    assert "1 cached" in run()
    project.write("t/test_a.py", "def test_a(): pass\n\n")
    again = run()
    assert "1 passed" in again
    assert "cached" not in again


def test_what_a_command_builds_and_git_ignores_is_no_input(project):
    files = {".gitignore": "out/\n", "src.txt": "1\n", "Makefile": "O = out/%.o\nall:\n\tmkdir -p out && date +%N > out/x.o\n"}
    start(project, files, lane("command: make && cat out/x.o out/*.o src.txt").replace("nothing", "trigger"))
    project.write("trigger", "")
    project.commit()
    assert "1 passed" in project.doit("--report-dir", "report").stdout
    assert "1 cached" in project.doit("--report-dir", "report").stdout
    project.write("src.txt", "2\n")
    assert "cached" not in project.doit("--report-dir", "report").stdout


def test_what_can_not_be_told_is_said_where_the_lane_is_skipped(project, monkeypatch, capsys):
    files = {"a.cu": "#define H <x.h>\n#include H\n#include OTHER\n", "other": ""}
    start(project, files, lane("command: nvcc a.cu"))
    project.write("other", "changed\n")
    monkeypatch.chdir(project.root)
    assert main([], project.environ) == 0
    told = capsys.readouterr()
    assert told.out == "false\n"
    note = "2 places of lane 'x' can't be told (a.cu:2 #include H, a.cu:3 #include OTHER)"
    assert told.err.splitlines()[-1] == f"note: {note}"
    assert main(["--json"], project.environ) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == [note]
    why = project.doit("lanes", "why", "x").stdout
    assert "  can't tell  a.cu:2 #include H\n  can't tell  a.cu:3 #include OTHER\n" in why
    as_json = json.loads(project.doit("lanes", "why", "x", "--json").stdout)
    assert as_json["lanes"][0]["untold"] == ["a.cu:2 #include H", "a.cu:3 #include OTHER"]
    project.write("a.cu", "#include OTHER\n")
    assert main([], project.environ) == 0
    assert "can't be told" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("check", "note"),
    [
        ("python $F", "1 place of lane 'x' can't be told (tasks/lanes.yml:5 python $F)"),
        ("ruff check .", "1 place of lane 'x' can't be told (tasks/lanes.yml:5 ruff .)"),
        ("python $D/gone.py $D/a.cu", "1 place of lane 'x' can't be told (tasks/lanes.yml:5 python $D/gone.py)"),
        ("sh run.sh", "1 place of lane 'x' can't be told (run.sh:2 python $F)"),
    ],
)
def test_words_that_can_not_be_told(project, monkeypatch, capsys, check, note):
    start(project, {"a.cu": "", "other": "", "run.sh": "cat $X\npython $F\n"}, lane(f"command: {check}"))
    project.write("other", "changed\n")
    monkeypatch.chdir(project.root)
    assert main(["--json"], project.environ) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["run"], told["notes"]) == (False, [note])
    place, text = note.partition("told (")[2].rstrip(")").split(" ", 1)
    assert f"note: {place}: '{text}' can't be told" in project.doit("lanes", "check").stdout


def test_sources_that_are_none(project, monkeypatch, capsys):
    start(project, {"other": ""}, lane("command: ninja", "    closure:\n      from: [gone/*.cpp, '!gone/x', a.cpp]\n"))
    project.write("other", "changed\n")
    monkeypatch.chdir(project.root)
    assert main([], project.environ) == 0
    note = "note: 1 place of lane 'x' can't be told (tasks/lanes.yml:5:7 no file matches its sources)"
    assert note in capsys.readouterr().err
    done = project.doit("lanes", "check")
    assert done.returncode == 1
    for place, pattern in (("5:14", "gone/*.cpp"), ("5:37", "a.cpp")):
        words = f"'{pattern}' in the closure of lane 'x' matches no file"
        assert f"tasks/lanes.yml:{place}: {words}" in done.stdout


def test_folders_that_are_named_do_not_import_the_readers(project):
    """Nor do data files, and programs that are not there."""
    start(project, {"data/a.json": "", "other": ""}, lane("command: ./gone data data/a.json && echo a.cu"))
    project.write("other", "changed\n")
    project.commit()
    script = (
        "import sys\n"
        "from touchgate.gate.cli import main\n"
        "main(['main', 'work'])\n"
        "print(sorted(name for name in sys.modules if name.startswith('touchgate.gate.closure.')))"
    )
    environ = {**os.environ, **project.environ}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=project.root, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["false", "['touchgate.gate.closure.languages']"]

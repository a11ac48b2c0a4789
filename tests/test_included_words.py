"""What the words of commands mean beyond plain files: folders however they are written, links, submodules, configuration."""

from __future__ import annotations

import json

import pytest

from touchgate.gate.cli import main

from .test_included_commands import decides, lane, start

__all__ = ["decides"]


def command(text, more=""):
    return lane(f"command: {json.dumps(text)}", more)


def touching(decides, files):
    return " ".join(path for path in files if decides(path))


@pytest.mark.parametrize(
    ("check", "files"),
    [
        ("./t m", {"t": "", "m": ("real",), "real/f": ""}),
        ("./t m/", {"t": "", "m": ("real",), "real/f": ""}),
        ("./t m/in", {"t": "", "m": ("real",), "real/in/f": ""}),
        ("./t m", {"t": "", "m/l": ("../real/f",), "real/f": ""}),
        ("./t m", {"t": "", "m/deep/l": ("../../real",), "real/x/f": ""}),
        ("./t m*", {"t": "", "m1": ("real",), "real/f": ""}),
        ("./t m*", {"t": "", "m1/f": ""}),
        ("sh t.sh", {"t.sh": "ls m\n", "m": ("real",), "real/f": ""}),
    ],
)
def test_folders_along_links(project, decides, check, files):
    start(project, {**files, "other/f": ""}, command(check))
    asked = [path for path, text in files.items() if not isinstance(text, tuple)]
    assert touching(decides, [*asked, "other/f"]) == " ".join(asked)


def test_what_is_taken_back_comes_along_no_link(project, decides):
    files = {"t": "", "m": ("real",), "real/f": "", "real/g": ""}
    start(project, files, command("./t m").replace("[nothing]", "['m/*', '!m/g']"))
    assert touching(decides, ["real/f", "real/g"]) == "real/f"


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("./tool ./b", "b/t.sh b/c/u"),
        ("./tool --dir ./b", "b/t.sh b/c/u"),
        ("npm --prefix ./b test", "b/t.sh b/c/u"),
        ("cd b && tool ./c", "b/c/u"),
        ('find "$PWD/b/c"', "b/c/u"),
        ('cat "$(pwd)/b/c/u"', "b/c/u"),
        ("$(pwd)/b/t.sh", "b/t.sh b/c/u"),
        ("sh s.sh", "b/t.sh b/c/u s.sh"),
        ("make", "b/t.sh b/c/u Makefile"),
        ("echo b/t.sh | xargs sh", "b/t.sh b/c/u"),
        ("set -- b/t.sh; sh $1", "b/t.sh b/c/u"),
        ("trap 'b/t.sh' EXIT", "b/t.sh b/c/u"),
        ("echo b", ""),
        ("cd q && python -m z.y", "q/z/y.py q/w.py"),
        ("(cd q; python -m unittest z.y)", "q/z/y.py q/w.py"),
        ("cd q && python -m pytest z/y.py", "q/z/y.py q/w.py"),
        ("sh q.sh", "q/z/y.py q/w.py q.sh"),
        ("docker run -v ./b:/x img", "b/t.sh b/c/u"),
        ("awk -fb/c/u", "b/c/u"),
        ("cat b/c/[^a] b/[[:alpha:]].sh", "b/t.sh b/c/u"),
        ("cd b && sh ../in_b.sh", "b/t.sh b/c/u in_b.sh"),
        ("make -C b -f ../M", "b/t.sh b/c/u M"),
        ("cd b && make -f ../M", "b/t.sh b/c/u M"),
        ("cd q; python3 - <<'E'\nimport w\nE\n", "q/w.py"),
    ],
)
def test_words_however_they_are_written(project, decides, check, expected):
    files = {
        "b/t.sh": "cat b/c/u\n",
        "b/c/u": "",
        "q/z/y.py": "import w\n",
        "q/w.py": "",
        "s.sh": "ls ./b\n",
        "q.sh": "cd q\npython -m z.y\n",
        "Makefile": "all:\n\tfind ./b\n",
        "other": "",
        "in_b.sh": "./t.sh\n",
        "M": "all:\n\t./t.sh\n",
    }
    start(project, files, command(check))
    assert touching(decides, files) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all: x.o\n", "x.c x.h"),
        ("VPATH=b\nall: y.o z.txt\n", "b/y.cc b/z.txt"),
        ("vpath %.txt b\nall: z.txt\n", "b/z.txt"),
        ("export PYTHONPATH = lib\nall:\n\tpython m.py\n", "m.py lib/n.py"),
        ("CXXFLAGS=-Iinc\nall: k.c\n", "k.c inc/i.h"),
    ],
)
def test_what_make_finds(project, decides, text, expected):
    files = {"x.c": '#include "x.h"\n', "x.h": "", "b/y.cc": "", "b/z.txt": "", "m.py": "import n\n", "lib/n.py": ""}
    files |= {"k.c": "#include <i.h>\n", "inc/i.h": "", "o.c": ""}
    start(project, {"Makefile": text, **files}, command("make"))
    assert touching(decides, files) == expected


@pytest.fixture
def bumped(project, tmp_path, monkeypatch, capsys):
    """Whether a lane runs when the submodule at a path is moved to another commit, with files and lanes of one's own."""

    def of(path, files, lanes):
        start(project, files, lanes)
        for commit in ("1" * 40, "2" * 40):
            project.git("update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
            project.git("commit", "-qm", commit)
            if commit.startswith("1"):
                project.git("branch", "-qf", "main")
        monkeypatch.chdir(project.root)
        assert main(["main", "work"], project.environ) == 0
        return capsys.readouterr().out == "true\n"

    return of


@pytest.mark.parametrize(
    ("check", "more"),
    [
        ("PYTHONPATH=third/sub python m.py", ""),
        ("PYTHONPATH=third/sub/src ./m.py", ""),
        ("python m.py", "    closure: {python: [third/sub/a]}\n"),
        ("python m.py", "    closure: {include: [third/sub]}\n"),
        ("sh m.sh", ""),
        ("pytest m.py", ""),
        ("cargo test", ""),
        ("ninja", "    closure: {from: ['third/sub/*.py']}\n"),
        ("ninja", "    closure: {from: ['third/**/*.py']}\n"),
        ("ninja", "    closure: {from: ['third/s*/*.py']}\n"),
        ("cat third/sub/*.txt", ""),
    ],
)
def test_a_submodule_that_names_lead_into(bumped, check, more):
    files = {
        "m.py": "import x\n",
        "m.sh": "export PYTHONPATH=third/sub\n./m.py\n",
        "pytest.ini": "[pytest]\npythonpath = third/sub\n",
        "Cargo.toml": "[workspace]\nmembers = ['third/sub/*']\n",
    }
    assert bumped("third/sub", files, command(check, more))


@pytest.mark.parametrize("check", ["PYTHONPATH=lib python m.py", "cat other/*.txt", "cargo test"])
def test_a_submodule_that_no_name_leads_into(bumped, check):
    files = {"m.py": "import x\n", "Cargo.toml": "[workspace]\nmembers = ['lib/*']\n", "lib/x.py": "", "other/a.txt": ""}
    assert not bumped("third/sub", files, command(check))


def test_a_submodule_that_no_pattern_reaches_into(bumped):
    assert not bumped("third/sub", {"a.py": ""}, command("ninja", "    closure: {from: ['*.py', 'other/*.py']}\n"))


FROM = "    closure: {from: [b/y.py]}\n"


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("a/x.sh", "a/x.sh b/y.py c/z.py"),
        ("python -m a.m", "a/m.py b/y.py c/z.py"),
        ("ls a", "a/x.sh a/in.py a/m.py b/y.py c/z.py"),
        ("cat a/*.sh", "a/x.sh b/y.py c/z.py"),
        ("make", "b/y.py c/z.py Makefile"),
    ],
)
def test_words_count_beside_declared_sources(project, decides, check, expected):
    files = {
        "a/x.sh": "python a/in.py\n",
        "a/in.py": "",
        "a/m.py": "import a.in\n",
        "b/y.py": "import c.z\n",
        "c/z.py": "",
        "Makefile": "all:\n\tpython a/in.py\n",
    }
    start(project, files, command(check, FROM))
    assert touching(decides, files) == expected
    start(project, files, command(check, "    closure: none\n"))
    assert touching(decides, files) == ""


@pytest.mark.parametrize("root", ["", "deep/"])
def test_src_of_each_folder_above(project, decides, root):
    files = {
        f"{root}pk/src/p/m.py": "",
        f"{root}pk/src/p/o.py": "",
        f"{root}pk/tests/test_a.py": "import p.m\n",
        "src/q.py": "",
    }
    start(project, files, lane(f"pytest: {root}pk/tests"))
    assert touching(decides, files) == f"{root}pk/src/p/m.py {root}pk/tests/test_a.py"


@pytest.mark.parametrize(
    ("check", "files", "expected"),
    [
        ("pytest t", {"pytest.ini": "[pytest]\naddopts = -p plug\n", "plug.py": "import n\n", "n.py": ""}, None),
        ("pytest t", {"setup.cfg": "", "tox.ini": "", ".pytest.ini": "", "pyproject.toml": "", "t/pytest.ini": ""}, None),
        ("pytest t", {"u/pytest.ini": "", "u/setup.cfg": ""}, ""),
        ("py.test -c r/x.ini t", {"r/x.ini": "[pytest]\naddopts = -p r.plug\n", "r/plug.py": "", "r/conftest.py": ""}, None),
        ("pytest -cr/x.ini t", {"r/x.ini": "[pytest]\npythonpath = lib\n", "r/lib/helper.py": ""}, None),
        ("pytest --rootdir=r t", {"r/conftest.py": "", "r/pytest.ini": ""}, None),
        ("pytest -o pythonpath=lib t", {"lib/helper.py": "", "other/helper.py": ""}, "lib/helper.py"),
        ("pytest -p plug t", {"plug.py": ""}, None),
        ("PYTEST_ADDOPTS='-p plug' pytest t", {"plug.py": ""}, None),
        ("PYTEST_PLUGINS=plug,b.c python -m pytest t", {"plug.py": "", "b/c.py": ""}, None),
        ("pytest @args", {"args": "u/test_u.py\n-p\nplug\n", "plug.py": "", "u/test_u.py": ""}, None),
        (
            "pytest t",
            {"pytest.ini": "[pytest]\npython_files = *.spec\n", "t/a.spec": "", "t/a.txt": ""},
            "pytest.ini t/a.spec",
        ),
        ("pytest --doctest-glob=*.rst t", {"t/a.rst": "", "t/a.txt": "", "t/test_a.txt": ""}, "t/a.rst t/test_a.txt"),
        ("sh s.sh", {"s.sh": "pytest -p plug t\n", "plug.py": "", "pytest.ini": ""}, None),
        ("cd q && pytest t", {"q/t/test_q.py": "", "q/pytest.ini": "", "pytest.ini": ""}, None),
    ],
)
def test_what_pytest_reads_beside_its_tests(project, decides, check, files, expected):
    start(project, {"t/test_a.py": "import helper\n", **files}, command(check))
    assert touching(decides, files) == (" ".join(files) if expected is None else expected)


@pytest.mark.parametrize("check", ["pytest: t", "command: pytest t"])
@pytest.mark.parametrize("name", ["pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "t/pytest.ini"])
def test_configuration_that_comes_and_goes(project, monkeypatch, capsys, check, name):
    start(project, {"t/test_a.py": ""}, lane(check))
    monkeypatch.chdir(project.root)
    project.write(name, "")
    project.commit()
    assert main(["main", "work"], project.environ) == 0
    project.git("branch", "-qf", "main")
    project.git("rm", "-q", name)
    project.commit("gone")
    assert main(["main", "work"], project.environ) == 0
    assert capsys.readouterr().out == "true\ntrue\n"

"""What the words of checks name, as values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.gate.named import of_check, of_commands, of_makefile


def shown(names):
    return [f"{one.kind} {one.text}{' from ' + ' '.join(one.folders) if one.folders != ('',) else ''}" for one in names]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pytest -q t -k 'a b' -n 4", ["file 4", "tests t", "file t", "file a b", "file 4"]),
        ("pytest -p plug.in --pyargs pkg.mod", None),
        ("pip install pytest -r requirements.txt", ["file install", "file pytest", "file requirements.txt"]),
        ("echo a.py && printf b.py", []),
        ('{ echo "a/b.py is not good $(cat c)"; exit 1; }', ["word c"]),
        ("cd d && cd e; cat f", ["word f from d/e d "]),
        ("(cd d); cat f", ["word f"]),
        ("cd /tmp; cd ..; cd $X; cat f", ["word f"]),
        ("cargo test -px --package=y", None),
        ("make -Cd -f F", ["makefile F from d", "file F"]),
        ("$CC -I$X -I$PWD/i a.cu", ["include ./i", "word a.cu"]),
        ("./run a --b=c/d.bin @e.txt f::g", ["script ./run", "word a", "word c/d.bin", "word @e.txt", "word e.txt", "word f"]),
        ('python -c "import x"', ["word x", "code import x"]),
    ],
)
def test_commands(line, expected):
    found = shown(of_commands(line))
    if expected is not None:
        assert found == expected


def test_options_with_values():
    assert {(one.kind, one.text) for one in of_commands("pytest -p plug.in --pyargs pkg.mod")} >= {
        ("module", "plug.in"),
        ("module", "pkg.mod"),
        ("tests", "pkg/mod"),
    }
    (cargo,) = [one for one in of_commands("cargo test -px --package=y") if one.kind == "cargo"]
    assert cargo.more == ("x", "y")


def test_checks():
    assert shown(of_check("pytest", "-m 'not slow' tests/a.py::b t/")) == ["tests tests/a.py", "tests t/"]
    assert shown(of_check("kernel", "k/a.py")) == ["source k/a.py", "source k/a.cu"]
    assert shown(of_check("compile", "k/a.cu")) == ["source k/a.cu"]
    assert shown(of_check("vectors", "v")) == ["vectors v"]


def test_makefiles():
    text = "A = x.c \\\n  y.c\nall: z.o # no\n%.o: s/%.c\n\t@cc -Ii $< && \\\n\t  pytest t\n"
    found = [(one.line, one.kind, one.text, one.is_pattern) for one in of_makefile(text)]
    assert found == [
        (1, "file", "A", False),
        (1, "file", "x.c", False),
        (2, "file", "y.c", False),
        (3, "file", "all", False),
        (3, "file", "z.o", False),
        (4, "file", "*.o", True),
        (4, "file", "s/*.c", True),
        (5, "include", "i", False),
        (6, "tests", "t", False),
        (6, "file", "t", False),
    ]


@given(st.text(alphabet="abc/.-=$(){}'\";&|\n\t *@:ICm", max_size=80))
def test_any_text_is_read(text):
    for names in (of_commands(text), of_makefile(text), of_check("pytest", text)):
        for one in names:
            assert all(not path.startswith(("/", "..")) for path in one.paths()) or "..." in one.text


def test_long_lines_and_many_folders_end():
    assert len(of_commands("cat " + "a " * 100_000)) == 100_000
    names = of_commands("cd x; " * 5_000 + "cat a")
    assert len(names[-1].folders) <= 10
    of_commands("python " * 20_000)
    of_commands("coverage " * 20_000)

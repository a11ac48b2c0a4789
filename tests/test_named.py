"""What the words of checks name, as values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.gate.named import of_check, of_commands, of_makefile, of_script, untold_of_check


def shown(names):
    return [f"{one.kind} {one.text}{' from ' + ' '.join(one.folders) if one.folders != ('',) else ''}" for one in names]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pytest -q t -k 'a b' -n 4", ["file 4", "tests t", "pytest ", "file t", "file a b", "file 4"]),
        ("pytest -p plug.in --pyargs pkg.mod", None),
        ("pip install pytest -r requirements.txt", ["file install", "file pytest", "file requirements.txt"]),
        ("echo a.py && printf b.py", ["file a.py", "file b.py"]),
        ("set -- b/t; sh $1", ["file b/t"]),
        ("trap 'sh b/t' EXIT", ["script b/t", "word b/t", "file sh b/t", "file EXIT"]),
        ("./tool ./b", ["script ./tool", "script ./b", "word ./b"]),
        ("cd b && $(pwd)/c/t.sh", ["script c/t.sh from b "]),
        ("cd q && python -m z.y", ["pythonpath q", "module z.y from q "]),
        ("awk -fb/t -Wp,-Ic b/q,b/r", ["word b/t", "include c", "word b/q,b/r", "word b/q", "word b/r"]),
        ("java -cp b/a:c/x", ["word b/a:c/x", "word b/a", "word c/x"]),
        ("cc -DH='\"b/h.h\"' @flags", ['word "b/h.h"', "word b/h.h", "word @flags", "file flags"]),
        ('{ echo "a/b.py is not good $(cat c)"; exit 1; }', ["word c", "file 1"]),
        ("cd d && cd e; cat f", ["word f from d/e d "]),
        ("(cd d); cat f", ["word f"]),
        ("cd /tmp; cd ..; cd $X; cat f", ["word f"]),
        ("cargo test -px --package=y", None),
        ("make -Cd -f F", ["makefile F from d", "file F"]),
        ("$CC -I$X -I$PWD/i a.cu", ["include ./i", "word a.cu"]),
        ("./run a --b=c/d.bin @e.txt f::g", ["script ./run", "word a", "word c/d.bin", "word @e.txt", "file e.txt", "word f"]),
        ('python -c "import x"', ["word x", "code import x"]),
    ],
)
def test_commands(line, expected):
    found = shown(of_commands(line))
    if expected is not None:
        assert found == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("F=p/a.py; python $F", ["word p/a.py", "python p/a.py", "word p/a.py"]),
        ('D=p; python "${D}/a.py"', ["file p", "python p/a.py", "word p/a.py"]),
        ("C=p/a.py ./tool", ["word p/a.py", "script ./tool"]),
        ("C=p make", ["file p", "makefile GNUmakefile", "makefile makefile", "makefile Makefile"]),
        ("env F=p/a.py B=c:d/e cat x", ["word p/a.py", "word c", "word d/e", "word x"]),
        ("D=a; D=b; cat $D/x", ["file a", "file b", "word {a,b}/x"]),
        ("for f in d/*.c e; do cat $f.o; done", ["word d/*.c", "word e", "word {d/*.c,e}.o"]),
        ("A='x y'; cat $A", ["file x", "file y", "word y", "word x", "word y"]),
        ("A=x; A+=y; cat $A", ["file x", "file y", "word {x,xy}"]),
        ("cat ${X:-d/x} ${Y-'y'}", ["word d/x", "word y"]),
        ("sh -c 'D=p; cat $D/x'", None),
        ("$PYTHON a.py", ["python a.py", "word a.py"]),
    ],
)
def test_variables(line, expected):
    found = shown(of_commands(line))
    assert found == expected if expected is not None else "word p/x" in found


def test_variables_of_makefiles():
    text = "D = p\nE := $(D)/q # no\nall: $(E)/z\n\t$(MAKE) -C sub\n\tpython $(E)/m.py ${X}/y.py\n"
    found = {(one.kind, one.text) for one in of_makefile(text)}
    assert found >= {("file", "p/q/z"), ("python", "p/q/m.py"), ("word", "y.py"), ("makefile", "Makefile")}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("python $F", ["python $F"]),
        ("F=$(x); python $F", ["python $F"]),
        ("F=a; F=$(x); cat $F", ["cat $F"]),
        ("make -f $M", ["make $M"]),
        ("eval $X", ["$X"]),
        ("$RUN a.py", ["$RUN"]),
        ("docker run -v $PWD:/w img python /w/p/a.py", ["docker /w/p/a.py"]),
        ("./tool --table=/data/t.bin", ["tool --table=/data/t.bin"]),
        ("ruff check .", ["ruff ."]),
        ("go test ./...", ["go ./..."]),
        ("cat $(git ls-files)", ["cat $(git ls-files)"]),
        ('python -m $M; python -c "$CODE"', ["python $M", 'python "$CODE"']),
        ("pytest $T", ["pytest $T"]),
        ("make -j$(nproc) all $@ && cat /etc/os-release && [ -n $X ] && echo $X && cl /O2", []),
        ("cd d && ruff check . && git add . && pytest .", []),
        ("F=a; python $F; $CC b.c; $MAKE x", []),
    ],
)
def test_what_can_not_be_told(line, expected):
    assert [one.text for one in untold_of_check("command", line)] == expected


def test_of_scripts_only_what_they_run_is_noted():
    text = 'cat $X\npython "$1"\nif y; then\n  python $Z\nfi\n. "$HERE/lib.sh"\n'
    assert [(one.line, one.text, one.behind) for one in of_script(text)[1]] == [
        (4, "python $Z", ()),
        (6, '. "$HERE/lib.sh"', ("lib.sh",)),
    ]
    assert [one.text for one in untold_of_check("pytest", "-q $T t")] == ["$T"]


def test_options_with_values():
    assert {(one.kind, one.text) for one in of_commands("pytest -p plug.in --pyargs pkg.mod")} >= {
        ("module", "plug.in"),
        ("module", "pkg.mod"),
        ("tests", "pkg/mod"),
    }
    (cargo,) = [one for one in of_commands("cargo test -px --package=y") if one.kind == "cargo"]
    assert cargo.more == ("x", "y")


def test_checks():
    assert shown(of_check("pytest", "-m 'not slow' tests/a.py::b t/")) == ["tests tests/a.py", "tests t/", "pytest "]
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
        (3, "file", "z.{c,cc,cpp,cxx,C,cu,m,s,S,f,f90}", True),
        (4, "file", "*.o", True),
        (4, "file", "s/*.c", True),
        (5, "include", "i", False),
        (6, "tests", "t", False),
        (5, "pytest", "", False),
        (6, "file", "t", False),
    ]


@given(st.text(alphabet="abc/.-=$(){}'\";&|\n\t *@:ICm", max_size=80))
def test_any_text_is_read(text):
    for names in (of_commands(text), of_makefile(text), of_check("pytest", text)):
        for one in names:
            assert all(not path.startswith(("/", "../")) and path != ".." for path in one.paths())


def test_long_lines_and_many_folders_end():
    assert len(of_commands("cat " + "a " * 100_000)) == 100_000
    names = of_commands("cd x; " * 5_000 + "cat a")
    assert len(names[-1].folders) <= 10
    of_commands("python " * 20_000)
    of_commands("coverage " * 20_000)

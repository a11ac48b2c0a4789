"""What is in a check's key by its declaration touches its lane."""

from __future__ import annotations

import pytest

from tests.test_checks_pytest import KIND, spec_of
from tests.test_included import decide, start
from touchgate.checks import DeclarationFault
from touchgate.checks.child import files_listed, listed_paths
from touchgate.gate.listed import as_patterns, pytest_files
from touchgate.gate.model import Decision

FILES = {"tools/l.txt": "1\n", "tools/in/m.txt": "1\n", "c++/x": "1\n", "a/f": "1\n", "README.md": "x\n"}


def lanes(check: str, more: str = "") -> str:
    return f"lanes:\n  x:\n    paths: [a/**]\n{more}    checks:\n      - {{{check}}}\n"


@pytest.mark.parametrize(
    ("inputs", "touched", "runs"),
    [
        ("[tools]", "tools/l.txt", True),
        ("[tools]", "tools/in/m.txt", True),
        ("tools", "tools/l.txt", True),
        ("[./tools//l.txt]", "tools/l.txt", True),
        ("[tools/l.txt]", "tools/in/m.txt", False),
        ("[too]", "tools/l.txt", False),
        ("['.']", "README.md", True),
        ("['c++']", "c++/x", True),
        ("['tools/*']", "tools/l.txt", True),
        ("['tools/*']", "tools/in/m.txt", False),
        ("['tools/**', '!tools/in/**']", "tools/in/m.txt", False),
        ("[tools, '!tools/in/**']", "tools/in/m.txt", False),
        ("[tools, '!tools/in/**']", "tools/l.txt", True),
        ("['**/m.txt']", "tools/in/m.txt", True),
    ],
)
@pytest.mark.parametrize("more", ["", "    closure: none\n", "    closure: {from: [a/f]}\n"])
def test_inputs_touch_the_lane(project, inputs, touched, runs, more):
    """What is read through a variable is named by `inputs` alone, whatever the closure is said to be."""
    start(project, FILES, lanes(f"command: 'T=x; test $(cat $T) = 1', inputs: {inputs}", more))
    project.write(touched, "2\n")
    assert (decide(project)["x"][0] is Decision.RUN) == runs
    # What is in the key is what touches.
    value = {"[tools]": ["tools"], "tools": "tools"}.get(inputs)
    if value:
        assert set(files_listed(project.root, value)) == {"tools/l.txt", "tools/in/m.txt"}


def test_the_reason_names_the_check(project):
    start(project, FILES, lanes("command: 'true', inputs: [tools]"))
    project.write("tools/l.txt", "2\n")
    reason = "tools/l.txt (M), in tools, is an input of the check at tasks/lanes.yml:5:10"
    assert decide(project)["x"] == (Decision.RUN, reason, "tools/l.txt")


def test_an_input_that_goes_or_is_no_input_any_more_touches(project):
    start(project, FILES, lanes("command: 'true', inputs: [tools]"))
    (project.root / "tools/l.txt").unlink()
    assert decide(project)["x"][0] is Decision.RUN
    assert " (D), in tools, is an input" in decide(project)["x"][1]


@pytest.mark.parametrize(
    ("check", "touched", "runs"),
    [
        ("pytest: t/u/test_a.py", "pytest.ini", True),
        ("pytest: t/u/test_a.py", "t/setup.cfg", True),
        ("pytest: 't/u/test_a.py::test_x'", "t/u/conftest.py", True),
        ("pytest: t/u", "t/u/tox.ini", True),
        ("pytest: t/u", "v/tox.ini", False),
        ("pytest: t/u -c v/my.ini", "v/my.ini", True),
        ("pytest: t/u --rootdir=v", "v/pytest.ini", True),
        ("pytest: t/u -p v.plug", "v/plug.py", True),
        ("pytest: '@words t/u'", "words", True),
        ("vectors: vectors/r", "vectors/r/deep/stream.bin", True),
        ("vectors: vectors/r", "vectors/rr/stream.bin", False),
    ],
)
def test_what_configures_a_check_touches_the_lane(project, check, touched, runs):
    start(project, {**FILES, "t/u/test_a.py": "", "vectors/r/manifest.json": "{}"}, lanes(check))
    project.write(touched, "2\n")
    assert (decide(project)["x"][0] is Decision.RUN) == runs


def test_the_key_of_pytest_holds_no_configuration_that_the_gate_does_not_see(project):
    """The files that the check names beside its tests, for words of every shape."""
    project.write("t/u/test_a.py", "")
    words = "t/u t/u/test_a.py::x -k foo -c my.ini --rootdir v -p a.b -pc.d --confcutdir=w @args"
    inputs = set(KIND.inputs(spec_of(words), project.root, "host").files)
    assert inputs - set(pytest_files(words)) == {"t/u/test_a.py"}


def test_patterns_in_inputs_are_of_the_dialect_of_paths(tmp_path):
    for name in ("b/1", "b/c/2", "b/c++/3", "d"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert files_listed(tmp_path, ["b/*"]) == ["b/1"]
    assert sorted(files_listed(tmp_path, ["b/**", "!b/c/**", "d"])) == ["b/1", "b/c++/3", "d"]
    assert files_listed(tmp_path, ["b/c++"]) == ["b/c++/3"]
    assert files_listed(tmp_path, ["nothing/*"]) == []
    assert files_listed(tmp_path, ["d", "gone", "b/*"]) == ["d", "gone", "b/1"]
    assert as_patterns(["b/c++", "x*"]) == ["b/c\\+\\+", "b/c\\+\\+/**", "x*"]


@pytest.mark.parametrize("entries", [["b/["], ["!b/c"], ["./b/*"], ["../*"], ["/b/*"]])
def test_a_pattern_that_can_t_match_is_refused(entries):
    with pytest.raises(DeclarationFault, match=r"^`inputs` holds a pattern: "):
        listed_paths(entries, "inputs")


ATTRIBUTED = """lanes:
  a:
    paths: [a/**]
    checks: [command: 'true']
  deep:
    paths: [d/e/*.txt, "!d/e/x.txt"]
    checks: [command: 'true']
  one:
    paths: [d/one.txt]
    checks: [command: 'true']
  any:
    paths: ["**/*.md"]
    checks: [command: 'true']
  listed:
    paths: [none/**]
    checks: [{command: 'true', inputs: [d/in]}]
  reached:
    paths: [none/**]
    checks: [command: sh s/run.sh]
"""


@pytest.mark.parametrize(
    ("file", "touched"),
    [
        (".gitattributes", ["a", "deep", "one", "any", "listed", "reached"]),
        ("a/.gitattributes", ["a", "any"]),
        ("d/.gitattributes", ["deep", "one", "any", "listed"]),
        ("d/e/.gitattributes", ["deep", "any"]),
        ("d/in/.gitattributes", ["any", "listed"]),
        ("s/lib/.gitattributes", ["any", "reached"]),
        ("d/my.gitattributes", []),
    ],
)
def test_git_s_attributes_touch_the_lanes_that_have_files_there(project, file, touched):
    """`* text eol=crlf` changes the bytes that a checkout gives, and no path of the lane's."""
    files = {"a/f": "1\n", "d/e/y.txt": "", "d/one.txt": "", "d/in/f": "", "s/run.sh": ". s/lib/l.sh\n", "s/lib/l.sh": "\n"}
    start(project, files, ATTRIBUTED)
    project.write(file, "* text eol=crlf\n")
    project.commit()
    found = decide(project)
    assert [name for name, one in found.items() if one[0] is Decision.RUN] == touched
    if file == "d/.gitattributes":
        reason = "d/.gitattributes (A) can change what is checked out for d/e/*.txt at tasks/lanes.yml:6:13"
        assert found["deep"] == (Decision.RUN, reason, file)

"""What lists of patterns lack by what the sources include: in words, with the pattern to add."""

from __future__ import annotations

import json

import pytest

from touchgate.gate.closure import lint
from touchgate.gate.closure.cache import Cache
from touchgate.gate.closure.of_lanes import LaneClosures, matching
from touchgate.gate.closure.references import Settings
from touchgate.gate.declarations import read_lanes
from touchgate.gate.patterns import PatternList
from touchgate.gate.workflow import read_paths

from .closure_trees import Memory

FILES = {
    "k/a.cu": '\n\n#include "../common/x.cuh"\n',
    "common/x.cuh": '#include "y.cuh"\n#include MACRO\n#include <deep/z.h>\n#include <vector>\n',
    "common/y.cuh": "",
    "third/deep/z.h": "",
    "third/vector": "",
}


def told(source: str, files=FILES):
    lanes = read_lanes({"tasks/k.yml": f"lanes:\n{source}".encode()}).values()
    found = lint.of_lanes(LaneClosures(Memory(files), Cache(None)), lanes, list(files))
    return [f"{one.rule} {one}" for one in found.findings], found.notes


def test_what_no_pattern_lets_through():
    found, notes = told("  a: {paths: [k/**], checks: [compile: k/a.cu]}\n")
    start = "not-gated tasks/k.yml:2:3: k/a.cu:3 includes common/x.cuh, which "
    end = "no pattern of lane 'a' lets through; add "
    assert found == [
        f"{start}{end}`common/x.cuh`",
        f"{start}at line 1 includes common/y.cuh, which {end}`common/y.cuh`",
    ]
    cure = "lane 'a'; if that is meant: `closure: {include: [third]}`"
    assert notes == [
        "common/x.cuh:2: '#include MACRO' can't be told: a macro says what (lane 'a'; name in `paths` what it may mean)",
        f"common/x.cuh:3 includes deep/z.h, which is not found, though third holds such a name ({cure})",
    ]


@pytest.mark.parametrize(
    "source",
    [
        "  a: {paths: [k/**, common/**], checks: [compile: k/a.cu]}\n",
        "  a: {paths: [k/**], closure: none, checks: [compile: k/a.cu]}\n",
        "  a: {paths: [k/**], checks: [command: make]}\n",
        "  a: {paths: [k/**], needs: [b], checks: [compile: k/a.cu]}\n  b: {paths: [common/*], checks: [command: x]}\n",
    ],
)
def test_nothing_to_find(source):
    assert told(source)[0] == []


def test_a_lane_needed_for_smoke_only_lets_nothing_through():
    needed = "  b: {paths: [common/*], checks: [command: x]}\n"
    assert len(told("  a: {paths: [k/**], needs: {lite: [b]}, checks: [compile: k/a.cu]}\n" + needed)[0]) == 2


def test_many_of_a_folder_are_told_as_one():
    files = {"a.cu": "".join(f'#include "in [x]/{name}"\n' for name in "abcde"), **{f"in [x]/{name}": "" for name in "abcde"}}
    found = told("  a: {paths: [a.cu], checks: [compile: a.cu]}\n", files)[0]
    assert [one.rpartition("; ")[2] for one in found] == [r"add `in \[x\]/**`"]
    assert "nor 4 more there" in found[0]


@pytest.mark.parametrize("path", ["a b.cu", "é*?.h", "!x", "a[1]+.h", "back\\slash", "x/!y"])
def test_the_pattern_to_add_matches_the_path(path):
    assert PatternList([lint.as_pattern(path)]).decides(path) == 0
    assert PatternList([lint.as_pattern(path)]).decides(path + "x") is None


def test_a_workflow_s_own_lists():
    text = "on:\n  pull_request:\n    paths: [k/**]\n  push:\n    paths-ignore: [common/y.cuh]\n  schedule:\n"
    paths = read_paths(text.encode(), "w.yml")
    closures = LaneClosures(Memory(FILES), Cache(None))
    found = lint.of_workflow(closures, paths, ["k/*.cu"], Settings(include=("third",)), list(FILES))
    assert [(str(one.where), one.hint) for one in found.findings] == [
        ("w.yml:2:3", "add `common/x.cuh`"),
        ("w.yml:2:3", "add `common/y.cuh`"),
        ("w.yml:2:3", "add `third/deep/z.h`"),
        ("w.yml:2:3", "add `third/vector`"),
        ("w.yml:4:3", "add `common/y.cuh`"),
    ]
    none = lint.of_workflow(closures, paths, ["gone.cu"], Settings(), list(FILES))
    assert [one.message for one in none.findings] == ["none of the sources gone.cu is a file"]


def test_which_sources_a_list_means():
    tree = Memory({"a/x.cu": "", "a/b/y.cu": "", "a/b/z.h": "", "c/w.cu": ""})
    assert matching(["a/**/*.cu", "!a/b/*"], tree) == ["a/x.cu"]
    assert matching(["a/*.cu", "a/b/**", "gone.cu"], tree) == ["gone.cu", "a/x.cu", "a/b/y.cu", "a/b/z.h"]
    assert matching(["**/*.cu"], tree) == ["a/x.cu", "a/b/y.cu", "c/w.cu"]


def test_the_commands(project):
    project.git("checkout", "-q", "main")
    for name, text in FILES.items():
        project.write(name, text)
    project.write("tasks/lanes.yml", "lanes:\n  a:\n    paths: [k/**]\n    checks: [command: nvcc k/a.cu]\n")
    project.write(".github/workflows/w.yml", "on:\n  pull_request:\n    paths: [k/**, common/**]\n")
    project.commit()
    done = project.doit("lanes", "check")
    assert done.returncode == 1
    assert "\ntasks/lanes.yml:2:3: k/a.cu:3 includes common/x.cuh, which no pattern of lane 'a' lets through" in done.stdout
    assert done.stdout.startswith("note: common/x.cuh:2: '#include MACRO' can't be told")
    as_json = json.loads(project.doit("lanes", "check", "--json").stdout)
    assert [one["hint"] for one in as_json["findings"]] == ["add `common/x.cuh`", "add `common/y.cuh`"]
    assert len(as_json["notes"]) == 2
    done = project.doit("lanes", "check", "w.yml", "--source", "k/a.cu")
    assert (done.returncode, done.stdout.count("note: ")) == (0, 2)
    done = project.doit("lanes", "check", "w.yml", "--source", "k/a.cu", "--include", "third")
    assert (done.returncode, "add `third/deep/z.h`" in done.stdout) == (1, True)


@pytest.mark.parametrize(
    ("line", "suggestion"),
    [
        ('#include "util.h"', "`closure: {include: [lib]}`"),
        ("#include <util.h>", None),
        ("#include <deep/util.h>", "`closure: {include: [lib/x]}`"),
        ("import helper", "`closure: {python: [tools]}`"),
        ("from pack import part", "`closure: {python: [tools/deep]}`"),
        ("import string", None),
        ("import gone", None),
        ("import part", None),
    ],
)
def test_where_a_name_would_be_found(line, suggestion):
    """The shortest folder that has it; of a bare name in angles nothing is sure, nor of one of Python's own modules."""
    files = {"lib/util.h": "", "lib/x/deep/util.h": "", "tools/helper.py": "", "tools/deep/helper.py": ""}
    files |= {"tools/deep/pack/__init__.py": "", "tools/deep/pack/part.py": "", "tools/string.py": ""}
    source = "k/a.cu" if line.startswith("#") else "k/a.py"
    notes = told(f"  a: {{paths: [k/**], checks: [compile: {source}]}}\n", {source: f"{line}\n", **files})[1]
    assert [note.partition("if that is meant: ")[2].rstrip(")") for note in notes] == ([suggestion] if suggestion else [])


def test_sources_that_match_no_file():
    """With the place of the pattern. A lane's own patterns as sources are looked at by another rule."""
    found, _ = told(
        "  a:\n    paths: [k/**, common/**]\n"
        "    closure: {from: [k/*.cu, 'q/*.cu', '!k/x', gone.cu]}\n    checks: [command: x]\n"
    )
    message = "in the closure of lane 'a' matches no file: nothing is read for it"
    assert found == [
        f"no-source tasks/k.yml:4:30: 'q/*.cu' {message}",
        f"no-source tasks/k.yml:4:48: 'gone.cu' {message}",
    ]
    assert told("  a: {paths: [k/**, common/**, q/*.cu], closure: paths, checks: [command: x]}\n")[0] == []

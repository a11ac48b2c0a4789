"""What is wrong with patterns that can be read: tables, and inclusion of patterns against every short path there is."""

from __future__ import annotations

import itertools
import json
import re
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from touchgate.gate import inclusion, lint, workflow
from touchgate.gate.declarations import read_lanes
from touchgate.gate.inclusion import covered, meet
from touchgate.gate.patterns import PatternList

TRACKED = ("src/a.c", "src/b.md", "src/deep/c.c", "docs/x.md", "docs/y.md", "README.md", "lib/l.c", "tasks/k.yml")


def lanes(source: str, *folders: str):
    text = textwrap.dedent(source).lstrip("\n").encode()
    return read_lanes({"tasks/k.yml": text}, folders=lambda path: folders if path == "crates" else ()).values()


def found(source: str, tracked=TRACKED, roots=(), **more) -> list[str]:
    return [f"{one.rule} {one}" for one in lint.of_lanes(lanes(source), tracked, roots, **more)]


def listed(*patterns: str, tracked=TRACKED) -> list[str]:
    """The findings about one list, with the pattern's number for its place."""
    source = "lanes:\n  k:\n    checks: [command: x]\n    paths:\n" + "".join(f"    - '{text}'\n" for text in patterns)
    findings = lint.of_lanes(lanes(source), tracked)
    return [f"{one.where.line - 5} {one.rule}: {one.message.replace('tasks/k.yml:', '')}" for one in findings]


@pytest.mark.parametrize(
    ("patterns", "findings"),
    [
        (["src/**", "!**/*.md"], []),
        (["src/**", "docs/**", "!docs/y.md", "docs/*.md"], [("2 unreachable: '!docs/y.md' of lane 'k' can't be reached: "
                                                          "docs/*.md at 8:7 decides every path that it matches")]),
        (["sec/**", "src/**"], ["0 matches-nothing: 'sec/**' of lane 'k' matches no tracked file"]),
        (["src/**", "!src/*.py"], ["1 matches-nothing: '!src/*.py' of lane 'k' matches no tracked file"]),
        (["src/**", "!docs/**"], [("1 takes-nothing-back: '!docs/**' of lane 'k' takes nothing back: no pattern before it "
                                  "matches any such path")]),
        (["!docs/**", "**"], [("0 unreachable: '!docs/**' of lane 'k' can't be reached: ** at 6:7 decides every path that it "
                              "matches")]),
        (["docs/*.md", "src/**", "!**/*.md"], [("0 unreachable: 'docs/*.md' of lane 'k' can't be reached: !**/*.md at 7:7 "
                                               "takes back every path that it matches")]),
        (["src/*.c", "src/**"], [("0 unreachable: 'src/*.c' of lane 'k' can't be reached: src/** at 6:7 decides every path "
                                 "that it matches")]),
        (["src/**", "docs/**", "src/**"], [("0 unreachable: 'src/**' of lane 'k' can't be reached: the same pattern stands "
                                           "behind it, at 7:7")]),
        # Only together do they decide all, also where no path has two slashes in a row or ends in one.
        (["src/**", "src/*", "src/*/**"], [("0 unreachable: 'src/**' of lane 'k' can't be reached: patterns behind it decide "
                                           "every path that it matches")]),
        (["src/*.[ch]", "src/*.c", "src/*.h"], [("0 unreachable: 'src/*.[ch]' of lane 'k' can't be reached: patterns behind "
                                                "it "
                                                "decide every path that it matches"),
                                                "2 matches-nothing: 'src/*.h' of lane 'k' matches no tracked file"]),
        (["src/*.c?", "src/*.c"], []),
        (["src/*", "src/*.c"], []),
        (["**", "!src/**", "src/deep/**"], []),
        (["**/*.md", "!README.md"], []),
    ],
)  # fmt: skip
def test_patterns_that_do_nothing(patterns, findings):
    assert listed(*patterns) == findings


def test_where_the_automata_would_take_too_long_the_tracked_files_decide(monkeypatch):
    monkeypatch.setattr(inclusion, "MOST_PAIRS", 1)
    assert covered("src/*", ["src/**"]) is None
    assert meet("src/*", ["src/**"]) is None
    assert listed("src/*.md", "src/b.*") == [
        (
            "0 unreachable: 'src/*.md' of lane 'k' can't be reached: patterns behind it decide every "
            "path that it matches (of the "
            "tracked files)"
        )
    ]
    assert listed("src/*.md", "src/b.*", tracked=(*TRACKED, "src/c.md")) == []


def test_a_list_that_is_used_twice_is_idle_where_it_is_in_both():
    source = """
        lanes:
          a: {paths: [&one src/**, &two docs/**, gone/**], checks: [command: x]}
          b: {paths: [*one, *two, "!src/**"], checks: [command: x]}
          c: {paths: [lib/**, *two, "!docs/**"], checks: [command: x]}
    """
    assert found(source) == [
        "matches-nothing tasks/k.yml:2:42: 'gone/**' of lane 'a' matches no tracked file",
    ]


EACH = """
    lanes:
      crate: {each: crates/*, paths: ["{path}/**", "!{path}/*.md"], checks: [command: x]}
"""


def test_lanes_of_folders_are_judged_together():
    made = lanes(EACH, "a", "b")
    assert lint.of_lanes(made, ["crates/a/x.c", "crates/a/r.md", "crates/b/x.c"]) == []
    (one,) = lint.of_lanes(made, ["crates/a/x.c", "crates/b/x.c"])
    assert str(one) == "tasks/k.yml:2:48: '!crates/a/*.md' of lane 'crate-a' matches no tracked file"
    (one,) = lint.of_lanes(lanes(EACH.replace("{path}", "crates"), "a", "b", "c"), ["crates/a/x.c", "crates/r.md"])
    assert str(one) == "tasks/k.yml:2:3: the lanes of 'crate' all have the same paths; write \"{path}/**\" among them"


def test_twins():
    source = """
        lanes:
          a: {paths: [src/**, docs/**], checks: [command: x]}
          b: {paths: [docs/**, src/**], checks: [command: x]}
          c: {paths: [src/**, "!docs/**", docs/x.md], checks: [command: x]}
          d: {paths: [docs/x.md, src/**], checks: [command: x]}
    """
    assert [line for line in found(source) if line.startswith("equal")] == [
        "equal-paths tasks/k.yml:3:3: lane 'b' has the same paths as 'a' at tasks/k.yml:2:3"
    ]


def test_inputs_that_do_not_exist():
    source = "lanes:\n  a: {paths: [src/**], checks: [{command: x, inputs: [src, gone]}]}\n"
    assert found(source, exists=lambda name: name == "src") == [
        "missing-input tasks/k.yml:2:34: input 'gone' of a check of lane 'a' does not exist"
    ]


@pytest.mark.parametrize(
    ("roots", "findings"),
    [
        ([], []),
        (["src"], []),
        (["docs"], ["docs/x.md: no lane gates this file"]),
        (["docs/", "./docs"], ["docs/x.md: no lane gates this file"]),
        (["lib"], ["lib/: no lane gates the 1 tracked file here"]),
        (["tasks"], []),
        (
            ["."],
            [
                "README.md: no lane gates this file",
                "docs/x.md: no lane gates this file",
                "lib/: no lane gates the 1 tracked file here",
            ],
        ),
        (["sec"], ["sec/: there is no tracked file under this root; correct the setting"]),
    ],
)
def test_files_that_no_lane_gates(roots, findings):
    source = "lanes:\n  a: {paths: [src/**, docs/**, '!docs/x.md'], checks: [command: x]}\n"
    assert [str(one) for one in lint.of_lanes(lanes(source), TRACKED, roots)] == findings


def test_a_root_of_which_nothing_is_gated():
    source = "lanes:\n  a: {paths: [src/**], checks: [command: x]}\n"
    (one,) = lint.of_lanes(lanes(source), [*TRACKED, "lib/deep/a/x", "lib/deep/b/x"], ["lib"])
    assert str(one) == "lib/: no lane gates the 3 tracked files here"
    inner = lint.of_lanes(lanes(source), ["src/a.c", "x/src/a", "x/y/1", "x/y/z/2", "x/w"], ["."])
    assert [str(one) for one in inner] == ["x/: no lane gates the 4 tracked files here"]


WORKFLOW = """
on:
  pull_request:
    paths: [src/**, docs/**, "src/{a,b}.c", /lib/**, gone/**]
  push:
    paths:
      - src/**
      - "!src/*.md"
      - docs/**
"""


def of_workflow(text: str) -> list[str]:
    read = workflow.read_paths(textwrap.dedent(text).encode(), "w.yml")
    return [f"{one.rule} {one}" for one in lint.of_workflow(read, TRACKED)]


def test_a_workflow_s_lists():
    cure = "one list for both: `paths: &paths [...]`, then `paths: *paths`"
    lacks = "is in the list of pull_request only; that of push at w.yml:5:3 lacks it"
    assert of_workflow(WORKFLOW) == [
        f"drift w.yml:4:30: 'src/{{a,b}}.c' {lacks}; {cure}",
        (
            "mistaken w.yml:4:30: pattern 'src/{a,b}.c': braces are plain characters here; write one "
            "pattern for each choice, or "
            "`\\{` for a brace"
        ),
        f"drift w.yml:4:45: '/lib/**' {lacks}; {cure}",
        (
            "mistaken w.yml:4:45: pattern '/lib/**': it begins with `/` and never matches; paths are "
            "relative to the root: write "
            "`lib/**`"
        ),
        f"drift w.yml:4:54: 'gone/**' {lacks}; {cure}",
        "matches-nothing w.yml:4:54: 'gone/**' of 'paths' of pull_request matches no tracked file",
        f"drift w.yml:8:9: '!src/*.md' is in the list of push only; that of pull_request at w.yml:3:3 lacks it; {cure}",
    ]


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        ("on: push", []),
        ("on: {push: {branches: [main]}, pull_request: {paths: [src/**]}}", []),
        ("on: {push: {paths: &p [src/**]}, pull_request: {paths: *p}}", []),
        (
            "on: {push: {paths: [src/**, '!**/*.md']}, pull_request: {paths: ['!**/*.md', src/**]}}",
            [
                (
                    "drift w.yml:1:43: the list of pull_request has the patterns of push at w.yml:1:6 in "
                    "another order; with `!` the "
                    "order decides"
                ),
                (
                    "takes-nothing-back w.yml:1:66: '!**/*.md' of 'paths' of pull_request takes nothing back: no pattern "
                    "before it matches any such path; put it behind what it should take back, or take it out"
                ),
            ],
        ),
        (
            "on: {push: {paths: ['!src/**']}}",
            [
                (
                    "mistaken w.yml:1:20: 'paths': only patterns with `!` match nothing; put what they take "
                    "back before them, such "
                    "as `**`"
                ),
                (
                    "takes-nothing-back w.yml:1:21: '!src/**' of 'paths' of push takes nothing back: no "
                    "pattern before it matches any "
                    "such path; put it behind what it should take back, or take it out"
                ),
            ],
        ),
        (
            "on: {push: {paths-ignore: [docs/**, gone/**]}}",
            [
                (
                    "matches-nothing w.yml:1:37: 'gone/**' of 'paths-ignore' of push matches no tracked file; "
                    "nothing is ignored by it"
                )
            ],
        ),
    ],
)
def test_workflows_of_other_shapes(text, findings):
    assert of_workflow(text) == findings


# inclusion, against all short paths

ALPHABET = "ab/x"
SHORT = [
    path
    for length in range(1, 7)
    for path in map("".join, itertools.product(ALPHABET, repeat=length))
    if not (path.startswith("/") or path.endswith("/") or "//" in path)
]
BODIES = st.lists(st.sampled_from(["*", "**", "**/", "/", "a", "b", "a?", "b+", "[ab]", "ab"]), min_size=1, max_size=3).map(
    "".join
)


@settings(max_examples=400)
@given(BODIES, st.lists(BODIES, max_size=3))
def test_inclusion_and_meeting_agree_with_every_short_path(body, others):
    ours, theirs = PatternList([body]), PatternList(others)
    matched = [path for path in SHORT if ours.matching(path)]
    both = [bool(theirs.matching(path)) for path in matched]
    assert covered(body, others) is all(both), (body, others)
    assert meet(body, others) is any(both), (body, others)


def test_inclusion_of_many_letters_is_quick():
    """Counted in pairs of states: letters that no pattern tells apart are looked at once."""
    assert covered("[a-z]+/[A-Z_]+.[ch]", ["*/[A-Za-z_]+.?"]) is False
    assert covered("[a-z]+/[A-Z_]+.[ch]", ["*/[A-Za-z_]+.[a-z]"]) is True
    assert len(inclusion._representatives([inclusion.elements_of("[a-z]x[a-f]")])) == 5


# the command


def test_doit_lanes_check(project):
    project.write(
        "tasks/more.yml",
        "lanes:\n  three:\n    paths: [src/**, sec/**]\n    checks: [command: x]\n  two-twin: "
        "{paths: [lib/**], checks: [command: x]}\n",
    )
    project.write(".github/workflows/w.yml", "on:\n  push:\n    paths: [./src/**]\n")
    project.commit()
    done = project.doit("lanes", "check", "--root", "docs")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (
        "docs/: no lane gates the 1 tracked file here\n"
        "tasks/more.yml:3:21: 'sec/**' of lane 'three' matches no tracked file\n"
        "        paths: [src/**, sec/**]\n"
        "                        ^\n"
        "tasks/more.yml:5:3: lane 'two-twin' has the same paths as 'two' at tasks/lanes.yml:8:3\n"
        "      two-twin: {paths: [lib/**], checks: [command: x]}\n"
        "      ^\n"
    )
    data = json.loads(project.doit("lanes", "check", "--json").stdout)
    assert data == {
        "schema": 1,
        "findings": [
            {
                "rule": "matches-nothing",
                "where": "tasks/more.yml:3:21",
                "message": "'sec/**' of lane 'three' matches no tracked file",
                "hint": None,
            },
            {
                "rule": "equal-paths",
                "where": "tasks/more.yml:5:3",
                "message": "lane 'two-twin' has the same paths as 'two' at tasks/lanes.yml:8:3",
                "hint": None,
            },
        ],
        "notes": [],
    }
    done = project.doit("lanes", "check", "w.yml")
    assert done.returncode == 1
    assert done.stdout.startswith(".github/workflows/w.yml:3:13: pattern './src/**': it begins with `./` and never matches")
    assert project.doit("lanes", "check", "workflows/w.yml", cwd=".github").returncode == 1
    assert project.doit("lanes", "check", "none.yml").stderr == "ERROR: there is no workflow none.yml in this repository\n"


def test_doit_lanes_check_with_nothing_to_find_and_with_settings(project):
    done = project.doit("lanes", "check")
    assert (done.returncode, done.stdout) == (0, "2 lanes in 1 file: nothing to find\n")
    project.write("ok.yml", "on: {push: {paths: [src/**]}}")
    done = project.doit("lanes", "check", "ok.yml")
    assert (done.returncode, done.stdout) == (0, "1 workflow: nothing to find\n")
    project.write("bad.yml", "on: {push: {path: [src/**]}}")
    done = project.doit("lanes", "check", "bad.yml")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("bad.yml:1:13: unknown key 'path' in 'push'; did you mean 'paths'?\n")
    settings = (project.root / "pyproject.toml").read_text()
    project.write("pyproject.toml", settings + 'gated = ["docs", "src"]\n')
    done = project.doit("lanes", "check")
    assert (done.returncode, done.stdout) == (1, "docs/: no lane gates the 1 tracked file here\n")


def test_every_rule_is_described_and_every_description_is_of_a_rule():
    sources = (Path(lint.__file__), Path(lint.__file__).parent / "closure/lint.py")
    told = {rule for source in sources for rule in re.findall(r'\bFinding\(\s*"([a-z-]+)"', source.read_text())}
    assert told == set(lint.RULES)

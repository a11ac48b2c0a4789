"""`each`: a lane for every folder. Tables over made-up trees, then real git for the folders of every kind of head."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.gate import answers, change, cli, sources
from touchgate.gate.asked import Asked, parse
from touchgate.gate.declarations import read_lanes
from touchgate.gate.declared import read_both
from touchgate.gate.git import Repository
from touchgate.gate.listed import as_patterns, inputs_of
from touchgate.gate.located import DeclarationError
from touchgate.gate.model import At, Decision, Each
from touchgate.gate.patterns import PatternList
from touchgate.gate.plan import plan

TREE = ("crates/a/src", "crates/b", "crates/old/src", "apps/web/app", "apps/ios/app", "docs", ".ci", "crates/a/tests")


def folders_in(*tree: str):
    """A `folders` over these folders, which notes what was listed."""
    asked = []

    def folders(path: str) -> list[str]:
        asked.append(path)
        below = f"{path}/" if path else ""
        return sorted({folder[len(below) :].split("/")[0] for folder in tree if folder.startswith(below)} - {""})

    folders.asked = asked
    return folders


def lanes(source: str, *tree: str, **more):
    text = textwrap.dedent(source).lstrip("\n").encode()
    return read_lanes({"f": text}, folders=folders_in(*(tree or TREE)), **more)


def mistakes(source: str, *tree: str, **more) -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        lanes(source, *tree, **more)
    return [str(problem) for problem in caught.value.problems]


def one(each: str, key: str = "ws", more: str = "") -> str:
    return f"lanes:\n  {key}: {{each: {each}, paths: ['{{path}}/**'], {more}checks: [command: x]}}\n"


WHOLE = """
    lanes:
      crate:
        each: [crates/*, "!crates/old"]
        about: the crate {name} in {path}; {} and { name } and ${name} stay
        paths: ["{path}/**", "!{path}/*.md"]
        needs: ["doc-{name}", {lite: [tools]}]
        env: ["CRATE_{name}"]
        checks:
          - command: cargo test -p {name} | awk '{ print }' | xargs -I{} echo {} ${HOME}
            name: test-{name}
            inputs: ["{path}/Cargo.toml"]
            tools: {cargo: "{path}/bin"}
      "doc-{name}": {each: crates/*, paths: ["doc/{name}.md"], checks: [command: x]}
      tools: {paths: [tools/**], checks: [command: x]}
      every: {paths: [all], needs: [crate, {lite: ["doc-{name}"]}], checks: [command: x]}
"""


def test_a_whole_group():
    found = lanes(WHOLE)
    assert list(found) == ["crate-a", "crate-b", "doc-a", "doc-b", "doc-old", "tools", "every"]
    a = found["crate-a"]
    assert a.each == Each("crate", "a", "crates/a", At("f", 3, 11))
    assert (a.about, a.env) == ("the crate a in crates/a; {} and { name } and ${name} stay", ("CRATE_a",))
    assert [(pattern.text, str(pattern.at)) for pattern in a.paths] == [
        ("crates/a/**", "f:5:13"),
        ("!crates/a/*.md", "f:5:26"),
    ]
    assert [(need.lane, need.suite) for need in a.needs] == [("doc-a", None), ("tools", "smoke")]
    (check,) = a.checks
    assert check.target == "cargo test -p a | awk '{ print }' | xargs -I{} echo {} ${HOME}"
    assert check.options == {"name": "test-a", "inputs": ["crates/a/Cargo.toml"], "tools": {"cargo": "crates/a/bin"}}
    assert str(a.at) == str(found["crate-b"].at) == "f:2:3"
    assert [(need.lane, need.suite, str(need.at)) for need in found["every"].needs] == [
        ("crate-a", None, "f:15:33"),
        ("crate-b", None, "f:15:33"),
        ("doc-a", "smoke", "f:15:48"),
        ("doc-b", "smoke", "f:15:48"),
        ("doc-old", "smoke", "f:15:48"),
    ]
    assert found["tools"].each is None


@pytest.mark.parametrize(
    ("each", "paths", "listed"),
    [
        ("crates/*", ["crates/a", "crates/b", "crates/old"], ["crates"]),
        ("'crates/[ab]'", ["crates/a", "crates/b"], ["crates"]),
        ("crates/a", ["crates/a"], ["crates"]),
        ("apps/*/app", ["apps/ios/app", "apps/web/app"], ["apps", "apps/ios", "apps/web"]),
        ("apps/w?e?b/app", ["apps/web/app"], ["apps", "apps/web"]),
        ("crates/a/*", ["crates/a/src", "crates/a/tests"], ["crates/a"]),
        ("'*'", [".ci", "apps", "crates", "docs"], [""]),
        ("[docs, crates/a]", ["crates/a", "docs"], ["", "crates"]),
        ("['crates/*', '!**/o*', 'crates/ol+d']", ["crates/a", "crates/b", "crates/old"], ["crates", "crates"]),
        ("['crates/*', '!crates/[a-n]*']", ["crates/old"], ["crates"]),
        ("nothing/*/deep", None, ["nothing"]),
    ],
)
def test_which_folders_match_and_which_are_listed(each, paths, listed):
    folders = folders_in(*TREE)
    text = one(each, key='"x{name}"').encode()
    source = text.replace(b"x{name}", b"x-{name}")
    if paths is None:
        with pytest.raises(DeclarationError):
            read_lanes({"f": source}, folders=folders)
    elif each.startswith("apps/*"):
        with pytest.raises(DeclarationError, match="gives too"):
            read_lanes({"f": source}, folders=folders)
    else:
        assert [lane.each.path for lane in read_lanes({"f": source}, folders=folders).values()] == paths
    assert folders.asked == listed


@pytest.mark.parametrize(
    ("source", "problems"),
    [
        (one("crates/**"), [("f:2:14: 'each', pattern 'crates/**': `**` would list the whole tree; write each level out: "
                            "`crates/*`, `crates/*/*`")]),
        (one("crates/"), ["f:2:14: 'each', pattern 'crates/': folders are matched without the `/` behind: write `crates`"]),
        (one("/crates/*"), [("f:2:14: 'each', pattern '/crates/*': it begins with `/` and never matches; paths are relative "
                            "to the root: write `crates/*`")]),
        (one("'!crates/*'"), ["f:2:14: 'each' has only patterns with `!`, which match nothing"]),
        (one("[]"), ["f:2:14: 'each' is empty; write a pattern of folders such as crates/*"]),
        (one("{a: b}"), ["f:2:14: 'each' must be a pattern of folders or a list of them, not a mapping"]),
        (one("3"), ['f:2:14: a pattern of \'each\' must be text; YAML takes 3 for a number; write "3"']),
        (one("crate/*"), [("f:2:14: 'each' matches no folder, so nothing would ever run; name a folder that holds a file "
                          "git knows, or take the lane out")]),
        (one("crates/*", key="lanes of"), [("f:2:3: 'lanes of' can't name a lane; take letters, digits, '.', '_' and '-', "
                                           "a letter or digit first")]),
        (one("crates/*", key="ws-{nmae}"), ["f:2:3: unknown field '{nmae}'; did you mean 'name'?"]),
        (one("crates/*", more="about: 'see {crate}', "), [
            "f:2:53: unknown field '{crate}'; there are {name} and {path}; for the braces themselves write { crate }"]),
        (one("crates/*", more="about: {name}, "), [
            'f:2:53: YAML takes {name} for a mapping; write it in quotes: "{name}"']),
        (one("crates/*", more="minutes: x, "), ["f:2:55: 'minutes' must be a number in plain digits, not x"]),
        (one("crates/*", more="needs: ['o-{name}'], "), [
            "f:2:54: lane 'ws-a' needs 'o-a', which no file declares"]),
        (one("crates/*", more="needs: [ws], "), [
            "f:2:54: lanes need each other in a circle: ws-a -> ws-a (f:2:54); take one of these needs out"]),
        (one("'crates/[ab]'", key="'{path}'"), [
            ("f:2:20: 'each': the folder 'crates/a' gives lane 'crates/a', which is no name of a lane; take letters, digits, "
            "'.', '_' and '-', a letter or digit first; rename the folder, or leave it out with \"!...\" in a list"),
            ("f:2:20: 'each': the folder 'crates/b' gives lane 'crates/b', which is no name of a lane; take letters, digits, "
            "'.', '_' and '-', a letter or digit first; rename the folder, or leave it out with \"!...\" in a list")]),
        (one("apps/*/app", key="'{name}'"), [
            ("f:2:20: 'each': the folder 'apps/web/app' gives lane 'app', which the folder 'apps/ios/app' gives too; rename "
            'the folder, or leave it out with "!..." in a list')]),
        (one("crates/a") + one("crates/b").partition("\n")[2], [
            "f:3:3: duplicate key 'ws'; the first is at line 2"]),
        ("lanes:\n  ws-b: {paths: [x], checks: [command: x]}\n" + one("crates/*").partition("\n")[2], [
            ("f:3:14: 'each': the folder 'crates/b' gives lane 'ws-b', which is declared at f:2:3; take another name for one "
            "of them")]),
        (one("crates/*") + "  ws-b: {paths: [x], checks: [command: x]}\n", [
            "f:3:3: lane 'ws-b' is declared twice; the first is at f:2:14"]),
        ("lanes:\n  x-{name}: {paths: [x], checks: [command: x]}\n", [
            "f:2:3: 'x-{name}' can't name a lane; '{name}' in it takes an 'each' below"]),
    ],
)  # fmt: skip
def test_mistakes(source, problems):
    assert mistakes(source) == problems


def test_what_needs_the_lanes_of_a_mistaken_each_is_not_mistaken_too():
    more = "  a: {paths: [x], needs: [ws-a, ws, other], checks: [command: x]}\n"
    assert mistakes(one("crates/**") + more) == [
        "f:2:14: 'each', pattern 'crates/**': `**` would list the whole tree; write each level out: `crates/*`, `crates/*/*`",
        "f:3:37: lane 'a' needs 'other', which no file declares",
    ]


def test_names_that_are_commands():
    assert mistakes(one("docs", key="'{name}'"), reserved=["docs"]) == [
        (
            "f:2:20: 'each': the folder 'docs' gives lane 'docs', which is a command of doit; rename the folder, or leave "
            'it out with "!..." in a list'
        )
    ]


ODD = [
    "a b",
    "$(x)",
    "a'b",
    "ä",
    "-rf",
    "a*",
    "a\n",
    "c++",
    "a:b",
    "[id]",
    "!x",
    "#x",
    "a\\b",
    'a"b',
    "{name}",
    "@s",
    "`x`",
    " ",
    "$HOME",
]


@pytest.mark.parametrize("name", ODD)
def test_a_folder_with_any_name_has_a_lane(name):
    """One of them must not stop all others; its name is one word in a command, and means itself in a pattern."""
    source = """
        lanes:
          ws:
            each: crates/*
            about: "the {name}"
            paths: ["{path}/**", "!x-{name}/*.md"]
            needs: ["t-{name}"]
            checks:
              - command: |
                  # don't count {name}
                  printf '%s\\n' {name} "x{path}" 'y{name}' "$(printf %s "{name}")" ${HOME:+{name}}
                inputs: ["{path}", "{path}/*.txt"]
              - vectors: "vectors/{name}"
                decoder: printf '%s\\n' {name} "x{path}"
          "t-{name}":
            each: crates/*
            paths: [x]
            checks: [command: x]
    """
    made = lanes(source, f"crates/{name}", "crates/fine")
    assert len(made) == 4
    (lane,) = [lane for lane in made.values() if lane.name.startswith("ws-") and lane.name != "ws-fine"]
    assert re.fullmatch(r"ws-[A-Za-z0-9._-]+", lane.name)
    assert lane.needs[0].lane == f"t-{lane.name.removeprefix('ws-')}"
    assert (lane.each.name, lane.each.path) == (name, f"crates/{name}")
    assert lane.about.isprintable()
    patterns = PatternList([pattern.text for pattern in lane.paths])
    assert patterns.decides(f"crates/{name}/src/a") == 0
    assert patterns.decides("crates/fine/a") is None
    inputs = PatternList(as_patterns(inputs_of(lane.checks[0])))
    assert inputs.decides(f"crates/{name}/deep/a") is not None
    assert inputs.decides("crates/fine/a") is None
    done = subprocess.run(
        ["/bin/sh", "-c", lane.checks[0].target], capture_output=True, text=True, env={"HOME": "/h"}, check=True
    )
    vectors = lane.checks[1]
    decoded = subprocess.run(["/bin/sh", "-c", vectors.options["decoder"]], capture_output=True, text=True, check=True)
    assert (vectors.target, decoded.stdout) == (f"vectors/{name}", f"{name}\nxcrates/{name}\n")
    expected = [name, f"xcrates/{name}", f"y{name}", name.rstrip("\n")]  # `$()` takes line ends away
    assert done.stdout.startswith("".join(f"{word}\n" for word in expected))


def test_names_of_odd_folders_are_kept_apart():
    made = lanes(one("crates/*"), "crates/c++", "crates/c--", "crates/c  ", "crates/c")
    assert len(made) == 4
    assert {name for name in made if not re.fullmatch("ws-c-[0-9a-f]{8}", name)} == {"ws-c", "ws-c--"}


@pytest.mark.parametrize("name", ["c++", "my crate", "a\n:*", "b\udcff"])
def test_an_odd_folder_gates_by_its_files(project, name):
    project.git("checkout", "-q", "main")
    text = "lanes:\n  ws: {each: crates/*, paths: ['{path}/**'], checks: [command: \"test -f '{path}/f'\"]}\n"
    project.write("tasks/lanes.yml", text)
    project.write(f"crates/{name}/f", "1\n")
    project.write("crates/fine/f", "1\n")
    project.commit()
    project.git("checkout", "-q", "-B", "work")
    project.write(f"crates/{name}/f", "2\n")
    done = project.doit()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert "ws-fine:command" not in done.stdout


def test_too_many_folders():
    (problem,) = mistakes(one("c/*"), *(f"c/f{number}" for number in range(10_001)))
    assert problem == "f:2:14: 'each' matches more than 10000 folders; write a narrower pattern"


def test_too_many_folders_for_long_fields():
    env = ", ".join(f"V{number}" for number in range(2500))
    (problem,) = mistakes(one("c/*", more=f"env: [{env}], "), *(f"c/f{number}" for number in range(1000)))
    assert problem == (
        "f:2:14: 'each' matches 1000 folders, too many for fields as long as these; write a narrower "
        "pattern, or shorter fields"
    )


PARTS = st.sampled_from(["*", "a", "b", "a*", "?a", "[ab]", "a?b", "ab", "a+", "!a", "\\*"])
NAMES = st.sampled_from(["a", "b", "ab", "aa", "b.c"])


@given(st.lists(st.lists(PARTS, min_size=1, max_size=3).map("/".join), min_size=1, max_size=3),
       st.lists(st.lists(NAMES, min_size=1, max_size=4).map("/".join), min_size=1, max_size=8))  # fmt: skip
def test_level_by_level_is_the_dialect_over_the_whole_tree(patterns, tree):
    whole = {"/".join(folder.split("/")[:end]) for folder in tree for end in range(1, 5)}
    listed = PatternList(patterns)
    expected = sorted(folder for folder in whole if listed.decides(folder) is not None)
    source = json.dumps({"lanes": {"x": {"each": patterns, "paths": ["{path}"], "checks": [{"command": "x"}]}}})
    try:
        found = read_lanes({"f": source.encode()}, folders=folders_in(*tree))
    except DeclarationError as fault:
        problems = [problem.message for problem in fault.problems]
        if any("'each', pattern" in problem or "only patterns" in problem for problem in problems):
            return
        assert all("gives too" in problem for problem in problems) or (not expected and len(problems) == 1)
    else:
        assert [lane.each.path for lane in found.values()] == expected


def test_the_example_of_the_docs():
    page = (Path(__file__).resolve().parent.parent / "docs/lanes.md").read_text()
    (example,) = [block for block in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "each:" in block]
    found = lanes(example, "crates/core/src", "crates/wire", "crates/attic", "docs")
    assert list(found) == ["crate-core", "crate-wire", "docs-attic", "docs-core", "docs-wire", "toolchain", "release"]
    assert [need.lane for need in found["release"].needs] == ["crate-core", "crate-wire"]


# with real git

LANE_FILE = """
lanes:
  ws:
    each: [crates/*, "!crates/skipped"]
    about: crate {name}
    paths: ["{path}/**"]
    checks: [command: "echo {name} >> $MARKS"]
    env: [MARKS]
  all: {paths: [all/**], needs: [ws], checks: [command: "echo all >> $MARKS"], env: [MARKS]}
"""


@pytest.fixture
def crates(project):
    """Crates a and b, and one that is skipped, on main; `work` is checked out."""
    project.git("checkout", "-q", "main")
    project.write("tasks/lanes.yml", LANE_FILE)
    project.write(".gitignore", "target/\n")
    for name in ("a", "b", "skipped"):
        project.write(f"crates/{name}/src/lib.rs", name)
    project.commit()
    project.git("checkout", "-q", "-B", "work")
    return project


def asked(project, *revisions):
    """Lane -> its decision and reason, judged in both forms of the gate."""
    base, head = revisions or (None, None)
    with Repository(project.root, project.environ) as repo:
        found = read_both(repo, change.resolve(repo, base=base, head=head, environ={}))
    made = plan(found.head, found.base, found.judged.change, due=found.judged.due, gained=found.gained)
    return {one.lane: (one.decision.value, one.reason) for one in made.lanes}


def decided(project, *words, **environ):
    """The whole answer of `touchgate gate`."""
    seen = {**project.environ, **environ}
    return cli.answer_to(parse(words, seen), project.root, seen)


def running(project, *revisions):
    return sorted(name for name, (decision, _) in asked(project, *revisions).items() if decision == "run")


def both(project):
    """What runs, judged from the working tree, and the same once it is committed."""
    here = asked(project)
    project.commit()
    there = asked(project, "main", "HEAD")
    assert [(name, decision) for name, (decision, _) in here.items()] == [
        (name, decision) for name, (decision, _) in there.items()
    ]
    return here


def test_the_crate_that_is_touched_and_what_needs_it(crates):
    crates.write("crates/a/src/lib.rs", "changed")
    decided = both(crates)
    assert {name: decision for name, (decision, _) in decided.items()} == {"ws-a": "run", "ws-b": "skip", "all": "run"}
    assert decided["ws-a"][1] == "crates/a/src/lib.rs (M) matches crates/a/** at tasks/lanes.yml:6:13"


def test_a_crate_that_came_and_one_that_went(crates):
    crates.write("crates/new/lib.rs", "x")
    crates.write("crates/b/target/kept.o", "ignored, and keeps the folder alive")
    (crates.root / "crates/b/src/lib.rs").unlink()
    decided = both(crates)
    assert {name: decision for name, (decision, _) in decided.items()} == {
        "ws-a": "skip",
        "ws-new": "run",
        "all": "run",
        "ws-b": "skip",
    }
    assert decided["ws-b"][1] == (
        "crates/b/src/lib.rs (D) matches crates/b/** at tasks/lanes.yml:6:13 of the base branch's tip, but head removed the "
        "lane"
    )


def test_a_crate_that_lost_one_file_of_several(crates):
    crates.git("checkout", "-q", "main")
    crates.write("crates/b/src/more.rs", "x")
    crates.commit()
    crates.git("checkout", "-q", "-B", "work")
    (crates.root / "crates/b/src/lib.rs").unlink()
    assert both(crates)["ws-b"][0] == "run"


def test_a_crate_that_main_gained_is_not_head_s(crates):
    crates.git("checkout", "-q", "main")
    crates.write("crates/late/lib.rs", "x")
    crates.commit()
    crates.git("checkout", "-q", "work")
    crates.write("crates/a/src/lib.rs", "changed")
    assert both(crates)["ws-late"] == ("skip", "only the base branch's tip declares it")


def test_leftovers_of_other_branches_are_no_crates(crates):
    crates.write("crates/ghost/target/kept.o", "x")
    crates.write("crates/a/src/lib.rs", "changed")
    crates.root.joinpath("crates/empty").mkdir()
    assert list(asked(crates)) == ["ws-a", "ws-b", "all"]
    crates.write("crates/ghost/lib.rs", "x")
    assert list(asked(crates)) == ["ws-a", "ws-b", "ws-ghost", "all"]


def test_links_and_submodules_and_files_are_no_folders(crates):
    (crates.root / "crates/link").symlink_to("a")
    crates.write("crates/file", "x")
    crates.git("init", "-q", "crates/nested")
    crates.git("-C", "crates/nested", "commit", "-q", "--allow-empty", "-m", "x")
    assert list(asked(crates)) == ["ws-a", "ws-b", "all"]
    crates.git("-c", "advice.addEmbeddedRepo=false", "add", "crates")
    crates.git("commit", "-q", "-m", "x")
    assert list(asked(crates, "main", "HEAD")) == ["ws-a", "ws-b", "all"]
    assert list(asked(crates)) == ["ws-a", "ws-b", "all"]


def test_a_crate_that_became_a_link_is_gone(crates):
    (crates.root / "crates/b/src/lib.rs").unlink()
    (crates.root / "crates/b/src").rmdir()
    (crates.root / "crates/b").rmdir()
    (crates.root / "crates/b").symlink_to("a")
    assert both(crates)["ws-b"][0] == "skip"


def test_what_a_sparse_checkout_leaves_out_is_still_there(crates):
    crates.write("crates/b/src/lib.rs", "changed")
    crates.commit()
    crates.git("sparse-checkout", "set", "--no-cone", "/tasks/", "/crates/a/")
    assert not (crates.root / "crates/b").exists()
    assert running(crates) == ["all", "ws-b"]


@pytest.mark.parametrize("worktree", [True, False])
def test_everything_runs_where_nothing_can_be_told(crates, worktree):
    crates.write("crates/new/lib.rs", "x")
    if not worktree:
        crates.commit()
    assert running(crates, "nowhere", None if worktree else "HEAD") == ["all", "ws-a", "ws-b", "ws-new"]


def test_git_that_can_t_be_used_leaves_the_folders_on_the_disk(crates, monkeypatch):
    (crates.root / ".git/HEAD").write_text("ref: refs/heads/none\n")
    (crates.root / ".git/index").write_bytes(b"broken")
    answer = cli.answer_to(Asked(None, None, None, (), "smoke", as_json=False), crates.root, crates.environ)
    assert answer.judged.change.open_reason
    assert answer.lanes == ("ws-a", "ws-b", "all")


def test_before_the_first_commit(crates):
    crates.git("checkout", "-q", "--orphan", "fresh")
    crates.git("branch", "-q", "-D", "main")
    assert running(crates) == ["all", "ws-a", "ws-b"]


def test_the_last_crate_went(crates):
    for name in "ab":
        (crates.root / f"crates/{name}/src/lib.rs").unlink()
    note = "note: 'each' of crates/* !crates/skipped in tasks/lanes.yml matches no folder, so its lanes are gone: take it out"
    assert {name: decision for name, (decision, _) in both(crates).items()} == {"all": "run", "ws-a": "skip", "ws-b": "skip"}
    assert note in decided(crates).notes
    # Main goes on without them, and so does who starts from there.
    crates.git("branch", "-q", "-f", "main", "work")
    crates.write("other.txt", "x")
    assert asked(crates) == {"all": ("skip", "the one touched path does not match")}


def test_the_last_crate_went_and_nothing_else_is_declared(crates):
    crates.git("checkout", "-q", "main")
    crates.write("tasks/lanes.yml", LANE_FILE.partition("  all:")[0])
    crates.commit()
    crates.git("checkout", "-q", "-B", "work")
    for name in "ab":
        crates.git("rm", "-q", "-r", f"crates/{name}")
    # The file is touched by the same change.
    crates.write("tasks/lanes.yml", LANE_FILE.partition("  all:")[0] + "# gone\n")
    assert decided(crates).run is False
    crates.commit()
    assert decided(crates, "main", "HEAD").run is False
    done = crates.doit()
    assert (done.returncode, "matches no folder, so its lanes are gone" in done.stderr) == (0, True)


def test_an_each_that_a_change_brings_must_match(crates):
    crates.write("tasks/lanes.yml", LANE_FILE.replace("crates/*", "crate/*"))
    with pytest.raises(DeclarationError, match=r"tasks/lanes\.yml:4:11: 'each' matches no folder"):
        asked(crates)
    crates.commit()
    with pytest.raises(DeclarationError, match=r"tasks/lanes\.yml:4:11: 'each' matches no folder"):
        asked(crates, "main", "HEAD")


def test_a_main_that_lost_its_last_crate_says_so_and_head_s_run(crates):
    crates.git("checkout", "-q", "main")
    for name in "ab":
        crates.git("rm", "-q", "-r", f"crates/{name}")
    crates.commit()
    crates.git("checkout", "-q", "work")
    crates.write("crates/b/src/lib.rs", "changed")
    assert running(crates) == ["all", "ws-b"]


@pytest.mark.parametrize("what", ["unknown head", "unknown base", "missing commit"])
def test_what_can_t_be_told_runs_with_the_folders_that_are_there(crates, tmp_path, what):
    """No head to list folders of: those of the checkout stand in, and nothing is a mistake."""
    crates.write("crates/new/lib.rs", "x")
    words, environ = (), {}
    if what == "unknown head":
        words = ("main", "nowhere")
    elif what == "unknown base":
        words = ("nowhere", "HEAD")
    else:
        payload = tmp_path / "event.json"
        payload.write_text('{"repository": {"default_branch": "main"}, "inputs": {"head_sha": "%s"}}' % ("a" * 40))
        environ = {"GITHUB_EVENT_NAME": "workflow_dispatch", "GITHUB_EVENT_PATH": str(payload)}
    answer = decided(crates, *words, **environ)
    assert answer.judged.change.open_reason
    assert sorted(answer.lanes) == ["all", "ws-a", "ws-b", *(["ws-new"] if what != "unknown base" else [])]


def test_nothing_is_listed_twice_where_both_sides_agree(crates, monkeypatch):
    """Equal lane files and equal folders: one reading serves both sides."""
    crates.write("crates/a/src/lib.rs", "changed")
    with Repository(crates.root, crates.environ) as repo:
        found = read_both(repo, change.resolve(repo, environ={}))
    assert found.base is found.head
    crates.write("crates/new/lib.rs", "changed")
    with Repository(crates.root, crates.environ) as repo:
        found = read_both(repo, change.resolve(repo, environ={}))
    assert (list(found.head), list(found.base)) == (["ws-a", "ws-b", "ws-new", "all"], ["ws-a", "ws-b", "all"])


def test_folders_of_a_commit_are_trees_only(crates):
    with Repository(crates.root, crates.environ) as repo:
        folders = sources.commit_folders(repo, "HEAD")
        assert (folders("crates"), folders("crates/a/src"), folders("no/where")) == (("a", "b", "skipped"), (), ())


# random working trees against what git itself lists


def edit(project, chance):
    """One random step: a file written, ignored, removed, staged, committed, a folder moved."""
    folder = project.root / "crates" / chance.choice("abcd") / chance.choice(["", "in", "in/deep"])
    path = folder / chance.choice(["x", "y", "kept.o"])
    act = chance.choice(["write", "write", "remove", "remove", "add", "commit", "drop", "move", "hide"])
    if act == "write":
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(str(chance.randrange(100)))
    elif act == "remove":
        path.unlink(missing_ok=True)
    elif act == "add":
        project.git("add", "-A", "crates")
    elif act == "commit":
        project.commit()
    elif act == "drop":
        shutil.rmtree(project.root / "crates" / chance.choice("abcd"), ignore_errors=True)
    elif act == "move":
        one, other = (project.root / "crates" / name for name in chance.sample("abcd", 2))
        if one.is_dir() and not other.exists():
            one.rename(other)
    elif path.is_file() and project.git("ls-files", "--", str(path)):
        project.git("update-index", chance.choice(["--assume-unchanged", "--no-assume-unchanged"]), "--", str(path))


def listed_by_git(project, revision=None):
    """Folder -> folders in it, from git's own whole list of files that are there."""
    if revision:
        files = project.git("ls-tree", "-r", "--name-only", revision).split("\n")
    else:
        files = project.git("ls-files", "-co", "--exclude-standard").split("\n")
        files = [file for file in files if (project.root / file).is_file()]
    found = {}
    for file in files:
        parts = file.split("/")
        for end in range(1, len(parts)):
            found.setdefault("/".join(parts[: end - 1]), set()).add(parts[end - 1])
    return {folder: tuple(sorted(names)) for folder, names in found.items()}


def agree(project, chance):
    project.write(".gitignore", "*.o\n")
    project.write("crates/a/x", "x")
    project.commit()
    for _ in range(6):
        for _ in range(chance.randrange(1, 6)):
            edit(project, chance)
        with Repository(project.root, project.environ) as repo:
            # At times everything is open, and no path is told.
            judged = change.resolve(repo, base=chance.choice([None, "main", "nowhere"]), environ={})
            here, committed = sources.head_folders(repo, judged), sources.commit_folders(repo, "HEAD")
            for expected, folders in ((listed_by_git(project), here), (listed_by_git(project, "HEAD"), committed)):
                for folder in ("", "crates", *(f"crates/{name}" for name in "abcd"), "crates/a/in"):
                    assert folders(folder) == expected.get(folder, ()), folder


@pytest.mark.parametrize("seed", range(6))
def test_folders_of_random_working_trees(project, seed):
    agree(project, random.Random(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_folders_of_many_random_working_trees(project, seed):
    agree(project, random.Random(seed))


def gate(project, *words, **environ):
    output = project.root.parent / "output"
    output.write_text("")
    answer = cli.answer_to(parse(words, environ), project.root, project.environ)
    cli._append_outputs(answer, {"GITHUB_OUTPUT": str(output)})
    return answers.as_data(answer), output.read_text()


def test_the_gate_lists_them_for_a_matrix(crates):
    crates.write("crates/a/src/lib.rs", "changed")
    data, output = gate(crates)
    assert [(lane["name"], lane["decision"], lane["each"]) for lane in data["lanes"]] == [
        ("ws-a", "run", {"group": "ws", "name": "a", "path": "crates/a"}),
        ("ws-b", "skip", {"group": "ws", "name": "b", "path": "crates/b"}),
        ("all", "run", None),
    ]
    assert output == 'run=true\nlanes=["ws-a","ws-all"]\n'.replace("ws-all", "all")
    for word in ("ws", "ws-*", "w*"):
        data, output = gate(crates, "--lane", word)
        assert [lane["name"] for lane in data["lanes"]] == ["ws-a", "ws-b"]
        assert output == 'run=true\nlanes=["ws-a"]\n'
    assert Decision.RUN.value == "run"


@pytest.mark.parametrize(
    ("words", "ran"),
    [((), ["a", "all"]), (("ws",), ["a", "b"]), (("ws-*",), ["a", "b"]), (("ws-b",), ["b"]), (("ws:command",), ["a", "b"])],
)
def test_doit_runs_them_by_touch_by_group_and_by_name(crates, words, ran):
    crates.write("crates/a/src/lib.rs", "changed")
    done = crates.doit(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    marks = crates.root.parent / "marks"
    assert sorted(marks.read_text().split()) == ran


def test_doit_lanes_and_why(crates):
    crates.write("crates/a/src/lib.rs", "changed")
    data = json.loads(crates.doit("lanes", "--json").stdout)
    assert [lane["each"] for lane in data["lanes"]][:1] == [{"group": "ws", "name": "a", "path": "crates/a"}]
    shown = crates.doit("lanes", "why", "ws-b").stdout
    assert "SKIP" in shown
    assert "tasks/lanes.yml:3:3, for the folder crates/b" in shown
    for word in ("ws", "ws-*"):
        both = crates.doit("lanes", "why", word)
        assert both.returncode == 0, both.stderr
        assert [text.partition("\n")[0] for text in both.stdout.split("\n\n")] == ["ws-a: RUN", "ws-b: SKIP"]
        data = json.loads(crates.doit("lanes", "why", word, "--json").stdout)
        assert [lane["name"] for lane in data["lanes"]] == ["ws-a", "ws-b"]
    refused = crates.doit("lanes", "why", "w-*")
    assert (refused.returncode, refused.stderr) == (3, "ERROR: no lane matches 'w-*'\n")


def test_own_tasks_may_depend_on_the_group_and_the_list_shows_it(crates):
    dodo = "def task_release():\n    return {'actions': ['echo released >> $MARKS'], 'task_dep': ['ws']}\n"
    crates.write("dodo.py", dodo)
    crates.write("docs/a.md", "changed")
    done = crates.doit("release")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (crates.root.parent / "marks").read_text().split()[-1] == "released"
    assert sorted((crates.root.parent / "marks").read_text().split()) == ["a", "b", "released"]
    shown = crates.doit("list").stdout.splitlines()
    assert [line.split()[0] for line in shown] == [
        "all", "all:command", "release", "ws", "ws-a", "ws-a:command", "ws-b", "ws-b:command",
    ]  # fmt: skip
    crates.write("dodo.py", dodo.replace("release", "ws").replace("['ws']", "['all']"))
    refused = crates.doit()
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "tasks/lanes.yml:3:3: the lane 'ws' has the name of a task in dodo.py; rename one" in refused.stderr


def test_a_lane_that_a_change_takes_out_of_its_suite_runs_once_more(crates):
    """Else head could narrow a lane and break it, in one change, unseen."""
    text = (crates.root / "tasks/lanes.yml").read_text()
    crates.write(
        "tasks/lanes.yml", text.replace("    about:", "    suites: [full]\n    about:").replace("echo {name}", "false")
    )
    for act in (lambda: None, crates.commit):
        act()
        done = crates.doit("--device", "emulated")
        assert done.returncode == 1
        shown = crates.doit("lanes").stdout
        assert "(in the suite smoke by the base branch's tip alone: head keeps the lane for full)" in shown
    crates.git("checkout", "-q", "main")
    crates.git("merge", "-q", "work")
    crates.git("checkout", "-q", "-b", "next")
    crates.write("crates/a/src/lib.rs", "changed")
    assert crates.doit().returncode == 0

"""Shadow mode: which lanes are chosen, what a failure says, and a run in a real repository."""

from __future__ import annotations

import doctest
import json
from xml.etree import ElementTree as ET

import pytest
from doit.exceptions import InvalidCommand
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Project
from touchgate.edge import shadow
from touchgate.edge.options import from_params
from touchgate.edge.shadow import as_pattern, choose, draw, suspects
from touchgate.gate.change import Judged
from touchgate.gate.declarations import read_lanes
from touchgate.gate.declared import Declared
from touchgate.gate.model import Change, TouchedPath
from touchgate.gate.patterns import PatternList
from touchgate.gate.plan import plan


def rate(given: object, tmp_path) -> float:
    return from_params({"shadow": given}, [], tmp_path, jobs=1).shadow


@pytest.mark.parametrize(
    ("given", "expected"),
    [("", 0), (None, 0), ("0", 0), ("0.25", 0.25), ("25%", 0.25), (" 1 ", 1), ("100%", 1), (0.5, 0.5), (1, 1), ("1e-1", 0.1)],
)
def test_a_rate(given, expected, tmp_path):
    assert rate(given, tmp_path) == expected


@pytest.mark.parametrize("given", ["-0.1", "1.01", "101%", "nan", "nan%", "inf", "half", "%", "10 % of all", True, [1]])
def test_what_is_no_rate(given, tmp_path):
    with pytest.raises(InvalidCommand) as refused:
        rate(given, tmp_path)
    text = str(given)
    assert str(refused.value) == (f"shadow: {text!r} is no rate; one is a number from 0 to 1, or a percentage such as 10%")


def test_the_draw_is_spread_and_repeated():
    numbers = [draw(f"{commit:040x}", f"lane{lane}") for commit in range(200) for lane in range(20)]
    assert numbers == [draw(f"{commit:040x}", f"lane{lane}") for commit in range(200) for lane in range(20)]
    assert all(0 <= number < 1 for number in numbers)
    # Ten equal parts of 4000 draws: each holds 400 with a standard deviation of 19.
    parts = [sum(tenth / 10 <= number < (tenth + 1) / 10 for number in numbers) for tenth in range(10)]
    assert all(300 < part < 500 for part in parts)


def test_the_draw_is_what_the_docs_say():
    """sha256 of head, a zero byte and the lane's name: its first 53 bits as a fraction."""
    assert draw("", "") == pytest.approx(0x6E340B9CFFB37A98 / 2**64, abs=2**-52)


def touched(*paths: str) -> list[TouchedPath]:
    return [TouchedPath(path, "M") for path in paths]


LONG = touched(*(f"p/{number}.txt" for number in range(30)))


@pytest.mark.parametrize(
    ("paths", "inputs", "said", "taken_back", "expected"),
    [
        ([], ["a"], "a", None, []),
        (touched("a.txt", "b.txt"), [], "", None, [("a.txt", ""), ("b.txt", "")]),
        (touched("data/x/1.bin", "b.txt"), ["data"], "b.txt", None, [("data/x/1.bin", "an input of the check")]),
        (touched("database/1.bin", "b.txt"), ["data"], "", None, [("database/1.bin", ""), ("b.txt", "")]),
        (touched("a/long.h", "b.txt"), [], "x.c:3: error in long.h:7", None, [("a/long.h", "named in what it printed")]),
        (touched("a/long.h", "b.txt"), [], "see along.h and long.hpp, long.h.in", None, [("a/long.h", ""), ("b.txt", "")]),
        (touched("a/long.h", "b"), [], "b b b", None, [("b", "named in what it printed")]),
        (touched("q/b", "c"), [], "b b b", None, [("q/b", ""), ("c", "")]),
        (touched("a", "b"), [], "", "b", [("b", "a pattern of the lane takes it back")]),
        (LONG, [], "", None, [(one.path, "") for one in LONG[:20]]),
    ],
)  # fmt: skip
def test_suspects(paths, inputs, said, taken_back, expected):
    found = suspects(paths, inputs, said, taken_back)
    assert [(one.path, one.why) for one in found] == expected
    assert all(one.pattern == (None if one.path == taken_back else one.path) for one in found)


@given(st.text(st.characters(exclude_characters="\0\n", codec="utf-8"), min_size=1, max_size=12), st.text(max_size=12))
def test_the_suggested_pattern_matches_that_path_and_no_other(path, other):
    pattern = as_pattern(path)
    assert pattern is not None
    text = json.loads(pattern) if pattern.startswith('"') else pattern
    assert PatternList([text]).decides(path) == 0
    assert other == path or PatternList([text]).decides(other) is None


def test_the_examples_are_true():
    failed, tried = doctest.testmod(shadow)
    assert (failed, tried) == (0, 1)


def test_no_pattern_for_bytes_that_yaml_cannot_spell():
    assert as_pattern("a\udcff") is None


def lane(name: str, path: str, **fields: object) -> str:
    extra = "".join(f", {key}: {value}" for key, value in fields.items())
    return f"  {name}: {{paths: [{path}], checks: [{{command: x}}]{extra}}}\n"


def chosen(head: str, base: str, paths: list[str], rate: float = 1.0, suite: str = "smoke", **change: object) -> set[str]:
    """What is chosen of lanes that head and base declare."""
    lanes, before = (read_lanes({"tasks/l.yml": f"lanes:\n{text}".encode()}) for text in (head, base))
    made = Change("b" * 40, "a" * 40, "b" * 40, "proof", "", "", False, tuple(touched(*paths)), **change)
    declared = Declared(Judged(made), lanes, before)
    return set(choose(declared, plan(lanes, before, made, suite), rate))


def test_only_lanes_that_the_change_leaves_untouched_are_chosen():
    both = lane("a", "a/**") + lane("b", "b/**") + lane("late", "x/**", suites="[full]")
    lite = lane("c", "c/**", needs="{lite: [a]}") + lane("p", "p/**", suites="[performance]", needs="{lite: [a]}")
    assert chosen(both + lite, both + lite, ["docs/x"]) == {"a", "b", "c"}
    assert chosen(both + lite, both + lite, ["docs/x"], suite="full") == {"a", "b", "c", "late", "p"}
    # p is skipped though it is touched: its suite is larger than what the need asks for.
    assert chosen(both + lite, both + lite, ["a/x"], suite="performance") == {"b"}
    assert chosen(both, both + lane("gone", "g/**"), ["docs/x"]) == {"a", "b"}
    assert chosen(both, both, []) == {"a", "b"}
    assert chosen(both, both, ["docs/x"], 0.0) == set()
    assert chosen(both, both, [], open_reason="can't be told") == set()


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_higher_rate_chooses_the_same_lanes_and_more(one, other):
    lanes = "".join(lane(f"l{number}", f"p{number}/**") for number in range(12))
    less, more = (chosen(lanes, lanes, ["docs/x"], rate) for rate in sorted((one, other)))
    assert less <= more


# ---- real runs


LANES = """\
lanes:
  reader:
    about: reads what its paths forgot
    paths: [src/**]
    checks:
      - command: grep -q good "$(printf sha)red/data.txt" || { echo "$(printf sha)red/data.txt is not good"; exit 1; }
  other:
    about: does not
    paths: [lib/**]
    checks:
      - command: 'true'
"""


@pytest.fixture
def forgetful(project: Project) -> Project:
    """A lane that depends on shared/data.txt, which no pattern of it names."""
    project.git("checkout", "-q", "main")
    project.write("tasks/lanes.yml", LANES)
    project.write("shared/data.txt", "good\n")
    project.commit("a lane that forgot a path")
    project.git("checkout", "-q", "-B", "work")
    return project


def run(project: Project, *options: str, **environ: str) -> tuple[int, str, dict]:
    folder = project.root.parent / "report"
    done = project.doit("--report-dir", str(folder), *options, environ=environ)
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stdout + done.stderr, json.loads((folder / "result.json").read_text())


def test_a_false_skip_is_found_and_loud(forgetful: Project) -> None:
    forgetful.write("shared/data.txt", "bad\n")
    forgetful.write("docs/a.md", "b\n")
    forgetful.commit("a break that no lane sees")
    code, out, data = run(forgetful)
    assert (code, data["checks"], data["false_skips"]) == (0, [], [])
    page = forgetful.root.parent / "page.md"
    assert "shadow" not in forgetful.doit("results").stdout
    forge = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(page)}
    code, out, data = run(forgetful, "--base", "main", "--shadow", "1", **forge)
    assert code == 1
    assert [(lane["name"], lane["decision"], lane["shadow"]) for lane in data["lanes"]] == [
        ("other", "skip", True),
        ("reader", "skip", True),
    ]
    assert [(check["name"], check["verdict"], check["shadow"]) for check in data["checks"]] == [
        ("other:command", "passed", True),
        ("reader:command", "failed", True),
    ]
    assert data["shadow_rate"] == 1
    (skip,) = data["false_skips"]
    assert skip == {
        "lane": "reader",
        "check": "reader:command",
        "where": "tasks/lanes.yml:2:3",
        "suspects": [{"path": "shared/data.txt", "why": "named in what it printed", "pattern": "shared/data.txt"}],
        "touched": 2,
        "earlier": None,
    }
    base = forgetful.git("rev-parse", "--short=7", "main")
    told = [
        "FALSE SKIP  lane reader was to be skipped, and reader:command fails",
        "   touched, and no pattern of the lane lets it through: shared/data.txt  (named in what it printed)",
        "   most likely this is missing in `paths` of the lane at tasks/lanes.yml:2:3: shared/data.txt",
        f"   or it fails without this change, too: check out the merge base {base} and run `doit --fresh reader:command`",
    ]
    assert "\n".join(told) in out
    assert "2 lanes untouched, and run all the same to test that (shadow): reader, other" in out
    assert "1 lane skipped wrongly, exit 1" in out
    assert (
        "::error file=tasks/lanes.yml,line=6,col=9,title=FALSE SKIP%3A reader%3Acommand%3A FAILED (shadow)::FALSE SKIP  lane"
        in out
    )
    assert "#### FALSE SKIP  lane reader was to be skipped, and reader:command fails" in page.read_text()
    shown = forgetful.doit("results").stdout
    assert "\n  failed (shadow)     reader:command  " in shown
    assert shown.endswith("skipped wrongly, as the shadow run found: reader; `doit lanes stats` counts them\n")
    suites = {suite.get("name"): suite for suite in ET.parse(forgetful.root.parent / "report/junit.xml").getroot()}
    assert (suites["reader"].get("failures"), suites["other"].get("skipped")) == ("1", "0")
    assert suites["reader"][0][0].get("message").startswith("its lane was to be skipped: ")


def test_an_earlier_pass_of_the_same_files_does_not_stand_for_a_shadow(forgetful: Project) -> None:
    """The key holds what the paths name: reusing it would ask the same list twice."""
    assert run(forgetful, "reader")[0] == 0
    forgetful.write("shared/data.txt", "bad\n")
    code, out, data = run(forgetful, "--shadow", "100%")
    assert code == 1
    assert [(check["verdict"], check["cached"]) for check in data["checks"] if check["lane"] == "reader"] == [
        ("failed", False)
    ]
    assert data["false_skips"][0]["earlier"] is not None
    assert "with the same files of its lane: what broke it lies outside of these" in out
    # A failure takes the place of the pass: the lane by its name is not green from memory.
    assert run(forgetful, "reader")[0] == 1


def test_a_shadow_that_agrees_is_green_and_said(forgetful: Project) -> None:
    forgetful.write("docs/a.md", "b\n")
    code, out, data = run(forgetful, TOUCHGATE_SHADOW="1")
    assert (code, data["false_skips"]) == (0, [])
    assert "2 checks: 2 passed (shadow) in " in out


def test_the_same_head_chooses_the_same_lanes(forgetful: Project) -> None:
    forgetful.write("docs/a.md", "b\n")
    head = forgetful.commit()
    rate = (draw(head, "reader") + draw(head, "other")) / 2
    chosen = "reader" if draw(head, "reader") < rate else "other"
    for _ in range(2):
        data = run(forgetful, "--shadow", str(rate))[2]
        assert [check["lane"] for check in data["checks"]] == [chosen]


def test_what_is_not_skipped_for_the_change_is_no_shadow(forgetful: Project) -> None:
    """A name, --all, and a lane of a larger suite leave nothing to test."""
    lanes = LANES.replace("    paths: [lib/**]\n", "    paths: [lib/**]\n    suites: [full]\n")
    forgetful.git("checkout", "-q", "main")
    forgetful.write("tasks/lanes.yml", lanes)
    forgetful.commit()
    forgetful.git("checkout", "-q", "-B", "work")
    forgetful.write("docs/a.md", "b\n")
    assert [check["lane"] for check in run(forgetful, "--shadow", "1")[2]["checks"]] == ["reader"]
    named = run(forgetful, "--shadow", "1", "reader")[2]
    assert [(lane["name"], lane["shadow"]) for lane in named["lanes"]] == [("other", False), ("reader", False)]
    everything = run(forgetful, "--shadow", "1", "--all")[2]
    assert {check["shadow"] for check in everything["checks"]} == {False}


def test_a_shadow_that_measures_nothing_fails_nothing(forgetful: Project) -> None:
    forgetful.git("checkout", "-q", "main")
    forgetful.write("tasks/lanes.yml", LANES.replace("'true'", "exit 77"))
    forgetful.commit()
    forgetful.git("checkout", "-q", "-B", "work")
    forgetful.write("docs/a.md", "b\n")
    code, _, data = run(forgetful, "--shadow", "1")
    assert (code, data["counts"]["unmeasured"], data["false_skips"]) == (0, 1, [])


def test_a_wrong_rate_is_refused(forgetful: Project) -> None:
    done = forgetful.doit("--shadow", "2")
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "shadow: '2' is no rate" in done.stderr


@pytest.mark.parametrize("words", [("--shadow", ""), ("run", "--base", ""), ("",), ("lanes", "why", "")])
def test_an_empty_word_is_refused(forgetful: Project, words: tuple[str, ...]) -> None:
    done = forgetful.doit(*words)
    said = "ERROR: a word of the command line is empty; give the option its value, or leave it out\n"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", said)


def test_an_untouched_run_without_a_chosen_lane_loads_nothing_heavy(forgetful: Project) -> None:
    forgetful.write("docs/a.md", "b\n")
    done = forgetful.doit("--shadow", "1e-9", environ={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert loaded & {"numpy", "filelock", "git", "touchgate.checks.worker", "touchgate.results.tools"} == set()


# ---- the rate over time


def statistics(project: Project) -> dict:
    done = project.doit("lanes", "stats", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_each_run_is_recorded_and_added_up(forgetful: Project) -> None:
    assert statistics(forgetful)["total"]["runs"] == 0
    forgetful.write("docs/a.md", "b\n")
    forgetful.doit()  # untouched: two skips
    forgetful.write("src/a.txt", "b\n")
    forgetful.doit()  # reader runs
    forgetful.doit()  # and is known
    forgetful.doit("other")  # by its name: of reader nothing is decided
    forgetful.write("src/a.txt", "a\n")
    forgetful.doit("--shadow", "1")  # both agree
    forgetful.write("shared/data.txt", "bad\n")
    forgetful.doit("--shadow", "1")  # reader is skipped wrongly
    forgetful.doit("nolane")  # no run
    found = statistics(forgetful)
    counts = {
        one["name"]: tuple(one[key] for key in ("runs", "ran", "reused", "skipped", "shadowed", "false_skips"))
        for one in found["lanes"]
    }
    assert counts == {"other": (6, 1, 0, 5, 2, 0), "reader": (5, 1, 1, 3, 2, 1)}
    assert (found["total"]["runs"], len(found["weeks"]), found["lost_lines"]) == (6, 1, 0)
    shown = forgetful.doit("lanes", "stats").stdout
    assert "6 runs from " in shown
    assert "false skips: 1 of 2 tested, a commit and a lane counted once; the rate is at most 97.47%" in shown


def test_looking_is_not_recorded(forgetful: Project) -> None:
    for words in (["lanes"], ["touched"], ["lanes", "stats"], ["list"]):
        assert forgetful.doit(*words).returncode == 0
    assert statistics(forgetful)["total"]["runs"] == 0


def test_without_a_place_for_the_history_one_note_says_so(forgetful: Project) -> None:
    results = forgetful.root.parent / "results"
    forgetful.write("docs/a.md", "b\n")
    environ = {"TOUCHGATE_RESULTS_DIR": str(results)}
    forgetful.doit(environ=environ)
    (history,) = results.glob("repositories/*/history.jsonl")
    history.unlink()
    history.mkdir()
    done = forgetful.doit(environ=environ)
    assert done.returncode == 0
    note = f"note: this run is not in the history for `doit lanes stats`: {history} can't be written: Is a directory\n"
    assert done.stdout.count(note) == 1
    done = forgetful.doit("lanes", "stats", environ=environ)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"ERROR: {history} is not a file\n"


def test_lanes_that_cannot_be_read_do_not_hide_the_statistics(forgetful: Project) -> None:
    forgetful.write("docs/a.md", "b\n")
    forgetful.doit()
    forgetful.write("tasks/lanes.yml", "lanes: [")
    done = forgetful.doit("lanes", "stats", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["total"]["skipped"] == 2
    assert done.stderr.startswith("note: the lanes can't be read, so lanes that never ran save nothing here: tasks/lanes.yml")

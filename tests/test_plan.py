"""What runs and why: tables over the pure decision."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.gate.declarations import read_lanes
from touchgate.gate.model import SUITES, Change, Decision, Nearest, TouchedPath
from touchgate.gate.patterns import PatternList
from touchgate.gate.plan import UnknownName, in_suites_of_both, plan, runs_in

LANES = """
    lanes:
      common:
        paths: [kernels/common/**]
        checks: [command: x]
      gemv:
        paths: [kernels/gemv/**, "!**/*.md"]
        needs: [common]
        checks: [command: x]
      model:
        paths: [models/**]
        needs: [{lite: [gemv]}]
        checks: [command: x]
      nightly:
        paths: [nightly/**]
        needs: [model]
        suites: [full]
        checks: [command: x]
"""


def lanes(source: str = LANES, file: str = "tasks/k.yml"):
    return read_lanes({file: textwrap.dedent(source).lstrip("\n").encode()})


def change(*paths: str, open_reason: str | None = None) -> Change:
    touched = tuple(
        TouchedPath(path.partition(" ")[2] or path, path.partition(" ")[0] if " " in path else "M") for path in paths
    )
    return Change("b" * 40, "a" * 40, "c" * 40, "", "", "", False, touched, open_reason)


def decided(*paths: str, head=None, base=None, open_reason=None, **more) -> list[str]:
    made = plan(lanes() if head is None else head, base, change(*paths, open_reason=open_reason), **more)
    return [f"{one.lane} {one.decision.value} {one.suite}: {one.reason}" for one in made.lanes]


def running(*paths: str, **more) -> dict[str, str]:
    more.setdefault("head", lanes())
    head = more.pop("head")
    return {one.lane: one.suite for one in plan(head, more.pop("base", None), change(*paths), **more).running}


def test_a_touched_lane_and_those_that_need_it():
    assert decided("D docs/a", "M kernels/common/c.h", suite="performance") == [
        "common run performance: kernels/common/c.h (M) matches kernels/common/** at tasks/k.yml:3:13",
        (
            "gemv run performance: needs common (tasks/k.yml:7:13): kernels/common/c.h (M) matches kernels/common/** "
            "at tasks/k.yml:3:13"
        ),
        (
            "model run smoke: needs gemv for smoke only (tasks/k.yml:11:21), which needs common (tasks/k.yml:7:13): "
            "kernels/common/c.h (M) matches kernels/common/** at tasks/k.yml:3:13"
        ),
        (
            "nightly skip smoke: not in the suite smoke; it belongs to full (touched: needs model (tasks/k.yml:15:13), "
            "which needs gemv for smoke only (tasks/k.yml:11:21), which needs common (tasks/k.yml:7:13): "
            "kernels/common/c.h (M) matches kernels/common/** at tasks/k.yml:3:13)"
        ),
    ]


def test_a_run_carries_what_fired():
    made = plan(lanes(), None, change("kernels/common/c.h"))
    common, gemv = made.by_name["common"], made.by_name["gemv"]
    assert (common.path, common.pattern.text) == ("kernels/common/c.h", "kernels/common/**")
    assert (gemv.path, gemv.pattern) == (common.path, common.pattern)


def test_a_direct_touch_beats_lite():
    paths = ("kernels/gemv/a.cu", "models/m.py")
    assert running(*paths, suite="full") == {"gemv": "full", "model": "full", "nightly": "full"}
    assert running("kernels/gemv/a.cu", suite="full") == {"gemv": "full", "model": "smoke"}


def test_a_whole_need_beats_lite_by_another_way():
    source = """
        lanes:
          a: {paths: [a], checks: [command: x]}
          b: {paths: [b], needs: [{lite: [a]}], checks: [command: x]}
          c: {paths: [c], needs: [b, a], checks: [command: x]}
          d: {paths: [d], needs: [c, {lite: [b]}], checks: [command: x]}
    """
    assert running("a", head=lanes(source), suite="full") == {"a": "full", "b": "smoke", "c": "full", "d": "full"}


def test_skips_with_their_proof():
    assert decided("kernels/gemm.cu", "kernels/x/y", "README.md", "A a b") == [
        "common skip smoke: none of 4 touched paths matches; nearest: kernels/common/** (tasks/k.yml:3:13)",
        "gemv skip smoke: none of 4 touched paths matches; nearest: kernels/gemv/** (tasks/k.yml:6:13)",
        "model skip smoke: none of 4 touched paths matches",
        "nightly skip smoke: none of 4 touched paths matches",
    ]
    made = plan(lanes(), None, change("kernels/gemm.cu", "kernels/x/y"))
    gemv = made.by_name["gemv"]
    assert (gemv.path, gemv.pattern, gemv.nearest) == (None, None, Nearest("kernels/gemm.cu", lanes()["gemv"].paths[0]))
    assert made.running == ()


def test_a_skip_of_one_path_and_of_none():
    assert decided("README.md")[0] == "common skip smoke: the one touched path does not match"
    assert decided()[0] == "common skip smoke: no path is touched"


def test_a_skip_that_a_negative_made():
    assert decided("docs/a", "kernels/gemv/a.md")[1] == (
        "gemv skip smoke: none of 2 touched paths matches; kernels/gemv/a.md (M) matches kernels/gemv/** "
        "(tasks/k.yml:6:13) but !**/*.md (tasks/k.yml:6:30) takes it back"
    )


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"open_reason": "no merge base"}, "no merge base"),
        ({"due": "on the default branch everything is due"}, "on the default branch everything is due"),
        ({"everything": True}, "asked for with --all"),
        ({"everything": True, "open_reason": "x", "due": "y"}, "asked for with --all"),
        ({"open_reason": "x", "due": "y"}, "x"),
    ],
)
def test_everything_runs(more, reason):
    assert decided(**more) == [
        f"common run smoke: {reason}",
        f"gemv run smoke: {reason}",
        f"model run smoke: {reason}",
        "nightly skip smoke: not in the suite smoke; it belongs to full",
    ]


def test_names_run_and_nothing_else():
    assert decided("kernels/common/c.h", names=("gemv:kernel", "nightly"), everything=True, open_reason="x") == [
        "common skip smoke: not named",
        "gemv run smoke: named on the command line",
        "model skip smoke: not named",
        "nightly run full: named on the command line",
    ]


def test_unknown_names():
    with pytest.raises(UnknownName, match=r"^no lane 'gemm'; did you mean 'gemv'\?$"):
        plan(lanes(), None, change(), names=["gemm:kernel"])
    with pytest.raises(UnknownName, match=r"^no suite 'smok'; suites are smoke, performance, full$"):
        plan(lanes(), None, change(), suite="smok")


def test_a_lane_file_touches_its_own_lanes_only():
    one = {
        "tasks/a.yml": b"lanes: {a: {paths: [x], checks: [command: x]}, b: {paths: [y], checks: [command: x]}}",
        "tasks/c.yml": (
            b"lanes: {c: {paths: [tasks/z], checks: [command: x]}, d: {paths: [x], needs: [b], checks: [command: x]}}"
        ),
    }
    assert decided("M tasks/a.yml", head=read_lanes(one)) == [
        "a run smoke: tasks/a.yml (M) declares the lane at tasks/a.yml:1:9",
        "b run smoke: tasks/a.yml (M) declares the lane at tasks/a.yml:1:48",
        "c skip smoke: the one touched path does not match; nearest: tasks/z (tasks/c.yml:1:21)",
        "d run smoke: needs b (tasks/c.yml:1:78): tasks/a.yml (M) declares the lane at tasks/a.yml:1:48",
    ]


def test_a_workflow_that_holds_the_paths_declares_the_lane():
    source = {"tasks/a.yml": b"lanes: {a: {paths: {workflow: w.yml}, checks: [command: x]}}"}
    head = read_lanes(source, read_file={"w.yml": b"on: {push: {paths: [k/**]}}"}.get)
    assert decided("M w.yml", head=head) == ["a run smoke: w.yml (M) declares the lane at tasks/a.yml:1:9"]


def test_a_pattern_that_head_removed_or_main_gained_still_fires():
    head = lanes("lanes: {a: {paths: [x/**], checks: [command: x]}, b: {paths: [z], checks: [command: x]}}")
    base = lanes("lanes: {a: {paths: [x/**, y/**], needs: [b], checks: [command: x]}, b: {paths: [z], checks: [command: x]}}")
    assert decided("D y/1", head=head, base=base)[0] == (
        "a run smoke: y/1 (D) matches y/** at tasks/k.yml:1:27 of the base branch's tip"
    )
    assert running("z", head=head, base=base) == {"a": "smoke", "b": "smoke"}, "a need that only the base declares"
    assert running("z", head=head) == {"b": "smoke"}


def test_a_negative_that_head_added_does_not_hide_a_path():
    head = lanes("lanes: {a: {paths: [x/**, '!x/y'], checks: [command: x]}}")
    base = lanes("lanes: {a: {paths: [x/**], checks: [command: x]}}")
    assert running("x/y", head=head, base=base) == {"a": "smoke"}
    assert running("x/y", head=base, base=head) == {"a": "smoke"}


def test_a_lane_that_only_the_base_declares():
    head = lanes("lanes: {a: {paths: [x], needs: [], checks: [command: x]}}")
    base = lanes("lanes: {a: {paths: [x], needs: [old], checks: [command: x]}, old: {paths: [o/**], checks: [command: x]}}")
    assert decided("q", head=head, base=base)[1] == "old skip smoke: only the base branch's tip declares it"
    assert decided("o/1", head=head, base=base) == [
        "a run smoke: needs old (tasks/k.yml:1:33): o/1 (M) matches o/** at tasks/k.yml:1:76 of the base branch's tip",
        ("old skip smoke: o/1 (M) matches o/** at tasks/k.yml:1:76 of the base branch's tip, but head removed the lane"),
    ]
    assert decided(head=head, base=base, everything=True)[1] == "old skip smoke: only the base branch's tip declares it"
    assert decided(head=head, base=base, names=["a"])[1] == "old skip smoke: not named"


def test_a_lane_that_the_base_gained_runs_where_it_is_touched_and_in_its_suites_only():
    head = lanes("lanes: {a: {paths: [x], checks: [command: x]}}")
    base = lanes(
        "lanes: {a: {paths: [x], checks: [command: x]}, new: {paths: [o/**], checks: [command: x]},"
        " by: {paths: [p], needs: [a], checks: [command: x]}, late: {paths: [o/**], suites: [full], checks: [command: x]}}"
    )
    gained = {"new", "by", "late"}
    cure = "but head does not declare the lane yet: merge the base branch to run it"
    assert decided("o/1", head=head, base=base, gained=gained)[1:] == [
        f"new run smoke: o/1 (M) matches o/** at tasks/k.yml:1:62 of the base branch's tip, {cure}",
        "by skip smoke: only the base branch's tip declares it",
        (
            "late skip smoke: not in the suite smoke; it belongs to full "
            "(touched: o/1 (M) matches o/** at tasks/k.yml:1:159 of the base branch's tip)"
        ),
    ]
    assert decided("x", head=head, base=base, gained=gained)[2] == (
        f"by run smoke: needs a (tasks/k.yml:1:117): x (M) matches x at tasks/k.yml:1:21, {cure}"
    )
    assert running("o/1", head=head, base=base, suite="full", gained=gained) == {"new": "full", "late": "full"}
    assert running("o/1", head=head, base=base, gained=gained, everything=True) == {"a": "smoke"}


def test_a_lane_that_only_head_declares_runs_with_its_file():
    base = lanes("lanes: {a: {paths: [x], checks: [command: x]}}")
    head = lanes("lanes: {a: {paths: [x], checks: [command: x]}, b: {paths: [y], checks: [command: x]}}")
    assert running("A tasks/k.yml", head=head, base=base) == {"a": "smoke", "b": "smoke"}


def test_odd_names_are_matched():
    head = lanes("lanes: {a: {paths: [k/**], checks: [command: x]}}")
    for name in ("k/a b.cu", "k/é.cu", "k/caf\udce9.cu", "k/new\nline", 'k/"quoted"', "k/tab\t"):
        assert running(f"M {name}", head=head) == {"a": "smoke"}


def test_suites_grow():
    table = {
        ("smoke", ("smoke",)): True,
        ("smoke", ("performance",)): False,
        ("smoke", ("full",)): False,
        ("performance", ("smoke",)): True,
        ("performance", ("performance",)): True,
        ("performance", ("full",)): False,
        ("full", ("smoke",)): True,
        ("full", ("performance",)): True,
        ("full", ("full",)): True,
        ("full", ()): False,
    }
    assert {key: runs_in(*key) for key in table} == table


NARROWED = """
    lanes:
      k: {paths: [k/**], suites: [full], checks: [command: x]}
"""
WIDE = NARROWED.replace("[full]", "[smoke, full]")


def test_suites_that_head_narrowed_count_once_more():
    """The lane's own edit touches it, and the suites of the base branch's tip still hold: the break is seen."""
    told = "(in the suite smoke by the base branch's tip alone: head keeps the lane for full)"
    both = {"head": lanes(NARROWED), "base": lanes(WIDE)}
    assert decided("M tasks/k.yml", **both) == [f"k run smoke: tasks/k.yml (M) declares the lane at tasks/k.yml:2:3 {told}"]
    assert decided("M k/a", **both) == [f"k run smoke: k/a (M) matches k/** at tasks/k.yml:2:15 {told}"]
    assert decided("M q", **both)[0].startswith("k skip smoke: the one touched path does not match")
    assert decided("M k/a", suite="full", **both) == ["k run full: k/a (M) matches k/** at tasks/k.yml:2:15"]
    assert decided("q", open_reason="no base", **both) == [f"k run smoke: no base {told}"]
    assert decided(names=["k"], **both) == [f"k run smoke: named on the command line {told}"]


def test_suites_that_head_widened_and_those_of_both_sides():
    assert decided("M k/a", head=lanes(WIDE), base=lanes(NARROWED)) == [
        "k run smoke: k/a (M) matches k/** at tasks/k.yml:2:15"
    ]
    head, base = lanes(NARROWED), lanes(WIDE)
    assert in_suites_of_both(head, base)["k"].suites == ("smoke", "full")
    assert in_suites_of_both(base, head) is base
    assert in_suites_of_both(head, head) is head
    assert in_suites_of_both(head, None) is head
    assert in_suites_of_both(head, {}) is head


NAMES = ["a", "b", "c", "d", "e"]
PATTERN = st.sampled_from(["x/**", "y/**", "x/1", "**/2", "!x/1", "!y/**", "z"])
PATHS = st.lists(st.sampled_from(["x/1", "x/2", "y/1", "y/2", "z", "q", "tasks/k.yml"]), max_size=4, unique=True)


@st.composite
def declared(draw):
    """Lanes whose needs lead to earlier lanes only, so that there is no circle."""
    source = "lanes:\n  first: {paths: [never], checks: [command: x]}\n"
    for place, name in enumerate(NAMES):
        if not draw(st.booleans()):
            continue
        patterns = [f"'{pattern}'" for pattern in ["w", *draw(st.lists(PATTERN, max_size=3))]]
        earlier = [other for other in NAMES[:place] if f"  {other}:" in source and draw(st.booleans())]
        needs = [f"{{lite: [{other}]}}" if draw(st.booleans()) else other for other in earlier]
        suites = draw(st.lists(st.sampled_from(SUITES), min_size=1, unique=True))
        source += f"  {name}:\n    checks: [command: x]\n"
        for key, values in (("paths", patterns), ("needs", needs), ("suites", suites)):
            source += f"    {key}: [{', '.join(values)}]\n"
    return lanes(source)


@given(declared(), declared() | st.none(), PATHS, st.sampled_from(SUITES))
def test_the_plan_agrees_with_a_plain_reading_of_the_rules(head, base, paths, suite):
    """The rules once more, as a fixed point over sets: slow and short."""
    both = [(name, lane) for side in (head, base or {}) for name, lane in side.items()]
    whole = {
        name
        for name, lane in both
        if lane.at.file in paths or PatternList([p.text for p in lane.paths]).touches(paths) is not None
    }
    lite: set[str] = set()
    for _ in both:
        whole |= {name for name, lane in both for need in lane.needs if need.suite is None and need.lane in whole}
    for _ in both:
        lite |= {name for name, lane in both for need in lane.needs if need.lane in whole | lite}
    expected = {}
    for name, lane in head.items():
        effective = suite if name in whole else "smoke" if name in lite else None
        suites = {*lane.suites, *(base[name].suites if base and name in base else ())}
        if effective and runs_in(effective, suites):
            expected[name] = effective
    made = plan(head, base, change(*paths), suite)
    assert {one.lane: one.suite for one in made.running} == expected
    assert list(made.by_name) == [*head, *(name for name in base or {} if name not in head)]
    assert all(one.reason for one in made.lanes)
    assert all(one.decision is Decision.SKIP for one in made.lanes if one.lane not in expected)


def test_cost_is_not_lanes_times_paths(monkeypatch):
    """The base's lanes are looked at again only where they differ."""
    seen = []
    from touchgate.gate import plan as module

    class Counted(module.Index):
        def look(self, paths):
            seen.append((len(self._lists), len(paths)))
            return super().look(paths)

    monkeypatch.setattr(module, "Index", Counted)
    plan(lanes(), lanes(), change("q", "r"))
    assert seen == [(4, 2), (0, 2)]

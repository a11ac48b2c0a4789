"""Which cases run under the sanitizers, and in which ways."""

from __future__ import annotations

import numpy as np
import pytest

from touchgate.checks.cases import Bound, Case, Oracle, OracleFault, given, wanted
from touchgate.checks.placement import Layout
from touchgate.checks.selection import in_turns, selected, untouched
from touchgate.checks.trials import Trial, trials


def oracle_of(asked: list[str] | None = None) -> Oracle:
    def arrays(case, _random):
        if asked is not None:
            asked.append(case.name)
        yield given("x", case.dtype, np.ones(case["n"]))
        yield wanted("y", case.dtype, (case["n"],))

    return Oracle(list, arrays, lambda *_: [], lambda *_: {}, lambda *_: {"y": Bound(0, "none")})


def case(n: int, dtype: str = "float32", **more) -> Case:
    places = more.pop("places", ("gpu", "emulated"))
    name = " ".join(map(str, (dtype, n, *more.values())))
    return Case(name, dtype, {"n": n, **more}, places=places)


def names(cases, oracle=None):
    return [one.name for one in selected(oracle or oracle_of(), cases)]


def test_marked_cases_are_all_and_nothing_else_is_asked():
    asked: list[str] = []
    cases = [case(5), Case("mine", "float32", {"n": 3}, sanitize=True), case(9), Case("too", "int32", {}, sanitize=True)]
    assert names(cases, oracle_of(asked)) == ["mine", "too"]
    assert asked == []


def test_each_type_and_each_value_of_a_text_is_shown_once_by_small_ragged_cases():
    cases = [
        case(n, dtype, way=way, values=values)
        for dtype in ("float32", "float16")
        for n in (0, 1, 33, 1536, 2048, 2049, 4097)
        for way in ("warp", "block")
        for values in ("random", "integers")
    ]
    assert names(cases) == [
        "float32 2049 warp random",
        "float32 2049 warp integers",
        "float32 2049 block random",
        "float16 2049 warp random",
        "float16 2049 warp integers",
        "float16 2049 block random",
    ]


def test_what_only_a_poor_case_shows_is_shown_by_it():
    assert names([case(4097, way="a"), case(3, way="b"), case(5, way="b"), case(64, way="c")]) == [
        "float32 4097 a",
        "float32 3 b",
        "float32 64 c",
    ]


def test_a_case_without_elements_is_none():
    assert names([case(0, way="a"), case(1, way="a")]) == ["float32 1 a"]
    with pytest.raises(OracleFault, match=r"^none of its cases is fit for the sanitizers: each has an array without elements"):
        selected(oracle_of(), [case(0, way="a"), case(0, "int32")])


def test_large_cases_are_looked_at_only_where_there_are_no_others():
    asked: list[str] = []
    large = case(10**6, "int32", places=("gpu",))
    assert names([large, case(2049)], oracle_of(asked)) == ["float32 2049"]
    assert asked == ["float32 2049"]
    assert names([large]) == ["int32 1000000"]


def test_numbers_and_flags_are_no_sorts():
    assert names([case(2049, rows=3), case(2049, rows=4), case(2049, flag=True)]) == ["float32 2049 3"]


def test_what_the_file_raises_names_the_case():
    with pytest.raises(OracleFault, match=r"^case 'float32 1': KeyError: 'n'$"):
        selected(oracle_of(), [Case("float32 1", "float32")])


def test_few_cases_run_in_all_ways_and_many_in_two_each():
    for count in (1, 2):
        assert [in_turns(count)(number) for number in range(count)] == [trials(number) for number in range(count)]
    for count in (3, 4, 20):
        ways = [in_turns(count)(number) for number in range(count)]
        assert {len(one) for one in ways} == {2}
        assert [one for number, two in enumerate(ways) for one in two if one not in trials(number)] == []
        for first in range(count - 2):
            # Three cases in a row, as one element type has at least, are placed in every way, with both blocks.
            kinds = {(one.layout.gap, one.layout.shift, one.layout.only) for two in ways[first : first + 3] for one in two}
            blocks = {one.block for two in ways[first : first + 3] for one in two}
            assert (len(kinds), blocks) == (5, {0, 1})


def test_for_initcheck_nothing_is_written_around_or_into_outputs():
    ways = untouched(7)(3)
    assert ways == untouched(1)(0)
    assert [(one.seed, one.block, one.layout) for one in ways] == [(1, 0, Layout(fresh=True)), (2, 1, Layout(fresh=True))]
    assert all(isinstance(one, Trial) for one in ways)
    assert np.all([one.layout.stride(5, 4, 2) == 5 for one in ways])

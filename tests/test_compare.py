"""Comparisons: what passes, what fails, and with which evidence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from touchgate.checks import numerics
from touchgate.checks.cases import Bound
from touchgate.checks.compare import BoundFault, Mismatch, compare

EXACT = Bound(None, "bits")


def stored(values, dtype="float32"):
    return numerics.store(np.array(values, dtype=np.float64), dtype)


def verdicts(got, answer, bound, dtype="float32"):
    return compare(stored([got], dtype), np.array([answer], dtype=np.float64), dtype, bound).differing == 0


@pytest.mark.parametrize(
    ("got", "answer", "passes"),
    [
        (1.0, 1.0, True),
        (1.0, 1 + 2.0**-30, True),  # the answer is rounded once
        (1 + 2.0**-23, 1.0, False),
        (0.0, -0.0, False),
        (math.nan, math.nan, True),
        (math.nan, 1.0, False),
        (1.0, math.nan, False),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
        (math.inf, 1e39, True),
        (2.0**-149, 0.0, False),
    ],
)
def test_bit_for_bit(got, answer, passes):
    assert verdicts(got, answer, EXACT) is passes


@pytest.mark.parametrize(
    ("got", "answer", "limit", "passes"),
    [
        (1.0, 1.25, 0.25, True),
        (1.0, 1.2500001, 0.25, False),
        (0.0, -0.0, 0.0, True),
        (math.nan, math.nan, math.nan, True),
        (math.nan, 1.0, 1e30, False),
        (1.0, math.nan, 1e30, False),
        (math.inf, math.inf, math.inf, True),
        (-math.inf, math.inf, math.inf, False),
        (1.0, math.inf, math.inf, False),
        (math.inf, 1.0, 1e30, False),
        (math.inf, 3.4028236e38, 1e31, True),  # rounds to infinity within the bound
        (math.inf, 3.4e38, 1e30, False),
        (-math.inf, 3.4028236e38, 1e31, False),
    ],
)
def test_within_a_bound(got, answer, limit, passes):
    assert verdicts(got, answer, Bound(limit, "because")) is passes


@pytest.mark.parametrize("dtype", list(numerics.FORMATS))
@pytest.mark.parametrize("bound", [EXACT, Bound(1e30, "loose")])
def test_poison_is_never_right(dtype, bound):
    if dtype == "int32" and bound.limit is not None:
        bound = Bound(2.0**32, "loose")
    got = numerics.filled(16, dtype, numerics.FORMATS[dtype].poison).view(numerics.FORMATS[dtype].storage)[:4]
    answer = np.array([1.0, math.nan, 2.0, 3.0]) if dtype != "int32" else np.array([1.0, 4.0, 2.0, 3.0])
    found = compare(got, answer, dtype, bound)
    assert (found.differing, found.unwritten) == (4, 4)
    assert found.first is not None
    assert found.first.unwritten


def test_a_legitimate_integer_that_looks_like_poison_is_right():
    value = np.array([numerics.FORMATS["int32"].poison], dtype=np.uint32).view(np.int32)
    assert compare(value, value.copy(), "int32", EXACT).differing == 0


def test_the_evidence_is_complete():
    got, answer = stored([[1, 2], [3, 4.5]], "bfloat16"), np.array([[1.0, 2.0], [3.5, 4.0]])
    found = compare(got, answer, "bfloat16", Bound(0.25, "because"))
    assert found.first == Mismatch((1, 0), 3.0, 3.5, "0x4040", "0x4060", 32, 0.5, 0.25, unwritten=False)
    assert (found.elements, found.differing, found.unwritten) == (4, 2, 0)
    assert (found.worst_error, found.worst_bound, found.worst_index) == (0.5, 0.25, (1, 0))


def test_the_worst_is_the_largest_share_of_its_bound_not_the_largest_error():
    found = compare(stored([1.0, 100.0]), np.array([1.01, 101.0]), "float32", Bound(np.array([0.02, 10.0]), "because"))
    assert found.worst_index == (0,)
    assert found.differing == 0


def test_a_nan_where_none_belongs_is_the_worst():
    found = compare(stored([1.5, math.nan]), np.array([1.0, 2.0]), "float32", Bound(0.1, "because"))
    assert (found.worst_index, found.worst_error) == ((1,), math.inf)
    assert compare(stored([math.nan]), np.array([2.0]), "float32", EXACT).first.ulps is None


def test_a_wrong_sign_of_zero_is_the_worst_although_its_error_is_zero():
    found = compare(stored([1.0, 0.0]), np.array([1.0, -0.0]), "float32", EXACT)
    assert (found.worst_index, found.worst_error) == ((1,), 0.0)


def test_no_elements():
    found = compare(stored([]), np.array([]), "float32", EXACT)
    assert (found.elements, found.differing, found.first, found.zeros_would_pass) == (0, 0, None, True)


@pytest.mark.parametrize(
    ("answer", "bound", "zeros_pass"),
    [
        ([0.0, 0.0], EXACT, True),
        ([0.0, 1.0], EXACT, False),
        ([0.5, 0.5], Bound(1.0, "loose"), True),
        ([0.5, 1.5], Bound(1.0, "tight"), False),
    ],
)
def test_whether_zeros_would_pass(answer, bound, zeros_pass):
    assert compare(stored(answer), np.array(answer), "float32", bound).zeros_would_pass is zeros_pass


@pytest.mark.parametrize(
    ("answer", "limit", "message"),
    [
        (np.zeros(3), None, r"the oracle gives shape \[3\], the output has \[2\]"),
        (np.zeros(2, dtype=complex), None, "the oracle gives complex128 for float32; wanted is float64 or float32"),
        (np.zeros(2, dtype=np.float16), None, "the oracle gives float16 for float32"),
        (np.zeros(2), np.zeros(3), r"the bound has shape \[3\], the output \[2\]"),
        (np.zeros(2), np.array([1.0, math.nan]), r"the bound at \[1\] is nan; wanted is a finite number >= 0"),
        (np.zeros(2), -1.0, r"the bound at \[0\] is -1.0"),
        (np.zeros(2), math.inf, r"the bound at \[0\] is inf"),
    ],
)
def test_unusable_answers_and_bounds(answer, limit, message):
    with pytest.raises(BoundFault, match=message):
        compare(stored([0.0, 0.0]), answer, "float32", Bound(limit, "because"))


@pytest.mark.parametrize("answer", [[0.5], [math.nan], [2.0**31]])
def test_an_answer_that_is_no_integer_where_one_is_due(answer):
    with pytest.raises(BoundFault, match="the oracle's answer: a value is not an int32"):
        compare(np.zeros(1, dtype=np.int32), np.array(answer), "int32", EXACT)


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=8),
    st.lists(st.floats(width=32), min_size=8, max_size=8),
    st.floats(min_value=0, max_value=1e30),
)
def test_a_pass_means_every_element_is_within_the_bound(got, answers, limit):
    answer = np.array(answers[: len(got)], dtype=np.float64)
    found = compare(stored(got), answer, "float32", Bound(limit, "because"))
    for value, wanted in zip(got, answer, strict=True):
        close = value == wanted or abs(value - wanted) <= limit or (math.isnan(value) and math.isnan(wanted))
        overflowed = math.isinf(value) and math.isfinite(wanted) and math.copysign(1, value) == math.copysign(1, wanted)
        assert found.differing or close or overflowed

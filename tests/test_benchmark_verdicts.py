"""What times say, by tables and properties; how often the rules err is in test_benchmark_rates.py."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from touchgate.benchmarks import student, verdicts
from touchgate.benchmarks.verdicts import Block, Finding, Judgement
from touchgate.outcome import Verdict

# Abramowitz and Stegun, table 26.10, and R's qt to nine places.
QUANTILES = [
    (0.75, 1, 1.0),
    (0.975, 1, 12.706204736),
    (0.99, 7, 2.997951567),
    (0.995, 9, 3.249835542),
    (0.9995, 7, 5.407882521),
    (0.999, 3, 10.214531852),
    (0.95, 30, 1.697260887),
    (0.999, 120, 3.159538739),
]


@pytest.mark.parametrize(("probability", "freedom", "wanted"), QUANTILES)
def test_quantiles_of_students_t(probability, freedom, wanted):
    assert student.quantile(probability, freedom) == pytest.approx(wanted, rel=1e-8)
    assert student.quantile(1 - probability, freedom) == pytest.approx(-wanted, rel=1e-8)
    assert student.upper_tail(wanted, freedom) == pytest.approx(1 - probability, rel=1e-7)


def test_the_middle_and_the_far_tails():
    assert student.upper_tail(0.0, 5) == 0.5
    # Of one degree of freedom the tail is arctan's.
    assert student.upper_tail(1e6, 1) == pytest.approx(math.atan(1e-6) / math.pi, rel=1e-9)
    assert student.upper_tail(-2.0, 4) == pytest.approx(1 - student.upper_tail(2.0, 4))
    with pytest.raises(ValueError, match="a probability of 1"):
        student.quantile(1, 3)


def blocks(ratio, noise=0.002, count=16, spikes=()):
    """Blocks of a base of 100 us and a head that takes `ratio` times as long, with a pattern of noise."""
    made = []
    for number in range(count):
        wobble = math.exp(noise * (-1) ** number * (1 + number % 3) / 2)
        spike = 1.5 if number in spikes else 1.0
        made.append(Block(base=(1e-4, 1e-4), head=(1e-4 * ratio * wobble * spike, 1e-4 * ratio * wobble)))
    return made


@pytest.mark.parametrize(
    ("ratio", "noise", "finding"),
    [
        (1.0, 0.002, Finding.UNCHANGED),
        (1.05, 0.002, Finding.REGRESSED),
        (1 / 1.05, 0.002, Finding.IMPROVED),
        (1.015, 0.0001, Finding.UNCHANGED),  # surely there, and too small to act on
        (1.05, 0.2, Finding.UNDECIDED),
        (1.0, 0.2, Finding.UNDECIDED),
        (1.0, 0.0, Finding.UNCHANGED),  # not a bit of noise
        (1.05, 0.0, Finding.REGRESSED),
    ],
)
def test_against_base(ratio, noise, finding):
    (found,) = verdicts.against_base({"k": blocks(ratio, noise)}).values()
    assert found.finding is finding
    assert found.ratio == pytest.approx(ratio, abs=0.15 if noise > 0.1 else 0.002)


def test_spikes_in_a_quarter_of_the_blocks_change_little():
    (found,) = verdicts.against_base({"k": blocks(1.0, spikes=(0, 5, 9))}).values()
    assert found.finding is Finding.UNCHANGED
    (found,) = verdicts.against_base({"k": blocks(1.05, spikes=(2, 3, 11))}).values()
    assert found.finding is Finding.REGRESSED


def test_a_drift_cancels_within_each_block():
    """Everything becomes slower by 1 % a sample: ABBA and BAAB see no difference."""
    made = []
    for number in range(16):
        first, second, third, fourth = (1e-4 * math.exp(0.01 * (4 * number + place)) for place in range(4))
        outer, inner = (first, fourth), (second, third)
        made.append(Block(outer, inner) if number % 2 else Block(inner, outer))
    (found,) = verdicts.against_base({"k": made}).values()
    assert (found.finding, found.ratio) == (Finding.UNCHANGED, pytest.approx(1.0))


def test_too_few_blocks_are_refused():
    with pytest.raises(ValueError, match="7 blocks; at least 8 are wanted"):
        verdicts.against_base({"k": blocks(1.0, count=7)})


def test_holm_steps_down():
    """With 4 keys the levels are .0025, .00333, .005, .01; the first that fails ends it."""
    level = 0.01
    assert verdicts.holm({}, level) == frozenset()
    assert verdicts.holm({"a": 0.002, "b": 0.003, "c": 0.011, "d": 0.0001}, level) == {"a", "b", "d"}
    assert verdicts.holm({"a": 0.003, "b": 0.003, "c": 0.003, "d": 0.003}, level) == frozenset()
    assert verdicts.holm({"a": 0.01}, level) == {"a"}


def test_one_key_among_many_needs_more():
    """The same blocks: alone they show a regression, beside nineteen others they do not."""
    # p of 0.005: below .01, above .01 / 20.
    wobbles = [0.05 + 0.02 * (-1) ** number * (1 + number % 4 / 4) for number in range(16)]
    doubtful = [Block((1e-4, 1e-4), (1e-4 * math.exp(one), 1e-4 * math.exp(one))) for one in wobbles]
    alone = verdicts.against_base({"k": doubtful})["k"]
    assert 0.0005 < alone.probability <= 0.01
    many = verdicts.against_base({"k": doubtful} | {str(number): blocks(1.0) for number in range(19)})
    assert (alone.finding, many["k"].finding) == (Finding.REGRESSED, Finding.UNDECIDED)


RUNS = [1e-4 * math.exp(0.002 * wobble) for wobble in (-2, -1, 0, 0, 1, 2, 1, -1)]


@pytest.mark.parametrize(
    ("runs", "median", "finding"),
    [
        (RUNS, 1e-4, Finding.UNCHANGED),
        (RUNS, 1.05e-4, Finding.REGRESSED),
        (RUNS, 0.95e-4, Finding.IMPROVED),
        (RUNS, 1.015e-4, Finding.UNCHANGED),  # outside of the interval, within the floor
        ([1e-4 * math.exp(0.05 * number) for number in range(-4, 5)], 1.05e-4, Finding.UNDECIDED),
        (RUNS[:7], 1e-4, Finding.UNDECIDED),
        (RUNS[:7], 2e-4, Finding.UNDECIDED),
        ([], 1e-4, Finding.UNDECIDED),
    ],
)
def test_against_baselines(runs, median, finding):
    assert verdicts.against_baselines(runs, median).finding is finding


def test_the_prediction_interval():
    """By hand: mean 0, s = sqrt(12 / 7) / 500, t(.99, 7) = 2.998, sqrt(1 + 1/8) = 1.0607."""
    found = verdicts.against_baselines(RUNS, 1e-4)
    half = 2.997951567 * math.sqrt(12 / 7) * 0.002 * math.sqrt(9 / 8)
    assert math.log(found.high) == pytest.approx(half)
    assert math.log(found.low) == pytest.approx(-half)


def test_what_is_said_of_too_few_runs():
    said = verdicts.against_baselines(RUNS[:1], 1e-4).line()
    assert said == "UNDECIDED: runs of an equal key that are stored: 1; needed: 8"


@pytest.mark.parametrize(
    ("first", "second", "finding"),
    [
        (Finding.REGRESSED, Finding.REGRESSED, Finding.REGRESSED),
        (Finding.IMPROVED, Finding.IMPROVED, Finding.IMPROVED),
        (Finding.REGRESSED, Finding.UNCHANGED, Finding.UNDECIDED),
        (Finding.REGRESSED, Finding.IMPROVED, Finding.UNDECIDED),
        (Finding.REGRESSED, Finding.UNDECIDED, Finding.UNDECIDED),
        (Finding.REGRESSED, None, Finding.UNDECIDED),
        (Finding.UNCHANGED, None, Finding.UNCHANGED),
        (Finding.UNDECIDED, Finding.REGRESSED, Finding.UNDECIDED),
    ],
)
def test_what_moved_has_to_be_confirmed(first, second, finding):
    said = verdicts.confirmed(Judgement(first), None if second is None else Judgement(second))
    assert said.finding is finding


def test_the_verdicts_of_findings():
    assert {finding.value: verdict.value for finding, verdict in verdicts.VERDICTS.items()} == {
        "REGRESSED": "failed",
        "IMPROVED": "passed",
        "UNCHANGED": "passed",
        "UNDECIDED": "unmeasured",
        "INVALID": "error",
    }
    assert set(verdicts.VERDICTS) == set(Finding)
    assert not Verdict.UNMEASURED.is_failure


GIB = 1 << 30


@pytest.mark.parametrize(
    ("read", "written", "seconds", "ceiling", "datasheet", "l2", "said"),
    [
        (GIB, 0, 1e-3, 1.0e12, 4.8e12, 0, ""),
        (GIB, 0, 1e-3, 0.97e12, None, None, "of what plain traffic"),
        (GIB, 0, 1e-3, 0.98e12, None, None, ""),
        (GIB, 0, 1e-3, None, 1.0e12, 0, "above what the memory's clock and width come to"),
        (GIB // 2, GIB // 2, 1e-3, None, 1.05e12, GIB // 16, ""),  # that much may still lie in the L2
        (GIB // 2, GIB // 2, 1e-3, None, 1.05e12, None, "above what"),
        (GIB, 0, 1e-3, None, None, None, ""),
    ],
)
def test_what_can_not_be(read, written, seconds, ceiling, datasheet, l2, said):
    found = verdicts.impossible(read, written, seconds, ceiling=ceiling, datasheet=datasheet, l2=l2)
    assert said in found
    assert bool(said) == bool(found)


times = st.floats(1e-6, 1e-2)
block = st.builds(Block, st.tuples(times, times), st.tuples(times, times))
MIRRORED = {Finding.REGRESSED: Finding.IMPROVED, Finding.IMPROVED: Finding.REGRESSED}


@settings(deadline=None, max_examples=200)
@given(st.lists(block, min_size=8, max_size=20), st.floats(0.01, 100))
def test_neither_side_is_favoured_and_units_do_not_matter(made, unit):
    (found,) = verdicts.against_base({"k": made}).values()
    (mirrored,) = verdicts.against_base({"k": [Block(one.head, one.base) for one in made]}).values()
    scaled = [Block(*(tuple(unit * seconds for seconds in side) for side in one)) for one in made]
    (other,) = verdicts.against_base({"k": scaled}).values()
    assert mirrored.ratio == pytest.approx(1 / found.ratio, rel=1e-9)
    assert other.ratio == pytest.approx(found.ratio, rel=1e-9)
    if min(abs(abs(math.log(found.ratio)) - math.log(1.02)), abs(found.probability - 0.01)) > 1e-6:
        assert mirrored.finding is MIRRORED.get(found.finding, found.finding)

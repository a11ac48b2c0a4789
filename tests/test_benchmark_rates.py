"""How often the two rules are wrong, as built, on noise like a GPU's: the quick tests bound it, the long one states it.

A sample's time is exp(run + within) times a spike: `run` differs from run to run, `within` from sample to sample; 3 % of
samples are spikes, 10 to 60 % longer. Base and head of one run share its effect, and each has a small effect of its own
build (where its code lies), which a confirmation draws anew, as it loads both anew.
"""

import math

import numpy as np
import pytest

from touchgate.benchmarks.verdicts import (
    Block,
    Finding,
    against_base,
    against_baselines,
    confirmed,
    needs_confirmation,
)

KEYS = 20
BLOCKS = 16
SAMPLES = 5
OF_ITS_OWN = 0.2
"""A build's own effect beside the within-run noise."""


def samples(random, shape, within):
    """Times of a kernel that takes 100 us: log-normal, with spikes."""
    spikes = np.where(random.random(shape) < 0.03, 1 + random.uniform(0.1, 0.6, shape), 1.0)
    return 1e-4 * np.exp(within * random.standard_normal(shape)) * spikes


def blocks(random, keys, within, between, slower):
    """Interleaved blocks of each key in one run."""
    run = np.exp(between * random.standard_normal((keys, 1, 1)))
    own = np.exp(OF_ITS_OWN * within * random.standard_normal((2, keys, 1, 1)))
    drift = np.exp(0.002 * np.cumsum(random.standard_normal((keys, BLOCKS, 1)), axis=1))
    base, head = (samples(random, (keys, BLOCKS, 2), within) * run * own[side] * drift for side in (0, 1))
    head *= slower
    return {str(key): [Block(tuple(base[key, one]), tuple(head[key, one])) for one in range(BLOCKS)] for key in range(keys)}


def paired_run(random, keys, within, between, slower=1.0):
    """What one run says of each key, confirmed on the spot."""
    first = against_base(blocks(random, keys, within, between, slower))
    moved = [key for key, one in first.items() if needs_confirmation(one)]
    second = against_base(blocks(random, keys, within, between, slower)) if moved else {}
    return [confirmed(one, second[key] if key in moved else None).finding for key, one in first.items()]


def stored_run(random, keys, within, between, slower=1.0, runs=8):
    """What one run says of each key against stored ones, confirmed by another run."""

    def medians(count):
        effects = np.exp(between * random.standard_normal((keys, count)))
        return np.median(samples(random, (keys, count, SAMPLES), within), axis=2) * effects

    stored, new, again = medians(runs), medians(1) * slower, medians(1) * slower
    found = []
    for key in range(keys):
        first = against_baselines(list(stored[key]), float(new[key, 0]))
        second = against_baselines(list(stored[key]), float(again[key, 0])) if needs_confirmation(first) else None
        found.append(confirmed(first, second).finding)
    return found


RULES = {"against base": paired_run, "against stored": stored_run}


def false_alarms(rule, random, trials, within, between):
    """Runs of 20 unchanged keys in which some key is said to have regressed."""
    return sum(Finding.REGRESSED in RULES[rule](random, KEYS, within, between) for _ in range(trials))


def detected(rule, random, keys, within, between, slower=1.05):
    """Keys found out of `keys` in runs where all of 20 became slower by 5 %."""
    found = [RULES[rule](random, KEYS, within, between, slower) for _ in range(keys // KEYS)]
    return sum(one is Finding.REGRESSED for run in found for one in run)


@pytest.mark.parametrize("rule", RULES)
def test_alarms_are_rare_and_slower_kernels_are_found(rule):
    """Bounds far from the rates that the long test holds: 60 runs with at most 1 % each have more than 6 once in a million."""
    random = np.random.default_rng(2)
    assert false_alarms(rule, random, 60, 0.005, 0.005) <= 6
    assert detected(rule, random, 400, 0.005, 0.005) >= 340


@pytest.mark.parametrize("rule", RULES)
def test_what_is_twice_as_slow_is_always_found(rule):
    random = np.random.default_rng(3)
    assert detected(rule, random, 200, 0.01, 0.01, slower=2.0) == 200


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES)
def test_the_rates_that_are_stated(rule):
    """docs/benchmarks.md has these; run with -s to see them."""
    random = np.random.default_rng(4)
    trials, keys = 1000, 4000
    for noise in (0.005, 0.01):
        alarms = false_alarms(rule, random, trials, noise, noise) / trials
        found = detected(rule, random, keys, noise, noise) / keys
        print(f"\n{rule}, noise {noise:.1%}: {alarms:.2%} of runs of {KEYS} keys alarm, {found:.1%} of +5 % found")
        if noise == 0.005:
            assert alarms <= 0.02
            assert found >= 0.90
    assert math.isfinite(alarms)

"""Student's t distribution: probabilities and quantiles, by the continued fraction of the incomplete beta function.

Abramowitz and Stegun 1964, 26.5.8 and 26.7.1; the fraction is evaluated as Lentz does (Thompson and Barnett 1986).
"""

from __future__ import annotations

import math

TINY = 1e-300
STEPS = 500
PRECISION = 1e-15


def upper_tail(t: float, freedom: float) -> float:
    """P(T > t) for T with `freedom` degrees of freedom (above 0). Accurate in the far tail too."""
    if t < 0:
        return 1.0 - upper_tail(-t, freedom)
    return 0.5 * _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def quantile(probability: float, freedom: float) -> float:
    """The t with P(T <= t) = probability, which lies strictly between 0 and 1."""
    if not 0 < probability < 1:
        raise ValueError(f"a quantile for a probability of {probability}")
    if probability < 0.5:  # noqa: PLR2004  the middle
        return -quantile(1 - probability, freedom)
    above = 1 - probability
    low, high = 0.0, 1.0
    while upper_tail(high, freedom) > above:
        low, high = high, 2 * high
    while high - low > PRECISION * max(high, 1.0):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if upper_tail(middle, freedom) > above else (low, middle)
    return (low + high) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b)."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    # The fraction converges fast on this side; the other follows from the symmetry.
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    return front * _fraction(a, b, x) / a


def _fraction(a: float, b: float, x: float) -> float:
    above, below = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    value = below
    for m in range(1, STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for term in (even, odd):
            below = 1 / _away_from_zero(1 + term * below)
            above = _away_from_zero(1 + term / above)
            change = above * below
            value *= change
        if abs(change - 1) < PRECISION:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > TINY else TINY

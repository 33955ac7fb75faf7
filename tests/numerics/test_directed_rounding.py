"""Outward rounding and root searches: the answer is always on the private side."""

import math
from fractions import Fraction

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.numerics.directed_rounding import (
    bisect_floats,
    expand_bracket,
    root_rounded_up,
    round_down,
    round_fraction,
    round_root,
    round_up,
)
from curvedp.numerics.error_free import two_prod, two_sum


@pytest.mark.parametrize("x", [1.0, -1.0, 0.0, 1e-320, 1e308, math.inf, -math.inf])
def test_up_and_down_bracket(x):
    assert round_down(x) <= x <= round_up(x)
    if math.isfinite(x):
        assert round_down(x) < x < round_up(x)


def test_round_up_covers_the_stated_relative_error():
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000) * 10.0 ** rng.uniform(-200, 200, 1000)
    assert np.all(round_up(x, 1e-10) >= x + np.abs(x) * 1e-10)
    assert np.all(round_down(x, 1e-10) <= x - np.abs(x) * 1e-10)


@pytest.mark.parametrize(
    "exact", [Fraction(1, 10), Fraction(2), Fraction(3, 7 * 10**300), Fraction(25)]
)
def test_exact_numbers_and_roots_are_enclosed_by_neighboring_floats(exact):
    for power in (1, 2):
        low, high = (
            round_root(exact, power, up=round_up) for round_up in (False, True)
        )
        assert Fraction(low) ** power <= exact <= Fraction(high) ** power
        assert high in (low, math.nextafter(low, math.inf))
    assert round_root(Fraction(25), up=True) == 5.0
    assert round_fraction(Fraction(10) ** 400, up=True) == math.inf
    assert round_fraction(Fraction(10) ** 400, up=False) == np.finfo(float).max


def test_two_sum_and_two_prod_are_exact():
    rng = np.random.default_rng(1)
    for a, b in rng.normal(size=(500, 2)) * 10.0 ** rng.integers(-50, 50, (500, 2)):
        s, e = two_sum(a, b)
        assert Fraction(s) + Fraction(e) == Fraction(a) + Fraction(b)
        p, e = two_prod(a, b)
        assert Fraction(p) + Fraction(e) == Fraction(a) * Fraction(b)


def test_smallest_float_ends_at_neighbors_at_every_scale():
    target = np.array([1e-300, 1e-5, 1.0, 3.7, 1e200])
    found = bisect_floats(lambda x: x >= target, np.zeros(5), np.full(5, 1e300))
    assert np.array_equal(found, target)
    assert bisect_floats(lambda x: x >= 0, np.array(0.0), np.array(1.0)) == 0.0


@pytest.mark.parametrize(
    ("excess", "low", "high", "root"),
    [
        (lambda x: math.exp(-x) - 1e-30, 0.0, 1000.0, 30 * math.log(10)),
        (lambda x: 1.0 if x < 0.3 else -1.0, 0.0, 1000.0, 0.3),
        (lambda x: 2 - x * x, 0.0, 2.0, math.sqrt(2)),
        (lambda x: math.inf if x < 5 else -math.inf, 1.0, 9.0, 5.0),
    ],
)
def test_private_side_was_seen_to_be_private(excess, low, high, root):
    x = root_rounded_up(excess, low, high)
    assert excess(x) <= 0
    assert x == pytest.approx(root, rel=1e-11)


def test_private_side_refuses_nan_and_a_missing_root():
    with pytest.raises(ArithmeticError):
        root_rounded_up(lambda x: math.nan, 0.0, 1.0)
    with pytest.raises(ParameterError):
        root_rounded_up(lambda x: 1.0, 0.0, 1.0)
    assert root_rounded_up(lambda x: -1.0, 0.0, 1.0) == 0.0


def test_bracket_holds_the_root_or_says_there_is_none():
    for root in (1e-7, 1.0, 1e9):
        low, high = expand_bracket(lambda x, root=root: root - x, 1.0)
        assert low <= root <= high
    assert expand_bracket(lambda x: 1.0, 1.0)[1] == math.inf
    assert expand_bracket(lambda x: -1.0, 1.0)[0] == 0.0

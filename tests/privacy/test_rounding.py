"""Outward rounding and root searches: the answer is always on the private side."""

import math
from fractions import Fraction

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.privacy.gaussian import two_prod, two_sum
from curvedp.privacy.rounding import (
    bracket,
    down,
    float_of,
    private_side,
    root_of,
    smallest_float,
    up,
)


@pytest.mark.parametrize("x", [1.0, -1.0, 0.0, 1e-320, 1e308, math.inf, -math.inf])
def test_up_and_down_bracket(x):
    assert down(x) <= x <= up(x)
    if math.isfinite(x):
        assert down(x) < x < up(x)


def test_up_covers_the_relative_error_stated():
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000) * 10.0 ** rng.uniform(-200, 200, 1000)
    assert np.all(up(x, 1e-10) >= x + np.abs(x) * 1e-10)
    assert np.all(down(x, 1e-10) <= x - np.abs(x) * 1e-10)


@pytest.mark.parametrize(
    "exact", [Fraction(1, 10), Fraction(2), Fraction(3, 7 * 10**300), Fraction(25)]
)
def test_exact_numbers_and_roots_are_enclosed_by_neighboring_floats(exact):
    for power in (1, 2):
        low, high = (root_of(exact, power, up=up) for up in (False, True))
        assert Fraction(low) ** power <= exact <= Fraction(high) ** power
        assert high in (low, math.nextafter(low, math.inf))
    assert root_of(Fraction(25), up=True) == 5.0
    assert float_of(Fraction(10) ** 400, up=True) == math.inf
    assert float_of(Fraction(10) ** 400, up=False) == np.finfo(float).max


def test_two_sum_and_two_prod_are_exact():
    rng = np.random.default_rng(1)
    for a, b in rng.normal(size=(500, 2)) * 10.0 ** rng.integers(-50, 50, (500, 2)):
        s, e = two_sum(a, b)
        assert Fraction(s) + Fraction(e) == Fraction(a) + Fraction(b)
        p, e = two_prod(a, b)
        assert Fraction(p) + Fraction(e) == Fraction(a) * Fraction(b)


def test_smallest_float_ends_at_neighbors_at_every_scale():
    target = np.array([1e-300, 1e-5, 1.0, 3.7, 1e200])
    found = smallest_float(lambda x: x >= target, np.zeros(5), np.full(5, 1e300))
    assert np.array_equal(found, target)
    assert smallest_float(lambda x: x >= 0, np.array(0.0), np.array(1.0)) == 0.0


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
    x = private_side(excess, low, high)
    assert excess(x) <= 0
    assert x == pytest.approx(root, rel=1e-11)


def test_private_side_refuses_nan_and_a_missing_root():
    with pytest.raises(ArithmeticError):
        private_side(lambda x: math.nan, 0.0, 1.0)
    with pytest.raises(ParameterError):
        private_side(lambda x: 1.0, 0.0, 1.0)
    assert private_side(lambda x: -1.0, 0.0, 1.0) == 0.0


def test_bracket_holds_the_root_or_says_there_is_none():
    for root in (1e-7, 1.0, 1e9):
        low, high = bracket(lambda x, root=root: root - x, 1.0)
        assert low <= root <= high
    assert bracket(lambda x: 1.0, 1.0)[1] == math.inf
    assert bracket(lambda x: -1.0, 1.0)[0] == 0.0

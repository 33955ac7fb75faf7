"""Sums in fixed point: exact against rational arithmetic, and the same for every grouping and order."""

from fractions import Fraction

import array_api_strict
import numpy as np
import pytest

from curvedp.numerics.fixed_point import (
    FixedPoint,
    gram_mean,
    gram_radius,
    gram_sums,
)

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("bound", [1e-250, 3e-7, 1.0, 2.0, 3.0, 1e9])
def test_sums_are_those_of_rational_arithmetic(bound):
    grid = FixedPoint(bound)
    x = bound * RNG.uniform(-1, 1, size=(700, 3))
    x[0], x[1] = bound, -bound
    rounded = [
        [round(Fraction(v) / Fraction(grid.resolution)) for v in row] for row in x
    ]  # half to even, as floats do
    exact = [
        float(sum(column) * Fraction(grid.resolution) / len(x))
        for column in zip(*rounded, strict=True)
    ]
    assert grid.mean(grid.sums(x), len(x)).tolist() == exact
    assert grid.resolution <= bound * 2.0**-51


def test_neither_order_nor_grouping_nor_library_matters():
    grid = FixedPoint(1.0)
    x = RNG.uniform(-1, 1, size=(10_000, 2))
    x[::7] *= (
        1e-12  # terms of very different sizes, on which floats do depend on the order
    )
    whole = grid.sums(x)
    shuffled = x[RNG.permutation(len(x))]
    assert np.sum(x[:, 0]) != np.sum(np.sort(x[:, 0]))  # the control: float sums do
    for parts in (np.split(shuffled, [1, 17, 9000]), np.split(x[::-1], 100)):
        assert np.array_equal(sum(grid.sums(part) for part in parts), whole)
    assert np.array_equal(np.asarray(grid.sums(array_api_strict.asarray(x))), whole)
    assert np.array_equal(grid.sums(x.T, axis=1), whole)


def test_the_largest_terms_do_not_overflow():
    grid = FixedPoint(1.0)
    ones = np.full((1 << 20, 1), 1.0)
    total = np.int64(1 << 16) * grid.sums(ones)  # what 2^36 such records add up to
    assert grid.mean(total, 1 << 36).tolist() == [1.0]


@pytest.mark.parametrize("radius", [0.3, 1.0, 6.0, 1e5])
def test_the_second_moment_is_exact_in_any_order(radius):
    x = RNG.normal(size=(5000, 4))
    x *= radius * RNG.uniform(size=(5000, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    moment = gram_mean(gram_sums(x, radius), len(x), radius)
    np.testing.assert_allclose(
        moment, x.T @ x / len(x), rtol=0, atol=4 * radius**2 * 2.0**-39
    )
    for parts in (
        np.split(x[::-1], 7 * np.arange(1, 9)),
        np.split(x[RNG.permutation(5000)], [4097]),
    ):
        assert np.array_equal(
            gram_mean(sum(gram_sums(p, radius) for p in parts), len(x), radius), moment
        )
    grid = Fraction(2) ** (np.frexp(radius)[1] - 40).item()
    few = [[round(Fraction(v) / grid) * grid for v in row] for row in x[:50]]
    entry = float(sum(row[0] * row[1] for row in few) / 50)
    assert gram_mean(gram_sums(x[:50], radius), 50, radius)[0, 1] == entry
    longest = max(sum(v * v for v in row) for row in few)
    assert longest <= Fraction(gram_radius(radius, 4)) ** 2

"""The float filter in front of the balls on a grid so fine that it often cannot decide: the same integers without it."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from curvedp.geometry import (
    Euclidean,
    Lorentz,
    PoincareBall,
    SPDAffineInvariant,
    Sphere,
)
from curvedp.laws.exact import draw as exact
from curvedp.laws.exact import exact_gaussian, exact_laplace
from curvedp.laws.exact import exponential as exact_exponential
from curvedp.laws.exact import spd as exact_spd
from curvedp.laws.exact import spd_near as exact_spd_near
from curvedp.laws.exact.spd_near import FloatExp
from curvedp.numerics import enclosures as balls
from curvedp.randomness import GeneratorSource
from curvedp.randomness.lazy_reals import LazyNormals


class Replay(GeneratorSource):
    """Children with streams of their own: what one asks for does not move another."""

    def __init__(self, *seed: int) -> None:
        super().__init__(np.random.default_rng(seed))
        self._seed, self._children = seed, 0

    def child(self) -> "Replay":
        self._children += 1
        return Replay(*self._seed, self._children)


@pytest.mark.parametrize(
    ("sampler", "space", "count"),
    [
        (exact_gaussian, Euclidean(60), 12),
        (exact_laplace, Euclidean(60), 12),
        (exact_gaussian, Sphere(60), 12),
        (exact_gaussian, Lorentz(60), 8),
        (exact_laplace, PoincareBall(60), 40),
        (exact_gaussian, SPDAffineInvariant(10), 4),
    ],
)
def test_what_floats_cannot_settle_is_left_to_balls(sampler, space, count, monkeypatch):
    scale = 0.01 if sampler is exact_laplace else 0.1

    def draws():
        return [
            sampler(
                space, scale, space.origin, source=Replay(seed), grid=balls.FILTER_GRID
            )
            .integers.ravel()
            .tolist()
            for seed in range(count)
        ]

    settled = []
    original = balls.FloatBall.round

    def watched(self, grid):
        integers, certain = original(self, grid)
        settled.append(bool(np.all(certain)))
        return integers, certain

    monkeypatch.setattr(balls.FloatBall, "round", watched)
    filtered = draws()
    assert not all(settled)  # it was asked, and could not say
    asked = len(settled)
    for module in (exact, exact_exponential, exact_spd_near):
        monkeypatch.setattr(module, "FILTER_SIZE", 10**9)
    assert draws() == filtered
    assert len(settled) == asked
    for module in (exact, exact_exponential, exact_spd_near):
        monkeypatch.setattr(module, "FILTER_SIZE", 48)
    for module in (exact, exact_exponential, exact_spd):
        monkeypatch.setattr(module, "FILTER_GRID", balls.FILTER_GRID - 1)
    assert draws()[:2] == filtered[:2]
    assert len(settled) == asked  # on finer grids than this it is not asked


def test_floats_settle_all_integers_below_two_to_the_fifty_two():
    x = np.array([104.25, 1e9 + 0.25, 2.0**51 + 0.25, -(2.0**40) + 0.25, 2.0**52])
    integers, certain = balls.FloatBall(x).round(0)
    assert certain.tolist() == [True, True, True, True, False]
    assert integers[:4].tolist() == [104, 10**9, 2**51, -(2**40)]
    assert balls.FloatBall(x[:1]).round(10)[0].tolist() == [106752]


def test_norms_and_products_are_bounded_from_above():
    """In rationals: the bounds of the filter are never below, and not by more than their allowance above."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = balls.FloatBall(rng.standard_normal((3, 3)), 1e-3 * rng.random((3, 3)))
        exact_square = sum(
            (abs(Fraction(m)) + Fraction(r)) ** 2
            for m, r in zip(x.mid.flat, x.rad.flat, strict=True)
        )
        bound = Fraction(exact_spd_near._frobenius_bound(x))
        assert exact_square <= bound**2 <= exact_square * (1 + Fraction(1, 2**38))
        rows = [
            sum(
                (abs(Fraction(m)) + Fraction(r)) ** 2 for m, r in zip(*row, strict=True)
            )
            for row in zip(x.mid, x.rad, strict=True)
        ]
        wide = exact_spd._congruence(
            x, FloatExp(balls.FloatBall(np.zeros((3, 3))), 1.0)
        )
        for i in range(3):
            for j in range(3):
                assert Fraction(wide.rad[i, j]) ** 2 >= rows[i] * rows[j]
                assert Fraction(wide.rad[i, j]) ** 2 <= rows[i] * rows[j] * (
                    1 + Fraction(1, 2**37)
                )


def test_a_run_of_zeros_ends_after_fifteen_words():
    class Zeros(GeneratorSource):
        taken = 0

        def random_bytes(self, n):
            self.taken += n
            return b"\0" * n

    source = Zeros(np.random.default_rng(0))
    assert source.uniform(1, full_precision=True)[0] == np.ldexp(1 + 2.0**-53, -961)
    assert source.taken == 16 * 8  # the cell, and fifteen words of zeros


def test_the_error_of_a_float_exponential_is_an_upper_bound():
    for seed in range(5):
        trial = exact_spd_near.NearDraw(
            exact_spd_near.tangent_bound(4, 0.3, 0.4), LazyNormals(Replay(seed), 10)
        )
        values, _, gap, eta = trial._float_eigenvalues_with_errors()
        with mp.workdps(40):
            e, n = mp.mpf(gap), mp.mpf(eta)
            least = (e + 2 * n + n * n) * mp.exp(mp.mpf(float(values.max())) + e)
            assert least <= trial.float_exp()[1] <= least * (1 + mp.mpf(2) ** -38)

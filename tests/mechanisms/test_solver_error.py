"""The a-priori error of the mean's solver: negligible against the sensitivity, and above what 60 digits show."""

import mpmath as mp
import numpy as np
import pytest

from curvedp.geometry import Lorentz, PoincareBall, SPDAffineInvariant, Sphere
from curvedp.geometry.mean.bound import _coordinate_spread, solver_error
from curvedp.mechanisms.sensitivity import frechet_mean_sensitivity


@pytest.mark.parametrize(
    ("manifold", "radius", "n"),
    [
        (PoincareBall(10), 12.5, 1025),
        (PoincareBall(2), 10.0, 1182),
        (PoincareBall(50), 8.0, 516),
        (Sphere(2), 1.0, 50),
        (SPDAffineInvariant(3), 2.5, 972),
        (SPDAffineInvariant(32), 8.0, 80),
    ],
)
def test_solver_error_is_below_a_percent_of_the_sensitivity(manifold, radius, n):
    assert 2 * solver_error(manifold, radius) < 0.01 * frechet_mean_sensitivity(manifold, radius, n)


def lifted(manifold, p):
    """The hyperboloid's point over the floats of p, in 60 digits."""
    if isinstance(manifold, PoincareBall):
        p = [mp.mpf(float(t)) for t in p]
        gap = 1 - mp.fsum(t * t for t in p)
        return [(2 - gap) / gap, *(2 * t / gap for t in p)]
    p = [mp.mpf(float(t)) for t in p[1:]]
    return [mp.sqrt(1 + mp.fsum(t * t for t in p)), *p]


def form(x, y):
    return mp.fsum(a * b for a, b in zip(x[1:], y[1:], strict=True)) - x[0] * y[0]


def exact_step(x, records, share):
    total = [mp.mpf(0)] * len(x)
    for y in records:
        c = -form(x, y)
        factor = mp.acosh(c) / mp.sqrt(c * c - 1)
        total = [t + factor * (b - c * a) for t, a, b in zip(total, x, y, strict=True)]
    v = [share * t / len(records) for t in total]
    length = mp.sqrt(form(v, v))
    return [mp.cosh(length) * a + mp.sinh(length) / length * b for a, b in zip(x, v, strict=True)]


@pytest.mark.parametrize("manifold", [PoincareBall(10), Lorentz(10), Lorentz(2)])
@pytest.mark.parametrize("radius", [5.0, 12.5])
def test_one_step_far_out_in_hyperbolic_space_against_60_digits(manifold, radius):
    rng, worst = np.random.default_rng(0), 0.0
    share = 1 / (1 + radius)  # the solver's step

    def point(distance):
        u = rng.normal(size=manifold.dim)
        return manifold.exp(
            manifold.origin, manifold.from_coordinates(manifold.origin, distance * u / np.linalg.norm(u))
        )

    with mp.workdps(60):
        for trial in range(8):
            x = point(radius * (1 if trial % 2 else rng.uniform()))
            X = np.stack([point(radius * rng.uniform() ** 0.2) for _ in range(4)])
            if trial > 3:  # a cluster about x
                X = manifold.exp(x, manifold.from_coordinates(x, rng.normal(size=(4, manifold.dim)) * 0.1))
            y = manifold.exp(x, share * np.mean(manifold.log(x, X), axis=0))
            exact = exact_step(lifted(manifold, x), [lifted(manifold, p) for p in X], share)
            worst = max(worst, float(mp.acosh(max(-form(lifted(manifold, y), exact), mp.mpf(1)))))
    unit = 2.0**-50 * manifold.dim * _coordinate_spread(manifold, radius)
    assert 0 < worst < unit / 4

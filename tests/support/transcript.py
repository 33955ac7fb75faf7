"""What a pair of neighbors is told apart by: Σ (difference/noise)² over every number that is drawn, by brute force.

Every exact draw of a release is caught where it is made. The first data set leads: what it releases is its own numbers with
scripted noise. The second is led along the same released values, so that every stage is asked at the same points. Nothing
that the mechanism says of its own sensitivities is used. The log-likelihood ratio of two Gaussian transcripts has variance
Σ (difference/noise)², which must be at most μ² for every pair and every path; that of two Laplace transcripts is at most
Σ |difference|/scale, which must be at most ε.

    make transcripts          (or PYTHONPATH=tests python tests/support/transcript.py [PAIRS] [SPACE ...])

prints the most that was found on each space, of means and medians in stages; exit code 1 if it is more than μ² = 1 or ε = 1.
"""

import importlib
import pkgutil
import sys
from functools import cache
from math import sqrt
from time import process_time

import numpy as np
import pytest

from curvedp import GDP, PureDP, mechanisms
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
    Torus,
)
from curvedp.geometry.capabilities import ScalableCone
from curvedp.laws.exact import ExactDraw
from curvedp.mechanisms.isotropic import base as isotropic
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.mechanisms.staged.median import MedianMechanism
from curvedp.mechanisms.staged.scale_search import scaling_direction
from curvedp.statistics.geometric_median import GeometricMedian
from curvedp.statistics.searched_ball import (
    SearchedGeodesic,
    SearchedMean,
    SearchedVariance,
)


def replace_draws(patch, draw, names=("exact_gaussian",)):
    """Replace the samplers of these names by one function, in every mechanism."""
    for name in names:
        for module in modules_that_draw(name):
            patch.setattr(module, name, draw)

    # Value mechanisms call one sampler for all kinds of noise.
    replaced_kinds = {name.removeprefix("exact_") for name in names}
    exact_draw = isotropic.exact_draw

    def draw_of_kind(kind, *args, **options):
        if kind in replaced_kinds:
            return draw(*args, **options)
        return exact_draw(kind, *args, **options)

    patch.setattr(isotropic, "exact_draw", draw_of_kind)


@cache
def modules_that_draw(name):
    """Return the modules under curvedp.mechanisms that have a sampler by this name."""
    packages = pkgutil.walk_packages(mechanisms.__path__, "curvedp.mechanisms.")
    modules = [importlib.import_module(package.name) for package in packages]
    return [module for module in modules if name in vars(module)]


class Caught:
    """Flat draws only: values and noise as they were asked for, and what was released of them."""

    def __init__(self):
        self.asked = []

    def lead(self, rng):
        def draw(manifold, scale, center, *, source=None, grid=30):
            value = np.asarray(center, dtype=float)
            whole = np.round(
                (value + scale * rng.standard_normal(value.shape)) * 2.0**grid
            )
            self.asked.append(
                (
                    value,
                    scale,
                    np.array([int(k) for k in whole.ravel()], dtype=object).reshape(
                        value.shape
                    ),
                )
            )
            return ExactDraw(self.asked[-1][2], grid, 2.0**-100, manifold)

        return draw

    def follow(self, leader):
        path = iter(leader.asked)

        def draw(manifold, scale, center, *, source=None, grid=30):
            _, noise, whole = next(path)
            assert noise == scale  # public, so the same on both sides
            self.asked.append((np.asarray(center, dtype=float), scale, whole))
            return ExactDraw(whole, grid, 2.0**-100, manifold)

        return draw


def spent(release, one, two, seed=0):
    """Σ (difference/noise)² of all that `release` draws at two data sets, along one path."""
    leader, follower = Caught(), Caught()
    _caught(leader.lead(np.random.default_rng(seed)), release, one)
    _caught(follower.follow(leader), release, two)
    assert len(leader.asked) == len(follower.asked)
    pairs = zip(leader.asked, follower.asked, strict=True)
    return sum(float(np.sum(((a[0] - b[0]) / a[1]) ** 2)) for a, b in pairs)


def leaked(release, one, two, seed=0):
    """(the largest log-likelihood ratio of any transcript along one path, Σ |difference|/scale; that of this one), of draws
    of density ∝ exp(−|y − value|/scale), by brute force."""
    rng, told, path = np.random.default_rng(seed), [], []

    def lead(manifold, scale, center, *, source=None, grid=30):
        value = np.asarray(center, dtype=float)
        noise = rng.standard_normal(value.shape)
        noise *= scale * rng.gamma(value.size) / np.linalg.norm(noise)
        whole = np.array(
            [int(k) for k in np.round((value + noise) * 2.0**grid).ravel()],
            dtype=object,
        )
        path.append((value, scale, whole.reshape(value.shape)))
        return ExactDraw(path[-1][2], grid, 2.0**-100, manifold)

    def follow(manifold, scale, center, *, source=None, grid=30):
        value, noise, whole = path[len(told)]
        assert noise == scale  # public, so the same on both sides
        mine, drawn = np.asarray(center, dtype=float), whole.astype(float) / 2.0**grid
        here = (np.linalg.norm(drawn - mine) - np.linalg.norm(drawn - value)) / scale
        told.append((np.linalg.norm(mine - value) / scale, here))
        return ExactDraw(whole, grid, 2.0**-100, manifold)

    _caught(lead, release, one, ("exact_laplace",))
    _caught(follow, release, two, ("exact_laplace",))
    assert len(told) == len(path) > 0
    return tuple(np.sum(told, axis=0))


def _caught(draw, release, data, names=("exact_gaussian",)):
    with pytest.MonkeyPatch.context() as patch:
        replace_draws(patch, draw, names)
        release(data)


# ---- pairs that attack the stages

SPACES = [
    Euclidean(3), Sphere(2), Lorentz(3), PoincareBall(2), SPDAffineInvariant(3), SPDLogEuclidean(2), SPDLogCholesky(2),
    SPDBuresWasserstein(2), Grassmann(4, 2), Rotations(3), KendallShapes(4), Stiefel(4, 2), Torus(2),
    Product(Sphere(2), SPDAffineInvariant(2)),
]  # fmt: skip


def cloud(M, spread, n, rng, center=None):
    c = M.origin if center is None else center
    return np.asarray(
        M.from_normal_coordinates(c, rng.normal(size=(n, M.dim)) * spread / sqrt(M.dim))
    )


def neighbor(X, trial, M, rng):
    """One record replaced: by nothing, by one far away, by one that is none, by its mirror image."""
    Y = X.copy()
    Y[-1] = [
        np.full_like(X[-1], np.nan),
        cloud(M, 3.0, 1, rng)[0],
        1e3 * X[-1],
        -X[-1],
    ][trial % 4]
    return Y


def pairs(M, rng, trials):
    """(data set, its neighbor): spread out on every scale, all but one identical, or on the edges of bins and radii."""
    for trial in range(trials):
        n = int(rng.integers(3, 80))
        X = cloud(M, 10.0 ** rng.uniform(-4, 0.5), n, rng)
        if trial % 3 == 0:
            X[:] = X[0]
        if trial % 3 == 1:
            steps = np.zeros((n, M.dim))
            steps[:, 0] = (
                2.0 * rng.integers(-2, 3, n)
                if trial % 2
                else 1.25 ** -rng.integers(0, 20, n).astype(float)
            )
            X = np.asarray(M.from_normal_coordinates(M.origin, steps))
        yield X, neighbor(X, trial, M, rng)


STATISTICS = {
    "mean": SearchedMean,
    "variance": SearchedVariance,
    "line": SearchedGeodesic,
}


def opposite(M, n, out, center=None):
    """All records but one in one place; that one far out, and far out on the other side but in another shell: every stage
    moves by all that it can."""
    c = M.origin if center is None else center
    direction = (
        np.eye(M.dim)[0]
        if len(M.factors) > 1 or not isinstance(M, ScalableCone)
        else scaling_direction(M, c)
    )
    sides = [np.zeros((n, M.dim)), np.zeros((n, M.dim))]
    sides[0][-1], sides[1][-1] = out * direction, -2.5 * out * direction
    return tuple(np.asarray(M.from_normal_coordinates(c, side)) for side in sides)


def released(kind, M, scale=1.0, guarantee=GDP):
    """A function of records that draws all stages with so much of the noise, without the certificate of a release."""

    @np.errstate(all="ignore")
    def draw(X):
        more = ([(0.0, 1.0)],) if kind == "line" else ()
        statistic = STATISTICS[kind](M, None, None, len(X), *more)
        mechanism = PrivateBallMechanism.calibrate(statistic, guarantee(1.0 / scale))
        mechanism.draw(
            mechanism.prepare_data(
                (np.linspace(0, 1, len(X)), X) if kind == "line" else X
            ),
            None,
        )

    return draw


def served(kind, M):
    if kind == "line":
        return M.is_symmetric
    return (
        kind == "mean"
        or M.constant_curvature is not None
        or (isinstance(M, ScalableCone) and not isinstance(M, SPDBuresWasserstein))
    )


def median(M, guarantee=GDP(1.0)):  # noqa: B008 - a frozen value
    """A function of records that draws all stages of their median."""
    return drawn(MedianMechanism, GeometricMedian, M, guarantee)


def drawn(mechanism, statistic, M, guarantee):
    """A function of records that draws all stages, without the certificate of a release."""

    @np.errstate(all="ignore")
    def draw(X):
        found = mechanism.calibrate(statistic(M, None, None, len(X)), guarantee)
        found.draw(found.prepare_data(X), None)

    return draw


# What is released, by which guarantee, what it is told apart by, for which part of the pairs.
_COLUMNS = [
    (kind, guarantee, told, part)
    for guarantee, told, part in (
        (GDP(1.0), spent, 1),
        (PureDP(1.0), lambda *given: leaked(*given)[0], 4),
    )
    for kind in (
        (PrivateBallMechanism, SearchedMean),
        (MedianMechanism, GeometricMedian),
    )
]


def main(trials="10000", *names):
    print(
        f"{'space':48s} {'pairs':>6s} {'mean':>7s} {'median':>7s} {'mean ε':>7s} {'median ε':>8s} {'CPU s':>6s}"
    )
    worst = []
    for M in [M for M in SPACES if not names or str(M) in names]:
        began, found = process_time(), []
        for kind, guarantee, told, part in _COLUMNS:
            release, rng = drawn(*kind, M, guarantee), np.random.default_rng(1)
            every = enumerate(pairs(M, rng, -(-int(trials) // part)))
            found.append(max(told(release, X, Y, seed) for seed, (X, Y) in every))
        worst += found
        numbers = " ".join(f"{most:7.4f}" for most in found)
        print(
            f"{M!s:48s} {trials:>6s} {numbers} {process_time() - began:7.0f}",
            flush=True,
        )
    return int(max(worst) > 1.0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Every mechanism on every kind of manifold it is offered for, its claim, and outputs at its worst neighbours known."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from curvedp.audit.case import Case, k_norm_outputs, with_less_noise
from curvedp.audit.pairs import data_sets, neighbours, rounded, scores
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    SPDAffineInvariant,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
)
from curvedp.geometry.base import Manifold
from curvedp.mechanisms import (
    GaussianMechanism,
    KNGMechanism,
    LaplaceMechanism,
    LogGaussianMechanism,
    LogLaplaceMechanism,
    NewtonMechanism,
)
from curvedp.mechanisms.base import ValueMechanism
from curvedp.privacy import GDP, PureDP

__all__ = ["mechanism_cases"]

GAUSSIAN: tuple[Manifold, ...] = (
    Euclidean(3), Sphere(1), Sphere(2), Sphere(20), Lorentz(2), Lorentz(5), PoincareBall(2), SPDAffineInvariant(2),
    SPDAffineInvariant(3), SPDLogEuclidean(3), SPDLogCholesky(3), Product(Lorentz(2), Euclidean(1)),
)  # fmt: skip
LAPLACE: tuple[Manifold, ...] = (
    Euclidean(1),
    Euclidean(3),
    Sphere(1),
    Sphere(2),
    Sphere(20),
    Lorentz(2),
    Lorentz(4),
    PoincareBall(2),
)
CHART: tuple[Manifold, ...] = (
    Euclidean(3), Sphere(2), Lorentz(3), PoincareBall(2), SPDAffineInvariant(3), SPDLogEuclidean(3), SPDLogCholesky(3),
    Stiefel(4, 2), Grassmann(4, 2), Rotations(3), KendallShapes(4), Product(Sphere(2), SPDAffineInvariant(2)),
)  # fmt: skip
KNG: tuple[Manifold, ...] = (
    Euclidean(1), Euclidean(2), Sphere(1), Sphere(2), Lorentz(2), PoincareBall(2), SPDAffineInvariant(2),
    SPDLogEuclidean(2), SPDLogCholesky(2), Rotations(3), KendallShapes(3), KendallShapes(4),
)  # fmt: skip
NEWTON: tuple[Manifold, ...] = (Sphere(2), Lorentz(2), PoincareBall(2))


def mechanism_cases(shrunk: float = 1.0) -> Iterator[Case]:
    """The mechanisms of noise about a statistic, and those that read the records themselves.

    `shrunk` is what the noise that is drawn is scaled by, while the claim stays: below 1 a cheat that should be caught.
    """
    for space in GAUSSIAN:
        yield _about_a_statistic(GaussianMechanism(space, 0.5, 0.5), shrunk)
    for space in LAPLACE:
        yield _about_a_statistic(LaplaceMechanism(space, 0.3, 0.2), shrunk)
    for kind, scale in ((LogGaussianMechanism, 0.2), (LogLaplaceMechanism, 0.1)):
        for space in CHART:
            radius = 0.75 * min(space.convexity_radius, 1.5) if np.isfinite(space.injectivity_radius) else None
            yield _about_a_statistic(kind(space, 0.2, scale, space.origin, radius), shrunk)
    for space in KNG:
        yield _kng(KNGMechanism(space, None, 0.5, 2, PureDP(6.0)), shrunk)
    for space in NEWTON:
        yield _newton(NewtonMechanism.calibrated(space, None, 0.5, 4, GDP(1.0)), shrunk)


def _about_a_statistic(mechanism: ValueMechanism, shrunk: float) -> Case:
    pair = cache(lambda: neighbours(mechanism))  # found when first needed: a list of all cases costs nothing
    sampler = with_less_noise(mechanism, shrunk)

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        return scores(mechanism, pair(), sampler.simulate(rng, pair()[side], size))

    return Case(mechanism.name, mechanism.manifold, lambda: mechanism.profile, outputs)


def _kng(mechanism: KNGMechanism, shrunk: float) -> Case:
    data = data_sets(mechanism.manifold, mechanism.radius, mechanism.n)
    norms, constants = [mechanism.gradient_norm(X) for X in data], [(mechanism.lipschitz(X),) for X in data]
    outputs = k_norm_outputs(mechanism.domain, shrunk * mechanism.scale, norms, constants)
    return Case(mechanism.name, mechanism.manifold, lambda: mechanism.profile, outputs)


def _newton(mechanism: NewtonMechanism, shrunk: float) -> Case:
    data = data_sets(mechanism.manifold, mechanism.radius, mechanism.n)
    sampler = replace(mechanism, scale=shrunk * mechanism.scale)

    @cache
    def ends() -> list[np.ndarray]:
        """Where the releases of either data set gather."""
        drawn = (mechanism.simulate(np.random.default_rng(0), records, 999) for records in data)
        return [np.asarray(mechanism.manifold.project(np.median(points, axis=0))) for points in drawn]

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        points = sampler.simulate(rng, data[side], size)
        one, two = (np.asarray(mechanism.manifold.dist(end, points)) for end in ends())
        return [rounded(two - one), rounded(two**2 - one**2)]

    return Case(mechanism.name, mechanism.manifold, lambda: mechanism.profile, outputs)

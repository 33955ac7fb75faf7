"""Every mechanism on every manifold it is offered for, with its claim and the outputs at its worst neighbours known."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from math import sqrt
from typing import NamedTuple

import numpy as np

from curvedp.audit.empirical import AuditResult, audit_scores
from curvedp.audit.one_run import OneRunResult, audit_optimiser
from curvedp.audit.pairs import neighbours, rounded, scores
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
from curvedp.laws.cells import CellSampler
from curvedp.mechanisms import (
    GaussianMechanism,
    KNGMechanism,
    LaplaceMechanism,
    LogGaussianMechanism,
    LogLaplaceMechanism,
    Mechanism,
    NewtonMechanism,
)
from curvedp.privacy import GDP, Guarantee, PureDP

__all__ = ["Case", "OptimiserCase", "mechanism_cases", "optimiser_cases"]

_BLOCK = 100_000

GAUSSIAN: tuple[Manifold, ...] = (
    Euclidean(3), Sphere(1), Sphere(2), Sphere(20), Lorentz(2), Lorentz(5), PoincareBall(2), SPDAffineInvariant(2),
    SPDLogEuclidean(3), SPDLogCholesky(3), Product(Lorentz(2), Euclidean(1)),
)  # fmt: skip
LAPLACE: tuple[Manifold, ...] = (
    Euclidean(1),
    Euclidean(3),
    Sphere(1),
    Sphere(2),
    Sphere(20),
    Lorentz(2),
    PoincareBall(2),
)
CHART: tuple[Manifold, ...] = (
    Euclidean(3), Sphere(2), Lorentz(3), PoincareBall(2), SPDAffineInvariant(3), SPDLogEuclidean(3), SPDLogCholesky(3),
    Stiefel(4, 2), Grassmann(4, 2), Rotations(3), KendallShapes(4), Product(Sphere(2), SPDAffineInvariant(2)),
)  # fmt: skip
KNG: tuple[Manifold, ...] = (Euclidean(1), Euclidean(2), Sphere(2), PoincareBall(2), SPDAffineInvariant(2))
NEWTON: tuple[Manifold, ...] = (Sphere(2), Lorentz(2), PoincareBall(2))
OPTIMISERS = ("dp_rgd", "dp_rsgd", "dp_rsvrg")


class Case(NamedTuple):
    """A claim, and `outputs(rng, side, size)`: rows of scores of outputs at the first or second of two neighbours."""

    mechanism: str
    manifold: Manifold
    claim: Callable[[], Guarantee]
    outputs: Callable[[np.random.Generator, int, int], list[np.ndarray]]

    def audit(self, samples: int, delta: float, confidence: float, rng: np.random.Generator) -> AuditResult:
        """Attack with `samples` outputs a side, drawn in blocks so that memory stays flat."""
        sides = []
        for side in (0, 1):
            sizes = [min(_BLOCK, samples - start) for start in range(0, samples, _BLOCK)]
            parts = [self.outputs(rng, side, size) for size in sizes]
            sides.append([np.concatenate(rows) for rows in zip(*parts, strict=True)])
        return audit_scores(self.claim(), *sides, delta=delta, confidence=confidence)


class OptimiserCase(NamedTuple):
    """An optimiser on a manifold, audited from one run."""

    mechanism: str
    manifold: Manifold

    def audit(self, canaries: int, confidence: float, rng: np.random.Generator) -> OneRunResult:
        """One run with that many canaries, which are all the records; the manifold has as many dimensions."""
        return audit_optimiser(partial(_train, *self), canaries, confidence=confidence, rng=rng)


def mechanism_cases() -> Iterator[Case]:
    """The mechanisms of noise about a statistic, and those that read the records themselves."""
    for space in GAUSSIAN:
        yield _about_a_statistic(GaussianMechanism(space, 0.5, 0.5))
    for space in LAPLACE:
        yield _about_a_statistic(LaplaceMechanism(space, 0.3, 0.2))
    for kind, scale in ((LogGaussianMechanism, 0.2), (LogLaplaceMechanism, 0.1)):
        for space in CHART:
            radius = 0.75 * min(space.convexity_radius, 1.5) if np.isfinite(space.injectivity_radius) else None
            yield _about_a_statistic(kind(space, 0.2, scale, space.origin, radius))
    for space in KNG:
        yield _kng(KNGMechanism(space, None, 0.5, 2, PureDP(6.0)))
    for space in NEWTON:
        yield _newton(NewtonMechanism.calibrated(space, None, 0.5, 4, GDP(1.0)))


def optimiser_cases() -> Iterator[OptimiserCase]:
    """The optimisers of `curvedp.optim` (extra: jax); the manifold's dimension is set by the number of canaries."""
    for name in OPTIMISERS:
        for space in (Euclidean(2), Sphere(2), Lorentz(2)):
            yield OptimiserCase(name, space)


def _about_a_statistic(mechanism: Mechanism) -> Case:
    pair = cache(lambda: neighbours(mechanism))  # found when first needed: a list of all cases costs nothing

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        return scores(mechanism, pair(), mechanism.simulate(rng, pair()[side], size))

    return Case(mechanism.name, mechanism.manifold, lambda: mechanism.profile, outputs)


def _two_data_sets(manifold: Manifold, radius: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """All records at one end of the ball; one of them is replaced by the other end."""
    step = np.zeros(manifold.dim)
    step[-1] = radius
    near, far = (
        np.asarray(manifold.exp(manifold.origin, manifold.from_coordinates(manifold.origin, sign * step)))
        for sign in (1, -1)
    )
    records = np.stack([near] * n)
    return records, np.concatenate([records[:-1], far[None]])


def _kng(mechanism: KNGMechanism) -> Case:
    norms = [mechanism.gradient_norm(records) for records in
             _two_data_sets(mechanism.manifold, mechanism.radius, mechanism.n)]  # fmt: skip
    constant = (max(mechanism.lipschitz(r) for r in _two_data_sets(mechanism.manifold, mechanism.radius, mechanism.n)),)

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        sampler = CellSampler(mechanism.domain, mechanism.scale, norms[side], constant, rng)
        (points,) = mechanism.domain.points(sampler.draw(size))
        one, two = (norm(points) for norm in norms)
        return [rounded(score) for score in (two - one, one, two)]

    return Case(mechanism.name, mechanism.manifold, lambda: mechanism.profile, outputs)


def _newton(mechanism: NewtonMechanism) -> Case:
    data = _two_data_sets(mechanism.manifold, mechanism.radius, mechanism.n)

    @cache
    def ends() -> list[np.ndarray]:
        """Where the releases of either data set gather."""
        drawn = (mechanism.simulate(np.random.default_rng(0), records, 999) for records in data)
        return [np.asarray(mechanism.manifold.project(np.median(points, axis=0))) for points in drawn]

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        points = mechanism.simulate(rng, data[side], size)
        one, two = (np.asarray(mechanism.manifold.dist(end, points)) for end in ends())
        return [rounded(two - one), rounded(two**2 - one**2)]

    return Case(mechanism.name, mechanism.manifold, lambda: mechanism.profile, outputs)


def _train(name: str, family: Manifold, coins: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, Guarantee]:
    """Canary k lies far out along ± the k-th axis: its clipped gradient is the k-th axis itself, and no other's is."""
    from curvedp import optim

    m = len(coins)
    manifold = type(family)(m)  # type: ignore[call-arg]  # Euclidean, Sphere, Lorentz: one number
    start = np.asarray(manifold.origin)
    data = np.asarray(manifold.exp(start, manifold.from_coordinates(start, np.diag(1.0 * coins))))
    problem = optim.FrechetMeanProblem(manifold)
    steps, clip, mu = 4, 0.5, 2.0
    noise = sqrt(steps) * 2 * clip / (m * mu)
    if name == "dp_rgd":
        found = optim.dp_rgd(problem, data, start, steps, clip, 0.01, noise=noise, rng=rng)
    elif name == "dp_rsgd":
        found = optim.dp_rsgd(problem, data, start, steps, m // 2, clip, 0.01, noise=noise, rng=rng)
    else:
        found = optim.dp_rsvrg(problem, data, start, 2, 2, m // 2, (clip, clip), 0.01, noise=(noise, noise), rng=rng)
    z = np.asarray(manifold.to_coordinates(start, manifold.log(start, found.point)))
    return z, found.guarantee

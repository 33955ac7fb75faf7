"""Every mechanism on every manifold it is offered for, and every estimator: its claim, and outputs at its worst neighbors.

Noise about a value takes its sensitivity as given. What reads records, and what the certificate of a real fit describes
(`rebuild_mechanism`), is attacked by two data sets that differ in one record, so that a sensitivity that is too small shows.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np

from curvedp.audit.case import Case, Outputs, k_norm_outputs
from curvedp.audit.pairs import data_sets, neighbors, rounded, scores
from curvedp.entropy import GeneratorSource
from curvedp.errors import CurvedpError
from curvedp.estimators import PrivateDispersion, PrivateFrechetMean, PrivateMDM, PrivatePCA
from curvedp.geometry import (
    Correlation,
    CorrelationOffLog,
    Euclidean,
    Grassmann,
    HPDAffineInvariant,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    Simplex,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    SPDLogEuclidean,
    SpecialEuclidean,
    Sphere,
    Stiefel,
    Torus,
)
from curvedp.geometry.base import Manifold
from curvedp.mechanisms import (
    GaussianMechanism,
    KNGMechanism,
    LaplaceMechanism,
    LogGaussianMechanism,
    LogLaplaceMechanism,
)
from curvedp.mechanisms.bundle_descent import BundleDescentMechanism
from curvedp.mechanisms.gradient import GradientMechanism
from curvedp.mechanisms.heat import HeatKernelMechanism
from curvedp.mechanisms.in_private_ball import OuterBallMean
from curvedp.mechanisms.median import GeometricMedian, MedianMechanism
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.mechanisms.private_ball import PrivateBallMechanism
from curvedp.mechanisms.regression import GeodesicLine, KNGRegressionMechanism
from curvedp.mechanisms.stages import StagedMechanism
from curvedp.mechanisms.statistic import FrechetMean
from curvedp.mechanisms.sums import ClippedSum, SumMechanism
from curvedp.mechanisms.value import ValueMechanism
from curvedp.mechanisms.vectors import Noise
from curvedp.mechanisms.verify import rebuild_mechanism
from curvedp.privacy import GDP, PureDP
from curvedp.records.base import open_records

SPACES: tuple[Manifold, ...] = (
    Euclidean(1), Euclidean(3), Sphere(1), Sphere(2), Sphere(20), Lorentz(2), Lorentz(5), PoincareBall(2),
    SPDAffineInvariant(2), SPDAffineInvariant(3), SPDLogEuclidean(3), SPDLogCholesky(3), SPDBuresWasserstein(2),
    HPDAffineInvariant(2), Stiefel(4, 2), Grassmann(4, 2), Grassmann(3, 1), Rotations(3), KendallShapes(4),
    SpecialEuclidean(2), Torus(2), Simplex(3), Correlation(3), CorrelationOffLog(3),
    Product(Lorentz(2), Euclidean(1)),
)  # fmt: skip
# A product whose exact profile would take minutes, and spaces small enough for cells.
CHARTS = (*SPACES, Lorentz(3), Product(Sphere(2), SPDAffineInvariant(2)))
SMALL = (*SPACES, Euclidean(2), SPDLogEuclidean(2), SPDLogCholesky(2), KendallShapes(3))
FEW: tuple[Manifold, ...] = (Sphere(2), SPDAffineInvariant(2))
ROUND: tuple[Manifold, ...] = (Sphere(2), Lorentz(2), PoincareBall(2))
MEANS: tuple[Manifold, ...] = (
    Euclidean(3), Sphere(2), Lorentz(2), PoincareBall(2), SPDAffineInvariant(3), SPDLogEuclidean(3), Grassmann(4, 2),
    Rotations(3), KendallShapes(4), Stiefel(4, 2),
)  # fmt: skip

_CLAIM, _ADDED = GDP(1.0), GDP(1.0, adjacency="add-remove")
_RADIUS = 0.4
_CLIP = 0.25  # of a regression
_WALKS = 20_000  # of mechanisms that are run one release at a time


def cases(shrunk: float = 1.0) -> Iterator[Case]:
    """Everything but the optimizers.

    `shrunk` is what the noise that is drawn is scaled by, while the claim stays: below 1 a cheat that should be caught.
    """
    for make, attacked, spaces in _MECHANISMS:
        for space in spaces:
            try:
                mechanism = make(space)
            except CurvedpError:  # it is not offered there
                continue
            yield attacked(mechanism, shrunk)
    for space in MEANS:
        law = "gaussian" if space.quadric is not None else "log-gaussian"
        yield _estimator(PrivateFrechetMean, space, data_sets(space, _RADIUS, 4), shrunk, manifold=space, mechanism=law)
    chart = {"mechanism": "log-gaussian"}
    for space in (Euclidean(2), Sphere(2), Lorentz(2), SPDAffineInvariant(2)):
        yield _estimator(PrivateDispersion, space, data_sets(space, _RADIUS, 10), shrunk, manifold=space, **chart)
    for space in (Sphere(2), SPDAffineInvariant(3)):
        yield _estimator(PrivateMDM, space, data_sets(space, _RADIUS, 4), shrunk, manifold=space, **chart)
    axes = _RADIUS * np.eye(2)
    yield _estimator(PrivatePCA, Euclidean(2), (axes[[0, 0]], axes), shrunk, n_components=1, method="one-shot")


# ---- mechanisms


def _about_a_value(mechanism: ValueMechanism, shrunk: float) -> Case:
    pair = cache(lambda: neighbors(mechanism))  # found when first needed: a list of all cases costs nothing
    sampler = mechanism.scaled(shrunk)

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        return scores(mechanism, pair(), sampler.simulate(rng, pair()[side], size))

    return Case(mechanism.name, mechanism.manifold, lambda: mechanism.profile, outputs)


def _of_records(mechanism: Any, shrunk: float) -> Case:
    """Releases of either data set, by how much nearer they are to where those of the one gather than to the other's."""
    M = mechanism.manifold
    data = data_sets(M, _RADIUS, mechanism.statistic.n)
    parameters = {**mechanism.parameters, "scale": shrunk * mechanism.scale}
    sampler = type(mechanism).rebuilt(mechanism.statistic, parameters)

    @cache
    def ends() -> list[np.ndarray]:
        drawn = [mechanism.simulate(np.random.default_rng(0), X, 999) for X in data]
        return [np.asarray(M.project(np.median(points, axis=0))) for points in drawn]

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        points = np.asarray(sampler.simulate(rng, data[side], size))
        one, two = (np.asarray(M.dist(end, points)) for end in ends())
        return [rounded(two - one), rounded(two**2 - one**2)]

    return Case(mechanism.name, M, lambda: mechanism.profile, outputs)


def _of_stages(mechanism: StagedMechanism, shrunk: float, ends: tuple[float, float]) -> Case:
    """Whole transcripts, by the logarithm of their likelihood ratio: no score tells more (Neyman & Pearson). One data set
    leads, with noise; the other is led along what was released, so that every stage is asked at the same points. All records
    but one are at the center, which is an edge of bins; that one is far out to one side, or to the other, or with them."""
    M, searched, far = mechanism.manifold, mechanism.statistic, ", one far record" if 0.0 in ends else ""
    data = []
    for end in ends:
        z = np.zeros((searched.n, M.dim))
        z[-1, -1] = end * searched.outer_radius
        data.append(mechanism.accepted(np.asarray(M.unchart(M.origin, z))))

    def walk(X: Any, noisy: Noise) -> None:
        measured = mechanism.numbers(X)
        found, stages = mechanism.walk(measured, noisy)
        if isinstance(mechanism, PrivateBallMechanism):  # the last step, of the same numbers as those before
            mean, moved = measured.clipped(*found)
            stages.ask("last", stages.left, moved, mean)

    def score(rng: np.random.Generator, side: int) -> float:
        path: list[tuple[np.ndarray, float, np.ndarray]] = []

        def lead(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
            path.append((values, scales[0], values + shrunk * scales[0] * rng.standard_normal(values.shape)))
            return path[-1][-1]

        walk(data[side], lead)
        told, found = iter(path), []

        def follow(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
            mine, scale, drawn = next(told)
            found.append(float(np.sum((drawn - values) ** 2 - (drawn - mine) ** 2)) / (2 * scale**2))
            return drawn

        walk(data[1 - side], follow)
        return sum(found) if side == 0 else -sum(found)

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        return [rounded(np.array([score(rng, side) for _ in range(size)]))]

    return Case(f"{mechanism.name}{far}", M, lambda: mechanism.profile, outputs, _WALKS)


def _of_sums(mechanism: SumMechanism, shrunk: float) -> Case:
    """Sums over some records, and over one more of them, across what that one adds."""
    data = data_sets(mechanism.statistic.manifold, _RADIUS, 4)[1]
    totals = [mechanism.accepted(part) for part in (data[:-1], data)]

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        noise = shrunk * mechanism.scale * rng.standard_normal((size, totals[side].size))
        return [rounded((totals[side] + noise) @ (totals[1] - totals[0]))]

    return Case(mechanism.name, mechanism.manifold, lambda: mechanism.profile, outputs)


def _k_norm(mechanism: KNGMechanism, shrunk: float) -> Case:
    data = data_sets(mechanism.manifold, mechanism.radius, mechanism.statistic.n)
    norms, constants = [mechanism.gradient_norm(X) for X in data], [(mechanism.lipschitz(X),) for X in data]
    outputs = k_norm_outputs(mechanism.domain, shrunk * mechanism.scale, norms, constants)
    return Case(mechanism.name, mechanism.manifold, lambda: mechanism.profile, outputs)


def _line(space: Manifold) -> GeodesicLine:
    return GeodesicLine(space, None, 0.5, 0.6, _CLIP, 4, [[0.0, 1.0]])


def _on_a_line(space: Manifold) -> list[tuple[np.ndarray, np.ndarray]]:
    """Four predictors, their responses on one geodesic; the response at its middle lies off it to one side or the other."""
    x = np.array([0.0, 0.3, 1.0, 0.5])
    along, across = np.zeros(space.dim), np.zeros(space.dim)
    along[0], across[-1] = 0.3, 2 * _CLIP
    z = (x - 0.5)[:, None] * along
    sets = []
    for sign in (1, -1):
        z[-1] = sign * across
        sets.append((x, np.asarray(space.unchart(space.origin, z))))
    return sets


def _k_norm_line(mechanism: KNGRegressionMechanism, shrunk: float) -> Case:
    """The K-norm draw of (p, v) on the tangent bundle."""
    space = mechanism.manifold

    @cache
    def draws() -> Outputs:
        one, two = (mechanism.problem(*mechanism.accepted(pair)[:2]) for pair in _on_a_line(space))
        return k_norm_outputs(one.bundle, shrunk * one.scale, (one.norm, two.norm), (one.constants, two.constants))

    return Case(mechanism.name, space, lambda: mechanism.profile, lambda *call: draws()(*call))


def _descent(mechanism: BundleDescentMechanism, shrunk: float) -> Case:
    """All noisy directions of a private descent that stands still, at the center, and its last release: the guarantee
    covers them together, and the likelihood ratio weights each by its precision."""
    space = mechanism.manifold

    @cache
    def seen() -> tuple[list[np.ndarray], list[np.ndarray]]:
        still, origin = np.zeros((1, *space.point_shape)), np.asarray(space.origin)
        ends = [
            mechanism.last_value((x[:, None] - 0.5, Y, np.arange(len(x))), origin, still) for x, Y in _on_a_line(space)
        ]
        return [each[: mechanism.near.size] for each in ends], ends

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        score = np.zeros(size)
        for pair, scale, times in zip(seen(), (mechanism.scale, mechanism.last), (mechanism.steps, 1), strict=True):
            for _ in range(times):
                noisy = pair[side] + shrunk * scale * rng.standard_normal((size, pair[0].size))
                score += noisy @ (pair[0] - pair[1]) / scale**2
        return [rounded(score)]

    return Case(mechanism.name, space, lambda: _CLAIM, outputs)


def _chart_reach(space: Manifold) -> float | None:
    return 0.75 * min(space.convexity_radius, 1.5) if np.isfinite(space.injectivity_radius) else None


def _median(space: Manifold) -> MedianMechanism:
    return MedianMechanism.for_statistic(GeometricMedian(space, None, 1.5, 100), _CLAIM)


def _private_ball(space: Manifold) -> PrivateBallMechanism:
    return PrivateBallMechanism.for_statistic(OuterBallMean(space, None, 1.5, 100), _CLAIM)


# What makes it, how it is attacked, where.
_MECHANISMS: tuple[tuple[Callable[[Manifold], Any], Callable[[Any, float], Case], tuple[Manifold, ...]], ...] = (
    (lambda M: GaussianMechanism(M, 0.5, 0.5), _about_a_value, SPACES),
    (lambda M: LaplaceMechanism(M, 0.3, 0.2), _about_a_value, (*SPACES, Lorentz(4))),
    (lambda M: HeatKernelMechanism(M, 0.5, 0.5), _about_a_value, (Sphere(2), Sphere(3), Lorentz(3), PoincareBall(2))),
    (lambda M: LogGaussianMechanism(M, 0.2, 0.2, M.origin, _chart_reach(M)), _about_a_value, CHARTS),
    (lambda M: LogLaplaceMechanism(M, 0.2, 0.1, M.origin, _chart_reach(M)), _about_a_value, CHARTS),
    (lambda M: KNGMechanism(M, None, 0.5, 2, PureDP(6.0)), _k_norm, SMALL),
    (lambda M: NewtonMechanism.for_statistic(FrechetMean(M, None, 0.5, 4), _CLAIM), _of_records, ROUND),
    (lambda M: GradientMechanism.for_statistic(FrechetMean(M, None, 0.5, 4), _CLAIM), _of_records, MEANS),
    *((make, partial(_of_stages, ends=(1.0, end)), FEW) for make in (_median, _private_ball) for end in (-1.0, 0.0)),
    (lambda M: SumMechanism.for_statistic(ClippedSum(M, None, _RADIUS), _ADDED), _of_sums, MEANS),
    (lambda M: KNGRegressionMechanism.for_statistic(_line(M), PureDP(6.0)), _k_norm_line, SMALL),
    (lambda M: BundleDescentMechanism.for_statistic(_line(M), _CLAIM), _descent, SPACES),
)


# ---- estimators


def _estimator(kind: type, space: Manifold, data: tuple[np.ndarray, np.ndarray], shrunk: float, **options: Any) -> Case:
    """Noise about the statistics of two data sets, drawn as the certificate of a fit says."""

    @cache
    def release() -> tuple[Any, tuple[np.ndarray, ...]]:
        source = GeneratorSource(np.random.default_rng(0))
        model = kind(radius=_RADIUS, guarantee=_CLAIM, source=source, **options)
        if kind is PrivateMDM:  # another class, which stays as it is
            model.fit(np.concatenate([data[0], data[0], data[0]]), np.repeat([0, 1, 1], len(data[0])))
            certificate = model.certificates_[0]
        else:
            certificate = model.fit(data[0]).certificate_
        mechanism = rebuild_mechanism(certificate)
        return mechanism, tuple(mechanism.statistic.of(open_records(X, space.point_shape)) for X in data)

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        mechanism, (one, two) = release()
        drawn = mechanism.scaled(shrunk).simulate(rng, (one, two)[side], size)
        return scores(mechanism, (one, two), drawn)

    return Case(kind.__name__, space, lambda: _CLAIM, outputs)

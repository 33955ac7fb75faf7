"""The estimators, from records to release: two data sets that differ in one record, and what `fit` would publish of each.

A statistic's noise is drawn by the mechanism that the certificate of a real fit describes (`rebuild_mechanism`), about the
statistic of either data set: a sensitivity that is too small shows here, while `cases.py` takes sensitivities as given.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from curvedp.audit.case import Case, Outputs, k_norm_outputs, with_less_noise
from curvedp.audit.pairs import data_sets, rounded, scores
from curvedp.entropy import GeneratorSource
from curvedp.estimators import PrivateDispersion, PrivateFrechetMean, PrivateMDM, PrivatePCA
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Rotations,
    SPDAffineInvariant,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
    frechet_mean,
)
from curvedp.geometry.base import Manifold
from curvedp.mechanisms.regression import BundleDescentMechanism, GeodesicLine, KNGRegressionMechanism
from curvedp.mechanisms.verify import rebuild_mechanism
from curvedp.privacy import GDP, PureDP
from curvedp.regression.bounds import DEVIATION
from curvedp.regression.gradient import clipped_direction

__all__ = ["estimator_cases"]

MEAN: tuple[Manifold, ...] = (
    Euclidean(3), Sphere(2), Lorentz(2), PoincareBall(2), SPDAffineInvariant(3), SPDLogEuclidean(3), Grassmann(4, 2),
    Rotations(3), KendallShapes(4), Stiefel(4, 2),
)  # fmt: skip
SPREAD: tuple[Manifold, ...] = (Euclidean(2), Sphere(2), Lorentz(2), SPDAffineInvariant(2))
CLASSES: tuple[Manifold, ...] = (Sphere(2), SPDAffineInvariant(3))
BUNDLES: tuple[Manifold, ...] = (Euclidean(1), Euclidean(2), Sphere(1), Sphere(2), Lorentz(2), PoincareBall(2))
DESCENTS: tuple[Manifold, ...] = (
    Euclidean(3),
    Sphere(2),
    SPDAffineInvariant(3),
    Rotations(3),
    KendallShapes(4),
    Grassmann(4, 2),
)

_CLAIM = GDP(1.0)
_RADIUS = 0.4


def estimator_cases(shrunk: float = 1.0) -> Iterator[Case]:
    """Every estimator on the kinds of manifolds it is offered for; `shrunk` as for `mechanism_cases`."""
    for space in MEAN:
        yield _statistic(PrivateFrechetMean, space, _mean, shrunk)
    for space in SPREAD:
        yield _statistic(PrivateDispersion, space, _variance, shrunk, n=10)
    for space in CLASSES:
        yield _statistic(PrivateMDM, space, _mean, shrunk)
    yield _second_moment(shrunk)
    for space in BUNDLES:
        yield _joint_regression(space, shrunk)
    for space in DESCENTS:
        yield _descent(space, shrunk)


def _source() -> GeneratorSource:
    return GeneratorSource(np.random.default_rng(0))


def _mean(space: Manifold, records: np.ndarray) -> np.ndarray:
    return np.asarray(frechet_mean(space, records))


def _variance(space: Manifold, records: np.ndarray) -> np.ndarray:
    return np.array([np.mean(np.asarray(space.dist(frechet_mean(space, records), records)) ** 2)])


def _statistic(
    kind: type, space: Manifold, statistic: Callable[[Manifold, np.ndarray], np.ndarray], shrunk: float, n: int = 4
) -> Case:
    """Noise about a statistic of records that are all at one end of the ball, one of them moved to the other end."""
    data = data_sets(space, _RADIUS, n)

    @cache
    def release() -> tuple[Any, tuple[np.ndarray, np.ndarray]]:
        law = "gaussian" if space.quadric is not None and kind is PrivateFrechetMean else "log-gaussian"
        model = kind(space, radius=_RADIUS, guarantee=_CLAIM, mechanism=law, source=_source())
        if kind is PrivateMDM:  # another class, which stays as it is
            model.fit(np.concatenate([data[0], data[0], data[0]]), np.repeat([0, 1], [n, 2 * n]))
            certificate = model.certificates_[0]
        else:
            certificate = model.fit(data[0]).certificate_
        return rebuild_mechanism(certificate), (statistic(space, data[0]), statistic(space, data[1]))

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        mechanism, values = release()
        return scores(mechanism, values, with_less_noise(mechanism, shrunk).simulate(rng, values[side], size))

    return Case(kind.__name__, space, lambda: _CLAIM, outputs)


def _second_moment(shrunk: float) -> Case:
    """Two records, both e₁ or one of them e₂: the moments are diag(1, 0) and I/2; what leaves is an eigenvector."""
    data = np.array([[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])

    @cache
    def mechanism() -> Any:
        model = PrivatePCA(1, radius=1.0, method="one-shot", guarantee=_CLAIM, source=_source())
        return rebuild_mechanism(model.fit(data[0]).certificate_)

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        moment = data[side].T @ data[side] / 2
        packed = np.array([moment[0, 0], moment[1, 1], np.sqrt(2) * moment[0, 1]])
        a, b, c = with_less_noise(mechanism(), shrunk).simulate(rng, packed, size).T
        angle = np.arctan2(np.sqrt(2) * c, a - b) / 2  # of the leading eigenvector of [[a, c/√2], [c/√2, b]]
        return [rounded(np.cos(angle) ** 2)]

    return Case("PrivatePCA", Euclidean(2), lambda: _CLAIM, outputs)


def _on_a_line(space: Manifold, clip: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Four predictors, their responses on one geodesic; the response at its middle lies off it to one side or the other."""
    x = np.array([0.0, 0.3, 1.0, 0.5])
    along, across = np.zeros(space.dim), np.zeros(space.dim)
    along[0], across[-1] = 0.3, 2 * clip
    z = (x - 0.5)[:, None] * along
    sets = []
    for sign in (1, -1):
        z[-1] = sign * across
        sets.append((x, np.asarray(space.exp(space.origin, space.from_coordinates(space.origin, z)))))
    return sets


def _joint_regression(space: Manifold, shrunk: float) -> Case:
    """The K-norm draw of (p, v) on the tangent bundle."""
    clip, eps = 0.25, 6.0
    data = _on_a_line(space, clip)

    @cache
    def draws() -> Outputs:
        line = GeodesicLine(space, None, 0.5, 0.6, clip, 4, [[0.0, 1.0]])
        mechanism = KNGRegressionMechanism.for_statistic(line, PureDP(eps))
        one, two = (mechanism.problem(*line.accepted(pair)) for pair in data)
        return k_norm_outputs(one.bundle, shrunk * one.scale, (one.norm, two.norm), (one.constants, two.constants))

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        return draws()(rng, side, size)

    return Case("regression-kng", space, lambda: PureDP(eps), outputs)


def _descent(space: Manifold, shrunk: float) -> Case:
    """All noisy directions of a private descent that stands still, at the centre: the guarantee covers every step's."""
    clip = 0.25
    data = _on_a_line(space, clip)

    @cache
    def plan() -> Any:
        line = GeodesicLine(space, None, 0.5, 0.6, clip, 4, [[0.0, 1.0]])
        return BundleDescentMechanism.for_statistic(line, _CLAIM)

    @cache
    def directions() -> list[np.ndarray]:
        still = np.zeros((1, *space.point_shape))
        return [
            clipped_direction(
                space, (x[:, None] - 0.5) / DEVIATION, DEVIATION, Y, clip, np.asarray(space.origin), still
            )
            for x, Y in data
        ]

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        one, two = (direction.ravel() for direction in directions())
        seen = np.zeros((size, one.size))
        for _ in range(plan().steps):
            seen += directions()[side].ravel() + shrunk * plan().scale * rng.standard_normal(seen.shape)
        return [rounded(seen @ (one - two))]

    return Case("regression-dp-rgd", space, lambda: _CLAIM, outputs)

"""Every mechanism on every manifold it is offered for, and every estimator: its claim, and outputs at its worst neighbors.

AddNoise about a value takes its sensitivity as given. What reads records, and what the certificate of a real fit describes
(`rebuild_mechanism`), is attacked by two data sets that differ in one record, so that a sensitivity that is too small shows.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from curvedp.audit.empirical import (
    AuditResult,
    audit_scores,
    data_sets,
    neighbors,
    rounded,
    scores,
)
from curvedp.entropy import GeneratorSource
from curvedp.errors import CurvedpError
from curvedp.estimators import (
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateMDM,
    PrivatePCA,
)
from curvedp.geometry import Euclidean, parse_manifold
from curvedp.geometry.capabilities import UnitQuadric
from curvedp.geometry.manifold import Manifold
from curvedp.laws.cells import CellSampler, LocalConstants
from curvedp.laws.domains import GeodesicBall
from curvedp.mechanisms import GaussianMechanism, KNGMechanism, LaplaceMechanism
from curvedp.mechanisms.geodesic_descent import BundleDescentMechanism
from curvedp.mechanisms.geodesic_knorm import KNGRegressionMechanism
from curvedp.mechanisms.gradient_step import GradientMechanism
from curvedp.mechanisms.isotropic.base import ValueMechanism
from curvedp.mechanisms.isotropic.tangent import (
    LogGaussianMechanism,
    LogLaplaceMechanism,
)
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.mechanisms.noisy_sum import SumMechanism
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.mechanisms.staged.budget import StagedMechanism
from curvedp.mechanisms.staged.median import MedianMechanism
from curvedp.mechanisms.vector import AddNoise
from curvedp.privacy import GDP, Guarantee, PureDP
from curvedp.records.base import open_records
from curvedp.release.rebuild import rebuild_mechanism
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.geodesic import GeodesicLine, RegressionData
from curvedp.statistics.geometric_median import GeometricMedian
from curvedp.statistics.noisy_sums import ClippedSum
from curvedp.statistics.searched_ball import SearchedMean

_BLOCK = 100_000

Outputs = Callable[[np.random.Generator, int, int], list[np.ndarray]]


class Case(NamedTuple):
    """A claim, and `outputs(rng, side, size)`: rows of scores of outputs at the first or second of two neighbors."""

    mechanism: str
    manifold: Manifold
    claim: Callable[[], Guarantee]
    outputs: Outputs
    most: int | None = None  # outputs a side, where each takes milliseconds

    def audit(
        self, samples: int, delta: float, confidence: float, rng: np.random.Generator
    ) -> AuditResult:
        """Attack with at most `samples` outputs a side, drawn in blocks so that memory stays flat."""
        samples, sides = min(samples, self.most or samples), []
        for side in (0, 1):
            sizes = [
                min(_BLOCK, samples - start) for start in range(0, samples, _BLOCK)
            ]
            parts = [self.outputs(rng, side, size) for size in sizes]
            sides.append([np.concatenate(rows) for rows in zip(*parts, strict=True)])
        return audit_scores(self.claim(), *sides, delta=delta, confidence=confidence)


def k_norm_outputs(
    domain: GeodesicBall,
    scale: float,
    norms: Sequence[Callable[..., np.ndarray]],
    constants: Sequence[tuple[float, ...] | LocalConstants],
) -> Outputs:
    """Exact draws of exp(−norm/scale) for either norm; as scores both norms and their difference, the log likelihood ratio up
    to the normalizers. Cells are kept from block to block."""
    samplers: dict[int, tuple[np.random.Generator, CellSampler]] = {}

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        if side not in samplers or samplers[side][0] is not rng:
            samplers[side] = (
                rng,
                CellSampler(domain, scale, norms[side], constants[side], rng),
            )
        points: tuple[Any, ...] = domain.points(samplers[side][1].draw(size))
        one, two = (np.asarray(norm(*points)) for norm in norms)
        return [rounded(score) for score in (two - one, one, two)]

    return outputs


def _spaces(names: str) -> tuple[Manifold, ...]:
    return tuple(map(parse_manifold, names.split()))


SPACES = _spaces(
    "euclidean:1 euclidean:3 sphere:1 sphere:2 sphere:20 lorentz:2 lorentz:5 poincare:2 spd-affine:2 spd-affine:3 "
    "spd-log-euclidean:3 spd-log-cholesky:3 spd-bures:2 hpd-affine:2 stiefel:4,2 grassmann:4,2 grassmann:3,1 rotations:3 "
    "kendall:4 special-euclidean:2,1 torus:2 simplex:3 correlation:3 correlation-offlog:3 product(lorentz:2,euclidean:1)"
)
# A product whose exact profile would take minutes, and spaces small enough for cells.
CHARTS = (*SPACES, *_spaces("lorentz:3 product(sphere:2,spd-affine:2)"))
SMALL = (
    *SPACES,
    *_spaces("euclidean:2 spd-log-euclidean:2 spd-log-cholesky:2 kendall:3"),
)
FEW, ROUND = _spaces("sphere:2 spd-affine:2"), _spaces("sphere:2 lorentz:2 poincare:2")
MEANS = _spaces(
    "euclidean:3 sphere:2 lorentz:2 poincare:2 spd-affine:3 spd-log-euclidean:3 grassmann:4,2 rotations:3 kendall:4 "
    "stiefel:4,2"
)

_CLAIM, _ADDED = GDP(1.0), GDP(1.0, adjacency="add-remove")
_RADIUS = 0.4
_CLIP = 0.25  # of a regression
_WALKS = 20_000  # of mechanisms that are run one release at a time


def cases(shrunk: float = 1.0) -> Iterator[Case]:
    """Everything but the optimizers. `shrunk` scales the noise that is drawn, while the claim stays: below 1 a cheat that
    should be caught."""
    for make, attacked, spaces in _MECHANISMS:
        for space in spaces:
            try:
                mechanism = make(space)
            except CurvedpError:  # it is not offered there
                continue
            yield attacked(mechanism, shrunk)
    for space in MEANS:
        law = "gaussian" if isinstance(space, UnitQuadric) else "tangent-gaussian"
        yield _estimator(
            PrivateFrechetMean,
            space,
            data_sets(space, _RADIUS, 4),
            shrunk,
            manifold=space,
            mechanism=law,
        )
    chart = {"mechanism": "tangent-gaussian"}
    for space in _spaces("euclidean:2 sphere:2 lorentz:2 spd-affine:2"):
        yield _estimator(
            PrivateDispersion,
            space,
            data_sets(space, _RADIUS, 10),
            shrunk,
            manifold=space,
            **chart,
        )
    for space in _spaces("sphere:2 spd-affine:3"):
        yield _estimator(
            PrivateMDM,
            space,
            data_sets(space, _RADIUS, 4),
            shrunk,
            manifold=space,
            **chart,
        )
    axes = _RADIUS * np.eye(2)
    yield _estimator(
        PrivatePCA,
        Euclidean(2),
        (axes[[0, 0]], axes),
        shrunk,
        n_components=1,
        method="one-shot",
    )


def _about_a_value(mechanism: ValueMechanism, shrunk: float) -> Case:
    pair = cache(
        lambda: neighbors(mechanism)
    )  # found when first needed: a list of all cases costs nothing
    sampler = mechanism.with_scaled_noise(shrunk)

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        return scores(
            mechanism, pair(), sampler.simulate_draws(rng, pair()[side], size)
        )

    return Case(
        mechanism.info.name,
        mechanism.statistic.value_space,
        lambda: mechanism.privacy_profile,
        outputs,
    )


def _of_records(mechanism: Any, shrunk: float) -> Case:
    """Releases of either data set, by how much nearer they are to where those of the one gather than to the other's."""
    M = mechanism.manifold
    data = data_sets(M, _RADIUS, mechanism.statistic.n)
    parameters = {**mechanism.parameters, "scale": shrunk * mechanism.scale}
    sampler = type(mechanism).from_parameters(mechanism.statistic, parameters)

    @cache
    def ends() -> list[np.ndarray]:
        drawn = [
            mechanism.simulate_draws(np.random.default_rng(0), X, 999) for X in data
        ]
        return [np.asarray(M.project(np.median(points, axis=0))) for points in drawn]

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        points = np.asarray(sampler.simulate_draws(rng, data[side], size))
        one, two = (np.asarray(M.dist(end, points)) for end in ends())
        return [rounded(two - one), rounded(two**2 - one**2)]

    return Case(mechanism.info.name, M, lambda: mechanism.privacy_profile, outputs)


def _of_stages(
    mechanism: StagedMechanism, shrunk: float, ends: tuple[float, float]
) -> Case:
    """Whole transcripts, by the logarithm of their likelihood ratio: no score tells more (Neyman & Pearson). One data set
    leads, with noise; the other is led along what was released, so that every stage is asked at the same points. All records
    but one are at the center, which is an edge of bins; that one is far out to one side, or to the other, or with them."""
    M = mechanism.manifold
    searched: Any = mechanism.statistic
    far = ", one far record" if 0.0 in ends else ""
    data = []
    for end in ends:
        z = np.zeros((searched.n, M.dim))
        z[-1, -1] = end * searched.outer_radius
        data.append(
            mechanism.prepare_data(np.asarray(M.from_normal_coordinates(M.origin, z)))
        )

    def walk(X: Any, noisy: AddNoise) -> None:
        queries = mechanism.queries(X)
        found, budget = mechanism.run(queries, noisy)
        if isinstance(
            mechanism, PrivateBallMechanism
        ):  # the last step, of the same numbers as those before
            answer = queries.mean_clipped_log(*found)
            budget.release("last", budget.share_left, answer.sensitivity, answer.values)

    def score(rng: np.random.Generator, side: int) -> float:
        path: list[tuple[np.ndarray, float, np.ndarray]] = []

        def lead(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
            path.append(
                (
                    values,
                    scales[0],
                    values + shrunk * scales[0] * rng.standard_normal(values.shape),
                )
            )
            return path[-1][-1]

        walk(data[side], lead)
        told, found = iter(path), []

        def follow(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
            mine, scale, drawn = next(told)
            found.append(
                float(np.sum((drawn - values) ** 2 - (drawn - mine) ** 2))
                / (2 * scale**2)
            )
            return drawn

        walk(data[1 - side], follow)
        return sum(found) if side == 0 else -sum(found)

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        return [rounded(np.array([score(rng, side) for _ in range(size)]))]

    return Case(
        f"{mechanism.info.name}{far}",
        M,
        lambda: mechanism.privacy_profile,
        outputs,
        _WALKS,
    )


def _of_sums(mechanism: SumMechanism, shrunk: float) -> Case:
    """Sums over some records, and over one more of them, across what that one adds."""
    statistic: Any = mechanism.statistic
    data = data_sets(statistic.manifold, _RADIUS, 4)[1]
    totals = [mechanism.prepare_data(part) for part in (data[:-1], data)]

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        noise = (
            shrunk * mechanism.scale * rng.standard_normal((size, totals[side].size))
        )
        return [rounded((totals[side] + noise) @ (totals[1] - totals[0]))]

    return Case(
        mechanism.info.name,
        mechanism.statistic.value_space,
        lambda: mechanism.privacy_profile,
        outputs,
    )


def _k_norm(mechanism: KNGMechanism, shrunk: float) -> Case:
    data = data_sets(
        mechanism.manifold, mechanism.statistic.radius, mechanism.statistic.n
    )
    norms, constants = (
        [mechanism.gradient_norm(X) for X in data],
        [(mechanism.lipschitz_constant(X),) for X in data],
    )
    outputs = k_norm_outputs(
        mechanism.domain, shrunk * mechanism.scale, norms, constants
    )
    return Case(
        mechanism.info.name,
        mechanism.statistic.value_space,
        lambda: mechanism.privacy_profile,
        outputs,
    )


def _line(space: Manifold) -> GeodesicLine:
    return GeodesicLine(space, None, 0.5, 0.6, _CLIP, 4, [[0.0, 1.0]])


def _on_a_line(space: Manifold) -> list[tuple[np.ndarray, np.ndarray]]:
    """Four predictors, their responses on one geodesic; the response at its middle lies off it to one side or the other."""
    x = np.array([0.0, 0.3, 1.0, 0.5])
    along, across = np.zeros(space.dim), np.zeros(space.dim)
    along[0], across[-1] = 0.3, 2 * _CLIP
    z = (x - 0.5)[:, None] * along  # 0 at the middle
    middle = np.eye(4)[:, 3:]
    return [
        (
            x,
            np.asarray(
                space.from_normal_coordinates(space.origin, z + sign * middle * across)
            ),
        )
        for sign in (1, -1)
    ]


def _k_norm_line(mechanism: KNGRegressionMechanism, shrunk: float) -> Case:
    """The K-norm draw of (p, v) on the tangent bundle."""
    space = mechanism.manifold

    @cache
    def draws() -> Outputs:
        one, two = (
            mechanism.build_problem(*mechanism.prepare_data(pair)[:2])
            for pair in _on_a_line(space)
        )
        return k_norm_outputs(
            one.bundle,
            shrunk * one.scale,
            (one.norm, two.norm),
            (one.constants, two.constants),
        )

    return Case(
        mechanism.info.name,
        space,
        lambda: mechanism.privacy_profile,
        lambda *call: draws()(*call),
    )


def _descent(mechanism: BundleDescentMechanism, shrunk: float) -> Case:
    """All noisy directions of a private descent that stands still, at the center, and its last release: the guarantee
    covers them together, and the likelihood ratio weights each by its precision."""
    space = mechanism.manifold

    @cache
    def seen() -> tuple[list[np.ndarray], list[np.ndarray]]:
        still, origin = np.zeros((1, *space.point_shape)), np.asarray(space.origin)
        data = [(x[:, None] - 0.5, Y, np.arange(len(x))) for x, Y in _on_a_line(space)]
        ends = [
            mechanism.final_values(RegressionData(*each), origin, still)
            for each in data
        ]
        return [each[: mechanism.neighborhood.direction_size] for each in ends], ends

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        score = np.zeros(size)
        for pair, scale, times in zip(
            seen(),
            (mechanism.scale, mechanism.final_scale),
            (mechanism.steps, 1),
            strict=True,
        ):
            for _ in range(times):
                noisy = pair[side] + shrunk * scale * rng.standard_normal(
                    (size, pair[0].size)
                )
                score += noisy @ (pair[0] - pair[1]) / scale**2
        return [rounded(score)]

    return Case(mechanism.info.name, space, lambda: _CLAIM, outputs)


def _chart_reach(space: Manifold) -> float | None:
    return (
        0.75 * min(space.convexity_radius, 1.5)
        if np.isfinite(space.injectivity_radius)
        else None
    )


def _staged(mechanism: Any, statistic: Any, space: Manifold) -> Any:
    return mechanism.calibrate(statistic(space, None, 1.5, 100), _CLAIM)


_STAGED = (
    partial(_staged, MedianMechanism, GeometricMedian),
    partial(_staged, PrivateBallMechanism, SearchedMean),
)
# What makes it, how it is attacked, where.
_MECHANISMS: tuple[
    tuple[
        Callable[[Manifold], Any], Callable[[Any, float], Case], tuple[Manifold, ...]
    ],
    ...,
] = (
    (lambda M: GaussianMechanism(M, 0.5, 0.5), _about_a_value, SPACES),
    (
        lambda M: LaplaceMechanism(M, 0.3, 0.2),
        _about_a_value,
        (*SPACES, *_spaces("lorentz:4")),
    ),
    (
        lambda M: LogGaussianMechanism(M, 0.2, 0.2, M.origin, _chart_reach(M)),
        _about_a_value,
        CHARTS,
    ),
    (
        lambda M: LogLaplaceMechanism(M, 0.2, 0.1, M.origin, _chart_reach(M)),
        _about_a_value,
        CHARTS,
    ),
    (lambda M: KNGMechanism(M, None, 0.5, 2, PureDP(6.0)), _k_norm, SMALL),
    (
        lambda M: NewtonMechanism.calibrate(FrechetMean(M, None, 0.5, 4), _CLAIM),
        _of_records,
        ROUND,
    ),
    (
        lambda M: GradientMechanism.calibrate(FrechetMean(M, None, 0.5, 4), _CLAIM),
        _of_records,
        MEANS,
    ),
    *(
        (make, partial(_of_stages, ends=(1.0, end)), FEW)
        for make in _STAGED
        for end in (-1.0, 0.0)
    ),
    (
        lambda M: SumMechanism.calibrate(ClippedSum(M, None, _RADIUS), _ADDED),
        _of_sums,
        MEANS,
    ),
    (
        lambda M: KNGRegressionMechanism.calibrate(_line(M), PureDP(6.0)),
        _k_norm_line,
        SMALL,
    ),
    (
        lambda M: BundleDescentMechanism.calibrate(_line(M), _CLAIM),
        _descent,
        SPACES,
    ),
)


def _estimator(
    kind: type,
    space: Manifold,
    data: tuple[np.ndarray, np.ndarray],
    shrunk: float,
    **options: Any,
) -> Case:
    """AddNoise about the statistics of two data sets, drawn as the certificate of a fit says."""

    @cache
    def release() -> tuple[Any, tuple[np.ndarray, ...]]:
        model = kind(
            radius=_RADIUS,
            guarantee=_CLAIM,
            source=GeneratorSource(np.random.default_rng(0)),
            **options,
        )
        if kind is PrivateMDM:  # another class, which stays as it is
            model.fit(
                np.concatenate([data[0], data[0], data[0]]),
                np.repeat([0, 1, 1], len(data[0])),
            )
            certificate = model.certificates_[0]
        else:
            certificate = model.fit(data[0]).certificate_
        mechanism = rebuild_mechanism(certificate)
        return mechanism, tuple(
            mechanism.statistic.compute(open_records(X, space.point_shape))
            for X in data
        )

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        mechanism, (one, two) = release()
        return scores(
            mechanism,
            (one, two),
            mechanism.with_scaled_noise(shrunk).simulate_draws(
                rng, (one, two)[side], size
            ),
        )

    return Case(kind.__name__, space, lambda: _CLAIM, outputs)

"""Attacks on the privacy claims of all mechanisms and estimators. A `Case` draws
*outputs* of one mechanism at two neighboring data sets, and computes numbers from them
(*scores*). If the scores differ too much between the data sets, the claimed guarantee
is refuted.

Each `Case` is one mechanism on one manifold, with the guarantee that it claims. For a
mechanism that adds noise to a value, the sensitivity is taken as stated. Mechanisms
that read records, and estimators, are attacked with two data sets that differ in one
record, so that a sensitivity that is too small is detected. An estimator's mechanism is
rebuilt from the certificate of a real fit (`rebuild_mechanism`).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, cast

import numpy as np

from curvedp.audit.empirical import (
    AuditResult,
    audit_scores,
    data_sets,
    neighbors,
    rounded,
    scores,
)
from curvedp.core.certificate import Certificate
from curvedp.core.mechanism import mechanism_from_parameters
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
from curvedp.laws.knorm import (
    GeodesicBall,
    LipschitzRejectionSampler,
    LocalLipschitzBounds,
)
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
from curvedp.mechanisms.staged.kmeans import KMeansMechanism
from curvedp.mechanisms.staged.median import MedianMechanism
from curvedp.mechanisms.staged.population import (
    CellTreeMechanism,
    GaussianMixture,
    PopulationMechanism,
    WrappedGaussian,
)
from curvedp.mechanisms.staged.step_to_mean import StepToMeanMechanism
from curvedp.mechanisms.vector import AddNoise
from curvedp.privacy import GDP, PrivacyCurve, PureDP
from curvedp.randomness import GeneratorSource
from curvedp.records.base import open_records
from curvedp.release.rebuild import rebuild_mechanism
from curvedp.statistics.clusters import Clusters
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.geodesic import GeodesicLine, RegressionData
from curvedp.statistics.geometric_median import GeometricMedian
from curvedp.statistics.noisy_sums import ClippedSum
from curvedp.statistics.population import SyntheticPopulation
from curvedp.statistics.searched_ball import SearchedMean
from curvedp.statistics.tangent_moments import TangentMomentsNearMean

# How many outputs are drawn at once; this bounds the memory of an audit.
_BLOCK_SIZE = 100_000

# outputs(rng, side, size) draws `size` outputs at the first (side 0) or second (side 1)
# of two neighbors and returns a list of scores, each an array of that size.
Outputs = Callable[[np.random.Generator, int, int], list[np.ndarray]]

# Builds the case of a mechanism whose noise is drawn with the scale times a factor.
Attack = Callable[[Any, float], "Case"]


class Case(NamedTuple):
    """A claim and the outputs with which it is attacked.

    Attributes
    ----------
    mechanism : str
        The name of the mechanism or estimator.
    manifold : Manifold
        The manifold on which it is attacked.
    claim : callable
        Returns the guarantee that is claimed; called when the audit needs it.
    outputs : callable
        outputs(rng, side, size) returns scores of `size` outputs at the first (side 0)
        or second (side 1) of two neighbors.
    most : int, optional
        The largest number of outputs at each neighbor, for mechanisms of which one
        draw takes milliseconds.
    """

    mechanism: str
    manifold: Manifold
    claim: Callable[[], PrivacyCurve]
    outputs: Outputs
    most: int | None = None

    def audit(
        self, samples: int, delta: float, confidence: float, rng: np.random.Generator
    ) -> AuditResult:
        """Attack the claim with at most `samples` outputs at each neighbor.

        Parameters
        ----------
        samples : int
            The number of outputs at each neighbor; `most` bounds it.
        delta : float
            The δ at which ε is bounded.
        confidence : float
            The probability with which the lower bounds are true.
        rng : numpy.random.Generator
            The generator of the outputs.

        Returns
        -------
        AuditResult
            The claim and the proved lower bounds.
        """
        if self.most is not None:
            samples = min(samples, self.most)
        first_scores = self._draw_in_blocks(rng, 0, samples)
        second_scores = self._draw_in_blocks(rng, 1, samples)
        return audit_scores(
            self.claim(),
            first_scores,
            second_scores,
            delta=delta,
            confidence=confidence,
        )

    def _draw_in_blocks(
        self, rng: np.random.Generator, side: int, samples: int
    ) -> list[np.ndarray]:
        """Return the scores of many outputs, which are drawn a block at a time.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the outputs.
        side : {0, 1}
            Whether outputs are drawn at the first or at the second data set.
        samples : int
            The number of outputs.

        Returns
        -------
        list of arrays of shape (samples,)
            One array for each score.
        """
        block_sizes = [
            min(_BLOCK_SIZE, samples - start)
            for start in range(0, samples, _BLOCK_SIZE)
        ]
        blocks = [self.outputs(rng, side, size) for size in block_sizes]
        return [np.concatenate(score) for score in zip(*blocks, strict=True)]


def k_norm_outputs(
    domain: GeodesicBall,
    scale: float,
    norms: Sequence[Callable[..., np.ndarray]],
    constants: Sequence[tuple[float, ...] | LocalLipschitzBounds],
) -> Outputs:
    """Return a function that draws outputs of a K-norm mechanism and scores them.

    At each data set the density is proportional to exp(−norm/scale), with the norm of
    that data set, and is drawn exactly. The scores are the difference of the two norms,
    which is the log likelihood ratio up to scale and normalizers, and the two norms
    themselves.

    Parameters
    ----------
    domain : GeodesicBall
        The domain of the density.
    scale : float
        The scale of the density.
    norms : two callables
        The norm of the objective's gradient at each of the two data sets.
    constants : two tuples or LocalLipschitzBounds
        The Lipschitz constants of each norm.

    Returns
    -------
    callable
        outputs(rng, side, size) returns the scores of `size` outputs at the first data
        set (side 0) or at the second one (side 1).
    """
    samplers: dict[int, tuple[np.random.Generator, LipschitzRejectionSampler]] = {}

    def sampler_at(rng: np.random.Generator, side: int) -> LipschitzRejectionSampler:
        """Return the sampler of a data set, whose refined cells are used again.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the outputs. Another one gets a new sampler.
        side : {0, 1}
            Whether outputs are drawn at the first or at the second data set.
        """
        if side not in samplers or samplers[side][0] is not rng:
            sampler = LipschitzRejectionSampler(
                domain, scale, norms[side], constants[side], rng
            )
            samplers[side] = (rng, sampler)
        return samplers[side][1]

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        """Draw outputs at one data set, and return their three scores.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the outputs.
        side : {0, 1}
            Whether outputs are drawn at the first or at the second data set.
        size : int
            The number of outputs.
        """
        points: tuple[Any, ...] = domain.points(sampler_at(rng, side).draw(size))
        first_norm = np.asarray(norms[0](*points))
        second_norm = np.asarray(norms[1](*points))
        return [
            rounded(second_norm - first_norm),
            rounded(first_norm),
            rounded(second_norm),
        ]

    return outputs


def _spaces(names: str) -> tuple[Manifold, ...]:
    """Return the manifolds whose names are given, separated by blanks.

    Parameters
    ----------
    names : str
        Names such as "sphere:2 spd-affine:3".
    """
    return tuple(map(parse_manifold, names.split()))


# Manifolds on which every mechanism is tried.
SPACES = _spaces(
    "euclidean:1 euclidean:3 sphere:1 sphere:2 sphere:20 lorentz:2 lorentz:5 "
    "poincare:2 spd-affine:2 spd-affine:3 spd-log-euclidean:3 spd-log-cholesky:3 "
    "spd-bures:2 hpd-affine:2 stiefel:4,2 grassmann:4,2 grassmann:3,1 rotations:3 "
    "kendall:4 special-euclidean:2,1 torus:2 simplex:3 correlation:3 "
    "correlation-offlog:3 product(lorentz:2,euclidean:1)"
)
# For noise in a chart: also a product whose exact privacy profile would take minutes.
CHARTS = (*SPACES, *_spaces("lorentz:3 product(sphere:2,spd-affine:2)"))
# For K-norm mechanisms: also manifolds small enough for the sampler's cells.
SMALL = (
    *SPACES,
    *_spaces("euclidean:2 spd-log-euclidean:2 spd-log-cholesky:2 kendall:3"),
)
# For staged mechanisms, which are slow.
FEW = _spaces("sphere:2 spd-affine:2")
# For the Newton mechanism, which needs constant curvature.
ROUND = _spaces("sphere:2 lorentz:2 poincare:2")
# For mechanisms that release a Fréchet mean of records.
MEANS = _spaces(
    "euclidean:3 sphere:2 lorentz:2 poincare:2 spd-affine:3 spd-log-euclidean:3 "
    "grassmann:4,2 rotations:3 kendall:4 stiefel:4,2"
)

# What the attacked mechanisms and estimators claim, unless they are for pure DP.
_CLAIM = GDP(1.0)
_ADD_REMOVE_CLAIM = GDP(1.0, adjacency="add-remove")

# The radius of the public ball of records.
_RADIUS = 0.4

# The length to which a regression clips residuals.
_CLIP = 0.25

# The largest number of outputs of a mechanism that is run one release at a time.
_STAGED_RUNS = 20_000


def cases(noise_factor: float = 1.0) -> Iterator[Case]:
    """Yield the cases of all mechanisms and estimators, but not of the optimizers.

    Parameters
    ----------
    noise_factor : float
        The factor by which the noise that is drawn is scaled, while the claim stays. A
        factor below 1 is a wrong mechanism that the audit should detect.

    Yields
    ------
    Case
        A mechanism on a manifold that it supports, with the attack on it.
    """
    for build_mechanism, attack, spaces in _MECHANISMS:
        for space in spaces:
            try:
                mechanism = build_mechanism(space)
            except CurvedpError:
                # The mechanism does not support this manifold.
                continue
            yield attack(mechanism, noise_factor)
    yield from _estimator_cases(noise_factor)


def _estimator_cases(noise_factor: float) -> Iterator[Case]:
    """Yield the cases of the estimators.

    Parameters
    ----------
    noise_factor : float
        The factor by which the noise that is drawn is scaled, while the claim stays.

    Yields
    ------
    Case
        An estimator on a manifold, with the attack on its mechanism.
    """
    for space in MEANS:
        is_quadric = isinstance(space, UnitQuadric)
        yield _attack_estimator(
            PrivateFrechetMean,
            space,
            data_sets(space, _RADIUS, 4),
            noise_factor,
            manifold=space,
            mechanism="gaussian" if is_quadric else "tangent-gaussian",
        )

    for space in _spaces("euclidean:2 sphere:2 lorentz:2 spd-affine:2"):
        yield _attack_estimator(
            PrivateDispersion,
            space,
            data_sets(space, _RADIUS, 10),
            noise_factor,
            manifold=space,
            mechanism="tangent-gaussian",
        )

    for space in _spaces("sphere:2 spd-affine:3"):
        yield _attack_estimator(
            PrivateMDM,
            space,
            data_sets(space, _RADIUS, 4),
            noise_factor,
            manifold=space,
            mechanism="tangent-gaussian",
        )

    # Two records along the first axis; the second record is replaced by one along the
    # second axis.
    axes = _RADIUS * np.eye(2)
    yield _attack_estimator(
        PrivatePCA,
        Euclidean(2),
        (axes[[0, 0]], axes),
        noise_factor,
        n_components=1,
        method="one-shot",
    )


def _attack_value_noise(mechanism: ValueMechanism, noise_factor: float) -> Case:
    """Return the attack on a mechanism that adds noise to a value.

    It draws at two values that are one sensitivity apart, where noise protects least.

    Parameters
    ----------
    mechanism : ValueMechanism
        The mechanism whose claim is attacked.
    noise_factor : float
        The factor by which the noise that is drawn is scaled, while the claim stays.

    Returns
    -------
    Case
        The claim, and how outputs are drawn and scored.
    """

    # The pair is searched when it is first needed, so that listing cases is cheap.
    @cache
    def pair() -> tuple[np.ndarray, np.ndarray]:
        """Return two values that are at most one sensitivity apart."""
        return neighbors(mechanism)

    sampler = mechanism.with_scaled_noise(noise_factor)

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        """Draw `size` outputs at one value of the pair, and return their scores."""
        draws = sampler.simulate_draws(rng, pair()[side], size)
        return scores(mechanism, pair(), draws)

    return Case(
        mechanism.info.name,
        mechanism.statistic.value_space,
        lambda: mechanism.privacy_profile,
        outputs,
    )


def _attack_mean_of_records(
    mechanism: NewtonMechanism | GradientMechanism, noise_factor: float
) -> Case:
    """Return the attack on a mechanism that releases a Fréchet mean of records.

    Outputs are drawn at two data sets that differ in one record. The typical release of
    a data set is the median of 999 simulated releases, projected to the manifold. The
    scores say how much nearer an output is to the typical release of the first data set
    than to that of the second.

    Parameters
    ----------
    mechanism : NewtonMechanism or GradientMechanism
        The mechanism whose claim is attacked.
    noise_factor : float
        The factor by which the noise that is drawn is scaled, while the claim stays.

    Returns
    -------
    Case
        The claim, and how outputs are drawn and scored.
    """
    manifold = mechanism.manifold
    neighboring_data = data_sets(manifold, _RADIUS, mechanism.statistic.n)
    parameters = {**mechanism.parameters, "scale": noise_factor * mechanism.scale}
    sampler = mechanism_from_parameters(
        type(mechanism), mechanism.statistic, parameters
    )

    @cache
    def typical_releases() -> list[np.ndarray]:
        """Return the projected median of 999 releases of each data set."""
        draws = [
            mechanism.simulate_draws(np.random.default_rng(0), records, 999)
            for records in neighboring_data
        ]
        medians = [np.median(points, axis=0) for points in draws]
        return [np.asarray(manifold.project(median)) for median in medians]

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        """Draw outputs at one data set, and return their two scores.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the outputs.
        side : {0, 1}
            Whether outputs are drawn at the first or at the second data set.
        size : int
            The number of outputs.
        """
        draws = sampler.simulate_draws(rng, neighboring_data[side], size)
        points = np.asarray(draws)
        first_typical, second_typical = typical_releases()
        first_distances = np.asarray(manifold.dist(first_typical, points))
        second_distances = np.asarray(manifold.dist(second_typical, points))
        return [
            rounded(second_distances - first_distances),
            rounded(second_distances**2 - first_distances**2),
        ]

    return Case(
        mechanism.info.name, manifold, lambda: mechanism.privacy_profile, outputs
    )


class _StageOutput(NamedTuple):
    """One noisy answer in the transcript of a staged mechanism."""

    # The exact answer at the data set that was run.
    values: np.ndarray
    # The standard deviation of the noise that the mechanism claims to add.
    scale: float
    # The noisy answer that was released.
    released: np.ndarray


def _attack_transcript(
    mechanism: StagedMechanism, noise_factor: float, ends: tuple[float, float]
) -> Case:
    """Return the attack on all noisy answers of a mechanism that works in stages.

    The mechanism is run with noise on one data set. It is then replayed on the other
    one with the released numbers of the first run, so that all stages ask both data
    sets the same questions. The score is the log likelihood ratio of the released
    numbers; no other score distinguishes the data sets better (Neyman & Pearson).

    Parameters
    ----------
    mechanism : StagedMechanism
        The mechanism whose claim is attacked.
    noise_factor : float
        The factor by which the noise that is drawn is scaled, while the claim stays.
    ends : two floats
        The position of the last record in each data set, on a diameter of the outer
        ball: 1 and −1 are the ends, 0 is the center. All other records are at the
        center, which is an edge of bins.

    Returns
    -------
    Case
        The claim, and how outputs are drawn and scored.
    """
    manifold = mechanism.manifold
    neighboring_data = [
        mechanism.prepare_data(_records_with_one_at(mechanism, end)) for end in ends
    ]

    def log_likelihood_ratio(rng: np.random.Generator, side: int) -> float:
        """Run the mechanism on one data set, and return the log likelihood ratio.

        It is log p(outputs | first data set) − log p(outputs | second data set).
        """
        transcript = _run_with_noise(
            mechanism, neighboring_data[side], noise_factor, rng
        )
        ratio = _log_ratio_to_other(mechanism, neighboring_data[1 - side], transcript)
        return ratio if side == 0 else -ratio

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        """Run the mechanism `size` times on one data set, and return the log ratios."""
        ratios = [log_likelihood_ratio(rng, side) for _ in range(size)]
        return [rounded(np.array(ratios))]

    suffix = ", one far record" if 0.0 in ends else ""
    return Case(
        f"{mechanism.info.name}{suffix}",
        manifold,
        lambda: mechanism.privacy_profile,
        outputs,
        _STAGED_RUNS,
    )


def _records_with_one_at(mechanism: StagedMechanism, end: float) -> np.ndarray:
    """Return records that all lie at the center, except for the last one.

    Two such data sets with different ends differ in one record: an attack compares
    them.

    Parameters
    ----------
    mechanism : StagedMechanism
        The mechanism that is attacked; its statistic states the public ball and the
        number of records.
    end : float
        Where the last record is on a fixed diameter of the ball: its distance from the
        center in radii, with a sign.

    Returns
    -------
    array of shape (n, *point_shape)
        The records.
    """
    manifold = mechanism.manifold
    statistic: Any = mechanism.statistic
    if isinstance(statistic, SyntheticPopulation):
        radius = statistic.radius
    elif isinstance(statistic, Clusters):
        radius = statistic.reach
    else:
        radius = statistic.outer_radius
    coordinates = np.zeros((statistic.n, manifold.dim))
    coordinates[-1, -1] = end * radius
    return np.asarray(manifold.from_normal_coordinates(manifold.origin, coordinates))


def _run_all_stages(mechanism: StagedMechanism, data: Any, add_noise: AddNoise) -> None:
    """Run all stages of a mechanism on prepared data, with a given way to add noise.

    The final release of a ball search consists of the same kind of numbers as the
    search, so it is appended as one more stage.

    Parameters
    ----------
    mechanism : StagedMechanism
        The mechanism.
    data : Any
        The data, as the mechanism's `prepare_data` returned them.
    add_noise : callable
        add_noise(values, scales) is called in every stage and returns the noisy answer.
    """
    queries = mechanism.queries(data)
    ball, budget = mechanism.run(queries, add_noise)
    if isinstance(mechanism, StepToMeanMechanism):
        final: Any = mechanism.final_mechanism_in(ball, budget)
        moments = final.statistic.compute(data)
        add_noise(moments[np.newaxis], np.array([final.scale]))
    elif isinstance(mechanism, PrivateBallMechanism):
        answer = queries.mean_clipped_log(*ball)
        budget.release("last", budget.share_left, answer.sensitivity, answer.values)


def _run_with_noise(
    mechanism: StagedMechanism, data: Any, noise_factor: float, rng: np.random.Generator
) -> list[_StageOutput]:
    """Run a staged mechanism with noise, and return the answers of all stages.

    An attack computes its scores from these answers, for each of two data sets.

    Parameters
    ----------
    mechanism : StagedMechanism
        The mechanism.
    data : Any
        The data, as the mechanism's `prepare_data` returned them.
    noise_factor : float
        The factor by which the Gaussian noise is scaled.
    rng : numpy.random.Generator
        The generator of the noise.

    Returns
    -------
    list of _StageOutput
        The exact and the noisy answer of each stage.
    """
    transcript: list[_StageOutput] = []

    def add_noise(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Add Gaussian noise to exact answers, and record both in the transcript."""
        noise = noise_factor * scales[0] * rng.standard_normal(values.shape)
        released = np.asarray(values + noise)
        transcript.append(_StageOutput(values, scales[0], released))
        return released

    _run_all_stages(mechanism, data, add_noise)
    return transcript


def _log_ratio_to_other(
    mechanism: StagedMechanism, other_data: Any, transcript: list[_StageOutput]
) -> float:
    """Return the log likelihood ratio of recorded outputs: own data against other data.

    For Gaussian noise of standard deviation s, a stage with output y and exact answers
    a (at its own data) and b (at the other data) adds (|y − b|² − |y − a|²)/(2s²).

    Parameters
    ----------
    mechanism : StagedMechanism
        The mechanism that made the transcript.
    other_data : Any
        The other data set, as `prepare_data` returned it.
    transcript : list of _StageOutput
        The run on its own data.

    Returns
    -------
    float
        The sum of these terms over all stages.
    """
    stages = iter(transcript)
    terms: list[float] = []

    def replay(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Return the recorded output of the next stage, and note its log ratio.

        Parameters
        ----------
        values : array
            The exact answer of the stage at the other data set.
        scales : array
            Not used: the recorded stage has its noise scale.
        """
        stage = next(stages)
        other_squares = (stage.released - values) ** 2
        own_squares = (stage.released - stage.values) ** 2
        terms.append(float(np.sum(other_squares - own_squares)) / (2 * stage.scale**2))
        return stage.released

    _run_all_stages(mechanism, other_data, replay)
    return sum(terms)


def _attack_sum(mechanism: SumMechanism, noise_factor: float) -> Case:
    """Return the attack on noisy sums over records, when one record is added.

    Outputs are scored by their projection on the difference of the two exact sums.

    Parameters
    ----------
    mechanism : SumMechanism
        The mechanism whose claim is attacked.
    noise_factor : float
        The factor by which the noise that is drawn is scaled, while the claim stays.

    Returns
    -------
    Case
        The claim, and how outputs are drawn and scored.
    """
    statistic: Any = mechanism.statistic
    records = data_sets(statistic.manifold, _RADIUS, 4)[1]
    totals = [mechanism.prepare_data(part) for part in (records[:-1], records)]

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        """Draw `size` noisy sums at one data set, and return their projections."""
        normal_draws = rng.standard_normal((size, totals[side].size))
        noise = noise_factor * mechanism.scale * normal_draws
        return [rounded((totals[side] + noise) @ (totals[1] - totals[0]))]

    return Case(
        mechanism.info.name,
        mechanism.statistic.value_space,
        lambda: mechanism.privacy_profile,
        outputs,
    )


def _attack_k_norm(mechanism: KNGMechanism, noise_factor: float) -> Case:
    """Return the attack on the K-norm gradient mechanism at two neighboring data sets.

    It draws points at both data sets, and scores where they lie.

    Parameters
    ----------
    mechanism : KNGMechanism
        The mechanism whose claim is attacked.
    noise_factor : float
        The factor by which the scale of the density is changed, while the claim stays.

    Returns
    -------
    Case
        The claim, and how outputs are drawn and scored.
    """
    statistic = mechanism.statistic
    neighboring_data = data_sets(mechanism.manifold, statistic.radius, statistic.n)
    norms = [mechanism.gradient_norm(records) for records in neighboring_data]
    constants = [
        (mechanism.lipschitz_constant(records),) for records in neighboring_data
    ]
    outputs = k_norm_outputs(
        mechanism.domain, noise_factor * mechanism.scale, norms, constants
    )
    return Case(
        mechanism.info.name,
        statistic.value_space,
        lambda: mechanism.privacy_profile,
        outputs,
    )


def _regression_line(space: Manifold) -> GeodesicLine:
    """Return a regression on four records with one predictor between 0 and 1.

    Parameters
    ----------
    space : Manifold
        The manifold of the responses.
    """
    return GeodesicLine(
        space, center=None, radius=0.5, speed=0.6, clip=_CLIP, n=4, x_range=[[0.0, 1.0]]
    )


def _regression_data_sets(space: Manifold) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return two neighboring data sets (predictors, responses) of four records.

    Three responses are on one geodesic through the origin. The last, whose predictor is
    in the middle, is off the geodesic: to one side in the first data set and to the
    other side in the second.

    Parameters
    ----------
    space : Manifold
        The manifold of the responses.

    Returns
    -------
    list of (predictors, responses)
        Arrays of shapes (4,) and (4, *point_shape), for each of the two data sets.
    """
    predictors = np.array([0.0, 0.3, 1.0, 0.5])
    velocity = np.zeros(space.dim)
    velocity[0] = 0.3
    offset = np.zeros(space.dim)
    offset[-1] = 2 * _CLIP

    # The last predictor, 0.5, is at the origin.
    on_geodesic = (predictors - 0.5)[:, np.newaxis] * velocity
    is_last = np.eye(4)[:, 3:]

    neighboring_data = []
    for sign in (1, -1):
        coordinates = on_geodesic + sign * is_last * offset
        responses = space.from_normal_coordinates(space.origin, coordinates)
        neighboring_data.append((predictors, np.asarray(responses)))
    return neighboring_data


def _attack_k_norm_regression(
    mechanism: KNGRegressionMechanism, noise_factor: float
) -> Case:
    """Return the attack on the K-norm mechanism for a geodesic (p, v).

    The mechanism draws a point p and a velocity v on the tangent bundle.

    Parameters
    ----------
    mechanism : KNGRegressionMechanism
        The mechanism whose claim is attacked.
    noise_factor : float
        The factor by which the scale of the density is changed, while the claim stays.

    Returns
    -------
    Case
        The claim, and how outputs are drawn and scored.
    """
    space = mechanism.manifold

    # The problems are built when they are first needed: listing cases stays cheap.
    @cache
    def bundle_outputs() -> Outputs:
        """Return the function that draws and scores geodesics at either data set."""
        problems = []
        for data in _regression_data_sets(space):
            predictors, responses, *_ = mechanism.prepare_data(data)
            problems.append(mechanism.build_problem(predictors, responses))
        first, second = problems
        return k_norm_outputs(
            first.bundle,
            noise_factor * first.scale,
            (first.norm, second.norm),
            (first.constants, second.constants),
        )

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        """Draw `size` geodesics at one data set, and return their scores."""
        return bundle_outputs()(rng, side, size)

    return Case(mechanism.info.name, space, lambda: mechanism.privacy_profile, outputs)


def _attack_descent(mechanism: BundleDescentMechanism, noise_factor: float) -> Case:
    """Return the attack on all noisy outputs of a private descent for a geodesic.

    The descent stays at the center, so every step has the same exact direction. The
    guarantee covers all steps and the last release together. The score is the log
    likelihood ratio, which weights each output by its precision.

    Parameters
    ----------
    mechanism : BundleDescentMechanism
        The mechanism whose claim is attacked.
    noise_factor : float
        The factor by which the noise that is drawn is scaled, while the claim stays.

    Returns
    -------
    Case
        The claim, and how outputs are drawn and scored.
    """
    space = mechanism.manifold

    @cache
    def final_values() -> list[np.ndarray]:
        """Return the exact values of the last release at each data set."""
        no_velocity = np.zeros((1, *space.point_shape))
        origin = np.asarray(space.origin)
        values = []
        for predictors, responses in _regression_data_sets(space):
            centered = predictors[:, np.newaxis] - 0.5
            person_codes = np.arange(len(predictors))
            data = RegressionData(centered, responses, person_codes)
            values.append(mechanism.final_values(data, origin, no_velocity))
        return values

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        """Draw all releases of some descents at one data set, and score them.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the outputs.
        side : {0, 1}
            Whether outputs are drawn at the first or at the second data set.
        size : int
            The number of descents.
        """
        score = np.zeros(size)

        def add_scores(values: list[np.ndarray], scale: float) -> None:
            """Draw one noisy release for each output; add its log likelihood ratio."""
            normal_draws = rng.standard_normal((size, values[0].size))
            noisy_values = values[side] + noise_factor * scale * normal_draws
            score[:] += noisy_values @ (values[0] - values[1]) / scale**2

        # The direction of a step is the first part of the last release's values.
        direction_size = mechanism.neighborhood.direction_size
        directions = [values[:direction_size] for values in final_values()]
        for _ in range(mechanism.steps):
            add_scores(directions, mechanism.scale)
        add_scores(final_values(), mechanism.final_scale)
        return [rounded(score)]

    return Case(mechanism.info.name, space, lambda: _CLAIM, outputs)


def _chart_radius(space: Manifold) -> float | None:
    """Return the radius of a ball for noise in normal coordinates, or None.

    No ball is needed if logarithms are defined everywhere.

    Parameters
    ----------
    space : Manifold
        The space of the chart.

    Returns
    -------
    float or None
        A radius within which the chart stretches distances by a bounded factor.
    """
    if not np.isfinite(space.injectivity_radius):
        return None
    return 0.75 * min(space.convexity_radius, 1.5)


def _gaussian(space: Manifold) -> GaussianMechanism:
    """Return Gaussian noise with sensitivity 0.5 and scale 0.5, to be attacked.

    Parameters
    ----------
    space : Manifold
        The space of the value.
    """
    return GaussianMechanism(space, 0.5, 0.5)


def _laplace(space: Manifold) -> LaplaceMechanism:
    """Return Laplace noise with sensitivity 0.3 and scale 0.2, to be attacked.

    Parameters
    ----------
    space : Manifold
        The space of the value.
    """
    return LaplaceMechanism(space, 0.3, 0.2)


def _chart_gaussian(space: Manifold) -> LogGaussianMechanism:
    """Return Gaussian noise in the normal chart at the origin, to be attacked.

    Parameters
    ----------
    space : Manifold
        The space of the value.
    """
    return LogGaussianMechanism(space, 0.2, 0.2, space.origin, _chart_radius(space))


def _chart_laplace(space: Manifold) -> LogLaplaceMechanism:
    """Return Laplace noise in the normal chart at the origin, to be attacked.

    Parameters
    ----------
    space : Manifold
        The space of the value.
    """
    return LogLaplaceMechanism(space, 0.2, 0.1, space.origin, _chart_radius(space))


def _k_norm_gradient(space: Manifold) -> KNGMechanism:
    """Return the K-norm gradient mechanism for the mean of two records.

    Parameters
    ----------
    space : Manifold
        The space of the records.
    """
    return KNGMechanism.calibrated(space, None, 0.5, 2, PureDP(6.0))


def _newton(space: Manifold) -> NewtonMechanism:
    """Return the Newton mechanism for the mean of four records.

    Parameters
    ----------
    space : Manifold
        The space of the records.
    """
    statistic = FrechetMean(space, center=None, radius=0.5, n=4)
    return NewtonMechanism.calibrate(statistic, _CLAIM)


def _gradient_step(space: Manifold) -> GradientMechanism:
    """Return the gradient mechanism for the mean of four records.

    Parameters
    ----------
    space : Manifold
        The space of the records.
    """
    statistic = FrechetMean(space, center=None, radius=0.5, n=4)
    return GradientMechanism.calibrate(statistic, _CLAIM)


def _median(space: Manifold) -> MedianMechanism:
    """Return the staged mechanism for the geometric median of 100 records.

    Parameters
    ----------
    space : Manifold
        The space of the records.
    """
    statistic = GeometricMedian(space, center=None, outer_radius=1.5, n=100)
    return MedianMechanism.calibrate(statistic, _CLAIM)


def _ball_search(space: Manifold) -> PrivateBallMechanism:
    """Return the staged mechanism for the mean of 100 records in a private ball.

    Parameters
    ----------
    space : Manifold
        The space of the records.
    """
    statistic = SearchedMean(space, center=None, outer_radius=1.5, n=100)
    return PrivateBallMechanism.calibrate(statistic, _CLAIM)


def _tangent_moments(space: Manifold) -> StepToMeanMechanism:
    """Return the staged mechanism for the tangent moments of 100 records.

    Parameters
    ----------
    space : Manifold
        The space of the records.
    """
    statistic = TangentMomentsNearMean(space, center=None, outer_radius=1.0, n=100)
    return StepToMeanMechanism.calibrate(statistic, _CLAIM)


def _population(
    kind: type[PopulationMechanism], space: Manifold
) -> PopulationMechanism:
    """Return a staged mechanism for the population of 100 records.

    Parameters
    ----------
    kind : type of PopulationMechanism
        Which model of the population is released.
    space : Manifold
        The space of the records.
    """
    statistic = SyntheticPopulation(space, center=None, radius=1.0, n=100)
    return kind.calibrate(statistic, _CLAIM)


def _clusters(space: Manifold) -> KMeansMechanism:
    """Return the staged mechanism for two clusters of 30 records, with public starts.

    Parameters
    ----------
    space : Manifold
        The space of the records.
    """
    axis = np.eye(1, space.dim, space.dim - 1)
    starts = space.from_normal_coordinates(space.origin, axis * [[0.2], [1.2]])
    statistic = Clusters(
        space, center=None, reach=1.5, clusters=2, starts=np.asarray(starts), n=30
    )
    return KMeansMechanism.calibrate(statistic, _CLAIM)


def _clipped_sum(space: Manifold) -> SumMechanism:
    """Return the mechanism for a sum of clipped records with a private count.

    Parameters
    ----------
    space : Manifold
        The space of the records.
    """
    return SumMechanism.calibrate(ClippedSum(space, None, _RADIUS), _ADD_REMOVE_CLAIM)


def _k_norm_regression(space: Manifold) -> KNGRegressionMechanism:
    """Return the K-norm mechanism for geodesic regression on four records.

    Parameters
    ----------
    space : Manifold
        The manifold of the responses.
    """
    return KNGRegressionMechanism.calibrate(_regression_line(space), PureDP(6.0))


def _regression_descent(space: Manifold) -> BundleDescentMechanism:
    """Return the private descent for geodesic regression on four records.

    Parameters
    ----------
    space : Manifold
        The manifold of the responses.
    """
    return BundleDescentMechanism.calibrate(_regression_line(space), _CLAIM)


class _AttackedMechanism(NamedTuple):
    """A mechanism, the attack on it, and the manifolds on which it is attacked."""

    build: Callable[[Manifold], Any]
    attack: Attack
    spaces: tuple[Manifold, ...]


# The far record of a transcript's data sets moves to the other end, or to the center.
_attack_far_to_far = partial(_attack_transcript, ends=(1.0, -1.0))
_attack_far_to_center = partial(_attack_transcript, ends=(1.0, 0.0))

_MECHANISMS = (
    _AttackedMechanism(_gaussian, _attack_value_noise, SPACES),
    _AttackedMechanism(_laplace, _attack_value_noise, (*SPACES, *_spaces("lorentz:4"))),
    _AttackedMechanism(_chart_gaussian, _attack_value_noise, CHARTS),
    _AttackedMechanism(_chart_laplace, _attack_value_noise, CHARTS),
    _AttackedMechanism(_k_norm_gradient, _attack_k_norm, SMALL),
    _AttackedMechanism(_newton, _attack_mean_of_records, ROUND),
    _AttackedMechanism(_gradient_step, _attack_mean_of_records, MEANS),
    _AttackedMechanism(_median, _attack_far_to_far, FEW),
    _AttackedMechanism(_median, _attack_far_to_center, FEW),
    _AttackedMechanism(_ball_search, _attack_far_to_far, FEW),
    _AttackedMechanism(_ball_search, _attack_far_to_center, FEW),
    _AttackedMechanism(_tangent_moments, _attack_far_to_far, FEW),
    _AttackedMechanism(_clusters, _attack_far_to_far, FEW),
    _AttackedMechanism(partial(_population, WrappedGaussian), _attack_far_to_far, FEW),
    _AttackedMechanism(partial(_population, GaussianMixture), _attack_far_to_far, FEW),
    _AttackedMechanism(
        partial(_population, CellTreeMechanism), _attack_far_to_far, FEW
    ),
    _AttackedMechanism(_clipped_sum, _attack_sum, MEANS),
    _AttackedMechanism(_k_norm_regression, _attack_k_norm_regression, SMALL),
    _AttackedMechanism(_regression_descent, _attack_descent, SPACES),
)


def _attack_estimator(
    kind: type,
    space: Manifold,
    neighboring_data: tuple[np.ndarray, np.ndarray],
    noise_factor: float,
    **options: Any,
) -> Case:
    """Return the attack on the mechanism that an estimator uses.

    The mechanism is rebuilt from the certificate of a real fit. Its noise is drawn
    around the values of its statistic at two neighboring data sets.

    Parameters
    ----------
    kind : type
        The class of the estimator.
    space : Manifold
        The manifold of the records.
    neighboring_data : two arrays
        Data sets that differ in one record.
    noise_factor : float
        The factor by which the noise that is drawn is scaled, while the claim stays.
    **options
        Further arguments of the estimator.

    Returns
    -------
    Case
        The claim, and how outputs are drawn and scored.
    """

    # The fit is made when it is first needed, so that listing cases is cheap.
    @cache
    def mechanism_and_values() -> tuple[Any, tuple[np.ndarray, np.ndarray]]:
        """Return the estimator's mechanism, and its exact value at each data set."""
        source = GeneratorSource(np.random.default_rng(0))
        model = kind(radius=_RADIUS, guarantee=_CLAIM, source=source, **options)
        certificate = _fit_certificate(model, neighboring_data[0])
        mechanism: Any = rebuild_mechanism(certificate)
        values = []
        for records in neighboring_data:
            opened = open_records(records, space.point_shape)
            values.append(mechanism.statistic.compute(opened))
        first_value, second_value = values
        return mechanism, (first_value, second_value)

    def outputs(rng: np.random.Generator, side: int, size: int) -> list[np.ndarray]:
        """Draw `size` outputs around one of the two values, and return their scores."""
        mechanism, pair = mechanism_and_values()
        sampler = mechanism.with_scaled_noise(noise_factor)
        return scores(mechanism, pair, sampler.simulate_draws(rng, pair[side], size))

    return Case(kind.__name__, space, lambda: _CLAIM, outputs)


def _fit_certificate(model: Any, records: np.ndarray) -> Certificate:
    """Fit an estimator to records, and return the certificate of the release.

    For a classifier the records are those of class 0, and the certificate is that of
    class 0. A second class has twice as many records, which are not attacked.

    Parameters
    ----------
    model : estimator
        The estimator that is attacked.
    records : array of shape (n, *point_shape)
        The records of one data set.
    """
    if not isinstance(model, PrivateMDM):
        return cast(Certificate, model.fit(records).certificate_)
    all_records = np.concatenate([records, records, records])
    labels = np.repeat([0, 1, 1], len(records))
    return model.fit(all_records, labels).certificates_[0]

"""Lower bounds on the privacy parameters ε and μ of a mechanism, proved by an attack.
The attack draws many outputs at two neighboring data sets, and computes numbers
(*scores*) from each. An *event* is that a score is beyond a threshold; its two
probabilities bound ε and μ.

Let D and D′ be the data sets. One half of the outputs chooses the event. The other
half, unseen until then, bounds its probabilities p = P(event | D) and p′ = P(event |
D′) (Clopper & Pearson 1934).

Any (ε, δ) that the mechanism satisfies has ε ≥ log((p − δ)/p′), and any μ-GDP that it
satisfies has μ ≥ Φ⁻¹(p) − Φ⁻¹(p′) (Nasr et al. 2023). The second bound uses the bulk of
the outputs instead of a rare tail, so it detects a noise scale that is wrong by a few
percent.

Which neighbors are worst: for noise around a statistic on a homogeneous space, any two
statistics that are one sensitivity apart. For noise in a chart at a public base point,
two statistics where the chart stretches most, at the edge of the ball and across the
radius; a fixed list of directions is searched for the pair that is farthest apart in
the chart while at most one sensitivity apart on the manifold.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.special import ndtri

from curvedp import _validate
from curvedp.core.mechanism import Mechanism
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms import LogGaussianMechanism, LogLaplaceMechanism
from curvedp.mechanisms.isotropic.base import ValueMechanism
from curvedp.privacy import (
    GDP,
    PrivacyCurve,
    PrivacyProfile,
    PureDP,
    convert,
)

Pair = tuple[np.ndarray, np.ndarray]

# How many thresholds are tried for each score: quantiles of the training outputs.
_THRESHOLD_COUNT = 400

# How many random planes are searched for the worst pair of statistics in a chart.
_PLANE_COUNT = 32

# Points at the edge of a ball are drawn in by this factor, so that they are still
# inside the ball after rounding.
_EDGE_FACTOR = 1 - 1e-9

# Steps of the bisection for the worst pair: 2^-40 of the ball's radius remains.
_BISECTION_STEPS = 40

# Scores are rounded to multiples of 2^-26.
_SCORE_GRID = 2.0**-26


class AuditResult(NamedTuple):
    """What an attack has proved about a claim.

    Attributes
    ----------
    claimed : float
        The ε at `delta` that the mechanism claims.
    audited : float
        The lower bound on ε at `delta` that the attack proves.
    delta : float
        The δ at which ε is claimed and bounded.
    samples : int
        The number of draws at each neighbor, or, for an audit from one run, the number
        of records whose coins were guessed.
    confidence : float
        The probability with which both lower bounds are true.
    claimed_mu : float
        The μ that the mechanism claims; ∞ where only ε is bounded.
    audited_mu : float
        The lower bound on μ that the attack proves; 0 where only ε is bounded.

    Examples
    --------
    >>> result = AuditResult(
    ...     claimed=1.0, audited=0.9, delta=0.01, samples=1000, confidence=0.999
    ... )
    >>> result.holds
    True
    """

    claimed: float
    audited: float
    delta: float
    samples: int
    confidence: float
    claimed_mu: float = np.inf
    audited_mu: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the claim survives: neither lower bound exceeds what is claimed."""
        return self.audited <= self.claimed and self.audited_mu <= self.claimed_mu

    @property
    def tightness(self) -> float:
        """The larger of the ratios audited ε / claimed ε and audited μ / claimed μ.

        Here ε is that of (ε, δ)-DP and μ that of Gaussian DP. A claim with tightness 1
        cannot be improved. A claim that is zero or infinite counts as ratio 0.
        """
        epsilon_ratio = _ratio_of_finite_claim(self.audited, self.claimed)
        mu_ratio = _ratio_of_finite_claim(self.audited_mu, self.claimed_mu)
        return max(epsilon_ratio, mu_ratio)


def _ratio_of_finite_claim(audited: float, claimed: float) -> float:
    """Return audited / claimed, or 0 if the claim is not positive and finite.

    Parameters
    ----------
    audited : float
        A proved lower bound on ε or μ.
    claimed : float
        The ε or μ that is claimed.
    """
    if not 0 < claimed < np.inf:
        return 0.0
    return audited / claimed


def claimed_mu(claim: PrivacyCurve) -> float:
    """Return the μ of the μ-GDP that a claim implies, or ∞ if it implies none.

    Parameters
    ----------
    claim : Guarantee or PrivacyProfile
        The guarantee that a mechanism claims.
    """
    if isinstance(claim, PureDP):
        return float(convert(claim, to=GDP).mu)
    if isinstance(claim, GDP | PrivacyProfile):
        return float(claim.mu)
    return np.inf


def audit_scores(
    claim: PrivacyCurve,
    first: Sequence[np.ndarray],
    second: Sequence[np.ndarray],
    *,
    delta: float = 1e-3,
    confidence: float = 1 - 1e-6,
) -> AuditResult:
    """Test a claim against scores of outputs at two neighboring data sets.

    If the claim is true, the result's `holds` is False with probability at most
    1 − confidence.

    Parameters
    ----------
    claim : Guarantee or PrivacyProfile
        The guarantee or profile that is attacked.
    first, second : sequences of arrays
        Scores of the outputs at the first and at the second data set: first[k] and
        second[k] hold the k-th score, one number for each output.
    delta : float
        The δ at which ε is bounded.
    confidence : float
        The probability with which the lower bounds are true.

    Returns
    -------
    AuditResult
        The claim and the proved lower bounds.

    Raises
    ------
    ParameterError
        If the claim is not a guarantee, δ or the confidence is not strictly between 0
        and 1, or the scores do not have equally many rows of at least 4 outputs.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> noisy = [rng.normal(0, 1, 20_000)], [rng.normal(1, 1, 20_000)]
    >>> audit_scores(GDP(1.0), *noisy).holds, audit_scores(GDP(0.8), *noisy).holds
    (True, False)
    """
    if not isinstance(claim, PrivacyCurve):
        raise ParameterError(
            "must be a guarantee, such as GDP(1.0)", parameter="claim", value=claim
        )
    delta = _validate.within("delta", delta, 0, 1, open_low=True, open_high=True)
    confidence = _validate.within(
        "confidence", confidence, 0, 1, open_low=True, open_high=True
    )
    first_scores = np.atleast_2d(np.asarray(first, dtype=np.float64))
    second_scores = np.atleast_2d(np.asarray(second, dtype=np.float64))
    _check_score_shapes(first_scores, second_scores)

    # Four statements can fail: a bound on ε and one on μ, in either direction.
    failure = (1 - confidence) / 4
    forward = _prove_bounds(first_scores, second_scores, failure, delta)
    backward = _prove_bounds(second_scores, first_scores, failure, delta)

    return AuditResult(
        claimed=float(claim.epsilon(delta)),
        audited=max(0.0, forward.epsilon, backward.epsilon),
        delta=delta,
        samples=first_scores.shape[1],
        confidence=confidence,
        claimed_mu=claimed_mu(claim),
        audited_mu=max(0.0, forward.mu, backward.mu),
    )


def _check_score_shapes(first: np.ndarray, second: np.ndarray) -> None:
    """Refuse two arrays of scores that cannot be compared.

    Parameters
    ----------
    first, second : arrays of shape (scores, outputs)
        The scores of the outputs at the first and at the second data set.

    Raises
    ------
    ParameterError
        Unless they have equally many rows, and at least 4 outputs each.
    """
    has_equal_rows = first.shape[0] == second.shape[0]
    if has_equal_rows and min(first.shape[1], second.shape[1]) >= 4:
        return
    raise ParameterError(
        f"scores of shapes {first.shape} and {second.shape} must have equally many "
        "rows, of at least 4 outputs each"
    )


def audit_mechanism(
    mechanism: ValueMechanism,
    samples: int = 100_000,
    delta: float = 1e-3,
    confidence: float = 1 - 1e-6,
    rng: np.random.Generator | None = None,
    sampler: ValueMechanism | None = None,
) -> AuditResult:
    """Attack a mechanism's claim with draws at the worst known neighboring values.

    Parameters
    ----------
    mechanism : ValueMechanism
        The mechanism whose claim is attacked; it adds noise to a value.
    samples : int
        The number of draws at each neighbor, at least 100.
    delta : float
        The δ at which ε is bounded.
    confidence : float
        The probability with which the lower bounds are true.
    rng : numpy.random.Generator, optional
        The generator of the draws; give one for an audit that can be repeated.
    sampler : ValueMechanism, optional
        The mechanism that draws the outputs, `mechanism` by default. Another one, with
        less noise, shows that the audit detects a wrong mechanism.

    Returns
    -------
    AuditResult
        The claim and the proved lower bounds.

    Raises
    ------
    ParameterError
        If an argument has the wrong type, or there are fewer than 100 samples.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.mechanisms import GaussianMechanism
    >>> mechanism = GaussianMechanism(Sphere(2), 0.5, 0.5)
    >>> rng = np.random.default_rng(0)
    >>> audit_mechanism(mechanism, samples=20000, rng=rng).holds
    True
    """
    if not isinstance(mechanism, ValueMechanism):
        raise ParameterError(
            "must be one that adds noise to a value",
            parameter="mechanism",
            value=mechanism,
        )
    samples = _validate.integer("samples", samples, 100)
    rng = np.random.default_rng() if rng is None else rng
    if not isinstance(rng, np.random.Generator):
        raise ParameterError(
            "must be a numpy.random.Generator", parameter="rng", value=rng
        )

    # Scores of outputs at both values; `audit_scores` bounds ε and μ from them.
    sampler = sampler or mechanism
    pair = neighbors(mechanism)
    first_outputs = sampler.simulate_draws(rng, pair[0], samples)
    first_scores = scores(mechanism, pair, first_outputs)
    second_outputs = sampler.simulate_draws(rng, pair[1], samples)
    second_scores = scores(mechanism, pair, second_outputs)
    return audit_scores(
        mechanism.privacy_profile,
        first_scores,
        second_scores,
        delta=delta,
        confidence=confidence,
    )


# A statement turns a lower bound on p and an upper bound on p′ into a lower bound on a
# privacy parameter at δ.
_Statement = Callable[[np.ndarray, np.ndarray, float], np.ndarray]


def _epsilon_bound(p: np.ndarray, p_prime: np.ndarray, delta: float) -> np.ndarray:
    """Return log((p − δ)/p′), a lower bound on ε of (ε, δ)-DP; −∞ if p ≤ δ.

    Parameters
    ----------
    p : array
        Lower bounds on the probabilities of events at the first data set.
    p_prime : array
        Upper bounds on their probabilities at the second data set.
    delta : float
        The δ at which ε is bounded.

    Returns
    -------
    array
        A bound for each event.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > delta, np.log((p - delta) / p_prime), -np.inf)


def _mu_bound(p: np.ndarray, p_prime: np.ndarray, delta: float) -> np.ndarray:
    """Return Φ⁻¹(p) − Φ⁻¹(p′), a lower bound on μ of μ-GDP; −∞ if it says nothing.

    Parameters
    ----------
    p : array
        Lower bounds on the probabilities of events at the first data set.
    p_prime : array
        Upper bounds on their probabilities at the second data set.
    delta : float
        Not used: it gives this function the signature of `_epsilon_bound`.

    Returns
    -------
    array
        A bound for each event.
    """
    with np.errstate(invalid="ignore"):
        return np.where((p > 0) & (p_prime < 1), ndtri(p) - ndtri(p_prime), -np.inf)


class _Bounds(NamedTuple):
    """Proved lower bounds on ε (at the audited δ) and on μ."""

    epsilon: float
    mu: float


class _Event(NamedTuple):
    """The event that a score is ≥ a threshold, or ≤ it if `is_upper` is False.

    `score_index` says which of the scores of an output is meant.
    """

    score_index: int
    is_upper: bool
    threshold: float

    def count(self, score_rows: np.ndarray) -> int:
        """Return how many outputs are in the event.

        Parameters
        ----------
        score_rows : array of shape (scores, outputs)
            The scores of the outputs, one column for each output.
        """
        values = score_rows[self.score_index]
        if self.is_upper:
            return int(np.count_nonzero(values >= self.threshold))
        return int(np.count_nonzero(values <= self.threshold))


def _prove_bounds(
    first: np.ndarray, second: np.ndarray, failure: float, delta: float
) -> _Bounds:
    """Return lower bounds on ε of (ε, δ)-DP and on μ of Gaussian DP.

    Each is proved by one event. Half of the outputs choose the event, and the other
    half bound its probabilities.

    Parameters
    ----------
    first, second : arrays of shape (scores, outputs)
        Scores of the outputs at the two data sets. Outputs with an even index choose
        the event, those with an odd index bound its probabilities.
    failure : float
        The probability with which each of the two bounds may be wrong.
    delta : float
        The δ at which ε is bounded.

    Returns
    -------
    _Bounds
        The two bounds; −∞ where an event proves nothing.
    """
    return _Bounds(
        epsilon=_prove_bound(_epsilon_bound, first, second, failure, delta),
        mu=_prove_bound(_mu_bound, first, second, failure, delta),
    )


def _prove_bound(
    statement: _Statement,
    first: np.ndarray,
    second: np.ndarray,
    failure: float,
    delta: float,
) -> float:
    """Return a lower bound on ε or on μ, proved by one event.

    If an event has the probabilities p and p′ at two neighboring data sets, (ε, δ)-DP
    says p ≤ e^ε·p′ + δ, and μ-GDP says Φ⁻¹(p) ≤ Φ⁻¹(p′) + μ. A lower bound on p and an
    upper bound on p′ therefore give a lower bound on ε or μ. Half of the outputs choose
    the event, and the other half bound its probabilities.

    Parameters
    ----------
    statement : callable
        `_epsilon_bound` or `_mu_bound`: the formula of the bound.
    first, second : arrays of shape (scores, outputs)
        Scores of the outputs at the two data sets.
    failure : float
        The probability with which the bound may be wrong.
    delta : float
        The δ at which ε is bounded.

    Returns
    -------
    float
        The bound; −∞ if the event proves nothing.
    """
    # Every other output chooses the event.
    event = _choose_event(statement, first[:, ::2], second[:, ::2], failure, delta)

    # The outputs in between bound its probabilities.
    first_test = first[:, 1::2]
    second_test = second[:, 1::2]
    p, p_prime = _probability_bounds(
        np.array([event.count(first_test)]),
        first_test.shape[1],
        np.array([event.count(second_test)]),
        second_test.shape[1],
        failure,
    )
    return float(statement(p, p_prime, delta)[0])


def _choose_event(
    statement: _Statement,
    first: np.ndarray,
    second: np.ndarray,
    failure: float,
    delta: float,
) -> _Event:
    """Return the event that gives the largest lower bound on the training outputs.

    An event says that a score is above, or below, a threshold. All scores are tried,
    with `_THRESHOLD_COUNT` quantiles of the pooled outputs as thresholds. Of equally
    good events the first is taken.

    Parameters
    ----------
    statement : callable
        `_epsilon_bound` or `_mu_bound`: the formula of the bound.
    first, second : arrays of shape (scores, outputs)
        Scores of the training outputs at the two data sets.
    failure : float
        The probability with which the bound may be wrong.
    delta : float
        The δ at which ε is bounded.

    Returns
    -------
    _Event
        The score, the threshold and the side of it.
    """
    best_bound = -np.inf
    best_event = _Event(score_index=0, is_upper=True, threshold=0.0)
    levels = np.linspace(0, 1, _THRESHOLD_COUNT + 2)[1:-1]

    for score_index in range(len(first)):
        first_sorted = np.sort(first[score_index])
        second_sorted = np.sort(second[score_index])
        thresholds = np.quantile(np.concatenate([first_sorted, second_sorted]), levels)

        for is_upper in (True, False):
            p, p_prime = _probability_bounds(
                _count_hits(first_sorted, thresholds, is_upper),
                first_sorted.size,
                _count_hits(second_sorted, thresholds, is_upper),
                second_sorted.size,
                failure,
            )
            bounds = statement(p, p_prime, delta)
            best_index = int(np.argmax(bounds))
            if bounds[best_index] > best_bound:
                best_bound = float(bounds[best_index])
                threshold = float(thresholds[best_index])
                best_event = _Event(score_index, is_upper, threshold)
    return best_event


def _count_hits(
    sorted_scores: np.ndarray, thresholds: np.ndarray, is_upper: bool
) -> np.ndarray:
    """Return how many scores are in the event of each threshold.

    Parameters
    ----------
    sorted_scores : array
        The scores in ascending order.
    thresholds : array
        The thresholds.
    is_upper : bool
        Whether the event is score ≥ threshold, or else score ≤ threshold.

    Returns
    -------
    array of int
        A count for each threshold.
    """
    if is_upper:
        return sorted_scores.size - np.searchsorted(sorted_scores, thresholds, "left")
    return np.searchsorted(sorted_scores, thresholds, "right")


def _probability_bounds(
    first_hits: np.ndarray,
    first_count: int,
    second_hits: np.ndarray,
    second_count: int,
    failure: float,
) -> Pair:
    """Return a lower bound on p and an upper bound on p′ (Clopper & Pearson 1934).

    p and p′ are the probabilities of an event at the first and at the second data set.

    Parameters
    ----------
    first_hits, second_hits : arrays of int
        How many outputs at the first and at the second data set are in each event.
    first_count, second_count : int
        How many outputs there are at each data set.
    failure : float
        The probability that one of the bounds is wrong. Each is wrong with at most half
        of this probability.

    Returns
    -------
    p_lower : array
        For each event a lower bound on p.
    p_prime_upper : array
        For each event an upper bound on p′.
    """
    lower_quantile = stats.beta.ppf(
        failure / 2, np.maximum(first_hits, 1), first_count - first_hits + 1
    )
    upper_quantile = stats.beta.ppf(
        1 - failure / 2, second_hits + 1, np.maximum(second_count - second_hits, 1)
    )
    p_lower = np.where(first_hits > 0, lower_quantile, 0.0)
    p_prime_upper = np.where(second_hits < second_count, upper_quantile, 1.0)
    return p_lower, p_prime_upper


def neighbors(mechanism: Mechanism) -> Pair:
    """Return the pair of values that noise is known to protect least.

    They are at most one sensitivity apart, so they can be values of a statistic at
    neighboring data sets. For isotropic noise on a manifold they are the origin and a
    point one sensitivity away, in the direction in which noise protects least. For
    noise in a chart (normal coordinates at a base point) they are two values that the
    chart moves farthest apart.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that is attacked, which adds noise to a value.

    Returns
    -------
    first, second : arrays of shape point_shape
        The two values.
    """
    manifold = mechanism.statistic.value_space
    sensitivity = mechanism.sensitivity

    if not isinstance(mechanism, LogGaussianMechanism | LogLaplaceMechanism):
        origin = np.asarray(manifold.origin)
        step = sensitivity * _worst_direction(manifold)
        return origin, manifold.from_normal_coordinates(origin, step)

    ball = mechanism.statistic.value_ball
    ball_radius = None if ball is None else ball.radius
    first_coordinates, second_coordinates = _worst_chart_pair(
        manifold, mechanism.base, sensitivity, ball_radius
    )
    first = manifold.from_normal_coordinates(mechanism.base, first_coordinates)
    second = manifold.from_normal_coordinates(mechanism.base, second_coordinates)
    return first, second


def _worst_chart_pair(
    manifold: Manifold,
    base: np.ndarray,
    sensitivity: float,
    ball_radius: float | None,
) -> Pair:
    """Return the pair of values that is farthest apart in a chart, as coordinates.

    The chart is that of normal coordinates at a base point. One candidate is the pair
    from the base point outward. If values lie in a ball, further candidates are pairs
    at its edge, across the radius.

    Parameters
    ----------
    manifold : Manifold
        The space in which the values lie.
    base : array
        The base point of the chart.
    sensitivity : float
        The largest distance of the two values on the manifold.
    ball_radius : float or None
        The radius of the ball around `base` that bounds the values, if there is one.

    Returns
    -------
    first, second : arrays of shape (dim,)
        Normal coordinates of the two values at the base point.
    """
    if ball_radius is None:
        return np.zeros(manifold.dim), sensitivity * _unit_vector(manifold.dim, 0)

    edge_radius = _EDGE_FACTOR * ball_radius
    outward = min(sensitivity, edge_radius) * _unit_vector(manifold.dim, 0)
    pairs = [(np.zeros(manifold.dim), outward)]

    if manifold.dim > 1:
        # Random planes, the same at every call, the first spanned by two axes.
        planes = np.random.default_rng(0).standard_normal(
            (_PLANE_COUNT, manifold.dim, 2)
        )
        planes[0] = np.eye(manifold.dim)[:, :2]
        frames = np.linalg.qr(planes)[0]
        firsts, seconds = _pairs_across_radius(
            manifold, base, frames[..., 0], frames[..., 1], sensitivity, edge_radius
        )
        pairs += list(zip(firsts, seconds, strict=True))

    return max(pairs, key=_chart_distance)


def _chart_distance(pair: Pair) -> float:
    """Return the Euclidean distance of two points in normal coordinates.

    Parameters
    ----------
    pair : two arrays of shape (dim,)
        The coordinates of the points.
    """
    return float(np.linalg.norm(pair[0] - pair[1]))


def scores(mechanism: Mechanism, pair: Pair, outputs: np.ndarray) -> list[np.ndarray]:
    """Score outputs by how much farther they are from the second value of a pair.

    With distances d₁ and d₂ to the first and second value, the scores are d₂ − d₁ and
    d₂² − d₁². Up to factors they are the log likelihood ratios of Laplace and of
    Gaussian noise, which no other score beats (Neyman & Pearson). For noise in normal
    coordinates at a base point, distances are measured in these coordinates. On
    manifolds with slow logarithms, such as Stiefel manifolds, they are measured in the
    ambient space.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that is attacked.
    pair : two arrays
        The neighboring values at which outputs were drawn.
    outputs : array of shape (draws, *point_shape)
        The outputs to score.

    Returns
    -------
    list of arrays of shape (draws,)
        The two scores, rounded (see `rounded`).
    """
    first_value, second_value = pair
    first_distances = _distances_from_value(mechanism, first_value, outputs)
    second_distances = _distances_from_value(mechanism, second_value, outputs)
    return [
        rounded(second_distances - first_distances),
        rounded(second_distances**2 - first_distances**2),
    ]


def _distances_from_value(
    mechanism: Mechanism, value: np.ndarray, outputs: np.ndarray
) -> np.ndarray:
    """Return how far outputs of a mechanism are from a value, for `scores`.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism, whose noise decides how distances are measured.
    value : array, shape value_shape
        The value.
    outputs : array, shape (count, *value_shape)
        The outputs.

    Returns
    -------
    array, shape (count,)
        The distances.
    """
    manifold = mechanism.statistic.value_space
    if not manifold.is_symmetric:
        differences = (outputs - value).reshape(len(outputs), -1)
        return np.asarray(np.linalg.norm(differences, axis=1))
    if isinstance(mechanism, LogGaussianMechanism | LogLaplaceMechanism):
        base = mechanism.base
        in_chart = np.asarray(manifold.normal_coordinates(base, outputs))
        value_in_chart = np.asarray(manifold.normal_coordinates(base, value))
        return np.asarray(np.linalg.norm(in_chart - value_in_chart, axis=-1))
    return np.asarray(manifold.dist(value, outputs))


def data_sets(manifold: Manifold, radius: float, n: int) -> Pair:
    """Return two neighboring data sets of n records that differ in the last record.

    In the first, all records are at one end of a diameter of a ball around the origin.
    In the second, the last record is at the other end.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    radius : float
        The radius of the ball.
    n : int
        The number of records.

    Returns
    -------
    two arrays of shape (n, *point_shape)
        The first and the second data set.
    """
    step = radius * _unit_vector(manifold.dim, manifold.dim - 1)
    origin = np.asarray(manifold.origin)
    one_end = manifold.from_normal_coordinates(origin, step)
    other_end = manifold.from_normal_coordinates(origin, -1 * step)

    records = np.stack([one_end] * n)
    neighboring_records = np.concatenate([records[:-1], other_end[np.newaxis]])
    return records, neighboring_records


def rounded(score: np.ndarray) -> np.ndarray:
    """Return scores rounded to multiples of 2^-26.

    The audit is about the exact distribution of a mechanism. Its events must not depend
    on the last bits of the fast floating-point simulation, which no release shows.

    Parameters
    ----------
    score : array
        A score of each output.
    """
    return np.asarray(np.round(score / _SCORE_GRID) * _SCORE_GRID)


def _pairs_across_radius(
    manifold: Manifold,
    base: np.ndarray,
    radial: np.ndarray,
    lateral: np.ndarray,
    sensitivity: float,
    edge_radius: float,
) -> Pair:
    """Return pairs of points at the edge of a ball that are near on the manifold M.

    They are far apart in the chart of normal coordinates at the ball's center.
    In the plane of the orthonormal directions u (`radial`) and w (`lateral`) the pair
    with half-width h is √(r² − h²)·u ∓ h·w, both points at distance r from the base.
    Bisection finds, for each plane, the largest h for which the points are at most
    `sensitivity` apart on the manifold.

    Parameters
    ----------
    manifold : Manifold
        The manifold M.
    base : array
        The base point of the chart, the ball's center.
    radial, lateral : arrays of shape (planes, dim)
        Orthonormal directions that span each plane.
    sensitivity : float
        The largest distance on the manifold.
    edge_radius : float
        The distance r of the points from the base.

    Returns
    -------
    two arrays of shape (planes, dim)
        Normal coordinates of the first and of the second point of each pair.
    """

    def pairs(half_width: np.ndarray) -> Pair:
        """Return the two points of each plane for these half-widths, in coordinates.

        Parameters
        ----------
        half_width : array of shape (planes, 1)
            The half-width h in each plane.
        """
        height = np.sqrt(np.maximum(edge_radius**2 - half_width**2, 0.0))
        across = half_width * lateral
        return height * radial - across, height * radial + across

    lower = np.zeros((len(radial), 1))
    upper = np.full((len(radial), 1), edge_radius)
    for _ in range(_BISECTION_STEPS):
        middle = (lower + upper) / 2
        first_coordinates, second_coordinates = pairs(middle)
        firsts = manifold.from_normal_coordinates(base, first_coordinates)
        seconds = manifold.from_normal_coordinates(base, second_coordinates)
        distances = np.asarray(manifold.dist(firsts, seconds))
        is_within = (distances <= sensitivity)[:, np.newaxis]
        lower = np.where(is_within, middle, lower)
        upper = np.where(is_within, upper, middle)
    return pairs(lower)


def _worst_direction(manifold: Manifold) -> np.ndarray:
    """Return the unit vector in whose direction Gaussian noise protects least.

    It is in coordinates of the tangent space. On a product of manifolds it is a
    direction of the factor with the most negative curvature. Elsewhere it is the last
    axis: on SPD(2) = ℝ × H², for example, that axis is in the curved factor H².

    Parameters
    ----------
    manifold : Manifold
        The space of the value.

    Returns
    -------
    array of shape (dim,)
        The coordinates of the direction.
    """
    factors = manifold.factors
    if len(factors) == 1:
        return _unit_vector(manifold.dim, manifold.dim - 1)
    most_curved = int(np.argmin([factor.curvature_bounds[0] for factor in factors]))
    first_coordinate = sum(factor.dim for factor in factors[:most_curved])
    return _unit_vector(manifold.dim, first_coordinate)


def _unit_vector(dim: int, axis: int) -> np.ndarray:
    """Return the unit vector along one axis.

    Parameters
    ----------
    dim : int
        The number of entries.
    axis : int
        The position of the entry that is 1.
    """
    return np.asarray(np.eye(dim)[axis])

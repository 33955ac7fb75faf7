"""Prototypes of classes with private labels. A *prototype* is the mean of the
logarithms of a class's records at the center of a ball, clipped to its radius. Sums and
counts of all classes are released as one vector, and a mean is a noisy sum divided by
an estimated class size.

All classes are released together, as one vector of sums and counts. Replacing a record
together with its label moves that vector no farther than replacing a record within its
class, so that labels are private at no cost (`ClassPrototypes.sum_sensitivity`). The
stages that find the ball are in `curvedp.mechanisms.staged.prototypes`.
"""

from dataclasses import dataclass
from functools import cached_property
from math import inf, log2, nextafter, pi, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.core.codes import PostProcessing, ProtectedUnit
from curvedp.core.fields import AtLeastTwo, assign
from curvedp.core.statistic import Ball, Statistic, public_ball
from curvedp.errors import ParameterError
from curvedp.geometry import Sphere
from curvedp.geometry.ball import carry_records
from curvedp.geometry.capabilities import canonical_center, move_from_origin
from curvedp.geometry.frechet_mean.error_bound import farthest_record
from curvedp.geometry.frechet_mean.public_ball import PublicBall, clip_records
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.statistics.tangent_vectors import clip_rows_to, logs_at

# Entries of a record's or a person's row, of length about 1, are multiples of 2^-20.
ENTRY_BITS = 20
# Whole sums are cut here, where doubles stop to hold every whole number.
LARGEST_SUM = 2**53
# Covers the rounding of the length of a row.
_ROUNDING_OF_LENGTH = 1e-9
# A class is known if it is told from one without records by this many standard
# deviations of the noise. No record is assigned to a class that is not known.
_SCORE_ABOVE_NOISE = 2.75
# Rounds in which the weights of the squared lengths and their mean are estimated.
_ROUNDS_OF_WEIGHTS = 3
# The score of a class that is not known, and of a record that is not a point.
_LOWEST_SCORE = -1e300


@dataclass(frozen=True, eq=False)
class ClassPrototypes(Statistic):
    """The mean clipped logarithm of each class, at one center for all classes.

    It is not the Fréchet mean of a class: logarithms are taken at a common center, and
    clipped to a common radius, which may be as small as half of the records are far.

    Attributes
    ----------
    manifold : Manifold
        The manifold of the records.
    center : point
        The center of the public ball; the origin if the ball is found privately.
    ball_radius : float or None
        The radius of the public ball; None if center and radius are found privately,
        which is for spheres.
    classes : int
        The number of classes, at least 2. Their set is public.
    n : int or None
        The number of records, or of people. None if it is private; neighboring data
        sets then differ by one record that is added or removed, with its label.
    """

    manifold: Manifold
    center: Any
    ball_radius: Any
    classes: AtLeastTwo
    n: Any

    name: ClassVar[str] = "class prototypes"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.LABELED_RECORD,
        ProtectedUnit.LABELED_PERSON,
    )

    def __post_init__(self) -> None:
        """Check the manifold, the ball and the numbers.

        Raises
        ------
        ParameterError
            If a ball is to be found on a manifold that is not a sphere, has a center
            although it is to be found, or a number is wrong.
        """
        check_manifold(self.manifold)
        if self.ball_radius is None:
            if not isinstance(self.manifold, Sphere):
                raise ParameterError(
                    f"is for spheres; give the radius of a public ball on {self.manifold!r}",
                    parameter="radius",
                    value="private",
                )
            ball = public_ball(self.manifold, self.center, 2 * pi)
            assign(self, center=ball.center)
        else:
            ball = public_ball(self.manifold, self.center, self.ball_radius)
            assign(self, center=ball.center, ball_radius=ball.radius)
        if self.n is not None:
            assign(self, n=_validate.integer("n", self.n, 2))
        super().__post_init__()

    @property
    def value_space(self) -> Manifold:
        """The manifold of the records and of the prototypes."""
        return self.manifold

    @property
    def public_count(self) -> int | None:
        """The number of records or people; None if it is private."""
        return None if self.n is None else int(self.n)

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """Prototypes are quotients of noisy sums and noisy counts."""
        return (PostProcessing.QUOTIENT_OF_NOISY_SUMS,)

    @property
    def searches_ball(self) -> bool:
        """Whether the center and the radius of the ball are found privately."""
        return self.ball_radius is None

    @property
    def count_weight(self) -> float:
        """The weight w of a record in the count of its class.

        A record adds (u, w) to the sum of its class, where u is its clipped logarithm,
        |u| ≤ 1. The noisy sum of the last entries, divided by w, is the noisy count. So
        a larger w gives a more accurate count, but may increase the sensitivity and
        with it the noise in the mean.

        If a record is replaced, the sensitivity is 2 for every w ≤ 1, so w = 1 is best.
        If a record is added or removed, the sensitivity is √(1 + w²). The value
        w² = 1/(2√d) is then close to optimal for d dimensions. It is rounded to a power
        of two, so that multiples of w are exact floats.
        """
        if self.n is not None:
            return 1.0
        near_optimal_weight = 1 / sqrt(2 * sqrt(self.manifold.dim))
        return float(2.0 ** round(log2(near_optimal_weight)))

    @property
    def sensitivity(self) -> float:
        """The sensitivity of the vector of all sums and counts, in units of the radius."""
        return self.sum_sensitivity

    @cached_property
    def sum_sensitivity(self) -> float:
        """The sensitivity of the computed sums and counts, in units of the radius.

        A record with label c and clipped logarithm u, |u| ≤ 1, contributes (u, w) to
        block c and 0 to all others.

        Theorem B3 (docs/theory/private-ball.md). If a record is replaced together with
        its label, the vector moves by at most max(2, √(2 + 2w²)), which is 2 for w ≤ 1.
        If a record is added with its label, it moves by at most √(1 + w²). The same
        holds for people whose rows are averages over their records.

        Rounding changes each of the C·(d + 1) entries of a record's row by at most
        2^-21, where C is the number of classes.
        """
        w = self.count_weight
        # Replacing a record changes two rows: the old one and the new one.
        changed_rows = 1 if self.n is None else 2
        exact = sqrt(1 + w * w)
        if self.n is not None:
            exact = max(2.0, sqrt(2 + 2 * w * w))
        n_entries = self.classes * (self.manifold.dim + 1)
        rounding = changed_rows * sqrt(n_entries) * 2.0 ** -(ENTRY_BITS + 1)
        return nextafter(exact * (1 + _ROUNDING_OF_LENGTH) + rounding, inf)

    @cached_property
    def outer_ball(self) -> Ball:
        """The public ball in the canonical frame; the whole sphere if a ball is searched.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.
        """
        radius = 2 * pi if self.searches_ball else self.ball_radius
        center = np.asarray(canonical_center(self.manifold, self.center))
        return Ball(center, farthest_record(self.manifold, radius))

    def clip_to_canonical_ball(self, records: np.ndarray) -> np.ndarray:
        """Return records in the canonical frame, clipped into the outer ball.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records. Entries may be anything.

        Returns
        -------
        array of shape (n, *point_shape)
            Points of the ball, one for each record.
        """
        canonical_points = carry_records(self.manifold, self.center, records)
        return clip_records(
            PublicBall(self.manifold, *self.outer_ball), canonical_points
        )

    def to_unit_logs(self, ball: Ball, points: np.ndarray) -> np.ndarray:
        """Return clipped logarithms at a ball's center, in units of its radius.

        Rows have length at most 1. A record adds its row to the sum of its class.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.

        Parameters
        ----------
        ball : Ball
            The ball in which prototypes are released, in the canonical frame.
        points : array of shape (n, *point_shape)
            Records in the canonical frame, clipped into the outer ball.

        Returns
        -------
        array of shape (n, dim)
            Coordinates at the center.
        """
        logs = logs_at(self.manifold, ball.center, points)
        return clip_rows_to(logs, ball.radius) / ball.radius

    def to_data_frame(self, points: np.ndarray) -> np.ndarray:
        """Move points from the canonical frame to the frame of the records.

        In the canonical frame an isometry has moved the ball's center to where floats
        are most accurate: the origin, or the center itself on a compact space.

        Parameters
        ----------
        points : array of shape (k, *point_shape)
            Points in the canonical frame, such as released centers.
        """
        return np.asarray(move_from_origin(self.manifold, self.center, points))


class LabeledPoints(NamedTuple):
    """Prepared records with class labels, and perhaps with persons. NOT private.

    Attributes
    ----------
    points : array, shape (records, *point_shape)
        The records, clipped into the outer ball, in the canonical frame.
    class_index : array of int, shape (records,)
        The class of each record, from 0.
    person_index : array of int, shape (records,), or None
        The person of each record, from 0 without gaps; None if each has their own.
    """

    points: np.ndarray
    class_index: np.ndarray
    person_index: np.ndarray | None = None


def pooled_counts(counts: np.ndarray, count_std: float) -> np.ndarray:
    """Estimate class sizes from noisy counts, with a smaller error than the counts.

    Noisy sums are divided by these estimates. By empirical Bayes, the sizes are modeled
    as draws from a distribution with the variance τ², which is estimated as the
    variance of the counts minus the variance of the noise. Each count is moved toward
    their average by the fraction count_std²/(τ² + count_std²) of the distance. Let s be
    the standard deviation of such an estimate. Estimates below s, or below 1, are
    replaced by the larger of these two numbers, so that no sum is divided by a number
    near 0.

    Parameters
    ----------
    counts : array, shape (classes,)
        The released noisy number of records of each class.
    count_std : float
        The standard deviation of the noise in each count.

    Returns
    -------
    array, shape (classes,)
        Estimates of the sizes, all at least 1.
    """
    noise_variance = count_std**2
    variance_of_sizes = max(0.0, float(np.var(counts, ddof=1)) - noise_variance)
    # The fraction of a count's distance from the average that is kept.
    weight = variance_of_sizes / (variance_of_sizes + noise_variance)
    average = float(np.mean(counts))
    estimates = average + weight * (counts - average)

    std_of_estimate = sqrt(weight) * count_std
    smallest_estimate = max(1.0, std_of_estimate)
    return np.asarray(np.maximum(estimates, smallest_estimate))


@dataclass(frozen=True, eq=False)
class Prototypes:
    """Released prototypes, and the classifier by the nearest of them.

    Attributes
    ----------
    ball : Ball
        The ball in which they were released, in the canonical frame.
    means : array, shape (classes, dim)
        The noisy mean clipped logarithm of each class, in units of the radius.
    counts : array, shape (classes,)
        The noisy number of records, or of people, of each class.
    noise_std : array, shape (classes,)
        About the standard deviation of the noise in each entry of a mean.
    count_std : float
        The standard deviation of the noise in each count.
    """

    ball: Ball
    means: np.ndarray
    counts: np.ndarray
    noise_std: np.ndarray
    count_std: float

    @cached_property
    def exceeds_noise(self) -> np.ndarray:
        """Whether the prototype of each class is more than noise, shape (classes,).

        Suppose that a class has no records. Then its noisy count and the squared length
        of its noisy mean, minus d·σ², are approximately normal with mean 0 and known
        variances. Each is divided by its standard deviation. A class is known if the
        sum of both is too large to be noise.
        """
        dim = self.means.shape[1]
        noise_square = self.noise_std**2
        excess = np.sum(self.means**2, axis=1) - dim * noise_square
        # For a mean of 0, |m|² has the variance 2dσ⁴ (χ² with d degrees of freedom).
        length_score = excess / (sqrt(2 * dim) * noise_square)
        count_score = self.counts / self.count_std
        return np.asarray((length_score + count_score) / sqrt(2) >= _SCORE_ABOVE_NOISE)

    @cached_property
    def squared_lengths(self) -> np.ndarray:
        """Estimates of the squared lengths of the noiseless class means, shape (classes,).

        Noise of standard deviation σ in each of d coordinates increases the squared
        length of a mean by d·σ² on average. The increase is larger for small classes,
        which would then receive too few records. After subtracting it, the error of the
        squared length has the variance v = 4Tσ² + 2dσ⁴, where T is the squared length.

        By empirical Bayes (docs/theory/private-ball.md, "Prototypes of classes") the
        squared lengths of the known classes are modeled as draws around a common T with
        a variance τ. Both are estimated, and each estimate is moved toward T: its own
        weight is τ/(τ + v).
        """
        dim = self.means.shape[1]
        noise_square = self.noise_std**2
        unbiased = np.sum(self.means**2, axis=1) - dim * noise_square
        known = (
            self.exceeds_noise
            if self.exceeds_noise.any()
            else np.full(len(unbiased), True)
        )

        # The common squared length T and the variances v depend on each other: iterate.
        common = 0.0
        variances = 2 * dim * noise_square**2
        for _ in range(_ROUNDS_OF_WEIGHTS):
            weights = known / variances
            common = max(0.0, float(np.average(unbiased, weights=weights)))
            variances = 4 * common * noise_square + 2 * dim * noise_square**2

        # τ is the part of the squared deviations from T that noise does not explain.
        excess = (unbiased - common) ** 2 - variances
        tau = max(0.0, float(np.average(excess, weights=known / variances**2)))
        pooled = (tau * unbiased + variances * common) / (tau + variances)
        return np.asarray(np.clip(pooled, 0.0, 1.0))

    def squared_distances(self, unit_logs: np.ndarray) -> np.ndarray:
        """Estimate the squared distance of each record to each class mean without noise.

        Parameters
        ----------
        unit_logs : array of shape (n, dim)
            The clipped logarithm of each record at the ball's center, in units of the
            radius.

        Returns
        -------
        array of shape (n, classes)
            In units of the squared radius. An estimate may be below 0.
        """
        # |z − m|² = |z|² − 2⟨z, m⟩ + |m|², with an estimate of |m|² without noise.
        squares = np.sum(unit_logs**2, axis=1, keepdims=True)
        return np.asarray(squares - 2 * unit_logs @ self.means.T + self.squared_lengths)

    def scores(self, unit_logs: np.ndarray) -> np.ndarray:
        """Return the score of each class for each record; the largest score decides.

        The score is minus the estimated squared distance of the record to the class
        mean. For a record z this estimate contains noise of standard deviation 2σ|z|,
        which is large for small classes. One standard deviation is subtracted from the
        score, so that a small class does not attract records by its noise.

        Parameters
        ----------
        unit_logs : array of shape (n, dim)
            The clipped logarithm of each record at the ball's center, in units of the
            radius.

        Returns
        -------
        array of shape (n, classes)
            In units of squared distances.
        """
        lengths = np.linalg.norm(unit_logs, axis=1, keepdims=True)
        penalties = 2 * lengths * self.noise_std
        losses = self.squared_distances(unit_logs) + penalties
        scores = -(self.ball.radius**2) * losses
        scores = np.where(np.isfinite(scores), scores, _LOWEST_SCORE)
        if not self.exceeds_noise.any():
            return scores
        return np.where(self.exceeds_noise, scores, _LOWEST_SCORE)

"""How much a noisy point on the circle or on the line can reveal, in closed form. The
noise is centered at η₁ for one data set and at η₂, a distance D away, for a neighboring
one. The privacy loss L is the log ratio of the two output densities at a random output.

P₁ denotes probabilities for noise about η₁.

Definitions. The circle has circumference 2π, and s is the scale of the noise. y is the
signed distance of an output from η₁, and η₂ is at y = D. The privacy loss exceeds t on
one interval −r_b < y < y_a, whose ends each class states. Jiang et al. (2023),
Corollary 3.2.1, prints another set for the Gaussian on the circle, and a δ that is too
small (docs/errata.md, E1).
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp
from curvedp.privacy.loss.law import PrivacyLossLaw

# A Gauss–Legendre rule on (−1, 1).
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
# The integrals of `_log_normal_between` are taken by quadrature if the log density of
# the normal law changes by less than this across the interval.
_QUADRATURE_MAX_CHANGE = 4.0
# Beyond this many standard deviations a normal density is negligible: e^-72.
_NEGLIGIBLE_DEVIATIONS = 12
# A logarithm that is just below 0, in place of 0.
_JUST_BELOW_ZERO = -1e-300
# The table of a Laplace loss ends at a loss t with T − t < 1e-4, T the largest loss,
# and −log(1 − t/T) at least 16: log(1e4) is 9.2.
_LOG_GAP_AT_TABLE_END = 9.5
_SMALLEST_TABLE_END = 16.0


@dataclass(frozen=True)
class CircleGaussianLoss(PrivacyLossLaw):
    """The privacy loss of the density ∝ exp(−d²/2s²) on the circle of circumference 2π.

    d is the distance from the center of the noise. The two centers η₁ and η₂ are a
    distance D apart, and y is the signed distance from η₁, with η₂ at y = D. The loss L
    exceeds t exactly on −r_b < y < y_a, where

        y_a = (D² − 2s²t)/(2D)      and      r_b = ((2π−D)² − 2s²t)/(2(2π−D)).

    Attributes
    ----------
    s, distance : float
        The scale s and the distance D <= π.
    """

    s: float
    distance: float

    @property
    def max_loss(self) -> float:
        """The largest loss D(2π − D)/2s², attained at the point opposite to η₂.

        D is the distance of the centers η₁ and η₂ of the noise, and s is its scale.
        """
        return self.distance * (2 * math.pi - self.distance) / (2 * self.s**2)

    @property
    def root_fisher_information(self) -> float:
        """The square root of the Fisher information about the center of the noise.

        The information says how much a tiny move of the center changes the noise. Its
        root is √E[y²]/s², where y is the signed distance from the center: normal with
        the standard deviation s, truncated to [−π, π]. The mean square is a ratio of
        two integrals over [0, min(π, 12s)], by symmetry.
        """
        end = min(math.pi, _NEGLIGIBLE_DEVIATIONS * self.s)
        y = end * ((_NODES + 1) / 2)
        weight = _WEIGHTS / 2 * np.exp(-y * y / (2 * self.s**2))
        mean_square = float(np.sum(weight * y * y) / np.sum(weight))
        return math.sqrt(mean_square) / self.s**2

    @property
    def loss_scale(self) -> float:
        """D·√(Fisher information): the standard deviation of the loss for small D.

        D is the distance of the two centers of the noise.
        """
        return self.distance * self.root_fisher_information

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """Return log P₁(L > t) and log P₁(L <= t) at losses 0 <= t < max_loss.

        L is the privacy loss and P₁ the law of the noise about the first center η₁.
        With y the signed distance from η₁, D the distance of the centers and s the
        scale, L > t exactly on the arc −r_b < y < y_a, where

            y_a = (D² − 2s²t)/(2D)      and      r_b = ((2π−D)² − 2s²t)/(2(2π−D)).

        Under P₁, y is normal with the scale s, truncated to [−π, π]. Each tail is the
        normal probability of its arcs, divided by the probability of [−π, π].

        Parameters
        ----------
        t : array
            Losses t, 0 <= t < max_loss.

        Returns
        -------
        log_upper, log_lower : array
            The logarithms of the two probabilities, which add up to 1.
        """
        # The ends of the arc on which L > t.
        s, D = self.s, self.distance
        far_distance = 2 * math.pi - D  # from η₁ to η₂, the long way around
        y_a = (D * D - 2 * s * s * t) / (2 * D)
        r_b = (far_distance * far_distance - 2 * s * s * t) / (2 * far_distance)
        antipode = np.full_like(t, math.pi)  # of η₁, where the circle is cut open

        # The logarithms of normal probabilities: of the circle, and of three arcs.
        log_mass = _log_normal_between(-antipode[:1] / s, antipode[:1] / s)[0]
        log_upper = _log_normal_between(-r_b / s, y_a / s) - log_mass
        log_right = _log_normal_between(y_a / s, antipode / s)
        log_left = _log_normal_between(-antipode / s, -r_b / s)
        log_lower = log_sum_exp(np.stack([log_right, log_left]), axis=0) - log_mass
        return np.minimum(log_upper, 0.0), np.minimum(log_lower, 0.0)


@dataclass(frozen=True)
class _LaplaceLoss(PrivacyLossLaw):
    """The privacy loss of a density ∝ exp(−d/s) in one dimension; it has atoms at ±D/s.

    d is the distance from the center of the noise, and the two centers are D apart.

    Attributes
    ----------
    s, distance : float
        The scale s and the distance D of the centers.
    """

    s: float
    distance: float

    @property
    def max_loss(self) -> float:
        """The largest loss D/s, with D the distance of the centers and s the scale."""
        return self.distance / self.s

    @property
    def root_fisher_information(self) -> float:
        """The square root of the Fisher information about the center of the noise.

        It is 1/s with the scale s, because log p changes at the rate ±1/s if the center
        is moved.
        """
        return 1 / self.s

    @property
    def loss_scale(self) -> float:
        """The length on which the tails vary: D/s, a value with positive probability.

        D is the distance of the two centers of the noise and s its scale.
        """
        return self.distance / self.s

    @property
    def table_end(self) -> float:  # type: ignore[override]  # a class attribute there
        """How close to the largest loss T a table must go, expressed as −log(1 − t/T).

        The loss takes the value T with positive probability. Close to T the tails vary
        with T − t itself, so the table ends at a loss t with T − t < 1e-4.
        """
        end = math.log(self.max_loss) + _LOG_GAP_AT_TABLE_END
        return max(_SMALLEST_TABLE_END, end)


@dataclass(frozen=True)
class CircleLaplaceLoss(_LaplaceLoss):
    """The privacy loss of Laplace noise on the circle of circumference 2π.

    The density is ∝ exp(−d/s), with d the distance from the center of the noise.
    """

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """Return log P₁(L > t) and log P₁(L <= t) at losses 0 <= t < max_loss.

        L is the privacy loss and P₁ the law of the noise about the first center η₁.
        With y the signed distance from η₁, D the distance of the centers and s the
        scale, L > t exactly on the arc −(π − (D+st)/2) < y < (D−st)/2. The density of y
        is e^{−|y|/s}/(s·mass) with mass = 2·(1 − e^{−π/s}), so that every arc has a
        probability in closed form.

        Parameters
        ----------
        t : array
            Losses t, 0 <= t < max_loss.

        Returns
        -------
        log_upper, log_lower : array
            The logarithms of the two probabilities, which add up to 1.
        """
        s, D = self.s, self.distance
        # The ends of the arc and the antipode of η₁, as distances from η₁ divided by s.
        right_end = (D - s * t) / (2 * s)
        left_end = (math.pi - (D + s * t) / 2) / s
        antipode = math.pi / s
        mass = -2 * math.expm1(-antipode)
        with np.errstate(divide="ignore"):
            log_upper = np.log(-(np.expm1(-right_end) + np.expm1(-left_end)) / mass)
            log_beyond_right = np.log(-np.expm1(right_end - antipode)) - right_end
            log_beyond_left = np.log(-np.expm1(left_end - antipode)) - left_end
            log_lower = np.logaddexp(log_beyond_right, log_beyond_left) - math.log(mass)
        return np.minimum(log_upper, 0.0), np.minimum(log_lower, 0.0)


@dataclass(frozen=True)
class LineLaplaceLoss(_LaplaceLoss):
    """The privacy loss of Laplace noise on the line, with centers D apart.

    The density is exp(−|y|/s)/2s, with y the signed distance from the center.
    """

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """Return log P₁(L > t) and log P₁(L <= t) at losses 0 <= t < max_loss.

        L is the privacy loss and P₁ the law of the noise about the first center. With y
        the signed distance from that center, D the distance of the centers and s the
        scale, L > t exactly if y < (D − st)/2. So P₁(L <= t) = e^{−(D/s − t)/2}/2.

        Parameters
        ----------
        t : array
            Losses t, 0 <= t < max_loss.

        Returns
        -------
        log_upper, log_lower : array
            The logarithms of the two probabilities, which add up to 1.
        """
        log_lower = -(self.distance / self.s - t) / 2 - math.log(2)
        return np.log1p(-np.exp(log_lower)), log_lower


def _log_normal_between(a: Array, b: Array) -> Array:
    """Return the log probability of an interval [a, b] under the standard normal law.

    The tails of a privacy loss on the circle are such probabilities. The result is
    log(Φ(b) − Φ(a)), with Φ the normal distribution function, and has full relative
    precision. Intervals in the right tail are reflected to the left. If the normal
    density changes little between a and b, it is integrated by quadrature; otherwise
    the difference of two values of Φ loses no digits.

    Parameters
    ----------
    a : array
        The left ends of intervals.
    b : array
        The right ends, b >= a.

    Returns
    -------
    array
        One logarithm for each interval; −infinity for an empty one.
    """
    # Reflect intervals in the right tail, where Φ is close to 1, to the left.
    is_right = a + b > 0
    left = np.where(is_right, -b, a)
    right = np.where(is_right, -a, b)
    width = np.maximum(right - left, 0.0)

    with np.errstate(divide="ignore", invalid="ignore"):
        log_density_change = width * np.maximum(np.abs(left), 1.0)
        changes_little = log_density_change < _QUADRATURE_MAX_CHANGE
        by_quadrature = _log_normal_by_quadrature(left, width, changes_little)
        by_difference = _log_normal_by_difference(left, right)
    return np.where(changes_little, by_quadrature, by_difference)


def _log_normal_by_quadrature(
    left: Array, width: Array, selected: NDArray[np.bool_]
) -> Array:
    """Return log(Φ(left + width) − Φ(left)) by quadrature of the normal density.

    Parameters
    ----------
    left : array
        The left ends of intervals.
    width : array
        Their lengths.
    selected : array of bool
        The intervals whose results are used; those of the others are arbitrary.

    Returns
    -------
    array
        One logarithm for each interval.
    """
    # The last axis is for the nodes.
    start = np.where(selected, left, 0.0)[..., None]
    length = np.where(selected, width, 0.0)[..., None]
    nodes = start + length * (_NODES + 1) / 2
    log_mean = log_sum_exp(-nodes * nodes / 2 + np.log(_WEIGHTS / 2), axis=-1)
    return np.asarray(np.log(width) + log_mean - 0.5 * math.log(2 * math.pi))


def _log_normal_by_difference(left: Array, right: Array) -> Array:
    """Return log(Φ(right) − Φ(left)) as a difference of two values of Φ.

    Parameters
    ----------
    left : array
        The left ends of intervals.
    right : array
        The right ends.

    Returns
    -------
    array
        One logarithm for each interval.
    """
    log_high = scipy.special.log_ndtr(right)
    log_low = scipy.special.log_ndtr(left)
    # Φ(left) = Φ(right) would give log 0.
    log_ratio = np.minimum(log_low - log_high, _JUST_BELOW_ZERO)
    return np.asarray(log_high + np.log(-np.expm1(log_ratio)))

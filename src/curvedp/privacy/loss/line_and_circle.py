"""Privacy losses in one dimension, in closed form: the circle and the line.

With y the signed angle from the first center η₁ and the second center η₂ at y = D, the
loss exceeds t on one interval −r_b < y < y_a. Jiang et al. (2023), Corollary 3.2.1,
prints another set for the Gaussian on the circle, and a δ that is too small
(docs/errata.md, E1).
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp
from curvedp.privacy.loss.law import PrivacyLossLaw

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)


@dataclass(frozen=True)
class CircleGaussianLoss(PrivacyLossLaw):
    """The loss of the density ∝ exp(−d²/2s²) on the circle, centers D apart.

    L > t exactly on −r_b < y < y_a, where

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
        """D(2π − D)/2s², attained at the point opposite to η₂."""
        return self.distance * (2 * math.pi - self.distance) / (2 * self.s**2)

    @property
    def root_fisher_information(self) -> float:
        """√(Fisher information): √E[y²]/s², y being normal with scale s, truncated to ±π."""
        y = min(math.pi, 12 * self.s) * ((_NODES + 1) / 2)
        weight = _WEIGHTS / 2 * np.exp(-y * y / (2 * self.s**2))
        mean_square = float(np.sum(weight * y * y) / np.sum(weight))
        return math.sqrt(mean_square) / self.s**2

    @property
    def loss_scale(self) -> float:
        """D·√(Fisher information): the standard deviation of L for small D."""
        return self.distance * self.root_fisher_information

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """Return log P₁(L > t) and log P₁(L <= t), at losses t >= 0.

        With y the signed angle from η₁, L > t exactly on the arc −r_b < y < y_a, where
        y_a = (D² − 2s²t)/(2D) and r_b = ((2π−D)² − 2s²t)/(2(2π−D)).
        """
        s, D = self.s, self.distance
        far_distance = 2 * math.pi - D
        y_a = (D * D - 2 * s * s * t) / (2 * D)
        r_b = (far_distance * far_distance - 2 * s * s * t) / (2 * far_distance)
        cut = np.full_like(t, math.pi)

        log_mass = _log_normal_between(-cut[:1] / s, cut[:1] / s)[0]
        log_upper = _log_normal_between(-r_b / s, y_a / s) - log_mass
        log_right = _log_normal_between(y_a / s, cut / s)
        log_left = _log_normal_between(-cut / s, -r_b / s)
        log_lower = log_sum_exp(np.stack([log_right, log_left]), axis=0) - log_mass
        return np.minimum(log_upper, 0.0), np.minimum(log_lower, 0.0)


@dataclass(frozen=True)
class _LaplaceLoss(PrivacyLossLaw):
    """A loss with atoms at ±D/s, of a density ∝ exp(−d/s) in one dimension.

    Attributes
    ----------
    s, distance : float
        The scale s and the distance D of the centers.
    """

    s: float
    distance: float

    @property
    def max_loss(self) -> float:
        """D/s: the density changes by at most e^{D/s}."""
        return self.distance / self.s

    @property
    def root_fisher_information(self) -> float:
        """1/s: |d/dη log p| = 1/s almost everywhere."""
        return 1 / self.s

    @property
    def loss_scale(self) -> float:
        """D/s, at which the loss has an atom."""
        return self.distance / self.s

    @property
    def table_end(self) -> float:  # type: ignore[override]  # a class attribute there
        """How close to T a table must go: to T − t < 1e-4, for next to the atom the
        tails vary with T − t itself."""
        return max(16.0, math.log(self.max_loss) + 9.5)


@dataclass(frozen=True)
class CircleLaplaceLoss(_LaplaceLoss):
    """The loss of the density ∝ exp(−d/s) on the circle, centers D apart."""

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """Return log P₁(L > t) and log P₁(L <= t), at losses t >= 0.

        With y the signed angle from η₁, L > t exactly on the arc
        −(π − (D+st)/2) < y < (D−st)/2.
        """
        s, D = self.s, self.distance
        right_end = (D - s * t) / (2 * s)  # in units of s, like the next two
        left_end = (math.pi - (D + s * t) / 2) / s
        cut = math.pi / s
        mass = -2 * math.expm1(-cut)
        with np.errstate(divide="ignore"):
            log_upper = np.log(-(np.expm1(-right_end) + np.expm1(-left_end)) / mass)
            log_beyond_right = np.log(-np.expm1(right_end - cut)) - right_end
            log_beyond_left = np.log(-np.expm1(left_end - cut)) - left_end
            log_lower = np.logaddexp(log_beyond_right, log_beyond_left) - math.log(mass)
        return np.minimum(log_upper, 0.0), np.minimum(log_lower, 0.0)


@dataclass(frozen=True)
class LineLaplaceLoss(_LaplaceLoss):
    """The loss of the density exp(−|y|/s)/2s on the line, centers D apart."""

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """Return log P₁(L > t) and log P₁(L <= t), at losses t >= 0.

        With y the signed distance from η₁, L > t exactly where y < (D − st)/2.
        """
        log_lower = -(self.distance / self.s - t) / 2 - math.log(2)
        return np.log1p(-np.exp(log_lower)), log_lower


def _log_normal_between(a: Array, b: Array) -> Array:
    """Return log(Φ(b) − Φ(a)) for a <= b, to full relative precision.

    Intervals in the right tail are reflected to the left. If a and b are close, the normal
    density is integrated by quadrature; otherwise the difference of Φ loses no digits.
    """
    is_right = a + b > 0
    a, b = np.where(is_right, -b, a), np.where(is_right, -a, b)
    width = np.maximum(b - a, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        is_close = width * np.maximum(np.abs(a), 1.0) < 4.0
        start = np.where(is_close, a, 0.0)[..., None]
        length = np.where(is_close, width, 0.0)[..., None]
        y = start + length * (_NODES + 1) / 2
        by_quadrature = (
            np.log(width)
            + log_sum_exp(-y * y / 2 + np.log(_WEIGHTS / 2), axis=-1)
            - 0.5 * math.log(2 * math.pi)
        )
        log_high = scipy.special.log_ndtr(b)
        log_low = scipy.special.log_ndtr(a)
        ratio = np.minimum(log_low - log_high, -1e-300)
        by_difference = log_high + np.log(-np.expm1(ratio))
    return np.where(is_close, by_quadrature, by_difference)

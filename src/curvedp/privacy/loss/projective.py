"""The privacy loss of an isotropic law on a real or complex projective space.

Symbols. Units in which the cut locus is at π/2; η₂ at distance D and x at distance r
from η₁; d₂ the distance of x from η₂. The rest is as in `space_form`.

Theorem (docs/exact-profiles.md, Theorem P1). cos d₂ = |cos r·cos D + sin r·sin D·w|, w
real or complex with |w| <= 1. So the loss exceeds t, d₂ > b, on |w + c| < R with

    c = cot r·cot D      and      R = cos b/(sin r·sin D):

an interval of the real w, whose law is that of a Beta variable, or a disc of the
complex w, with the density (n−1)/π·(1−|w|²)^{n−2} on ℂPⁿ. One radial integral of that
probability remains, as on spheres. In terms of the sphere above the projective space
the interval ends where one of the two lifts of η₂ is at distance b: the near lift gives
x = (1 + R − c)/2, the far one x₂ = (1 − R − c)/2.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp, log_symmetric_beta
from curvedp.privacy.loss.space_form import Direction, LevelSet, SpaceFormLoss

HALF_PI = math.pi / 2
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# A rule on the unit disc: radii evenly spaced in area, and angles.
_DISC_NODES, _DISC_WEIGHTS = np.polynomial.legendre.leggauss(12)
_DISC_RADII = np.sqrt((_DISC_NODES + 1) / 2)
_DISC_AREAS = _DISC_WEIGHTS / 2
_DISC_COSINES = np.cos(2 * math.pi * (np.arange(48) + 0.5) / 48)
_DEEP_LOG = -500.0  # a power whose logarithm is below it is near the end of the doubles


class _Lift(NamedTuple):
    """x = cos²(φ/2) for the angle φ at which one lift of η₂ is b away, and 1 − x."""

    x: Array
    one_minus_x: Array


@dataclass(frozen=True)
class ProjectiveLoss(SpaceFormLoss):
    """The loss of an isotropic law on a projective space of real dimension d.

    The diameter is π/2, that is k = 1. On ℂPⁿ, d = 2n, the radial density is that of
    the sphere times cos r.

    Attributes
    ----------
    is_complex : bool
        Whether the space is ℂPⁿ (n >= 2) or real.
    """

    is_complex: bool = False

    _upper_is_small: ClassVar[float] = -math.log(2)

    # ---- the radial density

    @property
    def _diameter(self) -> float:
        return HALF_PI

    @cached_property
    def mode(self) -> float:
        """The mode m of ρ; on a real space that of the sphere, which is below π/2."""
        if not self.is_complex:
            return super().mode

        def log_slope(r: float) -> float:
            pull = r / self.s**2 if self.kind == "gaussian" else 1 / self.s
            return (self.d - 1) / math.tan(r) - math.tan(r) - pull

        upper = HALF_PI * (1 - 1e-15)
        return float(scipy.optimize.brentq(log_slope, 1e-30, upper, xtol=1e-300))

    def log_rho(self, u: Array) -> Array:
        """Return log ρ(m + u) − log ρ(m): that of the sphere plus, on ℂPⁿ, log cos.

        cos(m+u)/cos m = 1 − 2·sin(u/2)·(tan m·cos(u/2) + sin(u/2)).
        """
        log_rho_of_sphere = super().log_rho(u)
        if not self.is_complex:
            return log_rho_of_sphere
        half = np.sin(u / 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = -2 * half * (math.tan(self.mode) * np.cos(u / 2) + half)
            return log_rho_of_sphere + np.log1p(np.maximum(ratio, -1.0))

    @cached_property
    def width(self) -> float:
        """(−(log ρ)″)^{−1/2} at the mode."""
        curvature = (self.d - 1) / math.sin(self.mode) ** 2
        if self.kind == "gaussian":
            curvature = curvature + 1 / self.s**2
        if self.is_complex:
            curvature = curvature + 1 / math.cos(self.mode) ** 2
        return 1 / math.sqrt(curvature)

    # ---- the level sets of the loss

    def _level_set(self, t: Array) -> LevelSet:
        """Return the radii r_a, r_c and r_e of the level L = t.

        Below r_a all or nothing exceeds t; from r_c on both lifts of η₂ count; beyond
        r_e, where b = π/2, nothing exceeds t.
        """
        on_sphere = super()._level_set(t)
        r_a, r_c = on_sphere.radii
        if self.kind == "gaussian":
            r_e = np.sqrt(np.maximum(HALF_PI**2 - 2 * self.s**2 * t, 0.0))
        else:
            r_e = HALF_PI - self.s * t
        return LevelSet([r_a, r_c, np.maximum(r_e, r_c)], on_sphere.center_exceeds)

    def _far_lift(self, r: Array, t: Array) -> _Lift:
        """Return x₂ = (1 − R − c)/2 and 1 − x₂ of the far lift, by half angles.

        They are not clipped: x₂ is negative where the far lift is never the nearer one.
        """
        D = self.distance
        b = self._level_distance(r, t)
        denominator = np.sin(r) * math.sin(D)
        with np.errstate(divide="ignore", invalid="ignore"):
            x = (
                np.sin((r + D + b - math.pi) / 2)
                * np.sin((r + D + math.pi - b) / 2)
                / denominator
            )
            one_minus_x = (
                np.sin((math.pi - b - r + D) / 2)
                * np.sin((math.pi - b + r - D) / 2)
                / denominator
            )
        return _Lift(np.nan_to_num(x, nan=0.0), np.nan_to_num(one_minus_x, nan=1.0))

    # ---- the integrand over r

    def _log_integrand(
        self, u: Array, t: Array, direction: Direction, is_rough: bool = False
    ) -> Array:
        """Return log(ρ(m+u)·share of the directions), as in `SpaceFormLoss`."""
        log_rho = self.log_rho(u)
        if direction is Direction.ALL:
            return log_rho
        r = self.mode + u
        near = _Lift(*self._squared_cosine_of_level(r, t))
        far = self._far_lift(r, t)
        with np.errstate(divide="ignore", invalid="ignore"):
            cos_b = np.maximum(np.cos(self._level_distance(r, t)), 0.0)
            radius = cos_b / (np.sin(r) * math.sin(self.distance))
            if is_rough:
                log_share = self._rough_log_share(near, far, radius, direction)
            elif self.is_complex:
                log_share = self._log_disc_probability(near, far, radius, direction)
            else:
                log_share = self._log_interval_probability(near, far, radius, direction)
        return log_rho + log_share

    def _rough_log_share(
        self, near: _Lift, far: _Lift, radius: Array, direction: Direction
    ) -> Array:
        """Return the log share of directions up to a slowly varying factor."""
        a = (self.d - 1) / 2
        x, y = near
        if direction is Direction.BELOW:
            x, y = y, x
        log_share = np.where(x < 0.5, a * np.log(4 * x * y), 0.0)
        if direction is Direction.ABOVE:
            log_share = log_share + np.log(np.minimum(radius, 1.0))
        return np.maximum(log_share, a * np.log(np.maximum(far.x, 0.0)))

    def _log_interval_probability(
        self, near: _Lift, far: _Lift, radius: Array, direction: Direction
    ) -> Array:
        """Return log P(|w + c| < R), or of its complement, for a real w.

        (1+w)/2 ~ Beta(a, a) with a = (d−1)/2, so that P = I_x − I_{x₂}. Where these
        nearly cancel, ∫ sin^{d−2} over the angles in between is integrated; its half
        width is arcsin(R/sin of the middle).
        """
        a = (self.d - 1) / 2
        x, y = near
        x2 = np.clip(far.x, 0.0, 1.0)
        y2 = np.clip(far.one_minus_x, 0.0, 1.0)
        log_far = log_symmetric_beta(a, x2, y2)
        if direction is Direction.BELOW:
            return np.logaddexp(log_symmetric_beta(a, y, x), log_far)

        log_near = log_symmetric_beta(a, x, y)
        if a == 1.0:  # w is uniform
            return np.where(x2 > 0, np.log(radius), log_near)

        ratio = np.minimum(log_far - log_near, 0.0)
        log_difference = log_near + np.log(-np.expm1(ratio))
        cancels = (x2 > 0) & (log_far - log_near > -0.1)
        if not np.any(cancels):
            return log_difference

        near_half_angle = np.arctan2(np.sqrt(y), np.sqrt(x))
        far_half_angle = np.arctan2(np.sqrt(y2), np.sqrt(x2))
        middle = near_half_angle + far_half_angle
        half_width = np.arcsin(np.minimum(radius / np.sin(middle), 1.0))
        phi = middle[cancels][:, None] + half_width[cancels][:, None] * _NODES
        log_terms = (self.d - 2) * np.log(np.abs(np.sin(phi))) + np.log(_WEIGHTS)
        log_total = math.lgamma(a) + math.lgamma(0.5) - math.lgamma(a + 0.5)
        log_difference[cancels] = (
            np.log(half_width[cancels]) + log_sum_exp(log_terms, axis=1) - log_total
        )
        return log_difference

    def _log_disc_probability(
        self, near: _Lift, far: _Lift, radius: Array, direction: Direction
    ) -> Array:
        """Return log P(|w + c| < R), or of its complement, for a complex w."""
        n = self.d // 2
        shape = np.broadcast_shapes(near.x.shape, far.x.shape, radius.shape)
        x, y, x2, radius = (
            np.broadcast_to(values, shape).ravel()
            for values in (near.x, near.one_minus_x, far.x, radius)
        )
        log_inside, log_outside = log_disc_probabilities(n, x, y, x2, radius)
        chosen = log_outside if direction is Direction.BELOW else log_inside
        return chosen.reshape(shape)


def log_disc_probabilities(
    n: int, x: Array, y: Array, x2: Array, radius: Array
) -> tuple[Array, Array]:
    """Return (log P, log(1−P)) of a disc under the density of w on ℂPⁿ.

    The density (n−1)/π·(1−|w|²)^{n−2} on the unit disc is the divergence of
    −(1−|w|²)^{n−1}/(2π|w|²)·w, which vanishes on the unit circle. So P, or 1 − P if the
    disc holds 0, is the flux of that field through the arc w = −c + R·e^{iψ} within the
    unit disc. Three cases keep the digits:

    - Where the arc comes near 0, the pole is taken off: the field is
      (1 − (1−|w|²)^{n−1})/(2π|w|²)·w, whose flux through the unit circle is the share
      of that circle in the disc.
    - For a small disc inside the unit disc the density itself is integrated.
    - Where the power n−1 would leave the doubles, that of the largest 1−|w|² on the
      arc, 4xy, is taken off; what is left is far from the pole.

    Parameters
    ----------
    n : int
        The complex dimension, n >= 2.
    x, y, x2 : array
        (1 + R − c)/2, its complement to 1, and (1 − R − c)/2.
    radius : array
        R, the radius of the disc about −c.
    """
    c = np.maximum(radius - (x - y), 0.0)
    smallest_square = (x - y) ** 2  # |w|² = smallest_square + 4Rc·sin²(ψ/2)
    rc = np.maximum(radius * c, 1e-300)
    is_central = smallest_square * (n - 1) < 0.5
    is_small = _is_small_disc(n, x, y, x2, radius, c)

    # The arc, as far as (1−|w|²)^{n−1} is above e^-45 of its largest value.
    share_of_arc = np.where(is_central, 1.0, -math.expm1(-45 / (n - 1)))
    psi_end = 2 * np.arcsin(np.sqrt(np.minimum(x * y / rc * share_of_arc, 1.0)))
    psi = psi_end[:, None] * (_NODES + 1) / 2
    sin_square = np.sin(psi / 2) ** 2
    square = smallest_square[:, None] + 4 * rc[:, None] * sin_square
    base, log_base_power = _scaled_base(4 * x * y, n - 1)
    one_minus_square = 4 * (x * y)[:, None] - 4 * rc[:, None] * sin_square
    power = np.maximum(one_minus_square / base[:, None], 0.0) ** (n - 1)
    normal_part = (x - y)[:, None] + 2 * c[:, None] * sin_square  # w·(outward normal)

    with np.errstate(divide="ignore", invalid="ignore"):
        potential = np.where(is_central[:, None], 1 - power, power) / square
        potential = np.where(square > 0, potential, n - 1.0)
        flux = (
            np.sum(potential * normal_part * _WEIGHTS, axis=1)
            * psi_end
            / 2
            * radius
            / math.pi
        )
        inside_of_circle = np.where(x2 < 0, -x * x2 / np.maximum(c, 1e-300), 0.0)
        circle_share = (
            2 / math.pi * np.arcsin(np.sqrt(np.clip(inside_of_circle, 0.0, 1.0)))
        )

        holds_zero = x >= y
        scaled_flux = flux * np.exp(log_base_power)
        inside = np.where(holds_zero, 1 - scaled_flux, -flux)
        inside = np.where(is_central, flux + circle_share, inside)
        outside = np.where(holds_zero, flux, 1 + scaled_flux)
        outside = np.where(is_central, 1 - inside, outside)

        log_inside = np.log(np.maximum(inside, 0.0))
        log_inside = log_inside + np.where(holds_zero, 0.0, log_base_power)
        log_outside = np.log(np.maximum(outside, 0.0))
        log_outside = log_outside + np.where(holds_zero, log_base_power, 0.0)
        if np.any(is_small):
            log_small = _log_small_disc(n, c[is_small], radius[is_small])
            log_inside[is_small] = log_small
            log_outside[is_small] = np.log(np.maximum(1 - np.exp(log_small), 0.0))
    return log_inside, log_outside


def _is_small_disc(
    n: int, x: Array, y: Array, x2: Array, radius: Array, c: Array
) -> NDArray[np.bool_]:
    """Say for which discs the density is integrated instead of a flux.

    Those inside the unit disc that are small beside their distance from its boundary,
    and across which the density does not fall much: where it does, the flux does not
    cancel.
    """
    is_inside = x2 > 0
    is_far_from_circle = radius < 0.3 * (radius + 2 * np.maximum(x2, 0.0))
    density_varies_little = (n - 2) * radius * c < 4 * x * y
    return np.asarray(is_inside & is_far_from_circle & density_varies_little)


def _scaled_base(largest: Array, power: int) -> tuple[Array, Array]:
    """Return a factor to take off some bases before a power, and log(factor^power).

    The factor is the largest base where its power is near the end of the doubles, and 1
    elsewhere.
    """
    with np.errstate(divide="ignore"):
        is_deep = power * np.log(largest) < _DEEP_LOG
    factor = np.where(is_deep & (largest > 0), largest, 1.0)
    return factor, power * np.log(factor)


def _log_small_disc(n: int, c: Array, radius: Array) -> Array:
    """Return log of (n−1)/π·∫(1−|w|²)^{n−2} over a disc inside the unit disc.

    The disc has the center −c and the radius R; its own polar coordinates are used.
    """
    c_column = c[:, None, None]
    q = radius[:, None, None] * _DISC_RADII[:, None]
    square = c_column**2 + q * q - 2 * c_column * q * _DISC_COSINES
    largest = 1 - np.maximum(c - radius, 0.0) ** 2
    base, log_base_power = _scaled_base(largest, n - 2)
    powers = ((1 - square) / base[:, None, None]) ** (n - 2)
    mean_density = np.mean(powers, axis=2) @ _DISC_AREAS
    return np.asarray(np.log((n - 1) * radius**2 * mean_density) + log_base_power)

"""The privacy loss of isotropic noise on a real or complex projective space.

`ProjectiveLoss` computes its tails by one radial integral, as on spheres.

Definitions. Units are such that the cut locus is at the distance π/2. The centers of the
noise are η₁ and η₂, a distance D apart; an output is at the distance r from η₁ and d₂
from η₂. b is the value of d₂ on the level L = t of the loss. The remaining symbols are
those of `space_form`.

Theorem (docs/exact-profiles.md, Theorem P1). cos d₂ = |cos r·cos D + sin r·sin D·w|,
where w is real or complex with |w| <= 1. So the loss exceeds t, that is d₂ > b, where
|w + c| < R with

    c = cot r·cot D      and      R = cos b/(sin r·sin D).

This is an interval of the real w, for which (1+w)/2 ~ Beta(a, a), or a disc of the
complex w, with the density (n−1)/π·(1−|w|²)^{n−2} on ℂPⁿ. One radial integral of its
probability remains. On the sphere above the projective space, η₂ has two lifts. The
interval ends where one of them is at the distance b: x = (1 + R − c)/2 for the near
lift and x₂ = (1 − R − c)/2 for the far one.
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
_DEEP_LOG = -500.0  # a power with a smaller logarithm is close to underflow
_LARGEST_DECAY = 45  # an integrand below e^-45 of its maximum is negligible


class _Lift(NamedTuple):
    """x = cos²(φ/2) and 1 − x, for the angle φ at which one lift of η₂ is at distance b."""

    x: Array
    one_minus_x: Array


@dataclass(frozen=True)
class ProjectiveLoss(SpaceFormLoss):
    """The privacy loss of isotropic noise on a projective space of real dimension d.

    The diameter is π/2, and the curvature is k = 1. On ℂPⁿ, d = 2n, the density of the
    radius r is that of the sphere times cos r.

    Attributes
    ----------
    is_complex : bool
        Whether the space is ℂPⁿ (n >= 2) or real. The other attributes are those of
        `SpaceFormLoss`.
    """

    is_complex: bool = False

    _upper_is_small: ClassVar[float] = -math.log(2)

    # ---- the radial density

    @property
    def _diameter(self) -> float:
        return HALF_PI

    @cached_property
    def mode(self) -> float:
        """The mode m of the density ρ of the radius.

        On a real space it is that of the sphere, which is below π/2. On ℂPⁿ it solves
        (log ρ)′ = (d−1)·cot m − tan m − m/s² = 0, with 1/s in place of m/s² for Laplace.
        """
        if not self.is_complex:
            return super().mode

        def log_slope(r: float) -> float:
            """Return (log ρ)′(r)."""
            weight_slope = r / self.s**2 if self.kind == "gaussian" else 1 / self.s
            return (self.d - 1) / math.tan(r) - math.tan(r) - weight_slope

        upper = HALF_PI * (1 - 1e-15)
        return float(scipy.optimize.brentq(log_slope, 1e-30, upper, xtol=1e-300))

    def log_rho(self, u: Array) -> Array:
        """Return log ρ(m + u) − log ρ(m), the log density of the radius about its mode m.

        It is that of the sphere plus, on ℂPⁿ, the logarithm of
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
        """The length scale on which ρ varies: (−(log ρ)″)^{−1/2} at its mode."""
        curvature = (self.d - 1) / math.sin(self.mode) ** 2
        if self.kind == "gaussian":
            curvature = curvature + 1 / self.s**2
        if self.is_complex:
            curvature = curvature + 1 / math.cos(self.mode) ** 2
        return 1 / math.sqrt(curvature)

    # ---- the level sets of the loss

    def _level_set(self, t: Array) -> LevelSet:
        """Return the radii r_a, r_c and r_e of the level L = t.

        Below r_a the loss exceeds t in all directions or in none. From r_c on both lifts of η₂
        matter. Beyond r_e, where the level is at the distance π/2 from η₂, the loss exceeds t
        in no direction.
        """
        on_sphere = super()._level_set(t)
        r_a, r_c = on_sphere.radii
        if self.kind == "gaussian":
            r_e = np.sqrt(np.maximum(HALF_PI**2 - 2 * self.s**2 * t, 0.0))
        else:
            r_e = HALF_PI - self.s * t
        return LevelSet([r_a, r_c, np.maximum(r_e, r_c)], on_sphere.center_exceeds)

    def _far_lift(self, r: Array, t: Array) -> _Lift:
        """Return x₂ = (1 − R − c)/2 and 1 − x₂ of the far lift, in half angles.

        c = cot r·cot D and R = cos b/(sin r·sin D), see the module's theorem. The results are
        not clipped: x₂ < 0 where the far lift is never the nearer one.

        Parameters
        ----------
        r, t : array
            The distance from η₁ and the level of the loss; they broadcast.
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
        """Return log(ρ(m+u)/ρ(m)·F), F being the probability of some directions.

        The parameters are those of `SpaceFormLoss._log_integrand`: u = r − m relative to the
        mode m of ρ, the level t, the directions that count, and whether F is wanted only
        roughly.
        """
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
                log_probability = self._rough_log_probability(
                    near, far, radius, direction
                )
            elif self.is_complex:
                log_probability = self._log_disc_probability(
                    near, far, radius, direction
                )
            else:
                log_probability = self._log_interval_probability(
                    near, far, radius, direction
                )
        return log_rho + log_probability

    def _rough_log_probability(
        self, near: _Lift, far: _Lift, radius: Array, direction: Direction
    ) -> Array:
        """Return log F up to a slowly varying factor, F being the probability of directions.

        Parameters
        ----------
        near, far : _Lift
            cos² and sin² of half the angles at which the lifts are at the distance b.
        radius : array
            R of the module's theorem.
        direction : Direction
            Which directions count: those with L > t or with L <= t.
        """
        a = (self.d - 1) / 2
        x, y = near
        if direction is Direction.BELOW:
            x, y = y, x
        log_probability = np.where(x < 0.5, a * np.log(4 * x * y), 0.0)
        if direction is Direction.ABOVE:
            log_probability = log_probability + np.log(np.minimum(radius, 1.0))
        return np.maximum(log_probability, a * np.log(np.maximum(far.x, 0.0)))

    def _log_interval_probability(
        self, near: _Lift, far: _Lift, radius: Array, direction: Direction
    ) -> Array:
        """Return log P(|w + c| < R) for a real w, or that of the complement.

        (1+w)/2 ~ Beta(a, a) with a = (d−1)/2. So P = I_x − I_{x₂}, where I is the regularized
        incomplete beta function, x belongs to the near lift and x₂ to the far one. Where the
        two nearly cancel, sin^{d−2} is integrated over the angles between them; the half
        width of that interval is arcsin(R/sin(middle)).

        Parameters
        ----------
        near, far : _Lift
            (x, 1 − x) and (x₂, 1 − x₂).
        radius : array
            R.
        direction : Direction
            ABOVE for the probability, BELOW for that of the complement.
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
        """Return log P(|w + c| < R) for a complex w, or that of the complement.

        The parameters are those of `_log_interval_probability`.
        """
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
    """Return log P and log(1 − P), P being the probability of a disc |w + c| < R.

    w has the density (n−1)/π·(1−|w|²)^{n−2} on the unit disc (ℂPⁿ). That density is the
    divergence of the field −(1−|w|²)^{n−1}/(2π|w|²)·w, which vanishes on the unit circle.
    So P, or 1 − P if the disc contains 0, is the flux of that field through the arc
    w = −c + R·e^{iψ} within the unit disc. Three cases keep the digits:

    - Where the arc comes near 0 ("central" below), the pole is subtracted. The field is
      then (1 − (1−|w|²)^{n−1})/(2π|w|²)·w, whose flux through the unit circle is the
      fraction of that circle inside the disc.
    - For a small disc inside the unit disc the density itself is integrated.
    - Where the power n−1 would underflow, that of the largest 1−|w|² on the arc, 4xy,
      is factored out. The arc is then far from the pole.

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
    is_central = (x - y) ** 2 * (n - 1) < 0.5
    is_small = _is_small_disc(n, x, y, x2, radius, c)
    holds_zero = x >= y

    with np.errstate(divide="ignore", invalid="ignore"):
        # The flux is in units of exp(log_unit).
        flux, log_unit = _flux_through_arc(n, x, y, c, radius, is_central)
        scaled_flux = flux * np.exp(log_unit)
        circle_fraction = _circle_fraction(x, x2, c)

        inside = np.where(holds_zero, 1 - scaled_flux, -flux)
        inside = np.where(is_central, flux + circle_fraction, inside)
        outside = np.where(holds_zero, flux, 1 + scaled_flux)
        outside = np.where(is_central, 1 - inside, outside)

        log_inside = np.log(np.maximum(inside, 0.0))
        log_inside = log_inside + np.where(holds_zero, 0.0, log_unit)
        log_outside = np.log(np.maximum(outside, 0.0))
        log_outside = log_outside + np.where(holds_zero, log_unit, 0.0)
        if np.any(is_small):
            log_small = _log_small_disc(n, c[is_small], radius[is_small])
            log_inside[is_small] = log_small
            log_outside[is_small] = np.log(np.maximum(1 - np.exp(log_small), 0.0))
    return log_inside, log_outside


def _flux_through_arc(
    n: int, x: Array, y: Array, c: Array, radius: Array, is_central: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Return the flux of `log_disc_probabilities` through the arc w = −c + R·e^{iψ}.

    On the arc |w|² = (x−y)² + 4Rc·sin²(ψ/2), and w·(outward normal) is
    (x−y) + 2c·sin²(ψ/2).

    Parameters
    ----------
    n, x, y, radius
        The parameters of `log_disc_probabilities`.
    c : array
        The disc has the center −c.
    is_central : array of bool
        Whether the pole at w = 0 is subtracted from the field.

    Returns
    -------
    flux, log_unit : array
        The flux is flux·exp(log_unit).
    """
    smallest_square = (x - y) ** 2
    rc = np.maximum(radius * c, 1e-300)

    # The arc ends where (1−|w|²)^{n−1} is e^-45 of its largest value.
    used_part = np.where(is_central, 1.0, -math.expm1(-_LARGEST_DECAY / (n - 1)))
    psi_end = 2 * np.arcsin(np.sqrt(np.minimum(x * y / rc * used_part, 1.0)))
    psi = psi_end[:, None] * (_NODES + 1) / 2
    sin_square = np.sin(psi / 2) ** 2
    square = smallest_square[:, None] + 4 * rc[:, None] * sin_square
    base, log_unit = _scaled_base(4 * x * y, n - 1)
    one_minus_square = 4 * (x * y)[:, None] - 4 * rc[:, None] * sin_square
    power = np.maximum(one_minus_square / base[:, None], 0.0) ** (n - 1)
    normal_part = (x - y)[:, None] + 2 * c[:, None] * sin_square

    potential = np.where(is_central[:, None], 1 - power, power) / square
    potential = np.where(square > 0, potential, n - 1.0)
    integral = np.sum(potential * normal_part * _WEIGHTS, axis=1) * psi_end / 2
    return integral * radius / math.pi, log_unit


def _circle_fraction(x: Array, x2: Array, c: Array) -> Array:
    """Return the fraction of the unit circle inside the disc |w + c| < R.

    With x = (1 + R − c)/2 and x₂ = (1 − R − c)/2 it is 2/π·arcsin√(−x·x₂/c), and 0 if
    the disc lies inside the unit disc (x₂ >= 0).
    """
    squared_sine = np.where(x2 < 0, -x * x2 / np.maximum(c, 1e-300), 0.0)
    half_angle = np.arcsin(np.sqrt(np.clip(squared_sine, 0.0, 1.0)))
    return np.asarray(2 / math.pi * half_angle)


def _is_small_disc(
    n: int, x: Array, y: Array, x2: Array, radius: Array, c: Array
) -> NDArray[np.bool_]:
    """Say for which discs the density itself is integrated, instead of a flux.

    These are the discs inside the unit disc that are small relative to their distance
    from its boundary, and across which the density does not vary much. Where it varies
    more, the flux does not cancel. The parameters are those of `log_disc_probabilities`.
    """
    is_inside = x2 > 0
    is_far_from_circle = radius < 0.3 * (radius + 2 * np.maximum(x2, 0.0))
    density_varies_little = (n - 2) * radius * c < 4 * x * y
    return np.asarray(is_inside & is_far_from_circle & density_varies_little)


def _scaled_base(largest: Array, power: int) -> tuple[Array, Array]:
    """Return a factor by which some bases are divided before a power is taken.

    Parameters
    ----------
    largest : array
        The largest of the bases.
    power : int
        The power.

    Returns
    -------
    factor : array
        The largest base if its power is close to underflow, else 1.
    log_factor_power : array
        log(factor^power), which undoes the division.
    """
    with np.errstate(divide="ignore"):
        is_deep = power * np.log(largest) < _DEEP_LOG
    factor = np.where(is_deep & (largest > 0), largest, 1.0)
    return factor, power * np.log(factor)


def _log_small_disc(n: int, c: Array, radius: Array) -> Array:
    """Return log((n−1)/π·∫(1−|w|²)^{n−2}) over a small disc inside the unit disc.

    The integral is taken in polar coordinates about the center of the disc.

    Parameters
    ----------
    n : int
        The complex dimension, n >= 2.
    c, radius : array
        The disc has the center −c and this radius.
    """
    c_column = c[:, None, None]
    q = radius[:, None, None] * _DISC_RADII[:, None]
    square = c_column**2 + q * q - 2 * c_column * q * _DISC_COSINES
    largest = 1 - np.maximum(c - radius, 0.0) ** 2
    base, log_base_power = _scaled_base(largest, n - 2)
    powers = ((1 - square) / base[:, None, None]) ** (n - 2)
    mean_density = np.mean(powers, axis=2) @ _DISC_AREAS
    return np.asarray(np.log((n - 1) * radius**2 * mean_density) + log_base_power)

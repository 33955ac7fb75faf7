"""How much a noisy point of a projective space (a space of lines) can reveal. The noise
is centered at η₁ for one data set and at η₂ for a neighboring one. The privacy loss L
is the log ratio of the two output densities at a random output. A point has two lifts
to the sphere above.

`ProjectiveLoss` computes P(L > t) and P(L <= t) by an integral over the distance r of
the output from η₁.

Definitions. Units are such that the cut locus is at the distance π/2. The centers are a
distance D apart; d₂ is the distance of an output from η₂, and b the value of d₂ at
which L = t. d is the real dimension of the space, a = (d−1)/2, s the scale of the
noise, and ρ the density of r.

Theorem (docs/theory/exact-profiles.md, Theorem P1). cos d₂ = |cos r·cos D +
sin r·sin D·w|, where w is real or complex with |w| <= 1. So the loss exceeds t, that is
d₂ > b, exactly if |w + c| < R with

    c = cot r·cot D      and      R = cos b/(sin r·sin D).

This is an interval of the real w, for which (1+w)/2 ~ Beta(a, a), or a disc of the
complex w, with the density (n−1)/π·(1−|w|²)^{n−2} on ℂPⁿ. One radial integral of its
probability remains. On the sphere above the projective space, η₂ has two lifts. The
interval ends where one of them is at the distance b. In the coordinate (1+w)/2, its
right end is x = (1 + R − c)/2 for the near lift, and its left end x₂ = (1 − R − c)/2
for the far one. A disc has its center at −c and meets the real axis at these ends.
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
# A Gauss–Legendre rule on (−1, 1), for integrals over an angle.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# A rule on the unit disc: 12 Gauss–Legendre nodes in the area, and 48 angles.
_DISC_NODES, _DISC_WEIGHTS = np.polynomial.legendre.leggauss(12)
_DISC_RADII = np.sqrt((_DISC_NODES + 1) / 2)
_DISC_AREAS = _DISC_WEIGHTS / 2
_DISC_COSINES = np.cos(2 * math.pi * (np.arange(48) + 0.5) / 48)
# A power with a smaller logarithm is close to underflow (the smallest float is e^-745).
_LOG_NEAR_UNDERFLOW = -500.0
# A logarithm: an integrand below e^-45 of its maximum is negligible.
_LARGEST_DECAY = 45
# If the logarithms of I_x(a, a) and I_{x₂}(a, a) are closer than this, the difference
# of the two numbers would lose digits.
_CANCELING_LOG_RATIO = -0.1
# A disc |w + c| < R comes near w = 0 if (R − c)²·(n − 1) is below this, n the complex
# dimension: then the power (1−|w|²)^{n−1} is still large there.
_NEAR_POLE = 0.5
# A disc is small if its radius is below this fraction of the distance of its center
# from the unit circle.
_SMALL_DISC_FRACTION = 0.3
# A positive number in place of 0, for divisors.
_TINY = 1e-300


class _LiftAngle(NamedTuple):
    """An angle φ seen from the first noise center, as x = cos²(φ/2) and 1 − x.

    A line through the origin meets the unit sphere in two opposite points, its lifts. φ
    is the angle at which a point is at a given distance b from one lift of the second
    noise center, where the privacy loss has the value in question. x < 0 means that
    there is no such angle.
    """

    x: Array
    one_minus_x: Array


@dataclass(frozen=True)
class ProjectiveLoss(SpaceFormLoss):
    """The privacy loss of isotropic noise on a projective space of real dimension d.

    The diameter is π/2. The density of the distance r of an output from its center is
    that on a sphere of curvature k = 1, times cos r on a complex space.

    Attributes
    ----------
    is_complex : bool
        Whether the space is the complex one, ℂPⁿ with d = 2n and n >= 2, or the real
        one. The other attributes (kind, d, s, distance, order) have the same meaning as
        those of `SpaceFormLoss`.
    """

    is_complex: bool = False

    _upper_is_small: ClassVar[float] = -math.log(2)

    # ---- the radial density

    @property
    def _diameter(self) -> float:
        """The largest distance between two points of the space, π/2."""
        return HALF_PI

    @cached_property
    def mode(self) -> float:
        """The most likely distance m of an output from the center of the noise.

        It maximizes the density ρ of that distance. On a real projective space it is
        that on the sphere. On a complex one it solves
        (log ρ)′(m) = (d−1)·cot m − tan m − m/s² = 0 for the Gaussian, with 1/s in place
        of m/s² for the Laplace law; d is the real dimension and s the scale.
        """
        if not self.is_complex:
            return super().mode

        def log_density_slope(radius: float) -> float:
            """Return (log ρ)′, which is positive below the mode and negative above."""
            is_gaussian = self.kind == "gaussian"
            weight_slope = radius / self.s**2 if is_gaussian else 1 / self.s
            return (self.d - 1) / math.tan(radius) - math.tan(radius) - weight_slope

        # The slope is infinite at both ends, 0 and π/2, and is not evaluated there.
        lower = 1e-30
        upper = HALF_PI * (1 - 1e-15)
        root = scipy.optimize.brentq(log_density_slope, lower, upper, xtol=1e-300)
        return float(root)

    def log_rho(self, u: Array) -> Array:
        """Return the log density of the radius, relative to its value at the mode.

        The radius r is the distance of an output from the center of the noise, ρ its
        density, and m the mode of ρ. The result is that on the sphere plus, on a
        complex projective space, the logarithm of
        cos(m+u)/cos m = 1 − 2·sin(u/2)·(tan m·cos(u/2) + sin(u/2)).

        Parameters
        ----------
        u : array
            Offsets u = r − m of radii r from the mode m.

        Returns
        -------
        array
            log ρ(m + u) − log ρ(m) <= 0, of the shape of `u`.
        """
        log_rho_of_sphere = super().log_rho(u)
        if not self.is_complex:
            return log_rho_of_sphere
        half_sine = np.sin(u / 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative_change = (
                -2 * half_sine * (math.tan(self.mode) * np.cos(u / 2) + half_sine)
            )
            return log_rho_of_sphere + np.log1p(np.maximum(relative_change, -1.0))

    @cached_property
    def width(self) -> float:
        """The width of the peak of the density ρ of the radius at its mode m.

        The radius is the distance of an output from the center of the noise. The width
        is (−(log ρ)″(m))^{−1/2}, where −(log ρ)″ is (d−1)/sin² m, plus 1/s² for the
        Gaussian, plus 1/cos² m on a complex projective space.
        """
        curvature = (self.d - 1) / math.sin(self.mode) ** 2
        if self.kind == "gaussian":
            curvature = curvature + 1 / self.s**2
        if self.is_complex:
            curvature = curvature + 1 / math.cos(self.mode) ** 2
        return 1 / math.sqrt(curvature)

    # ---- the level sets of the loss

    def _level_set(self, t: Array) -> LevelSet:
        """Return the radii at which the set of directions with L > t changes shape.

        The radius of an output is its distance from the first center of the noise.
        There are three of them, r_a, r_c and r_e, for each t. Below r_a the privacy
        loss exceeds t in all directions or in none. Beyond r_c, two points of the
        sphere above the second center matter instead of one. Beyond r_e the loss
        exceeds t in no direction.

        Parameters
        ----------
        t : array
            Values of the loss, in one dimension.

        Returns
        -------
        LevelSet
            The three radii, and whether the loss at the first center is larger than t.
        """
        on_sphere = super()._level_set(t)
        r_a, r_c = on_sphere.radii
        if self.kind == "gaussian":
            r_e = np.sqrt(np.maximum(HALF_PI**2 - 2 * self.s**2 * t, 0.0))
        else:
            r_e = HALF_PI - self.s * t
        return LevelSet([r_a, r_c, np.maximum(r_e, r_c)], on_sphere.center_exceeds)

    def _far_lift(self, r: Array, t: Array) -> _LiftAngle:
        """Return the angle at which the far lift of the second center decides the loss.

        A line through the origin meets the unit sphere in two opposite points, its
        lifts. Seen from the first noise center η₁, the second one, η₂, has a near and a
        far lift. Consider outputs at the distance r from η₁. Let b be the distance from
        η₂ at which the privacy loss is t, and φ the angle, seen from η₁, at which an
        output is at the distance b from the far lift. With the distance D of the
        centers, x₂ = cos²(φ/2) and 1 − x₂ are

            x₂     = sin((r+D+b−π)/2)·sin((r+D+π−b)/2) / (sin r·sin D),
            1 − x₂ = sin((π−b−r+D)/2)·sin((π−b+r−D)/2) / (sin r·sin D).

        They are not clipped to [0, 1]: x₂ < 0 if the near lift is always closer.

        Parameters
        ----------
        r : array
            Distances of outputs from η₁.
        t : array
            Values of the loss; they broadcast with `r`.

        Returns
        -------
        _LiftAngle
            x₂ and 1 − x₂.
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
        return _LiftAngle(
            np.nan_to_num(x, nan=0.0), np.nan_to_num(one_minus_x, nan=1.0)
        )

    # ---- the integrand over r

    def _log_integrand(
        self, u: Array, t: Array, direction: Direction, is_rough: bool = False
    ) -> Array:
        """Return log(ρ(m+u)/ρ(m)·F), the logarithm of the integrand of a tail.

        The radius r = m + u of an output is its distance from the first center, ρ the
        density of r, and m its mode. F is the probability, given r, that the direction
        of the output is one of those that count: all, or those with a privacy loss
        L > t, or with L <= t. Directions have a real or complex coordinate w, and L > t
        exactly if |w + c| < R. Here c = cot r·cot D and R = cos b/(sin r·sin D), with
        the distance D of the centers and the distance b from the second center at which
        the loss is t.

        Parameters
        ----------
        u : array
            Offsets u = r − m of radii r from the mode m.
        t : array
            Values of the loss; they broadcast with `u`.
        direction : Direction
            The directions that count.
        is_rough : bool
            Whether F may be off by a slowly varying factor. This is cheaper, and enough
            to find where the integrand is not negligible.

        Returns
        -------
        array
            The logarithms, of the shape to which `u` and `t` broadcast.
        """
        log_rho = self.log_rho(u)
        if direction is Direction.ALL:
            return log_rho
        r = self.mode + u
        near_lift = _LiftAngle(*self._squared_cosine_of_level(r, t))
        far_lift = self._far_lift(r, t)
        with np.errstate(divide="ignore", invalid="ignore"):
            cos_b = np.maximum(np.cos(self._level_distance(r, t)), 0.0)
            radius = cos_b / (np.sin(r) * math.sin(self.distance))  # R
            if is_rough:
                compute_log_probability = self._rough_log_probability
            elif self.is_complex:
                compute_log_probability = self._log_disc_probability
            else:
                compute_log_probability = self._log_interval_probability
            log_probability = compute_log_probability(
                near_lift, far_lift, radius, direction
            )
        return log_rho + log_probability

    def _rough_log_probability(
        self,
        near_lift: _LiftAngle,
        far_lift: _LiftAngle,
        radius: Array,
        direction: Direction,
    ) -> Array:
        """Return a rough log probability of the directions with a loss > t, or <= t.

        It is off by a slowly varying term, and only serves to find where an integrand
        is not negligible. The directions with a loss > t are |w + c| < R, for a
        coordinate w. In terms of (1+w)/2 they end at x on one side and at x₂ on the
        other. With a = (d−1)/2, their probability is about

            (4x(1−x))^a   if x < 1/2, and 1 otherwise,

        times min(R, 1), and at least x₂^a. For the directions with a loss <= t, x and
        1 − x are exchanged, and the factor min(R, 1) is absent.

        Parameters
        ----------
        near_lift : _LiftAngle
            x and 1 − x, from the nearer point of the sphere above the second center.
        far_lift : _LiftAngle
            x₂ and 1 − x₂, from the farther one.
        radius : array
            R, the radius of the interval or disc of w.
        direction : Direction
            ABOVE for the directions with a loss > t, BELOW for the others.

        Returns
        -------
        array
            The rough logarithms, of the shape of `radius`.
        """
        a = (self.d - 1) / 2
        x, one_minus_x = near_lift
        if direction is Direction.BELOW:
            x, one_minus_x = one_minus_x, x
        log_probability = np.where(x < 0.5, a * np.log(4 * x * one_minus_x), 0.0)
        if direction is Direction.ABOVE:
            log_probability = log_probability + np.log(np.minimum(radius, 1.0))
        return np.maximum(log_probability, a * np.log(np.maximum(far_lift.x, 0.0)))

    def _log_interval_probability(
        self,
        near_lift: _LiftAngle,
        far_lift: _LiftAngle,
        radius: Array,
        direction: Direction,
    ) -> Array:
        """Return the log probability of the interval |w + c| < R, or of its complement.

        w is the coordinate of a random direction on a real projective space, and
        v = (1+w)/2 ~ Beta(a, a) with a = (d−1)/2. In terms of v the interval ends at
        left_end = (1 − R − c)/2 and right_end = (1 + R − c)/2. With I the regularized
        incomplete beta function, its probability is I(right_end) − I(left_end), and
        that of the complement I(1 − right_end) + I(left_end).

        If the two terms of the difference nearly cancel, the density sin^{d−2} φ of the
        angle φ is integrated instead over the angles of that interval. Its half width
        is arcsin(R/sin(middle)).

        Parameters
        ----------
        near_lift : _LiftAngle
            right_end, and 1 − right_end.
        far_lift : _LiftAngle
            left_end, and 1 − left_end; they are clipped to [0, 1].
        radius : array
            R, half the length of the interval of w.
        direction : Direction
            ABOVE for the probability, BELOW for that of the complement.

        Returns
        -------
        array
            The logarithms, of the shape of `radius`.
        """
        a = (self.d - 1) / 2
        right_end, above_right = near_lift  # above_right is 1 − right_end
        left_end = np.clip(far_lift.x, 0.0, 1.0)
        above_left = np.clip(far_lift.one_minus_x, 0.0, 1.0)

        # The complement: log P(v < left_end) and log P(v > right_end), added.
        log_below_left = log_symmetric_beta(a, left_end, above_left)
        if direction is Direction.BELOW:
            log_beyond_right = log_symmetric_beta(a, above_right, right_end)
            return np.logaddexp(log_beyond_right, log_below_left)

        # The interval: P(v < right_end) − P(v < left_end).
        log_below_right = log_symmetric_beta(a, right_end, above_right)
        if a == 1.0:  # w is uniform
            return np.where(left_end > 0, np.log(radius), log_below_right)

        log_ratio = np.minimum(log_below_left - log_below_right, 0.0)
        log_difference = log_below_right + np.log(-np.expm1(log_ratio))
        cancels = (left_end > 0) & (
            log_below_left - log_below_right > _CANCELING_LOG_RATIO
        )
        if not np.any(cancels):
            return log_difference

        # Integrate the density of the angle φ, sin^{d−2} φ / total, between the lifts.
        near_half_angle = np.arctan2(np.sqrt(above_right), np.sqrt(right_end))
        far_half_angle = np.arctan2(np.sqrt(above_left), np.sqrt(left_end))
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
        self,
        near_lift: _LiftAngle,
        far_lift: _LiftAngle,
        radius: Array,
        direction: Direction,
    ) -> Array:
        """Return the log probability of the disc |w + c| < R, or of its complement.

        w is the coordinate of a random direction on ℂPⁿ (d = 2n), with the density
        (n−1)/π·(1−|w|²)^{n−2} on the unit disc. `log_disc_probabilities` computes both
        logarithms, for arrays in one dimension.

        Parameters
        ----------
        near_lift : _LiftAngle
            right_end = (1 + R − c)/2, and 1 − right_end.
        far_lift : _LiftAngle
            left_end = (1 − R − c)/2, and 1 − left_end.
        radius : array
            R. It broadcasts with the fields of the lifts.
        direction : Direction
            ABOVE for the probability, BELOW for that of the complement.

        Returns
        -------
        array
            The logarithms, of the shape to which the arguments broadcast.
        """
        n = self.d // 2
        shape = np.broadcast_shapes(near_lift.x.shape, far_lift.x.shape, radius.shape)
        right_end, above_right, left_end, flat_radius = (
            np.broadcast_to(values, shape).ravel()
            for values in (near_lift.x, near_lift.one_minus_x, far_lift.x, radius)
        )
        log_inside, log_outside = log_disc_probabilities(
            n, right_end, above_right, left_end, flat_radius
        )
        log_probability = log_outside if direction is Direction.BELOW else log_inside
        return log_probability.reshape(shape)


def log_disc_probabilities(
    n: int, right_end: Array, above_right: Array, left_end: Array, radius: Array
) -> tuple[Array, Array]:
    """Return log P and log(1 − P), with P the probability of a disc |w + c| < R.

    w has the density (n−1)/π·(1−|w|²)^{n−2} on the unit disc. (It is the coordinate of
    a random direction on ℂPⁿ.) That density is the divergence of the field
    −(1−|w|²)^{n−1}/(2π|w|²)·w, which vanishes on the unit circle. So P, or 1 − P if the
    disc contains 0, is the flux of that field through the arc w = −c + R·e^{iψ} within
    the unit disc. Three special cases preserve precision:

    - If the arc comes near 0 (`is_central`), the pole is subtracted. The field is then
      (1 − (1−|w|²)^{n−1})/(2π|w|²)·w, whose flux through the unit circle is the
      fraction of that circle inside the disc.
    - For a small disc inside the unit disc (`is_small`) the density itself is
      integrated.
    - If the power n−1 would underflow, that of the largest 1−|w|² on the arc is
      factored out (`log_unit`). The arc is then far from the pole.

    Parameters
    ----------
    n : int
        The complex dimension, n >= 2.
    right_end : array, shape (k,)
        (1 + R − c)/2, where −c is the center of the disc: it ends at w = −c + R on the
        real axis, which is mapped by (1 + w)/2.
    above_right : array, shape (k,)
        1 − right_end, to full precision.
    left_end : array, shape (k,)
        (1 − R − c)/2, for the other end w = −c − R.
    radius : array, shape (k,)
        R, the radius of the disc.

    Returns
    -------
    log_inside, log_outside : array, shape (k,)
        log P and log(1 − P).
    """
    # On the real axis the disc ends at R − c = 2·right_end − 1.
    end_on_axis = right_end - above_right
    center_offset = np.maximum(radius - end_on_axis, 0.0)  # c
    is_central = end_on_axis**2 * (n - 1) < _NEAR_POLE
    is_small = _is_small_disc(
        n, right_end, above_right, left_end, radius, center_offset
    )
    contains_zero = right_end >= above_right

    with np.errstate(divide="ignore", invalid="ignore"):
        # The flux through the arc, in units of exp(log_unit).
        flux, log_unit = _flux_through_arc(
            n, right_end, above_right, center_offset, radius, is_central
        )
        scaled_flux = flux * np.exp(log_unit)
        circle_fraction = _circle_fraction(right_end, left_end, center_offset)

        # P and 1 − P. The one that equals ± the flux stays in units of exp(log_unit).
        cases = [is_central, contains_zero]
        inside = np.select(cases, [flux + circle_fraction, 1 - scaled_flux], -flux)
        outside = np.select(cases, [1 - inside, flux], 1 + scaled_flux)

        log_inside = np.log(np.maximum(inside, 0.0))
        log_inside = log_inside + np.where(contains_zero, 0.0, log_unit)
        log_outside = np.log(np.maximum(outside, 0.0))
        log_outside = log_outside + np.where(contains_zero, log_unit, 0.0)

        if np.any(is_small):
            log_small = _log_small_disc(n, center_offset[is_small], radius[is_small])
            log_inside[is_small] = log_small
            log_outside[is_small] = np.log(np.maximum(1 - np.exp(log_small), 0.0))
    return log_inside, log_outside


def _flux_through_arc(
    n: int,
    right_end: Array,
    above_right: Array,
    center_offset: Array,
    radius: Array,
    is_central: NDArray[np.bool_],
) -> tuple[Array, Array]:
    """Return the flux of a radial field through an arc in the unit disc.

    It is the main part of the probability of a disc |w + c| < R. The arc is
    w = −c + R·e^{iψ} within the unit disc. The field is
    (1−|w|²)^{n−1}/(2π|w|²)·w, or (1 − (1−|w|²)^{n−1})/(2π|w|²)·w if `is_central`: then
    the pole at w = 0 is subtracted. With R − c = 2·right_end − 1, on the arc

        |w|² = (R−c)² + 4Rc·sin²(ψ/2),      w·(outward normal) = (R−c) + 2c·sin²(ψ/2).

    The largest value of 1 − |w|² on it is 1 − (R−c)² = 4·right_end·above_right. By
    symmetry the integral over ψ > 0 is doubled.

    Parameters
    ----------
    n : int
        The complex dimension, n >= 2.
    right_end : array, shape (k,)
        (1 + R − c)/2.
    above_right : array, shape (k,)
        1 − right_end.
    center_offset : array, shape (k,)
        c; the center of the disc is −c.
    radius : array, shape (k,)
        R, the radius of the disc.
    is_central : array of bool, shape (k,)
        Whether the pole is subtracted.

    Returns
    -------
    flux, log_unit : array, shape (k,)
        The flux is flux·exp(log_unit); the sign is that of the outward normal.
    """
    smallest_square = (right_end - above_right) ** 2
    # Rc is a divisor below; a tiny number in place of 0 makes the arc end at ψ = π.
    radius_times_offset = np.maximum(radius * center_offset, _TINY)

    # The arc ends at the unit circle, or where (1−|w|²)^{n−1} is e^-45 of its largest
    # value.
    used_fraction = np.where(is_central, 1.0, -math.expm1(-_LARGEST_DECAY / (n - 1)))
    sin_square_at_end = right_end * above_right / radius_times_offset * used_fraction
    psi_end = 2 * np.arcsin(np.sqrt(np.minimum(sin_square_at_end, 1.0)))
    psi = psi_end[:, None] * (_NODES + 1) / 2
    sin_square = np.sin(psi / 2) ** 2
    square = smallest_square[:, None] + 4 * radius_times_offset[:, None] * sin_square

    # (1−|w|²)^{n−1}, divided by exp(log_unit) so that it does not underflow.
    base, log_unit = _underflow_divisor(4 * right_end * above_right, n - 1)
    one_minus_square = (
        4 * (right_end * above_right)[:, None]
        - 4 * radius_times_offset[:, None] * sin_square
    )
    power = np.maximum(one_minus_square / base[:, None], 0.0) ** (n - 1)
    end_on_axis = (right_end - above_right)[:, None]
    normal_component = end_on_axis + 2 * center_offset[:, None] * sin_square

    # At w = 0 the field with the pole subtracted has the limit n − 1.
    field_strength = np.where(is_central[:, None], 1 - power, power) / square
    field_strength = np.where(square > 0, field_strength, n - 1.0)
    integral = (
        np.sum(field_strength * normal_component * _WEIGHTS, axis=1) * psi_end / 2
    )
    return integral * radius / math.pi, log_unit


def _circle_fraction(right_end: Array, left_end: Array, center_offset: Array) -> Array:
    """Return the fraction of the unit circle that lies inside the disc |w + c| < R.

    It is 2/π·arcsin√(−right_end·left_end/c), and 0 if the disc lies inside the unit
    disc (left_end >= 0).

    Parameters
    ----------
    right_end : array
        (1 + R − c)/2: the right end of the disc on the real axis, mapped by (1 + w)/2.
    left_end : array
        (1 − R − c)/2: the left end of the disc, mapped likewise.
    center_offset : array
        c; the center of the disc is −c.

    Returns
    -------
    array
        Numbers from 0 to 1.
    """
    squared_sine = np.where(
        left_end < 0, -right_end * left_end / np.maximum(center_offset, _TINY), 0.0
    )
    half_angle = np.arcsin(np.sqrt(np.clip(squared_sine, 0.0, 1.0)))
    return np.asarray(2 / math.pi * half_angle)


def _is_small_disc(
    n: int,
    right_end: Array,
    above_right: Array,
    left_end: Array,
    radius: Array,
    center_offset: Array,
) -> NDArray[np.bool_]:
    """Say for which discs |w + c| < R a density is integrated over the disc itself.

    Otherwise its probability is computed as a flux through the boundary, which would
    lose digits for these discs: they lie inside the unit disc, are small compared with
    their distance from its boundary, and the density (1−|w|²)^{n−2} varies little
    across them.

    Parameters
    ----------
    n : int
        The complex dimension, n >= 2.
    right_end : array
        (1 + R − c)/2: the right end of the disc on the real axis, mapped by (1 + w)/2.
    above_right : array
        1 − right_end.
    left_end : array
        (1 − R − c)/2: the left end of the disc, mapped likewise.
    radius : array
        R, the radius of the disc.
    center_offset : array
        c; the center of the disc is −c.

    Returns
    -------
    array of bool
        One truth value for each disc.
    """
    is_inside = left_end > 0
    distance_of_center = radius + 2 * np.maximum(left_end, 0.0)  # from the unit circle
    is_far_from_circle = radius < _SMALL_DISC_FRACTION * distance_of_center
    density_varies_little = (
        n - 2
    ) * radius * center_offset < 4 * right_end * above_right
    return np.asarray(is_inside & is_far_from_circle & density_varies_little)


def _underflow_divisor(largest: Array, power: int) -> tuple[Array, Array]:
    """Return a divisor that keeps powers of small numbers from underflowing.

    The caller wants x^power for several x <= `largest`. It computes (x/divisor)^power
    instead, and adds the logarithm of divisor^power to its result.

    Parameters
    ----------
    largest : array
        The largest of the numbers x.
    power : int
        The power.

    Returns
    -------
    divisor : array
        `largest` if its power is close to underflow, else 1.
    log_divisor_power : array
        log(divisor^power).
    """
    with np.errstate(divide="ignore"):
        is_near_underflow = power * np.log(largest) < _LOG_NEAR_UNDERFLOW
    divisor = np.where(is_near_underflow & (largest > 0), largest, 1.0)
    return divisor, power * np.log(divisor)


def _log_small_disc(n: int, center_offset: Array, radius: Array) -> Array:
    """Return the log probability of a small disc |w + c| < R inside the unit disc.

    w has the density (n−1)/π·(1−|w|²)^{n−2} on the unit disc: it is one coordinate of a
    uniform point on the unit sphere of C^n. The probability of the disc is its area πR²
    times the mean of the density over it. The mean is computed by a quadrature rule
    that is exact for polynomials of high degree: 12 distances q from the center −c (the
    Gauss–Legendre nodes in q²/R², where equal steps have equal areas) and 48 equally
    spaced angles. There |w|² = c² + q² − 2cq·cos(angle).

    Parameters
    ----------
    n : int
        The complex dimension, n >= 2.
    center_offset : array, shape (k,)
        c; the center of the disc is −c.
    radius : array, shape (k,)
        R, the radius of the disc.

    Returns
    -------
    array, shape (k,)
        One logarithm for each disc.
    """
    # |w|² at the nodes: one axis for discs, one for distances q, one for angles.
    offset_column = center_offset[:, None, None]
    node_distance = radius[:, None, None] * _DISC_RADII[:, None]
    square = (
        offset_column**2
        + node_distance * node_distance
        - 2 * offset_column * node_distance * _DISC_COSINES
    )

    # The power (1−|w|²)^{n−2} is divided by that of its largest base if it could
    # underflow, and the logarithm of the divisor is added in the end.
    largest_base = 1 - np.maximum(center_offset - radius, 0.0) ** 2
    divisor, log_divisor_power = _underflow_divisor(largest_base, n - 2)
    powers = ((1 - square) / divisor[:, None, None]) ** (n - 2)

    # The mean over angles, then the mean over the area, whose weights add up to 1.
    mean_power = np.mean(powers, axis=2) @ _DISC_AREAS
    return np.asarray(np.log((n - 1) * radius**2 * mean_power) + log_divisor_power)

"""How much a noisy point of a projective space (a space of lines) can reveal. The noise
is centered at η₁ for one data set and at η₂ for a neighboring one. The privacy loss L
is the log ratio of the two output densities at a random output. A point is a line
through 0 and meets the unit sphere in two opposite points, its lifts.

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
right end is (1 + R − c)/2 for the near lift, and its left end (1 − R − c)/2 for the
far one. A disc has its center at −c and meets the real axis at these ends.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from curvedp.numerics.directed_rounding import NO_ABSOLUTE_ERROR, Array
from curvedp.numerics.log_space import log_sum_exp, log_symmetric_beta
from curvedp.privacy.loss.space_form import Direction, LevelSet, SpaceFormLoss

HALF_PI = math.pi / 2
# A Gauss–Legendre rule on (−1, 1), for integrals over an angle.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# A quadrature rule on the unit disc: 12 Gauss–Legendre nodes in the squared radius,
# which is proportional to the area, and 48 evenly spaced angles.
_DISK_NODES, _DISK_WEIGHTS = np.polynomial.legendre.leggauss(12)
_DISK_RADII = np.sqrt((_DISK_NODES + 1) / 2)
_DISK_AREAS = _DISK_WEIGHTS / 2
_DISK_COSINES = np.cos(2 * math.pi * (np.arange(48) + 0.5) / 48)
# A power with a smaller logarithm is close to underflow (the smallest float is e^-745).
# Anything from -700 to 0 is safe.
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
_SMALL_DISK_FRACTION = 0.3
# A positive number in place of 0, for divisors.
_TINY = 1e-300
# A search for the mode of the radius stays between these numbers, in (0, π/2).
_SMALLEST_MODE = 1e-30
_LARGEST_MODE = HALF_PI * (1 - 1e-15)


class _ExceedingDirections(NamedTuple):
    """The directions, seen from the first noise center, with a privacy loss above t.

    A random direction has a coordinate w, a real or complex number with |w| <= 1. The
    loss exceeds t exactly if |w + c| < R. This is an interval of real numbers, or a
    disc of complex ones, about −c. On the real axis it ends at −c + R and −c − R. Both
    ends are stored as v = (1 + w)/2, together with 1 − v, which would lose digits if it
    were computed from v. An end with v < 0 lies outside the unit disc.

    Attributes
    ----------
    right_end : array
        v = (1 + R − c)/2, from the nearer lift of the second noise center.
    above_right : array
        1 − right_end.
    left_end : array
        v = (1 − R − c)/2, from the farther lift.
    above_left : array
        1 − left_end.
    radius : array
        R, half the length of the interval, or the radius of the disc.
    """

    right_end: Array
    above_right: Array
    left_end: Array
    above_left: Array
    radius: Array


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

        It maximizes the density ρ of that distance. A real projective space has the
        same mode as the sphere. On a complex one, the mode m solves
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
        root = scipy.optimize.brentq(
            log_density_slope, _SMALLEST_MODE, _LARGEST_MODE, xtol=NO_ABSOLUTE_ERROR
        )
        return float(root)

    def log_rho(self, u: Array) -> Array:
        """Return the log density of the radius, relative to its value at the mode.

        The radius r is the distance of an output from the center of the noise, ρ its
        density, and m the mode of ρ. A real projective space has the same ρ as the
        sphere. On a complex one ρ has a further factor cos r, which adds the logarithm
        of cos(m+u)/cos m = 1 − 2·sin(u/2)·(tan m·cos(u/2) + sin(u/2)).

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

        # For a complex space, add log(cos(m+u)/cos m).
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

        The radius of an output is its distance from the first center of the noise, and
        L its privacy loss. There are three such radii, r_a, r_c and r_e, for each t.
        Below r_a, L exceeds t in all directions or in none. Beyond r_c, both lifts of
        the second center (the two points of the sphere above it) matter instead of one.
        Beyond r_e, L exceeds t in no direction.

        The order r_a <= r_c <= r_e must stay, because integrals run between neighbors.

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

    def _exceeding_directions(self, r: Array, t: Array) -> _ExceedingDirections:
        """Return the directions in which outputs at the distance r have a loss above t.

        A point is a line through the origin, which meets the unit sphere in two
        opposite points, its lifts. Seen from the first noise center η₁, the second one,
        η₂, has a near and a far lift. Consider outputs at the distance r from η₁. Their
        loss is t at the distance b from η₂. Such an output is at the distance b from
        the near lift or from the far one, at angles φ and φ₂ seen from η₁. With the
        distance D of the centers, the two ends of the set of directions are
        v = cos²(φ/2), from `_squared_cosine_of_level`, and v₂ = cos²(φ₂/2), where

            v₂     = sin((r+D+b−π)/2)·sin((r+D+π−b)/2) / (sin r·sin D),
            1 − v₂ = sin((π−b−r+D)/2)·sin((π−b+r−D)/2) / (sin r·sin D).

        v₂ and 1 − v₂ are not clipped to [0, 1]: v₂ < 0 if the near lift is always
        closer. Half the length of the interval is R = cos b/(sin r·sin D).

        Parameters
        ----------
        r : array
            Distances of outputs from η₁.
        t : array
            Values of the loss; they broadcast with `r`.

        Returns
        -------
        _ExceedingDirections
            The set |w + c| < R of their coordinates w.
        """
        # The near lift gives the right end.
        D = self.distance
        right_end, above_right = self._squared_cosine_of_level(r, t)

        # The left end, from the law of cosines for the far lift.
        b = self._level_distance(r, t)
        denominator = np.sin(r) * math.sin(D)
        with np.errstate(divide="ignore", invalid="ignore"):
            left_end = (
                np.sin((r + D + b - math.pi) / 2)
                * np.sin((r + D + math.pi - b) / 2)
                / denominator
            )
            above_left = (
                np.sin((math.pi - b - r + D) / 2)
                * np.sin((math.pi - b + r - D) / 2)
                / denominator
            )
            radius = np.maximum(np.cos(b), 0.0) / denominator  # R

        # At r = 0 the formulas are 0/0, and no direction is special.
        return _ExceedingDirections(
            right_end,
            above_right,
            left_end=np.nan_to_num(left_end, nan=0.0),
            above_left=np.nan_to_num(above_left, nan=1.0),
            radius=radius,
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
        exactly if w lies in an interval or disc (`_ExceedingDirections`).

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

        exceeding = self._exceeding_directions(self.mode + u, t)
        with np.errstate(divide="ignore", invalid="ignore"):
            if is_rough:
                log_probability = self._rough_log_probability(exceeding, direction)
            elif self.is_complex:
                log_probability = self._log_disc_probability(exceeding, direction)
            else:
                log_probability = self._log_interval_probability(exceeding, direction)
        return log_rho + log_probability

    def _rough_log_probability(
        self, exceeding: _ExceedingDirections, direction: Direction
    ) -> Array:
        """Return a rough log probability of the directions with a loss > t, or <= t.

        It is off by a slowly varying term, and only serves to find where an integrand
        is not negligible. Let x be the right end of the set of directions with a loss
        > t, x₂ its left end, R its radius and a = (d−1)/2, with d the dimension of the
        space. The probability of that set is about

            (4x(1−x))^a   if x < 1/2, and 1 otherwise,

        times min(R, 1), and at least x₂^a. For the directions with a loss <= t, x and
        1 − x are exchanged, and the factor min(R, 1) is absent.

        Parameters
        ----------
        exceeding : _ExceedingDirections
            The directions with a loss > t.
        direction : Direction
            ABOVE for the directions with a loss > t, BELOW for the others.

        Returns
        -------
        array
            The rough logarithms, of the shape of `exceeding.radius`.
        """
        a = (self.d - 1) / 2
        x = exceeding.right_end
        one_minus_x = exceeding.above_right
        if direction is Direction.BELOW:
            x, one_minus_x = one_minus_x, x

        log_probability = np.where(x < 0.5, a * np.log(4 * x * one_minus_x), 0.0)
        if direction is Direction.ABOVE:
            log_radius = np.log(np.minimum(exceeding.radius, 1.0))
            log_probability = log_probability + log_radius
        log_lower_bound = a * np.log(np.maximum(exceeding.left_end, 0.0))
        return np.maximum(log_probability, log_lower_bound)

    def _log_interval_probability(
        self, exceeding: _ExceedingDirections, direction: Direction
    ) -> Array:
        """Return the log probability of the interval |w + c| < R, or of its complement.

        w is the coordinate of a random direction on a real projective space of
        dimension d, and v = (1+w)/2 ~ Beta(a, a) with a = (d−1)/2. The interval runs
        from −c − R to −c + R (`_ExceedingDirections`); in terms of v it ends at
        left_end and right_end. Let I be the regularized incomplete beta function
        (`log_symmetric_beta`). The interval has the probability
        I(right_end) − I(left_end), and its complement I(1 − right_end) + I(left_end).

        tests/privacy/test_projective.py compares the tails on the rotations with
        integrals in high precision.

        Parameters
        ----------
        exceeding : _ExceedingDirections
            The interval. Its left end is clipped to [0, 1].
        direction : Direction
            ABOVE for the probability, BELOW for the probability of the complement.

        Returns
        -------
        array
            The logarithms, of the shape of `exceeding.radius`.
        """
        a = (self.d - 1) / 2
        right_end = exceeding.right_end
        above_right = exceeding.above_right
        left_end = np.clip(exceeding.left_end, 0.0, 1.0)
        above_left = np.clip(exceeding.above_left, 0.0, 1.0)

        # The complement: log P(v < left_end) and log P(v > right_end), added.
        log_below_left = log_symmetric_beta(a, left_end, above_left)
        if direction is Direction.BELOW:
            log_beyond_right = log_symmetric_beta(a, above_right, right_end)
            return np.logaddexp(log_beyond_right, log_below_left)

        # The interval: P(v < right_end) − P(v < left_end).
        log_below_right = log_symmetric_beta(a, right_end, above_right)
        if a == 1.0:  # w is uniform
            return np.where(left_end > 0, np.log(exceeding.radius), log_below_right)

        # Take the difference of two probabilities where enough digits are left.
        log_ratio = np.minimum(log_below_left - log_below_right, 0.0)
        log_difference = log_below_right + np.log(-np.expm1(log_ratio))
        cancels = (left_end > 0) & (
            log_below_left - log_below_right > _CANCELING_LOG_RATIO
        )
        if not np.any(cancels):
            return log_difference

        # Where the two terms nearly cancel, an integral over the angle is used instead.
        clipped = exceeding._replace(left_end=left_end, above_left=above_left)
        log_integral = self._log_interval_by_quadrature(clipped, cancels)
        log_difference[cancels] = log_integral
        return log_difference

    def _log_interval_by_quadrature(
        self, exceeding: _ExceedingDirections, selected: NDArray[np.bool_]
    ) -> Array:
        """Return the log probability of selected intervals |w + c| < R, by quadrature.

        The coordinate w = cos φ of a random direction on a real projective space of
        dimension d has an angle φ with the density sin^{d−2} φ / total. It is
        integrated from φ₁ to φ₂, the angles of the two ends of the interval. Their
        middle is (φ₁ + φ₂)/2, and half their difference is arcsin(R/sin(middle)). The
        result loses no digits, however short the interval is.

        Parameters
        ----------
        exceeding : _ExceedingDirections
            Intervals with both ends in [0, 1].
        selected : array of bool
            The intervals to integrate over.

        Returns
        -------
        array
            One logarithm for each selected interval, in one dimension.
        """
        # With v = cos²(φ/2), half of the angle is arctan(√(1−v)/√v).
        half_angle_of_right_end = np.arctan2(
            np.sqrt(exceeding.above_right), np.sqrt(exceeding.right_end)
        )
        half_angle_of_left_end = np.arctan2(
            np.sqrt(exceeding.above_left), np.sqrt(exceeding.left_end)
        )
        middle = half_angle_of_right_end + half_angle_of_left_end
        half_width = np.arcsin(np.minimum(exceeding.radius / np.sin(middle), 1.0))
        middle = middle[selected]
        half_width = half_width[selected]

        # Rows are intervals and columns are nodes.
        phi = middle[:, None] + half_width[:, None] * _NODES
        log_terms = (self.d - 2) * np.log(np.abs(np.sin(phi))) + np.log(_WEIGHTS)
        a = (self.d - 1) / 2
        log_total = math.lgamma(a) + math.lgamma(0.5) - math.lgamma(a + 0.5)
        return np.asarray(
            np.log(half_width) + log_sum_exp(log_terms, axis=1) - log_total
        )

    def _log_disc_probability(
        self, exceeding: _ExceedingDirections, direction: Direction
    ) -> Array:
        """Return the log probability of the disc |w + c| < R, or of its complement.

        w is the coordinate of a random direction on ℂPⁿ (d = 2n), with the density
        (n−1)/π·(1−|w|²)^{n−2} on the unit disc. `log_disc_probabilities` computes both
        logarithms, for arrays in one dimension.

        Parameters
        ----------
        exceeding : _ExceedingDirections
            The disc. Its fields may have different shapes, which broadcast.
        direction : Direction
            ABOVE for the probability, BELOW for the probability of the complement.

        Returns
        -------
        array
            The logarithms, of the shape to which the fields broadcast.
        """
        n = self.d // 2
        fields = np.broadcast_arrays(*exceeding)
        shape = fields[0].shape
        flat = _ExceedingDirections(*(field.ravel() for field in fields))
        log_inside, log_outside = log_disc_probabilities(
            n, flat.right_end, flat.above_right, flat.left_end, flat.radius
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
    - If (1−|w|²)^{n−1} would underflow, its largest value on the arc is factored out.
      The logarithm of this factor is `log_unit`. The arc is then far from the pole.

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

        # P and 1 − P in three cases: the arc comes near 0; else the disc contains 0;
        # else it does not. The one that equals ± the flux stays in units of
        # exp(log_unit), so that it cannot underflow.
        cases = [is_central, contains_zero]
        inside = np.select(cases, [flux + circle_fraction, 1 - scaled_flux], -flux)
        outside = np.select(cases, [1 - inside, flux], 1 + scaled_flux)

        # Their logarithms, with the unit added to the one that has it.
        log_inside = np.log(np.maximum(inside, 0.0))
        log_inside = log_inside + np.where(contains_zero, 0.0, log_unit)
        log_outside = np.log(np.maximum(outside, 0.0))
        log_outside = log_outside + np.where(contains_zero, log_unit, 0.0)

        # Small discs are integrated directly.
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

    The two branches of the field must differ by the flux of its pole, which
    `_circle_fraction` adds. tests/privacy/test_projective.py compares the probability
    with an integral over |w|.

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
        The flux through the arc is flux·exp(log_unit). It is positive if the field
        points out of the disc.
    """
    smallest_square = (right_end - above_right) ** 2
    # Rc is a divisor below; a tiny number in place of 0 makes the arc end at ψ = π.
    radius_times_offset = np.maximum(radius * center_offset, _TINY)

    # The nodes: rows are discs and columns are angles ψ. The arc ends at the unit
    # circle, or where (1−|w|²)^{n−1} is e^-45 of its largest value.
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

    # The field is field_strength·w/2π. At w = 0 the field with the pole subtracted has
    # the strength n − 1.
    field_strength = np.where(is_central[:, None], 1 - power, power) / square
    field_strength = np.where(square > 0, field_strength, n - 1.0)

    # The integral of the outward component along the arc.
    integral = (
        np.sum(field_strength * normal_component * _WEIGHTS, axis=1) * psi_end / 2
    )
    return integral * radius / math.pi, log_unit


def _circle_fraction(right_end: Array, left_end: Array, center_offset: Array) -> Array:
    """Return the fraction of the unit circle that lies inside the disc |w + c| < R.

    The disc has the center −c, on the real axis, and the radius R. The fraction is
    2/π·arcsin√(−right_end·left_end/c), and 0 if the disc lies inside the unit disc
    (left_end >= 0).

    Parameters
    ----------
    right_end : array
        (1 + R − c)/2: the right end of the disc on the real axis, mapped by (1 + w)/2.
    left_end : array
        (1 − R − c)/2: the left end of the disc, mapped by (1 + w)/2 too.
    center_offset : array
        c; the center of the disc is −c.

    Returns
    -------
    array
        Numbers from 0 to 1.
    """
    # The two circles cross at two points. Compute half the angle between them.
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
        (1 − R − c)/2: the left end of the disc, mapped by (1 + w)/2 too.
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
    is_far_from_circle = radius < _SMALL_DISK_FRACTION * distance_of_center
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
    node_distance = radius[:, None, None] * _DISK_RADII[:, None]
    square = (
        offset_column**2
        + node_distance * node_distance
        - 2 * offset_column * node_distance * _DISK_COSINES
    )

    # The power (1−|w|²)^{n−2} is divided by that of its largest base if it could
    # underflow, and the logarithm of the divisor is added in the end.
    largest_base = 1 - np.maximum(center_offset - radius, 0.0) ** 2
    divisor, log_divisor_power = _underflow_divisor(largest_base, n - 2)
    powers = ((1 - square) / divisor[:, None, None]) ** (n - 2)

    # The mean over angles, then the mean over the area, whose weights add up to 1.
    mean_power = np.mean(powers, axis=2) @ _DISK_AREAS
    return np.asarray(np.log((n - 1) * radius**2 * mean_power) + log_divisor_power)

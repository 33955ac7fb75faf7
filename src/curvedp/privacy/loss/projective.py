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
from typing import ClassVar

import numpy as np
import scipy

from curvedp.numerics.directed_rounding import NO_ABSOLUTE_ERROR, Array
from curvedp.privacy.loss.direction_set import DirectionSet
from curvedp.privacy.loss.disc_probability import Disc, log_disc_probabilities
from curvedp.privacy.loss.interval_probability import (
    log_probability_inside,
    log_probability_outside,
)
from curvedp.privacy.loss.space_form import Direction, LevelSet, SpaceFormLoss

HALF_PI = math.pi / 2
# A search for the mode of the radius stays between these numbers, in (0, π/2).
_SMALLEST_MODE = 1e-30
_LARGEST_MODE = HALF_PI * (1 - 1e-15)


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

    # The smaller tail is integrated: the upper one if log P(L > t) < log ½.
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

    def _exceeding_directions(self, r: Array, t: Array) -> DirectionSet:
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
        DirectionSet
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
        return DirectionSet(
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
        """Return log(ρ(m+u)/ρ(m)·F), the integrand of a tail of the privacy loss.

        The radius r = m + u of an output is its distance from the first center, ρ the
        density of r, and m its mode. F is the probability, given r, that the direction
        of the output is one of those that count: all, or those with a privacy loss
        L > t, or with L <= t. Directions have a real or complex coordinate w, and L > t
        exactly if w lies in an interval or disc (`DirectionSet`).

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
        self, exceeding: DirectionSet, direction: Direction
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
        exceeding : DirectionSet
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
        self, exceeding: DirectionSet, direction: Direction
    ) -> Array:
        """Return the log probability of directions, on a real projective space.

        They are the directions in which the privacy loss is above a level, or is not.

        Parameters
        ----------
        exceeding : DirectionSet
            The directions with a loss > t, an interval.
        direction : Direction
            ABOVE for the probability of the interval, BELOW for the complement.

        Returns
        -------
        array
            The logarithms, of the shape of `exceeding.radius`.
        """
        if direction is Direction.BELOW:
            return log_probability_outside(self.d, exceeding)
        return log_probability_inside(self.d, exceeding)

    def _log_disc_probability(
        self, exceeding: DirectionSet, direction: Direction
    ) -> Array:
        """Return the log probability of directions, on a complex projective space.

        They are the directions in which the privacy loss is above a level, or is not.

        Parameters
        ----------
        exceeding : DirectionSet
            The directions with a loss > t, a disc. Its fields may have different
            shapes, which broadcast.
        direction : Direction
            ABOVE for the probability of the disc, BELOW for the complement.

        Returns
        -------
        array
            The logarithms, of the shape to which the fields broadcast.
        """
        ends = np.broadcast_arrays(
            exceeding.right_end,
            exceeding.above_right,
            exceeding.left_end,
            exceeding.radius,
        )
        flat_disc = Disc(*(end.ravel() for end in ends))
        complex_dim = self.d // 2
        log_inside, log_outside = log_disc_probabilities(complex_dim, flat_disc)
        log_probability = log_outside if direction is Direction.BELOW else log_inside
        return log_probability.reshape(ends[0].shape)

"""How much a noisy point on a sphere, hyperbolic or flat space can reveal. The noise is
centered at η₁ for one data set and at η₂ for a neighboring one. The privacy loss L is
the log ratio of the two output densities at a random output drawn around η₁.

`SpaceFormLoss` computes P(L > t) and P(L <= t), the two tails of L.

Definitions. Units are such that the curvature is k = −1, 0 or 1. The dimension is d >=
2, the scale of the noise s, and its centers η₁, η₂ are a distance D apart. In polar
coordinates (r, φ) about η₁, with η₂ in the direction φ = 0, the density of the radius
is ρ(r) ∝ weight(r)·sn(r)^{d−1}, where sn is sinh, the identity or sin, and the weight
is e^{−r²/2s²} (Gaussian) or e^{−r/s} (Laplace). The angle satisfies cos²(φ/2) ~ Beta(a,
a) with a = (d−1)/2.

Theorem (docs/theory/exact-profiles.md, "The integral"). With d₂ the distance from η₂,
the loss

    L = (d₂² − r²)/2s²  (Gaussian)      L = (d₂ − r)/s  (Laplace)

increases with d₂, which increases with φ. So L > t means φ > φ_t(r) for some angle, and

    P₁(L > t) = ∫ ρ(r)·I_x(a, a) dr / ∫ρ,      x = cos²(φ_t(r)/2),

where I_x(a, a) is the regularized incomplete beta function. Let b = √(r² + 2s²t)
(Gaussian) or r + st (Laplace) be the value of d₂ on the level L = t. Then the law of
cosines in half angles gives, without any cancellation,

    x     = sn((r+D−b)/2)·sn((r+D+b)/2) / (sn r·sn D),
    1 − x = sn((b−r+D)/2)·sn((b+r−D)/2) / (sn r·sn D).
"""

import math
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvedp.errors import NotResolved
from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp, log_symmetric_beta
from curvedp.numerics.quadrature import endpoint_quadrature
from curvedp.privacy.loss.gaussian_mode import solve_m_tan_m, solve_m_tanh_m
from curvedp.privacy.loss.law import PrivacyLossLaw
from curvedp.privacy.loss.law_of_cosines import (
    HalfSums,
    flat_law_of_cosines,
    hyperbolic_law_of_cosines,
    spherical_law_of_cosines,
)

Kind = Literal["gaussian", "laplace"]

# A logarithm: a radial integral is cut off where its integrand is e^-42 = 6e-19 of its
# peak, below the rounding of a double. A larger number is safe.
_NEGLIGIBLE_DEPTH = 42.0
# Offsets from the mode, in units of `SpaceFormLoss.width`, of the grid on which the
# search for the support of a radial integrand starts.
_POSITIVE_OFFSETS = 4.0 ** np.arange(-5.0, 7.0)
_FIRST_GRID_OFFSETS = np.concatenate(
    [-_POSITIVE_OFFSETS[::-1], [0.0], _POSITIVE_OFFSETS]
)
# The largest number of nodes of the quadrature rule for a radial integral.
_MAX_NODES = 4096
# Two quadrature rules are compared at these fractions of the largest loss T.
_FRACTIONS_NEAR_MAX = (0.9, 0.97, 0.995)
# Beyond this radius r, sinh r equals e^r/2 in floats: e^{−2r} < 5e-18.
_SINH_IS_EXPONENTIAL = 20.0
# Beyond this radius r, sinh² r would come close to the largest float, e^709.
_SINH_SQUARE_OVERFLOWS = 350
# The number of nodes is sufficient if doubling it changes log ∫ρ by less than the first
# number, and the logarithm of a tail by at most the second one plus the third one times
# that logarithm.
_MASS_TOLERANCE = 1e-12
_LOG_TAIL_TOLERANCE = 1e-11
_LOG_TAIL_RELATIVE_TOLERANCE = 1e-13
# The smaller of two complementary tails is at most ½. Its logarithm is cut here, a
# little above log ½ = −0.69, so that rounding cannot make the other tail 0.
_LARGEST_LOG_OF_SMALLER_TAIL = -0.5
# The number of points of the finer grids on which the support of an integrand is found.
_FINER_GRID_SIZE = 17


class Direction(Enum):
    """Which directions contribute to a radial integral at each radius.

    L is the privacy loss, t a level of it, and ρ the density of the radius.
    """

    ALL = "all"  # all of them: ρ is multiplied by 1
    ABOVE = "above"  # those with L > t: ρ is multiplied by their probability
    BELOW = "below"  # those with L <= t: ρ is multiplied by their probability


class LevelSet(NamedTuple):
    """The radii at which the level L = t of the privacy loss L is met.

    A radius is the distance from the first center of the noise. The direction of a
    point is its angle φ to the second center, seen from the first one.

    Attributes
    ----------
    radii : list of array
        Increasing radii, each an array with one entry for each t. Between the first and
        the last of them the level is met at some angle φ strictly between 0 and π.
    center_exceeds : array of bool
        Whether L > t in all directions at radii below the first one.
    """

    radii: list[Array]
    center_exceeds: NDArray[np.bool_]


class _RadialRanges(NamedTuple):
    """The ranges of radii over which the tails at several losses t are integrated.

    Attributes
    ----------
    ends : array, shape (n_ends, n_losses)
        The radii at which one range ends and the next one begins, minus the mode of the
        radius. The small radii come first, then the medium ones, then the large ones.
    center_exceeds : array of bool
        Whether L > t at small radii, for each t.
    log_center : array
        The logarithm of the integral over the small radii, for each t.
    """

    ends: Array
    center_exceeds: NDArray[np.bool_]
    log_center: Array

    def select(self, selected: NDArray[np.bool_]) -> "_RadialRanges":
        """Return the same for the selected losses only."""
        return _RadialRanges(
            self.ends[:, selected],
            self.center_exceeds[selected],
            self.log_center[selected],
        )


@dataclass(frozen=True)
class SpaceFormLoss(PrivacyLossLaw):
    """The privacy loss L of isotropic noise on a space of curvature −1, 0 or 1.

    Attributes
    ----------
    kind : str
        'gaussian' (density ∝ e^{−r²/2s²}) or 'laplace' (density ∝ e^{−r/s}), with r the
        distance from the center.
    k, d : int
        The curvature −1, 0 or 1, and the dimension d >= 2.
    s : float
        The scale of the noise.
    distance : float
        The distance D between the two centers of the noise.
    order : int
        The number of quadrature nodes of a radial integral.
    """

    kind: Kind
    k: int
    d: int
    s: float
    distance: float
    order: int = 64

    # If log P₁(L > t) is below this number, the upper tail is the smaller one and is
    # integrated; otherwise the lower one is. The other tail is the complement.
    _upper_is_small: ClassVar[float] = -0.7

    def with_enough_nodes(self) -> "SpaceFormLoss":
        """Return this loss with enough quadrature nodes for accurate integrals.

        A profile calls it once, before it tabulates the tails of the loss. The number
        of nodes is doubled until a further doubling changes neither the integral ∫ρ of
        the density ρ of the radius, nor the upper tail P(L > t) at a few losses t. If
        the loss has a maximum T, three of these t are close to T, because the tail
        varies quickly there.

        The tolerances of this comparison are below the relative error of 1e-9 that
        profiles charge for all errors together. Larger tolerances would not be sound.

        Returns
        -------
        SpaceFormLoss
            A copy of this object with a larger `order`, or this object itself.

        Raises
        ------
        NotResolved
            If 4096 nodes are not enough.
        """
        law = self
        while law.order < _MAX_NODES:
            test_losses = law._test_losses()
            finer_law = replace(law, order=2 * law.order)
            log_tail, _ = law.log_tails(test_losses)
            finer_log_tail, _ = finer_law.log_tails(test_losses)

            # Stop if twice as many nodes change neither integral.
            relative_tolerance = _LOG_TAIL_RELATIVE_TOLERANCE * np.abs(log_tail)
            tolerance = _LOG_TAIL_TOLERANCE + relative_tolerance
            masses_agree = abs(law.log_mass - finer_law.log_mass) < _MASS_TOLERANCE
            tails_agree = np.all(np.abs(log_tail - finer_log_tail) <= tolerance)
            if masses_agree and tails_agree:
                return law
            law = finer_law
        raise NotResolved(
            f"the radial integrals of {self} need more than {_MAX_NODES} nodes"
        )

    def _test_losses(self) -> Array:
        """Return a few losses at which two quadrature rules are compared.

        Returns
        -------
        array
            Up to four losses in units of their standard deviation. If the loss has a
            maximum T, also three losses close to T, where the tail varies quickly.
        """
        losses = self.loss_scale * np.array([0.0, 0.5, 2.0, 6.0])
        if math.isinf(self.max_loss):
            return losses

        # Replace those near T by fixed fractions of T.
        losses = losses[losses < _FRACTIONS_NEAR_MAX[0] * self.max_loss]
        losses_near_max = self.max_loss * np.array(_FRACTIONS_NEAR_MAX)
        return np.append(losses, losses_near_max)

    # ---- the density ρ of the radius, relative to its mode so that nothing cancels

    @cached_property
    def mode(self) -> float:
        """The most likely distance m of an output from the center of the noise.

        Radial integrals measure the distance r from m, as u = r − m, and divide by the
        density at m, so that nothing overflows. With the scale s and the dimension d,
        the mode m solves (d−1)·sn′(m)/sn(m) = m/s² (Gaussian) or 1/s (Laplace), where
        sn is sinh, the identity or sin for the curvature −1, 0 or 1. For the Gaussian
        this means m·tan m = (d−1)s² on a sphere and m·tanh m = (d−1)s² on a hyperbolic
        space.
        """
        power_of_sn = self.d - 1
        if self.kind == "laplace":
            return self._laplace_mode(power_of_sn * self.s)
        if self.k == 0:
            return math.sqrt(power_of_sn) * self.s

        # A Gaussian on a curved space needs a root search.
        target = power_of_sn * self.s * self.s
        if self.k == 1:
            return solve_m_tan_m(target)
        return solve_m_tanh_m(target)

    def _laplace_mode(self, target: float) -> float:
        """Return the most likely distance m of Laplace noise from its center.

        It solves tanh m = target, m = target or tan m = target for the curvature −1, 0
        or 1.

        Parameters
        ----------
        target : float
            The positive number (d−1)·s, with d the dimension and s the scale.

        Returns
        -------
        float
            The mode m, or infinity if the equation has no solution.
        """
        if self.k == 0:
            return target
        if self.k == 1:
            return math.atan(target)
        return math.atanh(target) if target < 1 else math.inf

    def log_rho(self, u: Array) -> Array:
        """Return the log density of the radius, relative to its value at the mode.

        It is the common factor of all integrands for the tails of the privacy loss. The
        radius r is the distance of an output from the center of the noise. Its density
        is ρ(r) ∝ weight(r)·sn(r)^{d−1}, where the weight is e^{−r²/2s²} (Gaussian) or
        e^{−r/s} (Laplace), and sn is sinh, the identity or sin for the curvature −1, 0
        or 1. With m the mode of ρ, the ratio sn(m+u)/sn(m) is computed as 1 + (a small
        term), which loses no digits if u is small.

        Parameters
        ----------
        u : array
            Offsets u = r − m of radii r from the mode m.

        Returns
        -------
        array
            log ρ(m + u) − log ρ(m) <= 0, with the shape of `u`. It is −inf if m + u is
            not a possible radius.
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.k == -1:
                return self._log_rho_hyperbolic(u)

            # sn(m+u)/sn(m) − 1, whose power d − 1 is the factor sn(r)^{d−1} of ρ.
            m, s, n = self.mode, self.s, self.d - 1
            if self.k == 0:
                relative_growth = u / m
            else:
                # sin(m+u)/sin m = 1 + 2·sin(u/2)·(cot m·cos(u/2) − sin(u/2))
                half_sine = np.sin(u / 2)
                relative_growth = (
                    2 * half_sine * (np.cos(u / 2) / math.tan(m) - half_sine)
                )
            log_growth = n * np.log1p(np.maximum(relative_growth, -1.0))

            # The factor weight(m+u)/weight(m).
            if self.kind == "gaussian":
                return np.asarray(-u * (2 * m + u) / (2 * s * s) + log_growth)
            return np.asarray(-u / s + log_growth)

    def _log_rho_hyperbolic(self, u: Array) -> Array:
        """Return `log_rho` on a hyperbolic space, in a form that cannot overflow.

        The result is log ρ(m + u) − log ρ(m), where ρ(r) ∝ weight(r)·sinh(r)^n is the
        density of the radius r, m its mode and n = d − 1. The logarithm of
        sinh(m+u)/sinh(m) is u + g(u) with g(u) = log(1 + (1 − e^{−2u})/(e^{2m} − 1)).
        Hence the result is

            Gaussian:  −u²/2s² + (n − m/s²)·u + n·g(u),     n − m/s² = −2n/(e^{2m} − 1),
            Laplace:   −(1/s − n)·u + n·g(u).

        The second formula of the first line follows from the equation n·coth m = m/s²
        of the mode. It avoids the difference of two large numbers.

        Parameters
        ----------
        u : array
            Offsets u = r − m of radii r from the mode m.

        Returns
        -------
        array
            Numbers <= 0, of the shape of `u`.
        """
        # Compute n·g(u), in a form that does not overflow for a large mode.
        m, s, n = self.mode, self.s, self.d - 1
        if m < _SINH_SQUARE_OVERFLOWS:
            e_2m_minus_1 = math.expm1(2 * m)
            relative_growth = np.maximum(-np.expm1(-2 * u) / e_2m_minus_1, -1.0)
            log_growth = n * np.log1p(relative_growth)
        else:
            e_2m_minus_1 = math.inf
            log_growth = n * np.log(-np.expm1(-2 * np.maximum(m + u, 0.0)))

        # Add the terms that the weight contributes.
        if self.kind == "gaussian":
            quadratic_term = -u * u / (2 * s * s)
            return np.asarray(quadratic_term - 2 * n * u / e_2m_minus_1 + log_growth)
        return np.asarray(-(1 / s - n) * u + log_growth)

    @cached_property
    def width(self) -> float:
        """The width of the peak of the density ρ of the radius at its mode m.

        It is the unit of the grid on which the search for the support of an integrand
        starts. The radius is the distance of an output from the center of the noise.
        The width is (−(log ρ)″(m))^{−1/2}, where −(log ρ)″ = (d−1)/sn(m)², plus 1/s²
        for the Gaussian; sn is sinh, the identity or sin for the curvature −1, 0 or 1.

        A Laplace density of large scale on a hyperbolic space falls nearly like
        e^{−(1/s − (d−1))·r}. There the width is at most the length of that decay.
        """
        m = self.mode
        power_of_sn = self.d - 1
        if self.k == 0:
            sn = m
        elif self.k == 1:
            sn = math.sin(m)
        else:
            sn = math.sinh(m) if m < _SINH_SQUARE_OVERFLOWS else math.inf

        curvature = power_of_sn / (sn * sn)
        if self.kind == "gaussian":
            return 1 / math.sqrt(curvature + 1 / self.s**2)
        if self.k == -1:
            return min(1 / math.sqrt(curvature), 1 / (1 / self.s - power_of_sn))
        return 1 / math.sqrt(curvature)

    @cached_property
    def log_mass(self) -> float:
        """The logarithm of ∫ρ(r) dr / ρ(m), by which every tail integral is divided.

        ρ is the density of the radius (the distance of an output from the center of the
        noise), known up to a constant factor, and m is its mode.
        """
        log_integral = self._radial_integral(
            t=np.array([0.0]),
            low=np.array([-self.mode]),
            high=np.array([self._largest_offset]),
            direction=Direction.ALL,
        )
        return float(log_integral[0])

    @cached_property
    def mean_square(self) -> float:
        """The mean square distance E[r²] of the noise, for its Fisher information.

        r is the distance of an output from the center of the noise. E[r²] is the
        integral of r²·ρ(r) divided by the integral of ρ, with ρ the density of the
        distance r. The variable of integration is u = r − (mode of ρ).
        """
        low, high = self._find_support_in(
            t=np.array([0.0]),
            low=np.array([-self.mode]),
            high=np.array([self._largest_offset]),
            direction=Direction.ALL,
        )
        u, log_weight = self._quadrature_in(low, high)
        probability = np.exp(self.log_rho(u) + log_weight - self.log_mass)
        return float(np.sum(probability * (self.mode + u) ** 2))

    @cached_property
    def root_fisher_information(self) -> float:
        """The square root of the Fisher information about the center of the noise.

        It says how well one output locates the center, and has the unit 1/length. It is
        √(E[r²]/d)/s² for the Gaussian and 1/(s√d) for the Laplace law, where r is the
        distance from the center, d the dimension and s the scale.
        """
        if self.kind == "laplace":
            return 1 / (self.s * math.sqrt(self.d))
        return math.sqrt(self.mean_square / self.d) / self.s**2

    @property
    def loss_scale(self) -> float:
        """About the standard deviation of the privacy loss: D·√(Fisher information).

        D is the distance of the two centers of the noise; for small D it is exact.
        """
        return self.distance * self.root_fisher_information

    @property
    def _diameter(self) -> float:
        """The largest distance between two points of the space."""
        return math.pi if self.k == 1 else math.inf

    @property
    def _largest_offset(self) -> float:
        """The largest u = r − m of a radius r whose density has the mode m."""
        return self._diameter - self.mode

    # ---- the level sets of the loss

    @property
    def max_loss(self) -> float:
        """The largest privacy loss T; infinite for a Gaussian on an unbounded space.

        With D the distance of the two centers and s the scale, it is D/s for the
        Laplace law and D(2·diameter − D)/2s² for the Gaussian. The latter is attained
        at the point farthest from the second center.
        """
        if self.kind == "laplace":
            return self.distance / self.s
        return self.distance * (2 * self._diameter - self.distance) / (2 * self.s**2)

    def _level_distance(self, r: Array, t: Array) -> Array:
        """Return how far from the second center an output has the privacy loss t.

        An output at the distance r from the first center and d₂ from the second one has
        the loss (d₂² − r²)/2s² (Gaussian) or (d₂ − r)/s (Laplace). So the loss is t if
        d₂ = √(r² + 2s²t) or d₂ = r + st. This value of d₂ is called b.

        Parameters
        ----------
        r : array
            Distances of outputs from the first center.
        t : array
            Values of the loss; they broadcast with `r`.

        Returns
        -------
        array
            The distances b from the second center.
        """
        if self.kind == "gaussian":
            return np.sqrt(r * r + 2 * self.s**2 * t)
        return r + self.s * t

    def _squared_cosine_of_level(self, r: Array, t: Array) -> tuple[Array, Array]:
        """Return x = cos²(φ/2) and 1 − x for the angle φ at which the loss is t.

        They determine how likely it is that an output at the distance r has a larger
        loss than t. An output is described by its distance r from the first center η₁
        and its angle φ, seen from η₁, to the direction of the second center η₂. Its
        loss is t if its distance from η₂ is b = `_level_distance(r, t)`. With D the
        distance of the centers, the law of cosines in half angles gives

            x     = sn((r+D−b)/2)·sn((r+D+b)/2) / (sn r·sn D),
            1 − x = sn((b−r+D)/2)·sn((b+r−D)/2) / (sn r·sn D),

        where sn is sinh, the identity or sin for the curvature −1, 0 or 1. x and 1 − x
        must be computed separately: a difference from 1 would lose the digits of the
        smaller one.

        Parameters
        ----------
        r : array
            Distances of outputs from the first center.
        t : array
            Values of the loss; they broadcast with `r`.

        Returns
        -------
        x, one_minus_x : array
            Both to full relative precision, clipped to [0, 1]. They are 0 where the
            formula is 0/0.
        """
        D = self.distance
        b = self._level_distance(r, t)
        b_minus_r = self._excess_distance(r, t, b)
        half_sums = HalfSums(
            minus_b=(D - b_minus_r) / 2,
            all_plus=(r + D + b) / 2,
            minus_r=(D + b_minus_r) / 2,
            minus_d=(b + r - D) / 2,
        )

        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.k == 0:
                x, one_minus_x = flat_law_of_cosines(half_sums, r, D)
            elif self.k == 1:
                x, one_minus_x = spherical_law_of_cosines(half_sums, r, D)
            else:
                x, one_minus_x = hyperbolic_law_of_cosines(half_sums, r, D)
        return np.fmin(np.fmax(x, 0.0), 1.0), np.fmin(np.fmax(one_minus_x, 0.0), 1.0)

    def _excess_distance(self, r: Array, t: Array, b: Array) -> Array:
        """Return b − r without cancellation, for outputs with the privacy loss t.

        The law of cosines needs this small difference to full relative precision.

        Parameters
        ----------
        r : array
            Distances of outputs from the first center.
        t : array
            Values of the loss.
        b : array
            Distances of the outputs from the second center, `_level_distance(r, t)`.

        Returns
        -------
        array
            2s²t/(b + r) for Gaussian and st for Laplace noise of scale s.
        """
        s = self.s
        if self.kind == "laplace":
            return s * t + 0.0 * r  # of the shape to which t and r broadcast
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(t > 0, 2 * s * s * t / (b + r), 0.0)

    def _level_set(self, t: Array) -> LevelSet:
        """Return the radii r_a and r_b between which the loss L takes the value t.

        The integral over the radius is divided there. The radius of an output is its
        distance from the first center. With D the distance of the two centers, s the
        scale of the noise and D′ = 2·diameter − D,

            r_a = |D² − 2s²t|/2D,    r_b = (D′² − 2s²t)/2D′     for the Gaussian,
            r_a = (D − st)/2,        r_b = (D′ − st)/2          for the Laplace law.

        Between r_a and r_b, L exceeds t in some directions only. Below r_a, L > t in
        every direction if 2s²t < D² (always for the Laplace law), and in none
        otherwise. Beyond r_b, L > t in no direction.

        The radii must not cross: r_a <= r_b, or an integral would be counted twice.

        Parameters
        ----------
        t : array
            Values of the loss, in one dimension.

        Returns
        -------
        LevelSet
            The two radii for each t, and whether the loss at the first center is
            larger than t.
        """
        # The radii of the Laplace law are not below 0.
        D = self.distance
        far_distance = 2 * self._diameter - D
        if self.kind == "laplace":
            r_a = np.maximum(D - self.s * t, 0.0) / 2
            r_b = np.maximum((far_distance - self.s * t) / 2, r_a)
            return LevelSet([r_a, r_b], np.ones_like(t, dtype=bool))

        # The loss is t where d₂² − r² has this value, for an output at the distances r
        # and d₂ from the two centers.
        square_difference = 2 * self.s**2 * t
        r_a = np.abs(D * D - square_difference) / (2 * D)
        if math.isfinite(far_distance):
            r_b = (far_distance * far_distance - square_difference) / (2 * far_distance)
        else:
            r_b = np.full_like(t, math.inf)
        center_exceeds = square_difference < D * D
        return LevelSet([r_a, np.maximum(r_b, r_a)], center_exceeds)

    # ---- the tails, as integrals over r: one row for each t

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """Return log P₁(L > t) and log P₁(L <= t) at losses t >= 0.

        L is the privacy loss and P₁ the law of the noise about the first center. The
        radius of an output is its distance from that center. Each tail is a sum of
        integrals over the radius. At small radii, L > t in all directions or in none;
        at medium radii, in some directions; at large radii, in none. Only the smaller
        of the two tails is integrated. The other one is its complement.

        Both tails must keep their relative precision however small they are;
        tests/privacy/test_space_form.py compares them with another integral.

        Parameters
        ----------
        t : array
            Losses in [0, max_loss), in one dimension.

        Returns
        -------
        log_upper, log_lower : array
            One logarithm for each t.
        """
        t = np.asarray(t, np.float64)
        ranges = self._radial_ranges(t)
        log_upper = self._log_upper_tail(t, ranges)
        log_lower = np.full_like(t, -math.inf)

        # Where the upper tail is the smaller one, the lower tail is its complement.
        upper_is_small = log_upper < self._upper_is_small
        with np.errstate(divide="ignore"):
            log_lower[upper_is_small] = np.log1p(-np.exp(log_upper[upper_is_small]))

        # Elsewhere the lower tail is integrated, and the upper tail is its complement.
        lower_is_small = ~upper_is_small
        if np.any(lower_is_small):
            log_lower[lower_is_small] = self._log_lower_tail(
                t[lower_is_small], ranges.select(lower_is_small)
            )
            log_upper[lower_is_small] = np.log1p(-np.exp(log_lower[lower_is_small]))
        return log_upper, log_lower

    def _radial_ranges(self, t: Array) -> _RadialRanges:
        """Return the ranges of radii over which the tails at losses t are integrated.

        Parameters
        ----------
        t : array
            Losses, in one dimension.

        Returns
        -------
        _RadialRanges
            The ranges, and the integral over the first one.
        """
        level_set = self._level_set(t)
        radii = [np.zeros_like(t), *level_set.radii, np.full_like(t, self._diameter)]
        ends = np.stack(radii) - self.mode
        log_center = self._radial_integral(t, ends[0], ends[1], Direction.ALL)
        return _RadialRanges(ends, level_set.center_exceeds, log_center)

    def _log_upper_tail(self, t: Array, ranges: _RadialRanges) -> Array:
        """Return log P₁(L > t): integrals over small and medium radii.

        At small radii all directions have L > t or none has; at medium radii, some
        directions have.

        Parameters
        ----------
        t : array
            Losses, in one dimension.
        ranges : _RadialRanges
            The ranges of radii.

        Returns
        -------
        array
            One logarithm <= 0 for each t.
        """
        log_integrals = [np.where(ranges.center_exceeds, ranges.log_center, -math.inf)]
        for low, high in pairwise(ranges.ends[1:-1]):
            log_integrals.append(self._radial_integral(t, low, high, Direction.ABOVE))
        log_tail = log_sum_exp(np.stack(log_integrals), axis=0) - self.log_mass
        return np.minimum(log_tail, 0.0)

    def _log_lower_tail(self, t: Array, ranges: _RadialRanges) -> Array:
        """Return log P₁(L <= t) at losses t for which this probability is at most ½.

        It is a sum of integrals over small radii, at which all directions have L <= t
        or none has; medium ones, at which some directions have; and large ones, at
        which all have.

        Parameters
        ----------
        t : array
            Losses at which P₁(L <= t) <= ½.
        ranges : _RadialRanges
            The ranges of radii.

        Returns
        -------
        array
            One logarithm for each t, at most −0.5 in spite of rounding.
        """
        ends = ranges.ends
        log_integrals = [np.where(ranges.center_exceeds, -math.inf, ranges.log_center)]
        for low, high in pairwise(ends[1:-1]):
            log_integrals.append(self._radial_integral(t, low, high, Direction.BELOW))
        log_far = self._radial_integral(t, ends[-2], ends[-1], Direction.ALL)
        log_integrals.append(log_far)

        log_tail = log_sum_exp(np.stack(log_integrals), axis=0) - self.log_mass
        return np.minimum(log_tail, _LARGEST_LOG_OF_SMALLER_TAIL)

    def _log_integrand(
        self, u: Array, t: Array, direction: Direction, is_rough: bool = False
    ) -> Array:
        """Return log(ρ(m+u)/ρ(m)·F), the logarithm of the integrand of a tail.

        The radius r = m + u of an output is its distance from the first center. ρ is
        the density of r, and m its mode. F is the probability, given r, that the
        direction of the output is one of those that count. Let L be the privacy loss, x
        = cos²(φ/2) for the angle φ at which L = t, a = (d−1)/2, and I the regularized
        incomplete beta function. Then

            F = 1             for all directions,
            F = I_x(a, a)     for those with L > t,
            F = I_{1−x}(a, a) for those with L <= t.

        Parameters
        ----------
        u : array
            r − m, the radius relative to the mode.
        t : array
            The level of the loss, broadcast with `u`.
        direction : Direction
            The directions that count.
        is_rough : bool
            Whether F may be replaced by (4x(1−x))^a for x < 1/2 and by 1 otherwise.
            This is cheaper, and enough to find where the integrand is not negligible.

        Returns
        -------
        array
            The logarithms, of the shape to which `u` and `t` broadcast.
        """
        log_rho = self.log_rho(u)
        if direction is Direction.ALL:
            return log_rho

        x, one_minus_x = self._squared_cosine_of_level(self.mode + u, t)
        if direction is Direction.BELOW:
            x, one_minus_x = one_minus_x, x
        a = (self.d - 1) / 2
        with np.errstate(divide="ignore"):
            if is_rough:
                log_power = a * np.log(4 * x * one_minus_x)
                return log_rho + np.where(x < 0.5, log_power, 0.0)
            return log_rho + log_symmetric_beta(a, x, one_minus_x)

    def _find_support_in(
        self, t: Array, low: Array, high: Array, direction: Direction
    ) -> tuple[Array, Array]:
        """Return the part of [low, high] on which a radial integrand is not negligible.

        It is called before each integration, so that all quadrature nodes lie where
        they matter. The integrand ρ(m+u)·F is a function of u = r − m, where r is the
        distance from the first center, ρ its density, m the mode of ρ, and F the
        probability of the directions that count. It has one peak, and three successive
        grids close in on the interval where it is above e^-42 of its peak.

        An interval that is too large only costs accuracy of the quadrature, which
        `with_enough_nodes` measures; one that is too small would lose probability.

        Parameters
        ----------
        t : array
            Values of the privacy loss, in one dimension.
        low, high : array
            The interval of u for each t.
        direction : Direction
            The directions that count: all, those with a loss > t, or those with a loss
            <= t.

        Returns
        -------
        left, right : array
            The smaller interval for each t.
        """
        nearest_to_mode = np.clip(0.0, low, high)[:, None]
        t = t[:, None]  # rows: the values of t; columns: the values of u
        low = low[:, None]
        high = high[:, None]

        # The first grid is spaced geometrically about the mode. It is extended to the
        # right until the integrand has ended.
        u = np.clip(nearest_to_mode + self.width * _FIRST_GRID_OFFSETS, low, high)
        values = self._log_integrand(u, t, direction, is_rough=True)
        while True:
            last = u[:, -1:]
            negligible = values.max(axis=1, keepdims=True) - _NEGLIGIBLE_DEPTH
            is_open = (last < high) & (values[:, -1:] > negligible)
            if not np.any(is_open):
                break

            # Append one grid point to every row; rows that have ended repeat theirs.
            doubled = np.minimum(nearest_to_mode + 2 * (last - nearest_to_mode), high)
            last = np.where(is_open, doubled, last)
            last_value = self._log_integrand(last, t, direction, is_rough=True)
            u = np.concatenate([u, last], axis=1)
            values = np.concatenate([values, last_value], axis=1)

        # Two finer grids close in on the support.
        left, right = _enclose_support(u, values)
        for _ in range(2):
            u = left + (right - left) * np.linspace(0.0, 1.0, _FINER_GRID_SIZE)
            values = self._log_integrand(u, t, direction, is_rough=True)
            left, right = _enclose_support(u, values)
        return left[:, 0], right[:, 0]

    def _quadrature_in(
        self, low: Array, high: Array, is_logarithmic: bool = False
    ) -> tuple[Array, Array]:
        """Return the nodes and log weights of a quadrature rule on each [low, high].

        The nodes are dense at both ends, because an integrand may behave there like a
        power with a half-integer exponent. The variable is u = r − m, where r is the
        distance from the first center and m the mode of its density ρ.

        Parameters
        ----------
        low, high : array
            The ends of intervals of u, in one dimension.
        is_logarithmic : bool
            Whether the nodes are laid out in log r. An integrand that changes both on
            the scale of its smallest r and on the scale of ρ needs this.

        Returns
        -------
        nodes, log_weights : array
            The values of u and the logarithms of the weights. Each row is one interval.
        """
        offset, weight = endpoint_quadrature(self.order)  # a rule on (0, 2)
        with np.errstate(divide="ignore"):
            if is_logarithmic:
                # A radius of 0 has no logarithm; any small positive number will do.
                r_low = np.maximum(low + self.mode, 1e-9 * self.width)[:, None]
                half_length = np.log1p((high - low)[:, None] / r_low) / 2
                step = r_low * np.expm1(half_length * offset)
                log_weight = np.log((r_low + step) * half_length * weight)
            else:
                half_length = ((high - low) / 2)[:, None]
                step = half_length * offset
                log_weight = np.log(half_length * weight)
        return np.minimum(low[:, None] + step, high[:, None]), log_weight

    def _radial_integral(
        self, t: Array, low: Array, high: Array, direction: Direction
    ) -> Array:
        """Return log ∫ρ(m+u)/ρ(m)·F du from low to high, for each t.

        A tail of the privacy loss is a sum of such integrals, over small, medium and
        large r. r = m + u is the distance from the first center, ρ its density and m
        the mode of ρ. F is the probability, given r, that the direction of an output is
        one of those that count.

        Parameters
        ----------
        t : array
            Values of the privacy loss, in one dimension.
        low, high : array
            The interval of u for each t. The result is −inf if it is empty.
        direction : Direction
            The directions that count: all, those with a loss > t, or those with a loss
            <= t.

        Returns
        -------
        array
            One logarithm for each t.
        """
        log_integrals = np.full(t.shape, -math.inf)
        is_nonempty = high > low
        if not np.any(is_nonempty):
            return log_integrals
        t, low, high = t[is_nonempty], low[is_nonempty], high[is_nonempty]

        # An integrand that varies on two scales is integrated in two parts.
        if self._has_two_scales(low, high, direction):
            cut = _SINH_IS_EXPONENTIAL - self.mode
            log_below = self._radial_integral(t, low, np.minimum(high, cut), direction)
            log_above = self._radial_integral(t, np.maximum(low, cut), high, direction)
            log_integrals[is_nonempty] = np.logaddexp(log_below, log_above)
            return log_integrals

        # Find where the integrand matters, and apply one quadrature rule there. Rows
        # are values of t, columns are nodes.
        left, right = self._find_support_in(t, low, high, direction)
        is_logarithmic = self.kind == "laplace" and direction is not Direction.ALL
        u, log_weight = self._quadrature_in(left, right, is_logarithmic)
        log_integrand = self._log_integrand(u, t[:, None], direction)
        log_integrals[is_nonempty] = log_sum_exp(log_integrand + log_weight, axis=1)
        return log_integrals

    def _has_two_scales(self, low: Array, high: Array, direction: Direction) -> bool:
        """Return whether an integral must be cut at r = 20, where sinh is exponential.

        The density of Laplace noise of large scale on a hyperbolic space varies quickly
        near its center and slowly at large r. One quadrature rule does not resolve
        both.

        Parameters
        ----------
        low, high : array
            The ends of intervals of u = r − m, where r is the distance from the center
            and m the mode of its density.
        direction : Direction
            The directions that count in the integral.

        Returns
        -------
        bool
            True for Laplace noise on a hyperbolic space, if all directions count and
            some interval contains r = 20.
        """
        if direction is not Direction.ALL or self.kind != "laplace" or self.k != -1:
            return False
        cut = _SINH_IS_EXPONENTIAL - self.mode
        return bool(np.any(high > cut) and np.any(low < cut))


def _enclose_support(u: Array, log_values: Array) -> tuple[Array, Array]:
    """Return, for each function, an interval outside of which it is negligible.

    Each function is known on a grid. A value is negligible if it is below e^-42 of the
    largest value of that function.

    Parameters
    ----------
    u : array, shape (n_functions, n_points)
        Increasing grid points, one row for each function.
    log_values : array, shape (n_functions, n_points)
        The logarithm of the function at these points.

    Returns
    -------
    left, right : array, shape (n_functions, 1)
        The last negligible grid point before, and the first one after, the values that
        are not negligible; or the ends of the grid.
    """
    largest = log_values.max(axis=1, keepdims=True)
    is_inside = log_values >= largest - _NEGLIGIBLE_DEPTH

    # One grid point before the first True of each row, and one after the last True.
    n_points = is_inside.shape[1]
    left_index = np.maximum(np.argmax(is_inside, axis=1) - 1, 0)
    n_points_after_last = np.argmax(is_inside[:, ::-1], axis=1)
    right_index = np.minimum(n_points - n_points_after_last, n_points - 1)

    left = np.take_along_axis(u, left_index[:, None], 1)
    right = np.take_along_axis(u, right_index[:, None], 1)
    return left, right

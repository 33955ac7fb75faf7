"""The privacy loss of isotropic noise on a space of constant curvature.

`SpaceFormLoss` computes the two tails of the loss of a Gaussian or Laplace law by one
radial integral. Spheres, hyperbolic spaces and flat spaces are covered.

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
import scipy
from numpy.typing import NDArray

from curvedp.errors import NotResolved
from curvedp.numerics.directed_rounding import Array
from curvedp.numerics.log_space import log_sum_exp, log_symmetric_beta
from curvedp.numerics.quadrature import endpoint_quadrature
from curvedp.privacy.loss.law import PrivacyLossLaw

Kind = Literal["gaussian", "laplace"]

# A logarithm: a radial integral is cut off where its integrand is e^-42 of its peak.
_NEGLIGIBLE_DEPTH = 42.0
# Offsets from the mode, in units of `SpaceFormLoss.width`, of the grid on which the
# search for the support of a radial integrand starts.
_POSITIVE_OFFSETS = 4.0 ** np.arange(-5.0, 7.0)
_FIRST_GRID_OFFSETS = np.concatenate(
    [-_POSITIVE_OFFSETS[::-1], [0.0], _POSITIVE_OFFSETS]
)
# The largest number of nodes of the quadrature rule for a radial integral.
_MAX_NODES = 4096
# Beyond this radius r, sinh r equals e^r/2 in floats: e^{−2r} < 5e-18.
_SINH_IS_EXPONENTIAL = 20.0
# Beyond this radius r, sinh² r would come close to the largest float, e^709.
_SINH_SQUARE_OVERFLOWS = 350


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

    def resolved(self) -> "SpaceFormLoss":
        """Return the same loss with as many quadrature nodes as its integrals need.

        The number of nodes is doubled until doubling changes neither the mass ∫ρ of the
        radial density ρ nor the upper tail P₁(L > t) at a few losses t. If the loss has
        a maximum T, some of these are close to T, where the tail varies on the scale of
        T − t.

        Returns
        -------
        SpaceFormLoss
            The same parameters with a larger `order`, if necessary.

        Raises
        ------
        NotResolved
            If 4096 nodes are not enough.
        """
        law = self
        while law.order < _MAX_NODES:
            finer = replace(law, order=2 * law.order)
            t = law.loss_scale * np.array([0.0, 0.5, 2.0, 6.0])
            if law.max_loss < math.inf:
                near_max = law.max_loss * np.array([0.9, 0.97, 0.995])
                t = np.append(t[t < 0.9 * law.max_loss], near_max)

            coarse_tail = law.log_tails(t)[0]
            finer_tail = finer.log_tails(t)[0]
            tolerance = 1e-11 + 1e-13 * np.abs(coarse_tail)
            masses_agree = abs(law.log_mass - finer.log_mass) < 1e-12
            tails_agree = np.all(np.abs(coarse_tail - finer_tail) <= tolerance)
            if masses_agree and tails_agree:
                return law
            law = finer
        raise NotResolved(
            f"the radial integrals of {self} need more than {_MAX_NODES} nodes"
        )

    # ---- the density ρ of the radius, relative to its mode so that nothing cancels

    @cached_property
    def mode(self) -> float:
        """The mode m of the density ρ of the radius.

        With the scale s and the dimension d it solves (d−1)·sn′(m)/sn(m) = m/s²
        (Gaussian) or 1/s (Laplace), where sn is sinh, the identity or sin for the
        curvature −1, 0 or 1. For the Gaussian this is m·tan m = (d−1)s² on a sphere and
        m·tanh m = (d−1)s² on a hyperbolic space.
        """
        power_of_sn = self.d - 1
        if self.kind == "laplace":
            return self._laplace_mode(power_of_sn * self.s)
        if self.k == 0:
            return math.sqrt(power_of_sn) * self.s
        target = power_of_sn * self.s * self.s
        if self.k == 1:
            return _solve_m_tan_m(target)
        return _solve_m_tanh_m(target)

    def _laplace_mode(self, target: float) -> float:
        """Return the m with sn(m)/sn′(m) = target: the mode of the radius of a Laplace law.

        The function sn/sn′ is tanh, the identity or tan for the curvature −1, 0 or 1.
        For a Laplace law of scale s in dimension d the target is (d−1)·s.

        Parameters
        ----------
        target : float
            The value of sn/sn′, positive.

        Returns
        -------
        float
            m, or infinity if there is none.
        """
        if self.k == 0:
            return target
        if self.k == 1:
            return math.atan(target)
        return math.atanh(target) if target < 1 else math.inf

    def log_rho(self, u: Array) -> Array:
        """Return log ρ(m + u) − log ρ(m), for the density ρ of the radius with mode m.

        ρ(r) ∝ weight(r)·sn(r)^{d−1}, where the weight is e^{−r²/2s²} (Gaussian) or
        e^{−r/s} (Laplace), and sn is sinh, the identity or sin for the curvature −1, 0
        or 1. Ratios sn(m+u)/sn(m) are written as 1 + (a small term), so that nothing
        cancels for small u.

        Parameters
        ----------
        u : array
            r − m, the radius relative to the mode.

        Returns
        -------
        array
            Numbers <= 0 with the shape of `u`; −inf if m + u is outside the space.
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.k == -1:
                return self._log_rho_hyperbolic(u)

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
            if self.kind == "gaussian":
                return np.asarray(-u * (2 * m + u) / (2 * s * s) + log_growth)
            return np.asarray(-u / s + log_growth)

    def _log_rho_hyperbolic(self, u: Array) -> Array:
        """Return log ρ(m + u) − log ρ(m) on a hyperbolic space; u as in r = m + u.

        ρ(r) ∝ weight(r)·sinh(r)^n is the density of the radius r, n = d − 1, and m is
        its mode. With g(u) = log(1 + (1 − e^{−2u})/(e^{2m} − 1)), log(sinh(m+u)/sinh m)
        is u + g(u), and the result is

            Gaussian:  −u²/2s² + (n − m/s²)·u + n·g(u),     n − m/s² = −2n/(e^{2m} − 1),
            Laplace:   −(1/s − n)·u + n·g(u).

        The identity for n − m/s² holds because m is the mode (n·coth m = m/s²); it
        avoids the cancellation of two large numbers.

        Parameters
        ----------
        u : array
            Offsets r − m of radii r from the mode m.

        Returns
        -------
        array
            Numbers <= 0, of the shape of `u`.
        """
        m, s, n = self.mode, self.s, self.d - 1
        if m < _SINH_SQUARE_OVERFLOWS:
            e_2m_minus_1 = math.expm1(2 * m)
            relative_growth = np.maximum(-np.expm1(-2 * u) / e_2m_minus_1, -1.0)
            log_growth = n * np.log1p(relative_growth)
        else:
            e_2m_minus_1 = math.inf
            log_growth = n * np.log(-np.expm1(-2 * np.maximum(m + u, 0.0)))
        if self.kind == "gaussian":
            quadratic_term = -u * u / (2 * s * s)
            return np.asarray(quadratic_term - 2 * n * u / e_2m_minus_1 + log_growth)
        return np.asarray(-(1 / s - n) * u + log_growth)

    @cached_property
    def width(self) -> float:
        """The length scale on which the density ρ of the radius varies near its mode m.

        It is (−(log ρ)″(m))^{−1/2}, where −(log ρ)″ = (d−1)/sn(m)², plus 1/s² for the
        Gaussian; sn is sinh, the identity or sin for the curvature −1, 0 or 1. A
        Laplace law on a hyperbolic space that is barely integrable is nearly
        exponential. There the length 1/(1/s − (d−1)) of its decay is an upper bound.
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
        """log(∫ρ(r) dr / ρ(m)), with ρ the density of the radius and m its mode."""
        integral = self._radial_integral(
            np.array([0.0]),
            np.array([-self.mode]),
            np.array([self._largest_offset]),
            Direction.ALL,
        )
        return float(integral[0])

    @cached_property
    def mean_square(self) -> float:
        """The mean square distance E[r²] of the noise from its center.

        It is the integral of r²·ρ(r) divided by that of ρ, with ρ the density of the
        radius r.
        """
        low, high = self._find_support_in(
            np.array([0.0]),
            np.array([-self.mode]),
            np.array([self._largest_offset]),
            Direction.ALL,
        )
        u, log_weight = self._quadrature_in(low, high)
        probability = np.exp(self.log_rho(u) + log_weight - self.log_mass)
        return float(np.sum(probability * (self.mode + u) ** 2))

    @cached_property
    def root_fisher_information(self) -> float:
        """The square root of the Fisher information about the center of the noise.

        It is √(E[r²]/d)/s² for the Gaussian and 1/(s√d) for the Laplace law, where r is
        the distance from the center, d the dimension and s the scale. It is the same in
        every direction and has the unit 1/length.
        """
        if self.kind == "laplace":
            return 1 / (self.s * math.sqrt(self.d))
        return math.sqrt(self.mean_square / self.d) / self.s**2

    @property
    def loss_scale(self) -> float:
        """D·√(Fisher information): the standard deviation of L for a small distance D."""
        return self.distance * self.root_fisher_information

    @property
    def _diameter(self) -> float:
        """The largest distance between two points of the space."""
        return math.pi if self.k == 1 else math.inf

    @property
    def _largest_offset(self) -> float:
        """The largest value of u = r − m, for a radius r whose density has the mode m."""
        return self._diameter - self.mode

    # ---- the level sets of the loss

    @property
    def max_loss(self) -> float:
        """The supremum T of the loss.

        With D the distance of the centers and s the scale, it is D/s for the Laplace
        law, and D(2·diameter − D)/2s² for the Gaussian, attained at the points farthest
        from the second center.
        """
        if self.kind == "laplace":
            return self.distance / self.s
        return self.distance * (2 * self._diameter - self.distance) / (2 * self.s**2)

    def _level_distance(self, r: Array, t: Array) -> Array:
        """Return b, the distance from the second center η₂ at which the loss L is t.

        For a point at the distance r from the first center and d₂ from the second one,
        L is (d₂² − r²)/2s² (Gaussian) or (d₂ − r)/s (Laplace). So L = t means that d₂
        is b = √(r² + 2s²t) or b = r + st.

        Parameters
        ----------
        r : array
            The distance from the first center.
        t : array
            The level of the loss; it broadcasts with `r`.

        Returns
        -------
        array
            b.
        """
        if self.kind == "gaussian":
            return np.sqrt(r * r + 2 * self.s**2 * t)
        return r + self.s * t

    def _squared_cosine_of_level(self, r: Array, t: Array) -> tuple[Array, Array]:
        """Return x = cos²(φ/2) and 1 − x for the angle φ at which the loss L is t.

        A point at the radius r (its distance from the first center η₁) and at the angle
        φ to the direction of η₂ has the loss L = t if its distance from η₂ is b =
        `_level_distance(r, t)`. With D the distance of the centers, the law of cosines
        in half angles reads

            x     = sn((r+D−b)/2)·sn((r+D+b)/2) / (sn r·sn D),
            1 − x = sn((b−r+D)/2)·sn((b+r−D)/2) / (sn r·sn D),

        where sn is sinh, the identity or sin for the curvature −1, 0 or 1. To lose no
        digits, b − r is computed as 2s²t/(b + r) (Gaussian) or st (Laplace). On a
        hyperbolic space sinh z = e^z(1 − e^{−2z})/2, and the factors e^z cancel, so
        that nothing overflows.

        Parameters
        ----------
        r, t : array
            The radius and the level of the loss; they broadcast.

        Returns
        -------
        x, one_minus_x : array
            Both to full relative precision, clipped to [0, 1]. They are 0 if undefined
            (0/0).
        """
        D, s = self.distance, self.s
        b = self._level_distance(r, t)
        if self.kind == "gaussian":
            with np.errstate(invalid="ignore", divide="ignore"):
                b_minus_r = np.where(t > 0, 2 * s * s * t / (b + r), 0.0)
        else:
            b_minus_r = s * t + 0.0 * r

        # The two arguments of sn in the numerator of x, then those in that of y = 1 −
        # x.
        x_first = (D - b_minus_r) / 2
        x_second = (r + D + b) / 2
        y_first = (D + b_minus_r) / 2
        y_second = (b + r - D) / 2
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.k == 0:
                x = x_first * x_second / (r * D)
                one_minus_x = y_first * y_second / (r * D)
            elif self.k == 1:
                denominator = np.sin(r) * math.sin(D)
                x = np.sin(x_first) * np.sin(x_second) / denominator
                one_minus_x = np.sin(y_first) * np.sin(y_second) / denominator
            else:
                denominator = np.expm1(-2 * r) * math.expm1(-2 * D)
                x = np.expm1(-2 * x_first) * np.expm1(-2 * x_second) / denominator
                one_minus_x = (
                    np.exp(-2 * x_first)
                    * np.expm1(-2 * y_first)
                    * np.expm1(-2 * y_second)
                    / denominator
                )
        return np.fmin(np.fmax(x, 0.0), 1.0), np.fmin(np.fmax(one_minus_x, 0.0), 1.0)

    def _level_set(self, t: Array) -> LevelSet:
        """Return the radii r_a and r_b between which the loss L takes the value t.

        A radius is the distance from the first center. With D the distance of the
        centers, s the scale and D′ = 2·diameter − D,

            r_a = |D² − 2s²t|/2D,    r_b = (D′² − 2s²t)/2D′     for the Gaussian,
            r_a = (D − st)/2,        r_b = (D′ − st)/2          for the Laplace law.

        Below r_a the loss exceeds t in all directions if 2s²t < D² (always for the
        Laplace law), and in no direction otherwise. Beyond r_b it exceeds t in no
        direction.

        Parameters
        ----------
        t : array
            Levels of the loss, in one dimension.

        Returns
        -------
        LevelSet
            The two radii, and whether the loss at the first center exceeds t.
        """
        D = self.distance
        far_distance = 2 * self._diameter - D
        if self.kind == "laplace":
            r_a = np.maximum(D - self.s * t, 0.0) / 2
            r_b = np.maximum((far_distance - self.s * t) / 2, r_a)
            return LevelSet([r_a, r_b], np.ones_like(t, dtype=bool))

        # d₂² − r² on the level, with d₂ and r the distances from the two centers.
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

        L is the privacy loss and P₁ the law of the noise about the first center. Each
        tail is a sum of radial integrals between the radii of the level L = t. Below
        the first radius, L > t in all directions or in none; between the radii, in some
        directions; beyond the last radius, in none. The smaller tail is integrated, and
        the other one is its complement.

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
        level_set = self._level_set(t)
        radii = [np.zeros_like(t), *level_set.radii, np.full_like(t, self._diameter)]
        ends = np.stack(radii) - self.mode  # one row for each radius

        # The piece below the first radius belongs to one of the two tails.
        log_center = self._radial_integral(t, ends[0], ends[1], Direction.ALL)
        log_center_above = np.where(level_set.center_exceeds, log_center, -math.inf)
        log_center_below = np.where(level_set.center_exceeds, -math.inf, log_center)

        # The upper tail: this piece, and those between the radii of the level.
        pieces = [log_center_above]
        for low, high in pairwise(ends[1:-1]):
            pieces.append(self._radial_integral(t, low, high, Direction.ABOVE))
        log_upper = log_sum_exp(np.stack(pieces), axis=0) - self.log_mass
        log_upper = np.minimum(log_upper, 0.0)

        # If the upper tail is small, the lower one is its complement …
        log_lower = np.full_like(t, -math.inf)
        upper_is_small = log_upper < self._upper_is_small
        with np.errstate(divide="ignore"):
            log_lower[upper_is_small] = np.log1p(-np.exp(log_upper[upper_is_small]))

        # … and otherwise the lower tail is integrated, and the upper one replaced.
        lower_is_small = ~upper_is_small
        if np.any(lower_is_small):
            log_lower[lower_is_small] = self._log_lower_tail(
                t[lower_is_small],
                ends[:, lower_is_small],
                log_center_below[lower_is_small],
            )
            log_upper[lower_is_small] = np.log1p(-np.exp(log_lower[lower_is_small]))
        return log_upper, log_lower

    def _log_lower_tail(self, t: Array, ends: Array, log_center: Array) -> Array:
        """Return log P₁(L <= t), where this is the smaller tail, as a sum of radial integrals.

        L is the privacy loss, P₁ the law of the noise about the first center, and m the
        mode of the density of the radius. The pieces are: the radii below the level L =
        t (computed by the caller), the radii at which the level is met in some
        direction, and those beyond. Since the tail is the smaller one, its logarithm is
        at most log ½ = −0.69; it is cut at −0.5, so that the caller's complement is
        never 0.

        Parameters
        ----------
        t : array
            Losses at which the lower tail is the smaller one.
        ends : array
            The radii between which the pieces lie, minus m. There is one row for each
            radius and one column for each t.
        log_center : array
            The logarithm of the piece below the first radius of the level.

        Returns
        -------
        array
            One logarithm for each t.
        """
        pieces = [log_center]
        for low, high in pairwise(ends[1:-1]):
            pieces.append(self._radial_integral(t, low, high, Direction.BELOW))
        pieces.append(self._radial_integral(t, ends[-2], ends[-1], Direction.ALL))
        return np.minimum(log_sum_exp(np.stack(pieces), axis=0) - self.log_mass, -0.5)

    def _log_integrand(
        self, u: Array, t: Array, direction: Direction, is_rough: bool = False
    ) -> Array:
        """Return log(ρ(m+u)/ρ(m)·F), with F the probability of some directions.

        ρ is the density of the radius r = m + u and m its mode; L is the privacy loss.
        With x = cos²(φ/2) for the angle φ at which L = t at this radius, a = (d−1)/2
        and the regularized incomplete beta function I,

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

        The integrand ρ(m+u)·F is a function of u = r − m, with ρ the density of the
        radius r, m its mode, and F the probability of some directions. It is unimodal,
        so that three successive grids close in on it. On a space that is not compact,
        the first grid is extended until the integrand has fallen to e^-42 of its peak.

        Parameters
        ----------
        t : array
            Levels of the loss, in one dimension.
        low, high : array
            The interval of u for each t.
        direction : Direction
            The directions whose probability is F: all, those with a loss > t, or <= t.

        Returns
        -------
        left, right : array
            The smaller interval for each t.
        """
        nearest_to_mode = np.clip(0.0, low, high)[:, None]
        t = t[:, None]  # rows: the values of t; columns: the values of u
        low = low[:, None]
        high = high[:, None]

        # The first grid is spaced geometrically about the mode.
        u = np.clip(nearest_to_mode + self.width * _FIRST_GRID_OFFSETS, low, high)
        values = self._log_integrand(u, t, direction, is_rough=True)

        # It is extended to the right, by doubling, until the integrand has ended.
        while True:
            last = u[:, -1:]
            negligible = values.max(axis=1, keepdims=True) - _NEGLIGIBLE_DEPTH
            is_open = (last < high) & (values[:, -1:] > negligible)
            if not np.any(is_open):
                break
            farther = np.minimum(nearest_to_mode + 2 * (last - nearest_to_mode), high)
            last = np.where(is_open, farther, last)
            last_value = self._log_integrand(last, t, direction, is_rough=True)
            u = np.concatenate([u, last], axis=1)
            values = np.concatenate([values, last_value], axis=1)

        # Two finer grids close in on the support.
        left, right = _enclose_support(u, values)
        for _ in range(2):
            u = left + (right - left) * np.linspace(0.0, 1.0, 17)
            values = self._log_integrand(u, t, direction, is_rough=True)
            left, right = _enclose_support(u, values)
        return left[:, 0], right[:, 0]

    def _quadrature_in(
        self, low: Array, high: Array, is_logarithmic: bool = False
    ) -> tuple[Array, Array]:
        """Return nodes and log weights of a quadrature rule on each [low, high].

        The rule is dense at both ends, where an integrand may behave like a
        half-integer power. The variable is u = r − m, with r the radius and m the mode
        of its density ρ.

        Parameters
        ----------
        low, high : array
            Intervals of u, in one dimension.
        is_logarithmic : bool
            Whether the nodes are laid out in log r. This is for integrands that vary
            both on the scale of their smallest radius and on that of ρ.

        Returns
        -------
        nodes, log_weights : array
            The values of u and the logarithms of the weights. Each row is one interval.
        """
        offset, weight = endpoint_quadrature(self.order)
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
        """Return log ∫ρ(m+u)/ρ(m)·F du from low to high, for each level t.

        ρ is the density of the radius r = m + u and m its mode. F is the probability,
        at that radius, of the directions that count.

        Parameters
        ----------
        t : array
            Levels of the loss, in one dimension.
        low, high : array
            The interval of u = r − m for each t. The result is −inf if it is empty.
        direction : Direction
            The directions whose probability is F: all, those with a loss > t, or <= t.

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

        if self._has_two_scales(low, high, direction):
            cut = _SINH_IS_EXPONENTIAL - self.mode
            log_below = self._radial_integral(t, low, np.minimum(high, cut), direction)
            log_above = self._radial_integral(t, np.maximum(low, cut), high, direction)
            log_integrals[is_nonempty] = np.logaddexp(log_below, log_above)
            return log_integrals

        left, right = self._find_support_in(t, low, high, direction)
        is_logarithmic = self.kind == "laplace" and direction is not Direction.ALL
        u, log_weight = self._quadrature_in(left, right, is_logarithmic)
        log_integrand = self._log_integrand(u, t[:, None], direction)
        log_integrals[is_nonempty] = log_sum_exp(log_integrand + log_weight, axis=1)
        return log_integrals

    def _has_two_scales(self, low: Array, high: Array, direction: Direction) -> bool:
        """Say whether an integral must be cut where sinh becomes exponential.

        A Laplace law on a hyperbolic space that is barely integrable varies on one
        scale near its center and on another one far out. One quadrature rule does not
        resolve both.

        Parameters
        ----------
        low, high : array
            Intervals of u = r − m, with r the radius and m the mode of its density.
        direction : Direction
            The directions that count. Only integrals over all of them extend that far.

        Returns
        -------
        bool
            True only for integrals over all directions that extend that far.
        """
        if direction is not Direction.ALL or self.kind != "laplace" or self.k != -1:
            return False
        cut = _SINH_IS_EXPONENTIAL - self.mode
        return bool(np.any(high > cut) and np.any(low < cut))


def _solve_m_tan_m(target: float) -> float:
    """Return the root m in (0, π/2) of m·tan m = target.

    It is the mode of the radius of a Gaussian on a sphere. The equation is solved in
    the form m·sin m − target·cos m = 0, which has no pole. Because m² <= m·tan m, the
    root is at most √target; if rounding hides any difference, that bound is returned.

    Parameters
    ----------
    target : float
        A positive number.

    Returns
    -------
    float
        m.
    """
    scale = max(target, 1.0)
    upper = min(math.sqrt(target), math.pi / 2)
    if upper * math.sin(upper) <= target * math.cos(upper):
        return upper  # the bound is the root, up to rounding

    def difference(m: float) -> float:
        """Return m·sin m − target·cos m, scaled so that it does not overflow."""
        return (m * math.sin(m) - target * math.cos(m)) / scale

    return float(scipy.optimize.brentq(difference, 0.0, upper, xtol=1e-300))


def _solve_m_tanh_m(target: float) -> float:
    """Return the root m > 0 of m·tanh m = target.

    It is the mode of the radius of a Gaussian on a hyperbolic space. Because
    m·tanh m >= m²/(1+m), the root is at most target + √target.

    Parameters
    ----------
    target : float
        A positive number.

    Returns
    -------
    float
        m.
    """
    upper = target + math.sqrt(target) + 1e-300

    def difference(m: float) -> float:
        """Return m·tanh m/target − 1."""
        return m * math.tanh(m) / target - 1.0

    return float(scipy.optimize.brentq(difference, 0.0, 2 * upper, xtol=1e-300))


def _enclose_support(u: Array, log_values: Array) -> tuple[Array, Array]:
    """Return the grid points around the region where a function is not negligible.

    A value is negligible if it is below e^-42 of the maximum of its row.

    Parameters
    ----------
    u, log_values : array
        Increasing grid points and the logarithm of the function there. Each row is one
        function.

    Returns
    -------
    left, right : array
        Two columns: for each function, the grid points next to the region, or the ends
        of the grid.
    """
    is_inside = log_values >= log_values.max(axis=1, keepdims=True) - _NEGLIGIBLE_DEPTH
    n_points = is_inside.shape[1]
    first = np.maximum(np.argmax(is_inside, axis=1) - 1, 0)
    last_inside = np.minimum(
        n_points - np.argmax(is_inside[:, ::-1], axis=1), n_points - 1
    )
    left = np.take_along_axis(u, first[:, None], 1)
    right = np.take_along_axis(u, last_inside[:, None], 1)
    return left, right

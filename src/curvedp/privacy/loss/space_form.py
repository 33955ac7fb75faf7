"""The privacy loss of an isotropic law on a space of constant curvature.

Symbols. Units in which the curvature is k = −1, 0 or 1; dimension d >= 2; scale s;
centers η₁, η₂ at distance D. In polar coordinates (r, φ) about η₁, with η₂ in the
direction φ = 0, the radial density is ρ(r) ∝ weight(r)·sn(r)^{d−1} with sn = sinh, the
identity or sin, and weight e^{−r²/2s²} or e^{−r/s}; and cos²(φ/2) ~ Beta(a, a) with
a = (d−1)/2.

Theorem (docs/exact-profiles.md, "The integral"). With d₂ the distance from η₂, the loss

    L = (d₂² − r²)/2s²  (Gaussian)      L = (d₂ − r)/s  (Laplace)

grows with d₂, which grows with φ. So L > t is φ > φ_t(r), and

    P₁(L > t) = ∫ ρ(r)·I_x(a, a) dr / ∫ρ,      x = cos²(φ_t(r)/2),

I_x(a, a) being the regularized incomplete beta function. With b = √(r² + 2s²t) or r +
st, the value of d₂ on the level L = t, the law of cosines by half angles keeps every
digit:

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

# The window of a radial integral ends where the integrand is e^-42 of its peak.
_DEPTH = 42.0
_LADDER = 4.0 ** np.arange(-5.0, 7.0)
_MAX_NODES = 4096
# Beyond this radius sinh r is e^r/2 in floats, and sinh² would overflow before 350.
_SINH_IS_EXPONENTIAL = 20.0
_SINH_SQUARE_OVERFLOWS = 350


class Direction(Enum):
    """Which directions φ a radial integral takes at each radius."""

    ALL = "all"  # the factor is 1
    ABOVE = "above"  # those with L > t: the factor is I_x(a, a)
    BELOW = "below"  # those with L <= t: the factor is 1 − I_x(a, a)


class LevelSet(NamedTuple):
    """Where the level L = t lies.

    The angle φ_t(r) is strictly between 0 and π for r between the first and the last of
    the radii, one array of radii for each t.
    """

    radii: list[Array]
    center_exceeds: NDArray[np.bool_]  # whether L > t in all directions below the first


@dataclass(frozen=True)
class SpaceFormLoss(PrivacyLossLaw):
    """The loss of an isotropic law of scale s on a space form, centers D apart.

    Attributes
    ----------
    kind : str
        'gaussian' (weight e^{−r²/2s²}) or 'laplace' (weight e^{−r/s}).
    k, d : int
        The curvature −1, 0 or 1, and the dimension d >= 2.
    s, distance : float
        The scale s and the distance D of the centers.
    order : int
        The number of quadrature nodes of a radial integral.
    """

    kind: Kind
    k: int
    d: int
    s: float
    distance: float
    order: int = 64

    # log P₁(L > t) below which the upper tail is the one that is integrated.
    _upper_is_small: ClassVar[float] = -0.7

    def resolved(self) -> "SpaceFormLoss":
        """Return the law with as many nodes as its integrals need.

        They are enough where doubling them changes nothing: not the mass of ρ, and not
        the tail at a few losses; near a largest loss the tail varies on the scale of
        what is left.
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
            masses_agree = abs(law.log_mass - finer.log_mass) < 1e-12
            allowed = 1e-11 + 1e-13 * np.abs(coarse_tail)
            if masses_agree and np.all(np.abs(coarse_tail - finer_tail) <= allowed):
                return law
            law = finer
        raise NotResolved(f"the radial integral of {self} could not be resolved")

    # ---- the radial density ρ, written about its mode so that nothing large cancels

    @cached_property
    def mode(self) -> float:
        """The mode m of ρ: (d−1)·sn′(m)/sn(m) = m/s² (Gaussian) or 1/s (Laplace)."""
        n = self.d - 1
        if self.kind == "laplace":
            return self._laplace_mode(n * self.s)
        if self.k == 0:
            return math.sqrt(n) * self.s
        target = n * self.s * self.s
        if self.k == 1:
            return _solve_m_tan_m(target)
        return _solve_m_tanh_m(target)

    def _laplace_mode(self, target: float) -> float:
        """Return the m with sn(m)/sn′(m) = target = (d−1)·s; inf if there is none."""
        if self.k == 0:
            return target
        if self.k == 1:
            return math.atan(target)
        return math.atanh(target) if target < 1 else math.inf

    def log_rho(self, u: Array) -> Array:
        """Return log ρ(m + u) − log ρ(m); −inf outside the space."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.k == -1:
                return self._log_rho_hyperbolic(u)

            m, s, n = self.mode, self.s, self.d - 1
            if self.k == 0:
                log_growth = n * np.log1p(np.maximum(u / m, -1.0))
            else:
                # sin(m+u)/sin m = 1 + 2·sin(u/2)·(cot m·cos(u/2) − sin(u/2))
                half = np.sin(u / 2)
                ratio = 2 * half * (np.cos(u / 2) / math.tan(m) - half)
                log_growth = n * np.log1p(np.maximum(ratio, -1.0))
            if self.kind == "gaussian":
                return np.asarray(-u * (2 * m + u) / (2 * s * s) + log_growth)
            return np.asarray(-u / s + log_growth)

    def _log_rho_hyperbolic(self, u: Array) -> Array:
        """Return `log_rho` on a hyperbolic space.

        log(sinh(m+u)/sinh m) = u + log(1 + (1 − e^{−2u})/(e^{2m} − 1)). The linear
        terms of weight and growth cancel at the mode, up to a remainder.
        """
        m, s, n = self.mode, self.s, self.d - 1
        if m < _SINH_SQUARE_OVERFLOWS:
            e_2m_minus_1 = math.expm1(2 * m)
            log_growth = n * np.log1p(
                np.maximum(-np.expm1(-2 * u) / e_2m_minus_1, -1.0)
            )
        else:
            e_2m_minus_1 = math.inf
            log_growth = n * np.log(-np.expm1(-2 * np.maximum(m + u, 0.0)))
        if self.kind == "gaussian":
            return np.asarray(
                -u * u / (2 * s * s) - 2 * n * u / e_2m_minus_1 + log_growth
            )
        return np.asarray(-(1 / s - n) * u + log_growth)

    @cached_property
    def width(self) -> float:
        """(−(log ρ)″)^{−1/2} at the mode: the scale on which ρ varies.

        Towards its limit of integrability the Laplace law on a hyperbolic space is
        nearly exponential, which bounds the width.
        """
        m, n = self.mode, self.d - 1
        if self.k == 0:
            sn = m
        elif self.k == 1:
            sn = math.sin(m)
        else:
            sn = math.sinh(m) if m < _SINH_SQUARE_OVERFLOWS else math.inf

        if self.kind == "gaussian":
            return 1 / math.sqrt(n / (sn * sn) + 1 / self.s**2)
        curvature = n / (sn * sn)
        if self.k == -1:
            return min(1 / math.sqrt(curvature), 1 / (1 / self.s - n))
        return 1 / math.sqrt(curvature)

    @cached_property
    def log_mass(self) -> float:
        """log ∫ρ, in the units of `log_rho`."""
        integral = self._radial_integral(
            np.array([0.0]),
            np.array([-self.mode]),
            np.array([self._right_end]),
            Direction.ALL,
        )
        return float(integral[0])

    @cached_property
    def mean_square(self) -> float:
        """E[r²]."""
        low, high = self._window(
            np.array([0.0]),
            np.array([-self.mode]),
            np.array([self._right_end]),
            Direction.ALL,
        )
        u, log_weight = self._nodes_in(low, high)
        probability = np.exp(self.log_rho(u) + log_weight - self.log_mass)
        return float(np.sum(probability * (self.mode + u) ** 2))

    @cached_property
    def root_fisher_information(self) -> float:
        """√(Fisher information) of the location family in any unit direction.

        √(E[r²]/d)/s² for the Gaussian, 1/(s√d) for the Laplace.
        """
        if self.kind == "laplace":
            return 1 / (self.s * math.sqrt(self.d))
        return math.sqrt(self.mean_square / self.d) / self.s**2

    @property
    def loss_scale(self) -> float:
        """D·√(Fisher information), the deviation of L for small D."""
        return self.distance * self.root_fisher_information

    @property
    def _diameter(self) -> float:
        """The largest distance of two points."""
        return math.pi if self.k == 1 else math.inf

    @property
    def _right_end(self) -> float:
        """The largest u = r − m."""
        return self._diameter - self.mode

    # ---- the level sets of the loss

    @property
    def max_loss(self) -> float:
        """sup L: D/s for Laplace, D(2·diameter − D)/2s² for the Gaussian.

        The latter is attained on the cut locus of η₂.
        """
        if self.kind == "laplace":
            return self.distance / self.s
        return self.distance * (2 * self._diameter - self.distance) / (2 * self.s**2)

    def _level_distance(self, r: Array, t: Array) -> Array:
        """Return b, the distance d₂ from η₂ on the level L = t at radius r."""
        if self.kind == "gaussian":
            return np.sqrt(r * r + 2 * self.s**2 * t)
        return r + self.s * t

    def _squared_cosine_of_level(self, r: Array, t: Array) -> tuple[Array, Array]:
        """Return x = cos²(φ_t(r)/2) and 1 − x, each with its own digits.

        They are the two quotients of the module's docstring, with b − r computed
        without cancellation. On a hyperbolic space sinh z = e^z(1 − e^{−2z})/2, and the
        exponentials cancel: nothing overflows at any radius. Outside the range of the
        level both are clipped to [0, 1]; where they are no numbers, to 0.
        """
        D, s = self.distance, self.s
        b = self._level_distance(r, t)
        if self.kind == "gaussian":
            with np.errstate(invalid="ignore", divide="ignore"):
                b_minus_r = np.where(t > 0, 2 * s * s * t / (b + r), 0.0)
        else:
            b_minus_r = s * t + 0.0 * r

        # x = sn(x_first)·sn(x_second)/(sn r·sn D), and likewise 1 − x.
        x_first, x_second = (D - b_minus_r) / 2, (r + D + b) / 2
        y_first, y_second = (D + b_minus_r) / 2, (b + r - D) / 2
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.k == 0:
                x = x_first * x_second / (r * D)
                y = y_first * y_second / (r * D)
            elif self.k == 1:
                denominator = np.sin(r) * math.sin(D)
                x = np.sin(x_first) * np.sin(x_second) / denominator
                y = np.sin(y_first) * np.sin(y_second) / denominator
            else:
                denominator = np.expm1(-2 * r) * math.expm1(-2 * D)
                x = np.expm1(-2 * x_first) * np.expm1(-2 * x_second) / denominator
                y = (
                    np.exp(-2 * x_first)
                    * np.expm1(-2 * y_first)
                    * np.expm1(-2 * y_second)
                    / denominator
                )
        return np.fmin(np.fmax(x, 0.0), 1.0), np.fmin(np.fmax(y, 0.0), 1.0)

    def _level_set(self, t: Array) -> LevelSet:
        """Return the radii r_a and r_b between which the level L = t is met.

        For the Gaussian r_a = |D² − 2s²t|/2D and, with D′ = 2·diameter − D,
        r_b = (D′² − 2s²t)/2D′; for the Laplace (D − st)/2 and (D′ − st)/2.
        """
        D = self.distance
        far_distance = 2 * self._diameter - D
        if self.kind == "laplace":
            r_a = np.maximum(D - self.s * t, 0.0) / 2
            r_b = np.maximum((far_distance - self.s * t) / 2, r_a)
            return LevelSet([r_a, r_b], np.ones_like(t, dtype=bool))

        level = 2 * self.s**2 * t
        r_a = np.abs(D * D - level) / (2 * D)
        if math.isfinite(far_distance):
            r_b = (far_distance * far_distance - level) / (2 * far_distance)
        else:
            r_b = np.full_like(t, math.inf)
        return LevelSet([r_a, np.maximum(r_b, r_a)], level < D * D)

    # ---- the tails, as integrals over r: one row for each t

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """Return the log tails at losses t; the smaller tail is the one integrated.

        Below r_a all directions count or none, between the radii of the level a share
        of them, beyond the last radius none. The other tail is the complement.
        """
        t = np.asarray(t, np.float64)
        level_set = self._level_set(t)
        radii = [np.zeros_like(t), *level_set.radii, np.full_like(t, self._diameter)]
        ends = np.stack(radii) - self.mode

        log_center = self._radial_integral(t, ends[0], ends[1], Direction.ALL)
        pieces = [np.where(level_set.center_exceeds, log_center, -math.inf)]
        for low, high in pairwise(ends[1:-1]):
            pieces.append(self._radial_integral(t, low, high, Direction.ABOVE))
        log_upper = log_sum_exp(np.stack(pieces), axis=0) - self.log_mass
        log_upper = np.minimum(log_upper, 0.0)

        log_lower = np.full_like(t, -math.inf)
        upper_is_small = log_upper < self._upper_is_small
        with np.errstate(divide="ignore"):
            log_lower[upper_is_small] = np.log1p(-np.exp(log_upper[upper_is_small]))

        lower_is_small = ~upper_is_small
        if np.any(lower_is_small):
            log_lower[lower_is_small] = self._log_lower_tail(
                t[lower_is_small],
                ends[:, lower_is_small],
                np.where(level_set.center_exceeds, -math.inf, log_center)[
                    lower_is_small
                ],
            )
            log_upper[lower_is_small] = np.log1p(-np.exp(log_lower[lower_is_small]))
        return log_upper, log_lower

    def _log_lower_tail(self, t: Array, ends: Array, log_center: Array) -> Array:
        """Return log P₁(L <= t), integrated.

        Parameters
        ----------
        t : array
            Losses at which it is the smaller tail.
        ends : array
            The radii that bound the pieces, minus the mode, one row for each radius.
        log_center : array
            The piece below the first radius.
        """
        pieces = [log_center]
        for low, high in pairwise(ends[1:-1]):
            pieces.append(self._radial_integral(t, low, high, Direction.BELOW))
        pieces.append(self._radial_integral(t, ends[-2], ends[-1], Direction.ALL))
        return np.minimum(log_sum_exp(np.stack(pieces), axis=0) - self.log_mass, -0.5)

    def _log_integrand(
        self, u: Array, t: Array, direction: Direction, is_rough: bool = False
    ) -> Array:
        """Return log(ρ(m+u)·share of the directions at that radius).

        With `is_rough` the share is known up to a slowly varying factor only: enough to
        find where the integrand lives.
        """
        log_rho = self.log_rho(u)
        if direction is Direction.ALL:
            return log_rho
        x, y = self._squared_cosine_of_level(self.mode + u, t)
        if direction is Direction.BELOW:
            x, y = y, x
        a = (self.d - 1) / 2
        with np.errstate(divide="ignore"):
            if is_rough:
                return log_rho + np.where(x < 0.5, a * np.log(4 * x * y), 0.0)
            return log_rho + log_symmetric_beta(a, x, y)

    def _window(
        self, t: Array, low: Array, high: Array, direction: Direction
    ) -> tuple[Array, Array]:
        """Return the part of (low, high) that carries the integral, for each t.

        The integrand is unimodal, so that three grids close in on it. On a noncompact
        space the first one goes out until ρ alone is below the peak.
        """
        t = t[:, None]
        anchor = np.clip(0.0, low, high)[:, None]
        low, high = low[:, None], high[:, None]

        offsets = self.width * np.concatenate([-_LADDER[::-1], [0.0], _LADDER])
        u = np.clip(anchor + offsets, low, high)
        values = self._log_integrand(u, t, direction, is_rough=True)
        while True:
            last = u[:, -1:]
            is_above = values[:, -1:] > values.max(axis=1, keepdims=True) - _DEPTH
            is_open = (last < high) & is_above
            if not np.any(is_open):
                break
            farther = np.minimum(anchor + 2 * (last - anchor), high)
            last = np.where(is_open, farther, last)
            last_value = self._log_integrand(last, t, direction, is_rough=True)
            u = np.concatenate([u, last], axis=1)
            values = np.concatenate([values, last_value], axis=1)

        left, right = _hull(u, values)
        for _ in range(2):
            u = left + (right - left) * np.linspace(0.0, 1.0, 17)
            values = self._log_integrand(u, t, direction, is_rough=True)
            left, right = _hull(u, values)
        return left[:, 0], right[:, 0]

    def _nodes_in(
        self, low: Array, high: Array, is_logarithmic: bool = False
    ) -> tuple[Array, Array]:
        """Return the nodes and the logarithms of the weights of a rule on (low, high).

        The rule is dense at both ends (`endpoint_quadrature`), where an integrand may
        end like a half-integer power. With `is_logarithmic` it is laid in log r, for an
        integrand that varies on the scale of its lower end and on that of ρ.
        """
        offset, weight = endpoint_quadrature(self.order)
        with np.errstate(divide="ignore"):
            if is_logarithmic:
                # Any positive number would do for a radius of 0.
                r_low = np.maximum(low + self.mode, 1e-9 * self.width)[:, None]
                half = np.log1p((high - low)[:, None] / r_low) / 2
                step = r_low * np.expm1(half * offset)
                log_weight = np.log((r_low + step) * half * weight)
            else:
                half = ((high - low) / 2)[:, None]
                step = half * offset
                log_weight = np.log(half * weight)
        return np.minimum(low[:, None] + step, high[:, None]), log_weight

    def _radial_integral(
        self, t: Array, low: Array, high: Array, direction: Direction
    ) -> Array:
        """Return log ∫ρ·(share of directions) over u from low to high, for each t.

        −inf where the interval is empty.
        """
        out = np.full(t.shape, -math.inf)
        is_nonempty = high > low
        if not np.any(is_nonempty):
            return out
        t, low, high = t[is_nonempty], low[is_nonempty], high[is_nonempty]

        if self._has_two_scales(low, high, direction):
            knee = _SINH_IS_EXPONENTIAL - self.mode
            near = self._radial_integral(t, low, np.minimum(high, knee), direction)
            far = self._radial_integral(t, np.maximum(low, knee), high, direction)
            out[is_nonempty] = np.logaddexp(near, far)
            return out

        left, right = self._window(t, low, high, direction)
        is_logarithmic = self.kind == "laplace" and direction is not Direction.ALL
        u, log_weight = self._nodes_in(left, right, is_logarithmic)
        log_integrand = self._log_integrand(u, t[:, None], direction)
        out[is_nonempty] = log_sum_exp(log_integrand + log_weight, axis=1)
        return out

    def _has_two_scales(self, low: Array, high: Array, direction: Direction) -> bool:
        """Say whether an integral must be cut where sinh becomes an exponential.

        A Laplace law on a hyperbolic space that barely exists has one scale near the
        center and another one far out.
        """
        if direction is not Direction.ALL or self.kind != "laplace" or self.k != -1:
            return False
        knee = _SINH_IS_EXPONENTIAL - self.mode
        return bool(np.any(high > knee) and np.any(low < knee))


def _solve_m_tan_m(target: float) -> float:
    """Return the root m in (0, π/2) of m·tan m = target.

    In the form m·sin m − target·cos m it has no pole; m² <= m·tan m bounds it.
    """
    scale = max(target, 1.0)
    upper = min(math.sqrt(target), math.pi / 2)
    if upper * math.sin(upper) <= target * math.cos(upper):
        return upper  # to the last bit, as for a law that is all but uniform

    def difference(m: float) -> float:
        return (m * math.sin(m) - target * math.cos(m)) / scale

    return float(scipy.optimize.brentq(difference, 0.0, upper, xtol=1e-300))


def _solve_m_tanh_m(target: float) -> float:
    """Return the root m > 0 of m·tanh m = target.

    m·tanh m >= m²/(1+m), whose root is below target + √target.
    """
    upper = target + math.sqrt(target) + 1e-300

    def difference(m: float) -> float:
        return m * math.tanh(m) / target - 1.0

    return float(scipy.optimize.brentq(difference, 0.0, 2 * upper, xtol=1e-300))


def _hull(u: Array, log_values: Array) -> tuple[Array, Array]:
    """Return grid points around where a function is above e^-42 of its maximum."""
    is_inside = log_values >= log_values.max(axis=1, keepdims=True) - _DEPTH
    n_points = is_inside.shape[1]
    first = np.maximum(np.argmax(is_inside, axis=1) - 1, 0)
    last = np.minimum(n_points - np.argmax(is_inside[:, ::-1], axis=1), n_points - 1)
    left = np.take_along_axis(u, first[:, None], 1)
    right = np.take_along_axis(u, last[:, None], 1)
    return left, right

"""Find the smallest noise scale that provably meets a target guarantee (calibration). A
profile says how private the noise of one scale is. Its *cost* is its parameter in the
target's definition of privacy: its μ, its ρ, or its δ at the target's ε. It falls as
the scale grows.

The cost must not exceed the target's own parameter. `smallest_scale` searches for the
scale, and `meets` checks one scale.

The answer is a point of a fixed lattice: the multiples of 2^-40 of a power of two
(2^-30 for zCDP, 2^-22 on products). At this lattice point the profile, rounded to the
private side, was evaluated and meets the target; at its predecessor it was evaluated
and does not. So the answer does not depend on the course of the search, and a stricter
target never gets less noise.

The search itself evaluates cheap functions first: a lower bound on the cost
(`cost_lower_bound`), or an estimate of it by one quadrature (`cost_estimate`).
"""

import math
from collections.abc import Callable
from functools import cache, cached_property

from curvedp import _validate
from curvedp.errors import NotIntegrable, ParameterError, UnattainableGuarantee
from curvedp.privacy.guarantees.base import Guarantee
from curvedp.privacy.guarantees.definitions import GDP, ZCDP, ApproxDP, PureDP
from curvedp.privacy.profiles.base import PrivacyProfile
from curvedp.privacy.scale_cost import (
    cost_at_floor,
    cost_estimate,
    cost_lower_bound,
    exact_cost,
    log_excess,
)

# The profile of the noise at a given scale.
ProfileAt = Callable[[float], PrivacyProfile]
# log(cost/allowed cost) at a given scale: <= 0 exactly where the target is met.
Excess = Callable[[float], float]

# The fineness of the lattice of scales, in bits.
_LATTICE_BITS = 40
_LATTICE_BITS_OF_ZCDP = 30  # ρ is a supremum over orders, computed to 1e-10
_LATTICE_BITS_OF_PRODUCTS = 22  # a supremum over splits, computed to 1e-7
# A scale with an excess of −600 or less is far larger than needed: its cost is 0 in
# floats, and its excess is no help in a search for the root.
_EXCESS_FAR_BELOW_TARGET = -600
# The longest step of the secant method in log scale (a factor of e³ = 20 in the scale),
# and the largest number of its steps. It usually takes 4 to 8.
_LARGEST_STEP = 3.0
_MAX_SECANT_STEPS = 40
# If the first point is far too large, this step back halves the scale: log 2 = 0.69.
_STEP_BACK = 0.7
# The relative width of the bracket at which `_ScaleSearch._bisect` ends.
_BISECTION_WIDTH = 2.0**-38
# No scale is tried below the first or above the second of these.
_SMALLEST_SCALE = 1e-290
_LARGEST_SCALE = 1e100


def meets(profile: PrivacyProfile, target: Guarantee) -> bool:
    """Return whether a release with this privacy profile satisfies a guarantee.

    A profile for one adjacency (say, replace-one) never meets a target for the other.

    Parameters
    ----------
    profile : PrivacyProfile
        The profile of a mechanism at one noise scale.
    target : Guarantee
        The guarantee that the mechanism should satisfy.

    Returns
    -------
    bool
        True if the parameter of the profile, rounded up, is at most that of the target.
        It is the parameter of the target's definition, such as μ for GDP.

    Raises
    ------
    ParameterError
        If the arguments are not a profile and a guarantee.
    """
    has_valid_types = isinstance(profile, PrivacyProfile) and isinstance(
        target, Guarantee
    )
    if not has_valid_types:
        raise ParameterError(
            f"{_validate.shown(profile)} must be a profile and "
            f"{_validate.shown(target)} a guarantee"
        )

    if profile.adjacency != target.adjacency:
        return False
    return target.parameter_of(profile.guarantee) <= target.parameter_of(target)


def smallest_scale(
    profile_at: ProfileAt, target: Guarantee, sensitivity: float
) -> float:
    """Return the smallest noise scale at which a profile meets a target.

    The profile was evaluated at the returned scale, and it meets the target there. The
    result exceeds the smallest such scale by at most one part in 10¹² (one in 10⁹ for
    zCDP, one in 10⁶ on products of spaces). A stricter target never gets a smaller
    scale.

    Parameters
    ----------
    profile_at : callable
        The profile as a function of the noise scale; it decreases as the scale grows.
    target : Guarantee
        The guarantee that must be met.
    sensitivity : float
        The largest distance between two centers of the noise. The search starts there.

    Returns
    -------
    float
        The scale, in the units of `sensitivity`.

    Raises
    ------
    UnattainableGuarantee
        If no scale meets the target. The message names the floor.

    Examples
    --------
    >>> from curvedp.privacy import GDP, gaussian_profile
    >>> def profile_at(scale):
    ...     return gaussian_profile(0.0, 3, scale, 1.0)
    >>> round(smallest_scale(profile_at, GDP(0.5), 1.0), 6)
    2.0
    """
    if not isinstance(target, Guarantee):
        raise ParameterError(
            "must be a guarantee, such as GDP(1.0)", parameter="target", value=target
        )
    # The full check is slow, so ordinary floats skip it.
    is_ordinary = type(sensitivity) is float and 1e-100 <= sensitivity <= 1e100
    if not is_ordinary:
        sensitivity = _validate.length("sensitivity", sensitivity)
    search = _ScaleSearch(cache(profile_at), target, sensitivity)
    return search.run()


class _ScaleSearch:
    """The search for the smallest scale, in three stages: guess, refine, decide.

    The *excess* at a scale is log(cost/allowed cost): <= 0 where the target is met. A
    *lattice point* is a scale that is an integer (its index) times the step of the
    lattice.

    Parameters
    ----------
    profile_at : callable
        The profile as a function of the noise scale. It returns the same object for the
        same scale, because profiles are expensive.
    target : Guarantee
        The guarantee that must be met.
    sensitivity : float
        The largest distance between two centers of the noise. The search starts there.

    Raises
    ------
    UnattainableGuarantee
        If it is clear from the start that no scale meets the target.
    """

    def __init__(
        self, profile_at: ProfileAt, target: Guarantee, sensitivity: float
    ) -> None:
        """Find a scale at which the noise exists, and the cost that always remains.

        Parameters
        ----------
        profile_at : callable
            The profile as a function of the noise scale.
        target : Guarantee
            The guarantee that must be met.
        sensitivity : float
            The largest distance between two centers of the noise, and the first scale
            that is tried.
        """
        self.profile_at = profile_at
        self.target = target
        self.start = _scale_where_noise_exists(profile_at, target, sensitivity)
        self.profile = profile_at(self.start)
        self.floor = cost_at_floor(self.profile, target)
        # Whether an (ε, δ) target is compared by its δ instead of a μ.
        self.compares_deltas = (
            isinstance(target, ApproxDP) and self.profile.delta_vanishes_at_finite_scale
        )

    # ---- the functions of the scale

    @cached_property
    def bits(self) -> int:
        """The resolution of the search: scales differ by about 2^−bits, relative.

        The search returns a point of a lattice of scales. The lattice is as fine as the
        cost of a profile can be computed: on a product of spaces, and for zCDP, the
        cost is a supremum that is found to fewer digits.
        """
        is_product_of_spaces = len(self.profile.extreme_splits) > 1
        if is_product_of_spaces:
            return _LATTICE_BITS_OF_PRODUCTS
        if type(self.target) is ZCDP:
            return _LATTICE_BITS_OF_ZCDP
        return _LATTICE_BITS

    def _excess_function(
        self, cost_of: Callable[[PrivacyProfile, Guarantee], float]
    ) -> Excess:
        """Return a cached function that says how far a scale misses the target.

        Parameters
        ----------
        cost_of : callable
            A function of a profile and a target that returns the cost of the profile:
            its parameter in the target's definition of privacy. It may be exact, a
            lower bound, or an estimate.

        Returns
        -------
        callable
            A function from a noise scale to log(cost/allowed cost), which is <= 0 if
            the target is met. It returns infinity at a scale at which the noise does
            not exist, because its density has an infinite integral.
        """
        floor = self.floor  # the cost that remains for arbitrarily much noise

        @cache
        def excess(scale: float) -> float:
            """Return log(cost/allowed cost) at one noise scale, computed once.

            Parameters
            ----------
            scale : float
                The noise scale.

            Returns
            -------
            float
                The logarithm; infinity if the noise does not exist at this scale.
            """
            try:
                cost = cost_of(self.profile_at(scale), self.target)
            except NotIntegrable:
                return math.inf
            return log_excess(
                self.target, cost, floor, compares_deltas=self.compares_deltas
            )

        return excess

    @cached_property
    def exact_excess(self) -> Excess:
        """A function that decides whether a scale meets the target: then it is <= 0.

        At a scale it returns log(cost/allowed cost).
        """
        return self._excess_function(exact_cost)

    @cached_property
    def excess_lower_bound(self) -> Excess:
        """A cheap lower bound on `exact_excess`, or that function if there is none.

        A scale at which it is positive misses the target.
        """
        if self.bits < _LATTICE_BITS or isinstance(self.target, GDP):
            return self._excess_function(cost_lower_bound)
        return self.exact_excess

    @property
    def has_estimate(self) -> bool:
        """Whether one quadrature gives a good estimate of the cost of a profile."""
        is_estimated = isinstance(self.target, GDP | ApproxDP)
        return is_estimated and self.profile.quadrature_law is not None

    def is_met(self, index: int, step: float) -> bool:
        """Return whether the noise scale index·step meets the target.

        The cheap lower bound on the cost rules out most scales that are too small.

        Parameters
        ----------
        index : int
            The position of the scale in the lattice.
        step : float
            The distance of neighboring scales in the lattice.

        Returns
        -------
        bool
            True if the cost of the noise at this scale, rounded up, is allowed.
        """
        scale = index * step
        return self.excess_lower_bound(scale) <= 0 and self.exact_excess(scale) <= 0

    # ---- the three stages

    def run(self) -> float:
        """Return the smallest noise scale on a lattice that meets the target.

        The lattice consists of the multiples of a step: the power of two next to an
        approximate answer, times 2^−`bits`. All scales that are compared in the end are
        an integer index times this step.

        Returns
        -------
        float
            The noise scale that `smallest_scale` returns.
        """
        guess = self._approximate_scale()
        _, exponent = math.frexp(guess)
        step = math.ldexp(1.0, exponent - self.bits)

        start_index = self._confirmed_index(guess, step)
        return self._smallest_index_that_meets(start_index, step) * step

    def _approximate_scale(self) -> float:
        """Return an approximation of the smallest scale that meets the target.

        The *excess* of a scale says how far the scale misses the target; the answer is
        its root. Here the cheapest approximation of the excess is used. If the secant
        method fails, bisection finds the root.

        Returns
        -------
        float
            A noise scale near the answer; it need not meet the target.
        """
        excess = self.excess_lower_bound
        if self.has_estimate:
            excess = self._excess_function(cost_estimate)

        if self.compares_deltas:
            guess = self._secant_below_cap(excess)
        else:
            guess = self._secant(excess, self.start)
        if guess:  # the secant method converged, to a scale above 0
            return guess
        return self._bisect(self.excess_lower_bound)

    def _confirmed_index(self, guess: float, step: float) -> int:
        """Return the lattice index next to a guess, corrected if the guess is bad.

        The *excess* of a noise scale says how far it misses the target: the excess is
        <= 0 if the target is met. The guess is corrected in two cases: if it came from
        an estimate of the excess and a lower bound on the excess contradicts it; and if
        the exact excess contradicts the lower bound.

        Parameters
        ----------
        guess : float
            An approximation of the smallest scale that meets the target.
        step : float
            The step of the lattice: a scale is an index times this step.

        Returns
        -------
        int
            The index of a lattice point at or next to the smallest one that meets the
            target.
        """
        index = math.ceil(guess / step)

        # A guess from an estimate: the lower bound should be met here, and missed one
        # step below.
        if self.has_estimate:
            excess_here = self.excess_lower_bound(index * step)
            excess_below = self.excess_lower_bound((index - 1) * step)
            if not excess_here <= 0 < excess_below:
                root = self._secant(self.excess_lower_bound, index * step)
                index = math.ceil((root or guess) / step)  # None if it failed

        # Where the lower bound is met, the exact excess should be met too.
        scale = index * step
        if self.excess_lower_bound(scale) <= 0 < self.exact_excess(scale):
            root = self._secant(self.exact_excess, scale)
            index = math.ceil((root or guess) / step)
        return index

    def _smallest_index_that_meets(self, index: int, step: float) -> int:
        """Return the smallest lattice index whose noise scale meets the target.

        The stages before this one only suggest where to start. Here the target is
        verified to be met at the result, and to be missed at the index before it. So
        the result does not depend on the start, which tests/privacy/test_calibrate.py
        checks. From the start the search goes up and down in steps that double, and
        then bisects.

        Parameters
        ----------
        index : int
            The lattice index at which the search starts.
        step : float
            The step of the lattice: a scale is an index times this step.

        Returns
        -------
        int
            The index; index·step is the noise scale.

        Raises
        ------
        UnattainableGuarantee
            If the noise ceases to exist before the target is met.
        """
        # Go up until the target is met.
        low = index
        high = index
        jump = 1
        while not self.is_met(high, step):
            noise_exists = math.isfinite(self.excess_lower_bound(high * step))
            if not noise_exists:
                raise _unattainable(self.profile, self.target)
            low, high = high, high + jump
            jump *= 2

        # Go down until the target is missed.
        jump = 1
        while low == high or (low > 0 and self.is_met(low, step)):
            low, high = max(low - jump, 0), low
            jump *= 2

        # Bisect: the target is met at `high` and missed at `low`.
        while high - low > 1:
            middle = (low + high) // 2
            if self.is_met(middle, step):
                high = middle
            else:
                low = middle
        return high

    # ---- root searches

    def _secant(self, excess: Excess, start: float) -> float | None:
        """Return the scale at which an excess is 0, by the secant method.

        The excess says how far a scale misses the target. It is nearly linear in the
        logarithm of the scale, with the slope −`target.scale_exponent`.

        Parameters
        ----------
        excess : callable
            The excess as a function of the noise scale.
        start : float
            The scale at which the search starts.

        Returns
        -------
        float or None
            The scale, or None if the method does not converge.
        """
        log_scale = secant_root(
            function=lambda log_scale: excess(math.exp(log_scale)),
            x=math.log(start),
            slope=-self.target.scale_exponent,
            bits=self.bits,
        )
        return None if log_scale is None else math.exp(log_scale)

    def _secant_below_cap(self, excess: Excess) -> float | None:
        """Return the scale at which an excess is 0, for Laplace noise and (ε, δ).

        The excess says how far a scale misses the target. For Laplace noise of
        sensitivity Δ, δ(ε) is 0 at all scales from Δ/ε (the cap) on. Therefore the
        secant method is applied to the variable x = −log(Δ/(ε·scale) − 1), which is
        infinite at the cap. Towards the cap, log δ is nearly linear in x, with the
        slope −(d+1)/2 in dimension d.

        Parameters
        ----------
        excess : callable
            A function of the noise scale: how far the mechanism misses the target,
            as a difference of logarithms. It decreases with the scale.

        Returns
        -------
        float or None
            The scale, or None if the method does not converge.
        """
        profile, target = self.profile, self.target
        assert isinstance(target, ApproxDP)
        power = (profile.dim + 1) / 2  # type: ignore[attr-defined]
        cap = profile.sensitivity / target.eps  # type: ignore[attr-defined]

        def scale_at(x: float) -> float:
            """Return the scale that belongs to the variable x."""
            return float(cap / (1 + math.exp(-x)))

        # Start where the linear approximation is 0.
        first_x = math.log(target.eps) - math.log(target.delta0) / power
        x = secant_root(
            function=lambda x: excess(scale_at(x)),
            x=first_x,
            slope=-power,
            bits=self.bits,
        )
        return None if x is None else scale_at(x)

    def _bisect(self, excess: Excess) -> float:
        """Return the scale at which an excess changes its sign, by bisection.

        It is used if the secant method fails. That happens if the excess jumps, or if
        the noise exists up to some scale only. At every step the scale `low` misses the
        target; the scale `high` meets it, or its excess is infinite.

        Parameters
        ----------
        excess : callable
            A function of the noise scale. It is positive if the mechanism misses the
            target at that scale, and infinite if its cost is infinite or if the noise
            does not exist.

        Returns
        -------
        float
            A noise scale that meets the target, at most 2^-38 of itself above one that
            does not.

        Raises
        ------
        ParameterError
            If every scale meets the target.
        UnattainableGuarantee
            If no scale does.
        """
        # Enclose the sign change.
        low = self.start
        high = self.start
        while excess(low) <= 0:
            low /= 2
            if low < _SMALLEST_SCALE:
                raise ParameterError(
                    f"{self.target!r} is met by every scale down to {low:g}"
                )

        # Double until the target is met, or the noise ceases to exist.
        while 0 < excess(high) < math.inf and high < _LARGEST_SCALE:
            low, high = high, high * 2

        # At `high` the target is met, or the excess is infinite.
        while high > low * (1 + _BISECTION_WIDTH):
            middle = math.sqrt(low) * math.sqrt(high)
            value = excess(middle)
            # Below the start an infinite excess means that the cost is infinite. Above
            # it, it means that the noise does not exist.
            is_missed = value > 0 and (value < math.inf or middle < self.start)
            if is_missed:
                low = middle
            else:
                high = middle

        # The target is met at `high`, or at no scale.
        if excess(high) > 0:
            raise _unattainable(self.profile_at(low), self.target)
        return high


def secant_root(function: Excess, x: float, slope: float, bits: int) -> float | None:
    """Return a root of a decreasing function by the secant method; None if it fails.

    The step from a point x is −f(x)/slope, with the slope of the line through the last
    two points. There are three precautions:

    - A step is at most 3 long.
    - If f(x) <= −600 (`_EXCESS_FAR_BELOW_TARGET`), x is far too large: f is the
      logarithm of a cost that is 0 there, and its value says nothing about the root.
      The search goes halfway back to the last good point, and never passes x again.
    - An infinite f(x) ends the search without a result.

    A wrong root is harmless: the caller only starts from it.

    Parameters
    ----------
    function : callable
        The decreasing function f, such as the excess as a function of the log scale.
    x : float
        The point at which the search starts.
    slope : float
        The slope of the first step, negative.
    bits : int
        The search ends if the error of the next point would be below 2^−bits. By the
        theory of the secant method, that error is about the product of the last two
        steps.

    Returns
    -------
    float or None
        The root; None if f became infinite or 40 steps were not enough.
    """
    value = function(x)
    previous_step = 1.0
    last_good_x = math.nan
    smallest_x_too_large = math.inf
    for _ in range(_MAX_SECANT_STEPS):
        if math.isinf(value):
            return None

        # Far too large: go back, and look again from there.
        if value <= _EXCESS_FAR_BELOW_TARGET:
            smallest_x_too_large = min(x, smallest_x_too_large)
            x = _point_further_back(x, last_good_x)
            value = function(x)
            continue

        # A secant step, which stays below every x that was too large.
        step = min(max(-value / slope, -_LARGEST_STEP), _LARGEST_STEP)
        if x + step >= smallest_x_too_large:
            step = (smallest_x_too_large - x) / 2
        if abs(step * previous_step) < 2.0**-bits:
            return x + step

        # The slope of the next step, from this point and the next one.
        next_value = function(x + step)
        is_usable = _EXCESS_FAR_BELOW_TARGET < next_value < math.inf
        is_decreasing = (next_value - value) * step < 0
        if is_usable and is_decreasing:
            slope = (next_value - value) / step

        last_good_x = x
        previous_step = step
        x = x + step
        value = next_value
    return None


def _point_further_back(x: float, last_good_x: float) -> float:
    """Return where `secant_root` goes on after a point that is far too large.

    At such a point the cost of the noise is 0 in floats, and says nothing about the
    root.

    Parameters
    ----------
    x : float
        The point.
    last_good_x : float
        The last point that was not too large; NaN if there was none.

    Returns
    -------
    float
        Halfway between the two, or one step before x.
    """
    if math.isnan(last_good_x):
        return x - _STEP_BACK
    return (x + last_good_x) / 2


# ---- where a search can start, and the error if no search can succeed


def _scale_where_noise_exists(
    profile_at: ProfileAt, target: Guarantee, scale: float
) -> float:
    """Return a scale at which the noise exists, to start a search there.

    The given scale is halved until its noise exists: Laplace noise on a hyperbolic
    space exists at small scales only, where its density has a finite integral.

    Parameters
    ----------
    profile_at : callable
        The profile as a function of the noise scale.
    target : Guarantee
        The guarantee that must be met.
    scale : float
        The first scale that is tried.

    Returns
    -------
    float
        The given scale divided by a power of two.

    Raises
    ------
    UnattainableGuarantee
        If no scale can meet the target: because the target is pure DP and the privacy
        loss unbounded, or because the cost that always remains exceeds the target.
    """
    while True:
        try:
            _refuse_if_unattainable(profile_at(scale), target)
        except NotIntegrable:  # the noise does not exist at this scale
            scale /= 2
        else:
            return scale


def _refuse_if_unattainable(profile: PrivacyProfile, target: Guarantee) -> None:
    """Raise an error if it is clear beforehand that no noise scale meets a target.

    Parameters
    ----------
    profile : PrivacyProfile
        The privacy profile of the noise at any scale.
    target : Guarantee
        The guarantee that must be met.

    Raises
    ------
    UnattainableGuarantee
        If the target is pure DP and the privacy loss is unbounded, or if the cost that
        remains for arbitrarily much noise exceeds the target.
    """
    if isinstance(target, PureDP) and math.isinf(profile.pure_epsilon):
        raise _unattainable(profile, target)
    if profile.floor is not None:
        allowed_cost = target.parameter_of(target)
        if not cost_at_floor(profile, target) < allowed_cost:
            raise _unattainable(profile, target)


def _unattainable(profile: PrivacyProfile, target: Guarantee) -> UnattainableGuarantee:
    """Build the error that says why no scale meets a target, and what to use instead.

    Parameters
    ----------
    profile : PrivacyProfile
        The privacy profile at some scale. It names the noise, the space, and the
        privacy loss that always remains.
    target : Guarantee
        The guarantee that no scale meets.

    Returns
    -------
    UnattainableGuarantee
        The error, for the caller to raise.
    """
    # Name the noise, the target and the mechanism to use instead.
    noise = f"the Riemannian {profile.noise_name} on {profile.space}"
    fields = target.to_dict().values()
    numbers = [f"{value:g}" for value in fields if isinstance(value, float)]
    target_name = f"{type(target).__name__}({', '.join(numbers)})"
    is_pure = isinstance(target, PureDP)
    alternative = "tangent-laplace" if is_pure else "tangent-gaussian"

    # Say why: an unbounded loss, a floor, or no scale that is large enough.
    if is_pure and math.isinf(profile.pure_epsilon):
        return UnattainableGuarantee(
            f"{target_name} is not met by {noise}: its loss is unbounded; "
            "use the mechanism tangent-laplace"
        )
    if profile.floor is not None:
        floor = cost_at_floor(profile, target)
        sensitivity = profile.sensitivity  # type: ignore[attr-defined]
        return UnattainableGuarantee(
            f"{target_name} is below the floor {target.symbol}={floor:.4g} of {noise} "
            f"at sensitivity {sensitivity!r}; use the mechanism {alternative}"
        )
    return UnattainableGuarantee(
        f"{target_name} is not met by {noise} at any scale; "
        f"use the mechanism {alternative}"
    )

"""The smallest noise that provably meets a target, in any definition of privacy.

The scale is searched on a fixed lattice: multiples of 2^-40 of a power of two (2^-30
for zCDP, 2^-22 on products). What is returned is a lattice point at which the profile,
rounded to the private side, was *seen* to meet the target, and whose predecessor was
seen to miss it. So the answer does not depend on how the search went, and a stricter
target never gets less noise.

The search itself evaluates what is cheap: a lower bound on what a profile spends
(`_spent_lower_bound`), or an estimate of it by one quadrature (`_spent_estimate`).
"""

import math
from collections.abc import Callable
from functools import cache, cached_property

import numpy as np
import scipy

from curvedp import _validate
from curvedp.errors import NotIntegrable, ParameterError, UnattainableGuarantee
from curvedp.numerics.directed_rounding import round_up
from curvedp.privacy.guarantees.base import Guarantee
from curvedp.privacy.guarantees.definitions import GDP, ZCDP, ApproxDP, PureDP
from curvedp.privacy.guarantees.gaussian import gdp_mu_below
from curvedp.privacy.profiles.base import RELATIVE_ERROR, PrivacyProfile

ProfileAt = Callable[[float], PrivacyProfile]
# From a scale to log(spent/allowed): <= 0 exactly where the target is met.
Excess = Callable[[float], float]

_LATTICE_BITS = 40
_LATTICE_BITS_OF_ZCDP = 30  # ρ is a supremum over orders, found to 1e-10
_LATTICE_BITS_OF_PRODUCTS = 22  # a supremum over splits, found to 1e-7
# Orders at which a lower bound on ρ is taken; the largest D_α/α is mostly at order 1.
_RHO_ORDERS = (1.0, 2.0, 8.0, 64.0)
# The excess that stands for "spends nothing at all".
_NOTHING_SPENT = -700.0
_LARGEST_STEP = 3.0  # of the secant method, in log scale
_SMALLEST_SCALE = 1e-290
_LARGEST_SCALE = 1e100


def meets(profile: PrivacyProfile, target: Guarantee) -> bool:
    """Say whether every release with this profile satisfies the target."""
    if not isinstance(profile, PrivacyProfile) or not isinstance(target, Guarantee):
        raise ParameterError(
            f"{_validate.shown(profile)} must be a profile and "
            f"{_validate.shown(target)} a guarantee"
        )
    if profile.adjacency != target.adjacency:
        return False
    return target.parameter_of(profile) <= target.parameter_of(target)


def smallest_scale(
    profile_at: ProfileAt, target: Guarantee, sensitivity: float
) -> float:
    """Return the smallest scale at which a noise law meets a target.

    `meets(profile_at(scale), target)` was true as evaluated. The scale is found to one
    part in 10¹² (10⁹ for zCDP, 10⁶ on products), and grows with the strictness of the
    target.

    Parameters
    ----------
    profile_at : callable
        From a scale to a profile, which falls as the scale grows.
    target : Guarantee
        What is to be met.
    sensitivity : float
        From which the search starts.

    Raises
    ------
    UnattainableGuarantee
        Where no scale meets the target, with the floor.

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
    is_plain = type(sensitivity) is float and 1e-100 <= sensitivity <= 1e100
    if not is_plain:
        sensitivity = _validate.length("sensitivity", sensitivity)
    return _Search(cache(profile_at), target, sensitivity).run()


class _Search:
    """The search of `smallest_scale`, in three stages: guess, lattice, decide.

    Parameters
    ----------
    profile_at, target, sensitivity
        As of `smallest_scale`; profiles are cached.
    """

    def __init__(
        self, profile_at: ProfileAt, target: Guarantee, sensitivity: float
    ) -> None:
        """Find where to start, and what no scale goes below."""
        self.profile_at = profile_at
        self.target = target
        self.start = _scale_where_law_exists(profile_at, target, sensitivity)
        self.profile = profile_at(self.start)
        self.floor = _spent_at_floor(self.profile, target)
        self.uses_delta = (
            isinstance(target, ApproxDP) and self.profile.delta_vanishes_at_finite_scale
        )

    # ---- what is evaluated

    @cached_property
    def bits(self) -> int:
        """The fineness of the lattice."""
        if len(self.profile.extreme_splits) > 1:
            return _LATTICE_BITS_OF_PRODUCTS
        if type(self.target) is ZCDP:
            return _LATTICE_BITS_OF_ZCDP
        return _LATTICE_BITS

    def _excess_of(
        self, spent_by: Callable[[PrivacyProfile, Guarantee], float]
    ) -> Excess:
        """Return the excess as a function of the scale, by one measure of spending.

        It is +inf where the law does not exist any more.
        """

        @cache
        def excess(scale: float) -> float:
            """Return log(spent/allowed) at a scale, computed once."""
            try:
                spent = spent_by(self.profile_at(scale), self.target)
            except NotIntegrable:
                return math.inf
            return log_excess(self.target, spent, self.floor, by_delta=self.uses_delta)

        return excess

    @cached_property
    def exact_excess(self) -> Excess:
        """The excess that decides."""
        return self._excess_of(_spent)

    @cached_property
    def cheap_excess(self) -> Excess:
        """A lower bound on the excess, where there is a cheaper one."""
        if self.bits < _LATTICE_BITS or isinstance(self.target, GDP):
            return self._excess_of(_spent_lower_bound)
        return self.exact_excess

    @property
    def has_estimate(self) -> bool:
        """Whether one quadrature says nearly what is spent."""
        is_estimated = isinstance(self.target, GDP | ApproxDP)
        return is_estimated and self.profile.quadrature_law is not None

    def is_met(self, index: int, step: float) -> bool:
        """Say whether the lattice point index·step meets the target, as evaluated."""
        scale = index * step
        return self.cheap_excess(scale) <= 0 and self.exact_excess(scale) <= 0

    # ---- the three stages

    def run(self) -> float:
        """Return the smallest lattice point that meets the target."""
        guess = self._guess()
        step = math.ldexp(1.0, math.frexp(guess)[1] - self.bits)
        index = self._refined_index(guess, step)
        return self._first_index_that_meets(index, step) * step

    def _guess(self) -> float:
        """Return about the scale, from the cheapest measure that leads anywhere."""
        excess = self.cheap_excess
        if self.has_estimate:
            excess = self._excess_of(_spent_estimate)
        if self.uses_delta:
            guess = self._secant_before_cap(excess)
        else:
            guess = self._secant(excess, self.start)
        return guess or self._bisect(self.cheap_excess)

    def _refined_index(self, guess: float, step: float) -> int:
        """Return the lattice index of the guess, corrected where it is off.

        First by the lower bound, if the estimate misled; then by the whole cost, if it
        exceeds the lower bound.
        """
        cheap, exact = self.cheap_excess, self.exact_excess
        index = math.ceil(guess / step)
        if self.has_estimate:
            estimate_is_right = cheap(index * step) <= 0 < cheap((index - 1) * step)
            if not estimate_is_right:
                corrected = self._secant(cheap, index * step) or guess
                index = math.ceil(corrected / step)
        if cheap(index * step) <= 0 < exact(index * step):
            corrected = self._secant(exact, index * step) or guess
            index = math.ceil(corrected / step)
        return index

    def _first_index_that_meets(self, index: int, step: float) -> int:
        """Return the smallest lattice index that meets the target.

        This is the only step that decides: its predecessor was seen to miss the target.
        It goes away by doubling jumps and comes back by halving.
        """
        low = index
        high = index
        jump = 1
        while not self.is_met(high, step):
            if math.isinf(self.cheap_excess(high * step)):  # the law has ended
                raise _unattainable(self.profile, self.target)
            low, high = high, high + jump
            jump *= 2

        jump = 1
        while low == high or (low > 0 and self.is_met(low, step)):
            low, high = max(low - jump, 0), low
            jump *= 2

        while high - low > 1:
            middle = (low + high) // 2
            if self.is_met(middle, step):
                high = middle
            else:
                low = middle
        return high

    # ---- root searches

    def _secant(self, excess: Excess, start: float) -> float | None:
        """Return the root of the excess by the secant method; None if it wanders off.

        The excess is nearly linear in log scale, with the slope −scale_exponent.
        """
        x = secant_root(
            lambda x: excess(math.exp(x)),
            math.log(start),
            -self.target.scale_exponent,
            self.bits,
        )
        return None if x is None else math.exp(x)

    def _secant_before_cap(self, excess: Excess) -> float | None:
        """Return the root for Laplace noise, whose δ(ε) is 0 from the scale Δ/ε on.

        The variable is x = −log(Δ/(ε·scale) − 1): towards the cap δ falls like the
        power (d+1)/2 of what is left of the loss, ε·e^{−x}.
        """
        profile, target = self.profile, self.target
        assert isinstance(target, ApproxDP)
        power = (profile.dim + 1) / 2  # type: ignore[attr-defined]
        cap = profile.sensitivity / target.eps  # type: ignore[attr-defined]

        def scale_at(x: float) -> float:
            return float(cap / (1 + math.exp(-x)))

        start = math.log(target.eps) - math.log(target.delta0) / power
        x = secant_root(lambda x: excess(scale_at(x)), start, -power, self.bits)
        return None if x is None else scale_at(x)

    def _bisect(self, excess: Excess) -> float:
        """Return the root by bisection, for costs that jump or laws that end."""
        low = self.start
        high = self.start
        while excess(low) <= 0:
            low /= 2
            if low < _SMALLEST_SCALE:
                raise ParameterError(
                    f"{self.target!r} is met by every scale down to {low:g}"
                )
        while 0 < excess(high) < math.inf and high < _LARGEST_SCALE:
            low, high = high, high * 2

        # +inf at `high`: the law has ended, or the target is out of reach.
        while high > low * (1 + 2.0**-38):
            middle = math.sqrt(low) * math.sqrt(high)
            value = excess(middle)
            # +inf below the start is a cost; +inf above it is the end of the law.
            is_missed = value > 0 and (value < math.inf or middle < self.start)
            if is_missed:
                low = middle
            else:
                high = middle
        if excess(high) > 0:
            raise _unattainable(self.profile_at(low), self.target)
        return high


def secant_root(function: Excess, x: float, slope: float, bits: int) -> float | None:
    """Return a root of a decreasing function by the secant method; None if not found.

    Parameters
    ----------
    function : callable
        Values of −600 or less say that δ is 0, beyond the cap of the loss: the search
        comes back and stays below. +inf ends it.
    x, slope : float
        Where it starts, and the slope of the first step.
    bits : int
        It ends where the error of the next point would be below 2^-bits.
    """
    value = function(x)
    previous_step = 1.0
    last_good = math.nan
    beyond_cap = math.inf
    for _ in range(40):
        if math.isinf(value):
            return None
        if value <= -600:
            beyond_cap = min(x, beyond_cap)
            x = (x + last_good) / 2 if math.isfinite(last_good) else x - 0.7
            value = function(x)
            continue

        step = min(max(-value / slope, -_LARGEST_STEP), _LARGEST_STEP)
        if x + step >= beyond_cap:
            step = (beyond_cap - x) / 2
        if abs(step * previous_step) < 2.0**-bits:
            return x + step

        next_value = function(x + step)
        is_usable = -600 < next_value < math.inf
        if is_usable and (next_value - value) * step < 0:
            slope = (next_value - value) / step
        last_good = x
        previous_step = step
        x = x + step
        value = next_value
    return None


# ---- what a profile spends, in the target's own definition


def _spent(profile: PrivacyProfile, target: Guarantee) -> float:
    """Return what the profile spends, rounded up: the number that decides."""
    return target.parameter_of(profile)


def _spent_lower_bound(profile: PrivacyProfile, target: Guarantee) -> float:
    """Return at most what `_spent` says, quickly.

    On products over the extreme splits only; for zCDP at a few orders, for GDP over the
    table of the loss without its tail. The rounding is that of `_spent`.
    """
    splits = profile.extreme_splits
    if len(splits) > 1:
        return max(_spent_lower_bound(split, target) for split in splits)
    if isinstance(target, ZCDP):
        ratios = [profile.renyi(order) / order for order in _RHO_ORDERS]
        return float(round_up(max(ratios), RELATIVE_ERROR))
    if isinstance(target, GDP) and profile.tabulated_mu is not None:
        return float(round_up(profile.tabulated_mu, 2 * RELATIVE_ERROR))
    return _spent(profile, target)


def _spent_estimate(profile: PrivacyProfile, target: Guarantee) -> float:
    """Return mostly what `_spent_lower_bound` says, by one integral instead of a table.

    The largest μ_ε is mostly the one at ε = 0, where P₁(L <= 0) = Φ(−μ/2), since an
    isometry swaps the pair.
    """
    law = profile.quadrature_law
    assert law is not None
    if isinstance(target, GDP):
        _, log_lower = law.log_tails(np.zeros(1))
        mu = -2 * float(scipy.special.ndtri_exp(log_lower[0]))
        return float(round_up(mu, 2 * RELATIVE_ERROR))
    assert isinstance(target, ApproxDP)  # no other target is estimated
    return float(round_up(law.delta(target.eps), RELATIVE_ERROR))


def _spent_at_floor(profile: PrivacyProfile, target: Guarantee) -> float:
    """Return what no scale goes below: 0 unless the profile has a floor."""
    if profile.floor is None:
        return 0.0
    return _spent(profile.floor, target)


def log_excess(
    target: Guarantee, spent: float, floor: float, by_delta: bool = False
) -> float:
    """Return log((spent − floor)/(allowed − floor)), nearly linear in log scale.

    It has the sign of spent − allowed, whatever the rounding. For (ε, δ) the three
    numbers are first turned into about the μ of equal δ(ε), unless `by_delta`.
    """
    allowed = target.parameter_of(target)
    if not spent >= 0:
        raise ParameterError(
            f"{target!r} lies beyond what doubles resolve: "
            f"its cost came out as {spent!r}"
        )
    is_met = spent <= allowed
    if isinstance(target, ApproxDP) and not by_delta:
        logs = [
            math.log(min(delta, 1 - 2.0**-53)) if delta > 0 else -1e300
            for delta in (spent, allowed, floor)
        ]
        spent, allowed, floor = gdp_mu_below(target.eps, np.array(logs)).tolist()

    if math.isinf(spent):
        return math.inf
    if spent <= floor < allowed:
        return _NOTHING_SPENT
    if allowed > floor:
        value = math.log((spent - floor) / (allowed - floor))
    else:
        value = math.log(spent / allowed)
    return min(value, 0.0) if is_met else max(value, 1e-16)


# ---- where a search can start, and what is said where none can succeed


def _scale_where_law_exists(
    profile_at: ProfileAt, target: Guarantee, scale: float
) -> float:
    """Return a scale at which the law exists, by halving.

    Raises `UnattainableGuarantee` here already if no scale can meet the target: the
    loss is unbounded and the target pure, or the floor is above it.
    """
    while True:
        try:
            profile = profile_at(scale)
            if isinstance(target, PureDP) and math.isinf(profile.pure_epsilon):
                raise _unattainable(profile, target)
            if profile.floor is not None:
                allowed = target.parameter_of(target)
                if not _spent_at_floor(profile, target) < allowed:
                    raise _unattainable(profile, target)
            return scale
        except NotIntegrable:
            scale /= 2


def _unattainable(profile: PrivacyProfile, target: Guarantee) -> UnattainableGuarantee:
    """Return the error that says why no scale meets the target, and what would."""
    noise = f"the Riemannian {profile.noise_name} on {profile.space}"
    numbers = [f"{v:g}" for v in target.to_dict().values() if isinstance(v, float)]
    name = f"{type(target).__name__}({', '.join(numbers)})"
    is_pure = isinstance(target, PureDP)
    alternative = "tangent-laplace" if is_pure else "tangent-gaussian"

    if is_pure and math.isinf(profile.pure_epsilon):
        return UnattainableGuarantee(
            f"{name} is not met by {noise}: its loss is unbounded; "
            "use the mechanism tangent-laplace"
        )
    if profile.floor is not None:
        floor = _spent_at_floor(profile, target)
        sensitivity = profile.sensitivity  # type: ignore[attr-defined]
        return UnattainableGuarantee(
            f"{name} is below the floor {target.symbol}={floor:.4g} of {noise} at "
            f"sensitivity {sensitivity!r}; use the mechanism {alternative}"
        )
    return UnattainableGuarantee(
        f"{name} is not met by {noise} at any scale; use the mechanism {alternative}"
    )

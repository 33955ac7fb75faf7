"""The smallest noise that provably meets a target, in any definition of privacy.

The scale is searched on a fixed lattice (multiples of 2^-40 of a power of two, 2^-30 for zCDP, 2^-22 on products). What
is returned is a lattice point at which the profile, rounded to the private side, was seen to meet the target and whose
predecessor was seen to miss it: so the answer does not depend on how the search went, and a stricter target never gets
less noise. The search itself looks at what is cheap: `_sketched`, and `_least_cost`, which never exceeds what is spent.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy

from curvedp import _validate
from curvedp.errors import NotIntegrable, ParameterError, UnattainableGuarantee
from curvedp.numerics.directed_rounding import round_up
from curvedp.privacy.guarantees.base import Guarantee
from curvedp.privacy.guarantees.definitions import GDP, ZCDP, ApproxDP, PureDP
from curvedp.privacy.guarantees.gaussian import gdp_mu_below
from curvedp.privacy.profiles.base import RELATIVE_ERROR, PrivacyProfile
from curvedp.privacy.profiles.constant_curvature import RadialProfile

_BITS = 40
_BITS_OF: dict[type, int] = {ZCDP: 30}  # ρ is a supremum over orders, found to 1e-10
_BITS_OF_PRODUCTS = 22  # a supremum over splits, found to 1e-7
_ORDERS = (1.0, 2.0, 8.0, 64.0)  # the largest ρ is mostly at order 1


def meets(profile: PrivacyProfile, target: Guarantee) -> bool:
    """Whether every release with this profile satisfies the target."""
    if not isinstance(profile, PrivacyProfile) or not isinstance(target, Guarantee):
        raise ParameterError(
            f"{_validate.shown(profile)} must be a profile and {_validate.shown(target)} a guarantee"
        )
    if not profile.certain:  # a confidence bound vouches for itself and nothing else
        return profile == target
    spent, allowed = _cost(profile, target)
    return profile.adjacency == target.adjacency and spent <= allowed


def smallest_scale(
    profile_at: Callable[[float], PrivacyProfile], target: Guarantee, sensitivity: float
) -> float:
    """The smallest scale s (to one part in 10¹², 10⁹ for zCDP, 10⁶ on products) at which `profile_at(s)` meets the target.

    *Guarantees*: `meets(profile_at(s), target)` was true as evaluated; growing in the strictness of the target. Raises
    `UnattainableGuarantee` where no scale does, with the floor.

    Parameters
    ----------
    profile_at, target : callable, Guarantee
        Scale to profile, and what is to be met.
    sensitivity : float
        From which the search starts.

    Examples
    --------
    >>> from curvedp.privacy import GDP, gaussian_profile
    >>> round(smallest_scale(lambda s: gaussian_profile(0.0, 3, s, 1.0), GDP(0.5), 1.0), 6)
    2.0
    """
    if not isinstance(target, Guarantee):
        raise ParameterError(
            "must be a guarantee, such as GDP(1.0)", parameter="target", value=target
        )
    plain = type(sensitivity) is float and 1e-100 <= sensitivity <= 1e100
    profile_at = cache(profile_at)
    start = _inside(
        profile_at,
        target,
        sensitivity if plain else _validate.length("sensitivity", sensitivity),
    )
    floor, capped = (
        _floor_cost(profile_at(start), target),
        _capped(profile_at(start), target),
    )
    bits = (
        _BITS_OF_PRODUCTS
        if len(profile_at(start).corners) > 1
        else _BITS_OF.get(type(target), _BITS)
    )

    def memory(
        cost: Callable[[PrivacyProfile, Guarantee], tuple[float, float]],
    ) -> Callable[[float], float]:
        @cache
        def excess(scale: float) -> float:
            """<= 0 exactly where the target is met; +inf where the law does not exist any more."""
            try:
                return _excess(
                    target, *cost(profile_at(scale), target), floor, by_delta=capped
                )
            except NotIntegrable:
                return math.inf

        return excess

    excess, power = memory(_cost), target.scale_power
    rough = memory(_least_cost) if bits < _BITS or isinstance(target, GDP) else excess

    def met(scale: float) -> bool:
        return rough(scale) <= 0 and excess(scale) <= 0

    sketched = (
        isinstance(target, GDP | ApproxDP) and profile_at(start).sketched is not None
    )
    about = memory(_sketched) if sketched else rough
    near = (
        _before_cap(about, profile_at(start), target, bits)
        if capped
        else _secant(about, start, power, bits)
    )
    guess = near or _bisect(rough, start, profile_at, target)
    step = math.ldexp(1.0, math.frexp(guess)[1] - bits)
    high = math.ceil(guess / step)
    if sketched and not rough(high * step) <= 0 < rough(
        (high - 1) * step
    ):  # the sketch is off: search on, without it
        high = math.ceil((_secant(rough, high * step, power, bits) or guess) / step)
    if (
        rough(high * step) <= 0 < excess(high * step)
    ):  # the whole cost exceeds the cheap one: search on, with it
        high = math.ceil((_secant(excess, high * step, power, bits) or guess) / step)
    # the lattice point that meets the target while its predecessor misses it: away by doubling steps, back by halving
    low, jump = high, 1
    while not met(high * step):
        if math.isinf(rough(high * step)):  # the law has ended
            raise _unattainable(profile_at(start), target)
        low, high, jump = high, high + jump, 2 * jump
    jump = 1
    while low == high or (low > 0 and met(low * step)):
        low, high, jump = max(low - jump, 0), low, 2 * jump
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if met(middle * step) else (middle, high)
    return high * step


def _cost(profile: PrivacyProfile, target: Guarantee) -> tuple[float, float]:
    """(what the profile spends, what the target allows), in the target's own definition."""
    if not profile.certain:
        raise ParameterError(
            f"nothing is calibrated to a {profile.label}; use the mechanism "
            "log-gaussian"
        )
    return target.measure(profile), target.measure(target)


def _least_cost(profile: PrivacyProfile, target: Guarantee) -> tuple[float, float]:
    """At most what `_cost` says, and soon: over a few pairs of neighbors, and a few orders."""
    if len(profile.corners) > 1:
        return max(_least_cost(corner, target) for corner in profile.corners)
    if isinstance(target, ZCDP):
        return round_up(
            max(profile.renyi(order) / order for order in _ORDERS), RELATIVE_ERROR
        ), target.rho  # as `rho` does
    if (
        isinstance(target, GDP)
        and isinstance(profile, RadialProfile)
        and not profile.closed
    ):
        return round_up(
            profile._mu_in_table, 2 * RELATIVE_ERROR
        ), target.mu  # as `mu` does, without what is beyond the table
    return _cost(profile, target)


def _sketched(profile: PrivacyProfile, target: Guarantee) -> tuple[float, float]:
    """What `_least_cost` says, mostly to a dozen digits, by one integral instead of a table: the largest μ is mostly that at
    ε = 0, where P₁(L <= 0) = Φ(−μ/2) since an isometry swaps the pair."""
    law: Any = profile.sketched
    if isinstance(target, GDP):
        spent = -2 * float(scipy.special.ndtri_exp(law.log_tails(np.zeros(1))[1][0]))
        return round_up(spent, 2 * RELATIVE_ERROR), target.mu
    assert isinstance(target, ApproxDP)  # no other is sketched
    return round_up(law.delta(target.eps), RELATIVE_ERROR), target.delta0


def _floor_cost(profile: PrivacyProfile, target: Guarantee) -> float:
    """What no scale goes below."""
    return _cost(profile.floor, target)[0] if profile.floor is not None else 0.0


def _excess(
    target: Guarantee,
    spent: float,
    allowed: float,
    floor: float,
    by_delta: bool = False,
) -> float:
    """log((spent − floor)/(allowed − floor)), nearly linear in log scale; (ε, δ) in terms of about the μ of equal δ(ε), or
    `by_delta` itself. Of the sign of spent − allowed, whatever the rounding."""
    if not spent >= 0:
        raise ParameterError(
            f"{target!r} lies beyond what doubles resolve: its cost came out as {spent!r}"
        )
    met = spent <= allowed
    if isinstance(target, ApproxDP) and not by_delta:
        logs = [
            math.log(min(delta, 1 - 2.0**-53)) if delta > 0 else -1e300
            for delta in (spent, allowed, floor)
        ]
        spent, allowed, floor = gdp_mu_below(target.eps, np.array(logs)).tolist()
    if math.isinf(spent):
        return math.inf
    if spent <= floor < allowed:
        return -700.0
    value = (
        math.log((spent - floor) / (allowed - floor))
        if allowed > floor
        else math.log(spent / allowed)
    )
    return min(value, 0.0) if met else max(value, 1e-16)


def _inside(
    profile_at: Callable[[float], PrivacyProfile], target: Guarantee, start: float
) -> float:
    """A scale at which the law exists; raises here if no scale can meet the target."""
    while True:
        try:
            profile = profile_at(start)
            unbounded = isinstance(target, PureDP) and math.isinf(profile.pure_epsilon)
            if unbounded or (
                profile.floor is not None
                and not _floor_cost(profile, target) < target.measure(target)
            ):
                raise _unattainable(profile, target)
            return start
        except NotIntegrable:
            start /= 2


def _capped(profile: PrivacyProfile, target: Guarantee) -> bool:
    """Whether δ(ε) falls to 0 before the scale is infinite, at Δ/ε: under Laplace noise."""
    return (
        isinstance(target, ApproxDP)
        and isinstance(profile, RadialProfile)
        and profile.kind == "laplace"
    )


def _before_cap(
    excess: Callable[[float], float], profile: Any, target: Any, bits: int
) -> float | None:
    """The secant method on log δ against x = −log(Δ/(ε·scale) − 1): towards the cap δ falls like the power (d + 1)/2 of what
    is left of the loss, ε·e^{−x}; None if it wanders off."""
    power = (profile.dim + 1) / 2

    def scale(x: float) -> float:
        return float(profile.sensitivity / target.eps / (1 + math.exp(-x)))

    x = _root(
        lambda x: excess(scale(x)),
        math.log(target.eps) - math.log(target.delta0) / power,
        -power,
        bits,
    )
    return None if x is None else scale(x)


def _secant(
    excess: Callable[[float], float], start: float, power: float, bits: int
) -> float | None:
    """The secant method on log cost against log scale, nearly a line of slope −power; None if it wanders off."""
    x = _root(lambda x: excess(math.exp(x)), math.log(start), -power, bits)
    return None if x is None else math.exp(x)


def _root(
    at: Callable[[float], float], x: float, slope: float, bits: int
) -> float | None:
    y, last, good, beyond = at(x), 1.0, math.nan, math.inf
    for _ in range(40):
        if math.isinf(y):
            return None
        if y <= -600:  # δ = 0: beyond the cap of the loss; come back, and stay
            beyond = min(x, beyond)
            x = (x + good) / 2 if math.isfinite(good) else x - 0.7
            y = at(x)
            continue
        step = min(max(-y / slope, -3.0), 3.0)
        if x + step >= beyond:
            step = (beyond - x) / 2
        if abs(step * last) < 2.0**-bits:  # about the error of the next point
            return x + step
        value = at(x + step)
        if -600 < value < math.inf and (value - y) * step < 0:
            slope = (value - y) / step
        good, last, x, y = x, step, x + step, value
    return None


def _bisect(
    excess: Callable[[float], float],
    start: float,
    profile_at: Callable[[float], PrivacyProfile],
    target: Guarantee,
) -> float:
    """The boundary by doubling and halving, for costs that jump or laws that end."""
    low, high = start, start
    while excess(low) <= 0:
        low /= 2
        if low < 1e-290:
            raise ParameterError(f"{target!r} is met by every scale down to {low:g}")
    while (missed := excess(high)) > 0 and missed < math.inf and high < 1e100:
        low, high = high, high * 2
    while high > low * (
        1 + 2.0**-38
    ):  # +inf at high: the law has ended, or the target is out of reach
        middle = math.sqrt(low) * math.sqrt(high)
        missed = excess(
            middle
        )  # +inf below the start is a cost, +inf above it the end of the law
        low, high = (
            (middle, high)
            if missed > 0 and (missed < math.inf or middle < start)
            else (low, middle)
        )
    if excess(high) > 0:
        raise _unattainable(profile_at(low), target)
    return high


def _unattainable(profile: PrivacyProfile, target: Guarantee) -> UnattainableGuarantee:
    law = f"the Riemannian {getattr(profile, 'kind', 'gaussian').capitalize()} on {profile.space}"
    sensitivity = getattr(profile, "sensitivity", math.nan)
    numbers = (f"{v:g}" for v in target.to_dict().values() if isinstance(v, float))
    name = f"{type(target).__name__}({', '.join(numbers)})"
    chart = "log-laplace" if isinstance(target, PureDP) else "log-gaussian"
    if isinstance(target, PureDP) and math.isinf(profile.pure_epsilon):
        return UnattainableGuarantee(
            f"{name} is not met by {law}: its loss is unbounded; use the mechanism "
            "log-laplace"
        )
    if profile.floor is not None:
        value = _floor_cost(profile, target)
        return UnattainableGuarantee(
            f"{name} is below the floor {target.symbol}={value:.4g} of {law} "
            f"at sensitivity {sensitivity!r}; use the mechanism {chart}"
        )
    return UnattainableGuarantee(
        f"{name} is not met by {law} at any scale; use the mechanism {chart}"
    )

"""The smallest noise that provably meets a target, in any definition of privacy.

The scale is searched on a fixed lattice (multiples of 2^-40 of a power of two, 2^-22 on products). What is returned is
a lattice point at which the profile, rounded to the private side, was seen to meet the target and whose predecessor was
seen to miss it: so the answer does not depend on how the search went, and a stricter target never gets less noise.
"""

import math
from collections.abc import Callable
from typing import Any

from curvedp import _validate
from curvedp.errors import NotIntegrable, ParameterError, UnattainableGuarantee
from curvedp.privacy.constant_curvature import ConstantCurvatureProfile
from curvedp.privacy.gaussian import gdp_mu
from curvedp.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RaoDP, RenyiDP
from curvedp.privacy.profile import PrivacyProfile

__all__ = ["calibrate", "meets", "smallest_scale"]

_BITS = 40
_BITS_OF_PRODUCTS = 22
_POWERS: dict[type, float] = {GDP: 1.0, RaoDP: 1.0, PureDP: 1.0, ApproxDP: 1.0, ZCDP: 2.0, RenyiDP: 2.0}


def meets(profile: PrivacyProfile, target: Guarantee) -> bool:
    """Whether every release with this profile satisfies the target.

    >>> from curvedp.privacy import gaussian_profile
    >>> meets(gaussian_profile(0.0, 3, 2.0, 1.0), GDP(0.6))
    True
    """
    if not isinstance(profile, PrivacyProfile) or not isinstance(target, Guarantee):
        raise ParameterError(f"{_validate.shown(profile)} must be a profile and {_validate.shown(target)} a guarantee")
    if profile.label != "exact":  # a confidence bound vouches for itself and nothing else
        return profile == target
    spent, allowed = _cost(profile, target)
    return profile.adjacency == target.adjacency and spent <= allowed


def smallest_scale(profile_at: Callable[[float], PrivacyProfile], target: Guarantee, sensitivity: float) -> float:
    """The smallest scale s (to one part in 10¹², 10⁶ on products) at which `profile_at(s)` meets the target.

    *Guarantees*: `meets(profile_at(s), target)` was true as evaluated; growing in the strictness of the target. Raises
    `UnattainableGuarantee` where no scale does, with the floor.

    >>> from curvedp.privacy import gaussian_profile
    >>> round(smallest_scale(lambda s: gaussian_profile(0.0, 3, s, 1.0), GDP(0.5), 1.0), 6)
    2.0
    """
    sensitivity = _validate.length("sensitivity", sensitivity)
    seen: dict[float, float] = {}

    def excess(scale: float) -> float:
        """log(spent/allowed): <= 0 exactly where the target is met; +inf where the law does not exist any more."""
        if scale not in seen:
            try:
                spent, allowed = _cost(profile_at(scale), target)
            except NotIntegrable:
                return math.inf
            seen[scale] = _excess(target, spent, allowed)
        return seen[scale]

    def rough(scale: float) -> float:
        """The same over a few pairs of neighbours, which are cheap."""
        costs = [_cost(profile, target) for profile in profile_at(scale).corners]
        return max(_excess(target, *cost) for cost in costs)

    start = _inside(profile_at, target, sensitivity)
    bits, power = _BITS, _POWERS.get(type(target), 1.0)
    if len(profile_at(start).corners) > 1:  # a supremum over splits takes seconds, and is known to 1e-7
        bits, start = _BITS_OF_PRODUCTS, _newton(rough, start, power, _BITS) or start
    guess = _newton(excess, start, power, bits)
    if guess is None:
        guess = _bisect(excess, start, profile_at, target)
    step = math.ldexp(1.0, math.frexp(guess)[1] - bits)
    scale = math.ceil(guess / step) * step
    while excess(scale) > 0:
        scale += step
    for _ in range(64):
        if excess(scale - step) > 0:
            break
        scale -= step
    return scale


def calibrate(kind: Any, curvature: float, dim: int, sensitivity: float, target: Guarantee) -> float:
    """The smallest scale of the Riemannian "gaussian" or "laplace" on constant curvature that meets the target.

    >>> round(calibrate("gaussian", 1.0, 2, 0.3, GDP(0.5)), 6)
    0.567763
    """
    if not isinstance(target, Guarantee):
        raise ParameterError(f"target={_validate.shown(target)} must be a guarantee, such as GDP(1.0)")
    return smallest_scale(
        lambda scale: ConstantCurvatureProfile(kind, curvature, dim, scale, sensitivity, adjacency=target.adjacency),
        target,
        sensitivity,
    )


def _cost(profile: PrivacyProfile, target: Guarantee) -> tuple[float, float]:
    """(what the profile spends, what the target allows), in the target's own definition."""
    if profile.label != "exact":
        raise ParameterError(f"nothing is calibrated to a {profile.label}; use LogGaussianMechanism")
    if isinstance(target, GDP):
        return profile.mu, target.mu
    if isinstance(target, PureDP):
        return profile.pure_epsilon, target.eps
    if isinstance(target, ApproxDP):
        return profile.delta(target.eps), target.delta0
    if isinstance(target, ZCDP):
        return profile.rho, target.rho
    if isinstance(target, RenyiDP):
        return profile.renyi(target.order), target.eps
    if isinstance(target, RaoDP):
        return profile.rao, target.theta
    raise ParameterError(f"{target!r} is not a target a scale can be calibrated to")


def _excess(target: Guarantee, spent: float, allowed: float) -> float:
    """log(spent/allowed), for (ε, δ) in terms of the μ of equal δ(ε): nearly linear in log scale, and of the same sign."""
    if math.isnan(spent):
        raise ArithmeticError("the cost of a profile came out as NaN")
    if spent == 0:
        return -700.0
    if math.isinf(spent):
        return math.inf
    if isinstance(target, ApproxDP) and spent < 1:
        value = math.log(gdp_mu(target.eps, spent) / gdp_mu(target.eps, allowed))
        return max(value, 1e-16) if spent > allowed else min(value, 0.0)
    value = math.log(spent) - math.log(allowed)
    return max(value, 1e-16) if spent > allowed else min(value, 0.0)


def _inside(profile_at: Callable[[float], PrivacyProfile], target: Guarantee, start: float) -> float:
    """A scale at which the law exists; raises here if no scale can meet the target."""
    while True:
        try:
            _refuse_unattainable(profile_at(start), target)
            return start
        except NotIntegrable:
            start /= 2


def _newton(excess: Callable[[float], float], start: float, power: float, bits: int) -> float | None:
    """The secant method on log cost against log scale, which is nearly a line of slope −power. None if it wanders off."""
    x, y, slope, good = math.log(start), excess(start), -power, math.nan
    for _ in range(24):
        if math.isinf(y):
            return None
        if y <= -600:  # δ = 0: beyond the cap of the loss; come back
            x = (x + good) / 2 if math.isfinite(good) else x - 0.7
            y = excess(math.exp(x))
            continue
        step = min(max(-y / slope, -3.0), 3.0)
        if abs(step) < 2.0 ** (8 - bits):
            return math.exp(x + step)
        value = excess(math.exp(x + step))
        if -600 < value < math.inf and (value - y) * step < 0:
            slope = (value - y) / step
        good, x, y = x, x + step, value
    return None


def _bisect(
    excess: Callable[[float], float], start: float, profile_at: Callable[[float], PrivacyProfile], target: Guarantee
) -> float:
    """The boundary by doubling and halving, for costs that jump or laws that end."""
    low, high = start, start
    while excess(low) <= 0:
        low /= 2
        if low < 1e-290:
            raise ParameterError(f"{target!r} is met by every scale down to {low:g}")
    while (missed := excess(high)) > 0 and missed < math.inf and high < 1e100:
        low, high = high, high * 2
    while high > low * (1 + 2.0**-38):  # +inf at high: the law has ended, or the target is out of reach
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (middle, high) if 0 < excess(middle) < math.inf else (low, middle)
    if excess(high) > 0:
        raise _unattainable(profile_at(low), target)
    return high


def _refuse_unattainable(profile: PrivacyProfile, target: Guarantee) -> None:
    if isinstance(target, PureDP) and math.isinf(profile.pure_epsilon):
        raise _unattainable(profile, target)
    if profile.floor is not None:
        spent, allowed = _cost(profile.floor, target)
        if not spent < allowed:
            raise _unattainable(profile, target)


def _unattainable(profile: PrivacyProfile, target: Guarantee) -> UnattainableGuarantee:
    kind = getattr(profile, "kind", "gaussian")
    law = f"the Riemannian {kind.capitalize()} on {profile.space}"
    sensitivity = getattr(profile, "sensitivity", math.nan)
    name = f"{type(target).__name__}({', '.join(f'{v:g}' for v in _numbers(target))})"
    floor = profile.floor
    if isinstance(target, PureDP) and math.isinf(profile.pure_epsilon):
        return UnattainableGuarantee(f"{name} is not met by {law}: its loss is unbounded; use LaplaceMechanism")
    if floor is not None:
        symbol = {GDP: "μ", PureDP: "ε", ApproxDP: "δ", ZCDP: "ρ", RenyiDP: "ε", RaoDP: "θ"}[type(target)]
        value = _cost(floor, target)[0]
        return UnattainableGuarantee(
            f"{name} is below the floor {symbol}={value:.4g} of {law} at sensitivity {sensitivity!r};"
            " use LogGaussianMechanism"
        )
    return UnattainableGuarantee(f"{name} is not met by {law} at any scale")


def _numbers(target: Guarantee) -> list[float]:
    return [v for v in target.to_dict().values() if isinstance(v, float)]

"""How much a noise scale costs, compared with what a target guarantee allows. The *cost*
of a privacy profile is its parameter in the target's definition of privacy: its μ, its
ρ, or its δ at the target's ε. A calibration searches for the smallest noise scale whose
cost is allowed.

`exact_cost` decides. `cost_lower_bound` and `cost_estimate` are quicker, and steer the
search. `log_excess` turns a cost into a number whose root is searched for.
"""

import math

import numpy as np
import scipy

from curvedp.errors import ParameterError
from curvedp.numerics.directed_rounding import round_up
from curvedp.privacy.guarantees.base import Guarantee
from curvedp.privacy.guarantees.definitions import GDP, ZCDP, ApproxDP
from curvedp.privacy.guarantees.gaussian import gdp_mu_below
from curvedp.privacy.profiles.base import RELATIVE_ERROR, PrivacyProfile

# Orders α at which D_α/α gives a lower bound on ρ. It is mostly largest at order 1.
_RHO_ORDERS = (1.0, 2.0, 8.0, 64.0)
# The excess of a profile whose cost is 0: about log of the smallest positive double.
_EXCESS_AT_ZERO_COST = -700.0
# δ = 0 has no logarithm; this number stands for it. It is below log of every double.
_LOG_OF_ZERO = -1e300
# δ's from 1 on are replaced by the largest double below 1 before a μ is computed.
_LARGEST_BELOW_ONE = 1 - 2.0**-53
# The excess of a missed target is at least this, whatever its rounding.
_SMALLEST_POSITIVE_EXCESS = 1e-16


def exact_cost(profile: PrivacyProfile, target: Guarantee) -> float:
    """Return the parameter of a profile in the target's definition; rounded up.

    This number decides: the target is met if it is at most the target's own parameter.

    Parameters
    ----------
    profile : PrivacyProfile
        The privacy profile of the noise at one scale.
    target : Guarantee
        The guarantee whose definition of privacy is used.

    Returns
    -------
    float
        The smallest μ, ρ or order-dependent ε that the profile satisfies, or its δ at
        the ε of the target.
    """
    return target.parameter_of(profile.guarantee)


def cost_lower_bound(profile: PrivacyProfile, target: Guarantee) -> float:
    """Return a quick lower bound on the cost of a profile.

    The cost is the profile's parameter in the target's definition of privacy, a
    supremum that takes long to compute. The bound is the maximum over a part of the
    cases. On a product of spaces, these are the changes of a record within one factor;
    for zCDP, a few Rényi orders; for GDP, the ε in the table of the privacy loss. The
    result is rounded up in the same way as `exact_cost`.

    It must never exceed `exact_cost`, or a scale that meets the target would be passed over.

    Parameters
    ----------
    profile : PrivacyProfile
        The privacy profile of the noise at one scale.
    target : Guarantee
        The guarantee whose definition of privacy is used.

    Returns
    -------
    float
        At most `exact_cost(profile, target)`, in the same parameter.
    """
    profiles_of_factors = profile.extreme_splits
    if len(profiles_of_factors) > 1:
        return max(
            cost_lower_bound(factor_profile, target)
            for factor_profile in profiles_of_factors
        )
    if isinstance(target, ZCDP):
        # ρ is the supremum of D_α/α over all orders α.
        ratios = [profile.renyi(order) / order for order in _RHO_ORDERS]
        return float(round_up(max(ratios), RELATIVE_ERROR))
    if isinstance(target, GDP) and profile.tabulated_mu is not None:
        return float(round_up(profile.tabulated_mu, 2 * RELATIVE_ERROR))
    return exact_cost(profile, target)


def cost_estimate(profile: PrivacyProfile, target: Guarantee) -> float:
    """Return a quick estimate of the μ, or of the δ, of a profile, by one integral.

    For an (ε, δ) target it is δ(ε), integrated with few quadrature nodes. For GDP it is
    the μ that is needed at ε = 0: the solution of P₁(L <= 0) = Φ(−μ/2), where L is the
    privacy loss, P₁ the output distribution on the first of two neighboring data sets,
    and Φ the normal distribution function. This μ is exact for Gaussian noise on flat
    space, and mostly close for other noise.

    Parameters
    ----------
    profile : PrivacyProfile
        The privacy profile of the noise at one scale; it must have a `quadrature_law`.
    target : GDP or ApproxDP
        The guarantee whose definition of privacy is used.

    Returns
    -------
    float
        An approximation of `exact_cost(profile, target)`, above or below it.
    """
    law = profile.quadrature_law
    assert law is not None
    if isinstance(target, GDP):
        _, log_lower_tail = law.log_tails(np.zeros(1))
        # `ndtri_exp` inverts log Φ.
        mu = -2 * float(scipy.special.ndtri_exp(log_lower_tail[0]))
        return float(round_up(mu, 2 * RELATIVE_ERROR))
    assert isinstance(target, ApproxDP)  # no other target is estimated
    return float(round_up(law.delta(target.eps), RELATIVE_ERROR))


def cost_at_floor(profile: PrivacyProfile, target: Guarantee) -> float:
    """Return the cost that remains for arbitrarily much noise: the floor.

    The cost is the parameter of the profile in the target's definition of privacy. On
    hyperbolic spaces, a part of the privacy loss remains however much noise is added. A
    target below the floor is refused.

    Parameters
    ----------
    profile : PrivacyProfile
        The privacy profile of the noise at any scale.
    target : Guarantee
        The guarantee whose definition of privacy is used.

    Returns
    -------
    float
        The floor; 0 if enough noise makes the cost arbitrarily small.
    """
    if profile.floor is None:
        return 0.0
    return exact_cost(profile.floor, target)


def log_excess(
    target: Guarantee, cost: float, floor: float, compares_deltas: bool = False
) -> float:
    """Return how far a noise scale misses a target, as a logarithm.

    It is log((cost − floor)/(allowed − floor)), with the numbers defined below, and is
    <= 0 exactly if cost <= allowed, in spite of rounding. As a function of the
    logarithm of the scale it is nearly linear, which makes root searches fast.

    The sign must agree with cost <= allowed; the size only steers searches.
    tests/privacy/test_calibrate.py checks both.

    Parameters
    ----------
    target : Guarantee
        The guarantee that must be met. Its parameter (such as μ, or δ at its ε) is the
        allowed cost.
    cost : float
        The parameter, in the same definition of privacy, of the noise at this scale.
    floor : float
        The cost that remains for arbitrarily much noise.
    compares_deltas : bool
        This only matters for (ε, δ) targets. True: the three numbers are compared as
        δ's. False: each δ is first replaced by a μ. It is the μ for which μ-GDP has
        this δ at the target's ε, approximately (`gdp_mu_below`).

    Returns
    -------
    float
        The logarithm. It is infinite if the cost is infinite. It is −700 if the cost
        is at most the floor, and the floor is below the allowed cost.

    Raises
    ------
    ParameterError
        If `cost` is negative or not a number: floats cannot resolve such a target.
    """
    # The target is a guarantee with a parameter of its own: the allowed cost.
    allowed = target.parameter_of(target)

    # Written with `not`, so that NaN is refused.
    if not cost >= 0:
        raise ParameterError(
            f"{target!r} lies beyond what doubles resolve: "
            f"its cost came out as {cost!r}"
        )
    is_met = cost <= allowed

    # The logarithm of μ is nearly linear in that of the scale; that of δ is not.
    if isinstance(target, ApproxDP) and not compares_deltas:
        cost, allowed, floor = _approximate_mus(target.eps, [cost, allowed, floor])

    # The logarithm, relative to the floor if the target is above it.
    if math.isinf(cost):
        return math.inf
    if cost <= floor < allowed:
        return _EXCESS_AT_ZERO_COST
    if allowed > floor:
        excess = math.log((cost - floor) / (allowed - floor))
    else:
        excess = math.log(cost / allowed)

    # Rounding must not change the sign.
    return min(excess, 0.0) if is_met else max(excess, _SMALLEST_POSITIVE_EXCESS)


def _approximate_mus(eps: float, deltas: list[float]) -> list[float]:
    """Return approximations of the μ for which μ-GDP has given δ's at a given ε.

    Searches for a noise scale use μ, whose logarithm is nearly linear in that of the
    scale, in place of δ.

    Parameters
    ----------
    eps : float
        The privacy parameter ε >= 0.
    deltas : list of float
        The δ's, >= 0; numbers from 1 on are lowered a little.

    Returns
    -------
    list of float
        The lower bounds `gdp_mu_below`; about 0 for δ = 0.
    """
    log_deltas = []
    for delta in deltas:
        log_delta = _LOG_OF_ZERO
        if delta > 0:
            log_delta = math.log(min(delta, _LARGEST_BELOW_ONE))
        log_deltas.append(log_delta)
    return [float(mu) for mu in gdp_mu_below(eps, np.array(log_deltas))]

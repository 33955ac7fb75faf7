"""Convert a guarantee from one definition of privacy to another, such as ε-DP to zCDP.
Many formulas describe randomized response, which reveals the most of all ε-DP
mechanisms: its δ, its trade-off curve and its divergences bound those of every other
one (Kairouz, Oh and Viswanath 2015).

The table of all conversions, with proofs, is in docs/theory/accounting.md,
"Conversions".
"""

import math
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import scipy

from curvedp.numerics.directed_rounding import (
    NINE_ROUNDINGS,
    NINETY_ROUNDINGS,
    THIRTY_SIX_ROUNDINGS,
    Array,
    round_fraction,
    round_up,
)
from curvedp.privacy.curve import PrivacyCurve
from curvedp.privacy.guarantees.base import (
    Guarantee,
    conversion_impossible,
    guarantee_of,
)
from curvedp.privacy.guarantees.rao import hellinger_from_affinity

G = TypeVar("G", bound=Guarantee)

_LARGEST_EXPONENT = 700  # e^709 is the largest float


def convert(
    guarantee: PrivacyCurve,
    *,
    to: type[G],
    eps: float | None = None,
    delta: float | None = None,
    order: float | None = None,
) -> G:
    """Convert a guarantee to another definition of privacy.

    Every mechanism that satisfies the given guarantee satisfies the result, under the
    same adjacency. The result is never stronger, and it is tight in all cases in which
    a tight conversion is known (docs/theory/accounting.md, "Conversions").

    Parameters
    ----------
    guarantee : Guarantee or PrivacyProfile
        The guarantee that is known, or a profile, whose `guarantee` is converted.
    to : type
        The class of the definition to convert to, such as `ZCDP`.
    eps, delta : float, optional
        Only for `to=ApproxDP`, which needs exactly one of them. The other one is
        computed.
    order : float, optional
        Only for `to=RenyiDP`, which needs it: the order of the divergence.

    Returns
    -------
    Guarantee
        An instance of `to`.

    Raises
    ------
    UnattainableGuarantee
        If the guarantee implies nothing in the target definition.
    ParameterError
        If an option is missing.

    Examples
    --------
    >>> from curvedp.privacy import GDP, ZCDP
    >>> convert(GDP(1.0), to=ZCDP).rho
    0.5
    """
    source_guarantee = guarantee_of(guarantee)
    if not (isinstance(to, type) and issubclass(to, Guarantee)):
        raise conversion_impossible(
            source_guarantee, to, "it is not a definition of privacy"
        )
    return to.implied_by(source_guarantee, eps, delta, order)


def randomized_response_delta(eps0: float, eps: Array) -> Any:
    """Return δ(ε) of randomized response with the parameter ε₀, rounded up.

    It is the largest δ(ε) of all ε₀-DP mechanisms, δ(ε) = (e^ε₀ − e^ε)₊/(1 + e^ε₀)
    (Kairouz, Oh and Viswanath 2015). To avoid overflow it is computed as
    (1 − e^{ε−ε₀})₊ times the logistic function of ε₀.

    Parameters
    ----------
    eps0 : float
        ε₀ > 0, the parameter of randomized response.
    eps : array
        Values ε >= 0 of the privacy parameter.

    Returns
    -------
    array
        δ(ε) in [0, 1], of the shape of `eps`.
    """
    eps_minus_eps0 = np.minimum(eps - eps0, 0.0)
    delta = -np.expm1(eps_minus_eps0) * scipy.special.expit(eps0)
    return np.where(delta > 0, np.minimum(round_up(delta, NINE_ROUNDINGS), 1.0), 0.0)


def randomized_response_epsilon(eps0: float, delta: Array) -> Any:
    """Return the smallest ε at which randomized response is (ε, δ)-DP; rounded up.

    Every ε₀-DP mechanism is (ε, δ)-DP with this ε. From δ = (e^ε₀ − e^ε)/(1 + e^ε₀)
    follows ε = log(e^ε₀·(1 − δ) − δ) <= ε₀. If δ >= tanh(ε₀/2) = δ(0), ε is 0. With
    e^ε₀ factored out, the difference is at least half of its first term, so that no
    digits are lost.

    Parameters
    ----------
    eps0 : float
        ε₀ > 0, the parameter of randomized response.
    delta : array
        δ in [0, 1).

    Returns
    -------
    array
        ε in [0, ε₀], of the shape of `delta`.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        eps = eps0 + np.log((1 - delta) - delta * math.exp(-eps0))
        # 2^-49 is 16 times the unit roundoff 2^-53: more than the sum errs by, relative
        # to the size of its terms.
        rounding = 2.0**-49 * (1 + eps0 + np.abs(eps))
        rounded_up = eps + rounding
    delta_at_zero = round_up(math.tanh(eps0 / 2), NINE_ROUNDINGS)
    return np.where(delta >= delta_at_zero, 0.0, np.clip(rounded_up, 0.0, eps0))


def randomized_response_mu(eps: float) -> float:
    """Return the μ of Gaussian DP that ε-DP implies, rounded up.

    Randomized response has the μ −2Φ⁻¹(1/(1 + e^ε)), with Φ the normal distribution
    function. Below ε = 1 it is computed as 2√2·erf⁻¹(tanh(ε/2)), which is accurate for
    tiny ε. From there on it is computed from log(1/(1 + e^ε)), which is accurate for
    huge ε.

    Parameters
    ----------
    eps : float
        ε > 0, the parameter of randomized response.

    Returns
    -------
    float
        The parameter μ > 0 of Gaussian DP.
    """
    if eps < 1:
        mu = 2 * math.sqrt(2) * scipy.special.erfinv(math.tanh(eps / 2))
    else:
        log_tail = -(eps + math.log1p(math.exp(-eps)))  # log(1/(1 + e^ε))
        mu = -2 * scipy.special.ndtri_exp(log_tail)  # the inverse of log Φ
    return float(round_up(mu, THIRTY_SIX_ROUNDINGS))


def randomized_response_renyi(eps: Any, order: Any) -> Any:
    """Return the Rényi divergence of randomized response, rounded up.

    It is the largest divergence D_α of order α among all ε-DP mechanisms:
    log(cosh A / cosh B)/(α − 1) with A = (α − ½)ε and B = ε/2 (Bun and Steinke 2016).
    With x = A − B = (α − 1)ε, the logarithm is computed in one of two forms. Both have
    full relative precision, also at orders close to 1:

        x + log(1 − (1 − e^{−2x})/(1 + e^ε))            if αε > 2,
        log(1 + 2·sinh(αε/2)·sinh(x/2)/cosh(ε/2))       otherwise.

    Parameters
    ----------
    eps : float or array
        ε > 0, the parameter of randomized response.
    order : float or array
        The order α > 1; it broadcasts with `eps`.

    Returns
    -------
    float or array
        D_α >= 0.
    """
    eps = np.asarray(eps, np.float64)
    order = np.asarray(order, np.float64)
    x = (order - 1) * eps
    with np.errstate(over="ignore", invalid="ignore"):
        # expit(−ε) = 1/(1 + e^ε).
        first_form = x + np.log1p(np.expm1(-2 * x) * scipy.special.expit(-eps))
        second_form = np.log1p(
            2 * np.sinh(order * eps / 2) * np.sinh(x / 2) / np.cosh(eps / 2)
        )
    log_moment = np.where(order * eps > 2, first_form, second_form)
    divergence = round_up(log_moment / (order - 1), NINETY_ROUNDINGS)
    return divergence if np.ndim(divergence) else float(divergence)


def scaled_by_exp(eps: float, alpha: Array) -> Any:
    """Return e^ε·α without overflow, for use in max(0, 1 − e^ε·α).

    Trade-off curves contain that expression, where α is a type I error. If e^ε would
    overflow, 1 is returned for α > 0: then the maximum is 0, as it should be.

    Parameters
    ----------
    eps : float
        The privacy parameter ε >= 0.
    alpha : array
        Type I errors α from 0 to 1.

    Returns
    -------
    array
        e^ε·α; or 1 for every α > 0 if ε >= 700.
    """
    if eps < _LARGEST_EXPONENT:
        return np.exp(eps) * alpha
    return np.where(alpha > 0, 1.0, 0.0)


def log_cosh(x: float) -> float:
    """Return log cosh x for x >= 0, accurate near 0 and without overflow.

    Formulas of randomized response contain it. For x < 1 it is computed as
    log(1 + 2·sinh²(x/2)), which loses no digits.

    Parameters
    ----------
    x : float
        A number >= 0.

    Returns
    -------
    float
        log cosh x, to relative precision.
    """
    if x < 1:
        return math.log1p(2 * math.sinh(x / 2) ** 2)
    # cosh x = e^x·(1 + e^{−2x})/2
    return x + math.log1p(math.exp(-2 * x)) - math.log(2)


def half_square(mu: float) -> float:
    """Return μ²/2, the ρ of zCDP that μ-GDP implies; rounded up unless it is exact."""
    return round_fraction(Fraction(mu) ** 2 / 2, up=True)


def hellinger_angle(minus_log_affinity: float) -> float:
    """Return the Hellinger angle θ = 2·arccos e^{−x}, rounded up.

    x = −log∫√(pq), where p and q are the output densities on two neighboring data
    sets. Because x may itself be rounded, it is raised first.

    Parameters
    ----------
    minus_log_affinity : float
        The number x >= 0.

    Returns
    -------
    float
        θ in [0, π].
    """
    return float(
        hellinger_from_affinity(round_up(minus_log_affinity, NINETY_ROUNDINGS))
    )

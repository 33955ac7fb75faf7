"""KL privacy and mean-concentrated privacy, two older definitions that are not part of
the library. Both bound the mean of the privacy loss L = log dP/dQ(Y), where P and Q are
the output laws for two neighboring data sets and Y is drawn from P.

They are here to compare Rao privacy with them, and as a worked example of a definition
of your own (docs/project/extending.md, "A guarantee").

Theorem (from KL to (ε, δ)). If KL(P‖Q) <= α, every u in (0, 1] gives a sound
γ = λu(e^{1/λ} − 1) with λ = δ/(α − log u − 1 + u), and ε = log γ; the best u is exact.

Theorem (Bun and Steinke 2016, Lemma 4.2). A loss with mean at most m that is
subgaussian about it with deviation τ has D_α <= m + (α−1)τ²/2.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from curvedp.numerics.directed_rounding import Array, bisect_floats, round_up
from curvedp.privacy.guarantees.base import Guarantee, conversion_impossible
from curvedp.privacy.guarantees.conversions import half_square, hellinger_angle
from curvedp.privacy.guarantees.renyi import DefinedByEpsilon, all_orders_epsilon

# Coefficients of −log(1 − w) − w = w²·Σ w^k/(k + 2), enough for w below 1/16.
_SERIES = [1.0 / k for k in range(20, 1, -1)]
_SERIES_END = 0.0625
_LARGEST_PARAMETER = 1e300


@dataclass(frozen=True, repr=False)
class KLDP(DefinedByEpsilon, Guarantee):
    """KL privacy: the Kullback–Leibler divergence of neighbors' outputs is at most α.

    That is Rényi DP of order 1. `delta` is the exact largest δ that KL(P‖Q) <= α
    allows.

    Parameters
    ----------
    alpha : float
        The bound α > 0 on the mean of the privacy loss.
    adjacency : str
        What neighboring data sets differ in, such as "replace-one".

    Examples
    --------
    >>> from curvedp.privacy import compose
    >>> compose(KLDP(0.25), KLDP(0.5))
    KLDP(0.75)
    """

    alpha: float

    symbol: ClassVar[str] = "α"
    scale_exponent: ClassVar[float] = 2.0
    additive_fields: ClassVar[dict[str, int]] = {"alpha": 1}
    composition_family: ClassVar[str] = "mean"
    reason_for_no_bound: ClassVar[str] = "the mean of its loss can be infinite"

    def _epsilon(self, delta: Array) -> Any:
        """Return ε(δ) of the worst pair of laws whose divergence is α.

        Parameters
        ----------
        delta : array
            δ in (0, 1).
        """
        return kl_epsilon(self.alpha, delta)

    def implied_renyi(self, order: float) -> float:
        """Return a bound on the Rényi divergence: α up to order 1, infinite above.

        Parameters
        ----------
        order : float
            The order of the divergence.
        """
        return self.alpha if order <= 1 else math.inf

    def implied_hellinger_angle(self) -> float:
        """Return a bound on the Hellinger angle of neighbors' outputs.

        It follows from −2·log∫√(pq) = D_½ <= D_1 <= α.
        """
        return hellinger_angle(self.alpha / 2)

    @classmethod
    def implied_parameter(cls, other: Guarantee) -> float:
        """Return the α that another guarantee implies: its Rényi bound of order 1.

        Parameters
        ----------
        other : Guarantee
            A guarantee of any definition.
        """
        return other.implied_renyi(1.0)


@dataclass(frozen=True, repr=False)
class MeanConcentratedDP(DefinedByEpsilon, Guarantee):
    """(m, τ)-mean-concentrated DP: the loss is subgaussian about a mean of at most m.

    This is the definition of Dwork and Rothblum (2016). Its Rényi divergence of every
    order α is D_α <= m + (α−1)τ²/2, and `delta` is the best of the exact bounds that
    these imply. Another guarantee implies this definition only if it bounds the loss,
    so the library attains it by Laplace noise.

    Parameters
    ----------
    mean : float
        m > 0, the bound on the mean of the privacy loss.
    deviation : float
        τ > 0: E e^{s(L − E L)} <= e^{s²τ²/2} for every s, L the loss.
    adjacency : str
        What neighboring data sets differ in, such as "replace-one".

    Examples
    --------
    >>> from curvedp.privacy import compose
    >>> compose(MeanConcentratedDP(0.5, 3.0), MeanConcentratedDP(0.25, 4.0))
    MeanConcentratedDP(0.75, 5.0)
    """

    mean: float
    deviation: float

    symbol: ClassVar[str] = "share"
    additive_fields: ClassVar[dict[str, int]] = {"mean": 1, "deviation": 2}
    composition_family: ClassVar[str] = "concentrated"
    requires_bounded_loss: ClassVar[bool] = True

    def _epsilon(self, delta: Array) -> Any:
        """Return ε(δ), the smaller of two bounds: by all Rényi orders, and by order 1.

        The bound by order 1 is the better one if m is below τ².

        Parameters
        ----------
        delta : array
            δ in (0, 1).
        """
        rho = half_square(self.deviation)
        if rho > _LARGEST_PARAMETER or self.mean > _LARGEST_PARAMETER:
            return np.full_like(delta, np.inf)  # sums would overflow
        by_all_orders = all_orders_epsilon(
            rho, lambda alpha: self.mean + (alpha - 1) * rho, delta
        )
        return np.minimum(by_all_orders, kl_epsilon(self.mean, delta))

    def implied_rho(self) -> float:
        """Return the ρ of zCDP that this guarantee implies: D_α <= ρα for all α > 1.

        It is the largest (m + (α−1)τ²/2)/α, which is monotone in α, so that it is the
        value at α = 1 or the limit α → ∞.
        """
        return max(self.mean, half_square(self.deviation))

    def implied_hellinger_angle(self) -> float:
        """Return a bound on the Hellinger angle of neighbors' outputs.

        It follows from −2·log∫√(pq) = D_½ <= D_1 <= m.
        """
        return hellinger_angle(self.mean / 2)

    def implied_renyi(self, order: float) -> float:
        """Return the bound m + (α−1)τ²/2 on the Rényi divergence, and m up to order 1.

        Parameters
        ----------
        order : float
            The order α.
        """
        if order <= 1:
            return self.mean
        bound = self.mean + (order - 1) * half_square(self.deviation)
        return float(round_up(bound, 1e-15))

    @classmethod
    def implied_by(
        cls,
        other: Guarantee,
        eps: float | None,
        delta: float | None,
        order: float | None,
    ) -> "MeanConcentratedDP":
        """Return the (m, τ)-mean-concentrated DP that another guarantee implies.

        `convert` calls this method of the class that it converts to. If another
        guarantee bounds the privacy loss by ±ε, then by Hoeffding's lemma the loss is
        subgaussian about its mean with deviation τ = ε. The mean is at most m, the
        bound on the Rényi divergence of order 1.

        Parameters
        ----------
        other : Guarantee
            The guarantee to convert. It must bound the privacy loss.
        eps, delta, order : float, optional
            Not used. `convert` passes them to every class, because conversions to some
            other definitions need a parameter.

        Returns
        -------
        MeanConcentratedDP
            The implied guarantee, for the same neighboring data sets.

        Raises
        ------
        UnattainableGuarantee
            If the other guarantee does not bound the privacy loss.
        """
        if type(other) is cls:
            return other
        largest_loss = other.implied_pure_epsilon()
        if not largest_loss < math.inf:
            raise conversion_impossible(
                other,
                cls,
                "its loss need not be subgaussian about its mean, unless it is bounded",
            )
        mean_loss = other.implied_renyi(1.0)
        return cls(mean_loss, largest_loss, adjacency=other.adjacency)

    def parameter_of(self, other: Guarantee) -> float:
        """Return the larger of the shares of m and of τ that another guarantee uses up.

        Calibration makes it 1: then noise is just as large as this guarantee needs.

        Parameters
        ----------
        other : Guarantee
            The guarantee of a mechanism with a bounded loss.
        """
        if other == self:
            return 1.0
        share_of_mean = other.implied_renyi(1.0) / self.mean
        share_of_deviation = other.implied_pure_epsilon() / self.deviation
        return float(round_up(max(share_of_mean, share_of_deviation)))


def kl_epsilon(alpha: float, delta: Any) -> Any:
    """Return the smallest ε such that KL <= α implies (ε, δ)-DP; rounded up.

    The theorem of this module: ε = log γ with γ = λu(e^{1/λ} − 1) and
    λ = δ/(α − log u − 1 + u), for any u in (0, 1]. Here log γ is minimized over
    w = 1 − u. Every w gives a sound bound, so that an inexact minimum only makes ε
    slightly larger.

    Parameters
    ----------
    alpha : float
        The bound α on the Kullback–Leibler divergence.
    delta : float or array
        δ in (0, 1).

    Returns
    -------
    array
        ε, one for each δ; infinite where floats do not hold it.
    """
    delta = np.asarray(delta, np.float64)

    def log_gamma_grows(w: Array) -> NDArray[np.bool_]:
        """Return whether log γ increases at w, by the sign of its derivative times u."""
        cost = _dual_cost(alpha, w)
        with np.errstate(over="ignore"):
            return np.asarray(w / (delta * -np.expm1(-cost / delta)) >= 1 + w / cost)

    w = bisect_floats(
        log_gamma_grows,
        np.full_like(delta, 1e-300),
        np.full_like(delta, 1 - 2.0**-53),
        steps=40,
    )

    # ε = log u + log(e^{1/λ} − 1) + log λ, by two formulas for small and large 1/λ.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        inverse_lambda = round_up(_dual_cost(alpha, w) / delta, 4e-16)
        for_small = np.log(np.expm1(np.minimum(inverse_lambda, 1.0)) / inverse_lambda)
        for_large = (
            inverse_lambda + np.log1p(-np.exp(-inverse_lambda)) - np.log(inverse_lambda)
        )
        log_u = np.log1p(-w)
        eps = log_u + np.where(inverse_lambda < 1, for_small, for_large)
        rounding = 1e-15 * (1 + inverse_lambda - log_u)
        return np.maximum(np.where(np.isnan(eps), np.inf, eps + rounding), 0.0)


def _dual_cost(alpha: float, w: Array) -> Array:
    """Return α − log u − 1 + u, the numerator of δ/λ, for u = 1 − w; rounded up.

    Parameters
    ----------
    alpha : float
        The bound α on the Kullback–Leibler divergence.
    w : array
        1 − u in [0, 1). For small w the two logarithms cancel; a series is used.
    """
    by_series = w * w * np.polyval(_SERIES, np.minimum(w, _SERIES_END))
    direct = -np.log1p(-w) - w
    return np.asarray(
        round_up(alpha + np.where(w < _SERIES_END, by_series, direct), 1e-14)
    )

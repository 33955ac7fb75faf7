"""What one noisy release promises: its δ(ε), μ of Gaussian DP, ρ and other parameters.
All are computed from the privacy loss L = log p₁(Y)/p₂(Y), with the output densities p₁
and p₂ on two neighboring data sets, and Y drawn from p₁. A table stores the
distribution of L.

The two data sets are the ones that are easiest to tell apart. Subclasses of
`PrivacyProfile` supply the distribution of L. With P₁ and P₂ the probabilities under p₁
and p₂,

    δ(ε)      = E₁(1 − e^{ε−L})₊ = ∫_ε^∞ e^{ε−t}·P₁(L > t) dt,
    P₂(L > t) = e^{−t}·(P₁(L > t) − δ(t)).

The second formula holds because an isometry of the space swaps p₁ and p₂. The theory is
in docs/theory/exact-profiles.md.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from curvedp import _validate
from curvedp.errors import NotResolved, ParameterError
from curvedp.numerics.directed_rounding import (
    EIGHTEEN_ROUNDINGS,
    Array,
    round_up,
)
from curvedp.privacy.curve import PrivacyCurve
from curvedp.privacy.loss.law import PrivacyLossLaw
from curvedp.privacy.loss.table import TabulatedLossLaw
from curvedp.privacy.profiles.guarantee import ProfileGuarantee
from curvedp.privacy.profiles.mu_equation import mu_of_large_delta, mu_of_small_delta
from curvedp.privacy.profiles.tradeoff import LogErrors, TradeoffCurve

# The relative error that is allowed for δ, μ and the Rényi divergences. Each of them is
# rounded up by it. The largest error that was measured is below 1e-11. Raising it is
# safe; lowering it is not, because δ could then be below the truth.
RELATIVE_ERROR = 1e-9
_LOG_2 = math.log(2.0)
# Rényi divergences of larger orders are replaced by their limit, the largest loss.
_LARGEST_ORDER = 1e150
# Where order·(loss scale) is larger, the logarithm of a moment has too few digits to
# locate the end of its integral.
_HUGE_MOMENT = 1e6
# Where the largest loss is larger, integrals are less accurate than `RELATIVE_ERROR`.
_HUGE_LOSS = 1e10
# The fraction of the table of an unbounded loss that is used in the search for μ. Close
# to the end of the table, δ is an integral over losses that the table only
# extrapolates. A smaller fraction is safe, and needs a longer table.
_TRUSTED_FRACTION_OF_TABLE = 0.75
_MAX_DOUBLINGS = 200  # of the table of an unbounded loss
# log(1 + e^x) is computed as x + log(1 + e^−x) from this x on, so that e^x is finite.
_LARGE_LOG_INCREASE = 30
# Orders α = 1 + 2^x at which `rho` evaluates D_α/α: x = −6, −5.5, …, where at x = 12
# the bound μ²/2 is tried too.
_FIRST_LOG2_ORDER = -6.0
_LOG2_ORDER_STEP = 0.5
_LOG2_ORDER_OF_MU_BOUND = 12
# The search for μ refines every peak of the grid that is at least this much of the
# highest one, in at most so many rounds. It ends sooner if a round raises μ by less
# than the last number, relative.
_NEARLY_HIGHEST = 0.98
_REFINEMENT_ROUNDS = 8
_SMALLEST_GAIN_OF_MU = 1e-11
_REFINEMENT_FRACTIONS = np.linspace(0.0, 1.0, 9)  # of the interval around a maximum
# A limit may be exceeded by this factor, because the numbers that are compared have
# rounding errors, which are far smaller.
_ROOM_FOR_ROUNDING = 1 + 1e-10
# μ²/2 is taken as ρ if it exceeds what was found by at most this factor.
_GOOD_ENOUGH_FACTOR = 1 + 1e-6


class SubgaussianTail(NamedTuple):
    """A bound on the exponential moments of an unbounded privacy loss L.

    Its two constants log K >= 0 and drift satisfy, for every λ >= 0,

        log E₁[e^{λL}] <= log K + λ·(drift + v/2) + λ²·v/2,

    where E₁ is the mean on the first of two neighboring data sets, and v the square of
    `PrivacyProfile._limiting_mu`. A Gaussian loss N(v/2, v) has log K = 0 and drift 0.
    """

    log_k: float
    drift: float


@dataclass(frozen=True)
class PrivacyProfile(PrivacyCurve):
    """Everything that a noise law promises, computed from its exact privacy loss.

    A profile is not a guarantee but has one, `guarantee`, which is what is composed,
    converted to other definitions and charged to ledgers.

    `delta`, `mu`, `renyi`, `rao` and `hellinger_angle` are pessimistic estimates: they
    are never below the truth by more than the rounding of a float, and exceed it by at
    most 3e-9 of its value. `epsilon` is rounded up. `tradeoff` is never above the
    truth.

    Parameters
    ----------
    adjacency : str
        The kind of neighboring data sets: 'replace-one' or 'add-remove'.

    Examples
    --------
    >>> from curvedp.privacy import gaussian_profile
    >>> gaussian_profile(curvature=1.0, dim=2, scale=0.2, sensitivity=0.1).mu <= 0.5
    True
    """

    @cached_property
    def guarantee(self) -> ProfileGuarantee:
        """The guarantee that a release with this profile satisfies."""
        return ProfileGuarantee(self, adjacency=self.adjacency)

    @property
    def is_exact(self) -> bool:
        """Whether δ(ε) is the smallest possible one, up to rounding.

        A subclass that only bounds δ(ε) from above returns False.
        """
        return True

    # ---- the law of the loss

    @property
    def loss_law(self) -> PrivacyLossLaw:
        """The distribution of the privacy loss, for the worst two data sets.

        It computes each tail probability anew. `loss_table` interpolates them, which is
        faster, and most methods read the table.

        Raises
        ------
        NotImplementedError
            If no single pair of neighbors is the worst one at every ε.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no single distribution of the privacy loss; "
            "use delta, epsilon or tradeoff instead"
        )

    @cached_property
    def loss_table(self) -> TabulatedLossLaw:
        """The tails of `loss_law` in a table, for fast evaluation at many losses.

        It is built on first access.
        """
        return TabulatedLossLaw(self.loss_law)

    @property
    @abstractmethod
    def rao(self) -> float:
        """The parametric Rao distance: sensitivity·√(Fisher information).

        The Fisher information says how well one output locates the center of the noise.
        The Rao distance bounds the Hellinger angle of the output distributions on two
        neighboring data sets.
        """

    @property
    def pure_epsilon(self) -> float:
        """The smallest ε with δ(ε) = 0: the largest loss, rounded up, or infinity."""
        largest_loss = self.loss_law.max_loss
        if math.isinf(largest_loss):
            return math.inf
        return float(round_up(largest_loss, EIGHTEEN_ROUNDINGS))

    @property
    def _smallest_eps_with_zero_delta(self) -> float:
        """The smallest ε at which `delta` returns 0, if the loss is bounded."""
        return self.pure_epsilon

    # ---- δ(ε)

    def _delta(self, eps: Array) -> Array:
        """Return δ(ε), read from the table of the privacy loss and rounded up.

        Where δ > ½, it is computed from 1 − δ, which has more correct digits there.

        δ must never be below the truth: both roundings go up, and
        tests/privacy/test_certify.py compares with proved enclosures.

        Parameters
        ----------
        eps : array
            ε >= 0. If the loss is unbounded, δ(ε) is 0 (below all floats) beyond the
            end of the table. If the loss is at most T, δ is evaluated no closer to T
            than the largest float below T.

        Returns
        -------
        array
            δ(ε) in [0, 1], of the shape of `eps`.
        """
        table = self.loss_table
        is_bounded = math.isfinite(table.max_loss)
        last_eps = math.nextafter(table.max_loss, 0.0) if is_bounded else table.end
        eps_in_table = np.minimum(eps, last_eps)

        # δ from its logarithm, raised by the error of the table.
        with np.errstate(under="ignore"):
            delta = np.asarray(np.exp(table.log_delta(eps_in_table)))
        margin = 1 + RELATIVE_ERROR + table.relative_error_near_max_loss(eps_in_table)
        delta = np.array(np.minimum(delta * margin, 1.0))

        # Where δ > ½: from 1 − δ, lowered by the same error.
        is_large = delta > 0.5
        if np.any(is_large):
            log_complement_of_delta = table.log_one_minus_delta(
                np.asarray(eps_in_table)[is_large]
            )
            complement = np.exp(log_complement_of_delta) * (1 - RELATIVE_ERROR)
            delta[is_large] = np.minimum(np.nextafter(1 - complement, 2.0), 1.0)

        # No privacy loss exceeds these ε.
        is_zero = (
            eps >= self._smallest_eps_with_zero_delta if is_bounded else eps > last_eps
        )
        return np.where(is_zero, 0.0, np.asarray(delta))

    # ---- μ

    @cached_property
    def mu(self) -> float:
        """The smallest μ such that the release is μ-GDP, rounded up.

        μ-GDP (Gaussian differential privacy) means that δ(ε) <= δ_μ(ε) at every ε, with
        δ_μ the profile of N(0, 1) against N(μ, 1). So the smallest μ is the
        supremum over ε of μ_ε, the solution of δ_μ(ε) = δ(ε).

        If the privacy loss is bounded by T, all ε in [0, T) are searched. Otherwise the
        table of the loss is doubled, in place, until `_large_eps_are_proved` proves
        δ(ε) <= δ_μ(ε) for every larger ε.

        Raises
        ------
        NotResolved
            If no table that can be afforded is long enough for that proof.
        """
        table = self.loss_table
        mu = self._mu_in_table

        # An unbounded loss: lengthen the table until all larger ε are proved.
        n_doublings = 0
        while math.isinf(table.max_loss):
            end_of_search = _TRUSTED_FRACTION_OF_TABLE * table.end
            candidate = max(mu, self._limiting_mu * _ROOM_FOR_ROUNDING)
            n_needed = self._count_doublings_needed(
                candidate, end_of_search, _MAX_DOUBLINGS - n_doublings
            )
            if n_needed == 0:
                return float(round_up(candidate, 2 * RELATIVE_ERROR))

            # The longer table may show a larger μ, which makes the next proof easier.
            table.double_range(n_needed)
            new_losses = self._trusted_losses(end_of_search / 2)
            mu = max(mu, self._largest_mu_on_interval(new_losses))
            n_doublings += n_needed

        # An error of δ changes μ by less than twice as much, by the lemma of
        # docs/theory/exact-profiles.md, "Products and SPD matrices". With twice the
        # margin, δ_μ therefore stays above the rounded-up δ.
        return float(round_up(mu, 2 * RELATIVE_ERROR))

    def _count_doublings_needed(
        self, mu: float, end_of_search: float, limit: int
    ) -> int:
        """Return how often the table of the loss must be doubled before μ is proved.

        `mu` calls it before it pays for a longer table. A release is μ-GDP if
        δ(ε) <= δ_μ(ε) at every ε, where δ_μ is the profile of N(0, 1) against N(μ, 1).
        If the privacy loss is unbounded, this is checked at the ε of the table. For all
        larger ε it follows from a theorem (`_large_eps_are_proved`), provided that the
        table is long enough.

        Parameters
        ----------
        mu : float
            The number μ that is to be proved.
        end_of_search : float
            The ε up to which δ(ε) <= δ_μ(ε) was checked in the present table.
        limit : int
            The largest number of doublings that is allowed.

        Returns
        -------
        int
            The number of doublings; 0 if the present table is long enough.

        Raises
        ------
        NotResolved
            If `limit` − 1 doublings do not suffice.
        """
        for n_doublings in range(limit):
            if self._large_eps_are_proved(mu, end_of_search * 2.0**n_doublings):
                return n_doublings
        raise NotResolved(
            "μ of GDP could not be proved for the largest privacy losses of this noise"
        )

    @cached_property
    def _mu_in_table(self) -> float:
        """The smallest μ of Gaussian DP that the ε in the first table of the loss need.

        It is the largest μ_ε over these ε, where μ_ε is the μ at which the profile of
        N(0, 1) against N(μ, 1) equals δ(ε). If the loss is unbounded, larger ε are not
        yet covered. Then this is only a lower bound on `mu`.
        """
        return self._largest_mu_on_interval(self._trusted_losses(0.0))

    def _trusted_losses(self, start: float) -> Array:
        """Return an increasing grid of privacy losses at which the table is accurate.

        The search for μ looks at these ε. δ(ε) is an integral over all losses above ε.
        If losses are unbounded, it is inaccurate close to the end of the table, and the
        last quarter is left out.

        Parameters
        ----------
        start : float
            The smallest loss of the grid. It is ignored (0) if the loss is bounded.

        Returns
        -------
        array
            The grid.
        """
        grid = self.loss_table.grid()
        if math.isfinite(self.loss_table.max_loss):
            return grid

        end = _TRUSTED_FRACTION_OF_TABLE * self.loss_table.end
        return np.append(grid[(grid >= start) & (grid < end)], end)

    @property
    def _limiting_mu(self) -> float:
        """The limit, as ε grows, of the solution μ of δ_μ(ε) = δ(ε).

        δ_μ is the profile of N(0, 1) against N(μ, 1), and δ that of the noise.
        Only subclasses with an unbounded privacy loss use it. It is a lower bound on
        the μ of Gaussian DP.
        """
        return 0.0

    def _subgaussian_tail(self) -> SubgaussianTail:
        """Return a bound on the exponential moments of the privacy loss.

        From it `mu` and `rho` prove that very large losses do not matter. Subclasses
        whose loss is unbounded must override this method.

        Returns
        -------
        SubgaussianTail
            The two constants of the bound.
        """
        raise NotImplementedError

    def _large_eps_are_proved(self, mu: float, eps: float) -> bool:
        """Say whether a theorem proves μ-GDP for every ε′ >= ε, without evaluating δ.

        The claim is δ(ε′) <= δ_μ(ε′) for these ε′, where δ is this profile, with an
        unbounded loss, and δ_μ the profile of N(0, 1) against N(μ, 1). By Chernoff's
        bound and a bound on Mills' ratio (docs/theory/exact-profiles.md, Theorem P2),

            δ(ε)   <= K·e^{−z²/2},            z = (ε − drift − v/2)/√v,
            δ_μ(ε) >= φ(x)·μ/(y + √2)²,       x = ε/μ − μ/2,  y = ε/μ + μ/2,

        where φ is the standard normal density, √v = `_limiting_mu`, and K and drift are
        the constants of `_subgaussian_tail`. The claim is proved if the quotient of the
        first bound by the second one is at most 1 at ε, and decreases from there on.

        It must be conservative: a wrong True would overstate privacy.
        tests/privacy/test_constant_curvature.py checks the theorem term by term.

        Parameters
        ----------
        mu : float
            The parameter μ of Gaussian DP that is to be proved.
        eps : float
            The smallest ε′.

        Returns
        -------
        bool
            True if the claim is proved; False says nothing about the claim.
        """
        # The bounds hold only if z, x > 0, and the quotient falls only if μ > √v.
        tail = self._subgaussian_tail()
        root_v = self._limiting_mu
        z = (eps - tail.drift) / root_v - root_v / 2
        x = eps / mu - mu / 2
        y = eps / mu + mu / 2
        bounds_apply = z > 0 and x > 0 and mu > root_v
        if not bounds_apply:
            return False

        # log(first bound / second bound), with −log φ(x) = x²/2 + log √(2π).
        log_quotient = tail.log_k + 0.5 * math.log(2 * math.pi) - (z - x) * (z + x) / 2
        log_quotient += 2 * math.log(y + math.sqrt(2)) - math.log(mu)

        # Its derivative in ε is negative at ε, and from there on.
        is_decreasing = z / root_v >= x / mu + 2 / (mu * (y + math.sqrt(2)))
        return log_quotient <= 0 and is_decreasing

    def _largest_mu_on_interval(self, grid: Array) -> float:
        """Return the largest μ_ε over an interval of ε.

        μ_ε is the solution of δ_μ(ε) = δ(ε), where δ_μ is the profile of N(0, 1)
        against N(μ, 1). Its largest value is the smallest μ with δ(ε) <= δ_μ(ε) at
        every ε of the interval, which is what μ-GDP needs.

        Every peak of a grid that is nearly the highest is refined: nine points are laid
        across the two cells next to it, then across the two best cells of those, and so
        on. The grid must be as fine as `TabulatedLossLaw.grid`, or a peak between two
        grid points could be missed.

        Parameters
        ----------
        grid : array
            Increasing values of ε that span the interval.

        Returns
        -------
        float
            The maximum, to about 1e-11 relative.
        """
        # The first cells: those on both sides of every peak of the grid.
        mu = self._mu_at(grid)
        largest = float(mu.max())
        peaks = _find_high_peaks(mu)
        low = grid[np.maximum(peaks - 1, 0)]
        high = grid[np.minimum(peaks + 1, len(grid) - 1)]

        for _ in range(_REFINEMENT_ROUNDS):
            # Nine points on each interval: one row for each peak.
            points = low[:, None] + (high - low)[:, None] * _REFINEMENT_FRACTIONS
            values = self._mu_at(points, start=largest)
            previous_largest = largest
            largest = max(largest, float(values.max()))
            # A round divides the cells by 4, and so the distance to a smooth maximum
            # in value by 16. The next round would gain even less than this one.
            if largest <= previous_largest * (1 + _SMALLEST_GAIN_OF_MU):
                break

            # The two cells next to the best of the nine points of each peak.
            best = np.argmax(values, axis=1)
            row = np.arange(len(peaks))
            low = points[row, np.maximum(best - 1, 0)]
            high = points[row, np.minimum(best + 1, len(_REFINEMENT_FRACTIONS) - 1)]
        return largest

    def mu_at(self, eps: Array) -> Array:
        """Return, for every ε, the μ with δ_μ(ε) = δ(ε).

        δ_μ is the profile of N(0, 1) against N(μ, 1). So μ expresses δ(ε) as the
        distance between two normal laws, which varies little with ε.

        Parameters
        ----------
        eps : array
            ε >= 0. If the privacy loss is unbounded, an ε beyond the end of its table
            counts as that end.

        Returns
        -------
        array
            The values of μ, of the shape of `eps`; 0 where δ(ε) is 0.
        """
        table = self.loss_table
        is_bounded = math.isfinite(table.max_loss)
        last_eps = table.max_loss if is_bounded else table.end
        mu = self._mu_at(np.minimum(eps, last_eps))
        return np.where(eps < table.max_loss, mu, 0.0)

    def _mu_at(self, eps: Array, start: float | None = None) -> Array:
        """Return the μ with δ_μ(ε) = δ(ε), for ε in the table of the privacy loss.

        δ_μ is the profile of N(0, 1) against N(μ, 1). The equation is solved from
        log δ(ε), or from log(1 − δ(ε)) where δ > ½, so that μ has full precision.

        Parameters
        ----------
        eps : array
            ε in [0, end of the table].
        start : float, optional
            A first guess of all μ for Newton's method; by default one is computed.

        Returns
        -------
        array
            The values of μ, of the shape of `eps`; 0 where δ(ε) is 0.
        """
        # Compute δ, and find out where it is above ½ or 0.
        log_delta = self.loss_table.log_delta(eps)
        is_above_half = log_delta > -_LOG_2
        is_usable = ~is_above_half & (log_delta > -math.inf)

        # Solve from log δ where δ <= ½, and from log(1 − δ) elsewhere.
        mu = np.zeros_like(eps)
        mu[is_usable] = mu_of_small_delta(eps[is_usable], log_delta[is_usable], start)
        if np.any(is_above_half):
            large_delta_eps = eps[is_above_half]
            log_complement_of_delta = self.loss_table.log_one_minus_delta(
                large_delta_eps
            )
            mu[is_above_half] = mu_of_large_delta(
                large_delta_eps, log_complement_of_delta, start
            )
        return mu

    # ---- the trade-off curve

    def _tradeoff(self, alpha: Array) -> Array:
        """Return the trade-off curve β(α), rounded down.

        Consider tests that tell two neighboring data sets apart from one output. β(α)
        is the smallest type II error of a test with the type I error α. It is computed
        from log β where β < ½ and from log(1 − β) elsewhere, for full precision.

        Parameters
        ----------
        alpha : array
            Type I errors from 0 to 1.

        Returns
        -------
        array
            β(α) in [0, 1 − α], of the shape of `alpha`.
        """
        flat_alpha = np.asarray(alpha, np.float64).ravel()
        log_beta, log_complement_of_beta = self._log_tradeoff(flat_alpha)
        with np.errstate(under="ignore"):
            from_log = np.exp(log_beta)
            from_complement = np.nextafter(-np.expm1(log_complement_of_beta), 0.0)

        # Choose the form with more digits, and set the known values at both ends.
        beta = np.where(log_beta < -_LOG_2, from_log, from_complement)
        beta = np.minimum(beta, 1 - flat_alpha)
        beta = np.where(flat_alpha == 1.0, 0.0, beta)
        beta = np.where(flat_alpha == 0.0, 1.0, beta)
        return beta.reshape(np.shape(alpha))

    def mu_of_tradeoff(self, alpha: Array) -> Array:
        """Return, for every α, the μ whose Gaussian trade-off curve contains (α, β(α)).

        β(α) is the smallest type II error of a test, with type I error α, between two
        neighboring data sets. For N(0, 1) against N(μ, 1) this error is
        Φ(−Φ⁻¹(α) − μ), with Φ the normal distribution function. Hence
        μ = −Φ⁻¹(α) − Φ⁻¹(β). As β is rounded down, μ is rounded up.

        Parameters
        ----------
        alpha : array
            Type I errors, 0 < α < 1.

        Returns
        -------
        array
            μ >= 0, of the shape of `alpha`.
        """
        log_beta, log_complement_of_beta = self._log_tradeoff(alpha)
        from_log = scipy.special.ndtri_exp(log_beta)
        from_complement = -scipy.special.ndtri_exp(log_complement_of_beta)

        # Compute Φ⁻¹(β) from the logarithm that has more digits.
        quantile_of_beta = np.where(log_beta < -_LOG_2, from_log, from_complement)
        mu = -scipy.special.ndtri(alpha) - quantile_of_beta
        return np.asarray(np.maximum(mu, 0.0))

    def _log_tradeoff(self, alpha: Array) -> LogErrors:
        """Return log β(α) and log(1 − β(α)) of the trade-off curve β, rounded down.

        Parameters
        ----------
        alpha : array
            Type I errors in [0, 1].

        Returns
        -------
        LogErrors
            Both logarithms, because either can be the one that keeps its digits.
        """
        curve = TradeoffCurve(self.loss_table, alpha, RELATIVE_ERROR)
        return curve.log_errors(self.pure_epsilon)

    # ---- Rényi divergences, ρ and the Hellinger angle

    def renyi(self, order: Any) -> Any:
        """Return the Rényi divergence D_α of given orders α, rounded up.

        It compares the output distributions P₁ and P₂ on two neighboring data sets.
        With the privacy loss L, its upper tail S(t) = P₁(L > t), the privacy profile
        δ(t) and s = α − 1, it is D_α = log E₁[e^{sL}]/s, where

            E₁[e^{sL}] = 1 + s·∫₀^∞ (S(t)(e^{st} − e^{−(s+1)t}) + e^{−(s+1)t}·δ(t)) dt.

        Parameters
        ----------
        order : float or array
            The order α >= 1. Order 1 is the Kullback–Leibler divergence, order infinity
            the largest loss.

        Returns
        -------
        float or array
            D_α >= 0, of the shape of `order`. For an unbounded loss and an order above
            10⁶/(standard deviation of L) it is the upper bound α·μ²/2.
        """
        orders = _validate.array("order", order)
        if not np.all(orders >= 1):
            raise ParameterError("must be >= 1", parameter="order", value=order)
        values = [self.renyi_at(float(alpha)) for alpha in orders.ravel()]
        divergences = np.array(values).reshape(orders.shape)
        return divergences if divergences.ndim else float(divergences)

    def renyi_at(self, order: float) -> float:
        """Return the Rényi divergence D_α of one order α >= 1, rounded up.

        With s = α − 1 and the privacy loss L it is D_α = log E₁[e^{sL}]/s, where E₁ is
        the mean on the first of two neighboring data sets. The moment is 1 + s times an
        integral over the table of the loss (`TabulatedLossLaw.log_moment_integral`).
        Where floats cannot resolve that integral, a simple upper bound is returned: the
        largest loss, or α·μ²/2, which follows from μ-GDP (Dong, Roth and Su 2022).

        Parameters
        ----------
        order : float
            The order α >= 1.

        Returns
        -------
        float
            D_α >= 0; infinity if the loss is unbounded and the order exceeds 1e150.
        """
        simple_bound = self._renyi_bound_beyond_floats(order)
        if simple_bound is not None:
            return simple_bound

        # log((E₁[e^{sL}] − 1)/s). For s = 0 the integral is the divergence itself.
        s = order - 1.0
        log_integral = self.loss_table.log_moment_integral(s)
        if s == 0:
            return float(round_up(math.exp(log_integral), RELATIVE_ERROR))

        # log E₁[e^{sL}] = log(1 + s·integral), without overflow.
        log_increase = log_integral + math.log(s)
        if log_increase < _LARGE_LOG_INCREASE:
            log_moment = math.log1p(math.exp(log_increase))
        else:
            log_moment = log_increase + math.log1p(math.exp(-log_increase))
        return min(float(round_up(log_moment / s, RELATIVE_ERROR)), self.pure_epsilon)

    def _renyi_bound_beyond_floats(self, order: float) -> float | None:
        """Return a simple bound on D_α if floats cannot resolve its integral.

        There are two such bounds. The largest loss bounds D_α at every order. If the
        loss is unbounded, D_α <= α·μ²/2 follows from μ-GDP.

        Parameters
        ----------
        order : float
            The order α >= 1.

        Returns
        -------
        float or None
            The bound, rounded up; None if the integral can be computed.
        """
        largest_loss = self.pure_epsilon
        is_bounded = math.isfinite(largest_loss)

        # The largest loss, for huge orders and for a loss that is nearly constant.
        loss_is_nearly_constant = (
            _HUGE_LOSS < largest_loss < math.inf
            and self.loss_law.loss_scale > math.sqrt(largest_loss)
        )
        if order > _LARGEST_ORDER or loss_is_nearly_constant:
            return largest_loss

        # The bound of μ-GDP, for huge moments of an unbounded loss.
        if not is_bounded and order * self.loss_law.loss_scale > _HUGE_MOMENT:
            return float(round_up(order * self.mu * self.mu / 2, RELATIVE_ERROR))
        return None

    @cached_property
    def rho(self) -> float:
        """The smallest ρ such that the release is ρ-zCDP, rounded up.

        It is the supremum of D_α/α over all orders α > 1, with D_α the Rényi divergence
        of order α. Orders α = 1 + 2^x are tried with increasing x, in steps of ½, until
        `_no_larger_order_matters` proves that larger orders cannot matter. Since
        (α − 1)·D_α is convex in α, the ratio varies slowly in x. The search is refined
        about the best x.
        """
        largest = self.renyi_at(1.0)
        x = _FIRST_LOG2_ORDER
        best_x = x
        best_ratio = -math.inf
        while True:
            ratio = self._divergence_ratio(x)
            if ratio > best_ratio:
                best_x, best_ratio = x, ratio
            largest = max(largest, ratio)
            if self._no_larger_order_matters(1 + 2.0**x, largest):
                break

            # μ-GDP implies μ²/2-zCDP. For a nearly Gaussian loss this is as good as
            # what any larger order could give.
            if x == _LOG2_ORDER_OF_MU_BOUND:
                rho_of_mu = self.mu * self.mu / 2
                if rho_of_mu <= largest * _GOOD_ENOUGH_FACTOR:
                    return float(round_up(rho_of_mu, RELATIVE_ERROR))
            x += _LOG2_ORDER_STEP

        # Refine the maximum between the orders next to the best one.
        refined = scipy.optimize.minimize_scalar(
            lambda x: -self._divergence_ratio(x),
            bounds=(best_x - _LOG2_ORDER_STEP, best_x + _LOG2_ORDER_STEP),
            method="bounded",
        )
        return float(round_up(max(largest, -float(refined.fun)), RELATIVE_ERROR))

    def _divergence_ratio(self, log2_distance: float) -> float:
        """Return D_α/α, the Rényi divergence of order α divided by α.

        Its supremum over all orders is the ρ of zCDP.

        Parameters
        ----------
        log2_distance : float
            The order as x = log₂(α − 1).

        Returns
        -------
        float
            The ratio at the order α = 1 + 2^x.
        """
        order = float(1 + 2.0**log2_distance)
        return self.renyi_at(order) / order

    def _no_larger_order_matters(self, order: float, rho: float) -> bool:
        """Return whether no order above the given one can raise the supremum of D_α/α.

        D_α is the Rényi divergence of order α; the supremum of D_α/α is ρ of zCDP. If
        the privacy loss is bounded, D_α is at most the largest loss. Otherwise

            D_α/α <= v/2 + (log K/(α − 1) + drift)/α,

        which decreases in α. Here √v = `_limiting_mu`, and K and drift are the
        constants of `_subgaussian_tail`.

        Parameters
        ----------
        order : float
            The largest order that was evaluated.
        rho : float
            The largest D_α/α so far. If it is smaller than the limit v/2 of the bound,
            that limit takes its place.

        Returns
        -------
        bool
            True if no larger order matters.
        """
        if math.isfinite(self.pure_epsilon):
            return self.pure_epsilon <= rho * order

        # For an unbounded loss, the bound at this order holds for all larger ones.
        tail = self._subgaussian_tail()
        limit = self._limiting_mu**2 / 2
        bound = limit + (tail.log_k / (order - 1) + tail.drift) / order
        return bound <= max(rho, limit * _ROOM_FOR_ROUNDING)

    @cached_property
    def hellinger_angle(self) -> float:
        """The Hellinger angle 2·arccos∫√(p₁p₂), rounded up.

        p₁ and p₂ are the output densities on the worst two neighboring data sets. The
        angle says how far the two densities are apart, and is composed by Rao privacy.
        It is computed from the squared Hellinger distance

            1 − ∫√(p₁p₂) = ½·∫₀^∞ e^{−t/2}·δ(t) dt.
        """
        table = self.loss_table

        def log_integrand(t: Array) -> Array:
            """Return log(e^{−t/2}·δ(t))."""
            return table.log_delta(t) - t / 2

        # The squared Hellinger distance, and from it the angle: 1 − cos(θ/2) =
        # 2·sin²(θ/4).
        log_integral = table.log_integral(log_integrand, growth=-0.5)
        squared_distance = min(math.exp(log_integral - _LOG_2), 1.0)
        angle = 4 * math.asin(math.sqrt(squared_distance / 2))
        return min(float(round_up(angle, RELATIVE_ERROR)), math.pi)

    # ---- what the search for the smallest noise scale needs (calibration)

    @property
    def floor(self) -> "PrivacyProfile | None":
        """The limit of this profile as the noise scale grows; None if δ(ε) tends to 0.

        A calibration refuses a guarantee that is stronger than this limit.
        """
        return None

    @property
    def extreme_splits(self) -> "list[PrivacyProfile]":
        """Profiles for single pairs of data sets, one of which is often the worst one.

        A search for the smallest noise scale starts with them. On a product space these
        are the pairs that differ in one factor only.
        """
        return [self]

    @property
    def quadrature_law(self) -> PrivacyLossLaw | None:
        """The privacy loss with a fixed number of quadrature nodes, for a quick δ(ε).

        None if the profile has a closed form or no single privacy loss.
        """
        return None

    @property
    def tabulated_mu(self) -> float | None:
        """A quick lower bound on `mu`, from the table of the loss; None if unknown.

        A search for a noise scale uses it to rule out scales that are too small.
        """
        return None

    @property
    def delta_vanishes_at_finite_scale(self) -> bool:
        """Whether δ(ε) is 0 from the noise scale Δ/ε on, as for Laplace noise.

        Δ is the sensitivity. A search for the scale that meets (ε, δ) then compares δ
        itself, because log δ jumps to −infinity there.
        """
        return False

    @property
    def noise_name(self) -> str:
        """The name of the noise, for messages."""
        return "Gaussian"

    @property
    def space(self) -> str:
        """The name of the space on which the noise lives, for messages."""
        return "this space"


def _find_high_peaks(values: Array) -> NDArray[np.int64]:
    """Return the positions of the peaks that are nearly as high as the highest one.

    A peak is a value with no higher neighbor. The maximum of a function between the
    points of a grid lies next to such a peak of its values on the grid.

    Parameters
    ----------
    values : array
        The values of a function on a grid, in one dimension.

    Returns
    -------
    array of int
        The positions of the peaks.
    """
    left_is_not_higher = np.concatenate([[True], values[1:] >= values[:-1]])
    right_is_not_higher = np.concatenate([values[:-1] >= values[1:], [True]])
    is_high = values >= _NEARLY_HIGHEST * float(values.max())
    is_peak = left_is_not_higher & right_is_not_higher
    return np.nonzero(is_peak & is_high)[0]

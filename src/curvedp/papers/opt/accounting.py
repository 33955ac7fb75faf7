"""The privacy accounting of DP-RSVRG, variance-reduced private descent, in Utpala et
al. (2023), Claims 3 to 5. The notation is the paper's: n records, S epochs of m inner
steps, C₀ the clipping norm of full gradients, C₁ that of differences, and σ the noise
of a step, of which σ₁² = α·σ² belongs to the full gradient and σ₂² = (1 − α)·σ² to the
difference. NOT TO BE RELIED ON.

Claim 4 has two conditions, and the numbers of the paper's §6.2 use it at an order that
the second condition does not allow (docs/errata.md, E39). The functions are here to be
compared with exact accounting, `curvedp.privacy.optimizer_accounting`.
"""

import math

from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from curvedp.privacy import ZCDP

__all__ = [
    "best_split",
    "claim_4_applies",
    "claim_4_epsilon",
    "claim_4_largest_order",
    "moments_epsilon",
    "moments_rho",
    "moments_sigma",
    "one_step_moment_at_least",
    "true_delta_at_least",
]

# The clipping norms (C₀, C₁).
Pair = tuple[float, float]


def best_split(clip: Pair) -> float:
    """Return the α that minimizes equation (3): √2·C₀/(√2·C₀ + √28·C₁).

    α is the share of the variance σ² that belongs to the noise of the full gradient.

    Parameters
    ----------
    clip : (float, float)
        C₀ and C₁, the clipping norms of full gradients and of differences.

    Examples
    --------
    >>> round(best_split((1.0, 1.0)), 6) == round((math.sqrt(14) - 1) / 13, 6)
    True
    """
    full = math.sqrt(2) * clip[0]
    inner = math.sqrt(28) * clip[1]
    return full / (full + inner)


def moments_rho(
    n: int,
    epochs: int,
    inner_steps: int,
    clip: Pair,
    sigma: float,
    split: float | None = None,
) -> float:
    """Return ρ of equation (3), which bounds the moments of all steps: K(λ) ≤ λ(λ+1)·ρ.

    It is ρ = mS/(n²σ²) · (2C₀²/α + 28C₁²/(1 − α)). The paper uses the larger one of the
    two clipping norms for both.

    Parameters
    ----------
    n : int
        n, the number of records.
    epochs, inner_steps : int
        S, and the m inner steps of each epoch.
    clip : (float, float)
        C₀ and C₁, the clipping norms of full gradients and of differences.
    sigma : float
        σ > 0, the noise of a step per coordinate.
    split : float, optional
        α, the share of σ² for the full gradient; `best_split` if omitted. ½ is the usual
        setting.

    Examples
    --------
    >>> round(moments_rho(100_000, 50, 10_000, (0.1, 0.01), 0.05), 7)
    0.0007553
    """
    alpha = best_split(clip) if split is None else split
    full = 2 * clip[0] ** 2 / alpha
    inner = 28 * clip[1] ** 2 / (1 - alpha)
    return epochs * inner_steps / (n * sigma) ** 2 * (full + inner)


def moments_epsilon(
    n: int,
    epochs: int,
    inner_steps: int,
    clip: Pair,
    sigma: float,
    delta: float,
    split: float | None = None,
    conversion: str = "optimal",
) -> float:
    """Return the ε that equation (3) claims for DP-RSVRG at a δ.

    Parameters
    ----------
    n : int
        n, the number of records.
    epochs, inner_steps : int
        S, and the m inner steps of each epoch.
    clip : (float, float)
        C₀ and C₁, the clipping norms of full gradients and of differences.
    sigma : float
        σ > 0, the noise of a step per coordinate.
    delta : float
        δ in (0, 1).
    split : float, optional
        α, the share of σ² for the full gradient; `best_split` if omitted.
    conversion : {"optimal", "mironov"}
        The optimal conversion of Asoodeh et al. (2020), which §5.1 mentions; or
        Mironov's Proposition 3, ε = min K(λ)/λ + log(1/δ)/λ, which it displays.

    Examples
    --------
    >>> figure_2 = {"n": 100_000, "epochs": 50, "inner_steps": 10_000, "sigma": 0.05}
    >>> round(moments_epsilon(clip=(0.1, 0.01), delta=1e-6, **figure_2), 4)
    0.1576
    >>> exchanged = moments_epsilon(
    ...     clip=(0.01, 0.1), delta=1.3e-4, conversion="mironov", **figure_2
    ... )
    >>> round(exchanged, 2)
    0.47
    """
    rho = moments_rho(n, epochs, inner_steps, clip, sigma, split)
    if conversion == "mironov":
        # min over λ > 0 of (λ + 1)·ρ + log(1/δ)/λ
        return rho + 2 * math.sqrt(rho * math.log(1 / delta))
    return float(ZCDP(rho).epsilon(delta))


def moments_sigma(
    n: int, epochs: int, inner_steps: int, clip: Pair, eps: float, delta: float
) -> float:
    """Return the noise at which equation (3) claims (ε, δ), with its best split.

    Parameters
    ----------
    n : int
        n, the number of records.
    epochs, inner_steps : int
        S, and the m inner steps of each epoch.
    clip : (float, float)
        C₀ and C₁, the clipping norms of full gradients and of differences.
    eps, delta : float
        The guarantee that is claimed.

    Examples
    --------
    >>> round(moments_sigma(100_000, 50, 10_000, (0.1, 0.01), 0.1576, 1e-6), 3)
    0.05
    """
    rho = brentq(lambda r: float(ZCDP(r).epsilon(delta)) - eps, 1e-9, 10.0)
    unit = moments_rho(n, epochs, inner_steps, clip, 1.0)
    return math.sqrt(unit / rho)


def _inner_noise_ratio(clip: Pair, sigma: float, split: float | None) -> float:
    """Return r = σ₂²/16C₁², the noise of a difference over its squared sensitivity.

    Parameters
    ----------
    clip : (float, float)
        C₀ and C₁.
    sigma : float
        σ, the noise of a step.
    split : float, optional
        α; `best_split` if omitted.
    """
    alpha = best_split(clip) if split is None else split
    return (1 - alpha) * sigma**2 / (16 * clip[1] ** 2)


def claim_4_largest_order(
    n: int,
    clip: Pair,
    sigma: float,
    split: float | None = None,
    *,
    as_printed: bool = False,
) -> float:
    """Return the largest λ that Claim 4's second condition allows; 0 if there is none.

    As it is meant (Wang et al. 2019, Lemma 3.7), with r = σ₂²/16C₁²,

        λ ≤ (2/3)·r·log(n/((λ + 1)(1 + r))).

    The paper prints λ ≤ (2/3)·σ₂²·log n·(λ + 1)(1 + r).

    Parameters
    ----------
    n : int
        n, the number of records.
    clip : (float, float)
        C₀ and C₁, the clipping norms of full gradients and of differences.
    sigma : float
        σ > 0, the noise of a step per coordinate.
    split : float, optional
        α, the share of σ² for the full gradient; `best_split` if omitted.
    as_printed : bool
        Whether to take the printed condition instead of the one that is meant.

    Examples
    --------
    >>> round(claim_4_largest_order(100_000, (0.1, 0.01), 0.05), 2)
    2.79
    >>> round(claim_4_largest_order(100_000, (0.1, 0.01), 0.05, as_printed=True), 4)
    0.0075
    """
    r = _inner_noise_ratio(clip, sigma, split)
    if as_printed:
        # λ ≤ slope·(λ + 1), with σ₂² = 16C₁²·r.
        slope = 2 / 3 * 16 * clip[1] ** 2 * r * math.log(n) * (1 + r)
        return slope / (1 - slope) if slope < 1 else math.inf

    def allowed_minus_order(order: float) -> float:
        """Return the right side of the condition minus the left one; it falls with λ."""
        return 2 / 3 * r * math.log(n / ((order + 1) * (1 + r))) - order

    if allowed_minus_order(0.0) <= 0:
        return 0.0
    return float(brentq(allowed_minus_order, 0.0, float(n)))


def claim_4_applies(
    n: int, clip: Pair, sigma: float, order: float, split: float | None = None
) -> bool:
    """Return whether both conditions of Claim 4 hold at the order λ, as they are meant.

    They are σ₂² ≥ 12·C₁² (printed with σ) and λ ≤ `claim_4_largest_order`.

    Parameters
    ----------
    n : int
        n, the number of records.
    clip : (float, float)
        C₀ and C₁, the clipping norms of full gradients and of differences.
    sigma : float
        σ > 0, the noise of a step per coordinate.
    order : float
        λ > 0, the order of the moment.
    split : float, optional
        α, the share of σ² for the full gradient; `best_split` if omitted.

    Examples
    --------
    >>> claim_4_applies(100_000, (0.1, 0.01), 0.05, order=110)
    False
    """
    is_noisy_enough = 16 * _inner_noise_ratio(clip, sigma, split) >= 12
    return is_noisy_enough and order <= claim_4_largest_order(n, clip, sigma, split)


def claim_4_epsilon(
    n: int,
    epochs: int,
    inner_steps: int,
    clip: Pair,
    sigma: float,
    delta: float,
    split: float | None = None,
) -> float:
    """Return the least ε that equation (3) gives at orders which Claim 4 allows.

    The conversion is that of Canonne, Kamath and Steinke (2020), at the order λ + 1:
    ε = K(λ)/λ + log(λ/(λ+1)) + log(1/(δ(λ+1)))/λ. It decreases in λ up to the best
    order, which is far beyond the allowed ones. So the largest allowed order is used.

    Parameters
    ----------
    n : int
        n, the number of records.
    epochs, inner_steps : int
        S, and the m inner steps of each epoch.
    clip : (float, float)
        C₀ and C₁, the clipping norms of full gradients and of differences.
    sigma : float
        σ > 0, the noise of a step per coordinate.
    delta : float
        δ in (0, 1).
    split : float, optional
        α, the share of σ² for the full gradient; `best_split` if omitted.

    Examples
    --------
    >>> figure_2 = {"n": 100_000, "epochs": 50, "inner_steps": 10_000, "sigma": 0.05}
    >>> claim_4_epsilon(clip=(0.1, 0.01), delta=1e-6, **figure_2) > 4
    True
    """
    rho = moments_rho(n, epochs, inner_steps, clip, sigma, split)
    order = claim_4_largest_order(n, clip, sigma, split)
    if order == 0:
        return math.inf
    conversion = math.log(order / (order + 1))
    conversion += math.log(1 / (delta * (order + 1))) / order
    return (order + 1) * rho + conversion


def one_step_moment_at_least(
    n: int, clip: Pair, sigma: float, order: float, split: float | None = None
) -> float:
    """Return a lower bound on the moment K(λ) of one subsampled difference.

    Let two neighboring data sets share all records but one, which a step draws with
    probability 1/n. With a = λ + 1, Δ = 4C₁ and the laws P and Q of the step,
    E[(P/Q)^a] ≥ n^{−a}·e^{a(a−1)Δ²/2σ₂²}. The result is the logarithm of that bound. It
    can be compared with Claim 4, which bounds K(λ) from above by 28·λ(λ+1)·C₁²/(n²σ₂²).

    Parameters
    ----------
    n : int
        n, the number of records.
    clip : (float, float)
        C₀ and C₁, the clipping norms of full gradients and of differences.
    sigma : float
        σ > 0, the noise of a step per coordinate.
    order : float
        λ > 0, the order of the moment.
    split : float, optional
        α, the share of σ² for the full gradient; `best_split` if omitted.

    Examples
    --------
    >>> one_step_moment_at_least(100_000, (0.1, 0.01), 0.05, order=110) > 13_000
    True
    """
    a = order + 1
    r = _inner_noise_ratio(clip, sigma, split)
    return -a * math.log(n) + a * (a - 1) / (2 * r)


def true_delta_at_least(
    n: int, epochs: int, inner_steps: int, clip: Pair, sigma: float, eps: float
) -> float:
    """Return a lower bound on δ(ε) of all iterates of Algorithm 11 together.

    The bound is that of one test between two neighboring data sets D and D′: does any
    step exceed a threshold? Let the clipped gradient of every record be reversed between
    anchor and iterate, so that its difference has the length 2·C₁. Along one axis the
    difference is −2·C₁ for all records of D′, and +2·C₁ for one record of D. A step
    that draws this record, with probability 1/n, has the law N(2·C₁, σ²), and any other
    step N(−2·C₁, σ²). The best threshold is found by a search.

    Parameters
    ----------
    n : int
        n, the number of records.
    epochs, inner_steps : int
        S, and the m inner steps of each epoch.
    clip : (float, float)
        C₀ and C₁, the clipping norms of full gradients and of differences.
    sigma : float
        σ > 0, the noise of a step per coordinate.
    eps : float
        ε ≥ 0.

    Examples
    --------
    >>> true_delta_at_least(100_000, 50, 10_000, (0.01, 0.1), 0.05, 0.47) > 0.99
    True
    """
    steps = epochs * inner_steps
    distance = 4 * clip[1] / sigma

    def lower_bound(threshold: float) -> float:
        """Return the bound that the test with a threshold proves.

        The threshold is measured from −2·C₁, in units of σ.
        """
        # The probability that one step exceeds it, without and with the record.
        without_record = norm.sf(threshold)
        if_record_drawn = norm.sf(threshold - distance)
        with_record = without_record + (if_record_drawn - without_record) / n

        # The probability that any step exceeds it.
        any_with = -math.expm1(steps * math.log1p(-with_record))
        any_without = -math.expm1(steps * math.log1p(-without_record))
        return float(any_with - math.exp(eps) * any_without)

    best = minimize_scalar(
        lambda threshold: -lower_bound(threshold),
        bounds=(0.0, distance + 8),
        method="bounded",
    )
    return max(0.0, -float(best.fun))

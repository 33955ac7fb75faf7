"""Theorems 6 to 8 and the comparison of §5.3 of Utpala et al. (2023), with all
constants. The theorems prescribe parameters of private descent on F, the mean of n
functions that are L₀-Lipschitz and L-smooth, and bound the result. The notation is the
paper's: d the dimension, ζ the curvature constant, η the learning rate, m the inner
steps, S the epochs, K the restarts.

The paper states its rates up to constants and logarithms. The functions here return the
parameters that the proofs in its Appendix B.4 prescribe, and the bounds with every
constant, so that they can be compared with runs.

The noise is that of Claim 5, with its constant c₁. That claim rests on Claim 4, which
does not hold at the order at which it is used (docs/errata.md, E39). The bounds on the
risk hold for any noise: pass `sigma`.
"""

import math
from typing import NamedTuple

__all__ = [
    "Plan",
    "Rate",
    "claim_5_constant",
    "claim_5_sigma",
    "compare_rates",
    "curvature_constant",
    "theorem_6",
    "theorem_7",
    "theorem_8",
]

# μ₀ of Theorem 7 and of Zhang et al. (2016), whom its proof follows.
MU_0 = 1 / 10


class Plan(NamedTuple):
    """The parameters that a theorem prescribes, and what it promises for them.

    Attributes
    ----------
    learning_rate : float
        η.
    inner_steps, epochs, restarts : int
        m, S and K.
    sigma : float
        The noise of a step, per coordinate.
    bound : float
        On the expected excess risk, or on E‖grad F‖² for Theorem 7.
    gradients : int
        Calls of the gradient of one function: K·S·(n + 2m).
    """

    learning_rate: float
    inner_steps: int
    epochs: int
    restarts: int
    sigma: float
    bound: float
    gradients: int


def curvature_constant(lower: float, diameter: float) -> float:
    """Return ζ of §2: √|κ|·D/tanh(√|κ|·D) for κ < 0, else 1.

    Lemma 10 prints it without D (E32).

    Parameters
    ----------
    lower : float
        κ, a lower bound on the curvature.
    diameter : float
        D ≥ 0, the diameter of the region that holds all iterates.

    Examples
    --------
    >>> curvature_constant(0.0, 3.0), round(curvature_constant(-1.0, 2.0), 6)
    (1.0, 2.074629)
    """
    x = math.sqrt(max(-lower, 0.0)) * diameter
    return x / math.tanh(x) if x > 0 else 1.0


def claim_5_constant(eps: float, delta: float) -> float:
    """Return c₁ of Claim 5, which the paper leaves open.

    Its proof asks for λ(λ+1)·ρ ≤ λε/2 and e^{−λε/2} ≤ δ, where
    ρ = (√2 + √28)²·mSC²/(nσ)² at the best split. With λ = 2·log(1/δ)/ε this is
    σ² ≥ c₁·mS·log(1/δ)·C²/(nε)² with c₁ = 2·(√2 + √28)²·(2 + ε/log(1/δ)).

    Parameters
    ----------
    eps, delta : float
        The guarantee for which Claim 5 states the noise.

    Examples
    --------
    >>> round(claim_5_constant(1.0, 1e-6), 2)
    186.38
    """
    weight = (math.sqrt(2) + math.sqrt(28)) ** 2
    return 2 * weight * (2 + eps / math.log(1 / delta))


def claim_5_sigma(n: int, steps: int, clip: float, eps: float, delta: float) -> float:
    """Return the noise of Claim 5: σ² = c₁·steps·log(1/δ)·C²/(nε)².

    Parameters
    ----------
    n : int
        n, the number of records.
    steps : int
        The number of steps: mS, or mSK with restarts.
    clip : float
        C, the larger of the clipping norms C₀ and C₁.
    eps, delta : float
        The guarantee that the paper claims for it.

    Examples
    --------
    >>> round(claim_5_sigma(10_000, 100, 1.0, 1.0, 1e-6), 4)
    0.0507
    """
    square = claim_5_constant(eps, delta) * steps * math.log(1 / delta)
    return clip * math.sqrt(square) / (n * eps)


def theorem_6(
    n: int,
    dim: int,
    eps: float,
    delta: float,
    lipschitz: float,
    smooth: float,
    convex: float,
    zeta: float,
    start: float,
    sigma: float | None = None,
) -> Plan:
    """Plan Algorithm 11, output I, for a μ-strongly geodesically convex mean F.

    Theorem 6 sets x = μ²/(ζL²), η = μ/(17ζL²) and m = ⌈10/x⌉. Its proof uses the
    recurrence u_{t+1} ≤ q·u_t + 6ζη²L²·u₀ + dζη²σ² for u = E d²(w, w*), with
    q = 1 + 4ζη²L² − ημ. With this q an epoch multiplies u by 0.80 only. But strong
    convexity gives −2ημ instead of −ημ, hence q = 1 − 30x/289, and then an epoch at
    least halves u. So the bound is

        E[F(w_S) − F(w*)] ≤ L·2^{−S−1}·E d²(w₀, w*) + dσ²/(30L).

    Parameters
    ----------
    n, dim : int
        n, the number of records, and d, the dimension.
    eps, delta : float
        The guarantee for which Claim 5 states the noise.
    lipschitz : float
        L₀ > 0, the Lipschitz constant of each function, which is the clipping norm.
    smooth : float
        L > 0, the Lipschitz constant of each gradient.
    convex : float
        μ > 0, the constant of strong convexity of their mean.
    zeta : float
        ζ, by `curvature_constant`.
    start : float
        E d²(w₀, w*), the squared distance of the start from the minimizer.
    sigma : float, optional
        The noise of a step per coordinate; Claim 5's if omitted.

    Returns
    -------
    Plan
        Learning rate, numbers of steps, noise, and the bound with all constants.

    Examples
    --------
    >>> plan = theorem_6(10_000, 2, 1.0, 1e-6, 1.0, 1.0, 1.0, 1.0, 1.0)
    >>> plan.inner_steps, plan.epochs, plan.bound < 1e-3
    (10, 22, True)
    """
    x = convex**2 / (zeta * smooth**2)
    inner_steps = math.ceil(10 / x)
    rate = convex / (17 * zeta * smooth**2)

    # S is such that 2^{-S} balances the two terms of the paper's bound.
    noise = dim * zeta * math.log(1 / delta) * lipschitz**2
    ratio = (n * eps * convex) ** 2 * start / noise
    epochs = max(1, math.ceil(math.log2(max(ratio, 2.0)))) if sigma is None else 0
    if sigma is None:
        steps = inner_steps * epochs
        sigma = claim_5_sigma(n, steps, lipschitz, eps, delta)
    else:
        target = dim * sigma**2 / (15 * smooth**2)
        epochs = max(1, math.ceil(math.log2(max(start / target, 2.0))))
    bound = smooth * 2.0 ** (-epochs - 1) * start + dim * sigma**2 / (30 * smooth)
    gradients = epochs * (n + 2 * inner_steps)
    return Plan(rate, inner_steps, epochs, 1, sigma, bound, gradients)


def _lemma_12(
    n: int, smooth: float, zeta: float, rate: float, inner_steps: int
) -> tuple[float, float]:
    """Return the constants c₀ and min_t δ_t of Lemma 12, on which Theorems 7 and 8 rest.

    The lemma defines c_t backwards from c_m = 0 by c_t = c_{t+1}·(1 + βη + 2ζL²η²) +
    L³η², and δ_t = η − c_{t+1}·η/β − Lη² − 2c_{t+1}·ζη², with β = Lζ^{1/2}/n^{1/3}.

    Parameters
    ----------
    n : int
        n, the number of records.
    smooth, zeta : float
        L and ζ.
    rate : float
        η, the learning rate.
    inner_steps : int
        m.
    """
    beta = smooth * math.sqrt(zeta) / n ** (1 / 3)
    growth = 1 + beta * rate + 2 * zeta * (smooth * rate) ** 2
    step = smooth**3 * rate**2
    # c_t is a geometric sum and falls in t, so the extremes are at t = 0.
    c_0 = step * (growth**inner_steps - 1) / (growth - 1)
    c_1 = step * (growth ** (inner_steps - 1) - 1) / (growth - 1)
    least = rate - c_1 * rate / beta - smooth * rate**2 - 2 * c_1 * zeta * rate**2
    return c_0, least


def theorem_7(
    n: int,
    dim: int,
    eps: float,
    delta: float,
    lipschitz: float,
    smooth: float,
    zeta: float,
    gap: float,
    sigma: float | None = None,
) -> Plan:
    """Plan Algorithm 11, output II, for any smooth F: a bound on E‖grad F‖².

    Theorem 7 sets η = μ₀/(Ln^{2/3}ζ^{1/2}) and m = ⌊n/3μ₀⌋ with μ₀ = 1/10; S is taken as
    printed. Here c₀ and δ_n of Lemma 12 are computed, and not estimated as in the proof:

        E‖grad F(w)‖² ≤ (F(w₀) − F(w*))/(mSδ_n) + (L/2 + c₀ζ)·dη²σ²/δ_n.

    The proof estimates δ_n ≥ ν/(Ln^{2/3}ζ^{1/2}) with ν = ½. This is wrong for every
    ν > μ₀, because δ_n ≤ η; it holds for ν of about 0.08.

    Parameters
    ----------
    n, dim : int
        n, the number of records, and d, the dimension.
    eps, delta : float
        The guarantee for which Claim 5 states the noise.
    lipschitz : float
        L₀ > 0, the Lipschitz constant of each function, which is the clipping norm.
    smooth : float
        L > 0, the Lipschitz constant of each gradient.
    zeta : float
        ζ, by `curvature_constant`.
    gap : float
        F(w₀) − F(w*), the excess risk of the start.
    sigma : float, optional
        The noise of a step per coordinate; Claim 5's if omitted.

    Returns
    -------
    Plan
        Learning rate, numbers of steps, noise, and the bound with all constants.

    Examples
    --------
    >>> plan = theorem_7(10_000, 2, 1.0, 1e-6, 1.0, 1.0, 1.0, 1.0)
    >>> plan.inner_steps, plan.epochs
    (33333, 89)
    """
    rate = MU_0 / (smooth * n ** (2 / 3) * math.sqrt(zeta))
    inner_steps = int(n / (3 * MU_0))
    ratio = smooth * zeta * gap / (dim * math.log(1 / delta))
    epochs = max(1, math.ceil(math.sqrt(ratio) * n ** (2 / 3) * eps / lipschitz))
    steps = inner_steps * epochs
    if sigma is None:
        sigma = claim_5_sigma(n, steps, lipschitz, eps, delta)
    bound = _mean_square_gradient(
        n, dim, smooth, zeta, gap, rate, inner_steps, epochs, sigma
    )
    gradients = epochs * (n + 2 * inner_steps)
    return Plan(rate, inner_steps, epochs, 1, sigma, bound, gradients)


def _mean_square_gradient(
    n: int,
    dim: int,
    smooth: float,
    zeta: float,
    gap: float,
    rate: float,
    inner_steps: int,
    epochs: int,
    sigma: float,
) -> float:
    """Return the bound of Theorem 7 on E‖grad F‖² for given parameters.

    It is (F(w₀) − F(w*))/(mSδ) + (L/2 + c₀ζ)·dη²σ²/δ, with c₀ and δ of Lemma 12.

    Parameters
    ----------
    n, dim : int
        n, the number of records, and d, the dimension.
    smooth, zeta : float
        L and ζ.
    gap : float
        F(w₀) − F(w*), the excess risk of the start.
    rate : float
        η, the learning rate.
    inner_steps, epochs : int
        m and S.
    sigma : float
        σ, the noise of a step per coordinate.
    """
    c_0, least = _lemma_12(n, smooth, zeta, rate, inner_steps)
    descent = gap / (inner_steps * epochs * least)
    noise = (smooth / 2 + c_0 * zeta) * dim * (rate * sigma) ** 2 / least
    return descent + noise


def theorem_8(
    n: int,
    dim: int,
    eps: float,
    delta: float,
    lipschitz: float,
    smooth: float,
    zeta: float,
    pl: float,
    gap: float,
    sigma: float | None = None,
) -> Plan:
    """Plan Algorithm 12 for F with the PL condition F − F* ≤ τ·‖grad F‖².

    Theorem 8 uses η and m of Theorem 7. Here S is the least number of epochs for which
    the first term of that theorem's bound, times τ, is at most half the gap, so that a
    restart halves the gap. K is taken as printed. After K restarts

        E[F(w) − F(w*)] ≤ 2^{−K}·(F(w₀) − F(w*)) + 2τ·(L/2 + c₀ζ)·dη²σ²/δ_n.

    The S of the proof is proportional to n^{−1/3}, but there is at least one epoch. So
    the bound decreases like n^{−2} only while Lτζ^{1/2} is above about n^{1/3}, and then
    like n^{−5/3} (E48).

    Parameters
    ----------
    n, dim : int
        n, the number of records, and d, the dimension.
    eps, delta : float
        The guarantee for which Claim 5 states the noise.
    lipschitz : float
        L₀ > 0, the Lipschitz constant of each function, which is the clipping norm.
    smooth : float
        L > 0, the Lipschitz constant of each gradient.
    zeta : float
        ζ, by `curvature_constant`.
    pl : float
        τ > 0 of the PL condition.
    gap : float
        F(w₀) − F(w*), the excess risk of the start.
    sigma : float, optional
        The noise of a step per coordinate; Claim 5's if omitted.

    Returns
    -------
    Plan
        Learning rate, numbers of steps, noise, and the bound with all constants.

    Examples
    --------
    >>> plan = theorem_8(10_000, 2, 1.0, 1e-6, 1.0, 1.0, 1.0, 0.5, 1.0)
    >>> plan.epochs, plan.restarts
    (1, 17)
    """
    rate = MU_0 / (smooth * n ** (2 / 3) * math.sqrt(zeta))
    inner_steps = int(n / (3 * MU_0))
    c_0, least = _lemma_12(n, smooth, zeta, rate, inner_steps)
    epochs = max(1, math.ceil(2 * pl / (inner_steps * least)))
    noise = dim * smooth * (pl * lipschitz) ** 2 * math.log(1 / delta)
    ratio = (n * eps) ** 2 * gap / noise
    restarts = max(1, math.ceil(math.log(max(ratio, math.e))))
    steps = inner_steps * epochs * restarts
    if sigma is None:
        sigma = claim_5_sigma(n, steps, lipschitz, eps, delta)
    per_restart = (smooth / 2 + c_0 * zeta) * dim * (rate * sigma) ** 2 / least
    bound = 2.0**-restarts * gap + 2 * pl * per_restart
    gradients = restarts * epochs * (n + 2 * inner_steps)
    return Plan(rate, inner_steps, epochs, restarts, sigma, bound, gradients)


class Rate(NamedTuple):
    """A row of §5.3: a bound and a number of gradients, up to constants and logarithms.

    Attributes
    ----------
    method : str
        DP-RGD, DP-RSGD or DP-RSVRG.
    assumption : str
        On F: "strongly convex", "PL" or "nonconvex".
    bound : float
        On the excess risk; on ‖grad F‖² without convexity.
    gradients : float
        Number of gradients of one record.
    """

    method: str
    assumption: str
    bound: float
    gradients: float


def compare_rates(
    n: int,
    dim: int,
    eps: float,
    delta: float,
    lipschitz: float,
    smooth: float,
    convex: float,
    pl: float,
    zeta: float,
    start: float,
    gap: float,
) -> list[Rate]:
    """Return the comparison of §5.3, each expression as it is printed there.

    Two entries are reproduced as printed, although they must be mistakes. For the PL
    condition, DP-RSGD has log(n²ε²/…) gradients, and DP-RGD n times as many. Without
    convexity the bounds are called bounds "on the gradient norm", but Theorem 7 bounds
    the square of the norm.

    Parameters
    ----------
    n, dim : int
        n, the number of records, and d, the dimension.
    eps, delta : float
        The guarantee for which Claim 5 states the noise.
    lipschitz, smooth : float
        L₀ and L, the Lipschitz constants of each function and of its gradient.
    convex, pl : float
        μ of strong convexity, and τ of the PL condition.
    zeta : float
        ζ, by `curvature_constant`.
    start, gap : float
        E d²(w₀, w*) and F(w₀) − F(w*), how far the start is from the minimum.

    Returns
    -------
    list of Rate
        Three rows for each assumption on F.

    Examples
    --------
    >>> rows = compare_rates(1000, 2, 1.0, 1e-6, 1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 1.0)
    >>> [row.method for row in rows[:3]]
    ['DP-RGD', 'DP-RSGD', 'DP-RSVRG']
    """
    noise = dim * lipschitz**2 * math.log(1 / delta) / (n * eps) ** 2
    log_ratio = math.log(max(1 / noise, math.e))
    condition = smooth / convex

    convex_bound = zeta * noise * start * n / convex
    svrg_bound = zeta * noise * start * smooth / convex**2
    pl_bound = noise * gap / pl
    gradient_bound = lipschitz * math.sqrt(dim * smooth * math.log(1 / delta))
    gradient_bound /= n * eps
    root = lipschitz * math.sqrt(dim * math.log(1 / delta))
    svrg_calls = math.sqrt(smooth * zeta / (dim * math.log(1 / delta)))
    svrg_calls *= n ** (5 / 3) * eps / lipschitz
    pl_calls = smooth * pl * math.sqrt(zeta) * n ** (2 / 3)
    return [
        Rate("DP-RGD", "strongly convex", convex_bound, float(n) ** 2),
        Rate("DP-RSGD", "strongly convex", convex_bound, float(n) ** 3),
        Rate("DP-RSVRG", "strongly convex", svrg_bound, n + zeta * condition**2),
        Rate("DP-RGD", "PL", pl_bound, n * log_ratio),
        Rate("DP-RSGD", "PL", pl_bound, log_ratio),
        Rate("DP-RSVRG", "PL", noise * smooth * pl**2, pl_calls),
        Rate("DP-RGD", "nonconvex", gradient_bound,
             math.sqrt(smooth) * n**2 * eps / root),
        Rate("DP-RSGD", "nonconvex", gradient_bound,
             math.sqrt(smooth) * n * eps / root),
        Rate("DP-RSVRG", "nonconvex", gradient_bound, svrg_calls),
    ]  # fmt: skip

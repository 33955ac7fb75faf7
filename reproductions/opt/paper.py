"""DP-RSVRG as Utpala et al. (2023) have it, Algorithm 11 and its moments bound: for comparison, NOT to be relied on.

- The printed step subtracts the anchor's gradient (E11); `sign=+1` is what was meant.
- The anchor's gradient is noised anew at every inner step and charged each time (E12).
- Gradients are clipped one by one, so that a difference has sensitivity 4·C1.
- The subsampling bound (Claim 4) is proved for σ² ≥ 12·C1². Figure 2 uses it at σ = 0.05, C1 = 0.1, where it is false: see
  `true_delta_at_least`.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from curvedp.optim import Problem
from curvedp.optim._loop import clip_rows, noisy_gradient
from curvedp.privacy import ZCDP


def moments_rho(
    n: int,
    epochs: int,
    inner_steps: int,
    clip: tuple[float, float],
    sigma: float,
    split: float | None,
) -> float:
    """ρ with K(λ) ≤ λ(λ+1)ρ, equation (3); `split` is α, None for the best: α = √2C0/(√2C0 + √28C1)."""
    full, inner = 2 * clip[0] ** 2, 28 * clip[1] ** 2
    if split is None:
        split = math.sqrt(full) / (math.sqrt(full) + math.sqrt(inner))
    return (
        epochs * inner_steps / (n * sigma) ** 2 * (full / split + inner / (1 - split))
    )


def moments_epsilon(
    n: int,
    epochs: int,
    inner_steps: int,
    clip: tuple[float, float],
    sigma: float,
    delta: float,
    split: float | None = None,
) -> float:
    """ε of equation (3) by the optimal conversion; `split` ½ is the usual setting."""
    return float(
        ZCDP(moments_rho(n, epochs, inner_steps, clip, sigma, split)).epsilon(delta)
    )


def moments_sigma(
    n: int,
    epochs: int,
    inner_steps: int,
    clip: tuple[float, float],
    eps: float,
    delta: float,
) -> float:
    """The noise at which the paper claims (ε, δ), with its best split."""
    rho = brentq(lambda r: float(ZCDP(r).epsilon(delta)) - eps, 1e-9, 10.0)
    return math.sqrt(moments_rho(n, epochs, inner_steps, clip, 1.0, None) / rho)


def curvature_constant(lower: float, diameter: float) -> float:
    """ζ of §2: √|κ|D/tanh(√|κ|D) for κ < 0, else 1 (Lemma 10 prints it without D: E32).

    >>> curvature_constant(0.0, 3.0), round(curvature_constant(-1.0, 2.0), 6)
    (1.0, 2.074629)
    """
    x = math.sqrt(max(-lower, 0.0)) * diameter
    return x / math.tanh(x) if x > 0 else 1.0


def excess_risk_strongly_convex(
    n: int,
    dim: int,
    eps: float,
    delta: float,
    lipschitz: float,
    smooth: float,
    convex: float,
    zeta: float,
    start: float,
) -> float:
    """Theorem 6 up to its constant and logarithms: dζL·L₀²·log(1/δ)·E[d²(w₀, w*)]/(μ²n²ε²); `start` is that mean square.

    >>> excess_risk_strongly_convex(1000, 2, 1.0, 1e-6, 1.0, 1.0, 1.0, 1.0, 1.0) < 1e-4
    True
    """
    noise = dim * lipschitz**2 * math.log(1 / delta) / (n * eps) ** 2
    return zeta * smooth / convex**2 * noise * start


def gradient_norm_nonconvex(
    n: int,
    dim: int,
    eps: float,
    delta: float,
    lipschitz: float,
    smooth: float,
    gap: float,
) -> float:
    """Theorem 7 up to its constant c₄ (16): E‖grad F‖² ≤ L₀√(dL·log(1/δ)·(F(w₀) − F(w*)))/(nε); `gap` is the difference.

    >>> a, b = (gradient_norm_nonconvex(n, 2, 1.0, 1e-6, 1.0, 1.0, 1.0) for n in (1000, 2000))
    >>> a / b
    2.0
    """
    return lipschitz * math.sqrt(dim * smooth * math.log(1 / delta) * gap) / (n * eps)


def excess_risk_pl(
    n: int,
    dim: int,
    eps: float,
    delta: float,
    lipschitz: float,
    smooth: float,
    pl: float,
) -> float:
    """Theorem 8 up to its constant and logarithm (18): dLτ²·log(1/δ)·L₀²/(n²ε²), τ = `pl` of the PL condition.

    >>> a, b = (excess_risk_pl(n, 2, 1.0, 1e-6, 1.0, 1.0, 0.5) for n in (1000, 2000))
    >>> a / b
    4.0
    """
    return dim * smooth * pl**2 * math.log(1 / delta) * lipschitz**2 / (n * eps) ** 2


def claim_4_applies(clip: tuple[float, float], sigma: float) -> bool:
    """σ² ≥ 12·C1², the condition under which the subsampling bound is proved."""
    return sigma**2 >= 12 * clip[1] ** 2


def true_delta_at_least(
    n: int,
    epochs: int,
    inner_steps: int,
    clip: tuple[float, float],
    sigma: float,
    eps: float,
) -> float:
    """A lower bound on δ(ε) of Algorithm 11, by one test: does any step exceed c?

    Every record's gradient turns between anchor and iterate, so that its clipped difference is 2·C1 long: −2·C1 along one
    axis for all of D'; in D one record's is +2·C1. A step that draws it (chance 1/n) is N(2·C1, σ²), any other N(−2·C1, σ²).
    """
    steps, apart = epochs * inner_steps, 4 * clip[1] / sigma

    def gap(c: float) -> float:
        quiet = norm.sf(c)  # c in standard deviations above −2·C1
        drawn = quiet + (norm.sf(c - apart) - quiet) / n
        exceeds = [-math.expm1(steps * math.log1p(-p)) for p in (drawn, quiet)]
        return float(exceeds[0] - math.exp(eps) * exceeds[1])

    best = minimize_scalar(lambda c: -gap(c), bounds=(0.0, apart + 8), method="bounded")
    return max(0.0, -float(best.fun))


def paper_rsvrg(
    problem: Problem,
    data: Any,
    init: Any,
    epochs: int,
    inner_steps: int,
    clip: tuple[float, float],
    learning_rate: float,
    sigma: float,
    rng: np.random.Generator,
    sign: int = 1,
) -> np.ndarray:
    """Algorithm 11, output I, with `sign` = -1 as printed and +1 as meant; `sigma` is the noise of every step."""
    with jax.enable_x64(True):
        w, records = jnp.asarray(init), jnp.asarray(data)
        for _ in range(epochs):
            numbers = rng.integers(len(records), size=inner_steps)
            noise = sigma * rng.standard_normal((inner_steps, problem.manifold.dim))
            w = problem.manifold.project(
                _epoch(problem, records, w, clip, learning_rate, numbers, noise, sign)
            )
        return np.asarray(w)


@partial(jax.jit, static_argnames="problem")
def _epoch(
    problem: Problem,
    data: Any,
    anchor: Any,
    clip: Any,
    rate: Any,
    numbers: Any,
    noise: Any,
    sign: Any,
) -> Any:
    full = noisy_gradient(problem, anchor, data, None, len(data), clip[0])

    def step(w: Any, inputs: tuple[Any, Any]) -> tuple[Any, None]:
        number, xi = inputs

        here, there = (
            clip_rows(problem.gradients(p, data[number][None]), clip[1])[0]
            for p in (w, anchor)
        )
        return problem.move(
            w,
            -rate
            * (
                here
                - problem.carry(anchor, w, there)
                + sign * problem.carry(anchor, w, full)
                + xi
            ),
        ), None

    return jax.lax.scan(step, anchor, (numbers, noise))[0]

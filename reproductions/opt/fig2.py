"""Figure 2 of Utpala et al. (2023): ε against epochs at a fixed noise, the paper's bound beside exact accounting.

    python -m reproductions.opt.fig2

n = 10⁵, m = 10⁴ inner steps, δ = 10⁻⁶, noise σ on every step. The paper's two figures, 0.64 and 0.47, come out of its
equation (3) at 50 epochs with C0 = 0.01 and C1 = 0.1. There Claim 4's condition fails, and so does the bound.
"""

import math

from curvedp.privacy.optimizer_accounting import rsvrg_guarantee
from reproductions.opt.paper import (
    claim_4_applies,
    moments_epsilon,
    true_delta_at_least,
)

N, INNER, DELTA = 100_000, 10_000, 1e-6


def ours(epochs: int, clip: tuple[float, float], sigma: float, batch: int) -> float:
    """ε of our DP-RSVRG when σ₁² + σ₂² = σ², split as in the paper: noise on the averaged step as in the paper."""
    weights = (math.sqrt(2) * clip[0], math.sqrt(28) * clip[1])
    share = weights[0] / sum(weights)
    noise = (math.sqrt(share) * sigma, math.sqrt(1 - share) * sigma)
    return float(
        rsvrg_guarantee(N, epochs, INNER, batch, clip, noise, "poisson").epsilon(DELTA)
    )


def main(
    epochs: tuple[int, ...] = (1, 10, 50), sigmas: tuple[float, ...] = (0.1, 0.05)
) -> None:
    print(f"{'C0':>5}{'C1':>5}{'σ':>6}{'S':>4}{'paper ½':>9}{'paper α':>9}{'proved?':>9}{'true δ(ε of α) ≥':>18}"
          f"{'ours b=1':>10}{'ours b=16':>10}")  # fmt: skip
    for clip in ((0.01, 0.1), (0.1, 0.01)):
        for sigma in sigmas:
            for s in epochs:
                half, best = (
                    moments_epsilon(N, s, INNER, clip, sigma, DELTA, split)
                    for split in (0.5, None)
                )
                lower = true_delta_at_least(N, s, INNER, clip, sigma, best)
                proved = str(claim_4_applies(clip, sigma))
                print(f"{clip[0]:5}{clip[1]:5}{sigma:6}{s:4}{half:9.3f}{best:9.3f}{proved:>9}{lower:18.2g}"
                      f"{ours(s, clip, sigma, 1):10.4f}{ours(s, clip, sigma, 16):10.4f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()

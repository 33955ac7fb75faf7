"""Figure 2 of Utpala et al. (2023): ε against the number of epochs at a fixed noise, as
the paper claims it and by exact accounting.

    python -m curvedp.papers.opt.fig2

There are n = 10⁵ records, m = 10⁴ inner steps, and noise σ on every step. The paper does
not print δ. Its two numbers, 0.47 and 0.64, follow from equation (3) if the clipping
norms of the text are exchanged, with the conversion that §5.1 displays and
δ = 1.3·10⁻⁴. Claim 4 proves neither these numbers nor those with the norms of the text:
see the columns "order ≤" and "proved ε" (docs/errata.md, E25 and E39).
"""

import math

from curvedp.papers.opt.accounting import (
    best_split,
    claim_4_epsilon,
    claim_4_largest_order,
    moments_epsilon,
    true_delta_at_least,
)
from curvedp.privacy.optimizer_accounting import rsvrg_guarantee

# The paper's n and m, and the δ of its §6.3.
N, INNER, DELTA = 100_000, 10_000, 1e-6


def exact_epsilon(
    epochs: int, clip: tuple[float, float], sigma: float, batch: int
) -> float:
    """Return ε of our DP-RSVRG by exact accounting, at the paper's noise.

    The noise σ of an averaged step is split as in the paper: σ₁² = α·σ² for the full
    gradient, which we release once an epoch, and σ₂² = (1 − α)·σ² for the difference.

    Parameters
    ----------
    epochs : int
        The number of epochs.
    clip : (float, float)
        C₀ and C₁, the clipping norms of full gradients and of differences.
    sigma : float
        σ.
    batch : int
        The expected number of records of an inner step.
    """
    share = best_split(clip)
    noise = (math.sqrt(share) * sigma, math.sqrt(1 - share) * sigma)
    guarantee = rsvrg_guarantee(N, epochs, INNER, batch, clip, noise, "poisson")
    return float(guarantee.epsilon(DELTA))


def main() -> None:
    """Print ε, as claimed and as proved, for both readings of the clipping norms."""
    head = ("C0", "C1", "σ", "S", "paper ½", "paper α", "order ≤", "proved ε", "true δ ≥", "ours")  # fmt: skip
    print("".join(f"{title:>10}" for title in head))
    for clip in ((0.01, 0.1), (0.1, 0.01)):
        for sigma in (0.1, 0.05):
            for epochs in (1, 10, 50):
                half = moments_epsilon(N, epochs, INNER, clip, sigma, DELTA, 0.5)
                best = moments_epsilon(N, epochs, INNER, clip, sigma, DELTA)
                order = claim_4_largest_order(N, clip, sigma)
                proved = claim_4_epsilon(N, epochs, INNER, clip, sigma, DELTA)
                lower = true_delta_at_least(N, epochs, INNER, clip, sigma, best)
                ours = exact_epsilon(epochs, clip, sigma, 1)
                row = (*clip, sigma, epochs, half, best, order, proved, lower, ours)
                print("".join(f"{value:>10.4g}" for value in row), flush=True)


if __name__ == "__main__":
    main()

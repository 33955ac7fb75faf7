"""The baseline of `benchmarks/studies/utility_private.py`: as accurate as its paper says, and as private."""

from math import sqrt

import numpy as np

from benchmarks.coinpress import clipped_mean, coinpress_mean


def test_error_is_that_of_the_sample_and_little_more():
    """Biswas et al. 2020: at n ≫ d/√ρ the error is √(d/n) up to a small factor, wherever the ball's center is."""
    rng, d, n = np.random.default_rng(0), 10, 20_000
    errors = [
        np.linalg.norm(
            coinpress_mean(
                3 + rng.normal(size=(n, d)), np.zeros(d), 100 * sqrt(d), 0.5, rng
            )
            - 3
        )
        for _ in range(20)
    ]
    assert np.mean(errors) < 1.2 * sqrt(d / n)


def test_it_spends_what_it_is_given():
    """Noise read off at equal records, differences off neighbors: Σ ρ of the steps is at most ρ, and more than half of it."""

    class Told:
        def __init__(self):
            self.asked = []

        def standard_normal(self, d):
            self.asked.append(d)
            return np.zeros(d)

    n, d, rho, radius = 50, 3, 0.5, 20.0
    # without noise the path of centers is known, so that each step's noise follows from its published formulas
    gamma = sqrt(d + 2 * sqrt(d * np.log(100)) + 2 * np.log(100))
    shares = [rho / 36] * 9 + [3 * rho / 4]
    r, spent, told = radius, 0.0, Told()
    X = np.zeros((n, d))
    far, back = X.copy(), X.copy()
    far[0, 0], back[0, 0] = 1e9, -1e9
    coinpress_mean(X, np.zeros(d), radius, rho, told)
    assert told.asked == [d] * 10
    for share in shares:
        reach = min(r + gamma, sqrt(r * r + 6 * r + gamma**2))
        noise = 2 * reach / n / sqrt(2 * share)
        moved = np.linalg.norm(
            clipped_mean(far, np.zeros(d), reach)
            - clipped_mean(back, np.zeros(d), reach)
        )
        spent += moved**2 / (2 * noise**2)
        r = gamma * sqrt(1 / n + noise**2)
    assert rho / 2 < spent <= rho * (1 + 1e-9)

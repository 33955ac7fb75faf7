"""Draws of the affine-invariant Gaussian on SPD matrices: ours, pyRiemann's, and the Metropolis chain of the papers.

    python -m benchmarks.spd_sampling

Rates are draws per second in one process. For the chain it is the effective sample size of the square radius per
second, by initial positive sequences (Geyer 1992); it is not exact at any length. `fit` is the KS p-value of the
square radius against its exact law; n is 20,000 draws (pyRiemann 2,000: its sampler runs a chain of its own for m >
2).
"""

import math
import time

import numpy as np
from scipy.stats import kstest

from curvedp.geometry import SPDAffineInvariant
from curvedp.laws import RiemannianGaussian
from curvedp.laws.spd.envelopes import acceptance, sample_log_eigenvalues
from curvedp.laws.spd.normalizer import radial_cdf

CASES = [
    (2, 0.3),
    (2, 1.5),
    (3, 0.3),
    (3, 1.5),
    (5, 1.0),
    (10, 0.3),
    (10, 0.45),
    (20, 0.3),
]


def main() -> None:
    print(f"{'m':>3} {'σ':>5} {'envelope':>9} {'accepts':>8} {'ours/s':>10} {'fit':>8} {'floor':>7} {'chain ESS/s':>12}"
          f" {'pyRiemann/s':>12} {'fit':>8}")  # fmt: skip
    for m, sigma in CASES:
        rng = np.random.default_rng(0)
        name, rate = max(acceptance(m, sigma).items(), key=lambda item: item[1])
        n = 20_000 if m > 3 else 200_000
        sample_log_eigenvalues(rng, m, sigma, 1)  # set-up, cached
        seconds, X = timed(
            RiemannianGaussian(SPDAffineInvariant(m), sigma).sample, rng, np.eye(m), n
        )
        fit = radial_fit(X[:20_000], m, sigma)
        # the floor: the eigenvalues of as many symmetric matrices
        floor, _ = timed(np.linalg.eigvalsh, rng.standard_normal((n, m, m)))
        ess = metropolis_ess_per_second(rng, m, sigma)
        peer, peer_fit = pyriemann(m, sigma)
        print(f"{m:>3} {sigma:>5} {name:>9} {rate:>8.3f} {n / seconds:>10.0f} {fit:>8.1e} {seconds / floor:>6.1f}x"
              f" {ess:>12.0f} {peer:>12} {peer_fit:>8}")  # fmt: skip


def timed(work, *args, **options):
    start = time.perf_counter()
    result = work(*args, **options)
    return time.perf_counter() - start, result


def radial_fit(X, m, sigma):
    if not np.all(np.isfinite(X)):
        return 0.0
    eigenvalues = np.linalg.eigvalsh(X)
    if (
        np.min(eigenvalues) <= 0
    ):  # a condition number above 1e16 is not representable as a matrix of doubles
        return math.nan
    radius = np.linalg.norm(np.log(eigenvalues), axis=1)
    return float(kstest(radius, lambda r: radial_cdf(m, sigma, r)).pvalue)


def metropolis_ess_per_second(rng, m, sigma, steps=20_000):
    """Random walk on ρ with step 2.4σ/√m, the target's density up to its normalizer; 500 steps of burn-in."""
    i, j = np.triu_indices(m, 1)

    def log_density(rho):
        x = np.abs(rho[i] - rho[j]) / 2
        return -rho @ rho / (2 * sigma * sigma) + np.sum(x + np.log(-np.expm1(-2 * x)))

    rho = sigma * np.sort(rng.standard_normal(m))
    value, trace = log_density(rho), np.empty(steps)
    start = time.perf_counter()
    for k in range(steps):
        trial = rho + 2.4 * sigma / math.sqrt(m) * rng.standard_normal(m)
        candidate = log_density(trial)
        if math.log(rng.random()) < candidate - value:
            rho, value = trial, candidate
        trace[k] = rho @ rho
    seconds = time.perf_counter() - start
    x = trace[500:] - trace[500:].mean()
    spectrum = np.abs(np.fft.rfft(x, 2 * len(x))) ** 2
    correlation = np.fft.irfft(spectrum)[: len(x)] / np.sum(x * x)
    pairs = correlation[0:-1:2] + correlation[1::2]
    length = int(np.argmax(pairs <= 0)) if np.any(pairs <= 0) else len(pairs)
    return len(x) / (2 * np.sum(pairs[:length]) - 1) / seconds


def pyriemann(m, sigma):
    if m > 3:  # minutes for 2,000 draws
        return "", ""
    try:
        from pyriemann.datasets import sample_gaussian_spd
    except ImportError:
        return "absent", ""
    n = 2_000
    # its `sigma` is √m times the σ of the density
    try:
        seconds, X = timed(
            sample_gaussian_spd,
            n,
            np.eye(m),
            sigma * math.sqrt(m),
            random_state=0,
            n_jobs=1,
        )
    except Exception as error:  # a peer that fails is reported, not hidden
        return type(error).__name__, ""
    return f"{n / seconds:.0f}", f"{radial_fit(X, m, sigma):.1e}"


if __name__ == "__main__":
    main()

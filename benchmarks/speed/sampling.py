"""Cost of exact draws: against NumPy's own normals in the same run, and against the Markov chain of the papers.

Targets: at most 8 times the cost of as many ambient normals, 10⁶ draws (CorrelationOffLog(4) misses it);
SPDAffineInvariant(3): at least 2·10⁵ draws a second. Run with `python -m benchmarks.sampling`.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from curvedp.geometry import (
    CorrelationOffLog,
    Grassmann,
    HPDAffineInvariant,
    Lorentz,
    PoincareBall,
    SPDAffineInvariant,
    Sphere,
)
from curvedp.geometry.manifold import Manifold
from curvedp.laws import RiemannianGaussian, RiemannianLaplace

DRAWS = 1_000_000
CHAIN = 20_000


def best(*runs: Callable[[], Any], times: int) -> list[float]:
    """Shortest of several times of each, in seconds, taken in turns: other work on the machine then hits all alike."""
    spent = [[] for _ in runs]
    for _ in range(times):
        for run, seconds in zip(runs, spent, strict=True):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
    return [min(seconds) for seconds in spent]


def footpoint(manifold: Manifold) -> np.ndarray:
    """A point in no special place."""
    z = np.random.default_rng(1).standard_normal(manifold.dim)
    return np.asarray(
        manifold.exp(
            manifold.origin,
            manifold.from_coordinates(manifold.origin, 0.7 * z / np.linalg.norm(z)),
        )
    )


def metropolis(
    rng: np.random.Generator,
    manifold: Manifold,
    scale: float,
    center: np.ndarray,
    steps: int,
) -> np.ndarray:
    """Random-walk Metropolis–Hastings for exp(−d²/2σ²) as the papers run it, with its step tuned to about 1/3 acceptance.

    Returns the chain's distances to the center. The proposal exp_x(tangent Gaussian) is symmetric on symmetric spaces.
    """
    step = 1.6 * scale / np.sqrt(manifold.dim)
    x, radius = center, 0.0
    radii = np.empty(steps)
    noise = step * rng.standard_normal((steps, manifold.dim))
    threshold = rng.standard_exponential(steps)
    for i in range(steps):
        proposal = manifold.exp(x, manifold.from_coordinates(x, noise[i]))
        far = float(manifold.dist(center, proposal))
        if (far**2 - radius**2) / (2 * scale**2) < threshold[i]:
            x, radius = proposal, far
        radii[i] = radius
    return radii


def effective_size(series: np.ndarray) -> float:
    """Length over integrated autocorrelation time, summed until it turns negative (Geyer 1992)."""
    centered = series - series.mean()
    size = len(series)
    spectrum = np.fft.rfft(centered, 2 * size)
    correlation = np.fft.irfft(spectrum * np.conj(spectrum))[:size]
    correlation /= correlation[0]
    pairs = correlation[0 : size - 1 : 2] + correlation[1:size:2]
    last = int(np.argmax(pairs < 0)) if np.any(pairs < 0) else len(pairs)
    return float(size / max(2 * pairs[:last].sum() - 1, 1.0))


def main() -> None:
    """Prints both tables."""
    rng = np.random.default_rng(0)
    print(
        f"{DRAWS:,} exact draws, best of 9 (Sphere(50), SPD: 3); floor: as many ambient normals from NumPy"
    )
    print(f"{'law':<44}{'floor s':>9}{'ours s':>9}{'ratio':>8}{'draws/s':>12}")
    for law, target in (
        (RiemannianGaussian(Sphere(2), 0.5), 8.0),
        (RiemannianGaussian(Lorentz(2), 0.5), 8.0),
        (RiemannianGaussian(Sphere(50), 0.5), 8.0),
        (RiemannianLaplace(Sphere(2), 0.5), None),
        (RiemannianLaplace(Lorentz(2), 0.5), None),
        (RiemannianGaussian(PoincareBall(2), 0.5), None),
        (RiemannianGaussian(Grassmann(4, 1), 0.5), 8.0),
        (RiemannianGaussian(HPDAffineInvariant(2), 0.5), 8.0),
        (RiemannianGaussian(SPDAffineInvariant(2), 0.5), 8.0),
        (RiemannianGaussian(HPDAffineInvariant(3), 0.5), 8.0),
        (RiemannianGaussian(CorrelationOffLog(2), 0.5), 8.0),
        (RiemannianGaussian(CorrelationOffLog(4), 0.5), 8.0),
    ):
        times = 3 if law.manifold.dim > 10 else 9
        center = footpoint(law.manifold)
        shape = (DRAWS, *law.manifold.point_shape)
        floor, ours = best(
            lambda shape=shape: rng.standard_normal(shape),
            lambda law=law, center=center: law.sample(rng, center, DRAWS),
            times=times,
        )
        name = f"{type(law).__name__}({law.manifold}, {law.scale})"
        verdict = (
            ""
            if target is None
            else f"   target ≤ {target:g}: {'met' if ours / floor <= target else 'MISSED'}"
        )
        print(
            f"{name:<44}{floor:>9.3f}{ours:>9.3f}{ours / floor:>8.2f}{DRAWS / ours:>12,.0f}{verdict}"
        )

    for scale in (0.3, 1.0):
        law = RiemannianGaussian(SPDAffineInvariant(3), scale)
        center = footpoint(law.manifold)
        floor, ours = best(
            lambda: rng.standard_normal((DRAWS, 3, 3)),
            lambda law=law, center=center: law.sample(rng, center, DRAWS),
            times=3,
        )
        rate = DRAWS / ours
        name = f"{type(law).__name__}({law.manifold}, {law.scale})"
        verdict = f"   target ≥ 200,000/s: {'met' if rate >= 2e5 else 'MISSED'}"
        print(
            f"{name:<44}{floor:>9.3f}{ours:>9.3f}{ours / floor:>8.2f}{rate:>12,.0f}{verdict}"
        )

    print(
        f"\nMetropolis–Hastings as in the papers, {CHAIN:,} steps: what one effective draw costs, against one of ours"
    )
    print(
        f"{'manifold':<30}{'ess':>8}{'chain µs/eff. draw':>20}{'ours µs/draw':>15}{'ratio':>12}"
    )
    for manifold in (Sphere(2), Lorentz(2), Sphere(50), SPDAffineInvariant(3)):
        center, scale = footpoint(manifold), 0.5
        law = RiemannianGaussian(manifold, scale)
        start = time.perf_counter()
        radii = metropolis(rng, manifold, scale, center, CHAIN)
        per_effective = (time.perf_counter() - start) / effective_size(
            radii[CHAIN // 10 :]
        )
        ours = best(
            lambda law=law, center=center: law.sample(rng, center, DRAWS // 10), times=3
        )[0] / (DRAWS // 10)
        print(
            f"{manifold!r:<30}{effective_size(radii[CHAIN // 10 :]):>8.0f}{1e6 * per_effective:>20,.0f}"
            f"{1e6 * ours:>15.2f}{per_effective / ours:>12,.0f}"
        )


if __name__ == "__main__":
    main()

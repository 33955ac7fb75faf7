"""The affine-invariant Fréchet mean against pyRiemann's `mean_riemann`, both to ‖mean log‖ ≤ 1e-9, runs interleaved.

    OMP_NUM_THREADS=1 python -m benchmarks.frechet_mean

Our solver runs one thread a core; pyRiemann's batched LAPACK calls use one. `wall` is the best of the repeats, `cpu` the
least processor time over all threads: on a busy machine its ratio is the steadier figure, and leaves out what threads gain.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from pyriemann.geometry.mean import mean_riemann

from curvedp.geometry import SPDAffineInvariant, frechet_mean

CASES = ((100_000, 3, 0.6, 5.0), (10_000, 11, 0.3, 2.0), (1_000, 50, 0.1, 1.5))
REPEATS = 5


def matrices(rng: np.random.Generator, n: int, m: int, spread: float) -> np.ndarray:
    """G exp(S) Gᵀ with S a Gaussian symmetric matrix of the given entry size and one G for all."""
    S = rng.normal(scale=spread, size=(n, m, m))
    w, U = np.linalg.eigh((S + S.mT) / 2)
    G = np.eye(m) + rng.normal(size=(m, m)) / np.sqrt(m)
    half = G @ (U * np.exp(w / 2)[:, None, :])
    return half @ half.mT


def residual(X: np.ndarray, x: np.ndarray) -> float:
    """‖mean log‖ in the affine-invariant norm, by plain LAPACK."""
    inverse = np.linalg.inv(np.linalg.cholesky(x))
    w, U = np.linalg.eigh(inverse @ X @ inverse.T)
    return float(np.linalg.norm(np.mean((U * np.log(w)[:, None, :]) @ U.mT, axis=0)))


def timed(solve: Callable[..., np.ndarray], *args: object) -> tuple[float, float, np.ndarray]:
    wall, cpu = time.perf_counter(), time.process_time()
    x = solve(*args)
    return time.perf_counter() - wall, time.process_time() - cpu, x


def main() -> None:
    rng = np.random.default_rng(2026)
    head = ("ours wall", "cpu", "peer wall", "cpu", "ratio wall", "cpu", "goal")
    print(f"{'n × m×m':>16} " + " ".join(f"{name:>10}" for name in head) + "  residuals")
    for n, m, spread, goal in CASES:
        X = matrices(rng, n, m, spread)
        ours, peer = [], []
        for _ in range(REPEATS):
            ours.append(timed(frechet_mean, SPDAffineInvariant(m), X))
            peer.append(timed(partial(mean_riemann, tol=1e-9, maxiter=200), X))
        wall, cpu = (min(r[i] for r in ours) for i in (0, 1))
        peer_wall, peer_cpu = (min(r[i] for r in peer) for i in (0, 1))
        cells = [f"{t:9.3f}s" for t in (wall, cpu, peer_wall, peer_cpu)]
        cells += [f"{r:9.1f}×" for r in (peer_wall / wall, peer_cpu / cpu, goal)]
        errors = f"{residual(X, ours[-1][2]):.0e} / {residual(X, peer[-1][2]):.0e}"
        print(f"{f'{n} × {m}×{m}':>16} " + " ".join(cells) + f"  {errors}")


if __name__ == "__main__":
    main()

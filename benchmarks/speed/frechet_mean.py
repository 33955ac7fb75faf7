"""The affine-invariant Fréchet mean against pyRiemann's `mean_riemann`, both to ‖mean log‖ ≤ 1e-9, runs interleaved.

    python -m benchmarks.frechet_mean [repeats]

In the environment as it is: nobody's number of threads is set. `wall` is the best of the repeats, `cpu` the least processor
time over all threads: on a busy machine its ratio is the steadier figure, and leaves out what threads gain. The floor is one
pass over the data at this machine's speed: a batched `eigh` for m > 3, reading the data once for 3×3.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from curvedp.geometry import SPDAffineInvariant, frechet_mean

CASES = ((100_000, 3, 8.0), (10_000, 11, 2.5), (1_000, 50, 2.0), (50, 3, 1.5))


def spd(S: np.ndarray) -> np.ndarray:
    """exp of the symmetric part."""
    w, U = np.linalg.eigh((S + S.mT) / 2)
    return (U * np.exp(w)[:, None, :]) @ U.mT


def wishart(rng: np.random.Generator, n: int, m: int) -> np.ndarray:
    """Sample covariances of 2m draws."""
    A = rng.normal(size=(n, m, 2 * m))
    return A @ A.mT / (2 * m)


def near_identity(rng: np.random.Generator, n: int, m: int) -> np.ndarray:
    return spd(rng.normal(scale=0.1, size=(n, m, m)))


def ill_conditioned(rng: np.random.Generator, n: int, m: int) -> np.ndarray:
    """Wishart matrices seen through a congruence of condition 10³, which makes theirs about 10⁶."""
    Q = np.linalg.qr(rng.normal(size=(m, m)))[0]
    G = (Q * np.logspace(-1.5, 1.5, m)) @ Q.T
    return G @ wishart(rng, n, m) @ G.T


def clustered(rng: np.random.Generator, n: int, m: int) -> np.ndarray:
    """Five tight clusters."""
    L = np.linalg.cholesky(wishart(rng, 5, m))[rng.integers(5, size=n)]
    return L @ spd(rng.normal(scale=0.05, size=(n, m, m))) @ L.mT


SETS = (wishart, near_identity, ill_conditioned, clustered)


def residual(X: np.ndarray, x: np.ndarray) -> float:
    """‖mean log‖ in the affine-invariant norm, by plain LAPACK."""
    inverse = np.linalg.inv(np.linalg.cholesky(x))
    w, U = np.linalg.eigh(inverse @ X @ inverse.T)
    return float(np.linalg.norm(np.mean((U * np.log(w)[:, None, :]) @ U.mT, axis=0)))


def timed(
    solve: Callable[..., np.ndarray], *args: object
) -> tuple[float, float, np.ndarray]:
    wall, cpu = time.perf_counter(), time.process_time()
    x = solve(*args)
    return time.perf_counter() - wall, time.process_time() - cpu, x


def main(repeats: int) -> None:
    from pyriemann.geometry.mean import mean_riemann

    head = (
        "ours wall",
        "cpu",
        "peer wall",
        "cpu",
        "ratio wall",
        "cpu",
        "goal",
        "floor",
    )
    print(
        f"{'set':>16} {'n × m×m':>16} "
        + " ".join(f"{name:>10}" for name in head)
        + "  residuals"
    )
    for make in SETS:
        for n, m, goal in CASES:
            X = make(np.random.default_rng(2026), n, m)
            ours, peer = [], []
            for _ in range(repeats * (20 if n < 1000 else 1)):
                ours.append(timed(frechet_mean, SPDAffineInvariant(m), X))
                peer.append(timed(partial(mean_riemann, tol=1e-9, maxiter=200), X))
            floor = timed(np.linalg.eigh, X)[1] if m > 3 else timed(np.sum, X)[1]
            wall, cpu = (min(r[i] for r in ours) for i in (0, 1))
            peer_wall, peer_cpu = (min(r[i] for r in peer) for i in (0, 1))
            cells = [f"{t:9.4f}s" for t in (wall, cpu, peer_wall, peer_cpu)]
            cells += [
                f"{r:9.1f}×" for r in (peer_wall / wall, peer_cpu / cpu, goal)
            ] + [f"{floor:9.4f}s"]
            errors = f"{residual(X, ours[-1][2]):.0e} / {residual(X, peer[-1][2]):.0e}"
            print(
                f"{make.__name__:>16} {f'{n} × {m}×{m}':>16} "
                + " ".join(cells)
                + f"  {errors}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)

"""PrivateFrechetMean on arrays of JAX, torch and CuPy where they lie, against NumPy on the same machine's processor.

    python -m benchmarks.array_api_gpu results.json

Needs the package and whichever of the libraries are there; each part reports its own failure and the others go on. The mean
itself is compared too: it must be within twice the a-priori solver error of NumPy's. At most four minutes.
"""

import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from curvedp.core.statistic import Ball
from curvedp.geometry import SPDAffineInvariant, frechet_mean, project_to_ball
from curvedp.geometry.frechet_mean.backends.device import device_mean
from curvedp.geometry.frechet_mean.error_bound import solver_error
from curvedp.geometry.frechet_mean.public_ball import PublicBall
from curvedp.mechanisms import LogGaussianMechanism, frechet_mean_sensitivity
from curvedp.privacy import GDP

try:
    from curvedp import PrivateFrechetMean
except ImportError:  # a machine without scikit-learn: the same steps by hand
    PrivateFrechetMean = None  # type: ignore[assignment,misc]  # None says so below

CASES = ((3, 1_000_000, 1.5), (3, 10_000_000, 1.5), (11, 100_000, 1.0))
SECONDS = 220  # after which no further part is begun


def matrices(m: int, n: int, radius: float) -> np.ndarray:
    """n random SPD matrices about I, nearly all in the ball; at most 10⁶ different ones."""
    M, some = SPDAffineInvariant(m), min(n, 1_000_000)
    z = (
        np.random.default_rng(1).normal(
            scale=radius / 3 / np.sqrt(M.dim), size=(some, M.dim)
        )
        + 0.1 / M.dim
    )
    X = np.concatenate(
        [
            np.asarray(M.exp(np.eye(m), M.from_coordinates(np.eye(m), part)))
            for part in np.split(z, 10)
        ]
    )
    return np.tile(X, (n // some, 1, 1))


def on_jax(X: np.ndarray) -> Any:
    import jax

    with jax.enable_x64(True):
        return jax.block_until_ready(jax.device_put(X, jax.devices()[0]))


def on_torch(X: np.ndarray) -> Any:
    import torch

    array = torch.asarray(X, device="cuda" if torch.cuda.is_available() else "cpu")
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return array


def on_cupy(X: np.ndarray) -> Any:
    import cupy

    array = cupy.asarray(X)
    cupy.cuda.Device().synchronize()
    return array


LIBRARIES: dict[str, Callable[[np.ndarray], Any]] = {
    "jax": on_jax,
    "torch": on_torch,
    "cupy": on_cupy,
}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    value = work()
    return time.perf_counter() - start, value


def fit(M: SPDAffineInvariant, radius: float, X: Any) -> Any:
    if PrivateFrechetMean is not None:
        return PrivateFrechetMean(
            M, radius=radius, guarantee=GDP(1.0), mechanism="tangent-gaussian"
        ).fit(X)
    ball = Ball(np.eye(M.m), radius)
    moved = frechet_mean_sensitivity(M, radius, len(X)) + 2 * solver_error(M, radius)
    if isinstance(X, np.ndarray):
        mean = np.asarray(frechet_mean(M, project_to_ball(M, *ball, X)))
    else:
        mean, _ = device_mean(PublicBall(M, *ball), X)
    return LogGaussianMechanism.calibrated(
        M, moved, GDP(1.0), base=ball.center, radius=radius
    ).release(mean)


def main(path: str | None) -> None:
    begun, results = time.perf_counter(), []
    print(
        "through",
        "PrivateFrechetMean"
        if PrivateFrechetMean is not None
        else "LogGaussianMechanism",
        flush=True,
    )
    for m, n, radius in CASES:
        M, ball = SPDAffineInvariant(m), Ball(np.eye(m), radius)
        X = matrices(m, n, radius)
        fit(M, radius, X[:1000])  # whatever is set up once
        cpu, _ = timed(lambda M=M, radius=radius, X=X: fit(M, radius, X))
        mean = np.asarray(frechet_mean(M, project_to_ball(M, *ball, X)))
        row = {"m": m, "n": n, "library": "numpy", "fit_s": cpu}
        report(results, row, path)
        for name, move in LIBRARIES.items():
            if time.perf_counter() - begun > SECONDS:
                report(
                    results,
                    {"m": m, "n": n, "library": name, "skipped": "no time left"},
                    path,
                )
                continue
            try:
                transfer, there = timed(lambda move=move, X=X: move(X))
                first, _ = timed(
                    lambda M=M, radius=radius, there=there: fit(M, radius, there)
                )
                again, _ = timed(
                    lambda M=M, radius=radius, there=there: fit(M, radius, there)
                )
                solve, (found, _) = timed(
                    lambda M=M, ball=ball, there=there: device_mean(
                        PublicBall(M, *ball), there
                    )
                )
                off, allowed = float(M.dist(mean, found)), 2 * solver_error(M, radius)
                row = {
                    "m": m,
                    "n": n,
                    "library": name,
                    "device": str(getattr(there, "device", "?")),
                }
                row |= {
                    "transfer_s": transfer,
                    "first_fit_s": first,
                    "fit_s": again,
                    "mean_s": solve,
                }
                row |= {
                    "speedup": cpu / again,
                    "distance": off,
                    "allowed": allowed,
                    "equal": off <= allowed,
                }
                report(results, row, path)
                del there
            except Exception as error:  # a library that is absent or broken must not hide the others' figures
                report(
                    results,
                    {
                        "m": m,
                        "n": n,
                        "library": name,
                        "error": f"{type(error).__name__}: {error}",
                    },
                    path,
                )
            gc.collect()


def report(
    results: list[dict[str, Any]], row: dict[str, Any], path: str | None
) -> None:
    results.append(row)
    print(
        ", ".join(
            f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}"
            for k, v in row.items()
        ),
        flush=True,
    )
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)

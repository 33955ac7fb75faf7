"""DP-RGD over 10⁶ SPD matrices of order 11 on an accelerator, against the batched eigenvalue problems it cannot avoid.

    python -m benchmarks.optim_gpu [n]

Needs only the package and a JAX that sees the device; the same program runs on a processor (take n = 20000). A step is one
eigenvalue problem for each record's gradient, so the floor is a batched `eigh` of all n matrices, timed alone.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curvedp.geometry import SPDAffineInvariant
from curvedp.optim import FrechetMeanProblem
from curvedp.optim._loop import full_precision
from curvedp.optim.accounting import ACCELERATOR_BLOCK
from curvedp.optim.rgd import _steps

ORDER = 11


def best(run: Callable[[], Any], repeats: int = 3) -> float:
    """Shortest of several runs, compilation apart."""
    jax.block_until_ready(run())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return min(times)


def matrices(n: int, dtype: Any) -> Any:
    """n well-conditioned random SPD matrices, made on the device."""
    factors = jax.random.normal(jax.random.key(0), (n, ORDER, 3 * ORDER), dtype=dtype)
    return factors @ factors.mT / (3 * ORDER)


@jax.jit
def every_eigh(blocks: Any) -> Any:
    """The eigenvalue problems alone; their sum is returned so that none is optimised away."""

    def step(total: Any, block: Any) -> tuple[Any, None]:
        values, vectors = jnp.linalg.eigh(block)
        return total + jnp.sum(values) + jnp.sum(vectors), None

    return jax.lax.scan(step, jnp.zeros((), blocks.dtype), blocks)[0]


def main(n: int) -> None:
    problem = FrechetMeanProblem(SPDAffineInvariant(ORDER))
    block = min(n, ACCELERATOR_BLOCK)
    n = n // block * block
    print(f"{jax.devices()[0].device_kind}: {n} matrices of order {ORDER}")
    for dtype in ("float64", "float32"):
        with full_precision():
            data = jax.block_until_ready(matrices(n, dtype))
            floor = best(lambda data=data: every_eigh(data.reshape(-1, block, ORDER, ORDER)))
            steps = 5
            noise = 1e-6 * np.random.default_rng(1).standard_normal((steps, problem.manifold.dim))
            start = jnp.eye(ORDER, dtype=dtype)
            rates = np.full(steps, 0.5)
            step = best(lambda d=data, w=start, r=rates, x=noise: _steps(problem, d, w, 1.0, r, x, False)[0]) / steps
        print(
            f"  {dtype}: step {step * 1e3:8.1f} ms, eigenvalue problems alone {floor * 1e3:8.1f} ms, ratio {step / floor:.2f}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)

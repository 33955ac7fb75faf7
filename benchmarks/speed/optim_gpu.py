"""The optimizers on an accelerator: DP-RGD over 10⁶ SPD matrices, DP-RGD on Sphere(785), what privatization adds to a step.

    python -m benchmarks.optim_gpu [--n 1000000] [--json FILE]

The same program runs on a processor (take --n 20000). A full pass over SPD matrices is one eigenvalue problem for each
record's gradient, so its floor is a batched `eigh` of all n matrices, timed alone; that of a pass over vectors is Xᵀ(Xw).
Each part is printed as soon as it is done, and a part that fails is reported and does not end the others.
"""

import argparse
import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curvedp.geometry import SPDAffineInvariant
from curvedp.optim import (
    FrechetMeanProblem,
    LeadingEigenvectorProblem,
    dp_rgd,
    dp_rsgd,
    dp_rsvrg,
)
from curvedp.optim._compilation import full_precision
from curvedp.optim.rsgd import run_steps
from curvedp.papers.opt.timing import descent_without_privacy, private_descent
from curvedp.privacy.optimizer_accounting import ACCELERATOR_BLOCK

ORDER, AMBIENT = 11, 786
Figures = dict[str, Any]


def best(run: Callable[[], Any], repeats: int = 3) -> float:
    """Shortest of several runs in seconds, compilation apart."""
    jax.block_until_ready(run())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return min(times)


@jax.jit(static_argnums=(0, 1))
def matrices(n: int, dtype: str) -> Any:
    """n well-conditioned random SPD matrices, made on the device."""
    factors = jax.random.normal(jax.random.key(0), (n, ORDER, 2 * ORDER), dtype=dtype)
    return factors @ factors.mT / (2 * ORDER)


@jax.jit(static_argnums=(0, 1))
def vectors(n: int, dtype: str) -> Any:
    """n unit vectors of R^786 with a leading direction, made on the device."""
    z = (
        jax.random.normal(jax.random.key(1), (n, AMBIENT), dtype=dtype)
        .at[:, 3]
        .multiply(20)
    )
    return z / jnp.linalg.norm(z, axis=1, keepdims=True)


@jax.jit
def every_eigh(blocks: Any) -> Any:
    """The eigenvalue problems alone; their sum is returned so that none is optimized away."""

    def step(total: Any, block: Any) -> tuple[Any, None]:
        values, vectors = jnp.linalg.eigh(block)
        return total + jnp.sum(values) + jnp.sum(vectors), None

    return jax.lax.scan(step, jnp.zeros((), blocks.dtype), blocks)[0]


@jax.jit
def gradient_of_variance(data: Any, w: Any) -> Any:
    """Xᵀ(Xw): the two passes over the data that a gradient of -‖Xw‖² takes when nothing is clipped."""
    return (data @ w) @ data


def copy_rate() -> Figures:
    """Bytes a second, read and written, of a copy that does not fit in the cache."""
    x = jnp.ones(2**29, jnp.float32)
    spent = (
        best(jax.jit(lambda: x + 1), 5)
        if jax.default_backend() != "cpu"
        else float("nan")
    )
    return {
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "copy TB/s": 2 * x.nbytes / spent / 1e12,
    }


def eigenvalue_problems(n: int, dtype: str) -> Figures:
    """Batched `eigh` of all matrices by block: which block is best, and what the pass costs."""
    figures: Figures = {}
    for block in (4096, 16384, 32768, 65536):
        if block <= n:
            data = matrices(n // block * block, dtype).reshape(-1, block, ORDER, ORDER)
            figures[f"blocks of {block}, ms"] = (
                1e3 * best(lambda d=data: every_eigh(d)) * n / (n // block * block)
            )
    return figures


def rgd_spd(n: int, dtype: str) -> Figures:
    """A step of DP-RGD over n matrices against the eigenvalue problems alone, and the whole of `dp_rgd` on device data."""
    problem, block, steps = (
        FrechetMeanProblem(SPDAffineInvariant(ORDER)),
        min(n, ACCELERATOR_BLOCK),
        5,
    )
    n = n // block * block
    data = jax.block_until_ready(matrices(n, dtype))
    floor = best(lambda: every_eigh(data.reshape(-1, block, ORDER, ORDER)))
    noise = 1e-6 * jax.random.normal(
        jax.random.key(1), (steps, problem.manifold.dim), "float64"
    )
    start, rates = jnp.eye(ORDER, dtype=dtype), np.full(steps, 0.5)
    step = (
        best(
            lambda: run_steps(
                problem, data, start, 1.0, None, n, None, rates, noise, None
            )[0]
        )
        / steps
    )

    def whole() -> Any:
        return dp_rgd(problem, data, np.eye(ORDER, dtype=dtype), steps=20, clip=1.0, learning_rate=0.5, noise=1e-6,
                      rng=jax.random.key(2)).point  # fmt: skip

    return {"n": n, "step ms": 1e3 * step, "eigh alone ms": 1e3 * floor, "ratio": step / floor,
            "dp_rgd of 20 steps, records checked, noise from a key, s": best(whole, 1)}  # fmt: skip


def rgd_sphere(n: int, dtype: str) -> Figures:
    """A step of DP-RGD for the leading eigenvector of n images of R^786, against Xᵀ(Xw)."""
    problem, steps = LeadingEigenvectorProblem(AMBIENT), 20
    data, start = (
        jax.block_until_ready(vectors(n, dtype)),
        jnp.zeros(AMBIENT, dtype).at[0].set(1),
    )
    floor = best(lambda: gradient_of_variance(data, start), 10)
    noise = 1e-6 * jax.random.normal(
        jax.random.key(1), (steps, problem.manifold.dim), "float64"
    )
    step = (
        best(
            lambda: run_steps(
                problem,
                data,
                start,
                1.0,
                None,
                n,
                None,
                np.full(steps, 0.5),
                noise,
                None,
            )[0]
        )
        / steps
    )
    return {"n": n, "step ms": 1e3 * step, "X'(Xw) ms": 1e3 * floor, "ratio": step / floor,
            "GB read once": data.nbytes / 1e9}  # fmt: skip


def privatization(space: str, size: int, dtype: str) -> Figures:
    """A step of DP-RSGD with and without clipping and noise; noise from the host's cryptographic stream and from a key."""
    if space == "SPDAffineInvariant(11)":
        problem, data, init = (
            FrechetMeanProblem(SPDAffineInvariant(ORDER)),
            matrices(20_000, dtype),
            np.eye(ORDER),
        )
    else:
        problem, data, init = (
            LeadingEigenvectorProblem(AMBIENT),
            vectors(20_000, dtype),
            np.eye(1, AMBIENT)[0],
        )
    init = init.astype(dtype)

    def from_key(
        problem: Any, data: Any, init: Any, steps: int, size: int, rate: float
    ) -> Callable[[], None]:
        return lambda: dp_rsgd(problem, data, init, steps=steps, batch_size=size, clip=1.0, learning_rate=rate,
                               noise=1e-3, rng=jax.random.key(0)) and None  # fmt: skip

    # From the difference of two runs: accounting and the check of the records are done once a run. Steps on the sphere are so
    # short that a run needs several chunks of noise to be a long one.
    few, many = (300, 1300) if space == "SPDAffineInvariant(11)" else (10_000, 30_000)
    seconds = [
        (
            best(make(problem, data, init, many, size, 0.01), 1)
            - best(make(problem, data, init, few, size, 0.01), 1)
        )
        / (many - few)
        for make in (descent_without_privacy, private_descent, from_key)
    ]
    return {"plain µs": 1e6 * seconds[0], "private µs": 1e6 * seconds[1], "ratio": seconds[1] / seconds[0],
            "from a key µs": 1e6 * seconds[2], "ratio from a key": seconds[2] / seconds[0]}  # fmt: skip


def agreement(dtype: str) -> Figures:
    """The same noise on the accelerator and on the host: how far the results of the three optimizers are apart."""
    M = SPDAffineInvariant(ORDER)
    problem, data, init = (
        FrechetMeanProblem(M),
        np.asarray(matrices(5000, dtype)),
        np.eye(ORDER, dtype=dtype),
    )
    common: Figures = {"learning_rate": 0.3, "rng": None}

    def points() -> list[np.ndarray]:
        seeded = [{**common, "rng": np.random.default_rng(3)} for _ in range(3)]
        return [
            dp_rgd(problem, data, init, steps=8, clip=1.0, noise=1e-2, **seeded[0]).point,
            dp_rsgd(problem, data, init, steps=40, batch_size=200, clip=1.0, noise=1e-2, **seeded[1]).point,
            dp_rsvrg(problem, data, init, epochs=2, inner_steps=10, batch_size=200, clip=(1.0, 0.5), noise=(1e-2, 1e-2),
                     **seeded[2]).point,
        ]  # fmt: skip

    here = points()
    with jax.default_device(jax.devices("cpu")[0]):
        there = points()
    return {
        name: float(np.max(np.abs(a - b)) / np.max(np.abs(b)))
        for name, a, b in zip(
            ("dp_rgd", "dp_rsgd", "dp_rsvrg"), here, there, strict=True
        )
    }


def main(n: int, path: str | None) -> None:
    both = ("float64", "float32")
    parts: dict[str, Callable[[], Figures]] = {"machine": copy_rate}
    parts |= {f"DP-RGD, SPD(11), {d}": lambda d=d: rgd_spd(n, d) for d in both}
    parts |= {
        f"DP-RGD, Sphere(785), {d}": lambda d=d: rgd_sphere(min(n, 60_000), d)
        for d in both
    }
    parts |= {
        f"host and device, largest relative difference, {d}": lambda d=d: agreement(d)
        for d in both
    }
    parts |= {
        f"DP-RSGD, {space}, batch {size}, {d}": lambda space=space, size=size, d=d: privatization(space, size, d)
        for d in both for space in ("SPDAffineInvariant(11)", "Sphere(785)") for size in (1, 256)
    }  # fmt: skip
    parts |= {
        f"eigh of the matrices alone, {d}": lambda d=d: eigenvalue_problems(n, d)
        for d in both
    }
    figures: Figures = {}
    for name, part in parts.items():
        began = time.perf_counter()
        try:
            with full_precision():
                figures[name] = part()
        except (
            Exception
        ) as error:  # one failing part must not lose a machine that is lent for minutes
            traceback.print_exc()
            figures[name] = {"failed": repr(error)[:500]}
        row = ", ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                        for key, value in figures[name].items())  # fmt: skip
        print(f"{name}: {row}  [{time.perf_counter() - began:.0f} s]", flush=True)
        if path:
            Path(path).write_text(
                json.dumps(figures, ensure_ascii=False, indent=1) + "\n"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    main(arguments.n, arguments.json)

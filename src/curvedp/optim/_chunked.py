"""DP-RGD over a dask array: workers add up clipped gradients in fixed point, the client adds the noise and takes the steps.

The sums are exact (`geometry.fixed_point`), so the path does not depend on the chunks, and no round-off of a long float sum
has to be charged. The noise of each step is drawn on the client, once.
"""

import pickle
from functools import lru_cache, partial
from math import sqrt
from typing import Any

import jax
import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.numerics.fixed_point import FixedPoint
from curvedp.mechanisms.descent import ClippedGradient, DescentMechanism
from curvedp.optim._loop import Randomness, _on_manifold, chunks, clip_rows, full_precision, prepare, step_along
from curvedp.optim.problem import FrechetMeanProblem, Problem
from curvedp.optim.result import OptimResult, finished
from curvedp.privacy import Guarantee
from curvedp.privacy.descent import BLOCK, derive, rgd_guarantee, rgd_noise
from curvedp.records import ChunkedRecords, check_sizes


def chunked_rgd(
    problem: Problem,
    data: Any,
    init: Any,
    rates: np.ndarray,
    clip: float,
    guarantee: Guarantee | None,
    noise: float | None,
    rng: Any,
) -> OptimResult:
    """`dp_rgd` for a dask array, one pass over it a step."""
    import cloudpickle  # type: ignore[import-untyped]  # comes with dask

    check_sizes("data", data)
    with full_precision():
        w, _ = prepare(problem, np.zeros((2, *data.shape[1:])), init)  # checks the start and the records' shape
        records = ChunkedRecords(data, tuple(data.shape[1:]), "data")
        n, dim, steps, start = len(records), problem.manifold.dim, len(rates), np.asarray(w)
        if n < 2:
            raise ParameterError(f"data has {n} records; at least 2 are needed")
        grid = FixedPoint(2 * clip)
        charged = chunked_clip(clip, dim, w.dtype, n)
        sd, met = derive(
            guarantee,
            noise,
            lambda target: rgd_noise(n, steps, charged, target),
            lambda value: rgd_guarantee(n, steps, charged, value),
        )
        random, frozen = Randomness(rng), cloudpickle.dumps(problem)
        for part in chunks(steps, dim):
            xi = sd * np.asarray(random.normal(part.stop - part.start, dim))
            for rate, noisy in zip(rates[part], xi, strict=True):
                sums = records.sums(partial(_gradient_sums, frozen, start, np.asarray(w), clip, grid))
                w = _step(problem, w, rate, grid.mean(sums.reshape(2, -1), n) + noisy)
        mechanism = DescentMechanism(statistic=ClippedGradient(problem.manifold, charged, n), steps=steps, noise=sd)
        point = np.asarray(problem.manifold.project(w))
        return finished(mechanism, point, guarantee or met, sd, random)


def chunked_clip(clip: float, dim: int, dtype: Any, n: int) -> float:
    """The clipping norm that is charged: the round-off of a row's length, of its fixed point, and of the mean's n-fold."""
    grid = FixedPoint(2 * clip)
    length = clip * (1 + 2 * (dim + 8) * float(np.finfo(dtype).eps))
    return length + sqrt(dim) * (grid.resolution / 2 + n * clip * 2.0**-52)


_step = jax.jit(step_along, static_argnums=0)


# ---- on the workers ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _thawed(problem: bytes) -> Problem:
    """The problem, the same object for every task of a worker, so that its programs are compiled once."""
    thawed = pickle.loads(problem)
    assert isinstance(thawed, Problem)
    return thawed


def _gradient_sums(
    frozen: bytes, start: np.ndarray, w: np.ndarray, clip: float, grid: FixedPoint, chunk: np.ndarray
) -> np.ndarray:
    problem, total = _thawed(frozen), np.zeros((2, _thawed(frozen).manifold.dim), dtype=np.int64)
    with full_precision():
        for i in range(0, len(chunk), BLOCK):
            block = np.asarray(chunk[i : i + BLOCK]).astype(start.dtype, order="C")  # a row's sums depend on its layout
            if isinstance(problem, FrechetMeanProblem):
                block = np.asarray(_on_manifold(problem.manifold, start, block))
            # One shape, so that one program serves, and no row is ever in the odd rest of a vectorised loop.
            padded = np.concatenate([block, np.zeros((BLOCK - len(block), *block.shape[1:]), dtype=block.dtype)])
            rows = np.asarray(_clipped(problem, w, padded, clip), dtype=np.float64)[: len(block)]
            total += np.asarray(grid.sums(rows))
    return total.ravel()


@partial(jax.jit, static_argnums=0)
def _clipped(problem: Problem, w: Any, records: Any, clip: Any) -> Any:
    return clip_rows(problem.gradients(w, records), clip)

"""What the three optimizers share: records, clipping, and the steps' schedule."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from array_api_compat import is_array_api_obj
from jax.experimental.compilation_cache import compilation_cache

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.noisy_sum import ADD_REMOVE
from curvedp.optim._batches import batch_sum
from curvedp.optim._randomness import on_processor
from curvedp.optim.problem import (
    FrechetMeanProblem,
    LeadingEigenvectorProblem,
    Problem,
    SubspaceProblem,
)
from curvedp.privacy.optimizer_accounting import (
    ACCELERATOR_BLOCK,
    BLOCK,
    WHOLE_BITS,
    check_request,
)
from curvedp.records.chunked import refuse_chunked
from curvedp.records.persons import person_codes
from curvedp.records.tables import entries

_OF_THIS_LIBRARY = (
    FrechetMeanProblem,
    LeadingEigenvectorProblem,
    SubspaceProblem,
)  # not what a user derives from them
_DLPACK_CPU = 1  # kDLCPU of the DLPack standard
_CHUNK_BYTES = (
    1 << 23
)  # noise drawn on the host at a time, while the device works through the chunk before


@contextmanager
def full_precision() -> Iterator[None]:
    """Double precision exists, and float32 products are not rounded to fewer bits (as some accelerators do by default)."""
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


@contextmanager
def compiled_once(problem: Problem) -> Iterator[None]:
    """What JAX compiles inside is kept for the next process: seconds instead of a minute.

    Only for problems of this library: the program of a user's loss holds what the loss closes over, which may be records. The
    folder is the user's own, since what is in it is run; a folder that the user has named to JAX is left alone.
    """
    folder, own = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "curvedp",
        False,
    )
    if (
        type(problem) in _OF_THIS_LIBRARY
        and jax.config.jax_compilation_cache_dir is None
    ):
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            own = folder.stat().st_mode & 0o022 == 0  # nobody else can write to it
    try:
        if own:
            _keep_in(str(folder))
        yield
    finally:
        if own:
            _keep_in(None)


def _keep_in(folder: str | None) -> None:
    jax.config.update("jax_compilation_cache_dir", folder)
    compilation_cache.reset_cache()


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Persons:
    """Records in the order of their persons; where each person's begin, and how many there are."""

    records: Any
    first: Any
    count: Any

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, numbers: Any) -> "Persons":
        return replace(self, first=self.first[numbers], count=self.count[numbers])


def rows_of(data: Any, rows: Callable[[Any], Any]) -> Any:
    """`rows` of the records; or for each person the mean of the rows of their records, those that are not finite as zero.

    One record of everyone at a time: a person's mean is computed from their own records, in the same place of the same
    program, whatever the others have and however many.
    """
    if not isinstance(data, Persons):
        return rows(data)

    def add(j: Any, total: Any) -> Any:
        found = rows(data.records[data.first + jnp.minimum(j, data.count - 1)])
        usable = (j < data.count) & jnp.isfinite(found).all(axis=1)
        return total + jnp.where(usable[:, None], found, 0)

    row = jax.eval_shape(rows, data.records[:1])
    total = jnp.zeros((len(data), *row.shape[1:]), row.dtype)
    return jax.lax.fori_loop(0, jnp.max(data.count), add, total) / data.count[:, None]


def prepare(
    problem: Problem, data: Any, init: Any, groups: Any = None, least: int = 2
) -> tuple[Any, Any]:
    """Start and data as JAX arrays of the start's precision; records are mapped to their nearest points. With the ids of
    whose they are, `Persons`.

    Data that is already on an accelerator, as an array of JAX, torch or CuPy, stays there.
    """
    if not isinstance(problem, Problem):
        raise ParameterError(
            "must be a curvedp.optim.Problem", parameter="problem", value=problem
        )
    manifold = problem.manifold
    start = np.asarray(_array("init", init))
    if start.dtype not in (np.float32, np.float64):
        start = _validate.array("init", start)
    if (
        start.shape != manifold.point_shape
        or not np.isfinite(start).all()
        or not manifold.residual(start) <= 1e-3
    ):
        raise ParameterError(
            f"init must be a point of {manifold!r}, of shape {manifold.point_shape}"
        )
    start = manifold.project(start).astype(start.dtype)
    refuse_chunked("data", data)
    records = _given(data, problem.record_shape)
    if records.ndim < 1 or len(records) < least:
        raise ParameterError(
            f"data has no first axis, or too few records along it; at least {least} are needed"
        )
    if not any(
        jnp.issubdtype(records.dtype, kind) for kind in (jnp.integer, jnp.floating)
    ):
        raise ParameterError(f"data has dtype {records.dtype}; it must be numbers")
    shape = problem.record_shape
    if shape is not None and records.shape[1:] != shape:
        given, needed = (
            f"(n, {', '.join(map(str, size))})" for size in (records.shape[1:], shape)
        )
        raise ParameterError(
            f"data has shape {given}; {type(problem).__name__} on {manifold!r} needs {needed}"
        )
    records = records.astype(start.dtype)
    if isinstance(problem, FrechetMeanProblem) and len(records):
        records = _on_manifold(manifold, start, records)
    _check_scalar(problem, start, records)
    if groups is None:
        return jnp.asarray(start), jnp.asarray(records)
    codes = person_codes(groups, len(records), least)
    count = np.bincount(codes)
    held = jnp.asarray(records)[np.argsort(codes, kind="stable")]
    return jnp.asarray(start), Persons(
        held, jnp.asarray(np.cumsum(count) - count), jnp.asarray(count)
    )


def _given(data: Any, shape: tuple[int, ...] | None) -> Any:
    """Records as an array. What lists, tables, object and masked arrays hold is data: NaN where it is not a number."""
    if (
        is_array_api_obj(data)
        and not isinstance(data, np.ma.MaskedArray)
        and data.dtype != object
    ):
        return _array("data", data)
    if shape is None:  # a loss of one's own takes records of any shape
        shape = _validate.public_shape("data", data)[1:]
    return entries("data", data, shape)


def _array(name: str, values: Any) -> Any:
    """A JAX array as it is; an array of another library on an accelerator as a JAX array there; anything else in NumPy."""
    if isinstance(values, jax.Array):
        return values
    values = (
        values.detach() if hasattr(values, "detach") else values
    )  # a torch tensor that has a gradient
    try:
        if (
            hasattr(values, "__dlpack_device__")
            and values.__dlpack_device__()[0] != _DLPACK_CPU
        ):
            return jax.dlpack.from_dlpack(values)
        return np.asarray(values)
    except (TypeError, ValueError):  # whose message may quote records
        raise ParameterError(
            f"{name} cannot be read as an array of numbers, but is {type(values).__name__}"
        ) from None


def _on_manifold(manifold: Manifold, start: np.ndarray, records: Any) -> Any:
    """Each record on its own: its nearest point, or the public start if it is not finite or has none."""
    if isinstance(records, np.ndarray):
        parts = [
            _mapped(manifold, start, records[i : i + BLOCK])
            for i in range(0, len(records), BLOCK)
        ]
        return np.concatenate(parts)
    size = BLOCK if on_processor() else ACCELERATOR_BLOCK
    # One block after the other: see the note in `rsvrg`.
    each = (records[i : i + size] for i in range(0, len(records), size))
    return jnp.concatenate(
        [_mapped_jit(manifold, start, part).block_until_ready() for part in each]
    )


def _mapped(manifold: Manifold, start: np.ndarray, block: Any) -> Any:
    xp: Any = np if isinstance(block, np.ndarray) else jnp
    mask = (len(block),) + (1,) * start.ndim
    finite = xp.isfinite(block).reshape(len(block), -1).all(axis=1)
    points = manifold.from_record(xp.where(finite.reshape(mask), block, start))
    usable = finite & xp.isfinite(points).reshape(len(block), -1).all(axis=1)
    return xp.where(usable.reshape(mask), points, start).astype(block.dtype)


_mapped_jit = jax.jit(_mapped, static_argnums=0)


def _check_scalar(problem: Problem, start: np.ndarray, records: Any) -> None:
    try:
        value = jax.eval_shape(
            problem.loss, start, jax.ShapeDtypeStruct(records.shape[1:], records.dtype)
        )
        shape, dtype = value.shape, value.dtype
    except Exception as error:  # whatever a caller's code raises on shapes alone
        why = (str(error).splitlines() or [type(error).__name__])[0]
        if isinstance(error, jax.errors.TracerArrayConversionError):
            own = "write it, and the kernels of a manifold of your own, with jax.numpy or array_namespace"
            why = f"it calls NumPy; {own}"
        line = (
            f"loss(w, z) cannot be evaluated on a record of shape {records.shape[1:]}"
        )
        raise ParameterError(f"{line}: {why}") from None
    if shape != ():
        raise ParameterError(
            f"loss(w, z) returned an array of shape {shape}; it must return a number"
        )
    if not jnp.issubdtype(dtype, jnp.floating):
        raise ParameterError(
            f"loss(w, z) returned {dtype}; it must return a real number that has a gradient"
        )


def is_added(guarantee: Any, noise: Any) -> bool:
    """Whether n is private, which only a guarantee can say."""
    check_request(guarantee, noise, "replace-one", ADD_REMOVE)
    return guarantee is not None and guarantee.adjacency == ADD_REMOVE


def rates(learning_rate: float | Callable[[int], float], steps: int) -> np.ndarray:
    """The learning rate of each step, from a number or from a schedule step -> rate."""
    values = (
        [learning_rate(step) for step in range(steps)]
        if callable(learning_rate)
        else [learning_rate] * steps
    )
    return np.array(
        [
            _validate.within("learning_rate", value, 0, 1e300, open_low=True)
            for value in values
        ]
    )


def recorded(record_history: int, steps: int) -> np.ndarray:
    """Which steps end with the objective recorded: none (False), every one (True), or every so many (a number)."""
    asked = int(record_history) if isinstance(record_history, bool) else record_history
    every = _validate.integer("record_history", asked, 0)
    return (
        np.arange(1, steps + 1) % every == 0 if every else np.zeros(steps, dtype=bool)
    )


def objective_if(mark: Any, problem: Problem, w: Any, data: Any) -> Any:
    """The objective at w where it is to be recorded; None where nothing is."""
    if mark is None:
        return None

    def objective() -> Any:
        if not isinstance(data, Persons):
            return problem.objective(w, data).astype(w.dtype)
        return jnp.mean(
            rows_of(data, jax.vmap(lambda z: problem.loss(w, z)[None]))
        ).astype(w.dtype)

    return jax.lax.cond(mark, objective, lambda: jnp.full((), jnp.nan, w.dtype))


def chunks(steps: int, dim: int) -> Iterator[slice]:
    """Runs of steps whose noise fits in memory; all but the last have the same length, so that one program serves."""
    length = max(1, min(steps, _CHUNK_BYTES // (8 * dim)))
    for start in range(0, steps, length):
        yield slice(start, min(start + length, steps))


def _scaled(rows: Any, clip: Any) -> tuple[Any, Any]:
    """(rows/C, min(1, C/‖row‖)): the factor is 0 for a row whose squared length over C² is not finite.

    An entry that is not finite becomes the largest number: its square is infinite, and it times the factor 0 is 0.
    """
    # Divided by C first: a length that underflows is then far below C, whatever C is.
    scaled = rows / clip
    scaled = jnp.where(jnp.isfinite(scaled), scaled, jnp.finfo(rows.dtype).max)
    # Soundness, not only speed: were the rows computed again for the sum, with other roundings, a row of cancelling terms
    # could be longer there than here.
    scaled = jax.lax.optimization_barrier(scaled)
    square = jnp.sum(jnp.square(scaled), axis=-1)
    return scaled, jnp.where(
        jnp.isfinite(square), 1 / jnp.maximum(1, jnp.sqrt(square)), 0
    )


def clip_rows(rows: Any, clip: Any) -> Any:
    """Each row scaled to length at most `clip`: min(1, C/‖g‖)·g. A row that is not finite contributes nothing."""
    scaled, factor = _scaled(rows, clip)
    return clip * (factor[..., None] * scaled)


def clipped_total(rows: Any, clip: Any, inside: Any = True) -> Any:
    """Σ clip(row) over the rows `inside`, as one matrix product; on an accelerator as one kernel.

    Summed in double precision whatever the rows': a sum's round-off grows with n, and is charged as sensitivity.
    """
    scaled, factor = _scaled(rows, clip)
    factor, scaled = (
        jnp.where(inside, factor, 0).astype(jnp.float64),
        scaled.astype(jnp.float64),
    )
    return clip * (
        factor @ scaled if on_processor() else jnp.sum(factor[:, None] * scaled, axis=0)
    )


def summed(data: Any, part: Callable[[Any], Any]) -> Any:
    """Σ part(block) over all records or persons, block by block: memory does not grow with n."""

    def block(start: Any) -> Any:
        return (
            data[start + jnp.arange(size)]
            if isinstance(data, Persons)
            else slice_of(data, start, size)
        )

    size, slice_of = (
        BLOCK if on_processor() else ACCELERATOR_BLOCK,
        jax.lax.dynamic_slice_in_dim,
    )
    whole = len(data) // size * size
    rest = part(data[whole:]) if whole < len(data) else 0
    if not whole:
        return rest
    kind = jax.eval_shape(lambda: part(block(0)))
    total, starts = jnp.zeros(kind.shape, kind.dtype) + rest, jnp.arange(0, whole, size)
    return jax.lax.scan(
        lambda acc, start: (acc + part(block(start)), None), total, starts
    )[0]


def noisy_mean(
    data: Any,
    batch: Any,
    size: int,
    clip: Any,
    scale: Any,
    xi: Any,
    rows: Callable[[Any], Any],
    total: Any = None,
) -> Any:
    """Clipped rows summed over a step's batch, or over all records where there is none, divided by the size, with noise;
    `total` makes coordinates of their sum.

    With a `scale` n is private: the scale stands for C over a noisy count, and ξ is in units of C. What is summed then are
    whole multiples of C/2^20, exactly in any order: no round-off grows with n, and nothing that is charged or written down
    depends on it.
    """

    def part(some: Any, inside: Any = True) -> Any:
        found = rows_of(some, rows)
        if scale is None:
            return clipped_total(found, clip, inside)
        whole = jnp.rint(
            clip_rows(found / clip, 1.0).astype(jnp.float64) * 2.0**WHOLE_BITS
        ).astype(jnp.int64)
        return jnp.sum(jnp.where(jnp.reshape(inside, (-1, 1)), whole, 0), axis=0)

    if batch is None:
        found = summed(data, part)
    else:
        found = batch_sum(
            batch, size, lambda numbers, inside: part(data[numbers], inside)
        )
    if scale is None:
        return (found if total is None else total(found)) / size + xi
    return scale * (jnp.clip(found, -(2**53), 2**53) * 2.0**-WHOLE_BITS + xi)


def noisy_gradient(
    problem: Problem,
    w: Any,
    data: Any,
    batch: Any,
    size: int,
    clip: Any,
    scale: Any = None,
    xi: Any = 0.0,
) -> Any:
    """`noisy_mean` of the gradients at w, in coordinates."""
    if scale is None:
        return noisy_mean(
            data,
            batch,
            size,
            clip,
            None,
            xi,
            partial(problem.slopes, w),
            partial(problem.total, w),
        )
    return noisy_mean(data, batch, size, clip, scale, xi, partial(problem.gradients, w))


def step_along(problem: Problem, w: Any, rate: Any, gradient: Any) -> Any:
    """exp_w(-rate·gradient) for a noisy gradient in coordinates and doubles; a step out of the floats is not taken."""
    moved = problem.move(w, (-rate * gradient).astype(w.dtype))
    return jnp.where(jnp.isfinite(moved).all(), moved, w)

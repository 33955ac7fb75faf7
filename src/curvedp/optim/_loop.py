"""Functions that all private optimizers use: read records, clip, add noise, take a
step. A run calls `prepare_start_and_records` first. Each of its steps then releases a
`noisy_gradient` and moves its current point, the iterate, by `step_along`.
"""

import os
import sys
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
from curvedp.numerics.arrays import detach, is_on_accelerator
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
)
from curvedp.records.chunked import refuse_chunked
from curvedp.records.persons import encode_persons
from curvedp.records.tables import to_float_records

# Problems whose compiled programs may be cached. Problems that a user derives from these
# may not, because their loss may contain records.
_LIBRARY_PROBLEMS = (FrechetMeanProblem, LeadingEigenvectorProblem, SubspaceProblem)

# How many bytes of noise the host draws at a time, while the device computes the steps
# of the chunk before.
_CHUNK_BYTES = 1 << 23

# A start whose `Manifold.residual` is at most this is projected to the manifold; a start
# farther away is refused.
_MAX_START_RESIDUAL = 1e-3

# Sums of exact integers are clipped to this size before they are converted to doubles.
_MAX_EXACT_INTEGER = 2**53


@contextmanager
def full_precision() -> Iterator[None]:
    """Let JAX compute in double precision and with full products inside a `with` block.

    By default JAX has no doubles, and some accelerators round the products of float32
    numbers to fewer bits. The settings are restored at the end of the block.
    """
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


@contextmanager
def compiled_once(problem: Problem) -> Iterator[None]:
    """Cache on disk the programs that JAX compiles inside a `with` block.

    The next process then need not compile them, which takes most of a minute. Only
    programs of this library's own problems are cached: the compiled program of a user's
    loss contains the variables that the loss refers to, which may be records. The
    folder must belong to the user alone, because the programs in it are executed. If
    the user has set a cache folder in JAX, nothing is changed.

    Parameters
    ----------
    problem : Problem
        The problem that is minimized inside the block.
    """
    folder = None
    is_cacheable = type(problem) in _LIBRARY_PROBLEMS
    if is_cacheable and jax.config.jax_compilation_cache_dir is None:
        folder = _own_cache_folder()
    try:
        if folder is not None:
            _set_cache_folder(str(folder))
        yield
    finally:
        if folder is not None:
            _set_cache_folder(None)


def _own_cache_folder() -> Path | None:
    """Return the user's cache folder of curvedp, or None if others can write to it.

    JAX executes the programs that it finds in this folder, so no one else may be able
    to put a program there.

    Returns
    -------
    Path or None
        `$XDG_CACHE_HOME/curvedp` or `~/.cache/curvedp`, which is made if it is missing;
        None if it cannot be made, belongs to another user, or lets others write.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache) / "curvedp"
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        others_can_write = status.st_mode & 0o022 != 0  # the group or anyone
        # Windows has no owner in this sense, and its folders count as writable.
        is_own = sys.platform != "win32" and status.st_uid == os.geteuid()
        if is_own and not others_can_write:
            return folder
    return None


def _set_cache_folder(folder: str | None) -> None:
    """Tell JAX where to keep compiled programs between processes.

    Parameters
    ----------
    folder : str or None
        The folder; None to keep them nowhere.
    """
    jax.config.update("jax_compilation_cache_dir", folder)
    compilation_cache.reset_cache()


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Persons:
    """Records sorted by the people to whom they belong, as a sequence of people.

    Its length is the number of people, and an index selects people, not records.

    Attributes
    ----------
    records : array of shape (n_records, …)
        All records, those of one person next to each other.
    first : array of shape (n_persons,)
        The position at which the records of each person begin.
    count : array of shape (n_persons,)
        The number of records of each person.
    """

    records: Any
    first: Any
    count: Any

    def __len__(self) -> int:
        """Return the number of people."""
        return len(self.first)

    def __getitem__(self, person_numbers: Any) -> "Persons":
        """Return some of the people; all records are shared, not copied.

        Parameters
        ----------
        person_numbers : slice or array of int
            The numbers of the people to select.

        Returns
        -------
        Persons
            These people, in this order.
        """
        return replace(
            self, first=self.first[person_numbers], count=self.count[person_numbers]
        )


def rows_of(data: Any, rows: Callable[[Any], Any]) -> Any:
    """Return one row of numbers for each record, or the mean row of each person.

    A row is the contribution of one record, such as its gradient or its loss. The result
    has one row for each unit of privacy, a record or a person, and the caller clips
    each row.

    The row of a person is the mean over their records, where rows that are not finite
    count as zero. The loop first adds the row of everyone's first record, then that of
    everyone's second one, and so on. So the mean of a person is computed from their own
    records by the same operations in the same order, whatever the records of other
    people are. This must stay so: otherwise a rounding error could depend on the
    records of others and reveal something about them.

    Parameters
    ----------
    data : array or Persons
        The records; as `Persons`, sorted by person, with the position of each person's
        first record and their number of records.
    rows : callable
        rows(records) returns one row for each record.

    Returns
    -------
    array of shape (n, …)
        n is the number of records, or of people.
    """
    if not isinstance(data, Persons):
        return rows(data)

    def add_record(record_number: Any, total: Any) -> Any:
        """Add the row of every person's record of this number, where there is one.

        Parameters
        ----------
        record_number : traced int
            0 for everyone's first record, 1 for the second, and so on.
        total : array of shape (n_persons, …)
            The sum of each person's rows so far.

        Returns
        -------
        array of shape (n_persons, …)
            The sums with one more row of each person who has so many records.
        """
        # A person with fewer records reads their last one, which is not added.
        position = data.first + jnp.minimum(record_number, data.count - 1)
        person_rows = rows(data.records[position])
        is_finite = jnp.isfinite(person_rows).all(axis=1)
        is_usable = (record_number < data.count) & is_finite
        return total + jnp.where(is_usable[:, None], person_rows, 0)

    # The shape and type of a row, found without computing one.
    row_shape = jax.eval_shape(rows, data.records[:1])
    zero = jnp.zeros((len(data), *row_shape.shape[1:]), row_shape.dtype)
    total = jax.lax.fori_loop(0, jnp.max(data.count), add_record, zero)
    return total / data.count[:, None]


def prepare_start_and_records(
    problem: Problem, data: Any, init: Any, groups: Any = None, min_records: int = 2
) -> tuple[Any, Any]:
    """Check a user's start and records, and return them as JAX arrays.

    Both get the precision of the start. For a Fréchet mean every record is replaced by
    the nearest point of the manifold. Data that is already on an accelerator, as an
    array of JAX, torch or CuPy, stays there.

    Parameters
    ----------
    problem : Problem
        The manifold and the loss to minimize.
    data : array of shape (n, …)
        One record for each row, as the user gave it.
    init : point
        The public start.
    groups : sequence of n ids, optional
        The person to whom each record belongs. None if every record is a person of its
        own.
    min_records : int
        With fewer records, or fewer people, the data is refused.

    Returns
    -------
    start : array of shape point_shape
        The start, projected to the manifold.
    records : array, or Persons with `groups`
        The records on the device where JAX computes.

    Raises
    ------
    ParameterError
        If the problem, the start, the shape of the records or the loss is not valid.
        The values of records never raise an error, because an error about them would
        reveal something about the data.
    """
    if not isinstance(problem, Problem):
        raise ParameterError(
            "must be a curvedp.optim.Problem", parameter="problem", value=problem
        )
    start = _project_start(problem.manifold, init)
    records = _convert_records(problem, data, min_records).astype(start.dtype)
    if isinstance(problem, FrechetMeanProblem) and len(records):
        records = _on_manifold(problem.manifold, start, records)
    _check_loss(problem, start, records)
    if groups is None:
        return jnp.asarray(start), jnp.asarray(records)
    return jnp.asarray(start), _by_person(records, groups, min_records)


def _project_start(manifold: Manifold, init: Any) -> np.ndarray:
    """Check the public start, and project it to the manifold in its own precision.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the descent.
    init : array of shape point_shape
        The start that the user gave. Its precision becomes that of the whole run.

    Returns
    -------
    array of shape point_shape
        The nearest point of the manifold, in float32 or float64.

    Raises
    ------
    ParameterError
        If it has another shape, is not finite, or is far from the manifold.
    """
    start = np.asarray(_to_array("init", init))
    if start.dtype not in (np.float32, np.float64):
        start = _validate.array("init", start)
    is_point = (
        start.shape == manifold.point_shape
        and np.isfinite(start).all()
        and manifold.residual(start) <= _MAX_START_RESIDUAL
    )
    if not is_point:
        raise ParameterError(
            f"init must be a point of {manifold!r}, of shape {manifold.point_shape}"
        )
    return np.asarray(manifold.project(start).astype(start.dtype))


def _convert_records(problem: Problem, data: Any, min_records: int) -> Any:
    """Convert the records to an array of numbers; check it without reading a value.

    Parameters
    ----------
    problem : Problem
        The problem, whose `record_shape` the records must have.
    data : array, table or list
        The records as the user gave them.
    min_records : int
        With fewer records the data is refused.

    Returns
    -------
    array of shape (n, …)
        The records; an entry that cannot be read as a number is NaN.

    Raises
    ------
    ParameterError
        If the records have another shape or type, or are too few.
    """
    refuse_chunked("data", data)
    records = _read_records(data, problem.record_shape)
    if records.ndim < 1 or len(records) < min_records:
        raise ParameterError(
            "data has no first axis, or too few records along it; at least "
            f"{min_records} are needed"
        )
    is_numeric = jnp.issubdtype(records.dtype, jnp.integer) or jnp.issubdtype(
        records.dtype, jnp.floating
    )
    if not is_numeric:
        raise ParameterError(f"data has dtype {records.dtype}; it must be numbers")
    shape = problem.record_shape
    if shape is not None and records.shape[1:] != shape:
        actual = f"(n, {', '.join(map(str, records.shape[1:]))})"
        needed = f"(n, {', '.join(map(str, shape))})"
        raise ParameterError(
            f"data has shape {actual}; {type(problem).__name__} on "
            f"{problem.manifold!r} needs {needed}"
        )
    return records


def _by_person(records: Any, groups: Any, min_persons: int) -> Persons:
    """Return the records sorted by person.

    Parameters
    ----------
    records : array of shape (n, …)
        One record for each row.
    groups : sequence of n ids
        The person of each record.
    min_persons : int
        With fewer people the data is refused.

    Returns
    -------
    Persons
        The records of each person next to each other, in the order of `records`.
    """
    person_index = encode_persons(groups, len(records), min_persons)
    count = np.bincount(person_index)
    first = np.cumsum(count) - count  # the number of records of all earlier people
    ordered = jnp.asarray(records)[np.argsort(person_index, kind="stable")]
    return Persons(ordered, jnp.asarray(first), jnp.asarray(count))


def _read_records(data: Any, record_shape: tuple[int, ...] | None) -> Any:
    """Return records as an array.

    In lists, tables, object arrays and masked arrays an entry that is not a number
    becomes NaN. It raises no error, because its value is private.

    Parameters
    ----------
    data : array, table or list
        The records as the user gave them.
    record_shape : tuple of int, or None
        The shape of one record; None if the loss takes any shape.

    Returns
    -------
    array of shape (n, …)
        The records.
    """
    is_plain_array = (
        is_array_api_obj(data)
        and not isinstance(data, np.ma.MaskedArray)
        and data.dtype != object
    )
    if is_plain_array:
        return _to_array("data", data)
    if record_shape is None:
        # The user's own loss accepts records of any shape: take that of the data.
        record_shape = _validate.public_shape("data", data)[1:]
    return to_float_records("data", data, record_shape)


def _to_array(name: str, values: Any) -> Any:
    """Return an array of JAX or NumPy without moving it off its device.

    An array of JAX is returned as it is; an array of another library on an accelerator
    becomes a JAX array there; anything else becomes a NumPy array.

    Parameters
    ----------
    name : str
        The name of the argument, for the error message.
    values : array-like
        The numbers as the user gave them.

    Returns
    -------
    array
        The same numbers, as an array of JAX or NumPy.

    Raises
    ------
    ParameterError
        If they cannot be read as an array of numbers.
    """
    if isinstance(values, jax.Array):
        return values
    values = detach(values)
    try:
        if is_on_accelerator(values):
            return jax.dlpack.from_dlpack(values)
        return np.asarray(values)
    except (TypeError, ValueError):
        # The message of these errors may quote records, so it is not shown.
        raise ParameterError(
            f"{name} cannot be read as an array of numbers, but is "
            f"{type(values).__name__}"
        ) from None


def _on_manifold(manifold: Manifold, start: np.ndarray, records: Any) -> Any:
    """Map each record to its nearest point of the manifold.

    A record without a nearest point is replaced by the public start, so that no data
    raise an error.

    Parameters
    ----------
    manifold : Manifold
        The manifold on which the records should be.
    start : array of shape point_shape
        The public start.
    records : array of shape (n, *point_shape)
        A NumPy array is mapped by NumPy, a JAX array by JAX where it is.

    Returns
    -------
    array of shape (n, *point_shape)
        Points of the manifold, of the same library as `records`.
    """
    if isinstance(records, np.ndarray):
        blocks = [
            _nearest_points(manifold, start, records[i : i + BLOCK])
            for i in range(0, len(records), BLOCK)
        ]
        return np.concatenate(blocks)

    # One block is computed after the other. Two batched decompositions at the same time
    # share XLA's threads and can wait for each other forever (seen on two cores).
    size = BLOCK if on_processor() else ACCELERATOR_BLOCK
    blocks = []
    for i in range(0, len(records), size):
        block = _nearest_points_jit(manifold, start, records[i : i + size])
        blocks.append(block.block_until_ready())
    return jnp.concatenate(blocks)


def _nearest_points(manifold: Manifold, start: np.ndarray, block: Any) -> Any:
    """Map a block of records to their nearest points, in NumPy or JAX.

    A record that is not finite, or has no nearest point, becomes the public start.

    Parameters
    ----------
    manifold : Manifold
        The manifold on which the records should be.
    start : array of shape point_shape
        The public start.
    block : array of shape (k, *point_shape)
        Records.

    Returns
    -------
    array of shape (k, *point_shape)
        Points of the manifold.
    """
    xp: Any = np if isinstance(block, np.ndarray) else jnp

    # One truth value for each record, with axes of length 1 for the axes of a point.
    mask_shape = (len(block),) + (1,) * start.ndim
    is_finite = xp.isfinite(block).reshape(len(block), -1).all(axis=1)
    safe_block = xp.where(is_finite.reshape(mask_shape), block, start)
    points = manifold.from_record(safe_block)
    has_point = xp.isfinite(points).reshape(len(block), -1).all(axis=1)
    is_usable = (is_finite & has_point).reshape(mask_shape)
    return xp.where(is_usable, points, start).astype(block.dtype)


_nearest_points_jit = jax.jit(_nearest_points, static_argnums=0)


def _check_loss(problem: Problem, start: np.ndarray, records: Any) -> None:
    """Raise an error if the loss does not return one real number.

    JAX traces the loss with the shapes and types of its arguments. No value of a record
    is read.

    Parameters
    ----------
    problem : Problem
        The problem whose `loss(w, z)` is checked.
    start : array
        A point w; only its shape and its precision are used.
    records : array of shape (n, …)
        The records z; only their shape and their type are used.

    Raises
    ------
    ParameterError
        If the loss raises an error, or returns something other than a real number.
    """
    record_shape = records.shape[1:]
    record = jax.ShapeDtypeStruct(record_shape, records.dtype)
    try:
        value = jax.eval_shape(problem.loss, start, record)
        shape = value.shape
        dtype = value.dtype
    except Exception as error:  # any error of the caller's code; it has seen no value
        lines = str(error).splitlines() or [type(error).__name__]
        reason = lines[0]
        if isinstance(error, jax.errors.TracerArrayConversionError):
            reason = (
                "it calls NumPy; write it with jax.numpy, and the kernels of your own "
                "manifold with jax.numpy or array_namespace"
            )
        raise ParameterError(
            "loss(w, z) cannot be evaluated on a record of shape "
            f"{record_shape}: {reason}"
        ) from None
    if shape != ():
        raise ParameterError(
            f"loss(w, z) returned an array of shape {shape}; it must return a number"
        )
    if not jnp.issubdtype(dtype, jnp.floating):
        raise ParameterError(
            f"loss(w, z) returned {dtype}; it must return a real number that has a "
            "gradient"
        )


def learning_rates(
    learning_rate: float | Callable[[int], float], steps: int
) -> np.ndarray:
    """Return the learning rate of each step as an array of shape (steps,).

    Parameters
    ----------
    learning_rate : float or callable
        One rate for all steps, or a schedule that maps the number of a step to its
        rate.
    steps : int
        The number of steps of the descent.

    Returns
    -------
    array of shape (steps,)
        The rate by which each step multiplies the gradient.

    Raises
    ------
    ParameterError
        If a rate is not a positive finite number.
    """
    if callable(learning_rate):
        values = [learning_rate(step) for step in range(steps)]
    else:
        values = [learning_rate] * steps
    checked = [
        _validate.within("learning_rate", value, 0, 1e300, open_low=True)
        for value in values
    ]
    return np.array(checked)


def recorded_steps(record_history: int, steps: int) -> np.ndarray:
    """Return for each step whether the objective is recorded after it.

    Parameters
    ----------
    record_history : bool or int
        False records nothing, True every step, and a number k every k-th step.
    steps : int
        The number of steps of the descent.

    Returns
    -------
    array of booleans, shape (steps,)
        True after every k-th step.
    """
    if isinstance(record_history, bool):
        record_history = int(record_history)
    interval = _validate.integer("record_history", record_history, 0)
    if interval == 0:
        return np.zeros(steps, dtype=bool)
    return np.asarray(np.arange(1, steps + 1) % interval == 0)


def join_history(objectives: list[Any], is_recorded: np.ndarray) -> np.ndarray:
    """Return the recorded objectives of all chunks of steps, one after the other.

    Parameters
    ----------
    objectives : list of arrays
        The objectives of each chunk, with a place for every step.
    is_recorded : array of booleans
        True for the steps that were recorded.

    Returns
    -------
    array
        The objective after each recorded step. It is NOT private.
    """
    every_step = np.concatenate([np.asarray(part) for part in objectives])
    return np.asarray(every_step[is_recorded.ravel()])


def objective_if(is_recorded: Any, problem: Problem, w: Any, data: Any) -> Any:
    """Return the mean loss at w if this step is recorded, and NaN if not. NOT private.

    Parameters
    ----------
    is_recorded : traced boolean, or None
        Whether this step is recorded. None means that no step is: then None is returned
        and nothing is compiled.
    problem : Problem
        The manifold and the loss.
    w : array of shape point_shape
        The iterate.
    data : array or Persons
        The records. With people, the mean is over people of their mean loss.

    Returns
    -------
    traced float, or None
        The mean loss or NaN; None if nothing is recorded in this run.
    """
    if is_recorded is None:
        return None

    def objective() -> Any:
        """Return the mean loss over records, or over people of their mean loss."""
        if not isinstance(data, Persons):
            return problem.objective(w, data).astype(w.dtype)
        losses = rows_of(data, jax.vmap(lambda z: problem.loss(w, z)[None]))
        return jnp.mean(losses).astype(w.dtype)

    def not_recorded() -> Any:
        """Return NaN, which stands for an objective that was not computed."""
        return jnp.full((), jnp.nan, w.dtype)

    return jax.lax.cond(is_recorded, objective, not_recorded)


def chunks(steps: int, numbers_per_step: int) -> Iterator[slice]:
    """Cut the steps into chunks whose noise and batches fit in memory.

    All chunks but the last have the same length, so that they use the same compiled
    program.

    Parameters
    ----------
    steps : int
        The number of all steps.
    numbers_per_step : int
        How many numbers are drawn for each step, for its noise or its batch.

    Yields
    ------
    slice
        The steps of one chunk, among all steps. Its numbers take at most 8 MiB.
    """
    length = max(1, min(steps, _CHUNK_BYTES // (8 * numbers_per_step)))
    for start in range(0, steps, length):
        yield slice(start, min(start + length, steps))


def _clip_factors(rows: Any, clip: Any) -> tuple[Any, Any]:
    """Return the rows divided by C, and the factors min(1, C/‖row‖) that clip them.

    A clipped row is C times its factor times the scaled row. Callers sum the clipped
    rows in different ways.

    Parameters
    ----------
    rows : array of shape (n, dim)
        One row of numbers, such as a gradient, for each record.
    clip : float
        C, the length to which rows are clipped.

    Returns
    -------
    scaled : array of shape (n, dim)
        rows/C. An entry that is not finite becomes the largest number: its square is
        infinite, so the factor of its row is 0.
    factors : array of shape (n,)
        The factors; 0 for a row whose squared length is not finite.
    """
    # The rows are divided by C first. If a squared length then underflows, the row is far
    # shorter than C, whatever C is.
    scaled = rows / clip
    scaled = jnp.where(jnp.isfinite(scaled), scaled, jnp.finfo(rows.dtype).max)
    # Privacy needs this barrier. Without it the compiler may compute the rows again for
    # the sum, with other roundings, and a row whose terms cancel could be longer there
    # than the row whose length is measured here.
    scaled = jax.lax.optimization_barrier(scaled)
    squared_length = jnp.sum(jnp.square(scaled), axis=-1)
    factors = jnp.where(
        jnp.isfinite(squared_length), 1 / jnp.maximum(1, jnp.sqrt(squared_length)), 0
    )
    return scaled, factors


def clip_rows(rows: Any, clip: Any) -> Any:
    """Clip each row g to the length C: return min(1, C/‖g‖)·g, or 0 if g is not finite.

    Parameters
    ----------
    rows : array of shape (n, dim)
        One row of numbers, such as a gradient, for each record.
    clip : float
        C, the largest length of a clipped row.

    Returns
    -------
    array of shape (n, dim)
        The clipped rows. One record changes their sum by at most 2C.
    """
    scaled, factors = _clip_factors(rows, clip)
    return clip * (factors[..., None] * scaled)


def clipped_total(rows: Any, clip: Any, is_inside: Any = True) -> Any:
    """Return the sum of the rows that are inside the batch, each clipped to the length C.

    The sum is computed in double precision, whatever the precision of the rows. Its
    round-off grows with n and is charged as sensitivity. It is computed as one matrix
    product on the processor, and by one kernel on an accelerator.

    Parameters
    ----------
    rows : array of shape (n, dim)
        One row of numbers, such as a gradient, for each record.
    clip : float
        C, the largest length of a clipped row.
    is_inside : array of n booleans, or True
        True for the rows that are inside the batch; others do not count.

    Returns
    -------
    array of shape (dim,)
        The sum, which one record changes by at most 2C and rounding errors.
    """
    scaled, factors = _clip_factors(rows, clip)
    factors = jnp.where(is_inside, factors, 0).astype(jnp.float64)
    scaled = scaled.astype(jnp.float64)
    if on_processor():
        return clip * (factors @ scaled)
    return clip * jnp.sum(factors[:, None] * scaled, axis=0)


def exact_total(rows: Any, clip: Any, is_inside: Any = True) -> Any:
    """Return the sum of the clipped rows as integers, in units of C/2^WHOLE_BITS.

    Integers are added exactly in any order, so that there is no round-off that grows
    with n. This is needed if n is private, because nothing that is charged or published
    may depend on n.

    Parameters
    ----------
    rows : array of shape (n, dim)
        One row of numbers, such as a gradient, for each record.
    clip : float
        C, the length to which each row is clipped before it is rounded.
    is_inside : array of n booleans, or True
        True for the rows that are inside the batch; others do not count.

    Returns
    -------
    array of int64, shape (dim,)
        The sum divided by C and multiplied by 2^WHOLE_BITS.
    """
    in_clip_units = clip_rows(rows / clip, 1.0).astype(jnp.float64)
    integers = jnp.rint(in_clip_units * 2.0**WHOLE_BITS).astype(jnp.int64)
    return jnp.sum(jnp.where(jnp.reshape(is_inside, (-1, 1)), integers, 0), axis=0)


def sum_over_all(data: Any, block_sum: Callable[[Any], Any]) -> Any:
    """Sum over all records or people, block by block, so that memory does not grow with n.

    Parameters
    ----------
    data : array or Persons
        All records, with or without their people.
    block_sum : callable
        A function of a block of records or people, which returns the sum over them.

    Returns
    -------
    array
        The sum, of the shape that `block_sum` returns.
    """
    size = BLOCK if on_processor() else ACCELERATOR_BLOCK
    n_in_blocks = len(data) // size * size

    def sum_block(start: Any) -> Any:
        """Return the sum over the block of `size` records or people from `start` on."""
        if isinstance(data, Persons):
            return block_sum(data[start + jnp.arange(size)])
        return block_sum(jax.lax.dynamic_slice_in_dim(data, start, size))

    # The remainder after the whole blocks has another length.
    remainder: Any = 0
    if n_in_blocks < len(data):
        remainder = block_sum(data[n_in_blocks:])
    if not n_in_blocks:
        return remainder

    def add_block(total: Any, start: Any) -> tuple[Any, None]:
        """Add one block to the total; the second output, of a scan, is not needed."""
        return total + sum_block(start), None

    sum_shape = jax.eval_shape(lambda: sum_block(0))
    first_total = jnp.zeros(sum_shape.shape, sum_shape.dtype) + remainder
    starts = jnp.arange(0, n_in_blocks, size)
    total, _ = jax.lax.scan(add_block, first_total, starts)
    return total


def noisy_mean(
    data: Any,
    batch: Any,
    size: int,
    clip: Any,
    mean_scale: Any,
    noise: Any,
    rows: Callable[[Any], Any],
    to_coordinates: Callable[[Any], Any] | None = None,
) -> Any:
    """Return the mean of clipped rows over a batch, with noise, which one step releases.

    Parameters
    ----------
    data : array or Persons
        All records, with or without their people.
    batch : Batches or None
        The batch of one step; None for all records.
    size : int
        The public batch size, by which the sum is divided.
    clip : float
        C, the length to which each row is clipped.
    mean_scale : float or None
        None if n is public. If n is private, C divided by a noisy batch size: the sum
        (`exact_total`) and the noise are then in units of C, and are multiplied by this
        number instead of being divided by the size.
    noise : array of shape (dim,)
        The noise of this step.
    rows : callable
        rows(records) returns what is clipped, one row for each record.
    to_coordinates : callable, optional
        A linear map from the sum to coordinates that does not lengthen vectors. It is
        used if n is public.

    Returns
    -------
    array of shape (dim,)
        The noisy mean. It is private, given that `noise` is large enough for C.
    """
    n_is_private = mean_scale is not None
    total_of = exact_total if n_is_private else clipped_total

    def block_sum(block: Any, is_inside: Any = True) -> Any:
        """Return the sum of the clipped rows of a block, of those inside the batch."""
        return total_of(rows_of(block, rows), clip, is_inside)

    if batch is None:
        total = sum_over_all(data, block_sum)
    else:
        total = batch_sum(
            batch, size, lambda numbers, is_inside: block_sum(data[numbers], is_inside)
        )
    if n_is_private:
        limited = jnp.clip(total, -_MAX_EXACT_INTEGER, _MAX_EXACT_INTEGER)
        return mean_scale * (limited * 2.0**-WHOLE_BITS + noise)
    if to_coordinates is not None:
        total = to_coordinates(total)
    return total / size + noise


def noisy_gradient(
    problem: Problem,
    w: Any,
    data: Any,
    batch: Any,
    size: int,
    clip: Any,
    mean_scale: Any = None,
    noise: Any = 0.0,
) -> Any:
    """Return the noisy mean of the clipped gradients of the loss, in coordinates at w.

    Parameters
    ----------
    problem : Problem
        The manifold and the loss.
    w : array of shape point_shape
        The iterate.
    data : array or Persons
        All records, with or without their people.
    batch : Batches or None
        The batch of one step; None for all records.
    size : int
        The public batch size, by which the sum is divided.
    clip : float
        C, the length to which the gradient of each record is clipped.
    mean_scale : float or None
        None if n is public. If n is private, C divided by a noisy batch size: the sum
        and the noise are then in units of C, and are multiplied by this number.
    noise : array of shape (dim,)
        The noise of this step.

    Returns
    -------
    array of shape (dim,)
        The noisy mean gradient: all that a step learns about the records.
    """
    # If n is private, exact sums of integers are needed, and the rows are coordinates.
    # If n is public, rows are used that are cheaper to compute, and only their sum is
    # turned into coordinates.
    if mean_scale is not None:
        gradients = partial(problem.gradients, w)
        return noisy_mean(data, batch, size, clip, mean_scale, noise, gradients)
    slopes = partial(problem.slopes, w)
    to_coordinates = partial(problem.total, w)
    return noisy_mean(data, batch, size, clip, None, noise, slopes, to_coordinates)


def step_along(problem: Problem, w: Any, rate: Any, gradient: Any) -> Any:
    """Take one descent step: return exp_w(−rate·gradient), or w if that is not finite.

    Parameters
    ----------
    problem : Problem
        The manifold on which w moves.
    w : array of shape point_shape
        The iterate.
    rate : float
        The learning rate.
    gradient : array of shape (dim,)
        The noisy gradient in coordinates at w, in double precision.

    Returns
    -------
    array of shape point_shape
        The next iterate, in the precision of w.
    """
    end = problem.move(w, (-rate * gradient).astype(w.dtype))
    return jnp.where(jnp.isfinite(end).all(), end, w)

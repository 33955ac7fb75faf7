"""Checks of what a user passes to a private optimizer, and its conversion for JAX.
`prepare_start_and_records` checks the start and the records without reading the value of
a record. `learning_rates` and `recorded_steps` expand an option to one entry per step.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from array_api_compat import is_array_api_obj

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.numerics.arrays import detach, is_on_accelerator
from curvedp.optim._persons import group_by_person
from curvedp.optim._randomness import on_processor
from curvedp.optim.problem import FrechetMeanProblem, Problem
from curvedp.privacy.optimizer_accounting import ACCELERATOR_BLOCK, BLOCK
from curvedp.records.chunked import refuse_chunked
from curvedp.records.tables import to_float_records

# A start whose `Manifold.residual` is at most this is projected to the manifold; a start
# farther away is refused.
_MAX_START_RESIDUAL = 1e-3


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
    records_are_points = isinstance(problem, FrechetMeanProblem)
    if records_are_points and len(records):
        records = _project_records(problem.manifold, start, records)
    _check_loss(problem, start, records)
    if groups is None:
        return jnp.asarray(start), jnp.asarray(records)
    return jnp.asarray(start), group_by_person(records, groups, min_records)


def _project_start(manifold: Manifold, init: Any) -> np.ndarray:
    """Check the public start, and project it to the manifold in its own precision.

    Called once, before the first step of a run.

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
    """Convert the records to an array, and check its shape and type but no value.

    Called once, before the first step of a run.

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
    _check_number_and_type(records, min_records)

    shape = problem.record_shape
    if shape is not None and records.shape[1:] != shape:
        actual = f"(n, {', '.join(map(str, records.shape[1:]))})"
        needed = f"(n, {', '.join(map(str, shape))})"
        raise ParameterError(
            f"data has shape {actual}; {type(problem).__name__} on "
            f"{problem.manifold!r} needs {needed}"
        )
    return records


def _check_number_and_type(records: Any, min_records: int) -> None:
    """Raise an error if there are too few records, or if they are not real numbers.

    Parameters
    ----------
    records : array
        The records, along the first axis.
    min_records : int
        The smallest number of records that is allowed.
    """
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


def _read_records(data: Any, record_shape: tuple[int, ...] | None) -> Any:
    """Return the records as an array; entries that are not numbers become NaN.

    Such entries can occur in lists, tables, object arrays and masked arrays. They raise
    no error, because whether one occurs is private.

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
    """Convert to an array of JAX or NumPy, without moving numbers off their device.

    JAX arrays are returned unchanged. Arrays of another library on an accelerator become
    JAX arrays there. Anything else becomes a NumPy array.

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


def _project_records(manifold: Manifold, start: np.ndarray, records: Any) -> Any:
    """Replace each record by the nearest point of the manifold, block by block.

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
    """Replace a block of records by their nearest points, in NumPy or JAX.

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
    """Raise an error unless the loss returns one real number for one record.

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
        raise ParameterError(
            "loss(w, z) cannot be evaluated on a record of shape "
            f"{record_shape}: {_reason_of_loss_error(error)}"
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


def _reason_of_loss_error(error: Exception) -> str:
    """Explain in one line why the user's loss failed.

    Called by `_check_loss` for the message of its error.

    Parameters
    ----------
    error : Exception
        The error that the loss raised while JAX traced it.

    Returns
    -------
    str
        The first line of the error's message, or advice if the loss calls NumPy.
    """
    if isinstance(error, jax.errors.TracerArrayConversionError):
        return (
            "it calls NumPy; write it with jax.numpy, and the kernels of your own "
            "manifold with jax.numpy or array_namespace"
        )
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0]


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
    # Rates up to 1e300 are finite numbers, which is all that is asked of them.
    checked = [
        _validate.within("learning_rate", value, 0, 1e300, open_low=True)
        for value in values
    ]
    return np.array(checked)


def recorded_steps(record_history: int, steps: int) -> np.ndarray:
    """Return, for each step, whether the objective is recorded after it.

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

"""Which array library a call works with, and how its arguments become arrays of it. A
kernel is a function of arrays, such as the exponential map of a manifold. Kernels run
on every library of the Python Array API standard: NumPy, JAX, PyTorch, CuPy,
array_api_strict.

`namespace` returns the functions of the library that the arguments belong to; read
`autodiff` next for derivatives and compilation.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_jax_array,
    is_numpy_array,
)

Array = Any
"""An array of any Array-API library; there is no common static type."""

_KERNEL_NAMES = {
    "exp",
    "log",
    "inner",
    "norm",
    "dist",
    "transport",
    "project",
    "from_record",
    "to_tangent",
    "residual",
    "from_coordinates",
    "to_coordinates",
}
_FLOAT64 = np.dtype(np.float64)

# Half, extended and brain floats: linear algebra routines do not accept them.
_UNSUPPORTED_FLOATS = ("f2", "f16", "V2")


def namespace(*arrays: Any) -> Any:
    """Return the array namespace that the arguments have in common.

    NumPy arrays may stand beside arrays of one other library, which then decides: the
    constants of a manifold, such as `M.origin`, are NumPy arrays. For NumPy alone the
    result is NumPy itself, whose functions follow the standard; its wrapper would take
    0.3 s to import.

    Parameters
    ----------
    *arrays : array
        The arguments of a kernel.

    Returns
    -------
    module
        The functions of the library, such as `numpy` or `jax.numpy`.
    """
    others = [a for a in arrays if not _is_float64(a) and not is_numpy_array(a)]
    return array_namespace(*others) if others else np


def _is_float64(array: Any) -> bool:
    """Return whether this is a float64 NumPy array, which nearly every array is.

    A quick first answer matters to kernels that take a few microseconds.

    Parameters
    ----------
    array : object
        Any value.

    Returns
    -------
    bool
        True only for plain NumPy arrays, not for subclasses.
    """
    return type(array) is np.ndarray and array.dtype is _FLOAT64


def like(x: Array, constant: Any) -> Array:
    """Return a constant as an array of the library, dtype and device of x.

    Parameters
    ----------
    x : array
        The array whose library, type and device are taken.
    constant : array_like
        The constant.

    Returns
    -------
    array
        The constant.
    """
    return namespace(x).asarray(constant, dtype=x.dtype, device=device(x))


def accepts_array_like(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method so that it also takes lists, integers and unusual floats.

    They are converted to float64 first; otherwise constants of the kernel would be
    rounded to the type of the argument.

    Parameters
    ----------
    kernel : callable
        A method whose arguments are arrays.

    Returns
    -------
    callable
        The decorated method.
    """

    @wraps(kernel)
    def converting_kernel(self: Any, *arrays: Any, **named: Any) -> Any:
        """Call the kernel with all of its arguments converted to arrays of floats."""
        if named:
            converted = {name: _as_floats(array) for name, array in named.items()}
            return kernel(self, *map(_as_floats, arrays), **converted)
        return kernel(self, *map(_as_floats, arrays))

    return converting_kernel


def wrap_kernels(manifold: type) -> None:
    """Let the kernels of a manifold also take lists, integers and unusual floats.

    A kernel is a method of a manifold such as `exp`, `log` or `dist`. Those that the
    class inherits were wrapped when its parent class was made.

    Parameters
    ----------
    manifold : type
        A class of manifolds. Its methods are replaced in place.
    """
    for name in _KERNEL_NAMES & vars(manifold).keys():
        setattr(manifold, name, accepts_array_like(vars(manifold)[name]))


# kDLCPU of the DLPack standard: the device type of arrays in the host's memory.
_DLPACK_CPU = 1


def _as_floats(array: Any) -> Any:
    """Return the argument as an array of floats that linear algebra accepts.

    Booleans, integers, objects and the types of `_UNSUPPORTED_FLOATS` become float64;
    other arrays are returned as they are.

    Parameters
    ----------
    array : object
        An array, or a value from which one can be made, such as a list.

    Returns
    -------
    array
        The converted array.
    """
    if _is_float64(array):
        return array
    converted = array if is_array_api_obj(array) else np.asarray(array)
    type_code = _type_code(converted)
    # The codes of booleans, integers, unsigned integers and objects.
    is_no_float = type_code[0] in "biuO"
    if is_no_float or type_code in _UNSUPPORTED_FLOATS:
        return converted.astype(float)
    return converted


def _type_code(array: Any) -> str:
    """Return the type of an array's entries in NumPy's code, such as "f8".

    PyTorch's types have no such code, and its tensors come with floats here.

    Parameters
    ----------
    array : array
        An array of any library.

    Returns
    -------
    str
        The code, without the byte order.
    """
    return getattr(array.dtype, "str", "<f8")[1:]


def detach(X: Any) -> Any:
    """Return a tensor of PyTorch without its gradient, and any other value as it is.

    Nothing here is differentiated by PyTorch, and a tensor with a gradient gives no
    array. Tensors are recognized by their method, so that torch need not be imported.

    Parameters
    ----------
    X : object
        Any value.

    Returns
    -------
    object
        The same values, without a gradient.
    """
    return X.detach() if hasattr(X, "detach") else X


def is_on_accelerator(X: Any) -> bool:
    """Return whether an array says, by the DLPack protocol, that it is on another device.

    Means of such records are computed where the records lie.

    Parameters
    ----------
    X : object
        Any value.

    Returns
    -------
    bool
        False also for values that are no arrays.
    """
    if not hasattr(X, "__dlpack_device__"):
        return False
    device_type, _ = X.__dlpack_device__()
    return bool(device_type != _DLPACK_CPU)


def to_host(X: Any) -> np.ndarray:
    """Return the NumPy array of an array that may lie on another device.

    Libraries are recognized by what their arrays have, so that none need be imported.

    Parameters
    ----------
    X : array
        An array of NumPy, JAX, PyTorch, CuPy or another library.

    Returns
    -------
    array
        The values, in host memory.
    """
    X = detach(X)
    if hasattr(X, "is_cuda"):
        return np.asarray(X.cpu())

    # CuPy's arrays refuse an implicit copy and have `get`. JAX's arrays on a GPU have
    # the same interface without `get`; data frames have a `get` of another kind.
    needs_explicit_copy = hasattr(X, "__cuda_array_interface__") and hasattr(X, "get")
    return np.asarray(X.get() if needs_explicit_copy else X)


def double_precision(X: Array) -> AbstractContextManager[Any]:
    """Return a context in which JAX, if X is its array, has double precision.

    JAX computes in single precision unless it is told otherwise.

    Parameters
    ----------
    X : array
        An array of any library.

    Returns
    -------
    context manager
        It does nothing for other libraries, whose double precision is always there.
    """
    if not is_jax_array(X):
        return nullcontext()
    import jax

    context: AbstractContextManager[Any] = jax.enable_x64(True)
    return context


def map_in_blocks(function: Any, rows: Any, block_size: int) -> Any:
    """Apply a function to the rows of a JAX array, block by block on processors.

    Inside a loop, XLA's program for more than about 2^16 entries waits for its own
    threads forever (jaxlib 0.10 on two cores), so there the rows are cut into blocks
    of `block_size`; the last block is filled up with copies of the last row.

    Parameters
    ----------
    function : callable
        Maps an array of rows to an array with one result per row.
    rows : JAX array
        One row per leading index.
    block_size : int
        Number of rows that are evaluated together.

    Returns
    -------
    array
        One result per row.
    """
    import jax

    n_rows = rows.shape[0]
    if n_rows <= block_size or jax.default_backend() != "cpu":
        return function(rows)

    n_blocks = -(-n_rows // block_size)
    indices = jax.numpy.minimum(jax.numpy.arange(n_blocks * block_size), n_rows - 1)
    blocks = rows[indices].reshape(-1, block_size, *rows.shape[1:])
    results = jax.lax.map(function, blocks)
    return results.reshape(-1, *results.shape[2:])[:n_rows]

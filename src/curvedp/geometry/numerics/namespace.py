"""The array library of a call."""

from collections.abc import Callable
from functools import cache
from typing import Any

from array_api_compat import array_namespace, is_jax_namespace, is_numpy_array

__all__ = ["compiled", "namespace"]


def namespace(*arrays: Any) -> Any:
    """The common array namespace; NumPy constants (such as `M.origin`) may stand beside arrays of another library."""
    others = [a for a in arrays if not is_numpy_array(a)]
    return array_namespace(*(others or arrays))


def compiled(f: Callable[..., Any], *arrays: Any) -> Any:
    """f(*arrays), compiled once per shape where the library has a compiler (JAX): for kernels of many small operations."""
    return _jit(f)(*arrays) if is_jax_namespace(namespace(*arrays)) else f(*arrays)


@cache
def _jit(f: Callable[..., Any]) -> Any:
    import jax

    return jax.jit(f)

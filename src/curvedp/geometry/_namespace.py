"""The array library of a call."""

from typing import Any

from array_api_compat import array_namespace, is_numpy_array

__all__ = ["namespace"]


def namespace(*arrays: Any) -> Any:
    """The common array namespace; NumPy constants (such as `M.origin`) may stand beside arrays of another library."""
    others = [a for a in arrays if not is_numpy_array(a)]
    return array_namespace(*(others or arrays))

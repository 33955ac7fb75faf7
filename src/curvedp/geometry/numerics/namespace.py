"""The array library of a call, and what is the same for all calls inside a `with`."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache, partial, wraps
from inspect import signature
from typing import Any, TypeVar

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_jax_array,
    is_jax_namespace,
    is_numpy_array,
    is_torch_array,
)

_KERNELS = {
    "exp", "log", "inner", "norm", "dist", "transport", "project", "nearest", "to_tangent", "residual",
    "from_coordinates", "to_coordinates",
}  # fmt: skip
_DOUBLE = np.dtype(np.float64)
_ODD = (
    "f2",
    "f16",
    "V2",
)  # half, extended and brain floats, which linear algebra does not take
Result = TypeVar("Result")
Array = Any  # an array of any Array-API library; there is no common static type
_undifferentiated, _in_public = (
    ContextVar(name, default=False) for name in ("undifferentiated", "public_time")
)


def namespace(*arrays: Any) -> Any:
    """The common array namespace; NumPy constants (such as `M.origin`) may stand beside arrays of another library.
    NumPy is its own: what we call of it is the standard's, and the wrapper takes 0.3 s to import."""
    others = [a for a in arrays if not _plain(a) and not is_numpy_array(a)]
    return array_namespace(*others) if others else np


def _plain(array: Any) -> bool:
    """Whether it is what nearly every array is: a quick answer for kernels of microseconds."""
    return type(array) is np.ndarray and array.dtype is _DOUBLE


def like(x: Array, constant: Any) -> Array:
    """A constant for use beside x: an array of its library, type and device."""
    return namespace(x).asarray(constant, dtype=x.dtype, device=device(x))


def of_numbers(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel, for lists, whole numbers and odd floats too: as doubles, or constants would be rounded beside them."""

    @wraps(kernel)
    def called(self: Any, *arrays: Any, **named: Any) -> Any:
        if named:
            return kernel(
                self,
                *map(_doubles, arrays),
                **{name: _doubles(array) for name, array in named.items()},
            )
        return kernel(self, *map(_doubles, arrays))

    return called


def take_numbers(manifold: type) -> None:
    """`of_numbers` for every kernel that a class of manifolds writes itself."""
    for name in _KERNELS & vars(manifold).keys():
        setattr(manifold, name, of_numbers(vars(manifold)[name]))


def _doubles(array: Any) -> Any:
    if _plain(array):
        return array
    found = array if hasattr(array, "dtype") else np.asarray(array)
    kind = getattr(found.dtype, "str", "<f8")[1:]
    return found.astype(float) if kind[0] in "biuO" or kind in _ODD else found


def compiled(f: Callable[..., Result]) -> Callable[..., Result]:
    """f, compiled once per shape where the library has a compiler (JAX): for kernels of many small operations."""

    @wraps(f)
    def called(*arrays: Any) -> Any:
        return (
            jitted(f)(*arrays) if is_jax_namespace(namespace(*arrays)) else f(*arrays)
        )

    return called


@cache
def jitted(f: Callable[..., Any]) -> Any:
    """f compiled by JAX, once per shape; a manifold and a grid are static."""
    import jax

    return jax.jit(
        f,
        static_argnames=[
            name for name in ("M", "grid") if name in signature(f).parameters
        ],
    )


def repeat(body: Callable[[Any], Any], state: Any, more: Callable[[Any], Any]) -> Any:
    """body(body(… state)) for as long as `more` says so: one compiled loop under JAX."""
    if is_jax_array(state[0]):
        import jax

        return jax.lax.while_loop(more, body, state)
    while bool(more(state)):
        state = body(state)
    return state


def constant(x: Any) -> Any:
    """x, cut off from differentiation where the library differentiates."""
    if is_jax_array(x):
        from jax.lax import stop_gradient

        return stop_gradient(x)
    return x.detach() if is_torch_array(x) else x


@contextmanager
def _inside(flag: ContextVar[bool]) -> Iterator[None]:
    token = flag.set(True)
    try:
        yield
    finally:
        flag.reset(token)


def public_time() -> AbstractContextManager[None]:
    """Inside, NumPy kernels do for every point the work of the hardest one: iterations run to their caps, and no branch
    depends on where a point is. Answers are the same. This is about how much work is done, in the last steps before a
    release, which an adversary may time; what the processor makes of equal work is not in our hands."""
    return _inside(_in_public)


def in_public_time() -> bool:
    """Whether the caller is inside `public_time`."""
    return _in_public.get()


def values_alone() -> AbstractContextManager[None]:
    """Inside, nothing is differentiated: terms of value zero that carry derivatives are left out, and not compiled."""
    return _inside(_undifferentiated)


def differentiable(x: Any) -> bool:
    """Whether the library of x differentiates, so that terms of value zero are worth their cost."""
    return not _undifferentiated.get() and bool(is_jax_array(x) or is_torch_array(x))


def with_rule(
    value: Callable[..., Any], rule: Callable[[Any, Any], Any], *arrays: Any
) -> Any:
    """value(*arrays), whose derivatives under JAX are those of `rule`: of arrays and their changes, value and change."""
    if not is_jax_namespace(namespace(*arrays)):
        return value(*arrays)
    import jax

    f: Any = jax.custom_jvp(value)
    f.defjvp(rule)
    return f(*arrays)


def along(f: Callable[..., Any], arrays: Any, changes: Any) -> Any:
    """f and its change along those of its arrays (JAX)."""
    import jax

    return jax.jvp(f, arrays, changes)


def differentiable_by(
    smooth: Callable[..., Any], plain: Callable[..., Any], *arrays: Any
) -> Any:
    """plain(*arrays); smooth(*arrays), of the same value but with terms that carry derivatives, where those may be asked."""
    if not any(map(differentiable, arrays)):
        return plain(*arrays)
    return (
        smooth(*arrays)
        if any(map(is_torch_array, arrays))
        else with_rule(plain, partial(along, smooth), *arrays)
    )


def differentiate_as(
    smooth: Callable[..., Any], accurate: Callable[..., Any], *arrays: Any
) -> Any:
    """accurate(*arrays); under JAX the derivative is that of `smooth`. The two are the same function of exact
    numbers: one is written for round-off, the other for the chain rule."""

    def rule(arrays: Any, changes: Any) -> tuple[Any, Any]:
        return differentiate_as(smooth, accurate, *arrays), along(
            smooth, arrays, changes
        )[1]

    return with_rule(accurate, rule, *arrays)


def to_host(X: Any) -> np.ndarray:
    """A NumPy array of what may lie on a device."""
    if hasattr(X, "detach"):  # torch: nothing that comes here is differentiated
        X = X.detach()
    if hasattr(X, "is_cuda"):
        return np.asarray(X.cpu())
    # CuPy's arrays refuse the implicit way. JAX's have the interface on a GPU too, but no `get`; frames have only a `get`.
    refuses = hasattr(X, "__cuda_array_interface__") and hasattr(X, "get")
    return np.asarray(X.get() if refuses else X)


def mapped(function: Any, rows: Any, size: int) -> Any:
    """A function of a JAX array's rows, by blocks of so many on processors, the last row filling the last block. In a
    loop, XLA's program for more than about 2^16 entries waits for its own threads for ever (jaxlib 0.10, two cores)."""
    import jax

    count = rows.shape[0]
    if count <= size or jax.default_backend() != "cpu":
        return function(rows)
    places = jax.numpy.minimum(jax.numpy.arange(-(-count // size) * size), count - 1)
    found = jax.lax.map(function, rows[places].reshape(-1, size, *rows.shape[1:]))
    return found.reshape(-1, *found.shape[2:])[:count]

"""Compilation and derivatives, for kernels (functions of arrays) that run on every
array library. JAX compiles and differentiates, PyTorch differentiates, NumPy does
neither. These helpers let one kernel serve all three.

They are: a loop that JAX can compile, a value cut off from differentiation, a
derivative stated by hand where the chain rule loses digits.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial, wraps
from inspect import signature
from typing import Any, TypeVar

from array_api_compat import is_jax_array, is_jax_namespace, is_torch_array

from curvedp.numerics.arrays import namespace

Result = TypeVar("Result")
_no_derivatives: ContextVar[bool] = ContextVar("no_derivatives", default=False)


def compiled(function: Callable[..., Result]) -> Callable[..., Result]:
    """Decorate a function of arrays so that JAX compiles it, once for each shape.

    With other libraries the function is called as it is. This pays off for functions
    that consist of many small operations.

    Parameters
    ----------
    function : callable
        A function of arrays.

    Returns
    -------
    callable
        The decorated function.
    """

    @wraps(function)
    def compiled_under_jax(*arrays: Any) -> Any:
        """Call the function, compiled if its arguments are arrays of JAX."""
        if is_jax_namespace(namespace(*arrays)):
            return jitted(function)(*arrays)
        return function(*arrays)

    return compiled_under_jax


@cache
def jitted(function: Callable[..., Any]) -> Any:
    """Return the function compiled by JAX, once for each shape of its arguments.

    Its arguments `M` and `grid` are no arrays: another value of them compiles it again.

    Parameters
    ----------
    function : callable
        A function of arrays.

    Returns
    -------
    callable
        The compiled function, cached.
    """
    import jax

    parameters = signature(function).parameters
    static = [name for name in ("M", "grid") if name in parameters]
    return jax.jit(function, static_argnames=static)


def repeat_while(
    condition: Callable[[Any], Any], body: Callable[[Any], Any], state: Any
) -> Any:
    """Replace `state` by `body(state)` as long as `condition(state)` holds.

    Under JAX this is one compiled loop. The first entry of the state must be an array,
    which tells the library.

    Parameters
    ----------
    condition, body : callable
        Functions of the state.
    state : tuple
        The first state.

    Returns
    -------
    tuple
        The first state at which the condition does not hold.
    """
    if is_jax_array(state[0]):
        import jax

        return jax.lax.while_loop(condition, body, state)
    while bool(condition(state)):
        state = body(state)
    return state


def constant(x: Any) -> Any:
    """Return x cut off from differentiation where its library differentiates.

    Iterations that need not be differentiated step by step start from such a copy.

    Parameters
    ----------
    x : array
        Any array.

    Returns
    -------
    array
        The same values.
    """
    if is_jax_array(x):
        from jax.lax import stop_gradient

        return stop_gradient(x)
    return x.detach() if is_torch_array(x) else x


@contextmanager
def without_derivatives() -> Iterator[None]:
    """Declare that nothing inside this context is differentiated.

    Terms of value zero that only carry derivatives are then left out, which saves
    compiling them. Optimizers with gradients in closed form use it.
    """
    token = _no_derivatives.set(True)
    try:
        yield
    finally:
        _no_derivatives.reset(token)


def differentiable(x: Any) -> bool:
    """Return whether derivatives with respect to x may be asked for.

    That is so for arrays of JAX and PyTorch outside of `without_derivatives()`. Only
    then are terms of value zero, which carry derivatives, worth their cost.

    Parameters
    ----------
    x : object
        An argument of a kernel.

    Returns
    -------
    bool
        True if terms that only carry derivatives must be computed.
    """
    if _no_derivatives.get():
        return False
    return bool(is_jax_array(x) or is_torch_array(x))


def custom_jvp(
    value: Callable[..., Any], rule: Callable[[Any, Any], Any], *arrays: Any
) -> Any:
    """Evaluate a function whose derivative is stated by hand, for JAX.

    Use it where the chain rule would lose digits, or divide by 0.

    Parameters
    ----------
    value : callable
        The function; other libraries differentiate it as it is written.
    rule : callable
        Takes the tuple of arrays and the tuple of their changes, and returns the value
        and its change (a Jacobian-vector product).
    *arrays : array
        The arguments of the function.

    Returns
    -------
    array
        The value of the function.
    """
    if not is_jax_namespace(namespace(*arrays)):
        return value(*arrays)
    import jax

    function: Any = jax.custom_jvp(value)
    function.defjvp(rule)
    return function(*arrays)


def jvp(function: Callable[..., Any], arrays: Any, changes: Any) -> Any:
    """Return the value of a function and its change along those of arrays (JAX).

    Parameters
    ----------
    function : callable
        The function.
    arrays : tuple of array
        Its arguments.
    changes : tuple of array
        The changes of the arguments.

    Returns
    -------
    value, change : array
        The value, and the Jacobian of the function times the changes.
    """
    import jax

    return jax.jvp(function, arrays, changes)


def with_smooth_derivative(
    smooth: Callable[..., Any], plain: Callable[..., Any], *arrays: Any
) -> Any:
    """Evaluate `plain`, or `smooth` where derivatives may be asked for.

    Both have the same value; `smooth` has additional terms of value zero that carry
    the derivatives, and `plain` is cheaper.

    Parameters
    ----------
    smooth, plain : callable
        The two functions.
    *arrays : array
        Their arguments.

    Returns
    -------
    array
        The common value of both.
    """
    if not any(map(differentiable, arrays)):
        return plain(*arrays)
    if any(map(is_torch_array, arrays)):
        return smooth(*arrays)
    return custom_jvp(plain, partial(jvp, smooth), *arrays)


def with_derivative_of(
    smooth: Callable[..., Any], accurate: Callable[..., Any], *arrays: Any
) -> Any:
    """Evaluate `accurate`, whose derivative under JAX is taken from `smooth`.

    The two are the same function of exact numbers: `accurate` is written so that
    round-off stays small, `smooth` so that the chain rule applies.

    Parameters
    ----------
    smooth, accurate : callable
        The two functions.
    *arrays : array
        Their arguments.

    Returns
    -------
    array
        The value of `accurate`.
    """

    def rule(arrays: Any, changes: Any) -> tuple[Any, Any]:
        """Return the value of `accurate`, and the change of `smooth`, for JAX.

        The value is computed by this function again, so that a second derivative is
        that of `smooth` too.

        Parameters
        ----------
        arrays : tuple of array
            The arguments.
        changes : tuple of array
            The changes of the arguments.

        Returns
        -------
        value, change : array
            The value, and the Jacobian of `smooth` times the changes.
        """
        value = with_derivative_of(smooth, accurate, *arrays)
        change = jvp(smooth, arrays, changes)[1]
        return value, change

    return custom_jvp(accurate, rule, *arrays)

"""Functions of symmetric matrices, f(S) = U f(λ) Uᵀ, with derivatives that survive repeated eigenvalues.

The derivative of f at S in direction E is U (K ⊙ UᵀEU) Uᵀ with the divided differences K_rs = f[λr, λs]
(Daleckii & Krein 1965), each written here without cancellation. The finite version is just as short:
f(B) − f(A) = U (K ⊙ Uᵀ(B−A)V) Vᵀ with K_rs = f[αr, βs] for A = U α Uᵀ, B = V β Vᵀ; it keeps every digit of a small
B − A, which f(B) − f(A) loses.
"""

from collections.abc import Callable
from typing import Any

from array_api_compat import is_jax_namespace

from curvedp.geometry.base import Array
from curvedp.geometry.numerics.namespace import namespace
from curvedp.geometry.numerics.small_eigh import eigh

Scalar = Callable[[Array], Array]
Divided = Callable[[Array, Array], Array]


def sym(A: Array) -> Array:
    """Symmetric part of A."""
    return 0.5 * (A + A.mT)


def sandwich(U: Array, S: Array, V: Array | None = None) -> Array:
    """U S Vᵀ, with V = U when left out."""
    return U @ S @ (U if V is None else V).mT


# ---- divided differences f[x, y] = (f(x) − f(y)) / (x − y), f'(x) at x = y ------------------------------------------


def divided_log(x: Array, y: Array) -> Array:
    """log[x, y] for x, y > 0, as log1p(t)/(t·min), t = (max − min)/min ≥ 0: no cancellation."""
    xp = namespace(x, y)
    x, y = xp.broadcast_arrays(x, y)
    low = xp.where(x < y, x, y)
    low = xp.where(low > 0, low, xp.nan)
    t = xp.abs(x - y) / low
    safe = xp.where(t == 0, xp.ones_like(t), t)
    return xp.where(t == 0, xp.ones_like(t), xp.log1p(safe) / safe) / low


def divided_exp(x: Array, y: Array) -> Array:
    """exp[x, y] = e^max · (1 − e^−t)/t with t = |x − y|: no overflow before the result overflows."""
    xp = namespace(x, y)
    x, y = xp.broadcast_arrays(x, y)
    t = xp.abs(x - y)
    safe = xp.where(t == 0, xp.ones_like(t), t)
    return xp.exp(xp.where(x < y, y, x)) * xp.where(t == 0, xp.ones_like(t), -xp.expm1(-safe) / safe)


# ---- f(S) ------------------------------------------------------------------------------------------------------------


def differentiate_as(smooth: Callable[..., Array], accurate: Callable[..., Array], *args: Array) -> Array:
    """accurate(*args); where the library differentiates through functions (JAX), the derivative is that of `smooth`.

    The two are the same function of exact numbers: one is written for round-off, the other for the chain rule.
    """
    if not is_jax_namespace(namespace(*args)):
        return accurate(*args)
    import jax

    f: Any = jax.custom_jvp(accurate)
    f.defjvp(lambda primals, tangents: (f(*primals), jax.jvp(smooth, primals, tangents)[1]))
    return f(*args)


def apply(S: Array, f: Scalar, divided: Divided) -> Array:
    """f(S) for symmetric S. First derivatives are exact at any S; second ones need simple eigenvalues."""

    def value(S: Array) -> Array:
        w, U = eigh(S)
        return (U * f(w)[..., None, :]) @ U.mT

    if not is_jax_namespace(namespace(S)):
        return value(S)
    import jax

    function: Any = jax.custom_jvp(value)

    def rule(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        w, U = eigh(primals[0])
        K = divided(w[..., :, None], w[..., None, :])
        return function(primals[0]), sandwich(U, K * (U.mT @ sym(tangents[0]) @ U))

    function.defjvp(rule)
    return function(S)


def exp_sym(S: Array) -> Array:
    """Matrix exponential of symmetric S."""
    return apply(S, namespace(S).exp, divided_exp)


def log_sym(S: Array) -> Array:
    """Matrix logarithm of symmetric positive definite S."""
    return apply(S, namespace(S).log, divided_log)


def log1p_sym(S: Array) -> Array:
    """log(I + S) for symmetric S > −I."""
    return apply(S, namespace(S).log1p, lambda x, y: divided_log(1 + x, 1 + y))


def sqrt_sym(S: Array) -> Array:
    """Square root of symmetric positive definite S."""
    sqrt = namespace(S).sqrt
    return apply(S, sqrt, lambda x, y: 1 / (sqrt(x) + sqrt(y)))

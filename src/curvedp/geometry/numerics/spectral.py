"""Functions of symmetric matrices, f(S) = U f(λ) Uᵀ, with derivatives that survive repeated eigenvalues.

The derivative of f at S in direction E is U (K ⊙ UᵀEU) Uᵀ with the divided differences K_rs = f[λr, λs]
(Daleckii & Krein 1965), each written here without cancellation. The finite version is just as short:
f(B) − f(A) = U (K ⊙ Uᵀ(B−A)V) Vᵀ with K_rs = f[αr, βs] for A = U α Uᵀ, B = V β Vᵀ; it keeps every digit of a small
B − A, which f(B) − f(A) loses.
"""

from collections.abc import Callable

from curvedp.geometry.numerics.namespace import Array, namespace, with_rule
from curvedp.geometry.numerics.small_eigh import eigh


def sym(A: Array) -> Array:
    """Symmetric part of A."""
    return 0.5 * (A + A.mT)


def sandwich(U: Array, S: Array, V: Array | None = None) -> Array:
    """U S Vᵀ, with V = U when left out."""
    return U @ S @ (U if V is None else V).mT


def divided_log(x: Array, y: Array) -> Array:
    """log[x, y] for x, y > 0, as log1p(t)/(t·min), t = (max − min)/min ≥ 0: no cancellation."""
    xp = namespace(x, y)
    x, y = xp.broadcast_arrays(x, y)
    low = xp.where(x < y, x, y)
    low = xp.where(low > 0, low, xp.nan)
    t = xp.abs(x - y) / low
    safe = xp.where(t == 0, 1.0, t)
    return xp.where(t == 0, 1.0, xp.log1p(safe) / safe) / low


def divided_exp(x: Array, y: Array) -> Array:
    """exp[x, y] = e^max · (1 − e^−t)/t with t = |x − y|: no overflow before the result overflows."""
    xp = namespace(x, y)
    x, y = xp.broadcast_arrays(x, y)
    t = xp.abs(x - y)
    safe = xp.where(t == 0, 1.0, t)
    return xp.exp(xp.where(x < y, y, x)) * xp.where(t == 0, 1.0, -xp.expm1(-safe) / safe)


def apply(S: Array, f: Callable[[Array], Array], divided: Callable[[Array, Array], Array]) -> Array:
    """f(S) for symmetric S; divided(x, y) = (f(x) − f(y))/(x − y), f'(x) at x = y. First derivatives are exact at
    any S; second ones need simple eigenvalues."""

    def value(S: Array) -> Array:
        w, U = eigh(S)
        return (U * f(w)[..., None, :]) @ U.mT

    def rule(arrays: tuple[Array], changes: tuple[Array]) -> tuple[Array, Array]:
        w, U = eigh(*arrays)
        K = divided(w[..., :, None], w[..., None, :])
        return apply(*arrays, f, divided), sandwich(U, K * (U.mT @ sym(*changes) @ U))

    return with_rule(value, rule, S)


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

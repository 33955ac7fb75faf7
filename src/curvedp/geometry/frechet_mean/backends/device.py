"""The Fréchet mean of an array where it lies: NumPy's relatives on any device, by the passes of `mean_streamed`."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from math import exp, log, sqrt
from operator import add
from typing import Any

import numpy as np
from array_api_compat import device, is_jax_array, is_jax_namespace

from curvedp.geometry.ball import carry_records, project_to_ball
from curvedp.geometry.frechet_mean.backends import chunks as streamed
from curvedp.geometry.frechet_mean.backends.chunks import Domain, Start, streamed_mean
from curvedp.geometry.frechet_mean.backends.spd import Eigen, Newton
from curvedp.geometry.frechet_mean.error_bound import KERNEL_ERROR
from curvedp.geometry.frechet_mean.mean import frechet_mean, memory_moments
from curvedp.geometry.manifold import Array, Manifold
from curvedp.geometry.spaces.spd_affine import SPDAffineInvariant
from curvedp.geometry.spaces.spd_common import unpack
from curvedp.numerics.arrays import namespace, to_host
from curvedp.numerics.autodiff import jitted
from curvedp.numerics.eigen import eigh
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.numerics.spd3 import (
    DOUBTFUL,
    Factor,
    lower_entries,
    whitened_logs,
)

_BLOCK, _EIGH_BLOCK = (
    1 << 20,
    1 << 15,
)  # records at once; where the library's own `eigh` is called, it is hungry
_TENSORS, _FEW = (
    1 << 24,
    1 << 9,
)  # 3×3 matrices at once, one fused kernel a pass; those that the start is found from

Pass = Callable[
    [np.ndarray], Array
]  # x -> exact sums over a block of records, on the device


def device_mean(domain: Domain, X: Array) -> tuple[np.ndarray, float]:
    """`streamed_mean` of an array of any library, where it lies: what comes back to the host are sums of dim + 1
    numbers. (And 3×3 matrices that are to be moved into the ball: those are moved on the host, once.)"""
    with (
        _doubles(X),
        np.errstate(all="ignore"),
    ):  # a data-dependent warning is a release
        xp = namespace(X)
        X = (
            X.detach() if hasattr(X, "detach") else X
        )  # torch: nothing here is differentiated
        n, shape = X.shape[0], domain.manifold.point_shape
        tensors = _short(domain)
        rows = (
            _TENSORS
            if tensors
            else _EIGH_BLOCK
            if len(shape) > 1 and max(shape) > 3
            else _BLOCK
        )
        prepare = _tensors if tensors else _points
        start = _tensor_start(domain, X) if tensors else Start(domain.center, 1.0)
        parts = (
            [X]
            if n <= rows
            else [X[i : min(i + rows, n), ...] for i in range(0, n, rows)]
        )
        passes = [
            one
            for part in parts
            for one in prepare(domain, xp.astype(part, xp.float64, copy=False))
        ]
        # the device is asked for all of a pass before the host waits for any of it
        return streamed_mean(
            domain, n, lambda x: to_host(reduce(add, [one(x) for one in passes])), start
        )


def device_moments(domain: Domain, X: Array) -> tuple[np.ndarray, float]:
    """`device_mean` where the device's kernels are accurate enough for it, and otherwise that of a copy on the host."""
    if accurate(domain, X):
        try:
            return device_mean(domain, X)
        except TypeError:  # on tracing, before anything is computed: kernels of a user's own, for NumPy alone
            pass
    return memory_moments(domain, np.asarray(to_host(X), dtype=np.float64))


def carry_on_device(M: Manifold, center: np.ndarray, X: Array) -> Array:
    """`carry_records` in double precision, where the array lies."""
    with _doubles(X), np.errstate(all="ignore"):
        xp = namespace(X)
        return carry_records(M, center, xp.astype(X, xp.float64))


def accurate(domain: Domain, X: Array) -> bool:
    """Whether the device's kernels keep to twice the contract's error: under JAX, SPD matrices beyond 3×3 have the plain
    path's error (`spd_pencil`), a few units of round-off times cond(p)·cond(A), which the ball bounds by e^{3√2·r}."""
    M, r = domain.manifold, domain.radius
    if not (isinstance(M, SPDAffineInvariant) and M.m > 3 and is_jax_array(X)):
        return True
    return log(4 * M.m * 2.0**-52 / (r * KERNEL_ERROR)) + 3 * sqrt(2) * r <= 0


def _points(domain: Domain, X: Array) -> list[Pass]:
    """Records of any manifold: mapped into the ball once, with the manifold's kernels."""
    xp = namespace(X)
    inside = project_to_ball(domain.manifold, _like(X, domain.center), domain.radius, X)
    kernel = (
        jitted(streamed.inside_sums) if is_jax_namespace(xp) else streamed.inside_sums
    )
    return [lambda x: kernel(domain.manifold, domain.grid, _like(X, x), inside)]


def _short(domain: Domain) -> bool:
    """Whether no two matrices of the ball are so far apart that `spd3` would be in doubt: log-eigenvalues of a matrix at
    distance d from I spread by at most √2·d, and so cond(p) ≤ e^{√2·r}·cond(center), cond(A) ≤ e^{√2·2r}."""
    M = domain.manifold
    if not (isinstance(M, SPDAffineInvariant) and M.m == 3):
        return False
    return (
        exp(3 * sqrt(2) * domain.radius) * Factor.of(domain.center).condition
        <= 0.99 * DOUBTFUL
    )


def _tensors(domain: Domain, X: Array) -> list[Pass]:
    """3×3 matrices: those that the ball leaves alone, and the others after the host has moved them."""
    xp = namespace(X)
    home = Factor.of(domain.center)
    stays, kernel = (
        (jitted(_stays), jitted(_tensor_pass))
        if is_jax_namespace(xp)
        else (_stays, _tensor_pass)
    )
    stay = stays(_like(X, np.asarray(home.inverse)), home.condition, domain.radius, X)

    def over(block: Array, counted: Array) -> Pass:
        return lambda x: kernel(
            domain.grid, _like(X, np.asarray(Factor.of(x).inverse)), block, counted
        )

    passes = [over(X, stay)]
    if not bool(xp.all(stay)):
        block = xp.asarray(
            project_to_ball(*domain, to_host(X[~stay])), device=device(X)
        )
        passes.append(over(block, xp.isfinite(block[:, 0, 0])))  # every one of them
    return passes


def _tensor_start(domain: Domain, X: Array) -> Start:
    """The mean of the first few matrices, and the inverse of their Hessian there: it decides how many passes are needed."""
    few = streamed.into_ball(
        domain, np.asarray(to_host(X[: min(_FEW, X.shape[0]), ...]), dtype=np.float64)
    )
    x = frechet_mean(domain.manifold, few)
    inverse = np.linalg.inv(np.linalg.cholesky(x))
    newton = Newton(
        [Eigen(*eigh(inverse @ few @ inverse.T), np.full(len(few), 1 / len(few)))]
    )
    basis = unpack(np.eye(6), 3).reshape(6, 9)
    return Start(x, basis @ newton.inverse @ basis.T)


def _stays(inverse: Array, condition: float, radius: float, X: Array) -> Array:
    return streamed.surely_inside(Factor(inverse, condition), radius, *lower_entries(X))


def _tensor_pass(grid: FixedPoint, inverse: Array, X: Array, counted: Array) -> Array:
    return streamed.tensor_sums(
        grid, whitened_logs(Factor(inverse, 1.0), lower_entries(X)[0]), counted
    )


def _like(X: Array, x: np.ndarray) -> Array:
    """x for a kernel beside X. What JAX compiles takes it as it is: an array of its own costs a millisecond to make."""
    xp = namespace(X)
    return (
        x if is_jax_namespace(xp) else xp.asarray(x, dtype=xp.float64, device=device(X))
    )


def _doubles(X: Array) -> AbstractContextManager[Any]:
    """JAX has double precision only where it is asked for."""
    if not is_jax_array(X):
        return nullcontext()
    import jax

    context: AbstractContextManager[Any] = jax.enable_x64(True)
    return context

"""Fréchet means, arg min of Σ d(x, x_i)², on every space: to ‖mean log‖ ≤ 1e-9, or in a fixed number of public steps."""

import math
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property

import numpy as np
from array_api_compat import device, is_array_api_obj, is_numpy_array

from curvedp import _validate
from curvedp._silence import numerical_silence
from curvedp.errors import ParameterError
from curvedp.geometry.ball import project_to_ball
from curvedp.geometry.frechet_mean.backends.chunks import (
    Domain,
    contracted,
    into_ball,
    mean_in_ball,
)
from curvedp.geometry.frechet_mean.backends.spd import TINY, Sweep, few_of
from curvedp.geometry.frechet_mean.error_bound import tolerance
from curvedp.geometry.frechet_mean.solver import (
    SLOW,
    Asked,
    Course,
    Moments,
    Solve,
    run,
    search,
)
from curvedp.geometry.manifold import Array, Manifold, check_manifold
from curvedp.geometry.spaces.product import Product
from curvedp.geometry.spaces.pullback import PullbackManifold
from curvedp.geometry.spaces.spd_affine import SPDAffineInvariant
from curvedp.geometry.spaces.spd_bures import SPDBuresWasserstein
from curvedp.geometry.spaces.spd_common import SPD
from curvedp.numerics.arrays import namespace, to_host
from curvedp.numerics.threads import blocks, in_threads, one_blas_thread

_CHUNK_BYTES = 1 << 22
_DENSE = 256  # dimension up to which Newton's equations are formed
_PASSES = 200  # in all; a handful are needed where double precision resolves the data
_TOLERANCE = 5e-10  # residual at which the search ends, half of what is promised
_FAR = 36.0  # e^36 is 2^52: between points so far apart, charts far from the origin hold nothing
_MANY, _ROUGH = (
    1 << 13,
    1e-4,
)  # records, from which on the mean of a few is the start; and the residual of that mean


def frechet_mean(
    M: Manifold, X: Array, *, ball: tuple[Array, float] | None = None
) -> Array:
    """The Fréchet mean of the points X (n, *M.point_shape): one point, ‖mean log_mean(x_i)‖ ≤ 1e-9.

    The residual is met wherever float64 coordinates can hold the mean to that accuracy. Data of fewer digits are
    averaged in float64 and the mean is returned so (where the array library has float64). On spaces of positive
    curvature it is the mean of data in a ball of radius < ½ min(injectivity radius, π/√κ), where it is unique
    (Afsari 2011); otherwise a local minimum.

    *Guarantees* (with `ball`). The result is within `mean_error_bound(M, radius)` of the true mean, whatever the data.

    Parameters
    ----------
    M : Manifold
        Where the points live.
    X : array
        One point a row.
    ball : (center, radius), optional
        Both public: the records are first mapped into the ball (`project_to_ball`), then a number of gradient steps that
        depends on M and radius alone is taken from the center. No data-dependent stopping.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> x = frechet_mean(Sphere(2), np.array([[1.0, 0, 0], [0, 1.0, 0]]))
    >>> np.round(x, 12) + 0.0
    array([0.70710678, 0.70710678, 0.        ])
    """
    shape = check_manifold(M).point_shape
    if not is_array_api_obj(X):
        X = _validate.array("X", X)
    X = (
        X.detach() if hasattr(X, "detach") else X
    )  # torch: nothing here is differentiated
    xp = namespace(X)
    if xp.isdtype(X.dtype, "complex floating"):
        raise ParameterError(f"X has dtype {X.dtype}; it must be real numbers")
    if X.ndim != len(shape) + 1 or tuple(X.shape[1:]) != shape or X.shape[0] == 0:
        raise ParameterError(
            f"X has shape {tuple(X.shape)}; it must be (n, {', '.join(map(str, shape))}) with n >= 1"
        )
    w = np.full(X.shape[0], 1 / X.shape[0])
    data = np.asarray(to_host(X), dtype=np.float64)
    if ball is not None:
        if not isinstance(ball, tuple | list) or len(ball) != 2:
            raise ParameterError(
                "must be a pair (center, radius)", parameter="ball", value=ball
            )
        domain = Domain(
            M, np.asarray(to_host(ball[0])), _validate.length("radius", ball[1])
        )
        with numerical_silence(), _calm(data):
            passes = _passes(
                M,
                np.asarray(project_to_ball(*domain, data)),
                w,
                tolerance(M, domain.radius),
            )
            found = np.asarray(
                passes.point(run(contracted(domain, passes), passes.moments)[0])
            )
    else:
        found = (
            _mean(M, data, w) if np.all(np.isfinite(data)) else np.full(shape, np.nan)
        )
    return (
        found if is_numpy_array(X) else xp.asarray(found, device=device(X))
    )  # float64 where the library has it


def _mean(
    M: Manifold, X: np.ndarray, w: np.ndarray, enough: float = _TOLERANCE
) -> np.ndarray:
    if isinstance(
        M, PullbackManifold
    ):  # the mean is the model's: φ is an isometry onto a convex part of it, up to a factor
        return np.asarray(
            M.from_model(_mean(M.model, np.asarray(M.to_model(X)), w, enough / M.scale))
        )
    if isinstance(M, Product):
        share = enough / math.sqrt(len(M.factors))
        parts = zip(M.factors, M.split(X), strict=True)
        return np.asarray(
            M.join([_mean(factor, part, w, share) for factor, part in parts])
        )
    if (
        isinstance(M, SPDBuresWasserstein)
        and 0 < (size := float(np.max(np.abs(X)))) < 0.25
    ):
        # Lengths go with √X: in small units any start had a residual of 1e-9.
        unit = 4.0 ** math.floor(math.log2(size) / 2)
        return unit * _mean(M, X / unit, w, enough)
    with numerical_silence(), _calm(X):
        passes = _passes(M, X, w, enough)
        place, found, _ = run(search(passes, enough, _PASSES), passes.moments)
        x = np.asarray(passes.point(place))
    return (
        np.full_like(x, np.nan) if math.isnan(found.residual) else x
    )  # never the start in place of a mean


def _passes(
    M: Manifold, X: np.ndarray, w: np.ndarray, enough: float
) -> "Sweep | Points":
    if isinstance(M, SPDAffineInvariant):
        return Sweep(X, w, enough)
    # Points written with few digits (float32, text) miss the manifold's equations by more than a residual of 1e-9 allows.
    # Symmetric matrices have no such equation.
    return Points(M, X if isinstance(M, SPD) else np.asarray(M.project(X)), w, enough)


def _calm(X: np.ndarray) -> AbstractContextManager[None]:
    """Threads of the BLAS, held back where our own are used; where fixed costs rule there are none."""
    return one_blas_thread() if X.size > TINY else nullcontext()


def memory_moments(domain: Domain, X: np.ndarray) -> tuple[np.ndarray, float]:
    """(x, mean d²(x, xᵢ)) of NumPy records after mapping them into the ball; x is within `solver_error` of their mean."""
    M = domain.manifold
    with numerical_silence(), _calm(X):
        passes = _passes(
            M,
            into_ball(domain, X),
            np.full(len(X), 1 / len(X)),
            tolerance(M, domain.radius),
        )
        x, square = run(mean_in_ball(domain, passes, _PASSES), passes.moments)
        return domain.clip(passes.point(x)), square


class Points(Course):
    """Passes over NumPy records of any space, with Newton's steps where curvature is constant."""

    def __init__(
        self, M: Manifold, X: np.ndarray, w: np.ndarray, enough: float
    ) -> None:
        self.M, self.X, self.w, self.enough = M, X, w, enough
        self.parts = blocks(
            len(X), max(1, _CHUNK_BYTES // (8 * max(M.dim, math.prod(M.point_shape))))
        )

    @cached_property
    def start(self) -> np.ndarray:
        """What is known of spaces made of others; the mean of a few of many records; else the best of three starts."""
        if isinstance(self.M, Product | PullbackManifold):
            return _mean(self.M, self.X, self.w, self.enough / 2)
        pick = few_of(len(self.X), 1) if len(self.X) > _MANY else None
        if pick is not None:
            return _mean(
                self.M, self.X[pick], self.w[pick] / self.w[pick].sum(), _ROUGH
            )
        some = self.X[0]
        first = self.moments(Asked(some, True))
        starts = [
            self.move(some, first.velocity),
            np.asarray(self.M.project(np.tensordot(self.w, self.X, axes=1))),
        ]
        costs = [(first.square, some)]
        costs += [
            (self.moments(Asked(x, True)).square, x)
            for x in starts
            if np.all(np.isfinite(x))
        ]
        if not min(square for square, _ in costs) < _FAR**2:
            costs += [
                (
                    self.moments(Asked(self.M.origin, True)).square,
                    np.asarray(self.M.origin),
                )
            ]
        return np.asarray(min(costs, key=lambda pair: pair[0])[1])

    def move(self, x: np.ndarray, step: np.ndarray) -> np.ndarray:
        return np.asarray(self.M.from_normal_coordinates(x, step))

    def newton(self, x: np.ndarray, gain: float) -> Solve | None:
        """The Hessian of some records where curvature is constant: 1 along each geodesic, s·cot s or s·coth s across it."""
        curvature, d = self.M.constant_curvature, self.M.dim
        if not gain > SLOW or not curvature or d > _DENSE:
            return None
        pick = few_of(len(self.X), 1)
        X, w = (
            (self.X, self.w)
            if pick is None
            else (self.X[pick], self.w[pick] / self.w[pick].sum())
        )
        Z = np.asarray(self.M.normal_coordinates(x, X))
        squares = np.sum(Z * Z, axis=-1)
        s = np.sqrt(abs(curvature) * squares)
        safe = np.where(s > 1e-8, s, 1.0)
        h = np.where(
            s > 1e-8, safe / (np.tan(safe) if curvature > 0 else np.tanh(safe)), 1.0
        )
        hessian = (
            Z * (w * (1 - h) / np.where(squares > 0, squares, 1.0))[:, None]
        ).T @ Z + float(w @ h) * np.eye(d)
        return lambda velocity: np.asarray(
            np.linalg.lstsq(hessian, velocity, rcond=None)[0]
        )

    def moments(self, asked: Asked) -> Moments:
        def summed(part: slice) -> tuple[np.ndarray, float]:
            Z = np.asarray(self.M.normal_coordinates(asked.x, self.X[part]))
            return self.w[part] @ Z, float(self.w[part] @ np.sum(Z * Z, axis=-1))

        if not np.all(np.isfinite(asked.x)):
            return Moments(np.full(self.M.dim, np.nan), np.nan)
        velocities, squares = zip(*in_threads(summed, self.parts), strict=True)
        return Moments(np.sum(velocities, axis=0), sum(squares))

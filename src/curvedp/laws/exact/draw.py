"""Exact-then-round sampling: what is released is the ideal continuous draw, rounded to a public grid.

The footpoint's float64 entries are taken as the exact numbers they are; the noise is a real number known to as many
bits as it takes; the sum, or the exponential map, is enclosed in a ball, and the integer is given out only when the
whole ball lies in one cell of the grid. No float rounding touches the law, so no last bit can tell two footpoints
apart (Mironov 2012 shows that floats do). docs/release-path.md has the proof and the threat model.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, get_args

import numpy as np
from flint import arb

from curvedp import _validate
from curvedp.entropy.bits import LazyNormals
from curvedp.entropy.csprng import Allowance, Source, check_source
from curvedp.errors import ParameterError
from curvedp.geometry import Manifold
from curvedp.geometry.capabilities import AffineInvariantCone, UnitQuadric
from curvedp.geometry.spaces.euclidean import Euclidean
from curvedp.laws.exact.curved import draw_curved, place_of
from curvedp.laws.exact.radial import RadialBall
from curvedp.laws.exact.spd import acceptance, draw_spd
from curvedp.laws.spaceform import rays_of
from curvedp.numerics.enclosures import (
    FILTER_GRID,
    FILTER_SIZE,
    arb_array,
    decide,
    first_precision,
    round_arb,
)

Law = Literal["gaussian", "laplace"]

_MAX_GRID = 200
# Beyond these the envelopes' slopes leave float64; a hyperbolic radius is of the order of σ²d, and e^r has a range too.
_LEAST_SCALE, _LARGEST_SCALE, _LARGEST_HYPERBOLIC_SCALE = 1e-290, 1e290, 1e12
_ON_MANIFOLD = 1e-6  # residual of a footpoint where not every array is one


@dataclass(frozen=True)
class ExactDraw:
    """A draw on the grid: `integers`·2^-grid, the ideal draw rounded to the nearest grid point.

    `integers` are the ambient coordinates of a point, or coordinates of the tangent space at the origin (`in_chart`). They
    are all that is released; `value` and `point` are functions of them.

    *Guarantees*
    - `tau` bounds the total variation between the law of `integers` and the ideal rounded law, for AES an ideal cipher.
      It is a function of the manifold and the law alone: what the draw happened to use is not in it.
    """

    integers: np.ndarray
    grid: int
    tau: float
    manifold: Manifold

    @property
    def value(self) -> np.ndarray:
        """integers·2^-grid as float64: Python divides integers with a single, correct rounding."""
        floats = [int(k) / (1 << self.grid) for k in self.integers.ravel()]
        return np.array(floats, dtype=np.float64).reshape(self.integers.shape)

    @property
    def point(self) -> Any:
        """A point of the manifold near the grid point: post-processing, in floats."""
        return drawn_point(self.manifold, self.value)


@lru_cache(maxsize=256)
def drawn_shape(manifold: Manifold) -> tuple[int, ...]:
    """The shape of the integers of an intrinsic draw; those of the factors of a product stand one after the other."""
    if len(manifold.factors) > 1:
        return (sum(math.prod(drawn_shape(factor)) for factor in manifold.factors),)
    return (manifold.dim,) if in_chart(manifold) else manifold.point_shape


def drawn_point(manifold: Manifold, value: np.ndarray) -> Any:
    """The point that `ExactDraw.point` makes of grid coordinates, for an intrinsic draw."""
    if len(manifold.factors) > 1:
        ends = np.cumsum(
            [math.prod(drawn_shape(factor)) for factor in manifold.factors]
        )[:-1]
        parts = zip(manifold.factors, np.split(value, ends), strict=True)
        return manifold.join(
            [
                drawn_point(factor, part.reshape(drawn_shape(factor)))
                for factor, part in parts
            ]
        )
    if in_chart(manifold):
        return manifold.exp(
            manifold.origin, manifold.from_coordinates(manifold.origin, value)
        )
    return manifold.project(value)


def has_exact_laplace(manifold: Manifold) -> bool:
    """Whether `exact_laplace` draws on this manifold; to be asked before anything is paid."""
    curved = rays_of(manifold) is not None and place_of(manifold) is not None
    return curved or isinstance(manifold, AffineInvariantCone)


def has_exact_gaussian(manifold: Manifold) -> bool:
    """Whether `exact_gaussian` draws on this manifold; to be asked before anything is paid."""
    if len(manifold.factors) > 1:
        return all(has_exact_gaussian(factor) for factor in manifold.factors)
    return (
        isinstance(manifold, Euclidean)
        or in_chart(manifold)
        or has_exact_laplace(manifold)
    )


@lru_cache(maxsize=256)
def in_chart(manifold: Manifold) -> bool:
    """Whether a draw is released in global flat coordinates: a flat space, no product, whose points are not its vectors."""
    if len(manifold.factors) > 1:
        return False
    rays, ambient = (
        rays_of(manifold),
        isinstance(manifold, Euclidean) or place_of(manifold) is not None,
    )
    return (
        rays is not None
        and rays.curvature == 0
        and not ambient
        and not isinstance(manifold, AffineInvariantCone)
    )


def exact_draw(
    kind: Law,
    manifold: Manifold,
    scale: float,
    center: Any,
    *,
    source: Source | None = None,
    grid: int = 30,
) -> ExactDraw:
    """A law about the center, rounded to the grid 2^-grid: the Riemannian Gaussian or the Laplace law (Euclidean: the
    multivariate one of the norm).

    Ambient coordinates are rounded; of a line the sign, and of a shape the rotation, is drawn uniformly. The flat SPD
    metrics are released in their flat coordinates at the identity; `point` maps them back. Where the law does not exist,
    `NotIntegrable` names the limit.

    *Guarantees*
    - The law of `integers` is within `tau` of the exact rounded law at the exact footpoint: center/|center| on the
      sphere, the lift of the spatial part on Lorentz, the symmetric or Hermitian part of a matrix. `tau` is 2^-100 for
      up to 4096 numbers, and grows with their number and with the trials that a draw of matrices is expected to take.
    """
    start = _center(manifold, center)
    if not (isinstance(kind, str) and kind in get_args(Law)):
        _validate.choice("kind", kind, get_args(Law))
    if manifold.float_set.max_distance == math.inf:
        largest_scale = _LARGEST_SCALE
    else:
        largest_scale = _LARGEST_HYPERBOLIC_SCALE
    scale = _validate.within("scale", scale, _LEAST_SCALE, largest_scale)
    if (
        not (type(grid) is int and 1 <= grid <= _MAX_GRID)
        and _validate.integer("grid", grid, 1) > _MAX_GRID
    ):
        raise ParameterError(
            f"must be at most {_MAX_GRID}", parameter="grid", value=grid
        )
    return _draw(kind, manifold, scale, start, check_source(source), grid)


exact_gaussian, exact_laplace = (
    partial(exact_draw, "gaussian"),
    partial(exact_draw, "laplace"),
)


def _draw(
    kind: Law,
    manifold: Manifold,
    scale: float,
    center: np.ndarray,
    source: Source,
    grid: int,
) -> ExactDraw:
    rays = rays_of(manifold)
    if len(manifold.factors) > 1 and kind == "gaussian":
        parts = [
            _draw(kind, factor, scale, part, source, grid)
            for factor, part in zip(
                manifold.factors, manifold.split(center), strict=True
            )
        ]
        joined = np.concatenate([part.integers.ravel() for part in parts])
        return ExactDraw(joined, grid, sum(p.tau for p in parts), manifold)
    matrices = manifold.cone_size if isinstance(manifold, AffineInvariantCone) else None
    allowance = Allowance(
        math.prod(manifold.point_shape),
        acceptance(kind, *matrices, scale) if matrices else 1.0,
    )
    metered = allowance.meter(source)
    if kind == "gaussian" and isinstance(manifold, Euclidean):
        integers = _flat_gaussian(center, scale, metered, grid)
    elif rays is not None and place_of(manifold) is not None:
        integers = draw_curved(
            RadialBall(kind, rays, scale), manifold, center, metered, grid
        )
    elif matrices:
        integers = draw_spd(kind, *matrices, scale, center, metered, grid)
    elif kind == "gaussian" and in_chart(manifold):
        coordinates = np.asarray(manifold.normal_coordinates(manifold.origin, center))
        integers = _flat_gaussian(coordinates, scale, metered, grid)
    else:
        raise ParameterError(
            f"has no exact {kind} sampler; use the mechanism tangent-gaussian",
            parameter="manifold",
            value=manifold,
        )
    return ExactDraw(integers, grid, allowance.tau(), manifold)


def _flat_gaussian(
    start: np.ndarray, sigma: float, source: Source, grid: int
) -> np.ndarray:
    """Independent coordinates: each is settled by floats where they suffice and by balls where not."""
    normals = LazyNormals(source, start.size)
    out = np.zeros(start.size, dtype=object)
    open_ = np.arange(start.size)
    if start.size >= FILTER_SIZE and grid <= FILTER_GRID:
        with np.errstate(all="ignore"):
            integers, certain = (normals.floats() * sigma + start).round(grid)
        out[certain] = [int(k) for k in integers[certain]]
        open_ = np.flatnonzero(~certain)
    scale, precision = arb(sigma), first_precision(grid)
    for i in open_.tolist():
        foot = arb(float(start[i]))
        out[i] = decide(
            lambda p, i=i, foot=foot: round_arb(  # type: ignore[misc]  # mypy infers no lambda with a default
                foot + scale * normals.ball(i, p), grid
            ),
            precision,
        )
    return out


def _center(manifold: Manifold, center: Any) -> np.ndarray:
    if not isinstance(manifold, Manifold):
        raise ParameterError("must be a manifold", parameter="manifold", value=manifold)
    array = _validate.array("center", center)
    if array.shape != manifold.point_shape:
        raise ParameterError(
            f"center has shape {array.shape}; it must have shape {manifold.point_shape}"
        )
    if not np.all(np.isfinite(array)):
        raise ParameterError("center must be finite")
    _check_on(manifold, array)
    return array


def _check_on(manifold: Manifold, center: np.ndarray) -> None:
    unlifted = not isinstance(
        manifold, UnitQuadric
    )  # on a quadric an array is lifted or scaled to a point
    if len(manifold.factors) > 1:
        for factor, part in zip(manifold.factors, manifold.split(center), strict=True):
            _check_on(factor, part)
    elif (
        isinstance(manifold, UnitQuadric)
        and manifold.embedding_signature[0] > 0
        and not np.any(center)
    ):
        raise ParameterError("center must not be 0 on a sphere")
    elif unlifted and manifold.curvature_bounds[0] < 0 and center.ndim == 1:
        balls = arb_array(center)
        if decide(lambda p: _sign(balls.dot(balls) - 1)) >= 0:
            raise ParameterError("center must lie inside the unit ball")
    elif (
        unlifted
        and manifold.curvature_bounds[0] >= 0
        and not manifold.residual(center) <= _ON_MANIFOLD
    ):
        raise ParameterError(f"center must be a point of {manifold!r}")


def _sign(x: arb) -> int | None:
    if x.is_exact() and x == 0:
        return 0
    return None if x.contains(0) else (1 if x > 0 else -1)

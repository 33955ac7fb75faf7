"""Gaussian and Laplace draws on constant curvature: a radius, a direction, and the exponential map in balls."""

from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb

from curvedp.entropy.balls import (
    FILTER_GRID,
    FILTER_SIZE,
    FloatBall,
    arb_array,
    decide,
    first_precision,
    float_ball,
    round_arb,
)
from curvedp.entropy.bits import LazyNormals
from curvedp.entropy.csprng import Source
from curvedp.geometry import Euclidean, Lorentz, PoincareBall, Sphere
from curvedp.laws.exact.radial import LazyRadius, RadialLaw, draw_radius

__all__ = ["draw_curved"]

_CURVATURE = {Euclidean: 0, Sphere: 1, Lorentz: -1, PoincareBall: -1}


def draw_curved(kind: str, manifold: Any, scale: float, center: np.ndarray, source: Source, grid: int) -> np.ndarray:
    """Integers of the exact draw rounded to the grid, as Python ints."""
    curvature = _CURVATURE[type(manifold)]
    radius = draw_radius(RadialLaw(kind, curvature, manifold.d, scale), source)
    ambient = manifold.d + 1 if curvature == 1 else manifold.d
    normals = LazyNormals(source, ambient)
    place = {Euclidean: _euclidean, Sphere: _sphere, Lorentz: _lorentz, PoincareBall: _poincare}[type(manifold)]
    foot = center[1:] if isinstance(manifold, Lorentz) else center

    if ambient >= FILTER_SIZE and grid <= FILTER_GRID:
        with np.errstate(all="ignore"):
            steps = [float_ball(part) for part in decide(lambda p: _steps(radius, curvature, p))]
            parts = [part.round(grid) for part in place(FloatBall(foot), normals.floats(), *steps)]
        if all(np.all(certain) for _, certain in parts):
            return np.array([int(k) for integers, _ in parts for k in np.ravel(integers)], dtype=object)

    mirror = _mirror(len(foot))

    def balls(precision: int) -> np.ndarray | None:
        # Arb is faster on operands with few bits, such as the zeros of a pole. The reflection makes generic footpoints
        # of those. Direction and result are reflected too, so that this is the draw the filter could not settle, and
        # not another one with the same law: that would be biased, since the filter has looked.
        steps = _steps(radius, curvature, precision)
        if steps is None:
            return None
        parts = place(mirror(arb_array(foot)), mirror(normals.balls(precision)), *steps)
        parts[-1] = mirror(parts[-1])
        cells = [round_arb(x, grid) for part in parts for x in np.ravel(part)]
        return None if None in cells else np.array(cells, dtype=object)

    return decide(balls, first_precision(grid))


def _steps(radius: LazyRadius, curvature: int, precision: int) -> tuple[arb, arb] | None:
    """(cs r, sn r): how far along the footpoint and along the direction."""
    r = radius.ball(precision)
    if not r.is_finite():
        return None
    if curvature == 0:
        return arb(1), r
    sn, cs = r.sin_cos() if curvature == 1 else r.sinh_cosh()
    return cs, sn


# Each takes the footpoint, a standard normal vector and (cs r, sn r); Arb arrays and FloatBalls alike.


def _euclidean(p: Any, g: Any, cs: Any, sn: Any) -> list[Any]:
    return [p + g * (sn / g.dot(g).sqrt())]


def _sphere(p: Any, g: Any, cs: Any, sn: Any) -> list[Any]:
    """cos r·p + sin r·w, w the direction of the part of g orthogonal to p."""
    p = p / p.dot(p).sqrt()
    w = g - p * g.dot(p)
    return [p * cs + w * (sn / w.dot(w).sqrt())]


def _hyperboloid(p: Any, p0: Any, g: Any, cs: Any, sn: Any) -> tuple[Any, Any]:
    """Time and space of cosh r·(p0, p) + sinh r·w, w the direction u = g/|g| at the origin boosted to (p0, p)."""
    u = g / g.dot(g).sqrt()
    x = p * (cs + sn * u.dot(p) / (1 + p0)) + u * sn
    return (1 + x.dot(x)).sqrt(), x


def _lorentz(p: Any, g: Any, cs: Any, sn: Any) -> list[Any]:
    return list(_hyperboloid(p, (1 + p.dot(p)).sqrt(), g, cs, sn))


def _poincare(p: Any, g: Any, cs: Any, sn: Any) -> list[Any]:
    square = p.dot(p)
    time, space = _hyperboloid(p * (2 / (1 - square)), (1 + square) / (1 - square), g, cs, sn)
    return [space / (1 + time)]


def _mirror(n: int) -> Callable[[np.ndarray], np.ndarray]:
    """A fixed public reflection x − 2(v·x)v/(v·v) with no zero entries."""
    v = arb_array(np.sqrt(2.0 + np.arange(n)))
    return lambda x: x - v * (2 * v.dot(x) / v.dot(v))

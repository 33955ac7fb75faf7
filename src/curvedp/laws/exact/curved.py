"""Gaussian and Laplace draws on two-point homogeneous spaces: a radius, a direction, and the exponential map in balls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from flint import arb

from curvedp.entropy.bits import LazyNormals, LazyUniforms
from curvedp.entropy.csprng import Source
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    Manifold,
    PoincareBall,
    Rotations,
    Sphere,
)
from curvedp.laws.exact.radial import LazyRadius, RadialBall, draw_radius
from curvedp.numerics.enclosures import (
    FILTER_GRID,
    FILTER_SIZE,
    FloatBall,
    arb_array,
    decide,
    first_precision,
    float_ball,
    round_arb,
)

Steps = tuple[Any, Any]


@dataclass(frozen=True)
class Place:
    """How points of one manifold are written down, for Arb arrays and FloatBalls alike."""

    normals: int  # how many standard ones make a uniform direction
    steps: Callable[
        [arb], Steps
    ]  # the radius r as (cs r, sn r): how far along the footpoint and along the direction
    columns: Callable[
        [Any], list[Any]
    ]  # the footpoint as vectors, of those coordinates that count
    along: Callable[
        [list[Any], list[Any], Any, Any], list[Any]
    ]  # (footpoint, normals, cs, sn) to the point's vectors
    tangents: Callable[[Any], list[Any]] = lambda g: [
        g
    ]  # the normals as vectors; as long ones are in the same space
    # Whether a point is a vector up to its sign: the sign is then a fair coin, since which of the two the footpoint is given
    # by may depend on the data.
    signed: bool = False


@singledispatch
def place_of(manifold: Manifold) -> Place | None:
    """How a draw is placed on this kind of manifold; None where nobody has said so."""
    return None


def _circular(r: arb) -> Steps:
    return tuple(reversed(r.sin_cos()))


def _hyperbolic(r: arb) -> Steps:
    return tuple(reversed(r.sinh_cosh()))


place_of.register(
    Euclidean, lambda M: Place(M.dim, lambda r: (arb(1), r), lambda p: [p], _euclidean)
)
place_of.register(Sphere, lambda M: Place(M.dim + 1, _circular, lambda p: [p], _sphere))
place_of.register(
    Lorentz, lambda M: Place(M.dim, _hyperbolic, lambda p: [p[1:]], _lorentz)
)
place_of.register(
    PoincareBall, lambda M: Place(M.dim, _hyperbolic, lambda p: [p], _poincare)
)


@place_of.register
def _(manifold: Grassmann) -> Place | None:
    """A line is a unit vector up to its sign."""
    if manifold.r > 1:
        return None
    return Place(manifold.m, _circular, lambda p: [p[:, 0]], _sphere, signed=True)


@place_of.register
def _(manifold: KendallShapes) -> Place:
    """A shape is a complex unit vector up to its phase; two more normals make the phase uniform."""
    k = manifold.k

    def tangents(g: Any) -> list[Any]:
        return [_centered(g[:k]), _centered(g[k : 2 * k]), g[2 * k :]]

    return Place(
        2 * k + 2,
        _circular,
        lambda p: [_centered(p[:, 0]), _centered(p[:, 1])],
        _shape,
        tangents,
    )


@place_of.register
def _(manifold: Rotations) -> Place | None:
    """The axis and the sense of the turn are the direction."""
    if manifold.n > 3:
        return None
    axes = range(
        manifold.dim
    )  # of the body, not of the space that is reflected: numbers one by one
    return Place(
        manifold.dim,
        _circular,
        lambda p: _frame(p, manifold.n),
        _turned,
        lambda g: [g[i] for i in axes],
    )


def draw_curved(
    law: RadialBall,
    manifold: Manifold,
    center: np.ndarray,
    source: Source,
    grid: int,
) -> np.ndarray:
    """Integers of the exact draw rounded to the grid, as Python ints in the shape of a point."""
    place = place_of(manifold)
    assert place is not None  # the caller has asked
    radius = draw_radius(law, source)
    normals = LazyNormals(source, place.normals)
    sign = (
        1 - 2 * (int(LazyUniforms(source, 1).leading[0]) >> 63) if place.signed else 1
    )

    if place.normals >= FILTER_SIZE and grid <= FILTER_GRID:
        with np.errstate(all="ignore"):
            vectors = place.columns(FloatBall(center))
            steps = [
                float_ball(part) for part in decide(lambda p: _steps(radius, place, p))
            ]
            tangents = place.tangents(normals.floats())
            vectors = place.along(vectors, tangents, *steps)
            parts = [part.round(grid) for part in vectors]
        if all(np.all(certain) for _, certain in parts):
            return _joined(
                manifold,
                [[int(k) for k in np.ravel(integers)] for integers, _ in parts],
                sign,
            )

    def balls(precision: int) -> np.ndarray | None:
        # Arb is faster on operands with few bits, such as the zeros of a pole. The reflection makes generic footpoints
        # of those. Direction and result are reflected too, so that this is the draw the filter could not settle, and
        # not another one with the same law: that would be biased, since the filter has looked.
        vectors = place.columns(arb_array(center))
        mirror = _mirror(len(vectors[0]))
        vectors = mirror(vectors)
        steps = _steps(radius, place, precision)
        if steps is None:
            return None
        tangents = mirror(place.tangents(normals.balls(precision)))
        vectors = place.along(vectors, tangents, *steps)
        cells = [
            [round_arb(x, grid) for x in np.ravel(part)] for part in mirror(vectors)
        ]
        return (
            None
            if any(None in part for part in cells)
            else _joined(manifold, cells, sign)
        )

    return decide(balls, first_precision(grid))


def _joined(
    manifold: Manifold, parts: Sequence[Sequence[int | None]], sign: int
) -> np.ndarray:
    """One vector after another, or side by side as the columns of a matrix."""
    columns = [np.array(part, dtype=object) * sign for part in parts]
    return (
        np.concatenate(columns)
        if len(manifold.point_shape) == 1
        else np.stack(columns, axis=1)
    )


def _steps(radius: LazyRadius, place: Place, precision: int) -> Steps | None:
    r = radius.ball(precision)
    return place.steps(r) if r.is_finite() else None


# Each takes the footpoint's vectors, standard normals and (cs r, sn r); Arb arrays and FloatBalls alike.


def _unit(x: Any) -> Any:
    return x / x.dot(x).sqrt()


def _euclidean(foot: list[Any], tangents: list[Any], cs: Any, sn: Any) -> list[Any]:
    return [foot[0] + _unit(tangents[0]) * sn]


def _sphere(foot: list[Any], tangents: list[Any], cs: Any, sn: Any) -> list[Any]:
    """cos r·p + sin r·w, w the direction of the part of g orthogonal to p."""
    p, g = _unit(foot[0]), tangents[0]
    return [p * cs + _unit(g - p * g.dot(p)) * sn]


def _hyperboloid(p: Any, p0: Any, g: Any, cs: Any, sn: Any) -> tuple[Any, Any]:
    """Time and space of cosh r·(p0, p) + sinh r·w, w the direction u = g/|g| at the origin boosted to (p0, p)."""
    u = _unit(g)
    x = p * (cs + sn * u.dot(p) / (1 + p0)) + u * sn
    return (1 + x.dot(x)).sqrt(), x


def _lorentz(foot: list[Any], tangents: list[Any], cs: Any, sn: Any) -> list[Any]:
    return list(
        _hyperboloid(foot[0], (1 + foot[0].dot(foot[0])).sqrt(), tangents[0], cs, sn)
    )


def _poincare(foot: list[Any], tangents: list[Any], cs: Any, sn: Any) -> list[Any]:
    p = foot[0]
    square = p.dot(p)
    time, space = _hyperboloid(
        p * (2 / (1 - square)), (1 + square) / (1 - square), tangents[0], cs, sn
    )
    return [space / (1 + time)]


def _centered(x: Any) -> Any:
    n = x.mid.shape[0] if isinstance(x, FloatBall) else len(x)
    return x - x.sum() / n


def _shape(foot: list[Any], tangents: list[Any], cs: Any, sn: Any) -> list[Any]:
    """e^{iψ}(cos r·p + sin r·w): w the direction of the part of the normals that is orthogonal to p and i·p.

    A uniform phase ψ, because which of its rotations a shape is given by may depend on the data.
    """
    (x, y), (a, b, turn) = foot, tangents
    length = (x.dot(x) + y.dot(y)).sqrt()
    x, y = x / length, y / length
    real, imaginary = a.dot(x) + b.dot(y), b.dot(x) - a.dot(y)
    a, b = a - x * real + y * imaginary, b - y * real - x * imaginary
    step = sn / (a.dot(a) + b.dot(b)).sqrt()
    x, y = x * cs + a * step, y * cs + b * step
    phase = _unit(turn)
    return [x * phase[0] - y * phase[1], x * phase[1] + y * phase[0]]


def _frame(p: Any, n: int) -> list[Any]:
    """The rotation's columns made orthonormal, by Gram–Schmidt and the right-hand rule."""
    a = _unit(p[:, 0])
    if n == 2:
        return [a, a[[1, 0]] * np.array([-1.0, 1.0])]
    b = _unit(p[:, 1] - a * a.dot(p[:, 1]))
    return [a, b, a[[1, 2, 0]] * b[[2, 0, 1]] - a[[2, 0, 1]] * b[[1, 2, 0]]]


def _turned(foot: list[Any], tangents: list[Any], cs: Any, sn: Any) -> list[Any]:
    """The frame times the rotation by the angle r about the axis g (Rodrigues), or by ±r in the plane."""
    length = sum(z * z for z in tangents).sqrt()
    u = [z / length for z in tangents]
    if len(foot) == 2:
        return [
            foot[0] * cs + foot[1] * (sn * u[0]),
            foot[1] * cs - foot[0] * (sn * u[0]),
        ]
    along = foot[0] * u[0] + foot[1] * u[1] + foot[2] * u[2]
    across = [
        foot[(j + 1) % 3] * u[(j + 2) % 3] - foot[(j + 2) % 3] * u[(j + 1) % 3]
        for j in range(3)
    ]
    return [foot[j] * cs + along * (u[j] * (1 - cs)) + across[j] * sn for j in range(3)]


def _mirror(n: int) -> Callable[[list[Any]], list[Any]]:
    """A fixed public reflection x − 2(v·x)v/(v·v) of vectors of length n with no zero entries; others stay."""
    v = arb_array(np.sqrt(2.0 + np.arange(n)))
    return lambda vectors: [
        x - v * (2 * v.dot(x) / v.dot(v)) if np.shape(x) == (n,) else x for x in vectors
    ]

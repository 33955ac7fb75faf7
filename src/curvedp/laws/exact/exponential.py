"""The end of a geodesic with a random radius and a uniform direction, rounded to a grid
with certainty. The geodesic starts at the center of the noise, the footpoint. Its end
is enclosed in *balls* (midpoints with error bounds), which shrink until the rounding of
every coordinate is certain.

The formulas for the points of one manifold are in an `ExactChart`
(`curvedp.laws.exact.charts`).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from flint import arb

from curvedp.geometry import Manifold
from curvedp.laws.exact.charts import ExactChart, RadialFactors, Vectors
from curvedp.laws.exact.radial import ExactRadialDensity, draw_radius
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
from curvedp.randomness.csprng import Source
from curvedp.randomness.lazy_reals import LazyNormals, LazyUniforms


class LazyLength(Protocol):
    """A real number that can be enclosed as narrowly as needed: a `LazyRadius`."""

    def ball(self, precision: int) -> arb:
        """Return a ball around the number.

        Parameters
        ----------
        precision : int
            About how many bits of it the ball determines.

        Returns
        -------
        arb
            The ball.
        """
        ...


def draw_in_chart(
    density: ExactRadialDensity,
    chart: ExactChart,
    center: np.ndarray,
    source: Source,
    grid: int,
) -> np.ndarray:
    """Return a draw of isotropic noise about a center, rounded to the grid 2^-grid.

    The radius r and the direction w are drawn as lazy real numbers, which can be
    computed to any number of bits. The point exp(center, r·w) is enclosed in intervals
    of growing precision until every entry is certain to round to one integer. So the
    result has the law of the exact draw, rounded.

    Parameters
    ----------
    density : ExactRadialDensity
        The law of the radius.
    chart : ExactChart
        The formulas for points of the manifold.
    center : array
        The footpoint; its entries are taken as exact numbers.
    source : Source
        The random bits.
    grid : int
        The grid is 2^-grid.

    Returns
    -------
    array of Python ints, in the shape of a point
        The coordinates of the draw in units of 2^-grid.
    """
    return exponential_in_chart(
        draw_radius(density, source), chart, center, source, grid
    )


def exponential_in_chart(
    radius: LazyLength, chart: ExactChart, center: np.ndarray, source: Source, grid: int
) -> np.ndarray:
    """Return exp(center, r·w) for a uniform direction w, rounded to the grid 2^-grid.

    The radius and the direction are real numbers of which any number of digits can be
    drawn. The point is evaluated as intervals, in two stages:

    1. Large points on usual grids are first tried in float64, with proved error bounds.
       Nearly every draw ends here.
    2. If an interval contains an edge between two cells of the grid, its rounding is not
       certain. Then Arb evaluates more and more digits of the same numbers.

    So the integers are exactly the rounding of the ideal draw. A draw must never be
    replaced by a new one because it was hard to round: that would be biased.
    tests/laws/exact/test_draw.py compares the integers at several precisions.

    Parameters
    ----------
    radius : LazyLength
        The distance r, which was drawn before.
    chart : ExactChart
        The formulas for points of the manifold: one vector, or several columns.
    center : array
        The footpoint; its entries are taken as exact numbers.
    source : Source
        The random bits of the direction.
    grid : int
        The grid is 2^-grid.

    Returns
    -------
    array of Python ints, in the shape of a point
        The coordinates of the point in units of 2^-grid.
    """
    # The direction w is a vector of normal numbers, scaled to length 1. On a projective
    # space a point is a line ±x, and is released with a random sign.
    normals = LazyNormals(source, chart.n_normals)
    sign = _random_sign(source) if chart.is_up_to_sign else 1

    is_fit_for_floats = chart.n_normals >= FILTER_SIZE and grid <= FILTER_GRID
    if is_fit_for_floats:
        float_columns = _round_with_floats(chart, center, radius, normals, grid)
        if float_columns is not None:
            return _join_columns(chart.manifold, float_columns, sign)

    def round_with_arb(precision: int) -> np.ndarray | None:
        """Return the integers of the point; None if they are not certain yet."""
        vectors = _point_in_arb(chart, center, radius, normals, precision)
        if vectors is None:
            return None
        columns = [
            [round_arb(entry, grid) for entry in np.ravel(vector)] for vector in vectors
        ]
        if any(None in column for column in columns):
            return None
        return _join_columns(chart.manifold, columns, sign)

    return decide(round_with_arb, first_precision(grid))


def _point_in_arb(
    chart: ExactChart,
    center: np.ndarray,
    radius: LazyLength,
    normals: LazyNormals,
    precision: int,
) -> Vectors | None:
    """Return the vectors of exp(center, r·w) as Arb balls, without a timing channel.

    Arb is faster on numbers with few bits, such as the zeros of a pole. A public
    reflection turns such a footpoint into a generic one, so that the running time does
    not tell them apart. The direction is reflected too, and the result is reflected
    back: the point is the same as without the reflection.

    Parameters
    ----------
    chart : ExactChart
        The formulas for points of the manifold.
    center : array
        The footpoint; its entries are exact numbers.
    radius : LazyLength
        The distance r.
    normals : LazyNormals
        The normals of the direction w.
    precision : int
        The number of bits.

    Returns
    -------
    list of vectors, or None
        The vectors; None if the radius has no finite enclosure at this precision.
    """
    radial_factors = _radial_factors(radius, chart, precision)
    if radial_factors is None:
        return None

    footpoint = chart.footpoint(arb_array(center))
    direction = chart.direction(normals.balls(precision))
    reflect = _public_reflection(len(footpoint[0]))
    reflected_point = chart.point(
        reflect(footpoint), reflect(direction), *radial_factors
    )
    return reflect(reflected_point)


def _round_with_floats(
    chart: ExactChart,
    center: np.ndarray,
    radius: LazyLength,
    normals: LazyNormals,
    grid: int,
) -> list[list[int]] | None:
    """Return the rounded vectors of a draw, or None if some entry is not certain.

    This is the fast first stage of `exponential_in_chart`: the exponential map is
    evaluated in float64 with proved error radii.

    Only entries that are certain may be returned; tests/laws/exact/test_filter.py
    compares them with Arb.

    Parameters
    ----------
    chart : ExactChart
        The formulas for points of the manifold.
    center : array
        The footpoint; its entries are exact numbers.
    radius : LazyLength
        The drawn radius.
    normals : LazyNormals
        The normals of the direction.
    grid : int
        The grid is 2^-grid.

    Returns
    -------
    list of lists of int, or None
        The integers of each vector of the point.
    """
    with np.errstate(all="ignore"):
        # cos r and sin r; on a hyperbolic space cosh r and sinh r.
        factors = decide(lambda precision: _radial_factors(radius, chart, precision))
        cosine = float_ball(factors.cs)
        sine = float_ball(factors.sn)

        # The exponential map, and its vectors rounded to the grid.
        footpoint = chart.footpoint(FloatBall(center))
        direction = chart.direction(normals.floats())
        vectors = chart.point(footpoint, direction, cosine, sine)
        rounded = [vector.round(grid) for vector in vectors]

    if not all(np.all(is_certain) for _, is_certain in rounded):
        return None
    return [[int(integer) for integer in np.ravel(integers)] for integers, _ in rounded]


def _random_sign(source: Source) -> int:
    """Return −1 or 1, each with probability one half: the sign of a released line.

    Called when the point is a line, which has two unit vectors: the released one must
    not reveal which of them the footpoint was.

    Parameters
    ----------
    source : Source
        The random bits; one of them is used.

    Returns
    -------
    int
        The sign.
    """
    first_bit = int(LazyUniforms(source, 1).leading[0]) >> 63
    return 1 - 2 * first_bit


def _join_columns(
    manifold: Manifold, columns: Sequence[Sequence[int | None]], sign: int
) -> np.ndarray:
    """Assemble the integers of a point from its rounded vectors.

    Called at the end of a draw, when all of its coordinates are certain.

    Parameters
    ----------
    manifold : Manifold
        If its points are vectors, the rounded vectors are concatenated; if its points
        are matrices, they are its columns.
    columns : sequence of sequences of int
        The rounded vectors.
    sign : {-1, 1}
        The factor of all integers.

    Returns
    -------
    array of Python ints
        The integers, in the shape of a point.
    """
    arrays = [np.array(column, dtype=object) * sign for column in columns]
    if len(manifold.point_shape) == 1:
        return np.concatenate(arrays)
    return np.stack(arrays, axis=1)


def _radial_factors(
    radius: LazyLength, chart: ExactChart, precision: int
) -> RadialFactors | None:
    """Return the factors cs r and sn r of a point in polar coordinates, or None.

    They are cos r and sin r on spheres, cosh r and sinh r on hyperbolic spaces, 1 and r
    on Euclidean spaces. None is returned if the radius has no finite enclosure at this
    precision.

    Parameters
    ----------
    radius : LazyLength
        The drawn radius r.
    chart : ExactChart
        The formulas for points of the manifold.
    precision : int
        The number of bits.

    Returns
    -------
    RadialFactors or None
        The factors, as balls.
    """
    r = radius.ball(precision)
    return chart.radial_factors(r) if r.is_finite() else None


def _public_reflection(n: int) -> Callable[[Vectors], Vectors]:
    """Return a fixed reflection of vectors of length n, which hides special footpoints.

    It is x − 2(v·x)v/(v·v) with a public vector v of which no entry is zero. Arithmetic
    is faster on numbers of few bits, such as the zeros of a pole; after the reflection
    running time does not tell such a footpoint from another one.

    Parameters
    ----------
    n : int
        The length of the vectors that are reflected; others are left as they are.

    Returns
    -------
    callable
        The reflection, as a function of a list of vectors. It is its own inverse.
    """
    axis = arb_array(np.sqrt(2.0 + np.arange(n)))  # v, without a zero entry

    def reflect(vectors: Vectors) -> Vectors:
        """Reflect each vector of length n, and leave the others as they are."""
        reflected = []
        for vector in vectors:
            if np.shape(vector) == (n,):
                vector = vector - axis * (2 * axis.dot(vector) / axis.dot(axis))
            reflected.append(vector)
        return reflected

    return reflect

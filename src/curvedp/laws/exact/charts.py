"""Exact draws on spheres, hyperbolic, projective and flat spaces, computed with error
bounds. A draw is the exponential map of a random radius r and a uniform direction at
the center of the noise, the footpoint p. All three are computed as *balls* (midpoints
with error bounds) until the rounding of every coordinate is certain.

An `ExactChart` says how the points of one manifold are written as vectors;
`exact_chart` finds it for a manifold, and `exact_chart.register` adds one for a
manifold of your own (docs/project/extending.md, Exact draws).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, NamedTuple, Protocol

import numpy as np
from flint import arb

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

Enclosure = Any
"""A real number or vector with error bounds: Arb balls in an array, or a FloatBall.

Formulas are written once for all of them: they share + − * / and `dot`, `sqrt`, `sum`.
"""

Vectors = list[Enclosure]
"""The vectors by which a point is given, such as the columns of a matrix."""


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


class RadialFactors(NamedTuple):
    """How far the exponential map goes along the footpoint and along the direction."""

    cs: Enclosure
    """cos r on a sphere, cosh r on hyperbolic space, 1 on Euclidean space."""
    sn: Enclosure
    """sin r, sinh r, or r."""


@dataclass(frozen=True)
class ExactChart(ABC):
    """The points of one manifold as vectors, and its exponential map in balls.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the points.
    """

    manifold: Manifold

    @property
    @abstractmethod
    def n_normals(self) -> int:
        """The number of standard normals that make a direction and, if any, a phase."""

    @property
    def is_up_to_sign(self) -> bool:
        """Whether a point is a vector up to its sign.

        The released sign is then random, because the sign of the vector by which the
        footpoint is given may depend on the data.
        """
        return False

    @abstractmethod
    def radial_factors(self, r: arb) -> RadialFactors:
        """Return the factors cs r and sn r of a point at distance r.

        They multiply the footpoint p and the unit direction w in the exponential map
        cs·p + sn·w. They are cos r and sin r on spheres, cosh r and sinh r on
        hyperbolic spaces, and 1 and r on flat spaces.

        Parameters
        ----------
        r : arb
            A ball around the distance r.

        Returns
        -------
        RadialFactors
            The two factors, as balls.
        """

    @abstractmethod
    def footpoint(self, center: Enclosure) -> Vectors:
        """Return the footpoint: the center of the noise as vectors, for `point`.

        Geodesics start at the footpoint, and a draw is the end of one of them.

        Parameters
        ----------
        center : Enclosure, shape point_shape
            The center; its entries are exact numbers.

        Returns
        -------
        list of vectors
            The coordinates that determine the point; they need not be normalized.
        """

    def direction(self, normals: Enclosure) -> Vectors:
        """Return the standard normals as the vectors of a random direction.

        Parameters
        ----------
        normals : Enclosure, shape (n_normals,)
            Independent standard normals.

        Returns
        -------
        list of vectors
            By default one vector of all normals; it need not be normalized or tangent.
        """
        return [normals]

    @abstractmethod
    def point(
        self, footpoint: Vectors, direction: Vectors, cs: Enclosure, sn: Enclosure
    ) -> Vectors:
        """Return the vectors of exp(footpoint, r·u), u the unit direction.

        Parameters
        ----------
        footpoint : list of vectors
            The result of `ExactChart.footpoint`; not exactly normalized.
        direction : list of vectors
            The result of `ExactChart.direction`; not normalized.
        cs, sn : balls
            The factors cs r and sn r of the distance r (`radial_factors`).

        Returns
        -------
        list of vectors
            The vectors of the point, in the order of its columns.
        """


@singledispatch
def exact_chart(manifold: Manifold) -> ExactChart | None:
    """Return the chart for exact draws on a manifold, or None if none is registered.

    Parameters
    ----------
    manifold : Manifold
        The space on which the noise lives.

    Returns
    -------
    ExactChart or None
        The chart.

    Examples
    --------
    Registering a chart for a manifold class of your own:

    >>> from curvedp.geometry import Sphere
    >>> class MySphere(Sphere):
    ...     pass
    >>> _ = exact_chart.register(MySphere, ExactSphere)
    >>> exact_chart(MySphere(2)).n_normals
    3
    """
    return None


class ExactEuclidean(ExactChart):
    """p + r·u in Euclidean space."""

    @property
    def n_normals(self) -> int:
        """A direction in ℝ^d is made of d normals."""
        return self.manifold.dim

    def radial_factors(self, r: arb) -> RadialFactors:
        """Return the factors 1 of the footpoint and r of the direction."""
        return RadialFactors(arb(1), r)

    def footpoint(self, center: Enclosure) -> Vectors:
        """Return the center itself, one vector."""
        return [center]

    def point(
        self, footpoint: Vectors, direction: Vectors, cs: Enclosure, sn: Enclosure
    ) -> Vectors:
        """Return p + r·u, with p the footpoint and u the normalized direction.

        Parameters
        ----------
        footpoint : list of one vector
            The center p of the noise.
        direction : list of one vector
            Standard normals, a multiple of u.
        cs, sn : enclosures
            1, which is not used, and the distance r.

        Returns
        -------
        list of vectors
            One vector, the point.
        """
        return [footpoint[0] + _normalize(direction[0]) * sn]


class ExactSphere(ExactChart):
    """cos r·p + sin r·w, w the direction of the part of the normals orthogonal to p."""

    @property
    def n_normals(self) -> int:
        """A direction is made of d + 1 normals; their part along p is removed."""
        return self.manifold.dim + 1

    def radial_factors(self, r: arb) -> RadialFactors:
        """Return the factors cos r of the footpoint and sin r of the direction."""
        return _cos_sin(r)

    def footpoint(self, center: Enclosure) -> Vectors:
        """Return the center itself, one vector."""
        return [center]

    def point(
        self, footpoint: Vectors, direction: Vectors, cs: Enclosure, sn: Enclosure
    ) -> Vectors:
        """Return cos r·p + sin r·w, with unit vectors p and w orthogonal to each other.

        p is the normalized footpoint, and w the normalized part of the direction that
        is orthogonal to p.

        Parameters
        ----------
        footpoint : list of one vector
            A multiple of p.
        direction : list of one vector
            Standard normals.
        cs, sn : enclosures
            cos r and sin r of the distance r.

        Returns
        -------
        list of vectors
            One vector, the point.
        """
        p = _normalize(footpoint[0])
        normals = direction[0]
        w = _normalize(normals - p * normals.dot(p))
        return [p * cs + w * sn]


class ExactLine(ExactSphere):
    """A line, that is Grassmann(m, 1): a unit vector up to its sign."""

    @property
    def n_normals(self) -> int:
        """A direction is made of m normals; their part along the line is removed."""
        return self.manifold.point_shape[0]

    @property
    def is_up_to_sign(self) -> bool:
        """True: a line has two unit vectors, and a random bit chooses one of them."""
        return True

    def footpoint(self, center: Enclosure) -> Vectors:
        """Return the only column of the m×1 matrix that stands for the line."""
        return [center[:, 0]]


class ExactLorentz(ExactChart):
    """cosh r·p + sinh r·w on the hyperboloid, with p from its space coordinates."""

    @property
    def n_normals(self) -> int:
        """A direction at the origin is made of d normals; a boost takes it to p."""
        return self.manifold.dim

    def radial_factors(self, r: arb) -> RadialFactors:
        """Return the factors cosh r of the footpoint and sinh r of the direction."""
        return _cosh_sinh(r)

    def footpoint(self, center: Enclosure) -> Vectors:
        """Return the space coordinates of the center; its time coordinate follows."""
        return [center[1:]]

    def point(
        self, footpoint: Vectors, direction: Vectors, cs: Enclosure, sn: Enclosure
    ) -> Vectors:
        """Return the time and space coordinates of cosh r·p + sinh r·w.

        p is the point of the hyperboloid with the given space coordinates, and w a unit
        tangent vector at p.

        Parameters
        ----------
        footpoint : list of one vector
            The space coordinates of p.
        direction : list of one vector
            Standard normals.
        cs, sn : enclosures
            cosh r and sinh r of the distance r.

        Returns
        -------
        list of vectors
            The time coordinate, and the vector of space coordinates.
        """
        space = footpoint[0]
        time = (1 + space.dot(space)).sqrt()
        point = _hyperboloid_point(space, time, direction[0], cs, sn)
        return [point.time, point.space]


class ExactPoincareBall(ExactChart):
    """The hyperboloid seen from (−1, 0): x = space/(1 + time)."""

    @property
    def n_normals(self) -> int:
        """A direction at the origin is made of d normals; a boost takes it to p."""
        return self.manifold.dim

    def radial_factors(self, r: arb) -> RadialFactors:
        """Return cosh r and sinh r: points are computed on the hyperboloid."""
        return _cosh_sinh(r)

    def footpoint(self, center: Enclosure) -> Vectors:
        """Return the center itself, one vector of the open unit ball."""
        return [center]

    def point(
        self, footpoint: Vectors, direction: Vectors, cs: Enclosure, sn: Enclosure
    ) -> Vectors:
        """Return exp(p, r·u) in the ball, computed on the hyperboloid.

        The ball's p is lifted to the hyperboloid by space = 2p/(1 − |p|²) and
        time = (1 + |p|²)/(1 − |p|²), and the result is mapped back by
        x = space/(1 + time).

        Parameters
        ----------
        footpoint : list of one vector
            The center p of the noise.
        direction : list of one vector
            Standard normals.
        cs, sn : enclosures
            cosh r and sinh r of the distance r.

        Returns
        -------
        list of vectors
            One vector, the point.
        """
        p = footpoint[0]
        squared_norm = p.dot(p)
        space = p * (2 / (1 - squared_norm))
        time = (1 + squared_norm) / (1 - squared_norm)
        point = _hyperboloid_point(space, time, direction[0], cs, sn)
        return [point.space / (1 + point.time)]


class ExactKendallShapes(ExactChart):
    """A planar shape: a centered complex unit vector up to its phase.

    The point is e^{iψ}(cos r·p + sin r·w), w the direction of the part of the normals
    that is orthogonal to p and i·p. The phase ψ is uniform, made of two more normals,
    because the rotation by which a shape is given may depend on the data.
    """

    @property
    def _n_landmarks(self) -> int:
        """The number k of landmarks."""
        return self.manifold.point_shape[0]

    @property
    def n_normals(self) -> int:
        """A direction is made of 2k normals, and the phase ψ of two more."""
        return 2 * self._n_landmarks + 2

    def radial_factors(self, r: arb) -> RadialFactors:
        """Return the factors cos r of the footpoint and sin r of the direction."""
        return _cos_sin(r)

    def footpoint(self, center: Enclosure) -> Vectors:
        """Return the first and the second coordinates of all landmarks, centered.

        They are the real and the imaginary part of a complex vector.
        """
        return [_remove_mean(center[:, 0]), _remove_mean(center[:, 1])]

    def direction(self, normals: Enclosure) -> Vectors:
        """Return real part, imaginary part, and the vector whose angle is the phase.

        Parameters
        ----------
        normals : Enclosure, shape (2k + 2,)
            Standard normals, with k the number of landmarks.

        Returns
        -------
        list of vectors
            Two centered vectors of length k, and one of length 2.
        """
        n_landmarks = self._n_landmarks
        real = _remove_mean(normals[:n_landmarks])
        imaginary = _remove_mean(normals[n_landmarks : 2 * n_landmarks])
        return [real, imaginary, normals[2 * n_landmarks :]]

    def point(
        self, footpoint: Vectors, direction: Vectors, cs: Enclosure, sn: Enclosure
    ) -> Vectors:
        """Return real and imaginary parts of the point e^{iψ}(cos r·p + sin r·w).

        p is the normalized footpoint, w the unit vector along the part of the direction
        that is orthogonal to p and to i·p, and ψ a uniform phase.

        Parameters
        ----------
        footpoint : list of two vectors
            Real and imaginary part of a multiple of p.
        direction : list of three vectors
            Real and imaginary part of a random direction, and a vector of angle ψ.
        cs, sn : enclosures
            cos r and sin r of the distance r.

        Returns
        -------
        list of vectors
            The real and the imaginary parts of the landmarks.
        """
        # The unit vector p.
        p_real, p_imaginary = footpoint
        length = (p_real.dot(p_real) + p_imaginary.dot(p_imaginary)).sqrt()
        p_real = p_real / length
        p_imaginary = p_imaginary / length

        # The part of w orthogonal to p and to i·p: w minus its Hermitian product with p,
        # a complex number, times p.
        w_real, w_imaginary, phase_vector = direction
        real_product = w_real.dot(p_real) + w_imaginary.dot(p_imaginary)
        imaginary_product = w_imaginary.dot(p_real) - w_real.dot(p_imaginary)
        w_real = w_real - p_real * real_product + p_imaginary * imaginary_product
        w_imaginary = (
            w_imaginary - p_imaginary * real_product - p_real * imaginary_product
        )

        # cos r·p + sin r·w, with w scaled to length 1.
        step = sn / (w_real.dot(w_real) + w_imaginary.dot(w_imaginary)).sqrt()
        end_real = p_real * cs + w_real * step
        end_imaginary = p_imaginary * cs + w_imaginary * step

        # The product with e^{iψ} = phase₀ + i·phase₁.
        phase = _normalize(phase_vector)
        return [
            end_real * phase[0] - end_imaginary * phase[1],
            end_real * phase[1] + end_imaginary * phase[0],
        ]


class ExactRotations(ExactChart):
    """A rotation in the plane or in three-space, as the columns of its matrix.

    The direction is the axis and the sense of the turn, in the frame of the body, and
    the radius is the angle.
    """

    @property
    def n_normals(self) -> int:
        """An axis is made of three normals, and a turn of the plane of one."""
        return self.manifold.dim

    def radial_factors(self, r: arb) -> RadialFactors:
        """Return cos r and sin r of the angle r, as Rodrigues' formula needs them."""
        return _cos_sin(r)

    def footpoint(self, center: Enclosure) -> Vectors:
        """Return the orthonormal columns of the rotation that the center stands for.

        They are the footpoint from which `point` starts. The center is a rotation up to
        the rounding of its entries. Gram and Schmidt's method makes its first columns
        orthonormal, and the right-hand rule gives the last one.

        Parameters
        ----------
        center : Enclosure, shape (n, n)
            The center of the noise, n = 2 or 3.

        Returns
        -------
        list of vectors
            The two or three columns.
        """
        first = _normalize(center[:, 0])

        # In the plane the second column is the first one, turned by a right angle.
        if self.manifold.point_shape[0] == 2:
            return [first, first[[1, 0]] * np.array([-1.0, 1.0])]

        # In three-space: Gram and Schmidt's method, and then the cross product.
        second = _normalize(center[:, 1] - first * first.dot(center[:, 1]))
        cross_product = (
            first[[1, 2, 0]] * second[[2, 0, 1]] - first[[2, 0, 1]] * second[[1, 2, 0]]
        )
        return [first, second, cross_product]

    def direction(self, normals: Enclosure) -> Vectors:
        """Return the coordinates of the axis one by one.

        They are not vectors of the ambient space, and the public reflection of
        `exponential_in_chart` leaves them as they are.

        Parameters
        ----------
        normals : Enclosure, shape (dim,)
            Standard normals.

        Returns
        -------
        list of numbers
            The coordinates of the axis, not normalized.
        """
        return [normals[i] for i in range(self.manifold.dim)]

    def point(
        self, footpoint: Vectors, direction: Vectors, cs: Enclosure, sn: Enclosure
    ) -> Vectors:
        """Return the columns of F·Rot(axis, r), where F is the footpoint's frame.

        In three-space, column j of Rot is, by Rodrigues' formula,

            cos r·e_j + (1 − cos r)·axis_j·axis + sin r·(axis × e_j).

        In the plane the axis is a sign, the sense of the turn.

        Parameters
        ----------
        footpoint : list of two or three vectors
            The orthonormal columns of F.
        direction : list of one or three numbers
            Standard normals, multiples of the coordinates of the axis.
        cs, sn : enclosures
            cos r and sin r of the angle r.

        Returns
        -------
        list of vectors
            The columns of the rotation.
        """
        # The axis, a vector of length 1.
        length = sum(coordinate * coordinate for coordinate in direction).sqrt()
        axis = [coordinate / length for coordinate in direction]
        if len(footpoint) == 2:
            first, second = footpoint
            return [
                first * cs + second * (sn * axis[0]),
                second * cs - first * (sn * axis[0]),
            ]

        # F applied to the axis, and to axis × e_j, whose entries j + 1 and j + 2
        # (modulo 3) are axis_{j+2} and −axis_{j+1}.
        frame_axis = footpoint[0] * axis[0] + footpoint[1] * axis[1]
        frame_axis = frame_axis + footpoint[2] * axis[2]

        # Rodrigues' formula for each column.
        columns = []
        for j in range(3):
            next_j = (j + 1) % 3
            after_next_j = (j + 2) % 3
            frame_cross_product = (
                footpoint[next_j] * axis[after_next_j]
                - footpoint[after_next_j] * axis[next_j]
            )
            along_axis = frame_axis * (axis[j] * (1 - cs))
            columns.append(footpoint[j] * cs + along_axis + frame_cross_product * sn)
        return columns


exact_chart.register(Euclidean, ExactEuclidean)
exact_chart.register(Sphere, ExactSphere)
exact_chart.register(Lorentz, ExactLorentz)
exact_chart.register(PoincareBall, ExactPoincareBall)
exact_chart.register(KendallShapes, ExactKendallShapes)


@exact_chart.register
def _chart_of_lines(manifold: Grassmann) -> ExactChart | None:
    """Return the chart of lines, Grassmann(m, 1); other subspaces have none."""
    return ExactLine(manifold) if manifold.r == 1 else None


@exact_chart.register
def _chart_of_rotations(manifold: Rotations) -> ExactChart | None:
    """Return the chart of rotations of the plane and of three-space, else None."""
    return ExactRotations(manifold) if manifold.n <= 3 else None


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


def _cos_sin(r: arb) -> RadialFactors:
    """Return cos r and sin r, the radial factors of spheres, as balls."""
    sin, cos = r.sin_cos()
    return RadialFactors(cos, sin)


def _cosh_sinh(r: arb) -> RadialFactors:
    """Return cosh r and sinh r, the radial factors of hyperbolic spaces, as balls."""
    sinh, cosh = r.sinh_cosh()
    return RadialFactors(cosh, sinh)


def _normalize(x: Enclosure) -> Enclosure:
    """Return the unit vector x/|x|, for Arb balls or float balls."""
    return x / x.dot(x).sqrt()


def _remove_mean(x: Enclosure) -> Enclosure:
    """Return x minus the mean of its entries, for Arb balls or float balls."""
    n = x.mid.shape[0] if isinstance(x, FloatBall) else len(x)
    return x - x.sum() / n


class _HyperboloidPoint(NamedTuple):
    """A point of the hyperboloid time² = 1 + |space|².

    Attributes
    ----------
    time : ball
        The time coordinate.
    space : vector of balls
        The other coordinates.
    """

    time: Enclosure
    space: Enclosure


def _hyperboloid_point(
    space: Enclosure,
    time: Enclosure,
    normals: Enclosure,
    cosh: Enclosure,
    sinh: Enclosure,
) -> _HyperboloidPoint:
    """Return cosh r·p + sinh r·w on the hyperboloid, for p = (time, space).

    The tangent vector w is u = normals/|normals| at the origin, carried to p by the
    boost B that takes the origin to p. So the result is B(cosh r, sinh r·u), whose
    space part is

        space·(cosh r + sinh r·(u·space)/(1 + time)) + sinh r·u.

    Parameters
    ----------
    space, time : enclosures
        The coordinates of p.
    normals : enclosure
        Standard normals, not normalized.
    cosh, sinh : enclosures
        cosh r and sinh r of the radius r.

    Returns
    -------
    _HyperboloidPoint
        The time and space coordinates of the result.
    """
    unit_direction = _normalize(normals)
    factor_of_space = cosh + sinh * unit_direction.dot(space) / (1 + time)
    end_space = space * factor_of_space + unit_direction * sinh
    end_time = (1 + end_space.dot(end_space)).sqrt()
    return _HyperboloidPoint(end_time, end_space)


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

"""Formulas for points of spheres, hyperbolic, projective and flat spaces, for exact
draws. A chart writes the points of one manifold as vectors, and computes the point at
the distance r from a footpoint p in a given direction, in *balls* (midpoints with error
bounds).

`curvedp.laws.exact.exponential` draws with these formulas. `exact_chart` finds the chart
of a manifold, and `exact_chart.register` adds one for a manifold of your own
(docs/project/extending.md, Exact draws).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, NamedTuple

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
from curvedp.numerics.enclosures import FloatBall

Enclosure = Any
"""A real number or vector with error bounds: Arb balls in an array, or a FloatBall.

Formulas are written once for all of them: they share + − * / and `dot`, `sqrt`, `sum`.
"""

Vectors = list[Enclosure]
"""The vectors by which a point is given, such as the columns of a matrix."""


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

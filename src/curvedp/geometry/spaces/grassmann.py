"""The Grassmann manifold: r-dimensional subspaces of R^m. A point p is an m×r matrix
whose orthonormal columns are a basis of the subspace. Two bases p and a are aligned if
pᵀa is symmetric and positive semidefinite: no rotation of a within its subspace brings
it nearer to p.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.frames import OrthonormalFrames
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.autodiff import constant, differentiable
from curvedp.numerics.elementary import column_and_row
from curvedp.numerics.matrix_functions import (
    polar,
    scale_columns,
    sinc,
    svd,
    sym_function,
)

# A divided difference at two arguments that are nearer than this is computed as the
# derivative half-way.
_CLOSE = 1e-5

# Derivatives at arguments below these are computed by series. The arguments are 1 − cos θ
# of θ/sin θ, and x of sinc√x.
_COSINE_SERIES_RANGE = 1e-4
_SINC_SERIES_RANGE = 1e-3


class _PolarFactors(NamedTuple):
    """The polar decomposition pᵀq = HW for bases p and q of two subspaces.

    Attributes
    ----------
    H : array, shape (..., r, r)
        The symmetric positive semidefinite factor, U·diag(cosines)·Uᵀ.
    W : array, shape (..., r, r)
        The orthogonal factor. The basis qWᵀ is aligned with p.
    cosines : array, shape (..., r)
        The eigenvalues of H, which are the cosines of the principal angles.
    U : array, shape (..., r, r)
        The eigenvectors of H.
    """

    H: Array
    W: Array
    cosines: Array
    U: Array


@dataclass(frozen=True)
class Grassmann(OrthonormalFrames):
    """r-dimensional subspaces of R^m, 0 < r < m, with distance √Σθ².

    The θ are the principal angles between two subspaces. A point is an m×r matrix whose
    orthonormal columns are any basis of the subspace; `dist` does not depend on the
    basis. Tangent vectors at p are m×r matrices v with pᵀv = 0 (horizontal vectors),
    and their length is the Frobenius norm. The closed forms are those of Edelman, Arias
    & Smith 1998 and Bendokat, Zimmermann & Absil 2024.

    Parameters
    ----------
    m, r : int
        The dimensions of space and subspaces.

    Examples
    --------
    >>> M = Grassmann(3, 1)
    >>> p, q = np.array([[1.0], [0.0], [0.0]]), np.array([[-1.0], [1e-15], [0.0]])
    >>> float(M.dist(p, q))
    1e-15
    """

    kind = "grassmann"
    m: int
    r: int
    injectivity_radius = math.pi / 2
    is_symmetric = True

    def __post_init__(self) -> None:
        """Check that m and r are whole numbers ≥ 1, and that r < m."""
        super().__post_init__()
        if self.r >= self.m:
            raise ParameterError(
                f"must be < m={self.m}: the only m-dimensional subspace is a single "
                "point",
                parameter="r",
                value=self.r,
            )

    @property
    def dim(self) -> int:
        """The dimension (m − r)·r."""
        return (self.m - self.r) * self.r

    @cached_property
    def ranks(self) -> tuple[int, int]:
        """The dimensions of a subspace and of its complement, the smaller one first."""
        codimension = self.m - self.r
        return (min(self.r, codimension), max(self.r, codimension))

    @cached_property
    def curvature_bounds(self) -> tuple[float, float]:
        """The bounds [0, 2] of sectional curvatures (Wong 1968).

        Lines and hyperplanes have curvature 1; a curve, where dim is 1, has 0.
        """
        if self.dim == 1:
            return (0.0, 0.0)
        if self.ranks[0] == 1:
            return (1.0, 1.0)
        return (0.0, 2.0)

    @cached_property
    def embedded_diameter(self) -> float:
        """The largest distance of two embedded points, the projectors P and Q over √r.

        It follows from ‖P − Q‖² = 2(r − tr PQ) ≤ 2·min(r, m − r).
        """
        return float((2 * self.ranks[0] / self.r) ** 0.5)

    def jacobi_operator(self, p: Array, v: Array) -> np.ndarray:
        """Return the matrix of the curvature operator u ↦ R(u, v)v in coordinates at p.

        On a Grassmannian R(u, v)v = v(vᵀu) + u(vᵀv) − 2v(uᵀv) (Wong 1968).

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.

        Returns
        -------
        array of shape (..., dim, dim)
            Symmetric matrices, in the coordinates of `to_coordinates` (NumPy).
        """
        if self.constant_curvature is not None:
            return super().jacobi_operator(p, v)
        # With an axis for the vectors of a basis of the tangent space.
        p = np.asarray(p)[..., None, :, :]
        v = np.asarray(v)[..., None, :, :]
        basis = np.asarray(self.from_coordinates(p, np.eye(self.dim)))
        image = v @ (v.mT @ basis) + basis @ (v.mT @ v) - 2 * v @ (basis.mT @ v)
        return np.asarray(self.to_coordinates(p, image))

    def exp(self, p: Array, v: Array) -> Array:
        """Return the end of the geodesic from p with velocity v.

        The end is p·cos√X + v·sinc√X with X = vᵀv, a basis that is aligned with p
        (Edelman, Arias & Smith 1998, Theorem 2.3). With the singular value
        decomposition v = U·diag(s)·Vᵀ this is p + p·V(cos s − 1)Vᵀ + U·sin s·Vᵀ. Because
        U and V are orthonormal, the result is orthonormal up to round-off, whatever the
        length of v. Automatic differentiation treats U, s and V as constants; terms are
        added that are 0 in value and have the right derivative.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.

        Returns
        -------
        array of shape (..., *point_shape)
            The end points.
        """
        xp = namespace(p, v)
        U, s, Vh = svd(constant(v))

        def cosine_divided_differences() -> Array:
            """Return the divided differences of cos√x at pairs of x = s²."""
            return _cosine_divided_differences(xp, s)

        # V(cos s − 1)Vᵀ as a function of X = vᵀv, with its derivative.
        gram = v.mT @ v
        cosine_minus_one = sym_function(
            gram, Vh.mT, -2 * xp.sin(s / 2) ** 2, cosine_divided_differences
        )

        # If v is long, a direction of U may consist of its round-off only. Such a
        # direction need not be orthogonal to p, so it is projected.
        U = self.to_tangent(p, U)
        step = scale_columns(U, xp.sin(s)) @ Vh
        if differentiable(v):
            step = step + _derivative_of_sinc_term(xp, v, gram, s, Vh)
        return p + (p @ cosine_minus_one + step)

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity at p of a shortest geodesic to q.

        Let pᵀq = HW be the polar decomposition, with H symmetric and W orthogonal. The
        eigenvalues of H are the cosines of the principal angles θ. The velocity is
        (I − ppᵀ)q·Wᵀ·φ(H) with φ(cos θ) = θ/sin θ. It keeps the digits of small angles
        because (I − ppᵀ)q is computed from q − p. If an angle is π/2, W is not unique,
        and one of the shortest velocities is returned.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point at which the velocity is tangent, and the point it leads to.

        Returns
        -------
        array of shape (..., *point_shape)
            The velocities, which are tangent vectors at p.
        """
        xp = namespace(p, q)
        factors = self._polar_factors(p, q)

        def divided_differences() -> Array:
            """Return the divided differences of φ, which give the derivative of φ(H)."""
            return _angle_over_sine_divided_differences(xp, factors.cosines)

        phi_of_H = sym_function(
            factors.H,
            factors.U,
            _angle_over_sine(xp, factors.cosines),
            divided_differences,
        )
        return self.to_tangent(p, q - p) @ factors.W.mT @ phi_of_H

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return v moved from p to q by parallel transport along the shortest geodesic.

        Let pᵀq = HW be the polar decomposition, with H symmetric and W orthogonal. Then
        a = qWᵀ (`aligned_q`) is the basis of the second subspace that is aligned with
        p, and the transported vector is (v − (p + a)(I + H)⁻¹aᵀv)·W. The factor W leads
        from the basis a back to the basis q, at which the result is tangent.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point where the vector is, and the point to which it is moved.
        v : array of shape (..., *point_shape)
            A tangent vector at p.

        Returns
        -------
        array of shape (..., *point_shape)
            The moved vectors, which are tangent at q.
        """
        xp = namespace(p, q, v)
        factors = self._polar_factors(p, q)
        H, W = factors.H, factors.W
        aligned_q = q @ W.mT

        # The transported vector at the basis aligned_q, and then at the basis q.
        identity = like(H, np.eye(self.r))
        coefficients = xp.linalg.solve(identity + H, aligned_q.mT @ v)
        moved = v - (p + aligned_q) @ coefficients
        return moved @ W

    def embed(self, X: Array) -> np.ndarray:
        """Return the vectors that represent points in a Euclidean space.

        They are the upper triangles of the projectors xxᵀ/√r, with the off-diagonal
        entries times √2.

        Parameters
        ----------
        X : array of shape (..., *point_shape)
            Points.

        Returns
        -------
        array of shape (..., m(m + 1)/2)
            Unit vectors.
        """
        X = np.asarray(X)
        rows, columns = np.triu_indices(self.m)
        projectors = X @ np.swapaxes(X, -1, -2)
        weights = np.where(rows == columns, 1.0, 2**0.5)
        return np.asarray(projectors[..., rows, columns] * weights / self.r**0.5)

    def from_embedding(self, z: np.ndarray) -> np.ndarray:
        """Return the point whose embedding is nearest to a vector z.

        The vector z lists the upper triangle of a symmetric matrix, in the way of
        `embed`: the off-diagonal entries are times √2. The nearest point is the span of
        the r leading eigenvectors of this matrix.

        Parameters
        ----------
        z : array of shape (m(m + 1)/2,)
            A vector of the embedding space, such as a mean of embedded points.

        Returns
        -------
        array of shape point_shape
            The point.
        """
        rows, columns = np.triu_indices(self.m)
        upper_triangle = np.zeros((self.m, self.m))
        upper_triangle[rows, columns] = z / np.where(rows == columns, 1.0, 2**0.5)
        symmetric = upper_triangle + np.triu(upper_triangle, 1).T
        _, eigenvectors = np.linalg.eigh(symmetric)  # eigenvalues ascend
        return np.asarray(eigenvectors[:, ::-1][:, : self.r])

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return the part of x orthogonal to the subspace: x − p·pᵀx.

        Tangent vectors at p are the matrices whose columns are orthogonal to those of
        p.
        """
        return x - p @ (p.mT @ x)

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector at p with the orthonormal coordinates z.

        The last m − r unit vectors are carried to a basis of the complement of p by a
        block reflector; the entries of z are coefficients of these.

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        z : array, shape (..., dim)
            Coordinates.

        Returns
        -------
        array of shape (..., *point_shape)
            The tangent vectors.
        """
        return self._normal_from_coordinates(p, z)

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the orthonormal coordinates of a tangent vector v at p.

        They are the coefficients of v with respect to a basis of the complement of p,
        which a block reflector carries to the last m − r unit vectors.

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        v : array, shape (..., *point_shape)
            A tangent vector at p.

        Returns
        -------
        array of shape (..., dim)
            The coordinates.
        """
        return self._normal_coordinates_of(p, v)

    def _polar_factors(self, p: Array, q: Array) -> _PolarFactors:
        """Return the polar decomposition pᵀq = HW, with which qWᵀ is aligned with p.

        Logarithms and transports compare p with the aligned basis of the second
        subspace.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            Bases of two subspaces.

        Returns
        -------
        _PolarFactors
            The factors H and W, the eigenvalues of H and its eigenvectors.
        """
        product = p.mT @ q
        W, cosines, U = polar(product)
        H = product @ W.mT
        symmetric_H = (H + H.mT) / 2  # removes the round-off of the product
        return _PolarFactors(symmetric_H, W, cosines, U)


def _derivative_of_sinc_term(
    xp: Any, v: Array, gram: Array, s: Array, Vh: Array
) -> Array:
    """Return a term of value 0 that has the derivative of v·sinc√X, with X = vᵀv.

    With the singular value decomposition v = U·diag(s)·Vᵀ, in which s and V count as
    constants, the derivative follows by the product rule.

    Parameters
    ----------
    xp : module
        The array library.
    v : array, shape (..., m, r)
        A tangent vector.
    gram : array, shape (..., r, r)
        X = vᵀv.
    s : array, shape (..., r)
        The singular values of v.
    Vh : array, shape (..., r, r)
        Vᵀ.

    Returns
    -------
    array, shape (..., m, r)
        Zeros that carry the derivative.
    """
    V = Vh.mT
    constant_v = constant(v)
    gram_change = gram - constant(gram)
    sinc_change = _sinc_divided_differences(xp, s) * (Vh @ gram_change @ V)
    from_v = scale_columns((v - constant_v) @ V, sinc(xp, s))
    from_sinc = constant_v @ V @ sinc_change
    return (from_v + from_sinc) @ Vh


def _cosine_divided_differences(xp: Any, s: Array) -> Array:
    """Return the divided differences of the function cos√x at pairs of x = s².

    With a = sᵢ and b = sⱼ they are −½·sinc((a+b)/2)·sinc((a−b)/2).

    Parameters
    ----------
    xp : module
        The array library.
    s : array, shape (..., r)
        The numbers s.

    Returns
    -------
    array, shape (..., r, r)
        An entry for each pair.
    """
    a, b = column_and_row(s, s)
    return -sinc(xp, (a + b) / 2) * sinc(xp, (a - b) / 2) / 2


def _angle_over_sine(xp: Any, cosine: Array) -> Array:
    """Return θ/sin θ as a function of cos θ ∈ [0, 1].

    It is 2·atan2(a, b)/(a·b) with a = √(1 − cos θ) and b = √(1 + cos θ). The condition
    number of the function is below 1, so round-off of the cosine costs nothing.

    Parameters
    ----------
    xp : module
        The array library.
    cosine : array
        The cosines cos θ; numbers above 1 count as 1.

    Returns
    -------
    array
        The values, at least 1.
    """
    cosine = xp.where(cosine < 1, cosine, 1.0)
    a = xp.sqrt(1 - cosine)
    b = xp.sqrt(1 + cosine)
    nonzero_a = xp.where(a > 0, a, 1.0)
    quotient = 2 * xp.atan2(nonzero_a, b) / (nonzero_a * b)
    return xp.where(a > 0, quotient, 1.0)


def _angle_over_sine_divided_differences(xp: Any, cosines: Array) -> Array:
    """Return the divided differences of f(cos θ) = θ/sin θ at pairs of cosines.

    Automatic differentiation of `log` needs them. A divided difference is
    (f(x) − f(y))/(x − y). If two cosines are close, it is replaced by the derivative
    half-way between them, (cθ/sin θ − 1)/sin²θ with c = cos θ (`middle`). Near c = 1
    the derivative is computed by the series −1/3 − 4δ/15 − 6δ²/35 in δ = 1 − c
    (`defect`).

    Parameters
    ----------
    xp : module
        The array library.
    cosines : array, shape (..., r)
        The cosines.

    Returns
    -------
    array, shape (..., r, r)
        An entry for each pair.
    """
    # All pairs of cosines, and the point half-way between them.
    x, y = column_and_row(cosines, cosines)
    middle = (x + y) / 2
    is_close = xp.abs(x - y) < _CLOSE
    defect = 1 - xp.where(middle < 1, middle, 1.0)
    is_next_to_one = defect < _COSINE_SERIES_RANGE

    # The derivative half-way.
    safe_middle = xp.where(is_next_to_one, 0.0, middle)
    sine_square = 1 - safe_middle * safe_middle
    closed_form = (safe_middle * _angle_over_sine(xp, safe_middle) - 1) / sine_square
    series = -(1 / 3 + defect * (4 / 15 + defect * (6 / 35)))
    derivative = xp.where(is_next_to_one, series, closed_form)

    difference = _angle_over_sine(xp, x) - _angle_over_sine(xp, y)
    return xp.where(is_close, derivative, difference / xp.where(is_close, 1.0, x - y))


def _sinc_divided_differences(xp: Any, s: Array) -> Array:
    """Return the divided differences of the function f(x) = sinc√x at pairs of x = s².

    Automatic differentiation of `exp` needs them. A divided difference is
    (f(a²) − f(b²))/(a² − b²). If two arguments are close, it is replaced by the
    derivative half-way between them, (cos s − sinc s)/(2s²). Near 0 the derivative is
    computed by the series −1/6 + x/60 − x²/1680.

    Parameters
    ----------
    xp : module
        The array library.
    s : array, shape (..., r)
        The numbers s.

    Returns
    -------
    array, shape (..., r, r)
        An entry for each pair.
    """
    # All pairs, and the argument x half-way between their squares.
    a, b = column_and_row(s, s)
    gap = a * a - b * b
    square = (a * a + b * b) / 2  # x half-way
    is_close = xp.abs(gap) < _CLOSE
    is_tiny = square < _SINC_SERIES_RANGE

    # The derivative half-way.
    root = xp.sqrt(xp.where(is_tiny, 1.0, square))
    closed_form = (xp.cos(root) - sinc(xp, root)) / (2 * root * root)
    series = -1 / 6 + square * (1 / 60 - square / 1680)
    derivative = xp.where(is_tiny, series, closed_form)

    difference = sinc(xp, a) - sinc(xp, b)
    return xp.where(is_close, derivative, difference / xp.where(is_close, 1.0, gap))

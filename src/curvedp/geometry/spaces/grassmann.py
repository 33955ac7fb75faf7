"""The Grassmann manifold: r-dimensional subspaces of R^m."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.frames import OrthonormalFrames
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.autodiff import constant, differentiable
from curvedp.numerics.matrix_functions import polar, sinc, svd, sym_function

# Arguments nearer than this have the derivative half-way as their divided difference.
_CLOSE = 1e-5

# Ranges in which derivatives are computed by series: of 1 − cos θ, and of the argument
# of sinc√x.
_COSINE_SERIES_RANGE = 1e-4
_SINC_SERIES_RANGE = 1e-3


@dataclass(frozen=True)
class Grassmann(OrthonormalFrames):
    """r-dimensional subspaces of R^m, 0 < r < m, with distance √Σθ².

    The θ are the principal angles. A point is an m×r matrix with orthonormal columns,
    any basis of the subspace: `dist` does not depend on the basis. Tangent vectors at p
    are horizontal: m×r matrices v with pᵀv = 0, of length their Frobenius norm. Closed
    forms of Edelman, Arias & Smith 1998 and Bendokat, Zimmermann & Absil 2024.

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
        """Largest distance of projectors over √r.

        ‖P − Q‖² = 2(r − tr PQ) ≤ 2·min(r, m − r).
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
        p = np.asarray(p)[..., None, :, :]
        v = np.asarray(v)[..., None, :, :]
        basis = np.asarray(self.from_coordinates(p, np.eye(self.dim)))
        image = v @ (v.mT @ basis) + basis @ (v.mT @ v) - 2 * v @ (basis.mT @ v)
        return np.asarray(self.to_coordinates(p, image))

    def exp(self, p: Array, v: Array) -> Array:
        """Return the end of the geodesic from p with velocity v.

        It is p·cos√X + v·sinc√X with X = vᵀv, in a basis that is aligned with p
        (Edelman, Arias & Smith 1998, Theorem 2.3). With the singular value
        decomposition v = U·s·Vᵀ this is p + p·V(cos s − 1)Vᵀ + U·sin s·Vᵀ. Orthonormal
        factors on both sides make the result orthonormal to round-off, whatever the
        length of v. Under differentiation U, s and V are constants, and terms of value
        0 carry the derivative.

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
        constant_v = constant(v)
        U, s, Vh = svd(constant_v)
        V = Vh.mT

        def cosine_divided_differences() -> Array:
            """Return the divided differences of cos√x at x = sᵢ², for all pairs.

            With a = sᵢ and b = sⱼ they are −½·sinc((a+b)/2)·sinc((a−b)/2).
            """
            a, b = s[..., :, None], s[..., None, :]
            return -sinc(xp, (a + b) / 2) * sinc(xp, (a - b) / 2) / 2

        gram = v.mT @ v
        cosine_minus_one = sym_function(
            gram, V, -2 * xp.sin(s / 2) ** 2, cosine_divided_differences
        )

        # A direction that a long v has by round-off only need not be orthogonal to p.
        U = self.to_tangent(p, U)
        step = (U * xp.sin(s)[..., None, :]) @ Vh
        if differentiable(v):
            # Zero in value: the derivative of v·sinc√X by the product rule.
            gram_change = gram - constant(gram)
            sinc_change = _sinc_divided_differences(xp, s) * (Vh @ gram_change @ V)
            from_v = (v - constant_v) @ V * sinc(xp, s)[..., None, :]
            from_sinc = constant_v @ V @ sinc_change
            step = step + (from_v + from_sinc) @ Vh
        return p + (p @ cosine_minus_one + step)

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity at p of a shortest geodesic to q.

        It is (I − ppᵀ)q·Wᵀ·φ(P), with the polar decomposition pᵀq = PW and φ(cos θ) =
        θ/sin θ. The principal angles θ have their cosines as eigenvalues of P. Small
        ones keep their digits because (I − ppᵀ)q is computed from q − p. If an angle is
        π/2, W is not unique, and one of the shortest velocities is returned.

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
        W, P, cosines, U = self._align(p, q)
        stretch = sym_function(
            P,
            U,
            _angle_over_sine(xp, cosines),
            lambda: _angle_over_sine_divided_differences(xp, cosines),
        )
        return self.to_tangent(p, q - p) @ W.mT @ stretch

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return v moved from p to q by parallel transport along the shortest geodesic.

        With the polar decomposition pᵀq = PW and the basis a = qWᵀ of the second
        subspace, which is aligned with p, it is (v − (p + a)(I + P)⁻¹aᵀv)·W. The result
        is tangent at q, not at another basis of the same subspace.

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
        W, P, _, _ = self._align(p, q)
        aligned = q @ W.mT
        identity = like(P, np.eye(self.r))
        coefficients = xp.linalg.solve(identity + P, aligned.mT @ v)
        return (v - (p + aligned) @ coefficients) @ W

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

        It is the span of the r leading eigenvectors of the symmetric matrix whose
        entries `embed` would arrange as z.

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
        eigenvectors: np.ndarray = np.linalg.eigh(symmetric)[1]  # eigenvalues ascend
        return eigenvectors[:, ::-1][:, : self.r]

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

    def _align(self, p: Array, q: Array) -> tuple[Array, Array, Array, Array]:
        """Return the polar decomposition pᵀq = PW, which aligns the bases p and qWᵀ.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            Bases of two subspaces.

        Returns
        -------
        W, P : array, shape (..., r, r)
            The orthogonal and the symmetric factor.
        cosines : array, shape (..., r)
            The eigenvalues of P: cosines of the principal angles.
        U : array, shape (..., r, r)
            The eigenvectors of P.
        """
        C = p.mT @ q
        W, cosines, U = polar(C)
        P = C @ W.mT
        return W, (P + P.mT) / 2, cosines, U


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

    A divided difference is (f(x) − f(y))/(x − y). Where two cosines are close it is the
    derivative half-way, (cθ/sin θ − 1)/sin²θ with c = cos θ. Next to c = 1 that is the
    series −1/3 − 4x/15 − 6x²/35 in x = 1 − c.

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
    x, y = cosines[..., :, None], cosines[..., None, :]
    middle = (x + y) / 2
    is_close = xp.abs(x - y) < _CLOSE
    defect = 1 - xp.where(middle < 1, middle, 1.0)
    is_next_to_one = defect < _COSINE_SERIES_RANGE

    safe_middle = xp.where(is_next_to_one, 0.0, middle)
    closed_form = (safe_middle * _angle_over_sine(xp, safe_middle) - 1) / (
        1 - safe_middle * safe_middle
    )
    series = -(1 / 3 + defect * (4 / 15 + defect * (6 / 35)))
    derivative = xp.where(is_next_to_one, series, closed_form)

    difference = _angle_over_sine(xp, x) - _angle_over_sine(xp, y)
    return xp.where(is_close, derivative, difference / xp.where(is_close, 1.0, x - y))


def _sinc_divided_differences(xp: Any, s: Array) -> Array:
    """Return the divided differences of the function f(x) = sinc√x at pairs of x = s².

    A divided difference is (f(a²) − f(b²))/(a² − b²). Where two arguments are close it
    is the derivative (cos s − sinc s)/(2s²) half-way. Near 0 that is the series −1/6 +
    x/60 − x²/1680.

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
    a, b = s[..., :, None], s[..., None, :]
    gap = a * a - b * b
    square = (a * a + b * b) / 2  # x half-way
    is_close = xp.abs(gap) < _CLOSE
    is_tiny = square < _SINC_SERIES_RANGE

    root = xp.sqrt(xp.where(is_tiny, 1.0, square))
    closed_form = (xp.cos(root) - sinc(xp, root)) / (2 * root * root)
    series = -1 / 6 + square * (1 / 60 - square / 1680)
    derivative = xp.where(is_tiny, series, closed_form)

    difference = sinc(xp, a) - sinc(xp, b)
    return xp.where(is_close, derivative, difference / xp.where(is_close, 1.0, gap))

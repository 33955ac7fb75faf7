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
        """Check the sizes, and that subspaces are smaller than the space."""
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
        """(m − r)·r."""
        return (self.m - self.r) * self.r

    @cached_property
    def ranks(self) -> tuple[int, int]:
        """The dimensions of a subspace and its complement, the smaller one first."""
        codimension = self.m - self.r
        return (min(self.r, codimension), max(self.r, codimension))

    @cached_property
    def curvature_bounds(self) -> tuple[float, float]:
        """[0, 2] (Wong 1968); 1 for lines or hyperplanes; 0 where dim is 1."""
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

        It is p·cos√X + v·sinc√X with X = vᵀv, in a basis that is aligned with p.

        (Edelman, Arias & Smith 1998, Theorem 2.3.) With the singular value
        decomposition v = U·s·Vᵀ this is p + p·V(cos s − 1)Vᵀ + U·sin s·Vᵀ. Orthonormal
        factors on both sides make the result orthonormal to round-off, whatever the
        length of v.

        Parameters
        ----------
        p, v : arrays of shape (..., *point_shape)
            A point, and a tangent vector at it.
        """
        xp = namespace(p, v)
        base = constant(v)
        left, s, Vh = svd(base)
        V = Vh.mT

        def cosine_divided_differences() -> Array:
            """Return those of cos√x at x = s²: −½sinc((a+b)/2)·sinc((a−b)/2)."""
            a, b = s[..., :, None], s[..., None, :]
            return -sinc(xp, (a + b) / 2) * sinc(xp, (a - b) / 2) / 2

        gram = v.mT @ v
        cosine_minus_one = sym_function(
            gram, V, -2 * xp.sin(s / 2) ** 2, cosine_divided_differences
        )

        # A direction that a long v has by round-off only need not be orthogonal to p.
        left = self.to_tangent(p, left)
        step = (left * xp.sin(s)[..., None, :]) @ Vh
        if differentiable(v):
            gram_change = gram - constant(gram)
            slope = _sinc_divided_differences(xp, s) * (Vh @ gram_change @ V)
            direct = (v - base) @ V * sinc(xp, s)[..., None, :]
            step = step + (direct + base @ V @ slope) @ Vh
        return p + (p @ cosine_minus_one + step)

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity at p of a shortest geodesic to q.

        It is (I − ppᵀ)q·Wᵀ·φ(P), with the polar decomposition pᵀq = PW and φ(cos θ) =
        θ/sin θ.

        (I − ppᵀ)q = (q − p) − ppᵀ(q − p) carries the digits of small angles, P those of
        large ones. At the cut locus (an angle π/2) W is not unique and one of the
        shortest velocities is returned.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point at which the velocity is tangent, and the point it leads to.
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
        """Return v moved from p to q by parallel transport.

        The geodesic is the shortest one. The result refers to the basis q.

        With the aligned basis a = qWᵀ it is (v − (p + a)(I + P)⁻¹aᵀv)·W.

        Parameters
        ----------
        p, q : arrays of shape (..., *point_shape)
            The point where the vector is, and the point to which it is moved.
        v : array of shape (..., *point_shape)
            A tangent vector at p.
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
        """
        X = np.asarray(X)
        rows, columns = np.triu_indices(self.m)
        projectors = X @ np.swapaxes(X, -1, -2)
        weights = np.where(rows == columns, 1.0, 2**0.5)
        return np.asarray(projectors[..., rows, columns] * weights / self.r**0.5)

    def from_embedding(self, z: np.ndarray) -> np.ndarray:
        """Return the span of r leading eigenvectors of the matrix with entries z.

        Parameters
        ----------
        z : array
            A vector of the embedding space, such as a mean of embedded points.
        """
        upper = np.triu_indices(self.m)
        P = np.zeros((self.m, self.m))
        P[upper] = z / np.where(upper[0] == upper[1], 1.0, 2**0.5)
        vectors: np.ndarray = np.linalg.eigh(P + np.triu(P, 1).T)[1]
        return vectors[:, ::-1][:, : self.r]

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return the part of x orthogonal to the span of p."""
        return x - p @ (p.mT @ x)

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector at p with the orthonormal coordinates z.

        The vector is horizontal. A block reflector carries a basis of the complement of
        the first r unit vectors to one of the complement of p.

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        z : array, shape (..., dim)
            Coordinates.
        """
        return self._normal_from_coordinates(p, z)

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the orthonormal coordinates of a tangent vector v at p.

        They are read off after the block reflector of `from_coordinates`.

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            A point.
        v : array, shape (..., *point_shape)
            A tangent vector at p.
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

    Its condition number is below 1, so round-off of the cosine costs nothing.

    Parameters
    ----------
    xp : module
        The array library.
    cosine : array
        The cosines cos θ.
    """
    cosine = xp.where(cosine < 1, cosine, 1.0)
    root_one_minus = xp.sqrt(1 - cosine)
    root_one_plus = xp.sqrt(1 + cosine)
    safe_root = xp.where(root_one_minus > 0, root_one_minus, 1.0)
    return xp.where(
        root_one_minus > 0,
        2 * xp.atan2(safe_root, root_one_plus) / (safe_root * root_one_plus),
        1.0,
    )


def _angle_over_sine_divided_differences(xp: Any, cosines: Array) -> Array:
    """Return the divided differences of the function f(cos θ) = θ/sin θ at pairs of cosines.

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
    is_close = xp.abs(x - y) < 1e-5
    defect = 1 - xp.where(middle < 1, middle, 1.0)
    is_next_to_one = defect < 1e-4

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
    square = (a * a + b * b) / 2
    is_close = xp.abs(gap) < 1e-5
    is_tiny = square < 1e-3

    root = xp.sqrt(xp.where(is_tiny, 1.0, square))
    closed_form = (xp.cos(root) - sinc(xp, root)) / (2 * root * root)
    series = -1 / 6 + square * (1 / 60 - square / 1680)
    derivative = xp.where(is_tiny, series, closed_form)

    difference = sinc(xp, a) - sinc(xp, b)
    return xp.where(is_close, derivative, difference / xp.where(is_close, 1.0, gap))

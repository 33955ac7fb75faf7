"""Kendall's shape space: k planar landmarks up to translation, scaling and rotation. A
landmark (x, y) is read as the complex number x + iy, so that k landmarks are a complex
vector and shapes are the points of a complex projective space. Arrays are real: a
complex number has the shape (..., 1, 2), and k landmarks have the shape (..., k, 2).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from curvedp.geometry.manifold import Array, orthogonal_square
from curvedp.geometry.spaces.frames import EmbeddedMetric
from curvedp.numerics.arrays import like, namespace
from curvedp.numerics.elementary import cos_sinc, safe_sqrt, versine_quotient


@dataclass(frozen=True)
class KendallShapes(EmbeddedMetric):
    """Shapes of k ≥ 3 labeled landmarks in the plane (Kendall 1984).

    Points are preshapes: centered k×2 arrays of Frobenius norm 1. A shape is the class
    of all rotations of a preshape. As complex vectors, shapes are the projective space
    ℂP^{k−2} with the Fubini–Study metric. Tangent vectors at p are centered and
    orthogonal to p and to i·p. The distance arccos|⟨p, q⟩| ∈ [0, π/2] is computed from
    the sine and the cosine of the angle, so that it keeps its digits at both ends.

    Parameters
    ----------
    k : int
        The number of landmarks.

    Examples
    --------
    >>> M = KendallShapes(3)
    >>> p = M.project(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    >>> turned = p @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    >>> bool(M.dist(p, turned) < 1e-15)
    True
    """

    kind = "kendall"
    k: int
    sizes = (("k", 3),)
    injectivity_radius = math.pi / 2
    is_symmetric = True

    # A point z is embedded as the projector zz*, and ‖zz* − ww*‖² = 2 − 2|⟨z, w⟩|².
    embedded_diameter = float(2**0.5)

    @property
    def dim(self) -> int:
        """The dimension 2k − 4: position, size and rotation of 2k numbers do not count."""
        return 2 * self.k - 4

    @property
    def point_shape(self) -> tuple[int, ...]:
        """A point is a k×2 matrix: the landmarks' coordinates in the plane."""
        return (self.k, 2)

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """The bounds [1, 4] of sectional curvatures; 4 for triangles.

        A plane spanned by orthonormal u and v has curvature 1 + 3⟨u, i·v⟩². The shapes
        of triangles, ℂP¹, are a sphere of radius ½.
        """
        return (4.0, 4.0) if self.k == 3 else (1.0, 4.0)

    @cached_property
    def jacobi_spectrum(self) -> tuple[tuple[float, int], ...]:
        """The curvatures of planes that contain a unit velocity, with multiplicities.

        The plane with i times the velocity (every landmark's velocity turned by a
        quarter) has curvature 4; orthogonal planes have 1.
        """
        if self.k == 3:
            return ((4.0, 1),)
        return ((1.0, self.dim - 2), (4.0, 1))

    @property
    def origin(self) -> Array:
        """The shape with two landmarks apart and all others half-way between them."""
        base = np.zeros((self.k, 2))
        base[0, 0] = math.sqrt(0.5)
        base[1, 0] = -math.sqrt(0.5)
        return base

    def jacobi_operator(self, p: Array, v: Array) -> np.ndarray:
        """Return the matrix of the curvature operator u ↦ R(u, v)v in coordinates at p.

        It is the operator of a complex projective space: planes that contain v have
        curvature 1, and the plane of v and i·v has 3 more.

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
        # The coordinates of v, and those of i·v, as pairs of real and imaginary parts.
        z = np.asarray(self.to_coordinates(p, v))
        pairs = z.reshape(*z.shape[:-1], -1, 2)
        i_times_z = np.stack([-pairs[..., 1], pairs[..., 0]], axis=-1).reshape(z.shape)
        extra = 3 * i_times_z[..., :, None] * i_times_z[..., None, :]
        return np.asarray(orthogonal_square(z) + extra)

    def exp(self, p: Array, v: Array) -> Array:
        """Return the end of the geodesic from p with velocity v.

        It is cos|v|·p + (sin|v|/|v|)·v, computed as p plus a change.

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
        square = xp.sum(v * v, axis=(-2, -1), keepdims=True)
        _, sinc = cos_sinc(xp, square)
        one_minus_cosine = square * versine_quotient(xp, square)
        return p + (v * sinc - p * one_minus_cosine)

    def log(self, p: Array, q: Array) -> Array:
        """Return the velocity at p of a shortest geodesic to the shape of q.

        The geodesic leads to the rotation of q that is nearest to p. Let θ be the
        distance and w the part of q that is tangent at p. Then |w| = sin θ and
        |⟨p, q⟩| = cos θ. The part w is computed from q − p, which keeps the digits of
        near points. At distance π/2 all rotations of q are equally near, and one of the
        shortest velocities is returned.

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
        tangent_part = self.to_tangent(p, q - p)  # w
        inner = _hermitian_product(p, q)
        sine_square = xp.sum(tangent_part * tangent_part, axis=(-2, -1), keepdims=True)
        sine = safe_sqrt(xp, sine_square)
        cosine = _modulus(inner)
        nonzero_sine = xp.where(sine == 0, 1.0, sine)
        quotient = xp.atan2(nonzero_sine, cosine) / nonzero_sine
        angle_over_sine = xp.where(sine == 0, 1.0, quotient)
        back_rotation = _conjugate(_phase(inner))  # turns q so that ⟨p, q⟩ is positive
        return _multiply(back_rotation, tangent_part) * angle_over_sine

    def transport(self, p: Array, q: Array, v: Array) -> Array:
        """Return v transported in parallel along the shortest geodesic from p to q.

        In complex vectors, let φ be the phase of ⟨p, q⟩, and a = φ̄·q the rotation of q
        nearest to p. The transport applies to v the unitary map that takes p to a and
        changes nothing orthogonal to both. Then the result is multiplied by φ, so that
        it is tangent at q.

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
        inner = _hermitian_product(p, q)
        phase = _phase(inner)
        aligned_q = _multiply(_conjugate(phase), q)
        coefficient = _hermitian_product(aligned_q, v) / (1 + _modulus(inner))
        moved = v - _multiply(coefficient, p + aligned_q)
        return _multiply(phase, moved)

    def project(self, x: Array) -> Array:
        """Return the landmarks x, centered and scaled to norm 1.

        If all landmarks are equal they have no shape, and the result is the origin.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Any array, usually one near the manifold.

        Returns
        -------
        array of shape (..., *point_shape)
            The points.
        """
        xp = namespace(x)
        point, all_equal = self._preshape(x, tolerance=0.0)
        return xp.where(all_equal & ~xp.isnan(point), like(x, self.origin), point)

    def from_record(self, x: Array) -> Array:
        """Return the landmarks of a record x, centered and scaled to norm 1.

        They are NaN if all landmarks are equal up to round-off, which is no shape.

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Records; entries may be anything.

        Returns
        -------
        array of shape (..., *point_shape)
            The points; NaN for a record that has none.
        """
        xp = namespace(x)
        tolerance = self.k * float(xp.finfo(x.dtype).eps)
        point, all_equal = self._preshape(x, tolerance)
        return xp.where(all_equal, xp.nan, point)

    @staticmethod
    def _preshape(x: Array, tolerance: float) -> tuple[Array, Array]:
        """Center landmarks and scale them to norm 1.

        `project` and `from_record` differ only in what they do with equal landmarks.

        Parameters
        ----------
        x : array, shape (..., k, 2)
            Landmarks at any scale.
        tolerance : float
            Relative differences up to which landmarks count as equal.

        Returns
        -------
        preshape : array, shape (..., k, 2)
            The scaled landmarks; without meaning where all landmarks are equal.
        all_equal : array of bool, shape (..., 1, 1)
            Whether all landmarks are equal, and so have no shape.
        """
        xp = namespace(x)
        moved = x - x[..., :1, :]  # exact zeros when all landmarks are equal
        extent = xp.max(xp.abs(moved), axis=(-2, -1), keepdims=True)
        largest_coordinate = xp.max(xp.abs(x), axis=(-2, -1), keepdims=True)
        all_equal = ~(extent > tolerance * largest_coordinate)  # true for NaN

        # Scale before squares are taken, so that they neither overflow nor underflow.
        moved = moved / xp.where(all_equal, 1.0, extent)
        centered = moved - xp.mean(moved, axis=-2, keepdims=True)
        square = xp.sum(centered * centered, axis=(-2, -1), keepdims=True)
        return centered / xp.sqrt(xp.where(all_equal, 1.0, square)), all_equal

    def embed(self, X: Array) -> np.ndarray:
        """Return the vectors that represent points in a Euclidean space.

        They are the entries of the projectors zz*: the diagonal, and the real and
        imaginary parts of the upper triangle times √2.

        Parameters
        ----------
        X : array of shape (..., *point_shape)
            Points.

        Returns
        -------
        array of shape (..., k²)
            Unit vectors.
        """
        X = np.asarray(X)
        z = X[..., 0] + 1j * X[..., 1]
        projectors = z[..., :, None] * np.conj(z[..., None, :])
        rows, columns = np.triu_indices(self.k, 1)
        upper = 2**0.5 * projectors[..., rows, columns]
        diagonal = np.real(np.diagonal(projectors, axis1=-2, axis2=-1))
        return np.concatenate([diagonal, upper.real, upper.imag], axis=-1)

    def from_embedding(self, z: np.ndarray) -> np.ndarray:
        """Return the point whose embedding is nearest to a vector z.

        The vector z lists the entries of a Hermitian matrix, in the order of `embed`.
        The nearest point is the leading eigenvector of this matrix.

        Parameters
        ----------
        z : array of shape (k²,)
            A vector of the embedding space, such as a mean of embedded points.

        Returns
        -------
        array of shape point_shape
            The point.
        """
        # The Hermitian matrix: z contains its diagonal, and then the real and imaginary
        # parts above it, times √2.
        rows, columns = np.triu_indices(self.k, 1)
        upper = np.zeros((self.k, self.k), dtype=np.complex128)
        real, imaginary = np.split(z[self.k :], 2)
        upper[rows, columns] = (real + 1j * imaginary) / 2**0.5
        hermitian = upper + np.conj(upper.T) + np.diag(z[: self.k])
        _, eigenvectors = np.linalg.eigh(hermitian)  # eigenvalues ascend
        leading = eigenvectors[:, -1]
        return np.asarray(self.project(np.stack([leading.real, leading.imag], axis=-1)))

    def to_tangent(self, p: Array, x: Array) -> Array:
        """Return x centered and made orthogonal to p and to i·p.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        x : array of shape (..., *point_shape)
            Any array.

        Returns
        -------
        array of shape (..., *point_shape)
            The tangent vectors.
        """
        xp = namespace(p, x)
        centered = x - xp.mean(x, axis=-2, keepdims=True)
        square = xp.sum(p * p, axis=(-2, -1), keepdims=True)
        coefficient = _hermitian_product(p, centered) / square
        return centered - _multiply(coefficient, p)

    def residual(self, p: Array) -> Array:
        """Return how far landmarks p are from centered and of norm 1.

        It is the larger one of |centroid| and | |p| − 1 |.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            Arrays that may be points.

        Returns
        -------
        array of shape (...)
            The residuals.
        """
        xp = namespace(p)
        centroid = xp.mean(p, axis=-2)
        offset = xp.sqrt(xp.sum(centroid * centroid, axis=-1))
        norm = xp.sqrt(xp.sum(p * p, axis=(-2, -1)))
        return xp.maximum(offset, xp.abs(norm - 1))

    def from_coordinates(self, p: Array, z: Array) -> Array:
        """Return the tangent vector at p with the orthonormal coordinates z.

        As complex vectors with k entries, the tangent vectors at p are those orthogonal
        to (1, …, 1) and to p. Two reflections map to them the vectors whose first two
        entries are 0. The first reflection acts on the last k − 1 entries, where it
        takes the first unit vector to the image of p. The second one takes e₁ to the
        direction of (1, …, 1) (`_helmert`). Both need O(k) operations.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        z : array of shape (..., dim)
            Coordinates of a tangent vector at p.

        Returns
        -------
        array of shape (..., *point_shape)
            The tangent vectors.
        """
        # z as k − 2 complex numbers, with a zero in front.
        xp = namespace(p, z)
        w = xp.reshape(z, (*z.shape[:-1], self.k - 2, 2))
        w = xp.concat([xp.zeros_like(w[..., :1, :]), w], axis=-2)

        # The first reflection, and the second one with another zero in front.
        w = self._reflect(self._helmert(p)[..., 1:, :], w)
        return self._helmert(xp.concat([xp.zeros_like(w[..., :1, :]), w], axis=-2))

    def to_coordinates(self, p: Array, v: Array) -> Array:
        """Return the orthonormal coordinates of a tangent vector v at p.

        The two reflections of `from_coordinates`, in the other order, carry v to a
        complex vector whose first two entries are 0. The coordinates are the real and
        imaginary parts of the others.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        v : array of shape (..., *point_shape)
            A tangent vector at p.

        Returns
        -------
        array of shape (..., dim)
            The coordinates.
        """
        xp = namespace(p, v)
        reflected_p = self._helmert(p)[..., 1:, :]
        w = self._reflect(reflected_p, self._helmert(v)[..., 1:, :])[..., 1:, :]
        return xp.reshape(w, (*w.shape[:-2], self.dim))

    def _helmert(self, x: Array) -> Array:
        """Apply the reflection that swaps e₁ and the unit vector −(1, …, 1)/√k.

        It maps centered vectors to those whose first entry is 0. The reflection is
        x ↦ x − 2⟨u, x⟩/|u|²·u with u = e₁ + (1, …, 1)/√k. Here |u|² = 2(1 + 1/√k), and
        so 2⟨u, x⟩/|u|² = (x₁ + Σxⱼ/√k)/(1 + 1/√k).

        Parameters
        ----------
        x : array of shape (..., k, 2)
            Complex vectors.

        Returns
        -------
        array of shape (..., k, 2)
            The reflected vectors.
        """
        xp = namespace(x)
        root = math.sqrt(self.k)
        first = x[..., :1, :]
        total = xp.sum(x, axis=-2, keepdims=True)
        coefficient = (first + total / root) / (1 + 1 / root)
        reflected_first = first - coefficient * (1 + 1 / root)
        reflected_others = x[..., 1:, :] - coefficient / root
        return xp.concat([reflected_first, reflected_others], axis=-2)

    @staticmethod
    def _reflect(a: Array, w: Array) -> Array:
        """Apply to w the reflection that swaps the complex lines of e₁ and of a.

        The reflection is w ↦ w − 2u⟨u, w⟩/|u|² with u = a + φ·e₁, where φ is the phase
        of a₁, the first entry of a. Here |u|² = 2(1 + |a₁|).

        Parameters
        ----------
        a : array of shape (..., l, 2)
            Complex unit vectors.
        w : array of shape (..., l, 2)
            Complex vectors.

        Returns
        -------
        array of shape (..., l, 2)
            The reflected vectors.
        """
        xp = namespace(a, w)
        first = a[..., :1, :]
        u = xp.concat([first + _phase(first), a[..., 1:, :]], axis=-2)
        coefficient = _hermitian_product(u, w) / (1 + _modulus(first))
        return w - _multiply(coefficient, u)


def _times_i(x: Array) -> Array:
    """Return i·x: every vector of the plane turned by a quarter.

    Parameters
    ----------
    x : array of shape (..., k, 2)
        Complex numbers as pairs of real and imaginary parts.

    Returns
    -------
    array of shape (..., k, 2)
        The turned vectors.
    """
    return namespace(x).stack([-x[..., 1], x[..., 0]], axis=-1)


def _hermitian_product(x: Array, y: Array) -> Array:
    """Return the Hermitian product ⟨x, y⟩ = Σ x̄ⱼyⱼ of landmarks as complex numbers.

    Parameters
    ----------
    x, y : arrays of shape (..., k, 2)
        Landmarks, as pairs of real and imaginary parts.

    Returns
    -------
    array of shape (..., 1, 2)
        The product as one complex number, which can multiply landmarks (`_multiply`).
    """
    xp = namespace(x, y)
    real = xp.sum(x * y, axis=(-2, -1))
    imaginary = xp.sum(_times_i(x) * y, axis=(-2, -1))
    return xp.stack([real, imaginary], axis=-1)[..., None, :]


def _multiply(a: Array, x: Array) -> Array:
    """Multiply every landmark, read as a complex number, by one complex number.

    Parameters
    ----------
    a : array of shape (..., 1, 2)
        The number, as a pair of real and imaginary part.
    x : array of shape (..., k, 2)
        Landmarks, as such pairs.

    Returns
    -------
    array of shape (..., k, 2)
        The landmarks; all of them are turned and scaled in the same way.
    """
    return a[..., :1] * x + a[..., 1:] * _times_i(x)


def _conjugate(a: Array) -> Array:
    """Return the conjugate of complex numbers given as pairs (real, imaginary)."""
    return namespace(a).stack([a[..., 0], -a[..., 1]], axis=-1)


def _modulus(a: Array) -> Array:
    """Return the modulus |a| of a complex number, with derivative 0 at a = 0.

    Parameters
    ----------
    a : array of shape (..., 1, 2)
        The number, as a pair of real and imaginary part.

    Returns
    -------
    array of shape (..., 1, 1)
        Its modulus.
    """
    xp = namespace(a)
    return safe_sqrt(xp, xp.sum(a * a, axis=-1, keepdims=True))


def _phase(a: Array) -> Array:
    """Return the phase a/|a| of a complex number, and 1 for a = 0.

    Parameters
    ----------
    a : array of shape (..., 1, 2)
        The number, as a pair of real and imaginary part.

    Returns
    -------
    array of shape (..., 1, 2)
        A number of modulus 1.
    """
    xp = namespace(a)
    modulus = _modulus(a)
    quotient = a / xp.where(modulus > 0, modulus, 1.0)
    return xp.where(modulus > 0, quotient, like(a, [1.0, 0.0]))

"""The flat torus: vectors of angles, each of which may be changed by full turns."""

import math

import numpy as np

from curvedp.geometry.capabilities import EmbeddedMean
from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.euclidean import FlatVectorManifold
from curvedp.numerics.arrays import namespace


class Torus(FlatVectorManifold, EmbeddedMean):
    """d angles in radians, each modulo 2π: a product of unit circles, which is flat.

    Any real numbers are a point, and results lie in [−π, π]. A ball of radius r < π/2
    is isometric to a ball of flat space. So the Fréchet mean of records in it has the
    sensitivity 2r/n, and noise in normal coordinates is exact.

    Parameters
    ----------
    d : int
        The number of angles.

    Examples
    --------
    >>> distance = Torus(1).dist(np.array([3.0]), np.array([-3.0]))  # the short way
    >>> float(np.round(distance, 6))
    0.283185
    """

    kind = "torus"
    injectivity_radius = math.pi
    embedded_diameter = 2.0

    def exp(self, p: Array, v: Array) -> Array:
        """Return the end p + v of the geodesic from p with velocity v, modulo 2π."""
        return _wrap_angles(p + v)

    def log(self, p: Array, q: Array) -> Array:
        """Return the shortest velocity from p to q: every angle goes the short way round.

        It is q − p modulo 2π, with entries in [−π, π].
        """
        return _wrap_angles(q - p)

    def project(self, x: Array) -> Array:
        """Return the angles x modulo 2π, in [−π, π]."""
        return _wrap_angles(x)

    def embed(self, X: Array) -> np.ndarray:
        """Return points X of d angles as unit vectors (cos X, sin X)/√d of R^{2d}.

        Parameters
        ----------
        X : array of shape (..., *point_shape)
            Points.

        Returns
        -------
        array of shape (..., 2d)
            Their embeddings (NumPy).
        """
        X = np.asarray(X)
        circles = np.concatenate([np.cos(X), np.sin(X)], axis=-1)
        return np.asarray(circles / self.d**0.5)

    def from_embedding(self, z: np.ndarray) -> np.ndarray:
        """Return the point nearest to a vector z of R^{2d}: the angle of each (cos, sin).

        The first d entries of z stand for cosines, and the others for sines.

        Parameters
        ----------
        z : array of shape (..., 2d)
            Vectors of the embedding space, such as means of embedded points.

        Returns
        -------
        array of shape (..., *point_shape)
            The points (NumPy).
        """
        cosines = z[..., : self.d]
        sines = z[..., self.d :]
        return np.asarray(np.arctan2(sines, cosines))


def _wrap_angles(x: Array) -> Array:
    """Return the angles x modulo 2π, in [−π, π].

    An angle in the interval does not change at all, so that small angles keep their
    digits. For numbers so large that a full turn is less than the spacing of floats, the
    remainder may lie outside the interval. It is clipped.

    Parameters
    ----------
    x : array
        Angles in radians.

    Returns
    -------
    array
        The same angles in the interval, of the same shape.
    """
    xp = namespace(x)
    x = x - 2 * math.pi * xp.round(x / (2 * math.pi))
    return xp.clip(x, -math.pi, math.pi)

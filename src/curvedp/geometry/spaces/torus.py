"""Angles: the flat torus."""

import math

import numpy as np

from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.euclidean import FlatVectors
from curvedp.numerics.arrays import namespace


class Torus(FlatVectors):
    """d angles in radians, each modulo 2π: a product of unit circles, and flat.

    Any real numbers are a point; results lie in [−π, π]. Balls of radius below π/2 are those of flat space, so the Fréchet
    mean costs 2r/n there, and noise in the chart is exact.

    Parameters
    ----------
    d : int
        The number of angles.

    Examples
    --------
    >>> float(np.round(Torus(1).dist(np.array([3.0]), np.array([-3.0])), 6))  # the short way round
    0.283185
    """

    kind = "torus"
    injectivity_radius = math.pi
    embedded_diameter = 2.0

    def exp(self, p: Array, v: Array) -> Array:
        return _wrapped(p + v)

    def log(self, p: Array, q: Array) -> Array:
        return _wrapped(q - p)

    def project(self, x: Array) -> Array:
        return _wrapped(x)

    def embedded(self, X: Array) -> np.ndarray:
        X = np.asarray(X)
        return np.asarray(np.concatenate([np.cos(X), np.sin(X)], axis=-1) / self.d**0.5)

    def from_embedded(self, z: np.ndarray) -> np.ndarray:
        return np.asarray(np.arctan2(z[..., self.d :], z[..., : self.d]))


def _wrapped(x: Array) -> Array:
    """x modulo 2π in [−π, π]; exactly x where it lies there, so that small angles keep their digits."""
    xp = namespace(x)
    x = x - 2 * math.pi * xp.round(x / (2 * math.pi))
    return xp.clip(
        x, -math.pi, math.pi
    )  # of numbers so large that a turn is below their spacing, anything remains

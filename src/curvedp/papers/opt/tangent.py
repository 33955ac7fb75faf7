"""Gaussian noise in a tangent space: `from_coordinates(p, σ·z)` with z standard normal.
This is the law of Definition 1 of Utpala et al. (2023), and the formula is all that is
needed to draw from it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc, poch

from curvedp.laws.backend import Floats
from curvedp.laws.law import (
    Law,
    Size,
    check_center_and_size,
    check_points,
    check_radii,
    check_rng,
    sample_blocks,
)

__all__ = ["TangentGaussian"]


@dataclass(frozen=True)
class TangentGaussian(Law):
    """Isotropic normal tangent vectors, on every manifold.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the centers.
    scale : float
        The standard deviation along every unit direction.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> law = TangentGaussian(Sphere(2), 0.1)
    >>> v = law.sample(np.random.default_rng(0), Sphere(2).origin, 4)
    >>> v.shape, bool(np.all(v[:, 0] == 0))
    ((4, 3), True)
    """

    def sample(
        self, rng: np.random.Generator, center: ArrayLike, size: Size = None
    ) -> Floats:
        """Return independent tangent vectors at the center, in floats: NOT for a release.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of randomness.
        center : array of shape (..., *point_shape)
            The points of the tangent spaces. Leading axes broadcast to `size`.
        size : int or tuple of int, optional
            The number of draws, or the shape of an array of draws; one for each center
            if omitted.

        Returns
        -------
        array of shape size + point_shape
            The tangent vectors.
        """
        check_rng(rng)
        manifold, point_shape = self.manifold, self.manifold.point_shape
        points, shape = check_center_and_size(size, center, point_shape)
        vectors = np.empty((math.prod(shape), *point_shape))
        for part, centers in sample_blocks(points, shape, point_shape, manifold.dim):
            z = rng.standard_normal((part.stop - part.start, manifold.dim))
            z *= self.scale
            vectors[part] = manifold.from_coordinates(centers, z)
        return vectors.reshape(shape + point_shape)

    def log_prob(self, x: ArrayLike, center: ArrayLike) -> Floats:
        """Return the logarithm of the density at a tangent vector.

        It is normalized with respect to the volume of the tangent space, with the
        constant (2πσ²)^{−d/2}. Lemma 1 of the paper prints (2πσ²)^{1/2}: erratum E13
        (docs/errata.md).

        Parameters
        ----------
        x : array of shape (..., *point_shape)
            Tangent vectors at the center.
        center : array of shape (..., *point_shape)
            The points of the tangent spaces; leading axes broadcast with those of x.
        """
        shape = self.manifold.point_shape
        center = check_points("center", center, shape)
        length = self.manifold.norm(center, check_points("x", x, shape))
        log_unit = math.log(2 * math.pi) / 2 + math.log(self.scale)
        constant = self.manifold.dim * log_unit
        return np.asarray(-((np.asarray(length) / self.scale) ** 2) / 2 - constant)

    def radial_cdf(self, r: ArrayLike) -> Floats:
        """Return P(‖v‖ ≤ r): ‖v‖/σ has the chi law of `dim` degrees of freedom.

        Parameters
        ----------
        r : array
            Lengths.
        """
        ratio = np.maximum(check_radii(r), 0.0) / self.scale
        # An overflow means that the probability is 1.
        with np.errstate(over="ignore"):
            return np.asarray(gammainc(self.manifold.dim / 2, ratio**2 / 2))

    @property
    def mean_radius(self) -> float:
        """The mean of ‖v‖, σ·√2·Γ((d + 1)/2)/Γ(d/2)."""
        return self.scale * math.sqrt(2.0) * float(poch(self.manifold.dim / 2, 0.5))

    @property
    def mean_square_radius(self) -> float:
        """The mean of ‖v‖², d·σ²."""
        return self.manifold.dim * self.scale**2

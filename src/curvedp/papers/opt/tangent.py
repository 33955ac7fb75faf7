"""Gaussian noise in a tangent space: `from_coordinates(p, σ·z)` with z standard normal, and nothing else."""

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


@dataclass(frozen=True)
class TangentGaussian(Law):
    """Isotropic normal tangent vectors, standard deviation `scale` along every unit direction, on every manifold.

    `sample` returns tangent vectors at `center`; `log_prob(v, center)` is normalized with respect to the volume of the
    tangent space, with the constant (2πσ²)^{−d/2} (printed as (2πσ²)^{1/2} in Han et al. 2023, Lemma 1).

    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> v = TangentGaussian(Sphere(2), 0.1).sample(np.random.default_rng(0), Sphere(2).origin, 4)
    >>> v.shape, bool(np.all(v[:, 0] == 0))
    ((4, 3), True)
    """

    def sample(
        self, rng: np.random.Generator, center: ArrayLike, size: Size = None
    ) -> Floats:
        """Independent tangent vectors at `center`, of shape size + point shape; see `Law.sample`."""
        check_rng(rng)
        manifold, shape_of_point = self.manifold, self.manifold.point_shape
        points, shape = check_center_and_size(size, center, shape_of_point)
        out = np.empty((math.prod(shape), *shape_of_point))
        for part, centers in sample_blocks(points, shape, shape_of_point, manifold.dim):
            z = rng.standard_normal((part.stop - part.start, manifold.dim))
            z *= self.scale
            out[part] = manifold.from_coordinates(centers, z)
        return out.reshape(shape + shape_of_point)

    def log_prob(self, x: ArrayLike, center: ArrayLike) -> Floats:
        """Logarithm of the density at the tangent vector x at `center`; leading axes broadcast."""
        shape = self.manifold.point_shape
        length = self.manifold.norm(
            check_points("center", center, shape), check_points("x", x, shape)
        )
        constant = self.manifold.dim * (
            math.log(2 * math.pi) / 2 + math.log(self.scale)
        )
        return np.asarray(-((np.asarray(length) / self.scale) ** 2) / 2 - constant)

    def radial_cdf(self, r: ArrayLike) -> Floats:
        """P(‖v‖ ≤ r): the chi law of `dim` degrees of freedom."""
        ratio = np.maximum(check_radii(r), 0.0) / self.scale
        with np.errstate(over="ignore"):  # beyond every float the probability is 1
            return np.asarray(gammainc(self.manifold.dim / 2, ratio**2 / 2))

    @property
    def mean_radius(self) -> float:
        """E‖v‖."""
        return self.scale * math.sqrt(2.0) * float(poch(self.manifold.dim / 2, 0.5))

    @property
    def mean_square_radius(self) -> float:
        """E‖v‖²."""
        return self.manifold.dim * self.scale**2

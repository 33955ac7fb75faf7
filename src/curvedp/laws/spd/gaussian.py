"""Gaussian noise on positive definite matrices, real symmetric (SPD) or Hermitian
(HPD), with the affine-invariant metric. A draw about a center is made of
log-eigenvalues and of a uniform rotation.

`SPDGaussian` joins the log-eigenvalues of `spd.envelopes`, the rotations of
`spd.random_matrices` and the integrals of `spd.normalizer`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from curvedp.errors import ParameterError
from curvedp.laws.backend import Floats, LawBackend
from curvedp.laws.radial_integrals import radial_moment
from curvedp.laws.spd.envelopes import sample_log_eigenvalues
from curvedp.laws.spd.normalizer import log_normalizer, mean_square_radius, radial_cdf
from curvedp.laws.spd.random_matrices import random_congruence

# Largest difference of log-eigenvalues: beyond e³⁶ = 2⁵² a dense float64 matrix loses
# its smallest eigenvalue.
_LARGEST_LOG_RATIO = 36.0


@dataclass(frozen=True)
class SPDGaussian(LawBackend):
    """Density ∝ exp(−d(X, W)²/2σ²) on affine-invariant SPD or HPD matrices.

    Parameters
    ----------
    m : int
        The size of the matrices.
    beta : {1, 2}
        1 for real symmetric matrices; 2 for Hermitian ones, with real and imaginary
        parts along a last axis.
    scale : float
        The scale σ > 0 of the law.
    """

    m: int
    beta: int
    scale: float

    @property
    def log_normalizer(self) -> float:
        """log ∫ exp(−d(X, W)²/2σ²) dvol(X), as a Pfaffian (β = 1) or a product (β = 2).

        σ is the scale, and β = 1 for real symmetric and 2 for Hermitian matrices.
        """
        return log_normalizer(self.m, self.scale, self.beta)

    def radial_cdf(self, r: ArrayLike) -> Floats:
        """Return P(d ≤ r) elementwise, to 1e-9, from an inverse Laplace transform.

        Parameters
        ----------
        r : array_like
            Distances from the footpoint.

        Returns
        -------
        array
            Probabilities, of the shape of `r`.
        """
        return np.asarray(radial_cdf(self.m, self.scale, r, self.beta))

    def moment(self, order: int) -> float:
        """Return E[d^order]; the second moment has a closed form.

        Parameters
        ----------
        order : int
            The power of the distance d.

        Returns
        -------
        float
            E[d^order].
        """
        if order == 2:
            return mean_square_radius(self.m, self.scale, self.beta)
        return radial_moment(self.radial_cdf, order, self.scale)

    def check_representable(self) -> None:
        """Raise `ParameterError` if draws may not be positive definite in float64.

        A dense matrix whose eigenvalues are a factor above 2⁵² apart loses the
        smallest. The largest difference of log-eigenvalues has a mean of about βσ²(m −
        1); with the margin added here, fewer than one draw in 10¹² exceeds the limit.

        σ is the scale, m the size of the matrices, and β = 1 for real symmetric and 2
        for Hermitian ones.
        """
        mean_log_ratio = self.beta * self.scale**2 * (self.m - 1)
        # Seven standard deviations, √2·σ each, of a difference of two log-eigenvalues.
        deviation = 10 * self.scale
        if mean_log_ratio + deviation > _LARGEST_LOG_RATIO:
            raise ParameterError(
                f"is too large: dense {self.m}×{self.m} matrices lose the small "
                "eigenvalues; use a smaller scale",
                parameter="scale",
                value=self.scale,
            )

    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        """Return `count` matrices about the center: log-eigenvalues and a random frame.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness.
        center : array
            One footpoint, or one for each draw.
        count : int
            The number of draws.

        Returns
        -------
        array, shape (count, *point_shape)
            The draws.
        """
        rho = sample_log_eigenvalues(rng, self.m, self.scale, count, beta=self.beta)
        return random_congruence(rng, center, rho, self.beta)

"""The interface between a noise law and the mathematics of one kind of manifold. A law
is a distribution of points about a center, the footpoint, with a scale σ. A backend
draws points, normalizes the density, and knows the distribution of the distance d from
the center.

`RiemannianGaussian` and `RiemannianLaplace` choose a `LawBackend` for their manifold:
`isotropic.law` for two-point homogeneous spaces, `spd` for positive definite matrices,
`product` for products.
"""

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
"""A NumPy array of float64."""

Kind = Literal["gaussian", "laplace"]
"""Density ∝ exp(−d²/2σ²) or ∝ exp(−d/σ), d the distance to the footpoint."""


class LawBackend(ABC):
    """Sampler and integrals of one isotropic law of one scale on one kind of manifold.

    The density with respect to the Riemannian volume is weight(d(x, p))/Z, where p is
    the footpoint and Z does not depend on p, because the manifold is homogeneous.
    """

    @property
    @abstractmethod
    def log_normalizer(self) -> float:
        """log Z = log ∫ weight(d(x, p)) dvol(x), the logarithm of the normalizer.

        The integral is over the manifold, and the same for every footpoint p.
        """

    @abstractmethod
    def radial_cdf(self, r: ArrayLike) -> Floats:
        """Return P(d ≤ r) elementwise; it shares no code with `draw`.

        Parameters
        ----------
        r : array_like
            Distances from the center.

        Returns
        -------
        array
            P(d ≤ r), of the shape of `r`.
        """

    @abstractmethod
    def moment(self, order: int) -> float:
        """Return the moment E[d^k] of the distance d between a draw and its footpoint.

        Parameters
        ----------
        order : int
            The power k ≥ 1. Mechanisms predict their error with k = 1 and k = 2.

        Returns
        -------
        float
            E[d^k].
        """

    @abstractmethod
    def draw(self, rng: np.random.Generator, center: Floats, count: int) -> Floats:
        """Return `count` independent points about the center.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness.
        center : array
            One footpoint, or `count` footpoints along the first axis.
        count : int
            The number of draws.

        Returns
        -------
        array of shape (count, *point_shape)
            The points, in float64: for simulation, not for release.
        """

    def check_representable(self) -> None:  # noqa: B027  (most coordinates hold every draw)
        """Raise `ParameterError` if float64 coordinates cannot hold draws of this law.

        The rule depends on public parameters only, never on a footpoint. By default
        every draw can be held.
        """

    def certified_delta(
        self, sensitivity: float, eps: float
    ) -> tuple[float, float] | None:
        """Return rigorous lower and upper bounds on δ(ε), or None if none are known.

        δ(ε) is the largest P(S) − e^ε·Q(S) over all sets S, for the laws P and Q about
        two footpoints as far apart as the sensitivity.

        Parameters
        ----------
        sensitivity : float
            How far the footpoint can move between neighboring data sets.
        eps : float
            The privacy parameter ε >= 0.

        Returns
        -------
        pair of float or None
            Bounds (lower, upper) with lower <= δ(ε) <= upper.
        """
        return None

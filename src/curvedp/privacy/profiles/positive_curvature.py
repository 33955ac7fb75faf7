"""A bound on δ(ε) of Gaussian noise on spaces whose curvature is nowhere negative.
There, noise of scale σ protects at least as well as on flat space: two noise centers at
most Δ apart are as hard to tell apart as N(0, 1) and N(Δ/σ, 1).

Theorem P6 (docs/theory/exact-profiles.md) proves this on every compact symmetric space
whose injectivity domain is convex, such as the space of planes in Rᵐ.
"""

from dataclasses import dataclass

from curvedp import _validate
from curvedp.privacy.profiles.constant_curvature import GaussianProfile


@dataclass(frozen=True)
class PositiveCurvatureProfile(GaussianProfile):
    """The profile of the flat Gaussian of the same scale.

    It bounds that of a Gaussian on a space whose curvature is nowhere negative.
    """

    @property
    def is_exact(self) -> bool:
        """False: on a curved space the flat Gaussian only bounds δ(ε) from above."""
        return False

    @classmethod
    def from_gaussian(
        cls, dim: int, sigma: float, sensitivity: float
    ) -> "PositiveCurvatureProfile":
        """Return a bound on the privacy profile of a Gaussian on a curved space.

        No sectional curvature of the space may be negative (Theorem P6).

        Parameters
        ----------
        dim : int
            The dimension of the space.
        sigma : float
            The scale σ of the noise.
        sensitivity : float
            The largest distance Δ between two noise centers.

        Returns
        -------
        PositiveCurvatureProfile
            A profile that is nowhere below that of the Gaussian on the space.
        """
        return cls(
            kind="gaussian",
            curvature=0.0,
            dim=dim,
            scale=_validate.length("sigma", sigma),
            sensitivity=sensitivity,
        )

    @property
    def space(self) -> str:
        """A description of the curved space, for messages."""
        return "this space, whose curvature is nowhere negative"

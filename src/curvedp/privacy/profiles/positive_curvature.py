"""A privacy profile in closed form for Gaussian noise where no curvature is negative.

Theorem P6 (docs/theory/exact-profiles.md). On a compact symmetric space whose
injectivity domain is convex, such as planes in Rᵐ, the Riemannian Gaussians of scale σ
about two points at most Δ apart are Δ/σ-GDP: no harder to protect than on flat space.
"""

from dataclasses import dataclass

from curvedp import _validate
from curvedp.privacy.profiles.constant_curvature import GaussianProfile


@dataclass(frozen=True)
class PositiveCurvatureProfile(GaussianProfile):
    """The profile of the flat Gaussian of the same scale, which bounds the curved one."""

    @property
    def is_exact(self) -> bool:
        return False

    @classmethod
    def of(
        cls, dim: int, sigma: float, sensitivity: float
    ) -> "PositiveCurvatureProfile":
        """Return the bound of Theorem P6.

        Parameters
        ----------
        dim : int
            The dimension of the space.
        sigma : float
            The scale σ of the noise.
        sensitivity : float
            The largest distance Δ between two centers.

        Returns
        -------
        PositiveCurvatureProfile
            A profile that is nowhere below that of the Gaussian on the space.
        """
        return cls("gaussian", 0.0, dim, _validate.length("sigma", sigma), sensitivity)

    @property
    def space(self) -> str:
        return "this space, whose curvature is nowhere negative"

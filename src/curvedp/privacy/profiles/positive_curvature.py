"""A bound on δ(ε) of Gaussian noise on compact symmetric spaces, such as planes in Rᵐ.

Theorem P6 (docs/theory/exact-profiles.md) proves it where the injectivity domain, the
set of tangent vectors up to the cut locus, is convex. There noise of scale σ protects
at least as well as on flat space: two noise centers at most Δ apart are at least as
hard to tell apart as N(0, 1) and N(Δ/σ, 1). Curvature that is nowhere negative is not
known to be enough.
"""

from dataclasses import dataclass

from curvedp import _validate
from curvedp.privacy.profiles.constant_curvature import GaussianProfile


@dataclass(frozen=True)
class PositiveCurvatureProfile(GaussianProfile):
    """The profile of the flat Gaussian of the same scale, as an upper bound.

    It bounds δ(ε) of the Riemannian Gaussian on the spaces of Theorem P6
    (docs/theory/exact-profiles.md).
    """

    @property
    def is_exact(self) -> bool:
        """False: on a curved space the flat Gaussian only bounds δ(ε) from above."""
        return False

    @classmethod
    def from_gaussian(
        cls, dim: int, sigma: float, sensitivity: float
    ) -> "PositiveCurvatureProfile":
        """Return a bound on the privacy profile of a Gaussian on a space of Theorem P6.

        Theorem P6 is in docs/theory/exact-profiles.md. Its assumption on the space is
        not checked here. The space must be a compact symmetric space, or its product
        with a flat one, and its injectivity domain must be convex. Grassmann manifolds,
        rotations, tori, spheres, projective spaces and their products are such spaces.

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
        return "this compact symmetric space"

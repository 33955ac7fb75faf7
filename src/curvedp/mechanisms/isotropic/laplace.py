"""The Riemannian Laplace mechanism (Reimherr, Bharath & Soto 2021), drawn exactly. It
releases a point y with density ∝ exp(−d(y, f)/σ) about a value f, for pure ε-DP.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from curvedp.core.capabilities import SometimesExcluded
from curvedp.core.mechanism import MechanismInfo
from curvedp.core.statistic import Statistic
from curvedp.errors import ParameterError
from curvedp.laws.exact import has_exact_laplace
from curvedp.mechanisms.isotropic.base import IsotropicMechanism
from curvedp.mechanisms.vector import NoiseKind


@dataclass(frozen=True, eq=False, init=False)
class LaplaceMechanism(IsotropicMechanism, SometimesExcluded):
    """Release a point y with the density ∝ exp(−d(y, f(D))/σ) about a statistic f(D).

    Here d is the geodesic distance, D are the records and σ is the noise scale.

    Parameters
    ----------
    manifold : Manifold
        Where the statistic lives.
    sensitivity : float
        How far the statistic can move between neighboring data sets. The caller vouches
        for it.
    scale : float
        The noise scale σ.
    statistic : Statistic
        A statistic with its space and sensitivity; it is passed instead of `manifold`
        and `sensitivity`.

    Notes
    -----
    Guarantees
    - ε-DP with ε = sensitivity/σ on homogeneous spaces, whose normalizing constant is
      the same at every point;
    - the exact privacy profile, which is far below what pure ε implies. On SPD and HPD
      matrices only pure ε is known.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.privacy import PureDP
    >>> mechanism = LaplaceMechanism.calibrated(Sphere(2), sensitivity=0.01, guarantee=PureDP(1.0))
    >>> mechanism.privacy_profile.pure_epsilon <= 1.0
    True
    """

    scale: float

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "riemannian-laplace", option="laplace", similar_to="tangent-laplace"
    )
    noise_kind: ClassVar[NoiseKind] = "laplace"

    def __init__(
        self,
        manifold: Any = None,
        sensitivity: Any = None,
        scale: Any = None,
        *,
        statistic: Statistic | None = None,
    ) -> None:
        """State the statistic and σ, and check that this noise can be drawn exactly.

        Parameters
        ----------
        manifold : Manifold, optional
            Where the value lives; with `sensitivity` it stands for a statistic that the
            caller computes.
        sensitivity : float, optional
            How far that value can move between neighboring data sets.
        scale : float or Guarantee
            The noise scale σ; or a guarantee, from which σ is calibrated (only if the
            manifold and the sensitivity are stated).
        statistic : Statistic, optional
            A statistic of the library, instead of `manifold` and `sensitivity`.

        Raises
        ------
        ParameterError
            If the manifold has no exact Laplace sampler, or σ is so large that the
            distribution has infinite mass.
        """
        super().__init__(manifold, sensitivity, scale, statistic=statistic)
        if not has_exact_laplace(self.manifold):
            raise ParameterError(
                f"LaplaceMechanism has no exact sampler on {self.manifold!r}; use "
                "the mechanism tangent-laplace"
            )
        # A scale of infinite mass is refused here, not at the first release.
        _ = self.noise_law

    @property
    def sigma(self) -> float:
        """The scale, under the name that papers give it."""
        return self.scale

    @classmethod
    def reason_excluded(cls, statistic: Statistic) -> str | None:
        """Return why `mechanism="auto"` does not consider this mechanism, or None.

        It is excluded where its noise cannot be drawn exactly, and on other spaces of
        varying curvature, where its privacy profile is a bound and not exact.

        Parameters
        ----------
        statistic : Statistic
            The statistic that is to be released.

        Returns
        -------
        str or None
            The reason; None if the mechanism is a candidate.
        """
        if statistic.value_space.constant_curvature is not None:
            return None
        if not has_exact_laplace(statistic.value_space):
            return f"it has no exact draws on {statistic.value_space!r}"
        return "on request only: its profile is not exact here"

"""The Riemannian Laplace mechanism (Reimherr, Bharath & Soto 2021), with its exact profile and exact sampler."""

from dataclasses import dataclass
from typing import Any, ClassVar

from curvedp.errors import ParameterError
from curvedp.laws.exact import has_exact_laplace
from curvedp.mechanisms.statistic import Statistic
from curvedp.mechanisms.value import IsotropicMechanism


@dataclass(frozen=True, eq=False, init=False)
class LaplaceMechanism(IsotropicMechanism):
    """Density ∝ exp(-d(y, f(D))/σ) about the statistic f(D), σ = `scale`.

    Parameters
    ----------
    manifold, sensitivity : Manifold and float
        Where the statistic lives, and how far it can move between neighbors; the caller vouches for it.
    scale : float
        The scale σ.
    statistic : Statistic
        Instead of manifold and sensitivity: a statistic that knows both.

    Notes
    -----
    Guarantees
    - ε-DP with ε = sensitivity/σ (homogeneous spaces, whose normalizer does not depend on the footpoint), and its exact
      profile, which is far below what pure ε implies; on SPD and HPD matrices pure ε is all that is known.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.privacy import PureDP
    >>> LaplaceMechanism.calibrated(Sphere(2), sensitivity=0.01, guarantee=PureDP(1.0)).guarantee.eps <= 1.0
    True
    """

    scale: float

    name: ClassVar[str] = "riemannian-laplace"
    option: ClassVar[str | None] = "laplace"
    like: ClassVar[str | None] = "log-laplace"
    kind: ClassVar[Any] = "laplace"
    sigma = property(lambda self: self.scale)  # the scale

    def __init__(
        self,
        manifold: Any = None,
        sensitivity: Any = None,
        scale: Any = None,
        *,
        statistic: Statistic | None = None,
    ) -> None:
        super().__init__(manifold, sensitivity, scale, statistic=statistic)
        if not has_exact_laplace(self.manifold):
            raise ParameterError(
                f"LaplaceMechanism has no exact sampler on {self.manifold!r}; use the "
                "mechanism log-laplace"
            )
        _ = self.law  # refuses a scale at which the density has infinite mass here, not at the first release

    @classmethod
    def left_out(cls, statistic: Statistic) -> str | None:
        """Only where the profile is exact."""
        return (
            None
            if statistic.space.constant_curvature is not None
            else "by name only: its profile is not exact here"
        )

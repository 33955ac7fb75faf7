"""The heat kernel as noise: where Brownian motion from the statistic is after a time. Its profile is a proved bound."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from curvedp.laws.exact.heat import heat_hop
from curvedp.laws.heat import heat_scale
from curvedp.laws.spaceform import rays_of
from curvedp.mechanisms.base import check_guarantee
from curvedp.mechanisms.statistic import Statistic
from curvedp.mechanisms.value import IsotropicMechanism
from curvedp.privacy import Guarantee, smallest_scale
from curvedp.privacy.hadamard import HadamardProfile


@dataclass(frozen=True, eq=False, init=False)
class HeatKernelMechanism(IsotropicMechanism):
    """Brownian motion from the statistic f(D), stopped at time `scale`²: on Sphere, Lorentz, PoincareBall, d >= 2.

    Guarantees
    - μ-GDP with μ = Δ·√(ρ/(e^{ρt} − 1)), t = scale², ρ = ±(d − 1) the Ricci curvature (proof: docs/laws.md).

    It buys nothing: at equal μ it errs as the Riemannian Gaussian does, so that "auto" leaves it out.
    """

    scale: float

    name: ClassVar[str] = "heat-kernel"
    option: ClassVar[str | None] = "heat-kernel"
    kind: ClassVar[Any] = "heat"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = (
            self.law,
            heat_hop(rays_of(self.manifold), self.scale),
        )  # refused here, not at the first release

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        check_guarantee(guarantee)
        moved, dim = cls.charged(statistic), statistic.space.dim
        flat = smallest_scale(
            lambda s: HadamardProfile("gaussian", 0.0, dim, s, moved), guarantee, moved
        )
        return cls(scale=heat_scale(statistic.space, flat), statistic=statistic)

    @classmethod
    def left_out(cls, statistic: Statistic) -> str | None:
        """It is never better."""
        return "by name only: it errs as gaussian does"

"""A guarantee that states a whole privacy profile: δ(ε) at every ε. A profile is
computed from the noise of one release. Wrapped in `ProfileGuarantee`, it can be
composed with other guarantees, converted to another definition of privacy, and charged
to a ledger.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from curvedp.numerics.directed_rounding import Array
from curvedp.privacy.guarantees.base import Guarantee, common_adjacency

if TYPE_CHECKING:
    from curvedp.privacy.profiles.base import PrivacyProfile


@dataclass(frozen=True, repr=False)
class ProfileGuarantee(Guarantee):
    """The guarantee that a release satisfies a privacy profile: its δ(ε) at every ε.

    It is stronger than any one parameter of the profile, such as the μ of Gaussian DP.
    Several releases are composed through their privacy loss distributions. A ledger
    converts the guarantee to the definition of privacy of its budget.

    Parameters
    ----------
    profile : PrivacyProfile
        The profile.
    adjacency : str
        The kind of neighboring data sets: 'replace-one' or 'add-remove'. It must be
        that of the profile.

    Examples
    --------
    >>> from curvedp.privacy import GDP, convert, gaussian_profile
    >>> profile = gaussian_profile(curvature=1.0, dim=2, scale=1.0, sensitivity=1.0)
    >>> convert(profile.guarantee, to=GDP).mu == profile.mu
    True
    """

    profile: "PrivacyProfile"

    def __post_init__(self) -> None:
        """Check that the profile is for the same adjacency."""
        super().__post_init__()
        common_adjacency((self, self.profile))

    @property
    def definition(self) -> str:
        return type(self.profile).__name__

    @property
    def is_exact(self) -> bool:
        return self.profile.is_exact

    def _delta(self, eps: Array) -> Any:
        return self.profile._delta(eps)

    def _epsilon(self, delta: Array) -> Any:
        return self.profile._epsilon(delta)

    def _tradeoff(self, alpha: Array) -> Any:
        return self.profile._tradeoff(alpha)

    def delta_upper_bound(self, eps: Array) -> Array:
        return self.profile.delta_upper_bound(eps)

    def implied_pure_epsilon(self) -> float:
        return self.profile.pure_epsilon

    def implied_mu(self) -> float:
        return self.profile.mu

    def implied_rho(self) -> float:
        return self.profile.rho

    def implied_hellinger_angle(self) -> float:
        return self.profile.hellinger_angle

    def implied_rao_distance(self) -> float:
        return self.profile.rao

    def implied_renyi(self, order: float) -> float:
        return self.profile.renyi_at(order)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the profile, from which it can be built again."""
        return self.profile.to_dict()

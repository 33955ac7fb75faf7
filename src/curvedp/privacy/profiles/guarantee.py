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
        """The class name of the profile, such as 'GaussianProfile', for messages."""
        return type(self.profile).__name__

    @property
    def is_exact(self) -> bool:
        """Whether δ(ε) of the profile is the smallest possible one, up to rounding."""
        return self.profile.is_exact

    # ---- δ(ε), ε(δ) and the trade-off curve are those of the profile

    def _delta(self, eps: Array) -> Any:
        """Return the δ(ε) of the profile, rounded up, for an array of ε >= 0."""
        return self.profile._delta(eps)

    def _epsilon(self, delta: Array) -> Any:
        """Return the smallest ε at which δ(ε) of the profile is at most each δ."""
        return self.profile._epsilon(delta)

    def _tradeoff(self, alpha: Array) -> Any:
        """Return the smallest type II error of a test with each type I error α.

        The test tells two neighboring data sets apart from one output. The errors are
        those that the profile allows, rounded down.

        Parameters
        ----------
        alpha : array
            Type I errors from 0 to 1.

        Returns
        -------
        array
            The type II errors, of the shape of `alpha`.
        """
        return self.profile._tradeoff(alpha)

    def delta_upper_bound(self, eps: Array) -> Array:
        """Return proved upper bounds on δ(ε), from which compositions are computed.

        Parameters
        ----------
        eps : array
            Numbers ε >= 0.

        Returns
        -------
        array
            The bounds in [0, 1], of the shape of `eps`.
        """
        return self.profile.delta_upper_bound(eps)

    # ---- the parameters that the profile implies in other definitions of privacy

    def implied_pure_epsilon(self) -> float:
        """Return the ε of pure DP: the largest privacy loss of the profile, or inf."""
        return self.profile.pure_epsilon

    def implied_mu(self) -> float:
        """Return the smallest μ of Gaussian DP that the profile satisfies."""
        return self.profile.mu

    def implied_rho(self) -> float:
        """Return the smallest ρ of zero-concentrated DP that the profile satisfies."""
        return self.profile.rho

    def implied_hellinger_angle(self) -> float:
        """Return the Hellinger angle 2·arccos∫√(p₁p₂) of the profile, at most π.

        p₁ and p₂ are the output densities on the worst two neighboring data sets.
        """
        return self.profile.hellinger_angle

    def implied_rao_distance(self) -> float:
        """Return the Rao distance of the profile: sensitivity·√(Fisher information)."""
        return self.profile.rao

    def implied_renyi(self, order: float) -> float:
        """Return the Rényi divergence of the profile at one order.

        It compares the output distributions on two neighboring data sets.

        Parameters
        ----------
        order : float
            The order α >= 1.

        Returns
        -------
        float
            The divergence, rounded up.
        """
        return self.profile.renyi_at(order)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the profile, from which it can be built again.

        Certificates and ledgers store a guarantee as such a dictionary.

        Returns
        -------
        dict
            JSON values by the name of the field.
        """
        return self.profile.to_dict()

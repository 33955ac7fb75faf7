"""The Riemannian Gaussian where no curvature is positive: a bound on its whole profile, proved, in closed form.

**Theorem.** On a complete, simply connected manifold with sectional curvatures <= 0 and Ric >= −k, kσ² < 1, telling the
Gaussians of scale σ about two points Δ apart from each other is at least as hard as with flat Gaussians of scale
s = σ√(1 − kσ²): the release is Δ/s-GDP, and each f-divergence is at most theirs.

*Proof.* V = d(·, η₁)²/2σ² is smooth with Hess V >= 1/σ² (Hessian comparison), so Ric + Hess V >= K = 1/σ² − k, and
p₁ ∝ e^{−V} has an isoperimetric profile of at least √K times the normal one (Bakry & Ledoux 1996, Invent. Math. 123):
P₁(within h of A) >= Φ(Φ⁻¹(P₁(A)) + √K·h). The loss L = log p₁/p₂ has the gradient
(log_y η₁ − log_y η₂)/σ² up to sign, of length <= Δ/σ² because exp_y does not bring vectors together. With
A = {L <= t}, the increasing map T that carries N(0, 1) to the law of L under p₁ is therefore Lipschitz with the
constant Δ/(σ²√K) = Δ/s = μ. The flat loss is G(z) = μz + μ²/2, and E e^{−T} = E e^{−G} = 1. T − G never increases, so
e^{−T} − e^{−G} changes its sign once, from − to +: e^{−T} is below e^{−G} in the convex order, and δ(ε) = E(1 − e^{ε−L})₊,
as every f-divergence, is the mean of a convex function of e^{−L}. ∎

The Fisher information is at most 1/s² by Poincaré's inequality, var L <= |∇L|²/K. Since μ >= Δ/σ along a flat direction
or in the tail, the bound is within 1/√(1 − kσ²) of the truth.
"""

import math
from dataclasses import dataclass

from curvedp import _validate
from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.privacy.constant_curvature import GaussianProfile


@dataclass(frozen=True)
class HadamardProfile(GaussianProfile):
    """A flat Gaussian which gives away at least as much, `scale` its own: σ√(1 − kσ²), or that of a heat kernel.

    *Guarantees*: those of `PrivacyProfile`, as an upper bound on every number but `tradeoff`, a lower one.

    Parameters
    ----------
    kind, curvature, dim, scale, sensitivity : as of `ConstantCurvatureProfile`
        Of the flat Gaussian.

    Examples
    --------
    >>> round(HadamardProfile.of(9, 0.1, 0.1, -1.5).mu, 6)
    1.007585
    """

    @classmethod
    def of(cls, dim: int, sigma: float, sensitivity: float, ricci: float) -> "HadamardProfile":
        """For the Gaussian of scale σ where Ric >= `ricci`, and ricci·σ² >= −½: beyond, more noise would bound no better.

        >>> round(HadamardProfile.of(9, 0.1, 0.1, -1.5).mu, 6)
        1.007585
        """
        return cls("gaussian", 0.0, dim, _flat(_validate.length("sigma", sigma), -ricci), sensitivity)

    @property
    def space(self) -> str:
        return "this space, by its Ricci curvature"

    @property
    def label(self) -> str:
        return "proved bound"


def _flat(sigma: float, k: float) -> float:
    """σ√(1 − kσ²), rounded down."""
    if not k * sigma * sigma <= 0.5:
        raise ParameterError(f"sigma={sigma!r}: no bound by the Ricci curvature {-k:g} beyond {math.sqrt(0.5 / k):g}")
    return sigma * math.sqrt(1 - k * sigma * sigma) * (1 - 2.0**-50)


def hadamard_scale(flat: float, ricci: float) -> float:
    """The smallest σ with σ√(1 + ricci·σ²) >= flat, rounded up.

    Raises
    ------
    UnattainableGuarantee
        If there is none: the bound ends at flat² = −1/(4·ricci).
    """
    flat, k = _validate.length("flat", flat), -ricci
    room = 1 - 4 * k * flat * flat * (1 + 2.0**-40)
    if room < 0:
        raise UnattainableGuarantee(
            f"so much noise ({flat:.4g} in flat space, at most {0.5 / math.sqrt(k):.4g}) has no proved bound on this space; "
            "use LogGaussianMechanism"
        )
    sigma = flat * math.sqrt(2 / (1 + math.sqrt(room)))
    while _flat(sigma, k) < flat:
        sigma = math.nextafter(sigma * (1 + 2.0**-50), math.inf)
    return sigma

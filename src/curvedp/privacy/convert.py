"""From one definition of privacy to another: never stronger than the source, and tight wherever a tight form is known.

| from | to | parameter | source |
|---|---|---|---|
| PureDP(ε) | ApproxDP | (e^ε − e^{ε'})/(1 + e^ε) | randomized response is the worst case: Kairouz et al. 2015 |
| | GDP | μ = −2Φ⁻¹(1/(1 + e^ε)) | tight at ε' = 0: the trade-off curves touch where α = β |
| | ZCDP | ρ = ε·tanh(ε/2) ≤ ε²/2 | s ↦ log cosh(ε√s) is concave, taken at s = (α−½)² |
| | RenyiDP | log(cosh((α−½)ε)/cosh(ε/2))/(α−1) | Bun and Steinke 2016 |
| | RaoDP | θ = 2·arctan(sinh(ε/2)) (Hellinger) | affinity 1/cosh(ε/2) of randomized response |
| ApproxDP(ε, δ) | RaoDP | cos(θ/2) = (1 − δ)/cosh(ε/2) | the four-point worst case |
| GDP(μ) | ApproxDP | δ_μ(ε) | Dong et al. 2022 |
| | ZCDP, RenyiDP | ρ = μ²/2, αμ²/2 | every μ-GDP mechanism is a post-processing of the Gaussian (Blackwell) |
| | RaoDP | cos(θ/2) = e^{−μ²/8} (Hellinger) | the same |
| ZCDP(ρ) | RenyiDP | ρα | definition |
| | ApproxDP | best order of the exact single-order bound | Canonne et al. 2020; Asoodeh et al. 2021 |
| | RaoDP | cos(θ/2) = e^{−ρ/2} | D_{1/2} ≤ D_1 ≤ ρ |
| RenyiDP(α, ε) | RenyiDP, lower order | ε | the divergence grows with the order |
| | ApproxDP | the exact two-point bound | Asoodeh et al. 2021 |
| | RaoDP | cos(θ/2) = e^{−ε/2} | D_{1/2} ≤ D_α |
| all of these but ApproxDP | KLDP | ε·tanh(ε/2), ρ, ε, μ²/2: the divergence of order 1 | it grows with the order |
| PureDP(ε), bounded losses | MeanConcentratedDP | (KL, ε) | Hoeffding's lemma |
| KLDP(α) | ApproxDP | the exact two-point bound | `privacy.mean_loss` |
| | RaoDP | cos(θ/2) = e^{−α/2} | D_{1/2} ≤ D_1 |
| MeanConcentratedDP(m, τ) | RenyiDP | m + (α − 1)τ²/2 | Bun and Steinke 2016, Lemma 4.2 |
| | ZCDP, KLDP, RaoDP | max(m, τ²/2), m, cos(θ/2) = e^{−m/2} | the same |
| RaoDP(θ) | ApproxDP | ½(1 − γ + √((γ−1)² + 4γ sin²(θ/2))), γ = e^ε | Helstrom bound, see `privacy.rao` |
| PrivacyProfile | any | its own μ, ρ, Rényi divergence, Hellinger angle, sup of the loss | exact |
| Composition | any | each part, then the closed form | |

What is missing is impossible: there are mechanisms with the first guarantee and, for no parameter, the second. Each
rule stands with its source, as a bound of its class (`pure_bound`, `gdp_bound` …), and with its target (`implied_by`).
"""

from typing import TypeVar

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.privacy.base import Guarantee, impossible, vouched

G = TypeVar("G", bound=Guarantee)


def convert(
    guarantee: Guarantee,
    *,
    to: type[G],
    eps: float | None = None,
    delta: float | None = None,
    order: float | None = None,
) -> G:
    """The guarantee in the definition `to`. ApproxDP needs `eps` or `delta`, RenyiDP needs `order`.

    Guarantees: everything that satisfies the argument satisfies the result, under the same adjacency.

    Parameters
    ----------
    guarantee : Guarantee
        What is known.
    to : type
        A definition, such as `ZCDP`.
    eps, delta : float, optional
        One of them, for ApproxDP.
    order : float, optional
        For RenyiDP.

    Raises
    ------
    UnattainableGuarantee
        Where no parameter of the target definition is implied.
    ParameterError
        Where an option is missing, or the guarantee holds with some chance only (`ConfidenceProfile`).

    Examples
    --------
    >>> from curvedp.privacy import GDP, ZCDP, ApproxDP
    >>> convert(GDP(1.0), to=ZCDP).rho
    0.5
    >>> convert(GDP(1.0), to=ApproxDP, delta=1e-6).eps < 5
    True
    """
    if not isinstance(guarantee, Guarantee):
        raise ParameterError(f"{_validate.shown(guarantee)} is not a guarantee")
    if not (isinstance(to, type) and issubclass(to, Guarantee)):
        raise impossible(guarantee, to, "it is not a definition of privacy")
    return to.implied_by(vouched(guarantee), eps, delta, order)

"""What a release costs: guarantees, exact profiles, conversions, composition.

From a noise law to a guarantee, each step in a place of its own:

    loss/        the law of the privacy loss of a pair of noise laws, and its table
    profiles/    δ(ε), μ, ρ and the Rényi divergences of that loss: a `PrivacyProfile`
    pld/         profiles discretized to privacy loss distributions, and convolved
    composition  several releases together: a closed form, or a `Composition`
    guarantees/  definitions such as `GDP` and `ApproxDP`, and conversions between them

A profile is no guarantee but has one, `PrivacyProfile.guarantee`. Beside these steps,
`calibration` finds the noise for a guarantee, `enclosure/` proves bounds on δ and μ in
interval arithmetic, `subsampling` and `optimizer_accounting` are for random batches,
`selection` for the best of several runs. The theory is in docs/theory/accounting.md
(compositions, Theorems C1 to C8) and docs/theory/exact-profiles.md (profiles, Theorems
P1 to P5).
"""

from typing import TYPE_CHECKING

from curvedp import _lazy
from curvedp.privacy.composition import Composition, compose, compose_profiles

if TYPE_CHECKING:
    from curvedp.privacy.calibration import smallest_scale
    from curvedp.privacy.curve import PrivacyCurve
    from curvedp.privacy.enclosure.delta import certified_delta
    from curvedp.privacy.enclosure.mu import certified_mu
    from curvedp.privacy.guarantees.base import Guarantee
    from curvedp.privacy.guarantees.conversions import convert
    from curvedp.privacy.guarantees.definitions import (
        GDP,
        ZCDP,
        ApproxDP,
        PureDP,
        RaoDP,
        RenyiDP,
    )
    from curvedp.privacy.profiles.base import PrivacyProfile
    from curvedp.privacy.profiles.constant_curvature import (
        gaussian_floor,
        gaussian_profile,
        laplace_profile,
    )
    from curvedp.privacy.selection import NegativeBinomialRuns
    from curvedp.privacy.subsampling import (
        subsampled_gaussian,
        subsampled_noise_multiplier,
    )
    from curvedp.privacy.unit import PrivacyUnit

__all__ = [
    "GDP",
    "ZCDP",
    "ApproxDP",
    "Composition",
    "Guarantee",
    "NegativeBinomialRuns",
    "PrivacyCurve",
    "PrivacyProfile",
    "PrivacyUnit",
    "PureDP",
    "RaoDP",
    "RenyiDP",
    "certified_delta",
    "certified_mu",
    "compose",
    "compose_profiles",
    "convert",
    "gaussian_floor",
    "gaussian_profile",
    "laplace_profile",
    "smallest_scale",
    "subsampled_gaussian",
    "subsampled_noise_multiplier",
]

__getattr__, __dir__ = _lazy.exports(
    __name__,
    {
        "curvedp.privacy.calibration": ["smallest_scale"],
        "curvedp.privacy.curve": ["PrivacyCurve"],
        "curvedp.privacy.enclosure.delta": ["certified_delta"],
        "curvedp.privacy.enclosure.mu": ["certified_mu"],
        "curvedp.privacy.guarantees.base": ["Guarantee"],
        "curvedp.privacy.guarantees.conversions": ["convert"],
        "curvedp.privacy.guarantees.definitions": [
            "GDP",
            "ZCDP",
            "ApproxDP",
            "PureDP",
            "RaoDP",
            "RenyiDP",
        ],
        "curvedp.privacy.profiles.base": ["PrivacyProfile"],
        "curvedp.privacy.profiles.constant_curvature": [
            "gaussian_floor",
            "gaussian_profile",
            "laplace_profile",
        ],
        "curvedp.privacy.selection": ["NegativeBinomialRuns"],
        "curvedp.privacy.subsampling": [
            "subsampled_gaussian",
            "subsampled_noise_multiplier",
        ],
        "curvedp.privacy.unit": ["PrivacyUnit"],
    },
)

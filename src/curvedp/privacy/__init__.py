"""What a release costs: guarantees, exact profiles, conversions, composition."""

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

"""What a release costs: guarantees, exact profiles, conversions, composition. Imports no geometry."""

from curvedp.privacy.compose import Composition, compose, compose_profiles
from curvedp.privacy.constant_curvature import (
    ConstantCurvatureProfile,
    FloorProfile,
    gaussian_floor,
    gaussian_profile,
    laplace_profile,
)
from curvedp.privacy.convert import convert
from curvedp.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RaoDP, RenyiDP, guarantee_from_dict
from curvedp.privacy.profile import PrivacyProfile
from curvedp.privacy.subsampled import subsampled_gaussian, subsampled_noise_multiplier

__all__ = [
    "GDP",
    "ZCDP",
    "ApproxDP",
    "Composition",
    "ConstantCurvatureProfile",
    "FloorProfile",
    "Guarantee",
    "PrivacyProfile",
    "PureDP",
    "RaoDP",
    "RenyiDP",
    "compose",
    "compose_profiles",
    "convert",
    "gaussian_floor",
    "gaussian_profile",
    "guarantee_from_dict",
    "laplace_profile",
    "subsampled_gaussian",
    "subsampled_noise_multiplier",
]

"""What a release costs: guarantees, exact profiles, conversions, composition. Imports no geometry."""

from curvedp.privacy.compose import Composition, compose, compose_profiles
from curvedp.privacy.convert import convert
from curvedp.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RaoDP, RenyiDP, guarantee_from_dict

__all__ = [
    "GDP",
    "ZCDP",
    "ApproxDP",
    "Composition",
    "Guarantee",
    "PureDP",
    "RaoDP",
    "RenyiDP",
    "compose",
    "compose_profiles",
    "convert",
    "guarantee_from_dict",
]

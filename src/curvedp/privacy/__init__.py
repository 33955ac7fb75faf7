"""What a release costs: guarantees, exact profiles, conversions, composition. Imports no geometry."""

from curvedp.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RaoDP, RenyiDP, guarantee_from_dict

__all__ = [
    "GDP",
    "ZCDP",
    "ApproxDP",
    "Guarantee",
    "PureDP",
    "RaoDP",
    "RenyiDP",
    "guarantee_from_dict",
]

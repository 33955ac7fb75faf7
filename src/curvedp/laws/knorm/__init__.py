"""The law of the K-norm gradient mechanism: density ∝ exp(−‖∇E(x; D)‖/s) on a public domain."""

from curvedp.laws.knorm.cells import LipschitzRejectionSampler, LocalLipschitzBounds
from curvedp.laws.knorm.domains import GeodesicBall, TangentBundleBall
from curvedp.laws.knorm.law import KNormLaw

__all__ = [
    "GeodesicBall",
    "KNormLaw",
    "LipschitzRejectionSampler",
    "LocalLipschitzBounds",
    "TangentBundleBall",
]

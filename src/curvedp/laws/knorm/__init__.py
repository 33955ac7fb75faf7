"""The noise law of the K-norm gradient mechanism, drawn exactly on a public domain.

Its density is ∝ exp(−‖∇E(x; D)‖/s): the gradient of an objective is small at likely
points. `law` is the entrance, `cells` the sampler, `domains` the public domains.
"""

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

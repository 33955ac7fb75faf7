"""A confidence bound on the profile of the Gaussian on SPD matrices of size m >= 3, where no exact one is known.

`privacy.spd_confidence` has the theorem; this draws its samples and measures its distances. The generator is seeded by
the parameters alone: the same law gives the same bound, and nobody can draw again until a lucky one comes.
"""

import struct
from functools import lru_cache

import numpy as np

from curvedp.errors import ParameterError
from curvedp.laws.spd_gaussian import sample_log_eigenvalues, turned
from curvedp.privacy.spd_confidence import (
    ConfidenceProfile,
    spd_confidence_profile,
    weyl_net,
)

FAILURE_PROBABILITY = 1e-6
_TOO_LARGE = "the scale is too large for distances in floats: no confidence bound; use the mechanism log-gaussian"
_WORK = 3_000_000  # eigenvalues to compute
_SPACINGS = {3: 0.4, 4: 0.5, 5: 2 / 3}


@lru_cache(maxsize=32)
def spd_confidence(
    m: int, beta: int, sigma: float, sensitivity: float
) -> ConfidenceProfile:
    """The bound for `RiemannianGaussian(SPDAffineInvariant(m), sigma)`, or HPDAffineInvariant(m) for β = 2; m >= 3."""
    if sigma > 25.0:  # beyond the reach of doubles, whatever is drawn
        raise ParameterError(_TOO_LARGE)
    net, covering = weyl_net(m, _SPACINGS.get(m, 1.0))
    count = min(20_000, max(1000, _WORK // (m * len(net))))
    rng = np.random.default_rng(
        [m, *struct.unpack("<2Q", struct.pack("<2d", sigma, sensitivity))]
    )
    center = (
        np.eye(m) if beta == 1 else np.stack([np.eye(m), np.zeros((m, m))], axis=-1)
    )
    y = turned(
        rng, center, sample_log_eigenvalues(rng, m, sigma, count, beta=beta), beta
    )
    y = y if beta == 1 else y[..., 0] + 1j * y[..., 1]
    own = _distances(y)
    others = []
    for v in net:  # d(y, e^V) = ‖log e^{−V/2}·y·e^{−V/2}‖
        shrink = np.exp(-sensitivity * v / 2)
        others.append(_distances(y * shrink[:, None] * shrink))
    return spd_confidence_profile(
        sigma, sensitivity, own, np.array(others), covering, FAILURE_PROBABILITY
    )


def _distances(y: np.ndarray) -> np.ndarray:
    """‖log y‖, for matrices whose small eigenvalues have digits left."""
    eigenvalues = np.linalg.eigvalsh(y)
    if not np.all(eigenvalues[:, 0] > 1e-9 * eigenvalues[:, -1]):
        raise ParameterError(_TOO_LARGE)
    return np.asarray(np.sqrt(np.sum(np.log(eigenvalues) ** 2, axis=-1)))

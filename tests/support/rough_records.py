"""Records as they come: for tests of everything that reads data."""

import numpy as np


def cloud(M, radius, n, seed=0):
    """Records of which some are outside the ball, some not on the manifold and some not numbers."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, M.dim)) + 0.5
    z *= (
        1.2
        * radius
        * rng.uniform(size=(n, 1))
        / np.linalg.norm(z, axis=1, keepdims=True)
    )
    X = np.array(M.exp(M.origin, M.from_coordinates(M.origin, z)))
    X[0], X[1], X[2], X[3] = np.nan, np.inf, 0.0, 1e200
    return X

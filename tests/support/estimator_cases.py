"""Every estimator with parameters and data that it can be fitted to."""

import numpy as np

from curvedp import GDP, estimators
from curvedp.geometry import SPDAffineInvariant

N, M = 60, SPDAffineInvariant(2)
y = np.arange(N) % 2
X = np.asarray(
    M.from_normal_coordinates(
        M.origin, 0.2 * np.random.default_rng(0).standard_normal((N, 3)) + y[:, None]
    )
)
BALL = {"manifold": M, "radius": 2.0}
MADE = {  # (the estimator, what fit takes, the numbers in a record)
    "PrivateFrechetMean": (BALL, (X,), 4),
    "PrivateFrechetMedian": (BALL, (X,), 4),
    "PrivateDispersion": (BALL, (X,), 4),
    "PrivateTangentSpace": (BALL, (X,), 4),
    "PrivateTangentPCA": (BALL, (X,), 4),
    "PrivateSynthesizer": ({**BALL, "model": "tree"}, (X,), 4),
    "PrivateKMeans": ({"manifold": M, "n_clusters": 2}, (X,), 4),
    "PrivateMDM": (BALL, (X, y), 4),
    "PrivatePrototypes": (BALL, (X, y), 4),
    "PrivateRecenter": (BALL, (X, np.array([f"s{domain}/left" for domain in y])), 4),
    "PrivateSoftmax": ({"manifold": M, "reduce": 1}, (X, y), 4),
    "PrivatePCA": ({"radius": 5.0, "n_components": 2}, (X.reshape(N, 4),), 4),
    "PrivateGeodesicRegression": (
        {**BALL, "speed": 1.0, "clip": 1.0, "x_range": (0, 1)},
        (np.linspace(0, 1, N), X),
        1,
    ),
}


def made(name):
    return getattr(estimators, name)(**{"guarantee": GDP(2.0), **MADE[name][0]})

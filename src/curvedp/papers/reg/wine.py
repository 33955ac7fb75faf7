"""Wine Quality as the geodesic regression paper uses it, and our lines on it.

The functions import `curvedp` when they are called and not before:
benchmarks/speed/regression_peers.py loads this file in an environment without it.
"""

from typing import Any

import numpy as np

EPSILON, DELTA = 2.0, 1e-5
MIDDLE, UNIT = (
    np.array([8.0, 0.997, 3.3, 2.2]),
    np.array([1.5, 0.0015, 0.18, 1.2]),
)  # public, from the trade
ALCOHOL = (8.5, 11.5)  # public: what a vinho verde has
RESPONSES = ("fixed acidity", "density", "pH", "residual sugar")


def first_wines(columns: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Alcohol (100,) and the responses in public units (100, 4)."""
    responses = np.column_stack([columns[name][:100] for name in RESPONSES])
    return columns["alcohol"][:100], (responses - MIDDLE) / UNIT


def error(prediction: np.ndarray, Y: np.ndarray) -> float:
    """Mean squared error in units of the data's standard deviations, as the paper's."""
    return float(np.mean(((prediction - Y) / Y.std(axis=0)) ** 2))


def ours(x: np.ndarray, Y: np.ndarray, repeats: int) -> dict[str, list[float]]:
    """(2, 10⁻⁵)-DP by descent, for a record replaced and for one added or removed; pure ε = 2 as four K-norm lines."""
    from curvedp import GDP, ApproxDP, PrivateGeodesicRegression, PureDP
    from curvedp.geometry import Euclidean
    from curvedp.privacy import gaussian_profile, smallest_scale
    from curvedp.randomness import GeneratorSource

    def fitted(responses: np.ndarray, seed: int, **more: Any) -> np.ndarray:
        source = GeneratorSource(
            np.random.default_rng(seed)
        )  # the data of a benchmark are not at stake
        model = PrivateGeodesicRegression(
            Euclidean(responses.shape[1]), x_range=ALCOHOL, source=source, **more
        )
        return model.fit(x, responses).predict(x)

    joint: dict[str, Any] = {"radius": 1.0, "speed": 3.0, "clip": 1.0}
    alone: dict[str, Any] = {
        "radius": 0.5,
        "speed": 1.5,
        "clip": 0.6,
    }  # one response has half the length of four
    approx = ApproxDP(EPSILON, DELTA)
    mu = 1 / smallest_scale(
        lambda scale: gaussian_profile(0.0, 1, scale, 1.0), approx, 1.0
    )

    # A record added or removed moves a clipped sum by τ, one replaced by 2τ: μ for the former is 2μ for the latter.
    def lines(seed: int) -> np.ndarray:
        pure = PureDP(EPSILON / 4)
        return np.concatenate(
            [
                fitted(Y[:, [k]], 4 * seed + k, guarantee=pure, **alone)
                for k in range(4)
            ],
            axis=1,
        )

    return {
        "ours, (ε, δ), one record replaced": [
            error(fitted(Y, i, guarantee=approx, **joint), Y) for i in range(repeats)
        ],
        "ours, (ε, δ), one added or removed": [
            error(fitted(Y, i, guarantee=GDP(2 * mu), **joint), Y)
            for i in range(repeats)
        ],
        "ours, pure ε, one record replaced": [
            error(lines(i), Y) for i in range(repeats)
        ],
    }

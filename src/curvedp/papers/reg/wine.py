"""The data set Wine Quality as the geodesic regression paper uses it, and private lines
of this library on it.

The functions import `curvedp` when they are called and not before, because
benchmarks/speed/regression_peers.py loads this file in an environment without it.
"""

from typing import Any

import numpy as np

# The guarantee of every private line: ε, and δ where it is not pure.
EPSILON, DELTA = 2.0, 1e-5
# Public units of the four responses, from the trade.
MIDDLE = np.array([8.0, 0.997, 3.3, 2.2])
UNIT = np.array([1.5, 0.0015, 0.18, 1.2])
# The public range of the predictor: what a vinho verde has, in percent.
ALCOHOL = (8.5, 11.5)
RESPONSES = ("fixed acidity", "density", "pH", "residual sugar")


def first_wines(columns: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the first hundred wines, the rows that the paper takes.

    Parameters
    ----------
    columns : dict of array
        The table of Wine Quality (red), by the names of its columns.

    Returns
    -------
    alcohol, responses : array of shape (100,), array of shape (100, 4)
        Alcohol in percent, and the four responses in the public units of this module.
    """
    responses = np.column_stack([columns[name][:100] for name in RESPONSES])
    return columns["alcohol"][:100], (responses - MIDDLE) / UNIT


def error(prediction: np.ndarray, Y: np.ndarray) -> float:
    """Return the mean squared error, each response over its variance in the data.

    Parameters
    ----------
    prediction, Y : array of shape (n, responses)
        Predicted and true responses.
    """
    return float(np.mean(((prediction - Y) / Y.std(axis=0)) ** 2))


def _predict(x: np.ndarray, Y: np.ndarray, seed: int, **parameters: Any) -> np.ndarray:
    """Return the predictions of a private line at the data, drawn from a seed.

    Parameters
    ----------
    x, Y : array of shape (n,), array of shape (n, responses)
        Alcohol and responses.
    seed : int
        The seed of the noise.
    **parameters
        The guarantee and the bounds of `PrivateGeodesicRegression`.
    """
    from curvedp import PrivateGeodesicRegression
    from curvedp.geometry import Euclidean
    from curvedp.randomness import GeneratorSource

    # The data of a benchmark are public, and need no cryptographic source.
    source = GeneratorSource(np.random.default_rng(seed))
    model = PrivateGeodesicRegression(
        Euclidean(Y.shape[1]), x_range=ALCOHOL, source=source, **parameters
    )
    return model.fit(x, Y).predict(x)


def private_line_errors(
    x: np.ndarray, Y: np.ndarray, repeats: int
) -> dict[str, list[float]]:
    """Return the errors of this library's private lines.

    There are lines by descent at (2, 10⁻⁵), for one record replaced and for one added
    or removed, and four K-norm lines of ε = ½ each. A record that is added or removed
    moves a clipped sum by τ, and one that is replaced by 2τ. So a mechanism that is
    μ-GDP for adding and removing is 2μ-GDP for replacing.

    Parameters
    ----------
    x, Y : array of shape (n,), array of shape (n, 4)
        Alcohol and responses, as `first_wines` returns them.
    repeats : int
        The number of lines of each kind.

    Returns
    -------
    dict
        The errors of the lines, by the kind of guarantee.
    """
    from curvedp import GDP, ApproxDP, PureDP
    from curvedp.privacy import gaussian_profile, smallest_scale

    # A single response has half the length of four.
    of_four: dict[str, Any] = {"radius": 1.0, "speed": 3.0, "clip": 1.0}
    of_one: dict[str, Any] = {"radius": 0.5, "speed": 1.5, "clip": 0.6}
    approx = ApproxDP(EPSILON, DELTA)
    scale = smallest_scale(
        lambda sigma: gaussian_profile(0.0, 1, sigma, 1.0), approx, 1.0
    )
    for_added = GDP(2 / scale)
    pure = PureDP(EPSILON / 4)

    def four_lines(seed: int) -> np.ndarray:
        """Return the predictions of four private lines, one for each response."""
        columns = [
            _predict(x, Y[:, [k]], 4 * seed + k, guarantee=pure, **of_one)
            for k in range(4)
        ]
        return np.concatenate(columns, axis=1)

    def errors_at(guarantee: Any) -> list[float]:
        """Return the error of each private line of all four responses."""
        return [
            error(_predict(x, Y, seed, guarantee=guarantee, **of_four), Y)
            for seed in range(repeats)
        ]

    return {
        "ours, (ε, δ), one record replaced": errors_at(approx),
        "ours, (ε, δ), one added or removed": errors_at(for_added),
        "ours, pure ε, one record replaced": [
            error(four_lines(seed), Y) for seed in range(repeats)
        ],
    }

"""Two private means side by side: on the manifold, and of the records as vectors.

Six examples share this module. Each of them describes its records as points of a
manifold and as vectors, and calls `compare` and `picture`. Both private means satisfy
GDP(1). Errors are distances on the manifold to the Fréchet mean of the records without
clipping, so the bias of clipping counts, too. The mean of the vectors differs from the
Fréchet mean even without noise. For this reason, the error of the release through
vectors is also measured against the exact mean of the vectors.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from curvedp import GDP, PrivateFrechetMean
from curvedp.geometry import frechet_mean
from curvedp.papers.data_sets import MissingData, find_file

# The number of releases of each kind.
RUNS = 16

# How records, the true mean and the two releases are drawn.
DOTS = {"s": 10, "color": "#7f8c8d", "alpha": 0.6, "label": "records"}
TRUE = {
    "marker": "+",
    "s": 200,
    "color": "#1d2b3a",
    "linewidths": 2.5,
    "label": "true mean",
    "zorder": 3,
}
OURS = {
    "marker": "x",
    "s": 130,
    "color": "#c0392b",
    "linewidths": 2.5,
    "label": "private, GDP(1)",
    "zorder": 4,
}
FLAT = {
    "marker": "^",
    "s": 90,
    "color": "#2471a3",
    "label": "through vectors, GDP(1)",
    "zorder": 4,
}


class Comparison(NamedTuple):
    """The result of `compare`.

    Attributes
    ----------
    truth : array
        The Fréchet mean of the records.
    ours : array
        The last private mean on the manifold.
    flat : array
        The last private mean through vectors.
    errors : array, shape (3,)
        Root mean square errors: on the manifold, through vectors, and through vectors
        against the exact mean of the vectors.
    """

    truth: np.ndarray
    ours: np.ndarray
    flat: np.ndarray
    errors: np.ndarray


def table(file: str, title: str) -> Any:
    """Return a table of the real data, or None, with a message, if it is missing.

    Parameters
    ----------
    file : str
        The name of the file.
    title : str
        What it contains, for the message.
    """
    try:
        path = find_file(file, title, "CRAN")
    except MissingData as missing:
        print(f"{missing}\n-> synthetic records are used instead\n")
        return None
    return np.genfromtxt(path, delimiter=",", names=True, dtype=None, encoding="utf-8")


def cloud(
    space: Any, center: np.ndarray, spread: float, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Return n points whose normal coordinates at a center are normal variates.

    Parameters
    ----------
    space : Manifold
        The manifold.
    center : array
        The center of the points.
    spread : float
        The standard deviation of each coordinate.
    n : int
        The number of points.
    rng : numpy Generator
        The source of randomness.
    """
    coordinates = spread * rng.normal(size=(n, space.dim))
    return np.asarray(space.from_normal_coordinates(center, coordinates))


def compare(
    space: Any,
    records: np.ndarray,
    center: np.ndarray,
    radius: float,
    there: Callable[[np.ndarray], np.ndarray],
    back: Callable[[np.ndarray], Any],
    bound: float,
    middle: np.ndarray | None = None,
    seed: int = 2026,
) -> Comparison:
    """Release the mean on the manifold and through vectors, at GDP(1) each.

    Parameters
    ----------
    space : Manifold
        The manifold of the records.
    records : array
        The records.
    center, radius
        The public ball of the release on the manifold.
    there : callable
        Turns records into vectors.
    back : callable
        Turns a vector into the nearest point of the manifold.
    bound : float
        The public radius to which vectors are clipped about `middle`.
    middle : array, optional
        The center of the vectors; by default the vector of `center`.
    seed : int
        The seed of the noise through vectors.

    Returns
    -------
    Comparison
        The true mean, one release of each kind, and the errors.
    """
    rng = np.random.default_rng(seed)
    n = len(records)
    truth = np.asarray(frechet_mean(space, records))

    # Clip the vectors to the public ball.
    vectors = there(records)
    if middle is None:
        middle = there(center[None])[0]
    shifts = vectors - middle
    lengths = np.maximum(np.linalg.norm(shifts, axis=1), 1e-300)
    shifts *= np.minimum(1.0, bound / lengths)[:, None]
    mean_shift = shifts.mean(axis=0)
    mean_of_vectors = back(vectors.mean(axis=0))

    # Replacing one record moves the mean of the clipped vectors by at most 2·bound/n.
    noise_scale = 2 * bound / n
    errors = []
    for _ in range(RUNS):
        model = PrivateFrechetMean(
            space, center=center, radius=radius, guarantee=GDP(1.0)
        )
        ours = model.fit(records).location_
        noise = noise_scale * rng.normal(size=len(middle))
        flat = back(middle + mean_shift + noise)
        errors.append(
            [
                float(space.dist(truth, ours)),
                float(space.dist(truth, flat)),
                float(space.dist(mean_of_vectors, flat)),
            ]
        )

    root_mean_squares = np.sqrt(np.mean(np.square(errors), axis=0))
    on_manifold, through_vectors, against_own_mean = root_mean_squares
    print(
        f"n={n}, GDP(1), {RUNS} runs: on the manifold {on_manifold:.4f}, through "
        f"vectors {through_vectors:.4f}, vectors against their own mean "
        f"{against_own_mean:.4f}"
    )
    return Comparison(truth, np.asarray(ours), np.asarray(flat), root_mean_squares)


def picture(
    name: str, found: Comparison, draw: Callable[[Any], None], title: str
) -> None:
    """Save a picture with the records on the left and the errors on the right.

    Parameters
    ----------
    name : str
        The name of the file, without its ending.
    found : Comparison
        The errors.
    draw : callable
        Draws the records on the axes that it is given.
    title : str
        The title of the left part.
    """
    figure, (left, right) = plt.subplots(
        1,
        2,
        figsize=(10, 4.8),
        width_ratios=[2, 1],
        constrained_layout=True,
        num=f"{name}: {title}",
    )
    draw(left)
    left.set_title(title)

    labels = ["on the\nmanifold", "through\nvectors", "vectors,\ntheir own mean"]
    colors = ["#c0392b", "#2471a3", "#a9cce3"]
    bars = right.bar(labels, found.errors, color=colors)
    right.bar_label(bars, fmt="%.3g")
    right.set(title="Error of the mean at GDP(1)", ylabel="root mean square distance")
    right.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(f"{name}.png"), dpi=100)

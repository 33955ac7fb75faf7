"""What the six examples of spaces share: the mean at GDP(1) on its own space, and by the usual detour through vectors.

Errors are distances on the space to the mean of the records as they are, so that what a ball or a bound cuts off counts
too. A mean of vectors is another mean: its error is shown against the space's mean and against what the detour itself
would say without privacy.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from curvedp import GDP, PrivateFrechetMean
from curvedp.geometry import frechet_mean
from curvedp.papers.data_sets import MissingData, find_file

RUNS = 16
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
    "label": "by the detour, GDP(1)",
    "zorder": 4,
}


class Comparison(NamedTuple):
    """The true mean, the last release of both ways, and the root mean square errors: ours, the detour's, its own mean's."""

    truth: np.ndarray
    ours: np.ndarray
    flat: np.ndarray
    errors: np.ndarray


def table(file: str, title: str) -> Any:
    """A file of the shared data, or None, said aloud."""
    try:
        return np.genfromtxt(
            find_file(file, title, "CRAN"),
            delimiter=",",
            names=True,
            dtype=None,
            encoding="utf-8",
        )
    except MissingData as missing:
        print(f"{missing}\n-> synthetic records stand in\n")
        return None


def cloud(
    space: Any, center: np.ndarray, spread: float, n: int, rng: np.random.Generator
) -> np.ndarray:
    """A Gaussian cloud in the chart."""
    return np.asarray(
        space.from_normal_coordinates(center, spread * rng.normal(size=(n, space.dim)))
    )


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
    """Both ways at GDP(1); `there` makes vectors, `bound` is their public radius about `middle`, `back` makes a point."""
    rng, truth, n = (
        np.random.default_rng(seed),
        np.asarray(frechet_mean(space, records)),
        len(records),
    )
    vectors, middle = (
        there(records),
        there(center[None])[0] if middle is None else middle,
    )
    shift = vectors - middle
    shift *= np.minimum(1.0, bound / np.maximum(np.linalg.norm(shift, axis=1), 1e-300))[
        :, None
    ]
    own, errors = back(vectors.mean(axis=0)), []
    for _ in range(RUNS):
        ours = (
            PrivateFrechetMean(space, center=center, radius=radius, guarantee=GDP(1.0))
            .fit(records)
            .location_
        )
        flat = back(
            middle + shift.mean(axis=0) + 2 * bound / n * rng.normal(size=len(middle))
        )
        errors.append(
            [
                float(space.dist(a, b))
                for a, b in ((truth, ours), (truth, flat), (own, flat))
            ]
        )
    found = np.sqrt(np.mean(np.square(errors), axis=0))
    print(
        f"n={n}, GDP(1), {RUNS} runs: on the space {found[0]:.4f}, by the detour {found[1]:.4f}, "
        f"the detour against its own mean {found[2]:.4f}"
    )
    return Comparison(truth, np.asarray(ours), np.asarray(flat), found)


def picture(
    name: str, found: Comparison, draw: Callable[[Any], None], title: str
) -> None:
    """The records on the left, the errors on the right."""
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
    names, colors = (
        ["on the\nspace", "by the\ndetour", "detour, its\nown mean"],
        ["#c0392b", "#2471a3", "#a9cce3"],
    )
    bars = right.bar(names, found.errors, color=colors)
    right.bar_label(bars, fmt="%.3g")
    right.set(title="Error of the mean at GDP(1)", ylabel="root mean square distance")
    right.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(f"{name}.png"), dpi=100)

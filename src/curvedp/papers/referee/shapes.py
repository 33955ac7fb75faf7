"""K-norm gradients compared with Laplace noise for mean shapes, recomputed. *Shape and
structure preserving differential privacy* (Soto et al. 2022) releases mean shapes by
K-norm gradients, because on positive curvature the gradient is less sensitive than the
mean.

The paper's outlines of corpora callosa are not public. So its claim is recomputed on
planar shapes of four landmarks, the largest space on which the library draws exactly
from the law of K-norm gradients.
"""

import math
import warnings
from typing import Any

import numpy as np

from curvedp import PrivateFrechetMean, PureDP
from curvedp.geometry import KendallShapes, frechet_mean
from curvedp.mechanisms import frechet_mean_sensitivity
from curvedp.randomness import GeneratorSource

__all__ = ["mean_error", "shapes"]

# The public ball of the paper's example, and its number of records.
RADIUS = math.pi / 16
N_RECORDS = 28


def mean_error(mechanism: str, epsilon: float, runs: int) -> float:
    """Return the mean error of private mean shapes, as a distance from the mean shape.

    Parameters
    ----------
    mechanism : {"laplace", "kng"}
        Laplace noise about the mean, or K-norm gradients.
    epsilon : float
        The pure ε of each release.
    runs : int
        The number of releases.
    """
    manifold = KendallShapes(4)
    rng = np.random.default_rng(0)
    steps = 0.06 * rng.standard_normal((N_RECORDS, manifold.dim))
    origin = manifold.origin
    records = manifold.exp(origin, manifold.from_coordinates(origin, steps))
    mean = np.asarray(frechet_mean(manifold, records))
    errors = []
    for seed in range(runs):
        source = GeneratorSource(np.random.default_rng(seed))
        model = PrivateFrechetMean(
            manifold,
            radius=RADIUS,
            center=origin,
            guarantee=PureDP(epsilon),
            mechanism=mechanism,
            source=source,
        )
        with warnings.catch_warnings():
            # Releases near the rim of the ball warn; here only the law matters.
            warnings.simplefilter("ignore")
            model.fit(records)
        errors.append(float(manifold.dist(model.location_, mean)))
    return float(np.mean(errors))


def shapes(full: bool) -> dict[str, Any]:
    """Compare the mean shape with the gradient of its loss, as statistics to release.

    The gradient of the mean of ½d² changes by at most 2r/n if one of n records is
    replaced, where r is the radius of the public ball. The mean itself may change by
    more on positive curvature.

    Parameters
    ----------
    full : bool
        Whether 40 releases of each kind are drawn at ε = 10, which takes a minute.

    Returns
    -------
    dict
        The sensitivity of the mean divided by that of the gradient, by the bound of
        Reimherr et al. (2021) and by the bound proved here. In the full form also the
        mean errors of both mechanisms.
    """
    manifold = KendallShapes(4)
    gradient_sensitivity = 2 * RADIUS / N_RECORDS
    bound_of_2021 = frechet_mean_sensitivity(
        manifold, RADIUS, N_RECORDS, bound="reimherr"
    )
    proved_bound = frechet_mean_sensitivity(manifold, RADIUS, N_RECORDS)
    figures: dict[str, Any] = {
        "mean over gradient, bound of 2021": bound_of_2021 / gradient_sensitivity,
        "mean over gradient, proved here": proved_bound / gradient_sensitivity,
    }
    if full:
        figures["error of Laplace noise"] = mean_error("laplace", 10.0, 40)
        figures["error of K-norm gradients"] = mean_error("kng", 10.0, 40)
    return figures

"""What the tests of confidence regions share: true values, wrong regions, populations."""

from dataclasses import replace

import numpy as np

from curvedp.geometry import frechet_mean, project_to_ball


def mean_in_ball(M, X, radius):
    """Return the Fréchet mean of the records clipped to the ball about the origin."""
    return np.asarray(frechet_mean(M, project_to_ball(M, M.origin, radius, X)))


def shrink_region(region, factor=0.6):
    """Return a region that is too small by this factor: the deliberately wrong one."""
    if region.within is None:
        return replace(region, radius=factor * region.radius)
    return replace(
        region, within=region.within._replace(quantile=factor * region.within.quantile)
    )


def elongated_vectors(rng, n):
    """Draw vectors whose first direction leads.

    They are uniform on an ellipsoid with half axes 1, 0.3 and 0.3.
    """
    u = rng.standard_normal((n, 3))
    return u / np.linalg.norm(u, axis=1, keepdims=True) * [1.0, 0.3, 0.3]

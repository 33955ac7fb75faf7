"""The Fréchet mean as a statistic; it lives in `geometry.mean`."""

import numpy as np

from curvedp.geometry.base import Manifold
from curvedp.geometry.mean.bound import solver_error
from curvedp.geometry.mean.frechet import memory_moments
from curvedp.geometry.mean.streamed import Domain
from curvedp.mechanisms.base import Ball

__all__ = ["bounded_mean", "solver_error"]


def bounded_mean(manifold: Manifold, records: np.ndarray, ball: Ball) -> np.ndarray:
    """The Fréchet mean of records in the ball, within `solver_error` of the true one."""
    return memory_moments(Domain(manifold, *ball), records)[0]

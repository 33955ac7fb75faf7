"""Several records of one person, made into one."""

from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.geometry import frechet_mean, project_to_ball
from curvedp.geometry.base import Manifold

__all__ = ["person_codes", "person_means"]


def person_codes(groups: Any, n: int) -> np.ndarray:
    """Whose record each of n is, from 0 on.

    Raises
    ------
    ParameterError
        If there is not one id for each record, an id is NaN, or all are the same.
    """
    ids = np.asarray(groups)
    if ids.shape != (n,):
        raise ParameterError(f"groups has shape {ids.shape}; there must be one id for each of {n} records")
    if ids.dtype.kind == "f" and np.isnan(ids).any():
        raise ParameterError("groups has ids that are NaN")
    codes = np.unique(ids, return_inverse=True)[1]
    if codes.max() < 1:
        raise ParameterError("groups names one person only; at least 2 are needed")
    return np.asarray(codes)


def person_means(manifold: Manifold, ball: tuple[np.ndarray, float], X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The Fréchet mean of each person's records, after they were moved into a public ball.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    ball : (center, radius)
        Public. A person whose mean is not finite is given its center.
    X : array
        The records, shape (n, *point_shape).
    codes : array of int
        Whose record each is, from 0 on.

    Returns
    -------
    ndarray
        One record a person. Each depends on that person's records alone, whatever they are and however many.
    """
    center, radius = ball
    inside = np.asarray(project_to_ball(manifold, center, radius, X))
    order = np.argsort(codes, kind="stable")
    parts = np.split(inside[order], np.flatnonzero(np.diff(codes[order])) + 1)
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        means = np.stack([_mean(manifold, part) for part in parts])
    return np.asarray(project_to_ball(manifold, center, radius, means))


def _mean(manifold: Manifold, part: np.ndarray) -> np.ndarray:
    if len(part) == 1:
        return np.asarray(part[0])
    try:
        return np.asarray(frechet_mean(manifold, part))
    except (ArithmeticError, ValueError, np.linalg.LinAlgError):  # a person's own records; nobody else's count changes
        return np.full(manifold.point_shape, np.nan)

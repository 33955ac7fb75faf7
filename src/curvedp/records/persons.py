"""Several records of one person, made into one contribution: a function of that person's records alone, however many."""

from typing import Any

import numpy as np

from curvedp._silence import numerical_silence, quiet_about_records
from curvedp.errors import ParameterError
from curvedp.geometry import frechet_mean, project_to_ball
from curvedp.geometry.manifold import Manifold
from curvedp.records.tables import any_missing, names

MOST_ROWS = 1 << 16  # of one person that a sum of squares takes: the first ones


def person_codes(groups: Any, n: int, least: int = 2) -> np.ndarray:
    """Whose record each is, from 0 on, for n public ids of any kind; refused where there is not one for each record, one is
    missing, they cannot be compared, or persons are fewer than `least`."""
    try:
        ids = names(groups)
    except (
        TypeError,
        ValueError,
    ):  # lists that differ in length, or an object that is no array
        ids = np.empty(0, dtype=object)
    if ids.shape != (n,) or isinstance(groups, str | bytes):
        raise ParameterError(
            "groups does not match the records in length or shape; each record needs one id"
        )
    if any_missing(ids, groups):
        raise ParameterError(
            "groups has ids that are missing (NaN, NaT, None or blank)"
        )
    codes = (
        _coded(ids) if ids.dtype.kind == "O" else np.unique(ids, return_inverse=True)[1]
    )
    if len(np.unique(codes)) < least:
        raise ParameterError(
            f"groups names one person only; at least {least} are needed"
        )
    return np.asarray(codes)


def _coded(ids: np.ndarray) -> np.ndarray:
    """By equality alone: sorted by an order that is partial, as that of sets is, one person's records would be several's."""
    codes: dict[Any, int] = {}
    kinds: set[Any] = set(map(type, ids))
    try:
        if any(
            kind.__eq__ is object.__eq__ for kind in kinds
        ):  # equal to itself alone: no name of a person
            raise TypeError
        return np.array([codes.setdefault(each, len(codes)) for each in ids])
    except TypeError:
        raise ParameterError(
            "groups has ids that cannot be compared; give numbers or texts"
        ) from None


def person_means(
    manifold: Manifold, ball: tuple[np.ndarray, float], X: np.ndarray, codes: np.ndarray
) -> np.ndarray:
    """The Fréchet mean of each person's records, after they were moved into a public ball (center, radius), whose center is
    given to a person without one. Each depends on that person's records alone, whatever they are and however many."""
    center, radius = ball
    inside = np.asarray(project_to_ball(manifold, center, radius, X))
    order = np.argsort(codes, kind="stable")
    parts = (
        np.split(inside[order], np.flatnonzero(np.diff(codes[order])) + 1)
        if len(codes)
        else []
    )
    with quiet_about_records():
        means = np.array([_mean(manifold, part) for part in parts]).reshape(
            -1, *manifold.point_shape
        )
    return np.asarray(project_to_ball(manifold, center, radius, means))


def person_rows(rows: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Rows of which Σ xxᵀ adds up to the sum over persons of the mean of xxᵀ over their rows, the first 2^16 of each."""
    counts, order = np.bincount(codes), np.argsort(codes, kind="stable")
    place = (
        np.arange(len(codes)) - (np.cumsum(counts) - counts)[codes[order]]
    )  # of each row among its person's
    kept, counted = np.sort(order[place < MOST_ROWS]), np.minimum(counts, MOST_ROWS)
    with numerical_silence():  # a quotient may underflow
        return np.asarray(rows[kept] / np.sqrt(counted[codes[kept]])[:, None])


def _mean(manifold: Manifold, part: np.ndarray) -> np.ndarray:
    if len(part) == 1:
        return np.asarray(part[0])
    try:
        return np.asarray(frechet_mean(manifold, part))
    except (
        ArithmeticError,
        ValueError,
        np.linalg.LinAlgError,
    ):  # a person's own records; nobody else's count changes
        return np.full(manifold.point_shape, np.nan)

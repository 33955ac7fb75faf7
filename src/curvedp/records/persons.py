"""Combining several records of one person into one contribution.
A person may have several records. Then privacy protects persons: the contribution of a
person is a function of that person's records alone, however many they are. So
replacing all records of a person replaces one contribution.
"""

from typing import Any

import numpy as np

from curvedp._silence import numerical_silence, quiet_about_records
from curvedp.errors import ParameterError
from curvedp.geometry import frechet_mean, project_to_ball
from curvedp.geometry.manifold import Manifold
from curvedp.records.conversion import to_float
from curvedp.records.identifiers import any_missing, as_label_array

# How many rows of one person enter a sum of squares: the first ones. The rounding error
# of a mean over a person's rows grows with their number, so the number needs a public
# bound.
MAX_ROWS_PER_PERSON = 1 << 16


def encode_persons(
    groups: Any, n: int, min_persons: int = 2, parameter: str = "groups"
) -> np.ndarray:
    """Convert ids of persons to numbers from 0 on, one for each record.

    Parameters
    ----------
    groups : array, list or series, length n
        A public id of any kind for each record.
    n : int
        The number of records.
    min_persons : int
        The smallest number of people that is accepted.
    parameter : str
        The caller's name for `groups`, for error messages.

    Returns
    -------
    array of int, shape (n,)
        Equal numbers for equal ids.

    Raises
    ------
    ParameterError
        If there is not one id for each record, an id is missing, ids cannot be
        compared, one person may have two ids (7 and "7", "a" and "a "), or there are
        fewer people than `min_persons`.
    """
    try:
        ids = as_label_array(groups)
    except (TypeError, ValueError):
        # Lists that differ in length, or an object that is not an array. The next check
        # refuses them.
        ids = np.empty(0, dtype=object)
    if ids.shape != (n,) or isinstance(groups, str | bytes):
        raise ParameterError(
            f"{parameter} does not match the records in length or shape; each record "
            "needs one id"
        )
    if any_missing(ids, groups):
        raise ParameterError(
            f"{parameter} has ids that are missing (NaN, NaT, None or blank)"
        )

    if ids.dtype.kind == "O":
        codes = _codes_by_equality(ids, parameter)
    else:
        codes = np.unique(ids, return_inverse=True)[1]
    _refuse_two_ids_of_one_person(ids, parameter)
    if len(np.unique(codes)) < min_persons:
        raise ParameterError(
            f"{parameter} names one person only; at least {min_persons} are needed"
        )
    return np.asarray(codes)


def _codes_by_equality(ids: np.ndarray, parameter: str) -> np.ndarray:
    """Number ids of any type in the order in which they first occur.

    Ids are compared by equality and not sorted. Some types, such as sets, have only a
    partial order, and sorting could give the records of one person several numbers.

    Parameters
    ----------
    ids : array of object
        The id of each record's person.
    parameter : str
        The caller's name for the ids, for error messages.

    Returns
    -------
    array of int
        Equal numbers for equal ids.

    Raises
    ------
    ParameterError
        If ids have no equality or cannot be hashed.
    """
    codes: dict[Any, int] = {}
    types: set[Any] = set(map(type, ids))
    # An object of a type without equality is equal to itself alone, so it cannot be the
    # id of a person.
    has_type_without_equality = any(kind.__eq__ is object.__eq__ for kind in types)
    try:
        if has_type_without_equality:
            raise TypeError
        return np.array([codes.setdefault(person_id, len(codes)) for person_id in ids])
    except TypeError:  # An id that cannot be hashed raises this too.
        raise ParameterError(
            f"{parameter} has ids that cannot be compared; give numbers or texts"
        ) from None


def _refuse_two_ids_of_one_person(ids: np.ndarray, parameter: str) -> None:
    """Refuse ids that differ only in their type, or in the blanks around a text.

    They probably belong to one person. For example, pandas reads a long csv file in
    parts, and 7 may be a number in one part and a text in another. A person with two
    ids would be counted as two people, whom the guarantee protects separately.

    Parameters
    ----------
    ids : array of object
        The id of each record's person.
    parameter : str
        The caller's name for the ids, for error messages.

    Raises
    ------
    ParameterError
        If there are two such ids. The ids are not quoted.
    """
    has_texts = ids.dtype.kind in "OUS"
    if has_texts and _has_two_spellings(set(ids.tolist())):
        raise ParameterError(
            f"{parameter} has ids that differ only in their type or in blanks, such as 7 "
            "and '7', which may be one person; give all as texts without blanks around them"
        )


def _has_two_spellings(distinct_ids: set[Any]) -> bool:
    """Return whether two ids differ only in their type or in blanks, as 7 and "7 " do.

    Parameters
    ----------
    distinct_ids : set
        The ids of all people, of any types.
    """
    texts = []
    other_ids = []
    for person_id in distinct_ids:
        if isinstance(person_id, bytes):
            texts.append(person_id.decode(errors="replace"))
        elif isinstance(person_id, str):
            texts.append(person_id)
        else:
            other_ids.append(person_id)

    stripped_texts = {text.strip() for text in texts}
    if len(stripped_texts) < len(texts):
        return True
    # A number such as 7 may also be spelled by a text such as "7" or "7.0".
    spelled_numbers = {to_float(text) for text in stripped_texts}
    return any(
        str(person_id) in stripped_texts or to_float(person_id) in spelled_numbers
        for person_id in other_ids
    )


def person_means(
    manifold: Manifold, ball: tuple[np.ndarray, float], X: np.ndarray, codes: np.ndarray
) -> np.ndarray:
    """Return the Fréchet mean of each person's records, clipped to a public ball.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    ball : (center, radius)
        The public ball. Its center takes the place of a mean that cannot be computed.
    X : array, shape (n, *point_shape)
        The records.
    codes : array of int, shape (n,)
        The person to whom each record belongs, as `encode_persons` returns it.

    Returns
    -------
    array, shape (number of people, *point_shape)
        Each row depends on the records of one person alone, whatever they are and
        however many they are.
    """
    center, radius = ball
    clipped = np.asarray(project_to_ball(manifold, center, radius, X))
    with quiet_about_records():
        means = [
            _mean_of_person(manifold, records)
            for records in _split_by_person(clipped, codes)
        ]
        stacked_means = np.array(means).reshape(-1, *manifold.point_shape)
    return np.asarray(project_to_ball(manifold, center, radius, stacked_means))


def _split_by_person(records: np.ndarray, codes: np.ndarray) -> list[np.ndarray]:
    """Split records into one array for each person, in the order of their numbers.

    Parameters
    ----------
    records : array of shape (n, ...)
        The records of all persons.
    codes : array of int
        The number of the person to whom each record belongs.

    Returns
    -------
    list of arrays
        The records of each person.
    """
    if len(codes) == 0:
        return []
    order = np.argsort(codes, kind="stable")
    first_rows = np.flatnonzero(np.diff(codes[order])) + 1
    return np.split(records[order], first_rows)


def _mean_of_person(manifold: Manifold, records: np.ndarray) -> np.ndarray:
    """Return the Fréchet mean of one person's records; NaN if it cannot be computed.

    No error is raised: an error that is caused by one person's records would reveal
    something about that person.

    Parameters
    ----------
    manifold : Manifold
        The space in which the points lie.
    records : array
        The person's records, clipped into the ball.

    Returns
    -------
    array of shape point_shape
        The mean. NOT private.
    """
    if len(records) == 1:
        return np.asarray(records[0])
    try:
        return np.asarray(frechet_mean(manifold, records))
    except (ArithmeticError, ValueError, np.linalg.LinAlgError):
        return np.full(manifold.point_shape, np.nan)


def person_rows(rows: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Scale rows so that Σ xxᵀ over all rows x is a sum of one mean for each person.

    Of a person's k rows, the first m = min(k, `MAX_ROWS_PER_PERSON`) are kept and
    divided by √m. In Σ xxᵀ over the result, each person then contributes the mean of
    xxᵀ over their rows, which is bounded however many rows they have.

    Parameters
    ----------
    rows : array, shape (n, features)
        The records.
    codes : array of int, shape (n,)
        The person to whom each row belongs, as `encode_persons` returns it.

    Returns
    -------
    array, shape (at most n, features)
        The scaled rows, in the order of `rows`.
    """
    # The rank of each row among the rows of its person, from 0.
    row_counts = np.bincount(codes)
    by_person = np.argsort(codes, kind="stable")
    first_rows = np.cumsum(row_counts) - row_counts
    rank_within_person = np.arange(len(codes)) - first_rows[codes[by_person]]

    kept_rows = np.sort(by_person[rank_within_person < MAX_ROWS_PER_PERSON])
    kept_counts = np.minimum(row_counts, MAX_ROWS_PER_PERSON)
    divisors = np.sqrt(kept_counts[codes[kept_rows]])
    with numerical_silence():  # A quotient may underflow.
        return np.asarray(rows[kept_rows] / divisors[:, np.newaxis])

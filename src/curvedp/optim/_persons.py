"""Records that belong to people, and the rows of numbers that are clipped.
Without people, each record contributes one row, such as its gradient. With people, each
person contributes one row, the mean of the rows of their records.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curvedp.records.persons import encode_persons


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Persons:
    """Records sorted by the people to whom they belong, as a sequence of people.

    Its length is the number of people, and an index selects people, not records.

    Attributes
    ----------
    records : array of shape (n_records, …)
        All records, those of one person next to each other.
    first : array of shape (n_persons,)
        The position at which the records of each person begin.
    count : array of shape (n_persons,)
        The number of records of each person.
    """

    records: Any
    first: Any
    count: Any

    def __len__(self) -> int:
        """Return the number of people."""
        return len(self.first)

    def __getitem__(self, person_numbers: Any) -> "Persons":
        """Return some of the people; all records are shared, not copied.

        Parameters
        ----------
        person_numbers : slice or array of int
            The numbers of the people to select.

        Returns
        -------
        Persons
            These people, in this order.
        """
        return replace(
            self, first=self.first[person_numbers], count=self.count[person_numbers]
        )


def group_by_person(records: Any, groups: Any, min_persons: int) -> Persons:
    """Sort the records by person, so that those of one person are next to each other.

    Parameters
    ----------
    records : array of shape (n, …)
        One record for each row.
    groups : sequence of n ids
        The person of each record.
    min_persons : int
        With fewer people the data is refused.

    Returns
    -------
    Persons
        The sorted records; each person's keep their order.
    """
    person_index = encode_persons(groups, len(records), min_persons)
    count = np.bincount(person_index)
    first = np.cumsum(count) - count  # the number of records of all earlier people
    ordered = jnp.asarray(records)[np.argsort(person_index, kind="stable")]
    return Persons(ordered, jnp.asarray(first), jnp.asarray(count))


def rows_per_unit(data: Any, rows: Callable[[Any], Any]) -> Any:
    """Return one row of numbers for each record, or the mean row of each person.

    A row is what one record contributes, such as its gradient or its loss. The result
    has one row for each unit of privacy, a record or a person, and the caller clips
    each row.

    Parameters
    ----------
    data : array or Persons
        The records, with or without their people.
    rows : callable
        rows(records) returns one row for each record.

    Returns
    -------
    array of shape (n, …)
        n is the number of records, or of people.
    """
    if isinstance(data, Persons):
        return _mean_row_per_person(data, rows)
    return rows(data)


def _mean_row_per_person(data: Persons, rows: Callable[[Any], Any]) -> Any:
    """Return the mean row of each person; rows that are not finite count as zero.

    The loop adds the row of everyone's first record, then that of everyone's second
    record, and so on. So a person's mean is computed from their own records by the same
    operations in the same order, whatever the records of other people are. This must
    stay so: otherwise a rounding error could reveal something about other people.

    Parameters
    ----------
    data : Persons
        The records, sorted by person.
    rows : callable
        rows(records) returns one row for each record.

    Returns
    -------
    array of shape (n_persons, …)
        The means.
    """

    def add_record(record_number: Any, total: Any) -> Any:
        """Add one more row for every person who has so many records.

        Parameters
        ----------
        record_number : traced int
            0 for everyone's first record, 1 for the second, and so on.
        total : array of shape (n_persons, …)
            The sum of each person's rows so far.

        Returns
        -------
        array of shape (n_persons, …)
            The sums with this record.
        """
        # A person with fewer records reads their last one, which is not added.
        position = data.first + jnp.minimum(record_number, data.count - 1)
        person_rows = rows(data.records[position])
        is_finite = jnp.isfinite(person_rows).all(axis=1)
        is_usable = (record_number < data.count) & is_finite
        return total + jnp.where(is_usable[:, None], person_rows, 0)

    # The shape and type of a row, found without computing one.
    row_shape = jax.eval_shape(rows, data.records[:1])
    zero = jnp.zeros((len(data), *row_shape.shape[1:]), row_shape.dtype)
    total = jax.lax.fori_loop(0, jnp.max(data.count), add_record, zero)
    return total / data.count[:, None]

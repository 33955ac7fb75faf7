"""Labels: the class of each record, and the records of a single class.
A label becomes a code: the position of its class among all classes. Labels are public
unless the caller states the set of classes. Then a label is private, like the record:
no label raises an error, and one that is not in the set counts as the first class.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from curvedp._silence import quiet_about_records
from curvedp.errors import ParameterError
from curvedp.geometry.frechet_mean.backends.chunks import (
    Start,
    block_sums,
    start_from_sample,
    streamed_means,
)
from curvedp.geometry.frechet_mean.public_ball import PublicBall
from curvedp.geometry.manifold import Manifold
from curvedp.numerics.arrays import to_host
from curvedp.records.base import BlockSum, Moments, Records, is_chunked
from curvedp.records.chunked import (
    SAMPLE_SIZE,
    ChunkedRecords,
    check_chunk,
    check_chunk_sizes,
    compute,
)
from curvedp.records.conversion import (
    object_array,
    replace_invalid_characters,
    to_float,
)
from curvedp.records.frames import column_cells, is_column
from curvedp.records.identifiers import any_missing, as_label_array

# From how many records the start of one class is found at least. With many classes, the
# share of each in `SAMPLE_SIZE` would be too small to save passes.
_MIN_SAMPLE_SIZE = 1 << 8

# From here on a double does not tell an integer from the next one.
_LARGEST_EXACT_INTEGER = 2**53

# Truth values as texts, in lower case, and the numbers that Python takes them for.
_TRUTH_VALUES = {"true": 1.0, "false": 0.0}


class Labels:
    """Labels in memory, one for each of n records.

    Parameters
    ----------
    y : array, list or series
        The labels.
    n : int
        How many records there are; n is public, and y must have one label for each.
    classes : list, optional
        The public set of classes. With it labels are private: a label of any kind that
        is not in the set (a list, an array, a missing value, an object that cannot be
        compared) counts as the first class, and none of them is refused. Without it
        labels are public.

    Attributes
    ----------
    classes : array
        The classes in order.
    codes : array of int
        The position of each record's class in `classes`.
    sizes : array of int
        How many records each class has.
    """

    def __init__(self, y: Any, n: int, classes: Any = None) -> None:
        """Convert the labels to positions in the list of classes.

        Parameters
        ----------
        y : array, list or series
            The labels.
        n : int
            The number of records.
        classes : list, optional
            The public set of classes. With it labels are private, and none is refused.
        """
        if classes is None:
            encoded = _encode_public_labels(y, n)
        else:
            encoded = _encode_private_labels(y, n, classes)
        self.classes = encoded.classes
        self.sizes = encoded.sizes
        # The smallest type that holds the codes: with chunked records they travel to
        # workers.
        largest_code = max(len(self.classes) - 1, 0)
        self.codes = encoded.codes.astype(np.min_scalar_type(largest_code))


class EncodedLabels(NamedTuple):
    """Labels as positions in a list of classes; the fields are those of `Labels`."""

    classes: np.ndarray
    codes: np.ndarray
    sizes: np.ndarray


def _encode_public_labels(y: Any, n: int) -> EncodedLabels:
    """Convert public labels to codes, the positions in the list of their classes.

    The classes are the distinct labels, in order. Missing labels, and labels of types that
    have no order, are refused.

    Parameters
    ----------
    y : array-like
        The labels, one for each record.
    n : int
        The number of records.

    Returns
    -------
    EncodedLabels
        The classes that occur, the code of each record and the class sizes.
    """
    try:
        labels = as_label_array(y)
    except (TypeError, ValueError):
        raise ParameterError("y must be an array of labels") from None
    _check_shape(labels, n)
    if any_missing(labels, y):
        raise ParameterError("y has labels that are missing (NaN, NaT, None or blank)")
    encoded = _encode_distinct(labels)
    return encoded._replace(classes=_as_text_array(encoded.classes))


def _encode_private_labels(y: Any, n: int, classes: Any) -> EncodedLabels:
    """Convert private labels to codes, the positions in a public list of classes.

    Only the length and the type of y can be refused, never a label.

    Parameters
    ----------
    y : array-like
        The labels, one for each record.
    n : int
        The number of records.
    classes : list
        The public classes.

    Returns
    -------
    EncodedLabels
        The public classes, the code of each record and the class sizes.
    """
    labels = _private_labels(y)
    _check_shape(labels, n)
    known_classes = _distinct_classes(classes)
    codes = _find_codes(known_classes, labels)
    sizes = np.bincount(codes, minlength=len(known_classes))
    return EncodedLabels(known_classes, codes, sizes)


def _private_labels(y: Any) -> np.ndarray:
    """Convert private labels of any types to an array of shape (n,).

    NumPy would look for a common type of all labels in a list, and one of them could
    change that type or make the conversion fail. So a list keeps its objects, and an
    array keeps its type.

    Parameters
    ----------
    y : object
        The object that the caller passes as labels.

    Returns
    -------
    array of shape (n,)
        The labels.

    Raises
    ------
    ParameterError
        For the type of y alone.
    """
    if isinstance(y, list | tuple):
        return object_array(y)
    if is_column(y):
        return column_cells(y)
    if isinstance(y, np.ma.MaskedArray) and y.ndim == 1:
        return object_array(y.tolist())  # A masked label becomes None.
    try:
        return np.asarray(to_host(y))
    except (TypeError, ValueError):
        raise ParameterError(
            f"y is of type {type(y).__name__}; give an array or a list of labels"
        ) from None


def _as_text_array(classes: np.ndarray) -> np.ndarray:
    """Convert an array of classes to an array of texts, if all of them are texts.

    Parameters
    ----------
    classes : array
        The distinct classes.
    """
    if classes.dtype.kind != "O" or not all(type(label) is str for label in classes):
        return classes
    return np.array(classes.tolist(), dtype=np.str_)


def _check_shape(labels: Any, n: int) -> None:
    """Refuse labels unless there is one for each record.

    Parameters
    ----------
    labels : array
        The labels.
    n : int
        The number of records.

    Raises
    ------
    ParameterError
        If their shape is not (n,).
    """
    if labels.shape != (n,):
        raise ParameterError(
            "y does not match the records in length or shape; each record needs one label"
        )


def _refuse_lossy_classes(classes: np.ndarray) -> None:
    """Refuse public classes whose meaning depends on the type of the labels' column.

    A single label can change that type. One missing label turns a column of integers
    into floats, in which 2⁵³ and 2⁵³ + 1 are equal; one text turns a column of dates
    into objects. Then one record would decide to which class all others belong. Texts
    and numbers below 2⁵³ mean the same in every type of column.

    Parameters
    ----------
    classes : sequence
        The public classes.

    Raises
    ------
    ParameterError
        If a class is neither a text nor a number below 2⁵³.
    """
    for label in classes.tolist():
        is_text = isinstance(label, str | bytes)
        is_small_number = isinstance(label, bool | int | float) and (
            abs(label) < _LARGEST_EXACT_INTEGER
        )
        if not (is_text or is_small_number):
            raise ParameterError(
                "must hold texts, or numbers below 2^53: other labels depend on the type "
                "of their column; give them as texts, in y too",
                parameter="classes",
            )


def _distinct_classes(classes: Any) -> np.ndarray:
    """Return the distinct classes of a public list, in order.

    Parameters
    ----------
    classes : sequence
        The public classes.

    Returns
    -------
    array
        The classes in order, each once.

    Raises
    ------
    ParameterError
        If the list is empty, or if labels could belong to two of its classes: the texts
        "1" and "01" are the same number in a column of numbers.
    """
    distinct = np.empty(0)
    with suppress(TypeError, ParameterError):
        distinct = Labels(classes, len(classes)).classes
    if not len(distinct):
        raise ParameterError(
            "must be a list of distinct labels, numbers or texts: at least one, none "
            "missing",
            parameter="classes",
        )
    _refuse_lossy_classes(distinct)
    keys = [_label_key(label) for label in distinct.tolist()]
    if None in keys or len(set(keys)) < len(keys):
        raise ParameterError(
            "must differ whether their column is read as texts or as numbers: '1', '01' "
            "and 1 are one class, 'true' and 1 too, and 'nan' is none",
            parameter="classes",
        )
    return distinct


def _find_codes(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the position of each label among the classes; 0 if it is not a class.

    Each position depends on that label alone, whatever type its column has. The type of
    the array is never refused: if labels come from a table, one label can change it.

    Parameters
    ----------
    classes : array
        The public classes.
    labels : array
        The labels, which may be private.

    Returns
    -------
    array of int
        The positions, one for each label.
    """
    if labels.dtype.kind in "mM":
        # NumPy would make integers of some dates and durations.
        return np.zeros(len(labels), dtype=np.intp)
    code_of_key = {
        _label_key(label): code for code, label in enumerate(classes.tolist())
    }
    cells = replace_invalid_characters(labels).tolist()
    codes = (code_of_key.get(_label_key(label), 0) for label in cells)
    return np.fromiter(codes, np.intp, len(labels))


def _label_key(label: Any) -> float | str | None:
    """Return a key such that labels of one class have equal keys; never raise.

    One odd label changes the type of its column when a table is read: 1 becomes 1.0
    beside a missing value, and "1" beside a text. So a text that spells a number stands
    for that number, and True for 1. Numbers that are not whole are compared by 12
    digits, because libraries may read the last digits differently.

    Parameters
    ----------
    label : object
        A label of any type.

    Returns
    -------
    float, str or None
        The number, or else the text; None if the label is neither, or is missing.
    """
    try:
        value = _plain_value(label)
        number = to_float(value)
        is_number = number == number  # False for NaN only
        if is_number:
            is_whole = number == np.rint(number)
            return number if is_whole else float(f"{number:.12g}")
        if not isinstance(value, str) or value.lstrip("+-").lower() == "nan":
            return None
        return value
    except Exception:
        # A label may be any object, and looking at it may raise anything.
        return None


def _plain_value(label: Any) -> Any:
    """Return a label as a number or a stripped text, where it stands for one.

    Parameters
    ----------
    label : object
        A label of any type, such as b" true ", which becomes the number of True.
    """
    if isinstance(label, np.ndarray) and label.ndim == 0:
        label = label.item()
    if isinstance(label, bytes):
        label = label.decode()
    if isinstance(label, str):
        label = label.strip()
        return _TRUTH_VALUES.get(label.lower(), label)
    return label


def _encode_distinct(labels: np.ndarray) -> EncodedLabels:
    """Return the distinct labels as classes, with the code of each label.

    Parameters
    ----------
    labels : array
        The labels.

    Returns
    -------
    EncodedLabels
        The sorted distinct labels, the code of each label and how often each occurs.

    Raises
    ------
    ParameterError
        If a label is NaN, or if labels have no order.
    """
    if np.any(labels != labels):
        raise ParameterError("y has labels that are NaN")
    try:
        classes, codes, sizes = np.unique(
            labels, return_inverse=True, return_counts=True
        )
    except TypeError:
        raise ParameterError(
            "y has labels of types that have no order; give numbers or texts"
        ) from None
    return EncodedLabels(classes, codes, sizes)


class ChunkedLabels:
    """Labels of chunked records.

    Parameters
    ----------
    records : ChunkedRecords
        The records, whose chunks the labels share.
    y : array, list, series or dask array
        The labels; a dask array is never loaded.
    public_classes : list, optional
        The public set of classes, as for `Labels`; not for a dask array.

    Attributes
    ----------
    classes, sizes : arrays
        As in `Labels`.
    codes : dask array
        As in `Labels`, in the chunks of the records.
    """

    def __init__(
        self, records: ChunkedRecords, y: Any, public_classes: Any = None
    ) -> None:
        """Find the classes, the code of each record, and the counts of each chunk.

        Parameters
        ----------
        records : ChunkedRecords
            The records, whose chunks the labels share.
        y : array, list, series or dask array
            The labels; a dask array is never loaded.
        public_classes : list, optional
            The public set of classes; not for a dask array.
        """
        self._records = records
        if is_chunked(y):
            if public_classes is not None:
                raise ParameterError("needs y in memory", parameter="classes")
            counts_by_chunk = self._read_chunked_labels(y)
        else:
            counts_by_chunk = self._read_labels(y, public_classes)

        # How many records of each class each chunk has, shape (chunks, classes).
        self._counts = np.zeros(
            (len(counts_by_chunk), len(self.classes)), dtype=np.int64
        )
        for row, (classes, counts) in zip(self._counts, counts_by_chunk, strict=True):
            row[np.searchsorted(self.classes, classes)] = counts
        self.sizes = self._counts.sum(axis=0)

    def _read_chunked_labels(self, y: Any) -> list["ClassCounts"]:
        """Set `classes` and `codes` from labels in a dask array.

        Parameters
        ----------
        y : dask array
            The labels.

        Returns
        -------
        list of ClassCounts
            How many records of each class every chunk has.
        """
        import dask

        _check_shape(y, self._records.n)
        check_chunk_sizes("y", y)
        labels = y.rechunk((self._records.sizes,))
        delayed_counts = [
            dask.delayed(_count_classes)(chunk) for chunk in labels.to_delayed()
        ]
        counts: list[ClassCounts] = compute(dask.delayed(list)(delayed_counts), "y")
        all_classes = np.concatenate([classes for classes, _ in counts])
        self.classes = _encode_distinct(all_classes).classes
        self.codes = labels.map_blocks(
            partial(np.searchsorted, self.classes), dtype=np.intp
        )
        return counts

    def _read_labels(self, y: Any, public_classes: Any) -> list["ClassCounts"]:
        """Set `classes` and `codes` from labels in memory.

        Parameters
        ----------
        y : array-like
            The labels, one for each record.
        public_classes : list or None
            The public classes; None if labels are public.

        Returns
        -------
        list of ClassCounts
            How many records of each class every chunk has.
        """
        import dask.array

        chunk_sizes = self._records.sizes
        labels = Labels(y, self._records.n, public_classes)
        self.classes = labels.classes
        self.codes = dask.array.from_array(labels.codes, chunks=(chunk_sizes,))
        counts = []
        for codes_of_chunk in np.split(labels.codes, np.cumsum(chunk_sizes)[:-1]):
            codes, sizes = _count_classes(codes_of_chunk)
            counts.append(ClassCounts(labels.classes[codes], sizes))
        return counts

    def moments(self, ball: PublicBall) -> list[Moments]:
        """Return the Fréchet mean of each class and the mean square distance to it.

        One pass over the data serves all classes.

        Parameters
        ----------
        ball : Ball
            The public ball.

        Returns
        -------
        list of (array, float)
            For each class the mean and the mean squared distance. NOT private.
        """

        def sums_at(points: dict[int, np.ndarray]) -> list[np.ndarray]:
            """Return the sums over each class, at the current point of its search.

            Parameters
            ----------
            points : dict
                The current estimate of the mean of each class that is still searched
                for, by the code of the class.
            """
            sum_block = partial(_sum_by_class, ball, points)
            flat_totals = self._records.sums(sum_block, self.codes)
            totals = flat_totals.reshape(len(points), -1)
            self.check_sizes(totals[:, -1], list(points))
            return [total[:-1].reshape(2, -1) for total in totals]

        return streamed_means(
            ball, self.sizes.tolist(), sums_at, self._find_starts(ball)
        )

    def check_sizes(self, counts: np.ndarray, codes: list[int]) -> None:
        """Refuse labels that have changed since they were counted.

        The sizes of the classes are part of the guarantee.

        Parameters
        ----------
        counts : array of int
            How many records of some classes a pass over the data has seen.
        codes : list of int
            The codes of these classes.

        Raises
        ------
        ParameterError
            If the counts are not the known sizes of these classes.
        """
        if not np.array_equal(counts, self.sizes[codes]):
            raise ParameterError("y does not give the same labels each time it is read")

    def _find_starts(self, ball: PublicBall) -> list[Start]:
        """Return a starting point for the mean of each class.

        It is found from the first records of the class, which may lie in several
        chunks. One worker gathers them.

        Parameters
        ----------
        ball : Ball
            The public ball.

        Returns
        -------
        list of Start
            One for each class.
        """
        import dask

        sample_size = max(_MIN_SAMPLE_SIZE, SAMPLE_SIZE // len(self.classes))
        counts_before = np.cumsum(self._counts, axis=0) - self._counts
        wanted_counts = np.clip(sample_size - counts_before, 0, self._counts)

        samples = []
        for chunk, codes, counts_wanted in zip(
            self._records.delayed_chunks(),
            self.codes.to_delayed(),
            wanted_counts,
            strict=True,
        ):
            if counts_wanted.any():
                point_shape = ball.manifold.point_shape
                take = dask.delayed(_first_records_by_class)
                samples.append(take(point_shape, chunk, codes, counts_wanted))
        starts: list[Start] = compute(dask.delayed(_starts_by_class)(ball, samples))
        return starts


class ClassRecords(Records):
    """The records of one class of chunked records, seen through sums over them.

    Parameters
    ----------
    labels : ChunkedLabels
        The labels of all records.
    records : ChunkedRecords
        All records.
    code : int
        The position of the class in `labels.classes`.
    """

    location = "chunks"

    def __init__(
        self, labels: ChunkedLabels, records: ChunkedRecords, code: int
    ) -> None:
        """Remember which records are meant; nothing is read yet.

        Parameters
        ----------
        labels : ChunkedLabels
            The labels of all records.
        records : ChunkedRecords
            All records.
        code : int
            The position of the class in `labels.classes`.
        """
        self._labels = labels
        self._records = records
        self._code = code
        self.n = int(labels.sizes[code])

    def sums(self, sum_block: BlockSum, *columns: Any) -> np.ndarray:
        """Add up a vector of integers over the records of the class.

        Parameters
        ----------
        sum_block : callable
            The function that is added up. It takes a block of records and returns the
            sum over the block, a vector of int64.
        *columns : arrays
            Not supported here: further values of the records.

        Returns
        -------
        array of int64
            The exact sum.
        """
        if columns:
            raise NotImplementedError(
                "a class of chunked records has no further values"
            )
        sum_class_block = partial(_sum_over_class, sum_block, self._code)
        total = self._records.sums(sum_class_block, self._labels.codes)
        self._labels.check_sizes(total[-1:], [self._code])
        return np.asarray(total[:-1])

    def array(self) -> np.ndarray:
        """Refuse to load the records, as for all chunked records."""
        return np.asarray(self._records.array())

    def to_canonical_frame(
        self, manifold: Manifold, center: np.ndarray
    ) -> "ClassRecords":
        """Return the records after moving a public center to its canonical place.

        Chunks are moved when they are read.

        Parameters
        ----------
        manifold : Manifold
            The space in which the records lie.
        center : array of shape point_shape
            The center of the public ball, which is moved.
        """
        moved_records = self._records.to_canonical_frame(manifold, center)
        return ClassRecords(self._labels, moved_records, self._code)


# ---- on the workers ------------------------------------------------------------------


class ClassCounts(NamedTuple):
    """The classes that occur in a chunk, in order, and the records of each there."""

    classes: np.ndarray
    counts: np.ndarray


def _count_classes(labels: np.ndarray) -> ClassCounts:
    """Return the classes among the labels of a chunk, and how often each occurs.

    Parameters
    ----------
    labels : array
        The labels of a chunk.
    """
    encoded = _encode_distinct(np.asarray(labels))
    return ClassCounts(encoded.classes, encoded.sizes)


def _sum_over_class(
    sum_block: Callable[..., np.ndarray],
    code: int,
    block: np.ndarray,
    codes: np.ndarray,
) -> np.ndarray:
    """Sum a function over the records of one class in a block; append their number.

    Parameters
    ----------
    sum_block : callable
        Maps an array of records to a vector of sums over them.
    code : int
        The position of the class among all classes.
    block : array
        Some of the records.
    codes : array of int
        The position of the class of each of them.

    Returns
    -------
    array
        The sum, and as its last entry the number of records of the class.
    """
    is_in_class = codes == code
    return np.append(sum_block(block[is_in_class]), np.count_nonzero(is_in_class))


def _sum_by_class(
    ball: PublicBall,
    points: dict[int, np.ndarray],
    block: np.ndarray,
    codes: np.ndarray,
) -> np.ndarray:
    """Return sums over the records of each class, for one step toward their means.

    The means of all classes are searched for at once.

    Parameters
    ----------
    ball : PublicBall
        The public ball, into which records are clipped.
    points : dict
        The current estimate of the mean of each class, by the code of the class.
    block : array, shape (k, *point_shape)
        Some records.
    codes : array, shape (k,)
        The code of the class of each of them.

    Returns
    -------
    array of int64
        For each class in `points`, one after the other: `block_sums` at its point, and
        the number of its records.
    """
    rows: list[Any] = []
    for code, point in points.items():
        records = block[codes == code]
        rows.append(block_sums(ball, point, records).ravel())
        rows.append([len(records)])
    return np.concatenate(rows)


def _first_records_by_class(
    point_shape: tuple[int, ...],
    chunk: Any,
    codes: np.ndarray,
    counts_wanted: np.ndarray,
) -> list[np.ndarray]:
    """Return the first few records of each class in a chunk, as arrays of floats.

    Parameters
    ----------
    point_shape : tuple of int
        The shape of one point.
    chunk : array
        The records of one chunk.
    codes : array of int
        The class of each of them.
    counts_wanted : array of int
        How many records of each class are wanted.

    Returns
    -------
    list of arrays
        The records of each class, at most as many as are wanted.
    """
    records = np.asarray(check_chunk(point_shape, chunk, codes), dtype=np.float64)
    return [
        records[np.flatnonzero(codes == code)[:count]]
        for code, count in enumerate(counts_wanted)
    ]


def _starts_by_class(ball: PublicBall, samples: list[list[np.ndarray]]) -> list[Start]:
    """Return a starting point for the mean of each class, from samples of records.

    Parameters
    ----------
    ball : PublicBall
        The public ball.
    samples : list of lists of arrays
        For each chunk, some records of each class.

    Returns
    -------
    list of Start
        One for each class.
    """
    sample_by_class = [np.concatenate(parts) for parts in zip(*samples, strict=True)]
    starts = []
    # A worker has its own settings for warnings.
    with quiet_about_records():
        for sample in sample_by_class:
            if len(sample):
                starts.append(start_from_sample(ball, sample))
            else:
                # Only labels that change between two readings leave a class without
                # records here, and the first pass refuses them.
                starts.append(Start(ball.center))
    return starts

"""Public labels of records: the classes, how large each is, and the mean of each class of chunked records."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

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
from curvedp.records.base import Kernel, Records, is_chunked
from curvedp.records.chunked import (
    SAMPLE,
    ChunkedRecords,
    check_sizes,
    checked_block,
    computed,
)
from curvedp.records.conversion import object_array
from curvedp.records.identifiers import any_missing, names

_FEWEST = (
    1 << 8
)  # records that the start of one class is found from, however many classes there are


class Labels:
    """Labels in memory, one for each of n records.

    Parameters
    ----------
    y : array, list or series
        The labels.
    n : int
        How many records there are; n is public, and y must have one label for each.
    classes : list, optional
        The public set of classes. With it labels are private: a label of any kind that is
        not in the set (a list, an array, a missing value, an object that cannot be compared)
        counts as the first class, and none of them is refused. Without it labels are public.

    Attributes
    ----------
    classes : array
        The classes in order.
    codes : array
        Each record's place among the classes.
    sizes : array
        How many records each class has.
    """

    def __init__(self, y: Any, n: int, classes: Any = None) -> None:
        if classes is not None:
            labels = _private_labels(y)
            _check_shape(labels, n)
            self.classes = _public(classes)
            codes = _places(self.classes, labels)
            self.sizes = np.bincount(codes, minlength=len(self.classes))
        else:
            try:
                labels = names(y)
            except (TypeError, ValueError):
                raise ParameterError("y must be an array of labels") from None
            _check_shape(labels, n)
            if any_missing(labels, y):
                raise ParameterError(
                    "y has labels that are missing (NaN, NaT, None or blank)"
                )
            self.classes, codes, self.sizes = _distinct(labels)
            self.classes = _plain(self.classes)
        # The smallest type that holds them: with chunked records the codes travel to the workers.
        self.codes = codes.astype(np.min_scalar_type(max(len(self.classes) - 1, 0)))


def _private_labels(y: Any) -> np.ndarray:
    """Private labels as an array of shape (n,), whatever each of them is.

    NumPy would look at all labels to find a common type, and one of them could change it or
    make it fail. So a list keeps its objects, and the type of an array is as it is.
    """
    if isinstance(y, list | tuple):
        return object_array(y)
    if isinstance(y, np.ma.MaskedArray) and y.ndim == 1:
        return object_array(y.tolist())  # None where a label is masked
    try:
        return np.asarray(to_host(y))
    except (TypeError, ValueError):
        raise ParameterError(
            f"y is of type {type(y).__name__}; give an array or a list of labels"
        ) from None


def _plain(classes: np.ndarray) -> np.ndarray:
    """Public classes as an array of texts, where all of them are texts."""
    if classes.dtype.kind == "O" and all(type(each) is str for each in classes):
        return np.array(classes.tolist(), dtype=np.str_)
    return classes


class ChunkedLabels:
    """The same for chunked records; y is in memory, or a dask array that is never loaded."""

    def __init__(self, records: ChunkedRecords, y: Any, public: Any = None) -> None:
        import dask.array

        self._records = records
        if is_chunked(y):
            if public is not None:
                raise ParameterError("needs y in memory", parameter="classes")
            _check_shape(y, records.n)
            check_sizes("y", y)
            labels = y.rechunk((records.sizes,))
            each = [dask.delayed(_counted)(block) for block in labels.to_delayed()]
            found = computed(dask.delayed(list)(each), "y")
            self.classes = _distinct(np.concatenate([classes for classes, _ in found]))[
                0
            ]
            self.codes = labels.map_blocks(
                partial(np.searchsorted, self.classes), dtype=np.intp
            )
        else:
            host = Labels(y, records.n, public)
            self.classes = host.classes
            self.codes = dask.array.from_array(host.codes, chunks=(records.sizes,))
            found = [
                _counted(codes)
                for codes in np.split(host.codes, np.cumsum(records.sizes)[:-1])
            ]
            found = [(host.classes[codes], counts) for codes, counts in found]
        self._counts = np.zeros(
            (len(found), len(self.classes)), dtype=np.int64
        )  # of each class in each chunk
        for row, (classes, counts) in zip(self._counts, found, strict=True):
            row[np.searchsorted(self.classes, classes)] = counts
        self.sizes = self._counts.sum(axis=0)

    def moments(self, domain: PublicBall) -> list[tuple[np.ndarray, float]]:
        """Each class's Fréchet mean and mean square distance to it. A pass serves all classes."""

        def sums(points: dict[int, np.ndarray]) -> list[np.ndarray]:
            total = self._records.sums(
                partial(_class_sums, domain, points), self.codes
            ).reshape(len(points), -1)
            self.check(total[:, -1], list(points))
            return [row[:-1].reshape(2, -1) for row in total]

        return streamed_means(domain, self.sizes.tolist(), sums, self._starts(domain))

    def check(self, counted: np.ndarray, codes: list[int]) -> None:
        """Refuse labels that have changed: the sizes are part of the guarantee."""
        if not np.array_equal(counted, self.sizes[codes]):
            raise ParameterError("y does not give the same labels each time it is read")

    def _starts(self, domain: PublicBall) -> list[Start]:
        """From the first few records of each class, whichever chunks they are in; one worker gathers them."""
        import dask

        few = max(_FEWEST, SAMPLE // len(self.classes))
        wanted = np.clip(
            few - (np.cumsum(self._counts, axis=0) - self._counts), 0, self._counts
        )
        chunks = zip(
            self._records.blocks(), self.codes.to_delayed(), wanted, strict=True
        )
        shape = domain.manifold.point_shape
        chosen = [
            dask.delayed(_chosen)(shape, block, codes, row)
            for block, codes, row in chunks
            if row.any()
        ]
        starts: list[Start] = computed(dask.delayed(_guesses)(domain, chosen))
        return starts


class ClassRecords(Records):
    """The chunked records of one class, seen through sums over them."""

    where = "chunks"

    def __init__(
        self, labels: ChunkedLabels, records: ChunkedRecords, code: int
    ) -> None:
        self._labels, self._records, self._code = labels, records, code
        self.n = int(labels.sizes[code])

    def sums(self, kernel: Kernel, *beside: Any) -> np.ndarray:
        """Over those of each chunk that are of this class."""
        total = self._records.sums(
            partial(_of_class, kernel, self._code), self._labels.codes
        )
        self._labels.check(total[-1:], [self._code])
        return np.asarray(total[:-1])

    def array(self) -> np.ndarray:
        """Refused, as for all of them."""
        return np.asarray(self._records.array())

    def carried(self, manifold: Manifold, center: np.ndarray) -> "ClassRecords":
        """The records as `move_to_origin` moves them."""
        return ClassRecords(
            self._labels, self._records.carried(manifold, center), self._code
        )


def _check_shape(labels: Any, n: int) -> None:
    if labels.shape != (n,):
        raise ParameterError(
            "y does not match the records in length or shape; each record needs one label"
        )


def _public(classes: Any) -> np.ndarray:
    """The distinct classes that a caller names, in order."""
    with suppress(TypeError, ParameterError):
        if len(found := Labels(classes, len(classes)).classes):
            return found
    raise ParameterError(
        "must be a list of distinct labels, numbers or texts: at least one, none "
        "missing",
        parameter="classes",
    )


def _places(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Each label's place among the classes, 0 where it is none of them: a function of that label alone. Texts and numbers are
    told apart by the type of an array, which no one label changes."""
    kinds = [found.dtype.kind for found in (classes, labels)]
    if "O" not in kinds and (kinds[0] in "US") != (kinds[1] in "US"):
        raise ParameterError("y and classes must both be texts, or both numbers")
    known = {each: place for place, each in enumerate(classes.tolist())}

    def place(label: Any) -> int:
        try:
            if isinstance(label, np.ndarray) and label.ndim == 0:
                label = label.item()
            return known.get(label, 0)
        except (
            Exception
        ):  # a label may be any object, and comparing it may raise anything
            return 0

    return np.fromiter(map(place, labels.tolist()), np.intp, len(labels))


def _distinct(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Classes in order, each record's place among them, and how many records each has."""
    if np.any(labels != labels):
        raise ParameterError("y has labels that are NaN")
    try:
        return np.unique(labels, return_inverse=True, return_counts=True)
    except TypeError:
        raise ParameterError(
            "y has labels of types that have no order; give numbers or texts"
        ) from None


# ---- on the workers ------------------------------------------------------------------------------------------------------


def _counted(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    classes, _, counts = _distinct(np.asarray(labels))
    return classes, counts


def _of_class(
    kernel: Callable[..., np.ndarray], code: int, block: np.ndarray, codes: np.ndarray
) -> np.ndarray:
    """The sums over one class, and how many records it has."""
    return np.append(kernel(block[codes == code]), np.count_nonzero(codes == code))


def _class_sums(
    domain: PublicBall,
    points: dict[int, np.ndarray],
    block: np.ndarray,
    codes: np.ndarray,
) -> np.ndarray:
    """For each class, one after the other: the sums over its records, and how many there are."""
    rows: list[Any] = []
    for code, x in points.items():
        records = block[codes == code]
        rows += [block_sums(domain, x, records).ravel(), [len(records)]]
    return np.concatenate(rows)


def _chosen(
    point_shape: tuple[int, ...], block: Any, codes: np.ndarray, wanted: np.ndarray
) -> list[np.ndarray]:
    """The first so many records of each class."""
    records = np.asarray(checked_block(point_shape, block, codes), dtype=np.float64)
    return [
        records[np.flatnonzero(codes == code)[:count]]
        for code, count in enumerate(wanted)
    ]


def _guesses(domain: PublicBall, chosen: list[list[np.ndarray]]) -> list[Start]:
    groups = [np.concatenate(parts) for parts in zip(*chosen, strict=True)]
    # A class has none only where y changes between readings, which the first pass finds out.
    with quiet_about_records():  # a worker has settings of its own
        return [
            start_from_sample(domain, few) if len(few) else Start(domain.center, 1.0)
            for few in groups
        ]

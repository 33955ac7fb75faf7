"""Repeated reports of one person: public cells, a memory, and a budget per day.
Every new report of a place costs ε again, and reports of one place that is visited
every day could be averaged. So a device replaces a place by the center of its public
cell, draws one permanent report for each cell, and sends that again at every visit.
What protects the traces of a person over time is in docs/theory/local.md.
"""

import copy
import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp._files import write_atomically
from curvedp.errors import BudgetExceeded, LedgerCorrupted, ParameterError
from curvedp.local.metric import MetricLaplace
from curvedp.local.spaces import Earth, read_batch

SCHEMA = "curvedp-device-ledger/1"

# Sums of decimal costs, such as three times 0.1, may exceed a budget by rounding.
_SUM_ERROR = 1e-12


@dataclass(frozen=True)
class EarthCells:
    """Public cells of about one size that cover the Earth, in rings of latitude.

    Parameters
    ----------
    size : float
        The side of a cell in kilometers.
    earth : Earth
        The Earth.

    Examples
    --------
    >>> cells = EarthCells(1.0)
    >>> cells.index([51.5007, -0.1246]) == cells.index([51.5008, -0.1247])
    True
    """

    size: float
    earth: Earth = Earth()  # noqa: RUF009 - a frozen value

    def __post_init__(self) -> None:
        """Check the size: from a meter to a quarter of the way around the Earth."""
        half_way = math.pi * self.earth.radius
        size = _validate.within("size", self.size, 1e-3, half_way / 2)
        object.__setattr__(self, "size", size)

    @property
    def _rings(self) -> int:
        """Number of rings of latitude from pole to pole, each about `size` high."""
        return max(2, round(math.pi * self.earth.radius / self.size))

    def _columns(self, ring: int) -> int:
        """Return the number of cells in a ring of latitude.

        The ring is divided so that its cells are about `size` wide at its middle; fewer
        cells fit near a pole.

        Parameters
        ----------
        ring : int
            The number of the ring, counted from 0 at the south pole.
        """
        latitude = math.pi * ((ring + 0.5) / self._rings - 0.5)
        length = 2 * math.pi * self.earth.radius * math.cos(latitude)
        return max(1, round(length / self.size))

    def index(self, place: Any) -> tuple[int, int]:
        """Return the ring and the column of a place.

        Parameters
        ----------
        place : pair of float
            Latitude and longitude in degrees. Anything else is replaced by the public place.
        """
        # Inside a list, a place of any form is read as a row; a broken one does not raise.
        (index,) = self.indices([place])
        return index

    def indices(self, places: Any) -> list[tuple[int, int]]:
        """Return the cell of every place: the numbers of its ring and of its column.

        Parameters
        ----------
        places : array or list, shape (n, 2)
            Latitudes and longitudes in degrees. Anything else is replaced by the public place.
        """
        points, _ = read_batch(self.earth, places)
        return [self._index(*place) for place in self.earth.write(points).tolist()]

    def _index(self, latitude: float, longitude: float) -> tuple[int, int]:
        """Return the cell of a valid place: the numbers of its ring and of its column.

        Parameters
        ----------
        latitude, longitude : float
            The place in degrees, in [−90, 90] and [−180, 180].
        """
        # The north pole itself belongs to the last ring.
        ring = min(int((latitude / 180 + 0.5) * self._rings), self._rings - 1)

        # A longitude of 180° is the same as −180°, hence the remainder.
        columns = self._columns(ring)
        column = int((longitude / 360 + 0.5) * columns) % columns
        return ring, column

    def center(self, index: tuple[int, int]) -> np.ndarray:
        """Return the center of a cell: latitude and longitude in degrees.

        Parameters
        ----------
        index : (int, int)
            The ring, from the south pole, and the column, from longitude −180°.
        """
        ring, column = index
        latitude = 180 * ((ring + 0.5) / self._rings - 0.5)
        longitude = 360 * ((column + 0.5) / self._columns(ring) - 0.5)
        return np.array([latitude, longitude])

    @property
    def largest_shift(self) -> float:
        """Upper bound of the distance from a place to the center of its cell, in km.

        A report is private about the center, and so misses the place by up to this much
        more than its noise. Half the diagonal of a square cell is 0.71·size; the rest is
        a margin for the rounded numbers of rings and columns, and for cells at a pole.
        """
        return 1.5 * self.size


class TraceCost(NamedTuple):
    """What reporting a trace would cost, before anything is spent.

    Attributes
    ----------
    visits : int
        How many places the trace has.
    new_cells : int
        Cells that have no permanent report yet; each costs ε.
    epsilon : float
        The cost of them all, per kilometer.
    left : float
        The rest of the day's budget.
    fits : bool
        Whether the trace can be reported today.

    Examples
    --------
    >>> import tempfile
    >>> from curvedp.local import Earth, MetricLaplace
    >>> path = Path(tempfile.mkdtemp()) / "device.json"
    >>> device = DeviceLedger(path, MetricLaplace(Earth(), 0.5), per_day=1.0)
    >>> device.cost([[51.5, -0.1], [48.9, 2.4], [51.5, -0.1]])
    TraceCost(visits=3, new_cells=2, epsilon=1.0, left=1.0, fits=True)
    """

    visits: int
    new_cells: int
    epsilon: float
    left: float
    fits: bool


class DeviceLedger:
    """The memory and the budget of one person's device, in a file on that device.

    Each public cell has one permanent report, which is drawn at the first visit and
    sent again at every later one: an attacker who averages reports of a place that is
    visited every day learns no more than from the first. Every permanent report is
    charged to the budget of its day before it is drawn.

    Protected are the places, not the pattern: which visits fall in the same cell, and
    that a report is refused because its cell is new, are seen by whoever sees the
    reports (docs/theory/local.md, Theorem N6). Two places in neighboring cells are as
    far apart as the centers of their cells.

    An object that has seen entries refuses a file from which they are gone. A device
    that is switched off meanwhile cannot know: keep the file where nobody can set it back.

    The file holds the true cells. It is as private as the places, is written with mode
    0600, and must not leave the device.

    Parameters
    ----------
    path : str or Path
        The file; it is created at the first report.
    mechanism : MetricLaplace
        The mechanism that draws reports of places on the Earth.
    per_day : float
        The budget of a day, per kilometer: how many times ε new cells may cost.
    cell : float
        The side of a public cell in kilometers.

    Examples
    --------
    >>> import tempfile
    >>> from curvedp.local import Earth, MetricLaplace
    >>> path = Path(tempfile.mkdtemp()) / "device.json"
    >>> device = DeviceLedger(path, MetricLaplace(Earth(), 1.0), per_day=3.0)
    >>> home, work = [51.5007, -0.1246], [51.5153, -0.0922]
    >>> device.cost([home, work, home]).epsilon
    2.0
    >>> first, again = device.report(home), device.report(home)
    >>> bool(np.all(first == again)), device.spent()
    (True, 1.0)
    """

    def __init__(
        self,
        path: str | Path,
        mechanism: MetricLaplace,
        *,
        per_day: float,
        cell: float = 0.25,
    ) -> None:
        """Read the file if it exists, and check that its terms are these."""
        if not isinstance(mechanism.space, Earth):
            raise ParameterError(
                "must be MetricLaplace on Earth()",
                parameter="mechanism",
                value=mechanism,
            )
        # Two names of one file would be two memories after the first write.
        self.path = Path(path).resolve()
        self.mechanism = mechanism
        self.per_day = _validate.positive("per_day", per_day)
        self.cells = EarthCells(cell, mechanism.space)
        self._terms = {
            "schema": SCHEMA,
            "epsilon": mechanism.epsilon,
            "radius": mechanism.space.radius,
            "per_day": self.per_day,
            "cell": self.cells.size,
        }
        self._seen: list[dict[str, Any]] = []
        self._load()

    def cost(self, trace: Any, *, day: date | None = None) -> TraceCost:
        """Return the cost of reporting a trace; nothing is spent or drawn.

        Parameters
        ----------
        trace : array, shape (n, 2)
            Places in degrees.
        day : date, optional
            The day whose budget would be charged; today in UTC by default.

        Returns
        -------
        TraceCost
            The number of cells without a permanent report, their cost, and whether the
            day's budget allows for it.
        """
        entries = self._load()
        known = {tuple(entry["cell"]) for entry in entries if entry["report"]}
        visits = self.cells.indices(trace)
        new = set(visits) - known
        epsilon = len(new) * self.mechanism.epsilon
        left = self.left(day)
        fits = epsilon <= left * (1 + _SUM_ERROR)
        return TraceCost(len(visits), len(new), epsilon, left, fits)

    def report(self, place: Any, *, day: date | None = None) -> np.ndarray:
        """Return the permanent report of a place's cell; a new one is charged first.

        Parameters
        ----------
        place : pair of float
            Latitude and longitude in degrees.
        day : date, optional
            The day that is charged; today in UTC by default.

        Raises
        ------
        BudgetExceeded
            If the cell is new and the day's budget does not allow for it. Nothing is
            drawn then.
        LedgerCorrupted
            If the file is not a ledger, or was deleted or set back under this object.
        ParameterError
            If `day` is not a date.
        """
        charged_day = _charged_day(day).isoformat()
        index = self.cells.index(place)
        with _locked(self.path):
            entries = self._load()
            for entry in entries:
                if tuple(entry["cell"]) == index and entry["report"]:
                    return np.array(entry["report"])
            spent = _spent(entries, charged_day)
            if spent + self.mechanism.epsilon > self.per_day * (1 + _SUM_ERROR):
                raise BudgetExceeded(
                    f"a report of a new place costs {self.mechanism.epsilon:g} per km, "
                    f"and {max(self.per_day - spent, 0.0):g} of {self.per_day:g} is left "
                    f"today; nothing was drawn"
                )
            entry = {
                "day": charged_day,
                "cell": list(index),
                "epsilon": self.mechanism.epsilon,
                "report": None,
            }
            # The charge is on disk before the report exists: a crash in between costs
            # the budget and not the privacy.
            self._save([*entries, entry])
            report = self.mechanism.randomize(self.cells.center(index))
            entry["report"] = report.tolist()
            self._save([*entries, entry])
        return report

    def spent(self, day: date | None = None) -> float:
        """Return the ε that the new cells of a day have cost, per kilometer.

        Parameters
        ----------
        day : date, optional
            The day of the charges; today in UTC by default.
        """
        return _spent(self._load(), _charged_day(day).isoformat())

    def left(self, day: date | None = None) -> float:
        """Return the rest of a day's budget of ε, per kilometer.

        Parameters
        ----------
        day : date, optional
            The day of the budget; today in UTC by default.
        """
        return max(self.per_day - self.spent(day), 0.0)

    @property
    def total(self) -> float:
        """The ε that all permanent reports have cost together, per kilometer."""
        costs = [entry["epsilon"] for entry in self._load()]
        return math.fsum(costs)

    def _load(self) -> list[dict[str, Any]]:
        """Return the entries of the file, which must begin with those seen before.

        Raises
        ------
        LedgerCorrupted
            If the file is not a device ledger, has a second name, or lacks entries that
            this object has seen: it was deleted, or an older copy was put back.
        ParameterError
            If its terms differ from this object's.
        """
        # Taken before the file is read: another thread may add entries meanwhile.
        seen = self._seen
        entries = self._read_file() if self.path.exists() else []
        if not _extends(entries, seen):
            raise LedgerCorrupted(
                f"{self.path} was deleted or set back: entries that were there are gone. "
                "Nothing was drawn"
            )
        if len(entries) >= len(self._seen):
            self._seen = copy.deepcopy(entries)
        return entries

    def _read_file(self) -> list[dict[str, Any]]:
        """Parse the file and return its entries, after checks of form and terms.

        Returns
        -------
        list of dict
            One for each permanent report, in the order of the charges: the day, the
            cell, the cost ε and the report.

        Raises
        ------
        LedgerCorrupted
            If the file is not a device ledger, or has a second name.
        ParameterError
            If its ε, radius, budget or cell size differ from this object's.
        """
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            entries = content.pop("entries")
            is_valid = isinstance(entries, list) and all(map(_is_entry, entries))
            n_names = self.path.stat().st_nlink
        except (
            OSError,
            ValueError,
            KeyError,
            AttributeError,
            TypeError,
            RecursionError,
        ):
            raise LedgerCorrupted(f"{self.path} is not a device ledger") from None
        if not is_valid:
            raise LedgerCorrupted(f"{self.path} is not a device ledger")
        # A write replaces the file under one name. Another name would keep the old
        # entries, and the same cell could be reported afresh from it.
        if n_names > 1:
            raise LedgerCorrupted(
                f"{self.path} has {n_names} names (hard links), and only one of them would "
                "remember the next report; delete the others"
            )
        if content != self._terms:
            raise ParameterError(
                f"{self.path} was made with another epsilon, cell or budget; those of a "
                "device do not change"
            )
        return list(entries)

    def _save(self, entries: Sequence[dict[str, Any]]) -> None:
        """Replace the file by one with these entries, readable by its owner alone.

        Parameters
        ----------
        entries : sequence of dict
            All entries, old and new, in the order of the charges.
        """
        text = json.dumps({**self._terms, "entries": list(entries)}) + "\n"
        write_atomically(self.path, text, mode=0o600)
        self._seen = copy.deepcopy(list(entries))


def _is_entry(entry: Any) -> bool:
    """Return whether a JSON value is an entry of a device ledger.

    Parameters
    ----------
    entry : JSON value
        Valid is an object with the day as text, the cell as ring and column, a finite
        cost ε > 0, and the report as latitude and longitude, or null before it is drawn.
    """
    if not isinstance(entry, dict):
        return False
    if set(entry) != {"day", "cell", "epsilon", "report"}:
        return False
    has_cell = _is_pair_of(int, entry["cell"])
    has_report = entry["report"] is None or _is_pair_of(float, entry["report"])
    cost = entry["epsilon"]
    has_cost = type(cost) is float and 0 < cost < math.inf
    return has_cell and has_cost and has_report and isinstance(entry["day"], str)


def _is_pair_of(number_type: type, value: Any) -> bool:
    """Return whether a JSON value is a list of two numbers of a type.

    Parameters
    ----------
    number_type : type
        `int` or `float`.
    value : JSON value
        Anything.
    """
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(type(number) is number_type for number in value)


def _extends(entries: Sequence[dict[str, Any]], seen: Sequence[dict[str, Any]]) -> bool:
    """Return whether the entries of a ledger begin with those that were seen before.

    If not, the file was deleted or replaced by an old copy. Then charges are forgotten,
    and a cell could get a second report that is averaged with the first.

    Parameters
    ----------
    entries : sequence of dict
        The entries of the file now.
    seen : sequence of dict
        Its entries at an earlier time. They must come first in `entries`, in the same
        order; one without a report may have a report by now.
    """
    if len(entries) < len(seen):
        return False
    for entry, seen_entry in zip(entries, seen, strict=False):
        is_same_charge = all(
            entry[name] == seen_entry[name] for name in ("day", "cell", "epsilon")
        )
        is_same_report = seen_entry["report"] in (None, entry["report"])
        if not (is_same_charge and is_same_report):
            return False
    return True


def _spent(entries: Sequence[dict[str, Any]], day: str) -> float:
    """Return the total ε that new cells have cost on one day, per kilometer.

    Parameters
    ----------
    entries : sequence of dict
        All entries of the ledger.
    day : str
        The day in ISO 8601, such as "2025-03-01".
    """
    costs = [entry["epsilon"] for entry in entries if entry["day"] == day]
    return math.fsum(costs)


def _charged_day(day: date | None) -> date:
    """Return the day whose budget is charged: the given one, or today in UTC.

    Parameters
    ----------
    day : date or None
        A `datetime` is refused: every second of a day would have a budget of its own.

    Raises
    ------
    ParameterError
        If `day` is neither None nor a plain date.
    """
    if day is None:
        return datetime.now(UTC).date()
    if isinstance(day, datetime) or not isinstance(day, date):
        raise ParameterError(
            "must be a datetime.date (of a datetime take .date())",
            parameter="day",
            value=day,
        )
    return day


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time charge the file, where the system has file locks.

    Parameters
    ----------
    path : Path
        The ledger. The lock is a file beside it, since the ledger itself is replaced at
        every write.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    lock = path.with_name(path.name + ".lock")
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

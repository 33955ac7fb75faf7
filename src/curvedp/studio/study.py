"""What is chosen on the page, and the calls of curvedp that it stands for: the ones that its script makes."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from curvedp.checking import Checked, check
from curvedp.errors import ParameterError
from curvedp.estimators import PrivateFrechetMean
from curvedp.geometry import Manifold, parse_manifold
from curvedp.ledger import Ledger
from curvedp.planning import Plan, plan
from curvedp.privacy import GDP, ApproxDP, Guarantee, PureDP
from curvedp.records import read_column, read_records

_KINDS: dict[str, Any] = {"gdp": (GDP, "mu"), "approx": (ApproxDP, "eps", "delta"), "pure": (PureDP, "eps")}


def guarantee_of(chosen: Any) -> Guarantee:
    """The guarantee of a page's {"kind": "approx", "eps": 1.0, "delta": 1e-6}."""
    try:
        kind, *names = _KINDS[chosen["kind"]]
        guarantee: Guarantee = kind(*(float(chosen[name]) for name in names))
    except (KeyError, TypeError):
        raise ParameterError(f"a guarantee has a kind, one of {', '.join(_KINDS)}, and its numbers") from None
    return guarantee


@dataclass(frozen=True)
class Study:
    """One release as it is asked for.

    Attributes
    ----------
    manifold : str
        Its name, such as "spd-affine:3".
    radius : float or "private"
        Of the public ball.
    guarantee : Guarantee
        What is asked for.
    groups : str
        The column that says whose record each is; empty where the unit is a record.
    form, header, columns, key, sep
        How the file is read, as of `read_records`.
    """

    manifold: str
    radius: float | str = 1.0
    guarantee: Guarantee = GDP(1.0)  # noqa: RUF009 - a frozen value, safe as a default
    groups: str = ""
    form: str | None = None
    header: bool | None = None
    columns: str = ""
    key: str | None = None
    sep: str | None = None

    @classmethod
    def of(cls, chosen: Any) -> "Study":
        """From what the page sends.

        Raises
        ------
        ParameterError
            For a field that is missing, unknown or of another kind.
        """
        kinds: dict[str, Any] = dict.fromkeys((field.name for field in fields(cls)), str)
        kinds |= {"radius": (str, float, int), "guarantee": Mapping, "header": bool}
        if not isinstance(chosen, Mapping) or not {"manifold"} <= set(chosen) <= set(kinds):
            raise ParameterError("the page sent other fields than a study has: load it again")
        given: dict[str, Any] = {name: value for name, value in chosen.items() if value not in ("", None)}
        if not all(isinstance(value, kinds[name]) for name, value in given.items()) or "manifold" not in given:
            raise ParameterError("say what a record is: choose a space, such as spd-affine:3")
        if "guarantee" in given:
            given["guarantee"] = guarantee_of(given["guarantee"])
        return cls(**given)

    @property
    def space(self) -> Manifold:
        """Where the records live."""
        return parse_manifold(self.manifold)

    @property
    def unit(self) -> str:
        """Whose data are protected."""
        return "person" if self.groups else "record"

    @property
    def reading(self) -> dict[str, Any]:
        """How the file is read, as `read_records` takes it; what is not chosen is left out."""
        chosen = {name: getattr(self, name) for name in ("form", "header", "key", "sep")}
        chosen["columns"] = [_place(each.strip()) for each in self.columns.split(",")] if self.columns else None
        return {name: value for name, value in chosen.items() if value is not None}

    def records(self, data: Path) -> tuple[Any, np.ndarray | None]:
        """The records and, where the unit is a person, whose each is."""
        reading = json.dumps(self.reading)
        return _read(self.manifold, reading, self.groups, data, data.stat().st_mtime_ns)

    def check(self, data: Path) -> Checked:
        """`curvedp.check`: NOT private."""
        records, persons = self.records(data)
        return check(self.space, records, radius=None if self.radius == "private" else self.radius, groups=persons)  # type: ignore[arg-type]

    def plan(self, data: Path, mechanism: str = "auto") -> Plan:
        """`curvedp.plan` for as many records, or persons, as the file has: a public number."""
        records, persons = self.records(data)
        n = len(records) if persons is None else len(np.unique(persons))
        return plan(self.space, n, self.radius, self.guarantee, mechanism=mechanism)

    def fit(self, data: Path, ledger: Ledger, label: str) -> PrivateFrechetMean:
        """The release: what `script` does."""
        records, persons = self.records(data)
        mean = PrivateFrechetMean(self.space, self.radius, guarantee=self.guarantee, ledger=ledger, label=label)
        return mean.fit(records, groups=persons)

    def script(self, data: str, ledger: str, label: str) -> str:
        """Python that makes this release, in cells."""
        reading = "".join(f", {name}={value!r}" for name, value in self.reading.items())
        column = {name: value for name, value in self.reading.items() if name in ("header", "sep")}
        groups = f"read_column(data, {_place(self.groups)!r}{''.join(f', {k}={v!r}' for k, v in column.items())})"
        return _SCRIPT.format(
            data=data,
            ledger=ledger,
            label=label,
            reading=reading,
            groups=groups if self.groups else None,
            given=self,
            guarantee=repr(self.guarantee),
            kind=type(self.guarantee).__name__,
        )

    def key_at(self, data: Path, head: str) -> str:
        """What makes a release this one: the choices, the file as it is, and the ledger's last entry before it."""
        return json.dumps([asdict(self), str(data), data.stat().st_mtime_ns, head], default=str, sort_keys=True)


_SCRIPT = """\
# What curvedp studio did. Running it AGAIN is another release, with new noise, and spends from the ledger again.
from curvedp import {kind}, Ledger, PrivateFrechetMean, check, plan
from curvedp.geometry import parse_manifold
from curvedp.records import read_column, read_records
from curvedp.report import write_report

data = {data!r}
manifold = parse_manifold({given.manifold!r})
records = read_records(data, manifold{reading})
groups = {groups}

# %% NOT private: for those who may see the records
print(check(manifold, records, groups=groups))

# %% Public: no record is used, only how many there are
n = len(records) if groups is None else len(set(groups.tolist()))
print(plan(manifold, n, {given.radius!r}, {guarantee}))

# %% Paid for: may be published
ledger = Ledger({ledger!r})
mean = PrivateFrechetMean(manifold, {given.radius!r}, guarantee={guarantee}, ledger=ledger, label={label!r})
mean.fit(records, groups=groups)
print(mean.location_)
mean.certificate_.save("certificate.json")
write_report("report.html", mean)
"""


def notebook(script: str) -> str:
    """The script as a Jupyter notebook, a cell for each of its parts."""
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "id": f"cell-{i}", "metadata": {}, "execution_count": None, "outputs": [], "source": part}
        for i, part in enumerate(script.strip().split("\n\n# %% "))
    ]
    for cell in cells[1:]:
        cell["source"] = f"# {cell['source']}"
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def _place(name: str) -> str | int:
    return int(name) if name.isdigit() else name


@lru_cache(maxsize=2)  # a file is read once, not at every move of a slider
def _read(manifold: str, reading: str, groups: str, data: Path, changed: int) -> tuple[Any, np.ndarray | None]:
    choices = json.loads(reading)
    column = {name: value for name, value in choices.items() if name in ("header", "sep")}
    persons = read_column(data, _place(groups), **column) if groups else None
    return read_records(data, parse_manifold(manifold), **choices), persons

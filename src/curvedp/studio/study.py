"""What is chosen on the page, and the calls of curvedp that it stands for: the ones that its script makes."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from curvedp.checking import Checked, check
from curvedp.errors import ParameterError
from curvedp.geometry import Manifold, parse_manifold
from curvedp.ledger import Ledger
from curvedp.privacy import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from curvedp.records import read_column, read_records
from curvedp.records.files import written_point
from curvedp.releasing import Offer, find_offer, parse_column

KINDS: dict[str, Any] = {
    "gdp": (GDP, "mu"),
    "approx": (ApproxDP, "eps", "delta"),
    "pure": (PureDP, "eps"),
    "zcdp": (ZCDP, "rho"),
}


def guarantee_of(chosen: Any) -> Guarantee:
    """The guarantee of a page's {"kind": "approx", "eps": 1.0, "delta": 1e-6}."""
    try:
        kind, *names = KINDS[chosen["kind"]]
        guarantee: Guarantee = kind(*(float(chosen[name]) for name in names))
    except (KeyError, TypeError):
        raise ParameterError(
            f"a guarantee has a kind, one of {', '.join(KINDS)}, and its numbers"
        ) from None
    return guarantee


@dataclass(frozen=True)
class Study:
    """One release as it is asked for: parameters of the estimator, of `read_records`, and of what is told below."""

    manifold: str  # its name, such as "spd-affine:3"
    statistic: str = "mean"  # one of `curvedp.releasing.OFFERS`
    radius: float | str | None = None
    guarantee: Guarantee = GDP(1.0)  # noqa: RUF009 - a frozen value, safe as a default
    groups: str = ""  # the column that says whose record each is; empty where the unit is a record
    column: str = ""  # the one that the statistic takes beside the records: classes or a predictor
    center: str = ""  # of the ball, written like a record, or one number that multiplies the origin: a unit of matrices
    outer_radius: float | None = None
    spread: float | None = None  # for predictions of a private ball; not released
    n_components: int | None = None
    speed: float | None = None
    clip: float | None = None
    x_range: str | None = None
    form: str | None = None
    header: bool | None = None
    columns: str = ""
    key: str | None = None
    sep: str | None = None
    decimal: str = "."

    @classmethod
    def of(cls, chosen: Any) -> "Study":
        """From what the page sends; refused for a field that is missing, unknown or of another kind."""
        kinds: dict[str, Any] = dict.fromkeys(
            (field.name for field in fields(cls)), str
        )
        kinds |= dict.fromkeys(
            ("outer_radius", "spread", "speed", "clip"), (float, int)
        ) | {"n_components": int}
        kinds |= {"radius": (str, float, int), "guarantee": Mapping, "header": bool}
        if not isinstance(chosen, Mapping) or not {"manifold"} <= set(chosen) <= set(
            kinds
        ):
            raise ParameterError(
                "the page sent other fields than a study has: load it again"
            )
        given: dict[str, Any] = {
            name: value for name, value in chosen.items() if value not in ("", None)
        }
        if "manifold" not in given:
            raise ParameterError(
                "say what a record is: choose a space, such as spd-affine:3"
            )
        for name in (
            name for name, value in given.items() if not isinstance(value, kinds[name])
        ):
            raise ParameterError(
                f"{name} is not of the kind it should be: {str(given[name])[:40]!r}"
            )
        if "guarantee" in given:
            given["guarantee"] = guarantee_of(given["guarantee"])
        return cls(**given)

    @property
    def offer(self) -> Offer:
        """What is released."""
        return find_offer(self.statistic)

    @property
    def options(self) -> dict[str, Any]:
        """What the estimator is given."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**given, "manifold": self.space, "center": self.middle}

    @property
    def middle(self) -> list[Any] | None:
        """The ball's center as a point's entries; None for the origin."""
        return (
            written_point(self.center, self.space, self.form).tolist()
            if self.center
            else None
        )

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
        chosen = {
            name: getattr(self, name) for name in ("form", "header", "key", "sep")
        }
        chosen["decimal"] = self.decimal if self.decimal != "." else None
        chosen["columns"] = (
            [parse_column(each.strip()) for each in self.columns.split(",")]
            if self.columns
            else None
        )
        return {name: value for name, value in chosen.items() if value is not None}

    @property
    def beside(self) -> dict[str, str]:
        """The columns that are read with the records, by what they are."""
        return {
            "groups": self.groups,
            **({self.offer.column: self.column} if self.offer.column else {}),
        }

    def columns_of(self, data: Path) -> dict[str, Any]:
        """The records, and what is read beside them."""
        changed, kept = data.stat().st_mtime_ns, self._kept
        found = {
            name: _column(json.dumps(kept(name)), each, data, changed)
            for name, each in self.beside.items()
        }
        self.offer.check_columns(found)
        return {
            "records": _records(self.manifold, json.dumps(self.reading), data, changed),
            **found,
        }

    def _kept(self, name: str) -> dict[str, Any]:
        """How a column beside the records is read; a decimal sign is for numbers alone."""
        known = ("header", "sep", "decimal") if name == "x" else ("header", "sep")
        return {each: value for each, value in self.reading.items() if each in known}

    def sizes(self, data: Path) -> list[int]:
        """How many records, or persons, there are; of a classifier in each class. Public numbers."""
        held = self.columns_of(data)
        persons, labels = held["groups"], held.get("labels")
        if labels is None:
            return [
                len(held["records"]) if persons is None else len(np.unique(persons))
            ]
        rows = range(len(labels)) if persons is None else persons.tolist()
        return list(
            Counter(
                label for label, _ in set(zip(labels.tolist(), rows, strict=True))
            ).values()
        )

    def check(self, data: Path) -> Checked:
        """`curvedp.check`: NOT private."""
        held = self.columns_of(data)
        radius = None if isinstance(self.radius, str) else self.radius
        return check(
            self.space,
            held["records"],
            center=self.middle,
            radius=radius,
            groups=held["groups"],
        )

    def fit(self, data: Path, ledger: Ledger, label: str) -> Any:
        """The release: what `script` does."""
        model = self.offer.build(
            self.options, guarantee=self.guarantee, ledger=ledger, label=label
        )
        return self.offer.fit(model, self.columns_of(data))

    def script(self, data: str, ledger: str, label: str) -> str:
        """Python that makes this release, in cells."""
        read = {
            name: f"read_column(data, {_named({'': parse_column(each), **self._kept(name)})})"
            if each
            else "None"
            for name, each in self.beside.items()
        }
        options = {
            **self.offer.select_options(self.options),
            "guarantee": self.guarantee,
        }
        return _SCRIPT.format(
            data=data,
            ledger=ledger,
            label=label,
            given=self,
            reading="".join(
                f", {name}={value!r}" for name, value in self.reading.items()
            ),
            columns="\n".join(f"{name} = {how}" for name, how in read.items()),
            kind=type(self.guarantee).__name__,
            estimator=self.offer.estimator,
            options=_named(options).replace(repr(self.space), "manifold", 1),
            takes=", ".join(self.offer.fit_arguments),
        )

    def key_at(self, data: Path, head: str) -> str:
        """What makes a release this one: the choices, the file as it is, and the ledger's last entry before it."""
        return json.dumps(
            [asdict(self), str(data), data.stat().st_mtime_ns, head],
            default=str,
            sort_keys=True,
        )


_SCRIPT = """\
# What curvedp studio did. Running it AGAIN is another release, with new noise, and spends from the ledger again.
from pathlib import Path

from curvedp import {kind}, Ledger, {estimator}, check
from curvedp.geometry import Manifold, parse_manifold
from curvedp.records import read_column, read_records
from curvedp.releasing import write

data = {data!r}
manifold = parse_manifold({given.manifold!r})
records = read_records(data, manifold{reading})
{columns}

# %% NOT private: for those who may see the records
print(check(manifold, records, groups=groups))

# %% Paid for: may be published
ledger = Ledger({ledger!r})
model = {estimator}({options}, ledger=ledger, label={label!r})
model.fit({takes}, groups=groups)
write(model, Path("value.csv"), Path("certificate.json"), Path("report.html"))
"""


def notebook(script: str) -> str:
    """The script as a Jupyter notebook, a cell for each of its parts."""
    cells: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "id": f"cell-{i}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": part,
        }
        for i, part in enumerate(script.strip().split("\n\n# %% "))
    ]
    for cell in cells[1:]:
        cell["source"] = f"# {cell['source']}"
    kernel = {
        "kernelspec": {
            "display_name": "Python 3",
            "language": "python",
            "name": "python3",
        }
    }
    return json.dumps(
        {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5},
        indent=1,
    )


def _named(options: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={value!r}" if name else repr(value) for name, value in options.items()
    )


@lru_cache(maxsize=2)  # a file is read once, not at every move of a slider
def _records(manifold: str, reading: str, data: Path, changed: int) -> Any:
    return read_records(data, parse_manifold(manifold), **json.loads(reading))


@lru_cache(maxsize=4)
def _column(reading: str, column: str, data: Path, changed: int) -> Any:
    return (
        read_column(data, parse_column(column), **json.loads(reading))
        if column
        else None
    )

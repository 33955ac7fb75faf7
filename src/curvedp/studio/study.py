"""A study: what the user chose on the page of the studio, and the release it describes.

A `Study` reads the file, checks the records, makes the release, and writes a script
that makes the same release without the studio.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from curvedp.checking import Checked, check
from curvedp.errors import ParameterError
from curvedp.estimators.base import PrivateEstimator
from curvedp.geometry import Manifold, parse_manifold
from curvedp.ledger import Ledger
from curvedp.privacy import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from curvedp.records import read_column, read_records
from curvedp.records.files import parse_point_text
from curvedp.releasing import Offer, Option, all_offers, find_offer, parse_column

# The guarantees on the page by name: the class, and the names of its numbers.
_GUARANTEES: dict[str, tuple[type[Guarantee], tuple[str, ...]]] = {
    "gdp": (GDP, ("mu",)),
    "approx": (ApproxDP, ("eps", "delta")),
    "pure": (PureDP, ("eps",)),
    "zcdp": (ZCDP, ("rho",)),
}

# The types of those fields of a study that are not text.
_FIELD_TYPES: dict[str, Any] = {
    "guarantee": Mapping,
    "header": bool,
    "spread": (float, int),
    "skip": int,
}


def parse_guarantee(page_values: Any) -> Guarantee:
    """Return the guarantee that the page sent.

    Parameters
    ----------
    page_values : mapping
        The kind and its numbers, such as {"kind": "approx", "eps": 1.0, "delta": 1e-6}.

    Returns
    -------
    Guarantee
        Such as `ApproxDP(1.0, 1e-6)`.

    Raises
    ------
    ParameterError
        If the kind is unknown, or a number is missing or not allowed.
    """
    try:
        guarantee_class, number_names = _GUARANTEES[page_values["kind"]]
        numbers = [float(page_values[name]) for name in number_names]
    except (KeyError, TypeError):
        raise ParameterError(
            f"a guarantee has a kind, one of {', '.join(_GUARANTEES)}, and its numbers"
        ) from None
    return guarantee_class(*numbers)


@dataclass(frozen=True)
class Study:
    """One release, as it was chosen on the page.

    Attributes
    ----------
    manifold : str
        The name of the space, such as "spd-affine:3".
    statistic : str
        A name in the table of `curvedp.releasing`.
    typed_options : dict
        What was typed for the options of the statistic, by name, before it is parsed.
    guarantee : Guarantee
        What the release pays.
    groups : str
        The column that says whose record each is; empty if the unit is a record.
    column : str
        The column that the statistic needs beside the records, if it needs one.
    spread : float, optional
        The spread of the records, for predictions in a private ball. It is public.
    form, header, columns, key, sep, decimal, skip, encoding
        How the file is read; see `read_records`. `columns` has commas between them.
    """

    manifold: str
    statistic: str = "mean"
    typed_options: dict[str, Any] = field(default_factory=dict)
    guarantee: Guarantee = GDP(1.0)  # noqa: RUF009 - a frozen value, safe as a default
    groups: str = ""
    column: str = ""
    spread: float | None = None
    form: str | None = None
    header: bool | None = None
    columns: str = ""
    key: str | None = None
    sep: str | None = None
    decimal: str = "."
    skip: int = 0
    encoding: str = "utf-8"

    @classmethod
    def from_page(cls, page_values: Any) -> "Study":
        """Return the study that the page sent.

        Parameters
        ----------
        page_values : mapping
            Fields of a study and options of its statistic, all by name. Empty texts and
            None stand for what was left out.

        Returns
        -------
        Study
            The study; the options of its statistic are checked for their types only.

        Raises
        ------
        ParameterError
            If a name is unknown, a value has the wrong type, or there is no manifold.
        """
        if not isinstance(page_values, Mapping) or "manifold" not in page_values:
            raise ParameterError(_UNKNOWN_FIELDS)
        filled_in = {
            name: value
            for name, value in page_values.items()
            if value not in ("", None)
        }
        if "manifold" not in filled_in:
            raise ParameterError(
                "say what a record is: choose a space, such as spd-affine:3"
            )

        options = _options_on_page(filled_in.get("statistic", "mean"))
        field_names = {field.name for field in fields(cls)} - {"typed_options"}
        if not set(page_values) <= field_names | set(options):
            raise ParameterError(_UNKNOWN_FIELDS)

        typed_options = {}
        study_fields = {}
        for name, value in filled_in.items():
            if name in options:
                has_right_type = options[name].accepts_type(value)
                typed_options[name] = value
            else:
                has_right_type = isinstance(value, _FIELD_TYPES.get(name, str))
                study_fields[name] = value
            if not has_right_type:
                raise ParameterError(
                    f"{name} is not of the kind it should be: {str(value)[:40]!r}"
                )
        if "guarantee" in study_fields:
            study_fields["guarantee"] = parse_guarantee(study_fields["guarantee"])
        return cls(typed_options=typed_options, **study_fields)

    @property
    def offer(self) -> Offer:
        """The statistic's entry in the table of `curvedp.releasing`."""
        return find_offer(self.statistic)

    @property
    def space(self) -> Manifold:
        """The manifold of the records, made from its name."""
        return parse_manifold(self.manifold)

    @property
    def unit(self) -> str:
        """Whose data are protected: "person" or "record"."""
        return "person" if self.groups else "record"

    def options(self) -> dict[str, Any]:
        """Return the manifold and the parsed options of the statistic, by name.

        Raises
        ------
        ParameterError
            If a required option is missing, or one cannot be parsed.
        """
        parsed_options = self.offer.parse_options(self.typed_options, self._read_point)
        return {**parsed_options, "manifold": self.space}

    def center(self) -> list[Any] | None:
        """Return the center of the public ball as it was typed.

        Returns
        -------
        list or None
            The point as nested lists of numbers; None stands for the manifold's origin.
        """
        text = self.typed_options.get("center")
        return None if text is None else self._read_point(text)

    def _read_point(self, text: str) -> list[Any]:
        """Return a point that was typed like a record, as nested lists of numbers.

        Parameters
        ----------
        text : str
            The point as it was typed, in the form of the records.

        Returns
        -------
        list
            Nested lists, which a script can show.
        """
        point: list[Any] = parse_point_text(text, self.space, self.form).tolist()
        return point

    def reading(self) -> dict[str, Any]:
        """Return how the file is read, as arguments of `read_records`.

        Arguments that have their default are left out.

        Returns
        -------
        dict
            Such as {"form": "latlon-degrees", "header": True}.
        """
        arguments: dict[str, Any] = {
            "form": self.form,
            "header": self.header,
            "key": self.key,
            "sep": self.sep,
        }
        if self.decimal != ".":
            arguments["decimal"] = self.decimal
        if self.skip:
            arguments["skip"] = self.skip
        if self.encoding != "utf-8":
            arguments["encoding"] = self.encoding
        if self.columns:
            column_names = self.columns.split(",")
            arguments["columns"] = [parse_column(name.strip()) for name in column_names]
        elif self.header:
            others = [name for name in self._chosen_columns().values() if name]
            if others:
                arguments["other_columns"] = [parse_column(name) for name in others]
        return {name: value for name, value in arguments.items() if value is not None}

    def _column_reading(self, column_name: str) -> dict[str, Any]:
        """Return how a column beside the records is read, for `read_column`.

        Parameters
        ----------
        column_name : str
            What the column is for: "groups", or the name of the statistic's column.

        Returns
        -------
        dict
            Some of the arguments that `reading` returns.
        """
        names = ["header", "sep", "skip", "encoding"]
        column = self.offer.column
        if column is not None and column.name == column_name and column.holds_numbers:
            names.append("decimal")
        return {name: value for name, value in self.reading().items() if name in names}

    def _chosen_columns(self) -> dict[str, str]:
        """Return the columns beside the records as they were typed, by their purpose.

        A column that was not chosen is an empty text.
        """
        chosen_columns = {"groups": self.groups}
        if self.offer.column is not None:
            chosen_columns[self.offer.column.name] = self.column
        return chosen_columns

    def read_columns(self, data: Path) -> dict[str, Any]:
        """Read the file: the records, and the columns beside them.

        Parameters
        ----------
        data : Path
            The file with the records.

        Returns
        -------
        dict
            The records as "records", the people as "groups" (None if the unit is a
            record), and the statistic's own column by its name.

        Raises
        ------
        ParameterError
            If the statistic needs a column that was not chosen, or the file cannot be
            read in this way.
        """
        modified = data.stat().st_mtime_ns
        columns = {}
        for name, typed_column in self._chosen_columns().items():
            reading = json.dumps(self._column_reading(name))
            columns[name] = _read_column_once(reading, typed_column, data, modified)
        self.offer.check_columns(columns)

        reading = json.dumps(self.reading())
        records = _read_records_once(self.manifold, reading, data, modified)
        return {"records": records, **columns}

    def sizes(self, data: Path) -> list[int]:
        """Count the records, or the people if they are the unit; of each class if any.

        Parameters
        ----------
        data : Path
            The file with the records.

        Returns
        -------
        list of int
            One number, or one for each class. These numbers are public.
        """
        columns = self.read_columns(data)
        labels = None
        column = self.offer.column
        if column is not None and column.holds_classes:
            labels = columns[column.name]

        # The unit of privacy that each record belongs to: a person, or itself.
        units = columns["groups"]
        if units is None:
            units = np.arange(len(columns["records"]))
        if labels is None:
            return [len(np.unique(units))]

        if column is not None and column.classes_are_private:
            # Only the number of units and the set of classes are public.
            return _even_sizes(len(np.unique(units)), len(set(labels.tolist())))

        # A person with records of several classes counts in each of them.
        units_by_label: dict[Any, set[Any]] = {}
        for label, unit in zip(labels.tolist(), units.tolist(), strict=True):
            units_by_label.setdefault(label, set()).add(unit)
        return [len(units_of_label) for units_of_label in units_by_label.values()]

    def check(self, data: Path) -> Checked:
        """Return what is wrong with the records. NOT private: see `curvedp.check`.

        Parameters
        ----------
        data : Path
            The file with the records.

        Returns
        -------
        Checked
            Facts and advice for those who may see the records.
        """
        columns = self.read_columns(data)
        radius = self.typed_options.get("radius")
        return check(
            self.space,
            columns["records"],
            center=self.center(),
            radius=None if isinstance(radius, str) else radius,
            groups=columns["groups"],
        )

    def fit(self, data: Path, ledger: Ledger, label: str) -> PrivateEstimator:
        """Make the release, as the script does. Charges `ledger`.

        Parameters
        ----------
        data : path
            The file with the records.
        ledger : Ledger
            What the release is paid from.
        label : str
            What the ledger calls the release.

        Returns
        -------
        PrivateEstimator
            The fitted estimator, which has the released values.
        """
        estimator = self.offer.build(
            self.options(), guarantee=self.guarantee, ledger=ledger, label=label
        )
        return self.offer.fit(estimator, self.read_columns(data))

    def script(
        self, data: str, ledger: str, label: str, ledger_key: str | None = None
    ) -> str:
        """Return Python source that makes this release, in cells.

        Parameters
        ----------
        data, ledger : str
            The names of the file with the records and of the ledger's file.
        label : str
            What the ledger calls the release.
        ledger_key : str, optional
            The name of the file with the ledger's key, where it has one.

        Returns
        -------
        str
            Python source, whose cells begin with "# %%".
        """
        ledger_arguments = repr(ledger)
        if ledger_key is not None:
            ledger_arguments += f", key={ledger_key!r}"
        column_lines = []
        for name, typed_column in self._chosen_columns().items():
            source = "None"
            if typed_column:
                reading = _keyword_source(self._column_reading(name))
                source = f"read_column(data, {parse_column(typed_column)!r}{reading})"
            column_lines.append(f"{name} = {source}")

        # Files that the statistic makes besides its value.
        further_lines = ""
        if self.offer.make_files is not None:
            further_lines = _FURTHER_FILES.format(
                statistic=self.statistic, form=self.form
            )

        # The arguments of the estimator, as they are written in Python.
        options = self.offer.select_options(self.options())
        arguments = _keyword_source({**options, "guarantee": self.guarantee})
        # The script has a variable for the manifold.
        arguments = arguments.replace(repr(self.space), "manifold", 1)
        module, estimator = self.offer.import_names
        return (
            _SCRIPT.format(
                data=data,
                ledger_arguments=ledger_arguments,
                label=label,
                manifold=self.manifold,
                reading=_keyword_source(self.reading()),
                columns="\n".join(column_lines),
                guarantee_class=type(self.guarantee).__name__,
                module=module,
                estimator=estimator,
                arguments=arguments.removeprefix(", "),
                fit_arguments=", ".join(self.offer.fit_arguments),
            )
            + further_lines
        )

    def key_at(self, data: Path, head: str) -> str:
        """Return the request key of this release, which tells it from every other one.

        Two requests with one key, such as two clicks, are one release and are paid once.
        Every release appends to the ledger, and so changes the key of the next.

        Parameters
        ----------
        data : path
            The file with the records. The key changes if the file is modified.
        head : str
            The hash of the ledger's last entry before the release.

        Returns
        -------
        str
            A text that differs whenever anything about the release does.
        """
        modified = data.stat().st_mtime_ns
        release_facts = [asdict(self), str(data), modified, head]
        return json.dumps(release_facts, default=str, sort_keys=True)


def _even_sizes(n: int, n_classes: int) -> list[int]:
    """Return the sizes of classes that are as even as possible and add up to n.

    A prediction takes them where the true sizes of classes are private.

    Parameters
    ----------
    n : int
        The number of records or people.
    n_classes : int
        The number of classes.

    Returns
    -------
    list of int
        One size for each class; the first ones are larger by 1 if n is no multiple.
    """
    smaller_size, n_larger = divmod(n, n_classes)
    return [smaller_size + (index < n_larger) for index in range(n_classes)]


_UNKNOWN_FIELDS = "the page sent other fields than a study has: load it again"


def _options_on_page(statistic: Any) -> dict[str, Option]:
    """Return the options that the page may send, by name.

    The page may send options of other statistics too, which are ignored. Where several
    statistics have an option of one name, that of `statistic` counts.

    Parameters
    ----------
    statistic : object
        The name of the statistic that the page chose.

    Returns
    -------
    dict
        The declaration of each option.
    """
    offer_by_name = all_offers()
    offers = [*offer_by_name.values()]
    if isinstance(statistic, str) and statistic in offer_by_name:
        offers.append(offer_by_name[statistic])
    return {
        option.name: option
        for offer in offers
        for option in offer.options
        if option.label
    }


_SCRIPT = """\
# What curvedp studio did. Running it AGAIN is another release, with new noise, and
# spends from the ledger again.
from pathlib import Path

from curvedp import {guarantee_class}, Ledger, check
from curvedp.geometry import Manifold, parse_manifold
from curvedp.records import read_column, read_records
from curvedp.releasing import write
from {module} import {estimator}

data = {data!r}
manifold = parse_manifold({manifold!r})
records = read_records(data, manifold{reading})
{columns}

# %% NOT private: for those who may see the records
print(check(manifold, records, groups=groups))

# %% Paid for: may be published
ledger = Ledger({ledger_arguments})
model = {estimator}({arguments}, ledger=ledger, label={label!r})
model.fit({fit_arguments}, groups=groups)
write(model, Path("value.csv"), Path("certificate.json"), Path("report.html"))
"""

_FURTHER_FILES = """
# %% May be published: drawn from what was released, at no cost
from curvedp.releasing import find_offer
files = find_offer({statistic!r}).make_files(model, {form!r})
for name, content in files.items():
    Path(name).write_bytes(content)
"""

# What separates the cells of a script; the rest of the line says what a cell does.
_CELL_SEPARATOR = "\n\n# %% "


def notebook(script: str) -> str:
    """Return a script as a Jupyter notebook (JSON), with a cell for each of its parts.

    Parameters
    ----------
    script : str
        What `Study.script` returned.

    Returns
    -------
    str
        The notebook as JSON text.
    """
    first_part, *other_parts = script.strip().split(_CELL_SEPARATOR)
    sources = [first_part, *(f"# {part}" for part in other_parts)]
    cells: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": source,
        }
        for number, source in enumerate(sources)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {
        "cells": cells,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1)


def _keyword_source(arguments: Mapping[str, Any]) -> str:
    """Return keyword arguments as Python source, each with a comma before it.

    Parameters
    ----------
    arguments : mapping
        The arguments by name; their `repr` must be Python source.

    Returns
    -------
    str
        Such as ", form='xyz', header=True".
    """
    return "".join(f", {name}={value!r}" for name, value in arguments.items())


@lru_cache(maxsize=2)
def _read_records_once(manifold: str, reading: str, data: Path, modified: int) -> Any:
    """Read the records of a file, once and not at every move of a slider.

    Parameters
    ----------
    manifold : str
        The name of the space.
    reading : str
        The arguments of `read_records` as JSON, which can be the key of a cache.
    data : path
        The file.
    modified : int
        When the file was modified; a file that changed is read again.

    Returns
    -------
    array or Records
        The records, shared by all callers with the same arguments.
    """
    return read_records(data, parse_manifold(manifold), **json.loads(reading))


@lru_cache(maxsize=4)
def _read_column_once(reading: str, column: str, data: Path, modified: int) -> Any:
    """Read a column beside the records, once; None if none was chosen.

    Parameters
    ----------
    reading : str
        The arguments of `read_column` as JSON, which can be the key of a cache.
    column : str
        The column as it was typed: its name, or its place from 0; or an empty text.
    data : path
        The file.
    modified : int
        When the file was modified; a file that changed is read again.

    Returns
    -------
    array or None
        One entry for each record.
    """
    if not column:
        return None
    return read_column(data, parse_column(column), **json.loads(reading))

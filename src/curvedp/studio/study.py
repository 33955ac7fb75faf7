"""A study: what the user chose on the page of the studio, and the release it describes.
A `Study` reads the file, checks the records, makes the release, and writes a script
that makes the same release without the studio.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from curvedp.checking import RecordCheck, advise_on_decimal_sign, check
from curvedp.comparing import COMPARISONS
from curvedp.errors import ParameterError
from curvedp.estimators.base import PrivateEstimator
from curvedp.geometry import Manifold, parse_manifold
from curvedp.inference.error_bars import is_angular
from curvedp.ledger import Ledger
from curvedp.privacy import GDP, ZCDP, ApproxDP, Guarantee, PrivacyUnit, PureDP
from curvedp.records import read_column, read_records
from curvedp.records.files import parse_point_text
from curvedp.releasing import Offer, Option, parse_column
from curvedp.studio.offers import find_page_offer, page_offers
from curvedp.studio.outcome import Outcome, estimator_outcome
from curvedp.studio.rehearsal import Prediction, predict_release

# The guarantees on the page by name: the class, and the names of its numbers.
_GUARANTEES: dict[str, tuple[type[Guarantee], tuple[str, ...]]] = {
    "gdp": (GDP, ("mu",)),
    "approx": (ApproxDP, ("eps", "delta")),
    "pure": (PureDP, ("eps",)),
    "zcdp": (ZCDP, ("rho",)),
}

# The statistics whose predicted error is a distance on the manifold.
_POINT_STATISTICS = ("mean", "median", "mdm", "regression", *COMPARISONS)

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
        The typed options of the statistic, by name, before they are parsed.
    guarantee : Guarantee
        The guarantee for which the release pays.
    groups : str
        The column that says whose record each is; empty if the unit is a record.
    column : str
        The column that the statistic needs beside the records, if it needs one.
    spread : float, optional
        The spread of the records, for predictions in a private ball. It is public.
    form, header, columns, key, sep, decimal, skip, encoding
        How the file is read; see `read_records`. `columns` has commas between them.
    further_files : tuple of Path
        The files beside the first one. A comparison takes each file as a group.
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
    further_files: tuple[Path, ...] = ()

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
        field_names = {field.name for field in fields(cls)}
        field_names -= {"typed_options", "further_files"}
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
        """The statistic's entry in the table of `curvedp.studio.offers`."""
        return find_page_offer(self.statistic)

    @property
    def space(self) -> Manifold:
        """The manifold of the records, made from its name."""
        return parse_manifold(self.manifold)

    @property
    def unit(self) -> str:
        """Whose data are protected: "person" or "record"."""
        return "person" if self.groups else "record"

    @property
    def has_classes(self) -> bool:
        """Whether `sizes` counts several classes, each of which has a release."""
        return self.offer.has_classes

    @property
    def class_word(self) -> str:
        """What the page calls a class of records."""
        return "class"

    @property
    def error_is_angle(self) -> bool:
        """Whether predicted errors are angles in radians, which the page has in degrees."""
        return self.statistic in _POINT_STATISTICS and is_angular(self.space)

    @property
    def ledger_unit(self) -> PrivacyUnit | None:
        """The unit for which a new ledger counts; None leaves it to the first charge."""
        return None

    def label(self, data: Path) -> str:
        """Return the label of the release in the ledger.

        Parameters
        ----------
        data : Path
            The file with the records.
        """
        return f"{self.offer.title} of {data.name}"[:200]

    def check_ledger(self, ledger: Ledger | None) -> None:
        """Refuse a ledger that cannot pay for the chosen release, whatever it has left.

        Parameters
        ----------
        ledger : Ledger or None
            The ledger that pays for the release.
        """

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

    def reading_options(self) -> dict[str, Any]:
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

    def _reading_options_of_column(self, column_name: str) -> dict[str, Any]:
        """Return how a column beside the records is read, for `read_column`.

        Parameters
        ----------
        column_name : str
            The purpose of the column: "groups", or the name of the statistic's column.

        Returns
        -------
        dict
            Some of the arguments that `reading_options` returns.
        """
        names = ["header", "sep", "skip", "encoding"]
        column = self.offer.column
        if column is not None and column.name == column_name and column.holds_numbers:
            names.append("decimal")
        return {
            name: value
            for name, value in self.reading_options().items()
            if name in names
        }

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
        if self.further_files:
            raise ParameterError(
                f"the {self.offer.title} is of one file, and there are "
                f"{1 + len(self.further_files)}: choose one file, or a comparison of "
                "groups, in which each file is a group"
            )
        columns = self._read_file(data)
        self.offer.check_columns(columns)
        return columns

    def _read_file(self, data: Path) -> dict[str, Any]:
        """Read one file: the records, and the columns beside them.

        Parameters
        ----------
        data : Path
            The file.

        Returns
        -------
        dict
            As from `read_columns`; a column that was not chosen is None.
        """
        modified = data.stat().st_mtime_ns
        columns = {}
        for name, typed_column in self._chosen_columns().items():
            reading_options = json.dumps(self._reading_options_of_column(name))
            columns[name] = _read_column_once(
                reading_options, typed_column, data, modified
            )
        reading_options = json.dumps(self.reading_options())
        records = _read_records_once(self.manifold, reading_options, data, modified)
        return {"records": records, **columns}

    def sizes(self, data: Path) -> list[int]:
        """Count the records of each class, or the people if they are the unit.

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

    def check(self, data: Path) -> RecordCheck:
        """Check the records, and return the findings. NOT private: see `curvedp.check`.

        Parameters
        ----------
        data : Path
            The file with the records.

        Returns
        -------
        RecordCheck
            Facts and advice for those who may see the records.
        """
        files = [self._read_file(path) for path in (data, *self.further_files)]
        records = files[0]["records"]
        groups = files[0]["groups"]
        if self.further_files:
            records = np.concatenate([np.asarray(file["records"]) for file in files])
            if groups is not None:
                groups = [person for file in files for person in file["groups"]]
        radius = self.typed_options.get("radius")
        checked = check(
            self.space,
            records,
            center=self.center(),
            radius=None if isinstance(radius, str) else radius,
            groups=groups,
        )
        first_records = np.asarray(files[0]["records"])
        on_decimals = advise_on_decimal_sign(
            data, self.space, first_records, self.reading_options()
        )
        return replace(checked, advice=[*on_decimals, *checked.advice])

    def fit(self, data: Path, ledger: Ledger, label: str) -> PrivateEstimator:
        """Make the release, as the script does. Charges `ledger`.

        Parameters
        ----------
        data : path
            The file with the records.
        ledger : Ledger
            The ledger that pays for the release.
        label : str
            The label of the release in the ledger.

        Returns
        -------
        PrivateEstimator
            The fitted estimator, which has the released values.
        """
        estimator = self.offer.build(
            self.options(), guarantee=self.guarantee, ledger=ledger, label=label
        )
        return self.offer.fit(estimator, self.read_columns(data))

    def predict(self, sizes: list[int], mechanism: str = "auto") -> Prediction:
        """Predict how accurate the release would be, from public numbers alone.

        Parameters
        ----------
        sizes : list of int
            What `sizes` returned.
        mechanism : str
            One mechanism by name, which is faster than choosing among all with "auto".
        """
        options = {**self.options(), "spread": self.spread}
        return predict_release(self.offer, options, self.guarantee, sizes, mechanism)

    def release(self, data: Path, ledger: Ledger, label: str) -> Outcome:
        """Make the release, and return what the page shows of it. Charges `ledger`.

        Parameters
        ----------
        data : path
            The file with the records.
        ledger : Ledger
            The ledger that pays for the release.
        label : str
            The label of the release in the ledger.
        """
        return estimator_outcome(self, self.fit(data, ledger, label), data)

    def _column_source(self) -> str:
        """Return the lines of a script that read the columns beside the records."""
        lines = []
        for name, typed_column in self._chosen_columns().items():
            source = "None"
            if typed_column:
                reading_options = keyword_source(self._reading_options_of_column(name))
                source = f"read_column(data, {parse_column(typed_column)!r}{reading_options})"
            lines.append(f"{name} = {source}")
        return "\n".join(lines)

    def script(
        self,
        data: str,
        ledger: str,
        label: str,
        ledger_key: str | None = None,
        further_data: Sequence[str] = (),
    ) -> str:
        """Return Python source that makes this release, in cells.

        Parameters
        ----------
        data, ledger : str
            The names of the file with the records and of the ledger's file.
        label : str
            The label of the release in the ledger.
        ledger_key : str, optional
            The name of the file with the ledger's key, where it has one.
        further_data : sequence of str
            The names of the files beside the first one, which comparisons have.

        Returns
        -------
        str
            Python source, whose cells begin with "# %%".
        """
        # Files that the statistic makes besides its value.
        further_lines = ""
        if self.offer.make_files is not None:
            further_lines = _FURTHER_FILES.format(
                statistic=self.statistic, form=self.form
            )

        # The arguments of the estimator, as they are written in Python.
        options = self.offer.select_options(self.options())
        arguments = keyword_source({**options, "guarantee": self.guarantee})
        # The script has a variable for the manifold.
        arguments = arguments.replace(repr(self.space), "manifold", 1)
        module, estimator = self.offer.import_names
        return (
            _SCRIPT.format(
                data=data,
                ledger_arguments=ledger_source(ledger, ledger_key),
                label=label,
                manifold=self.manifold,
                reading_options=keyword_source(self.reading_options()),
                columns=self._column_source(),
                guarantee_class=type(self.guarantee).__name__,
                module=module,
                estimator=estimator,
                arguments=arguments.removeprefix(", "),
                fit_arguments=", ".join(self.offer.fit_arguments),
            )
            + further_lines
        )

    def request_key(self, data: Path, last_entry_hash: str) -> str:
        """Return a text that identifies this release, to recognize repeated requests.

        Two requests with one key, such as two clicks, are one release and are paid once.
        Every release appends to the ledger, and so changes the key of the next.

        Parameters
        ----------
        data : path
            The file with the records. The key changes if any file is modified.
        last_entry_hash : str
            The hash of the ledger's last entry before the release.

        Returns
        -------
        str
            A text that differs whenever anything about the release does.
        """
        # The times of modification stand for the contents of the files.
        modified = [path.stat().st_mtime_ns for path in (data, *self.further_files)]
        release_facts = [asdict(self), str(data), modified, last_entry_hash]
        return json.dumps(release_facts, default=str, sort_keys=True)


def ledger_source(ledger: str, ledger_key: str | None) -> str:
    """Return the arguments with which a script opens the ledger, as Python source.

    Parameters
    ----------
    ledger : str
        The name of the ledger's file.
    ledger_key : str or None
        The name of the file with the ledger's key, where it has one.
    """
    if ledger_key is None:
        return repr(ledger)
    return f"{ledger!r}, key={ledger_key!r}"


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
        One size for each class; the first ones are larger by 1 if n is not a multiple.
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
    offer_by_name = page_offers()
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
from curvedp.inference.error_bars import is_angular
from curvedp.records import read_column, read_records
from curvedp.releasing import write
from {module} import {estimator}

data = {data!r}
manifold = parse_manifold({manifold!r})
records = read_records(data, manifold{reading_options})
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


def keyword_source(arguments: Mapping[str, Any]) -> str:
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
def _read_records_once(
    manifold: str, reading_options: str, data: Path, modified: int
) -> Any:
    """Read the records of a file, once and not at every move of a slider.

    Parameters
    ----------
    manifold : str
        The name of the space.
    reading_options : str
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
    return read_records(data, parse_manifold(manifold), **json.loads(reading_options))


@lru_cache(maxsize=4)
def _read_column_once(
    reading_options: str, column: str, data: Path, modified: int
) -> Any:
    """Read a column beside the records, once; None if none was chosen.

    Parameters
    ----------
    reading_options : str
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
    return read_column(data, parse_column(column), **json.loads(reading_options))

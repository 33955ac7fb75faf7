"""Options of commands that read a file of records: which file, and how it is read.
Options have the names of the parameters of `curvedp.records.read_records`. A command
gets what was typed as a mapping (`TypedOptions`), and reads its file, the persons and
other columns with the functions here.
"""

from collections.abc import Callable, Mapping
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from curvedp.cli.options import Options, option, with_options
from curvedp.errors import ParameterError
from curvedp.releasing import Column, Option, parse_column

# The options of a command that were typed, or their defaults, by their names in Python.
TypedOptions = Mapping[str, Any]

# The argument of every command here: the file with the records.
_DATA = Annotated[
    Path,
    typer.Argument(
        help="csv, tsv, xlsx, parquet, npy, npz, mat, zarr or nii, one record per row"
    ),
]

# How a file is read; each name is a parameter of `read_records`.
READING: Options = {
    "key": option(
        str, "--key", help="array in an npz, mat or zarr file; cells of an xlsx file"
    ),
    "header": option(
        bool, "--header/--no-header", help="whether the first line names columns"
    ),
    "form": option(
        str,
        "--as",
        help="how a row represents a record, such as latlon-degrees or tensor6-lower",
    ),
    "columns": option(
        str,
        "--columns",
        help="names or positions (from 0) of the columns, separated by commas",
    ),
    "mask": option(
        Path, "--mask", help="public mask: which voxels of a volume are records"
    ),
    "sep": option(str, "--sep", help="separator of the cells"),
    "decimal": option(str, "--decimal", help="the decimal sign", default="."),
    "skip": option(int, "--skip", help="lines to skip at the start", default=0),
    "encoding": option(
        str,
        "--encoding",
        help="encoding of csv and tsv files, such as utf-16",
        default="utf-8",
    ),
}

PERSONS = {
    "groups": option(
        str,
        "--groups",
        help="column with the person of each record, or an npy file with their ids",
    )
}


def file_command(
    options: Options, description: str, run: Callable[[TypedOptions], None]
) -> Callable[..., None]:
    """Return a command that takes a file with records and these options.

    Parameters
    ----------
    options : dict
        The options by name, besides the file, which is called "data".
    description : str
        The help text.
    run : callable
        Called with all options that were typed, by name.

    Returns
    -------
    callable
        The command, from whose signature typer reads the options.
    """

    def run_with_options(**typed_options: Any) -> None:
        """Run the command with the options that were typed.

        Parameters
        ----------
        **typed_options : Any
            The options by their names in Python.
        """
        run(typed_options)

    all_options = {"data": (_DATA, Parameter.empty), **options}
    command: Callable[..., None] = with_options(
        run_with_options, all_options, description
    )
    return command


def statistic_option(declaration: Option | Column) -> tuple[Any, Any]:
    """Return the command-line option of a declared option or column of a statistic.

    Parameters
    ----------
    declaration : Option or Column
        An option or column that the table of `curvedp.releasing` declares.

    Returns
    -------
    annotation, default
        The annotation and the default that typer reads, as in `Options`.
    """
    if isinstance(declaration, Column):
        return option(str, *declaration.flags, help=declaration.help)
    return option(
        declaration.command_line_type,
        *declaration.flags,
        help=declaration.help,
        default=declaration.default,
    )


def read_typed_column(
    options: TypedOptions, column: str | None, decimal: str = "."
) -> Any:
    """Return a column of the file that the records are in, or None if none is named.

    Parameters
    ----------
    options : mapping
        The options of the command, with "data" and those that say how a file is read.
    column : str or None
        The column as it is typed: its name, or its place from 0.
    decimal : str
        The decimal sign of its numbers.

    Returns
    -------
    array or None
        One entry for each record.
    """
    from curvedp.records import read_column

    if column is None:
        return None
    return read_column(
        options["data"],
        parse_column(column),
        header=_states_header(options),
        sep=options["sep"],
        skip=options["skip"],
        encoding=options["encoding"],
        decimal=decimal,
    )


def read_persons(options: TypedOptions) -> Any:
    """Return the person of each record, or None if none are named.

    `--groups` names a column of the file that the records are in, or an npy file with
    one id for each record: npy files of vectors have no columns.

    Parameters
    ----------
    options : mapping
        The options of the command, with "groups" and those that `read_typed_column`
        takes.

    Returns
    -------
    array or None
        One id for each record.
    """
    from curvedp.records.files import open_npy

    typed = options["groups"]
    if typed is not None and _names_file(typed):
        if not Path(typed).exists():
            raise ParameterError(f"{typed} does not exist")
        return np.asarray(open_npy(Path(typed)))
    if typed is not None and options["data"].suffix == ".npy":
        raise ParameterError(
            f"names a column, and {options['data'].name} has none; name an npy file "
            "with one id for each record",
            parameter="groups",
            value=typed,
        )
    return read_typed_column(options, typed)


def person_columns(options: TypedOptions) -> list[str | int]:
    """Return the column of the records' file that holds the persons, in a list.

    The list is empty if no persons are named, or they are in a file of their own.

    Parameters
    ----------
    options : mapping
        The options of the command, with "groups".
    """
    typed = options["groups"]
    return [] if typed is None or _names_file(typed) else [parse_column(typed)]


def _names_file(typed: str) -> bool:
    """Return whether the text typed for `--groups` names a file, and not a column.

    Parameters
    ----------
    typed : str
        The text that was typed for `--groups`.
    """
    return Path(typed).suffix == ".npy"


def _states_header(options: TypedOptions) -> bool | None:
    """Return whether the file has a header, as the options say; None if they do not.

    A column can be found by its name only if there is a header. So a user who names the
    column of the persons or texts says that there is one.

    Parameters
    ----------
    options : mapping
        The options of the command.
    """
    if options["header"] is not None:
        return bool(options["header"])
    columns = person_columns(options) if "groups" in options else []
    if options.get("text") is not None:
        columns.append(parse_column(options["text"]))
    has_named_column = any(isinstance(column, str) for column in columns)
    return True if has_named_column else None


def reading_options(options: TypedOptions) -> dict[str, Any]:
    """Return the options that say how a file is read, as arguments of `read_records`.

    Parameters
    ----------
    options : mapping
        The options of the command, by their names in Python.

    Returns
    -------
    dict
        Arguments by name.
    """
    reading = {name: options[name] for name in READING}
    reading["header"] = _states_header(options)
    if options["columns"] is not None:
        columns = options["columns"].split(",")
        reading["columns"] = [parse_column(column) for column in columns]
    return reading

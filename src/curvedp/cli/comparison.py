"""`curvedp test two-sample | k-sample | paired`: private tests of whether groups differ.
Each group is a file of records. The commands print whether the groups differ and, on
request, also release the mean of each group and the size of the difference.
"""

import json as json_module
from collections.abc import Callable
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from curvedp.cli.console import console, escape_markup, waiting
from curvedp.cli.options import (
    GUARANTEE,
    JsonOption,
    Options,
    guarantee_from_options,
    option,
    with_options,
)
from curvedp.cli.outputs import (
    check_targets,
    input_files,
    ledger_label,
    open_ledger_file,
    why_not_written,
)
from curvedp.cli.reading import (
    PERSONS,
    READING,
    TypedOptions,
    person_columns,
    read_persons,
    read_typed_column,
    reading_options,
)
from curvedp.errors import ParameterError
from curvedp.releasing import numbered_names, parse_column, parse_radius

if TYPE_CHECKING:
    from curvedp.comparing import Group
    from curvedp.core.certificate import Certificate
    from curvedp.estimators.comparison import GroupComparison
    from curvedp.privacy import Guarantee
    from curvedp.privacy.unit import PrivacyUnit

test_app = typer.Typer(
    no_args_is_help=True, help="Test privately whether groups of records differ."
)

_FILES = Annotated[
    list[Path],
    typer.Argument(help="a file for each group, or one file with --labels"),
]
_OPTIONS: Options = {
    "files": (_FILES, Parameter.empty),
    "manifold": option(
        str, "--manifold", "-m", help="such as sphere:2 or spd-affine:3"
    ),
    "radius": option(
        str, "--radius", "-r", help="of the public ball, or private to find one"
    ),
    "center": option(
        str,
        "--center",
        help="center of the ball: a file, a list of numbers, or one factor of the origin",
    ),
    "labels": option(
        str, "--labels", help="column with the public group of each record"
    ),
    **PERSONS,
    **GUARANTEE,
    **READING,
    "level": option(
        float, "--level", help="largest probability of a false alarm", default=0.05
    ),
    "permutations": option(
        int, "--permutations", help="how many permutations", default=498
    ),
    "ledger": option(Path, "--ledger", help="budget to spend from"),
    "budget_mu": option(
        float, "--budget-mu", help="start the ledger with this GDP budget"
    ),
    "ledger_key": option(Path, "--ledger-key", help="the key of a keyed ledger"),
    "label": option(str, "--label", help="what the ledger's entries are called"),
    "as_user": option(
        str,
        "--as-user",
        help="who makes the release: recorded in the ledger entries, not verified",
    ),
    "certificate": option(
        Path, "--certificate", help="write the certificates (json), numbered"
    ),
    "json": (JsonOption, False),
}


def _read_groups(options: TypedOptions, space: Any) -> list["Group"]:
    """Read the groups of a test: a file for each, or a label for each in a single file.

    Parameters
    ----------
    options : dict
        The options of the command by their names in Python. "files" are the paths;
        "labels" names the column of labels, or is None.
    space : Manifold
        The manifold of the records.

    Returns
    -------
    list of Group
        The groups in the order of the files, or of the sorted labels.

    Raises
    ------
    ParameterError
        If a column of labels is named beside several files, or a file cannot be read.
    """
    from curvedp.comparing import check_files_of_labels, name_apart, split_by_label

    has_labels = options["labels"] is not None
    check_files_of_labels(len(options["files"]), has_labels=has_labels)
    groups = [_read_group(options, path, space) for path in options["files"]]
    if not has_labels:
        return name_apart(groups, options["files"])
    file_options = {**options, "data": options["files"][0]}
    return split_by_label(groups[0], read_typed_column(file_options, options["labels"]))


def _read_group(options: TypedOptions, path: Path, space: Any) -> "Group":
    """Read one file as a group that is named after it.

    Parameters
    ----------
    options : dict
        The options of the command, which say how all files are read.
    path : Path
        The file.
    space : Manifold
        The manifold of the records.
    """
    import numpy as np

    from curvedp.comparing import Group
    from curvedp.records import read_records

    file_options = {**options, "data": path}
    other_columns = person_columns(options)
    if options["labels"] is not None:
        other_columns.append(parse_column(options["labels"]))
    records = read_records(
        path, space, **reading_options(file_options), other_columns=other_columns
    )
    persons = read_persons(file_options)
    return Group(path.stem, np.asarray(records), persons)


def _run_test(kind: str, options: TypedOptions) -> None:
    """Run one of the tests: read, pay, release and print.

    Parameters
    ----------
    kind : {"two-sample", "k-sample", "paired"}
        The name of the test.
    options : mapping
        The options of the command, by their names in Python.
    """
    from curvedp.comparing import check_number_of_groups, compare
    from curvedp.geometry import parse_manifold
    from curvedp.privacy import GDP
    from curvedp.records.files import load_point

    for name in ("manifold", "radius"):
        if options[name] is None:
            raise ParameterError("is missing", parameter=name)
    _check_outputs(options)
    space = parse_manifold(options["manifold"])
    guarantee = guarantee_from_options(
        options["mu"], options["epsilon"], options["delta"], options["rho"]
    )
    center = None
    if options["center"] is not None:
        center = load_point(options["center"], space, options["form"])
    groups = _read_groups(options, space)
    check_number_of_groups(f"{kind} test", len(groups), needs_two=kind != "k-sample")
    radius = parse_radius(options["radius"])
    ledger = open_ledger_file(
        options["ledger"],
        options["budget_mu"],
        options["ledger_key"],
        unit=_unit_of(kind, guarantee, options["groups"]),
    )
    test_arguments = {
        "radius": radius,
        "center": center,
        "guarantee": guarantee,
        "level": options["level"],
        "permutations": options["permutations"],
        "ledger": ledger,
        "label": ledger_label(options["label"] or f"{kind} test", options["as_user"]),
    }
    with waiting("permuting"):
        if kind == "paired" and not isinstance(guarantee, GDP):
            _test_pairs(space, groups, test_arguments, options)
        else:
            comparison = compare(
                space, groups, is_paired=kind == "paired", **test_arguments
            )
            _print_or_save(space, comparison, groups, guarantee, options)


def _unit_of(
    kind: str, guarantee: "Guarantee", groups: str | None
) -> "PrivacyUnit | None":
    """Return the unit of privacy for which this test would start a ledger.

    Parameters
    ----------
    kind : {"two-sample", "k-sample", "paired"}
        The name of the test.
    guarantee : Guarantee
        The guarantee of the test. A test of pairs by GDP is a comparison of people.
    groups : str or None
        The column with the person of each record; None if a record is the unit.

    Returns
    -------
    PrivacyUnit or None
        None leaves the unit to the ledger's first charge.
    """
    from curvedp.estimators.comparison import comparison_unit
    from curvedp.privacy import GDP
    from curvedp.privacy.unit import PrivacyUnit

    if kind != "paired":
        return comparison_unit(groups)
    return PrivacyUnit.PERSON if isinstance(guarantee, GDP) else None


def _check_outputs(options: TypedOptions) -> None:
    """Refuse certificates that could not be written, and a budget without a ledger.

    Parameters
    ----------
    options : mapping
        The options of the command, by their names in Python.
    """
    check_targets(input_files(options), certificate=options["certificate"])
    if options["ledger"] is None:
        for name in ("budget_mu", "ledger_key"):
            if options[name] is not None:
                flag = "--" + name.replace("_", "-")
                raise ParameterError(f"{flag} goes with --ledger")


def _test_pairs(
    space: Any,
    groups: list["Group"],
    test_arguments: dict[str, Any],
    options: TypedOptions,
) -> None:
    """Run the paired test of two groups, and print or write its result.

    Line i of the first group and line i of the second are one pair, such as a person
    before and after a treatment. A budget of μ-GDP can be divided among a test and the
    means (`compare`); any other budget is spent on the test alone, here.

    Parameters
    ----------
    space : Manifold
        The manifold of the records.
    groups : list of Group
        The first and the second measurements.
    test_arguments : dict
        The arguments that all tests take: ball, guarantee, level, ledger and label.
    options : mapping
        The options of the command, by their names in Python.
    """
    from curvedp.comparing import check_same_persons, test_to_dict
    from curvedp.estimators.comparison import describe_test
    from curvedp.inference import paired_test

    first, second = groups
    check_same_persons(first, second)

    # All of the budget goes to the test, so none is left to search for a ball.
    if isinstance(test_arguments["radius"], str):
        raise ParameterError(
            "must be a number for pairs, unless the guarantee is GDP (--mu)",
            parameter="radius",
        )
    test = paired_test(
        space, first.records, second.records, groups=first.persons, **test_arguments
    )
    test_result = {**test_to_dict(test), "certificates": [test.certificate.to_dict()]}
    written_paths = _save_or_print({"test": test.certificate}, test_result, options)
    if options["json"]:
        print(json_module.dumps(test_result, default=str))
        return
    _print_line(describe_test(test, [group.name for group in groups]))
    _print_written(written_paths)


def _print_or_save(
    space: Any,
    comparison: "GroupComparison",
    groups: list["Group"],
    guarantee: "Guarantee",
    options: TypedOptions,
) -> None:
    """Write the certificates of a comparison and print it, or print all of it as JSON.

    Parameters
    ----------
    space : Manifold
        The manifold of the records.
    comparison : GroupComparison
        The comparison that was released.
    groups : list of Group
        The groups, for their names.
    guarantee : Guarantee
        The guarantee of the whole comparison.
    options : mapping
        The options of the command, by their names in Python.
    """
    from curvedp.comparing import comparison_lines, comparison_to_dict

    certificates = comparison.certificates
    released = {
        **comparison_to_dict(comparison),
        "certificates": [
            certificate.to_dict() for certificate in certificates.values()
        ],
    }
    written = _save_or_print(certificates, released, options)
    if options["json"]:
        print(json_module.dumps(released, default=str))
        return
    for text in comparison.warnings:
        _print_line(f"note: {text}")
    names = [group.name for group in groups]
    for line in comparison_lines(space, comparison, names, guarantee, options["form"]):
        _print_line(line)
    _print_written(written)


def _save_or_print(
    certificates: "dict[str, Certificate]",
    released: dict[str, Any],
    options: TypedOptions,
) -> list[Path]:
    """Write the certificates of a test; print all results if one cannot be written.

    The test is paid for by now, so nothing of it may be lost.

    Parameters
    ----------
    certificates : dict
        Each certificate by the name of its release, such as "test".
    released : dict
        All that was released, as plain values.
    options : mapping
        The options of the command; "certificate" is the file, or None to write none.

    Returns
    -------
    list of Path
        The files that were written; several certificates are numbered.

    Raises
    ------
    ParameterError
        If a file could not be written. Everything was printed before.
    """
    target: Path | None = options["certificate"]
    if target is None:
        return []
    names = numbered_names(target.name, list(certificates))
    try:
        for name, certificate in zip(names, certificates.values(), strict=True):
            certificate.save(target.with_name(name))
    except BaseException as error:
        print(json_module.dumps(released, default=str))
        if not isinstance(error, Exception):
            raise  # The user pressed Ctrl-C, for example.
        raise ParameterError(why_not_written(error)) from None
    return [target.with_name(name) for name in names]


def _print_written(written: list[Path]) -> None:
    """Print which files were written, if any were.

    Parameters
    ----------
    written : list of Path
        The files.
    """
    if written:
        _print_line("written: " + ", ".join(map(str, written)))


def _print_line(text: str) -> None:
    """Print a line, which the terminal wraps and does not interpret.

    Parameters
    ----------
    text : str
        The line, which may quote a stranger's text.
    """
    console.print(escape_markup(text), soft_wrap=True, highlight=False)


def _test_command(kind: str, description: str) -> Callable[..., None]:
    """Return the command of one test.

    Parameters
    ----------
    kind : {"two-sample", "k-sample", "paired"}
        The name of the test.
    description : str
        The help text.

    Returns
    -------
    callable
        The command, from whose signature typer reads the options.
    """

    def run_with_options(**typed_options: Any) -> None:
        """Run the test with the options that were typed.

        Parameters
        ----------
        **typed_options : Any
            The options by their names in Python.
        """
        _run_test(kind, typed_options)

    built: Callable[..., None] = with_options(run_with_options, _OPTIONS, description)
    return built


for _kind, _description in {
    "two-sample": "Do two groups differ, and by how much? Their sizes are public.",
    "k-sample": "Do several groups differ, and by how much? Their sizes are public.",
    "paired": "Do first and second measurements differ? Line i of both files is a pair.",
}.items():
    test_app.command(_kind)(_test_command(_kind, _description))

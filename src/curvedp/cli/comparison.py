"""`curvedp test two-sample | k-sample | paired`: private tests of whether groups differ."""

import json as json_module
from collections.abc import Callable
from dataclasses import dataclass
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
from curvedp.cli.release import (
    PERSONS,
    READING,
    TypedOptions,
    check_targets,
    ledger_label,
    open_ledger_file,
    person_columns,
    read_persons,
    read_typed_column,
    reading_options,
    why_not_written,
)
from curvedp.errors import ParameterError
from curvedp.releasing import numbered_names, parse_column, parse_radius

if TYPE_CHECKING:
    from curvedp.core.certificate import Certificate
    from curvedp.estimators.comparison import GroupComparison
    from curvedp.inference.hypotheses import PermutationTest
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


@dataclass
class _Group:
    """The records of one group, as they were read from a file.

    Attributes
    ----------
    name : str
        The file's name without its ending, or the group's label.
    records : array, shape (n, *point_shape)
        The records of the group.
    persons : array, shape (n,), or None
        The person that each record belongs to.
    """

    name: str
    records: Any
    persons: Any


def _read_groups(options: TypedOptions, space: Any) -> list[_Group]:
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
    list of _Group
        The groups in the order of the files, or of the sorted labels.

    Raises
    ------
    ParameterError
        If a column of labels is named beside several files, or a file cannot be read.
    """
    groups = [_read_group(options, path, space) for path in options["files"]]
    if options["labels"] is not None:
        if len(groups) != 1:
            raise ParameterError("--labels goes with one file")
        return _split_by_label(groups[0], options)

    if len({group.name for group in groups}) < len(groups):
        # Files of one name in several folders are told apart by their folders.
        for group, path in zip(groups, options["files"], strict=True):
            group.name = str(path.with_suffix(""))
    return groups


def _read_group(options: TypedOptions, path: Path, space: Any) -> _Group:
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

    from curvedp.records import read_records

    file_options = {**options, "data": path}
    other_columns = person_columns(options)
    if options["labels"] is not None:
        other_columns.append(parse_column(options["labels"]))
    records = read_records(
        path, space, **reading_options(file_options), other_columns=other_columns
    )
    persons = read_persons(file_options)
    return _Group(path.stem, np.asarray(records), persons)


def _split_by_label(group: _Group, options: TypedOptions) -> list[_Group]:
    """Split the records of one file into a group for each label.

    Parameters
    ----------
    group : _Group
        All records of the file.
    options : dict
        The options of the command; "labels" names the column with the label of each
        record.

    Returns
    -------
    list of _Group
        One group for each label that occurs, in sorted order. Labels are public.
    """
    import numpy as np

    file_options = {**options, "data": options["files"][0]}
    column = read_typed_column(file_options, options["labels"])
    labels = np.asarray(column).astype(str)
    persons = None if group.persons is None else np.asarray(group.persons)

    groups = []
    for label in np.unique(labels):
        has_label = labels == label
        persons_of_label = None if persons is None else persons[has_label]
        groups.append(_Group(str(label), group.records[has_label], persons_of_label))
    return groups


def _run(kind: str, options: TypedOptions) -> None:
    """Run one of the tests: read, pay, release and print.

    Parameters
    ----------
    kind : {"two-sample", "k-sample", "paired"}
        The name of the test.
    options : mapping
        The options of the command, by their names in Python.
    """
    from curvedp.geometry import parse_manifold
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
    _check_count(kind, len(groups))
    test_arguments = {
        "radius": parse_radius(options["radius"]),
        "center": center,
        "guarantee": guarantee,
        "level": options["level"],
        "permutations": options["permutations"],
        "ledger": open_ledger_file(
            options["ledger"],
            options["budget_mu"],
            options["ledger_key"],
            unit=_unit_of(kind, guarantee, options["groups"]),
        ),
        "label": ledger_label(options["label"] or f"{kind} test", options["as_user"]),
    }
    with waiting("permuting"):
        if kind == "paired":
            _test_pairs(space, groups, test_arguments, options)
        else:
            _compare(space, groups, test_arguments, options)


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
    inputs = [*options["files"], options["mask"]]
    inputs += [options["ledger"], options["ledger_key"]]
    if options["center"] is not None:
        # The center may be the name of a file; other text does no harm here.
        inputs.append(Path(options["center"]))
    check_targets(inputs, certificate=options["certificate"])
    if options["ledger"] is None:
        for name in ("budget_mu", "ledger_key"):
            if options[name] is not None:
                flag = "--" + name.replace("_", "-")
                raise ParameterError(f"{flag} goes with --ledger")


def _check_count(kind: str, n_groups: int) -> None:
    """Refuse a number of groups that the test is not for.

    Parameters
    ----------
    kind : {"two-sample", "k-sample", "paired"}
        The name of the test.
    n_groups : int
        How many groups were read.
    """
    if kind in ("two-sample", "paired") and n_groups != 2:
        raise ParameterError(f"a {kind} test needs two groups, not {n_groups}")
    if n_groups < 2:
        raise ParameterError("a test needs two groups or more")


def _test_pairs(
    space: Any,
    groups: list[_Group],
    test_arguments: dict[str, Any],
    options: TypedOptions,
) -> None:
    """Run the paired test of two groups, and print or write its result.

    Line i of the first group and line i of the second are one pair, such as a person
    before and after a treatment. What is released depends on the guarantee:

    - A budget of μ-GDP can be divided. The test, both group means and an effect size
      are released, and printed by `_print_or_save`.
    - Any other budget is spent on the test alone. Its result goes to the file that the
      options name, or to the terminal as a sentence or (with --json) as one object.

    Parameters
    ----------
    space : Manifold
        The manifold of the records.
    groups : list of _Group
        The first and the second measurements.
    test_arguments : dict
        The arguments that all tests take: ball, guarantee, level, ledger and label.
    options : mapping
        The options of the command, by their names in Python.
    """
    from curvedp.estimators.comparison import compare_pairs, test_sentence
    from curvedp.inference import paired_test
    from curvedp.privacy import GDP

    first, second = groups
    _check_same_persons(first, second)
    guarantee = test_arguments["guarantee"]
    if isinstance(guarantee, GDP):
        comparison = compare_pairs(
            space,
            first.records,
            second.records,
            names=[first.name, second.name],
            groups=first.persons,
            **test_arguments,
        )
        _print_or_save(space, comparison, groups, guarantee, options)
        return

    # All of the budget goes to the test, so none is left to search for a ball.
    if isinstance(test_arguments["radius"], str):
        raise ParameterError(
            "must be a number for pairs, unless the guarantee is GDP (--mu)",
            parameter="radius",
        )
    test = paired_test(
        space, first.records, second.records, groups=first.persons, **test_arguments
    )
    test_result = {**_test_dict(test), "certificates": [test.certificate.to_dict()]}
    written_paths = _save_or_print({"test": test.certificate}, test_result, options)
    if options["json"]:
        print(json_module.dumps(test_result, default=str))
        return
    _print_line(test_sentence(test, [group.name for group in groups]))
    _print_written(written_paths)


def _check_same_persons(first: _Group, second: _Group) -> None:
    """Refuse files of pairs that name different people in one line.

    Line i of both files is one pair. The ids of people are public, so that the refusal
    reveals nothing.

    Parameters
    ----------
    first, second : _Group
        The first and the second measurements.
    """
    if first.persons is None or second.persons is None:
        return
    if list(map(str, first.persons)) != list(map(str, second.persons)):
        raise ParameterError(
            "must name the same person in line i of both files", parameter="groups"
        )


def _compare(
    space: Any,
    groups: list[_Group],
    test_arguments: dict[str, Any],
    options: TypedOptions,
) -> None:
    """Release a comparison of groups, and print or write it: test, means, effect size.

    Parameters
    ----------
    space : Manifold
        The manifold of the records.
    groups : list of _Group
        The groups, two or more.
    test_arguments : dict
        The arguments that all tests take: ball, guarantee, level, ledger and label.
    options : mapping
        The options of the command, by their names in Python.
    """
    from curvedp.estimators.comparison import compare_groups

    persons = None
    if options["groups"] is not None:
        persons = [group.persons for group in groups]
    comparison = compare_groups(
        space,
        [group.records for group in groups],
        names=[group.name for group in groups],
        groups=persons,
        **test_arguments,
    )
    _print_or_save(space, comparison, groups, test_arguments["guarantee"], options)


def _print_or_save(
    space: Any,
    comparison: "GroupComparison",
    groups: list[_Group],
    guarantee: "Guarantee",
    options: TypedOptions,
) -> None:
    """Write the certificates of a comparison and print it, or print all of it as JSON.

    Parameters
    ----------
    space : Manifold
        The manifold of the records.
    comparison : GroupComparison
        What was released.
    groups : list of _Group
        The groups, for their names.
    guarantee : Guarantee
        What everything together meets.
    options : mapping
        The options of the command, by their names in Python.
    """
    certificates = comparison.certificates
    released = {
        **_test_dict(comparison.test),
        "effect_size": comparison.effect_size,
        "largest_distance": comparison.largest_distance,
        "spread": comparison.spread,
        "warnings": list(comparison.warnings),
        "means": _means_dict(comparison),
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
    _print_comparison(
        space,
        comparison,
        [group.name for group in groups],
        guarantee,
        options,
    )
    _print_written(written)


def _print_comparison(
    space: Any,
    comparison: "GroupComparison",
    names: list[str],
    guarantee: "Guarantee",
    options: TypedOptions,
) -> None:
    """Print the test, the means with their error bars, and the effect size.

    Parameters
    ----------
    space : Manifold
        The manifold of the records.
    comparison : GroupComparison
        What was released.
    names : list of str
        The names of the groups, in the order in which they were read.
    guarantee : Guarantee
        What test, means and ball together meet.
    options : mapping
        The options of the command, by their names in Python.
    """
    from curvedp.estimators.comparison import test_sentence
    from curvedp.inference.error_bars import distance_sentence
    from curvedp.records.output_forms import output_form

    _print_line(test_sentence(comparison.test, names))
    written_as = output_form(options["form"], space)

    for name, mean in zip(
        comparison.means.classes_.tolist(), comparison.means.means_, strict=True
    ):
        sentence = f"mean of {name}: {written_as.sentence(mean)}"
        if name in comparison.regions:
            radius = float(comparison.regions[name].radius)
            within = distance_sentence(space, radius)
            sentence += f"; the population's is within {within}"
        _print_line(sentence)
    _print_line(
        f"largest distance between means: "
        f"{distance_sentence(space, comparison.largest_distance)}, which is "
        f"{comparison.effect_size:.3g} times the spread "
        f"{distance_sentence(space, comparison.spread)} within groups (effect size)"
    )
    if comparison.regions:
        _print_line("all regions hold at once with probability 95%")
    parts = "the test, the means and a private ball"
    if comparison.ball_release is None:
        parts = "the test and the means"
    _print_line(f"{parts} together meet {guarantee}")


def _means_dict(comparison: "GroupComparison") -> dict[str, dict[str, Any]]:
    """Return the mean of each group as plain values, with the radius of its region.

    Parameters
    ----------
    comparison : GroupComparison
        What was released.

    Returns
    -------
    dict
        "center" and "radius" of each group; the radius is None without a region.
    """
    means = comparison.means
    means_by_group = {}
    for name, mean in zip(means.classes_.tolist(), means.means_, strict=True):
        region = comparison.regions.get(name)
        radius = None if region is None else float(region.radius)
        means_by_group[name] = {"center": mean.tolist(), "radius": radius}
    return means_by_group


def _test_dict(test: "PermutationTest") -> dict[str, Any]:
    """Return the result of a test as plain values.

    Parameters
    ----------
    test : PermutationTest
        The released result.
    """
    return {
        "rejected": bool(test.rejected),
        "pvalue": float(test.pvalue),
        "level": test.level,
        "statistic": test.statistic,
    }


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
        _run(kind, typed_options)

    built: Callable[..., None] = with_options(run_with_options, _OPTIONS, description)
    return built


for _kind, _description in {
    "two-sample": "Do two groups differ, and by how much? Their sizes are public.",
    "k-sample": "Do several groups differ, and by how much? Their sizes are public.",
    "paired": "Do first and second measurements differ? Line i of both files is a pair.",
}.items():
    test_app.command(_kind)(_test_command(_kind, _description))

"""Comparisons of groups for people who write no Python: groups, options and sentences.
The command `curvedp test` and the studio split files into groups in the same way, and
say in the same words what `curvedp.estimators.comparison` has released. `COMPARISONS`
declares what the page of the studio asks for.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from curvedp.errors import ParameterError
from curvedp.estimators.comparison import (
    GroupComparison,
    compare_groups,
    compare_pairs,
    describe_test,
)
from curvedp.geometry.manifold import Manifold
from curvedp.inference.error_bars import distance_sentence
from curvedp.inference.hypotheses import PermutationTest
from curvedp.ledger import Ledger
from curvedp.privacy import GDP, Guarantee
from curvedp.records import read_column, read_records
from curvedp.records.output_forms import align_to_center, output_form
from curvedp.releasing import CENTER, RADIUS, Column, Offer, Option, numbered_names

# How a file is read, as far as a column beside the records is read in the same way.
_COLUMN_READING = ("header", "sep", "skip", "encoding")

# The options of both comparisons on the page of the studio.
_OPTIONS = (
    RADIUS,
    CENTER,
    Option(
        name="level",
        flags=("--level",),
        kind=float,
        help="largest probability of a false alarm",
        label="level",
        note="the largest probability of a false alarm",
        placeholder="0.05",
    ),
    Option(
        name="permutations",
        flags=("--permutations",),
        kind=int,
        help="how many permutations",
        label="permutations",
        placeholder="498",
    ),
)

_GROUP_COLUMN = Column(
    name="labels",
    flags=("--labels",),
    help="column with the public group of each record",
    label="column with the group of each record",
    note="public; leave it empty if each file is a group",
    description="drop a file for each group, or name the column with the groups",
    holds_classes=True,
)


@dataclass(frozen=True)
class ComparisonOffer(Offer):
    """A comparison of groups, as the page of the studio offers it.

    Attributes
    ----------
    is_paired : bool
        Whether line i of the first group and line i of the second are one pair.
    """

    is_paired: bool = False


# The comparisons by the name that the page sends. What is "imported from" is the
# function that makes the comparison.
COMPARISONS: dict[str, ComparisonOffer] = {
    "compare-groups": ComparisonOffer(
        estimator="curvedp.estimators.comparison:compare_groups",
        title="comparison of groups",
        description="Do groups differ, and by how much? Their sizes are public.",
        options=_OPTIONS,
        column=_GROUP_COLUMN,
        has_command=False,  # `curvedp test` has commands of its own
    ),
    "compare-pairs": ComparisonOffer(
        estimator="curvedp.estimators.comparison:compare_pairs",
        title="comparison of pairs",
        description="Do first and second measurements differ, and by how much?",
        options=_OPTIONS,
        column=_GROUP_COLUMN,
        has_command=False,
        is_paired=True,
    ),
}


@dataclass
class Group:
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
    persons: Any = None


def read_groups(
    files: Sequence[str | Path],
    manifold: Manifold,
    labels: str | int | None = None,
    persons: str | int | None = None,
    **reading: Any,
) -> list[Group]:
    """Read groups: a file for each, or one file with a column of their labels.

    Parameters
    ----------
    files : sequence of paths
        The files. With `labels` it is one.
    manifold : Manifold
        The manifold of the records.
    labels : str or int, optional
        The column with the public group of each record.
    persons : str or int, optional
        The column with the person of each record.
    **reading : Any
        How the files are read; see `read_records`.

    Returns
    -------
    list of Group
        The groups in the order of the files, or of the sorted labels.

    Raises
    ------
    ParameterError
        If a column of labels is named beside several files, or a file cannot be read.
    """
    check_files_of_labels(len(files), has_labels=labels is not None)
    column_reading = {
        name: value for name, value in reading.items() if name in _COLUMN_READING
    }
    groups = []
    for file in files:
        records = np.asarray(read_records(file, manifold, **reading))
        persons_of_file = None
        if persons is not None:
            persons_of_file = read_column(file, persons, **column_reading)
        groups.append(Group(Path(file).stem, records, persons_of_file))
    if labels is not None:
        return split_by_label(
            groups[0], read_column(files[0], labels, **column_reading)
        )
    return name_apart(groups, files)


def check_files_of_labels(n_files: int, *, has_labels: bool) -> None:
    """Refuse a column of labels if there are several files: each file is a group.

    Parameters
    ----------
    n_files : int
        How many files there are.
    has_labels : bool
        Whether a column of labels is named.
    """
    if has_labels and n_files != 1:
        raise ParameterError(
            f"goes with one file, not with {n_files}: each file is a group",
            parameter="labels",
        )


def name_apart(groups: list[Group], files: Sequence[str | Path]) -> list[Group]:
    """Return the groups, named by their paths if files of several folders share a name.

    Parameters
    ----------
    groups : list of Group
        Each is named after its file.
    files : sequence of paths
        The file of each group.
    """
    if len({group.name for group in groups}) == len(groups):
        return groups
    return [
        Group(str(Path(file).with_suffix("")), group.records, group.persons)
        for group, file in zip(groups, files, strict=True)
    ]


def split_by_label(group: Group, labels: Any) -> list[Group]:
    """Split the records of one file into a group for each label.

    Parameters
    ----------
    group : Group
        All records of the file.
    labels : array, shape (n,)
        The label of each record.

    Returns
    -------
    list of Group
        One group for each label that occurs, in sorted order. Labels are public.
    """
    label_texts = np.asarray(labels).astype(str)
    persons = None if group.persons is None else np.asarray(group.persons)

    groups = []
    for label in np.unique(label_texts):
        has_label = label_texts == label
        persons_of_label = None if persons is None else persons[has_label]
        groups.append(Group(str(label), group.records[has_label], persons_of_label))
    return groups


def check_number_of_groups(kind: str, n_groups: int, *, needs_two: bool) -> None:
    """Refuse a number of groups that a comparison cannot have.

    Parameters
    ----------
    kind : str
        What is made, such as "paired test".
    n_groups : int
        How many groups were read.
    needs_two : bool
        Whether it is for two groups only.
    """
    if needs_two and n_groups != 2:
        raise ParameterError(f"a {kind} needs two groups, not {n_groups}")
    if n_groups < 2:
        raise ParameterError(f"a {kind} needs two groups or more, not {n_groups}")


def check_same_persons(first: Group, second: Group) -> None:
    """Refuse pairs that name different people in one line.

    Line i of both groups is one pair. The ids of people are public, so that the refusal
    reveals nothing.

    Parameters
    ----------
    first, second : Group
        The first and the second measurements.
    """
    if first.persons is None or second.persons is None:
        return
    if list(map(str, first.persons)) != list(map(str, second.persons)):
        raise ParameterError(
            "must name the same person in line i of both files", parameter="groups"
        )


def compare(
    manifold: Manifold,
    groups: Sequence[Group],
    *,
    is_paired: bool,
    **parameters: Any,
) -> GroupComparison:
    """Release a comparison of groups, for `curvedp test` and the studio.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    groups : sequence of Group
        The groups; of pairs, the first and the second measurements.
    is_paired : bool
        Whether line i of both groups is a pair.
    **parameters : Any
        Ball, guarantee, level, permutations, ledger and label, as `compare_groups`
        takes them.

    Returns
    -------
    GroupComparison
        The test, the means with their regions, and the effect size.

    Raises
    ------
    ParameterError
        Before anything is paid, because of parameters, shapes, types and ids.
    """
    names = [group.name for group in groups]
    if is_paired:
        first, second = groups
        check_same_persons(first, second)
        return compare_pairs(
            manifold,
            first.records,
            second.records,
            names=names,
            groups=first.persons,
            **parameters,
        )
    persons = None
    if any(group.persons is not None for group in groups):
        persons = [group.persons for group in groups]
    return compare_groups(
        manifold,
        [group.records for group in groups],
        names=names,
        groups=persons,
        **parameters,
    )


def comparison_lines(
    manifold: Manifold,
    comparison: GroupComparison,
    names: Sequence[str],
    guarantee: Guarantee,
    form: str | None = None,
) -> list[str]:
    """Say what a comparison has released: the test, the means and the effect size.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    comparison : GroupComparison
        What was released.
    names : sequence of str
        The names of the groups, in the order in which they were read.
    guarantee : Guarantee
        What test, means and ball together meet.
    form : str, optional
        The form of the records, in which the means are written.

    Returns
    -------
    list of str
        One sentence per line.
    """
    written_as = output_form(form, manifold)
    lines = [describe_test(comparison.test, names)]
    for name, mean in zip(
        comparison.means.classes_.tolist(), comparison.means.means_, strict=True
    ):
        sentence = f"mean of {name}: {written_as.sentence(mean)}"
        if name in comparison.regions:
            radius = float(comparison.regions[name].radius)
            within = distance_sentence(manifold, radius)
            sentence += f"; the population's is within {within}"
        lines.append(sentence)
    lines.append(
        f"largest distance between means: "
        f"{distance_sentence(manifold, comparison.largest_distance)}, which is "
        f"{comparison.effect_size:.3g} times the spread "
        f"{distance_sentence(manifold, comparison.spread)} within groups (effect size)"
    )
    if comparison.regions:
        lines.append("all regions hold at once with probability 95%")
    parts = "the test, the means and a private ball"
    if comparison.ball_release is None:
        parts = "the test and the means"
    lines.append(f"{parts} together meet {guarantee}")
    return lines


def comparison_files(
    manifold: Manifold,
    comparison: GroupComparison,
    guarantee: Guarantee,
    form: str | None = None,
    center: Any = None,
) -> dict[str, bytes]:
    """Return the files of a comparison by name: means, test, and certificates.

    The studio offers them for download.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    comparison : GroupComparison
        What was released.
    guarantee : Guarantee
        What everything together meets.
    form : str, optional
        The form of the records, in which the means are written.
    center : point, optional
        The public center, to which shapes are turned.

    Returns
    -------
    dict
        "value.csv" with a row for each mean, "comparison.csv" with a row for each
        number of the comparison, and one numbered JSON file for each certificate.
    """
    files = {
        "value.csv": _csv_bytes(_rows_of_means(manifold, comparison, form, center)),
        "comparison.csv": _csv_bytes(_rows_of_numbers(manifold, comparison, guarantee)),
    }
    certificates = comparison.certificates
    names = numbered_names("certificate.json", list(certificates))
    for name, certificate in zip(names, certificates.values(), strict=True):
        files[name] = (certificate.to_json() + "\n").encode()
    return files


def _rows_of_means(
    manifold: Manifold, comparison: GroupComparison, form: str | None, center: Any
) -> list[list[object]]:
    """Return a table of the means, below a line of column names.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    comparison : GroupComparison
        What was released.
    form : str or None
        The form of the records.
    center : point or None
        The public center, to which shapes are turned.
    """
    written_as = output_form(form, manifold)
    rows: list[list[object]] = [["group", *written_as.columns]]
    means = comparison.means
    for name, mean in zip(means.classes_.tolist(), means.means_, strict=True):
        numbers = written_as.numbers(align_to_center(manifold, mean, center))
        rows.append([name, *(f"{number:.17g}" for number in numbers)])
    return rows


def _rows_of_numbers(
    manifold: Manifold, comparison: GroupComparison, guarantee: Guarantee
) -> list[list[object]]:
    """Return a table of the numbers of a comparison: each quantity and its value.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    comparison : GroupComparison
        What was released.
    guarantee : Guarantee
        What everything together meets.
    """
    names = map(str, comparison.means.classes_.tolist())
    rows: list[list[object]] = [
        ["quantity", "value"],
        ["groups", ", ".join(names)],
        ["space", manifold],
        ["difference found", "yes" if comparison.test.rejected else "no"],
        ["p-value", float(comparison.test.pvalue)],
        ["level", comparison.test.level],
        ["effect size", comparison.effect_size],
        ["largest distance between means", comparison.largest_distance],
        ["spread within groups", comparison.spread],
    ]
    for name, region in comparison.regions.items():
        rows.append([f"95% error bar of the mean of {name}", float(region.radius)])
    rows.append(["guarantee", guarantee])
    return rows


def _csv_bytes(rows: list[list[object]]) -> bytes:
    """Return a table as the content of a csv file in UTF-8.

    Parameters
    ----------
    rows : list of lists
        The cells of each row.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def comparison_report(
    manifold: Manifold,
    comparison: GroupComparison,
    names: Sequence[str],
    guarantee: GDP,
    ledger: Ledger | None = None,
    form: str | None = None,
    center: Any = None,
) -> str:
    """Return an HTML page that explains a comparison to people who were not there.

    It needs the extra "report".

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    comparison : GroupComparison
        What was released.
    names : sequence of str
        The names of the groups, in the order in which they were read.
    guarantee : GDP
        What everything together meets.
    ledger : Ledger, optional
        The ledger that paid.
    form : str, optional
        The form of the records, in which the means are written.
    center : point, optional
        The public center, to which shapes are turned.

    Returns
    -------
    str
        One self-contained page.
    """
    from curvedp.report.comparison import ComparisonFacts, render_comparison

    means = comparison.means
    labels = means.classes_.tolist()
    # The means of pairs are one release, of as many pairs as there are.
    certificates = [release.certificate for release in means.releases]
    sizes = [int(certificate.statistic["n"]) for certificate in certificates]
    facts = ComparisonFacts(
        manifold=manifold,
        names=names,
        guarantee=guarantee,
        answer=describe_test(comparison.test, names),
        pvalue=comparison.test.pvalue,
        level=comparison.test.level,
        effect_size=comparison.effect_size,
        largest_distance=comparison.largest_distance,
        spread=comparison.spread,
        means=dict(zip(labels, means.means_, strict=True)),
        regions=comparison.regions,
        certificates=comparison.certificates,
        sizes=dict(zip(labels, sizes, strict=True)),
        radius=float(comparison.ball.radius),
        warnings=comparison.warnings,
        center=center,
    )
    return render_comparison(facts, ledger, form)


def comparison_to_dict(comparison: GroupComparison) -> dict[str, Any]:
    """Return what a comparison has released as plain values, without certificates.

    Parameters
    ----------
    comparison : GroupComparison
        What was released.
    """
    means = comparison.means
    means_by_group = {}
    for name, mean in zip(means.classes_.tolist(), means.means_, strict=True):
        region = comparison.regions.get(name)
        radius = None if region is None else float(region.radius)
        means_by_group[name] = {"center": mean.tolist(), "radius": radius}
    return {
        **test_to_dict(comparison.test),
        "effect_size": comparison.effect_size,
        "largest_distance": comparison.largest_distance,
        "spread": comparison.spread,
        "warnings": list(comparison.warnings),
        "means": means_by_group,
    }


def test_to_dict(test: PermutationTest) -> dict[str, Any]:
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

"""Connectomes as files: BIDS connectivity matrices (BEP017) and XCP-D output folders.
A folder has one or more matrices for each participant. The names of its files, the
regions and the number of participants are public; the numbers in the files are not, and
none of them is refused or quoted.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from curvedp._files import write_atomically
from curvedp._validate import shown
from curvedp.core.certificate import Certificate
from curvedp.errors import ParameterError

# How the names of connectivity matrices end: BEP017, with rows and columns named or
# not; and XCP-D before its version 0.6.
ENDINGS = ("_relmat.tsv", "_relmat.dense.tsv", "_conmat.tsv")

# An entity of a BIDS name, such as "sub-01".
_ENTITY = re.compile(r"(?:^|_)([a-zA-Z]+)-([a-zA-Z0-9+]+)")

# Names of entities that mean the same, old and new.
_SYNONYMS = {
    "atlas": ("seg", "atlas"),
    "measure": ("stat", "meas", "measure"),
}

# Measures whose names contain one of these words are not correlations.
_NO_CORRELATIONS = re.compile("count|length|covariance|distance|fisher|information")

# A file with more bytes cannot be a matrix of at most 1,000 regions, and is not read.
_MAX_BYTES = 64 << 20

# Atlases of gray matter have up to a thousand regions.
_MAX_REGIONS = 2000

# Names of networks in those of the Schaefer atlases: 7Networks_LH_Vis_1, RH_DefaultA_2.
_SCHAEFER = re.compile(r"^(?:\d+Networks_)?[LR]H_([A-Za-z]+)_")


class Connectomes(NamedTuple):
    """The matrices of a folder.

    Attributes
    ----------
    matrices : array of shape (n, k, k)
        One for each file, in the order of their paths; NaN where no number is written.
    subjects : array of n texts
        Whose matrix each is, such as "sub-01". Give it as `groups`.
    names : list of k texts
        The regions.
    files : list of Path
        Where each matrix was read from.

    Examples
    --------
    >>> subjects = np.array(["sub-1", "sub-2"])
    >>> connectomes = Connectomes(np.zeros((2, 3, 3)), subjects, [], [])
    >>> len(set(connectomes.subjects))
    2
    """

    matrices: np.ndarray
    subjects: np.ndarray
    names: list[str]
    files: list[Path]


def read_relmat(path: str | Path) -> tuple[np.ndarray, list[str] | None]:
    """Read one connectivity matrix, such as a published mean of another study.

    Parameters
    ----------
    path : str or Path
        A tab-separated file: a plain matrix, or with the names of regions in its first
        line and its first column.

    Returns
    -------
    matrix : array of shape (k, k)
        NaN where no number is written.
    names : list of str, or None
        The regions, if the file names them.

    Raises
    ------
    ParameterError
        If the file cannot be read or is empty.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "group_relmat.tsv"
    >>> _ = path.write_text("Node\\tV1\\tV2\\nV1\\t1\\t0.5\\nV2\\t0.5\\t1\\n")
    >>> matrix, names = read_relmat(path)
    >>> names, float(matrix[0, 1])
    (['V1', 'V2'], 0.5)
    """
    lines = _read_lines(Path(path))
    names = _header_names(lines)
    return _parse_matrix(lines, names or _numbered_names(len(lines[0]))), names


def read_connectomes(
    folder: str | Path,
    *,
    atlas: str | None = None,
    measure: str | None = None,
    names: Sequence[str] | None = None,
    **entities: str,
) -> Connectomes:
    """Read the connectivity matrices of a BIDS derivative, such as the output of XCP-D.

    Parameters
    ----------
    folder : str or Path
        The folder, with a folder for each participant; as XCP-D leaves it.
    atlas : str, optional
        Which atlas, where there are several: the entity seg-, or atlas-.
    measure : str, optional
        Which measure, where there are several: the entity stat-, meas- or measure-. By
        default that of Pearson correlation if its name has "pearson" in it.
    names : sequence of str, optional
        The public regions, in this order. By default those that most participants'
        files name; each participant has one vote.
    **entities
        Which files otherwise, by the entities of their names, such as task="rest". A
        file with the entity desc- (matrices of a part of the volumes) is only read if
        desc is given.

    Returns
    -------
    Connectomes
        Several matrices of one participant (sessions, runs) stand one after the other;
        as `groups`, `subjects` makes one record of them.

    Raises
    ------
    ParameterError
        If there are no such files, if they have several atlases or measures, or if
        their regions differ. All of this is public.

    Notes
    -----
    The regions and the names of files are public. A file with other regions, or with
    fewer lines, is a matrix of NaN where they are missing; no message tells which. Where
    it is not agreed on beforehand which regions there are, give `names`.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for person in ("01", "02"):
    ...     path = folder / f"sub-{person}_seg-A_stat-pearsoncorrelation_relmat.tsv"
    ...     _ = write_relmat(path, np.eye(3), ["V1", "V2", "M1"])
    >>> connectomes = read_connectomes(folder)
    >>> connectomes.matrices.shape, connectomes.subjects.tolist(), connectomes.names
    ((2, 3, 3), ['sub-01', 'sub-02'], ['V1', 'V2', 'M1'])
    """
    root = Path(folder)
    if not root.is_dir():
        raise ParameterError(f"{folder} is no folder")
    matching_paths = [
        path for ending in ENDINGS for path in root.rglob(f"sub-*{ending}")
    ]
    files = sorted(path for path in matching_paths if path.is_file())
    if not files:
        raise ParameterError(
            f"{folder} has no connectivity matrices: files sub-…{', sub-…'.join(ENDINGS)}"
        )
    wanted = {"atlas": atlas, "measure": measure, **entities}
    files = _select_files(files, wanted)
    if measure is None:
        files = _prefer_pearson(files)
    for name in ("atlas", "measure"):
        _check_single_value(files, name)
    unnamed = [path for path in files if "sub" not in _entities(path)]
    if unnamed:
        raise ParameterError(f"{unnamed[0]} names no participant as sub-LABEL")
    return _read_files(files, None if names is None else [str(name) for name in names])


def _read_files(files: list[Path], names: Sequence[str] | None) -> Connectomes:
    """Return the matrices of files that have been selected.

    Parameters
    ----------
    files : list of Path
        At least one.
    names : sequence of str, or None
        The public regions; None takes the regions that most participants' files have.
    """
    subjects = [f"sub-{_entities(path)['sub']}" for path in files]
    if names is None:
        names = _most_common_names(files, subjects)
    if len(names) < 2 or len(set(names)) < len(names):
        raise ParameterError(
            "the files hold no matrices of two regions or more with names of their own"
        )
    if len(names) > _MAX_REGIONS:
        raise ParameterError(f"the matrices have more than {_MAX_REGIONS} regions")
    matrices = np.full((len(files), len(names), len(names)), np.nan)
    for number, path in enumerate(files):
        matrices[number] = _parse_matrix(_read_lines(path, is_record=True), names)
    return Connectomes(matrices, np.array(subjects), list(names), files)


def _most_common_names(files: list[Path], subjects: list[str]) -> list[str]:
    """Return the regions that most participants' files have; each has one vote.

    Parameters
    ----------
    files : list of Path
        The files. The first file of a participant is the vote.
    subjects : list of str
        The participant of each file.
    """
    votes = {}
    for path, subject in zip(files, subjects, strict=True):
        if subject not in votes:
            lines = _read_lines(path, is_record=True, max_lines=2)
            names = _header_names(lines)
            votes[subject] = _numbered_names(len(lines[0])) if names is None else names
    (winner, _), *_ = Counter(map(tuple, votes.values())).most_common(1)
    return list(winner)


def _numbered_names(size: int) -> list[str]:
    """Return "1", "2", … as the names of regions that no file names.

    Parameters
    ----------
    size : int
        The number of regions.
    """
    return [str(number + 1) for number in range(size)]


def _read_lines(
    path: Path, *, is_record: bool = False, max_lines: int | None = None
) -> list[list[str]]:
    """Return the cells of each line of a tab-separated file.

    Parameters
    ----------
    path : Path
        The file.
    is_record : bool
        Whether its contents are a person's data. Then no content raises an error: a
        file that is too long or empty is read as one line with one empty cell.
    max_lines : int, optional
        The largest number of lines that are read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ParameterError(f"cannot read {path}: {error.strerror}") from None
    if len(content) > _MAX_BYTES and not is_record:
        raise ParameterError(f"{path} has more than {_MAX_BYTES >> 20} MiB")
    if len(content) > _MAX_BYTES:
        return [[""]]
    text = content.decode("utf-8-sig", errors="replace")
    rows = [line.rstrip("\r") for line in text.split("\n") if line][:max_lines]
    if not rows and not is_record:
        raise ParameterError(f"{path} is empty")
    return [row.split("\t") for row in rows] or [[""]]


def _header_names(lines: list[list[str]]) -> list[str] | None:
    """Return the names of regions in the first line, or None if it is a row of numbers.

    A line of names has a text in its last cell. Its first cell may be empty, or name the
    rows, such as "Node". Names of regions may also be numbers: after a word such as
    "Node", or counted from 0 or 1, as pandas and R write tables.

    Parameters
    ----------
    lines : list of lists of str
        The cells of the first two lines, or of all.
    """
    first = lines[0]
    if _counts_up(first):
        return first
    has_row_names = len(lines) > 1 and lines[1][0] in first[1:]
    if has_row_names and (_is_word(first[0]) or _counts_up(first[1:])):
        return first[1:]
    if not _is_word(first[-1]):
        return None
    return first[1:] if has_row_names else first


def _has_row_names(lines: list[list[str]], names: Sequence[str]) -> bool:
    """Return whether the lines after the first begin with the name of a region.

    A number counts as a name only if a line has one cell more than there are regions.

    Parameters
    ----------
    lines : list of lists of str
        The cells of each line of the file.
    names : sequence of str
        The names of the regions.
    """
    if len(lines) < 2 or lines[1][0] not in names:
        return False
    return _is_word(lines[1][0]) or any(len(cells) > len(names) for cells in lines[1:])


def _is_word(cell: str) -> bool:
    """Return whether a cell is neither a number, nor empty, nor a missing value."""
    return cell not in ("", "n/a", "nan", "NaN") and not np.isfinite(
        _parse_number(cell)
    )


def _counts_up(cells: list[str]) -> bool:
    """Return whether cells are the numbers from 0 or 1 on: names, and no correlations.

    Two cells are not enough: they may be a row of a diagonal matrix.
    """
    size = len(cells)
    counts = ([str(start + step) for step in range(size)] for start in (0, 1))
    return size > 2 and cells in counts


def _parse_matrix(lines: list[list[str]], names: Sequence[str]) -> np.ndarray:
    """Return the matrix in the cells of a file, with NaN for what is not a number.

    If the file names its rows and columns, they are rearranged in the order of `names`.
    If it has no names, its order is assumed to be that of `names`, provided that the
    numbers of columns agree.

    Parameters
    ----------
    lines : list of lists of str
        The cells of the file.
    names : sequence of str
        The names of all regions, in the order of the result.
    """
    own_names = _header_names(lines)
    if own_names is None:
        return _matrix_without_names(lines, len(names))

    # The index in the result of each region of the file; None for an unknown region.
    index_of_name = {name: index for index, name in enumerate(names)}
    columns = [index_of_name.get(name) for name in own_names]
    matrix = np.full((len(names), len(names)), np.nan)
    has_row_names = _has_row_names(lines, own_names)
    for line_number, cells in enumerate(lines[1 : len(own_names) + 1]):
        target_row = columns[line_number]
        values = cells
        if has_row_names:
            target_row = index_of_name.get(cells[0])
            values = cells[1:]
        if target_row is None:
            continue
        for column, cell in zip(columns, values, strict=False):
            if column is not None:
                matrix[target_row, column] = _parse_number(cell)
    return matrix


def _matrix_without_names(lines: list[list[str]], size: int) -> np.ndarray:
    """Return the matrix in a file that holds numbers only.

    Parameters
    ----------
    lines : list of lists of str
        The cells of each line.
    size : int
        The number of regions that the file should have.

    Returns
    -------
    array, shape (size, size)
        NaN everywhere if the file has another number of columns.
    """
    matrix = np.full((size, size), np.nan)
    if len(lines[0]) != size:
        return matrix
    for row, cells in enumerate(lines[:size]):
        values = cells[:size]
        matrix[row, : len(values)] = [_parse_number(cell) for cell in values]
    return matrix


def _parse_number(cell: str) -> float:
    """Return the number in a cell, or NaN if it is not a number."""
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def _entities(path: Path) -> dict[str, str]:
    """Return the entities of a file's name, such as {"sub": "01", "task": "rest"}."""
    return dict(_ENTITY.findall(path.name))


def participants_of(paths: Sequence[str | Path]) -> list[str]:
    """Return the participant of each file, to be given as `groups`.

    Parameters
    ----------
    paths : sequence of paths
        Files of imaging data. Where all names have the entity sub-, as in BIDS, two
        files of one sub- are of one participant, such as two sessions; otherwise each
        file is a participant of its own.

    Raises
    ------
    ParameterError
        If one file is named twice, or only some names tell a participant.
    """
    files = [Path(path).resolve() for path in paths]
    if len(set(files)) < len(files):
        raise ParameterError("names one file twice", parameter="volumes")
    labels = [_entities(path).get("sub") for path in files]
    unnamed = [path for path, label in zip(files, labels, strict=True) if label is None]
    if not unnamed:
        return [f"sub-{label}" for label in labels]
    if len(unnamed) < len(files):
        raise ParameterError(
            f"{unnamed[0]} names no participant as sub-LABEL, and other files do"
        )
    return [str(path) for path in files]


def _entity_value(path: Path, name: str) -> str | None:
    """Return the value of an entity in a file's name, such as "rest" for "task"."""
    entities = _entities(path)
    for synonym in _SYNONYMS.get(name, (name,)):
        if synonym in entities:
            return entities[synonym]
    return None


def _select_files(files: list[Path], wanted: dict[str, str | None]) -> list[Path]:
    """Return the files with the wanted entities, or raise an error that lists others.

    Parameters
    ----------
    files : list of Path
        The candidates.
    wanted : dict
        The value of each entity; None for any.
    """
    selected = files
    if "desc" not in wanted:
        plain = [path for path in files if _entity_value(path, "desc") is None]
        selected = plain or files
    for name, value in wanted.items():
        if value is None:
            continue
        matching = [path for path in selected if _entity_value(path, name) == value]
        if not matching:
            available_values = entity_values(selected, name)
            raise ParameterError(
                f"must be one of {shown(available_values)}", parameter=name, value=value
            )
        selected = matching
    return selected


def _prefer_pearson(files: list[Path]) -> list[Path]:
    """Return the files of Pearson correlations if there are such, or all files."""
    pearson = [
        path
        for path in files
        if "pearson" in (_entity_value(path, "measure") or "").lower()
    ]
    return pearson or files


def check_correlations(files: Sequence[Path]) -> None:
    """Raise an error if the names of files say that their matrices are not correlations.

    Parameters
    ----------
    files : sequence of Path
        Files of one measure.

    Raises
    ------
    ParameterError
        For numbers or lengths of streamlines, covariances, Fisher's z and the like.
    """
    measure = _entity_value(files[0], "measure")
    if measure is not None and _NO_CORRELATIONS.search(measure.lower()):
        raise ParameterError(
            "is not a measure of correlation: choose one with --measure, or read the "
            "matrices in Python and release their mean in a space that fits them",
            parameter="measure",
            value=measure,
        )


def entity_values(files: Sequence[Path], name: str) -> list[str]:
    """Return the values that an entity has in the names of files, in sorted order.

    Parameters
    ----------
    files : sequence of Path
        The files.
    name : str
        The entity, such as "task".

    Returns
    -------
    list of str
        Each value once. The value "None" means that a name does not have the entity.
    """
    return sorted({str(_entity_value(path, name)) for path in files})


def _check_single_value(files: list[Path], name: str) -> None:
    """Refuse files of several atlases or measures."""
    there = entity_values(files, name)
    if len(there) > 1:
        raise ParameterError(f"is missing: say which of {shown(there)}", parameter=name)


def networks_of(names: Sequence[str], file: str | Path | None = None) -> list[str]:
    """Return the public network of each region.

    Parameters
    ----------
    names : sequence of str
        The regions. Without `file` their names are read as those of the Schaefer
        atlases (7Networks_LH_Vis_1, RH_DefaultA_PFCd_2); other regions, such as
        subcortical ones in XCP-D's 4S atlases, form a network "Other".
    file : str or Path, optional
        A tab-separated file that names the network of each region: the columns "name"
        (or "label") and "network" (or "network_label"), as in XCP-D's
        atlases/atlas-…/atlas-…_dseg.tsv.

    Raises
    ------
    ParameterError
        If no network is known of any region, or a region is not in the file.

    Examples
    --------
    >>> networks_of(["7Networks_LH_Vis_1", "7Networks_RH_Default_PFC_1", "LH-AMY"])
    ['Vis', 'Default', 'Other']
    """
    if file is not None:
        network_of_region = _read_networks(Path(file))
        missing = [name for name in names if name not in network_of_region]
        if missing:
            raise ParameterError(f"{file} does not name the network of {missing[0]!r}")
        return [network_of_region[name] for name in names]
    # The names of Schaefer's atlas contain the name of the network.
    matches = [_SCHAEFER.match(name) for name in names]
    labels = ["Other" if match is None else match[1] for match in matches]
    if set(labels) == {"Other"}:
        raise ParameterError(
            "is missing: the names of these regions do not tell their networks; give "
            "a file that does",
            parameter="networks",
        )
    return labels


def _read_networks(path: Path) -> dict[str, str]:
    """Return the network of each region in a public table.

    Parameters
    ----------
    path : Path
        A table with a header, and a column of regions and one of networks.

    Returns
    -------
    dict
        The network by the name of the region; "Other" for a region without one.
    """
    header, *rows = _read_lines(path)
    region = _find_column(path, header, ("name", "label", "region", "Node"))
    network = _find_column(path, header, ("network", "network_label", "networks"))
    table = {}
    for row in rows:
        if len(row) > max(region, network):
            # In BIDS and pandas "n/a" means that a value is missing.
            label = row[network]
            table[row[region]] = "Other" if label in ("", "n/a") else label
    return table


def _find_column(path: Path, header: list[str], names: Sequence[str]) -> int:
    """Return the position of the first of several columns that a table has.

    Parameters
    ----------
    path : Path
        The table, for the message.
    header : list of str
        Its first line.
    names : sequence of str
        Names of the column.
    """
    for name in names:
        if name in header:
            return header.index(name)
    raise ParameterError(f"{path} has no column {' or '.join(map(repr, names))}")


def read_region_names(path: str | Path) -> list[str]:
    """Return the public regions that a table lists, in its order.

    Parameters
    ----------
    path : str or Path
        A tab-separated file with the column "name" or "label", such as XCP-D's
        atlases/atlas-…/atlas-…_dseg.tsv.
    """
    header, *rows = _read_lines(Path(path))
    column = _find_column(Path(path), header, ("name", "label", "region", "Node"))
    return [row[column] for row in rows if len(row) > column]


def check_relmat_name(path: Path) -> None:
    """Refuse a file name that BIDS does not give to connectivity matrices.

    Parameters
    ----------
    path : Path
        The file that is to be written.
    """
    if not path.name.endswith(ENDINGS[:2]):
        raise ParameterError(
            "must end in _relmat.tsv or _relmat.dense.tsv",
            parameter="out",
            value=str(path),
        )


def _matrix_text(matrix: np.ndarray, labels: list[str] | None) -> str:
    """Return a matrix as lines of cells, which are separated by tabs.

    Parameters
    ----------
    matrix : array, shape (k, k)
        The matrix.
    labels : list of str or None
        The names of its rows and columns, which are written too; None for no names.
    """
    rows = [[f"{value:.9g}" for value in row] for row in matrix]
    if labels is not None:
        rows = [[label, *row] for label, row in zip(labels, rows, strict=True)]
        rows.insert(0, ["Node", *labels])
    return "".join("\t".join(row) + "\n" for row in rows)


def write_relmat(
    path: str | Path,
    matrix: np.ndarray,
    names: Sequence[str],
    *,
    measure: str = "PearsonCorrelation",
    certificate: Certificate | None = None,
) -> list[Path]:
    """Write a released matrix as BIDS connectivity data (BEP017), with its sidecar.

    Parameters
    ----------
    path : str or Path
        It ends in _relmat.tsv (with the names of regions, as XCP-D writes it), or in
        _relmat.dense.tsv (without; then the names are in …_nodeindices.tsv).
    matrix : array of shape (k, k)
        The matrix.
    names : sequence of k texts
        The regions.
    measure : str
        The name of the measure, for the sidecar.
    certificate : Certificate, optional
        Its guarantee and hash are named in the sidecar.

    Returns
    -------
    list of Path
        The files that were written.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "group_relmat.tsv"
    >>> [each.name for each in write_relmat(path, np.eye(2), ["V1", "V2"])]
    ['group_relmat.tsv', 'group_relmat.json']
    """
    path = Path(path)
    check_relmat_name(path)
    is_dense = path.name.endswith("_relmat.dense.tsv")
    stem = path.name.removesuffix("_relmat.dense.tsv" if is_dense else "_relmat.tsv")
    labels = [re.sub(r"[\t\r\n]", " ", str(name)) for name in names]
    # A dense file holds numbers only; its names are in a file of their own.
    own_labels = None if is_dense else labels
    write_atomically(path, _matrix_text(np.asarray(matrix), own_labels))
    sidecar = path.with_name(f"{stem}_relmat.json")
    description = _sidecar(len(labels), measure, certificate)
    write_atomically(sidecar, json.dumps(description, indent=2) + "\n")
    written = [path, sidecar]
    if is_dense:
        nodes = path.with_name(f"{stem}_nodeindices.tsv")
        lines = [f"{number}\t{label}\n" for number, label in enumerate(labels)]
        write_atomically(nodes, "".join(["matrix_index\tlabel\n", *lines]))
        written.append(nodes)
    return written


def _sidecar(
    size: int, measure: str, certificate: Certificate | None
) -> dict[str, Any]:
    """Return the metadata of a released matrix by the fields of BEP017.

    Parameters
    ----------
    size : int
        The number of regions.
    measure : str
        The name of the measure.
    certificate : Certificate, optional
        Of the release.
    """
    content: dict[str, Any] = {
        "RelationshipMeasure": measure,
        "Directed": False,
        "Weighted": True,
        "ValidDiagonal": True,
        "NonNegative": False,
        "Size": size,
        "Description": "Mean of a group, released with differential privacy.",
    }
    if certificate is not None:
        content["DifferentialPrivacy"] = {
            "Guarantee": str(certificate.guarantee),
            "PrivacyUnit": str(certificate.privacy_unit.value),
            "CertificateSHA256": certificate.provenance.sha256,
        }
    return content

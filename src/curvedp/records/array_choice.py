"""Which array of a file holds the records, and which arrays are refused.
Files such as npz, mat and zarr may hold several named arrays. Only arrays of numbers
and texts are read: loading objects could run code that the file contains.
"""

from pathlib import Path
from typing import NoReturn

from curvedp._validate import shown
from curvedp.errors import ParameterError


def choose_array(path: Path, names: list[str], key: str | None) -> str:
    """Return the name of the wanted array of a file: `key`, or the only array.

    Parameters
    ----------
    path : path
        The file.
    names : list of str
        The names of the arrays in the file.
    key : str, optional
        The name of the array that the caller asks for.

    Returns
    -------
    str
        The name of the array.

    Raises
    ------
    ParameterError
        If there is no such array, or several and `key` is missing.
    """
    if key is None and len(names) == 1:
        return names[0]
    if key is None:
        raise ParameterError(
            f"is missing: {path.name} holds the arrays {shown(sorted(names))}; say which",
            parameter="key",
        )
    if key not in names:
        raise ParameterError(
            f"must be one of the arrays {shown(sorted(names))} of {path.name}",
            parameter="key",
            value=key,
        )
    return key


def refuse_objects(path: Path) -> NoReturn:
    """Raise `ParameterError` for a file that holds objects.

    Loading objects could run code that the file contains.

    Parameters
    ----------
    path : path
        The file, for the message.
    """
    raise ParameterError(
        f"{path.name} holds Python objects or cells, not numbers: save it as "
        "x.astype(float)"
    )


def refuse_fields(path: Path) -> NoReturn:
    """Raise `ParameterError` for a file whose records have named fields.

    Parameters
    ----------
    path : path
        The file, for the message.
    """
    raise ParameterError(
        f"{path.name} holds records with named fields; an array of numbers is needed"
    )

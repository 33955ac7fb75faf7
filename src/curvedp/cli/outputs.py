"""The files that a command writes and the ledger that it charges, checked in advance.
An output that cannot be written, or that would overwrite an input, a ledger or a key,
is refused before anything is spent. If writing fails after that, the user is told to
keep what was printed.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from curvedp import _validate
from curvedp.cli.console import describe
from curvedp.cli.reading import TypedOptions
from curvedp.errors import CurvedpError, ParameterError

if TYPE_CHECKING:
    from curvedp.ledger import Ledger
    from curvedp.privacy.unit import PrivacyUnit

# How the files of ledgers (SQLite) and of private keys (PEM) begin.
_STARTS_OF_LEDGERS_AND_KEYS = (b"SQLite format 3\0", b"-----BEGIN ")

_LONGEST_START = 16

# Options that name no input: files that are written, and words for the ledger.
_OUTPUTS_AND_TEXTS = (
    "out",
    "plot",
    "map",
    "report",
    "certificate",
    "label",
    "as_user",
)

# The most characters of a ledger's label, and of the name of who releases.
_LONGEST_LABEL = 200

_LONGEST_USER = 60


def input_files(options: TypedOptions) -> list[Path | None]:
    """Return the files that a command reads, which no output may overwrite.

    Some texts may be the name of a file: people in an npy file, or the center of a ball.
    Every text that names a file that exists is counted as one.

    Parameters
    ----------
    options : mapping
        The options of the command, by their names in Python.

    Returns
    -------
    list of path
        The files, including files that do not exist.
    """
    paths: list[Path | None] = []
    for name, value in options.items():
        if name in _OUTPUTS_AND_TEXTS:
            continue
        typed_values = value if isinstance(value, list) else [value]
        for typed in typed_values:
            is_file_name = isinstance(typed, str) and os.path.isfile(typed)
            if isinstance(typed, Path) or is_file_name:
                paths.append(Path(typed))
    return paths


def check_targets(inputs: list[Path | None], **targets: Path | None) -> None:
    """Refuse, before anything is spent, outputs that cannot or must not be written.

    Parameters
    ----------
    inputs : list of path or None
        Files that must not be overwritten.
    **targets
        The outputs by the name of their option: `out`, `certificate`, `report`.

    Raises
    ------
    ParameterError
        If a target could not be written, or would overwrite an input or another target.
    """
    taken_paths = [path for path in inputs if path is not None]
    for name, target in targets.items():
        if target is None:
            continue
        _check_writable(name, target)
        for path in taken_paths:
            if _would_overwrite(name, target, path):
                raise ParameterError(
                    f"--{name} {target} is an input, the ledger or another output: "
                    "it would be overwritten"
                )
        taken_paths.append(target)


def _check_writable(name: str, target: Path) -> None:
    """Refuse a file of the option --`name` that could not be written.

    Parameters
    ----------
    name : str
        The option, such as "certificate".
    target : path
        Where its output would be written.
    """
    folder = target.absolute().parent
    if not folder.is_dir():
        raise ParameterError(f"the folder of {target} does not exist")
    written_path = target if target.exists() else folder
    if target.is_dir() or not os.access(written_path, os.W_OK):
        raise ParameterError(f"--{name} {target} cannot be written")
    if _is_ledger_or_key(target):
        raise ParameterError(
            f"--{name} {target} is a ledger or a private key: it is never overwritten"
        )


def _is_ledger_or_key(target: Path) -> bool:
    """Return whether a file holds a budget or a secret, by its first bytes.

    Nobody can make them again: what a ledger has spent would be forgotten.

    Parameters
    ----------
    target : Path
        A file that would be written.
    """
    if not target.is_file():
        return False
    try:
        with target.open("rb") as file:
            return file.read(_LONGEST_START).startswith(_STARTS_OF_LEDGERS_AND_KEYS)
    except OSError:
        return False


def _would_overwrite(name: str, target: Path, path: Path) -> bool:
    """Return whether writing the option --`name` to `target` would overwrite `path`.

    Several certificates are numbered: certificate.json stands for certificate-1.json,
    certificate-2-mean-of-class-b.json and so on, too.

    Parameters
    ----------
    name : str
        The option, such as "certificate".
    target : path
        Where its output would be written.
    path : path
        A file that must not be overwritten.

    Returns
    -------
    bool
        True also if `path` could be the name of a numbered certificate.
    """
    if target.resolve() == path.resolve():
        return True
    if target.exists() and path.exists() and target.samefile(path):
        return True
    if name != "certificate":
        return False
    target_folder = target.absolute().parent.resolve()
    is_beside = path.absolute().parent.resolve() == target_folder
    numbered_name = re.compile(
        rf"{re.escape(target.stem)}-\d+(-[\w-]+)?{re.escape(target.suffix)}"
    )
    return is_beside and numbered_name.fullmatch(path.name) is not None


def open_ledger_file(
    path: Path | None,
    budget_mu: float | None,
    key: Path | None,
    unit: "PrivacyUnit | None" = None,
) -> "Ledger | None":
    """Return the ledger to pay from, or None if none was named.

    A new ledger protects `unit`, or else what its first charge protects.

    A new one is made together with its first entry (`lazy`), so that a release that is
    refused leaves no file. A file that exists is never deleted: another process may
    have spent from it since anybody looked.

    Parameters
    ----------
    path : path or None
        The file of the ledger.
    budget_mu : float or None
        The budget of a new ledger.
    key : path or None
        The file with the ledger's key.
    unit : PrivacyUnit, optional
        The unit of privacy that a new ledger counts for.

    Returns
    -------
    Ledger or None
        The ledger, whose file may not exist yet.

    Raises
    ------
    ParameterError
        If the file does not exist and no budget is named.
    """
    from curvedp.privacy import GDP
    from curvedp.release.pay import open_ledger

    if path is None:
        return None
    if budget_mu is None:
        if not path.exists():
            raise ParameterError(
                f"there is no ledger at {path}. If there was one, restore it from a "
                "backup: a new one would not know what was spent. For the first release "
                "from these data, --budget-mu or `curvedp ledger create` starts one"
            )
        return open_ledger(path, key=key)
    _validate.positive("budget_mu", budget_mu)
    return open_ledger(path, GDP(budget_mu), key=key, lazy=True, unit=unit)


def ledger_label(title: str, user: str | None) -> str:
    """Return the label of a ledger's entry: printable and not too long.

    Parameters
    ----------
    title : str
        The statistic that is released.
    user : str or None
        Who releases it, if they say so.

    Returns
    -------
    str
        Such as "mean of tensors.npy, by anna".
    """
    ending = "" if user is None else f", by {user[:_LONGEST_USER]}"
    text = title[: _LONGEST_LABEL - len(ending)] + ending
    return "".join(character if character.isprintable() else "?" for character in text)


def why_not_written(error: Exception) -> str:
    """Return the message for an output that could not be written after paying.

    Everything that was released must have been printed before.

    Parameters
    ----------
    error : Exception
        Why it could not be written.
    """
    return (
        f"an output could not be written ({_reason_in_words(error)}); "
        "what was released, and may have been paid for, is above: keep it"
    )


def _reason_in_words(error: Exception) -> str:
    """Return in few words why an output could not be written.

    Parameters
    ----------
    error : Exception
        The error that was raised when it was written.
    """
    if isinstance(error, OSError):
        return str(error.strerror or error)
    if isinstance(error, CurvedpError):
        return describe(error)
    return f"{type(error).__name__}: {error}"

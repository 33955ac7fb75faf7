"""Where commands print, and how they refuse: a mistake is one line, never a traceback.
Results go to standard output, errors to standard error.
"""

import io
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from curvedp._files import write_atomically
from curvedp.errors import (
    BudgetExceeded,
    CurvedpError,
    ParameterError,
    ReleaseWarning,
    VerificationFailed,
)

console = Console()
errors = Console(stderr=True)

# What is typed for each of Python's parameters in the command that runs.
typed_names: ContextVar[dict[str, str] | None] = ContextVar("typed_names", default=None)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None
) -> None:
    """Print a table; cells that are too wide are folded, so that no digit is cut off.

    Parameters
    ----------
    columns : sequence of str
        The names of the columns.
    rows : iterable of sequences of str
        The cells of each row.
    title : str, optional
        The title above the table.
    """
    folding_columns = [Column(name, overflow="fold") for name in columns]
    table = Table(*folding_columns, title=title)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def waiting(activity: str) -> Any:
    """Return a context in which a terminal shows what the user is waiting for.

    If the output is not a terminal, nothing is shown.

    Parameters
    ----------
    activity : str
        The activity, such as "reading the records".

    Returns
    -------
    context manager
        The line disappears when the context is left.
    """
    return errors.status(f"{activity} …")


def describe(error: Exception) -> str:
    """Return the message of an error, with the parameter as it is typed: `--delta 2`.

    Parameters
    ----------
    error : Exception
        The error, whose parameter has its name in Python.
    """
    if isinstance(error, ParameterError):
        return error.render(typed_names.get() or {})
    return str(error)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn a user's mistake into one line and an exit code.

    The exit code is 1 if a claim is not confirmed, and 2 for everything else that
    curvedp refuses. Each text of a `ReleaseWarning` is printed once.
    """
    try:
        with _release_warnings_as_notes():
            yield
    except VerificationFailed as error:
        _print_error("not confirmed", str(error))
        raise typer.Exit(1) from None
    except BudgetExceeded as error:
        _print_error("refused", str(error))
        raise typer.Exit(2) from None
    except CurvedpError as error:
        _print_error("error", describe(error))
        raise typer.Exit(2) from None
    except OSError as error:
        text = str(error)
        if error.filename is not None and error.strerror is not None:
            text = f"{error.filename}: {error.strerror}"
        _print_error("error", text)
        raise typer.Exit(2) from None


@contextmanager
def _release_warnings_as_notes() -> Iterator[None]:
    """Print each `ReleaseWarning` as a note, once; leave other warnings to Python."""
    printed: set[str] = set()
    show_other_warning = warnings.showwarning

    def print_note(
        message: Warning | str, category: type[Warning], *args: Any, **kwargs: Any
    ) -> None:
        """Print a `ReleaseWarning`, and leave every other warning to Python.

        Parameters
        ----------
        message : Warning or str
            The warning.
        category : type
            Its class.
        *args, **kwargs : Any
            The other arguments of `warnings.showwarning`.
        """
        if not issubclass(category, ReleaseWarning):
            show_other_warning(message, category, *args, **kwargs)
        elif str(message) not in printed:
            printed.add(str(message))
            errors.print(
                f"[yellow]note[/]: {escape_markup(message)}",
                soft_wrap=True,
                highlight=False,
            )

    with warnings.catch_warnings():
        warnings.simplefilter("always", ReleaseWarning)
        warnings.showwarning = print_note
        yield


def _print_error(kind: str, text: str) -> None:
    """Print why a command ends: one word in red, and one line.

    Parameters
    ----------
    kind : str
        The word, such as "refused".
    text : str
        The line, which may quote a stranger's text.
    """
    errors.print(f"[bold red]{kind}[/]: {escape_markup(text)}", soft_wrap=True)


def escape_markup(text: object) -> str:
    """Return a text on one line, escaped so that the console prints it literally.

    The text may come from a stranger: markup and control characters in it have no
    effect.

    Parameters
    ----------
    text : object
        The text, or a value that `str` turns into one.
    """
    line = " ".join(str(text).split("\n"))
    # Without its quotation marks, `ascii` is the escape sequence of a character.
    printable_characters = [
        character if character.isprintable() else ascii(character)[1:-1]
        for character in line
    ]
    return escape("".join(printable_characters))


def check_picture(path: Path | None, name: str = "plot") -> None:
    """Refuse, before anything is computed, a picture that could not be written.

    Parameters
    ----------
    path : Path or None
        The file of the picture; None if there is none.
    name : str
        The option that names it.

    Raises
    ------
    ParameterError
        If the ending is not .svg, .png or .pdf, or the folder does not exist.
    """
    if path is not None and path.suffix not in (".svg", ".png", ".pdf"):
        raise ParameterError(f"--{name} {path} must end in .svg, .png or .pdf")
    if path is not None and not path.absolute().parent.is_dir():
        raise ParameterError(f"the folder of {path} does not exist")


def save_picture(figure: Any, path: Path) -> None:
    """Write a figure to a file that `check_picture` accepted, whole or not at all.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The picture.
    path : Path
        The file, whose ending says the format.
    """
    from matplotlib import rc_context

    from curvedp.report.canvas import own_style

    buffer = io.BytesIO()
    # Journals refuse fonts of type 3, which are matplotlib's default in a PDF.
    with own_style(), rc_context({"pdf.fonttype": 42}):
        figure.savefig(buffer, format=path.suffix[1:])
    write_atomically(path, buffer.getvalue())

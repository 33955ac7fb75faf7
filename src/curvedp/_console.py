"""What all commands share: where they print, how they refuse, and how a guarantee is given (extra: cli)."""

import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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

if TYPE_CHECKING:
    from curvedp.privacy import Guarantee

console = Console()
errors = Console(stderr=True)

Options = dict[str, tuple[Any, Any]]  # by name: annotation and default
# What Python's parameters are called in the command that runs.
_names: ContextVar[dict[str, str] | None] = ContextVar("names", default=None)
_ALIASES = {"n": "records", "eps": "epsilon", "delta0": "delta"}


def option(kind: Any, *names: str, help: str, default: Any = None) -> tuple[Any, Any]:
    """An option of a command, None where it is not given."""
    return Annotated[
        kind if default is not None else kind | None, typer.Option(*names, help=help)
    ], default


GUARANTEE: Options = {
    "mu": option(float, "--mu", help="Gaussian DP"),
    "epsilon": option(
        float, "--epsilon", help="alone: pure DP; with --delta: approximate DP"
    ),
    "delta": option(float, "--delta", help="goes with --epsilon"),
    "rho": option(float, "--rho", help="zero-concentrated DP"),
}
JsonOption = Annotated[
    bool, typer.Option("--json", help="print JSON instead of tables")
]
PictureOption = Annotated[
    Path | None, typer.Option(help="write a picture (svg, png or pdf)")
]


def with_options(
    function: Callable[..., None], options: Options, words: str | None
) -> Any:
    """A function of keywords with these options, for typer to read; what it refuses is one line."""

    names = _typed_names(options)

    def run(**given: Any) -> None:
        before = _names.set(names)
        try:
            with one_line_errors():
                function(**given)
        finally:
            _names.reset(before)

    made = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=a, default=d)
        for name, (a, d) in options.items()
    ]
    run.__signature__ = Signature(made)  # type: ignore[attr-defined]  # read by typer
    run.__annotations__ = {
        name: annotation for name, (annotation, _) in options.items()
    }
    run.__doc__, run.__name__ = words, getattr(function, "__name__", "run")
    return run


def _typed_names(options: Options) -> dict[str, str]:
    """Return what is typed for each of Python's parameters."""
    names = {}
    for name, (annotation, _) in options.items():
        # What typer is told about an option is the annotation's metadata.
        for info in getattr(annotation, "__metadata__", ()):
            if isinstance(info, typer.models.OptionInfo):
                names[name] = _long_name(name, info)
    for alias, name in _ALIASES.items():
        if name in names:
            names.setdefault(alias, names[name])
    return names


def _long_name(name: str, info: typer.models.OptionInfo) -> str:
    """Return the long form of an option, such as `--radius` of `--radius`, `-r`."""
    # Typer keeps the first name of an option as its default.
    declared = (info.default, *(info.param_decls or ()))
    for form in declared:
        if isinstance(form, str) and form.startswith("--"):
            return form.replace("/", " or ")
    return "--" + name.replace("_", "-")


def describe(error: Exception) -> str:
    """Return the message of an error, with the parameter as it is typed: `--delta 2`."""
    if isinstance(error, ParameterError):
        return error.render(_names.get() or {})
    return str(error)


def command(function: Callable[..., None]) -> Any:
    """A command of the function's own parameters, of which `guarantee` is asked for by four options."""
    own = signature(function).parameters
    options = {name: (each.annotation, each.default) for name, each in own.items()}
    if "guarantee" not in own:
        return with_options(function, options, function.__doc__)

    @wraps(function)
    def guaranteed(mu: Any, epsilon: Any, delta: Any, rho: Any, **given: Any) -> None:
        function(guarantee=asked(mu, epsilon, delta, rho), **given)

    place = list(own).index("guarantee")
    before, after = list(options.items())[:place], list(options.items())[place + 1 :]
    return with_options(
        guaranteed, {**dict(before), **GUARANTEE, **dict(after)}, function.__doc__
    )


def waiting(what: str) -> Any:
    """Return a context in which a terminal says what takes long; elsewhere it is silent."""
    return errors.status(f"{what} …")


def show(
    columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None
) -> None:
    """Print a table."""
    folded = (Column(name, overflow="fold") for name in columns)  # no digit is cut off
    table = Table(*folded, title=title)
    for row in rows:
        table.add_row(*row)
    console.print(table)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """A user's mistake is one line and an exit code, never a traceback; a warning of ours is one line, once."""
    told: set[str] = set()

    def note(
        message: Warning | str, category: type[Warning], *where: object, **more: object
    ) -> None:
        if not issubclass(category, ReleaseWarning):
            usual(message, category, *where, **more)  # type: ignore[arg-type]  # passed on as they came
        elif str(message) not in told:
            told.add(str(message))
            errors.print(
                f"[yellow]note[/]: {inert(message)}",
                soft_wrap=True,
                highlight=False,
            )

    usual = warnings.showwarning
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ReleaseWarning)
            warnings.showwarning = note
            yield
    except VerificationFailed as error:
        errors.print(f"[bold red]not confirmed[/]: {inert(error)}", soft_wrap=True)
        raise typer.Exit(1) from None
    except (CurvedpError, OSError) as error:
        kind = "refused" if isinstance(error, BudgetExceeded) else "error"
        named = (
            isinstance(error, OSError)
            and error.filename is not None
            and error.strerror is not None
        )
        text = f"{error.filename}: {error.strerror}" if named else describe(error)  # type: ignore[union-attr]  # an OSError's
        errors.print(f"[bold red]{kind}[/]: {inert(text)}", soft_wrap=True)
        raise typer.Exit(2) from None


def inert(text: object) -> str:
    """A text of somebody else's on one line: its markup is shown, its control characters are not obeyed."""
    line = " ".join(str(text).split("\n"))
    return escape("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line))


def asked(
    mu: float | None,
    epsilon: float | None,
    delta: float | None,
    rho: float | None = None,
) -> "Guarantee":
    """The one guarantee that the options name."""
    from curvedp.privacy import GDP, ZCDP, ApproxDP, PureDP

    if sum(value is not None for value in (mu, epsilon, rho)) != 1:
        raise ParameterError(
            "give the guarantee as --mu, as --epsilon (with --delta for approximate DP) or as --rho"
        )
    if delta is not None and epsilon is None:
        raise ParameterError("--delta goes with --epsilon, not with --mu")
    if mu is not None:
        return GDP(mu)
    if rho is not None:
        return ZCDP(rho)
    assert epsilon is not None  # exactly one of the three is given
    return PureDP(epsilon) if delta is None else ApproxDP(epsilon, delta)


def check_picture(path: Path | None) -> None:
    """Refuse, before anything is computed, a picture that could not be written."""
    if path is not None and path.suffix not in (".svg", ".png", ".pdf"):
        raise ParameterError(f"--plot {path} must end in .svg, .png or .pdf")
    if path is not None and not path.absolute().parent.is_dir():
        raise ParameterError(f"the folder of {path} does not exist")


def save_picture(figure: Any, path: Path) -> None:
    """Write a picture that was checked, whole or not at all."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:])
    write_atomically(path, buffer.getvalue())


def number_or_word(text: str) -> float | str:
    """A radius as it is typed: a number, or a word such as "private"."""
    try:
        return float(text)
    except ValueError:
        return text

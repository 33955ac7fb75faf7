"""Options that commands share, and how a function becomes a command.
`command` makes one of a function's own parameters. A parameter called `guarantee` is
asked for by four options, of which the user gives one kind.
"""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from curvedp.cli.console import one_line_errors, typed_names
from curvedp.core.fields import annotations_of
from curvedp.errors import ParameterError

if TYPE_CHECKING:
    from curvedp.privacy import Guarantee

# Options by their names in Python: the annotation that typer reads, and the default.
Options = dict[str, tuple[Any, Any]]

# Names that messages of the library use, and the options that are typed for them.
_ALIASES = {"n": "records", "eps": "epsilon", "delta0": "delta"}


def option(kind: Any, *names: str, help: str, default: Any = None) -> tuple[Any, Any]:
    """Declare an option of a command, which is None unless it is typed.

    Parameters
    ----------
    kind : type
        The type to which typer converts the typed text.
    *names : str
        The forms of the option, such as "--radius" and "-r".
    help : str
        The line in the help text.
    default : object
        The value if the option is not typed.

    Returns
    -------
    annotation, default
        The annotation and the default that typer reads, as in `Options`.
    """
    # An option with a default always has a value of its type.
    value_type: Any = kind if default is not None else kind | None
    annotation: Any = Annotated[value_type, typer.Option(*names, help=help)]
    return annotation, default


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
    function: Callable[..., None], options: Options, description: str | None
) -> Any:
    """Return a command that takes these options and passes them to a function.

    Typer reads the options off the signature; what the function refuses is one line.

    Parameters
    ----------
    function : callable
        The function that the command runs.
    options : dict
        The options by their names in Python.
    description : str or None
        The help text.
    """
    names = _typed_names(options)

    def run(**arguments: Any) -> None:
        """Run the function; a refusal becomes one line that names the typed options.

        Parameters
        ----------
        **arguments : Any
            The options by their names in Python.
        """
        token = typed_names.set(names)
        try:
            with one_line_errors():
                function(**arguments)
        finally:
            typed_names.reset(token)

    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in options.items()
    ]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {
        name: annotation for name, (annotation, _) in options.items()
    }
    run.__doc__ = description
    run.__name__ = function.__name__
    return run


def _typed_names(options: Options) -> dict[str, str]:
    """Return the option for each of Python's parameters, such as "--radius".

    Messages of the library name parameters as Python does; with this table they are
    printed with the option that the user can change.

    Parameters
    ----------
    options : dict
        The options of a command by their names in Python.

    Returns
    -------
    dict
        The long form of each option, by the name of the parameter.
    """
    names: dict[str, str] = {}
    for name, (annotation, _) in options.items():
        # What typer is told about an option follows the type.
        for info in annotations_of(annotation):
            if isinstance(info, typer.models.OptionInfo):
                names[name] = _long_name(name, info)
    for alias, name in _ALIASES.items():
        if name in names:
            names.setdefault(alias, names[name])
    return names


def _long_name(name: str, info: typer.models.OptionInfo) -> str:
    """Return the long form of an option, such as `--radius` of `--radius`, `-r`.

    Parameters
    ----------
    name : str
        The name of the option in Python.
    info : typer OptionInfo
        The declaration of the option.
    """
    # Typer keeps the first name of an option as its default.
    declared = (info.default, *(info.param_decls or ()))
    for form in declared:
        if isinstance(form, str) and form.startswith("--"):
            return form.replace("/", " or ")
    return "--" + name.replace("_", "-")


def command(function: Callable[..., None]) -> Any:
    """Turn a function into a command whose options are the function's parameters.

    A parameter called `guarantee` is asked for by four options: --mu, --epsilon,
    --delta and --rho.

    Parameters
    ----------
    function : callable
        The function; its docstring is the help text of the command.

    Returns
    -------
    callable
        The command, from whose signature typer reads the options.
    """
    parameters = signature(function).parameters
    options: Options = {
        name: (parameter.annotation, parameter.default)
        for name, parameter in parameters.items()
    }
    if "guarantee" not in options:
        return with_options(function, options, function.__doc__)

    @wraps(function)
    def with_guarantee(
        mu: float | None,
        epsilon: float | None,
        delta: float | None,
        rho: float | None,
        **arguments: Any,
    ) -> None:
        """Run the function with the guarantee that the four options name.

        Parameters
        ----------
        mu, epsilon, delta, rho : float or None
            The typed value of each of the four options.
        **arguments : Any
            The other options by their names in Python.
        """
        guarantee = guarantee_from_options(mu, epsilon, delta, rho)
        function(guarantee=guarantee, **arguments)

    # The four options stand where the function has its guarantee.
    typed_options: Options = {}
    for name, option_of_name in options.items():
        if name == "guarantee":
            typed_options |= GUARANTEE
        else:
            typed_options[name] = option_of_name
    return with_options(with_guarantee, typed_options, function.__doc__)


def guarantee_from_options(
    mu: float | None,
    epsilon: float | None,
    delta: float | None,
    rho: float | None = None,
) -> "Guarantee":
    """Return the one guarantee that the options name.

    Parameters
    ----------
    mu, epsilon, delta, rho : float or None
        The typed value of each option.

    Returns
    -------
    Guarantee
        `GDP`, `PureDP`, `ApproxDP` or `ZCDP`.

    Raises
    ------
    ParameterError
        If none or several are named, or a number is not allowed.
    """
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

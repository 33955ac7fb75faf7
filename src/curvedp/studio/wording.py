"""Errors in the words of the studio's page."""

from curvedp.errors import ParameterError

PAGE_NAMES = {
    "manifold": "space",
    "form": "written as",
    "header": "first line names the columns",
    "columns": "columns of the record",
    "sep": "separator",
    "decimal": "decimal sign",
    "key": "array in an npz or mat file, cells of an xlsx file",
    "groups": "column that says whose record it is",
    "labels": "column with the classes",
    "x": "column with the predictor",
    "n_components": "how many directions",
    "x_range": "its public range",
    "center": "its center",
    "radius": "radius",
    "outer_radius": "outer radius",
    "eps": "ε",
    "delta0": "δ",
    "mu": "μ",
    "rho": "ρ",
}
"""What parameters of Python are called on the page."""

_QUOTED_NAMES = {name: f"“{words}”" for name, words in PAGE_NAMES.items()}


def describe(error: Exception) -> str:
    """Return the message of an error on one line, with the parameter as on the page."""
    if isinstance(error, ParameterError):
        text = error.render(_QUOTED_NAMES)
    else:
        text = str(error)
    return " ".join(text.split())

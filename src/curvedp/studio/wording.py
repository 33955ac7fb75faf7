"""Error messages of the studio, with parameters named as they are on its page.
The library calls a parameter `radius`, for example, and the page calls it by its label.
"""

from curvedp.errors import ParameterError
from curvedp.studio.offers import page_offers

# What the page calls the parameters that are not options of a statistic.
_COMMON_NAMES = {
    "manifold": "space",
    "form": "written as",
    "header": "first line names the columns",
    "columns": "columns of the record",
    "sep": "separator",
    "decimal": "decimal sign",
    "key": "array in an npz or mat file, cells of an xlsx file",
    "groups": "column that says whose record it is",
    "ledger_key": "--ledger-key",
    "guarantee": "guarantee",
    "eps": "ε",
    "delta0": "δ",
    "mu": "μ",
    "rho": "ρ",
}


def page_names() -> dict[str, str]:
    """Return the page's name for each parameter of Python, in quotation marks.

    If several statistics have an option of one name, the first in the table names it.
    """
    names = dict(_COMMON_NAMES)
    for offer in page_offers().values():
        for option in offer.options:
            if option.label:
                names.setdefault(option.name, option.label)
        if offer.column is not None:
            names.setdefault(offer.column.name, offer.column.label)
    return {name: f"“{label}”" for name, label in names.items()}


def error_text(error: Exception) -> str:
    """Return the message of an error on one line, with parameters named as on the page.

    Parameters
    ----------
    error : Exception
        The error, whose parameter has the name that it has in Python.
    """
    if isinstance(error, ParameterError):
        text = error.render(page_names())
    else:
        text = str(error)
    return " ".join(text.split())

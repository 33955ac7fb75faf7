"""`curvedp studio`: a page of this machine's own on which a release is planned, paid for and made (extra: studio)."""

from curvedp import _words, errors

__all__ = ["WORDS", "on_page"]

try:
    import starlette  # noqa: F401 - whether it is there
    import uvicorn  # noqa: F401 - both are checked here so that the error names the extra
except ImportError as error:
    raise errors.MissingExtra(f"curvedp.studio needs {error.name}: pip install 'curvedp[studio,report]'") from error

# What parameters are called on the page.
WORDS = {
    "manifold": "space",
    "form": "written as",
    "header": "first line names the columns",
    "columns": "columns of the record",
    "sep": "separator",
    "decimal": "decimal sign",
    "key": "array in an npz or mat file, cells of an xlsx file",
    "groups": "column that says whose record it is",
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


def on_page(text: str) -> str:
    """A message of the library in the page's words."""
    return _words.in_words_of({name: f"“{word}”" for name, word in WORDS.items()}, text)

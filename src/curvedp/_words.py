"""Messages of the library, written for Python, in the words of those who typed or clicked something else."""

import re
from collections.abc import Mapping

_VALUE = r"(?P<value>'[\w.,:()-]+'|True\b|False\b|)(?P<more>(?=[^\s,;:.)?]))?"


def in_words_of(names: Mapping[str, str], text: object) -> str:
    """A message with each parameter as `names` calls it: with {"delta0": "--delta"}, `--delta 2` for `delta0=2`.

    >>> in_words_of({"header": "--header", "sep": "--sep"}, "say header=False, or what is between with sep=")
    'say --no-header, or what is between with --sep'
    """
    if not names:
        return str(text)

    def renamed(found: re.Match[str]) -> str:
        name, value = names[found["name"]], found["value"]
        if value in ("True", "False"):
            if name.startswith("--"):
                return name if value == "True" else "--no-" + name.removeprefix("--")
            value = {"True": "yes", "False": "no"}[value]
        return (
            f"{name} {value.strip(chr(39))}"
            if value or found["more"] is not None
            else name
        )

    known = "|".join(map(re.escape, names))
    text = re.sub(
        r"\bLog(Gaussian|Laplace)Mechanism\b",
        lambda found: f"log-{found[1].lower()}",
        str(text),
    )
    text = re.sub(rf"(?<![\w.-])(?<!\w\()(?P<name>{known})={_VALUE}", renamed, text)
    return re.sub(
        rf"(?<![\w-])({known})(?= is missing)", lambda found: names[found[1]], text
    )


PAGE = {
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
"""What parameters are called on the studio's page."""


def on_page(text: str) -> str:
    """A message in the words of the studio's page."""
    return in_words_of({name: f"“{word}”" for name, word in PAGE.items()}, text)

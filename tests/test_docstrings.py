"""Public names say what they are; those that others rely on also document every argument and show an example."""

import ast
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import curvedp

# What outside checks and users' code call by name; it is never renamed.
PROMISED = {
    "curvedp": "PrivateFrechetMean PrivateFrechetMedian PrivateDispersion PrivateGeodesicRegression PrivatePCA PrivateMDM "
    "Ledger check plan",
    "curvedp.geometry": "Euclidean Sphere Lorentz PoincareBall SPDAffineInvariant SPDLogEuclidean SPDLogCholesky "
    "SPDBuresWasserstein Stiefel Grassmann Rotations KendallShapes Product frechet_mean Torus Simplex Correlation "
    "SpecialEuclidean HPDAffineInvariant",
    "curvedp.laws": "RiemannianGaussian RiemannianLaplace",
    "curvedp.privacy": "PureDP ApproxDP ZCDP RenyiDP GDP RaoDP compose",
    "curvedp.mechanisms": "GaussianMechanism LaplaceMechanism LogGaussianMechanism KNGMechanism frechet_mean_sensitivity",
    "curvedp.optim": "dp_rgd dp_rsgd dp_rsvrg FrechetMeanProblem LeadingEigenvectorProblem Problem",
    "curvedp.inference": "two_sample_test",
    "curvedp.testing": "check_manifold",
}
ROOMS = [
    "curvedp",
    *(
        room.name
        for room in pkgutil.iter_modules(curvedp.__path__, "curvedp.")
        if room.ispkg
    ),
]


def parts(value: Any) -> list[str]:
    """Where the arguments of a class may be documented: scikit-learn has them on the class, a dataclass as attributes."""
    return [
        inspect.getdoc(value) or "",
        inspect.getdoc(getattr(value, "__init__", None)) or "",
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_says_what_it_is(room):
    package = importlib.import_module(room)
    named = {name: getattr(package, name) for name in getattr(package, "__all__", ())}
    said = {
        name: (inspect.getdoc(value) or "").split("\n\n")[0]
        for name, value in named.items()
        if callable(value)
    }
    assert not [name for name, first in said.items() if not first.strip()]


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_documents_what_it_takes_and_shows_it(room):
    package = importlib.import_module(room)
    named = {name: getattr(package, name) for name in getattr(package, "__all__", ())}
    taking = {name: value for name, value in named.items() if _takes(value)}
    assert not [name for name, value in taking.items() if not _sections(value)]
    assert not [name for name, value in taking.items() if not _shows(value)]


def _takes(value: Any) -> bool:
    """Functions and classes with arguments; warnings and errors take a message."""
    is_class = isinstance(value, type)
    if not (is_class or inspect.isroutine(value)):
        return False
    if is_class and issubclass(value, BaseException):
        return False
    return bool(inspect.signature(value).parameters)


def _sections(value: Any) -> bool:
    return any(
        f"{head}\n----------\n" in text
        for head in ("Parameters", "Attributes")
        for text in parts(value)
    )


def _shows(value: Any) -> bool:
    return any("Examples\n--------\n>>> " in text for text in parts(value))


@pytest.mark.parametrize(
    ("room", "name"),
    [(room, name) for room, names in PROMISED.items() for name in names.split()],
)
def test_promised_names_document_arguments_and_show_an_example(room, name):
    value = getattr(importlib.import_module(room), name)
    text = "\n".join(parts(value))
    assert "Parameters\n----------\n" in text
    assert "Examples\n--------\n>>> " in text
    after_title = text.split("Parameters\n----------\n")[1]
    # The section ends at the next title, which is underlined.
    documented = re.split(r"\n\n[A-Z]\w+( \w+)?\n-{3,}\n", after_title)[0]
    heads = ", ".join(
        line.split(" : ")[0]
        for line in documented.splitlines()
        if not line.startswith(" ")
    )
    arguments = [
        a for a in inspect.signature(value).parameters if a not in ("args", "kwargs")
    ]
    missing = set(arguments) - {head.strip().lstrip("*") for head in heads.split(",")}
    assert not missing, missing


def repeated_sections(docstring: str) -> list[str]:
    """The titles of a docstring that stand in it more than once."""
    titles = re.findall(r"^ *(\w+)\n *-{3,}$", docstring, re.MULTILINE)
    return sorted({title for title in titles if titles.count(title) > 1})


def test_no_docstring_has_a_section_twice():
    folder = Path(curvedp.__file__).parent
    found = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                for title in repeated_sections(ast.get_docstring(node) or ""):
                    found.append(f"{path.relative_to(folder)}: {node.name}, {title}")
    assert found == []


def test_a_repeated_section_is_found():
    section = "Parameters\n----------\nx : float\n"
    assert repeated_sections(f"Do it.\n\n{section}") == []
    assert repeated_sections(f"Do it.\n\n{section}\n{section}") == ["Parameters"]

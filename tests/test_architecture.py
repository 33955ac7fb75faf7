"""The house's rules, read off the source: imports follow the arrows, public names are what `__all__` says."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import curvedp

ROOT = Path(curvedp.__file__).parent
BASE = {"errors", "_validate", "_numerics"}

# Who may import whom (besides itself and BASE). What is not listed here is not allowed: data walks one way.
ARROWS = {
    "errors": set(),
    "_validate": set(),
    "_numerics": set(),
    "geometry": set(),
    "privacy": set(),
    "entropy": set(),
    "laws": {"geometry", "privacy", "entropy"},
    "mechanisms": {
        "geometry",
        "laws",
        "privacy",
        "entropy",
        "regression",
    },  # regression's bounds, to verify certificates
    "ledger": {"privacy"},
    "regression": {"geometry"},
    "optim": {"geometry", "privacy", "laws", "entropy", "records"},
    "estimators": {
        "geometry",
        "laws",
        "privacy",
        "entropy",
        "mechanisms",
        "ledger",
        "optim",
        "regression",
        "records",
    },
    "records": {"geometry"},
    "federated": {"geometry", "privacy", "entropy", "mechanisms", "ledger", "records"},
    "checking": {"geometry", "records"},
    "audit": {"regression", "geometry", "laws", "privacy", "entropy", "mechanisms", "ledger", "estimators", "optim"},
    "report": {"regression", "geometry", "laws", "privacy", "mechanisms", "ledger", "estimators", "audit", "optim"},
}
TOP = {"cli", "demo", "__init__", "__main__"}  # the doors: they may import everything


def part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Top-level parts of curvedp that a file imports, at the top or inside functions."""
    package = ["curvedp", *path.relative_to(ROOT).parts[:-1]]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parent = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*parent, *([node.module] if node.module else [])])
            # `from curvedp import privacy` and `from .. import errors` name the part in the list
            modules = [f"{module}.{alias.name}" for alias in node.names] if module == "curvedp" else [module]
        else:
            continue
        found |= {name.split(".")[1] for name in modules if name.startswith("curvedp.")}
    return found


FILES = sorted(path for path in ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_arrows(path):
    here = part(path)
    if here in TOP:
        return
    assert here in ARROWS, f"{here} has no place in the house: add it to ARROWS with what it may import"
    names = {name for name in imports(path) if name.islower()}  # a public class of the front door is no part
    wrong = names - ARROWS[here] - BASE - {here}
    assert not wrong, f"{here} must not import {sorted(wrong)}"


def test_the_check_can_fail(tmp_path, monkeypatch):
    """A file of `privacy` that reaches for geometry, in each spelling, is seen."""
    for line in (
        "from curvedp.geometry import Sphere",
        "import curvedp.geometry.manifolds.sphere",
        "from ..geometry.sphere import Sphere",
        "from curvedp import geometry",
        "def f():\n    from ..geometry import Sphere",
    ):
        folder = tmp_path / "privacy"
        folder.mkdir(exist_ok=True)
        (folder / "wrong.py").write_text(line)
        monkeypatch.setitem(globals(), "ROOT", tmp_path)
        assert imports(folder / "wrong.py") == {"geometry"}


PACKAGES = ["curvedp", *(f"curvedp.{m.name}" for m in pkgutil.iter_modules([str(ROOT)]) if m.ispkg)]


@pytest.mark.parametrize("name", PACKAGES)
def test_public_names_are_all(name):
    package = importlib.import_module(name)
    stated = getattr(package, "__all__", [])
    assert len(stated) == len(set(stated)), f"__all__ of {name} repeats a name"
    missing = [public for public in stated if not hasattr(package, public)]
    assert not missing, f"{name}.__all__ names {missing}, which do not exist"
    tree = ast.parse(inspect.getsource(package))
    bound = set()
    for node in tree.body:
        # what a package takes from the project is there to be passed on; the standard library's names are not
        if isinstance(node, ast.ImportFrom) and (node.level or str(node.module).startswith("curvedp.")):
            bound |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
    extra = {public for public in bound if not public.startswith("_")} - set(stated)
    assert not extra, f"{name} binds {sorted(extra)} without naming them in __all__"

"""The house's rules, read off the source: imports follow the arrows, public names are what `__all__` says."""

import ast
import compileall
import functools
import importlib
import inspect
import json
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import curvedp

ROOT = Path(curvedp.__file__).parent
PROJECT = Path(__file__).parents[1]
BASE = {
    "errors",
    "_validate",
    "_files",
    "_lazy",
    "_registry",
    "_silence",
}

# Who imports whom (besides itself and BASE): exactly these arrows are used, and no others are allowed.
ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "_validate": set(),
    "_files": set(),
    "_lazy": set(),
    "_registry": set(),
    "_silence": set(),
    "numerics": set(),
    "randomness": {"numerics"},
    "privacy": {"numerics"},
    "signing": set(),
    "geometry": {"numerics"},
    "records": {"geometry", "numerics"},
    "laws": {"randomness", "geometry", "numerics", "privacy"},
    "regression": {"geometry", "numerics"},
    "core": {
        "randomness",
        "geometry",
        "laws",
        "numerics",
        "privacy",
        "records",
        "release",
        "signing",
    },  # `release`: the warnings in a certificate's table for notebooks
    "statistics": {
        "core",
        "geometry",
        "numerics",
        "records",
        "regression",
    },
    "mechanisms": {
        "core",
        "randomness",
        "geometry",
        "laws",
        "numerics",
        "privacy",
        "records",
        "regression",
        "statistics",
    },
    "ledger": {"numerics", "privacy"},
    "release": {
        "core",
        "randomness",
        "geometry",
        "laws",
        "ledger",
        "mechanisms",
        "privacy",
        "statistics",
    },
    "estimators": {
        "core",
        "randomness",
        "geometry",
        "inference",
        "ledger",
        "mechanisms",
        "optim",
        "privacy",
        "records",
        "regression",
        "release",
        "report",
        "statistics",
    },  # `PrivateTangentPCA.plot`
    "optim": {
        "core",
        "randomness",
        "geometry",
        "mechanisms",
        "numerics",
        "privacy",
        "records",
        "statistics",
    },
    "inference": {
        "core",
        "randomness",
        "geometry",
        "laws",
        "ledger",
        "mechanisms",
        "privacy",
        "records",
        "regression",
        "release",
        "report",
        "statistics",
    },  # `Region.plot`
    "federated": {
        "core",
        "randomness",
        "geometry",
        "ledger",
        "mechanisms",
        "numerics",
        "privacy",
        "records",
        "release",
        "signing",
        "statistics",
    },
    "local": {
        "core",
        "geometry",
        "laws",
        "mechanisms",
        "numerics",
        "planning",
        "privacy",
        "randomness",
        "records",
        "report",
        "signing",
    },
    "adapters": {"core", "numerics", "randomness", "geometry", "ledger", "privacy"},
    "neuro": {
        "core",
        "estimators",
        "geometry",
        "inference",
        "ledger",
        "mechanisms",
        "privacy",
        "randomness",
        "records",
        "release",
        "report",
        "statistics",
    },
    "audit": {
        "core",
        "randomness",
        "estimators",
        "geometry",
        "laws",
        "mechanisms",
        "optim",
        "privacy",
        "records",
        "release",
        "statistics",
    },
    "report": {
        "core",
        "geometry",
        "inference",
        "ledger",
        "privacy",
        "records",
        "release",
        "statistics",
    },
    "papers": {
        "audit",
        "estimators",
        "geometry",
        "laws",
        "local",
        "mechanisms",
        "numerics",
        "optim",
        "privacy",
        "randomness",
        "regression",
        "report",
    },
    "comparing": {
        "estimators",
        "geometry",
        "inference",
        "ledger",
        "privacy",
        "records",
        "releasing",
        "report",
    },
    "studio": {
        "checking",
        "comparing",
        "core",
        "randomness",
        "estimators",
        "geometry",
        "inference",
        "ledger",
        "local",
        "mechanisms",
        "planning",
        "privacy",
        "records",
        "release",
        "releasing",
        "report",
        "signing",
        "statistics",
        "verification",
    },
    "verification": {"core", "signing"},
    "verify_worker": {
        "core",
        "geometry",
        "inference",
        "local",
        "records",
        "release",
        "statistics",
    },
    "releasing": {"core", "estimators", "geometry", "planning", "records", "report"},
    "statement": {"core", "inference", "ledger", "privacy"},
    "topics": {"geometry", "records"},
    "testing": {"conformance", "geometry"},
    "conformance": {
        "core",
        "randomness",
        "geometry",
        "mechanisms",
        "records",
        "release",
    },
}
# The doors: they may import everything.
TOP = {
    "cli",
    "demo",
    "__init__",
    "__main__",
    "checking",
    "planning",
}


def part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@functools.cache
def import_nodes(path: Path) -> list[ast.Import | ast.ImportFrom]:
    return [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]


def imports(path: Path) -> set[str]:
    """Top-level parts of curvedp that a file imports, at the top or inside functions."""
    package = ["curvedp", *path.relative_to(ROOT).parts[:-1]]
    found = set()
    for node in import_nodes(path):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            parent = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*parent, *([node.module] if node.module else [])])
            # `from curvedp import privacy` and `from .. import errors` name the part in the list
            modules = (
                [f"{module}.{alias.name}" for alias in node.names]
                if module == "curvedp"
                else [module]
            )
        found |= {name.split(".")[1] for name in modules if name.startswith("curvedp.")}
    return found


FILES = sorted(path for path in ROOT.rglob("*.py"))


def used(here: str) -> set[str]:
    names = {name for path in FILES if part(path) == here for name in imports(path)}
    return (
        {name for name in names if name.islower()} - BASE - {here}
    )  # a public class of the front door is no part


@pytest.mark.parametrize("here", sorted({part(path) for path in FILES} - TOP))
def test_the_arrows_are_what_is_used(here):
    assert here in ARROWS, (
        f"{here} has no place in the house: add it to ARROWS with what it imports"
    )
    assert used(here) == ARROWS[here]


# From the bottom up: a layer may import those before it.
LAYERS = [
    "numerics",
    "randomness",
    "privacy",
    "signing",
    "geometry",
    "records",
    "laws",
    "regression",
    "core",
    "statistics",
    "mechanisms",
    "ledger",
    "release",
]
# A certificate's table for notebooks shows the warnings about it.
UPWARD_IMPORTS = {("core", "release")}


def test_no_layer_imports_a_higher_one():
    upward = {
        (layer, imported)
        for height, layer in enumerate(LAYERS)
        for imported in ARROWS[layer]
        if imported not in LAYERS[:height]
    }
    assert upward == UPWARD_IMPORTS


def private_names(path: Path) -> list[str]:
    """Names with a leading underscore, or modules with one, that a file takes from another room."""
    found = []
    for node in import_nodes(path):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("curvedp."):
            room, *rest = node.module.split(".")[1:]
            names = [alias.name for alias in node.names]
            if room != part(path) and any(
                name.startswith("_") for name in (*rest, *names)
            ):
                found.append(f"{node.module}: {', '.join(names)}")
    return found


def test_no_private_name_crosses_a_room():
    crossing = {str(path.relative_to(ROOT)): private_names(path) for path in FILES}
    assert {path: names for path, names in crossing.items() if names} == {}


def test_the_check_can_fail(tmp_path, monkeypatch):
    """A file of `privacy` that reaches for geometry, in each spelling, is seen."""
    for line in (
        "from curvedp.geometry import Sphere",
        "import curvedp.geometry.spaces.sphere",
        "from ..geometry.sphere import Sphere",
        "from curvedp import geometry",
        "def f():\n    from ..geometry import Sphere",
    ):
        folder = tmp_path / "privacy"
        folder.mkdir(exist_ok=True)
        (folder / "wrong.py").write_text(line)
        monkeypatch.setitem(globals(), "ROOT", tmp_path)
        assert imports(folder / "wrong.py") == {"geometry"}


PACKAGES = [
    "curvedp",
    *(f"curvedp.{m.name}" for m in pkgutil.iter_modules([str(ROOT)]) if m.ispkg),
]


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
        if isinstance(node, ast.ImportFrom) and (
            node.level or str(node.module).startswith("curvedp.")
        ):
            bound |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
    extra = {public for public in bound if not public.startswith("_")} - set(stated)
    assert not extra, f"{name} binds {sorted(extra)} without naming them in __all__"


LAZY = [
    name
    for name in PACKAGES
    if "_lazy.exports" in inspect.getsource(importlib.import_module(name))
]


def shown_to_type_checkers(name):
    """The module of each name, by the imports of the package's `if TYPE_CHECKING:` block."""
    tree = ast.parse(inspect.getsource(importlib.import_module(name)))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    return {
        alias.name: line.module
        for block in blocks
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }


def found_at_run_time(name):
    """The module of each name, by the table that is given to `_lazy.exports`."""
    tree = ast.parse(inspect.getsource(importlib.import_module(name)))
    (table,) = [
        ast.literal_eval(node.args[1])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "_lazy.exports"
    ]
    return {each: module for module, names in table.items() for each in names}


@pytest.mark.parametrize("name", LAZY)
def test_no_lazy_name_is_a_module(name):
    """Importing the module would bind the name to it, sooner or later than the name was asked for."""
    package = importlib.import_module(name)
    names = found_at_run_time(name)
    assert names == shown_to_type_checkers(name)
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert not modules & names.keys()
    assert dir(package) == sorted(package.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


def test_without_sources_every_name_is_found(tmp_path):
    """In a copy of the package that has bytecode alone, as hardened images have it."""
    copy = tmp_path / "curvedp"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(copy, quiet=2, legacy=True, workers=1)
    for path in copy.rglob("*.py"):
        path.unlink()
    lines = [
        "import curvedp, importlib",
        f"for name in {LAZY!r}:",
        "    package = importlib.import_module(name)",
        "    assert package.__file__.endswith('.pyc'), package.__file__",
        "    for public in package.__all__:",
        "        getattr(package, public)",
        "print(curvedp.GDP(1.0))",
    ]
    found = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert found.stdout.strip() == "GDP(1.0)", found.stderr


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_registries_do_not_depend_on_what_was_imported_first():
    """Certificates list which mechanisms were not considered, in the order of the registry."""
    show = "from curvedp.core.registry import mechanisms as m, statistics as s; print(m.names(), s.names())"
    plain = run(show)
    first = "import curvedp.mechanisms.noisy_sum, curvedp.mechanisms.knorm_gradient; "
    assert plain == run(first + show)
    assert "k-norm-gradient" in plain
    assert "Fréchet mean in a private ball" in plain


def test_a_site_s_process_imports_little():
    """Each message to a site starts a process: what takes long to import is for others."""
    loaded = run("import sys, curvedp.federated.site; print(*sys.modules)").split()
    assert not {
        "scipy.special",
        "flint",
        "numpy.testing",
        "curvedp.laws.gaussian",
        "sklearn",
    } & set(loaded)
    assert "curvedp.core.mechanism" in loaded


def test_the_worker_of_verify_imports_little():
    """Each verification starts a process: scipy.stats was a quarter of its imports."""
    loaded = run("import sys, curvedp.verify_worker; print(*sys.modules)").split()
    assert not {"scipy.stats", "sklearn", "matplotlib", "jax"} & set(loaded)
    assert "curvedp.release.verify" in loaded


def _readers() -> dict[str, ast.Module]:
    """Every file of the project that calls `np.load`, the gallery's notebooks among them."""
    found = {}
    folders = ("src", "tests", "benchmarks", "examples", "docs")
    for path in (path for folder in folders for path in (PROJECT / folder).rglob("*")):
        if path.suffix in (".py", ".ipynb") and "np.load(" in (
            text := path.read_text(encoding="utf-8")
        ):
            if path.suffix == ".ipynb":
                cells = json.loads(text)["cells"]
                text = "\n".join(
                    "".join(cell["source"])
                    for cell in cells
                    if cell["cell_type"] == "code"
                )
            found[str(path.relative_to(PROJECT))] = ast.parse(text)
    return found


def test_archives_are_closed():
    """An npz archive keeps its file open. Left to the garbage collector, it warns in whatever test runs then."""
    readers = _readers()
    assert len(readers) > 8
    for name, tree in readers.items():
        closed = {
            id(item.context_expr)
            for node in ast.walk(tree)
            if isinstance(node, ast.With)
            for item in node.items
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "np.load":
                given = ast.unparse(
                    node.args[0]
                )  # an array is read and closed, and so is a file by who opened it
                assert id(node) in closed or ".npy" in given or given == "file", (
                    f"{name}:{node.lineno}"
                )

"""The contract stays small, and everything in it is declared.

A reader of `Mechanism` and `Statistic` must be able to hold all of them in mind, and what a
type checker cannot see does not exist: optional abilities are base classes, not attributes
that are looked for by name.
"""

import ast
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import curvedp
from curvedp.core import registry
from curvedp.core.certificate import Certificate
from curvedp.core.mechanism import Mechanism
from curvedp.core.statistic import Statistic

PACKAGE = Path(curvedp.__file__).parent
ALL_FILES = sorted(PACKAGE.rglob("*.py"))


def public_members(kind):
    """Return the public names that a class itself defines or declares."""
    names = {*vars(kind), *vars(kind).get("__annotations__", {})}
    return {name for name in names if not name.startswith("_")}


def test_the_contract_of_a_mechanism_is_small():
    members = public_members(Mechanism)
    assert len(members) <= 12, sorted(members)
    assert {"calibrate", "draw", "release", "statistic", "info"} <= members


def test_the_contract_of_a_statistic_is_small():
    members = public_members(Statistic)
    assert len(members) <= 10, sorted(members)
    assert {"compute", "sensitivity", "privacy_units", "name"} <= members


def test_the_contract_of_a_certificate_is_small():
    """What a file holds beside the claims is one member, `provenance`."""
    members = public_members(Certificate)
    assert len(members) <= 15, sorted(members)
    assert {"claims", "from_json", "load", "provenance", "save", "to_json"} <= members


def test_a_member_that_is_added_is_counted():
    """Control: methods, properties, constants and declared fields all count."""

    @dataclass(frozen=True)
    class Example:
        field: int
        field_with_default: int = 1

        constant = 2
        _private = 3

        def method(self):
            return self.field

        @property
        def value(self):
            return self.field

    expected = {"field", "field_with_default", "constant", "method", "value"}
    assert public_members(Example) == expected


def test_no_class_replaces_the_only_builder_of_certificates():
    """`Mechanism.release` alone writes certificates, whatever is released."""
    for kind in registry.mechanisms:
        owners = [base for base in kind.__mro__ if "release" in vars(base)]
        assert owners == [Mechanism], kind


# ---- what the code may not do


def calls(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def called_name(call):
    """Return the last part of what is called: "property", "hasattr", …"""
    if isinstance(call.func, ast.Name):
        return call.func.id
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return ""


def lambdas_as_members(tree):
    """Return the lines where a property is made of a lambda, and has no docstring."""
    makers = ("property", "cached_property", "fact")
    return [
        call.lineno
        for call in calls(tree)
        if called_name(call) in makers
        and any(isinstance(argument, ast.Lambda) for argument in call.args)
    ]


def lines_in(paths, find):
    """Return "file:line" for everything that is found."""
    found = []
    for path in paths:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        where = path.relative_to(PACKAGE)
        found += [f"{where}:{line}" for line in find(tree)]
    return found


def test_no_property_is_a_lambda():
    assert len(ALL_FILES) > 100
    assert lines_in(ALL_FILES, lambdas_as_members) == []


@pytest.mark.parametrize(
    ("find", "code"),
    [
        (lambdas_as_members, "size = property(lambda self: 1)"),
        (lambdas_as_members, "size = fact(lambda self: 1)"),
        (lambdas_as_members, "size = functools.cached_property(lambda self: 1)"),
    ],
)
def test_what_is_forbidden_is_found(find, code):
    assert find(ast.parse(code)) == [1]


@pytest.mark.parametrize(
    "code",
    [
        "key = sorted(found, key=lambda each: each.error)",
        "size = property(read_size)",
    ],
)
def test_what_is_allowed_is_not_found(code):
    tree = ast.parse(code)
    assert lambdas_as_members(tree) == []


# Where an attribute is asked for by a name that the type checker does not see: the function, and why.
PROBES = {
    (
        "_lazy.py",
        "get_attribute",
    ): "PEP 562: a package's names are imported on first use",
    ("_validate.py", "refuse_sparse"): "SciPy's sparse arrays, without importing SciPy",
    ("_validate.py", "public_shape"): "ranges and such, which have a length alone",
    ("_validate.py", "field_values"): "the declared fields of a dataclass",
    ("errors.py", "_may_be_records"): "arrays of any library",
    ("numerics/arrays.py", "_type_code"): "types of PyTorch have no code of NumPy",
    ("numerics/arrays.py", "detach"): "tensors of PyTorch",
    ("numerics/arrays.py", "is_on_accelerator"): "the DLPack protocol",
    ("numerics/arrays.py", "to_host"): "arrays of PyTorch and CuPy",
    ("records/base.py", "is_chunked"): "dask, without importing it",
    ("estimators/base.py", "delete_fitted_attributes"): "what an earlier fit has set",
    ("numerics/arrays.py", "wrap_kernels"): "every kernel of a manifold accepts lists",
    ("testing.py", "check_value"): "whether a manifold is frozen",
    (
        "testing.py",
        "batched_methods",
    ): "the kernels of a table, by the names in messages",
}


def probing_functions(path: Path, folder: Path = PACKAGE) -> set[tuple[str, str]]:
    """The functions of a file that look for an attribute by a name, or set one."""
    found = set()
    tree = ast.parse(path.read_text())
    for function in ast.walk(tree):
        if not isinstance(
            function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
        ):
            continue
        for call in own_calls(function):
            name = call.func.id if isinstance(call.func, ast.Name) else ""
            if name in ("hasattr", "getattr", "setattr", "delattr"):
                where = function.name if not isinstance(function, ast.Module) else ""
                found.add((str(path.relative_to(folder)), where))
    return found


def own_calls(function: ast.AST):
    """Yield the calls in a function, without those in functions inside it."""
    for child in ast.iter_child_nodes(function):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from own_calls(child)


def test_attributes_are_declared_and_not_probed():
    found = set().union(*(probing_functions(path) for path in ALL_FILES))
    assert found == set(PROBES)


def test_a_probe_is_seen(tmp_path):
    for line in ("hasattr(x, 'of')", "getattr(x, name)", "setattr(x, 'of', 1)"):
        (tmp_path / "wrong.py").write_text(f"def f(x, name):\n    return {line}\n")
        expected = {("wrong.py", "f")}
        assert probing_functions(tmp_path / "wrong.py", tmp_path) == expected


SNIPPET = """
from curvedp.core.mechanism import Mechanism
from curvedp.mechanisms import GaussianMechanism
from curvedp.mechanisms.gradient_step import GradientMechanism


def read(any_kind: Mechanism, of_point: GaussianMechanism, of_mean: GradientMechanism) -> None:
    print(any_kind.statistic.sensitivity, of_point.statistic.chart_base, of_mean.statistic.n)
    print(any_kind.statistic.sensitivty)
    print(of_point.statistic.chart_bass)
    print(of_mean.statistic.ball.centre)
    print(of_mean.privacy_profil)
"""


@pytest.mark.slow
def test_a_misspelled_attribute_is_an_error_of_types(tmp_path):
    """What the review found in the old contract: mypy passed `mechanism.statistic.sensitivty`."""
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET)
    project = PACKAGE.parents[1]
    arguments = ["-m", "mypy", "--config-file", "pyproject.toml", str(snippet)]
    checked = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in checked.stdout.splitlines() if "snippet.py" in line]
    names = ("sensitivty", "chart_bass", "centre", "privacy_profil")
    assert len(lines) == len(names), checked.stdout
    for line, name in zip(lines, names, strict=True):
        assert f'has no attribute "{name}"' in line

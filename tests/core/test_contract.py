"""The contract stays small, and everything in it is declared.

A reader of `Mechanism` and `Statistic` must be able to hold all of them in mind, and what a
type checker cannot see does not exist: optional abilities are base classes, not attributes
that are looked for by name.
"""

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

import curvedp
from curvedp.core import registry
from curvedp.core.mechanism import Mechanism
from curvedp.core.statistic import Statistic

PACKAGE = Path(curvedp.__file__).parent
STRICT_PACKAGES = ("core", "statistics", "mechanisms", "release")
ALL_FILES = sorted(PACKAGE.rglob("*.py"))
STRICT_FILES = [
    path for name in STRICT_PACKAGES for path in sorted((PACKAGE / name).rglob("*.py"))
]


def public_members(kind):
    """Return the public names that a class itself defines or declares."""
    names = {*vars(kind), *vars(kind).get("__annotations__", {})}
    return {name for name in names if not name.startswith("_")}


def test_the_contract_of_a_mechanism_is_small():
    members = public_members(Mechanism)
    assert len(members) <= 16, sorted(members)
    assert {"calibrate", "draw", "release", "statistic", "info"} <= members


def test_the_contract_of_a_statistic_is_small():
    members = public_members(Statistic)
    assert len(members) <= 11, sorted(members)
    assert {"compute", "sensitivity", "privacy_units", "name"} <= members


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


def probes(tree):
    """Return the lines where an attribute is looked for by a name in the code.

    Names of the language itself, such as "__metadata__", are not part of any contract,
    and a name that is a variable runs over declared fields.
    """
    found = []
    for call in calls(tree):
        name = called_name(call)
        if name not in ("hasattr", "getattr", "setattr", "delattr") or not call.args:
            continue
        attribute = call.args[1] if len(call.args) > 1 else None
        is_literal = isinstance(attribute, ast.Constant)
        is_of_language = is_literal and str(attribute.value).startswith("__")
        if name == "hasattr" or (is_literal and not is_of_language):
            found.append(call.lineno)
    return found


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


def test_no_attribute_is_looked_for_by_name():
    """Of mechanisms, statistics and certificates: `isinstance` asks a declared class."""
    assert len(STRICT_FILES) > 40
    assert lines_in(STRICT_FILES, probes) == []


@pytest.mark.parametrize(
    ("find", "code"),
    [
        (lambdas_as_members, "size = property(lambda self: 1)"),
        (lambdas_as_members, "size = fact(lambda self: 1)"),
        (lambdas_as_members, "size = functools.cached_property(lambda self: 1)"),
        (probes, "if hasattr(mechanism, 'simulate'): pass"),
        (probes, "steps = getattr(mechanism, 'steps', 9)"),
        (probes, "steps = getattr(self.statistic, 'n')"),
        (probes, "setattr(statistic, 'shared', 1)"),
        (probes, "known = hasattr(certificate, name)"),
    ],
)
def test_what_is_forbidden_is_found(find, code):
    assert find(ast.parse(code)) == [1]


@pytest.mark.parametrize(
    "code",
    [
        "values = [getattr(self, field.name) for field in fields(self)]",
        "checks = getattr(annotation, '__metadata__', ())",
        "key = sorted(found, key=lambda each: each.error)",
        "size = property(read_size)",
    ],
)
def test_what_is_allowed_is_not_found(code):
    tree = ast.parse(code)
    assert lambdas_as_members(tree) == []
    assert probes(tree) == []

"""What holds for all tests: which of them `make check` leaves out."""

import sys
from pathlib import Path

import pytest

# Whole rooms that draw large samples, compile, or run other programs; a single slow test elsewhere carries the mark itself.
SLOW = ("audit", "federated", "fuzz", "laws", "optim", "reproductions", "test_documentation.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow rooms' tests."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] in SLOW:
            item.add_marker(pytest.mark.slow)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What JAX compiles here runs once: it is compiled quickly, except where stored bits are compared."""
    if (jax := sys.modules.get("jax")) is not None:
        jax.config.update("jax_disable_most_optimizations", "golden" not in item.path.parts)

"""The how-to pages that follow one file to the printed result run as they are written."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "howto_runs.py"
specification = importlib.util.spec_from_file_location("howto_runs", SCRIPT)
howto_runs = importlib.util.module_from_spec(specification)
specification.loader.exec_module(howto_runs)

# What a reader is promised to find in the output of each page.
PROMISED = {
    "mean-direction": (
        "latitude ",
        "which is α95",
        "effect size",
        "written: sites.pdf",
    ),
    "class-matrices": ("effect size", "written: matrices.pdf", "record_in_class"),
    "connectomes": ("95% of the population", "people needed", "verified"),
    "region-tensors": ("genu", "95% of the population", "verified"),
    "approve-a-study": ("mean position, report 1", "verified", "does not fit"),
}


@pytest.mark.parametrize("name", howto_runs.PAGES)
def test_a_page_runs_to_its_result(name, tmp_path):
    printed = howto_runs.run_page(name, tmp_path)
    for words in PROMISED[name]:
        assert words in printed

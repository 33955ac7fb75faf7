"""The how-to pages that follow one file to the printed result run as they are written.

The first command of each page is a process of its own; the others are forks of one that
has imported the library.
"""

import importlib.util
import os
from pathlib import Path

import pytest

from support.forked_command import curvedp_on_path

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
    with curvedp_on_path({**os.environ, "COLUMNS": "120"}) as programs:
        printed = howto_runs.run_page(name, tmp_path, programs)
    for words in PROMISED[name]:
        assert words in printed

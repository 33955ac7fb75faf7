"""Messages in the words of those who did not write Python."""

import re
from pathlib import Path

import pytest

from curvedp._words import PAGE, in_words_of

SHELL = {
    "header": "--header",
    "sep": "--sep",
    "delta0": "--delta",
    "radius": "--radius",
    "form": "--as",
    "x": "--x",
}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("delta0=2.0 must lie in (0, 1)", "--delta 2.0 must lie in (0, 1)"),
        ("header=True or header=False; never", "--header or --no-header; never"),
        ("say which with sep=, or form=.", "say which with --sep, or --as."),
        ("radius='private' finds it", "--radius private finds it"),
        ("sep=';;' must be one character", "--sep ';;' must be one character"),
        ("x is missing: the column", "--x is missing: the column"),
        ("use LogGaussianMechanism", "use log-gaussian"),
        (
            "Ball(radius=2) and max_radius=3 stay",
            "Ball(radius=2) and max_radius=3 stay",
        ),
        ("(header=, sep=)?", "(--header, --sep)?"),
    ],
)
def test_parameters_are_called_as_they_are_typed(written, said):
    assert in_words_of(SHELL, written) == said
    assert in_words_of({}, written) == written


def test_the_page_has_every_word_that_its_refusals_use():
    studio = pytest.importorskip("curvedp.studio", reason="the studio is an extra")
    page = Path(studio.__file__).with_name("page.html").read_text(encoding="utf-8")
    assert (
        in_words_of({"header": "“first line”"}, "say header=True")
        == "say “first line” yes"
    )
    for name, word in PAGE.items():
        assert re.search(rf'>[^<]*{re.escape(word)}|"[^"]*{re.escape(word)}', page), (
            name
        )

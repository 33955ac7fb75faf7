"""Every work that the pages or the docstrings cite by author and year is in docs/references.bib."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SITE = runpy.run_path(str(ROOT / "docs" / "site.py"))
WORKS = SITE["read_bibliography"]()
PAGES = sorted((ROOT / "docs").rglob("*.md"))
MODULES = sorted((ROOT / "src").rglob("*.py"))


def unresolved(text):
    """Return the citations of a text that name no work, or more than one."""
    joined = " ".join(line.lstrip("# ") for line in text.split("\n"))
    joined = " ".join(joined.split())
    return [
        match[0]
        for match, surnames, year in SITE["citations"](joined)
        if SITE["find_work"](WORKS, surnames, year) is None
    ]


def by_file(paths, find):
    """Return what is found in the text of each file, for files with anything found."""
    found = {
        str(path.relative_to(ROOT)): find(path.read_text(encoding="utf-8"))
        for path in paths
    }
    return {name: what for name, what in found.items() if what}


def test_citations_resolve():
    assert by_file([*PAGES, *MODULES], unresolved) == {}


def test_entries_are_complete_and_their_keys_unique():
    assert len(WORKS) > 120
    assert len({work.key for work in WORKS}) == len(WORKS)
    for work in WORKS:
        assert all((work.authors, work.title, work.venue)), work.key
    text = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")
    assert text.count("\n@") == len(WORKS), "an entry that cannot be read"


def test_entries_have_the_fields_that_bibtex_styles_print():
    """An @article without `journal` is printed without its venue."""
    wanted = {
        "article": "journal",
        "book": "publisher",
        "incollection": "booktitle",
        "inproceedings": "booktitle",
        "misc": "howpublished",
        "techreport": "institution",
    }
    text = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")
    for kind, entry in re.findall(r"^@(\w+)\{(.*)$", text, flags=re.M):
        assert f", {wanted[kind]}={{" in entry, entry


def test_an_unknown_work_is_found():
    assert unresolved("as in Nobody & Noone (1999)") == ["Nobody & Noone (1999"]
    assert unresolved("as in Afsari (2011) and Bakry & Ledoux 1996") == []
    assert unresolved("Balle 2018"), "two works of that year need a second author"


def test_citations_become_links():
    shown = SITE["linked_citations"]("see Afsari (2011).", "theory/sensitivity.md")
    assert shown == "see [Afsari (2011](bibliography.md#afsari2011))."


@pytest.mark.skipif(
    sys.platform == "win32", reason="git lists paths with other separators"
)
def test_formulas_need_nothing_from_the_network():
    """KaTeX is shipped with the site, with its fonts and its license."""
    folder = ROOT / "docs" / "katex"
    style = (folder / "katex.min.css").read_text()
    fonts = {name.split(")")[0] for name in style.split("url(fonts/")[1:]}
    assert len(fonts) >= 20
    assert all((folder / "fonts" / name).is_file() for name in fonts)
    assert "MIT" in (folder / "LICENSE").read_text()
    assert "http" not in (ROOT / "mkdocs.yml").read_text().split("nav:")[0]


def test_theorems_have_one_number_each():
    """The overview lists every numbered theorem, and each number is stated on one page."""
    overview = (ROOT / "docs" / "theory" / "index.md").read_text()
    stated = subprocess.run(
        ["grep", "-rhoE", r"(\*\*|^#+ )Theorem [A-Z][0-9]+", str(ROOT / "docs/theory")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    numbers = {line.split()[-1] for line in stated.split("\n") if line}
    letters = {number[0] for number in numbers}
    assert len(numbers) > 30
    for letter in letters:
        assert f"**{letter}" in overview, f"the overview has no theorem {letter}"


def test_a_name_in_a_certificate_is_accepted_as_an_option():
    """The reference says so: the names of options and certificates mean the same."""
    from curvedp.core.registry import mechanisms
    from curvedp.release.choose import OPTION_ALIASES

    assert set(OPTION_ALIASES.values()) <= {
        "tangent-gaussian",
        "tangent-laplace",
        "newton",
        "gradient",
        "kng",
        "gaussian",
        "laplace",
    }
    page = (ROOT / "docs" / "reference" / "mechanisms.md").read_text()
    for alias, option in OPTION_ALIASES.items():
        assert f"`{alias}`" in page
        assert f"`{option}`" in page
    assert mechanisms


def broken_words(formula: str) -> list[str]:
    """Return letters and accents in a formula that were meant to be text or a power."""
    named = r"\\(?:operatorname|text|mathrm|begin|end)\*?\{[^}]*\}"
    symbols = re.sub(r"\\[a-zA-Z]+", "", re.sub(named, "", formula))
    return re.findall(r"[A-Za-z]{4,}", symbols) + re.findall(r"\\\^|\\ \\text", formula)


def broken_formulas(page: str) -> list[str]:
    """Return the formulas of a page that have such words."""
    prose = re.sub(r"^```.*?^```", "", page, flags=re.S | re.M)
    prose = re.sub(r"`[^`\n]*`", "", prose)
    formulas = re.findall(r"\$\$(.+?)\$\$", prose, flags=re.S)
    for paragraph in re.sub(r"\$\$.+?\$\$", "", prose, flags=re.S).split("\n\n"):
        formulas += re.findall(r"(?<!\\)\$([^$]+)\$", paragraph)
    return [formula for formula in formulas if broken_words(formula)]


def test_formulas_have_no_words_outside_text():
    assert by_file(PAGES, broken_formulas) == {}


def test_a_broken_formula_is_found():
    assert broken_words(r"(r/n)^{m}ultiplicity") == ["ultiplicity"]
    assert broken_words(r"\text{chord}\^{2}") == [r"\^"]
    assert broken_words(r"\operatorname{sn}(d) \text{ in the ball}") == []

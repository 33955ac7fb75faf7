"""Theorems and sections that the code cites exist in the pages it names."""

import re
from pathlib import Path

import pytest

import curvedp

SOURCE = Path(curvedp.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"
FILES = sorted(
    path for room in ("privacy", "numerics") for path in (SOURCE / room).rglob("*.py")
)


def citations(text: str) -> list[tuple[str, str]]:
    """Return (page, what is cited) for every `docs/page.md, Theorem X` or `"Section"`."""
    joined = re.sub(r"\s+", " ", text)
    theorems = re.findall(r"docs/([\w-]+\.md), (Theorem \w+)", joined)
    sections = re.findall(r'docs/([\w-]+\.md), "([^"]+)"', joined)
    return theorems + sections


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_cited_theorems_and_sections_exist(path):
    for page, cited in citations(path.read_text()):
        text = (DOCS / page).read_text()
        if cited.startswith("Theorem"):
            stated = re.search(rf"(^## |\*\*){cited}\b", text, flags=re.MULTILINE)
        else:
            stated = re.search(rf"^#+ {re.escape(cited)}$", text, flags=re.MULTILINE)
        assert stated, f"{path.name} cites {cited!r}, which {page} does not state"


def test_the_check_sees_citations():
    text = """as docs/exact-profiles.md, Theorem
    P1, and docs/accounting.md, "Composition" say"""
    assert citations(text) == [
        ("exact-profiles.md", "Theorem P1"),
        ("accounting.md", "Composition"),
    ]
    found = [cited for path in FILES for cited in citations(path.read_text())]
    assert len(found) > 15

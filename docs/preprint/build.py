"""Build the preprint from the pages of the site: `make preprint` writes out/preprint.pdf.

The pages are converted by pandoc to typst markup and compiled by typst. Both come from PyPI.
Code blocks, pictures and links between pages are left out of the PDF.
"""

import re
import sys
from pathlib import Path

import pypandoc
import typst

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
THEORY = ROOT / "docs" / "theory"
# The pages, in the order of the sections, and the sections that are left out.
PAGES = {
    "sensitivity.md": (),
    "exact-profiles.md": (),
    "hyperbolic-floor.md": (),
    "private-ball.md": ("Reduced classifiers",),
    "inference.md": (),
    "release-path.md": ("Bits", "Measured", "Threat model"),
}


def section_text(name: str, left_out: tuple[str, ...]) -> str:
    """Return the Markdown of a page without code, pictures and some of its sections."""
    text = (THEORY / name).read_text(encoding="utf-8")
    # A sentence that ends in a colon introduces the code below it, and goes with it.
    text = re.sub(r"[^.\n]*:\n\n```.*?^```\n", "\n", text, flags=re.S | re.M)
    text = re.sub(r"^```.*?^```\n", "", text, flags=re.S | re.M)
    text = re.sub(r"^!\[.*\n", "", text, flags=re.M)
    text = re.sub(
        r"^(How to use|The \[guide|The page \[evidence\]).*?(\n\n|\Z)",
        "",
        text,
        flags=re.S | re.M,
    )
    # Sentences that point to guides and to evidence pages, which the PDF does not have.
    link = r"\[[^\[\]]+\]\([^)\s]+\)"
    text = re.sub(
        rf"\bThe \[(?:guide|evidence)(?:{link}|[^.\[])*?\(.*?\)(?:{link}|[^.\[])*\.",
        "",
        text,
    )
    text = re.sub(r"(?<!!)\[([^\[\]]+)\]\([^)\s]+\)", r"\1", text)
    # A page of the site is a section here.
    text = re.sub(r"\b([Tt]his) page\b", r"\1 section", text)
    text = text.replace("On this section", "In this section").replace(
        "on this section", "in this section"
    )
    for title in left_out:
        text = re.sub(rf"^## {title}\n.*?(?=^## |\Z)", "", text, flags=re.S | re.M)
    return text


def bibliography(text: str) -> str:
    """Return the works that the text cites."""
    sys.path.insert(0, str(ROOT / "docs"))
    import runpy

    site = runpy.run_path(str(ROOT / "docs" / "site.py"))
    works = site["read_bibliography"]()
    cited = {
        work.key: work
        for _, surnames, year in site["citations"](" ".join(text.split()))
        if (work := site["find_work"](works, surnames, year)) is not None
    }
    lines = ["# References {.unnumbered}"]
    for work in sorted(cited.values(), key=lambda w: (w.authors[0], w.year)):
        authors = ", ".join(" ".join(reversed(a.split(", "))) for a in work.authors)
        lines.append(f"{authors} ({work.year}). *{work.title}*. {work.venue}.")
    return "\n\n".join(lines)


def main() -> None:
    """Write out/preprint.typ and out/preprint.pdf."""
    parts = [(HERE / "abstract.md").read_text(encoding="utf-8")]
    parts += [section_text(name, left_out) for name, left_out in PAGES.items()]
    text = "\n\n".join(parts)
    text += "\n\n" + bibliography(text)
    body = pypandoc.convert_text(
        text,
        "typst",
        format="markdown+tex_math_dollars+pipe_tables-citations-smart-yaml_metadata_block",
        extra_args=["--wrap=none"],
    )
    out = ROOT / "out"
    out.mkdir(exist_ok=True)
    source = out / "preprint.typ"
    template = (HERE / "template.typ").read_text(encoding="utf-8")
    source.write_text(template + body, encoding="utf-8")
    typst.compile(str(source), output=str(out / "preprint.pdf"))
    print(f"{out / 'preprint.pdf'}")


if __name__ == "__main__":
    main()

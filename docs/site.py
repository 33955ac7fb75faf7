"""What mkdocs does not do by itself: generated pages, citations as links, docstring examples as code.

Generated pages:

- `tutorials/<name>.md` from the script `examples/<name>.py` in cells: `# %% [markdown]` cells are
  text, `# %%` cells are code. The picture and the printed text were recorded by `make gallery`.
- `tutorials/gallery.md` from the short scripts that compare with vectors, one section each.
- `reference/cli.md` from the command line's own help.
- `reference/changelog.md` and `project/contributing.md` from the files of the repository.
- `theory/bibliography.md` from `docs/references.bib`.

A generated page is not in the repository. The pages therefore link to the file that it is made
from, which a reader of a clone can open; on the site these links lead to the generated page.
"""

import os
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from griffe import Extension
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
# The scripts of one page, in its order.
GALLERY = (
    "wind",
    "proportions",
    "correlations",
    "poses",
    "complex_covariances",
    "rotations",
)


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages; mkdocs calls this once."""
    pages = {
        "reference/cli.md": command_line_page(),
        "reference/changelog.md": repository_page("CHANGELOG.md"),
        "project/contributing.md": repository_page("CONTRIBUTING.md", "project"),
        "theory/bibliography.md": bibliography_page(),
    }
    pages["tutorials/gallery.md"] = gallery_page()
    for script in sorted((ROOT / "examples").glob("*.py")):
        has_picture = (IMAGES / f"{script.stem}.png").is_file()
        if has_picture and script.stem not in GALLERY:
            pages[f"tutorials/{script.stem}.md"] = page_of(script)
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


# ---- links to the sources of generated pages

# The page that is made from a file of the repository, besides the tutorials.
PAGES_OF_SOURCES = {
    "src/curvedp/cli/commands.py": "reference/cli.md",
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
}
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")


def page_of_source(path: str) -> str | None:
    """Return the generated page of a file of the repository; None if there is none."""
    source = Path(path)
    if source.parent == Path("examples") and source.suffix == ".py":
        return f"tutorials/{source.stem}.md"
    return PAGES_OF_SOURCES.get(path)


def linked_pages(markdown: str, page: str) -> str:
    """Return a page's text in which links to sources lead to the generated pages."""
    folder = os.path.dirname(page)

    def link(match: re.Match[str]) -> str:
        path = os.path.normpath(os.path.join("docs", folder, match[1]))
        target = page_of_source(path)
        if target is None:
            return match[0]
        return f"]({os.path.relpath(target, folder or '.')}{match[2] or ''})"

    return LINK.sub(link, markdown)


# ---- tutorials


def cells_of(script: Path) -> Iterator[tuple[bool, str]]:
    """Yield the cells of a script: whether it is text, and what it contains."""
    for cell in re.split(r"^# %%", script.read_text(encoding="utf-8"), flags=re.M)[1:]:
        first, _, body = cell.partition("\n")
        if "[markdown]" in first:
            yield True, re.sub(r"^# ?", "", body, flags=re.M).strip()
        else:
            yield False, body.strip()


def folded(title: str, code: str) -> str:
    """Return a block of code that the reader opens with a click."""
    indented = "\n".join(f"    {line}".rstrip() for line in code.splitlines())
    return f'??? note "{title}"\n\n    ```python\n{indented}\n    ```'


def printed_text(script: Path) -> str:
    """Return what the script printed when `make gallery` ran it."""
    return (IMAGES / f"{script.stem}.txt").read_text(encoding="utf-8").strip()


def gallery_page() -> str:
    """Return the page of the short examples: text, picture, output, and folded code."""
    parts = [
        "# Gallery: a manifold against vectors",
        "Each example releases a mean on its manifold. For comparison, it also treats the records as "
        "vectors, and releases their mean with Gaussian noise at the same guarantee. "
        "[Comparison with Euclidean methods](../evidence/vectors.md) has all numbers in one table.",
    ]
    for name in GALLERY:
        script = ROOT / "examples" / f"{name}.py"
        cells = list(cells_of(script))
        title, _, introduction = cells[0][1].partition("\n")
        texts = [
            introduction.strip(),
            *(text for is_text, text in cells[1:] if is_text),
        ]
        code = "\n\n".join(text for is_text, text in cells if not is_text)
        parts += [
            f"#{title}",
            " ".join(text.replace("\n", " ") for text in texts),
            f"![{name}](../images/{name}.png)",
            f"```text\n{printed_text(script)}\n```",
            folded(f"Code: examples/{name}.py", code),
        ]
    return "\n\n".join(parts) + "\n"


def page_of(script: Path) -> str:
    """Return the Markdown of a tutorial."""
    parts = []
    for is_text, body in cells_of(script):
        if is_text:
            parts.append(body)
        elif ".savefig(" in body:
            parts.append(folded("Code of the picture", body))
        else:
            parts.append(f"```python\n{body}\n```")
    title, _, rest = parts[0].partition("\n")
    picture = f"![{script.stem}](../images/{script.stem}.png)"
    printed = printed_text(script)
    source = (
        f"*This page is the script `examples/{script.name}`, run with "
        "[real data](../reference/datasets.md). Without these files, the script uses simulated data.*"
    )
    output = (
        "## Output\n\nThe noise is new in every run, so your numbers differ.\n\n"
        f"```text\n{printed}\n```"
    )
    return (
        "\n\n".join([title, picture, rest.strip(), *parts[1:], output, source]) + "\n"
    )


# ---- the command line


def command_line_page() -> str:
    """Return the reference of the command line, made from its help texts."""
    from typer.main import get_command

    from curvedp.cli import app

    lines = [
        "# Command line",
        "This page is generated from the help texts of the program.",
        "| exit code | meaning |\n|---|---|\n"
        "| 0 | done; for `verify`: every claim holds |\n"
        "| 1 | a claim was not confirmed |\n"
        "| 2 | the request was refused before anything was spent; or a release was made and an output "
        "could not be written, and then the whole release is printed |\n"
        "| 3 | `verify`: all claims hold for the ideal distribution, but the noise was drawn in "
        "float64, the sensitivity was supplied by the user, or the privacy unit is not stated |",
        "| environment variable | meaning |\n|---|---|\n"
        "| `CURVEDP_DATA` | folder with the example data |\n"
        "| `CURVEDP_MAX_UNPACKED` | largest size in bytes to which a file may expand |",
    ]
    lines += command_sections(get_command(app), "curvedp")
    return "\n\n".join(lines) + "\n"


def command_sections(command: Any, name: str) -> Iterator[str]:
    """Yield one section for a command and for each of its subcommands."""
    subcommands = getattr(command, "commands", {})
    if name != "curvedp":
        yield f"## {name}"
        yield plain(command.help)
    rows = [parameter_row(parameter) for parameter in command.params]
    if rows and name != "curvedp":
        yield "| parameter | default | meaning |\n|---|---|---|\n" + "\n".join(rows)
    for subname in subcommands:
        yield from command_sections(subcommands[subname], f"{name} {subname}")


def parameter_row(parameter: Any) -> str:
    """Return the table row of an argument or option."""
    if parameter.param_type_name == "argument":
        names = f"`{parameter.name.upper()}`"
    else:
        names = ", ".join(
            f"`{o}`" for o in [*parameter.opts, *parameter.secondary_opts]
        )
    default = parameter.default
    is_shown = isinstance(default, int | float | str) and not isinstance(default, bool)
    shown = f"`{default}`" if is_shown and default != "" else ""
    if parameter.required:
        shown = "required"
    return f"| {names} | {shown} | {plain(getattr(parameter, 'help', ''))} |"


def plain(text: str | None) -> str:
    """Return a help text on one line, safe in a table."""
    return re.sub(r"\s+", " ", text or "").replace("|", "\\|").strip()


# ---- pages of the repository


def repository_page(name: str, folder: str = "reference") -> str:
    """Return a file of the repository as a page of the site, with its links changed."""
    text = (ROOT / name).read_text(encoding="utf-8")

    def link(match: re.Match[str]) -> str:
        label, target = match[1], match[2]
        if target.startswith("docs/"):
            return f"[{label}]({os.path.relpath(target, f'docs/{folder}')})"
        if re.match(r"https?:", target):
            return match[0]
        return f"`{target}`"

    return re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", link, text)


# ---- citations


# Where BibTeX has the place of publication, by the type of an entry.
_VENUE_FIELDS = ("journal", "booktitle", "publisher", "institution", "howpublished")


@dataclass(frozen=True)
class Work:
    """One entry of the bibliography."""

    key: str
    authors: tuple[str, ...]
    title: str
    venue: str
    year: str

    @property
    def surnames(self) -> tuple[str, ...]:
        """The surnames of the authors, in order."""
        return tuple(author.split(",")[0] for author in self.authors)

    def matches(self, surnames: list[str], year: str) -> bool:
        """Say whether an author–year citation means this work."""
        if year != self.year:
            return False
        known = [ascii_of(name) for name in self.surnames]
        wanted = [ascii_of(name) for name in surnames]
        return known[: len(wanted)] == wanted


def ascii_of(name: str) -> str:
    """Return a surname without accents, hyphens and apostrophes, in lower case."""
    decomposed = unicodedata.normalize("NFKD", name)
    return re.sub(r"[^a-z]", "", decomposed.lower())


def read_bibliography() -> list[Work]:
    """Return the works of docs/references.bib."""
    works = []
    text = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")
    for match in re.finditer(r"^@\w+\{(\w+), (.*)\}$", text, flags=re.M):
        fields = dict(re.findall(r"(\w+)=\{([^{}]*)\}", match[2]))
        works.append(
            Work(
                key=match[1],
                authors=tuple(fields["author"].split(" and ")),
                title=fields["title"],
                venue=next(fields[name] for name in _VENUE_FIELDS if name in fields),
                year=fields["year"],
            )
        )
    return works


_NAME = r"(?:(?:van |de |do |von )?[A-ZÁÉÖ][\w’'áéíóúüöäßñçèšŠž]+(?:[-–][A-Z][\w’']+)?)"
_CITATION = re.compile(
    rf"({_NAME}(?:(?:, and |, & |, | and | & |–){_NAME})*(?: et al\.)?),? "
    r"\(?((?:1[89]|20)\d\d)\b"
)
# Words that look like a surname before a year.
_NOT_A_SURNAME = {
    *("Gaussian", "ISO", "ICLR", "NeurIPS", "ICML", "PoinDP", "CDP", "GDP", "Rényi"),
    *("Privacy", "January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
}


def citations(text: str) -> Iterator[tuple[re.Match[str], list[str], str]]:
    """Yield the author–year citations of a text, with surnames and year."""
    for match in _CITATION.finditer(text):
        names = match[1].removesuffix(" et al.")
        surnames = re.split(r", and |, & |, | and | & |–(?=[A-Z])", names)
        surnames = [name for name in surnames if name not in _NOT_A_SURNAME]
        if surnames:
            yield match, surnames, match[2]


def find_work(works: list[Work], surnames: list[str], year: str) -> Work | None:
    """Return the work that a citation means; None if there is none or more than one."""
    found = [work for work in works if work.matches(surnames, year)]
    if not found:  # a double name, such as Álvarez-Esteban, may have been split
        joined = ["".join(surnames)]
        found = [work for work in works if work.matches(joined, year)]
    return found[0] if len(found) == 1 else None


def bibliography_page() -> str:
    """Return the bibliography, one anchor for each work."""
    lines = [
        "# Bibliography",
        "Every work that these pages or the docstrings cite by author and year. "
        "The same list as BibTeX: [references.bib](../references.bib).",
    ]
    works = sorted(read_bibliography(), key=lambda w: (ascii_of(w.authors[0]), w.year))
    for work in works:
        authors = ", ".join(
            " ".join(reversed(author.split(", "))) for author in work.authors
        )
        lines.append(
            f'<a id="{work.key}"></a>{authors} ({work.year}). *{work.title}*. {work.venue}.'
        )
    return "\n\n".join(lines) + "\n"


CODE = re.compile(
    r"^```.*?^```|^(?: {4}|\t).*?$|`[^`\n]*`|\[[^\]\n]*\]\([^)\n]*\)|\$\$.*?\$\$|\$[^$\n]*\$"
    r"|^#.*?$|^\|.*?$|\\\(.*?\\\)",
    flags=re.S | re.M,
)
WORKS = read_bibliography()


def linked_citations(text: str, page: str) -> str:
    """Return a text whose citations are links to the bibliography."""
    target = os.path.relpath("theory/bibliography.md", os.path.dirname(page) or ".")
    parts, last = [], 0
    for match, surnames, year in citations(text):
        work = find_work(WORKS, surnames, year)
        if work is not None:
            parts.append(text[last : match.start()])
            parts.append(f"[{match[0]}]({target}#{work.key})")
            last = match.end()
    return "".join([*parts, text[last:]])


# ---- text


NAME = r"(?<![\w\\/])(log|exp|Exp|[A-Za-zΑ-ω∇Σ∫₀-₉]\w?)"


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Set powers, indices and citations outside code and formulas."""
    source = "" if page is None else page.file.src_uri
    markdown = linked_pages(markdown, source)
    cites = source.startswith(("theory/", "evidence/")) and "bibliography" not in source
    parts, last = [], 0
    for code in CODE.finditer(markdown):
        parts += [typeset(markdown[last : code.start()], source, cites), code.group()]
        if code.group().startswith(("|", "#")):  # tables and headings: powers only
            parts[-1] = raised_outside_code(code.group())
        last = code.end()
    return "".join([*parts, typeset(markdown[last:], source, cites)])


def typeset(text: str, source: str, cites: bool) -> str:
    """Return a text without code, with powers and, on some pages, linked citations."""
    return raised(linked_citations(text, source) if cites else text)


def raised_outside_code(line: str) -> str:
    """Return a table row or heading with powers and indices, its code unchanged."""
    pieces = re.split(r"(`[^`\n]*`|\$[^$\n]*\$|\]\([^)\n]*\))", line)
    return "".join(
        piece if index % 2 else raised(piece) for index, piece in enumerate(pieces)
    )


def raised(text: str) -> str:
    """Return powers and indices, such as e^{−x}, H^d and log_p, as HTML."""
    text = re.sub(
        r"\^\{([^{}]*)\}|\^([-−]?(?:\d+|[A-Za-zα-ω]))(?![\w(])",
        lambda m: f"<sup>{m[1] or m[2]}</sup>",
        text,
    )
    text = re.sub(
        r"_\{([^{}]*)\}", lambda m: f"<sub>{m[1].replace('<', '&lt;')}</sub>", text
    )
    return re.sub(
        NAME + r"_([a-z0-9α-ω][₀-₉]?)(?=[^\w]|[A-Z]\b|$)", r"\1<sub>\2</sub>", text
    )


# ---- docstrings


class Doctests(Extension):
    """Docstrings are Markdown; their `>>>` examples need a fence to be shown as code."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring is not None:
            text, sections = re.split(
                r"(?=^\w+\n-+$)|\Z", obj.docstring.value, maxsplit=1, flags=re.M
            )
            obj.docstring.value = on_page_markdown(fenced(text)) + fenced(
                each(sections)
            )


def each(text: str) -> str:
    """Separate arguments that are described together, or all get the type of the first."""
    together = r"^(\w+(?:, \w+)+)\n((?: {4}.*(?:\n|$))+)"
    return re.sub(
        together,
        lambda m: "".join(f"{name}\n{m[2]}" for name in m[1].split(", ")),
        text,
        flags=re.M,
    )


def fenced(text: str) -> str:
    """Fence each run of lines from a `>>>` to a blank line; make *Guarantees* a heading."""
    text = re.sub(r"^(Guarantees)\n", r"**\1**\n\n", text, flags=re.M)
    out, inside = [], False
    for line in text.split("\n"):
        if not inside and line.lstrip().startswith(">>>"):
            out += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            out.append("```")
            inside = False
        is_code = inside and line.lstrip().startswith((">>>", "..."))
        out.append(line.lstrip() if is_code else line)
    return "\n".join([*out, "```"] if inside else out)

"""What mkdocs does not do by itself: tutorials as pages, examples in docstrings as code, x^{2} and x_{i} raised and lowered.

A tutorial is a script `examples/<name>.py` in cells: `# %% [markdown]` cells are text, `# %%` cells are code. Its page is
`tutorials/<name>.md`, with the picture and the text that `make gallery` recorded.
"""

import re
from pathlib import Path
from typing import Any

from griffe import Extension
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]


def page_of(script: Path) -> str:
    """The Markdown of a tutorial."""
    cells = re.split(r"^# %%", script.read_text(encoding="utf-8"), flags=re.M)[1:]
    parts = []
    for cell in cells:
        first, _, body = cell.partition("\n")
        if "[markdown]" in first:
            parts.append(re.sub(r"^# ?", "", body, flags=re.M).strip())
        elif ".savefig(" in body:  # the picture's own code is for those who want it
            indented = "\n".join(
                f"    {line}".rstrip() for line in body.strip().splitlines()
            )
            parts.append(
                f'??? note "How the picture is drawn"\n\n    ```python\n{indented}\n    ```'
            )
        else:
            parts.append(f"```python\n{body.strip()}\n```")
    images = ROOT / "docs" / "images"
    title, _, rest = parts[0].partition("\n")
    picture = f"![{script.stem}](../images/{script.stem}.png)"
    said = (images / f"{script.stem}.txt").read_text(encoding="utf-8").strip()
    run = f"*This page is the script `examples/{script.name}`. Its data: [how to get them](../datasets.md).*"
    shown = f"## What it printed\n\nNoise is fresh at every run, so your numbers differ.\n\n```text\n{said}\n```"
    return "\n\n".join([title, picture, rest.strip(), *parts[1:], shown, run]) + "\n"


def on_files(files: Files, config: Any) -> Files:
    """mkdocs calls this once: add a page for each tutorial that has a recorded picture."""
    for script in sorted((ROOT / "examples").glob("*.py")):
        if (ROOT / "docs" / "images" / f"{script.stem}.png").is_file():
            files.append(
                File.generated(
                    config, f"tutorials/{script.stem}.md", content=page_of(script)
                )
            )
    return files


CODE = re.compile(r"^```.*?^```|^(?: {4}|\t).*?$|`[^`\n]*`", flags=re.S | re.M)
NAME = r"(?<![\w\\/])(log|exp|Exp|[A-Za-zΑ-ω∇Σ∫₀-₉]\w?)"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """e^{−x}, H^d, 2^-30, x_{i}, log_p: outside code, as a reader expects to see them."""
    parts, last = [], 0
    for code in CODE.finditer(markdown):
        parts += [raised(markdown[last : code.start()]), code.group()]
        last = code.end()
    return "".join([*parts, raised(markdown[last:])])


def raised(text: str) -> str:
    """Powers and indices as HTML."""
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


class Doctests(Extension):
    """Docstrings here are Markdown; their `>>>` examples need a fence to be shown as code."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            said, sections = re.split(
                r"(?=^\w+\n-+$)|\Z", obj.docstring.value, maxsplit=1, flags=re.M
            )
            obj.docstring.value = on_page_markdown(fenced(said)) + fenced(
                each(sections)
            )


def each(text: str) -> str:
    """Arguments that are described together, one by one: the site gives all of them the type of the first."""
    together = r"^(\w+(?:, \w+)+)\n((?: {4}.*(?:\n|$))+)"
    return re.sub(
        together,
        lambda m: "".join(f"{name}\n{m[2]}" for name in m[1].split(", ")),
        text,
        flags=re.M,
    )


def fenced(text: str) -> str:
    """Each run of lines from a `>>>` to the next blank line, as a code block; the word Guarantees as a heading."""
    text = re.sub(r"^(Guarantees)\n", r"**\1**\n\n", text, flags=re.M)
    out, inside = [], False
    for line in text.split("\n"):
        if not inside and line.lstrip().startswith(">>>"):
            out += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            out.append("```")
            inside = False
        out.append(
            line.lstrip()
            if inside and line.lstrip().startswith((">>>", "..."))
            else line
        )
    return "\n".join([*out, "```"] if inside else out)

"""Every Python block of the pages runs, every tutorial runs, and the site builds without a warning."""

import importlib.util
import os
import pkgutil
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import yaml
from typer.core import TyperGroup
from typer.main import get_command

import curvedp
from curvedp.cli import app
from curvedp.core.certificate import Certificate, Provenance
from curvedp.records.forms import FORMS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TUTORIALS = sorted(
    path for path in (ROOT / "examples").glob("*.py") if path.stem != "gallery"
)


@pytest.mark.filterwarnings("default")  # examples may meet a library's own deprecations
@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.S | re.M
    )
    exec(compile("\n".join(blocks), str(page), "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize(
    "name", ["README.md", "docs/install.md", "docs/howto/studio.md"]
)
def test_commands_come_after_what_installs_them(name):
    """Who copies the page from the top has the command line by the first command."""
    fenced = re.findall(
        r"^```(\w*)\n(.*?)^```",
        (ROOT / name).read_text(encoding="utf-8"),
        flags=re.S | re.M,
    )
    blocks = "\n".join(text for kind, text in fenced if kind in ("", "bash"))
    first = re.search(r"^(\.venv/bin/)?curvedp ", blocks, flags=re.M)
    assert first is not None
    assert re.search(r"pip install '?\.", blocks[: first.start()])


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("script", TUTORIALS, ids=lambda p: p.stem)
def test_tutorials_run_without_data(script, tmp_path, monkeypatch, capsys):
    """Top to bottom, on the labeled stand-in, as a reader without the data would run it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(script.parent)  # as `python examples/<name>.py` does
    monkeypatch.delenv("CURVEDP_DATA", raising=False)
    plt.switch_backend("agg")
    text = script.read_text(encoding="utf-8")
    # What is only done over and over is done twice, and pictures and curves are coarse: every line is run.
    brief = re.sub(
        r"dpi=\d+",
        "dpi=30",
        re.sub(r"for _ in range\(\d+\)", "for _ in range(2)", text),
    )
    brief = re.sub(r"(np\.geomspace\(.*), \d+\)", r"\1, 4)", brief)
    brief = re.sub(r"^budgets = .*$", "budgets = [0.5, 2.0]", brief, flags=re.M)
    exec(
        compile(brief, str(script), "exec"),
        {"__name__": "__main__", "__file__": str(script)},
    )
    plt.close("all")
    assert (tmp_path / f"{script.stem}.png").is_file()
    said = capsys.readouterr().out
    if "load_dataset(" in text:
        assert "--data-dir" in said, (
            "says which data set is missing and how to point to it"
        )
        assert "used instead" in said, "says that other data are used"


def test_the_site_builds_strictly(tmp_path):
    """A broken link, a page outside the navigation or a name that is not there is an error."""
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert built.returncode == 0, built.stderr
    api = (tmp_path / "site" / "api" / "geometry" / "index.html").read_text(
        encoding="utf-8"
    )
    assert "curvedp.geometry.SPDAffineInvariant" in api
    assert "&gt;&gt;&gt;" in api or 'class="gp"' in api  # examples are shown as code
    assert "<b><code>m</code></b>" in api  # arguments are a list, not a paragraph
    assert 'title="int"' in api  # with their types
    tutorial = (
        tmp_path / "site" / "tutorials" / "tensor_mean" / "index.html"
    ).read_text(encoding="utf-8")
    assert "tensor_mean.png" in tutorial
    pages = (tmp_path / "site" / "api").glob("*/index.html")
    reference = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert sorted(exported_names() - anchors_of(reference)) == []


def exported_names() -> set[str]:
    """Return what the packages of curvedp export, except the command line's app."""
    packages = ["curvedp"]
    for module in pkgutil.walk_packages(curvedp.__path__, "curvedp."):
        if module.ispkg and module.name != "curvedp.cli":
            packages.append(module.name)
    exported = [importlib.import_module(name) for name in packages]
    return {name for module in exported for name in getattr(module, "__all__", ())}


def anchors_of(html: str) -> set[str]:
    """Return the names that an API page describes."""
    return set(re.findall(r'id="curvedp(?:\.\w+)*\.(\w+)"', html))


def link_targets(page: Path) -> list[str]:
    """Return where the relative links of a page lead, outside code."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.S | re.M)
    found = re.findall(
        r"\]\(([^)\s]+)|(?:href|src)=\"([^\"]+)|^\[[^\]]+\]:\s*(\S+)", text, flags=re.M
    )
    targets = [target for groups in found for target in groups if target]
    return [target for target in targets if not re.match(r"[a-z]+:|#", target)]


def dead_links(page: Path, files: set[Path]) -> list[str]:
    """Return the relative links of a page that lead to nothing in a clone."""
    folders = {folder for file in files for folder in file.parents}
    dead = []
    for target in link_targets(page):
        path = Path(os.path.normpath(page.parent / target.partition("#")[0]))
        if path not in files | folders:
            dead.append(f"{page.name}: {target}")
    return dead


@pytest.fixture(scope="module")
def files_of_a_clone() -> set[Path]:
    """Return the files of the repository, without what is made from them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("the sources are not in a git repository")
    return {ROOT / name for name in listed.stdout.splitlines()}


def test_links_resolve_in_a_clone(files_of_a_clone):
    """A reader of the files, and not of the site, can follow every relative link."""
    pages = [*PAGES, ROOT / "CONTRIBUTING.md"]
    assert sum(len(link_targets(page)) for page in pages) > 300
    assert [dead for page in pages for dead in dead_links(page, files_of_a_clone)] == []


def test_a_dead_link_is_found(files_of_a_clone, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "[good](page.md#title) [dead](made.md) `[code](no.md)` <a href='x'></a>\n"
        "[ref]: gone.md\n```\n[code](no.md)\n```\n[web](https://example.org)\n"
    )
    assert dead_links(page, {page}) == ["page.md: made.md", "page.md: gone.md"]
    assert dead_links(page, {page, tmp_path / "made.md", tmp_path / "gone.md"}) == []


def test_the_site_leads_to_the_generated_pages():
    """What is a script in a clone is a page of the site."""
    site = runpy.run_path(str(ROOT / "docs" / "site.py"))
    text = "[a](../../examples/wind.py) [b](../../CONTRIBUTING.md#rules) [c](plan.md)"
    assert site["linked_pages"](text, "howto/x.md") == (
        "[a](../tutorials/wind.md) [b](../project/contributing.md#rules) [c](plan.md)"
    )
    text = "[a](../examples/wind.py)"
    assert site["linked_pages"](text, "index.md") == "[a](tutorials/wind.md)"


def test_the_readme_points_to_what_exists():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    assert len(targets) > 15
    assert [target for target in targets if not (ROOT / target).exists()] == []


# The pages that are for every reader. The others are looked up, by task, field or symbol.
READERS_PATH = [[], ["Get started"], ["Tutorials"], ["How-to guides", "Every study"]]


def pages_of_the_site() -> Iterator[tuple[list[str], str]]:
    """Yield the sections that a page is in, and its path, in the navigation's order."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    entries = [([], yaml.safe_load(text[text.index("\nnav:") :])["nav"])]
    while entries:
        sections, entry = entries.pop()
        if isinstance(entry, str):
            yield sections, entry
        elif isinstance(entry, list):
            entries += [(sections, each) for each in reversed(entry)]
        else:
            for title, content in entry.items():
                is_page = isinstance(content, str)
                entries.append((sections if is_page else [*sections, title], content))


def test_the_readers_path_is_short():
    """It has at most 27 pages and 20,000 words, code included."""
    site = runpy.run_path(str(ROOT / "docs" / "site.py"))
    words = []
    for sections, page in pages_of_the_site():
        if sections in READERS_PATH:
            path = ROOT / "docs" / page
            script = ROOT / "examples" / f"{path.stem}.py"
            text = path.read_text("utf-8") if path.exists() else site["page_of"](script)
            words.append(len(text.split()))
    assert 20 <= len(words) <= 27
    assert sum(words) <= 20_000


def test_a_reader_with_eeg_of_few_people_reads_little():
    """From the top of the README, over its link, to a classifier of their own."""
    readme = (ROOT / "README.md").read_text("utf-8")
    page = (ROOT / "docs" / "howto" / "few-people.md").read_text("utf-8")
    link = readme.index("](docs/howto/few-people.md)")
    installed = readme.index("## A private mean")
    assert link < installed
    assert len(readme[:installed].split()) + len(page.split()) <= 1_000
    # Even who reads the whole README first has a classifier after 1,500 words.
    classifier = page.index("## Why it works")
    assert len(readme.split()) + len(page[:classifier].split()) <= 1_500
    assert len(page.split()) <= 780


def test_the_readme_fits_on_two_screens():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_folders_in_the_table_for_contributors_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text[text.index("| folder | content |") :].split("\n\n")[0]
    folders = re.findall(r"`([\w./-]+)`", table.replace("`theory`", "`docs/theory`"))
    assert len(folders) > 5
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def test_the_page_of_example_data_names_every_file_that_is_read():
    page = (ROOT / "docs" / "reference" / "datasets.md").read_text(encoding="utf-8")
    scripts = [*(ROOT / "examples").rglob("*"), *(ROOT / "benchmarks").rglob("*.py")]
    # Other tests may run an example at the same time, which leaves bytecode beside it.
    scripts = [path for path in scripts if path.suffix in (".py", ".ipynb", ".sh")]
    texts = [path.read_text("utf-8") for path in scripts]
    # Names of two words; files that a script writes itself have one.
    names = set(re.findall(r"\b(?:[a-z0-9]+[_-])+\w+\.(?:npz|csv)\b", "\n".join(texts)))
    assert len(names) > 10
    assert sorted(name for name in names if name not in page) == []


def test_powers_and_indices_are_raised_outside_code_only():
    site = runpy.run_path(str(ROOT / "docs" / "site.py"))
    shown = site["on_page_markdown"]
    assert shown("e^{−x²} on H^d, 2^-30, log_p q, ∏_{i<j}") == (
        "e<sup>−x²</sup> on H<sup>d</sup>, 2<sup>-30</sup>, log<sub>p</sub> q, ∏<sub>i&lt;j</sub>"
    )
    for untouched in (
        "`x^2` and `a_b`",
        "```\nx^{2}\n```",
        "    e^{x}",
        "from_coordinates, n_components, location_",
    ):
        assert shown(untouched) == untouched
    assert site["fenced"]("Text.\n\n>>> 1 + 1\n2\n\nMore.").count("```") == 2


def test_the_page_of_data_formats_lists_every_form():
    page = (ROOT / "docs" / "reference" / "data-formats.md").read_text("utf-8")
    assert [form for form in FORMS if f"`{form}`" not in page] == []


def test_the_page_of_the_certificate_lists_every_field_and_attribute():
    page = (ROOT / "docs" / "reference" / "certificate.md").read_text("utf-8")
    names = [field.name for field in [*fields(Certificate), *fields(Provenance)]]
    assert [name for name in names if f"`{name}`" not in page] == []


def commands_of(text: str) -> Iterator[list[str]]:
    """Yield the words after `curvedp` of every command line in a page."""
    text = re.sub(r"\\\n\s*", " ", text)
    lines = re.findall(r"^(?:\$ )?(?:\.venv/bin/)?curvedp ([^\n]*)", text, flags=re.M)
    for line in [*lines, *re.findall(r"`curvedp ([^`\n]*)`", text)]:
        yield line.partition("#")[0].split()


@cache
def whole_command():
    """Return the command line as one command, which takes a while to make."""
    return get_command(app)


def unknown_words(words: list[str]) -> list[str]:
    """Return the options of a command line that the command does not have."""
    command = whole_command()
    while isinstance(command, TyperGroup) and words and words[0] in command.commands:
        command, words = command.commands[words[0]], words[1:]
    if command.name == "release":  # `curvedp release FILE` releases the mean
        command = command.commands["mean"]
    known = {option for each in command.params for option in each.opts} | {"--help"}
    known |= {option for each in command.params for option in each.secondary_opts}
    return [word for word in words if re.match(r"--?[a-z]", word) and word not in known]


def test_commands_of_the_pages_have_these_options():
    wrong = [
        (str(page.relative_to(ROOT)), words)
        for page in PAGES
        for words in commands_of(page.read_text(encoding="utf-8"))
        if unknown_words([word.rstrip(".,;:)") for word in words])
    ]
    assert wrong == []


def test_an_unknown_option_is_found():
    assert unknown_words(["verify", "c.json", "--keys", "k"]) == ["--keys"]
    assert unknown_words(["release", "x.npy", "-r", "1", "--mu", "1"]) == []


def missing_files_and_modules(text: str) -> list[str]:
    """Return the files, modules and targets of `make` that a page names in vain."""
    named = re.findall(r"`([\w/.-]+\.py)`", text)
    missing = [name for name in named if not is_a_source(name)]
    modules = re.findall(r"python3? -m ((?:curvedp|benchmarks)[\w.]*)", text)
    missing += [name for name in modules if importlib.util.find_spec(name) is None]
    targets = re.findall(r"`make ([a-z-]+)", text)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return missing + [name for name in targets if f"\n{name}:" not in makefile]


@cache
def all_sources() -> list[str]:
    """Return the Python files of the checkout, each with a slash in front."""
    folders = ("src", "tests", "benchmarks", "examples", "docs", ".ci")
    return [f"/{path.relative_to(ROOT)}" for f in folders for path in sources(f)]


def is_a_source(name: str) -> bool:
    """Return whether a Python file of this name, or path, is in the checkout."""
    return any(file.endswith(f"/{name}") for file in all_sources())


def test_files_and_modules_that_pages_name_exist():
    missing = {
        str(page.relative_to(ROOT)): missing_files_and_modules(
            page.read_text(encoding="utf-8")
        )
        for page in PAGES
    }
    assert {page: names for page, names in missing.items() if names} == {}


def sources(folder: str) -> Iterator[Path]:
    """Yield the Python files in a folder of the checkout."""
    return (ROOT / folder).rglob("*.py")

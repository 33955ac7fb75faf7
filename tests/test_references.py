"""Everything that docstrings, comments and pages refer to exists.

Checked in src/curvedp are pages of docs/ and their sections, theorems and errata by
number, paths of files, and the names of modules and of what they define. In tests,
benchmarks, reproductions and examples all but the names are checked, and in the pages
the theorems and errata. A reference that dangles sends a reader on a search that cannot
succeed.
"""

import ast
import functools
import importlib
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

import curvedp

SOURCE = Path(curvedp.__file__).parent
ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FILES = sorted(SOURCE.rglob("*.py"))

# Folders at the root of the repository that prose refers to.
FOLDERS = "tests|docs|benchmarks|examples|src"

# The Python files beside the package whose prose is checked too.
OTHER_FILES = [
    path
    for folder in ("tests", "benchmarks", "reproductions", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path != Path(__file__)
]
PAGES = sorted(DOCS.rglob("*.md"))
PAGE_NAMES = [page.relative_to(DOCS).as_posix() for page in PAGES]


def dangling(references_of: Callable[[Path], Iterable[str]]) -> list[str]:
    """Return the references that lead nowhere in all files of the package, as "file: reference"."""
    return [
        f"{path.relative_to(SOURCE)}: {reference}"
        for path in FILES
        for reference in references_of(path)
    ]


# ---- the prose of a file


def docstrings(source: str) -> list[str]:
    """Return the docstrings of a module, of its classes and of its functions."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, documented)
    ]
    return [ast.get_docstring(node) or "" for node in nodes]


# A string, which may hold a "#", or a comment.
STRING_OR_COMMENT = re.compile(
    r"""
    (?P<quotes>\"{3}|'{3}) (?:\\.|(?!(?P=quotes)).)* (?P=quotes)
    | "(?:\\.|[^"\\\n])*"
    | '(?:\\.|[^'\\\n])*'
    | \#[^\n]*
    """,
    flags=re.VERBOSE | re.DOTALL,
)


def comments(source: str) -> list[str]:
    """Return the comments; comments on consecutive lines are one."""
    joined: list[str] = []
    last_end = -2  # of a comment that has its line to itself
    for match in STRING_OR_COMMENT.finditer(source):
        if not match[0].startswith("#"):
            continue
        text = match[0].lstrip("#: ")
        line_start = source.rfind("\n", 0, match.start()) + 1
        has_own_line = not source[line_start : match.start()].strip()
        if has_own_line and line_start == last_end + 1:
            joined[-1] += " " + text
        else:
            joined.append(text)
        last_end = match.end() if has_own_line else -2
    return joined


@functools.cache
def syntax_tree(path: Path) -> ast.Module:
    """Return the parsed code of a file."""
    return ast.parse(path.read_text())


@functools.cache
def prose(path: Path) -> tuple[str, ...]:
    """Return the docstrings and comments of a file, each on one line."""
    source = path.read_text()
    texts = [*docstrings(source), *comments(source)]
    return tuple(re.sub(r"\s+", " ", text) for text in texts)


# ---- what prose refers to


def cited_sections(text: str) -> list[tuple[str, str]]:
    """Return (page, section) for every `docs/page.md, "Section"`, or `…, Section)`."""
    page = r"docs/([\w/-]+\.md)`?"
    quoted = re.findall(rf'{page}, "([^"]+)"', text)
    plain = re.findall(rf"{page}, ([A-Z][a-z][\w ]*)[).]", text)
    statement = ("Theorem", "Lemma", "Corollary", "Proposition")
    return quoted + [cited for cited in plain if not cited[1].startswith(statement)]


def cited_statements(text: str) -> list[tuple[str, str]]:
    """Return (page, statement), such as ("theory/rao.md", "Theorem R1").

    Both orders are read: `docs/theory/rao.md, Theorem R1` and `Theorem R1 (docs/theory/rao.md`.
    """
    statement = r"(?:Theorem|Lemma|Corollary|Proposition) [A-Z]?\d+"
    page = r"docs/([\w/-]+\.md)"
    page_first = re.findall(rf"{page}`?, (?:proof of )?({statement})\b", text)
    page_last = re.findall(rf"({statement}) \({page}", text)
    return page_first + [(cited_page, cited) for cited, cited_page in page_last]


def numbered_statements(text: str) -> list[str]:
    """Return the statements of this project's own numbering, such as "Theorem P1"."""
    return re.findall(r"\b(?:Theorem|Lemma) [A-Z]\d+\b", text)


def cited_errata(text: str) -> list[str]:
    """Return the errata, such as "E4"; they have at most two digits."""
    return re.findall(r"(?<![\w.+−-])E\d{1,2}\b(?!\[)", text)


def cited_paths(text: str) -> list[str]:
    """Return paths of pages and Python files, and paths below the root's folders."""
    files = re.findall(r"[\w/.-]+\.(?:md|py)\b", text)
    folders = re.findall(rf"(?<![\w/.])(?:{FOLDERS})/[\w/.-]*\w", text)
    return files + folders


def dotted_names(text: str) -> list[str]:
    """Return names with a dot in backquotes, such as `privacy.pld`, without a call."""
    return re.findall(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\([^`]*\))?`", text)


def private_names(text: str) -> list[str]:
    """Return names in backquotes that begin with an underscore."""
    return re.findall(r"`(?:\w+\.)*(_[A-Za-z]\w*)(?:\([^`]*\))?`", text)


# ---- what exists


@functools.cache
def page_text(page: str) -> str:
    """Return the text of a page of docs/."""
    return (DOCS / page).read_text()


@functools.cache
def has_section(page: str, section: str) -> bool:
    """Say whether a page has a heading, or a paragraph with a title, of this name."""
    name = re.escape(section)
    pattern = rf"^#+ {name}$|^(?:- )?\*{{1,2}}{name}\b"
    return re.search(pattern, page_text(page), flags=re.MULTILINE) is not None


@functools.cache
def states(page: str, statement: str) -> bool:
    """Say whether a page states a theorem, in a heading or in bold."""
    pattern = rf"(^#+ |\*\*){statement}\b"
    return re.search(pattern, page_text(page), flags=re.MULTILINE) is not None


@functools.cache
def has_erratum(number: str) -> bool:
    """Say whether the page of errata has a row of this number."""
    row = rf"^\| ?\**{number}\b"
    return re.search(row, page_text("errata.md"), flags=re.MULTILINE) is not None


@functools.cache
def module_name(path: Path) -> str:
    """Return the dotted name of a source file."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts)


MODULES = {module_name(path): path for path in FILES}


@functools.cache
def defined_names(path: Path) -> frozenset[str]:
    """Return all names that occur in the code of a file, comments and strings apart."""
    fields = (
        "id",
        "attr",
        "arg",
        "name",
        "asname",
        "module",
    )  # of names in a syntax tree
    return frozenset(
        part
        for node in ast.walk(syntax_tree(path))
        for field in fields
        if isinstance(name := getattr(node, field, None), str)
        for part in name.split(".")
    )


@functools.cache
def resolve(name: str) -> bool:
    """Say whether an absolute dotted name is a module, or a name that one defines."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        if module in MODULES:
            rest = parts[length:]
            # Names are read from the code, so that no optional dependency is imported.
            is_defined = set(rest) <= defined_names(MODULES[module])
            return is_defined or exports(importlib.import_module(module), rest)
    return False


def exports(module: ModuleType, names: list[str]) -> bool:
    """Say whether a module has an attribute, which has the next one, and so on."""
    value: object = module
    for name in names:
        if not hasattr(value, name):
            return False
        value = getattr(value, name)
    return True


def absolute_name(name: str, path: Path) -> str | None:
    """Return what a dotted name means in a file; None if it names no module.

    `loss.table` in curvedp.privacy.profiles.base is curvedp.privacy.loss.table: its
    first part is looked up in the package of the file, then in the packages above. A
    first part that the file's own code uses as a variable is not a module.
    """
    first = name.split(".")[0]
    if first == "curvedp":
        return name
    if first in variables(path) or first in dependencies():
        return None
    package = module_name(path).split(".")
    for length in range(len(package), 0, -1):
        candidate = ".".join([*package[:length], first])
        if candidate in MODULES:
            return ".".join([*package[:length], name])
    return None


@functools.cache
def dependencies() -> frozenset[str]:
    """Return the top-level packages, other than curvedp, that the source imports."""
    names = set()
    for path in FILES:
        for node in ast.walk(syntax_tree(path)):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.split(".")[0])
    return frozenset(names - {"curvedp"})


@functools.cache
def variables(path: Path) -> frozenset[str]:
    """Return the parameters and the assigned names of a file."""
    names = set()
    for node in ast.walk(syntax_tree(path)):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return frozenset(names)


# ---- the checks


def missing_sections_and_statements(text: str) -> list[str]:
    """Return the sections and statements that a text cites and no page has."""
    if "docs/" not in text:
        return []
    missing = []
    for page, section in cited_sections(text):
        if not (DOCS / page).exists() or not has_section(page, section):
            missing.append(f"docs/{page} has no {section!r}")
    for page, statement in cited_statements(text):
        if not (DOCS / page).exists() or not states(page, statement):
            missing.append(f"docs/{page} does not state {statement}")
    return missing


def missing_numbers(text: str) -> list[str]:
    """Return the numbered theorems and errata that a text cites and no page states."""
    missing = [
        statement
        for statement in numbered_statements(text)
        if not any(states(page, statement) for page in PAGE_NAMES)
    ]
    for erratum in cited_errata(text):
        if not has_erratum(erratum):
            missing.append(f"docs/errata.md has no {erratum}")
    return missing


def in_all_prose(missing: Callable[[str], list[str]]) -> list[str]:
    """Return what is missing in the docstrings and comments of all files of the package."""
    return dangling(
        lambda path: [found for text in prose(path) for found in missing(text)]
    )


def test_cited_sections_and_statements_exist():
    assert in_all_prose(missing_sections_and_statements) == []


def test_numbered_theorems_and_errata_exist():
    assert in_all_prose(missing_numbers) == []


def test_references_beside_the_package_exist():
    missing = []
    for path in OTHER_FILES:
        for text in prose(path):
            found = missing_sections_and_statements(text) + missing_numbers(text)
            # Of files only those with a folder: a test may speak of any "conftest.py".
            found += [
                cited
                for cited in cited_paths(text)
                if re.match(f"({FOLDERS})/", cited) and not (ROOT / cited).exists()
            ]
            # The specification is no part of the repository.
            found += re.findall(r"SPEC (?:§|E)\d+", text)
            missing += [f"{path.relative_to(ROOT)}: {reference}" for reference in found]
    assert not missing


def test_theorems_and_errata_in_pages_exist():
    missing = {page: missing_numbers(page_text(page)) for page in PAGE_NAMES}
    assert {page: found for page, found in missing.items() if found} == {}


def missing_paths(path: Path) -> list[str]:
    """Return the paths that a file cites and that are nowhere."""
    places = (ROOT, SOURCE.parent, SOURCE, path.parent)
    cited = {cited for text in prose(path) for cited in cited_paths(text)}
    return [
        name for name in cited if not any((place / name).exists() for place in places)
    ]


def test_cited_paths_exist():
    assert dangling(missing_paths) == []


def missing_dotted_names(path: Path) -> list[str]:
    """Return the names of modules, and of what they define, that do not exist."""
    missing = []
    for name in {name for text in prose(path) for name in dotted_names(text)}:
        if name.endswith((".py", ".md", ".csv", ".json", ".toml")):
            continue
        absolute = absolute_name(name, path)
        if absolute is not None and not resolve(absolute):
            missing.append(name)
    return missing


def test_cited_modules_and_names_exist():
    assert dangling(missing_dotted_names) == []


@functools.cache
def all_defined_names() -> frozenset[str]:
    """Return all names that occur in the code of the package."""
    return frozenset().union(*map(defined_names, FILES))


def missing_private_names(path: Path) -> list[str]:
    """Return the private names in a file's prose that no code has."""
    cited = {name for text in prose(path) for name in private_names(text)}
    return sorted(cited - all_defined_names())


def test_cited_private_names_exist():
    assert dangling(missing_private_names) == []


def pages_stating(statement: str) -> list[str]:
    """Return the pages that state a theorem; a heading and its text count as one."""
    return [page for page in PAGE_NAMES if states(page, statement)]


def test_every_number_belongs_to_one_theorem():
    numbered = {
        statement
        for page in PAGES
        for statement in re.findall(
            r"(?:^#+ |\*\*)((?:Theorem|Lemma) [A-Z]\d+)\b", page.read_text(), re.M
        )
    }
    assert len(numbered) > 10
    for statement in sorted(numbered):
        assert len(pages_stating(statement)) == 1, pages_stating(statement)


def test_no_page_states_two_theorems_of_one_number():
    for page in PAGES:
        stated = re.findall(r"^\*\*(Theorem [A-Z]\d+)\b", page.read_text(), re.M)
        assert len(stated) == len(set(stated)), page


# ---- the checks see what they must


def test_the_readers_see_references():
    text = (
        'as docs/theory/exact-profiles.md, Theorem P1, docs/theory/accounting.md, "Composition", '
        "Lemma G3 (docs/theory/regression.md) and docs/errata.md, E4 say; see `privacy.pld`, "
        "`curvedp.plan()`, `_window` and tests/privacy"
    )
    assert cited_sections(text) == [("theory/accounting.md", "Composition")]
    assert cited_sections("(docs/theory/laws.md, Cost)") == [("theory/laws.md", "Cost")]
    assert cited_statements(text) == [
        ("theory/exact-profiles.md", "Theorem P1"),
        ("theory/regression.md", "Lemma G3"),
    ]
    assert numbered_statements(text) == ["Theorem P1", "Lemma G3"]
    assert cited_errata(text) == ["E4"]
    assert "tests/privacy" in cited_paths(text)
    assert "docs/errata.md" in cited_paths(text)
    assert dotted_names(text) == ["privacy.pld", "curvedp.plan"]
    assert private_names(text) == ["_window"]


def test_comments_and_docstrings_are_read():
    source = (
        '"""See docs/a.md."""\n\n# One comment\n# on two lines.\nx = 1  # another\n'
    )
    assert docstrings(source) == ["See docs/a.md."]
    assert comments(source) == ["One comment on two lines.", "another"]


def test_dangling_references_are_found():
    assert not has_section("theory/accounting.md", "No such section")
    assert not states("theory/rao.md", "Theorem R99")
    assert not resolve("curvedp.privacy.no_such_name")
    assert not resolve("curvedp.privacy.loss.no_such_module")
    assert missing_sections_and_statements('docs/theory/rao.md, "Nothing of the kind"')
    assert missing_sections_and_statements("docs/no_such_page.md, Theorem P1")
    assert missing_numbers("Theorem P99 and E98") == [
        "Theorem P99",
        "docs/errata.md has no E98",
    ]
    base = SOURCE / "privacy" / "profiles" / "base.py"
    assert absolute_name("loss.table", base) == "curvedp.privacy.loss.table"
    assert absolute_name("table.end", base) is None


def test_there_is_something_to_check():
    texts = [text for path in FILES for text in prose(path)]
    assert sum(len(cited_sections(text)) for text in texts) > 15
    assert sum(len(cited_statements(text)) for text in texts) > 15
    assert sum(len(cited_errata(text)) for text in texts) > 5
    assert sum(len(dotted_names(text)) for text in texts) > 50

"""Numbers that several pages state agree with each other, and with the software.

`docs/numbers.toml` lists them. Values that the software can compute are recomputed here;
the others are measurements, and the test compares their places.
"""

import inspect
import math
import re
import statistics
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import curvedp.geometry
from curvedp import GDP, ApproxDP, PrivateFrechetMean, plan
from curvedp.errors import ParameterError
from curvedp.geometry import Manifold, SPDAffineInvariant, Sphere
from curvedp.laws.exact import exact_gaussian
from curvedp.local import compare_trust

ROOT = Path(__file__).parents[1]
NUMBERS = tomllib.loads((ROOT / "docs" / "numbers.toml").read_text())["number"]
README = (ROOT / "README.md").read_text()


# ---- what the software says


def count_manifolds() -> str:
    """Count the manifolds that `curvedp.geometry` exports."""
    exported = [getattr(curvedp.geometry, name) for name in curvedp.geometry.__all__]
    classes = [value for value in exported if inspect.isclass(value)]
    return str(sum(issubclass(c, Manifold) and c is not Manifold for c in classes))


def epsilon_of(mu: float) -> str:
    """Return ε of GDP(μ) at δ = 10⁻⁶ as the pages write it."""
    return f"{GDP(mu).epsilon(1e-6):.1f}"


def largest_mean_angle() -> str:
    """Return the largest radius on the unit sphere, in steps of 0.05, for tangent noise."""
    largest = 0.0
    for step in range(1, 32):
        radius = 0.05 * step
        estimator = PrivateFrechetMean(
            Sphere(2), radius=radius, mechanism="tangent-gaussian"
        )
        try:
            estimator.fit([[0.0, 0.0, 1.0]] * 20)
        except ParameterError:
            break
        largest = radius
    return f"{largest:.2f}"


def searched_stiefel_sizes() -> str:
    """Return the sizes m that the search over planes of Stiefel(m, m−1) tries."""
    source = (ROOT / "tests" / "mechanisms" / "test_sensitivity.py").read_text()
    sizes = re.search(
        r"\"m\", \[([\d, ]+)\]\)\ndef test_stiefel_of_codimension_one", source
    )
    assert sizes is not None
    *most, last = sizes[1].split(", ")
    return f"{', '.join(most)} and {last}"


def slack_of_one_draw() -> str:
    """Return the total-variation slack of one exact draw as a power of two."""
    slack = exact_gaussian(Sphere(2), 0.1, [0.0, 0.0, 1.0]).tau
    superscripts = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return "2" + str(round(math.log2(slack))).translate(superscripts)


def count_errata() -> str:
    """Count the rows of the errata page; its title sentence must add up to them."""
    page = (ROOT / "docs" / "errata.md").read_text()
    rows = len(set(re.findall(r"^\| (E\d+) \|.*\*\*", page, flags=re.M)))
    grades = re.search(r"(\d+) unsafe, (\d+) wrong, (\d+) slips", page)
    assert grades is not None
    assert sum(int(count) for count in grades.groups()) == rows
    return str(rows)


def table_rows(page: str, header: str) -> list[list[str]]:
    """Return the cells of the table on a page whose header starts as given."""
    text = (ROOT / "docs" / "evidence" / page).read_text()
    table = text[text.index(header) :].split("\n\n")[0]
    return [
        [cell.strip(" *") for cell in line.split("|")[1:-1]]
        for line in table.split("\n")[2:]
    ]


def predicted_within_half() -> str:
    """Count the predictions without a warning, and those within a factor of 1.5."""
    rows = table_rows("predictions.md", "| data")
    ratios = [float(row[7]) for row in rows if not row[9]]
    return f"{sum(1 / 1.5 <= ratio <= 1.5 for ratio in ratios)} of {len(ratios)}"


def auto_against_published() -> str:
    """Return the range and the median of auto's error over the best of the others."""
    rows = table_rows("utility.md", "| study | μ | auto |")
    ratios = [float(row[4]) for row in rows]
    middle = statistics.median(ratios)
    return f"{min(ratios):.2f} to {max(ratios):.2f}, {middle:.2f}"


def private_ball_against_hand() -> str:
    """Return the range of the errors with a private ball over those by hand."""
    rows = table_rows("utility-private.md", "| case | nμ | hand")
    cases = [row for row in rows if row[1]]  # the last rows are summaries
    ratios = [float(row[5]) for row in cases if float(row[1]) >= 40]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def new_user_below_sampling_error() -> str:
    """Count the data sets whose private mean is nearer than the sampling error."""
    errors = [float(row[5]) for row in table_rows("first-use.md", "| data | n | dim")]
    return f"{sum(error < 1 for error in errors)} of {len(errors)}"


def tangent_pca_against_flattened() -> str:
    """Return the geometric average of the ratios of errors of first directions."""
    rows = table_rows("tangent-pca.md", "| records | d | n")
    return f"{statistics.geometric_mean(float(row[7]) for row in rows):.2f}"


def people_in_three_models() -> str:
    """Return how many people an error of 0.01 takes, from most to least trust."""
    guarantee = ApproxDP(1.0, 1e-6)
    comparison = compare_trust(Sphere(2), 10_000, 0.5, guarantee, error=0.01)
    return ", ".join(re.findall(r"([\d,]+) people", str(comparison))[-3:])


def errata_by_grade() -> str:
    """Count the rows of the errata page by their grade."""
    page = (ROOT / "docs" / "errata.md").read_text()
    rows = dict(
        re.findall(r"^\| (E\d+) \|.*?\*\*(unsafe|wrong|slip)", page, flags=re.M)
    )
    grades = list(rows.values())
    return ", ".join(str(grades.count(grade)) for grade in ("unsafe", "wrong", "slip"))


COMPUTED: dict[str, Callable[[], str]] = {
    "errata_by_grade": errata_by_grade,
    "auto_against_published": auto_against_published,
    "new_user_below_sampling_error": new_user_below_sampling_error,
    "people_in_three_models": people_in_three_models,
    "predicted_within_half": predicted_within_half,
    "private_ball_against_hand": private_ball_against_hand,
    "tangent_pca_against_flattened": tangent_pca_against_flattened,
    "count_errata": count_errata,
    "count_manifolds": count_manifolds,
    "epsilon_of_gdp_1": lambda: epsilon_of(1.0),
    "epsilon_of_gdp_half": lambda: epsilon_of(0.5),
    "epsilon_of_gdp_quarter": lambda: epsilon_of(0.25),
    "largest_mean_angle": largest_mean_angle,
    "searched_stiefel_sizes": searched_stiefel_sizes,
    "slack_of_one_draw": slack_of_one_draw,
}


# ---- the checks


def has_numbers_of(value: str, words: str) -> bool:
    """Return whether the words have the value, or one of its several numbers."""
    several = re.split(r", (?=\d)| of | to ", value)
    parts = several if len(several) > 1 else [value.rstrip("×")]
    return any(part in words for part in parts)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number["name"])
def test_pages_state_the_recorded_value(number):
    for page, words in number["places"]:
        assert has_numbers_of(number["value"], words), "the words contain the value"
        text = " ".join((ROOT / page).read_text().split())  # lines may break anywhere
        assert words in text, f"{page} should say {words!r}"
    if "computed" in number:
        assert COMPUTED[number["computed"]]() == number["value"]


@pytest.mark.parametrize(
    ("row", "manifold", "radius"),
    [
        ("directions", Sphere(2), 0.7),
        ("3×3 tensors", SPDAffineInvariant(3), 3.0),
        ("22-channel", SPDAffineInvariant(22), 3.0),
    ],
)
@pytest.mark.parametrize(("column", "n"), [(0, 200), (1, 1000), (2, 10_000)])
def test_the_readme_states_what_plan_predicts(row, manifold, radius, column, n):
    line = re.search(rf"^\| {row}.*$", README, flags=re.M)
    assert line is not None
    stated = line[0].split("|")[2 + column].strip()
    predicted = 100 * plan(manifold, n, radius, GDP(1.0)).error / radius
    assert stated == f"{predicted:.2g}%"


def test_no_other_count_of_manifolds_is_stated():
    """A count next to the word must be the recorded one, on every page for readers."""
    recorded = count_manifolds()
    for page in ("README.md", "docs/index.md", "docs/reference/manifolds.md"):
        counts = re.findall(
            r"\b(\d+) (?:manifolds|spaces)\b", (ROOT / page).read_text()
        )
        assert set(counts) <= {recorded}, page


def test_a_wrong_number_is_caught():
    wrong = {"value": "20", "places": [["README.md", "**20 manifolds**"]]}
    page, words = wrong["places"][0]
    assert words not in (ROOT / page).read_text()
    assert count_manifolds() != wrong["value"]

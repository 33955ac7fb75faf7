"""The report of a comparison of groups: one self-contained HTML page.
It is made from released values and certificates, like the report of a single release
(`curvedp.report.html`), and has the same style.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from string import Template
from typing import Any

from curvedp.core.certificate import Certificate
from curvedp.core.wording import UNIT_WORDS, neighbor_words, protected_unit_sentence
from curvedp.errors import ParameterError
from curvedp.geometry import Manifold
from curvedp.inference import Region
from curvedp.inference.error_bars import distance_sentence
from curvedp.ledger import Ledger
from curvedp.privacy import GDP
from curvedp.records.output_forms import align_to_center, output_form
from curvedp.report import figures
from curvedp.report.html import (
    JOINT_LEVEL,
    PAGE_STYLE,
    Picture,
    budget_picture,
    budget_section,
    figure_element,
    html_table,
    key_cards,
    rounded_down,
)

# The page; `render_comparison` fills in the names that begin with a dollar sign.
_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
$style</style></head><body>
<h1>$title</h1><p><span class="badge">$guarantee</span></p>
$warning
<p class="lead">Result: <b>$answer.</b> $explanation</p>
<div class="keys">$keys</div>
<div class="grid">$pictures</div>
<h2>The means of the groups</h2>$means
<h2>How to read the test</h2>
<p>It is a permutation test of the hypothesis that all groups have the same distribution. If they have, it finds a
difference with probability at most $level. Its answer is yes or no, so that p is either $level_or_less or 1. “No
difference was found” does not say that there is none. Records are clipped to the ball, and different $plural must be
independent.</p>
$budget
<h2>What was released, and at what price</h2>$parts
<p>$sum Anyone can recompute each part from its certificate alone: <code>curvedp verify FILE</code>. The
certificates contain no data and no hash of data.</p>
$certificates
</body></html>
""")


@dataclass(frozen=True)
class ComparisonFacts:
    """What a page about a comparison of groups shows. All of it is released.

    Attributes
    ----------
    manifold : Manifold
        Where the records live.
    names : sequence of str
        The names of the groups.
    guarantee : GDP
        The guarantee of all parts together.
    answer : str
        The result of the test in words.
    pvalue, level : float
        The p-value of the test, and its level.
    effect_size, largest_distance, spread : float
        How large the difference is: the largest distance between two means, the root
        mean square distance of records to their group's mean, and their ratio.
    means : mapping of str to array
        The released mean of each group.
    regions : mapping of str to Region
        The region of each group's population mean; empty if there are none.
    certificates : mapping of str to Certificate
        The certificate of each part by what it is of, such as "test".
    sizes : mapping of str to int
        The public number of records, or people, of each group.
    radius : float
        The radius of the ball into which records were clipped.
    warnings : sequence of str
        Reasons to doubt a part of the result.
    center : array, optional
        The public center, to which shapes are turned.
    """

    manifold: Manifold
    names: Sequence[str]
    guarantee: GDP
    answer: str
    pvalue: float
    level: float
    effect_size: float
    largest_distance: float
    spread: float
    means: Mapping[str, Any]
    regions: Mapping[str, Region]
    certificates: Mapping[str, Certificate]
    sizes: Mapping[str, int]
    radius: float
    warnings: Sequence[str] = ()
    center: Any = None


def render_comparison(
    facts: ComparisonFacts, ledger: Ledger | None = None, form: str | None = None
) -> str:
    """Return the report of a comparison of groups as HTML text.

    Parameters
    ----------
    facts : ComparisonFacts
        The released facts of the comparison.
    ledger : Ledger, optional
        The ledger that paid.
    form : str, optional
        The form of the records, in which the means are written.

    Returns
    -------
    str
        One self-contained page.
    """
    names = f"{', '.join(facts.names[:-1])} and {facts.names[-1]}"
    pictures = _region_pictures(facts, form)
    if ledger is not None:
        pictures.append(budget_picture(ledger))
    warnings = "".join(f'<p class="warn">{escape(text)}</p>' for text in facts.warnings)
    certificate = facts.certificates["test"]
    return _PAGE.substitute(
        style=PAGE_STYLE,
        title=escape(f"Private comparison of {names} on {facts.manifold}"),
        guarantee=escape(str(facts.guarantee)),
        warning=warnings,
        answer=escape(facts.answer),
        explanation=_explanation(facts),
        keys=key_cards(_key_figures(facts, ledger)),
        pictures="".join(figure_element(picture) for picture in pictures),
        means=_table_of_means(facts, form),
        level=f"{facts.level:g}",
        level_or_less=f"at most {facts.level:g}",
        plural=escape(UNIT_WORDS[certificate.privacy_unit].plural),
        budget="" if ledger is None else budget_section(ledger),
        parts=_table_of_parts(facts),
        sum=escape(_sum_sentence(facts)),
        certificates=_certificate_details(facts),
    )


def _explanation(facts: ComparisonFacts) -> str:
    """Return the promise of the comparison to one unit in plain words, as HTML.

    An attacker who tosses a fair coin which of two neighboring data sets is true
    guesses right with probability at most (1 + δ(0))/2.

    Parameters
    ----------
    facts : ComparisonFacts
        The released facts of the comparison.
    """
    certificate = facts.certificates["test"]
    unit_words = UNIT_WORDS[certificate.privacy_unit]
    _, guess = neighbor_words(certificate)
    success_percent = 50 * (1 + float(facts.guarantee.delta(0.0)))
    return (
        f"Protected is {escape(protected_unit_sentence(certificate))}. Suppose an "
        f"attacker knows every other {unit_words.noun} and must guess {guess}. A coin "
        "is right 50% of the time; the best possible attack on everything on this "
        f"page is right at most <b>{success_percent:.1f}%</b> of the time."
    )


def _key_figures(
    facts: ComparisonFacts, ledger: Ledger | None
) -> list[tuple[str, str]]:
    """Return the few numbers at the top of the page, as pairs (meaning, number).

    Parameters
    ----------
    facts : ComparisonFacts
        The released facts of the comparison.
    ledger : Ledger or None
        The ledger that paid.
    """
    space = facts.manifold
    key_figures = [
        (f"p-value of the test at level {facts.level:g}", f"{facts.pvalue:.3g}"),
        (
            "effect size: largest distance of means in units of the spread",
            f"{facts.effect_size:.3g}",
        ),
        (
            "largest distance between means",
            distance_sentence(space, facts.largest_distance),
        ),
        (
            "spread within groups: root mean square distance to the group's mean",
            distance_sentence(space, facts.spread),
        ),
    ]
    if ledger is not None:
        meaning = f"left of the budget {ledger.budget}"
        key_figures.append((meaning, rounded_down(ledger.remaining)))
    return key_figures


def _region_pictures(facts: ComparisonFacts, form: str | None) -> list[Picture]:
    """Return the figure of all error bars, if they can be drawn in one.

    Parameters
    ----------
    facts : ComparisonFacts
        The released facts of the comparison.
    form : str or None
        The form of the records.

    Returns
    -------
    list of Picture
        One picture, or none.
    """
    if not facts.regions:
        return []
    try:
        figure = figures.regions_figure(facts.regions, form, joint_level=JOINT_LEVEL)
    except ParameterError:  # too many groups
        return []
    caption = (
        "The means, and for each the error bar of its population's mean: noise and "
        "sampling together. All hold at once with probability 95%."
    )
    return [Picture(figure, caption, is_wide=True)]


def _table_of_means(facts: ComparisonFacts, form: str | None) -> str:
    """Return the HTML table of the means, with a row for each group.

    Parameters
    ----------
    facts : ComparisonFacts
        The released facts of the comparison.
    form : str or None
        The form in which the means are written.
    """
    written_as = output_form(form, facts.manifold)
    header = ["group", "n, public"]
    if facts.regions:
        header.append("error bar of the population")
    header.append("mean")
    rows = []
    for name, mean in facts.means.items():
        row = [name, str(facts.sizes[name])]
        if facts.regions:
            radius = float(facts.regions[name].radius)
            row.append(f"within {distance_sentence(facts.manifold, radius)}")
        row.append(
            written_as.sentence(align_to_center(facts.manifold, mean, facts.center))
        )
        rows.append(row)
    return html_table(header, rows)


def _table_of_parts(facts: ComparisonFacts) -> str:
    """Return the HTML table of all releases of the comparison, with their guarantees.

    Parameters
    ----------
    facts : ComparisonFacts
        The released facts of the comparison.
    """
    rows = [
        (title, certificate.mechanism, str(certificate.guarantee))
        for title, certificate in facts.certificates.items()
    ]
    return html_table(("what", "mechanism", "guarantee"), rows)


def _sum_sentence(facts: ComparisonFacts) -> str:
    """Say how the guarantees of the parts add up to that of the comparison.

    Parameters
    ----------
    facts : ComparisonFacts
        The released facts of the comparison.
    """
    sentence = f"Together they meet {facts.guarantee}: the squares of μ add up."
    n_means = sum(title.startswith("mean of") for title in facts.certificates)
    if n_means > 1:
        sentence += " The means of the groups count once, because groups are disjoint."
    return f"{sentence} Records were clipped to a ball of radius {facts.radius:.3g}."


def _certificate_details(facts: ComparisonFacts) -> str:
    """Return the HTML of all certificates, each folded away.

    Parameters
    ----------
    facts : ComparisonFacts
        The released facts of the comparison.
    """
    return "".join(
        f"<details><summary>The certificate of the {escape(title)}</summary>"
        f"<pre>{escape(certificate.to_json())}</pre></details>"
        for title, certificate in facts.certificates.items()
    )

"""The report of a release: one self-contained HTML page for people who were not there.
It is made from the released value, its certificate and the ledger that paid for it, and
makes no request to any server.
"""

import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from html import escape
from math import floor, prod
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.base import BaseEstimator

from curvedp._files import write_atomically
from curvedp.core.certificate import Certificate, record_space
from curvedp.core.released import ReleasedValue, releases_of
from curvedp.core.wording import (
    UNIT_WORDS,
    choice_sentence,
    neighbor_words,
    post_processing_sentence,
    protected_unit_sentence,
)
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry import parse_manifold
from curvedp.inference import Region, region_of
from curvedp.inference.error_bars import distance_sentence, radius_sentence
from curvedp.inference.region import count_components, simultaneous
from curvedp.ledger import Ledger
from curvedp.ledger.book import ENTRY_HEADER, entry_row, unit_in_words
from curvedp.privacy import Guarantee
from curvedp.records.output_forms import value_lines
from curvedp.release.predict import predicted_error_of_release
from curvedp.release.rebuild import mechanism_of
from curvedp.release.warnings import release_warnings, several_means_warnings
from curvedp.report import canvas, figures
from curvedp.report.values import Form, form_of

# The style of this page and of that of a comparison (`curvedp.report.comparison`).
PAGE_STYLE = """\
:root { color-scheme: light dark; --ink: #1d2b3a; --soft-ink: #51606e; --page: #fbfcfd; --card: #fff; --line: #e3e9ed;
--panel: #f3f7f9; --grid: #c4d3db; --track: #e8eef2; --accent: #0b6e99; --warm: #d1603d; --haze: #9ec9d9; --warn: #fff4e0 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf2; --soft-ink: #a4b3bf; --page: #11181f; --card: #18222b;
--line: #2a3843; --panel: #1d2933; --grid: #3c4f5d; --track: #2a3843; --accent: #4db3db; --warm: #f08a63; --haze: #2f6079;
--warn: #3a2c12 } }
* { box-sizing: border-box }
body { font: 16px/1.6 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 0 auto; max-width: 68rem;
padding: 2.2rem 1.2rem 4rem }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .7rem } h2 { font-size: 1.2rem; margin: 2.6rem 0 .7rem }
.lead { font-size: 1.07rem; max-width: 48rem; margin: 1.1rem 0 } .soft { color: var(--soft-ink) }
.badge { background: var(--accent); color: var(--page); border-radius: 1rem; padding: .2rem .8rem; font-weight: 600 }
.keys { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fit, minmax(min(11rem, 100%), 1fr)); margin: 1.4rem 0 }
.key, figure { background: var(--card); border: 1px solid var(--line); border-radius: .7rem; padding: .9rem 1rem }
.key b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums } .key { font-size: .88rem }
.grid { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)) }
figure { margin: 0; display: flex; flex-direction: column } figure.wide { grid-column: 1 / -1 }
svg { width: 100%; height: auto; max-height: 27rem } figcaption { font-size: .9rem; color: var(--soft-ink); margin-top: auto }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-size: .93rem; font-variant-numeric: tabular-nums }
td, th { padding: .35rem 1.2rem .35rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line) }
th { color: var(--soft-ink); font-weight: 600 }
pre { background: var(--panel); padding: .9rem 1rem; border-radius: .5rem; overflow-x: auto; font-size: .84rem }
code { background: var(--panel); border-radius: .25rem; padding: .05rem .3rem }
.warn { background: var(--warn); border-radius: .5rem; padding: .7rem 1rem }
summary { cursor: pointer } h1, p, .key, figcaption, summary { overflow-wrap: anywhere }
"""

# The page; `render_report` fills in the names that begin with a dollar sign.
_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
$style</style></head><body>
<h1>$title</h1><p><span class="badge">$guarantee</span></p>
$warning
<p class="lead">$explanation</p>
<div class="keys">$keys</div>
<div class="grid">$pictures</div>
<h2>The released value$what</h2><pre>$value</pre>
$extra
$budget
<h2>Privacy guarantee</h2>$claims
<h2>Details</h2>$facts
<p>Anyone can recompute all of this from the certificate alone: <code>curvedp verify certificate.json</code>. The certificate
contains no data and no hash of data.</p>
<details><summary>The certificate</summary><pre>$certificate</pre></details>
</body></html>
""")

# The colors of the figures, and the variables of the page that replace them, so that a
# figure follows the reader's choice of a light or a dark page.
_CSS_VARIABLES = {
    canvas.INK: "--ink",
    canvas.ACCENT: "--accent",
    canvas.WARM: "--warm",
    canvas.SOFT: "--haze",
    canvas.PANEL: "--panel",
    canvas.LINES: "--grid",
    canvas.TRACK: "--track",
}

# The probability with which all regions of one page contain their targets.
JOINT_LEVEL = 0.95

# The lead paragraph quotes the first ε of the certified curve whose δ is below this.
_QUOTED_DELTA = 1e-3

# What the figure of a region shows, by how values of its space are drawn. The place {}
# takes what the region covers, and the theorem.
_BLUE_AND_ORANGE = "Blue: confidence region for {}. Orange: the release."
_REGION_LEGENDS: Mapping[Form, str] = {
    "points": _BLUE_AND_ORANGE,
    "ellipsoids": _BLUE_AND_ORANGE,
    "outlines": (
        "The released shape; the circle about each landmark is its confidence region. "
        "It is for {}."
    ),
    "axes": (
        "Where the released rotation turns the axes; the circle about each is its "
        "confidence region. It is for {}."
    ),
    "images": "The released matrix, and the radius of the confidence region for {}.",
}


class ReportTable(NamedTuple):
    """A table on the page.

    Attributes
    ----------
    title : str
        Its heading.
    header : sequence of str
        The names of its columns; empty for a table without them.
    rows : sequence of rows, which are sequences of str
        Its cells.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class Picture(NamedTuple):
    """A figure on the page, its caption, and whether it is as wide as the page.

    Attributes
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    caption : str
        The sentence below it.
    is_wide : bool
        Whether it is as wide as the page.
    """

    figure: Figure
    caption: str
    is_wide: bool = False


# What `write_report` takes as a table: a `ReportTable`, or a plain tuple of the same
# parts.
TableLike = tuple[str, Sequence[str], Sequence[Sequence[str]]]


def write_report(
    path: str | Path,
    value: Any,
    certificate: Certificate | None = None,
    ledger: Ledger | None = None,
    tables: Sequence[TableLike] = (),
    form: str | None = None,
) -> None:
    """Write an HTML page that explains a release to people who were not there.

    Parameters
    ----------
    path : path
        The file to write.
    value : array or fitted estimator
        The released value. A fitted estimator brings its certificate and its ledger.
    certificate : Certificate, optional
        The certificate of the value; needed if the value is an array.
    ledger : Ledger, optional
        The ledger that paid for the release.
    tables : sequence of (title, header, rows)
        Further tables to show, such as a comparison made for a demonstration.
    form : str, optional
        The form in which the records were read, such as "latlon-degrees": released
        points are shown in it, too.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from curvedp import PrivateFrechetMean
    >>> from curvedp.geometry import Sphere
    >>> records = np.tile([0.0, 0.0, 1.0], (200, 1))
    >>> fitted = PrivateFrechetMean(Sphere(2), radius=0.5).fit(records)
    >>> page = Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(page, fitted)
    >>> "certificate" in page.read_text().lower()
    True
    """
    write_atomically(path, render_report(value, certificate, ledger, tables, form))


def render_report(
    value: Any,
    certificate: Certificate | None = None,
    ledger: Ledger | None = None,
    tables: Sequence[TableLike] = (),
    form: str | None = None,
) -> str:
    """Return the report of a release as HTML text.

    Parameters
    ----------
    value : array or fitted estimator
        The released value. A fitted estimator brings its certificate and its ledger.
    certificate : Certificate, optional
        The certificate of the value; needed if the value is an array.
    ledger : Ledger, optional
        The ledger that paid for the release.
    tables : sequence of (title, header, rows)
        Further tables to show.
    form : str, optional
        The form in which the records were read, such as "latlon-degrees".

    Returns
    -------
    str
        One self-contained page.
    """
    center = None
    if certificate is None:
        releases = releases_of(value)
        ledger = ledger or value.ledger
        if isinstance(value, BaseEstimator):
            center = value.get_params(deep=False).get("center")
    else:
        releases = [ReleasedValue("", value, certificate)]
    main = releases[0]
    certificate = main.certificate

    # The parts of the page, each from the certificates and the released values alone.
    components = count_components(mechanism_of(certificate).statistic, main.value)
    regions = _known_regions(certificate, components)
    pictures = _release_pictures(certificate, main.value, regions, components, form)
    values = [_value_text(release, form, center) for release in releases]
    all_tables = list(tables)
    if len(releases) > 1:
        all_regions = _regions_together(releases)
        pictures = _comparison_pictures(releases, all_regions, form) + pictures
        all_tables.append(_all_values(releases, values, all_regions))
    if ledger is not None:
        pictures.append(budget_picture(ledger))
    error = _predicted_error(certificate)

    return _PAGE.substitute(
        style=PAGE_STYLE,
        title=_page_title(releases),
        guarantee=escape(str(certificate.guarantee)),
        warning=_warning_paragraphs(releases),
        what=f": {escape(main.title)}" if len(releases) > 1 else "",
        explanation=_explanation(releases, error),
        keys=key_cards(_key_figures(certificate, error, regions, ledger)),
        pictures="".join(figure_element(picture) for picture in pictures),
        value=escape(values[0]),
        extra="".join(_section(ReportTable(*table)) for table in all_tables),
        budget="" if ledger is None else budget_section(ledger),
        claims=html_table(("definition", "value"), _claim_rows(certificate)),
        facts=html_table(("what", "value"), _fact_rows(certificate)),
        certificate=escape(certificate.to_json()),
    )


def _page_title(releases: list[ReleasedValue]) -> str:
    """Return the heading of the page, such as "Private Fréchet mean on Sphere(d=2)".

    If there are several releases, it says how many.

    Parameters
    ----------
    releases : list of ReleasedValue
        The releases that are reported, the main one first.

    Returns
    -------
    str
        HTML text.
    """
    certificate = releases[0].certificate
    statistic = escape(_statistic_name(certificate))
    title = f"Private {statistic} on {escape(record_space(certificate))}"
    if len(releases) > 1:
        title += f": {len(releases)} released values"
    return title


def _value_text(
    release: ReleasedValue, form: str | None, center: np.ndarray | None
) -> str:
    """Return a released value as text, in the form of the records where it has one.

    Parameters
    ----------
    release : ReleasedValue
        The value and its certificate.
    form : str or None
        The form of the records.
    center : array or None
        The public center, to which a shape is turned.

    Returns
    -------
    str
        One line for each row of the value.
    """
    manifold = parse_manifold(release.certificate.manifold)
    return "\n".join(value_lines(manifold, release.value, form, center))


def _regions_together(releases: list[ReleasedValue]) -> dict[str, list[Region]]:
    """Return regions of all releases that hold at once, by their target.

    The targets are "population" and "records". A target for which some release has no
    region is left out.

    Parameters
    ----------
    releases : list of ReleasedValue
        The releases of an estimator.

    Returns
    -------
    dict
        For each target, one region for each release.
    """
    certificates = [release.certificate for release in releases]
    regions = {}
    for of in ("population", "records"):
        with suppress(ParameterError):
            regions[of] = simultaneous(certificates, JOINT_LEVEL, of)
    return regions


def _known_regions(certificate: Certificate, components: int | None) -> list[Region]:
    """Return the region of the population and that of the noise, if theorems give them.

    Parameters
    ----------
    certificate : Certificate
        The certificate of the release.
    components : int or None
        How many principal directions were released, if any.

    Returns
    -------
    list of Region
        At most two.
    """
    regions = []
    for of in ("population", "records"):
        with suppress(ParameterError):
            regions.append(region_of(certificate, of=of, components=components))
    return regions


def _predicted_error(certificate: Certificate) -> float | None:
    """Return the error that the noise is expected to cause, if it can be predicted.

    No error is predicted for a mean that need not be unique.

    Parameters
    ----------
    certificate : Certificate
        The certificate of the release.

    Returns
    -------
    float or None
        The predicted error in the units of the value; None if it cannot be predicted or
        the mean need not be unique.
    """
    if several_means_warnings(certificate):
        return None
    try:
        return predicted_error_of_release(certificate)
    except CurvedpError:
        return None


def _all_values(
    releases: list[ReleasedValue],
    values: list[str],
    regions: Mapping[str, list[Region]],
) -> ReportTable:
    """Return the table of all that was released together, with the error bars.

    Such values are the means of several classes, for example.

    Parameters
    ----------
    releases : list of ReleasedValue
        The releases of an estimator.
    values : list of str
        The released values in words.
    regions : mapping
        For each target ("population", "records"), one region for each release.

    Returns
    -------
    ReportTable
        One row for each release.
    """
    names = {"population": "95% of the population", "records": "95% of the noise alone"}
    rows = []
    for index, (release, value) in enumerate(zip(releases, values, strict=True)):
        row = [release.title, str(release.certificate.statistic.get("n", ""))]
        for regions_of_target in regions.values():
            region = regions_of_target[index]
            row.append(f"within {distance_sentence(region.manifold, region.radius)}")
        rows.append((*row, value))
    header = ("what", "records", *(names[of] for of in regions), "value")
    return ReportTable("All released values", header, rows)


def _comparison_pictures(
    releases: list[ReleasedValue],
    regions: Mapping[str, list[Region]],
    form: str | None,
) -> list[Picture]:
    """Return a figure with the regions of all releases, if they can be in one figure.

    Parameters
    ----------
    releases : list of ReleasedValue
        The releases of an estimator.
    regions : mapping
        For each target ("population", "records"), one region for each release. Those of
        the population are drawn if there are any.
    form : str or None
        The form of the records.

    Returns
    -------
    list of Picture
        One picture, or none.
    """
    if not regions:
        return []
    # Regions of the population come first, if there are any.
    first_regions = next(iter(regions.values()))
    titles = [release.title for release in releases]
    named = dict(zip(titles, first_regions, strict=True))
    try:
        figure = figures.regions_figure(named, form, joint_level=JOINT_LEVEL)
    except ParameterError:  # too many, or on several spaces
        return []
    caption = "All releases; their regions hold at once."
    return [Picture(figure, caption, is_wide=True)]


def _release_pictures(
    certificate: Certificate,
    value: np.ndarray,
    regions: list[Region],
    components: int | None,
    form: str | None,
) -> list[Picture]:
    """Return the figures of the confidence regions and of the privacy of a release.

    Parameters
    ----------
    certificate : Certificate
        The certificate of the release.
    value : array
        The released value.
    regions : list of Region
        The confidence regions that there are.
    components : int or None
        How many principal directions were released, if directions were.
    form : str or None
        The form of the records.

    Returns
    -------
    list of Picture
        The pictures in the order of the page.
    """
    pictures = []
    point = value if components is None else value.T
    for region in regions:
        # What an estimator has made of the release may live elsewhere than its region.
        if np.size(point) != prod(region.manifold.point_shape):
            continue
        covered = f"{region.description} ({region.theorem})"
        legend = _REGION_LEGENDS[form_of(region.manifold)].format(covered)
        pictures.append(Picture(figures.region_figure(region, point, form), legend))
        if region.of == "records":
            radii = figures.radius_figure(certificate, components)
            caption = "Of the noise alone, from the certificate; the data are not used."
            pictures.append(Picture(radii, caption))
    return pictures + _privacy_pictures(certificate)


def _privacy_pictures(certificate: Certificate) -> list[Picture]:
    """Return the figures of a release's privacy: its profile and its trade-off curve.

    There are none if the release meets no guarantee of Gaussian DP, to which the
    figures compare it.

    Parameters
    ----------
    certificate : Certificate
        The certificate of the release.
    """
    mu = certificate.claims.gdp
    if mu is None:
        return []
    profile = mechanism_of(certificate).privacy_profile
    return [
        Picture(
            figures.profile_figure(profile, mu),
            "For each ε, the smallest δ for which the release is (ε, δ)-differentially "
            "private; lower is better.",
        ),
        Picture(
            figures.tradeoff_figure(profile, mu),
            "The errors of the best possible attacker; "
            "nearer to the dotted line is better.",
        ),
    ]


def budget_picture(ledger: Ledger) -> Picture:
    """Return the figure of how much of the ledger's budget is spent.

    Parameters
    ----------
    ledger : Ledger
        The ledger that paid.

    Returns
    -------
    Picture
        A bar that is as wide as the page.
    """
    labels = [entry.label for entry in ledger.entries]
    return Picture(
        figures.budget_figure(ledger.spent, ledger.budget, labels),
        f"Left for later releases: {rounded_down(ledger.remaining)}.",
        is_wide=True,
    )


def budget_section(ledger: Ledger) -> str:
    """Return the HTML of the section that lists all entries of the ledger.

    Parameters
    ----------
    ledger : Ledger
        The ledger that paid.

    Returns
    -------
    str
        A heading, a sentence and a table.
    """
    rows = []
    for entry in ledger.entries:
        # The time is in ISO format; the page shows it to the second.
        time = entry.time[:19].replace("T", " ")
        rows.append((*entry_row(entry), time))
    return (
        "<h2>What was spent so far</h2>"
        f"<p>The budget is {escape(str(ledger.budget))}: "
        f"{escape(unit_in_words(ledger.unit))}.</p>"
        f"{html_table((*ENTRY_HEADER, 'when (UTC)'), rows)}"
    )


def _warning_paragraphs(releases: list[ReleasedValue]) -> str:
    """Return the HTML of all warnings about a release, each once.

    A warning says that a value is of little use, that the noise was simulated, or that
    the sampler is not certified.

    Parameters
    ----------
    releases : list of ReleasedValue
        The releases of an estimator.

    Returns
    -------
    str
        HTML, empty without warnings.
    """
    all_texts = []
    for release in releases:
        found = release_warnings(release.value, release.certificate)
        all_texts += [warning.text for warning in found]
    texts = list(dict.fromkeys(all_texts))  # each once, in their order
    certificate = releases[0].certificate

    if certificate.provenance.entropy.get("cryptographic") is not True:
        texts.append(
            "The random numbers were simulated: this is NOT a private release."
        )
    if certificate.provenance.numerics.get("slack") is None:
        texts.append(
            "The noise was drawn in ordinary floating point; the guarantee "
            "below is that of the ideal noise. The difference is not certified."
        )
    return "".join(f'<p class="warn">{escape(text)}</p>' for text in texts)


def _explanation(releases: list[ReleasedValue], error: float | None) -> str:
    """Return the lead paragraph of the page: the promise of the release in plain words.

    With TV the total variation distance between the outcomes on two neighboring data
    sets, an attacker who tosses a fair coin which of them is true guesses right with
    probability at most (1 + TV)/2, and δ(0) >= TV.

    Parameters
    ----------
    releases : list of ReleasedValue
        The releases of one estimator. The promise of the first is quoted.
    error : float or None
        The expected distance that the noise moves the result, if it is known.

    Returns
    -------
    str
        HTML text of one paragraph.
    """
    certificate = releases[0].certificate
    unit_words = UNIT_WORDS[certificate.privacy_unit]
    change, guess = neighbor_words(certificate)
    what = _subject_sentence(releases, unit_words.plural)

    _, delta_at_zero = certificate.claims.curve[0]
    success_percent = 50 * (1 + delta_at_zero)
    eps, delta = _quoted_point(certificate)
    additive_term = f", plus {delta:.2g}" if delta > 0 else ""
    return (
        f"{what} "
        f"Suppose an attacker knows every other {unit_words.noun} and must guess "
        f"{guess}. A coin is right "
        "50% of the time; the best possible attack on this page is right at most "
        f"<b>{success_percent:.1f}%</b> of the time. In other words, "
        f"{change} changes the probability of every outcome by a factor of at most "
        f"e<sup>{eps:g}</sup>"
        f"{additive_term}.{_error_sentences(certificate, error)}"
    )


def _subject_sentence(releases: list[ReleasedValue], plural: str) -> str:
    """Return the sentence that says of which data the values are statistics.

    Parameters
    ----------
    releases : list of ReleasedValue
        The releases of one estimator.
    plural : str
        The privacy unit in the plural, such as "records".

    Returns
    -------
    str
        HTML text.
    """
    counts = [release.certificate.statistic.get("n") for release in releases]
    subject = "the data"
    if all(counts):
        subject = f"{escape(', '.join(str(n) for n in counts))} {plural}"
    if len(releases) == 1:
        return (
            f"This is a statistic of {subject} with random noise added, so that it "
            "reveals little about any one of them."
        )
    return (
        f"These are {len(releases)} statistics, of {subject}, with random noise added, "
        "so that they reveal little about any one of them. Each has a certificate; the "
        "numbers on this page refer to the first unless they name another."
    )


def _quoted_point(certificate: Certificate) -> tuple[float, float]:
    """Return the point (ε, δ) of the certified curve that the lead paragraph quotes.

    It is the first one whose δ is below 0.001, or the last one.

    Parameters
    ----------
    certificate : Certificate
        The certificate of the release.
    """
    for eps, delta in certificate.claims.curve:
        if delta < _QUOTED_DELTA:
            return eps, delta
    return certificate.claims.curve[-1]


def _error_sentences(certificate: Certificate, error: float | None) -> str:
    """Say how far the noise moves the result, and what that does not cover.

    Parameters
    ----------
    certificate : Certificate
        The certificate of the release.
    error : float or None
        The predicted error; None if there is no prediction.

    Returns
    -------
    str
        HTML text, empty without a prediction.
    """
    if error is None:
        return ""
    return (
        f" The noise moves the result by about {error:.3g}: this is its expected "
        f"distance from the {escape(_noise_free_result(certificate))}. "
        "Not included: the bias from clipping records to the ball. Reporting it would "
        "itself consume budget."
    )


def _key_figures(
    certificate: Certificate,
    error: float | None,
    regions: list[Region],
    ledger: Ledger | None,
) -> list[tuple[str, str]]:
    """Return the few numbers at the top of the page, as pairs (meaning, number).

    Parameters
    ----------
    certificate : Certificate
        The certificate of the release.
    error : float or None
        The expected distance that the noise moves the result.
    regions : list of Region
        The confidence regions that there are.
    ledger : Ledger or None
        The ledger that paid for the release.

    Returns
    -------
    list of (str, str)
        Pairs of a meaning and the number as text.
    """
    key_figures = []
    if "n" in certificate.statistic:
        plural = UNIT_WORDS[certificate.privacy_unit].plural
        n = str(certificate.statistic["n"])
        key_figures.append((f"{plural}, a public number", n))

    mu = certificate.claims.gdp
    if mu is not None:
        meaning = (
            "μ: no easier to detect than a shift of a normal by μ standard deviations"
        )
        key_figures.append((meaning, f"{mu:.3g}"))
    if error is not None:
        meaning = f"expected distance from the {_noise_free_result(certificate)}"
        key_figures.append((meaning, f"{error:.3g}"))
    for region in regions:
        target = "the noise alone" if region.of == "records" else "the population"
        meaning = f"{100 * region.level:g}% error bar of {target}"
        key_figures.append((meaning, radius_sentence(region)))
    if ledger is not None:
        meaning = f"left of the budget {ledger.budget}"
        key_figures.append((meaning, rounded_down(ledger.remaining)))
    return key_figures


def _statistic_name(certificate: Certificate) -> str:
    """Return the name of the statistic without the method: "X" of "X by Y".

    Parameters
    ----------
    certificate : Certificate
        The certificate of the release.
    """
    name = str(certificate.statistic.get("name", "statistic"))
    return name.split(" by ")[0]


def _noise_free_result(certificate: Certificate) -> str:
    """Name what would have been released without noise, for use in a sentence.

    Parameters
    ----------
    certificate : Certificate
        The certificate of the release.

    Returns
    -------
    str
        Such as "mean of the records, clipped to the ball".
    """
    name = _statistic_name(certificate)
    if name == "Fréchet mean":
        name = "mean"
    return f"{name} of the records, clipped to the ball"


def rounded_down(guarantee: Guarantee | None) -> str:
    """Return a remaining budget with three decimals, never more than there is.

    Parameters
    ----------
    guarantee : Guarantee or None
        The remaining budget.

    Returns
    -------
    str
        Such as "GDP(0.871)"; "nothing" if the budget is spent.
    """
    if guarantee is None:
        return "nothing"
    numbers = [
        f"{floor(1000 * number) / 1000:g}"
        for number in guarantee.to_dict().values()
        if isinstance(number, float)
    ]
    return f"{type(guarantee).__name__}({', '.join(numbers)})"


def _claim_rows(certificate: Certificate) -> list[tuple[str, str]]:
    """Return the certified guarantee in every definition, as pairs (name, value).

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.

    Returns
    -------
    list of (str, str)
        The name of each parameter, and the number as text.
    """
    claims = certificate.claims
    parameters = {
        "Gaussian DP, μ": claims.gdp,
        "pure DP, ε": claims.pure,
        "zCDP, ρ": claims.zcdp,
        "Rao DP, θ": claims.rao,
    }
    rows = []
    for name, parameter in parameters.items():
        rows.append((name, "none" if parameter is None else f"{parameter:.6g}"))
    for eps, delta in claims.curve:
        rows.append((f"δ at ε = {eps:g}", f"{delta:.4g}"))
    return rows


def _fact_rows(certificate: Certificate) -> list[tuple[str, str]]:
    """Return the facts on which the promise rests, as pairs (name, value).

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.

    Returns
    -------
    list of (str, str)
        Pairs of a name and the fact in words.
    """
    statistic = certificate.statistic
    plural = UNIT_WORDS[certificate.privacy_unit].plural
    ball = f"radius {statistic['radius']:g}" if "radius" in statistic else "none"
    return [
        ("mechanism", certificate.mechanism),
        ("reason for the mechanism", choice_sentence(certificate)),
        ("post-processing", post_processing_sentence(certificate)),
        ("protected", protected_unit_sentence(certificate)),
        (plural, str(statistic.get("n", "not stated"))),
        ("public ball", ball),
        *_predictor_ranges(statistic),
        ("sensitivity", f"{certificate.sensitivity:.6g}"),
        ("adjacency", certificate.guarantee.adjacency),
        ("numerics", _mapping_text(certificate.provenance.numerics)),
        ("randomness", str(certificate.provenance.entropy["source"])),
        ("software", _mapping_text(certificate.provenance.software)),
        ("created", certificate.provenance.created),
    ]


def _mapping_text(items: Mapping[str, Any]) -> str:
    """Return a mapping as text: "name value, name value".

    Parameters
    ----------
    items : mapping
        Names with JSON values.
    """
    return ", ".join(f"{name} {value}" for name, value in items.items())


def _predictor_ranges(statistic: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the row of the public ranges of the predictors, if there are any.

    Parameters
    ----------
    statistic : mapping
        The certificate's description of the statistic.

    Returns
    -------
    list of (str, str)
        One row, or none.
    """
    if statistic.get("x_range") is None:
        return []
    ranges = np.atleast_2d(statistic["x_range"]).tolist()
    return [("x range", ", ".join(f"[{low:g}, {high:g}]" for low, high in ranges))]


def key_cards(key_figures: list[tuple[str, str]]) -> str:
    """Return the HTML of the numbers at the top of the page, one card for each.

    Parameters
    ----------
    key_figures : list of (str, str)
        Pairs of a meaning and the number as text.
    """
    return "".join(
        f'<div class="key"><b>{escape(number)}</b>{escape(meaning)}</div>'
        for meaning, number in key_figures
    )


def _section(table: ReportTable) -> str:
    """Return the HTML of a table with its heading.

    Parameters
    ----------
    table : ReportTable
        The heading, the names of the columns and the rows.
    """
    return f"<h2>{escape(table.title)}</h2>{html_table(table.header, table.rows)}"


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the HTML of a table; all cells are escaped.

    Parameters
    ----------
    header : sequence of str
        The names of the columns.
    rows : iterable of sequences of str
        The cells of each row.
    """
    header_cells = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = ""
    for row in rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
        body += f"<tr>{cells}</tr>"
    return f'<div class="scroll"><table><tr>{header_cells}</tr>{body}</table></div>'


def figure_element(picture: Picture) -> str:
    """Return the HTML of a figure with its caption.

    Parameters
    ----------
    picture : Picture
        The figure with its caption.
    """
    css_class = "wide" if picture.is_wide else ""
    return (
        f'<figure class="{css_class}">{_svg(picture.figure)}'
        f"<figcaption>{escape(picture.caption)}</figcaption></figure>"
    )


@canvas.own_style()
def _svg(figure: Figure) -> str:
    """Return a figure as an SVG element whose colors are variables of the page.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.

    Returns
    -------
    str
        The SVG element, without the prologue of an XML file.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    # HTML does not allow the XML prologue that stands before the element.
    text = text[text.index("<svg") :]
    for color, variable in _CSS_VARIABLES.items():
        text = text.replace(color, f"var({variable})")
    return text

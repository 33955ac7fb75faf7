"""A page about a release: one self-contained HTML file, for people who were not there."""

import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from html import escape
from math import floor, prod
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from matplotlib.figure import Figure

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
from curvedp.errors import ParameterError
from curvedp.inference import Region, region_of
from curvedp.inference.region import components_of
from curvedp.ledger import Ledger
from curvedp.ledger.book import ENTRY_HEADER, entry_row, unit_in_words
from curvedp.privacy import Guarantee
from curvedp.release.predict import predicted_error_or_none
from curvedp.release.rebuild import final_mechanism_of, mechanism_of
from curvedp.release.warnings import release_warnings, several_means_warnings
from curvedp.report import canvas, figures

_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
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
summary { cursor: pointer }
</style></head><body>
<h1>$title</h1><p><span class="badge">$guarantee</span></p>
$warning
<p class="lead">$explanation</p>
<div class="keys">$keys</div>
<div class="grid">$pictures</div>
<h2>The released value$what</h2><pre>$value</pre>
$extra
$budget
<h2>What is promised</h2>$claims
<h2>What it rests on</h2>$facts
<p>Anyone can recompute all of this from the certificate alone: <code>curvedp verify certificate.json</code>. The certificate
contains no data and no hash of data.</p>
<details><summary>The certificate</summary><pre>$certificate</pre></details>
</body></html>
""")

# What the pictures are drawn with, and the page's variables that replace it, so that they follow the reader's light or dark.
_COLORS = {
    canvas.INK: "--ink",
    canvas.ACCENT: "--accent",
    canvas.WARM: "--warm",
    canvas.SOFT: "--haze",
    canvas.PANEL: "--panel",
    canvas.LINES: "--grid",
    canvas.TRACK: "--track",
}


def write_report(
    path: str | Path,
    value: Any,
    certificate: Certificate | None = None,
    ledger: Ledger | None = None,
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = (),
) -> None:
    """Write the page.

    Parameters
    ----------
    path, value : path, and array or fitted estimator
        Where to, and the released value; an estimator brings its certificate and ledger.
    certificate, ledger : Certificate and Ledger, optional
        Of the value, where it is an array, and what paid for it.
    tables : sequence of (title, header, rows)
        Further tables to show, such as a comparison made for a demonstration.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from curvedp import PrivateFrechetMean
    >>> from curvedp.geometry import Sphere
    >>> fitted = PrivateFrechetMean(Sphere(2), radius=0.5).fit(np.tile([0.0, 0.0, 1.0], (200, 1)))
    >>> page = Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(page, fitted)
    >>> "certificate" in page.read_text().lower()
    True
    """
    write_atomically(path, render_report(value, certificate, ledger, tables))


def render_report(
    value: Any,
    certificate: Certificate | None = None,
    ledger: Ledger | None = None,
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = (),
) -> str:
    """Return the page as text; the parameters are those of `write_report`."""
    if certificate is None:
        releases = releases_of(value)
        ledger = ledger or value.ledger
    else:
        releases = [ReleasedValue("", value, certificate)]
    what, value, main_certificate = releases[0]
    certificate = main_certificate
    if len(releases) > 1:
        tables = [*tables, _other_values(releases[1:])]
    mechanism = mechanism_of(certificate)
    region = None
    components = components_of(
        mechanism.statistic, value
    )  # how many directions were released, if it is directions
    with suppress(ParameterError):  # no theorem may give one
        region = region_of(certificate, components=components)
    pictures = _pictures(certificate, value, region, components)
    spent = ""
    if ledger is not None:
        entries = ledger.entries
        paid = [(*entry_row(e), e.time[:19].replace("T", " ")) for e in entries]
        spent = (
            "<h2>What was spent so far</h2>"
            f"<p>The budget is {escape(str(ledger.budget))}: "
            f"{escape(unit_in_words(ledger.unit))}.</p>"
            f"{_table((*ENTRY_HEADER, 'when (UTC)'), paid)}"
        )
        labels = [entry.label for entry in entries]
        picture = figures.budget_figure(ledger.spent, ledger.budget, labels)
        pictures.append(
            (picture, f"Left for later releases: {_short(ledger.remaining)}.", "wide")
        )
    # Where the mean need not be unique, no error is predicted for it.
    doubtful = bool(several_means_warnings(certificate))
    error = (
        None if doubtful else predicted_error_or_none(final_mechanism_of(certificate))
    )
    alarms = dict.fromkeys(
        warning.text
        for release in releases
        for warning in release_warnings(release.value, release.certificate)
    )
    keys = _keys(certificate, error, region, ledger)
    return _PAGE.substitute(
        title=f"Private {escape(_name(certificate))} on {escape(record_space(certificate))}",
        guarantee=escape(str(certificate.guarantee)),
        warning=_warning(certificate, alarms),
        what=f": {escape(what)}" if len(releases) > 1 else "",
        explanation=_explanation(certificate, error),
        keys="".join(
            f'<div class="key"><b>{escape(v)}</b>{escape(k)}</div>' for k, v in keys
        ),
        pictures="".join(
            f'<figure class="{kind}">{_svg(figure)}<figcaption>{escape(text)}</figcaption></figure>'
            for figure, text, kind in pictures
        ),
        value=escape(np.array2string(value, precision=8, threshold=400)),
        extra="".join(
            f"<h2>{escape(title)}</h2>{_table(header, rows)}"
            for title, header, rows in tables
        ),
        budget=spent,
        claims=_table(("definition", "value"), _claims(certificate)),
        facts=_table(("what", "value"), _facts(certificate)),
        certificate=escape(certificate.to_json()),
    )


def _other_values(
    releases: list[ReleasedValue],
) -> tuple[str, Sequence[str], Sequence[Sequence[str]]]:
    """Return the table of what was released at the same price: other classes, say."""
    rows = [
        (
            release.title,
            str(release.certificate.statistic.get("n", "")),
            np.array2string(release.value, precision=6),
        )
        for release in releases
    ]
    return "Other released values", ("what", "records", "value"), rows


def _pictures(
    certificate: Certificate,
    value: np.ndarray,
    region: Region | None,
    components: int | None,
) -> list[tuple[Figure, str, str]]:
    curve: Any = mechanism_of(certificate).privacy_profile
    mu = certificate.claims.gdp
    pictures: list[tuple[Figure, str, str]] = []
    point = value.T if components is not None else value
    # What an estimator has made of the release may live elsewhere than its region.
    if region is not None and np.size(point) == prod(region.manifold.point_shape):
        where = figures.region_figure(region, point)
        pictures.append(
            (
                where,
                f"Blue: it holds {region.about} ({region.theorem}). Orange: the release.",
                "",
            )
        )
        wide = figures.radius_figure(certificate, components)
        pictures.append(
            (wide, "From the certificate alone; the data are not used.", "")
        )
    if mu is not None:
        words = "The probability δ that the privacy loss is above ε; lower is better."
        pictures.append((figures.profile_figure(curve, mu), words, ""))
        words = "The errors of the best possible attacker; nearer to the dotted line is better."
        pictures.append((figures.tradeoff_figure(curve, mu), words, ""))
    return pictures


def _warning(certificate: Certificate, alarms: Iterable[str]) -> str:
    warnings = list(alarms)
    if certificate.entropy.get("cryptographic") is not True:
        warnings.append(
            "The random numbers were simulated: this is NOT a private release."
        )
    if certificate.numerics.get("slack") is None:
        drawn = "The noise was drawn in ordinary floating point; the promise below is the ideal noise's"
        warnings.append(
            f"{drawn}. How far the drawn noise is from it is not certified."
        )
    return "".join(f'<p class="warn">{escape(text)}</p>' for text in warnings)


def _explanation(certificate: Certificate, error: float | None) -> str:
    n = certificate.statistic.get("n")
    unit_words = UNIT_WORDS[certificate.privacy_unit]
    whose = unit_words.noun
    change, guess = neighbor_words(certificate)
    people = f"{escape(str(n))} {unit_words.plural}" if n else "the data"
    (_, advantage), *_ = certificate.claims.curve
    eps, delta = next(
        ((e, d) for e, d in certificate.claims.curve if d < 1e-3),
        certificate.claims.curve[-1],
    )
    except_for = f", except for events of probability {delta:.2g}" if delta > 0 else ""
    moved = ""
    if error is not None:
        moved = (
            f" The noise moves the result by about {error:.3g}: this is its expected distance from the "
            f"{escape(_of_what(certificate))}. What is not covered: how far moving the records into the ball has moved it; "
            "nobody may say so without paying."
        )
    return (
        f"This is a statistic of {people} with random noise added, so that it says little about any one of them. How little: "
        f"suppose an attacker knows every other {whose} and must guess {guess}: a coin is right "
        f"50% of the time, the best possible attack on this page at most <b>{50 * (1 + advantage):.1f}%</b>. That is, "
        f"{change} changes the probability of every outcome by a factor of at most e<sup>{eps:g}</sup>"
        f"{except_for}.{moved}"
    )


def _keys(
    certificate: Certificate,
    error: float | None,
    region: Region | None,
    ledger: Ledger | None,
) -> list[tuple[str, str]]:
    claims, statistic = certificate.claims, certificate.statistic
    keys = (
        [
            (
                f"{UNIT_WORDS[certificate.privacy_unit].plural}, a public number",
                str(statistic["n"]),
            )
        ]
        if "n" in statistic
        else []
    )
    if claims.gdp is not None:
        keys.append(
            (
                "μ: as hard to see as a shift of a normal by so many standard deviations",
                f"{claims.gdp:.3g}",
            )
        )
    if error is not None:
        keys.append(
            (f"expected distance from the {_of_what(certificate)}", f"{error:.3g}")
        )
    if region is not None:
        keys.append(
            (f"radius of the {100 * region.level:g}% region", f"{region.radius:.3g}")
        )
    if ledger is not None:
        keys.append((f"left of the budget {ledger.budget}", _short(ledger.remaining)))
    return keys


def _name(certificate: Certificate) -> str:
    return str(certificate.statistic.get("name", "statistic")).split(" by ")[0]


def _of_what(certificate: Certificate) -> str:
    name = _name(certificate)
    return f"{'mean' if name == 'Fréchet mean' else name} of the records moved into the ball"


def _short(guarantee: Guarantee | None) -> str:
    """A guarantee with its numbers cut, not rounded, to three decimals: never more than is there."""
    if guarantee is None:
        return "nothing"
    numbers = [
        f"{floor(1000 * v) / 1000:g}"
        for v in guarantee.to_dict().values()
        if isinstance(v, float)
    ]
    return f"{type(guarantee).__name__}({', '.join(numbers)})"


def _claims(certificate: Certificate) -> list[tuple[str, str]]:
    claims = certificate.claims
    named = {
        "Gaussian DP, μ": claims.gdp,
        "pure DP, ε": claims.pure,
        "zCDP, ρ": claims.zcdp,
        "Rao DP, θ": claims.rao,
    }
    rows = [
        (name, "none" if value is None else f"{value:.6g}")
        for name, value in named.items()
    ]
    return rows + [(f"δ at ε = {eps:g}", f"{delta:.4g}") for eps, delta in claims.curve]


def _facts(certificate: Certificate) -> list[tuple[str, str]]:
    statistic = certificate.statistic
    return [
        ("mechanism", certificate.mechanism),
        ("why this one", choice_sentence(certificate)),
        ("post-processing", post_processing_sentence(certificate)),
        ("whose data are protected", protected_unit_sentence(certificate)),
        (
            UNIT_WORDS[certificate.privacy_unit].plural,
            str(statistic.get("n", "not stated")),
        ),
        (
            "public ball",
            f"radius {statistic['radius']:g}" if "radius" in statistic else "none",
        ),
        *_predictor_ranges(statistic),
        ("sensitivity", f"{certificate.sensitivity:.6g}"),
        ("adjacency", certificate.guarantee.adjacency),
        (
            "numerics",
            ", ".join(
                f"{name} {value}" for name, value in certificate.numerics.items()
            ),
        ),
        ("randomness", str(certificate.entropy["source"])),
        (
            "software",
            ", ".join(
                f"{name} {version}" for name, version in certificate.software.items()
            ),
        ),
        ("made", certificate.created),
    ]


def _predictor_ranges(statistic: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the fact of the public range of the predictors, where there are any."""
    if "x_range" not in statistic:
        return []
    ranges = np.atleast_2d(statistic["x_range"]).tolist()
    return [("x range", ", ".join(f"[{low:g}, {high:g}]" for low, high in ranges))]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]  # without the XML prologue, as HTML wants it
    for color, name in _COLORS.items():
        text = text.replace(color, f"var({name})")
    return text

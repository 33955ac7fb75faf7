"""A page about a release: one self-contained HTML file, for people who were not there."""

import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

import numpy as np
from matplotlib.figure import Figure

from curvedp.ledger import Ledger
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.verify import rebuild_mechanism
from curvedp.report import figures

__all__ = ["write_report"]

_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { font: 16px/1.55 system-ui, sans-serif; color: #1d2b3a; margin: 0 auto; max-width: 64rem; padding: 2rem 1.2rem; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem } h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem }
.lead { font-size: 1.05rem; max-width: 46rem } .grid { display: grid; gap: 1.2rem;
grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)) } figure { margin: 0 } svg { width: 100%; height: auto }
figcaption { font-size: .88rem; color: #51606e } table { border-collapse: collapse; font-size: .92rem }
td, th { padding: .25rem .9rem .25rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #e3e9ed }
pre { background: #f3f7f9; padding: .8rem; overflow-x: auto; font-size: .82rem }
.number { font-variant-numeric: tabular-nums }
.badge { background: #0b6e99; color: #fff; border-radius: .3rem; padding: .1rem .5rem }
</style></head><body>
<h1>$title</h1><p><span class="badge">$guarantee</span></p>
<p class="lead">$explanation</p>
<div class="grid">$pictures</div>
<h2>The released value</h2><pre>$value</pre>
$extra
<h2>What is promised</h2>$claims
<h2>What it rests on</h2>$facts
<p>Anyone can recompute all of this from the certificate alone: <code>curvedp verify certificate.json</code>. The certificate
contains no data and no hash of data.</p>
<details><summary>The certificate</summary><pre>$certificate</pre></details>
</body></html>
""")


def write_report(
    path: str | Path,
    value: np.ndarray,
    certificate: Certificate,
    ledger: Ledger | None = None,
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = (),
) -> None:
    """Write the page. `tables` are further (title, header, rows) to show, such as a comparison made for a demonstration."""
    mechanism = rebuild_mechanism(certificate)
    statistic = certificate.statistic
    ball = (
        (np.asarray(statistic["center"]), float(statistic["radius"]))
        if statistic.get("name") == "Fréchet mean"
        else None
    )
    cloud = figures.simulate_cloud(mechanism, value, ball)
    pictures = [
        (
            figures.noise_figure(mechanism.manifold, value, cloud),
            "Orange: the release. Blue: what else could have come out.",
        ),
        (figures.error_figure(cloud), "Simulated from public parameters; the data are not used."),
        (
            figures.profile_figure(mechanism),
            "The probability budget δ left over at each privacy loss ε; lower is better.",
        ),
        (figures.tradeoff_figure(mechanism), "The best attacker's errors; nearer to the dotted line is better."),
    ]
    if ledger is not None:
        labels = [entry.label for entry in ledger.entries]
        pictures.append((figures.budget_figure(ledger.spent, ledger.budget, labels), "The ledger of this data set."))
    page = _PAGE.substitute(
        title=f"Private {escape(str(statistic.get('name', 'statistic')))} on {escape(certificate.manifold)}",
        guarantee=escape(str(certificate.guarantee)),
        explanation=escape(_explanation(certificate, float(cloud.distances.mean()))),
        pictures="".join(
            f"<figure>{_svg(figure)}<figcaption>{escape(text)}</figcaption></figure>" for figure, text in pictures
        ),
        value=escape(np.array2string(value, precision=8, threshold=400)),
        extra="".join(f"<h2>{escape(title)}</h2>{_table(header, rows)}" for title, header, rows in tables),
        claims=_table(("definition", "value"), _claims(certificate)),
        facts=_table(("what", "value"), _facts(certificate)),
        certificate=escape(certificate.to_json()),
    )
    Path(path).write_text(page, encoding="utf-8")


def _explanation(certificate: Certificate, error: float) -> str:
    n = certificate.statistic.get("n")
    people = f"{n} records" if n else "the data"
    eps, delta = next(((e, d) for e, d in certificate.claims.curve if d < 1e-3), certificate.claims.curve[-1])
    return (
        f"This is a statistic of {people} with random noise added. Replacing any one record by any other changes the "
        f"probability of every possible outcome by a factor of at most e^{eps:g}, except for events of probability "
        f"{delta:.2g}; the curves below say the same for every other factor. The noise moves the result by {error:.3g} on "
        f"average (Riemannian distance)."
    )


def _claims(certificate: Certificate) -> list[tuple[str, str]]:
    claims = certificate.claims
    named = [
        ("Gaussian DP, μ", claims.gdp),
        ("pure DP, ε", claims.pure),
        ("zCDP, ρ", claims.zcdp),
        ("Rao DP, θ", claims.rao),
    ]
    rows = [(name, "none" if value is None else f"{value:.6g}") for name, value in named]
    return rows + [(f"δ at ε = {eps:g}", f"{delta:.4g}") for eps, delta in claims.curve]


def _facts(certificate: Certificate) -> list[tuple[str, str]]:
    statistic = certificate.statistic
    return [
        ("mechanism", certificate.mechanism),
        ("why this one", str(statistic.get("choice", "asked for by name"))),
        ("records", str(statistic.get("n", "not stated"))),
        ("public ball", f"radius {statistic['radius']:g}" if "radius" in statistic else "none"),
        ("sensitivity", f"{certificate.sensitivity:.6g}"),
        ("adjacency", certificate.guarantee.adjacency),
        ("numerics", ", ".join(f"{name} {value}" for name, value in certificate.numerics.items())),
        ("randomness", str(certificate.entropy["source"])),
        ("software", ", ".join(f"{name} {version}" for name, version in certificate.software.items())),
        ("made", certificate.created),
    ]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f'<td class="number">{escape(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]  # without the XML prologue, as HTML wants it

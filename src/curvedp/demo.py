"""The main job on real data that ships with scikit-learn: private mean covariance descriptors of handwritten digits.

Each 8×8 image becomes the 5×5 covariance of five features of its pixels (intensity, its two derivatives, and intensity
times position): a point of the positive definite matrices under the affine-invariant metric, as in texture and medical
image analysis (Tuzel, Porikli & Meer 2006).
"""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_digits

from curvedp.estimators.mdm import PrivateMDM
from curvedp.geometry import SPDAffineInvariant, frechet_mean
from curvedp.ledger import Ledger
from curvedp.privacy import GDP
from curvedp.report import write_report

# Public choices, from the features' ranges and not from these images: intensities lie in [0, 1] with a variance of some
# tenths, derivatives and intensity times position somewhat below.
CENTER = np.diag([0.15, 0.1, 0.05, 0.03, 0.1])
RADIUS = 3.0
UNPAID = "* read from the records without paying, which these public images allow: never publish such numbers of yours"


def covariance_descriptors(images: np.ndarray) -> np.ndarray:
    """5×5 covariance matrices of pixel features of images with entries in [0, 1], shape (n, height, width)."""
    y, x = np.meshgrid(
        *(np.linspace(-1, 1, size) for size in images.shape[1:]), indexing="ij"
    )
    slopes = np.gradient(images, axis=2), np.gradient(images, axis=1)
    flat = np.stack([images, *slopes, x * images, y * images], axis=1).reshape(
        len(images), 5, -1
    )
    flat = flat - flat.mean(axis=2, keepdims=True)
    # The gray levels are multiples of 1/16: rounding noise of that size keeps a blank image positive definite.
    return np.asarray(
        flat @ flat.transpose(0, 2, 1) / flat.shape[2] + np.eye(5) * (1 / 16) ** 2 / 12
    )


def run_demo(output: Path, console: Console, mu: float = 1.0) -> dict[str, Any]:
    """Private class means under GDP(mu) in total, compared with the true ones, with certificates, ledger and report.

    A ledger is never deleted: where `output` has one, this run goes to the first free of `output`-2, `output`-3, …
    """
    manifold, digits = SPDAffineInvariant(5), load_digits()
    names = itertools.chain(
        [output], (output.with_name(f"{output.name}-{k}") for k in itertools.count(2))
    )
    output = next(folder for folder in names if not (folder / "digits.ledger").exists())
    output.mkdir(parents=True, exist_ok=True)
    X, y = covariance_descriptors(digits.images / 16), digits.target
    train = np.arange(len(X)) % 4 != 3
    images = f"{train.sum()} training images, {(~train).sum()} test images"
    console.print(f"{images}, {manifold}, public ball of radius {RADIUS}")

    ledger = Ledger(output / "digits.ledger", budget=GDP(mu))
    model = PrivateMDM(
        manifold, radius=RADIUS, center=CENTER, guarantee=GDP(mu), ledger=ledger
    ).fit(X[train], y[train])
    rows: list[tuple[str, ...]] = []
    true_means: list[np.ndarray] = []
    for digit in track(
        model.classes_, "true means, not paid for", console=console, transient=True
    ):
        records = X[train][y[train] == digit]
        true_means.append(mean := frechet_mean(manifold, records))
        model.certificates_[digit].save(output / f"certificate-{digit}.json")
        error = float(manifold.dist(mean, model.means_[digit]))
        spread = float(np.sqrt(np.mean(manifold.dist(mean, records) ** 2)))
        numbers = f"{error:.3f}", f"{spread:.3f}"
        rows.append(
            (
                str(digit),
                str(len(records)),
                model.certificates_[digit].mechanism,
                *numbers,
            )
        )
    header = (
        "digit",
        "records",
        "mechanism",
        "distance to the true mean*",
        "spread of the records*",
    )
    table = Table(
        *header,
        title=f"private means, {GDP(mu)} for all ten together (each image is in one class)",
    )
    for row in rows:
        table.add_row(*row)
    nearest = manifold.dist(np.stack(true_means)[None], X[~train][:, None]).argmin(
        axis=1
    )
    accuracy = {
        "private": float(model.score(X[~train], y[~train])),
        "true*": float(np.mean(nearest == y[~train])),
    }
    shown: list[tuple[str, ...]] = [
        (name, f"{100 * share:.1f}%") for name, share in accuracy.items()
    ]
    console.print(table)
    console.print(
        "accuracy on the test images*, by the nearest mean: "
        + ", ".join(" ".join(pair) for pair in shown)
    )
    console.print(
        f"ledger: spent {ledger.spent}, remaining {ledger.remaining or 'nothing'}\n{UNPAID}"
    )
    tables: list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]] = [
        ("All ten digits", header, rows),
        (
            "Classification by the nearest mean",
            ("means", "accuracy on the test images*"),
            shown,
        ),
        (UNPAID, (), []),
    ]
    write_report(
        output / "report.html",
        model.means_[0],
        model.certificates_[0],
        ledger,
        tables=tables,
    )
    console.print(
        f"report, certificates and ledger in {output}/ — try: curvedp verify {output}/certificate-0.json"
    )
    return {
        "accuracy": {"private": accuracy["private"], "non-private": accuracy["true*"]},
        "distances": {row[0]: float(row[3]) for row in rows},
        "report": str(output / "report.html"),
    }

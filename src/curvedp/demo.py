"""The main job on real data that ships with scikit-learn: private mean covariance descriptors of handwritten digits.

Each 8×8 image becomes the 5×5 covariance of five features of its pixels (intensity, its two derivatives, and intensity
times position): a point of the positive definite matrices under the affine-invariant metric, as in texture and medical
image analysis (Tuzel, Porikli & Meer 2006).
"""

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

__all__ = ["covariance_descriptors", "run_demo"]

# Public choices, from the features' ranges and not from these images: intensities lie in [0, 1] with a variance of some
# tenths, derivatives and intensity times position somewhat below.
CENTER = np.diag([0.15, 0.1, 0.05, 0.03, 0.1])
RADIUS = 3.0


def covariance_descriptors(images: np.ndarray) -> np.ndarray:
    """5×5 covariance matrices of pixel features of images with entries in [0, 1], shape (n, height, width)."""
    y, x = np.meshgrid(*(np.linspace(-1, 1, size) for size in images.shape[1:]), indexing="ij")
    features = np.stack(
        [images, np.gradient(images, axis=2), np.gradient(images, axis=1), x * images, y * images], axis=1
    )
    flat = features.reshape(len(images), 5, -1)
    flat = flat - flat.mean(axis=2, keepdims=True)
    # The grey levels are multiples of 1/16: rounding noise of that size keeps a blank image positive definite.
    return np.asarray(flat @ flat.transpose(0, 2, 1) / flat.shape[2] + np.eye(5) * (1 / 16) ** 2 / 12)


def run_demo(output: Path, console: Console, mu: float = 1.0) -> dict[str, Any]:
    """Private class means under GDP(mu) in total, compared with the true ones, with certificates, ledger and report."""
    manifold = SPDAffineInvariant(5)
    output.mkdir(parents=True, exist_ok=True)
    (output / "digits.ledger").unlink(missing_ok=True)  # the demonstration starts over each time
    digits = load_digits()
    X, y = covariance_descriptors(digits.images / 16), digits.target
    train = np.arange(len(X)) % 4 != 3
    console.print(
        f"{train.sum()} training images, {(~train).sum()} test images, {manifold}, public ball of radius {RADIUS}"
    )

    ledger = Ledger(output / "digits.ledger", budget=GDP(mu))
    model = PrivateMDM(manifold, radius=RADIUS, center=CENTER, guarantee=GDP(mu), ledger=ledger).fit(X[train], y[train])
    rows, true_means = [], []
    for digit in track(model.classes_, "true means, for comparison only", console=console, transient=True):
        records = X[train][y[train] == digit]
        mean = frechet_mean(manifold, records)
        true_means.append(mean)
        certificate = model.certificates_[digit]
        certificate.save(output / f"certificate-{digit}.json")
        error = float(manifold.dist(mean, model.means_[digit]))
        spread = float(np.sqrt(np.mean(manifold.dist(mean, records) ** 2)))
        rows.append((str(digit), str(len(records)), f"{error:.3f}", f"{spread:.3f}", certificate.mechanism))
    header = ("digit", "records", "distance private–true", "spread of the records", "mechanism")
    table = Table(*header, title=f"private means, {GDP(mu)} for all ten together (each image is in one class)")
    for row in rows:
        table.add_row(*row)
    console.print(table)

    nearest = manifold.dist(np.stack(true_means)[None], X[~train][:, None]).argmin(axis=1)
    accuracy = {
        "private": float(model.score(X[~train], y[~train])),
        "non-private": float(np.mean(nearest == y[~train])),
    }
    console.print(
        "accuracy of the nearest mean: " + ", ".join(f"{name} {100 * a:.1f}%" for name, a in accuracy.items())
    )
    console.print(f"ledger: spent {ledger.spent}, remaining {ledger.remaining or 'nothing'}")
    accuracies = [(name, f"{100 * a:.1f}%") for name, a in accuracy.items()]
    write_report(
        output / "report.html",
        model.means_[0],
        model.certificates_[0],
        ledger,
        tables=[
            ("All ten digits", header, rows),
            ("Classification by the nearest mean", ("means", "accuracy"), accuracies),
        ],
    )
    console.print(f"report, certificates and ledger in {output}/ — try: curvedp verify {output}/certificate-0.json")
    return {
        "accuracy": accuracy,
        "distances": {row[0]: float(row[2]) for row in rows},
        "report": str(output / "report.html"),
    }

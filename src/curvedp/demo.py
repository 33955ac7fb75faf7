"""A demonstration: private mean covariance descriptors of handwritten digits.
The images ship with scikit-learn. Each 8×8 image becomes the 5×5 covariance of five
features of its pixels (intensity, its two derivatives, and intensity times position): a
point of the positive definite matrices under the affine-invariant metric, as in texture
and medical image analysis (Tuzel, Porikli & Meer 2006).
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

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

# The public ball. Center and radius are chosen from the ranges of the features and not
# from these images: intensities lie in [0, 1] with a variance of some tenths,
# derivatives and intensity times position somewhat below.
CENTER = np.diag([0.15, 0.1, 0.05, 0.03, 0.1])
RADIUS = 3.0
UNPAID = (
    "* computed without noise, for demonstration on public images: "
    "do not publish such numbers for your own data"
)

# Gray levels of the images are integers from 0 to 16.
_GRAY_LEVELS = 16
_HEADER = (
    "digit",
    "records",
    "mechanism",
    "distance to the true mean*",
    "spread of the records*",
)


class _LabeledMatrices(NamedTuple):
    """Covariance descriptors, shape (n, 5, 5), and the digit of each, shape (n,).

    Attributes
    ----------
    matrices : array, shape (n, 5, 5)
        Covariance descriptors.
    digits : array of int, shape (n,)
        The digit of each image.
    """

    matrices: np.ndarray
    digits: np.ndarray


class _DigitResult(NamedTuple):
    """The private mean of one digit, compared with the true one.

    Attributes
    ----------
    digit : int
        The digit, from 0 to 9.
    n_records : int
        The number of training images of this digit.
    mechanism : str
        The mechanism of the release.
    true_mean : array, shape (5, 5)
        The Fréchet mean without noise.
    error : float
        The distance of the private mean to the true one.
    spread : float
        The root mean square distance of the records to the true mean.
    """

    digit: int
    n_records: int
    mechanism: str
    true_mean: np.ndarray
    error: float
    spread: float

    def cells(self) -> tuple[str, ...]:
        """Return the row of the table, in the order of `_HEADER`."""
        return (
            str(self.digit),
            str(self.n_records),
            self.mechanism,
            f"{self.error:.3f}",
            f"{self.spread:.3f}",
        )


def covariance_descriptors(images: np.ndarray) -> np.ndarray:
    """Return the covariance matrices of five features of the pixels of images.

    Parameters
    ----------
    images : array, shape (n, height, width)
        Intensities in [0, 1].

    Returns
    -------
    array, shape (n, 5, 5)
        Positive definite matrices, one per image.
    """
    height, width = images.shape[1:]
    y, x = np.meshgrid(
        np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij"
    )
    x_slopes = np.gradient(images, axis=2)
    y_slopes = np.gradient(images, axis=1)
    features = np.stack([images, x_slopes, y_slopes, x * images, y * images], axis=1)
    features = features.reshape(len(images), 5, -1)
    centered = features - features.mean(axis=2, keepdims=True)
    covariances = centered @ centered.transpose(0, 2, 1) / centered.shape[2]
    # A number that was rounded to a multiple of h has an error of variance h²/12. This
    # much noise keeps the matrix of a blank image positive definite.
    rounding_variance = (1 / _GRAY_LEVELS) ** 2 / 12
    return np.asarray(covariances + np.eye(5) * rounding_variance)


def run_demo(output: Path, console: Console, mu: float = 1.0) -> dict[str, Any]:
    """Release private class means of the digits and compare them with the true means.

    Parameters
    ----------
    output : path
        The folder for certificates, ledger and report. A ledger is never deleted: if
        the folder has one, this run goes to the first free of `output`-2, `output`-3, …
    console : rich.console.Console
        Where tables and progress are printed.
    mu : float
        The release is GDP(mu) for all ten means together.

    Returns
    -------
    dict
        The accuracies with private and with true means, the distances between these
        means by digit, and the path of the report.
    """
    # The data, which are public, and a new folder.
    manifold = SPDAffineInvariant(5)
    output = _free_folder(output)
    output.mkdir(parents=True, exist_ok=True)
    training, test = _load_split_digits()
    console.print(
        f"{len(training.digits)} training images, {len(test.digits)} test images, "
        f"{manifold}, public ball of radius {RADIUS}"
    )

    ledger = Ledger(output / "digits.ledger", budget=GDP(mu))
    model = PrivateMDM(
        manifold, radius=RADIUS, center=CENTER, guarantee=GDP(mu), ledger=ledger
    )
    model.fit(training.matrices, training.digits)
    for digit in model.classes_:
        model.certificates_[digit].save(output / f"certificate-{digit}.json")

    # Compare with what privacy does not allow: the true means.
    digits = track(
        model.classes_,
        "true means, computed without privacy",
        console=console,
        transient=True,
    )
    results = [_compare_means(model, training, digit) for digit in digits]
    accuracy = _accuracies(model, results, test)
    _print_results(console, results, accuracy, ledger, mu)
    _write_demo_report(output / "report.html", model, results, accuracy)
    console.print(
        f"report, certificates and ledger in {output}/ — "
        f"try: curvedp verify {output}/certificate-0.json"
    )
    return {
        "accuracy": {"private": accuracy["private"], "non-private": accuracy["true*"]},
        "distances": {
            str(result.digit): float(f"{result.error:.3f}") for result in results
        },
        "report": str(output / "report.html"),
    }


def _free_folder(output: Path) -> Path:
    """Return the first of `output`, `output`-2, `output`-3, … without a ledger.

    Parameters
    ----------
    output : Path
        The folder that the user asked for.

    Returns
    -------
    Path
        A folder in which no release was paid for yet; it need not exist.
    """

    def candidates() -> Iterator[Path]:
        """Yield the folders in the order in which they are tried."""
        yield output
        for number in count(2):
            yield output.with_name(f"{output.name}-{number}")

    return next(
        folder for folder in candidates() if not (folder / "digits.ledger").exists()
    )


def _load_split_digits() -> tuple[_LabeledMatrices, _LabeledMatrices]:
    """Return the training images and the test images: every fourth one is for the test.

    Returns
    -------
    training, test : _LabeledMatrices
        Covariance descriptors with the digits.
    """
    data = load_digits()
    matrices = covariance_descriptors(data.images / _GRAY_LEVELS)
    is_training = np.arange(len(matrices)) % 4 != 3
    training = _LabeledMatrices(matrices[is_training], data.target[is_training])
    test = _LabeledMatrices(matrices[~is_training], data.target[~is_training])
    return training, test


def _compare_means(
    model: PrivateMDM, training: _LabeledMatrices, digit: int
) -> _DigitResult:
    """Compare the private mean of a digit with the true one. This is NOT private.

    Parameters
    ----------
    model : PrivateMDM
        The fitted classifier, with the private means.
    training : _LabeledMatrices
        The training images.
    digit : int
        The digit whose mean is compared.

    Returns
    -------
    _DigitResult
        The distance of the two means, with the spread of the records.
    """
    records = training.matrices[training.digits == digit]
    true_mean = frechet_mean(model.manifold, records)
    distances = model.manifold.dist(true_mean, records)
    return _DigitResult(
        digit=digit,
        n_records=len(records),
        mechanism=model.certificates_[digit].mechanism,
        true_mean=true_mean,
        error=float(model.manifold.dist(true_mean, model.means_[digit])),
        spread=float(np.sqrt(np.mean(distances**2))),
    )


def _accuracies(
    model: PrivateMDM, results: list[_DigitResult], test: _LabeledMatrices
) -> dict[str, float]:
    """Return how many test images have the nearest mean of their own digit, as a share.

    Parameters
    ----------
    model : PrivateMDM
        The fitted classifier, with the private means.
    results : list of _DigitResult
        The true mean of each digit, in ascending order of the digits.
    test : _LabeledMatrices
        The test images.

    Returns
    -------
    dict
        The share by the heading of its column: "private" for the released means,
        "true*" for the true ones, which no privacy allows to publish.
    """
    true_means = np.stack([result.true_mean for result in results])
    # The distance of each image (row) to each mean (column).
    images = test.matrices[:, np.newaxis]
    distances = model.manifold.dist(true_means[np.newaxis], images)
    nearest_digits = distances.argmin(axis=1)
    return {
        "private": float(model.score(test.matrices, test.digits)),
        "true*": float(np.mean(nearest_digits == test.digits)),
    }


def _print_results(
    console: Console,
    results: list[_DigitResult],
    accuracy: dict[str, float],
    ledger: Ledger,
    mu: float,
) -> None:
    """Print the table of the digits, the accuracies and what is left of the budget.

    Parameters
    ----------
    console : Console
        Where the results are printed.
    results : list
        The comparison of the private with the true mean of each digit.
    accuracy : dict
        The share of test images that each classifier gets right, by its name.
    ledger : Ledger
        What the release was paid from.
    mu : float
        μ of the guarantee.
    """
    table = Table(
        *_HEADER,
        title=(
            f"private means, {GDP(mu)} for all ten together "
            "(each image is in one class)"
        ),
    )
    for result in results:
        table.add_row(*result.cells())
    console.print(table)
    shares = ", ".join(f"{name} {100 * share:.1f}%" for name, share in accuracy.items())
    console.print(f"accuracy on the test images*, by the nearest mean: {shares}")
    console.print(
        f"ledger: spent {ledger.spent}, remaining {ledger.remaining or 'nothing'}\n"
        f"{UNPAID}"
    )


def _write_demo_report(
    path: Path,
    model: PrivateMDM,
    results: list[_DigitResult],
    accuracy: dict[str, float],
) -> None:
    """Write the report of the mean of digit 0, with the comparisons as tables.

    Parameters
    ----------
    path : Path
        The file that is written.
    model : PrivateMDM
        The fitted classifier, with values and certificates.
    results : list of _DigitResult
        The comparison of the private with the true mean of each digit.
    accuracy : dict
        The share of test images that each classifier gets right, by its name.
    """
    digit_rows = [result.cells() for result in results]
    accuracy_rows = [(name, f"{100 * share:.1f}%") for name, share in accuracy.items()]
    accuracy_header = ("means", "accuracy on the test images*")
    write_report(
        path,
        model.means_[0],
        model.certificates_[0],
        model.ledger,
        tables=[
            ("All ten digits", _HEADER, digit_rows),
            ("Classification by the nearest mean", accuracy_header, accuracy_rows),
            (UNPAID, (), []),
        ],
    )

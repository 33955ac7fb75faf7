"""Private recentering, connectomes and region tensors of cohorts of known truth.

    python -m benchmarks.neuro [recentering] [connectomes] [regions] --data-dir DATA

Recentering: recordings of several subjects, each with mixing of their own. A classifier
by the nearest class mean is trained on all recordings but one, and tested on that one:
raw, after recentering at the true mean of each recording ("public"), and after
`PrivateRecenter` with the affine-invariant and with the log-Euclidean metric. The
background of the trials is simulated, or windows of a real recording.

Connectomes: the error of an edge and of an average edge between networks, beside the
sampling error of the same cohort, for simulated cohorts and for real correlations.

Regions: mean tensors, FA and MD of ten regions of simulated cohorts whose typical
tensors are real ones, with the coverage of the stated intervals.

docs/evidence/neuro.md shows the output.
"""

import argparse
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import arrays
from curvedp import GDP, PrivateRecenter
from curvedp.errors import ReleaseWarning
from curvedp.estimators.recentering import own_mean, recenter
from curvedp.geometry import SPDAffineInvariant, SPDLogEuclidean, frechet_mean
from curvedp.geometry.spaces.spd_common import SPD
from curvedp.neuro import PrivateConnectome, PrivateRegionTensors, fisher_z
from curvedp.neuro.regions import fractional_anisotropy, mean_diffusivity
from curvedp.randomness import GeneratorSource

_SECTIONS = ("recentering", "connectomes", "regions")
_LEVEL = 0.95

# Samples in a trial: half a second at 256 Hz.
_TRIAL_LENGTH = 128
# The factor of the power of a source in trials of a class.
_POWER_FACTOR = 2.0
# How much the mixing of subjects differs.
_MIXING_SPREAD = 0.35


class Cohort(NamedTuple):
    """Trials of several subjects.

    Attributes
    ----------
    X : array of shape (n, channels, channels)
        The covariance matrices of the trials.
    y : array of int
        Their classes.
    subject : array of int
        Their subjects.
    """

    X: np.ndarray
    y: np.ndarray
    subject: np.ndarray


def simulated_background(
    n: int, n_channels: int, rng: np.random.Generator
) -> np.ndarray:
    """Return covariances of sources whose power varies from trial to trial."""
    powers = np.exp(0.3 * rng.normal(size=(n, n_channels)))
    return np.asarray(powers[:, :, None] * np.eye(n_channels))


def real_background(windows: np.ndarray) -> Callable[..., np.ndarray]:
    """Return a background that draws windows of a real recording, evenly spaced channels.

    They are whitened by their mean, so that all sources have power 1 on average.

    Parameters
    ----------
    windows : array of shape (windows, channels, channels)
        The covariances of the recording.
    """

    def background(n: int, n_channels: int, rng: np.random.Generator) -> np.ndarray:
        """Return covariances of randomly chosen windows."""
        chosen = np.linspace(0, windows.shape[1] - 1, n_channels).astype(int)
        own = windows[:, chosen][:, :, chosen]
        manifold = SPDAffineInvariant(n_channels)
        white = recenter(manifold, frechet_mean(manifold, own), 1.0, own)
        return np.asarray(white[rng.integers(len(white), size=n)])

    return background


def make_cohort(
    background: Callable[..., np.ndarray],
    n_subjects: int,
    n_trials: int,
    n_channels: int,
    n_classes: int,
    rng: np.random.Generator,
) -> Cohort:
    """Return trials whose class changes the power of one source.

    Parameters
    ----------
    background : callable
        From the number of trials and channels to covariances of sources.
    n_subjects, n_trials : int
        The numbers of subjects, and of trials of each.
    n_channels, n_classes : int
        The numbers of channels and of classes; a class has a source of its own.
    rng : Generator
    """
    n = n_subjects * n_trials
    subject = np.repeat(np.arange(n_subjects), n_trials)
    y = np.tile(np.arange(n_classes), n // n_classes + 1)[:n]
    roots = np.linalg.cholesky(background(n, n_channels, rng))
    power = np.ones((n, n_channels))
    power[np.arange(n), y] = _POWER_FACTOR
    mixing = np.eye(n_channels) + _MIXING_SPREAD * rng.normal(
        size=(n_subjects, n_channels, n_channels)
    )
    mixing *= np.exp(0.5 * rng.normal(size=(n_subjects, 1, 1)))
    sources = roots @ rng.normal(size=(n, n_channels, _TRIAL_LENGTH))
    signals = mixing[subject] @ (np.sqrt(power)[:, :, None] * sources)
    return Cohort(signals @ signals.swapaxes(1, 2) / _TRIAL_LENGTH, y, subject)


def cross_recording_accuracy(cohort: Cohort, X: np.ndarray) -> float:
    """Return the mean accuracy of the nearest class mean on a recording that is left out.

    Parameters
    ----------
    cohort : Cohort
        Classes and subjects.
    X : array
        The trials, recentered or not.
    """
    manifold = SPDAffineInvariant(X.shape[1])
    scores = []
    for held_out in np.unique(cohort.subject):
        is_old = cohort.subject != held_out
        means = np.stack(
            [
                frechet_mean(manifold, X[is_old & (cohort.y == label)])
                for label in np.unique(cohort.y)
            ]
        )
        distances = manifold.dist(means[None], X[~is_old][:, None])
        predicted = np.argmin(np.asarray(distances), axis=1)
        scores.append(np.mean(predicted == cohort.y[~is_old]))
    return float(np.mean(scores))


def print_recentering(data_dir: Path | None) -> None:
    """Print the accuracy across recordings by channels, trials and μ."""
    backgrounds: dict[str, Callable[..., np.ndarray]] = {
        "simulated": simulated_background
    }
    path = None if data_dir is None else data_dir / "eeg_eeglab_cov.npz"
    if path is not None and path.exists():
        backgrounds["EEG windows"] = real_background(arrays(path)["windows2s_cov"])
    print(
        "| background | channels | classes | trials | μ | trials·μ | raw | public "
        "| private, riemann | private, logeuclid |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for name, background in backgrounds.items():
        for n_channels, n_classes in ((4, 2), (8, 2), (8, 5)):
            for n_trials in (100, 200, 400):
                _print_cohort(name, background, n_channels, n_classes, n_trials)


def _print_cohort(
    name: str,
    background: Callable[..., np.ndarray],
    n_channels: int,
    n_classes: int,
    n_trials: int,
) -> None:
    """Print the rows of one cohort, for several μ.

    Parameters
    ----------
    name : str
        What the background is called.
    background : callable
        As in `make_cohort`.
    n_channels, n_classes, n_trials : int
        As in `make_cohort`.
    """
    manifold = SPDAffineInvariant(n_channels)
    rng = np.random.default_rng(1)
    cohort = make_cohort(background, 6, n_trials, n_channels, n_classes, rng)
    public = np.empty_like(cohort.X)
    for subject in np.unique(cohort.subject):
        own = cohort.X[cohort.subject == subject]
        public[cohort.subject == subject] = recenter(
            manifold, own_mean(manifold, own), 1.0, own
        )
    raw_accuracy = cross_recording_accuracy(cohort, cohort.X)
    public_accuracy = cross_recording_accuracy(cohort, public)
    for mu in (0.5, 1.0):
        private_accuracies = [
            np.mean([_private_accuracy(cohort, space, mu, seed) for seed in range(2)])
            for space in (manifold, SPDLogEuclidean(n_channels))
        ]
        cells = [
            f"{accuracy:.3f} ({accuracy - public_accuracy:+.3f})"
            for accuracy in private_accuracies
        ]
        print(
            f"| {name} | {n_channels} | {n_classes} | {n_trials} | {mu:g} "
            f"| {n_trials * mu:g} | {raw_accuracy:.3f} | {public_accuracy:.3f} "
            f"| {cells[0]} | {cells[1]} |",
            flush=True,
        )


def _private_accuracy(cohort: Cohort, space: SPD, mu: float, seed: int) -> float:
    """Return the accuracy across recordings after private recentering.

    Parameters
    ----------
    cohort : Cohort
        The trials.
    space : SPD
        The metric of the private means.
    mu : float
        The guarantee is GDP(μ) for one trial within its recording.
    seed : int
        Of the noise.
    """
    source = GeneratorSource(np.random.default_rng(seed))
    model = PrivateRecenter(space, guarantee=GDP(mu), source=source)
    moved = model.fit_transform(cohort.X, domains=cohort.subject)
    return cross_recording_accuracy(cohort, moved)


def make_connectomes(
    n: int, n_regions: int, n_networks: int, rng: np.random.Generator
) -> np.ndarray:
    """Return correlations of 200 time points of regions in networks, for n people.

    Parameters
    ----------
    n, n_regions, n_networks : int
        The numbers of people, regions and networks.
    rng : Generator
    """
    network = np.arange(n_regions) * n_networks // n_regions
    loadings = (network[:, None] == np.arange(n_networks)) * rng.uniform(
        0.6, 1.0, (n_regions, 1)
    )
    between = np.eye(n_networks) + 0.3 * rng.normal(size=(n_networks, n_networks))
    own = between + 0.2 * rng.normal(size=(n, n_networks, n_networks))
    series = loadings @ own @ rng.normal(size=(n, n_networks, 200))
    series += 0.9 * rng.normal(size=series.shape)
    return np.array([np.corrcoef(person) for person in series])


def print_connectomes(data_dir: Path | None) -> None:
    """Print errors of edges and of networks beside the sampling error."""
    print(
        "| cohort | n | regions | networks | sampling error | edge, plain | edge, chosen "
        "| predicted | network | network released alone | 95% edges hold |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|"
    )
    rng = np.random.default_rng(2)
    for n, n_regions, n_networks in ((86, 28, 7), (300, 28, 7), (86, 100, 7)):
        X = make_connectomes(n, n_regions, n_networks, rng)
        networks = np.arange(n_regions) * n_networks // n_regions
        _print_connectome("simulated", X, networks)
    path = None if data_dir is None else data_dir / "sp500_quarterly_corr20.npz"
    if path is not None and path.exists():
        stocks = np.asarray(arrays(path)["C"], dtype=float)
        _print_connectome("stocks, by quarter", stocks, np.arange(20) // 4)


def _print_connectome(name: str, X: np.ndarray, networks: np.ndarray) -> None:
    """Print the row of one cohort, over 20 releases at GDP(1).

    Parameters
    ----------
    name : str
        What the cohort is called.
    X : array of shape (n, k, k)
        The correlations of each person.
    networks : array of k labels
        The network of each region.
    """
    n, k, _ = X.shape
    rows, columns = np.triu_indices(k, 1)
    z = fisher_z(X)
    truth = z.mean(axis=0)
    sampling = float(np.sqrt(np.mean(z.std(axis=0)[rows, columns] ** 2) / n))
    pooled_truth = _network_averages(truth, networks)
    plain, chosen, predicted, pooled, alone, holds = [], [], [], [], [], []
    for seed in range(20):
        source = GeneratorSource(np.random.default_rng(seed))
        options = {"networks": networks, "guarantee": GDP(1.0), "source": source}
        model = PrivateConnectome(resolution="regions", **options).fit(X)
        noisy = model._pooling.matrix(model._noisy.value)
        plain.append(_rms((noisy - truth)[rows, columns]))
        chosen.append(_rms((model.edges_ - truth)[rows, columns]))
        predicted.append(model.predicted_error_)
        _, averages, widths = model.network_matrix()
        is_pair = widths > 0
        pooled.append(_rms((averages - pooled_truth)[is_pair]))
        lower, upper = model.confidence_edges(_LEVEL)
        target = np.tanh(truth)
        is_held = (lower <= target) & (target <= upper)
        holds.append(bool(is_held[rows, columns].all()))
        model = PrivateConnectome(resolution="networks", **options).fit(X)
        alone.append(_rms((model.edges_ - pooled_truth)[is_pair]))
    print(
        f"| {name} | {n} | {k} | {len(set(networks.tolist()))} | {sampling:.3f} "
        f"| {_rms(plain):.3f} | {_rms(chosen):.3f} | {_rms(predicted):.3f} "
        f"| {_rms(pooled):.3f} | {_rms(alone):.3f} | {np.mean(holds):.2f} |",
        flush=True,
    )


def _network_averages(edges: np.ndarray, networks: np.ndarray) -> np.ndarray:
    """Return the average edge within and between networks, 0 where there is none."""
    labels = np.unique(networks)
    averages = np.zeros((len(labels), len(labels)))
    off_diagonal = ~np.eye(len(edges), dtype=bool)
    for row, first in enumerate(labels):
        for column, second in enumerate(labels):
            is_edge = np.outer(networks == first, networks == second) & off_diagonal
            if is_edge.any():
                averages[row, column] = edges[is_edge].mean()
    return averages


def _rms(errors: object) -> float:
    """Return the root mean square of numbers."""
    return float(np.sqrt(np.mean(np.square(np.asarray(errors)))))


def make_region_tensors(
    n: int, n_regions: int, typical: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return tensors of each region of n people, in mm²/s.

    People differ by 0.1 in each entry of the logarithms of a region, and by 0.05 in the
    mean diffusivity of all regions together.

    Parameters
    ----------
    n, n_regions : int
        The numbers of people and of regions.
    typical : array of shape (tensors, 3, 3)
        Tensors that regions have.
    rng : Generator
    """
    manifold = SPDLogEuclidean(3)
    base = np.asarray(manifold.log(manifold.origin, typical))[:n_regions]
    own = 0.1 * rng.normal(size=(n, n_regions, 3, 3))
    own = (own + own.swapaxes(2, 3)) / 2
    level = 0.05 * rng.normal(size=(n, 1, 1, 1)) * np.eye(3)
    return np.asarray(manifold.exp(manifold.origin, base + own + level))


def print_regions(data_dir: Path | None) -> None:
    """Print errors of FA and MD over cohorts of three sizes, and how often intervals hold."""
    rng = np.random.default_rng(3)
    n_regions = 10
    typical = _typical_tensors(data_dir, n_regions, rng)
    print(
        "| people | regions | FA error | FA sampling | MD error | MD sampling "
        "| half width FA | half width MD | 95% table holds |\n"
        "|---|---|---|---|---|---|---|---|---|"
    )
    for n in (50, 200, 1000):
        T = make_region_tensors(n, n_regions, typical, rng)
        manifold = SPDLogEuclidean(3)
        logs = np.asarray(manifold.log(manifold.origin, T.reshape(-1, 3, 3)))
        mean_logs = logs.reshape(n, n_regions, 3, 3).mean(axis=0)
        truth = np.asarray(manifold.exp(manifold.origin, mean_logs))
        fa, md = fractional_anisotropy(truth), mean_diffusivity(truth)
        fa_sampling = _rms(fractional_anisotropy(T).std(axis=0)) / np.sqrt(n)
        md_sampling = _rms(mean_diffusivity(T).std(axis=0) / md) / np.sqrt(n)
        fa_errors, md_errors, fa_widths, md_widths, holds = [], [], [], [], []
        for seed in range(20):
            source = GeneratorSource(np.random.default_rng(seed))
            model = PrivateRegionTensors(source=source).fit(T)
            fa_errors.append(_rms(fractional_anisotropy(model.tensors_) - fa))
            md_errors.append(_rms(mean_diffusivity(model.tensors_) / md - 1))
            table = model.table(_LEVEL)
            fa_widths.append(np.mean([(r.fa_high - r.fa_low) / 2 for r in table]))
            widths = [(r.md_high - r.md_low) / (2 * r.md) for r in table]
            md_widths.append(np.mean(widths))
            held = [
                row.fa_low <= fa[place] <= row.fa_high
                and row.md_low <= md[place] <= row.md_high
                for place, row in enumerate(table)
            ]
            holds.append(all(held))
        print(
            f"| {n} | {n_regions} | {_rms(fa_errors):.3f} | {fa_sampling:.3f} "
            f"| {_rms(md_errors):.1%} | {md_sampling:.1%} | {np.mean(fa_widths):.3f} "
            f"| {np.mean(md_widths):.1%} | {np.mean(holds):.2f} |",
            flush=True,
        )


def _typical_tensors(
    data_dir: Path | None, n_regions: int, rng: np.random.Generator
) -> np.ndarray:
    """Return real tensors of voxels of white matter, or simulated ones without data."""
    path = None if data_dir is None else data_dir / "dti_dipy.npz"
    if path is None or not path.exists():
        eigenvalues = rng.uniform(0.3e-3, 1.5e-3, (n_regions, 3))
        return np.asarray(eigenvalues[:, :, None] * np.eye(3))
    tensors = np.concatenate(
        [array for array in arrays(path).values() if array.shape[1:] == (3, 3)]
    )
    is_white = fractional_anisotropy(tensors) > 0.3
    return np.asarray(rng.permutation(tensors[is_white])[:n_regions])


def main() -> None:
    """Print the sections that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*_SECTIONS, []])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("CURVEDP_DATA"))
    arguments = parser.parse_args()
    data_dir = None if arguments.data_dir is None else Path(arguments.data_dir)
    tables = {
        "recentering": print_recentering,
        "connectomes": print_connectomes,
        "regions": print_regions,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReleaseWarning)
        for section in arguments.sections or _SECTIONS:
            print(f"\n{section}\n")
            tables[section](data_dir)


if __name__ == "__main__":
    main()

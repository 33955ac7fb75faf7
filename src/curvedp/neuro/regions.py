"""Private mean diffusion tensors of the regions of an atlas, over a group of people.
A person is the tensors of all regions together, each the log-Euclidean mean of the
voxels with the region's label. One person moves every region, so the regions are not
released in parallel: they are one vector and one release, whose noise they share.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log, pi, sqrt
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.stats import chi2
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from curvedp import _validate
from curvedp._files import write_atomically
from curvedp._silence import quiet_about_records
from curvedp.core.certificate import Certificate
from curvedp.core.mechanism import check_guarantee
from curvedp.core.released import ReleasedValue
from curvedp.errors import ParameterError
from curvedp.estimators import PrivateFrechetMean
from curvedp.geometry import SPDLogEuclidean
from curvedp.ledger import Ledger
from curvedp.neuro.vectors import check_is_readable, noisy_mean_of, release_mean_vector
from curvedp.privacy import GDP, Guarantee
from curvedp.randomness import Source
from curvedp.records import read_records
from curvedp.records.base import open_records
from curvedp.records.nifti_files import read_labels

# The mean diffusivity of white matter in mm²/s, the units of DIPY and FSL.
WHITE_MATTER_MD = 7e-4

# Tensors are clipped to eigenvalues within this factor of the typical diffusivity.
_LARGEST_FACTOR = 1e3

# Eigenvalues of released logarithms are cut here, so that squares of tensors are finite.
_LARGEST_EXPONENT = 300.0

# Points of a circle at which the extremes of FA are looked for.
_CIRCLE_POINTS = 720

# A public center must satisfy the equations of the space up to this error.
_LARGEST_CENTER_RESIDUAL = 1e-9

_SPACE = SPDLogEuclidean(3)


class RegionTensors(NamedTuple):
    """The mean tensor of each region of each person.

    Attributes
    ----------
    tensors : array of shape (n, regions, 3, 3)
        NaN where no voxel of a region has a tensor.
    regions : list of str
        The names of the regions.

    Examples
    --------
    >>> RegionTensors(np.zeros((5, 2, 3, 3)), ["genu", "body"]).tensors.shape
    (5, 2, 3, 3)
    """

    tensors: np.ndarray
    regions: list[str]


def read_region_tensors(
    volumes: Sequence[Any],
    labels: Any,
    *,
    names: Mapping[int, str] | None = None,
    form: str = "tensor6-lower",
) -> RegionTensors:
    """Return the mean tensor of each region of a public atlas, for each person.

    Parameters
    ----------
    volumes : sequence of paths or arrays
        One volume of tensors for each person, in the space of the atlas: NIfTI files of
        six numbers a voxel, as DIPY and FSL write them, or arrays of shape (x, y, z, 6)
        or (x, y, z, 3, 3).
    labels : path or array of shape (x, y, z)
        The public atlas: a NIfTI file of whole numbers, 0 for no region.
    names : mapping, optional
        The names of regions by their numbers. Other regions are left out.
    form : str
        How six numbers are ordered: "tensor6-lower" (Dxx, Dxy, Dyy, Dxz, Dyz, Dzz; DIPY)
        or "tensor6-upper" (Dxx, Dxy, Dxz, Dyy, Dyz, Dzz; FSL).

    Raises
    ------
    ParameterError
        Because of shapes and types, which are public.

    Notes
    -----
    The mean of a region is the mean of the logarithms of the tensors that are positive
    definite; others (background, noise) do not count.

    Examples
    --------
    >>> atlas = np.zeros((4, 4, 4), dtype=int)
    >>> atlas[1], atlas[2] = 1, 2
    >>> volume = np.tile(7e-4 * np.eye(3), (4, 4, 4, 1, 1))
    >>> names = {1: "genu", 2: "body"}
    >>> people = read_region_tensors([volume], atlas, names=names)
    >>> people.tensors.shape, people.regions
    ((1, 2, 3, 3), ['genu', 'body'])
    """
    atlas = read_labels(labels)
    numbers = [int(number) for number in np.unique(atlas) if number > 0]
    if names is not None:
        numbers = [number for number in numbers if number in names]
    if not numbers:
        raise ParameterError(
            "has no region with one of these names", parameter="labels"
        )
    is_labeled = np.isin(atlas, numbers)
    label_of_voxel = atlas[is_labeled]
    tensors = np.full((len(volumes), len(numbers), 3, 3), np.nan)
    for person, volume in enumerate(volumes):
        voxels = _voxels(volume, is_labeled, form)
        with quiet_about_records():
            tensors[person] = _mean_tensors(voxels, label_of_voxel, numbers)
    known_names = names or {}
    regions = [str(known_names.get(number, number)) for number in numbers]
    return RegionTensors(tensors, regions)


def _mean_tensors(
    voxels: np.ndarray, label_of_voxel: np.ndarray, numbers: list[int]
) -> np.ndarray:
    """Return the mean tensor of each region of one person.

    Parameters
    ----------
    voxels : array, shape (voxels, 3, 3)
        The person's tensors at the labeled voxels.
    label_of_voxel : array of int, shape (voxels,)
        The number of the region of each voxel.
    numbers : list of int
        The numbers of the wanted regions.

    Returns
    -------
    array, shape (regions, 3, 3)
        The exponentials of the mean logarithms; NaN for a region without tensors.
    """
    points = np.asarray(_SPACE.from_record(voxels))
    is_tensor = np.isfinite(points).all(axis=(1, 2))
    logs = _matrix_logarithms(
        np.where(is_tensor[:, np.newaxis, np.newaxis], points, np.eye(3))
    )
    means = np.full((len(numbers), 3, 3), np.nan)
    for index, number in enumerate(numbers):
        is_counted = is_tensor & (label_of_voxel == number)
        if is_counted.any():
            means[index] = _matrix_exponentials(logs[is_counted].mean(axis=0))
    return means


def _voxels(volume: Any, is_labeled: np.ndarray, form: str) -> np.ndarray:
    """Return the tensors of the voxels of an atlas, shape (voxels, 3, 3).

    Parameters
    ----------
    volume : path or array
        The tensors of one person.
    is_labeled : array of shape (x, y, z)
        Which voxels belong to a region of the atlas.
    form : str
        How six numbers are ordered.
    """
    is_matrix = not isinstance(volume, str | Path) and np.shape(volume)[-2:] == (3, 3)
    records = read_records(
        volume, _SPACE, form=None if is_matrix else form, mask=is_labeled
    )
    return np.asarray(records)


def _matrix_logarithms(tensors: np.ndarray) -> np.ndarray:
    """Return the matrix logarithms of positive definite matrices."""
    eigenvalues, vectors = np.linalg.eigh(tensors)
    logs = np.log(np.maximum(eigenvalues, np.finfo(float).tiny))
    return np.asarray(
        (vectors * logs[..., np.newaxis, :]) @ np.swapaxes(vectors, -1, -2)
    )


def _matrix_exponentials(logs: np.ndarray) -> np.ndarray:
    """Return the matrix exponentials of symmetric matrices, bounded for FA to be finite."""
    eigenvalues, vectors = np.linalg.eigh(logs)
    values = np.exp(np.clip(eigenvalues, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))
    return np.asarray(
        (vectors * values[..., np.newaxis, :]) @ np.swapaxes(vectors, -1, -2)
    )


def _to_vector(logs: np.ndarray) -> np.ndarray:
    """Return symmetric 3x3 matrices as six numbers of the same Euclidean length."""
    rows, columns = np.tril_indices(3)
    weights = np.where(rows == columns, 1.0, sqrt(2.0))
    return np.asarray(logs[..., rows, columns] * weights)


def _to_matrix(vectors: np.ndarray) -> np.ndarray:
    """Return the symmetric 3x3 matrices of vectors of six numbers."""
    rows, columns = np.tril_indices(3)
    weights = np.where(rows == columns, 1.0, sqrt(2.0))
    matrices = np.zeros((*vectors.shape[:-1], 3, 3))
    matrices[..., rows, columns] = vectors / weights
    matrices[..., columns, rows] = vectors / weights
    return matrices


def mean_diffusivity(tensors: np.ndarray) -> np.ndarray:
    """Return the mean diffusivity (MD) of diffusion tensors: their mean eigenvalue.

    Parameters
    ----------
    tensors : array of shape (..., 3, 3)
        Symmetric matrices.
    """
    return np.asarray(np.trace(tensors, axis1=-2, axis2=-1) / 3)


def fractional_anisotropy(tensors: np.ndarray) -> np.ndarray:
    """Return the fractional anisotropy (FA) of diffusion tensors.

    It is √(3/2)·|D − MD·I|/|D| of a tensor D with the mean eigenvalue MD, in Frobenius
    norms: 0 if diffusion is equal in all directions, 1 if it has one direction only.

    Parameters
    ----------
    tensors : array of shape (..., 3, 3)
        Positive definite matrices.

    Examples
    --------
    >>> float(fractional_anisotropy(np.diag([1.7, 0.3, 0.3])).round(2))
    0.8
    """
    md = mean_diffusivity(tensors)[..., np.newaxis, np.newaxis]
    isotropic_parts = md * np.eye(3)
    deviation = np.linalg.norm(tensors - isotropic_parts, axis=(-2, -1))
    length = np.linalg.norm(tensors, axis=(-2, -1))
    return np.asarray(sqrt(1.5) * deviation / length)


@dataclass(frozen=True)
class RegionRow:
    """One line of the table of released regions.

    Attributes
    ----------
    region : str
        Its name.
    fa, fa_low, fa_high : float
        Fractional anisotropy of the mean tensor, and its interval.
    md, md_low, md_high : float
        Mean diffusivity of it, and its interval.
    dxx, dxy, dyy, dxz, dyz, dzz : float
        The mean tensor.

    Examples
    --------
    >>> bounds = {"fa_low": 0.6, "fa_high": 0.8, "md_low": 7e-4, "md_high": 9e-4}
    >>> tensor = dict.fromkeys(["dxy", "dxz", "dyz"], 0.0)
    >>> tensor |= {"dxx": 1.7e-3, "dyy": 0.3e-3, "dzz": 0.3e-3}
    >>> RegionRow("genu", fa=0.7, md=8e-4, **bounds, **tensor).region
    'genu'
    """

    region: str
    fa: float
    fa_low: float
    fa_high: float
    md: float
    md_low: float
    md_high: float
    dxx: float
    dxy: float
    dyy: float
    dxz: float
    dyz: float
    dzz: float


class PrivateRegionTensors(BaseEstimator):
    """The log-Euclidean mean tensor of each region over people, for one charge.

    Parameters
    ----------
    radius : float or "private"
        How far a person may be from the center, over all regions together, in the
        log-Euclidean metric. "private" finds it.
    typical_diffusivity : float
        A public guess of the mean diffusivity in the units of the data, by default that
        of white matter in mm²/s. People are clipped about isotropic tensors of it.
    center : array of shape (regions, 3, 3), optional
        Public tensors in place of isotropic ones, such as those of another study.
    guarantee : Guarantee
        The guarantee of the release.
    ledger, label, source
        As in `PrivateFrechetMean`.

    Attributes
    ----------
    tensors_ : ndarray of shape (regions, 3, 3)
        The private mean tensor of each region.
    regions_ : list of str
        Their names.
    noise_std_ : float
        The standard deviation of the noise in each of six coordinates of the logarithm.
    sampling_error_ : float or None
        The same because people are a sample, if the guarantee lets it be known.
    certificate_ : Certificate
        Why all of it may be published.
    mean_ : PrivateFrechetMean
        The fitted release.

    Notes
    -----
    Guarantees

    - all regions together meet `guarantee` for replacing one record, or with `groups`
      one person with all their scans, for ANY data. One person is in every region, so
      the regions share one budget: R regions have √R times the noise of one;
    - errors are because of parameters and shapes, never of a value.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> logs = 0.2 * rng.normal(size=(400, 2, 3, 3)) + np.diag([0.5, -0.3, -0.3])
    >>> tensors = 7e-4 * _matrix_exponentials((logs + np.swapaxes(logs, -1, -2)) / 2)
    >>> model = PrivateRegionTensors().fit(tensors, regions=["body", "genu"])
    >>> [row.region for row in model.table()]
    ['body', 'genu']
    """

    _name: ClassVar[str] = "region tensors"

    mean_: PrivateFrechetMean

    def __init__(
        self,
        *,
        radius: float | str = "private",
        typical_diffusivity: float = WHITE_MATTER_MD,
        center: Any = None,
        guarantee: Guarantee = GDP(1.0),  # noqa: B008 - a frozen value
        ledger: Ledger | None = None,
        label: str | None = None,
        source: Source | None = None,
    ) -> None:
        self.radius = radius
        self.typical_diffusivity = typical_diffusivity
        self.center = center
        self.guarantee = guarantee
        self.ledger = ledger
        self.label = label
        self.source = source

    def fit(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        regions: Sequence[str] | None = None,
    ) -> Self:
        """Release the mean tensors of all regions, and charge the ledger once.

        Parameters
        ----------
        X : array of shape (n, regions, 3, 3)
            The tensors of each person, as `read_region_tensors` returns them.
        y : ignored
            For the interface of scikit-learn.
        groups : sequence of n ids, optional
            The person of each scan. Then people are protected, and the scans of one
            person are averaged first.
        regions : sequence of texts, optional
            The names of the regions.

        Raises
        ------
        ParameterError
            Before anything is paid, because of parameters and shapes.
        """
        n_regions = _count_regions(X)
        tensors = open_records(X, (n_regions, 3, 3), min_records=2).array()
        self._validate(n_regions, regions)
        check_is_readable(6 * n_regions, self.radius)

        # One private mean of one vector for each person: the logarithms of all tensors.
        center_logs = _to_vector(_matrix_logarithms(self._public_centers(n_regions)))
        with quiet_about_records():
            vectors = _clipped_logarithms(
                tensors, center_logs, float(self.typical_diffusivity)
            )
        limit = log(_LARGEST_FACTOR)
        self.mean_ = release_mean_vector(
            vectors.reshape(len(vectors), -1),
            groups,
            radius=self.radius,
            center=center_logs.ravel(),
            outer_radius=2 * limit * sqrt(3 * n_regions),
            guarantee=self.guarantee,
            ledger=self.ledger,
            label=self.label or self._name,
            source=self.source,
        )

        # All else follows from the released mean.
        self._noisy = noisy_mean_of(self.mean_)
        self.regions_ = [str(number + 1) for number in range(n_regions)]
        if regions is not None:
            self.regions_ = [str(region) for region in regions]
        self.noise_std_ = self._noisy.noise_std
        self.sampling_error_ = self._noisy.sampling_std
        self.certificate_: Certificate = self.mean_.certificate_
        self.tensors_ = _matrix_exponentials(
            _to_matrix(self.mean_.location_.reshape(n_regions, 6))
        )
        return self

    def _validate(self, n_regions: int, regions: Sequence[str] | None) -> None:
        """Raise `ParameterError` for parameters that do not fit the regions.

        Parameters
        ----------
        n_regions : int
            The number of regions of each record.
        regions : sequence of str or None
            Their names, if there are any.
        """
        check_guarantee(self.guarantee, "replace-one")
        _validate.length("typical_diffusivity", self.typical_diffusivity)
        if isinstance(self.radius, str):
            _validate.private_radius(self.radius)
        else:
            _validate.length("radius", self.radius)
        if regions is not None and len(regions) != n_regions:
            raise ParameterError(
                f"must name each of {n_regions} regions",
                parameter="regions",
                value=len(regions),
            )
        if self.center is None:
            return
        center = _validate.array("center", self.center)
        if center.shape != (n_regions, 3, 3) or not np.all(
            _SPACE.residual(center) < _LARGEST_CENTER_RESIDUAL
        ):
            raise ParameterError(
                f"must be {n_regions} positive definite 3x3 matrices",
                parameter="center",
            )

    @property
    def releases(self) -> list[ReleasedValue]:
        """Return the one release: the logarithms of all mean tensors, as a vector."""
        check_is_fitted(self, "mean_")
        (release,) = self.mean_.releases
        title = "mean tensors of regions (logarithms)"
        return [ReleasedValue(title, release.value, release.certificate)]

    def table(self, level: float = 0.95, of: str = "records") -> list[RegionRow]:
        """Return mean tensor, FA and MD of each region, with error bars.

        With probability `level` no interval is wrong, whatever the noise: tensors whose
        logarithms are within the quantile of the drawn ones have FA and MD in them
        (docs/theory/inference.md, Theorem I10).

        Parameters
        ----------
        level : float
            The probability that no interval is wrong.
        of : {"records", "population"}
            The mean of these people, or of the population they are from.
        """
        check_is_fitted(self, "mean_")
        level = _validate.within(
            "level", level, 0.0, 1.0, open_low=True, open_high=True
        )
        fa, fa_low, fa_high, md, md_low, md_high = self._intervals(level, of)
        rows, columns = np.tril_indices(3)
        table = []
        for place, region in enumerate(self.regions_):
            numbers = self.tensors_[place, rows, columns].tolist()
            table.append(
                RegionRow(
                    region,
                    float(fa[place]),
                    float(fa_low[place]),
                    float(fa_high[place]),
                    float(md[place]),
                    float(md_low[place]),
                    float(md_high[place]),
                    *numbers,
                )
            )
        return table

    def _public_centers(self, n_regions: int) -> np.ndarray:
        """Return the public center of each region: by default a round tensor.

        Parameters
        ----------
        n_regions : int
            The number of regions.

        Returns
        -------
        array, shape (n_regions, 3, 3)
            The centers; the round tensor has the typical diffusivity.
        """
        if self.center is not None:
            return np.asarray(self.center, dtype=float)
        typical = float(self.typical_diffusivity)
        return np.tile(np.eye(3) * typical, (n_regions, 1, 1))

    def _intervals(self, level: float, of: str) -> tuple[np.ndarray, ...]:
        """Return FA and MD of each region, each with its lower and upper bound.

        Parameters
        ----------
        level : float
            The probability that no bound is wrong.
        of : {"records", "population"}
            Whether bounds are for the mean of these people, or of the population.

        Returns
        -------
        tuple of six arrays of shape (regions,)
            FA, its lower and upper bound, MD, its lower and upper bound.
        """
        n_regions = len(self.regions_)
        radius = self._log_half_width(level, of)
        noisy_logarithms = _to_matrix(self._noisy.value.reshape(n_regions, 6))
        log_eigenvalues = np.linalg.eigvalsh(noisy_logarithms)
        fa_low, fa_high = fa_bounds(log_eigenvalues, radius)
        md_low, md_high = md_bounds(log_eigenvalues, radius)
        fa = fractional_anisotropy(self.tensors_)
        md = mean_diffusivity(self.tensors_)
        # An interval also holds the shown value, which is shrunk to the center.
        return (
            fa,
            np.minimum(fa_low, fa),
            np.maximum(fa_high, fa),
            md,
            np.minimum(md_low, md),
            np.maximum(md_high, md),
        )

    def _log_half_width(self, level: float, of: str) -> float:
        """Return a bound on the error of the released logarithms of all regions.

        Parameters
        ----------
        level : float
            The probability that the bound holds for all regions.
        of : {"records", "population"}
            Whether it is the error as an estimate of the mean of these people, or of
            the mean of the population.

        Returns
        -------
        float
            A Frobenius distance. For normal noise it is the standard deviation of an
            entry times the root of a χ² quantile with 6 degrees of freedom, at
            level^{1/regions} for each region. For other noise it is the radius of the
            confidence region of all regions together.
        """
        half_width = self._noisy.half_width(level, of)
        if not self._noisy.is_gaussian:
            return half_width
        entry_std = half_width / self._noisy.half_width(level) * self._noisy.noise_std
        level_of_region = level ** (1 / len(self.regions_))
        return float(entry_std * sqrt(chi2.ppf(level_of_region, 6)))

    def write_table(
        self, path: str | Path, level: float = 0.95, of: str = "records"
    ) -> None:
        """Write the table to a tab-separated file, with a header.

        Its last column says what the intervals are for: "population", or "noise" alone.

        Parameters
        ----------
        path : str or Path
            The file.
        level : float
            The probability that no interval is wrong.
        of : {"records", "population"}
            Whether intervals are for the mean of these people, or of the population.
        """
        target = "population" if of == "population" else "noise"
        rows = [{**asdict(row), "intervals": target} for row in self.table(level, of)]
        text = io.StringIO()
        writer = csv.DictWriter(
            text, list(rows[0]), delimiter="\t", lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(path, text.getvalue())


def fa_bounds(
    log_eigenvalues: np.ndarray, radius: float
) -> tuple[np.ndarray, np.ndarray]:
    """Bound the fractional anisotropy (FA) of all tensors near a given tensor.

    Theorem I10 (docs/theory/inference.md). Let the logarithms L and M of two tensors
    have a Frobenius distance of at most ρ. By the theorem of Hoffman and Wielandt, the
    vectors of their sorted eigenvalues have a distance of at most ρ, too. FA depends
    only on the part of this vector that is orthogonal to (1, 1, 1), and it increases
    along rays from 0 in this plane. So over a disc of radius ρ in the plane FA is
    largest on the circle around it. It is smallest there as well, or 0 if the disc
    contains the origin.

    The function evaluates FA at finitely many points of the circle, and adds a bound on
    how much FA changes between neighboring points.

    Parameters
    ----------
    log_eigenvalues : array of shape (..., 3)
        The eigenvalues of L.
    radius : float
        The distance ρ.

    Returns
    -------
    lowest, highest : arrays of shape (...)
        Bounds of the FA of all tensors at the distance ρ or less.
    """
    means = log_eigenvalues.mean(axis=-1, keepdims=True)
    centered = log_eigenvalues - means
    # Points of the unit circle in the plane orthogonal to (1, 1, 1).
    angles = 2 * pi * np.arange(_CIRCLE_POINTS) / _CIRCLE_POINTS
    first_axis = np.array([1.0, -1.0, 0.0]) / sqrt(2)
    second_axis = np.array([1.0, 1.0, -2.0]) / sqrt(6)
    cosines = np.cos(angles)[:, np.newaxis]
    sines = np.sin(angles)[:, np.newaxis]
    directions = cosines * first_axis + sines * second_axis

    # One circle for each tensor.
    circles = centered[..., np.newaxis, :] + radius * directions
    bounded_circles = np.clip(circles, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)
    fa_on_circle = _fa_of_eigenvalues(np.exp(bounded_circles))

    # FA has the Lipschitz constant 1 in the logarithms, and the nearest evaluated point
    # is at most half the distance of two neighbors away.
    change_between_points = radius * pi / _CIRCLE_POINTS
    contains_origin = np.linalg.norm(centered, axis=-1) <= radius
    lowest = np.where(
        contains_origin, 0.0, fa_on_circle.min(axis=-1) - change_between_points
    )
    highest = fa_on_circle.max(axis=-1) + change_between_points
    return np.maximum(lowest, 0.0), np.minimum(highest, 1.0)


def md_bounds(
    log_eigenvalues: np.ndarray, radius: float
) -> tuple[np.ndarray, np.ndarray]:
    """Bound the mean diffusivity (MD) of all tensors near a given tensor.

    Theorem I10 (docs/theory/inference.md). As a function of the logarithms λ of the
    eigenvalues, log MD is convex. Its gradient p contains the shares of the eigenvalues
    in the trace, so |p| ≤ 1. A change δ of λ with |δ| ≤ ρ multiplies each share by at
    most e^{√2ρ}. So

        −ρ|p| ≤ log MD(λ + δ) − log MD(λ) ≤ ρ·min(e^{√2ρ}|p|, 1).

    Parameters
    ----------
    log_eigenvalues : array of shape (..., 3)
        The logarithms λ of the eigenvalues of the tensor.
    radius : float
        The largest Frobenius distance ρ of the logarithms of two tensors.

    Returns
    -------
    lowest, highest : arrays of shape (...)
        Bounds of the mean diffusivity, in the unit of the tensors.
    """
    largest = log_eigenvalues.max(axis=-1, keepdims=True)
    powers = np.exp(log_eigenvalues - largest)
    shares = powers / powers.sum(axis=-1, keepdims=True)
    log_md = largest[..., 0] + np.log(powers.mean(axis=-1))
    length = np.linalg.norm(shares, axis=-1)
    growth = exp(min(sqrt(2) * radius, _LARGEST_EXPONENT))
    lowest = log_md - radius * length
    highest = log_md + radius * np.minimum(growth * length, 1.0)
    # Exponents are limited, so that no exponential overflows.
    limit = _LARGEST_EXPONENT
    lower = np.exp(np.clip(lowest, -limit, limit))
    upper = np.exp(np.clip(highest, -limit, limit))
    return lower, upper


def _fa_of_eigenvalues(eigenvalues: np.ndarray) -> np.ndarray:
    """Return the fractional anisotropy of tensors with these eigenvalues, (..., 3)."""
    deviation = eigenvalues - eigenvalues.mean(axis=-1, keepdims=True)
    lengths = np.linalg.norm(eigenvalues, axis=-1)
    return np.asarray(sqrt(1.5) * np.linalg.norm(deviation, axis=-1) / lengths)


def _count_regions(X: Any) -> int:
    """Return the number of regions in an array of tensors, from its shape.

    Parameters
    ----------
    X : array of shape (n, regions, 3, 3)
        The tensors of each person.

    Raises
    ------
    ParameterError
        If the array has another shape.
    """
    shape = _validate.public_shape("X", X)
    if len(shape) != 4 or shape[2:] != (3, 3) or shape[1] < 1:
        raise ParameterError(
            f"must have shape (n, regions, 3, 3), not {shape}", parameter="X"
        )
    return int(shape[1])


def _clipped_logarithms(
    tensors: np.ndarray, center_logs: np.ndarray, typical: float
) -> np.ndarray:
    """Return the logarithms of tensors as vectors, shape (n, regions, 6).

    Eigenvalues are clipped to within a factor of a thousand of the typical diffusivity.
    A matrix that is not a tensor is replaced by the public center of its region. The
    vectors of a person depend on this person's tensors alone.

    Parameters
    ----------
    tensors : array of shape (n, regions, 3, 3)
        The tensors of each person. They may be any numbers.
    center_logs : array of shape (regions, 6)
        The logarithm of the public center of each region.
    typical : float
        The typical diffusivity, in the unit of the tensors.
    """
    points = np.asarray(_SPACE.from_record(tensors))
    is_tensor = np.isfinite(points).all(axis=(-2, -1), keepdims=True)
    scaled = np.where(is_tensor, points / typical, np.eye(3))
    eigenvalues, eigenvectors = np.linalg.eigh(scaled)

    # The second clip removes the rounding error of the logarithm.
    bounded = np.clip(eigenvalues, 1 / _LARGEST_FACTOR, _LARGEST_FACTOR)
    limit = log(_LARGEST_FACTOR)
    logs = np.clip(np.log(bounded), -limit, limit) + log(typical)

    scaled_eigenvectors = eigenvectors * logs[..., np.newaxis, :]
    matrices = scaled_eigenvectors @ np.swapaxes(eigenvectors, -1, -2)
    return np.where(is_tensor[..., 0], _to_vector(matrices), center_logs)

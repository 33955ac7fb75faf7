"""Private group connectomes: the mean of correlation matrices, edge by edge. An edge is
a pair of regions. `PrivateConnectome` releases the mean of Fisher's z of all edges as
one vector, and reduces what was released to low rank, which costs nothing. Of hundreds
of regions it releases the means of networks of regions instead. `plan_connectome` says
before how many people that takes; `curvedp.neuro.relmat` reads and writes files.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import atanh, ceil, sqrt
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.core.certificate import Certificate
from curvedp.core.mechanism import check_guarantee
from curvedp.core.released import ReleasedValue
from curvedp.errors import ParameterError
from curvedp.estimators import PrivateFrechetMean
from curvedp.estimators.shares import collect_release_warnings, issue_warnings
from curvedp.geometry import Correlation
from curvedp.ledger import Ledger
from curvedp.neuro.low_rank import reduce_rank
from curvedp.neuro.vectors import (
    Estimator,
    NoisyMean,
    check_is_readable,
    estimated_error,
    estimated_risk,
    james_stein_shrinkage,
    noisy_mean_of,
    predicted_noise,
    release_mean_vector,
)
from curvedp.privacy import GDP, Guarantee
from curvedp.randomness import Source
from curvedp.records.base import open_records
from curvedp.records.persons import encode_persons
from curvedp.release.rebuild import mechanism_of
from curvedp.release.warnings import WarningKind, warnings_before_paying

# Correlations are clipped to this modulus, so that Fisher's z is at most 3.8.
LARGEST_CORRELATION = 0.999

# How far Fisher's z of an edge typically is from the public center, for predictions
# before a release: 0.3 to 0.4 for the resting state, with the persons' own differences.
TYPICAL_EDGE = 0.35

# By default an edge may be this much off, in Fisher's z, before networks are preferred.
_WANTED_EDGE_ERROR = 0.1

# Plans say how many people it takes for this error, unless another is wanted.
_PLANNED_EDGE_ERROR = 0.05

# A certificate lists an integer for each edge, about 45 bytes, and may have 32 MiB. That
# of more regions than this would be too large to be read.
_MAX_REGIONS = 1000

RESOLUTIONS = ("auto", "regions", "networks")


def fisher_z(matrices: np.ndarray) -> np.ndarray:
    """Return Fisher's z = artanh r of correlations, with 0 on the diagonal.

    No matrix is refused. The two triangles of a matrix are averaged. If an entry is a
    number in one triangle only, this number is used, and if in neither, the correlation
    is set to 0. Correlations are clipped to [−0.999, 0.999].

    Parameters
    ----------
    matrices : array of shape (..., k, k)
        Correlation matrices.

    Examples
    --------
    >>> fisher_z(np.array([[1.0, 0.6], [0.6, 1.0]])).round(4).tolist()
    [[0.0, 0.6931], [0.6931, 0.0]]
    """
    with quiet_about_records():
        transposed = np.swapaxes(matrices, -1, -2)
        filled = np.where(np.isnan(matrices), transposed, matrices)
        symmetric = (filled + np.swapaxes(filled, -1, -2)) / 2
        correlations = np.nan_to_num(symmetric, nan=0.0)
        clipped = np.clip(correlations, -LARGEST_CORRELATION, LARGEST_CORRELATION)
        return np.asarray(np.arctanh(clipped) * (1 - np.eye(matrices.shape[-1])))


class PrivateConnectome(BaseEstimator):
    """The mean correlation matrix of a group of people, released for one charge.

    Parameters
    ----------
    networks : sequence of k labels, optional
        The public network of each region, such as the 7 or 17 networks of a
        parcellation. `curvedp.neuro.relmat.networks_of` reads them off the names of the
        Schaefer atlases.
    resolution : {"auto", "regions", "networks"}
        Whether the release contains the mean of every edge between regions, or of the
        average edge within and between networks. "auto" selects regions if the
        predicted noise of an edge is at most `edge_error`, and otherwise networks if
        they are given. This depends on public numbers only, and `choice_` states the
        choice and its reason.
    edge_error : float
        The error of an edge, in Fisher's z, up to which "auto" selects regions.
    radius : float or "private"
        The radius, in Fisher's z over all released edges, of the ball into which people
        are clipped. "private" finds it.
    center : array of shape (k, k), optional
        A public correlation matrix that the people should resemble, such as the
        published mean of another study: the nearer, the less noise. By default no
        correlation.
    guarantee : Guarantee
        The guarantee of the release.
    ledger, label, source
        As in `PrivateFrechetMean`.

    Attributes
    ----------
    matrix_ : ndarray
        The released correlations: of shape (k, k), the nearest positive definite matrix
        with unit diagonal; or between m networks, with the average edge within each
        network on the diagonal.
    edges_ : ndarray
        The same in Fisher's z, as estimated, of the shape of `matrix_`.
    names_ : list of str
        The names of its rows.
    resolution_, choice_ : str
        "regions" or "networks", and why.
    estimate_ : {"low-rank", "shrunken", "plain"}
        How `edges_` follow from the noisy draw: the one of least estimated error.
    predicted_error_ : float
        The estimated root mean square error of an edge in Fisher's z, because of noise.
    sampling_error_ : float or None
        The same because the people are a sample, if the guarantee lets it be known.
    noise_std_ : float
        The standard deviation of the noise of an edge, in Fisher's z.
    certificate_ : Certificate
        Why all of it may be published.
    mean_ : PrivateFrechetMean
        The fitted release.

    Notes
    -----
    Guarantees

    - `fit` meets `guarantee` for replacing one record, or with `groups` one person with
      all their matrices, for ANY matrices; the regions, their networks and the number
      of people are public;
    - errors are because of parameters and shapes, never of a value;
    - all edges are one release: low rank, networks, pictures and files follow from it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> mixing = np.eye(4) + 0.5 * (np.arange(4)[:, None] // 2 == np.arange(4) // 2)
    >>> X = np.array([np.corrcoef(mixing @ rng.normal(size=(4, 99))) for _ in range(300)])
    >>> model = PrivateConnectome(guarantee=GDP(1.0)).fit(X, groups=np.arange(300))
    >>> model.matrix_.shape
    (4, 4)
    >>> lower, upper = model.confidence_edges()
    >>> bool((lower <= upper).all())
    True
    """

    _name: ClassVar[str] = "connectome"

    mean_: PrivateFrechetMean

    def __init__(
        self,
        networks: Sequence[Any] | None = None,
        *,
        resolution: str = "auto",
        edge_error: float = _WANTED_EDGE_ERROR,
        radius: float | str = "private",
        center: Any = None,
        guarantee: Guarantee = GDP(1.0),  # noqa: B008 - a frozen value
        ledger: Ledger | None = None,
        label: str | None = None,
        source: Source | None = None,
    ) -> None:
        self.networks = networks
        self.resolution = resolution
        self.edge_error = edge_error
        self.radius = radius
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
        names: Sequence[str] | None = None,
    ) -> Self:
        """Release the mean connectome, and charge the ledger once.

        Parameters
        ----------
        X : array of shape (n, k, k)
            One correlation matrix for each record.
        y : ignored
            For the interface of scikit-learn.
        groups : sequence of n ids, optional
            The person of each matrix. Then people are protected, and the edges of one
            person are averaged first.
        names : sequence of k texts, optional
            The public names of the regions.

        Raises
        ------
        ParameterError
            Before anything is paid, because of parameters and shapes.
        """
        shape = _validate.public_shape("X", X)
        if len(shape) != 3 or shape[1] != shape[2] or shape[1] < 2:
            raise ParameterError(
                f"must have shape (n, k, k): one matrix a record, not {shape}",
                parameter="X",
            )
        n_regions = shape[1]
        matrices = open_records(X, (n_regions, n_regions), min_records=2).array()
        self._validate(n_regions, names)

        # With `groups` the people are counted, not their matrices.
        n = len(matrices)
        if groups is not None:
            n = int(encode_persons(groups, n).max()) + 1

        # Release all edges, or their means by pairs of networks.
        resolution, choice = self._choose_resolution(n_regions, n)
        if resolution == "regions" and n_regions > _MAX_REGIONS:
            raise ParameterError(
                f"is missing: more than {_MAX_REGIONS} regions are released by network",
                parameter="networks",
            )
        pooling = _Pooling.at_resolution(n_regions, self.networks, resolution, names)
        check_is_readable(pooling.n_edges, self.radius)

        center = np.zeros((n_regions, n_regions))
        if self.center is not None:
            center = np.asarray(self.center, dtype=float)
        with quiet_about_records():
            vectors = pooling.vectors(fisher_z(matrices))

        # One private mean of one vector for each person.
        noise = predicted_noise(
            pooling.n_edges, n, TYPICAL_EDGE, self.radius, self.guarantee
        )
        with _without_warning_about_edges(noise <= self.edge_error) as releases:
            self.mean_ = release_mean_vector(
                vectors,
                groups,
                radius=self.radius,
                center=pooling.vectors(fisher_z(center)),
                outer_radius=2 * atanh(LARGEST_CORRELATION) * sqrt(pooling.n_edges),
                guarantee=self.guarantee,
                ledger=self.ledger,
                label=self.label or self._name,
                source=self.source,
            )
            releases.append(self.mean_)
        self._set_fitted(pooling, resolution, choice)
        return self

    def _validate(self, n_regions: int, names: Sequence[str] | None) -> None:
        """Raise `ParameterError` for parameters that do not fit k regions.

        Parameters
        ----------
        n_regions : int
            The number k of regions.
        names : sequence of str, optional
            Their names.
        """
        check_guarantee(self.guarantee, "replace-one")
        _validate.choice("resolution", self.resolution, RESOLUTIONS)
        _validate.positive("edge_error", self.edge_error)
        if isinstance(self.radius, str):
            _validate.private_radius(self.radius)
        else:
            _validate.length("radius", self.radius)
        for parameter, labels in (("networks", self.networks), ("names", names)):
            if labels is not None and len(labels) != n_regions:
                raise ParameterError(
                    f"must have one entry for each of {n_regions} regions",
                    parameter=parameter,
                    value=len(labels),
                )
        if self.resolution == "networks" and self.networks is None:
            raise ParameterError(
                "is missing: name the network of each region", parameter="networks"
            )
        if self.center is not None:
            center = _validate.array("center", self.center)
            if center.shape != (n_regions, n_regions) or not np.isfinite(center).all():
                raise ParameterError(
                    f"must be a {n_regions}x{n_regions} matrix of numbers",
                    parameter="center",
                )

    def _choose_resolution(self, n_regions: int, n: int) -> tuple[str, str]:
        """Return "regions" or "networks", and why, from public numbers alone.

        Parameters
        ----------
        n_regions : int
            The number of regions.
        n : int
            The number of people.
        """
        n_edges = n_regions * (n_regions - 1) // 2
        noise = predicted_noise(n_edges, n, TYPICAL_EDGE, self.radius, self.guarantee)
        prediction = (
            f"{n_edges} edges of {n_regions} regions: predicted noise {noise:.2g} an "
            f"edge (Fisher's z), {self.edge_error:g} wanted"
        )
        if self.resolution != "auto":
            return self.resolution, f"{prediction}; {self.resolution} were asked for"
        fits = noise <= self.edge_error and n_regions <= _MAX_REGIONS
        if fits or self.networks is None:
            remark = "" if fits else "; no networks of regions were given"
            return "regions", f"{prediction}{remark}: regions"
        n_networks = len(set(self.networks))
        pairs = n_networks * (n_networks + 1) // 2
        pooled = predicted_noise(pairs, n, TYPICAL_EDGE, self.radius, self.guarantee)
        return "networks", (
            f"{prediction}: {pairs} averages within and between {n_networks} networks, "
            f"predicted noise {pooled:.2g}"
        )

    def _set_fitted(self, pooling: "_Pooling", resolution: str, choice: str) -> None:
        """Set the fitted attributes, all of which follow from the release.

        Parameters
        ----------
        pooling : _Pooling
            The edges, or averages of edges, to which the entries of the vector belong.
        resolution, choice : str
            The results of `_choose_resolution`.
        """
        noisy = noisy_mean_of(self.mean_)
        best = _best_estimate(noisy, pooling, np.asarray(self.mean_.ball_.center))
        self.estimate_, edges, self.predicted_error_ = best
        self._noisy = noisy
        self._pooling = pooling
        self.resolution_ = resolution
        self.choice_ = choice
        self.names_ = list(pooling.names)
        self.networks_ = None
        if self.networks is not None:
            self.networks_ = [str(network) for network in self.networks]
        self.noise_std_ = noisy.noise_std
        self.sampling_error_ = noisy.sampling_std
        self.certificate_: Certificate = self.mean_.certificate_

        # Edges are Fisher's z of correlations.
        self.edges_ = pooling.matrix(edges)
        correlations = np.tanh(self.edges_)
        if resolution == "regions":
            correlations += np.eye(len(correlations))
            correlations = np.asarray(
                Correlation(len(correlations)).project(correlations)
            )
        self.matrix_ = correlations

    @property
    def releases(self) -> list[ReleasedValue]:
        """Return the one release: the mean of Fisher's z of all edges, as a vector."""
        check_is_fitted(self)
        (release,) = self.mean_.releases
        title = f"mean connectome ({self.resolution_})"
        return [ReleasedValue(title, release.value, release.certificate)]

    def confidence_edges(
        self, level: float = 0.95, of: str = "records"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper bounds of all correlations, which hold at once.

        Parameters
        ----------
        level : float
            The probability that no bound is wrong.
        of : {"records", "population"}
            The mean of these people (exact, for those inside the ball), or of the
            population they are from (for many people, if edges vary together).

        Returns
        -------
        lower, upper : arrays of the shape of `matrix_`
            The diagonal between regions is 1.
        """
        check_is_fitted(self, "mean_")
        width = self._noisy.half_width(level, of)
        lower = np.tanh(self._pooling.matrix(self._noisy.value - width))
        upper = np.tanh(self._pooling.matrix(self._noisy.value + width))
        if self.resolution_ == "regions":
            np.fill_diagonal(lower, 1.0)
            np.fill_diagonal(upper, 1.0)
        return lower, upper

    def network_matrix(
        self, level: float = 0.95
    ) -> tuple[list[str], np.ndarray, np.ndarray]:
        """Return the average edge within and between networks, and its half width.

        It follows from the release: the noise of an average of b edges is smaller by √b.

        Parameters
        ----------
        level : float
            The probability that all averages are within their half width.

        Returns
        -------
        names : list of str
            The names of the m networks.
        averages, half_widths : arrays of shape (m, m)
            The average edge of each pair of networks, and by how much it may be off, in
            Fisher's z (the inverse hyperbolic tangent of a correlation).

        Raises
        ------
        ParameterError
            If no networks were given.
        """
        check_is_fitted(self, "mean_")
        if self.networks_ is None:
            raise ParameterError(
                "is missing: name the network of each region", parameter="networks"
            )
        width = self._noisy.half_width(level)
        if self.resolution_ == "networks":
            return self.names_, self.edges_, np.full(self.edges_.shape, width)
        pooled = _Pooling.at_resolution(
            len(self.names_), self.networks_, "networks", None
        )
        noisy_edges = self._pooling.matrix(self._noisy.value)
        averages = pooled.vectors(noisy_edges)
        # Šidák over fewer averages would be narrower; that of all edges holds too.
        widths = width / np.sqrt(pooled.sizes)
        if not self._noisy.is_gaussian:
            widths = np.full(len(pooled.sizes), width)
        return list(pooled.names), pooled.matrix(averages), pooled.matrix(widths)

    def subjects_needed(self, edge_error: float, level: float = 0.95) -> int:
        """Return how many people a release needs for all edges to be this exact.

        Noise falls with the number of people n in the same ball and at the same
        guarantee. This is about the privacy noise alone.

        Parameters
        ----------
        edge_error : float
            The half width that all edges should have at once, in Fisher's z.
        level : float
            The probability that all have it.
        """
        check_is_fitted(self, "mean_")
        _validate.positive("edge_error", edge_error)
        return ceil(self._noisy.n * self._noisy.half_width(level) / edge_error)


@dataclass(frozen=True)
class ConnectomePlan:
    """What a private connectome of n people is predicted to be worth.

    Attributes
    ----------
    n, n_regions : int
        The numbers of people and of regions.
    n_networks : int or None
        The number of networks.
    region_noise : float
        The predicted standard deviation of the noise of an edge between regions, in
        Fisher's z, before the reduction to low rank.
    network_noise : float or None
        That of an average edge within or between networks.

    Examples
    --------
    >>> plan = ConnectomePlan(100, 28, None, region_noise=0.1, network_noise=None)
    >>> plan.subjects_needed(0.05)
    200
    """

    n: int
    n_regions: int
    n_networks: int | None
    region_noise: float
    network_noise: float | None

    def subjects_needed(self, edge_error: float, resolution: str = "regions") -> int:
        """Return the number of people for which an edge has at most this noise.

        Parameters
        ----------
        edge_error : float
            The standard deviation in Fisher's z.
        resolution : {"regions", "networks"}
            Whether edges connect regions or networks.
        """
        _validate.positive("edge_error", edge_error)
        _validate.choice("resolution", resolution, RESOLUTIONS[1:])
        noise = self.region_noise if resolution == "regions" else self.network_noise
        if noise is None:
            raise ParameterError(
                "is missing: say how many networks there are", parameter="networks"
            )
        return ceil(self.n * noise / edge_error)

    def sentences(self, edge_error: float = _PLANNED_EDGE_ERROR) -> str:
        """Return the plan in a sentence for each resolution.

        Parameters
        ----------
        edge_error : float
            The wanted standard deviation in Fisher's z.
        """
        edges = self.n_regions * (self.n_regions - 1) // 2
        lines = [
            f"{self.n} people, {self.n_regions} regions, {edges} edges: noise "
            f"{self.region_noise:.3g} an edge (Fisher's z) before the reduction to low "
            f"rank; {self.subjects_needed(edge_error)} people for {edge_error:g}"
        ]
        if self.network_noise is not None and self.n_networks is not None:
            pairs = self.n_networks * (self.n_networks + 1) // 2
            lines.append(
                f"{self.n_networks} networks, {pairs} averages: noise "
                f"{self.network_noise:.3g} each; "
                f"{self.subjects_needed(edge_error, 'networks')} people for "
                f"{edge_error:g}"
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        """Return the plan in a sentence for each resolution."""
        return self.sentences()


def plan_connectome(
    n: int,
    n_regions: int,
    n_networks: int | None = None,
    *,
    guarantee: Guarantee = GDP(1.0),  # noqa: B008 - a frozen value
    radius: float | str = "private",
    typical_edge: float = TYPICAL_EDGE,
) -> ConnectomePlan:
    """Predict the noise of a private connectome, without data and for free.

    Parameters
    ----------
    n : int
        The number of people.
    n_regions : int
        The number of regions.
    n_networks : int, optional
        The number of networks of regions.
    guarantee : Guarantee
        The guarantee of the release.
    radius : float or "private"
        The radius of the public ball into which the vector of a person's edges is
        clipped; "private" finds one with part of the budget.
    typical_edge : float
        With a private radius: how far Fisher's z of an edge of one person typically is
        from the center.

    Examples
    --------
    >>> plan = plan_connectome(86, 28, 7, guarantee=GDP(1.0))
    >>> plan.subjects_needed(0.05)
    287
    """
    check_guarantee(guarantee, "replace-one")
    n = _validate.integer("n", n, 2)
    n_regions = _validate.integer("n_regions", n_regions, 2)
    if n_networks is not None:
        n_networks = _validate.integer("n_networks", n_networks, 1)
    _validate.positive("typical_edge", typical_edge)

    def noise_of(n_entries: int) -> float:
        """Return the predicted noise of one of this many entries."""
        return predicted_noise(n_entries, n, typical_edge, radius, guarantee)

    network_noise = None
    if n_networks is not None:
        network_noise = noise_of(n_networks * (n_networks + 1) // 2)
    region_noise = noise_of(n_regions * (n_regions - 1) // 2)
    return ConnectomePlan(n, n_regions, n_networks, region_noise, network_noise)


@contextmanager
def _without_warning_about_edges(
    is_precise: bool,
) -> Iterator[list[PrivateFrechetMean]]:
    """Withhold the warning that a mean is of little use, if its edges are precise.

    That warning compares the noise of the whole vector with the differences between
    people. A connectome is read edge by edge, and people differ little in an edge: the
    noise of an edge may be small although the vector's is not.

    Parameters
    ----------
    is_precise : bool
        Whether the predicted noise of an edge is at most the one that is wanted.

    Yields
    ------
    list of PrivateFrechetMean
        The caller adds the fitted estimator.
    """
    if not is_precise:
        yield []
        return
    releases: list[PrivateFrechetMean] = []
    with collect_release_warnings() as texts:
        yield releases
    withheld = {
        warning.text
        for release in releases
        for warning in warnings_before_paying(mechanism_of(release.certificate_))
        if warning.kind is WarningKind.OF_LITTLE_USE
    }
    issue_warnings(text for text in texts if text not in withheld)


@dataclass(frozen=True)
class _Pooling:
    """Which entries of a matrix of edges are averaged into each entry of a vector.

    Attributes
    ----------
    names : tuple of str
        Of the rows of the resulting matrix: regions or networks.
    rows, columns : arrays of shape (edges,)
        The regions of each edge.
    places : array of shape (edges,)
        The entry of the vector to which an edge belongs.
    matrix_rows, matrix_columns : arrays of shape (entries,)
        Where an entry of the vector stands in the resulting matrix.
    sizes : array of shape (entries,)
        How many edges are averaged.
    """

    names: tuple[str, ...]
    rows: np.ndarray
    columns: np.ndarray
    places: np.ndarray
    matrix_rows: np.ndarray
    matrix_columns: np.ndarray
    sizes: np.ndarray

    @classmethod
    def at_resolution(
        cls,
        n_regions: int,
        networks: Sequence[Any] | None,
        resolution: str,
        names: Sequence[str] | None,
    ) -> "_Pooling":
        """Return how the edges between regions are averaged at a resolution.

        Parameters
        ----------
        n_regions : int
            The number k.
        networks : sequence of k labels, or None
            The network of each region.
        resolution : {"regions", "networks"}
            Whether the rows of the resulting matrix are regions or networks.
        names : sequence of k texts, or None
            The names of the regions.
        """
        rows, columns = np.triu_indices(n_regions, 1)
        if resolution == "regions":
            if names is None:
                names = [str(number + 1) for number in range(n_regions)]
            ones = np.ones(len(rows), dtype=int)
            places = np.arange(len(rows))
            texts = tuple(map(str, names))
            return cls(texts, rows, columns, places, rows, columns, ones)

        assert networks is not None  # `PrivateConnectome` has refused it
        network_names = [str(network) for network in networks]
        labels, code_of_region = np.unique(network_names, return_inverse=True)
        # The two networks that each edge connects, the one with the smaller code first.
        first = np.minimum(code_of_region[rows], code_of_region[columns])
        second = np.maximum(code_of_region[rows], code_of_region[columns])
        # A network of one region has no edge within it, and no entry of the vector.
        pairs, places = np.unique(first * len(labels) + second, return_inverse=True)
        return cls(
            names=tuple(labels.tolist()),
            rows=rows,
            columns=columns,
            places=places,
            matrix_rows=pairs // len(labels),
            matrix_columns=pairs % len(labels),
            sizes=np.bincount(places),
        )

    @property
    def n_edges(self) -> int:
        """Number of entries of a vector: of edges, or of averages between networks."""
        return len(self.sizes)

    def vectors(self, edges: np.ndarray) -> np.ndarray:
        """Return the vector of each matrix: its edges, averaged within their group.

        Parameters
        ----------
        edges : array of shape (..., k, k)
            Symmetric matrices of edges between k regions.

        Returns
        -------
        array of shape (..., entries)
            One vector for each matrix.
        """
        values = edges[..., self.rows, self.columns]
        if len(self.sizes) == len(self.rows):
            # Each edge is an entry of its own.
            return np.asarray(values)
        # Sort edges by their entry; then `reduceat` adds up each run of one entry.
        order = np.argsort(self.places, kind="stable")
        starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        sums = np.add.reduceat(values[..., order], starts, axis=-1)
        return np.asarray(sums / self.sizes)

    def matrix(self, vector: np.ndarray) -> np.ndarray:
        """Return the symmetric matrix of a vector's entries.

        Parameters
        ----------
        vector : array of shape (entries,)
            Edges between regions, or averages within and between networks.

        Returns
        -------
        array of shape (k, k) or (networks, networks)
            The matrix; 0 where no entry belongs, as on the diagonal between regions.
        """
        matrix = np.zeros((len(self.names), len(self.names)))
        matrix[self.matrix_rows, self.matrix_columns] = vector
        matrix[self.matrix_columns, self.matrix_rows] = vector
        return matrix


def _best_estimate(
    noisy: NoisyMean, pooling: _Pooling, center: np.ndarray
) -> tuple[str, np.ndarray, float]:
    """Choose the estimate of the mean edges with the least estimated error.

    Candidates are the released draw itself, its shrinkage to the center, and its
    reduction to low rank.

    All candidates are functions of the released draw and of public numbers, and so is
    the estimate of their errors.

    Parameters
    ----------
    noisy : NoisyMean
        The released draw.
    pooling : _Pooling
        Where its entries stand in a matrix.
    center : array
        The public center of the ball, to which the draw may be shrunk.

    Returns
    -------
    name, edges, error : str, array, float
        The name of the estimate, its entries, and the root mean square error of an
        entry.
    """
    if not noisy.is_gaussian:
        return "plain", noisy.value, noisy.noise_std
    estimators: dict[str, Estimator] = {
        "plain": lambda value: value,
        "shrunken": james_stein_shrinkage(center, noisy.noise_std),
    }
    if pooling.n_edges == len(pooling.rows):  # one entry for each edge between regions

        def low_rank(value: np.ndarray) -> np.ndarray:
            """Return the edges of the matrix after its reduction to low rank."""
            reduced = reduce_rank(pooling.matrix(value), noisy.noise_std)
            return np.asarray(reduced[pooling.rows, pooling.columns])

        estimators["low-rank"] = low_rank
    risks = {
        name: estimated_risk(estimator, noisy.value, noisy.noise_std)
        for name, estimator in estimators.items()
    }
    name = min(risks, key=risks.__getitem__)
    estimator = estimators[name]
    error = estimated_error(estimator, noisy.value, noisy.noise_std)
    return name, estimator(noisy.value), error

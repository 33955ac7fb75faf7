"""Private k-means: centers, sizes and spreads of clusters on a manifold, in one release.
The estimator reads the records and checks the parameters. The stages of the release are
in `curvedp.mechanisms.staged.kmeans`; docs/theory/clusters.md proves what they cost.
"""

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.core.codes import ChoiceRule, ProtectedUnit
from curvedp.core.mechanism import Choice
from curvedp.core.released import ReleasedValue
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.estimators.base import PendingRelease, PrivateTransformer
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.geometry.spaces.euclidean import Euclidean
from curvedp.geometry.spaces.sphere import Sphere
from curvedp.ledger import Ledger
from curvedp.mechanisms.noisy_sum import ADD_REMOVE
from curvedp.mechanisms.staged.cluster_sums import ClusterData, weights_of_persons
from curvedp.mechanisms.staged.kmeans import KMeansMechanism
from curvedp.privacy import GDP, Guarantee
from curvedp.randomness import Source
from curvedp.records.base import is_chunked, open_streamed
from curvedp.records.chunked import map_records
from curvedp.records.persons import encode_persons
from curvedp.statistics.clusters import (
    PRIVATE_NUMBER,
    Clustering,
    Clusters,
    distances_to_centers,
    nearest_center_of_records,
)
from curvedp.statistics.searched_ball import default_outer_radius

# In flat space the default outer radius is 1e6, because nothing is known of the units. Of
# 400 records (two clusters 14 spreads apart, GDP(1), 1e6 to 1e5) 2 of 8 searches missed
# a cluster, of 1000 records 1 of 8, of 4000 and 20000 records none.
_FEW_IN_WIDE_SEARCH = 4000

# The value of `n_clusters` with which the number is chosen from released numbers.
_PRIVATE = "private"


@dataclass(eq=False, repr=False)
class PrivateKMeans(PrivateTransformer):
    """Centers of clusters with their sizes and spreads, released under one guarantee.

    A noisy second moment finds the directions along which records vary, a noisy
    histogram finds initial centers among candidates, and a few noisy steps of Lloyd's
    algorithm improve them. Everything together is one release: one certificate, one
    charge. No ball has to be given.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records, such as `Sphere(383)` for embeddings with 384 numbers.
        Rows of such embeddings need not have length 1: only their direction counts.
    n_clusters : int or "private"
        How many clusters; "private" chooses the number from what is released.
    guarantee : Guarantee
        The privacy guarantee of the release; Gaussian noise does not meet pure ε. With the
        adjacency "add-remove" the number of records is private, too, and there is less
        noise.
    ledger : Ledger, optional
        The ledger that is charged. Nothing is charged if `fit` raises an error.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        A source of random bits that replaces the cryptographic one in simulations. The
        certificate records the replacement.
    init : array of shape (n_clusters, *point_shape), optional
        Public initial centers. They must not be computed from the records. By default
        initial centers are found privately.
    center : point, optional
        Where the search begins; by default the manifold's origin. Not for spheres.
    outer_radius : float, optional
        Records farther from `center` than this are clipped to it at first. By default
        it is generous. Not for spheres.

    Attributes
    ----------
    cluster_centers_ : ndarray, shape (clusters, *point_shape)
        The private centers.
    counts_ : ndarray, shape (clusters,)
        The noisy number of records, or people, whose nearest center this is. It may be
        negative.
    count_error_ : float
        The half-width of a 95 % interval of each count.
    dispersions_ : ndarray, shape (clusters,)
        The noisy mean squared distance of these records to their center.
    dispersion_errors_ : ndarray, shape (clusters,)
        The half-width of an approximate 95 % interval of each dispersion.
    n_clusters_ : int
        How many clusters were released.
    n_components_ : int
        How many directions stand out of the noise; centers differ along these.
    certificate_ : Certificate
        The certificate of the release.

    Notes
    -----
    X is read once for each stage. An array in a memory-mapped file is read in blocks,
    so it may be larger than the memory; a dask array, too. Arrays of JAX and PyTorch
    are read on their device, if the manifold is a sphere.

    A cluster whose noisy count is below its error bar may be noise alone. `predict`,
    `transform` and `score` are computed from records without noise: what they return is
    as private as the records.

    Guarantees

    - errors are because of parameters, shapes and types, never of a record's values,
      and nothing is spent then. A row that is zero or not finite counts as a record in
      the middle of nowhere: it is as far from all centers as can be;
    - `fit` meets `guarantee` for replacing one record, for ANY data; with the adjacency
      "add-remove", for adding or removing one;
    - with `groups`, for one person with all their records. A person with m records
      contributes each with weight 1/m, and counts as one.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp import GDP
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> topic = np.arange(3000) % 3
    >>> X = np.eye(3)[topic] + rng.normal(0, 0.2, (3000, 3))
    >>> model = PrivateKMeans(Sphere(2), n_clusters=3, guarantee=GDP(1.0)).fit(X)
    >>> np.sort(model.cluster_centers_.argmax(axis=1)), model.predict(X).shape
    (array([0, 1, 2]), (3000,))
    """

    _name = "clusters"
    _column = "cluster"
    _adjacencies = ("replace-one", ADD_REMOVE)

    manifold: Manifold
    n_clusters: int | str = 8
    guarantee: Guarantee = GDP(1.0)  # noqa: RUF009 - a frozen value, safe as a default
    ledger: Ledger | None = None
    init: Any = None
    center: Any = None
    outer_radius: float | None = None
    label: str | None = None
    source: Source | None = None

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]  # read only
        """Return how many columns `transform` makes: one for each cluster."""
        return len(self.cluster_centers_)

    @property
    def _searches_ball(self) -> bool:
        """Return True: `outer_radius` is always about a search."""
        return True

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release centers, sizes and spreads, and charge them to the ledger.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records: an array, a dask array, or an array on a device.
        y : ignored
            scikit-learn passes labels to every estimator; these are not read.
        groups : sequence of n ids, optional
            The person to whom each record belongs. Then a person with all their records
            is the unit of privacy, and counts as much as any other person.

        Returns
        -------
        self
            With `cluster_centers_`, `counts_`, `dispersions_` and `certificate_` set.

        Raises
        ------
        ParameterError
            Before anything is paid, because of parameters, shapes or types.
        UnattainableGuarantee
            For a guarantee that Gaussian noise does not meet, such as pure ε.

        Warns
        -----
        ReleaseWarning
            Before anything is paid, if the clusters are too many for the records.
        """
        self._validate_params()
        data, n, privacy_unit = self._load_data(X, groups)
        statistic = self._build_statistic(None if self._n_is_private else n)
        mechanism = KMeansMechanism.calibrate(statistic, self.guarantee)
        self._warn_if_few(mechanism)
        choice = Choice(ChoiceRule.ONLY_ONE)
        pending = PendingRelease(mechanism, data, choice, "clusters")
        (release,) = self._pay_and_release([pending], privacy_unit)

        clustering: Clustering = release.value
        self.manifold_ = statistic.manifold
        self.certificate_ = release.certificate
        self.cluster_centers_ = clustering.centers
        self.counts_ = clustering.counts
        self.count_error_ = clustering.count_error
        self.dispersions_ = clustering.dispersions
        self.dispersion_errors_ = clustering.dispersion_errors
        self.n_clusters_ = len(clustering.centers)
        self.n_components_ = len(clustering.directions)
        return self._warn_after_release()

    def _load_data(self, X: Any, groups: Any) -> tuple[ClusterData, int, ProtectedUnit]:
        """Return the records with their weights, their number, and the unit of privacy.

        With `groups` the records of a person have weights that add up to 1.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.
        groups : sequence of n ids, or None
            The person to whom each record belongs.

        Returns
        -------
        data : ClusterData
            The records, and with people the weight of each record: 1/m for a person
            with m records.
        n : int
            The number of records, or of people.
        privacy_unit : ProtectedUnit
            A record, or with `groups` a person.
        """
        min_records = 0 if self._n_is_private else 2
        point_shape = check_manifold(self.manifold).point_shape
        records = open_streamed(X, point_shape, min_records=min_records)
        if groups is None:
            return ClusterData(records), records.n, ProtectedUnit.RECORD

        person_index = encode_persons(groups, records.n, min_persons=min_records)
        with quiet_about_records():
            weights: Any = weights_of_persons(person_index)
        n_persons = len(np.unique(person_index))
        if is_chunked(X):
            import dask.array

            weights = dask.array.from_array(weights, chunks=(X.chunks[0],))
        return ClusterData(records, weights), n_persons, ProtectedUnit.PERSON

    def _build_statistic(self, n: int | None) -> Clusters:
        """Return the statistic with the public parameters, after checking them.

        Parameters
        ----------
        n : int or None
            The number of records or people; None where it is private.

        Returns
        -------
        Clusters
            The statistic, with the public region in which centers are searched.

        Raises
        ------
        ParameterError
            On a sphere, if `center` or `outer_radius` are given: there the search
            begins everywhere.
        """
        manifold = check_manifold(self.manifold)
        n_clusters = self._check_n_clusters(n)
        if isinstance(manifold, Sphere):
            self._refuse_search_ball()
            reach = 1.0
        else:
            reach = default_outer_radius(manifold, self.outer_radius)
        return Clusters(manifold, self.center, reach, n_clusters, self.init, n)

    def _refuse_search_ball(self) -> None:
        """Refuse a center and an outer radius on a sphere, which is searched whole."""
        unused = {"center": self.center, "outer_radius": self.outer_radius}
        for name, value in unused.items():
            if value is not None:
                raise ParameterError(
                    "is not for spheres, where the search begins everywhere",
                    parameter=name,
                    value=value,
                )

    def _check_n_clusters(self, n: int | None) -> int:
        """Return the number of clusters, or `PRIVATE_NUMBER` if it is chosen privately.

        Parameters
        ----------
        n : int or None
            The number of records or people; None where it is private.

        Raises
        ------
        ParameterError
            If it is neither "private" nor a number between 2 and n.
        """
        if isinstance(self.n_clusters, str):
            _validate.choice("n_clusters", self.n_clusters, (_PRIVATE,))
            return PRIVATE_NUMBER
        n_clusters = _validate.integer("n_clusters", self.n_clusters, 2)
        if n is not None and n_clusters > n:
            raise ParameterError(
                f"is more than there are records: {n}",
                parameter="n_clusters",
                value=n_clusters,
            )
        return n_clusters

    def _warn_if_few(self, mechanism: KMeansMechanism) -> None:
        """Warn, before anything is paid for, if the clusters are too many for the noise.

        The warning is issued early, because a fit costs budget that is never returned.

        Parameters
        ----------
        mechanism : KMeansMechanism
            The calibrated mechanism. From its noise and n follows the largest number of
            clusters whose centers can be found.
        """
        n = mechanism.statistic.n
        is_flat = isinstance(self.manifold, Euclidean) and self.outer_radius is None
        if is_flat and n is not None and n < _FEW_IN_WIDE_SEARCH:
            warnings.warn(
                f"outer_radius is missing: the centers of {n} records are searched "
                f"within {mechanism.statistic.reach:g} of the center, and some searches "
                "end far from all records. Say how far from the center records may lie, "
                "such as outer_radius=100.0 (--outer-radius 100); it may be generous",
                ReleaseWarning,
                stacklevel=3,
            )
        if mechanism.has_enough_records:
            return
        assert n is not None  # a private n is not known before the release
        largest = mechanism.largest_number_of_clusters(n)
        possible = f"at most {largest} clusters" if largest > 1 else "no clusters"
        warnings.warn(
            f"n = {n} at {self.guarantee} carries {possible} of equal size: expect "
            "centers that are mostly noise",
            ReleaseWarning,
            stacklevel=3,
        )

    @property
    def releases(self) -> list[ReleasedValue]:
        """Return each center as a release of its own, with its noisy count in the title."""
        (published,) = super().releases
        releases = []
        for index, center in enumerate(self.cluster_centers_):
            count = f"{self.counts_[index]:.0f} ± {self.count_error_:.0f}"
            title = f"center {index} of {count} {self.unit_name_}"
            releases.append(published._replace(title=title, value=center))
        return releases

    @property
    def unit_name_(self) -> str:
        """What a count is of: "people" with `groups`, and "records" otherwise."""
        if self.certificate_.privacy_unit is ProtectedUnit.PERSON:
            return "people"
        return "records"

    def predict(self, X: Any) -> Any:
        """Return the index of the center that is nearest to each record.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.

        Returns
        -------
        array of int, shape (n,)
            A lazy dask array if X is a dask array. It is computed from the records
            without noise, so it is as private as they are.
        """
        check_is_fitted(self)
        nearest = partial(_nearest_center, self.manifold_, self.cluster_centers_)
        return map_records(nearest, X, self.manifold_.point_shape, (), np.int64)

    def transform(self, X: Any) -> Any:
        """Return the distance of each record to each center.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.

        Returns
        -------
        array of shape (n, clusters)
            Geodesic distances; a lazy dask array if X is a dask array. They are as
            private as the records.
        """
        check_is_fitted(self)
        distances = partial(distances_to_centers, self.manifold_, self.cluster_centers_)
        n_clusters = len(self.cluster_centers_)
        return map_records(distances, X, self.manifold_.point_shape, (n_clusters,))

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the mean squared distance to the nearest center: NOT private.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.
        y : ignored
            scikit-learn passes labels to every estimator; these are not read.

        Returns
        -------
        float
            Do not publish it if the records are private: no noise is added.
            `dispersions_` are a private substitute for the records of `fit`.
        """
        nearest = np.min(np.asarray(self.transform(X)), axis=1)
        with quiet_about_records():  # the square of a distance may overflow
            return -float(np.mean(nearest**2))


def _nearest_center(
    manifold: Manifold, centers: np.ndarray, records: Any
) -> np.ndarray:
    """Return the index of the center nearest to each record; the first one of a tie.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    centers : array, shape (clusters, *point_shape)
        The released centers.
    records : array, shape (k, *point_shape)
        Some records. Entries may be anything.

    Returns
    -------
    array of int, shape (k,)
        The indices. NOT private.
    """
    labels, _ = nearest_center_of_records(manifold, centers, records)
    return labels

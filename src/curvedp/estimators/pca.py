"""Private principal directions of records in R^d, for scikit-learn pipelines.
One direction is a point of the sphere; several directions are a point of the Grassmann
manifold.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.core.codes import ChoiceRule, ProtectedUnit
from curvedp.core.mechanism import Choice
from curvedp.core.released import ReleasedValue
from curvedp.errors import ParameterError
from curvedp.estimators.base import PendingRelease, PrivateTransformer
from curvedp.ledger import Ledger
from curvedp.mechanisms.isotropic.base import IsotropicMechanism
from curvedp.mechanisms.isotropic.gaussian import GaussianMechanism
from curvedp.mechanisms.isotropic.laplace import LaplaceMechanism
from curvedp.mechanisms.noisy_sum import SumMechanism
from curvedp.mechanisms.vector import needs_bounded_loss
from curvedp.privacy import GDP, Guarantee
from curvedp.randomness import Source
from curvedp.records.base import Records, is_chunked, is_complex_array, open_records
from curvedp.records.chunked import map_records
from curvedp.records.persons import encode_persons, person_rows
from curvedp.statistics.noisy_sums import GramSum
from curvedp.statistics.second_moment import (
    SecondMoment,
    clip_rows,
    vector_to_symmetric,
)

if TYPE_CHECKING:
    from curvedp.optim import LeadingEigenvectorProblem, SubspaceProblem

_TITLE = "components"

# The number of steps of a descent. By then it has converged as far as the noise allows.
_DESCENT_STEPS = 60

# The largest number of features for which method "auto" adds noise to the whole matrix.
# Its two million noisy entries take a minute of exact draws.
_MAX_ONE_SHOT_FEATURES = 2000


@dataclass(eq=False, repr=False)
class PrivatePCA(PrivateTransformer):
    """The leading eigenvectors of the second moment (1/n)Σ xᵢxᵢᵀ, under a guarantee.

    The records xᵢ are not centered, because their mean is private too. Center them
    first by a public mean, or by one that was released separately.

    Parameters
    ----------
    n_components : int
        How many directions are released.
    radius : float
        A public bound r on the length of a record. Longer records are scaled to length
        r; records that are not finite are replaced by 0.
    method : {"auto", "one-shot", "dp-rgd"}
        "one-shot" adds noise once to the second moment, in orthonormal coordinates of
        the symmetric matrices, where ‖xxᵀ − x'x'ᵀ‖ ≤ √2·r². The eigenvectors are
        post-processing. The noise is Gaussian; for pure ε its density is proportional
        to exp(−‖·‖/b), which has half the deviation of Laplace noise for each entry.

        "dp-rgd" descends on the sphere or the Grassmann manifold with noisy gradients.
        It needs the extra `jax`, draws its noise in floats (which the certificate
        says), and does not support pure ε.

        "auto" takes the method with the smaller predicted error. To first order, the
        error of a direction is the noise across it divided by the spectral gap. For d
        features, n records and GDP parameter μ, that noise is r²√d/(nμ) for one shot
        and 2r²√d/(nμ) for descent. So "auto" takes one shot, as long as its d(d+1)/2
        noisy entries are affordable.
    guarantee : Guarantee
        The privacy guarantee of the release.
    ledger : Ledger, optional
        The ledger that is charged. Nothing is charged if `fit` raises an error.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        A source of random bits that replaces the cryptographic one in simulations. The
        certificate records the replacement.
    features : int, optional
        How many numbers a record has. An array or a frame says it by its shape. For a
        list of rows it must be given, because the length of a row is private data; a
        row of another length is replaced by 0.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, features)
        Orthonormal rows.
    certificate_ : Certificate
        The certificate of the release.
    method_ : str
        Which method was taken.

    Notes
    -----
    X may be a dask array, which is streamed; its components do not depend on the
    chunks.

    Guarantees

    - `fit` meets `guarantee` for replace-one adjacency with n public, for any data; for
      add-remove adjacency with n private.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 4)) * [3.0, 1, 1, 1]
    >>> pca = PrivatePCA(n_components=1, radius=5.0, guarantee=GDP(1.0)).fit(X)
    >>> bool(abs(pca.components_[0, 0]) > 0.99)
    True
    """

    _adjacencies = ("replace-one", "add-remove")
    _name = "principal components"
    _column = "pca"

    n_components: int = 1
    radius: float | None = None
    method: Literal["auto", "one-shot", "dp-rgd"] = "auto"
    guarantee: Guarantee = GDP(1.0)  # noqa: RUF009 - a frozen value, safe as a default
    ledger: Ledger | None = None
    label: str | None = None
    source: Source | None = None
    features: int | None = None

    @property
    def _components(self) -> int:  # type: ignore[override]  # read only
        """Return how many directions the confidence region covers."""
        return len(self.components_)

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]  # read only
        """Return how many columns `transform` makes: one for each direction."""
        return len(self.components_)

    @property
    def n_features_in_(self) -> int:
        """Return how many numbers one record consists of: scikit-learn's attribute."""
        return int(self.components_.shape[1])

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release the leading principal directions, and charge them to the ledger.

        Parameters
        ----------
        X : array of shape (n, features)
            One record in each row.
        y : ignored
            scikit-learn passes labels to every estimator; these are not read.
        groups : sequence of n ids, optional
            The person to whom each record belongs. Then a person is the unit of
            privacy, however many records they have: a person contributes the mean of
            xxᵀ over their own records x, and n is the number of people. Only
            "one-shot" supports this.

        Returns
        -------
        self
            With `components_`, `method_` and `certificate_` set.
        """
        self._validate_params()
        radius = self._check_radius()
        _validate.choice("method", self.method, ("auto", "one-shot", "dp-rgd"))
        min_records = 0 if self._n_is_private else 2
        features = _count_features(X, self.features, min_records=min_records)
        records = open_records(X, (features,), min_records=min_records)
        n_components = self._check_n_components(features)
        is_one_shot = self._uses_one_shot(X, features)
        if not is_one_shot and (self._n_is_private or groups is not None):
            raise ParameterError(
                "is for replacing one record; one-shot knows persons and private n",
                parameter="method",
                value="dp-rgd",
            )
        privacy_unit = ProtectedUnit.RECORD if groups is None else ProtectedUnit.PERSON
        with quiet_about_records():
            if is_one_shot:
                pending = self._pending_moment(records, radius, features, groups)
            else:
                pending = self._pending_descent(records, radius, features, n_components)
        n_is_private = self._n_is_private
        (release,) = self._pay_and_release([pending], privacy_unit)

        if is_one_shot:
            moment = release.value
            if not n_is_private:
                # The mechanism released the coordinates of a symmetric matrix.
                moment = vector_to_symmetric(moment, features)
            self.components_ = _leading_eigenvectors(moment, n_components)
            self.method_ = "one-shot"
        else:
            self.components_ = np.atleast_2d(release.value.T)
            self.method_ = "dp-rgd"
        self.certificate_ = release.certificate
        return self._warn_after_release()

    def _check_radius(self) -> float:
        """Return the public bound on the length of a record.

        Raises
        ------
        ParameterError
            If it is missing or is not a positive number.
        """
        if self.radius is None:
            raise ParameterError(
                "is missing: a public bound on the length of a record, not read off "
                "the data",
                parameter="radius",
            )
        return _validate.length("radius", self.radius)

    def _check_n_components(self, features: int) -> int:
        """Return the number of directions to release.

        Parameters
        ----------
        features : int
            The number of features of a record.

        Returns
        -------
        int
            The number of directions.

        Raises
        ------
        ParameterError
            If it is not an integer between 1 and the number of features.
        """
        n_components = _validate.integer("n_components", self.n_components, 1)
        if n_components > features:
            raise ParameterError(
                f"is more than the {features} features of X",
                parameter="n_components",
                value=n_components,
            )
        return n_components

    def _uses_one_shot(self, X: Any, features: int) -> bool:
        """Return whether the method is "one-shot", by choice or automatically.

        "auto" takes it for few features, whose second moment has few entries, and for
        chunked records, which a descent cannot read.

        Parameters
        ----------
        X : array or dask array of shape (n, features)
            The records; only where they are stored matters.
        features : int
            The number of features of a record.
        """
        if self.method != "auto":
            return self.method == "one-shot"
        return features <= _MAX_ONE_SHOT_FEATURES or is_chunked(X)

    def _pending_moment(
        self, records: Records, radius: float, features: int, groups: Any
    ) -> PendingRelease:
        """Return the pending release of one noisy second moment (method "one-shot").

        Parameters
        ----------
        records : Records
            Rows with `features` numbers each.
        radius : float
            The public bound on the length of a record.
        features : int
            The number of features.
        groups : sequence of ids, or None
            The person to whom each record belongs. It is refused if the number of
            records is private.

        Returns
        -------
        PendingRelease
            The release of the mean of xxᵀ over clipped records x, or of their sum if
            the number of records is private.
        """
        choice = Choice(ChoiceRule.ONLY_ONE)
        if self._n_is_private:
            if groups is not None:
                raise ParameterError(
                    "is for the adjacency replace-one here", parameter="groups"
                )
            sum_mechanism = SumMechanism.calibrate(
                GramSum(features, radius), self.guarantee
            )
            return PendingRelease(sum_mechanism, records, choice, _TITLE)

        n = records.n
        if groups is not None:
            person_index = encode_persons(groups, n)
            n = int(person_index.max()) + 1
            clipped = clip_rows(records.array(), radius)
            records = open_records(person_rows(clipped, person_index), (features,))

        statistic = SecondMoment(features, radius, n)
        mechanism_type: type[IsotropicMechanism] = GaussianMechanism
        if needs_bounded_loss(self.guarantee):
            mechanism_type = LaplaceMechanism
        mechanism = mechanism_type.calibrate(statistic, self.guarantee)
        return PendingRelease(mechanism, statistic.compute(records), choice, _TITLE)

    def _pending_descent(
        self, records: Records, radius: float, features: int, n_components: int
    ) -> PendingRelease:
        """Return the pending release of a private descent to the leading subspace.

        For a record z of length at most r and a unit vector w, the gradient is 2(I −
        wwᵀ)zzᵀw. Its length is 2·‖z‖²·sin·cos of the angle between z and w, hence at
        most r². So clipping gradients at r² changes none of them.

        Parameters
        ----------
        records : Records
            Rows with `features` numbers each, in memory.
        radius : float
            The public bound r on the length of a record.
        features : int
            The number of features of a record.
        n_components : int
            The number of directions.

        Returns
        -------
        PendingRelease
            A release whose data are a function that runs the descent.
        """
        from curvedp.optim import dp_rgd
        from curvedp.optim.plan import full_descent_mechanism

        problem = _subspace_problem(features, n_components)
        manifold = problem.manifold
        # The same random start every time: it is public, and any start would do.
        public_rng = np.random.default_rng(0)
        start = manifold.project(public_rng.standard_normal(manifold.point_shape))
        clip = radius**2
        learning_rate = 0.5 / radius**2
        # `array` refuses a dask array.
        rows = clip_rows(records.array(), radius)
        mechanism = full_descent_mechanism(
            problem, records.n, _DESCENT_STEPS, clip, self.guarantee
        )

        def run(source: Source) -> np.ndarray:
            """Run the descent, and return its last point: the leading subspace.

            Parameters
            ----------
            source : Source
                Where random bits come from.
            """
            result = dp_rgd(
                problem,
                rows,
                start,
                _DESCENT_STEPS,
                clip,
                learning_rate,
                noise=mechanism.noise,
                rng=None if self.source is None else source,
            )
            return np.asarray(result.point)

        return PendingRelease(mechanism, run, Choice(ChoiceRule.ONLY_ONE), _TITLE)

    @property
    def releases(self) -> list[ReleasedValue]:
        """Return the private directions; the noisy matrix itself is not kept."""
        (published,) = super().releases
        return [published._replace(value=self.components_)]

    def transform(self, X: Any) -> Any:
        """Return the coordinates of the records in the private subspace.

        Parameters
        ----------
        X : array of shape (n, features)
            The records.

        Returns
        -------
        array of shape (n, n_components)
            A lazy dask array if X is a dask array. The coordinates are computed from
            the records without noise, so they are still private data.
        """
        check_is_fitted(self)
        if not is_chunked(X) and not isinstance(X, list | tuple):
            width = _count_features(X)
            if width != self.n_features_in_:
                raise ParameterError(
                    f"X has {width} features, but PrivatePCA is expecting "
                    f"{self.n_features_in_} features as input"
                )
        coordinates = partial(_coordinates, self.components_)
        return map_records(
            coordinates, X, (self.n_features_in_,), (len(self.components_),)
        )


def _leading_eigenvectors(moment: np.ndarray, count: int) -> np.ndarray:
    """Return the eigenvectors of the `count` largest eigenvalues, as rows.

    Parameters
    ----------
    moment : array of shape (d, d)
        A symmetric matrix.
    count : int
        How many eigenvectors are needed.

    Returns
    -------
    array of shape (count, d)
        Contiguous in memory, as an array is after pickling, so that products with a fit
        and with its pickled copy agree to the last bit.
    """
    _, eigenvectors = np.linalg.eigh(moment)
    return np.ascontiguousarray(eigenvectors[:, ::-1][:, :count].T)


def _subspace_problem(
    features: int, n_components: int
) -> "LeadingEigenvectorProblem | SubspaceProblem":
    """Return the problem whose solution is the leading subspace of a second moment.

    Parameters
    ----------
    features : int
        The dimension of the records.
    n_components : int
        The dimension of the subspace.
    """
    from curvedp.optim import LeadingEigenvectorProblem, SubspaceProblem

    if n_components == 1:
        return LeadingEigenvectorProblem(features)
    return SubspaceProblem(features, n_components)


def _count_features(X: Any, features: int | None = None, min_records: int = 1) -> int:
    """Return the number of features of X, from its shape or from `features`.

    Parameters
    ----------
    X : array, dask array, frame or list of rows
        The records.
    features : int, optional
        The public number of features. A list needs it, because the lengths of its rows
        are private data.
    min_records : int
        The smallest number of records that is accepted.

    Returns
    -------
    int
        The number of entries of a record.

    Raises
    ------
    ParameterError
        In the words of scikit-learn, if shape or type of X do not fit. Values are never
        a reason.
    """
    if is_complex_array(X):
        raise ParameterError("Complex data not supported: X must be real numbers")
    if features is not None:
        features = _validate.integer("features", features, 1)
        if isinstance(X, list | tuple):
            return features

    # The messages are those that scikit-learn's own checks of estimators expect.
    shape = _validate.public_shape("X", X, "say features=")
    if len(shape) != 2:
        raise ParameterError(
            f"Expected 2D array, X has {len(shape)} axes; Reshape your data to "
            "(n, features)"
        )
    n_records, n_columns = shape
    if n_columns < 1:
        raise ParameterError(
            f"X has 0 feature(s) (shape={shape}) while a minimum of 1 is required."
        )
    if n_records < min_records:
        raise ParameterError(
            f"X has {n_records} sample(s); at least {min_records} are needed"
        )
    if features is not None and features != n_columns:
        raise ParameterError(
            f"X has {n_columns} features, and the parameter features is {features}"
        )
    return int(n_columns)


def _coordinates(components: np.ndarray, records: np.ndarray) -> np.ndarray:
    """Return the coordinates of records along orthonormal directions.

    Parameters
    ----------
    components : array of shape (k, features)
        One direction in each row.
    records : array of shape (n, features)
        One record in each row.

    Returns
    -------
    array of shape (n, k)
        The coordinates. NOT private.
    """
    return np.asarray(records @ components.T)

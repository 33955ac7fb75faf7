"""Prototypes of classes with private labels, for few-shot classifiers of embeddings. A
*prototype* is the private mean of a class's records in the tangent space at a center. A
record is predicted to be of the class whose prototype is nearest.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from curvedp.core.certificate import Release
from curvedp.core.codes import ChoiceRule
from curvedp.core.mechanism import Choice
from curvedp.core.released import ReleasedValue
from curvedp.core.statistic import Ball
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.estimators.base import PendingRelease, PrivateTransformer
from curvedp.estimators.softmax import ScoringClassifier
from curvedp.geometry.manifold import Manifold
from curvedp.ledger import Ledger
from curvedp.mechanisms.noisy_sum import ADD_REMOVE
from curvedp.mechanisms.staged.prototypes import PrototypeMechanism
from curvedp.privacy import GDP, Guarantee
from curvedp.randomness import Source
from curvedp.release.predict import predicted_error
from curvedp.release.rebuild import mechanism_of
from curvedp.statistics.prototypes import ClassPrototypes, Prototypes


@dataclass(eq=False, repr=False)
class PrivatePrototypes(PrivateTransformer, ScoringClassifier):
    """One private prototype for each class, and the classifier by the nearest of them.

    Labels are private. All classes are released together, with one guarantee, one
    charge and one certificate. A prototype is the mean of a class's logarithms, which
    are taken at a common center and clipped to a common radius. It is not the Fréchet
    mean of the class, which `PrivateMDM` releases in a public ball.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records, such as `Sphere(383)` for embeddings with 384 numbers.
    radius : float or "private"
        The radius of the public ball into which records are clipped. "private", which
        is for spheres, finds center and radius privately.
    center : point, optional
        The center of the public ball; by default the manifold's origin.
    guarantee : Guarantee
        The privacy guarantee of the release; Gaussian noise does not meet pure ε. With the
        adjacency "add-remove" the number of records is private, too.
    ledger : Ledger, optional
        The ledger that is charged. Nothing is charged if `fit` raises an error.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        A source of random bits that replaces the cryptographic one in simulations. The
        certificate records the replacement.
    classes : sequence of labels, optional
        The public set of classes. Any other label is replaced by the first class, in
        sorted order. By default it is the set of labels in `y`, which must be public
        then: it would reveal a class that has only one record.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in sorted order: a public set.
    means_ : ndarray
        The prototypes as points of the manifold. They contain all of the noise.
    counts_ : ndarray
        The noisy number of records, or of people, of each class.
    is_known_ : ndarray of bool
        Which classes have enough records that their prototype is not noise alone. No
        record is assigned to another class, if there is one that is known.
    classifier_ : Prototypes
        The released numbers, with the standard deviations of their noise.
    ball_ : Ball
        The public ball, or the one that was found.
    certificate_ : Certificate
        The certificate of the release.
    certificates_ : list of Certificate
        A list with the one certificate, because other classifiers have several.

    Notes
    -----
    Guarantees

    - errors are because of parameters, shapes and types, never of a record's values,
      and nothing is spent then;
    - `fit` meets `guarantee` for replacing one record together with its label, for ANY
      data; with the adjacency "add-remove", for adding or removing one;
    - with `groups`, for one person with all their records and labels, which may be of
      several classes.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(900) % 3
    >>> X = Sphere(49).project(2 * np.eye(50)[y] + rng.normal(0.3, 0.2, (900, 50)))
    >>> model = PrivatePrototypes(Sphere(49), guarantee=GDP(1.0)).fit(X, y)
    >>> model.means_.shape, model.score(X, y) > 0.9
    ((3, 50), True)
    """

    _name = "class prototypes"
    _column = "prototype"
    _adjacencies = ("replace-one", ADD_REMOVE)

    manifold: Manifold
    radius: float | str | None = "private"
    center: Any = None
    guarantee: Guarantee = GDP(1.0)  # noqa: RUF009 - a frozen value, safe as a default
    ledger: Ledger | None = None
    label: str | None = None
    source: Source | None = None
    classes: Any = None

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]  # read only
        """The number of columns that `transform` returns: one for each class."""
        return len(self.classes_)

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Release the prototypes of all classes, and charge them to the ledger.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records, in memory.
        y : sequence of n labels
            Private labels; only the set of classes is public.
        groups : sequence of n ids, optional
            The person to whom each record belongs. Then a person with all their records
            and labels is the unit of privacy: each contributes the average of what
            their records would.

        Returns
        -------
        self
            With `classes_`, `means_`, `counts_`, `classifier_` and `certificate_` set.

        Raises
        ------
        ParameterError
            Before anything is paid, for wrong parameters, and if there is one class.
        """
        self._validate_params()
        self._fit_prototypes(X, y, groups)
        return self._warn_after_release()

    def _fit_prototypes(self, X: Any, y: Any, groups: Any) -> None:
        """Charge the ledger, release all prototypes, and set the fitted attributes.

        Issues a `ReleaseWarning` before paying if there are too few records.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records, in memory.
        y : sequence of n labels
            Private labels; only the set of classes is public.
        groups : sequence of n ids, or None
            The person to whom each record belongs.
        """
        min_records = 0 if self._n_is_private else 2
        loaded = self._load_labeled_records(
            self.manifold, X, y, groups, self.classes, min_records
        )
        n = loaded.n
        n_classes = len(loaded.labels.classes)
        radius = None if self._searches_ball else self._public_radius()
        public_n = None if self._n_is_private else n
        statistic = ClassPrototypes(
            self.manifold, self.center, radius, n_classes, public_n
        )
        mechanism = PrototypeMechanism.calibrate(statistic, self.guarantee)
        if not mechanism.has_enough_records:
            warnings.warn(
                f"n = {n} at {self.guarantee} is small for {n_classes} classes: expect "
                "many wrong classes",
                ReleaseWarning,
                stacklevel=3,
            )

        # `array` refuses a dask array.
        data = (loaded.records.array(), loaded.labels.codes, loaded.person_index)
        choice = Choice(ChoiceRule.ONLY_ONE)
        pending = PendingRelease(mechanism, data, choice, "prototypes of the classes")
        (release,) = self._pay_and_release([pending], loaded.privacy_unit)
        self._set_fitted(statistic, loaded.labels.classes, release)

    def _set_fitted(
        self, statistic: ClassPrototypes, classes: np.ndarray, release: Release
    ) -> None:
        """Set the fitted attributes, which are computed from the release alone.

        So this is post-processing.

        Parameters
        ----------
        statistic : ClassPrototypes
            The statistic that was released, with its public parameters.
        classes : array
            The public set of classes, in order.
        release : Release
            The released numbers of all classes, with their certificate.
        """
        prototypes: Prototypes = release.value
        center, radius = prototypes.ball
        points = self.manifold.from_normal_coordinates(
            center, radius * _shortened(prototypes.means)
        )
        self.manifold_ = statistic.manifold
        self.classes_ = classes
        self.classifier_ = prototypes
        self.means_ = statistic.to_data_frame(np.asarray(points))
        self.counts_ = prototypes.counts
        self.is_known_ = prototypes.exceeds_noise
        (center_in_data_frame,) = statistic.to_data_frame(center[np.newaxis])
        self.ball_ = Ball(center_in_data_frame, radius)
        self.certificate_ = release.certificate
        self.certificates_ = [release.certificate]
        self._statistic = statistic

    def _public_radius(self) -> Any:
        """Return the radius of the public ball, which must be given.

        Returns
        -------
        Any
            The parameter `radius`, which the statistic checks.

        Raises
        ------
        ParameterError
            If it is None.
        """
        if self.radius is None:
            raise ParameterError(
                'is missing: give the radius of a public ball, or "private" on a sphere',
                parameter="radius",
            )
        return self.radius

    @property
    def predicted_error_(self) -> float:
        """Return the expected length of the noise in the prototype of an average class.

        It is computed from public numbers alone.

        Raises
        ------
        AttributeError
            If the number of records is private, because the error depends on it.
        """
        check_is_fitted(self)
        if self.certificate_.guarantee.adjacency == ADD_REMOVE:
            # With an `AttributeError`, `hasattr` returns False.
            raise AttributeError(
                "the predicted error depends on the number of records, which is private"
            )
        return predicted_error(mechanism_of(self.certificate_))

    @property
    def releases(self) -> list[ReleasedValue]:
        """Return the prototypes of all classes as the only release."""
        (published,) = super().releases
        return [published._replace(value=self.means_)]

    def transform(self, X: Any) -> Any:
        """Return the distances of the records to the prototypes, less their noise.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.

        Returns
        -------
        array of shape (n, classes)
            In normal coordinates at the common center, of records clipped to the common
            radius. The length that noise adds to a prototype is subtracted.
        """
        check_is_fitted(self)
        return self._apply(self._distances, X, (len(self.classes_),))

    def _distances(self, records: np.ndarray) -> np.ndarray:
        """Return the estimated distance of each record to each prototype.

        It is the root of the squared distance less the noise that it contains.

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records.

        Returns
        -------
        array of shape (n, classes)
            Distances in normal coordinates at the common center.
        """
        prototypes = self.classifier_
        squares = prototypes.squared_distances(self._unit_logs(records))
        return np.asarray(prototypes.ball.radius * np.sqrt(np.maximum(squares, 0.0)))

    def _scores(self, records: np.ndarray) -> np.ndarray:
        """Return minus the squared distance of each record to each prototype.

        The length that noise adds to a prototype is subtracted.

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records.

        Returns
        -------
        array of shape (n, classes)
            The scores, in units of the squared radius.
        """
        return self.classifier_.scores(self._unit_logs(records))

    def _unit_logs(self, records: np.ndarray) -> np.ndarray:
        """Return the clipped logarithms of records, in units of the radius.

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records.

        Returns
        -------
        array of shape (n, dim)
            Rows of length at most 1.
        """
        with np.errstate(all="ignore"):  # no warnings about records that are not points
            points = self._statistic.clip_to_canonical_ball(records)
            return self._statistic.to_unit_logs(self.classifier_.ball, points)


def _shortened(vectors: np.ndarray) -> np.ndarray:
    """Return rows, shortened to length 1 if they are longer.

    Means of clipped logarithms are no longer than 1; noise can make them so.

    Parameters
    ----------
    vectors : array of shape (classes, dim)
        Noisy means, in units of the radius.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1.0))

"""The private accuracy of a released classifier on records it has not been fitted to.
`score` of a classifier is computed from the records and is not private. What may be
printed beside a classifier is `PrivateAccuracy`, which is paid for.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from curvedp._silence import quiet_about_records
from curvedp.core.codes import ProtectedUnit
from curvedp.errors import ParameterError
from curvedp.estimators.base import PrivateEstimator, make_pending_release
from curvedp.estimators.softmax import ScoringClassifier
from curvedp.ledger import Ledger
from curvedp.privacy import GDP, Guarantee
from curvedp.randomness import Source
from curvedp.records.base import Records, open_records
from curvedp.records.persons import encode_persons
from curvedp.release.choose import choose_mechanism
from curvedp.statistics.accuracy import SHARE_BALL, SHARE_LINE, AccuracyShare


class AccuracyInterval(NamedTuple):
    """A confidence interval of an accuracy.

    Attributes
    ----------
    low, high : float
        Its ends, between 0 and 1.
    level : float
        The probability with which it holds the accuracy.
    theorem : str
        Why.
    """

    low: float
    high: float
    level: float
    theorem: str


@dataclass(eq=False, repr=False)
class PrivateAccuracy(PrivateEstimator):
    """The share of records for which a released classifier predicts the right class.

    The classifier is public: it was released before, and is not charged again. The
    records should be others than those it was fitted to. Each record is classified by
    itself, so that replacing one with its label moves the share by 1/n.

    Parameters
    ----------
    classifier : ScoringClassifier
        A fitted `PrivateMDM`, `PrivateReducedMDM`, `PrivateSoftmax` or
        `PrivatePrototypes`. Other classifiers are refused: their predictions for one
        record may depend on the others, or raise an error because of its contents.
    guarantee : Guarantee
        The privacy guarantee of the release, for replacing a record with its label.
    ledger : Ledger, optional
        The ledger that is charged. Nothing is charged if `fit` raises an error.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        A source of random bits that replaces the cryptographic one in simulations. The
        certificate records the replacement.

    Attributes
    ----------
    accuracy_ : float
        The private accuracy, between 0 and 1.
    certificate_ : Certificate
        The certificate of the release.

    Notes
    -----
    Labels are private. A label that is none of the classifier's classes counts as its
    first class.

    Guarantees

    - errors are because of parameters, shapes and types, never of a record's values,
      and nothing is spent then;
    - `fit` meets `guarantee` for replacing one record together with its label, for ANY
      data; with `groups`, for replacing one person with all their records and labels.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp import PrivateMDM
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["up", "down"], 400)
    >>> shift = np.where(y == "up", 1, -1)[:, None] * [0, 0, 1]
    >>> X = Sphere(2).project(rng.normal([3.0, 0, 0], 0.4, (800, 3)) + shift)
    >>> model = PrivateMDM(Sphere(2), radius=0.8).fit(X[::2], y[::2])
    >>> accuracy = PrivateAccuracy(model).fit(X[1::2], y[1::2])
    >>> abs(accuracy.accuracy_ - model.score(X[1::2], y[1::2])) < 0.02
    True
    >>> accuracy.interval(of="population").low > 0.8
    True
    """

    _name = "accuracy"

    classifier: ScoringClassifier
    guarantee: Guarantee = GDP(1.0)  # noqa: RUF009 - a frozen value, safe as a default
    ledger: Ledger | None = None
    label: str | None = None
    source: Source | None = None

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Release the accuracy, and charge it to the ledger.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            Records that the classifier was not fitted to, in memory.
        y : sequence of n labels
            Their classes, which are private.
        groups : sequence of n ids, optional
            The person to whom each record belongs. Then a person with all their records
            and labels is the unit of privacy, and every person counts the same.

        Returns
        -------
        self
            With `accuracy_` and `certificate_` set.
        """
        self._validate_params()
        is_right = self._correct_predictions(X, y)
        unit = ProtectedUnit.LABELED_RECORD
        if groups is not None:
            person_index = encode_persons(groups, len(is_right))
            # People are numbered without gaps, so that each number is a person.
            person_index = np.unique(person_index, return_inverse=True)[1]
            is_right = _mean_of_each_person(is_right, person_index)
            unit = ProtectedUnit.LABELED_PERSON

        # The accuracy is the mean of these numbers between 0 and 1.
        records: Records = open_records(is_right[:, np.newaxis], SHARE_LINE.point_shape)
        statistic = AccuracyShare(SHARE_LINE, *SHARE_BALL, records.n)
        chosen = choose_mechanism("auto", statistic, self.guarantee)
        pending = make_pending_release(chosen, records, self._name)
        (release,) = self._pay_and_release([pending], unit)

        self.manifold_ = SHARE_LINE
        self.certificate_ = release.certificate
        self.accuracy_ = float(np.clip(np.ravel(release.value)[0], 0.0, 1.0))
        return self

    def _correct_predictions(self, X: Any, y: Any) -> np.ndarray:
        """Return 1.0 for each record that is classified correctly, 0.0 for the others.

        The mean of these numbers is the accuracy. NOT private.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            Records that the classifier was not fitted to.
        y : sequence of n labels
            Their classes. A label that the classifier does not have counts as its
            first.

        Returns
        -------
        array of shape (n,)
            Zeros and ones. NOT private.

        Raises
        ------
        ParameterError
            If the classifier is not one of this package that was fitted.
        """
        classifier = self.classifier
        if not isinstance(classifier, ScoringClassifier):
            raise ParameterError(
                "must be a fitted classifier of this package, such as PrivateMDM",
                parameter="classifier",
                value=type(classifier).__name__,
            )
        if not classifier.__sklearn_is_fitted__():
            raise ParameterError("is not fitted", parameter="classifier")
        records = open_records(X, classifier.manifold_.point_shape)
        labels = records.labels(y, classifier.classes_.tolist())
        with quiet_about_records():
            predicted = np.asarray(classifier.predict(records.array()))
        return np.asarray(predicted == labels.classes[labels.codes], dtype=np.float64)

    def interval(self, level: float = 0.95, of: str = "records") -> AccuracyInterval:
        """Return a confidence interval of the accuracy; it costs no budget.

        Parameters
        ----------
        level : float
            The coverage: the probability that the interval holds the accuracy.
        of : {"records", "population"}
            The accuracy on these records, or on the population from which they were
            drawn independently.

        Returns
        -------
        AccuracyInterval
            Its ends, clipped to [0, 1], the level and the theorem behind it.
        """
        check_is_fitted(self)
        region = self.confidence_region(level, of)
        middle = float(np.ravel(region.center)[0])
        return AccuracyInterval(
            max(0.0, middle - region.radius),
            min(1.0, middle + region.radius),
            level,
            region.theorem,
        )


def _mean_of_each_person(values: np.ndarray, person_index: np.ndarray) -> np.ndarray:
    """Return the mean value of each person, so that every person counts the same.

    Parameters
    ----------
    values : array, shape (n,)
        A number for each record: 1 if it is classified right, else 0.
    person_index : array of int, shape (n,)
        The person of each record, from 0, without gaps.

    Returns
    -------
    array, shape (people,)
        The share of each person's records that is classified right.
    """
    counts = np.bincount(person_index)
    return np.asarray(np.bincount(person_index, weights=values) / counts)

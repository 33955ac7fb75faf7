"""Class means for people who are in every class, as in a within-subject design.
`PrivateMDM(groups=)` refuses a person with records of several classes, because it reads
each class by itself. Here a person is one point of a product space, with one factor for
each class, and all class means are one release.
"""

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from curvedp.core.released import ReleasedValue
from curvedp.errors import ParameterError
from curvedp.estimators.base import BallEstimator, delete_fitted_attributes
from curvedp.estimators.frechet_mean import PrivateFrechetMean
from curvedp.estimators.softmax import ScoringClassifier
from curvedp.geometry import Product
from curvedp.geometry.manifold import check_manifold
from curvedp.inference.shapes import Region
from curvedp.records.base import open_records
from curvedp.records.labels import Labels
from curvedp.records.persons import encode_persons, person_means

# Distances are cut here before they are squared, so that squares stay finite.
_MAX_DISTANCE = 1e150


@dataclass(eq=False, repr=False)
class PrivateJointMeans(ScoringClassifier, BallEstimator):
    """One private mean for each class, of people who have records in every class.

    Each person's records of a class are averaged first. The averages of a person are
    one point of the product Mᵏ of the space M with itself, a factor for each of k
    classes. The Fréchet mean of these points is released once; its parts are the class
    means. Replacing a person moves all parts together, and one charge pays for all.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    guarantee : Guarantee
        The privacy guarantee of the release.
    mechanism : str
        The mechanism of the joint mean on the product space. "auto" takes the smallest
        predicted error.
    ledger : Ledger, optional
        The ledger that is charged. Nothing is charged if `fit` raises an error.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        A source of random bits that replaces the cryptographic one in simulations. The
        certificate records the replacement.
    radius : float or "private"
        The radius of a public ball that holds a person's average of each class. The
        product ball has √k times this radius. "private" finds the product ball.
    center : point, optional
        The center of that ball, the same for all classes; by default the origin.
    outer_radius : float, optional
        With `radius="private"`: the radius of a public outer ball for the records of
        one class, which may be generous. By default it covers a compact space entirely
        and matrices in any unit; it is 25 in hyperbolic space and 1e6 in flat space.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in sorted order.
    means_ : ndarray, shape (classes, *point_shape)
        The private class means.
    ball_ : Ball
        The ball of the product space to which people were clipped; with
        `radius="private"` it was found.
    certificate_ : Certificate
        Why they may be published; its space is the product.
    certificates_ : list of Certificate
        A list with the one certificate, because other classifiers have several.

    Notes
    -----
    Labels are public, and so is that every person has records in every class. How many
    records a person has in a class is private.

    Guarantees

    - errors are because of parameters, shapes, types, labels and people, never of a
      record's values, and come before anything is spent;
    - all means together meet `guarantee` for replacing one person with all their
      records by another who has records in every class, for ANY records.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp import GDP
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> person = np.repeat(np.arange(100), 4)
    >>> task = np.tile(["rest", "task"], 200)
    >>> shift = np.where(task == "task", 1, -1)[:, None] * [0, 0, 0.5]
    >>> X = Sphere(2).project(rng.normal([3.0, 0, 0], 0.3, (400, 3)) + shift)
    >>> model = PrivateJointMeans(Sphere(2), radius=0.5, guarantee=GDP(2.0))
    >>> model.fit(X, task, groups=person).means_.shape
    (2, 3)
    >>> model.score(X, task) > 0.8, model.certificate_.privacy_unit.value
    (True, 'person')
    """

    _name = "joint class means"

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Release all class means at once, and charge them to the ledger.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records, in memory.
        y : sequence of n labels
            Public labels.
        groups : sequence of n ids
            The person to whom each record belongs.

        Returns
        -------
        self
            With `classes_`, `means_`, `certificate_` and `manifold_` set.

        Raises
        ------
        ParameterError
            Before anything is paid, for wrong parameters, if there are no people or
            fewer than two classes, and if a person lacks records of a class.
        """
        self._validate_params()
        records = open_records(X, check_manifold(self.manifold).point_shape).array()
        if groups is None:
            raise ParameterError(
                "is missing: the person of each record", parameter="groups"
            )
        person_index = encode_persons(groups, len(records))
        labels = Labels(y, len(records))
        _check_complete(labels, person_index)

        n_classes = len(labels.classes)
        space = Product(*[self.manifold] * n_classes)
        ball = self._clipping_ball()
        averages = [
            person_means(self.manifold, ball, records[labels.codes == code], persons)
            for code, persons in enumerate(_persons_of_classes(labels, person_index))
        ]
        joint = self._joint_estimator(space, n_classes)
        # Each row is a person, which the certificate says.
        joint.fit(space.join(averages), groups=np.arange(len(averages[0])))
        self._copy_fit(joint, space, labels.classes)
        return self

    def _copy_fit(
        self, joint: PrivateFrechetMean, space: Product, classes: np.ndarray
    ) -> None:
        """Set the fitted attributes from the release of the mean on the product space.

        Parameters
        ----------
        joint : PrivateFrechetMean
            The fitted estimator of the mean of all people.
        space : Product
            The product space, with one factor for each class.
        classes : array
            The labels of the classes.
        """
        delete_fitted_attributes(self)
        # `joint` is an estimator of this package, so its private names may be read.
        self._published = joint._published  # noqa: SLF001
        self._warnings_before_paying = joint._warnings_before_paying  # noqa: SLF001
        self._joint = joint
        self.manifold_ = self.manifold
        self.ball_ = joint.ball_
        self.classes_ = classes
        self.means_ = np.stack(space.split(joint.location_))
        self.certificate_ = joint.certificate_
        self.certificates_ = [joint.certificate_]

    def _joint_estimator(self, space: Product, n_classes: int) -> PrivateFrechetMean:
        """Return the unfitted estimator of the mean on the product space.

        The product of k balls of radius r lies in the ball of radius √k·r.

        Parameters
        ----------
        space : Product
            The product of k copies of the manifold, one for each class.
        n_classes : int
            The number k of classes.

        Returns
        -------
        PrivateFrechetMean
            The estimator, with the ledger and the guarantee of this one.
        """
        radius = self.radius
        if isinstance(radius, int | float):
            radius = sqrt(n_classes) * radius
        outer_radius = self.outer_radius
        if outer_radius is not None:
            outer_radius = sqrt(n_classes) * outer_radius
        center = None
        if self.center is not None:
            center = space.join([np.asarray(self.center, dtype=float)] * n_classes)
        return PrivateFrechetMean(
            space,
            radius=radius,
            center=center,
            guarantee=self.guarantee,
            mechanism=self.mechanism,
            ledger=self.ledger,
            label=self.label or self._name,
            source=self.source,
            outer_radius=outer_radius,
        )

    @property
    def releases(self) -> list[ReleasedValue]:
        """Return the class means, one release each; they share one certificate."""
        (published,) = super().releases
        return [
            published._replace(title=f"mean of class {label}", value=mean)
            for label, mean in zip(self.classes_, self.means_, strict=True)
        ]

    @property
    def predicted_error_(self) -> float:
        """Return the expected distance of all class means together from the true means.

        It is a distance on the product space: the root of the sum of squares over the
        classes.
        """
        check_is_fitted(self)
        return self._joint.predicted_error_

    def confidence_region(  # type: ignore[override]  # one for each class
        self, level: float = 0.95, of: str = "records"
    ) -> dict[Any, Region]:
        """Return a region for each class, with simultaneous coverage.

        The joint mean is a point of a product of spaces, one for each class. A distance
        on the product is at least the distance in each factor. So if the joint mean is
        within a radius of its target, every class mean is within that radius of its own.

        Parameters
        ----------
        level : float
            The coverage: the probability that all regions contain their targets.
        of : {"records", "population"}
            Whether the target of a region is the mean of the people in the data, or
            that of the population from which people were drawn independently.

        Returns
        -------
        dict
            From the label of a class to its region.
        """
        joint = super().confidence_region(level, of)
        return {
            label: replace(joint, manifold=self.manifold_, center=mean, within=None)
            for label, mean in zip(self.classes_.tolist(), self.means_, strict=True)
        }

    def _scores(self, records: np.ndarray) -> np.ndarray:
        """Return the score of each class for each record: −(distance to its mean)².

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records. One that is not a point has equal scores for all classes.

        Returns
        -------
        array of shape (n, classes)
            The scores.
        """
        points = self.manifold_.from_record(records)
        # One row for each record, one column for each class.
        means_as_row = self.means_[np.newaxis]
        points_as_column = points[:, np.newaxis]
        distances = np.asarray(self.manifold_.dist(means_as_row, points_as_column))

        scores = -(np.minimum(distances, _MAX_DISTANCE) ** 2)
        return np.asarray(np.nan_to_num(scores, nan=-1e300))


def _check_complete(labels: Labels, person_index: np.ndarray) -> None:
    """Refuse people who lack records of a class.

    A person's vector on the product space needs an average for every class.

    Parameters
    ----------
    labels : Labels
        The public class of each record.
    person_index : array of int
        The person of each record.

    Raises
    ------
    ParameterError
        If there is one class only, or a person without records of a class.
    """
    n_classes = len(labels.classes)
    if n_classes < 2:
        raise ParameterError("there is one class; at least 2 are needed")
    n_persons = len(np.unique(person_index))
    for code, label in enumerate(labels.classes):
        present = len(np.unique(person_index[labels.codes == code]))
        if present < n_persons:
            raise ParameterError(
                f"groups has {n_persons} people, of whom {n_persons - present} have no "
                f"record of class {label}; leave them out, or take PrivateSoftmax"
            )


def _persons_of_classes(labels: Labels, person_index: np.ndarray) -> list[np.ndarray]:
    """Return the people of each class's records, by numbers without gaps.

    Parameters
    ----------
    labels : Labels
        The public class of each record.
    person_index : array of int
        The person of each record. Every person occurs in every class.

    Returns
    -------
    list of arrays of int
        For each class the numbers, from 0, of the people of its records.
    """
    numbered = np.unique(person_index, return_inverse=True)[1]
    return [numbered[labels.codes == code] for code in range(len(labels.classes))]

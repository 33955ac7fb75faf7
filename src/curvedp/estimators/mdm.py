"""Minimum distance to private class means: classification of manifold-valued records."""

from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from curvedp.errors import ParameterError
from curvedp.estimators.base import BallEstimator, Job
from curvedp.geometry.base import Manifold
from curvedp.inference.region import Region, simultaneous
from curvedp.mechanisms.choose import Choice, choose_mechanism
from curvedp.mechanisms.statistic import FrechetMean, public_ball
from curvedp.records import by_chunks, is_chunked
from curvedp.records.base import Records, open_records

__all__ = ["PrivateMDM"]

_UNIT = FrechetMean.units[0]  # of its class


class PrivateMDM(ClassifierMixin, BallEstimator):
    """A classifier that keeps one private Fréchet mean a class and predicts the nearest.

    Labels and class sizes are public (a record may be replaced by any other of its class); the classes are disjoint, so
    the guarantee of all means together is that of one. Certificates say so.

    Parameters
    ----------
    manifold, radius, center, guarantee, mechanism, ledger, label, source
        As in `PrivateFrechetMean`.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in order.
    means_ : ndarray
        One private mean a class.
    certificates_ : list of Certificate
        One a class.

    Notes
    -----
    X may be a dask array, which is streamed: every pass serves all classes, and the means do not depend on the chunks. Then y
    may be one too, and `transform` and `predict` of a dask array are dask arrays, computed by chunks when they are asked for.

    Guarantees
    - all means together meet `guarantee` for replacing one record within its class.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["up", "down"], 200)
    >>> X = Sphere(2).project(rng.normal([3.0, 0, 0], 0.4, (400, 3)) + np.where(y == "up", 1, -1)[:, None] * [0, 0, 1])
    >>> PrivateMDM(Sphere(2), radius=0.8).fit(X, y).score(X, y) > 0.9
    True
    """

    _name = "class means"

    def fit(self, X: Any, y: Any) -> Self:
        """Release the mean of each class of X, shape (n, *point_shape), with public labels y."""
        self._check_common()
        ball = public_ball(self.manifold, self.center, self.radius)
        records = open_records(X, self.manifold.point_shape)
        if records.where != "memory":  # one pass serves all classes
            records = records.carried(self.manifold, ball.center)
        labels = records.labels(y)
        choices = self._choices(labels.sizes.tolist(), labels.classes, records)
        releases = self._publish(self._jobs(choices, records, labels), _UNIT)
        self.classes_ = labels.classes
        self.means_ = np.stack([release.value for release in releases])
        self.certificates_ = [release.certificate for release in releases]
        return self

    def _choices(self, sizes: list[int], classes: np.ndarray, records: Records) -> list[Choice]:
        """A mechanism for each class, one for each size, all chosen before anything is spent."""
        if min(sizes) < 2:
            lonely = classes[sizes.index(min(sizes))]
            raise ParameterError(f"class {lonely!r} has one record; each class needs at least 2")
        made = {
            n: choose_mechanism(
                self.mechanism,
                FrechetMean(self.manifold, self.center, self.radius, n),  # type: ignore[arg-type]  # None is refused there
                self.guarantee,
                in_memory=records.where == "memory",
            )
            for n in set(sizes)
        }
        return [made[n] for n in sizes]

    def _jobs(self, choices: list[Choice], records: Records, labels: Any) -> list[Job]:
        if records.where == "memory":
            groups = (records.take(labels.codes == code) for code in range(len(choices)))
            return [self._job(choice, group) for choice, group in zip(choices, groups, strict=True)]
        statistic = choices[0].mechanism.statistic  # the ball is the same for all
        assert isinstance(statistic, FrechetMean)  # made in `_choices`
        means = (mean for mean, _ in records.class_moments(statistic.domain, labels))
        return [Job(choice.mechanism, mean, choice.reason) for choice, mean in zip(choices, means, strict=True)]

    def confidence_region(self, level: float = 0.95, of: str = "records") -> dict[Any, Region]:  # type: ignore[override]  # one a class
        """Regions by class, which ALL hold their means with probability `level`; else as in `PrivateFrechetMean`."""
        if not hasattr(self, "certificates_"):
            raise ParameterError("PrivateMDM is not fitted: call fit before confidence_region")
        return dict(zip(self.classes_.tolist(), simultaneous(self.certificates_, level, of), strict=True))

    def transform(self, X: Any) -> Any:
        """Distances to the class means, shape (n, classes)."""
        return self._applied(partial(_distances, self.manifold, self._means()), X, (len(self._means()),), np.float64)

    def predict(self, X: Any) -> Any:
        """The class of the nearest private mean."""
        nearest = partial(_nearest, self.manifold, self._means(), self.classes_)
        return self._applied(nearest, X, (), self.classes_.dtype)

    def predict_proba(self, X: Any) -> Any:
        """Softmax of minus the squared distances, shape (n, classes): larger where the mean is nearer."""
        return self._applied(partial(_shares, self.manifold, self._means()), X, (len(self._means()),), np.float64)

    def _means(self) -> np.ndarray:
        check_is_fitted(self)
        return self.means_

    def _applied(self, function: Any, X: Any, rest: tuple[int, ...], dtype: Any) -> Any:
        if is_chunked(X):
            return by_chunks(function, X, self.manifold.point_shape, rest, np.dtype(dtype))
        return function(open_records(X, self.manifold.point_shape, least=1).array())


def _distances(manifold: Manifold, means: np.ndarray, records: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):  # a record that is not on the manifold is no reason for a warning
        return np.asarray(manifold.dist(means[None], records[:, None]))


def _nearest(manifold: Manifold, means: np.ndarray, classes: np.ndarray, records: np.ndarray) -> np.ndarray:
    # A record that is not on the manifold has no distance; it goes to the first class.
    distances = np.nan_to_num(_distances(manifold, means, records), nan=np.inf)
    return np.asarray(classes[np.argmin(distances, axis=1)])


def _shares(manifold: Manifold, means: np.ndarray, records: np.ndarray) -> np.ndarray:
    squares = np.nan_to_num(_distances(manifold, means, records) ** 2, nan=0.0, posinf=1e300)
    weights = np.exp(squares.min(axis=1, keepdims=True) - squares)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))

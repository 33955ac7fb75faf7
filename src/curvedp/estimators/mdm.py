"""Minimum distance to private class means: classification of manifold-valued records."""

from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from curvedp.errors import ParameterError
from curvedp.estimators._mean import BallEstimator, PlannedMean, check_records, plan_mean, public_ball, release_mean
from curvedp.estimators._streamed import Streamed, on_host, open_streamed
from curvedp.geometry.base import Manifold
from curvedp.mechanisms.base import Ball, Release
from curvedp.records import ChunkedLabels, Labels, by_chunks, is_chunked

__all__ = ["PrivateMDM"]


class PrivateMDM(ClassifierMixin, BallEstimator):
    """A classifier that keeps one private Fréchet mean a class and predicts the nearest.

    Labels and class sizes are public (a record may be replaced by any other of its class); the classes are disjoint, so
    the guarantee of all means together is that of one. Parameters as in `PrivateFrechetMean`.

    X may be a dask array, which is streamed: every pass serves all classes, and the means do not depend on the chunks. Then y
    may be one too, and `transform` and `predict` of a dask array are dask arrays, computed by chunks when they are asked for.

    After `fit`: `classes_`, `means_` (one a class), `certificates_`.

    Guarantees
    - all means together meet `guarantee` for replacing one record within its class.
    """

    _name = "class means"

    def fit(self, X: Any, y: Any) -> Self:
        """Release the mean of each class of X, shape (n, *point_shape), with public labels y."""
        ball = public_ball(self.manifold, self.center, self.radius)
        streamed = open_streamed(self.manifold, X)
        if streamed is None:
            classes, releases = self._from_memory(ball, check_records(self.manifold, X), y)
        else:
            classes, releases = self._from_stream(ball, streamed, y)
        self.classes_ = classes
        self.means_ = np.stack([release.value for release in releases])
        self.certificates_ = [release.certificate for release in releases]
        return self

    def _from_memory(self, ball: Ball, records: np.ndarray, y: Any) -> tuple[np.ndarray, list[Release]]:
        labels = Labels(y, len(records))
        plans = self._plans(ball, labels)
        self._charge(*(plan.choice.mechanism for plan in plans))
        groups = (records[labels.codes == code] for code in range(len(plans)))
        together = zip(groups, plans, strict=True)
        return labels.classes, [release_mean(self.manifold, group, plan, self.source) for group, plan in together]

    def _from_stream(self, ball: Ball, records: Streamed, y: Any) -> tuple[np.ndarray, list[Release]]:
        labels = records.labels(y)
        plans = self._plans(ball, labels, records)
        means = records.class_means(self.manifold, ball, labels)
        self._charge(*(plan.choice.mechanism for plan in plans))
        together = zip(plans, means, strict=True)
        return labels.classes, [plan.release(mean, self.source) for plan, mean in together]

    def _plans(self, ball: Ball, labels: Labels | ChunkedLabels, streamed: Streamed | None = None) -> list[PlannedMean]:
        """A plan for each class, one for each size, all made before anything is spent."""
        sizes = labels.sizes.tolist()
        if min(sizes) < 2:
            lonely = labels.classes[sizes.index(min(sizes))]
            raise ParameterError(f"class {lonely!r} has one record; each class needs at least 2")
        made = {n: plan_mean(self.manifold, ball, n, self.guarantee, self.mechanism, streamed) for n in set(sizes)}
        return [made[n] for n in sizes]

    def transform(self, X: Any) -> Any:
        """Distances to the class means, shape (n, classes)."""
        check_is_fitted(self)
        distances = partial(_distances, self.manifold, self.means_)
        if is_chunked(X):
            return by_chunks(distances, X, self.manifold.point_shape, (len(self.means_),), np.dtype(np.float64))
        return distances(check_records(self.manifold, on_host("X", X), least=1))

    def predict(self, X: Any) -> Any:
        """The class of the nearest private mean."""
        check_is_fitted(self)
        nearest = partial(_nearest, self.manifold, self.means_, self.classes_)
        if is_chunked(X):
            return by_chunks(nearest, X, self.manifold.point_shape, (), self.classes_.dtype)
        return nearest(check_records(self.manifold, on_host("X", X), least=1))


def _distances(manifold: Manifold, means: np.ndarray, records: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):  # a record that is not on the manifold is no reason for a warning
        return np.asarray(manifold.dist(means[None], records[:, None]))


def _nearest(manifold: Manifold, means: np.ndarray, classes: np.ndarray, records: np.ndarray) -> np.ndarray:
    # A record that is not on the manifold has no distance; it goes to the first class.
    distances = np.nan_to_num(_distances(manifold, means, records), nan=np.inf)
    return np.asarray(classes[np.argmin(distances, axis=1)])

"""Minimum distance to private class means: classification of manifold-valued records."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from curvedp.errors import ParameterError
from curvedp.estimators._mean import BallEstimator, check_records, plan_mean, public_ball, release_mean

__all__ = ["PrivateMDM"]


class PrivateMDM(ClassifierMixin, BallEstimator):
    """A classifier that keeps one private Fréchet mean a class and predicts the nearest.

    Labels and class sizes are public (a record may be replaced by any other of its class); the classes are disjoint, so
    the guarantee of all means together is that of one. Parameters as in `PrivateFrechetMean`.

    After `fit`: `classes_`, `means_` (one a class), `certificates_`.

    Guarantees
    - all means together meet `guarantee` for replacing one record within its class.
    """

    _name = "class means"

    def fit(self, X: Any, y: Any) -> Self:
        """Release the mean of each class of X, shape (n, *point_shape), with public labels y."""
        ball = public_ball(self.manifold, self.center, self.radius)
        records = check_records(self.manifold, X)
        try:
            labels = np.asarray(y)
        except ValueError:
            raise ParameterError("y must be an array of labels") from None
        if labels.shape != (len(records),):
            raise ParameterError(
                f"y has shape {labels.shape}; there must be one label for each of {len(records)} records"
            )
        classes, sizes = np.unique(labels, return_counts=True)
        if sizes.min() < 2:
            raise ParameterError(f"class {classes[sizes.argmin()]!r} has one record; each class needs at least 2")
        # One plan a class size, all made before anything is spent.
        plans = {int(n): plan_mean(self.manifold, ball, int(n), self.guarantee, self.mechanism) for n in set(sizes)}
        self._charge(plans[int(sizes.min())].choice.mechanism)
        releases = [
            release_mean(self.manifold, records[labels == c], plans[int(n)], self.source)
            for c, n in zip(classes, sizes, strict=True)
        ]
        self.classes_ = classes
        self.means_ = np.stack([release.value for release in releases])
        self.certificates_ = [release.certificate for release in releases]
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Distances to the class means, shape (n, classes)."""
        check_is_fitted(self)
        records = check_records(self.manifold, X, least=1)
        return np.asarray(self.manifold.dist(self.means_[None], records[:, None]))

    def predict(self, X: Any) -> np.ndarray:
        """The class of the nearest private mean."""
        distances = self.transform(X)
        # A record that is not on the manifold has no distance; it goes to the first class.
        return np.asarray(self.classes_[np.argmin(np.nan_to_num(distances, nan=np.inf), axis=1)])

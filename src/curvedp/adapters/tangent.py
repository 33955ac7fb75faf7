"""Tangent coordinates at a private mean, for pipelines: what pyRiemann's `TangentSpace` does, with a private reference."""

from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from curvedp.estimators import PrivateFrechetMean
from curvedp.geometry import project_to_ball
from curvedp.records import open_records

__all__ = ["PrivateTangentSpace"]


class PrivateTangentSpace(TransformerMixin, PrivateFrechetMean):
    """Coordinates of records about their private Fréchet mean.

    The mean, and so the map, is private. What the map makes of the TRAINING records is not: it is as private as the records
    are, and so is whatever is then trained on it. Put a private learner behind it, or train on public records.

    Parameters
    ----------
    manifold, radius, center, outer_radius, guarantee, mechanism, ledger, label, source
        As of `PrivateFrechetMean`.

    Attributes
    ----------
    location_, certificate_, predicted_error_, ball_
        As of `PrivateFrechetMean`.

    Raises
    ------
    ParameterError, UnattainableGuarantee, BudgetExceeded
        As of `PrivateFrechetMean`; nothing is spent then.

    Examples
    --------
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> step = PrivateTangentSpace(SPDAffineInvariant(2), radius=1.0)
    >>> step.fit_transform(np.broadcast_to(np.eye(2), (50, 2, 2))).shape
    (50, 3)
    """

    _name = "Fréchet mean, as reference of a tangent space"

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release the mean of X; y is ignored, as in scikit-learn."""
        return super().fit(X, y, groups)

    def transform(self, X: Any) -> np.ndarray:
        """Orthonormal coordinates of logarithms at the mean, shape (n, dim); a record that is none is moved to the ball's
        center first, as `fit` does. NOT private."""
        check_is_fitted(self, "location_")
        records = open_records(X, self.manifold.point_shape).array()
        inside = project_to_ball(self.manifold, np.asarray(self.ball_.center), self.ball_.radius, records)
        return np.asarray(self.manifold.chart(self.location_, np.asarray(inside)))

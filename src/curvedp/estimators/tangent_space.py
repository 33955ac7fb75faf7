"""Records as vectors: their coordinates in the tangent space at a private mean, for scikit-learn pipelines."""

from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from curvedp.estimators.base import PrivateTransformer
from curvedp.estimators.frechet_mean import PrivateFrechetMean
from curvedp.mechanisms.staged.queries import logs_at
from curvedp.records.chunked import map_records


class PrivateTangentSpace(PrivateTransformer, PrivateFrechetMean):
    """Maps records to coordinates of their logarithms at a private Fréchet mean.

    Only the reference point is released. What `transform` returns are the records themselves in other coordinates: private
    data, to be learned from by something private.

    Parameters
    ----------
    manifold, radius, center, guarantee, mechanism, ledger, label, source, outer_radius
        As in `PrivateFrechetMean`.

    Attributes
    ----------
    location_, certificate_ : ndarray and Certificate
        The reference point, a private mean, and why it may be published.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> PrivateTangentSpace(Sphere(2), radius=0.7).fit_transform(X).shape
    (500, 2)
    """

    _name = "reference point"
    _column = "tangent"

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]  # read only
        return self.manifold_.dim

    def transform(self, X: Any) -> Any:
        """Orthonormal coordinates at the reference point, shape (n, dim); of a dask array a dask array.

        A record without a logarithm there is 0, the reference point itself.
        """
        check_is_fitted(self)
        manifold = self.manifold_
        coordinates = partial(_coordinates, manifold, self.location_)
        return map_records(coordinates, X, manifold.point_shape, (manifold.dim,))


def _coordinates(
    manifold: Any, reference: np.ndarray, records: np.ndarray
) -> np.ndarray:
    # As in `fit`, a record stands for the point nearest to it.
    return logs_at(manifold, reference, manifold.from_record(records))

"""Records as vectors, for scikit-learn pipelines.

A record becomes its coordinates in the tangent space at a private mean.
"""

from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from curvedp.estimators.base import PrivateTransformer
from curvedp.estimators.frechet_mean import PrivateFrechetMean
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.staged.queries import logs_at
from curvedp.records.chunked import map_records


class PrivateTangentSpace(PrivateTransformer, PrivateFrechetMean):
    """A transformer of records to their logarithms at a private Fréchet mean.

    Only the reference point is released. What `transform` returns are the records
    themselves in other coordinates: private data, to be learned from by something
    private.

    Parameters
    ----------
    manifold, radius, center, guarantee, mechanism, ledger, label, source, outer_radius
        As in `PrivateFrechetMean`.

    Attributes
    ----------
    location_ : ndarray
        The reference point, a private mean.
    certificate_ : Certificate
        Why it may be published.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> X = Sphere(2).project(rng.normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> PrivateTangentSpace(Sphere(2), radius=0.7).fit_transform(X).shape
    (500, 2)
    """

    _name = "reference point"
    _column = "tangent"

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]  # read only
        """How many columns `transform` makes: one for each dimension."""
        return self.manifold_.dim

    def transform(self, X: Any) -> Any:
        """Return the records in orthonormal coordinates at the reference point.

        Parameters
        ----------
        X : array of shape (n, *point_shape)

        Returns
        -------
        array of shape (n, dim)
            A dask array for a dask array. A record without a logarithm there becomes 0,
            the reference point itself.
        """
        check_is_fitted(self)
        manifold = self.manifold_
        coordinates = partial(_coordinates, manifold, self.location_)
        return map_records(coordinates, X, manifold.point_shape, (manifold.dim,))


def _coordinates(
    manifold: Manifold, reference: np.ndarray, records: np.ndarray
) -> np.ndarray:
    """Return the coordinates at the reference of the points nearest to the records."""
    return logs_at(manifold, reference, manifold.from_record(records))

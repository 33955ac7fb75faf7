"""A private transformer of manifold-valued records to vectors, for scikit-learn pipelines.
A record becomes its coordinates in the tangent space at a private mean.
"""

from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from curvedp.estimators.base import PrivateTransformer
from curvedp.estimators.frechet_mean import PrivateFrechetMean
from curvedp.geometry.manifold import Manifold
from curvedp.records.chunked import map_records
from curvedp.statistics.tangent_vectors import logs_at


class PrivateTangentSpace(PrivateTransformer, PrivateFrechetMean):
    """A transformer of records to their logarithms at a private Fréchet mean.

    Only the reference point is released. `transform` returns the records themselves in
    other coordinates. They are still private data: anything that is learned from them
    needs a guarantee of its own.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    radius : float or "private"
        The radius of the public ball into which records are clipped. "private" finds a
        ball privately, inside the public outer ball.
    center : point, optional
        The center of the public ball; by default the manifold's origin.
    outer_radius : float, optional
        With `radius="private"`: the radius of the public outer ball, which may be
        generous. By default it covers a compact space entirely and matrices in any unit
        of measurement; it is 25 in hyperbolic space and 1e6 in flat space.
    guarantee : Guarantee
        The privacy guarantee of the release.
    mechanism : str
        "auto" takes the smallest predicted error. By name: "gaussian", "laplace",
        "tangent-gaussian", "tangent-laplace", "newton" (on spheres and hyperbolic
        spaces), "gradient" (any ball), "kng" (up to dimension 4, drawn in floats).
    ledger : Ledger, optional
        The ledger that is charged. Nothing is charged if `fit` raises an error.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        A source of random bits that replaces the cryptographic one in simulations. The
        certificate records the replacement.

    Attributes
    ----------
    location_ : ndarray
        The reference point, a private mean.
    certificate_ : Certificate
        The certificate of the release.

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
        """Return how many columns `transform` makes: the dimension of the manifold."""
        return self.manifold_.dim

    def transform(self, X: Any) -> Any:
        """Return the records in orthonormal tangent coordinates at the reference point.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.

        Returns
        -------
        array of shape (n, dim)
            A lazy dask array if X is a dask array. A record that has no logarithm at
            the reference point is mapped to 0, the coordinates of that point.
        """
        check_is_fitted(self)
        manifold = self.manifold_
        coordinates = partial(_coordinates, manifold, self.location_)
        return map_records(coordinates, X, manifold.point_shape, (manifold.dim,))


def _coordinates(
    manifold: Manifold, reference: np.ndarray, records: np.ndarray
) -> np.ndarray:
    """Return the tangent coordinates of records at the reference point. NOT private.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    reference : array of shape point_shape
        The released reference point.
    records : array of shape (n, *point_shape)
        One that is not on the manifold is replaced by the nearest point.

    Returns
    -------
    array of shape (n, dim)
        Orthonormal coordinates of the logarithms.
    """
    return logs_at(manifold, reference, manifold.from_record(records))

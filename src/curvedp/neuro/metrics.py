"""Private means and medians of matrices by the names that pyRiemann gives its metrics.
`gmean` and `gmedian` are for those who look for `pyriemann.geometry.mean.gmean` and
`median_riemann`. They are `PrivateFrechetMean` and `PrivateFrechetMedian` on the space
that belongs to a metric, and return the released matrix with its certificate.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from curvedp import _validate
from curvedp.core.released import ReleasedValue
from curvedp.errors import ParameterError
from curvedp.estimators import PrivateFrechetMean, PrivateFrechetMedian
from curvedp.geometry import (
    HPDAffineInvariant,
    Manifold,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    SPDLogCholesky,
    SPDLogEuclidean,
)
from curvedp.ledger import Ledger
from curvedp.privacy import GDP, Guarantee
from curvedp.randomness import Source

# pyRiemann's names of metrics whose means are Fréchet means, and the space of each.
_SPACES: dict[str, Callable[[int], Manifold]] = {
    "riemann": SPDAffineInvariant,
    "logeuclid": SPDLogEuclidean,
    "logchol": SPDLogCholesky,
    "wasserstein": SPDBuresWasserstein,
}


def space_of_metric(
    metric: str, n_channels: int, *, is_complex: bool = False
) -> Manifold:
    """Return the space of matrices that belongs to a metric of pyRiemann.

    Parameters
    ----------
    metric : {"riemann", "logeuclid", "logchol", "wasserstein"}
        pyRiemann's name. Its other means (arithmetic, harmonic, power, …) are no
        Fréchet means of a distance that is released here.
    n_channels : int
        The number of rows of a matrix.
    is_complex : bool
        Whether matrices are Hermitian; then the metric is "riemann".

    Examples
    --------
    >>> space_of_metric("logeuclid", 8)
    SPDLogEuclidean(m=8)
    """
    _validate.choice("metric", metric, tuple(_SPACES))
    n_channels = _validate.integer("n_channels", n_channels, 1)
    if not is_complex:
        return _SPACES[metric](n_channels)
    if metric != "riemann":
        raise ParameterError(
            "of complex matrices is 'riemann'", parameter="metric", value=metric
        )
    return HPDAffineInvariant(n_channels)


def gmean(
    X: Any,
    *,
    metric: str = "riemann",
    groups: Any = None,
    radius: float | str = "private",
    center: Any = None,
    guarantee: Guarantee = GDP(1.0),  # noqa: B008 - a frozen value
    ledger: Ledger | None = None,
    label: str | None = None,
    source: Source | None = None,
) -> ReleasedValue:
    """Release the private mean of positive definite matrices under a metric.

    Parameters
    ----------
    X : array of shape (n, n_channels, n_channels)
        One matrix for each record. It takes no weights: a record is protected because
        all have the same weight.
    metric : {"riemann", "logeuclid", "logchol", "wasserstein"}
        pyRiemann's name of the metric.
    groups : sequence of n ids, optional
        The person of each matrix. Then people are protected, and the matrices of one
        person are averaged first.
    radius : float or "private"
        The radius of the public ball into which records are clipped; "private" finds
        one with part of the budget.
    center : array of shape (n_channels, n_channels), optional
        The public center of that ball; the identity by default.
    guarantee : Guarantee
        The privacy guarantee of the release.
    ledger : Ledger, optional
        The budget that is charged.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        Replaces the cryptographic random bits in simulations; the release is not private
        then.

    Returns
    -------
    ReleasedValue
        The mean as `value`, and why it may be published as `certificate`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> signals = rng.normal(size=(400, 3, 50))
    >>> mean = gmean(signals @ signals.mT / 50, metric="logeuclid")
    >>> mean.value.shape, mean.certificate.statistic["name"]
    ((3, 3), 'Fréchet mean in a private ball')
    """
    model = PrivateFrechetMean(
        _space_of_records(X, metric),
        radius=radius,
        center=center,
        guarantee=guarantee,
        ledger=ledger,
        label=label,
        source=source,
    )
    (release,) = model.fit(X, groups=groups).releases
    return release


def gmedian(
    X: Any,
    *,
    metric: str = "riemann",
    groups: Any = None,
    radius: float | str = "private",
    center: Any = None,
    guarantee: Guarantee = GDP(1.0),  # noqa: B008 - a frozen value
    ledger: Ledger | None = None,
    label: str | None = None,
    source: Source | None = None,
) -> ReleasedValue:
    """Release the private geometric median of matrices, which a few artifacts hardly move.

    Parameters
    ----------
    X : array of shape (n, n_channels, n_channels)
        One matrix for each record.
    metric : {"riemann", "logeuclid", "logchol", "wasserstein"}
        pyRiemann's name of the metric.
    groups : sequence of n ids, optional
        The person of each matrix. Then people are protected.
    radius : float or "private"
        The radius of the public ball into which records are clipped; "private" finds
        one with part of the budget.
    center : array of shape (n_channels, n_channels), optional
        The public center of that ball; the identity by default.
    guarantee : Guarantee
        The privacy guarantee of the release.
    ledger : Ledger, optional
        The budget that is charged.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        Replaces the cryptographic random bits in simulations; the release is not private
        then.

    Returns
    -------
    ReleasedValue
        The median as `value`, and why it may be published as `certificate`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> signals = rng.normal(size=(400, 3, 50))
    >>> gmedian(signals @ signals.mT / 50).value.shape
    (3, 3)
    """
    model = PrivateFrechetMedian(
        _space_of_records(X, metric),
        radius=radius,
        center=center,
        guarantee=guarantee,
        ledger=ledger,
        label=label,
        source=source,
    )
    (release,) = model.fit(X, groups=groups).releases
    return release


def _space_of_records(X: Any, metric: str) -> Manifold:
    """Return the space of matrices of this shape and type.

    Parameters
    ----------
    X : array of shape (n, n_channels, n_channels)
        The records.
    metric : str
        pyRiemann's name of the metric.
    """
    shape = _validate.public_shape("X", X)
    if len(shape) != 3 or shape[1] != shape[2]:
        raise ParameterError(
            f"must have shape (n, n_channels, n_channels), not {shape}", parameter="X"
        )
    is_complex = isinstance(X, np.ndarray) and np.iscomplexobj(X)
    return space_of_metric(metric, shape[1], is_complex=is_complex)

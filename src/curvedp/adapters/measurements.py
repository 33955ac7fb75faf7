"""Estimators as measurements of OpenDP, for its compositors and odometers. A
*measurement* is a private function together with its *privacy map*: how the privacy
loss depends on the number of changed records.
"""

from operator import attrgetter
from typing import Any, NamedTuple

from sklearn.base import clone

from curvedp._validate import integer
from curvedp.core.mechanism import check_guarantee
from curvedp.errors import MissingExtra, ParameterError
from curvedp.privacy import GDP, ZCDP, ApproxDP, Guarantee, PureDP, convert


def make_measurement(estimator: Any, n: int, attribute: str = "location_") -> Any:
    """Return an OpenDP measurement that fits an estimator to arrays of n records.

    Its distance is the change-one distance. Gaussian DP has no measure in OpenDP; it is
    stated as ρ-zCDP with ρ = μ²/2, which it implies. The privacy map is the guarantee
    for one changed record, and refuses more: OpenDP is promised nothing that the
    guarantee does not say.

    Parameters
    ----------
    estimator : estimator of this library
        An estimator that is not fitted, such as `PrivateFrechetMean`, with a guarantee
        of kind GDP, ZCDP, PureDP or ApproxDP and without a ledger: OpenDP's compositor
        keeps the account.
    n : int
        The public number of records; arrays of another length are refused.
    attribute : str
        The attribute of the fitted estimator that is released.

    Returns
    -------
    opendp.Measurement
        The measurement.

    Raises
    ------
    ParameterError
        For an estimator with a ledger (it would be charged twice), or for another kind
        of guarantee or adjacency.
    MissingExtra
        If OpenDP is not installed.
    """
    # A change-one distance of 1 is a replaced record, not an added or removed one.
    check_guarantee(estimator.guarantee)
    try:
        import opendp.prelude as dp
    except ImportError as error:
        raise MissingExtra("measurements need OpenDP: pip install opendp") from error
    if estimator.ledger is not None:
        raise ParameterError(
            "a measurement is paid for in OpenDP's composition: "
            "give an estimator without a ledger"
        )
    record_count = integer("n", n, 2)
    loss = _opendp_loss(dp, estimator.guarantee)
    read_released_value = attrgetter(attribute)

    def has_right_length(records: Any) -> bool:
        """Return whether there are as many records as the measurement is for."""
        return len(records) == record_count

    def fit_and_read(records: Any) -> Any:
        """Fit a copy of the estimator to records, and return what it releases."""
        if not has_right_length(records):
            raise ParameterError(
                f"there are {len(records)} records; "
                f"the measurement is for {record_count}"
            )
        fitted_estimator = clone(estimator).fit(records)
        return read_released_value(fitted_estimator)

    def privacy_map(changed_records: int) -> Any:
        """Return the privacy loss if so many records change: at most one may."""
        if changed_records > 1:
            raise ParameterError(
                f"the guarantee is for one record that changes, not {changed_records}"
            )
        return loss.one_change if changed_records else loss.no_change

    domain = dp.user_domain(f"arrays of {record_count} records", has_right_length)
    return dp.m.make_user_measurement(
        domain, dp.change_one_distance(), loss.measure, fit_and_read, privacy_map
    )


class _OpenDPLoss(NamedTuple):
    """A guarantee in the terms of OpenDP."""

    # OpenDP's measure, such as its zero-concentrated divergence.
    measure: Any
    # The loss in that measure when one record changes, and when none does.
    one_change: float | tuple[float, float]
    no_change: float | tuple[float, float]


def _opendp_loss(dp: Any, guarantee: Guarantee) -> _OpenDPLoss:
    """Translate a guarantee into a measure of OpenDP and its losses.

    Parameters
    ----------
    dp : module
        `opendp.prelude`.
    guarantee : Guarantee
        The guarantee of one release.

    Returns
    -------
    _OpenDPLoss
        The measure, and the losses if one record changes and if none does.

    Raises
    ------
    ParameterError
        If OpenDP has no measure for it.
    """
    if isinstance(guarantee, GDP | ZCDP):
        rho = convert(guarantee, to=ZCDP).rho
        return _OpenDPLoss(dp.zero_concentrated_divergence(), rho, 0.0)
    if isinstance(guarantee, PureDP):
        return _OpenDPLoss(dp.max_divergence(), guarantee.eps, 0.0)
    if isinstance(guarantee, ApproxDP):
        measure = dp.approximate(dp.max_divergence())
        one_change = (guarantee.eps, guarantee.delta0)
        return _OpenDPLoss(measure, one_change, (0.0, 0.0))
    raise ParameterError(
        f"{guarantee} has no measure in OpenDP; use GDP, ZCDP, PureDP or ApproxDP"
    )

"""Estimators as measurements of OpenDP, for its compositors and odometers."""

from typing import Any

from sklearn.base import clone

from curvedp._validate import integer
from curvedp.core.mechanism import check_guarantee
from curvedp.errors import MissingExtra, ParameterError
from curvedp.privacy import GDP, ZCDP, ApproxDP, PureDP, convert


def make_measurement(estimator: Any, n: int, attribute: str = "location_") -> Any:
    """A measurement on arrays of n records under change-one distance.

    Gaussian DP has no measure in OpenDP; it is stated as ρ-zCDP, ρ = μ²/2, which it implies. The map is the
    guarantee for one record that changes, and refuses more: OpenDP is told nothing that ours does not say.

    Parameters
    ----------
    estimator : PrivateFrechetMean or another
        Not fitted, asked for GDP, ZCDP, PureDP or ApproxDP, and without a ledger: OpenDP's compositor is the ledger here.
    n : int
        How many records there are, a public number; other arrays are refused by their shape.
    attribute : str
        What of the fitted estimator is released.

    Raises
    ------
    ParameterError
        For an estimator with a ledger (it would be charged for twice), or another guarantee or adjacency.
    MissingExtra
        Without OpenDP.
    """
    check_guarantee(
        estimator.guarantee
    )  # a change-one distance of 1 is twice one of a record that is added or removed
    try:
        import opendp.prelude as dp
    except ImportError as error:
        raise MissingExtra("measurements need OpenDP: pip install opendp") from error
    if estimator.ledger is not None:
        raise ParameterError(
            "a measurement is paid for in OpenDP's composition: give an estimator without a ledger"
        )
    count, (measure, loss, none) = integer("n", n, 2), _measure(dp, estimator.guarantee)

    def function(records: Any) -> Any:
        if len(records) != count:
            raise ParameterError(
                f"there are {len(records)} records; the measurement is for {count}"
            )
        return getattr(clone(estimator).fit(records), attribute)

    def privacy_map(changed: int) -> Any:
        if changed > 1:
            raise ParameterError(
                f"the guarantee is for one record that changes, not {changed}"
            )
        return loss if changed else none

    domain = dp.user_domain(
        f"arrays of {count} records", lambda records: len(records) == count
    )
    return dp.m.make_user_measurement(
        domain, dp.change_one_distance(), measure, function, privacy_map
    )


def _measure(dp: Any, guarantee: Any) -> tuple[Any, Any, Any]:
    """OpenDP's measure, the loss in it, and that of no change."""
    if isinstance(guarantee, GDP | ZCDP):
        return dp.zero_concentrated_divergence(), convert(guarantee, to=ZCDP).rho, 0.0
    if isinstance(guarantee, PureDP):
        return dp.max_divergence(), guarantee.eps, 0.0
    if isinstance(guarantee, ApproxDP):
        return (
            dp.approximate(dp.max_divergence()),
            (guarantee.eps, guarantee.delta0),
            (0.0, 0.0),
        )
    raise ParameterError(
        f"{guarantee} has no measure in OpenDP; ask for GDP, ZCDP, PureDP or ApproxDP"
    )

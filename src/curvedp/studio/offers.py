"""What can be released on the page of the studio: statistics, and comparisons of groups."""

from curvedp.comparing import COMPARISONS
from curvedp.errors import ParameterError
from curvedp.releasing import Offer, all_offers


def page_offers() -> dict[str, Offer]:
    """Return everything that the page offers, by the name that it sends.

    Raises
    ------
    ParameterError
        If another package takes a name that is in the table, or lists something that
        is not an `Offer`.
    """
    return {**all_offers(), **COMPARISONS}


def find_page_offer(name: str) -> Offer:
    """Return the offer of the page with a name, such as "mean" or "compare-groups".

    Parameters
    ----------
    name : str
        The name that the page sent.

    Raises
    ------
    ParameterError
        If the name is unknown.
    """
    offers = page_offers()
    if name not in offers:
        raise ParameterError(
            f"{str(name)[:40]!r} is not a statistic; choose one of {', '.join(offers)}"
        )
    return offers[name]

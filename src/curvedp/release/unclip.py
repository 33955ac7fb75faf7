"""Correct a variance in a private ball for the records that its search left outside.
Records outside are clipped to the ball, so that the released variance is too small.
"""

from typing import NamedTuple

from curvedp.core.certificate import Certificate
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.release.rebuild import final_mechanism_of, mechanism_of
from curvedp.statistics.searched_ball import SearchedVariance
from curvedp.statistics.unclipping import unclipped_variance

# A search leaves about this part of the allowed number of records outside: it stops at
# the first radius at which no more are, and each radius is 1.15 times the next one.
# Measured on the sets of benchmarks/studies/predictions.py.
_SHARE_OF_ALLOWED = 0.8
# Relative tolerance for the radius of the ball that was found.
_ROUNDING = 1e-9


class ClippedVariance(NamedTuple):
    """What is known of the records that a variance in a private ball leaves outside.

    Attributes
    ----------
    share_outside : float or None
        About the share of the records that the search allows outside; None where noisy
        counts decide about it (Laplace noise).
    is_in_smaller_ball : bool
        Whether the variance was taken in a smaller ball than the one that was found,
        because the mean need not be unique or accurate in that. The share outside of it
        is not known.
    estimate : float or None
        An estimate of the variance of all records; None where no share is known.
    """

    share_outside: float | None
    is_in_smaller_ball: bool
    estimate: float | None


def unclipped_variance_of(certificate: Certificate) -> float | None:
    """Estimate the variance of all records from one in a ball that was found privately.

    The released variance is that of the records clipped to the ball. The share that the
    search leaves outside is a public number, and both together determine the variance
    of records whose squared distances have a Gamma distribution
    (docs/theory/private-ball.md, "Variances"). It is an estimate, and no theorem bounds
    its error: how far out the records lie is not known.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.

    Returns
    -------
    float or None
        Post-processing of what was released. None if the release is of another kind,
        if noisy counts decided about the share (Laplace noise), or if the variance was
        taken in a smaller ball than the one that was found.
    """
    clipped = clipped_variance_of(certificate)
    return None if clipped is None else clipped.estimate


def clipped_variance_of(certificate: Certificate) -> ClippedVariance | None:
    """Return what is known of the records outside the ball of a released variance.

    A region for the variance needs it, because distant records were clipped to the
    ball.

    Parameters
    ----------
    certificate : Certificate
        The certificate of a release.

    Returns
    -------
    ClippedVariance or None
        None if the release is no variance in a private ball, or if its certificate does
        not list what was drawn.
    """
    mechanism = mechanism_of(certificate)
    if not isinstance(mechanism, PrivateBallMechanism):
        return None
    if not isinstance(mechanism.statistic, SearchedVariance):
        return None
    integers = certificate.release["integers"]
    if integers is None:
        return None

    ball, _ = mechanism.replay(integers)
    final_ball = final_mechanism_of(certificate).statistic.value_ball
    assert final_ball is not None  # a variance lies between 0 and the squared radius
    squared_radius = 2 * final_ball.radius
    share = mechanism.clipped_share
    if squared_radius < ball.radius**2 * (1 - _ROUNDING):
        return ClippedVariance(share, is_in_smaller_ball=True, estimate=None)
    if share is None:
        return ClippedVariance(None, is_in_smaller_ball=False, estimate=None)
    variance = float(mechanism.reconstruct_value(certificate)[0])
    estimate = unclipped_variance(variance, squared_radius, _SHARE_OF_ALLOWED * share)
    return ClippedVariance(share, is_in_smaller_ball=False, estimate=estimate)

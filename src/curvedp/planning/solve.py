"""Find the number of records, or the radius, at which a predicted error has a wanted
value. Errors are nearly proportional to these numbers or to their inverse, so that the
search starts close to its result.
"""

from collections.abc import Callable
from math import inf, log, sqrt

__all__ = ["solve_for_error"]

# The first step of the search multiplies or divides the argument by this factor.
_FIRST_STEP_FACTOR = 1.1
# The most steps before the search concludes that the error never has the wanted value.
_MAX_STEPS = 40
# The search ends when its two arguments have at most this ratio.
_LARGEST_FINAL_RATIO = 1.01


def solve_for_error(
    error_at: Callable[[float], float],
    first_guess: float,
    target_error: float,
    *,
    increasing: bool,
) -> float:
    """Return the argument x > 0 at which a monotone error function has a wanted value.

    Parameters
    ----------
    error_at : callable
        The error as a function of x, nearly proportional to x or to 1/x. It may be
        infinite.
    first_guess : float
        A first x to try.
    target_error : float
        The error that the solution must not exceed.
    increasing : bool
        Whether the error increases with x.

    Returns
    -------
    float
        An x whose error is at most `target_error`, accurate to about a percent. If the
        error never crosses `target_error`, 0 or infinity, in the direction of the
        search.
    """

    def is_accurate(x: float) -> bool:
        """Return whether the error at x is at most the wanted one.

        Parameters
        ----------
        x : float
            An argument that the search tries.
        """
        return error_at(x) <= target_error

    x = _proportional_guess(error_at, first_guess, target_error, increasing=increasing)
    is_guess_accurate = is_accurate(x)
    # An accurate study can afford a larger x if the error grows with x.
    searches_upward = is_guess_accurate == increasing
    factor = _FIRST_STEP_FACTOR if searches_upward else 1 / _FIRST_STEP_FACTOR
    for _ in range(_MAX_STEPS):
        next_x = x * factor
        if is_accurate(next_x) != is_guess_accurate:
            break
        x = next_x
        # Steps grow, up to a factor of about e².
        if abs(log(factor)) < 1:
            factor = factor**2
    else:
        return inf if searches_upward else 0.0

    if is_guess_accurate:
        return _bisect(is_accurate, accurate=x, inaccurate=next_x)
    return _bisect(is_accurate, accurate=next_x, inaccurate=x)


def _proportional_guess(
    error_at: Callable[[float], float],
    first_guess: float,
    target_error: float,
    *,
    increasing: bool,
) -> float:
    """Return the solution for an error that is exactly proportional to x, or to 1/x.

    Parameters
    ----------
    error_at : callable
        The error as a function of x.
    first_guess : float
        The x whose error is evaluated; returned if that is infinite.
    target_error : float
        The wanted error.
    increasing : bool
        Whether the error is proportional to x; otherwise it is proportional to 1/x.
    """
    error_of_guess = error_at(first_guess)
    if error_of_guess == inf:
        return first_guess
    if increasing:
        return first_guess * (target_error / error_of_guess)
    return first_guess * (error_of_guess / target_error)


def _bisect(
    is_accurate: Callable[[float], bool], accurate: float, inaccurate: float
) -> float:
    """Bisect a bracket on the logarithmic scale until its ends agree to a percent.

    Parameters
    ----------
    is_accurate : callable
        Whether the error at an argument is small enough.
    accurate, inaccurate : float
        The ends of the bracket: an argument with a small enough error, and another one.

    Returns
    -------
    float
        The accurate end of the last bracket.
    """
    while max(accurate, inaccurate) > _LARGEST_FINAL_RATIO * min(accurate, inaccurate):
        middle = sqrt(accurate * inaccurate)
        if is_accurate(middle):
            accurate = middle
        else:
            inaccurate = middle
    return accurate

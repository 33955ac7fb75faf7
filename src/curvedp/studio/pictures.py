"""Two pictures for the page of the studio, as SVG, computed from public numbers alone.
They are redrawn while a slider moves, so they are written by hand and drawn at once.
"""

from collections.abc import Iterable

import numpy as np

from curvedp.privacy import Guarantee

# The rate of false alarms of the attacker whom the page describes in words.
_FALSE_ALARM_RATE = 0.05

# The side of a picture and the margin around its axes, in pixels.
_SIDE = 200
_MARGIN = 24

# The space between the ball and the edge of its picture, and the smallest circle that
# can be seen; in pixels.
_BALL_MARGIN = 4
_SMALLEST_RADIUS = 1.5


def attack_power(guarantee: Guarantee) -> float:
    """Return the power of the best attacker who raises 5% false alarms.

    The attacker sees the release and tests whether a person takes part. The power is the
    probability of finding a person who does: 1 − f(0.05), with f the trade-off function
    of the guarantee, the least rate of misses at a rate of false alarms.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee of the release.

    Returns
    -------
    float
        Between 0.05, which is a guess, and 1.
    """
    false_alarms, misses = _tradeoff_curve(guarantee)
    return 1 - float(np.interp(_FALSE_ALARM_RATE, false_alarms, misses))


def attack_picture(guarantee: Guarantee) -> str:
    """Draw what the best attacker can do: misses against false alarms.

    The dashed diagonal is an attacker who guesses by a coin. The nearer the curve is to
    it, the better is the privacy. A dot marks 5% false alarms.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee of the release.

    Returns
    -------
    str
        An SVG element.
    """
    false_alarms, misses = _tradeoff_curve(guarantee)
    curve = _svg_path(false_alarms, misses)
    coin = _svg_path([0, 1], [1, 0])
    axes = _svg_path([0, 0, 1], [1, 0, 0])

    dot_x = _pixel_x(_FALSE_ALARM_RATE)
    dot_y = _pixel_y(1 - attack_power(guarantee))
    middle = _SIDE / 2
    shapes = [
        f'<path class="area" d="{curve}L{_pixel_x(0)},{_pixel_y(1)}Z"/>',
        f'<path class="guess" d="{coin}"/>',
        f'<path class="curve" d="{curve}"/>',
        f'<circle class="error" cx="{dot_x:.1f}" cy="{dot_y:.1f}" r="4"/>',
        f'<path class="axis" d="{axes}"/>',
        f'<text x="{middle}" y="{_SIDE - 7}" text-anchor="middle">false alarms</text>',
        f'<text x="{-middle}" y="15" text-anchor="middle" '
        'transform="rotate(-90)">misses</text>',
    ]
    return _svg("What an attacker can do: misses against false alarms", shapes)


def _tradeoff_curve(guarantee: Guarantee) -> tuple[np.ndarray, np.ndarray]:
    """Return the least rate of misses at each rate of false alarms.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee of the release.

    Returns
    -------
    false_alarms, misses : arrays of shape (101,)
        Rates from 0 to 1, and the least rate of misses at each.
    """
    false_alarms = np.linspace(0, 1, 101)
    misses = np.clip(np.asarray(guarantee.tradeoff(false_alarms)), 0, 1)
    return false_alarms, misses


def size_picture(ball: float, error: float, region: float | None) -> str:
    """Draw the ball, the 95% region and the predicted error as circles, to scale.

    Parameters
    ----------
    ball, error : float
        The radius of the public ball, and the predicted error of the release; both in
        the unit of distances on the manifold.
    region : float or None
        The radius of the 95% confidence region in that unit; None if there is none.

    Returns
    -------
    str
        An SVG element. Circles that would exceed the ball are drawn as large as it.
    """
    radii = {"ball": ball}
    if region is not None:
        radii["region"] = min(region, ball)
    radii["error"] = min(error, ball)

    middle = _SIDE / 2
    pixels_per_unit = (middle - _BALL_MARGIN) / ball
    circles = []
    for css_class, radius in radii.items():
        pixels = max(_SMALLEST_RADIUS, pixels_per_unit * radius)
        circles.append(
            f'<circle class="{css_class}" cx="{middle}" cy="{middle}" '
            f'r="{pixels:.2f}"/>'
        )
    return _svg("How large the error is, to scale: in the public ball", circles)


def _svg(title: str, shapes: list[str]) -> str:
    """Return a square SVG picture with these shapes; screen readers read its title.

    Parameters
    ----------
    title : str
        A description of the picture.
    shapes : list of str
        SVG elements, from back to front.
    """
    content = "".join(shapes)
    return (
        f'<svg viewBox="0 0 {_SIDE} {_SIDE}" role="img">'
        f"<title>{title}</title>{content}</svg>"
    )


def _pixel_x(rate: float) -> float:
    """Return the horizontal position of a rate between 0 and 1, in pixels.

    Parameters
    ----------
    rate : float
        A rate; 0 is the left end of the axis.
    """
    return _MARGIN + rate * (_SIDE - 2 * _MARGIN)


def _pixel_y(rate: float) -> float:
    """Return the vertical position of a rate between 0 and 1, in pixels from above.

    Parameters
    ----------
    rate : float
        A rate; 0 is the lower end of the axis.
    """
    return _SIDE - _pixel_x(rate)


def _svg_path(x_rates: Iterable[float], y_rates: Iterable[float]) -> str:
    """Return a line through points of the unit square, as the data of an SVG path.

    Parameters
    ----------
    x_rates, y_rates : iterables of float
        The coordinates of the points, between 0 and 1.

    Returns
    -------
    str
        Such as "M24.0,176.0L176.0,24.0".
    """
    positions = [
        f"{_pixel_x(x):.1f},{_pixel_y(y):.1f}"
        for x, y in zip(x_rates, y_rates, strict=True)
    ]
    return "M" + "L".join(positions)

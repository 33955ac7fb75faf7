"""Two pictures that move with the sliders, as SVG: drawn at once, from public numbers alone."""

import numpy as np

from curvedp.privacy import Guarantee

LEVEL = 0.05  # false alarms of the attacker who is described in words
_SIDE, _EDGE = 200, 24


def attacked(guarantee: Guarantee) -> tuple[float, str]:
    """The power of the best possible attacker at `LEVEL`, and their errors beside those of a coin."""
    alpha = np.linspace(0, 1, 101)
    least = np.clip(np.asarray(guarantee.tradeoff(alpha)), 0, 1)
    curve, at = _path(alpha, least), float(np.interp(LEVEL, alpha, least))
    return 1 - at, _svg(
        "What an attacker can do: misses against false alarms",
        f'<path class="area" d="{curve}L{_x(0)},{_y(1)}Z"/><path class="guess" d="{_path([0, 1], [1, 0])}"/>'
        f'<path class="curve" d="{curve}"/><circle class="error" cx="{_x(LEVEL):.1f}" cy="{_y(at):.1f}" r="4"/>'
        f'<path class="axis" d="{_path([0, 0, 1], [1, 0, 0])}"/>'
        f'<text x="{_SIDE / 2}" y="{_SIDE - 7}" text-anchor="middle">false alarms</text>'
        f'<text x="{-_SIDE / 2}" y="15" text-anchor="middle" transform="rotate(-90)">misses</text>',
    )


def size_picture(ball: float, error: float, region: float | None) -> str:
    """The ball, the 95% region and the predicted error, to scale."""
    parts = [
        ("ball", ball),
        *([] if region is None else [("region", min(region, ball))]),
        ("error", min(error, ball)),
    ]
    circles = (
        f'<circle class="{name}" cx="{_SIDE / 2}" cy="{_SIDE / 2}" r="{max(1.5, (_SIDE / 2 - 4) * length / ball):.2f}"/>'
        for name, length in parts
    )
    return _svg(
        "How large the error is, to scale: in the public ball", "".join(circles)
    )


def _svg(title: str, inside: str) -> str:
    return f'<svg viewBox="0 0 {_SIDE} {_SIDE}" role="img"><title>{title}</title>{inside}</svg>'


def _x(share: float) -> float:
    return _EDGE + share * (_SIDE - 2 * _EDGE)


def _y(share: float) -> float:
    return _SIDE - _x(share)


def _path(x: object, y: object) -> str:
    return "M" + "L".join(f"{_x(a):.1f},{_y(b):.1f}" for a, b in zip(x, y, strict=True))  # type: ignore[call-overload]  # arrays of one length

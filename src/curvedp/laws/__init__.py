"""Noise laws with exact samplers, and distribution functions that share no code with them."""

from typing import TYPE_CHECKING

from curvedp import _lazy

if TYPE_CHECKING:
    from curvedp.laws.domains import GeodesicBall, TangentBundleBall
    from curvedp.laws.gaussian import RiemannianGaussian
    from curvedp.laws.heat import HeatKernel
    from curvedp.laws.laplace import RiemannianLaplace

__all__ = [
    "GeodesicBall",
    "HeatKernel",
    "RiemannianGaussian",
    "RiemannianLaplace",
    "TangentBundleBall",
]

__getattr__, __dir__ = _lazy.exports(__name__)

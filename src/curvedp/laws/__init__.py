"""Noise laws with exact samplers, and distribution functions that share no code with them."""

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

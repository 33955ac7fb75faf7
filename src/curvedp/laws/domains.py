"""Former names, for callers that have not been renamed yet."""

from curvedp.laws.knorm.domains import GeodesicBall, TangentBundleBall

__all__ = ["GeodesicBall", "TangentBundleBall"]

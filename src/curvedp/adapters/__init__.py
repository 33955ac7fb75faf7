"""To and from what others use, each in a file of its own that needs that package alone; docs/adapters.md has the recipes.

- `curvedp.adapters.spaces`: spaces of geomstats as ours
- `curvedp.adapters.geoopt`: manifolds of geoopt as ours
- `curvedp.adapters.training.PrivateOptimizer`: clipping and noise around an optimizer of torch or geoopt
- `curvedp.adapters.events.to_dp_event`: guarantees as events of dp-accounting
- `curvedp.adapters.measurements.make_measurement`: estimators as measurements of OpenDP
"""

__all__: list[str] = []

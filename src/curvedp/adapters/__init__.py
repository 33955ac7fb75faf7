"""Adapters to and from other packages; each module needs that package alone.
`docs/howto/integrations.md` has the recipes.

- `curvedp.adapters.spaces`: manifolds of geomstats
- `curvedp.adapters.geoopt`: manifolds of geoopt
- `curvedp.adapters.training.PrivateOptimizer`: clipping and noise around an optimizer
  of torch or geoopt
- `curvedp.adapters.events.to_dp_event`: guarantees as events of dp-accounting
- `curvedp.adapters.measurements.make_measurement`: estimators as measurements of OpenDP
- `curvedp.adapters.sentences.embed_texts`: embeddings of texts by a local encoder
"""

__all__: list[str] = []

"""What four papers describe, as they print it and as it is true, and their experiments.

`papers.gdp`, `papers.opt`, `papers.rao` and `papers.reg` hold the papers' own
algorithms, laws and definitions. The printed version stands beside the corrected one
where the two differ (docs/errata.md). Nothing here is needed to release anything:
what is not private says so in its docstring. `curvedp reproduce` makes the papers'
figures and tables from the module `run` of each.
"""

__all__: list[str] = []

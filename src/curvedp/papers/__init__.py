"""What four papers describe, as they print it and as it is true, and their experiments.
A paper's own algorithms, laws and definitions are here in the printed version, and in a
corrected version if the printed one is wrong (docs/errata.md). No release needs this
package, and functions that are not private say so in their docstrings.

The packages `papers.gdp`, `papers.opt`, `papers.rao` and `papers.reg` are about one
paper each, and `papers.referee` about further published mechanisms. The command
`curvedp reproduce` makes the figures and tables of the papers by the module `run` of
each package.
"""

__all__: list[str] = []

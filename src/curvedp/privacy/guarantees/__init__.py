"""What a release promises: the definitions of privacy and the conversions between them.

`base` is the interface that all definitions share, `definitions` contains the six of
them, and `conversions` converts one to another. `gaussian`, `renyi` and `rao` compute
the formulas.
"""

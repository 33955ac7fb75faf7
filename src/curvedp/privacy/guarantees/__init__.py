"""What a release promises: the definitions of privacy and the conversions between them.

`base` says what every definition can be asked, `definitions` has the six of them, and
`conversions` leads from one to another. `gaussian`, `renyi` and `rao` are the formulas.
"""

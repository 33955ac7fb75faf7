"""The law of the privacy loss L = log p₁/p₂ under p₁, for each kind of space.

`law` is the interface (two tails), `table` turns any law into fast series, and `sum`
adds two independent losses. `space_form`, `projective`, `hyperbolic_limit` and
`line_and_circle` are the laws themselves.
"""

"""Proved lower and upper bounds on δ(ε) and on μ of Gaussian DP, in ball arithmetic.

`delta` and `mu` have the functions that users call. Both start from `noise`, the noise
as balls. `tail_probability` integrates the two tails of the privacy loss; it is made of
`radial_density` and `level_angle`. `hyperbolic_tail` is a theorem about large ε,
`functions` are those that all of them share, and `rounding` leads back to floats.
"""

"""The distribution of the privacy loss, for each noise on each kind of space. The
privacy loss is L = log p₁(Y)/p₂(Y), where p₁ and p₂ are the output densities on two
neighboring data sets and Y is drawn from p₁.

`law` is the interface: the probabilities that L exceeds a level or not. `table` turns
any law into fast series, and `sum` adds two independent losses. `table` is made of
`coordinate`, `tail_table`, `discounted_integral` and `loss_integral`. `space_form`,
`projective`, `hyperbolic_limit` and `line_and_circle` are the laws themselves.
`space_form` uses `law_of_cosines` and `gaussian_mode`. `projective` needs the
probabilities of sets of directions (`direction_set`), which `interval_probability` and
`disc_probability` compute.
"""

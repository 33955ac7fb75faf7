"""Privacy profiles: the smallest δ at every ε, for each noise on each kind of space.
`base` computes δ(ε) and all other privacy parameters from the distribution of the
privacy loss. `mu_equation` and `tradeoff` are parts of this computation, and `radial`
is what profiles of isotropic noise share. `products` searches for the `worst_split`
among profiles of a `split`.

The other modules state that distribution for one kind of space, and for the two
neighboring data sets that are easiest to tell apart.
"""

"""The Fréchet mean: solver, backends that pass over records, and the error bound.
`solver` searches for the mean, and a backend makes the passes over the records that the
search needs. `mean` contains the public function. `ball_mean` computes the mean of
records in a public ball, with the a-priori error of `error_bound`.
docs/theory/frechet-mean.md has the proofs.
"""

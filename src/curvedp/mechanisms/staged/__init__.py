"""Mechanisms in stages: run once to release, replayed to verify.

**The idea.** A staged mechanism is written once, as a function `run(queries,
add_noise)`.

- `queries` answers questions about the records: how many lie beyond a radius, the mean
  of clipped logarithms at a point. Each answer has a public sensitivity.
- `add_noise` makes an answer private.
- What to ask next may depend on everything that was released before, and on nothing
  else.

To *release*, `queries` reads the records and `add_noise` draws exact noise; the drawn
integers are the transcript. To *verify*, `queries` knows no records and answers zeros
of the right shape, and `add_noise` ignores them and returns the recorded numbers: the
same branches are taken, the same noise scales follow, and the same value comes out. So
a certificate needs to hold nothing but the integers, and nobody can state stages that
the integers do not lead to.

**The budget.** Each stage takes a share of a public total of 1 (`StageBudget`). For
Gaussian noise shares of μ² add up (Smith & Thakurta 2022, "Fully adaptive composition
for Gaussian differential privacy"), for Laplace noise shares of ε (Rogers, Roth, Ullman
& Vadhan 2016); a stage that would exceed the total does not exist.
docs/theory/private-ball.md has the proofs.

Modules: `budget` (the budget and the base class), `queries` (what may be asked of
records), `quantile_search` (private quantiles of distances), `ball_search` (a ball
found privately), `median` (the geometric median), `reduced_classifier` (classifiers of
large matrices).
"""

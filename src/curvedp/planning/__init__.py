"""Predict how accurate a private release would be, before any data exist. `plan`
compares the mechanisms that could release a statistic, and returns a `Plan`. Errors are
distances from the release to the true value, predicted from public numbers: the space,
the ball, n and the guarantee.

A `Plan` answers further questions: how many records a wanted error takes, which radius,
or how powerful a two-sample test would be. `make_plan` holds `plan` and `result` holds
`Plan`. Each family of statistics has a module that makes its plans: `public_ball`,
`private_ball`, `own_statistic`, `classifiers`, `clusters` and `synthetic`.
"""

from curvedp.planning.advice import Advice, AdviceKind
from curvedp.planning.make_plan import plan
from curvedp.planning.request import OwnStatistic
from curvedp.planning.result import Plan

__all__ = ["Advice", "AdviceKind", "OwnStatistic", "Plan", "plan"]

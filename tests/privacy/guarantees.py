"""One guarantee of each kind."""

from curvedp.papers.rao.mean_loss import KLDP, MeanConcentratedDP
from curvedp.privacy import GDP, ZCDP, ApproxDP, PureDP, RaoDP, RenyiDP, compose

ALL = [
    PureDP(0.7),
    ApproxDP(1.2, 1e-6),
    ZCDP(0.3),
    RenyiDP(8.0, 0.9),
    GDP(0.8),
    RaoDP(0.6),
    RaoDP(0.6, angle="hellinger"),
    KLDP(0.3),
    MeanConcentratedDP(0.2, 0.7),
    compose(GDP(0.5), PureDP(0.3)),
]
IDS = [repr(g) for g in ALL]

"""What is asked of a release so that a ledger is charged least for one promise."""

import warnings

import numpy as np
import pytest

from curvedp import Ledger, PrivateFrechetMean, ReleaseWarning
from curvedp.geometry import Sphere
from curvedp.privacy import GDP, ZCDP, ApproxDP, PureDP, RenyiDP
from curvedp.release.pay import cheapest_request
from curvedp.studio.desk import Desk
from support.shell import run

GAUSSIAN_BUDGETS = (GDP(5.0), ZCDP(12.0), RenyiDP(2.0, 24.0))
OTHER_BUDGETS = (PureDP(9.0), ApproxDP(9.0, 0.1))
ASKED = [
    ApproxDP(eps, delta, adjacency=adjacency)
    for eps in (0.1, 1.0, 3.0)
    for delta in (1e-9, 1e-6, 1e-3)
    for adjacency in ("replace-one", "add-remove")
]
SPHERE = Sphere(2)
RECORDS = np.asarray(
    SPHERE.from_normal_coordinates(
        SPHERE.origin, 0.2 * np.random.default_rng(0).normal(size=(400, 2))
    )
)


@pytest.fixture
def ledger_of(tmp_path):
    """Return a function that makes a ledger of some budget."""

    def make(budget):
        number = len(list(tmp_path.iterdir()))
        return Ledger(tmp_path / f"{number}.ledger", budget)

    return make


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_it_implies_what_was_asked_and_wastes_nothing(asked, ledger_of):
    for budget in GAUSSIAN_BUDGETS:
        cheapest = cheapest_request(asked, ledger_of(budget))
        assert isinstance(cheapest, GDP)
        assert cheapest.adjacency == asked.adjacency
        assert cheapest.delta(asked.eps) <= asked.delta0
        assert GDP(1.001 * cheapest.mu).delta(asked.eps) > asked.delta0
    for budget in OTHER_BUDGETS:
        assert cheapest_request(asked, ledger_of(budget)) == asked
    assert cheapest_request(asked, None) == asked


@pytest.mark.parametrize("asked", [GDP(0.3), ZCDP(0.1), PureDP(1.0)], ids=str)
def test_other_definitions_stay_as_they_are(asked, ledger_of):
    for budget in (*GAUSSIAN_BUDGETS, *OTHER_BUDGETS):
        assert cheapest_request(asked, ledger_of(budget)) is asked


@pytest.mark.parametrize("radius", [0.7, "private"])
def test_python_is_told_before_it_pays(radius, ledger_of):
    """Without the remark, (1, 10⁻⁶) was charged 27 times the μ² that it needs."""
    asked = ApproxDP(1.0, 1e-6)
    ledger = ledger_of(GDP(5.0))
    dear = PrivateFrechetMean(SPHERE, radius=radius, guarantee=asked, ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReleaseWarning)
        with pytest.raises(ReleaseWarning, match="times as much of μ² as GDP"):
            dear.fit(RECORDS)
    assert ledger.spent is None

    cheap = dear.set_params(guarantee=cheapest_request(asked, ledger)).fit(RECORDS)
    assert ledger.spent.mu < 0.2368
    assert cheap.certificate_.claims.curve  # its points imply (1, 10⁻⁶)
    assert dict(cheap.certificate_.claims.curve)[1.0] <= 1e-6


def test_the_shell_pays_least_and_says_so(tmp_path):
    np.save(tmp_path / "poles.npy", RECORDS)
    command = ["release", str(tmp_path / "poles.npy"), "-m", "sphere:2"]
    command += ["-r", "private", "--epsilon", "1", "--delta", "1e-6"]
    command += ["--ledger", str(tmp_path / "study.ledger"), "--budget-mu", "2"]
    result = run(*command)
    assert result.exit_code == 0, result.output
    assert "is implied by GDP(0.2367" in result.output
    assert Ledger(tmp_path / "study.ledger").spent.mu < 0.2368


def test_the_studio_pays_least(tmp_path):
    np.save(tmp_path / "poles.npy", RECORDS)
    desk = Desk(tmp_path / "out", tmp_path / "poles.npy")
    desk.start_ledger({"kind": "gdp", "mu": 2.0})
    guarantee = {"kind": "approx", "eps": 1.0, "delta": 1e-6}
    study = {"manifold": "sphere:2", "radius": "private", "guarantee": guarantee}
    key = desk.plan({"study": study})["key"]
    desk.release({"study": study, "key": key})
    desk.close()
    assert Ledger(tmp_path / "out" / "study.ledger").spent.mu < 0.2368

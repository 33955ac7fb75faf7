"""What is exported never claims more than ours: against the peers' own accountants."""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from curvedp import GDP, ZCDP, ApproxDP, Ledger, PrivateFrechetMean, PrivateMDM, PureDP
from curvedp.adapters.events import to_dp_event
from curvedp.adapters.measurements import make_measurement
from curvedp.errors import ParameterError
from curvedp.geometry import SPDAffineInvariant, Sphere

pytestmark = pytest.mark.filterwarnings("default")
DELTAS = (1e-3, 1e-5, 1e-7)


def promised(event, accountant):
    dp_accounting = pytest.importorskip("dp_accounting")
    book = accountant(
        neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
    )
    book.compose(event)
    return np.array([book.get_epsilon(delta) for delta in DELTAS])


@pytest.mark.parametrize(
    "guarantee",
    [GDP(0.3), GDP(1.7), PureDP(0.2), PureDP(2.0), ZCDP(0.05), ZCDP(1.0)],
    ids=str,
)
def test_no_accountant_promises_more(guarantee):
    dp_accounting = pytest.importorskip(
        "dp_accounting", reason="dp-accounting is not installed (extra: test)"
    )
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    event, ours = (
        to_dp_event(guarantee),
        np.array([guarantee.epsilon(delta) for delta in DELTAS]),
    )
    assert (promised(event, RdpAccountant) >= ours * (1 - 1e-9)).all()
    if not isinstance(guarantee, ZCDP):  # which its PLD accountant does not know
        assert (promised(event, PLDAccountant) >= ours * (1 - 1e-9)).all()
    if isinstance(
        guarantee, PureDP
    ):  # the export that everybody would write first claims more: the check sees it
        wrong = dp_accounting.LaplaceDpEvent(1 / guarantee.eps)
        half = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
        book = PLDAccountant(neighboring_relation=half)
        book.compose(wrong)
        assert book.get_epsilon(1e-3) < guarantee.epsilon(1e-3) * (1 - 1e-9)


def test_parameters_of_events_are_rounded_toward_less_privacy():
    """In exact arithmetic; 1/0.3 in floats is more than the quotient, and its product with 0.3 is 1."""
    pytest.importorskip(
        "dp_accounting", reason="dp-accounting is not installed (extra: test)"
    )
    for mu in (0.3, 0.7, 1.1, 1.3, 5e-324, 1e300):
        multiplier = to_dp_event(GDP(mu)).noise_multiplier
        assert Fraction(multiplier) * Fraction(mu) <= 1
    for epsilon in (1e-9, 0.2, 2.0, 40.0, 1000.0):
        event = to_dp_event(PureDP(epsilon))
        assert 0 <= event.noise_parameter <= 2 / (1 + arb(epsilon).exp())


def test_what_has_no_event_is_refused():
    pytest.importorskip(
        "dp_accounting", reason="dp-accounting is not installed (extra: test)"
    )
    with pytest.raises(ParameterError, match="no event"):
        to_dp_event(ApproxDP(1.0, 1e-6))


@pytest.mark.parametrize("kind", [GDP, PureDP, ZCDP])
def test_a_guarantee_for_an_added_record_is_not_exported_as_one_for_a_changed_one(kind):
    """μ for adding or removing a record is 2μ for replacing it, which is what both peers are told of."""
    added = kind(1.0, adjacency="add-remove")
    for export in (
        to_dp_event,
        lambda it: make_measurement(
            PrivateFrechetMean(Sphere(2), 0.7, guarantee=it), 60
        ),
    ):
        with pytest.raises(ParameterError, match="adding or removing"):
            export(added)


def directions(n=60):
    return Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.4, (n, 3)))


@pytest.mark.parametrize(
    ("guarantee", "loss"),
    [
        (GDP(0.5), 0.125),
        (PureDP(1.0), 1.0),
        (ApproxDP(1.0, 1e-6), (1.0, 1e-6)),
        (ZCDP(0.1), 0.1),
    ],
)
def test_a_measurement_says_what_the_guarantee_says(guarantee, loss):
    dp = pytest.importorskip(
        "opendp.prelude", reason="OpenDP is not installed; the lane `adapters` has it"
    )
    dp.enable_features("contrib", "honest-but-curious")
    measurement = make_measurement(
        PrivateFrechetMean(Sphere(2), 0.7, guarantee=guarantee), 60
    )
    assert measurement.map(1) == pytest.approx(loss, rel=1e-12)
    assert np.all(np.asarray(measurement.map(1)) >= np.asarray(loss))
    assert np.linalg.norm(measurement(directions())) == pytest.approx(1.0)
    for wrong in (lambda: measurement.map(2), lambda: measurement(directions(30))):
        with pytest.raises(dp.OpenDPException):
            wrong()


def test_a_measurement_is_not_paid_for_twice(tmp_path):
    pytest.importorskip(
        "opendp.prelude", reason="OpenDP is not installed; the lane `adapters` has it"
    )
    ledger = Ledger(tmp_path / "x.ledger", GDP(1.0))
    with pytest.raises(ParameterError, match="without a ledger"):
        make_measurement(PrivateFrechetMean(Sphere(2), 0.7, ledger=ledger), 60)


def test_the_classifier_of_a_pipeline_has_probabilities():
    """Which MOABB's scores ask for."""
    X = np.stack([np.diag([a, 1.0]) for a in np.linspace(0.5, 2.0, 40)])
    shares = (
        PrivateMDM(SPDAffineInvariant(2), radius=2.0)
        .fit(X, np.repeat([0, 1], 20))
        .predict_proba(X)
    )
    assert shares.shape == (40, 2)
    assert shares.sum(axis=1) == pytest.approx(1.0)


def test_a_cross_validation_of_moabb_runs_unchanged(tmp_path, monkeypatch):
    """Its own evaluation, on its own stand-in data set, with our classifier in the pipeline."""
    pytest.importorskip(
        "moabb", reason="MOABB is not installed; the lane `adapters` has it"
    )
    monkeypatch.setenv("MNE_DATA", str(tmp_path))
    from moabb.datasets.fake import FakeDataset
    from moabb.evaluations import WithinSessionEvaluation
    from moabb.paradigms import LeftRightImagery
    from pyriemann.estimation import Covariances
    from sklearn.pipeline import make_pipeline

    data = FakeDataset(
        ["left_hand", "right_hand"], n_subjects=1, n_sessions=1, n_runs=1
    )
    step = PrivateMDM(SPDAffineInvariant(3), radius=2.0, center=np.eye(3))
    pipelines = {"private": make_pipeline(Covariances("oas"), step)}
    evaluation = WithinSessionEvaluation(
        LeftRightImagery(), datasets=[data], overwrite=True, hdf5_path=str(tmp_path)
    )
    results = evaluation.process(pipelines)
    assert len(results) == 1
    assert results["score"].between(0, 1).all()

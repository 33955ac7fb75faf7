"""The choice of a mechanism: what is kept from one data set to the next."""

import dataclasses
from contextlib import suppress

import numpy as np
import pytest

from curvedp import PrivateFrechetMean, plan
from curvedp.errors import CurvedpError
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    SPDAffineInvariant,
    Sphere,
    Torus,
    frechet_mean,
)
from curvedp.mechanisms import GaussianMechanism
from curvedp.privacy import GDP, PureDP
from curvedp.release import choose, predict
from curvedp.release.choose import mechanism_options
from curvedp.release.rebuild import rebuild_mechanism
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.frechet_variance import FrechetVariance
from support.randomness import seeded_source


def test_the_error_of_a_rebuilt_mechanism_is_not_simulated_again(monkeypatch):
    """Every fit asks for it: its certificate is new, and its public numbers are not."""
    M, simulated = SPDAffineInvariant(2), []
    real = predict._simulate_on
    monkeypatch.setattr(
        predict,
        "_simulate_on",
        lambda *arguments: simulated.append(1) or real(*arguments),
    )
    mechanism = GaussianMechanism.calibrate(FrechetMean(M, None, 0.6, 47), GDP(1.0))
    error = predict.predicted_error(mechanism)
    assert len(simulated) == 1

    certificate = mechanism.release(M.origin).certificate
    assert predict.predicted_error(rebuild_mechanism(certificate)) == error
    assert len(simulated) == 1

    # Another number of the noise or of the statistic is another mechanism.
    noisier = dataclasses.replace(mechanism, sigma=2 * mechanism.sigma)
    assert predict.predicted_error(noisier) > 1.5 * error
    assert len(simulated) == 2
    wider = dataclasses.replace(mechanism, statistic=FrechetMean(M, None, 0.7, 47))
    predict.predicted_error(wider)
    assert len(simulated) == 3


def test_a_ranking_is_kept_for_the_same_public_parameters_and_no_others(monkeypatch):
    counted = []
    real = choose.predicted_error
    monkeypatch.setattr(
        choose,
        "predicted_error",
        lambda mechanism: counted.append(1) or real(mechanism),
    )
    center, other = np.array([1.0, 0, 0]), np.array([0.0, 1.0, 0])

    def asked(guarantee=GDP(1.0), c=center, radius=0.31, n=321, in_memory=False):  # noqa: B008 - frozen, so one default serves all calls
        before = len(counted)
        found = choose.choose_mechanism(
            "auto", FrechetMean(Sphere(2), c, radius, n), guarantee, in_memory=in_memory
        )
        return found, len(counted) - before

    first, simulated = asked()
    again, simulated_again = asked(c=center.copy())
    assert simulated > 0
    assert simulated_again == 0
    assert again == first
    kept = again.choice
    # What one caller does to its answer is no matter of the next.
    expected = dict(kept.predicted_errors), dict(kept.excluded)
    kept.predicted_errors.clear()
    kept.excluded.clear()
    later = asked()[0].choice
    assert (later.predicted_errors, later.excluded) == expected
    assert all(expected)
    changed = [
        {"guarantee": PureDP(1.0)},
        {"c": other},
        {"radius": 0.32},
        {"n": 322},
        {"in_memory": True},
    ]
    assert all(asked(**change)[1] > 0 for change in changed)
    with pytest.raises(Exception, match="n="):
        asked(n=0)


@pytest.mark.parametrize(
    "M",
    [Sphere(2), Lorentz(2), SPDAffineInvariant(2), Torus(1), Euclidean(3)],
    ids=repr,
)
def test_the_error_of_every_mechanism_that_can_be_named_is_predicted(M):
    X = np.asarray(
        M.from_normal_coordinates(
            M.origin, 0.1 * np.random.default_rng(0).standard_normal((200, M.dim))
        )
    )
    truth, tried = frechet_mean(M, X), 0
    for name in mechanism_options(FrechetMean(M, M.origin, 0.6, 200)):
        for guarantee in (GDP(1.0), PureDP(1.0)):
            options = {"radius": 0.6, "guarantee": guarantee, "mechanism": name}
            try:
                fits = [
                    PrivateFrechetMean(M, source=seeded_source(seed), **options).fit(X)
                    for seed in range(5)
                ]
            except CurvedpError:
                with pytest.raises(CurvedpError):
                    _ = plan(M, n=200, **options).error
                continue
            found = np.mean([M.dist(truth, fitted.location_) for fitted in fits])
            planned = plan(M, n=200, **options).error
            # After a step on positive curvature the released mean square distance is
            # known, and the error is predicted again with it.
            is_known_better = name == "gradient" and M.curvature_bounds[1] > 0
            tolerance = 0.1 if is_known_better else 0.0
            assert fits[0].predicted_error_ == pytest.approx(planned, rel=tolerance)
            assert 0.3 < fits[0].predicted_error_ / found < 3, (name, guarantee)
            tried += 1
    assert tried > 5


@pytest.mark.parametrize("guarantee", [GDP(1e12), PureDP(1e12), GDP(1e-12)], ids=str)
def test_a_guarantee_of_any_size_is_chosen_for_or_refused(guarantee):
    """Where doubles do not tell the noise from none, the least predicted error is 0."""
    with suppress(CurvedpError):
        assert choose.choose_mechanism(
            "auto", FrechetVariance(Euclidean(1), None, 0.7, 50), guarantee
        ).choice.predicted_errors

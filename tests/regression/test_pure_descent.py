"""Pure ε where no K-norm draw is possible: descent with Laplace noise, on any symmetric space and for any predictors."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from curvedp import PrivateGeodesicRegression, PureDP
from curvedp.core.certificate import seal
from curvedp.errors import CurvedpError, VerificationFailed
from curvedp.geometry import Euclidean, Rotations, SPDAffineInvariant, Sphere
from curvedp.mechanisms import Certificate, vector
from curvedp.release.verify import verify_certificate
from support.randomness import seeded_source


@pytest.mark.parametrize(
    ("M", "predictors"),
    [(SPDAffineInvariant(2), 1), (Sphere(5), 1), (Rotations(3), 2), (Euclidean(1), 3)],
    ids=str,
)
def test_fits_come_near_and_certificates_hold(M, predictors):
    rng = np.random.default_rng(1)
    x = rng.random((4000, predictors))
    slopes = rng.standard_normal((predictors, M.dim))
    z = (x - 0.5) @ (0.4 * slopes / np.linalg.norm(slopes, axis=1, keepdims=True))
    clean = M.exp(M.origin, M.from_coordinates(M.origin, z))
    Y = M.exp(
        clean, M.from_coordinates(clean, 0.03 * rng.standard_normal((4000, M.dim)))
    )
    model = PrivateGeodesicRegression(
        M,
        radius=0.3,
        speed=0.5,
        clip=0.3,
        guarantee=PureDP(4.0),
        method="dp-rgd",
        source=seeded_source(2),
        x_range=(0, 1),
    ).fit(x, Y)
    assert np.mean(M.dist(model.predict(x), clean)) < 0.03
    certificate = Certificate.from_json(model.certificate_.to_json())
    assert certificate.claims.pure == pytest.approx(4.0, rel=1e-12)
    # A seeded source is never confirmed; every other claim is.
    assert all(
        check.holds or "entropy" in check.claim
        for check in verify_certificate(certificate)
    )
    smaller = {
        **certificate.parameters,
        "scale": 0.99 * certificate.parameters["scale"],
    }
    cheat = seal(replace(certificate, parameters=smaller))
    assert any(
        check.holds is False and "pure" in check.claim
        for check in verify_certificate(cheat)
    )


@pytest.mark.parametrize(
    "change",
    [{"clip": -1.0}, {"clip": 0.0}, {"n": -1}, {"n": 55.0}, {"n": None}, {"speed": -1.0}, {"radius": "wide"},
     {"x_range": [1.0]}, {"x_range": []}, {"x_range": [[1.0, 0.0]]}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize(
    "M", [Sphere(2), Sphere(3)], ids=str
)  # one K-norm draw, and descent
def test_certificates_that_are_no_regression_are_not_confirmed(M, change):
    """A negative clip, or a negative n, has a negative sensitivity, which any stated one exceeds."""
    x, Y = np.linspace(0, 1, 50), np.broadcast_to(M.origin, (50, *M.point_shape))
    model = PrivateGeodesicRegression(
        M, radius=0.3, speed=0.3, clip=0.2, guarantee=PureDP(1.0), x_range=(0, 1)
    ).fit(x, Y)
    assert model.method_ == ("kng" if M.dim == 2 else "dp-rgd")
    altered = {**model.certificate_.statistic, **change}
    cheat = seal(replace(model.certificate_, statistic=altered))
    with pytest.raises(VerificationFailed, match=next(iter(change))):
        verify_certificate(cheat)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("parameters", {"steps": 9.9}),
        ("parameters", {"steps": True}),
        ("parameters", {"scale": -1.0}),
        ("statistic", {"n": 10**6}),
        ("entropy", {"cryptographic": "yes"}),
    ],
    ids=str,
)
def test_tampered_certificates_are_not_confirmed(part, change):
    x = np.linspace(0, 1, 50)
    model = PrivateGeodesicRegression(
        Euclidean(1),
        radius=0.3,
        speed=0.5,
        clip=0.3,
        guarantee=PureDP(4.0),
        method="dp-rgd",
        x_range=(0, 1),
    )
    honest = model.fit(x, x[:, None]).certificate_
    assert all(check.holds for check in verify_certificate(honest))
    if part == "entropy":
        entropy = {**honest.provenance.entropy, **change}
        provenance = replace(honest.provenance, entropy=entropy)
        tampered = seal(replace(honest, provenance=provenance))
    else:
        tampered = seal(replace(honest, **{part: {**getattr(honest, part), **change}}))
    assert not all(check.holds for check in _verified(tampered))


def _verified(certificate):
    try:
        return verify_certificate(certificate)
    except CurvedpError:
        return [SimpleNamespace(holds=False)]


def test_the_loss_along_a_path_is_at_most_epsilon_and_attained(monkeypatch):
    """Densities of one path differ by exp(Σ‖value − value'‖/scale) at most: lead both data sets along it, and add up."""
    M, eps, path = (
        Euclidean(2),
        0.7,
        np.random.default_rng(3).normal(0, 0.005, (100, 8)),
    )
    asked = []

    def scripted(space, scale, value, **_):
        asked.append((scale, value))
        drawn = path[len(asked) % 100, : value.size]
        return SimpleNamespace(
            tau=0.0, integers=np.round(drawn * 2**30).astype(np.int64).astype(object)
        )

    monkeypatch.setattr(vector, "exact_laplace", scripted)
    model = PrivateGeodesicRegression(
        M,
        radius=0.3,
        speed=0.5,
        clip=0.3,
        guarantee=PureDP(eps),
        method="dp-rgd",
        x_range=(0, 1),
    )
    x, Y = np.full(6, 0.5), np.zeros((6, 2))
    runs = []
    for side in (5.0, -5.0):
        asked.clear()
        model.fit(x, np.vstack([[[side, 0.0]], Y[1:]]))
        runs.append(list(asked))
    losses = [
        np.linalg.norm(a - b) / scale for (scale, a), (_, b) in zip(*runs, strict=True)
    ]
    assert sum(losses) <= eps
    assert (
        sum(losses[:-1]) > 0.99 * eps / 2
    )  # opposite records far away: the sensitivity is attained at every step
    assert sum(losses) > 0.95 * eps  # in the last release they have aaᵀ in common

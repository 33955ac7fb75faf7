"""Every estimator under every kind of guarantee: a release that verifies, or one line before anything is spent."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from curvedp import (
    GDP,
    Ledger,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateFrechetMedian,
    PrivateGeodesicRegression,
    PrivateKMeans,
    PrivateMDM,
    PrivatePCA,
    PrivateSoftmax,
    PrivateSynthesizer,
    PrivateTangentPCA,
    privacy,
)
from curvedp.errors import CurvedpError, ReleaseWarning
from curvedp.geometry import SPDAffineInvariant, Sphere
from curvedp.papers.rao.mean_loss import KLDP, MeanConcentratedDP
from curvedp.privacy import (
    ZCDP,
    ApproxDP,
    Composition,
    Guarantee,
    PrivacyProfile,
    PureDP,
    RaoDP,
    RenyiDP,
    compose,
    gaussian_profile,
)
from curvedp.release.verify import verify_certificate

S2, SPD, N = Sphere(2), SPDAffineInvariant(3), 200
GUARANTEES = [
    PureDP(1.0),
    ApproxDP(1.0, 1e-6),
    ZCDP(0.5),
    RenyiDP(4.0, 1.0),
    GDP(1.0),
    RaoDP(0.8),
    KLDP(0.5),
    MeanConcentratedDP(0.5, 3.0),
]
rng = np.random.default_rng(0)
X = np.asarray(S2.from_normal_coordinates(S2.origin, 0.2 * rng.normal(size=(N, 2))))
A = np.asarray(SPD.from_normal_coordinates(SPD.origin, 0.2 * rng.normal(size=(N, 6))))
labels, x, vectors = np.arange(N) % 2, np.linspace(0, 1, N), rng.normal(size=(N, 3))
MAKERS = {
    "mean": (lambda g: PrivateFrechetMean(S2, radius=0.7, **g), (X,)),
    "mean by a step": (
        lambda g: PrivateFrechetMean(S2, radius=0.7, mechanism="gradient", **g),
        (X,),
    ),
    "mean in a private ball": (
        lambda g: PrivateFrechetMean(SPD, radius="private", **g),
        (A,),
    ),
    "variance": (lambda g: PrivateDispersion(S2, radius=0.7, **g), (X,)),
    "variance in a private ball": (
        lambda g: PrivateDispersion(S2, radius="private", **g),
        (X,),
    ),
    "classes": (lambda g: PrivateMDM(S2, radius=0.7, **g), (X, labels)),
    "classes in private balls": (
        lambda g: PrivateMDM(S2, radius="private", ball="each", **g),
        (X, labels),
    ),
    "classes in one private ball": (
        lambda g: PrivateMDM(S2, radius="private", ball="shared", **g),
        (X, labels),
    ),
    "line": (
        lambda g: PrivateGeodesicRegression(
            S2, radius=0.5, speed=0.5, clip=0.2, x_range=(0, 1), **g
        ),
        (x, X),
    ),
    "line in a private ball": (
        lambda g: PrivateGeodesicRegression(S2, radius="private", x_range=(0, 1), **g),
        (x, X),
    ),
    "median": (lambda g: PrivateFrechetMedian(S2, radius=1.5, **g), (X,)),
    "tangent PCA": (lambda g: PrivateTangentPCA(S2, radius=0.7, **g), (X,)),
    "tangent PCA in a private ball": (
        lambda g: PrivateTangentPCA(S2, radius="private", **g),
        (X,),
    ),
    "clusters": (lambda g: PrivateKMeans(S2, 2, **g), (X,)),
    "synthetic records": (
        lambda g: PrivateSynthesizer(S2, "tree", 0.7, **g),
        (X,),
    ),
    "components": (lambda g: PrivatePCA(1, radius=2.0, **g), (vectors,)),
    "components by descent": (
        lambda g: PrivatePCA(1, radius=2.0, method="dp-rgd", **g),
        (vectors,),
    ),
    "reduced classes": (lambda g: PrivateMDM(SPD, reduce=2, **g), (A, labels)),
    "softmax": (lambda g: PrivateSoftmax(SPD, reduce=2, **g), (A, labels)),
}
ADDING = [
    "clusters",
    "tangent PCA",
    "mean",
    "variance",
    "classes",
    "components",
]  # with n private
GAUSSIAN_ONLY = {"clusters", "components by descent", "reduced classes", "softmax"}


def test_every_kind_of_guarantee_is_here():
    kinds = {
        kind
        for kind in vars(privacy).values()
        if isinstance(kind, type) and issubclass(kind, Guarantee)
    }
    computed = {
        kind for kind in kinds if issubclass(kind, PrivacyProfile | Composition)
    }  # of mechanisms, not asked for
    assert kinds - computed - {Guarantee} <= {
        type(guarantee) for guarantee in GUARANTEES
    }


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_computed_of_mechanisms_is_not_asked_for(name, tmp_path):
    make, data = MAKERS[name]
    ledger = Ledger(tmp_path / "a.ledger", GDP(1.0))
    for computed in (
        compose(GDP(0.5), PureDP(0.2)),
        gaussian_profile(0.0, 1, 1.0, 1.0),
        "GDP(1.0)",
        1.0,
        None,
    ):
        with pytest.raises(CurvedpError) as refusal:
            make({"guarantee": computed, "ledger": ledger}).fit(*data)
        assert "\n" not in str(refusal.value)
    assert not ledger.entries


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=lambda g: type(g).__name__)
@pytest.mark.parametrize("name", MAKERS)
def test_it_is_released_or_refused_in_one_line(name, guarantee, tmp_path):
    make, data = MAKERS[name]
    ledger = Ledger(tmp_path / "a.ledger", guarantee)
    model = make({"guarantee": guarantee, "ledger": ledger})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReleaseWarning)
        if name in GAUSSIAN_ONLY and isinstance(guarantee, PureDP | MeanConcentratedDP):
            with pytest.raises(CurvedpError, match="Gaussian") as refusal:
                model.fit(*data)
            assert "\n" not in str(refusal.value)
            assert not ledger.entries
            return
        model.fit(*data)
    assert len(ledger.entries) == 1
    assert ledger.spent == guarantee
    for certificate in getattr(model, "certificates_", None) or [model.certificate_]:
        checks = verify_certificate(certificate)
        assert certificate.guarantee == guarantee
        assert not [check for check in checks if check.holds is False]


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=lambda g: type(g).__name__)
@pytest.mark.parametrize("name", ADDING)
def test_the_number_of_records_may_be_private(name, guarantee):
    make, data = MAKERS[name]
    asked = replace(guarantee, adjacency="add-remove")
    if name in GAUSSIAN_ONLY and isinstance(guarantee, PureDP | MeanConcentratedDP):
        with pytest.raises(CurvedpError, match="Gaussian"):
            make({"guarantee": asked}).fit(*data)
        return
    model = make({"guarantee": asked}).fit(*data)
    for certificate in getattr(model, "certificates_", None) or [model.certificate_]:
        assert certificate.guarantee == asked
        assert not [
            check for check in verify_certificate(certificate) if check.holds is False
        ]


@pytest.mark.parametrize("name", sorted(set(MAKERS) - set(ADDING)))
def test_what_counts_records_says_so(name, tmp_path):
    make, data = MAKERS[name]
    ledger = Ledger(tmp_path / "a.ledger", PureDP(1.0, adjacency="add-remove"))
    with pytest.raises(CurvedpError) as refusal:
        make({"guarantee": PureDP(1.0, adjacency="add-remove"), "ledger": ledger}).fit(
            *data
        )
    assert "\n" not in str(refusal.value)
    assert not ledger.entries

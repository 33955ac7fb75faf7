"""A ball that nobody knew, found over sites: values, losses, certificates, and what is refused."""

from math import sqrt

import numpy as np
import pytest

from curvedp.errors import FederationRefused, ParameterError
from curvedp.federated import (
    ClassMeansKernel,
    DispersionKernel,
    MeanKernel,
    MomentKernel,
    Site,
    coordinate,
    in_process,
)
from curvedp.federated import questions as asked
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    Product,
    Rotations,
    SPDAffineInvariant,
    Sphere,
    frechet_mean,
)
from curvedp.geometry.capabilities import EmbeddedMean
from curvedp.ledger import Ledger
from curvedp.privacy import GDP
from curvedp.release.rebuild import rebuild_mechanism
from curvedp.release.verify import verify_certificate
from federated.runs import sites_of, study

FAR = Product(Euclidean(2), SPDAffineInvariant(2))
PLACES = [
    (SPDAffineInvariant(3), 1e-8 * np.diag([1.0, 2.0, 0.5])),
    (Sphere(2), np.array([0.0, -1.0, 0.0])),
    (Rotations(3), np.diag([1.0, -1.0, -1.0])),
    (Lorentz(2), np.array([np.cosh(4.0), np.sinh(4.0), 0.0])),
    (Euclidean(3), np.array([1000.0, -200.0, 30.0])),
    (FAR, FAR.join([np.array([50.0, 0.0]), 1e6 * np.eye(2)])),
]


def around(M, point, n, sites=3, spread=0.2, seed=0):
    z = spread * np.random.default_rng(seed).standard_normal((sites * n, M.dim))
    return list(
        np.split(np.asarray(M.from_normal_coordinates(np.asarray(point), z)), sites)
    )


def run(kernel, records, lost=lambda stage, i: False, **options):
    plan, people, _ = study(len(records), kernel=kernel, records=records, **options)
    return plan, coordinate(plan, in_process(sites_of(plan, people, records), lost))


@pytest.mark.parametrize(("M", "point"), PLACES, ids=lambda v: repr(v)[:24])
def test_records_far_from_the_public_center_are_found(M, point):
    records = around(M, point, 400)
    plan, release = run(
        MeanKernel(M, "private"),
        records,
        dropouts=1,
        lost=lambda stage, i: stage == "mask" and i == 2,
    )
    assert plan.rounds == (4 if isinstance(M, EmbeddedMean) else 6)
    kept = np.concatenate(records[:2])
    # a curator's noise with a ball of four standard deviations, six times
    assert M.dist(frechet_mean(M, kept), release.value) < 6 * sqrt(
        M.dim
    ) * 2 * 4 * 0.2 * sqrt(M.dim) / len(kept)
    assert len(release.signatures) == 2
    assert [
        check
        for check in verify_certificate(release.certificate)
        if check.holds is False
    ] == []
    again = rebuild_mechanism(release.certificate).reconstruct_value(
        release.certificate
    )
    assert np.allclose(again, release.value)


def test_losses_between_rounds_and_too_many_of_them():
    records, when = around(Euclidean(2), [5.0, 1.0], 100, sites=5), []

    def lost(stage, i):
        when.append(stage)
        return i < 2 and when.count("unmask") > 5 * (
            2 + i
        )  # site 0 in the third round, site 1 in the fourth

    _, release = run(
        MeanKernel(Euclidean(2), "private"), records, dropouts=2, lost=lost
    )
    assert len(release.rounds[0].surviving_sites) == 5
    assert len(release.rounds[-1].surviving_sites) == 3
    with pytest.raises(FederationRefused, match="are needed"):
        run(
            MeanKernel(Euclidean(2), "private"),
            records,
            dropouts=2,
            lost=lambda stage, i: stage == "unmask" and i < 3,
        )


def test_the_other_kernels():
    M = Lorentz(2)
    one, two = (
        around(M, np.array([np.cosh(2.0), np.sinh(2.0), 0.0]), 150),
        around(M, M.origin, 150, seed=1),
    )
    records, labels = (
        [np.concatenate(pair) for pair in zip(one, two, strict=True)],
        np.repeat([0, 1], 150),
    )
    kernel = ClassMeansKernel(M, "private", count=2)
    plan, people, _ = study(
        3,
        kernel=kernel,
        records=records,
        counts=[[150, 150]] * 3,
        guarantee=GDP(20.0),
        dropouts=0,
    )
    sites = {
        i: Site(plan, person, x, labels)
        for i, (person, x) in enumerate(zip(people, records, strict=True))
    }
    value = coordinate(plan, in_process(sites)).value
    truth = np.array([frechet_mean(M, np.concatenate(part)) for part in (one, two)])
    assert np.asarray(M.dist(truth, value)).max() < 0.02

    for M in (SPDAffineInvariant(2), Euclidean(2)):
        X = around(M, M.origin, 300)
        exact = np.mean(
            np.square(M.dist(frechet_mean(M, np.concatenate(X)), np.concatenate(X)))
        )
        value = run(DispersionKernel(M, "private"), X, guarantee=GDP(20.0), dropouts=0)[
            1
        ].value
        assert abs(value[0] / exact - 1) < 0.1

    rows = [
        np.random.default_rng(i).normal(size=(300, 3)) * [200.0, 100.0, 30.0]
        for i in range(3)
    ]
    value = run(
        MomentKernel(Euclidean(3), "private"), rows, guarantee=GDP(5.0), dropouts=0
    )[1].value
    assert abs(value[0, 0]) > 0.98


def test_a_site_pays_once_for_all_rounds(tmp_path):
    records = around(Sphere(2), [0.0, 0.0, 1.0], 60)
    plan, people, _ = study(
        3, kernel=MeanKernel(Sphere(2), "private"), records=records, dropouts=0
    )
    book = Ledger(tmp_path / "l", GDP(1.5))
    sites = sites_of(plan, people, records)
    sites[0] = Site(plan, people[0], records[0], ledger=book)
    coordinate(plan, in_process(sites))
    assert [entry.guarantee for entry in book.entries] == [GDP(1.0)]


def test_the_root_of_prefix_sums():
    """B·B are all prefix sums; no two bins differ by more than is charged; counts are off by what the search allows for."""
    size = len(asked._ROOT_MATRIX)
    assert np.allclose(
        asked._ROOT_MATRIX @ asked._ROOT_MATRIX, np.tril(np.ones((size, size)))
    )
    gaps = [np.linalg.norm(a - b) for a in asked._BIN_ROWS for b in asked._BIN_ROWS]
    assert max(gaps) == pytest.approx(asked._BIN_ROW_DIAMETER, rel=1e-12)
    assert asked._BIN_ROW_DIAMETER * np.linalg.norm(asked._ROOT_COEFFICIENTS) < 3.42
    assert max(gaps) > 1.4 * np.linalg.norm([1.0, 0.0]), (
        "charging a histogram's √2 would be too little"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: MeanKernel(Sphere(2), "found"),
        lambda: MeanKernel(Sphere(2), 0.5, outer_radius=2.0),
        lambda: MeanKernel(Sphere(2), "private", outer_radius=-1.0),
        lambda: MeanKernel(Sphere(2), "private", outer_radius=float("nan")),
        lambda: study(3, kernel=MeanKernel(Sphere(2), "private"), rounds=3, n=200),
        lambda: study(3, kernel=MeanKernel(Sphere(2), "private"), n=10),
        lambda: study(3, kernel=MomentKernel(Euclidean(2), 1.0), rounds=2),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_line(wrong):
    with pytest.raises(ParameterError) as caught:
        wrong()
    assert "\n" not in str(caught.value)

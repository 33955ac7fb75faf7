"""A plan's numbers against brute force, and what it refuses."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.federated import (
    ClassMeansKernel,
    DispersionKernel,
    MeanKernel,
    MomentKernel,
    Plan,
)
from curvedp.federated.clusters import ClustersKernel
from curvedp.federated.kernels import Kernel, kernel_from_dict
from curvedp.federated.noise import SMOOTHING
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    Product,
    Rotations,
    SPDAffineInvariant,
    Sphere,
    frechet_mean,
)
from curvedp.privacy import GDP, ApproxDP, PureDP
from federated.masked_run import identities, keys
from federated.runs import SPD, study

KERNELS = [
    MeanKernel(SPD, 1.3),
    MeanKernel(Sphere(2), 0.9),
    MeanKernel(Lorentz(3), 4.0),
    MeanKernel(Rotations(3), 1.0),
    ClassMeansKernel(Sphere(2), 0.7, count=3),
    DispersionKernel(SPD, 1.3),
    MomentKernel(Euclidean(4), 2.0),
    MeanKernel(SPD, "private"),
    MeanKernel(Product(Sphere(2), SPD, Euclidean(1)), "private"),
    ClassMeansKernel(Lorentz(2), "private", count=2),
    DispersionKernel(Rotations(3), "private", outer_radius=2.0),
    MomentKernel(Euclidean(3), "private"),
]


def test_every_kernel_is_tested():
    tested_here = {type(kernel) for kernel in KERNELS}
    # Clusters, whose questions follow from the sums, have a file of their own.
    assert tested_here | {ClustersKernel} == set(Kernel.registry.values())


def hostile(M, rng):
    """Records as bad as can be: far out, not finite, not on the manifold, and a few good ones."""
    good = np.asarray(M.project(rng.standard_normal((40, *M.point_shape)) * 3))
    bad = np.stack(
        [
            np.full(M.point_shape, v)
            for v in (np.nan, np.inf, 1e300, -1e300, 0.0, 1e-300)
        ]
    )
    return np.concatenate(
        [
            good,
            bad,
            np.asarray(M.project(1e6 * rng.standard_normal((6, *M.point_shape)))),
        ]
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.name}-{k.manifold!r}")
def test_no_record_moves_a_sum_by_more_than_the_sensitivity(kernel):
    """Whole numbers, compared exactly, at the points a run visits and at points a hostile server would choose."""
    rng = np.random.default_rng(11)
    plan, _, _ = study(3, kernel=kernel, dropouts=0, records=[np.zeros((0, *kernel.manifold.point_shape))] * 3,
                       counts=[[100] * kernel.n_classes] * 3)  # fmt: skip
    X, most = hostile(kernel.manifold, rng), []
    for r, question in enumerate(plan.questions):
        start = kernel.initial_state_rows()
        places = [start]
        for radius in (1e-3, 1.0, 50.0):
            elsewhere = np.asarray(
                kernel.manifold.project(
                    2 * rng.standard_normal(kernel.manifold.point_shape)
                )
            ).ravel()
            places.append(
                np.tile(
                    [*elsewhere, *elsewhere, radius, radius, 1.0], (kernel.n_classes, 1)
                )
            )
        changes = []
        for at in places:
            labels = range(kernel.n_classes)
            terms = [kernel.bounded_rows(question, at, X, label) for label in labels]
            rows = np.round(np.concatenate(terms) * 2.0 ** plan.exponents[r])
            exact = [
                np.round(part * 2.0 ** plan.exponents[r]).sum(axis=0) for part in terms
            ]
            assert (
                np.concatenate(exact)
                == sum(plan.rounded_sum(r, at, X, label) for label in labels)
            ).all()
            # floats see distances to 2^-50 of them; the bound allows 2^-40 for the terms' own
            changes.append(
                max(float(np.linalg.norm(rows - row, axis=1).max()) for row in rows)
            )
        assert max(changes) <= plan.sensitivity_of(r)
        most.append(max(changes) / plan.sensitivity_of(r))
    assert min(most) > 0.5, "the bound is not idle"


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.name}-{k.manifold!r}")
def test_rounds_add_up_to_the_guarantee(kernel):
    plan, _, _ = study(5, kernel=kernel, dropouts=2, records=[np.zeros((0, *kernel.manifold.point_shape))] * 5,
                       counts=[[100] * kernel.n_classes] * 5, guarantee=GDP(0.8))  # fmt: skip
    spent = sum(
        Fraction(plan.sensitivity_of(r)) ** 2 / (plan.noise_variance(r) - SMOOTHING)
        for r in range(plan.rounds)
    )
    assert spent <= Fraction(0.8) ** 2
    assert spent > Fraction(0.8) ** 2 * Fraction(999, 1000)
    assert plan.profile.mu <= 0.8
    assert plan.tau < 2.0**-190


def test_other_guarantees_are_met():
    for guarantee in (ApproxDP(1.0, 1e-6), GDP(0.3)):
        plan, _, _ = study(guarantee=guarantee)
        assert all(
            plan.profile.delta(eps) <= guarantee.delta(eps) * (1 + 1e-9)
            for eps in (1.0, 2.0)
        )
    with pytest.raises(UnattainableGuarantee):
        study(guarantee=PureDP(1.0))


def test_sums_with_their_noise_stay_in_the_ring():
    for n, mu in ((2, 0.01), (10**9, 1.0), (10**6, 1e-4)):
        plan, _, _ = study(
            4, records=[np.zeros((0, 2, 2))] * 4, counts=[n] * 4, guarantee=GDP(mu)
        )
        for r in range(plan.rounds):
            largest = 4 * n * 2.0 ** plan.exponents[r] + 40 * sqrt(
                4 * sum(plan.noise_layers(r))
            )
            assert largest < 2.0**63


def test_a_plan_reads_back_and_its_name_covers_every_term():
    plan, _, _ = study(5, dropouts=2)
    again = Plan.from_dict(plan.to_dict())
    assert again.id == plan.id
    assert again.session == plan.session
    for name, value in {
        "dropouts": 1, "collusion": 1, "rounds": 2, "hours": 1.0, "software": "0", "counts": [[31]] * 5,
        "created": "2020-01-01T00:00:00+00:00", "guarantee": GDP(0.9).to_dict(),
        "kernel": MeanKernel(SPD, 1.1).to_dict(),
    }.items():  # fmt: skip
        fields = {**plan.to_dict(), name: value}
        try:
            other = Plan.from_dict(fields)
        except ParameterError:
            continue  # the exponents no longer fit
        assert other.id != plan.id, name
        assert name in plan.differences(other.to_dict())
        assert other.session.id != plan.session.id


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": None},
        {"kernel": {"name": "none"}},
        {"kernel": {**MeanKernel(SPD, 1.0).to_dict(), "radius": float("nan")}},
        {
            "kernel": {
                **MeanKernel(SPD, 1.0).to_dict(),
                "center": [[1.0, 2.0], [2.0, 1.0]],
            }
        },
        {"sites": []},
        {"sites": list(keys(identities(2))) * 2},
        {"counts": [30] * 3},
        {"counts": [[30, 1]] * 4},
        {"counts": ["30"] * 4},
        {"counts": [-1] * 4},
        {"counts": [30.5] * 4},
        {"dropouts": 2},
        {"dropouts": -1},
        {"collusion": 3},
        {"rounds": 0},
        {"rounds": 7},
        {"created": "yesterday"},
        {"created": "2026-01-01T00:00:00"},
        {"created": "0001-01-01T00:00:00+00:00"},
        {"created": "9999-12-31T23:59:59+00:00"},
        {"hours": 0},
        {"hours": 1e300},
        {"exponents": [1, 2, 3]},
        {"guarantee": {**GDP(1.0).to_dict(), "adjacency": "add-remove"}},
        {"extra": 1},
    ],
    ids=str,
)
def test_unusable_terms_are_refused(change):
    plan, _, _ = study(4)
    with pytest.raises(ParameterError):
        Plan.from_dict({**plan.to_dict(), **change})


def test_numbers_of_numpy_are_numbers():
    people, kernel = identities(5), ClassMeansKernel(Sphere(2), 0.7, count=2)
    made = [
        Plan(
            kernel,
            keys(people),
            counts,
            GDP(1.0),
            created="2026-01-01T00:00:00+00:00",
            **{name: of(one)},
        )
        for counts in (
            [[10, 20]] * 5,
            np.tile([10, 20], (5, 1)),
            [np.array([10, 20])] * 5,
        )
        for name, one in (
            ("dropouts", 1),
            ("collusion", 1),
            ("rounds", 2),
            ("hours", 3),
        )
        for of in (int, np.int64, np.int8)
    ]
    assert len({plan.id for plan in made}) == 4  # one for each term


def test_moments_are_of_vectors():
    for wrong in (
        lambda: MomentKernel(Sphere(2), 1.0),
        lambda: MomentKernel(Euclidean(2), 1.0, np.ones(2)),
    ):
        with pytest.raises(ParameterError):
            wrong()
    with pytest.raises(ParameterError):
        kernel_from_dict({})


def test_clocks():
    plan, _, _ = study(hours=2.0)
    now = datetime.now(UTC)
    assert plan.is_open(now, now)
    for wrong in (now - timedelta(minutes=10), now + timedelta(hours=3)):
        assert not plan.is_open(wrong, wrong)
        assert not plan.is_open(now, wrong)


def test_steps_reach_the_mean_without_noise():
    """At a guarantee that asks for next to no noise, the rounds end at the Fréchet mean."""
    for M, r, rounds in (
        (SPDAffineInvariant(3), 1.5, 6),
        (Sphere(2), 0.7, 6),
        (Lorentz(2), 2.0, 6),
    ):
        rng = np.random.default_rng(3)
        kernel = MeanKernel(M, r)
        X = np.asarray(
            M.exp(
                kernel.center,
                M.from_coordinates(
                    kernel.center, 0.1 * rng.standard_normal((50, M.dim)) + 0.2
                ),
            )
        )
        plan, _, _ = study(
            3,
            kernel=kernel,
            dropouts=0,
            records=[X] * 3,
            rounds=rounds,
            guarantee=GDP(1e4),
        )
        at = kernel.initial_state_rows()
        for k in range(rounds):
            total = 3 * plan.rounded_sum(k, at, X, 0) * 2.0 ** -plan.exponents[k]
            at = kernel.update(plan.questions[k], at, total, [150], 0.0, 1.0)
        assert M.dist(frechet_mean(M, X), kernel.read_states(at)[0].point) < 1e-3

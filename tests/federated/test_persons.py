"""A person with all their records as the unit: the sum moves by no more than one term, whatever the person's records."""

import numpy as np
import pytest

from curvedp.core.codes import ProtectedUnit
from curvedp.errors import ParameterError
from curvedp.federated import (
    ClassMeansKernel,
    DispersionKernel,
    MeanKernel,
    MomentKernel,
    Site,
    coordinate,
    in_process,
)
from curvedp.federated.release import FederatedMechanism
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    SPDAffineInvariant,
    Sphere,
    frechet_mean,
)
from curvedp.privacy import GDP
from curvedp.release.verify import verify_certificate
from federated.runs import study
from federated.test_plan import hostile

KERNELS = [
    MeanKernel(SPDAffineInvariant(2), 1.0),
    MeanKernel(Lorentz(2), 2.0),
    DispersionKernel(Sphere(2), 0.8),
    ClassMeansKernel(Sphere(2), 0.7, count=1),
    MomentKernel(Euclidean(3), 2.0),
    MeanKernel(SPDAffineInvariant(2), "private"),
]


def person_study(kernel, persons=20, **options):
    nobody = [np.zeros((0, *kernel.manifold.point_shape))] * 3
    return study(3, kernel=kernel, counts=[[persons] * kernel.n_classes] * 3, records=nobody, protects="person", dropouts=0,
                 **options)  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.name}-{k.manifold!r}")
def test_no_person_moves_a_sum_by_more_than_the_sensitivity(kernel):
    """One person of eleven has one record, or five hundred, as bad as can be: exact whole numbers, by the own path of the
    site, for every radius that a server may say."""
    plan, people, _ = person_study(
        kernel, 11, guarantee=GDP(2.0)
    )  # enough for a private ball
    rng = np.random.default_rng(4)
    M = kernel.manifold
    others = np.asarray(M.project(rng.standard_normal((40, *M.point_shape))))
    far = hostile(M, rng)
    worst = [
        far[:1],
        far[40:],
        far[rng.integers(0, len(far), 500)],
        others[:0:-1][:1],
        1e3 * others[:30],
    ]
    sums, balls = [], [plan.kernel.initial_state_rows() for _ in range(7)]
    for at, radius in zip(
        balls[1:], (1e-300, 1e-9, 0.1, 1e9, np.nan, -1.0), strict=True
    ):
        at[:, -3:-1] = radius
    for own in worst:
        X = np.concatenate([others, own])
        groups = np.concatenate([np.arange(40) % 10, np.full(len(own), 77)])
        classes = Site(
            plan, people[0], X, groups=groups
        )._class_rows  # what the site adds up
        sums.append(
            [
                plan.rounded_sum(r, at, classes[0], 0)
                for r in range(plan.rounds)
                for at in balls
            ]
        )
    most = 0.0
    for k in range(plan.rounds * len(balls)):
        rows, sensitivity = (
            np.array([s[k] for s in sums], dtype=float),
            plan.sensitivity_of(k // len(balls)),
        )
        furthest = max(np.linalg.norm(rows - row, axis=1).max() for row in rows)
        assert furthest <= sensitivity
        most = max(most, furthest / sensitivity)
    assert most > 0.2, "the bound is not idle"


def test_without_persons_the_same_records_move_it_by_more():
    """What the rule above would let through if records were counted: five hundred records of one person."""
    kernel = MeanKernel(SPDAffineInvariant(2), 1.0)
    plan, _, _ = study(3, kernel=kernel, dropouts=0)
    at, far = (
        plan.kernel.initial_state_rows(),
        np.repeat(np.diag([50.0, 50.0])[None], 500, axis=0),
    )
    gap = plan.rounded_sum(0, at, far, 0) - plan.rounded_sum(
        0, at, np.linalg.inv(far), 0
    )
    assert np.linalg.norm(gap.astype(float)) > 100 * plan.sensitivity_of(0)


def test_a_run_is_the_mean_of_the_persons_own_means():
    M = SPDAffineInvariant(2)
    plan, people, _ = person_study(MeanKernel(M, 1.0), 15, guarantee=GDP(1e5), rounds=5)
    rng, sites, means = np.random.default_rng(0), {}, []
    for i, person in enumerate(people):
        groups = np.concatenate([np.arange(15), rng.integers(0, 15, 45)])
        x = np.asarray(
            M.exp(
                M.origin,
                M.from_coordinates(M.origin, 0.2 * rng.standard_normal((60, 3)) + 0.1),
            )
        )
        means += [np.asarray(frechet_mean(M, x[groups == who])) for who in range(15)]
        sites[i] = Site(plan, person, x, groups=[f"p{g}" for g in groups])
    release = coordinate(plan, in_process(sites))
    assert M.dist(frechet_mean(M, np.array(means)), release.value) < 2e-3
    assert release.certificate.privacy_unit is ProtectedUnit.PERSON
    assert not any(
        check.holds is False for check in verify_certificate(release.certificate)
    )


def test_a_plan_of_records_cannot_claim_persons():
    plan, _, _ = study(3, dropouts=0)
    statistic = FederatedMechanism(statistic=plan).statistic
    assert statistic.privacy_units == (ProtectedUnit.RECORD,)


def test_moments_of_persons_are_means_of_their_own():
    plan, people, _ = person_study(
        MomentKernel(Euclidean(2), 2.0), 2, guarantee=GDP(1e6)
    )
    x = np.array([[1.0, 0.0], [0.0, 1.5], [0.5, 0.5], [9.0, 0.0]])
    part = Site(plan, people[0], x, groups=["a", "a", "b", "b"])._class_rows[
        0
    ]  # what the site adds up
    total = (
        plan.rounded_sum(0, plan.kernel.initial_state_rows(), part, 0)
        * plan.grid_unit(0)
        * 2.0**2
    )  # rows are in units of r²
    second = (
        sum(np.outer(v, v) for v in x[:2]) / 2
        + (np.outer(x[2], x[2]) + np.diag([4.0, 0.0])) / 2
    )
    assert np.allclose(
        [total[0], total[1], total[2] / np.sqrt(2)],
        [second[0, 0], second[1, 1], second[0, 1]],
    )


@pytest.mark.parametrize(
    "groups",
    [
        None,
        [1, 2, 3],
        [[1]] * 20,
        [None] * 20,
        [np.nan] * 20,
        ["a", 1] * 10,
        [*range(19), 18],
    ],
    ids=str,
)
def test_wrong_ids_are_refused(groups):
    plan, people, _ = person_study(MeanKernel(Sphere(2), 0.7))
    with pytest.raises(ParameterError) as caught:
        Site(plan, people[0], np.tile([0.0, 0.0, 1.0], (20, 1)), groups=groups)
    assert "\n" not in str(caught.value)


def test_a_person_of_two_classes_is_refused():
    plan, people, _ = person_study(ClassMeansKernel(Sphere(2), 0.7, count=2), 10)
    X, labels = np.tile([0.0, 0.0, 1.0], (20, 1)), np.repeat([0, 1], 10)
    assert [
        len(part)
        for part in Site(plan, people[0], X, labels, groups=np.arange(20))._class_rows
    ] == [10, 10]
    with pytest.raises(ParameterError, match="several classes"):
        Site(plan, people[0], X, labels, groups=[*range(10), 0, *range(11, 20)])
    with pytest.raises(ParameterError, match="groups exactly if it protects persons"):
        Site(
            study(3, 20, kernel=MeanKernel(Sphere(2), 0.7), dropouts=0)[0],
            people[0],
            X,
            groups=np.arange(20),
        )


def test_moments_of_persons_in_a_private_ball_are_refused():
    plan, people, _ = person_study(MomentKernel(Euclidean(2), "private"), 20)
    with pytest.raises(ParameterError, match="agreed on"):
        Site(plan, people[0], np.zeros((20, 2)), groups=np.arange(20))

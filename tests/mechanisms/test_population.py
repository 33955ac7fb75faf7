"""Synthetic populations: sensitivities, transcripts of neighbors, consistent counts, replay, where samples lie."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from curvedp import GDP, PureDP
from curvedp.audit.empirical import audit_scores
from curvedp.core.certificate import Certificate, seal
from curvedp.errors import ParameterError, VerificationFailed
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Product,
    Rotations,
    Simplex,
    SPDAffineInvariant,
    SPDBuresWasserstein,
    Sphere,
    Torus,
)
from curvedp.mechanisms.staged import population
from curvedp.mechanisms.staged.ball_search import PrivateBallMechanism
from curvedp.mechanisms.staged.population import (
    CellTreeMechanism,
    GaussianMixture,
    WrappedGaussian,
    estimate_normal,
)
from curvedp.mechanisms.staged.population_sums import (
    WEIGHT_ONE,
    Assignment,
    PopulationQueries,
    person_weights,
)
from curvedp.records.base import open_records
from curvedp.release.rebuild import final_mechanism_of, mechanism_of
from curvedp.release.verify import verify_certificate
from curvedp.statistics import population as statistics_of_population
from curvedp.statistics.cell_tree import (
    CellTree,
    consistent_counts,
    find_leaves,
    project_to_simplex,
)
from curvedp.statistics.energy import energy_distance
from curvedp.statistics.population import (
    Components,
    PopulationData,
    ReleasedPopulation,
    RowChart,
    SearchedPopulation,
    SyntheticPopulation,
)
from support.transcript import cloud, leaked, pairs, spent

SPACES = [
    Euclidean(3),
    Sphere(2),
    Lorentz(3),
    PoincareBall(2),
    SPDAffineInvariant(2),
    SPDBuresWasserstein(2),
    Grassmann(4, 2),
    Rotations(3),
    KendallShapes(4),
    Torus(2),
    Simplex(3),
    Product(Sphere(2), SPDAffineInvariant(2)),
]
MODELS = {
    "wrapped-gaussian": WrappedGaussian,
    "mixture": GaussianMixture,
    "tree": CellTreeMechanism,
}
CLASSES = 2


def data_of(M, X, rng=None, classes=1, column=False):
    """Return records with random classes and predictors beside them."""
    rng = np.random.default_rng(0) if rng is None else rng
    n = len(X)
    labels = rng.integers(0, classes, n) if classes > 1 else None
    predictor = rng.uniform(-1, 1, n) if column else None
    return PopulationData(open_records(X, M.point_shape), labels, predictor)


def released(kind, M, guarantee=GDP(1.0), radius=1.0, classes=1, x_range=None):  # noqa: B008
    """Return a function of `PopulationData` that draws all stages."""

    @np.errstate(all="ignore")
    def draw(data):
        n = data.records.n
        if data.person_index is not None:
            n = int(data.person_index.max()) + 1
        statistic = SyntheticPopulation(M, None, radius, n, classes, x_range)
        mechanism = MODELS[kind].calibrate(statistic, guarantee)
        mechanism.draw(mechanism.prepare_data(data), None)

    return draw


# ---- sensitivities --------------------------------------------------------------------


def block_chart(M, has_predictor=False):
    return RowChart(M, np.asarray(M.origin), 0.5, has_predictor)


def answers(statistic, data):
    """Return the answers of all vector queries, with their sensitivities."""
    chart = block_chart(statistic.manifold, statistic.x_range is not None)
    queries = PopulationQueries(statistic, data)
    centers = np.zeros((2, statistic.row_size))
    centers[:, 0] = -0.5, 0.5
    assignment = Assignment(centers, statistic.classes)
    return {
        "mean": queries.mean_log(0.5),
        "moments": queries.lifted_moments(chart, assignment),
        "clusters": queries.cluster_sums(chart, assignment),
    }


@pytest.mark.parametrize("M", SPACES, ids=str)
def test_no_climb_moves_an_answer_by_more_than_its_sensitivity(M):
    """A record climbs with its replacement, each with a class and a predictor; theorems 1 and 2 are nearly attained."""
    rng = np.random.default_rng(1)
    statistic = SyntheticPopulation(M, None, 1.0, 3, CLASSES, (0.0, 1.0))
    best = dict.fromkeys(("mean", "moments", "clusters"), 0.0)
    z = 0.6 * rng.standard_normal((4, M.dim)) / sqrt(M.dim)
    columns = rng.uniform(-1, 1, 4)
    for trial in range(120):
        tried = z + 0.5 * rng.standard_normal(z.shape) / sqrt(M.dim)
        if trial % 4 == 0:  # opposite records of the same length
            tried[3] = -tried[2]
        classes = rng.integers(0, 2, 4)
        columns = np.clip(columns + 0.5 * rng.standard_normal(4), -1, 1)
        points = np.asarray(M.from_normal_coordinates(M.origin, tried))
        found = []
        for rows in ([0, 1, 2], [0, 1, 3]):
            records = open_records(points[rows], M.point_shape)
            data = PopulationData(records, classes[rows], columns[rows])
            found.append(answers(statistic, data))
        for name in best:
            one, two = (side[name] for side in found)
            assert one.sensitivity == two.sensitivity
            length = float(np.linalg.norm(one.values - two.values))
            assert length <= one.sensitivity
            if length > best[name] * one.sensitivity:
                best[name] = length / one.sensitivity
                z = tried
    assert min(best.values()) > (0.7 if M.dim > 1 else 0.5)


def test_the_bound_of_the_lifted_moment_is_attained_by_opposite_blocks():
    """√2·(1 + λ²)/n: two rows of length 1 in the blocks of two classes."""
    M = Euclidean(2)
    statistic = SyntheticPopulation(M, None, 1.0, 2, 2)
    points = np.array([[0.0, 0.0], [0.5, 0.0]])
    values = []
    for label in (0, 1):
        data = PopulationData(open_records(points, (2,)), np.array([0, label]))
        values.append(answers(statistic, data)["moments"])
    length = np.linalg.norm(values[0].values - values[1].values)
    assert length == pytest.approx(sqrt(2) * 1.5 / 2)
    assert length <= values[0].sensitivity < 1.001 * length
    # A wrong version: half of the distance that is possible.
    assert length > 1.5 / 2


def test_a_person_counts_once_however_many_records_they_have():
    index = np.array([0] * 7 + [1] + [2] * 70_000)
    weights = person_weights(index)
    for person in range(3):
        assert weights[index == person].sum() <= WEIGHT_ONE
    assert np.all(weights[index == 0] == WEIGHT_ONE // 7)
    assert np.count_nonzero(weights[index == 2]) == 1 << 16


def test_rows_of_others_do_not_depend_on_the_class_of_one_record_bit_for_bit():
    """A product of matrices would round rows by how many others are multiplied with them."""
    rng = np.random.default_rng(2)
    rows = np.asfortranarray(rng.standard_normal((500, 5)))
    axes = np.stack([np.linalg.qr(rng.standard_normal((5, 5)))[0] for _ in range(2)])
    laws = Components(
        np.arange(2), rng.standard_normal((2, 5)), axes, rng.uniform(1, 2, (2, 5))
    )
    classes = rng.integers(0, 2, 500)
    before = laws.to_unit_cube(rows, classes)
    for place in range(0, 500, 7):
        changed = classes.copy()
        changed[place] = 1 - changed[place]
        after = laws.to_unit_cube(rows, changed)
        assert np.array_equal(np.delete(before, place, 0), np.delete(after, place, 0))


# ---- transcripts of neighbors ----------------------------------------------------------


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("M", SPACES, ids=str)
def test_all_stages_together_spend_at_most_what_is_paid_for(M, kind):
    """Neighbors differ in the record, its class and its predictor: Σ (difference/noise)² ≤ μ² = 1."""
    rng = np.random.default_rng(3)
    worst = 0.0
    for seed, (X, Y) in enumerate(pairs(M, rng, 3)):
        one = data_of(M, X, np.random.default_rng(seed), CLASSES, column=True)
        two = PopulationData(
            open_records(Y, M.point_shape), one.class_index.copy(), one.predictor.copy()
        )
        two.class_index[-1] = 1 - one.class_index[-1]
        two.predictor[-1] = -np.sign(one.predictor[-1])
        release = released(kind, M, classes=CLASSES, x_range=(0.0, 1.0))
        worst = max(worst, spent(release, one, two, seed))
    assert 0.03 < worst <= 1.0


@pytest.mark.parametrize("kind", MODELS)
def test_half_of_the_noise_is_caught_by_the_same_attack(kind):
    M = Euclidean(2)
    z = np.zeros((12, 2))
    far = z.copy()
    z[-1, 0], far[-1, 0] = 1.0, -1.0
    one = PopulationData(open_records(z, (2,)), np.zeros(12, dtype=int))
    labels = np.zeros(12, dtype=int)
    labels[-1] = 1
    two = PopulationData(open_records(far, (2,)), labels)
    losses = [
        max(
            spent(released(kind, M, GDP(mu), classes=2), one, two, seed)
            for seed in range(3)
        )
        for mu in (1.0, 2.0)
    ]
    assert losses[0] <= 1.0 < losses[1]


@pytest.mark.parametrize("kind", MODELS)
def test_pure_epsilon_is_spent_once(kind):
    M = Sphere(2)
    release = released(kind, M, PureDP(1.0))
    worst = max(
        leaked(release, data_of(M, X), data_of(M, Y), seed)[0]
        for seed, (X, Y) in enumerate(pairs(M, np.random.default_rng(4), 4))
    )
    assert 0.02 < worst <= 1.0


@pytest.mark.parametrize("kind", MODELS)
def test_all_records_of_a_person_are_the_unit(kind):
    M = Sphere(2)
    X = cloud(M, 0.3, 60, np.random.default_rng(5))
    Y = X.copy()
    Y[-9:] = -X[-9:]
    persons = np.minimum(np.arange(60) // 3, 17)  # the last one has nine records
    release = released(kind, M)
    as_persons = [
        PopulationData(open_records(Z, (3,)), None, None, persons) for Z in (X, Y)
    ]
    as_records = [PopulationData(open_records(Z, (3,))) for Z in (X, Y)]
    worst = max(spent(release, *as_persons, seed) for seed in range(3))
    assert 0.01 < worst <= 1.0
    assert max(spent(release, *as_records, seed) for seed in range(3)) > worst


@pytest.mark.parametrize("kind", MODELS)
def test_a_private_ball_and_a_population_spend_at_most_what_is_paid_for(kind):
    def release(X):
        statistic = SearchedPopulation(Sphere(2), None, None, len(X), kind)
        mechanism = PrivateBallMechanism.calibrate(statistic, GDP(1.0))
        mechanism.draw(mechanism.prepare_data(X), None)

    trials = enumerate(pairs(Sphere(2), np.random.default_rng(6), 3))
    worst = max(spent(release, X, Y, seed) for seed, (X, Y) in trials)
    assert 0.03 < worst <= 1.0


# ---- an audit, and cheats that it catches ----------------------------------------------


@pytest.mark.parametrize(("factor", "is_caught"), [(1.0, False), (0.5, True)])
def test_an_audit_of_the_likelihood_ratio(factor, is_caught):
    """Two records in the blocks of two classes; 10⁵ draws of all that a wrapped Gaussian adds."""
    M = Euclidean(2)
    statistic = SyntheticPopulation(M, None, 1.0, 4, 2)
    mechanism = WrappedGaussian.calibrate(statistic, GDP(1.0))
    points = np.zeros((4, 2))
    points[-1, 0] = 1.0
    path = []
    sides = []
    for sign, label in ((1.0, 0), (-1.0, 1)):
        labels = np.array([0, 1, 0, label])
        data = PopulationData(open_records(sign * points, (2,)), labels)
        asked = []

        def released_on_one_path(values, scales, asked=asked):
            if len(path) == len(asked):  # the first side leads
                path.append(values)
            asked.append((values / scales[:, None]).ravel())
            return path[len(asked) - 1]

        queries = mechanism.queries(mechanism.prepare_data(data))
        mechanism.run(queries, released_on_one_path)
        sides.append(np.concatenate(asked))
    direction = sides[1] - sides[0]
    assert np.linalg.norm(direction) <= 1.0
    direction = direction / np.linalg.norm(direction)
    rng = np.random.default_rng(7)
    scores = [
        side @ direction + factor * rng.standard_normal(100_000) for side in sides
    ]
    result = audit_scores(
        mechanism.privacy_profile, [scores[0]], [scores[1]], delta=1e-3, confidence=0.99
    )
    assert result.holds != is_caught


def test_a_wrong_share_is_caught(monkeypatch):
    """A mixture whose steps take nothing from the budget spends more than it has."""
    pays = population.StageBudget.release

    def forgets(self, kind, share, *more, **options):
        left = self.share_left
        answer = pays(self, kind, share, *more, **options)
        if kind == "clusters":
            self.share_left = left
        return answer

    M = Euclidean(2)
    points = np.zeros((4000, 2))
    points[-1, 0] = 1.0
    labels = np.zeros((2, 4000), dtype=int)
    labels[1, -1] = 1
    sides = [
        PopulationData(open_records(sign * points, (2,)), label)
        for sign, label in zip((1, -1), labels, strict=True)
    ]
    release = released("mixture", M, classes=2)
    honest = max(spent(release, *sides, seed) for seed in range(3))
    monkeypatch.setattr(population.StageBudget, "release", forgets)
    wrong = max(spent(release, *sides, seed) for seed in range(3))
    assert honest <= 1.0 < wrong


# ---- consistent counts (Theorem 3) -------------------------------------------------------


def grown_tree(rng, levels=4):
    tree = CellTree(np.ones((2, 2)))
    frontier = [0, 1]
    for _ in range(levels):
        chosen = [cell for cell in frontier if rng.random() < 0.7] or frontier[:1]
        frontier = tree.split(chosen)
    return tree


def test_consistent_counts_are_the_weighted_least_squares_estimate():
    """Against a dense solver, with counts so large that none falls below 0."""
    rng = np.random.default_rng(8)
    for _ in range(5):
        tree = grown_tree(rng)
        left = np.array(tree.left)
        leaves = np.flatnonzero(left < 0)
        incidence = np.zeros((len(tree), len(leaves)))
        incidence[leaves, np.arange(len(leaves))] = 1.0
        for cell in np.flatnonzero(left >= 0)[::-1]:
            incidence[cell] = incidence[left[cell]] + incidence[left[cell] + 1]
        truth = incidence @ rng.uniform(500, 1000, len(leaves))
        variances = rng.uniform(1, 50, len(tree))
        noisy = truth + np.sqrt(variances) * rng.standard_normal(len(tree))
        total = float(truth[:2].sum())
        found = consistent_counts(tree, noisy, variances, total)

        scaled = incidence / np.sqrt(variances)[:, None]
        gram = scaled.T @ scaled
        ones = np.ones(len(leaves))
        free = np.linalg.solve(gram, scaled.T @ (noisy / np.sqrt(variances)))
        pull = np.linalg.solve(gram, ones)
        best = free + pull * (total - ones @ free) / (ones @ pull)
        np.testing.assert_allclose(found, incidence @ best, rtol=1e-9)


def test_counts_of_noise_alone_are_consistent_too():
    rng = np.random.default_rng(9)
    for _ in range(30):
        tree = grown_tree(rng)
        left = np.array(tree.left)
        counts = consistent_counts(
            tree, 20 * rng.standard_normal(len(tree)), np.full(len(tree), 400.0), 10.0
        )
        parents = np.flatnonzero(left >= 0)
        assert np.all(counts >= 0)
        np.testing.assert_allclose(counts[:2].sum(), 10.0)
        np.testing.assert_allclose(
            counts[left[parents]] + counts[left[parents] + 1],
            counts[parents],
            atol=1e-9,
        )


def test_nearest_point_of_a_simplex():
    rng = np.random.default_rng(10)
    for _ in range(50):
        values = 3 * rng.standard_normal(5)
        near = project_to_simplex(values, 2.0)
        assert np.all(near >= 0)
        assert near.sum() == pytest.approx(2.0)
        others = 2.0 * rng.dirichlet(np.ones(5), 200)
        assert np.all(
            np.sum((near - values) ** 2)
            <= np.sum((others - values) ** 2, axis=1) + 1e-12
        )


def test_each_point_is_in_one_leaf_and_in_its_box():
    rng = np.random.default_rng(11)
    tree = grown_tree(rng)
    positions = rng.random((300, 2))
    component = rng.integers(0, 2, 300)
    leaf = find_leaves(tree.to_arrays(), component, positions)
    assert np.all(np.array(tree.left)[leaf] == -1)
    assert np.all(np.array(tree.component)[leaf] == component)
    assert np.all(np.array(tree.lower)[leaf] <= positions)
    assert np.all(positions <= np.array(tree.upper)[leaf])


# ---- the released law --------------------------------------------------------------------


def test_a_normal_law_is_read_off_exact_moments():
    rng = np.random.default_rng(12)
    rows = rng.multivariate_normal([0.2, -0.1], [[0.02, 0.01], [0.01, 0.03]], 4000)
    M = Euclidean(2)
    statistic = SyntheticPopulation(M, None, 5.0, 4000)
    chart = RowChart(M, np.zeros(2), 5.0, False)
    queries = PopulationQueries(statistic, data_of(M, 5 * rows))
    block = queries.lifted_moments(chart, Assignment(np.zeros((1, 2)), 1)).values
    mean, axes, scales = estimate_normal(block, 1.0, 1e-9, 1.0)
    np.testing.assert_allclose(mean, rows.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(
        (axes * scales**2) @ axes.T, np.cov(rows.T, bias=True), atol=1e-6
    )


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("M", SPACES, ids=str)
def test_a_run_is_its_replay_and_samples_lie_in_the_ball(M, kind):
    """The certificate leads to the same records, bit for bit, and a changed one is refused."""
    rng = np.random.default_rng(13)
    start = 0.3 * np.eye(M.dim)[0]
    center = np.asarray(M.from_normal_coordinates(M.origin, start))
    X = cloud(M, 0.3, 200, rng, center)
    statistic = SyntheticPopulation(M, center, 0.8, 200)
    mechanism = MODELS[kind].calibrate(statistic, GDP(1.0))
    release = mechanism.release(mechanism.prepare_data(data_of(M, X)))
    certificate = release.certificate
    assert all(check.holds for check in verify_certificate(certificate))

    from_file = Certificate.from_json(certificate.to_json())
    populations = [
        mechanism_of(each).reconstruct_value(each) for each in (certificate, from_file)
    ]
    assert isinstance(populations[0], ReleasedPopulation)
    drawn, again = (each.sample(400, np.random.default_rng(7)) for each in populations)
    assert np.array_equal(drawn.points, again.points)
    # The center of a certificate is moved onto the manifold again, by a last bit.
    released_now = release.value.sample(400, np.random.default_rng(7)).points
    np.testing.assert_allclose(released_now, drawn.points, rtol=1e-9, atol=1e-9)
    assert np.max(M.residual(drawn.points)) < 1e-9
    assert np.max(M.dist(center, drawn.points)) <= 0.8 * (1 + 1e-9)

    integers = list(certificate.release["integers"])
    shorter = {**certificate.release, "integers": integers[:-1]}
    wider = {**certificate.parameters, "scale": 0.5}
    for change in ({"release": shorter}, {"parameters": wider}):
        try:
            checks = verify_certificate(seal(replace(certificate, **change)))
            assert any(check.holds is False for check in checks)
        except VerificationFailed:
            pass


# ---- a whole torus --------------------------------------------------------------------

WHOLE = np.pi * sqrt(2)


def opposite_angles(classes):
    """Return two data sets of a torus that differ in one record, its class and predictor."""
    z = np.zeros((30, 2))
    far = z.copy()
    far[-1] = np.pi - 1e-3, -np.pi + 1e-3
    labels = np.zeros(30, dtype=int)
    others = labels.copy()
    others[-1] = classes - 1
    predictor = np.full(30, 0.5)
    moved = predictor.copy()
    moved[-1] = -1.0
    return [
        PopulationData(open_records(X, (2,)), classes_of_records, column)
        for X, classes_of_records, column in (
            (z, labels, predictor),
            (far, others, moved),
        )
    ]


@pytest.mark.parametrize("classes", [1, 2])
def test_counts_on_a_whole_torus_spend_all_and_no_more(classes):
    """All of the budget is for counts; the same attack catches half of the noise."""
    one, two = opposite_angles(classes)
    losses = []
    for mu in (1.0, 2.0):
        release = released("tree", Torus(2), GDP(mu), WHOLE, classes, (0.0, 1.0))
        losses.append(max(spent(release, one, two, seed) for seed in range(4)))
    assert 0.3 < losses[0] <= 1.0 < losses[1]


def test_records_in_the_corners_of_a_torus_are_drawn_there(monkeypatch):
    """A certificate leads to the same records; a round cut locus would lose a third."""
    torus = Torus(2)
    rng = np.random.default_rng(15)
    X = np.asarray(torus.project(np.pi + 0.2 * rng.normal(size=(2000, 2))))
    statistic = SyntheticPopulation(torus, None, WHOLE, 2000)
    mechanism = CellTreeMechanism.calibrate(statistic, GDP(1.0))
    release = mechanism.release(mechanism.prepare_data(data_of(torus, X)))
    assert all(check.holds for check in verify_certificate(release.certificate))
    value = mechanism_of(release.certificate).reconstruct_value(release.certificate)
    points = value.sample(2000, np.random.default_rng(7)).points
    again = release.value.sample(2000, np.random.default_rng(7)).points
    assert np.array_equal(points, again)
    assert energy_distance(torus, X, points) < 0.1
    assert np.max(torus.residual(points)) < 1e-9

    class Round(Torus):
        """A torus whose angles are taken to end on a circle, as those of a sphere do."""

    monkeypatch.setattr(statistics_of_population, "Torus", Round)
    lost = value.sample(2000, np.random.default_rng(7)).points
    assert energy_distance(torus, X, lost) > 0.2


@pytest.mark.parametrize("kind", MODELS)
def test_synthetic_records_are_near_the_real_ones(kind):
    """Two clusters on a sphere: a mixture and a tree see both, and noise alone is far worse."""
    M = Sphere(2)
    rng = np.random.default_rng(14)
    coordinates = rng.normal(0, 0.12, (3000, 2))
    coordinates[:, 0] += np.where(rng.random(3000) < 0.4, -0.6, 0.4)
    X = np.asarray(M.from_normal_coordinates(M.origin, coordinates))
    statistic = SyntheticPopulation(M, None, 1.5, 3000)
    mechanism = MODELS[kind].calibrate(statistic, GDP(1.0))
    value = mechanism.release(mechanism.prepare_data(data_of(M, X))).value
    points = value.sample(1000, rng).points
    wide = np.asarray(
        M.from_normal_coordinates(M.origin, rng.uniform(-1, 1, (1000, 2)))
    )
    found = energy_distance(M, X[:1000], points)
    assert found < 0.6 * energy_distance(M, X[:1000], wide)
    if kind != "wrapped-gaussian":
        assert found < 0.12


def test_the_predicted_error_is_that_of_releases():
    """On the public populations that the prediction is made of, by other seeds."""
    M = Sphere(2)
    statistic = SyntheticPopulation(M, None, 1.0, 2000)
    for kind in MODELS.values():
        mechanism = kind.calibrate(statistic, GDP(1.0))
        predicted = mechanism.predict_error()
        assert 0 < predicted < 0.5
    small = replace(statistic, n=60)
    few = CellTreeMechanism.calibrate(small, GDP(1.0)).predict_error()
    assert few > CellTreeMechanism.calibrate(statistic, GDP(1.0)).predict_error()


def test_classes_and_predictors_come_back():
    M = Euclidean(2)
    rng = np.random.default_rng(15)
    labels = rng.integers(0, 2, 4000)
    column = rng.uniform(-1, 1, 4000)
    X = np.column_stack([labels + 0.5 * column, column]) + 0.1 * rng.normal(
        size=(4000, 2)
    )
    statistic = SyntheticPopulation(M, None, 3.0, 4000, 2, (10.0, 20.0))
    for kind in MODELS.values():
        mechanism = kind.calibrate(statistic, GDP(2.0))
        data = PopulationData(open_records(X, (2,)), labels, column)
        value = mechanism.release(mechanism.prepare_data(data)).value
        drawn = value.sample(2000, rng)
        assert drawn.predictor.min() >= 10.0
        assert drawn.predictor.max() <= 20.0
        scaled = (drawn.predictor - 15.0) / 5.0
        assert np.corrcoef(scaled, drawn.points[:, 1])[0, 1] > 0.8
        first = drawn.points[:, 0] - 0.5 * scaled
        assert np.mean((first > 0.5) == (drawn.class_index == 1)) > 0.9


def test_a_searched_population_is_found_where_the_records_are():
    M = SPDAffineInvariant(2)
    rng = np.random.default_rng(16)
    X = 1e-3 * cloud(M, 0.4, 1500, rng)
    statistic = SearchedPopulation(M, None, None, 1500, "wrapped-gaussian")
    mechanism = PrivateBallMechanism.calibrate(statistic, GDP(1.0))
    release = mechanism.release(X)
    points = release.value.sample(500, rng).points
    assert energy_distance(M, X[:500], points) < 0.25
    final = final_mechanism_of(release.certificate)
    assert (
        np.max(M.dist(final.statistic.center, points)) <= final.statistic.radius * 1.001
    )


@pytest.mark.parametrize("x_range", [(1.0, 1.0), (2.0, 1.0), (0.0, np.inf), "ab", (1,)])
def test_bad_ranges_are_refused(x_range):
    with pytest.raises(ParameterError):
        SyntheticPopulation(Sphere(2), None, 1.0, 10, 1, x_range)


def test_too_many_dimensions_are_refused():
    with pytest.raises(ParameterError, match="dimensions"):
        SyntheticPopulation(Euclidean(2000), None, 1.0, 10)

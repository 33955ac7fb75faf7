"""Private group connectomes: what is released, its error bars, and what records cannot do."""

import warnings

import numpy as np
import pytest

from curvedp import GDP, ApproxDP, Ledger, PureDP
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.geometry import Correlation
from curvedp.neuro import PrivateConnectome, fisher_z, plan_connectome, plot_connectome
from curvedp.neuro.low_rank import reduce_rank
from curvedp.neuro.vectors import estimated_error, james_stein_shrinkage
from curvedp.randomness import GeneratorSource
from curvedp.release.verify import verify_certificate

NETWORKS = np.repeat(["Vis", "Cont", "Default"], 4)
UPPER = np.triu_indices(12, 1)


def cohort(n, seed=0, k=12):
    """Correlations of 100 time points of k regions in three networks, for n people."""
    rng = np.random.default_rng(seed)
    load = (np.arange(k)[:, None] * 3 // k == np.arange(3)) * rng.uniform(
        0.5, 1, (k, 1)
    )
    between = np.eye(3) + 0.2 * rng.normal(size=(3, 3))
    own = between + 0.2 * rng.normal(size=(n, 3, 3))
    series = load @ own @ rng.normal(size=(n, 3, 100))
    series = series + 0.8 * rng.normal(size=series.shape)
    return np.array([np.corrcoef(person) for person in series])


X = cohort(300)
PEOPLE = np.arange(300)


def fitted(records=X, **options):
    model = PrivateConnectome(NETWORKS, **{"guarantee": GDP(1.0), **options})
    return model.fit(records, groups=PEOPLE[: len(records)])


def simulated(seed):
    return GeneratorSource(np.random.default_rng(seed))


def test_the_release_is_a_correlation_matrix_of_people_paid_once(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(2.0))
    model = fitted(resolution="regions", ledger=ledger)
    assert Correlation(12).residual(model.matrix_) < 1e-9
    assert [entry.label for entry in ledger.entries] == ["connectome"]
    assert ledger.spent == GDP(1.0)
    assert model.certificate_.privacy_unit == "person"
    assert all(c.holds is not False for c in verify_certificate(model.certificate_))
    (release,) = model.releases
    assert release.certificate is model.certificate_
    error = np.sqrt(np.mean((model.edges_ - fisher_z(X).mean(axis=0))[UPPER] ** 2))
    assert error < 0.03


def test_intervals_of_all_edges_hold_at_once():
    """The mean of the records is in all 66 intervals in about 95% of releases; one edge's alone would fail."""
    truth = np.tanh(fisher_z(X).mean(axis=0))[UPPER]
    hits, hits_of_narrow = 0, 0
    for seed in range(60):
        model = fitted(resolution="regions", radius=8.0, source=simulated(seed))
        lower, upper = model.confidence_edges()
        hits += bool(np.all((lower[UPPER] <= truth) & (truth <= upper[UPPER])))
        lower, upper = model.confidence_edges(0.95 ** (66 / 1.0))  # one edge at 95%
        hits_of_narrow += bool(
            np.all((lower[UPPER] <= truth) & (truth <= upper[UPPER]))
        )
    assert hits >= 51
    assert hits_of_narrow < 30


def test_the_estimated_error_is_the_error():
    errors, estimates, kinds = [], [], set()
    truth = fisher_z(X).mean(axis=0)[UPPER]
    for seed in range(20):
        model = fitted(
            X[:100], resolution="regions", radius=5.0, source=simulated(seed)
        )
        truth = fisher_z(X[:100]).mean(axis=0)[UPPER]
        errors.append(np.mean((model.edges_[UPPER] - truth) ** 2))
        estimates.append(model.predicted_error_**2)
        kinds.add(model.estimate_)
    assert 0.75 < np.sqrt(np.mean(estimates) / np.mean(errors)) < 1.33
    assert "low-rank" in kinds
    assert np.sqrt(np.mean(errors)) < 0.9 * model.noise_std_


def test_low_rank_helps_where_the_truth_is_of_low_rank_and_is_not_taken_elsewhere():
    rng = np.random.default_rng(0)
    vector = rng.normal(size=40)
    truth = 0.2 * np.outer(vector, vector)
    noise = np.triu(rng.normal(size=(40, 40)) * 0.1, 1)
    reduced = reduce_rank(truth + noise + noise.T, 0.1)
    off = ~np.eye(40, dtype=bool)
    assert np.std((reduced - truth)[off]) < 0.5 * 0.1
    # Stein's estimate sees that shrinkage to a wrong center does not help
    value = np.full(500, 3.0) + 0.1 * rng.normal(size=500)
    plain = estimated_error(lambda v: v, value, 0.1)
    wrong = estimated_error(lambda v: 0 * v, value, 0.1)
    shrunk = estimated_error(james_stein_shrinkage(np.zeros(500), 0.1), value, 0.1)
    assert plain == pytest.approx(0.1)
    assert shrunk < 0.101
    assert wrong == pytest.approx(3.0, rel=0.02)


def test_networks_are_taken_where_edges_would_be_noise_and_it_says_so():
    few = fitted(X[:50])
    assert few.resolution_ == "networks"
    assert "wanted" in few.choice_
    assert few.matrix_.shape == (3, 3)
    assert few.names_ == ["Cont", "Default", "Vis"]
    assert fitted(X).resolution_ == "regions"
    # the choice reads no record
    assert fitted(np.zeros((50, 12, 12))).choice_ == few.choice_


def test_network_averages_follow_from_a_release_of_regions():
    model = fitted(resolution="regions", radius=8.0)
    names, averages, widths = model.network_matrix()
    direct = fitted(resolution="networks")
    assert names == direct.names_
    z = fisher_z(X).mean(axis=0)
    vis = z[:4, :4][np.triu_indices(4, 1)].mean()
    place = names.index("Vis")
    assert abs(averages[place, place] - vis) < widths[place, place]
    assert widths[place, place] == pytest.approx(model._noisy.half_width(0.95) / 6**0.5)
    with pytest.raises(ParameterError, match="network"):
        PrivateConnectome().fit(X).network_matrix()


def test_the_population_has_wider_intervals():
    model = fitted(resolution="networks")
    sampling = fisher_z(X).std(axis=0)[UPPER].mean() / np.sqrt(300)
    assert 0.4 * sampling < model.sampling_error_ < 2 * sampling
    lower, _ = model.confidence_edges()
    wider, _ = model.confidence_edges(of="population")
    assert (wider < lower).all()


def test_pure_epsilon_has_intervals_of_records_only():
    model = fitted(resolution="networks", guarantee=PureDP(8.0))
    lower, upper = model.confidence_edges()
    assert (lower < upper).all()
    with pytest.raises(ParameterError, match="spread"):
        model.confidence_edges(of="population")
    assert fitted(guarantee=ApproxDP(4.0, 1e-6)).sampling_error_ is not None


@pytest.mark.filterwarnings("ignore::curvedp.errors.ReleaseWarning")
def test_a_person_moves_the_release_by_no_more_than_the_sensitivity():
    """The worst of many replaced records, odd ones included; a record that is not clipped would be noticed."""
    rng = np.random.default_rng(0)
    odd = [
        np.full((12, 12), np.nan), np.full((12, 12), np.inf), -np.ones((12, 12)),
        np.full((12, 12), 1e308), np.ones((12, 12)), np.zeros((12, 12)),
        *rng.uniform(-2, 2, (30, 12, 12)),
    ]  # fmt: skip
    options = {"resolution": "regions", "radius": 3.0}
    base = fitted(X[:50], source=simulated(1), **options)
    largest = 0.0
    for record in odd:
        other = X[:50].copy()
        other[7] = record
        model = fitted(other, source=simulated(1), **options)
        moved = np.linalg.norm(model._noisy.value - base._noisy.value)
        largest = max(largest, moved)
        assert model.certificate_.sensitivity == base.certificate_.sensitivity
    # the radius 3 and n = 50: 2·3/50
    assert 0.05 < largest <= 2 * 3.0 / 50 * (1 + 1e-9)


def test_odd_records_pass_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ReleaseWarning)
        model = fitted(np.full((300, 12, 12), np.nan))
    assert np.isfinite(model.matrix_).all()


def test_a_public_template_reduces_the_noise():
    template = cohort(40, seed=0).mean(axis=0)
    near = fitted(X[:100], resolution="regions", center=template)
    far = fitted(X[:100], resolution="regions")
    assert near.noise_std_ < far.noise_std_


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"networks": ["a"] * 11}, "networks"),
        ({"networks": None, "resolution": "networks"}, "networks"),
        ({"resolution": "both"}, "resolution"),
        ({"edge_error": 0.0}, "edge_error"),
        ({"radius": "wide"}, "radius"),
        ({"center": np.eye(3)}, "center"),
        ({"center": np.full((12, 12), np.nan)}, "center"),
        ({"guarantee": GDP(1.0, adjacency="add-remove")}, "adjacency"),
    ],
)
def test_refusals_spend_nothing(options, said, tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(9.0))
    model = PrivateConnectome(NETWORKS, ledger=ledger).set_params(**options)
    with pytest.raises(ParameterError, match=said):
        model.fit(X, groups=PEOPLE)
    assert not ledger.entries
    for shape in ((300, 12), (300, 12, 11), (300, 1, 1)):
        with pytest.raises(ParameterError, match="shape"):
            model.fit(np.zeros(shape))


def test_the_plan_counts_people():
    plan = plan_connectome(86, 28, 7)
    assert plan.subjects_needed(plan.region_noise) == 86
    assert plan.subjects_needed(0.05) > 3 * plan.subjects_needed(0.05, "networks")
    assert "people for 0.05" in str(plan)
    with pytest.raises(ParameterError, match="networks"):
        plan_connectome(86, 28).subjects_needed(0.05, "networks")
    model = fitted(resolution="regions", radius=8.0)
    width = model._noisy.half_width(0.95)
    assert model.subjects_needed(width / 2) == 600


@pytest.mark.parametrize("resolution", ["regions", "networks"])
def test_the_picture_has_a_matrix_and_chords(resolution, tmp_path):
    pytest.importorskip("matplotlib")
    from curvedp.neuro import save_figure

    figure = plot_connectome(fitted(resolution=resolution))
    save_figure(figure, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 20_000
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert "Default" in texts
    with pytest.raises(ParameterError, match=r"\.png"):
        save_figure(figure, tmp_path / "a.gif")


def test_an_error_that_cannot_be_told_from_nothing_is_not_called_nothing():
    """Where all of the draw is noise, Stein's estimate is below 0 half of the time; the error is that of 0."""
    rng = np.random.default_rng(0)
    truth = 0.05 * rng.normal(size=400)
    for _ in range(20):
        value = truth + rng.normal(size=400)
        error = estimated_error(lambda v: 0 * v, value, 1.0)
        assert np.sqrt(np.mean(truth**2)) < error < 0.5


@pytest.mark.filterwarnings("ignore::curvedp.errors.ReleaseWarning")
@pytest.mark.parametrize("radius", ["private", 1e-6, 1e6])
def test_no_noise_is_so_large_that_what_was_paid_for_is_lost(radius):
    for guarantee in (GDP(1e-3), PureDP(1e-3), GDP(50.0)):
        model = fitted(np.ones((6, 12, 12)), radius=radius, guarantee=guarantee)
        assert np.isfinite(model.matrix_).all()
        assert np.isfinite(model.confidence_edges()).all()


def test_persons_are_counted_as_everywhere():
    with pytest.raises(ParameterError, match="groups"):
        PrivateConnectome().fit(X, groups=[7, "7"] * 150)
    with pytest.raises(ParameterError, match="groups"):
        PrivateConnectome().fit(X, groups=[1.0, np.nan] * 150)


def test_more_edges_than_a_certificate_lists_are_refused_before_paying(tmp_path):
    """182 regions have 16471 edges; their error bars follow from listed numbers."""
    series = np.random.default_rng(0).normal(size=(4, 182, 200))
    correlations = np.stack([np.corrcoef(rows) for rows in series])
    ledger = Ledger(tmp_path / "budget.json", budget=GDP(9.0))
    connectome = PrivateConnectome(radius=30.0, guarantee=GDP(5.0), ledger=ledger)
    with pytest.raises(ParameterError, match="lists at most 16384"):
        connectome.fit(correlations)
    assert not ledger.entries


@pytest.mark.parametrize(("edge_error", "is_doubted"), [(0.1, False), (0.001, True)])
def test_precise_edges_are_not_called_of_little_use(edge_error, is_doubted):
    """The noise of all 66 edges together is long, and that of one edge is not."""
    rng = np.random.default_rng(0)
    scans = rng.normal(size=(100, 200, 12)) + rng.normal(size=(100, 200, 1))
    X = np.array([np.corrcoef(scan.T) for scan in scans])
    model = PrivateConnectome(guarantee=GDP(1.0), edge_error=edge_error)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    assert any("little use" in str(each.message) for each in caught) is is_doubted
    assert model.predicted_error_ < 0.1

"""Class means of dask arrays: the same bits for every chunking, a pass for all classes, paid once; lazy predictions."""

from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest

from curvedp import (
    GDP,
    ApproxDP,
    Ledger,
    PrivateGeodesicRegression,
    PrivateMDM,
    PrivatePCA,
    PureDP,
)
from curvedp.errors import ParameterError
from curvedp.geometry import SPDAffineInvariant, Sphere, frechet_mean, project_to_ball
from curvedp.geometry.frechet_mean.error_bound import solver_error
from curvedp.geometry.frechet_mean.public_ball import PublicBall
from curvedp.optim import FrechetMeanProblem, dp_rsgd, dp_rsvrg
from curvedp.randomness import GeneratorSource
from curvedp.records.chunked import ChunkedRecords
from curvedp.records.labels import ChunkedLabels
from curvedp.release.verify import verify_certificate
from support.rough_records import cloud

TENSORS = SPDAffineInvariant(3)
X = cloud(TENSORS, 0.4, 500)
CODES = np.random.default_rng(1).integers(0, 3, 500)
NAMES = np.array(["rest", "left", "right"])[CODES]


@pytest.fixture(autouse=True)
def _here():
    with dask.config.set(scheduler="synchronous"):
        yield


def chunked(values, sizes):
    return da.from_array(values, chunks=(sizes, *values.shape[1:]))


def classifier(**options):
    source = GeneratorSource(np.random.default_rng(7))
    return PrivateMDM(
        TENSORS, radius=0.4, mechanism="tangent-gaussian", source=source, **options
    )


def test_the_class_means_do_not_depend_on_chunks_or_on_where_the_labels_are():
    models = [
        classifier().fit(chunked(X, sizes), labels)
        for sizes, labels in (
            ((500,), NAMES),
            ((1, 499), chunked(NAMES, (500,))),
            ((100, 0, 100, 300), NAMES.tolist()),
            ((29,) * 17 + (7,), chunked(NAMES, (3, 497))),
        )
    ]
    assert all(np.array_equal(model.means_, models[0].means_) for model in models)
    assert models[0].classes_.tolist() == ["left", "rest", "right"]
    np.testing.assert_allclose(
        models[0].means_, classifier().fit(X, NAMES).means_, atol=1e-7
    )


@pytest.mark.parametrize(
    "order", [np.arange(500), np.argsort(CODES, kind="stable")], ids=["mixed", "sorted"]
)
def test_each_mean_is_that_of_its_class(order):
    records, codes = X[order], CODES[order]
    labels = ChunkedLabels(
        ChunkedRecords(chunked(records, (120, 130, 250)), (3, 3)), codes
    )
    means = [mean for mean, _ in labels.moments(PublicBall(TENSORS, np.eye(3), 0.4))]
    for code, mean in enumerate(means):
        inside = project_to_ball(TENSORS, np.eye(3), 0.4, records[codes == code])
        assert float(
            TENSORS.dist(mean, frechet_mean(TENSORS, inside))
        ) <= 2 * solver_error(TENSORS, 0.4)


def test_paid_once_and_certified(tmp_path):
    ledger = Ledger(tmp_path / "x.ledger", GDP(1.0))
    model = PrivateMDM(TENSORS, radius=0.4, guarantee=GDP(0.8), ledger=ledger).fit(
        chunked(X, (250, 250)), CODES
    )
    assert [entry.guarantee for entry in ledger.entries] == [GDP(0.8)]
    assert len(model.certificates_) == 3
    assert all(check.holds for check in verify_certificate(model.certificates_[1]))


def test_a_pass_serves_all_classes():
    reads = []

    def read(start):
        reads.append(start)
        return X[start : start + 250]

    blocks = [
        da.from_delayed(dask.delayed(read)(start), (250, 3, 3), np.float64)
        for start in (0, 250)
    ]
    one = (
        len(reads),
        classifier().fit(da.concatenate(blocks), np.zeros(500)),
        len(reads),
    )
    ten = (
        len(reads),
        classifier().fit(da.concatenate(blocks), np.arange(500) % 10),
        len(reads),
    )
    assert ten[2] - ten[0] <= 2 * (one[2] - one[0])  # not ten times


def test_the_dearest_class_is_paid_for(tmp_path):
    # For (1, 1e-5) the small class takes Gaussian noise, μ = 0.27, and the large one Laplace noise, μ = 0.62.
    M, y = SPDAffineInvariant(2), np.repeat([0, 1], [2, 30])
    records = cloud(M, 1.0, 32)
    for number, data in enumerate((records, chunked(records, (16, 16)))):
        ledger = Ledger(tmp_path / f"{number}.ledger", GDP(2.0))
        model = PrivateMDM(
            M, radius=1.0, guarantee=ApproxDP(1.0, 1e-5), ledger=ledger
        ).fit(data, y)
        assert [c.mechanism for c in model.certificates_][1] == "tangent-laplace"
        assert ledger.spent.mu > 0.6


# ---- what is post-processing, by chunks ----


def test_predictions_are_lazy_and_those_of_memory():
    model = classifier().fit(X, NAMES)
    lazy = chunked(X, (100, 0, 400))
    for method in (model.predict, model.transform):
        assert method(lazy).chunks[0] == (100, 0, 400)
        assert method(lazy).dtype == method(X).dtype
        np.testing.assert_array_equal(method(lazy).compute(), method(X))
    unknown = lazy[lazy[:, 0, 0] > 0.9]  # how many are asked for need not be known
    assert len(model.predict(unknown).compute()) == np.sum(X[:, 0, 0] > 0.9)
    assert model.score(lazy, chunked(NAMES, (500,))) == model.score(X, NAMES)
    with pytest.raises(ParameterError, match="cut through a record"):
        model.predict(lazy.rechunk((100, 2, 3)))


def test_coordinates_in_a_private_subspace_are_lazy():
    rows = np.random.default_rng(0).normal(size=(100, 4))
    pca = PrivatePCA(2, radius=5.0).fit(rows)
    lazy = chunked(rows, (40, 60))
    assert pca.transform(lazy).chunks == ((40, 60), (2,))
    np.testing.assert_allclose(
        pca.transform(lazy).compute(), pca.transform(rows), rtol=1e-13, atol=1e-13
    )
    with pytest.raises(ParameterError, match="shape"):
        pca.transform(lazy[:, :3])


# ---- refusals ----


def short():
    return da.concatenate(
        [
            da.from_delayed(dask.delayed(np.zeros)((90, 3, 3)), (100, 3, 3), float),
            da.zeros((400, 3, 3)),
        ]
    )


class Fickle:
    """Labels that are others the second time they are read."""

    def __init__(self):
        self.reads = 0

    def __call__(self, block):
        self.reads += 1
        return block if self.reads == 1 else 1 - block


@pytest.mark.parametrize(
    ("data", "labels", "message"),
    [
        (X, CODES[:-1], "each record needs one label"),
        (X, da.zeros(501), "each record needs one label"),
        (X, da.zeros((500, 1)), "each record needs one label"),
        (X, (y := da.zeros(500, chunks=100))[y == 0], "one label|unknown size"),
        (X, np.where(CODES == 0, np.nan, CODES), "NaN"),
        (X, chunked(np.where(CODES == 0, np.nan, CODES), (250, 250)), "NaN"),
        (X, np.array([None, "a"] * 250, dtype=object), "missing"),
        (X, chunked(np.array([None, "a"] * 250, dtype=object), (250, 250)), "no order"),
        (X, [[1], [2, 3]], "array of labels"),
        (X, np.r_[np.zeros(499), 1], "has one record"),
        (
            X,
            da.zeros(500, chunks=250, dtype=int).map_blocks(
                Fickle(), dtype=int, meta=np.empty(0, int)
            ),
            "same labels",
        ),
        (short(), CODES, "90 records and 100 labels"),
    ],
)
def test_refusals_are_one_line_and_spend_nothing(tmp_path, data, labels, message):
    ledger = Ledger(tmp_path / "x.ledger", GDP(3.0))
    lazy = chunked(data, (250, 250)) if isinstance(data, np.ndarray) else data
    with pytest.raises(ParameterError, match=message) as caught:
        classifier(ledger=ledger).fit(lazy, labels)
    assert "\n" not in str(caught.value)
    assert ledger.spent is None


def test_what_needs_records_in_memory_says_so(tmp_path):
    M, ledger = Sphere(2), Ledger(tmp_path / "x.ledger", PureDP(3.0))
    model = PrivateGeodesicRegression(
        M,
        radius=0.8,
        speed=1.5,
        clip=0.3,
        guarantee=PureDP(1.0),
        ledger=ledger,
        x_range=(0, 1),
    )
    x, Y = np.linspace(0, 1, 50), np.tile(M.origin, (50, 1))
    for predictors, responses, name in (
        (x, da.from_array(Y), "Y"),
        (da.from_array(x), Y, "x"),
    ):
        with pytest.raises(
            ParameterError, match=rf"{name} is a dask array.*{name}\.compute\(\)"
        ):
            model.fit(predictors, responses)
    assert ledger.spent is None
    mean = FrechetMeanProblem(M)
    for descend in (
        partial(dp_rsgd, steps=2, batch_size=10, clip=0.5),
        partial(dp_rsvrg, epochs=1, inner_steps=2, clip=(0.5, 0.5)),
    ):
        with pytest.raises(
            ParameterError, match=r"data is a dask array.*data\.compute\(\)"
        ):
            descend(
                mean, da.from_array(Y), M.origin, learning_rate=0.5, guarantee=GDP(1.0)
            )

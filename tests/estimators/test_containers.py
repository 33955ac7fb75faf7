"""What lists, tables, object and masked arrays hold is data: nobody that reads records may refuse because of it."""

import numpy as np
import pytest

from curvedp import (
    GDP,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateFrechetMedian,
    PrivateGeodesicRegression,
    PrivateMDM,
    PrivatePCA,
    PrivateTangentSpace,
    PureDP,
)
from curvedp.errors import ParameterError
from curvedp.federated import MeanKernel, Plan, Site, key_of, new_identity
from curvedp.geometry import Sphere
from curvedp.inference import k_sample_test, paired_test, two_sample_test
from curvedp.mechanisms import KNGMechanism
from curvedp.optim import (
    FrechetMeanProblem,
    LeadingEigenvectorProblem,
    Problem,
    dp_rgd,
    dp_rsgd,
    dp_rsvrg,
)

pandas = pytest.importorskip("pandas")

N, S = 40, Sphere(2)
GOOD = np.asarray(
    S.from_normal_coordinates(
        S.origin, 0.2 * np.random.default_rng(0).standard_normal((N, 2))
    )
)
KEYS = new_identity(), new_identity()
DESCENT = {"clip": 1.0, "learning_rate": 0.5, "noise": 0.1}


def changed(row):
    """A list of lists with one record replaced."""
    return [*GOOD[:3].tolist(), row, *GOOD[4:].tolist()]


def frame(value, kind):
    found = pandas.DataFrame(GOOD, columns=list("abc")).astype(kind)
    found.iloc[3, 0] = value
    return found


def objects(value):
    found = np.array(GOOD, dtype=object)
    found[3, 0] = value
    return found


CONTAINERS = {
    "no cell": changed([None, 0, 0]),
    "text": changed(["x", "y", "z"]),
    "complex": changed([1j, 0, 0]),
    "huge": changed([10**400, 0, 0]),
    "objects": objects(None),
    "text in objects": objects("n/a"),
    "masked": np.ma.MaskedArray(GOOD, np.arange(N)[:, None] * [1, 1, 1] == 3),
    "frame": frame(np.nan, float),
    "text in a frame": frame("oops", object),
    "nothing in a frame": frame(pandas.NA, "Float64"),
}
RAGGED = {"no record": changed(None), "short": changed([1.0, 0.0])}

READERS = {
    "mean": lambda X: PrivateFrechetMean(S, radius=0.7).fit(X),
    "mean in a private ball": lambda X: PrivateFrechetMean(
        S, radius="private", guarantee=GDP(4.0)
    ).fit(X),
    "mean of persons": lambda X: PrivateFrechetMean(S, radius=0.7).fit(
        X, groups=np.arange(N) // 2
    ),
    "n private": lambda X: PrivateFrechetMean(
        S, radius=0.7, guarantee=GDP(1.0, adjacency="add-remove")
    ).fit(X),
    "median": lambda X: PrivateFrechetMedian(S, radius=0.7).fit(X),
    "dispersion": lambda X: PrivateDispersion(S, radius=0.7).fit(X),
    "classes": lambda X: (
        PrivateMDM(S, radius=0.7).fit(X, np.arange(N) % 2).predict_proba(X)
    ),
    "tangents": lambda X: PrivateTangentSpace(S, radius=0.7).fit(X).transform(X),
    "geodesic": lambda X: PrivateGeodesicRegression(
        S, radius=0.7, speed=0.5, clip=0.5, x_range=(0, 1)
    ).fit(np.linspace(0, 1, N), X),
    "two samples": lambda X: two_sample_test(S, X, GOOD, radius=0.7),
    "k samples": lambda X: k_sample_test(S, [GOOD, X, GOOD], radius=0.7),
    "pairs": lambda X: paired_test(S, GOOD, X, radius=0.7),
    "descent": lambda X: dp_rgd(FrechetMeanProblem(S), X, S.origin, steps=2, **DESCENT),
    "batches": lambda X: dp_rsgd(
        LeadingEigenvectorProblem(3), X, S.origin, steps=2, batch_size=4, **DESCENT
    ),
    "epochs": lambda X: dp_rsvrg(
        FrechetMeanProblem(S),
        X,
        S.origin,
        epochs=1,
        inner_steps=2,
        batch_size=4,
        **{**DESCENT, "clip": (1.0, 1.0), "noise": (0.1, 0.1)},
    ),
    "mechanism": lambda X: KNGMechanism.calibrated(
        S, None, 0.7, N, PureDP(1.0)
    ).release(X),
    "site": lambda X: Site(
        Plan(MeanKernel(S, 0.7), [key_of(key) for key in KEYS], [N, N], GDP(1.0)),
        KEYS[0],
        X,
    ),
    # The width of a record is a public parameter here, because lists do not have one.
    "components": lambda X: PrivatePCA(radius=1.0, features=3).fit(X),
}

# These readers have no public width for the rows of a list, so they refuse every list.
READERS_WITHOUT_WIDTH = {
    "components": lambda X: PrivatePCA(radius=1.0).fit(X),
    "a loss of one's own": lambda X: dp_rgd(
        Problem(S, lambda w, z: ((w - z) ** 2).sum()), X, S.origin, steps=2, **DESCENT
    ),
}


@pytest.mark.filterwarnings("ignore::curvedp.ReleaseWarning")
@pytest.mark.parametrize("reader", READERS)
def test_no_record_is_a_reason_to_refuse(reader):
    for X in (CONTAINERS | RAGGED).values():
        READERS[reader](X)


@pytest.mark.filterwarnings("ignore::curvedp.ReleaseWarning")
@pytest.mark.parametrize("reader", READERS_WITHOUT_WIDTH)
def test_without_a_public_width_no_record_decides_whether_the_others_are_read(reader):
    """Every array and frame is read, and every list is refused with the same message."""
    messages = set()
    for X in (CONTAINERS | RAGGED | {"equal rows": GOOD.tolist()}).values():
        if not isinstance(X, list):
            READERS_WITHOUT_WIDTH[reader](X)
            continue
        with pytest.raises(ParameterError) as refusal:
            READERS_WITHOUT_WIDTH[reader](X)
        messages.add(str(refusal.value))
    assert len(messages) == 1


class Unreadable:
    def __array__(self, *_, **__):
        raise RuntimeError("a value of the data")


def test_predictors_are_data_too():
    times = np.linspace(0, 1, N).tolist()
    for odd in (None, "soon", 1j, 10**400, [0.1, 0.2], Unreadable()):
        line = PrivateGeodesicRegression(
            S, radius=0.7, speed=0.5, clip=0.5, x_range=(0, 1)
        )
        line.fit([odd, *times[1:]], GOOD)
        line.fit([[odd, 0.5], *([time, 0.5] for time in times[1:])], GOOD)
        line.fit([odd, *([time, 0.5] for time in times[1:])], GOOD)


def test_a_hidden_record_stays_hidden():
    """What a mask hides is not read: NaN, and so the start."""
    wild = np.ma.MaskedArray(
        np.where(np.arange(N)[:, None] == 3, [0.0, 0.0, 1.0], GOOD),
        np.arange(N)[:, None] * [1, 1, 1] == 3,
    )
    missing = np.where(np.arange(N)[:, None] == 3, np.nan, GOOD)
    options = {"steps": 3, **DESCENT}
    found, same = (
        dp_rgd(
            FrechetMeanProblem(S), X, S.origin, rng=np.random.default_rng(0), **options
        ).point
        for X in (wild, missing)
    )
    np.testing.assert_array_equal(found, same)


def test_principal_coordinates_come_as_frames():
    pytest.importorskip("pandas", reason="a test of pandas' frames")
    X = np.random.default_rng(0).normal(size=(60, 4))
    pca = PrivatePCA(2, radius=3.0).set_output(transform="pandas")
    assert (
        list(pca.fit_transform(X).columns)
        == list(pca.get_feature_names_out())
        == ["pca0", "pca1"]
    )

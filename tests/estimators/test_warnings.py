"""A release that is odd says so when it is made, in one `ReleaseWarning` for each alarm; one that is not says nothing."""

import warnings

import numpy as np
import pytest

import curvedp.estimators
from curvedp import GDP, Ledger, PrivateKMeans, ReleaseWarning
from curvedp.geometry import Euclidean, SPDAffineInvariant, Sphere
from curvedp.randomness import GeneratorSource
from curvedp.report import write_report
from support.releases import warning_texts

S, RNG = Sphere(2), np.random.default_rng(0)
X = np.asarray(
    S.project(RNG.normal([0.0, 0.0, 5.0], 0.3, (300, 3)))
)  # far from the default center
TIMES, LABELS = RNG.uniform(size=300), np.arange(300) % 2
POLE = [0.0, 0.0, 1.0]
BALL = {"manifold": S, "radius": 0.5}
LINE = {
    **BALL,
    "speed": 1.0,
    "clip": 0.3,
    "x_range": (0, 1),
    "method": "dp-rgd",
    "guarantee": GDP(4.0),
}
PUBLIC = {"source": 0}  # seeded: by chance noise may look like more
ADDED = {"guarantee": GDP(4.0, adjacency="add-remove")}
WISHART = RNG.normal(size=(300, 4, 20))
MATRICES = (WISHART @ WISHART.transpose(0, 2, 1) / 20, LABELS)
DOMAINS = (MATRICES[0], [f"s{label}/left" for label in LABELS])
RECENTER = {"manifold": SPDAffineInvariant(4)}
SMALL = {"manifold": SPDAffineInvariant(4), "reduce": 2}

# estimator, what it is fitted to, what makes it odd, what does not, and what is said; None where nothing is to be seen.
CASES = [
    ("PrivateFrechetMean", (X,), BALL, {**BALL, "center": POLE}, "edge of the ball"),
    (
        "PrivateFrechetMean",
        (X,),
        {**BALL, **ADDED},
        {**BALL, **ADDED, "center": POLE},
        "edge of the ball",
    ),
    (
        "PrivateFrechetMean",
        (X,),
        {**BALL, "radius": "private", "outer_radius": 1.0},
        {**BALL, "radius": "private"},
        "outer ball",
    ),
    ("PrivateTangentSpace", (X,), BALL, {**BALL, "center": POLE}, "edge of the ball"),
    (
        "PrivateFrechetMedian",
        (X,),
        BALL,
        {**BALL, "center": POLE},
        "edge of the outer ball",
    ),
    (
        "PrivateDispersion",
        (X,),
        {**BALL, **PUBLIC, "guarantee": GDP(0.2)},
        {**BALL, "center": POLE, "guarantee": GDP(9.0)},
        "noise alone",
    ),
    (
        "PrivateDispersion",
        (X,),
        {**BALL, **PUBLIC},
        {**BALL, "radius": "private", "guarantee": GDP(9.0)},
        "misplaced",
    ),
    ("PrivateMDM", (X, LABELS), BALL, {**BALL, "center": POLE}, "edge of the ball"),
    ("PrivateMDM", MATRICES, None, {**SMALL, "radius": 2.0}, None),
    (
        "PrivatePrototypes",
        (X, LABELS),
        BALL,
        {**BALL, "center": POLE},
        "edge of the ball",
    ),
    (
        "PrivateTangentPCA",
        (X,),
        {**BALL, "guarantee": GDP(9.0)},  # takes two steps, which have an outer ball
        {**BALL, "center": POLE, "n_components": 1, "guarantee": GDP(9.0)},
        "edge of the outer ball",
    ),
    *(
        (
            "PrivateSynthesizer",
            (X,),
            {**BALL, "model": model, "guarantee": GDP(2.0)},
            {**BALL, "center": POLE, "model": model, "guarantee": GDP(9.0)},
            "edge of the ball",
        )
        for model in ("wrapped-gaussian", "mixture", "tree")
    ),
    (
        "PrivateKMeans",
        (X,),
        None,
        {"manifold": S, "n_clusters": 2, "guarantee": GDP(9.0)},
        None,
    ),
    ("PrivateSoftmax", MATRICES, None, SMALL, None),
    ("PrivateRecenter", DOMAINS, None, {**RECENTER, "radius": 2.0}, None),
    (
        "PrivatePCA",
        (X,),
        {"radius": 1.0, "guarantee": GDP(0.001), **PUBLIC},
        {"radius": 1.0},
        "directions .* noise dominates",
    ),
    ("PrivatePCA", (X,), None, {"radius": 1.0, "method": "dp-rgd"}, None),
    (
        "PrivateGeodesicRegression",
        (TIMES, X),
        LINE,
        {**LINE, "center": POLE},
        "edge of the ball",
    ),
]


def made(name, options):
    if "source" in options:
        options = {
            **options,
            "source": GeneratorSource(np.random.default_rng(options["source"])),
        }
    return getattr(curvedp.estimators, name)(**options)


def test_every_estimator_is_here():
    assert {case[0] for case in CASES} == {
        name for name in curvedp.estimators.__all__ if name.startswith("Private")
    }


@pytest.mark.parametrize(
    ("name", "data", "odd", "_", "said"),
    [case for case in CASES if case[4] is not None],
)
def test_an_odd_release_is_warned_of_and_kept(name, data, odd, _, said, tmp_path):
    with pytest.warns(ReleaseWarning, match=said) as told:
        fitted = made(name, odd).fit(*data)
    assert {str(each.message) for each in told} == set(warning_texts(fitted))
    assert (
        all(each.filename == __file__ for each in told) or name == "PrivateTangentSpace"
    )  # which calls the mean's fit
    ledger = Ledger(
        tmp_path / "a.ledger",
        GDP(9.0, adjacency=getattr(odd.get("guarantee"), "adjacency", "replace-one")),
    )
    strict = made(name, {**odd, "ledger": ledger})
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(ReleaseWarning, match=said),
    ):
        strict.fit(*data)
    assert len(ledger.entries) == 1
    assert warning_texts(strict)  # what was paid for is there


# Drawn elsewhere: what is released in a given ball in tests/cli, a dispersion in a private one in tests/inference.
PLAIN = {
    "PrivateTangentSpace",
    "PrivateFrechetMedian",
    "PrivateDispersion",
    "PrivateGeodesicRegression",
}


@pytest.mark.parametrize(("name", "data", "_", "good", "__"), CASES)
def test_a_good_release_says_nothing_and_every_one_has_a_page(
    name, data, _, good, __, tmp_path, request
):
    if name in PLAIN or good == {**BALL, "center": POLE}:
        request.getfixturevalue("plain_pictures")
    with warnings.catch_warnings(action="error"):
        fitted = made(name, good).fit(*data)
        assert warning_texts(fitted) == []
        page = fitted._repr_html_()
        assert "<html" in page or "<style" in page
    write_report(tmp_path / "page.html", fitted)
    assert "Privacy guarantee" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("M", [S, SPDAffineInvariant(3)], ids=repr)
def test_a_private_ball_of_unreadable_records_says_so(M):
    """A file that is misread gives nothing but NaN; public balls are the CLI's business."""
    text = "as it would if no record could be read"
    unreadable = np.full((300, *M.point_shape), np.nan)
    mean = curvedp.estimators.PrivateFrechetMean(M, radius="private")
    with pytest.warns(ReleaseWarning, match=text):
        mean.fit(unreadable)
    readable = X if M is S else 20 * MATRICES[0][:, :3, :3]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=f".*{text}")
        warnings.filterwarnings("ignore", category=ReleaseWarning)
        mean.fit(readable)


@pytest.mark.parametrize(
    ("manifold", "outer_radius", "n", "asks"),
    [
        (Euclidean(2), None, 400, True),
        (Euclidean(2), 100.0, 400, False),
        (Euclidean(2), None, 4000, False),
        (Sphere(2), None, 400, False),
    ],
)
def test_a_wide_search_in_flat_space_asks_for_the_outer_radius(
    manifold, outer_radius, n, asks, tmp_path
):
    """Before the ledger is charged: a warning that is an error spends nothing."""
    X = np.random.default_rng(0).normal(size=(n, *manifold.point_shape))
    ledger = Ledger(tmp_path / "x.ledger", GDP(1.0))
    model = PrivateKMeans(
        manifold, n_clusters=2, outer_radius=outer_radius, ledger=ledger
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if asks:
            warnings.filterwarnings("error", message="outer_radius is missing")
            with pytest.raises(ReleaseWarning, match="--outer-radius"):
                model.fit(X)
        else:
            warnings.filterwarnings("error", message="outer_radius is missing")
            model.fit(X)
    assert len(ledger.entries) == (0 if asks else 1)

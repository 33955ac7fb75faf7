"""Local folder first, then the usual downloader, then an error that helps."""

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import PoincareBall
from curvedp.papers import data_sets
from curvedp.papers.data_sets import DATASETS, MissingData, embed_tree, load_dataset


@pytest.fixture(autouse=True)
def no_folder(monkeypatch):
    monkeypatch.delenv("CURVEDP_DATA", raising=False)


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_missing_data_names_set_source_and_option(name, tmp_path):
    with pytest.raises(MissingData) as caught:
        load_dataset(name, tmp_path, download=False)
    entry = DATASETS[name]
    for part in (
        entry.title,
        entry.file,
        entry.source,
        "--data-dir",
        "CURVEDP_DATA",
        str(tmp_path),
    ):
        assert part in str(caught.value)
    assert isinstance(
        caught.value, ParameterError
    )  # one line and exit 2 on the command line


def test_the_folder_comes_before_the_variable_before_the_download(
    tmp_path, monkeypatch
):
    for folder, age in (("given", 1), ("variable", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "apwp_vaes2023_global.csv").write_text(
            f"age,plon,plat\n{age},90,0\n"
        )
    monkeypatch.setenv("CURVEDP_DATA", str(tmp_path / "variable"))
    assert load_dataset("polar-wander", tmp_path / "given")["age"] == [1]
    found = load_dataset("polar-wander")
    assert found["age"] == [2]
    np.testing.assert_allclose(found["pole"], [[0, 1, 0]], atol=1e-15)


def test_wine_by_openml(monkeypatch):
    def fetch(**which):
        assert which["data_id"] == 40691
        names = [f"a_{i}" for i in range(11)]
        return SimpleNamespace(
            data=np.ones((rows, 11)), target=np.array(["5"] * rows), feature_names=names
        )

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    rows = 1599
    table = load_dataset("wine")
    assert (table["quality"] == 5).all()
    assert set(table) == {"quality", *(f"a {i}" for i in range(11))}
    rows = 7  # something else of that number: refused, not used
    with pytest.raises(
        MissingData,
        match=r"Wine Quality .* did not work either: OpenML sent .*\(7, 11\)",
    ):
        load_dataset("wine")


def test_pathmnist_by_medmnist(monkeypatch):
    labels = np.array([[0], [1], [5], [0]])
    found = SimpleNamespace(
        labels=labels, imgs=np.arange(4)[:, None, None, None] * np.ones((1, 28, 28, 3))
    )
    monkeypatch.setitem(
        sys.modules,
        "medmnist",
        SimpleNamespace(PathMNIST=lambda split, download: found),
    )
    table = load_dataset("pathmnist")
    assert table["labels"].tolist() == [0, 1, 0]
    assert table["images"][:, 0, 0, 0].tolist() == [0, 1, 3]
    monkeypatch.setitem(sys.modules, "medmnist", None)  # not installed
    with pytest.raises(MissingData, match=r"package medmnist.*did not work either"):
        load_dataset("pathmnist")


def test_no_network_is_missing_data(monkeypatch):
    def fetch(**which):
        raise OSError("no route\nto host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    with pytest.raises(MissingData, match="no route to host"):
        load_dataset("mnist")


def test_every_edge_of_an_embedded_tree_is_as_long_as_said():
    """A random tree: edges `length` long by the disc's own distance, and siblings apart."""
    rng = np.random.default_rng(0)
    parents = [-1, *(int(rng.integers(i)) for i in range(1, 60))]
    points = embed_tree(parents, 1.3)
    edges = PoincareBall(2).dist(points[parents[1:]], points[1:])
    np.testing.assert_allclose(edges, 1.3, rtol=1e-6)
    pairs = PoincareBall(2).dist(points[:, None], points[None])
    assert pairs[~np.eye(60, dtype=bool)].min() > 0.1
    assert math.isclose(
        float(np.linalg.norm(points[1])), math.tanh(0.65), rel_tol=1e-12
    )


def test_names_are_the_modules():
    assert set(data_sets.__all__) <= set(vars(data_sets))

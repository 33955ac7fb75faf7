"""Mean tensors of the regions of an atlas over people: one release, with FA and MD."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from curvedp import GDP, Ledger, PureDP
from curvedp.cli import app
from curvedp.errors import ParameterError
from curvedp.neuro import PrivateRegionTensors, plot_regions, read_region_tensors
from curvedp.neuro.regions import (
    _matrix_exponentials,
    _matrix_logarithms,
    _to_matrix,
    _to_vector,
    fa_bounds,
    fractional_anisotropy,
    md_bounds,
    mean_diffusivity,
)
from curvedp.randomness import GeneratorSource
from curvedp.release.verify import verify_certificate

REGIONS = ["genu", "body", "splenium"]


def cohort(n, seed=0):
    """Tensors in mm²/s of three regions, the person's own level included."""
    rng = np.random.default_rng(seed)
    axes = np.log([[1.6, 0.4, 0.3], [1.4, 0.5, 0.4], [0.9, 0.7, 0.6]])
    logs = np.zeros((n, 3, 3, 3))
    logs[..., range(3), range(3)] = axes
    own = 0.1 * rng.normal(size=(n, 3, 3, 3))
    logs = logs + (own + np.swapaxes(own, -1, -2)) / 2
    return 1e-3 * _matrix_exponentials(
        logs + 0.05 * rng.normal(size=(n, 1, 1, 1)) * np.eye(3)
    )


T = cohort(200)


def simulated(seed):
    return GeneratorSource(np.random.default_rng(seed))


def test_vectors_are_isometric_to_logarithms():
    logs = _matrix_logarithms(T[:5])
    vectors = _to_vector(logs)
    np.testing.assert_allclose(_to_matrix(vectors), logs, atol=1e-12)
    np.testing.assert_allclose(
        np.linalg.norm(vectors, axis=-1), np.linalg.norm(logs, axis=(-2, -1))
    )
    np.testing.assert_allclose(_matrix_exponentials(logs), T[:5], rtol=1e-9)


def test_one_release_for_all_regions(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(1.0))
    model = PrivateRegionTensors(ledger=ledger)
    model.fit(T, groups=np.arange(200), regions=REGIONS)
    assert len(ledger.entries) == 1
    assert ledger.spent == GDP(1.0)
    assert model.certificate_.privacy_unit == "person"
    assert all(c.holds is not False for c in verify_certificate(model.certificate_))
    assert len(model.releases) == 1
    truth = _matrix_exponentials(_matrix_logarithms(T).mean(axis=0))
    for row, tensor in zip(model.table(), truth, strict=True):
        assert row.fa == pytest.approx(fractional_anisotropy(tensor), abs=0.03)
        assert row.md == pytest.approx(mean_diffusivity(tensor), rel=0.05)
        assert row.fa_low <= row.fa <= row.fa_high
        assert row.md_low <= row.md <= row.md_high
    model.write_table(tmp_path / "a.tsv")
    with (tmp_path / "a.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [row["region"] for row in rows] == REGIONS
    assert float(rows[0]["dxx"]) > float(rows[0]["dyy"])


@pytest.mark.parametrize(("n", "radius"), [(200, 2.0), (25, 4.0)])
def test_error_bars_hold_at_once(n, radius):
    """Also where noise is so large that FA is far from linear: there an interval from a linear
    approximation held all numbers in 73% of releases."""
    tensors = T[:n]
    truth = _matrix_exponentials(_matrix_logarithms(tensors).mean(axis=0))
    fa, md = fractional_anisotropy(truth), mean_diffusivity(truth)
    hits, half = 0, 0
    for seed in range(60):
        model = PrivateRegionTensors(radius=radius, source=simulated(seed)).fit(tensors)
        held = [
            [
                row.fa_low <= fa[k] <= row.fa_high
                and row.md_low <= md[k] <= row.md_high
                for k, row in enumerate(model.table(level))
            ]
            for level in (0.95, 1e-6)
        ]
        hits += all(held[0])
        half += all(held[1])
    assert hits >= 55
    assert half < 40


@pytest.mark.parametrize("radius", [0.01, 0.1, 0.5, 2.0])
def test_no_tensor_near_a_tensor_has_fa_or_md_beyond_the_bounds(radius):
    """Theorem I10, by random and by commuting perturbations of the logarithm; with half of the radius it fails."""
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(3, 3))
    logs = np.diag([0.4, -0.2, -0.5]) + 0.1 * (logs + logs.T)
    changes = rng.normal(size=(4000, 3, 3))
    changes += changes.swapaxes(1, 2)
    eigenvalues, vectors = np.linalg.eigh(logs)
    own = rng.normal(size=(4000, 3))
    changes[:2000] = (vectors * own[:2000, None, :]) @ vectors.T
    changes *= radius / np.linalg.norm(changes, axis=(1, 2), keepdims=True)
    near = _matrix_exponentials(logs + changes)
    fa, md = fractional_anisotropy(near), mean_diffusivity(near)
    fa_low, fa_high = fa_bounds(eigenvalues, radius)
    md_low, md_high = md_bounds(eigenvalues, radius)
    assert fa_low <= fa.min()
    assert fa.max() <= fa_high
    assert md_low <= md.min()
    assert md.max() <= md_high
    # they are not much wider than what was found
    assert fa_high - fa_low < 1.1 * (fa.max() - fa.min()) + 0.02 * radius
    assert np.log(md_high / md_low) < 2.5 * np.log(md.max() / md.min())
    narrow_low, narrow_high = md_bounds(eigenvalues, radius / 2)
    assert md.min() < narrow_low or md.max() > narrow_high


def test_population_bars_are_wider_and_need_the_spread():
    model = PrivateRegionTensors().fit(T)
    spread = _to_vector(_matrix_logarithms(T)).std(axis=0).mean() / np.sqrt(200)
    assert 0.5 * spread < model.sampling_error_ < 2 * spread
    records, population = model.table(), model.table(of="population")
    assert all(
        b.md_high - b.md_low > a.md_high - a.md_low
        for a, b in zip(records, population, strict=True)
    )
    pure = PrivateRegionTensors(guarantee=PureDP(8.0)).fit(T)
    assert pure.table()
    with pytest.raises(ParameterError, match="spread"):
        pure.table(of="population")


@pytest.mark.filterwarnings("ignore::curvedp.errors.ReleaseWarning")
def test_a_person_moves_all_regions_by_no_more_than_the_sensitivity():
    """All regions of one person change at once. Regions that were released in parallel, each with the whole
    budget, would move by √3 of it."""
    rng = np.random.default_rng(0)
    odd = [
        np.full((3, 3, 3), np.nan), np.zeros((3, 3, 3)), np.full((3, 3, 3), 1e300),
        np.tile(1e-300 * np.eye(3), (3, 1, 1)), np.tile(1e3 * np.eye(3), (3, 1, 1)),
        *rng.normal(size=(20, 3, 3, 3)),
    ]  # fmt: skip
    base = PrivateRegionTensors(radius=1.0, source=simulated(1)).fit(T[:40])
    largest = 0.0
    for record in odd:
        other = T[:40].copy()
        other[5] = record
        model = PrivateRegionTensors(radius=1.0, source=simulated(1)).fit(other)
        largest = max(largest, np.linalg.norm(model._noisy.value - base._noisy.value))
    assert 0.02 < largest <= 2 * 1.0 / 40 * (1 + 1e-9)


def test_one_unreadable_region_leaves_the_others():
    holes = T.copy()
    holes[::2, 1] = np.nan
    model = PrivateRegionTensors(radius=2.0, guarantee=GDP(50.0)).fit(holes)
    truth = _matrix_exponentials(_matrix_logarithms(T).mean(axis=0))
    np.testing.assert_allclose(model.tensors_[0], truth[0], atol=1e-4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"typical_diffusivity": 0.0}, "typical_diffusivity"),
        ({"radius": "wide"}, "radius"),
        ({"center": np.eye(3)}, "center"),
        ({"center": np.zeros((3, 3, 3))}, "center"),
        ({"guarantee": GDP(1.0, adjacency="add-remove")}, "adjacency"),
    ],
)
def test_refusals_spend_nothing(options, said, tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(9.0))
    with pytest.raises(ParameterError, match=said):
        PrivateRegionTensors(ledger=ledger, **options).fit(T)
    with pytest.raises(ParameterError, match="name each"):
        PrivateRegionTensors(ledger=ledger).fit(T, regions=["a"])
    with pytest.raises(ParameterError, match="shape"):
        PrivateRegionTensors(ledger=ledger).fit(T[:, 0])
    assert not ledger.entries


def volumes_of(tensors, atlas):
    """A volume of six numbers a voxel for each person, in the order of DIPY."""
    rows, columns = np.tril_indices(3)
    volumes = np.zeros((len(tensors), *atlas.shape, 6))
    for region in range(3):
        six = tensors[:, region][:, rows, columns]
        volumes[:, atlas == region + 1] = six[:, None]
    return volumes


ATLAS = np.zeros((4, 4, 3), dtype=np.int16)
ATLAS[0], ATLAS[1], ATLAS[2] = 1, 2, 3


def test_volumes_are_averaged_within_the_regions_of_an_atlas():
    volumes = volumes_of(T[:6], ATLAS)
    volumes[0, 0, 0, 0] = np.nan  # one voxel of 12 is no tensor
    volumes[1, ATLAS == 2] = 0.0  # a region outside of the scan
    found = read_region_tensors(
        list(volumes), ATLAS, names={1: "genu", 2: "body", 3: "x"}
    )
    assert found.regions == ["genu", "body", "x"]
    np.testing.assert_allclose(found.tensors[0], T[0], rtol=1e-9)
    assert np.isnan(found.tensors[1, 1]).all()
    full = np.zeros((*ATLAS.shape, 3, 3))
    full[ATLAS > 0] = T[0, ATLAS[ATLAS > 0] - 1]
    again = read_region_tensors([full], ATLAS)
    np.testing.assert_allclose(again.tensors[0], T[0], rtol=1e-9)
    for labels, said in (
        (np.zeros((4, 4)), "three axes"),
        (ATLAS + 0.5, "whole"),
        (0 * ATLAS, "region"),
    ):
        with pytest.raises(ParameterError, match=said):
            read_region_tensors(list(volumes), labels)
    with pytest.raises(ParameterError, match="mask"):
        read_region_tensors(list(volumes), ATLAS[:3])


def test_the_command_releases_volumes(tmp_path, monkeypatch):
    nibabel = pytest.importorskip("nibabel")
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    names = []
    for number, volume in enumerate(volumes_of(T[:60], ATLAS)):
        names.append(f"sub-{number:02d}_tensor.nii.gz")
        nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), names[-1])
    nibabel.save(nibabel.Nifti1Image(ATLAS, np.eye(4)), "atlas.nii.gz")
    (tmp_path / "names.tsv").write_text("index\tname\n1\tgenu\n2\tbody\n3\tsplenium\n")
    arguments = ["release", "regions", *names, "--labels", "atlas.nii.gz", "--mu", "2"]
    outputs = "--names names.tsv --out a.tsv --plot a.png --certificate c.json"
    done = CliRunner().invoke(app, [*arguments, *outputs.split()])
    assert done.exit_code == 0, done.output
    assert "60 people" in done.output
    assert "splenium" in (tmp_path / "a.tsv").read_text()
    assert (tmp_path / "a.png").stat().st_size > 5_000
    certificate = json.loads((tmp_path / "c.json").read_text())
    assert certificate["privacy_unit"] == "person"
    refused = CliRunner().invoke(app, [*arguments, "--out", names[0]])
    assert refused.exit_code == 2


def test_no_regions_are_no_picture():
    with pytest.raises(ParameterError, match="no regions"):
        plot_regions([])

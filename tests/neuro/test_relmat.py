"""Folders of connectivity matrices as BIDS and XCP-D leave them, read and written."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from curvedp.cli import app
from curvedp.errors import ParameterError
from curvedp.neuro import networks_of, read_connectomes, read_relmat, write_relmat

NAMES = [f"7Networks_LH_{name}_{k}" for name in ("Vis", "Default") for k in (1, 2)]


def write_matrix(path, matrix, names=NAMES):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        "\t".join([name, *map(str, row)])
        for name, row in zip(names, matrix, strict=True)
    ]
    path.write_text("\n".join(["\t".join(["Node", *names]), *rows]) + "\n")


def person(number):
    rng = np.random.default_rng(number)
    return np.corrcoef(rng.normal(size=(4, 50)) + rng.normal(size=50))


@pytest.fixture
def folder(tmp_path):
    """Thirty participants; every second one has two sessions, and matrices of parts of the volumes."""
    root = tmp_path / "xcp_d"
    for number in range(30):
        for session in range(1 + number % 2):
            name = f"sub-{number:02d}_ses-{session}_task-rest_space-fsLR_seg-4S4Parcels"
            func = root / f"sub-{number:02d}" / f"ses-{session}" / "func"
            ending = "stat-pearsoncorrelation_relmat.tsv"
            write_matrix(func / f"{name}_{ending}", person(number))
            part = "stat-pearsoncorrelation_desc-100volumes_relmat.tsv"
            write_matrix(func / f"{name}_{part}", np.zeros((4, 4)))
            (func / f"{name}_stat-mean_timeseries.tsv").write_text("1\t2\n")
    return root


def test_a_folder_of_xcp_d_is_read_as_it_is(folder):
    found = read_connectomes(folder)
    assert found.matrices.shape == (45, 4, 4)
    assert found.names == NAMES
    assert len(set(found.subjects)) == 30
    np.testing.assert_allclose(found.matrices[0], person(0))
    parts = read_connectomes(folder, desc="100volumes")
    assert not parts.matrices.any()
    assert len(read_connectomes(folder, ses="1").files) == 15


def test_what_is_public_is_refused_and_named(folder):
    other = folder / "sub-00" / "func" / "sub-00_seg-Gordon_stat-alff_relmat.tsv"
    write_matrix(other, np.eye(4))
    found = read_connectomes(folder)  # alff is no Pearson correlation
    assert len(found.files) == 45
    for options, said in (
        ({"atlas": "Glasser"}, "Gordon"),
        ({"task": "nback"}, "rest"),
        ({"measure": "x"}, "pearsoncorrelation"),
    ):
        with pytest.raises(ParameterError, match=said):
            read_connectomes(folder, **options)
    write_matrix(
        folder / "sub-00_seg-Gordon_stat-pearsoncorrelation_relmat.tsv", np.eye(4)
    )
    with pytest.raises(ParameterError, match="which of"):
        read_connectomes(folder)
    with pytest.raises(ParameterError, match="no folder"):
        read_connectomes(folder / "absent")
    (folder / "empty").mkdir()
    with pytest.raises(ParameterError, match="no connectivity matrices"):
        read_connectomes(folder / "empty")


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\xff\xfe\x00", b"Node\ta\tb\n", b"hello", b"\n\n", b"1\t2\t3\n",
        b"\t".join([b"9" * 400] * 900), "\t".join(["Node", *NAMES]).encode(),
    ],
)  # fmt: skip
def test_contents_are_never_refused_and_change_no_other_record(folder, content):
    """A damaged file is a record of NaN: n, names and all other matrices stay."""
    before = read_connectomes(folder)
    before.files[3].write_bytes(content)
    after = read_connectomes(folder)
    assert after.names == before.names
    assert after.files == before.files
    others = np.arange(45) != 3
    np.testing.assert_array_equal(after.matrices[others], before.matrices[others])
    assert np.isnan(after.matrices[3]).any()


def test_cells_without_a_number_are_nan(folder):
    path = read_connectomes(folder).files[0]
    path.write_text(path.read_text().replace(str(person(0)[1, 0]), "n/a"))
    matrix = read_connectomes(folder).matrices[0]
    assert np.isnan(matrix).sum() == 2  # both triangles
    assert np.isfinite(matrix[2:]).all()


def test_plain_matrices_of_bep017_and_old_names_of_xcp_d(tmp_path):
    for number in range(5):
        stem = tmp_path / f"sub-{number}_atlas-A_meas-PearsonCorrelation"
        np.savetxt(f"{stem}_relmat.dense.tsv", person(number), delimiter="\t")
    found = read_connectomes(tmp_path)
    assert found.names == ["1", "2", "3", "4"]
    np.testing.assert_allclose(found.matrices[4], person(4))
    old = tmp_path / "old"
    write_matrix(
        old / "sub-1_atlas-Gordon_measure-pearsoncorrelation_conmat.tsv", person(1)
    )
    assert read_connectomes(old, atlas="Gordon").names == NAMES


@pytest.mark.parametrize("ending", ["_relmat.tsv", "_relmat.dense.tsv"])
def test_what_is_written_is_read_again(tmp_path, ending):
    path = tmp_path / f"group_task-rest{ending}"
    written = write_relmat(path, person(0), ["a\tb", "c", "d", "e"])
    assert all(each.exists() for each in written)
    matrix, names = read_relmat(path)
    np.testing.assert_allclose(matrix, person(0), atol=1e-8)
    assert names == (["a b", "c", "d", "e"] if ending == "_relmat.tsv" else None)
    sidecar = json.loads((tmp_path / "group_task-rest_relmat.json").read_text())
    assert sidecar["Directed"] is False
    assert sidecar["RelationshipMeasure"] == "PearsonCorrelation"
    with pytest.raises(ParameterError, match=r"_relmat\.tsv"):
        write_relmat(tmp_path / "a.csv", person(0), NAMES)


def test_networks_come_from_names_or_a_table(tmp_path):
    names = [
        "LH_Vis_1",
        "17Networks_RH_DefaultA_PFCd_2",
        "LH-Hippocampus",
        "Cerebellar_1",
    ]
    assert networks_of(names) == ["Vis", "DefaultA", "Other", "Other"]
    with pytest.raises(ParameterError, match="do not tell"):
        networks_of(["V1", "V2"])
    table = tmp_path / "atlas-A_dseg.tsv"
    table.write_text("index\tlabel\tnetwork_label\n1\tV1\tVis\n2\tV2\tn/a\n")
    assert networks_of(["V2", "V1"], table) == ["Other", "Vis"]
    with pytest.raises(ParameterError, match="V3"):
        networks_of(["V3"], table)
    table.write_text("index\tlabel\n")
    with pytest.raises(ParameterError, match="no column"):
        networks_of(["V1"], table)


def test_the_command_releases_a_folder(folder, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    arguments = [
        "release",
        "connectome",
        str(folder),
        "--networks",
        "schaefer",
        "--mu",
        "2",
    ]
    outputs = "--out group_relmat.tsv --plot a.png --certificate c.json --ledger l --budget-mu 3"
    done = CliRunner().invoke(app, [*arguments, *outputs.split()])
    assert done.exit_code == 0, done.output
    assert "30 people" in done.output
    assert "people needed" in done.output
    verified = CliRunner().invoke(app, ["verify", "c.json"])
    assert verified.exit_code == 0
    matrix, names = read_relmat("group_relmat.tsv")
    assert np.isfinite(matrix).all()
    assert len(names) == len(matrix)

    as_json = CliRunner().invoke(app, [*arguments, "--json"])
    assert json.loads(as_json.stdout)["certificate"]["privacy_unit"] == "person"
    for refused in (
        ["--out", "a.csv"],
        ["--atlas", "B"],
        ["--budget-mu", "1"],
        ["--plot", "a.gif"],
    ):
        done = CliRunner().invoke(app, [*arguments, *refused])
        assert done.exit_code == 2, refused
    spent = CliRunner().invoke(app, ["ledger", "show", "l"]).output
    assert "GDP(2.0)" in spent


def test_a_closed_pipe_loses_no_release(folder, tmp_path, monkeypatch):
    """What is paid for is in its files before a printed line can fail."""
    from curvedp.cli import neuro

    def closed(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr(neuro, "_print_connectome", closed)
    certificate = tmp_path / "c.json"
    arguments = ["release", "connectome", str(folder), "--mu", "1", "--certificate"]
    done = CliRunner().invoke(app, [*arguments, str(certificate)])
    assert done.exit_code != 0
    assert json.loads(certificate.read_text())["privacy_unit"] == "person"


def test_tasks_are_not_mixed_without_a_word(folder):
    arguments = ["release", "connectome", str(folder), "--mu", "1"]
    assert "averaged within" not in CliRunner().invoke(app, arguments).output
    for path in read_connectomes(folder).files[:20]:
        name = path.name.replace("task-rest", "task-nback")
        (path.parent / name).write_text(path.read_text())
    both = CliRunner().invoke(app, arguments)
    assert both.exit_code == 0
    assert "nback, rest are averaged" in both.output
    one = CliRunner().invoke(app, [*arguments, "--task", "rest"])
    assert "averaged within" not in one.output


def test_without_a_file_every_edge_is_printed(tmp_path):
    """Edges that are neither printed nor written would be paid for and lost."""
    names = [f"region{number}" for number in range(8)]
    for number in range(30):
        rng = np.random.default_rng(number)
        matrix = np.corrcoef(rng.normal(size=(8, 50)) + rng.normal(size=50))
        write_matrix(tmp_path / f"sub-{number}_relmat.tsv", matrix, names)
    arguments = ["release", "connectome", str(tmp_path), "--mu", "2"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert done.output.count(" – ") == 28
    kept = [*arguments, "--certificate", str(tmp_path / "c.json")]
    assert CliRunner().invoke(app, kept).output.count(" – ") == 20


@pytest.mark.parametrize("measure", ["count", "FisherZ", "covariance"])
def test_what_is_no_correlation_is_refused_before_paying(tmp_path, measure):
    for number in range(5):
        path = tmp_path / f"sub-{number}_stat-{measure}_relmat.tsv"
        write_matrix(path, 200 * person(number))
    arguments = ["release", "connectome", str(tmp_path), "--mu", "1"]
    ledger = tmp_path / "l"
    paid = ["--ledger", str(ledger), "--budget-mu", "3"]
    done = CliRunner().invoke(app, [*arguments, *paid])
    assert done.exit_code == 2
    assert measure in done.output
    assert not ledger.exists()


def test_regions_are_placed_by_their_names(folder):
    """A file with the same regions in another order is the same record; missing regions are NaN."""
    before = read_connectomes(folder)
    order = [2, 0, 3, 1]
    path = before.files[4]
    matrix = before.matrices[4]
    write_matrix(path, matrix[np.ix_(order, order)], [NAMES[k] for k in order])
    np.testing.assert_array_equal(read_connectomes(folder).matrices, before.matrices)
    write_matrix(path, matrix[:3, :3], NAMES[:3])
    short = read_connectomes(folder)
    assert np.isnan(short.matrices[4][3]).all()
    np.testing.assert_array_equal(short.matrices[4][:3, :3], matrix[:3, :3])


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("style", ["index", "Node", "header", "R"])
def test_regions_may_have_numbers_for_names(tmp_path, style, start):
    """Tables as pandas and R write them: no name is taken for a correlation."""
    matrix = person(2)
    names = [str(start + number) for number in range(4)]
    heads = {"index": ["", *names], "Node": ["Node", *names]}
    rows = [[f"{value:g}" for value in row] for row in matrix]
    if style != "header":
        rows = [[name, *row] for name, row in zip(names, rows, strict=True)]
    lines = [heads.get(style, names), *rows]
    path = tmp_path / "sub-1_relmat.tsv"
    path.write_text("\n".join("\t".join(line) for line in lines))
    found = read_connectomes(tmp_path)
    assert found.names == names
    np.testing.assert_allclose(found.matrices[0], matrix, atol=1e-5)


@pytest.mark.parametrize("corner", ["", "0.1", "n/a", "1"])
def test_a_plain_matrix_is_no_table_with_names(tmp_path, corner):
    """An empty or missing diagonal, and lines of whole numbers, name no region."""
    lines = [[corner, "0.3", "0.5"], ["0.3", corner, "0.4"], ["0.5", "0.4", corner]]
    path = tmp_path / "sub-1_relmat.tsv"
    path.write_text("\n".join("\t".join(line) for line in lines))
    assert read_relmat(path)[1] is None
    found = read_connectomes(tmp_path)
    assert found.matrices.shape == (1, 3, 3)
    assert found.matrices[0, 1, 2] == 0.4
    np.savetxt(path, np.eye(3, dtype=int), fmt="%d", delimiter="\t")
    assert read_relmat(path)[1] is None


def test_each_participant_has_one_vote_about_the_regions(tmp_path):
    """One participant with many files does not decide which regions there are; with names= nobody does."""
    other = [f"other_{k}" for k in range(6)]
    for run in range(9):
        write_matrix(tmp_path / f"sub-a_run-{run}_relmat.tsv", np.eye(6), other)
    for number in range(3):
        write_matrix(tmp_path / f"sub-{number}_relmat.tsv", person(number))
    assert read_connectomes(tmp_path).names == NAMES
    assert read_connectomes(tmp_path, names=NAMES[:2]).matrices.shape == (12, 2, 2)
    named = read_connectomes(tmp_path, names=other)
    assert named.names == other
    assert np.isnan(named.matrices[0]).all()


def test_a_participant_without_a_label_is_refused_and_large_files_are_records(
    folder, monkeypatch
):
    from curvedp.neuro import relmat

    before = read_connectomes(folder)
    before.files[0].write_bytes(b"0" * 30_000)
    monkeypatch.setattr(relmat, "_MAX_BYTES", 20_000)
    assert np.isnan(read_connectomes(folder).matrices[0]).all()
    write_matrix(
        folder / "sub-_seg-4S4Parcels_stat-pearsoncorrelation_relmat.tsv", np.eye(4)
    )
    with pytest.raises(ParameterError, match="sub-LABEL"):
        read_connectomes(folder)


def test_one_triangle_is_enough():
    from curvedp.neuro import fisher_z

    upper = np.where(np.tri(4, k=-1, dtype=bool), np.nan, person(1))
    np.testing.assert_allclose(fisher_z(upper), fisher_z(person(1)))


def test_the_command_plans_without_data():
    arguments = "plan-connectome -n 86 --regions 28 --networks 7 --error 0.02 --mu 1"
    done = CliRunner().invoke(app, arguments.split())
    assert done.exit_code == 0, done.output
    assert "28 networks" not in done.output
    assert "people for 0.02" in done.output
    plan = json.loads(CliRunner().invoke(app, [*arguments.split(), "--json"]).stdout)
    assert plan["people_needed"]["networks"] < plan["people_needed"]["regions"]
    bad = CliRunner().invoke(
        app, ["plan-connectome", "-n", "1", "--regions", "28", "--mu", "1"]
    )
    assert bad.exit_code == 2


def test_scans_of_one_participant_are_one_record():
    from curvedp.neuro.relmat import participants_of

    scans = ["a/sub-1_ses-1_dti.nii.gz", "a/sub-1_ses-2_dti.nii.gz", "b/sub-2_dti.nii"]
    assert participants_of(scans) == ["sub-1", "sub-1", "sub-2"]
    assert len(set(participants_of(["a.nii", "b.nii"]))) == 2
    for wrong, said in (
        (["a.nii", "./a.nii"], "twice"),
        (["sub-1_dti.nii", "b.nii"], "sub-LABEL"),
    ):
        with pytest.raises(ParameterError, match=said):
            participants_of(wrong)

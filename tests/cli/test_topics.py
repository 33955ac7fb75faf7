"""`curvedp topics`: vectors in, centers, sizes and phrases out; nothing is paid for what is refused."""

import csv
import json
import sys
from types import ModuleType

import numpy as np
import pytest
from typer.testing import CliRunner

from curvedp import Ledger
from curvedp.adapters.sentences import embed_texts
from curvedp.cli import app
from curvedp.core.certificate import Certificate
from curvedp.release.verify import verify_certificate

PHRASES = ["card lost", "loan rate", "pin blocked", "wire failed"]
SIZE = 12
CENTERS = np.random.default_rng(7).normal(size=(4, SIZE))


def run(*arguments):
    return CliRunner().invoke(app, ["topics", *map(str, arguments)])


@pytest.fixture
def files(tmp_path):
    """Vectors of 1,200 messages by 800 people as csv, npy and parquet, and a vocabulary."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    labels = np.arange(1200) % 4
    X = CENTERS[labels] + 0.4 * rng.normal(size=(1200, SIZE))
    people = np.arange(1200) % 800
    names = [f"e{entry}" for entry in range(SIZE)]
    np.save(tmp_path / "v.npy", X.astype(np.float32))
    table = np.column_stack([people, X])
    header = ",".join(["user_id", *names])
    np.savetxt(tmp_path / "v.csv", table, delimiter=",", header=header, comments="")
    vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(X.ravel()), SIZE)
    columns = {"user_id": pyarrow.array(people), "embedding": vectors}
    parquet.write_table(pyarrow.table(columns), tmp_path / "v.parquet")
    np.savez(tmp_path / "words.npz", phrase=np.array(PHRASES), vectors=3 * CENTERS)
    np.save(tmp_path / "init.npy", CENTERS)
    np.save(tmp_path / "people.npy", people)
    return tmp_path


@pytest.mark.parametrize("ending", ["csv", "parquet", "npy"])
def test_topics_of_people(files, ending):
    """Whatever the file, the four topics are found, named and counted by people; and all of it verifies."""
    groups = files / "people.npy" if ending == "npy" else "user_id"
    result = run(
        files / f"v.{ending}", "--epsilon", 4, "--groups", groups, "-k", 4,
        "--vocabulary", files / "words.npz", "--phrases", 1, "--json",
        "--out", files / "topics.csv", "--certificate", files / "c.json",
        "--plot", files / "p.svg", "--report", files / "r.html",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    released = json.loads(result.stdout)
    named = [topic["phrases"][0]["text"] for topic in released["topics"]]
    assert sorted(named) == PHRASES
    counts = [topic["count"] for topic in released["topics"]]
    assert sum(counts) == pytest.approx(800, abs=100)
    certificate = Certificate.load(files / "c.json")
    assert certificate.guarantee.delta(4.0) <= 1e-6
    assert certificate.statistic["n"] == 800
    assert all(check.holds is not False for check in verify_certificate(certificate))
    with (files / "topics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["phrases"] for row in rows] == named
    assert float(rows[0]["center0"]) == released["topics"][0]["center"][0]
    for phrase in PHRASES:
        assert phrase in (files / "p.svg").read_text()
    assert (
        "Sphere" in (files / "r.html").read_text()
        or "sphere" in (files / "r.html").read_text()
    )


def test_the_column_of_lists_is_that_of_the_vectors(files):
    """A table often has the texts, too: they are not read as numbers, and several columns of lists are refused."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = parquet.read_table(files / "v.parquet")
    texts = pyarrow.array([f"private text {row}" for row in range(len(table))])
    parquet.write_table(table.append_column("text", texts), files / "texts.parquet")
    result = run(
        files / "texts.parquet", "--epsilon", 4, "--groups", "user_id", "-k", 4,
        "--vocabulary", files / "words.npz", "--phrases", 1, "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    named = [
        topic["phrases"][0]["text"] for topic in json.loads(result.stdout)["topics"]
    ]
    assert sorted(named) == PHRASES

    twice = table.append_column("other", table["embedding"])
    parquet.write_table(twice, files / "twice.parquet")
    names = ["user_id", "text", *"xyz"]
    arrays = [table["user_id"], texts, *[pyarrow.array(np.zeros(len(texts)))] * 3]
    parquet.write_table(pyarrow.table(arrays, names), files / "wide.parquet")
    for name in ("twice", "wide"):
        refused = run(files / f"{name}.parquet", "--epsilon", 4, "--groups", "user_id")
        assert refused.exit_code == 2
        assert "--columns is missing" in " ".join(refused.output.split())


def test_an_npy_file_has_no_column_of_persons(files):
    refused = run(files / "v.npy", "--epsilon", 4, "--groups", "user_id")
    assert refused.exit_code == 2
    assert "has none; name an npy file" in " ".join(refused.output.split())


def test_a_private_number_of_people_and_a_ledger(files):
    result = run(
        files / "v.npy", "--mu", 1, "-k", 4, "--private-n", "--init", files / "init.npy",
        "--ledger", files / "l.db", "--budget-mu", 1, "--out", files / "t.npz",
        "--certificate", files / "c.json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "not covered" in result.stdout
    assert "remaining in the ledger: nothing" in result.stdout
    statistic = Certificate.load(files / "c.json").statistic
    assert statistic["n"] is None
    assert len(statistic["starts"]) == 4
    with np.load(files / "t.npz") as released:
        assert released["centers"].shape == (4, SIZE)
        cosines = released["centers"] @ CENTERS.T / np.linalg.norm(CENTERS, axis=1)
    assert cosines.max(axis=1).min() > 0.9


@pytest.mark.parametrize(
    "arguments",
    [
        ["--epsilon", 1, "--text", "words"],
        ["--epsilon", 1, "--vocabulary", "none.npz"],
        ["--epsilon", 1, "--out", "topics.txt"],
        ["--epsilon", 1, "-m", "spd-affine:3"],
        ["--epsilon", 1, "-m", "sphere:5"],
        ["--epsilon", 1, "-k", 0.5],
        ["--epsilon", 1, "-k", 1300],
        ["--epsilon", 1, "--init", "init.npy", "-k", 3],
        ["--epsilon", 1, "--init", "init.npy"],
        ["--epsilon", 1, "--phrases", 0, "--vocabulary", "words.npz"],
        [],
    ],
)
def test_what_is_refused_costs_nothing(files, arguments, monkeypatch):
    monkeypatch.chdir(files)
    result = run("v.npy", *arguments, "--ledger", "l.db", "--budget-mu", 9)
    assert result.exit_code == 2, result.output
    assert not (files / "l.db").exists() or not Ledger(files / "l.db").entries


def test_the_width_must_be_public(tmp_path):
    """Without a header only the records say how many numbers there are, and they are not asked."""
    (tmp_path / "v.csv").write_text("1,0,0\n0,1,0\n")
    refused = run(tmp_path / "v.csv", "--no-header", "--mu", 1)
    assert refused.exit_code == 2
    assert "--manifold is missing" in " ".join(refused.output.split())


def test_lists_of_no_fixed_size_need_a_manifold(tmp_path):
    import pyarrow
    from pyarrow import parquet

    lists = pyarrow.table({"v": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]})
    parquet.write_table(lists, tmp_path / "v.parquet")
    refused = run(tmp_path / "v.parquet", "--mu", 1)
    text = " ".join(refused.output.split())
    assert "--manifold is missing" in text
    assert "no lists of a fixed size" in text


class Encoder:
    """Stands for a model of sentence-transformers: a vector for each first letter."""

    def __init__(self, name, local_files_only):
        assert local_files_only
        if name != "toy":
            raise OSError(name)

    def encode(self, texts, **_):
        places = [ord(text[0]) % 4 if text else 0 for text in texts]
        return CENTERS[places] / np.linalg.norm(CENTERS[places], axis=1, keepdims=True)


def test_texts_are_embedded_by_what_is_installed(tmp_path, monkeypatch):
    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = Encoder
    rows = [f"{word},{index}" for index in range(150) for word in ("abc", "bcd", "")]
    (tmp_path / "t.csv").write_text("\n".join(["text,who", *rows, ""]))
    (tmp_path / "words.txt").write_text("apple\n\nbanana\n")
    asked = [
        tmp_path / "t.csv", "--header", "--text", "text", "--mu", 4, "-k", 3,
        "--vocabulary", tmp_path / "words.txt", "--encoder",
    ]  # fmt: skip
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    assert "sentence-transformers" in run(*asked, "toy").output
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    assert "not on this machine" in " ".join(run(*asked, "other").output.split())
    result = run(*asked, "toy")
    assert result.exit_code == 0, result.output
    assert "apple" in result.stdout


def test_what_was_paid_for_is_printed_where_it_cannot_be_written(files, monkeypatch):
    def is_full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("curvedp.cli.topics.write_atomically", is_full)
    result = run(files / "v.npy", "--mu", 1, "-k", 4, "--out", files / "t.csv")
    assert result.exit_code != 0
    start = result.stdout.index("{")
    certificate = Certificate.from_json(result.stdout[start:])
    assert certificate.mechanism == "kmeans"


def test_a_text_is_embedded_by_itself_whatever_the_others_are(monkeypatch):
    """Padding to the longest text of a batch would change the digits of the others."""
    calls = {}

    class Recorder(Encoder):
        def encode(self, texts, **options):
            calls.update(options, texts=list(texts))
            for text in texts:
                text.encode("utf-8")  # as tokenizers do
            return super().encode(texts)

    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = Recorder
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    cells = ["abc", None, float("nan"), 7, "\ud800", b"x", "x" * 10**6, ["a"]]
    assert embed_texts(cells, "toy").shape == (len(cells), SIZE)
    assert calls["batch_size"] == 1
    assert max(map(len, calls["texts"])) <= 20_000

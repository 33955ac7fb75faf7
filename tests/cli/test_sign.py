"""`curvedp key | sign | verify --key`: whose certificate it is."""

import json
from dataclasses import replace

import numpy as np
import pytest

from curvedp import GDP, Ledger, PrivateFrechetMean, verification
from curvedp.core.certificate import Certificate, is_certificate_signed, seal
from curvedp.geometry import Euclidean
from curvedp.statement.study import QUESTIONS
from support.shell import run

# A curator's answers to the questions of a statement.
ANSWERS = {
    **{name: question.example or "said" for name, question in QUESTIONS.items()},
    **{"curators": ["us"], "authors": ["us"], "publication_date": "2026-11-19"},
}


@pytest.fixture
def signed(tmp_path):
    ledger = Ledger(tmp_path / "l.ledger", GDP(2.0))
    model = PrivateFrechetMean(
        Euclidean(2), radius=1.0, mechanism="tangent-gaussian", ledger=ledger
    )
    model.fit(np.random.default_rng(0).normal(size=(40, 2)) * 0.2).certificate_.save(
        tmp_path / "c.json"
    )
    assert run("key", tmp_path / "me.pem").exit_code == 0
    result = run("sign", tmp_path / "c.json", "--key", tmp_path / "me.pem")
    assert result.exit_code == 0, result.output
    return tmp_path


def one_line(result, code):
    assert result.exit_code == code, result.output
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    return result.stderr


def test_a_signed_certificate_is_confirmed(signed):
    assert (signed / "me.pem").stat().st_mode & 0o777 == 0o600
    text = (signed / "me.pem.pub").read_text().strip()
    for key in (signed / "me.pem.pub", text, text.upper()):
        result = run("verify", signed / "c.json", "--key", key)
        assert result.exit_code == 0, result.output
        assert "signature of" in result.output
    again = json.loads((signed / "c.json").read_text())
    (signed / "c.json").write_text(
        json.dumps(again, sort_keys=True)
    )  # other spaces, another order: the same certificate
    assert run("verify", signed / "c.json", "--key", text).exit_code == 0


def test_others_sign_too_and_a_wrong_key_is_refused(signed):
    run("key", signed / "other.pem")
    one_line(run("verify", signed / "c.json", "--key", signed / "other.pem.pub"), 1)
    assert run("sign", signed / "c.json", "--key", signed / "other.pem").exit_code == 0
    for name in ("me.pem.pub", "other.pem.pub"):
        assert run("verify", signed / "c.json", "--key", signed / name).exit_code == 0
    one_line(run("key", signed / "me.pem"), 2)


def test_what_is_signed_is_what_was_verified(signed, monkeypatch):
    """Not what somebody puts in its place in between, unseen."""
    path, honest = signed / "c.json", Certificate.load(signed / "c.json")
    swapped = seal(
        replace(
            honest,
            provenance=replace(honest.provenance, created="2020-01-01T00:00:00+00:00"),
        )
    )
    run_in_worker = verification.run_in_worker

    def ask_then_swap(*question):
        answer = run_in_worker(*question)
        swapped.save(path)
        return answer

    monkeypatch.setattr(verification, "run_in_worker", ask_then_swap)
    (signed / "c.json.sig").unlink()
    assert run("sign", path, "--key", signed / "me.pem").exit_code == 0
    ((key, sign),) = verification.read_signatures(path).items()
    assert is_certificate_signed(honest, key, sign)
    assert not is_certificate_signed(swapped, key, sign)


def test_no_change_after_signing_is_confirmed(signed):
    """Whatever is changed, and though the SHA-256 is taken anew: ledger's head, integers, words, numbers."""
    key = (signed / "me.pem.pub").read_text().strip()
    record = json.loads((signed / "c.json").read_text())
    changes = [
        ("ledger", {**record["ledger"], "head": "0" * 64}),
        ("ledger", None),
        ("release", {**record["release"], "post_processing": []}),
        ("created", "2020-01-01T00:00:00+00:00"),
        ("statistic", {**record["statistic"], "center": [0.1, 0.0]}),
        ("software", {**record["software"], "curvedp": "9"}),
        ("claims", {**record["claims"], "gdp": 2 * record["claims"]["gdp"]}),
        ("privacy_unit", "person"),
    ]
    for name, new in changes:
        forged = seal(Certificate.from_json(json.dumps({**record, name: new})))
        assert not is_certificate_signed(
            forged,
            key,
            json.loads((signed / "c.json.sig").read_text())["signatures"][key],
        ), name
        forged.save(signed / "c.json")
        one_line(run("verify", signed / "c.json", "--key", key), 1)


def test_what_does_not_hold_is_not_signed(signed):
    record = json.loads((signed / "c.json").read_text())
    record["claims"]["gdp"] *= 0.5
    seal(Certificate.from_json(json.dumps(record))).save(signed / "c.json")
    before = (signed / "c.json.sig").read_bytes()
    assert "not signed" in one_line(
        run("sign", signed / "c.json", "--key", signed / "me.pem"), 1
    )
    assert (signed / "c.json.sig").read_bytes() == before


def test_bad_files_end_in_one_line(signed):
    key = signed / "me.pem.pub"
    for text in (
        "",
        "{}",
        "[]",
        '{"schema": "curvedp-signature/1", "signatures": []}',
        "[" * 100_000,
        "\x00",
    ):
        (signed / "c.json.sig").write_text(text)
        one_line(run("verify", signed / "c.json", "--key", key), 1)
    (signed / "c.json.sig").unlink()
    one_line(run("verify", signed / "c.json", "--key", key), 1)
    for bad in ("zz", signed / "me.pem", "", signed / "none"):
        one_line(run("verify", signed / "c.json", "--key", bad), 2)
    for bad in (signed / "c.json", signed / "none.pem", signed / "me.pem.pub"):
        one_line(run("sign", signed / "c.json", "--key", bad), 2)


def test_the_label_says_how_the_signature_is_checked(signed, tmp_path):
    """It names a key only if that key's signature of every certificate is valid."""
    key = (signed / "me.pem.pub").read_text().strip()
    study = tmp_path / "study.toml"
    study.write_text("\n".join(f"{k} = {json.dumps(v)}" for k, v in ANSWERS.items()))
    command = ("statement", signed / "c.json", "--study", study, "--out", tmp_path)
    assert run(*command).exit_code == 0, run(*command).output
    for name in ("label.html", "worksheet.html"):
        page = (tmp_path / name).read_text()
        assert f"curvedp verify certificate.json --key {key}" in page
        assert "certificate.json.sig" in page

    signatures = json.loads((signed / "c.json.sig").read_text())
    other = "1" * 64
    signatures["signatures"] = {other: signatures["signatures"][key]}
    (signed / "c.json.sig").write_text(json.dumps(signatures))
    assert run(*command).exit_code == 0
    page = (tmp_path / "label.html").read_text()
    assert other not in page
    assert "--key" not in page
    assert "curvedp verify certificate.json." in page

"""The engine: one run with real processes, and the control that breaks its own masks."""

import json
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from curvedp.core.certificate import is_certificate_signed
from curvedp.errors import ParameterError
from curvedp.federated import flower
from curvedp.ledger import Ledger
from curvedp.mechanisms import Certificate
from curvedp.privacy import GDP
from curvedp.signing import write_key
from federated.runs import study

pytest.importorskip("flwr", reason="Flower is the extra `federated`")

EXAMPLE = Path(__file__).parents[2] / "examples" / "federated_mean.py"


def test_three_real_processes_of_which_one_is_killed():
    command = [
        sys.executable,
        str(EXAMPLE),
        "--sites",
        "3",
        "--dropouts",
        "1",
        "--records",
        "40",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=560)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["alive"] == [1, 2]
    assert said["signed"] == 2
    assert said["rounds"] == 3
    certificate = Certificate.from_json(json.dumps(said["certificate"]))
    assert all(
        is_certificate_signed(certificate, key, sign)
        for key, sign in said["signatures"].items()
    )
    assert said["gdp"] <= 1.0


def test_the_engines_own_masks_do_not_hide():
    """Why ours are used. Its generator folds a pair's key into 32 bits, of which a base64 key leaves 28 to chance; here all
    but 12 are given, and the server finds the site's vector among the rest."""
    from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

    rng = np.random.default_rng(28)
    key = urlsafe_b64encode(
        rng.bytes(32)
    )  # what the engine makes of an exchanged secret
    secret = rng.integers(0, 1 << 16, 8)  # a quantized vector: small beside the ring
    sent = (secret + pseudo_rand_gen(key, 1 << 32, [(8,)])[0]) % (1 << 32)

    folded = 0
    for i in range(0, len(key), 4):
        folded ^= int.from_bytes(key[i : i + 4], "little")
    assert folded & 0x80808080 == 0, "letters have seven bits: 28 of 32 are left"
    assert np.array_equal(
        pseudo_rand_gen(folded.to_bytes(4, "little"), 1 << 32, [(8,)])[0],
        (sent - secret) % (1 << 32),
    )

    known = folded & ~0x1F7F  # twelve bits to find instead of 28
    guesses = (known | (low & 0x7F) | ((low >> 7) << 8) for low in range(1 << 12))
    masks = (
        (guess, pseudo_rand_gen(guess.to_bytes(4, "little"), 1 << 32, [(8,)])[0])
        for guess in guesses
    )
    found = [
        (sent - words) % (1 << 32)
        for _, words in masks
        if ((sent - words) % (1 << 32) < 1 << 16).all()
    ]
    assert len(found) == 1
    assert np.array_equal(found[0], secret)


def test_a_site_lost_while_it_sends_holds_up_no_other(monkeypatch):
    """The engine's pull of an answer that was never sent whole blocks; the others' answers come, and in time."""
    plan, _, _ = study(3, 5, dropouts=1)
    monkeypatch.setattr(flower, "_GRACE", 0.5)
    monkeypatch.setattr(
        "flwr.app.Message", lambda content, dst_node_id, message_type: str(dst_node_id)
    )

    class Grid:
        def push_messages(self, messages):
            return messages

        def pull_messages(self, ids):
            assert len(ids) == 1
            if ids == ["12"]:
                time.sleep(60)
            content = SimpleNamespace(
                config_records={"curvedp": {"json": json.dumps({"from": ids[0]})}}
            )
            sender = SimpleNamespace(src_node_id=int(ids[0]))
            return [
                SimpleNamespace(
                    has_content=lambda: True, content=content, metadata=sender
                )
            ]

    carrier, begin = (
        flower._GridTransport(Grid(), plan, 30.0),
        time.monotonic(),
    )  # what carries a server's questions
    carrier._nodes = {0: 10, 1: 11, 2: 12}
    assert carrier.ask({i: {"stage": "mask"} for i in range(3)}) == {
        0: {"from": "10"},
        1: {"from": "11"},
    }
    assert time.monotonic() - begin < 20


def test_settings_of_a_site(tmp_path):
    plan, people, records = study(3, 30, dropouts=0)
    (tmp_path / "plan.json").write_text(json.dumps(plan.to_dict()))
    write_key(tmp_path / "key.pem", people[1])
    np.save(tmp_path / "x.npy", records[1])
    Ledger(tmp_path / "l.ledger", GDP(1.0))
    settings = {
        "plan": "plan.json",
        "key": "key.pem",
        "records": "x.npy",
        "ledger": "l.ledger",
    }
    (tmp_path / "site.json").write_text(json.dumps(settings))
    assert flower.party_from_settings(str(tmp_path / "site.json")).plan.id == plan.id
    for name, value in {
        "plan": "none",
        "key": "plan.json",
        "records": "none.npy",
        "ledger": "none",
    }.items():
        (tmp_path / "wrong.json").write_text(json.dumps({**settings, name: value}))
        with pytest.raises(ParameterError) as caught:
            flower.party_from_settings(str(tmp_path / "wrong.json"))
        assert "\n" not in str(caught.value)
    with pytest.raises(ParameterError):
        flower.party_from_settings(str(tmp_path / "nothing.json"))
    with pytest.raises(AttributeError):
        _ = flower.nothing

"""Flower as transport, identity and deployment (extra: federated): a ServerApp and a ClientApp that carry our messages.

The masked sum is ours: the engine's own secure aggregation is not private as shipped (docs/federation.md). An app folder
needs three lines: `from curvedp.federated import flower`, `client = flower.client`, `server = flower.server`. The server's
run configuration names the plan and where the release goes; a site's node configuration names its settings, all of them
files that stay at the site.
"""

import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from curvedp.errors import CurvedpError, FederationRefused, ParameterError
from curvedp.federated.experimental import warn_experimental
from curvedp.federated.masking import (
    REFUSALS,
    Party,
    is_announcement,
    refusal_code,
)
from curvedp.federated.session import Session
from curvedp.signing import read_key

if TYPE_CHECKING:
    from curvedp.federated.plan import Plan
    from curvedp.federated.release import Answers

_log = logging.getLogger("curvedp.federated")
_POLL = 0.6  # seconds between looks for an answer
_GRACE = 6.0  # seconds, or as long again, for the rest once enough sites have answered

Foreign: TypeAlias = (
    Any  # Flower's own types: it is an extra, and imported where it is used
)


def __getattr__(name: str) -> Any:
    """`client` and `server`, Flower's apps, made when they are asked for."""
    if name == "client":
        from flwr.clientapp import ClientApp

        app = ClientApp()
        app.query("curvedp")(answer)
    elif name == "server":
        from flwr.serverapp import ServerApp

        app = ServerApp()
        app.main()(main)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return app


def answer(message: Foreign, context: Foreign) -> Foreign:
    """One request; what the site remembers is kept by its own SuperNode."""
    from flwr.app import ConfigRecord
    from flwr.app import Message as Reply

    warn_experimental()
    kept = context.state.config_records.get("curvedp")
    reply, state = reply_to(
        message.content.config_records["curvedp"]["json"],
        str(context.node_config["site"]),
        None if kept is None else str(kept["state"]),
    )
    if state is not None:
        context.state.config_records["curvedp"] = ConfigRecord({"state": state})
    return Reply(_packed(reply), reply_to=message)


def reply_to(
    text: Any, settings: str, state_text: str | None
) -> tuple[dict[str, Any], str | None]:
    """Answer one request at a site, whatever it is and whatever the site's files are.

    Parameters
    ----------
    text : str
        The request as JSON.
    settings : str
        The path of the site's settings.
    state_text : str or None
        What the site remembers of this session, as JSON.

    Returns
    -------
    reply : dict
        The answer; or {"refused": code} with one of `masking.REFUSALS`. The reason itself
        may name the site's budget or its files: it is logged at the site.
    state_text : str or None
        What the site remembers now; None after a refusal, where nothing has changed.
    """
    try:
        request = json.loads(str(text))
        state = None if state_text is None else json.loads(state_text)
        # Each message starts a process, and importing what reads records takes a second.
        by_keys = state is not None and request["stage"] in ("share", "unmask")
        party = party_from_settings(settings, state, with_records=not by_keys)
        reply = party.answer(request)
    except (
        CurvedpError,
        OSError,
        KeyError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:
        _log.warning("a request was refused: %s", error)
        return {"refused": refusal_code(error)}, None
    return reply, json.dumps(party.state)


def party_from_settings(
    path: str, state: dict[str, Any] | None = None, *, with_records: bool = True
) -> Party:
    """The `Site` of a JSON file that names, beside it, `plan`, `key` (Ed25519, PEM), `records` and, where wanted, `ledger`,
    and columns of the records' file, `labels` and `groups`; without records, the part that answers by its keys. Raises
    `ParameterError` where a file is missing or is not what it should be."""
    home = Path(path).parent
    try:
        settings = json.loads(Path(path).read_text(encoding="utf-8"))
        identity, journal = read_key(home / settings["key"]), home / "answered"
        journal.mkdir(exist_ok=True)
        if state is not None and not with_records:
            return Party(Session(**state["session"]), identity, state, journal)
        plan, records = (
            json.loads((home / settings["plan"]).read_text(encoding="utf-8")),
            home / settings["records"],
        )
        return _site(
            plan, records, settings, identity=identity, state=state, journal=journal
        )
    except ParameterError:
        raise
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ParameterError(
            f"the site's settings are not usable: {type(error).__name__}"
        ) from None


def _site(plan: Any, records: Path, settings: Mapping[str, str], **rest: Any) -> Party:
    from curvedp.federated.plan import Plan
    from curvedp.federated.site import Site
    from curvedp.ledger import Ledger
    from curvedp.records import read_column, read_records

    agreed = Plan.from_dict(plan)
    for name in ("labels", "groups"):
        rest[name] = read_column(records, settings[name]) if name in settings else None
    if rest["labels"] is not None:
        rest["labels"] = rest["labels"].astype(int)
    ledger = (
        Ledger(records.parent / settings["ledger"]) if "ledger" in settings else None
    )
    return Site(
        agreed,
        records=read_records(records, agreed.kernel.manifold),
        ledger=ledger,
        **rest,
    )


def main(grid: Foreign, context: Foreign) -> None:
    """Run the plan and write the release as JSON; a run that stops writes why, and nothing else."""
    from curvedp.federated.plan import Plan
    from curvedp.federated.release import coordinate

    warn_experimental()
    settings = context.run_config
    plan = Plan.from_dict(
        json.loads(Path(str(settings["plan"])).read_text(encoding="utf-8"))
    )
    carrier = _Carrier(grid, plan, float(settings["timeout"]))
    try:
        release = coordinate(plan, carrier.ask)
        written: dict[str, Any] = {
            "value": release.value.tolist(),
            "certificate": release.certificate.to_dict(),
            "signatures": dict(release.signatures),
            "rounds": [
                {"total": list(r.total), "alive": list(r.alive)} for r in release.rounds
            ],
        }
    except FederationRefused as error:
        written = {"stopped": str(error)}
    written["transport"] = {
        "seconds": carrier.seconds,
        "bytes": carrier.bytes,
        "refused": carrier.refused,
    }
    partial = Path(str(settings["output"])).with_suffix(".partial")
    partial.write_text(json.dumps(written), encoding="utf-8")
    partial.rename(Path(str(settings["output"])))


class _Carrier:
    """Requests by site number over Flower's grid, by short polls; `send_and_receive` sleeps three seconds at a time."""

    def __init__(self, grid: Foreign, plan: "Plan", timeout: float) -> None:
        self._grid, self._plan, self._timeout = grid, plan, timeout
        self._nodes: dict[int, int] = {}  # by site
        self.seconds: list[dict[str, Any]] = []
        self.bytes = 0
        self.refused: list[str] = []

    def ask(self, requests: Mapping[int, Mapping[str, Any]]) -> "Answers":
        """Answers of the sites that gave one in time."""
        begin, one = time.monotonic(), next(iter(requests.values()))
        if not self._nodes:
            answers = self._first(one)
        else:
            found = self._collect(
                {
                    self._nodes[i]: request
                    for i, request in requests.items()
                    if i in self._nodes
                }
            )
            answers = {
                i: found[node] for i, node in self._nodes.items() if node in found
            }
        self.seconds.append(
            {"stage": one["stage"], "seconds": round(time.monotonic() - begin, 3)}
        )
        return answers

    def _first(self, request: Mapping[str, Any]) -> "Answers":
        """Wait for the sites, ask all nodes, and learn which site each is from its signed announcement."""
        end = time.monotonic() + self._timeout
        while (
            len(nodes := list(self._grid.get_node_ids())) < len(self._plan.sites)
            and time.monotonic() < end
        ):
            time.sleep(_POLL)
        answers = {}
        for node, reply in self._collect(dict.fromkeys(nodes, request)).items():
            site: Any = reply.get("site")
            if site in range(len(self._plan.sites)) and is_announcement(
                self._plan.session, site, reply
            ):
                answers[site], self._nodes[site] = reply, node
        return answers

    def _collect(self, requests: Mapping[int, Mapping[str, Any]]) -> "Answers":
        from flwr.app import Message as Request

        messages = [
            Request(_packed(r), dst_node_id=node, message_type="query.curvedp")
            for node, r in requests.items()
        ]
        answers: dict[int, dict[str, Any]] = {}
        over = Event()

        def wait_for(message: str) -> None:
            while not over.wait(_POLL):
                for reply in self._grid.pull_messages([message]):
                    if reply.has_content() and (read := self._read(reply)) is not None:
                        answers[reply.metadata.src_node_id] = read
                    return

        # A thread each: the engine's pull waits three minutes for the rest of an answer whose site was lost while it sent it.
        waiting = [
            Thread(target=wait_for, args=(str(i),), daemon=True)
            for i in self._grid.push_messages(messages)
            if i
        ]
        for thread in waiting:
            thread.start()
        begin, patience = time.monotonic(), self._timeout
        while (
            any(thread.is_alive() for thread in waiting)
            and (passed := time.monotonic() - begin) < patience
        ):
            if len(answers) >= self._plan.session.threshold:
                patience = min(patience, max(passed, _GRACE) + passed)
            time.sleep(0.05)
        over.set()
        return dict(answers)

    def _read(self, reply: Foreign) -> Any:
        try:
            text = str(reply.content.config_records["curvedp"]["json"])
            read = json.loads(text)
        except (KeyError, ValueError, RecursionError):
            return None  # as if it had not answered
        self.bytes += len(text)
        if not isinstance(read, dict):
            self.refused.append("no object")
            return None
        if "refused" in read:
            code = read["refused"]
            is_known = isinstance(code, str) and code in REFUSALS
            self.refused.append(code if is_known else "unknown")
            return None
        return read


def _packed(value: Mapping[str, Any]) -> Any:
    from flwr.app import ConfigRecord, RecordDict

    return RecordDict({"curvedp": ConfigRecord({"json": json.dumps(value)})})

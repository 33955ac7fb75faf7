"""Federated releases over the Flower framework, which carries the messages.
Several sites (hospitals, say) compute a private statistic together. A server asks, and
each site answers with the functions here. Flower calls the sites' machines nodes.

The masked sum is our own, because Flower's secure aggregation is not private as
shipped (docs/theory/federation.md).

Flower is installed by the extra `federated`. An app folder needs three lines: `from
curvedp.federated import flower`,
`client = flower.client` and `server = flower.server`. The server's run configuration
names the plan and the output file. A site's node configuration names its settings file;
all files that the settings name stay at the site.
"""

import json
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from curvedp.errors import FederationRefused, ParameterError
from curvedp.federated.experimental import warn_experimental
from curvedp.federated.masking import (
    REFUSALS,
    Party,
    refusal_code,
)
from curvedp.federated.masks import is_announcement
from curvedp.federated.session import Session
from curvedp.signing import read_key

if TYPE_CHECKING:
    from curvedp.federated.plan import Plan
    from curvedp.federated.release import Answers, FederatedRelease
    from curvedp.ledger import Ledger

_log = logging.getLogger("curvedp.federated")

# How many seconds pass before the server looks for an answer again.
_POLL = 0.6

# Once enough sites have answered, the others get at least this many seconds more, or as
# much time again as the first ones took.
_GRACE = 6.0

# How many seconds pass before the server looks at the waiting threads again.
_THREAD_POLL = 0.05

# The stages that a site answers with its keys alone, without reading its records.
_STAGES_WITHOUT_RECORDS = ("share", "unmask")

# An object of Flower's. Flower is optional, so it is imported only where it is used.
FlowerObject: TypeAlias = Any


def __getattr__(name: str) -> Any:
    """Return Flower's app `client` or `server`, which is made on first access."""
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


# ---- a site ----


def answer(message: FlowerObject, context: FlowerObject) -> FlowerObject:
    """Answer one message of the server. Flower calls this at a site.

    Parameters
    ----------
    message : flwr Message
        The server's request, as JSON.
    context : flwr Context
        It names the site's settings file and holds what the site remembers, which is
        updated here. Flower keeps it at the site.

    Returns
    -------
    flwr Message
        The site's reply.
    """
    from flwr.app import ConfigRecord
    from flwr.app import Message as Reply

    warn_experimental()
    state_record = context.state.config_records.get("curvedp")
    old_state = None if state_record is None else str(state_record["state"])
    request_text = message.content.config_records["curvedp"]["json"]
    settings_path = str(context.node_config["site"])

    reply, new_state = answer_text(request_text, settings_path, old_state)
    if new_state is not None:
        context.state.config_records["curvedp"] = ConfigRecord({"state": new_state})
    return Reply(_pack_json(reply), answer_text=message)


def answer_text(
    text: Any, settings: str, state_text: str | None
) -> tuple[dict[str, Any], str | None]:
    """Answer one request at a site, without ever raising an exception.

    An exception would reveal something to the server. Instead the answer is a refusal
    with a short code.

    Parameters
    ----------
    text : str
        The request as JSON.
    settings : str
        The path of the site's settings file.
    state_text : str or None
        The site's memory of this session, as JSON; None at first.

    Returns
    -------
    reply : dict
        The answer, or {"refused": code} with one of `masking.REFUSALS`. The full reason
        may name the site's budget or its files, so it is only logged at the site.
    state_text : str or None
        The site's new memory; None after a refusal, which changes nothing.
    """
    try:
        request = json.loads(str(text))
        state = None if state_text is None else json.loads(state_text)
        # Each message starts a process, and importing what reads records takes a
        # second.
        needs_records = state is None or request["stage"] not in _STAGES_WITHOUT_RECORDS
        party = party_from_settings(settings, state, with_records=needs_records)
        reply = party.answer(request)
    except Exception as error:
        # Flower would send the text of any other exception to the server.
        _log.warning("a request was refused: %s", error)
        return {"refused": refusal_code(error)}, None
    return reply, json.dumps(party.state)


def party_from_settings(
    path: str, state: dict[str, Any] | None = None, *, with_records: bool = True
) -> Party:
    """Return a site's side of the protocol, as its settings file describes it.

    Creates the folder "answered" beside the settings file, for the site's journal.

    Parameters
    ----------
    path : str
        A JSON file that names other files in its folder: "plan", "key" (Ed25519, PEM),
        "records" and optionally "ledger" and, for a keyed one, "ledger_key". Optional
        "labels" and "groups" name columns of the records' file.
    state : dict, optional
        The state that the site keeps during this session.
    with_records : bool
        Whether to read plan and records. Without them, which needs a state, the result
        is a plain `Party` that answers with its keys alone; otherwise it is a `Site`.

    Returns
    -------
    Party
        A `Site`, or a `Party` without records.

    Raises
    ------
    ParameterError
        If a file is missing or is not what it should be.
    """
    folder = Path(path).parent
    try:
        settings = json.loads(Path(path).read_text(encoding="utf-8"))
        identity = read_key(folder / settings["key"])
        journal = folder / "answered"
        journal.mkdir(exist_ok=True)
        if state is not None and not with_records:
            return Party(Session(**state["session"]), identity, state, journal)

        plan = json.loads((folder / settings["plan"]).read_text(encoding="utf-8"))
        records_path = folder / settings["records"]
        return _site_with_records(
            plan,
            records_path,
            settings,
            identity=identity,
            state=state,
            journal=journal,
        )
    except ParameterError:
        raise
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ParameterError(
            f"the site's settings are not usable: {type(error).__name__}"
        ) from None


def _site_with_records(
    plan: Any, records_path: Path, settings: Mapping[str, str], **site_options: Any
) -> Party:
    """Return a `Site` with the records, labels, groups and ledger of its folder.

    Parameters
    ----------
    plan : dict
        The plan, as JSON values.
    records_path : Path
        The file of the records; a ledger is in the same folder.
    settings : mapping
        The site's settings, see `party_from_settings`.
    **site_options
        Further arguments of `Site`.

    Returns
    -------
    Site
        The site's side of the plan.
    """
    from curvedp.federated.plan import Plan
    from curvedp.federated.site import Site
    from curvedp.records import read_column, read_records

    agreed_plan = Plan.from_dict(plan)
    label_column = None
    if "labels" in settings:
        label_column = read_column(records_path, settings["labels"])
    groups = None
    if "groups" in settings:
        groups = read_column(records_path, settings["groups"])
    labels = None if label_column is None else label_column.astype(int)
    ledger = _ledger_of_site(records_path.parent, settings)
    return Site(
        agreed_plan,
        records=read_records(records_path, agreed_plan.kernel.manifold),
        ledger=ledger,
        labels=labels,
        groups=groups,
        **site_options,
    )


def _ledger_of_site(folder: Path, settings: Mapping[str, str]) -> "Ledger | None":
    """Open the ledger that a site's settings name; None if they name none.

    Parameters
    ----------
    folder : Path
        The folder with the site's files.
    settings : mapping
        The site's settings, with the names of the files "ledger" and "ledger_key".
    """
    from curvedp.ledger import Ledger

    if "ledger" not in settings:
        return None
    key = None
    if "ledger_key" in settings:
        key = folder / settings["ledger_key"]
    return Ledger(folder / settings["ledger"], key=key)


# ---- the server ----


def main(grid: FlowerObject, context: FlowerObject) -> None:
    """Run a plan as the server, and write the release to a file. Flower calls this.

    Parameters
    ----------
    grid : flwr Grid
        Flower's access to the nodes, which are the machines of the sites.
    context : flwr Context
        Its run configuration has "plan" and "output", the paths of JSON files, and
        "timeout", the seconds that the answers to a request may take. If the run stops,
        the output says why and contains no release.
    """
    from curvedp.federated.plan import Plan
    from curvedp.federated.release import coordinate

    warn_experimental()
    settings = context.run_config
    plan_text = Path(str(settings["plan"])).read_text(encoding="utf-8")
    plan = Plan.from_dict(json.loads(plan_text))
    carrier = _GridTransport(grid, plan, float(settings["timeout"]))
    try:
        output = _release_to_dict(coordinate(plan, carrier.ask))
    except FederationRefused as error:
        output = {"stopped": str(error)}
    output["transport"] = {
        "seconds": carrier.seconds,
        "bytes": carrier.bytes,
        "refused": carrier.refused,
    }

    # Others never see a file that is only partly written.
    output_path = Path(str(settings["output"]))
    partial = output_path.with_suffix(".partial")
    partial.write_text(json.dumps(output), encoding="utf-8")
    partial.rename(output_path)


def _release_to_dict(release: "FederatedRelease") -> dict[str, Any]:
    """Return a federated release as JSON values.

    Parameters
    ----------
    release : FederatedRelease
        The value, its certificate, the sites' signatures and the noisy sums.

    Returns
    -------
    dict
        "value", "certificate", "signatures" and "rounds".
    """
    return {
        "value": _value_to_json(release.value),
        "certificate": release.certificate.to_dict(),
        "signatures": dict(release.signatures),
        "rounds": [
            {"total": list(round.total), "alive": list(round.surviving_sites)}
            for round in release.rounds
        ],
    }


def _value_to_json(value: Any) -> Any:
    """Return a released value as JSON values.

    Parameters
    ----------
    value : array or Clustering
        The value. The parts of a clustering are written by their names.
    """
    from curvedp.statistics.clusters import Clustering

    if isinstance(value, Clustering):
        parts = value._asdict()
        return {name: np.asarray(part).tolist() for name, part in parts.items()}
    return value.tolist()


class _GridTransport:
    """Carries the server's requests to the sites over Flower's grid.

    It polls often: Flower's own `send_and_receive` sleeps three seconds at a time.

    Parameters
    ----------
    grid : flwr Grid
        Flower's access to the nodes.
    plan : Plan
        The agreed terms.
    timeout : float
        How many seconds to wait for the answers of a stage.

    Attributes
    ----------
    seconds : list of dict
        The duration of each stage.
    bytes : int
        How many characters of JSON have arrived.
    refused : list of str
        The codes of all refusals.
    """

    def __init__(self, grid: FlowerObject, plan: "Plan", timeout: float) -> None:
        """Start without any known node; no message is sent yet.

        Parameters
        ----------
        grid : flwr Grid
            Flower's access to the nodes.
        plan : Plan
            The agreed terms.
        timeout : float
            How many seconds to wait for the answers of a stage.
        """
        self._grid = grid
        self._plan = plan
        self._timeout = timeout
        # Flower's node of each site, by the site's index; empty before the first stage.
        self._nodes: dict[int, int] = {}
        self.seconds: list[dict[str, Any]] = []
        self.bytes = 0
        self.refused: list[str] = []

    def ask(self, requests: Mapping[int, Mapping[str, Any]]) -> "Answers":
        """Send requests to sites, and return the answers that came in time.

        Parameters
        ----------
        requests : mapping
            The request to each site, by the site's index; all are of one stage.

        Returns
        -------
        dict
            The answers, by the site's index.
        """
        begin = time.monotonic()
        first_request = next(iter(requests.values()))
        if not self._nodes:
            answers = self._ask_unknown_nodes(first_request)
        else:
            node_requests = {
                self._nodes[site]: request
                for site, request in requests.items()
                if site in self._nodes
            }
            node_answers = self._ask_nodes(node_requests)
            answers = {
                site: node_answers[node]
                for site, node in self._nodes.items()
                if node in node_answers
            }
        duration = round(time.monotonic() - begin, 3)
        self.seconds.append({"stage": first_request["stage"], "seconds": duration})
        return answers

    def _ask_unknown_nodes(self, request: Mapping[str, Any]) -> "Answers":
        """Send the first request to all nodes, and learn which site each node belongs to.

        A node is a machine that Flower knows. Its signed announcement proves which site
        it belongs to. This waits until there are as many nodes as sites, or until time has
        run out. Sets `_nodes`.

        Parameters
        ----------
        request : mapping
            The request of stage "announce".

        Returns
        -------
        dict
            The announcement of each site that sent a valid one, by the site's index.
        """
        nodes = self._wait_for_nodes()
        answers = {}
        replies = self._ask_nodes(dict.fromkeys(nodes, request))
        for node, reply in replies.items():
            site: Any = reply.get("site")
            is_site = site in range(len(self._plan.sites))
            if is_site and is_announcement(self._plan.session, site, reply):
                answers[site] = reply
                self._nodes[site] = node
        return answers

    def _wait_for_nodes(self) -> list[int]:
        """Wait until there are as many nodes as sites, or time has run out.

        Returns
        -------
        list of int
            The ids of Flower's nodes, whose sites are not known yet.
        """
        end = time.monotonic() + self._timeout
        nodes = list(self._grid.get_node_ids())
        while len(nodes) < len(self._plan.sites) and time.monotonic() < end:
            time.sleep(_POLL)
            nodes = list(self._grid.get_node_ids())
        return nodes

    def _ask_nodes(self, requests: Mapping[int, Mapping[str, Any]]) -> "Answers":
        """Send a request to each node, and return the answers by node.

        Each answer is awaited by its own thread: if a site is lost while it sends,
        Flower's pull of its answer blocks for three minutes.

        Parameters
        ----------
        requests : mapping
            The request to each node, by the node's id.

        Returns
        -------
        dict
            The answer of each node that gave one in time, by the node's id.
        """
        from flwr.app import Message as Request

        messages = [
            Request(_pack_json(request), dst_node_id=node, message_type="query.curvedp")
            for node, request in requests.items()
        ]
        answers: dict[int, dict[str, Any]] = {}
        has_ended = Event()

        def wait_for_reply(message_id: str) -> None:
            """Wait for the reply to one message, and store it in `answers`.

            Parameters
            ----------
            message_id : str
                Flower's id of the request.
            """
            while not has_ended.wait(_POLL):
                for reply in self._grid.pull_messages([message_id]):
                    if not reply.has_content():
                        return
                    content = self._read_reply(reply)
                    if content is not None:
                        answers[reply.metadata.src_node_id] = content
                    return

        # Flower returns an empty id for a message that it could not send.
        message_ids = [str(id) for id in self._grid.push_messages(messages) if id]
        threads = [
            Thread(target=wait_for_reply, args=(message_id,), daemon=True)
            for message_id in message_ids
        ]
        for thread in threads:
            thread.start()
        self._wait_for_threads(threads, answers)
        has_ended.set()
        return dict(answers)

    def _wait_for_threads(
        self, threads: Sequence[Thread], answers: Mapping[int, Any]
    ) -> None:
        """Wait until all threads have ended, or time has run out.

        Once enough sites have answered, the others do not get the full time but a
        shorter grace period: as much time again as the first ones took, and at least
        `_GRACE` seconds.

        Parameters
        ----------
        threads : sequence of Thread
            One for each awaited answer.
        answers : mapping
            The answers that the threads have received so far.
        """
        begin = time.monotonic()
        time_allowed = self._timeout
        while any(thread.is_alive() for thread in threads):
            time_passed = time.monotonic() - begin
            if time_passed >= time_allowed:
                return
            if len(answers) >= self._plan.session.threshold:
                grace = max(time_passed, _GRACE)
                time_allowed = min(time_allowed, grace + time_passed)
            time.sleep(_THREAD_POLL)

    def _read_reply(self, reply: FlowerObject) -> dict[str, Any] | None:
        """Return the JSON object in a site's reply, or None if the site refused.

        A reply that is not a JSON object is treated like a missing one. Counts the
        characters in `bytes` and notes refusals in `refused`.

        Parameters
        ----------
        reply : FlowerObject
            The node's reply, which may be anything.

        Returns
        -------
        dict or None
            The JSON object.
        """
        try:
            text = str(reply.content.config_records["curvedp"]["json"])
            content = json.loads(text)
        except (KeyError, ValueError, RecursionError):
            return None
        self.bytes += len(text)
        if not isinstance(content, dict):
            self.refused.append("no object")
            return None
        if "refused" in content:
            code = content["refused"]
            is_known = isinstance(code, str) and code in REFUSALS
            self.refused.append(code if is_known else "unknown")
            return None
        return content


def _pack_json(value: Mapping[str, Any]) -> FlowerObject:
    """Return JSON values as the content of a Flower message.

    Parameters
    ----------
    value : mapping
        The JSON values of a request or an answer.

    Returns
    -------
    flwr RecordDict
        One record that holds them as text.
    """
    from flwr.app import ConfigRecord, RecordDict

    return RecordDict({"curvedp": ConfigRecord({"json": json.dumps(value)})})

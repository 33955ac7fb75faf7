"""The state of a running studio: a file, a ledger, and the releases that were made.

The page of the studio asks the methods of `Desk`, which call curvedp as a script would.
`curvedp.studio.server` passes the requests on.
"""

import io
import json
import shutil
import tempfile
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from curvedp._files import write_atomically
from curvedp.core.wording import protected_unit_sentence
from curvedp.errors import ParameterError
from curvedp.estimators.base import PrivateEstimator
from curvedp.geometry import parse_manifold
from curvedp.ledger import Entry, Ledger
from curvedp.privacy import GDP, ZCDP, Guarantee, PureDP
from curvedp.records import FORMS
from curvedp.records.output_forms import value_lines
from curvedp.release.pay import cheapest_request, open_ledger
from curvedp.release.warnings import estimator_warnings
from curvedp.releasing import (
    Offer,
    Option,
    all_offers,
    certificate_contents,
    public_center,
    value_content,
)
from curvedp.signing import key_of, read_key
from curvedp.studio.pictures import attack_picture, attack_power, size_picture
from curvedp.studio.places import PlaceReports
from curvedp.studio.rehearsal import predict_release
from curvedp.studio.study import Study, notebook, parse_guarantee
from curvedp.verification import sign_file

# A release that exceeds the budget by less than this factor may do so by rounding.
_SLIGHTLY_MORE = 1 + 1e-12

# So many lines of a further file are shown on the page.
_SHOWN_LINES = 6


@dataclass
class PaidRelease:
    """A release that was paid for, and its files.

    The files are made in memory and then written. If writing fails, for example on a
    full disk, they stay in memory: the page offers them as downloads and can write
    them again.

    Attributes
    ----------
    number : int
        The number of the release in this folder.
    folder : Path
        Where its files are written.
    summary : dict
        What the page says about it beside its files.
    unsaved : dict
        The contents of files that are not on the disk, by name.
    warnings : list of str
        Warnings about the released value, and about files that could not be made.
    save_error : str or None
        Why the last attempt to write a file failed.
    private_picture : callable, optional
        Returns a picture of the records beside what was released, as a data URI. NOT
        private.
    """

    number: int
    folder: Path
    summary: dict[str, Any]
    unsaved: dict[str, bytes] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    save_error: str | None = None
    private_picture: Callable[[], str] | None = None

    def add_file(self, name: str, make_content: Callable[[], str | bytes]) -> None:
        """Make a file in memory; if that fails, add a warning instead.

        Parameters
        ----------
        name : str
            The name of the file.
        make_content : callable
            Returns its content.
        """
        try:
            content = make_content()
        except Exception as error:
            # The release is paid for, so one file that fails must not lose the others.
            self.warnings.append(f"{name} could not be made ({type(error).__name__})")
            return
        self.unsaved[name] = content.encode() if isinstance(content, str) else content

    def save(self) -> None:
        """Write the files that are not on the disk yet; what fails stays in memory.

        The reason of a failure is kept in `save_error`, and nothing is raised: the
        release is paid for.
        """
        self.save_error = None
        for name, content in list(self.unsaved.items()):
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                write_atomically(self.folder / name, content)
            except OSError as error:
                self.save_error = error.strerror or type(error).__name__
            else:
                del self.unsaved[name]

    def saved_names(self) -> list[str]:
        """Return the names of the files in the folder, including signatures."""
        return [
            path.name
            for path in self.folder.glob("*")
            if path.is_file() and not path.name.startswith(".")
        ]

    def names(self) -> list[str]:
        """Return the names of all files, in the folder and in memory."""
        return sorted({*self.saved_names(), *self.unsaved})

    def content(self, name: str) -> bytes | None:
        """Return the content of a file of this release; None if there is no such file.

        Parameters
        ----------
        name : str
            The name of a file, as the browser asks for it.
        """
        if name in self.unsaved:
            return self.unsaved[name]
        if name in self.saved_names():
            return (self.folder / name).read_bytes()
        return None

    def to_page(self) -> dict[str, Any]:
        """Return what the page shows of the release, as JSON values."""
        return {
            **self.summary,
            "number": self.number,
            "folder": str(self.folder),
            "alarms": self.warnings,
            "files": self.names(),
            "unsaved": self._unsaved_sentence(),
            "compares": self.private_picture is not None,
        }

    def _unsaved_sentence(self) -> str | None:
        """Tell the user what to do about files that are not written; None if all are."""
        if not self.unsaved:
            return None
        names = ", ".join(sorted(self.unsaved))
        return (
            f"paid for, but not written ({self.save_error}): {names}. Download them "
            "here, or make room and write them again. Do not release again: that pays "
            "again."
        )


class Desk:
    """One session of the studio: the file, the ledger, and the releases so far.

    Each release has a request key, which the page gets with its prediction. Two
    requests with one key, from a second tab or after a lost answer, are one release and
    spend once.

    Parameters
    ----------
    folder : Path
        Where the ledger and the files of releases are.
    data : Path, optional
        The file with the records. Without one, the user uploads it.
    key : Path, optional
        The private key that signs releases.
    ledger_key : Path, optional
        The key of the ledger, if it has one.
    """

    # The largest file that the browser may upload, in bytes.
    max_upload_bytes = 512 * 2**20

    def __init__(
        self,
        folder: Path,
        data: Path | None = None,
        key: Path | None = None,
        ledger_key: Path | None = None,
    ) -> None:
        """Start a session without releases; the ledger is opened when it is needed.

        Parameters
        ----------
        folder : Path
            Where the ledger and the files of releases are.
        data : Path, optional
            The file with the records.
        key : Path, optional
            The private key that signs releases.
        ledger_key : Path, optional
            The key of the ledger, if it has one.
        """
        self.folder = folder
        self.data = data
        self.key = key
        self.ledger_key = ledger_key
        self.ledger_path = folder / "study.ledger"
        # Uploaded files hold private records: `close` deletes the folder.
        self.upload_folder = Path(tempfile.mkdtemp(prefix="curvedp-studio-"))
        self.releases: dict[str, PaidRelease] = {}  # by request key
        self.place_reports = PlaceReports(folder)
        self.lock = Lock()

    def close(self) -> list[str]:
        """Delete uploaded files; return releases that are not on the disk.

        Returns
        -------
        list of str
            Lines for the terminal: the files of releases that were paid for and could
            not be written. They would be lost otherwise.
        """
        shutil.rmtree(self.upload_folder, ignore_errors=True)

        # Try once more to write what was paid for; print what cannot be written.
        lines = []
        for release in self.releases.values():
            release.save()
            if release.unsaved:
                texts = {
                    name: content.decode(errors="replace")
                    for name, content in release.unsaved.items()
                    if name != "report.html"
                }
                lines.append(
                    f"release {release.number} was paid for and could not be written "
                    f"({release.save_error}): keep it"
                )
                lines.append(json.dumps(texts))
        return lines

    def state(self) -> dict[str, Any]:
        """Return everything that the page shows when it is loaded, as JSON values.

        Returns
        -------
        dict
            The name of the file, the ledger, the releases so far, and what the page
            asks for each statistic.
        """
        return {
            "file": None if self.data is None else self.data.name,
            "ledger": self._ledger_state(),
            "releases": [release.to_page() for release in self.releases.values()],
            "forms": list(FORMS),
            "offers": {name: page_offer(offer) for name, offer in all_offers().items()},
            "most": self.max_upload_bytes,
            "signs": self.key is not None,
        }

    def _ledger(self) -> Ledger | None:
        """Return the ledger of the folder, or None before it was started."""
        if not self.ledger_path.exists():
            return None
        return open_ledger(self.ledger_path, key=self.ledger_key)

    def _ledger_state(self) -> dict[str, Any] | None:
        """Return what the page shows of the ledger; None before it was started."""
        ledger = self._ledger()
        if ledger is None:
            return None
        remaining = ledger.remaining
        return {
            "path": str(self.ledger_path),
            "budget": str(ledger.budget),
            "remaining": "nothing" if remaining is None else str(remaining),
            "entries": [_entry_line(entry) for entry in ledger.entries],
        }

    def start_ledger(self, budget: Any) -> dict[str, Any]:
        """Make a ledger with this budget, unless there is one; return the page's state.

        Parameters
        ----------
        budget : dict
            The guarantee that the page sent; see `parse_guarantee`.

        Returns
        -------
        dict
            What `state` returns.
        """
        if not self.ledger_path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            open_ledger(self.ledger_path, parse_guarantee(budget), key=self.ledger_key)
        return self.state()

    def _parse_study(self, sent_study: Any) -> tuple[Study, Path]:
        """Return the study that the page sent, and the file with the records.

        Parameters
        ----------
        sent_study : dict
            The fields of the study by name, as the page sent them.

        Returns
        -------
        study, data : Study, Path
            The study with the guarantee for which the ledger is charged least, and the
            file.

        Raises
        ------
        ParameterError
            If there is no file yet, or what was sent describes no study.
        """
        if self.data is None:
            raise ParameterError("there is no file yet: drop one on the page")
        study = Study.from_page(sent_study)
        # A guarantee in other terms may imply the chosen one and cost the ledger less.
        guarantee = cheapest_request(study.guarantee, self._ledger())
        return replace(study, guarantee=guarantee), self.data

    def check(self, sent_study: Any) -> dict[str, Any]:
        """Return what is wrong with the records. NOT private: it stays on the page.

        Parameters
        ----------
        sent_study : dict
            The fields of the study by name, as the page sent them.

        Returns
        -------
        dict
            "facts" and "advice" for those who may see the records.
        """
        study, data = self._parse_study(sent_study)
        checked = study.check(data)
        return {"facts": checked.shown, "advice": checked.advice}

    def plan(self, request: Any) -> dict[str, Any]:
        """Predict the release of a study, for the page to show.

        Parameters
        ----------
        request : dict
            What the page sent: the study as "study", and possibly the "mechanism" to
            predict, which is faster than all of them.

        Returns
        -------
        dict
            The prediction, what an attacker could do, two pictures as SVG, and the key
            with which this release can be requested; the key is None without a ledger.
            "exceeds" says that the ledger has too little left for it.
        """
        study, data = self._parse_study(request["study"])
        mechanism = request.get("mechanism", "auto")
        guarantee = study.guarantee
        sizes = study.sizes(data)
        options = {**study.options(), "spread": study.spread}
        prediction = predict_release(study.offer, options, guarantee, sizes, mechanism)

        # While a slider moves, one mechanism is predicted, and this may be left out.
        guess_percent = None
        if mechanism == "auto":
            guess_percent = 50 * (1 + float(guarantee.delta(0.0)))
        ledger = self._ledger()
        return {
            **prediction._asdict(),
            "n": sum(sizes),
            "classes": len(sizes) if study.offer.has_classes else 0,
            "unit": study.unit,
            "guess": guess_percent,
            "power": 100 * attack_power(guarantee),
            "guarantee": str(guarantee),
            "pictures": [
                size_picture(prediction.ball, prediction.error, prediction.region),
                attack_picture(guarantee),
            ],
            "key": None if ledger is None else study.key_at(data, ledger.head),
            "exceeds": ledger is not None and surely_exceeds(guarantee, ledger),
        }

    def release(self, request: Any) -> dict[str, Any]:
        """Make a release, once for each request key, and return what the page shows.

        Parameters
        ----------
        request : dict
            The study as "study", and as "key" the request key that `plan` returned.

        Returns
        -------
        dict
            What the page shows of the release; the same for each request with this key.

        Raises
        ------
        ParameterError
            If the ledger or the file has changed since `plan` returned the key. Nothing
            is released then.
        """
        key = request["key"]
        with self.lock:
            if key not in self.releases:
                self._make_release(key, request["study"])
            return self.releases[key].to_page()

    def _make_release(self, key: str, sent_study: Any) -> None:
        """Pay for a release, and store it under its key before anything can fail.

        Parameters
        ----------
        key : str
            The request key.
        sent_study : dict
            The fields of the study by name, as the page sent them.

        Raises
        ------
        ParameterError
            If there is no ledger, or the key is not that of this study and ledger.
        """
        study, data = self._parse_study(sent_study)
        ledger = self._ledger()
        if ledger is None:
            raise ParameterError(
                "there is no ledger yet: start one with the budget of this data set"
            )
        if key != study.key_at(data, ledger.head):
            raise ParameterError(
                "something was released or chosen since this was shown: look again; "
                "nothing was spent"
            )
        number = self._next_number()
        folder = self.folder / f"release-{number}"
        label = f"{study.offer.title} of {data.name}"[:200]
        folder.mkdir()  # What cannot be written is refused before anything is paid.
        try:
            fitted_estimator = study.fit(data, ledger, label)
        except BaseException:
            folder.rmdir()
            raise

        release = PaidRelease(number, folder, _summary(study, fitted_estimator))
        self.releases[key] = release
        self._add_files(release, study, fitted_estimator, data, label)
        release.save()

    def _next_number(self) -> int:
        """Return the smallest number of a release that the folder does not have yet."""
        number = 1
        while (self.folder / f"release-{number}").exists():
            number += 1
        return number

    def _add_files(
        self,
        release: PaidRelease,
        study: Study,
        fitted_estimator: Any,
        data: Path,
        label: str,
    ) -> None:
        """Make the files of a release in memory.

        The value and the certificates come first, because they cannot be made again.

        Parameters
        ----------
        release : PaidRelease
            To which the files are added.
        study : Study
            What was released.
        fitted_estimator : PrivateEstimator
            The estimator after `fit`.
        data : Path
            The file with the records.
        label : str
            What the ledger calls the release.
        """
        release.add_file(
            "value.csv", lambda: value_content(fitted_estimator, ".csv", study.form)
        )
        if study.offer.private_picture is not None:
            release.private_picture = partial(
                self._private_picture, study, fitted_estimator, data
            )
        for name, content in certificate_contents(
            fitted_estimator, "certificate.json"
        ).items():
            release.unsaved[name] = content

        release.warnings += [
            warning.text for warning in estimator_warnings(fitted_estimator)
        ]
        if study.offer.make_files is not None:
            further_files = study.offer.make_files(fitted_estimator, study.form)
            release.unsaved.update(further_files)

        source = data.name if data.parent == self.upload_folder else str(data)
        key = None if self.ledger_key is None else str(self.ledger_key)
        script = study.script(source, str(self.ledger_path), label, key)
        release.add_file("release.py", lambda: script)
        release.add_file("release.ipynb", lambda: notebook(script))
        release.add_file("report.html", lambda: _report(study, fitted_estimator))

    def _private_picture(self, study: Study, fitted_estimator: Any, data: Path) -> str:
        """Return a picture of the records beside what was released, as a data URI.

        NOT private: it is shown on the page and written nowhere.

        Parameters
        ----------
        study : Study
            What was released.
        fitted_estimator : PrivateEstimator
            The estimator after `fit`.
        data : Path
            The file with the records.

        Returns
        -------
        str
            A PNG picture as a data URI.
        """
        assert study.offer.private_picture is not None, "asked for where there is one"
        records = study.read_columns(data)["records"]
        figure = study.offer.private_picture(fitted_estimator, records)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110)
        return "data:image/png;base64," + b64encode(buffer.getvalue()).decode()

    def compare(self, request: Any) -> dict[str, Any]:
        """Return a picture of the records beside a release. NOT private.

        It is shown on the page and written nowhere.

        Parameters
        ----------
        request : dict
            The "number" of the release, as the page sent it.

        Returns
        -------
        dict
            "picture", a data URI.

        Raises
        ------
        ParameterError
            If there is no such release, or its statistic has no such picture.
        """
        release = self._find_release(request["number"])
        if release is None or release.private_picture is None:
            raise ParameterError("there is no picture of this release beside records")
        return {"picture": release.private_picture()}

    def save(self, request: Any) -> dict[str, Any]:
        """Try again to write the files of a release.

        Parameters
        ----------
        request : dict
            The "number" of the release, as the page sent it.

        Returns
        -------
        dict
            What the page shows of the release.
        """
        with self.lock:
            release = self._find_release(request["number"])
            if release is None:
                raise ParameterError("there is no such release")
            release.save()
            return release.to_page()

    def perturb(self, request: Any) -> dict[str, Any]:
        """Draw a private report of each place in the file; no ledger is charged.

        Parameters
        ----------
        request : dict
            How the file is read as "study", "epsilon_per_km", and possibly the
            "public_place".

        Returns
        -------
        dict
            The folder of the reports, their number, and what they promise.
        """
        if self.data is None:
            raise ParameterError("there is no file yet: drop one on the page")
        study = Study.from_page(request["study"])
        with self.lock:
            return self.place_reports.draw(study, self.data, request)

    def sign(self, request: Any) -> dict[str, Any]:
        """Verify and sign the certificates of a release, as `curvedp sign` does.

        Parameters
        ----------
        request : dict
            The "number" of the release, as the page sent it.

        Returns
        -------
        dict
            Who signed which files, as "said", and the names of all "files".

        Raises
        ------
        ParameterError
            If the studio has no key, there is no such release, or files of it are not
            written yet.
        """
        release = self._find_release(request["number"])
        if self.key is None or release is None:
            raise ParameterError(
                "nothing to sign: start the studio with --key, and release"
            )
        if release.unsaved:
            raise ParameterError("write the files of this release first")
        identity = read_key(self.key)
        lines = []
        for name in release.saved_names():
            if name.endswith(".json"):
                target = sign_file(release.folder / name, identity)
                lines.append(f"signed by {key_of(identity)}: {target}")
        return {"said": "; ".join(lines), "files": release.names()}

    def _find_release(self, number: int) -> PaidRelease | None:
        """Return the release of this session with this number, or None.

        Parameters
        ----------
        number : int
            The number of a release in the folder.
        """
        for release in self.releases.values():
            if release.number == number:
                return release
        return None

    def file_content(self, number: int, name: str) -> bytes | None:
        """Return the content of a file of a release; None if there is no such file.

        Parameters
        ----------
        number : int
            The number of the release.
        name : str
            The name of the file.
        """
        release = self._find_release(number)
        return None if release is None else release.content(name)

    def upload_path(self, name: str) -> Path:
        """Return where an uploaded file of this name is stored.

        Parameters
        ----------
        name : str
            The name that the browser states, of which only the last part is used.

        Returns
        -------
        Path
            A path in the folder for uploads, which `close` deletes.

        Raises
        ------
        ParameterError
            If the name is empty, too long, not printable, or a folder such as `..`.
        """
        file_name = Path(name).name
        is_folder = file_name in ("", ".", "..")
        # File systems allow 255 bytes; 150 characters leave room for an ending.
        if is_folder or not file_name.isprintable() or len(file_name) > 150:
            raise ParameterError(
                "the file's name is empty, too long or has characters that are not "
                "printed: rename it"
            )
        return self.upload_folder / file_name


def page_offer(offer: Offer) -> dict[str, Any]:
    """Return what the page must know about a statistic to ask for its options.

    Parameters
    ----------
    offer : Offer
        The statistic in the table of `curvedp.releasing`.

    Returns
    -------
    dict
        JSON values: its title, the label of its column, and its options.
    """
    column_label = ""
    if offer.column is not None:
        column_label = _field_words(offer.column.label, offer.column.note)
    return {
        "title": offer.title,
        "column": column_label,
        "options": [_page_option(option) for option in offer.options if option.label],
    }


def _page_option(option: Option) -> dict[str, Any]:
    """Return what the page needs to show the field of one option.

    Parameters
    ----------
    option : Option
        An option of a statistic, which has a label.

    Returns
    -------
    dict
        JSON values: the words, the placeholder, and the keyboard of the field.
    """
    keyboards = {int: "numeric", float: "decimal", str: "text"}
    return {
        "name": option.name,
        "label": _field_words(option.label, option.note),
        "placeholder": option.placeholder,
        "hint": option.hint,
        "suggestion": option.suggestion,
        "keyboard": keyboards[option.kind],
        "used_with": option.used_with,
    }


def _field_words(label: str, note: str) -> str:
    """Return the words above an input field of the page, such as "radius: in km".

    Parameters
    ----------
    label : str
        The name of the input field.
    note : str
        A hint about what is typed there; may be empty.
    """
    return f"{label}: {note}" if note else label


def surely_exceeds(guarantee: Guarantee, ledger: Ledger) -> bool:
    """Return whether a release certainly does not fit what a ledger has left.

    Definitions are not converted here: where they differ, the answer is False, and the
    ledger decides when the release is requested.

    Parameters
    ----------
    guarantee : Guarantee
        What the release would cost.
    ledger : Ledger
        The ledger that would pay.
    """
    remaining = ledger.remaining
    if remaining is None:
        return True
    if isinstance(guarantee, GDP) and isinstance(remaining, GDP):
        return guarantee.mu > remaining.mu * _SLIGHTLY_MORE
    if isinstance(guarantee, PureDP) and isinstance(remaining, PureDP):
        return guarantee.eps > remaining.eps * _SLIGHTLY_MORE
    if isinstance(guarantee, ZCDP) and isinstance(remaining, ZCDP):
        return guarantee.rho > remaining.rho * _SLIGHTLY_MORE
    return False


def _entry_line(entry: Entry) -> str:
    """Return an entry of the ledger as a line, with its unit of privacy if it states one.

    Parameters
    ----------
    entry : Entry
        An entry of the ledger.
    """
    line = f"{entry.number}. {entry.label}: {entry.guarantee}"
    return line if entry.unit is None else f"{line}, for one {entry.unit.words}"


def _summary(study: Study, fitted_estimator: PrivateEstimator) -> dict[str, Any]:
    """Return what the page says about a release beside its files.

    Parameters
    ----------
    study : Study
        What was released.
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.

    Returns
    -------
    dict
        JSON values: the title, the value in lines, the guarantee and the unit.
    """
    releases = fitted_estimator.releases
    certificate = releases[0].certificate
    center = public_center(fitted_estimator)
    lines = []
    for release in releases:
        manifold = parse_manifold(release.certificate.manifold)
        if len(releases) > 1:
            lines.append(f"{release.title}:")
        lines += value_lines(manifold, release.value, study.form, center)
    if study.offer.make_files is not None:
        # Nobody reads the table of a law; the first lines of its files say more.
        lines = []
        for name, content in study.offer.make_files(
            fitted_estimator, study.form
        ).items():
            first_lines = content.decode().splitlines()[:_SHOWN_LINES]
            lines += [f"{name}:", *first_lines, "…"]
    return {
        "what": study.offer.title,
        "value": "\n".join(lines),
        "guarantee": str(certificate.guarantee),
        "unit": protected_unit_sentence(certificate),
    }


def _report(study: Study, fitted_estimator: Any) -> str:
    """Return the report about a release, as an HTML page.

    Parameters
    ----------
    study : Study
        What was released.
    fitted_estimator : PrivateEstimator
        The estimator after `fit`.
    """
    # The report needs an extra that others do not have to install.
    from curvedp.report.html import render_report

    return render_report(fitted_estimator, form=study.form)

"""The state of a running studio: a file, a ledger, and the releases that were made.
The page of the studio asks the methods of `Desk`, which call curvedp as a script would.
`curvedp.studio.server` passes the requests on.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from threading import Lock
from typing import Any

from curvedp._files import write_atomically
from curvedp.comparing import ComparisonOffer
from curvedp.errors import ParameterError
from curvedp.ledger import Entry, Ledger
from curvedp.ledger.book import unit_in_words
from curvedp.privacy import GDP, ZCDP, Guarantee, PureDP
from curvedp.records import FORMS
from curvedp.release.pay import cheapest_request, open_ledger
from curvedp.releasing import Offer, Option
from curvedp.signing import key_of, read_key
from curvedp.studio.comparison import study_from_page
from curvedp.studio.offers import page_offers
from curvedp.studio.outcome import Outcome
from curvedp.studio.pictures import attack_picture, attack_power, size_picture
from curvedp.studio.places import PlaceReports
from curvedp.studio.study import Study, notebook, parse_guarantee
from curvedp.verification import sign_file

# Smaller numbers, such as most δ, are shown with all their digits.
_SMALLEST_WITH_DECIMALS = 0.01

# File systems allow 255 bytes; 150 characters leave room for an ending.
_LONGEST_FILE_NAME = 150

# A release that exceeds the budget by less than this factor may do so by rounding.
_SLIGHTLY_MORE = 1 + 1e-12


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
        The text of the page about it, apart from its files.
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
        """Return a description of the release for the page, as JSON values."""
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
    further_files : sequence of Path
        Files beside `data`, for a comparison in which each file is a group.
    """

    # The largest file that the browser may upload, in bytes.
    max_upload_bytes = 512 * 2**20

    def __init__(
        self,
        folder: Path,
        data: Path | None = None,
        key: Path | None = None,
        ledger_key: Path | None = None,
        further_files: Sequence[Path] = (),
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
        further_files : sequence of Path
            Files beside `data`, for a comparison in which each file is a group.
        """
        self.folder = folder
        # The first file; a comparison takes a further one for each of its other groups.
        self.data = data
        self.further_files: list[Path] = list(further_files)
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
            if not release.unsaved:
                continue
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
            "file": self._file_names(),
            "ledger": self._ledger_state(),
            "releases": [release.to_page() for release in self.releases.values()],
            "forms": list(FORMS),
            "offers": {
                name: page_offer(offer) for name, offer in page_offers().items()
            },
            "most": self.max_upload_bytes,
            "signs": self.key is not None,
        }

    def _file_names(self) -> str | None:
        """Return the names of the files, with commas between; None without a file."""
        if self.data is None:
            return None
        return ", ".join(path.name for path in (self.data, *self.further_files))

    def add_file(self, path: Path, *, is_further: bool) -> None:
        """Take a file that was uploaded as the records, or as a further group of them.

        Parameters
        ----------
        path : Path
            The file.
        is_further : bool
            Whether it is added to the files that were uploaded before it, and does not
            replace them.
        """
        if not is_further or self.data is None:
            self.data = path
            self.further_files = []
        elif path != self.data and path not in self.further_files:
            self.further_files.append(path)

    def _ledger(self) -> Ledger | None:
        """Return the ledger of the folder, or None before it was started."""
        if not self.ledger_path.exists():
            return None
        return open_ledger(self.ledger_path, key=self.ledger_key)

    def _ledger_state(self) -> dict[str, Any] | None:
        """Return a description of the ledger for the page; None before it is started."""
        ledger = self._ledger()
        if ledger is None:
            return None
        return {
            "path": str(self.ledger_path),
            "budget": str(ledger.budget),
            "unit": unit_in_words(ledger.unit),
            "remaining": ledger.remaining_in_words,
            "entries": [_entry_line(entry) for entry in ledger.entries],
        }

    def start_ledger(self, budget: Any) -> dict[str, Any]:
        """Make a ledger with this budget, unless there is one; return the page's state.

        Parameters
        ----------
        budget : dict
            The guarantee that the page sent; see `parse_guarantee`. It may have the
            "study" that is to be paid: some need a ledger for a unit of their own.

        Returns
        -------
        dict
            What `state` returns.
        """
        if self.ledger_path.exists():
            return self.state()
        guarantee = parse_guarantee(budget)
        unit = None
        if budget.get("study") is not None:
            study, _ = self._parse_study(budget["study"])
            unit = study.ledger_unit
        self.folder.mkdir(parents=True, exist_ok=True)
        open_ledger(self.ledger_path, guarantee, key=self.ledger_key, unit=unit)
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
        study = study_from_page(sent_study)
        # A guarantee in other terms may imply the chosen one and cost the ledger less.
        guarantee = cheapest_request(study.guarantee, self._ledger())
        further_files = tuple(self.further_files)
        study = replace(study, guarantee=guarantee, further_files=further_files)
        return study, self.data

    def check(self, sent_study: Any) -> dict[str, Any]:
        """Check the records and return the findings. NOT private: they stay on the page.

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
        return {"facts": checked.fact_texts, "advice": checked.advice}

    def plan(self, request: Any) -> dict[str, Any]:
        """Predict the release of a study, for the page to show.

        Parameters
        ----------
        request : dict
            The request of the page: the study as "study", and possibly a "mechanism".
            Predicting only this one is faster than predicting all of them.

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
        ledger = self._ledger()
        study.check_ledger(ledger)
        prediction = study.predict(sizes, mechanism)

        # While a slider moves, one mechanism is predicted, and this may be left out.
        guess_percent = None
        if mechanism == "auto":
            guess_percent = 50 * (1 + float(guarantee.delta(0.0)))
        return {
            **prediction._asdict(),
            "n": sum(sizes),
            "classes": len(sizes) if study.has_classes else 0,
            "class_word": study.class_word,
            "is_angle": study.error_is_angle,
            "unit": study.unit,
            "guess": guess_percent,
            "power": 100 * attack_power(guarantee),
            "guarantee": str(guarantee),
            "pictures": [
                size_picture(prediction.ball, prediction.error, prediction.region),
                attack_picture(guarantee),
            ],
            "key": None if ledger is None else study.request_key(data, ledger.head),
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
            A description of the release for the page; the same for each request with
            this key.

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
            If there is no ledger, or the key does not belong to this study and ledger.
        """
        study, data = self._parse_study(sent_study)
        ledger = self._ledger()
        if ledger is None:
            raise ParameterError(
                "there is no ledger yet: start one with the budget of this data set"
            )
        if key != study.request_key(data, ledger.head):
            raise ParameterError(
                "something was released or chosen since this was shown: look again; "
                "nothing was spent"
            )
        number = self._next_number()
        folder = self.folder / f"release-{number}"
        label = study.label(data)
        folder.mkdir()  # If this fails, nothing has been paid yet.
        try:
            outcome = study.release(data, ledger, label)
        except BaseException:
            folder.rmdir()
            raise

        release = PaidRelease(number, folder, outcome.summary)
        self.releases[key] = release
        self._add_files(release, study, outcome, data, label)
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
        outcome: Outcome,
        data: Path,
        label: str,
    ) -> None:
        """Make the files of a release in memory.

        Parameters
        ----------
        release : PaidRelease
            To which the files are added.
        study : Study
            The study that was released.
        outcome : Outcome
            The outcome of the study.
        data : Path
            The file with the records.
        label : str
            The label of the release in the ledger.
        """
        release.private_picture = outcome.private_picture
        release.warnings += outcome.warnings
        for name, make_content in outcome.files.items():
            release.add_file(name, make_content)

        sources = [
            path.name if path.parent == self.upload_folder else str(path)
            for path in (data, *study.further_files)
        ]
        key = None if self.ledger_key is None else str(self.ledger_key)
        source, *further_sources = sources
        script = study.script(
            source, str(self.ledger_path), label, key, further_sources
        )
        release.add_file("release.py", lambda: script)
        release.add_file("release.ipynb", lambda: notebook(script))

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
            A description of the release for the page.
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
        if (
            is_folder
            or not file_name.isprintable()
            or len(file_name) > _LONGEST_FILE_NAME
        ):
            raise ParameterError(
                "the file's name is empty, too long or has characters that are not "
                "printed: rename it"
            )
        return self.upload_folder / file_name


def page_offer(offer: Offer) -> dict[str, Any]:
    """Return a description of a statistic, from which the page asks for its options.

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
        column_label = _field_label(offer.column.label, offer.column.note)
    return {
        "title": offer.title,
        "column": column_label,
        "finds_ball": isinstance(offer, ComparisonOffer)
        or any(option.used_with == "private ball" for option in offer.options),
        "options": [_page_option(option) for option in offer.options if option.label],
    }


def _page_option(option: Option) -> dict[str, Any]:
    """Return a description of one option, from which the page shows its field.

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
        "label": _field_label(option.label, option.note),
        "placeholder": option.placeholder,
        "hint": option.hint,
        "suggestion": option.suggestion,
        "keyboard": keyboards[option.kind],
        "used_with": option.used_with,
    }


def _field_label(label: str, note: str) -> str:
    """Return the words above an input field of the page, such as "radius: in km".

    Parameters
    ----------
    label : str
        The name of the input field.
    note : str
        A hint about the field; may be empty.
    """
    return f"{label}: {note}" if note else label


def surely_exceeds(guarantee: Guarantee, ledger: Ledger) -> bool:
    """Return whether a release certainly costs more than a ledger has left.

    Definitions are not converted here: where they differ, the answer is False, and the
    ledger decides when the release is requested.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee for which the ledger would be charged.
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


def round_charge_up(guarantee: Guarantee) -> str:
    """Return a charge with four decimals, never less than it is.

    Parameters
    ----------
    guarantee : Guarantee
        The charged guarantee.

    Returns
    -------
    str
        Such as "GDP(0.4473)"; as it is, if a number is too small for four decimals.
    """
    numbers = [
        number for number in guarantee.to_dict().values() if isinstance(number, float)
    ]
    if any(number < _SMALLEST_WITH_DECIMALS for number in numbers):
        return str(guarantee)
    shown = [str(ceil(10_000 * number) / 10_000) for number in numbers]
    return f"{type(guarantee).__name__}({', '.join(shown)})"


def _entry_line(entry: Entry) -> str:
    """Return an entry of the ledger as a line, with its unit of privacy if it states one.

    Parameters
    ----------
    entry : Entry
        An entry of the ledger.
    """
    line = f"{entry.number}. {entry.label}: {round_charge_up(entry.guarantee)}"
    return line if entry.unit is None else f"{line}, for one {entry.unit.words}"

"""What lies on the studio's table: a file, a ledger, and the releases that were made.

The methods of `Desk` are what the page asks for. They call curvedp as a script would.
"""

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from curvedp._files import write_atomically
from curvedp.core.wording import protected_unit_sentence
from curvedp.errors import ParameterError
from curvedp.ledger import Entry, Ledger
from curvedp.records import FORMS
from curvedp.release.pay import open_ledger
from curvedp.release.warnings import estimator_warnings
from curvedp.releasing import (
    Offer,
    Option,
    all_offers,
    certificate_contents,
    value_content,
)
from curvedp.signing import key_of, read_key
from curvedp.studio.pictures import attack_picture, attack_power, size_picture
from curvedp.studio.rehearsal import predict_release
from curvedp.studio.study import Study, notebook, parse_guarantee
from curvedp.verification import sign_file


@dataclass
class PaidRelease:
    """A release that was paid for, and its files.

    The files are made in memory and then written. What cannot be written, on a disk
    that is full, stays in memory: the page shows it, hands it out and can write it
    again.
    """

    number: int
    folder: Path
    summary: dict[str, Any]
    unsaved: dict[str, bytes] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    save_error: str | None = None

    def add_file(self, name: str, make_content: Callable[[], str | bytes]) -> None:
        """Make a file; where that fails there is a warning and no file."""
        try:
            content = make_content()
        except Exception as error:
            # It is paid for: what was released is never lost for another file's sake.
            self.warnings.append(f"{name} could not be made ({type(error).__name__})")
            return
        self.unsaved[name] = content.encode() if isinstance(content, str) else content

    def save(self) -> None:
        """Write the files that are not on the disk yet."""
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
        """Return the names of the files in the folder, signatures among them."""
        return [
            path.name
            for path in self.folder.glob("*")
            if path.is_file() and not path.name.startswith(".")
        ]

    def names(self) -> list[str]:
        """Return the names of all files, in the folder and in memory."""
        return sorted({*self.saved_names(), *self.unsaved})

    def content(self, name: str) -> bytes | None:
        """Return a file of this release; None where there is none of that name."""
        if name in self.unsaved:
            return self.unsaved[name]
        if name in self.saved_names():
            return (self.folder / name).read_bytes()
        return None

    def shown(self) -> dict[str, Any]:
        """Return what the page shows."""
        return {
            **self.summary,
            "number": self.number,
            "folder": str(self.folder),
            "alarms": self.warnings,
            "files": self.names(),
            "unsaved": self._unsaved_line(),
        }

    def _unsaved_line(self) -> str | None:
        if not self.unsaved:
            return None
        names = ", ".join(sorted(self.unsaved))
        return (
            f"paid for, but not written ({self.save_error}): {names}. Download them "
            "here, or make room and write them again. Do not release again: that pays "
            "again."
        )


class Desk:
    """The file `data`, a ledger and the releases in `folder`, and keys.

    Releases are signed with `key`; `ledger_key` is the ledger's own, where it has one.

    A release is known by the key that was asked with: asking twice, from a second tab
    or after a lost answer, spends once. A file that came through the browser lies in a
    folder that is deleted at the end.
    """

    most = 512 * 2**20  # bytes of a file that comes through the browser

    def __init__(
        self,
        folder: Path,
        data: Path | None = None,
        key: Path | None = None,
        ledger_key: Path | None = None,
    ) -> None:
        self.folder = folder
        self.data = data
        self.key = key
        self.ledger_key = ledger_key
        self.ledger_path = folder / "study.ledger"
        self.private = Path(tempfile.mkdtemp(prefix="curvedp-studio-"))
        self.releases: dict[str, PaidRelease] = {}  # by the key they were asked with
        self.lock = Lock()

    def close(self) -> list[str]:
        """Delete what came through the browser; return lines for the terminal.

        They hold what was paid for and could not be written: it would be lost
        otherwise.
        """
        shutil.rmtree(self.private, ignore_errors=True)
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
        """Return what a page that is loaded (again) must know."""
        return {
            "file": None if self.data is None else self.data.name,
            "ledger": self._ledger_state(),
            "releases": [release.shown() for release in self.releases.values()],
            "forms": list(FORMS),
            "offers": {name: page_offer(offer) for name, offer in all_offers().items()},
            "most": self.most,
            "signs": self.key is not None,
        }

    def _ledger(self) -> Ledger | None:
        if not self.ledger_path.exists():
            return None
        return open_ledger(self.ledger_path, key=self.ledger_key)

    def _ledger_state(self) -> dict[str, Any] | None:
        """Return what the page shows of the ledger."""
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

    def start_ledger(self, chosen: Any) -> dict[str, Any]:
        """Make a ledger with the chosen budget; one that exists is never touched."""
        if not self.ledger_path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            open_ledger(self.ledger_path, parse_guarantee(chosen), key=self.ledger_key)
        return self.state()

    def _study(self, chosen: Any) -> tuple[Study, Path]:
        if self.data is None:
            raise ParameterError("there is no file yet: drop one on the page")
        return Study.from_page(chosen), self.data

    def check(self, chosen: Any) -> dict[str, Any]:
        """Return what is wrong with the records. NOT private: it stays on the page."""
        study, data = self._study(chosen)
        found = study.check(data)
        return {
            "facts": found.shown,
            "advice": found.advice,
        }

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
        """
        study, data = self._study(request["study"])
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
        has_classes = study.statistic == "mdm"
        return {
            **prediction._asdict(),
            "n": sum(sizes),
            "classes": len(sizes) if has_classes else 0,
            "unit": study.unit,
            "guess": guess_percent,
            "power": 100 * attack_power(guarantee),
            "guarantee": str(guarantee),
            "pictures": [
                size_picture(prediction.ball, prediction.error, prediction.region),
                attack_picture(guarantee),
            ],
            "key": None if ledger is None else study.key_at(data, ledger.head),
        }

    def release(self, asked: Any) -> dict[str, Any]:
        """Make a release, once for each key.

        The earlier release is returned where there is one with this key. Where the
        ledger has moved since the key was made, nothing is released.
        """
        key = asked["key"]
        with self.lock:
            if key not in self.releases:
                self._make_release(key, asked["study"])
            return self.releases[key].shown()

    def _make_release(self, key: str, chosen: Any) -> None:
        """Pay for a release, and keep it under its key before anything can fail."""
        study, data = self._study(chosen)
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
            fitted = study.fit(data, ledger, label)
        except BaseException:
            folder.rmdir()
            raise

        release = PaidRelease(number, folder, _summary(study, fitted))
        self.releases[key] = release
        self._add_files(release, study, fitted, data, label)
        release.save()

    def _next_number(self) -> int:
        number = 1
        while (self.folder / f"release-{number}").exists():
            number += 1
        return number

    def _add_files(
        self, release: PaidRelease, study: Study, fitted: Any, data: Path, label: str
    ) -> None:
        """Make the files of a release, the ones that cannot be made again first."""
        release.add_file("value.csv", lambda: value_content(fitted, ".csv"))
        for name, content in certificate_contents(fitted, "certificate.json").items():
            release.unsaved[name] = content
        release.warnings += [warning.text for warning in estimator_warnings(fitted)]

        source = data.name if data.parent == self.private else str(data)
        key = None if self.ledger_key is None else str(self.ledger_key)
        script = study.script(source, str(self.ledger_path), label, key)
        release.add_file("release.py", lambda: script)
        release.add_file("release.ipynb", lambda: notebook(script))
        release.add_file("report.html", lambda: _report(fitted))

    def save(self, asked: Any) -> dict[str, Any]:
        """Write the files of a release that could not be written before."""
        with self.lock:
            release = self._numbered(asked["number"])
            if release is None:
                raise ParameterError("there is no such release")
            release.save()
            return release.shown()

    def sign(self, asked: Any) -> dict[str, Any]:
        """Sign a release that was made here, as `curvedp sign`: verify it first."""
        release = self._numbered(asked["number"])
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

    def _numbered(self, number: int) -> PaidRelease | None:
        for release in self.releases.values():
            if release.number == number:
                return release
        return None

    def file_content(self, number: int, name: str) -> bytes | None:
        """Return a file of a release that was made here; None where there is none."""
        release = self._numbered(number)
        return None if release is None else release.content(name)

    def place_for(self, name: str) -> Path:
        """Return where a file that comes through the browser is put.

        Raises
        ------
        ParameterError
            The name is empty, is no name (`..`), or is not printable.
        """
        bare = Path(name).name
        if bare in ("", ".", "..") or not bare.isprintable() or len(bare) > 150:
            raise ParameterError(
                "the file's name is empty, too long or has characters that are not "
                "printed: rename it"
            )
        return self.private / bare


def page_offer(offer: Offer) -> dict[str, Any]:
    """Return what the page must know about a statistic to ask for its options."""
    column_label = ""
    if offer.column is not None:
        column_label = _field_words(offer.column.label, offer.column.note)
    return {
        "title": offer.title,
        "column": column_label,
        "options": [_page_option(option) for option in offer.options if option.label],
    }


def _page_option(option: Option) -> dict[str, Any]:
    """Return the field of the page in which an option is typed."""
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
    """Return the words above a field of the page, such as "radius: …"."""
    return f"{label}: {note}" if note else label


def _entry_line(entry: Entry) -> str:
    """Return an entry of the ledger, with whom it protects where that was stated."""
    line = f"{entry.number}. {entry.label}: {entry.guarantee}"
    return line if entry.unit is None else f"{line}, for one {entry.unit.words}"


def _summary(study: Study, fitted: Any) -> dict[str, Any]:
    """Return what the page says about a release beside its files."""
    certificate = fitted.releases[0].certificate
    value = np.array2string(fitted.released_array(), precision=6, threshold=400)
    return {
        "what": study.offer.title,
        "value": value,
        "guarantee": str(certificate.guarantee),
        "unit": protected_unit_sentence(certificate),
    }


def _report(fitted: Any) -> str:
    from curvedp.report.html import render_report

    return render_report(fitted)

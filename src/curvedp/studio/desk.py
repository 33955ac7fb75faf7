"""What lies on the studio's table: a file, a ledger, and the releases that were made. It calls curvedp as a script would."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from curvedp._files import write_atomically
from curvedp.alarms import alarms
from curvedp.errors import CurvedpError, ParameterError
from curvedp.ledger import Ledger
from curvedp.records import FORMS
from curvedp.report import write_report
from curvedp.studio.pictures import attack_picture, size_picture
from curvedp.studio.study import Study, guarantee_of, notebook


class Desk:
    """What lies on the table: a file, a ledger, and the releases that were made.

    Attributes
    ----------
    folder : Path
        Where ledger and releases are written.
    data : Path or None
        The file that the records are in. One that came through the browser lies in a folder that is deleted at the end.
    most : int
        Bytes of a file that comes through the browser.
    files : tuple of str
        What a release is written as.
    key : Path or None
        The private key that releases can be signed with.
    done : dict
        Releases by what was asked for, so that asking twice, from a second tab or after a lost answer, spends once.
    """

    most = 512 * 2**20
    files = ("report.html", "certificate.json", "certificate.json.sig", "value.csv", "release.py", "release.ipynb")

    def __init__(self, folder: Path, data: Path | None = None, key: Path | None = None) -> None:
        self.folder, self.data, self.key = folder, data, key
        self.ledger_path = folder / "study.ledger"
        self.private = Path(tempfile.mkdtemp(prefix="curvedp-studio-"))
        self.done: dict[str, dict[str, Any]] = {}
        self.lock = Lock()

    def close(self) -> None:
        """Delete what came through the browser."""
        shutil.rmtree(self.private, ignore_errors=True)

    def state(self, _: Any = None) -> dict[str, Any]:
        """What a page that is loaded (again) must know."""
        name = None if self.data is None else self.data.name
        known = {"forms": list(FORMS), "most": self.most, "signs": self.key is not None}
        return {"file": name, "ledger": self._book(), "releases": list(self.done.values()), **known}

    def _ledger(self) -> Ledger | None:
        return Ledger(self.ledger_path) if self.ledger_path.exists() else None

    def _book(self) -> dict[str, Any] | None:
        book = self._ledger()
        if book is None:
            return None
        rest = "nothing" if book.remaining is None else str(book.remaining)
        entries = [f"{entry.number}. {entry.label}: {entry.guarantee}" for entry in book.entries]
        return {"path": str(self.ledger_path), "budget": str(book.budget), "remaining": rest, "entries": entries}

    def start_ledger(self, chosen: Any) -> dict[str, Any]:
        """A ledger with the chosen budget; one that exists is never touched."""
        if not self.ledger_path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            Ledger(self.ledger_path, guarantee_of(chosen))
        return self.state()

    def _study(self, chosen: Any) -> tuple[Study, Path]:
        if self.data is None:
            raise ParameterError("there is no file yet: drop one on the page")
        return Study.of(chosen), self.data

    def check(self, chosen: Any) -> dict[str, Any]:
        """NOT private, and it does not leave the page."""
        study, data = self._study(chosen)
        found = study.check(data)
        return {"facts": {name: str(value) for name, value in found.facts.items()}, "advice": found.advice}

    def plan(self, asked: Any) -> dict[str, Any]:
        """Predictions, pictures and, where a release could follow, the key that it is asked for by."""
        study, data = self._study(asked["study"])
        found = study.plan(data, asked.get("mechanism", "auto"))
        try:
            region, why = found.region(), ""
        except CurvedpError as error:
            region, why = None, str(error)
        book = self._ledger()
        return {
            "n": found.n,
            "unit": study.unit,
            "mechanism": found.mechanism,
            "error": found.error,
            "share": found.error / found.spread,
            "region": region,
            "why": why,
            "too_small": found.too_small,
            "warnings": [line for line in found.advice() if "too small" in line],
            "guess": 50 * (1 + float(study.guarantee.delta(0.0))),
            "guarantee": str(study.guarantee),
            "pictures": [size_picture(found.spread, found.error, region), attack_picture(study.guarantee)],
            "key": None if book is None else study.key_at(data, book.head),
        }

    def release(self, asked: Any) -> dict[str, Any]:
        """Once for each key: the earlier release where there is one, and none where the ledger has moved since."""
        with self.lock:
            if asked["key"] in self.done:
                return self.done[asked["key"]]
            study, data = self._study(asked["study"])
            book = self._ledger()
            if book is None:
                raise ParameterError("there is no ledger yet: start one with the budget of this data set")
            if asked["key"] != study.key_at(data, book.head):
                raise ParameterError(
                    "something was released or chosen since this was shown: look again; nothing was spent"
                )
            self.done[asked["key"]] = self._release(study, data, book)
            return self.done[asked["key"]]

    def sign(self, asked: Any) -> dict[str, Any]:
        """`curvedp sign` of a release that was made here: it recomputes every claim first."""
        if self.key is None or asked["number"] not in [made["number"] for made in self.done.values()]:
            raise ParameterError("nothing to sign: start the studio with --key, and release")
        certificate = self.folder / f"release-{asked['number']}" / "certificate.json"
        command = [sys.executable, "-m", "curvedp", "sign", str(certificate), "--key", str(self.key)]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        if said.returncode:
            raise ParameterError(said.stderr.strip() or "it could not be signed")
        return {"said": said.stdout.strip()}

    def _release(self, study: Study, data: Path, book: Ledger) -> dict[str, Any]:
        number = next(i for i in range(1, 10**6) if not (self.folder / f"release-{i}").exists())
        home, label = self.folder / f"release-{number}", f"Fréchet mean of {data.name}"[:200]
        home.mkdir()  # what cannot be written is refused before anything is paid
        try:
            mean = study.fit(data, book, label)
        except BaseException:
            home.rmdir()
            raise
        return {"number": number, **self._written(study, mean, home, label)}

    def _written(self, study: Study, mean: Any, home: Path, label: str) -> dict[str, Any]:
        assert self.data is not None  # it was released from
        mean.certificate_.save(home / "certificate.json")
        np.savetxt(home / "value.csv", np.atleast_2d(mean.location_), delimiter=",", fmt="%.17g")
        write_report(home / "report.html", mean)
        source = self.data.name if self.data.parent == self.private else str(self.data)
        script = study.script(source, str(self.ledger_path), label)
        write_atomically(home / "release.py", script)
        write_atomically(home / "release.ipynb", notebook(script))
        return {
            "value": np.array2string(mean.location_, precision=6, threshold=400),
            "guarantee": str(mean.certificate_.guarantee),
            "unit": mean.certificate_.unit,
            "alarms": alarms(mean),
            "folder": str(home),
            "files": [name for name in self.files if (home / name).exists()],
        }

    def place_for(self, name: str) -> Path:
        """Where a file that comes through the browser is put.

        Raises
        ------
        ParameterError
            For a name that is none.
        """
        bare = Path(name).name
        if not bare or not bare.isprintable() or len(bare) > 150:
            raise ParameterError("the file's name is too long or has characters that are not printed: rename it")
        return self.private / bare

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
from curvedp._words import on_page
from curvedp.alarms import alarms
from curvedp.errors import ParameterError
from curvedp.ledger import Entry, Ledger
from curvedp.records import FORMS
from curvedp.releasing import OFFERS, write
from curvedp.studio.pictures import attacked, size_picture
from curvedp.studio.rehearsal import rehearsed
from curvedp.studio.study import Study, guarantee_of, notebook


class Desk:
    """What lies on the table: the file `data`, a ledger and the releases in `folder`, and the key to sign them with.

    What was done is known by what was asked for: asking twice, from a second tab or after a lost answer, spends once. A file
    that came through the browser lies in a folder that is deleted at the end.
    """

    most = 512 * 2**20  # bytes of a file that comes through the browser

    def __init__(
        self, folder: Path, data: Path | None = None, key: Path | None = None
    ) -> None:
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
        offers = {
            name: {**offer._asdict(), "column": offer.column}
            for name, offer in OFFERS.items()
        }
        known = {
            "forms": list(FORMS),
            "offers": offers,
            "most": self.most,
            "signs": self.key is not None,
        }
        book, told = self._ledger(), None
        if book is not None:
            rest = "nothing" if book.remaining is None else str(book.remaining)
            entries = [_line_of(entry) for entry in book.entries]
            told = {
                "path": str(self.ledger_path),
                "budget": str(book.budget),
                "remaining": rest,
                "entries": entries,
            }
        return {
            "file": name,
            "ledger": told,
            "releases": list(self.done.values()),
            **known,
        }

    def _ledger(self) -> Ledger | None:
        return Ledger(self.ledger_path) if self.ledger_path.exists() else None

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
        return {
            "facts": found.shown,
            "advice": [on_page(line) for line in found.advice],
        }

    def plan(self, asked: Any) -> dict[str, Any]:
        """Predictions, pictures and, where a release could follow, the key that it is asked for by."""
        study, data = self._study(asked["study"])
        sizes, guarantee = study.sizes(data), study.guarantee
        found = rehearsed(
            study.offer, study.options, guarantee, sizes, asked.get("mechanism", "auto")
        )
        book, (power, curve) = self._ledger(), attacked(guarantee)
        settled = asked.get("mechanism", "auto") == "auto"
        return {
            **found._asdict(),
            "n": sum(sizes),
            "classes": len(sizes) if study.statistic == "mdm" else 0,
            "unit": study.unit,
            "guess": 50 * (1 + float(guarantee.delta(0.0))) if settled else None,
            "power": 100 * power,
            "guarantee": str(guarantee),
            "pictures": [size_picture(found.ball, found.error, found.region), curve],
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
                raise ParameterError(
                    "there is no ledger yet: start one with the budget of this data set"
                )
            if asked["key"] != study.key_at(data, book.head):
                line = "something was released or chosen since this was shown"
                raise ParameterError(f"{line}: look again; nothing was spent")
            self.done[asked["key"]] = self._release(study, data, book)
            return self.done[asked["key"]]

    def sign(self, asked: Any) -> dict[str, Any]:
        """`curvedp sign` of a release that was made here: it recomputes every claim first."""
        made = next(
            (made for made in self.done.values() if made["number"] == asked["number"]),
            None,
        )
        if self.key is None or made is None:
            raise ParameterError(
                "nothing to sign: start the studio with --key, and release"
            )
        lines = []
        for name in (name for name in made["files"] if name.endswith(".json")):
            certificate = str(Path(made["folder"]) / name)
            command = [
                sys.executable,
                "-m",
                "curvedp",
                "sign",
                certificate,
                "--key",
                str(self.key),
            ]
            said = subprocess.run(command, capture_output=True, text=True, check=False)
            if said.returncode:
                raise ParameterError(said.stderr.strip() or "it could not be signed")
            lines.append(said.stdout.strip())
        return {"said": "; ".join(lines), "files": self.files(made["number"])}

    def _release(self, study: Study, data: Path, book: Ledger) -> dict[str, Any]:
        number = next(
            i for i in range(1, 10**6) if not (self.folder / f"release-{i}").exists()
        )
        home, label = (
            self.folder / f"release-{number}",
            f"{study.offer.title} of {data.name}"[:200],
        )
        home.mkdir()  # what cannot be written is refused before anything is paid
        try:
            fitted = study.fit(data, book, label)
        except BaseException:
            home.rmdir()
            raise
        write(fitted, home / "value.csv", home / "certificate.json", None)
        source = data.name if data.parent == self.private else str(data)
        script = study.script(source, str(self.ledger_path), label)
        write_atomically(home / "release.py", script)
        write_atomically(home / "release.ipynb", notebook(script))
        warnings = alarms(fitted)
        certificate = fitted.releases[0].certificate
        try:
            write(fitted, None, None, home / "report.html")
        except (
            Exception
        ) as error:  # it is paid for: what was released is never lost for a picture
            warnings.append(f"the report could not be drawn ({type(error).__name__})")
        return {
            "number": number,
            "what": study.offer.title,
            "value": np.array2string(
                fitted.released_array(), precision=6, threshold=400
            ),
            "guarantee": str(certificate.guarantee),
            "unit": certificate.unit,
            "alarms": warnings,
            "folder": str(home),
            "files": self.files(number),
        }

    def files(self, number: int) -> list[str]:
        """What a release was written as."""
        home = self.folder / f"release-{number}"
        return sorted(
            path.name
            for path in home.glob("*")
            if path.is_file() and not path.name.startswith(".")
        )

    def place_for(self, name: str) -> Path:
        """Where a file that comes through the browser is put; a `ParameterError` for an unusable name."""
        bare = Path(name).name
        if not bare or not bare.isprintable() or len(bare) > 150:
            raise ParameterError(
                "the file's name is too long or has characters that are not printed: rename it"
            )
        return self.private / bare


def _line_of(entry: Entry) -> str:
    """An entry of the ledger in a line, with whom it protects where that was stated."""
    line = f"{entry.number}. {entry.label}: {entry.guarantee}"
    return line if entry.unit is None else f"{line}, for one {entry.unit}"

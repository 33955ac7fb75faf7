"""What all local mechanisms share: reading records, drawing reports, and certificates.
A local mechanism is a public randomized function of one record. It holds no budget and
no data. Every row of a batch is the record of a person of its own, and every call of
`randomize` is one report of each.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from curvedp._silence import quiet_about_records
from curvedp.core.codes import SamplingPath
from curvedp.laws.law import check_rng
from curvedp.local.certificate import LocalCertificate, describe_reports
from curvedp.local.spaces import RecordSpace, read_batch
from curvedp.randomness import Source
from curvedp.randomness.csprng import SECURE_SOURCE_NAME, check_source


class LocalMechanism(ABC):
    """A public randomized map from one record to one report.

    Attributes
    ----------
    space : RecordSpace
        Where the records live.
    certificate_ : LocalCertificate
        The promise in full. After `randomize`, it is about those reports.
    """

    name: ClassVar[str]
    space: RecordSpace
    certificate_: LocalCertificate

    @property
    def report_space(self) -> RecordSpace:
        """Space of the reports, from which a server reads them.

        It is that of the records unless a subclass says otherwise: noise may lead out of
        a public ball to which records are clipped.
        """
        return self.space

    @property
    @abstractmethod
    def grid(self) -> int:
        """Number of binary digits of a report: reports are multiples of 2^-grid.

        It follows from the noise scale alone, so rounding is public post-processing.
        """

    @property
    @abstractmethod
    def report_slack(self) -> float:
        """Bound of the total variation between a drawn report and an ideal one.

        It depends on public numbers alone. A draw that would exceed it is not released
        (`curvedp.randomness.csprng.Allowance`).
        """

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, from which the mechanism can be built again."""

    @abstractmethod
    def guarantee_record(self) -> dict[str, Any]:
        """Return the guarantee of one report as JSON values, for the certificate.

        "kind" is "metric" (with ε and the unit of distance) or "local" (with the promise
        in words and the definition as JSON values).
        """

    @abstractmethod
    def draw_reports(self, points: np.ndarray, source: Source) -> np.ndarray:
        """Draw one report for each point, exactly, and round it to the grid.

        Parameters
        ----------
        points : array, shape (n, *point_shape)
            What `space.read` returned.
        source : Source
            The random bits.

        Returns
        -------
        array of integers, shape (n, ...)
            The reports on the public grid; nothing else is released.
        """

    @abstractmethod
    def simulate_points(
        self, points: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Draw one report for each point in floats. NOT private.

        Parameters
        ----------
        points : array, shape (n, *point_shape)
            What `space.read` returned.
        rng : Generator
            The source of randomness.
        """

    @abstractmethod
    def points_from_grid(self, integers: np.ndarray) -> np.ndarray:
        """Return the reported points of grid integers: post-processing.

        Parameters
        ----------
        integers : array of integers, shape (n, ...)
            What `draw_reports` returned.
        """

    def randomize(self, X: Any, *, source: Source | None = None) -> np.ndarray:
        """Return one private report for each record.

        The random bits come from the operating system; there is no seed. A record that
        cannot be read (NaN, a zero vector, a latitude beyond a pole) is reported as the
        public record would be, and nobody is told. The certificate of these reports is
        in `certificate_`.

        Parameters
        ----------
        X : array, shape (n, *record_shape) or record_shape
            The records, one for each person; or a single record.
        source : Source, optional
            Other random bits, for tests. The certificate names them.

        Returns
        -------
        array
            The reports, in the form of the records.
        """
        bits = check_source(source)
        points, is_single = read_batch(self.space, X)
        bits.refresh()
        with quiet_about_records():
            integers = self.draw_reports(points, bits)
            reports = self.space.write(self.points_from_grid(integers))
        self.certificate_ = self._certificate(bits, integers)
        return reports[0] if is_single else reports

    def simulate(self, X: Any, rng: np.random.Generator) -> np.ndarray:
        """Return reports that are drawn in floats, for simulation. NOT private.

        Parameters
        ----------
        X : array, shape (n, *record_shape) or record_shape
            The records.
        rng : numpy.random.Generator
            The source of randomness.
        """
        check_rng(rng)
        points, is_single = read_batch(self.space, X)
        with quiet_about_records():
            reports = self.space.write(self.simulate_points(points, rng))
        return reports[0] if is_single else reports

    def _certificate(
        self, source: Source | None = None, integers: np.ndarray | None = None
    ) -> LocalCertificate:
        """Return the certificate of the mechanism, or of a batch of reports.

        Parameters
        ----------
        source : Source, optional
            Where the bits came from; by default the operating system.
        integers : array of integers, optional
            The reports on the public grid, if there are any.
        """
        entropy = {"source": SECURE_SOURCE_NAME, "cryptographic": True}
        if source is not None:
            entropy = {
                "source": source.name,
                "cryptographic": source.is_cryptographic,
            }
        return LocalCertificate(
            mechanism=self.name,
            space=self.space.name,
            parameters=self.parameters(),
            guarantee=self.guarantee_record(),
            slack=self.report_slack,
            path=SamplingPath.EXACT_THEN_ROUND,
            entropy=entropy,
            reports=None if integers is None else describe_reports(integers),
        ).sealed()

"""Private transfer centering. A *domain* is a subject, a session or a site. Its
*reference* is the private mean of its records; each domain is moved so that its
reference is the origin. Its *dispersion*, how spread its records are, is released too
if records are also scaled.

Recentering removes what is special about a
domain, so that a classifier of some domains serves others. `PrivateRecenter` is made
for the places where pyRiemann has `TLCenter` and `TLScale`.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.core.certificate import Certificate
from curvedp.core.codes import ProtectedUnit
from curvedp.core.released import ReleasedValue
from curvedp.core.statistic import Ball, public_ball
from curvedp.errors import CurvedpError, ParameterError, ReleaseWarning
from curvedp.estimators.base import (
    BallEstimator,
    PendingRelease,
    delete_fitted_attributes,
)
from curvedp.estimators.domains import (
    check_persons_in_domains,
    domains_and_persons,
    domains_or_subjects,
    unit_within_domains,
)
from curvedp.estimators.mdm import PrivateMDM
from curvedp.estimators.published_file import read_published, write_published
from curvedp.estimators.recentering import own_mean, recenter
from curvedp.estimators.shares import (
    check_divisible,
    check_ledger_can_pay,
    collect_release_warnings,
    issue_warnings,
    share_of_guarantee,
)
from curvedp.geometry import parse_manifold
from curvedp.geometry.capabilities import OriginIsometry
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.geometry.spaces.spd_common import SPD
from curvedp.inference.region import simultaneous
from curvedp.inference.shapes import Region
from curvedp.records.base import is_chunked, open_records
from curvedp.records.chunked import map_records
from curvedp.records.labels import Labels
from curvedp.records.persons import encode_persons
from curvedp.release.choose import choose_mechanism
from curvedp.release.predict import predicted_error
from curvedp.release.rebuild import final_mechanism_of
from curvedp.statistics.frechet_variance import FrechetVariance
from curvedp.statistics.searched_ball import default_outer_radius

# The name and version of the files that `PrivateRecenter.save` writes.
SCHEMA = "curvedp-recenter/1"

# The fraction of μ² that the reference means take if dispersions are released too. It
# is a choice: a dispersion is one number, and needs less than a mean.
_MEAN_SHARE = 0.8
_DISPERSION_SHARE = 1 - _MEAN_SHARE

# The label of a ledger's entry has at most this many characters.
_LONGEST_LABEL = 200

# A domain has at least this many records, or people.
_LEAST_RECORDS = 2

# The widest ball of a dispersion, as a fraction of the convexity radius π/(2√κ). No mean
# is computed in a ball of radius·√κ > 1.35, which is 0.859 of it.
_SHARE_OF_CONVEXITY = 0.85

# What is paid for in two parts, in messages.
_RELEASE_NAME = "recentering with final_dispersion"

# What `transform` may do with a domain that `fit` has not seen.
NEW_DOMAINS = ("refuse", "own-mean")


@dataclass(eq=False, repr=False)
class PrivateRecenter(TransformerMixin, BallEstimator):
    """A transformer that recenters each domain at its private Fréchet mean.

    A domain is a subject, a session or a site. `fit` releases one private reference
    mean for each domain. `transform` moves records so that the reference of their
    domain becomes the origin (for covariance matrices the identity). It takes the place
    of pyRiemann's `TLCenter`, and with `final_dispersion` also of `TLScale`.

    Whose privacy: by default one record (trial) within its domain. The domains and
    their sizes are public, each record is read for one domain only, and so all
    references together cost as much as one (parallel composition). A whole subject is
    NOT protected if the domain is the subject: the mean of one person is about that
    person. With `groups=`, a person with all their records is protected, within a
    domain of several people, such as a site.

    Only the references (and dispersions) are released. Recentered records are private
    data in other coordinates: anything learned from them needs a guarantee of its own.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records: positive definite matrices (recentered by the
        symmetric root of the inverse reference, as in pyRiemann), Euclidean or
        hyperbolic space, correlations or proportions.
    radius : float or "private"
        The radius of the public ball into which records are clipped. "private", the
        default, finds a ball for each domain privately, inside the public outer ball.
    center : point, optional
        The center of the public ball; by default the manifold's origin.
    outer_radius : float, optional
        With `radius="private"`: the radius of the public outer ball, which may be
        generous. By default it covers a compact space entirely and matrices in any unit
        of measurement; it is 25 in hyperbolic space and 1e6 in flat space.
    guarantee : Guarantee
        The privacy guarantee of all references and dispersions together.
    mechanism : str
        "auto" takes the smallest predicted error. By name: "gaussian", "laplace",
        "tangent-gaussian", "tangent-laplace", "newton" (on spheres and hyperbolic
        spaces), "gradient" (any ball), "kng" (up to dimension 4, drawn in floats).
    ledger : Ledger, optional
        The ledger that is charged. Nothing is charged if `fit` raises an error.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        A source of random bits that replaces the cryptographic one in simulations. The
        certificate records the replacement.
    target_domain : label
        The domain to which `transform` recenters if it is given no domains; by default
        the last one in sorted order.
    new_domain : {"refuse", "own-mean"}
        What `transform` does with a domain that `fit` has not seen, such as the subject
        who is held out in a cross-subject evaluation. "own-mean" recenters its records
        at their own mean, which is NOT private and is not released: a new user does so
        on their own machine. If `transform` then gets no domains, and there is no
        `target_domain`, it treats all its records as one new domain.
    final_dispersion : float, optional
        With it the dispersion of each domain (its mean square distance to the mean) is
        released too, and records are stretched about the reference until their
        dispersion is this number. The guarantee must be GDP then; of μ², references
        take 0.8 and dispersions 0.2.

    Attributes
    ----------
    domains_ : ndarray
        The domains, in sorted order.
    centers_ : dict
        From a domain to its private reference mean.
    scales_ : dict
        From a domain to its private dispersion; empty without `final_dispersion`. A
        dispersion below its own predicted error is raised to it.
    target_domain_, new_domain_, final_dispersion_
        The parameters with which it was fitted. `target_domain_` is None where
        `transform` takes records for a new domain.
    certificates_ : list of Certificate
        The certificates of the references in the order of `domains_`, then those of the
        dispersions.

    Notes
    -----
    Guarantees

    - errors are because of parameters, shapes, types, labels and domains, never of a
      record's values, and come before anything is spent;
    - all references and dispersions together meet `guarantee` for replacing one record
      within its domain, for ANY data; with `groups`, one person with all their records
      within the domain that these share.

    `fit_transform` recenters every record in its own domain, while `transform` uses the
    target domain, as pyRiemann's classes do.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> rng = np.random.default_rng(0)
    >>> signals = rng.normal(size=(600, 2, 40)) * [[1.0], [2.0]]
    >>> X = signals @ signals.mT / 40
    >>> subject = np.repeat(["s1", "s2"], 300)
    >>> recenter = PrivateRecenter(SPDAffineInvariant(2), target_domain="s2")
    >>> recentered = recenter.fit_transform(X, domains=subject)
    >>> sorted(recenter.centers_)
    ['s1', 's2']
    >>> recenter.transform(X[300:]).shape
    (300, 2, 2)
    """

    _name = "domain means"

    radius: float | str | None = "private"
    target_domain: Any = ""
    final_dispersion: float | None = None
    new_domain: str = "refuse"

    def fit(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        domains: Any = None,
        subjects: Any = None,
    ) -> Self:
        """Release one reference mean for each domain, and charge the ledger.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records, such as covariance matrices of trials.
        y : sequence of n texts, optional
            Extended labels "domain/label", as `pyriemann.transfer.encode_domains`
            makes them. Only the domain is read. Not needed with `domains`.
        groups : sequence of n ids, optional
            The person to whom each record belongs. Then a person with all their records
            is the unit of privacy; each must be in one domain only, and each domain
            needs at least two. Without `domains` and extended labels, the groups are
            the domains, and a `ReleaseWarning` says that records are protected.
        domains : sequence of n labels, optional
            The public domain of each record.
        subjects : sequence of n labels, optional
            Another name of `domains`, under which MOABB passes the subject of each
            trial to a step with `set_fit_request(subjects=True)`.

        Returns
        -------
        self
            With `domains_`, `centers_`, `scales_`, `certificates_` and `manifold_` set.

        Raises
        ------
        ParameterError
            Before anything is paid: for wrong parameters, without domains, for a domain
            with fewer than 2 records, or if a person has records in several domains.
        """
        self._validate_params()
        self._validate_recenter_params()
        domains, persons = domains_and_persons(
            y, groups, domains_or_subjects(domains, subjects)
        )
        n_records = open_records(X, self.manifold.point_shape).n
        labels = Labels(domains, n_records)
        self._check_target(labels.classes.tolist())
        if persons is not None:
            check_persons_in_domains(labels, persons)

        mean_guarantee = self.guarantee
        if self.final_dispersion is not None:
            total_guarantee = check_divisible(self.guarantee, _RELEASE_NAME)
            unit = unit_within_domains(persons)
            check_ledger_can_pay(self.ledger, total_guarantee, unit, _RELEASE_NAME)
            mean_guarantee = share_of_guarantee(total_guarantee, _MEAN_SHARE)
            self._check_dispersions()

        means = _DomainMeans(
            manifold=self.manifold,
            radius=self.radius,
            center=self.center,
            guarantee=mean_guarantee,
            mechanism=self.mechanism,
            ledger=self.ledger,
            label=self.label or self._name,
            source=self.source,
            outer_radius=self.outer_radius,
            ball="each" if self._searches_ball else "auto",
        )
        dispersions = None
        with collect_release_warnings() as warning_texts:
            means._fit_means(X, domains, persons)
            if self.final_dispersion is not None:
                dispersions = self._release_dispersions(X, domains, persons, means)
        self._copy_releases(means, dispersions)
        issue_warnings(warning_texts)
        return self._warn_after_release()

    def _validate_recenter_params(self) -> None:
        """Refuse a space that cannot be recentered, and unusable parameters.

        Raises
        ------
        ParameterError
            For a product or a space without an isometry that moves a mean to the
            origin, a `final_dispersion` that is not a length, or an unknown `new_domain`.
        """
        manifold = check_manifold(self.manifold)
        if len(manifold.factors) > 1 or not isinstance(manifold, OriginIsometry | SPD):
            raise ParameterError(
                "must be a space that can be recentered: matrices (SPD), Euclidean or "
                "hyperbolic space, correlations or proportions",
                parameter="manifold",
                value=manifold,
            )
        if self.final_dispersion is not None:
            _validate.length("final_dispersion", self.final_dispersion)
        _validate.choice("new_domain", self.new_domain, NEW_DOMAINS)

    def _check_target(self, domains: list[Any]) -> None:
        """Raise `ParameterError` if `target_domain` is not one of the domains.

        The empty text "" means that there is no target domain.

        Parameters
        ----------
        domains : list of labels
            The public domains of the records.

        Raises
        ------
        ParameterError
            If `target_domain` is neither "" nor one of them.
        """
        target = self.target_domain
        is_label = isinstance(target, str | int | float) and not isinstance(
            target, bool
        )
        if not is_label or target not in ["", *domains]:
            raise ParameterError(
                f"must be one of the domains ({', '.join(map(str, domains[:20]))}), or "
                "left out",
                parameter="target_domain",
                value=target,
            )

    def _check_dispersions(self) -> None:
        """Check that dispersions can be released, before references are paid for.

        Otherwise the error would come after the first of the two releases.

        Raises
        ------
        ParameterError
            If no dispersion can be released in a ball as large as a reference may have.
        """
        if self.manifold.convexity_radius == 0:
            raise ParameterError(
                f"is not for {self.manifold!r}, where no dispersion has a known bound; "
                "leave it out",
                parameter="final_dispersion",
                value=self.final_dispersion,
            )
        radius: Any = self.radius
        if self._searches_ball:
            radius = default_outer_radius(self.manifold, self.outer_radius)
            radius = _dispersion_radius(self.manifold, radius)
        ball = public_ball(self.manifold, self.center, radius)
        statistic = FrechetVariance(self.manifold, *ball, _LEAST_RECORDS)
        choose_mechanism("auto", statistic, self.guarantee)

    def _release_dispersions(
        self, X: Any, domains: Any, persons: Any, means: "_DomainMeans"
    ) -> "_DomainDispersions":
        """Release how spread the records of each domain are about its reference.

        `fit` calls this after the references (the private means of the domains) were
        released. A certificate of a reference states the ball in which it was computed.
        The dispersion of the same domain is computed in that ball, too.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.
        domains : sequence of n labels
            The public domain of each record.
        persons : sequence of n ids, or None
            The person to whom each record belongs.
        means : _DomainMeans
            The released references: their balls are public by now.

        Returns
        -------
        _DomainDispersions
            The fitted estimator, with a dispersion for each domain.
        """
        dispersions = _DomainDispersions(
            manifold=self.manifold,
            radius=self.radius,
            center=self.center,
            guarantee=share_of_guarantee(
                check_divisible(self.guarantee, _RELEASE_NAME), _DISPERSION_SHARE
            ),
            ledger=self.ledger,
            label=f"{self.label or self._name}: dispersions"[:_LONGEST_LABEL],
            source=self.source,
            outer_radius=self.outer_radius,
        )
        balls = [_ball_of_mean(certificate) for certificate in means.certificates_]
        if self._searches_ball:
            balls = [
                Ball(ball.center, _dispersion_radius(self.manifold, ball.radius))
                for ball in balls
            ]
        return dispersions.fit_in_balls(X, domains, persons, balls)

    def _copy_releases(
        self, means: "_DomainMeans", dispersions: "_DomainDispersions | None"
    ) -> None:
        """Replace the fitted attributes of this estimator by what was just released.

        `fit` calls it after all releases are made.

        Parameters
        ----------
        means : _DomainMeans
            The released references.
        dispersions : _DomainDispersions or None
            The released dispersions, if there are any.
        """
        delete_fitted_attributes(self)
        domains = means.classes_.tolist()
        self.manifold_ = means.manifold_
        self.domains_ = means.classes_
        self.centers_ = dict(zip(domains, means.means_, strict=True))
        self.scales_: dict[Any, float] = {}
        self.target_domain_ = self.target_domain
        if self.target_domain == "":
            self.target_domain_ = None if self._accepts_new_domains else domains[-1]
        self.new_domain_ = self.new_domain
        self.final_dispersion_ = self.final_dispersion

        self._published = list(means._published)
        self._warnings_before_paying = list(means._warnings_before_paying)
        if dispersions is not None:
            self.scales_ = dict(zip(domains, dispersions.dispersions_, strict=True))
            self._published += dispersions._published
            self._warnings_before_paying += dispersions._warnings_before_paying
        self.certificates_ = [release.certificate for release in self._published]

    @property
    def _accepts_new_domains(self) -> bool:
        """Return whether records of a new domain are recentered at their own mean."""
        return self.new_domain == "own-mean"

    def transform(self, X: Any, domains: Any = None) -> Any:
        """Recenter records: all in the target domain, or each in its own domain.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records. A dask array is recentered lazily, in the target domain.
        domains : sequence of n labels, optional
            The domain of each record. By default all are of the target domain.

        Returns
        -------
        array of shape (n, *point_shape)
            The recentered records. NOT private. A record that is not a point of the
            space is replaced by the origin.

        Raises
        ------
        ParameterError
            If a domain has no reference, unless new domains have their own mean.
        """
        check_is_fitted(self)
        if domains is None and self.target_domain_ is None:
            return self._recenter_new_domain(
                open_records(X, self.manifold_.point_shape, min_records=1).array()
            )
        if domains is None:
            return self._recenter_domain(self.target_domain_, X)
        if is_chunked(X):
            raise ParameterError(
                "is for records in memory: a dask array is recentered in the target domain",
                parameter="domains",
            )
        records = open_records(X, self.manifold_.point_shape, min_records=1).array()
        labels = Labels(domains, len(records))
        recentered = np.empty(records.shape)
        for code, domain in enumerate(labels.classes.tolist()):
            in_domain = labels.codes == code
            recentered[in_domain] = self._recenter_domain(domain, records[in_domain])
        return recentered

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        domains: Any = None,
        subjects: Any = None,
    ) -> Any:
        """Release the references, and recenter every record in its own domain.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.
        y : sequence of n texts, optional
            Extended labels "domain/label", of which only the domain is read.
        groups : sequence of n ids, optional
            The person to whom each record belongs. Without `domains` and extended
            labels, the groups are the domains.
        domains : sequence of n labels, optional
            The public domain of each record.
        subjects : sequence of n labels, optional
            Another name of `domains`.

        Returns
        -------
        array of shape (n, *point_shape)
            The recentered records. NOT private.
        """
        domains = domains_or_subjects(domains, subjects)
        self.fit(X, y, groups=groups, domains=domains)
        with warnings.catch_warnings(action="ignore", category=ReleaseWarning):
            record_domains, _ = domains_and_persons(y, groups, domains)
        return self.transform(X, domains=record_domains)

    def _recenter_domain(self, domain: Any, X: Any) -> Any:
        """Return records of one domain, recentered and stretched. NOT private.

        Parameters
        ----------
        domain : label
            The domain, whose private mean is moved to the origin.
        X : array of shape (n, *point_shape)
            The records, maybe a dask array.

        Returns
        -------
        array or dask array of shape (n, *point_shape)
            The recentered records.

        Raises
        ------
        ParameterError
            If nothing was released for the domain.
        """
        if domain not in self.centers_ and self.new_domain_ == "own-mean":
            return self._recenter_new_domain(X)
        if domain not in self.centers_:
            raise ParameterError(
                "has no private reference: fit it, or name one of "
                f"{', '.join(map(str, self.centers_))}",
                parameter="domain",
                value=domain,
            )
        factor = 1.0
        if self.final_dispersion_ is not None:
            factor = sqrt(self.final_dispersion_ / self.scales_[domain])
        manifold = self.manifold_
        recenter_block = partial(recenter, manifold, self.centers_[domain], factor)
        return map_records(
            recenter_block, X, manifold.point_shape, manifold.point_shape
        )

    def _recenter_new_domain(self, records: np.ndarray) -> np.ndarray:
        """Return records recentered at their own mean, and stretched. NOT private.

        Parameters
        ----------
        records : array of shape (n, *point_shape)
            The records of a domain that `fit` has not seen. Those that are no points of
            the space do not count for the mean.

        Returns
        -------
        array of shape (n, *point_shape)
            The recentered records.
        """
        manifold = self.manifold_
        with quiet_about_records():
            mean = own_mean(manifold, records)
            recentered = recenter(manifold, mean, 1.0, records)
            if self.final_dispersion_ is None:
                return recentered
            distances = np.asarray(manifold.dist(manifold.origin, recentered))
            dispersion = float(np.mean(distances**2))
            if not (dispersion > 0 and np.isfinite(dispersion)):
                return recentered
            factor = sqrt(self.final_dispersion_ / dispersion)
            return recenter(manifold, mean, factor, records)

    def confidence_region(  # type: ignore[override]  # one for each domain
        self, level: float = 0.95, of: str = "records"
    ) -> dict[Any, Region]:
        """Return a region for the mean of each domain, with simultaneous coverage.

        Parameters
        ----------
        level : float
            The coverage: the probability that all regions contain their targets.
        of : {"records", "population"}
            Whether the target of a region is the mean of the domain's clipped records,
            or that of the population from which they were drawn independently.

        Returns
        -------
        dict
            From a domain to its region.

        Raises
        ------
        ParameterError
            Before `fit`, and if no theorem gives regions for this release.
        """
        if not self.__sklearn_is_fitted__():
            raise ParameterError(
                "PrivateRecenter is not fitted: call fit before confidence_region"
            )
        domains = self.domains_.tolist()
        regions = simultaneous(self.certificates_[: len(domains)], level, of)
        return dict(zip(domains, regions, strict=True))

    def save(self, path: str | Path) -> None:
        """Write the references, dispersions and certificates to a file that may be published.

        Parameters
        ----------
        path : str or Path
            A JSON file. `PrivateRecenter.load` reads it.

        Raises
        ------
        ParameterError
            Before `fit`.
        """
        releases = self.releases
        parameters = {
            "manifold": self.manifold_.name,
            "domains": self.domains_.tolist(),
            "target_domain": self.target_domain_,
            "new_domain": self.new_domain_,
            "final_dispersion": self.final_dispersion_,
        }
        write_published(path, SCHEMA, parameters, releases)

    @classmethod
    def load(cls, path: str | Path) -> "PrivateRecenter":
        """Read a fitted transformer from a file that `save` wrote, without any records.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        PrivateRecenter
            It transforms as the saved one does. Its values were compared with their
            certificates; `curvedp.release.verify.verify_certificate` checks these.

        Raises
        ------
        ParameterError
            If `save` did not write the file, or a value differs from its certificate.
        """
        parameters, releases = read_published(path, SCHEMA)
        return _recenter_from(path, parameters, releases)


def _recenter_from(
    path: str | Path, parameters: Mapping[str, Any], releases: list[ReleasedValue]
) -> PrivateRecenter:
    """Return the fitted transformer that a file describes.

    It is the inverse of `PrivateRecenter.save`.

    Parameters
    ----------
    path : str or Path
        The file, for messages.
    parameters : mapping
        Its public parameters.
    releases : list of ReleasedValue
        The references of all domains, and then their dispersions if there are any.

    Returns
    -------
    PrivateRecenter
        The transformer, which transforms without records.

    Raises
    ------
    ParameterError
        If the parameters do not describe a `PrivateRecenter`.
    """
    problem = f"{path} does not hold a saved PrivateRecenter"
    try:
        manifold = parse_manifold(parameters["manifold"])
        domains = list(parameters["domains"])
        target_domain = parameters["target_domain"]
        final_dispersion = parameters["final_dispersion"]
        releases_per_domain = 1 if final_dispersion is None else 2
        if len(releases) != len(domains) * releases_per_domain:
            raise ParameterError(problem)
        if not _are_domains(domains, target_domain):
            raise ParameterError(problem)

        # The file lists the references of all domains first, then their dispersions.
        references = releases[: len(domains)]
        dispersions = releases[len(domains) :]
        if any(each.certificate.manifold != manifold.name for each in references):
            raise ParameterError(problem)

        model = PrivateRecenter(
            manifold,
            guarantee=references[0].certificate.guarantee,
            target_domain="" if target_domain is None else target_domain,
            final_dispersion=final_dispersion,
            new_domain=parameters["new_domain"],
        )
        model._validate_recenter_params()
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, CurvedpError):
            raise
        raise ParameterError(problem) from None

    # The fitted attributes, as `fit` sets them.
    model.manifold_ = manifold
    model.domains_ = np.asarray(domains)
    model.centers_ = {
        domain: release.value
        for domain, release in zip(domains, references, strict=True)
    }
    model.target_domain_ = target_domain
    model.new_domain_ = model.new_domain
    model.final_dispersion_ = final_dispersion
    model.certificates_ = [release.certificate for release in releases]
    model.scales_ = {
        domain: _usable_dispersion(release)
        for domain, release in zip(domains, dispersions, strict=False)
    }
    model._published = releases
    model._warnings_before_paying = []
    return model


def _are_domains(domains: list[Any], target_domain: Any) -> bool:
    """Return whether JSON values are the domains of a saved transformer and its target.

    Parameters
    ----------
    domains : list
        The labels of the domains in the file: different texts or numbers, at least one.
    target_domain : JSON value
        One of them, or None.
    """
    are_labels = all(isinstance(domain, str | int | float) for domain in domains)
    if not domains or not are_labels or len(set(domains)) != len(domains):
        return False
    return target_domain is None or target_domain in domains


class _DomainMeans(PrivateMDM):
    """The private mean of each domain: class means whose public classes are domains."""

    _name = "domain means"
    _part_name: ClassVar[str] = "domain"
    _record_in_part: ClassVar[ProtectedUnit] = ProtectedUnit.RECORD_IN_DOMAIN
    _person_in_part: ClassVar[ProtectedUnit] = ProtectedUnit.PERSON_IN_DOMAIN


class _DomainDispersions(BallEstimator):
    """The private Fréchet variance of each domain, in a public ball of its own."""

    _name = "domain dispersions"

    def fit_in_balls(
        self, X: Any, domains: Any, persons: Any, balls: list[Ball]
    ) -> Self:
        """Release one dispersion for each domain; together they cost as much as one.

        Each record is read for its own domain only.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.
        domains : sequence of n labels
            The public domain of each record.
        persons : sequence of n ids, or None
            The person to whom each record belongs.
        balls : list of Ball
            The public ball of each domain, in sorted order of the domains.

        Returns
        -------
        self
            With `dispersions_` set: the mean squared distance to the mean, per domain.
        """
        labels = Labels(domains, open_records(X, self.manifold.point_shape).n)
        if persons is not None:
            # One record for each person follows; it has the domain of their first.
            person_index = encode_persons(persons, len(labels.codes))
            _, first_record = np.unique(person_index, return_index=True)
            labels = Labels(labels.codes[first_record], len(first_record))
        records, unit = self._load_records(X, persons)
        unit_in_domain = ProtectedUnit.RECORD_IN_DOMAIN
        if unit is ProtectedUnit.PERSON:
            unit_in_domain = ProtectedUnit.PERSON_IN_DOMAIN

        pending: list[PendingRelease] = []
        for code, ball in enumerate(balls):
            statistic = FrechetVariance(
                self.manifold, ball.center, ball.radius, int(labels.sizes[code])
            )
            chosen = choose_mechanism("auto", statistic, self.guarantee)
            pending.append(
                self._pending_release(
                    chosen, records.select_class(labels, code), "dispersion of a domain"
                )
            )
        self._pay_and_release(pending, unit_in_domain)
        self.dispersions_ = [_usable_dispersion(release) for release in self._published]
        return self


def _ball_of_mean(certificate: Certificate) -> Ball:
    """Return the public ball of a released mean, given or found privately.

    Parameters
    ----------
    certificate : Certificate
        The certificate of the mean.
    """
    statistic: Any = final_mechanism_of(certificate).statistic
    return Ball(statistic.center, statistic.radius)


def _dispersion_radius(manifold: Manifold, radius: float) -> float:
    """Return the radius of the ball in which the dispersion of a domain is released.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    radius : float
        The radius of the ball in which the reference was released.

    Returns
    -------
    float
        That radius; or a share of the convexity radius, if that is smaller. In a
        wider ball no bound on the dispersion's sensitivity is known.
    """
    return min(radius, _SHARE_OF_CONVEXITY * manifold.convexity_radius)


def _usable_dispersion(release: ReleasedValue) -> float:
    """Return a released dispersion that is safe to divide by.

    Records are rescaled by the root of a quotient of dispersions. Noise can make a
    dispersion 0 or negative, so a dispersion below its predicted error is replaced by
    that error. If no error can be predicted either, the result is 1.

    Parameters
    ----------
    release : ReleasedValue
        The dispersion of a domain, with its certificate.
    """
    error = predicted_error(final_mechanism_of(release.certificate))
    dispersion = max(0.0, float(np.ravel(release.value)[0]))
    if error > 0:  # 0 or NaN in balls so wide that no error can be predicted
        dispersion = max(dispersion, error)
    return dispersion or 1.0

"""Comparisons of groups in the studio: a private test, the means, and an effect size.
Each file is a group, or a column of one file says the group of each record. What the
page asks for is declared in `curvedp.comparing`; the shell has `curvedp test`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from curvedp.comparing import (
    COMPARISONS,
    ComparisonOffer,
    Group,
    check_number_of_groups,
    check_same_persons,
    compare,
    comparison_files,
    comparison_lines,
    comparison_report,
    read_groups,
)
from curvedp.core.wording import protected_unit_sentence
from curvedp.errors import CurvedpError, ParameterError
from curvedp.estimators.comparison import (
    GroupComparison,
    budget_share_of_test,
    comparison_unit,
    public_or_outer_ball,
)
from curvedp.estimators.shares import check_divisible, share_of_guarantee
from curvedp.geometry import parse_manifold
from curvedp.inference.kernel import PairedDistance, SamplesDistance
from curvedp.inference.permutation import PermutationMechanism
from curvedp.ledger import Ledger
from curvedp.planning import Plan, plan
from curvedp.privacy import GDP, PrivacyUnit
from curvedp.releasing import parse_column
from curvedp.studio.outcome import Outcome
from curvedp.studio.rehearsal import Prediction
from curvedp.studio.study import Study, keyword_source, ledger_source
from curvedp.studio.wording import error_text

# The defaults of `compare_groups`.
_LEVEL = 0.05
_PERMUTATIONS = 498

# The power at which a shift counts as found, and the shifts that are tried, as
# fractions of the spread of the records.
_WANTED_POWER = 0.8
_SHIFTS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0)

# A simulated test takes time in proportion to n². Of larger groups so many records are
# simulated, which find only larger shifts.
_MOST_SIMULATED = 100


def study_from_page(page_values: Any) -> Study:
    """Return the study that the page sent: of a statistic, or of a comparison.

    Parameters
    ----------
    page_values : mapping
        Fields of a study and options of its statistic, all by name.

    Returns
    -------
    Study
        A `ComparisonStudy` if a comparison was chosen.

    Raises
    ------
    ParameterError
        If a name is unknown, a value has the wrong type, or there is no manifold.
    """
    if isinstance(page_values, Mapping):
        statistic = page_values.get("statistic")
        if isinstance(statistic, str) and statistic in COMPARISONS:
            return ComparisonStudy.from_page(page_values)
    return Study.from_page(page_values)


@dataclass(frozen=True)
class ComparisonStudy(Study):
    """One comparison of groups, as it was chosen on the page.

    It has the fields of a `Study`. Its `column` says the group of each record of a
    single file; without it each file is a group.
    """

    @property
    def offer(self) -> ComparisonOffer:
        """The comparison's entry in the table of `curvedp.comparing`."""
        return COMPARISONS[self.statistic]

    @property
    def unit(self) -> str:
        """Whose data are protected: "person" or "record". A pair is of one person."""
        return "person" if self.groups or self.offer.is_paired else "record"

    @property
    def has_classes(self) -> bool:
        """Whether `sizes` counts several groups. Pairs are counted once."""
        return not self.offer.is_paired

    @property
    def class_word(self) -> str:
        """What the page calls a class of records."""
        return "group"

    @property
    def ledger_unit(self) -> PrivacyUnit:
        """The unit for which a ledger must count to pay for the comparison."""
        if self.offer.is_paired:
            return PrivacyUnit.PERSON
        return comparison_unit(self.groups or None)

    def label(self, data: Path) -> str:
        """Return how the labels of the ledger's entries begin.

        Parameters
        ----------
        data : Path
            The first file.
        """
        names = ", ".join(path.name for path in (data, *self.further_files))
        # Each part of the comparison adds a word, and 200 characters are allowed.
        return f"{self.offer.title}, {names}"[:180]

    def check_ledger(self, ledger: Ledger | None) -> None:
        """Refuse a ledger that counts for another unit than the comparison protects.

        Parameters
        ----------
        ledger : Ledger or None
            The ledger that pays for the comparison.

        Raises
        ------
        ParameterError
            If the ledger counts for another unit, or for none so far.
        """
        if ledger is None or ledger.unit is self.ledger_unit:
            return
        counted = (
            "no unit so far" if ledger.unit is None else f"one {ledger.unit.words}"
        )
        raise ParameterError(
            f"the ledger counts for {counted}, and a {self.offer.title} needs one for "
            f"one {self.ledger_unit.words}: start the studio with another --folder, and "
            "choose the comparison before you start the ledger there"
        )

    def read_groups(self, data: Path) -> list[Group]:
        """Read the groups, and refuse groups that do not suit this kind of comparison.

        Parameters
        ----------
        data : Path
            The first file.

        Returns
        -------
        list of Group
            In the order of the files, or of the sorted labels.

        Raises
        ------
        ParameterError
            If there is one group only, or a file cannot be read in this way.
        """
        paths = (data, *self.further_files)
        if len(paths) == 1 and not self.column:
            assert self.offer.column is not None
            raise ParameterError(
                f"is missing: {self.offer.column.description}", parameter="labels"
            )
        modified = tuple(path.stat().st_mtime_ns for path in paths)
        reading_options = json.dumps(self._reading_options_of_groups())
        groups = _read_groups_once(self.manifold, reading_options, paths, modified)
        is_paired = self.offer.is_paired
        check_number_of_groups(self.offer.title, len(groups), needs_two=is_paired)
        if is_paired:
            check_same_persons(*groups)
        return groups

    def _reading_options_of_groups(self) -> dict[str, Any]:
        """Return how the groups are read, as arguments of `comparing.read_groups`."""
        arguments = self.reading_options()
        if self.column:
            arguments["labels"] = parse_column(self.column)
        if self.groups:
            arguments["persons"] = parse_column(self.groups)
        return arguments

    def sizes(self, data: Path) -> list[int]:
        """Count the records or people of each group; of pairs, the pairs.

        Parameters
        ----------
        data : Path
            The first file.

        Returns
        -------
        list of int
            One number for each group. These numbers are public.
        """
        sizes = []
        for group in self.read_groups(data):
            if group.persons is None:
                sizes.append(len(group.records))
            else:
                sizes.append(len(np.unique(np.asarray(group.persons).astype(str))))
        return sizes[:1] if self.offer.is_paired else sizes

    def predict(self, sizes: list[int], mechanism: str = "auto") -> Prediction:
        """Predict the error of a group's mean, and which shifts the test finds.

        Parameters
        ----------
        sizes : list of int
            What `sizes` returned.
        mechanism : str
            "auto"; with any other text, while a slider moves, no test is simulated.

        Returns
        -------
        Prediction
            From public numbers alone.
        """
        guarantee = check_divisible(self.guarantee, self.offer.title)
        options = self.options()
        self._check_test(options, guarantee, sizes)

        # The ball and the means together take this part of the budget.
        is_private = isinstance(options["radius"], str)
        means_share = 1 - budget_share_of_test(is_private=is_private)
        study = plan(
            self.space,
            min(sizes),
            options["radius"],
            share_of_guarantee(guarantee, means_share),
            center=options.get("center"),
            mechanism="auto" if is_private else "gradient",
            spread=self.spread if is_private else None,
        )
        region, why_no_region = _region_or_reason(study)
        compared = "the radius of the ball"
        if is_private:
            compared = f"the spread of the records, taken as {study.spread:.3g}"
        shift = None
        shift_note = ""
        if mechanism == "auto" and not self.offer.is_paired:
            shift, shift_note = self._detectable_shift(study, guarantee, sizes, options)
        return Prediction(
            mechanism="permutation test, gradient for the means",
            error=study.error,
            region=region,
            why=why_no_region,
            ball=study.spread,
            of="distance to the mean of a group",
            notes=[shift_note] if shift_note and shift is None else [],
            compared=compared,
            shift=shift,
            shift_note=shift_note,
        )

    def _check_test(
        self, options: Mapping[str, Any], guarantee: GDP, sizes: list[int]
    ) -> None:
        """Refuse a level, a number of permutations or a guarantee that no test has.

        Parameters
        ----------
        options : mapping
            The parsed options by name, and the manifold.
        guarantee : GDP
            The guarantee of the whole comparison.
        sizes : list of int
            The number of records or people of each group; of pairs, one number.
        """
        space = options["manifold"]
        ball = public_or_outer_ball(space, options["radius"], options.get("center"))
        is_private = isinstance(options["radius"], str)
        test_guarantee = share_of_guarantee(
            guarantee, budget_share_of_test(is_private=is_private)
        )
        statistic: PairedDistance | SamplesDistance
        if self.offer.is_paired:
            statistic = PairedDistance(space, *ball, [sizes[0], sizes[0]])
        else:
            statistic = SamplesDistance(space, *ball, sizes)
        mechanism = PermutationMechanism.calibrate(statistic, test_guarantee)
        mechanism.at_level(
            options.get("level", _LEVEL), options.get("permutations", _PERMUTATIONS)
        )

    def _detectable_shift(
        self,
        study: Plan,
        guarantee: GDP,
        sizes: list[int],
        options: Mapping[str, Any],
    ) -> tuple[float | None, str]:
        """Simulate which shift of one group the test finds in four of five cases.

        Parameters
        ----------
        study : Plan
            The plan of the means, which has the spread of the records.
        guarantee : GDP
            The guarantee of the whole comparison.
        sizes : list of int
            The number of records or people of each group.
        options : mapping
            The parsed options by name.

        Returns
        -------
        shift, note : float or None, str
            The smallest of the shifts in `_SHIFTS` that is found, or None, and what the
            page says about it.
        """
        is_private = isinstance(options["radius"], str)
        # A ball that is found is about twice as wide as the records' spread.
        spread = study.spread if is_private else study.spread / 2
        radius = 2 * spread
        first, second = [min(size, _MOST_SIMULATED) for size in sorted(sizes)[:2]]
        try:
            test_plan = plan(
                self.space,
                first,
                radius,
                share_of_guarantee(
                    guarantee, budget_share_of_test(is_private=is_private)
                ),
                center=options.get("center"),
                mechanism="gradient",
            )
            level = options.get("level", _LEVEL)
            smallest = _smallest_detectable_shift(
                lambda shift: test_plan.power(shift, spread, second, level), spread
            )
        except CurvedpError as error:
            return None, f"the power of the test is not simulated: {error_text(error)}"
        assumed = f"simulated with a spread of {spread:.3g} in a ball of {radius:.3g}"
        if max(sizes) > _MOST_SIMULATED:
            assumed += f", and with {_MOST_SIMULATED} records a group: more find more"
        if smallest is None:
            return (
                None,
                f"not even a shift of {_SHIFTS[-1] * spread:.3g} is found often ({assumed})",
            )
        return smallest, assumed

    def release(self, data: Path, ledger: Ledger, label: str) -> Outcome:
        """Make the comparison, and return what the page shows of it. Charges `ledger`.

        Parameters
        ----------
        data : path
            The first file.
        ledger : Ledger
            The ledger that pays for the comparison.
        label : str
            How the labels of the ledger's entries begin.

        Returns
        -------
        Outcome
            The results for the page, and their files.
        """
        groups = self.read_groups(data)
        guarantee = check_divisible(self.guarantee, self.offer.title)
        comparison = compare(
            self.space,
            groups,
            is_paired=self.offer.is_paired,
            **self._parameters(),
            guarantee=guarantee,
            ledger=ledger,
            label=label,
        )
        names = [group.name for group in groups]
        return self._outcome(comparison, names, guarantee, ledger)

    def _parameters(self) -> dict[str, Any]:
        """Return ball, level and permutations, as `compare` takes them."""
        options = self.options()
        return {name: value for name, value in options.items() if name != "manifold"}

    def _outcome(
        self,
        comparison: GroupComparison,
        names: Sequence[str],
        guarantee: GDP,
        ledger: Ledger,
    ) -> Outcome:
        """Return the outcome of a comparison that was paid for: a summary and files.

        Parameters
        ----------
        comparison : GroupComparison
            The comparison that was released.
        names : sequence of str
            The names of the groups.
        guarantee : GDP
            The guarantee of the whole comparison.
        ledger : Ledger
            The ledger that paid.
        """
        space = self.space
        center = self.options().get("center")
        contents = comparison_files(space, comparison, guarantee, self.form, center)
        files: dict[str, Any] = {
            name: partial(bytes, content) for name, content in contents.items()
        }
        files["report.html"] = partial(
            comparison_report,
            space,
            comparison,
            names,
            guarantee,
            ledger,
            self.form,
            center,
        )
        lines = comparison_lines(space, comparison, names, guarantee, self.form)
        return Outcome(
            summary={
                "what": self.offer.title,
                "value": "\n".join(lines),
                "guarantee": str(guarantee),
                "unit": protected_unit_sentence(comparison.test.certificate),
                "is_text": True,
            },
            files=files,
            warnings=list(comparison.warnings),
        )

    def script(
        self,
        data: str,
        ledger: str,
        label: str,
        ledger_key: str | None = None,
        further_data: Sequence[str] = (),
    ) -> str:
        """Return Python source that makes this comparison, in cells.

        Parameters
        ----------
        data, ledger : str
            The names of the first file and of the ledger's file.
        label : str
            How the labels of the ledger's entries begin.
        ledger_key : str, optional
            The name of the file with the ledger's key, where it has one.
        further_data : sequence of str
            The names of the files beside the first one, which comparisons have.

        Returns
        -------
        str
            Python source, whose cells begin with "# %%".
        """
        return _SCRIPT.format(
            files=[data, *further_data],
            manifold=self.manifold,
            reading_options=keyword_source(self._reading_options_of_groups()),
            guarantee=self.guarantee,
            ledger_arguments=ledger_source(ledger, ledger_key),
            is_paired=self.offer.is_paired,
            parameters=keyword_source(self._parameters()),
            label=label,
            form=self.form,
            center=self.center(),
        )


_SCRIPT = """\
# What curvedp studio did. Running it AGAIN is another release, with new noise, and
# spends from the ledger again.
from pathlib import Path

from curvedp import GDP, Ledger, check
from curvedp.comparing import (
    compare,
    comparison_files,
    comparison_lines,
    comparison_report,
    read_groups,
)
from curvedp.geometry import parse_manifold

files = {files!r}
manifold = parse_manifold({manifold!r})
groups = read_groups(files, manifold{reading_options})
names = [group.name for group in groups]

# %% NOT private: for those who may see the records
for group in groups:
    print(group.name)
    print(check(manifold, group.records, groups=group.persons))

# %% Paid for: may be published
guarantee = {guarantee!r}
ledger = Ledger({ledger_arguments})
comparison = compare(
    manifold,
    groups,
    is_paired={is_paired!r}{parameters},
    guarantee=guarantee,
    ledger=ledger,
    label={label!r},
)
print(*comparison_lines(manifold, comparison, names, guarantee, {form!r}), sep="\\n")

# %% Files of what was released
for name, content in comparison_files(
    manifold, comparison, guarantee, {form!r}, {center!r}
).items():
    Path(name).write_bytes(content)
page = comparison_report(
    manifold, comparison, names, guarantee, ledger, {form!r}, {center!r}
)
Path("report.html").write_text(page, encoding="utf-8")
"""


@lru_cache(maxsize=1)
def _read_groups_once(
    manifold: str,
    reading_options: str,
    files: tuple[Path, ...],
    modified: tuple[int, ...],
) -> list[Group]:
    """Read the groups of a comparison, once and not at every move of a slider.

    Parameters
    ----------
    manifold : str
        The name of the space.
    reading_options : str
        How the files are read, as JSON, which can be the key of a cache.
    files : tuple of Path
        The files.
    modified : tuple of int
        When each was modified; a file that changed is read again.
    """
    return read_groups(files, parse_manifold(manifold), **json.loads(reading_options))


def _region_or_reason(study: Plan) -> tuple[float | None, str]:
    """Return the radius that a plan predicts for a confidence region.

    Parameters
    ----------
    study : Plan
        The plan of a mean.

    Returns
    -------
    radius : float or None
        None if there is no region.
    reason : str
        Why there is none; empty if there is one.
    """
    try:
        return study.region(), ""
    except CurvedpError as error:
        return None, error_text(error)


def _smallest_detectable_shift(
    power_at: Callable[[float], float], spread: float
) -> float | None:
    """Return the smallest shift that a test finds often enough, by bisection.

    Parameters
    ----------
    power_at : callable
        Returns the probability with which a shift is found. It grows with the shift.
    spread : float
        The spread of the records, in whose units the shifts are tried.

    Returns
    -------
    float or None
        None if even the largest shift is not found often enough.
    """
    smallest = None
    low = 0
    high = len(_SHIFTS)
    while low < high:
        middle = (low + high) // 2
        shift = _SHIFTS[middle] * spread
        if power_at(shift) >= _WANTED_POWER:
            smallest = shift
            high = middle
        else:
            low = middle + 1
    return smallest

"""A statistic bounds its own sampling error; others are refused with a true reason."""

import pytest

from curvedp.core.capabilities import BoundsSamplingError
from curvedp.core.statistic import ExternalValue
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean
from curvedp.inference.region import sampling_error
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.searched_ball import SearchedMean


def test_an_unknown_statistic_is_refused_because_it_has_no_bound():
    with pytest.raises(ParameterError, match="no bound on its sampling error"):
        sampling_error(ExternalValue(Euclidean(1), 0.1), 0.05)


def test_a_mean_in_a_private_ball_is_refused_because_of_the_search():
    with pytest.raises(ParameterError, match="found from the same records"):
        sampling_error(SearchedMean(Euclidean(2), None, None, 100), 0.05)


def test_a_strangers_statistic_supplies_its_own_bound():
    class Stranger(ExternalValue, BoundsSamplingError):
        def sampling_error(self, failure_probability):
            return 3.0 * failure_probability

    assert sampling_error(Stranger(Euclidean(1), 0.1), 0.5) == 1.5


def test_the_bound_of_a_mean_grows_as_failures_become_rarer():
    mean = FrechetMean(Euclidean(2), None, 1.0, 100)
    assert mean.sampling_error(0.01) > mean.sampling_error(0.1) > 0

"""Power of the tests against kinds of errors: the simulation agrees with rejections of the tests themselves."""

import numpy as np
import pytest
from report_rows import drawn

from calibrant.metrics import OneClass
from calibrant.report.evaluation_set import EvaluationSet
from calibrant.report.evidence import evidence_of
from calibrant.report.power import KINDS_OF_MAIN_EVENT, detectable_errors
from calibrant.report.verdict import status_of


def evidence(y, p, groups=None):
    rows = EvaluationSet.parse(y, p, None, groups)
    return rows, evidence_of(rows, rows, 0.95, 0)


def with_waves(n_rows, size, seed):
    """Two classes; the true probabilities are above and below the predicted ones by ``size`` in six intervals, in turn."""
    generator = np.random.default_rng(seed)
    p = np.sort(generator.uniform(size, 1 - size, n_rows))
    true = p + size * np.where(np.arange(n_rows) * 6 // n_rows % 2 == 0, 1, -1)
    return (generator.random(n_rows) < true).astype(int), p


def test_the_predicted_power_is_that_of_the_tests():
    """Waves of five points: the rate among 25 data sets, within three standard errors, is at least the prediction."""
    found = [evidence(*with_waves(1200, 0.05, seed))[1] for seed in range(25)]
    rate = np.mean([one.p_value <= 0.05 for one in found])
    waves = next(one for one in found[0].detectable if one.kind == "waves")
    predicted = waves.powers[waves.sizes.index(0.05)]
    assert 0.2 < predicted < 0.9
    assert rate > predicted - 3 * np.sqrt(predicted * (1 - predicted) / 25)


def test_waves_of_eight_points_are_seldom_called_calibrated():
    """1,500 rows; they were, in 63 % of the cases. At most 20 % of ten."""
    statuses = []
    for seed in range(10):
        rows, found = evidence(*with_waves(1500, 0.08, seed))
        statuses.append(status_of(rows, found, 0.95))
    assert statuses.count("calibrated") <= 2


def test_many_classes_that_could_be_swapped_unseen_are_not_called_calibrated():
    y, p = drawn(1500, 40)
    rows, found = evidence(y, p)
    swap = found.detectable[-1]
    assert swap.kind == "two classes swapped"
    assert swap.smallest is None
    assert status_of(rows, found, 0.95) == "unclear"


def test_more_rows_detect_smaller_errors():
    """Sizes fall like the root of the number of rows."""
    sizes = []
    for n_rows in (1000, 4000):
        generator = np.random.default_rng(0)
        p = generator.random(n_rows)
        _, found = evidence((generator.random(n_rows) < p).astype(int), p)
        assert [one.kind for one in found.detectable] == list(KINDS_OF_MAIN_EVENT)
        sizes.append([one.smallest for one in found.detectable])
        assert found.smallest_detectable == max(sizes[-1])
    assert np.array(sizes[0]) / sizes[1] == pytest.approx(2, rel=0.4)


def test_groups_reduce_the_power():
    groups = np.repeat(np.arange(100), 6)  # copies of 100 rows
    y, p = (of_rows[groups] for of_rows in drawn(100, 2, seed=2))
    alone, grouped = (evidence(y, p, given)[1] for given in (None, groups))
    for one, other in zip(alone.detectable, grouped.detectable, strict=True):
        assert other.smallest is None or other.smallest > one.smallest
    rows = EvaluationSet.parse(y, p, None, np.zeros(600))
    assert detectable_errors(rows, OneClass(1), evidence(y, p, np.zeros(600))[1].main, (), 0.05, 0) == ()

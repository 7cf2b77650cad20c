"""The adjusted interval of the gain in a report: it is for the fitted map, and absent with few mistakes."""

import numpy as np
import pytest
from report_rows import drawn, powered

from calibrant import TemperatureScaling
from calibrant.report import assess
from calibrant.report.evaluation_set import EvaluationSet
from calibrant.report.method_selection import select_method


def selected(y, p, *, small_error=False):
    rows = EvaluationSet.parse(y, p, None, None)
    return select_method(rows, ["temperature"], 5, 0.95, 0, None, small_error=small_error)


def test_the_interval_contains_the_gain_of_the_map_fitted_to_all_rows():
    """Calibrated rows: a map q gains -KL(p, q). Of 30 to 40 intervals at most four miss it; the others are withheld."""
    missed = withheld = 0
    for seed in range(40):
        y, p = drawn(100, 3, seed)
        gain = selected(y, p).gain
        q = TemperatureScaling().fit(p, y).predict_proba(fresh := drawn(1000, 3, seed + 1000)[1])
        truth = -(fresh * np.log(q / fresh)).sum(axis=1).mean()  # of the loss after minus before
        withheld += bool(np.isnan(gain.low))
        missed += gain.low > truth or gain.high < truth
    assert withheld <= 10
    assert missed <= 4


def test_few_mistakes_give_no_interval():
    """Three of 200 rows are misclassified: whatever the gain, an interval of it would be too short."""
    p = np.tile([[0.98, 0.02], [0.02, 0.98]], (100, 1))
    y = np.arange(200) % 2
    y[:3] = 1 - y[:3]
    found = selected(y, p, small_error=True)
    assert np.isnan([found.gain.low, found.gain.high]).all()
    assert found.gain.note == "no interval: 3 misclassified rows among 200 rows are too few for one"
    assert not found.is_recommended
    report = assess(y, p, methods=["temperature"])
    assert report.recommendation.action == "keep"
    assert report.recommendation.gain.low is None
    assert "no interval" in report.to_markdown()


def test_few_mistakes_do_not_hide_an_error_that_the_tests_show():
    """A confidence of 70 % and six mistakes in 300 rows."""
    p = np.tile([[0.7, 0.3], [0.3, 0.7]], (150, 1))
    y = np.arange(300) % 2
    y[:6] = 1 - y[:6]
    found = selected(y, p)
    assert found.is_recommended
    assert np.isnan(found.gain.low)
    assert assess(y, p, methods=["temperature"]).recommendation.action == "calibrate"


@pytest.mark.parametrize("power", [2.0, 0.5])
def test_large_gains_stay_significant(power):
    y, p = drawn(400, 3)
    found = selected(y, powered(p, power))
    assert found.is_significant
    assert found.gain.high < 0

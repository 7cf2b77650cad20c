"""The automatic choice where many classes have no calibration rows."""

import numpy as np
import pytest

from calibrant import AutoCalibration, Predictions
from calibrant.calibrators.combinators.auto.absent import factor_of_mean, largest_share_of_absent
from calibrant.calibrators.combinators.auto.trials import default_candidates
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import log_loss

pytestmark = pytest.mark.filterwarnings("ignore:no calibration row has class")
CHEAP = ["temperature", "shared-vector"]


def rows_of_five_classes(n_rows, seed):
    """Predictions for ten classes, of which the last five never occur but get about a third of the probability."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(5, size=n_rows)
    logits = generator.normal(size=(n_rows, 10))
    logits[np.arange(n_rows), labels] += 2
    return Predictions.from_logits(logits), labels


def test_classes_that_never_occur_lose_what_the_rows_rule_out():
    """None of 300 rows has one of them: the upper limit of a Poisson count of zero is 3, so they have at most 3 / 300."""
    X, y = rows_of_five_classes(300, 0)
    before = X.probabilities[:, 5:].sum(axis=1).mean()
    fitted = AutoCalibration(CHEAP).fit(X, y)
    after = fitted.predict_proba(X)[:, 5:].sum(axis=1).mean()
    assert before > 0.2
    assert after == pytest.approx(-np.log(0.05) / 300, rel=1e-6)
    fresh, labels = rows_of_five_classes(2000, 1)
    kept = AutoCalibration(CHEAP, preserve_accuracy=True).fit(X, y)
    assert log_loss(labels, fitted.transform(fresh)) < log_loss(labels, kept.transform(fresh)) - 0.1


def test_many_classes_of_one_row_leave_the_others_as_they_are():
    """With twenty rows of twenty classes, all other classes may be as frequent as these."""
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(40), 20)
    fitted = AutoCalibration(["temperature"]).fit(p, np.arange(20))
    assert fitted.absent_factors_ is None


def test_the_bound_is_the_upper_limit_of_a_poisson_count():
    """Of a count of zero, e^-x = 5 %; of one, (1 + x) e^-x = 5 %."""
    assert 100 * largest_share_of_absent(np.array([0.0, 60.0, 40.0])) == pytest.approx(-np.log(0.05))
    limit = 100 * largest_share_of_absent(np.array([0.0, 1.0, 99.0]))
    assert (1 + limit) * np.exp(-limit) == pytest.approx(0.05)


def test_the_factor_gives_the_wanted_mean():
    masses, weights = np.array([0.1, 0.7, 0.4]), np.array([1.0, 2.0, 3.0])
    factor = factor_of_mean(masses, weights, 0.05)
    scaled = factor * masses / (1 - masses + factor * masses)
    assert np.average(scaled, weights=weights) == pytest.approx(0.05)


def test_absent_classes_without_scores_have_at_most_laplaces_share_in_every_row():
    """Half of the columns are zero: a temperature below 1 would raise the floor that stands for these zeros."""
    generator = np.random.default_rng(2)
    p = generator.dirichlet(np.ones(4) / 5, 80)
    y = np.where(generator.random(80) < 0.4, generator.integers(4, size=80), p.argmax(axis=1))
    wide = np.hstack([p, np.zeros((80, 30))])
    fitted = AutoCalibration(CHEAP).fit(wide, y)
    assert fitted.predict_proba(wide)[:, 4:].sum(axis=1).max() <= (1 + 1e-9) / 82


def test_matrices_are_tried_where_few_of_many_classes_have_rows():
    generator = np.random.default_rng(3)
    labels = generator.integers(3, size=120)
    p = generator.dirichlet(np.ones(250), 120)
    names = [
        candidate.name
        for candidate in default_candidates(
            LabelledPredictions.parse(Predictions.from_probabilities(p), labels)
        )
    ]
    assert "shared-matrix (strength=1)" in names
    many = LabelledPredictions.parse(
        Predictions.from_probabilities(generator.dirichlet(np.ones(250), 250)), np.arange(250)
    )
    assert not [one for one in default_candidates(many) if "matrix" in one.name]

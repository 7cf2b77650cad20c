"""Cross-fitting: folds, events as problems of two classes, and standard errors."""

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import Predictions, TemperatureScaling
from calibrant.calibrator import Calibrator, Traits
from calibrant.errors import ConvergenceWarning, ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.cross_fitting import (
    Mixture,
    check_folds,
    check_recalibrator,
    cross_folds,
    default_recalibrator,
    event_problems,
    recalibrated,
    recalibrator_for,
    recalibrator_name,
    simplex_minimiser,
)
from calibrant.metrics.row_losses import row_losses
from calibrant.numerics.reductions import standard_error_of_mean
from calibrant.options import check_level
from strategies import problems

KINDS = ["confidence", "classwise"]


class Spy(Calibrator):
    """Changes nothing, and remembers which rows it learnt from; rows are told apart by their first column."""

    traits = Traits()
    seen: ClassVar[list[set]] = []

    def _fit(self, data):
        self.rows_ = set(data.predictions.scores[:, 0].tolist())
        Spy.seen.append(self.rows_)

    def _transform(self, predictions):
        assert self.rows_.isdisjoint(predictions.scores[:, 0].tolist())
        return predictions


def some_data(n_rows=60, n_classes=3, weights=None, seed=0):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.ones(n_classes), n_rows)
    labels = (np.log(probabilities) * 0.5 + generator.gumbel(size=probabilities.shape)).argmax(axis=1)
    return LabelledPredictions.parse(probabilities, labels, weights)


def all_recalibrated(data, recalibrator, n_folds=5):
    result = np.full((data.n_rows, data.n_classes), np.nan)
    for rows, predictions in recalibrated(data, recalibrator, cross_folds(data, n_folds)):
        assert np.isnan(result[rows]).all(), "a row came twice"
        result[rows] = predictions.probabilities
    assert not np.isnan(result).any()
    return result


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
def test_no_row_is_judged_by_a_map_that_has_seen_it(weighted):
    """Whole-number weights too: a row of weight three is one row."""
    data = some_data(weights=np.arange(60) % 3 + 1 if weighted else None)
    Spy.seen.clear()
    assert all_recalibrated(data, Spy()) == pytest.approx(data.predictions.probabilities)
    assert len(Spy.seen) == 5
    # Every row is left out once.
    assert sum(len(rows) for rows in Spy.seen) == 4 * 60


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
def test_the_order_of_rows_does_not_matter(weighted):
    data = some_data(weights=np.linspace(1, 3, 60) if weighted else None)
    order = np.random.default_rng(1).permutation(60)
    expected = all_recalibrated(data, "temperature")
    assert all_recalibrated(data.take(order), "temperature") == pytest.approx(expected[order], abs=1e-9)


@pytest.mark.parametrize("factor", [0.1, 3.0, 1e9, 1e-9])
def test_only_the_ratios_of_weights_matter_also_where_they_tie(factor):
    """Many equal weights make many equal loads of folds; rounding must not decide between them."""
    weights = np.arange(60) % 3 + 1.0
    expected = all_recalibrated(some_data(weights=weights), "temperature")
    assert all_recalibrated(some_data(weights=factor * weights), "temperature") == pytest.approx(
        expected, abs=1e-6
    )


def test_logits_and_their_softmax_have_the_same_folds():
    data = some_data()
    shifted = Predictions.from_logits(
        np.log(data.predictions.probabilities) + np.linspace(-3, 3, 60)[:, np.newaxis]
    )
    as_logits = LabelledPredictions.parse(shifted, data.labels)
    for rows, same in zip(cross_folds(data, 5), cross_folds(as_logits, 5), strict=True):
        np.testing.assert_array_equal(rows, same)


def test_labels_have_no_part_in_the_folds():
    """Otherwise the folds would not be a random split of what happened."""
    data = some_data()
    others = LabelledPredictions.parse(data.predictions, (data.labels + 1) % 3)
    for rows, same in zip(cross_folds(data, 5), cross_folds(others, 5), strict=True):
        np.testing.assert_array_equal(rows, same)


def test_folds_are_about_equal_and_none_is_empty():
    assert sorted(len(rows) for rows in cross_folds(some_data(62), 5)) == [12, 12, 12, 13, 13]
    assert [len(rows) for rows in cross_folds(some_data(3), 5)] == [1, 1, 1]
    heavy = some_data(weights=np.array([1e12] + [1.0] * 59))
    assert sorted(np.concatenate(cross_folds(heavy, 5))) == list(range(60))
    assert all(len(rows) for rows in cross_folds(heavy, 5))


def test_earlier_folds_alone_can_judge_later_ones():
    data = some_data()
    folds = cross_folds(data, 5)
    Spy.seen.clear()
    judged = [rows for rows, _ in recalibrated(data, Spy(), folds, earlier_only=True)]
    assert [len(rows) for rows in Spy.seen] == [12, 24, 36, 48]
    for rows, expected in zip(judged, folds[1:], strict=True):
        np.testing.assert_array_equal(rows, expected)


def test_what_comes_out_is_what_a_calibrator_learnt_on_the_other_rows():
    data = some_data()
    for rows, predictions in recalibrated(data, TemperatureScaling(loss="brier"), cross_folds(data, 5)):
        others = data.take(np.setdiff1d(np.arange(60), rows))
        fitted = TemperatureScaling(loss="brier").fit_labelled(others)
        expected = fitted.predict_proba(data.predictions.take(rows))
        assert predictions.probabilities == pytest.approx(expected, abs=1e-9)


def test_a_calibrator_that_is_given_is_left_as_it_was():
    calibrator = TemperatureScaling()
    list(recalibrated(some_data(), calibrator, cross_folds(some_data(), 5)))
    assert not hasattr(calibrator, "classes_")


@pytest.mark.parametrize("n_rows", [1, 2, 3, 4])
def test_fewer_rows_than_folds_and_single_classes_come_as_they_are(n_rows):
    data = LabelledPredictions.parse([[0.7, 0.3]] * n_rows, [1] * n_rows)
    assert all_recalibrated(data, "temperature") == pytest.approx(data.predictions.probabilities)


def test_warnings_of_the_fits_are_not_passed_on():
    """Classes that the first probability separates: the best temperature is at the edge of its range."""
    data = LabelledPredictions.parse([[0.9, 0.1], [0.1, 0.9]] * 10, [0, 1] * 10)
    with pytest.warns(ConvergenceWarning):
        TemperatureScaling().fit_labelled(data)
    all_recalibrated(data, "temperature")  # warnings are errors


@settings(max_examples=25)
@given(problem=problems(), logits=st.booleans())
def test_events_are_two_class_problems_of_the_same_probabilities(problem, logits):
    probabilities, labels = problem
    if logits:
        predictions = Predictions.from_logits(np.log(np.maximum(probabilities, 1e-30)))
    else:
        predictions = Predictions.from_probabilities(probabilities)
    data = LabelledPredictions.parse(predictions, labels)
    p = data.predictions.probabilities
    accuracy = 1e-6 if p.dtype == np.float32 else 1e-12
    (event,) = event_problems(data, "confidence")
    assert event.predictions.probabilities[:, 1] == pytest.approx(p.max(axis=1), abs=accuracy)
    assert event.labels.tolist() == [int(row.argmax() == y) for row, y in zip(p, data.labels, strict=True)]
    for k, event in enumerate(event_problems(data, "classwise")):
        expected = np.column_stack([1 - p[:, k], p[:, k]])
        assert event.predictions.probabilities == pytest.approx(expected, abs=accuracy)
        assert event.labels.tolist() == (data.labels == k).astype(int).tolist()


def test_the_remainder_of_a_probability_that_rounds_to_one_is_exact():
    """A class 100 below the top: its loss is 100, and that of all but the top log 2 less."""
    logits = Predictions.from_logits([[100.0, 0.0, 0.0]])
    data = LabelledPredictions.parse(logits, [1])
    (event,) = event_problems(data, "confidence")
    assert row_losses(event, "log") == pytest.approx([100 - np.log(2)], rel=1e-12)
    losses = [row_losses(event, "log").item() for event in event_problems(data, "classwise")]
    assert losses == pytest.approx([100 - np.log(2), 100, 0], rel=1e-12, abs=1e-12)


def test_small_remainders_of_given_probabilities_are_added_up():
    """1 - (1 - 2e-20) would be zero."""
    data = LabelledPredictions.parse([[1.0, 1e-20, 1e-20]], [2])
    (event,) = event_problems(data, "confidence")
    assert row_losses(event, "log") == pytest.approx([-np.log(2e-20)], rel=1e-12)


def test_the_full_problem_and_that_of_the_positive_class_are_the_data():
    data = some_data(n_classes=2)
    for kind in ("full", "positive"):
        assert list(event_problems(data, kind)) == [data]
    with pytest.raises(ParameterError, match="for two classes, but there are 3"):
        list(event_problems(some_data(), "positive"))


def test_default_recalibrators_follow_the_size_of_the_problem():
    assert default_recalibrator(some_data(60, 3)) == "dirichlet-l2"
    assert default_recalibrator(some_data(9000, 3)) == "dirichlet"
    assert default_recalibrator(some_data(60, 20)) == "dirichlet-l2"
    assert default_recalibrator(some_data(60, 21)) == "temperature"


def test_what_is_judged_by_another_loss_than_it_is_fitted_by_is_mixed():
    data = some_data(60, 3)
    assert recalibrator_for(data, "log") == "dirichlet-l2"
    for loss in ("brier", "spherical"):
        mixture = recalibrator_for(data, loss)
        assert recalibrator_name(mixture) == (
            "a mixture of dirichlet-l2, TemperatureScaling(loss='brier') and base rates"
        )


def test_a_mixture_has_not_seen_the_rows_it_is_judged_by():
    """Spies see the rows of the other folds only, and in the inner folds only some of those."""
    data = some_data()
    folds = cross_folds(data, 5)
    keys = data.predictions.scores[:, 0]
    Spy.seen.clear()
    for number, _ in enumerate(recalibrated(data, Mixture((Spy(),)), folds)):
        held_out = set(keys[folds[number]].tolist())
        assert Spy.seen
        assert all(seen.isdisjoint(held_out) for seen in Spy.seen)
        Spy.seen.clear()


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
def test_a_mixture_is_a_mean_with_the_best_shares_of_held_out_rows(weighted):
    """Three of four right at 90 %, of two classes: between certainty and the base rates lies what is best."""
    probabilities = np.tile([[0.9, 0.1], [0.1, 0.9]], (100, 1))
    labels = np.tile([0, 1, 0, 1, 0, 1, 1, 0], 25)
    weights = np.ones(200) if weighted else None
    data = LabelledPredictions.parse(probabilities, labels, weights)
    recast = all_recalibrated(data, Mixture(("uncalibrated",)))
    # Every fold has its own rates, and shares chosen by inner folds, all near the truth.
    assert recast[labels == 0].shape == (100, 2)
    assert np.where(probabilities[:, 0] > 0.5, recast[:, 0], recast[:, 1]) == pytest.approx(0.75, abs=0.05)
    assert recast.sum(axis=1) == pytest.approx(1)


def test_weights_of_a_mixture_count_rows():
    """Rows of weight one million decide, whatever the others say."""
    probabilities = np.tile([[0.9, 0.1]], (200, 1))
    labels = np.tile([0, 0, 0, 1, 1, 1, 1, 1], 25)
    weights = np.tile([1e6, 1e6, 1e6, 1e6, 1, 1, 1, 1], 25)
    recast = all_recalibrated(
        LabelledPredictions.parse(probabilities, labels, weights), Mixture(("temperature",))
    )
    assert recast[:, 0] == pytest.approx(0.75, abs=0.06)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), rank=st.integers(0, 3))
def test_the_simplex_minimiser_is_below_all_points_of_a_grid(seed, rank):
    """Also of singular matrices, of which the rank is less than the size."""
    factor = np.random.default_rng(seed).normal(size=(3, rank))
    matrix = factor @ factor.T
    best = simplex_minimiser(matrix)
    assert best.min() >= 0
    assert best.sum() == pytest.approx(1)
    steps = np.linspace(0, 1, 21)
    values = [
        np.array([a, b, 1 - a - b]) @ matrix @ [a, b, 1 - a - b] for a in steps for b in steps if a + b <= 1
    ]
    assert best @ matrix @ best <= min(values) + 1e-9 * (1 + np.abs(matrix).max())


@pytest.mark.parametrize("weights", [None, np.array([1.0, 2.0, 3.0, 0.5])])
def test_the_standard_error_is_a_loop_over_rows(weights):
    terms = np.array([0.3, -0.2, 0.9, 0.1])
    w = [1.0] * 4 if weights is None else weights.tolist()
    mean = sum(a * t for a, t in zip(w, terms, strict=True)) / sum(w)
    squares = sum(a**2 * (t - mean) ** 2 / (1 - a / sum(w)) for a, t in zip(w, terms, strict=True))
    expected = squares**0.5 / sum(w)
    assert standard_error_of_mean(terms, weights) == pytest.approx(expected, rel=1e-12)
    if weights is None:
        assert expected == pytest.approx(terms.std(ddof=1) / 2, rel=1e-12)


def test_one_row_or_an_infinite_term_has_no_standard_error():
    assert standard_error_of_mean(np.array([0.3]), None) == np.inf
    assert standard_error_of_mean(np.array([0.3, np.inf]), None) == np.inf


@pytest.mark.parametrize("n_folds", [1, 0, 2.0, "5", None, True])
def test_a_number_of_folds_without_meaning_is_refused(n_folds):
    with pytest.raises(ParameterError, match="n_folds must be an integer of at least 2"):
        check_folds(n_folds)


@pytest.mark.parametrize("level", [0, 1, 95, "0.95", None, np.nan])
def test_a_level_without_meaning_is_refused(level):
    with pytest.raises(ParameterError, match="level must lie strictly between 0 and 1"):
        check_level(level)


def test_a_recalibrator_without_meaning_is_refused():
    check_recalibrator("isotonic", events=True)
    check_recalibrator("temperature+vector", events=False)
    with pytest.raises(ParameterError, match="there is no calibrator 'warp'"):
        check_recalibrator("warp", events=True)
    with pytest.raises(ParameterError, match="the name of a calibrator or a Calibrator"):
        check_recalibrator(TemperatureScaling, events=True)

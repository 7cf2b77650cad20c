"""Top-label reduction: how sure a classifier is of what it predicts, for each predicted class."""

import numpy as np
import pytest
from hypothesis import given, settings
from reduction_rows import some_rows
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from calibrant import (
    HistogramBinning,
    Predictions,
    TemperatureScaling,
    TopLabel,
    Traits,
    VectorScaling,
    registry,
)
from calibrant.errors import MissingClassWarning, ParameterError
from calibrant.graph.columns import SetLargest
from strategies import probability_matrices

RAW_BINS = HistogramBinning(strategy="quantile", rows_per_bin=50, smoothing=0.0)


def calibrated_by_hand(base, X, y, fresh, by_class=True, min_rows=50):
    """Fit and apply the maps row by row and class by class, as the definition says."""
    n_classes = X.shape[1]

    def two_columns(row):
        return [sum(row[k] for k in range(n_classes) if k != row.argmax()), row.max()]

    def map_of(rows):
        right = [int(X[row].argmax() == y[row]) for row in rows]
        if len(set(right)) == 1:
            constant = (sum(right) + 1) / (len(right) + 2)
            return lambda _: constant
        fitted = clone(base).fit(np.array([two_columns(X[row]) for row in rows]), right)
        return lambda pair: fitted.predict_proba([pair])[0, 1]

    everything = map_of(range(len(X)))
    maps = {}
    for label in range(n_classes):
        rows = [row for row in range(len(X)) if X[row].argmax() == label]
        maps[label] = map_of(rows) if by_class and len(rows) >= min_rows else everything
    result = []
    for row in fresh:
        confidence = maps[row.argmax()](two_columns(row))
        others = two_columns(row)[0]
        result.append(
            [
                confidence if k == row.argmax() else (1 - confidence) * row[k] / others
                for k in range(n_classes)
            ]
        )
    return np.array(result)


BASES = {"temperature": TemperatureScaling(), "vector": VectorScaling(), "raw bins": RAW_BINS}
every_base = pytest.mark.parametrize("base", BASES.values(), ids=BASES.keys())


# What is fitted


@every_base
@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("by_class", [True, False])
def test_equal_to_a_loop_over_rows_and_classes(base, n_classes, by_class):
    X, y = some_rows(n_classes)
    fresh, _ = some_rows(n_classes, n_rows=40, seed=1)
    fitted = TopLabel(base, by_class=by_class).fit(X, y)
    expected = calibrated_by_hand(base, X, y, fresh, by_class)
    np.testing.assert_allclose(fitted.predict_proba(fresh), expected, rtol=0, atol=1e-8)


def test_classes_with_few_rows_use_the_map_of_all_rows():
    """Of six classes with about a hundred rows each, those with fewer than the median are pooled."""
    X, y = some_rows(6)
    counts = np.bincount(X.argmax(axis=1), minlength=6)
    min_rows = int(np.median(counts)) + 1
    few = counts < min_rows
    assert 0 < few.sum() < 6
    fitted = TopLabel(TemperatureScaling(), min_rows=min_rows).fit(X, y)
    assert len(fitted.calibrators_) == (~few).sum() + 1
    pooled = len(fitted.calibrators_) - 1
    np.testing.assert_array_equal(fitted.map_of_class_ == pooled, few)
    np.testing.assert_array_equal(fitted.map_of_class_[~few], np.arange(pooled))
    one_map = TopLabel(TemperatureScaling(), by_class=False).fit(X, y)
    rows = few[X.argmax(axis=1)]
    np.testing.assert_allclose(
        fitted.predict_proba(X[rows]), one_map.predict_proba(X[rows]), rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(
        fitted.predict_proba(X), calibrated_by_hand(TemperatureScaling(), X, y, X, True, min_rows), atol=1e-8
    )


def test_binning_by_top_label_as_in_the_paper():
    """With 100 and 150 distinct scores, bins of fifty neighbours each have the share of right predictions."""
    generator = np.random.default_rng(0)
    top = np.concatenate([generator.permutation(np.linspace(0.51, 0.99, 100)), np.linspace(0.52, 0.98, 150)])
    predicted = np.repeat([0, 1], [100, 150])
    X = np.where(np.eye(2, dtype=bool)[predicted], top[:, np.newaxis], 1 - top[:, np.newaxis])
    y = np.where(generator.uniform(size=250) < top**2, predicted, 1 - predicted)
    labels, confidences = TopLabel(RAW_BINS).fit(X, y).confidences(X)
    np.testing.assert_array_equal(labels, predicted)
    for label in (0, 1):
        rows = np.flatnonzero(predicted == label)
        rows = rows[np.argsort(top[rows])]
        for start in range(0, len(rows), 50):
            in_bin = rows[start : start + 50]
            np.testing.assert_allclose(confidences[in_bin], np.mean(y[in_bin] == label), rtol=1e-14)


@pytest.mark.parametrize("space", ["probabilities", "logits"])
def test_logits_and_probabilities_give_the_same_map(space):
    X, y = some_rows(4)
    logits = Predictions.from_logits(np.log(X) + np.linspace(-5, 5, len(X))[:, np.newaxis])
    given = X if space == "probabilities" else logits
    fitted = TopLabel(TemperatureScaling()).fit(given, y)
    expected = TopLabel(TemperatureScaling()).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(fitted.predict_proba(X), expected, rtol=0, atol=1e-8)
    np.testing.assert_allclose(fitted.predict_proba(logits), expected, rtol=0, atol=1e-8)


# Nothing to tell apart


def test_predictions_that_are_all_right_or_all_wrong_have_laplaces_confidence():
    """Sixty rows right: 61/62; seventy wrong: 1/72; the eighty of the third class have a map."""
    predicted = np.repeat([0, 1, 2], [60, 70, 80])
    X = 0.7 * np.eye(3)[predicted] + 0.1
    y = np.concatenate([np.full(60, 0), np.full(70, 2), np.full(60, 2), np.full(20, 1)])
    fitted = TopLabel(TemperatureScaling()).fit(X, y)
    assert [calibrator is None for calibrator in fitted.calibrators_] == [True, True, False]
    np.testing.assert_allclose(fitted.constants_, [61 / 62, 1 / 72, np.nan])
    labels, confidences = fitted.confidences(0.7 * np.eye(3) + 0.1)
    np.testing.assert_array_equal(labels, [0, 1, 2])
    np.testing.assert_allclose(confidences, [61 / 62, 1 / 72, 0.75], rtol=1e-8)
    np.testing.assert_allclose(fitted.predict_proba(X[[60]]), [[71 / 144, 1 / 72, 71 / 144]], rtol=1e-12)


@pytest.mark.parametrize("by_class", [True, False])
def test_all_rows_right(by_class):
    """Four rows are too few for maps of classes, and the one of all of them is 5/6."""
    fitted = TopLabel(TemperatureScaling(), by_class).fit(0.6 * np.eye(4) + 0.1, [0, 1, 2, 3])
    assert fitted.calibrators_ == [None]
    np.testing.assert_allclose(fitted.predict_proba(np.eye(4)[[2]])[0], [1 / 18, 1 / 18, 5 / 6, 1 / 18])


def test_a_class_that_is_never_predicted_in_calibration_uses_the_map_of_all_rows():
    X, y = some_rows(3)
    kept = X.argmax(axis=1) != 1
    fitted = TopLabel(TemperatureScaling()).fit(X[kept], y[kept])
    assert fitted.map_of_class_.tolist() == [0, 2, 1]
    pooled = TopLabel(TemperatureScaling(), by_class=False).fit(X[kept], y[kept])
    np.testing.assert_allclose(
        fitted.predict_proba(X[~kept]), pooled.predict_proba(X[~kept]), rtol=0, atol=1e-12
    )


# The rest of the row


@settings(max_examples=60)
@given(X=probability_matrices())
def test_the_rest_is_shared_out_in_the_proportions_of_the_classifier(X):
    predictions = Predictions.from_probabilities(X)
    confidence = np.linspace(0.1, 0.9, len(X))
    both = np.column_stack([1 - confidence, confidence])
    shared = SetLargest(False, predictions.floor).kernel(X.dtype)(None, both, X)
    np.testing.assert_allclose(shared.sum(axis=1), 1, rtol=1e-6)
    for row, top in enumerate(X.argmax(axis=1)):
        assert shared[row, top] == confidence[row]
        others = np.delete(np.maximum(X[row].astype(np.float64), predictions.floor), top)
        expected = (1 - confidence[row]) * others / others.sum()
        np.testing.assert_allclose(np.delete(shared[row], top), expected, rtol=1e-6, atol=1e-45)


def test_logits_whose_probabilities_vanish_keep_their_proportions():
    """The rest is e^-2000 of the whole in the ratio 1 : e; with confidence 3/4 it is shared in that ratio."""
    kernel = SetLargest(True, 1e-9).kernel(np.dtype(np.float64))
    shared = kernel(None, np.array([[0.25, 0.75]]), np.array([[2000.0, 0.0, 1.0]]))
    e = np.exp(1)
    np.testing.assert_allclose(shared, [[0.75, 0.25 / (1 + e), 0.25 * e / (1 + e)]], rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_certain_row_shares_its_rest_evenly(dtype):
    X, y = some_rows(4)
    fitted = TopLabel(TemperatureScaling()).fit(X, y)
    certain = np.array([[0, 0, 1, 0]], dtype)
    calibrated = fitted.predict_proba(certain)
    assert calibrated.dtype == dtype
    np.testing.assert_allclose(calibrated[0, [0, 1, 3]], calibrated[0, 0], rtol=1e-6)


def test_a_complement_too_small_for_one_minus_the_confidence_is_kept():
    """1 - 1e-20 is one; the map gives the complement as well, and the others share it."""
    X, y = some_rows(3)
    fitted = TopLabel(TemperatureScaling(), by_class=False).fit(X, y)
    sharp = fitted.calibrators_[0].temperature_ * 50
    calibrated = fitted.predict_proba(Predictions.from_logits([[sharp, 0.0, 0.0]]))
    assert calibrated[0, 0] == 1
    assert 0 < calibrated[0, 1] < 1e-20


def test_zeros_of_the_classifier_do_not_make_the_log_loss_infinite():
    """A third of the rows is certain, and a quarter of those wrong; every class is left with something."""
    X, y = some_rows(4)
    X[::3] = np.eye(4)[(y[::3] + (np.arange(len(y[::3])) % 4 == 0)) % 4]
    for calibrator in (TopLabel(TemperatureScaling()), registry.make("top-label-binning")):
        assert calibrator.fit(X, y).predict_proba(X).min() > 0


# Labels and their confidences


def test_the_arg_max_can_move_and_the_label_of_the_confidence_stays():
    """Right in one of ten rows at (0.5, 0.4, 0.1): the second class then has 0.9 * 0.4 / 0.5 = 0.72."""
    X = np.array([[0.5, 0.4, 0.1]] * 60 + [[0.1, 0.1, 0.8]] * 60)
    y = np.array([0] * 6 + [1] * 54 + [2] * 48 + [0] * 12)
    fitted = TopLabel(HistogramBinning(n_bins=1, smoothing=0.0)).fit(X, y)
    np.testing.assert_allclose(fitted.predict_proba(X[:1]), [[0.1, 0.72, 0.18]], rtol=1e-12)
    assert fitted.predict(X[:1]).tolist() == [1]
    labels, confidences = fitted.confidences(X[[0, 60]])
    assert labels.tolist() == [0, 2]
    np.testing.assert_allclose(confidences, [0.1, 0.8], rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_confidences_are_the_probabilities_of_the_labels(n_classes, dtype):
    X, y = some_rows(n_classes)
    X = X.astype(dtype)
    words = np.array(["ant", "bee", "cat", "dog", "eel"])[:n_classes]
    fitted = TopLabel(TemperatureScaling()).fit(X, words[y])
    labels, confidences = fitted.confidences(X)
    np.testing.assert_array_equal(labels, words[X.argmax(axis=1)])
    assert confidences.dtype == dtype
    np.testing.assert_array_equal(confidences, fitted.predict_proba(X)[np.arange(len(X)), X.argmax(axis=1)])


def test_of_equal_probabilities_the_first_counts_as_predicted():
    X, y = some_rows(3)
    labels, _ = TopLabel(TemperatureScaling()).fit(X, y).confidences([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]])
    assert labels.tolist() == [0, 1]


def test_confidences_before_a_fit_are_refused():
    with pytest.raises(NotFittedError):
        TopLabel(TemperatureScaling()).confidences([[0.4, 0.6]])


def test_two_classes_have_a_map_on_each_side_of_one_half():
    X, y = some_rows(2)
    fitted = TopLabel(RAW_BINS).fit(X, y)
    assert len(fitted.calibrators_) == 2
    upper = X[:, 1] > 0.5
    alone = clone(RAW_BINS).fit(X[upper], y[upper])
    np.testing.assert_allclose(fitted.predict_proba(X[upper]), alone.predict_proba(X[upper]), rtol=1e-14)


# Absent classes


def test_a_predicted_class_without_calibration_rows_keeps_its_share():
    X, y = some_rows(4)
    kept = y != 2
    with pytest.warns(MissingClassWarning, match="class 2; it keeps the share"):
        fitted = TopLabel(TemperatureScaling()).fit(X[kept], y[kept])
    calibrated = fitted.predict_proba(X)
    np.testing.assert_array_equal(calibrated[:, 2], X[:, 2])
    labels, confidences = fitted.confidences(X)
    np.testing.assert_array_equal(labels, X.argmax(axis=1))
    np.testing.assert_array_equal(confidences[labels == 2], X[labels == 2, 2])
    present = [0, 1, 3]
    share = X[:, present].sum(axis=1, keepdims=True)
    alone = TopLabel(TemperatureScaling()).fit(
        (X[:, present] / share)[kept], np.searchsorted(present, y[kept])
    )
    np.testing.assert_allclose(
        calibrated[:, present], share * alone.predict_proba(X[:, present] / share), rtol=0, atol=1e-8
    )


def test_one_map_for_all_rows_needs_no_rows_of_every_class():
    """Rows in which the absent class is predicted are wrong predictions like any other."""
    X, y = some_rows(4)
    kept = y != 2
    with pytest.warns(MissingClassWarning, match="the map shared by all classes"):
        fitted = TopLabel(TemperatureScaling(), by_class=False).fit(X[kept], y[kept])
    expected = calibrated_by_hand(TemperatureScaling(), X[kept], y[kept], X[:50], by_class=False)
    np.testing.assert_allclose(fitted.predict_proba(X[:50]), expected, rtol=0, atol=1e-8)


# Weights


@pytest.mark.parametrize("base", [TemperatureScaling(), RAW_BINS], ids=["temperature", "raw bins"])
def test_weights_count_rows_also_for_the_least_number(base):
    X, y = some_rows(5, n_rows=180)
    weights = np.where(X.argmax(axis=1) < 2, 3, 1)
    rows = np.repeat(np.arange(len(y)), weights)
    weighted = TopLabel(base).fit(X, y, weights)
    repeated = TopLabel(base).fit(X[rows], y[rows])
    assert len(weighted.calibrators_) == 3
    np.testing.assert_array_equal(weighted.map_of_class_, repeated.map_of_class_)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=0, atol=1e-8)


def test_a_least_number_reached_up_to_rounding_is_reached():
    """A thousand times 1.3 is 1300, although the sum of the floats is less."""
    predicted = np.repeat([0, 1], 1000)
    X = 0.6 * np.eye(2)[predicted] + 0.2
    y = np.where(np.arange(2000) % 10 < 7, predicted, 1 - predicted)
    weights = np.full(2000, 1.3)
    assert np.bincount(predicted, weights).max() < 1300
    for min_rows, n_maps in ((1300, 2), (1301, 1)):
        fitted = TopLabel(TemperatureScaling(), min_rows=min_rows).fit(X, y, weights)
        assert len(fitted.calibrators_) == n_maps


def test_constants_count_weights():
    fitted = TopLabel(TemperatureScaling()).fit(0.6 * np.eye(4) + 0.1, [0, 1, 2, 3], [1, 2, 3, 4])
    np.testing.assert_allclose(fitted.constants_, [11 / 12])


# Numbers of all sizes


def test_logits_of_ten_thousand():
    X, y = some_rows(3)
    fitted = TopLabel(TemperatureScaling()).fit(Predictions.from_logits(np.log(X)), y)
    extreme = Predictions.from_logits(np.vstack([1e4 * np.eye(3), -1e4 * np.eye(3), np.full((1, 3), 1e4)]))
    calibrated = fitted.predict_proba(extreme)
    np.testing.assert_allclose(calibrated.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(calibrated[:3], np.eye(3), rtol=0, atol=1e-12)


def test_a_thousand_classes_of_two_rows_each():
    """No class has rows enough for a map of its own."""
    labels = np.tile(np.arange(1000), 2)
    X = np.full((2000, 1000), 0.4 / 999, np.float32)
    X[np.arange(2000), np.where(np.arange(2000) % 4 > 0, labels, (labels + 1) % 1000)] = 0.6
    fitted = TopLabel(TemperatureScaling()).fit(X, labels)
    assert len(fitted.calibrators_) == 1
    np.testing.assert_allclose(fitted.confidences(X)[1], 0.75, rtol=1e-5)


# As an estimator


def test_what_the_registry_makes_is_not_shared():
    first, second = registry.make("top-label-binning"), registry.make("top-label-binning")
    first.base.rows_per_bin = 3
    assert second.base.rows_per_bin == 50
    assert repr(second.base) == repr(HistogramBinning(strategy="quantile", rows_per_bin=50))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"by_class": "yes"}, "by_class must be True or False"),
        ({"min_rows": 0}, "min_rows must be an integer of at least 1, not 0"),
        ({"min_rows": 2.5}, "min_rows must be an integer of at least 1, not 2.5"),
        ({"min_rows": None}, "min_rows must be an integer"),
    ],
)
def test_parameters_without_meaning_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        TopLabel(TemperatureScaling(), **parameters).fit(*some_rows(3))


def test_traits_follow_from_the_parameters():
    assert TopLabel(TemperatureScaling()).traits == Traits()
    assert TopLabel(TemperatureScaling(), by_class=False).traits == Traits(shares_parameters=True)
    raw = VectorScaling().traits.uses_raw_logits
    assert TopLabel(VectorScaling()).traits.uses_raw_logits == raw

"""Every calibrator takes predictions and labels in each of their forms, and leaves them as they are."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from methods import NAMES, REFITTED, assert_on_simplex, fitted, n_classes_of, names_with, problem, settled

from calibrant import Predictions
from calibrant.errors import PredictionError

every_method = pytest.mark.parametrize("name", NAMES)

# Compositions in which straight lines between neighbouring scores, some of which rise by two thousand per unit on these
# rows, follow on a first stage: what that rounds by 1e-7 in float32 is then seen at up to 2e-4.
STEEP_AFTER_ROUNDING = {"irova-ts"}


@every_method
def test_two_classes_as_vector_as_one_column_and_as_two(name):
    """1 - p is exact for these numbers, so the three agree to the bit."""
    X, y = problem(2)
    expected = fitted(name, 2).predict_proba(X)
    for positive in (X[:, 1], X[:, 1:]):
        np.testing.assert_array_equal(settled(name).fit(positive, y).predict_proba(positive), expected)
        np.testing.assert_array_equal(fitted(name, 2).predict_proba(positive), expected)


@every_method
def test_log_odds_as_vector_as_one_column_and_as_two(name):
    X, y = problem(2)
    log_odds = np.log(X[:, 1] / X[:, 0])
    both = Predictions.from_logits(np.column_stack([np.zeros_like(log_odds), log_odds]))
    expected = settled(name).fit(both, y).predict_proba(both)
    for given in (log_odds, log_odds[:, np.newaxis]):
        positive = Predictions.from_logits(given)
        np.testing.assert_array_equal(settled(name).fit(positive, y).predict_proba(positive), expected)


@every_method
def test_labels_as_strings(name):
    """Strings in sorted order are the columns; the map is that of the column numbers."""
    n_classes = n_classes_of(name)
    X, y = problem(n_classes)
    words = np.array(["ant", "bee", "cat"])[:n_classes]
    calibrator = settled(name).fit(X, words[y])
    np.testing.assert_array_equal(calibrator.classes_, words)
    np.testing.assert_array_equal(calibrator.predict_proba(X), fitted(name, n_classes).predict_proba(X))
    assert set(calibrator.predict(X)) <= set(words)


@every_method
@pytest.mark.parametrize("given", ["list", "object", "bool", "float", "pandas", "polars", "column"])
def test_labels_in_other_containers(name, given):
    X, y = problem(2)
    labels = {
        "list": y.tolist(),
        "object": y.astype(object),
        "bool": y.astype(bool),
        "float": y.astype(float),
        "pandas": pd.Series(y, index=np.arange(len(y))[::-1]),
        "polars": pl.Series(y),
        "column": y[:, np.newaxis],
    }[given]
    calibrated = settled(name).fit(X, labels).predict_proba(X)
    np.testing.assert_array_equal(calibrated, fitted(name, 2).predict_proba(X))


@every_method
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_whose_columns_name_the_classes(name, library):
    """Column names match the labels, although they are not in sorted order."""
    n_classes = n_classes_of(name)
    X, y = problem(n_classes)
    words = np.array(["dog", "cat", "ant"])[:n_classes]
    frame = pd.DataFrame(X, columns=words) if library == "pandas" else pl.DataFrame(X, schema=words.tolist())
    calibrator = settled(name).fit(frame, words[y])
    np.testing.assert_array_equal(calibrator.classes_, words)
    calibrated = calibrator.predict_proba(frame)
    assert type(calibrated) is np.ndarray
    # Frames are stored by columns, so products of matrices may add up in another order.
    expected = fitted(name, n_classes).predict_proba(X)
    np.testing.assert_allclose(calibrated, expected, rtol=0, atol=REFITTED)


@every_method
def test_frames_whose_columns_are_permuted_at_prediction_are_refused(name):
    n_classes = n_classes_of(name)
    X, y = problem(n_classes)
    words = np.array(["ant", "bee", "cat"])[:n_classes]
    calibrator = settled(name).fit(pd.DataFrame(X, columns=words), words[y])
    with pytest.raises(PredictionError, match=r"column 0 is class .*order of classes_"):
        calibrator.predict_proba(pd.DataFrame(X, columns=words[::-1]))


@every_method
def test_lists_of_lists(name):
    X, y = problem(n_classes_of(name))
    calibrated = settled(name).fit(X.tolist(), y.tolist()).predict_proba(X.tolist())
    np.testing.assert_array_equal(calibrated, fitted(name, n_classes_of(name)).predict_proba(X))


@every_method
@pytest.mark.parametrize("layout", ["columns first", "every other row", "reversed"])
def test_memory_layout_does_not_matter(name, layout):
    X, y = problem(n_classes_of(name))
    given = {
        "columns first": np.asfortranarray(X),
        "every other row": np.repeat(X, 2, axis=0)[::2],
        "reversed": X[::-1, ::-1].copy()[::-1, ::-1],
    }[layout]
    calibrated = settled(name).fit(given, y).predict_proba(given)
    # Sums over strided rows may be taken in another order.
    np.testing.assert_allclose(
        calibrated, fitted(name, n_classes_of(name)).predict_proba(X), rtol=0, atol=REFITTED
    )


@every_method
def test_float32_equals_float64_to_float32_accuracy(name):
    """The inputs are the same numbers in both types, so only the arithmetic differs.

    Logarithms in float32 are off by 6e-8 relatively and at most 1e-6 for these numbers; the optimum moves
    by about as much times the condition of the fit, for which a factor of ten is allowed.
    """
    n_classes = n_classes_of(name)
    X, y = problem(n_classes)
    single = X.astype(np.float32)
    np.testing.assert_array_equal(single.astype(np.float64), X)
    calibrated = settled(name).fit(single, y).predict_proba(single)
    assert calibrated.dtype == np.float32
    np.testing.assert_allclose(calibrated, fitted(name, n_classes).predict_proba(X), rtol=0, atol=1e-5)


@every_method
def test_a_fit_in_float64_maps_float32_in_float32(name):
    """One map in both types: differences are those of float32 rounding, times the steepness of the map.

    Where that is the product of two stages, each is compared by itself, the second on what the first has rounded.
    """
    X, _ = problem(n_classes_of(name))
    single = X.astype(np.float32)
    calibrator = fitted(name, n_classes_of(name))
    calibrated = calibrator.predict_proba(single)
    assert calibrated.dtype == np.float32
    expected = calibrator.predict_proba(X)
    if name in STEEP_AFTER_ROUNDING:
        first, second = calibrator.calibrators_
        rounded = first.transform(single)
        assert rounded.scores.dtype == np.float32
        np.testing.assert_allclose(rounded.probabilities, first.predict_proba(X), rtol=0, atol=1e-6)
        expected = second.predict_proba(Predictions.from_logits(rounded.scores.astype(np.float64)))
    np.testing.assert_allclose(calibrated, expected, rtol=0, atol=1e-5)


@every_method
@pytest.mark.parametrize("space", ["probabilities", "logits"])
def test_inputs_are_left_unchanged_and_may_be_read_only(name, space):
    X, y = (array.copy() for array in problem(n_classes_of(name)))
    X = X if space == "probabilities" else np.log(X)
    weights = np.linspace(0.5, 1.5, len(y))
    copies = [array.copy() for array in (X, y, weights)]
    parsed = Predictions.from_probabilities(X) if space == "probabilities" else Predictions.from_logits(X)
    writable = settled(name).fit(parsed, y, weights).predict_proba(parsed)
    for array, copy in zip((X, y, weights), copies, strict=True):
        np.testing.assert_array_equal(array, copy)
        assert array.flags.writeable
        array.flags.writeable = False
    parsed = Predictions.from_probabilities(X) if space == "probabilities" else Predictions.from_logits(X)
    np.testing.assert_array_equal(settled(name).fit(parsed, y, weights).predict_proba(parsed), writable)


@every_method
def test_logits_work(name):
    X, y = problem(n_classes_of(name))
    logits = Predictions.from_logits(np.log(X) + 3.0)
    assert_on_simplex(settled(name).fit(logits, y).predict_proba(logits), X.shape)


@pytest.mark.parametrize("name", names_with(lambda traits: not traits.uses_raw_logits))
def test_logits_and_their_softmax_give_the_same_map(name):
    """What is added to a row of logits is lost in the softmax; claimed by ``uses_raw_logits = False``.

    The logits are shifted row by row, so a method that looked at them raw would give another map.
    """
    n_classes = n_classes_of(name)
    X, y = problem(n_classes)
    shifted = Predictions.from_logits(np.log(X) + np.linspace(-5, 5, len(X))[:, np.newaxis])
    from_logits = settled(name).fit(shifted, y)
    from_probabilities = fitted(name, n_classes)
    expected = from_probabilities.predict_proba(X)
    for calibrator in (from_logits, from_probabilities):
        for given in (X, shifted):
            np.testing.assert_allclose(calibrator.predict_proba(given), expected, rtol=0, atol=REFITTED)


@pytest.mark.parametrize("name", names_with(lambda traits: not traits.uses_raw_logits))
def test_logits_and_their_softmax_agree_on_rows_sharper_than_those_of_the_fit(name):
    """Smaller probabilities than the calibration rows have are no zeros and must not be mapped as such."""
    n_classes = n_classes_of(name)
    X, _ = problem(n_classes)
    sharper = Predictions.from_logits(3 * np.log(X))
    assert sharper.probabilities.min() < X.min() / 100
    calibrator = fitted(name, n_classes)
    np.testing.assert_allclose(
        calibrator.predict_proba(sharper.probabilities),
        calibrator.predict_proba(sharper),
        rtol=0,
        atol=REFITTED,
    )


@pytest.mark.parametrize("name", names_with(lambda traits: traits.uses_raw_logits))
def test_methods_on_raw_logits_refuse_the_other_space(name):
    n_classes = n_classes_of(name)
    X, y = problem(n_classes)
    logits = Predictions.from_logits(np.log(X))
    with pytest.raises(PredictionError, match=r"fitted on probabilities.*are logits.*same kind"):
        fitted(name, n_classes).predict_proba(logits)
    with pytest.raises(PredictionError, match=r"fitted on logits.*are probabilities.*same kind"):
        settled(name).fit(logits, y).predict_proba(X)

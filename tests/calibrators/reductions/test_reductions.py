"""What the reductions to two classes share: their base, threads, warnings, files, and numbers of all sizes."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from reduction_rows import WORSE_TOGETHER, some_rows
from sklearn.base import clone

import calibrant
from calibrant import HistogramBinning, OneVsRest, TemperatureScaling, TopLabel
from calibrant.errors import CalibrationWarning, ConvergenceWarning, ParameterError
from calibrant.numerics import row_blocks
from strategies import problems

every_reduction = pytest.mark.parametrize("reduction", [OneVsRest, TopLabel])


# Numbers


@pytest.mark.parametrize(
    "calibrator",
    [OneVsRest(TemperatureScaling()), TopLabel(TemperatureScaling(), min_rows=4)],
    ids=["one against the rest", "top label"],
)
@settings(max_examples=30)
@given(problem=problems())
def test_small_problems_with_zeros_ones_and_ties_give_probabilities(calibrator, problem):
    X, y = problem
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        fitted = clone(calibrator).fit(X, y)
    for rows in (X, np.eye(X.shape[1], dtype=X.dtype)):
        calibrated = fitted.predict_proba(rows)
        assert calibrated.dtype == X.dtype
        assert np.isfinite(calibrated).all()
        assert (calibrated >= 0).all()
        np.testing.assert_allclose(calibrated.sum(axis=1), 1, rtol=0, atol=1e-6)


# The base


@every_reduction
def test_parameters_of_the_base_are_reached_by_name(reduction):
    calibrator = reduction(TemperatureScaling())
    assert calibrator.get_params()["base__loss"] == "log"
    calibrator.set_params(base__loss="brier")
    copied = clone(calibrator)
    assert copied.base.loss == "brier"
    assert copied.base is not calibrator.base
    fitted = copied.fit(*some_rows(3))
    assert all(part.loss == "brier" for part in fitted.calibrators_)


@every_reduction
def test_the_base_is_cloned_not_fitted(reduction):
    base = TemperatureScaling()
    reduction(base).fit(*some_rows(3))
    assert vars(base).keys() == {"loss", "bounds", "prior"}


@every_reduction
@pytest.mark.parametrize("base", [None, "temperature", TemperatureScaling, object()])
def test_a_base_that_is_no_calibrator_is_refused(reduction, base):
    with pytest.raises(ParameterError, match="base must be a calibrator such as"):
        reduction(base).fit(*some_rows(3))


# Threads and warnings


@pytest.fixture(params=["1", "4"])
def number_of_threads(request, monkeypatch):
    """Each piece of work is large enough for a thread of its own."""
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", request.param)
    monkeypatch.setattr(row_blocks, "NUMBERS_PER_PIECE", 1)


@pytest.mark.parametrize(
    "calibrator",
    [
        OneVsRest(TemperatureScaling()),
        OneVsRest(TemperatureScaling(), "shift"),
        TopLabel(TemperatureScaling()),
    ],
    ids=["divide", "shift", "top label"],
)
def test_threads_give_the_same_numbers_to_the_bit(calibrator, monkeypatch):
    X, y = some_rows(5, n_rows=3000)
    monkeypatch.setattr(row_blocks, "NUMBERS_PER_PIECE", 1)
    results = []
    for n_threads in ("1", "4"):
        monkeypatch.setenv("CALIBRANT_NUM_THREADS", n_threads)
        results.append(clone(calibrator).fit(X, y).predict_proba(X))
    np.testing.assert_array_equal(*results)


@every_reduction
@pytest.mark.usefixtures("number_of_threads")
def test_an_error_of_the_base_in_a_thread_reaches_the_user(reduction):
    with pytest.raises(ParameterError, match="loss must be 'log' or 'brier'"):
        reduction(TemperatureScaling(loss="hinge")).fit(*some_rows(3))


@pytest.mark.usefixtures("number_of_threads")
def test_warnings_of_all_maps_are_one_at_the_users_line():
    """The surer half of the rows of each class is right and the other wrong, with scores around one half.

    The best slope is then infinite for all three.
    """
    predicted = np.repeat([0, 1, 2], 60)
    sure = np.arange(180) % 2 == 0
    X = np.where(sure[:, np.newaxis], 0.4 * np.eye(3)[predicted] + 0.2, 0.1 * np.eye(3)[predicted] + 0.3)
    with pytest.warns(ConvergenceWarning, match=r"\(3 of 3 top-label fits\)\.$") as seen:
        TopLabel(TemperatureScaling()).fit(X, np.where(sure, predicted, (predicted + 1) % 3))
    assert len(seen) == 1
    assert seen[0].filename == __file__


# Files


def saved_and_loaded(fitted, folder):
    fitted.save(folder / "calibrator.npz")
    loaded = calibrant.load(folder / "calibrator.npz")
    assert repr(loaded) == repr(fitted)
    return loaded


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3, 100])
def test_a_saved_file_of_one_against_the_rest_gives_the_same_numbers_to_the_bit(n_classes, dtype, tmp_path):
    X, y = some_rows(n_classes, n_rows=400)
    X = X.astype(dtype)
    words = np.array([f"class {number:03}" for number in range(n_classes)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        fitted = OneVsRest(TemperatureScaling(bounds=(1e-2, 1e2)), "shift").fit(X, words[y])
    loaded = saved_and_loaded(fitted, tmp_path)
    assert loaded.identity_kept_ == fitted.identity_kept_
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(loaded.class_probabilities(X), fitted.class_probabilities(X))
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))


def test_a_saved_file_remembers_that_the_identity_is_kept(tmp_path):
    X, y = WORSE_TOGETHER
    with pytest.warns(CalibrationWarning):
        fitted = OneVsRest(TemperatureScaling()).fit(X, y)
    np.testing.assert_array_equal(saved_and_loaded(fitted, tmp_path).predict_proba(X), X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_saved_file_of_top_labels_gives_the_same_numbers_to_the_bit(dtype, tmp_path):
    """One class is pooled, one has a constant, one a map."""
    X, y = some_rows(3)
    predicted = X.argmax(axis=1)
    kept = (predicted != 0) | (np.arange(len(X)) % 5 == 0)
    X, y, predicted = X[kept].astype(dtype), y[kept], predicted[kept]
    y = np.where(predicted == 1, 1, y)
    base = HistogramBinning(strategy="quantile", rows_per_bin=50, smoothing=0.0)
    fitted = TopLabel(base).fit(X, np.array(["ant", "bee", "cat"])[y])
    assert [calibrator is None for calibrator in fitted.calibrators_] == [True, False, False]
    assert fitted.map_of_class_.tolist() == [2, 0, 1]
    loaded = saved_and_loaded(fitted, tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(loaded.confidences(X)[0], fitted.confidences(X)[0])
    np.testing.assert_array_equal(loaded.confidences(X)[1], fitted.confidences(X)[1])

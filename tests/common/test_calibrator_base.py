"""What the base class does for every method, seen through a method that does almost nothing."""

import numpy as np
import pytest
from methods import problem
from sklearn.exceptions import NotFittedError

from calibrant import Calibrator, LabelledPredictions, Predictions, Traits
from calibrant.errors import ParameterError


class Recorder(Calibrator):
    """Keeps what it is given, fails on demand, and gives back the identity."""

    traits = Traits(contains_identity=True)

    def __init__(self, fail=False):
        self.fail = fail

    def _fit(self, data: LabelledPredictions) -> None:
        if self.fail:
            raise ParameterError("asked to fail.")
        self.data_ = data

    def _transform(self, predictions: Predictions) -> Predictions:
        return predictions


def test_a_method_sees_parsed_data():
    X, y = problem(3)
    data = Recorder().fit(X, y, np.arange(len(y))).data_
    assert isinstance(data, LabelledPredictions)
    assert data.n_rows == len(y) - 1  # the row of weight zero is left out
    assert data.predictions.space == "probabilities"


def test_a_method_sees_only_the_classes_that_occur():
    X, y = problem(4)
    kept = y != 1
    with pytest.warns(UserWarning, match="no calibration row has class 1;"):
        data = Recorder().fit(X[kept], y[kept]).data_
    np.testing.assert_array_equal(data.classes, [0, 2, 3])
    np.testing.assert_array_equal(data.classes[data.labels], y[kept])
    np.testing.assert_allclose(data.predictions.probabilities.sum(axis=1), 1.0)


def test_a_first_fit_that_fails_leaves_the_calibrator_unfitted():
    X, y = problem(3)
    calibrator = Recorder(fail=True)
    with pytest.raises(ParameterError):
        calibrator.fit(X, y)
    with pytest.raises(NotFittedError):
        calibrator.predict_proba(X)


def test_a_later_fit_that_fails_leaves_no_mixture_of_two_fits():
    """Either the first fit is intact or there is none; new classes with old parameters would be wrong."""
    X, y = problem(3)
    calibrator = Recorder().fit(X, y)
    calibrator.set_params(fail=True)
    words = np.array(["ant", "bee"])
    other = problem(2)
    with pytest.raises(ParameterError):
        calibrator.fit(other.probabilities, words[other.labels])
    try:
        calibrated = calibrator.predict_proba(X)
    except NotFittedError:
        return
    np.testing.assert_array_equal(calibrated, X)


class Logarithms(Recorder):
    """Keeps the logarithms that it is asked to map."""

    def _transform(self, predictions: Predictions) -> Predictions:
        self.seen = predictions.log_probabilities
        return predictions


@pytest.mark.parametrize(("declared", "floor"), [(1e-5, 1e-5), (None, 0.2)])
def test_the_floor_of_the_fit_holds_at_prediction(declared, floor):
    """log(0) must mean the same number in both; undeclared it is half of 0.4, the least that occurs."""
    floored = Predictions.from_probabilities([[1.0, 0.0], [0.4, 0.6]], floor=declared)
    calibrator = Logarithms().fit(floored, [0, 1])
    np.testing.assert_allclose(calibrator.data_.predictions.log_probabilities[0], [0.0, np.log(floor)])
    calibrator.predict_proba([[0.0, 1.0]])
    np.testing.assert_allclose(calibrator.seen, [[np.log(floor), 0.0]])


def test_a_row_without_weight_does_not_set_the_floor():
    given = [[1.0, 0.0], [0.4, 0.6], [1e-9, 1 - 1e-9]]
    assert Recorder().fit(given, [0, 1, 1], [1, 1, 0]).floor_ == 0.2


def test_many_absent_classes_are_listed_in_part():
    X = np.full((4, 30), 1 / 30)
    with pytest.warns(UserWarning, match="class 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 18 more;"):
        Recorder().fit(X, [0, 1, 0, 1])


def test_a_method_must_write_its_fit_and_its_map():
    class WithoutFit(Calibrator):
        traits = Traits()

        def _traced(self, given):
            return given

    with pytest.raises(TypeError, match="_fit"):
        WithoutFit()

    class WithoutMap(Calibrator):
        traits = Traits()

        def _fit(self, data):
            pass

    fitted = WithoutMap().fit([[0.9, 0.1], [0.2, 0.8]], [0, 1])
    with pytest.raises(TypeError, match="must define _traced, or _transform"):
        fitted.predict_proba([[0.9, 0.1]])


class Sure(Calibrator):
    """Gives nearly everything to the first class."""

    traits = Traits()

    def _fit(self, data):
        pass

    def _transform(self, predictions):
        certain = np.float32([[1, 1e-20]]).repeat(predictions.n_rows, axis=0)
        return Predictions.from_probabilities(certain)


@pytest.mark.filterwarnings("ignore:no calibration row has class 2")
def test_a_small_part_of_a_small_share_is_not_zero():
    """Class 2, which no calibration row has, takes nearly all of a row; a part of the rest is too small for float32."""
    p = np.random.default_rng(0).dirichlet(np.ones(3), 60).astype(np.float32)
    fitted = Sure().fit(p, np.arange(60) % 2)
    assert (fitted.predict_proba(np.float32([[1e-30, 1e-30, 1]])) > 0).all()

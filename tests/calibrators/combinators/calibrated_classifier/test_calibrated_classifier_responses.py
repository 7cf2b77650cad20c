"""What a classifier says, in probabilities, log-probabilities or decision values, as predictions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.multiclass import OneVsOneClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from calibrant import CalibratedClassifier, Predictions, TemperatureScaling
from calibrant.calibrators.combinators.calibrated_classifier.training_rows import (
    IMPOSSIBLE,
    estimator_response,
    response_method,
)
from calibrant.errors import LabelError, ParameterError, PredictionError
from calibrant.space import Space

LOG_FLOOR = np.log(IMPOSSIBLE)


class Scripted:
    """A trained classifier that says what it was told to."""

    def __init__(self, classes, **answers):
        self.classes_ = np.asarray(classes)
        for method, answer in answers.items():
            setattr(self, method, lambda _, answer=answer: np.asarray(answer))


@pytest.fixture(scope="module")
def blobs():
    return make_classification(
        150,
        n_features=5,
        n_informative=4,
        n_redundant=0,
        n_classes=3,
        flip_y=0.2,
        class_sep=0.8,
        random_state=5,
    )


def test_probabilities_come_first_by_default():
    both = Scripted([0, 1], predict_proba=[], decision_function=[])
    assert response_method(both, "auto") == "predict_proba"
    assert response_method(both, "decision_function") == "decision_function"
    assert response_method(Scripted([0, 1], decision_function=[]), "auto") == "decision_function"
    with pytest.raises(ParameterError, match="Scripted has no predict_log_proba"):
        response_method(both, "predict_log_proba")
    with pytest.raises(ParameterError, match="predict_proba or decision_function"):
        response_method(Scripted([0, 1]), "auto")


def test_a_single_decision_value_is_the_log_odds_of_the_second_class():
    for answer in ([0.0, np.log(3)], [[0.0], [np.log(3)]]):
        said = estimator_response(
            Scripted(["no", "yes"], decision_function=answer),
            None,
            "decision_function",
            np.array(["no", "yes"]),
        )
        assert said.space == Space.LOGITS
        assert_allclose(said.probabilities, [[0.5, 0.5], [0.25, 0.75]])


def test_columns_follow_the_classes_by_name():
    classifier = Scripted(
        ["b", "c", "a"], predict_proba=[[0.2, 0.3, 0.5]], decision_function=[[2.0, 3.0, 5.0]]
    )
    classes = np.array(["a", "b", "c"])
    assert_array_equal(
        estimator_response(classifier, None, "predict_proba", classes).scores, [[0.5, 0.2, 0.3]]
    )
    assert_array_equal(
        estimator_response(classifier, None, "decision_function", classes).scores, [[5.0, 2.0, 3.0]]
    )


def test_an_absent_class_gets_probability_zero_or_the_log_of_the_floor():
    classes = np.array([0, 1, 2])
    known = Scripted([0, 2], predict_proba=[[0.4, 0.6]], decision_function=[1.5])
    assert_array_equal(estimator_response(known, None, "predict_proba", classes).scores, [[0.4, 0.0, 0.6]])
    expected = log_softmax([0.0, 1.5])
    assert_allclose(
        estimator_response(known, None, "decision_function", classes).scores,
        [[expected[0], LOG_FLOOR, expected[1]]],
    )


def test_an_estimator_that_knows_one_class_is_sure_of_it():
    """One column must not be read as the positive class of two."""
    sure = Scripted([1], predict_proba=[[1.0], [1.0]], predict_log_proba=[[0.0], [0.0]])
    classes = np.array([0, 1])
    assert_array_equal(estimator_response(sure, None, "predict_proba", classes).scores, [[0, 1], [0, 1]])
    assert_allclose(
        estimator_response(sure, None, "predict_log_proba", classes).scores, [[LOG_FLOOR, 0], [LOG_FLOOR, 0]]
    )


def test_minus_infinity_is_floored_below_everything_finite_in_its_row():
    classes = np.array([0, 1, 2])
    answer = [[-np.inf, 0.0, -np.inf], [-500.0, 0.0, -np.inf], [-2.0, -1.0, -500.0]]
    said = estimator_response(Scripted(classes, predict_log_proba=answer), None, "predict_log_proba", classes)
    assert_allclose(
        said.scores, [[LOG_FLOOR, 0.0, LOG_FLOOR], [-500.0, 0.0, -500.0], [-2.0, -1.0, -500.0]], rtol=1e-7
    )


def test_other_answers_that_are_not_finite_are_refused():
    classes = np.array([0, 1])
    for wrong in (np.nan, np.inf):
        classifier = Scripted(classes, decision_function=[wrong], predict_proba=[[wrong, 0.5]])
        for method in ("decision_function", "predict_proba"):
            with pytest.raises(PredictionError, match="finite"):
                estimator_response(classifier, None, method, classes)


def test_trees_may_say_that_a_class_is_impossible(blobs):
    """Their predict_log_proba takes the logarithm of exact zeros; no warning comes through."""
    X, y = blobs
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    calibrated = CalibratedClassifier(tree, method="temperature", response="predict_log_proba").fit(X, y)
    assert np.isfinite(np.log(calibrated.predict_proba(X))).all()
    # The same as exact zeros with that floor.
    for estimator, calibrator in calibrated.calibrated_pairs_:
        said = Predictions.from_probabilities(estimator.predict_proba(X), floor=IMPOSSIBLE)
        beta = calibrator.inverse_temperature_
        expected = np.exp(beta * said.log_probabilities)
        expected /= expected.sum(axis=1, keepdims=True)
        logits = estimator_response(estimator, X, "predict_log_proba", estimator.classes_)
        assert_allclose(calibrator.predict_proba(logits), expected, rtol=1e-6)


def test_log_probabilities_count_as_logits(blobs):
    X, y = blobs
    fitted = GaussianNB().fit(X[:75], y[:75])
    calibrated = CalibratedClassifier(FrozenEstimator(fitted), "vector", response="predict_log_proba")
    calibrated.fit(X[75:], y[75:])
    assert calibrated.calibrator_.space_ == "logits"
    logits = Predictions.from_logits(fitted.predict_log_proba(X))
    assert_array_equal(calibrated.predict_proba(X), calibrated.calibrator_.predict_proba(logits))


@pytest.mark.parametrize("ensemble", [True, False])
def test_a_binary_margin_is_calibrated_as_log_odds(blobs, ensemble):
    X, y = blobs
    y = y > 0
    estimator = LinearSVC(C=0.1, random_state=0)
    calibrated = CalibratedClassifier(estimator, method="temperature", cv=3, ensemble=ensemble).fit(X, y)
    total, pooled = 0, np.empty(len(y))
    for train, test in StratifiedKFold(3).split(X, y):
        fitted = LinearSVC(C=0.1, random_state=0).fit(X[train], y[train])
        pooled[test] = fitted.decision_function(X[test])
        calibrator = TemperatureScaling().fit(Predictions.from_logits(pooled[test]), y[test])
        total += calibrator.predict_proba(Predictions.from_logits(fitted.decision_function(X)))
    if ensemble:
        assert_allclose(calibrated.predict_proba(X), total / 3, rtol=1e-12)
    else:
        calibrator = TemperatureScaling().fit(Predictions.from_logits(pooled), y)
        margins = Predictions.from_logits(estimator.fit(X, y).decision_function(X))
        assert_allclose(calibrated.predict_proba(X), calibrator.predict_proba(margins), rtol=1e-12)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda svc: svc,
        lambda svc: make_pipeline(StandardScaler(), svc),
        lambda svc: GridSearchCV(make_pipeline(svc), {"svc__C": [0.5, 1.0]}, cv=2),
    ],
    ids=["itself", "pipeline", "search"],
)
def test_decision_values_of_pairs_of_classes_are_refused(blobs, wrap):
    """Three classes have three pairs, so the number of columns alone would not tell."""
    X, y = blobs
    with pytest.raises(PredictionError, match="decision_function_shape='ovr'"):
        CalibratedClassifier(wrap(SVC(decision_function_shape="ovo")), method="temperature").fit(X, y)
    CalibratedClassifier(wrap(SVC(decision_function_shape="ovr")), method="temperature").fit(X, y)


def test_one_vs_one_with_a_score_per_class_is_fine(blobs):
    calibrated = CalibratedClassifier(OneVsOneClassifier(LogisticRegression()), method="temperature").fit(
        *blobs
    )
    assert calibrated.response_ == "decision_function"
    assert calibrated.predict_proba(blobs[0]).shape == (150, 3)


def test_columns_that_are_not_classes_are_refused():
    classes = np.arange(4)
    pairs = Scripted(classes, decision_function=np.zeros((5, 6)), predict_proba=np.full((5, 5), 0.2))
    with pytest.raises(PredictionError, match=r"shape \(5, 6\).*4 classes.*decision_function_shape"):
        estimator_response(pairs, None, "decision_function", classes)
    with pytest.raises(PredictionError, match=r"shape \(5, 5\)"):
        estimator_response(pairs, None, "predict_proba", classes)


def test_an_estimator_with_labels_of_its_own_is_refused():
    with pytest.raises(LabelError, match="has class 0 in its classes_"):
        estimator_response(
            Scripted([0, 1], predict_proba=[[0.5, 0.5]]), None, "predict_proba", np.array(["a", "b"])
        )


def test_a_classifier_without_classes_is_taken_at_its_columns():
    silent = Scripted([], predict_proba=[[0.4, 0.6]])
    del silent.classes_
    assert_array_equal(
        estimator_response(silent, None, "predict_proba", np.array(["a", "b"])).scores, [[0.4, 0.6]]
    )

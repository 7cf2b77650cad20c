"""Scorers inside scikit-learn's cross-validation and searches."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.naive_bayes import GaussianNB

from calibrant import registry
from calibrant.errors import ParameterError
from calibrant.metrics import confidence_ece, log_loss
from calibrant.scorers import Scorer, scorer, scorer_names

X, Y = load_iris(return_X_y=True)
MODEL = GaussianNB()


def test_every_metric_has_a_scorer_and_its_sign():
    assert {name.removeprefix("neg_") for name in scorer_names()} == set(registry.metrics())
    assert {"accuracy", "neg_log_loss", "neg_brier_score", "neg_confidence_ece"} <= set(scorer_names())


@pytest.mark.parametrize("name", scorer_names())
def test_a_better_model_scores_no_lower_sign(name):
    """The sign turns losses into something at most zero, up to what is noise."""
    fitted = MODEL.fit(X, Y)
    value = scorer(name)(fitted, X, Y)
    assert np.isfinite(value)
    assert value <= 0.05 or not name.startswith("neg_")


def test_it_is_the_metric_with_its_sign():
    fitted = MODEL.fit(X, Y)
    weights = np.linspace(0.5, 2, len(Y))
    expected = confidence_ece(Y, fitted.predict_proba(X), n_bins=5, sample_weight=weights)
    assert scorer(confidence_ece, n_bins=5)(fitted, X, Y, sample_weight=weights) == -expected


def test_it_agrees_with_the_scorer_of_scikit_learn():
    ours = cross_validate(MODEL, X, Y, scoring=scorer("neg_log_loss"))["test_score"]
    theirs = cross_validate(MODEL, X, Y, scoring="neg_log_loss")["test_score"]
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_a_fold_without_one_of_the_classes_is_no_difficulty():
    """Rows sorted by class and not shuffled: every test fold holds one or two classes of three."""
    names = np.array(["setosa", "versicolor", "virginica"])[Y]
    shuffled = cross_validate(
        MODEL, X, names, scoring=scorer("neg_confidence_ece"), cv=KFold(15), error_score="raise"
    )
    assert np.isfinite(shuffled["test_score"]).all()


def test_labels_of_two_classes_belong_to_the_right_column():
    X2, y2 = make_classification(200, random_state=0)
    words = np.where(y2 == 1, "yes", "no")
    for labels in (y2, words, y2.astype(bool), 2 * y2 - 1):
        fitted = LogisticRegression().fit(X2, labels)
        expected = -log_loss(y2, fitted.predict_proba(X2)[:, 1])
        assert scorer("neg_log_loss")(fitted, X2, labels) == pytest.approx(expected)


def test_several_at_once_and_in_a_search():
    several = {name: scorer(name) for name in ("neg_log_loss", "accuracy")}
    search = GridSearchCV(MODEL, {"var_smoothing": [1e-9, 10.0]}, scoring=several, refit="neg_log_loss").fit(
        X, Y
    )
    assert search.best_params_ == {"var_smoothing": 1e-9}


def test_weights_are_routed():
    weights = np.linspace(0.1, 3, len(Y))
    with sklearn.config_context(enable_metadata_routing=True):
        asking = scorer("neg_log_loss").set_score_request(sample_weight=True)
        model = MODEL.set_fit_request(sample_weight=False)
        with_weights = cross_validate(model, X, Y, scoring=asking, params={"sample_weight": weights})
        without = cross_validate(model, X, Y, scoring=scorer("neg_log_loss"))
    assert (with_weights["test_score"] != without["test_score"]).all()


def test_it_is_shown_with_its_definition_and_can_be_cloned():
    made = scorer("neg_confidence_ece", n_bins=7)
    assert repr(made) == "-confidence_ece(n_bins=7, strategy='uniform', norm=1)"
    assert repr(clone(made)) == repr(made)


def test_what_is_no_scorer_is_refused():
    with pytest.raises(
        ParameterError, match="there is no scorer 'log_loss'; use 'neg_log_loss', since lower"
    ):
        scorer("log_loss")
    with pytest.raises(ParameterError, match="there is no scorer 'ece'; known are"):
        scorer("ece")
    with pytest.raises(ParameterError, match="confidence_ece has no option 'foo'; it has"):
        scorer("neg_confidence_ece", foo=3)
    with pytest.raises(ParameterError, match="n_bins must be an integer"):
        scorer("neg_confidence_ece", n_bins=0)
    with pytest.raises(ParameterError, match="its sign is unknown"):
        scorer(print)
    with pytest.raises(ParameterError, match="RidgeClassifier has no predict_proba"):
        scorer("accuracy")(RidgeClassifier().fit(X, Y), X, Y)


def test_functions_of_ones_own_take_a_sign():
    fitted = MODEL.fit(X, Y)

    def mean_confidence(y_true, y_proba, sample_weight=None):
        return float(y_proba.probabilities.max(axis=1).mean())

    assert Scorer(mean_confidence, 1)(fitted, X, Y) == pytest.approx(
        fitted.predict_proba(X).max(axis=1).mean()
    )

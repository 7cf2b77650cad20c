"""CalibratedClassifier against its own definition, written out as loops."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import ShuffleSplit, StratifiedKFold, cross_val_predict, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from calibrant import CalibratedClassifier, Predictions, TemperatureScaling
from calibrant.errors import CalibrationWarning, LabelError, MissingClassWarning, ParameterError, WeightError
from calibrant.registry import make


@pytest.fixture(scope="module")
def blobs():
    """Three classes that overlap, so that no calibrator meets separable rows."""
    return make_classification(
        240,
        n_features=6,
        n_informative=4,
        n_redundant=0,
        n_classes=3,
        flip_y=0.2,
        class_sep=0.8,
        random_state=3,
    )


def split_rows(n_rows, n_classes):
    """Three explicit folds over rows that are in random order already."""
    numbers = np.arange(n_rows) % n_classes
    return [(np.flatnonzero(numbers != fold), np.flatnonzero(numbers == fold)) for fold in range(n_classes)]


@pytest.mark.parametrize("method", ["temperature", "vector"])
@pytest.mark.parametrize(
    ("estimator", "response"),
    [(GaussianNB(), "predict_proba"), (LogisticRegression(), "decision_function")],
)
def test_an_ensemble_is_the_mean_over_a_loop_of_fits(blobs, estimator, response, method):
    X, y = blobs
    calibrated = CalibratedClassifier(estimator, method, cv=4, response=response).fit(X, y)
    total = 0
    for train, test in StratifiedKFold(4).split(X, y):
        fitted = clone(estimator).fit(X[train], y[train])

        def predictions(rows, fitted=fitted):
            if response == "predict_proba":
                return fitted.predict_proba(rows)
            return Predictions.from_logits(fitted.decision_function(rows))

        total += make(method).fit(predictions(X[test]), y[test]).predict_proba(predictions(X))
    assert_allclose(calibrated.predict_proba(X), total / 4, rtol=1e-12)
    assert len(calibrated.calibrated_pairs_) == 4
    assert calibrated.response_ == response


@pytest.mark.parametrize("response", ["predict_proba", "decision_function"])
def test_without_ensemble_it_is_cross_val_predict_and_one_refit(blobs, response):
    X, y = blobs
    estimator = LogisticRegression()
    parse = Predictions.from_probabilities if response == "predict_proba" else Predictions.from_logits
    calibrated = CalibratedClassifier(estimator, method="temperature", ensemble=False, response=response).fit(
        X, y
    )
    held_out = cross_val_predict(estimator, X, y, cv=5, method=response)
    calibrator = TemperatureScaling().fit(parse(held_out), y)
    whole = parse(getattr(clone(estimator).fit(X, y), response)(X))
    assert calibrated.calibrator_.temperature_ == calibrator.temperature_
    assert_array_equal(calibrated.predict_proba(X), calibrator.predict_proba(whole))
    assert calibrated.calibrated_pairs_ == [(calibrated.estimator_, calibrated.calibrator_)]


@pytest.mark.parametrize("ensemble", [True, False])
def test_a_frozen_estimator_is_calibrated_by_all_rows_given(blobs, ensemble):
    X, y = blobs
    fitted = GaussianNB().fit(X[:100], y[:100])
    calibrated = CalibratedClassifier(FrozenEstimator(fitted), method="temperature", ensemble=ensemble).fit(
        X[100:], y[100:]
    )
    by_hand = TemperatureScaling().fit(fitted.predict_proba(X[100:]), y[100:])
    assert_array_equal(calibrated.predict_proba(X), by_hand.predict_proba(fitted.predict_proba(X)))
    assert calibrated.estimator_.estimator is fitted


def test_a_frozen_estimator_uses_weights_without_a_warning(blobs):
    X, y = blobs
    fitted = GaussianNB().fit(X[:100], y[:100])
    weights = np.arange(140) % 3
    calibrated = CalibratedClassifier(FrozenEstimator(fitted), method="temperature").fit(
        X[100:], y[100:], weights
    )
    by_hand = TemperatureScaling().fit(fitted.predict_proba(X[100:]), y[100:], weights)
    assert calibrated.calibrator_.temperature_ == by_hand.temperature_


def test_a_frozen_estimator_keeps_a_class_that_the_calibration_rows_lack(blobs):
    X, y = blobs
    fitted = GaussianNB().fit(X, y)
    two = y != 1
    with pytest.warns(MissingClassWarning, match="no calibration row has class 1"):
        calibrated = CalibratedClassifier(FrozenEstimator(fitted), method="temperature").fit(X[two], y[two])
    assert calibrated.classes_.tolist() == [0, 1, 2]
    assert (calibrated.predict_proba(X) > 0).all()


def test_labels_of_another_kind_than_those_of_a_frozen_estimator_are_refused(blobs):
    X, y = blobs
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    with pytest.raises(LabelError, match="not among the classes of the estimator"):
        CalibratedClassifier(frozen, method="temperature").fit(X, y.astype(str))


@pytest.mark.parametrize("ensemble", [True, False])
def test_weight_two_is_a_repeated_row_and_weight_zero_an_absent_one(blobs, ensemble):
    """Given the same folds, for the estimator and the calibrator alike."""
    X, y = blobs
    weights = np.random.default_rng(0).integers(0, 3, len(y))
    folds = split_rows(len(y), 3)
    origin = np.repeat(np.arange(len(y)), weights)
    repeated_folds = [
        (np.flatnonzero(np.isin(origin, train)), np.flatnonzero(np.isin(origin, test)))
        for train, test in folds
    ]
    weighted = CalibratedClassifier(GaussianNB(), method="temperature", cv=folds, ensemble=ensemble).fit(
        X, y, weights
    )
    repeated = CalibratedClassifier(GaussianNB(), method="temperature", cv=repeated_folds, ensemble=ensemble)
    repeated.fit(X[origin], y[origin])
    plain = CalibratedClassifier(GaussianNB(), method="temperature", cv=folds, ensemble=ensemble).fit(X, y)
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-6)
    assert np.abs(weighted.predict_proba(X) - plain.predict_proba(X)).max() > 1e-3


@pytest.mark.parametrize("ensemble", [True, False])
def test_an_estimator_that_takes_no_weights_is_calibrated_with_them_and_a_warning(blobs, ensemble):
    X, y = blobs
    weights = 1.0 + np.arange(len(y)) % 4
    train, test = split_rows(len(y), 2)[0]
    cv = [(train, test), (test, train)]
    estimator = KNeighborsClassifier(15)
    with pytest.warns(CalibrationWarning, match="takes no sample_weight"):
        calibrated = CalibratedClassifier(estimator, method="temperature", cv=cv, ensemble=ensemble).fit(
            X, y, weights
        )
    if ensemble:
        held_out = clone(estimator).fit(X[train], y[train]).predict_proba(X[test])
        expected = TemperatureScaling().fit(held_out, y[test], weights[test])
    else:
        held_out = cross_val_predict(estimator, X, y, cv=cv, method="predict_proba")
        expected = TemperatureScaling().fit(held_out, y, weights)
    assert calibrated.calibrated_pairs_[0][1].temperature_ == pytest.approx(expected.temperature_, rel=1e-12)


@pytest.mark.parametrize("weights", [np.ones(3), -np.ones(240), np.full(240, np.nan), np.zeros(240)])
def test_wrong_weights_are_refused(blobs, weights):
    with pytest.raises(WeightError):
        CalibratedClassifier(GaussianNB(), method="temperature").fit(*blobs, weights)


@pytest.mark.parametrize(
    "names",
    [
        np.array(["stone", "paper", "air"]),
        np.array(["stone", "paper", "air"], dtype=object),
        np.array([30.0, 10.0, 20.0]),
        np.array([-1, 5, 2]),
    ],
)
@pytest.mark.parametrize("ensemble", [True, False])
def test_labels_of_any_type_only_rename_the_columns(blobs, names, ensemble):
    X, y = blobs
    # Column j of the renamed problem is column order[j] of the numbered one.
    order = np.argsort(names)
    cv = split_rows(len(y), 3)
    numbered = CalibratedClassifier(GaussianNB(), method="temperature", cv=cv, ensemble=ensemble).fit(X, y)
    renamed = CalibratedClassifier(GaussianNB(), method="temperature", cv=cv, ensemble=ensemble).fit(
        X, names[y]
    )
    assert_array_equal(renamed.classes_, np.unique(names))
    assert_allclose(renamed.predict_proba(X), numbered.predict_proba(X)[:, order], rtol=1e-6)
    assert_array_equal(renamed.predict(X), names[numbered.predict(X)])
    assert_array_equal(renamed.calibrated_pairs_[0][1].classes_, np.unique(names))


def test_labels_may_be_true_and_false(blobs):
    X, y = blobs
    calibrated = CalibratedClassifier(RidgeClassifier(), method="temperature").fit(X, y > 0)
    assert calibrated.classes_.tolist() == [False, True]
    assert calibrated.predict(X).dtype == bool
    assert calibrated.score(X, y > 0) == np.mean(calibrated.predict(X) == (y > 0))


def test_several_outputs_are_calibrated_each(blobs):
    X, y = blobs
    labels = CalibratedClassifier(KNeighborsClassifier(), method="platt").fit(X, np.eye(3, dtype=int)[y])
    assert labels.predict_proba(X).shape == (len(X), 3)
    outputs = CalibratedClassifier(KNeighborsClassifier(), method="temperature").fit(
        X, np.stack([y, y], axis=1)
    )
    first, second = outputs.predict_proba(X)
    assert first.shape == (len(X), 3)
    assert (first == second).all()


def test_a_single_class_is_refused(blobs):
    X, _ = blobs
    with pytest.raises(LabelError, match="all of one class, 'only'; rows of at least two classes"):
        CalibratedClassifier(GaussianNB(), method="temperature").fit(X, ["only"] * len(X))


def test_jobs_change_nothing(blobs):
    X, y = blobs
    for ensemble in (True, False):
        one = CalibratedClassifier(GaussianNB(), "vector", ensemble=ensemble).fit(X, y)
        two = CalibratedClassifier(GaussianNB(), "vector", ensemble=ensemble, n_jobs=2).fit(X, y)
        assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_the_only_pair_has_names_of_its_own_and_several_have_none(blobs):
    calibrated = CalibratedClassifier(GaussianNB(), method="temperature", ensemble=False).fit(*blobs)
    assert calibrated.estimator_.n_features_in_ == 6
    assert isinstance(calibrated.calibrator_, TemperatureScaling)
    calibrated.set_params(ensemble=True).fit(*blobs)
    assert not hasattr(calibrated, "estimator_")
    with pytest.raises(AttributeError, match="5 pairs"):
        _ = calibrated.calibrator_
    calibrated.set_params(cv=ShuffleSplit(1, random_state=0)).fit(*blobs)
    assert calibrated.calibrator_ is calibrated.calibrated_pairs_[0][1]


def test_the_method_may_be_a_calibrator_which_stays_unfitted(blobs):
    method = TemperatureScaling(loss="brier")
    calibrated = CalibratedClassifier(GaussianNB(), method).fit(*blobs)
    assert not hasattr(method, "temperature_")
    assert {calibrator.loss for _, calibrator in calibrated.calibrated_pairs_} == {"brier"}
    assert len({id(calibrator) for _, calibrator in calibrated.calibrated_pairs_}) == 5


def test_methods_compose_by_name(blobs):
    calibrated = CalibratedClassifier(GaussianNB(), "temperature+vector", ensemble=False).fit(*blobs)
    assert [type(stage).__name__ for stage in calibrated.calibrator_.calibrators_] == [
        "TemperatureScaling",
        "VectorScaling",
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "no such method"},
        {"method": TemperatureScaling},
        {"method": LogisticRegression()},
        {"response": "predict"},
        {"ensemble": "auto"},
        {"estimator": RidgeClassifier(), "response": "predict_proba"},
        {"cv": []},
        {"cv": [(np.arange(200), [])]},
    ],
)
def test_parameters_without_meaning_are_refused(blobs, wrong):
    with pytest.raises(ParameterError):
        CalibratedClassifier(**{"estimator": GaussianNB(), **wrong}).fit(*blobs)


def test_the_result_has_the_type_of_the_classifiers_probabilities(blobs):
    """For float32 features these are float32 since scikit-learn 1.8."""
    X, y = blobs[0].astype(np.float32), blobs[1]
    calibrated = CalibratedClassifier(LogisticRegression(), method="temperature", cv=3).fit(X, y)
    expected = LogisticRegression().fit(X, y).predict_proba(X).dtype
    assert calibrated.predict_proba(X).dtype == expected
    assert calibrated.predict_proba(X.astype(np.float64)).dtype == np.float64


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits])
@pytest.mark.parametrize("ensemble", [True, False])
def test_an_overconfident_classifier_loses_most_of_its_log_loss(load, ensemble):
    """Naive Bayes counts dependent features as independent evidence."""
    X, X_test, y, y_test = train_test_split(*load(return_X_y=True), random_state=0)
    before = log_loss(y_test, GaussianNB().fit(X, y).predict_proba(X_test))
    calibrated = CalibratedClassifier(GaussianNB(), method="temperature", ensemble=ensemble).fit(X, y)
    assert log_loss(y_test, calibrated.predict_proba(X_test)) < before / 2

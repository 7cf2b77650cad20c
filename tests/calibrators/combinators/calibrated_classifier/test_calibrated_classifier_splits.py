"""Splits that repeat rows, leave rows out, keep groups together or lack a class."""

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax
from sklearn.datasets import make_classification
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import (
    GroupKFold,
    LeaveOneOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_predict,
    cross_validate,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.fixes import parse_version

from calibrant import CalibratedClassifier, Predictions, TemperatureScaling
from calibrant.calibrators.combinators.calibrated_classifier import HeldOut, pool
from calibrant.calibrators.combinators.calibrated_classifier.training_rows import IMPOSSIBLE
from calibrant.errors import CalibrationWarning, LabelError, MissingClassWarning


@pytest.fixture(scope="module")
def blobs():
    return make_classification(
        120,
        n_features=5,
        n_informative=4,
        n_redundant=0,
        n_classes=3,
        flip_y=0.2,
        class_sep=1.5,
        random_state=5,
    )


@pytest.fixture(scope="module")
def groups():
    return np.random.default_rng(1).integers(0, 8, 120)


def naive_pool(estimator, X, y, splits, method):
    """Row by row: collect every answer, then average."""
    answers = [[] for _ in y]
    for train, test in splits:
        fitted = sklearn.base.clone(estimator).fit(X[train], y[train])
        for row, answer in zip(test, getattr(fitted, method)(X[test]), strict=True):
            answers[row].append(answer)
    rows = [row for row, said in enumerate(answers) if said]
    return rows, np.array([np.mean(answers[row], axis=0) for row in rows])


@given(data=st.data(), logits=st.booleans())
def test_pooling_is_the_mean_of_all_answers_about_a_row(data, logits):
    n_rows = data.draw(st.integers(1, 8))
    tests = data.draw(
        st.lists(st.lists(st.integers(0, n_rows - 1), min_size=1, max_size=9), min_size=1, max_size=4)
    )
    rng = np.random.default_rng(len(tests))
    parse = Predictions.from_logits if logits else Predictions.from_probabilities
    sign = -1 if logits else 1  # which keeps logits from looking like probabilities
    parts = [
        HeldOut(
            None, "", np.array(test), parse(sign * rng.dirichlet([1.0] * 3, len(test))), np.array([], int)
        )
        for test in tests
    ]
    rows, predictions = pool(parts, n_rows)
    assert rows.tolist() == sorted({row for test in tests for row in test})
    for row, pooled in zip(rows, predictions.scores, strict=True):
        answers = [
            answer
            for part in parts
            for number, answer in zip(part.rows, part.predictions.scores, strict=True)
            if number == row
        ]
        assert_allclose(pooled, np.mean(answers, axis=0), rtol=1e-12)
    assert predictions.space == parts[0].predictions.space


@pytest.mark.parametrize(
    ("estimator", "method"), [(GaussianNB(), "predict_proba"), (RidgeClassifier(), "decision_function")]
)
def test_repeated_splits_are_averaged_per_row_before_pooling(blobs, estimator, method):
    X, y = blobs
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    calibrated = CalibratedClassifier(estimator, method="temperature", cv=cv, ensemble=False).fit(X, y)
    rows, means = naive_pool(estimator, X, y, cv.split(X, y), method)
    parse = Predictions.from_probabilities if method == "predict_proba" else Predictions.from_logits
    expected = TemperatureScaling().fit(parse(means), y[rows])
    assert rows == list(range(len(y)))
    assert calibrated.calibrator_.temperature_ == pytest.approx(expected.temperature_, rel=1e-9)


def test_repeated_splits_give_one_pair_each(blobs):
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    assert (
        len(CalibratedClassifier(GaussianNB(), method="temperature", cv=cv).fit(*blobs).calibrated_pairs_)
        == 6
    )


@pytest.mark.parametrize("cv", [TimeSeriesSplit(3, gap=2), ShuffleSplit(2, test_size=0.4, random_state=0)])
def test_rows_never_held_out_are_dropped_with_their_number(blobs, cv):
    X, y = blobs
    rows, means = naive_pool(GaussianNB(), X, y, cv.split(X, y), "predict_proba")
    with pytest.warns(CalibrationWarning, match=f"{120 - len(rows)} of 120 rows are never held out"):
        calibrated = CalibratedClassifier(GaussianNB(), method="temperature", cv=cv, ensemble=False).fit(X, y)
    expected = TemperatureScaling().fit(means, y[rows])
    assert 0 < len(rows) < 120
    assert calibrated.calibrator_.temperature_ == pytest.approx(expected.temperature_, rel=1e-9)
    assert_array_equal(calibrated.estimator_.theta_, GaussianNB().fit(X, y).theta_)


def test_an_ensemble_does_not_mind_gaps(blobs):
    calibrated = CalibratedClassifier(GaussianNB(), method="temperature", cv=TimeSeriesSplit(3)).fit(*blobs)
    assert len(calibrated.calibrated_pairs_) == 3


def test_splits_may_be_masks(blobs):
    X, y = blobs
    splits = list(StratifiedKFold(3).split(X, y))
    masks = [tuple(np.isin(np.arange(120), rows) for rows in split) for split in splits]
    by_number = CalibratedClassifier(GaussianNB(), method="temperature", cv=splits).fit(X, y)
    by_mask = CalibratedClassifier(GaussianNB(), method="temperature", cv=masks).fit(X, y)
    assert_array_equal(by_number.predict_proba(X), by_mask.predict_proba(X))


def test_leaving_one_out_works_when_pooled_and_not_as_an_ensemble(blobs):
    X, y = (array[:60] for array in blobs)
    pooled = CalibratedClassifier(GaussianNB(), method="temperature", cv=LeaveOneOut(), ensemble=False).fit(
        X, y
    )
    held_out = cross_val_predict(GaussianNB(), X, y, cv=LeaveOneOut(), method="predict_proba")
    assert pooled.calibrator_.temperature_ == TemperatureScaling().fit(held_out, y).temperature_
    with pytest.raises(LabelError, match="use ensemble=False"):
        CalibratedClassifier(GaussianNB(), method="temperature", cv=LeaveOneOut()).fit(X, y)


@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("routing", [True, False])
def test_groups_reach_the_splitter_with_and_without_metadata_routing(blobs, groups, ensemble, routing):
    X, y = blobs
    given_splits = list(GroupKFold(3).split(X, y, groups))
    expected = CalibratedClassifier(
        GaussianNB(), method="temperature", cv=given_splits, ensemble=ensemble
    ).fit(X, y)
    with sklearn.config_context(enable_metadata_routing=routing):
        calibrated = CalibratedClassifier(
            GaussianNB(), method="temperature", cv=GroupKFold(3), ensemble=ensemble
        )
        calibrated.fit(X, y, groups=groups)
    assert_array_equal(calibrated.predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize("ensemble", [True, False])
def test_routed_weights_reach_a_part_of_a_pipeline(blobs, ensemble):
    X, y = blobs
    weights = 1.0 + np.arange(len(y)) % 3
    naive_bayes = GaussianNB()
    expected = CalibratedClassifier(naive_bayes, method="temperature", ensemble=ensemble).fit(X, y, weights)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline("passthrough", GaussianNB().set_fit_request(sample_weight=True))
        calibrated = CalibratedClassifier(pipeline, method="temperature", ensemble=ensemble).fit(
            X, y, sample_weight=weights
        )
        probabilities = calibrated.predict_proba(X)
    assert_array_equal(probabilities, expected.predict_proba(X))


def test_routed_weights_that_nobody_asked_for_are_an_error(blobs):
    with sklearn.config_context(enable_metadata_routing=True):
        calibrated = CalibratedClassifier(GaussianNB(), method="temperature")
        with pytest.raises(UnsetMetadataPassedError):
            calibrated.fit(*blobs, sample_weight=np.ones(120))
        unweighted = CalibratedClassifier(
            GaussianNB().set_fit_request(sample_weight=False), method="temperature"
        )
        unweighted.fit(*blobs, sample_weight=np.ones(120))


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.8"),
    reason="before scikit-learn 1.8 a pipeline does not route weights to the score of its last step",
)
def test_an_outer_cross_validation_routes_groups_and_weights(blobs, groups):
    X, y = blobs
    weights = 1.0 + np.arange(len(y)) % 3
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = LogisticRegression().set_fit_request(sample_weight=True)
        inner = CalibratedClassifier(estimator, method="temperature", cv=GroupKFold(2)).set_fit_request(
            sample_weight=True
        )
        inner.set_score_request(sample_weight=True)
        result = cross_validate(
            make_pipeline(StandardScaler().set_fit_request(sample_weight=False), inner),
            X,
            y,
            cv=GroupKFold(3),
            params={"groups": groups, "sample_weight": weights},
            return_estimator=True,
        )
    train, _ = next(GroupKFold(3).split(X, y, groups))
    scaled = StandardScaler().fit_transform(X[train])
    by_hand = CalibratedClassifier(LogisticRegression(), method="temperature", cv=GroupKFold(2))
    by_hand.fit(scaled, y[train], weights[train], groups=groups[train])
    assert_allclose(
        result["estimator"][0][-1].predict_proba(scaled), by_hand.predict_proba(scaled), rtol=1e-12
    )


class Recorder(GaussianNB):
    """Naive Bayes that remembers what else its fit was given."""

    def fit(self, X, y, offsets=None, label=None):
        self.offsets_, self.label_ = offsets, label
        return super().fit(X, y)


def test_other_parameters_of_fit_reach_the_estimator_split_like_the_rows(blobs):
    X, y = blobs
    calibrated = CalibratedClassifier(Recorder(), method="temperature", cv=3).fit(
        X, y, offsets=np.arange(120), label="kept"
    )
    for (estimator, _), (train, _) in zip(
        calibrated.calibrated_pairs_, StratifiedKFold(3).split(X, y), strict=True
    ):
        assert_array_equal(estimator.offsets_, train)
        assert estimator.label_ == "kept"
    pooled = CalibratedClassifier(Recorder(), method="temperature", cv=3, ensemble=False).fit(
        X, y, offsets=np.arange(120)
    )
    assert_array_equal(pooled.estimator_.offsets_, np.arange(120))


def test_a_fold_without_calibration_rows_of_a_class_keeps_all_columns(blobs):
    X, y = blobs
    few = np.concatenate([np.flatnonzero(y != 2), np.flatnonzero(y == 2)[:2]])
    X, y = X[few], y[few]
    halves = np.arange(len(y)) % 2 == 0
    halves[-2:] = [True, True]
    cv = [(halves, ~halves)]
    with pytest.warns(MissingClassWarning, match="no calibration row has class 2"):
        calibrated = CalibratedClassifier(GaussianNB(), method="temperature", cv=cv).fit(X, y)
    assert calibrated.predict_proba(X).shape == (len(y), 3)


@pytest.mark.parametrize("logits", [False, True])
def test_an_estimator_trained_without_a_class_gives_it_nothing_and_is_calibrated_on_the_others(blobs, logits):
    """The first split trains without class "c", whose column is filled; the second is as usual."""
    X, y = blobs
    names = np.array(["a", "b", "c"])[y]
    rows = np.arange(120)
    ignorant = rows[(rows % 2 == 0) & (y != 2)]
    splits = [(ignorant, np.setdiff1d(rows, ignorant)), (rows[rows % 2 == 0], rows[rows % 2 == 1])]
    estimator = RidgeClassifier() if logits else GaussianNB()
    message = f"1 of 2 estimators were trained without rows of class 'c'.*; {np.sum(y == 2)} rows"
    with pytest.warns(MissingClassWarning, match=message), pytest.warns(MissingClassWarning, match="no cal"):
        calibrated = CalibratedClassifier(estimator, method="temperature", cv=splits).fit(X, names)

    def filled(fitted):
        if not logits:
            return np.column_stack([fitted.predict_proba(X), np.zeros(120)])
        margins = np.column_stack([np.zeros(120), fitted.decision_function(X)])
        absent = np.full(120, np.log(IMPOSSIBLE))
        return Predictions.from_logits(np.column_stack([log_softmax(margins, axis=1), absent]))

    predictions = Predictions.parse(filled(sklearn.base.clone(estimator).fit(X[ignorant], names[ignorant])))
    known = np.setdiff1d(rows[y != 2], ignorant)
    with pytest.warns(MissingClassWarning, match="no calibration row has class 2"):
        first = TemperatureScaling().fit(predictions.take(known), y[known])
    second = CalibratedClassifier(estimator, method="temperature", cv=splits[1:]).fit(X, names)
    expected = (first.predict_proba(predictions) + second.predict_proba(X)) / 2
    assert_allclose(calibrated.predict_proba(X), expected, rtol=1e-9)
    assert first.predict_proba(predictions)[:, 2].max() < 1e-3
    assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1)


def test_pooling_leaves_out_rows_of_a_class_their_estimator_did_not_know(blobs):
    """Unless another split held them out from an estimator that did."""
    X, y = blobs
    rows = np.arange(120)
    ignorant = (rows[(rows % 2 == 0) & (y != 2)], rows[rows % 2 == 1])
    knowing = (rows[rows % 2 == 1], rows[rows % 2 == 0])
    with pytest.warns(MissingClassWarning, match="trained without rows of class 2"):
        calibrated = CalibratedClassifier(
            GaussianNB(), method="temperature", cv=[ignorant, knowing], ensemble=False
        ).fit(X, y)
    odd = ignorant[1][y[ignorant[1]] != 2]
    narrow = GaussianNB().fit(X[ignorant[0]], y[ignorant[0]]).predict_proba(X[odd])
    wide = GaussianNB().fit(X[knowing[0]], y[knowing[0]]).predict_proba(X[knowing[1]])
    pooled = np.concatenate([np.column_stack([narrow, np.zeros(len(odd))]), wide])
    expected = TemperatureScaling().fit(pooled, np.concatenate([y[odd], y[knowing[1]]]))
    assert calibrated.calibrator_.temperature_ == pytest.approx(expected.temperature_, rel=1e-6)


def test_fewer_rows_of_a_class_than_folds_still_give_every_column(blobs):
    X, y = blobs
    few = np.concatenate([np.flatnonzero(y != 2), np.flatnonzero(y == 2)[:2]])
    with (
        pytest.warns(UserWarning, match="least populated class"),
        pytest.warns(MissingClassWarning, match="no calibration row has class 2"),
    ):
        calibrated = CalibratedClassifier(GaussianNB(), method="temperature", cv=5).fit(X[few], y[few])
    assert calibrated.predict_proba(X).shape == (120, 3)

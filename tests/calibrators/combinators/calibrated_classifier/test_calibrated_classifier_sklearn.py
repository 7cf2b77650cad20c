"""CalibratedClassifier as a citizen of scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone, is_classifier
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import get_tags
from threadpoolctl import threadpool_limits

from calibrant import CalibratedClassifier, TemperatureScaling
from calibrant.errors import ParameterError
from sklearn_checks import with_checks


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Hundreds of fits on a few dozen rows spend their time waiting for threads, if there are any."""
    with threadpool_limits(1):
        yield


# Some checks calibrate on a handful of rows that are all classified correctly: the best temperature is then
# zero, which the calibrator says. Others have fewer rows of a class than folds, which the splitter says.
@pytest.mark.filterwarnings("ignore:TemperatureScaling:calibrant.errors.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:no calibration row has class:calibrant.errors.MissingClassWarning")
@pytest.mark.filterwarnings(
    "ignore:. of . splits of cv hold out rows of fewer than two:calibrant.errors.CalibrationWarning"
)
@pytest.mark.filterwarnings("ignore:The least populated class in y has only:UserWarning")
@with_checks(
    [
        CalibratedClassifier(LogisticRegression(), method="temperature"),
        CalibratedClassifier(LogisticRegression(), method="temperature", ensemble=False),
        CalibratedClassifier(LogisticRegression(), method="temperature", cv=3),
        CalibratedClassifier(RidgeClassifier(), method="temperature", cv=3),
        CalibratedClassifier(LinearSVC(random_state=0), method="temperature", ensemble=False),
    ],
)
def test_the_conventions_of_scikit_learn_hold(estimator, check):
    check(estimator)


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


def test_parameters_can_be_read_set_and_cloned():
    calibrated = CalibratedClassifier(LogisticRegression(C=2), TemperatureScaling(loss="brier"), cv=3)
    assert calibrated.get_params()["estimator__C"] == 2
    assert calibrated.get_params()["method__loss"] == "brier"
    calibrated.set_params(estimator__C=5, method__loss="log", response="decision_function", n_jobs=1)
    copy = clone(calibrated)
    assert copy.estimator is not calibrated.estimator
    assert copy.estimator.C == 5
    assert copy.method.loss == "log"
    assert (copy.cv, copy.ensemble, copy.response, copy.n_jobs) == (3, True, "decision_function", 1)


def test_a_clone_keeps_a_frozen_estimator_trained(blobs):
    X, y = blobs
    calibrated = clone(
        CalibratedClassifier(FrozenEstimator(GaussianNB().fit(X[:75], y[:75])), method="temperature")
    )
    assert calibrated.fit(X[75:], y[75:]).predict_proba(X).shape == (150, 3)


@pytest.mark.parametrize("ensemble", [True, False])
def test_it_can_be_pickled(blobs, ensemble):
    X, y = blobs
    calibrated = CalibratedClassifier(GaussianNB(), method="temperature", ensemble=ensemble).fit(X, y)
    copy = pickle.loads(pickle.dumps(calibrated))
    assert_array_equal(copy.predict_proba(X), calibrated.predict_proba(X))


def test_asking_before_training_is_an_error(blobs):
    calibrated = CalibratedClassifier(GaussianNB(), method="temperature")
    for ask in (calibrated.predict, calibrated.predict_proba):
        with pytest.raises(NotFittedError):
            ask(blobs[0])
    for name in ("estimator_", "calibrator_", "n_features_in_", "feature_names_in_"):
        assert not hasattr(calibrated, name)
    with pytest.raises(NotFittedError):
        CalibratedClassifier(FrozenEstimator(GaussianNB()), method="temperature").fit(*blobs)


def test_a_pipeline_may_be_inside_or_outside(blobs):
    X, y = blobs
    inside = CalibratedClassifier(
        make_pipeline(StandardScaler(), LogisticRegression()), method="temperature", cv=3
    ).fit(X, y)
    outside = make_pipeline(
        StandardScaler(), CalibratedClassifier(LogisticRegression(), method="temperature", cv=3)
    ).fit(X, y)
    for fitted in (inside, outside):
        assert is_classifier(fitted)
        assert fitted.n_features_in_ == 5
        assert_allclose(fitted.predict_proba(X).sum(axis=1), 1)
    assert_allclose(inside.predict_proba(X), outside.predict_proba(X), atol=0.05)
    assert len(cross_val_score(inside, X, y, cv=3, scoring="neg_log_loss")) == 3


def test_a_search_chooses_between_methods(blobs):
    """By log-loss, on a classifier whose probabilities are cubed: doing nothing must lose."""
    X, y = blobs
    search = GridSearchCV(
        CalibratedClassifier(GaussianNB(), method="temperature", cv=3, ensemble=False),
        {"method": ["uncalibrated", "temperature", TemperatureScaling(loss="brier")]},
        scoring="neg_log_loss",
        cv=3,
    ).fit(np.repeat(X, 4, axis=1), y)
    scores = dict(zip(["none", "log", "brier"], search.cv_results_["mean_test_score"], strict=True))
    assert scores["none"] < scores["log"] - 0.1
    assert search.best_params_["method"] != "uncalibrated"


def test_sparse_rows_pass_through(blobs):
    X, y = blobs
    X = np.where(np.abs(X) < 0.5, 0, X)
    dense = CalibratedClassifier(LogisticRegression(), method="temperature", cv=3).fit(X, y)
    sparse = CalibratedClassifier(LogisticRegression(), method="temperature", cv=3).fit(csr_array(X), y)
    assert get_tags(sparse).input_tags.sparse
    assert not get_tags(CalibratedClassifier(GaussianNB(), method="temperature")).input_tags.sparse
    assert_allclose(sparse.predict_proba(csr_array(X)), dense.predict_proba(X), rtol=1e-6)


@pytest.mark.parametrize("ensemble", [True, False])
def test_frames_pass_through_with_their_names(blobs, ensemble):
    X, y = blobs
    frame = pd.DataFrame(X, columns=list("abcde"), index=np.arange(150)[::-1])
    labels = pd.Series(np.array(["x", "y", "z"])[y], index=frame.index)
    weights = pd.Series(1.0 + np.arange(150) % 2, index=frame.index)
    named = CalibratedClassifier(GaussianNB(), method="temperature", ensemble=ensemble).fit(
        frame, labels, weights
    )
    plain = CalibratedClassifier(GaussianNB(), method="temperature", ensemble=ensemble).fit(
        X, y, weights.to_numpy()
    )
    assert named.feature_names_in_.tolist() == list("abcde")
    assert not hasattr(plain, "feature_names_in_")
    assert_array_equal(named.predict_proba(frame), plain.predict_proba(X))


@pytest.mark.parametrize("dtype", ["category", "Int64", "string"])
def test_labels_may_be_a_pandas_column_of_its_own_types(blobs, dtype):
    X, y = blobs
    calibrated = CalibratedClassifier(GaussianNB(), method="temperature", cv=3).fit(
        X, pd.Series(y).astype(dtype)
    )
    plain = CalibratedClassifier(GaussianNB(), method="temperature", cv=3).fit(X, y)
    assert calibrated.classes_.astype(int).tolist() == [0, 1, 2]
    assert_array_equal(calibrated.predict_proba(X), plain.predict_proba(X))


def test_lists_pass_through(blobs):
    X, y = blobs
    listed = CalibratedClassifier(GaussianNB(), method="temperature", cv=3).fit(
        X.tolist(), y.tolist(), [1.0] * 150
    )
    plain = CalibratedClassifier(GaussianNB(), method="temperature", cv=3).fit(X, y)
    assert_allclose(listed.predict_proba(X.tolist()), plain.predict_proba(X), rtol=1e-9)


def test_a_column_of_labels_is_flattened_with_scikit_learns_warning(blobs):
    X, y = blobs
    with pytest.warns(DataConversionWarning):
        calibrated = CalibratedClassifier(GaussianNB(), method="temperature", cv=3).fit(X, y[:, np.newaxis])
    assert calibrated.classes_.tolist() == [0, 1, 2]


def test_missing_values_are_the_business_of_the_estimator(blobs):
    X, y = blobs
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    boosted = CalibratedClassifier(HistGradientBoostingClassifier(max_iter=5), method="temperature", cv=3)
    assert get_tags(boosted).input_tags.allow_nan
    assert boosted.fit(X, y).predict_proba(X).shape == (150, 3)


def test_a_kernel_computed_beforehand_is_split_by_rows_and_columns(blobs):
    X, y = blobs
    by_rows = CalibratedClassifier(SVC(gamma=0.2), method="temperature", ensemble=False).fit(X, y)
    kernel = rbf_kernel(X, gamma=0.2)
    by_pairs = CalibratedClassifier(SVC(kernel="precomputed"), method="temperature", ensemble=False)
    assert get_tags(by_pairs).input_tags.pairwise
    assert_allclose(by_pairs.fit(kernel, y).predict_proba(kernel), by_rows.predict_proba(X), rtol=1e-6)
    with pytest.raises(ParameterError, match="set ensemble=False"):
        by_pairs.set_params(ensemble=True).fit(kernel, y)


def test_input_is_left_as_it_was(blobs):
    X, y = (array.copy() for array in blobs)
    weights = np.ones(150)
    CalibratedClassifier(GaussianNB(), method="temperature", cv=3).fit(X, y, weights).predict_proba(X)
    assert_array_equal(X, blobs[0])
    assert_array_equal(y, blobs[1])
    assert (weights == 1).all()


def test_it_shows_itself_trained_or_not(blobs):
    calibrated = CalibratedClassifier(GaussianNB(), method="temperature")
    assert repr(CalibratedClassifier(GaussianNB())) == "CalibratedClassifier(estimator=GaussianNB())"
    assert "CalibratedClassifier" in calibrated.fit(*blobs)._repr_html_()

"""Classifiers, calibrator and active learning of the study of Wenger et al. (2020)."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.tree import DecisionTreeClassifier

from calibrant import Predictions, TemperatureScaling
from calibrant.studies.own_code import load_object
from data import DATA_FOLDER, load

STUDY = Path(__file__).parents[3] / "studies" / "wenger2020"
MondrianForest = load_object("mondrian_forest.py:MondrianForest", STUDY)
RealBoosting = load_object("real_boosting.py:RealBoosting", STUDY)
training_epochs = load_object("epochs.py:training_epochs", STUDY)
TemperatureAsGiven = load_object("temperature_as_given.py:TemperatureAsGiven", STUDY)


def digits():
    """Return training and test rows of images of digits."""
    X, y = load_digits(return_X_y=True)
    return X[:1200], y[:1200], X[1200:], y[1200:]


def test_a_network_is_measured_after_every_epoch_and_calibrated_after_some(tmp_path):
    """On random images of two rows of pixels, whose class is visible in one of them."""
    generator = np.random.default_rng(0)
    (tmp_path / "wenger").mkdir()
    parts = {}
    for name, n_rows in (("train", 300), ("test", 1500)):
        y = generator.integers(0, 10, n_rows)
        X = generator.integers(0, 256, (n_rows, 20))
        X[np.arange(n_rows), y] = 255
        parts |= {f"X_{name}": X.astype(np.uint8), f"y_{name}": y}
    np.savez(tmp_path / "wenger" / "mnist.npz", **parts)
    options = {"seed": 0, "data_folder": tmp_path, "rows": 200, "epochs": 4, "every": 2}
    plain = training_epochs(**options)
    calibrated = training_epochs(**options, calibrator="GPcalib")
    assert plain["series"]["epoch"] == [1, 2, 3, 4]
    assert calibrated["series"]["epoch"] == [2, 4]
    assert plain["log_loss"] == plain["series"]["log_loss"][-1]
    assert calibrated["log_loss"] < plain["log_loss"] + 0.05


def test_mondrian_boxes_hold_the_rows_that_reach_them():
    """Leaves are of one class, children have boxes inside those of their parents, and cuts go through the boxes."""
    X, y, _, _ = digits()
    tree = MondrianForest(1).fit(X, y).trees_[0]
    inner = np.flatnonzero(tree.left >= 0)
    for child in (tree.left, tree.right):
        assert (tree.lower[child[inner]] >= tree.lower[inner]).all()
        assert (tree.upper[child[inner]] <= tree.upper[inner]).all()
    leaves = np.flatnonzero(tree.left < 0)
    assert np.allclose(tree.shares[leaves].max(axis=1), 1)
    assert np.isinf(tree.life[leaves]).all()
    assert np.isfinite(tree.life[inner]).all()
    feature = tree.feature[inner]
    assert (tree.lower[inner, feature] <= tree.threshold[inner]).all()
    assert (tree.threshold[inner] < tree.upper[inner, feature]).all()


def test_mondrian_forest_learns_and_is_sure_of_its_own_rows():
    """Rows of the training set never branch off; rows far from all of them get the shares of the classes."""
    X, y, X_test, y_test = digits()
    forest = MondrianForest(10).fit(X, y)
    assert np.array_equal(forest.predict_proba(X).argmax(axis=1), y)
    assert np.allclose(forest.predict_proba(X).max(axis=1), 1)
    predicted = forest.predict_proba(X_test)
    assert np.allclose(predicted.sum(axis=1), 1)
    assert (predicted.argmax(axis=1) == y_test).mean() > 0.85
    far = forest.predict_proba(np.full((1, X.shape[1]), 1e9))
    assert np.allclose(far, np.bincount(y) / len(y), atol=1e-6)


def test_mondrian_forest_with_classes_that_have_no_rows():
    """Their probability is zero."""
    X, y = load_iris(return_X_y=True)
    predicted = MondrianForest(3, classes=range(5)).fit(X, y).predict_proba(X)
    assert predicted.shape == (150, 5)
    assert (predicted[:, 3:] == 0).all()


def test_mondrian_forest_with_equal_rows_of_different_classes():
    """There is nothing to cut."""
    forest = MondrianForest(2).fit(np.ones((4, 2)), [0, 1, 1, 1])
    assert np.allclose(forest.predict_proba(np.ones((1, 2))), [[0.25, 0.75]])


def test_first_tree_of_boosting_is_a_tree_of_one_cut():
    """And so are its probabilities, but for those that are zero."""
    X, y = load_iris(return_X_y=True)
    tree = DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, y)
    expected = np.maximum(tree.predict_proba(X), np.finfo(float).eps)
    expected /= expected.sum(axis=1, keepdims=True)
    assert np.allclose(RealBoosting(1).fit(X, y).predict_proba(X), expected)


def test_more_trees_of_boosting_are_better():
    """Than one cut, which hardly tells odd digits from even ones."""
    X, y, X_test, y_test = digits()
    one, many = (
        (RealBoosting(number).fit(X, y % 2).predict(X_test) == y_test % 2).mean() for number in (1, 60)
    )
    assert one < 0.82
    assert many > 0.88


def test_temperature_as_given_of_logits_is_temperature_scaling():
    """And of probabilities takes these for logits."""
    generator = np.random.default_rng(0)
    logits = 3 * generator.normal(size=(500, 4))
    y = (logits / 3 + generator.gumbel(size=logits.shape)).argmax(axis=1)
    given = Predictions.from_logits(logits)
    usual = TemperatureScaling().fit(given, y)
    assert np.allclose(
        TemperatureAsGiven().fit(given, y).predict_proba(given), usual.predict_proba(given), atol=1e-12
    )
    p = given.probabilities
    of_p = TemperatureAsGiven().fit(p, y)
    taken = Predictions.from_logits(p, allow_probabilities=True)
    assert np.allclose(
        of_p.predict_proba(p),
        TemperatureScaling().fit(taken, y).predict_proba(taken),
    )
    assert not np.allclose(of_p.predict_proba(p), usual.predict_proba(given), atol=0.01)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::calibrant.errors.MissingClassWarning")
def test_active_learning_starts_alike_and_goes_on_differently():
    """Labels for calibration are counted, too."""
    load("wenger/kitti_features")
    run = load_object("mondrian_forest.py:active_learning", STUDY)
    options = {"seed": 0, "data_folder": DATA_FOLDER, "rows": 4000, "trees": 5, "measured_every": 2}
    plain, calibrated = (run(calibrator=name, **options) for name in ("none", "GPcalib"))
    for outcome in (plain, calibrated):
        series = outcome["series"]
        assert series["queries"][0] == 500
        assert series["queries"] == sorted(series["queries"])
        assert 0 <= outcome["queries"] - series["queries"][-1] < 250
        assert outcome["queries"] < 4000
        assert outcome["error"] < 0.2
    assert plain["series"]["ece"][0] == calibrated["series"]["ece"][0]
    assert plain["series"]["ece"][-1] != calibrated["series"]["ece"][-1]
    assert plain["queries"] != calibrated["queries"]

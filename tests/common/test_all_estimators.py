"""Every calibrator is a well-behaved estimator: parameters, clones, files, pickles and scores."""

import copy
import pickle

import numpy as np
import pytest
from methods import NAMES, fitted, make, n_classes_of, problem, settled
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError

import calibrant
from calibrant import Predictions, registry
from calibrant.errors import MissingClassWarning
from calibrant.registry import COMPOSITIONS

every_method = pytest.mark.parametrize("name", NAMES)


@every_method
def test_a_clone_has_the_parameters_and_not_the_fit(name):
    original = fitted(name, n_classes_of(name))
    copied = clone(original)
    assert repr(copied) == repr(original)
    assert copied.get_params().keys() == original.get_params().keys()
    with pytest.raises(NotFittedError):
        copied.predict_proba(problem(n_classes_of(name)).probabilities)


@every_method
def test_a_clone_fits_to_the_same_numbers(name):
    X, y = problem(n_classes_of(name))
    original = fitted(name, n_classes_of(name))
    np.testing.assert_array_equal(clone(original).fit(X, y).predict_proba(X), original.predict_proba(X))


@every_method
def test_fitting_changes_no_parameter(name):
    calibrator = settled(name)
    before = copy.deepcopy(calibrator.get_params(deep=False))
    assert calibrator.fit(*problem(n_classes_of(name))) is calibrator
    after = calibrator.get_params(deep=False)
    assert before.keys() == after.keys()
    assert all(repr(before[key]) == repr(after[key]) for key in before)


@every_method
def test_the_constructor_stores_its_arguments_and_nothing_else(name):
    calibrator = make(name)
    assert vars(calibrator).keys() == calibrator.get_params(deep=False).keys()


@pytest.mark.parametrize("name", registry.calibrators())
def test_registry_presets_are_parameters(name):
    made = registry.make(name)
    if name in COMPOSITIONS:
        assert repr(made) == repr(registry.make(COMPOSITIONS[name]))
        return
    preset = type(made).registry_names[name]
    assert {key: repr(value) for key, value in preset.items()}.items() <= {
        key: repr(value) for key, value in made.get_params().items()
    }.items()


@every_method
def test_fitted_state_ends_in_an_underscore(name):
    calibrator = fitted(name, n_classes_of(name))
    learnt = vars(calibrator).keys() - calibrator.get_params(deep=False).keys()
    assert all(attribute.endswith("_") and not attribute.startswith("_") for attribute in learnt)


@every_method
def test_classes_hold_all_labels(name):
    n_classes = n_classes_of(name)
    np.testing.assert_array_equal(fitted(name, n_classes).classes_, np.arange(n_classes))


@every_method
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_saved_file_gives_the_same_numbers_to_the_bit(name, dtype, tmp_path):
    X, y = problem(n_classes_of(name))
    X = X.astype(dtype)
    words = np.array(["ant", "bee", "cat"])
    calibrator = settled(name).fit(X, words[y])
    calibrator.save(tmp_path / "calibrator.npz")
    loaded = calibrant.load(tmp_path / "calibrator.npz")
    assert type(loaded) is type(calibrator)
    assert repr(loaded) == repr(calibrator)
    np.testing.assert_array_equal(loaded.classes_, calibrator.classes_)
    calibrated = loaded.predict_proba(X)
    assert calibrated.dtype == dtype
    np.testing.assert_array_equal(calibrated, calibrator.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), calibrator.predict(X))


@every_method
def test_a_saved_file_keeps_the_space_and_the_floor(name, tmp_path):
    X, y = (array.copy() for array in problem(n_classes_of(name)))
    X[:5] = np.eye(X.shape[1])[0]
    zeros = Predictions.from_probabilities(X, floor=1e-6)
    calibrator = settled(name).fit(zeros, y)
    calibrator.save(tmp_path / "calibrator.npz")
    loaded = calibrant.load(tmp_path / "calibrator.npz")
    assert loaded.space_ == "probabilities"
    assert loaded.floor_ == 1e-6
    np.testing.assert_array_equal(loaded.predict_proba(X), calibrator.predict_proba(X))


@pytest.mark.parametrize("name", [name for name in NAMES if n_classes_of(name) > 2])
def test_a_saved_file_remembers_absent_classes(name, tmp_path):
    X, y = problem(4)
    with pytest.warns(MissingClassWarning):
        calibrator = settled(name).fit(X, np.where(y == 2, 0, y))
    calibrator.save(tmp_path / "calibrator.npz")
    loaded = calibrant.load(tmp_path / "calibrator.npz")
    np.testing.assert_array_equal(loaded.predict_proba(X), calibrator.predict_proba(X))


@every_method
def test_a_saved_file_can_be_fitted_again(name, tmp_path):
    X, y = problem(n_classes_of(name))
    fitted(name, n_classes_of(name)).save(tmp_path / "calibrator.npz")
    loaded = calibrant.load(tmp_path / "calibrator.npz")
    np.testing.assert_array_equal(
        clone(loaded).fit(X, y).predict_proba(X), fitted(name, n_classes_of(name)).predict_proba(X)
    )


@every_method
def test_a_pickle_gives_the_same_numbers_to_the_bit(name):
    """Joblib and process pools send estimators as pickles."""
    X, _ = problem(n_classes_of(name))
    calibrator = fitted(name, n_classes_of(name))
    restored = pickle.loads(pickle.dumps(calibrator))
    np.testing.assert_array_equal(restored.predict_proba(X), calibrator.predict_proba(X))


@every_method
def test_it_is_a_classifier_with_an_accuracy(name):
    X, y = problem(n_classes_of(name))
    calibrator = fitted(name, n_classes_of(name))
    assert is_classifier(calibrator)
    assert calibrator.score(X, y) == (calibrator.predict(X) == y).mean()

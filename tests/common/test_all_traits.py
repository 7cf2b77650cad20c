"""Each claim that a calibrator makes about itself, tried on data that would expose a false one."""

import numpy as np
import pytest
from methods import (
    NAMES,
    assert_on_simplex,
    fitted,
    make,
    n_classes_of,
    names_with,
    own_loss,
    problem,
    settled,
    traits,
)

from calibrant import Identity, Predictions
from calibrant.errors import PredictionError


@pytest.mark.parametrize("name", names_with(lambda traits: traits.keeps_argmax))
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_the_arg_max_is_kept(name, n_classes):
    """The class that was largest still has the row's largest probability, up to one rounding.

    Among the rows are ties for the first place, near-ties, and zeros and ones.
    """
    if traits(name).binary_only:
        n_classes = 2
    X = problem(n_classes, n_rows=500, seed=2).probabilities
    uniform = np.full((1, n_classes), 1 / n_classes)
    tied = np.zeros((1, n_classes))
    tied[0, :2] = 0.5
    near = np.array(tied)
    near[0, :2] += [1e-9, -1e-9]
    X = np.vstack([X, uniform, tied, near, np.eye(n_classes)])
    calibrated = fitted(name, n_classes).predict_proba(X)
    kept = calibrated[np.arange(len(X)), X.argmax(axis=1)]
    assert (kept >= calibrated.max(axis=1) * (1 - 4 * np.finfo(np.float64).eps)).all()


@pytest.mark.parametrize("name", names_with(lambda traits: traits.keeps_argmax))
def test_predicted_labels_stay_the_same_where_the_maximum_is_clear(name):
    X, _ = problem(n_classes_of(name))
    np.testing.assert_array_equal(fitted(name, n_classes_of(name)).predict(X), X.argmax(axis=1))


@pytest.mark.parametrize(
    "name", [*names_with(lambda traits: traits.keeps_argmax), "temperature+iop-diagonal"]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_arg_max_is_kept_where_two_classes_differ_in_the_last_digit(name, dtype):
    """Products and exponentials round; the class that was ahead must stay ahead, by number and by probability."""
    generator = np.random.default_rng(5)
    X = generator.dirichlet(np.ones(3), 300).astype(dtype)
    ahead = generator.integers(0, 3, 300)
    behind = (ahead + generator.integers(1, 3, 300)) % 3
    rows = np.arange(300)
    X[rows, ahead] = X.max(axis=1)
    X[rows, behind] = np.nextafter(X[rows, ahead], dtype(0))
    with np.errstate(divide="ignore"):
        logits = Predictions.from_logits(np.log(X))
    # Two probabilities next to each other may have the same logarithm, and the first of equals is ahead.
    calibrator = fitted(name, 3)
    np.testing.assert_array_equal(calibrator.predict(logits), logits.predicted)
    np.testing.assert_array_equal(calibrator.predict_proba(logits).argmax(axis=1), logits.predicted)


@pytest.mark.parametrize("name", names_with(lambda traits: traits.contains_identity))
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_the_own_loss_is_never_above_that_of_the_identity(name, n_classes):
    if traits(name).binary_only:
        n_classes = 2
    X, y = problem(n_classes)
    identity = own_loss(Identity().fit(X, y), X, y)
    assert own_loss(fitted(name, n_classes), X, y) <= identity + 1e-9


# Where the identity is the optimum, a method may well end there and say so.
@pytest.mark.filterwarnings("ignore:.*identity:calibrant.errors.CalibrationWarning")
@pytest.mark.parametrize("name", names_with(lambda traits: traits.contains_identity))
def test_a_calibrated_classifier_is_not_made_worse(name):
    """Every row comes with all its labels in the predicted proportions: the identity is the optimum.

    Rows hold multiples of 1/8 and occur eight times, so that the frequencies are the predictions exactly.
    """
    n_classes = n_classes_of(name)
    counts = np.array([row for row in np.ndindex(*[9] * n_classes) if sum(row) == 8 and min(row) > 0])
    X = np.repeat(counts / 8, 8, axis=0)
    y = np.concatenate([np.repeat(np.arange(n_classes), row) for row in counts])
    calibrator = make(name).fit(X, y)
    assert own_loss(calibrator, X, y) <= own_loss(Identity().fit(X, y), X, y) + 1e-9


@pytest.mark.parametrize("name", names_with(lambda traits: traits.contains_identity))
@pytest.mark.parametrize("space", ["zeros and ones", "logits"])
def test_the_own_loss_is_never_above_that_of_the_identity_in_the_corners(name, space):
    n_classes = n_classes_of(name)
    X, y = (array.copy() for array in problem(n_classes))
    if space == "logits":
        given = Predictions.from_logits(8 * np.log(X) + np.linspace(-3, 3, len(X))[:, np.newaxis])
    else:
        sharp = X.max(axis=1) > 0.6
        X[sharp] = np.eye(n_classes)[X[sharp].argmax(axis=1)]
        given = Predictions.from_probabilities(X)
    identity = own_loss(Identity().fit(given, y), given, y)
    assert own_loss(settled(name).fit(given, y), given, y) <= identity * (1 + 1e-9)


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrationWarning")
@pytest.mark.parametrize(
    "name", names_with(lambda traits: traits.contains_identity and not traits.binary_only)
)
@pytest.mark.parametrize("seed", [21, 23, 27, 54, 65])
def test_one_hot_rows_and_absent_classes_make_no_loss_above_that_of_the_identity(name, seed):
    """Zeros count as the floor in both, and rows sum to one after that."""
    generator = np.random.default_rng(seed)
    n_classes, n_rows = int(generator.integers(3, 6)), int(generator.integers(10, 40))
    X = np.eye(n_classes)[generator.integers(0, n_classes, n_rows)]
    soft = generator.random(n_rows) < generator.choice([0, 0.3, 0.7])
    X[soft] = generator.dirichlet(np.ones(n_classes), n_rows)[soft]
    y = generator.integers(0, n_classes - 1, n_rows)
    y[:2] = [0, 1]

    def loss(calibrator):
        p = calibrator.fit(X, y).transform(X).without_zeros().probabilities
        if calibrator.get_params().get("loss", "log") == "brier":
            return ((p - np.eye(n_classes)[y]) ** 2).sum(axis=1).mean()
        return -np.log(p[np.arange(n_rows), y]).mean()

    identity = Identity()
    if settled(name).get_params().get("loss", "log") == "brier":
        p = identity.fit(X, y).transform(X).probabilities
        expected = ((p - np.eye(n_classes)[y]) ** 2).sum(axis=1).mean()
    else:
        expected = loss(identity)
    assert loss(settled(name)) <= expected + 1e-6


@pytest.mark.parametrize("name", [name for name in NAMES if name != "uncalibrated"])
def test_a_distorted_classifier_is_repaired(name):
    """Log-loss on fresh rows of the same source falls: the fit has learnt, not only obeyed."""
    n_classes = n_classes_of(name)
    fresh = problem(n_classes, n_rows=2000, seed=9)
    calibrated = fitted(name, n_classes).predict_proba(fresh.probabilities)
    assert_on_simplex(calibrated, fresh.probabilities.shape)
    rows = np.arange(len(fresh.labels))
    before = -np.log(fresh.probabilities[rows, fresh.labels]).mean()
    after = -np.log(np.maximum(calibrated[rows, fresh.labels], 1e-6)).mean()
    assert after < before


@pytest.mark.parametrize("name", NAMES)
def test_binary_methods_and_no_others_refuse_three_classes(name):
    X, y = problem(3)
    if traits(name).binary_only:
        with pytest.raises(PredictionError, match=r"takes two classes.*have 3.*OneVsRest"):
            make(name).fit(X, y)
    else:
        assert make(name).fit(X, y).predict_proba(X).shape == (len(y), 3)


@pytest.mark.parametrize("name", NAMES)
def test_every_method_declares_its_traits(name):
    """All fields are plain booleans; a property computed from parts counts as well."""
    assert all(type(value) is bool for value in vars(traits(name)).values())

"""Every calibrator at the ends of the float types: probabilities that sum to one, and no warning of numpy."""

import numpy as np
import pytest
from methods import NAMES, assert_on_simplex, make, n_classes_of, settled

from calibrant import Predictions

N_ROWS = 40
FIFTHS = np.arange(N_ROWS) % 5 == 0

every_method = pytest.mark.parametrize("name", NAMES)
# Warnings of this package say what happened; any other is an error.
only_our_warnings = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrationWarning")


def rows(n_classes):
    generator = np.random.default_rng(3)
    logits = 3 * generator.normal(size=(N_ROWS, n_classes))
    labels = (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    labels[:n_classes] = range(n_classes)
    return logits, labels


def probabilities(logits):
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def with_a_few(logits, size):
    logits = logits.copy()
    logits[1, 0], logits[5, 1], logits[7] = size, -size, size
    return logits


def masked(logits, value):
    logits = logits.copy()
    logits[::3, 0] = value
    return logits


HUGE = float(np.finfo(np.float32).max)
LARGEST = float(np.finfo(np.float64).max)
LOGITS = {
    "all 1e6 in float32": lambda logits: (1e6 * logits).astype(np.float32),
    "all 1e20 in float32": lambda logits: (1e20 * logits).astype(np.float32),
    "all 1e37 in float32": lambda logits: (1e37 * logits).astype(np.float32),
    "all 1e-40 in float32": lambda logits: (1e-40 * logits).astype(np.float32),
    "a few 1e38 in float32": lambda logits: with_a_few(logits, 1e38).astype(np.float32),
    "masked in float32": lambda logits: masked(logits, -HUGE).astype(np.float32),
    "largest in float32": lambda logits: masked(logits, HUGE).astype(np.float32),
    "all 1e9": lambda logits: 1e9 * logits,
    "all 1e300": lambda logits: 1e300 * logits,
    "a few 1e300": lambda logits: with_a_few(logits, 1e300),
    "masked": lambda logits: masked(logits, -LARGEST),
    "largest": lambda logits: masked(logits, LARGEST),
}
WEIGHTS = {
    "some 1e16": np.where(FIFTHS, 1e16, 1.0),
    "some 1e-16": np.where(FIFTHS, 1e-16, 1.0),
    "one 1e30": np.where(np.arange(N_ROWS) == 3, 1e30, 1.0),
    "all 1e300": np.full(N_ROWS, 1e300),
    "all 1e-320": np.full(N_ROWS, 1e-320),
    "1e300 and 1e-300": np.where(FIFTHS, 1e300, 1e-300),
    "over forty decades": 10.0 ** np.random.default_rng(0).uniform(-20, 20, N_ROWS),
}


@every_method
@only_our_warnings
@pytest.mark.parametrize("kind", LOGITS)
def test_logits_of_any_size(name, kind):
    logits, labels = rows(n_classes_of(name))
    given = Predictions.from_logits(LOGITS[kind](logits))
    calibrated = settled(name).fit(given, labels).predict_proba(given)
    assert_on_simplex(calibrated, logits.shape)
    assert calibrated.dtype == given.scores.dtype


@every_method
@only_our_warnings
@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights_of_any_size(name, kind):
    logits, labels = rows(n_classes_of(name))
    p = probabilities(logits)
    assert_on_simplex(settled(name).fit(p, labels, WEIGHTS[kind]).predict_proba(p), p.shape)


@every_method
@only_our_warnings
def test_half_precision(name):
    """Rows of float16 need not sum to one; calibrated ones do, up to the rounding of each entry to float16."""
    logits, labels = rows(n_classes_of(name))
    p = probabilities(logits).astype(np.float16)
    assert np.abs(p.astype(np.float64).sum(axis=1) - 1).max() > 1e-4
    calibrated = settled(name).fit(p, labels).predict_proba(p)
    assert calibrated.dtype == np.float16
    assert np.isfinite(calibrated).all()
    assert calibrated.min() >= 0
    rounding = np.finfo(np.float16).eps / 2 * calibrated.astype(np.float64).sum(axis=1)
    assert (np.abs(calibrated.astype(np.float64).sum(axis=1) - 1) <= rounding + 1e-6).all()


@pytest.mark.slow
@every_method
@only_our_warnings
def test_choices_by_folds(name):
    """As the registry makes it, with parameters chosen by folds."""
    logits, labels = rows(n_classes_of(name))
    for make_extreme in LOGITS.values():
        given = Predictions.from_logits(make_extreme(logits))
        assert_on_simplex(make(name).fit(given, labels).predict_proba(given), logits.shape)
    p = probabilities(logits)
    for weights in WEIGHTS.values():
        assert_on_simplex(make(name).fit(p, labels, weights).predict_proba(p), p.shape)


def test_bounded_logits_have_the_same_softmax_and_arg_max():
    given = np.array(
        [[1e300, 9e299, 1.0], [-1e300, -LARGEST, 5.0], [-1e200, -2e200, -1e200], [LARGEST, 0, 0]]
    )
    bounded = Predictions.from_logits(given)
    np.testing.assert_array_equal(bounded.predicted, given.argmax(axis=1))
    np.testing.assert_array_equal(bounded.probabilities, [[1, 0, 0], [0, 0, 1], [0.5, 0, 0.5], [1, 0, 0]])
    assert np.abs(bounded.scores).max() <= 1e12


def test_rows_within_the_bound_stay_as_given():
    given = np.array([[1e300, 0.0], [3.0, 1.0]])
    np.testing.assert_array_equal(Predictions.from_logits(given).scores[1], given[1])

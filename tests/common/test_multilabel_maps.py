"""Every method as the map of each of several labels: the common properties, where they have a meaning for labels."""

import pickle
from functools import cache

import numpy as np
import pytest
from methods import GRAIN, NAMES, made, own_loss, settled
from sklearn.base import clone

from calibrant import Identity, MultilabelCalibration
from calibrant.errors import LabelError, MissingClassWarning, PredictionError

SHARED = "shared"

# One of each family in the fast tests, all methods in the slow ones.
FAST = {
    *(
        "uncalibrated",
        "temperature",
        "vector",
        "platt",
        "beta",
        "quadratic",
        "piecewise-linear",
        "shared-map",
    ),
    *(
        "isotonic",
        "venn-abers",
        "spline",
        "frequency-binning",
        "scaling-binning",
        "kernel-rbf",
        "temperature+vector",
    ),
}
METHODS = [
    SHARED,
    *(name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in NAMES),
]
every_method = pytest.mark.parametrize("name", METHODS)

# Warnings of this package say what happened; any other is an error.
only_our_warnings = pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrationWarning")

N_ROWS, N_LABELS = 48, 3


def unfitted(name):
    """Return labels with fixed parameters: folds depend on the number of rows."""
    if name == SHARED:
        return MultilabelCalibration(SHARED, strength=1.0)
    return MultilabelCalibration(settled(name))


@cache
def rows():
    """Return probabilities, (n, L), outcomes and weights: ties, zeros and ones, missing outcomes, rows of weight zero."""
    generator = np.random.default_rng(4)
    z = generator.normal(-0.5, 2, (N_ROWS, N_LABELS))
    y = (generator.random(z.shape) < 1 / (1 + np.exp(-0.5 * z))).astype(float)
    p = np.round(1 / (1 + np.exp(-z)) / GRAIN) * GRAIN
    p[:, 1] = np.round(8 * p[:, 1]) / 8
    y[:4] = [[0.0] * N_LABELS, [1.0] * N_LABELS] * 2
    y[generator.random(z.shape) < 0.1] = np.nan
    weights = np.where(np.arange(N_ROWS) % 6 == 5, 0.0, 1.0 + np.arange(N_ROWS) % 2)
    for array in (p, y, weights):
        array.flags.writeable = False
    return p, y, weights


@cache
def fitted(name):
    """Return the fitted calibrator of all labels; shared by tests, not to be changed."""
    return unfitted(name).fit(*rows())


@only_our_warnings
@every_method
def test_separate_maps_equal_a_loop_of_binary_fits_bit_for_bit(name):
    if name == SHARED:
        pytest.skip("one map for all labels")
    p, y, weights = rows()
    found = fitted(name).predict_proba(p)
    for label in range(N_LABELS):
        known = ~np.isnan(y[:, label])
        alone = settled(name).fit(p[known, label], y[known, label].astype(int), weights[known])
        np.testing.assert_array_equal(found[:, label], alone.predict_proba(p[:, label])[:, 1])


@only_our_warnings
@every_method
def test_probabilities_are_probabilities_and_equal_scores_stay_equal(name):
    p, _, _ = rows()
    found = fitted(name).predict_proba(p)
    assert found.shape == p.shape
    assert ((found >= 0) & (found <= 1)).all()
    for label in range(N_LABELS):
        _, first, group = np.unique(p[:, label], return_index=True, return_inverse=True)
        np.testing.assert_array_equal(found[:, label], found[first[group], label])
    assert ((p == 0) | (p == 1)).any()


@only_our_warnings
@every_method
def test_one_row_and_float32(name):
    """Scores are multiples of 2^-20, which both types hold; maps of 48 rows are steep."""
    p, _, _ = rows()
    found = fitted(name).predict_proba(p)
    np.testing.assert_allclose(fitted(name).predict_proba(p[7:8]), found[7:8], rtol=0, atol=1e-12)
    in_single = fitted(name).predict_proba(p.astype(np.float32))
    assert in_single.dtype == np.float32
    np.testing.assert_allclose(in_single, found, rtol=0, atol=2e-4)


@only_our_warnings
@every_method
def test_rows_of_weight_zero_and_outcomes_that_are_missing_do_not_count(name):
    p, y, weights = rows()
    counts = weights > 0
    other = p.copy()
    other[~counts] = 0.5
    found = unfitted(name).fit(other, np.where(counts[:, None], y, 1.0), weights).predict_proba(p)
    np.testing.assert_array_equal(found, fitted(name).predict_proba(p))


@only_our_warnings
@every_method
def test_files_and_pickles_give_the_same_probabilities(name, tmp_path):
    p, _, _ = rows()
    expected = fitted(name).predict_proba(p)
    fitted(name).save(tmp_path / "labels.npz")
    loaded = MultilabelCalibration.load(tmp_path / "labels.npz")
    np.testing.assert_array_equal(loaded.predict_proba(p), expected)
    again = pickle.loads(pickle.dumps(fitted(name)))
    np.testing.assert_array_equal(again.predict_proba(p), expected)
    assert not hasattr(clone(fitted(name)), "calibrators_")


@only_our_warnings
@pytest.mark.parametrize(
    "name",
    [
        one
        for one in METHODS
        if one == SHARED or made(getattr(one, "values", (one,))[0]).traits.contains_identity
    ],
)
def test_the_own_loss_is_never_above_that_of_the_identity(name):
    """For separate maps of each label, for the shared map of all labels together.

    Exact zeros, which some methods replace and the identity keeps, are left to the tests of single maps.
    """
    p, y, _ = rows()
    p = np.clip(p, 1 / 64, 63 / 64)
    labels = unfitted(name).fit(p, y)
    before, after, known = [], [], []
    for label, calibrator in enumerate(labels.calibrators_):
        chosen = ~np.isnan(y[:, label])
        outcomes = y[chosen, label].astype(int)
        identity = Identity().fit(p[chosen, label], outcomes)
        before.append(own_loss(identity, p[chosen, label], outcomes))
        after.append(own_loss(calibrator, p[chosen, label], outcomes))
        known.append(chosen.sum())
    if name == SHARED:
        before, after = [np.average(before, weights=known)], [np.average(after, weights=known)]
    assert (np.array(after) <= np.array(before) * (1 + 1e-9)).all()


@every_method
@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrationWarning")
def test_a_label_that_never_occurs(name):
    """Separate maps keep its probabilities, with a warning; the shared map lowers them."""
    p, y, _ = rows()
    y = y.copy()
    y[:, 2] = 0.0
    if name == SHARED:
        found = unfitted(name).fit(p, y).predict_proba(p)
        assert found[:, 2].mean() < p[:, 2].mean()
        return
    with pytest.warns(MissingClassWarning, match="label 2 has a single outcome"):
        found = unfitted(name).fit(p, y).predict_proba(p)
    np.testing.assert_array_equal(found[:, 2], p[:, 2])


@every_method
def test_scores_that_are_missing_are_named(name):
    p, y, _ = rows()
    wrong = p.copy()
    wrong[3, 1] = np.nan
    with pytest.raises(PredictionError, match="row 3 of label 1 has nan"):
        unfitted(name).fit(wrong, y)
    with pytest.raises(LabelError, match="row 0 of label 2 has 2"):
        unfitted(name).fit(p, np.where(np.arange(N_LABELS) == 2, 2.0, 0.0) + 0 * p)

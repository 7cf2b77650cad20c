"""What must not matter to a fit: how rows are counted, in which order they come, what was fitted before."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from methods import (
    NAMES,
    REFITTED,
    fitted,
    is_random,
    make,
    n_classes_of,
    names_with,
    problem,
    settled,
)

from calibrant.errors import MissingClassWarning
from strategies import class_orders

every_method = pytest.mark.parametrize("name", NAMES)
# Random methods hold this to 1e-3 only, and are slow: ``benchmarks/explore.py`` tries them.
every_method_without_chance = pytest.mark.parametrize("name", [name for name in NAMES if not is_random(name)])
# With parameters fixed, and as the registry makes it: a choice by folds has to respect the same invariances.
both_ways = pytest.mark.parametrize("build", [settled, make], ids=["settled", "chosen"])


@every_method_without_chance
@both_ways
def test_a_weight_of_two_equals_a_repeated_row(name, build):
    X, y = problem(n_classes_of(name))
    twice = np.arange(len(X)) % 3 == 0
    weighted = build(name).fit(X, y, np.where(twice, 2.0, 1.0))
    repeated = build(name).fit(np.vstack([X, X[twice]]), np.concatenate([y, y[twice]]))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=0, atol=REFITTED)


# As REFITTED, for ten to eighty rows: each has a larger part of the mean loss.
REFITTED_TO_FEW = 1e-4


@st.composite
def few_rows(draw, n_classes):
    """Ten to eighty rows, some of them rounded so that scores are equal, and which of them count twice."""
    n_rows = draw(st.integers(10, 80))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    logits = 2 * generator.normal(size=(n_rows, n_classes))
    if draw(st.booleans()):
        logits = np.round(logits)
    labels = (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    labels[:n_classes] = range(n_classes)
    exponentials = np.exp(logits)
    twice = generator.random(n_rows) < draw(st.sampled_from([0.1, 0.3, 0.6]))
    return exponentials / exponentials.sum(axis=1, keepdims=True), labels, twice


def one_hot_rows(seed, share):
    """Forty rows of four classes, a share of them one-hot."""
    generator = np.random.default_rng(seed)
    logits = 2 * generator.normal(size=(40, 4))
    labels = (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    labels[:4] = range(4)
    exponentials = np.exp(logits)
    X = exponentials / exponentials.sum(axis=1, keepdims=True)
    certain = generator.random(40) < share
    X[certain] = np.eye(4)[X[certain].argmax(axis=1)]
    return X, labels


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrationWarning")
@every_method_without_chance
@both_ways
@settings(max_examples=5)
@given(data=st.data())
def test_a_weight_of_two_equals_a_repeated_row_among_few(name, build, data):
    X, y, twice = data.draw(few_rows(n_classes_of(name)))
    weighted = build(name).fit(X, y, np.where(twice, 2.0, 1.0))
    repeated = build(name).fit(np.vstack([X, X[twice]]), np.concatenate([y, y[twice]]))
    np.testing.assert_allclose(
        weighted.predict_proba(X), repeated.predict_proba(X), rtol=0, atol=REFITTED_TO_FEW
    )


@every_method
def test_a_weight_of_zero_equals_an_absent_row(name):
    """Rows without weight are dropped before anything is computed: equal to the bit."""
    X, y = problem(n_classes_of(name))
    kept = np.arange(len(X)) % 4 > 0
    weighted = make(name).fit(X, y, kept.astype(float))
    absent = make(name).fit(X[kept], y[kept], np.ones(kept.sum()))
    np.testing.assert_array_equal(weighted.predict_proba(X), absent.predict_proba(X))


@every_method_without_chance
@both_ways
def test_weights_of_one_equal_no_weights(name, build):
    X, y = problem(n_classes_of(name))
    weighted = build(name).fit(X, y, np.ones(len(y)))
    expected = fitted(name, n_classes_of(name), build).predict_proba(X)
    np.testing.assert_allclose(weighted.predict_proba(X), expected, rtol=0, atol=REFITTED)


@every_method_without_chance
def test_weights_that_sum_to_one_equal_no_weights(name):
    """They say which rows matter more, all alike here; they do not say that there is one row."""
    X, y = problem(n_classes_of(name))
    weighted = settled(name).fit(X, y, np.full(len(y), 1 / len(y)))
    expected = fitted(name, n_classes_of(name)).predict_proba(X)
    np.testing.assert_allclose(weighted.predict_proba(X), expected, rtol=0, atol=REFITTED)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "uncalibrated"])
def test_weights_do_matter(name):
    """Rows that contradict their predictions count twice: no method may overlook that."""
    X, y = problem(n_classes_of(name))
    wrong = X.argmax(axis=1) != y
    weighted = settled(name).fit(X, y, np.where(wrong, 2.0, 1.0)).predict_proba(X)
    plain = fitted(name, n_classes_of(name)).predict_proba(X)
    assert np.abs(weighted - plain).max() > 0.02


@every_method_without_chance
@both_ways
def test_the_order_of_rows_does_not_matter(name, build):
    X, y = problem(n_classes_of(name))
    order = np.random.default_rng(5).permutation(len(X))
    shuffled = build(name).fit(X[order], y[order])
    expected = fitted(name, n_classes_of(name), build).predict_proba(X)
    np.testing.assert_allclose(shuffled.predict_proba(X), expected, rtol=0, atol=REFITTED)
    np.testing.assert_allclose(shuffled.predict_proba(X[order]), expected[order], rtol=0, atol=REFITTED)


def that_commute(least_classes=2):
    """Methods for which the order of the classes does not matter; the slow ones among the random are marked."""
    names = [
        name
        for name in names_with(lambda traits: traits.commutes_with_permutations)
        if n_classes_of(name) >= least_classes
    ]
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=pytest.mark.slow)
            if is_random(name) and name not in ("decision", "pts")
            else name
            for name in names
        ],
    )


@that_commute()
@both_ways
@settings(max_examples=4)
@given(data=st.data())
def test_the_order_of_classes_does_not_matter(name, build, data):
    """Claimed by ``commutes_with_permutations``: column j of the permuted problem is class order[j]."""
    n_classes = n_classes_of(name)
    X, y = problem(n_classes)
    order = data.draw(class_orders(n_classes))
    permuted = build(name).fit(X[:, order], np.argsort(order)[y])
    expected = fitted(name, n_classes, build).predict_proba(X)[:, order]
    np.testing.assert_allclose(permuted.predict_proba(X[:, order]), expected, rtol=0, atol=REFITTED)


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrationWarning")
@that_commute(least_classes=3)
@settings(max_examples=3)
@given(seed=st.integers(0, 2**32 - 1), order=class_orders(4), share=st.sampled_from([0.3, 1.0]))
def test_the_order_of_classes_does_not_matter_with_one_hot_rows(name, seed, order, share):
    """One-hot rows tie on all that does not depend on the order of the classes, and folds must part them all the same."""
    X, y = one_hot_rows(seed, share)
    expected = make(name).fit(X, y).predict_proba(X)[:, order]
    permuted = make(name).fit(X[:, order], np.argsort(order)[y]).predict_proba(X[:, order])
    np.testing.assert_allclose(permuted, expected, rtol=0, atol=REFITTED_TO_FEW)


@every_method
def test_same_seed_same_numbers(name):
    """Two fits of the method with all its choices agree to the bit, as does predicting twice."""
    X, y = problem(n_classes_of(name), n_rows=200)
    first, second = (make(name).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    np.testing.assert_array_equal(first.predict_proba(X), first.predict_proba(X))


@every_method
def test_a_fit_does_not_touch_the_global_random_state(name):
    X, y = problem(n_classes_of(name))
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - the legacy state is what is being watched
    settled(name).fit(X, y)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@every_method
def test_refitting_forgets_the_first_fit(name):
    """After a fit to other classes, with one absent where the method allows, nothing of it is left."""
    n_classes = n_classes_of(name)
    X, y = problem(n_classes)
    other = problem(2 if n_classes == 2 else 4, n_rows=150, seed=3)
    first_labels = other.labels if n_classes == 2 else np.where(other.labels == 1, 0, other.labels)
    calibrator = settled(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingClassWarning)
        calibrator.fit(other.probabilities, first_labels)
    calibrator.fit(X, y)
    fresh = fitted(name, n_classes)
    assert vars(calibrator).keys() == vars(fresh).keys()
    np.testing.assert_array_equal(calibrator.classes_, fresh.classes_)
    np.testing.assert_array_equal(calibrator.predict_proba(X), fresh.predict_proba(X))

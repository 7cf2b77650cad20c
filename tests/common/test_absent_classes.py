"""Every calibrator with classes that no calibration row has."""

import warnings

import numpy as np
import pytest
from methods import NAMES, REFITTED, assert_on_simplex, names_with, problem, settled, traits

from calibrant import Predictions
from calibrant.errors import MissingClassWarning
from calibrant.metrics import log_loss

every_method = pytest.mark.parametrize("name", [name for name in NAMES if not traits(name).binary_only])
WITH_CLASS_TERMS = names_with(lambda traits: not traits.shares_parameters and not traits.binary_only)
every_method_with_class_terms = pytest.mark.parametrize("name", WITH_CLASS_TERMS)
# A pool is a mixture, in which components that all classes share cover the absent ones as well.
every_method_with_classes_apart = pytest.mark.parametrize(
    "name", [name for name in WITH_CLASS_TERMS if settled(name)._is_restricted_to_present_classes]
)
ABSENT = 2


def rows_without(absent, n_classes=4):
    X, y = problem(n_classes)
    kept = y != absent
    return X[kept], y[kept]


def fit_without_warning(name, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingClassWarning)
        return settled(name).fit(X, y)


@every_method
def test_all_classes_stay_and_a_warning_lists_the_absent(name):
    X, y = rows_without(ABSENT)
    with pytest.warns(MissingClassWarning, match="no calibration row has class 2;") as record:
        calibrator = settled(name).fit(X, y)
    assert len(record) == 1
    assert record[0].filename == __file__
    np.testing.assert_array_equal(calibrator.classes_, np.arange(4))
    assert_on_simplex(calibrator.predict_proba(X), X.shape)


@every_method
def test_the_warning_names_labels_not_columns(name):
    X, y = rows_without(ABSENT)
    words = np.array(["ant", "bee", "cat", "dog"])
    with pytest.warns(MissingClassWarning, match="no calibration row has class 'cat';"):
        calibrator = settled(name).fit(Predictions.from_probabilities(X, classes=words), words[y])
    np.testing.assert_array_equal(calibrator.classes_, words)


@every_method
def test_a_class_whose_rows_have_no_weight_is_absent(name):
    X, y = problem(4)
    with pytest.warns(MissingClassWarning, match="no calibration row has class 2;"):
        weighted = settled(name).fit(X, y, (y != ABSENT).astype(float))
    expected = fit_without_warning(name, *rows_without(ABSENT)).predict_proba(X)
    np.testing.assert_allclose(weighted.predict_proba(X), expected, rtol=0, atol=REFITTED)


@every_method
def test_several_absent_classes(name):
    """Of ten classes four are left; the six others are listed in order."""
    X, y = problem(10)
    kept = np.isin(y, [1, 4, 5, 9])
    with pytest.warns(MissingClassWarning, match="class 0, 2, 3, 6, 7, 8;"):
        calibrator = settled(name).fit(X[kept], y[kept])
    assert_on_simplex(calibrator.predict_proba(X), X.shape)


@every_method_with_classes_apart
@pytest.mark.parametrize("space", ["probabilities", "logits"])
def test_an_absent_class_keeps_its_share_exactly(name, space):
    X, y = rows_without(ABSENT)
    given = (
        Predictions.from_probabilities(X) if space == "probabilities" else Predictions.from_logits(np.log(X))
    )
    calibrator = fit_without_warning(name, given, y)
    calibrated = calibrator.predict_proba(given)
    np.testing.assert_array_equal(calibrated[:, ABSENT], given.probabilities[:, ABSENT])
    assert_on_simplex(calibrated, X.shape)


@every_method_with_classes_apart
def test_the_other_classes_are_calibrated_as_if_alone(name):
    """The map is learnt and applied given that the class is one of those seen."""
    X, y = rows_without(ABSENT)
    seen = np.delete(np.arange(4), ABSENT)
    shares = X[:, seen].sum(axis=1, keepdims=True)
    alone = settled(name).fit(X[:, seen] / shares, np.searchsorted(seen, y))
    expected = shares * alone.predict_proba(X[:, seen] / shares)
    calibrated = fit_without_warning(name, X, y).predict_proba(X)
    np.testing.assert_allclose(calibrated[:, seen], expected, rtol=0, atol=REFITTED)


@every_method
def test_rows_that_give_everything_to_an_absent_class(name):
    """What is left for the others is nothing, which must not become 0/0. The automatic choice limits absent classes."""
    X, y = rows_without(ABSENT)
    certain = np.eye(4)[[ABSENT, 0]]
    calibrator = fit_without_warning(name, np.vstack([X, certain]), np.append(y, [0, 1]))
    assert_on_simplex(calibrator.predict_proba(certain), certain.shape)
    assert calibrator.predict_proba(certain)[0, ABSENT] > (0.1 if name == "auto" else 0.5)


@every_method_with_classes_apart
def test_no_class_gets_a_zero_where_zeros_occur(name):
    """An absent class to which the classifier gives nothing may turn up; so may the others where it gets everything."""
    X, y = (array.copy() for array in rows_without(ABSENT))
    X[::3, ABSENT] = 0
    X /= X.sum(axis=1, keepdims=True)
    X[1] = np.eye(4)[ABSENT]
    calibrator = fit_without_warning(name, X, y)
    X[2] = [1e-300, 0, 1, 0]
    assert (calibrator.predict_proba(X) > 0).all()


@every_method_with_class_terms
def test_classes_without_rows_and_without_scores_cost_their_stated_share(name):
    """Scores of 4 classes, and 12 columns of zeros: all of these together have at most 1 / (n + 2) of every row."""
    X, y = problem(4)
    wide = np.hstack([X, np.zeros((len(y), 12))])
    alone = settled(name).fit(X, y).predict_proba(X)
    calibrated = fit_without_warning(name, wide, y).predict_proba(wide)
    share = 1.01 / (len(y) + 2)
    assert (calibrated[:, 4:].sum(axis=1) <= share).all()
    rows = np.arange(len(y))
    of_truth, of_truth_alone = calibrated[rows, y], alone[rows, y]
    assert np.mean(-np.log(of_truth)) <= np.mean(-np.log(of_truth_alone)) - np.log(1 - share) + 1e-9


@every_method_with_classes_apart
def test_the_seen_classes_divide_what_absent_ones_leave(name):
    """The seen classes have the probabilities of a fit without the zero columns, times what is left."""
    X, y = problem(4)
    wide = np.hstack([X, np.zeros((len(y), 12))])
    alone = settled(name).fit(X, y).predict_proba(X)
    calibrated = fit_without_warning(name, wide, y).predict_proba(wide)
    share = 1 / (len(y) + 2)
    np.testing.assert_allclose(calibrated[:, 4:], share / 12, rtol=0.01)
    np.testing.assert_allclose(calibrated[:, :4], alone * (1 - share), rtol=0, atol=REFITTED)


@every_method_with_classes_apart
def test_the_seen_classes_keep_the_floor_where_the_classifier_gives_them_zero(name):
    """Rows of 1 for an absent class: with floor f, the three others have 3 f / (1 + 3 f), not 1 / (n + 2) each."""
    X, y = (array.copy() for array in rows_without(ABSENT))
    X = np.maximum(np.round(10 * X), 0) + np.eye(4)[X.argmax(axis=1)]
    X /= X.sum(axis=1, keepdims=True)
    X[::7] = np.eye(4)[ABSENT]
    calibrator = fit_without_warning(name, X, y)
    certain, without = np.eye(4)[[ABSENT]], np.array([[0.5, 0.5, 0.0, 0.0]])
    floor, unseen = calibrator.floor_, 1 / (len(y) + 2)
    assert floor > 5 * unseen
    seen = 1 - calibrator.predict_proba(certain)[0, ABSENT]
    assert seen == pytest.approx(3 * floor / (1 + 3 * floor), rel=1e-9)
    # A seen class at zero counts as the floor, the absent one as Laplace's estimate.
    expected = unseen / (1 + floor + unseen)
    assert calibrator.predict_proba(without)[0, ABSENT] == pytest.approx(expected, rel=1e-9)


def test_shared_components_of_a_pool_cover_absent_classes():
    """Twice over-confident scores of 40 classes, and 60 rows, so that many classes have none.

    A temperature is close to the truth for all classes. Conditional on the classes that occur, the absent ones would stay
    over-confident; the pool makes up more than half of that difference.
    """
    generator = np.random.default_rng(0)
    true = 2.5 * generator.normal(size=(4060, 40)) + np.log(generator.dirichlet(np.full(40, 0.7)) + 1e-4)
    y = (true + generator.gumbel(size=true.shape)).argmax(axis=1)
    cal, test = (Predictions.from_logits(2 * true[rows]) for rows in (slice(0, 60), slice(60, None)))
    assert len(np.unique(y[:60])) < 32
    loss = {
        name: log_loss(y[60:], fit_without_warning(name, cal, y[:60]).predict_proba(test))
        for name in ("uncalibrated", "temperature", "shared-vector", "auto")
    }
    assert loss["temperature"] < loss["shared-vector"] - 0.05 < loss["uncalibrated"]
    assert loss["auto"] < (loss["temperature"] + loss["shared-vector"]) / 2

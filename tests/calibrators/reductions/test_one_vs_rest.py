"""One map for each class against the rest: closed forms, any base, doing nothing, absent classes and logits."""

import warnings

import numpy as np
import pytest
from reduction_rows import WORSE_TOGETHER, some_rows
from scipy.special import expit, logit
from sklearn.base import clone

from calibrant import (
    Calibrator,
    Chain,
    DirichletCalibration,
    Identity,
    OneVsRest,
    Predictions,
    TemperatureScaling,
    Traits,
    VectorScaling,
)
from calibrant.calibrators.reductions.event_scores import EventScores
from calibrant.errors import CalibrationWarning, MissingClassWarning, ParameterError, PredictionError
from data import load as load_data


class HistogramOfTwo(Calibrator):
    """A user's own method for two classes: the frequency of the event on each side of one half."""

    traits = Traits(binary_only=True)

    def _fit(self, data):
        high = EventScores(data.predictions).probability > 0.5
        weights = np.ones(data.n_rows) if data.weights is None else data.weights
        self.frequencies_ = np.array(
            [(weights * data.labels)[side].sum() / max(weights[side].sum(), 1) for side in (~high, high)]
        )

    def _transform(self, predictions):
        event = self.frequencies_[(EventScores(predictions).probability > 0.5).astype(int)]
        pair = np.column_stack([1 - event, event]).astype(predictions.scores.dtype)
        return Predictions(pair, predictions.space.PROBABILITIES, predictions.classes)


def one_against_others_by_hand(base, X, y, weights=None):
    """Fit the base to each column by itself, in a plain loop; return what each gives its class."""
    columns = []
    for column in range(X.shape[1]):
        others = sum(X[:, other] for other in range(X.shape[1]) if other != column)
        pair = np.column_stack([others, X[:, column]])
        fitted = clone(base).fit(pair, (y == column).astype(int), weights)
        columns.append(fitted.predict_proba(pair)[:, 1])
    return np.column_stack(columns)


BASES = {
    "identity": Identity(),
    "temperature": TemperatureScaling(),
    "temperature by Brier": TemperatureScaling(loss="brier"),
    "vector": VectorScaling(),
    "beta as Dirichlet": DirichletCalibration(penalty=None),
    "chain": Chain([TemperatureScaling(), VectorScaling()]),
    "plug-in for two classes": HistogramOfTwo(),
}
every_base = pytest.mark.parametrize("base", BASES.values(), ids=BASES.keys())


# What is fitted


@every_base
@pytest.mark.parametrize("n_classes", [3, 5])
def test_each_class_is_fitted_as_by_hand(base, n_classes):
    X, y = some_rows(n_classes)
    expected = one_against_others_by_hand(base, X, y)
    fitted = OneVsRest(base).fit(X, y)
    assert not fitted.identity_kept_
    np.testing.assert_allclose(fitted.class_probabilities(X), expected, rtol=0, atol=1e-8)
    together = expected / expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_proba(X), together, rtol=0, atol=1e-8)


def test_a_plug_in_for_two_classes_in_closed_form():
    """Of each class four of five rows above one half have it, and one of ten below."""
    X = np.repeat(0.6 * np.eye(3) + 0.4 / 3, 5, axis=0)
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 0])
    fitted = OneVsRest(HistogramOfTwo()).fit(X, y)
    np.testing.assert_allclose(fitted.class_probabilities(X[[0, 5, 10]]), 0.7 * np.eye(3) + 0.1, rtol=1e-12)
    np.testing.assert_allclose(fitted.predict_proba(X[[0]]), [[0.8, 0.1, 0.1]], rtol=1e-12)
    with pytest.raises(PredictionError, match="wrap it in OneVsRest"):
        HistogramOfTwo().fit(X, y)


@pytest.mark.parametrize("how", ["divide", "shift", "project"])
def test_the_normalisation_is_the_one_asked_for(how):
    X, y = some_rows(4)
    fitted = OneVsRest(TemperatureScaling(), normalisation=how).fit(X, y)
    separate = fitted.class_probabilities(X)
    together = fitted.predict_proba(X)
    if how == "divide":
        np.testing.assert_allclose(together, separate / separate.sum(axis=1, keepdims=True), rtol=1e-14)
    elif how == "shift":
        moved = logit(separate) - logit(together)
        np.testing.assert_allclose(moved, np.tile(moved[:, :1], (1, 4)), rtol=0, atol=1e-8)
    else:
        taken = np.where(together > 0, separate - together, np.inf)
        np.testing.assert_allclose(
            taken[together > 0], np.repeat(taken.min(1), (together > 0).sum(1)), atol=1e-14
        )
    np.testing.assert_allclose(together.sum(axis=1), 1.0, rtol=1e-14)


@every_base
def test_two_classes_are_one_fit_of_the_base(base):
    X, y = some_rows(2)
    fitted = OneVsRest(base).fit(X, y)
    alone = clone(base).fit(X, y)
    assert len(fitted.calibrators_) == 1
    np.testing.assert_array_equal(fitted.predict_proba(X), alone.predict_proba(X))
    np.testing.assert_array_equal(fitted.class_probabilities(X), alone.predict_proba(X))


@pytest.mark.parametrize("base", [TemperatureScaling(), VectorScaling()], ids=["temperature", "vector"])
def test_weights_count_rows(base):
    X, y = some_rows(3)
    weights = np.arange(len(y)) % 3  # zeros, ones and twos
    rows = np.repeat(np.arange(len(y)), weights)
    weighted = OneVsRest(base).fit(X, y, weights)
    repeated = OneVsRest(base).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=0, atol=1e-8)


def test_a_row_of_zeros_keeps_the_classifiers_probabilities():
    """The map of the first class is zero below one half, as are the two others: nothing is left of the row."""
    X = np.array([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]] * 2)
    fitted = OneVsRest(HistogramOfTwo()).fit(X, [0, 1, 2] * 2)
    undecided = np.array([[0.4, 0.35, 0.25]])
    np.testing.assert_array_equal(fitted.class_probabilities(undecided), np.zeros((1, 3)))
    np.testing.assert_allclose(fitted.predict_proba(undecided), undecided, rtol=1e-15)


def test_float32_rows_that_are_certain_are_told_apart():
    """One minus the class would be zero for both rows; the sum of the others is 2e-10 and 2e-20."""
    X, y = some_rows(3)
    fitted = OneVsRest(TemperatureScaling()).fit(X.astype(np.float32), y)
    sure = np.array([[1, 1e-10, 1e-10], [1, 1e-20, 1e-20]], np.float32)
    separate = fitted.calibrators_[0].predict_proba([[2e-10, 1.0], [2e-20, 1.0]])
    calibrated = fitted.predict_proba(sure)
    assert calibrated[0, 1] > 10 * calibrated[1, 1] > 0
    np.testing.assert_allclose(fitted.class_probabilities(sure)[:, 0], separate[:, 1], rtol=1e-6)


# Doing nothing where that is better


def log_loss(probabilities, labels):
    return -np.log(probabilities[np.arange(len(labels)), labels]).mean()


def test_the_identity_is_kept_where_the_maps_are_worse_together():
    """Each temperature lowers the log-loss of its class against the rest; made to sum to one they raise it."""
    X, y = WORSE_TOGETHER
    with pytest.warns(
        CalibrationWarning, match="TemperatureScaling, one-vs-rest: the identity is at least as good"
    ):
        fitted = OneVsRest(TemperatureScaling()).fit(X, y)
    separate = fitted.class_probabilities(X)
    for column in range(3):
        event, before, after = y == column, X[:, column], separate[:, column]
        assert (
            np.log(np.where(event, after, 1 - after)).sum()
            >= np.log(np.where(event, before, 1 - before)).sum()
        )
    assert log_loss(separate / separate.sum(axis=1, keepdims=True), y) > log_loss(X, y)
    assert fitted.identity_kept_
    np.testing.assert_array_equal(fitted.predict_proba(X), X)


def test_a_base_that_promises_nothing_is_not_held_back():
    X, y = WORSE_TOGETHER
    fitted = OneVsRest(HistogramOfTwo()).fit(X, y)
    assert not fitted.identity_kept_
    assert not OneVsRest(HistogramOfTwo()).traits.contains_identity


def test_the_guard_counts_weights():
    """A weight of two hundred on one row makes the identity of the rows above the worse choice."""
    X, y = WORSE_TOGETHER
    fitted = OneVsRest(TemperatureScaling()).fit(X, y, [200, 1, 1])
    assert not fitted.identity_kept_


# Absent classes


def test_absent_classes_keep_their_share_and_the_others_are_calibrated_given_them():
    X, y = some_rows(5)
    kept = ~np.isin(y, [1, 3])
    with pytest.warns(MissingClassWarning, match="class 1, 3;"):
        fitted = OneVsRest(TemperatureScaling()).fit(X[kept], y[kept])
    present = [0, 2, 4]
    share = X[:, present].sum(axis=1, keepdims=True)
    alone = OneVsRest(TemperatureScaling()).fit(
        (X[:, present] / share)[kept], np.searchsorted(present, y[kept])
    )
    calibrated = fitted.predict_proba(X)
    np.testing.assert_array_equal(calibrated[:, [1, 3]], X[:, [1, 3]])
    expected = share * alone.predict_proba(X[:, present] / share)
    np.testing.assert_allclose(calibrated[:, present], expected, rtol=0, atol=1e-8)
    separate = fitted.class_probabilities(X)
    np.testing.assert_array_equal(separate[:, [1, 3]], X[:, [1, 3]])
    np.testing.assert_allclose(
        separate[:, present], alone.class_probabilities(X[:, present] / share), rtol=0, atol=1e-8
    )


def test_two_classes_left_of_four_are_one_fit():
    X, y = some_rows(4)
    kept = y < 2
    with pytest.warns(MissingClassWarning):
        fitted = OneVsRest(TemperatureScaling()).fit(X[kept], y[kept])
    assert len(fitted.calibrators_) == 1
    separate = fitted.class_probabilities(X)
    np.testing.assert_allclose(separate[:, :2].sum(axis=1), 1.0)
    np.testing.assert_array_equal(separate[:, 2:], X[:, 2:])


def test_a_base_with_shared_parameters_is_restricted_too():
    """Temperature scaling alone would be fitted on all columns; one map per class cannot be."""
    X, y = some_rows(4)
    with pytest.warns(MissingClassWarning, match="class 0; it keeps the share"):
        fitted = OneVsRest(TemperatureScaling()).fit(X[y > 0], y[y > 0])
    assert len(fitted.calibrators_) == 3


# Logits


def test_logits_and_probabilities_give_the_same_map():
    X, y = some_rows(4)
    logits = Predictions.from_logits(np.log(X) + np.linspace(-3, 3, len(X))[:, np.newaxis])
    from_logits = OneVsRest(TemperatureScaling()).fit(logits, y)
    from_probabilities = OneVsRest(TemperatureScaling()).fit(X, y)
    np.testing.assert_allclose(
        from_logits.predict_proba(logits), from_probabilities.predict_proba(X), atol=1e-8
    )
    np.testing.assert_allclose(
        from_logits.predict_proba(X), from_probabilities.predict_proba(logits), atol=1e-8
    )


def test_a_base_on_raw_logits_sees_the_log_sum_of_the_others():
    """For two columns (r, z), vector scaling is sigma(w2 z - w1 r + b); checked with its own parameters."""
    X, y = some_rows(3)
    logits = np.log(X) + np.linspace(-1, 1, len(X))[:, np.newaxis]
    given = Predictions.from_logits(logits)
    fitted = OneVsRest(VectorScaling()).fit(given, y)
    assert fitted.traits.uses_raw_logits == VectorScaling().traits.uses_raw_logits
    first = fitted.calibrators_[0]
    rest = np.logaddexp(logits[:, 1], logits[:, 2])
    pair = Predictions.from_logits(np.column_stack([rest, logits[:, 0]]))
    np.testing.assert_allclose(
        fitted.class_probabilities(given)[:, 0], first.predict_proba(pair)[:, 1], rtol=1e-10
    )


def test_logits_of_ten_thousand():
    X, y = some_rows(3)
    fitted = OneVsRest(TemperatureScaling()).fit(Predictions.from_logits(np.log(X)), y)
    extreme = Predictions.from_logits(np.vstack([1e4 * np.eye(3), -1e4 * np.eye(3), np.full((1, 3), 1e4)]))
    calibrated = fitted.predict_proba(extreme)
    assert np.isfinite(calibrated).all()
    np.testing.assert_allclose(calibrated[:3], np.eye(3), rtol=0, atol=1e-12)
    one_third = np.array(
        [expit(calibrator.inverse_temperature_ * logit(1 / 3)) for calibrator in fitted.calibrators_]
    )
    np.testing.assert_allclose(calibrated[6], one_third / one_third.sum(), rtol=1e-10)


# As an estimator


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("normalisation", ["softmax", None, 1])
def test_an_unknown_normalisation_is_refused(normalisation, n_classes):
    X, y = some_rows(n_classes)
    with pytest.raises(ParameterError, match="normalisation must be 'divide', 'shift' or 'project'"):
        OneVsRest(TemperatureScaling(), normalisation).fit(X, y)


def test_traits_follow_from_the_base():
    assert OneVsRest(TemperatureScaling()).traits == Traits(contains_identity=True)
    assert not OneVsRest(TemperatureScaling()).traits.keeps_argmax
    lopsided = HistogramOfTwo()
    lopsided.traits = Traits(binary_only=True, commutes_with_permutations=False)
    assert not OneVsRest(lopsided).traits.commutes_with_permutations
    assert not OneVsRest(lopsided).traits.binary_only


# Many classes, real rows


def test_a_thousand_classes():
    """Every class occurs; rows sum to one, and log-loss falls."""
    n_classes = 1000
    generator = np.random.default_rng(0)
    labels = generator.permutation(n_classes)
    logits = generator.normal(size=(len(labels), n_classes)).astype(np.float32)
    logits[np.arange(len(labels)), labels] += 3
    sharp = Predictions.from_logits(2 * logits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        fitted = OneVsRest(TemperatureScaling()).fit(sharp, labels)
    calibrated = fitted.predict_proba(sharp)
    np.testing.assert_allclose(calibrated.sum(axis=1, dtype=np.float64), 1, rtol=0, atol=1e-5)
    assert log_loss(calibrated, labels) < log_loss(sharp.probabilities, labels)


def test_a_published_network_gets_a_lower_log_loss():
    rows = load_data("kull_nn/c10_resnet110")
    fitted = OneVsRest(TemperatureScaling()).fit(Predictions.from_logits(rows["val_logits"]), rows["val_y"])
    test = Predictions.from_logits(rows["test_logits"])
    calibrated = fitted.predict_proba(test)
    assert log_loss(calibrated, rows["test_y"]) < 0.8 * log_loss(test.probabilities, rows["test_y"])

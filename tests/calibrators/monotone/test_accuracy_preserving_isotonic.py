"""Accuracy-preserving isotonic calibration: closed forms, all pairs pooled, and the arg-max of every row."""

from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from calibrant import AccuracyPreservingIsotonic, Predictions
from calibrant.calibrators.monotone import monotone_curve
from calibrant.calibrators.monotone.monotone_curve import PooledScores
from calibrant.errors import CalibrationWarning, MissingClassWarning, ParameterError
from calibrant.numerics.isotonic import isotonic_fit
from data import load
from strategies import logit_matrices, probability_matrices, problems

both_ties = pytest.mark.parametrize("ties", ["strict", "centered"])
pytestmark = pytest.mark.filterwarnings("ignore:AccuracyPreservingIsotonic. the identity")


def some_problem(n_rows=400, n_classes=4, seed=0):
    """Over-confident probabilities: labels follow their square roots."""
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.full(n_classes, 0.4), n_rows)
    shares = np.sqrt(probabilities)
    shares /= shares.sum(axis=1, keepdims=True)
    labels = (generator.random((n_rows, 1)) > shares.cumsum(axis=1)).sum(axis=1).clip(max=n_classes - 1)
    return probabilities, labels


def all_pairs(probabilities, labels, weights=None):
    """The nK pairs written out."""
    outcomes = np.zeros(probabilities.shape, dtype=bool)
    outcomes[np.arange(len(labels)), labels] = True
    repeated = None if weights is None else np.repeat(weights.astype(float), probabilities.shape[1])
    return probabilities.ravel(), outcomes.ravel(), repeated


# The fit


def test_two_rows_by_hand():
    """Pairs 0.1 (no), 0.3 (yes), 0.7 (no), 0.9 (yes): blocks of 0, 1/2 and 1.

    One more pair at either end makes 1/2 of 0 and of 1, and everything is one block.
    """
    fitted = AccuracyPreservingIsotonic().fit([[0.1, 0.9], [0.3, 0.7]], [1, 0])
    assert fitted.scores_.tolist() == [0, 0.1, 0.9, 1]
    assert fitted.values_ == pytest.approx(np.full(4, 0.5), abs=2e-9)
    raw = AccuracyPreservingIsotonic(smoothing=0).fit([[0.1, 0.9], [0.3, 0.7]], [1, 0])
    assert raw.scores_.tolist() == [0, 0.1, 0.3, 0.7, 0.9, 1]
    assert raw.values_ == pytest.approx([0, 0, 0.5, 0.5, 1, 1], abs=1e-9)


@settings(max_examples=25)
@given(problem=problems(), weighted=st.booleans())
def test_the_pooled_map_is_the_isotonic_fit_to_all_pairs_written_out(problem, weighted):
    weights = np.arange(1, len(problem.labels) + 1) / 3 if weighted else None
    plain = isotonic_fit(*all_pairs(*problem, weights))
    fitted = AccuracyPreservingIsotonic(smoothing=0).fit(*problem, weights)
    grid = np.concatenate([np.unique(problem.probabilities), np.linspace(0, 1, 33)])
    rows = np.zeros((len(grid), problem.probabilities.shape[1]))
    rows[:, 0], rows[:, -1] = grid, 1 - grid
    mapped = fitted.pooled_probabilities(rows)
    assert mapped[:, 0] == pytest.approx((plain(grid) + 1e-9 * grid) / (1 + 1e-9), abs=1e-12)


@given(problem=problems(), pairs_at_a_time=st.sampled_from([1, 7, 2**20]), weighted=st.booleans())
def test_groups_add_up_however_many_pairs_are_sorted_at_a_time(problem, pairs_at_a_time, weighted):
    """Against loops over the pairs: each belongs to the last true-class probability that is not above it."""
    probabilities, labels = problem
    weights = np.arange(1.0, len(labels) + 1) if weighted else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(monotone_curve, "PAIRS_AT_A_TIME", pairs_at_a_time)
        groups = PooledScores.of_all_pairs(probabilities, labels, weights)
    scores, outcomes, repeated = all_pairs(probabilities, labels, weights)
    repeated = np.ones(len(scores)) if repeated is None else repeated
    marks = sorted({float(score) for score, outcome in zip(scores, outcomes, strict=True) if outcome})
    expected = {}
    for score, outcome, weight in zip(scores.astype(float), outcomes, repeated, strict=True):
        below = [mark for mark in marks if mark <= score]
        expected.setdefault(below[-1] if below else -1.0, []).append((score, outcome, weight))
    members = [expected[key] for key in sorted(expected)]
    assert groups.low.tolist() == [min(score for score, _, _ in group) for group in members]
    assert groups.high.tolist() == [max(score for score, _, _ in group) for group in members]
    assert groups.weight.tolist() == [sum(weight for _, _, weight in group) for group in members]
    assert groups.outcome_sum.tolist() == [sum(o * weight for _, o, weight in group) for group in members]
    total = [sum(score * weight for score, _, weight in group) for group in members]
    assert groups.score_sum == pytest.approx(total, rel=1e-6)


@both_ties
def test_rows_are_the_pooled_map_divided_by_their_sums(ties):
    probabilities, labels = some_problem()
    fitted = AccuracyPreservingIsotonic(ties).fit(probabilities, labels)
    pooled = fitted.pooled_probabilities(probabilities)
    expected = np.interp(probabilities, fitted.scores_, fitted.values_)
    assert pooled == pytest.approx(expected, abs=1e-15)
    calibrated = fitted.predict_proba(probabilities)
    assert calibrated == pytest.approx(pooled / pooled.sum(axis=1, keepdims=True), abs=1e-15)
    assert np.abs(pooled.sum(axis=1) - 1).max() > 0.1


def test_the_raw_pooled_map_promises_as_many_true_classes_as_there_are():
    """Each block has the mean of its outcomes, so all pairs together sum to n."""
    probabilities, labels = some_problem()
    fitted = AccuracyPreservingIsotonic(smoothing=0).fit(probabilities, labels)
    assert fitted.pooled_probabilities(probabilities).sum() == pytest.approx(len(labels), rel=1e-8)


@both_ties
def test_a_weight_is_a_number_of_rows(ties):
    probabilities, labels = some_problem(60)
    weights = np.arange(60) % 3 + 1
    weighted = AccuracyPreservingIsotonic(ties).fit(probabilities, labels, weights)
    repeated = AccuracyPreservingIsotonic(ties).fit(
        np.repeat(probabilities, weights, axis=0), np.repeat(labels, weights)
    )
    assert weighted.scores_ == pytest.approx(repeated.scores_, abs=1e-15)
    assert weighted.values_ == pytest.approx(repeated.values_, abs=1e-15)


def test_two_classes_share_one_map_for_both():
    """The pairs of a row are p and 1 - p with opposite outcomes, so the map is its own mirror image."""
    probabilities, labels = some_problem(n_classes=2)
    fitted = AccuracyPreservingIsotonic().fit(probabilities, labels)
    assert fitted.pooled_probabilities(probabilities).sum(axis=1) == pytest.approx(1, abs=1e-8)


# The arg-max


@cache
def real_rows(name):
    arrays = load(name)
    return arrays["probs"], arrays["y"]


@both_ties
@settings(max_examples=20)
@given(data=st.data())
def test_the_arg_max_of_every_row_is_kept_ties_zeros_and_float32_included(ties, data):
    problem = data.draw(problems())
    fitted = AccuracyPreservingIsotonic(ties).fit(*problem)
    n_classes = problem.probabilities.shape[1]
    new = data.draw(probability_matrices(n_classes=n_classes))
    logits = data.draw(logit_matrices(n_classes=n_classes))
    for rows in (problem.probabilities, new):
        calibrated = fitted.predict_proba(rows)
        np.testing.assert_array_equal(calibrated.argmax(axis=1), rows.argmax(axis=1))
        assert calibrated.sum(axis=1, dtype=np.float64) == pytest.approx(1, abs=1e-6)
    from_logits = fitted.predict_proba(Predictions.from_logits(logits))
    assume(not fitted.identity_kept_)
    np.testing.assert_array_equal(from_logits.argmax(axis=1), logits.argmax(axis=1))


@both_ties
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("smoothing", [0.0, 1.0])
@pytest.mark.parametrize(
    "name",
    ["cifar_netcal/c10_wideresnet_16_4", "cifar_netcal/c10_lenet_5", "cifar_netcal/c100_densenet_bc_100"],
)
def test_the_arg_max_of_every_real_row_is_kept(name, ties, dtype, smoothing):
    probabilities, labels = real_rows(name)
    probabilities = probabilities.astype(dtype)
    fitted = AccuracyPreservingIsotonic(ties, smoothing).fit(probabilities[:5000], labels[:5000])
    calibrated = fitted.predict_proba(probabilities)
    assert not fitted.identity_kept_
    assert calibrated.dtype == dtype
    np.testing.assert_array_equal(calibrated.argmax(axis=1), probabilities.argmax(axis=1))
    tolerance = 2e-6 if dtype == np.float32 else 1e-14
    assert calibrated.sum(axis=1, dtype=np.float64) == pytest.approx(1, abs=tolerance)


def test_a_lead_that_float32_cannot_show_is_put_back():
    """The classes at 0.45 and 0.35 are right equally often, so all from one to the other is one block at 0.4.

    In there a lead of 2e-6 becomes one of 2e-15, which float32 cannot show; the next float32 above can.
    """
    fitted = AccuracyPreservingIsotonic().fit([[0.45, 0.35, 0.2]] * 10, [0, 1] * 4 + [2] * 2)
    rows = np.array([[0.399999, 0.400001, 0.2], [0.400001, 0.399999, 0.2]], dtype=np.float32)
    calibrated = fitted.predict_proba(rows)
    assert calibrated.argmax(axis=1).tolist() == [1, 0]
    assert calibrated == pytest.approx(np.array([[0.4, 0.4, 0.2]] * 2), rel=1e-6)
    np.testing.assert_array_equal(calibrated[1, :2], calibrated[0, 0])
    assert calibrated[0, 1] == np.nextafter(calibrated[0, 0], np.float32(1))


def test_real_logits_of_float32_keep_their_arg_max():
    arrays = load("kull_nn/c100_convnet")
    logits = Predictions.from_logits(arrays["val_logits"].astype(np.float32))
    fitted = AccuracyPreservingIsotonic().fit(logits, arrays["val_y"])
    new = Predictions.from_logits(arrays["test_logits"].astype(np.float32))
    np.testing.assert_array_equal(fitted.predict_proba(new).argmax(axis=1), new.scores.argmax(axis=1))
    own = fitted.predict_proba(new)[np.arange(new.n_rows), arrays["test_y"]]
    assert own.min() > 1e-7


# The identity, absent classes, corners


@pytest.mark.filterwarnings("default:AccuracyPreservingIsotonic. the identity")
def test_the_identity_is_kept_where_it_is_better():
    """All frequencies are as predicted: 8, 2 and 0 of ten rows, and 9, 9 and 2 of twenty.

    The raw map is then the identity; with its end at 0 shrunk it has a higher log-loss on these rows.
    """
    probabilities = np.array([[0.8, 0.2, 0.0]] * 10 + [[0.45, 0.45, 0.1]] * 20)
    labels = np.array([0] * 8 + [1] * 2 + [0] * 9 + [1] * 9 + [2] * 2)
    exact = AccuracyPreservingIsotonic(smoothing=0).fit(probabilities, labels)
    assert not exact.identity_kept_
    assert exact.predict_proba(probabilities) == pytest.approx(probabilities, abs=1e-8)
    with pytest.warns(CalibrationWarning, match="identity is at least as good on the calibration rows"):
        shrunk = AccuracyPreservingIsotonic(smoothing=1).fit(probabilities, labels)
    assert shrunk.identity_kept_
    np.testing.assert_array_equal(shrunk.predict_proba(probabilities[10:]), probabilities[10:])
    # A zero counts as the floor, 0.05, half of the smallest that is none; then the row sums to 1.05.
    np.testing.assert_allclose(
        shrunk.predict_proba([[0.8, 0.2, 0.0]]), [[0.8 / 1.05, 0.2 / 1.05, 0.05 / 1.05]]
    )


def test_a_class_without_rows_takes_part_in_the_shared_map():
    probabilities, labels = some_problem()
    with pytest.warns(MissingClassWarning, match="map shared by all classes"):
        fitted = AccuracyPreservingIsotonic().fit(probabilities, np.where(labels == 2, 0, labels))
    calibrated = fitted.predict_proba(probabilities)
    np.testing.assert_array_equal(calibrated.argmax(axis=1), probabilities.argmax(axis=1))
    assert (calibrated[:, 2] > 0).all()


@both_ties
@settings(max_examples=15)
@given(problem=problems())
def test_no_entry_is_nearly_zero_without_reason(ties, problem):
    """With one pair added, n K pairs give no less than 1/(nK + 1), of which centred ties halve the least."""
    probabilities, _ = problem
    fitted = AccuracyPreservingIsotonic(ties).fit(*problem)
    assume(not fitted.identity_kept_)
    assert fitted.pooled_probabilities(probabilities).min() >= 0.4 / (probabilities.size + 1)


def test_a_thousand_classes():
    generator = np.random.default_rng(0)
    logits = generator.normal(scale=2, size=(1000, 1000)).astype(np.float32)
    labels = (0.6 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    given_logits = Predictions.from_logits(logits)
    with pytest.warns(MissingClassWarning):
        fitted = AccuracyPreservingIsotonic().fit(given_logits, labels)
    calibrated = fitted.predict_proba(given_logits)
    np.testing.assert_array_equal(calibrated.argmax(axis=1), logits.argmax(axis=1))
    rows = np.arange(1000)
    before = -np.log(given_logits.probabilities[rows, labels]).mean()
    assert -np.log(calibrated[rows, labels]).mean() < before - 0.1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ties": "keep"}, "ties must be 'strict' or 'centered', not 'keep'"),
        ({"smoothing": -0.5}, "smoothing must be a number of at least 0"),
        ({"smoothing": None}, "smoothing must be a number"),
    ],
)
def test_parameters_without_meaning_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        AccuracyPreservingIsotonic(**parameters).fit(*some_problem())


@pytest.mark.parametrize("n_classes", [3, 10])
def test_certain_predictions_of_which_some_are_wrong_are_repaired(n_classes):
    """One in five is wrong: 4/5 for the predicted class and the rest shared is the best, and better than nothing."""
    rows = np.arange(100 * n_classes)
    probabilities = np.eye(n_classes)[rows % n_classes]
    labels = (rows + (rows // n_classes % 5 == 0)) % n_classes
    fitted = AccuracyPreservingIsotonic().fit(probabilities, labels)
    assert not fitted.identity_kept_
    expected = np.where(probabilities == 1, 0.8, 0.2 / (n_classes - 1))
    assert fitted.predict_proba(probabilities) == pytest.approx(expected, abs=1e-6)


@pytest.mark.filterwarnings("ignore:AccuracyPreservingIsotonic")
def test_the_arg_max_is_kept_after_a_fit_to_certain_predictions():
    """All right and all certain: a zero counts as the floor, which is less than an even share of softer rows."""
    fitted = AccuracyPreservingIsotonic().fit(np.eye(3)[[0, 1, 2] * 10], [0, 1, 2] * 10)
    assert fitted.predict([[0.3, 0.3, 0.4], [0.2, 0.45, 0.35]]).tolist() == [2, 1]

"""Intra-order-preserving calibration: the order to the last bit, the choice of weight decay, and the edges."""

import warnings
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata
from shared_map_rows import calibrated_logits

import calibrant
from calibrant import IntraOrderPreserving, LabelledPredictions, Predictions, TemperatureScaling
from calibrant.calibrators.monotone import order_preserving
from calibrant.calibrators.monotone.order_preserving import fit_shared_map
from calibrant.calibrators.monotone.order_preserving.increasing_network import fit_increasing_network
from calibrant.errors import (
    ConvergenceWarning,
    LabelError,
    MissingClassWarning,
    ParameterError,
    PredictionError,
)
from strategies import logit_matrices, probability_matrices

KINDS = ["full", "invariant", "diagonal", "diagonal network"]
every_kind = pytest.mark.parametrize("kind", KINDS)
gap_kinds = pytest.mark.parametrize("kind", ["full", "invariant"])


def make(kind, weight_decay=3e-3, **parameters):
    family, _, form = kind.partition(" ")
    return IntraOrderPreserving(family, form or "piecewise", weight_decay=weight_decay, **parameters)


def some_rows(n_rows=300, n_classes=4, seed=0):
    """Logits that are honest where two classes are close, and too sure of themselves where one is far ahead."""
    generator = np.random.default_rng(seed)
    logits = 3 * generator.normal(size=(n_rows, n_classes))
    second, first = np.sort(logits, axis=1)[:, -2:].T
    honesty = np.where(first - second > 2, 0.3, 1.0)[:, np.newaxis]
    labels = (honesty * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    labels[:n_classes] = np.arange(n_classes)
    return logits, labels


@cache
def fitted_once(kind, n_classes):
    """A fit that tests share, and must not change."""
    logits, labels = some_rows(n_classes=n_classes)
    return make(kind).fit(Predictions.from_logits(logits), labels)


def assert_same_order(calibrator, predictions):
    """Ranks of calibrated logits and probabilities are those of the scores, ties included."""
    expected = rankdata(predictions.scores, axis=1)
    calibrated = calibrator.transform(predictions)
    probabilities = calibrator.predict_proba(predictions)
    np.testing.assert_array_equal(rankdata(calibrated.scores, axis=1), expected)
    np.testing.assert_array_equal(rankdata(probabilities, axis=1), expected)
    assert calibrated.scores.dtype == probabilities.dtype == predictions.scores.dtype
    np.testing.assert_array_equal(calibrator.predict(predictions), predictions.predicted)


@every_kind
@given(logits=logit_matrices())
def test_the_order_of_logits_is_kept_exactly(kind, logits):
    assert_same_order(fitted_once(kind, logits.shape[1]), Predictions.from_logits(logits))


@every_kind
@given(probabilities=probability_matrices())
def test_the_order_of_probabilities_is_kept_exactly(kind, probabilities):
    assert_same_order(
        fitted_once(kind, probabilities.shape[1]), Predictions.from_probabilities(probabilities)
    )


@every_kind
@settings(max_examples=20)
@given(data=st.data())
def test_the_order_of_neighbouring_floats_is_kept_exactly(kind, data):
    """Numbers that are next to each other in float32, below the normal range, zero and one."""
    tiny = np.float32(1e-45)
    above = np.nextafter(np.float32(0.25), np.float32(1))
    values = [0.0, tiny, 2 * tiny, 1e-38, np.float32(0.25), above, np.nextafter(above, np.float32(1)), 1.0]
    rows = np.array(
        data.draw(st.lists(st.permutations(values).map(lambda row: row[:3]), min_size=1, max_size=5)),
        dtype=np.float32,
    )
    rows = np.hstack([rows, np.maximum(0, 1 - rows.sum(axis=1, keepdims=True))])
    rows = rows[np.abs(rows.sum(axis=1) - 1) < 1e-4]
    if len(rows):
        assert_same_order(fitted_once(kind, 4), Predictions.from_probabilities(rows))


@every_kind
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_order_of_a_saturated_softmax_is_kept_exactly(kind, dtype):
    logits, labels = some_rows(n_rows=400)
    exponentials = np.exp(
        (20 * logits).astype(dtype) - (20 * logits).astype(dtype).max(axis=1, keepdims=True)
    )
    saturated = exponentials / exponentials.sum(axis=1, keepdims=True)
    assert (saturated == 1).any()
    assert (saturated == 0).any() == (dtype == np.float32)
    assert_same_order(make(kind).fit(saturated, labels), Predictions.from_probabilities(saturated))


@every_kind
def test_the_order_of_many_classes_is_kept_exactly_in_float32(kind):
    logits, labels = some_rows(n_rows=300, n_classes=60)
    rows = Predictions.from_logits(logits.astype(np.float32))
    assert_same_order(make(kind, weight_decay=0.1).fit(rows, labels), rows)


@every_kind
def test_the_loss_is_below_that_of_temperature_scaling(kind):
    logits, labels = some_rows(n_rows=1000)
    data = LabelledPredictions.parse(Predictions.from_logits(logits), labels)
    fitted = make(kind, weight_decay=1e-4).fit_labelled(data)
    temperature = TemperatureScaling().fit_labelled(data)
    assert fitted.solution_.loss < temperature.solution_.loss - 0.01
    assert temperature.solution_.loss < fitted.solution_.identity_loss
    assert data.log_loss(fitted.transform(data.predictions)) == pytest.approx(fitted.solution_.loss, rel=1e-9)


def test_the_diagonal_kind_is_the_function_that_its_form_names():
    """A weight decay of w is a penalty of w n rows for a piecewise function, and w for a network."""
    logits, labels = some_rows()
    data = LabelledPredictions.parse(Predictions.from_logits(logits), labels)
    piecewise = make("diagonal").fit_labelled(data)
    expected = fit_shared_map(data, slope_penalty=3e-3 * 300, difference_penalty=3e-3 * 300)
    np.testing.assert_array_equal(piecewise.slopes_, expected.slopes)
    np.testing.assert_array_equal(
        piecewise.transform(data.predictions).scores, calibrated_logits(expected, data.predictions)
    )
    network = make("diagonal network", hidden=(3,), restarts=1).fit_labelled(data)
    seed = int(np.random.default_rng(0).integers(2**32))
    expected = fit_increasing_network(data, (3,), 3e-3, 1, seed)
    np.testing.assert_array_equal(network.slopes_, expected.rates)
    np.testing.assert_array_equal(
        network.transform(data.predictions).scores, calibrated_logits(expected, data.predictions)
    )


def test_a_piecewise_function_is_worth_one_row_of_penalty():
    logits, labels = some_rows()
    fitted = IntraOrderPreserving("diagonal").fit(Predictions.from_logits(logits), labels)
    assert fitted.weight_decay_ == 1 / 300
    assert len(fitted.weight_decays_) == 0


@pytest.mark.parametrize("kind", ["full", "invariant", "diagonal network"])
def test_the_weight_decay_is_one_of_those_that_were_compared_and_better_than_none(kind):
    """Candidates are counted in rows, the first is temperature scaling, and these rows have more to mend than that."""
    logits, labels = some_rows(n_rows=1000)
    fitted = make(kind, weight_decay="auto").fit(Predictions.from_logits(logits), labels)
    candidates = order_preserving.ROWS_OF_DECAY[kind.split()[0]]
    np.testing.assert_allclose(fitted.weight_decays_, np.array(candidates) / 1000)
    chosen = fitted.weight_decays_.tolist().index(fitted.weight_decay_)
    losses = fitted.held_out_losses_
    assert chosen <= np.argmin(losses)
    assert losses.min() <= losses[chosen] < losses[0] - 0.01
    fixed = make(kind, weight_decay=fitted.weight_decay_).fit(Predictions.from_logits(logits), labels)
    assert fixed.solution_.value == pytest.approx(fitted.solution_.value, abs=1e-4)


@gap_kinds
@pytest.mark.parametrize("seed", [0, 3])
def test_where_one_temperature_is_the_truth_little_is_lost(kind, seed):
    """Labels are drawn from softmax(z / 2): whatever else a network finds is noise, which rows held out refute.

    The expected loss on fresh rows is known; it exceeds that of temperature scaling by less than a thousandth.
    """
    generator = np.random.default_rng(seed)
    logits = 3 * generator.normal(size=(1000, 4))
    labels = (logits / 2 + generator.gumbel(size=logits.shape)).argmax(axis=1)
    fresh = Predictions.from_logits(3 * generator.normal(size=(20_000, 4)))
    truth = Predictions.from_logits(fresh.scores / 2).probabilities
    losses = [
        -(truth * calibrator.fit(Predictions.from_logits(logits), labels).transform(fresh).log_probabilities)
        .sum(axis=1)
        .mean()
        for calibrator in (make(kind, weight_decay="auto"), TemperatureScaling())
    ]
    assert losses[0] < losses[1] + 1e-3


def test_many_rows_are_sampled_for_the_choice(monkeypatch):
    """Candidates are counted in rows, so the decay is that of all rows."""
    monkeypatch.setattr(order_preserving, "CHOICE_ROWS", 100)
    monkeypatch.setattr(order_preserving, "CHOICE_ENTRIES", 100)
    seen = []
    choose = order_preserving.choose_by_folds

    def recording(data, *arguments, **options):
        seen.append(data.n_rows)
        return choose(data, *arguments, **options)

    monkeypatch.setattr(order_preserving, "choose_by_folds", recording)
    logits, labels = some_rows()
    fitted = make("invariant", weight_decay="auto").fit(Predictions.from_logits(logits), labels)
    assert set(seen) == {100}
    np.testing.assert_allclose(fitted.weight_decays_[1:4], np.array([100, 30, 10]) / 300)


@gap_kinds
def test_the_same_seed_gives_the_same_numbers_and_another_seed_nearly_the_same(kind):
    logits, labels = some_rows()
    rows = Predictions.from_logits(logits)
    first, again, generator, other = (
        make(kind, random_state=state).fit(rows, labels).predict_proba(rows)
        for state in (3, 3, np.random.default_rng(3), 4)
    )
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, generator)
    assert 0 < np.abs(first - other).max() < 0.02


@pytest.mark.parametrize("kind", ["full", "invariant", "diagonal"])
def test_a_constant_added_to_a_row_of_logits_changes_nothing(kind):
    logits, labels = some_rows()
    shifts = np.linspace(-8, 8, len(logits))[:, np.newaxis]
    plain, shifted = (Predictions.from_logits(rows) for rows in (logits, logits + shifts))
    first, second = (make(kind).fit(rows, labels).predict_proba(rows) for rows in (plain, shifted))
    np.testing.assert_allclose(second, first, rtol=0, atol=1e-5)


@gap_kinds
def test_raw_logits_as_inputs_are_another_map_for_shifted_rows(kind):
    logits, labels = some_rows()
    rows = Predictions.from_logits(logits)
    fitted = make(kind, inputs="logits").fit(rows, labels)
    moved = fitted.predict_proba(Predictions.from_logits(logits + 2))
    assert np.abs(moved - fitted.predict_proba(rows)).max() > 0.01
    assert fitted.traits.uses_raw_logits
    with pytest.raises(PredictionError, match="fitted on logits, but these predictions are probabilities"):
        fitted.predict_proba(rows.probabilities)


@pytest.mark.parametrize("kind", ["invariant", "diagonal"])
def test_renaming_classes_changes_nothing(kind):
    """Also with the weight decay chosen by folds."""
    logits, labels = some_rows()
    order = np.array([2, 0, 3, 1])
    plain = make(kind, weight_decay="auto").fit(Predictions.from_logits(logits), labels)
    renamed = make(kind, weight_decay="auto").fit(
        Predictions.from_logits(logits[:, order]), np.argsort(order)[labels]
    )
    assert plain.traits.commutes_with_permutations
    assert renamed.weight_decay_ == plain.weight_decay_
    np.testing.assert_allclose(
        renamed.predict_proba(Predictions.from_logits(logits[:, order])),
        plain.predict_proba(Predictions.from_logits(logits))[:, order],
        rtol=0,
        atol=1e-5,
    )


def test_the_full_kind_mends_classes_that_differ():
    """The first of three classes is right in 9 of 10 of its predictions and the second in 5; scores are the same."""
    rows = [[0.8, 0.1, 0.1]] * 10 + [[0.1, 0.8, 0.1]] * 10
    labels = [0] * 9 + [2] + [1] * 5 + [0] * 3 + [2] * 2
    full, invariant = (
        make(kind, weight_decay=1e-6).fit(rows * 20, labels * 20).predict_proba(rows[::10])
        for kind in ("full", "invariant")
    )
    np.testing.assert_allclose(full.max(axis=1), [0.9, 0.5], rtol=0, atol=0.01)
    np.testing.assert_allclose(invariant.max(axis=1), [0.7, 0.7], rtol=0, atol=0.01)
    assert not IntraOrderPreserving("full").traits.commutes_with_permutations


def test_a_class_without_rows_makes_the_full_kind_sort_its_inputs():
    logits, labels = some_rows()
    kept = labels != 2
    rows = Predictions.from_logits(logits[kept])
    with pytest.warns(MissingClassWarning):
        full = make("full").fit(rows, labels[kept])
    with pytest.warns(MissingClassWarning):
        invariant = make("invariant").fit(rows, labels[kept])
    assert not full.sees_classes_
    np.testing.assert_array_equal(full.predict_proba(rows), invariant.predict_proba(rows))
    assert fitted_once("full", 4).sees_classes_


@every_kind
def test_one_row_and_equal_labels_are_refused(kind):
    with pytest.raises(LabelError, match="at least two classes"):
        make(kind).fit([[0.7, 0.3]], [0])
    with pytest.raises(LabelError, match="at least two classes"):
        make(kind).fit([[0.7, 0.3], [0.2, 0.8]], [1, 1])


@every_kind
@pytest.mark.parametrize("weight_decay", [1e-2, "auto"])
def test_two_rows_are_enough(kind, weight_decay):
    fitted = make(kind, weight_decay=weight_decay).fit([[0.6, 0.4], [0.3, 0.7]], [0, 1])
    calibrated = fitted.predict_proba([[0.6, 0.4], [0.3, 0.7]])
    assert (calibrated > 0).all()
    assert fitted.solution_.loss <= fitted.solution_.identity_loss


@every_kind
@pytest.mark.parametrize("weight_decay", [1e-2, "auto"])
def test_constant_logits_stay_uniform(kind, weight_decay):
    """All classes equal in every row: equal they stay, whatever the labels."""
    fitted = make(kind, weight_decay=weight_decay).fit(np.full((30, 3), 1 / 3), np.arange(30) % 3)
    np.testing.assert_allclose(fitted.predict_proba(np.full((2, 3), 1 / 3)), 1 / 3, rtol=1e-15)
    assert fitted.solution_.loss == pytest.approx(np.log(3))
    assert np.isfinite(fitted.predict_proba([[0.9, 0.1, 0.0]])).all()


@gap_kinds
def test_rows_that_are_all_the_same_get_their_frequencies(kind):
    """Labels in the proportions 5 : 3 : 2, which is the order of the scores."""
    fitted = make(kind, weight_decay=1e-6).fit([[0.7, 0.2, 0.1]] * 10, [0] * 5 + [1] * 3 + [2] * 2)
    np.testing.assert_allclose(fitted.predict_proba([[0.7, 0.2, 0.1]]), [[0.5, 0.3, 0.2]], rtol=0, atol=0.01)


@every_kind
def test_two_classes(kind):
    logits, labels = some_rows(n_classes=2)
    fitted = make(kind).fit(Predictions.from_logits(logits), labels)
    assert fitted.solution_.loss < fitted.solution_.identity_loss


@pytest.mark.filterwarnings("ignore::calibrant.errors.MissingClassWarning")
@every_kind
def test_a_thousand_classes_and_few_rows(kind):
    generator = np.random.default_rng(0)
    rows = Predictions.from_logits(3 * generator.normal(size=(30, 1000)).astype(np.float32))
    labels = np.where(generator.random(30) < 0.7, rows.predicted, generator.integers(1000, size=30))
    fitted = make(kind, weight_decay=0.1).fit(rows, labels)
    assert_same_order(fitted, rows)
    assert fitted.solution_.loss <= fitted.solution_.identity_loss


@every_kind
def test_no_row_has_an_infinite_log_loss_however_far_out(kind):
    logits, _ = some_rows()
    extreme = Predictions.from_logits(np.vstack([1e4 * logits, 1e-6 * logits, 1e4 * np.eye(4)]))
    calibrated = fitted_once(kind, 4).transform(extreme)
    assert np.isfinite(calibrated.log_probabilities).all()
    assert np.isfinite(fitted_once(kind, 4).predict_proba(extreme)).all()


@every_kind
@pytest.mark.parametrize("inputs", ["log-probabilities", "logits"])
def test_a_file_gives_the_same_map(kind, inputs, tmp_path):
    logits, labels = some_rows()
    rows = Predictions.from_logits(logits)
    fitted = make(kind, inputs=inputs, hidden=(3,)).fit(rows, labels)
    fitted.save(tmp_path / "map.npz")
    loaded = calibrant.load(tmp_path / "map.npz")
    np.testing.assert_array_equal(loaded.predict_proba(rows), fitted.predict_proba(rows))


def test_without_weight_decay_a_fit_may_not_end_and_says_so():
    logits, labels = some_rows(n_rows=1000, n_classes=4)
    with pytest.warns(ConvergenceWarning, match="stopped before its end"):
        make("full", weight_decay=0.0).fit(Predictions.from_logits(logits), labels)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kind": "oblique"}, "kind must be 'diagonal', 'invariant' or 'full', not 'oblique'"),
        ({"form": "cubic"}, "form must be 'piecewise' or 'network'"),
        ({"activation": "sine"}, "activation must be 'elu', 'relu' or 'tanh'"),
        ({"inputs": "odds"}, "inputs must be 'log-probabilities' or 'logits'"),
        ({"weight_decay": -1.0}, 'weight_decay must be a number of at least 0, or "auto", not -1.0'),
        ({"weight_decay": "some"}, "weight_decay must be a number of at least 0, or \"auto\", not 'some'"),
        ({"weight_decay": np.inf}, "weight_decay must be a number"),
        ({"cv": 1}, "cv must be an integer of at least 2"),
        ({"restarts": 0}, "restarts must be an integer of at least 1"),
        ({"hidden": 10}, r"hidden must be a tuple of whole numbers such as \(10,\), not 10"),
        ({"hidden": (10, 0)}, "hidden must be a tuple of whole numbers"),
        ({"random_state": "seed"}, "random_state must be an integer"),
    ],
)
def test_parameters_without_meaning_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        IntraOrderPreserving(**parameters).fit([[0.6, 0.4], [0.4, 0.6]], [0, 1])


@every_kind
@pytest.mark.parametrize("case", ["wrong", "random", "huge"])
def test_no_loss_is_above_that_of_temperature_scaling_where_scores_say_nothing(kind, case):
    """The best temperature is then at the flat end of its range, which the map must start from."""
    generator = np.random.default_rng(3)
    if case == "wrong":
        logits, labels = 2 * np.eye(3)[[0, 1, 2, 0, 1, 2]], np.array([1, 2, 0, 2, 0, 1])
    else:
        size = 1e6 if case == "huge" else 1.0
        logits, labels = size * generator.normal(size=(30, 3)), generator.integers(0, 3, 30)
    data = LabelledPredictions.parse(Predictions.from_logits(logits), labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours, scaled = (
            calibrator.fit(data.predictions, labels).transform(data.predictions)
            for calibrator in (make(kind, weight_decay=0.1), TemperatureScaling())
        )
    assert data.log_loss(ours) <= data.log_loss(scaled) + 1e-6

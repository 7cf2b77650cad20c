"""Parameterized temperature scaling: closed forms, invariances, weights, decay and parameters."""

from math import log

import numpy as np
import pytest
from parameterized_rows import LOSSES, logits_of, own_loss, rows_of_two_kinds

from calibrant import ParameterizedTemperatureScaling, Predictions, TemperatureScaling, load
from calibrant.calibrators.scaling.parameterized_temperature import CHOICES
from calibrant.errors import ConvergenceWarning, ParameterError, PredictionError


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("link", ["softplus", "absolute", "exponential"])
@pytest.mark.parametrize("hidden", [(), (3,)])
def test_a_temperature_for_each_of_two_kinds_of_rows(loss, link, hidden):
    """Right in 3 of 4 at 90 %: 9^(1/T) = 3. Right in 3 of 5 at 60 %: T = 1. Right in 7 of 10 at 80 %: log 4 / log(7/3)."""
    p = [[0.9, 0.1]] * 20 + [[0.6, 0.4]] * 20 + [[0.8, 0.2]] * 20 * bool(hidden)
    y = [0] * 15 + [1] * 5 + [0] * 12 + [1] * 8 + ([0] * 14 + [1] * 6) * bool(hidden)
    fitted = ParameterizedTemperatureScaling(hidden, loss=loss, link=link, weight_decay=0).fit(p, y)
    kinds, expected = [[0.9, 0.1], [0.6, 0.4], [0.8, 0.2]], [2.0, 1.0, log(4) / log(7 / 3)]
    n_kinds = 3 if hidden else 2
    np.testing.assert_allclose(fitted.temperatures(kinds[:n_kinds]), expected[:n_kinds], rtol=2e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_what_depends_on_the_row_is_learnt(loss):
    logits, labels, bold = rows_of_two_kinds(3000)
    fitted = ParameterizedTemperatureScaling(loss=loss).fit(Predictions.from_logits(logits), labels)
    fresh, fresh_labels, bold = rows_of_two_kinds(3000, seed=1)
    temperatures = fitted.temperatures(Predictions.from_logits(fresh))
    assert temperatures.shape == (3000,)
    assert np.median(temperatures[bold]) == pytest.approx(3.0, abs=0.6)
    assert np.median(temperatures[~bold]) == pytest.approx(1.0, abs=0.3)
    single = TemperatureScaling(loss).fit(Predictions.from_logits(logits), labels)
    gain = own_loss(single, Predictions.from_logits(fresh), fresh_labels) - own_loss(
        fitted, Predictions.from_logits(fresh), fresh_labels
    )
    assert gain > 0.01


def test_the_map_is_a_softmax_at_these_temperatures():
    logits, labels, _ = rows_of_two_kinds(300)
    given_rows = Predictions.from_logits(logits)
    fitted = ParameterizedTemperatureScaling(weight_decay=1e-3).fit(given_rows, labels)
    tempered = logits / fitted.temperatures(given_rows)[:, np.newaxis]
    expected = np.exp(tempered) / np.exp(tempered).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_proba(given_rows), expected, rtol=1e-12)


def test_the_entropy_variant_has_two_parameters():
    """T = exp(c0 + c1 H) with H the normalised entropy at the single temperature."""
    logits, labels, _ = rows_of_two_kinds(800)
    given_rows = Predictions.from_logits(logits)
    fitted = ParameterizedTemperatureScaling(
        (), inputs="entropy", link="exponential", weight_decay=0, bounds=(1e-3, 1e3), loss="log"
    ).fit(given_rows, labels)
    p = np.exp(logits / fitted.temperature_)
    p /= p.sum(axis=1, keepdims=True)
    entropies = -(p * np.log(p)).sum(axis=1) / log(4)
    slope = fitted.weights_[0][0, 0] / fitted.input_scales_[0]
    level = log(fitted.temperature_) + fitted.intercepts_[0][0] - slope * fitted.input_means_[0]
    np.testing.assert_allclose(fitted.temperatures(given_rows), np.exp(level + slope * entropies), rtol=1e-9)

    def loss(parameters):
        tempered = logits / np.exp(parameters[0] + parameters[1] * entropies)[:, np.newaxis]
        return np.mean(np.log(np.exp(tempered).sum(axis=1)) - tempered[np.arange(len(labels)), labels])

    for step in ([1e-2, 0], [-1e-2, 0], [0, 1e-2], [0, -1e-2]):
        assert loss([level, slope]) < loss(np.add([level, slope], step))


@pytest.mark.parametrize("inputs", ["gaps", "entropy"])
def test_constants_added_to_rows_change_nothing(inputs):
    logits, labels, _ = rows_of_two_kinds(300)
    shifts = np.random.default_rng(0).integers(-64, 64, size=(300, 1)) / 4
    calibrator = ParameterizedTemperatureScaling((3,), inputs=inputs, weight_decay=1e-3, restarts=1)
    plain = calibrator.fit(Predictions.from_logits(logits), labels).predict_proba(logits_of(logits))
    shifted = calibrator.fit(Predictions.from_logits(logits + shifts), labels)
    np.testing.assert_allclose(shifted.predict_proba(logits_of(logits + shifts)), plain, atol=1e-4)
    np.testing.assert_allclose(
        shifted.predict_proba(logits_of(logits)), shifted.predict_proba(logits_of(logits + shifts)), atol=1e-9
    )


def test_logits_and_their_softmax_give_the_same_map():
    logits, labels, _ = rows_of_two_kinds(300)
    given_rows = logits_of(logits)
    calibrator = ParameterizedTemperatureScaling((), weight_decay=1e-3)
    on_logits = calibrator.fit(given_rows, labels).predict_proba(given_rows)
    on_probabilities = calibrator.fit(given_rows.probabilities, labels).predict_proba(given_rows)
    np.testing.assert_allclose(on_probabilities, on_logits, atol=1e-5)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
@pytest.mark.parametrize("inputs", ["gaps", "logits", "entropy"])
def test_temperatures_grow_with_the_logits(factor, inputs):
    """Inputs are standardised and temperatures multiples of the single one, so that the unit of logits is no matter."""
    logits, labels, _ = rows_of_two_kinds(300)
    calibrator = ParameterizedTemperatureScaling((), inputs=inputs, weight_decay=1e-3)
    plain = calibrator.fit(logits_of(logits), labels).temperatures(logits_of(logits))
    scaled = calibrator.fit(logits_of(factor * logits), labels).temperatures(logits_of(factor * logits))
    np.testing.assert_allclose(scaled, factor * plain, rtol=1e-4)


def test_raw_logits_are_an_option_that_the_traits_tell():
    logits, labels, _ = rows_of_two_kinds(200)
    given_rows = logits_of(logits)
    fitted = ParameterizedTemperatureScaling((), inputs="logits").fit(given_rows, labels)
    assert fitted.traits.uses_raw_logits
    assert not ParameterizedTemperatureScaling().traits.uses_raw_logits
    assert fitted.weights_[0].shape == (4, 1)
    with pytest.raises(PredictionError, match="fitted on logits, but these predictions are probabilities"):
        fitted.temperatures(given_rows.probabilities)


@pytest.mark.parametrize("random_state", range(12))
def test_no_start_is_dead_and_no_end_is_above_the_single_temperature(random_state):
    """With the paper's inputs, link and no decay, whatever the seed: the first steps gain, and rows differ."""
    logits, labels, _ = rows_of_two_kinds(300)
    given_rows = logits_of(logits)
    single = TemperatureScaling("brier").fit(given_rows, labels)
    with pytest.warns(ConvergenceWarning, match="stopped before its end"):
        fitted = ParameterizedTemperatureScaling(
            inputs="logits",
            link="absolute",
            weight_decay=0,
            restarts=1,
            bounds=(1e-12, 1e12),
            max_iterations=15,
            random_state=random_state,
        ).fit(given_rows, labels)
    assert fitted.temperature_ == pytest.approx(single.temperature_, rel=1e-6)
    assert fitted.solution_.loss < single.solution_.loss - 1e-3
    assert own_loss(fitted, given_rows, labels) == pytest.approx(fitted.solution_.loss, rel=1e-9)
    assert np.ptp(fitted.temperatures(given_rows)) > 0.1


def test_a_strong_decay_leaves_the_single_temperature():
    logits, labels, _ = rows_of_two_kinds(300)
    given_rows = logits_of(logits)
    fitted = ParameterizedTemperatureScaling(weight_decay=1.0).fit(given_rows, labels)
    assert not any(weights.any() for weights in fitted.weights_)
    single = TemperatureScaling("brier").fit(given_rows, labels)
    np.testing.assert_allclose(
        fitted.predict_proba(given_rows), single.predict_proba(given_rows), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_a_weight_of_two_equals_a_repeated_row(loss):
    logits, labels, _ = rows_of_two_kinds(300)
    twice = np.arange(300) % 3 == 0
    calibrator = ParameterizedTemperatureScaling((), loss=loss, weight_decay=1e-3)
    weighted = calibrator.fit(logits_of(logits), labels, np.where(twice, 2.0, 1.0))
    expected = weighted.predict_proba(logits_of(logits))
    repeated = calibrator.fit(
        logits_of(np.vstack([logits, logits[twice]])), np.concatenate([labels, labels[twice]])
    )
    np.testing.assert_allclose(repeated.predict_proba(logits_of(logits)), expected, atol=1e-5)


def test_the_order_of_rows_and_of_classes_does_not_matter():
    logits, labels, _ = rows_of_two_kinds(300)
    calibrator = ParameterizedTemperatureScaling((), weight_decay=1e-3)
    expected = calibrator.fit(logits_of(logits), labels).predict_proba(logits_of(logits))
    rows, columns = np.random.default_rng(0).permutation(300), np.array([2, 0, 3, 1])
    permuted = calibrator.fit(logits_of(logits[rows][:, columns]), np.argsort(columns)[labels[rows]])
    np.testing.assert_allclose(
        permuted.predict_proba(logits_of(logits[:, columns])), expected[:, columns], atol=1e-5
    )


@pytest.mark.parametrize(("loss", "rows_worth"), [("brier", 2.5), ("log", 5.0)])
def test_the_automatic_decay_belongs_to_the_number_of_rows(loss, rows_worth):
    """Weights that average at least one count rows; smaller ones only say which rows matter more."""
    logits, labels, _ = rows_of_two_kinds(60)
    calibrator = ParameterizedTemperatureScaling((), loss=loss)
    for weight, n_rows in ((None, 60), (3.0, 180), (1 / 60, 60)):
        weights = None if weight is None else np.full(60, weight)
        fitted = calibrator.fit(logits_of(logits), labels, weights)
        assert fitted.weight_decay_ == pytest.approx(rows_worth / n_rows)
        assert fitted.weight_decays_.size == fitted.held_out_losses_.size == 0


def test_decay_chosen_by_inner_folds():
    """Where one temperature is the truth the strongest is taken, and a weaker one where rows differ."""
    logits, labels, _ = rows_of_two_kinds(1000)
    calibrator = ParameterizedTemperatureScaling((2,), weight_decay="cv", cv=2, restarts=1, max_iterations=60)
    choices = 2.5 / 1000 * np.array(CHOICES)
    depends = calibrator.fit(logits_of(logits), labels)
    assert depends.weight_decay_ in choices[1:]
    np.testing.assert_allclose(depends.weight_decays_, choices, rtol=1e-12)
    assert depends.held_out_losses_.shape == choices.shape
    taken = depends.held_out_losses_[depends.weight_decays_ == depends.weight_decay_]
    assert taken < depends.held_out_losses_[0]
    assert np.ptp(depends.temperatures(logits_of(logits))) > 1
    generator = np.random.default_rng(3)
    honest = generator.normal(scale=1.5, size=(300, 4))
    drawn = (honest + generator.gumbel(size=honest.shape)).argmax(axis=1)
    assert calibrator.fit(logits_of(2 * honest), drawn).weight_decay_ == 2.5 / 300 * CHOICES[0]


def test_the_lowest_of_several_starts_is_taken():
    logits, labels, _ = rows_of_two_kinds(200)
    generator = np.random.default_rng(7)
    alone = [
        ParameterizedTemperatureScaling((2,), weight_decay=1e-4, restarts=1, random_state=generator)
        .fit(logits_of(logits), labels)
        .solution_
        for _ in range(3)
    ]
    together = (
        ParameterizedTemperatureScaling((2,), weight_decay=1e-4, restarts=3, random_state=7)
        .fit(logits_of(logits), labels)
        .solution_
    )
    assert together.value == pytest.approx(min(solution.value for solution in alone), rel=1e-12)
    assert together.n_iterations == sum(solution.n_iterations for solution in alone)


def test_a_file_keeps_the_temperatures(tmp_path):
    logits, labels, _ = rows_of_two_kinds(200)
    fitted = ParameterizedTemperatureScaling((4, 3), activation="tanh", weight_decay=1e-3)
    fitted.fit(logits_of(logits), labels).save(tmp_path / "calibrator.npz")
    again = load(tmp_path / "calibrator.npz")
    np.testing.assert_array_equal(
        again.temperatures(logits_of(logits)), fitted.temperatures(logits_of(logits))
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"hidden": 5}, "hidden must be a tuple of whole numbers"),
        ({"hidden": (5, 0)}, "hidden must be a tuple of whole numbers"),
        ({"top_k": 1}, "top_k must be an integer of at least 2"),
        ({"loss": "hinge"}, "loss must be 'brier' or 'log'"),
        ({"inputs": "probabilities"}, "inputs must be 'gaps', 'logits' or 'entropy'"),
        ({"link": "relu"}, "link must be 'softplus', 'absolute' or 'exponential'"),
        ({"activation": "sine"}, "activation must be 'relu', 'elu' or 'tanh'"),
        ({"weight_decay": -1.0}, "weight_decay must be a number of at least 0, 'auto' or 'cv'"),
        ({"weight_decay": np.array([1, 2])}, "weight_decay must be a number of at least 0, 'auto' or 'cv'"),
        ({"weight_decay": "best"}, "weight_decay must be a number of at least 0, 'auto' or 'cv'"),
        ({"cv": 1}, "cv must be an integer of at least 2"),
        ({"restarts": 0}, "restarts must be an integer of at least 1"),
        ({"bounds": (2.0, 3.0)}, "bounds must be two positive numbers around 1"),
        ({"max_iterations": 0}, "max_iterations must be an integer of at least 1"),
        ({"random_state": "seed"}, "random_state must be an integer"),
    ],
)
def test_parameters_without_meaning_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        ParameterizedTemperatureScaling(**parameters).fit([[0.6, 0.4], [0.4, 0.6]], [0, 1])

"""Parameterized temperature scaling of rows that are few, constant, all right, all wrong, tied, wide or far away."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parameterized_rows import LOSSES, logits_of, own_loss, rows_of_two_kinds

from calibrant import LabelledPredictions, ParameterizedTemperatureScaling, TemperatureScaling
from calibrant.errors import ConvergenceWarning, LabelError
from strategies import problems


def rows_that_are_all_wrong():
    return 2 * np.eye(3)[[0, 1, 2, 0, 1, 2]], np.array([1, 2, 0, 2, 0, 1])


def rows_without_information(seed, n_rows=20, size=2.0):
    generator = np.random.default_rng(seed)
    return size * generator.normal(size=(n_rows, 3)), generator.integers(0, 3, n_rows)


@pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")
@pytest.mark.parametrize(
    "rows",
    [
        rows_that_are_all_wrong(),
        *(rows_without_information(seed) for seed in range(6)),
        *(rows_without_information(seed, n_rows, 1e6) for seed, n_rows in ((0, 20), (1, 300))),
    ],
)
@pytest.mark.parametrize("loss", LOSSES)
def test_rows_that_say_nothing_end_no_higher_than_one_temperature(rows, loss):
    """By the same loss, on the rows themselves; the best temperature may lie at the flat end, or beyond."""
    given_rows, labels = logits_of(rows[0]), rows[1]
    fitted = ParameterizedTemperatureScaling(loss=loss).fit(given_rows, labels)
    single = TemperatureScaling(loss).fit(given_rows, labels)
    assert fitted.solution_.loss <= single.solution_.loss * (1 + 1e-9)
    assert own_loss(fitted, given_rows, labels) == pytest.approx(fitted.solution_.loss, rel=1e-9)


def test_rows_far_outside_the_calibration_rows():
    """They are treated like the outermost rows, and no loss is infinite."""
    logits, labels, _ = rows_of_two_kinds(500)
    fitted = ParameterizedTemperatureScaling(weight_decay=1e-3, loss="log").fit(logits_of(logits), labels)
    known = fitted.temperatures(logits_of(logits))
    far = logits_of(np.vstack([1e3 * np.eye(4), -1e3 * np.eye(4), 1e6 * np.eye(4), np.zeros((1, 4))]))
    temperatures = fitted.temperatures(far)
    assert (temperatures > 0.5 * known.min()).all()
    assert (temperatures < 2 * known.max()).all()
    np.testing.assert_allclose(temperatures[:4], temperatures[8:12], rtol=1e-12)
    assert np.isfinite(fitted.transform(far).log_probabilities).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_that_are_all_right_have_no_best_temperature(loss):
    """The steepest that bounds allow: a fifth of the temperature that was given, which is 1."""
    logits, _, _ = rows_of_two_kinds(200)
    with pytest.warns(ConvergenceWarning, match="all right, .* it stays at 1, and more rows would tell"):
        fitted = ParameterizedTemperatureScaling(loss=loss).fit(logits_of(logits), logits.argmax(axis=1))
    assert fitted.temperature_ == 1.0
    assert fitted.temperatures(logits_of(logits)).min() >= 0.2 * (1 - 1e-12)
    assert fitted.solution_.loss <= fitted.solution_.identity_loss


@pytest.mark.parametrize("loss", LOSSES)
def test_two_rows(loss):
    """One right, one wrong, at the same confidence: even odds, or nearly so, are best."""
    with pytest.warns(ConvergenceWarning, match="say nothing, .* nearly uniform, and more rows would tell"):
        fitted = ParameterizedTemperatureScaling(loss=loss).fit([[0.9, 0.1], [0.9, 0.1]], [0, 1])
    calibrated = fitted.predict_proba([[0.9, 0.1]])
    assert 0.5 < calibrated[0, 0] < 0.9


def test_one_row_and_labels_that_are_all_equal_are_refused():
    for p, y in (([[0.9, 0.1]], [0]), ([[0.9, 0.1]] * 5, [0] * 5)):
        with pytest.raises(LabelError, match="at least two classes"):
            ParameterizedTemperatureScaling().fit(p, y)


@pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")
@pytest.mark.parametrize("inputs", ["gaps", "logits", "entropy"])
def test_constant_logits(inputs):
    """All rows equal: inputs that do not vary; all classes equal: no temperature matters."""
    labels = np.array([0, 0, 1, 0, 2, 0])
    calibrator = ParameterizedTemperatureScaling(inputs=inputs, loss="log")
    equal_rows = logits_of(np.tile([2.0, 0.0, 0.0], (6, 1)))
    np.testing.assert_allclose(
        calibrator.fit(equal_rows, labels).predict_proba(equal_rows),
        np.tile([4, 1, 1], (6, 1)) / 6,
        atol=1e-6,
    )
    equal_classes = logits_of(np.full((6, 3), 7.0))
    np.testing.assert_allclose(
        calibrator.fit(equal_classes, labels).predict_proba(equal_classes), 1 / 3, rtol=1e-12
    )


@pytest.fixture(scope="module")
def high_temperatures():
    """A map that divides logits by ten or more, and so makes the smallest differences zero."""
    logits, labels, _ = rows_of_two_kinds(200)
    calibrator = ParameterizedTemperatureScaling((3,), weight_decay=1e-3, restarts=1)
    return calibrator.fit(logits_of(20 * logits), labels)


def narrow_leads(size):
    """Rows of which the second class is one rounding step above or below the first, or equal, and the largest."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(3000, 4)).astype(np.float32)
    rows[:, 0] = np.abs(rows).max(axis=1) + 1
    rows *= np.float32(size)
    rows[0::3, 1] = np.nextafter(rows[0::3, 0], np.float32(-np.inf))
    rows[1::3, 1] = rows[1::3, 0]
    rows[2::3, 1] = np.nextafter(rows[2::3, 0], np.float32(np.inf))
    return rows[:, generator.permutation(4)]


@pytest.mark.parametrize("size", [1.0, 1e3, 1e-8, 1e-42])
def test_narrow_leads_keep_their_arg_max_in_float32(high_temperatures, size):
    """Down to denormal logits, whose quotients are zero: every way to ask names the class that led."""
    rows = narrow_leads(size)
    leaders = rows.argmax(axis=1)
    assert len(np.unique(leaders)) == 2
    assert high_temperatures.temperatures(logits_of(rows)).min() > 4
    np.testing.assert_array_equal(high_temperatures.transform(logits_of(rows)).predicted, leaders)
    np.testing.assert_array_equal(high_temperatures.transform(logits_of(rows)).scores.argmax(axis=1), leaders)
    np.testing.assert_array_equal(high_temperatures.predict(logits_of(rows)), leaders)
    np.testing.assert_array_equal(high_temperatures.predict_proba(logits_of(rows)).argmax(axis=1), leaders)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_thousand_classes(dtype):
    """Losses come from a table; they are the true ones to the digits that matter, and float32 stays float32."""
    generator = np.random.default_rng(0)
    logits = generator.normal(scale=2.5, size=(400, 1000)).astype(dtype)
    labels = (logits / 1.5 + generator.gumbel(size=logits.shape)).argmax(axis=1)
    labels[:2] = logits[:2].argmax(axis=1)
    calibrator = ParameterizedTemperatureScaling((3,), loss="log", weight_decay=1e-4, restarts=1)
    data = LabelledPredictions.parse(logits_of(logits), labels)
    fitted = calibrator.fit_labelled(data, warn_of_absent=False)
    calibrated = fitted.transform(logits_of(logits))
    assert calibrated.scores.dtype == dtype
    own = calibrated.log_probabilities[np.arange(400), labels].astype(np.float64)
    assert fitted.solution_.loss == pytest.approx(-own.mean(), rel=1e-6)
    single = TemperatureScaling().fit_labelled(data, warn_of_absent=False)
    assert fitted.solution_.loss < single.solution_.loss - 1e-4


@pytest.mark.parametrize(("n_classes", "n_inputs"), [(2, 1), (3, 2), (10, 9), (15, 9)])
def test_the_number_of_inputs(n_classes, n_inputs):
    """Ten largest, or all classes if there are fewer; the largest itself lies nowhere below the largest."""
    logits, labels, _ = rows_of_two_kinds(100, n_classes)
    labels[:n_classes] = np.arange(n_classes)
    for inputs, width in (("gaps", n_inputs), ("logits", min(n_classes, 10)), ("entropy", 1)):
        fitted = ParameterizedTemperatureScaling(inputs=inputs, weight_decay=0.1)
        fitted.fit(logits_of(logits), labels)
        assert [weights.shape for weights in fitted.weights_] == [(width, 5), (5, 5), (5, 1)]
        assert fitted.input_means_.shape == fitted.input_scales_.shape == (width,)
        assert fitted.input_ranges_.shape == (2, width)
    assert ParameterizedTemperatureScaling(top_k=2).fit(logits_of(logits), labels).input_means_.shape == (1,)


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrationWarning")
@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=12)
@given(rows=problems(), seed=st.integers(0, 3), decay=st.sampled_from([0.0, 1e-2, "auto"]))
def test_the_own_loss_is_never_above_that_of_doing_nothing(loss, rows, seed, decay):
    """Rows with zeros, ones and ties, few of them; temperatures stay within bounds, and the arg-max where it was."""
    calibrator = ParameterizedTemperatureScaling(
        (2,), loss=loss, weight_decay=decay, restarts=1, max_iterations=20, random_state=seed
    ).fit(*rows)
    solution = calibrator.solution_
    assert solution.loss <= solution.identity_loss * (1 + 1e-9)
    assert solution.value >= solution.loss
    temperatures = calibrator.temperatures(rows.probabilities) / calibrator.temperature_
    assert (temperatures >= 0.2 * (1 - 1e-12)).all()
    assert (temperatures <= 5 * (1 + 1e-12)).all()
    np.testing.assert_array_equal(calibrator.predict(rows.probabilities), rows.probabilities.argmax(axis=1))

"""Intervals, temperatures and the like take a zero as the floor of the calibration set, whatever other rows hold."""

import numpy as np
import pytest
from methods import problem

from calibrant import LabelShift, OneVsRest, PlattScaling, Predictions, WithIntervals, registry

CERTAIN = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
WITH_A_TINY_NUMBER = np.vstack([CERTAIN, [[1 - 1e-300, 1e-300, 0.0]]])

OUTPUTS = {
    "intervals of platt": (WithIntervals(PlattScaling()), "predict_interval"),
    "intervals of dirichlet": (WithIntervals(registry.make("dirichlet")), "predict_interval"),
    "draws of vector": (WithIntervals(registry.make("vector")), "draws"),
    "intervals of gp-monotone": (registry.make("gp-monotone", n_inducing=4), "predict_interval"),
    "intervals of venn-abers": (registry.make("venn-abers"), "predict_interval"),
    "temperatures of pts": (registry.make("pts", random_state=0), "temperatures"),
    "pooled probabilities": (registry.make("irm"), "pooled_probabilities"),
    "class probabilities": (OneVsRest(PlattScaling()), "class_probabilities"),
}


@pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if "gp" in name else []) for name in OUTPUTS],
)
def test_other_outputs_do_not_depend_on_the_rows_beside(name):
    calibrator, method = OUTPUTS[name]
    output = getattr(calibrator.fit(*problem(3)), method)
    alone, together = np.asarray(output(CERTAIN)), np.asarray(output(WITH_A_TINY_NUMBER))
    of_both = together[:2] if together.ndim == 1 else together[..., :2, :]
    np.testing.assert_allclose(of_both.reshape(alone.shape), alone, rtol=0, atol=1e-14)


def test_the_interval_of_a_certain_row_is_that_of_the_floor():
    """On the log-odds the half-width is z |x| with x = (s, 1) in the norm of the covariance; s is cut at the floor."""
    rows = problem(2)
    fitted = WithIntervals(PlattScaling(), covariance="model").fit(*rows)
    low, high = fitted.predict_interval([[1.0, 0.0]])
    half_width = np.log(high / low)[0, 1] / 2  # of so small a probability, the log-odds are the logarithm
    score = np.log(fitted.floor_)
    covariance = fitted.factor_ @ fitted.factor_.T
    x = np.array([score, 1.0])
    assert half_width == pytest.approx(1.959964 * np.sqrt(x @ covariance @ x), rel=1e-3)


def test_estimated_shares_take_a_zero_as_the_floor():
    rows = problem(3)
    fitted = LabelShift("temperature").fit(*rows)
    target = np.vstack([rows.probabilities[:50], CERTAIN])
    with_floor = Predictions.from_probabilities(target, floor=fitted.floor_)
    np.testing.assert_array_equal(fitted.estimate(target).prior, fitted.estimate(with_floor).prior)


def coarse_rows_without_class_2():
    """Multiples of about a tenth, whose zeros have a floor far above 1 / (n + 2)."""
    X, y = problem(4)
    X, y = X[y != 2], y[y != 2]
    X = np.round(10 * X) + np.eye(4)[X.argmax(axis=1)]
    return X / X.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("name", ["intervals of platt", "intervals of dirichlet", "intervals of venn-abers"])
@pytest.mark.filterwarnings("ignore::calibrant.errors.MissingClassWarning")
def test_the_interval_of_an_absent_class_is_its_prediction(name):
    X, y = coarse_rows_without_class_2()
    fitted = OUTPUTS[name][0].fit(X, y)
    lower, upper = fitted.predict_interval(X)
    np.testing.assert_allclose(lower[:, 2], fitted.predict_proba(X)[:, 2], rtol=1e-12)
    np.testing.assert_array_equal(lower[:, 2], upper[:, 2])


@pytest.mark.filterwarnings("ignore::calibrant.errors.MissingClassWarning")
def test_the_separate_probability_of_an_absent_class_is_its_prediction():
    X, y = coarse_rows_without_class_2()
    fitted = OneVsRest(PlattScaling()).fit(X, y)
    np.testing.assert_allclose(fitted.class_probabilities(X)[:, 2], fitted.predict_proba(X)[:, 2], rtol=1e-12)

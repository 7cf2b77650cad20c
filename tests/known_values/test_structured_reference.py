"""Structured scaling against its published objective, naively minimised, and against figures of published programs."""

from functools import cache

import numpy as np
import pytest
from reference_split import figures, halves_of
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from calibrant import Predictions, StructuredScaling, TemperatureScaling
from calibrant.registry import make
from data import load


@cache
def loss_of(name, network):
    """Return the log-loss of the test half after a fit to the other."""
    calibration, labels, test, test_labels = halves_of(network)
    return figures(make(name).fit(calibration, labels).predict_proba(test), test_labels).log_loss


def naive_optimum(p, labels, class_terms):
    """Return the published objective at its minimum: temperature, mixing, then BFGS from zero."""
    n_rows, n_classes = p.shape
    rows = np.arange(n_rows)
    z = np.log(p)

    def tempered_loss(logarithm):
        scores = np.exp(logarithm[0]) * z
        return (logsumexp(scores, axis=1) - scores[rows, labels]).mean()

    a = np.exp(minimize(tempered_loss, [0.0], method="BFGS", options={"gtol": 1e-9}).x[0])
    x = np.log(n_rows / (n_rows + 1) * softmax(a * z, axis=1) + 1 / (n_rows + 1) / n_classes)
    prices = np.full((n_classes, n_classes), float(n_classes * (n_classes - 1)))
    np.fill_diagonal(prices, n_classes)
    moving = np.ones((n_classes, n_classes)) if class_terms == "matrix" else np.eye(n_classes)

    def objective(theta):
        weights = theta[: n_classes**2].reshape(n_classes, n_classes) * moving
        intercept = theta[n_classes**2 :]
        scores = x + x @ weights.T + intercept
        residuals = softmax(scores, axis=1)
        residuals[rows, labels] -= 1
        loss = (logsumexp(scores, axis=1) - scores[rows, labels]).mean()
        price = ((prices * weights**2).sum() + n_classes * (intercept**2).sum()) / n_rows
        of_weights = moving * (residuals.T @ x / n_rows + 2 * prices * weights / n_rows)
        of_intercept = residuals.mean(axis=0) + 2 * n_classes * intercept / n_rows
        return loss + price, np.concatenate([of_weights.ravel(), of_intercept])

    start = np.zeros(n_classes * (n_classes + 1))
    return minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 2000}).fun


@pytest.mark.parametrize("class_terms", ["vector", "matrix"])
@pytest.mark.parametrize("network", ["c10_wideresnet_16_4", "c10_lenet_5"])
def test_without_the_shared_map_the_optimum_is_that_of_the_published_objective(class_terms, network):
    calibration, labels, _, _ = halves_of(network)
    p = calibration[:1500] / calibration[:1500].sum(axis=1, keepdims=True)
    fitted = StructuredScaling(class_terms, shared_map=False).fit(p, labels[:1500])
    assert fitted.solution_.value == pytest.approx(naive_optimum(p, labels[:1500], class_terms), abs=1e-7)


@pytest.mark.parametrize(
    ("name", "network", "published"),
    [
        ("structured-vector", "c10_wideresnet_16_4", 0.230609),
        ("structured-matrix", "c10_wideresnet_16_4", 0.227212),
        ("structured-vector", "c100_wideresnet_16_4", 0.945221),
        ("structured-matrix", "c100_wideresnet_16_4", 0.939753),
    ],
)
def test_the_authors_program_on_the_same_halves(name, network, published):
    """Its test log-loss with default settings; the objective is the same, the solver is not."""
    assert loss_of(name, network) == pytest.approx(published, abs=1e-4)


def test_the_best_published_figures_are_reached():
    """To the four digits that they were given with."""
    assert round(loss_of("structured-matrix", "c10_wideresnet_16_4"), 4) <= 0.2272
    assert round(loss_of("structured-matrix", "c100_wideresnet_16_4"), 4) <= 0.9398
    assert loss_of("shared-map", "c100_wideresnet_16_4") <= 0.9136


@pytest.mark.parametrize("network", ["c10_wideresnet_16_4", "c100_wideresnet_16_4"])
def test_the_shared_map_improves_all_that_it_is_added_to(network):
    assert loss_of("shared-map", network) < loss_of("temperature", network)
    assert loss_of("shared-vector", network) < loss_of("structured-vector", network)
    assert loss_of("shared-matrix", network) < loss_of("structured-matrix", network)


@pytest.mark.parametrize("network", ["c10_convnet", "c10_resnet110", "c10_densenet40"])
def test_on_logits_of_other_networks_it_is_about_the_temperature_or_better(network):
    """These are well served by one temperature: nothing is lost by more than a hundredth."""
    arrays = load(f"kull_nn/{network}")
    given, test = (Predictions.from_logits(arrays[f"{part}_logits"]) for part in ("val", "test"))
    losses = [
        figures(calibrator.fit(given, arrays["val_y"]).predict_proba(test), arrays["test_y"]).log_loss
        for calibrator in (StructuredScaling(class_terms="vector"), TemperatureScaling())
    ]
    assert losses[0] < 1.01 * losses[1]

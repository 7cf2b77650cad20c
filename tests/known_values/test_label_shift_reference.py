"""Label shift on outputs of published networks: log-loss after correction against that with the true shares."""

import numpy as np
import pytest
from reference_split import halves_of

from calibrant import (
    BiasCorrectedTemperature,
    Chain,
    LabelShift,
    PriorShift,
    TemperatureScaling,
    VectorScaling,
)
from calibrant.metrics import log_loss
from data import load

METHODS = ["em", "confusion", "confusion-soft"]


def drawn(labels, shares, n_rows, generator):
    """Return row numbers with classes of these shares, drawn with replacement."""
    counts = generator.multinomial(n_rows, shares)
    rows = [generator.choice(np.flatnonzero(labels == k), count) for k, count in enumerate(counts)]
    return np.concatenate(rows)


@pytest.fixture(scope="module")
def demo():
    arrays = load("other/labelshift_demo")
    return arrays["val_probs"], arrays["val_y"], arrays["test_probs"], arrays["test_y"]


def test_the_shares_of_the_demonstration_are_found_and_most_of_the_loss_is_gone(demo):
    """97 % of the target are class 3: log-loss 0.84 as given, 0.52 calibrated on the source, 0.019 with the true shares."""
    p, y, target, labels = demo
    shares = np.bincount(labels, minlength=10) / len(labels)
    fitted = LabelShift().fit(p, y)
    estimate = fitted.estimate(target)
    assert ((estimate.lower <= shares) & (shares <= estimate.upper)).all()
    assert np.abs(estimate.prior - shares).sum() < 0.01
    assert estimate.p_value > 0.01
    oracle = Chain([BiasCorrectedTemperature(), PriorShift(shares)]).fit(p, y)
    best = log_loss(labels, oracle.transform(target))
    assert log_loss(labels, target) == pytest.approx(0.840, abs=1e-3)
    assert log_loss(labels, fitted.transform(target)) == pytest.approx(0.518, abs=1e-3)
    assert best == pytest.approx(0.0189, abs=1e-4)
    assert log_loss(labels, fitted.adapt(target).transform(target)) < best + 0.01


def test_every_step_of_the_authors_algorithm_leads_to_the_estimate(demo):
    """Their program takes at most 100 steps; by then it is within a thousandth of the end, and on its way there."""
    p, y, target, _ = demo
    fitted = LabelShift(n_groups=0).fit(p, y)
    end = fitted.estimate(target).prior
    q, source = fitted.predict_proba(target).astype(np.float64), fitted.source_prior_
    prior, distances = source, []
    for step in range(2000):
        ratios = q * prior / source
        prior = (ratios / ratios.sum(axis=1, keepdims=True)).mean(axis=0)
        if step in (9, 99, 1999):
            distances.append(np.abs(prior - end).sum())
    assert distances[0] > distances[1] > distances[2]
    assert distances[1] < 2e-3
    assert distances[2] < 1e-4


@pytest.mark.parametrize("method", METHODS)
def test_confusion_matrices_are_behind_the_likelihood_but_far_ahead_of_nothing(method, demo):
    p, y, target, labels = demo
    fitted = LabelShift(method=method, n_groups=0).fit(p, y)
    assert log_loss(labels, fitted.adapt(target).transform(target)) < 0.04


@pytest.mark.parametrize("network", ["c10_lenet_5", "c10_wideresnet_16_4"])
def test_on_shifts_of_the_literature_the_loss_is_close_to_that_of_the_true_shares(network):
    """Shares from Dirichlet distributions, from nearly one class to nearly equal, 2,000 rows of the other half each.

    Nearly equal shares, the last ones, leave little to gain, and errors of the source rows and of the form of the
    calibrator, which more target rows do not mend, take a good part of that: there only no harm is asked for.
    """
    halves = halves_of(network)
    fitted = LabelShift(n_groups=0).fit(halves.calibration, halves.labels)
    for concentration in (0.1, 1.0, 10.0):
        nothing, adapted, oracle, errors = [], [], [], []
        for seed in range(5):
            generator = np.random.default_rng([seed, int(10 * concentration)])
            shares = generator.dirichlet(np.full(10, concentration))
            rows = drawn(halves.test_labels, shares, 2000, generator)
            target, labels = halves.test[rows], halves.test_labels[rows]
            q = fitted.predict_proba(target)
            ideal = q * np.maximum(shares, 1e-12) / fitted.source_prior_
            nothing.append(log_loss(labels, q))
            adapted.append(log_loss(labels, fitted.adapt(target).transform(target)))
            oracle.append(log_loss(labels, ideal / ideal.sum(axis=1, keepdims=True)))
            errors.append(np.abs(fitted.estimate(target).prior - shares).sum())
        gain, possible = np.mean(nothing) - np.mean(adapted), np.mean(nothing) - np.mean(oracle)
        assert gain > (0.85 if concentration <= 1 else 0.0) * possible, f"Dirichlet({concentration:g})"
        assert np.mean(errors) < 0.15


def test_an_uncorrected_bias_is_taken_for_a_shift():
    """A temperature alone leaves classes that are predicted too often; with label shares the source itself looks shifted."""
    halves = halves_of("c10_lenet_5")
    biased = LabelShift("temperature", source_prior="labels", n_groups=0).fit(
        halves.calibration, halves.labels
    )
    corrected = LabelShift(n_groups=0).fit(halves.calibration, halves.labels)
    shares = np.bincount(halves.labels) / len(halves.labels)
    assert np.abs(corrected.estimate(halves.calibration).prior - shares).sum() < 1e-4
    assert np.abs(biased.estimate(halves.calibration).prior - shares).sum() > 0.02


def test_bias_corrected_temperature_lies_between_a_temperature_and_vector_scaling():
    """Its family contains the first and is contained in the second, and so are the optimal losses on the same rows."""
    halves = halves_of("c10_wideresnet_16_4")
    rows = halves.calibration, halves.labels
    losses = [
        method.fit(*rows).solution_.loss
        for method in (VectorScaling(), BiasCorrectedTemperature(), TemperatureScaling())
    ]
    assert losses[0] < losses[1] < losses[2]

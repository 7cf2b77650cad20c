"""Bayesian binning on the softmax outputs of a wide residual network, CIFAR-10, beside published programs.

The figures of the programs were computed elsewhere by the programs themselves; here their rules are written out
again and give the same digits, so that it is known which rule makes which difference.
"""

import numpy as np
import pytest
from reference_split import figures
from scipy.special import gammaln, logsumexp

from calibrant import BayesianBinning, TemperatureScaling, registry
from calibrant.metrics import brier_score, log_loss

K = 10


def one_vs_rest(binary, halves):
    """Map every class by itself, in each variant of a program, and divide by the sums over classes."""
    calibration, labels, test, _ = halves
    columns = [binary(calibration[:, k], labels == k, test[:, k]) for k in range(K)]
    separate = {name: np.column_stack([column[name] for column in columns]) for name in columns[0]}
    return {name: values / values.sum(axis=1, keepdims=True) for name, values in separate.items()}


def numbers_of_bins(n_rows):
    return range(1, int(min(np.ceil(n_rows / 5), np.ceil(10 * n_rows ** (1 / 3)))) + 1)


def wenger_program(scores, outcomes, queries):
    """Quantiles as edges, bins [a, b) in fit and (a, b] in prediction, where zero wraps round to the last bin.

    Corrected, prediction has the bins of the fit; with posterior means besides, the values are the paper's.
    """
    evidences = []
    predictions = {"as it is": [], "corrected": [], "with posterior means": []}
    tiny = np.finfo(np.float64).tiny
    for n_bins in numbers_of_bins(len(scores)):
        edges = np.quantile(scores, np.linspace(0, 1, n_bins + 1))
        edges[0], edges[-1] = 0, 1
        edges = np.maximum.accumulate(edges)
        middle = (edges[1:] + edges[:-1]) / 2
        index = np.minimum(np.digitize(scores, edges), n_bins) - 1
        rows = np.bincount(index, minlength=n_bins)
        events = np.bincount(index, outcomes, minlength=n_bins)
        alpha = np.where(middle == 0, tiny, 2 / n_bins * middle)
        beta = np.where(middle == 1, tiny, 2 / n_bins * (1 - middle))
        posterior = gammaln(events + alpha) + gammaln(rows - events + beta) - gammaln(rows + 2 / n_bins)
        prior = gammaln(alpha) + gammaln(beta) - gammaln(2 / n_bins)
        evidences.append((posterior - prior).sum())
        accuracy = np.where(rows > 0, events / np.maximum(rows, 1), middle)
        own = np.minimum(np.digitize(queries, edges), n_bins) - 1
        predictions["as it is"].append(accuracy[np.searchsorted(edges, queries) - 1])
        predictions["corrected"].append(accuracy[own])
        predictions["with posterior means"].append(((events + alpha) / (rows + 2 / n_bins))[own])
    weights = np.exp(np.array(evidences) - logsumexp(evidences))
    return {name: weights @ np.array(models) for name, models in predictions.items()}


def netcal_program(scores, outcomes, queries):
    """Bins of equal width, weights by the Bayesian information criterion, and only models above an elbow."""
    smallest = np.finfo(np.float64).eps
    counts = np.array(numbers_of_bins(len(scores)))
    fits, predictions = [], []
    for n_bins in counts:
        edges = np.linspace(0, 1, n_bins + 1)
        index = np.digitize(np.clip(scores, smallest, 1 - smallest), edges) - 1
        rows = np.bincount(index, minlength=n_bins)
        events = np.bincount(index, outcomes, minlength=n_bins)
        heights = np.where(rows > 0, events / np.maximum(rows, 1), (edges[1:] + edges[:-1]) / 2)
        own, new = (
            heights[np.clip(np.digitize(given, edges, right=True) - 1, 0, n_bins - 1)]
            for given in (scores, queries)
        )
        own = np.clip(own, smallest, 1 - smallest)
        fits.append(np.log(np.where(outcomes, own, 1 - own)).sum())
        predictions.append(new)
    criterion = -2 * np.array(fits) + counts * np.log(len(scores))
    weights = np.exp((criterion.min() - criterion) / 2)
    order = np.argsort(weights)[::-1]
    drops = -np.diff(weights[order])
    kept = 1
    while drops[kept - 1] == 0 or drops[kept - 1] / weights.var() > 0.001:
        kept += 1
    weights = weights[order[:kept]] / weights[order[:kept]].sum()
    return {"as it is": weights @ np.array(predictions)[order[:kept]]}


@pytest.fixture(scope="module")
def wenger(halves):
    return one_vs_rest(wenger_program, halves)


@pytest.mark.parametrize("variant", ["as it is", "corrected"])
def test_the_rules_of_wengers_program_give_its_figures(halves, wenger, variant):
    """No score of these rows is zero and few lie on edges, so that the correction does not show.

    The log-loss without a clip hangs on models of weight 1e-270 that have an event where all others have none.
    """
    expected = ("0.52097 (0.29857)", "0.12073", "0.00938", "0.005278", "0.9160")
    assert figures(wenger[variant], halves.test_labels).printed() == expected


def test_what_its_index_does_to_a_score_of_zero():
    """Calibrated scores in steps of 1/20: a zero gets the value of the last bin, but not when corrected, nor here."""
    generator = np.random.default_rng(0)
    scores = generator.integers(0, 21, 2000) / 20
    outcomes = generator.random(2000) < scores
    program = wenger_program(scores, outcomes, np.array([0.0, 1e-12]))
    assert program["as it is"][0] > 0.9
    assert program["as it is"][1] < 0.05
    assert (program["corrected"] < 0.05).all()
    fitted = BayesianBinning(value="accuracy").fit(scores, outcomes)
    assert (fitted.predict_proba([0.0, 1e-12])[:, 1] < 0.05).all()


def test_the_rules_of_netcal_give_its_figures(halves):
    """Another method under the same name: bins of equal width, and an information criterion for the evidence."""
    rows = one_vs_rest(netcal_program, halves)["as it is"]
    expected = ("0.36648", "0.13729", "0.02887", "0.006617", "0.9172")
    assert figures(rows, halves.test_labels).printed() == expected


def test_ours_with_raw_accuracies_is_near_that_program(halves):
    """Edges between neighbours in place of interpolated quantiles move single rows from bin to bin.

    A model's evidence turns on such rows, so that other models of about the same quality have the weight: the
    Brier score differs by a hundredth of itself, the errors by three thousandths of probability at most.
    """
    calibration, labels, test, test_labels = halves
    fitted = BayesianBinning(value="accuracy").fit(calibration, labels)
    found = figures(fitted.predict_proba(test), test_labels)
    assert found.log_loss == pytest.approx(0.52097, abs=2e-3)
    assert found.clipped_log_loss == pytest.approx(0.29857, abs=1e-3)
    assert found.brier_score == pytest.approx(0.12073, abs=1.2e-3)
    assert found.confidence_ece == pytest.approx(0.00938, abs=3e-3)
    assert found.classwise_ece == pytest.approx(0.005278, abs=3e-4)
    assert found.accuracy == pytest.approx(0.9160, abs=2e-3)


def test_the_posterior_mean_costs_no_calibration_and_saves_log_loss(halves, wenger):
    """As in the paper; the program's quantiles with posterior means have 0.27540, and so have ours within 0.001."""
    calibration, labels, test, test_labels = halves
    assert log_loss(test_labels, wenger["with posterior means"]) == pytest.approx(0.27540, abs=5e-6)
    ours, raw = (
        figures(BayesianBinning(value).fit(calibration, labels).predict_proba(test), test_labels)
        for value in ("posterior-mean", "accuracy")
    )
    assert ours.log_loss == pytest.approx(0.27540, abs=1e-3)
    assert ours.log_loss == ours.clipped_log_loss
    np.testing.assert_allclose(ours[2:], raw[2:], atol=1e-4)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bbq", ("0.25259", "0.11815", "0.01046", "0.005298", "0.9200")),
        ("bbq-paper", ("0.27489", "0.11960", "0.01211", "0.005497", "0.9178")),
    ],
)
def test_figures_of_the_names_in_the_registry(halves, name, expected):
    """Our own, as they are in the documentation: "bbq" has the prior of the authors' program, the other the paper's."""
    calibration, labels, test, test_labels = halves
    fitted = registry.make(name).fit(calibration, labels)
    assert figures(fitted.predict_proba(test), test_labels).printed() == expected


def test_the_name_of_the_paper_has_the_defaults_of_the_class():
    assert registry.make("bbq-paper").get_params() == BayesianBinning().get_params()


def test_a_prior_for_each_bin_is_better_still(halves):
    """Two pseudo-rows in each bin with means from 0.005 to 0.995, the prior of the authors' own program."""
    calibration, labels, test, test_labels = halves
    paper, smooth, temperature = (
        log_loss(test_labels, calibrator.fit(calibration, labels).transform(test))
        for calibrator in (
            BayesianBinning(),
            BayesianBinning(prior_weight_per="bin", prior_margin=0.005),
            TemperatureScaling(),
        )
    )
    assert smooth < temperature < paper


def test_the_average_is_better_than_the_best_model(halves):
    calibration, labels, test, test_labels = halves
    average, best = (
        BayesianBinning(model_averaging=which).fit(calibration, labels).predict_proba(test)
        for which in ("all", "best")
    )
    assert log_loss(test_labels, average) < log_loss(test_labels, best)
    assert brier_score(test_labels, average) < brier_score(test_labels, best)

"""The monotone sweep against trying one number of bins after the other."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant import Predictions
from calibrant.binning import EqualMass, EqualWidth
from calibrant.errors import ParameterError
from calibrant.metrics import classwise_ece, confidence_ece, sweep
from calibrant.metrics.sweep import ece_sweep, sweep_n_bins
from data import load
from strategies import problems

STRATEGIES = ["quantile", "uniform"]
WEIGHTS = st.one_of(st.none(), hnp.arrays(np.float64, 14, elements=st.integers(1, 5).map(float)))


def naive_n_bins(scores, outcomes, weights, strategy):
    """Go through numbers of bins, and through the filled bins of each."""
    scheme = EqualMass if strategy == "quantile" else EqualWidth
    n_distinct = len(np.unique(scores))
    for n_bins in range(1, n_distinct + 1):
        index = scheme(n_bins)(scores, weights).index(scores)
        means = [np.average(outcomes[index == b], weights=weights[index == b]) for b in np.unique(index)]
        if any(after < before - 1e-9 for before, after in pairwise(means)):
            return n_bins - 1
    return n_distinct


@given(problem=problems(), weights=WEIGHTS, strategy=st.sampled_from(STRATEGIES))
def test_numbers_of_bins_are_those_of_a_loop(problem, weights, strategy):
    probabilities, labels = problem
    weights = np.ones(len(labels)) if weights is None else weights[: len(labels)]
    arguments = {"sample_weight": weights, "strategy": strategy}
    right = probabilities.argmax(axis=1) == labels
    assert sweep_n_bins(labels, probabilities, **arguments).tolist() == [
        naive_n_bins(probabilities.max(axis=1), right, weights, strategy)
    ]
    assert sweep_n_bins(labels, probabilities, kind="classwise", **arguments).tolist() == [
        naive_n_bins(column, labels == k, weights, strategy) for k, column in enumerate(probabilities.T)
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(6))
def test_numbers_of_bins_are_those_of_a_loop_on_more_rows(strategy, dtype, seed):
    """Few and many ties, scores spread and crowded, with and without weights."""
    generator = np.random.default_rng(seed)
    scores = generator.beta(0.5 + seed, 1.0, 300).round(2 + seed % 3).astype(dtype)
    labels = (generator.random(300) < scores ** (1 + seed)).astype(int)
    weights = np.ones(300) if seed % 2 else generator.random(300)
    result = sweep_n_bins(labels, scores, sample_weight=weights, kind="positive", strategy=strategy)
    assert result.tolist() == [naive_n_bins(scores, labels, weights, strategy)]


@given(problem=problems(), strategy=st.sampled_from(STRATEGIES), norm=st.sampled_from([1, 2, 3.5, "max"]))
def test_the_value_is_that_of_so_many_bins(problem, strategy, norm):
    probabilities, labels = problem
    (n_bins,) = sweep_n_bins(labels, probabilities, strategy=strategy)
    expected = confidence_ece(labels, probabilities, n_bins=int(n_bins), strategy=strategy, norm=norm)
    assert ece_sweep(labels, probabilities, strategy=strategy, norm=norm) == pytest.approx(expected, abs=1e-9)
    errors = [
        classwise_ece(
            labels, probabilities, n_bins=int(n_bins), strategy=strategy, norm=norm, reduction="none"
        )[k]
        for k, n_bins in enumerate(sweep_n_bins(labels, probabilities, kind="classwise", strategy=strategy))
    ]
    result = ece_sweep(labels, probabilities, kind="classwise", strategy=strategy, norm=norm)
    assert result == pytest.approx(np.mean(errors), abs=1e-9)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_looking_only_around_falls_finds_the_same_as_looking_everywhere(strategy, monkeypatch):
    """Outcomes that are sorted but for some swapped places, so that many numbers of bins pass."""
    for seed in range(30):
        generator = np.random.default_rng(seed)
        scores = generator.random(400).round(3 if seed % 2 else 16)
        labels = (scores > 0.4).astype(int)
        near = np.flatnonzero(np.abs(scores - 0.4) < 0.002 * (1 + seed))
        labels[near] = generator.integers(0, 2, len(near))
        weights = None if seed % 3 else generator.random(400)
        found = []
        for cuts_per_search in (1e-9, 1e9):
            monkeypatch.setattr(sweep, "CUTS_PER_SEARCH", cuts_per_search)
            found.append(
                sweep_n_bins(labels, scores, sample_weight=weights, kind="positive", strategy=strategy)
            )
        assert found[0] == found[1]


def test_two_bins_and_no_more():
    """Right, wrong, right, right: halves have means 1/2 and 1; thirds {1}, {2, 3}, {4} begin with 1 and 1/2.

    The gaps of the halves are 0.65 - 0.5 and 1 - 0.85.
    """
    probabilities = [[0.6, 0.4], [0.7, 0.3], [0.8, 0.2], [0.9, 0.1]]
    assert sweep_n_bins([0, 1, 0, 0], probabilities).tolist() == [2]
    assert ece_sweep([0, 1, 0, 0], probabilities) == pytest.approx(0.15)


def test_outcomes_in_the_wrong_order_leave_one_bin():
    """The mean score equals the mean outcome."""
    assert sweep_n_bins([1, 0], [0.2, 0.8], kind="positive").tolist() == [1]
    assert ece_sweep([1, 0], [0.2, 0.8], kind="positive") == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_outcomes_in_order_give_a_bin_to_every_score(strategy):
    """A million rows, all right: as many bins as distinct scores, and any bins have the same gap."""
    scores = np.linspace(0.5, 0.99, 1_000_000)
    labels, probabilities = np.zeros(len(scores), dtype=int), np.column_stack([scores, 1 - scores])
    assert sweep_n_bins(labels, probabilities, strategy=strategy).tolist() == [len(scores)]
    assert ece_sweep(labels, probabilities, strategy=strategy) == pytest.approx(1 - scores.mean())


def test_one_misplaced_row_among_many_is_found_in_time():
    """Zeros, then 1, 0, then ones. A fall needs a cut between the two, beside a bin of one row.

    With n rows in B bins, bins of one row exist only for B > n / 2.
    """
    n_rows = 200_000
    labels = (np.arange(n_rows) > 60_000).astype(int)
    labels[[60_000, 60_001]] = 1, 0
    (n_bins,) = sweep_n_bins(labels, np.linspace(0, 1, n_rows), kind="positive")
    assert n_rows / 2 <= n_bins < n_rows


def test_the_authors_algorithm_finds_the_same_on_a_network():
    """Written anew from their program, with equal mass cut at ceil(n b / B), it gave 8 and 6 bins."""
    data = load("kull_nn/c10_resnet110")
    predictions = Predictions.from_logits(data["test_logits"].astype(np.float64))
    labels = data["test_y"].ravel()
    expected = {
        ("quantile", 1): 0.0475035083202225,
        ("quantile", 2): 0.09153234834679155,
        ("uniform", 1): 0.04750350832021841,
        ("uniform", 2): 0.05471260589313696,
    }
    for strategy, n_bins in (("quantile", 8), ("uniform", 6)):
        assert sweep_n_bins(labels, predictions, strategy=strategy).tolist() == [n_bins]
    for (strategy, norm), value in expected.items():
        assert ece_sweep(labels, predictions, strategy=strategy, norm=norm) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_only_ratios_of_weights_matter_and_they_count_rows(strategy):
    generator = np.random.default_rng(3)
    scores = generator.random(200).round(2)
    labels = (generator.random(200) < scores).astype(int)
    counts = generator.integers(1, 4, 200)
    for kind in ("positive", "confidence", "classwise"):
        arguments = {"kind": kind, "strategy": strategy}
        expected = ece_sweep(np.repeat(labels, counts), np.repeat(scores, counts), **arguments)
        for unit in (1.0, 0.1, 1e-200, 1e200):
            weighted = ece_sweep(labels, scores, sample_weight=unit * counts, **arguments)
            assert weighted == pytest.approx(expected, rel=1e-9)


def test_bad_options_are_refused():
    for arguments in ({"strategy": "kmeans"}, {"kind": "top"}):
        with pytest.raises(ParameterError, match=f"{next(iter(arguments))} must be"):
            sweep_n_bins([0, 1], [0.2, 0.7], **arguments)
    with pytest.raises(ParameterError, match="norm must be"):
        ece_sweep([0, 1], [0.2, 0.7], norm=0.5)


@pytest.mark.slow
def test_noise_alone_gives_less_than_with_fifteen_bins():
    """Two hundred calibrated rows, as the notes say: about 0.04 and 0.09."""
    generator = np.random.default_rng(0)
    swept, fifteen = [], []
    for _ in range(300):
        confidence = 0.5 + generator.random(200) / 2
        labels = (generator.random(200) > confidence).astype(int)
        probabilities = np.column_stack([confidence, 1 - confidence])
        swept.append(ece_sweep(labels, probabilities))
        fifteen.append(confidence_ece(labels, probabilities, strategy="quantile"))
    assert np.mean(swept) == pytest.approx(0.042, abs=4 * np.std(swept) / 300**0.5)
    assert np.mean(fifteen) == pytest.approx(0.086, abs=4 * np.std(fifteen) / 300**0.5)

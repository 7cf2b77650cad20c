"""Histogram binning: closed forms, the choice of the number of bins, smoothing, empty bins, and a naive second form."""

from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import HistogramBinning, OneVsRest, Predictions, registry
from calibrant import load as load_calibrator
from calibrant.binning import EqualMass, EqualWidth, FixedEdges
from calibrant.calibrators.binned.histogram import BinSearch, SmoothedFrequency, automatic_grid
from calibrant.errors import ParameterError
from data import load


def some_scores(n_rows=300, seed=0, decimals=None):
    """Over-confident scores of an event, with ties if they are rounded."""
    generator = np.random.default_rng(seed)
    p = generator.beta(0.4, 0.6, n_rows)
    p = p if decimals is None else p.round(decimals)
    y = generator.uniform(size=n_rows) < 0.2 + 0.5 * p
    y[:2] = [False, True]
    return p, y.astype(int)


def event(calibrator, p):
    return calibrator.predict_proba(p)[:, 1]


# Values


def test_laplace_in_four_bins():
    """(0 + 1)/(2 + 2), (1 + 1)/(2 + 2), an empty bin with its centre, (3 + 1)/(3 + 2)."""
    p = [0.0, 0.2, 0.3, 0.4, 0.75, 0.8, 1.0]
    fitted = HistogramBinning(n_bins=4).fit(p, [0, 0, 1, 0, 1, 1, 1])
    np.testing.assert_allclose(fitted.values_, [1 / 4, 1 / 2, 5 / 8, 4 / 5])
    np.testing.assert_array_equal(fitted.counts_, [2, 2, 0, 3])
    np.testing.assert_array_equal(fitted.edges_, [0, 0.25, 0.5, 0.75, 1])


def test_scores_on_edges_and_at_both_ends():
    """Zero is in the first bin, one in the last; an edge belongs to the bin above it, or below if closed there."""
    p, y = [0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1]
    ends = [0.0, 0.5, 1.0]
    left = HistogramBinning(n_bins=2, smoothing=0.0).fit(p, y)
    np.testing.assert_array_equal(event(left, ends), [0, 1, 1])
    right = HistogramBinning(binning=EqualWidth(2, closed="right"), smoothing=0.0).fit(p, y)
    np.testing.assert_array_equal(event(right, ends), [0, 0, 1])


@pytest.mark.parametrize("strategy", ["quantile", "range"])
def test_scores_beyond_those_of_calibration_belong_to_the_nearest_bin(strategy):
    p, y = [0.4, 0.45, 0.55, 0.6], [0, 1, 1, 1]
    fitted = HistogramBinning(strategy, 2, smoothing=0.0).fit(p, y)
    np.testing.assert_array_equal(event(fitted, [0.0, 1e-300, 1.0]), [0.5, 0.5, 1.0])


def test_a_float32_score_that_is_a_rounded_edge_is_on_it():
    """In float32, 0.7 is less than 7/10, and yet it belongs to the bin that begins there, as it does in float64."""
    p, y = [0.65, 0.75, 0.65, 0.75], [0, 1, 0, 1]
    fitted = HistogramBinning(n_bins=10, smoothing=0.0).fit(p, y)
    edge = np.array([0.7])
    assert event(fitted, edge) == event(fitted, edge.astype(np.float32)) == 1


@pytest.mark.parametrize("m", [0.5, 0.1, "base-rate"])
def test_smoothing_draws_to_the_prior(m):
    """(P + 2 s m)/(W + 2 s) with P = 1, W = 4 below and P = 3, W = 4 above, s = 2.5."""
    p, y = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 0, 0, 1, 0, 1, 1, 1]
    fitted = HistogramBinning(n_bins=2, smoothing=2.5, prior=m).fit(p, y)
    share = 0.5 if m == "base-rate" else m
    np.testing.assert_allclose(fitted.values_, [(1 + 5 * share) / 9, (3 + 5 * share) / 9])


def test_the_prior_is_one_half_for_equal_widths_and_the_base_rate_for_equal_masses():
    """One row of four has the event: (0 + 2 m)/(2 + 2) below."""
    p, y = [0.1, 0.2, 0.8, 0.9], [0, 0, 0, 1]
    for options, m in (
        ({"n_bins": 2}, 1 / 2),
        ({"n_bins": 2, "strategy": "range"}, 1 / 2),
        ({"binning": EqualWidth(2)}, 1 / 2),
        ({"n_bins": 2, "strategy": "quantile"}, 1 / 4),
        ({"binning": EqualMass(2)}, 1 / 4),
        ({"strategy": "quantile", "rows_per_bin": 2}, 1 / 4),
    ):
        assert HistogramBinning(**options).fit(p, y).values_[0] == pytest.approx(2 * m / 4)


def test_empty_bins():
    p, y = [0.1, 0.9], [0, 1]
    for empty, value in (("centre", 0.5), ("prior", 0.3), (0.0, 0.0), (0.25, 0.25)):
        fitted = HistogramBinning(n_bins=3, prior=0.3, empty=empty).fit(p, y)
        assert event(fitted, [0.5]).item() == pytest.approx(value)


def test_an_empty_bin_of_a_single_score_is_not_certain():
    """The centre of [1, 1] is 1; a bin that held all rows, all with the event, would have (4 + 1)/(4 + 2)."""
    bins = FixedEdges((0, 0.5, 1, 1))
    fitted = HistogramBinning(binning=bins).fit([0.1, 0.2, 0.7, 0.8], [0, 0, 1, 1])
    assert event(fitted, [1.0]).item() == pytest.approx(5 / 6)
    infinite = HistogramBinning(binning=FixedEdges((-np.inf, 0.5, 0.6, np.inf))).fit([0.1, 0.7], [0, 1])
    np.testing.assert_allclose(infinite.values_, [1 / 3, 0.55, 2 / 3])


def test_rows_per_bin_makes_that_many_bins_and_at_least_one():
    p, y = some_scores(100)
    for rows, n_bins in ((10, 10), (30, 3), (100, 1), (1000, 1), (1, 100)):
        fitted = HistogramBinning("quantile", rows_per_bin=rows).fit(p, y)
        assert len(fitted.values_) == n_bins
        assert fitted.counts_.min() >= min(rows, 100)
    for weight, n_bins in (
        (2.0, 20),
        (1.1, 11),
        (0.1, 10),
    ):  # below one on average, weights do not make rows fewer
        fitted = HistogramBinning("quantile", rows_per_bin=10).fit(p, y, np.full(100, weight))
        assert len(fitted.values_) == n_bins


def test_a_constant_score_is_one_bin():
    for strategy in ("quantile", "range"):
        fitted = HistogramBinning(strategy).fit([0.3] * 8, [0, 0, 0, 1] * 2)
        expected = (2 + 1) / (8 + 2) if strategy == "range" else (2 + 2 / 4) / (8 + 2)
        np.testing.assert_allclose(event(fitted, [0.0, 0.3, 1.0]), expected)


@pytest.mark.parametrize("options", [{"n_bins": 7}, {"strategy": "quantile", "n_bins": 7}])
@settings(max_examples=15)
@given(seed=st.integers(0, 1000), decimals=st.sampled_from([None, 1, 2]))
def test_a_loop_over_rows_gives_the_same(options, seed, decimals):
    p, y = some_scores(60, seed, decimals)
    weights = np.random.default_rng(seed).integers(1, 4, 60).astype(float)
    fitted = HistogramBinning(**options, prior=0.3, smoothing=1.5).fit(p, y, weights)
    fresh, _ = some_scores(40, seed + 1, decimals)
    for score, value in zip(fresh, event(fitted, fresh), strict=True):
        inside = [
            i
            for i in range(60)
            if naive_bin(p[i], fitted.edges_.tolist()) == naive_bin(score, fitted.edges_.tolist())
        ]
        total, hits = sum(weights[i] for i in inside), sum(weights[i] * y[i] for i in inside)
        if inside:
            assert value == pytest.approx((hits + 3 * 0.3) / (total + 3))


def naive_bin(score, edges):
    number = 0
    while number < len(edges) - 2 and score >= edges[number + 1]:
        number += 1
    return number


# Number of bins


def naive_left_out_loss(p, y, weights, scheme, m, s, value_if_empty):
    """Fit without one row after the other; a row of weight three is three rows."""
    rows = np.repeat(np.arange(len(p)), weights)
    p, y = p[rows], y[rows]
    edges = scheme(p).bin_edges()
    bins = np.array([naive_bin(score, edges.tolist()) for score in p])
    total = 0.0
    for left_out in range(len(p)):
        others = (bins == bins[left_out]) & (np.arange(len(p)) != left_out)
        value = (y[others].sum() + 2 * s * m) / (others.sum() + 2 * s)
        if not others.any():
            value = value_if_empty[bins[left_out]]
        total -= log(value if y[left_out] else 1 - value)
    return total / len(p)


@pytest.mark.parametrize(
    "scheme", [EqualWidth(6), EqualMass(6), EqualWidth(40), EqualMass(40), EqualWidth(1)]
)
@settings(max_examples=10)
@given(seed=st.integers(0, 200), decimals=st.sampled_from([None, 1]))
def test_the_loss_of_rows_left_out_is_that_of_separate_fits(scheme, seed, decimals):
    p, y = some_scores(40, seed, decimals)
    counts = np.random.default_rng(seed).integers(1, 4, 40)
    if_empty = np.linspace(0.1, 0.9, len(scheme(p, counts.astype(float)).bin_edges()) - 1)
    expected = naive_left_out_loss(p, y, counts, scheme, 0.3, 1.0, if_empty)
    frequency = SmoothedFrequency(0.3, 1.0)
    weighted = BinSearch(p, y == 1, counts.astype(float), frequency).loss(scheme, if_empty)
    repeated = BinSearch(np.repeat(p, counts), np.repeat(y, counts) == 1, None, frequency).loss(
        scheme, if_empty
    )
    assert weighted == pytest.approx(expected, rel=1e-10)
    assert repeated == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("scheme", [EqualWidth(5), EqualWidth(50), EqualMass(5)])
def test_a_weight_that_is_no_count_is_left_out_as_a_whole(scheme):
    """A row of weight 2.5 has the frequency of all others in its bin, and 2.5 of the loss."""
    p, y = some_scores(30, seed=3)
    weights = np.random.default_rng(0).uniform(0.2, 3.0, 30)
    bins = scheme(p, weights).index(p)
    total = 0.0
    for left_out in range(30):
        others = (bins == bins[left_out]) & (np.arange(30) != left_out)
        value = (weights[others] @ y[others] + 2 * 0.4) / (weights[others].sum() + 2) if others.any() else 0.7
        total -= weights[left_out] * log(value if y[left_out] else 1 - value)
    found = BinSearch(p, y == 1, weights, SmoothedFrequency(0.4, 1.0)).loss(scheme, 0.7)
    assert found == pytest.approx(total / weights.sum(), rel=1e-10)


@pytest.mark.parametrize("strategy", ["uniform", "quantile", "range"])
def test_the_number_with_the_lowest_loss_is_taken(strategy):
    p, y = some_scores(150, seed=5)
    grid = [20, 3, 8]
    m = y.mean() if strategy == "quantile" else 0.5
    losses = []
    for n_bins in sorted(grid):
        scheme = {
            "uniform": EqualWidth(n_bins),
            "quantile": EqualMass(n_bins),
            "range": EqualWidth(n_bins, p.min(), p.max()),
        }[strategy]
        edges = scheme(p).bin_edges()
        centres = np.full(n_bins, m) if strategy == "quantile" else (edges[1:] + edges[:-1]) / 2
        losses.append(naive_left_out_loss(p, y, np.ones(150, int), scheme, m, 1.0, centres))
    fitted = HistogramBinning(strategy, grid).fit(p, y)
    assert len(fitted.values_) == sorted(grid)[int(np.argmin(losses))]


def test_many_classes_choose_for_themselves():
    generator = np.random.default_rng(0)
    p = generator.dirichlet([0.1, 0.5, 5.0], 600)
    y = (p.cumsum(axis=1) < generator.uniform(size=(600, 1))).sum(axis=1)
    fitted = HistogramBinning(n_bins=(2, 5, 20)).fit(p, y)
    for column, calibrator in enumerate(fitted.one_vs_rest_.calibrators_):
        alone = HistogramBinning(n_bins=(2, 5, 20)).fit(p[:, column], (y == column).astype(int))
        np.testing.assert_array_equal(calibrator.values_, alone.values_)


def test_automatic_numbers_leave_five_rows_for_every_bin():
    assert automatic_grid(1e6) == [5, 10, 15, 20, 25, 30, 50, 70, 100]
    assert automatic_grid(99.9) == [5, 10, 15]
    assert automatic_grid(2.0) == [5]


def test_raw_frequencies_are_compared_with_smoothing():
    """Four bins are right, 1/50 and 49/50 in turns, but there the one row against its bin, left out, was impossible;
    two bins, with 1/2 each, say nothing and are never refuted.
    """
    p = np.repeat([0.1, 0.4, 0.6, 0.9], 50)
    y = np.concatenate([np.arange(50) < hits for hits in (1, 49, 1, 49)]).astype(int)
    raw = HistogramBinning(n_bins=[2, 4], smoothing=0.0).fit(p, y)
    np.testing.assert_allclose(raw.values_, [0.02, 0.98, 0.02, 0.98])


# Behaviour


def test_the_names_of_the_registry():
    assert registry.make("width-binning").strategy == "uniform"
    assert registry.make("frequency-binning").strategy == "quantile"


@pytest.mark.parametrize("strategy", ["uniform", "quantile", "range"])
@given(seed=st.integers(0, 500))
def test_log_loss_stays_finite_with_the_defaults(strategy, seed):
    """Whatever two rows or more are calibrated, no event is certain for any later score."""
    generator = np.random.default_rng(seed)
    n_rows = int(generator.integers(2, 30))
    p = generator.choice([0.0, 1e-30, 0.3, 0.5, 1 - 1e-16, 1.0], n_rows)
    y = generator.integers(0, 2, n_rows)
    y[:2] = [0, 1]
    calibrated = HistogramBinning(strategy).fit(p, y).predict_proba(np.linspace(0, 1, 301))
    assert calibrated.min() > 0


def test_logits_and_probabilities_give_one_map():
    p, y = some_scores(200, seed=2)
    given = Predictions.from_logits(np.log(p / (1 - p)))
    np.testing.assert_allclose(
        event(HistogramBinning().fit(given, y), given), event(HistogramBinning().fit(p, y), p), rtol=1e-12
    )


@pytest.mark.parametrize(
    "binning", [EqualWidth(4, 0.1, 0.9), EqualMass(4), FixedEdges((0, 0.3, 1), closed="right")]
)
def test_given_bins_are_saved_and_loaded(binning, tmp_path):
    p, y = some_scores(100, seed=6)
    fitted = HistogramBinning(binning=binning).fit(p, y)
    fitted.save(tmp_path / "calibrator.npz")
    loaded = load_calibrator(tmp_path / "calibrator.npz")
    assert loaded.binning == binning
    np.testing.assert_array_equal(event(loaded, p), event(fitted, p))


def test_a_hundred_classes_keep_their_accuracy():
    """Fifteen bins of equal mass lose a third of the right answers; the number that is chosen does not."""
    arrays = load("kull_nn/c100_convnet")
    p, test = (Predictions.from_logits(arrays[key]) for key in ("val_logits", "test_logits"))
    labels = arrays["test_y"]
    before = (test.predicted == labels).mean()
    few, chosen = (
        HistogramBinning("quantile", n_bins).fit(p, arrays["val_y"]).predict_proba(test)
        for n_bins in (15, "auto")
    )
    assert (few.argmax(axis=1) == labels).mean() < before - 0.3
    assert (chosen.argmax(axis=1) == labels).mean() > before - 0.02


def test_separate_probabilities_are_the_values_of_the_bins():
    generator = np.random.default_rng(4)
    p = generator.dirichlet(np.ones(3), 200)
    y = generator.integers(0, 3, 200)
    fitted = OneVsRest(HistogramBinning(n_bins=5)).fit(p, y)
    separate = fitted.class_probabilities(p)
    for column, calibrator in enumerate(fitted.calibrators_):
        assert set(separate[:, column]) <= set(calibrator.values_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "kmeans"}, "strategy must be 'uniform', 'quantile' or 'range'"),
        ({"n_bins": 0}, "n_bins must be an integer of at least 1"),
        ({"n_bins": 2.5}, "n_bins must be an integer"),
        ({"n_bins": [5, 0]}, "n_bins must be an integer"),
        ({"n_bins": []}, "n_bins is empty"),
        ({"n_bins": "many"}, "n_bins must be a number, several of them or 'auto'"),
        ({"n_bins": None}, "n_bins must be an integer"),
        ({"rows_per_bin": 50}, "set strategy='quantile'"),
        ({"rows_per_bin": 0, "strategy": "quantile"}, "rows_per_bin must be an integer"),
        ({"binning": 15}, "binning must be a scheme"),
        ({"smoothing": -1.0}, "smoothing must be a number of at least 0"),
        ({"smoothing": np.inf}, "smoothing must be a number of at least 0"),
        ({"smoothing": "laplace"}, "smoothing must be a number of at least 0"),
        ({"prior": 1.5}, "prior must be 'base-rate', or a number from 0 to 1"),
        ({"prior": "uniform"}, "prior must be 'base-rate'"),
        ({"empty": "score"}, "empty must be 'centre' or 'prior', or a number"),
        ({"empty": None}, "empty must be 'centre' or 'prior', or a number"),
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_parameters_without_meaning_are_refused(options, message, n_classes):
    p = np.random.default_rng(0).dirichlet(np.ones(n_classes), 30)
    with pytest.raises(ParameterError, match=message):
        HistogramBinning(**options).fit(p, np.arange(30) % n_classes)

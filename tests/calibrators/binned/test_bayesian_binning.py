"""Bayesian binning: means by hand, where scores belong, and a second implementation in plain loops."""

from itertools import pairwise
from math import ceil, exp, floor, lgamma, log

import numpy as np
import pytest
from bayesian_binning_rows import positive, problem
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import BayesianBinning, Predictions
from calibrant.errors import ParameterError
from calibrant.metrics import log_loss
from calibrant.numerics.curves import StepFunctions

SMOOTH = {"prior_weight_per": "bin", "prior_margin": 0.005}


# --- A second implementation


def naive_cuts(values, masses, n_bins):
    """Edges nearest to equal mass among distinct values, the upper of two that are as near."""
    total, edges = sum(masses), []
    below = np.cumsum(masses)[:-1]
    for b in range(1, n_bins):
        distances = [abs(mass - b * total / n_bins) for mass in below]
        if not distances:
            continue
        nearest = max(j for j, d in enumerate(distances) if d <= min(distances) + 1e-9 * total)
        if b * total / n_bins <= distances[nearest] - 1e-9 * total:
            continue  # nearer to no rows at all
        if total - b * total / n_bins <= distances[nearest] + 1e-9 * total:
            continue  # nearer to all rows
        edges.append((values[nearest] + values[nearest + 1]) / 2)
    return tuple(sorted(set(edges)))


def naive(scores, outcomes, weights, queries, *, value, averaging, factor, prior_weight, per_bin, margin):
    """Loops over models, bins and rows; sums of plain exponentials relative to the best model.

    Weights that average less than one are scaled so that they do not make rows fewer.
    """
    weights = [w / min(1, sum(weights) / len(weights)) for w in weights]
    n = sum(weights)
    values = sorted(set(scores))
    masses = [sum(w for s, w in zip(scores, weights, strict=True) if s == v) for v in values]
    fewest = max(1, floor(n ** (1 / 3) / factor + 1e-9))
    most = min(ceil(n / 5 - 1e-9), ceil(factor * n ** (1 / 3) - 1e-9))
    fewest, most = min(fewest, len(values)), min(most, len(values))
    models = {}
    for n_bins in range(fewest, max(fewest, most) + 1):
        edges = (0.0, *naive_cuts(values, masses, n_bins), 1.0)
        evidence, heights = 0.0, []
        for left, right in pairwise(edges):
            inside = [left <= s < right or s == right == 1 for s in scores]
            rows = sum(w for w, i in zip(weights, inside, strict=True) if i)
            events = sum(w for w, i, o in zip(weights, inside, outcomes, strict=True) if i and o)
            share = prior_weight / (1 if per_bin else len(edges) - 1)
            alpha = share * min(max((left + right) / 2, margin), 1 - margin)
            beta = share - alpha
            evidence += lgamma(share) + lgamma(events + alpha) + lgamma(rows - events + beta)
            evidence -= lgamma(rows + share) + lgamma(alpha) + lgamma(beta)
            heights.append(events / rows if value == "accuracy" else (events + alpha) / (rows + share))
        models[edges] = evidence, heights
    best = max(evidence for evidence, _ in models.values())
    if averaging == "best":
        edges = next(edges for edges, (evidence, _) in models.items() if evidence == best)
        models = {edges: models[edges]}
    total = sum(exp(evidence - best) for evidence, _ in models.values())
    averaged = []
    for query in queries:
        average = 0.0
        for edges, (evidence, heights) in models.items():
            at = max(b for b in range(len(heights)) if edges[b] <= query)
            average += exp(evidence - best) / total * heights[at]
        averaged.append(average)
    return np.array(averaged)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_loops_over_models_bins_and_rows_give_the_same_map(data):
    """Scores on a grid of 1/64 with ties, whole and broken weights, all parameters."""
    n_rows = data.draw(st.integers(2, 60))
    scores = data.draw(st.lists(st.integers(0, 64), min_size=n_rows, max_size=n_rows))
    scores = np.array(scores) / 64
    outcomes = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n_rows, max_size=n_rows)))
    outcomes[:2] = 0, 1
    weights = np.array(data.draw(st.lists(st.sampled_from([1, 2, 0.25]), min_size=n_rows, max_size=n_rows)))
    options = {
        "value": data.draw(st.sampled_from(["posterior-mean", "accuracy"])),
        "prior_weight": data.draw(st.sampled_from([0.5, 2.0, 7.0])),
    }
    averaging = data.draw(st.sampled_from(["all", "best"]))
    factor = data.draw(st.sampled_from([1.0, 1.7, 10.0]))
    per_bin, margin = data.draw(st.sampled_from([(False, 0.0), (True, 0.005), (False, 0.3)]))
    queries = np.concatenate([np.arange(65) / 64, [0.003, 0.999]])
    expected = naive(
        scores, outcomes, weights, queries, averaging=averaging, factor=factor, per_bin=per_bin,
        margin=margin, **options,
    )  # fmt: skip
    calibrator = BayesianBinning(
        model_averaging=averaging,
        bin_range_factor=factor,
        prior_weight_per="bin" if per_bin else "model",
        prior_margin=margin,
        **options,
    ).fit(scores, outcomes, weights)
    np.testing.assert_allclose(positive(calibrator, queries), expected, rtol=1e-8, atol=1e-12)


# --- Steps


@settings(max_examples=20, deadline=None)
@given(n_rows=st.integers(2, 400), seed=st.integers(0, 99), decimals=st.sampled_from([1, 2, 16]))
def test_values_and_complements_sum_to_one_on_increasing_steps(n_rows, seed, decimals):
    fitted = BayesianBinning().fit(*problem(n_rows, seed, decimals))
    np.testing.assert_allclose(fitted.values_ + fitted.complements_, 1, rtol=1e-12)
    assert len(fitted.edges_) == len(fitted.values_) + 1
    assert (np.diff(fitted.edges_) > 0).all()
    assert fitted.edges_[0] == 0
    assert fitted.edges_[-1] == 1


@pytest.mark.parametrize("options", [{}, SMOOTH, {"value": "accuracy"}, {"model_averaging": "best"}])
def test_neighbouring_steps_differ(options):
    scores, outcomes = problem(2000)
    fitted = BayesianBinning(**options).fit(scores, outcomes)
    same = (np.diff(fitted.values_) == 0) & (np.diff(fitted.complements_) == 0)
    assert not same.any()


def test_steps_that_change_nothing_are_left_out_and_change_nothing(monkeypatch):
    """Where outcomes have nothing to do with the scores one bin has the weight, and edges of other models no effect."""
    generator = np.random.default_rng(5)
    scores, outcomes = generator.random(3000), generator.random(3000) < 0.3
    fitted = BayesianBinning(**SMOOTH).fit(scores, outcomes)
    monkeypatch.setattr(StepFunctions, "distinct", lambda self: self)
    every = BayesianBinning(**SMOOTH).fit(scores, outcomes)
    assert 1 < len(fitted.values_) < len(every.values_) / 10
    places = np.concatenate([scores, every.edges_, np.nextafter(every.edges_[1:], 0)])
    np.testing.assert_array_equal(fitted.predict_proba(places), every.predict_proba(places))


# --- Values of bins


def test_one_bin_gives_the_posterior_mean():
    """Up to five rows there is one bin, whose middle is 1/2: (m + 1) / (n + 2) wherever the score is."""
    fitted = BayesianBinning().fit([0.1, 0.4, 0.6, 0.7, 0.8], [0, 1, 1, 0, 1])
    assert fitted.values_.item() == pytest.approx(4 / 7, rel=1e-12)
    np.testing.assert_array_equal(fitted.edges_, [0, 1])


def test_one_bin_with_weights_and_another_prior():
    """Weights 0.5, 1.5, 1 with the second an event: (1.5 + 3/2) / (3 + 3)."""
    fitted = BayesianBinning(prior_weight=3).fit([0.3, 0.4, 0.9], [0, 1, 0], [0.5, 1.5, 1.0])
    assert fitted.values_.item() == pytest.approx(0.5, rel=1e-12)


def test_constant_scores():
    """However many bins are asked for, there is one: (m + 1) / (n + 2)."""
    fitted = BayesianBinning().fit([0.9] * 60, [0, 1, 1] * 20)
    assert positive(fitted, [0.0, 0.9, 1.0]) == pytest.approx([41 / 62] * 3, rel=1e-12)


def test_a_prior_that_counts_for_each_bin_and_keeps_away_from_zero():
    """Two bins of the best model: middles 0.25 and 0.75, two pseudo-rows in each, means kept from 0.3 to 0.7."""
    scores, outcomes = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 0, 0, 0, 1, 1, 1, 1]
    options = {"model_averaging": "best", "prior_weight_per": "bin"}
    plain = BayesianBinning(**options).fit(scores, outcomes)
    assert plain.values_ == pytest.approx([0.5 / 6, 5.5 / 6], rel=1e-12)
    kept = BayesianBinning(prior_margin=0.3, **options).fit(scores, outcomes)
    assert kept.values_ == pytest.approx([0.6 / 6, 5.4 / 6], rel=1e-12)


def test_accuracy_gives_the_share_of_events_and_zeros():
    scores, outcomes = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 0, 0, 0, 1, 1, 1, 1]
    fitted = BayesianBinning(value="accuracy", model_averaging="best").fit(scores, outcomes)
    np.testing.assert_array_equal(fitted.values_, [0, 1])
    np.testing.assert_array_equal(fitted.complements_, [1, 0])


def test_the_complement_keeps_its_digits_near_one():
    """Three levels, and all events in the last: its complement is the prior's part, (1 - low)/3 / (20 + 2/3).

    That is below half of a unit in the last place of 1, where one minus the value is nothing or far too much.
    """
    near, nearer = 1 - 2.0**-48, 1 - 2.0**-52
    outcomes = np.concatenate([np.arange(20) < 2, np.arange(20) < 10, np.arange(20) < 20])
    fitted = BayesianBinning(model_averaging="best").fit(np.repeat([0.3, near, nearer], 20), outcomes)
    np.testing.assert_allclose(1 - fitted.edges_[1:3], [0.35, (2.0**-48 + 2.0**-52) / 2], rtol=1e-12)
    expected = (2.0**-48 + 2.0**-52) / 2 / 3 / (20 + 2 / 3)
    assert expected < 2.0**-54
    assert fitted.complements_[-1] == pytest.approx(expected, rel=1e-12)
    assert log_loss([0], fitted.predict_proba([1.0])) == pytest.approx(-log(expected), rel=1e-9)


# --- Where scores belong


def test_a_score_of_zero_belongs_to_the_first_bin_and_of_one_to_the_last():
    """Whether or not such scores were among the calibration rows."""
    scores, outcomes = problem(400)
    inside = BayesianBinning().fit(np.clip(scores, 0.01, 0.99), outcomes)
    assert positive(inside, [0.0])[0] == positive(inside, [0.01])[0] < 0.1
    assert positive(inside, [1.0])[0] == positive(inside, [0.99])[0] > 0.8
    rounded = scores.round(1)
    assert (rounded == 0).any()
    assert (rounded == 1).any()
    tied = BayesianBinning().fit(rounded, outcomes)
    assert positive(tied, [0.0])[0] < 0.1
    assert positive(tied, [1.0])[0] > 0.8


def test_many_exact_zeros_and_ones_get_their_own_frequencies():
    """As of a forest: 1 in 100 of the zeros happens, 98 in 100 of the ones, half of those between."""
    scores = np.repeat([0.0, 0.5, 1.0], [100, 20, 100])
    outcomes = np.concatenate([np.arange(100) < 1, np.arange(20) < 10, np.arange(100) < 98]).astype(int)
    fitted = BayesianBinning().fit(scores, outcomes)
    assert positive(fitted, [0.0, 0.5, 1.0]) == pytest.approx([0.01, 0.5, 0.98], abs=0.01)


def test_neighbouring_floats_are_told_apart():
    """No float lies between these scores; the upper one is the edge."""
    low = 0.5
    high = np.nextafter(low, 1)
    fitted = BayesianBinning().fit([low] * 40 + [high] * 40, [0] * 39 + [1] + [1] * 40)
    assert positive(fitted, [low])[0] < 0.1 < 0.9 < positive(fitted, [high])[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", [{}, SMOOTH])
def test_no_zeros_for_scores_at_the_end_of_the_float_range(dtype, options):
    """The middle of a bin may be below all floats, yet the log-loss of the impossible event is finite."""
    tiny = float(np.finfo(dtype).smallest_subnormal)
    positive_scores = np.array([0.0, tiny] * 50 + [1.0] * 100, dtype=dtype)
    rows = np.column_stack([1 - positive_scores, positive_scores]).astype(dtype)
    fitted = BayesianBinning(**options).fit(rows, np.repeat([0, 1], 100))
    calibrated = fitted.predict_proba(rows)
    assert calibrated.dtype == dtype
    assert (calibrated > 0).all()
    assert np.isfinite(log_loss(np.repeat([1, 0], 100), calibrated))


def test_probabilities_that_rounding_left_above_one():
    rows = np.array([[0.0, 1.0004], [0.9, 0.1], [0.4, 0.6]] * 10)
    calibrated = BayesianBinning().fit(rows, [1, 0, 1] * 10).predict_proba(rows)
    assert calibrated[0, 1] > 0.9
    np.testing.assert_allclose(calibrated.sum(axis=1), 1, rtol=1e-12)


def test_logits_that_saturate():
    logits = Predictions.from_logits(np.linspace(-800, 800, 200))
    outcomes = np.arange(200) >= 100
    outcomes[[20, 180]] = True, False
    calibrated = BayesianBinning().fit(logits, outcomes).predict_proba(logits)
    assert np.isfinite(log_loss(outcomes.astype(int), calibrated))


@pytest.mark.parametrize("options", [{}, SMOOTH])
def test_calibrated_scores_stay_nearly_as_they_are(options):
    """With 20,000 rows whose frequencies are their scores, the map is off by no more than the width of its bins."""
    generator = np.random.default_rng(4)
    scores = generator.random(20_000)
    fitted = BayesianBinning(**options).fit(scores, generator.random(20_000) < scores)
    grid = np.linspace(0.05, 0.95, 19)
    assert np.abs(positive(fitted, grid) - grid).max() < 0.06


def test_more_than_two_classes_go_one_against_the_rest():
    generator = np.random.default_rng(2)
    rows = generator.dirichlet([0.5] * 3, 300)
    labels = np.array([generator.choice(3, p=row) for row in rows])
    fitted = BayesianBinning().fit(rows, labels)
    separate = np.column_stack(
        [positive(BayesianBinning().fit(rows[:, k], labels == k), rows[:, k]) for k in range(3)]
    )
    np.testing.assert_allclose(
        fitted.predict_proba(rows), separate / separate.sum(axis=1, keepdims=True), rtol=1e-9
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"value": "mean"}, "value must be 'posterior-mean' or 'accuracy', not 'mean'"),
        ({"model_averaging": True}, "model_averaging must be 'all' or 'best', not True"),
        ({"prior_weight_per": "row"}, "prior_weight_per must be 'model' or 'bin', not 'row'"),
        ({"bin_range_factor": 0.5}, "bin_range_factor must be a number from 1 to 100, such as 10"),
        ({"bin_range_factor": 100.5}, "bin_range_factor must be a number from 1 to 100"),
        ({"bin_range_factor": np.inf}, "bin_range_factor must be a number from 1 to 100"),
        ({"bin_range_factor": True}, "bin_range_factor must be a number from 1 to 100"),
        ({"bin_range_factor": None}, "bin_range_factor must be a number from 1 to 100"),
        ({"prior_weight": 0}, "prior_weight must be a number above 0"),
        ({"prior_weight": True}, "prior_weight must be a number above 0"),
        ({"prior_weight": 1e7}, r"at most 1e\+06"),
        ({"prior_weight": np.nan}, "prior_weight must be a number above 0"),
        ({"prior_margin": False}, "prior_margin must be a number from 0 to below 0.5"),
        ({"prior_margin": 0.5}, "prior_margin must be a number from 0 to below 0.5"),
        ({"prior_margin": -0.1}, "prior_margin must be a number from 0 to below 0.5"),
    ],
)
def test_parameters_without_meaning_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        BayesianBinning(**parameters).fit([0.2, 0.8], [0, 1])

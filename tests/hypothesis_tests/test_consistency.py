"""The consistency test against enumeration, hand-made metrics, and simulation of its level."""

from functools import partial
from itertools import product
from math import inf, nan, sqrt

import numpy as np
import pytest
from scipy.stats import binom, kstest, percentileofscore

from calibrant import Predictions
from calibrant.errors import LabelError, ParameterError, PredictionError, WeightError
from calibrant.hypothesis_tests.consistency import consistency_test, consistency_tests
from calibrant.metrics import (
    accuracy,
    brier_score,
    calibration_gain,
    classwise_ece,
    confidence_ece,
    cost_gap,
    decompose,
    log_loss,
    overconfidence,
    realised_cost,
)


def dealt(values):
    """Return a metric that gives one value after another: the observed one first."""
    values = iter(values)

    def metric(y_true, y_proba):
        return next(values)

    return metric


def returning(value):
    """Return a metric that always gives the same."""

    def metric(y_true, y_proba):
        return value

    return metric


def drawn_problem(n_rows, n_classes, seed, sharpen=1.0):
    """Return labels drawn from predictions, and the predictions raised to a power."""
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.ones(n_classes), n_rows)
    labels = (probabilities.cumsum(axis=1)[:, :-1] < generator.random((n_rows, 1))).sum(axis=1)
    claimed = probabilities**sharpen
    return labels, claimed / claimed.sum(axis=1, keepdims=True)


def enumerated(metric, labels, probabilities, sample_weight=None):
    """Return the exact chance of a metric at least as large, by going through all labels there can be."""
    options = {} if sample_weight is None else {"sample_weight": sample_weight}
    observed = metric(labels, probabilities, **options)
    n_rows, n_classes = probabilities.shape
    chance = 0.0
    for others in product(range(n_classes), repeat=n_rows):
        if metric(np.array(others), probabilities, **options) >= observed - 1e-12:
            chance += np.prod(probabilities[np.arange(n_rows), others])
    return chance


@pytest.mark.parametrize("metric", [confidence_ece, partial(classwise_ece, n_bins=4, norm=2)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_p_values_are_those_of_all_labels_there_can_be(metric, weighted, seed):
    labels, probabilities = drawn_problem(5, 3, seed)
    weights = np.array([1.0, 2.0, 0.5, 1.0, 3.0]) if weighted else None
    exact = enumerated(metric, labels, probabilities, weights)
    result = consistency_test(metric, labels, probabilities, sample_weight=weights, n_resamples=4000)
    assert result.p_value == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 4000) ** 0.5 + 1 / 4000)


def test_ten_rows_at_sixty_percent():
    """The ECE is |hits / 10 - 0.6|; at least 0.3 for at most three hits or at least nine."""
    exact = binom.cdf(3, 10, 0.6) + binom.sf(8, 10, 0.6)
    result = consistency_test(confidence_ece, [0] * 9 + [1], [[0.6, 0.4]] * 10)
    assert result.statistic == pytest.approx(0.3)
    assert result.p_value == pytest.approx(exact, abs=4 * result.p_value_error)


def test_the_observed_value_counts_among_the_simulated_ones():
    """Of ten simulated values 0 to 9 three are at least 7: (1 + 3) / (1 + 10)."""
    result = consistency_test(dealt([7, *range(10)]), [0, 1], [0.4, 0.6], n_resamples=10)
    assert result.p_value == pytest.approx(4 / 11)
    assert result.statistic == 7
    assert result.null_mean == pytest.approx(4.5)
    assert result.null_quantile == 9
    assert result.p_value_error == pytest.approx((4 / 11 * 7 / 11 / 10) ** 0.5)
    assert (result.n_rows, result.n_resamples) == (2, 10)


def test_the_share_is_what_the_published_programs_print():
    simulated = np.random.default_rng(0).random(200)
    result = consistency_test(dealt([0.8, *simulated]), [0, 1], [0.4, 0.6], n_resamples=200, p_value="share")
    assert result.p_value == pytest.approx(1 - percentileofscore(simulated, 0.8, kind="rank") / 100)
    assert (
        consistency_test(
            dealt([2.0, *simulated]), [0, 1], [0.4, 0.6], n_resamples=200, p_value="share"
        ).p_value
        == 0.0
    )


def test_ties_count_half_in_the_share():
    result = consistency_test(dealt([1, 0, 1, 1, 2]), [0, 1], [0.4, 0.6], n_resamples=4, p_value="share")
    assert result.p_value == pytest.approx((1 + 2 / 2) / 4)


def test_values_that_differ_by_rounding_are_ties():
    """0.1 + 0.2 is more than 0.3 by one rounding."""
    assert consistency_test(dealt([0.1 + 0.2, 0.3]), [0, 1], [0.4, 0.6], n_resamples=1).p_value == 1.0
    constant = consistency_test(dealt([0.25] * 21), [0, 1], [0.4, 0.6], n_resamples=20)
    assert constant.p_value == 1.0


def test_alternatives():
    """Observed 2 among 0, 1, 2, 3, 4, 5, 6, 7, 8: seven at least as large, three at most as large."""

    def p_value(alternative):
        return consistency_test(
            dealt([2, *range(9)]), [0, 1], [0.4, 0.6], n_resamples=9, alternative=alternative
        ).p_value

    assert p_value("greater") == p_value("auto") == pytest.approx(8 / 10)
    assert p_value("less") == pytest.approx(4 / 10)
    assert p_value("two-sided") == pytest.approx(8 / 10)


def test_metrics_say_which_values_count_against_them():
    """At 60 % one of twenty, or all of them, are right: too few and too many count against calibration."""
    labels, probabilities = [0] + [1] * 19, [[0.6, 0.4]] * 20
    signed = partial(cost_gap, costs=1 - np.eye(2), signed=True)
    for score in (log_loss, brier_score, accuracy, partial(realised_cost, costs=1 - np.eye(2)), signed):
        for truth in (labels, [0] * 20):
            both = consistency_test(score, truth, probabilities, n_resamples=500)
            assert "both tails" in both.test
            assert both.p_value == pytest.approx(2 / 501)
    few = consistency_test(accuracy, labels, probabilities, n_resamples=500)
    low, high = binom.ppf([0.025, 0.975], 20, 0.6) / 20
    assert few.null_range == (pytest.approx(low, abs=0.051), pytest.approx(high, abs=0.051))
    for error in (confidence_ece, partial(cost_gap, costs=1 - np.eye(2))):
        assert "upper tail" in consistency_test(error, labels, probabilities, n_resamples=5).test


@pytest.mark.parametrize(
    "metric", [accuracy, partial(cost_gap, costs=1 - np.eye(2), signed=True)], ids=["accuracy", "cost_gap"]
)
def test_a_classifier_that_is_much_better_than_it_says_is_not_calibrated(metric):
    """400 rows at 55 % of which 95 % are right: 16 standard deviations."""
    labels = [0] * 380 + [1] * 20
    result = consistency_test(metric, labels, [[0.55, 0.45]] * 400, n_resamples=1000)
    assert result.p_value == pytest.approx(2 / 1001)


def test_the_hypothesis_is_about_what_the_metric_sees():
    """Both columns besides the predicted one are wrong, of which the confidence knows nothing."""
    labels, vectors = [0] * 60 + [1] * 40, [[0.6, 0.05, 0.35]] * 100
    blind = consistency_test(confidence_ece, labels, vectors, n_resamples=500)
    assert blind.p_value == 1.0
    assert (
        blind.null_hypothesis
        == "labels follow the predicted probabilities, as far as the metric depends on them"
    )
    assert consistency_test(classwise_ece, labels, vectors, n_resamples=500).p_value == pytest.approx(1 / 501)


def test_an_impossible_label_is_the_strongest_evidence():
    result = consistency_test(log_loss, [1, 0], [[1.0, 0.0], [0.5, 0.5]], n_resamples=99)
    assert result.statistic == inf
    assert result.p_value == pytest.approx(2 / 100)
    assert np.isfinite(result.null_mean)


@pytest.mark.parametrize(
    ("p_value", "alternative", "expected"),
    [
        ("valid", "greater", 2 / 4),
        ("valid", "less", 3 / 4),
        ("valid", "two-sided", 1.0),
        ("share", "greater", 1 / 3),
        ("share", "less", 2 / 3),
    ],
)
def test_draws_without_a_value_are_left_out_and_said_to_be(p_value, alternative, expected):
    """Of 1, 2 and 9 one is at least 5 and two are at most 5; the observed one makes four."""
    result = consistency_test(
        dealt([5, nan, 1, 2, 9]),
        [0, 1],
        [0.4, 0.6],
        n_resamples=4,
        p_value=p_value,
        alternative=alternative,
    )
    assert result.p_value == pytest.approx(expected)
    assert result.null_mean == pytest.approx(4)
    assert (result.n_resamples, result.n_undefined) == (4, 1)
    assert result.p_value_error == pytest.approx(sqrt(expected * (1 - expected) / 3))
    assert "(2 rows, 4 resamples less 1 undefined)" in str(result)


def test_a_metric_that_is_often_undefined_can_still_reject():
    """Ten rows at 95 % are all right in 60 % of the draws, which then have no overconfidence.

    Given that some are wrong, the mean confidence of these tells the row of 99 % from those of 95 %: it is
    at least 0.99 if that one is the only one that is wrong.
    """
    probabilities = np.column_stack([[0.95] * 9 + [0.99], [0.05] * 9 + [0.01]])
    only_last = 0.01 * 0.95**9
    expected = only_last / (1 - 0.99 * 0.95**9)
    result = consistency_test(
        overconfidence, [0] * 9 + [1], probabilities, n_resamples=4000, alternative="greater"
    )
    assert result.n_undefined / 4000 == pytest.approx(0.99 * 0.95**9, abs=0.03)
    defined = 4000 - result.n_undefined
    assert result.p_value == pytest.approx(expected, abs=4 * sqrt(expected / defined) + 1 / defined)


def test_no_draw_with_a_value_is_no_evidence():
    for p_value in ("valid", "share"):
        result = consistency_test(
            dealt([5, nan, nan]), [0, 1], [0.4, 0.6], n_resamples=2, p_value=p_value, alternative="less"
        )
        assert (result.p_value, result.n_undefined, result.p_value_error) == (1.0, 2, None)
        assert "2 resamples less 2 undefined" in str(result)


def test_an_observed_value_that_is_nan_is_refused():
    with pytest.raises(ParameterError, match="is NaN for these rows"):
        consistency_test(dealt([nan, 1]), [0, 1], [0.4, 0.6], n_resamples=1)


class TestAFunctionOfOnesOwn:
    def test_sees_labels_in_the_users_terms_and_an_array(self):
        seen = []

        def metric(y_true, y_proba):
            seen.append((y_true, y_proba))
            return 0.0

        consistency_test(metric, ["no", "yes"], [0.4, 0.6], n_resamples=5)
        assert len(seen) == 6
        assert seen[0][0].tolist() == ["no", "yes"]
        for labels, probabilities in seen:
            assert set(labels) <= {"no", "yes"}
            assert probabilities.shape == (2, 2)

    def test_gets_weights_if_there_are_any(self):
        def metric(y_true, y_proba, sample_weight):
            return float(sample_weight.sum())

        assert (
            consistency_test(metric, [0, 1], [0.4, 0.6], sample_weight=[1, 2], n_resamples=1).statistic == 3
        )

    def test_gives_the_numbers_of_the_same_metric_of_ours(self):
        labels, probabilities = drawn_problem(60, 4, 5)
        ours = consistency_test(confidence_ece, labels, probabilities, n_resamples=200)
        theirs = consistency_test(
            lambda *rows: confidence_ece(*rows) / 1, labels, probabilities, n_resamples=200
        )
        assert ours.p_value == theirs.p_value
        assert ours.null_mean == pytest.approx(theirs.null_mean)


def test_classes_that_are_not_drawn_do_not_move_the_others():
    """Labels 1, 2, 3 for three columns; without class 3 they would look like column numbers.

    Of three rows at 98 % all are right, or all but one, with the gaps 0.02 and 0.98 - 2 / 3, or fewer.
    """
    expected = sum(binom.pmf(hits, 3, 0.98) * abs(hits / 3 - 0.98) for hits in range(4))
    probabilities = np.array([[0.98, 0.01, 0.01], [0.01, 0.98, 0.01], [0.01, 0.01, 0.98]])
    for metric in (confidence_ece, lambda y, p: confidence_ece(y - 1, p)):
        result = consistency_test(metric, [1, 2, 3], probabilities, n_resamples=300)
        assert result.null_mean == pytest.approx(expected, abs=0.013)


def test_the_same_seed_gives_the_same_result_and_fewer_draws_its_beginning():
    def values(n_resamples, random_state):
        seen = []

        def metric(y_true, y_proba):
            seen.append(y_true.tolist())
            return 0.0

        consistency_test(metric, *drawn_problem(30, 3, 1), n_resamples=n_resamples, random_state=random_state)
        return seen

    assert values(40, 3)[:11] == values(10, 3)
    assert values(40, 3) != values(40, 4)
    assert values(5, np.random.default_rng(0)) == values(5, np.random.default_rng(0))


@pytest.mark.parametrize("n_rows", [20, 3000])
def test_several_metrics_share_the_draws_and_give_the_same_results(n_rows):
    """The binned errors are evaluated for many vectors of labels at once, the others one by one."""
    labels, probabilities = drawn_problem(n_rows, 4, seed=3)
    metrics = [
        confidence_ece,
        partial(classwise_ece, n_bins=7, norm=2, reduction="sum"),
        partial(classwise_ece, norm="max", strategy="quantile"),
        log_loss,
        lambda y_true, y_proba: float(np.mean(y_true + y_proba[:, 0])),
    ]
    together = consistency_tests(metrics, labels, probabilities, n_resamples=60)
    apart = [consistency_test(metric, labels, probabilities, n_resamples=60) for metric in metrics]
    one_by_one = [
        consistency_test(lambda y, p, m=metric: float(m(y, p)), labels, probabilities, n_resamples=60)
        for metric in metrics
    ]
    for ours, separate, plain in zip(together, apart, one_by_one, strict=True):
        assert ours == separate
        assert ours.null_mean == pytest.approx(plain.null_mean, rel=1e-12)
        assert ours.statistic == pytest.approx(plain.statistic, rel=1e-12)


def test_progress_is_reported_and_ends_at_the_total():
    calls = []
    consistency_test(
        confidence_ece, [0, 1], [0.4, 0.6], n_resamples=250, progress=lambda *counts: calls.append(counts)
    )
    assert calls[0] == (2, 250)
    assert calls[-1] == (250, 250)
    assert len(calls) == 125


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_and_probabilities_of_any_float_type(dtype):
    labels, probabilities = drawn_problem(50, 4, 2)
    given = consistency_test(classwise_ece, labels, probabilities.astype(dtype), n_resamples=300)
    logits = Predictions.from_logits(np.log(probabilities).astype(dtype))
    assert given.p_value == pytest.approx(
        consistency_test(classwise_ece, labels, logits, n_resamples=300).p_value, abs=0.05
    )


def test_the_result_names_the_metric_with_its_options():
    result = consistency_test(partial(confidence_ece, n_bins=7), [0, 1], [0.4, 0.6], n_resamples=9)
    assert "confidence_ece(n_bins=7" in str(result)
    assert "9 resamples" in str(result)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_resamples": 0}, "n_resamples must be an integer"),
        ({"n_resamples": 1.5}, "n_resamples must be an integer"),
        ({"alternative": "larger"}, "alternative must be"),
        ({"p_value": "exact"}, "p_value must be"),
        ({"random_state": "seed"}, "random_state must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"progress": True}, "progress must be"),
        ({"random_state": 1.5}, "random_state must be"),
        ({"metric": "ece"}, "metric must be a function"),
        (
            {"metric": returning(np.zeros(2))},
            r"return one number, but metric returned an array of shape \(2,\)",
        ),
        ({"metric": returning(None)}, "return one number, but metric returned a NoneType"),
        ({"metric": returning([0.1, [0.2]])}, "returned a list"),
        ({"metric": returning("0.5")}, "returned a str"),
        ({"metric": decompose}, "return one number, but decompose returned a Decomposition"),
        ({"metric": partial(decompose, loss="log")}, "returned a Decomposition"),
        (
            {"metric": calibration_gain},
            "does not fit: missing a required argument: 'after'",
        ),
        ({"metric": partial(accuracy, foo=2)}, "accuracy has no option 'foo'"),
        ({"metric": partial(returning(0.0), foo=2)}, "unexpected keyword argument 'foo'"),
        (
            {"metric": partial(accuracy, sample_weight=[1, 2])},
            "pass sample_weight= beside the metric",
        ),
        ({"metric": partial(accuracy, [0, 1])}, "may set its options by name only"),
        (
            {"metric": returning(0.0), "sample_weight": [1, 2]},
            "metric is called as .*sample_weight=...",
        ),
    ],
)
def test_options_without_meaning_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        consistency_test(**{"metric": confidence_ece, "y_true": [0, 1], "y_proba": [0.4, 0.6], **arguments})


@pytest.mark.parametrize(
    ("error", "y_true", "y_proba", "sample_weight"),
    [
        (PredictionError, [0, 1], [[0.5, 0.6], [0.5, 0.5]], None),
        (LabelError, [5, 5], [[0.5, 0.5], [0.5, 0.5]], None),
        (LabelError, [0], [[0.5, 0.5], [0.5, 0.5]], None),
        (WeightError, [0, 1], [[0.5, 0.5], [0.5, 0.5]], [1, -1]),
    ],
)
def test_bad_input_gives_the_errors_of_calibrators(error, y_true, y_proba, sample_weight):
    with pytest.raises(error):
        consistency_test(confidence_ece, y_true, y_proba, sample_weight=sample_weight)


def test_objects_and_partials_that_can_be_called_with_rows_will_do():
    class Share:
        def __call__(self, *rows, scale=1, **options):
            return np.float32(len(rows) * scale + len(options))

    def scaled(factor, y_true, y_proba):
        return factor

    for metric in (Share(), partial(Share(), scale=2), partial(scaled, 0.5)):
        assert consistency_test(metric, [0, 1], [0.4, 0.6], n_resamples=2).p_value == 1.0


def test_without_a_seed_the_draws_are_others_every_time():
    labels, probabilities = drawn_problem(40, 3, 0)
    means = {
        consistency_test(log_loss, labels, probabilities, n_resamples=20, random_state=None).null_mean
        for _ in range(3)
    }
    assert len(means) == 3


class TestTheSentence:
    def test_gives_the_null_distribution_if_large_values_count(self):
        text = str(consistency_test(dealt([7, *range(10)]), [0, 1], [0.4, 0.6], n_resamples=10))
        assert "; under calibration mean 4.5, below 9 in 95 % of samples;" in text

    def test_gives_the_null_distribution_if_small_values_count(self):
        result = consistency_test(
            dealt([7, *range(1, 101)]), [0, 1], [0.4, 0.6], n_resamples=100, alternative="less"
        )
        assert result.null_range == (result.null_quantile, inf) == (5, inf)
        assert ", above 5 in 95 % of samples;" in str(result)

    def test_gives_both_ends_if_both_count(self):
        result = consistency_test(
            dealt([7, *range(1, 201)]), [0, 1], [0.4, 0.6], n_resamples=200, alternative="two-sided"
        )
        assert result.null_range == (5, 195)
        assert result.null_quantile == 190
        assert ", between 5 and 195 in 95 % of samples;" in str(result)

    def test_never_says_that_a_share_of_draws_is_zero(self):
        result = consistency_test(
            dealt([2, *[0] * 200]), [0, 1], [0.4, 0.6], n_resamples=200, p_value="share"
        )
        assert result.p_value == 0
        assert "p < 0.005 (2 rows, 200 resamples)" in str(result)


@pytest.mark.slow
@pytest.mark.parametrize("metric", [confidence_ece, classwise_ece, log_loss], ids=lambda m: m.__name__)
def test_the_level_is_kept(metric):
    """500 data sets that are calibrated; rejections at 5 % are Binomial(500, 0.05), p-values uniform."""
    p_values = [
        consistency_test(metric, *drawn_problem(150, 3, seed), n_resamples=199, random_state=seed).p_value
        for seed in range(500)
    ]
    rejections = sum(p <= 0.05 for p in p_values)
    assert binom.ppf(0.001, 500, 0.05) <= rejections <= binom.ppf(0.999, 500, 0.05)
    assert kstest(p_values, "uniform").pvalue > 0.001


@pytest.mark.slow
@pytest.mark.parametrize("metric", [confidence_ece, log_loss], ids=lambda m: m.__name__)
def test_overconfidence_is_found(metric):
    """Squared probabilities: at least half of the data sets of 300 rows are rejected."""
    found = [
        consistency_test(metric, *drawn_problem(300, 3, seed, sharpen=2.0), n_resamples=199).p_value <= 0.05
        for seed in range(50)
    ]
    assert np.mean(found) > 0.5


@pytest.mark.slow
def test_the_level_is_kept_where_draws_have_no_value():
    """Confident rows, of which none is wrong in a third of the data sets; 5 % of the others are rejected.

    Not fewer than 4 % either: p-values are multiples of one over the number of draws that are left, about 270,
    and ties are rare among the surest rows.
    """
    p_values = []
    for seed in range(1500):
        generator = np.random.default_rng(seed)
        wrong = generator.beta(0.5, 40, 100)
        labels = (generator.random(100) < wrong).astype(int)
        if labels.any():
            result = consistency_test(
                overconfidence, labels, wrong, n_resamples=399, random_state=seed, alternative="greater"
            )
            p_values.append(result.p_value)
    assert 0.6 < len(p_values) / 1500 < 0.72
    rejections = sum(p <= 0.05 for p in p_values)
    assert binom.ppf(0.001, len(p_values), 0.04) <= rejections <= binom.ppf(0.999, len(p_values), 0.05)

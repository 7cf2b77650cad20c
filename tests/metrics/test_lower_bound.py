"""The cross-fitted calibration error: closed forms, loops over rows, coverage, and real networks."""

from math import sqrt

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import Predictions, TemperatureScaling
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import confidence_ece
from calibrant.metrics.cross_fitting import cross_folds, event_problems, recalibrated
from calibrant.metrics.lower_bound import calibration_error_lower_bound, lp_calibration_error
from data import load
from strategies import problems

NORMS = [1, 2, 3.5, "max"]


def overconfident(n_rows, n_classes, seed=0, slope=0.5):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.ones(n_classes), n_rows)
    logits = slope * np.log(probabilities)
    return (logits + generator.gumbel(size=logits.shape)).argmax(axis=1), probabilities


def naive_dual(moved, norm):
    """Return the u of unit dual norm with <u, moved> equal to the norm of ``moved``, by its definition."""
    if norm == "max":
        largest = max(range(len(moved)), key=lambda k: abs(moved[k]))
        return [float(np.sign(moved[k])) if k == largest else 0.0 for k in range(len(moved))]
    length = sum(abs(m) ** norm for m in moved) ** (1 / norm)
    return [float(np.sign(m)) * abs(m) ** (norm - 1) / length ** (norm - 1) for m in moved]


def naive_bound(data, norm, kind, recalibrator, n_folds=5):
    """Go through events, folds, rows and classes."""
    terms = [0.0] * data.n_rows
    over, under = [0.0] * data.n_rows, [0.0] * data.n_rows
    events = list(event_problems(data, kind))
    for event in events:
        before = event.predictions.probabilities
        for rows, predictions in recalibrated(event, recalibrator, cross_folds(data, n_folds)):
            for i, after in zip(rows, predictions.probabilities, strict=True):
                truth = [float(k == event.labels[i]) for k in range(event.n_classes)]
                residual = [y - float(f) for y, f in zip(truth, before[i], strict=True)]
                if kind == "full":
                    moved = [float(g) - float(f) for g, f in zip(after, before[i], strict=True)]
                    terms[i] = sum(u * r for u, r in zip(naive_dual(moved, norm), residual, strict=True))
                    continue
                f, g = float(before[i][1]), float(after[1])
                if abs(g - f) <= 1e-6 * f:
                    continue
                term = (residual[1] if g > f else -residual[1]) / len(events)
                terms[i] += term
                inward = g < f if kind == "confidence" else (g < f) == (f >= 0.5)
                (over if inward else under)[i] += term
    weights = np.ones(data.n_rows) if data.weights is None else data.weights
    return tuple(
        sum(w * t for w, t in zip(weights, values, strict=True)) / sum(weights)
        for values in (terms, over, under)
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("kind", "recalibrator"),
    [("confidence", "isotonic"), ("classwise", "isotonic"), ("confidence", "dirichlet")],
)
def test_events_are_a_loop_over_rows(kind, recalibrator, weighted):
    labels, probabilities = overconfident(150, 3)
    weights = np.arange(150) % 4 + 0.5 if weighted else None
    data = LabelledPredictions.parse(probabilities, labels, weights)
    bound = calibration_error_lower_bound(
        labels, probabilities, kind=kind, recalibrator=recalibrator, sample_weight=weights
    )
    expected, over, under = naive_bound(data, 1, kind, recalibrator)
    assert bound.estimate == pytest.approx(expected, rel=1e-9)
    assert bound.recalibrator == recalibrator
    if kind == "confidence":
        assert (bound.overconfidence, bound.underconfidence) == pytest.approx((over, under), rel=1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_all_classes_are_a_loop_over_rows_and_classes(norm):
    labels, probabilities = overconfident(120, 4)
    data = LabelledPredictions.parse(probabilities, labels)
    expected, _, _ = naive_bound(data, norm, "full", "temperature")
    value = lp_calibration_error(labels, probabilities, norm=norm, kind="full", recalibrator="temperature")
    assert value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", ["confidence", "classwise", "full"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_limit_is_that_of_folds_judged_by_earlier_ones(kind, weighted):
    labels, probabilities = overconfident(400, 3, slope=0.2)
    weights = np.arange(400) % 4 + 0.5 if weighted else np.ones(400)
    data = LabelledPredictions.parse(probabilities, labels, weights)
    folds = cross_folds(data, 4)
    recalibrator = "temperature" if kind == "full" else "isotonic"
    terms, duals = np.zeros(400), np.zeros((400, 3))
    events = list(event_problems(data, kind))
    for number, event in enumerate(events):
        truth = np.eye(event.n_classes)[event.labels]
        for rows, after in recalibrated(event, recalibrator, folds, earlier_only=True):
            before = event.predictions.probabilities[rows]
            signs = np.sign(after.probabilities - before) / len(events)
            used = slice(None) if kind == "full" else slice(1, None)
            terms[rows] += (signs * (truth[rows] - before))[:, used].sum(axis=1)
            columns = {"full": slice(None), "classwise": slice(number, number + 1), "confidence": slice(1)}
            duals[rows, columns[kind]] = signs[:, used]
    # If the predictions are true: the variance of u_y over the classes, or over the event and its opposite.
    mass = probabilities.max(axis=1, keepdims=True) * [1, 0, 0] if kind == "confidence" else probabilities
    promised = (mass * duals**2).sum(axis=1) - (mass * duals).sum(axis=1) ** 2
    later = np.concatenate(folds[1:])
    share = weights[later] / weights[later].sum()
    mean = share @ terms[later]
    observed = share**2 / (1 - share) @ (terms[later] - mean) ** 2
    error = sqrt(max(observed, share**2 @ promised[later]))
    quantile = scipy.stats.t.ppf(0.9, 1 / (share @ share) - 1)
    bound = calibration_error_lower_bound(
        labels,
        probabilities,
        sample_weight=weights,
        kind=kind,
        n_folds=4,
        level=0.9,
        recalibrator=recalibrator,
    )
    assert mean > quantile * error
    assert bound.limit == pytest.approx(mean - quantile * error, rel=1e-6)


@settings(max_examples=25)
@given(problem=problems(), kind=st.sampled_from(["confidence", "classwise"]))
def test_zeros_ones_and_ties_are_a_loop_over_rows_too(problem, kind):
    probabilities, labels = problem
    data = LabelledPredictions.parse(probabilities, labels)
    expected, _, _ = naive_bound(data, 1, kind, "isotonic")
    assert lp_calibration_error(labels, probabilities, kind=kind) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "recalibrator", ["auto", "isotonic", "temperature", TemperatureScaling(loss="brier")]
)
def test_three_of_four_right_at_ninety_percent(recalibrator):
    """Every fold learns less than 0.9, so all terms are 0.9 - y: mean 0.15, deviation sqrt(3/16).

    The limit comes from the rows of the last four folds.
    """
    labels = np.tile([0, 0, 0, 1], 100)
    bound = calibration_error_lower_bound(labels, [[0.9, 0.1]] * 400, recalibrator=recalibrator)
    error = sqrt(3 / 16 / 399)
    assert bound.estimate == pytest.approx(0.15)
    assert bound.standard_error == pytest.approx(error)
    data = LabelledPredictions.parse([[0.9, 0.1]] * 400, labels)
    terms = 0.9 - (labels[np.concatenate(cross_folds(data, 5)[1:])] == 0)
    limit = terms.mean() - scipy.stats.t.ppf(0.95, 319) * terms.std(ddof=1) / sqrt(320)
    assert bound.limit == pytest.approx(limit)
    assert 0.09 < bound.limit < 0.13
    assert (bound.overconfidence, bound.underconfidence) == (pytest.approx(0.15), 0)
    assert bound.n_rows == 400


def test_norms_of_one_error_for_three_classes():
    """Predicted (0.8, 0.1, 0.1), happening (0.6, 0.2, 0.2): errors 0.4 in L1, 0.2 in L-max, sqrt(0.06) in L2.

    The folds' own rates differ a little from these, which leaves L1 and L-max as they are: they only need signs.
    """
    labels = np.repeat([0, 1, 2], [600, 200, 200])
    probabilities = np.tile([0.8, 0.1, 0.1], (1000, 1))
    expected = {1: 0.4, 2: sqrt(0.06), "max": 0.2}
    for norm, value in expected.items():
        error = lp_calibration_error(labels, probabilities, norm=norm, kind="full", recalibrator="vector")
        assert error == pytest.approx(value, rel=1e-2 if norm == 2 else 1e-9)


def test_over_and_underconfidence_of_the_positive_class_are_about_one_half():
    """At 0.9 and 0.1 half as often wrong as said means underconfident; more often means overconfident."""
    rows = 400
    scores = np.repeat([0.9, 0.1], rows)
    for rate, over in [(0.05, False), (0.25, True)]:
        wrong = int(rate * rows)
        labels = np.concatenate(
            [np.repeat([0, 1], [wrong, rows - wrong]), np.repeat([1, 0], [wrong, rows - wrong])]
        )
        bound = calibration_error_lower_bound(labels, scores, kind="positive")
        expected = abs(rate - 0.1)
        assert bound.estimate == pytest.approx(expected)
        parts = (bound.overconfidence, bound.underconfidence)
        assert parts == pytest.approx((expected, 0) if over else (0, expected))


def test_the_parts_add_up_and_are_missing_where_they_have_no_meaning():
    labels, probabilities = overconfident(300, 3)
    bound = calibration_error_lower_bound(labels, probabilities)
    assert bound.overconfidence + bound.underconfidence == pytest.approx(bound.estimate)
    assert bound.overconfidence > bound.underconfidence
    for kind in ("classwise", "full"):
        bound = calibration_error_lower_bound(labels, probabilities, kind=kind)
        assert bound.overconfidence is bound.underconfidence is None


def test_the_metric_is_the_estimate_of_the_bound():
    labels, probabilities = overconfident(200, 3)
    for options in (
        {},
        {"kind": "classwise"},
        {"kind": "full", "norm": 2, "recalibrator": "temperature"},
        {"n_folds": 3},
    ):
        bound = calibration_error_lower_bound(labels, probabilities, **options)
        assert lp_calibration_error(labels, probabilities, **options) == bound.estimate


def test_predictions_that_no_map_moves_have_no_error_at_all():
    labels, probabilities = overconfident(100, 3)
    for options in ({}, {"kind": "full", "norm": 2}):
        assert lp_calibration_error(labels, probabilities, recalibrator="uncalibrated", **options) == 0


def test_float32_gives_the_value_of_float64():
    labels, probabilities = overconfident(500, 3)
    single = np.round(probabilities * 2**12) / 2**12
    single[:, 0] = 1 - single[:, 1:].sum(axis=1)
    for kind in ("confidence", "classwise"):
        assert lp_calibration_error(labels, single.astype(np.float32), kind=kind) == pytest.approx(
            lp_calibration_error(labels, single, kind=kind), abs=1e-6
        )


def test_one_row_says_nothing():
    bound = calibration_error_lower_bound([1], [[0.2, 0.5, 0.3]])
    assert (bound.estimate, bound.limit, bound.standard_error) == (0, 0, np.inf)
    assert bound.n_folds == 1
    assert str(bound) == (
        "Calibration error of the predicted class: not estimated, since 1 row cannot be cross-fitted."
    )


def test_there_are_no_more_folds_than_rows():
    labels, probabilities = overconfident(7, 3)
    bound = calibration_error_lower_bound(labels, probabilities, n_folds=1000)
    assert bound.n_folds == 7
    assert str(bound).endswith("cross-fitted with 7 folds; 7 rows).")


def test_rescaled_weights_give_the_same_bound():
    labels, probabilities = overconfident(100, 3)
    weights = np.arange(100) % 3 + 1.0
    expected = calibration_error_lower_bound(labels, probabilities, sample_weight=weights)
    for factor in (0.1, 1e6):
        bound = calibration_error_lower_bound(labels, probabilities, sample_weight=factor * weights)
        assert (bound.estimate, bound.standard_error) == pytest.approx(
            (expected.estimate, expected.standard_error)
        )


def test_it_speaks_in_words():
    labels, probabilities = overconfident(100, 3)
    text = str(calibration_error_lower_bound(labels, probabilities, level=0.9))
    assert text.startswith("Calibration error of the predicted class: at least ")
    assert "with 90 % confidence (one-sided bound from sequential folds); estimate " in text
    assert "overconfidence" in text
    assert text.endswith("isotonic recalibration, cross-fitted with 5 folds; 100 rows).")
    text = str(
        calibration_error_lower_bound(
            labels, probabilities, kind="full", norm="max", recalibrator="temperature"
        )
    )
    assert "L-max distance to temperature recalibration" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": 0.5}, "norm must be"),
        ({"norm": 2}, "needs kind='full'"),
        ({"kind": "top"}, "kind must be"),
        ({"kind": "positive"}, "for two classes, but there are 3"),
        ({"n_folds": 1}, "n_folds must be"),
        ({"recalibrator": "warp"}, "there is no calibrator 'warp'"),
        ({"recalibrator": None}, "recalibrator must be"),
    ],
)
def test_options_without_meaning_are_refused(options, message):
    labels, probabilities = overconfident(20, 3)
    for function in (lp_calibration_error, calibration_error_lower_bound):
        with pytest.raises(ParameterError, match=message):
            function(labels, probabilities, **options)


def test_a_level_without_meaning_is_refused():
    with pytest.raises(ParameterError, match="level must lie"):
        calibration_error_lower_bound([0, 1], [0.2, 0.7], level=95)


@pytest.mark.parametrize("name", ["c10_resnet110", "c10_densenet40", "c100_convnet"])
def test_networks_are_overconfident_until_their_temperature_is_set(name):
    """Nearly all rows are overconfident, so the error is the mean gap, which the binned error estimates well."""
    arrays = load(f"kull_nn/{name}")
    labels, before = arrays["test_y"], Predictions.from_logits(arrays["test_logits"])
    bound = calibration_error_lower_bound(labels, before)
    binned = confidence_ece(labels, before)
    assert binned - 2 * bound.standard_error < bound.estimate <= binned + 1e-3
    assert bound.limit > 0.9 * binned - 2 * bound.standard_error
    assert bound.underconfidence == pytest.approx(0, abs=5e-4)
    fitted = TemperatureScaling().fit(Predictions.from_logits(arrays["val_logits"]), arrays["val_y"])
    after = calibration_error_lower_bound(labels, fitted.transform(before))
    assert after.limit < 0.1 * bound.limit


MAPS = {
    "calibrated": lambda s: s,
    "overconfident": lambda s: 1 / (1 + ((1 - s) / s) ** 0.6),
    "staircase": lambda s: np.where(s < 0.3, 0.15, np.where(s < 0.7, 0.5, 0.85)),
    "wave": lambda s: s + 0.05 * np.sin(4 * np.pi * s) * np.minimum(1, 4 * np.minimum(s, 1 - s)),
    "shifted": lambda s: 0.99 * np.maximum(s - 0.05, 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MAPS)
def test_the_limit_covers_the_true_error_and_the_estimate_does_not_exceed_it(name):
    """2000 samples of 300 rows; 95 % less three binomial standard errors, 0.0049 each."""
    generator = np.random.default_rng(0)
    n_samples, n_rows = 2000, 300
    covered, excess = 0, []
    for _ in range(n_samples):
        scores = 0.001 + 0.998 * generator.random(n_rows)
        chances = MAPS[name](scores)
        labels = (generator.random(n_rows) < chances).astype(int)
        bound = calibration_error_lower_bound(labels, scores, kind="positive")
        # The error of these very rows would do as well; in expectation both are the same.
        truth = np.abs(chances - scores).mean()
        covered += bound.limit <= truth
        excess.append(bound.estimate - truth)
    assert covered / n_samples >= 0.95 - 3 * sqrt(0.95 * 0.05 / n_samples)
    assert np.mean(excess) <= 3 * np.std(excess) / sqrt(n_samples)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["confidence", "classwise"])
def test_the_limit_is_above_zero_for_one_in_twenty_calibrated_samples(kind):
    """1000 samples of 300 rows with labels drawn from the predictions; three binomial standard errors."""
    generator = np.random.default_rng(0)
    n_samples = 1000
    false_alarms = 0
    for _ in range(n_samples):
        probabilities = generator.dirichlet([1.0, 1.0, 1.0], 300)
        labels = (np.log(probabilities) + generator.gumbel(size=(300, 3))).argmax(axis=1)
        false_alarms += calibration_error_lower_bound(labels, probabilities, kind=kind).limit > 0
    assert abs(false_alarms / n_samples - 0.05) <= 3 * sqrt(0.95 * 0.05 / n_samples)


@pytest.mark.slow
def test_the_limit_covers_the_true_error_of_all_classes_together():
    """300 samples of 400 rows with labels drawn from the softmax of 0.6 log p + b."""
    generator = np.random.default_rng(0)
    n_samples, n_rows = 300, 400
    covered = dict.fromkeys(NORMS, 0)
    tight = []
    for _ in range(n_samples):
        probabilities = generator.dirichlet([1.0, 1.0, 1.0], n_rows)
        logits = 0.6 * np.log(probabilities) + [-0.3, 0, 0.3]
        chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        labels = (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
        for norm in NORMS:
            bound = calibration_error_lower_bound(
                labels, probabilities, kind="full", norm=norm, recalibrator="vector", n_folds=3
            )
            order = np.inf if norm == "max" else norm
            truth = np.linalg.norm(chances - probabilities, ord=order, axis=1).mean()
            covered[norm] += bound.limit <= truth
            if norm == 1:
                tight.append(bound.estimate / truth)
    assert min(covered.values()) / n_samples >= 0.95 - 3 * sqrt(0.95 * 0.05 / n_samples)
    assert np.mean(tight) > 0.9


def test_rows_that_are_nearly_all_right_prove_nothing():
    """Thirty rows at 99.5 %, all right: the spread of the terms is zero, that of true predictions is not."""
    bound = calibration_error_lower_bound(np.ones(30, dtype=int), np.full(30, 0.995), kind="positive")
    assert bound.estimate > 0
    assert bound.limit == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scores", "n_rows"),
    [
        (lambda generator, n: generator.beta(50, 0.25, n), 100),
        (lambda generator, n: generator.beta(50, 0.25, n), 300),
        (lambda generator, n: generator.beta(20, 0.5, n), 100),
        (lambda generator, n: generator.random(n), 12),
        (lambda generator, n: generator.choice([0.1, 0.3, 0.5, 0.7, 0.9], n), 100),
        (lambda _, n: np.full(n, 0.3), 550),
    ],
    ids=["sure", "sure, more rows", "less sure", "few rows", "five scores", "one score"],
)
def test_calibrated_predictions_seldom_have_a_limit_above_zero(scores, n_rows):
    """At most 5 % of 400 samples, within three standard deviations of the binomial."""
    generator = np.random.default_rng(7)
    above = 0
    for _ in range(400):
        p = scores(generator, n_rows)
        y = (generator.random(n_rows) < p).astype(int)
        above += calibration_error_lower_bound(y, p, kind="positive").limit > 0
    assert above / 400 <= 0.05 + 3 * sqrt(0.05 * 0.95 / 400)


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [100, 570])
def test_equal_predictions_do_not_bias_the_estimate_upwards(n_rows):
    """All rows at 30 %: folds that were a fixed function of the number of hits would find errors of chance."""
    generator = np.random.default_rng(8)
    found = [
        lp_calibration_error(generator.random(n_rows) < 0.3, np.full(n_rows, 0.3), kind="positive")
        for _ in range(1500)
    ]
    assert np.mean(found) < 3 * np.std(found) / sqrt(len(found))

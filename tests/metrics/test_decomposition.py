"""Decomposition of proper scores: closed forms, loops, a peer's figures, and real networks."""

import re
from math import isclose, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import Predictions, TemperatureScaling
from calibrant.binning import EqualWidth
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import brier_score, confidence_ece, log_loss, spherical_loss
from calibrant.metrics.cross_fitting import cross_folds, recalibrated
from calibrant.metrics.decomposition import decompose
from data import load
from strategies import problems

LOSSES = ["brier", "log", "spherical"]
SCORES = {"brier": brier_score, "log": log_loss, "spherical": spherical_loss}

EVENT_LOSS = {
    "brier": lambda p, o: (p - o) ** 2,
    "log": lambda p, o: -log(p if o else 1 - p) if (p if o else 1 - p) > 0 else np.inf,
    "spherical": lambda p, o: 1 - (p if o else 1 - p) / sqrt(p**2 + (1 - p) ** 2),
}


def naive_isotonic(scores, outcomes, weights):
    """Pool blocks of equal scores while any two neighbours are out of order; a value for every row."""
    blocks = []
    for score in sorted(set(scores)):
        rows = [i for i, s in enumerate(scores) if s == score]
        blocks.append((rows, sum(weights[i] * outcomes[i] for i in rows), sum(weights[i] for i in rows)))
    pooled = True
    while pooled:
        pooled = False
        for j in range(len(blocks) - 1):
            (rows, hits, mass), (more, further, added) = blocks[j], blocks[j + 1]
            if hits / mass > further / added:
                blocks[j : j + 2] = [(rows + more, hits + further, mass + added)]
                pooled = True
                break
    values = [0.0] * len(scores)
    for rows, hits, mass in blocks:
        for i in rows:
            values[i] = hits / mass
    return values


def naive_mean_loss(loss, forecasts, outcomes, weights):
    losses = [EVENT_LOSS[loss](p, o) for p, o in zip(forecasts, outcomes, strict=True)]
    return sum(w * one for w, one in zip(weights, losses, strict=True)) / sum(weights)


def naive_parts(loss, scores, recast, outcomes, weights):
    rate = sum(w * o for w, o in zip(weights, outcomes, strict=True)) / sum(weights)
    return (
        naive_mean_loss(loss, scores, outcomes, weights),
        naive_mean_loss(loss, recast, outcomes, weights),
        naive_mean_loss(loss, [rate] * len(scores), outcomes, weights),
    )


def events(kind, probabilities, labels):
    """Return scores and outcomes of every event, as lists."""
    if kind == "confidence":
        top = [row.tolist().index(max(row)) for row in probabilities]
        return [
            (
                [float(max(row)) for row in probabilities],
                [int(t == y) for t, y in zip(top, labels, strict=True)],
            )
        ]
    return [
        ([float(p) for p in column], [int(y == k) for y in labels])
        for k, column in enumerate(probabilities.T)
    ]


def overconfident(n_rows, n_classes, seed=0, slope=0.5):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.ones(n_classes), n_rows)
    logits = slope * np.log(probabilities)
    return (logits + generator.gumbel(size=logits.shape)).argmax(axis=1), probabilities


def parts_of(result):
    return result.score, result.refinement, result.uncertainty


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("method", ["isotonic", "bins"])
def test_one_score_for_all_rows_has_no_discrimination(loss, method):
    """Three of four at 0.9: calibration is the divergence of 0.9 from 3/4, all else the entropy of 3/4."""
    result = decompose([1, 1, 1, 0], [0.9] * 4, loss=loss, method=method)
    entropy = {"brier": 3 / 16, "log": -0.75 * log(0.75) - 0.25 * log(0.25), "spherical": 1 - sqrt(10) / 4}[
        loss
    ]
    divergence = {
        "brier": 0.15**2,
        "log": 0.75 * log(0.75 / 0.9) + 0.25 * log(0.25 / 0.1),
        "spherical": sqrt(10) / 4 - (0.75 * 0.9 + 0.25 * 0.1) / sqrt(0.82),
    }[loss]
    assert result.calibration == pytest.approx(divergence, rel=1e-9)
    assert result.refinement == pytest.approx(entropy, rel=1e-9)
    assert result.uncertainty == pytest.approx(entropy, rel=1e-9)
    assert result.discrimination == pytest.approx(0, abs=1e-12)
    assert result.share == pytest.approx(divergence / (divergence + entropy))


@settings(max_examples=30)
@given(
    problem=problems(),
    loss=st.sampled_from(LOSSES),
    kind=st.sampled_from(["confidence", "classwise"]),
    data=st.data(),
)
def test_isotonic_is_a_loop_over_events_and_blocks(problem, loss, kind, data):
    probabilities, labels = problem
    probabilities = probabilities.astype(np.float64)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(labels), max_size=len(labels)))
    expected = np.mean(
        [
            naive_parts(loss, scores, naive_isotonic(scores, outcomes, weights), outcomes, weights)
            for scores, outcomes in events(kind, probabilities, labels)
        ],
        axis=0,
    )
    result = decompose(labels, probabilities, sample_weight=weights, loss=loss, kind=kind, method="isotonic")
    if np.isfinite(expected[0]):  # else 1 - p rounds to zero where the other classes add up to a little
        assert result.score == pytest.approx(expected[0], rel=1e-9, abs=1e-12)
    assert (result.refinement, result.uncertainty) == pytest.approx(expected[1:].tolist(), rel=1e-9, abs=1e-9)
    assert result.calibration >= 0
    assert result.within_bins is result.standard_error is None


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["confidence", "classwise"])
def test_bins_are_a_loop_over_bins(loss, kind):
    labels, probabilities = overconfident(150, 3)
    weights = np.random.default_rng(1).integers(1, 4, 150)
    expected, inside = [], []
    for scores, outcomes in events(kind, probabilities, labels):
        members = [min(int(s * 4), 3) for s in scores]

        def bin_means(values, members=members):
            return [
                sum(w * v for w, v, m in zip(weights, values, members, strict=True) if m == mine)
                / sum(w for w, m in zip(weights, members, strict=True) if m == mine)
                for mine in members
            ]

        expected.append(naive_parts(loss, scores, bin_means(outcomes), outcomes, weights))
        of_means = naive_mean_loss(loss, bin_means(scores), outcomes, weights)
        inside.append(expected[-1][0] - of_means)
    result = decompose(
        labels,
        probabilities,
        sample_weight=weights,
        loss=loss,
        kind=kind,
        method="bins",
        binning=EqualWidth(4),
    )
    assert parts_of(result) == pytest.approx(np.mean(expected, axis=0).tolist(), rel=1e-9)
    assert result.within_bins == pytest.approx(np.mean(inside), rel=1e-6)


def test_reliability_without_what_happens_within_bins_is_the_squared_error_of_bins():
    labels, probabilities = overconfident(500, 4)
    result = decompose(labels, probabilities, kind="confidence", method="bins", n_bins=10)
    expected = confidence_ece(labels, probabilities, n_bins=10, strategy="quantile", norm=2) ** 2
    assert result.calibration - result.within_bins == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_recalibration_is_a_paired_mean_over_rows(loss, n_classes, weighted):
    labels, probabilities = overconfident(80, n_classes)
    weights = np.linspace(0.5, 2, 80) if weighted else None
    data = LabelledPredictions.parse(probabilities, labels, weights)
    recast = np.empty_like(probabilities)
    for rows, predictions in recalibrated(data, "temperature", cross_folds(data, 4)):
        recast[rows] = predictions.probabilities
    result = decompose(
        labels,
        probabilities,
        sample_weight=weights,
        loss=loss,
        method="recalibration",
        recalibrator="temperature",
        n_folds=4,
    )
    score, after = (SCORES[loss](labels, p, sample_weight=weights) for p in (probabilities, recast))
    rates = np.bincount(labels, weights) / (80 if weights is None else weights.sum())
    uncertainty = SCORES[loss](labels, np.tile(rates, (80, 1)), sample_weight=weights)
    assert parts_of(result) == pytest.approx([score, after, uncertainty], rel=1e-9)
    assert result.calibration == pytest.approx(score - after, abs=1e-12)
    if weights is None:
        each = [
            SCORES[loss]([y, 0], [f, g], sample_weight=[1, 0])
            - SCORES[loss]([0, y], [f, g], sample_weight=[0, 1])
            for y, f, g in zip(labels, probabilities, recast, strict=True)
        ]
        error = np.std(each, ddof=1) / sqrt(80)
        assert result.standard_error == pytest.approx(error, rel=1e-9)
        assert result.interval(0.95) == pytest.approx(
            (result.calibration - 1.959964 * error, result.calibration + 1.959964 * error), rel=1e-6
        )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "options",
    [
        {"method": "isotonic", "kind": "confidence"},
        {"method": "isotonic", "kind": "classwise"},
        {"method": "bins", "kind": "classwise"},
        {"method": "recalibration", "kind": "confidence"},
        {"method": "recalibration", "kind": "classwise", "recalibrator": "temperature"},
        {"method": "recalibration", "recalibrator": TemperatureScaling(loss="brier")},
        {},
    ],
)
def test_the_parts_add_up(loss, options):
    labels, probabilities = overconfident(120, 3)
    result = decompose(labels, probabilities, loss=loss, **options)
    assert result.score == pytest.approx(result.calibration + result.refinement, rel=1e-12)
    assert result.score == pytest.approx(
        result.calibration - result.discrimination + result.uncertainty, rel=1e-12
    )
    assert result.share == pytest.approx(result.calibration / result.score)
    assert result.n_rows == 120


def test_by_default_two_classes_are_isotonic_and_more_are_recalibrated():
    two, three = decompose(*overconfident(60, 2)), decompose(*overconfident(60, 3))
    assert (two.method, two.kind) == ("isotonic", "positive")
    assert (three.method, three.kind) == ("recalibration", "full")
    assert three.recalibrated_by == (
        "a mixture of dirichlet-l2, TemperatureScaling(loss='brier') and base rates cross-fitted with 5 folds"
    )
    by_log = decompose(*overconfident(60, 3), loss="log")
    assert by_log.recalibrated_by == "dirichlet-l2 cross-fitted with 5 folds"
    assert decompose(*overconfident(60, 3), method="bins").kind == "confidence"


def test_model_diagnostics_agrees():
    """Its release 1.5.0 printed miscalibration, discrimination and uncertainty of these rows."""
    i = np.arange(200)
    scores = (1 + (37 * i) % 98) / 100
    labels = ((53 * i) % 101 < 100 * scores**1.5).astype(int)
    printed = {
        ("brier", False): (0.020414147441775138, 0.09790714744177517, 0.23897500000000002),
        ("brier", True): (0.020753700834546973, 0.1037530934263021, 0.23865427980980022),
        ("log", False): (0.0653382528222532, 0.23914457773736514, 0.6709321847375348),
        ("log", True): (0.06419059793735055, 0.2578836919382369, 0.6702809127053959),
    }
    for (loss, weighted), figures in printed.items():
        result = decompose(labels, scores, loss=loss, sample_weight=1 + i % 3 if weighted else None)
        assert (result.calibration, result.discrimination, result.uncertainty) == pytest.approx(
            figures, rel=1e-9
        )


def test_a_perfect_score_has_nothing_to_remove():
    result = decompose([0, 1, 1], [0.0, 1.0, 1.0], loss="log")
    assert (result.score, result.calibration, result.share) == (0, 0, 0)


REFUTED = [0, 1, 0, 1, 1, 0, 0, 1], [0.0, 0.0, 0.2, 0.4, 0.6, 0.6, 0.7, 0.9]


@pytest.mark.parametrize("method", ["isotonic", "bins", "recalibration"])
def test_an_impossible_event_is_all_miscalibration(method):
    """Infinite loss of which a finite one is left: so much was removed, but no share of it."""
    result = decompose(*REFUTED, loss="log", method=method, recalibrator="temperature")
    assert result.score == result.calibration == np.inf
    assert np.isfinite([result.refinement, result.discrimination]).all()
    assert np.isnan(result.share)
    assert (result.n_refuted, result.n_refuted_after) == (1, 0)
    text = str(result)
    assert text.startswith(
        "log-loss of the positive class: infinite, since 1 row has probability zero for the true class; "
    )
    assert f"leaves refinement {result.refinement:.4g} = uncertainty 0.6931 - " in text
    assert "so calibration is infinite; " in text
    assert text.endswith("for a finite value clip the zeros to a floor, or use another loss (8 rows).")
    assert not any(phrase in text for phrase in ("%", "nan", "inf ", "standard error"))
    if method == "recalibration":
        assert result.interval() == (-np.inf, np.inf)


@pytest.mark.parametrize("method", ["isotonic", "bins", "recalibration"])
def test_refuted_rows_are_counted_once_for_all_events(method):
    """Row 0 gives class 0 nothing and class 1 everything: refuted for three classes, and as a prediction."""
    labels, probabilities = overconfident(40, 3)
    labels[0], probabilities[0] = 0, [0.0, 1.0, 0.0]
    for kind in ("confidence", "classwise"):
        result = decompose(labels, probabilities, loss="log", method=method, kind=kind, recalibrator="vector")
        assert (result.calibration, result.n_refuted) == (np.inf, 1)
        assert "1 row has probability zero for the observed outcome" in str(result)


def test_what_recalibration_leaves_impossible_is_not_defined():
    result = decompose(
        [1, 0, 1], [0.0, 0.5, 0.5], loss="log", method="recalibration", recalibrator="uncalibrated"
    )
    assert result.score == result.refinement == np.inf
    assert np.isnan([result.calibration, result.share]).all()
    assert result.interval() == (-np.inf, np.inf)
    text = str(result)
    assert re.search(
        "1 row has probability zero for the true class; after recalibration by .*, 1 row has probability zero",
        text,
    )
    assert "calibration is undefined" in text


def test_scores_and_their_bins_refuted_alike_leave_nothing_to_say_of_what_is_within_bins():
    result = decompose(*REFUTED, loss="log", method="bins", n_bins=4)
    assert result.calibration == np.inf
    assert np.isnan(result.within_bins)


def test_a_recalibration_that_is_refuted_itself_has_removed_nothing():
    """Isotonic regression of the other folds gives the lowest scores the probability zero."""
    labels, scores = [1, 0, 0, 0, 0, 1, 1, 1, 0, 1], np.linspace(0.1, 0.9, 10)
    result = decompose(labels, scores, loss="log", method="recalibration", recalibrator="isotonic")
    assert np.isfinite(result.score)
    assert (result.refinement, result.calibration) == (np.inf, -np.inf)
    assert result.n_refuted == 0 < result.n_refuted_after
    assert np.isnan(result.share)
    assert (
        "no removable loss found: recalibration by isotonic cross-fitted with 5 folds gives an infinite loss"
        in (str(result))
    )
    assert "use a recalibrator without zeros" in str(result)


def saturated_with_random_labels(n_rows, n_classes=5, share=0.2):
    """Logits of standard deviation 60, and a share of labels that have nothing to do with them."""
    generator = np.random.default_rng(0)
    logits = 60 * generator.normal(size=(n_rows, n_classes))
    at_random = generator.random(n_rows) < share
    labels = np.where(at_random, generator.integers(0, n_classes, n_rows), logits.argmax(axis=1))
    return labels, Predictions.from_logits(logits)


@pytest.mark.parametrize("loss", ["brier", "spherical"])
def test_saturated_predictions_with_random_labels_have_a_removable_loss(loss):
    """The true frequencies are 0.84 and 0.04: the Brier score falls from 0.32 to 1 - 0.84^2 - 4 x 0.04^2, by 0.032."""
    result = decompose(*saturated_with_random_labels(1000), loss=loss)
    assert result.calibration > 3 * result.standard_error > 0
    if loss == "brier":
        assert result.calibration == pytest.approx(0.032, abs=3 * result.standard_error)


def test_a_part_below_zero_is_called_what_it_is():
    """Fitted by log-loss a temperature avoids rare certainties that were wrong, and loses on all the others."""
    result = decompose(*saturated_with_random_labels(1000), recalibrator="temperature")
    assert result.calibration < -0.05
    assert (
        "; no removable loss found: recalibration by temperature cross-fitted with 5 folds increased it by "
        f"{-result.calibration:.4g} (1000 rows)."
    ) in str(result)
    assert "removes" not in str(result)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.55, 0.7])
@pytest.mark.parametrize("n_rows", [10, 70, 130])
@pytest.mark.parametrize("method", ["isotonic", "bins"])
@pytest.mark.parametrize("loss", LOSSES)
def test_rounding_is_no_part_of_a_score(rate, n_rows, method, loss):
    """One score, which is the rate of events in float64: nothing to remove, and nothing told apart."""
    happened = round(rate * n_rows)
    labels = np.arange(n_rows) < happened
    result = decompose(labels.astype(int), [happened / n_rows] * n_rows, method=method, loss=loss)
    assert (result.calibration, result.discrimination) == (0, 0)
    assert "calibration 0 + " in str(result)
    assert "discrimination 0 + " in str(result)


def test_there_are_no_more_folds_than_rows():
    labels, probabilities = overconfident(6, 3)
    result = decompose(labels, probabilities, recalibrator="temperature", n_folds=1000)
    assert result.recalibrated_by == "temperature cross-fitted with 6 folds"


@pytest.mark.parametrize("method", ["isotonic", "bins", "recalibration"])
def test_one_row_is_enough(method):
    result = decompose([1], [[0.2, 0.5, 0.3]], method=method)
    assert isclose(result.score, result.calibration + result.refinement)
    assert str(result).endswith(" (1 row).")
    if method == "recalibration":
        assert "; one row cannot be cross-fitted, so calibration was not estimated (1 row)." in str(result)
        assert "5 folds" not in str(result)


@pytest.mark.parametrize("method", ["isotonic", "bins", "recalibration"])
def test_the_order_of_rows_does_not_matter(method):
    labels, probabilities = overconfident(90, 3)
    weights = np.arange(90) % 4 + 1
    order = np.random.default_rng(2).permutation(90)
    before = decompose(labels, probabilities, sample_weight=weights, method=method, kind="confidence")
    after = decompose(
        labels[order], probabilities[order], sample_weight=weights[order], method=method, kind="confidence"
    )
    assert parts_of(after) == pytest.approx(parts_of(before), abs=1e-9)


@pytest.mark.parametrize("method", ["isotonic", "bins"])
def test_weights_count_rows_where_nothing_is_held_out(method):
    labels, probabilities = overconfident(90, 3)
    counts = np.arange(90) % 4
    weighted = decompose(labels, probabilities, sample_weight=counts, method=method)
    repeated = decompose(np.repeat(labels, counts), np.repeat(probabilities, counts, axis=0), method=method)
    assert parts_of(weighted) == pytest.approx(parts_of(repeated), rel=1e-9)


def test_it_speaks_in_words():
    text = str(
        decompose(*overconfident(60, 3), loss="log", method="recalibration", recalibrator="temperature")
    )
    assert text.startswith("log-loss of all classes together: ")
    assert "temperature cross-fitted with 5 folds removes" in text
    assert "standard error" in text
    assert text.endswith("(60 rows).")
    in_bins = decompose(*overconfident(60, 2), method="bins")
    assert "of it arises within bins" in str(in_bins)
    with pytest.raises(ParameterError, match="only a decomposition by method='recalibration'"):
        in_bins.interval()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, "loss must be"),
        ({"method": "loess"}, "method must be"),
        ({"kind": "top"}, "kind must be"),
        ({"kind": "full", "method": "isotonic"}, "is for single events"),
        ({"n_bins": 0}, "n_bins must be"),
        ({"n_folds": 1}, "n_folds must be"),
        ({"recalibrator": "warp"}, "there is no calibrator 'warp'"),
        ({"kind": "positive"}, "for two classes, but there are 3"),
    ],
)
def test_options_without_meaning_are_refused(options, message):
    labels, probabilities = overconfident(20, 3)
    with pytest.raises(ParameterError, match=message):
        decompose(labels, probabilities, **options)


@pytest.mark.parametrize("name", ["c10_resnet110", "c100_convnet"])
def test_networks_lose_by_temperature_scaling_what_could_be_removed(name):
    """Cross-fitting on the test rows finds what a fit on the validation rows removes, and then nothing more."""
    arrays = load(f"kull_nn/{name}")
    labels, before = arrays["test_y"], Predictions.from_logits(arrays["test_logits"])
    fitted = TemperatureScaling().fit(Predictions.from_logits(arrays["val_logits"]), arrays["val_y"])
    after = fitted.transform(before)
    options = {"loss": "log", "method": "recalibration", "recalibrator": "temperature"}
    removable = decompose(labels, before, **options)
    assert removable.calibration == pytest.approx(
        log_loss(labels, before) - log_loss(labels, after), abs=1e-3
    )
    assert removable.share > 0.4
    left = decompose(labels, after, **options)
    assert abs(left.calibration) < 1e-3
    # Fitted to the same rows, something always seems removable; of the top label, far less than before.
    top = [decompose(labels, p, loss="log", kind="confidence").calibration for p in (before, after)]
    assert 0 < top[1] < 0.05 * top[0]


@pytest.mark.slow
def test_more_can_be_removed_than_a_temperature_does():
    """Dirichlet calibration of ResNet-110 reaches the log-loss 0.203 to 0.206 of Kull et al. (2019), Table 13."""
    arrays = load("kull_nn/c10_resnet110")
    result = decompose(arrays["test_y"], Predictions.from_logits(arrays["test_logits"]), loss="log")
    assert result.recalibrated_by.startswith("dirichlet-l2")
    assert 0.202 < result.refinement < 0.206
    low, high = result.interval()
    assert low < 0.35827 - 0.20511 < high


@pytest.mark.slow
def test_recalibration_bounds_the_true_calibration_part_from_below_and_isotonic_is_above_it():
    """For labels drawn at sigmoid(0.6 logit p), E (p - C)^2 is known; 200 samples of 300 rows."""
    generator = np.random.default_rng(0)
    recalibration, isotonic, true = [], [], []
    for _ in range(200):
        scores = 0.001 + 0.998 * generator.random(300)
        chance = 1 / (1 + ((1 - scores) / scores) ** 0.6)
        labels = (generator.random(300) < chance).astype(int)
        true.append(np.mean((scores - chance) ** 2))
        recalibration.append(
            decompose(labels, scores, method="recalibration", recalibrator="temperature").calibration
        )
        isotonic.append(decompose(labels, scores).calibration)
    below, above = np.subtract(recalibration, true), np.subtract(isotonic, true)
    error = np.std(below) / sqrt(200)
    assert -0.002 < below.mean() < 2 * error
    assert above.mean() > 5 * np.std(above) / sqrt(200)

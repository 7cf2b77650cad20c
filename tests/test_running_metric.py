"""RunningMetric: a metric collected by a training loop."""

import math
import pickle
from functools import partial

import numpy as np
import pytest

from calibrant.errors import LabelError, ParameterError, PredictionError
from calibrant.metrics import classwise_ece, confidence_ece, debiased_ece
from calibrant.predictions import Predictions
from calibrant.streaming import RunningMetric, streaming_metrics

GENERATOR = np.random.default_rng(0)
LOGITS = GENERATOR.normal(0, 2, (200, 4))
LABELS = (LOGITS + GENERATOR.gumbel(size=LOGITS.shape)).argmax(axis=1)
BATCHES = np.array_split(np.arange(200), 7)


def collected(metric: RunningMetric, batches=BATCHES) -> RunningMetric:
    for batch in batches:
        metric.update(LOGITS[batch], LABELS[batch])
    return metric


@pytest.mark.parametrize("name", streaming_metrics())
def test_batches_give_the_metric_of_all_rows(name):
    # Its bins are those of equal mass unless it is told otherwise, and unknown before all rows have come.
    chosen = partial(debiased_ece, strategy="uniform") if name == "debiased_ece" else name
    metric = collected(RunningMetric(chosen, space="logits"))
    whole = RunningMetric(chosen, space="logits")
    assert metric.compute() == pytest.approx(whole(LOGITS, LABELS), rel=1e-9, abs=1e-12)


def test_parsed_predictions_say_themselves_what_they_are():
    metric = RunningMetric("confidence_ece")
    metric.update(Predictions.from_logits(LOGITS), LABELS)
    assert metric.compute() == RunningMetric("confidence_ece", space="logits")(LOGITS, LABELS)


def test_options_are_set_by_a_partial():
    metric = collected(RunningMetric(partial(classwise_ece, n_bins=5), space="logits"))
    expected = classwise_ece(LABELS, Predictions.from_logits(LOGITS), n_bins=5)
    assert metric.compute() == pytest.approx(expected, rel=1e-12)


def test_a_call_returns_the_metric_of_the_batch_and_keeps_its_rows():
    metric = RunningMetric(space="logits")
    for batch in BATCHES:
        expected = confidence_ece(LABELS[batch], Predictions.from_logits(LOGITS[batch]))
        assert metric(LOGITS[batch], LABELS[batch]) == expected
    assert metric.compute() == collected(RunningMetric(space="logits")).compute()


def test_merged_parts_are_the_whole_also_after_pickling():
    first = collected(RunningMetric(space="logits"), BATCHES[:3])
    second = collected(RunningMetric(space="logits"), BATCHES[3:])
    merged = first.merge(pickle.loads(pickle.dumps(second)))
    assert merged is first
    assert merged.compute() == pytest.approx(collected(RunningMetric(space="logits")).compute(), rel=1e-12)


def test_reset_removes_all_rows():
    metric = collected(RunningMetric(space="logits"))
    assert repr(metric) == "RunningMetric(confidence_ece(n_bins=15, strategy='uniform', norm=1), 200 rows)"
    metric.reset()
    with pytest.raises(ParameterError, match=r"no rows yet; call update first"):
        metric.compute()
    assert collected(metric, BATCHES[:1]).compute() == RunningMetric(space="logits")(
        LOGITS[BATCHES[0]], LABELS[BATCHES[0]]
    )


def test_images_and_padding():
    metric = RunningMetric(space="logits", class_axis=1, ignore_label=-100)
    images, masks = LOGITS.reshape(2, 10, 10, 4).transpose(0, 3, 1, 2), LABELS.reshape(2, 10, 10).copy()
    masks[0] = -100
    assert math.isnan(metric(images[:1], masks[:1]))  # nothing but padding
    metric.update(images[:1], masks[:1].tolist())
    metric.update(images, masks)
    metric.update(images, masks, np.zeros(masks.shape))
    metric.update(images[:0], masks[:0])
    assert math.isnan(metric(images[:0], masks[:0]))
    assert math.isnan(RunningMetric()([], []))
    assert metric.compute() == confidence_ece(LABELS[100:], Predictions.from_logits(LOGITS[100:]))


def test_what_is_refused_changes_nothing():
    metric = collected(RunningMetric(space="logits"))
    before = metric.compute()
    with pytest.raises(LabelError, match=r"column numbers 0\.\.3"):
        metric.update(LOGITS[:2], [0, 7])
    with pytest.raises(PredictionError, match=r"must be finite"):
        metric.update(LOGITS[:2] * np.nan, [0, 1])
    assert metric.compute() == before
    with pytest.raises(ParameterError, match=r"space must be 'probabilities' or 'logits', not 'odds'"):
        RunningMetric(space="odds")
    with pytest.raises(ParameterError, match=r"kde_ece.* needs all rows at once"):
        RunningMetric("kde_ece")
    with pytest.raises(ParameterError, match=r"only the same metric can be merged"):
        metric.merge(RunningMetric("log_loss"))

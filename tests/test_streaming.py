"""Metrics collected in batches, on several machines, in any order."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant.metrics
from calibrant import Predictions
from calibrant.binning import EqualMass
from calibrant.errors import LabelError, ParameterError, PredictionError, WeightError
from calibrant.metrics import (
    brier_score,
    class_ece,
    classwise_ece,
    confidence_ece,
    debiased_ece,
    log_loss,
    top_label_ece,
)
from calibrant.metrics.declaration import options_of
from calibrant.streaming import Accumulator, streaming_metrics
from strategies import problems

NAMES = streaming_metrics()
every_metric = pytest.mark.parametrize("name", NAMES)


def metric_of(name):
    """The metric with bins that are known before the first batch."""
    metric = getattr(calibrant.metrics, name)
    return partial(metric, strategy="uniform") if "strategy" in options_of(metric) else metric


def rows(n_rows=500, n_classes=4, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(n_classes, 0.5), n_rows)
    return generator.integers(0, n_classes, n_rows), p, generator.random(n_rows) + 0.1


def test_every_binned_metric_and_proper_score_can_be_collected():
    expected = {
        "accuracy",
        "brier_score",
        "classwise_ece",
        "confidence_ece",
        "debiased_ece",
        "log_loss",
        "maximum_calibration_error",
        "spherical_loss",
        "top_k_confidence_ece",
        "top_k_label_ece",
        "top_label_ece",
    }
    assert expected <= set(NAMES)


@every_metric
def test_batches_give_the_value_of_all_rows(name):
    y, p, w = rows()
    metric = metric_of(name)
    accumulator = Accumulator(metric)
    for batch in np.array_split(np.arange(len(y)), 7):
        accumulator.update(y[batch], p[batch], w[batch])
    expected = metric(y, p, sample_weight=w)
    assert accumulator.result() == pytest.approx(expected, rel=1e-12)
    assert accumulator.n_rows == len(y)


@every_metric
@settings(max_examples=15)
@given(problem=problems(), cut=st.integers(1, 5), swap=st.booleans())
def test_two_parts_merge_in_any_order(name, problem, cut, swap):
    p, y = problem
    metric = metric_of(name)
    parts = [Accumulator(metric).update(y[s], p[s]) for s in (slice(0, cut), slice(cut, None))]
    merged = parts[swap].merge(parts[not swap]).result()
    expected = metric(y, p)
    assert merged == pytest.approx(expected, rel=1e-6 if p.dtype == np.float32 else 1e-9, abs=1e-12)


@every_metric
def test_they_travel_between_processes(name):
    y, p, _ = rows()
    metric = metric_of(name)
    accumulator = pickle.loads(pickle.dumps(Accumulator(metric).update(y, p)))
    assert accumulator.result() == pytest.approx(metric(y, p), rel=1e-12)
    assert accumulator.merge(Accumulator(metric).update(y, p)).n_rows == 2 * len(y)


def test_the_error_of_one_class_is_collected_by_its_name():
    y, p, _ = rows(n_classes=3)
    names = np.array(["ant", "bee", "cat"])
    accumulator = Accumulator(partial(class_ece, label="bee"), classes=names)
    for batch in np.array_split(np.argsort(y), 5):
        accumulator.update(names[y[batch]], p[batch])
    assert accumulator.result() == pytest.approx(class_ece(y, p, label=1), rel=1e-12)


def test_memory_does_not_grow_with_rows():
    accumulator = Accumulator(classwise_ece)
    sizes = set()
    for seed in range(5):
        accumulator.update(*rows(seed=seed)[:2])
        sizes.add(len(pickle.dumps(accumulator)))
    assert max(sizes) - min(sizes) < 50


def test_options_are_kept_and_shown():
    accumulator = Accumulator(partial(confidence_ece, n_bins=4, norm=2))
    y, p, _ = rows()
    assert accumulator.update(y, p).result() == pytest.approx(confidence_ece(y, p, n_bins=4, norm=2))
    assert repr(accumulator) == "Accumulator(confidence_ece(n_bins=4, strategy='uniform', norm=2), 500 rows)"


def test_quantile_bins_come_from_a_sample():
    y, p, _ = rows()
    for metric in (confidence_ece, debiased_ece, partial(class_ece, label=1)):
        with pytest.raises(ParameterError, match="chooses its bins from all scores"):
            Accumulator(partial(metric, strategy="quantile"))
    edges = EqualMass(10)(p.max(axis=1))
    accumulator = Accumulator(partial(confidence_ece, binning=edges)).update(y[:100], p[:100])
    accumulator.update(y[100:], p[100:])
    assert accumulator.result() == pytest.approx(confidence_ece(y, p, binning=EqualMass(10)))


def test_an_empty_batch_and_one_without_weight_change_nothing():
    y, p, _ = rows()
    accumulator = Accumulator("log_loss").update(y, p)
    before = accumulator.result()
    accumulator.update(y[:0], p[:0]).update(y, p, np.zeros(len(y)))
    assert accumulator.result() == before
    assert accumulator.n_rows == len(y)
    with pytest.raises(PredictionError, match="sum to 1"):
        accumulator.update(y, 2 * p, np.zeros(len(y)))


def test_a_refused_batch_changes_nothing():
    y, p, _ = rows()
    accumulator = Accumulator("log_loss").update(y, p)
    before = accumulator.result()
    with pytest.raises(LabelError, match="column numbers"):
        accumulator.update(np.full(len(y), 9), p)
    with pytest.raises(LabelError, match="the classes of all batches must be the same"):
        accumulator.update([0, 1], [[0.5, 0.5]] * 2)
    assert accumulator.result() == before


def test_batches_may_lack_classes_if_these_are_named():
    y, p, _ = rows(n_classes=3)
    names = np.array(["ant", "bee", "cat"])
    few = names[y] != "cat"
    for accumulator in (
        Accumulator("log_loss", classes=names).update(names[y[few]], p[few]),
        Accumulator("log_loss").update(names[y[few]], pd.DataFrame(p[few], columns=names)),
    ):
        accumulator.update(names[y[~few]], p[~few])
        assert accumulator.result() == pytest.approx(log_loss(y, p))
    with pytest.raises(LabelError):
        Accumulator("log_loss").update(names[y[few]], p[few])


def test_whole_numbers_can_be_names_too():
    y, p, _ = rows(n_classes=3)
    years = np.array([1999, 2007, 2012])
    accumulator = Accumulator("log_loss", classes=years)
    for batch in np.array_split(np.argsort(y), 6):
        accumulator.update(years[y[batch]], p[batch])
    assert accumulator.result() == pytest.approx(log_loss(y, p))


def test_columns_in_another_order_are_refused():
    y, p, _ = rows(n_classes=3)
    names = ["ant", "bee", "cat"]
    accumulator = Accumulator("log_loss").update(np.array(names)[y], pd.DataFrame(p, columns=names))
    with pytest.raises(LabelError, match="in one order"):
        accumulator.update(np.array(names)[y], pd.DataFrame(p[:, ::-1], columns=names[::-1]))
    with pytest.raises(LabelError, match="in one order"):
        accumulator.merge(Accumulator("log_loss").update(y, p))


def test_other_metrics_and_other_options_do_not_merge():
    first = Accumulator(confidence_ece)
    for other in (Accumulator(brier_score), Accumulator(partial(confidence_ece, n_bins=3))):
        with pytest.raises(ParameterError, match="only the same metric can be merged"):
            first.merge(other)
    with pytest.raises(ParameterError, match=r"only the same metric can be merged into .*, not int"):
        first.merge(3)


def test_no_rows_no_result():
    with pytest.raises(ParameterError, match="has no rows yet; call update first"):
        Accumulator(top_label_ece).result()
    assert Accumulator("log_loss").merge(Accumulator("log_loss")).n_rows == 0


def test_metrics_that_need_all_rows_are_refused():
    with pytest.raises(ParameterError, match="there is no metric 'ece'; known are"):
        Accumulator("ece")
    with pytest.raises(ParameterError, match="needs all rows at once"):
        Accumulator(print)
    with pytest.raises(ParameterError, match="norm must be"):
        Accumulator(partial(confidence_ece, norm=0))


def test_several_numbers_are_refused():
    with pytest.raises(ParameterError, match="reduction='none' gives several numbers"):
        Accumulator(partial(classwise_ece, reduction="none"))


def test_names_that_repeat_and_weights_of_no_length_are_refused():
    with pytest.raises(ParameterError, match="classes must be different labels"):
        Accumulator("accuracy", classes=["a", "a"])
    y, p, _ = rows()
    with pytest.raises(WeightError, match="one number per row"):
        Accumulator("accuracy").update(y, p, 2.0)


def test_logits_are_collected_exactly():
    """A loss of 2000 nats survives, and float32 batches keep float64 sums."""
    logits = Predictions.from_logits(np.array([[2000.0, 0.0]], dtype=np.float32))
    accumulator = Accumulator("log_loss").update([1], logits).update([0], logits)
    assert accumulator.result() == 1000.0

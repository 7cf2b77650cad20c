"""Metrics of rows in partitions: values of all rows at once, intervals of a naive jackknife."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from partitions_of_rows import LOGITS, given, rows, table_of, tables_of, written
from scipy.stats import t as student

from calibrant import metrics
from calibrant.distributed import evaluate
from calibrant.distributed.layout import content_hash, part_of
from calibrant.distributed.source import JACKKNIFE
from calibrant.errors import ParameterError
from calibrant.streaming import streaming_metrics


def test_every_streaming_metric_is_that_of_all_rows(tmp_path):
    logits, labels = rows(1200)
    weights = np.random.default_rng(2).gamma(2.0, 1.0, 1200)
    paths = written(tmp_path, tables_of(logits, labels, [0, 300, 301, 900], weights))
    found = evaluate(paths, metrics=streaming_metrics(), sample_weight="w", **LOGITS)
    assert list(found) == streaming_metrics()
    for name, interval in found.items():
        function = getattr(metrics, name)
        options = {"strategy": "uniform"} if "uniform" in interval.definition else {}
        expected = function(labels, given(logits), sample_weight=weights, **options)
        assert interval.estimate == pytest.approx(expected, rel=1e-9, nan_ok=True), name


@pytest.mark.parametrize(
    "function", [metrics.log_loss, partial(metrics.debiased_ece, n_bins=5, strategy="uniform", signed=True)]
)
def test_intervals_are_those_of_the_jackknife_over_hashed_parts(function):
    logits, labels = rows(2000)
    (interval,) = evaluate(table_of(logits, labels), metrics=[function], level=0.9, **LOGITS).values()
    part = part_of(content_hash(logits, labels), 100, JACKKNIFE)
    without = [function(labels[part != number], given(logits[part != number])) for number in np.unique(part)]
    m = len(without)
    error = np.sqrt((m - 1) / m * ((without - np.mean(without)) ** 2).sum())
    half = student.ppf(0.95, m - 1) * error
    value = function(labels, given(logits))
    assert (interval.low, interval.high) == pytest.approx((value - half, value + half), rel=1e-7)


def test_errors_that_are_positive_by_noise_have_no_interval():
    logits, labels = rows(300)
    (found,) = evaluate(table_of(logits, labels), metrics=["confidence_ece"], **LOGITS).values()
    assert np.isnan([found.low, found.high]).all()
    assert "no interval" in str(found)
    assert "positive by noise alone" in str(found)


def test_partitions_do_not_matter(tmp_path):
    logits, labels = rows(900)
    whole = evaluate(table_of(logits, labels), **LOGITS)
    paths = written(tmp_path, tables_of(logits, labels, [10, 10, 500]))
    parts = evaluate(paths[::-1], **LOGITS)
    for name, interval in whole.items():
        other = parts[name]
        assert (other.estimate, other.low, other.high) == pytest.approx(
            (interval.estimate, interval.low, interval.high), abs=1e-9, nan_ok=True
        )


def test_rows_of_one_key_are_one_observation():
    """Ten copies of every row are no more evidence than one of each, if the key says so."""
    logits, labels = rows(600)
    copies = table_of(np.tile(logits, (10, 1)), np.tile(labels, 10))
    keyed = copies.append_column("who", pa.array(np.tile(np.arange(600), 10)))
    single = table_of(logits, labels).append_column("who", pa.array(np.arange(600)))
    alone, repeated = (
        evaluate(table, metrics=["log_loss"], key="who", **LOGITS)["log_loss"] for table in (single, keyed)
    )
    assert repeated.high - repeated.low == pytest.approx(alone.high - alone.low, rel=1e-9)


def test_metrics_that_need_all_rows_say_so():
    with pytest.raises(ParameterError, match=r"kde_ece.* needs all rows at once; in partitions there are"):
        evaluate(table_of(*rows(20)), metrics=["kde_ece"], **LOGITS)
    with pytest.raises(ParameterError, match="there is no metric 'ece'"):
        evaluate(table_of(*rows(20)), metrics=["ece"], **LOGITS)

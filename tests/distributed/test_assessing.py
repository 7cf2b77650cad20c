"""Reports of rows in partitions: exact numbers of all rows beside those of a sample."""

import numpy as np
import pytest
from partitions_of_rows import LOGITS, given, rows, table_of, tables_of, written

from calibrant import metrics
from calibrant.distributed import assess
from calibrant.distributed.engine import InProcess, TableRows
from calibrant.distributed.evaluation import drawn
from calibrant.distributed.layout import layout_of
from calibrant.distributed.source import PartitionedSource


def source_of(table, **roles):
    engine = InProcess(table.schema, [TableRows(table, "a table")])
    return PartitionedSource.of(engine, layout_of(table.schema, "p_*", "logits", label="y", **roles))


def test_a_report_has_exact_numbers_first_and_does_not_depend_on_the_partitions(tmp_path):
    logits, labels = rows(2000, 3)
    paths = written(tmp_path, tables_of(logits, labels, [10, 10, 900]))
    options = {"sample_rows": 500, "methods": ["temperature"], **LOGITS}
    first, second = (assess(frame, **options) for frame in (paths[::-1], table_of(logits, labels)))
    names = [row.before.name for row in first.scores[:3]]
    assert names == ["log-loss of all rows", "Brier score of all rows", "accuracy of all rows"]
    for row, function in zip(
        (*first.scores[:3], *first.errors[:2]),
        (
            metrics.log_loss,
            metrics.brier_score,
            metrics.accuracy,
            metrics.confidence_ece,
            metrics.classwise_ece,
        ),
        strict=True,
    ):
        assert row.before.value == pytest.approx(function(labels, given(logits)), rel=1e-9)
    assert first.data.n_rows == 500
    assert "500 of 2,000 rows" in first.data.split
    assert first.verdict == second.verdict
    assert first.recommendation.method == second.recommendation.method == "temperature"
    assert "log-loss of all rows" in first.to_markdown().lower()


def test_few_different_rows_are_drawn_in_their_share():
    """Four different rows: a hash of the content alone would draw one of them only."""
    logits = np.log([[0.7, 0.3], [0.4, 0.6]])[np.repeat([0, 1], [3000, 1000])]
    labels = np.tile([0, 0, 0, 1], 1000)
    sample = drawn(source_of(table_of(logits, labels)), 400)
    assert sample.n_rows == 400
    assert sample.weights is None
    # A hypergeometric count has a standard deviation of 8 here.
    assert abs((sample.predictions.scores[:, 0] < -0.5).sum() - 100) < 40


def test_a_sample_is_that_of_all_partitions():
    logits, labels = rows(600)
    whole = source_of(table_of(logits, labels)).sample(100)
    order = np.random.default_rng(0).permutation(600)
    shuffled = source_of(table_of(logits[order], labels[order])).sample(100)
    np.testing.assert_array_equal(whole.predictions.scores, shuffled.predictions.scores)
    np.testing.assert_array_equal(whole.labels, shuffled.labels)

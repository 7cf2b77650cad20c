"""Assess rows in partitions: exact sums for the metrics, a sample chosen by hash for what needs rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.distributed.evaluation import intervals_of, metrics_by_name, tests_of
from calibrant.distributed.opening import EngineName, source_of
from calibrant.distributed.source import PartitionedSource
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.options import check_level, check_whole
from calibrant.report import Assessment
from calibrant.report import assess as assess_rows
from calibrant.report.all_rows import METRICS_OF_ALL_ROWS, with_all_rows

__all__ = ["assess"]


def assess(
    frame: Any,
    *,
    label: str,
    columns: str | Sequence[str],
    space: str,
    sample_weight: str | None = None,
    key: str | None = None,
    classes: Sequence[Any] | None = None,
    engine: EngineName | None = None,
    sample_rows: int = 100_000,
    level: float = 0.95,
    **options: Any,
) -> Assessment:
    """Assess the calibration of predictions in partitions; see :func:`calibrant.assess` for the report.

    Parameters
    ----------
    frame, label, columns, space, sample_weight, classes, engine
        As in :func:`~calibrant.distributed.fit`.
    key : str, optional
        Column that says which rows belong together; they are one group.
    sample_rows : int, default=100_000
        Number of rows that are drawn for tests, the comparison of methods and plots.
    level : float, default=0.95
        Confidence level.
    **options
        ``methods``, ``cv``, ``title``, ``random_state`` and ``progress`` of :func:`calibrant.assess`.

    Returns
    -------
    Assessment
        Log-loss, Brier score, accuracy and binned errors of all rows come first in ``scores`` and ``errors``, the first three
        with jackknife intervals, and Kuiper's and Spiegelhalter's test of all rows in ``tests``. ``data.split`` says how many
        rows were drawn.

    Notes
    -----
    Four passes: one checks the rows, one adds up the metrics, one the tests, and one draws the sample. A hash of the row
    decides whether it is drawn, so the report does not depend on the partitioning.
    """
    check_level(level)
    check_whole("sample_rows", sample_rows)
    source = source_of(
        frame,
        label=label,
        columns=columns,
        space=space,
        sample_weight=sample_weight,
        key=key,
        classes=classes,
        engine=engine,
    )
    exact = intervals_of(source, metrics_by_name(METRICS_OF_ALL_ROWS), level)
    tests = tests_of(source, classwise=False)
    sample = drawn(source, sample_rows)
    found = assess_rows(
        sample.classes[sample.labels],
        replace(sample.predictions, classes=sample.classes),
        sample_weight=sample.weights,
        groups=None if sample.groups is None else sample.groups.astype(str),
        level=level,
        **options,
    )
    return with_all_rows(found, exact, tests, source.n_rows, "A hash")


def drawn(source: PartitionedSource, size: int) -> LabelledPredictions:
    """Return a random sample of about this many rows; each row counts once unless the rows have weights of their own."""
    sample = source.sample(size)
    if sample.weights is None or source.is_weighted:
        return sample
    counts = sample.weights.astype(np.int64)
    if counts.sum() > size:
        generator = np.random.default_rng(0)
        counts = generator.multivariate_hypergeometric(counts, size, method="marginals")
    return replace(sample.take(np.repeat(np.arange(sample.n_rows), counts)), weights=None)

"""Calibration errors before and after calibration: lower bounds first, binned errors last."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from calibrant.errors import CalibrationWarning
from calibrant.intervals import bootstrap, paired_bootstrap
from calibrant.metrics import (
    LowerBound,
    calibration_error_lower_bound,
    classwise_ece,
    confidence_ece,
    debiased_ece,
    kuiper_calibration_error,
    smooth_ece,
)
from calibrant.metrics.events import Kind
from calibrant.report.contents import Estimate, ScoreRow
from calibrant.report.plain import class_named, estimate_of, number
from calibrant.report.rows import Rows
from calibrant.wording import counted

__all__ = ["capped_bound", "error_rows", "lower_bound"]

N_RESAMPLES = 200

# Limit of the bootstrap, in probabilities; above it an error gets no interval.
RESAMPLED_NUMBERS = 500_000

Metric = Callable[..., float]


def lower_bound(rows: Rows, level: float) -> LowerBound | None:
    """Return the lower confidence bound on the L1 error of the main event; None for a single row."""
    if rows.n_rows < 2:
        return None
    return calibration_error_lower_bound(
        rows.labels, rows.predictions, sample_weight=rows.weights, kind=_kind(rows), level=level
    )


def capped_bound(bound: LowerBound) -> float:
    """Return the lower confidence bound, capped by the estimate; this comes from other folds and may be below the bound."""
    return max(0.0, min(bound.limit, bound.estimate))


def error_rows(
    rows: Rows, after: Rows | None, bound: LowerBound | None, level: float, random_state: int
) -> tuple[ScoreRow, ...]:
    """Return the errors of the main event and of all classes, before and after on the same rows."""
    found = []
    if bound is not None:
        found += _bounds(rows, bound, None if after is None else lower_bound(after, level))
    kind = _kind(rows)
    found.append(_debiased(rows, after, kind, level, random_state))
    about = "positive class" if kind == "positive" else "predicted class"
    found.append(
        _plain(
            rows,
            after,
            f"smooth ECE, {about}",
            partial(smooth_ece, kind=kind),
            f"error of the probability {_about(rows)}; kernel smoothing instead of bins, automatic bandwidth",
            level,
        )
    )
    found.append(
        _resampled(
            rows,
            after,
            f"Kuiper error, {about}",
            partial(kuiper_calibration_error, kind=kind),
            "largest absolute sum of residuals over any interval of scores, divided by the number of rows",
            level,
            random_state,
        )
    )
    biased = "15 equal-width bins, as in most papers; biased upwards by noise, so do not compare between sample sizes"
    found.append(
        _resampled(rows, after, "ECE of the predicted class", confidence_ece, biased, level, random_state)
    )
    found.append(
        _resampled(
            rows, after, "classwise ECE", classwise_ece, f"mean over classes; {biased}", level, random_state
        )
    )
    return tuple(found)


def _kind(rows: Rows) -> Kind:
    return "positive" if rows.n_classes == 2 else "confidence"


def _about(rows: Rows) -> str:
    return f"of {class_named(rows.class_names[1])}" if rows.n_classes == 2 else "of the predicted class"


def _bounds(rows: Rows, bound: LowerBound, after: LowerBound | None) -> list[ScoreRow]:
    about = f"mean absolute error of the probability {_about(rows)}"

    def limit(of: LowerBound) -> Estimate:
        definition = (
            f"one-sided lower confidence bound on the {about}; each fold is compared with a recalibration fitted on earlier "
            "folds"
        )
        return Estimate(
            f"L1 error, {100 * of.level:g} % lower bound",
            capped_bound(of),
            level=of.level,
            definition=definition,
        )

    def whole(of: LowerBound) -> Estimate:
        definition = (
            f"{about}, a lower bound in expectation; {of.recalibrator} recalibration fitted on other folds"
        )
        return _not_negative(
            Estimate("L1 error, cross-fitted", number(of.estimate), level=of.level, definition=definition)
        )

    def part(name: str, of: LowerBound, value: float | None) -> Estimate:
        definition = f"component of the cross-fitted L1 error from {meaning[name]}"
        return _not_negative(Estimate(name, number(value), level=of.level, definition=definition))

    meaning = {
        "over-confidence": "rows whose probability is too extreme",
        "under-confidence": "rows whose probability is not extreme enough",
    }
    found = [ScoreRow(row(bound), None if after is None else row(after), None) for row in (limit, whole)]
    for name, attribute in (("over-confidence", "overconfidence"), ("under-confidence", "underconfidence")):
        found.append(
            ScoreRow(
                part(name, bound, getattr(bound, attribute)),
                None if after is None else part(name, after, getattr(after, attribute)),
                None,
            )
        )
    return found


def _not_negative(estimate: Estimate) -> Estimate:
    """Return the estimate of a non-negative quantity; a negative one is set to zero, with a note."""
    if estimate.value is None or estimate.value >= 0:
        return estimate
    return replace(
        estimate, value=0.0, note=f"the estimate is negative ({estimate.value:.4f}) and shown as 0"
    )


def _debiased(rows: Rows, after: Rows | None, kind: Kind, level: float, random_state: int) -> ScoreRow:
    metric = partial(debiased_ece, kind=kind, n_bins="cube_root")

    def of(some: Rows) -> Estimate:
        value = metric(some.labels, some.predictions, sample_weight=some.weights)
        ends: tuple[float | None, float | None] = (None, None)
        if some.n_rows > 1:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrationWarning)
                square = bootstrap(
                    partial(metric, signed=True),
                    some.labels,
                    some.predictions,
                    **_options(some, level, random_state),
                )
            ends = (_root(square.low), _root(square.high))
        return Estimate(
            f"debiased ECE (L2, {counted(ceil(round(rows.n_rows ** (1 / 3), 9)), 'bin')})",
            number(value),
            *ends,
            level=level,
            definition=f"root mean square gap of the probability {_about(rows)} with its noise subtracted; cube root of n "
            "equal-mass bins; interval: square roots of the bootstrap interval of the squared error",
        )

    return ScoreRow(of(rows), None if after is None else of(after), None)


def _root(square: float) -> float | None:
    return number(np.sqrt(max(square, 0.0))) if not np.isnan(square) else None


def _plain(
    rows: Rows, after: Rows | None, name: str, metric: Metric, definition: str, level: float
) -> ScoreRow:
    def of(some: Rows) -> Estimate:
        value = metric(some.labels, some.predictions, sample_weight=some.weights)
        return Estimate(name, number(value), level=level, definition=definition)

    return ScoreRow(of(rows), None if after is None else of(after), None)


def _resampled(
    rows: Rows,
    after: Rows | None,
    name: str,
    metric: Metric,
    definition: str,
    level: float,
    random_state: int,
) -> ScoreRow:
    plain = _plain(rows, after, name, metric, definition, level)
    if after is None or rows.n_rows * (rows.n_classes if metric is classwise_ece else 1) > RESAMPLED_NUMBERS:
        return plain
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        interval = paired_bootstrap(
            metric, rows.labels, rows.predictions, after.predictions, **_options(rows, level, random_state)
        )
    difference = estimate_of(f"difference of {name}", interval, "after minus before")
    if interval.excludes_estimate:  # the bootstrap biases this error upwards, so its interval is useless
        difference = replace(
            difference, low=None, high=None, note="no interval, since the bootstrap biases this error"
        )
    return ScoreRow(plain.before, plain.after, difference)


def _options(rows: Rows, level: float, random_state: int) -> dict[str, Any]:
    return {
        "sample_weight": rows.weights,
        "groups": rows.groups,
        "level": level,
        "n_resamples": N_RESAMPLES,
        "random_state": random_state,
    }

"""Data of the plots of a report: reliability curves, cumulative differences, sensitivity to bins."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.comparison.comparison import UNCALIBRATED
from calibrant.plots.bin_sensitivity import bin_sensitivity
from calibrant.plots.cumulative_curve import cumulative_curve
from calibrant.plots.reliability.curve import ReliabilityCurve, reliability_curve
from calibrant.report.contents import BinSensitivityNumbers, ClassRow, CumulativeNumbers, Curve, Numbers
from calibrant.report.event_counts import RARE
from calibrant.report.plain import number, numbers
from calibrant.report.rows import Rows
from calibrant.report.trial import Trial

__all__ = ["bin_sensitivities", "cumulative_numbers", "curves"]

# More would make the page long to read and slow to load.
MOST_CLASSES, MOST_OTHER_METHODS = 20, 3

# Bootstrap resamples for the band of the main event, and for those of single classes.
N_RESAMPLES, N_RESAMPLES_OF_CLASSES = 400, 100

# Significant digits of numbers that are only plotted.
DIGITS = 6

# Number of bins for rare events, and the margin of the axes above them.
N_BINS, EVENTS_PER_BIN = 15, 5
ROOM_ABOVE, SMALLEST_LIMIT = 1.2, 1e-4


def curves(
    rows: Rows,
    sample: Rows,
    sample_after: Rows | None,
    trial: Trial,
    classes: tuple[ClassRow, ...],
    level: float,
    random_state: int,
) -> tuple[Curve, ...]:
    """Return the curves of the main event (uncalibrated, chosen method, other methods), then of single classes, worst first.

    Uncalibrated and chosen method: all rows. Other methods: the rows of the comparison. Single classes: the sample.
    """
    found = [_curve(UNCALIBRATED, rows, None, N_RESAMPLES, level, random_state)]
    if trial.chosen is not None and trial.after is not None:
        found.append(_curve(trial.chosen.name, trial.after, None, N_RESAMPLES, level, random_state))
    for result in _others(trial):
        assert result.predictions is not None
        mapped = trial.rows.with_predictions(result.predictions)
        found.append(_curve(result.name, mapped, None, N_RESAMPLES_OF_CLASSES, level, random_state))
    if rows.n_classes > 2:
        columns = {name: column for column, name in enumerate(rows.class_names)}
        for row in classes[:MOST_CLASSES]:
            column = columns[row.label]
            found.append(_curve(UNCALIBRATED, sample, column, N_RESAMPLES_OF_CLASSES, level, random_state))
            if trial.chosen is not None and sample_after is not None:
                found.append(
                    _curve(
                        trial.chosen.name, sample_after, column, N_RESAMPLES_OF_CLASSES, level, random_state
                    )
                )
    return tuple(found)


def cumulative_numbers(rows: Rows, trial: Trial) -> tuple[CumulativeNumbers, ...]:
    """Return the cumulative differences of the main event, uncalibrated and after the chosen method."""
    stages = [(UNCALIBRATED, rows)]
    if trial.chosen is not None and trial.after is not None:
        stages.append((trial.chosen.name, trial.after))
    found = []
    for method, some in stages:
        curve = cumulative_curve(some.labels, some.predictions, sample_weight=some.weights)
        found.append(
            CumulativeNumbers(
                method=method,
                event=curve.event,
                share=_drawn(curve.share),
                score=_drawn(curve.score),
                difference=_drawn(curve.difference),
                sigma=float(curve.sigma),
                kuiper=float(curve.kuiper),
                p_value=float(curve.p_value),
            )
        )
    return tuple(found)


def bin_sensitivities(
    sample: Rows, sample_after: Rows | None, trial: Trial, random_state: int
) -> tuple[BinSensitivityNumbers, ...]:
    """Return the binned error of the predicted class for several numbers of bins, before and after calibration."""
    stages = [(UNCALIBRATED, sample)]
    if trial.chosen is not None and sample_after is not None:
        stages.append((trial.chosen.name, sample_after))
    found = []
    for method, some in stages:
        curve = bin_sensitivity(
            some.labels, some.predictions, sample_weight=some.weights, random_state=random_state
        )
        found.append(
            BinSensitivityNumbers(
                method=method,
                metric=curve.metric,
                n_bins=tuple(int(count) for count in curve.n_bins),
                equal_width=_drawn(curve.equal_width),
                equal_mass=_drawn(curve.equal_mass),
                debiased=_drawn(curve.debiased),
                noise=_drawn(curve.noise),
                noise_high=_drawn(curve.noise_high),
            )
        )
    return tuple(found)


def _others(trial: Trial) -> Sequence[Any]:
    """Return the other methods, the best first."""
    if trial.comparison is None:
        return ()
    shown = (UNCALIBRATED, "" if trial.chosen is None else trial.chosen.name)
    return [result for result in trial.comparison.measured if result.name not in shown][:MOST_OTHER_METHODS]


def _curve(
    method: str, rows: Rows, column: int | None, n_resamples: int, level: float, random_state: int
) -> Curve:
    about: dict[str, Any] = {"kind": "auto"}
    if column is not None:
        about = {"kind": "class", "label": rows.data.classes[column]}
    scores = _scores(rows, column)
    rate = rows.mean(scores)
    if rate <= RARE:  # with equal-width bins nearly all rows would be in the first
        about |= {
            "strategy": "quantile",
            "n_bins": int(np.clip(rate * rows.n_rows / EVENTS_PER_BIN, 2, N_BINS)),
        }
    curve = reliability_curve(
        rows.labels,
        rows.predictions,
        sample_weight=rows.weights,
        level=level,
        mode="consistency",
        n_resamples=n_resamples,
        random_state=random_state,
        **about,
    )
    drawn = _plain(method, curve, None if column is None else rows.class_names[column])
    return drawn if rate > RARE else _enlarged(drawn, scores)


def _scores(rows: Rows, column: int | None) -> NDArray[np.float64]:
    """Return the probabilities of a class or of the main event."""
    if column is None and rows.n_classes > 2:
        return rows.confidence
    probabilities = rows.predictions.probabilities[:, 1 if column is None else column]
    return np.clip(probabilities.astype(np.float64), 0.0, 1.0)


def _enlarged(curve: Curve, scores: NDArray[np.float64]) -> Curve:
    """Return a diagram whose axes end just above its bins, at 1, 2 or 5 times a power of ten."""
    highest = max(value for value in (*curve.mean_score, *curve.mean_outcome) if value is not None)
    needed = ROOM_ABOVE * max(highest, SMALLEST_LIMIT)
    power = 10.0 ** np.floor(np.log10(needed))
    limit = float(
        min(1.0, next(times * power for times in (1, 2, 5, 10) if times * power >= needed * (1 - 1e-9)))
    )
    count, edges = np.histogram(np.minimum(scores, limit), len(curve.histogram_count), (0.0, limit))
    return replace(
        curve, limit=limit, histogram_edges=numbers(edges), histogram_count=tuple(int(each) for each in count)
    )


def _plain(method: str, curve: ReliabilityCurve, label: str | None) -> Curve:
    return Curve(
        method=method,
        event=curve.event,
        label=label,
        n_rows=curve.n_rows,
        definition=curve.definition,
        edges=_drawn(curve.edges),
        count=tuple(int(count) for count in curve.count),
        mean_score=_drawn(curve.mean_score),
        mean_outcome=_drawn(curve.mean_outcome),
        low=_drawn(curve.low),
        high=_drawn(curve.high),
        consistency_low=_drawn(curve.consistency_low),
        consistency_high=_drawn(curve.consistency_high),
        small=tuple(bool(small) for small in curve.small),
        isotonic_score=_drawn(curve.isotonic_score),
        isotonic_outcome=_drawn(curve.isotonic_outcome),
        band_score=_drawn(curve.band_score),
        band_low=_drawn(curve.band_low),
        band_high=_drawn(curve.band_high),
        histogram_edges=_drawn(curve.histogram_edges),
        histogram_count=tuple(int(count) for count in curve.histogram_count),
    )


def _drawn(values: Iterable[Any]) -> Numbers:
    """Return plain numbers, rounded to the digits that a plot can show."""
    rounded = np.round(np.asarray(values, dtype=np.float64), DIGITS)
    return tuple(number(value) for value in rounded.tolist())

"""Proper scores, accuracy and the area under the ROC curve, before and after, with paired differences."""

import warnings
from dataclasses import replace
from math import isinf

from calibrant.errors import CalibrationWarning
from calibrant.intervals import loss_difference
from calibrant.metrics.row_losses import Loss, row_losses
from calibrant.report.baseline import has_infinite_loss, reference_of
from calibrant.report.contents import Estimate, ScoreRow
from calibrant.report.means import mean_estimate, share_estimate
from calibrant.report.plain import class_named, estimate_of
from calibrant.report.roc import area_estimate, roc_area
from calibrant.report.rows import Rows, drawn_rows

__all__ = ["score_rows"]

LOSS_WORDS: dict[Loss, str] = {
    "log": "mean of -log of the probability of the true class, in nats",
    "brier": "mean squared distance between the probabilities and the one-hot outcome",
}

POOLED = (
    "after calibration it pools rows from the calibrators of several folds, which lowers it slightly; intervals of the "
    "difference ignore this effect, so none is given"
)

# With more probabilities than this, the area under the ROC curve is that of a sample.
AREA_NUMBERS = 5_000_000


def score_rows(rows: Rows, after: Rows | None, level: float, random_state: int) -> tuple[ScoreRow, ...]:
    """Return log-loss, Brier score, accuracy and area under the ROC curve, if defined.

    If a true class had probability zero, the log-loss is infinite. Then a second row has the log-loss with zeros raised to
    the floor, which is the baseline of the gain.
    """
    found = [_loss(rows, after, "log", "", level)]
    if has_infinite_loss(rows):
        raised = rows.with_predictions(reference_of(rows))
        raised_after = None if after is None else after.with_predictions(reference_of(after))
        how = f"; zeros raised to {rows.predictions.floor:.3g} and rows renormalised"
        found.append(_loss(raised, raised_after, "log", how, level))
    found += [_loss(rows, after, "brier", "", level), _accuracy(rows, after, level)]
    area = _area(rows, after, level, random_state)
    if area is not None:
        found.append(area)
    return tuple(found)


def _loss(rows: Rows, after: Rows | None, loss: Loss, zeros: str, level: float) -> ScoreRow:
    name = {"log": "log-loss", "brier": "Brier score"}[loss]
    definition = LOSS_WORDS[loss]
    if loss == "brier":
        definition += ", from 0 to 1 (halved for two classes)" if rows.n_classes == 2 else ", from 0 to 2"
    if zeros:
        name, definition = f"{name}, zeros raised to the floor", definition + zeros

    def of(some: Rows) -> Estimate:
        return mean_estimate(name, row_losses(some.data, loss), some, level, definition)

    difference = None
    if after is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)  # the note says the same
            interval = loss_difference(
                rows.labels,
                rows.predictions,
                after.predictions,
                loss=loss,
                sample_weight=rows.weights,
                groups=rows.groups,
                level=level,
            )
        difference = estimate_of(f"difference of {name}", interval, "after minus before, paired by row")
        if isinf(interval.estimate):  # an infinite difference needs no interval
            difference = replace(difference, low=None, high=None)
    return ScoreRow(of(rows), None if after is None else of(after), difference)


def _accuracy(rows: Rows, after: Rows | None, level: float) -> ScoreRow:
    definition = "fraction of rows whose predicted class is correct"
    before = share_estimate("accuracy", rows.hits, rows, level, definition)
    if after is None:
        return ScoreRow(before, None, None)
    difference = mean_estimate(
        "difference of accuracy",
        after.hits.astype(float) - rows.hits,
        rows,
        level,
        "after minus before, paired by row",
        higher_is_better=True,
    )
    return ScoreRow(before, share_estimate("accuracy", after.hits, after, level, definition), difference)


def _area(rows: Rows, after: Rows | None, level: float, random_state: int) -> ScoreRow | None:
    chosen = drawn_rows(rows, rows.n_rows, AREA_NUMBERS, random_state)
    some, some_after = rows.take(chosen), None if after is None else after.take(chosen)
    area = roc_area(some)
    if area is None:
        return None
    definition = (
        f"probability that a random row of {class_named(rows.class_names[1])} gets a higher score than one of the other class"
        if rows.n_classes == 2
        else "mean over classes of the one-vs-rest area under the ROC curve"
    )
    if chosen is not None:
        definition += f"; on a random sample of {some.n_rows} rows"
    before = area_estimate("AUROC", area, None, some, level, definition)
    later = None if some_after is None else roc_area(some_after)
    if some_after is None or later is None:
        return ScoreRow(before, None, None)
    pooled = replace(area_estimate("AUROC", later, None, some_after, level, definition), note=POOLED)
    difference = area_estimate("difference of AUROC", later, area, some, level, "after minus before")
    return ScoreRow(before, pooled, replace(difference, low=None, high=None, note=POOLED))

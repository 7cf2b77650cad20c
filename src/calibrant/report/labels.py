"""Report on several labels that do not exclude each other, before and after calibration."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from calibrant.arrays import Float64Array
from calibrant.calibrator import Calibrator
from calibrant.calibrators import MultilabelCalibration
from calibrant.errors import ParameterError
from calibrant.label_matrix import LabelOutcomes, LabelScores, parse_labelled
from calibrant.metrics import brier_score, classwise_ece, log_loss, multilabel_score
from calibrant.notices import gathered
from calibrant.options import check_level, check_whole
from calibrant.presentation.document import Document, Paragraph, Section
from calibrant.presentation.table import Cell, Column, Table
from calibrant.presentation.values import Value, count
from calibrant.report.contents import Estimate
from calibrant.report.sections.scores import difference_cell
from calibrant.report.several import SeveralAssessment, mean_estimate

__all__ = ["LabelAssessment", "assess_labels"]

SHOWN = 50  # labels on a page at first

AVERAGES: tuple[Literal["macro", "micro", "weighted"], ...] = ("macro", "micro", "weighted")

METRICS = {"log-loss": log_loss, "Brier score": brier_score, "ECE": classwise_ece}


@dataclass(frozen=True)
class LabelRow:
    """One label: its known outcomes, mean prediction, and log-loss before and after calibration on held-out rows."""

    label: str
    n_known: int
    n_positive: int
    predicted: float | None
    observed: float | None
    before: float | None
    after: float | None
    difference: Estimate | None


@dataclass(frozen=True)
class AverageRow:
    """One metric averaged over labels, before and after calibration on held-out rows."""

    metric: str
    average: str
    before: float
    after: float


@dataclass(frozen=True)
class LabelAssessment(SeveralAssessment):
    """Result of :func:`~calibrant.report.assess_labels`: averages and a row per label, worst first.

    Attributes
    ----------
    title : str
    n_rows, n_labels : int
    method : str
        The calibration that was tried.
    difference : Estimate
        Macro log-loss after minus before.
    averages : tuple of AverageRow
    labels : tuple of LabelRow
        Largest log-loss after calibration first.
    """

    loss = "macro log-loss"

    averages: tuple[AverageRow, ...]
    labels: tuple[LabelRow, ...]

    def document(self) -> Document:
        """Return the report as a document."""
        averages = Table.of(
            "averages",
            "Averages over labels",
            self.averages,
            (Column("Score", is_numeric=False), lambda row: row.metric),
            (Column("Average", is_numeric=False), lambda row: row.average),
            (Column("Before"), lambda row: Value(row.before)),
            (Column("After"), lambda row: Value(row.after)),
            definitions=(
                ("Macro", "mean over labels."),
                ("Micro", "all outcomes of all labels together."),
                ("Weighted", "mean over labels, weighted by the number of positive outcomes."),
                ("After", "on held-out rows, by cross-validation."),
            ),
        )
        own = Table.of(
            "labels",
            "Labels",
            self.labels,
            (Column("Label", is_numeric=False), lambda row: row.label),
            (Column("Known"), lambda row: Cell(count(row.n_known), value=row.n_known)),
            (Column("Positive"), lambda row: Cell(count(row.n_positive), value=row.n_positive)),
            (Column("Predicted"), lambda row: Value(row.predicted)),
            (Column("Observed"), lambda row: Value(row.observed)),
            (Column("Log-loss before"), lambda row: Value(row.before)),
            (Column("After"), lambda row: Value(row.after)),
            (Column("Difference", hint="after − before"), lambda row: difference_cell(row.difference)),
            is_sortable=True,
            limit=SHOWN,
        )
        facts = f"{count(self.n_rows)} rows, {count(self.n_labels)} labels."
        return Document(
            self.title,
            (
                Section("verdict", "Result", (Paragraph(self.headline, "headline"), Paragraph(facts))),
                Section("averages", "Averages", (averages,)),
                Section("labels", "Labels", (own,)),
            ),
        )


def assess_labels(
    Y: Any,
    P: Any,
    *,
    method: str | Calibrator = "shared",
    space: str = "probabilities",
    sample_weight: Any = None,
    cv: int = 5,
    level: float = 0.95,
    title: str | None = None,
) -> LabelAssessment:
    """Assess the calibration of several labels that do not exclude each other.

    Parameters
    ----------
    Y : array or frame of shape (n, L)
        Outcomes: 1 if the row has the label, 0 if not, NaN if the outcome is missing.
    P : array or frame of shape (n, L), or list of L arrays (n, 2)
        Scores of the labels, of rows that the classifier was not trained on.
    method : str or Calibrator, default="shared"
        Method of :class:`~calibrant.MultilabelCalibration`.
    space : {"probabilities", "logits"}, default="probabilities"
        Whether scores are probabilities, or log-odds of each label.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    cv : int, default=5
        Number of folds, whose held-out rows are calibrated by the others.
    level : float, default=0.95
        Confidence level.
    title : str, optional
        Title of the report.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> z = generator.normal(-1, 2, (400, 6))
    >>> Y = generator.random(z.shape) < 1 / (1 + np.exp(-0.5 * z))
    >>> found = assess_labels(Y, z, space="logits", method="platt")
    >>> found.difference.direction, len(found.labels)
    ('better', 6)
    """
    check_level(level)
    check_whole("cv", cv, least=2)
    calibrator = MultilabelCalibration(method, space=space)
    calibrator._check_parameters()
    scores, outcomes = parse_labelled(P, Y, sample_weight, space)
    if scores.n_rows < cv:
        raise ParameterError(f"cv={cv} needs {cv} rows or more, but there are {scores.n_rows}; lower cv.")
    after = _held_out(calibrator, scores, outcomes, cv)
    before = _probabilities(scores)
    averages = tuple(
        AverageRow(name, average, *(_average(metric, outcomes, p, average) for p in (before, after)))
        for name, metric in METRICS.items()
        for average in AVERAGES
    )
    own = np.ones(scores.n_rows) if outcomes.weights is None else outcomes.weights
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = [_losses(outcomes.outcomes, p) for p in (before, after)]
        changes = losses[1] - losses[0]
    rows, influences, means = [], np.zeros(scores.n_rows), []
    total, positive = outcomes.totals()
    usable = np.flatnonzero(total > 0)
    for label in range(scores.n_labels):
        known = np.flatnonzero(~np.isnan(outcomes.outcomes[:, label]) & (own > 0))
        name = str(label) if scores.names is None else scores.names[label]
        if len(known) == 0:
            rows.append(LabelRow(name, 0, 0, None, None, None, None, None))
            continue
        weights = own[known]
        mean = float(np.average(changes[known, label], weights=weights))
        terms = weights * (changes[known, label] - mean) / weights.sum()
        means.append(mean)
        influences[known] += terms / len(usable)
        rows.append(
            LabelRow(
                name,
                len(known),
                int((outcomes.outcomes[known, label] == 1).sum()),
                float(np.average(before[known, label], weights=weights)),
                float(positive[label] / total[label]),
                float(np.average(losses[0][known, label], weights=weights)),
                float(np.average(losses[1][known, label], weights=weights)),
                mean_estimate("difference of the log-loss", mean, terms, level),
            )
        )
    rows.sort(key=lambda row: np.inf if row.after is None else -row.after)
    known_rows = influences[own > 0]
    difference = mean_estimate("difference of the macro log-loss", float(np.mean(means)), known_rows, level)
    return LabelAssessment(
        title="Labels: calibration report" if title is None else title,
        n_rows=scores.n_rows,
        n_labels=scores.n_labels,
        method=method if isinstance(method, str) else type(method).__name__,
        difference=difference,
        averages=averages,
        labels=tuple(rows),
    )


def _held_out(
    calibrator: MultilabelCalibration, scores: LabelScores, outcomes: LabelOutcomes, cv: int
) -> Float64Array:
    """Return calibrated probabilities of every row from calibrators of the other folds."""
    found = np.empty(scores.scores.shape)
    with gathered(cv, "fold"):
        for train, test in KFold(cv, shuffle=True, random_state=0).split(scores.scores):
            weights = None if outcomes.weights is None else outcomes.weights[train]
            part = LabelOutcomes(outcomes.outcomes[train], weights)
            fitted: Any = clone(calibrator).fit_parsed(scores.take(train), part)
            found[test] = fitted.predict_proba(scores.take(test))
    return found


def _probabilities(scores: LabelScores) -> Float64Array:
    columns = [scores.of_label(label).probabilities[:, 1] for label in range(scores.n_labels)]
    return np.column_stack(columns).astype(np.float64)


def _average(metric: Any, outcomes: LabelOutcomes, p: Float64Array, average: Any) -> float:
    return float(
        multilabel_score(metric, outcomes.outcomes, p, average=average, sample_weight=outcomes.weights)
    )


def _losses(outcomes: Float64Array, p: Float64Array) -> Float64Array:
    losses: Float64Array = -np.log(np.where(outcomes == 1, p, 1 - p))
    return np.where(np.isnan(outcomes), np.nan, losses)

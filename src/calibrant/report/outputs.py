"""Report on several class labels per row, such as colour and size, before and after calibration."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from calibrant.arrays import FloatArray
from calibrant.calibrator import Calibrator
from calibrant.calibrators import MultioutputCalibration
from calibrant.errors import LabelError, ParameterError
from calibrant.label_matrix import LabelledOutput, parse_outputs
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import accuracy, brier_score, confidence_ece, log_loss
from calibrant.notices import gathered
from calibrant.options import check_level, check_whole
from calibrant.predictions import Predictions
from calibrant.presentation import Cell, Column, Document, Paragraph, Section, Table, Value, count
from calibrant.report.contents import Estimate
from calibrant.report.sections.scores import difference_cell
from calibrant.report.several import SeveralAssessment, mean_estimate

__all__ = ["OutputAssessment", "assess_outputs"]

METRICS = {"log-loss": log_loss, "Brier score": brier_score, "ECE": confidence_ece, "accuracy": accuracy}


@dataclass(frozen=True)
class OutputScore:
    """One metric of one output, or its mean over outputs, before and after calibration on held-out rows."""

    metric: str
    before: float
    after: float


@dataclass(frozen=True)
class OutputRow:
    """One output: its classes, rows with a known label, and scores before and after calibration on held-out rows."""

    output: str
    n_classes: int
    n_known: int
    scores: tuple[OutputScore, ...]
    difference: Estimate


@dataclass(frozen=True)
class OutputAssessment(SeveralAssessment):
    """Result of :func:`~calibrant.report.assess_outputs`: means over outputs, and the scores of every output.

    Attributes
    ----------
    title : str
    n_rows, n_labels : int
        Numbers of rows and of outputs.
    method : str
        The calibration that was tried.
    difference : Estimate
        Mean log-loss over outputs, after minus before.
    means : tuple of OutputScore
    outputs : tuple of OutputRow
        In the order of the labels.
    """

    loss = "mean log-loss"

    means: tuple[OutputScore, ...]
    outputs: tuple[OutputRow, ...]

    def document(self) -> Document:
        """Return the report as a document."""
        means = Table.of(
            "means",
            "Means over labels",
            self.means,
            (Column("Score", is_numeric=False), lambda one: one.metric),
            (Column("Before"), lambda one: Value(one.before)),
            (Column("After"), lambda one: Value(one.after)),
            definitions=(
                ("After", "on held-out rows, by cross-validation."),
                ("ECE", "expected calibration error of the predicted class."),
            ),
        )
        own = Table.of(
            "labels",
            "Labels",
            [(row, one) for row in self.outputs for one in row.scores],
            (Column("Label", is_numeric=False), lambda pair: pair[0].output),
            (Column("Classes"), lambda pair: Cell(count(pair[0].n_classes), value=pair[0].n_classes)),
            (Column("Known"), lambda pair: Cell(count(pair[0].n_known), value=pair[0].n_known)),
            (Column("Score", is_numeric=False), lambda pair: pair[1].metric),
            (Column("Before"), lambda pair: Value(pair[1].before)),
            (Column("After"), lambda pair: Value(pair[1].after)),
            (
                Column("Difference", hint="after − before"),
                lambda pair: difference_cell(pair[0].difference) if pair[1] is pair[0].scores[0] else "",
            ),
        )
        facts = (
            f"{count(self.n_rows)} rows, {count(self.n_labels)} labels per row; missing labels do not count."
        )
        return Document(
            self.title,
            (
                Section("verdict", "Result", (Paragraph(self.headline, "headline"), Paragraph(facts))),
                Section("means", "Means", (means,)),
                Section("labels", "Labels", (own,)),
            ),
        )


def assess_outputs(
    Y: Any,
    P: Any,
    *,
    method: str | Calibrator = "auto",
    sample_weight: Any = None,
    cv: int = 5,
    level: float = 0.95,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> OutputAssessment:
    """Assess the calibration of several class labels per row, such as colour and size.

    Parameters
    ----------
    Y : array or frame of shape (n, M)
        Class labels; NaN or None where a label is missing.
    P : list of M arrays (n, K), frames or Predictions
        Predictions of every output, for rows that the classifier was not trained on.
    method : str or Calibrator, default="auto"
        Method of :class:`~calibrant.MultioutputCalibration`.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    cv : int, default=5
        Number of folds, whose held-out rows are calibrated by the others.
    level : float, default=0.95
        Confidence level.
    names : sequence of str, optional
        Names of the outputs; by default those of the columns of ``Y``.
    title : str, optional
        Title of the report.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> logits = [2 * generator.normal(size=(400, k)) for k in (2, 3)]
    >>> Y = np.column_stack([(0.5 * z + generator.gumbel(size=z.shape)).argmax(axis=1) for z in logits])
    >>> found = assess_outputs(Y, [Predictions.from_logits(z) for z in logits], method="temperature")
    >>> found.difference.direction, [row.n_classes for row in found.outputs]
    ('better', [2, 3])
    """
    check_level(level)
    check_whole("cv", cv, least=2)
    outputs, found = parse_outputs(P, Y, sample_weight)
    if names is None:
        names = [str(number) for number in range(len(outputs))] if found is None else found
    if len(names) != len(outputs):
        raise ParameterError(
            f"there are {len(outputs)} outputs, but {len(names)} names; pass one name per output."
        )
    n_rows = outputs[0].predictions.n_rows
    if n_rows < cv:
        raise ParameterError(f"cv={cv} needs {cv} rows or more, but there are {n_rows}; lower cv.")
    rows: list[OutputRow] = []
    influences = np.zeros(n_rows)
    held_out = _held_out(method, outputs, names, cv)
    for output, name, after in zip(outputs, names, held_out, strict=True):
        data = output.data
        with np.errstate(divide="ignore", invalid="ignore"):
            changes = data.row_losses("log", after) - data.row_losses("log")
        weights = np.ones(data.n_rows) if data.weights is None else data.weights
        mean = float(np.average(changes, weights=weights))
        terms = weights * (changes - mean) / weights.sum()
        influences[output.rows] += terms / len(outputs)
        scores = tuple(
            OutputScore(title_, _scored(metric, data, data.predictions), _scored(metric, data, after))
            for title_, metric in METRICS.items()
        )
        difference = mean_estimate("difference of the log-loss", mean, terms, level)
        rows.append(OutputRow(name, data.n_classes, data.n_rows, scores, difference))
    used = np.unique(np.concatenate([output.rows for output in outputs]))
    mean = float(np.mean([row.difference.value for row in rows]))
    return OutputAssessment(
        title="Labels: calibration report" if title is None else title,
        n_rows=n_rows,
        n_labels=len(outputs),
        method=method if isinstance(method, str) else type(method).__name__,
        difference=mean_estimate("difference of the mean log-loss", mean, influences[used], level),
        means=tuple(
            OutputScore(
                each[0].metric,
                float(np.mean([one.before for one in each])),
                float(np.mean([one.after for one in each])),
            )
            for each in zip(*(row.scores for row in rows), strict=True)
        ),
        outputs=tuple(rows),
    )


def _held_out(
    method: str | Calibrator, outputs: list[LabelledOutput], names: Sequence[str], cv: int
) -> list[Predictions]:
    """Return calibrated predictions of the labelled rows of every output from calibrators of the other folds."""
    found: list[FloatArray] = [np.empty(output.data.predictions.scores.shape) for output in outputs]
    fold_of_row = np.empty(outputs[0].predictions.n_rows, dtype=np.intp)
    for fold, (_, test) in enumerate(KFold(cv, shuffle=True, random_state=0).split(fold_of_row)):
        fold_of_row[test] = fold
    with gathered(cv, "fold"):
        for fold in range(cv):
            parts = []
            for output, name in zip(outputs, names, strict=True):
                train = fold_of_row[output.rows] != fold
                if not train.any():
                    raise LabelError(
                        f"all rows with a label {name!r} are in one fold; give more such rows, or raise cv."
                    )
                parts.append(LabelledOutput(output.rows[train], output.predictions, output.data.take(train)))
            fitted = MultioutputCalibration(method).fit_parsed(parts)
            for output, one, probabilities in zip(outputs, fitted.calibrators_, found, strict=True):
                test = fold_of_row[output.rows] == fold
                if test.any():
                    probabilities[test] = one.predict_proba(output.data.predictions.take(test))
    return [Predictions.from_probabilities(part) for part in found]


def _scored(metric: Any, data: LabelledPredictions, predictions: Predictions) -> float:
    return float(metric(data.labels, predictions, sample_weight=data.weights))

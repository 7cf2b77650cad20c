"""Several labels per row, parsed once: labels that are present or absent, and labels with classes of their own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array, FloatArray
from calibrant.errors import LabelError, PredictionError, WeightError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.origin import Origin, on_host
from calibrant.predictions import Predictions, read_only
from calibrant.space import Space

__all__ = [
    "LabelOutcomes",
    "LabelScores",
    "LabelledOutput",
    "parse_labelled",
    "parse_outputs",
    "predictions_of_outputs",
]


@dataclass(frozen=True, eq=False, repr=False)
class LabelScores:
    """Scores of n rows for L labels, each a probability or log-odds of its own.

    Examples
    --------
    >>> scores = LabelScores.parse([[0.2, 0.9], [0.4, 0.7]])
    >>> scores.of_label(1).probabilities.round(3)
    array([[0.1, 0.9],
           [0.3, 0.7]])
    """

    # (n, L): probabilities of the labels, or their log-odds; float32 or float64, read-only
    scores: FloatArray
    space: Space  # Which of the two
    names: tuple[str, ...] | None = None  # Names of the labels, from a data frame

    @classmethod
    def parse(cls, X: Any, space: str = "probabilities") -> Self:
        """Parse scores: (n, L), or a list of L arrays (n, 2) as scikit-learn's forests return them."""
        if isinstance(X, LabelScores):
            return X  # type: ignore[return-value]
        if isinstance(X, Predictions):
            raise PredictionError(
                "scores of several labels are an array (n, L), not Predictions, whose rows sum to one; pass the array."
            )
        origin = Origin.of(X)
        names = None if origin is None or origin.columns is None else tuple(map(str, origin.columns))
        matrix = _stacked(X) if isinstance(X, list | tuple) else None
        if matrix is None:
            matrix = _as_floats(X.to_numpy() if names is not None else on_host(X))
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise PredictionError(
                f"scores of several labels must have one row per row and one column per label, but have shape {matrix.shape}; "
                "for a single label pass scores[:, None]."
            )
        wrong = ~np.isfinite(matrix)
        what = "finite"
        if space == Space.PROBABILITIES:
            wrong |= (matrix < 0) | (matrix > 1)
            what = "between 0 and 1"
        if wrong.any():
            row, label = (int(place[0]) for place in np.nonzero(wrong))
            advice = "; for log-odds pass space='logits'" if space == Space.PROBABILITIES else ""
            raise PredictionError(
                f"scores must be {what}, but row {row} of label {_named(names, label)} has {matrix[row, label]}{advice}."
            )
        return cls(read_only(matrix), Space(space), names)

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return int(self.scores.shape[0])

    @property
    def n_labels(self) -> int:
        """Number of labels, L."""
        return int(self.scores.shape[1])

    def name(self, label: int) -> str:
        """Return the name of a label, quoted, or its number."""
        return _named(self.names, label)

    def of_label(self, label: int, rows: Any = slice(None)) -> Predictions:
        """Return the predictions of one label, without and with it."""
        column = self.scores[rows, label]
        if self.space is Space.LOGITS:
            return Predictions.from_logits(column, allow_probabilities=True)
        return Predictions.from_probabilities(column)

    def named(self, names: Sequence[str]) -> Self:
        """Return the same scores with names of the labels."""
        return replace(self, names=tuple(names))

    def take(self, rows: Any) -> Self:
        """Return some of the rows."""
        return type(self)(read_only(self.scores[rows]), self.space, self.names)


@dataclass(frozen=True, eq=False, repr=False)
class LabelOutcomes:
    """Which labels n rows have, with missing entries, and the weights of the rows."""

    outcomes: Float64Array  # (n, L); 1 if the row has the label, 0 if not, NaN if the outcome is missing
    weights: Float64Array | None = None  # (n,)

    @classmethod
    def parse(cls, Y: Any, scores: LabelScores, sample_weight: Any = None) -> Self:
        """Parse outcomes (n, L): 0, 1, booleans, or missing (NaN, None, masked)."""
        origin = Origin.of(Y)
        names = None if origin is None or origin.columns is None else [str(name) for name in origin.columns]
        outcomes = _as_outcomes(Y.to_numpy() if names is not None else on_host(Y))
        if outcomes.shape != scores.scores.shape:
            raise LabelError(
                f"outcomes have shape {outcomes.shape}, but scores have {scores.scores.shape}; pass one outcome per row and "
                "label, NaN where it is missing."
            )
        if names is not None and scores.names is not None and set(names) == set(scores.names):
            moved = [i for i, pair in enumerate(zip(names, scores.names, strict=True)) if len(set(pair)) > 1]
            if moved:
                raise LabelError(
                    f"column {moved[0]} is label {names[moved[0]]!r} among the outcomes, but {scores.names[moved[0]]!r} among "
                    "the scores; put the columns into the same order."
                )
        wrong = ~(np.isnan(outcomes) | (outcomes == 0) | (outcomes == 1))
        if wrong.any():
            row, label = (int(place[0]) for place in np.nonzero(wrong))
            raise LabelError(
                f"outcomes must be 0, 1 or missing (NaN), but row {row} of label {scores.name(label)} has "
                f"{outcomes[row, label]:g}."
            )
        return cls(outcomes, _weights(sample_weight, scores.n_rows))

    def of_label(self, label: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Float64Array | None]:
        """Return the rows whose outcome of a label is known, these outcomes, and the weights."""
        rows = np.flatnonzero(~np.isnan(self.outcomes[:, label]))
        outcomes = self.outcomes[rows, label].astype(np.intp)
        return rows, outcomes, None if self.weights is None else self.weights[rows]

    def totals(self) -> tuple[Float64Array, Float64Array]:
        """Return the total weight of the known outcomes of every label, (L,), and of the ones among them."""
        weights = np.ones(len(self.outcomes)) if self.weights is None else self.weights
        return weights @ ~np.isnan(self.outcomes), weights @ (self.outcomes == 1)


def parse_labelled(
    X: Any, Y: Any, sample_weight: Any = None, space: str = "probabilities"
) -> tuple[LabelScores, LabelOutcomes]:
    """Return scores and outcomes of several labels."""
    scores = LabelScores.parse(X, space)
    return scores, LabelOutcomes.parse(Y, scores, sample_weight)


def _stacked(X: Sequence[Any]) -> FloatArray | None:
    """Return the second columns of a list of arrays (n, 2); None if it is something else."""
    if not X or not all(hasattr(part, "shape") and len(part.shape) == 2 and part.shape[1] == 2 for part in X):
        return None
    if len({len(part) for part in X}) > 1:
        raise PredictionError(
            "the arrays of a list of scores, one per label, have different numbers of rows."
        )
    return _as_floats(np.column_stack([np.asarray(on_host(part))[:, 1] for part in X]))


def _as_floats(values: Any) -> FloatArray:
    try:
        matrix = np.asarray(values)
        if matrix.dtype.kind == "c":
            raise TypeError
        return matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise PredictionError("scores of several labels must be real numbers, one row per row.") from error


def _as_outcomes(values: Any) -> Float64Array:
    if np.ma.isMaskedArray(values):
        return np.ma.filled(values.astype(np.float64), np.nan)
    if hasattr(values, "toarray"):
        values = values.toarray()
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            array = np.where(array == None, np.nan, array)  # noqa: E711 (elementwise)
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise LabelError(
            "outcomes of several labels must be 0, 1 or missing (NaN); for label sets use scikit-learn's MultiLabelBinarizer."
        ) from error


def _weights(sample_weight: Any, n_rows: int) -> Float64Array | None:
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise WeightError("sample_weight must be numbers; pass one per row.") from error
    if weights.shape != (n_rows,) or not np.isfinite(weights).all() or weights.min() < 0 or not weights.any():
        raise WeightError(
            f"sample_weight must be {n_rows} finite numbers of at least 0, one per row, and not all zero."
        )
    return weights


def _named(names: tuple[str, ...] | None, label: int) -> str:
    return str(label) if names is None else repr(names[label])


@dataclass(frozen=True, eq=False)
class LabelledOutput:
    """One output: the rows with a known label and a positive weight, and their labelled predictions."""

    rows: NDArray[np.intp]  # (m,): numbers of the rows
    predictions: Predictions  # Predictions of all rows
    data: LabelledPredictions  # The rows with a known label and a positive weight


def parse_outputs(X: Any, Y: Any, sample_weight: Any = None) -> tuple[list[LabelledOutput], list[str] | None]:
    """Return the labelled predictions of every output, and the names of the outputs if Y has column names."""
    outputs = predictions_of_outputs(X)
    n_rows = outputs[0].n_rows
    columns, names = _label_columns(Y, len(outputs), n_rows)
    weights = None if sample_weight is None else np.asarray(sample_weight)
    if weights is not None and weights.shape != (n_rows,):
        raise WeightError(
            f"sample_weight must have one number per row, but has shape {weights.shape}; pass {n_rows} numbers."
        )
    found = []
    for number, (predictions, labels) in enumerate(zip(outputs, columns, strict=True)):
        missing = _missing(labels)
        if predictions.ignore_label is not None:
            missing |= labels == predictions.ignore_label
        if missing.all():
            name = str(number) if names is None else repr(names[number])
            raise LabelError(f"all labels of output {name} are missing; at least one row must have a label.")
        known = np.flatnonzero(~missing)
        chosen = predictions if len(known) == n_rows else predictions.take(known)
        data = LabelledPredictions.parse(
            chosen,
            labels if len(known) == n_rows else _plain(labels[known]),
            None if weights is None else weights[known],
        )
        counted = known if weights is None else known[weights[known] > 0]
        found.append(LabelledOutput(counted, predictions, data))
    return found, names


def predictions_of_outputs(X: Any) -> list[Predictions]:
    """Parse a list of predictions, one for each output, of the same rows."""
    if not isinstance(X, list | tuple) or not X:
        raise PredictionError(
            f"predictions of several outputs must be a list with one array (n, K) per output, not {type(X).__name__}."
        )
    outputs = [Predictions.parse(part) for part in X]
    if len({part.n_rows for part in outputs}) > 1:
        raise PredictionError(
            f"outputs have {sorted({part.n_rows for part in outputs})} rows; all must have the same rows."
        )
    return outputs


def _label_columns(Y: Any, n_outputs: int, n_rows: int) -> tuple[list[NDArray[Any]], list[str] | None]:
    origin = Origin.of(Y)
    if origin is not None and origin.columns is not None:
        columns, names = [np.asarray(Y[name]) for name in origin.columns], [str(c) for c in origin.columns]
    else:
        given = np.asarray(on_host(Y))
        columns, names = list(given.T) if given.ndim == 2 else [], None
    if len(columns) != n_outputs or any(len(column) != n_rows for column in columns):
        raise LabelError(
            f"labels of {n_outputs} outputs must have shape ({n_rows}, {n_outputs}), but have {np.shape(Y)}; pass one column per "
            "output."
        )
    return columns, names


def _missing(labels: NDArray[Any]) -> NDArray[np.bool_]:
    if labels.dtype.kind in "iubU":
        return np.zeros(len(labels), dtype=np.bool_)
    return np.array([label is None or label != label for label in labels.tolist()], dtype=np.bool_)


def _plain(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels without missing ones as integers or text where they are."""
    if labels.dtype.kind == "f" and (labels == np.round(labels)).all():
        return labels.astype(np.intp)
    return np.array(labels.tolist())

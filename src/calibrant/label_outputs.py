"""Predictions and labels of several class labels per row, parsed once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import LabelError, PredictionError, WeightError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.origin import Origin, on_host
from calibrant.predictions import Predictions

__all__ = ["LabelledOutput", "parse_outputs", "predictions_of_outputs"]


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

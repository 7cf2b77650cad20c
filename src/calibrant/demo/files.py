"""Predictions of the demo as a file, for use with the command line."""

import csv
import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrant.persistence.replacing import replacing
from calibrant.predictions import Predictions

__all__ = ["LABEL", "PREDICTIONS", "write_predictions"]

PREDICTIONS = "predictions.csv"
LABEL = "digit"


def write_predictions(path: Path, predictions: Predictions, labels: NDArray[np.intp]) -> None:
    """Write the true class of every row and its scores, one column per class, as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([LABEL, *range(predictions.n_classes)])
        writer.writerows(
            [label, *row] for label, row in zip(labels.tolist(), predictions.scores.tolist(), strict=True)
        )
        text.detach()  # the caller closes the stream

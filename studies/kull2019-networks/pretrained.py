"""Networks that the authors did not train: all outputs in one array, which their program divides by a seed."""

from pathlib import Path

from sklearn.model_selection import train_test_split

from calibrant import Predictions
from calibrant.errors import StudyDataError
from calibrant.studies import StudyData
from calibrant.studies.safe_pickle import load_pickle

__all__ = ["divided"]

CALIBRATION_ROWS, SEED = 5000, 15


def divided(*, seed: int, data_folder: Path, file: str) -> StudyData:  # noqa: ARG001 (the split is the published one)
    """Return 5,000 calibration rows and all others as test rows, divided as in the program."""
    try:
        logits, labels = load_pickle(data_folder / file)
        logits, labels = logits.astype("float32"), labels.ravel()
    except (AttributeError, TypeError, ValueError):
        raise StudyDataError(f"{file} is not a pickled pair of logits and labels.") from None
    parts = train_test_split(logits, labels, test_size=len(labels) - CALIBRATION_ROWS, random_state=SEED)
    calibration, test, calibration_labels, test_labels = parts
    return StudyData.from_split(
        (Predictions.from_logits(calibration), calibration_labels),
        (Predictions.from_logits(test), test_labels),
    )

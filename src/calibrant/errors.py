"""All errors and warnings of calibrant."""

__all__ = [
    "CalibrationWarning",
    "ConvergenceWarning",
    "ExportError",
    "FileFormatError",
    "LabelError",
    "MissingClassWarning",
    "MissingExtraError",
    "NoGraphError",
    "ParameterError",
    "PartitionError",
    "PredictionError",
    "RecipeError",
    "StoreError",
    "StudyDataError",
    "StudyError",
    "WeightError",
]


class PredictionError(ValueError):
    """The probabilities or logits are invalid."""


class LabelError(ValueError):
    """The labels cannot be matched to the columns of the predictions."""


class WeightError(ValueError):
    """The sample weights are invalid."""


class ParameterError(ValueError):
    """A parameter of a calibrator, metric or registry call is invalid."""


class PartitionError(ValueError):
    """Partitions of a distributed data set cannot be read, or the workers that held them are lost."""


class NoGraphError(ValueError):
    """A fitted calibrator cannot be written as a finite list of row operations."""


class ExportError(ValueError):
    """An exported file does not reproduce the calibrator, or the calibrator cannot be exported."""


class FileFormatError(ValueError):
    """A file is not a calibrator or a table of predictions that this version can read."""


class StudyError(ValueError):
    """A study cannot be run or reported as requested."""


class RecipeError(StudyError):
    """A recipe is invalid."""


class StudyDataError(StudyError):
    """A data set of a study is missing or cannot be read."""


class StoreError(StudyError):
    """A results file cannot be opened or written."""


class MissingExtraError(ImportError):
    """An optional dependency is required but not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is required but not installed; run: pip install 'calibrant[{extra}]'.")


class CalibrationWarning(UserWarning):
    """Base class of all warnings; filter this one to silence them all."""


class ConvergenceWarning(CalibrationWarning):
    """A fit stopped before its optimum, or at the boundary of its range."""


class MissingClassWarning(CalibrationWarning):
    """Some classes have no rows in the calibration set."""

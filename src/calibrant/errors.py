"""Every error and warning that calibrant raises on purpose."""

__all__ = [
    "CalibrationWarning",
    "ConvergenceWarning",
    "FileFormatError",
    "LabelError",
    "MissingClassWarning",
    "MissingExtraError",
    "ParameterError",
    "PredictionError",
    "RecipeError",
    "StoreError",
    "StudyDataError",
    "StudyError",
    "WeightError",
]


class PredictionError(ValueError):
    """The probabilities or logits cannot be used as given."""


class LabelError(ValueError):
    """The labels cannot be matched to the columns of the predictions."""


class WeightError(ValueError):
    """The sample weights cannot be used as given."""


class ParameterError(ValueError):
    """A parameter of a calibrator, metric or registry call has no meaning."""


class FileFormatError(ValueError):
    """A file is not a calibrator or a table of predictions that this version can read."""


class StudyError(ValueError):
    """A study cannot be run or reported as asked."""


class RecipeError(StudyError):
    """A recipe says something that has no meaning."""


class StudyDataError(StudyError):
    """A data set of a study is absent or cannot be read."""


class StoreError(StudyError):
    """A file of results cannot be opened or written."""


class MissingExtraError(ImportError):
    """An optional dependency is needed and not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is needed here and not installed; run: pip install 'calibrant[{extra}]'."
        )


class CalibrationWarning(UserWarning):
    """Base of all warnings; filter this one to silence them together."""


class ConvergenceWarning(CalibrationWarning):
    """A fit stopped before its optimum, or at the edge of its range."""


class MissingClassWarning(CalibrationWarning):
    """Some classes have no calibration row."""

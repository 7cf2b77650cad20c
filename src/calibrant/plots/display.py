"""Base classes of displays, in the style of scikit-learn."""

from abc import abstractmethod
from typing import Any, Self

from calibrant.calibrator import Calibrator
from calibrant.errors import MissingExtraError
from calibrant.predictions import Predictions
from calibrant.tabular import Tabular

__all__ = ["Display", "PredictionDisplay", "new_axes", "predictions_of"]


class Display(Tabular):
    """A plot with its data.

    ``from_predictions`` and ``from_estimator`` create a display without matplotlib. :meth:`plot` draws it and sets the
    attributes ``ax_`` and ``figure_``.
    """

    ax_: Any
    figure_: Any

    @abstractmethod
    def plot(self, ax: Any = None) -> Self:
        """Plot on the given axes, or on a new figure, and return self."""


class PredictionDisplay(Display):
    """Display of predictions and true classes, with a class method ``from_predictions(y_true, y_proba, ...)``."""

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, **options: Any) -> Self:
        """Create the display from a fitted classifier and features, or from a fitted calibrator and predictions.

        Parameters
        ----------
        estimator : classifier or Calibrator
            Fitted estimator; a dict of estimators if :meth:`from_predictions` accepts a dict of predictions.
        X : array or frame
            Features, or predictions for a calibrator.
        y : array of shape (n,)
            True classes.
        **options
            As in :meth:`from_predictions`.
        """
        said: Any = (
            {name: predictions_of(one, X) for name, one in estimator.items()}
            if isinstance(estimator, dict)
            else predictions_of(estimator, X)
        )
        # Not declared above, since every display has different options.
        made: Self = cls.from_predictions(y, said, **options)  # type: ignore[attr-defined]
        return made


def new_axes(ax: Any = None, size: tuple[float, float] = (4.8, 4.8)) -> tuple[Any, Any]:
    """Return axes and their figure; a new figure of the given size in inches if there are none.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    if ax is not None:
        return ax, ax.figure
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise MissingExtraError("matplotlib", "plots") from error
    figure, axes = pyplot.subplots(figsize=size, layout="constrained")
    return axes, figure


def predictions_of(estimator: Any, X: Any) -> Predictions:
    """Return the predictions of a fitted classifier for features, or of a fitted calibrator for predictions."""
    if isinstance(estimator, Calibrator):
        return estimator.transform(X)
    return Predictions.from_probabilities(estimator.predict_proba(X), classes=estimator.classes_)

"""Display: a picture with its numbers, in the manner of scikit-learn."""

from abc import abstractmethod
from typing import Any, Self

from calibrant.calibrator import Calibrator
from calibrant.errors import MissingExtraError
from calibrant.predictions import Predictions
from calibrant.tabular import Tabular

__all__ = ["Display", "PredictionDisplay", "new_axes", "predictions_of"]


class Display(Tabular):
    """The numbers of a picture, and how they are drawn.

    A display is made from numbers by ``from_predictions`` or ``from_estimator``, of which none needs matplotlib;
    :meth:`plot` draws them and keeps what it drew on as ``ax_`` and ``figure_``.
    """

    ax_: Any
    figure_: Any

    @abstractmethod
    def plot(self, ax: Any = None) -> Self:
        """Draw on the given axes, or on those of a new figure, and return self."""


class PredictionDisplay(Display):
    """A picture of predictions with their true classes, by a class method ``from_predictions(y_true, y_proba, ...)``."""

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, **options: Any) -> Self:
        """Take what a fitted classifier says about rows, or what a fitted calibrator makes of predictions.

        Parameters
        ----------
        estimator : classifier or Calibrator
            Fitted; a dict of them where :meth:`from_predictions` takes a dict of predictions.
        X : array or frame
            Features, or predictions for a calibrator.
        y : array of shape (n,)
            True classes.
        **options
            As for :meth:`from_predictions`.
        """
        said: Any = (
            {name: predictions_of(one, X) for name, one in estimator.items()}
            if isinstance(estimator, dict)
            else predictions_of(estimator, X)
        )
        # Not declared above, since every display has options of its own.
        made: Self = cls.from_predictions(y, said, **options)  # type: ignore[attr-defined]
        return made


def new_axes(ax: Any = None, size: tuple[float, float] = (4.8, 4.8)) -> tuple[Any, Any]:
    """Return axes and their figure; new ones of a size in inches if none are given.

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
    """Return what a fitted classifier says about rows of features, or what a calibrator makes of predictions."""
    if isinstance(estimator, Calibrator):
        return estimator.transform(X)
    return Predictions.from_probabilities(estimator.predict_proba(X), classes=estimator.classes_)

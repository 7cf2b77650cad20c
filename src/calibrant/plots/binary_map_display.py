"""BinaryMapDisplay: maps of calibrators for two classes, as functions of the probability of the positive class."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from calibrant.arrays import AnyArray, Vector
from calibrant.calibrator import Calibrator
from calibrant.errors import ParameterError
from calibrant.options import check_whole
from calibrant.plots.display import Display, new_axes
from calibrant.plots.style import FAINT, INK, LABEL_SIZE, look
from calibrant.presentation.sentences import counted

__all__ = ["BinaryMapDisplay"]


class BinaryMapDisplay(Display):
    """Maps of calibrators for two classes: the calibrated against the predicted probability of the positive class.

    The dashed diagonal is the identity map; below it, predictions are too high.

    Parameters
    ----------
    predicted : ndarray of shape (m,)
        Probabilities at which the maps are evaluated.
    calibrated : dict of str to ndarray of shape (m,)
        Calibrated probabilities by method.
    truth : ndarray of shape (m,), optional
        True probabilities.

    Examples
    --------
    >>> from calibrant import PlattScaling
    >>> fitted = PlattScaling().fit([0.9, 0.9, 0.9, 0.9, 0.2, 0.2], [1, 1, 1, 0, 0, 1])
    >>> display = BinaryMapDisplay.from_estimator({"Platt": fitted}, n_points=3)
    >>> display.predicted, display.calibrated["Platt"].round(2)
    (array([0. , 0.5, 1. ]), array([0. , 0.6, 1. ]))
    """

    def __init__(
        self, predicted: Vector, calibrated: Mapping[str, Vector], *, truth: Vector | None = None
    ) -> None:
        self.predicted = predicted
        self.calibrated = dict(calibrated)
        self.truth = truth

    @classmethod
    def from_estimator(
        cls, estimators: Any, *, truth: Callable[[Vector], Any] | None = None, n_points: int = 501
    ) -> Self:
        """Create the display from fitted calibrators.

        Parameters
        ----------
        estimators : Calibrator or dict of str to Calibrator
            Calibrators fitted to two classes.
        truth : callable, optional
            The true map, a function of the probabilities of the positive class.
        n_points : int, default=501
            Number of equally spaced probabilities, from 0 to 1.
        """
        check_whole("n_points", n_points, 2)
        named = estimators if isinstance(estimators, Mapping) else {type(estimators).__name__: estimators}
        predicted = np.linspace(0.0, 1.0, int(n_points))
        calibrated = {}
        for name, estimator in named.items():
            if not isinstance(estimator, Calibrator) or len(estimator.classes_) != 2:
                raise ParameterError(
                    f"binary maps need calibrators fitted to two classes, but {name!r} is "
                    + (
                        f"fitted to {counted(len(estimator.classes_), 'class')}."
                        if isinstance(estimator, Calibrator)
                        else f"a {type(estimator).__name__}."
                    )
                )
            rows = np.column_stack([1 - predicted, predicted])
            calibrated[str(name)] = np.asarray(estimator.predict_proba(rows)[:, 1], dtype=np.float64)
        return cls(
            predicted, calibrated, truth=None if truth is None else np.asarray(truth(predicted), np.float64)
        )

    def columns(self) -> dict[str, AnyArray]:
        """Return one row per method and point; the true map is the method ``"truth"``."""
        every = {**self.calibrated, **({} if self.truth is None else {"truth": self.truth})}
        return {
            "method": np.repeat(np.array(list(every), dtype=object), len(self.predicted)),
            "predicted": np.tile(self.predicted, len(every)),
            "calibrated": np.concatenate(list(every.values())),
        }

    def plot(self, ax: Any = None) -> Self:
        self.ax_, self.figure_ = new_axes(ax)
        self.ax_.plot([0, 1], [0, 1], color=FAINT, linestyle="--", linewidth=1.1)
        if self.truth is not None:
            self.ax_.plot(self.predicted, self.truth, color=INK, linewidth=1.1, label="true map")
        for number, (name, values) in enumerate(self.calibrated.items()):
            self.ax_.plot(self.predicted, values, color=look(number)[0], linewidth=1.6, label=name)
        self.ax_.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        self.ax_.set_xlabel("predicted probability", fontsize=LABEL_SIZE)
        self.ax_.set_ylabel("calibrated probability", fontsize=LABEL_SIZE)
        self.ax_.legend(fontsize=LABEL_SIZE - 1, loc="upper left", framealpha=0.85, edgecolor="none")
        for side in ("top", "right"):
            self.ax_.spines[side].set_visible(False)
        return self

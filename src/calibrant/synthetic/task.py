"""Synthetic tasks: predictions whose true probabilities are a known function of them, and a set of named ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix
from calibrant.errors import ParameterError, PredictionError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.label_sampling import LabelSampler
from calibrant.options import check_whole, random_source, real_array
from calibrant.predictions import Predictions
from calibrant.synthetic.maps import (
    MIXED_MAP,
    BlendedMap,
    CalibrationMap,
    ClassTemperaturesMap,
    ConfusionMap,
    IdentityMap,
    LogLinearMap,
    RegionMap,
    RotationMap,
    TemperatureMap,
    WavesMap,
)

__all__ = ["SyntheticSample", "SyntheticTask", "tasks"]


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticSample:
    """Rows drawn from a synthetic task.

    Attributes
    ----------
    predictions : Predictions
        Predictions of the classifier, n rows of K probabilities.
    labels : ndarray of shape (n,)
        Observed classes: column numbers, drawn from the true probabilities.
    true_probabilities : ndarray of shape (n, K)
        True probabilities of each row, from which its label was drawn.
    """

    predictions: Predictions
    labels: NDArray[np.intp]
    true_probabilities: NDArray[np.float64]

    @property
    def labelled(self) -> LabelledPredictions:
        """Predictions and labels together, with a column for every class, even if no label has it."""
        return LabelledPredictions(self.predictions, self.labels, np.arange(self.predictions.n_classes))

    def __repr__(self) -> str:
        return f"SyntheticSample({self.predictions.n_rows} rows, {self.predictions.n_classes} classes)"


# Tolerance for rounding inside a map; larger deviations are an error of the map.
TOLERANCE = 1e-6
ROUNDING = 1e-12  # of a sum of float64


@dataclass(frozen=True)
class SyntheticTask:
    r"""A synthetic classification task with known true probabilities.

    .. math:: P \sim \operatorname{Dirichlet}(\alpha), \qquad Y \mid P \sim \operatorname{Categorical}(c(P))

    This is the data model of :cite:`valk2022`, section 4.2.1, with any map :math:`c` instead of theirs.

    Parameters
    ----------
    concentration : tuple of float, default=(0.5, 0.5, 0.5)
        :math:`\alpha_k > 0`, one per class, two classes or more; below 1 most predictions are confident.
    calibration_map : CalibrationMap or callable, default=MIXED_MAP
        :math:`c`; your own function takes and returns rows of the simplex, (n, K). The default, for three classes,
        combines different degrees of overconfidence with a rotation and some confusion.

    Notes
    -----
    A map is evaluated at the corners, the midpoints of edges and the centre of the simplex when the task is created, and
    its output is checked each time it is used. Drawing n rows costs O(nK). Predictions are probabilities; methods for
    logits use their logarithms.

    Examples
    --------
    >>> from calibrant.synthetic import TemperatureMap
    >>> task = SyntheticTask((0.5, 0.5, 0.5), TemperatureMap(2.0))
    >>> rows = task.sample(4, random_state=0)
    >>> rows.predictions, rows.labels
    (Predictions(4 rows, 3 classes, probabilities, float64), array([0, 1, 2, 2]))
    >>> task.true_probabilities([[0.81, 0.09, 0.10]]).round(3)
    array([[0.594, 0.198, 0.209]])
    """

    concentration: tuple[float, ...] = (0.5, 0.5, 0.5)
    calibration_map: CalibrationMap | Callable[[Matrix], Any] = MIXED_MAP

    def __post_init__(self) -> None:
        alpha = real_array(self.concentration)
        if alpha is None or alpha.ndim != 1 or len(alpha) < 2 or not (np.isfinite(alpha) & (alpha > 0)).all():
            raise ParameterError(
                "concentration must be two or more positive numbers, one per class, "
                f"not {self.concentration!r}."
            )
        if not callable(self.calibration_map):
            raise ParameterError(
                "calibration_map must be a CalibrationMap or a function of rows of probabilities, "
                f"not {self.calibration_map!r}."
            )
        object.__setattr__(self, "concentration", tuple(alpha.tolist()))
        corners = np.eye(self.n_classes)
        edges = (corners + np.roll(corners, 1, axis=1)) / 2
        self.true_probabilities(np.vstack([corners, edges, np.full_like(corners[:1], 1 / self.n_classes)]))

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.concentration)

    def true_probabilities(self, probabilities: Any) -> Matrix:
        """Return the true probabilities for rows of predictions, probabilities or :class:`~calibrant.Predictions`, (n, K)."""
        rows = Predictions.parse(probabilities).probabilities.astype(np.float64)
        if rows.shape[1] != self.n_classes:
            raise PredictionError(
                f"rows of this task have {self.n_classes} columns, one per class, not {rows.shape[1]}."
            )
        totals = rows.sum(axis=1, keepdims=True)
        if (
            np.abs(totals - 1).max() > ROUNDING
        ):  # printed digits or float32: maps are functions of the simplex
            rows /= totals
        truth = real_array(self.calibration_map(rows))
        if truth is None or truth.shape != rows.shape:
            raise ParameterError("calibration_map must return numbers in the shape of its rows.")
        totals = truth.sum(axis=1)
        # Written so that NaN is rejected as well.
        if not (truth.min() >= -TOLERANCE and np.abs(totals - 1).max() <= TOLERANCE):
            raise ParameterError(
                "calibration_map must return probabilities: none negative, rows that sum to 1."
            )
        np.maximum(truth, 0, out=truth)
        truth /= truth.sum(axis=1, keepdims=True)
        return truth

    def sample(self, n_rows: int, random_state: Any = 0) -> SyntheticSample:
        """Draw predictions and labels from the task.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        random_state : int, Generator or None, default=0
            Seed or random generator; the same seed gives the same rows.
        """
        check_whole("n_rows", n_rows)
        generator = random_source(random_state)
        rows = generator.dirichlet(self.concentration, n_rows)
        truth = self.true_probabilities(rows)
        labels = LabelSampler(truth).draw(generator)
        return SyntheticSample(Predictions.from_probabilities(rows), labels, truth)


THREE = (0.5, 0.5, 0.5)


def tasks() -> dict[str, SyntheticTask]:
    """Return a dictionary of tasks by name, with three classes unless the name says otherwise.

    ``"calibrated"``
        Predictions are calibrated: any change by a calibrator is an error.
    ``"over-confident"``, ``"under-confident"``
        One temperature, 1.5 or 0.7, which temperature scaling corrects completely.
    ``"asymmetric"``
        One class overconfident, one underconfident, one predicted too often: vector scaling.
    ``"log-linear"``
        A full affine map of the log-probabilities: Dirichlet calibration.
    ``"confused"``
        Labels confused at fixed rates: true probabilities stay away from the corners, where no affine map of logarithms can
        follow.
    ``"rotated"``
        Classwise and confidence-calibrated, but wrong almost everywhere.
    ``"waves"``
        Probabilities that are alternately too high and too low.
    ``"regions"``
        True probabilities with jumps.
    ``"mixed"``
        The default of :class:`SyntheticTask`: temperatures, a rotation and confusion together.
    ``"two-classes"``
        An overconfident classifier of two classes with unequal frequencies.
    ``"ten-classes"``
        Half of the way to a temperature, with ten classes and most predictions near a corner.

    >>> sorted(tasks())[:3]
    ['asymmetric', 'calibrated', 'confused']
    """
    maps = {
        "calibrated": IdentityMap(),
        "over-confident": TemperatureMap(1.5),
        "under-confident": TemperatureMap(0.7),
        "asymmetric": ClassTemperaturesMap((1.6, 0.8, 1.0), (0.0, 0.0, -0.5)),
        "log-linear": LogLinearMap(((0.8, 0.2, 0.0), (0.0, 0.7, 0.1), (0.1, -0.1, 0.9)), (0.2, 0.0, -0.2)),
        "confused": ConfusionMap(((0.9, 0.05, 0.05), (0.02, 0.96, 0.02), (0.15, 0.05, 0.8))),
        "rotated": RotationMap(0.8),
        "waves": WavesMap(0.5, 1.5),
        "regions": RegionMap(12, 0.3),
        "mixed": MIXED_MAP,
    }
    named = {name: SyntheticTask(THREE, calibration_map) for name, calibration_map in maps.items()}
    named["two-classes"] = SyntheticTask((0.5, 1.0), TemperatureMap(1.5))
    named["ten-classes"] = SyntheticTask((0.1,) * 10, BlendedMap(TemperatureMap(3.0), 0.5))
    return named

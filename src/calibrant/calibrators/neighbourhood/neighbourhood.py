"""Neighbourhood: the calibrator that takes away what went wrong nearby, whatever nearby means."""

from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.calibrators.inner_folds import folds_of
from calibrant.calibrators.neighbourhood.candidate_sizes import candidate_sizes
from calibrant.calibrators.neighbourhood.crop import Crop, check_crop, cropped, settled_epsilon
from calibrant.calibrators.neighbourhood.local_means import LocalMeans
from calibrant.calibrators.neighbourhood.points import Points
from calibrant.calibrators.reductions.doing_nothing import is_worse_than_nothing
from calibrant.errors import CalibrationWarning
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import warn_user
from calibrant.numerics.folds import Fold
from calibrant.numerics.kernels import content_order
from calibrant.numerics.row_blocks import n_threads_available
from calibrant.numerics.threads import in_threads
from calibrant.options import check_choice
from calibrant.predictions import Predictions
from calibrant.solvers import Status
from calibrant.space import Space

__all__ = ["Assumption", "Neighbourhood"]

Assumption = Literal["equal-errors", "equal-labels"]
"""What close predictions have in common: the calibration error, or the distribution of the label."""

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# More rows than this make neither a choice nor a check any better, but cost one pass over all points each.
JUDGED_ROWS = 10_000

# A choice may be this many standard errors of the difference above doing nothing before it is given up.
SURE = 2.0

# Stands in for a zero that did happen, while sizes are compared.
LEAST = float(np.finfo(np.float64).eps)


class Neighbourhood(Calibrator):
    """What all neighbourhood methods share; a method says what a neighbourhood is.

    A subclass names its parameter for the size of a neighbourhood in ``_size_name`` with the values to try in
    ``_grid``, takes the parameters ``assumption``, ``crop``, ``epsilon`` and ``cv``, checks its own ones in
    ``_check_options`` and makes :class:`LocalMeans` of points.
    """

    _size_name: ClassVar[str]
    """The parameter for the size of a neighbourhood: a number, a list of numbers to choose from, or ``"auto"``."""

    assumption: Assumption
    crop: Crop
    epsilon: float | Literal["auto"]
    cv: Any

    points_: NDArray[np.floating]
    errors_: NDArray[np.floating]
    point_weights_: NDArray[np.float64]
    epsilon_: float
    is_identity_: bool
    search_: dict[str, Vector] | None

    @abstractmethod
    def _grid(self) -> list[float]:
        """Return the sizes that ``"auto"`` stands for."""

    @abstractmethod
    def _check_options(self) -> None:
        """Refuse bad values of a method's own parameters, the size apart."""

    @abstractmethod
    def _check_size(self, size: Any) -> None:
        """Refuse a single size that has no meaning."""

    @abstractmethod
    def _local_means(self, points: Points, targets: Matrix, sizes: Sequence[float]) -> LocalMeans:
        """Return neighbourhoods among these points, for these sizes, in which to average the targets (u, K)."""

    def _different_sizes(self, sizes: list[float], most: float) -> list[float]:  # noqa: ARG002 (one method needs it)
        """Return the sizes that differ from each other when folds leave at most so much weight to learn from."""
        return sizes

    def _fit(self, data: LabelledPredictions) -> None:
        check_choice("assumption", self.assumption, ("equal-errors", "equal-labels"))
        check_crop(self.crop, self.epsilon)
        self._check_options()
        wanted = getattr(self, self._size_name)
        sizes = candidate_sizes(self._size_name, wanted, self._grid(), self._check_size)
        data = data.with_counting_weights()
        self.epsilon_ = settled_epsilon(self.epsilon, data.n_classes)
        self.is_identity_ = False
        self.search_ = None
        judged = _judged(data)
        size, reason = sizes[0], None
        if len(sizes) > 1:
            size, reason = self._chosen(data, judged, sizes)
        setattr(self, f"{self._size_name}_", size)
        points = Points.of(data)
        self.points_ = points.probabilities
        self.errors_ = points.errors
        self.point_weights_ = points.weights
        self._remember(points)
        if reason is None:
            rows = data.take(judged)
            if is_worse_than_nothing(rows, self._transform(rows.predictions)):
                reason = f"{Status.IDENTITY.value}."
        if reason is not None:
            self.is_identity_ = True
            warn_user(f"{type(self).__name__}: {reason}", CalibrationWarning)

    def _transform(self, predictions: Predictions) -> Predictions:
        if self.is_identity_:
            return predictions.without_zeros()
        size = getattr(self, f"{self._size_name}_")
        means = self._fitted_means(size)
        probabilities = predictions.probabilities
        calibrated = np.empty(probabilities.shape, dtype=probabilities.dtype)

        def fill(rows: slice) -> None:
            own = probabilities[rows].astype(np.float64)
            (mean,) = means.means(own, [size])
            calibrated[rows] = self._calibrated(own, mean)

        blocks = _blocks(predictions.n_rows, means.block_rows)
        in_threads(fill, blocks, means.block_rows * len(self.point_weights_))
        return Predictions(calibrated, Space.PROBABILITIES, predictions.classes)

    def _remember(self, points: Points) -> None:
        """Set further fitted state for the chosen size; nothing unless a method needs it."""

    def _fitted_means(self, size: float) -> LocalMeans:
        """Return the neighbourhoods among the fitted points."""
        points = Points(self.points_, self.errors_, self.point_weights_)
        return self._local_means(points, self._targets(points), [size])

    def _targets(self, points: Points) -> Matrix:
        """Return what is averaged."""
        return (
            points.labels()
            if self.assumption == "equal-labels"
            else points.errors.astype(np.float64, copy=False)
        )

    def _calibrated(self, own: Matrix, mean: Matrix) -> Matrix:
        """Return calibrated rows for predictions and the means around them; without neighbours they stay."""
        alone = np.isnan(mean[:, :1])
        moved = mean if self.assumption == "equal-labels" else own - mean
        return cropped(np.where(alone, own, moved), self.crop, self.epsilon_)

    def _chosen(
        self, data: LabelledPredictions, judged: NDArray[np.intp], sizes: list[float]
    ) -> tuple[float, str | None]:
        """Return the size with the lowest loss on rows held out, and why not to use it if so.

        All sizes are tried in the same pass over distances.
        """
        folds = folds_of(self.cv, data)
        sizes = self._different_sizes(sizes, max(_weight_to_learn_from(fold) for fold in folds))
        parts = [self._held_out(data, fold, judged, sizes) for fold in folds]
        losses = np.concatenate([part[0] for part in parts], axis=1)  # (sizes, rows held out)
        nothing = np.concatenate([part[1] for part in parts])
        weights = np.concatenate([part[2] for part in parts])
        shares = weights / weights.sum()
        mean = losses @ shares
        best = int(np.argmin(mean))
        self.search_ = {
            self._size_name: np.array(sizes),
            "loss": mean,
            "standard_error": _standard_errors(losses, shares, weights),
        }
        excess = losses[best] - nothing
        error = float(_standard_errors(excess, shares, weights))
        if excess @ shares <= SURE * error:
            return sizes[best], None
        return sizes[best], (
            f"the best of the sizes tried, {self._size_name}={sizes[best]:g}, has a log-loss of {mean[best]:.4f} on rows "
            f"held out, and doing nothing {nothing @ shares:.4f}; the identity is used."
        )

    def _held_out(
        self, data: LabelledPredictions, fold: Fold, judged: NDArray[np.intp], sizes: list[float]
    ) -> tuple[Matrix, Vector, Vector]:
        """Return the losses of all sizes (S, m), those of doing nothing (m,) and the weights of rows held out."""
        points = Points.of(data.take(fold.train_rows, fold.train_weights))
        means = self._local_means(points, self._targets(points), sizes)
        kept = np.flatnonzero(np.isin(fold.test_rows, judged))
        test_weights = np.ones(len(fold.test_rows)) if fold.test_weights is None else fold.test_weights
        test = data.take(fold.test_rows[kept], test_weights[kept])
        losses = np.empty((len(sizes), test.n_rows))

        def fill(rows: slice) -> None:
            own = test.predictions.probabilities[rows].astype(np.float64)
            labels = test.labels[rows]
            places = np.arange(len(labels))
            for number, mean in enumerate(means.means(own, sizes)):
                hit = self._calibrated(own, mean)[places, labels]
                losses[number, rows] = -np.log(np.maximum(hit, LEAST))

        in_threads(fill, _blocks(test.n_rows, means.block_rows), means.block_rows * points.n_points)
        nothing = test.row_losses("log", test.predictions.without_zeros())
        return losses, nothing, test_weights[kept]


def _weight_to_learn_from(fold: Fold) -> float:
    return float(len(fold.train_rows) if fold.train_weights is None else fold.train_weights.sum())


def _blocks(n_rows: int, block_rows: int) -> list[slice]:
    """Return slices of about equal length, a whole number of them for every thread, of at most so many rows."""
    if n_rows == 0:  # none of those held out is judged
        return []
    n_threads = n_threads_available()
    n_blocks = -(-n_rows // block_rows)
    n_blocks = min(n_rows, -(-n_blocks // n_threads) * n_threads)
    edges = [n_rows * block // n_blocks for block in range(n_blocks + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def _judged(data: LabelledPredictions) -> NDArray[np.intp]:
    """Return the rows by which sizes are judged: all, or every so manieth in the order of their content."""
    if data.n_rows <= JUDGED_ROWS:
        return np.arange(data.n_rows)
    order = content_order(data.predictions.probabilities, (data.labels,))
    return np.sort(order[np.linspace(0, data.n_rows - 1, JUDGED_ROWS).astype(np.intp)])


def _standard_errors(losses: Vector | Matrix, shares: Vector, weights: Vector) -> Vector:
    """Return the standard error of the weighted mean along the last axis."""
    centred = losses - (losses @ shares)[..., np.newaxis]
    errors: Vector = np.sqrt(centred**2 @ shares / weights.sum())
    return errors

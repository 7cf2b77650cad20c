"""Base of neighbourhood methods: subtract a local mean of the calibration errors."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix, Vector
from calibrant.calibrator import Calibrator
from calibrant.calibrators.neighbourhood.held_out_losses import (
    PointFold,
    PointLosses,
    as_they_came,
    better_floor,
    point_folds,
    uncalibrated_losses,
)
from calibrant.calibrators.neighbourhood.points import Crop, Points, check_crop, cropped, settled_epsilon
from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.fit_cost import announce_prediction
from calibrant.graph import TracedPredictions
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import warn_user
from calibrant.numerics.row_blocks import NUMBERS_PER_PIECE, even_blocks, in_threads, n_threads_available
from calibrant.options import check_choice, check_flag
from calibrant.predictions import Predictions
from calibrant.solvers import Status
from calibrant.space import Space

__all__ = ["Assumption", "LocalMeans", "Neighbourhood", "candidate_sizes"]


def candidate_sizes(
    name: str, wanted: Any, automatic: Sequence[float], check: Callable[[Any], None]
) -> list[float]:
    """Return the candidate sizes: one, those of a list in increasing order, or the automatic ones.

    >>> candidate_sizes("n_neighbours", [64, 32], [1, 2, 3], lambda size: None)
    [32, 64]
    >>> candidate_sizes("n_neighbours", "auto", [1, 2, 3], lambda size: None)
    [1, 2, 3]
    """
    if isinstance(wanted, str):
        if wanted != "auto":
            raise ParameterError(f"{name} must be a number, a list of numbers or 'auto', not {wanted!r}.")
        return list(automatic)
    several = isinstance(wanted, Sequence) or (isinstance(wanted, np.ndarray) and wanted.ndim == 1)
    sizes = list(wanted) if several else [wanted]
    if not sizes:
        raise ParameterError(f"{name} must have at least one number, but is empty.")
    for size in sizes:
        check(size)
    return sorted({size.item() if isinstance(size, np.generic) else size for size in sizes})


Assumption = Literal["equal-errors", "equal-labels"]
"""What similar predictions share: the calibration error, or the label distribution."""

# More points improve neither a selection nor the guard, but each costs one pass over all points.
MOST_JUDGED = 10_000

# A size is used if its held-out log-loss is lower by this number of standard errors ...
GAIN_IN_LOG_LOSS = 1.0

# ... or its Brier score by this number, while its log-loss, which is sensitive to single rows, is not higher by as many.
GAIN_IN_BRIER_SCORE = 2.0

# Smaller gains are rounding errors.
ROUNDING = 1e-12

# A log-loss that is higher than the lowest by this share, and by so many standard errors, ends the selection.
CLEARLY_WORSE, CLEAR_ERRORS = 0.01, 3.0

# Cache of the neighbourhoods of fitted calibrators, which are no part of the fitted state.
_PREPARED: "WeakKeyDictionary[Neighbourhood, LocalMeans]" = WeakKeyDictionary()


class LocalMeans(ABC):
    """Weighted means of targets at calibration points, in the neighbourhood of any prediction.

    Attributes
    ----------
    block_rows : int
        Number of predictions per call, which bounds the memory of temporaries.
    numbers_per_row : int
        Numbers computed per prediction, to decide on the use of threads.
    seconds_per_number : float
        Expected processor time, to announce a long prediction; 0 if none is long.
    splits_rows : bool
        Whether several threads may call with separate rows. If not, :meth:`means` may use threads itself.
    """

    block_rows: int
    numbers_per_row: int = 1000
    seconds_per_number: float = 0.0
    splits_rows: bool = True

    @abstractmethod
    def means(self, rows: Matrix, sizes: Sequence[float]) -> Iterator[Matrix]:
        """Yield, for every size in the order given, the means around some predictions, (m, K).

        Rows without neighbours are NaN. Several threads may call at once.
        """


class Neighbourhood(Calibrator):
    """Base of neighbourhood methods; a method defines the neighbourhood.

    A subclass names its size parameter in ``_size_name``, with the automatic candidates in ``_grid``. It has the parameters
    ``assumption``, ``crop``, ``epsilon``, ``cv`` and ``guard``, checks its other ones in ``_check_options``, and makes
    :class:`LocalMeans` of points.
    """

    structure: ClassVar[tuple[str, ...]] = ("assumption", "crop")

    _size_name: ClassVar[str]
    """Name of the parameter for the size of a neighbourhood: a number, a list of candidates, or ``"auto"``."""

    assumption: Assumption
    crop: Crop
    epsilon: float | Literal["auto"]
    cv: Any
    guard: bool

    points_: NDArray[np.floating]
    errors_: NDArray[np.float64]
    point_weights_: NDArray[np.float64]
    epsilon_: float
    identity_kept_: bool
    floor_of_zeros_: float
    search_: dict[str, Vector]

    @abstractmethod
    def _grid(self) -> list[float]:
        """Return the candidate sizes of ``"auto"``."""

    @abstractmethod
    def _check_options(self) -> None:
        """Refuse invalid values of a method's own parameters, except the size."""

    @abstractmethod
    def _check_size(self, size: Any) -> None:
        """Refuse an invalid size."""

    @abstractmethod
    def _local_means(self, points: Points, targets: Matrix, sizes: Sequence[float]) -> LocalMeans:
        """Return neighbourhoods among these points, for these sizes, in which to average the targets (u, K)."""

    def _different_sizes(self, sizes: list[float], most: float) -> list[float]:  # noqa: ARG002 (one method needs it)
        """Return the distinct sizes if training folds have at most this weight."""
        return sizes

    def _stages(self, sizes: list[float], most: float) -> list[list[float]]:  # noqa: ARG002 (one method needs it)
        """Return the sizes in groups; further groups are evaluated unless the end of the previous one is clearly worse."""
        return [sizes]

    def _set_state(self, points: Points) -> None:
        """Set further fitted state for the selected size; nothing by default."""

    def _fitted_means(self, size: float) -> LocalMeans:
        """Return the neighbourhoods among the fitted points."""
        return self._means_among(Points(self.points_, self.errors_, self.point_weights_), [size])

    def _means_among(self, points: Points, sizes: Sequence[float]) -> LocalMeans:
        return self._local_means(points, self._targets(points), sizes)

    def _fit(self, data: LabelledPredictions) -> None:
        check_choice("assumption", self.assumption, ("equal-errors", "equal-labels"))
        check_crop(self.crop, self.epsilon)
        check_flag("guard", self.guard)
        self._check_options()
        wanted = getattr(self, self._size_name)
        sizes = candidate_sizes(self._size_name, wanted, self._grid(), self._check_size)
        data = data.with_counting_weights()
        points = Points.of(data)
        _PREPARED.pop(self, None)
        self.epsilon_ = settled_epsilon(self.epsilon, data.n_classes)
        self.search_ = {}
        size, reason = sizes[0], None
        if len(sizes) > 1:
            folds = point_folds(points, data, self.cv)
            size, reason = self._chosen(folds, data.predictions.floor, sizes)
        setattr(self, f"{self._size_name}_", size)
        self.points_ = points.probabilities
        self.errors_ = points.errors
        self.point_weights_ = points.weights
        self._set_state(points)
        if reason is None and self.guard:
            reason = self._harm(points, data.predictions.floor)
        self.identity_kept_ = reason is not None and bool(self.guard)
        if self.identity_kept_:
            warn_user(f"{type(self).__name__}: {reason}", CalibrationWarning)
            self.floor_of_zeros_ = better_floor(points, data.predictions.floor, self.epsilon_)
            _PREPARED.pop(self, None)
            # The identity needs no points.
            self.points_ = self.points_[:0].copy()
            self.errors_ = self.errors_[:0].copy()
            self.point_weights_ = self.point_weights_[:0].copy()

    @property
    def _no_graph(self) -> str:
        """Why the map is no list of row operations."""
        return (
            "a row is compared with all points of the calibration set; temperature scaling or a structured map has a "
            "graph."
        )

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        if self.identity_kept_:
            return as_they_came(given, self.floor_of_zeros_)
        return self._opaque(given, self._no_graph)

    def _transform(self, predictions: Predictions) -> Predictions:
        if self.identity_kept_:
            return super()._transform(predictions)
        probabilities = predictions.probabilities
        calibrated = np.empty(probabilities.shape, dtype=probabilities.dtype)

        def keep(rows: slice, number: int, corrected: Matrix) -> None:  # noqa: ARG001 (there is one size only)
            calibrated[rows] = corrected

        size = getattr(self, f"{self._size_name}_")
        means = _PREPARED.get(self)
        if means is None:  # two threads may both make them, which does no harm
            means = _PREPARED[self] = self._fitted_means(size)
        n_rows = len(probabilities)
        expected = n_rows * means.numbers_per_row * means.seconds_per_number
        announce_prediction(type(self).__name__, expected, n_rows)
        self._correct(means, probabilities, [size], keep)
        return Predictions(calibrated, Space.PROBABILITIES, predictions.classes)

    def _targets(self, points: Points) -> Matrix:
        """Return what is averaged."""
        return points.labels() if self._setting("assumption") == "equal-labels" else points.errors

    def _calibrated(self, own: Matrix, mean: Matrix) -> Matrix:
        """Return calibrated rows for predictions and local means; rows without neighbours are not changed."""
        alone = np.isnan(mean[:, :1])
        moved = mean if self._setting("assumption") == "equal-labels" else own - mean
        return cropped(np.where(alone, own, moved), self._setting("crop"), self.epsilon_)

    def _correct(
        self,
        means: LocalMeans,
        probabilities: NDArray[np.floating],
        sizes: Sequence[float],
        use: Callable[[slice, int, Matrix], None],
    ) -> None:
        """Pass calibrated rows, block by block, to a function, with the index of the size."""

        def do(rows: slice) -> None:
            own = probabilities[rows].astype(np.float64)
            for number, mean in enumerate(means.means(own, sizes)):
                use(rows, number, self._calibrated(own, mean))

        n_rows = len(probabilities)
        numbers = min(n_rows, means.block_rows) * means.numbers_per_row
        if not means.splits_rows or numbers < NUMBERS_PER_PIECE:
            for rows in even_blocks(n_rows, means.block_rows):
                do(rows)
            return
        in_threads(do, even_blocks(n_rows, means.block_rows, n_threads_available()), numbers)

    def _chosen(self, folds: list[PointFold], floor: float, sizes: list[float]) -> tuple[float, str | None]:
        """Return the size with the lowest held-out log-loss, and a reason not to use it, if any.

        One pass over distances evaluates all sizes.
        """
        if not folds:
            return sizes[0], "all calibration rows have the same prediction, so the identity is kept."
        sizes = self._different_sizes(sizes, max(fold.train_weight for fold in folds))
        # Every fold is evaluated on its share of the points.
        tests = [_some(fold.test(), max(1, MOST_JUDGED // len(folds))) for fold in folds]
        losses: list[PointLosses] = []
        for stage in self._stages(sizes, max(fold.train_weight for fold in folds)):
            of_folds = [self._held_out(fold, test, stage) for fold, test in zip(folds, tests, strict=True)]
            losses += [PointLosses.joined(list(parts)) for parts in zip(*of_folds, strict=True)]
            if _is_clearly_worse(losses[-1], min(losses, key=lambda of_size: of_size.mean_log)):
                break
        sizes = sizes[: len(losses)]
        nothing = PointLosses.joined(
            [uncalibrated_losses(test, floor, self.crop, self.epsilon_) for test in tests]
        )
        excesses = [of_size.excess(nothing) for of_size in losses]
        means = np.array([of_size.mean_log for of_size in losses])
        self.search_ = {
            self._size_name: np.array(sizes),
            "loss": means,
            "excess": np.array([log for (log, _), _ in excesses]),
            "excess_error": np.array([error for (_, error), _ in excesses]),
        }
        best = int(np.argmin(means))
        (log, log_error), (brier, brier_error) = excesses[best]
        is_lower = log < -GAIN_IN_LOG_LOSS * log_error - ROUNDING
        is_closer = (
            brier < -GAIN_IN_BRIER_SCORE * brier_error - ROUNDING and log <= GAIN_IN_BRIER_SCORE * log_error
        )
        if is_lower or is_closer:
            return sizes[best], None
        return sizes[best], (
            f"no size has a significant held-out gain: the best one, "
            f"{self._size_name}={sizes[best]:g}, has a log-loss of {means[best]:.4g}, the uncalibrated predictions "
            f"{nothing.mean_log:.4g} (standard error of the difference {log_error:.2g}); the identity is kept."
        )

    def _held_out(self, fold: PointFold, test: Points, sizes: list[float]) -> list[PointLosses]:
        """Return the held-out losses of points for every size."""
        means = self._means_among(fold.train(), sizes)
        labels = test.labels()
        found = [PointLosses(np.empty(test.n_points), np.empty(test.n_points), test.weights) for _ in sizes]

        def judge(rows: slice, number: int, corrected: Matrix) -> None:
            losses = PointLosses.of(labels[rows], test.weights[rows], corrected)
            found[number].log[rows], found[number].brier[rows] = losses.log, losses.brier

        self._correct(means, test.probabilities, sizes, judge)
        return found

    def _harm(self, points: Points, floor: float) -> str | None:
        """Return a reason if the identity has a lower training loss, else None."""
        judged = _some(points, MOST_JUDGED)
        size = getattr(self, f"{self._size_name}_")
        means = _PREPARED[self] = self._fitted_means(size)
        nothing = uncalibrated_losses(judged, floor, self.crop, self.epsilon_).mean_log
        losses = np.empty(judged.n_points)
        labels = judged.labels()

        def judge(rows: slice, number: int, corrected: Matrix) -> None:  # noqa: ARG001 (there is one size only)
            losses[rows] = PointLosses.of(labels[rows], judged.weights[rows], corrected).log

        self._correct(means, judged.probabilities, [size], judge)
        rounding = 1 + float(np.finfo(points.probabilities.dtype).eps)
        harmful = np.average(losses, weights=judged.weights) > nothing * rounding
        return f"{self._size_name}={size:g}: {Status.IDENTITY.value}." if harmful else None


def _is_clearly_worse(losses: PointLosses, best: PointLosses) -> bool:
    """Tell whether losses are so much higher than the best ones that sizes beyond need no look."""
    (excess, error), _ = losses.excess(best)
    return excess > max(CLEARLY_WORSE * best.mean_log, CLEAR_ERRORS * error)


def _some(points: Points, most: int) -> Points:
    """Return up to ``most`` points, evenly spaced in their order by content."""
    if points.n_points <= most:
        return points
    return points.take(np.linspace(0, points.n_points - 1, most).astype(np.intp))

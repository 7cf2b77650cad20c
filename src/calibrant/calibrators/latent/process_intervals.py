"""Intervals of calibrated probabilities from the posterior of a latent function."""

from abc import abstractmethod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from calibrant.calibrator import Calibrator
from calibrant.calibrators.latent.monotone_process import MonotoneProcess
from calibrant.calibrators.latent.process_kernel import WhitenedFeatures
from calibrant.calibrators.latent.process_prediction import LatentProcess
from calibrant.calibrators.latent.process_scores import LatentScores
from calibrant.calibrators.uncertainty.log_odds import LogOdds
from calibrant.numerics.increasing_curve import Pieces
from calibrant.numerics.row_blocks import row_blocks
from calibrant.options import check_level
from calibrant.predictions import Predictions

__all__ = ["LatentIntervals"]

FloatArray = NDArray[np.floating]
Matrix = NDArray[np.float64]

MIN_ROWS = 64


class LatentIntervals(Calibrator):
    """A calibrator with a latent function, from whose posterior its intervals come; abstract."""

    covariance: Literal["full", "diagonal"]
    monotone: bool

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        r"""Return both ends of the interval of every probability, two arrays (n, K) in the float type of ``X``.

        The latent values of a row are normal in the posterior, so the log-odds of each class against the rest are, to
        first order, with mean as predicted and a deviation that follows from their covariance C:

        .. math:: \ln \frac{q_k}{1 - q_k} \pm z \sqrt{a_k^\top C a_k}, \qquad a_k = \frac{e_k - q}{1 - q_k}

        They hold the true probability as often as they should if the truth is a function like those of the prior,
        the same for all classes. The parameters of the kernel count as known. With ``monotone=True`` deviations are those of
        :meth:`latent`. Where doing nothing was better, ``identity_kept_``, intervals are as wide as those of the map that
        was not taken. O(nKM) for M inducing points.

        Parameters
        ----------
        X : array, frame or Predictions
        level : float, default=0.95
            Share of the intervals that should hold the probability.
        """
        check_is_fitted(self)
        check_level(level)
        predictions = self._parsed(X)
        calibrated = self.transform(predictions)
        probabilities = self.predict_proba(predictions)
        scores = self._scores_of(predictions)
        spread = _MonotoneSpread(self._increasing_process()) if self.monotone else _Spread(self)
        lower, upper = np.empty((2, *probabilities.shape), dtype=probabilities.dtype)
        for rows in row_blocks(len(lower), lower.shape[1] * spread.width, min_rows=MIN_ROWS):
            log_odds = LogOdds.of(calibrated.take(rows))
            places = scores.places[rows].astype(np.float64)
            lower[rows], upper[rows] = log_odds.ends(spread.deviations(log_odds, places), level)
        # Rounding to the float type may leave out what they are the interval of.
        return np.minimum(lower, probabilities), np.maximum(upper, probabilities)

    @abstractmethod
    def _scores_of(self, predictions: Predictions) -> LatentScores:
        """Return the arguments of the latent function."""

    @abstractmethod
    def _process(self) -> LatentProcess:
        """Return the posterior of a function that may go anywhere."""

    @abstractmethod
    def _increasing_process(self) -> MonotoneProcess:
        """Return the posterior of a function that increases."""


class _Spread:
    """How log-odds vary with a latent function that may go anywhere."""

    def __init__(self, owner: LatentIntervals) -> None:
        self.process = owner._process()
        self.full = owner.covariance == "full"
        self.width = len(self.process.mean)

    def deviations(self, log_odds: LogOdds, places: Matrix) -> Matrix:
        at = WhitenedFeatures.at(places.ravel(), self.process.parameters)
        shared = (at.features @ self.process.factor).reshape(*places.shape, -1)
        # What inducing points do not explain belongs to every latent value by itself.
        own = at.rest.reshape(places.shape)
        if not self.full:
            return log_odds.independent_deviations(own + np.einsum("ikr,ikr->ik", shared, shared))
        return np.hypot(log_odds.deviations(shared), log_odds.independent_deviations(own))


class _MonotoneSpread:
    """How log-odds vary with a latent function that increases."""

    def __init__(self, process: MonotoneProcess) -> None:
        self.pieces = Pieces(process.knots)
        values, vectors = np.linalg.eigh(process.slope_moments()[1])
        self.factor: Matrix = vectors * np.sqrt(np.maximum(values, 0.0))
        self.width = len(values)

    def deviations(self, log_odds: LogOdds, places: Matrix) -> Matrix:
        return log_odds.deviations(self.pieces.features_at(places) @ self.factor)

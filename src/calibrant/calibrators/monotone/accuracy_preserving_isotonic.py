"""Accuracy-preserving isotonic calibration (IRM): one increasing map for the probabilities of all classes."""

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.identity_check import is_worse_than_identity
from calibrant.calibrators.monotone.monotone_curve import ROWS_AT_ENDS, PooledScores, fitted_curve
from calibrant.errors import CalibrationWarning
from calibrant.graph import TracedPredictions, Value
from calibrant.graph.apply import evaluated
from calibrant.graph.curves import Piecewise
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import warn_user
from calibrant.options import check_choice, check_not_negative
from calibrant.solvers import Status

__all__ = ["AccuracyPreservingIsotonic"]


class AccuracyPreservingIsotonic(Calibrator):
    r"""Isotonic calibration with one strictly increasing map for all classes, followed by normalisation (IRM).

    .. math:: \hat q_{ij} = \frac{g(p_{ij})}{\sum_k g(p_{ik})}, \qquad
              g \text{ minimises } \sum_{i,j} w_i (o_{ij} - g(p_{ij}))^2 \text{ among increasing functions}

    where :math:`o_{ij}` is 1 if the class of row i is j, else 0: isotonic regression on all nK pairs, known as
    IRM :cite:`zhang2020`. Since the map is shared by all classes and increasing, it is order-preserving.

    Parameters
    ----------
    ties : {"strict", "centered"}, default="strict"
        How the map becomes strictly increasing: by adding 1e-9 times the score, as in the authors' program, or by linear
        interpolation between the centres of the blocks, as in :class:`~calibrant.IsotonicCalibration`.
    smoothing : float, default=1.0
        Weight of the pseudo-row that keeps the ends away from 0 and 1, as in :class:`~calibrant.IsotonicCalibration`; 0
        for the authors' map.

    Attributes
    ----------
    scores_ : ndarray of shape (m,)
        Scores of the knots of the map, strictly increasing.
    values_ : ndarray of shape (m,)
        Values of the map at the knots; linear between knots, constant beyond them.
    identity_kept_ : bool
        Whether the identity is used because the uncalibrated predictions have a lower log-loss on the calibration set.

    Notes
    -----
    *Arg-max.* Strictly increasing numbers may still round to equal ones, above all in float32. Where that
    would hand the first place to another class, the entry of the predicted class is put back on top, by one
    rounding step of the float type. So the arg-max is that of the input in every row, ties included (the first
    of equals).

    *Sums.* The authors' program evaluates the map without dividing rows by their sums; :meth:`pooled_probabilities`
    gives these. The sums are off by tens of per cent, and division changes every figure of merit.

    *Identity.* The best map for all pairs together need not have the better log-loss after division; where
    the identity has, on the calibration rows, it is kept with a warning.

    Pairs of one row count as if they were different rows, so small calibration sets go further than one against the
    rest, but classes that differ in their calibration get the same map. Costs O(nK log n) time; O(n) memory
    besides the result.

    Examples
    --------
    >>> p = [[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.3, 0.6, 0.1], [0.5, 0.2, 0.3]] * 4
    >>> y = [0, 1, 1, 0, 2, 0, 1, 1, 0, 1, 2, 1, 1, 0, 2, 0, 1, 2, 0, 2]
    >>> fitted = AccuracyPreservingIsotonic().fit(p, y)
    >>> fitted.scores_, fitted.values_.round(3)
    (array([0. , 0.1, 0.2, 0.3, 0.6, 0.7, 1. ]), array([0.107, 0.107, 0.107, 0.458, 0.458, 0.75 , 0.75 ]))
    >>> fitted.predict_proba(p[:2]).round(3)
    array([[0.778, 0.111, 0.111], [0.448, 0.448, 0.105]])
    >>> fitted.pooled_probabilities(p[:2]).round(3)          # before rows are divided by their sums
    array([[0.75 , 0.107, 0.107], [0.458, 0.458, 0.107]])
    >>> fitted.predict(p[:2])                                # of the two 0.448 the first is a little larger
    array([0, 0])
    """

    traits = Traits(keeps_argmax=True, contains_identity=True, shares_parameters=True)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"irm": {}}

    def __init__(self, ties: Literal["strict", "centered"] = "strict", smoothing: float = 1.0) -> None:
        self.ties = ties
        self.smoothing = smoothing

    def pooled_probabilities(self, X: object) -> NDArray[np.float64]:
        """Return the map of every probability, (n, K), whose rows need not sum to one.

        They are what the authors' program evaluates. Each is the share of true classes among the pairs of
        about this probability, in whatever column.
        """
        check_is_fitted(self)
        predictions = self._parsed(X).with_floor(self.floor_)
        return evaluated(self._pooled, predictions)

    def _pooled(self, given: TracedPredictions) -> Value:
        """Return the map of every probability, as float64."""
        return given.probabilities.widened.then(Piecewise.linear(self.scores_, self.values_))

    def _fit(self, data: LabelledPredictions) -> None:
        check_choice("ties", self.ties, ("strict", "centered"))
        check_not_negative("smoothing", self.smoothing, ROWS_AT_ENDS)
        data = data.with_counting_weights()
        groups = PooledScores.of_all_pairs(data.predictions.probabilities, data.labels, data.weights)
        curve = fitted_curve(groups, self.smoothing, self.ties)
        self.scores_, self.values_ = curve.knots, curve.values
        self.identity_kept_ = False
        self.identity_kept_ = is_worse_than_identity(data, self._transform)
        if self.identity_kept_:
            warn_user(f"AccuracyPreservingIsotonic: {Status.IDENTITY.value}.", CalibrationWarning)

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        if self.identity_kept_:
            return given.without_zeros()
        pooled = self._pooled(given)
        return given.with_probabilities((pooled / pooled.row("sum")).narrowed(), "argmax")

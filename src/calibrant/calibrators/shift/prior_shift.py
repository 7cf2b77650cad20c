"""PriorShift: the same classifier where classes are rarer or more common than they were."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.shift.class_numbers import class_rates, class_shares
from calibrant.calibrators.shift.reweighting import reweighted
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.options import check_choice
from calibrant.predictions import Predictions

__all__ = ["PriorShift"]

Vector = NDArray[np.float64]


class PriorShift(Calibrator):
    r"""Adapt calibrated probabilities to other shares of the classes, or undo a selection of rows by class.

    .. math:: \hat q_k \propto p_k \, \frac{\pi_k}{\pi^0_k} \qquad\text{or}\qquad \hat q_k \propto \frac{p_k}{r_k}

    where :math:`\pi^0` are the shares of the classes among the calibration rows, :math:`\pi` those where the
    classifier is used, and :math:`r_k` the rate at which rows of class k were kept. Exact by Bayes' rule
    :cite:`elkan2001,saerens2002` if rows of one class look the same here and there, and if p is calibrated on rows
    like the calibration rows: put this last in a :class:`Chain`, after a calibrator.

    Give either ``target_prior`` or ``sampling_rate``.

    Parameters
    ----------
    target_prior : array of shape (K,), dict or float, optional
        Shares of the classes where the classifier is used: in the order of the classes, or by label; for two classes a
        number is the share of the second. A class of share zero gets probability zero.
    source_prior : {"labels", "predictions"}, array of shape (K,), dict or float, default="labels"
        Shares of the classes in the rows that p is calibrated for: those of the labels in ``fit``, the mean of
        the predictions there, or given.
    sampling_rate : array of shape (K,), dict or float, optional
        Rate at which rows of each class were kept; a dict may leave out classes of rate 1, and for two classes a
        number is the rate of the first one. Only ratios matter; 3 stands for rows that were given three times, or for
        a class weight of 3 in training.

    Attributes
    ----------
    factors_ : ndarray of shape (K,)
        What each class is multiplied by.
    source_prior_, target_prior_ : ndarray of shape (K,)
        The shares here and there. After a selection by rate, the latter are those that the former come from.

    Notes
    -----
    *What the probabilities then mean.* On rows with the shares ``target_prior`` they are calibrated, on rows like
    the calibration rows no longer. Equal shares make the arg-max the class with the best balanced accuracy, and the
    probabilities those of a world where all classes are equally common.

    *Where rows were selected before calibration*, p is calibrated on the selected rows, and ``sampling_rate`` brings it
    to the original ones. If the calibration rows are already as in use, no correction is needed: the calibrator has
    learnt it. Weights of the calibration rows count in ``source_prior``.

    *Classes without calibration rows* have no share of labels; the mean prediction for them stands in. Zeros among
    the predictions count as the floor, as everywhere.

    Costs one pass over the rows, O(nK).

    Examples
    --------
    One row in two was positive among the calibration rows, one in ten is in use: the odds fall by a factor of 9.

    >>> fitted = PriorShift(target_prior=0.1).fit([0.5, 0.5], [0, 1])
    >>> fitted.predict_proba([0.9, 0.5]).round(4)
    array([[0.5, 0.5], [0.9, 0.1]])

    One negative in ten was kept, so the odds of a positive were ten times too high.

    >>> fitted = PriorShift(sampling_rate=0.1).fit([0.5, 0.5], [0, 1])
    >>> fitted.predict_proba([0.5]).round(4), fitted.target_prior_.round(4)
    (array([[0.9091, 0.0909]]), array([0.9091, 0.0909]))

    Last in a chain, by label:

    >>> from calibrant import Chain, TemperatureScaling
    >>> p, y = [[0.9, 0.1]] * 4 + [[0.1, 0.9]] * 4, ["no"] * 3 + ["yes"] * 4 + ["no"]
    >>> chain = Chain([TemperatureScaling(), PriorShift({"no": 0.75, "yes": 0.25})]).fit(p, y)
    >>> chain.predict_proba([[0.5, 0.5]])
    array([[0.75, 0.25]])
    """

    # A class without rows is part of the map all the same.
    traits = Traits(commutes_with_permutations=False, shares_parameters=True)

    def __init__(
        self, target_prior: Any = None, source_prior: Any = "labels", sampling_rate: Any = None
    ) -> None:
        self.target_prior = target_prior
        self.source_prior = source_prior
        self.sampling_rate = sampling_rate

    def _fit(self, data: LabelledPredictions) -> None:
        if (self.target_prior is None) == (self.sampling_rate is None):
            both = "both" if self.target_prior is not None else "neither"
            raise ParameterError(
                f"PriorShift needs either target_prior or sampling_rate, but has {both}; give one of them."
            )
        source = self._source_shares(data)
        if self.sampling_rate is not None:
            # Only ratios matter, and the largest one as the unit cannot overflow.
            rates = class_rates("sampling_rate", self.sampling_rate, data.classes)
            self.factors_ = rates.min() / rates
            unselected = source * self.factors_
            self.target_prior_ = unselected / unselected.sum()
        else:
            self.target_prior_ = class_shares("target_prior", self.target_prior, data.classes)
            self.factors_ = _ratios(self.target_prior_, source, data.classes)
        self.source_prior_ = source

    def _transform(self, predictions: Predictions) -> Predictions:
        return reweighted(predictions, self.factors_)

    def _source_shares(self, data: LabelledPredictions) -> Vector:
        if not isinstance(self.source_prior, str):
            return class_shares("source_prior", self.source_prior, data.classes)
        check_choice("source_prior", self.source_prior, ("labels", "predictions"))
        predicted = np.average(data.predictions.without_zeros().probabilities, axis=0, weights=data.weights)
        predicted = predicted.astype(np.float64)
        if self.source_prior == "predictions":
            return predicted / predicted.sum()  # type: ignore[no-any-return]
        shares = data.class_weights / data.total_weight
        absent = shares == 0
        if absent.any():
            shares = np.where(absent, predicted, shares * predicted[~absent].sum())
        return shares / shares.sum()  # type: ignore[no-any-return]


def _ratios(target: Vector, source: Vector, classes: NDArray[Any]) -> Vector:
    """Return target / source, with zero for classes that are nowhere."""
    impossible = np.flatnonzero((source == 0) & (target > 0))
    if len(impossible):
        label = classes[impossible[0]].item()
        raise ParameterError(
            f"source_prior is 0 for class {label!r}, whose share in target_prior is {target[impossible[0]]:.6g}; "
            "give it a share above 0."
        )
    with np.errstate(over="ignore"):
        ratios = np.divide(target, source, out=np.zeros_like(target), where=source > 0)
    if not np.isfinite(ratios).all():
        worst = int(np.argmax(ratios))
        raise ParameterError(
            f"source_prior of class {classes[worst].item()!r} is {source[worst]:.6g}, so far below its share in "
            f"target_prior, {target[worst]:.6g}, that the ratio is beyond the range of floats; give it a larger share."
        )
    return ratios

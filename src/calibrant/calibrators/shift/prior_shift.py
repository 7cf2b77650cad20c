"""PriorShift: adapt calibrated probabilities to a known class prior, or to a known sampling rate."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector
from calibrant.calibrator import Calibrator, Traits
from calibrant.errors import ParameterError
from calibrant.graph import TracedPredictions
from calibrant.graph.apply import mapped  # noqa: F401 (for the example)
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.labels import listed_labels
from calibrant.options import check_choice, real_array
from calibrant.predictions import (
    ROW_SUM_TOLERANCE,
    Predictions,  # noqa: F401 (for the example)
)

__all__ = ["PriorShift"]


def class_shares(name: str, value: Any, classes: NDArray[Any]) -> Vector:
    """Return shares of all classes that sum to one, from K of them or from that of the second of two classes.

    >>> class_shares("target_prior", {"ill": 0.02, "well": 0.98}, np.array(["ill", "well"]))
    array([0.02, 0.98])
    >>> class_shares("target_prior", 0.25, np.arange(2))
    array([0.75, 0.25])
    """
    if np.ndim(value) == 0 and len(classes) == 2 and not isinstance(value, Mapping):
        share = real_array(value)
        if share is None or not 0 <= share <= 1:
            raise ParameterError(f"{name} of the second class must be a number from 0 to 1, not {value!r}.")
        return np.array([1 - float(share), float(share)])
    shares = _numbers(name, value, classes, default=None)
    total = float(shares.sum())
    if not abs(total - 1) <= ROW_SUM_TOLERANCE:
        raise ParameterError(
            f"{name} must sum to 1 within {ROW_SUM_TOLERANCE:g}, but sums to {total:.6g}; give the share of every class."
        )
    return shares / total


def class_rates(name: str, value: Any, classes: NDArray[Any]) -> Vector:
    """Return positive rates of all classes; a single number is that of the first of two, a dict may leave out ones.

    >>> class_rates("sampling_rate", 0.1, np.arange(2)), class_rates("sampling_rate", {"b": 3}, np.array(["a", "b"]))
    (array([0.1, 1. ]), array([1., 3.]))
    """
    if np.ndim(value) == 0 and not isinstance(value, Mapping):
        rate = real_array(value)
        if len(classes) != 2:
            raise ParameterError(
                f"{name} must be a dict from label to rate, or one rate per class, for {len(classes)} classes, "
                f"not {value!r}."
            )
        rates = np.array([np.nan if rate is None else float(rate), 1.0])
    else:
        rates = _numbers(name, value, classes, default=1.0)
    if not ((rates > 0) & np.isfinite(rates)).all():
        raise ParameterError(
            f"{name} must be positive for every class, not {value!r}; rows of a class that was never kept cannot "
            "be brought back."
        )
    if not rates.min() / rates.max() >= np.finfo(np.float64).tiny:
        raise ParameterError(
            f"{name} goes from {rates.min():.6g} to {rates.max():.6g}, a ratio beyond the range of floats; give rates "
            "that are closer to each other."
        )
    return rates


def _numbers(name: str, value: Any, classes: NDArray[Any], default: float | None) -> Vector:
    """Return one finite number of at least zero for every class."""
    if isinstance(value, Mapping):
        numbers = real_array(_in_order(name, value, classes, default))
    else:
        numbers = real_array(value)
    if numbers is None or numbers.shape != classes.shape:
        raise ParameterError(
            f"{name} must be {len(classes)} numbers in the order of the classes {listed_labels(classes)}, or a dict from "
            f"label to number, not {value!r}."
        )
    if not (np.isfinite(numbers) & (numbers >= 0)).all():
        raise ParameterError(f"{name} must be finite and not negative, not {value!r}.")
    return numbers


def _in_order(name: str, value: Mapping[Any, Any], classes: NDArray[Any], default: float | None) -> list[Any]:
    plain = {key.item() if isinstance(key, np.generic) else key: number for key, number in value.items()}
    labels = classes.tolist()
    unknown = [key for key in plain if key not in labels]
    if unknown:
        raise ParameterError(
            f"{name} names {unknown[0]!r}, which is not among the classes {listed_labels(classes)}; correct the label."
        )
    missing = [label for label in labels if label not in plain]
    if missing and default is None:
        raise ParameterError(f"{name} lacks the class {missing[0]!r}; give a number for every class.")
    return [plain.get(label, default) for label in labels]


class PriorShift(Calibrator):
    r"""Adapt calibrated probabilities to a different class prior, or undo sampling by class.

    .. math:: \hat q_k \propto p_k \, \frac{\pi_k}{\pi^0_k} \qquad\text{or}\qquad \hat q_k \propto \frac{p_k}{r_k}

    where :math:`\pi^0` is the class prior of the calibration set, :math:`\pi` that of the target, and :math:`r_k` the
    sampling rate of class k. Exact by Bayes' rule :cite:`elkan2001,saerens2002` if rows of the same class have the same
    distribution in both, and if p is calibrated on the source: put this last in a :class:`Chain`, after a calibrator.

    Pass either ``target_prior`` or ``sampling_rate``.

    Parameters
    ----------
    target_prior : array of shape (K,), dict or float, optional
        Class prior of the target: in the order of the classes, or by label; for two classes a number is the prior of the
        second. A class with prior 0 gets probability 0.
    source_prior : {"labels", "predictions"}, array of shape (K,), dict or float, default="labels"
        Class prior of the rows for which p is calibrated: the class frequencies in ``fit``, the mean predictions in
        ``fit``, or given.
    sampling_rate : array of shape (K,), dict or float, optional
        Fraction of the rows of each class that was kept; a dict may omit classes with rate 1, and for two classes a
        number is the rate of the first one. Only ratios matter; 3 means rows repeated three times, or a class weight of 3 in
        training.

    Attributes
    ----------
    factors_ : ndarray of shape (K,)
        Factor of each class.
    source_prior_, target_prior_ : ndarray of shape (K,)
        Class priors of source and target. With ``sampling_rate``, the target is the population before sampling.

    Notes
    -----
    *Interpretation.* The probabilities are calibrated for rows with prior ``target_prior``, and no longer for the source.
    With equal priors the arg-max maximises balanced accuracy, and the probabilities are those of a population in which all
    classes are equally frequent.

    *Sampling before calibration.* If rows were sampled by class, p is calibrated on the sample, and ``sampling_rate``
    adapts it to the population. If the calibration set is a sample of the population itself, no correction is needed.
    Weights of the calibration rows count in ``source_prior``.

    *Classes without calibration rows* have no observed frequency; their mean prediction is used instead. Zeros in
    the predictions are raised to the floor, as everywhere.

    Costs one pass over the rows, O(nK).

    Examples
    --------
    One row in two is positive in the calibration set, one in ten in use: the odds decrease by a factor of 9.

    >>> fitted = PriorShift(target_prior=0.1).fit([0.5, 0.5], [0, 1])
    >>> fitted.predict_proba([0.9, 0.5]).round(4)
    array([[0.5, 0.5], [0.9, 0.1]])

    One in ten negatives was kept, so the odds of a positive were ten times too high.

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

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        return reweighted(given, self.factors_)

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


def reweighted(given: TracedPredictions, factors: NDArray[np.float64]) -> TracedPredictions:
    """Return predictions with class k multiplied by ``factors[k]``, zeros counting as the floor.

    Logits, as long as no factor is zero; a class whose factor is zero gets a probability of exactly zero.

    >>> mapped(lambda given: reweighted(given, np.array([1.0, 3.0])), Predictions.parse([[0.5, 0.5]])).probabilities
    array([[0.25, 0.75]])
    >>> three = Predictions.parse([[0.8, 0.1, 0.1]])
    >>> mapped(lambda given: reweighted(given, np.array([0.0, 1.0, 3.0])), three).probabilities
    array([[0.  , 0.25, 0.75]])
    """
    possible, impossible = np.flatnonzero(factors), np.flatnonzero(factors == 0)
    shifted = given.logits.columns(possible) + np.log(factors[possible])
    if len(impossible) == 0:
        return given.with_logits(shifted)
    zeros = shifted.constant(np.zeros(len(impossible)))
    places = np.argsort(np.concatenate([possible, impossible]))
    return given.with_probabilities(shifted.softmax().joined(zeros, columns=places))

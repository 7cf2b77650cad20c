"""Top-label calibration: one binary map per predicted class."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import IntArray
from calibrant.batches import (
    Summary,
    check_learns_batches,
    started_learner,
    updated_learner,
    without_batch_state,
)
from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.binned.histogram import HistogramBinning
from calibrant.calibrators.binned.merged_levels import weight_per_row
from calibrant.calibrators.reductions.event_scores import AgainstRest, binary_problem
from calibrant.errors import ParameterError
from calibrant.fit_cost import FitPart, JointCost
from calibrant.graph import MapGraph, TracedPredictions
from calibrant.graph.columns import RestOfLargest, SetLargest
from calibrant.graph.switch import Switch
from calibrant.graph.trace import Trace
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import gathered, held_back
from calibrant.numerics.row_blocks import in_threads
from calibrant.options import check_flag, check_whole
from calibrant.space import Space

__all__ = ["TopLabel"]


# Relative tolerance of ``min_rows`` for rounding of sums of weights.
ROUNDING = 1e-9

Learning = Callable[[Calibrator, LabelledPredictions, float], Calibrator]


class _MapsOfClasses(Summary):
    """Batches for the maps of all predicted classes; each is compared with a sample of its rows."""

    def check(self, calibrator: Any) -> None:
        calibrator._check_parameters()
        check_learns_batches({"base": calibrator.base}, "HistogramBinning()")

    def condense(self, calibrator: Any, data: LabelledPredictions, n_rows: float, *, sampled: bool) -> None:  # noqa: ARG002
        calibrator._condense(data, n_rows)

    def update(self, calibrator: Any, data: LabelledPredictions, kept: float, n_rows: float) -> None:
        calibrator._update(data, kept, n_rows)


class TopLabel(Calibrator):
    r"""Top-label calibration: calibrate the confidence in the predicted class, separately for each predicted class.

    .. math:: \hat q_{\hat y} = h_{\hat y}(p_{\hat y}), \qquad
              \hat q_k = (1 - \hat q_{\hat y}) \, \frac{p_k}{\sum_{j \ne \hat y} p_j} \quad (k \ne \hat y)

    where :math:`\hat y` is the predicted class and :math:`h_l` a binary map that is fitted to the rows in which class l is
    predicted: to their confidence, and to whether the prediction is correct :cite:`gupta2022`. The other classes share the
    remainder in proportion to their uncalibrated probabilities, with zeros raised to the floor.

    Parameters
    ----------
    base : Calibrator
        Calibrator for two classes that is cloned and fitted for each predicted class. ``partial_fit`` requires it to have
        ``partial_fit``.
    by_class : bool, default=True
        Whether each predicted class has a separate map. With False one map is fitted to all rows, which calibrates the
        confidence on average over the classes but not per class.
    min_rows : int, default=50
        A class that is predicted in fewer calibration rows, by total weight, uses one map fitted to all rows.

    Attributes
    ----------
    calibrators_ : list of Calibrator or None
        The fitted maps of the classes and, if any class needs it, of all rows as the last one. None if the predictions
        of these rows are all correct or all wrong; ``constants_`` has their confidence.
    constants_ : ndarray
        For each map that is None the confidence (r + 1) / (w + 2), for w rows of which r are correct: Laplace's rule;
        NaN for the others.
    map_of_class_ : ndarray of shape (K,)
        Index of the map of each predicted class, where K counts the classes with calibration rows.

    Notes
    -----
    *Guarantee.* With base ``HistogramBinning(strategy="quantile", rows_per_bin=m, smoothing=0)``, distinct scores and
    enough rows in each class, the probability that the prediction is correct differs from the confidence by at most

    .. math:: \sqrt{\frac{\log(2 B / \delta)}{2 (m - 1)}}

    simultaneously in all B bins of all predicted classes, with probability :math:`1 - \delta` over the calibration set,
    for any classifier and distribution :cite:`gupta2022`. For one bin given in advance B is 1. The default smoothing, which
    keeps the log-loss finite, adds at most 2 / (m + 2). The paper proves the bound for bins whose edges are scores of rows
    that are left out of the bins; here edges are midpoints between scores, and no row is left out.

    *Other classes.* Only the predicted class is calibrated. If its confidence decreases, another class can have a larger
    probability, and ``predict`` returns that one. The guarantee is for the classifier's own prediction:
    :meth:`confidences` returns it with its calibrated confidence.

    *Program.* The authors' program does not calibrate classes that are predicted in fewer rows than a bin holds, and
    breaks ties of scores by random noise of 1e-10; here such classes use the map of all rows, and ties share a
    bin. Among equal largest probabilities the first class is the prediction.

    *Classes without calibration rows* keep their share of probability as with every calibrator here, also if they
    are predicted. With ``by_class=False`` no parameter belongs to one class, and all columns are calibrated.

    *Batches.* In ``partial_fit`` each predicted class has a separate learner from its first row on, and there is one for all
    rows: clones of ``base`` with their batch summaries. A class uses its own map while the weight of its rows is at least
    ``min_rows``. Classes without rows so far can already be predicted, and their share is calibrated like that of all
    others; an ordinary fit would leave them out. ``half_life`` counts rows of all classes.

    Costs O(nK), one sort of the rows by predicted class, and fits of ``base`` to n rows in total, or 2n rows if some class
    has few; on several threads for large data.

    Examples
    --------
    A classifier with a confidence of 80 %, which is correct in 7 of 10 rows when it predicts the first class, and in 9 of 10
    when it predicts the second:

    >>> from calibrant import TemperatureScaling
    >>> p = [[0.8, 0.2]] * 10 + [[0.2, 0.8]] * 10
    >>> y = [0] * 7 + [1] * 3 + [1] * 9 + [0]
    >>> fitted = TopLabel(TemperatureScaling(), min_rows=10).fit(p, y)
    >>> labels, confidences = fitted.confidences([[0.8, 0.2], [0.2, 0.8]])
    >>> labels, confidences.round(3)
    (array([0, 1]), array([0.7, 0.9]))
    >>> TopLabel(TemperatureScaling(), by_class=False).fit(p, y).confidences(p[:1])[1].round(3)
    array([0.8])
    """

    batches: ClassVar[Summary | None] = _MapsOfClasses()
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {
        "top-label-binning": {"base": HistogramBinning(strategy="quantile", rows_per_bin=50)}
    }

    calibrators_: list[Calibrator | None]
    constants_: NDArray[np.float64]
    map_of_class_: IntArray

    def __init__(self, base: Calibrator, by_class: bool = True, min_rows: int = 50) -> None:
        self.base = base
        self.by_class = by_class
        self.min_rows = min_rows

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """Traits that follow from the base; constants and shared maps may be worse than the identity."""
        raw = isinstance(self.base, Calibrator) and self.base.traits.uses_raw_logits
        return Traits(uses_raw_logits=raw, shares_parameters=not self.by_class)

    def confidences(self, X: Any) -> tuple[NDArray[Any], NDArray[np.floating]]:
        """Return the classifier's predicted labels, (n,), and their calibrated probabilities, (n,)."""
        check_is_fitted(self)
        predictions = self._parsed(X)
        predicted = predictions.predicted
        calibrated = self.transform(predictions).probabilities
        return self.classes_[predicted], calibrated[np.arange(len(predicted)), predicted]

    @property
    def fit_cost(self) -> JointCost:  # type: ignore[override]
        """Cost of one binary fit per predicted class, each to its rows."""
        return JointCost([FitPart(getattr(self.base, "fit_cost", None), n_classes=2)])

    def _fit(self, data: LabelledPredictions) -> None:
        self._check_parameters()
        data = data.with_counting_weights()
        predicted, binary = _right_or_wrong(data)
        own = self._has_own_map(np.bincount(predicted, data.weights, minlength=data.n_classes))
        self.map_of_class_ = _numbers_of_maps(own)
        parts = [binary.take(rows) for rows in _rows_by_number(predicted, data.n_classes, own)]
        if not own.all():
            parts.append(binary)
        with gathered(len(parts), "top-label fit"):
            fitted = in_threads(partial(_fitted, self.base), parts, data.n_rows // len(parts))
        self.calibrators_ = [calibrator for calibrator, _ in fitted]
        self.constants_ = np.array([constant for _, constant in fitted])

    def _condense(self, data: LabelledPredictions, n_rows: float) -> None:
        if self.present_columns_ is not None:
            # The summary is of all columns, since later rows may have any class.
            self.present_columns_ = None
            self._fit(data)
        fresh: Calibrator = clone(self.base)
        empty = {
            "outcome_weights": np.zeros((data.n_classes, 2)),
            "kept": np.ones(data.n_classes),
            "learners": [fresh] * (data.n_classes if self.by_class else 0),
            "learner_of_all": fresh,
        }
        total = data.total_weight

        def learn(learner: Calibrator, part: LabelledPredictions, _: float) -> Calibrator:
            return started_learner(
                learner, part, part.n_rows if n_rows == data.n_rows else n_rows * part.total_weight / total
            )

        self.memory_ = self._updated_state(empty, data, 0.0, n_rows, learn)
        if n_rows != data.n_rows:
            # Before condensation all rows counted in full.
            self._set_maps()

    def _update(self, data: LabelledPredictions, kept: float, n_rows: float) -> None:
        self.memory_ = self._updated_state(self.memory_, data, kept, n_rows, updated_learner)
        self._set_maps()

    def _updated_state(
        self, past: dict[str, Any], data: LabelledPredictions, kept: float, n_rows: float, learn: Learning
    ) -> dict[str, Any]:
        """Return the state after another batch; the weights of classes without rows in it only decay."""
        predicted, binary = _right_or_wrong(data)
        numbers = 2 * predicted + binary.labels
        sums = np.bincount(numbers, data.weights, minlength=2 * data.n_classes).reshape(-1, 2)
        weights = past["outcome_weights"] * kept + sums
        own = self._has_own_map((weights / weight_per_row(weights, n_rows)).sum(axis=1))
        learners, of_all = list(past["learners"]), past["learner_of_all"]
        # The decay of a learner whose class has no rows is applied with its next rows.
        left = past["kept"] * kept
        present = np.bincount(predicted, minlength=data.n_classes) > 0
        columns = np.flatnonzero(present & bool(self.by_class))
        groups = _rows_by_number(predicted, data.n_classes, present & bool(self.by_class))
        with gathered(len(columns) + 1, "top-label update"):
            for column, rows in zip(columns, groups, strict=True):
                # Warnings of a map that is not used are irrelevant.
                with nullcontext() if own[column] else held_back():
                    learners[column] = learn(learners[column], binary.take(rows), float(left[column]))
            with held_back() if own.all() else nullcontext():
                of_all = learn(of_all, binary, kept)
        return {
            "rows": float(n_rows),
            "outcome_weights": weights,
            "kept": np.where(present, 1.0, left),
            "learners": learners,
            "learner_of_all": of_all,
        }

    def _set_maps(self) -> None:
        """Set the maps of all classes from the state."""
        weights = self.memory_["outcome_weights"]
        weights = weights / weight_per_row(weights, self.memory_["rows"])
        own = self._has_own_map(weights.sum(axis=1))
        self.map_of_class_ = _numbers_of_maps(own)
        learners = [self.memory_["learners"][column] for column in np.flatnonzero(own)]
        outcomes = list(weights[own])
        if not own.all():
            learners.append(self.memory_["learner_of_all"])
            outcomes.append(weights.sum(axis=0))
        maps = [_map_or_constant(*part) for part in zip(learners, outcomes, strict=True)]
        self.calibrators_ = [calibrator for calibrator, _ in maps]
        self.constants_ = np.array([constant for _, constant in maps])

    def _has_own_map(self, weights: NDArray[Any]) -> NDArray[np.bool_]:
        """Return for each class whether rows of this total weight suffice for a separate map."""
        return (weights * (1 + ROUNDING) >= self.min_rows) & bool(self.by_class)

    def _check_parameters(self) -> None:
        if not isinstance(self.base, Calibrator):
            raise ParameterError(f"base must be a calibrator such as HistogramBinning(), not {self.base!r}.")
        check_flag("by_class", self.by_class)
        check_whole("min_rows", self.min_rows)

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        branches = tuple(
            self._branch(calibrator, float(constant), given)
            for calibrator, constant in zip(self.calibrators_, self.constants_, strict=True)
        )
        pair = given.scores.then(RestOfLargest(given.space is Space.LOGITS))
        confidence = pair.then(Switch(branches, self.map_of_class_), given.scores)
        return given.with_probabilities(
            confidence.then(SetLargest(given.space is Space.LOGITS, given.least), given.scores).narrowed(
                keep_positive=True
            )
        )

    def _branch(self, calibrator: Calibrator | None, constant: float, given: TracedPredictions) -> MapGraph:
        """Return the map of one class, from two columns, the rest and the largest entry, to their probabilities."""
        trace = Trace(2)
        if calibrator is None:
            both = trace.input.constant([1 - constant, constant])
        else:
            given.raw.trace.visit(calibrator, calibrator._version)
            both = calibrator._trace(TracedPredictions(trace.input, given.space)).probabilities
            for part, version in trace.visited:
                given.raw.trace.visit(part, version)
        return trace.graph(both.widened, given.space, Space.PROBABILITIES)


def _right_or_wrong(data: LabelledPredictions) -> tuple[IntArray, LabelledPredictions]:
    """Return the predicted classes, and the binary problem whether each prediction is correct."""
    predicted = data.predictions.predicted
    top = AgainstRest(data.predictions).rest_of_largest()
    return predicted, binary_problem(top, data.labels == predicted, data.weights)


def _numbers_of_maps(own: NDArray[np.bool_]) -> IntArray:
    """Return the index of the map of each class; the map of all rows comes last."""
    return np.where(own, np.cumsum(own) - 1, own.sum())


def _fitted(base: Calibrator, part: LabelledPredictions) -> tuple[Calibrator | None, float]:
    """Return a map of these rows, or a constant confidence if their outcomes are all equal."""
    wrong, right = part.class_weights
    if wrong > 0 and right > 0:
        return clone(base).fit_labelled(part), np.nan
    return None, _laplace(wrong, right)


def _map_or_constant(learner: Calibrator, outcomes: NDArray[np.float64]) -> tuple[Calibrator | None, float]:
    """Return the map of a learner, or a constant confidence as :func:`_fitted` does."""
    wrong, right = outcomes
    if wrong > 0 and right > 0 and not learner._has_seen_one_class:
        return without_batch_state(learner), np.nan
    return None, _laplace(wrong, right)


def _laplace(wrong: float, right: float) -> float:
    """Return Laplace's estimate of the accuracy."""
    return (right + 1) / (wrong + right + 2)


def _rows_by_number(numbers: IntArray, n_numbers: int, wanted: NDArray[np.bool_]) -> list[IntArray]:
    """Return, for each wanted number from 0 on, the rows that have it, in their order."""
    if n_numbers == 1:
        return [np.arange(len(numbers))][: int(wanted[0])]
    # Numbers of 16 bits are sorted by counting.
    order = np.argsort(numbers.astype(np.uint16) if n_numbers < 2**16 else numbers, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(numbers, minlength=n_numbers))[:-1])
    return [groups[number] for number in np.flatnonzero(wanted)]

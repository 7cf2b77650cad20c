"""Learning batch by batch: rows while they are few, then summary statistics of earlier batches."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from calibrant.errors import LabelError, MissingClassWarning, ParameterError, PredictionError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import Notice, held_back, warn_user
from calibrant.options import check_half_life
from calibrant.predictions import Predictions
from calibrant.space import Space

if TYPE_CHECKING:
    from calibrant.calibrator import Calibrator

__all__ = [
    "ROWS_AT_HAND",
    "BatchSummary",
    "Summary",
    "batch_summary",
    "check_learns_batches",
    "learn_batch",
    "learn_rows",
    "partial_fit",
    "started_learner",
    "updated_learner",
    "without_batch_state",
]

Part = TypeVar("Part", bound="Calibrator")

# Up to this number all rows are kept: a fit to fewer rows is too rough for an expansion of the loss around it.
ROWS_AT_HAND = 1000

# Memory addresses in the repr of an object are no part of its value.
ADDRESS = re.compile(" at 0x[0-9a-f]+")

SHOWN = 10  # how many classes a warning lists


@dataclass(frozen=True)
class BatchSummary:
    r"""What a calibrator keeps of the rows of earlier batches: its size and its error.

    Attributes
    ----------
    n_rows : float
        Number of rows learnt so far; less if they fade by a half-life.
    n_kept_rows : int
        Number of rows that are kept as they are: all of them while they are few, later a sample.
    n_bytes : int
        Size of all arrays that are kept.
    error : float
        Estimated cost of the approximation in nats per row: on the kept sample, the mean log-loss of the fitted calibrator
        minus that of a calibrator fitted to the sample alone, with the same penalty per row. From a sample of m rows, a
        cost of e is estimated with a standard error of about :math:`\sqrt{2 e / m}`. Zero while all rows are kept. NaN if
        there is nothing to compare with: methods that keep the sums of bins, the Brier score, and fits of a sample instead
        of all rows.
    sampling_error : float
        The largest ``error`` that the size of the sample explains. When a check finds a larger one, the calibrator and its
        summary are refitted to the sample.
    """

    n_rows: float
    n_kept_rows: int
    n_bytes: int
    error: float
    sampling_error: float


class Summary(ABC):
    """Summary statistics of earlier batches, and how a batch is added to them.

    A method with ``partial_fit`` has one as its class attribute ``batches``. The state is ``memory_`` of the calibrator:
    all rows while they are few, later the result of :meth:`condense` and a sample of the rows, both of constant size. If
    the summary is approximate, a map that the sample rejects is refitted to the sample.
    """

    rows_between_checks = 100
    """New rows after which a map is compared with a fit of the sample; sooner if it looks worse than the identity."""

    @abstractmethod
    def condense(self, calibrator: Any, data: LabelledPredictions, n_rows: float, *, sampled: bool) -> None:
        """Set ``memory_`` to the summary of rows that were just fitted and count as ``n_rows``, with the key ``rows``.

        If the rows are a sample, their weights are the number of rows that each represents.
        """

    @abstractmethod
    def update(self, calibrator: Any, data: LabelledPredictions, kept: float, n_rows: float) -> None:
        """Learn from a batch and ``memory_``, and replace both the map and ``memory_``; change nothing in place."""

    def check(self, calibrator: Any) -> None:
        """Raise an error for invalid parameters, since a fit may come much later."""
        calibrator._check_parameters()

    def parts(self, calibrator: Any) -> list[Any]:  # noqa: ARG002
        """Return the calibrators outside ``memory_`` that keep summaries of their own."""
        return []

    def n_approximate(self, calibrator: Any, n_classes: int) -> int:  # noqa: ARG002
        """Return the number of parameters that the summary approximates; 0 if its sums are exact."""
        return 0

    def condenses(self, calibrator: Any, data: LabelledPredictions) -> bool:  # noqa: ARG002
        """Return whether rows that were just fitted can be replaced by the result of :meth:`condense`."""
        return True

    def most_rows(self, n_classes: int) -> int:
        """Return the largest number of rows that are kept if they cannot be condensed."""
        return most_rows(n_classes)

    def fit_rows(self, calibrator: Any, data: LabelledPredictions, *, sampled: bool) -> None:  # noqa: ARG002
        """Fit rows, which may be a sample."""
        calibrator.fit_labelled(data, warn_of_absent=False)

    def refitted(self, calibrator: Part, sample: LabelledPredictions) -> Part:
        """Return a copy that is fitted to the sample alone."""
        fitted: Part = clone(calibrator)
        self.fit_rows(fitted, sample, sampled=True)
        return fitted

    def degrees_of_freedom(self, calibrator: Any, n_approximate: int, n_rows: float) -> float:  # noqa: ARG002
        """Return the effective degrees of freedom of a fit to ``n_rows`` rows; a penalty reduces them."""
        return float(n_approximate)


def partial_fit(
    calibrator: Part, X: Any, y: Any, sample_weight: Any, classes: Any, half_life: float | None
) -> Part:
    """Learn from one more batch; see :meth:`calibrant.Calibrator.partial_fit`."""
    summary = _summary_of(calibrator)
    check_half_life(half_life)
    summary.check(calibrator)
    past = vars(calibrator).get("memory_", {})
    _check_same_parameters(calibrator, past.get("parameters", {}))
    if np.shape(X)[:1] == (0,) and np.shape(y)[:1] == (0,):
        return calibrator
    data = _parsed_batch(calibrator, X, y, sample_weight, classes)
    if data is None:
        return calibrator
    kept = 1.0 if half_life is None else 0.5 ** (data.n_rows / half_life)
    before = dict(vars(calibrator))
    try:
        with held_back() as notices:
            learn_batch(calibrator, data, kept)
            beside = _sampled(calibrator, past, data, kept)
        kinds = sorted({_kind_of(notice) for notice in notices})
        calibrator.memory_ = (
            calibrator.memory_ | beside | {"parameters": _parameters(calibrator), "notices": kinds}
        )
    except BaseException:
        calibrator.__dict__.clear()
        calibrator.__dict__.update(before)
        raise
    for notice in notices:
        if _kind_of(notice) not in past.get("notices", ()):
            warn_user(*notice)
    return calibrator


def learn_batch(calibrator: "Calibrator", data: LabelledPredictions, kept: float) -> None:
    """Learn from a parsed batch; the weight of earlier rows is multiplied by ``kept``."""
    memory = vars(calibrator).get("memory_", {"rows": 0.0})
    n_rows = memory["rows"] * kept + data.n_rows
    if memory["rows"] and "labels" not in memory:
        _summary_of(calibrator).update(calibrator, data, kept, n_rows)
    else:
        learn_rows(calibrator, _followed_by(memory, data, kept), n_rows)


def learn_rows(calibrator: "Calibrator", data: LabelledPredictions, n_rows: float) -> None:
    """Fit all rows so far, and keep them if they are few or cannot be condensed."""
    summary = _summary_of(calibrator)
    many, sampled = data.n_rows > ROWS_AT_HAND, vars(calibrator).get("memory_", {}).get("sampled", False)
    one_class = np.count_nonzero(data.class_weights) < 2
    if one_class:
        if many:
            data, sampled = _thinned(data), True
        calibrator._set_inputs(data)
    else:
        summary.fit_rows(calibrator, data, sampled=sampled)
        most = summary.most_rows(data.n_classes) if many else ROWS_AT_HAND
        if many and summary.condenses(calibrator, data):
            _warn_of_late(calibrator, data)
            floored = replace(data, predictions=data.predictions.with_floor(calibrator.floor_))
            summary.condense(calibrator, floored, n_rows, sampled=sampled)
            return
        if data.n_rows > most:
            data = replace(data, predictions=data.predictions.with_floor(calibrator.floor_))
            data, sampled = _thinned(data, most // 2), True
    calibrator.memory_ = _stored(data) | {"rows": float(n_rows), "waits": one_class, "sampled": sampled}


# Calibrators that are parts of another one


def check_learns_batches(parts: Mapping[str, Any], example: str) -> None:
    """Refuse calibrators without ``partial_fit`` among these parameters, and their invalid parts and parameters."""
    for name, part in parts.items():
        if not hasattr(part, "fit_labelled"):
            continue
        if part.batches is None:
            raise ParameterError(
                f"{name} is {part!r}, which cannot learn batch by batch; use fit with all rows, or a calibrator with "
                f"partial_fit, such as {example}."
            )
        part._check_parameters()
        inner = part.get_params(deep=False)
        check_learns_batches({f"{name}__{key}": value for key, value in inner.items()}, example)


def started_learner(part: Part, data: LabelledPredictions, n_rows: float) -> Part:
    """Return a clone that has learnt these rows, which count as ``n_rows``; without warnings, given by an earlier fit."""
    learnt: Part = clone(part)
    with held_back():
        learn_rows(learnt, data, n_rows)
    learnt.memory_ = learnt.memory_ | _sampled(learnt, {}, data, 1.0)
    return learnt


def updated_learner(part: Part, data: LabelledPredictions, kept: float) -> Part:
    """Return a copy that has learnt another batch; the weight of its earlier rows is multiplied by ``kept``.

    Like a separate calibrator it is regularly compared with a sample of its rows. The argument is not changed.
    """
    learnt = copy(part)
    learn_batch(learnt, data, kept)
    learnt.memory_ = learnt.memory_ | _sampled(learnt, vars(part).get("memory_", {}), data, kept)
    return learnt


def without_batch_state(part: Part) -> Part:
    """Return the same map without its summary of earlier batches."""
    stripped = copy(part)
    if "memory_" in vars(part):
        del stripped.memory_
    return stripped


# The sample beside an approximate summary


def _sampled(
    calibrator: "Calibrator", past: dict[str, Any], data: LabelledPredictions, kept: float
) -> dict[str, Any]:
    """Return a sample of all rows to keep beside the summary; if the sample rejects the map, refit the map to it."""
    summary = _summary_of(calibrator)
    n_approximate = summary.n_approximate(calibrator, data.n_classes)
    if "labels" in calibrator.memory_ or not n_approximate:
        return {}
    sample = _followed_by(past if "labels" in past else past.get("sample", {}), data, kept)
    sample = replace(sample, predictions=sample.predictions.with_floor(calibrator.floor_))
    if sample.n_rows > most_rows(data.n_classes):
        sample = _thinned(sample)
    unchecked = past.get("unchecked", 0) + data.n_rows
    # After the weights of all other classes have decayed to zero, a single class allows no comparison.
    comparable = "sample" in past and np.count_nonzero(sample.class_weights) > 1
    if comparable and _is_due(calibrator, sample, unchecked):
        unchecked = 0
        if _is_rejected(calibrator, sample, n_approximate):
            n_rows = calibrator.memory_["rows"]
            summary.fit_rows(calibrator, sample, sampled=True)
            if not summary.condenses(calibrator, sample):
                calibrator.memory_ = _stored(sample) | {"rows": n_rows, "waits": False, "sampled": True}
                return {}
            summary.condense(calibrator, sample, n_rows, sampled=True)
    return {"sample": _stored(sample), "unchecked": unchecked}


def _is_due(calibrator: "Calibrator", sample: LabelledPredictions, unchecked: int) -> bool:
    if unchecked >= _summary_of(calibrator).rows_between_checks:
        return True
    return calibrator.traits.contains_identity and (
        sample.log_loss(calibrator.transform(sample.predictions))
        > sample.log_loss(sample.predictions.without_zeros())
    )


def _is_rejected(calibrator: "Calibrator", sample: LabelledPredictions, n_approximate: int) -> bool:
    """Return whether a fit of the sample beats the map on the sample by more than sampling error."""
    excess, explained = _excess_on(calibrator, sample, n_approximate)
    return excess > explained


def _excess_on(
    calibrator: "Calibrator", sample: LabelledPredictions, n_approximate: int
) -> tuple[float, float]:
    r"""Return the excess loss over a fit of the sample, in nats per row, and its limit by sampling error.

    On a sample of m rows, twice the log-likelihood ratio of the sample's own fit and the fit of all rows is chi-squared
    with P degrees of freedom, of mean P and variance 2 P. The limit, :math:`(P + 3 \sqrt{2 P}) / m`, is twice its three-sigma
    bound.
    """
    summary = _summary_of(calibrator)
    with held_back():
        fitted = summary.refitted(calibrator, sample)
    own = sample.log_loss(calibrator.transform(sample.predictions))
    best = sample.log_loss(fitted.transform(sample.predictions))
    n_rows = float(sample.n_rows)
    if sample.weights is not None:
        weights = sample.weights / sample.weights.max()
        n_rows = float(weights.sum() ** 2 / (weights @ weights))
    freedom = summary.degrees_of_freedom(calibrator, n_approximate, n_rows)
    return own - best, float(freedom + 3 * np.sqrt(2 * freedom)) / n_rows


def batch_summary(calibrator: "Calibrator") -> BatchSummary:
    """Return size and error of the summary of earlier batches; see :meth:`calibrant.Calibrator.batch_summary`."""
    summary, memory = _summary_of(calibrator), vars(calibrator).get("memory_")
    if memory is None:
        raise NotFittedError(
            f"{type(calibrator).__name__} has learnt no batches; call partial_fit before batch_summary."
        )
    n_bytes = _n_bytes(memory) + sum(_n_bytes(part) for part in summary.parts(calibrator))
    kept = memory if "labels" in memory else memory.get("sample", {})
    n_kept = len(kept.get("labels", ()))
    error = explained = np.nan
    if kept is memory:
        # The kept rows themselves were fitted. If they are a sample, its error is unknown.
        error = explained = np.nan if memory["sampled"] else 0.0
    elif n_kept:
        data = _rows_of(kept)
        if np.count_nonzero(data.class_weights) > 1:
            error, explained = _excess_on(calibrator, data, summary.n_approximate(calibrator, data.n_classes))
    return BatchSummary(float(memory["rows"]), n_kept, n_bytes, error, explained)


def _n_bytes(value: Any) -> int:
    """Return the size of all arrays in a state, including those of its calibrators."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, Mapping):
        return sum(map(_n_bytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_n_bytes, value))
    return _n_bytes(vars(value).get("memory_", {})) if hasattr(value, "fit_labelled") else 0


def _warn_of_late(calibrator: "Calibrator", data: LabelledPredictions) -> None:
    late = calibrator.classes_[data.class_weights == 0].tolist()
    if late:
        shown = ", ".join(map(repr, late[:SHOWN])) + (
            f" and {len(late) - SHOWN} more" if late[SHOWN:] else ""
        )
        warn_user(
            f"no row of class {shown} among the first {data.n_rows}; estimates from earlier batches will not be revised "
            "for it.",
            MissingClassWarning,
        )


# Rows that are kept: all of them while they are few, later a sample


def most_rows(n_classes: int) -> int:
    """Return the largest number of rows that are kept: with many classes a few of each."""
    return max(ROWS_AT_HAND, 3 * n_classes)


def _stored(data: LabelledPredictions) -> dict[str, Any]:
    """Return rows as plain arrays, which a file can hold."""
    predictions = data.predictions
    return {
        "scores": np.array(predictions.scores),
        "space": predictions.space.value,
        "names": predictions.classes,
        "floor": predictions.declared_floor,
        "labels": data.labels,
        "classes": data.classes,
        "weights": data.weights,
    }


def _rows_of(memory: dict[str, Any]) -> LabelledPredictions:
    """Return the rows that :func:`_stored` stored."""
    predictions = Predictions(memory["scores"], Space(memory["space"]), memory["names"], memory["floor"])
    return LabelledPredictions(predictions, memory["labels"], memory["classes"], memory["weights"])


def _followed_by(memory: dict[str, Any], data: LabelledPredictions, kept: float) -> LabelledPredictions:
    """Return stored rows, with weights multiplied by ``kept``, followed by a batch; only the batch if none are stored."""
    if "labels" not in memory:
        return data
    stored = _rows_of(memory)
    predictions = replace(stored.predictions, scores=np.vstack([memory["scores"], data.predictions.scores]))
    weights = None
    if kept < 1 or memory["weights"] is not None or data.weights is not None:
        old = np.ones(len(memory["labels"])) if memory["weights"] is None else memory["weights"]
        new = np.ones(data.n_rows) if data.weights is None else data.weights
        weights = np.concatenate([old * kept, new])
    together = LabelledPredictions(
        predictions, np.concatenate([memory["labels"], data.labels]), memory["classes"], weights
    )
    # Weights may have decayed to zero.
    return together if weights is None or weights.min() > 0 else together.take(weights > 0)


def _thinned(data: LabelledPredictions, size: int = ROWS_AT_HAND // 2) -> LabelledPredictions:
    """Return a stratified sample of about ``size`` rows, in their order; every class keeps its total weight.

    Systematic sampling: each class is cut into parts of equal weight, and one random row is drawn from each part. The seed
    is a checksum of the labels: equal rows give equal samples, and so do scores that differ in the last digit, as those of
    one class against the rest do between processors. Every class keeps at least one row; rare classes are over-sampled, with
    smaller weights. Costs O(n + K).
    """
    n_classes = data.n_classes
    weights = np.ones(data.n_rows) if data.weights is None else data.weights
    size = max(size, n_classes)
    totals, counts = data.class_weights, np.bincount(data.labels, minlength=n_classes)
    sizes = np.maximum(size * totals / totals.sum(), max(1, size // (4 * n_classes))).astype(np.intp)
    sizes = np.minimum(sizes, counts)
    generator = np.random.default_rng(crc32(data.labels.astype("<i8").tobytes()))
    order = np.argsort(data.labels, kind="stable")
    chosen: list[NDArray[np.intp]] = []
    for own, n_chosen in zip(np.split(order, np.cumsum(counts)[:-1]), sizes, strict=True):
        mass = np.cumsum(weights[own])
        if n_chosen:
            places = (np.arange(n_chosen) + generator.random(n_chosen)) / n_chosen * mass[-1]
            chosen.append(own[np.minimum(np.searchsorted(mass, places, "right"), len(own) - 1)])
    rows = np.sort(np.concatenate(chosen))
    of_row = data.labels[rows]
    return data.take(rows, totals[of_row] / sizes[of_row])


# Parameters and inputs of a batch


def _summary_of(calibrator: "Calibrator") -> Summary:
    if calibrator.batches is None:
        raise ParameterError(
            f"{type(calibrator).__name__} cannot learn batch by batch; use fit with all rows."
        )
    return calibrator.batches


def _parameters(calibrator: "Calibrator") -> dict[str, str]:
    parameters = calibrator.get_params(deep=False)
    return {name: ADDRESS.sub("", repr(value)) for name, value in parameters.items()}


def _check_same_parameters(calibrator: "Calibrator", first: dict[str, str]) -> None:
    now = _parameters(calibrator)
    for name, value in first.items():
        if now.get(name) != value:
            raise ParameterError(
                f"{name} changed from {value} to {now.get(name)} between batches; restore it, or start a new calibrator "
                "with clone()."
            )


def _parsed_batch(
    calibrator: "Calibrator", X: Any, y: Any, sample_weight: Any, classes: Any
) -> LabelledPredictions | None:
    """Return the rows of a batch that count; None if there are none."""
    name = type(calibrator).__name__
    if "memory_" not in vars(calibrator):
        if "classes_" in vars(calibrator):
            raise ParameterError(
                f"{name} was fitted by fit, which keeps no summary of its rows; start with partial_fit on a clone of it."
            )
        predictions = Predictions.parse(X)
        if classes is not None:
            predictions = replace(predictions, classes=_labels_of(classes, predictions.n_classes))
        if calibrator.traits.binary_only and predictions.n_classes != 2:
            raise PredictionError(f"{name} takes two classes, but there are {predictions.n_classes}.")
        batch = LabelledPredictions.parse_batch(predictions, y, sample_weight)
        return None if batch is None else batch.with_bounded_weights()
    predictions = calibrator._parsed(X)
    if predictions.space != calibrator.space_:
        raise PredictionError(
            f"the first batch was {calibrator.space_}, but these predictions are {predictions.space.value}; "
            "pass the same kind every time."
        )
    known = calibrator.classes_
    if classes is not None and not np.array_equal(_labels_of(classes, len(known)), known):
        raise LabelError(f"classes must be those of the first batch, {known.tolist()}, not {classes!r}.")
    # Column numbers need no names, and give clearer errors without.
    numbers = np.array_equal(known, np.arange(len(known)))
    named = replace(predictions, classes=None if numbers else known)
    data = LabelledPredictions.parse_batch(named, y, sample_weight)
    if data is None:
        return None
    if not np.array_equal(data.classes, known):
        raise LabelError(
            f"labels must be among those of the first batch, {known.tolist()}, but are {data.classes.tolist()}."
        )
    return data.with_bounded_weights()


def _labels_of(classes: Any, n_classes: int) -> NDArray[Any]:
    names = np.asarray(classes)
    if names.dtype.kind == "O" and all(isinstance(name, str) for name in names):
        names = names.astype(str)
    if names.shape != (n_classes,) or len(np.unique(names)) != n_classes:
        raise ParameterError(
            f"classes must be {n_classes} different labels, one per column, but are {classes!r}."
        )
    return names


def _kind_of(notice: Notice) -> str:
    """Return the text of a warning with its numbers masked."""
    return re.sub("[0-9]+", "#", notice[0])

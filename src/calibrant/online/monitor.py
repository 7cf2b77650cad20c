"""CalibrationMonitor: sequential test of calibration on a stream, with a guaranteed false alarm rate."""

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np

from calibrant.arrays import Vector
from calibrant.errors import LabelError, ParameterError, PredictionError, WeightError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.online.e_process import About, EProcess, Kind, e_processes
from calibrant.online.event_stream import as_rows, check_order, is_empty
from calibrant.options import check_choice, check_floor, check_share, is_number, real_array
from calibrant.predictions import Predictions
from calibrant.presentation.sentences import counted

__all__ = ["CalibrationMonitor"]


Target = Literal["auto", "event", "top-label", "classes"]

# Number of alternatives, times rows and events, processed at a time.
BLOCK = 2**19


class CalibrationMonitor:
    r"""Monitor the calibration of a stream of forecasts, and raise an alarm when it is lost (anytime-valid e-process).

    The null hypothesis is that forecasts are calibrated given the past,

    .. math:: \mathbb{E}[y_t \mid p_t, \text{past}] = p_t.

    The e-value :math:`M_t` is a mixture of likelihood ratios against this hypothesis, of many alternatives: over- or
    underconfident, too high or too low, for all forecasts or in one part of their range (testing by betting). While
    forecasts are calibrated it is a non-negative martingale that starts at 1, and Ville's inequality bounds the probability
    that it *ever* becomes large, for a stream of any length and at any time of looking :cite:`ramdas2023,waudby2024`:

    .. math:: P\Bigl(\sup_t M_t \ge \frac1\alpha\Bigr) \le \alpha.

    Parameters
    ----------
    kind : {"any-time", "change"}, default="any-time"
        ``"any-time"`` tests whether forecasts are calibrated from the first row on. ``"change"`` is for a stream that
        is expected to be calibrated for a long time and to change at some point: every alternative restarts with every
        row, so that earlier rows do not delay the alarm.
    alpha : float, default=0.05
        Maximum probability of ever raising a false alarm, for ``"any-time"``.
    run_length : float, default=100_000
        Minimum mean number of rows up to a false alarm, for ``"change"``. The probability of one within T rows is at
        most T divided by this number.
    target : {"auto", "event", "top-label", "classes"}, default="auto"
        What to monitor: the second of two classes; whether the predicted class is right as often as its confidence
        says; or that and every class separately. ``"auto"`` is ``"event"`` for two classes and ``"classes"`` for more.
    classes : sequence of K labels, optional
        Labels of the columns. Needed if labels are not column numbers and some batches may lack some of them.
    floor : float, default=1e-3
        Alternatives clip forecasts to this distance from 0 and 1. The guarantee does not depend on it; without it a
        single outcome with forecast zero would raise an alarm. Use a smaller value if events are rare and forecasts of
        that size matter.

    Attributes
    ----------
    alarm : bool
        Whether an alarm was raised; it remains until :meth:`restart`.
    alarm_row : int or None
        Number of the row, from zero and over all batches, whose outcome raised the alarm.
    evidence : float
        Logarithm of the current e-value.
    threshold : float
        Evidence at which an alarm is raised: the logarithm of 1 / alpha, or of the run length.
    p_value : float
        Anytime-valid p-value: one over the largest e-value so far, at most one; for ``"any-time"``.
    n_rows : int
        Number of rows so far.

    Notes
    -----
    *Alternatives.* Each likelihood ratio is that of :math:`\sigma(a z + b)` against p with the log-odds z, for 36 pairs
    (a, b) for all forecasts and six shifts in each of ten bins. They are mixed with fixed prior weights (those of bins
    multiplied), so nothing has to be selected or corrected for multiple testing. With ``"classes"`` half of the weight is
    on the predicted class, the rest on ten alternatives for each class.

    *Change.* The mixture of the restarted likelihood ratios, :math:`R_t = (R_{t-1} + 1) L_t` for each, is the
    Shiryaev-Roberts e-detector of :cite:`shin2023`. :math:`R_t - t` is a martingale while forecasts are calibrated, from
    which both guarantees follow.

    *Weights.* A weight w from 0 to 1 that is known before the outcome replaces the likelihood ratio L of its row by
    :math:`1 + w (L - 1)`, which preserves the guarantee. Larger weights would count one observation several times, and
    raise an error.

    *Delayed or missing labels* are allowed as long as the order of rows does not depend on the outcomes.

    Costs O(n) for an event, O(nK) with classes, in blocks of rows; memory is constant, about a hundred numbers plus ten
    per class.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> p = generator.beta(2, 2, 3000)
    >>> y = generator.random(3000) < p
    >>> CalibrationMonitor().update(y, p).alarm
    False
    >>> monitor = CalibrationMonitor().update(y, 1 / (1 + (1 / p - 1) ** 2))       # log-odds doubled
    >>> monitor.alarm, monitor.alarm_row
    (True, 106)
    >>> print(monitor.explain())
    Calibration is lost: alarm at row 107 of 3000 (counted from 1), where the e-value first reached 1 / alpha = 20; the
    probability of ever raising a false alarm is at most 0.05. Best supported alternative: forecasts of the event are
    overconfident (too close to 0 and 1).
    """

    def __init__(
        self,
        kind: Kind = "any-time",
        *,
        alpha: float = 0.05,
        run_length: float = 100_000,
        target: Target = "auto",
        classes: Any = None,
        floor: float = 1e-3,
    ) -> None:
        check_choice("kind", kind, ("any-time", "change"))
        check_share("alpha", alpha, 0.05)
        if not is_number(run_length) or not 1 < run_length < np.inf:
            raise ParameterError(f"run_length must be a number of rows above 1, not {run_length!r}.")
        check_choice("target", target, ("auto", "event", "top-label", "classes"))
        check_floor(floor, 1e-3)
        self.kind, self.alpha, self.run_length = kind, float(alpha), float(run_length)
        self.target, self.floor = target, float(floor)
        self.threshold = float(-np.log(alpha) if kind == "any-time" else np.log(run_length))
        self._classes = None if classes is None else np.asarray(classes)
        self._processes: list[EProcess] = []
        self.restart()

    def restart(self) -> Self:
        """Discard all rows and the alarm, for example after a recalibration, and return self."""
        self.n_rows = 0
        self.alarm_row: int | None = None
        self.evidence = 0.0 if self.kind == "any-time" else -np.inf
        self._largest = self.evidence
        self._finding = ""
        if self._processes:
            self._processes = self._fresh()
        return self

    @property
    def alarm(self) -> bool:
        """Whether an alarm was raised."""
        return self.alarm_row is not None

    @property
    def p_value(self) -> float:
        """One over the largest e-value so far, at most one."""
        if self.kind != "any-time":
            raise ParameterError(
                "only kind='any-time' has a p-value; for kind='change' use evidence and threshold."
            )
        return float(np.exp(-max(self._largest, 0.0)))

    def update(self, y_true: Any, y_proba: Any, sample_weight: Any = None) -> Self:
        """Add a batch of rows in order, possibly empty, and return self; an invalid batch changes nothing.

        Outcomes are the first argument, as in all metrics; :class:`OnlinePlatt` and other calibrators take forecasts first.

        Parameters
        ----------
        y_true : array of shape (n,), or one label
            Outcomes: true classes, or whether the event occurred.
        y_proba : array of shape (n, K), (n,), Predictions or float
            Probabilities as forecast, before the outcomes were known.
        sample_weight : array of shape (n,), optional
            Numbers from 0 to 1 that do not depend on the outcome of their row; see the notes.
        """
        if is_empty(y_proba, y_true):
            return self
        data = self._parsed(as_rows(y_true), as_rows(y_proba))
        weights = None if sample_weight is None else _parsed_weights(sample_weight, data.n_rows)
        self._classes = data.classes
        if not self._processes:
            self._processes = self._fresh()
        p, y = self._events(data)
        n_alternatives = sum(process.logarithms.size for process in self._processes)
        size = max(1, BLOCK // n_alternatives)
        for start in range(0, data.n_rows, size):
            rows = slice(start, start + size)
            self._advance(
                {about: column[rows] for about, column in p.items()},
                {about: column[rows] for about, column in y.items()},
                None if weights is None else weights[rows],
            )
        return self

    def explain(self) -> str:
        """Return a sentence with the result, its guarantee, and the best supported alternative."""
        if self.kind == "any-time":
            limit, growth = (
                f"1 / alpha = {1 / self.alpha:g}",
                "for calibrated forecasts its mean is 1",
            )
            promise = f"the probability of ever raising a false alarm is at most {self.alpha:g}"
        else:
            limit, growth = (
                f"the run length {self.run_length:g}",
                "for calibrated forecasts its mean is the number of rows",
            )
            promise = f"false alarms are at least {self.run_length:g} rows apart on average"
        if self.alarm_row is None:
            share = np.exp(self.evidence - self.threshold)
            return (
                f"No alarm in {counted(self.n_rows, 'row')}: the e-value is {np.exp(self.evidence):.3g}, {share:.2g} of the "
                f"alarm threshold, {limit}; {growth}, and {promise}."
            )
        return (
            f"Calibration is lost: alarm at row {self.alarm_row + 1} of {self.n_rows} (counted from 1), where the e-value "
            f"first reached {limit}; {promise}. Best supported alternative: {self._finding}."
        )

    def state(self) -> dict[str, Any]:
        """Return the state as plain numbers, strings and lists, for :meth:`from_state`."""
        return {
            "kind": self.kind,
            "alpha": self.alpha,
            "run_length": self.run_length,
            "target": self.target,
            "floor": self.floor,
            "classes": None if self._classes is None else self._classes.tolist(),
            "n_rows": self.n_rows,
            "alarm_row": self.alarm_row,
            "evidence": _plain(self.evidence),
            "largest": _plain(self._largest),
            "opinion": self._finding,
            "capitals": [
                [_plain(value) for value in process.logarithms.ravel().tolist()]
                for process in self._processes
            ],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Restore a state returned by :meth:`state`."""
        names = ("kind", "alpha", "run_length", "target", "classes", "floor")
        if not isinstance(state, dict) or not {*names, "capitals"} <= set(state):
            raise ParameterError("this is not a state of a CalibrationMonitor.")
        made = cls(**{name: state[name] for name in names})
        made.n_rows, made.alarm_row = int(state["n_rows"]), state["alarm_row"]
        made.evidence, made._largest = _from_plain([state["evidence"], state["largest"]]).tolist()
        made._finding = str(state["opinion"])
        if state["capitals"]:
            made._processes = made._fresh()
            for process, logarithms in zip(made._processes, state["capitals"], strict=True):
                process.logarithms = _from_plain(logarithms).reshape(process.logarithms.shape)
        return made

    def __repr__(self) -> str:
        found = f"alarm_row={self.alarm_row}" if self.alarm else "no alarm"
        return f"CalibrationMonitor({self.kind!r}, {self.n_rows} rows, {found})"

    def _about(self) -> About:
        n_classes = 2 if self._classes is None else len(self._classes)
        if self.target == "auto":
            return "event" if n_classes == 2 else "class"
        if self.target == "event" and n_classes != 2:
            raise PredictionError(
                f"target='event' monitors the second of two classes, but there are {n_classes}; use 'classes'."
            )
        return "class" if self.target == "classes" else self.target

    def _fresh(self) -> list[EProcess]:
        return e_processes(self._about(), 2 if self._classes is None else len(self._classes), self.kind)

    def _events(self, data: LabelledPredictions) -> tuple[dict[str, Vector], dict[str, Vector]]:
        """Return forecasts and outcomes, (n, S), of all monitored events."""
        p = data.predictions.probabilities.astype(np.float64, copy=False)
        predicted = data.predictions.predicted
        about = self._about()
        if about == "event":
            return {"event": p[:, 1:]}, {"event": (data.labels == 1)[:, np.newaxis].astype(np.float64)}
        top = np.minimum(p[np.arange(len(p)), predicted], 1.0)[:, np.newaxis]
        right = (predicted == data.labels)[:, np.newaxis].astype(np.float64)
        if about == "top-label":
            return {"top-label": top}, {"top-label": right}
        occurred = (data.labels[:, np.newaxis] == np.arange(data.n_classes)).astype(np.float64)
        return {"top-label": top, "class": np.minimum(p, 1.0)}, {"top-label": right, "class": occurred}

    def _advance(self, p: dict[str, Vector], y: dict[str, Vector], weights: Vector | None) -> None:
        paths = [
            process.advance(p[process.about], y[process.about], weights, self.floor)
            for process in self._processes
        ]
        total = np.logaddexp.reduce([path.total for path in paths], axis=0)
        reached = np.flatnonzero(total >= self.threshold)
        if not self.alarm and len(reached):
            row = int(reached[0])
            self.alarm_row = self.n_rows + row
            best = max(range(len(paths)), key=lambda index: float(paths[index].of_alternatives[row].max()))
            event, number = np.unravel_index(
                paths[best].of_alternatives[row].argmax(), paths[best].of_alternatives[row].shape
            )
            self._finding = described_alternative(
                self._processes[best], int(event), int(number), self._classes
            )
        self.evidence = float(total[-1])
        self._largest = max(self._largest, float(total.max()))
        self.n_rows += len(total)

    def _parsed(self, y_true: Any, y_proba: Any) -> LabelledPredictions:
        check_order(y_true, "update(y_true, y_proba), outcomes first")
        predictions = Predictions.parse(y_proba)
        known = self._classes
        if known is not None and len(known) != predictions.n_classes:
            raise PredictionError(
                f"there were {len(known)} classes so far, but these predictions have {predictions.n_classes} columns."
            )
        if known is not None and not np.array_equal(known, np.arange(len(known))):
            predictions = replace(predictions, classes=known)
        data = LabelledPredictions.parse(predictions, y_true)
        if known is not None and not np.array_equal(data.classes, known):
            raise LabelError(f"labels must be among {known.tolist()}, but are {data.classes.tolist()}.")
        return data


def _parsed_weights(sample_weight: Any, n_rows: int) -> Vector:
    weights = real_array(sample_weight)
    if weights is None or weights.shape != (n_rows,):
        raise WeightError("sample_weight must be numbers, one per row.")
    if not ((weights >= 0) & (weights <= 1)).all():
        raise WeightError(
            "sample_weight must lie between 0 and 1, since one observation must not count several times; divide all weights "
            "by their largest possible value."
        )
    return weights


def _plain(logarithm: float) -> float | None:
    """Return minus infinity as None, since JSON has no infinity."""
    return None if np.isneginf(logarithm) else float(logarithm)


def _from_plain(logarithms: list[float | None]) -> Vector:
    return np.array([-np.inf if value is None else value for value in logarithms], dtype=np.float64)


# Confidence at which an alternative for the predicted class is evaluated.
CONFIDENT = 0.8


def described_alternative(process: EProcess, event: int, number: int, classes: Any) -> str:
    """Return an alternative in words: what is wrong with the forecasts if it is true.

    >>> from calibrant.online.e_process import e_processes
    >>> described_alternative(e_processes("top-label", 3, "any-time")[0], 0, 0, [0, 1, 2])
    'the classifier is overconfident: its predicted class is right less often than its confidence says'
    """
    alternatives = process.alternatives
    slope, shift = float(alternatives.slope[number]), float(alternatives.shift[number])
    if np.isfinite(alternatives.high[number]) or alternatives.low[number] > 0:
        between = f"between {alternatives.low[number]:g} and {min(alternatives.high[number], 1.0):g}"
        often = "less often" if shift < 0 else "more often"
        if process.about == "top-label":
            too = "overconfident" if shift < 0 else "underconfident"
            return f"the classifier is {too} at confidences {between}: it is right {often} than they say"
        return f"the event occurs {often} than forecasts {between} say"
    if process.about == "top-label":
        log_odds = slope * np.log(CONFIDENT / (1 - CONFIDENT)) + shift
        if log_odds < np.log(CONFIDENT / (1 - CONFIDENT)):
            return "the classifier is overconfident: its predicted class is right less often than its confidence says"
        return "the classifier is underconfident: its predicted class is right more often than its confidence says"
    subject = "the event" if process.about == "event" else f"class {np.asarray(classes)[event].item()!r}"
    parts = []
    if slope != 1:
        too = "overconfident (too close to 0 and 1)" if slope < 1 else "underconfident (too far from 0 and 1)"
        parts.append(f"forecasts of {subject} are {too}")
    if shift != 0:
        often = "less often" if shift < 0 else "more often"
        parts.append(f"{subject} occurs {often} than forecast")
    return ", and ".join(parts)

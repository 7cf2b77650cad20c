"""Multicalibration: boosted corrections of the logits of segments, kept only if held-out rows confirm them."""

import json
import os
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import AnyArray, Float64Array, FloatArray, IntArray
from calibrant.errors import FileFormatError, PredictionError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.simplex import log_softmax
from calibrant.options import check_share, check_whole, random_source
from calibrant.persistence.replacing import replacing
from calibrant.predictions import Predictions
from calibrant.segments import Segments, side_columns

__all__ = ["Multicalibration"]

FORMAT = "calibrant multicalibration"
SCHEMA_VERSION = 1
SCORE = "confidence"
"""Name of the side column that the predictions themselves define."""

PSEUDO_ROWS = 1.0
"""Added to the information of every segment, so that a few rows move nothing far."""


class Multicalibration(BaseEstimator):  # type: ignore[misc]
    r"""Correct predictions within segments of side columns, such as sex, site or age.

    Every round finds the segment s and class k with the largest

    .. math:: \frac{\bigl( \sum_{i \in s} w_i (y_{ik} - q_{ik}) \bigr)^2}{\sum_{i \in s} w_i \, q_{ik} (1 - q_{ik}) + 1}

    and adds :math:`\eta \sum_{i \in s} w_i (y_{ik} - q_{ik}) / (\sum_{i \in s} w_i \, q_{ik} (1 - q_{ik}) + 1)`, a damped Newton
    step of the log-loss, to the logit of k in all rows of s: boosting over segments, in the manner of
    :cite:`hebertjohnson2018`. The number of rounds is the one with the lowest cross-validated log-loss. If the gain is less than
    its standard error, no round is made and the predictions stay as they are.

    Parameters
    ----------
    depth : int, default=1
        Largest number of columns that are crossed.
    n_quantiles : int, default=4
        Number of segments of a column of numbers.
    score_bins : int, default=4
        Segments are also crossed with this many quantiles of the confidence (of the probability of the second class, for two
        classes), so that errors which depend on the score are seen. 1 switches it off.
    min_rows : int, default=30
        Smaller segments are left out.
    learning_rate : float, default=0.5
        Fraction of a Newton step, :math:`\eta`.
    max_rounds : int, default=100
        Largest number of rounds.
    cv : int, default=5
        Number of folds that choose the number of rounds.
    random_state : int, Generator or None, default=0
        Seed of the folds.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    segments_ : Segments
    shifts_ : ndarray of shape (S, K)
        What is added to the logits of the rows of each segment; zeros if the predictions stay as they are.
    n_rounds_ : int
        Number of rounds.
    gain_, gain_error_ : float
        Cross-validated reduction of the log-loss at that number of rounds, and its standard error.

    Notes
    -----
    The map is a table: the logits of a row are moved by the sum of the shifts of its segments. A row with an unknown category
    belongs to no segment of that column. Calibrate first, by any method, then correct the segments.

    Costs one product of the sparse membership matrix with an (n, K) array per round and fold.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> p, site = generator.random(4000), generator.choice(["east", "north"], 4000)
    >>> y = (generator.random(4000) < np.where(site == "north", p**2, p)).astype(int)
    >>> fitted = Multicalibration().fit(p, y, {"site": site})
    >>> p_new = [0.5, 0.5]
    >>> bool(np.diff(fitted.predict_proba(p_new, {"site": ["east", "north"]})[:, 1])[0] < -0.15)  # 0.5 and 0.25
    True
    """

    classes_: AnyArray
    segments_: Segments
    shifts_: Float64Array
    n_rounds_: int
    gain_: float
    gain_error_: float

    def __init__(
        self,
        *,
        depth: int = 1,
        n_quantiles: int = 4,
        score_bins: int = 4,
        min_rows: int = 30,
        learning_rate: float = 0.5,
        max_rounds: int = 100,
        cv: int = 5,
        random_state: Any = 0,
    ) -> None:
        self.depth = depth
        self.n_quantiles = n_quantiles
        self.score_bins = score_bins
        self.min_rows = min_rows
        self.learning_rate = learning_rate
        self.max_rounds = max_rounds
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any, columns: Any, sample_weight: Any = None) -> Self:
        """Learn the corrections from predictions, true classes and side columns.

        Parameters
        ----------
        X : array, frame or Predictions
            Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
        y : array of shape (n,)
            True classes.
        columns : data frame or mapping of str to array of shape (n,)
            Side columns.
        sample_weight : array of shape (n,), optional
            Weights of the rows.
        """
        self._check_parameters()
        predictions = Predictions.parse(X)
        side = side_columns(columns, predictions.n_rows)
        data = LabelledPredictions.parse(predictions, y, sample_weight)
        if sample_weight is not None:
            kept = np.asarray(sample_weight) > 0
            side = {name: values[kept] for name, values in side.items()}
        side = self._with_score(side, data.predictions)
        segments = Segments.of(
            side,
            depth=self.depth + (self.score_bins > 1),
            n_quantiles=max(self.n_quantiles, self.score_bins),
            min_rows=self.min_rows,
        ).at_most(self.depth, besides=SCORE)
        rows = _Rows.of(data, segments.members(side))
        rounds = self._rounds(rows)
        self.n_rounds_, self.gain_, self.gain_error_ = rounds
        self.shifts_ = np.zeros((len(segments.names), data.n_classes))
        for k, s, step in _boosted(rows, self.n_rounds_, self.learning_rate):
            self.shifts_[s, k] += step
        self.segments_, self.classes_ = segments, data.classes
        return self

    def predict_proba(self, X: Any, columns: Any) -> FloatArray:
        """Return the corrected probabilities, (n, K), in the float type of the input."""
        check_is_fitted(self)
        predictions = Predictions.parse(X)
        if predictions.n_classes != len(self.classes_):
            raise PredictionError(
                f"there are {predictions.n_classes} classes, but {len(self.classes_)} in fit; pass the same columns."
            )
        side = side_columns(columns, predictions.n_rows)
        missing = {cut.column for cut in self.segments_.cuts} - side.keys() - {SCORE}
        if missing:
            raise PredictionError(f"side column {min(missing)!r} is missing; pass all columns of the fit.")
        if not self.shifts_.any():
            return np.array(predictions.probabilities)
        members = self.segments_.members(self._with_score(side, predictions))
        logits = predictions.log_probabilities + members.T @ self.shifts_
        corrected: FloatArray = np.exp(log_softmax(logits)).astype(predictions.probabilities.dtype)
        return corrected

    def shifts(self) -> dict[str, NDArray[Any]]:
        """Return the corrections as columns: segment, class and shift of the logit, without zeros, largest first."""
        check_is_fitted(self)
        segment, column = np.nonzero(self.shifts_)
        values = self.shifts_[segment, column]
        order = np.argsort(-np.abs(values), kind="stable")
        names = np.array(self.segments_.names, dtype=object)
        return {
            "segment": names[segment[order]],
            "class": self.classes_[column[order]],
            "shift": values[order],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted corrections as JSON."""
        check_is_fitted(self)
        content = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "parameters": {
                name: value for name, value in self.get_params().items() if name != "random_state"
            },
            "classes": self.classes_.tolist(),
            "segments": self.segments_.to_dict(),
            "shifts": self.shifts_.tolist(),
            "n_rounds": self.n_rounds_,
            "gain": [self.gain_, self.gain_error_],
        }
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1)
        with replacing(path) as stream:
            stream.write(text.encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read fitted corrections that :meth:`save` wrote."""
        where = os.fsdecode(path)
        try:
            with open(path, encoding="utf-8") as stream:
                content = json.load(stream)
            if content["format"] != FORMAT or content["schema_version"] != SCHEMA_VERSION:
                raise FileFormatError(
                    f"{where} holds no corrections of this version of calibrant; save them again."
                )
            fitted = cls(**content["parameters"])
            fitted.classes_ = np.array(content["classes"])
            fitted.segments_ = Segments.from_dict(content["segments"])
            fitted.shifts_ = np.array(content["shifts"], dtype=np.float64)
            fitted.n_rounds_ = int(content["n_rounds"])
            fitted.gain_, fitted.gain_error_ = map(float, content["gain"])
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            if isinstance(error, FileFormatError):
                raise
            raise FileFormatError(f"{where} is damaged or holds no corrections of calibrant.") from error
        shape = (len(fitted.segments_.names), len(fitted.classes_))
        if fitted.shifts_.shape != shape or not np.isfinite(fitted.shifts_).all():
            raise FileFormatError(f"{where} is damaged: its shifts do not fit its segments.")
        return fitted

    def _check_parameters(self) -> None:
        for name in ("depth", "score_bins", "min_rows"):
            check_whole(name, getattr(self, name))
        check_whole("n_quantiles", self.n_quantiles, least=2)
        check_whole("max_rounds", self.max_rounds)
        check_whole("cv", self.cv, least=2)
        if self.learning_rate != 1:
            check_share("learning_rate", self.learning_rate, 0.5)

    def _with_score(self, side: dict[str, AnyArray], predictions: Predictions) -> dict[str, AnyArray]:
        if self.score_bins == 1:
            return side
        p = predictions.probabilities
        return {**side, SCORE: (p[:, 1] if predictions.n_classes == 2 else p.max(axis=1)).astype(np.float64)}

    def _rounds(self, rows: "_Rows") -> tuple[int, float, float]:
        """Return the number of rounds with the lowest held-out log-loss, its gain and the standard error of the gain."""
        n_rows = len(rows.labels)
        fold_of = random_source(self.random_state).permutation(np.arange(n_rows) % self.cv)
        losses = np.empty((self.max_rounds + 1, n_rows))
        for fold in range(min(self.cv, n_rows)):
            held_out = rows.take(np.flatnonzero(fold_of == fold))
            train = rows.take(np.flatnonzero(fold_of != fold))
            logits = held_out.logits.copy()
            losses[:, fold_of == fold] = held_out.losses(logits)
            steps = _boosted(train, self.max_rounds, self.learning_rate)
            for number, (k, s, step) in enumerate(steps, start=1):
                logits[held_out.rows_of(s), k] += step
                losses[number:, fold_of == fold] = held_out.losses(logits)
        weights = rows.weights / rows.weights.sum()
        best = int(np.argmin(losses @ weights))
        gains = losses[0] - losses[best]
        gain = float(weights @ gains)
        error = float(np.sqrt(np.square(weights) @ np.square(gains - gain)))
        return (best, gain, error) if gain > error else (0, 0.0, error)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Logits, labels and weights of rows, and the segments that each belongs to."""

    logits: Float64Array  # (n, K)
    labels: IntArray
    weights: Float64Array
    members: csr_matrix  # (S, n)

    @classmethod
    def of(cls, data: LabelledPredictions, members: csr_matrix) -> Self:
        weights = np.ones(data.n_rows) if data.weights is None else data.weights
        return cls(data.predictions.log_probabilities.astype(np.float64), data.labels, weights, members)

    def take(self, chosen: IntArray) -> Self:
        return type(self)(
            self.logits[chosen], self.labels[chosen], self.weights[chosen], self.members[:, chosen].tocsr()
        )

    def rows_of(self, segment: int) -> IntArray:
        rows: IntArray = self.members.indices[self.members.indptr[segment] : self.members.indptr[segment + 1]]
        return rows

    def losses(self, logits: Float64Array) -> Float64Array:
        chosen = log_softmax(logits)[np.arange(len(self.labels)), self.labels]
        losses: Float64Array = -chosen.astype(np.float64)
        return losses


def _boosted(rows: _Rows, n_rounds: int, learning_rate: float) -> list[tuple[int, int, float]]:
    """Return class, segment and shift of every round."""
    logits, every = rows.logits.copy(), np.arange(len(rows.labels))
    # Of two classes the second one is shifted; a shift of the first would be the same map.
    first = 1 if logits.shape[1] == 2 else 0
    steps = []
    for _ in range(n_rounds):
        q = np.exp(log_softmax(logits))
        information = rows.weights[:, np.newaxis] * q * (1 - q)
        residual = -q
        residual[every, rows.labels] += 1
        residual *= rows.weights[:, np.newaxis]
        gradient = (rows.members @ residual)[:, first:]
        curvature = (rows.members @ information)[:, first:] + PSEUDO_ROWS
        s, column = np.unravel_index(int(np.argmax(gradient**2 / curvature)), gradient.shape)
        step = learning_rate * float(gradient[s, column] / curvature[s, column])
        k = int(column) + first
        logits[rows.rows_of(int(s)), k] += step
        steps.append((k, int(s), step))
    return steps

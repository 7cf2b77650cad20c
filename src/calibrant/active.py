"""Active calibration: choose the rows to label by the posterior uncertainty of a Gaussian process calibrator.

:class:`ActiveCalibration` asks for the labels of a few rows at a time, and stops when the expected excess log-loss is small.
:func:`select_rows` and :func:`excess_log_loss` are its parts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calibrant.arrays import AnyArray, IntArray, Matrix
from calibrant.calibrators import GaussianProcessCalibration
from calibrant.errors import LabelError, ParameterError
from calibrant.notices import held_back
from calibrant.numerics.row_blocks import row_blocks
from calibrant.numerics.simplex import log_softmax
from calibrant.options import check_choice, check_whole, is_number, random_source
from calibrant.predictions import Predictions

__all__ = ["ActiveCalibration", "Round", "excess_log_loss", "select_rows"]

# Draws from the posterior, with common random numbers: rows and rounds are compared without noise between them.
N_DRAWS, SEED = 32, 0

# Slopes of the usual classifiers differ from one by this much, and change over this distance of log-probabilities.
KERNEL = (0.5, 5.0)

Rule = Literal["excess-loss", "information", "entropy", "random"]


def excess_log_loss(calibrator: GaussianProcessCalibration, X: Any) -> NDArray[np.float64]:
    r"""Return the expected excess log-loss per row due to the posterior uncertainty of the calibrator, (n,), in nats.

    This is the expected divergence of the true probabilities from the calibrated ones,

    .. math:: E \, \mathrm{KL}\bigl(\mathrm{softmax}(g_i) \,\|\, \hat q_i\bigr),

    as a mean over 32 draws of the latent function g from its posterior, the same for all rows.

    The mean over a sample of the rows to be predicted is the expected decrease of their log-loss if all labels were known. This
    assumes that the true map is a draw from the prior, with the fitted kernel.

    Parameters
    ----------
    calibrator : GaussianProcessCalibration
        Fitted.
    X : array, frame or Predictions

    Examples
    --------
    >>> from calibrant.synthetic import SyntheticTask
    >>> rows = SyntheticTask().sample(2000, random_state=0)
    >>> few, many = (
    ...     GaussianProcessCalibration().fit(rows.predictions.take(slice(n)), rows.labels[:n]) for n in (100, 2000)
    ... )
    >>> bool(excess_log_loss(few, rows.predictions).mean() > 5 * excess_log_loss(many, rows.predictions).mean())
    True
    """
    predictions = Predictions.parse(X)
    excess = np.zeros(predictions.n_rows)
    for rows in _blocks(calibrator, predictions):
        part = predictions.take(rows)
        logs = _log_probabilities(calibrator, part)
        for drawn, log_drawn in _draws(calibrator, part, logs):
            excess[rows] += np.einsum("nk,nk->n", drawn, log_drawn - logs)
    return np.maximum(excess / N_DRAWS, 0.0)


def select_rows(
    calibrator: GaussianProcessCalibration,
    X: Any,
    n_rows: int,
    *,
    rule: Rule = "excess-loss",
    available: Any = None,
    n_candidates: int = 1000,
    random_state: int | np.random.Generator | None = 0,
) -> IntArray:
    r"""Query strategies: return the indices of the next rows to label, (n_rows,), best first.

    Parameters
    ----------
    calibrator : GaussianProcessCalibration
        Fitted to the labels so far.
    X : array, frame or Predictions
        The pool: predictions for unlabelled rows, a sample of those to be predicted later.
    n_rows : int
        Number of rows to select.
    rule : {"excess-loss", "information", "entropy", "random"}, default="excess-loss"
        ``"excess-loss"`` takes rows one after the other, each where its label is expected to lower the mean of
        :func:`excess_log_loss` over the pool most. ``"information"`` takes the row whose label has the largest mutual
        information with the latent function, to second order. ``"entropy"`` takes the rows with the largest entropy of the
        calibrated probabilities, the usual query strategy for training. ``"random"`` takes random rows.
    available : array of indices or booleans, optional
        Rows that may be chosen; the default is all. The mean is always over the complete pool.
    n_candidates : int, default=1000
        If more rows are available, a random sample of this size is compared.
    random_state : int, Generator or None, default=0
        Source of the candidates.

    Notes
    -----
    The label of a row adds :math:`B_i = \Phi_i^\top E[\mathrm{diag}(q_i) - q_i q_i^\top] \Phi_i` to the precision of the shared
    uncertainty w, see ``posterior_features`` of the calibrator, whatever the label is; the mean is over
    draws of the latent function. The precision is updated after every choice, so that rows with the same information are not
    chosen together. Costs O(m M^3) per chosen row, for m candidates and M inducing points.

    Selection by the predictions leaves the distribution of the labels given the predictions as it is, so the fit is not biased if
    one latent function is right for all rows. If it is not, the fit is best where rows were selected.

    Examples
    --------
    >>> from calibrant.synthetic import SyntheticTask
    >>> rows = SyntheticTask().sample(2000, random_state=0)
    >>> fitted = GaussianProcessCalibration().fit(rows.predictions.take(slice(100)), rows.labels[:100])
    >>> chosen = select_rows(fitted, rows.predictions, 5, available=np.arange(100, 2000))
    >>> len(np.unique(chosen)), bool(chosen.min() >= 100)
    (5, True)
    """
    check_whole("n_rows", n_rows)
    check_whole("n_candidates", n_candidates)
    check_choice("rule", rule, get_args(Rule))
    predictions = Predictions.parse(X)
    indices = np.arange(predictions.n_rows)
    if available is not None:
        indices = np.unique(indices[np.asarray(available)])
    if n_rows > len(indices):
        raise ParameterError(
            f"n_rows must be at most {len(indices)}, the number of available rows, but is {n_rows}."
        )
    generator = random_source(random_state)
    if rule == "random":
        return generator.choice(indices, n_rows, replace=False)
    if len(indices) > max(n_candidates, n_rows):
        indices = np.sort(generator.choice(indices, max(n_candidates, n_rows), replace=False))
    candidates = predictions.take(indices)
    if rule == "entropy":
        logs = _log_probabilities(calibrator, candidates)
        return indices[np.argsort((np.exp(logs) * logs).sum(axis=1), kind="stable")[:n_rows]]
    information = _information(calibrator, candidates)
    wanted = _mean_information(calibrator, predictions) if rule == "excess-loss" else None
    return indices[_greedy(information, wanted, n_rows)]


def _greedy(information: NDArray[np.float64], wanted: Matrix | None, n_rows: int) -> IntArray:
    """Return the best rows one after the other: for the mean loss, or for the log-determinant without ``wanted``."""
    precision = np.eye(information.shape[1])
    left = np.ones(len(information), dtype=np.bool_)
    chosen = np.empty(n_rows, dtype=np.intp)
    for place in range(n_rows):
        after = precision + information
        if wanted is None:
            worth = np.linalg.slogdet(after)[1]
        else:
            worth = -np.einsum("nij,ji->n", np.linalg.inv(after), wanted)
        best = int(np.argmax(np.where(left, worth, -np.inf)))
        chosen[place], left[best] = best, False
        precision = after[best]
    return chosen


def _log_probabilities(calibrator: GaussianProcessCalibration, predictions: Predictions) -> Matrix:
    return np.asarray(calibrator.transform(predictions).log_probabilities, dtype=np.float64)


def _draws(
    calibrator: GaussianProcessCalibration, predictions: Predictions, logs: Matrix
) -> Iterator[tuple[Matrix, Matrix]]:
    """Yield probabilities (n, K) and their logarithms for draws from the posterior, each second one mirrored."""
    features, rest = calibrator.posterior_features(predictions)
    generator, own = np.random.default_rng(SEED), np.sqrt(rest)
    for _ in range(N_DRAWS // 2):
        moved = features @ generator.standard_normal(features.shape[2])
        moved += own * generator.standard_normal(logs.shape[1])
        for sign in (1.0, -1.0):
            drawn = np.asarray(log_softmax(logs + sign * moved), dtype=np.float64)
            yield np.exp(drawn), drawn


def _information(calibrator: GaussianProcessCalibration, predictions: Predictions) -> NDArray[np.float64]:
    """Return the expected information B of the label of every row, (n, R, R)."""
    features, _ = calibrator.posterior_features(predictions)
    total = np.zeros((predictions.n_rows, features.shape[2], features.shape[2]))
    for drawn, _ in _draws(calibrator, predictions, _log_probabilities(calibrator, predictions)):
        centred = features - np.einsum("nk,nkr->nr", drawn, features)[:, np.newaxis]
        total += (centred * drawn[:, :, np.newaxis]).transpose(0, 2, 1) @ centred
    return total / N_DRAWS


def _mean_information(calibrator: GaussianProcessCalibration, predictions: Predictions) -> Matrix:
    blocks = _blocks(calibrator, predictions)
    sums = [_information(calibrator, predictions.take(rows)).sum(axis=0) for rows in blocks]
    mean: Matrix = sum(sums[1:], sums[0]) / predictions.n_rows
    return mean


def _blocks(calibrator: GaussianProcessCalibration, predictions: Predictions) -> list[slice]:
    width = calibrator.posterior_features(predictions.take(slice(1)))[0].shape[2]
    return row_blocks(predictions.n_rows, width * max(width, predictions.n_classes))


@dataclass(frozen=True)
class Round:
    """State of active calibration after a round.

    Attributes
    ----------
    n_labels : int
        Number of labels so far.
    excess_log_loss : float
        Mean of :func:`excess_log_loss` over the pool; infinite before the first fit.
    """

    n_labels: int
    excess_log_loss: float


class ActiveCalibration:
    """Active calibration: label rows of a pool until a Gaussian process calibrator is certain enough.

    The first rows are random. Then :meth:`ask` names the next rows, and :meth:`tell` takes their labels and fits again, until the
    expected excess log-loss is at most ``tolerance``. This is the *active calibration* that :cite:`wenger2020` propose as future
    work: while :attr:`stopped` is false the next labels should go into calibration, afterwards into training.

    Parameters
    ----------
    pool : array, frame or Predictions
        Predictions for unlabelled rows, a sample of those to be predicted later.
    calibrator : GaussianProcessCalibration, optional
        Unfitted; the default is ``GaussianProcessCalibration(kernel=(0.5, 5.0))``. A kernel that is fitted to a few labels may be
        certain of the function, and stop too early.
    rule : {"random", "excess-loss", "information", "entropy"}, default="random"
        How the next rows are selected, see :func:`select_rows`. Selected rows often have less expected excess but not less true
        excess than random rows, see the guide, so the default is the one for which the stopping rule is most reliable.
    n_first : int, default=50
        Number of random rows at first.
    n_per_round : int, default=25
        Number of rows in every later round.
    tolerance : float, default=0.005
        Expected excess log-loss in nats per row at which to stop.
    max_labels : int, optional
        Largest number of labels; the default is the complete pool.
    random_state : int, Generator or None, default=0
        Source of the first rows and of candidates.

    Attributes
    ----------
    rows_ : ndarray of shape (m,)
        Indices of the labelled rows, in their order.
    labels_ : ndarray of shape (m,)
    calibrator_ : GaussianProcessCalibration
        Fitted to all labels so far; set once two classes have been seen.
    history_ : list of Round

    Notes
    -----
    The pool may change, for instance after the classifier was trained again: create a new object, and :meth:`tell` it the labels
    that are known.

    Examples
    --------
    >>> from calibrant.synthetic import SyntheticTask
    >>> rows = SyntheticTask().sample(2000, random_state=0)
    >>> active = ActiveCalibration(rows.predictions, tolerance=0.02)
    >>> while not active.stopped:
    ...     asked = active.ask()
    ...     _ = active.tell(asked, rows.labels[asked])
    >>> len(active.rows_) < 500, active.history_[-1].excess_log_loss <= 0.02
    (True, True)
    >>> active.calibrator_.predict_proba([[0.7, 0.2, 0.1]]).shape
    (1, 3)
    """

    def __init__(
        self,
        pool: Any,
        *,
        calibrator: GaussianProcessCalibration | None = None,
        rule: Rule = "random",
        n_first: int = 50,
        n_per_round: int = 25,
        tolerance: float = 0.005,
        max_labels: int | None = None,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.pool = Predictions.parse(pool)
        if calibrator is None:
            calibrator = GaussianProcessCalibration(kernel=KERNEL)
        self.calibrator = calibrator
        if not isinstance(self.calibrator, GaussianProcessCalibration):
            raise ParameterError(f"calibrator must be a GaussianProcessCalibration, not {calibrator!r}.")
        check_choice("rule", rule, get_args(Rule))
        check_whole("n_first", n_first, least=2)
        check_whole("n_per_round", n_per_round)
        if max_labels is not None:
            check_whole("max_labels", max_labels, least=2)
        if not is_number(tolerance) or not tolerance > 0:
            raise ParameterError(f"tolerance must be a number above 0, such as 0.005, but is {tolerance!r}.")
        self.rule: Rule = rule
        self.n_first, self.n_per_round, self.tolerance = n_first, n_per_round, float(tolerance)
        self.max_labels = self.pool.n_rows if max_labels is None else min(max_labels, self.pool.n_rows)
        self._generator = random_source(random_state)
        self.rows_: IntArray = np.empty(0, dtype=np.intp)
        self.labels_: AnyArray = np.empty(0, dtype=np.intp)
        self.calibrator_: GaussianProcessCalibration | None = None
        self.history_: list[Round] = []

    @property
    def stopped(self) -> bool:
        """Whether the expected excess log-loss is small enough, or no more labels are allowed."""
        if len(self.rows_) >= self.max_labels:
            return True
        return bool(self.history_) and self.history_[-1].excess_log_loss <= self.tolerance

    def ask(self, n_rows: int | None = None) -> IntArray:
        """Return the indices of the rows to label next.

        Parameters
        ----------
        n_rows : int, optional
            Number of rows; the default is ``n_first`` or ``n_per_round``.
        """
        left = np.setdiff1d(np.arange(self.pool.n_rows), self.rows_)
        if n_rows is None:
            n_rows = self.n_per_round if len(self.rows_) else self.n_first
            n_rows = min(n_rows, self.max_labels - len(self.rows_))
        if n_rows < 1 or not len(left):
            raise ParameterError(
                f"{len(self.rows_)} rows are labelled, and no more may be; raise max_labels."
            )
        if self.calibrator_ is None:
            return self._generator.choice(left, min(n_rows, len(left)), replace=False)
        return select_rows(
            self.calibrator_,
            self.pool,
            min(n_rows, len(left)),
            rule=self.rule,
            available=left,
            random_state=self._generator,
        )

    def tell(self, rows: Any, labels: Any) -> Round:
        """Add labels of some rows, refit, and return the state.

        Parameters
        ----------
        rows : array of indices
            Rows of the pool, from :meth:`ask` or others.
        labels : array
        """
        rows, labels = np.asarray(rows, dtype=np.intp).ravel(), np.asarray(labels).ravel()
        if len(rows) != len(labels):
            raise LabelError(f"there are {len(rows)} rows but {len(labels)} labels; pass one label per row.")
        known = np.concatenate([self.rows_, rows])
        if len(np.unique(known)) < len(known) or not ((rows >= 0) & (rows < self.pool.n_rows)).all():
            raise ParameterError(
                f"rows must be different indices from 0 to {self.pool.n_rows - 1} that have no labels yet."
            )
        given = np.concatenate([self.labels_, labels]) if len(self.labels_) else labels
        if len(np.unique(given)) > 1:
            # With few labels, absent classes and fits that keep the identity are usual.
            with held_back():
                fitted: GaussianProcessCalibration = clone(self.calibrator).fit(self.pool.take(known), given)
            self.calibrator_ = fitted
        self.rows_, self.labels_ = known, given
        excess = (
            np.inf if self.calibrator_ is None else float(excess_log_loss(self.calibrator_, self.pool).mean())
        )
        self.history_.append(Round(len(known), excess))
        return self.history_[-1]

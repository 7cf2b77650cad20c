"""Average loss gap: mean difference between predicted and realised loss of Bayes decisions, over many losses."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array, IntArray
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import Evaluator, MetricTraits, metric
from calibrant.numerics.reductions import row_sums
from calibrant.numerics.rounding import SAME_COST
from calibrant.numerics.row_blocks import BlockSums
from calibrant.predictions import Predictions

__all__ = ["average_loss_gap"]

# This number of losses times some hundred rows fits into the L2 cache.
LOSSES_AT_A_TIME = 512
ROWS_AT_LEAST = 128

# Decisions of all rows for all losses are cached between evaluations up to this size.
MAX_CACHE_BYTES = 2**28

# Integers up to this one are exact in float32.
EXACT_IN_FLOAT32 = 2**24


class _Losses:
    """Loss matrices in batches, as differences from their first decision."""

    def __init__(self, matrices: Float64Array) -> None:
        self.first = matrices[:, 0]  # (m, K)
        # Additional loss of another decision compared with the first, (D - 1, K, m).
        self.rises = np.ascontiguousarray((matrices[:, 1:] - matrices[:, :1]).transpose(1, 2, 0))
        self.tolerances = SAME_COST * np.abs(matrices).max(axis=(1, 2))
        self.width = matrices.shape[2] + len(self.rises) * len(matrices)  # floats per row in the working set

    @classmethod
    def in_parts(cls, matrices: Float64Array) -> Iterator[tuple[slice, "_Losses"]]:
        """Yield batches of matrices, each with the slice of its positions."""
        for start in range(0, len(matrices), LOSSES_AT_A_TIME):
            part = slice(start, min(start + LOSSES_AT_A_TIME, len(matrices)))
            yield part, cls(matrices[part])

    def choices(self, block: Float64Array) -> list[Float64Array]:
        """Return for each decision except the first where it is chosen: ones and zeros, (rows, m)."""
        if len(self.rises) == 1:
            return [(block @ self.rises[0] < -self.tolerances).astype(np.float64)]
        increases = np.matmul(block, self.rises)  # (D - 1, rows, m), those of the first decision being zero
        bound = increases.min(axis=0, initial=0.0) + self.tolerances
        undecided = bound < 0
        choices = []
        for increase in increases:
            taken = (increase <= bound) & undecided
            undecided ^= taken
            choices.append(taken.astype(np.float64))
        return choices

    def totals(self, block: Float64Array, choices: list[Float64Array]) -> Float64Array:
        """Return the sum over rows of the loss of the chosen decision, weighted by the class entries of rows."""
        result = self.first @ block.sum(axis=0)
        for rise, chosen in zip(self.rises, choices, strict=True):
            result += np.einsum("km,mk->m", rise, chosen.T @ block)
        return np.asarray(result, dtype=np.float64)


def _gaps(
    predictions: Predictions, labels: IntArray, weights: Float64Array | None, matrices: Float64Array
) -> Float64Array:
    """Return mean predicted minus mean realised loss for every loss matrix, (m,)."""
    gaps = np.empty(len(matrices))
    for part, losses in _Losses.in_parts(matrices):

        def contribution(rows: slice, losses: _Losses = losses) -> Float64Array:
            block = _normalised(predictions, rows)
            choices = losses.choices(block)
            block[np.arange(len(block)), labels[rows]] -= 1
            if weights is not None:
                block *= weights[rows, np.newaxis]
            return losses.totals(block, choices)

        with BlockSums.over(predictions.n_rows, losses.width, min_rows=ROWS_AT_LEAST) as total:
            gaps[part] = total(contribution)
    return gaps / (predictions.n_rows if weights is None else weights.sum())


def _normalised(predictions: Predictions, rows: slice) -> Float64Array:
    """Return rows divided by their sums; otherwise adding a constant to a loss would change the gap."""
    block = predictions.probabilities[rows].astype(np.float64)
    block /= row_sums(block)[:, np.newaxis]
    return block


class _CachedDecisions:
    """The decisions of all rows for all losses, computed on first use.

    They are zeros and ones, which float32 products count exactly, so evaluating other labels gives the same value as a
    direct evaluation in a fraction of the time. Weights would be rounded, so with weights decisions are recomputed.
    """

    def __init__(self, predictions: Predictions, matrices: Float64Array) -> None:
        self.predictions = predictions
        self.matrices = matrices
        n_entries = predictions.n_rows * len(matrices) * (matrices.shape[1] - 1)
        self.fits = 4 * n_entries <= MAX_CACHE_BYTES and predictions.n_rows < EXACT_IN_FLOAT32

    @cached_property
    def _decisions_and_predicted_losses(self) -> tuple[list[NDArray[np.float32]], Float64Array]:
        """Where each decision except the first is chosen, (n, m), and the sum of the predicted losses, (m,)."""
        shape = self.predictions.n_rows, len(self.matrices)
        choices_of_rows = [np.empty(shape, dtype=np.float32) for _ in range(self.matrices.shape[1] - 1)]
        predicted = np.empty(len(self.matrices))
        for part, losses in _Losses.in_parts(self.matrices):

            def contribution(rows: slice, part: slice = part, losses: _Losses = losses) -> Float64Array:
                block = _normalised(self.predictions, rows)
                choices = losses.choices(block)
                for all_rows, chosen in zip(choices_of_rows, choices, strict=True):
                    all_rows[rows, part] = chosen
                return losses.totals(block, choices)

            with BlockSums.over(self.predictions.n_rows, losses.width, min_rows=ROWS_AT_LEAST) as total:
                predicted[part] = total(contribution)
        return choices_of_rows, predicted

    def evaluate(self, labels: IntArray, weights: Float64Array | None) -> float:
        if weights is not None or not self.fits:
            return float(np.abs(_gaps(self.predictions, labels, weights, self.matrices)).mean())
        choices_of_rows, predicted = self._decisions_and_predicted_losses
        n_rows, n_classes = self.predictions.n_rows, self.predictions.n_classes
        occurred = np.zeros((n_rows, n_classes), dtype=np.float32)
        occurred[np.arange(n_rows), labels] = 1
        realised = self.matrices[:, 0] @ np.bincount(labels, minlength=n_classes).astype(np.float64)
        for decision, chosen in enumerate(choices_of_rows, start=1):
            counts = (chosen.T @ occurred).astype(np.float64)  # (m, K)
            realised += np.einsum("mk,mk->m", self.matrices[:, decision] - self.matrices[:, 0], counts)
        return float(np.abs(predicted - realised).mean()) / n_rows


def _prepare(
    predictions: Predictions, n_losses: int, n_decisions: int, losses: Any, random_state: Any
) -> Evaluator:
    _check_options(n_losses, n_decisions, losses, random_state)
    matrices = _matrices(predictions.n_classes, n_losses, n_decisions, losses, random_state)
    return _CachedDecisions(predictions, matrices).evaluate


@metric(MetricTraits(commutes_with_permutations=False), prepare=_prepare)
def average_loss_gap(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    n_losses: int = 500,
    n_decisions: int = 2,
    losses: Any = None,
    random_state: int | np.random.Generator | np.random.RandomState = 0,
) -> float:
    r"""Average loss gap: mean absolute difference, over many losses, between predicted and realised loss.

    .. math::

        \frac{1}{m} \sum_l \Bigl| \frac{1}{W} \sum_i w_i \Bigl( \sum_k p_{ik} \, L_{l \delta_{li} k}
        - L_{l \delta_{li} y_i} \Bigr) \Bigr|, \qquad \delta_{li} = \arg\min_d \sum_k p_{ik} \, L_{ldk},
        \quad W = \sum_i w_i

    with losses :math:`L_{ldk}` of decision d if class k is the true one, by default drawn from the standard
    normal distribution :cite:`zhao2021`. For one loss of your own, see :func:`~calibrant.metrics.cost_gap`.

    Parameters
    ----------
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two; rows are divided by their sums,
        since the gap is defined only for probabilities that sum to one.
    n_losses : int, default=500
        Number m of losses to draw.
    n_decisions : int, default=2
        Number of decisions to choose from, for each loss.
    losses : array of shape (m, n_decisions, K), optional
        Losses to use instead of random ones.
    random_state : int, Generator or RandomState, default=0
        Seed or random generator. A seed means numpy's legacy generator, whose stream never changes; 0 gives
        the losses, and so the values, of :cite:`valk2022`.

    Returns
    -------
    float
        0 is best. For calibrated predictions it is about :math:`1 / \sqrt n`.

    Notes
    -----
    Losses within 1e-12 of each other, relative to the largest entry, are ties, and the first decision is chosen. Other
    seeds change the default value by some per cent; compare methods with the same losses. Costs O(n K m n_decisions)
    as matrix products in blocks of rows and losses; memory O(m K n_decisions) beyond the input.

    Examples
    --------
    >>> y, p = [0, 0, 0, 1], [[0.9, 0.1]] * 4
    >>> zero_one = [[[0, 1], [1, 0]]]                     # 10 % of errors predicted, 25 % observed
    >>> round(average_loss_gap(y, p, losses=zero_one), 12)
    0.15
    >>> round(average_loss_gap(y, p), 3)
    0.158
    """
    _check_options(n_losses, n_decisions, losses, random_state)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    matrices = _matrices(data.n_classes, n_losses, n_decisions, losses, random_state)
    return float(np.abs(_gaps(data.predictions, data.labels, data.weights, matrices)).mean())


def _check_options(n_losses: Any, n_decisions: Any, losses: Any, random_state: Any) -> None:
    if losses is not None:
        _parsed_losses(losses)
        return
    for name, count in (("n_losses", n_losses), ("n_decisions", n_decisions)):
        if not isinstance(count, int | np.integer) or count < 1:
            raise ParameterError(f"{name} must be an integer of at least 1, not {count!r}.")
    sources = int | np.integer | np.random.Generator | np.random.RandomState
    if not isinstance(random_state, sources) or (
        isinstance(random_state, int | np.integer) and not 0 <= random_state < 2**32
    ):
        raise ParameterError(
            f"random_state must be a seed from 0 to 2^32 - 1 or a random generator of numpy, not {random_state!r}."
        )


def _parsed_losses(losses: Any) -> Float64Array:
    try:
        matrices = np.asarray(losses, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError("losses must be numbers of shape (n_losses, n_decisions, n_classes).") from error
    if matrices.ndim != 3 or matrices.size == 0 or not np.isfinite(matrices).all():
        raise ParameterError(
            "losses must be finite numbers of shape (n_losses, n_decisions, n_classes), "
            f"but they have shape {matrices.shape} or are not finite; for one matrix, pass [matrix]."
        )
    return matrices


def _matrices(
    n_classes: int, n_losses: int, n_decisions: int, losses: Any, random_state: Any
) -> Float64Array:
    """Return the losses of the user, or random ones, (m, D, K)."""
    if losses is not None:
        matrices = _parsed_losses(losses)
        if matrices.shape[2] != n_classes:
            raise ParameterError(
                f"losses are for {matrices.shape[2]} classes, but there are {n_classes}; "
                "give every decision a loss for every class."
            )
        return matrices
    seeded = isinstance(random_state, int | np.integer)
    source = np.random.RandomState(random_state) if seeded else random_state
    return np.asarray(source.standard_normal((n_losses, n_decisions, n_classes)), dtype=np.float64)

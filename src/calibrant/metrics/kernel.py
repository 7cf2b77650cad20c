"""Squared kernel calibration error (SKCE): canonical multi-class calibration without bins."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, IntArray, Matrix, Vector
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import MetricTraits, metric
from calibrant.metrics.events import Kind, check_kind, confidences, mean_over_events
from calibrant.numerics.folds import content_seed
from calibrant.numerics.kernels import (
    Kernel,
    check_kernel,
    content_order,
    kernel_matrix,
    laplace_form_on_a_line,
    largest_entries,
    median_distance,
    quadratic_forms,
    squared_distances,
    starts_of_equals,
)
from calibrant.numerics.row_blocks import BlockSums, row_blocks
from calibrant.options import check_choice, check_whole

__all__ = ["kernel_calibration_error"]


Rows = slice | IntArray

# Largest number of predictions between which the median distance, the default bandwidth, is computed.
BANDWIDTH_ROWS = 1000

# From this many columns on, inner products of residuals come from the distances instead of a second product.
WIDE = 32

# Rows in a tile that is shared by several small blocks.
SMALL_BLOCK = 256

# Blocks up to this size are distributed over threads; on larger ones all threads work together, one block at a time.
MAX_PARALLEL_BLOCK = 2048

# An irrational fraction of a step: with integer weights, no point falls on the boundary between two rows.
OFFSET = 2**0.5 - 1


@dataclass(frozen=True)
class Pairs:
    """Sums over pairs of rows, including pairs of a row with itself; sums over disjoint sets of rows add up."""

    products: float
    """Sum over i != j of w_i w_j k(f_i, f_j) <r_i, r_j>."""
    own_products: float
    """The same for i = j."""
    weight: float
    """Sum over i != j of w_i w_j."""
    own_weight: float
    """The same for i = j."""

    def __add__(self, other: "Pairs") -> "Pairs":
        return Pairs(
            self.products + other.products,
            self.own_products + other.own_products,
            self.weight + other.weight,
            self.own_weight + other.own_weight,
        )

    @property
    def unbiased(self) -> float:
        """Mean over pairs of different rows; 0 if there is none."""
        # One row may have all the weight up to rounding; then there is no second row.
        return self.products / self.weight if self.weight > 1e-15 * self.own_weight else 0.0

    @property
    def biased(self) -> float:
        """Mean over all pairs; not negative, except for rounding."""
        return max(0.0, (self.products + self.own_products) / (self.weight + self.own_weight))


@dataclass(frozen=True, eq=False)
class Residuals:
    """Predictions and outcomes: the rows from which kernel statistics are computed.

    ``features`` are probabilities (n, d) in their own float type: of all classes, or (n, 1) of one event.
    ``labels`` are column numbers, or -1 if none of the columns occurred. ``weights`` are at most 1.
    """

    features: FloatArray
    labels: IntArray
    weights: Vector

    @classmethod
    def of_all_classes(cls, data: LabelledPredictions) -> Self:
        """Use complete probability vectors."""
        return cls(data.predictions.probabilities, data.labels, _scaled(data.weights, data.n_rows))

    @classmethod
    def of_event(cls, scores: FloatArray, outcomes: NDArray[np.bool_], weights: Vector | None) -> Self:
        """Use the probability of one event and whether it occurred."""
        return cls(scores[:, np.newaxis], np.where(outcomes, 0, -1), _scaled(weights, len(scores)))

    @classmethod
    def of_confidence(cls, data: LabelledPredictions) -> Self:
        """Use the confidence in the predicted class and whether it was correct."""
        return cls.of_event(
            confidences(data.predictions), data.predictions.predicted == data.labels, data.weights
        )

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: IntArray) -> Self:
        """Return the selected rows, without the cached order of all rows."""
        return replace(
            self, features=self.features[rows], labels=self.labels[rows], weights=self.weights[rows]
        )

    def points(self, rows: Rows) -> Matrix:
        """Return the predictions of some rows in float64, (b, d)."""
        return self.features[rows].astype(np.float64)

    def residuals(self, rows: Rows) -> Matrix:
        """Return outcome minus prediction, times the weight, (b, d)."""
        result = -self.points(rows)
        labels = self.labels[rows]
        occurred = np.flatnonzero(labels >= 0)
        result[occurred, labels[occurred]] += 1
        result *= self.weights[rows, np.newaxis]
        return result

    @cached_property
    def largest(self) -> FloatArray:
        """Largest probability of every row."""
        return largest_entries(self.features)

    @cached_property
    def order(self) -> IntArray:
        """Rows sorted by their contents, equal predictions next to each other."""
        return content_order(self.features, (self.labels, self.weights))

    @cached_property
    def starts(self) -> IntArray:
        """Positions in ``order`` at which a new prediction begins."""
        return starts_of_equals(self.features, self.order)

    @cached_property
    def bandwidth(self) -> float:
        """Median distance between distinct predictions, of at most :data:`BANDWIDTH_ROWS` of them."""
        rows = self.order[self.starts]
        weights = np.add.reduceat(self.weights[self.order], self.starts)
        if len(rows) > BANDWIDTH_ROWS:
            # At equal steps by the largest probability, whose order is independent of the order of classes.
            ranks = np.argsort(self.largest[rows], kind="stable")
            below = np.cumsum(weights[ranks])
            places = (np.arange(BANDWIDTH_ROWS) + OFFSET) * (below[-1] / BANDWIDTH_ROWS)
            rows, weights = rows[ranks[np.searchsorted(below, places)]], np.ones(BANDWIDTH_ROWS)
        return median_distance(self.points(rows), weights)

    def blocks(self, block_size: int, seed: Any = 0) -> list[IntArray]:
        """Assign all rows at random to blocks of this size, or slightly more.

        The assignment depends on the contents of the rows, not on their order. Each block is sorted as ``order`` is. Rows of
        equal predictions are sorted by their labels, so outcomes must enter the seed too; otherwise the label counts per
        block would be the same in all data sets.
        """
        places = np.argsort(self.largest[self.order], kind="stable")
        if isinstance(seed, int | np.integer):
            likely = self.features[np.arange(len(self)), np.maximum(self.labels, 0)] == self.largest
            seed = [int(seed), content_seed((likely & (self.labels >= 0))[self.order[places]])]
        places = np.random.default_rng(seed).permutation(places)
        n_blocks = max(1, len(self) // block_size)
        return [self.order[np.sort(block)] for block in np.array_split(places, n_blocks)]

    def kernel_tile(self, first: Rows, second: Rows, kernel: Kernel, bandwidth: float) -> Matrix:
        """Return the kernel matrix between two sets of rows."""
        return kernel_matrix(squared_distances(self.points(first), self.points(second)), kernel, bandwidth)

    def product_tile(self, first: slice, second: slice, kernel: Kernel, bandwidth: float) -> Matrix:
        r"""Return kernel times inner product of residuals, :math:`k_{ij} \langle r_i, r_j \rangle`, with weights.

        With many columns this uses :math:`[y = y'] - f_{y'} - f'_y + \langle f, f' \rangle`. The last term is also
        needed for the distances, so one matrix product serves both.
        """
        if self.features.shape[1] < WIDE:
            tile = self.kernel_tile(first, second, kernel, bandwidth)
            tile *= self.residuals(first) @ self.residuals(second).T
            return tile
        own, others = self.points(first), self.points(second)
        squares = squared_distances(own, others)
        products = -0.5 * squares
        products += 0.5 * np.einsum("ik,ik->i", own, own)[:, np.newaxis]
        products += 0.5 * np.einsum("ik,ik->i", others, others)
        products -= own[:, self.labels[second]]
        others[np.arange(len(others)), self.labels[second]] -= 1
        products -= others[:, self.labels[first]].T
        products *= kernel_matrix(squares, kernel, bandwidth)
        products *= self.weights[first, np.newaxis]
        products *= self.weights[second]
        return products

    def all_pairs(self, kernel: Kernel, bandwidth: float, merge: bool = True) -> Pairs:
        """Return the sums over all pairs, in O(n^2 d), or O(n log n) for the Laplace kernel of one column.

        ``merge`` first merges rows of equal predictions, which changes only the running time.
        """
        own_products, total = 0.0, 0.0
        for rows in row_blocks(*self.features.shape):
            block = self.residuals(rows)
            own_products += float(np.vdot(block, block))
        if kernel == "laplace" and self.features.shape[1] == 1:
            residuals = self.residuals(slice(None))[:, 0]
            total = laplace_form_on_a_line(self.points(slice(None))[:, 0], residuals, bandwidth)
        elif merge:
            total = self._merged_form(kernel, bandwidth)
        elif self.features.shape[1] < WIDE:
            tiles = lambda i, j: self.kernel_tile(i, j, kernel, bandwidth)  # noqa: E731
            total = float(quadratic_forms(len(self), tiles, self.residuals).sum())
        else:
            tiles = lambda i, j: self.product_tile(i, j, kernel, bandwidth)  # noqa: E731
            total = float(quadratic_forms(len(self), tiles, lambda i: np.ones((i.stop - i.start, 1))).sum())
        weight, own_weight = self.weights.sum(), np.vdot(self.weights, self.weights)
        return Pairs(total - own_products, own_products, float(weight**2 - own_weight), float(own_weight))

    def _merged_form(self, kernel: Kernel, bandwidth: float) -> float:
        """Return the quadratic form from one point per distinct prediction, with summed residuals."""
        if len(self.starts) == len(self):
            pairs = self.take(self.order).all_pairs(kernel, bandwidth, merge=False)
            return pairs.products + pairs.own_products
        n_columns = self.features.shape[1]
        edges = np.append(self.starts, len(self))
        first_rows = self.order[self.starts]

        def summed_residuals(groups: slice) -> Matrix:
            n_groups = groups.stop - groups.start
            members = self.order[edges[groups.start] : edges[groups.stop]]
            group_of = np.repeat(np.arange(n_groups), np.diff(edges[groups.start : groups.stop + 1]))
            group_weights = np.bincount(group_of, self.weights[members])
            labels = self.labels[members]
            occurred = labels >= 0
            cells, cell_weights = (group_of * n_columns + labels)[occurred], self.weights[members[occurred]]
            sums = np.bincount(cells, cell_weights, n_groups * n_columns).reshape(n_groups, n_columns)
            return sums - group_weights[:, np.newaxis] * self.points(first_rows[groups])

        def tile(i: slice, j: slice) -> Matrix:
            return self.kernel_tile(first_rows[i], first_rows[j], kernel, bandwidth)

        return float(quadratic_forms(len(first_rows), tile, summed_residuals).sum())

    def pairs_in_blocks(self, kernel: Kernel, bandwidth: float, block_size: int, seed: Any = 0) -> Matrix:
        """Return for each block the sum over its pairs and their weight, (m, 2), in O(n B d)."""
        blocks = self.blocks(block_size, seed)
        # Small blocks share a tile, of which only the diagonal squares are used.
        together = max(1, SMALL_BLOCK // block_size)
        groups = [blocks[first : first + together] for first in range(0, len(blocks), together)]

        def sums(some: slice) -> list[Matrix]:
            return [self._pairs_in_some_blocks(group, kernel, bandwidth) for group in groups[some]]

        entries = block_size**2 * together**2 if block_size <= MAX_PARALLEL_BLOCK else 1
        with BlockSums.over(len(groups), entries) as total:
            return np.concatenate(total(sums))

    def _pairs_in_some_blocks(self, blocks: list[IntArray], kernel: Kernel, bandwidth: float) -> Matrix:
        if len(blocks) == 1 and len(blocks[0]) > SMALL_BLOCK:
            pairs = self.take(blocks[0]).all_pairs(kernel, bandwidth, merge=False)
            return np.array([[pairs.products, pairs.weight]])
        together = self.take(np.concatenate(blocks))
        everything = slice(0, len(together))
        tile = together.product_tile(everything, everything, kernel, bandwidth)
        np.fill_diagonal(tile, 0.0)
        starts = np.cumsum([0, *(len(block) for block in blocks[:-1])])
        products = np.add.reduceat(np.add.reduceat(tile, starts, axis=0), starts, axis=1).diagonal()
        weight = np.add.reduceat(together.weights, starts)
        own_weight = np.add.reduceat(together.weights**2, starts)
        return np.column_stack([products, weight**2 - own_weight])


def check_block_size(block_size: Any) -> None:
    """Raise if a block would contain no pairs."""
    check_whole("block_size", block_size, least=2)


def _scaled(weights: Vector | None, n_rows: int) -> Vector:
    """Return weights divided by the largest, so that their products neither overflow nor underflow."""
    return np.ones(n_rows) if weights is None else weights / weights.max()


Estimator = Literal["auto", "unbiased", "biased", "block"]
"""Mean over pairs of different rows, over all pairs including each row with itself, or over pairs within blocks."""

FullKind = Literal["full"] | Kind

# Largest number of distinct predictions for which "auto" uses all pairs: a second or two of computation.
MAX_ROWS_OF_ALL_PAIRS = 20_000


@metric(MetricTraits(weights_are_counts=False))
def kernel_calibration_error(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    kind: FullKind = "full",
    estimator: Estimator = "auto",
    kernel: Kernel = "laplace",
    bandwidth: float | None = None,
    block_size: int = 1000,
) -> float:
    r"""Squared kernel calibration error (SKCE) of complete probability vectors, without bins.

    .. math::

        \frac{1}{n (n - 1)} \sum_{i \ne j} k(p_i, p_j) \, \langle e_{y_i} - p_i, e_{y_j} - p_j \rangle,
        \qquad k(p, q) = \exp(-\|p - q\|_2 / s),

    with the unit vector :math:`e_y` of the true class :cite:`widmann2019`. It measures whether rows with similar
    predictions err in the same direction. Its expectation is zero if and only if the predictions are canonically
    calibrated: among all rows with the same vector p, class frequencies equal p.

    Parameters
    ----------
    sample_weight : array of shape (n,), optional
        Weights of the rows; a pair weighs the product of its weights.
    kind : {"full", "confidence", "classwise", "positive"}, default="full"
        The complete vector, or a scalar: the confidence in the predicted class, each class by its own
        probability (mean over classes), or the second class of two.
    estimator : {"auto", "unbiased", "biased", "block"}, default="auto"
        ``"unbiased"`` is the formula above. ``"biased"`` is :math:`1 / n^2` times the sum over all pairs, including
        i = j: never negative, but positive even for calibrated predictions. ``"block"`` is the mean over pairs
        within random blocks of rows: unbiased, noisier, fast. ``"auto"`` is ``"unbiased"`` up to 20,000 distinct
        predictions, and for any number where it takes O(n log n); else ``"block"``.
    kernel : {"laplace", "gaussian"}, default="laplace"
        As above, or :math:`\exp(-\|p - q\|^2 / (2 s^2))`.
    bandwidth : float, optional
        s; by default the median distance between distinct predictions (for more than 1,000, between the
        1,000 at equal steps when sorted by the largest probability). Set it to compare the errors of several
        sets of predictions, since the value depends on it.
    block_size : int, default=1000
        Rows in a block.

    Returns
    -------
    float
        From about -1/n to 2; lower is better. It estimates a square: twice the gap gives four times the value.
        Unbiased estimates of a small error can be negative. Zero if there is no pair.

    Notes
    -----
    Costs O(n^2 K) time for all pairs, O(n B K) in blocks, and O(n log n) for the Laplace kernel of a scalar;
    memory O(n). Equal predictions are merged first, so a million rows with few distinct predictions are fast.
    Blocks depend on the contents of the rows and not on their order. For ``"classwise"`` the cost is per class and
    includes the default bandwidth, the median of half a million distances: 20 to 70 milliseconds per class, a minute
    for a thousand classes of 5,000 rows. With ``bandwidth`` given it is about one millisecond.

    Weights are the importance of rows, and only their ratios matter. Rows are independent observations: two copies of a
    row form a pair, a row of weight two does not. For the biased estimator the two are equivalent.

    For two classes, ``"full"`` is twice ``"positive"`` at the same default bandwidth rule, since vectors are
    :math:`\sqrt 2` times as far apart as the probabilities of the positive class.

    Examples
    --------
    Three of four correct at a confidence of one half. Pairs of correct rows have the inner product 1/2, the
    others -1/2, and there are three of each:

    >>> kernel_calibration_error([0, 0, 0, 1], [[0.5, 0.5]] * 4)
    0.0
    >>> kernel_calibration_error([0, 0, 0, 1], [[0.5, 0.5]] * 4, estimator="biased")
    0.125
    """
    if kind != "full":
        check_kind(kind)
    check_choice("estimator", estimator, get_args(Estimator))
    check_kernel(kernel, bandwidth)
    check_block_size(block_size)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)

    def error(sample: Residuals) -> float:
        width = sample.bandwidth if bandwidth is None else float(bandwidth)
        fast = kernel == "laplace" and sample.features.shape[1] == 1
        in_blocks = estimator == "auto" and not fast and len(sample.starts) > MAX_ROWS_OF_ALL_PAIRS
        if estimator == "block" or in_blocks:
            products, weight = sample.pairs_in_blocks(kernel, width, block_size).sum(axis=0).tolist()
            return Pairs(products, 0.0, weight, 0.0).unbiased
        pairs = sample.all_pairs(kernel, width)
        return pairs.biased if estimator == "biased" else pairs.unbiased

    if kind == "full":
        return error(Residuals.of_all_classes(data))
    return mean_over_events(data, kind, lambda *event: error(Residuals.of_event(*event)))

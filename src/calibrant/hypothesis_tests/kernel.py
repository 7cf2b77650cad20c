"""Kernel calibration test: p-values for the squared kernel calibration error."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix, Vector
from calibrant.errors import ParameterError
from calibrant.hypothesis_tests.result import TestResult
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.events import check_two_classes
from calibrant.metrics.kernel import Pairs, Residuals, check_block_size
from calibrant.numerics.kernels import TILE_COLUMNS, Kernel, check_kernel, quadratic_forms
from calibrant.numerics.row_blocks import BlockSums, row_blocks
from calibrant.options import random_source
from calibrant.presentation.sentences import class_text, counted

__all__ = ["kernel_test"]

Method = Literal["auto", "resampling", "wild", "block"]
TestKind = Literal["full", "confidence", "positive"]

# Number of multiplications that "auto" spends: a few seconds.
AFFORDABLE = 1.2e11

# Number of times that the wild bootstrap draws the labels; the signs of its resamples are spread over these.
LABEL_DRAWS = 20

# In blocks: least number of draws per block, and of all blocks, from which sums are combined if n_resamples are too many.
DRAWS_PER_BLOCK, DRAWS_OF_BLOCKS = 20, 2000

# Rows of small blocks that are handled together.
SMALL_BLOCKS = 256

# Columns of a matrix product that serves several resamples at once.
COLUMNS_AT_A_TIME = 2048


def kernel_test(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    kind: TestKind = "full",
    method: Method = "auto",
    kernel: Kernel = "laplace",
    bandwidth: float | None = None,
    block_size: int | None = None,
    n_resamples: int = 1000,
    random_state: int | np.random.Generator | None = 0,
) -> TestResult:
    r"""Kernel test of calibration, by default of complete probability vectors (SKCE test).

    .. math::

        T = \frac{1}{n (n - 1)} \sum_{i \ne j} k(p_i, p_j) \, \langle e_{y_i} - p_i, e_{y_j} - p_j \rangle,

    the unbiased :func:`~calibrant.metrics.kernel_calibration_error`, has expectation zero if the
    predictions are calibrated and is positive in expectation otherwise. Large values are evidence against calibration
    :cite:`widmann2019,widmann2021`.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two. They must be held-out: not
        fitted to these labels.
    sample_weight : array of shape (n,), optional
        Weights of the rows. Rows are independent observations whatever their weight; only ratios matter.
    kind : {"full", "confidence", "positive"}, default="full"
        Complete probability vectors, the confidence in the predicted class, or the probability of the
        second class of two.
    method : {"auto", "resampling", "wild", "block"}, default="auto"
        How the null distribution is computed, see the notes. ``"auto"`` is ``"resampling"`` if that takes at most a few
        seconds, otherwise ``"block"``.
    kernel : {"laplace", "gaussian"}, default="laplace"
        :math:`\exp(-\|p - q\| / s)` or :math:`\exp(-\|p - q\|^2 / (2 s^2))`.
    bandwidth : float, optional
        s; by default the median distance between distinct predictions.
    block_size : int, optional
        Rows in a block, B, for ``method="block"``; by default :math:`\sqrt n`, or for ``method="auto"`` as many as take a few
        seconds, if these are more. At least two blocks are needed.
    n_resamples : int, default=1000
        Number of simulated data sets, R.
    random_state : int, Generator or None, default=0
        Seed of the simulation, and of the assignment of rows to blocks; None for a random seed.

    Returns
    -------
    TestResult
        With T as the statistic, for ``method="block"`` from pairs within blocks. The null mean is
        zero by construction; ``null_quantile`` is the 95 % quantile under calibration.

    Notes
    -----
    All methods draw labels from the predicted probabilities, that is, under the null hypothesis. So they need no estimate
    of the size of residuals, which is unreliable for rare events and for unequal weights.

    ``"resampling"`` computes T for R sets of labels. The level is exact for any n. Costs O(n^2 K R) in matrix products.

    ``"wild"`` (wild bootstrap) draws 20 sets of labels, and multiplies the residual vectors of each by R / 20 sets of
    random signs. Sums over pairs of such products have the variance of T under the null hypothesis, and its limit
    distribution. Costs O(n^2 (20 K + R)). The level is approximate; :doc:`/promises` has simulations.

    ``"block"`` uses only pairs within n / B random blocks of B rows. The level is exact where R sets of labels are
    affordable; otherwise sums of blocks are combined from at least 20 draws per block. Costs O(n B K R) at most, scales to
    millions of rows, and has much less power than the others on the same rows.

    *Seed.* Levels hold on average over seeds. For one seed and similar predictions the simulated quantile has an error that
    repeats: the level then has a standard deviation of :math:`\sqrt{0.05 \cdot 0.95 / R}`, 0.7 points for 1,000 resamples.

    Memory O(n R) bytes at most. Results do not depend on the order of the rows.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> p = generator.random(300)
    >>> outcomes = (generator.random(300) < p).astype(int)
    >>> kernel_test(outcomes, p).p_value > 0.05
    True
    >>> overconfident = p**3 / (p**3 + (1 - p) ** 3)
    >>> kernel_test(outcomes, overconfident).p_value < 0.01
    True
    """
    _check_options(kind, method, n_resamples)
    generator = random_source(random_state)
    check_kernel(kernel, bandwidth)
    if block_size is not None:
        check_block_size(block_size)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    sample, null_hypothesis = _sample(data, kind)
    width = sample.bandwidth if bandwidth is None else float(bandwidth)
    if method == "auto":
        affordable = int(
            AFFORDABLE / (len(sample) * sample.features.shape[1] * n_resamples)
        )  # rows in a block
        method = "resampling" if len(sample) <= affordable else "block"
        if method == "block" and block_size is None:
            block_size = min(max(affordable, round(len(sample) ** 0.5)), len(sample) // 2)
    described = f"kind={kind!r}, method={method!r}, kernel={kernel!r}, bandwidth={width:.4g}"
    ordered = sample.take(sample.order)  # so that random numbers do not depend on the order of rows
    if method == "block":
        size = max(2, round(len(sample) ** 0.5)) if block_size is None else block_size
        _check_number_of_blocks(len(sample), size)
        described = f"{described}, block_size={size}"
        blocks = ordered.blocks(size, random_state)
        products, weight = _by_block(ordered, blocks, kernel, width, n_resamples, generator)
    else:
        simulate = _by_labels if method == "resampling" else _by_signs
        products = simulate(ordered, kernel, width, n_resamples, generator)
        weight = float(ordered.weights.sum() ** 2 - np.vdot(ordered.weights, ordered.weights))
    observed, *simulated = (Pairs(product, 0.0, weight, 1.0).unbiased for product in products.tolist())
    return _simulation_result(
        observed, np.array(simulated), f"kernel_test({described})", null_hypothesis, len(sample)
    )


def _sample(data: LabelledPredictions, kind: TestKind) -> tuple[Residuals, str]:
    """Return the residuals to test, and the null hypothesis in words."""
    if kind == "full":
        return Residuals.of_all_classes(data), "classes occur with exactly the predicted probabilities"
    if kind == "confidence":
        hypothesis = "the predicted class is right with exactly its predicted probability"
        return Residuals.of_confidence(data), hypothesis
    check_two_classes(data.n_classes, "kind='full'")
    sample = Residuals.of_event(data.predictions.probabilities[:, 1], data.labels == 1, data.weights)
    return sample, f"{class_text(data.classes[1])} occurs with exactly its predicted probability"


def _check_options(kind: Any, method: Any, n_resamples: Any) -> None:
    if isinstance(kind, str) and kind == "classwise":
        raise ParameterError(
            "kind='classwise' is not one hypothesis but one per class; for all classes jointly use "
            "kind='full', for each class separately classwise_cumulative_tests."
        )
    if kind not in get_args(TestKind):
        raise ParameterError(f"kind must be 'full', 'confidence' or 'positive', not {kind!r}.")
    if method not in get_args(Method):
        raise ParameterError(f"method must be 'auto', 'resampling', 'wild' or 'block', not {method!r}.")
    is_integer = isinstance(n_resamples, (int, np.integer)) and not isinstance(n_resamples, bool)
    if not is_integer or n_resamples < 1:
        raise ParameterError(f"n_resamples must be an integer of at least 1, not {n_resamples!r}.")


def _check_number_of_blocks(n_rows: int, block_size: int) -> None:
    """Raise on a single block, from which no standard error can be estimated."""
    if n_rows >= 2 * block_size:
        return
    smaller = f", a block_size of at most {n_rows // 2}" if n_rows >= 4 else ""
    raise ParameterError(
        f"method='block' needs two blocks or more, but block_size={block_size} makes one of {counted(n_rows, 'row')}; "
        f"give at least {2 * block_size} rows{smaller} or method='resampling'."
    )


def _by_block(
    sample: Residuals,
    blocks: list[NDArray[np.intp]],
    kernel: Kernel,
    bandwidth: float,
    n_resamples: int,
    generator: np.random.Generator,
) -> tuple[Vector, float]:
    """Return the sum over pairs within blocks, observed and for labels drawn from the predictions, (1 + R,), and its weight."""
    size, n_columns = len(blocks[0]), sample.features.shape[1]
    together = max(1, SMALL_BLOCKS // size)
    units = [blocks[first : first + together] for first in range(0, len(blocks), together)]
    affordable = int(AFFORDABLE / (len(sample) * max(size, min(SMALL_BLOCKS, len(sample))) * n_columns))
    n_draws = min(n_resamples, max(affordable, DRAWS_PER_BLOCK, DRAWS_OF_BLOCKS // len(units)))
    sums = np.empty((len(units), 1 + n_draws))
    weight = 0.0
    for place, unit in enumerate(units):
        rows = np.concatenate(unit)
        block_of_row = (
            None if len(unit) == 1 else np.repeat(np.arange(len(unit)), [len(block) for block in unit])
        )
        sums[place] = _by_labels(sample.take(rows), kernel, bandwidth, n_draws, generator, block_of_row)
        of_blocks = np.array([sample.weights[block].sum() for block in unit])
        own = sample.weights[rows]
        weight += float(np.vdot(of_blocks, of_blocks) - np.vdot(own, own))
    if n_draws == n_resamples:
        return sums.sum(axis=0), weight
    # One draw per block in each combination. Its expectation is zero; centred draws have less spread than their distribution.
    drawn = sums[:, 1:] - sums[:, 1:].mean(axis=1, keepdims=True)
    drawn *= (n_draws / (n_draws - 1)) ** 0.5
    combined = np.zeros(1 + n_resamples)
    combined[0] = sums[:, 0].sum()
    for of_unit in drawn:
        combined[1:] += of_unit[generator.integers(0, n_draws, n_resamples)]
    return combined, weight


def _by_labels(
    sample: Residuals,
    kernel: Kernel,
    bandwidth: float,
    n_resamples: int,
    generator: np.random.Generator,
    block_of_row: NDArray[np.intp] | None = None,
) -> Vector:
    """Return the sum over pairs for the observed labels and for labels drawn from the predictions, (1 + R,).

    With ``block_of_row`` only pairs within the same block count.
    """
    n_columns = sample.features.shape[1]
    at_a_time = max(1, COLUMNS_AT_A_TIME // n_columns)
    parts = []
    tile = _hollow(_within_blocks(lambda i, j: sample.kernel_tile(i, j, kernel, bandwidth), block_of_row))
    for first in range(0, 1 + n_resamples, at_a_time):
        labels = _drawn_labels(sample, min(at_a_time, 1 + n_resamples - first), generator)
        if first == 0:
            labels[:, 0] = np.where(sample.labels < 0, n_columns, sample.labels)

        def residuals(rows: slice, labels: NDArray[np.int32] = labels) -> Matrix:
            # One more column for "none of the columns", which is then removed.
            occurred = np.zeros((*labels[rows].shape, n_columns + 1))
            np.put_along_axis(occurred, labels[rows][:, :, np.newaxis], 1.0, axis=2)
            difference = occurred[:, :, :-1] - sample.points(rows)[:, np.newaxis]
            difference *= sample.weights[rows, np.newaxis, np.newaxis]
            return difference.reshape(len(difference), -1)

        parts.append(quadratic_forms(len(sample), tile, residuals).reshape(-1, n_columns).sum(axis=1))
    return np.concatenate(parts)


def _drawn_labels(sample: Residuals, n_draws: int, generator: np.random.Generator) -> NDArray[np.int32]:
    """Draw labels of every row from its probabilities, (n, R); the number of columns means none of them."""
    n_columns = sample.features.shape[1]
    labels = np.empty((len(sample), n_draws), dtype=np.int32)
    for rows in row_blocks(len(sample), max(n_columns, n_draws)):
        below = np.cumsum(sample.points(rows), axis=1)
        if n_columns > 1:
            below /= below[:, -1:]
        # One sorted array for all rows of the block: the cumulative probabilities of row i lie between i and i + 1.
        offsets = np.arange(len(below))[:, np.newaxis]
        draws = np.minimum(generator.random((len(below), n_draws)) + offsets, np.nextafter(offsets + 1.0, 0))
        labels[rows] = np.searchsorted((below + offsets).ravel(), draws, side="right") - n_columns * offsets
    if n_columns > 1:
        np.minimum(labels, n_columns - 1, out=labels)
    return labels


def _by_signs(
    sample: Residuals, kernel: Kernel, bandwidth: float, n_resamples: int, generator: np.random.Generator
) -> Vector:
    """Return the sum over pairs, observed and for residuals of drawn labels with random signs, (1 + R,)."""
    n_columns = sample.features.shape[1]
    drawn = _drawn_labels(sample, min(LABEL_DRAWS, n_resamples), generator)
    drawn[drawn == n_columns] = -1
    signs = generator.integers(0, 2, (len(sample), n_resamples), dtype=np.int8)
    signs *= 2
    signs -= 1
    everything = np.ones((len(sample), 1), dtype=np.int8)
    parts = np.array_split(np.arange(n_resamples), drawn.shape[1])
    samples = [(sample, everything)] + [
        (replace(sample, labels=labels.astype(np.intp)), signs[:, part])
        for labels, part in zip(drawn.T, parts, strict=True)
    ]
    tile = _hollow(lambda i, j: sample.kernel_tile(i, j, kernel, bandwidth))
    blocks = row_blocks(len(sample), TILE_COLUMNS)

    def contribution(rows: slice) -> Vector:
        sums = np.zeros(1 + n_resamples)
        own = [(one.residuals(rows), of_rows[rows].astype(np.float64)) for one, of_rows in samples]
        for other in blocks:
            if other.start < rows.start:
                continue
            kernels = tile(rows, other) * (1 if other == rows else 2)
            found = [
                np.einsum(
                    "ir,ir->r",
                    of_rows,
                    (kernels * (residuals @ one.residuals(other).T)) @ all_signs[other].astype(np.float64),
                )
                for (residuals, of_rows), (one, all_signs) in zip(own, samples, strict=True)
            ]
            sums += np.concatenate(found)
        return sums

    with BlockSums.over(len(sample), TILE_COLUMNS) as total:
        return total(contribution)


def _within_blocks(
    tile: Callable[[slice, slice], Matrix], block_of_row: NDArray[np.intp] | None
) -> Callable[[slice, slice], Matrix]:
    """Return the tiles of the same matrix with zeros between rows of different blocks."""
    if block_of_row is None:
        return tile
    return lambda i, j: tile(i, j) * (block_of_row[i, np.newaxis] == block_of_row[j])


def _hollow(tile: Callable[[slice, slice], Matrix]) -> Callable[[slice, slice], Matrix]:
    """Return the tiles of the same matrix with zeros on its diagonal."""

    def without_diagonal(rows: slice, columns: slice) -> Matrix:
        result = tile(rows, columns)
        if rows == columns:
            np.fill_diagonal(result, 0.0)
        return result

    return without_diagonal


def _simulation_result(
    observed: float, simulated: Vector, name: str, null_hypothesis: str, n_rows: int
) -> TestResult:
    n_resamples = len(simulated)
    # Few rows have few distinct outcomes; ties are found up to rounding.
    tolerance = 1e-10 * max(abs(observed), float(np.abs(simulated).max()))
    # The observed data set counts as one of the simulated ones, which it is under the null hypothesis.
    p_value = (1 + int((simulated >= observed - tolerance).sum())) / (1 + n_resamples)
    return TestResult(
        statistic=observed,
        p_value=p_value,
        test=name,
        null_hypothesis=null_hypothesis,
        n_rows=n_rows,
        n_resamples=n_resamples,
        p_value_error=float(np.sqrt(p_value * (1 - p_value) / n_resamples)),
        null_quantile=float(np.quantile(simulated, 0.95)),
    )

"""Kernel calibration test: p-values for the squared kernel calibration error."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from calibrant.arrays import Matrix, Vector
from calibrant.errors import ParameterError
from calibrant.hypothesis_tests.result import TestResult, small_sample_caution
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.events import check_two_classes
from calibrant.metrics.kernel import Pairs, Residuals, check_block_size
from calibrant.numerics.kernels import Kernel, check_kernel, quadratic_forms
from calibrant.numerics.row_blocks import row_blocks
from calibrant.options import random_source
from calibrant.presentation.sentences import class_text, counted

__all__ = ["kernel_test"]

Method = Literal["auto", "resampling", "wild", "block"]
TestKind = Literal["full", "confidence", "positive"]

# Number of multiplications that "auto" spends on the exact test, and on the wild bootstrap: a few seconds.
AFFORDABLE = 1.2e11

# Effective number of less probable outcomes below which a p-value from the observed residuals is rough.
FEWEST_OUTCOMES = 10.0

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
        How the null distribution is computed, see the notes. ``"auto"`` is the first that takes at most a few seconds.
    kernel : {"laplace", "gaussian"}, default="laplace"
        :math:`\exp(-\|p - q\| / s)` or :math:`\exp(-\|p - q\|^2 / (2 s^2))`.
    bandwidth : float, optional
        s; by default the median distance between distinct predictions.
    block_size : int, optional
        Rows in a block, B, for ``method="block"``; :math:`\sqrt n` by default. At least two blocks are needed.
    n_resamples : int, default=1000
        Number of simulated data sets, R, for the other two methods.
    random_state : int, Generator or None, default=0
        Seed of the simulation, and of the assignment of rows to blocks; None for a random seed.

    Returns
    -------
    TestResult
        With T as the statistic; for ``method="block"`` the ratio of T to its standard error. The null mean is
        zero by construction; ``null_quantile`` is the 95 % quantile under calibration.

    Notes
    -----
    ``"resampling"`` draws labels from the predicted probabilities, that is, under the null hypothesis. The
    level is exact for any n. Costs O(n^2 K R) in matrix products.

    ``"wild"`` (wild bootstrap) multiplies the residual vector of every row by a random sign; the sum over pairs of such
    products has the same limit distribution. Costs O(n^2 (K + R)). Its level is approximate: it estimates the size
    of residuals from the data, which is unreliable with few rows, or few wrong ones. With rare events or unequal weights
    it rejects too often: :doc:`/promises` has simulated levels.

    ``"block"`` uses the mean of T over m = n / B blocks of rows, which is nearly normal, and its standard
    error from their spread: :math:`p = 1 - \Phi(\sqrt m \, \bar T / \mathrm{sd}(T))`. Costs O(n B K), scales to
    millions of rows, and has much less power than the others on the same rows.

    For ``"wild"`` and ``"block"`` the result has a ``caution`` if the less probable outcomes are too few, after weighting.

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
        method = _affordable_method(len(sample), sample.features.shape[1], n_resamples)
    described = f"kind={kind!r}, method={method!r}, kernel={kernel!r}, bandwidth={width:.4g}"
    if method == "block":
        size = max(2, round(len(sample) ** 0.5)) if block_size is None else block_size
        _check_number_of_blocks(len(sample), size)
        ratio = _block_ratio(sample.pairs_in_blocks(kernel, width, size, random_state))
        return TestResult(
            statistic=ratio,
            p_value=float(ndtr(-ratio)),
            test=f"kernel_test({described}, block_size={size})",
            null_hypothesis=null_hypothesis,
            n_rows=len(sample),
            null_quantile=float(ndtri(0.95)),
            caution=_caution(sample),
        )
    simulate = _by_labels if method == "resampling" else _by_signs
    ordered = sample.take(sample.order)  # so that random numbers do not depend on the order of rows
    products = simulate(ordered, kernel, width, n_resamples, generator)
    weight = float(sample.weights.sum() ** 2 - np.vdot(sample.weights, sample.weights))
    observed, *simulated = (Pairs(product, 0.0, weight, 1.0).unbiased for product in products.tolist())
    return _simulation_result(
        observed,
        np.array(simulated),
        f"kernel_test({described})",
        null_hypothesis,
        len(sample),
        None if method == "resampling" else _caution(sample),
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


def _caution(sample: Residuals) -> str | None:
    """Return why a p-value from the observed residuals is rough; None if it is not."""
    number = _effective_outcomes(sample)
    if number >= FEWEST_OUTCOMES:
        return None
    return small_sample_caution(len(sample)) or (
        f"the p-value is rough, since effectively only {number:.2g} of the less probable outcomes are expected, fewer than "
        f"{FEWEST_OUTCOMES:g}; use method='resampling', which is exact"
    )


def _effective_outcomes(sample: Residuals) -> float:
    r"""Return the number of equally weighted rare events whose count is as skewed as weighted sums of residuals.

    .. math:: \frac{(\sum_k V_k)^3}{d (\sum_k |M_k|)^2}, \qquad
              V_k = \sum_i w_i^2 p_{ik} (1 - p_{ik}), \quad M_k = \sum_i w_i^3 p_{ik} (1 - p_{ik}) (1 - 2 p_{ik})

    for d columns; for one rare event with equal weights it is the expected number.
    """
    n_columns = sample.features.shape[1]
    variance, third = np.zeros(n_columns), np.zeros(n_columns)
    for rows in row_blocks(len(sample), n_columns):
        p, w = sample.points(rows), sample.weights[rows]
        spread = p * (1 - p)
        variance += w**2 @ spread
        third += w**3 @ (spread * (1 - 2 * p))
    skewed = float(np.abs(third).sum())
    return float(variance.sum()) ** 3 / (n_columns * skewed**2) if skewed > 0 else np.inf


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


def _affordable_method(
    n_rows: int, n_columns: int, n_resamples: int
) -> Literal["resampling", "wild", "block"]:
    if n_rows**2 * n_columns * n_resamples <= AFFORDABLE:
        return "resampling"
    return "wild" if n_rows**2 * (n_columns + n_resamples) <= AFFORDABLE else "block"


def _block_ratio(sums: Matrix) -> float:
    """Return the weighted mean over blocks divided by its standard error, from sums and weights of pairs."""
    products, weights = sums.T
    n_blocks = len(products)
    mean = products.sum() / weights.sum() if weights.sum() > 0 else 0.0
    deviations = products - weights * mean
    error = np.sqrt(np.vdot(deviations, deviations) * n_blocks / (n_blocks - 1))
    # No spread: all residuals are zero, so there is no evidence.
    return float(products.sum() / error) if error > 0 else 0.0


def _by_labels(
    sample: Residuals, kernel: Kernel, bandwidth: float, n_resamples: int, generator: np.random.Generator
) -> Vector:
    """Return the sum over pairs for the observed labels and for labels drawn from the predictions, (1 + R,)."""
    n_columns = sample.features.shape[1]
    at_a_time = max(1, COLUMNS_AT_A_TIME // n_columns)
    parts = []
    tile = _hollow(lambda i, j: sample.kernel_tile(i, j, kernel, bandwidth))
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
    """Return the sum over pairs for the observed residuals and for residuals of random sign, (1 + R,)."""
    signs = generator.integers(0, 2, (len(sample), 1 + n_resamples), dtype=np.int8)
    signs *= 2
    signs -= 1
    signs[:, 0] = 1
    tile = _hollow(lambda i, j: sample.product_tile(i, j, kernel, bandwidth))
    return quadratic_forms(len(sample), tile, lambda rows: signs[rows].astype(np.float64))


def _hollow(tile: Callable[[slice, slice], Matrix]) -> Callable[[slice, slice], Matrix]:
    """Return the tiles of the same matrix with zeros on its diagonal."""

    def without_diagonal(rows: slice, columns: slice) -> Matrix:
        result = tile(rows, columns)
        if rows == columns:
            np.fill_diagonal(result, 0.0)
        return result

    return without_diagonal


def _simulation_result(
    observed: float, simulated: Vector, name: str, null_hypothesis: str, n_rows: int, caution: str | None
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
        caution=caution,
    )

"""Squared kernel calibration error (SKCE): canonical multi-class calibration without bins."""

from typing import Any, Literal, get_args

from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import MetricTraits, metric
from calibrant.metrics.events import Kind, check_kind, mean_over_events
from calibrant.metrics.kernel_pairs import Pairs, Residuals, check_block_size
from calibrant.numerics.kernels import Kernel, check_kernel

__all__ = ["Estimator", "kernel_calibration_error"]

Estimator = Literal["auto", "unbiased", "biased", "block"]
"""Mean over pairs of different rows, over all pairs including each row with itself, or over pairs within blocks."""

FullKind = Literal["full"] | Kind

# Largest number of distinct predictions for which "auto" uses all pairs: a second or two of computation.
ALL_PAIRS_UP_TO = 20_000


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
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
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
    if estimator not in get_args(Estimator):
        raise ParameterError(f"estimator must be 'auto', 'unbiased', 'biased' or 'block', not {estimator!r}.")
    check_kernel(kernel, bandwidth)
    check_block_size(block_size)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)

    def error(sample: Residuals) -> float:
        width = sample.bandwidth if bandwidth is None else float(bandwidth)
        fast = kernel == "laplace" and sample.features.shape[1] == 1
        in_blocks = estimator == "auto" and not fast and len(sample.starts) > ALL_PAIRS_UP_TO
        if estimator == "block" or in_blocks:
            products, weight = sample.pairs_in_blocks(kernel, width, block_size).sum(axis=0).tolist()
            return Pairs(products, 0.0, weight, 0.0).unbiased
        pairs = sample.all_pairs(kernel, width)
        return pairs.biased if estimator == "biased" else pairs.unbiased

    if kind == "full":
        return error(Residuals.of_all_classes(data))
    return mean_over_events(data, kind, lambda *event: error(Residuals.of_event(*event)))

"""The squared kernel calibration error: full multi-class calibration without bins."""

from typing import Any, Literal, get_args

from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import MetricTraits, metric
from calibrant.metrics.events import Kind, check_kind, mean_over_events
from calibrant.metrics.kernel_pairs import Pairs, Residuals, check_block_size
from calibrant.numerics.kernels import Kernel, check_kernel

__all__ = ["Estimator", "kernel_calibration_error"]

Estimator = Literal["auto", "unbiased", "biased", "block"]
"""Mean over all pairs of rows, over all pairs including each row with itself, or over pairs inside blocks."""

FullKind = Literal["full"] | Kind

# Up to so many different predictions "auto" takes all pairs: a second or two of work.
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
    r"""Squared kernel calibration error (SKCE): are the whole vectors of probabilities right, without bins.

    .. math::

        \frac{1}{n (n - 1)} \sum_{i \ne j} k(p_i, p_j) \, \langle e_{y_i} - p_i, e_{y_j} - p_j \rangle,
        \qquad k(p, q) = \exp(-\|p - q\|_2 / s),

    with the unit vector :math:`e_y` of the true class :cite:`widmann2019`. It asks whether rows of similar
    predictions err in the same direction. In expectation it is zero if and only if the predictions are
    calibrated in the strongest sense: among all rows with the same vector p, classes occur as p says.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        Weights of the rows; a pair weighs the product of its weights.
    kind : {"full", "confidence", "classwise", "positive"}, default="full"
        The whole vector, or one number in place of it: the confidence in the predicted class, each class by
        its own probability (the mean of all), or the second class of two.
    estimator : {"auto", "unbiased", "biased", "block"}, default="auto"
        ``"unbiased"`` is the formula above. ``"biased"`` is :math:`1 / n^2` times the sum over all pairs, those
        with i = j too: never negative, but positive even for calibrated predictions. ``"block"`` is the mean over
        pairs inside random blocks of rows: unbiased, noisier, fast. ``"auto"`` is ``"unbiased"`` up to 20,000
        different predictions, and for any number where that takes O(n log n); else ``"block"``.
    kernel : {"laplace", "gaussian"}, default="laplace"
        As above, or :math:`\exp(-\|p - q\|^2 / (2 s^2))`.
    bandwidth : float, optional
        s; by default the median distance between different predictions (for more than 1,000, between the
        1,000 at equal steps when sorted by the largest probability). Set it to compare the errors of several
        sets of predictions, since the value depends on it.
    block_size : int, default=1000
        Rows in a block.

    Returns
    -------
    float
        From about -1/n to 2, lower is better; an estimate of a square, so that twice the gap gives four times
        the value. Unbiased estimates of a small error can be negative. Zero if there is no pair.

    Notes
    -----
    Costs O(n^2 K) time for all pairs, O(n B K) in blocks, and O(n log n) for the Laplace kernel of one
    number; memory O(n). Equal predictions are put together first, so that a million rows of a model with few
    different outputs take no time. Blocks depend on what the rows contain and not on their order. For
    ``"classwise"`` all this comes once per class, and so does the default bandwidth, the median of half a million
    distances: 20 to 70 milliseconds per class, a minute for a thousand classes of 5,000 rows. With ``bandwidth``
    given it is about one millisecond.

    Weights say how much a row matters, only ratios count, and rows are independent observations: a row
    given twice is a pair, a row of weight two is not. For the biased estimator the two are the same.

    For two classes, ``"full"`` is twice ``"positive"`` at the same default bandwidth rule, since vectors are
    :math:`\sqrt 2` times as far apart as the probabilities of the positive class.

    Examples
    --------
    Three of four right at a confidence of one half; pairs of right rows have the inner product 1/2, the
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

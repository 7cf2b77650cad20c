"""Bootstrap: values of a metric in resamples of the rows, and interval limits from them."""

import warnings
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from math import ceil
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from calibrant.arrays import Float64Array, IntArray
from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.intervals.interval import Interval
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import evaluator, is_declared, one_number, parts_of
from calibrant.metrics.row_losses import MeanMetric
from calibrant.numerics.row_blocks import n_threads_available, one_blas_thread
from calibrant.numerics.row_resampling import RowResampling
from calibrant.options import check_level, random_source
from calibrant.space import Space

__all__ = [
    "NO_VALUE",
    "BootstrapMethod",
    "BootstrapOptions",
    "Progress",
    "Statistic",
    "acceleration",
    "basic_limits",
    "bca_limits",
    "expanded",
    "for_a_further_one",
    "percentile_limits",
    "replicates",
    "resampled_interval",
    "statistic_of",
    "threads_for",
]


BootstrapMethod = Literal["percentile", "bca", "basic"]


# Relative tolerance, in units of the spread, for sums over rows in another order.
TIE = 1e-9


class Limits(NamedTuple):
    """Ends of an interval."""

    low: float
    high: float


def check_method(method: Any) -> None:
    """Raise on an unknown method."""
    if method not in get_args(BootstrapMethod):
        raise ParameterError(f"method must be 'percentile', 'bca' or 'basic', not {method!r}.")


def percentile_limits(values: Float64Array, level: float) -> Limits:
    """Return the central quantiles: the ends that leave out equal fractions of the values on both sides.

    >>> percentile_limits(np.arange(101.0), 0.5)
    Limits(low=25.0, high=75.0)
    """
    ordered = np.sort(values)
    tail = (1 - level) / 2
    return Limits(_quantile(ordered, tail), _quantile(ordered, 1 - tail))


def for_a_further_one(level: float, n_values: int) -> float:
    """Return the level of central quantiles of B values that contain a further value with probability ``level``.

    The ends are then the order statistics (B + 1) a instead of (B - 1) a + 1 :cite:`davison1997`, as far as there are any.

    >>> round(for_a_further_one(0.95, 399), 4)            # with 0.95 a further value is inside in 94.5 % of the cases
    0.9548
    """
    return (
        min(1.0, 1 - 2 * ((n_values + 1) * (1 - level) / 2 - 1) / (n_values - 1)) if n_values > 1 else level
    )


def basic_limits(estimate: float, values: Float64Array, level: float) -> Limits:
    """Return the percentile limits reflected at the estimate, which corrects a bias that resampling repeats.

    >>> basic_limits(60.0, np.arange(101.0), 0.5)
    Limits(low=45.0, high=95.0)
    """
    low, high = percentile_limits(values, level)
    return Limits(2 * estimate - high, 2 * estimate - low)


def bca_limits(
    estimate: float, values: Float64Array, level: float, acceleration: Callable[[], float]
) -> Limits | None:
    r"""Return the bias-corrected and accelerated (BCa) limits, or None where they are undefined.

    .. math::

        \hat\theta^*_{(\alpha')}, \qquad
        \alpha' = \Phi\Bigl( z_0 + \frac{z_0 + z_\alpha}{1 - a (z_0 + z_\alpha)} \Bigr), \qquad
        z_0 = \Phi^{-1}\bigl( \mathrm{share}(\hat\theta^* < \hat\theta)
              + \tfrac12 \mathrm{share}(\hat\theta^* = \hat\theta) \bigr)

    for :math:`\alpha = (1 \mp \mathrm{level}) / 2` :cite:`efron1987`. Undefined if all values lie on one side
    of the estimate, or if the acceleration a is not finite or too large.
    """
    spread = float(values.std())
    tied = np.abs(values - estimate) <= TIE * spread
    below = (np.count_nonzero((values < estimate) & ~tied) + np.count_nonzero(tied) / 2) / len(values)
    if not 0 < below < 1:
        return None
    bias = float(ndtri(below))
    skewness = acceleration()
    tail = (1 - level) / 2
    ordered = np.sort(values)
    ends = []
    for normal_quantile in (ndtri(tail), ndtri(1 - tail)):
        moved = bias + float(normal_quantile)
        scale = 1 - skewness * moved
        if not scale > 0:
            return None
        ends.append(_quantile(ordered, float(ndtr(bias + moved / scale))))
    return Limits(*ends)


def expanded(limits: tuple[float, float], centre: float, n_units: float, level: float) -> tuple[float, float]:
    r"""Return limits further from the centre by :math:`\sqrt{u / (u - 1)}\, t_{u - 1} / z`, which makes up for few units.

    Resamples of u units have the variance with denominator u instead of u - 1, and normal quantiles instead of those of
    Student's t :cite:`hesterberg2015`.

    >>> low, high = expanded((-1.959964, 1.959964), 0.0, 10, 0.95)
    >>> round(low, 3), round(high, 3)
    (-2.385, 2.385)
    """
    if not np.isfinite(n_units):
        return limits
    share = (1 + level) / 2
    factor = float(stdtrit(n_units - 1, share) / ndtri(share) * (n_units / (n_units - 1)) ** 0.5)
    low, high = (centre + factor * (end - centre) if np.isfinite(end) else end for end in limits)
    return low, high


def _quantile(ordered: Float64Array, share: float) -> float:
    """Interpolate between neighbours as numpy's default does, but support infinite values."""
    position = share * (len(ordered) - 1)
    below = int(position)
    fraction = position - below
    if fraction == 0 or ordered[below] == ordered[below + 1]:
        return float(ordered[below])
    return float((1 - fraction) * ordered[below] + fraction * ordered[below + 1])


# With fewer rows most of the time is spent in the interpreter, which holds the GIL.
ROWS_FOR_THREADS = 20_000

Progress = Callable[[int, int], object]
"""Called with the number of completed resamples and the total number."""


@dataclass(frozen=True)
class BootstrapOptions:
    """Options of a bootstrap, validated on creation."""

    level: float
    method: BootstrapMethod
    n_resamples: int
    random_state: Any
    progress: Progress | None = None
    uncorrected: bool = False

    def __post_init__(self) -> None:
        check_level(self.level)
        check_method(self.method)
        least = ceil(2 / (1 - self.level) - 1e-9)  # one resample beyond either end
        if not isinstance(self.n_resamples, int | np.integer) or self.n_resamples < least:
            raise ParameterError(
                f"n_resamples must be an integer of at least {least} for level {float(self.level):g}, "
                f"not {self.n_resamples!r}."
            )
        if self.progress is not None and not callable(self.progress):
            raise ParameterError(f"progress must be a function of two counts, not {self.progress!r}.")
        self.generator()

    def generator(self) -> np.random.Generator:
        """Return the source of all random numbers."""
        return random_source(self.random_state)


Statistic = Callable[[IntArray | None], float]
"""The value for rows that were drawn ``counts`` times, (n,), or for the original rows if it is None. It may
cache its last arguments, and must not be called by two threads at once."""


def statistic_of(metric: Callable[..., Any], data: LabelledPredictions, y_proba: Any) -> Statistic:
    """Return a statistic that uses weights for metrics of this library, and repeated rows for other functions.

    Other functions get the user's original labels, and probabilities in the shape of ``y_proba``
    as it was given: the positive class alone if that was flat.
    """
    if not is_declared(metric):
        return _by_rows(metric, data, y_proba)
    parts = parts_of(metric)
    return _mean(parts.values(data), data) if isinstance(parts, MeanMetric) else _by_weights(metric, data)


def _mean(values: Float64Array, data: LabelledPredictions) -> Statistic:
    """Return the mean of fixed row losses."""
    infinite = np.flatnonzero(np.isinf(values))
    finite = values.copy()
    finite[infinite] = 0.0

    def statistic(counts: IntArray | None) -> float:
        if counts is None:
            return float(np.average(values, weights=data.weights))
        if counts[infinite].any():  # handled separately, since infinity times zero is NaN
            return float("inf")
        weights = _weights(counts, data)
        return float((weights * finite).sum() / weights.sum())  # a product by BLAS would start threads

    return statistic


def _by_weights(metric: Callable[..., Any], data: LabelledPredictions) -> Statistic:
    evaluate = evaluator(metric, data)

    def statistic(counts: IntArray | None) -> float:
        if counts is None:
            return evaluate(data.labels, data.weights)
        return evaluate(data.labels, _weights(counts, data))

    return statistic


def _weights(counts: IntArray, data: LabelledPredictions) -> Float64Array:
    return counts.astype(np.float64) if data.weights is None else counts * data.weights


def _by_rows(metric: Callable[..., Any], data: LabelledPredictions, y_proba: Any) -> Statistic:
    labels = data.classes[data.labels]
    scores = data.predictions.probabilities
    if data.predictions.space is Space.PROBABILITIES and np.ndim(y_proba) == 1:
        scores = scores[:, 1]

    def statistic(counts: IntArray | None) -> float:
        if counts is None:
            rows: Any = slice(None)
        else:
            rows = np.repeat(np.arange(len(counts)), counts)
        weights = {} if data.weights is None else {"sample_weight": data.weights[rows]}
        return one_number(metric(labels[rows], scores[rows], **weights), metric)

    return statistic


Done = Generator[None, None, None]
"""Yields whenever one more resample is completed."""

# Each chunk has its own random generator; the number of chunks must not depend on the threads.
RESAMPLES_PER_CHUNK = 20

# Some systems deliver an interrupt only between waits of the main thread.
SECONDS_PER_WAIT = 0.1


def threads_for(metric: Callable[..., Any], n_rows: int) -> int:
    """Return the number of threads to use; a user's own function never runs in two at once."""
    return n_threads_available() if n_rows >= ROWS_FOR_THREADS and is_declared(metric) else 1


def replicates(
    make_statistic: Callable[[], Statistic],
    resampling: RowResampling,
    n_resamples: int,
    generator: np.random.Generator,
    n_threads: int = 1,
    progress: Progress | None = None,
) -> Float64Array:
    """Return the statistic of ``n_resamples`` resamples, (B,), in a reproducible order.

    Every thread creates its own statistic, since a statistic may cache data between calls. ``progress`` is called by
    the calling thread only. If that thread is interrupted, or anything fails, the others stop after their current
    resample.
    """
    starts = range(0, n_resamples, RESAMPLES_PER_CHUNK)
    generators = generator.spawn(len(starts))
    values = np.empty(n_resamples)

    def fill(first_chunk: int, step: int) -> Done:
        statistic = make_statistic()
        for chunk in range(first_chunk, len(starts), step):
            for resample in range(starts[chunk], min(starts[chunk] + RESAMPLES_PER_CHUNK, n_resamples)):
                values[resample] = statistic(resampling.counts(generators[chunk]))
                yield

    n_threads = min(n_threads, len(starts))
    step = max(1, n_resamples // 100)
    with closing(fill(0, 1) if n_threads == 1 else _in_threads(fill, n_threads)) as resamples:
        for done, _ in enumerate(resamples, start=1):
            if progress is not None and (done % step == 0 or done == n_resamples):
                progress(done, n_resamples)
    return values


def _in_threads(fill: Callable[[int, int], Done], n_threads: int) -> Done:
    """Distribute the work over threads and yield once per completed resample."""
    finished: SimpleQueue[Future[None] | None] = SimpleQueue()
    stopped = Event()

    def work(first_chunk: int) -> None:
        for _ in fill(first_chunk, n_threads):
            finished.put(None)
            if stopped.is_set():
                return

    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        try:
            for first_chunk in range(n_threads):
                pool.submit(work, first_chunk).add_done_callback(finished.put)
            n_working = n_threads
            while n_working:
                try:
                    entry = finished.get(timeout=SECONDS_PER_WAIT)
                except Empty:
                    continue
                if entry is None:
                    yield
                else:
                    entry.result()  # re-raises an exception of that thread
                    n_working -= 1
        finally:
            stopped.set()  # leaving the pool waits for its threads


# Each block costs one evaluation. The noise of the acceleration with m blocks is about 1 / (sqrt(6) m), 0.001, if block
# sums are nearly normal, and somewhat more for heavy tails.
MAX_BLOCKS = 500


def acceleration(statistic: Statistic, resampling: RowResampling, generator: np.random.Generator) -> float:
    r"""Return the acceleration of the BCa interval, a sixth of the skewness of the statistic.

    .. math::

        a = \frac{1}{6} \, \frac{\sum_j u_j^3}{\bigl( \sum_j u_j^2 \bigr)^{3/2}}, \qquad
        u_j = \frac{m - 1}{m} \bigl( \bar t - t_{(j)} \bigr)

    where :math:`t_{(j)}` is the value without block j, and :math:`\bar t` the mean of these over the m blocks of
    its stratum :cite:`efron1987,davison1997`. Blocks are single units (rows, or groups) if there are up to 500, and
    otherwise 500 random sets of units. The skewness of a sum of k terms is smaller by :math:`\sqrt k`, and
    there are k times fewer terms, so a is unchanged. Zero if leaving out blocks changes nothing; NaN
    if the statistic is not finite without some block.
    """
    blocks = resampling.blocks(generator, MAX_BLOCKS)
    n_blocks = len(blocks.stratum)
    if n_blocks == 0:
        return 0.0
    values = np.array(
        [statistic((blocks.block_of_row != block).astype(np.intp)) for block in range(n_blocks)]
    )
    if not np.isfinite(values).all():
        return float("nan")
    sizes = np.bincount(blocks.stratum)
    means = np.bincount(blocks.stratum, values)[blocks.stratum] / sizes[blocks.stratum]
    influences = (1 - 1 / sizes[blocks.stratum]) * (means - values)
    largest = np.abs(influences).max()
    # Differences that are only rounding carry no information on skewness.
    if largest <= 1e-14 * np.abs(values).max():
        return 0.0
    influences /= largest  # so that cubes do not underflow
    return float((influences**3).sum() / (6 * (influences**2).sum() ** 1.5))


NO_VALUE = "the metric is undefined for these rows, so there is no interval"


@dataclass(frozen=True, eq=False)
class Resampled:
    """Result of a bootstrap.

    Attributes
    ----------
    estimate : float
    limits : Limits
    values : ndarray
        The statistic in those resamples in which it is defined.
    n_undefined : int
        Number of the other resamples.
    method : str
        The method that was used for the limits in the end.
    note : str or None
        Why there is no value or no bound.
    """

    estimate: float
    limits: Limits
    values: Float64Array
    n_undefined: int
    method: str
    note: str | None = None

    @property
    def centre(self) -> float:
        """Median of the values, reflected at the estimate for basic limits."""
        if len(self.values) == 0:
            return float("nan")
        median = float(np.median(self.values))
        return 2 * self.estimate - median if self.method == "basic" else median

    @property
    def standard_error(self) -> float:
        """Standard deviation of the values."""
        if len(self.values) < 2:
            return float("nan")
        return float(self.values.std(ddof=1)) if np.isfinite(self.values).all() else float("inf")

    def interval(self, options: BootstrapOptions, **attributes: Any) -> Interval:
        """Return the result as an interval, with further attributes of it."""
        return Interval(
            estimate=self.estimate,
            low=self.limits.low,
            high=self.limits.high,
            level=float(options.level),
            standard_error=self.standard_error,
            n_resamples=int(options.n_resamples),
            n_undefined=self.n_undefined,
            note=self.note,
            **attributes,
        )


def resampled_interval(
    make_statistic: Callable[[], Statistic],
    resampling: RowResampling,
    options: BootstrapOptions,
    n_threads: int = 1,
    why_undefined: Callable[[], str] = lambda: NO_VALUE,
    if_infinite: str = "",
) -> Resampled:
    """Draw resamples and compute limits; problems are reported as warnings.

    ``why_undefined`` returns why the statistic is undefined for the rows themselves, and ``if_infinite`` is advice for
    infinite values.
    """
    generator = options.generator()
    statistic = make_statistic()
    estimate = statistic(None)
    if np.isnan(estimate):
        reason = why_undefined()
        _warn(reason)
        return Resampled(estimate, Limits(estimate, estimate), np.empty(0), 0, options.method, reason)
    values = replicates(
        make_statistic, resampling, options.n_resamples, generator, n_threads, options.progress
    )
    defined = values[~np.isnan(values)]
    n_undefined = len(values) - len(defined)
    if n_undefined:
        _warn(
            f"the metric is undefined in {n_undefined} of {len(values)} resamples, which are left out; "
            "stratify=True keeps all classes in every resample"
        )
    if len(defined) == 0:
        nothing = float("nan")
        return Resampled(estimate, Limits(nothing, nothing), defined, n_undefined, options.method)
    note = None
    if defined.min() == defined.max() and np.isinf(defined[0]):
        note = f"all resamples gave {defined[0]:g}, so there is no interval{if_infinite}"
        _warn(note)
    elif defined.min() == defined.max():
        _warn(
            f"all resamples gave {defined[0]:.6g}, so the interval has zero width and does not show the uncertainty "
            "of the estimate; for a proportion, use clopper_pearson"
        )
    limits, method = _limits(
        estimate, defined, options, lambda: acceleration(statistic, resampling, generator)
    )
    return Resampled(estimate, limits, defined, n_undefined, method, note)


def _limits(
    estimate: float, values: Float64Array, options: BootstrapOptions, skewness: Callable[[], float]
) -> tuple[Limits, BootstrapMethod]:
    level = options.level if options.uncorrected else for_a_further_one(options.level, len(values))
    percentile = percentile_limits(values, level)
    if options.method == "percentile":
        return percentile, "percentile"
    if not (np.isfinite(estimate) and np.isfinite(values).all()):
        _warn(
            f"the {options.method} interval needs finite values; the percentile interval is returned", depth=5
        )
        return percentile, "percentile"
    if options.method == "basic":
        return basic_limits(estimate, values, level), "basic"
    limits = bca_limits(estimate, values, level, skewness)
    if limits is None:
        _warn(
            "the BCa interval is undefined, since nearly all resamples lie on one side of the estimate or its "
            "acceleration is undefined; the percentile interval is returned",
            depth=5,
        )
        return percentile, "percentile"
    return limits, "bca"


def _warn(sentence: str, depth: int = 4) -> None:
    warnings.warn(f"{sentence}.", CalibrationWarning, stacklevel=depth)  # at the line of the user's call

"""Bayesian binning into quantiles: the mean of all equal-mass histograms, weighted by their evidence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, softmax

from calibrant.arrays import IntArray, Vector
from calibrant.batches import Summary
from calibrant.binning.schemes import nearest_masses
from calibrant.calibrator import Traits
from calibrant.calibrators.binned.merged_levels import merged, weight_per_row, with_batch
from calibrant.calibrators.reductions.binary_method import BinaryMethod, EventCounts, OneVsRestBatches
from calibrant.calibrators.reductions.event_scores import EventScores
from calibrant.errors import ParameterError
from calibrant.graph import Event
from calibrant.graph.curves import Piecewise
from calibrant.numerics.curves import StepFunctions
from calibrant.numerics.isotonic import Levels, levels
from calibrant.numerics.rounding import midpoint
from calibrant.options import check_choice, is_number
from calibrant.predictions import FLOOR_WITHOUT_ZEROS

__all__ = ["BayesianBinning"]

# A beta distribution wants positive parameters, also for a bin of no width at 0 or 1.
SMALLEST_PARAMETER = float(np.finfo(np.float64).tiny)

# So many bins are handled at a time: a dozen arrays of them stay within some megabytes.
BINS_AT_A_TIME = 2**16


@dataclass(frozen=True, eq=False)
class Partitions:
    """Several ways to cut levels 0..m-1 into bins, one after the other.

    Attributes
    ----------
    low, high : ndarray of shape (bins of all partitions,)
        First level of each bin, and the first level beyond it.
    starts : ndarray of shape (T,)
        Where the bins of each partition begin.
    """

    low: IntArray
    high: IntArray
    starts: IntArray

    @classmethod
    def joined(cls, parts: Sequence["Partitions"]) -> Self:
        """Return the partitions of all parts, one after the other."""
        sizes = np.concatenate([part.n_bins for part in parts])
        return cls(
            np.concatenate([part.low for part in parts]),
            np.concatenate([part.high for part in parts]),
            np.cumsum(sizes) - sizes,
        )

    @property
    def n_bins(self) -> IntArray:
        """Number of bins of each partition, (T,); none is empty."""
        return np.diff(np.append(self.starts, len(self.low)))

    def take(self, chosen: NDArray[np.bool_]) -> "Partitions":
        """Return some of the partitions, at least one."""
        bins, sizes = np.repeat(chosen, self.n_bins), self.n_bins[chosen]
        return Partitions(self.low[bins], self.high[bins], np.cumsum(sizes) - sizes)

    def __iter__(self) -> Iterator[slice]:
        """Yield the bins of one partition after the other."""
        for start, size in zip(self.starts.tolist(), self.n_bins.tolist(), strict=True):
            yield slice(start, start + size)


@dataclass(frozen=True, eq=False)
class BetaBins:
    r"""Bins of several models, each with its rows by outcome and a beta prior for the frequency of the event.

    Attributes
    ----------
    happened, failed : ndarray of shape (bins of all models,)
        Weight of the rows of each bin with the event and without.
    alpha, beta : ndarray of the same shape
        Parameters of the priors.
    """

    events: Vector
    non_events: Vector
    alpha: Vector
    beta: Vector

    @property
    def log_evidence(self) -> Vector:
        r"""Logarithm of the probability of the outcomes in each bin, averaged over the prior.

        .. math:: \log \int_0^1 \theta^m (1 - \theta)^{n - m}\, \mathrm{Beta}(\theta; \alpha, \beta)\, d\theta
            = \log \frac{\mathrm{B}(m + \alpha, n - m + \beta)}{\mathrm{B}(\alpha, \beta)}
        """
        evidence: Vector = betaln(self.events + self.alpha, self.non_events + self.beta) - betaln(
            self.alpha, self.beta
        )
        return evidence

    @property
    def posterior_mean(self) -> tuple[Vector, Vector]:
        """Mean probability that the event does not happen and that it does, given the rows; never zero."""
        non_events, events = self.non_events + self.beta, self.events + self.alpha
        return non_events / (non_events + events), events / (non_events + events)

    @property
    def accuracy(self) -> tuple[Vector, Vector]:
        """Share of the rows without and with the event."""
        total = self.non_events + self.events
        # A bin of no weight, but for the rounding of sums of very unequal weights, has no share.
        counted = np.where(total > 0, total, 1.0)
        events = np.where(total > 0, self.events / counted, 0.5)
        return np.where(total > 0, self.non_events / counted, 0.5), events


@dataclass(frozen=True)
class BinPrior:
    """Beta priors that believe the middle of each bin.

    Attributes
    ----------
    weight : float
        How many rows the priors count for.
    per_bin : bool
        Whether each bin counts for so many, or all bins of a model together, with equal parts.
    margin : float
        How far the means stay away from 0 and 1.
    """

    weight: float
    per_bin: bool
    margin: float

    def parameters(
        self, n_bins: NDArray[np.intp], middle: Vector, complement: Vector
    ) -> tuple[Vector, Vector]:
        """Return the parameters of the bins of models that have ``n_bins`` each, one model after the other.

        >>> middle, complement = np.array([0.25, 0.75]), np.array([0.75, 0.25])
        >>> BinPrior(2.0, per_bin=False, margin=0.0).parameters(np.array([2]), middle, complement)
        (array([0.25, 0.75]), array([0.75, 0.25]))
        """
        share = self.weight / (1 if self.per_bin else np.repeat(n_bins, n_bins))
        alpha, beta = (
            np.maximum(share * np.clip(mean, self.margin, 1 - self.margin), SMALLEST_PARAMETER)
            for mean in (middle, complement)
        )
        return alpha, beta


@dataclass(frozen=True, eq=False)
class LevelCounts:
    """Rows below each of m levels by outcome, so that those of any bin are a difference.

    Attributes
    ----------
    boundaries : ndarray of shape (m + 1,)
        What separates the levels, from 0 to 1.
    happened, failed : ndarray of shape (m + 1,)
        Weight of the rows below each level, and last of all rows, with the event and without.
    """

    boundaries: Vector
    events: Vector
    non_events: Vector

    @classmethod
    def of(cls, rows: Levels) -> Self:
        """Add up the rows of levels whose scores lie between 0 and 1; O(m)."""
        # Both added up for themselves: a difference of two long sums could be a little below zero.
        failures = np.maximum(rows.weight - rows.outcome_sum, 0.0)
        events, non_events = (
            np.concatenate([[0.0], np.cumsum(sums)]) for sums in (rows.outcome_sum, failures)
        )
        return cls(bin_boundaries(rows.score.astype(np.float64)), events, non_events)

    @property
    def mass(self) -> Vector:
        """Weight of the rows below each level, and last of all rows, (m + 1,)."""
        return self.events + self.non_events

    def bins(self, models: Partitions, prior: BinPrior) -> BetaBins:
        """Return the bins of some models with their priors; O(1) for each."""
        left, right = self.boundaries[models.low], self.boundaries[models.high]
        # Not one minus the middle, which near one would lose its digits.
        alpha, beta = prior.parameters(models.n_bins, (left + right) / 2, ((1 - left) + (1 - right)) / 2)
        events = self.events[models.high] - self.events[models.low]
        non_events = self.non_events[models.high] - self.non_events[models.low]
        return BetaBins(events, non_events, alpha, beta)


@dataclass(frozen=True, eq=False)
class StepAverage:
    """The steps of all functions that are constant on the bins of some partitions.

    Attributes
    ----------
    partitions : Partitions
    steps : ndarray of shape (M,)
        Levels at which a bin of any partition begins, increasing.
    lengths : ndarray of shape (bins of all partitions,)
        How many of these steps each bin covers.

    Examples
    --------
    >>> average = StepAverage.over(Partitions(np.array([0, 0, 3]), np.array([5, 3, 5]), np.array([0, 1])))
    >>> average.steps, average.lengths
    (array([0, 3]), array([2, 1, 1]))
    >>> average.sums(np.array([0.5, 1e-30, 0.25]))
    array([0.5 , 0.75])
    """

    partitions: Partitions
    steps: NDArray[np.intp]
    lengths: NDArray[np.intp]

    @classmethod
    def over(cls, partitions: Partitions) -> Self:
        """Find the steps; O(m) for m levels, and O(1) for each bin."""
        begins = np.zeros(partitions.high.max() + 1, dtype=np.bool_)
        begins[partitions.low] = True
        steps_before = np.cumsum(begins) - begins
        return cls(
            partitions, np.flatnonzero(begins), steps_before[partitions.high] - steps_before[partitions.low]
        )

    def sums(self, terms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum over partitions of the term of the bin that holds each step, (M,).

        Terms, one per bin, are the values times the weight of their partition. They are added, never taken
        away again as a running sum would, so that a mean of tiny values has all its digits. Costs O(M) for
        each partition.
        """
        total = np.zeros(len(self.steps))
        for bins in self.partitions:
            total += terms[bins].repeat(self.lengths[bins])
        return total


Value = Literal["posterior-mean", "accuracy"]

ModelAveraging = Literal["all", "best"]

PriorWeightPer = Literal["model", "bin"]

CHOICES: dict[str, tuple[str, ...]] = {
    "value": get_args(Value),
    "model_averaging": get_args(ModelAveraging),
    "prior_weight_per": get_args(PriorWeightPer),
}

# With more, up to the n/5 bins that n rows allow, all models together have up to n^2/50 bins.
LARGEST_BIN_RANGE_FACTOR = 100

# With stronger priors the evidences, differences of logarithms about as large, lose their digits.
LARGEST_PRIOR_WEIGHT = 1e6

# A thousand models of less weight than this change no digit of a value that is not below the floor.
NEGLIGIBLE_WEIGHT = FLOOR_WITHOUT_ZEROS * 1e-20

# Rounding in a sum of weights does not add a model.
COUNT_TOLERANCE = 1e-9


class BayesianBinning(BinaryMethod):
    r"""Bayesian binning into quantiles (BBQ): a Bayesian average of all equal-mass histograms.

    .. math:: \hat q(p) = \sum_t P(M_t \mid D)\, \theta_{t, b_t(p)}, \qquad
        P(M_t \mid D) \propto P(D \mid M_t) = \prod_{b=1}^{B_t}
        \frac{\mathrm{B}(m_b + \alpha_b,\; n_b - m_b + \beta_b)}{\mathrm{B}(\alpha_b, \beta_b)}

    :cite:`naeini2015`. Model :math:`M_t` divides the scores into :math:`B_t` bins of equal mass. Bin b has
    :math:`n_b` rows, :math:`m_b` of them events, and a beta prior whose mean is the centre :math:`c_b` of the bin,
    :math:`\alpha_b = c_b N'/B_t` and :math:`\beta_b = (1 - c_b) N'/B_t`. All models have the same prior probability; their
    numbers of bins are

    .. math:: \max(1, \lfloor n^{1/3} / C \rfloor) \le B \le \min(\lceil n/5 \rceil, \lceil C n^{1/3} \rceil)

    Parameters
    ----------
    value : {"posterior-mean", "accuracy"}, default="posterior-mean"
        Value of a bin, :math:`\theta_b`: the posterior mean, :math:`(m_b + \alpha_b) / (n_b + N'/B)`, as in the paper;
        or the event frequency, :math:`m_b / n_b`, as in :cite:`wenger2020`, whose zeros and ones may give infinite log-loss.
    model_averaging : {"all", "best"}, default="all"
        Average all models, or use the one with the largest evidence.
    bin_range_factor : float, default=10
        C, from 1 to 100: range of the numbers of bins around :math:`n^{1/3}`. Time and memory of a fit grow
        with its square.
    prior_weight : float, default=2
        :math:`N'`: pseudo-counts of the prior.
    prior_weight_per : {"model", "bin"}, default="model"
        Whether the pseudo-counts are for all bins of a model together, :math:`N'/B_t` each, as in the paper;
        or for each bin, as in the authors' program.
    prior_margin : float, default=0
        Distance of the prior means :math:`c_b` from 0 and 1; below 1/2. In the authors' program it is 0.005.

    Attributes
    ----------
    edges_ : ndarray of shape (M + 1,)
        Edges of the steps of the averaged map, from 0 to 1; step j is [``edges_[j]``, ``edges_[j + 1]``). Adjacent steps
        differ in value or complement.
    values_ : ndarray of shape (M,)
        Probability of the event on each step.
    complements_ : ndarray of shape (M,)
        One minus the values, with full precision for values close to 1.
    model_n_bins_ : ndarray of shape (T,)
        Number of bins of each model.
    model_log_evidences_ : ndarray of shape (T,)
        :math:`\log P(D \mid M_t)` of each model.
    model_weights_ : ndarray of shape (T,)
        Posterior probability of each model; with ``model_averaging="best"`` one for the best and else zero.

    Notes
    -----
    *Edges* are midpoints of adjacent scores, so that equal scores share a bin and no bin is empty; the outermost are 0
    and 1. Models that are identical because of ties count once, and :math:`B_t` is the resulting number of bins. Weights
    are frequencies with sum n; weights with a mean below 1 are rescaled to mean 1.

    *Small probabilities.* In a bin without events the posterior mean is that of the prior, shrunk further to 0, and the
    paper's prior is centred at the scores of the bin. A rare event among the tiny scores of a confident classifier has a
    large, though finite, log-loss, and can exclude all models except that of one bin, with which all scores become equal
    and accuracy is lost. ``prior_weight_per="bin"`` with ``prior_margin=0.005``, the registry name "bbq", is the setting
    that the authors' program attributes to the paper, and is much better for such scores; "bbq-paper" is the text of the
    paper, and the default of this class. The map need not be monotone or arg-max-preserving.

    *Programs and paper.* The authors' program has the same edges. Besides other priors it has a different bin value,
    with one pseudo-row, and drops models of small weight. The program of :cite:`wenger2020` uses interpolated quantiles as
    edges, fits bins [a, b) and predicts with bins (a, b]: a score on an edge, such as 1 if many are 1, gets the value of
    another bin, and a score of exactly 0 that of the last bin. It keeps bins of zero width, whose prior is so certain that
    a single contrary row nearly excludes the model.

    *Batches.* ``partial_fit`` keeps the distinct scores with the numbers of rows and events, and averages all models again
    with every batch. Up to 10,000 distinct scores it equals a fit of all rows. More are merged into about 5,000 cells of
    equal mass, each at its mean score, with edges between cells. That moves a few rows to the next bin and changes the
    weights of the models slightly: with 40,000 rows the effect on the map is about that of leaving out one row in a
    thousand, a tenth of its error. Each class takes 240 kB at most.

    Costs a sort, :math:`O(C^2 n^{2/3} \log n)` for the bins of all models, and for the mean the number of
    models with non-negligible weight times the number of steps; prediction is a binary search. A fit takes
    :math:`O(n + C^2 n^{2/3})` memory. The map has at most n steps of 24 bytes, often far fewer, so those of K classes
    take at most 24 nK bytes.

    Examples
    --------
    For eight rows there are models with one bin and with two. The posterior mean is 1/2 with one bin; with two they are
    (1 + 1/4) / (4 + 1) and (3 + 3/4) / (4 + 1).

    >>> p, y = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 0, 1, 0, 1, 1, 0, 1]
    >>> fitted = BayesianBinning().fit(p, y)
    >>> fitted.model_n_bins_, fitted.model_weights_.round(3)
    (array([1, 2]), array([0.529, 0.471]))
    >>> fitted.edges_, fitted.values_.round(3)
    (array([0. , 0.5, 1. ]), array([0.382, 0.618]))
    >>> fitted.predict_proba([0.0, 0.45, 0.5])[:, 1].round(3)
    array([0.382, 0.382, 0.618])
    """

    traits = Traits()
    batches: ClassVar[Summary | None] = OneVsRestBatches(EventCounts())
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {
        "bbq": {"prior_weight_per": "bin", "prior_margin": 0.005},
        "bbq-paper": {},
    }

    def __init__(
        self,
        value: Value = "posterior-mean",
        model_averaging: ModelAveraging = "all",
        bin_range_factor: float = 10.0,
        prior_weight: float = 2.0,
        prior_weight_per: PriorWeightPer = "model",
        prior_margin: float = 0.0,
    ) -> None:
        self.value = value
        self.model_averaging = model_averaging
        self.bin_range_factor = bin_range_factor
        self.prior_weight = prior_weight
        self.prior_weight_per = prior_weight_per
        self.prior_margin = prior_margin

    def _check_parameters(self) -> None:
        for name, allowed in CHOICES.items():
            check_choice(name, getattr(self, name), allowed)
        factor = self.bin_range_factor
        if not is_number(factor) or not 1 <= factor <= LARGEST_BIN_RANGE_FACTOR:
            raise ParameterError(
                f"bin_range_factor must be a number from 1 to {LARGEST_BIN_RANGE_FACTOR}, such as 10, "
                f"but is {factor!r}."
            )
        if not is_number(self.prior_weight) or not 0 < self.prior_weight <= LARGEST_PRIOR_WEIGHT:
            raise ParameterError(
                f"prior_weight must be a number above 0 and at most {LARGEST_PRIOR_WEIGHT:g}, such as 2, "
                f"but is {self.prior_weight!r}."
            )
        if not is_number(self.prior_margin) or not 0 <= self.prior_margin < 0.5:
            raise ParameterError(
                "prior_margin must be a number from 0 to below 0.5, such as 0.005, "
                f"but is {self.prior_margin!r}."
            )

    def _fit_event(self, scores: EventScores, outcomes: NDArray[np.bool_], weights: Vector | None) -> None:
        self._fit_levels(levels(_in_range(scores), outcomes, weights))

    def _event_memory(
        self, scores: EventScores, outcomes: NDArray[np.bool_], weights: Vector | None, n_rows: float
    ) -> dict[str, Any]:
        rows = levels(_in_range(scores), outcomes, weights)
        if n_rows != len(outcomes):
            # Rows that have faded counted in full as long as they were at hand.
            self._fit_levels(_counting_rows(rows, n_rows))
        return _batch_state(merged(rows), n_rows)

    def _update_event(
        self,
        scores: EventScores,
        outcomes: NDArray[np.bool_],
        weights: Vector | None,
        kept: float,
        n_rows: float,
    ) -> None:
        memory = self.memory_
        past = Levels(memory["score"], memory["weight"], memory["outcome_sum"])
        rows = merged(with_batch(past, kept, levels(_in_range(scores), outcomes, weights)))
        self.memory_ = _batch_state(rows, n_rows)
        self._fit_levels(_counting_rows(rows, n_rows))

    def _fit_levels(self, rows: Levels) -> None:
        counts = LevelCounts.of(rows)
        chunks, evidences = [], []
        for models in distinct_partitions(counts.mass, self._numbers_of_bins(rows)):
            chunks.append(models)
            by_bin = counts.bins(models, self._prior()).log_evidence
            evidences.append(np.add.reduceat(by_bin, models.starts))
        models = Partitions.joined(chunks)
        self.model_n_bins_ = models.n_bins
        self.model_log_evidences_ = np.concatenate(evidences)
        self.model_weights_ = self._weights()
        self._average(counts, models)

    def _average(self, counts: LevelCounts, models: Partitions) -> None:
        """Make one step function of all models whose weight can show in any digit."""
        smooth = self.value == "posterior-mean"
        relevant = self.model_weights_ > (NEGLIGIBLE_WEIGHT if smooth else 0.0)
        models = models.take(relevant)
        bins = counts.bins(models, self._prior())
        non_events, events = bins.posterior_mean if smooth else bins.accuracy
        weights = np.repeat(self.model_weights_[relevant], models.n_bins)
        average = StepAverage.over(models)
        # Anything smaller than this floor would become a zero in float32.
        floor = FLOOR_WITHOUT_ZEROS if smooth else 0.0
        sums = [np.maximum(average.sums(weights * share), floor) for share in (events, non_events)]
        # Bins of models with little weight begin everywhere, and may change no bit of the mean.
        steps = StepFunctions(counts.boundaries[average.steps[1:]], np.stack(sums)).distinct()
        self.edges_ = np.concatenate([[0.0], steps.places, [1.0]])
        self.values_, self.complements_ = steps.values

    def _traced_event(self, event: Event) -> Event:
        # Rounding may have left a probability a little above 1.
        place = event.probability.clip(high=1.0)
        happens, fails = (
            place.then(Piecewise.steps(self.edges_[1:-1], values))
            for values in (self.values_, self.complements_)
        )
        return event.with_probability(happens, fails)

    def _prior(self) -> BinPrior:
        return BinPrior(float(self.prior_weight), self.prior_weight_per == "bin", float(self.prior_margin))

    def _numbers_of_bins(self, rows: Levels) -> NDArray[np.intp]:
        """Return the numbers of bins to try; no partition has more bins than there are levels."""
        n_rows = float(rows.weight.sum())
        root, factor = float(np.cbrt(n_rows)), float(self.bin_range_factor)
        fewest = np.floor(root / factor * (1 + COUNT_TOLERANCE))
        most = np.ceil(min(n_rows / 5, factor * root) * (1 - COUNT_TOLERANCE))
        first, last = (int(np.clip(number, 1, len(rows.score))) for number in (fewest, most))
        return np.arange(first, max(first, last) + 1)

    def _weights(self) -> Vector:
        if self.model_averaging == "all":
            weights: Vector = softmax(self.model_log_evidences_)
            return weights
        best = np.zeros(len(self.model_log_evidences_))
        best[np.argmax(self.model_log_evidences_)] = 1.0
        return best


def _counting_rows(rows: Levels, n_rows: float) -> Levels:
    """Return levels whose weights count rows, of which there were ``n_rows``."""
    one = weight_per_row(rows.weight, n_rows)
    return rows if one == 1 else Levels(rows.score, rows.weight / one, rows.outcome_sum / one)


def _batch_state(rows: Levels, n_rows: float) -> dict[str, Any]:
    """Return levels as plain arrays, which a file can hold."""
    return {
        "rows": float(n_rows),
        "score": rows.score,
        "weight": rows.weight,
        "outcome_sum": rows.outcome_sum,
    }


def _in_range(scores: EventScores) -> Vector:
    """Return the probabilities of the event; rounding may have left one a little above 1."""
    return np.minimum(scores.probability, 1.0)


def equal_mass_partitions(mass: Vector, n_bins: IntArray) -> Partitions:
    """Cut levels so that all bins of a partition hold the same mass, as nearly as they can.

    ``mass`` is the total weight below each level and, last, that of all, (m + 1,); partition t has at most
    ``n_bins[t]`` bins, and fewer where heavy levels leave some without any. The cuts are those of
    :class:`~calibrant.binning.EqualMass`. Costs O(log m) for each bin.

    >>> partitions = equal_mass_partitions(np.arange(7.0), np.array([1, 2, 3]))
    >>> partitions.low, partitions.high, partitions.starts
    (array([0, 0, 3, 0, 2, 4]), array([6, 3, 6, 2, 4, 6]), array([0, 1, 3]))
    """
    sizes = n_bins + 1
    first = np.cumsum(sizes) - sizes
    number = np.arange(sizes.sum()) - np.repeat(first, sizes)
    cuts = nearest_masses(mass, mass[-1] * number / np.repeat(n_bins, sizes))
    cuts[first], cuts[first + n_bins] = 0, len(mass) - 1
    # Where neighbours are equal there is no bin, and from one partition to the next the cuts fall back to 0.
    real = np.flatnonzero(cuts[1:] > cuts[:-1])
    return Partitions(cuts[real], cuts[real + 1], np.searchsorted(real, first))


def distinct_partitions(mass: Vector, n_bins: IntArray) -> Iterator[Partitions]:
    """Yield the partitions of :func:`equal_mass_partitions` that differ from all before, some at a time.

    >>> [partitions.n_bins for partitions in distinct_partitions(np.array([0.0, 9.0, 10.0]), np.arange(1, 5))]
    [array([1, 2])]
    """
    seen: set[bytes] = set()
    chunks = np.cumsum(n_bins + 1) // BINS_AT_A_TIME
    for chunk in np.split(n_bins, np.flatnonzero(np.diff(chunks)) + 1):
        partitions = equal_mass_partitions(mass, chunk)
        is_new = np.zeros(len(chunk), dtype=np.bool_)
        for index, bins in enumerate(partitions):
            key = partitions.low[bins].tobytes()
            is_new[index] = key not in seen
            seen.add(key)
        if is_new.all():
            yield partitions
        elif is_new.any():
            yield partitions.take(is_new)


def bin_boundaries(scores: Vector) -> Vector:
    """Return what separates increasing scores (m,) of the range 0 to 1, from 0 to 1, (m + 1,).

    Midway between neighbours, or the upper one where no float lies between them; bins are [a, b).

    >>> bin_boundaries(np.array([0.2, 0.4]))
    array([0. , 0.3, 1. ])
    """
    return np.concatenate([[0.0], midpoint(scores[:-1], scores[1:]), [1.0]])

"""Contents of a report as plain data: sentences, numbers and tuples of them, without layout.

Every field is a string, a number, a Boolean, None, or a tuple or dictionary of these, so it maps to JSON directly. None is a
missing value, such as that of an empty bin or an interval that was not computed. Infinite losses are ``inf``, and strings in
JSON.
"""

from dataclasses import dataclass, field
from math import isinf
from typing import Literal

from calibrant.presentation import Range

__all__ = [
    "RARE",
    "BinSensitivityNumbers",
    "ClassRow",
    "CumulativeNumbers",
    "Curve",
    "DataSummary",
    "DecisionNumbers",
    "DecompositionRow",
    "Detectable",
    "Estimate",
    "EventNumbers",
    "Example",
    "LearningNumbers",
    "MethodRow",
    "Numbers",
    "Origin",
    "Pitfall",
    "Recommendation",
    "Repeatability",
    "ScoreRow",
    "SegmentRow",
    "SelectiveRow",
    "SubgroupNumbers",
    "TestRow",
    "ThresholdRow",
    "Verdict",
]

Numbers = tuple[float | None, ...]

RARE = 0.1
"""Events of at most this mean probability are rare: their error is judged by a factor, not by percentage points."""


@dataclass(frozen=True)
class Estimate:
    """An estimate with its confidence interval and definition."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    definition: str = ""
    higher_is_better: bool = False
    note: str | None = None

    def interval(self, *, signed: bool = False) -> Range:
        """Return the confidence interval, as a range to be formatted.

        >>> Estimate("gap", 0.2, 0.1, 0.3).interval().text(), Estimate("error", 0.2, 0.1).interval(signed=True).text()
        ('0.1000 to 0.3000', 'at least +0.1000')
        """
        # An end that is tiny relative to the others is shown as zero.
        sizes = [abs(one) for one in (self.value, self.low, self.high) if one is not None]
        return Range(self.low, self.high, signed=signed, tiny=max(sizes, default=0.0) < 0.001)

    @property
    def is_infinite(self) -> bool:
        """Whether the value is infinite."""
        return self.value is not None and isinf(self.value)

    @property
    def direction(self) -> Literal["better", "worse", "same", "open", ""]:
        """Direction of a difference: "open" if the interval contains zero, "same" if it is zero, empty without an interval.

        An infinite difference, between an infinite and a finite loss, has a direction without an interval.
        """
        if self.value is not None and isinf(self.value):
            return "better" if (self.value > 0) == self.higher_is_better else "worse"
        if self.low is None or self.high is None:
            return ""
        if self.low == self.high == 0:
            return "same"
        if self.low <= 0 <= self.high:
            return "open"
        return "better" if (self.low > 0) == self.higher_is_better else "worse"


@dataclass(frozen=True)
class DataSummary:
    """Summary of the data.

    Attributes
    ----------
    classes, class_counts : tuple
        Labels as strings, and the number of rows (or the total weight) of each.
    n_zeros, n_refuted : int
        Number of probabilities that are exactly zero, and of rows whose true class had probability zero.
    n_distinct, largest_tie : int, float
        Number of distinct confidences, and the fraction of rows with the most frequent one.
    n_left_out : int
        Number of rows of weight zero, which ``n_rows`` does not count.
    """

    n_rows: int
    n_classes: int
    space: str
    float_type: str
    classes: tuple[str, ...]
    class_counts: tuple[float, ...]
    absent_classes: tuple[str, ...]
    effective_rows: float
    weighted: bool
    n_groups: int | None
    n_zeros: int
    n_refuted: int
    n_distinct: int
    largest_tie: float
    mean_confidence: float
    accuracy: float
    split: str
    n_left_out: int = 0


@dataclass(frozen=True)
class EventNumbers:
    """Observed and expected number of rare events.

    Attributes
    ----------
    name : str
        What is counted, such as "rows of class 1" or "mistakes".
    expected : float
        Sum of the predicted probabilities.
    observed : int
    factor_too_high, factor_too_low : float or None
        Factor by which the probabilities must be too high, or too low, to be detected with a power of 80 %; None if no
        factor reaches this power.
    """

    name: str
    expected: float
    observed: int
    factor_too_high: float | None
    factor_too_low: float | None


@dataclass(frozen=True)
class Detectable:
    """Power of the tests against one kind of miscalibration, by simulation on the rows at hand.

    Attributes
    ----------
    kind : str
        Such as "constant shift", "waves" or "two classes swapped".
    unit : str
        What the sizes are.
    sizes : tuple of float
    powers : tuple of float or None
        Probability that the tests reject calibration, for each size; None if no error of this kind is that large.
    smallest : float or None
        Smallest size that is detected with a power of 80 %; None if there is none.
    """

    kind: str
    unit: str
    sizes: tuple[float, ...]
    powers: Numbers
    smallest: float | None


@dataclass(frozen=True)
class Verdict:
    """Verdict: whether the predictions are calibrated, with evidence, direction and the classes concerned.

    Attributes
    ----------
    status : {"calibrated", "miscalibrated", "unclear", "too-few-events"}
        "miscalibrated" means that a test rejects calibration. If none does, "calibrated" means that the tests had enough power
        against a relevant error; "unclear" that there are too few rows for this power; "too-few-events" that events are rare
        and too few to detect probabilities that are twice too high or too low.
    headline : str
        One sentence.
    sentences : tuple of str
        Further sentences, each of which can stand alone.
    direction : {"over-confident", "under-confident", "mixed", "none"}
        Overall direction of the miscalibration.
    worst_classes : tuple of str
        Labels of the significantly miscalibrated classes, the worst first.
    smallest_detectable : float or None
        Mean error in the probability of the main event that is detected with a power of 80 %, whether it is a constant shift,
        over-confidence or waves; None if one of these goes undetected at any size.
    events : EventNumbers or None
        Counts of the rarer outcome of the main event, if its mean probability is at most 10 %.
    detectable : tuple of Detectable
        Power of the tests against kinds of miscalibration.
    """

    status: Literal["calibrated", "miscalibrated", "unclear", "too-few-events"]
    headline: str
    sentences: tuple[str, ...]
    direction: Literal["over-confident", "under-confident", "mixed", "none"]
    worst_classes: tuple[str, ...]
    p_value: float
    smallest_detectable: float | None
    events: EventNumbers | None = None
    detectable: tuple[Detectable, ...] = ()


@dataclass(frozen=True)
class MethodRow:
    """Cross-validated scores of one method."""

    name: str
    log_loss: float | None
    brier_score: float | None
    accuracy: float | None
    confidence_ece: float | None
    classwise_ece: float | None
    log_loss_difference: Estimate | None
    brier_difference: Estimate | None
    changed_decisions: float | None
    keeps_argmax: bool
    seconds: float | None
    notes: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Recommendation:
    """Recommendation: calibrate or keep, with gain and side effects.

    ``baseline`` names the predictions with which ``gain`` and ``methods`` compare losses after calibration.
    """

    action: Literal["calibrate", "keep"]
    method: str
    headline: str
    sentences: tuple[str, ...]
    gain: Estimate | None
    gain_share: float | None
    accuracy_change: Estimate | None
    sharpness_change: Estimate | None
    changed_decisions: float | None
    more_rows: str
    how: str
    methods: tuple[MethodRow, ...]
    baseline: str = "the uncalibrated predictions"


@dataclass(frozen=True)
class ScoreRow:
    """A score before and after calibration, and the paired difference (after minus before)."""

    before: Estimate
    after: Estimate | None
    difference: Estimate | None


@dataclass(frozen=True)
class SelectiveRow:
    """Accuracy of the most confident rows, at most a fraction ``coverage`` of all; thresholds are confidences."""

    coverage: float
    threshold: float | None
    before: Estimate
    threshold_after: float | None
    after: Estimate | None


@dataclass(frozen=True)
class DecompositionRow:
    """Decomposition of a proper score: score = miscalibration - discrimination + uncertainty.

    ``removable`` is the reduction of the loss by cross-validated recalibration. It is a lower bound on the miscalibration,
    without the optimism of fitting and measuring on the same rows. ``refinement`` is the loss that remains.
    """

    loss: str
    stage: str
    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    removable: Estimate | None
    refinement: float | None
    definition: str


@dataclass(frozen=True)
class TestRow:
    """A hypothesis test, with its p-value before and after adjustment for multiple testing."""

    __test__ = False

    name: str
    event: str
    statistic: float
    p_value: float
    adjusted_p_value: float
    sentence: str


@dataclass(frozen=True)
class Curve:
    """A reliability diagram: bins, isotonic curve, band and histogram of one event and one method.

    ``limit`` is the upper end of both axes: 1, or for rare events a value just above the bins.
    """

    method: str
    event: str
    label: str | None
    n_rows: int
    definition: str
    edges: Numbers
    count: tuple[int, ...]
    mean_score: Numbers
    mean_outcome: Numbers
    low: Numbers
    high: Numbers
    consistency_low: Numbers
    consistency_high: Numbers
    small: tuple[bool, ...]
    isotonic_score: Numbers
    isotonic_outcome: Numbers
    band_score: Numbers
    band_low: Numbers
    band_high: Numbers
    histogram_edges: Numbers
    histogram_count: tuple[int, ...]
    limit: float = 1.0


@dataclass(frozen=True)
class ClassRow:
    """Calibration of one class."""

    label: str
    n_rows: float
    share: float
    mean_probability: float
    in_the_large: Estimate
    slope: Estimate | None
    ece: float
    ece_noise: float
    lower_bound: float | None
    p_value: float
    adjusted_p_value: float
    direction: Literal["too high", "too low", "too extreme", "too timid", "none"]
    after_ece: float | None


@dataclass(frozen=True)
class CumulativeNumbers:
    """Cumulative sum of outcomes minus scores, in the order of the scores."""

    method: str
    event: str
    share: Numbers
    score: Numbers
    difference: Numbers
    sigma: float
    kuiper: float
    p_value: float


@dataclass(frozen=True)
class BinSensitivityNumbers:
    """A binned error for several numbers of bins, with its distribution under calibration."""

    method: str
    metric: str
    n_bins: tuple[int, ...]
    equal_width: Numbers
    equal_mass: Numbers
    debiased: Numbers
    noise: Numbers
    noise_high: Numbers


@dataclass(frozen=True)
class LearningNumbers:
    """Learning curve: cross-validated loss by size of the calibration set."""

    method: str
    sizes: tuple[int, ...]
    loss: Numbers
    low: Numbers
    high: Numbers
    uncalibrated: float
    sentence: str


@dataclass(frozen=True)
class Example:
    """The recommended calibrator, with one row of scores and its calibrated probabilities.

    Attributes
    ----------
    method : str
        Name of the method.
    space : str
        Space of the scores: "probabilities" or "logits".
    graph : str
        The calibrator as JSON, fitted to all rows on which methods were compared; see :doc:`/javascript`.
    scores, calibrated : tuple of float
        A row of scores, and the calibrated probabilities.
    """

    method: str
    space: str
    graph: str
    scores: Numbers
    calibrated: Numbers


@dataclass(frozen=True)
class Pitfall:
    """A caveat on the results."""

    severity: Literal["warning", "note"]
    text: str


@dataclass(frozen=True)
class Origin:
    """When, from which data and by which command a report was made.

    Attributes
    ----------
    date : str
        Time in UTC.
    sha256 : str
        SHA-256 of the file; without a file, of the scores and the numbers of the true classes in memory.
    file : str
        Path of the file as the user gave it; empty for arrays in memory and for standard input.
    command : str
        The command line; empty for a call in Python.
    options : dict
        Options of ``calibrant fit`` that read the same rows: names with values, empty for switches.
    """

    date: str
    sha256: str
    file: str = ""
    command: str = ""
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Repeatability:
    """Settings and versions that reproduce the numbers."""

    settings: dict[str, str]
    versions: dict[str, str]
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SegmentRow:
    """Calibration of one segment before and after calibration; ``p_value`` is adjusted for the search over segments."""

    segment: str
    n_rows: int
    predicted: float
    observed: float
    low: float
    high: float
    p_value: float
    predicted_after: float | None = None
    p_value_after: float | None = None


@dataclass(frozen=True)
class SubgroupNumbers:
    """Calibration within segments of side columns.

    Attributes
    ----------
    columns : tuple of str
        The side columns.
    event : str
        What the probabilities refer to.
    n_segments, n_left_out, n_rejected : int
        Segments that were tested, that had too few rows, and that are rejected before calibration.
    n_rejected_after : int or None
        Segments that are rejected after calibration.
    level : float
        Confidence level of all intervals together.
    rows : tuple of SegmentRow
        The segments with the strongest evidence first.
    """

    columns: tuple[str, ...]
    event: str
    n_segments: int
    n_left_out: int
    n_rejected: int
    n_rejected_after: int | None
    level: float
    rows: tuple[SegmentRow, ...]


@dataclass(frozen=True)
class ThresholdRow:
    """Net benefit of acting from a probability on, before and after calibration, and of acting on all rows."""

    threshold: float
    before: Estimate
    after: Estimate | None
    everyone: float


@dataclass(frozen=True)
class DecisionNumbers:
    """Decisions under a cost matrix.

    Attributes
    ----------
    costs : tuple of tuples
        A row per decision, a column per class.
    threshold : float or None
        Calibrated probability of the second of two classes from which on the second of two decisions is cheaper.
    before, after : Estimate
        Mean realised cost per row.
    predicted, predicted_after : float
        Mean cost that the probabilities predict for the same decisions.
    difference : Estimate or None
        After minus before, paired by row.
    fixed : float
        Mean cost of the best single decision for all rows.
    thresholds : tuple of ThresholdRow
        Net benefit; empty for more than two classes.
    """

    costs: tuple[tuple[float, ...], ...]
    threshold: float | None
    before: Estimate
    predicted: float
    after: Estimate | None
    predicted_after: float | None
    difference: Estimate | None
    fixed: float
    thresholds: tuple[ThresholdRow, ...]

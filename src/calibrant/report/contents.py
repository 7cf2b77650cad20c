"""What a report says, as plain data: sentences, numbers and tuples of them, before any layout.

Every field is a text, a number, a truth value, None, or a tuple or dictionary of such, so that JSON is direct. None
stands for what has no value: an empty bin, an interval that was not computed. Infinite losses are kept as ``inf``;
JSON writes them as text.
"""

from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "BinSensitivityNumbers",
    "ClassRow",
    "CumulativeNumbers",
    "Curve",
    "DataSummary",
    "Decomposition",
    "Estimate",
    "EventNumbers",
    "LearningNumbers",
    "MethodRow",
    "Pitfall",
    "Recommendation",
    "Repeatability",
    "ScoreRow",
    "TestRow",
    "Verdict",
]

Numbers = tuple[float | None, ...]


@dataclass(frozen=True)
class Estimate:
    """A number with its interval and what exactly it is."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    definition: str = ""
    higher_is_better: bool = False
    note: str | None = None


@dataclass(frozen=True)
class DataSummary:
    """What was looked at.

    Attributes
    ----------
    classes, class_counts : tuple
        Labels as text, and how many rows (or how much weight) each has.
    n_zeros, n_refuted : int
        Probabilities that are exactly zero, and rows whose true class had one.
    n_distinct, largest_tie : int, float
        Number of different confidences, and the share of rows that have the most frequent one.
    n_left_out : int
        Rows of weight zero, which are not among ``n_rows``.
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
        Sum of their probabilities.
    observed : int
    factor_too_high, factor_too_low : float or None
        By how many times the probabilities must be too high, or too low, to be seen with a probability of 80 %; None if
        no factor would be.
    """

    name: str
    expected: float
    observed: int
    factor_too_high: float | None
    factor_too_low: float | None


@dataclass(frozen=True)
class Verdict:
    """Calibrated or not, how sure that is, in which direction and for which classes.

    Attributes
    ----------
    status : {"calibrated", "miscalibrated", "unclear", "too-few-events"}
        "calibrated" means that no test objects and that an error worth speaking of would have been seen; "unclear" that no test
        objects, but the rows are too few to see such an error; "too-few-events" that no test objects, but so few rare events are
        expected that probabilities twice too high or too low could go unseen.
    headline : str
        One sentence.
    sentences : tuple of str
        The rest, each of which can stand alone.
    direction : {"over-confident", "under-confident", "mixed", "none"}
        What predictions do, on the whole.
    worst_classes : tuple of str
        Labels of classes whose probabilities are off beyond noise, the worst first.
    smallest_detectable : float or None
        Error in the confidence that these rows would show with a probability of 80 %.
    events : EventNumbers or None
        Of the rarer outcome of the main event, where at most one in ten is expected.
    """

    status: Literal["calibrated", "miscalibrated", "unclear", "too-few-events"]
    headline: str
    sentences: tuple[str, ...]
    direction: Literal["over-confident", "under-confident", "mixed", "none"]
    worst_classes: tuple[str, ...]
    p_value: float
    smallest_detectable: float | None
    events: EventNumbers | None = None


@dataclass(frozen=True)
class MethodRow:
    """One method of the comparison on rows that it was not fitted to."""

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
    """What to do, what it brings and what it costs.

    ``baseline`` says in words what losses after calibration are compared with, in ``gain`` and in ``methods``.
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
    baseline: str = "the predictions as given"


@dataclass(frozen=True)
class ScoreRow:
    """A score before and after calibration, and the paired difference (after minus before)."""

    before: Estimate
    after: Estimate | None
    difference: Estimate | None


@dataclass(frozen=True)
class Decomposition:
    """A proper score taken apart: score = miscalibration - discrimination + uncertainty.

    ``removable`` is what a recalibration fitted on other rows takes off, a lower bound of the miscalibration without the
    optimism of fitting and measuring on the same rows; ``refinement`` is what is left then.
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
    """A hypothesis test, its p-value adjusted for the number of tests where they come in families."""

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

    ``limit`` is where both axes end: at 1, or for rare events not far above the bins.
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
    """How good the probabilities of one class are."""

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
    """Outcomes minus scores, added up from the lowest score to the highest."""

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
    """A binned error for several numbers of bins, and what noise alone would give."""

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
    """Loss on rows held out by the number of calibration rows."""

    method: str
    sizes: tuple[int, ...]
    loss: Numbers
    low: Numbers
    high: Numbers
    uncalibrated: float
    sentence: str


@dataclass(frozen=True)
class Pitfall:
    """Something a reader should know before believing a number."""

    severity: Literal["warning", "note"]
    text: str


@dataclass(frozen=True)
class Repeatability:
    """Settings and versions with which the same numbers come out again."""

    settings: dict[str, str]
    versions: dict[str, str]
    seconds: dict[str, float] = field(default_factory=dict)

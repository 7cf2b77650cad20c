"""Contents of the sections of a report that the user asks for: subgroups, and decisions under costs."""

from dataclasses import dataclass

from calibrant.report.contents import Estimate

__all__ = ["DecisionNumbers", "SegmentRow", "SubgroupNumbers", "ThresholdRow"]


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

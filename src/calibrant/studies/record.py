"""Record: what came of one unit of a study."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["DONE", "FAILED", "TOO_SLOW", "Outcome", "Record"]

DONE = "done"
FAILED = "failed"
TOO_SLOW = "too slow"


@dataclass(frozen=True)
class Outcome:
    """What the work of a unit gives: numbers by name, and anything else worth keeping that JSON knows."""

    values: Mapping[str, float]
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """What came of one unit.

    Attributes
    ----------
    key : str
        Of the unit: a hash of all that determines the result.
    labels : mapping
        What the unit is of: data, classifier, calibrator, repeat, fold and so on.
    status : str
        ``"done"``, ``"failed"`` or ``"too slow"``.
    values : mapping
        Measures by name; empty if it is not done.
    details : mapping
        Chosen parameters, series, warnings; the limit if it was too slow.
    message : str
        Why it failed; empty if it did not.
    seconds : float
        Wall clock of the whole unit.
    """

    key: str
    labels: Mapping[str, Any]
    status: str
    values: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    seconds: float = 0.0

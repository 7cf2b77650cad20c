"""Cost model of a fit: the time and memory that it is expected to take, from the number of rows and classes."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Protocol

from calibrant.presentation.sentences import counted

__all__ = ["Cost", "FitCost", "FitPart", "JointCost", "announce_cost", "announce_prediction"]

LOGGER = logging.getLogger("calibrant")

LONG = 30.0
"""Seconds from which on a fit is announced."""

LARGE = 1e9
"""Bytes beside the predictions from which on the memory of a fit is announced."""


class Cost(Protocol):
    """What a fit is expected to take."""

    def of(self, n_rows: float, n_classes: int) -> float:
        """Return the expected seconds of processor time."""
        ...

    def bytes_of(self, n_rows: float, n_classes: int) -> float:
        """Return the expected memory beside the predictions."""
        ...


@dataclass(frozen=True)
class FitCost:
    r"""Expected processor time :math:`c\, (n / 1000)^a (K / 10)^b` of a fit with default parameters.

    Exponents are those of the dominant operation; the constant was measured at 1,000 to 4,000 rows of 10 classes on one core. The
    order of magnitude is right, no more.

    Examples
    --------
    >>> FitCost(0.1, rows=2.0, classes=1.0).of(10_000, 20)
    20.0
    >>> FitCost(0.1, rows=2.0, linear_from=1000).of(10_000, 10)
    1.0
    """

    seconds: float  # c, seconds for 1,000 rows of 10 classes
    rows: float = 1.0  # a and b
    classes: float = 1.0
    # Number of rows from which on the time is proportional to it, such as where no more rows are judged
    linear_from: float = inf
    copies: float = 0.0  # Peak memory beside the predictions, in multiples of a float64 matrix of their shape

    def of(self, n_rows: float, n_classes: int) -> float:
        """Return the expected seconds."""
        least = min(n_rows, self.linear_from)
        of_rows = (least / 1000) ** self.rows * (n_rows / max(least, 1))
        return float(self.seconds * of_rows * (n_classes / 10) ** self.classes)

    def bytes_of(self, n_rows: float, n_classes: int) -> float:
        """Return the expected memory beside the predictions."""
        return 8.0 * self.copies * n_rows * n_classes


@dataclass(frozen=True)
class FitPart:
    """Fits of one part of a composition."""

    cost: Cost | None  # Of one fit; None for one that takes no time worth mentioning
    times: float = 1.0  # Number of fits
    share: float = 1.0  # Of the rows that each of them has
    one_vs_rest: bool = False  # Whether there is one fit of two classes for every class
    n_classes: int | None = None  # Number of classes of a fit if it is not that of all
    most_rows: float = inf  # How many rows it has at most


@dataclass(frozen=True)
class JointCost:
    """Expected processor time of a composition: that of its parts together.

    Examples
    --------
    >>> JointCost([FitPart(FitCost(0.1)), FitPart(FitCost(0.2), times=5, share=0.8)]).of(10_000, 10)
    9.0
    """

    parts: Iterable[FitPart]

    def of(self, n_rows: float, n_classes: int) -> float:
        """Return the expected seconds."""
        total = 0.0
        for part in self.parts:
            if part.cost is not None:
                rows, classes, fits = _size(part, n_rows, n_classes)
                total += part.times * fits * part.cost.of(rows, classes)
        return total

    def bytes_of(self, n_rows: float, n_classes: int) -> float:
        """Return the expected memory beside the predictions: that of the largest part."""
        return max(
            (
                part.cost.bytes_of(*_size(part, n_rows, n_classes)[:2])
                for part in self.parts
                if part.cost is not None
            ),
            default=0.0,
        )


def _size(part: FitPart, n_rows: float, n_classes: int) -> tuple[float, int, int]:
    """Return rows, classes and number of the fits of a part."""
    rows = min(part.share * n_rows, part.most_rows)
    if part.one_vs_rest and n_classes > 2:
        return rows, 2, n_classes
    return rows, n_classes if part.n_classes is None else part.n_classes, 1


def announce_cost(name: str, cost: Cost | None, n_rows: int, n_classes: int) -> None:
    """Log a warning before a fit that is expected to take long or much memory."""
    if cost is None:
        return
    seconds, memory = cost.of(n_rows, n_classes), cost.bytes_of(n_rows, n_classes)
    if seconds < LONG and memory < LARGE:
        return
    LOGGER.warning(
        "%s: a fit to %s rows of %s classes is expected to take about %s of processor time%s; fit a random sample of "
        "the rows if that is too %s.",
        name,
        f"{n_rows:,}",
        f"{n_classes:,}",
        _duration(seconds),
        f" and {memory / 1e9:.1f} GB of memory" if memory >= LARGE else "",
        "long" if memory < LARGE else "much",
    )


def announce_prediction(name: str, seconds: float, n_rows: int) -> None:
    """Log a warning before a prediction that is expected to take long."""
    if seconds >= LONG:
        LOGGER.warning(
            "%s: a prediction of %s rows is expected to take about %s of processor time, since every row is compared with "
            "the calibration set; fit a random sample of the rows if that is too long.",
            name,
            f"{n_rows:,}",
            _duration(seconds),
        )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return counted(max(10, 10 * round(seconds / 10)), "second")
    if seconds < 5400:
        return counted(round(seconds / 60), "minute")
    return counted(round(seconds / 3600), "hour")

"""Time left: what remains to be run, at the mean seconds of what has been."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

__all__ = ["TimeLeft"]

Group = tuple[Hashable, ...]


class TimeLeft:
    """Estimates how long the rest will take.

    Every piece of work belongs to a group, such as a data set and a calibrator; where nothing of the group is done yet, the
    mean is that of all with the same calibrator, and then of all.

    Examples
    --------
    >>> left = TimeLeft(jobs=2)
    >>> for data in ("abalone", "abalone", "car"):
    ...     left.expect({"data": data, "calibrator": "beta"})
    >>> left.seconds() is None
    True
    >>> left.ended({"data": "abalone", "calibrator": "beta"}, 3.0)
    >>> left.seconds()
    3.0
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = max(1, jobs)
        self._expected: Counter[Group] = Counter()
        self._sums: defaultdict[Group, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def expect(self, labels: Mapping[str, Any]) -> None:
        """Count a piece of work that is to be done."""
        self._expected[_levels(labels)[0]] += 1

    def seen(self, labels: Mapping[str, Any], seconds: float) -> None:
        """Learn from a piece of work that was not expected, such as one of an earlier run."""
        for group in _levels(labels):
            sums = self._sums[group]
            sums[0] += seconds
            sums[1] += 1

    def ended(self, labels: Mapping[str, Any], seconds: float | None) -> None:
        """Learn from a piece of work that was expected; one that was not run has no seconds."""
        self._expected[_levels(labels)[0]] -= 1
        if seconds is not None:
            self.seen(labels, seconds)

    def seconds(self) -> float | None:
        """Return the seconds left, None as long as nothing is known."""
        total, known = 0.0, False
        for group, count in self._expected.items():
            mean = self._mean(_coarser(group)) if count > 0 else None
            if mean is not None:
                known = True
                total += count * mean
        if not known and any(count > 0 for count in self._expected.values()):
            return None
        return total / self.jobs

    def _mean(self, groups: Iterable[Group]) -> float | None:
        for group in groups:
            if group in self._sums:
                total, count = self._sums[group]
                return total / count
        return None


def _levels(labels: Mapping[str, Any]) -> tuple[Group, ...]:
    """Return the groups of a piece of work, the finest first; trainings are apart from units."""
    if "calibrator" in labels:
        finest: Group = ("unit", labels["calibrator"], labels.get("data"))
    elif "trial" in labels:
        finest = ("trial", labels["trial"], None)
    else:
        finest = ("training", labels.get("classifier"), labels.get("data"))
    return tuple(_coarser(finest))


def _coarser(group: Group) -> Iterable[Group]:
    for length in range(len(group), 0, -1):
        yield group[:length]

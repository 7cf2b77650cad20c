"""Progress and run times of the steps of a long computation."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Progress", "Steps"]

Progress = Callable[[int, int, str], object]
"""Called with the amount done, the total, and the name of the next step."""


class Steps:
    """Report progress in percent and time the steps.

    Parameters
    ----------
    shares : dict
        Name of a step -> its approximate run time relative to the others, in order.
    progress : function or None
        Callback that receives the progress.

    Examples
    --------
    >>> steps = Steps({"half": 1, "rest": 1}, lambda *told: print(told))
    >>> with steps("half"):
    ...     pass
    (0, 100, 'half')
    >>> with steps("rest"):
    ...     steps.within(1, 2, "more")
    (50, 100, 'rest')
    (75, 100, 'rest: more')
    >>> steps.finish()
    (100, 100, '')
    """

    def __init__(self, shares: dict[str, float], progress: Progress | None) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress
        total, so_far = sum(shares.values()), 0.0
        self._ranges = {}
        for name, share in shares.items():
            self._ranges[name] = (100 * so_far / total, 100 * (so_far + share) / total)
            so_far += share
        self._current = ""

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Report the start of a step and time it."""
        self._current = name
        self._tell(self._ranges[name][0], name)
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start

    def within(self, done: int, total: int, what: str) -> None:
        """Report progress within the current step."""
        low, high = self._ranges[self._current]
        self._tell(
            low + (high - low) * done / max(total, 1), f"{self._current}: {what}" if what else self._current
        )

    def finish(self) -> None:
        """Report completion."""
        self._tell(100, "")

    def _tell(self, done: float, what: str) -> None:
        if self._progress is not None:
            self._progress(int(done), 100, what)

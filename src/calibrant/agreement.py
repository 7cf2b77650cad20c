"""Agreement of several sampled answers, as a confidence in the most frequent one."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array
from calibrant.errors import PredictionError

__all__ = ["Agreement", "agreement"]


@dataclass(frozen=True, eq=False)
class Agreement:
    """The most frequent answer to every question, and how many samples agree with it.

    Attributes
    ----------
    answers : list
        Most frequent answer; of equally frequent ones the first.
    counts : ndarray of shape (n,)
        Number of samples with that answer, k.
    n_samples : ndarray of shape (n,)
        Number of samples, m.
    """

    answers: list[Any]
    counts: NDArray[np.intp]
    n_samples: NDArray[np.intp]

    @property
    def confidence(self) -> Float64Array:
        """Probability that one more sample agrees, (k + 1) / (m + 2): Laplace's rule of succession, never 0 or 1."""
        return (self.counts + 1) / (self.n_samples + 2)


def agreement(samples: Iterable[Sequence[Hashable]]) -> Agreement:
    """Return the most frequent answer of several samples, such as those of a language model, and their agreement.

    Parameters
    ----------
    samples : sequence of sequences
        For every question the sampled answers, after normalisation such as lower case; the number may differ.

    Examples
    --------
    >>> found = agreement([["4", "4", "5"], ["Paris", "Paris", "Paris"]])
    >>> found.answers, found.counts, found.confidence
    (['4', 'Paris'], array([2, 3]), array([0.6, 0.8]))
    """
    answers, counts, sizes = [], [], []
    for row, given in enumerate(samples):
        if isinstance(given, str) or len(given) == 0:
            raise PredictionError(
                f"samples must be one or more answers per row, but row {row} has {given!r}."
            )
        answer, count = Counter(given).most_common(1)[0]
        answers.append(answer)
        counts.append(count)
        sizes.append(len(given))
    if not answers:
        raise PredictionError("there are no samples; pass the sampled answers of every row.")
    return Agreement(answers, np.array(counts, dtype=np.intp), np.array(sizes, dtype=np.intp))

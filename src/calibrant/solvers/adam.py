"""Adam: stochastic gradient steps that are scaled by running moments of the gradient."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector

__all__ = ["adam", "shuffled_batches"]

# Of the first and of the second moment, as in the publication and in every implementation.
DECAYS = (0.9, 0.999)


def adam(
    gradient: Callable[[Vector, NDArray[np.intp]], Vector],
    start: Vector,
    batches: Iterable[NDArray[np.intp]],
    *,
    learning_rate: float,
    epsilon: float = 1e-7,
) -> Vector:
    r"""Return the parameters after one step of Adam for every batch.

    .. math:: m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
              \theta \leftarrow \theta - \eta_t \frac{m}{\sqrt v + \epsilon}, \quad
              \eta_t = \eta \frac{\sqrt{1 - \beta_2^t}}{1 - \beta_1^t}

    with :math:`\beta_1 = 0.9` and :math:`\beta_2 = 0.999` :cite:`kingma2015`.

    Parameters
    ----------
    gradient : callable
        Gradient of the objective at some parameters, over the rows of a batch.
    start : ndarray
        First parameters.
    batches : iterable of ndarray
        Row numbers of each step.
    learning_rate : float
        The step size :math:`\eta`.
    epsilon : float, default=1e-7
        Added to the root of the second moment; the default is that of Keras.

    Examples
    --------
    The first step has the length of the learning rate, whatever the gradient:

    >>> adam(lambda theta, rows: 8 * theta, np.array([1.0]), [np.arange(3)], learning_rate=0.1).round(6)
    array([0.9])
    """
    theta = start.astype(np.float64)
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    for step, rows in enumerate(batches, start=1):
        slopes = gradient(theta, rows)
        first += (1 - DECAYS[0]) * (slopes - first)
        second += (1 - DECAYS[1]) * (slopes * slopes - second)
        rate = learning_rate * np.sqrt(1 - DECAYS[1] ** step) / (1 - DECAYS[0] ** step)
        theta -= rate * first / (np.sqrt(second) + epsilon)
    return theta


def shuffled_batches(
    n_rows: int, batch_size: int, n_batches: int, generator: np.random.Generator
) -> Iterator[NDArray[np.intp]]:
    """Yield row numbers of batches, all rows once in random order before any comes again; the last of a round is smaller.

    >>> [len(rows) for rows in shuffled_batches(5, 2, 4, np.random.default_rng(0))]
    [2, 2, 1, 2]
    """
    left = n_batches
    while left > 0:
        order = generator.permutation(n_rows)
        for start in range(0, n_rows, batch_size)[:left]:
            yield order[start : start + batch_size]
            left -= 1

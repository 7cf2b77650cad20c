"""Where the random numbers of a test come from."""

from operator import index as whole_number
from typing import Any

import numpy as np

from calibrant.errors import ParameterError

__all__ = ["random_source"]


def random_source(
    random_state: Any, algorithm: type[np.random.BitGenerator] = np.random.PCG64
) -> np.random.Generator:
    """Return a Generator itself, a new one for a seed, or one that is never the same twice for None.

    >>> int(random_source(7).integers(100)), int(np.random.default_rng(7).integers(100))
    (94, 94)
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    try:
        seed = None if random_state is None else whole_number(random_state)
        return np.random.Generator(algorithm(seed))
    except (TypeError, ValueError) as error:
        raise ParameterError(
            "random_state must be a whole number of at least 0, a numpy Generator or None, "
            f"not {random_state!r}."
        ) from error

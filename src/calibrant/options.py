"""Validation of options, before any computation starts."""

from collections.abc import Iterable
from operator import index as as_integer
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import ParameterError

__all__ = [
    "check_around_one",
    "check_choice",
    "check_flag",
    "check_floor",
    "check_half_life",
    "check_level",
    "check_not_negative",
    "check_share",
    "check_whole",
    "is_number",
    "is_whole",
    "random_source",
    "real_array",
]


def is_number(value: Any) -> bool:
    """Return whether this is a real number, of Python or numpy; booleans are not.

    >>> is_number(1), is_number(np.float32(0.5)), is_number("1"), is_number(None), is_number(True)
    (True, True, False, False, False)
    """
    return isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)


def is_whole(value: Any, least: int) -> bool:
    """Return whether this is an integer, of Python or numpy, of at least ``least``; booleans are not.

    >>> is_whole(3, 1), is_whole(np.int64(0), 1), is_whole(2.0, 1), is_whole(True, 1)
    (True, False, False, False)
    """
    try:
        return not isinstance(value, bool | np.bool_) and as_integer(value) >= least
    except TypeError:
        return False


def check_whole(name: str, value: Any, least: int = 1) -> None:
    """Raise unless the value is an integer of at least ``least``."""
    if not is_whole(value, least):
        raise ParameterError(f"{name} must be an integer of at least {least}, not {value!r}.")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise unless the value is one of the given strings.

    >>> check_choice("loss", "hinge", ("log", "brier"))
    Traceback (most recent call last):
    calibrant.errors.ParameterError: loss must be 'log' or 'brier', not 'hinge'.
    """
    words = list(choices)
    if not isinstance(value, str) or value not in words:
        *first, last = map(repr, words)
        raise ParameterError(f"{name} must be {', '.join(first)} or {last}, not {value!r}.")


def check_not_negative(name: str, value: Any, example: str) -> None:
    """Raise unless the value is a finite number of at least zero."""
    if not is_number(value) or not 0 <= value < np.inf:
        raise ParameterError(f"{name} must be a number of at least 0, {example}, not {value!r}.")


def check_around_one(name: str, value: Any) -> None:
    """Raise unless the value is a pair of positive numbers, the first at most 1 and the second at least 1."""
    pair = real_array(value)
    if pair is None or pair.shape != (2,) or not 0 < pair[0] <= 1 <= pair[1] < np.inf:
        raise ParameterError(f"{name} must be two positive numbers around 1, not {value!r}.")


def check_flag(name: str, value: Any) -> None:
    """Raise unless the value is True or False (or 1 or 0); strings in particular, which are all truthy."""
    if not isinstance(value, bool | np.bool_ | int | np.integer) or value not in (0, 1):
        raise ParameterError(f"{name} must be True or False, not {value!r}.")


def check_share(name: str, value: Any, example: float) -> None:
    """Raise unless the value is a number strictly between 0 and 1."""
    if not is_number(value) or not 0 < value < 1:
        raise ParameterError(
            f"{name} must lie strictly between 0 and 1, such as {example:g}, but is {value!r}."
        )


def check_floor(floor: Any, example: float) -> None:
    """Raise unless the clipping distance of probabilities from 0 and 1 is above 0 and below 1/2.

    >>> check_floor(0.5, 1e-6)
    Traceback (most recent call last):
    calibrant.errors.ParameterError: floor must be above 0 and below 1/2, such as 1e-06, not 0.5.
    """
    if not is_number(floor) or not 0 < floor < 0.5:
        raise ParameterError(f"floor must be above 0 and below 1/2, such as {example:g}, not {floor!r}.")


def check_half_life(half_life: Any) -> None:
    """Raise unless the half-life is a positive number of rows, or None for no forgetting."""
    if half_life is not None and (not is_number(half_life) or not 0 < half_life < np.inf):
        raise ParameterError(f"half_life must be a positive number of rows or None, not {half_life!r}.")


def real_array(values: Any) -> NDArray[np.float64] | None:
    """Return a new float64 array, or None if the values are not an array of real numbers.

    >>> real_array([1, 2]), real_array(["a"]), real_array([1j])
    (array([1., 2.]), None, None)
    """
    try:
        array = np.asarray(values)
        return None if array.dtype.kind == "c" else np.array(array, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def check_level(level: Any) -> None:
    """Raise unless the confidence level is a number strictly between 0 and 1."""
    check_share("level", level, 0.95)


def random_source(
    random_state: Any, algorithm: type[np.random.BitGenerator] = np.random.PCG64
) -> np.random.Generator:
    """Return a Generator itself, a new one for a seed, or a randomly seeded one for None.

    >>> int(random_source(7).integers(100)), int(np.random.default_rng(7).integers(100))
    (94, 94)
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    try:
        seed = None if random_state is None else as_integer(random_state)
        return np.random.Generator(algorithm(seed))
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"random_state must be an integer of at least 0, a numpy Generator or None, not {random_state!r}."
        ) from error

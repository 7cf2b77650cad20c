"""One number per class, as users write them: an array in the order of the columns, or a dict by label."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import ParameterError
from calibrant.options import real_array
from calibrant.predictions import ROW_SUM_TOLERANCE

__all__ = ["class_rates", "class_shares"]

Vector = NDArray[np.float64]

SHOWN = 5  # how many labels a message lists


def class_shares(name: str, value: Any, classes: NDArray[Any]) -> Vector:
    """Return shares of all classes that sum to one, from K of them or from that of the second of two classes.

    >>> class_shares("target_prior", {"ill": 0.02, "well": 0.98}, np.array(["ill", "well"]))
    array([0.02, 0.98])
    >>> class_shares("target_prior", 0.25, np.arange(2))
    array([0.75, 0.25])
    """
    if np.ndim(value) == 0 and len(classes) == 2 and not isinstance(value, Mapping):
        share = real_array(value)
        if share is None or not 0 <= share <= 1:
            raise ParameterError(f"{name} of the second class must be a number from 0 to 1, not {value!r}.")
        return np.array([1 - float(share), float(share)])
    shares = _numbers(name, value, classes, default=None)
    total = float(shares.sum())
    if not abs(total - 1) <= ROW_SUM_TOLERANCE:
        raise ParameterError(
            f"{name} must sum to 1 within {ROW_SUM_TOLERANCE:g}, but sums to {total:.6g}; give the share of every class."
        )
    return shares / total


def class_rates(name: str, value: Any, classes: NDArray[Any]) -> Vector:
    """Return positive rates of all classes; a single number is that of the first of two, a dict may leave out ones.

    >>> class_rates("sampling_rate", 0.1, np.arange(2)), class_rates("sampling_rate", {"b": 3}, np.array(["a", "b"]))
    (array([0.1, 1. ]), array([1., 3.]))
    """
    if np.ndim(value) == 0 and not isinstance(value, Mapping):
        rate = real_array(value)
        if len(classes) != 2:
            raise ParameterError(
                f"{name} must be a dict from label to rate, or one rate per class, for {len(classes)} classes, "
                f"not {value!r}."
            )
        rates = np.array([np.nan if rate is None else float(rate), 1.0])
    else:
        rates = _numbers(name, value, classes, default=1.0)
    if not ((rates > 0) & np.isfinite(rates)).all():
        raise ParameterError(
            f"{name} must be positive for every class, not {value!r}; rows of a class that was never kept cannot "
            "be brought back."
        )
    if not rates.min() / rates.max() >= np.finfo(np.float64).tiny:
        raise ParameterError(
            f"{name} goes from {rates.min():.6g} to {rates.max():.6g}, a ratio beyond the range of floats; give rates "
            "that are closer to each other."
        )
    return rates


def _numbers(name: str, value: Any, classes: NDArray[Any], default: float | None) -> Vector:
    """Return one finite number of at least zero for every class."""
    if isinstance(value, Mapping):
        numbers = real_array(_in_order(name, value, classes, default))
    else:
        numbers = real_array(value)
    if numbers is None or numbers.shape != classes.shape:
        raise ParameterError(
            f"{name} must be {len(classes)} numbers in the order of the classes {_listed(classes)}, or a dict from "
            f"label to number, not {value!r}."
        )
    if not (np.isfinite(numbers) & (numbers >= 0)).all():
        raise ParameterError(f"{name} must be finite and not negative, not {value!r}.")
    return numbers


def _in_order(name: str, value: Mapping[Any, Any], classes: NDArray[Any], default: float | None) -> list[Any]:
    plain = {key.item() if isinstance(key, np.generic) else key: number for key, number in value.items()}
    labels = classes.tolist()
    unknown = [key for key in plain if key not in labels]
    if unknown:
        raise ParameterError(
            f"{name} names {unknown[0]!r}, which is not among the classes {_listed(classes)}; correct the label."
        )
    missing = [label for label in labels if label not in plain]
    if missing and default is None:
        raise ParameterError(f"{name} lacks the class {missing[0]!r}; give a number for every class.")
    return [plain.get(label, default) for label in labels]


def _listed(classes: NDArray[Any]) -> str:
    shown = ", ".join(repr(label) for label in classes[:SHOWN].tolist())
    return f"[{shown}, ... {len(classes)} in all]" if len(classes) > SHOWN else f"[{shown}]"

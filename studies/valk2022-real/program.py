"""Neighbourhood methods with the folds and the cropping of the program of Valk's thesis (2022)."""

from typing import Any

from sklearn.model_selection import KFold

from calibrant import Calibrator, registry


def calibrator(*, method: str, folds: int = 0, **parameters: Any) -> Calibrator:
    """Make a method of the registry that crops only what leaves [0, 1], and chooses its size by the program's folds.

    ``folds`` is the seed of these ten folds: 0 for neighbours and kernels, 1 for forests.
    """
    splitter = KFold(10, shuffle=True, random_state=folds)
    return registry.make(method, crop="outside", cv=splitter, guard=False, **parameters)

"""Torch exports: fitted maps as modules and as programs of torch.export."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.errors import MissingExtraError, ParameterError
from calibrant.export.backend import Backend, Exportable
from calibrant.export.exporting import exportable

__all__ = ["BACKEND", "to_torch"]


def _imported(name: str) -> Any:
    """Return a module of this package, all of which need torch."""
    try:
        return import_module(f"calibrant.export.torch.{name}")
    except ImportError as error:
        raise MissingExtraError("torch", "torch") from error


def to_torch(calibrator: Calibrator, space: str | None = None, class_axis: int | None = None) -> Any:
    """Return a fitted calibrator as a ``torch.nn.Module`` from scores (n, K) to calibrated probabilities (n, K).

    For two classes, the module also takes scores (n, 1) or (n,) of the second class.

    Parameters
    ----------
    calibrator : Calibrator
        Fitted.
    space : {"probabilities", "logits"}, optional
        Input of the module; by default the space of the fit.
    class_axis : int, optional
        Axis of the classes, for scores of any number of axes: 1 for (B, K, H, W), -1 for (..., K).
    """
    if class_axis is not None and (
        not isinstance(class_axis, int | np.integer) or isinstance(class_axis, bool)
    ):
        raise ParameterError(f"class_axis must be an integer, such as 1 or -1, not {class_axis!r}.")
    module = _imported("program").CalibrationModule
    return module(exportable(calibrator, space=space), None if class_axis is None else int(class_axis))


def _write(exportable: Exportable, path: Path, options: Mapping[str, Any]) -> None:
    _imported("program").write(exportable, path, options)


def _run(path: Path, scores: NDArray[np.floating]) -> NDArray[np.floating]:
    result: NDArray[np.floating] = _imported("program").run(path, scores)
    return result


def _metadata(path: Path) -> Mapping[str, Any]:
    told: Mapping[str, Any] = _imported("program").metadata(path)
    return told


BACKEND = Backend("torch", (".pt2",), "torch", _write, _run, _metadata, dtype="float32")

"""Keys: a hash of all that determines the result of a unit, and of nothing else."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import calibrant
from calibrant.studies.own_code import code_fingerprint, is_reference
from calibrant.studies.specifications import CalibratorSpec, MeasureSpec

__all__ = ["FORMAT", "calibrator_identity", "digest", "grid_key", "measures_identity", "trial_key"]

FORMAT = 1
"""Raised whenever the same unit would be computed in another way, so that old results are not taken for new ones."""


def digest(content: Any) -> str:
    """Return the SHA-256 of a value, the same whatever the order of its keys.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)  # dates and times, which TOML knows and JSON does not


def calibrator_identity(spec: CalibratorSpec, folder: Path) -> dict[str, Any]:
    """Return what determines a calibrator; its name in the recipe does not.

    How a grid is searched counts only where there is one.

    >>> one = CalibratorSpec("T", "temperature")
    >>> calibrator_identity(one, Path(".")) == calibrator_identity(CalibratorSpec("TempS", "temperature"), Path("."))
    True
    """
    content = spec.canonical()
    del content["name"]
    if not spec.grid:
        for key in ("grid", "select", "folds", "refit"):
            del content[key]
    methods = [spec.method, *(str(part.get("method", "")) for part in spec.parts)]
    pieces = [piece.strip() for method in methods for piece in method.split("+")]
    content["code"] = [code_fingerprint(piece, folder) for piece in pieces if is_reference(piece)]
    return content


def measures_identity(specs: Iterable[MeasureSpec], folder: Path) -> dict[str, Any]:
    """Return what determines the numbers of a unit: the measures by name, in no order.

    A further measure makes a further key, so that a record always has all measures of its recipe.
    """
    found = {}
    for spec in specs:
        content = spec.canonical()
        del content["name"], content["higher_is_better"]
        if not spec.test:
            del content["resamples"]
        content["code"] = code_fingerprint(spec.metric, folder) if is_reference(spec.metric) else ""
        found[spec.name] = content
    return found


def grid_key(outputs: str, calibrator: str, measures: str, seed: int) -> str:
    """Return the key of a calibrator on outputs of a classifier, from the hashes of its parts."""
    return digest(
        {
            "format": FORMAT,
            "calibrant": calibrant.__version__,
            "outputs": outputs,
            "calibrator": calibrator,
            "measures": measures,
            "seed": seed,
        }
    )


def trial_key(function: str, parameters: Mapping[str, Any], seed: int, files: list[str], folder: Path) -> str:
    """Return the key of one trial, from its function, the hash of its code and those of the files that it reads."""
    return digest(
        {
            "format": FORMAT,
            "calibrant": calibrant.__version__,
            "function": function,
            "code": code_fingerprint(function, folder),
            "parameters": parameters,
            "seed": seed,
            "files": files,
        }
    )

"""``calibrant methods``: list all methods with their traits."""

import inspect
from pathlib import Path
from typing import Any

from calibrant import registry
from calibrant.calibrator import Calibrator
from calibrant.calibrators import Chain
from calibrant.cli.files import check_writable
from calibrant.cli.rendering import Result, Section, deliver

__all__ = ["methods"]

TRAITS = {"A": "keeps_argmax", "I": "contains_identity", "L": "uses_raw_logits"}


def methods(format_name: str, output: Path | None) -> None:
    """List all calibration methods by name."""
    check_writable(output)
    records = [_record(name) for name in registry.calibrators()]
    rows = [
        (
            record["name"],
            "".join(letter if record[key] else " " for letter, key in TRAITS.items()),
            record["about"],
        )
        for record in records
    ]
    section = Section("methods", ("method", "traits", "description"), rows, records, (0, 1, 2))
    notes = (
        "Traits. A: arg-max-preserving, so predicted classes never change. I: contains the identity, so the training "
        "loss never exceeds that of the uncalibrated predictions. L: uses raw logits, so logits and their softmax give "
        "different results.",
        "Join names by + to compose methods: temperature+knn-kl.",
    )
    deliver(Result(f"{len(records)} methods", (section,), notes), format_name, output)


def _record(name: str) -> dict[str, Any]:
    calibrator = registry.make(name)
    traits = calibrator.traits
    return {
        "name": name,
        "class": type(calibrator).__name__,
        "about": _about(calibrator),
        "keeps_argmax": traits.keeps_argmax,
        "contains_identity": traits.contains_identity,
        "uses_raw_logits": traits.uses_raw_logits,
        "binary_only": traits.binary_only,
        "parameters": {key: repr(value) for key, value in calibrator.get_params(deep=False).items()},
    }


def _about(calibrator: Calibrator) -> str:
    """Return the first sentence of the class docstring, with parameters that differ from the defaults."""
    if isinstance(calibrator, Chain):
        return ", then ".join(type(part).__name__ for part in calibrator.calibrators) + "."
    first = (inspect.getdoc(type(calibrator)) or "").partition("\n\n")[0].replace("\n", " ").replace("``", "")
    defaults = type(calibrator)().get_params(deep=False) if _has_defaults(type(calibrator)) else {}
    changed = {
        key: value
        for key, value in calibrator.get_params(deep=False).items()
        if key in defaults and repr(defaults[key]) != repr(value)
    }
    options = ", ".join(f"{key}={value!r}" for key, value in changed.items())
    return f"{first} ({options})" if options else first


def _has_defaults(cls: type[Calibrator]) -> bool:
    parameters = list(inspect.signature(cls).parameters.values())
    return all(parameter.default is not parameter.empty for parameter in parameters)

"""``calibrant methods``: list all methods by task, with their traits."""

from pathlib import Path
from typing import Any

from calibrant import registry
from calibrant.calibrator import Calibrator
from calibrant.cli.files import check_writable
from calibrant.cli.rendering import Columns, Result, Section, deliver

__all__ = ["methods"]

TRAITS = {"A": "keeps_argmax", "I": "contains_identity", "L": "uses_raw_logits"}

START = ("auto", "temperature", "vector", "beta", "isotonic")

GROUPS = {
    "start": "Start with these five",
    "argmax": "Never change the predicted class",
    "classes": "Correct the bias of classes, for several classes",
    "event": "Calibrate one probability: two classes, or one-vs-rest",
    "bins": "Give the frequencies of bins as probabilities",
    "regions": "Adapt to regions of the scores, for thousands of rows",
    "others": "Combinations and other methods",
}
"""Tasks in their order, with the titles of their tables."""

FOLDERS = {
    "binned": "bins",
    "monotone": "event",
    "scaling": "classes",
    "structured": "classes",
    "latent": "regions",
    "neighbourhood": "regions",
}
"""Folder of a method -> its task."""

OF_ONE_EVENT = ("platt", "beta", "quadratic", "spline")
"""First words of methods that are fitted to one class at a time."""


def methods(format_name: str, output: Path | None) -> None:
    """List all calibration methods by task; JSON and CSV have one list by name."""
    check_writable(output)
    records = [_record(name) for name in registry.calibrators()]
    if format_name in ("json", "csv"):
        sections: tuple[Section, ...] = (_section("methods", "description", records),)
    else:
        sections = tuple(_section(task, title, _of_task(task, records)) for task, title in GROUPS.items())
    notes = (
        "Traits. A: arg-max-preserving, so predicted classes never change. I: contains the identity, so the training "
        "loss never exceeds that of the uncalibrated predictions. L: uses raw logits, so logits and their softmax give "
        "different results.",
        "Join names by + to compose methods: temperature+knn-kl.",
    )
    deliver(Result(f"{len(records)} methods", sections, notes), format_name, output)


def _section(name: str, title: str, records: list[dict[str, Any]]) -> Section:
    columns: Columns = {"method": "name", "traits": _letters, title: "about"}
    return Section.of(name, columns, records, (0, 1, 2))


def _letters(record: dict[str, Any]) -> str:
    return "".join(letter if record[key] else " " for letter, key in TRAITS.items())


def _of_task(task: str, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = [record for record in records if record["task"] == task]
    return sorted(found, key=lambda record: START.index(record["name"])) if task == "start" else found


def _task(name: str, calibrator: Calibrator) -> str:
    """Return the task of a method, from its traits and its folder."""
    if name in START:
        return "start"
    if calibrator.traits.keeps_argmax:
        return "argmax"
    if name.split("-")[0] in OF_ONE_EVENT:
        return "event"
    folder = type(calibrator).__module__.removeprefix("calibrant.calibrators.").split(".")[0]
    return FOLDERS.get(folder, "others")


def _record(name: str) -> dict[str, Any]:
    calibrator = registry.make(name)
    traits = calibrator.traits
    return {
        "name": name,
        "task": _task(name, calibrator),
        "class": type(calibrator).__name__,
        "about": registry.about(calibrator),
        "keeps_argmax": traits.keeps_argmax,
        "contains_identity": traits.contains_identity,
        "uses_raw_logits": traits.uses_raw_logits,
        "binary_only": traits.binary_only,
        "parameters": {key: repr(value) for key, value in calibrator.get_params(deep=False).items()},
    }

"""What a fitted calibrator has learnt, in words."""

from typing import Any

import numpy as np

from calibrant.calibrator import Calibrator
from calibrant.calibrators import Chain
from calibrant.wording import counted, shortened

__all__ = ["learnt"]

CHOSEN = {
    "reg_lambda_": "penalty on weights off the diagonal",
    "reg_mu_": "penalty on intercepts",
    "bandwidth_": "bandwidth",
    "n_neighbours_": "number of neighbours",
    "shrinkage_": "shrinkage",
    "weight_decay_": "weight decay",
}
MOST_CLASSES = 6


def learnt(calibrator: Calibrator, longest_name: int | None = None) -> list[str]:
    """Return sentences on what was found in the calibration rows; with the beginnings of longer names of classes."""
    if isinstance(calibrator, Chain):
        return [
            f"{type(part).__name__}: {sentence}"
            for part in calibrator.calibrators_
            for sentence in learnt(part, longest_name)
        ]
    explanation = getattr(calibrator, "explanation_", None)
    if explanation:
        return [str(explanation)]
    return [
        *_temperature(calibrator),
        *_by_class(calibrator, longest_name),
        *_strengths(calibrator),
        *_outcome(calibrator),
    ]


def _temperature(calibrator: Any) -> list[str]:
    inverse = getattr(calibrator, "inverse_temperature_", None)
    if inverse is None:
        return []
    temperature = 1 / inverse
    meaning = "over-confident" if temperature > 1 else "under-confident"
    said = (
        f"the classifier was {meaning}"
        if abs(temperature - 1) > 1e-3
        else "nothing to repair by a temperature"
    )
    return [f"Temperature {temperature:.4g}: {said}."]


def _by_class(calibrator: Any, longest_name: int | None) -> list[str]:
    sentences = []
    for name, attribute in (("Weight", "weights_"), ("Intercept", "intercept_")):
        values = getattr(calibrator, attribute, None)
        n_classes = len(calibrator.classes_)
        if not isinstance(values, np.ndarray) or values.shape != (n_classes,) or n_classes > MOST_CLASSES:
            continue
        names = [str(label) for label in calibrator.classes_.tolist()]
        if longest_name is not None:
            names = [shortened(name, longest_name) for name in names]
        pairs = zip(names, values.tolist(), strict=True)
        sentences.append(f"{name} of {', '.join(f'{label} {value:.4g}' for label, value in pairs)}.")
    return sentences


def _strengths(calibrator: Any) -> list[str]:
    found = [
        f"{words} {value:.4g}"
        for attribute, words in CHOSEN.items()
        if isinstance(value := getattr(calibrator, attribute, None), int | float)
    ]
    return [f"Chosen: {', '.join(found)}."] if found else []


def _outcome(calibrator: Any) -> list[str]:
    if getattr(calibrator, "identity_kept_", False):
        return ["Nothing that was tried is better than doing nothing, which is kept."]
    parts = getattr(getattr(calibrator, "one_vs_rest_", None), "calibrators_", None)
    return (
        [f"{counted(len(parts), 'map')}, one for each class against the rest."]
        if parts and len(parts) > 1
        else []
    )

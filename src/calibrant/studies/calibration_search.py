"""Search of a grid of parameters by the log-loss, on folds or on the rows that the classifier was trained on."""

import itertools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from calibrant.arrays import IntArray
from calibrant.calibrators.scaling.affine import AffineScaling
from calibrant.errors import StudyError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import held_back
from calibrant.predictions import Predictions
from calibrant.studies.fitted_maps import Map
from calibrant.studies.outputs_parts import Part
from calibrant.studies.specifications import CalibratorSpec

__all__ = ["best_on_path", "best_parameters", "fold_rows", "grid_points", "natively_searched"]

Fit = Callable[[Predictions, IntArray, Mapping[str, Any]], Map]


def grid_points(spec: CalibratorSpec) -> list[dict[str, Any]]:
    """Return all combinations of the values of a grid; an empty one if there is none.

    >>> grid_points(CalibratorSpec("b", "width-binning", grid={"n_bins": [5, 10]}))
    [{'n_bins': 5}, {'n_bins': 10}]
    """
    values = [_listed(each) for each in spec.grid.values()]
    return [dict(zip(spec.grid, point, strict=True)) for point in itertools.product(*values)]


def natively_searched(spec: CalibratorSpec, calibrator: Any) -> dict[str, Any] | None:
    """Return parameters that let a calibrator search the grid on folds itself; None if it has to be searched from outside."""
    if spec.select != "cross-validation" or not _has_path(spec, calibrator):
        return None
    return {**_strengths(spec), "cv": spec.folds, "average_folds": spec.refit == "average"}


def best_on_path(part: Part, spec: CalibratorSpec, calibrator: Any) -> dict[str, Any] | None:
    """Return the best strengths on the training rows, found by the calibrator itself; None if it cannot.

    Calibration and training rows are given as one set with a single split, on which all strengths of the grid are tried
    from warm starts: several times as fast as one fit from the beginning for each.
    """
    if part.training is None or part.training_labels is None or not _has_path(spec, calibrator):
        return None
    if calibrator.penalty == "l2" and calibrator.center == "temperature":
        return None  # towards a temperature of all rows, which is not that of the calibration rows
    n_rows, n_classes = len(part.calibration_labels), part.calibration.n_classes
    labels = np.concatenate([part.calibration_labels, part.training_labels])
    if len(np.unique(part.calibration_labels)) < n_classes:
        return None
    rows = replace(
        part.calibration,
        scores=np.concatenate([part.calibration.scores, part.training.scores]),
        declared_floor=part.calibration.floor,
    )
    split = np.arange(n_rows), np.arange(n_rows, len(labels))
    searching = calibrator.set_params(**_strengths(spec), cv=[split], average_folds=True)
    with held_back():  # of the model that is thrown away
        searching.fit_labelled(LabelledPredictions(rows, labels, np.arange(n_classes)))
    found = {"reg_lambda": searching.reg_lambda_, "reg_mu": searching.reg_mu_}
    return {name: float(found[name]) for name in spec.grid}


def _has_path(spec: CalibratorSpec, calibrator: Any) -> bool:
    """Tell whether the grid is one of strengths that a calibrator tries from warm starts."""
    if not isinstance(calibrator, AffineScaling) or not spec.grid.keys() <= {"reg_lambda", "reg_mu"}:
        return False
    # A grid of one and a walk of the other do not go together there.
    return all(getattr(calibrator, name) != "auto" for name in {"reg_lambda", "reg_mu"} - spec.grid.keys())


def _strengths(spec: CalibratorSpec) -> dict[str, list[float]]:
    return {name: [float(each) for each in _listed(values)] for name, values in spec.grid.items()}


def _listed(values: Any) -> list[Any]:
    """Return the values of a grid as a list; a single one stands alone."""
    return list(values) if isinstance(values, list | tuple) else [values]


def best_parameters(part: Part, spec: CalibratorSpec, seed: int, fit: Fit) -> dict[str, Any]:
    """Return the point of the grid with the least log-loss; the first of equals.

    With ``select = "training"`` every point is fitted to the calibration rows and judged on the rows that the classifier
    was trained on, as the programs behind the tables of :cite:`kull2019` do. These rows flatter the classifier, not
    the calibrator.
    """
    points = grid_points(spec)
    if len(points) == 1:
        return points[0]
    if spec.select == "training":
        if part.training is None or part.training_labels is None:
            raise StudyError(
                f"calibrator {spec.name!r} is chosen by rows that a classifier was trained on, and there are none; use "
                "select = 'cross-validation'."
            )
        training = part.training, part.training_labels
        losses = [_loss(fit(part.calibration, part.calibration_labels, point), *training) for point in points]
    else:
        folds = fold_rows(part.calibration_labels, spec.folds, seed)
        losses = [
            sum(
                len(held_out)
                * _loss(
                    fit(part.calibration.take(rest), part.calibration_labels[rest], point),
                    part.calibration.take(held_out),
                    part.calibration_labels[held_out],
                )
                for rest, held_out in folds
            )
            for point in points
        ]
    return points[int(np.argmin(losses))]


def fold_rows(labels: IntArray, n_folds: int, seed: int) -> list[tuple[IntArray, IntArray]]:
    """Return folds of calibration rows, stratified unless all classes are too small for that."""
    if len(labels) < n_folds:
        raise StudyError(
            f"there are {len(labels)} calibration rows for {n_folds} folds; ask for fewer folds."
        )
    kind = StratifiedKFold if np.bincount(labels).max() >= n_folds else KFold
    folds = kind(n_folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of classes that some folds lack
        return list(folds.split(np.zeros(len(labels)), labels))


def _loss(mapping: Map, predictions: Predictions, labels: IntArray) -> float:
    """Return the log-loss of mapped rows, in which a refuted zero is bad but not the end."""
    mapped = mapping(predictions)
    data = LabelledPredictions(mapped, labels, np.arange(mapped.n_classes))
    return data.log_loss(mapped.without_zeros())

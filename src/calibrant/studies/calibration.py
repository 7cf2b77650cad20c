"""Calibration in a unit: create a calibrator, select its parameters, fit it, and predict the test set."""

import itertools
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold

from calibrant import registry
from calibrant.arrays import IntArray
from calibrant.calibrator import Calibrator
from calibrant.calibrators import Chain
from calibrant.calibrators.scaling.affine import AffineScaling
from calibrant.errors import ParameterError, PredictionError, RecipeError, StudyError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import held_back
from calibrant.predictions import Predictions
from calibrant.studies.outputs import BaseOutputs, Part, averaged
from calibrant.studies.own_code import check_reference, is_reference, load_object, one_line
from calibrant.studies.specifications import CalibratorSpec

__all__ = [
    "Calibrated",
    "calibrate",
    "check_calibrator",
    "fitted_calibrator",
    "make_calibrator",
    "needs_own_code",
]


Map = Callable[[Predictions], Predictions]


def fitted_map(calibrator: Any, predictions: Predictions, labels: NDArray[np.intp], name: str) -> Map:
    """Fit a calibrator and return its map.

    A :class:`~calibrant.Calibrator` receives :class:`~calibrant.Predictions`, which keep logits. Any other object with ``fit``
    and ``predict_proba`` receives arrays of probabilities.
    """
    if isinstance(calibrator, Calibrator):
        columns = np.arange(predictions.n_classes)
        calibrator.fit_labelled(LabelledPredictions(predictions, labels, columns))
        return calibrator.transform
    calibrator.fit(np.array(predictions.probabilities), labels)

    def mapped(rows: Predictions) -> Predictions:
        given = np.asarray(calibrator.predict_proba(np.array(rows.probabilities)))
        if given.shape != rows.scores.shape:
            raise StudyError(
                f"calibrator {name!r} gave probabilities of shape {given.shape} for {rows.scores.shape}; it must keep "
                "the number of rows and classes."
            )
        try:
            return Predictions.from_probabilities(given)
        except PredictionError as error:
            raise StudyError(f"calibrator {name!r}: {error}") from error

    return mapped


def chosen_parameters(calibrator: Any, prefix: str = "") -> dict[str, Any]:
    """Return the parameters that a fitted calibrator selected: ``reg_lambda`` if it has ``reg_lambda_``, and so on.

    Those of a chain are prefixed by the stage, as in ``0.reg_lambda``.

    >>> from calibrant.registry import make
    >>> p, y = [[0.7, 0.3], [0.4, 0.6]] * 20, [0, 1, 0, 0] * 10
    >>> chosen_parameters(make("dirichlet-l2", reg_lambda=[0.1], reg_mu=None).fit(p, y))
    {'reg_lambda': 0.1, 'reg_mu': 0.1}
    """
    found: dict[str, Any] = {}
    for place, stage in enumerate(getattr(calibrator, "calibrators_", ())):
        found |= chosen_parameters(stage, f"{prefix}{place}.")
    if not hasattr(calibrator, "get_params"):
        return found
    for name in calibrator.get_params(deep=False):
        value = getattr(calibrator, f"{name}_", None)
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool | int | float | str):
            found[prefix + name] = value
    return found


Fit = Callable[[Predictions, IntArray, Mapping[str, Any]], Map]


def grid_points(spec: CalibratorSpec) -> list[dict[str, Any]]:
    """Return all combinations of the values of a grid; one empty combination if there is no grid.

    >>> grid_points(CalibratorSpec("b", "width-binning", grid={"n_bins": [5, 10]}))
    [{'n_bins': 5}, {'n_bins': 10}]
    """
    values = [_listed(each) for each in spec.grid.values()]
    return [dict(zip(spec.grid, point, strict=True)) for point in itertools.product(*values)]


def natively_searched(spec: CalibratorSpec, calibrator: Any) -> dict[str, Any] | None:
    """Return parameters with which a calibrator cross-validates the grid itself; None if it cannot."""
    if spec.select != "cross-validation" or not _has_path(spec, calibrator):
        return None
    return {**_strengths(spec), "cv": spec.folds, "average_folds": spec.refit == "average"}


def best_on_path(part: Part, spec: CalibratorSpec, calibrator: Any) -> dict[str, Any] | None:
    """Return the best regularisation strengths on the training set, found by the calibrator itself; None if it cannot.

    Calibration set and training set are passed as one set with a single split. All strengths of the grid are fitted along a
    path with warm starts, which is several times faster than separate fits.
    """
    if part.training is None or part.training_labels is None or not _has_path(spec, calibrator):
        return None
    if calibrator.penalty == "l2" and calibrator.center == "temperature":
        return None  # It would shrink towards the temperature of all rows, not of the calibration set.
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
    with held_back():  # The fitted model is discarded.
        searching.fit_labelled(LabelledPredictions(rows, labels, np.arange(n_classes)))
    found = {"reg_lambda": searching.reg_lambda_, "reg_mu": searching.reg_mu_}
    return {name: float(found[name]) for name in spec.grid}


def _has_path(spec: CalibratorSpec, calibrator: Any) -> bool:
    """Return whether the calibrator can fit the grid along a path of regularisation strengths."""
    if not isinstance(calibrator, AffineScaling) or not spec.grid.keys() <= {"reg_lambda", "reg_mu"}:
        return False
    # A grid of one strength cannot be combined with the automatic choice of the other.
    return all(getattr(calibrator, name) != "auto" for name in {"reg_lambda", "reg_mu"} - spec.grid.keys())


def _strengths(spec: CalibratorSpec) -> dict[str, list[float]]:
    return {name: [float(each) for each in _listed(values)] for name, values in spec.grid.items()}


def _listed(values: Any) -> list[Any]:
    """Return the values of a grid as a list; a single value may stand alone."""
    return list(values) if isinstance(values, list | tuple) else [values]


def best_parameters(part: Part, spec: CalibratorSpec, seed: int, fit: Fit) -> dict[str, Any]:
    """Return the point of the grid with the lowest log-loss; the first of ties.

    With ``select = "training"`` every point is fitted to the calibration set and evaluated on the training set of the
    classifier, as in the programs behind the tables of :cite:`kull2019`. The classifier is over-fitted to that set, the
    calibrator is not.
    """
    points = grid_points(spec)
    if len(points) == 1:
        return points[0]
    if spec.select == "training":
        if part.training is None or part.training_labels is None:
            raise StudyError(
                f"calibrator {spec.name!r} is selected on the training set of a classifier, but there are none; use "
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
    """Return folds of the calibration set, stratified unless all classes are too small."""
    if len(labels) < n_folds:
        raise StudyError(
            f"there are {len(labels)} calibration rows for {n_folds} folds; ask for fewer folds."
        )
    kind = StratifiedKFold if np.bincount(labels).max() >= n_folds else KFold
    folds = kind(n_folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about classes that are missing in some folds
        return list(folds.split(np.zeros(len(labels)), labels))


def _loss(mapping: Map, predictions: Predictions, labels: IntArray) -> float:
    """Return the log-loss of mapped rows, with zeros replaced so that it is finite."""
    mapped = mapping(predictions)
    data = LabelledPredictions(mapped, labels, np.arange(mapped.n_classes))
    return data.log_loss(mapped.without_zeros())


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Calibrated predictions for the test set.

    Attributes
    ----------
    predictions : Predictions
        Calibrated predictions; with several inner folds their average, in float64.
    fit_seconds, predict_seconds : float
        Wall-clock time of all fits, including the search of a grid, and of prediction.
    chosen : list of dict
        For each part, the parameters that were selected from a grid or by the calibrator itself.
    apply : function
        The fitted map, if there is one classifier; true errors of generated data need it.
    """

    predictions: Predictions
    fit_seconds: float
    predict_seconds: float
    chosen: list[dict[str, Any]]
    apply: Callable[[Predictions], Predictions] | None = None


def calibrate(outputs: BaseOutputs, spec: CalibratorSpec, recipe_folder: Path, seed: int) -> Calibrated:
    """Fit a calibrator to each part of the outputs and predict the test set.

    Parameters
    ----------
    outputs : BaseOutputs
    spec : CalibratorSpec
        A grid is searched for the lowest log-loss, see :class:`~calibrant.studies.specifications.CalibratorSpec`.
    recipe_folder : Path
        Folder of the recipe's own calibrators.
    seed : int
        Random state of calibrators that have one, and of the folds of a search.

    Notes
    -----
    Matrix scaling and Dirichlet calibration search grids of regularisation strengths themselves, with warm starts. Their
    cross-validation folds then depend on the content of the rows. Fits that are only compared are accurate to about 1e-4 in
    the log-loss; the final fit is exact.
    """
    started = time.perf_counter()
    maps, chosen = [], []
    for part in outputs.parts:
        fitted, parameters, _ = _fitted(part, spec, recipe_folder, seed)
        maps.append(fitted)
        chosen.append(parameters)
    fit_seconds = time.perf_counter() - started
    started = time.perf_counter()
    mapped = [fitted(part.test) for fitted, part in zip(maps, outputs.parts, strict=True)]
    predictions = averaged(mapped)
    predictions.probabilities  # noqa: B018 (the softmax of logits is part of the work)
    predict_seconds = time.perf_counter() - started
    return Calibrated(predictions, fit_seconds, predict_seconds, chosen, maps[0] if len(maps) == 1 else None)


def make_calibrator(spec: CalibratorSpec, recipe_folder: Path, seed: int, **parameters: Any) -> Any:
    """Create an unfitted calibrator; ``parameters`` override those of the recipe.

    >>> make_calibrator(CalibratorSpec("t", "temperature"), Path("."), 0, loss="brier")
    TemperatureScaling(loss='brier')
    """
    given = {**spec.parameters, **parameters}
    if not spec.parts:
        return _made(spec.name, spec.method, given, recipe_folder, seed)
    cross_fit = given.pop("cross_fit", None)
    parts = [dict(part.get("parameters", {})) for part in spec.parts]
    for name, value in given.items():
        place, _, parameter = name.partition(".")
        if not place.isdecimal() or int(place) >= len(parts) or not parameter:
            raise RecipeError(
                f"calibrator {spec.name!r}: parameters of parts are written as number.name, such as 0.n_bins, not {name!r}."
            )
        parts[int(place)][parameter] = value
    stages = [
        _made(spec.name, str(part.get("method")), own, recipe_folder, seed)
        for part, own in zip(spec.parts, parts, strict=True)
    ]
    if not all(isinstance(stage, Calibrator) for stage in stages):
        raise RecipeError(
            f"calibrator {spec.name!r}: parts of a composition must be calibrators of this library's kind."
        )
    return Chain(stages, cross_fit=cross_fit)


def needs_own_code(spec: CalibratorSpec) -> bool:
    """Return whether a calibrator, or a part of it, is the recipe's own code.

    >>> needs_own_code(CalibratorSpec("t", "temperature")), needs_own_code(CalibratorSpec("o", "own.py:Method"))
    (False, True)
    """
    return any(is_reference(method) for method in _methods(spec))


def _methods(spec: CalibratorSpec) -> list[str]:
    return [str(part.get("method")) for part in spec.parts] if spec.parts else [spec.method]


def check_calibrator(spec: CalibratorSpec, recipe_folder: Path, *, own_code: bool = True) -> None:
    """Refuse a calibrator that cannot be created with every point of its grid.

    Without ``own_code``, the recipe's own code is only checked to exist.
    """
    if spec.select not in ("cross-validation", "training"):
        raise RecipeError(
            f"calibrator {spec.name!r}: select must be 'cross-validation' or 'training', not {spec.select!r}."
        )
    if spec.refit not in ("whole", "average"):
        raise RecipeError(
            f"calibrator {spec.name!r}: refit must be 'whole' or 'average', not {spec.refit!r}."
        )
    if not own_code and needs_own_code(spec):
        for method in _methods(spec):
            if is_reference(method):
                check_reference(method, recipe_folder)
        return
    for point in grid_points(spec):
        calibrator = make_calibrator(spec, recipe_folder, 0, **point)
        if not hasattr(calibrator, "fit") or not (
            hasattr(calibrator, "predict_proba") or hasattr(calibrator, "transform")
        ):
            raise RecipeError(f"calibrator {spec.name!r}: {spec.method} has no fit and predict_proba.")


def _made(name: str, method: str, parameters: Mapping[str, Any], recipe_folder: Path, seed: int) -> Any:
    try:
        if is_reference(method):
            calibrator = load_object(method, recipe_folder)(**parameters)
        else:
            calibrator = registry.make(method, **parameters)
    except (TypeError, ParameterError) as error:
        raise RecipeError(f"calibrator {name!r}: {method} cannot be created: {one_line(error)}.") from error
    _seed(calibrator, seed, parameters)
    return calibrator


def _seed(calibrator: Any, seed: int, parameters: Mapping[str, Any]) -> None:
    """Set the random state of a calibrator, if it has one, and of the stages of a chain."""
    stages = getattr(calibrator, "calibrators", None)
    if isinstance(stages, list | tuple):
        for stage in stages:
            _seed(stage, seed, parameters)
    elif (
        hasattr(calibrator, "get_params")
        and "random_state" not in parameters
        and "random_state" in calibrator.get_params(deep=False)
    ):
        calibrator.set_params(random_state=seed)


def fitted_calibrator(part: Part, spec: CalibratorSpec, recipe_folder: Path, seed: int) -> Any:
    """Return the calibrator fitted to a part; None if the models of inner folds are averaged."""
    return _fitted(part, spec, recipe_folder, seed)[2]


def _fitted(
    part: Part, spec: CalibratorSpec, recipe_folder: Path, seed: int
) -> tuple[Map, dict[str, Any], Any]:
    """Return the map fitted to a part, its selected parameters and the calibrator, None if models are averaged."""

    def fit(rows: Predictions, labels: Any, parameters: Mapping[str, Any]) -> tuple[Map, Any]:
        calibrator = make_calibrator(spec, recipe_folder, seed, **parameters)
        return fitted_map(calibrator, rows, labels, spec.name), calibrator

    def fit_all(parameters: Mapping[str, Any]) -> tuple[Map, dict[str, Any], Any]:
        mapping, calibrator = fit(part.calibration, part.calibration_labels, parameters)
        return mapping, {**parameters, **chosen_parameters(calibrator)}, calibrator

    if not spec.grid:
        return fit_all({})
    native = natively_searched(spec, make_calibrator(spec, recipe_folder, seed))
    if native is not None:
        mapping, calibrator = fit(part.calibration, part.calibration_labels, native)
        return mapping, chosen_parameters(calibrator), calibrator
    best = None
    if spec.select == "training":
        best = best_on_path(part, spec, make_calibrator(spec, recipe_folder, seed))
    if best is None:
        best = best_parameters(part, spec, seed, lambda rows, labels, point: fit(rows, labels, point)[0])
    if spec.select == "training" or spec.refit == "whole":
        return fit_all(best)
    maps = [
        fit(part.calibration.take(rest), part.calibration_labels[rest], best)[0]
        for rest, _ in fold_rows(part.calibration_labels, spec.folds, seed)
    ]
    if not maps:
        raise StudyError(f"calibrator {spec.name!r}: there are no folds to average over.")
    return (lambda predictions: averaged([mapping(predictions) for mapping in maps])), dict(best), None

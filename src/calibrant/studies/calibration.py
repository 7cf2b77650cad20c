"""Calibration in a unit: make a calibrator, choose its parameters, fit it, and map the test rows."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrant import registry
from calibrant.calibrator import Calibrator
from calibrant.calibrators import Chain
from calibrant.errors import ParameterError, RecipeError, StudyError
from calibrant.predictions import Predictions
from calibrant.studies.calibration_search import (
    best_on_path,
    best_parameters,
    fold_rows,
    grid_points,
    natively_searched,
)
from calibrant.studies.fitted_maps import Map, chosen_parameters, fitted_map
from calibrant.studies.outputs_parts import BaseOutputs, Part, averaged
from calibrant.studies.own_code import is_reference, load_object
from calibrant.studies.specifications import CalibratorSpec
from calibrant.studies.static_code import check_reference

__all__ = ["Calibrated", "calibrate", "check_calibrator", "make_calibrator", "needs_own_code"]


@dataclass(frozen=True, eq=False)
class Calibrated:
    """What a calibrator makes of the test rows.

    Attributes
    ----------
    predictions : Predictions
        Of the test rows; averaged over inner folds, if there are several, in float64.
    fit_seconds, predict_seconds : float
        Wall clock of all fits, the search for parameters included, and of mapping the test rows.
    chosen : list of dict
        For every part the parameters that were chosen from a grid, or by the calibrator itself.
    apply : function
        From predictions to calibrated ones, where there is one classifier; for true errors of generated data.
    """

    predictions: Predictions
    fit_seconds: float
    predict_seconds: float
    chosen: list[dict[str, Any]]
    apply: Callable[[Predictions], Predictions] | None = None


def calibrate(outputs: BaseOutputs, spec: CalibratorSpec, recipe_folder: Path, seed: int) -> Calibrated:
    """Fit a calibrator to every part of the outputs and map the test rows.

    Parameters
    ----------
    outputs : BaseOutputs
    spec : CalibratorSpec
        A grid is searched by the log-loss, see :class:`~calibrant.studies.specifications.CalibratorSpec`.
    recipe_folder : Path
        Where calibrators of one's own are.
    seed : int
        Of all that is random: the random state of calibrators that have one, and the folds of a search.

    Notes
    -----
    Grids of the strengths of matrix scaling and Dirichlet calibration are searched by these methods themselves, from warm
    starts. The folds of a cross-validation then depend on the content of the rows. Fits that are compared on the way are
    accurate to about 1e-4 in the log-loss; the last one is exact.
    """
    started = time.perf_counter()
    maps, chosen = [], []
    for part in outputs.parts:
        fitted, parameters = _fitted(part, spec, recipe_folder, seed)
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
    """Return a calibrator that is not fitted yet; ``parameters`` take the place of those of the recipe.

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
    """Tell whether a calibrator, or a part of it, is code of the recipe.

    >>> needs_own_code(CalibratorSpec("t", "temperature")), needs_own_code(CalibratorSpec("o", "own.py:Method"))
    (False, True)
    """
    return any(is_reference(method) for method in _methods(spec))


def _methods(spec: CalibratorSpec) -> list[str]:
    return [str(part.get("method")) for part in spec.parts] if spec.parts else [spec.method]


def check_calibrator(spec: CalibratorSpec, recipe_folder: Path, *, own_code: bool = True) -> None:
    """Refuse a calibrator that cannot be made, with any of the values of its grid.

    Without ``own_code``, code of the recipe is looked up and not run.
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
        text = " ".join(str(error).split()).removesuffix(".")
        raise RecipeError(f"calibrator {name!r}: {method} cannot be made: {text}.") from error
    _seed(calibrator, seed, parameters)
    return calibrator


def _seed(calibrator: Any, seed: int, parameters: Mapping[str, Any]) -> None:
    """Set the random state of a calibrator that has one, and of the stages of a chain."""
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


def _fitted(part: Part, spec: CalibratorSpec, recipe_folder: Path, seed: int) -> tuple[Map, dict[str, Any]]:
    """Return the map that a part leads to, and its chosen parameters."""

    def fit(rows: Predictions, labels: Any, parameters: Mapping[str, Any]) -> tuple[Map, Any]:
        calibrator = make_calibrator(spec, recipe_folder, seed, **parameters)
        return fitted_map(calibrator, rows, labels, spec.name), calibrator

    def whole(parameters: Mapping[str, Any]) -> tuple[Map, dict[str, Any]]:
        mapping, calibrator = fit(part.calibration, part.calibration_labels, parameters)
        return mapping, {**parameters, **chosen_parameters(calibrator)}

    if not spec.grid:
        return whole({})
    native = natively_searched(spec, make_calibrator(spec, recipe_folder, seed))
    if native is not None:
        mapping, calibrator = fit(part.calibration, part.calibration_labels, native)
        return mapping, chosen_parameters(calibrator)
    best = None
    if spec.select == "training":
        best = best_on_path(part, spec, make_calibrator(spec, recipe_folder, seed))
    if best is None:
        best = best_parameters(part, spec, seed, lambda rows, labels, point: fit(rows, labels, point)[0])
    if spec.select == "training" or spec.refit == "whole":
        return whole(best)
    maps = [
        fit(part.calibration.take(rest), part.calibration_labels[rest], best)[0]
        for rest, _ in fold_rows(part.calibration_labels, spec.folds, seed)
    ]
    if not maps:
        raise StudyError(f"calibrator {spec.name!r}: there are no folds to average over.")
    return (lambda predictions: averaged([mapping(predictions) for mapping in maps])), dict(best)

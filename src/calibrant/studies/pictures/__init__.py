"""Figures of a study as SVG files that are the same for the same numbers, and these numbers as CSV."""

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import MissingExtraError
from calibrant.plots.class_probability_boxes import ClassProbabilityBoxDisplay
from calibrant.plots.display import Display
from calibrant.plots.latent_functions import LatentFunctionDisplay
from calibrant.plots.linear_map import LinearMapDisplay
from calibrant.plots.reliability.classwise import ClasswiseReliabilityDisplay
from calibrant.plots.reliability.diagram import ReliabilityDisplay
from calibrant.plots.simplex.interpretation_points import InterpretationPointsDisplay
from calibrant.plots.temperature_histogram_display import TemperatureHistogramDisplay
from calibrant.studies.calibration import calibrate, fitted_calibrator, needs_own_code
from calibrant.studies.outputs import BaseOutputs, OutputsCache, base_outputs
from calibrant.studies.own_code import is_reference
from calibrant.studies.pictures.kinds import BUILDERS, NOTHING, Built
from calibrant.studies.pictures.options import FittedMaps, PictureOptions, Probabilities
from calibrant.studies.results import Results, columns_text, label_text
from calibrant.studies.splits import split_seed
from calibrant.studies.units import GridWork

__all__ = ["DrawnPicture", "draw_picture", "has_units", "pictures_of_predictions", "svg_of"]


def pictures_of_predictions(
    cache_folder: Path | None, own_code: bool = False
) -> Callable[[Results, PictureOptions], Built]:
    """Return a function that draws predictions and fitted calibrators from the cached predictions of classifiers.

    Calibrators are refitted to the same rows with the same seeds. Classifiers are not trained: without cached predictions the
    diagram is skipped. Rows of all folds are pooled, by default of the first repeat. Diagrams of fitted calibrators show
    those of the first unit. Without ``own_code``, diagrams that need the recipe's own code are skipped.
    """

    def build(results: Results, picture: PictureOptions) -> Built:
        if isinstance(picture, FittedMaps):
            return _fitted_maps(results, picture, cache_folder, own_code)
        assert isinstance(picture, Probabilities)
        found, notes = _predictions(results, picture, cache_folder, own_code)
        if not found:
            return Built({}, tuple(notes) or (NOTHING,))
        kind = picture.display
        if kind == "reliability":
            labels = next(iter(found.values()))[0]
            if any(len(each) != len(labels) for each, _ in found.values()):
                return Built({}, ("Not drawn: the calibrators have been evaluated on different rows.",))
            models = {name: probabilities for name, (_, probabilities) in found.items()}
            about: dict[str, Any] = {}
            if picture.class_ is not None:
                about = {"kind": "class", "label": picture.class_}
            return Built({"": ReliabilityDisplay.from_predictions(labels, models, **about)}, tuple(notes))
        displays: dict[str, Display] = {}
        for name, (labels, probabilities) in found.items():
            ending = re.sub(r"[^A-Za-z0-9.-]+", "-", name)
            if kind == "boxes":
                title = f"{name}: probabilities by true class"
                displays[ending] = ClassProbabilityBoxDisplay.from_predictions(
                    labels, probabilities, title=title
                )
            else:
                displays[f"{ending}-confidence"] = ReliabilityDisplay.from_predictions(
                    labels, {name: probabilities}
                )
                displays[ending] = ClasswiseReliabilityDisplay.from_predictions(labels, probabilities)
        return Built(displays, tuple(notes) if kind == "boxes" else ())

    return build


def _works(
    results: Results, picture: PictureOptions, cache: OutputsCache | None, own_code: bool, pooled: bool
) -> tuple[list[tuple[str, GridWork]], list[str]]:
    """Return calibrator and work of the units of a figure, of the first repeat unless pooled, or why there are none."""
    # Units under several names share their key, so lines are told apart by identity.
    lines = {id(line): line for line in results.where(picture.conditions) if line.done}
    if not lines:
        return [], []
    first = min(line.labels.get("repeat", 0) for line in lines.values())
    found = []
    for unit, line in zip(results.plan.units, results.lines, strict=True):
        work = getattr(unit, "work", None)
        if id(line) not in lines or not isinstance(work, GridWork):
            continue
        if not pooled and line.labels.get("repeat", 0) != first:
            continue
        trained = work.training is None or (cache is not None and cache.has(work.training))
        if not trained:
            return [], [
                "Not drawn: the predictions of the classifier are no longer cached; run the study again."
            ]
        if not own_code and _runs_own_code(work, cache):
            return [], [
                "Not drawn: it needs code of the recipe, which a report does not run; use 'calibrant bench run'."
            ]
        found.append((label_text(unit.labels["calibrator"]), work))
    return found, []


def _predictions(
    results: Results, picture: Probabilities, cache_folder: Path | None, own_code: bool
) -> tuple[dict[str, tuple[Any, Any]], list[str]]:
    """Return the true classes and calibrated probabilities of each calibrator."""
    cache = None if cache_folder is None else OutputsCache(cache_folder)
    works, notes = _works(results, picture, cache, own_code, picture.repeats == "all")
    rows: dict[str, list[tuple[Any, Any]]] = {}
    for name, work in works:
        rows.setdefault(name, []).append(_calibrated(work, cache))
    found = {
        name: (
            np.concatenate([labels for labels, _ in parts]),
            np.concatenate([probabilities for _, probabilities in parts]),
        )
        for name, parts in rows.items()
    }
    wanted = picture.calibrators
    if wanted:
        found = {name: found[name] for name in wanted if name in found}
    return found, notes


def _fitted_maps(results: Results, picture: FittedMaps, cache_folder: Path | None, own_code: bool) -> Built:
    """Draw the calibrators of the first split."""
    cache = None if cache_folder is None else OutputsCache(cache_folder)
    works, notes = _works(results, picture, cache, own_code, pooled=False)
    calibrators: dict[str, Any] = {}
    for name, work in works:
        if name in calibrators:
            continue
        with _again(work, cache) as (outputs, folder, seed):
            calibrators[name] = fitted_calibrator(outputs.parts[0], work.calibrator, folder, seed)
    if not calibrators:
        return Built({}, tuple(notes) or (NOTHING,))
    ordered = [name for name in picture.calibrators or calibrators if name in calibrators]
    if picture.display == "latent functions":
        models = {name: calibrators[name] for name in ordered}
        return Built(
            {"": LatentFunctionDisplay.from_estimator(models, outputs.parts[0].test, scores=picture.scores)},
            tuple(notes),
        )
    displays: dict[str, Display] = {}
    for name in ordered:
        ending = re.sub(r"[^A-Za-z0-9.-]+", "-", name) if len(ordered) > 1 else ""
        displays[ending] = _MAPS[picture.display](calibrators[name], outputs, picture)
    return Built(displays, tuple(notes))


_MAPS: dict[str, Callable[[Any, BaseOutputs, FittedMaps], Display]] = {
    "temperatures": lambda calibrator, outputs, _: TemperatureHistogramDisplay.from_estimator(
        calibrator, outputs.parts[0].test, outputs.test_labels
    ),
    "weights": lambda calibrator, outputs, _: LinearMapDisplay.from_estimator(
        calibrator, outputs.parts[0].test, outputs.test_labels
    ),
    "interpretation points": lambda calibrator, _, picture: InterpretationPointsDisplay.from_estimator(
        calibrator, classes=picture.classes
    ),
}


def _runs_own_code(work: GridWork, cache: OutputsCache | None) -> bool:
    request = work.request
    if request.data.kind == "generated" or needs_own_code(work.calibrator):
        return True
    if request.classifier is None or not is_reference(request.classifier.estimator):
        return False
    # Damaged files, and those without predictions for the training set, would be computed again.
    kept = None if cache is None or work.training is None else cache.get(work.training)
    return kept is None or (request.keep_training and kept.parts[0].training is None)


def _calibrated(work: GridWork, cache: OutputsCache | None) -> tuple[Any, Any]:
    with _again(work, cache) as (outputs, folder, seed):
        calibrated = calibrate(outputs, work.calibrator, folder, seed)
    return np.asarray(outputs.test_labels), calibrated.predictions.probabilities


@contextmanager
def _again(work: GridWork, cache: OutputsCache | None) -> Iterator[tuple[BaseOutputs, Path, int]]:
    """Return a context for a unit that has run, with its outputs, the folder of its recipe and its seed."""
    request = work.request
    outputs = base_outputs(request, None if request.classifier is None else cache, work.outputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # They were counted when the unit ran.
        yield outputs, request.recipe_folder, split_seed(request.seed, request.split)


SALT = "calibrant"


@dataclass(frozen=True)
class DrawnPicture:
    """A figure of a report.

    Attributes
    ----------
    options : PictureOptions
    drawings : dict
        Name of the file without its ending -> SVG; None if matplotlib is not installed.
    numbers : dict
        The same names -> comma-separated values.
    notes : tuple of str
        Sentences below the figure.
    """

    options: PictureOptions
    drawings: dict[str, bytes | None]
    numbers: dict[str, str]
    notes: tuple[str, ...]


def draw_picture(
    results: Results,
    options: PictureOptions,
    predictions: Callable[[Results, PictureOptions], Built] | None = None,
) -> DrawnPicture:
    """Draw a figure of results.

    Parameters
    ----------
    results : Results
    options : PictureOptions
    predictions : callable, optional
        Draws predictions and fitted calibrators, see :func:`pictures_of_predictions`.
    """
    if options.kind in BUILDERS:
        built = BUILDERS[options.kind](results, options)
    elif predictions is not None:
        built = predictions(results, options)
    else:
        built = Built({}, ("Not drawn: the predictions are not available.",))
    drawings: dict[str, bytes | None] = {}
    numbers, notes = {}, list(built.notes)
    for ending, display in built.displays.items():
        name = f"{options.name}-{ending}" if ending else options.name
        numbers[name] = columns_text(display)
        try:
            drawings[name] = svg_of(display)
        except MissingExtraError as error:
            drawings[name] = None
            notes.append(f"Not drawn: {error}")
    return DrawnPicture(options, drawings, numbers, tuple(dict.fromkeys(notes)))


def has_units(results: Results, picture: PictureOptions) -> bool:
    """Return whether any unit of the plan belongs to a figure, finished or not."""
    return any(
        all(results.may_have(line, measure) for measure in picture.all_measures)
        for line in results.where(picture.conditions)
    )


def svg_of(display: Display) -> bytes:
    """Return a figure as SVG, with equal bytes for equal numbers."""
    try:
        import matplotlib
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise MissingExtraError("matplotlib", "plots") from error
    stream = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": SALT, "figure.facecolor": "white"}):
        display.plot()
        try:
            display.figure_.savefig(
                stream,
                format="svg",
                metadata={"Date": None, "Creator": None},
                bbox_inches="tight",
                pad_inches=0.1,
            )
        finally:
            pyplot.close(display.figure_)
    # Equal line ends on all systems, and no trailing spaces, which tools for repositories complain about.
    lines = stream.getvalue().decode("utf-8").splitlines()
    return ("\n".join(line.rstrip() for line in lines) + "\n").encode("utf-8")

"""The recommended calibrator as JSON, for readers to try it on their own scores."""

import json
import warnings

import numpy as np

from calibrant.comparison.compare import named_calibrators
from calibrant.errors import NoGraphError
from calibrant.export import Exportable
from calibrant.export.json_file import json_of
from calibrant.report.contents import Example
from calibrant.report.trial import Trial

__all__ = ["example_of"]

# Nobody fills in a form with more fields, and the page should stay small.
MOST_CLASSES = 20
MOST_CHARACTERS = 60_000


def example_of(trial: Trial, classes: tuple[str, ...], random_state: int) -> Example | None:
    """Return the chosen calibrator, fitted to the rows of the comparison, with a typical row before and after.

    None if no method helps, the calibrator has no graph, or the graph would make the page large.
    """
    if not trial.helps or trial.chosen is None or trial.calibrator is None or len(classes) > MOST_CLASSES:
        return None
    calibrator = trial.chosen.calibrator
    if calibrator is None:
        (*_, calibrator) = named_calibrators([trial.calibrator], random_state).values()
        with warnings.catch_warnings():
            # The comparison has raised and noted these warnings already.
            warnings.simplefilter("ignore")
            calibrator.fit_labelled(trial.rows.data)
    given = trial.rows.predictions
    try:
        graph = calibrator.graph(given.space.value)
    except NoGraphError:
        return None
    dtype = np.dtype(np.float64)
    text = json.dumps(json_of(Exportable(graph, classes, classes, dtype)), allow_nan=False)
    if len(text) > MOST_CHARACTERS:
        return None
    # The row of median confidence, rounded.
    confidence = given.probabilities.max(axis=1)
    place = int(np.argsort(confidence, kind="stable")[len(confidence) // 2])
    scores = _short(np.asarray(given.scores[place], dtype=dtype), given.space.value == "probabilities")
    return Example(
        trial.chosen.name,
        given.space.value,
        text,
        tuple(scores.tolist()),
        tuple(graph(scores[np.newaxis])[0].tolist()),
    )


def _short(scores: np.ndarray, are_probabilities: bool) -> np.ndarray:
    """Return scores rounded to three decimals; probabilities still sum to one."""
    short = scores.round(3)
    if are_probabilities:
        top = int(short.argmax())
        short[top] = round(1 - float(np.delete(short, top).sum()), 3)
    return short

"""save: a fitted calibrator into one file."""

import json
import os
import warnings
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import calibrant
from calibrant.calibrator import Calibrator
from calibrant.errors import CalibrationWarning, FileFormatError, NoGraphError
from calibrant.graph.plain import graph_to_plain
from calibrant.persistence.archive import write_archive
from calibrant.persistence.encoding import Encoder
from calibrant.persistence.probe import Probe
from calibrant.persistence.reading import read_calibrator
from calibrant.persistence.replacing import replacing
from calibrant.persistence.schema import FORMAT, SCHEMA_VERSION, UnreadableError, UnstorableError
from calibrant.persistence.validation import UnsoundError, check_fitted

__all__ = ["save"]


def save(calibrator: Calibrator, path: str | os.PathLike[str]) -> None:
    """Write a fitted calibrator to ``path``, exactly as given; :func:`calibrant.load` reads it.

    The file is read back and must predict the same before it takes the place of an older one; on any error
    the older one stays as it was. The same calibrator always gives the same bytes.

    Parameters
    ----------
    calibrator : Calibrator
        Fitted. Its parameters and all attributes that end in an underscore are stored: numbers, text, arrays,
        lists, tuples, dicts whose keys are text or numbers, and other calibrators.
    path : path-like
        No suffix is added; ``.npz`` is usual, and ``numpy.load`` can look inside.

    Raises
    ------
    NotFittedError
        If there is nothing to save.
    FileFormatError
        If a fitted attribute cannot be stored, or the calibrator predicts otherwise when read back.

    Warns
    -----
    CalibrationWarning
        If a parameter cannot be stored, such as a splitter object for ``cv``; its default is stored instead.

    Notes
    -----
    Costs three predictions of five rows and one writing and reading of the fitted arrays.
    """
    name = type(calibrator).__name__
    probe = _probe(calibrator, name)
    encoder = Encoder()
    try:
        content = encoder.calibrator(calibrator)
    except UnstorableError as error:
        subject = f"its {error.where} is" if error.where else "it is"
        raise FileFormatError(
            f"{name} cannot be saved, because {subject} {error.what}; a file holds numbers, text, arrays, "
            "lists, tuples, dicts and the calibrators of the registry."
        ) from None
    try:
        check_fitted(calibrator)
    except UnsoundError as error:
        raise FileFormatError(
            f"{name} cannot be saved, because {error}; fit it again with finite numbers, or name attributes in which NaN "
            "has a meaning in _non_finite_state of the class."
        ) from error
    for replacement in encoder.replacements:
        warnings.warn(
            f"the parameter {replacement.where} of {name} is {replacement.what}, which a file cannot hold; "
            f"its default {replacement.default!r} is saved instead and would be used in another fit.",
            CalibrationWarning,
            stacklevel=3,
        )
    header = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "library_version": calibrant.__version__,
        "calibrator": content,
        "probe": {
            "inputs": encoder.value(probe.inputs, "probe"),
            "outputs": encoder.value(probe.outputs, "probe"),
        },
        "graph": _graph(calibrator, encoder),
    }
    text = json.dumps(header, ensure_ascii=False, allow_nan=False).encode()
    with replacing(path) as stream:
        write_archive(stream, text, encoder.arrays)
        try:
            read_calibrator(stream)
        except UnreadableError as error:
            dropped = ", ".join(replacement.where for replacement in encoder.replacements)
            advice = (
                f"its predictions need {dropped}, which cannot be stored"
                if dropped
                else "all that it needs must be in its parameters and in attributes that end in an underscore"
            )
            raise FileFormatError(
                f"{name} cannot be saved, because what was written {error}; {advice}."
            ) from error


def _graph(calibrator: Calibrator, encoder: Encoder) -> dict[str, Any] | None:
    """Return the graph of the fitted map, or None where it is no list of row operations."""
    try:
        graph = calibrator.graph()
    except NoGraphError:
        return None
    return graph_to_plain(graph, lambda array: encoder.value(array, "graph"))


def _probe(calibrator: Calibrator, name: str) -> Probe:
    check_is_fitted(
        calibrator, msg="this %(name)s is not fitted, so there is nothing to save; call fit first."
    )
    try:
        return Probe.of(calibrator)
    except Exception as error:
        # As after a fit that failed half-way.
        raise NotFittedError(
            f"this {name} cannot be saved, because it does not predict ({type(error).__name__}: {error}); "
            "fit it again."
        ) from error

"""Pictures of a study as files: SVG that comes out the same every time, and the numbers beside it."""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO, StringIO
from typing import Any

from calibrant.errors import MissingExtraError
from calibrant.plots.display import Display
from calibrant.studies.pictures_kinds import BUILDERS, Built
from calibrant.studies.pictures_options import PictureOptions
from calibrant.studies.results import Results, label_text
from calibrant.studies.tables_text import plain_number
from calibrant.tabular import Tabular

__all__ = ["DrawnPicture", "columns_text", "draw_picture", "has_units", "svg_of"]

SALT = "calibrant"
SELECTING = {
    "trial": "trial",
    "data": "data",
    "classifier": "classifier",
    "calibrator": "calibrator",
    "calibrators": "calibrator",
}
"""Options that choose units, and the labels that they are about."""


@dataclass(frozen=True)
class DrawnPicture:
    """A picture of a recipe, ready to be written.

    Attributes
    ----------
    options : PictureOptions
        What the recipe says about it.
    drawings : dict
        Name of the file without its ending -> SVG; None where matplotlib is not installed.
    numbers : dict
        The same names -> comma-separated values.
    notes : tuple of str
        Sentences below.
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
    """Draw a picture of results.

    Parameters
    ----------
    results : Results
        Units and what came of them.
    options : PictureOptions
        Which picture.
    predictions : callable, optional
        Makes pictures of predictions, which the results do not hold.
    """
    if options.kind in BUILDERS:
        built = BUILDERS[options.kind](results, options)
    elif predictions is not None:
        built = predictions(results, options)
    else:
        built = Built({}, ("The predictions for this picture are not at hand.",))
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
    """Tell whether any unit of the plan belongs to a picture, done or not."""
    conditions = dict(picture.where)
    for option, label in SELECTING.items():
        if option in picture.options:
            conditions[label] = picture.get(option)
    measures = [*picture.get("measures", []), *([picture.get("measure")] if picture.get("measure") else [])]
    return any(
        all(results.may_have(line, measure) for measure in measures) for line in results.where(conditions)
    )


def svg_of(display: Display) -> bytes:
    """Return a picture as SVG, the same bytes for the same numbers."""
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
    # Lines end alike everywhere, and no space at an end upsets those who keep pictures in a repository.
    lines = stream.getvalue().decode("utf-8").splitlines()
    return ("\n".join(line.rstrip() for line in lines) + "\n").encode("utf-8")


def columns_text(table: Tabular) -> str:
    """Return the columns of a table as comma-separated values."""
    columns = table.columns()
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        writer.writerow([_text(value) for value in row])
    return stream.getvalue()


def _text(value: Any) -> Any:
    return plain_number(value) if isinstance(value, float) else label_text(value)

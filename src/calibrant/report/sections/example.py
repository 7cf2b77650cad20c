"""Section "Try the calibrator": the recommended calibrator as JSON, which readers can run on their own scores."""

import json
import warnings

import numpy as np

from calibrant.comparison.compare import named_calibrators
from calibrant.errors import NoGraphError
from calibrant.export import Exportable
from calibrant.export.json_file import json_of
from calibrant.presentation.document import OnPage, Paragraph, Section
from calibrant.presentation.markup import element, joined
from calibrant.presentation.table import Cell, Column, Table
from calibrant.presentation.values import Value, decimals
from calibrant.report.contents import Example
from calibrant.report.method_selection import MethodSelection
from calibrant.report.sections import Assessment, section_at

__all__ = ["example_of"]

# Limits that keep the form short and the page small.
MOST_CLASSES = 20
MOST_CHARACTERS = 60_000


@section_at(160)
def example_section(assessment: Assessment) -> Section | None:
    """Return the section with a row of scores that readers can edit."""
    found, classes = assessment.example, assessment.data.classes
    if found is None or len(found.scores) != len(classes):
        return None
    if any(one is None for one in (*found.scores, *found.calibrated)):
        return None
    are_probabilities = found.space == "probabilities"
    caption = f"One row before and after {found.method}"
    columns = (
        Column("Class", is_numeric=False),
        Column("Probability" if are_probabilities else "Logit"),
        Column("Calibrated"),
    )
    lines, form_lines = [], []
    for index, (name, score, calibrated) in enumerate(
        zip(classes, found.scores, found.calibrated, strict=True)
    ):
        given, label = f"{score:.6g}", f"example-class-{index}"
        lines.append((Cell(name), Cell(given), Cell(Value(calibrated, "decimals"))))
        field = element(
            "input",
            type="number",
            class_="controls score",
            hidden=True,
            step="any",
            min=0 if are_probabilities else None,
            value=given,
            aria_labelledby=label,
            autocomplete="off",
        )
        head = element("th", element("bdi", name or "(empty name)"), scope="row", id=label)
        before = element("td", element("span", given, class_="given"), field, class_="number")
        after = element("td", decimals(calibrated), class_="number calibrated")
        form_lines.append(element("tr", head, before, after))
    heads = (
        element("th", element("span", one.title), scope="col", class_="number" if one.is_numeric else None)
        for one in columns
    )
    form_table = element(
        "table",
        element("caption", element("span", caption), id="table-example-caption"),
        element("thead", element("tr", *heads)),
        element("tbody", *form_lines),
        id="table-example",
    )
    box = element(
        "div",
        form_table,
        class_="table-box",
        role="group",
        aria_labelledby="table-example-caption",
        tabindex=0,
    )
    output = element("output", id="example-result", aria_live="polite")
    form = joined(
        element("p", _hint(are_probabilities), class_="controls note", hidden=True),
        element("div", box, class_="table-block"),
        element("p", output, class_="controls", hidden=True),
    )
    lead = f"One row of scores, before and after {found.method} fitted to these rows."
    return Section(
        "example",
        "Try the calibrator",
        (Paragraph(lead, "lead"), OnPage(form, (Table("example", caption, columns, tuple(lines)),))),
        attributes={"data-graph": found.graph, "data-space": found.space},
    )


def _hint(are_probabilities: bool) -> str:
    changed = "probability" if are_probabilities else "logit"
    normalised = " Probabilities are divided by their sum." if are_probabilities else ""
    return (
        f"Change a {changed}; the calibrated probabilities are updated.{normalised} No data leave this page."
    )


def example_of(selection: MethodSelection, classes: tuple[str, ...], random_state: int) -> Example | None:
    """Return the chosen calibrator, fitted to the rows of the comparison, with a typical row before and after.

    None if no method helps, the calibrator has no graph, or the graph would make the page large.
    """
    if (
        not selection.is_recommended
        or selection.chosen is None
        or selection.calibrator is None
        or len(classes) > MOST_CLASSES
    ):
        return None
    calibrator = selection.chosen.calibrator
    if calibrator is None:
        (*_, calibrator) = named_calibrators([selection.calibrator], random_state).values()
        with warnings.catch_warnings():
            # These warnings are already in the notes of the comparison.
            warnings.simplefilter("ignore")
            calibrator.fit_labelled(selection.rows.data)
    given = selection.rows.predictions
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
    scores = _round_scores(np.asarray(given.scores[place], dtype=dtype), given.space.value == "probabilities")
    return Example(
        selection.chosen.name,
        given.space.value,
        text,
        tuple(scores.tolist()),
        tuple(graph(scores[np.newaxis])[0].tolist()),
    )


def _round_scores(scores: np.ndarray, are_probabilities: bool) -> np.ndarray:
    """Return scores rounded to three decimals; probabilities still sum to one."""
    rounded = scores.round(3)
    if are_probabilities:
        top = int(rounded.argmax())
        rounded[top] = round(1 - float(np.delete(rounded, top).sum()), 3)
    return rounded

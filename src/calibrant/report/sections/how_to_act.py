"""Lines to copy that carry out the recommendation: a command and a Python program."""

import shlex
from typing import TYPE_CHECKING

from calibrant import registry
from calibrant.presentation import Code
from calibrant.report.contents import Origin

if TYPE_CHECKING:  # a run-time import would be circular
    from calibrant.report.assessment import Assessment

__all__ = ["lines_to_copy"]

SWITCHES = ("normalise", "drop-missing")
SIGNS = ("separator", "decimal")
WIDTH = 76


def lines_to_copy(assessment: "Assessment") -> tuple[Code, ...]:
    """Return the lines that fit the recommended calibrator to these rows and apply it; none if there is no name for it."""
    advice = assessment.recommendation
    known = registry.calibrators()
    if advice.action != "calibrate" or not all(part in known for part in advice.method.split("+")):
        return ()
    origin = assessment.origin
    if origin is None or not origin.file:
        return (Code(_in_memory(advice.method, assessment.data.space), "In Python"),)
    return (
        Code(_commands(advice.method, origin), "On the command line"),
        Code(_from_file(advice.method, origin), "In Python"),
    )


def _commands(method: str, origin: Origin) -> str:
    options = [
        word
        for name, value in origin.options.items()
        if name != "group" or method == "auto"
        for word in ((f"--{name}", value) if value else (f"--{name}",))
    ]
    signs = [word for name in SIGNS if name in origin.options for word in (f"--{name}", origin.options[name])]
    fit = ["calibrant", "fit", origin.file, *options, "--method", method, "-o", "calibrator.npz"]
    apply = ["calibrant", "apply", "NEW_FILE", "--calibrator", "calibrator.npz", "-o", "OUTPUT_FILE", *signs]
    return f"{_in_lines(fit)}\n{_in_lines(apply)}"


def _in_lines(words: list[str]) -> str:
    r"""Return a command line, continued by backslashes.

    >>> print(_in_lines(["calibrant", "fit", "a file.csv", "--columns", "p_" + 50 * "x" + "*"]))
    calibrant fit 'a file.csv' \
      --columns 'p_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx*'
    """
    lines, line = [], ""
    for number, word in enumerate(words):
        # An option and its value stay together.
        piece = shlex.quote(word)
        if word.startswith("-") and number + 1 < len(words) and not words[number + 1].startswith("-"):
            piece = f"{piece} {shlex.quote(words[number + 1])}"
        elif number and words[number - 1].startswith("-") and not word.startswith("-"):
            continue
        if line and len(line) + len(piece) + 3 > WIDTH:
            lines.append(f"{line} \\")
            line = f"  {piece}"
        else:
            line = f"{line} {piece}" if line else piece
    return "\n".join([*lines, line])


def _from_file(method: str, origin: Origin) -> str:
    arguments = [f"{name}={value!r}" for name, value in origin.options.items() if value and name not in SIGNS]
    arguments += [f"{name.replace('-', '_')}=True" for name in SWITCHES if name in origin.options]
    imported = "read_predictions"
    if any(name in origin.options for name in SIGNS):
        separator, decimal = (origin.options.get(name) for name in SIGNS)
        arguments.append(f"dialect=Dialect.of({separator!r}, {decimal!r})")
        imported = "Dialect, read_predictions"
    weights = ", rows.weights" if "weight" in origin.options else ""
    lines = [
        "from calibrant import registry",
        f"from calibrant.tables import {imported}",
        "",
        f"rows = read_predictions({', '.join([repr(origin.file), *arguments])})",
        f"calibrator = registry.make({method!r})",
        f"calibrator.fit(rows.predictions, rows.labels{weights})",
        'calibrator.save("calibrator.npz")',
    ]
    return "\n".join(lines)


def _in_memory(method: str, space: str) -> str:
    """Return lines for arrays, with names that the reader replaces."""
    given = f"Predictions.from_{space}"
    lines = [
        "from calibrant import Predictions, registry",
        "",
        f"calibrator = registry.make({method!r})",
        f"calibrator.fit({given}(y_scores), y_true)",
        f"probabilities = calibrator.predict_proba({given}(new_scores))",
        'calibrator.save("calibrator.npz")',
    ]
    return "\n".join(lines)

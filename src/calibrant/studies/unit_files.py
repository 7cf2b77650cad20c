"""Unit files: finished units as one compressed table, which another machine can continue from."""

import csv
import json
import lzma
import math
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

from calibrant.errors import ParameterError, StudyError
from calibrant.persistence.replacing import replacing
from calibrant.studies.plan import Plan
from calibrant.studies.results import DONE, Record, Results, label_text
from calibrant.studies.store import Store

__all__ = ["Imported", "export_units", "import_units"]

SUFFIX = ".csv.xz"
KEY_DIGITS = 16
"""Digits of a key in the file; the plan knows the others."""

MIDDLE = ("key", "seconds", "details", "versions")
"""Columns between the labels, which are for readers, and the values."""

MOST_BYTES = 2**29
"""Limit of the decompressed size."""


@dataclass(frozen=True)
class Imported:
    """Number of units that were added to a store, that it had already, and that the recipe does not ask for."""

    added: int
    known: int
    unknown: int


def export_units(plan: Plan, store: Store, path: str | Path) -> int:
    """Write the finished units of a plan to a table in xz format, and return their number.

    Parameters
    ----------
    plan : Plan
    store : Store
    path : str or Path
        The file, whose name ends in ``.csv.xz``. It has one row per unit in the order of the plan: its labels, its key, its
        time, its details and the versions of the last run as JSON, and its values in full precision. Times are rounded to
        microseconds.
    """
    path = _checked(path)
    results = Results(plan, plan.records(store))
    done = [line for line in results.lines if line.done]
    values = list(dict.fromkeys(name for line in done for name in line.values))
    runs = [run for run in store.runs() if run.study == plan.recipe.name]
    made_with = json.dumps(dict(runs[-1].versions) if runs else {})
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*results.labels, *MIDDLE, *values])
    for line in done:
        labels = (label_text(line.labels.get(name)) for name in results.labels)
        details = json.dumps(_rounded(line.details), separators=(",", ":"), sort_keys=True)
        numbers = _rounded(line.values)
        texts = (repr(numbers[name]) if name in numbers else "" for name in values)
        seconds = _microseconds(line.seconds)
        writer.writerow([*labels, line.key[:KEY_DIGITS], seconds, details, made_with, *texts])
    with replacing(path) as file:
        file.write(lzma.compress(stream.getvalue().encode(), preset=9))
    return len(done)


def import_units(plan: Plan, store: Store, path: str | Path) -> Imported:
    """Add the units of a file to a store; a run does not repeat them.

    Parameters
    ----------
    plan : Plan
        Only units of this plan are added. Their keys contain the version of calibrant, the data and all options, so units
        that would give another result today are left out.
    store : Store
        Results that it has already are kept.
    path : str or Path
        A file of :func:`export_units`.

    Raises
    ------
    StudyError
        If the file cannot be read, is damaged or is another table; nothing is added then.
    """
    path = _checked(path)
    try:
        found, made_with = _parsed(_content(path))
    except OSError as error:
        raise StudyError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (lzma.LZMAError, EOFError, ValueError, AttributeError, csv.Error, RecursionError) as error:
        raise StudyError(
            f"{path} is damaged or is not a table of finished units; restore it, or export it again."
        ) from error
    units = {unit.key[:KEY_DIGITS]: unit for unit in plan.units}
    known = {key[:KEY_DIGITS] for key in store.keys(DONE)}
    new = [
        Record(units[key].key, dict(units[key].labels), DONE, values, details, "", seconds)
        for key, (seconds, details, values) in found.items()
        if key in units and key not in known
    ]
    if new:
        run = store.begin_run(
            plan.recipe.name, plan.recipe.form, jobs=1, backend="import", processors=0, versions=made_with
        )
        store.add(*new, run=run)
    n_units = sum(key in units for key in found)
    return Imported(len(new), n_units - len(new), len(found) - n_units)


def _checked(path: str | Path) -> Path:
    path = Path(path)
    if not path.name.endswith(SUFFIX):
        raise ParameterError(f"a file of units is named *{SUFFIX}, not {path.name}; rename it.")
    return path


def _content(path: Path) -> str:
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    content = decompressor.decompress(path.read_bytes(), MOST_BYTES)
    if not decompressor.eof or decompressor.unused_data:
        raise EOFError
    return content.decode()


Parsed = tuple[float, dict[str, Any], dict[str, float]]


def _parsed(text: str) -> tuple[dict[str, Parsed], dict[str, str]]:
    """Return seconds, details and values by the first digits of the key, and the versions."""
    rows = csv.reader(StringIO(text), strict=True)
    header = next(rows, [])
    start = header.index(MIDDLE[0])
    if tuple(islice(header, start, start + len(MIDDLE))) != MIDDLE:
        raise ValueError("other columns")
    names = header[start + len(MIDDLE) :]
    found: dict[str, Parsed] = {}
    made_with = ""
    for row in rows:
        if len(row) != len(header):
            raise ValueError("other columns")
        key, seconds, details, made_with, *numbers = row[start:]
        content = json.loads(details)
        if len(key) != KEY_DIGITS or not isinstance(content, dict) or not 0 <= float(seconds) < math.inf:
            raise ValueError("other values")
        values = {name: float(number) for name, number in zip(names, numbers, strict=True) if number}
        found[key] = float(seconds), content, values
    return found, {str(name): str(version) for name, version in json.loads(made_with or "{}").items()}


def _rounded(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping whose times are rounded, since their digits make most of a small file."""
    return {
        name: _microseconds(value) if name.endswith("seconds") and isinstance(value, float) else value
        for name, value in content.items()
    }


def _microseconds(seconds: float) -> float:
    return round(seconds, 6)

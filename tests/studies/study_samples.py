"""Plans and records for the tests of results: what a run would leave behind, without running anything."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from calibrant.studies.pictures.options import PictureOptions
from calibrant.studies.results import Record, Results
from calibrant.studies.specifications import MeasureSpec
from calibrant.studies.tables.options import TableOptions

MEASURES = (
    MeasureSpec("log_loss", "log_loss"),
    MeasureSpec("accuracy", "accuracy", higher_is_better=True),
    MeasureSpec("p", "confidence_ece", test=True, higher_is_better=True),
)


def sample(
    labels: Sequence[Mapping[str, Any]],
    values: Sequence[Mapping[str, float] | None],
    *,
    tables: Sequence[Mapping[str, Any]] = (),
    pictures: Sequence[Mapping[str, Any]] = (),
    details: Sequence[Mapping[str, Any]] | None = None,
    folder: Path = Path("nowhere"),
    absent: Sequence[tuple[str, str]] = (),
) -> Results:
    """Return results of units with these labels; values of None are units that failed."""
    recipe = SimpleNamespace(
        name="sample", title="A sample", form=None, folder=folder, measures=MEASURES, limit_seconds=None,
        tables=tuple(TableOptions.parse(one) for one in tables),
        pictures=tuple(PictureOptions.parse(one) for one in pictures),
    )  # fmt: skip
    units = [SimpleNamespace(key=f"key{number}", labels=dict(one)) for number, one in enumerate(labels)]
    records = []
    for number, found in enumerate(values):
        if found is None:
            records.append(Record(f"key{number}", {}, "failed", message="ValueError: no way.", seconds=0.5))
        else:
            some = dict(details[number]) if details else {}
            records.append(Record(f"key{number}", {}, "done", dict(found), some, seconds=0.5))
    return Results(SimpleNamespace(recipe=recipe, units=units, absent=tuple(absent)), records)


def crossed(
    value: Callable[..., float],
    measure: str = "log_loss",
    **levels: Sequence[Any],
) -> Results:
    """Return results of all combinations of labels; a value of NaN is a unit that failed."""
    labels = [dict(zip(levels, combination, strict=True)) for combination in product(*levels.values())]
    numbers = [value(**each) for each in labels]
    return sample(labels, [None if math.isnan(number) else {measure: number} for number in numbers])


def from_figures(path: Path, measure: str = "log_loss") -> Results:
    """Return results that are the figures of a paper, one unit for each."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    header = lines[0].split(",")
    labels, values = [], []
    for line in lines[1:]:
        row, *numbers = line.split(",")
        if row.startswith(("avg", "average")):
            continue
        for column, number in zip(header[1:], numbers, strict=True):
            labels.append({"data": row, "calibrator": column})
            values.append({measure: float(number)})
    return sample(labels, values)

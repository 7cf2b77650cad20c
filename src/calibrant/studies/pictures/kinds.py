"""Displays of results: one function for each kind of figure that needs only measures."""

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from calibrant.plots.critical_difference_display import CriticalDifferenceDisplay
from calibrant.plots.display import Display
from calibrant.plots.pass_rate_display import PassRateDisplay
from calibrant.presentation import counted, p_text
from calibrant.ranking import friedman_test
from calibrant.studies.pictures.displays import BarsDisplay, Curve, LinesDisplay
from calibrant.studies.pictures.options import (
    Axes,
    Bars,
    Chosen,
    CriticalDifference,
    Lines,
    Measures,
    PassRate,
    PictureOptions,
    Series,
)
from calibrant.studies.results import MEASURE, SPLIT_LABELS, Results, label_text
from calibrant.studies.tables.cells import CellUnits, grouped, spread_over_splits
from calibrant.studies.tables.options import TableOptions
from calibrant.studies.tables.ranks import ranking_of_rows

__all__ = ["BUILDERS", "NOTHING", "Built"]

NOTHING = "Not drawn: none of its units is finished."


@dataclass(frozen=True)
class Built:
    """Displays by the suffix of their file name, which is empty for a single one, and notes below them."""

    displays: dict[str, Display]
    notes: tuple[str, ...] = ()


def _one(display: Display, *notes: str) -> Built:
    return Built({"": display}, tuple(note for note in notes if note))


def _nothing() -> Built:
    return Built({}, (NOTHING,))


def _critical_difference(results: Results, picture: CriticalDifference) -> Built:
    measure, columns = picture.measure, picture.columns or "calibrator"
    tasks = picture.tasks or [
        label for label in results.labels if label != columns and label not in SPLIT_LABELS
    ]
    groups = grouped(results, [measure], tasks, columns, picture.where, picture.level)
    better = picture.better
    higher = better == "higher" if better else results.higher_is_better(measure)
    ranking = None
    if len(groups.columns) > 1:
        ranking = ranking_of_rows(groups, TableOptions("ranks"), dict.fromkeys(groups.rows, higher))
    if ranking is None or not len(ranking.means) or len(ranking.columns) < 2:
        return _nothing()
    empty = [column for column in groups.columns if column not in ranking.columns]
    control = picture.control or None
    test = picture.test or ("bonferroni-dunn" if control else "nemenyi")
    if test == "bonferroni-dunn" and control is None:
        control = ranking.columns[int(np.argmin(ranking.all_ranks.mean(axis=0)))]
    display = CriticalDifferenceDisplay.from_table(
        ranking.means,
        names=ranking.columns,
        test=test,
        control=control,
        alpha=picture.alpha,
        sides=picture.sides,
    )
    about = _on_test(display)
    if picture.post_hoc_below < 1:
        p_value = friedman_test(ranking.means).p_value
        if not p_value < picture.post_hoc_below:
            display = _joined(display)
            about = (
                f"Friedman's test: {p_text(p_value)}, not below {picture.post_hoc_below:g}, so there is no post-hoc "
                "test, and one bar joins all methods."
            )
    return _one(
        display,
        about,
        f"Not shown because they have no numbers: {', '.join(empty)}." if empty else "",
        _left_out(len(ranking.left_out), len(groups.rows), "task"),
        _shortened(len(ranking.shortened)),
    )


def _joined(display: CriticalDifferenceDisplay) -> CriticalDifferenceDisplay:
    """Return a diagram in which no difference is significant."""
    order = np.argsort(display.average_ranks, kind="stable")
    everything = tuple(display.methods[k] for k in order)
    return CriticalDifferenceDisplay(
        display.methods,
        display.average_ranks,
        display.critical_difference,
        [everything],
        display.n_tasks,
        alpha=display.alpha,
    )


def _on_test(display: CriticalDifferenceDisplay) -> str:
    """Return a sentence with the test and the critical difference."""
    against = "Nemenyi test of all pairs"
    if display.control is not None:
        sided = "one-sided " if display.sides == 1 else ""
        against = f"{sided}Bonferroni-Dunn test against {display.control}"
    return (
        f"Critical difference of average ranks at the {100 * display.alpha:g} % level ({against}): "
        f"{display.critical_difference:.4g}."
    )


class _UnitPassRateDisplay(PassRateDisplay):
    """Fraction of units that pass; a unit is one split of a task."""

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return methods from best to worst, with the number of units they pass, the fraction and its interval."""
        return {"units" if name == "tasks" else name: column for name, column in super().columns().items()}

    def plot(self, ax: Any = None) -> Self:
        """Draw on the given axes, or on those of a new figure, and return self."""
        super().plot(ax)
        label = self.ax_.get_xlabel().replace(f"{self.n_tasks} tasks", counted(self.n_tasks, "unit"))
        self.ax_.xaxis.label.set_text(label)
        self.ax_.title.set_text(self.ax_.get_title().replace("Tasks", "Units"))
        return self


def _pass_rate(results: Results, picture: PassRate) -> Built:
    measure, by = picture.measure, picture.by or "calibrator"
    rows = [label for label in results.labels if label != by]
    groups = grouped(results, [measure], rows, by, picture.where)
    values = np.array([[groups.cell(row, column).mean for column in groups.columns] for row in groups.rows])
    if not values.size:
        return _nothing()
    complete = ~np.isnan(values).any(axis=1)
    if not complete.any() or len(groups.columns) < 2:
        return _nothing()
    display = _UnitPassRateDisplay.from_p_values(values[complete], names=groups.columns, alpha=picture.level)
    return _one(display, _left_out(int((~complete).sum()), len(complete), "unit"))


def _lines(results: Results, picture: Lines) -> Built:
    x, measure, series = picture.x, picture.measure, picture.series or "calibrator"
    groups = grouped(results, [measure], [x], series, picture.where)
    levels = {label_text(level): level for level in results.levels(x)}
    numbers = {text: float(level) for text, level in levels.items() if _is_number(level)}
    words: dict[float, str] = {}
    if picture.places:
        numbers = {str(text): float(place) for text, place in picture.places.items()}
    elif len(numbers) < len(levels):  # Words are shown in their order.
        numbers = {row[0]: float(place) for place, row in enumerate(groups.rows)}
        words = {place: text for text, place in numbers.items()}
    points = {
        column: {numbers[row[0]]: groups.cell(row, column) for row in groups.rows if row[0] in numbers}
        for column in groups.columns
    }
    label_x, label_y = _given(picture.label_x, x), _given(picture.label_y, measure)
    return _curves(points, picture, label_x, label_y, _repeated(results, picture, x, series), words)


def _measures(results: Results, picture: Measures) -> Built:
    names, series = picture.measures, picture.series or "calibrator"
    groups = grouped(results, names, [MEASURE], series, picture.where)
    places = dict(zip(names, map(float, picture.x), strict=True))
    points = {
        column: {place: groups.cell((name,), column) for name, place in places.items()}
        for column in groups.columns
    }
    label_x, label_y = _given(picture.label_x, "x"), _given(picture.label_y, "measure")
    return _curves(points, picture, label_x, label_y, _repeated(results, picture, series))


def _series(results: Results, picture: Series) -> Built:
    """Draw the series that trials return, averaged over seeds."""
    by = picture.by
    points: dict[str, dict[float, CellUnits]] = {}
    open_units = 0
    for line in results.where(picture.conditions):
        name = _series_name(by, line.labels.get(by)) if by else ""
        cells = points.setdefault(name, {})
        if not line.done:
            open_units += 1
            continue
        series = line.details.get("series", {})
        y = series.get(picture.y, [])
        x = series.get(picture.x, range(len(y)))
        for place, value in zip(x, y, strict=False):
            cell = cells.setdefault(float(place), CellUnits())
            where: tuple[tuple[str, ...], Hashable] = ((), (line.key,))
            cell.planned.add(where)
            if value is not None and not math.isnan(value):
                cell.values[where] = float(value)
    unfinished = (
        f"{counted(open_units, 'unfinished trial')} {'is' if open_units == 1 else 'are'} not shown."
        if open_units
        else ""
    )
    return _curves(
        points,
        picture,
        _given(picture.label_x, picture.x),
        _given(picture.label_y, picture.y),
        "seeds",
        notes=(unfinished,),
    )


def _repeated(results: Results, picture: PictureOptions, *labels: str) -> str:
    """Return over what a point is averaged."""
    lines = [line for line in results.where(picture.where) if all(label in line.labels for label in labels)]
    trials = sum("trial" in line.labels for line in lines)
    if trials and trials == len(lines):
        return "seeds"
    return "splits and seeds" if trials else "splits"


def _curves(
    points: dict[str, dict[float, CellUnits]],
    picture: Axes,
    label_x: str,
    label_y: str,
    repeated: str,
    words: dict[float, str] | None = None,
    notes: Iterable[str] = (),
) -> Built:
    scale = picture.scale
    curves = {}
    missing = planned = 0
    for name, cells in points.items():
        missing += sum(len(cell.planned) - len(cell.values) for cell in cells.values())
        planned += sum(len(cell.planned) for cell in cells.values())
        there = {place: cell for place, cell in sorted(cells.items()) if cell.values}
        if there:
            curve = Curve(
                np.array(list(there)),
                np.array([cell.mean * scale for cell in there.values()]),
                np.array([spread_over_splits(cell.values) * abs(scale) for cell in there.values()]),
                np.array([len(cell.values) for cell in there.values()], dtype=np.intp),
            )
            curves[name] = _regression(curve, there, scale) if picture.band == "gp" else curve
    if not curves:
        return _nothing()
    band = picture.band in ("sd", "gp")
    display = LinesDisplay(
        curves,
        label_x=_in_words(label_x),
        label_y=_in_words(label_y),
        band=band,
        log_x=picture.log_x,
        log_y=picture.log_y,
        names_x=words,
    )
    return _one(display, _ABOUT_BANDS[picture.band].format(repeated), _missing(missing, planned), *notes)


_ABOUT_BANDS = {
    "": "",
    "sd": "Bands: mean ± one standard deviation over {}.",
    "gp": "Gaussian-process regression on all {}; bands: ± one standard deviation of its posterior mean.",
}


def _regression(curve: Curve, cells: dict[float, CellUnits], scale: float) -> Curve:
    """Return a Gaussian-process regression on the values of all units, at the places of a curve."""
    x = np.array([place for place, cell in cells.items() for _ in cell.values])[:, np.newaxis]
    y = np.array([value * scale for cell in cells.values() for value in cell.values.values()])
    width = float(np.ptp(x))
    if len(cells) < 3 or not width:
        return curve
    kernel = ConstantKernel() * RBF(0.2, (0.05, 2.0)) + WhiteKernel(0.1, (1e-6, 10.0))
    process = GaussianProcessRegressor(kernel, normalize_y=True).fit(x / width, y)
    mean, deviation = process.predict(curve.x[:, np.newaxis] / width, return_std=True)
    # The deviation of new values contains the noise, the band that of the mean.
    noise = process.kernel_.k2.noise_level * float(np.var(y))
    return replace(curve, y=mean, sd=np.sqrt(np.maximum(deviation**2 - noise, 0.0)))


def _bars(results: Results, picture: Bars) -> Built:
    measure, by, series = picture.measure, picture.by, picture.series
    columns = series or MEASURE
    groups = grouped(results, [measure], [by], columns, picture.where)
    if not any(cell.values for cell in groups.cells.values()):
        return _nothing()
    scale, names = picture.scale, [row[0] for row in groups.rows]
    means = {
        column: np.array([groups.cell(row, column).mean * scale for row in groups.rows])
        for column in groups.columns
    }
    spreads = {
        column: np.array(
            [spread_over_splits(groups.cell(row, column).values) * abs(scale) for row in groups.rows]
        )
        for column in groups.columns
    }
    reference = picture.relative_to
    label = _given(picture.label_y, measure)
    if reference:
        found = reference in names or reference in means
        if not found:
            return Built({}, (f"Not drawn: there is no {reference} to divide by.",))
        divisors = {
            column: row[names.index(reference)] if reference in names else means[reference]
            for column, row in means.items()
        }
        spreads = {column: _quotient(row, np.abs(divisors[column])) for column, row in spreads.items()}
        means = {column: _quotient(row, divisors[column]) for column, row in means.items()}
        label = f"{label}, divided by that of {reference}"
    units = groups.cells.values()
    display = BarsDisplay(
        names,
        means if series else {"": means[measure]},
        spreads=(spreads if series else {"": spreads[measure]}) if picture.band == "sd" else None,
        label_groups=_in_words(by),
        label_values=_in_words(label),
        line=1.0 if reference else None,
    )
    planned = sum(len(cell.planned) for cell in units)
    return _one(display, _missing(planned - sum(len(cell.values) for cell in units), planned))


def _chosen(results: Results, picture: Chosen) -> Built:
    """Count how often each value of a parameter was selected."""
    parameter, by = picture.parameter, picture.by
    counts: dict[str, dict[Any, int]] = {}
    for line in results.where(picture.conditions):
        name = label_text(line.labels.get(by)) if by else ""
        for chosen in line.details.get("chosen") or ():
            if parameter in chosen:
                row = counts.setdefault(name, {})
                row[chosen[parameter]] = row.get(chosen[parameter], 0) + 1
    values = {value for row in counts.values() for value in row}
    if not values:
        return _nothing()
    ordered = sorted(values) if all(map(_is_number, values)) else sorted(values, key=str)
    texts = [f"{value:g}" if _is_number(value) else str(value) for value in ordered]
    display = BarsDisplay(
        texts,
        {
            name: np.array([row.get(value, 0) for value in ordered], dtype=np.float64)
            for name, row in counts.items()
        },
        label_groups=_in_words(parameter),
        label_values="how often it was chosen",
    )
    return _one(display)


BUILDERS: dict[str, Callable[[Results, Any], Built]] = {
    "critical-difference": _critical_difference,
    "pass-rate": _pass_rate,
    "lines": _lines,
    "measures": _measures,
    "series": _series,
    "bars": _bars,
    "chosen": _chosen,
}
"""Kind of figure -> function that builds its displays."""


def _series_name(label: str, value: Any) -> str:
    if isinstance(value, bool):
        return label if value else f"not {label}"
    return label_text(value)


def _quotient(row: NDArray[np.float64], divisor: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return quotients, NaN where they are undefined."""
    quotients = np.full(len(row), np.nan)
    np.divide(row, divisor, out=quotients, where=np.isfinite(row) & np.isfinite(divisor) & (divisor != 0))
    return quotients


def _in_words(name: str) -> str:
    return name.replace("_", " ")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _left_out(number: int, total: int, what: str) -> str:
    if not number:
        return ""
    return f"{number} of {counted(total, what)} {'is' if number == 1 else 'are'} left out because a number is missing."


def _shortened(number: int) -> str:
    if not number:
        return ""
    return f"{counted(number, 'task')} {'is' if number == 1 else 'are'} compared only on units that all columns have."


def _missing(number: int, planned: int) -> str:
    if not number:
        return ""
    return f"{number} of {counted(planned, 'unit')} {'is' if number == 1 else 'are'} missing."


def _given(label: str | None, otherwise: str) -> str:
    return otherwise if label is None else label

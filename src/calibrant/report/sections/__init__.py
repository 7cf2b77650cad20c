"""Sections of the report, one or more per file of this folder; each declares its place."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

from calibrant.errors import FileFormatError
from calibrant.presentation import Section, from_plain
from calibrant.report.evaluation_set import EvaluationSet

if TYPE_CHECKING:
    from calibrant.report.assessment import Assessment as Assessment
else:
    Assessment = Any  # which imports all sections

__all__ = ["ReportSection", "further_numbers", "read_further_numbers", "section_at", "sections"]

ReportSection = Callable[[Assessment], Section | None]
"""Function that returns a section of a report, or None if there is nothing to show."""

Measure = Callable[[EvaluationSet, EvaluationSet | None, float, int], Any]
"""Function of the rows, the same rows after calibration if it is recommended, the level and the seed."""


class Declared(NamedTuple):
    """A section with its place, and the function that measures its numbers."""

    place: float
    section: ReportSection
    measure: Measure | None

    @property
    def name(self) -> str:
        """Key of the numbers in ``Assessment.further``."""
        return self.section.__name__.removesuffix("_section")


DECLARED: list[Declared] = []
"""Declared sections in the order in which their files were read."""


def section_at(place: float, measure: Measure | None = None) -> Callable[[ReportSection], ReportSection]:
    """Declare a section of the report.

    Parameters
    ----------
    place : float
        Sections are in the order of their places. The verdict is at 10, the terms are at 200.
    measure : function, optional
        For numbers that the assessment does not have. ``measure(rows, after, level, random_state)`` returns a frozen
        dataclass, or None, and is annotated with that type. The section finds it in ``assessment.further`` under its own
        name, without ``_section``, and JSON files contain it.
    """

    def declare(section: ReportSection) -> ReportSection:
        DECLARED.append(Declared(place, section, measure))
        return section

    return declare


@cache
def _declared() -> tuple[Declared, ...]:
    for found in iter_modules(__path__):
        import_module(f"calibrant.report.sections.{found.name}")
    return tuple(sorted(DECLARED, key=lambda each: each.place))


def sections() -> tuple[ReportSection, ...]:
    """Return all sections in their order."""
    return tuple(each.section for each in _declared())


def further_numbers(
    rows: EvaluationSet, after: EvaluationSet | None, level: float, random_state: int
) -> dict[str, Any]:
    """Return the numbers that sections measure themselves, by the names of the sections."""
    return {each.name: each.measure(rows, after, level, random_state) for each in _declared() if each.measure}


def read_further_numbers(plain: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of sections from plain data."""
    types = {each.name: get_type_hints(each.measure)["return"] for each in _declared() if each.measure}
    unknown = sorted(set(plain) - set(types))
    if unknown:
        raise FileFormatError(
            f"the report has numbers of a section {unknown[0]!r}, which this version does not have."
        )
    return {name: from_plain(types[name], value, f"report.further.{name}") for name, value in plain.items()}

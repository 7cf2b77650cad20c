"""Studies: experiments described by a recipe, run unit by unit, kept in one store and reported.

A recipe crosses data sets, classifiers, calibrators and splits. :func:`read_recipe` reads and checks it, :func:`plan` turns
it into units, :func:`run` runs those that a :class:`Store` does not have yet, and :func:`write_report` shows the
:class:`Results` beside the figures of the paper.
"""

from calibrant.studies.data import StudyData
from calibrant.studies.execution import Progress, Summary, run
from calibrant.studies.plan import Plan, plan
from calibrant.studies.recipe import Recipe, read_recipe
from calibrant.studies.report import write_report
from calibrant.studies.results import Outcome, Record, Results
from calibrant.studies.store import Run, Store
from calibrant.studies.units import Unit

__all__ = [
    "Outcome",
    "Plan",
    "Progress",
    "Recipe",
    "Record",
    "Results",
    "Run",
    "Store",
    "StudyData",
    "Summary",
    "Unit",
    "plan",
    "read_recipe",
    "run",
    "write_report",
]

"""Studies: reproducible experiments that a TOML recipe describes.

A recipe crosses data sets, classifiers, calibrators and splits. :func:`read_recipe` reads and checks it, :func:`plan`
lists its units, :func:`run` runs those that are not in the :class:`Store` yet, and :func:`write_report` reports the
:class:`Results` beside the published numbers.
"""

from calibrant.studies.data import StudyData
from calibrant.studies.execution import Progress, Summary, run
from calibrant.studies.plan import Plan, plan
from calibrant.studies.recipe import Recipe, read_recipe
from calibrant.studies.report import write_report
from calibrant.studies.results import Outcome, Record, Results
from calibrant.studies.store import Run, Store
from calibrant.studies.unit_files import Imported, export_units, import_units
from calibrant.studies.units import Unit

__all__ = [
    "Imported",
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
    "export_units",
    "import_units",
    "plan",
    "read_recipe",
    "run",
    "write_report",
]

"""A study as the command line takes it: recipe, form, data folder and store."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from calibrant.cli.notes import note
from calibrant.errors import ParameterError, StudyError
from calibrant.studies import Plan, Recipe, Store, plan, read_recipe
from calibrant.studies.report import write_report
from calibrant.studies.results import Results
from calibrant.studies.shown_checks import check_shown
from calibrant.wording import counted

__all__ = ["Study", "conditions"]


@dataclass(frozen=True)
class Study:
    """A recipe with the folder of its data and the file of its store."""

    recipe: Recipe
    path: Path
    data_folder: Path
    store_path: Path

    @classmethod
    def named(cls, path: Path, form: str | None, data: Path | None, store: Path | None) -> "Study":
        """Find what was not named: data in CALIBRANT_DATA or beside the recipe, the store in the working folder."""
        recipe = read_recipe(path, form)
        folder = data or Path(os.environ.get("CALIBRANT_DATA") or recipe.folder)
        if not folder.is_dir():
            raise ParameterError(f"there is no folder {folder} with data; name it by --data.")
        return cls(recipe, path, folder, store or Path(f"{recipe.name}.sqlite"))

    @property
    def name(self) -> str:
        """Name of the recipe, with its form."""
        return self.recipe.name + (f", form {self.recipe.form}" if self.recipe.form else "")

    def plan(self, *, quiet: bool = False, shown: bool = False) -> Plan:
        """Return the units, and note what is left out; check tables and pictures if they are to be shown."""
        planned = plan(self.recipe, self.data_folder)
        if shown:
            check_shown(planned)
        for name, reason in planned.absent if not quiet else ():
            note(f"{name} is left out: {reason}")
        return planned

    def old_keys(self, store: Store) -> set[str]:
        """Return the keys that runs of this study wrote and that neither the whole recipe nor any of its forms asks for."""
        plans = [plan(read_recipe(self.path, form), self.data_folder) for form in (None, *self.recipe.forms)]
        absent = {name: reason for planned in plans for name, reason in planned.absent}
        if absent:
            name, reason = next(iter(absent.items()))
            others = f", and {counted(len(absent) - 1, 'other')}," if len(absent) > 1 else ""
            raise StudyError(
                f"{name}{others} cannot be found ({reason.rstrip('.')}), so that results of it would be taken for old; name "
                "the folder by --data, or take out of the recipe what is gone for good."
            )
        return store.keys_of_study(self.recipe.name) - {unit.key for each in plans for unit in each.units}

    @contextmanager
    def opened(self, *, create: bool = False) -> Iterator[Store]:
        """Open the store."""
        with Store(self.store_path, create=create) as store:
            yield store

    def report(self, planned: Plan, store: Store, output: Path | None, *, own_code: bool = False) -> Path:
        """Write the report and return its folder; own code of the recipe may run only if the study was run."""
        folder = self.output_folder(output)
        records = planned.records(store)
        runs = [run for run in store.runs() if run.study == self.recipe.name]
        write_report(
            Results(planned, records),
            folder,
            cache_folder=store.outputs_folder.resolve(),
            runs=runs,
            checked=True,
            own_code=own_code,
        )
        return folder

    def output_folder(self, output: Path | None) -> Path:
        """Return the folder of the report, made and tried out, since hours later would be too late to find it closed."""
        folder = output or self.default_output
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=folder):
                pass
        except OSError as error:
            reason = (error.strerror or str(error)).rstrip(".")
            raise ParameterError(
                f"the report cannot be written to {folder} ({reason[:1].lower()}{reason[1:]}); name another folder by -o."
            ) from error
        return folder

    @property
    def default_output(self) -> Path:
        """Folder of the report where none is named."""
        folder = Path(f"{self.recipe.name}-results")
        return folder / self.recipe.form if self.recipe.form else folder


def conditions(texts: tuple[str, ...]) -> dict[str, list[str]]:
    """Return conditions on labels.

    >>> conditions(("data=iris", "data=car", "calibrator=Beta"))
    {'data': ['iris', 'car'], 'calibrator': ['Beta']}
    """
    found: dict[str, list[str]] = {}
    for text in texts:
        label, equals, value = text.partition("=")
        if not equals or not label.strip():
            raise ParameterError(f"--where {text} is not of the form label=value, such as data=iris.")
        found.setdefault(label.strip(), []).append(value.strip())
    return found

"""A study on the command line: recipe, form, data folder and store."""

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
    """A recipe with its data folder and the file of its store."""

    recipe: Recipe
    path: Path
    data_folder: Path
    store_path: Path

    @classmethod
    def named(cls, path: Path, form: str | None, data: Path | None, store: Path | None) -> "Study":
        """Apply defaults: data in CALIBRANT_DATA or next to the recipe, the store in the working directory."""
        recipe = read_recipe(path, form)
        folder = data or Path(os.environ.get("CALIBRANT_DATA") or recipe.folder)
        if not folder.is_dir():
            raise ParameterError(f"the data folder {folder} does not exist; give it with --data.")
        return cls(recipe, path, folder, store or Path(f"{recipe.name}.sqlite"))

    @property
    def name(self) -> str:
        """Name of the recipe, with its form."""
        return self.recipe.name + (f", form {self.recipe.form}" if self.recipe.form else "")

    def plan(self, *, quiet: bool = False, shown: bool = False) -> Plan:
        """Return the units, with notes on skipped ones; check tables and figures if they are to be shown."""
        planned = plan(self.recipe, self.data_folder)
        if shown:
            check_shown(planned)
        for name, reason in planned.absent if not quiet else ():
            note(f"{name} is left out: {reason}")
        return planned

    def old_keys(self, store: Store) -> set[str]:
        """Return the keys of results that no form of the recipe asks for any more."""
        plans = [plan(read_recipe(self.path, form), self.data_folder) for form in (None, *self.recipe.forms)]
        absent = {name: reason for planned in plans for name, reason in planned.absent}
        if absent:
            name, reason = next(iter(absent.items()))
            others = f", and {counted(len(absent) - 1, 'other')}," if len(absent) > 1 else ""
            raise StudyError(
                f"{name}{others} cannot be found ({reason.rstrip('.')}), so its results would be treated as old; give the "
                "folder with --data, or delete from the recipe what no longer exists."
            )
        return store.keys_of_study(self.recipe.name) - {unit.key for each in plans for unit in each.units}

    @contextmanager
    def opened(self, *, create: bool = False) -> Iterator[Store]:
        """Open the store."""
        with Store(self.store_path, create=create) as store:
            yield store

    def report(self, planned: Plan, store: Store, output: Path | None, *, own_code: bool = False) -> Path:
        """Write the report and return its folder; Python code of the recipe runs only if the study was run."""
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
        """Create the folder of the report and check that it is writable, before hours of computation."""
        folder = output or self.default_output
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=folder):
                pass
        except OSError as error:
            reason = (error.strerror or str(error)).rstrip(".")
            raise ParameterError(
                f"the report cannot be written to {folder} ({reason[:1].lower()}{reason[1:]}); give another folder with -o."
            ) from error
        return folder

    @property
    def default_output(self) -> Path:
        """Default folder of the report."""
        folder = Path(f"{self.recipe.name}-results")
        return folder / self.recipe.form if self.recipe.form else folder


def conditions(texts: tuple[str, ...]) -> dict[str, list[str]]:
    """Parse conditions on labels.

    >>> conditions(("data=iris", "data=car", "calibrator=Beta"))
    {'data': ['iris', 'car'], 'calibrator': ['Beta']}
    """
    found: dict[str, list[str]] = {}
    for text in texts:
        label, equals, value = text.partition("=")
        if not equals or not label.strip():
            raise ParameterError(f"--where takes LABEL=VALUE, such as data=iris, not {text}.")
        found.setdefault(label.strip(), []).append(value.strip())
    return found

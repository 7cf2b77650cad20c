"""``calibrant bench``: run studies of many data sets, classifiers and methods from a recipe."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Self

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from calibrant.cli.console import note, printed, tell
from calibrant.cli.exit_codes import ExitCode
from calibrant.cli.files import check_writable
from calibrant.cli.rendering import Columns, Result, Section, deliver
from calibrant.errors import ParameterError, StudyError
from calibrant.presentation import duration as duration_text
from calibrant.presentation.sentences import counted
from calibrant.presentation.text import in_one_line
from calibrant.studies import Plan, Progress, Recipe, Store, export_units, import_units, plan, read_recipe
from calibrant.studies import run as run_plan
from calibrant.studies.forecast import TimeLeft, sizes_of
from calibrant.studies.recipe import FILE_NAME, check_own_code, shipped_recipes
from calibrant.studies.report import Failure, contents_of_failures, write_report
from calibrant.studies.results import DONE, FAILED, OPEN, TOO_SLOW, Line, Results, label_text
from calibrant.studies.shown_checks import check_shown

__all__ = ["export", "forget", "import_file", "list_recipes", "report", "run", "status"]


def run(
    context: click.Context,
    /,
    recipe: Path,
    form: str | None,
    data: Path | None,
    store: Path | None,
    jobs: int,
    backend: str,
    scheduler: str | None,
    retry_failed: bool,
    output: Path | None,
) -> None:
    """Run all missing units, and write the report."""
    _check_jobs(jobs)
    if scheduler is not None and backend != "dask":
        raise click.UsageError("--scheduler is for --backend dask.")
    study = Study.named(recipe, form, data, store)
    planned = study.plan(shown=True)
    check_own_code(study.recipe)
    study.output_folder(output)
    with study.opened(create=True) as opened:
        try:
            with StudyProgress() as progress:
                summary = run_plan(
                    planned,
                    opened,
                    jobs=jobs,
                    backend=backend,
                    scheduler=scheduler,
                    retry_failed=retry_failed,
                    on_progress=progress.update,
                )
        except KeyboardInterrupt:
            kept = len(opened.keys() & {unit.key for unit in planned.units})
            tell(
                f"Interrupted; {kept} of {counted(len(planned.units), 'unit')} are saved in {study.store_path}. "
                "Give the same command again to resume."
            )
            context.exit(ExitCode.INTERRUPTED)
        folder = study.report(planned, opened, output, own_code=True)
        failed = summary.total - len(opened.keys(DONE) & {unit.key for unit in planned.units})
    new = summary.done + summary.failed + summary.too_slow
    printed(f"{study.name}: {counted(summary.total, 'unit')}, of which {new} run now.")
    printed(f"Time: {duration_text(summary.seconds)}.")
    printed(f"The report is in {folder / 'report.html'}.")
    why = f"see {folder / 'report.html'} for the reasons, and use --retry-failed to run them again."
    if not summary.total:
        raise StudyError("nothing to run: all data sets and trials are missing; give the folder with --data.")
    if failed == summary.total:
        raise StudyError(f"no unit finished: all {failed} failed or were too slow; {why}")
    if failed:
        note(f"{counted(failed, 'unit')} failed or {'was' if failed == 1 else 'were'} too slow; {why}")


def status(
    recipe: Path,
    form: str | None,
    data: Path | None,
    store: Path | None,
    jobs: int,
    format_name: str,
    output: Path | None,
) -> None:
    """Show finished units, remaining time and failures."""
    _check_jobs(jobs)
    check_writable(output)
    study = Study.named(recipe, form, data, store)
    planned = study.plan(quiet=True)
    records = []
    if study.store_path.exists():
        with study.opened() as opened:
            records = planned.records(opened)
    results = Results(planned, records)
    deliver(status_of(results, study.name, _number_of(jobs)), format_name, output)


def report(
    recipe: Path, form: str | None, data: Path | None, store: Path | None, output: Path | None
) -> None:
    """Write tables, figures and pages from the available results."""
    study = Study.named(recipe, form, data, store)
    planned = study.plan(shown=True)
    with study.opened() as opened:
        folder = study.report(planned, opened, output)
    printed(f"The report is in {folder / 'report.html'}.")


def export(recipe: Path, form: str | None, data: Path | None, store: Path | None, file: Path) -> None:
    """Write finished units to a file."""
    study = Study.named(recipe, form, data, store)
    planned = study.plan()
    check_writable(file)
    with study.opened() as opened:
        number = export_units(planned, opened, file)
    printed(f"Wrote {file} ({counted(number, 'unit')} of {len(planned.units)}).")


def import_file(recipe: Path, form: str | None, data: Path | None, store: Path | None, file: Path) -> None:
    """Add the units of a file to the store."""
    study = Study.named(recipe, form, data, store)
    planned = study.plan()
    with study.opened(create=True) as opened:
        found = import_units(planned, opened, file)
    printed(f"Added {counted(found.added, 'unit')} to {study.store_path}.")
    if found.known:
        note(
            f"{counted(found.known, 'unit')} of {file} {'is' if found.known == 1 else 'are'} in the store already."
        )
    if found.unknown:
        note(
            f"{counted(found.unknown, 'unit')} of {file} {'is' if found.unknown == 1 else 'are'} left out: "
            f"{study.name} has other units, because its data, options or calibrant's version differ."
        )


def forget(
    recipe: Path,
    form: str | None,
    data: Path | None,
    store: Path | None,
    failed: bool,
    texts: tuple[str, ...],
    old: bool,
    dry_run: bool,
) -> None:
    """Remove results from the store, so that they are run again."""
    if not (failed or texts or old):
        raise click.UsageError("select what to remove: --failed, --where LABEL=VALUE or --old.")
    wanted = conditions(texts)
    study = Study.named(recipe, form, data, store)
    planned = study.plan()
    with study.opened() as opened:
        results = Results(planned, planned.records(opened))
        unknown = [label for label in wanted if label not in results.labels]
        if unknown:
            raise StudyError(f"unknown label {unknown[0]!r}; available: {', '.join(results.labels)}.")
        keys: set[str] = set()
        if failed or wanted:
            keys = {line.key for line in results.where(wanted) if not (failed and line.done)}
        if old:
            keys |= study.old_keys(opened)
        number = len(keys & opened.keys()) if dry_run else opened.forget(keys)
    if dry_run:
        printed(f"{counted(number, 'result')} would be removed from {study.store_path}.")
        return
    printed(f"Removed {counted(number, 'result')} from {study.store_path}.")


def list_recipes(folder: Path, format_name: str, output: Path | None) -> None:
    """List the recipes in a folder; in the working directory, also those that come with the package."""
    check_writable(output)
    here = sorted({*folder.glob(FILE_NAME), *folder.glob(f"*/{FILE_NAME}")})
    paths = {str(path.parent): path for path in here}
    shipped = shipped_recipes() if folder.resolve() == Path.cwd() else {}
    known = {path.resolve() for path in here}
    paths |= {
        name: path / FILE_NAME for name, path in shipped.items() if (path / FILE_NAME).resolve() not in known
    }
    records, notes = [], []
    for name, path in paths.items():
        try:
            recipe = read_recipe(path)
        except StudyError as error:
            notes.append(f"{path} cannot be used: {error}")
            continue
        records.append({"recipe": name, "title": recipe.title, "forms": list(recipe.forms)})
    columns: Columns = {
        "recipe": lambda record: Path(record["recipe"]).name,
        "forms": lambda record: ", ".join(record["forms"]),
        "title": "title",
    }
    sections = (Section.of("recipes", columns, records, (0, 1, 2)),) if records else ()
    deliver(
        Result(counted(len(records), "recipe"), sections, tuple(notes), {"folder": str(folder)}),
        format_name,
        output,
    )


def _check_jobs(jobs: int) -> None:
    if jobs == 0:
        raise click.UsageError("--jobs must be at least 1, or -1 for all processors.")


def _number_of(jobs: int) -> int:
    if jobs > 0:
        return jobs
    import joblib

    return int(joblib.cpu_count())


@dataclass(frozen=True)
class Study:
    """A recipe with its data folder and the file of its store."""

    recipe: Recipe
    path: Path
    data_folder: Path
    store_path: Path

    @classmethod
    def named(cls, path: Path, form: str | None, data: Path | None, store: Path | None) -> "Study":
        """Apply defaults: data in CALIBRANT_DATA or next to the recipe, the store in the working directory.

        A name that is no path stands for a recipe that comes with the package.
        """
        path = path if path.exists() else shipped_recipes().get(str(path), path)
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


MOST_FAILURES = 10
STATUSES = (DONE, FAILED, TOO_SLOW, OPEN)


def status_of(results: Results, name: str, jobs: int) -> Result:
    """Return the status of a study as tables, before formatting."""
    counts = results.counts()
    failures = contents_of_failures(results)
    left = seconds_left(results, jobs)
    notes = [_on_time(results, counts, left, jobs)]
    notes.extend(_on_failure(failure) for failure in failures[:MOST_FAILURES])
    others = sum(failure.number for failure in failures[MOST_FAILURES:])
    if others:
        notes.append(f"{counted(others, 'further unit')} failed for other reasons; --format json lists all.")
    notes.extend(f"{absent} is left out: {reason}" for absent, reason in results.absent)
    facts = {
        "study": results.recipe.name,
        "form": results.recipe.form,
        "units": len(results),
        **{status.replace(" ", "_"): counts[status] for status in STATUSES},
        "seconds": results.seconds,
        "seconds_left": left,
        "jobs": jobs,
        "failures": [
            {"units": one.number, "status": one.status, "of": one.where, "message": one.message}
            for one in failures
        ],
        "absent": [{"name": absent, "reason": reason} for absent, reason in results.absent],
    }
    heading = f"{name}: {counts[DONE]} of {counted(len(results), 'unit')} done"
    return Result(heading, (_section(results),), tuple(notes), facts)


def seconds_left(results: Results, jobs: int) -> float | None:
    """Forecast the remaining time from the times of finished units; None if none has finished."""
    left = TimeLeft(jobs, sizes_of(results.plan.units))
    trainings: dict[tuple[Any, ...], bool] = {}
    for line in results.lines:
        training = tuple(value for name, value in line.labels.items() if name != "calibrator")
        if line.status == OPEN:
            left.expect(line.labels)
            trainings.setdefault(training, "classifier" in line.labels)
        else:
            left.seen(line.labels, line.seconds)
            if "train_seconds" in line.details and trainings.get(training, True):
                left.seen(_training(line), float(line.details["train_seconds"]))
            trainings[training] = False
    done = set()
    for line in results.lines:
        training = tuple(value for name, value in line.labels.items() if name != "calibrator")
        if trainings.get(training) and training not in done:
            done.add(training)
            left.expect(_training(line))
    return left.seconds()


def _training(line: Line) -> dict[str, Any]:
    return {name: line.labels[name] for name in ("data", "classifier") if name in line.labels}


def _section(results: Results) -> Section:
    """Return one row per data set and per trial."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in results.lines:
        kind = "data" if "data" in line.labels and "trial" not in line.labels else "trial"
        groups.setdefault((kind, label_text(line.labels.get(kind))), []).append(line)
    rows, records = [], []
    for (kind, name), lines in groups.items():
        counts = {status: sum(line.status == status for line in lines) for status in STATUSES}
        seconds = sum(line.seconds for line in lines)
        rows.append((name, *(str(counts[status] or "") for status in STATUSES), duration_text(seconds)))
        records.append(
            {
                "kind": kind,
                "name": name,
                **{s.replace(" ", "_"): counts[s] for s in STATUSES},
                "seconds": seconds,
            }
        )
    return Section("parts", ("of", *STATUSES, "time"), rows, records)


def _on_time(results: Results, counts: dict[str, int], left: float | None, jobs: int) -> str:
    spent = f"Time spent on units so far: {duration_text(results.seconds)}."
    if not counts[OPEN]:
        return f"All units have been run. {spent}"
    if left is None:
        return f"{counted(counts[OPEN], 'unit')} to be run; no time estimate yet."
    return (
        f"{counted(counts[OPEN], 'unit')} to be run, in about {duration_text(left)} with "
        f"{counted(jobs, 'job')}. {spent}"
    )


def _on_failure(failure: Failure) -> str:
    how = "was too slow" if failure.status == TOO_SLOW else "failed"
    if failure.number > 1:
        how = how.replace("was", "were")
    return f"{counted(failure.number, 'unit')} {how} ({failure.where}): {failure.message}"


FIRST_SECONDS = 60.0
SECONDS_BETWEEN_FIRST_LINES = 10.0
SECONDS_BETWEEN_LINES = 30.0
BAR_WIDTH = 16


class StudyProgress:
    """Context manager that shows the progress of a study on stderr.

    Notes
    -----
    In a terminal a progress bar stays at the bottom. Elsewhere, as in the log of a batch system, a line is printed after the
    first unit, every ten seconds during the first minute, and then every 30 seconds, even if no unit has finished.
    """

    def __init__(self) -> None:
        self._bar: Bar | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._latest: tuple[Progress, float] | None = None
        self._started = self._said = time.monotonic()
        self._first = True
        if sys.stderr.isatty():
            columns = BarColumn(BAR_WIDTH), TextColumn("{task.description}")
            self._console = Console(stderr=True)
            self._bar = Bar(*columns, console=self._console, transient=True)
            self._task = self._bar.add_task("", total=None)

    def update(self, progress: Progress) -> None:
        """Show the progress."""
        text = progress_text(progress)
        if self._bar is not None:
            # The unit that finished last is shown if there is room.
            room = self._console.width - BAR_WIDTH - len(text) - 4
            label = progress.label if len(progress.label) <= room else ""
            self._bar.update(
                self._task,
                completed=progress.done + progress.failed,
                total=progress.total,
                description=escape(in_one_line(f"{text}  {label}".rstrip())),
            )
            return
        with self._lock:
            self._latest = progress, time.monotonic()
            if self._due() or (self._first and progress.label):
                self._say(text)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        else:
            self._thread = threading.Thread(target=self._keep_saying, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        else:
            self._ended.set()
            self._thread.join()

    def _due(self) -> bool:
        now = time.monotonic()
        early = now - self._started < FIRST_SECONDS
        return now - self._said >= (SECONDS_BETWEEN_FIRST_LINES if early else SECONDS_BETWEEN_LINES)

    def _say(self, text: str) -> None:
        self._first, self._said = False, time.monotonic()
        printed(text, err=True)

    def _keep_saying(self) -> None:
        """Print the progress at intervals while units are running."""
        while not self._ended.wait(SECONDS_BETWEEN_FIRST_LINES / 20):
            with self._lock:
                if self._latest is not None and self._due():
                    progress, then = self._latest
                    passed = time.monotonic() - then
                    left = progress.seconds_left
                    self._say(
                        progress_text(
                            replace(
                                progress,
                                seconds=progress.seconds + passed,
                                seconds_left=None if left is None else max(left - passed, 0.0),
                            )
                        )
                    )


def progress_text(progress: Progress) -> str:
    """Return the progress in one line.

    >>> progress_text(Progress(120, 3, 2000, "", 75.0, 7500.0))
    '123 of 2000 units, 3 failed, 1 min 15 s so far, about 2 h 5 min left'
    """
    parts = [f"{progress.done + progress.failed} of {progress.total} units"]
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    parts.append(f"{duration_text(progress.seconds)} so far")
    if progress.seconds_left is not None:
        parts.append(f"about {duration_text(progress.seconds_left)} left")
    return ", ".join(parts)

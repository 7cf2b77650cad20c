"""``calibrant bench``: run studies of many data sets, classifiers and methods from a recipe."""

from pathlib import Path

import click

from calibrant.cli.bench_progress import StudyProgress
from calibrant.cli.bench_status import status_of
from calibrant.cli.bench_study import Study, conditions
from calibrant.cli.exit_codes import ExitCode
from calibrant.cli.notes import note, said
from calibrant.cli.options import check_writable
from calibrant.cli.printing import printed
from calibrant.cli.rendering import delivered
from calibrant.cli.result import Result, Section
from calibrant.errors import StudyError
from calibrant.presentation import duration as duration_text
from calibrant.studies import read_recipe
from calibrant.studies import run as run_plan
from calibrant.studies.recipe import FILE_NAME, check_own_code
from calibrant.studies.results import DONE, Results
from calibrant.wording import counted

__all__ = ["forget", "list_recipes", "report", "run", "status"]


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
            said(
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
    delivered(status_of(results, study.name, _number_of(jobs)), format_name, output)


def report(
    recipe: Path, form: str | None, data: Path | None, store: Path | None, output: Path | None
) -> None:
    """Write tables, figures and pages from the available results."""
    study = Study.named(recipe, form, data, store)
    planned = study.plan(shown=True)
    with study.opened() as opened:
        folder = study.report(planned, opened, output)
    printed(f"The report is in {folder / 'report.html'}.")


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
    """List the recipes in a folder."""
    check_writable(output)
    rows, records, notes = [], [], []
    for path in sorted({*folder.glob(FILE_NAME), *folder.glob(f"*/{FILE_NAME}")}):
        try:
            recipe = read_recipe(path)
        except StudyError as error:
            notes.append(f"{path} cannot be used: {error}")
            continue
        rows.append((path.parent.name, ", ".join(recipe.forms), recipe.title))
        records.append({"recipe": str(path.parent), "title": recipe.title, "forms": list(recipe.forms)})
    section = Section("recipes", ("recipe", "forms", "title"), rows, records, text_columns=(0, 1, 2))
    heading = counted(len(rows), "recipe")
    delivered(
        Result(heading, (section,) if rows else (), tuple(notes), {"folder": str(folder)}),
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

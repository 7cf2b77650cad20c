"""Status of a study: finished units, remaining time and failures."""

from typing import Any

from calibrant.cli.result import Result, Section
from calibrant.presentation import duration as duration_text
from calibrant.studies.execution import TimeLeft
from calibrant.studies.report.contents import Failure, contents_of_failures
from calibrant.studies.results import DONE, FAILED, OPEN, TOO_SLOW, Line, Results, label_text
from calibrant.wording import counted

__all__ = ["seconds_left", "status_of"]

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
    """Estimate the remaining time from the mean times of finished units; None if none has finished."""
    left = TimeLeft(jobs)
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

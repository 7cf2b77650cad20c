"""Commands with ``--engine dask`` or ``--engine spark``: the same work where the rows are."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from calibrant import distributed, load
from calibrant.calibrator import Calibrator
from calibrant.cli.choices import chosen_metrics, make_calibrator, name_of
from calibrant.cli.commands.evaluate import (
    TESTS_IGNORE_GROUPS,
    check_limits,
    limits_of,
    sections_of,
    sentences_of,
    verdict_of,
)
from calibrant.cli.commands.fit import fitted_map
from calibrant.cli.commands.report import chosen_output, earlier_report, names_of, written
from calibrant.cli.console import tell
from calibrant.cli.files import check_writable
from calibrant.cli.measurement import Measurement, TestRow, tested_sums
from calibrant.cli.options import check_exists
from calibrant.cli.rendering import Result, deliver
from calibrant.distributed.evaluation import intervals_of, metrics_by_name, tests_of
from calibrant.distributed.opening import EngineName, source_of
from calibrant.errors import MissingExtraError, ParameterError
from calibrant.presentation.sentences import LONGEST_NAME, counted

__all__ = ["apply", "connected", "evaluate", "fit", "report"]


LOCAL_OPTIONS = ("positive", "normalise", "drop_missing", "separator", "decimal")
"""Options of files that are read on this machine."""


@contextmanager
def connected(engine: EngineName, address: str | None) -> Iterator[None]:
    """Connect to a scheduler of Dask or a master of Spark; without an address start one on this machine."""
    if engine == "dask":
        try:
            dask: Any = import_module("dask.distributed")
        except ModuleNotFoundError as error:
            raise MissingExtraError("distributed", "dask") from error
        if address is not None:
            with dask.Client(address):
                yield
            return
        with dask.LocalCluster(threads_per_worker=1, dashboard_address=None) as cluster, dask.Client(cluster):
            yield
        return
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise MissingExtraError("pyspark", "spark") from error
    session = SparkSession.builder.master(address or "local[*]").appName("calibrant").getOrCreate()
    try:
        yield
    finally:
        session.stop()


def evaluate(
    context: click.Context,
    /,
    file: Path,
    metrics: str,
    bins: int | None,
    level: float,
    fail_above: tuple[str, ...],
    definitions: bool,
    format_name: str,
    output: Path | None,
    engine: EngineName,
    address: str | None,
    resamples: int | None,  # noqa: ARG001 (intervals are those of a jackknife)
    with_tests: bool,
    stream: bool | None,  # noqa: ARG001 (always)
    **choice: Any,
) -> None:
    """Measure the calibration of predictions."""
    check_writable(output, file)
    limits, roles = limits_of(fail_above), _roles(choice)
    possible, left_out = [], []
    for metric in chosen_metrics(metrics, bins):
        try:
            metrics_by_name([metric])
        except ParameterError:
            left_out.append(name_of(metric))
        else:
            possible.append(metric)
    tests: list[TestRow] = []
    notes: list[str] = []
    with connected(engine, address):
        source = source_of(str(file), engine=engine, **roles)
        found = intervals_of(source, metrics_by_name(possible), level)
        if with_tests:
            tests, notes = tested_sums(tests_of(source, classwise=source.n_classes > 2), level)
    measurements = [
        Measurement(name, *ends, None, None, interval.definition, interval.method, interval.n_rows)
        for name, interval in zip(map(name_of, possible), found.values(), strict=True)
        for ends in [(interval.estimate, interval.low, interval.high)]
    ]
    missing = ", ".join([*left_out, "expected values under calibration"])
    if tests and roles["key"] is not None:
        notes.append(TESTS_IGNORE_GROUPS)
    sentences = (
        *sentences_of(measurements, tests, definitions),
        f"Not computed, since they need all rows in memory: {missing}.",
        *notes,
        *verdict_of(tests),
    )
    n_rows = max((one.n_rows for one in measurements), default=0)
    facts = {"file": str(file), "n_rows": n_rows, "engine": engine, "level": level, **roles}
    heading = f"{file.name}: {counted(n_rows, 'row')}, {roles['space']}, on {engine}"
    sections = sections_of(measurements, tests, level)
    deliver(Result(heading, sections, sentences, facts), format_name, output)
    check_limits(context, limits, measurements)


def fit(
    file: Path,
    method: str,
    settings: tuple[str, ...],
    output: Path,
    format_name: str,
    engine: EngineName,
    address: str | None,
    **choice: Any,
) -> None:
    """Fit, save and describe a calibrator."""
    check_writable(output, file)
    unfitted, roles = make_calibrator(method, settings), _roles(choice)
    with connected(engine, address):
        calibrator: Calibrator = distributed.fit(unfitted, str(file), engine=engine, **roles)
    calibrator.save(output)
    heading = (
        f"{file.name}: {method} fitted on {engine}, {len(calibrator.classes_)} classes, {calibrator.space_}"
    )
    facts = {"file": str(file), "method": method, "calibrator": str(output), "engine": engine, **roles}
    notes = (*fitted_map(calibrator, LONGEST_NAME), f"Saved to {output}.")
    deliver(Result(heading, (), notes, facts), format_name, None)


def report(
    file: Path,
    output: Path | None,
    format_name: str | None,
    is_opened: bool,
    baseline: Path | None,
    methods: str | None,
    cv: int,
    level: float,
    title: str | None,
    engine: EngineName,
    address: str | None,
    **choice: Any,
) -> None:
    """Write a report on the calibration of predictions."""
    path, chosen = chosen_output(file, output, format_name)
    names, roles = names_of(methods), _roles(choice)
    check_writable(path, file, baseline)
    earlier = earlier_report(baseline, chosen)
    with connected(engine, address):
        assessment = distributed.assess(
            str(file), engine=engine, methods=names, cv=cv, level=level, title=title or file.name, **roles
        )
    written(assessment, chosen, path, is_opened=is_opened, earlier=earlier)


def apply(
    file: Path,
    calibrator_path: Path,
    output: Path,
    columns: str | None,
    space: str | None,
    normalise: bool,
    append: bool,
    prefix: str,
    drop_missing: bool,
    separator: str | None,
    decimal: str | None,
    engine: EngineName,
    address: str | None,
) -> None:
    """Write a folder of Parquet files with the calibrated probabilities as new columns."""
    if columns is None or normalise or drop_missing or separator or decimal or not append:
        raise click.UsageError(
            "with --engine, give --append and --columns 'p_*', and omit --normalise, --drop-missing, --separator and --decimal."
        )
    if output.exists():
        raise ParameterError(f"{output} is there already; with --engine the output is a new folder.")
    unfinished = output.resolve().with_name(f".calibrant-{os.getpid()}-{output.name}")
    check_exists(calibrator_path)
    calibrator = load(calibrator_path)
    try:
        with connected(engine, address):
            found = distributed.predict_proba(
                calibrator, str(file), columns=_names(columns), space=space, prefix=prefix, engine=engine
            )
            if engine == "dask":
                found.to_parquet(unfinished, write_index=False)
            else:
                found.write.parquet(str(unfinished))
        unfinished.rename(output)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    tell(f"Wrote the folder {output}; new columns {prefix}* hold calibrated probabilities.")


def _roles(choice: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the functions of :mod:`calibrant.distributed`."""
    if choice["label"] is None or choice["columns"] is None or choice["space"] is None:
        raise click.UsageError(
            "with --engine, give the columns and the space: --label y --columns 'p_*' --space logits."
        )
    for name in LOCAL_OPTIONS:
        if choice.get(name) not in (None, False):
            option = name.replace("_", "-")
            raise click.UsageError(f"--{option} is for files that are read on this machine; omit it.")
    return {
        "label": choice["label"],
        "columns": _names(choice["columns"]),
        "space": choice["space"],
        "sample_weight": choice["weight"],
        "key": choice["group"],
    }


def _names(columns: str) -> str | list[str]:
    """Return a pattern, or names that were separated by commas."""
    return [part.strip() for part in columns.split(",")] if "," in columns else columns

"""Fits every method to every task of ``structured_and_auto_tasks.py`` in several processes and keeps the results.

Results are lines of JSON in one file of the cache folder, one for each task and method, so that a run that was stopped goes on
where it was. :func:`measured` fits and scores any calibrator on one task, for scripts of your own.
"""

import ast
import json
import multiprocessing
import os
import re
import resource
import signal
import sys
import threading
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from baselines import BINS
from structured_and_auto_peers import PREFIX, Peer
from structured_and_auto_tasks import Task, TaskKey, trained

from calibrant import Calibrator, registry
from calibrant.metrics import accuracy, brier_score, classwise_ece, confidence_ece, log_loss

REFERENCE = "uncalibrated"
DONE, FAILED, TOO_SLOW, SKIPPED = "done", "failed", "too slow", "skipped"
MOST_BYTES = 6 * 2**30  # of memory for each process

Record = dict[str, Any]


def made(method: str) -> Calibrator:
    """Return a calibrator for ``name`` or ``name(parameter=value, ...)``, without what follows an ``@``."""
    if method.startswith(PREFIX):
        return Peer(method)  # type: ignore[return-value]
    name, _, rest = method.partition("@")[0].partition("(")
    if not rest:
        return registry.make(name)
    call = ast.parse(f"name({rest}", mode="eval").body
    if not isinstance(call, ast.Call) or call.args:
        raise ValueError(
            f"parameters must be given by name, as in temperature(loss='brier'), not {method!r}."
        )
    return registry.make(name, **{str(each.arg): ast.literal_eval(each.value) for each in call.keywords})


def split_methods(texts: list[str]) -> list[str]:
    """Return the methods of several arguments, each of which may hold several, separated by commas."""
    found = [part.strip() for text in texts for part in re.split(r",(?![^(]*\))", text)]
    return list(dict.fromkeys(part for part in found if part))


class TimeIsUpError(BaseException):
    """Raised in the midst of a fit; no error that a method may catch."""


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Stop what runs inside after so many seconds of processor time."""
    if seconds is None:
        yield
        return

    def stop(*_: object) -> None:
        raise TimeIsUpError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def measured(task: Task, calibrator: Calibrator, limit: float | None = None) -> Record:
    """Return the scores of a calibrator on the test rows of a task, and seconds of processor time.

    ``limit`` applies to the fit and to the prediction, each by itself. Log-loss is not clipped.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        with limited(limit):
            calibrator.fit(task.calibration, task.calibration_labels)
        fitted = time.process_time()
        with limited(limit):
            calibrated = calibrator.transform(task.test)
            calibrated.probabilities  # noqa: B018 - logits become probabilities when first asked for
        predicted = time.process_time()
    record: Record = {
        "log_loss": float(log_loss(task.test_labels, calibrated)),
        "brier": float(brier_score(task.test_labels, calibrated, scale_by_half=False)),
        "classwise_ece": float(classwise_ece(task.test_labels, calibrated, binning=BINS)),
        "confidence_ece": float(confidence_ece(task.test_labels, calibrated, binning=BINS)),
        "accuracy": float(accuracy(task.test_labels, calibrated)),
        "changed": float((calibrated.predicted != task.test.predicted).mean()),
        "fit_seconds": fitted - start,
        "predict_seconds": predicted - fitted,
    }
    if caught:
        record["warnings"] = dict(Counter(each.category.__name__ for each in caught))
    return record


def log_loss_with_floor(task: Task) -> float:
    """Return the log-loss of the test rows as they are, but with the floor of the calibration rows for zeros."""
    return float(log_loss(task.test_labels, task.test.with_floor(task.calibration.floor).without_zeros()))


class Results:
    """The lines of the file of results, the latest for every task and method."""

    def __init__(self, cache: Path) -> None:
        self.path = cache / "results.jsonl"

    def read(self) -> dict[tuple[str, str], Record]:
        if not self.path.exists():
            return {}
        with self.path.open() as lines:
            records = [json.loads(line) for line in lines if line.endswith("\n")]
        return {(record["task"], record["method"]): record for record in records}

    def add(self, record: Record) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def forget(self, methods: list[str], keys: list[TaskKey]) -> None:
        """Remove results of these methods on these tasks; no other run may write at the same time."""
        names = {key.name for key in keys}
        kept = [
            each
            for each in self.read().values()
            if each["method"] not in methods or each["task"] not in names
        ]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_suffix(".unfinished")
        unfinished.write_text("".join(json.dumps(record) + "\n" for record in kept))
        unfinished.replace(self.path)


@lru_cache(maxsize=1)
def _loaded(key: TaskKey, cache: Path) -> Task:
    return key.load(cache)


def _record(
    key: TaskKey, method: str, cache: Path, limit: float | None, too_slow: list[tuple[int, int]]
) -> Record:
    """Return one line of results; work of the helper processes."""
    task = _loaded(key, cache)
    rows, classes = task.calibration.scores.shape
    record: Record = {
        "task": key.name,
        "method": method,
        "rows": rows,
        "classes": classes,
        "test_rows": task.test.n_rows,
    }
    if key.rows is not None and rows < key.rows:
        return {**record, "status": SKIPPED}
    if any(rows >= n_rows and classes >= n_classes for n_rows, n_classes in too_slow):
        return {**record, "status": SKIPPED}
    try:
        calibrator = made(method)
        record |= {"calibrator": repr(calibrator), **measured(task, calibrator, limit), "status": DONE}
    except TimeIsUpError:
        record |= {"status": TOO_SLOW, "limit": limit}
    except Exception as error:
        record |= {"status": FAILED, "error": f"{type(error).__name__}: {error}"}
    if method == REFERENCE:
        record["log_loss_with_floor"] = log_loss_with_floor(task)
    return record


def _start_process() -> None:
    """Limit the memory of this process, and end it if the one that started it is gone."""
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    starter = multiprocessing.parent_process()

    def follow() -> None:
        if starter is not None:
            starter.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _pool(jobs: int) -> ProcessPoolExecutor:
    """Return processes of one thread each; numpy looks at these variables when it is imported there."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "CALIBRANT_NUM_THREADS"):
        os.environ[variable] = "1"
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_process)


def train_classifiers(keys: list[TaskKey], cache: Path, jobs: int) -> None:
    """Train the classifiers of all tasks that are not in the cache yet."""
    splits = list(dict.fromkeys((key.set, key.seed) for key in keys if key.classifier))
    with _pool(jobs) as pool:
        futures = [pool.submit(trained, name, seed, cache) for name, seed in splits]
        for future in futures:
            future.result()


def run(
    keys: list[TaskKey], methods: list[str], cache: Path, *, jobs: int = 2, limit: float | None = 60.0
) -> None:
    """Fit all methods to all tasks of which there is no result yet."""
    for method in methods:
        made(method)  # a name that is wrong ends the run here
    train_classifiers(keys, cache, jobs)
    results = Results(cache)
    known = results.read()
    too_slow: dict[str, list[tuple[int, int]]] = defaultdict(list)
    left: list[tuple[TaskKey, str]] = []
    for record in known.values():
        if record["status"] == TOO_SLOW and limit is not None and record["limit"] >= limit:
            too_slow[record["method"]].append((record["rows"], record["classes"]))
    for key in keys:
        for method in methods:
            record = known.get((key.name, method), {"status": SKIPPED})
            again = record["status"] == TOO_SLOW and (limit is None or record["limit"] < limit)
            if record["status"] == SKIPPED or again:
                left.append((key, method))
    print(f"{len(left)} of {len(keys) * len(methods)} fits are to be done", file=sys.stderr, flush=True)
    finished: Counter[str] = Counter()
    start = time.monotonic()

    def collect(futures: set[Future[Record]]) -> None:
        for future in futures:
            record = future.result()
            finished[record["status"]] += 1
            if record["status"] == SKIPPED:
                continue
            results.add(record)
            if record["status"] == TOO_SLOW:
                too_slow[record["method"]].append((record["rows"], record["classes"]))
            if record["status"] != DONE:
                why = record.get("error", f"more than {record.get('limit')} s")
                print(f"{record['task']} {record['method']}: {why}", file=sys.stderr, flush=True)
        if sum(finished.values()) % 100 == 0:
            elapsed = time.monotonic() - start
            print(f"{sum(finished.values())} / {len(left)} in {elapsed:.0f} s", file=sys.stderr, flush=True)

    pending: set[Future[Record]] = set()
    with _pool(jobs) as pool:
        for key, method in left:
            # A task is handed out when a process is free, so that it knows which methods were too slow so far.
            if len(pending) >= jobs:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                collect(done)
            pending.add(pool.submit(_record, key, method, cache, limit, too_slow[method]))
        collect(wait(pending).done)
    counts = ", ".join(f"{number} {status}" for status, number in finished.items())
    print(f"{counts or 'nothing to do'} in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)

"""Methods on the tasks of CalArena, beside its published results: win rates, ranks, differences and harms.

CalArena (Berta et al. 2026) stores the classifier outputs of each benchmark in one HDF5 file, such as ``tabrepo-binary.h5``:
``{dataset}/{model}`` holds ``probas_cal``, ``labels_cal``, ``probas_test`` and ``labels_test``. Its results are CSV files,
``results/{benchmark}/{method}.csv``, with the columns ``dataset``, ``model`` and ``{method}_{metric}``. Both are for you to
download. Fits what is not in the cache folder yet, a line of JSON for each fit, so that a run that was stopped goes on where it
was; then prints, for each benchmark:

- how far the uncalibrated scores are from the published ones of ``Base-model``, which should be rounding;
- win rates as in the paper, the share of the other methods that a method beats, averaged over tasks, with 95 % intervals from a
  bootstrap over data sets; mean differences from the uncalibrated scores; shares of tasks that are more than 1 and 5 % worse;
- the summary of ``structured_and_auto.py``: mean scores, average ranks, harms in log-loss, and seconds. Published seconds are
  those of fit and prediction on another machine.

A group that cannot be read is reported and left out. Needs h5py. Usage::

    python benchmarks/calarena.py tabrepo-binary.h5 FOLDER ... [--published CalArena/results] [--methods auto beta]
        [--only "tabrepo-binary/*/RandomForest"] [--most-tasks 100] [--jobs 2] [--limit 60] [--cache FOLDER] [--only-print]
"""

import argparse
import csv
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from structured_and_auto_report import Found, Study, print_notes, print_summary, print_table, share
from structured_and_auto_run import DONE, REFERENCE, SKIPPED, Results, run, split_methods
from structured_and_auto_tasks import Task, TaskKey

from calibrant import Predictions

DEFAULT_CACHE = Path(tempfile.gettempdir()) / "calibrant_calarena"
METHODS = [
    "auto",
    "shared-matrix",
    "structured-matrix",
    "structured-vector",
    "temperature",
    "quadratic",
    "beta",
]
ARRAYS = ("probas_cal", "labels_cal", "probas_test", "labels_test")

BASE = "Base-model"
# The published ECE of two classes is another one than that of the confidence.
METRICS = {"logloss": "log_loss", "brier": "brier", "accuracy": "accuracy", "time": "fit_seconds"}
ECE = "ece-15"
N_RESAMPLES = 1000

# Scores of the same rows in float32 differ by less.
SAME = 1e-3


def h5py() -> Any:
    """Return the library that reads HDF5 files."""
    try:
        import h5py
    except ImportError:
        sys.exit("CalArena's files are in the HDF5 format; install h5py to read them.")
    return h5py


class BrokenGroupError(ValueError):
    """A group of a file that does not hold a task."""


@dataclass(frozen=True)
class ArenaKey(TaskKey):
    """A model on a data set, in a file."""

    model: str = ""
    path: Path = Path()

    @property
    def benchmark(self) -> str:
        return self.path.stem

    @property
    def dataset(self) -> str:
        return self.set.removeprefix(f"{self.benchmark}/")

    @property
    def full_name(self) -> str:
        return f"{self.set}/{self.model}"

    @property
    def name(self) -> str:
        return self.full_name

    @property
    def kind(self) -> str:
        return self.benchmark

    def load(self, cache: Path = DEFAULT_CACHE) -> Task:  # noqa: ARG002 (all is in the file)
        """Read the task; raise :class:`BrokenGroupError` where it is none."""
        with h5py().File(self.path, "r") as file:
            group = file[f"{self.dataset}/{self.model}"]
            missing = [name for name in ARRAYS if name not in group]
            if missing:
                raise BrokenGroupError(f"has no {' and no '.join(missing)}")
            try:
                arrays = {name: np.asarray(group[name]) for name in ARRAYS}
            except OSError as error:
                raise BrokenGroupError(f"cannot be read: {error}") from error
        halves = []
        for part in ("cal", "test"):
            halves += _half(arrays[f"probas_{part}"], arrays[f"labels_{part}"], part)
        if halves[0].n_classes != halves[2].n_classes:
            raise BrokenGroupError(
                f"has {halves[0].n_classes} classes to calibrate and {halves[2].n_classes} to test"
            )
        return Task(self.name, self.set, self.kind, self.seed, *halves)


def _half(
    probabilities: NDArray[Any], labels: NDArray[Any], part: str
) -> tuple[Predictions, NDArray[np.intp]]:
    """Return rows and their labels; probabilities of two classes may be those of the second alone."""
    labels = labels.reshape(-1)
    if len(labels) != len(probabilities) or not len(labels):
        raise BrokenGroupError(
            f"has {len(labels)} labels_{part} for {len(probabilities)} rows of probas_{part}"
        )
    try:
        predictions = Predictions.from_probabilities(probabilities)
    except (ValueError, TypeError) as error:
        raise BrokenGroupError(f"has invalid probas_{part}: {error}") from error
    columns = labels.astype(np.intp)
    if (columns != labels).any() or columns.min() < 0 or columns.max() >= predictions.n_classes:
        raise BrokenGroupError(f"has labels_{part} that are no columns from 0 to {predictions.n_classes - 1}")
    return predictions, columns


def keys_of(path: Path) -> list[ArenaKey]:
    """Return the tasks of a file: groups that hold at least one of the four arrays."""
    groups = []

    def look(name: str, item: Any) -> None:
        if name.count("/") and hasattr(item, "keys") and any(array in item for array in ARRAYS):
            groups.append(name)

    try:
        with h5py().File(path, "r") as file:
            file.visititems(look)
    except OSError as error:
        sys.exit(f"{path} is no HDF5 file that can be read: {error}.")
    return [
        ArenaKey(f"{path.stem}/{dataset}", 0, model=model, path=path)
        for dataset, _, model in (name.rpartition("/") for name in sorted(groups))
    ]


def published(folder: Path, keys: Sequence[ArenaKey]) -> Found:
    """Return the published scores of these tasks, from all CSV files of their benchmarks."""
    known = {(key.benchmark, key.dataset, key.model): key.name for key in keys}
    found: Found = {}
    for benchmark in sorted({key.benchmark for key in keys}):
        metrics = METRICS if benchmark.endswith("binary") else {**METRICS, ECE: "confidence_ece"}
        for path in sorted((folder / benchmark).glob("*.csv")):
            with path.open(newline="") as lines:
                for row in csv.DictReader(lines):
                    name = known.get((benchmark, row["dataset"], row["model"]))
                    if name is None:
                        continue
                    scores = {
                        ours: float(row[f"{path.stem}_{theirs}"])
                        for theirs, ours in metrics.items()
                        if row.get(f"{path.stem}_{theirs}")
                    }
                    method = f"{path.stem}, published"
                    found[name, method] = {"task": name, "method": method, "status": DONE, **scores}
    return found


def mend(results: Results) -> None:
    """Remove the part of a line that an interrupted run has left behind."""
    if not results.path.exists():
        return
    content = results.path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        results.path.write_bytes(whole)


def readable(keys: list[ArenaKey], methods: list[str], known: Found) -> Iterator[ArenaKey]:
    """Yield the tasks without those that are broken, which are reported; what is known was readable."""
    for key in keys:
        if all(known.get((key.name, method), {"status": SKIPPED})["status"] != SKIPPED for method in methods):
            yield key
            continue
        try:
            key.load()
        except BrokenGroupError as error:
            print(f"{key.name} {error}; it is left out", file=sys.stderr, flush=True)
        else:
            yield key


def win_rates(study: Study, metric: str) -> dict[str, tuple[float, float, float]]:
    """Return for the methods that have done all tasks the share of others that each beats, with a 95 % interval.

    The interval is from a bootstrap over data sets, of which all tasks are drawn together.
    """
    methods = [method for method in study.complete if not np.isnan(study.values(method, metric)).any()]
    if len(methods) < 2:
        return {}
    scores = np.column_stack([study.values(method, metric) for method in methods])
    beaten = (scores[:, :, np.newaxis] < scores[:, np.newaxis, :]).sum(axis=2) / (len(methods) - 1)
    _, of_task = np.unique([key.set for key in study.keys], return_inverse=True)
    n_sets = int(of_task.max()) + 1
    drawn = np.random.default_rng(0).multinomial(n_sets, np.full(n_sets, 1 / n_sets), N_RESAMPLES)
    sums = np.array([np.bincount(of_task, column, n_sets) for column in beaten.T])
    resampled = (drawn @ sums.T) / (drawn @ np.bincount(of_task))[:, np.newaxis]
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    return {
        method: (float(mean), float(least), float(most))
        for method, mean, least, most in zip(methods, beaten.mean(axis=0), low, high, strict=True)
    }


def print_arena(study: Study, title: str) -> None:
    """Print the table of win rates."""
    rates = {metric: win_rates(study, metric) for metric in ("brier", "log_loss")}
    rows = []
    for method in sorted(study.complete, key=lambda method: -rates["brier"].get(method, (0.0,))[0]):
        row = [f"`{method}`"]
        for metric in ("brier", "log_loss"):
            own = study.values(method, metric)
            base = study.reference if metric == "log_loss" else study.values(REFERENCE, metric)
            rate = rates[metric].get(method)
            row.append("–" if rate is None else "{:.3f} ({:.3f} to {:.3f})".format(*rate))
            row.append(f"{100 * (own - base).mean():+.3f}")
            row += [share(own > (1 + harm) * base) for harm in (0.01, 0.05)]
        rows.append(row)
    header = [
        f"{name}{what}"
        for name in ("Brier: ", "log-loss: ")
        for what in ("win rate (95 %)", "difference x 100", "> 1 % worse", "> 5 % worse")
    ]
    print_table(f"{title}: {len(study.keys)} tasks", ["method", *header], rows)


def print_agreement(study: Study, found: Found) -> None:
    """Print how far the uncalibrated scores are from those that were published."""
    pairs = [
        (study.record(key, REFERENCE), found[key.name, f"{BASE}, published"])
        for key in study.keys
        if (key.name, f"{BASE}, published") in found and study.record(key, REFERENCE).get("status") == DONE
    ]
    if not pairs:
        return
    differences = np.array(
        [[abs(ours[each] - theirs[each]) for each in ("brier", "accuracy")] for ours, theirs in pairs]
    )
    n_far = int((differences > SAME).any(axis=1).sum())
    print(
        f"\nUncalibrated scores of {len(pairs)} tasks differ from the published ones of {BASE} by at most "
        f"{differences[:, 0].max():.1e} in Brier score and {differences[:, 1].max():.1e} in accuracy"
        + (
            f"; {n_far} tasks by more than {SAME:g}: other rows, or another order of classes."
            if n_far
            else "."
        )
    )


def print_benchmarks(results: Found, peers: Found, keys: list[ArenaKey], methods: list[str]) -> None:
    """Print the tables of every benchmark, of tasks with scores of all methods."""
    found = {**results, **peers}
    for benchmark in dict.fromkeys(key.benchmark for key in keys):
        own = [key for key in keys if key.benchmark == benchmark]
        names = {key.name for key in own}
        others = sorted({method for task, method in peers if task in names and not method.startswith(BASE)})
        study = Study.of(found, own, [*methods, *others])
        print_agreement(study, found)
        done = [key for key in own if study.record(key, REFERENCE).get("status") == DONE]
        if len(done) < len(own):
            print(f"\n{len(own) - len(done)} of {len(own)} tasks of {benchmark} have no result yet.")
        if done:
            study = study.restricted_to(done)
            print_arena(study, benchmark)
            print_summary(study, benchmark)
            print_notes(replace(study, methods=[REFERENCE, *methods]))


def files_of(paths: Sequence[Path]) -> list[Path]:
    """Return HDF5 files, those of folders included."""
    found = [
        file
        for path in paths
        for file in (sorted([*path.glob("*.h5"), *path.glob("*.hdf5")]) if path.is_dir() else [path])
    ]
    for file in found:
        if not file.exists():
            sys.exit(f"there is no file {file}; download CalArena's .h5 files and pass them or their folder.")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, help="HDF5 files of CalArena, or folders of them")
    parser.add_argument(
        "--published", type=Path, help="folder results of CalArena, with a folder for each benchmark"
    )
    parser.add_argument("--methods", nargs="+", default=METHODS, help="registry names, + composes")
    parser.add_argument(
        "--only", nargs="+", help="patterns of benchmark/dataset/model, such as 'cv-binary/*'"
    )
    parser.add_argument("--most-tasks", type=int, help="evenly chosen ones of each file")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for a fit, and for a prediction")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    parser.add_argument("--only-print", action="store_true", help="fit nothing")
    options = parser.parse_args(arguments)
    keys: list[ArenaKey] = []
    for file in files_of(options.files):
        own = [
            key
            for key in keys_of(file)
            if options.only is None or any(fnmatch(key.name, pattern) for pattern in options.only)
        ]
        if options.most_tasks is not None and len(own) > options.most_tasks:
            own = [own[place] for place in np.linspace(0, len(own) - 1, options.most_tasks).astype(int)]
        keys += own
    if not keys:
        parser.error(
            "no task is chosen; the files hold {dataset}/{model}/probas_cal and so on, or change --only."
        )
    methods = split_methods(options.methods)
    results = Results(options.cache)
    mend(results)
    wanted = list(dict.fromkeys([REFERENCE, *methods]))
    if not options.only_print:
        keys = list(readable(keys, wanted, results.read()))
        run(list(keys), wanted, options.cache, jobs=options.jobs, limit=options.limit)
    peers = {} if options.published is None else published(options.published, keys)
    if options.published is not None and not peers:
        print(
            f"{options.published} has no results of these tasks; pass the folder that holds {keys[0].benchmark}/METHOD.csv.",
            file=sys.stderr,
        )
    print_benchmarks(results.read(), peers, keys, [method for method in methods if method != REFERENCE])


if __name__ == "__main__":
    main()

"""Tables of ``structured_and_auto.py``, from the records of its runs."""

import sys
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from structured_and_auto_run import DONE, FAILED, REFERENCE, TOO_SLOW, Record
from structured_and_auto_tasks import FEATURES, FEW_CALIBRATION_ROWS, KINDS, TaskKey

from calibrant.ranking import average_ranks, critical_difference, friedman_test

METRICS = (
    "log_loss",
    "brier",
    "classwise_ece",
    "confidence_ece",
    "accuracy",
    "changed",
    "fit_seconds",
    "predict_seconds",
)
RIVAL = "structured-matrix"

# Log-losses that agree to so many decimals are equal in ranks and duels: a method that chooses another one is level with it.
DECIMALS = 6

Found = dict[tuple[str, str], Record]


@dataclass(frozen=True)
class Study:
    """Some tasks and methods with their records."""

    keys: list[TaskKey]
    methods: list[str]
    found: Found

    @classmethod
    def of(cls, found: Found, keys: list[TaskKey], methods: list[str]) -> "Study":
        """Return the study of these methods, or of all that have results on these tasks."""
        names = {key.name for key in keys}
        with_results = [method for task, method in sorted(found) if task in names]
        return cls(keys, list(dict.fromkeys([REFERENCE, *(methods or with_results)])), found)

    def record(self, key: TaskKey, method: str) -> Record:
        return self.found.get((key.name, method), {})

    def values(self, method: str, metric: str = "log_loss") -> NDArray[np.float64]:
        """Return a number for each task; NaN where there is none."""
        return np.array([self.record(key, method).get(metric, np.nan) for key in self.keys], dtype=float)

    @property
    def reference(self) -> NDArray[np.float64]:
        """Log-loss of doing nothing; where it is infinite, which would hide all harm, zeros count as the floor."""
        as_it_is = self.values(REFERENCE)
        return np.where(np.isinf(as_it_is), self.values(REFERENCE, "log_loss_with_floor"), as_it_is)

    @property
    def complete(self) -> list[str]:
        """Methods that have done all of the tasks."""
        return [method for method in self.methods if not np.isnan(self.values(method)).any()]

    @property
    def rival(self) -> str | None:
        """The method of the study that all others are compared with, whatever its label."""
        return next((method for method in self.methods if method.partition("@")[0] == RIVAL), None)

    def statuses(self, method: str) -> Counter[str]:
        return Counter(self.record(key, method).get("status", "") for key in self.keys)

    def by_set(self, method: str, metric: str = "log_loss") -> dict[str, float]:
        """Return the mean over the tasks of each set; NaN where one is missing."""
        of_set = defaultdict(list)
        for key, value in zip(self.keys, self.values(method, metric), strict=True):
            of_set[key.set].append(value)
        return {name: float(np.mean(of_set[name])) for name in sorted(of_set)}

    def restricted_to_common(self) -> "Study":
        """Return the study of those tasks that all methods have done."""
        done = np.all([~np.isnan(self.values(method)) for method in self.methods], axis=0)
        return Study(
            [key for key, each in zip(self.keys, done, strict=True) if each], self.methods, self.found
        )

    def restricted_to(self, keys: list[TaskKey]) -> "Study":
        return Study(keys, self.methods, self.found)


def print_table(title: str, header: list[str], rows: list[list[str]]) -> None:
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def mean_with_infinities(values: NDArray[np.float64]) -> str:
    infinite = int(np.isinf(values).sum())
    return f"inf ({infinite})" if infinite else f"{values.mean():.5f}"


def share(happened: NDArray[np.bool_]) -> str:
    return f"{100 * happened.mean():.1f} %"


def ranks(study: Study) -> tuple[dict[str, float], dict[str, float], str]:
    """Return average ranks over tasks and over sets of the complete methods, and what tests over sets say."""
    methods = study.complete
    if len(methods) < 2:
        return {}, {}, ""
    of_tasks = np.column_stack([study.values(method) for method in methods])
    of_sets = np.column_stack([list(study.by_set(method).values()) for method in methods]).round(DECIMALS)
    text = ""
    if len(of_sets) > 1 and len(methods) > 2:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about few tasks; the number of sets is printed
            p_value = friedman_test(of_sets).p_value
            difference = critical_difference(len(methods), len(of_sets))
        text = (
            f" Over {len(of_sets)} sets: Friedman's test p = {p_value:.2g}, critical difference of average ranks "
            f"(Nemenyi, 5 %) {difference:.2f}."
        )
    return (
        dict(zip(methods, average_ranks(of_tasks, decimals=DECIMALS), strict=True)),
        dict(zip(methods, average_ranks(of_sets), strict=True)),
        text,
    )


def summary_row(
    study: Study, method: str, of_tasks: dict[str, float], of_sets: dict[str, float]
) -> list[str]:
    loss = study.values(method)
    done = ~np.isnan(loss)
    counts = study.statuses(method)
    not_done = [f"{counts[status]} {status}" for status in (FAILED, TOO_SLOW) if counts[status]]
    not_run = len(study.keys) - counts[DONE] - counts[FAILED] - counts[TOO_SLOW]
    not_done += [f"{not_run} not run"] if not_run else []
    tasks = str(counts[DONE]) + (f" ({', '.join(not_done)})" if not_done else "")
    if not done.any():
        return [f"`{method}`", tasks, *["–"] * 12]
    relative = loss[done] / study.reference[done]
    seconds = study.values(method, "fit_seconds")[done]
    better = "–"
    if study.rival is not None and study.rival != method:
        rival = study.values(study.rival)
        compared = done & ~np.isnan(rival)
        if compared.any():
            better = share((loss.round(DECIMALS) < rival.round(DECIMALS))[compared])
            better += "" if compared.all() else f" of {compared.sum()}"
    # Means over other tasks than those of the other methods would not be comparable.
    comparable = method in study.complete
    means = [
        mean_with_infinities(loss),
        *(f"{study.values(method, metric).mean():.5f}" for metric in METRICS[1:4]),
    ]
    known = ~np.isnan(relative)
    return [
        f"`{method}`",
        tasks,
        *(means if comparable else ["–"] * 4),
        f"{np.median(relative[known]):.4f}" if known.any() else "–",
        *(f"{each[method]:.2f}" if method in each else "–" for each in (of_tasks, of_sets)),
        *(
            share(relative[known] > 1 + harm) if known.any() and method != REFERENCE else "–"
            for harm in (0.01, 0.05)
        ),
        better,
        f"{np.median(seconds):.3f}",
        f"{seconds.max():.2f}",
    ]


def print_summary(study: Study, title: str) -> None:
    if not study.keys or not study.methods:
        return
    of_tasks, of_sets, tests = ranks(study)
    header = [
        "method",
        "tasks",
        "log-loss",
        "Brier",
        "classwise-ECE",
        "confidence-ECE",
        "log-loss / uncalibrated",
        "rank",
        "rank by sets",
        "> 1 % worse",
        "> 5 % worse",
        f"better than {RIVAL}",
        "median fit, s",
        "longest fit, s",
    ]
    in_order = sorted(study.methods, key=lambda method: of_tasks.get(method, np.inf))
    rows = [summary_row(study, method, of_tasks, of_sets) for method in in_order]
    n_sets = len({key.set for key in study.keys})
    print_table(f"{title}: {len(study.keys)} tasks of {n_sets} sets", header, rows)
    zeros = int(np.isinf(study.values(REFERENCE)).sum())
    reference = study.reference
    print(
        f"\nRanks are among the {len(of_tasks)} methods that did all of the tasks.{tests} 'log-loss / uncalibrated' is a "
        "median; it and 'worse' compare with the uncalibrated log-loss or, where that is infinite "
        f"({zeros} tasks), with that of zeros raised to the floor of the calibration rows (mean over all tasks "
        f"{np.nanmean(reference):.5f})."
    )


def print_report(found: Found, keys: list[TaskKey], methods: list[str], *, common: bool = False) -> None:
    study = Study.of(found, keys, methods)
    if common:
        restricted = study.restricted_to_common()
        print(
            f"{len(keys) - len(restricted.keys)} of {len(keys)} tasks are left out: not done by all methods."
        )
        study = restricted
    print_summary(study, "All")
    for kind in KINDS:
        of_kind = [key for key in study.keys if key.kind == kind]
        if 0 < len(of_kind) < len(study.keys):
            print_summary(study.restricted_to(of_kind), kind)
    few = [
        key
        for key in study.keys
        if key.kind == FEATURES and study.record(key, REFERENCE).get("rows", np.inf) < FEW_CALIBRATION_ROWS
    ]
    print_summary(study.restricted_to(few), f"{FEATURES}, fewer than {FEW_CALIBRATION_ROWS} calibration rows")
    print_notes(study)


def print_notes(study: Study) -> None:
    """Print failures and warnings, and methods whose results are of more than one making."""
    for method in study.methods:
        records = [study.record(key, method) for key in study.keys]
        makings = {record["calibrator"] for record in records if "calibrator" in record}
        if len(makings) > 1:
            print(f"{method}: results of different calibrators are mixed: {sorted(makings)}", file=sys.stderr)
        warned: Counter[str] = Counter()
        for record in records:
            warned.update(record.get("warnings", {}).keys())
        errors = Counter(record["error"] for record in records if "error" in record)
        notes = [f"{number} fits with {category}" for category, number in warned.items()]
        notes += [f"{number} times {error}" for error, number in errors.most_common(3)]
        if notes:
            print(f"\n- `{method}`: {'; '.join(notes)}")


def print_by_set(found: Found, keys: list[TaskKey], methods: list[str], metric: str) -> None:
    study = Study.of(found, keys, methods)
    columns = {method: study.by_set(method, metric) for method in study.methods}
    sizes = {key.set: study.record(key, REFERENCE) for key in keys}
    rows = [
        [name, str(sizes[name].get("rows", "–")), str(sizes[name].get("classes", "–"))]
        + ["–" if np.isnan(columns[method][name]) else f"{columns[method][name]:.5f}" for method in columns]
        for name in sorted(sizes)
    ]
    title = f"{metric.replace('_', ' ')}, mean over the tasks of a set"
    print_table(title, ["set", "calibration rows", "classes", *columns], rows)


def print_pair(found: Found, keys: list[TaskKey], first: str, second: str) -> None:
    """Print how often one method beats another, over tasks and over sets."""
    study = Study.of(found, keys, [first, second]).restricted_to_common()
    if not study.keys:
        print(f"\n{first} and {second} have no task in common.")
        return
    rows = []
    for kind in ("all", *KINDS):
        part = study.restricted_to([key for key in study.keys if kind in ("all", key.kind)])
        if not part.keys:
            continue
        a, b = part.values(first).round(DECIMALS), part.values(second).round(DECIMALS)
        of_sets = [np.array(list(part.by_set(method).values())).round(DECIMALS) for method in (first, second)]
        wins, losses = int((of_sets[0] < of_sets[1]).sum()), int((of_sets[0] > of_sets[1]).sum())
        p_value = binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
        known = np.isfinite(a) & np.isfinite(b)
        # Relative to the larger one, since the loss of separable rows may be zero.
        larger = np.maximum(a[known], b[known])
        relative = np.divide(a[known] - b[known], larger, out=np.zeros_like(larger), where=larger > 0).mean()
        rows.append(
            [
                kind,
                str(len(part.keys)),
                share(a < b),
                share(a == b),
                share(a > b),
                f"{wins} / {len(of_sets[0]) - wins - losses} / {losses}",
                f"{100 * relative:+.3f} %",
                f"{p_value:.2g}",
            ]
        )
    header = [
        "tasks",
        "number",
        "better",
        "level",
        "worse",
        "sets better / level / worse",
        "mean difference / larger loss",
    ]
    print_table(f"`{first}` against `{second}`, log-loss", [*header, "sign test over sets, p"], rows)


N_BOOTSTRAP = 2000


def print_regimes(found: Found, keys: list[TaskKey], first: str, methods: list[str]) -> None:
    """Print for every number of rows, and by kind, how one method compares with each other one."""
    for rows in dict.fromkeys(key.rows for key in keys):
        of_rows = [key for key in keys if key.rows == rows and (key.name, REFERENCE) in found]
        for kind in ("all", *KINDS):
            chosen = [key for key in of_rows if kind in ("all", key.kind)]
            if chosen:
                title = f"{'All' if rows is None else rows} rows" + ("" if kind == "all" else f", {kind}")
                title += ", redrawn labels" if chosen[0].redrawn else ""
                some = list(dict.fromkeys([first, *methods])) if methods else []
                print_regime(Study.of(found, chosen, some), title, first)


def print_regime(study: Study, title: str, first: str) -> None:
    """Print one table of :func:`print_regimes`."""
    own, reference = study.values(first), study.reference
    rows = []
    for method in study.methods:
        loss = study.values(method)
        done = ~np.isnan(loss) & ~np.isnan(own)
        if not done.any():
            continue
        cells = [f"`{method}`", str(done.sum())]
        if method == first:
            cells += ["–", "–"]
        else:
            a, b = own[done].round(DECIMALS), loss[done].round(DECIMALS)
            # Relative to the larger one, since losses may be zero or infinite.
            relative = np.array([relative_difference(*pair) for pair in zip(a, b, strict=True)])
            sets = np.unique([key.set for key in study.keys], return_inverse=True)[1][done]
            low, high = bootstrap_over_sets(relative, sets)
            cells += [
                share((a < b) + 0.5 * (a == b)),
                f"{100 * relative.mean():+.2f} % ({100 * low:+.2f} to {100 * high:+.2f})",
            ]
        harm = loss[done] / reference[done] - 1
        cells += ["–", "–"] if method == REFERENCE else [share(harm > least) for least in (0.01, 0.05)]
        rows.append([*cells, f"{np.median(study.values(method, 'fit_seconds')[done]):.3f}"])
    header = ["method", "tasks", f"`{first}` better", "mean difference / larger loss (95 %)"]
    n_sets = len({key.set for key in study.keys})
    print_table(
        f"{title}: {len(study.keys)} tasks of {n_sets} sets",
        [*header, "> 1 % worse", "> 5 % worse", "median fit, s"],
        rows,
    )


def relative_difference(first: float, second: float) -> float:
    """Return the difference of two losses as a share of the larger one; one that is infinite is all of it."""
    if first == second:
        return 0.0
    if np.isinf(first) or np.isinf(second):
        return 1.0 if np.isinf(first) else -1.0
    return (first - second) / max(first, second)


def bootstrap_over_sets(values: NDArray[np.float64], sets: NDArray[np.intp]) -> tuple[float, float]:
    """Return a 95 % interval of the mean over tasks, with sets drawn with replacement."""
    _, codes = np.unique(sets, return_inverse=True)
    sums, counts = np.bincount(codes, values), np.bincount(codes)
    drawn = np.random.default_rng(0).integers(len(sums), size=(N_BOOTSTRAP, len(sums)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)

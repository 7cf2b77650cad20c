"""Every method on classifier outputs of many kinds: which is best on average, and which one does harm.

Tasks are those of ``structured_and_auto_tasks.py``. Fits what is not in the cache folder yet, then, with ``--report``,
prints Markdown: for every method and the tasks of the chosen sets the mean log-loss, Brier score (summed over
classes), classwise-ECE (15 bins of equal width, mean over classes), average rank on the log-loss, the share of tasks
made more than 1 % and more than 5 % worse than uncalibrated, and seconds; all of it again by kind of task. Seconds are
processor time of one thread. Without ``--methods``, a report covers all methods that have results. Usage::

    python benchmarks/structured_and_auto.py --methods temperature,vector "auto(loss='brier')" [--sets odd|even|all]
        [--kinds networks top-label uci] [--only "kull_nn/*"] [--seeds 0 1] [--rows 50 100 300 1000 all] [--redrawn]
        [--jobs 2] [--limit 60] [--cache FOLDER] [--label text | --refit] [--report] [--against METHOD] [--only-print]
        [--common] [--by-set [METRIC]] [--pair A B]

Methods whose names start with ``peer-`` are those of other packages, see ``structured_and_auto_peers.py``. ``--against auto``
prints for every number of rows and kind of task how often ``auto`` is better than each other method, with bootstrap intervals
over sets.

After a change of a method, either give its results a name of their own by ``--label`` (``auto`` with the label ``b`` is
``auto@b`` in reports), or remove the old ones by ``--refit``. What takes longer than ``--limit`` seconds is not tried
again on tasks of at least as many rows and classes.
"""

import argparse
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from structured_and_auto_report import (
    METRICS,
    print_by_set,
    print_pair,
    print_regimes,
    print_report,
)
from structured_and_auto_run import REFERENCE, Results, run, split_methods
from structured_and_auto_tasks import DEFAULT_CACHE, KINDS, task_keys

from calibrant import registry


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--methods", nargs="+", help="registry names, + composes; 'all' for the whole registry"
    )
    parser.add_argument("--sets", choices=["odd", "even", "all"], default="all")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--only", nargs="+", help="patterns of names of sets, such as 'kull_nn/*'")
    parser.add_argument("--seeds", nargs="+", type=int, help="some of the permutations or splits")
    parser.add_argument("--rows", nargs="+", default=["all"], help="numbers of calibration rows, or 'all'")
    parser.add_argument("--redrawn", action="store_true", help="draw labels from the predictions")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for a fit, and for a prediction")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--label", help="keep the results of these methods under NAME@LABEL")
    again.add_argument("--refit", action="store_true", help="forget earlier results of these methods first")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--only-print", action="store_true", help="fit nothing")
    parser.add_argument(
        "--common", action="store_true", help="report on tasks alone that all methods have done"
    )
    parser.add_argument("--by-set", nargs="?", const="log_loss", choices=METRICS)
    parser.add_argument(
        "--against",
        metavar="METHOD",
        help="compare METHOD with all others by number of rows and kind of task",
    )
    parser.add_argument("--pair", nargs=2, metavar=("A", "B"), action="append", default=[])
    arguments = parser.parse_args()
    keys = [
        replace(key, rows=None if rows == "all" else int(rows), redrawn=arguments.redrawn)
        for rows in arguments.rows
        for key in task_keys(arguments.sets, tuple(arguments.kinds))
        if (arguments.seeds is None or key.seed in arguments.seeds)
        and (arguments.only is None or any(fnmatch(key.set, pattern) for pattern in arguments.only))
    ]
    if not keys:
        parser.error("no set is chosen; set CALIBRANT_DATA to the folder of the data, or change --only.")
    methods = split_methods(arguments.methods or [])
    if methods == ["all"]:
        methods = registry.calibrators()
    labelled = [
        method if arguments.label is None or method == REFERENCE else f"{method}@{arguments.label}"
        for method in methods
    ]
    results = Results(arguments.cache)
    printing = arguments.report or arguments.against or arguments.by_set is not None or bool(arguments.pair)
    if methods and not arguments.only_print:
        if arguments.refit:
            results.forget(labelled, keys)
        run(
            keys,
            list(dict.fromkeys([REFERENCE, *labelled])),
            arguments.cache,
            jobs=arguments.jobs,
            limit=arguments.limit,
        )
    elif not printing:
        parser.error("give --methods to run, or --report to print what is there.")
    found = results.read()
    if arguments.report:
        print_report(found, keys, labelled, common=arguments.common)
    if arguments.against:
        print_regimes(found, keys, arguments.against, labelled)
    if arguments.by_set is not None:
        print_by_set(found, keys, labelled, arguments.by_set)
    for first, second in arguments.pair:
        print_pair(found, keys, first, second)


if __name__ == "__main__":
    main()

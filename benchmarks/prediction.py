"""Prediction against scikit-learn and probmetrics, and against the floor, in one run.

Usage::

    python benchmarks/prediction.py [--threads 1,2] [--sizes 5000x10,1000000x10]
    python benchmarks/prediction.py --one-row [--classes 10,1000]

The floor is one read, one ``exp`` and one write of the array in NumPy, in as many threads as the methods have. Times with one
thread are CPU seconds, those with more are seconds on the clock; the least of several repetitions. "into out" passes ``out=``,
as the floor does. "from an array" includes the checks of an array of probabilities. Memory is the peak of a call beyond input
and output. Every peer that is installed takes part: scikit-learn's calibrators behind ``CalibratedClassifierCV``, and
probmetrics. ``--one-row`` prints microseconds a call for the floor, the peers and all methods with a graph.
"""

import argparse
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import numpy as np
from scipy.special import softmax
from sklearn.calibration import _SigmoidCalibration, _TemperatureScaling
from sklearn.isotonic import IsotonicRegression
from threadpoolctl import threadpool_limits

from calibrant import Predictions, registry
from calibrant.errors import NoGraphError
from calibrant.numerics.row_blocks import ENTRIES_PER_THREAD, BlockSums, one_thread

SIZES = ("5000x10", "5000x100", "25000x1000", "1000000x10")
METHODS = ("temperature", "vector", "platt", "isotonic", "structured-vector", "structured-matrix")
N_CALIBRATION_ROWS = 5000

# Those of probmetrics, by the method of calibrant that they correspond to.
PROBMETRICS = {"temperature": "temp-scaling", "structured-vector": "svs", "structured-matrix": "sms"}

# Methods that need minutes to fit at this number of classes are fitted on so many rows only, which hardly changes what
# a prediction costs.
SLOW_FITS = {
    100: ("dirichlet", "matrix", "iop"),
    1000: (
        "auto",
        "decision",
        "forest",
        "pts",
        "spline",
        "gp",
        "quadratic",
        "enir",
        "bbq",
        "matrix",
        "structured",
        "dirichlet",
        "iop",
    ),
}
FEW_CALIBRATION_ROWS = 200


def problem(n_rows: int, n_classes: int, seed: int = 0):
    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 2, (n_rows, n_classes))
    labels = (0.6 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, labels


def seconds(call: Callable[[], object], repetitions: int, clock: Callable[[], float]) -> float:
    call()
    best = np.inf
    for _ in range(repetitions):
        start = clock()
        call()
        best = min(best, clock() - start)
    return float(best)


def one_vs_rest(parts, probabilities):
    """As CalibratedClassifierCV does it: one map per class, then rows divided by their sums."""
    columns = np.column_stack([part.predict(probabilities[:, k]) for k, part in enumerate(parts)])
    totals = columns.sum(axis=1, keepdims=True)
    uniform = np.full_like(columns, 1 / columns.shape[1])
    return np.divide(columns, totals, out=uniform, where=totals != 0)


def peers(name: str, logits, labels) -> Iterator[tuple[str, bool, Callable]]:
    """Yield names of peers, whether they take logits, and their prediction functions."""
    probabilities = softmax(logits, axis=1)
    if name == "temperature":
        yield "scikit-learn", True, _TemperatureScaling().fit(logits, labels).predict
    if name in ("isotonic", "platt"):
        parts = [
            (IsotonicRegression(out_of_bounds="clip") if name == "isotonic" else _SigmoidCalibration()).fit(
                probabilities[:, k], labels == k
            )
            for k in range(logits.shape[1])
        ]
        yield "scikit-learn", False, partial(one_vs_rest, parts)
    if name in PROBMETRICS and logits.shape[1] <= 100:
        try:
            from probmetrics.calibrators import get_calibrator
        except ImportError:
            return
        yield "probmetrics", False, get_calibrator(PROBMETRICS[name]).fit(probabilities, labels).predict_proba


def extra_memory(call: Callable[[], object]) -> float:
    """Return the peak memory of a call in MB."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def exponentials(z, out, n_threads: int) -> None:
    """Do what the floor consists of: one read, one exp and one write of the array."""
    if n_threads == 1 or z.size < ENTRIES_PER_THREAD:
        np.exp(z, out=out)
        return
    with BlockSums.over(*z.shape) as in_all_blocks:
        in_all_blocks(lambda rows: np.exp(z[rows], out=out[rows]).ndim)


def run(size: str, n_threads: int) -> None:
    clock = time.process_time if n_threads == 1 else time.perf_counter
    n_rows, n_classes = map(int, size.split("x"))
    logits, labels = problem(max(N_CALIBRATION_ROWS, 2 * n_classes), n_classes)
    z, _ = problem(n_rows, n_classes, seed=1)
    p, out = softmax(z, axis=1), np.empty_like(z)
    repetitions = 200 if z.size < 1e6 else 7
    floor = seconds(lambda: exponentials(z, out, n_threads), repetitions, clock)
    for name in METHODS:
        if n_classes >= 1000 and name.startswith("structured"):
            continue
        fitted = registry.make(name)
        takes_logits = name not in ("platt", "isotonic")
        fitted.fit(Predictions.from_logits(logits) if takes_logits else softmax(logits, axis=1), labels)
        given = Predictions.from_logits(z) if takes_logits else Predictions.from_probabilities(p)
        own = seconds(partial(fitted.predict_proba, given), repetitions, clock)
        raw = ""
        if not takes_logits:  # an array of logits is parsed by the caller
            raw = f" {1e3 * seconds(partial(fitted.predict_proba, p), repetitions, clock):9.3f} ms from an array"
        into_out = seconds(partial(fitted.predict_proba, given, out=out), repetitions, clock)
        memory = extra_memory(partial(fitted.predict_proba, given, out=out))
        ratios = ", ".join(
            f"{own / seconds(partial(peer, z if on_logits else p), min(repetitions, 20), clock):5.2f} of {title}"
            for title, on_logits, peer in peers(name, logits, labels)
        )
        print(
            f"{size:>11} {n_threads} thread{'s' if n_threads > 1 else ' '} {name:18} {1e3 * own:9.3f} ms"
            f" {into_out / floor:6.1f} x floor into out {memory:6.1f} MB  {ratios}{raw}",
            flush=True,
        )


def microseconds(call: Callable[[], object]) -> float:
    return 1e6 * seconds(call, 500, time.perf_counter)


def one_row(n_classes: int) -> None:
    """Print microseconds a call for one row: the floor, all peers, and all methods with a graph."""
    logits, labels = problem(max(1000, 2 * n_classes), n_classes)
    probabilities = softmax(logits, axis=1)
    z, p = logits[:1], probabilities[:1]
    out = np.empty_like(z)
    print(
        f"1 x {n_classes:<5} {'floor':26} {microseconds(lambda: np.exp(z, out=out)):8.1f} microseconds",
        flush=True,
    )
    for name in dict.fromkeys(("temperature", "isotonic", "platt", *PROBMETRICS)):
        for title, on_logits, peer in peers(name, logits, labels):
            own = microseconds(partial(peer, z if on_logits else p))
            print(f"1 x {n_classes:<5} {f'{title}, {name}':26} {own:8.1f} microseconds", flush=True)
    slow = tuple(prefix for least, names in SLOW_FITS.items() if n_classes >= least for prefix in names)
    for name in registry.calibrators():
        fitted = registry.make(name)
        if fitted.traits.binary_only:
            continue
        # Labels of all classes are not needed: those without rows keep their share, or follow the others.
        rows = slice(FEW_CALIBRATION_ROWS if name.startswith(slow) else None)
        try:
            n_operations = len(fitted.fit(probabilities[rows], labels[rows]).graph().nodes)
        except NoGraphError:
            continue
        parsed = microseconds(partial(fitted.predict_proba, Predictions.from_probabilities(p)))
        raw = microseconds(partial(fitted.predict_proba, p))
        print(
            f"1 x {n_classes:<5} {name:26} {parsed:8.1f} microseconds, {raw:8.1f} with parsing, {n_operations:3d} operations",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--one-row", action="store_true", help="one row instead")
    parser.add_argument("--classes", default="10,1000", help="numbers of classes for one row")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.one_row:
        for n_classes in map(int, options.classes.split(",")):
            one_row(n_classes)
        return
    for n_threads in map(int, options.threads.split(",")):
        for size in options.sizes.split(","):
            with ExitStack() as limits:
                limits.enter_context(threadpool_limits(n_threads))
                if n_threads == 1:
                    limits.enter_context(one_thread())
                run(size, n_threads)


if __name__ == "__main__":
    main()

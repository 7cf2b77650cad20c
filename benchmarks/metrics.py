"""Times and memory of the metrics against scikit-learn and other libraries, in one run on the same rows.

Prints, for every size, seconds (best of several runs), the ratio to the peer that computes the same number, both
values, and the largest memory taken on top of the predictions. Peers other than scikit-learn take part where they are
installed: torchmetrics, netcal, uncertainty-calibration, relplot. Then the tests by simulation. Made rows in float32.
Usage::

    python benchmarks/metrics.py [--sizes 1000000x10 50000x1000] [--threads 2] [--resamples 10000]
"""

import argparse
import os
import time
import tracemalloc
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=["1000000x10", "50000x1000"])
    parser.add_argument("--tests", nargs="+", default=["10000x10", "10000x100"])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3, help="runs of which the fastest counts")
    return parser.parse_args()


ARGUMENTS = parsed_arguments()
# Before numpy is imported: the libraries read these once.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CALIBRANT_NUM_THREADS"):
    os.environ[variable] = str(ARGUMENTS.threads)

import numpy as np  # noqa: E402
import sklearn.metrics  # noqa: E402
from sklearn.calibration import calibration_curve  # noqa: E402

import calibrant  # noqa: E402
from calibrant import Predictions, metrics, registry  # noqa: E402
from calibrant.hypothesis_tests import consistency_test  # noqa: E402

# These look at every pair of rows; so many rows are left out.
QUADRATIC = {"kernel_calibration_error"}

# These fit a recalibration several times over, so their time is that of the fits.
FITTING = {"lp_calibration_error"}


def made_rows(n_rows: int, n_classes: int) -> tuple[Any, Any]:
    """Over-confident probabilities, in float32."""
    generator = np.random.default_rng(0)
    logits = generator.normal(scale=1.5, size=(n_rows, n_classes)).astype(np.float32)
    labels = generator.integers(n_classes, size=n_rows)
    logits[np.arange(n_rows), labels] += np.float32(2.0 + np.log(n_classes) / 2)
    return Predictions.from_logits(1.5 * logits).probabilities, labels


def fastest(compute: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the smallest time and the last result; what takes five seconds or more is run once."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        result = compute()
        best = min(best, time.perf_counter() - start)
        if best > 5:
            break
    return best, result


def megabytes(compute: Callable[[], Any]) -> float:
    tracemalloc.start()
    compute()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def curve_ece(labels: Any, p: Any) -> float:
    """Return an ECE in the usual way with scikit-learn: its curve, and the counts of the same bins."""
    confidence, right = p.max(axis=1), p.argmax(axis=1) == labels
    observed, predicted = calibration_curve(right, confidence, n_bins=15)
    counts = np.histogram(confidence, np.linspace(0, 1, 16))[0]
    return float(np.abs(observed - predicted) @ counts[counts > 0] / len(labels))


def peers(labels: Any, p: Any) -> Iterator[tuple[str, str, Callable[[], float], dict[str, Any]]]:
    """Yield the name of a metric, of a peer, what the peer computes, and our options for the same number."""
    eps = float(np.finfo(p.dtype).eps)
    yield "accuracy", "scikit-learn", lambda: sklearn.metrics.accuracy_score(labels, p.argmax(axis=1)), {}
    every = np.arange(p.shape[1])
    yield (
        "log_loss",
        "scikit-learn",
        lambda: sklearn.metrics.log_loss(labels, p, labels=every),
        {"floor": eps},
    )
    yield (
        "brier_score",
        "scikit-learn",
        lambda: sklearn.metrics.brier_score_loss(labels, p, labels=every),
        {},
    )
    yield "confidence_ece", "scikit-learn curve", lambda: curve_ece(labels, p), {}
    if find_spec("torchmetrics"):
        import torch
        from torchmetrics.functional.classification import multiclass_calibration_error

        torch.set_num_threads(ARGUMENTS.threads)
        tensors = torch.from_numpy(np.array(p)), torch.from_numpy(np.array(labels))
        yield (
            "confidence_ece",
            "torchmetrics",
            lambda: float(multiclass_calibration_error(*tensors, num_classes=p.shape[1], n_bins=15)),
            {},
        )
    if find_spec("netcal"):
        from netcal.metrics import ECE

        yield "confidence_ece", "netcal", lambda: float(ECE(15).measure(p, labels)), {}
    if find_spec("calibration"):
        import calibration

        yield (
            "debiased_ece",
            "uncertainty-calibration",
            lambda: float(calibration.get_calibration_error(p, labels, mode="top-label")),
            {},
        )
    if find_spec("relplot"):
        import relplot

        yield (
            "smooth_ece",
            "relplot",
            lambda: float(relplot.smECE(p.max(axis=1), p.argmax(axis=1) == labels)),
            {},
        )


def compare(n_rows: int, n_classes: int) -> None:
    p, labels = made_rows(n_rows, n_classes)
    print(f"\n{n_rows:,} x {n_classes:,}, {p.nbytes / 1e6:.0f} MB of predictions")
    print(f"  {'metric':28s} {'seconds':>9s} {'memory':>9s}   value")
    for name in registry.metrics():
        if name in QUADRATIC | FITTING:
            continue
        function = getattr(metrics, name)
        seconds, value = fastest(lambda function=function: function(labels, p), ARGUMENTS.repeats)
        memory = megabytes(lambda function=function: function(labels, p))
        print(f"  {name:28s} {seconds:9.3f} {memory:6.0f} MB   {value:.6f}", flush=True)
    print(f"  {'against peers':28s} {'ours':>9s} {'theirs':>9s} {'ratio':>6s}   our value, theirs")
    for name, peer, compute, options in peers(labels, p):
        function = getattr(metrics, name)
        ours, value = fastest(
            lambda function=function, options=options: function(labels, p, **options), ARGUMENTS.repeats
        )
        try:
            theirs, other = fastest(compute, ARGUMENTS.repeats)
        except Exception as error:  # a peer that cannot do it should not hide the others
            print(f"  {name + ', ' + peer:28s} {ours:9.3f}    {type(error).__name__}: {error}")
            continue
        print(
            f"  {name + ', ' + peer:38s} {ours:9.3f} {theirs:9.3f} {ours / theirs:6.2f}   "
            f"{value:.6f}, {other:.6f}",
            flush=True,
        )


def time_tests(n_rows: int, n_classes: int) -> None:
    p, labels = made_rows(n_rows, n_classes)
    print(f"\n{n_rows:,} x {n_classes:,}, consistency test with {ARGUMENTS.resamples:,} resamples")
    for metric in (metrics.confidence_ece, metrics.classwise_ece, metrics.log_loss, metrics.brier_score):
        start = time.perf_counter()
        result = consistency_test(metric, labels, p, n_resamples=ARGUMENTS.resamples)
        seconds = time.perf_counter() - start
        print(f"  {metric.__name__:28s} {seconds:9.3f} s   p = {result.p_value:.4f}", flush=True)


def main() -> None:
    names = ["numpy", "scipy", "scikit-learn", "torchmetrics", "netcal", "uncertainty-calibration", "relplot"]
    found = []
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except ImportError:
            continue
    print(f"calibrant {calibrant.__version__}, {', '.join(found)}; {ARGUMENTS.threads} threads")
    for size in ARGUMENTS.sizes:
        compare(*map(int, size.split("x")))
    for size in ARGUMENTS.tests:
        time_tests(*map(int, size.split("x")))


if __name__ == "__main__":
    main()

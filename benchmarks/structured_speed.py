"""Fit times of structured scaling, the temperature and the automatic choice, on one thread and two, next to the authors' program.

Prints a Markdown table for every size: seconds of a fit (best of three), mean log-loss of test rows, so that a fast fit that
stopped early is seen, and how the fit ended. Sizes are halves of two wide residual networks, as ``baselines.py`` cuts them,
and made rows of a thousand classes: float32 logits with a signal for the true class, 2.5 times over-confident, with biases
of the classes. If ``probmetrics`` can be imported, its SVS and SMS are fitted to the same rows in the same run, and the ratio
of the seconds is ours to theirs, below 1 is faster. Every number of threads has a process of its own. Usage::

    python benchmarks/structured_speed.py [--sizes 5000x10 5000x100 25000x1000] [--threads 1 2] [--methods shared-map ...]

Matrices of a thousand classes have a million parameters, and the automatic choice takes long: both are left out unless
``--methods`` names them.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

METHODS = [
    "temperature",
    "structured-vector",
    "structured-matrix",
    "shared-map",
    "shared-vector",
    "shared-matrix",
    "auto",
]
NETWORKS = {"5000x10": "cifar_netcal/c10_wideresnet_16_4", "5000x100": "cifar_netcal/c100_wideresnet_16_4"}
PEERS = {"structured-vector": "SVSCalibrator", "structured-matrix": "SMSCalibrator"}
MOST_CLASSES_OF_MATRICES = 100


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=[*NETWORKS, "25000x1000"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--methods", nargs="+", choices=METHODS)
    parser.add_argument("--repeats", type=int, default=3, help="runs of which the fastest counts")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


ARGUMENTS = parsed_arguments()
if ARGUMENTS.inside:
    # Before numpy is imported: the libraries read these once.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CALIBRANT_NUM_THREADS"):
        os.environ[variable] = str(ARGUMENTS.threads[0])

import numpy as np  # noqa: E402
from baselines import halves  # noqa: E402

import calibrant  # noqa: E402
from calibrant import Predictions, registry  # noqa: E402
from calibrant.labelled_predictions import LabelledPredictions  # noqa: E402


def made_rows(n_rows: int, n_classes: int, seed: int) -> tuple[Predictions, Any]:
    generator = np.random.default_rng(seed)
    labels = generator.integers(n_classes, size=n_rows)
    labels[:n_classes] = np.arange(n_classes)
    logits = generator.normal(scale=1.5, size=(n_rows, n_classes)).astype(np.float32)
    logits += np.linspace(-0.5, 0.5, n_classes, dtype=np.float32)
    logits[np.arange(n_rows), labels] += np.float32(2.0 + np.log(n_classes) / 2)
    return Predictions.from_logits(np.float32(2.5) * logits), labels


def rows_of(size: str) -> tuple[Predictions, Any, Predictions, Any]:
    """Return calibration and test rows."""
    if size in NETWORKS:
        return halves(NETWORKS[size])
    n_rows, n_classes = (int(part) for part in size.split("x"))
    return *made_rows(n_rows, n_classes, 0), *made_rows(min(n_rows, 5000), n_classes, 1)


def fastest(fit: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the smallest time and the last result."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        result = fit()
        best = min(best, time.perf_counter() - start)
    return best, result


def peer_figures(method: str, calibration: Predictions, labels: Any, test: LabelledPredictions) -> Any:
    """Return seconds and test log-loss of the authors' program; None if there is none, or it is not installed."""
    if method not in PEERS or importlib.util.find_spec("probmetrics") is None:
        return None
    import probmetrics.calibrators

    kind = getattr(probmetrics.calibrators, PEERS[method])
    p = np.array(calibration.probabilities)
    seconds, fitted = fastest(lambda: kind().fit(p, labels), ARGUMENTS.repeats)
    calibrated = np.asarray(fitted.predict_proba(np.array(test.predictions.probabilities)), np.float64)
    own = calibrated[np.arange(test.n_rows), test.labels]
    return seconds, -float(np.log(own).mean())


def measure(size: str) -> dict[str, Any]:
    """Return the figures of all methods for one size."""
    calibration, labels, *unseen = rows_of(size)
    test = LabelledPredictions.parse(*unseen)
    figures = {}
    for method in methods_for(size):
        seconds, fitted = fastest(
            lambda method=method: registry.make(method).fit(calibration, labels), ARGUMENTS.repeats
        )
        loss = test.log_loss(fitted.transform(test.predictions))
        peer = peer_figures(method, calibration, labels, test)
        status = fitted.solution_.status.name.lower() if hasattr(fitted, "solution_") else "–"
        figures[method] = (seconds, loss, status, peer)
        print(f"{size} {method} {seconds:.4f}", file=sys.stderr, flush=True)
    return figures


def methods_for(size: str) -> list[str]:
    if ARGUMENTS.methods:
        return list(ARGUMENTS.methods)
    small = int(size.split("x")[1]) <= MOST_CLASSES_OF_MATRICES
    return [method for method in METHODS if method != "auto" and (small or "matrix" not in method)]


def measured_with(n_threads: int, size: str) -> dict[str, Any]:
    """Return the figures of a process with so many threads."""
    command = [sys.executable, __file__, "--inside", "--sizes", size, "--threads", str(n_threads)]
    command += ["--repeats", str(ARGUMENTS.repeats)]
    command += ["--methods", *ARGUMENTS.methods] if ARGUMENTS.methods else []
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return figures


def show(size: str) -> None:
    found = {n_threads: measured_with(n_threads, size) for n_threads in ARGUMENTS.threads}
    first = found[ARGUMENTS.threads[0]]
    with_peers = any(peer is not None for *_, peer in first.values())
    columns = ["method", *(f"s, {n_threads} thread(s)" for n_threads in found), "test log-loss", "status"]
    if with_peers:
        columns += [f"peer s, {n_threads} thread(s)" for n_threads in found]
        columns += [*(f"ratio, {n_threads} thread(s)" for n_threads in found), "peer log-loss"]
    n_rows, n_classes = (int(part) for part in size.split("x"))
    print(f"\n{n_rows:,} x {n_classes:,}: {NETWORKS.get(size, 'made rows, float32')}\n")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for method, (_, loss, status, peer) in first.items():
        cells = [
            method,
            *(f"{found[n_threads][method][0]:.4f}" for n_threads in found),
            f"{loss:.5f}",
            status,
        ]
        if peer is not None:
            pairs = [(figures[method][0], figures[method][3][0]) for figures in found.values()]
            cells += [f"{theirs:.4f}" for _, theirs in pairs]
            cells += [*(f"{ours / theirs:.3f}" for ours, theirs in pairs), f"{peer[1]:.5f}"]
        print(f"| {' | '.join(cells + [''] * (len(columns) - len(cells)))} |", flush=True)


def main() -> None:
    if ARGUMENTS.inside:
        print(json.dumps(measure(ARGUMENTS.sizes[0])))
        return
    print(
        f"calibrant {calibrant.__version__}, numpy {np.__version__}, Python {sys.version.split()[0]}, "
        f"{os.cpu_count()} cores, best of {ARGUMENTS.repeats}"
    )
    for size in ARGUMENTS.sizes:
        show(size)


if __name__ == "__main__":
    main()

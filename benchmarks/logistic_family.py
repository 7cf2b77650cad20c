"""Fit times of the logistic family against scikit-learn's own, in one run on the same rows.

Prints, for every size, seconds (best of several runs), the ratio to the peer, and the mean loss or objective that
each reached, so that a fast fit that stopped early is seen. Made rows: logits with a signal for the true class,
2.5 times over-confident, in float32 as a network gives them. Usage::

    python benchmarks/logistic_family.py [--sizes 5000x10 5000x100 25000x1000] [--threads 1]
"""

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=["5000x10", "5000x100", "25000x1000"])
    parser.add_argument(
        "--threads", type=int, default=1, help="threads for BLAS, OpenMP and calibrant (default 1)"
    )
    parser.add_argument(
        "--repeats", type=int, default=5, help="runs of which the fastest counts, for fits below a second"
    )
    return parser.parse_args()


ARGUMENTS = parsed_arguments()
# Before numpy is imported: the libraries read these once.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CALIBRANT_NUM_THREADS"):
    os.environ[variable] = str(ARGUMENTS.threads)

import numpy as np  # noqa: E402
import scipy  # noqa: E402
import sklearn  # noqa: E402
from sklearn.calibration import _TemperatureScaling  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402

import calibrant  # noqa: E402
from calibrant import (  # noqa: E402
    DirichletCalibration,
    MatrixScaling,
    Predictions,
    TemperatureScaling,
    VectorScaling,
)
from calibrant.calibrators.scaling.affine import natural_strengths  # noqa: E402


def made_rows(n_rows: int, n_classes: int) -> tuple[Any, Any]:
    generator = np.random.default_rng(0)
    logits = generator.normal(scale=1.5, size=(n_rows, n_classes)).astype(np.float32)
    labels = generator.integers(n_classes, size=n_rows)
    labels[:n_classes] = np.arange(n_classes)
    logits[np.arange(n_rows), labels] += np.float32(2.0 + np.log(n_classes) / 2)
    return 2.5 * logits, labels


def fastest(fit: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the smallest time and the last result; a fit of a second or more is run once."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        result = fit()
        best = min(best, time.perf_counter() - start)
        if best > 1:
            break
    return best, result


def row(name: str, seconds: float, peer: float | None, note: str) -> None:
    ratio = "" if peer is None else f"{seconds / peer:6.2f}"
    print(f"  {name:42s} {seconds:9.4f} s  {ratio:>6s}  {note}", flush=True)


def ridge_objective(weights: Any, intercept: Any, logits: Any, labels: Any, strength: float) -> float:
    scores = logits.astype(np.float64) @ weights.T + intercept
    scores -= scores.max(axis=1, keepdims=True)
    losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(labels)), labels]
    return float(losses.mean() + strength * (weights**2).sum())


def compare(n_rows: int, n_classes: int, repeats: int) -> None:
    logits, labels = made_rows(n_rows, n_classes)
    predictions = Predictions.from_logits(logits)
    print(f"\n{n_rows:,} x {n_classes:,}   (ratio: calibrant / scikit-learn, below 1 is faster)")

    # The fit inside CalibratedClassifierCV, without what the wrapper adds.
    peer, theirs = fastest(lambda: _TemperatureScaling().fit(logits, labels), repeats)
    row("scikit-learn temperature", peer, None, f"beta {float(theirs.beta_):.7f}")
    ours, fitted = fastest(lambda: TemperatureScaling().fit(predictions, labels), repeats)
    row("TemperatureScaling", ours, peer, f"beta {fitted.inverse_temperature_:.7f}")

    ours, fitted = fastest(lambda: VectorScaling().fit(predictions, labels), repeats)
    row("VectorScaling", ours, None, f"loss {fitted.solution_.loss:.7f}")

    # The same ridge problem for both: mean loss + s |W|^2, intercepts free. scikit-learn's default tolerance stops
    # early, so it also runs with one that brings it to about our objective.
    strength = n_classes / n_rows / 10
    peers = []
    for tolerance in (1e-4, 1e-7):
        regression = LogisticRegression(C=1 / (2 * n_rows * strength), max_iter=1000, tol=tolerance)
        peer, theirs = fastest(lambda regression=regression: regression.fit(logits, labels), repeats)
        objective = ridge_objective(theirs.coef_, theirs.intercept_, logits, labels, strength)
        row(
            f"scikit-learn LogisticRegression, tol {tolerance:g}",
            peer,
            None,
            f"objective {objective:.7f}, {theirs.n_iter_[0]} steps",
        )
        peers.append(peer)
    ridge = MatrixScaling("l2", strength, 0.0, center="zero")
    ours, fitted = fastest(lambda: ridge.fit(predictions, labels), repeats)
    objective = ridge_objective(fitted.weights_, fitted.intercept_, logits, labels, strength)
    note = f"objective {objective:.7f}, {fitted.solution_.n_iterations} steps, {ours / peers[0]:.2f} to the first"
    row("MatrixScaling, the same ridge problem", ours, peers[1], note)

    reg_lambda, reg_mu = natural_strengths("odir", n_classes, n_rows)
    for kind in (MatrixScaling, DirichletCalibration):
        once = kind("odir", reg_lambda, reg_mu)
        one, fitted = fastest(lambda once=once: once.fit(predictions, labels), repeats)
        row(
            f"{kind.__name__}, one ODIR fit",
            one,
            None,
            f"loss {fitted.solution_.loss:.7f}, {fitted.solution_.status.name}",
        )
    if n_classes <= 100:
        searched, fitted = fastest(lambda: DirichletCalibration().fit(predictions, labels), min(repeats, 3))
        tried = len(fitted.search_["loss"])
        row(
            "DirichletCalibration, auto",
            searched,
            None,
            f"{searched / one:.1f} x one fit, {tried} strengths x 5 folds",
        )


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(
        f"calibrant {calibrant.__version__}, scikit-learn {sklearn.__version__}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}, Python {sys.version.split()[0]}, {ARGUMENTS.threads} thread(s)"
    )
    for size in ARGUMENTS.sizes:
        compare(*(int(part) for part in size.split("x")), ARGUMENTS.repeats)


if __name__ == "__main__":
    main()

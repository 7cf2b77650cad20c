"""False alarms, delays of detection, and forecasts under drift, by simulation.

1. How often :class:`~calibrant.online.CalibrationMonitor` raises an alarm on streams of calibrated forecasts.
2. How many rows it takes to notice several kinds of miscalibration, from the start or after a change.
3. Log-loss and calibration error of forecasts made before each outcome is seen, on the confidence of a network
   whose accuracy drifts, without calibration, with a map fitted once, and with maps that follow.
4. How far ``partial_fit`` is from a fit of all rows, also where a class comes last.

Usage::

    python benchmarks/online.py [--streams 1000] [--other-streams 200] [--rows 10000]

``--streams`` of one event and ``--other-streams`` of everything else are watched for false alarms. All numbers are printed
as markdown tables.
"""

import argparse
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import clone

from calibrant import (
    BetaCalibration,
    Calibrator,
    HistogramBinning,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
)
from calibrant.metrics import brier_score, classwise_ece, log_loss
from calibrant.online import Calibeating, CalibrationMonitor, OnlineBeta, OnlinePlatt

DATA = Path(os.environ.get("CALIBRANT_DATA", Path(__file__).parents[2] / "shared" / "data"))
Vector = NDArray[np.float64]
Rows = tuple[NDArray[np.intp], Vector]


def show(title: str, header: list[str], lines: list[list[str]]) -> None:
    """Print a table in markdown, words to the left and numbers to the right."""
    print(f"\n{title}\n\n| {' | '.join(header)} |")
    numeric = [lines[0][column][:1].isdigit() for column in range(len(header))]
    print("|" + "|".join("---:" if right else "---" for right in numeric) + "|")
    for line in lines:
        print(f"| {' | '.join(line)} |")


def event_rows(generator: np.random.Generator, n_rows: int) -> Rows:
    """Return forecasts of an event, many of them near 0 and 1, that are right."""
    p = generator.beta(0.5, 0.5, n_rows)
    return (generator.random(n_rows) < p).astype(np.intp), p


def coarse_rows(generator: np.random.Generator, n_rows: int) -> Rows:
    """Return the same with forecasts in tenths, exact zeros and ones among them."""
    p = generator.integers(0, 11, n_rows) / 10
    return (generator.random(n_rows) < p).astype(np.intp), p


def class_rows(generator: np.random.Generator, n_rows: int, n_classes: int = 5) -> Rows:
    p = generator.dirichlet(np.full(n_classes, 0.4), n_rows)
    p = np.maximum(p, 1e-300)
    p /= p.sum(axis=1, keepdims=True)
    return (np.log(p) + generator.gumbel(size=p.shape)).argmax(axis=1), p


def false_alarms(n_streams: int, n_others: int, n_rows: int) -> None:
    cases: list[tuple[str, Callable[..., Rows], CalibrationMonitor, int]] = [
        ("one event", event_rows, CalibrationMonitor(), n_streams),
        ("one event, in tenths", coarse_rows, CalibrationMonitor(), n_others),
        ("predicted of 5 classes", class_rows, CalibrationMonitor(target="top-label"), n_others),
        ("5 classes", class_rows, CalibrationMonitor(), n_others),
        ("one event", event_rows, CalibrationMonitor("change", run_length=20 * n_rows), n_others),
        ("5 classes", class_rows, CalibrationMonitor("change", run_length=20 * n_rows), n_others),
    ]
    lines = []
    for name, rows, monitor, n_own in cases:
        generator = np.random.default_rng(0)
        alarms = sum(monitor.restart().update(*rows(generator, n_rows)).alarm for _ in range(n_own))
        error = np.sqrt(0.05 * 0.95 / n_own)
        lines.append([name, monitor.kind, f"{n_own}", f"{alarms / n_own:.4f}", "0.05", f"{error:.4f}"])
    show(
        f"False alarms on streams of {n_rows} calibrated rows",
        [
            "forecasts",
            "kind",
            "streams",
            "share with an alarm",
            "proven bound",
            "standard error at the bound",
        ],
        lines,
    )


MISTAKES: dict[str, Callable[[Vector], Vector]] = {
    "log-odds x 0.5 are true": lambda z: 0.5 * z,
    "log-odds x 0.8 are true": lambda z: 0.8 * z,
    "log-odds x 0.9 are true": lambda z: 0.9 * z,
    "log-odds x 1.3 are true": lambda z: 1.3 * z,
    "log-odds + 0.2 are true": lambda z: z + 0.2,
    "log-odds - 0.5 are true": lambda z: z - 0.5,
    "wrong between 0.6 and 0.8 only": lambda z: z - 1.0 * ((expit(z) > 0.6) & (expit(z) < 0.8)),
    "waves": lambda z: z + 0.5 * np.sin(2 * z),
}


def delays(n_streams: int, n_before: int, n_after: int = 20000) -> None:
    when = f"after {n_before} good rows" if n_before else "from the first row on"
    lines = []
    for name, mistake in MISTAKES.items():
        line = [name]
        for kind in ("any-time", "change"):
            generator = np.random.default_rng(0)
            found = []
            for _ in range(n_streams):
                z = generator.normal(0, 2, n_before + n_after)
                true = np.where(np.arange(len(z)) < n_before, z, mistake(z))
                y = generator.random(len(z)) < expit(true)
                monitor = CalibrationMonitor(kind, alpha=0.01).update(y, expit(z))  # type: ignore[arg-type]
                row = np.inf if monitor.alarm_row is None else monitor.alarm_row - n_before
                if row >= 0:
                    found.append(row)
            middle, late = np.quantile(found, [0.5, 0.9], method="higher")
            line.append(f"{middle:.0f}, {late:.0f}")
        lines.append(line)
    show(
        f"Rows until an alarm, median and 90th percentile of {n_streams} streams; wrong {when}",
        ["mistake", "any-time, alpha 0.01", "change, run length 1e5"],
        lines,
    )


def drifting_streams() -> Iterator[tuple[str, Vector, NDArray[np.bool_]]]:
    """Confidence of networks and whether they are right, with accuracies that change on the way."""
    generator = np.random.default_rng(0)
    for name in ("c10_wideresnet_16_4", "c100_wideresnet_16_4"):
        path = DATA / "cifar_netcal" / f"{name}.npz"
        if not path.exists():
            continue
        with np.load(path) as file:
            probs, y = file["probs"].astype(np.float64), file["y"]
        order = generator.permutation(len(y))
        confidence = np.clip(probs.max(axis=1), 0, 1)[order]
        right = (probs.argmax(axis=1) == y)[order]
        time = np.linspace(0, 1, len(right))
        coin = generator.random(len(right))
        yield f"{name}, steady", confidence, right
        # More and more of the right answers turn out to be wrong, as of a classifier that grows old.
        yield f"{name}, decay", confidence, right & (coin >= 0.4 * time)
        yield f"{name}, break", confidence, right & (coin >= 0.4 * (time > 0.5))


def forecasts_under_drift(n_first: int = 1000, batch: int = 100) -> None:
    lines = []
    for name, p, y in drifting_streams():
        methods = {
            "none": p,
            f"Platt on the first {n_first} rows": PlattScaling()
            .fit(p[:n_first], y[:n_first])
            .predict_proba(p)[:, 1],
            "partial_fit": in_batches(p, y, batch, None),
            "partial_fit, half-life 1000": in_batches(p, y, batch, 1000),
            "OnlinePlatt": OnlinePlatt().update(p, y),
            "OnlinePlatt, half-life 1000": OnlinePlatt(half_life=1000).update(p, y),
            "OnlineBeta": OnlineBeta().update(p, y),
            "OnlinePlatt, calibeating": Calibeating(OnlinePlatt()).update(p, y),
            "OnlinePlatt, calibeating, hedged": Calibeating(OnlinePlatt(), hedged=True).update(p, y),
        }
        for method, forecasts in methods.items():
            told, happened = forecasts[n_first:], y[n_first:].astype(int)
            scores = (
                log_loss(happened, told, floor=1e-6),
                brier_score(happened, told) / 2,
                classwise_ece(happened, told),
            )
            lines.append([name, method, *(f"{score:.4f}" for score in scores)])
    if lines:
        show(
            f"Forecasts of 'right', each made before its outcome was known; first {n_first} rows not counted",
            ["stream", "method", "log-loss", "Brier", "ECE"],
            lines,
        )


def in_batches(p: Vector, y: NDArray[np.bool_], batch: int, half_life: float | None) -> Vector:
    """Forecast every batch with the map of all batches before it; the first as it is."""
    calibrator, forecasts = PlattScaling(), [p[:batch]]
    for start in range(0, len(p) - batch, batch):
        rows, following = slice(start, start + batch), slice(start + batch, start + 2 * batch)
        calibrator.partial_fit(p[rows], y[rows].astype(int), half_life=half_life)
        forecasts.append(calibrator.predict_proba(p[following])[:, 1])
    return np.concatenate(forecasts)


def batches_against_one_fit(n_seeds: int = 9, batch: int = 1000) -> None:
    lines = []
    for n_rows in (2000, 8000, 32000, 128000):
        differences, errors = [], []
        for seed in range(n_seeds):
            generator = np.random.default_rng(seed)
            z = generator.normal(0, 2, n_rows)
            y = (generator.random(n_rows) < expit(0.6 * z - 0.4)).astype(int)
            p = expit(z)
            full, part = PlattScaling().fit(p, y), PlattScaling()
            for start in range(0, n_rows, batch):
                part.partial_fit(p[start : start + batch], y[start : start + batch])
            differences.append(max(abs(full.slope_ - part.slope_), abs(full.intercept_ - part.intercept_)))
            errors.append(np.sqrt(np.linalg.inv(part.memory_["hessian"]).diagonal().max()))
        typical = float(np.median(differences))
        lines.append([f"{n_rows}", f"{typical:.2e}", f"{typical * n_rows:.1f}", f"{np.mean(errors):.2e}"])
    show(
        f"Platt scaling in batches of {batch} against one fit: difference of a parameter, median of {n_seeds} streams",
        ["rows", "difference", "times rows", "standard error"],
        lines,
    )


def a_class_that_comes_last(n_seeds: int = 5, n_rows: int = 8000, batch: int = 200) -> None:
    methods: list[Calibrator] = [
        TemperatureScaling(),
        VectorScaling(),
        PlattScaling(),
        BetaCalibration(),
        HistogramBinning(),
    ]
    ends: dict[str, list[tuple[float, float, float]]] = {type(method).__name__: [] for method in methods}
    for seed in range(n_seeds):
        generator = np.random.default_rng(seed)
        z = generator.normal(0, 2, (n_rows, 4))
        true = 0.6 * z + np.linspace(-0.5, 0.5, 4)
        y = (true + generator.gumbel(size=z.shape)).argmax(axis=1)
        order = np.argsort(y == 3, kind="stable")
        p, y = softmax(z, axis=1)[order], y[order]
        for method in methods:
            part, worst = clone(method), 0.0
            with warnings.catch_warnings(action="ignore"):
                for end in range(batch, n_rows + 1, batch):
                    part.partial_fit(p[end - batch : end], y[end - batch : end])
                    so_far = log_loss(y[:end], part.predict_proba(p[:end])) / log_loss(y[:end], p[:end])
                    worst = max(worst, so_far)
                whole = clone(method).fit(p, y)
            own, best, none = (log_loss(y, q) for q in (part.predict_proba(p), whole.predict_proba(p), p))
            ends[type(method).__name__].append((own / none, best / none, worst))
    show(
        f"All rows of one of four classes come last, in batches of {batch} of {n_rows} rows: log-loss over that of doing "
        f"nothing, mean of {n_seeds} streams, and the largest on the rows so far after any batch",
        ["method", "in batches", "one fit", "largest on the way"],
        [
            [
                name,
                f"{np.mean(rows, axis=0)[0]:.3f}",
                f"{np.mean(rows, axis=0)[1]:.3f}",
                f"{np.max(rows, axis=0)[2]:.3f}",
            ]
            for name, rows in ends.items()
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--other-streams", type=int, default=200)
    options = parser.parse_args()
    false_alarms(options.streams, options.other_streams, options.rows)
    for n_before in (0, 10000):
        delays(max(20, options.other_streams // 10), n_before)
    forecasts_under_drift()
    batches_against_one_fit()
    a_class_that_comes_last()


if __name__ == "__main__":
    main()

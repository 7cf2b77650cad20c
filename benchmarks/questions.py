"""Labels with few rows, subgroups, multicalibration and thresholds: gains on held-out rows, and promises by simulation.

Usage::

    python benchmarks/questions.py [multilabel] [subgroups] [multicalibration] [thresholds] [exact] [mcgrad] [--data FOLDER]

Without a name, all parts run but ``mcgrad``, which needs the package of that name: ``pip install mcgrad``. The real tasks of
``multilabel`` and ``mcgrad`` need the folders ``cifar_other`` and ``uci`` of the data.
"""

import argparse
import logging
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from calibrant import MultilabelCalibration
from calibrant.hypothesis_tests import calibration_belt, discrete_score_test, subgroup_calibration
from calibrant.intervals import selection_threshold
from calibrant.metrics import grouping_loss, log_loss, multilabel_score
from calibrant.multicalibration import Multicalibration

Task = tuple[Any, Any, Any, Any]
"""Scores and outcomes to fit, scores and outcomes to judge by."""

MAPS: dict[str, MultilabelCalibration] = {
    "separate: platt": MultilabelCalibration("platt"),
    "separate: beta": MultilabelCalibration("beta"),
    "separate: isotonic": MultilabelCalibration("isotonic"),
    "separate: piecewise-linear": MultilabelCalibration("piecewise-linear"),
    "one map for all labels": MultilabelCalibration(strength=1e9),
    "shared": MultilabelCalibration(),
}


# Multilabel


def made_tasks(n_tasks: int) -> Iterator[Task]:
    """Yield tasks of 40 labels, 300 rows to fit, and over-confident scores with a slope and a shift of each label."""
    for seed in range(n_tasks):
        generator = np.random.default_rng(seed)
        n_labels, n_fit, n_test = 40, 300, 10_000
        z = generator.normal(generator.normal(-4, 1, n_labels), 2, (n_fit + n_test, n_labels))
        slopes = np.exp(generator.normal(np.log(0.5), 0.2, n_labels))
        shifts = generator.normal(-2, 0.4, n_labels)
        y = (generator.random(z.shape) < expit(slopes * z + shifts)).astype(int)
        yield expit(z[:n_fit]), y[:n_fit], expit(z[n_fit:]), y[n_fit:]


def named_by_people(folder: Path, n_fit: int, n_tasks: int) -> Iterator[Task]:
    """Yield CIFAR-10 test images whose labels are all classes that two or more of some fifty people named."""
    for name in ("resnet_110", "preresnet_110", "densenet_bc_l190_k40"):
        with np.load(folder / "cifar_other" / f"c10_humanlabels_{name}.npz") as file:
            p, y = file["probs"].astype(np.float64), (file["human_counts"] >= 2).astype(int)
        for seed in range(n_tasks):
            order = np.random.default_rng(seed).permutation(len(p))
            fit, test = order[:n_fit], order[n_fit:]
            yield p[fit], y[fit], p[test], y[test]


def loss(y: Any, p: Any) -> float:
    """Return the macro log-loss, with probabilities of at least 1e-6 for maps that give zeros."""
    return float(multilabel_score(log_loss, y, np.clip(p, 1e-6, 1 - 1e-6)))


def multilabel(folder: Path | None) -> None:
    """Print the macro log-loss on held-out rows of separate maps, one map, and a shared map with terms of labels."""
    tasks: dict[str, list[Task]] = {"40 made labels, 300 rows": list(made_tasks(20))}
    if folder is not None:
        for n_fit in (100, 300, 1000):
            found = list(named_by_people(folder, n_fit, 10))
            tasks[f"10 labels named by people (CIFAR-10H), {n_fit} rows"] = found
    for title, several in tasks.items():
        print(f"\n{title}: macro log-loss on held-out rows, mean of {len(several)} tasks")
        before = np.array([loss(y_test, p_test) for _, _, p_test, y_test in several])
        losses = {"uncalibrated": before}
        for name, calibrator in MAPS.items():
            losses[name] = np.array(
                [loss(y_test, calibrator.fit(p, y).predict_proba(p_test)) for p, y, p_test, y_test in several]
            )
        best = losses["shared"]
        for name, values in losses.items():
            wins = f"shared lower in {np.sum(best < values)} of {len(best)}" if name != "shared" else ""
            print(f"  {name:27s} {values.mean():.4f}   {wins}")


# Subgroups


def crossed(generator: np.random.Generator, n_rows: int) -> dict[str, Any]:
    """Return two columns with 10 and 18 values: 28 segments and their 180 crossings."""
    return {"site": generator.integers(0, 10, n_rows), "product": generator.integers(0, 18, n_rows)}


def subgroups(n_null: int, n_planted: int) -> None:
    """Print how often any of about 208 segments is rejected without an error, and how often a planted one is found."""
    n_rows = 20_000
    options: dict[str, Any] = {"depth": 2, "n_resamples": 400}
    any_rejected, n_segments = 0, 0
    for seed in range(n_null):
        generator = np.random.default_rng(seed)
        p, columns = generator.beta(2, 4, n_rows), crossed(generator, n_rows)
        y = (generator.random(n_rows) < p).astype(int)
        found = subgroup_calibration(y, p, columns, **options)
        any_rejected += bool(found.rejected)
        n_segments = len(found.segment)
    error = 100 * np.sqrt(0.05 * 0.95 / n_null)
    print(f"\nsubgroup_calibration, {n_segments} segments, {n_rows} rows, calibrated predictions:")
    print(
        f"  any segment rejected at the 5 % level in {100 * any_rejected / n_null:.1f} % of {n_null} runs (+- {error:.1f})"
    )
    print("  error planted in one crossing of about 110 rows, predicted 1/3 on average:")
    for shift in (0.1, 0.15, 0.2, 0.25):
        found_it = named_first = 0
        for seed in range(n_planted):
            generator = np.random.default_rng(10_000 + seed)
            p, columns = generator.beta(2, 4, n_rows), crossed(generator, n_rows)
            planted = (columns["site"] == 3) & (columns["product"] == 5)
            y = (generator.random(n_rows) < np.clip(p + shift * planted, 0, 1)).astype(int)
            result = subgroup_calibration(y, p, columns, **options)
            name = "site = 3 and product = 5"
            found_it += name in result.rejected
            named_first += result.segment[0] == name
        print(
            f"    events {100 * shift:2.0f} points more frequent: found in {100 * found_it / n_planted:3.0f} % of {n_planted} "
            f"runs, first of all segments in {100 * named_first / n_planted:3.0f} %"
        )


# Multicalibration


def multicalibration(n_runs: int) -> None:
    """Print the largest true error of a segment and the true log-loss before and after, with and without an error."""
    print(
        f"\nMulticalibration, 6000 rows to fit, errors on 20,000 held-out rows with known probabilities, {n_runs} runs:"
    )
    for title, factor in (("one site too high by half", 0.5), ("no error", 1.0)):
        worst, losses, kept = [], [], 0
        for seed in range(n_runs):
            generator = np.random.default_rng(seed)
            n_rows = 26_000
            columns = {
                "site": generator.integers(0, 8, n_rows),
                "sex": generator.integers(0, 2, n_rows),
                "age": generator.normal(50, 15, n_rows),
            }
            p = generator.beta(1, 3, n_rows)
            true = np.where(columns["site"] == 3, factor * p, p)
            y = (generator.random(n_rows) < true).astype(int)
            train, test = slice(0, 6000), slice(6000, None)
            fitted = Multicalibration().fit(p[train], y[train], {k: v[train] for k, v in columns.items()})
            q = fitted.predict_proba(p[test], {k: v[test] for k, v in columns.items()})[:, 1]
            kept += fitted.n_rounds_ == 0
            truth = true[test]
            gaps = [
                [abs(np.mean((truth - each)[columns["site"][test] == s])) for s in range(8)]
                for each in (p[test], q)
            ]
            worst.append([max(each) for each in gaps])
            losses.append(
                [-np.mean(truth * np.log(each) + (1 - truth) * np.log1p(-each)) for each in (p[test], q)]
            )
        before, after = np.mean(worst, axis=0)
        change = np.array([b - a for a, b in losses])
        print(
            f"  {title}: largest error of a site {before:.4f} before, {after:.4f} after; log-loss changes by "
            f"{change.mean():+.5f} (worst run {change.max():+.5f}); identity kept in {kept} of {n_runs}"
        )


def made_sites(seed: int, n_fit: int, factor: float) -> tuple[Any, Any, dict[str, Any], int]:
    """Return predictions, outcomes, side columns and the number of rows to fit; one of eight sites may be wrong."""
    generator = np.random.default_rng(seed)
    n_rows = n_fit + 20_000
    columns = {
        "site": generator.integers(0, 8, n_rows).astype(str),
        "sex": generator.integers(0, 2, n_rows).astype(str),
        "age": generator.normal(50, 15, n_rows),
    }
    p = generator.beta(1, 3, n_rows)
    true = np.where(columns["site"] == "3", factor * p, p)
    return p, (generator.random(n_rows) < true).astype(int), columns, n_fit


EVENTS = {"abalone": [0], "landsat-satellite": [3], "letter": [0, 4, 8, 14, 20], "waveform-5000": [0]}
"""Classes of data sets that make the event; of the letters, the vowels."""


def of_a_data_set(folder: Path, name: str, seed: int) -> tuple[Any, Any, dict[str, Any], int]:
    """Return the same for a logistic regression trained on a third of the rows, with all features as side columns."""
    with np.load(folder / "uci" / f"{name}.npz", allow_pickle=False) as file:
        X, y = file["X"], np.isin(file["y"], EVENTS[name]).astype(int)
    order = np.random.default_rng(seed).permutation(len(y))
    train, others = np.split(order, [len(y) // 3])
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X[train], y[train])
    p = np.clip(model.predict_proba(X[others])[:, 1], 1e-6, 1 - 1e-6)
    return p, y[others], {f"x{j}": column for j, column in enumerate(X[others].T)}, len(others) // 2


def mcgrad(folder: Path | None, n_runs: int) -> None:
    """Print log-loss, errors of segments and time on held-out rows, for Multicalibration and for the package mcgrad."""
    import pandas as pd
    from mcgrad.methods import MCGrad

    logging.getLogger("mcgrad").setLevel(logging.ERROR)

    def by_mcgrad(p: Any, y: Any, columns: dict[str, Any], train: slice, test: slice) -> Any:
        frame = pd.DataFrame({**columns, "prediction": p, "label": y})
        words = [name for name, values in columns.items() if values.dtype.kind == "U"]
        roles: dict[str, Any] = {
            "categorical_feature_column_names": words,
            "numerical_feature_column_names": [name for name in columns if name not in words],
        }
        fitted = MCGrad().fit(frame[train], "prediction", "label", **roles)
        return fitted.predict(frame[test], "prediction", **roles)

    def by_calibrant(p: Any, y: Any, columns: dict[str, Any], train: slice, test: slice) -> Any:
        fitted = Multicalibration().fit(p[train], y[train], {k: v[train] for k, v in columns.items()})
        return fitted.predict_proba(p[test], {k: v[test] for k, v in columns.items()})[:, 1]

    tasks: dict[str, Any] = {
        "6000 rows, one site of eight too high by half": lambda seed: made_sites(seed, 6000, 0.5),
        "6000 rows, no error": lambda seed: made_sites(seed, 6000, 1.0),
    }
    for name in EVENTS if folder is not None else ():
        tasks[f"{name}, logistic regression"] = lambda seed, name=name: of_a_data_set(folder, name, seed)
    methods = {"before": None, "Multicalibration": by_calibrant, "MCGrad": by_mcgrad}
    print(f"\nMulticalibration and the package mcgrad, held-out rows, means of {n_runs} runs:")
    for title, task in tasks.items():
        rows: dict[str, list[list[float]]] = {name: [] for name in methods}
        for seed in range(n_runs):
            p, y, columns, n_fit = task(seed)
            train, test = slice(0, n_fit), slice(n_fit, None)
            side = {name: values[test] for name, values in columns.items()}
            for name, method in methods.items():
                started = time.process_time()
                q = p[test] if method is None else method(p, y, columns, train, test)
                seconds = time.process_time() - started
                found = subgroup_calibration(y[test], q, side, kind="positive", n_resamples=400)
                largest = float(np.max(np.abs(found.difference)))
                rows[name].append(
                    [log_loss(y[test], np.clip(q, 1e-6, 1 - 1e-6)), largest, len(found.rejected), seconds]
                )
        print(f"  {title}")
        for name, values in rows.items():
            mean = np.mean(values, axis=0)
            print(
                f"    {name:17} log-loss {mean[0]:.4f}, largest error of a segment {mean[1]:.3f}, "
                f"{mean[2]:.1f} of {len(found.segment)} segments rejected, {mean[3]:.2f} s CPU"
            )


# Thresholds


def thresholds(n_runs: int) -> None:
    """Print how often the true risk above a chosen threshold exceeds the promised one, or its mean."""
    max_risk, level = 0.2, 0.95
    generator = np.random.default_rng(0)
    z_new = generator.normal(scale=2.0, size=(400_000, 4))
    wrong_new = 1 - softmax(z_new, axis=1).max(axis=1)
    confidence_new = softmax(2 * z_new, axis=1).max(axis=1)
    order = np.argsort(confidence_new)
    confidence_new, wrong_above = confidence_new[order], np.cumsum(wrong_new[order][::-1])[::-1]
    print(
        f"\nselection_threshold, at most {100 * max_risk:.0f} % wrong, 4 classes, over-confident scores, {n_runs} runs:"
    )
    for n_rows in (200, 1000):
        for method in ("clopper-pearson", "conformal"):
            risks, coverages = np.zeros(n_runs), np.zeros(n_runs)
            for run in range(n_runs):
                z = generator.normal(scale=2.0, size=(n_rows, 4))
                y = (z + generator.gumbel(size=z.shape)).argmax(axis=1)
                chosen = selection_threshold(
                    y, softmax(2 * z, axis=1), max_risk=max_risk, level=level, method=method
                )
                first = int(np.searchsorted(confidence_new, chosen.threshold, side="right"))
                if first == len(confidence_new):
                    continue
                accepted = len(confidence_new) - first
                coverages[run] = accepted / len(confidence_new)
                risks[run] = wrong_above[first] / (
                    accepted if method == "clopper-pearson" else len(confidence_new)
                )
            if method == "clopper-pearson":
                kept = f"error rate above the limit in {100 * np.mean(risks > max_risk):.1f} % of runs (promised: at most 5 %)"
            else:
                error = risks.std() / np.sqrt(n_runs)
                kept = f"accepted and wrong {np.mean(risks):.4f} +- {error:.4f} on average (promised: at most {max_risk})"
            print(f"  {method:15s} {n_rows:5d} rows: {kept}; mean coverage {coverages.mean():.2f}")


# Further tests


def exact(n_runs: int) -> None:
    """Print the levels of the exact test and of the calibration belt, and the coverage of belt and grouping-loss bound."""
    discrete = belt_rejects = belt_covers = bound_wrong = 0
    for seed in range(n_runs):
        generator = np.random.default_rng(seed)
        p = (generator.integers(0, 6, 40) + 1) / 7
        discrete += discrete_score_test((generator.random(40) < p).astype(int), p).test.p_value <= 0.05
        p = generator.beta(1, 2, 1000)
        belt = calibration_belt((generator.random(1000) < p).astype(int), p, n_points=11)
        belt_rejects += belt.test.p_value <= 0.05
        belt_covers += not (belt.above_diagonal | belt.below_diagonal).any()
        X = generator.normal(size=(1000, 5))
        p = expit(X[:, 0])
        y = (generator.random(1000) < p**1.5).astype(int)
        bound_wrong += grouping_loss(y, p, X, kind="positive").limit > 0
    print(f"\ncalibrated predictions, {n_runs} runs:")
    print(f"  discrete_score_test, 40 rows, 6 scores: rejects in {100 * discrete / n_runs:.1f} %")
    print(
        f"  calibration_belt, 1000 rows: rejects in {100 * belt_rejects / n_runs:.1f} %, belt contains the diagonal in "
        f"{100 * belt_covers / n_runs:.1f} %"
    )
    print(f"  grouping_loss, 1000 rows, none: lower bound above zero in {100 * bound_wrong / n_runs:.1f} %")


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ("multilabel", "subgroups", "multicalibration", "thresholds", "exact", "mcgrad")
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(names)}; by default all but mcgrad")
    parser.add_argument("--data", type=Path, default=os.environ.get("CALIBRANT_DATA"))
    parser.add_argument("--runs", type=int, default=400, help="simulated data sets")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(names)
    if unknown:
        parser.error(f"there is no part {min(unknown)!r}")
    warnings.simplefilter("ignore")
    chosen = arguments.parts or names[:-1]
    folder = None if arguments.data is None else Path(arguments.data)
    if "multilabel" in chosen:
        multilabel(folder)
    if "subgroups" in chosen:
        subgroups(arguments.runs, max(1, arguments.runs // 4))
    if "multicalibration" in chosen:
        multicalibration(max(1, arguments.runs // 10))
    if "thresholds" in chosen:
        thresholds(10 * arguments.runs)
    if "exact" in chosen:
        exact(arguments.runs)
    if "mcgrad" in chosen:
        mcgrad(folder, max(1, arguments.runs // 40))


if __name__ == "__main__":
    main()

"""Log-loss under label shift: without correction, with estimated class shares, and with the true ones.

First the demonstration of a published program, ``other/labelshift_demo``: 10,000 labelled source rows, 1,000 target rows of
which 97 % are one class. Then shifts made of CIFAR sets as the literature makes them: 5,000 source rows, and a target drawn
with replacement from the other 5,000, with shares from a Dirichlet distribution or with one class at a given share and
the others equal; means over seeds, each with another split, of log-loss and of the sum of absolute errors of the
shares. The true shares are those that rows were drawn with. Last the coverage of 95 % intervals, over all classes and over
classes of at least 2 %, and how often the test for other changes alarms at 5 % and at 0.1 %; there rows are drawn without
replacement as long as a class has enough, since a row that occurs twice is no second row. Usage::

    python benchmarks/label_shift.py [--seeds 10] [--rows 2000] [--coverage 40]
"""

import argparse
import sys
import warnings
from collections import defaultdict

import numpy as np
from baselines import FOLDER
from numpy.typing import NDArray

from calibrant import LabelShift, Predictions
from calibrant.metrics import log_loss

METHODS = ["em", "confusion", "confusion-soft"]
NETWORKS = ["cifar_netcal/c10_lenet_5", "cifar_netcal/c10_wideresnet_16_4"]
SHIFTS = [
    ("Dirichlet", 0.1),
    ("Dirichlet", 1.0),
    ("Dirichlet", 10.0),
    ("one class", 0.01),
    ("one class", 0.9),
]
N_COVERAGE_ROWS = 500

Vector = NDArray[np.float64]


def arrays_of(name: str) -> dict[str, NDArray]:
    path = FOLDER / f"{name}.npz"
    if not path.exists():
        sys.exit(f"there is no file {path}; set CALIBRANT_DATA to the folder that holds {name}.npz.")
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def shares_of(kind: str, size: float, n_classes: int, generator: np.random.Generator) -> Vector:
    """Return shares of the classes in the target."""
    if kind == "Dirichlet":
        return generator.dirichlet(np.full(n_classes, size))
    shares = np.full(n_classes, (1 - size) / (n_classes - 1))
    shares[generator.integers(n_classes)] = size
    return shares


def drawn(
    labels: NDArray, shares: Vector, n_rows: int, generator: np.random.Generator, again: bool
) -> NDArray:
    """Return rows with these shares; ``again`` says whether rows may come twice where that could be avoided."""
    rows = []
    for k, count in enumerate(generator.multinomial(n_rows, shares)):
        pool = np.flatnonzero(labels == k)
        rows.append(generator.choice(pool, count, replace=again or count > len(pool)))
    return np.concatenate(rows)


def with_shares(fitted: LabelShift, target: NDArray, shares: Vector) -> Predictions:
    """Return calibrated predictions corrected by the true shares, none below 1e-12."""
    p = (
        fitted.transform(target).probabilities.astype(np.float64)
        * np.maximum(shares, 1e-12)
        / fitted.source_prior_
    )
    return Predictions.from_probabilities(p / p.sum(axis=1, keepdims=True))


def demonstration() -> None:
    arrays = arrays_of("other/labelshift_demo")
    target, labels = arrays["test_probs"], arrays["test_y"]
    shares = np.bincount(labels, minlength=10) / len(labels)
    print(
        "other/labelshift_demo\n\n| correction | log-loss | error of the prior | p-value |\n|---|---|---|---|"
    )
    print(f"| as given | {log_loss(labels, target):.4f} | | |")
    for method in METHODS:
        fitted = LabelShift(method=method).fit(arrays["val_probs"], arrays["val_y"])
        if method == METHODS[0]:
            print(f"| calibrated on the source | {log_loss(labels, fitted.transform(target)):.4f} | | |")
        estimate = fitted.estimate(target)
        error = np.abs(estimate.prior - shares).sum()
        loss = log_loss(labels, fitted.adapt(target).transform(target))
        print(f"| {method} | {loss:.4f} | {error:.4f} | {estimate.p_value:.3f} |")
    print(f"| true prior | {log_loss(labels, with_shares(fitted, target, shares)):.4f} | 0 | |")


def split(name: str, seed: int) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    arrays = arrays_of(name)
    p, y = arrays["probs"].astype(np.float64), arrays["y"]
    first, last = np.split(np.random.default_rng(seed).permutation(len(y)), 2)
    return p[first], y[first], p[last], y[last]


def literature(n_seeds: int, n_rows: int) -> None:
    header = " | ".join([*METHODS, "true prior", *(f"error, {method}" for method in METHODS)])
    for name in NETWORKS:
        print(
            f"\n{name}, {n_rows:,} target rows, {n_seeds} seeds\n\n| shift | none | {header} |\n|{'---|' * 9}"
        )
        losses = defaultdict(list)
        for seed in range(n_seeds):
            source, source_labels, pool, pool_labels = split(name, seed)
            fits = [LabelShift(method=method, n_groups=0).fit(source, source_labels) for method in METHODS]
            for kind, size in SHIFTS:
                generator = np.random.default_rng([seed, int(100 * size)])
                shares = shares_of(kind, size, pool.shape[1], generator)
                rows = drawn(pool_labels, shares, n_rows, generator, again=True)
                target, labels = pool[rows], pool_labels[rows]
                figures = [log_loss(labels, fits[0].transform(target))]
                figures += [log_loss(labels, fitted.adapt(target).transform(target)) for fitted in fits]
                figures.append(log_loss(labels, with_shares(fits[0], target, shares)))
                figures += [np.abs(fitted.estimate(target).prior - shares).sum() for fitted in fits]
                losses[kind, size].append(figures)
        for (kind, size), figures in losses.items():
            print(f"| {kind} {size:g} | {' | '.join(f'{mean:.4f}' for mean in np.mean(figures, axis=0))} |")


def coverage(n_times: int) -> None:
    for name in NETWORKS:
        print(f"\n{name}, {N_COVERAGE_ROWS} target rows, {n_times} splits\n")
        print("| method | shift | coverage | of 2 % and more | mean width | alarm 5 % | alarm 0.1 % |")
        print("|---|---|---|---|---|---|---|")
        counts = defaultdict(list)
        for seed in range(n_times):
            source, source_labels, pool, pool_labels = split(name, seed)
            for method in METHODS:
                fitted = LabelShift(method=method).fit(source, source_labels)
                for kind, size in SHIFTS[:3]:
                    generator = np.random.default_rng([seed, int(100 * size)])
                    shares = shares_of(kind, size, pool.shape[1], generator)
                    rows = drawn(pool_labels, shares, N_COVERAGE_ROWS, generator, again=False)
                    found = fitted.estimate(pool[rows])
                    held, common = (found.lower <= shares) & (shares <= found.upper), shares >= 0.02
                    counts[method, f"{kind} {size:g}"].append(
                        (held.sum(), held.size, held[common].sum(), common.sum(), (found.upper - found.lower).mean(),
                         found.p_value < 0.05, found.p_value < 0.001)
                    )  # fmt: skip
        for (method, shift), rows in counts.items():
            held, size, held_common, common, *_ = np.sum(rows, axis=0)
            width, alarms, sure = np.mean(rows, axis=0)[4:]
            print(
                f"| {method} | {shift} | {held / size:.3f} | {held_common / common:.3f} | {width:.3f} | {alarms:.3f} | "
                f"{sure:.3f} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--coverage", type=int, default=40)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    demonstration()
    literature(arguments.seeds, arguments.rows)
    coverage(arguments.coverage)


if __name__ == "__main__":
    main()

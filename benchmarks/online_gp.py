"""Gaussian process calibration in batches of 250 rows, against the posterior of all rows at once and against a refit.

For synthetic rows and networks, the columns are: the largest difference of the latent function, relative to its value at a
probability of 0.6, from the posterior of all rows *for the same kernel*, in posterior deviations; the ratio of the
deviations; the log-loss on other rows of the stream, of a refit, kernel included, and of a fit to the first 1,000 rows; the
number of rows over which a batch sums, soon after these and at the end, without and with the test against a sample;
milliseconds of a batch without it. Usage::

    python benchmarks/online_gp.py [--rows 10000]
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy

import numpy as np
from baselines import FOLDER
from numpy.typing import NDArray
from scipy.special import softmax

from calibrant import GaussianProcessCalibration
from calibrant.calibrators.latent.gaussian_process.process_summary import ProcessSummary
from calibrant.calibrators.latent.gaussian_process.variational import SpreadRows
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import log_loss

NETWORKS = ("c10_wideresnet_16_4", "c10_lenet_5", "c100_wideresnet_16_4")
BATCH = 250

Rows = tuple[NDArray[np.float64], NDArray[np.intp]]


def synthetic(n_rows: int, n_classes: int) -> Rows:
    """Return predictions whose true logits are a bent function of the given ones, with labels."""
    generator = np.random.default_rng(n_classes)
    z = generator.normal(0, 2, (n_rows, n_classes))
    u = 0.6 * z + 0.05 * z**2
    return softmax(z, axis=1), (u + generator.gumbel(size=u.shape)).argmax(axis=1)


def sets(n_rows: int) -> Iterator[tuple[str, Rows, Rows]]:
    """Yield name, rows of the stream and other rows."""
    for n_classes in (2, 4, 10):
        p, y = synthetic(n_rows + 20_000, n_classes)
        yield f"synthetic, K = {n_classes}", (p[:n_rows], y[:n_rows]), (p[n_rows:], y[n_rows:])
    for name in NETWORKS:
        with np.load(FOLDER / f"cifar_netcal/{name}.npz") as arrays:
            p, y = arrays["probs"].astype(np.float64), arrays["y"].astype(np.intp)
        order = np.random.default_rng(0).permutation(len(y))
        half = min(n_rows, len(y) // 2)
        yield name, (p[order[:half]], y[order[:half]]), (p[order[half:]], y[order[half:]])


def of_all_rows(
    fitted: GaussianProcessCalibration, p: NDArray[np.float64], y: NDArray[np.intp]
) -> GaussianProcessCalibration:
    """Return a copy with the posterior of all rows at once, for the same kernel and inducing points."""
    same, memory = copy(fitted), fitted.memory_
    size = len(fitted.inducing_mean_)
    nothing = {name: 0.0 * value for name, value in memory["process"].items()}
    same.memory_ = memory | {
        "process": nothing,
        "information": np.zeros((size, size)),
        "averaged": np.zeros((size, size)),
        "total_weight": 0.0,
    }
    ProcessSummary().update(same, LabelledPredictions.parse(p, y), 1.0, float(len(y)))
    return same


@contextmanager
def counted() -> Iterator[list[int]]:
    """Collect the number of rows of every sum that is set up."""
    sizes: list[int] = []
    made = SpreadRows.__init__

    def init(self: SpreadRows, places: NDArray[np.floating], *others: object) -> None:
        sizes.append(len(places))
        made(self, places, *others)

    SpreadRows.__init__ = init  # type: ignore[method-assign, assignment]
    try:
        yield sizes
    finally:
        SpreadRows.__init__ = made  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000, help="rows of a stream at most")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| rows of | n | difference / sd | ratio of sd | log-loss, stream | refit | first 1,000 |", end="")
    print(" rows summed over, early: late | with a test | ms, early: late |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, (p, y), (other, labels) in sets(arguments.rows):
        stream = GaussianProcessCalibration()
        costs: list[tuple[int, float]] = []
        with counted() as sizes:
            for start in range(0, len(y), BATCH):
                sizes.clear()
                rows = slice(start, start + BATCH)
                begin = time.perf_counter()
                stream.partial_fit(p[rows], y[rows])
                costs.append((sum(sizes), time.perf_counter() - begin))
        whole = of_all_rows(stream, p, y)
        places = np.linspace(-5, -0.05, 40)
        (mean, deviation), (wanted, own) = (each.latent(places, reference=-0.5) for each in (stream, whole))
        refit = GaussianProcessCalibration().fit(p, y)
        few = GaussianProcessCalibration().fit(p[:1000], y[:1000])
        losses = [float(log_loss(labels, each.predict_proba(other))) for each in (stream, refit, few)]
        later = costs[5:]
        plain = [cost for cost in later if cost[0] == min(size for size, _ in later)]
        tested = [cost for cost in later if cost[0] > plain[0][0]]
        cells = [
            name,
            f"{len(y):,}",
            f"{np.abs((mean - wanted) / own).max():.2f}",
            f"{(deviation / own).min():.2f} to {(deviation / own).max():.2f}",
            *(f"{loss:.4f}" for loss in losses),
            f"{plain[0][0]:,}: {plain[-1][0]:,}",
            f"{tested[0][0]:,}: {tested[-1][0]:,}",
            f"{1000 * np.median([s for _, s in plain[:4]]):.0f}: {1000 * np.median([s for _, s in plain[-4:]]):.0f}",
        ]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()

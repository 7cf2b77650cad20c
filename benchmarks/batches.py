"""Learning batch by batch against one fit of all rows: log-loss on fresh rows of two networks, and seconds.

The rows of a network are shuffled; the first half comes in batches, the second tests. Usage::

    python benchmarks/batches.py [--batch 250] [--methods temperature,shared-matrix] [--half-life 2000]
"""

import argparse
import time
import warnings

import numpy as np
from baselines import FOLDER
from numpy.random import default_rng

from calibrant import Predictions, registry
from calibrant.metrics import log_loss

FILES = ("cifar_netcal/c10_wideresnet_16_4", "cifar_netcal/c100_wideresnet_16_4")


def learners() -> list[str]:
    """Return the names of all methods that can learn in batches."""
    return [name for name in registry.calibrators() if registry.make(name).batches is not None]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=250, help="rows of a batch")
    parser.add_argument("--methods", help="names separated by commas; all that have partial_fit by default")
    parser.add_argument("--half-life", type=float, help="rows after which what was learnt counts half")
    arguments = parser.parse_args()
    methods = arguments.methods.split(",") if arguments.methods else learners()
    warnings.simplefilter("ignore")
    for file in FILES:
        with np.load(FOLDER / f"{file}.npz") as arrays:
            p, y = arrays["probs"], arrays["y"]
        order = default_rng(0).permutation(len(y))
        half = len(y) // 2
        rows, labels = p[order[:half]], y[order[:half]]
        test, test_labels = Predictions.from_probabilities(p[order[half:]]), y[order[half:]]
        print(
            f"\n{file}, {half:,} rows in batches of {arguments.batch}; as given {log_loss(test_labels, test):.4f}\n"
        )
        print("| method | one fit | in batches | first 1,000 rows | s, one fit | s, all batches |")
        print("|---|---:|---:|---:|---:|---:|")
        for name in methods:
            start = time.perf_counter()
            whole = registry.make(name).fit(rows, labels)
            fitted = time.perf_counter()
            part = registry.make(name)
            for first in range(0, half, arguments.batch):
                batch = slice(first, first + arguments.batch)
                part.partial_fit(rows[batch], labels[batch], half_life=arguments.half_life)
            learnt = time.perf_counter()
            few = registry.make(name).fit(rows[:1000], labels[:1000])
            losses = [log_loss(test_labels, each.transform(test)) for each in (whole, part, few)]
            cells = [f"{float(loss):.4f}" for loss in losses]
            cells += [f"{fitted - start:.2f}", f"{learnt - fitted:.2f}"]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

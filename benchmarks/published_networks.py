"""Test log-loss of the logistic family on four published networks, next to the figures of Kull et al. 2019.

Reads ``kull_nn/*.npz`` (``val_logits, val_y, test_logits, test_y``) from the folder named by ``CALIBRANT_DATA``, by
default ``shared/data`` next to the repository. Usage::

    python benchmarks/published_networks.py
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

from calibrant import Predictions, registry
from calibrant.metrics import log_loss

FOLDER = Path(os.environ.get("CALIBRANT_DATA", Path(__file__).parents[2] / "shared" / "data")) / "kull_nn"
NETWORKS = ["c10_resnet110", "c10_densenet40", "c10_convnet", "c100_convnet"]

# Supplement, Table 13; L2 is not in it for networks.
PUBLISHED = {
    "temperature": (0.20926, 0.22509, 0.19497, 0.94162),
    "vector": (0.20595, 0.22270, 0.19743, 0.96369),
    "matrix-odir": (0.20375, 0.22240, 0.19634, 0.96141),
    "dirichlet-odir": (0.20511, 0.22371, 0.19536, 0.96121),
    "dirichlet-l2": (None, None, None, None),
}


def main() -> None:
    if not FOLDER.is_dir():
        sys.exit(f"there is no folder {FOLDER}; set CALIBRANT_DATA to the folder that holds kull_nn.")
    print(f"{'network':16s}{'method':16s}{'ours':>9s}{'paper':>9s}{'seconds':>9s}")
    for place, network in enumerate(NETWORKS):
        with np.load(FOLDER / f"{network}.npz", allow_pickle=False) as arrays:
            val, test = (Predictions.from_logits(arrays[f"{part}_logits"]) for part in ("val", "test"))
            val_labels, test_labels = arrays["val_y"], arrays["test_y"]
        for method, figures in PUBLISHED.items():
            start = time.perf_counter()
            fitted = registry.make(method).fit(val, val_labels)
            seconds = time.perf_counter() - start
            paper = "" if figures[place] is None else f"{figures[place]:.5f}"
            print(
                f"{network:16s}{method:16s}{log_loss(test_labels, fitted.transform(test)):9.5f}{paper:>9s}{seconds:9.2f}"
            )


if __name__ == "__main__":
    main()

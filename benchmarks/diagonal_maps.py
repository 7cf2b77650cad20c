"""One increasing function for all classes: as straight lines between knots, and as the integral of a network.

For every set, prints the log-loss of calibration rows that were held out in folds, then log-loss and Brier score of test
rows and the seconds of the fit. Sets and halves are those of ``baselines.py``. Usage::

    python benchmarks/diagonal_maps.py [--sets kull_nn/c10_resnet110 ...] [--folds 5] [--maps temperature lines network-2-2]
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from baselines import FOLDER, halves

from calibrant import Predictions
from calibrant.calibrators.inner_folds import choose_by_folds
from calibrant.calibrators.monotone.order_preserving import fit_shared_map
from calibrant.calibrators.monotone.order_preserving.increasing_network import fit_increasing_network
from calibrant.labelled_predictions import LabelledPredictions

FOLDERS = ("kull_nn", "cifar_pytorch_models")
MAPS: dict[str, Callable[[LabelledPredictions], Callable[[Predictions], np.ndarray]]] = {
    "temperature": lambda data: fit_shared_map(data, n_segments=1),
    "lines": fit_shared_map,
    "lines-raw-logits": lambda data: fit_shared_map(data, inputs="logits"),
    "network-2-2": lambda data: fit_increasing_network(data, (2, 2)),
    "network-10-10": lambda data: fit_increasing_network(data, (10, 10)),
}


def fitted(data: LabelledPredictions, name: str) -> Callable[[Predictions], Predictions]:
    mapped = MAPS[name](data)
    return lambda predictions: Predictions.from_logits(mapped(predictions))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found = [
        f"{folder}/{path.stem}" for folder in FOLDERS for path in sorted((FOLDER / folder).glob("*.npz"))
    ]
    parser.add_argument("--sets", nargs="+", default=["cifar_netcal/c10_wideresnet_16_4", *found])
    parser.add_argument("--maps", nargs="+", choices=MAPS, default=list(MAPS))
    parser.add_argument("--folds", type=int, default=5)
    arguments = parser.parse_args()
    figures = []
    for name in arguments.sets:
        calibration, calibration_labels, test, test_labels = halves(name)
        data = LabelledPredictions.parse(calibration, calibration_labels)
        unseen = LabelledPredictions.parse(test, test_labels)
        held_out = [
            choose_by_folds(data, [map_name], fitted, n_folds=arguments.folds).losses[0]
            for map_name in arguments.maps
        ]
        print(
            f"\n{name}: {data.n_rows:,} calibration and {unseen.n_rows:,} test rows, {data.n_classes} classes"
        )
        print(f"  {'map':18s}{'held out':>9s}{'log-loss':>9s}{'Brier':>9s}{'fit s':>8s}")
        figures.append([])
        for map_name, loss in zip(arguments.maps, held_out, strict=True):
            start = time.perf_counter()
            mapped = fitted(data, map_name)
            seconds = time.perf_counter() - start
            calibrated = mapped(unseen.predictions)
            figures[-1].append((loss, unseen.log_loss(calibrated), unseen.squared_error(calibrated), seconds))
            print(f"  {map_name:18s}" + "{:9.5f}{:9.5f}{:9.5f}{:8.2f}".format(*figures[-1][-1]), flush=True)
    print(f"\nmeans of {len(figures)} sets")
    for map_name, row in zip(arguments.maps, np.mean(figures, axis=0), strict=True):
        print(f"  {map_name:18s}" + "{:9.5f}{:9.5f}{:9.5f}{:8.2f}".format(*row))


if __name__ == "__main__":
    main()

"""Draw the maps that methods learn from 5,000 rows of a known one, as Figures 5, 7, 9, 10 and 12 of Valk's thesis (2022).

Usage::

    python studies/valk2022-synthetic/maps.py [--task mixed] [--folder studies/valk2022-synthetic/results/pictures]
"""

import argparse
import warnings
from pathlib import Path

from calibrant import Calibrator, registry
from calibrant.errors import CalibrationWarning
from calibrant.plots import SimplexMapComparisonDisplay
from calibrant.synthetic import SyntheticTask, tasks

PICTURES: dict[str, dict[str, Calibrator]] = {
    "figure-05-one-by-one": {
        "histogram binning": registry.make("width-binning", n_bins=10),
        "isotonic regression": registry.make("isotonic"),
        "beta calibration": registry.make("beta"),
    },
    "figure-05-together": {
        "temperature scaling": registry.make("temperature"),
        "vector scaling": registry.make("vector"),
        "Dirichlet calibration": registry.make("dirichlet"),
        "order-preserving functions": registry.make(
            "iop", hidden=(40, 40), activation="relu", weight_decay=2.5e-4
        ),
    },
    "figure-07": {
        f"decision calibration, {number} repairs": registry.make("decision", n_iterations=number, guard=False)
        for number in (1, 2, 10)
    },
    "figure-09": {
        "a tree": registry.make("forest", n_trees=1, n_bins=32, random_state=0, guard=False),
        "another tree": registry.make("forest", n_trees=1, n_bins=32, random_state=1, guard=False),
        "a forest of 100": registry.make("forest", n_trees=100, n_bins=32, guard=False),
    },
    "figure-10": {
        f"{number} nearest neighbours": registry.make("knn-euclidean", n_neighbours=number, guard=False)
        for number in (256, 512, 1024)
    },
    "figure-12": {
        f"Dirichlet kernel, h = {width:g}": registry.make("kernel-dirichlet", bandwidth=width, guard=False)
        for width in (0.01, 0.1, 1.0)
    },
}


def draw(task: SyntheticTask, methods: dict[str, Calibrator], path: Path) -> SimplexMapComparisonDisplay:
    """Fit methods to the same rows, and draw them beside the truth."""
    rows = task.sample(5000, random_state=0)
    maps: dict[str, SyntheticTask | Calibrator] = {"truth": task}
    maps |= {name: method.fit(rows.predictions, rows.labels) for name, method in methods.items()}
    display = SimplexMapComparisonDisplay.from_maps(maps)
    display.plot().figure_.savefig(path, dpi=75, bbox_inches="tight", pil_kwargs={"quality": 85})
    return display


def main() -> None:
    """Draw all pictures of a task, and print how far from the truth each map is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", default="mixed", choices=list(tasks()))
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "results" / "pictures")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    # A map that does harm is a result here, not a surprise.
    warnings.simplefilter("ignore", CalibrationWarning)
    for name, methods in PICTURES.items():
        display = draw(tasks()[options.task], methods, options.folder / f"{name}.webp")
        for method in methods:
            print(f"{name}: {method}, {display.distance('truth', method):.4f} from the truth")


if __name__ == "__main__":
    main()

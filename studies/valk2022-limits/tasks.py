"""Tasks with a known calibration map for any number of classes, rows and shape of the distribution of predictions."""

from pathlib import Path

import numpy as np

from calibrant.studies.data import StudyData
from calibrant.synthetic import ClassTemperaturesMap, ComposedMap, RegionMap, SyntheticTask

# Of the classes, again and again: over-confident, about right, a little over-confident and too rare.
TEMPERATURES, SHIFTS = (1.6, 0.9, 1.2), (0.0, 0.0, 0.3)


def task(n_classes: int, concentration: float) -> SyntheticTask:
    """Return a task whose map is parametric, one temperature and shift per class, and then has jumps between 12 regions."""
    by_class = ClassTemperaturesMap(
        tuple(np.resize(TEMPERATURES, n_classes)), tuple(np.resize(SHIFTS, n_classes))
    )
    return SyntheticTask((concentration,) * n_classes, ComposedMap((by_class, RegionMap(12, 0.2))))


def rows(
    *,
    seed: int,
    data_folder: Path,  # noqa: ARG001
    n_classes: int,
    concentration: float,
    calibration_rows: int,
    test_rows: int,
) -> StudyData:
    """Draw rows of a task; true errors are integrated."""
    source = task(n_classes, concentration)
    generator = np.random.default_rng(seed)
    calibration = source.sample(calibration_rows, generator)
    test = source.sample(test_rows, generator)
    return StudyData.from_split(
        (calibration.predictions, calibration.labels), (test.predictions, test.labels), truth=source
    )

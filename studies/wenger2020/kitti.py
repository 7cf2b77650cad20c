"""KITTI as a problem of two classes: class 0 against all others, as in the program of the authors."""

from pathlib import Path

import numpy as np

from calibrant.studies.data import StudyData

__all__ = ["two_classes"]


def two_classes(*, seed: int, data_folder: Path) -> StudyData:  # noqa: ARG001
    """Return the training rows for classifiers, and the test rows to be divided."""
    content = np.load(Path(data_folder) / "wenger" / "kitti_features.npz")
    y_train, y_test = ((content[name] > 0).astype(int) for name in ("y_train", "y_test"))
    return StudyData.from_features(content["X_test"], y_test, train=(content["X_train"], y_train))

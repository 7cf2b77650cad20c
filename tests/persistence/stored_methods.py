"""Write ``schema_1/methods.zip`` or ``schema_2/methods.zip``: files of a schema, with the predictions of their time.

It was run once per schema, in a tree that wrote it, and is not run again::

    git worktree add ../old-tree COMMIT        # 6f0aa66 for schema 1, da8fa2e for schema 2
    PYTHONPATH=../old-tree/src python tests/persistence/stored_methods.py schema_1/methods.zip
    PYTHONPATH=../old-tree/src python tests/persistence/stored_methods.py schema_2/methods.zip iop platt beta ...

The archive of schema 1 has all registry names of its time. That of schema 2 has names that together use all operations of
graphs and all classes of calibrators.

A member ``<example>/calibrator.npz`` is what ``save`` wrote; ``<example>/<space>-<float type>.npy`` is what the calibrator
gave for the rows of :func:`rows_of`.
"""

import io
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np

from calibrant import Predictions, registry

N_ROWS = 60

# Small stand-ins for parameters that make large files.
SMALL = {
    "forest": {"n_trees": 5},
    "auto": {"candidates": ["temperature", "isotonic", "vector"]},
}

WITH_ABSENT_CLASS = ("temperature", "vector", "isotonic", "beta", "top-label-binning", "shared-matrix", "gp")

EPOCH = (1980, 1, 1, 0, 0, 0)


def rows_of(n_classes, space, kind):
    """Return rows in general position, and some with zeros, ties, saturated and nearly tied entries."""
    generator = np.random.default_rng([7, n_classes])
    some = generator.dirichlet(np.full(n_classes, 0.7), 12)
    if space == "logits":
        saturated = np.zeros((4, n_classes))
        saturated[0, 0], saturated[1, -1], saturated[2, 0] = 800.0, -1e5, 1e9
        saturated[3, 1] = 1e-7
        return np.vstack([1.0173 * np.log(some), saturated]).astype(kind)
    tied, tiny = np.zeros((1, n_classes)), np.full((1, n_classes), 1e-30)
    tied[0, :2], tiny[0, -1] = 0.5, 1.0
    close = np.full((1, n_classes), 1 / n_classes)
    close[0, 1] += 1e-7
    uniform = np.full((1, n_classes), 1 / n_classes)
    return np.vstack([some, np.eye(n_classes)[:2], uniform, tied, close, tiny]).astype(kind)


def calibration_rows(n_classes):
    """Return over-confident probabilities with labels of all classes."""
    generator = np.random.default_rng([3, n_classes])
    probabilities = 0.98 * generator.dirichlet(np.full(n_classes, 0.7), N_ROWS) + 0.02 / n_classes
    labels = (0.6 * np.log(probabilities) + generator.gumbel(size=probabilities.shape)).argmax(axis=1)
    labels[:n_classes] = np.arange(n_classes)
    return probabilities, labels


def examples(names=()):
    """Yield names of examples, calibrators without a fit, number of classes, space of the fit, and the absent class."""
    for name in names or registry.calibrators():
        calibrator = registry.make(name, **SMALL.get(name, {}))
        seeds = {key: 0 for key in calibrator.get_params() if key.endswith("random_state")}
        calibrator.set_params(**seeds)
        if "guard" in calibrator.get_params():
            calibrator.set_params(guard=False)  # of so few rows it would keep the uncalibrated predictions
        n_classes = 2 if calibrator.traits.binary_only else 3
        yield name, calibrator, n_classes, "probabilities", None
        if calibrator.traits.uses_raw_logits:
            yield f"{name}, logits", calibrator, n_classes, "logits", None
        if name in WITH_ABSENT_CLASS:
            yield f"{name}, absent class", calibrator, n_classes, "probabilities", 1


def as_predictions(scores, space):
    """Return scores with their meaning."""
    return Predictions.from_logits(scores) if space == "logits" else Predictions.from_probabilities(scores)


def build(path, names=()):
    """Write the archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def put(member, content):
            info = zipfile.ZipInfo(member, EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content, compresslevel=9)

        for example, calibrator, n_classes, space, absent in examples(names):
            probabilities, labels = calibration_rows(n_classes)
            if absent is not None:
                labels = np.where(labels == absent, 0, labels)
            given = np.log(probabilities) if space == "logits" else probabilities
            calibrator.fit(as_predictions(given, space), labels)
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "calibrator.npz")
                calibrator.save(file)
                put(f"{example}/calibrator.npz", file.read_bytes())
            spaces = [space] if calibrator.traits.uses_raw_logits else ["probabilities", "logits"]
            for each in spaces:
                for kind in (np.float32, np.float64):
                    rows = as_predictions(rows_of(n_classes, each, kind), each)
                    predicted = calibrator.predict_proba(rows)
                    np.testing.assert_array_equal(predicted, calibrator.predict_proba(rows))
                    stream = io.BytesIO()
                    np.save(stream, predicted)
                    put(f"{example}/{each}-{np.dtype(kind).name}.npy", stream.getvalue())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    build(sys.argv[1], sys.argv[2:])

"""Error, log-loss and ECE of a network on MNIST after every epoch of its training, before and after calibration."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neural_network import MLPClassifier

from calibrant.calibrators import GaussianProcessCalibration
from calibrant.conventions import convention
from calibrant.metrics import accuracy, log_loss

__all__ = ["training_epochs"]


def training_epochs(
    *,
    seed: int,
    data_folder: Path,
    calibrator: str = "none",
    rows: int = 20_000,
    epochs: int = 60,
    every: int = 5,
) -> dict[str, Any]:
    """Train a network with one hidden layer of 100 units, and evaluate it on 9,000 test rows.

    Parameters
    ----------
    seed : int
        Seed of the training rows, of the network and of the calibration rows.
    data_folder : Path
        Folder with ``wenger/mnist.npz``.
    calibrator : {"none", "GPcalib"}
        With ``"GPcalib"`` the network is calibrated on 1,000 other test rows, every ``every`` epochs.
    rows, epochs, every : int
        Number of training rows and of epochs, and epochs between two calibrations.

    Returns
    -------
    dict
        Error rate, log-loss and ECE with 100 bins after the last epoch, and as ``"series"`` after every one.
    """
    content = np.load(Path(data_folder) / "wenger" / "mnist.npz")
    generator = np.random.default_rng(seed)
    chosen = generator.permutation(len(content["y_train"]))[:rows]
    X, y = content["X_train"][chosen] / 255.0, content["y_train"][chosen]
    order = generator.permutation(len(content["y_test"]))
    X_test, y_test = content["X_test"][order] / 255.0, content["y_test"][order]
    network = MLPClassifier(100, random_state=seed)
    series: dict[str, list[float]] = {name: [] for name in ("epoch", "error", "log_loss", "ece")}
    for epoch in range(1, epochs + 1):
        network.partial_fit(X, y, classes=np.arange(10))
        if calibrator != "none" and epoch % every:
            continue
        p = network.predict_proba(X_test)
        if calibrator != "none":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = GaussianProcessCalibration().fit(p[:1000], y_test[:1000])
            p = fitted.predict_proba(p)
        p, labels = p[1000:], y_test[1000:]
        values = (
            epoch,
            1 - accuracy(labels, p),
            log_loss(labels, p),
            convention("wenger2020").confidence_ece(labels, p),
        )
        for name, value in zip(series, values, strict=True):
            series[name].append(float(value))
    return {**{name: values[-1] for name, values in series.items()}, "series": series}

"""Decision calibration as in Valk's thesis (2022): as many repairs as give the test rows their lowest Brier score."""

from pathlib import Path
from typing import Any

from calibrant import DecisionCalibration, TemperatureScaling
from calibrant.conventions import convention
from calibrant.metrics import accuracy, average_loss_gap
from calibrant.studies.sources import read_scores

FILES = {
    ("C-10", "DenseNet-40"): "kull_nn/c10_densenet40.npz",
    ("C-10", "ResNet-110"): "kull_nn/c10_resnet110.npz",
    ("C-10", "ResNet Wide 32"): "kull_nn/probs_resnet_wide32_c10_logits.p",
    ("C-100", "DenseNet-40"): "kull_nn/probs_densenet40_c100_logits.p",
    ("C-100", "ResNet-110"): "kull_nn/probs_resnet110_c100_logits.p",
    ("C-100", "ResNet Wide 32"): "kull_nn/probs_resnet_wide32_c100_logits.p",
}
REPAIRS = [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100]
VALK = convention("valk2022")
MEASURES = {
    "confidence ECE": VALK.confidence_ece,
    "classwise ECE": VALK.classwise_ece,
    "Brier score": VALK.brier_score,
    "log-loss": convention("kull2019").log_loss,
    "accuracy": accuracy,
    "average loss gap": average_loss_gap,
}


def run(*, seed: int, data_folder: Path, set: str, network: str, **_: str) -> dict[str, Any]:
    """Return the measures at the number of repairs that the test rows like best, and the Brier scores of all numbers.

    As in the program of the thesis, adjustments minimise the squared error and entries are clamped to 1e-7. Further
    parameters are labels.
    """
    data = read_scores(Path(data_folder) / FILES[set, network], {"space": "logits"})
    temperature = TemperatureScaling().fit(data.calibration.predictions, data.calibration.labels)
    calibration, test = (temperature.transform(part.predictions) for part in (data.calibration, data.test))
    found = {}
    for repairs in REPAIRS:
        method = DecisionCalibration(
            n_iterations=repairs, adjustment="least-squares", epsilon=1e-7, guard=False, random_state=seed
        )
        fitted = method.fit(calibration, data.calibration.labels)
        probabilities = fitted.predict_proba(test)
        found[repairs] = {name: float(of(data.test.labels, probabilities)) for name, of in MEASURES.items()}
    best = min(found, key=lambda repairs: found[repairs]["Brier score"])
    series = {"repairs": [float(repairs) for repairs in found]}
    for name in ("Brier score", "log-loss"):
        series[name] = [each[name] for each in found.values()]
    return {**found[best], "repairs": float(best), "series": series}

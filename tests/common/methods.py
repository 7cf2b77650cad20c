"""The calibrators and data that the common tests go through."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from toy_family import ToyEntropyTemperature

from calibrant import registry
from calibrant.calibrator import Calibrator, Traits

# A method that is no part of the library and consists of a family and nothing else.
TOYS = {"toy-entropy-temperature": ToyEntropyTemperature}

# One composition stands for all: a stage whose parameters are shared by the classes, one whose are not.
NAMES = [*registry.calibrators(), "temperature+vector", *TOYS]

# Sums of exact multiples of this are exact in float32 and in float64, so that both types hold the same
# numbers and a method with steps puts them on the same side of each step.
GRAIN = 2.0**-20

# Stand-ins for parameters that a method would otherwise choose by cross-validation. Folds depend on the
# order and number of rows, which is right for a choice by folds and would hide what a test is after.
CHOSEN = {
    "reg_lambda": 1e-3,
    "reg_mu": 1e-3,
    "n_neighbours": 64,
    "bandwidth": 0.1,
    "n_bins": 10,
    "n_iterations": 3,
    "weight_decay": 1e-2,
    "epsilon": 1e-4,
}

# A choice among a few stands for that among all, which has tests of its own and takes ten times as long.
FEW_CANDIDATES = {"auto": {"candidates": ["temperature", "shared-vector"]}}

# For one kernel the bandwidth is a width, for the other the inverse of a squared one.
CHOSEN_FOR = {"kernel-rbf": {"bandwidth": 12.8}}

N_ROWS = 320

# Two fits of one objective. Each ends within 1e-10 nats of the optimum. A single row of n carries 1/n of
# the mean loss, so by Pinsker's inequality its probabilities are surely off by no more than
# sqrt(n 1e-10 / 2), 1.3e-4 for the 320 rows of these tests; the last Newton step, which squares the error,
# leaves far less. Faults in counting rows show at 1/n.
REFITTED = 1e-5

# One fit, applied to the same numbers in another arrangement: rounding only.
ROUNDING = 1e-12


class Problem(NamedTuple):
    """Calibration rows."""

    probabilities: NDArray[np.floating]
    labels: NDArray[np.intp]


def made(name: str, **parameters: object) -> Calibrator:
    """Return the calibrator of a registry name, or a toy."""
    return TOYS[name](**parameters) if name in TOYS else registry.make(name, **parameters)


def traits(name: str) -> Traits:
    """Return what the calibrator ``name`` claims about itself."""
    return made(name).traits


def is_random(name: str) -> bool:
    """Return whether the calibrator draws random numbers."""
    return any(key.endswith("random_state") for key in made(name).get_params())


def names_with(condition: Callable[[Traits], bool]) -> list[str]:
    """Return the names whose traits fulfil the condition."""
    return [name for name in NAMES if condition(traits(name))]


def n_classes_of(name: str) -> int:
    """Return a number of classes that the calibrator takes: three if it can."""
    return 2 if traits(name).binary_only else 3


def make(name: str) -> Calibrator:
    """Return the calibrator as the registry makes it, with a seed where it takes one."""
    return _with_seed(made(name, **FEW_CANDIDATES.get(name, {})))


def settled(name: str) -> Calibrator:
    """Return the calibrator with a fixed value for each parameter that it would choose by itself."""
    calibrator = make(name)
    automatic = [
        key for key, value in calibrator.get_params().items() if isinstance(value, str) and value == "auto"
    ]
    chosen = {**CHOSEN, **CHOSEN_FOR.get(name, {})}
    return calibrator.set_params(**{key: chosen[key.rsplit("__")[-1]] for key in automatic})


def _with_seed(calibrator: Calibrator) -> Calibrator:
    return calibrator.set_params(
        **{key: 0 for key in calibrator.get_params() if key.endswith("random_state")}
    )


@cache
def problem(n_classes: int, n_rows: int = N_ROWS, seed: int = 0) -> Problem:
    """Return over-confident, biased predictions with labels of all classes; arrays are read-only.

    Labels are drawn from the softmax of 0.6 log p + b, so that every method has something to repair and
    none can separate the classes.
    """
    generator = np.random.default_rng([seed, n_classes])
    draws = generator.dirichlet(np.full(n_classes, 0.7), n_rows)
    probabilities = on_grain(0.98 * draws + 0.02 / n_classes)
    logits = 0.6 * np.log(probabilities) + np.linspace(-0.4, 0.4, n_classes)
    gumbel = generator.gumbel(size=logits.shape)
    labels = (logits + gumbel).argmax(axis=1)
    labels[:n_classes] = np.arange(n_classes)
    for array in (probabilities, labels):
        array.flags.writeable = False
    return Problem(probabilities, labels)


def on_grain(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to multiples of :data:`GRAIN` with every row summing to one exactly."""
    rounded = np.round(probabilities / GRAIN) * GRAIN
    rounded[np.arange(len(rounded)), rounded.argmax(axis=1)] += 1 - rounded.sum(axis=1)
    return rounded


@cache
def fitted(name: str, n_classes: int, build: Callable[[str], Calibrator] = settled) -> Calibrator:
    """Return a calibrator after its fit to :func:`problem`; shared by tests, not to be changed."""
    return build(name).fit(*problem(n_classes))


def own_loss(calibrator: Calibrator, X: object, labels: NDArray[np.intp]) -> float:
    """Return the mean loss that the calibrator minimises, of its own predictions on these rows."""
    calibrated = calibrator.transform(X)
    rows = np.arange(len(labels))
    if calibrator.get_params().get("loss", "log") == "brier":
        residuals = calibrated.probabilities.astype(np.float64)
        residuals[rows, labels] -= 1
        return float((residuals**2).sum(axis=1).mean())
    return float(-calibrated.log_probabilities[rows, labels].astype(np.float64).mean())


def assert_on_simplex(probabilities: NDArray[np.floating], shape: tuple[int, int]) -> None:
    """Fail unless rows are finite, non-negative and sum to one to the accuracy of their type."""
    assert probabilities.shape == shape
    assert np.isfinite(probabilities).all()
    assert (probabilities >= 0).all()
    accuracy = 8 * shape[1] * float(np.finfo(probabilities.dtype).eps)
    np.testing.assert_allclose(probabilities.sum(axis=1, dtype=np.float64), 1.0, rtol=0, atol=accuracy)

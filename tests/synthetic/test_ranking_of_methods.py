"""The order of methods on a task with a known map is that of Table 1 of Valk (2022) in outline."""

from functools import cache

import pytest

from calibrant import registry
from calibrant.synthetic import ScrambledSobol, SyntheticTask, TrueErrors, true_errors

# The options of the thesis, but for the network of order-preserving functions, which is left out.
METHODS = {
    "TS": ("temperature", {}),
    "DIR": ("dirichlet", {}),
    "DEC": ("decision", {"n_iterations": 10}),
    "forest": ("forest", {"n_trees": 100, "n_bins": 32}),
    "KNN": ("knn-euclidean", {"n_neighbours": 512}),
    "kernel": ("kernel-dirichlet", {"bandwidth": 0.1}),
}

NODES = ScrambledSobol(2**12)


def errors_of(name: str, n_rows: int, **parameters: object) -> TrueErrors:
    """Return the true errors of a method that was fitted on so many rows of the default task."""
    task = SyntheticTask()
    rows = task.sample(n_rows, random_state=0)
    fitted = registry.make(name, **parameters).fit(rows.predictions, rows.labels)
    return true_errors(task, fitted, rule=NODES, n_losses=50)


@cache
def table() -> dict[str, TrueErrors]:
    return {method: errors_of(name, 5000, **parameters) for method, (name, parameters) in METHODS.items()}


@pytest.mark.parametrize("metric", ["classwise", "multiclass", "brier_score", "log_loss", "loss_gap"])
def test_the_kernel_is_best_and_one_temperature_worst(metric):
    by_method = {method: getattr(errors, metric) for method, errors in table().items()}
    assert min(by_method, key=by_method.__getitem__) == "kernel"
    assert max(by_method, key=by_method.__getitem__) == "TS"


def test_every_method_is_better_than_none():
    nothing = true_errors(SyntheticTask(), rule=NODES, n_losses=50)
    for errors in table().values():
        assert errors.log_loss < nothing.log_loss
        assert errors.confidence < nothing.confidence
        assert errors.accuracy >= nothing.accuracy - 1e-6


@pytest.mark.parametrize("name", ["knn-kl", "kernel-dirichlet"])
def test_errors_of_neighbourhoods_fall_as_rows_grow(name):
    few, more, many = (errors_of(name, n_rows).excess_log_loss for n_rows in (500, 2000, 8000))
    assert many < 0.6 * more < 0.6 * few


def test_the_error_of_a_temperature_stays():
    few, many = (errors_of("temperature", n_rows).excess_log_loss for n_rows in (2000, 8000))
    assert many == pytest.approx(few, rel=0.05)

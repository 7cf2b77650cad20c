"""JackknifeSums: values and standard errors are those of refits without each part."""

import pickle
from functools import partial

import numpy as np
import pytest

from calibrant import metrics
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import options_of
from calibrant.streaming import JackknifeSums, streaming_metrics

N_PARTS = 7


def rows(n_rows=200, weighted=False):
    generator = np.random.default_rng(3)
    p = generator.dirichlet(np.full(3, 0.7), n_rows)
    labels = (p.cumsum(axis=1) > generator.random((n_rows, 1))).argmax(axis=1)
    weights = np.linspace(0.5, 2, n_rows) if weighted else None
    return LabelledPredictions.parse(p, labels, weights), generator.integers(0, N_PARTS, n_rows)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", streaming_metrics())
def test_the_standard_error_is_that_of_values_without_each_part(name, weighted):
    metric = getattr(metrics, name)
    if "strategy" in options_of(metric):
        metric = partial(metric, strategy="uniform")
    data, part = rows(weighted=weighted)
    sums = JackknifeSums([metric], N_PARTS)
    for batch in (slice(0, 1), slice(1, 150), slice(150, None)):
        sums.update(data.take(batch), part[batch])

    def value(chosen):
        return metric(chosen.labels, chosen.predictions, sample_weight=chosen.weights)

    (found,) = sums.results()
    without = np.array([value(data.take(part != one)) for one in range(N_PARTS)])
    expected = np.sqrt((N_PARTS - 1) / N_PARTS * ((without - without.mean()) ** 2).sum())
    assert found.value == pytest.approx(value(data), rel=1e-12)
    assert found.standard_error == pytest.approx(expected, rel=1e-9)


def test_sums_of_machines_add_up_and_can_be_pickled():
    data, part = rows()
    names = ["log_loss", "classwise_ece"]
    whole = JackknifeSums(names, N_PARTS).update(data, part)
    halves = [
        pickle.loads(pickle.dumps(JackknifeSums(names, N_PARTS).update(data.take(half), part[half])))
        for half in (slice(0, 80), slice(80, None))
    ]
    both = halves[1] + halves[0]
    assert both.n_rows == whole.n_rows == 200
    for one, other in zip(both.results(), whole.results(), strict=True):
        assert one[:2] == pytest.approx(other[:2], rel=1e-12)
        assert one[2:] == other[2:]
    with pytest.raises(ParameterError, match="only sums of the same metrics and parts"):
        _ = whole + JackknifeSums(names, 3)


def test_errors_that_are_positive_by_noise_have_no_interval():
    data, part = rows()
    binned, debiased = (
        JackknifeSums(
            [metrics.confidence_ece, partial(metrics.debiased_ece, strategy="uniform", signed=True)], N_PARTS
        )
        .update(data, part)
        .results()
    )
    assert np.isnan(binned.interval()).all()
    assert not binned.has_interval
    assert debiased.interval()[0] < debiased.value < debiased.interval()[1]


def test_one_part_and_infinite_values_have_no_interval():
    data, part = rows()
    (found,) = JackknifeSums(["accuracy"], N_PARTS).update(data, np.zeros_like(part)).results()
    assert np.isnan(found.standard_error)
    assert np.isnan(found.interval()).all()
    refuted = LabelledPredictions.parse([[1.0, 0.0], [0.5, 0.5]], [1, 0])
    (found,) = JackknifeSums(["log_loss"], 2).update(refuted, np.arange(2)).results()
    assert found.value == np.inf
    assert np.isnan(found.standard_error)


def test_without_rows_or_with_a_metric_of_all_rows_it_says_so():
    with pytest.raises(ParameterError, match="no rows yet"):
        JackknifeSums(["accuracy"]).results()
    with pytest.raises(ParameterError, match="needs all rows at once"):
        JackknifeSums(["kde_ece"])

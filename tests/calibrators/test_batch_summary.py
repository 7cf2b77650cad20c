"""What a calibrator keeps of earlier batches: its size and its error."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from calibrant import HistogramBinning, IsotonicCalibration, PlattScaling, TemperatureScaling, registry
from calibrant.batches import ROWS_AT_HAND


def rows(n_rows, slope=0.5, n_classes=3, seed=0):
    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 3, (n_rows, n_classes))
    labels = (slope * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), labels


def learnt(calibrator, n_rows, step=500):
    p, y = rows(n_rows)
    for start in range(0, n_rows, step):
        calibrator.partial_fit(p[start : start + step], y[start : start + step])
    return calibrator


@pytest.mark.parametrize("name", ["temperature", "vector", "platt", "matrix-l2"])
def test_few_rows_are_kept_and_lose_nothing(name):
    summary = learnt(registry.make(name), 500).batch_summary()
    assert (summary.n_rows, summary.n_kept_rows, summary.error, summary.sampling_error) == (500, 500, 0, 0)
    assert summary.n_bytes >= 500 * 3 * 8


@pytest.mark.parametrize("name", ["temperature", "vector", "platt", "matrix-l2"])
def test_size_stays_and_the_error_is_within_sampling_error(name):
    shorter, longer = (learnt(registry.make(name), n_rows).batch_summary() for n_rows in (3000, 9000))
    assert (shorter.n_rows, longer.n_rows) == (3000, 9000)
    assert longer.n_kept_rows <= ROWS_AT_HAND
    assert longer.n_bytes < 1.6 * shorter.n_bytes
    for summary in (shorter, longer):
        assert summary.error < summary.sampling_error < 0.2
        assert summary.error > -1e-3


def test_the_error_is_the_excess_of_the_log_loss_on_the_kept_sample():
    """A temperature that is set to a wrong value costs what it costs on the sample."""
    calibrator = learnt(TemperatureScaling(), 5000)
    before = calibrator.batch_summary()
    sample = calibrator.memory_["sample"]
    calibrator.inverse_temperature_ *= 3.0
    p, y = sample["scores"], sample["labels"]
    own = calibrator.predict_proba(p)[np.arange(len(y)), y]
    refitted = TemperatureScaling().fit(p, y, sample["weights"]).predict_proba(p)[np.arange(len(y)), y]
    expected = np.average(np.log(refitted) - np.log(own), weights=sample["weights"])
    after = calibrator.batch_summary()
    assert after.error == pytest.approx(expected, rel=1e-6)
    assert after.error > after.sampling_error > before.error


def test_a_half_life_counts_fewer_rows():
    p, y = rows(4000)
    calibrator = PlattScaling()
    for start in range(0, 4000, 500):
        calibrator.partial_fit(p[start : start + 500], y[start : start + 500], half_life=500)
    assert calibrator.batch_summary().n_rows == pytest.approx(500 * (2 - 2.0**-7))


def test_parts_of_all_classes_count():
    of_two = learnt(PlattScaling(), 3000).batch_summary().n_bytes
    own = learnt(PlattScaling(), 3000).one_vs_rest_.calibrators_[0].memory_["hessian"].nbytes
    assert of_two > 3 * own


def test_sums_of_bins_have_nothing_to_compare_with():
    summary = learnt(HistogramBinning(n_bins=10), 3000).batch_summary()
    assert summary.n_rows == 3000
    assert np.isnan(summary.error)


def test_without_batches_there_is_no_summary():
    with pytest.raises(NotFittedError, match="call partial_fit before batch_summary"):
        TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1]).batch_summary()
    assert not hasattr(IsotonicCalibration(), "batch_summary")

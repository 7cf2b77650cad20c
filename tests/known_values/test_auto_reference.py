"""AutoCalibration against the best figures of others on the networks of the reference split."""

import pytest
from reference_split import halves_of

from calibrant import AutoCalibration
from calibrant.metrics import log_loss


def test_it_beats_the_best_peer_on_a_network_of_ten_classes():
    """Structured matrix scaling reaches 0.2272 there, temperature scaling 0.2603."""
    rows = halves_of("c10_wideresnet_16_4")
    fitted = AutoCalibration().fit(rows.calibration, rows.labels)
    assert log_loss(rows.test_labels, fitted.transform(rows.test)) <= 0.2272


@pytest.mark.slow
def test_it_beats_the_best_peer_on_a_network_of_a_hundred_classes():
    """Structured matrix scaling reaches 0.9398 there, an order-preserving network 0.9136."""
    rows = halves_of("c100_wideresnet_16_4")
    fitted = AutoCalibration().fit(rows.calibration, rows.labels)
    assert log_loss(rows.test_labels, fitted.transform(rows.test)) <= 0.9136

"""The same numbers as other libraries give, or the reason why not.

Figures marked with a version were printed by that version for the test rows of c10_resnet110, whose softmax was taken
in float64. Where the library is installed, it is asked again. Other files have the peers of their own estimators:
relplot (smooth ECE), uncertainty-calibration (debiased), Mix-n-Match (KDE), model-diagnostics (CORP), MAPIE
(cumulative), statsmodels (slope and intercept, Hosmer-Lemeshow), scikit-posthocs (ranks).
"""

import numpy as np
import pytest
import sklearn.metrics
from scipy.special import softmax
from sklearn.calibration import calibration_curve

from calibrant.binning import FixedEdges
from calibrant.metrics import (
    accuracy,
    brier_score,
    class_ece,
    confidence_ece,
    log_loss,
    maximum_calibration_error,
)
from data import load

FIFTEEN_AND_ONE_FOR_CERTAINTY = FixedEdges((*np.linspace(0, 1, 16), 1.0))


@pytest.fixture(scope="module")
def rows():
    arrays = load("kull_nn/c10_resnet110")
    return arrays["test_y"].astype(np.intp), softmax(arrays["test_logits"].astype(np.float64), axis=1)


def made_rows(n_classes=4, n_rows=500):
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.full(n_classes, 0.5), n_rows)
    return generator.integers(0, n_classes, n_rows), p, generator.random(n_rows) + 0.1


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_of_scikit_learn(n_classes, weighted):
    y, p, w = made_rows(n_classes)
    options = {"sample_weight": w if weighted else None}
    assert accuracy(y, p, **options) == pytest.approx(
        sklearn.metrics.accuracy_score(y, p.argmax(axis=1), **options), rel=1e-12
    )
    assert log_loss(y, p, **options) == pytest.approx(sklearn.metrics.log_loss(y, p, **options), rel=1e-12)
    positive = p[:, 1] if n_classes == 2 else p
    assert brier_score(y, p, **options) == pytest.approx(
        sklearn.metrics.brier_score_loss(y, positive, **options), rel=1e-12
    )


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_the_curve_of_scikit_learn_weighted_by_counts(strategy):
    """Its quantile edges are interpolated, but no score lies between them and ours."""
    y, p, _ = made_rows(2)
    observed, predicted = calibration_curve(y, p[:, 1], n_bins=5, strategy=strategy)
    edges = np.linspace(0, 1, 6) if strategy == "uniform" else np.quantile(p[:, 1], np.linspace(0, 1, 6))
    counts = np.histogram(p[:, 1], edges)[0]
    expected = np.abs(observed - predicted) @ counts / len(y)
    assert class_ece(y, p, label=1, n_bins=5, strategy=strategy) == pytest.approx(expected, rel=1e-12)


# netcal 1.4.0


@pytest.mark.parametrize("n_bins", [10, 15])
def test_expected_error_of_netcal(rows, n_bins):
    printed = {10: 0.047503508320217824, 15: 0.04750350832021839}[n_bins]
    assert confidence_ece(*rows, n_bins=n_bins) == pytest.approx(printed, rel=1e-12)
    if netcal := _installed("netcal.metrics"):
        assert netcal.ECE(n_bins).measure(rows[1], rows[0]) == pytest.approx(printed, rel=1e-12)


def test_maximum_error_of_netcal(rows):
    assert maximum_calibration_error(*rows) == pytest.approx(0.29579918215560375, rel=1e-12)


def test_binary_error_of_netcal_and_torchmetrics(rows):
    """Both print 0.0207324382910 for the fourth class against the rest; torchmetrics in float32."""
    y, p = rows
    assert class_ece(y == 3, p[:, 3], label=True) == pytest.approx(0.02073243829104196, rel=1e-9)


# torchmetrics 1.9.0


@pytest.mark.parametrize(
    ("norm", "printed"), [(1, 0.04750815033912659), (2, 0.06908149272203445), ("max", 0.295799195766449)]
)
def test_errors_of_torchmetrics_have_a_hidden_bin(rows, norm, printed):
    """It rounds confidences to float32, where 2,182 of them are 1.0, and these have a bin of their own.

    It also adds up in float32, hence the tolerance. With norm 2 the extra bin matters: 0.0691 instead of 0.0665.
    """
    y, p = rows[0], rows[1].astype(np.float32)
    assert np.count_nonzero(p.max(axis=1) == 1) == 2182
    hidden = confidence_ece(y, p, norm=norm, binning=FIFTEEN_AND_ONE_FOR_CERTAINTY)
    assert hidden == pytest.approx(printed, rel=2e-4)
    if norm == 2:
        assert confidence_ece(y, p, norm=norm) == pytest.approx(0.0665, abs=1e-4)
    torchmetrics = _installed("torchmetrics.functional.classification")
    if torchmetrics:
        import torch

        name = {1: "l1", 2: "l2", "max": "max"}[norm]
        value = torchmetrics.multiclass_calibration_error(
            torch.tensor(p), torch.tensor(y), num_classes=10, n_bins=15, norm=name
        )
        assert float(value) == pytest.approx(printed, rel=1e-6)


def _installed(module):
    """Return an optional module, or None; its own warnings are not ours."""
    import importlib
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(module)
        except ImportError:
            return None

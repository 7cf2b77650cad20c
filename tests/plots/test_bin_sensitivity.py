"""A calibration error for many numbers of bins, against the metrics and closed forms of the noise."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from calibrant.errors import ParameterError
from calibrant.metrics import class_ece, classwise_ece, confidence_ece, debiased_ece
from calibrant.plots import bin_sensitivity


def rows(n_rows: int = 600, n_classes: int = 3):
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.full(n_classes, 0.5), n_rows)
    y = np.array([generator.choice(n_classes, p=row) for row in p])
    return y, p, generator.gamma(2, size=n_rows)


@pytest.mark.parametrize("metric", ["confidence", "classwise"])
@pytest.mark.parametrize("weighted", [False, True])
def test_errors_are_those_of_the_metrics(metric, weighted):
    y, p, weights = rows()
    weights = weights if weighted else None
    found = bin_sensitivity(y, p, sample_weight=weights, metric=metric, n_bins=(20, 5), n_resamples=3)
    assert found.n_bins.tolist() == [5, 20]
    ece = confidence_ece if metric == "confidence" else classwise_ece
    for place, number in enumerate((5, 20)):
        options = {"sample_weight": weights, "n_bins": number}
        assert found.equal_width[place] == pytest.approx(ece(y, p, **options))
        assert found.equal_mass[place] == pytest.approx(ece(y, p, strategy="quantile", **options))
        assert found.debiased[place] == pytest.approx(debiased_ece(y, p, kind=metric, norm=1, **options))


def test_the_second_class_of_two():
    y, p, _ = rows(n_classes=2)
    names = np.array(["no", "yes"])[y]
    found = bin_sensitivity(names, p, metric="positive", n_bins=(7,), n_resamples=3)
    assert found.equal_width[0] == pytest.approx(class_ece(names, p, label="yes", n_bins=7))


def test_the_noise_of_one_bin_is_the_mean_deviation_of_a_binomial_number():
    """E |X/n - p| for X of 50 trials at 0.7, up to the noise of 4,000 draws; its 95 % quantile likewise."""
    found = bin_sensitivity([0] * 50, [[0.7, 0.3]] * 50, n_bins=(1,), n_resamples=4000)
    numbers = np.arange(51)
    gaps, mass = np.abs(numbers / 50 - 0.7), stats.binom.pmf(numbers, 50, 0.7)
    assert found.noise[0] == pytest.approx(mass @ gaps, rel=0.05)
    order = np.argsort(gaps)
    quantile = gaps[order][np.searchsorted(np.cumsum(mass[order]), 0.95)]
    assert found.noise_high[0] == pytest.approx(quantile, abs=0.021)


@pytest.mark.parametrize("metric", ["confidence", "classwise"])
@pytest.mark.parametrize("weighted", [False, True])
def test_normal_draws_for_very_many_rows_agree_with_labels_drawn(metric, weighted, monkeypatch):
    """With 3,000 rows in up to 20 bins both ways must give the same to a few per cent."""
    y, p, weights = rows(3000)
    options = {"sample_weight": weights if weighted else None, "metric": metric, "n_bins": (1, 5, 20)}
    drawn = bin_sensitivity(y, p, n_resamples=600, **options)
    monkeypatch.setattr(sys.modules[bin_sensitivity.__module__], "MAX_DRAWS", 0)
    normal = bin_sensitivity(y, p, n_resamples=600, **options)
    assert_allclose(normal.noise, drawn.noise, rtol=0.08)
    assert_allclose(normal.noise_high, drawn.noise_high, rtol=0.15)


def test_calibrated_rows_have_errors_like_the_noise_and_others_more():
    y, p, _ = rows(2000)
    found = bin_sensitivity(y, p)
    assert (found.equal_width < 1.3 * found.noise_high).all()
    sharper = p**3 / (p**3).sum(axis=1, keepdims=True)
    assert (bin_sensitivity(y, sharper).equal_width > found.noise_high).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_bins": ()}, "n_bins must be"),
        ({"n_bins": (5, 0)}, "n_bins must be"),
        ({"n_bins": "many"}, "n_bins must be"),
        ({"metric": "positive"}, "two classes"),
        ({"metric": "ece"}, "metric must be"),
        ({"n_resamples": 0}, "n_resamples"),
    ],
)
def test_options_that_mean_nothing_for_bins_are_refused(options, words):
    y, p, _ = rows(10)
    with pytest.raises(ParameterError, match=words):
        bin_sensitivity(y, p, **options)


@pytest.mark.slow
def test_a_million_rows_take_no_label_draws():
    generator = np.random.default_rng(0)
    p = generator.random(1_000_000)
    y = (generator.random(1_000_000) < p).astype(int)
    found = bin_sensitivity(y, p)
    assert (found.noise < found.noise_high).all()
    assert (np.diff(found.noise) > 0).all()

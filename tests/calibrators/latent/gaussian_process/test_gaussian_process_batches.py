"""Gaussian process calibration batch by batch: the posterior of all rows for the same kernel, at a constant cost."""

from copy import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax
from sklearn.base import clone

from calibrant import GaussianProcessCalibration, load
from calibrant.calibrators.latent.gaussian_process.increasing import update_monotone_process
from calibrant.calibrators.latent.gaussian_process.process_summary import ProcessSummary
from calibrant.calibrators.latent.gaussian_process.variational import SpreadRows
from calibrant.calibrators.quadratic_summary import QuadraticLoss
from calibrant.labelled_predictions import LabelledPredictions
from data import load as load_data

BATCH = 500


def bent_rows(n_rows, n_classes=3, seed=0):
    generator = np.random.default_rng(seed)
    z = generator.normal(0, 2, (n_rows, n_classes))
    u = 0.6 * z + 0.05 * z**2
    return softmax(z, axis=1), (u + generator.gumbel(size=u.shape)).argmax(axis=1)


def network_rows(name, n_rows):
    data = load_data(f"cifar_netcal/{name}")
    order = np.random.default_rng(0).permutation(len(data["y"]))[:n_rows]
    return data["probs"][order].astype(np.float64), data["y"][order]


def in_batches(method, p, y, first=1250, **options):
    fitted = clone(method).partial_fit(p[:first], y[:first], **options)
    for start in range(first, len(y), BATCH):
        rows = slice(start, start + BATCH)
        fitted.partial_fit(p[rows], y[rows], **options)
    return fitted


def of_all_rows(fitted, p, y):
    """Return a copy whose posterior is that of these rows at once, for the kernel and the inducing points of a fit."""
    sample = LabelledPredictions.parse(p, y)
    same = copy(fitted)
    same.memory_ = fitted.memory_ | {"process": zero(fitted.memory_["process"])}
    m = len(fitted.inducing_mean_)
    same.memory_ |= {"information": np.zeros((m, m)), "averaged": np.zeros((m, m)), "total_weight": 0.0}
    if "slopes" in fitted.memory_:
        same.memory_ |= {"slopes": zero(fitted.memory_["slopes"])}
    ProcessSummary().update(same, sample, 1.0, float(len(y)))
    return same


def zero(memory):
    return QuadraticLoss.from_memory(memory).faded(0.0).memory(0.0)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_one_batch_after_the_prior_is_a_fit(covariance):
    """A fit is the posterior for its own kernel: the same mean, deviations and bound."""
    p, y = bent_rows(1500)
    fitted = GaussianProcessCalibration(covariance=covariance).partial_fit(p, y)
    again = of_all_rows(fitted, p, y)
    assert_allclose(again.predict_proba(p), fitted.predict_proba(p), atol=1e-5)
    assert again.elbo_ == pytest.approx(fitted.elbo_, abs=1e-3)
    places = np.linspace(-4, -0.2, 9)
    for one, other in zip(again.latent(places, -1.0), fitted.latent(places, -1.0), strict=True):
        assert_allclose(one, other, rtol=1e-3, atol=1e-3)


FULL, DIAGONAL = GaussianProcessCalibration(), GaussianProcessCalibration(covariance="diagonal")
MONOTONE = GaussianProcessCalibration(monotone=True)


@pytest.mark.parametrize(
    ("method", "rows"),
    [
        pytest.param(FULL, lambda: bent_rows(3250), id="3 classes"),
        pytest.param(DIAGONAL, lambda: bent_rows(3250), id="diagonal"),
        pytest.param(MONOTONE, lambda: bent_rows(3250), id="monotone"),
        pytest.param(FULL, lambda: bent_rows(8250, 2), id="2 classes", marks=pytest.mark.slow),
        pytest.param(FULL, lambda: bent_rows(8250, 10), id="10 classes", marks=pytest.mark.slow),
        pytest.param(
            FULL, lambda: network_rows("c10_wideresnet_16_4", 8250), id="wide", marks=pytest.mark.slow
        ),
        pytest.param(FULL, lambda: network_rows("c10_lenet_5", 8250), id="LeNet", marks=pytest.mark.slow),
    ],
)
def test_batches_lead_to_the_posterior_of_all_rows(method, rows):
    """For the same kernel, the log-odds differ by at most a third of their posterior deviation, the bound by a nat."""
    p, y = rows()
    batches = in_batches(method, p, y)
    assert "process" in batches.memory_
    whole = of_all_rows(batches, p, y)
    places = np.linspace(-6, -0.05, 30)
    mean, deviation = whole.latent(places, reference=-0.5)
    assert (np.abs(batches.latent(places, reference=-0.5).mean - mean) < deviation / 3).all()
    assert_allclose(batches.latent(places, reference=-0.5).standard_deviation, deviation, rtol=0.3)
    assert batches.elbo_ == pytest.approx(whole.elbo_, abs=1.0)


@pytest.mark.parametrize("monotone", [False, True])
def test_a_batch_costs_the_same_however_many_rows_came_before(monotone, monkeypatch):
    """Rows over which anything is summed in one call: those of the batch, and of a sample of at most 1,000 rows."""
    touched = []
    made = SpreadRows.__init__

    def counted(self, places, *args):
        touched.append(len(places))
        made(self, places, *args)

    monkeypatch.setattr(SpreadRows, "__init__", counted)
    p, y = bent_rows(4250)
    fitted = GaussianProcessCalibration(monotone=monotone).partial_fit(p[:1250], y[:1250])
    sizes = []
    for start in range(1250, 4250, BATCH):
        touched.clear()
        fitted.partial_fit(p[start : start + BATCH], y[start : start + BATCH])
        sizes.append(sum(touched))
        assert max(touched) <= max(BATCH, 1000)
        assert fitted.batch_summary().n_kept_rows <= 1000
    assert max(sizes[1:]) <= BATCH + 2 * 1000
    assert len(set(sizes[2::2])) == 1 or max(sizes[2::2]) < 1.2 * min(sizes[2::2])


def test_the_state_stays_small_and_survives_a_file(tmp_path):
    p, y = bent_rows(3250)
    fitted = in_batches(GaussianProcessCalibration(monotone=True), p[:2250], y[:2250])
    fitted.save(tmp_path / "gp.npz")
    loaded = load(tmp_path / "gp.npz")
    for each in (fitted, loaded):
        each.partial_fit(p[2250:], y[2250:])
    assert_allclose(loaded.predict_proba(p), fitted.predict_proba(p), rtol=0, atol=0)
    assert loaded.batch_summary().n_bytes == fitted.batch_summary().n_bytes < 100_000


def test_half_lives_bound_the_information_and_follow_a_drift():
    """With a half-life of 500 rows in batches of 500, earlier rows count 500 (1/2 + 1/4 + ...) = 500 at most."""
    p, y = bent_rows(4250)
    kept = in_batches(GaussianProcessCalibration(), p, y)
    faded = in_batches(GaussianProcessCalibration(), p, y, half_life=500)
    assert faded.batch_summary().n_rows == pytest.approx(1000, rel=0.01)
    deviations = [each.latent(-3.0, reference=-0.5).standard_deviation for each in (kept, faded)]
    assert deviations[1] == pytest.approx(np.sqrt(4.25) * deviations[0], rel=0.35)


def test_a_kernel_that_later_rows_contradict_is_fitted_again():
    """The first rows are calibrated, so that the function is straight; later ones need a wave."""
    generator = np.random.default_rng(0)
    p = softmax(generator.normal(0, 2, (4500, 3)), axis=1)
    t = np.log(p)
    u = np.where(np.arange(4500)[:, np.newaxis] < 1500, t, t + 2 * np.sin(2 * t))
    y = (u + generator.gumbel(size=u.shape)).argmax(axis=1)
    fitted = in_batches(GaussianProcessCalibration(), p[:1500], y[:1500])
    before = fitted.length_scale_
    for start in range(1500, 4500, BATCH):
        fitted.partial_fit(p[start : start + BATCH], y[start : start + BATCH], half_life=800)
    assert fitted.length_scale_ < 0.7 * before
    last = slice(3500, None)
    whole = GaussianProcessCalibration().fit(p[last], y[last])
    losses = [
        -np.log(each.predict_proba(p[last])[np.arange(1000), y[last]]).mean() for each in (fitted, whole)
    ]
    assert losses[0] < losses[1] + 0.02


def test_increasing_functions_stay_increasing():
    p, y = bent_rows(2250)
    fitted = in_batches(GaussianProcessCalibration(monotone=True), p, y)
    assert (fitted.slopes_ > 0).all()
    assert (np.argsort(fitted.predict_proba(p), axis=1) == np.argsort(p, axis=1)).all()
    process = fitted._increasing_process()
    nothing = QuadraticLoss(np.ones(40), 0.0, np.zeros(40), np.zeros((40, 40)), 0.0)
    at_once = update_monotone_process(
        process,
        nothing,
        np.log(p),
        y,
        np.ones(len(y)),
        variance=fitted.kernel_variance_,
        length_scale=fitted.length_scale_,
    )
    assert_allclose(fitted.slopes_, at_once.slopes, atol=0.05)

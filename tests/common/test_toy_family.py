"""A method that states its family and nothing else has fits, batches, intervals, files, plots and row sources."""

from pathlib import Path

import numpy as np
import pytest
from methods import TOYS
from toy_family import ToyEntropyTemperature

from calibrant import Predictions, TemperatureScaling, WithIntervals, load
from calibrant.objective import RowSource
from calibrant.plots import LatentFunctionDisplay


def rows(n_rows=3000, slopes=(0.9, -0.5), n_classes=4, seed=0):
    """Logits, and labels drawn from a member of the family."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(0.0, 2.0, (n_rows, n_classes))
    family = ToyEntropyTemperature().family(n_classes)
    scores = family.scores(np.array(slopes), Predictions.from_logits(logits))
    return logits, (scores + generator.gumbel(size=scores.shape)).argmax(axis=1)


def test_it_is_written_in_about_thirty_lines():
    source = Path(__file__).with_name("toy_family.py").read_text()
    lines = [line for line in source.splitlines() if line.strip() and '"""' not in line]
    assert len(lines) <= 35


def test_the_fit_finds_the_truth_and_the_optimum():
    logits, labels = rows(200_000)
    source = RowSource.from_arrays(logits, labels, space="logits")
    fitted = ToyEntropyTemperature().fit(Predictions.from_logits(logits), labels)
    without = fitted.family(4).without_penalty()
    found = fitted._solved(without, source.features(without.features))
    assert found.theta == pytest.approx([0.9, -0.5], abs=0.02)
    objective = fitted.family(4).objective(source.features(fitted.family(4).features))
    assert np.abs(objective.second_order(fitted.solution_.theta).gradient).max() < 1e-7


def test_batches_lead_to_the_fit_of_all_rows():
    logits, labels = rows(20_000)
    whole = ToyEntropyTemperature().fit(Predictions.from_logits(logits), labels)
    batches = ToyEntropyTemperature()
    for part in np.array_split(np.arange(20_000), 20):
        batches.partial_fit(Predictions.from_logits(logits[part]), labels[part])
    assert "hessian" in batches.memory_
    # A tenth of a standard error: the expansion around early estimates loses its third order.
    standard_errors = np.sqrt(np.diag(np.linalg.inv(batches.memory_["hessian"])))
    assert (np.abs(batches.solution_.theta - whole.solution_.theta) < 0.1 * standard_errors).all()


def test_intervals_are_those_of_the_curvature():
    """For two classes the log-odds are linear in theta, so their variance is x' H^-1 x."""
    logits, labels = rows(2000, n_classes=2)
    given = Predictions.from_logits(logits)
    fitted = WithIntervals(ToyEntropyTemperature(), "laplace", covariance="model").fit(given, labels)
    assert fitted.method_ == "laplace"
    family, theta = fitted.calibrator_.family(2), fitted.calibrator_.solution_.theta
    source = RowSource.from_arrays(logits, labels, space="logits").features(family.features)
    hessian = family.objective(source).second_order(theta).hessian * 2000
    columns = np.stack([np.diff(family.map.forward(unit, logits[:5]), axis=1)[:, 0] for unit in np.eye(2)])
    deviations = np.sqrt(np.einsum("pi,pq,qi->i", columns, np.linalg.inv(hessian), columns))
    low, high = fitted.predict_interval(Predictions.from_logits(logits[:5]))
    reach = (np.log(high / (1 - high)) - np.log(low / (1 - low)))[:, 1] / 2
    assert reach == pytest.approx(1.959964 * deviations, rel=1e-5)


def test_files_hold_it(tmp_path):
    logits, labels = rows()
    fitted = ToyEntropyTemperature().fit(Predictions.from_logits(logits), labels)
    fitted.save(tmp_path / "toy.npz")
    given = Predictions.from_logits(logits[:50])
    assert np.array_equal(load(tmp_path / "toy.npz").predict_proba(given), fitted.predict_proba(given))


def test_the_latent_function_is_drawn():
    logits, labels = rows()
    given = Predictions.from_logits(logits)
    toy = ToyEntropyTemperature().fit(given, labels)
    toy.solution_.theta[:] = 0.5, 0.0  # a plain temperature of two
    display = LatentFunctionDisplay.from_estimator(toy, given, scores="logits")
    slopes = np.diff(display.functions[0].values) / np.diff(display.scores)
    assert slopes == pytest.approx(0.5)


def test_a_family_of_one_slope_is_temperature_scaling():
    logits, labels = rows(slopes=(0.7, 0.0))
    given = Predictions.from_logits(logits)
    scaled = TemperatureScaling().fit(given, labels)
    toy = ToyEntropyTemperature().fit(given, labels)
    assert toy.solution_.value <= scaled.solution_.value
    assert toy.solution_.identity_loss == pytest.approx(scaled.solution_.identity_loss, rel=1e-12)


def test_the_common_tests_include_it():
    assert {"toy-entropy-temperature": ToyEntropyTemperature} == TOYS

"""Fits from batches and from memory maps equal the fit of the same rows in memory, for every family."""

import numpy as np
import pytest
from methods import NAMES, made, settled
from toy_family import EntropyTemperature

from calibrant import DirichletCalibration, Predictions, TemperatureScaling
from calibrant.errors import LabelError, MissingClassWarning, ParameterError, PredictionError
from calibrant.objective import RowSource, objective

PARAMETRIC = [name for name in NAMES if hasattr(made(name), "fit_rows")]


def rows(n_classes=4, n_rows=4200, dtype=np.float64):
    generator = np.random.default_rng(n_classes)
    logits = generator.normal(0.0, 2.0, (n_rows, n_classes)).astype(dtype)
    labels = (logits / 1.6 + generator.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, labels


def batches_of(X, y, weights=None, sizes=(1, 2999, 1200)):
    ends = np.cumsum(sizes)
    parts = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    assert ends[-1] == len(y)
    if weights is None:
        return [(X.take(part), y[part]) for part in parts]
    return [(X.take(part), y[part], weights[part]) for part in parts]


@pytest.mark.parametrize("name", PARAMETRIC)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_batches_equal_rows_in_memory(name, n_classes):
    logits, labels = rows(n_classes)
    given = Predictions.from_logits(logits)
    source = RowSource.from_batches(batches_of(given, labels))
    expected = settled(name).fit(given, labels).predict_proba(given)
    assert settled(name).fit_rows(source).predict_proba(given) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", PARAMETRIC)
def test_memory_maps_of_probabilities_with_zeros_and_weights(name, tmp_path):
    logits, labels = rows()
    probabilities = Predictions.from_logits(2 * logits).probabilities.copy()
    probabilities[probabilities < 1e-6] = 0.0
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    weights = np.random.default_rng(1).gamma(2.0, 1.0, len(labels))
    np.save(tmp_path / "p.npy", probabilities)
    mapped = np.load(tmp_path / "p.npy", mmap_mode="r")
    source = RowSource.from_arrays(mapped, labels, weights)
    expected = settled(name).fit(probabilities, labels, weights)
    fitted = settled(name).fit_rows(source)
    assert fitted.floor_ == expected.floor_
    assert fitted.predict_proba(probabilities) == pytest.approx(
        expected.predict_proba(probabilities), abs=1e-9
    )


@pytest.mark.parametrize("name", PARAMETRIC)
def test_a_class_without_rows(name):
    logits, labels = rows()
    labels[labels == 3] = 0
    given = Predictions.from_logits(logits)
    with pytest.warns(MissingClassWarning, match="class 3"):
        expected = settled(name).fit(given, labels).predict_proba(given)
    with pytest.warns(MissingClassWarning, match="class 3"):
        fitted = settled(name).fit_rows(RowSource.from_batches(batches_of(given, labels)))
    assert fitted.predict_proba(given) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["temperature", "shared-matrix", "beta"])
def test_the_partition_does_not_matter(name):
    logits, labels = rows()
    given = Predictions.from_logits(logits)
    sources = [
        RowSource.from_batches(batches_of(given, labels, sizes=sizes))
        for sizes in ([4200], [300] * 14, [4199, 1])
    ]
    first, *others = (settled(name).fit_rows(source).predict_proba(given) for source in sources)
    for other in others:
        assert other == pytest.approx(first, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [600_000])
def test_many_entries_use_a_sample_that_does_not_depend_on_the_partition(n_rows):
    """From two million entries on, knots and starts come from rows chosen by a hash of what they hold."""
    logits, labels = rows(8, n_rows)
    given = Predictions.from_logits(logits)
    expected = made("shared-map").fit(given, labels)
    parts = [(given.take(part), labels[part]) for part in np.array_split(np.arange(n_rows), 7)]
    fitted = made("shared-map").fit_rows(RowSource.from_batches(parts))
    assert fitted.knots_ == pytest.approx(expected.knots_, abs=1e-12)
    assert fitted.predict_proba(given.take(slice(100))) == pytest.approx(
        expected.predict_proba(given.take(slice(100))), abs=1e-9
    )


def test_names_of_classes():
    logits, labels = rows(3)
    names = np.array(["ant", "bee", "owl"])
    given = Predictions.from_logits(logits)
    source = RowSource.from_batches(batches_of(given, names[labels]), classes=names)
    assert TemperatureScaling().fit_rows(source).classes_.tolist() == ["ant", "bee", "owl"]
    with pytest.raises(LabelError, match="classes="):
        RowSource.from_batches(batches_of(given, names[labels]))


def test_a_search_of_strengths_needs_rows_in_memory():
    logits, labels = rows(3)
    source = RowSource.from_batches(batches_of(Predictions.from_logits(logits), labels))
    calibrator = DirichletCalibration()
    with pytest.raises(ParameterError, match="needs all rows in memory to choose reg_lambda"):
        calibrator.fit_rows(source)
    assert not hasattr(calibrator, "classes_")


def test_batches_that_can_be_read_once_are_refused():
    with pytest.raises(PredictionError, match="read only once"):
        RowSource.from_batches(iter([([[0.9, 0.1]], [0])]))


def test_batches_of_different_columns_are_refused():
    with pytest.raises(PredictionError, match="batch 1 has 3 columns"):
        RowSource.from_batches([([[0.9, 0.1]], [0]), ([[0.9, 0.05, 0.05]], [0])])


def test_rows_of_one_class_are_refused():
    source = RowSource.from_batches([([[0.9, 0.1]], [0])])
    with pytest.raises(LabelError, match="the only label is class 0"):
        EntropyTemperature().fit_rows(source)


def test_batches_that_are_shorter_than_the_steps_of_a_thinned_preconditioner(monkeypatch):
    """Of very many rows a preconditioner takes every n-th; a block with fewer rows than that gives one."""
    monkeypatch.setattr(objective, "CURVATURE_WORK", 1e5)
    logits, labels = rows()
    given = Predictions.from_logits(logits)
    source = RowSource.from_batches(batches_of(given, labels, sizes=(1, 4190, 2, 7)))
    expected = made("shared-matrix").fit(given, labels).predict_proba(given)
    assert made("shared-matrix").fit_rows(source).predict_proba(given) == pytest.approx(expected, abs=1e-4)

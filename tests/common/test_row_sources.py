"""Fits from batches and from memory maps equal the fit of the same rows in memory, for every family."""

from itertools import pairwise
from operator import attrgetter

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from methods import NAMES, made, settled
from sklearn.model_selection import ShuffleSplit, StratifiedKFold
from toy_family import ToyEntropyTemperature

from calibrant import MatrixScaling, Predictions, TemperatureScaling
from calibrant.calibrators.inner_folds import folds_of, rows_of_folds
from calibrant.errors import LabelError, MissingClassWarning, PredictionError, WeightError
from calibrant.labelled_predictions import LabelledPredictions
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


SEARCHED = ["matrix-odir", "matrix-l2", "dirichlet-odir", "dirichlet-l2"]


def weights_of(kind, n_rows):
    generator = np.random.default_rng(3)
    if kind == "counts":
        return generator.integers(1, 4, n_rows).astype(float)
    return generator.gamma(2.0, 1.0, n_rows) if kind == "amounts" else None


@pytest.mark.parametrize("name", SEARCHED)
@pytest.mark.parametrize("kind", ["none", "counts", "amounts"])
def test_strengths_are_chosen_by_the_same_folds(name, kind):
    """The search holds out the same rows, tries the same strengths and ends at the same maps."""
    logits, labels = rows(3, 600)
    given, weights = Predictions.from_logits(logits), weights_of(kind, 600)
    expected = made(name).fit(given, labels, weights)
    parts = batches_of(given, labels, weights, sizes=(1, 399, 200))
    fitted = made(name).fit_rows(RowSource.from_batches(parts))
    for column, values in expected.search_.items():
        assert fitted.search_[column] == pytest.approx(values, abs=1e-9), column
    assert fitted.fold_weights_ == pytest.approx(expected.fold_weights_, abs=1e-8)
    assert fitted.predict_proba(given) == pytest.approx(expected.predict_proba(given), abs=1e-9)


@pytest.mark.parametrize(
    "parameters",
    [
        {"reg_lambda": [0.01, 1.0], "reg_mu": None},
        {"reg_lambda": [0.01, 1.0], "reg_mu": [0.1, 1.0], "average_folds": False},
        {"reg_lambda": "auto", "reg_mu": 0.1, "cv": StratifiedKFold(3)},
        {"cv": ShuffleSplit(3, test_size=0.3, random_state=0)},
        {"cv": [(np.arange(300), np.arange(300, 600)), (np.arange(200, 600), np.arange(200))]},
    ],
    ids=["grid", "one-fit", "stratified", "shuffled", "splits"],
)
def test_grids_and_splitters_of_rows_that_are_not_in_memory(parameters, tmp_path):
    logits, labels = rows(3, 600)
    np.save(tmp_path / "z.npy", logits)
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    source = RowSource.from_arrays(mapped, labels, space="logits")
    given = Predictions.from_logits(logits)
    expected = MatrixScaling(**parameters).fit(given, labels)
    fitted = MatrixScaling(**parameters).fit_rows(source)
    assert (fitted.reg_lambda_, fitted.reg_mu_) == pytest.approx((expected.reg_lambda_, expected.reg_mu_))
    assert fitted.predict_proba(given) == pytest.approx(expected.predict_proba(given), abs=1e-9)


@hypothesis.given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["none", "counts", "amounts"]),
    ends=st.sets(st.integers(1, 59), max_size=5),
    n_levels=st.sampled_from([3, 20, 10_000]),
)
def test_folds_do_not_depend_on_the_partition(seed, kind, ends, n_levels):
    """Coarse scores have many equal rows; every fold holds out the same rows, with the same weights."""
    generator = np.random.default_rng(seed)
    scores = np.floor(n_levels * generator.dirichlet(np.ones(3), 60)) / n_levels
    scores[:, 0] += 1 - scores.sum(axis=1)
    labels, weights = generator.integers(0, 3, 60), weights_of(kind, 60)
    labels[:3] = np.arange(3)
    edges = [0, *sorted(ends), 60]
    parts = [
        (scores[a:b], labels[a:b]) if weights is None else (scores[a:b], labels[a:b], weights[a:b])
        for a, b in pairwise(edges)
    ]
    source = RowSource.from_batches(parts)
    data = LabelledPredictions.parse(scores, labels, weights)
    scores_of = attrgetter("scores")
    expected = folds_of(5, data)
    streamed = rows_of_folds(5, source, source.features(scores_of))
    for fold, (train, test) in zip(expected, streamed, strict=True):
        for rows_of_fold, place, own in (
            (train, fold.train_rows, fold.train_weights),
            (test, fold.test_rows, fold.test_weights),
        ):
            assert rows_of_fold.n_rows == len(place)
            found = [(batch.features, batch.labels, batch.weights) for batch in rows_of_fold._read()]
            features, of_rows, of_weights = zip(*found, strict=True)
            np.testing.assert_array_equal(np.vstack(features), scores[place])
            np.testing.assert_array_equal(np.concatenate(of_rows), labels[place])
            if own is not None:
                np.testing.assert_array_equal(np.concatenate(of_weights), own)


@pytest.mark.parametrize("name", ["temperature", "vector", "beta"])
@pytest.mark.parametrize("extreme", [1e16, 1e-16, 1e300])
def test_bounds_of_weights_are_those_of_all_rows(name, extreme):
    """The smallest weight that counts is relative to the largest of all batches, not to that of its own batch."""
    logits, labels = rows(3, 600)
    weights = np.ones(600)
    weights[400:] = extreme
    given = Predictions.from_logits(logits)
    source = RowSource.from_batches(batches_of(given, labels, weights, sizes=(1, 199, 100, 100, 200)))
    data = LabelledPredictions.parse(given, labels, weights)
    assert source.class_weights == pytest.approx(data.class_weights, rel=1e-14)
    read = np.concatenate([batch.weights for batch in source.batches()])
    np.testing.assert_array_equal(read, data.weights)
    expected = made(name).fit(given, labels, weights).predict_proba(given)
    assert made(name).fit_rows(source).predict_proba(given) == pytest.approx(expected, abs=1e-9)


def test_weights_that_only_together_are_too_large_to_be_added_up():
    batch = [[0.9, 0.1], [0.2, 0.8]], [0, 1], [8e307, 8e307]
    with pytest.raises(WeightError, match="too large to be added up"):
        RowSource.from_batches([batch] * 3)


def test_batches_in_which_no_row_counts_are_passed_over(tmp_path):
    """Weights that are all zero, or labels that are all to be ignored: the same rows in one batch are no error either."""
    logits, labels = rows(3, 600)
    weights = np.ones(600)
    weights[:200] = 0
    given = Predictions.from_logits(logits)
    expected = made("vector").fit(given, labels, weights).predict_proba(given)
    parts = batches_of(given, labels, weights, sizes=(150, 100, 350))
    np.save(tmp_path / "z.npy", logits)
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    few_at_a_time = RowSource.from_arrays(mapped, labels, weights, space="logits")
    for source in (RowSource.from_batches(parts), few_at_a_time):
        assert made("vector").fit_rows(source).predict_proba(given) == pytest.approx(expected, abs=1e-9)
    ignored = np.where(weights > 0, labels, -100)
    given = Predictions.from_logits(logits, ignore_label=-100)
    parts = batches_of(given, ignored, sizes=(150, 100, 350))
    found = (
        made("vector").fit_rows(RowSource.from_batches(parts)).predict_proba(Predictions.from_logits(logits))
    )
    assert found == pytest.approx(expected, abs=1e-9)


def test_batches_of_which_none_counts_are_refused():
    with pytest.raises(PredictionError, match="no batches with rows that count"):
        RowSource.from_batches([([[0.9, 0.1]], [0], [0.0])])


def test_batches_that_can_be_read_once_are_refused():
    with pytest.raises(PredictionError, match="read only once"):
        RowSource.from_batches(iter([([[0.9, 0.1]], [0])]))


def test_batches_of_different_columns_are_refused():
    with pytest.raises(PredictionError, match="batch 1 has 3 columns"):
        RowSource.from_batches([([[0.9, 0.1]], [0]), ([[0.9, 0.05, 0.05]], [0])])


def test_rows_of_one_class_are_refused():
    source = RowSource.from_batches([([[0.9, 0.1]], [0])])
    with pytest.raises(LabelError, match="the only label is class 0"):
        ToyEntropyTemperature().fit_rows(source)


@pytest.mark.parametrize("work", [1e6, 1e5])
def test_a_thinned_preconditioner_does_not_depend_on_the_partition(work, monkeypatch):
    """Of very many rows a preconditioner takes every n-th of all, so that some batches and blocks give it none.

    The bound holds where the preconditioner is of use. From a single row (work of 1e3) the solver takes hundreds of steps,
    and the rounding of sums in another grouping grows to 2e-6.
    """
    monkeypatch.setattr(objective, "CURVATURE_WORK", work)
    logits, labels = rows()
    given = Predictions.from_logits(logits)
    source = RowSource.from_batches(batches_of(given, labels, sizes=(1, 4190, 2, 7)))
    for name in ("shared-matrix", "shared-vector"):
        expected = settled(name).fit(given, labels).predict_proba(given)
        found = settled(name).fit_rows(source).predict_proba(given)
        assert found == pytest.approx(expected, abs=1e-9)

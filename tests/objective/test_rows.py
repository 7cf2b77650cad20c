"""Rows that are read again for every pass give what the same rows in memory give, whatever the partition."""

from itertools import pairwise
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from calibrant import Predictions
from calibrant.errors import LabelError, PredictionError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics import row_blocks
from calibrant.objective import (
    ArrayRows,
    ArraySource,
    BrierLoss,
    CrossEntropy,
    DiagonalMap,
    FullMap,
    Objective,
    QuadraticPenalty,
    RowSource,
    ScalarMap,
    StreamedRows,
    logits,
)
from calibrant.objective import source as source_module


@st.composite
def partitions(draw, max_rows=40, empty=True):
    """A number of rows and the ends of the batches that they come in; some batches are empty if allowed."""
    n_rows = draw(st.integers(1, max_rows))
    ends = st.integers(0, n_rows) if empty else st.integers(1, max(1, n_rows - 1))
    inner = draw(st.lists(ends, max_size=12, unique=not empty))
    return n_rows, [0, *sorted(end for end in inner if empty or end < n_rows), n_rows]


def arrays(n_rows, weighted, n_columns=3, dtype=np.float64):
    """Whole numbers, so that sums are exact in any order; all rows differ."""
    generator = np.random.default_rng(n_rows)
    features = generator.integers(-50, 50, (n_rows, n_columns)).astype(dtype)
    features[:, 0] = generator.permutation(n_rows)
    weights = generator.integers(1, 5, n_rows).astype(np.float64) if weighted else None
    return ArrayRows(features, generator.integers(0, n_columns, n_rows), weights)


def streamed(rows, edges):
    """The same rows in batches, and a list with an entry for every time that a batch was read."""
    read = []

    def batches():
        for start, stop in pairwise(edges):
            read.append((start, stop))
            yield rows.take(np.arange(start, stop))

    return StreamedRows(batches, rows.n_rows, rows.n_columns, rows.total_weight, rows.dtype), read


def assert_same_rows(found, wanted):
    assert_array_equal(found.features, wanted.features)
    assert_array_equal(found.labels, wanted.labels)
    assert found.features.dtype == wanted.features.dtype
    assert found.total_weight == wanted.total_weight
    if wanted.weights is None:
        assert found.weights is None
    else:
        assert_array_equal(found.weights, wanted.weights)


def moments(block):
    """Sums that see features, labels and weights, one after the other."""
    products = block.weighted(block.features * (1 + block.labels[:, np.newaxis]))
    return np.concatenate(
        [products.sum(axis=0), block.features.sum(axis=0), [len(block.labels), block.labels.sum()]]
    )


def sums_of(rows, contribution, width=3):
    with rows.passes(width) as summed:
        return summed(contribution)


@given(partition=partitions(), weighted=st.booleans(), dtype=st.sampled_from([np.float32, np.float64]))
def test_sums_are_the_same(partition, weighted, dtype):
    n_rows, edges = partition
    whole = arrays(n_rows, weighted, dtype=dtype)
    parts, read = streamed(whole, edges)
    with parts.passes(3) as summed:
        first, again = summed(moments), summed(moments)
    assert_array_equal(first, sums_of(whole, moments))
    assert_array_equal(again, first)
    assert read == 2 * list(pairwise(edges))


@given(partition=partitions(), weighted=st.booleans(), stride=st.integers(1, 45))
def test_every_so_many_rows_are_the_same(partition, weighted, stride):
    n_rows, edges = partition
    whole = arrays(n_rows, weighted)
    assert_same_rows(streamed(whole, edges)[0].every(stride), whole.every(stride))
    assert_array_equal(whole.every(stride).features, whole.features[::stride])


@pytest.mark.parametrize(
    "choose",
    [lambda rows: rows.every(7), lambda rows: rows.sample(5, lambda x: x[:, 0])],
    ids=["every", "sample"],
)
def test_chosen_rows_do_not_keep_their_batches_in_memory(choose):
    alive = []

    def read():
        for _ in range(6):
            batch = arrays(50, weighted=True)
            alive.extend(map(ref, (batch.features, batch.labels, batch.weights)))
            yield batch
            del batch
            assert sum(array() is not None for array in alive) <= 3

    choose(StreamedRows(read, 300, 3, 300.0, np.float64))
    assert len(alive) == 18


@given(partition=partitions(), weighted=st.booleans(), size=st.integers(1, 45))
def test_a_sample_is_the_same_set_of_rows(partition, weighted, size):
    """Those with the smallest keys, here the first column in an order of its own; the order of a sample is open."""
    n_rows, edges = partition
    whole = arrays(n_rows, weighted)

    def keys(features):
        return (features[:, 0] * 17) % 41  # different for up to 41 rows

    def in_order(rows):
        return rows.take(np.argsort(rows.features[:, 0]))

    found = in_order(streamed(whole, edges)[0].sample(size, keys))
    assert_same_rows(found, in_order(whole.sample(size, keys)))
    wanted = np.argsort(keys(whole.features))[:size]
    assert_same_rows(found, in_order(whole.take(wanted)))


@given(partition=partitions(), weighted=st.booleans(), size=st.integers(1, 45))
def test_a_sample_of_equal_keys_has_the_smallest(partition, weighted, size):
    n_rows, edges = partition
    whole = arrays(n_rows, weighted)

    def keys(features):
        return features[:, 0] // 4

    samples = (whole.sample(size, keys), streamed(whole, edges)[0].sample(size, keys))
    wanted = np.sort(keys(whole.features))[:size]
    for sample in samples:
        assert_array_equal(np.sort(keys(sample.features)), wanted)
        assert len(np.unique(sample.features[:, 0])) == len(wanted)  # no row twice


@given(partition=partitions(), weighted=st.booleans(), which=st.sampled_from(["features", "labels", "both"]))
def test_mapped_rows_are_the_same(partition, weighted, which):
    n_rows, edges = partition
    whole = arrays(n_rows, weighted)
    changes = {
        "features": {"features": lambda features: 2 * features[:, ::-1] + 1},
        "labels": {"labels": lambda labels: labels == 1},
    }
    changes["both"] = changes["features"] | changes["labels"]
    mapped, wanted = streamed(whole, edges)[0].mapped(**changes[which]), whole.mapped(**changes[which])
    assert_array_equal(sums_of(mapped, moments), sums_of(wanted, moments))
    assert_same_rows(mapped.every(1), wanted)
    again = mapped.mapped(features=lambda features: features - 3)
    assert_same_rows(again.every(2), wanted.mapped(features=lambda features: features - 3).every(2))


def test_mapped_rows_know_the_width_and_the_type_of_their_features():
    whole = arrays(20, weighted=False)

    def one_narrow_column(features):
        return features[:, :1].astype(np.float32)

    mapped = streamed(whole, [0, 7, 20])[0].mapped(features=one_narrow_column)
    wanted = whole.mapped(features=one_narrow_column)
    assert (mapped.n_columns, mapped.dtype) == (wanted.n_columns, wanted.dtype) == (1, np.float32)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", [CrossEntropy(), BrierLoss()], ids=["log", "brier"])
@pytest.mark.parametrize("kind", [ScalarMap, DiagonalMap, FullMap])
@given(partition=partitions())
def test_an_objective_is_the_same_with_and_without_storage(kind, loss, weighted, partition):
    """Rows in memory keep the softmax of every row for Hessian products; others compute it again."""
    n_rows, edges = partition
    whole = arrays(n_rows, weighted).mapped(features=lambda features: features / 20)
    parts, _ = streamed(whole, edges)
    logit_map = kind(3, True)
    penalty = QuadraticPenalty(np.full(logit_map.n_parameters, 0.1), logit_map.identity())
    in_memory, read_again = (Objective(loss, logit_map, rows, penalty) for rows in (whole, parts))
    theta = 0.8 * logit_map.identity()
    direction = np.linspace(-1, 1, logit_map.n_parameters)
    one, other = in_memory.expand(theta), read_again.expand(theta)
    assert other.states is None
    assert other.value == pytest.approx(one.value, rel=1e-12)
    assert_allclose(other.gradient, one.gradient, rtol=1e-10, atol=1e-13)
    assert_allclose(other.hessian_product(direction), one.hessian_product(direction), rtol=1e-9, atol=1e-13)
    assert_allclose(
        read_again.second_order(theta).hessian, in_memory.second_order(theta).hessian, rtol=1e-9, atol=1e-13
    )
    assert read_again.data_loss(theta) == pytest.approx(in_memory.data_loss(theta), rel=1e-12)
    if loss.fisher_is_hessian:
        for mine, theirs in zip(other.curvature().sums, one.curvature().sums, strict=True):
            assert_allclose(mine, theirs, rtol=1e-9, atol=1e-13)


def test_what_is_kept_of_a_block_is_computed_once_for_rows_in_memory(monkeypatch):
    monkeypatch.setattr(row_blocks, "BLOCK_BYTES", 240)  # ten rows of three numbers
    whole, computed = arrays(35, weighted=False), []

    def largest(block):
        return block.keep("largest", lambda: computed.append(block.rows) or block.features.max(axis=1)).sum()

    with whole.passes(3) as summed:
        assert summed(largest) == summed(largest) == whole.features.max(axis=1).sum()
    assert sorted(rows.start for rows in computed) == [0, 10, 20, 30]


def test_storage_is_used_again_once_it_is_given_back():
    whole = arrays(10, weighted=False)
    first = whole.storage((3,), np.float64)
    assert first.shape == (10, 3)
    assert whole.storage((3,), np.float64) is not first
    whole.recycle(first)
    assert whole.storage((2,), np.float64) is not first
    assert whole.storage((3,), np.float32) is not first
    assert whole.storage((3,), np.float64) is first


# Sources of labelled predictions


def labelled(n_rows=30, weighted=True, seed=0, zeros=False):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.ones(3), n_rows)
    if zeros:
        p[4] = [0.0, 0.3, 0.7]
    weights = generator.uniform(0.5, 2, n_rows) if weighted else None
    return p, generator.integers(0, 3, n_rows), weights


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@given(partition=partitions(max_rows=30, empty=False))
def test_batches_are_the_rows_in_memory(weighted, zeros, partition):
    """Also the floor that zeros count as, which depends on the smallest probability of all batches."""
    n_rows, edges = partition
    p, y, weights = (part if part is None else part[:n_rows] for part in labelled(30, weighted, zeros=zeros))
    batches = [
        (p[a:b], y[a:b]) if weights is None else (p[a:b], y[a:b], weights[a:b]) for a, b in pairwise(edges)
    ]
    source = RowSource.from_batches(batches)
    memory = ArraySource(LabelledPredictions.parse(p, y, weights))
    assert (source.n_rows, source.n_classes) == (memory.n_rows, memory.n_classes)
    assert_array_equal(source.classes, memory.classes)
    assert source.total_weight == pytest.approx(memory.total_weight, rel=1e-14)
    assert_allclose(source.class_weights, memory.class_weights, rtol=1e-14)
    assert source.first.predictions.floor == memory.first.predictions.floor
    assert_same_rows(source.features(logits).every(1), memory.features(logits))
    events = source.features(logits, labels=lambda labels: (labels == 1).astype(float))
    assert_array_equal(events.every(1).labels, y == 1)

    def scores(data):
        return (data.predictions.without_zeros().scores * data.labels[:, np.newaxis]).sum(axis=0)

    assert_allclose(source.summed(scores), memory.summed(scores), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("space", ["probabilities", "logits"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_memory_map_is_read_in_blocks(tmp_path, monkeypatch, space, weighted):
    monkeypatch.setattr(source_module, "BATCH_ENTRIES", 21)  # seven rows at a time
    p, y, weights = labelled(30, weighted)
    scores = p if space == "probabilities" else np.log(p) + 2
    np.save(tmp_path / "scores.npy", scores)
    mapped = np.load(tmp_path / "scores.npy", mmap_mode="r")
    source = RowSource.from_arrays(mapped, y, weights, space=space)
    parse = Predictions.from_probabilities if space == "probabilities" else Predictions.from_logits
    memory = ArraySource(LabelledPredictions.parse(parse(scores), y, weights))
    assert [data.n_rows for data in source.batches()] == [7, 7, 7, 7, 2]
    assert_same_rows(source.features(logits).every(1), memory.features(logits))


def test_weights_that_average_less_than_one_are_raised():
    """Of 30 rows with weights that sum to 3, each counts as ten times as much; larger weights stay."""
    p, y, _ = labelled(30)
    for make in (
        lambda weights: ArraySource(LabelledPredictions.parse(p, y, weights)),
        lambda weights: RowSource.from_batches(
            [(p[:11], y[:11], weights[:11]), (p[11:], y[11:], weights[11:])]
        ),
    ):
        counting = make(np.full(30, 0.1)).with_counting_weights()
        assert counting.total_weight == pytest.approx(30)
        assert_allclose(counting.features(logits).every(1).weights, 1.0)
        assert make(np.full(30, 2.0)).with_counting_weights().total_weight == pytest.approx(60)


def test_batches_with_and_without_weights_mix():
    """Rows without a weight count as one."""
    p, y, weights = labelled(30)
    source = RowSource.from_batches([(p[:11], y[:11]), (p[11:], y[11:], weights[11:])])
    expected = np.append(np.ones(11), weights[11:])
    assert_allclose(source.features(logits).every(1).weights, expected)
    assert source.total_weight == pytest.approx(expected.sum())


def test_names_of_classes_are_needed_where_labels_are_not_column_numbers():
    p, y, _ = labelled(30)
    y[:3] = [0, 1, 2]
    names = np.array(["ant", "bee", "cat"])
    batches = [(p[:11], names[y[:11]]), (p[11:], names[y[11:]])]
    source = RowSource.from_batches(batches, classes=names)
    assert_array_equal(source.classes, names)
    assert_array_equal(source.features(logits).every(1).labels, y)
    with pytest.raises(LabelError, match=r"pass classes=\[\.\.\.\]"):
        RowSource.from_batches(batches)


def test_batches_that_cannot_belong_together_are_refused():
    p, y, _ = labelled(30)
    with pytest.raises(PredictionError, match="there are no batches"):
        RowSource.from_batches([])
    with pytest.raises(PredictionError, match="batch 1 has 2 columns"):
        RowSource.from_batches([(p, y), ([[0.5, 0.5]], [0])])
    with pytest.raises(PredictionError, match="batch 1 has 3 columns of logits"):
        RowSource.from_batches([(p, y), (Predictions.from_logits(np.log(p)), y)])
    with pytest.raises(LabelError, match="30 rows of predictions but 29 labels"):
        RowSource.from_arrays(p, y[:-1])


def test_a_function_that_opens_the_batches_again_is_called_for_every_pass():
    p, y, _ = labelled(30)
    opened = []

    def open_again():
        opened.append(True)
        return iter([(p[:11], y[:11]), (p[11:], y[11:])])

    rows = RowSource.from_batches(open_again).features(logits)
    n_before = len(opened)
    assert sums_of(rows, lambda block: len(block.labels)) == 30
    assert len(opened) == n_before + 1

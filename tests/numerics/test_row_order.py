"""The column of the largest entry stays the largest, whatever rounding did to the others."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import rankdata

from calibrant.numerics import row_blocks
from calibrant.numerics.row_order import restore_argmax, restore_order
from data import load
from strategies import probability_matrices


def by_loops(values, columns):
    """The same by plain loops: raise the wanted entry to the largest, and above it if that comes earlier."""
    result = values.copy()
    for row, wanted in zip(result, columns, strict=True):
        largest = max(row)
        if list(row).index(largest) != wanted:
            earlier = largest in row[:wanted]
            row[wanted] = np.nextafter(largest, row.dtype.type(np.inf)) if earlier else largest
    return result


@given(data=st.data(), values=probability_matrices())
def test_it_does_what_the_loops_do_for_any_columns(data, values):
    n_rows, n_classes = values.shape
    columns = data.draw(hnp.arrays(np.intp, n_rows, elements=st.integers(0, n_classes - 1)))
    restored = values.copy()
    restore_argmax(restored, columns)
    assert restored.dtype == values.dtype
    np.testing.assert_array_equal(restored.argmax(axis=1), columns)
    np.testing.assert_array_equal(restored, by_loops(values, columns))


@given(values=probability_matrices())
def test_rows_that_have_their_largest_entry_where_it_should_be_are_not_touched(values):
    restored = values.copy()
    restore_argmax(restored, values.argmax(axis=1))
    np.testing.assert_array_equal(restored, values)


@given(
    logits=hnp.arrays(
        np.float64, (6, 4), elements=st.sampled_from([0.0, 1e-9, -1e-9, 3e-8, 1.0, 1 + 1e-8, 30.0])
    )
)
def test_an_increasing_map_rounded_to_float32_keeps_its_largest_and_its_sums(logits):
    """Leads of 1e-8 are lost in float32; what is restored is a rounding error of the sum."""
    exact = np.exp(logits)
    exact /= exact.sum(axis=1, keepdims=True)
    rounded = exact.astype(np.float32)
    before = rounded.copy()
    restore_argmax(rounded, exact.argmax(axis=1))
    np.testing.assert_array_equal(rounded.argmax(axis=1), exact.argmax(axis=1))
    assert ((rounded != before).sum(axis=1) <= 1).all()
    assert rounded == pytest.approx(before, rel=2.0**-23)
    assert rounded.max() <= 1


def test_a_tie_with_a_later_column_needs_no_raise():
    values = np.array([[0.2, 0.4, 0.4], [0.4, 0.2, 0.4]])
    restore_argmax(values, np.array([1, 2]))
    assert values[0].tolist() == [0.2, 0.4, 0.4]
    assert values[1].tolist() == [0.4, 0.2, np.nextafter(0.4, 1)]


@pytest.mark.parametrize("layout", ["rows first", "columns first", "every other column"])
def test_many_blocks_and_any_layout(layout, monkeypatch):
    monkeypatch.setattr(row_blocks, "BLOCK_BYTES", 256)
    generator = np.random.default_rng(0)
    values = generator.integers(0, 4, (500, 3)).astype(np.float32)
    columns = generator.integers(0, 3, 500)
    expected = by_loops(values, columns)
    given_values = {
        "rows first": values.copy(),
        "columns first": np.asfortranarray(values),
        "every other column": np.repeat(values, 2, axis=1)[:, ::2],
    }[layout]
    restore_argmax(given_values, columns)
    np.testing.assert_array_equal(given_values, expected)


def test_real_rows_flattened_until_float32_cannot_tell_them_apart():
    """At a temperature of a million all entries are a tenth, up to a few roundings."""
    probabilities = load("cifar_netcal/c10_wideresnet_16_4")["probs"]
    logits = np.log(probabilities.astype(np.float64)) * 1e-6
    flat = np.exp(logits)
    flat = (flat / flat.sum(axis=1, keepdims=True)).astype(np.float32)
    assert (flat.argmax(axis=1) != probabilities.argmax(axis=1)).any()
    restore_argmax(flat, probabilities.argmax(axis=1))
    np.testing.assert_array_equal(flat.argmax(axis=1), probabilities.argmax(axis=1))
    assert flat.sum(axis=1, dtype=np.float64) == pytest.approx(1, abs=1e-6)


def order_by_loops(values, reference):
    """From the smallest reference up, each entry at least one step above the one before, or equal to it."""
    result = values.copy()
    for row, wanted in zip(result, reference, strict=True):
        places = sorted(range(len(row)), key=lambda place: wanted[place])
        for before, place in itertools.pairwise(places):
            if wanted[place] == wanted[before]:
                row[place] = row[before]
            else:
                row[place] = max(row[place], np.nextafter(row[before], row.dtype.type(np.inf)))
    return result


@given(data=st.data(), reference=probability_matrices())
def test_order_and_ties_become_those_of_the_reference_by_the_smallest_steps(data, reference):
    kinds = st.sampled_from([np.float32, np.float64])
    steps = data.draw(hnp.arrays(np.int8, reference.shape, elements=st.integers(0, 3)))
    values = (steps / 8).astype(data.draw(kinds))
    restored = values.copy()
    restore_order(restored, reference)
    np.testing.assert_array_equal(restored, order_by_loops(values, reference))
    for row, wanted in zip(restored, reference, strict=True):
        np.testing.assert_array_equal(rankdata(row, "dense"), rankdata(wanted, "dense"))


@given(values=probability_matrices())
def test_rows_in_order_are_not_touched(values):
    restored = values.copy()
    restore_order(restored, values)
    np.testing.assert_array_equal(restored, values)


def test_the_smallest_floats_are_put_in_order_too():
    values = np.zeros((1, 4), dtype=np.float32)
    restore_order(values, np.array([[0.3, 0.1, 0.2, 0.4]]))
    np.testing.assert_array_equal(values.argsort(axis=1), [[1, 2, 0, 3]])

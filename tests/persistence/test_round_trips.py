"""What is loaded is what was saved, to the last bit."""

import json
import struct
import warnings
import zipfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from crafted_archives import members_of, three_of_four
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import NotFittedError

import calibrant
from calibrant import Chain, Predictions, TemperatureScaling, load, registry
from calibrant.calibrator import Calibrator
from calibrant.errors import CalibrationWarning
from calibrant.persistence.validation import probe_inputs
from calibrant.solvers import Solution, Status
from calibrant.space import Space


def random_problem(n_classes, n_rows=150):
    generator = np.random.default_rng(n_classes)
    probabilities = generator.dirichlet(np.full(n_classes, 0.8), n_rows)
    labels = (np.sqrt(probabilities) + generator.gumbel(size=probabilities.shape)).argmax(axis=1)
    labels[:n_classes] = np.arange(n_classes)
    return probabilities, labels


def fitted(calibrator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return calibrator.fit(X, y)


def state_of(calibrator):
    return {name: value for name, value in vars(calibrator).items() if name.endswith("_")}


def assert_same(first, second):
    """Compare types exactly and numbers by their bits, so that nan equals nan and -0.0 differs from 0.0."""
    assert type(first) is type(second)
    if isinstance(first, Calibrator):
        assert_same(first.get_params(deep=False), second.get_params(deep=False))
        assert_same(state_of(first), state_of(second))
    elif isinstance(first, Solution):
        for field in fields(first):
            assert_same(getattr(first, field.name), getattr(second, field.name))
    elif isinstance(first, list | tuple):
        assert len(first) == len(second)
        for pair in zip(first, second, strict=True):
            assert_same(*pair)
    elif isinstance(first, dict):
        assert_same(list(first), list(second))
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, np.ndarray):
        assert (first.dtype.str, first.shape) == (second.dtype.str, second.shape)
        assert first.tobytes() == second.tobytes()
    elif isinstance(first, np.generic) and not isinstance(first, np.str_):
        assert first.tobytes() == second.tobytes()
    elif isinstance(first, float):
        assert struct.pack("d", first) == struct.pack("d", second)
    else:
        assert first == second


def saved_and_loaded(calibrator, folder):
    path = Path(folder, "calibrator")
    calibrator.save(path)
    return load(path)


def value_of_attribute_after_round_trip(value, folder):
    calibrator = three_of_four()
    calibrator.example_ = value
    return saved_and_loaded(calibrator, folder).example_


@pytest.mark.parametrize("space", ["probabilities", "logits"])
@pytest.mark.parametrize("name", [*registry.calibrators(), "temperature+temperature"])
def test_every_calibrator_of_the_registry_comes_back_to_the_bit(name, space, tmp_path):
    calibrator = registry.make(name)
    X, y = random_problem(2 if calibrator.traits.binary_only else 3)
    if space == "logits":
        X = Predictions.from_logits(3 * np.log(X) + 1)
    fitted(calibrator, X, y)
    loaded = saved_and_loaded(calibrator, tmp_path)
    assert_same(loaded, calibrator)
    assert np.array_equal(loaded.predict_proba(X), calibrator.predict_proba(X))
    assert np.array_equal(loaded.predict(X), calibrator.predict(X))


@pytest.mark.parametrize("name", registry.calibrators())
def test_string_labels_absent_classes_and_float32_come_back_to_the_bit(name, tmp_path):
    calibrator = registry.make(name)
    n_classes, absent = (2, None) if calibrator.traits.binary_only else (4, 2)
    probabilities, codes = random_problem(n_classes)
    present = codes != absent
    names = np.array(["Ähre", "bee", "a much longer name", "日本"])[:n_classes]
    X = Predictions.from_probabilities(probabilities[present].astype(np.float32), classes=names)
    fitted(calibrator, X, names[codes[present]])
    loaded = saved_and_loaded(calibrator, tmp_path)
    assert_same(loaded, calibrator)
    predicted = loaded.predict_proba(X)
    assert predicted.dtype == np.float32
    assert np.array_equal(predicted, calibrator.predict_proba(X))
    assert loaded.classes_.tolist() == names.tolist()


def test_a_thousand_classes_make_a_small_file(tmp_path):
    """Five probe rows of 1000 float64, in and out, are 80 kB, the names 4 bytes a letter: 28 kB."""
    names = np.array([f"c{number:05}" for number in range(1000)])
    X = 0.5 * np.eye(1000)[np.arange(2000) % 1000] + 0.5 / 1000
    X[1000:] = np.roll(X[1000:], 1, axis=1)  # half of the rows are wrong
    calibrator = TemperatureScaling().fit(Predictions.from_probabilities(X, classes=names), np.tile(names, 2))
    assert_same(saved_and_loaded(calibrator, tmp_path), calibrator)
    assert (tmp_path / "calibrator").stat().st_size < 112_000


NUMBERS = (
    hnp.boolean_dtypes()
    | hnp.integer_dtypes()
    | hnp.unsigned_integer_dtypes()
    | hnp.floating_dtypes(sizes=(16, 32, 64))
)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)
ARRAYS = hnp.arrays(NUMBERS | hnp.unicode_string_dtypes(max_len=5), SHAPES)
SCALARS = NUMBERS.flatmap(lambda dtype: hnp.arrays(dtype, ()).map(lambda array: array[()]))
STATUSES = st.sampled_from(Status)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**1000), 2**1000)
    | st.floats()
    | st.text()
    | st.text().map(np.str_)
    | SCALARS
    | ARRAYS
    | STATUSES
    | st.sampled_from(Space)
    | st.builds(
        Solution, hnp.arrays(float, 2), *[st.floats()] * 4, *[st.integers()] * 2, st.sampled_from(Status)
    )
    | st.builds(TemperatureScaling, st.text(), st.tuples(st.floats(), st.floats()))
)
KEYS = (
    st.text()
    | st.booleans()
    | st.integers(-(2**64) + 1, 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([np.int64(7), np.uint8(200), np.float32(0.1), np.True_, np.str_("a")])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(), inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.builds(Chain, st.lists(inner, max_size=2))
    ),
    max_leaves=8,
)


@settings(max_examples=120)
@given(value=VALUES)
def test_any_value_that_can_be_stored_comes_back_to_the_bit(value, tmp_path_factory):
    """In a dict, which is a table about the fit, so that arrays may hold NaN."""
    table = {"value": value}
    assert_same(value_of_attribute_after_round_trip(table, tmp_path_factory.getbasetemp()), table)


@pytest.mark.parametrize(
    "value",
    [
        *[float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 0.1],
        *[struct.unpack(">d", bytes.fromhex(bits))[0] for bits in ("fff8000000000000", "7ff800000000abcd")],
        *[np.float32("nan"), np.float16(-0.0), np.int8(-1), np.True_, np.str_(""), np.str_("a\0")],
        *[np.zeros((0, 3)), np.array(["", "a\0b"]), np.array(1.5), np.arange(3, dtype=">i2")],
        *[
            [],
            (),
            {},
            ((),),
            [[None]],
            {"": {"tuple": [1]}},
            {"array": 0},
            {1: 2},
            {"1": {1: {}}, -0.0: []},
            "\0\n\U0001f41d",
        ],
    ],
    ids=repr,
)
def test_corner_values_come_back_to_the_bit(value, tmp_path):
    assert_same(value_of_attribute_after_round_trip(value, tmp_path), value)


def test_the_memory_order_of_arrays_is_kept(tmp_path):
    """Products of transposed matrices round differently."""
    columns_first = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    loaded = value_of_attribute_after_round_trip([columns_first, columns_first[:, ::2]], tmp_path)
    assert loaded[0].flags.f_contiguous
    assert not loaded[0].flags.c_contiguous
    np.testing.assert_array_equal(loaded[1], [[0, 2], [3, 5]])


def test_loaded_arrays_can_be_written_to(tmp_path):
    loaded = value_of_attribute_after_round_trip(np.zeros(3), tmp_path)
    loaded += 1
    assert loaded.tolist() == [1, 1, 1]


def test_memory_maps_are_stored_as_arrays(tmp_path):
    np.save(tmp_path / "numbers.npy", np.arange(4.0))
    mapped = np.load(tmp_path / "numbers.npy", mmap_mode="r")
    assert_same(value_of_attribute_after_round_trip(mapped, tmp_path), np.arange(4.0))


def test_nested_calibrators_may_be_fitted_or_not(tmp_path):
    chain = Chain((three_of_four(), TemperatureScaling("brier"))).fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])
    loaded = saved_and_loaded(chain, tmp_path)
    assert loaded.calibrators[0].temperature_ == pytest.approx(2, rel=1e-9)
    with pytest.raises(NotFittedError):
        loaded.calibrators[1].predict_proba([[0.9, 0.1]])
    assert_same(loaded, chain)


def test_the_path_is_used_as_given(tmp_path):
    three_of_four().save(str(tmp_path / "no suffix"))
    three_of_four().save(tmp_path / "a.b.c")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.b.c", "no suffix"]
    assert load(str(tmp_path / "no suffix")).classes_.tolist() == ["bee", "cat"]


def test_the_same_calibrator_gives_the_same_bytes(tmp_path):
    for name in ("first", "second"):
        three_of_four().save(tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_the_file_is_an_npz_with_a_readable_header(tmp_path):
    three_of_four().save(tmp_path / "calibrator.npz")
    header = json.loads(members_of(tmp_path / "calibrator.npz")["header.json"])
    assert header["schema_version"] == 2
    assert header["library_version"] == calibrant.__version__
    assert header["calibrator"]["class"] == "TemperatureScaling"
    assert header["calibrator"]["parameters"] == {
        "loss": "log",
        "bounds": {"tuple": [1e-3, 1e3]},
        "prior": None,
    }
    number = header["calibrator"]["state"]["classes_"]["array"]
    with np.load(tmp_path / "calibrator.npz", allow_pickle=False) as arrays:
        assert arrays[f"array_{number}"].tolist() == ["bee", "cat"]


def test_files_of_more_than_four_gigabytes_would_do(tmp_path, monkeypatch):
    """Zip64 is what they need; a lower limit makes small files need it too."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 64)
    three_of_four().save(tmp_path / "calibrator")
    monkeypatch.undo()
    assert b"PK\x06\x06" in (tmp_path / "calibrator").read_bytes()
    assert_same(load(tmp_path / "calibrator"), three_of_four())


@pytest.mark.parametrize("space", list(Space))
@pytest.mark.parametrize("n_classes", [2, 3, 10, 1000])
def test_probe_rows_are_valid_and_without_ties(n_classes, space):
    rows = probe_inputs(n_classes, space)
    assert rows.shape == (5, n_classes)
    assert all(len(np.unique(row)) == n_classes for row in rows)
    if space is Space.PROBABILITIES:
        np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-12)
        assert rows[0].max() < 1.2 / n_classes
        assert rows[3, 0] > 0.99

"""Tensors of other libraries, arrays of more than two axes, and data frames: what comes in and what goes out."""

import contextlib
import pickle
import sys
import types

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from calibrant import Chain, GaussianProcessCalibration, LabelledPredictions, Predictions, TemperatureScaling
from calibrant.errors import LabelError, MissingExtraError, ParameterError, PredictionError, WeightError
from calibrant.metrics import confidence_ece
from calibrant.metrics.declaration import declared_metrics

GENERATOR = np.random.default_rng(0)
LOGITS = GENERATOR.normal(0, 2, (60, 3))
LABELS = (0.6 * LOGITS + GENERATOR.gumbel(size=LOGITS.shape)).argmax(axis=1)
PROBABILITIES = Predictions.from_logits(LOGITS).probabilities
FITTED = TemperatureScaling().fit(PROBABILITIES, LABELS)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed; pip install torch")


@pytest.fixture
def jax_numpy():
    return pytest.importorskip("jax.numpy", reason="jax is not installed; pip install jax")


# Tensors


@pytest.mark.parametrize("name", declared_metrics())
def test_every_metric_of_tensors_is_that_of_their_numbers(name, torch):
    metric = declared_metrics()[name]
    scores = torch.tensor(LOGITS, requires_grad=True)
    weights = np.linspace(0.5, 1.5, len(LABELS))
    given = Predictions.from_logits(scores)
    measured = metric(torch.tensor(LABELS), given, sample_weight=torch.tensor(weights))
    expected = metric(LABELS, Predictions.from_logits(LOGITS), sample_weight=weights)
    np.testing.assert_array_equal(measured, expected)


def test_a_fit_to_tensors_is_that_to_their_numbers(torch):
    weights = np.linspace(0.5, 1.5, len(LABELS))
    tensors = [torch.tensor(array, requires_grad=array.dtype.kind == "f") for array in (LOGITS, weights)]
    fitted = TemperatureScaling().fit(
        Predictions.from_logits(tensors[0]), torch.tensor(LABELS), sample_weight=tensors[1]
    )
    expected = TemperatureScaling().fit(Predictions.from_logits(LOGITS), LABELS, sample_weight=weights)
    assert fitted.temperature_ == expected.temperature_


def test_logits_that_are_a_parameter_of_a_network(torch):
    parameter = torch.nn.Parameter(torch.tensor(LOGITS))
    calibrated = FITTED.predict_proba(Predictions.from_logits(parameter))
    np.testing.assert_array_equal(calibrated, FITTED.predict_proba(Predictions.from_logits(LOGITS)))


def test_calibrated_predictions_of_a_tensor_are_a_tensor_again(torch):
    once = FITTED.transform(torch.tensor(PROBABILITIES))
    assert type(FITTED.predict_proba(once)) is torch.Tensor
    assert type(once.probabilities) is np.ndarray


def test_integers_are_probabilities_of_float64(torch):
    calibrated = FITTED.predict_proba(torch.eye(3, dtype=torch.int64))
    assert calibrated.dtype == torch.float64


def test_probabilities_in_bfloat16_may_be_rounded_as_bfloat16_is(torch):
    """Each is off by up to 2^-9 of itself, and so is the sum, which would be refused in a longer type."""
    rows = torch.tensor([[0.3340, 0.3320, 0.3359]], dtype=torch.bfloat16)
    assert abs(float(rows.double().sum()) - 1) > 1e-3
    assert FITTED.predict_proba(rows).dtype == torch.bfloat16
    with pytest.raises(PredictionError, match=r"within 0\.001"):
        FITTED.predict_proba(rows.float())
    with pytest.raises(PredictionError, match=r"within 0\.0078125"):
        FITTED.predict_proba(rows * 1.1)


def test_numpy_float16_comes_back_as_float16():
    calibrated = FITTED.predict_proba(PROBABILITIES.astype(np.float16))
    assert calibrated.dtype == np.float16
    np.testing.assert_allclose(calibrated, FITTED.predict_proba(PROBABILITIES), atol=2e-3)


@pytest.mark.parametrize("type_name", ["float32", "float16", "bfloat16"])
def test_arrays_of_jax(jax_numpy, type_name):
    given = jax_numpy.asarray(LOGITS, dtype=type_name)
    calibrated = FITTED.predict_proba(Predictions.from_logits(given))
    assert type(calibrated) is type(given)
    assert (calibrated.dtype, calibrated.device) == (given.dtype, given.device)
    assert confidence_ece(jax_numpy.asarray(LABELS), calibrated) == pytest.approx(
        confidence_ece(LABELS, FITTED.predict_proba(Predictions.from_logits(LOGITS))), abs=0.02
    )


def test_an_array_that_leaves_its_device_only_when_asked(monkeypatch):
    """As CuPy's: ``get`` brings it to the host, and a device is entered to make one."""
    entered = []

    class Device(contextlib.AbstractContextManager):
        def __exit__(self, *_):
            entered.append(self)

    class Array:
        def __init__(self, content, device):
            self.content, self.device, self.dtype = content, device, content.dtype

        def __array__(self, *_, **__):
            raise TypeError("Implicit conversion to a NumPy array is not allowed.")

        def __array_namespace__(self):
            return cupy

        def get(self):
            return self.content

    device = Device()
    cupy = types.ModuleType("cupy")
    cupy.asarray = lambda array, dtype=None: Array(np.asarray(array, dtype), device)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    calibrated = FITTED.predict_proba(Array(PROBABILITIES, device))
    assert type(calibrated) is Array
    assert entered == [device]
    np.testing.assert_array_equal(calibrated.get(), FITTED.predict_proba(PROBABILITIES))


def test_out_is_for_rows_of_numpy(torch):
    out = np.empty_like(PROBABILITIES)
    assert FITTED.predict_proba(PROBABILITIES, out=out) is out
    with pytest.raises(ParameterError, match=r"out= takes rows of a NumPy array; pass X as one"):
        FITTED.predict_proba(torch.tensor(PROBABILITIES), out=out)


def test_predictions_of_a_tensor_can_be_pickled(torch):
    predictions = pickle.loads(pickle.dumps(Predictions.from_logits(torch.tensor(LOGITS))))
    assert type(FITTED.predict_proba(predictions)) is torch.Tensor


def test_intervals_of_tensors_are_rows(torch):
    fitted = GaussianProcessCalibration().fit(PROBABILITIES, LABELS)
    expected = fitted.predict_interval(PROBABILITIES)
    np.testing.assert_array_equal(fitted.predict_interval(torch.tensor(PROBABILITIES)), expected)


def test_what_comes_back_is_no_view_of_the_input(torch):
    """Nobody who writes to a result may change the predictions, or the tensor that they came as."""
    scores = torch.tensor(PROBABILITIES)
    given = Predictions.from_probabilities(scores)
    returned = given.as_given(given.probabilities)
    returned.zero_()
    np.testing.assert_array_equal(scores.numpy(), PROBABILITIES)


def test_tensors_without_numbers_are_refused_in_one_sentence(torch):
    for tensor in (torch.tensor(PROBABILITIES).to_sparse(), torch.tensor(PROBABILITIES, device="meta")):
        with pytest.raises(
            PredictionError, match=r"cannot be converted to an array; pass a dense tensor.*\.$"
        ):
            FITTED.predict_proba(tensor)


@pytest.mark.parametrize("type_name", ["float64", "bfloat16"])
def test_a_list_of_tensors(type_name, torch):
    """One tensor per row, as a loop over batches collects them."""
    dtype = getattr(torch, type_name)
    rows = [torch.tensor(row, dtype=dtype, requires_grad=True) for row in LOGITS]
    calibrated = FITTED.predict_proba(Predictions.from_logits(rows))
    expected = FITTED.predict_proba(Predictions.from_logits(torch.tensor(LOGITS).to(dtype).double().numpy()))
    np.testing.assert_allclose(calibrated, expected, atol=1e-6)
    assert confidence_ece([torch.tensor(label) for label in LABELS], calibrated) > 0


# More than two axes


IMAGES = np.moveaxis(LOGITS.reshape(3, 4, 5, 3), -1, 1)  # (B, K, H, W)
MASKS = LABELS.reshape(3, 4, 5)


@pytest.mark.parametrize("class_axis", [0, 1, 2, 3, -1, -4])
def test_the_classes_may_be_on_any_axis(class_axis):
    scores = np.moveaxis(IMAGES, 1, class_axis)
    given = Predictions.from_logits(scores, class_axis=class_axis)
    np.testing.assert_array_equal(given.scores, LOGITS)
    calibrated = FITTED.predict_proba(given)
    expected = FITTED.predict_proba(Predictions.from_logits(LOGITS)).reshape(3, 4, 5, 3)
    np.testing.assert_array_equal(calibrated, np.moveaxis(expected, -1, class_axis))


def test_images_as_tensors_give_images_and_masks(torch):
    given = Predictions.from_logits(torch.tensor(IMAGES), class_axis=1)
    fitted = TemperatureScaling().fit(given, torch.tensor(MASKS))
    assert fitted.predict_proba(given).shape == IMAGES.shape
    assert fitted.predict(given).shape == MASKS.shape
    assert (
        fitted.temperature_ == TemperatureScaling().fit(Predictions.from_logits(LOGITS), LABELS).temperature_
    )


def test_one_channel_is_the_positive_class_of_two():
    log_odds = LOGITS[:, :1].reshape(3, 1, 4, 5)
    fitted = TemperatureScaling().fit(Predictions.from_logits(log_odds[:, 0].reshape(-1)), LABELS == 0)
    calibrated = fitted.predict_proba(Predictions.from_logits(log_odds, class_axis=1))
    assert calibrated.shape == (3, 2, 4, 5)
    np.testing.assert_allclose(calibrated.sum(axis=1), 1)


def test_a_single_row_and_a_single_label():
    given = Predictions.from_logits(LOGITS[0], class_axis=0)
    assert FITTED.predict_proba(given).shape == (3,)
    assert LabelledPredictions.parse(given, LABELS[0]).labels.tolist() == [LABELS[0]]


def test_rows_with_a_class_axis_are_rows():
    assert Predictions.from_logits(LOGITS, class_axis=1).origin is None


def test_metrics_leave_ignored_positions_and_their_weights_out():
    masks = MASKS.copy()
    masks[:, 0] = 255
    weights = np.linspace(0, 2, masks.size).reshape(masks.shape)
    given = Predictions.from_logits(IMAGES, class_axis=1, ignore_label=255)
    counts = (masks != 255).reshape(-1)
    expected = confidence_ece(
        LABELS[counts], Predictions.from_logits(LOGITS[counts]), sample_weight=weights.reshape(-1)[counts]
    )
    assert confidence_ece(masks, given, sample_weight=weights) == expected


def test_rows_and_words_can_be_ignored_too():
    words = np.array(["ant", "bee", "cat", "?"])[np.where(np.arange(60) < 9, 3, LABELS)]
    given = Predictions.from_probabilities(PROBABILITIES, ignore_label="?")
    assert LabelledPredictions.parse(given, words).n_rows == 51
    assert TemperatureScaling().fit(given, words).classes_.tolist() == ["ant", "bee", "cat"]
    # A word is no label of numbers, and nothing is left out.
    assert LabelledPredictions.parse(given, LABELS).n_rows == 60


def test_the_ignored_label_may_be_a_class():
    """Its column stays, and has no rows."""
    given = Predictions.from_probabilities(PROBABILITIES, ignore_label=0)
    assert LabelledPredictions.parse(given, LABELS).class_weights[0] == 0


REFUSED = {
    "labels of another shape": (
        lambda given: confidence_ece(MASKS[:, :2], given),
        LabelError,
        r"labels must have the shape \(3, 4, 5\).*but have shape \(3, 2, 5\); pass one",
    ),
    "weights of another shape": (
        lambda given: confidence_ece(MASKS, given, sample_weight=np.ones((3, 4))),
        WeightError,
        r"sample_weight must have the shape \(3, 4, 5\).*\(3, 4\)",
    ),
    "all are ignored": (
        lambda given: confidence_ece(np.full_like(MASKS, 255), given),
        LabelError,
        r"all 60 labels are the ignore_label 255; at least one",
    ),
    "weight only on ignored ones": (
        lambda given: confidence_ece(
            np.where(np.arange(60).reshape(MASKS.shape) < 1, 255, MASKS),
            given,
            sample_weight=(np.arange(60) < 1).reshape(MASKS.shape),
        ),
        WeightError,
        r"zero for every row",
    ),
    "no such axis": (
        lambda _: Predictions.from_logits(IMAGES, class_axis=4),
        PredictionError,
        r"class_axis must be one of the 4 axes.*but is 4",
    ),
    "axis by name": (
        lambda _: Predictions.from_logits(IMAGES, class_axis="K"),
        PredictionError,
        r"but is 'K'",
    ),
    "no axis": (
        lambda _: Predictions.from_logits(IMAGES),
        PredictionError,
        r"have shape \(3, 3, 4, 5\); for more axes pass Predictions.from_logits\(x, class_axis=",
    ),
    "no rows": (
        lambda _: Predictions.from_logits(IMAGES[:0], class_axis=1),
        PredictionError,
        r"are empty, of shape \(0, 3, 4, 5\)",
    ),
    "ignored positions without numbers": (
        lambda _: Predictions.from_logits(
            np.where(IMAGES > 2, np.nan, IMAGES), class_axis=1, ignore_label=255
        ),
        PredictionError,
        r"logits must be finite, .* rows with the ignore_label need numbers too, such as zeros",
    ),
    "ignored rows without numbers": (
        lambda _: Predictions.from_probabilities(np.full((2, 3), np.nan), ignore_label=255),
        PredictionError,
        r"rows with the ignore_label need numbers too, such as equal probabilities",
    ),
    "half a label": (
        lambda _: Predictions.from_logits(IMAGES, class_axis=1, ignore_label=0.5),
        PredictionError,
        r"ignore_label must be an integer or a string, not 0\.5",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_in_one_sentence(case):
    act, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        act(Predictions.from_logits(IMAGES, class_axis=1, ignore_label=255))


# Data frames


@pytest.fixture
def calibrator():
    return clone(FITTED).fit(PROBABILITIES, LABELS)


def frames(names=("p_ant", "p_bee", "p_cat"), n_rows=60):
    index = [f"row {i}" for i in range(n_rows)]
    rows = PROBABILITIES[:n_rows]
    return pd.DataFrame(rows, index=index, columns=list(names)), pl.DataFrame(rows, list(names), orient="row")


def test_the_default_is_an_array(calibrator):
    for setting in (None, "default"):
        calibrator.set_output(predict_proba=setting)
        for frame in frames():
            assert type(calibrator.predict_proba(frame)) is np.ndarray


@pytest.mark.parametrize("n_rows", [60, 3])
def test_the_same_frame_comes_back(calibrator, n_rows):
    """Three rows of three columns: no frame may take rows for columns."""
    expected = calibrator.predict_proba(PROBABILITIES[:n_rows])
    calibrator.set_output(predict_proba="same")
    assert type(calibrator.predict_proba(PROBABILITIES)) is np.ndarray
    for frame in frames(n_rows=n_rows):
        calibrated = calibrator.predict_proba(frame)
        assert type(calibrated) is type(frame)
        assert list(calibrated.columns) == list(frame.columns)
        np.testing.assert_array_equal(calibrated.to_numpy(), expected)
        if isinstance(frame, pd.DataFrame):
            assert calibrated.index.equals(frame.index)


def test_a_table_of_pyarrow(calibrator):
    """As DuckDB returns: its names are those of the columns, in their order, and it comes back as a table."""
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed; pip install pyarrow")
    table = arrow.table(dict(zip(["ant", "bee", "cat"], PROBABILITIES.T, strict=True)))
    calibrator.fit(table, np.array(["ant", "bee", "cat"])[LABELS])
    with pytest.raises(PredictionError, match="column 0 is class 'bee', but in fit it was 'ant'"):
        calibrator.predict_proba(table.select(["bee", "ant", "cat"]))
    expected = calibrator.predict_proba(PROBABILITIES)
    np.testing.assert_array_equal(calibrator.predict_proba(table), expected)
    calibrated = calibrator.set_output(predict_proba="same").predict_proba(table)
    assert (type(calibrated), calibrated.column_names) == (arrow.Table, table.column_names)
    np.testing.assert_array_equal(np.column_stack([np.asarray(column) for column in calibrated]), expected)
    with pytest.raises(PredictionError, match="empty"):
        Predictions.from_logits(arrow.table({}))


@pytest.mark.parametrize(("name", "library"), [("pandas", pd), ("polars", pl)])
def test_any_rows_as_a_frame(calibrator, name, library):
    calibrator.set_output(predict_proba=name)
    from_array = calibrator.predict_proba(PROBABILITIES.astype(np.float32))
    assert isinstance(from_array, library.DataFrame)
    assert [str(column) for column in from_array.columns] == ["0", "1", "2"]
    assert from_array.to_numpy().dtype == np.float32
    for frame in frames():
        assert list(calibrator.predict_proba(frame).columns) == ["p_ant", "p_bee", "p_cat"]


def test_columns_of_pandas_keep_names_that_are_no_text(calibrator):
    frame = pd.DataFrame(PROBABILITIES, columns=[7, 8, 9])
    calibrated = calibrator.set_output(predict_proba="same").predict_proba(frame)
    assert calibrated.columns.tolist() == [7, 8, 9]


def test_a_column_of_the_positive_class_becomes_one_per_class():
    frame = pd.DataFrame({"p": PROBABILITIES[:, 0]}, index=np.arange(60)[::-1])
    words = np.array(["no", "yes"])[(LABELS == 0).astype(int)]
    fitted = TemperatureScaling().fit(frame, words).set_output(predict_proba="same")
    calibrated = fitted.predict_proba(frame)
    assert calibrated.columns.tolist() == ["no", "yes"]
    assert calibrated.index.equals(frame.index)


def test_logits_in_a_frame_and_some_of_its_rows(calibrator):
    frame = pd.DataFrame(LOGITS, index=range(100, 160))
    calibrator.set_output(predict_proba="same")
    given = Predictions.from_logits(frame)
    assert calibrator.predict_proba(given).index.equals(frame.index)
    assert calibrator.predict_proba(given.take(slice(5))).index.tolist() == list(range(5))


def test_clones_keep_the_choice_and_chains_need_none(calibrator):
    calibrator.set_output(predict_proba="pandas")
    copy = clone(calibrator).fit(PROBABILITIES, LABELS)
    assert isinstance(copy.predict_proba(PROBABILITIES), pd.DataFrame)
    chain = Chain([calibrator, TemperatureScaling()]).fit(PROBABILITIES, LABELS)
    assert type(chain.predict_proba(PROBABILITIES)) is np.ndarray


def test_a_calibrator_that_gives_frames_can_be_saved(calibrator, tmp_path):
    calibrator.set_output(predict_proba="pandas").save(tmp_path / "calibrator.npz")


def test_outputs_that_do_not_exist_are_refused(calibrator):
    with pytest.raises(ParameterError, match=r"predict_proba must be one of .*'polars'\), not 'arrow'"):
        calibrator.set_output(predict_proba="arrow")
    with pytest.raises(ParameterError, match=r"transform of TemperatureScaling returns Predictions"):
        calibrator.set_output(transform="pandas")
    assert calibrator.set_output(transform="default") is calibrator
    calibrator.set_output(predict_proba="pandas")
    with pytest.raises(ParameterError, match=r"shape \(3, 3, 4, 5\) cannot be a data frame; pass rows"):
        calibrator.predict_proba(Predictions.from_logits(IMAGES, class_axis=1))


def test_a_frame_without_narwhals(calibrator, monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    calibrator.set_output(predict_proba="polars")
    with pytest.raises(MissingExtraError, match=r"narwhals is required.*calibrant\[frames\]"):
        calibrator.predict_proba(PROBABILITIES)


# Properties


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    class_axis=st.integers(0, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_axes_come_back_as_they_were(shape, class_axis, seed):
    """Rows in the order of the labels' own ``reshape(-1)``, and the same numbers in the same places afterwards."""
    class_axis %= len(shape)
    shape[class_axis] = max(shape[class_axis], 2)
    scores = np.random.default_rng(seed).normal(size=shape)
    predictions = Predictions.from_logits(scores, class_axis=class_axis, allow_probabilities=True)
    np.testing.assert_array_equal(predictions.as_given(predictions.scores), scores)
    largest = scores.argmax(axis=class_axis).reshape(-1)
    np.testing.assert_array_equal(predictions.predicted, largest)

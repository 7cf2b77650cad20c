"""NPZ files: arrays by usual names or by choice, mapped from the disk, never unpickled."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from calibrant.errors import FileFormatError, LabelError, PredictionError
from calibrant.space import Space
from calibrant.tables import open_source, read_predictions, rewrite

P = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])


@pytest.mark.parametrize("name", ["probs", "probabilities", "p", "anything"])
def test_the_array_of_probabilities_is_found_by_a_usual_name_or_by_its_shape(tmp_path, name):
    np.savez(tmp_path / "a.npz", **{name: P}, y=[0, 1, 1])
    assert_array_equal(read_predictions(tmp_path / "a.npz", space="probabilities").predictions.scores, P)


def test_of_two_arrays_the_space_chooses(tmp_path):
    np.savez(tmp_path / "a.npz", probs=P, logits=10 * P, y=[0, 1, 1])
    assert_array_equal(read_predictions(tmp_path / "a.npz", space="logits").predictions.scores, 10 * P)


def test_an_array_can_be_chosen(tmp_path):
    np.savez(tmp_path / "a.npz", probs=P, other=P[::-1], y=[0, 1, 1])
    table = read_predictions(tmp_path / "a.npz", space="probabilities", columns="other")
    assert_array_equal(table.predictions.scores, P[::-1])


def test_several_arrays_without_a_usual_name_must_be_chosen_among(tmp_path):
    np.savez(tmp_path / "a.npz", first=P, second=P, y=[0, 1, 1])
    with pytest.raises(
        PredictionError, match="which array has the probabilities; there are 'first' and 'second'"
    ):
        read_predictions(tmp_path / "a.npz", space="probabilities")


def test_one_score_per_row_is_the_positive_class(tmp_path):
    np.savez(tmp_path / "a.npz", p=P[:, 1], y=[0, 1, 1])
    assert_array_equal(read_predictions(tmp_path / "a.npz", space="probabilities").predictions.scores, P)


def test_names_of_classes_can_be_in_the_file(tmp_path):
    np.savez(tmp_path / "a.npz", probs=P, y=np.array(["no", "yes", "no"]), classes=np.array(["yes", "no"]))
    table = read_predictions(tmp_path / "a.npz", space="probabilities")
    assert table.predictions.classes.tolist() == ["yes", "no"]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_come_back_in_their_type_stored_or_compressed(tmp_path, save, order, dtype):
    path, output = tmp_path / "a.npz", tmp_path / "b.npz"
    save(path, probs=np.asarray(P, dtype=dtype, order=order), y=[0, 1, 1], other=np.array(["x"]))
    with open_source(path) as source:
        columns = source.score_columns(None, ["y"], Space.PROBABILITIES)
        is_mapped = isinstance(source.array("probs"), np.memmap)
        assert is_mapped == (save is np.savez)
        rewrite(source, output, columns, Space.PROBABILITIES, lambda p: p.probabilities, n_rows=2)
    with np.load(path, allow_pickle=False) as old, np.load(output, allow_pickle=False) as new:
        assert sorted(old.files) == sorted(new.files)
        for name in old.files:
            assert_array_equal(old[name], new[name])
            assert old[name].dtype == new[name].dtype


def test_python_objects_are_never_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", probs=P, y=np.array(["a", 1, None], dtype=object))
    with pytest.raises(FileFormatError, match="the array 'y' holds Python objects, which are never loaded"):
        read_predictions(tmp_path / "a.npz", space="probabilities")


def test_arrays_of_different_lengths_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", probs=P, y=[0, 1])
    with pytest.raises(FileFormatError, match=r"'probs' and 'y' have the shapes \(3, 2\) and \(2,\)"):
        read_predictions(tmp_path / "a.npz", space="probabilities")


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"probs": P[:0], "y": [0, 1][:0]}, "has shape"),
        ({"probs": np.where(P == 1, np.nan, P), "y": [0, 1, 1]}, r"row 3 \(index 2\), column 0 has no value"),
        ({"probs": 2 * P, "y": [0, 1, 1]}, r"row 1 \(index 0\), column 1 is 1.5"),
        ({"probs": P[:, :, None], "y": [0, 1, 1]}, r"it must be \(rows, classes\)"),
        ({"probs": P.astype(str), "y": [0, 1, 1]}, "of type <U"),
        ({"probs": P, "y": [[0, 1]] * 3}, r"'y' has shape \(3, 2\)"),
        ({"probs": P, "y": [0, 0.5, 1]}, r"row 2 \(index 1\), array 'y' is 0.5"),
        ({"probs": P, "y": np.array([0j, 1, 1])}, "of type complex"),
    ],
)
def test_what_is_wrong_is_named_by_row_and_index(tmp_path, arrays, sentence):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises((LabelError, PredictionError), match=sentence):
        read_predictions(tmp_path / "a.npz", space="probabilities", columns="probs")
